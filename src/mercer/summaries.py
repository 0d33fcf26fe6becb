"""What can be learnt about data in one pass: add a block, merge two summaries.

One law for all of them: the summaries of two halves, merged by +, are the summary of the whole; exactly for counts and samples, within
rounding for sums. Weights are frequency weights: a row of weight 2 counts as two rows.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from mercer.blocks import Block, Sparse
from mercer.philox import Rng, open_interval

Array = NDArray[Any]


class Summary(Protocol):
    """add(block) takes rows in; start is the index of the block's first row in the whole stream."""

    def add(self, block: Block, y: Array | None = None, weight: Array | None = None, start: int = 0) -> None: ...
    def __add__(self, other: Self) -> Self: ...


class Range:
    """Smallest and largest value of each column, over the rows whose weight is not 0."""

    def __init__(self) -> None:
        self.rows = 0
        self.low: Array | None = None
        self.high: Array | None = None

    def add(self, block: Block, y: Array | None = None, weight: Array | None = None, start: int = 0) -> None:
        rows = _weighty(block, weight)
        if rows.shape[0] == 0:
            return
        low, high = rows.min(axis=0), rows.max(axis=0)
        if isinstance(block, Sparse):
            low, high = low.toarray().ravel(), high.toarray().ravel()
        self._take(rows.shape[0], low.astype(np.float64), high.astype(np.float64))

    def __add__(self, other: Range) -> Range:
        merged = copy.copy(self)
        if other.low is not None and other.high is not None:
            merged._take(other.rows, other.low, other.high)
        return merged

    def _take(self, rows: int, low: Array, high: Array) -> None:
        self.rows += rows
        self.low = low if self.low is None else np.minimum(self.low, low)
        self.high = high if self.high is None else np.maximum(self.high, high)


class Spread:
    """Count, mean and variance of all entries together, in float64, whatever their column."""

    def __init__(self) -> None:
        self.count = 0.0
        self.mean = 0.0
        self._squares = 0.0  # sum of squared deviations from the mean

    @property
    def variance(self) -> float:
        return self._squares / self.count if self.count else 0.0

    def add(self, block: Block, y: Array | None = None, weight: Array | None = None, start: int = 0) -> None:
        n, d = block.shape
        weights = np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64)
        count = float(weights.sum()) * d
        if count == 0:
            return
        values = block.tocsr().data if isinstance(block, Sparse) else block.toarray()
        values = values.astype(np.float64)
        if isinstance(block, Sparse):
            per_value = np.repeat(weights, np.diff(block.tocsr().indptr))
        else:
            per_value = np.broadcast_to(weights[:, None], values.shape)
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # a spread beyond float64 is infinite or NaN, for the caller to see
            mean = float(np.sum(per_value * values)) / count
            squares = float(np.sum(per_value * (values - mean) ** 2))
        squares += (count - float(per_value.sum())) * mean * mean  # the zeros that a CSR matrix does not store
        self._take(count, mean, squares)

    def __add__(self, other: Spread) -> Spread:
        merged = copy.copy(self)
        merged._take(other.count, other.mean, other._squares)
        return merged

    def _take(self, count: float, mean: float, squares: float) -> None:
        total = self.count + count
        if count == 0 or self.count == 0:
            if count:
                self.count, self.mean, self._squares = count, mean, squares
            return
        step = mean - self.mean
        self._squares += squares + step * step * (self.count * count / total)
        self.mean += step * (count / total)
        self.count = total


class RowMean:
    """The mean over rows of sum_i term(x_i), for a term with term(0) = 0."""

    def __init__(self, term: Callable[[Array], Array]) -> None:
        self.term = term
        self.weight = 0.0
        self.total = 0.0

    @property
    def mean(self) -> float:
        return self.total / self.weight if self.weight else 0.0

    def add(self, block: Block, y: Array | None = None, weight: Array | None = None, start: int = 0) -> None:
        weights = np.ones(block.shape[0]) if weight is None else np.asarray(weight, dtype=np.float64)
        csr = block.tocsr()
        terms = self.term(csr.data.astype(np.float64))
        self.total += float(np.sum(np.repeat(weights, np.diff(csr.indptr)) * terms))
        self.weight += float(weights.sum())

    def __add__(self, other: RowMean) -> RowMean:
        merged = copy.copy(self)
        merged.weight += other.weight
        merged.total += other.total
        return merged


