"""Simple mergeable statistics: counts, magnitudes, ranges, means, variances, samples of rows."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from mercer._typing import Array, is_csr
from mercer.errors import RowError
from mercer.maps.block import Block, Sparse, as_block, matrix
from mercer.rng import Rng
from mercer.stats.base import Mergeable, frequency_weights

# Largest |x| that a fit accepts: its squares and their sums stay finite.
_MAGNITUDE_LIMIT = {np.dtype(np.float32): 2.0**100, np.dtype(np.float64): 2.0**330}


class RowCount(Mergeable):
    """Number of rows, whatever their weights."""

    accepts_device_blocks = True

    def __init__(self) -> None:
        self.rows = 0

    def add(
        self, block: Block, y: Array | None = None, weight: Array | None = None, start: int = 0
    ) -> None:
        """Add the rows of a block."""
        self.rows += block.shape[0]

    def __iadd__(self, other: Self) -> Self:
        self.rows += other.rows
        return self


class Magnitude(Mergeable):
    """Number of rows and largest absolute value; a value beyond the limit raises a RowError.

    A fit derives bandwidths, scales and poles from squares and ratios of values, which must not
    overflow float64. The limit for float32 rows is smaller, since the fitted parameters are cast to
    float32 for them.
    """

    def __init__(self, estimator_name: str) -> None:
        self.estimator_name = estimator_name
        self.rows = 0
        self.largest = 0.0
        self.limit = _MAGNITUDE_LIMIT[np.dtype(np.float64)]

    def add(
        self, block: Block, y: Array | None = None, weight: Array | None = None, start: int = 0
    ) -> None:
        """Add the rows of a block."""
        rows = matrix(block)
        self.rows += rows.shape[0]
        self.limit = min(self.limit, _MAGNITUDE_LIMIT.get(rows.dtype, self.limit))
        stored = rows.data if is_csr(rows) else rows
        largest = float(max(stored.max(initial=0), -stored.min(initial=0)))
        if np.isnan(largest):  # missing cells of a table, which its map accepts
            stored = np.where(np.isnan(stored), 0, stored)
            largest = float(np.abs(stored).max())
        if largest > self.limit:
            self._raise_too_large(rows, stored, start)
        self.largest = max(self.largest, largest)

    def __iadd__(self, other: Self) -> Self:
        self.rows += other.rows
        self.largest = max(self.largest, other.largest)
        self.limit = min(self.limit, other.limit)
        return self

    def require_representable(self) -> None:
        """Raise a ValueError where all values are so small that their squares underflow."""
        if 0 < self.largest < 1 / self.limit:
            raise ValueError(
                f"{self.estimator_name} needs rows with |x| above {1 / self.limit:.1g} to fit to, "
                f"got {self.largest:g} as the largest magnitude of all values. Scale the data "
                "(sklearn.preprocessing)."
            )

    def _raise_too_large(self, rows: Any, stored: Any, start: int) -> None:
        entry = int(np.argmax(np.abs(stored)))
        if is_csr(rows):
            row = int(np.searchsorted(rows.indptr, entry, side="right") - 1)
            column = int(rows.indices[entry])
        else:
            row, column = divmod(entry, rows.shape[1])
        before = (
            f"{self.estimator_name} needs {rows.dtype} rows with |x| below {self.limit:.1g} to fit "
            f"to, got {stored.flat[entry]:g} at"
        )
        after = f", column {column}. Scale the data (sklearn.preprocessing)."
        raise RowError(row + start, before, after)


class Range(Mergeable):
    """Smallest and largest value of each column, over the rows whose weight is not 0."""

    def __init__(self) -> None:
        self.rows = 0
        self.low: Array | None = None
        self.high: Array | None = None

    def add(
        self, block: Block, y: Array | None = None, weight: Array | None = None, start: int = 0
    ) -> None:
        """Add the rows of a block."""
        rows = matrix(block)
        if weight is not None:
            rows = rows[frequency_weights(rows.shape[0], weight) > 0]
        if rows.shape[0] == 0:
            return
        low, high = rows.min(axis=0), rows.max(axis=0)
        if is_csr(rows):
            low, high = low.toarray().ravel(), high.toarray().ravel()
        part = Range()
        part.rows = rows.shape[0]
        part.low, part.high = low.astype(np.float64), high.astype(np.float64)
        self += part

    def __iadd__(self, other: Self) -> Self:
        if self.low is None or self.high is None:
            self.rows, self.low, self.high = other.rows, other.low, other.high
        elif other.low is not None and other.high is not None:
            if self.low.shape != other.low.shape:
                raise ValueError(
                    f"A Range of {len(self.low)} columns does not accept rows of {len(other.low)}."
                )
            self.rows += other.rows
            self.low = np.minimum(self.low, other.low)
            self.high = np.maximum(self.high, other.high)
        return self


class _Deviations(Mergeable):
    """Count, mean and sum of squared deviations, of scalars or columns.

    Merged by the formula of Chan, Golub and LeVeque, without cancellation. Values that overflow
    float64 become infinite or NaN, for the caller to handle.
    """

    count: float
    mean: Any
    _squares: Any  # sum of squared deviations from the mean

    def __iadd__(self, other: Self) -> Self:
        self._merge(other.count, other.mean, other._squares)
        return self

    @np.errstate(over="ignore", invalid="ignore")
    def _merge(self, count: float, mean: Any, squares: Any) -> None:
        total = self.count + count
        if count == 0 or self.count == 0:
            if count:
                self.count, self.mean, self._squares = count, mean, squares
            return
        step = mean - self.mean
        self._squares = self._squares + (squares + step * step * (self.count * count / total))
        self.mean = self.mean + step * (count / total)
        self.count = total


class Spread(_Deviations):
    """Count, mean and variance of all entries of all columns together, in float64."""

    def __init__(self) -> None:
        self.count = 0.0
        self.mean = 0.0
        self._squares = 0.0

    @property
    def variance(self) -> float:
        """Population variance of the entries; 0 without entries."""
        return self._squares / self.count if self.count else 0.0

    def add(
        self, block: Block, y: Array | None = None, weight: Array | None = None, start: int = 0
    ) -> None:
        """Add the rows of a block."""
        n, d = block.shape
        weights = frequency_weights(n, weight)
        count = float(weights.sum()) * d
        if count == 0:
            return
        rows = matrix(block)
        sparse = is_csr(rows)
        values = (rows.data if sparse else rows).astype(np.float64)
        lengths = np.diff(rows.indptr) if sparse else np.full(n, d)
        per_value = np.repeat(weights, lengths).reshape(values.shape)
        # Weight of the zeros that a CSR matrix does not store.
        zeros = count - float(per_value.sum())
        # Deviations from the first value: the variance of equal values is exactly 0.
        base = float(values.flat[0]) if zeros == 0 else 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            mean = base + float(np.sum(per_value * (values - base))) / count
            squares = float(np.sum(per_value * (values - mean) ** 2))
        squares += zeros * mean * mean
        self._merge(count, mean, squares)


class ColumnSpread(_Deviations):
    """Count, and mean and variance of each column, in float64."""

    def __init__(self) -> None:
        self.count = 0.0
        self.mean: Array = np.zeros(0)
        self._squares: Array = np.zeros(0)

    @property
    def deviation(self) -> Array:
        """Standard deviation of each column."""
        return np.sqrt(self._squares / max(self.count, 1.0))

    @np.errstate(over="ignore", invalid="ignore")
    def add(
        self, block: Block, y: Array | None = None, weight: Array | None = None, start: int = 0
    ) -> None:
        """Add the rows of a block."""
        n, d = block.shape
        weights = frequency_weights(n, weight)
        count = float(weights.sum())
        if count == 0:
            return
        rows = matrix(block)
        if not is_csr(rows):
            values = rows.astype(np.float64)
            # Deviations from the first row: the variance of equal values is exactly 0.
            base = values[0]
            mean = base + weights @ (values - base) / count
            self._merge(count, mean, weights @ (values - mean) ** 2)
            return
        values = rows.data.astype(np.float64)
        per_value = np.repeat(weights, np.diff(rows.indptr))
        mean = np.bincount(rows.indices, per_value * values, minlength=d) / count
        squares = np.bincount(
            rows.indices, per_value * (values - mean[rows.indices]) ** 2, minlength=d
        )
        zeros = np.maximum(count - np.bincount(rows.indices, per_value, minlength=d), 0.0)
        self._merge(count, mean, squares + zeros * mean**2)


class Reservoir(Mergeable):
    """Uniform sample of rows without replacement: those with the smallest keys.

    The key of a row is a hash of (seed, row index), so that the sample depends on the rows and the
    seed alone, never on blocks or workers. With weights the key is divided by the row's weight: the
    probability to be first is proportional to it, and rows of weight 0 are never sampled.

    Parameters
    ----------
    size : int
        Rows of the sample; fewer where the data have fewer.
    seed : int
    """

    def __init__(self, size: int, seed: int) -> None:
        self.size = size
        self.seed = seed
        self.count = 0  # rows of a weight above 0
        self.keys: Array = np.empty(0)
        self._weights: Array = np.empty(0)
        self._rows: list[Block] = []  # at most one block, ordered by key

    def add(
        self, block: Block, y: Array | None = None, weight: Array | None = None, start: int = 0
    ) -> None:
        """Add the rows of a block; ``start`` is the index of its first row in the stream."""
        n = block.shape[0]
        keys = -np.log(Rng(self.seed).uniform("reservoir", n, start=start))
        weights = frequency_weights(n, weight)
        if weight is not None:
            with np.errstate(divide="ignore"):
                keys = keys / weights
        part = Reservoir(self.size, self.seed)
        part.count = int(np.count_nonzero(weights))
        # beyond the largest key of a full sample no row is kept
        limit = self.keys[-1] if len(self.keys) == self.size else np.inf
        below = np.flatnonzero(keys < limit)
        smallest = below[np.argsort(keys[below], kind="stable")[: self.size]]
        if len(smallest) or not self._rows:
            part.keys, part._weights = keys[smallest], weights[smallest]
            part._rows = [as_block(matrix(block)[smallest])]
        self += part

    def __iadd__(self, other: Reservoir) -> Self:
        if (self.size, self.seed) != (other.size, other.seed):
            raise ValueError("Reservoirs of different size or seed do not merge.")
        self.count += other.count
        if not other._rows:
            return self
        blocks = [*self._rows, *other._rows]
        if any(isinstance(block, Sparse) for block in blocks):
            from scipy.sparse import vstack

            rows = vstack([block.tocsr() for block in blocks], format="csr")
        else:
            rows = np.concatenate([matrix(block) for block in blocks])
        keys = np.concatenate([self.keys, other.keys])
        order = np.argsort(keys, kind="stable")[: self.size]
        self.keys = keys[order]
        self._weights = np.concatenate([self._weights, other._weights])[order]
        self._rows = [as_block(rows[order])]
        return self

    @property
    def rows(self) -> Any:
        """Sampled rows, an array or a CSR matrix, ordered by key."""
        if not self._rows:
            raise ValueError("This Reservoir is empty: add rows first.")
        return matrix(self._rows[0])

    @property
    def frequencies(self) -> Array:
        """Number of rows that each sampled row stands for, up to a factor.

        Its weight where all rows are in the sample; 1 otherwise, since it is sampled by its weight.
        """
        return self._weights if self.count <= self.size else np.ones(len(self.keys))
