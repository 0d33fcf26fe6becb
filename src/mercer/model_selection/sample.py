"""Samples of rows and targets, stratified by class along their whole length."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property, partial
from math import ceil
from typing import Any

import numpy as np

from mercer._repr import short_repr
from mercer._typing import Array
from mercer.data import Stream, open_stream
from mercer.data.arrow import read_retyped
from mercer.data.column_roles import TARGET
from mercer.data.task import is_classification
from mercer.errors import ParameterError, Setting
from mercer.linear_model.base import fit_encoder
from mercer.maps.block import Dense, matrix
from mercer.maps.tabular import Tabular
from mercer.model_selection.leaks import counts_rows
from mercer.model_selection.schedule import Budget
from mercer.rng import Rng
from mercer.stats.basic import Reservoir
from mercer.validation.rows import require_finite, validate_rows, value_range

LEAST_ROWS = 8


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows in memory with their targets.

    Classes are spread evenly over the rows, and the first row of each class precedes all others, so
    that any first rows contain all classes. Rows of a group follow each other, and rows that have
    times are in their order.

    Attributes
    ----------
    X : array or CSR matrix
    y : array
        Labels, or numbers where `numeric`.
    numeric : bool
    total : int
        Rows of the data that they were drawn from.
    encoder : Tabular or None
        The map that encoded the columns of a table with missing cells or columns that are no
        numbers, fitted to the rows.
    names : tuple of str or None
        Names of the columns.
    timed : bool
        Whether rows are in the order of time, so that only earlier ones may be trained on.
    weights : array or None
        Weights of the rows.
    groups : array or None
        Numbers of the groups of the rows.
    """

    X: Any
    y: Array
    numeric: bool
    total: int
    encoder: Tabular | None = None
    names: tuple[str, ...] | None = None
    timed: bool = False
    weights: Array | None = None
    groups: Array | None = None

    __repr__ = short_repr

    @cached_property
    def classes(self) -> Array:
        """Sorted labels; objects as strings."""
        return np.unique(self.y.astype(str) if self.y.dtype == object else self.y)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def columns(self) -> int:
        """Number of columns."""
        return int(self.X.shape[1])

    @property
    def domain(self) -> str:
        """Domain of the rows: "nonnegative", or "real" where there are numbers below 0."""
        return "nonnegative" if value_range(self.X)[0] >= 0 else "real"

    @property
    def outputs(self) -> int:
        """Number of classes; 1 for numbers and for two classes."""
        classes = 1 if self.numeric else len(self.classes)
        return classes if classes > 2 else 1


def draw(
    X: Any,
    y: Any,
    *,
    numeric: bool | None,
    limit: int,
    seed: int,
    most_rows: int = Budget.rows,
    encode: bool = True,
) -> Sample:
    """Draw rows without replacement.

    Parameters
    ----------
    X, y : as in ``select``
    numeric : bool or None
        Whether targets are numbers. None: strings, booleans and few distinct integers are labels.
    limit : int
        Bytes; a quarter of them is for the rows.
    seed : int
    most_rows : int, optional
    encode : bool, default=True
        Whether the columns of a table with missing cells or columns that are no numbers are
        encoded; otherwise the rows are a matrix by the schema of the stream.
    """
    stream = open_stream(X) if y is None else _open(X, y)
    if stream.target is None:
        raise ParameterError(
            "", "select needs targets: give y, or open the rows with ", TARGET, "."
        )
    if stream.rows is None:
        stream, total = read_retyped(stream, _count_rows)
    else:
        total = stream.rows
    if total < LEAST_ROWS:
        raise ValueError(
            "select scores models on rows that they were not trained on, and needs at least "
            f"{LEAST_ROWS} rows for that: got {total}. "
            "Give more rows; with as few as that, fit a model without choosing: "
            "KernelClassifier(), KernelRegressor()."
        )
    read = partial(_read, total=total, limit=limit, seed=seed, most_rows=most_rows)
    stream, (rows, targets, weights, keys, places) = read_retyped(stream, read)
    if weights is not None and np.any(weights == 0):
        counted = weights > 0
        rows, targets, weights, places = (v[counted] for v in (rows, targets, weights, places))
        keys = None if keys is None else keys[counted]
        if len(weights) < LEAST_ROWS:
            raise ValueError(
                f"select needs at least {LEAST_ROWS} rows of a weight above 0: got {len(weights)}."
            )
    names, encoder = stream.columns, None
    if encode and not stream.sparse:
        encoder = _fit_encoder(rows, stream, places)
    if encoder is not None:
        rows = matrix(encoder._transform_block(rows))
        names = tuple(encoder.get_feature_names_out())
    if encode:
        require_finite("select", rows, names)
    if targets.ndim > 1:
        if targets.shape[1] > 1:
            raise ValueError(f"select takes one target, got {targets.shape[1]}.")
        targets = targets[:, 0]
    if numeric is None:
        numeric = not is_classification(targets)
    _require_variation(rows, targets, numeric)
    timed = stream.time is not None
    if keys is None:
        order = _stratified_order(targets, numeric, seed)
    elif timed:
        order = np.argsort(keys, kind="stable")[::-1]  # keys fall with time
    else:
        order = _grouped_order(targets, numeric, keys)
    groups = None
    if keys is not None and not timed:
        groups = np.unique(keys[order], return_inverse=True)[1]
    weights = None if weights is None else weights[order]
    return Sample(
        rows[order], targets[order], numeric, total, encoder, names, timed, weights, groups
    )


