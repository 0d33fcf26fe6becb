"""Columns that should be no inputs: those that count rows, and those that alone say the target."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer._typing import Array
from mercer.data import Stream
from mercer.data.table_schema import NUMBER

_ROWS = 2000  # that are looked at
_RUNS = 8  # runs of consecutive rows, evenly spaced where the source seeks
_FEWEST_ROWS = 50  # below, a column may count rows, or separate classes, by chance
_COLUMNS = 500  # at most: a tree for each
_LEAVES = 16
_ACCURACY, _MAJORITY = 0.99, 0.9  # of a column alone, and of the most frequent class at most
_R2 = 0.999


@dataclass(frozen=True)
class Leak:
    """A column that is likely to be no proper input.

    Attributes
    ----------
    column : str
    score : float or None
        Accuracy or R^2 of the column alone on rows left out; None for one that counts rows.
    baseline : float
        Share of the most frequent class; 0 for R^2.
    """

    column: str
    score: float | None
    baseline: float = 0.0

    def __str__(self) -> str:
        if self.score is None:
            return f"Column {self.column!r} counts the rows."
        if self.baseline:
            said = f"{self.score:.2%} of the classes (most frequent class: {self.baseline:.2%})"
        else:
            said = f"the target with R^2 {self.score:.4f}"
        return (
            f"Column {self.column!r} alone predicts {said}: is it known when predictions are made?"
        )


def find_leaks(stream: Stream, *, numeric: bool) -> list[Leak]:
    """Return the columns of a stream that count rows or alone predict the target.

    Up to 2,000 rows are read: of eight places where the source seeks, otherwise the first. A column
    alone is scored by a classification tree of 16 leaves, or for numbers by linear interpolation,
    fitted to every other row in the order of the column and evaluated on the rest.

    Parameters
    ----------
    stream : Stream
        With one target.
    numeric : bool
        Whether the target is a number.
    """
    if stream.sparse or stream.width > _COLUMNS:
        return []
    starts = [0]
    if stream.seeks and stream.rows is not None and stream.rows > _ROWS:
        starts = np.linspace(0, stream.rows - _ROWS // _RUNS, _RUNS).astype(int).tolist()
    each = _ROWS // len(starts)
    blocks = [next(stream.blocks(each, start, start + each)) for start in starts]
    X = np.concatenate([block.X for block in blocks])
    y = np.concatenate([np.asarray(block.y) for block in blocks])
    places = np.concatenate([block.start + np.arange(len(block)) for block in blocks])
    if len(y) < _FEWEST_ROWS or y.ndim > 1:
        return []
    names = stream.columns or tuple(map(str, range(X.shape[1])))
    columns = () if stream.schema is None else stream.schema.columns
    numbers = {column.name for column in columns if column.kind == NUMBER}
    leaks = []
    for name, values in zip(names, X.T, strict=True):
        seen = np.isfinite(values)
        if seen.sum() < _FEWEST_ROWS:
            continue
        if seen.all() and counts_rows(values, places):
            if name not in numbers:  # a number is dropped
                leaks.append(Leak(name, None))
            continue
        score, baseline = _score_alone(values[seen], y[seen], numeric)
        if score >= (_R2 if numeric else _ACCURACY) and baseline <= _MAJORITY:
            leaks.append(Leak(name, score, baseline))
    return leaks


def counts_rows(values: Array, places: Array) -> bool:
    """Return whether a column is first + step place, step not 0."""
    if len(values) < 2:
        return False
    step = (values[-1] - values[0]) / (places[-1] - places[0])
    return bool(step != 0 and np.array_equal(values, values[0] + step * (places - places[0])))


def _score_alone(values: Array, y: Array, numeric: bool) -> tuple[float, float]:
    """Return the score of one column on the odd rows, by a tree of the even ones, and a guess's."""
    from sklearn.tree import DecisionTreeClassifier

    order = np.argsort(values, kind="stable")  # both halves have all values
    values, y = values[order, None], y[order]
    if numeric:
        targets = y.astype(np.float64)
        variance = float(np.var(targets[1::2]))
        predicted = np.interp(values[1::2, 0], values[::2, 0], targets[::2])
        error = float(np.mean((predicted - targets[1::2]) ** 2))
        return (1 - error / variance if variance > 0 else 0.0), 0.0
    labels = np.unique(y.astype(str), return_inverse=True)[1]
    tree = DecisionTreeClassifier(max_leaf_nodes=_LEAVES, random_state=0)
    score = float(tree.fit(values[::2], labels[::2]).score(values[1::2], labels[1::2]))
    return score, float(np.bincount(labels).max() / len(labels))
