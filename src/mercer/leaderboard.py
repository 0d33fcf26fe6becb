"""The leaderboard: what linear, maps, exact kernels and trees make of some rows, best first, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sklearn.base import clone

from mercer.kernels import Kernel

KINDS = ("linear", "map", "exact", "outside")


@dataclass(frozen=True, eq=False)
class Entry:
    """One row of the table.

    Attributes
    ----------
    name : str
        "linear", "fourier gamma=0.11", "exact Gaussian(0.11)", "gradient boosting": no two entries have the same.
    kind : {"linear", "map", "exact", "outside"}
        Only the first two can win.
    model : estimator or None
        Not fitted; None for exact kernels.
    kernel : Kernel or None
        The exact one, or the one that is approximated.
    score, spread : float
        Accuracy or R^2, and its standard error: over the folds for finalists, otherwise over the held-out rows of the last round.
    rows : int
        Rows that it was trained on when it was scored.
    rounds : int
        Rounds that it took part in.
    finalist : bool
        Whether the score is that of cross-validation, on rows that nothing was selected by.
    gram_error : float or None
        Root mean square over pairs of held-out rows, relative; None where nothing is approximated.
    features : int
    bytes_per_row : float
        Of the features, as the map stores them.
    fit_seconds, predict_seconds : float
        Of one fit, and of predicting one fold or the held-out rows.
    """

    name: str
    kind: str
    model: Any
    kernel: Kernel | None
    score: float
    spread: float
    rows: int
    rounds: int
    finalist: bool
    gram_error: float | None
    features: int
    bytes_per_row: float
    fit_seconds: float
    predict_seconds: float


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """What ``select`` has found.

    Attributes
    ----------
    entries : tuple of Entry
        Best first: finalists, then the others by the round they reached.
    verdict : str
        One sentence.
    numeric : bool
        Whether scores are R^2; accuracy otherwise.
    rows, columns : int
        Of the data.
    seconds : float
        That were spent.
    stopped : str or None
        What the time limit has cut off.
    refused : dict
        Why a map took no part, by its name.
    settings : dict
        What is needed to run it again.
    notes : tuple of str
        What the models have warned of.
    """

    entries: tuple[Entry, ...]
    verdict: str
    numeric: bool
    rows: int
    columns: int
    seconds: float
    winner: Entry
    stopped: str | None = None
    refused: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def best_(self) -> Any:
        """The winner's model, not fitted: a KernelClassifier or KernelRegressor."""
        return clone(self.winner.model)

    def __str__(self) -> str:
        """The table as text, and the verdict."""
        names = (
            "model",
            "R^2" if self.numeric else "accuracy",
            "+-",
            "Gram err",
            "features",
            "B/row",
            "fit s",
            "pred s",
        )
        lines = [names, *(shown(entry, numeric=self.numeric) for entry in self.entries)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        texts = [
            " ".join(word.ljust(width) if i == 0 else word.rjust(width) for i, (word, width) in enumerate(pairs))
            for pairs in (list(zip(line, widths, strict=True)) for line in lines)
        ]
        return "\n".join([*texts, self.verdict, *([self.stopped] if self.stopped else [])])


def shown(entry: Entry, *, numeric: bool) -> tuple[str, ...]:
    """An entry as the words of its row."""
    score = f"{entry.score:.4f}" if numeric else f"{entry.score:.2%}"
    spread = f"{entry.spread:.4f}" if numeric else f"{entry.spread:.2%}"
    error = "-" if entry.gram_error is None else f"{entry.gram_error:.2%}" if entry.gram_error < 10 else "> 1000%"
    return (
        entry.name,
        score,
        spread,
        error,
        f"{entry.features:,}",
        f"{entry.bytes_per_row:,.0f}",
        f"{entry.fit_seconds:.3f}",
        f"{entry.predict_seconds:.3f}",
    )
