"""Run cells one after the other; each result is written before the next one starts."""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from experiments.records import SIZES, Cell, Experiment, Measured, Paper
from experiments.sets import Sets
from mercer import __version__
from mercer.persistence.atomic_write import open_atomic

_FORMAT = 1

T = TypeVar("T")


@dataclass(frozen=True)
class Bench:
    """Environment of a cell: the size of the run, and the data sets."""

    size: str
    sets: Sets

    def pick(self, quick: T, standard: T, full: T) -> T:
        """Return the value for the size of the run."""
        return dict(zip(SIZES, (quick, standard, full), strict=True))[self.size]


@dataclass(frozen=True)
class Outcome:
    """The numbers of a cell, and when and how they were measured."""

    version: int
    figures: Mapping[str, Measured]
    seconds: float
    date: str
    mercer: str
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            **vars(self),
            "figures": {column: one.to_json() for column, one in self.figures.items()},
        }

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> Outcome:
        figures = {column: Measured(**one) for column, one in kept["figures"].items()}
        return cls(**{**kept, "figures": figures, "notes": tuple(kept["notes"])})


@dataclass
class Results:
    """{size: {key of a cell: Outcome}} and the machine of the last run, in one JSON file.

    The file is replaced atomically.
    """

    path: Path | None = None
    machine: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, dict[str, Outcome]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Results:
        """Read a file of results; empty where there is no file yet."""
        if not path.exists():
            return cls(path)
        try:
            kept = json.loads(path.read_text())
            if kept["format"] != _FORMAT:
                raise ValueError(f"{path.name} has format {kept['format']}, and this is {_FORMAT}.")
            sizes = {
                size: {key: Outcome.from_json(one) for key, one in cells.items()}
                for size, cells in kept["sizes"].items()
            }
            return cls(path, kept["machine"], sizes)
        except (
            KeyError,
            TypeError,
            AttributeError,
            UnicodeDecodeError,
            json.JSONDecodeError,
        ) as error:
            raise ValueError(
                f"{path.name} is not a file of results ({error!r}): give another name by --out, "
                "or remove it."
            ) from error

    def write(self) -> None:
        """Write the file atomically; nothing without a path."""
        if self.path is None:
            return
        kept = {
            "format": _FORMAT,
            "machine": self.machine,
            "sizes": {
                size: {key: cells[key].to_json() for key in sorted(cells)}
                for size, cells in sorted(self.sizes.items())
            },
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open_atomic(self.path) as file:
            file.write((json.dumps(kept, indent=1) + "\n").encode())

    def get(self, size: str, experiment: Experiment, cell: Cell) -> Outcome | None:
        """Return the outcome of a cell, where it is of the experiment's version."""
        found = self.sizes.get(size, {}).get(experiment.key_of(cell))
        return found if found is not None and found.version == experiment.version else None

    def keep(self, size: str, key: str, outcome: Outcome) -> None:
        """Add an outcome, and write the file."""
        self.sizes.setdefault(size, {})[key] = outcome
        self.write()


@dataclass(frozen=True)
class Task:
    """A cell that is still to be run."""

    experiment: Experiment
    cell: Cell

    @property
    def key(self) -> str:
        return self.experiment.key_of(self.cell)


def cells(papers: Iterable[Paper]) -> Iterator[Task]:
    """Return all cells, in order."""
    for paper in papers:
        for experiment in paper.experiments:
            for cell in experiment.cells:
                yield Task(experiment, cell)


def why_absent(cell: Cell, sets: Sets) -> str:
    """Return the reason why a cell cannot be run; "" when it can."""
    if cell.run is None:
        return cell.absent
    return "; ".join(filter(None, map(sets.why_absent, cell.needs)))


def to_do(papers: Iterable[Paper], size: str, sets: Sets, results: Results) -> list[Task]:
    """Return the cells whose data are available and whose numbers are missing."""
    return [
        task
        for task in cells(papers)
        if results.get(size, task.experiment, task.cell) is None and not why_absent(task.cell, sets)
    ]


def run_cell(task: Task, bench: Bench) -> Outcome:
    """Run a cell and validate its numbers; warnings are stored as notes."""
    if task.cell.run is None:
        raise ValueError(f"{task.key} cannot be run: {task.cell.absent}")
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        figures = dict(task.cell.run(bench))
    seconds = round(time.perf_counter() - start, 3)
    strange = [column for column in figures if column not in task.cell.columns]
    if strange or not figures:
        raise ValueError(
            f"{task.key} gave the columns {list(figures)}, of {list(task.cell.columns)}."
        )
    for column, one in figures.items():
        if not math.isfinite(one.mean):
            raise ValueError(f"{task.key} gave {one.mean} for {column!r}.")
    notes = tuple(dict.fromkeys(str(one.message) for one in caught))
    return Outcome(
        task.experiment.version,
        figures,
        seconds,
        datetime.now(UTC).date().isoformat(),
        __version__,
        notes,
    )


def run(
    tasks: Iterable[Task],
    bench: Bench,
    results: Results,
    watch: Callable[[Task, Outcome | Exception], None] = lambda task, outcome: None,
) -> dict[str, Exception]:
    """Run and store cells; an error is passed to ``watch``, and the other cells are run.

    Errors are returned by key.
    """
    from mercer.system import describe_system

    failed: dict[str, Exception] = {}
    machine = describe_system()
    for task in tasks:
        try:
            outcome = run_cell(task, bench)
        except (ValueError, ArithmeticError, MemoryError, LookupError) as error:
            failed[task.key] = error
            watch(task, error)
        else:
            results.machine = machine
            results.keep(bench.size, task.key, outcome)
            watch(task, outcome)
    return failed
