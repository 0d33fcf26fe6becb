"""What can be learnt about data in one pass: add a block, merge two summaries.

One law for all of them: the summaries of two halves, merged by +, are the summary of the whole;
exactly for counts and samples, within rounding for sums. Weights are frequency weights: a row of
weight 2 counts as two rows.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from mercer.errors import RowError
from mercer.maps.block import Block, Sparse, as_block, matrix
from mercer.rng import Rng, open_interval

Array = NDArray[Any]

_REACH = {
    np.dtype(np.float32): 2.0**100,
    np.dtype(np.float64): 2.0**330,
}  # of numbers that a fit takes squares of


class Statistic(Protocol):
    """add(block) takes rows in; start is the index of the block's first row in the whole stream.

    What the constructor takes is kept under its own name, as in scikit-learn, so that an empty
    summary of the same kind can be made.
    """

    def add(
        self, block: Block, y: Array | None = None, weight: Array | None = None, start: int = 0
    ) -> None: ...
    def __add__(self, other: Self) -> Self: ...


@dataclass(frozen=True, eq=False)
class State:
    """All that a summary knows, as arrays of numbers and plain JSON values: what a checkpoint
    holds.
    """

    arrays: dict[str, Array]
    facts: dict[str, Any]


class Magnitude:
    """The largest absolute number of all rows; one that is beyond reach is refused, with its row
    and column.

    A fit finds bandwidths, scales and poles from squares and ratios of numbers, which must not
    leave float64. Of float32 rows the reach is smaller, since what was found is cast to float32 for
    them.
    """

    def __init__(self, who: str) -> None:
        self.who = who
        self.largest = 0.0
        self.reach = _REACH[np.dtype(np.float64)]

    def add(
        self, block: Block, y: Array | None = None, weight: Array | None = None, start: int = 0
    ) -> None:
        rows = matrix(block)
        self.reach = min(self.reach, _REACH.get(rows.dtype, self.reach))
        stored = rows.data if hasattr(rows, "indptr") else rows
        largest = float(max(stored.max(initial=0), -stored.min(initial=0)))
        if largest > self.reach:
            entry = int(np.argmax(np.abs(stored)))
            if hasattr(rows, "indptr"):
                row, column = (
                    int(np.searchsorted(rows.indptr, entry, side="right") - 1),
                    int(rows.indices[entry]),
                )
            else:
                row, column = divmod(entry, rows.shape[1])
            value = stored.flat[entry]
            before = (
                f"{self.who} needs {rows.dtype} rows with |x| below {self.reach:.1g} to fit "
                f"to, got {value:g} at"
            )
            raise RowError(
                row + start, before, f", column {column}. Scale the data (sklearn.preprocessing)."
            )
        self.largest = max(self.largest, largest)

    def __add__(self, other: Magnitude) -> Magnitude:
        merged = copy.copy(self)
        merged.largest, merged.reach = (
            max(self.largest, other.largest),
            min(self.reach, other.reach),
        )
        return merged

    def require(self) -> None:
        """Raise a ValueError where all numbers are so small that their squares are lost."""
        if 0 < self.largest < 1 / self.reach:
            raise ValueError(
                f"{self.who} needs rows with |x| above {1 / self.reach:.1g} to fit to, got "
                f"{self.largest:g} as the largest number "
                "of all. Scale the data (sklearn.preprocessing)."
            )


class Range:
    """Smallest and largest value of each column, over the rows whose weight is not 0."""

    def __init__(self) -> None:
        self.rows = 0
        self.low: Array | None = None
        self.high: Array | None = None

    def add(
        self, block: Block, y: Array | None = None, weight: Array | None = None, start: int = 0
    ) -> None:
        rows = _weighty(block, weight)
        if rows.shape[0] == 0:
            return
        low, high = rows.min(axis=0), rows.max(axis=0)
        if hasattr(rows, "indptr"):
            low, high = low.toarray().ravel(), high.toarray().ravel()
        self._take(rows.shape[0], low.astype(np.float64), high.astype(np.float64))

    def __add__(self, other: Range) -> Range:
        merged = copy.copy(self)
        if other.low is not None and other.high is not None:
            merged._take(other.rows, other.low, other.high)
        return merged

    def _take(self, rows: int, low: Array, high: Array) -> None:
        if self.low is not None and self.low.shape != low.shape:
            raise ValueError(
                f"A Range of {len(self.low)} columns does not take rows of {len(low)}."
            )
        self.rows += rows
        self.low = low if self.low is None else np.minimum(self.low, low)
        self.high = high if self.high is None else np.maximum(self.high, high)


class _Deviations:
    """Count, mean and sum of squared deviations from it, of numbers or of columns; merged without
    cancellation.
    """

    count: float
    mean: Any
    _squares: Any

    def __add__(self, other: Self) -> Self:
        merged = copy.copy(self)
        merged._take(other.count, other.mean, other._squares)
        return merged

    @np.errstate(over="ignore", invalid="ignore")
    def _take(self, count: float, mean: Any, squares: Any) -> None:
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
    """Count, mean and variance of all entries together, in float64, whatever their column."""

    def __init__(self) -> None:
        self.count = 0.0
        self.mean = 0.0
        self._squares = 0.0  # sum of squared deviations from the mean

    @property
    def variance(self) -> float:
        return self._squares / self.count if self.count else 0.0

    def add(
        self, block: Block, y: Array | None = None, weight: Array | None = None, start: int = 0
    ) -> None:
        n, d = block.shape
        weights = frequency_weights(n, weight)
        count = float(weights.sum()) * d
        if count == 0:
            return
        rows = matrix(block)
        sparse = hasattr(rows, "indptr")
        values = (rows.data if sparse else rows).astype(np.float64)
        lengths = np.diff(rows.indptr) if sparse else np.full(n, d)
        per_value = np.repeat(weights, lengths).reshape(values.shape)
        zeros = count - float(per_value.sum())  # those that a CSR matrix does not store
        base = (
            float(values.flat[0]) if zeros == 0 else 0.0
        )  # so that equal values have exactly no spread
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # beyond float64 it is infinite or NaN, for the caller to see
            mean = base + float(np.sum(per_value * (values - base))) / count
            squares = float(np.sum(per_value * (values - mean) ** 2))
        squares += zeros * mean * mean
        self._take(count, mean, squares)


class ColumnSpread(_Deviations):
    """Count, and mean and variance of each column, in float64."""

    def __init__(self) -> None:
        self.count = 0.0
        self.mean: Array = np.zeros(0)
        self._squares: Array = np.zeros(0)  # sums of squared deviations from the mean

    @property
    def deviation(self) -> Array:
        """The standard deviation of each column."""
        return np.sqrt(self._squares / max(self.count, 1.0))

    @np.errstate(
        over="ignore", invalid="ignore"
    )  # beyond float64 it is infinite or NaN, for the caller to see
    def add(
        self, block: Block, y: Array | None = None, weight: Array | None = None, start: int = 0
    ) -> None:
        n, d = block.shape
        weights = frequency_weights(n, weight)
        count = float(weights.sum())
        if count == 0:
            return
        rows = matrix(block)
        if not hasattr(rows, "indptr"):
            values = rows.astype(np.float64)
            base = values[0]  # so that equal values have exactly no spread
            mean = base + weights @ (values - base) / count
            self._take(count, mean, weights @ (values - mean) ** 2)
            return
        values = rows.data.astype(np.float64)
        per_value = np.repeat(weights, np.diff(rows.indptr))
        mean = np.bincount(rows.indices, per_value * values, minlength=d) / count
        squares = np.bincount(
            rows.indices, per_value * (values - mean[rows.indices]) ** 2, minlength=d
        )
        zeros = np.maximum(count - np.bincount(rows.indices, per_value, minlength=d), 0.0)
        self._take(count, mean, squares + zeros * mean**2)


class RowMean:
    """The mean over rows of sum_i term(x_i), for a term with term(0) = 0."""

    def __init__(self, term: Callable[[Array], Array]) -> None:
        self.term = term
        self.weight = 0.0
        self.total = 0.0

    @property
    def mean(self) -> float:
        return self.total / self.weight if self.weight else 0.0

    def add(
        self, block: Block, y: Array | None = None, weight: Array | None = None, start: int = 0
    ) -> None:
        weights = frequency_weights(block.shape[0], weight)
        csr = block.tocsr()
        terms = self.term(csr.data.astype(np.float64))
        self.total += float(np.sum(np.repeat(weights, np.diff(csr.indptr)) * terms))
        self.weight += float(weights.sum())

    def __add__(self, other: RowMean) -> RowMean:
        merged = copy.copy(self)
        merged.weight += other.weight
        merged.total += other.total
        return merged


class Reservoir:
    """A uniform sample of rows without replacement: those with the smallest key, a hash of (seed,
    row index).

    The sample depends on the rows and the seed alone, never on blocks or workers. With weights a
    row's key is divided by its weight, so that the chance to be first is in proportion to it; rows
    of weight 0 are left out.
    """

    def __init__(self, size: int, seed: int) -> None:
        self.size = size
        self.seed = seed
        self.keys: Array = np.empty(0)
        self._rows: list[Block] = []  # one block of rows, in the order of keys

    def add(
        self, block: Block, y: Array | None = None, weight: Array | None = None, start: int = 0
    ) -> None:
        n = block.shape[0]
        keys = -np.log(open_interval(Rng(self.seed).words("reservoir", start, n)))
        if weight is not None:
            with np.errstate(divide="ignore"):
                keys = keys / frequency_weights(n, weight)
        best = np.argsort(keys, kind="stable")[: self.size]
        best = best[np.isfinite(keys[best])]
        self._take(keys[best], as_block(matrix(block)[best]))

    def __add__(self, other: Reservoir) -> Reservoir:
        if (self.size, self.seed) != (other.size, other.seed):
            raise ValueError("Reservoirs of different size or seed do not merge.")
        merged = copy.copy(self)
        for block in other._rows:
            merged._take(other.keys, block)
        return merged

    @property
    def rows(self) -> Any:
        """The sampled rows, an array or a CSR matrix, in the order of their keys."""
        if not self._rows:
            raise ValueError("This Reservoir has not seen a row.")
        return matrix(self._rows[0])

    def _take(self, keys: Array, block: Block) -> None:
        both = np.concatenate([self.keys, keys])
        order = np.argsort(both, kind="stable")[: self.size]
        stacked = _stack([*self._rows, block])
        self.keys = both[order]
        self._rows = [as_block(stacked[order])]


def frequency_weights(n: int, weight: Array | None) -> Array:
    """The weights of n rows as float64, ones when there are none; refused unless they are n finite
    numbers of at least 0.
    """
    if weight is None:
        return np.ones(n)
    w = np.asarray(weight, dtype=np.float64)
    if w.shape != (n,) or not np.all((w >= 0) & np.isfinite(w)):
        raise ValueError(
            f"A block of {n} rows needs {n} finite weights of at least 0, got {w.shape} with "
            f"smallest {w.min(initial=0):g}."
        )
    return w


def _weighty(block: Block, weight: Array | None) -> Any:
    rows = matrix(block)
    return rows if weight is None else rows[frequency_weights(rows.shape[0], weight) > 0]


def _stack(blocks: list[Block]) -> Any:
    if any(isinstance(block, Sparse) for block in blocks):
        from scipy.sparse import vstack

        return vstack([block.tocsr() for block in blocks], format="csr")
    return np.concatenate([block.toarray() for block in blocks])