def _fit_encoder(rows: Array, stream: Stream, places: Array) -> Tabular | None:
    """Return the encoder of the columns of a table, fitted to sampled rows; None for numbers.

    Numbers keep their units: each model scales them as it needs. Columns that count the rows of the
    table count those of the sample, and so are dropped.
    """
    for column in () if stream.schema is None else rows.T:
        if counts_rows(column, places):
            column[:] = np.arange(len(column))
    return fit_encoder(rows, stream, scale=False)


def _open(X: Any, y: Any) -> Stream:
    if isinstance(X, str | os.PathLike | Stream):
        return open_stream(X).with_targets(y, None)
    if not hasattr(X, "tocsr") and not hasattr(X, "columns"):
        X = validate_rows("select", X)
    return open_stream(X).with_targets(getattr(y, "to_numpy", lambda: y)(), None)


def _count_rows(stream: Stream) -> int:
    return sum(len(chunk) for chunk in stream.chunks())


def _read(
    stream: Stream, total: int, limit: int, seed: int, most_rows: int
) -> tuple[Any, Array, Array | None, Array | None, Array]:
    """Return X, y, weights, keys of groups or times, and places of a sample, in their order."""
    # the density of sparse rows is not known before they are read
    row_bytes = max(1.0, 8.0 * stream.width * (0.1 if stream.sparse else 1.0))
    fitting = min(most_rows, int(limit / 4 / row_bytes))
    if fitting < LEAST_ROWS:
        raise ParameterError(
            "select",
            Setting("max_memory"),
            f" is {limit:,} bytes, a quarter of which holds {fitting} "
            f"{'row' if fitting == 1 else 'rows'} of "
            f"{stream.width:,} columns, and at least {LEAST_ROWS} are needed: give "
            f"{ceil(4 * LEAST_ROWS * row_bytes):,} bytes or more.",
        )
    drawn = Reservoir(fitting, seed)
    drawn.add(Dense(np.arange(total, dtype=np.float64)[:, None]))
    places = np.sort(drawn.rows[:, 0].astype(np.int64))
    parts = []
    for chunk in stream.chunks():
        low, high = np.searchsorted(places, [chunk.start, chunk.start + len(chunk)])
        inside = places[low:high] - chunk.start
        weights, keys = (
            None if values is None else np.asarray(values)[inside]
            for values in (chunk.weight, chunk.keys)
        )
        parts.append((chunk.X[inside], np.asarray(chunk.y)[inside], weights, keys))
    matrices, targets, *others = zip(*parts, strict=True)
    y = np.concatenate(targets)
    weights, keys = (None if part[0] is None else np.concatenate(part) for part in others)
    if not stream.sparse:
        return np.concatenate(matrices), y, weights, keys, places
    from scipy.sparse import vstack

    rows = vstack(matrices, format="csr")
    rows.sum_duplicates()
    return rows, y, weights, keys, places


def _require_variation(X: Any, y: Array, numeric: bool) -> None:
    """Refuse rows, or targets, that are all equal."""
    if len(np.unique(y.astype(str) if y.dtype == object else y)) < 2:
        what = "the same target" if numeric else "one class"
        raise ValueError(
            f"select needs targets that differ, and all {len(y):,} rows have {what}: "
            f"{y[:1].tolist()[0]!r}. "
            "Give rows of at least two, and check that y is the column that was meant."
        )
    least, most = X.min(axis=0), X.max(axis=0)
    if hasattr(least, "toarray"):
        least, most = least.toarray(), most.toarray()
    if not np.any(least != most):
        raise ValueError(
            f"All {len(y):,} rows are equal: no model can tell them apart. Give columns that "
            "differ from row to row."
        )


def _grouped_order(y: Array, numeric: bool, keys: Array) -> Array:
    """Order rows by the keys of their groups; groups that have the first row of a class lead."""
    order = np.argsort(keys, kind="stable")
    if numeric:
        return order
    _, first = np.unique(y[order].astype(str), return_index=True)
    leads = np.isin(keys[order], keys[order[first]])
    return np.concatenate([order[leads], order[~leads]])


def _stratified_order(y: Array, numeric: bool, seed: int) -> Array:
    """Order rows by a hash, classes in proportion all along, the first of each at the start."""
    keys = Rng(seed).uniform("order", len(y))
    order = np.argsort(keys, kind="stable")
    if numeric:
        return order
    _, codes = np.unique(
        y[order].astype(str) if y.dtype == object else y[order], return_inverse=True
    )
    counts = np.bincount(codes)
    by_class = np.argsort(codes, kind="stable")
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    within = np.empty(len(y))
    within[by_class] = (np.arange(len(y)) - starts) / counts[codes[by_class]]
    return order[np.argsort(within, kind="stable")]
