"""Records of a paper's experiments, of measurements, and the rules that compare the two."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from experiments.running import Bench

SIZES = ("quick", "standard", "full")

_DIGITS = 6  # of a stored number


@dataclass(frozen=True)
class Measured:
    """A measured number: the mean over draws, and its cost.

    Attributes
    ----------
    mean : float
        In the unit of the published number; accuracies are in per cent.
    spread : float or None
        Standard deviation over draws (divided by draws - 1); None for a single draw.
    draws : int
    seconds, features, bytes : float or None
        Of one draw: what the table times, columns of the features, bytes kept for a row.
    """

    mean: float
    spread: float | None = None
    draws: int = 1
    seconds: float | None = None
    features: float | None = None
    bytes: float | None = None

    @classmethod
    def of(cls, values: Sequence[float], **costs: float | None) -> Self:
        """Summarize one value for each draw."""
        return cls(fmean(values), stdev(values) if len(values) > 1 else None, len(values), **costs)

    def to_json(self) -> dict[str, Any]:
        """Return JSON values; None is omitted."""
        return {
            name: value if isinstance(value, int) else float(f"{value:.{_DIGITS}g}")
            for name, value in asdict(self).items()
            if value is not None
        }


@dataclass(frozen=True)
class Rule:
    """The condition under which a measured number agrees with the published one.

    name     agrees when
    split    |ours - published| <= points (1), the split being the paper's
    random   the same with points = 2.5, the split being a random one
    order    no other row of the column is in the wrong order with it. Two rows are in the wrong
    order when the published ones differ by
             more than ``ties``, and ours the other way round by more than the root of the sum of
             squares of their spreads
    none     never asked: ``reason`` says why they are not comparable
    """

    name: str
    points: float = 0.0
    ties: float = 0.0
    reason: str = ""


SPLIT = Rule("split", points=1.0)
RANDOM = Rule("random", points=2.5)


def order(ties: float = 0.0) -> Rule:
    """Compare the order of the rows of a column; published differences up to ``ties`` are ties."""
    return Rule("order", ties=ties)


def not_comparable(reason: str) -> Rule:
    """Give no verdict: the numbers are only shown."""
    return Rule("none", reason=reason)


@dataclass(frozen=True)
class Cell:
    """The unit of work that is run and stored: some columns of one row of a table.

    Attributes
    ----------
    label : str
        The row.
    columns : tuple of str
        All columns that ``run`` may fill; a small size may fill fewer.
    run : function of a Bench, which gives {column: Measured}; or None for data that cannot be had
    published : {column: number}
    needs : tuple of str
        Data sets, by the names of their files.
    ours : bool
        The paper has no such row: a variant of ours.
    absent : str
        With run=None, why there is no number of ours.
    rule : Rule or None
        In place of the experiment's.
    note : str
        One line: why it misses, where it does.
    """

    label: str
    columns: tuple[str, ...]
    run: Callable[[Bench], Mapping[str, Measured]] | None = None
    published: Mapping[str, float] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    ours: bool = False
    absent: str = ""
    rule: Rule | None = None
    note: str = ""


@dataclass(frozen=True)
class Picture:
    """An SVG of an experiment: "lines", a curve per row, or "heat", numbers as colours.

    x is "column" (the number in a column's name), "features", "seconds" or "bytes"; log has the
    axes that are logarithmic, "", "x", "y" or "xy".
    """

    x_label: str
    y_label: str
    x: str = "column"
    log: str = ""
    kind: str = "lines"


@dataclass(frozen=True)
class Experiment:
    """A table or figure of a paper.

    Attributes
    ----------
    key : str
        "chi2/table1": the paper, then a name of its own.
    title, source : str
        What it is, and where in the paper: "Table 1".
    cells : tuple of Cell
    rule : Rule
    unit : str
        Of its numbers, such as "accuracy, %".
    about : str
        What was done, in a few sentences: data, split, learner, sizes.
    picture : Picture or None
    table : bool
        Whether the page shows the numbers too, or the picture only.
    form : str
        Of a number: a format of Python.
    version : int
        Raised when what the cells compute changes: results of older versions are not used.
    """

    key: str
    title: str
    source: str
    cells: tuple[Cell, ...]
    rule: Rule
    unit: str = "accuracy, %"
    about: str = ""
    picture: Picture | None = None
    table: bool = True
    form: str = ".2f"
    version: int = 1

    def key_of(self, cell: Cell) -> str:
        """Return the key of a cell's numbers in the file of results."""
        return f"{self.key}/{cell.label}/{cell.columns[0]}"

    @property
    def labels(self) -> list[str]:
        """Labels of the rows, in order."""
        return list(dict.fromkeys(cell.label for cell in self.cells))

    @property
    def columns(self) -> list[str]:
        """Columns, in the order in which cells name them."""
        return list(dict.fromkeys(column for cell in self.cells for column in cell.columns))


@dataclass(frozen=True)
class Paper:
    """A paper: its name on the command line, title, citation and experiments."""

    name: str
    title: str
    citation: str
    experiments: tuple[Experiment, ...]
    about: str = ""