class Histogram:
    """Weight of the entries in each of a fixed grid of logarithmic bins, `per_octave` to a factor of 2; zeros and negatives counted apart.

    The grid does not depend on the data, so that histograms merge exactly. All columns are pooled.
    """

    def __init__(self, per_octave: int = 16) -> None:
        self.per_octave = per_octave
        self.zeros = 0.0
        self.negatives = 0.0
        self.bins: dict[int, float] = {}

    def add(self, block: Block, y: Array | None = None, weight: Array | None = None, start: int = 0) -> None:
        n, d = block.shape
        weights = np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64)
        csr = block.tocsr()
        per_value = np.repeat(weights, np.diff(csr.indptr))
        values = csr.data.astype(np.float64)
        positive, negative = values > 0, values < 0
        bins, places = np.unique(np.floor(np.log2(values[positive]) * self.per_octave), return_inverse=True)
        for edge, total in zip(bins, np.bincount(places, weights=per_value[positive]), strict=True):
            self._take(int(edge), float(total))
        self.negatives += float(per_value[negative].sum())
        self.zeros += float(weights.sum()) * d - float(per_value[positive].sum()) - float(per_value[negative].sum())

    def __add__(self, other: Histogram) -> Histogram:
        if self.per_octave != other.per_octave:
            raise ValueError(f"Histograms of {self.per_octave} and {other.per_octave} bins per octave do not merge.")
        merged = copy.copy(self)
        merged.bins = dict(self.bins)
        merged.zeros += other.zeros
        merged.negatives += other.negatives
        for edge, total in other.bins.items():
            merged._take(edge, total)
        return merged

    def centers(self) -> tuple[Array, Array]:
        """(values, weights): the geometric middle of each bin that is not empty, in rising order, and its weight."""
        edges = sorted(edge for edge, total in self.bins.items() if total > 0)
        values = np.exp2((np.array(edges, dtype=np.float64) + 0.5) / self.per_octave)
        return values, np.array([self.bins[edge] for edge in edges])

    def _take(self, edge: int, total: float) -> None:
        self.bins[edge] = self.bins.get(edge, 0.0) + total


class Reservoir:
    """A uniform sample of rows without replacement: those with the smallest key, a hash of (seed, row index).

    The sample depends on the rows and the seed alone, never on blocks or workers. With weights a row's key is divided by its weight, so
    that the chance to be first is in proportion to it; rows of weight 0 are left out.
    """

    def __init__(self, size: int, seed: int) -> None:
        self.size = size
        self.seed = seed
        self.keys: Array = np.empty(0)
        self._rows: list[Block] = []  # one block of rows, in the order of keys

    def add(self, block: Block, y: Array | None = None, weight: Array | None = None, start: int = 0) -> None:
        n = block.shape[0]
        keys = -np.log(open_interval(Rng(self.seed).words("reservoir", start, n)))
        if weight is not None:
            with np.errstate(divide="ignore"):
                keys = np.where(np.asarray(weight) > 0, keys / np.asarray(weight, dtype=np.float64), np.inf)
        best = np.argsort(keys, kind="stable")[: self.size]
        best = best[np.isfinite(keys[best])]
        rows = block.tocsr() if isinstance(block, Sparse) else block.toarray()
        self._take(keys[best], type(block)(rows[best]))  # type: ignore[call-arg]

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
        from mercer.blocks import matrix

        return matrix(self._rows[0])

    def _take(self, keys: Array, block: Block) -> None:
        both = np.concatenate([self.keys, keys])
        order = np.argsort(both, kind="stable")[: self.size]
        stacked = _stack([*self._rows, block])
        self.keys = both[order]
        self._rows = [type(block)(stacked[order])]  # type: ignore[call-arg]


