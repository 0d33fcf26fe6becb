"""Compare published with measured numbers: table rows with verdicts by their rules."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from experiments.records import Cell, Experiment, Measured, Paper, Rule
from experiments.running import Results

AGREES, MISSES, ASIDE, OURS, ABSENT, NOT_RUN = (
    "agrees",
    "misses",
    "not comparable",
    "-",
    "absent",
    "not run",
)


@dataclass(frozen=True)
class Row:
    """A line of a table.

    own says that the paper has no such row; verdict is one of those above; reason says why it is
    absent, not comparable, or in which way it misses; note, why it misses.
    """

    label: str
    column: str
    published: float | None
    ours: Measured | None
    rule: Rule
    own: bool = False
    verdict: str = OURS
    reason: str = ""
    note: str = ""

    @property
    def difference(self) -> float | None:
        """Measured minus published, where the rule compares numbers."""
        if self.published is None or self.ours is None or self.rule.name not in ("split", "random"):
            return None
        return self.ours.mean - self.published


def table(
    experiment: Experiment,
    size: str,
    results: Results,
    why_absent: Callable[[Cell], str] = lambda cell: cell.absent,
) -> list[Row]:
    """Return all rows, ordered by labels, then columns; columns without numbers are omitted."""
    rows = []
    for cell in experiment.cells:
        outcome = results.get(size, experiment, cell)
        why = why_absent(cell) if outcome is None else ""
        for column in cell.columns:
            ours = None if outcome is None else outcome.figures.get(column)
            published = cell.published.get(column)
            if ours is None and published is None and not why:
                continue
            rule = cell.rule or experiment.rule
            row = Row(cell.label, column, published, ours, rule, cell.ours, note=cell.note)
            if ours is None:
                row = replace(row, verdict=ABSENT if why else NOT_RUN, reason=why)
            rows.append(row)
    rows.sort(
        key=lambda row: (experiment.labels.index(row.label), experiment.columns.index(row.column))
    )
    return [with_verdict(row, rows) for row in rows]


def with_verdict(row: Row, rows: list[Row]) -> Row:
    """Return a row with its verdict; ``rows`` are all of its table."""
    if row.ours is None or row.published is None:
        return row
    if row.rule.name == "none":
        return replace(row, verdict=ASIDE, reason=row.rule.reason)
    if row.rule.name == "order":
        wrong = [
            other for other in rows if other.column == row.column and _in_wrong_order(row, other)
        ]
        if not wrong:
            return replace(row, verdict=AGREES)
        said = ", ".join(
            f"{'below' if row.published > other.published else 'above'} {other.label}"
            for other in wrong
            if other.published is not None
        )
        return replace(row, verdict=MISSES, reason=f"{said}, and in the paper the other way round")
    off = row.ours.mean - row.published
    if abs(off) <= row.rule.points:
        return replace(row, verdict=AGREES)
    return replace(
        row, verdict=MISSES, reason=f"off by {off:+.2f}, and {row.rule.points:g} is allowed"
    )


def _in_wrong_order(row: Row, other: Row) -> bool:
    if None in (row.published, other.published, row.ours, other.ours) or other.rule.name != "order":
        return False
    assert (
        row.published is not None
        and other.published is not None
        and row.ours is not None
        and other.ours is not None
    )
    published, ours = row.published - other.published, row.ours.mean - other.ours.mean
    noise = math.hypot(row.ours.spread or 0.0, other.ours.spread or 0.0)
    return abs(published) > row.rule.ties and published * ours < 0 and abs(ours) > noise


def misses(paper: Paper, size: str, results: Results) -> list[tuple[Experiment, Row]]:
    """Return the rows of a paper that do not agree by their rules."""
    return [
        (experiment, row)
        for experiment in paper.experiments
        for row in table(experiment, size, results)
        if row.verdict == MISSES
    ]