class Moments:
    """n, sum z, sum z z', and with a target sum y, sum y y', sum z y': float64, shifted by the first block's mean.

    Products of one block are made in the block's own dtype and added up in float64. The shift keeps float32 products from losing the
    spread of columns whose mean is large. Moments can be subtracted, so that a fold can be left out without a second pass.
    """

    def __init__(self) -> None:
        self.rows = 0
        self.n = 0.0
        self.shift: Array | None = None
        self._sum: Array | None = None  # sum w (z - shift)
        self._products: Array | None = None  # sum w (z - shift)(z - shift)'
        self._targets: Array | None = None  # sum w y
        self._target_products: Array | None = None  # sum w y y'
        self._cross: Array | None = None  # sum w (z - shift) y'

    def add(self, block: Block, y: Array | None = None, weight: Array | None = None, start: int = 0) -> None:
        n, D = block.shape
        if n == 0:
            return
        if self.shift is None or self._sum is None or self._products is None:
            self.shift = np.zeros(D) if isinstance(block, Sparse) else _shift(block.toarray())
            self._sum, self._products = np.zeros(D), np.zeros((D, D))
        w = np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64)
        centred = _centre(block, self.shift)
        weighted = centred if weight is None else _scale_rows(centred, w)
        products = weighted.T @ centred
        self.rows += n
        self.n += float(w.sum())
        self._sum += np.asarray(weighted.sum(axis=0, dtype=np.float64)).ravel()
        self._products += products.toarray() if hasattr(products, "indptr") else products
        if y is not None:
            self._add_targets(centred, np.asarray(y, dtype=np.float64).reshape(n, -1), w)

    def _add_targets(self, centred: Any, y: Array, w: Array) -> None:
        if self._targets is None or self._target_products is None or self._cross is None:
            self._targets, self._target_products = np.zeros(y.shape[1]), np.zeros((y.shape[1], y.shape[1]))
            self._cross = np.zeros((centred.shape[1], y.shape[1]))
        weighted = y * w[:, None]
        self._targets += weighted.sum(axis=0)
        self._target_products += weighted.T @ y
        self._cross += centred.T @ weighted

    @property
    def mean(self) -> Array:
        """sum w z / n."""
        return self._known("shift") + self._known("_sum") / self.n

    @property
    def scatter(self) -> Array:
        """sum w (z - mean)(z - mean)'."""
        total = self._known("_sum")
        return self._known("_products") - np.outer(total, total / self.n)

    @property
    def target_mean(self) -> Array:
        """sum w y / n."""
        return self._known("_targets") / self.n

    @property
    def target_scatter(self) -> Array:
        """sum w (y - mean)(y - mean)'."""
        total = self._known("_targets")
        return self._known("_target_products") - np.outer(total, total / self.n)

    @property
    def cross(self) -> Array:
        """sum w (z - mean)(y - mean)', one column for each target."""
        return self._known("_cross") - np.outer(self._known("_sum"), self._known("_targets") / self.n)

    def __add__(self, other: Moments) -> Moments:
        return self._combine(other, +1)

    def __sub__(self, other: Moments) -> Moments:
        return self._combine(other, -1)

    def _combine(self, other: Moments, sign: int) -> Moments:
        merged = copy.copy(self)
        if other.shift is None:
            return merged
        if self.shift is None:
            if sign < 0:
                raise ValueError("Moments of rows cannot be taken from moments of no rows.")
            return copy.copy(other)
        if self.shift.shape != other.shift.shape or (self._cross is None) != (other._cross is None):
            raise ValueError("Moments of different widths, or with and without a target, do not combine.")
        step = other.shift - self.shift  # other's sums, as they would be with our shift
        other_sum = other._known("_sum")
        moved = np.outer(other_sum, step)
        merged.rows = self.rows + sign * other.rows
        merged.n = self.n + sign * other.n
        merged._sum = self._known("_sum") + sign * (other_sum + other.n * step)
        merged._products = self._known("_products") + sign * (
            other._known("_products") + moved + moved.T + other.n * np.outer(step, step)
        )
        if other._cross is not None:
            targets = other._known("_targets")
            merged._targets = self._known("_targets") + sign * targets
            merged._target_products = self._known("_target_products") + sign * other._known("_target_products")
            merged._cross = self._known("_cross") + sign * (other._cross + np.outer(step, targets))
        return merged

    def _known(self, name: str) -> Array:
        value = getattr(self, name)
        if value is None:
            what = "a target" if name in ("_targets", "_target_products", "_cross") else "a row"
            raise ValueError(f"These Moments have not seen {what}.")
        return value


def _weighty(block: Block, weight: Array | None) -> Any:
    rows = block.tocsr() if isinstance(block, Sparse) else block.toarray()
    return rows if weight is None else rows[np.asarray(weight) > 0]


def _shift(rows: Array) -> Array:
    """The mean of the rows, as numbers that float32 and float64 hold alike, so that blocks of either dtype are shifted by the same."""
    mean = rows.mean(axis=0, dtype=np.float64)
    with np.errstate(over="ignore"):
        short = mean.astype(np.float32).astype(np.float64)
    return np.where(np.isfinite(short), short, mean)


def _centre(block: Block, shift: Array) -> Any:
    if not isinstance(block, Sparse):
        return block.toarray() - shift.astype(block.dtype)
    return block.tocsr() if not shift.any() else block.toarray() - shift.astype(block.dtype)


def _scale_rows(rows: Any, w: Array) -> Any:
    w = w.astype(rows.dtype)
    return rows.multiply(w[:, None]).tocsr() if hasattr(rows, "indptr") else rows * w[:, None]


def _stack(blocks: list[Block]) -> Any:
    if any(isinstance(block, Sparse) for block in blocks):
        from scipy.sparse import vstack

        return vstack([block.tocsr() for block in blocks], format="csr")
    return np.concatenate([block.toarray() for block in blocks])
