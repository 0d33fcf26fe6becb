"""Statistics of the columns of a table in one pass; NaN stands for a missing cell.

Counts, extremes, samples and categories of two halves merge into exactly those of the whole; means
and variances do so to twice the digits of float64 for halves of whole tiles.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from mercer._typing import Array, is_csr
from mercer.data.calendar import date_parts, require_dates
from mercer.maps.block import Block, Dense, matrix
from mercer.stats.base import frequency_weights
from mercer.stats.basic import Reservoir

CATEGORIES = 65_536
"""Distinct values of a column that are counted, 1 MB; fewer in a table of more than 64 such."""
_ALL_CATEGORIES, _FEWEST_CATEGORIES = 64 * CATEGORIES, 1024  # of all columns, and of each of many
_HASHES = 2.0**52  # number of hash values of a text
_BUFFER_ROWS = 8192  # rows that are sorted at once: one sort takes less than sixteen of 512 rows
_BUFFER_NUMBERS = 2**22  # 32 MB
_LARGEST_INTEGER = 2.0**53
_SPLIT = 2.0**27 + 1  # Veltkamp's, for float64


class TableColumns:
    """Missing cells, moments, extremes and a sample of numbers; counts of categories; date parts.

    Parameters
    ----------
    numbers : tuple of int
        Columns of the matrix that are numbers: booleans, dates and counts of words among them.
    categories : tuple of int
        Columns that are hashes of texts.
    dates : tuple of int
        Columns among ``numbers`` that are seconds since 1970.
    sample_rows : int
        Rows of the sample of ``numbers``.
    seed : int
        Of the sample.

    Attributes
    ----------
    moments : CellMoments
        Of ``numbers``.
    counters : RowCounters
        Of ``numbers``.
    parts : DateRanges
        Of ``dates``.
    """

    def __init__(
        self,
        numbers: tuple[int, ...],
        categories: tuple[int, ...],
        dates: tuple[int, ...],
        sample_rows: int,
        seed: int,
    ) -> None:
        self.numbers = numbers
        self.categories = categories
        self.dates = dates
        self.sample_rows = sample_rows
        self.seed = seed
        self.moments = CellMoments.empty(len(numbers))
        self.counters = RowCounters.empty(len(numbers))
        self.parts = DateRanges.empty(len(dates))
        self._sample = Reservoir(sample_rows, seed)
        limit = max(_FEWEST_CATEGORIES, _ALL_CATEGORIES // max(1, len(categories)))
        self._counts = [CategoryCounts(min(limit, CATEGORIES)) for _ in categories]
        self._buffer: list[tuple[Array, Array, Array, int]] = []

    @property
    def sample(self) -> Reservoir:
        """Sample of the rows of ``numbers``."""
        self._flush()
        return self._sample

    @property
    def counts(self) -> list[CategoryCounts]:
        """Counts of each column of ``categories``."""
        self._flush()
        return self._counts

    def add(
        self, block: Block, y: Array | None = None, weight: Array | None = None, start: int = 0
    ) -> None:
        """Add the rows of a block; ``start`` is the index of its first row in the stream."""
        rows = matrix(block)
        n = rows.shape[0]
        rows = rows.toarray() if is_csr(rows) else rows
        weights = frequency_weights(n, weight)
        numbers = np.ascontiguousarray(rows[:, list(self.numbers)], dtype=np.float64)
        hashes = np.ascontiguousarray(rows[:, list(self.categories)].T, dtype=np.float64)
        self.counters = self.counters + RowCounters.of(numbers, start)
        places = [self.numbers.index(column) for column in self.dates]
        require_dates(numbers[:, places], self.dates, start)
        counted = weights > 0
        every = bool(counted.all())
        if every or counted.any():
            kept = numbers if every else numbers[counted]
            own = weights if every else weights[counted]
            self.moments = self.moments + CellMoments.of(kept, own)
            if self.dates:
                self.parts = self.parts + DateRanges.of(kept[:, places])
        self._buffer.append((numbers, hashes, weights, start))
        held = sum(len(part[2]) for part in self._buffer)
        if held >= _BUFFER_ROWS or held * rows.shape[1] >= _BUFFER_NUMBERS:
            self._flush()

    def __add__(self, other: Self) -> Self:
        self._flush()
        other._flush()
        merged = copy.copy(self)
        merged.moments = self.moments + other.moments
        merged.counters = self.counters + other.counters
        merged.parts = self.parts + other.parts
        merged._sample = self._sample + other._sample
        merged._counts = [
            mine + theirs for mine, theirs in zip(self._counts, other._counts, strict=True)
        ]
        merged._buffer = []
        return merged

    def _flush(self) -> None:
        """Add the rows of the buffer to the sample and to the counts of categories."""
        while self._buffer:
            # consecutive rows at once: the key of a sampled row is a function of its index
            end, count = self._buffer[0][3], 0
            for part in self._buffer:
                if part[3] != end:
                    break
                end, count = end + len(part[2]), count + 1
            parts, self._buffer = self._buffer[:count], self._buffer[count:]
            weights = np.concatenate([part[2] for part in parts])
            if self.numbers:
                rows = np.concatenate([part[0] for part in parts])
                self._sample.add(Dense(rows), weight=weights, start=parts[0][3])
            for j, counts in enumerate(self._counts):
                counts.add(np.concatenate([part[1][j] for part in parts]), weights)


@dataclass(frozen=True, eq=False)
class CellMoments:
    """Weights of present and missing cells, extremes, means and variances of columns.

    The sums of x and of x^2 are pairs of float64 numbers (double-double), so that the order in
    which tiles are merged changes no digit of a mean or a variance.
    """

    present: Array
    missing: Array
    low: Array  # inf where no cell is present
    high: Array
    sums: tuple[Array, Array]
    squares: tuple[Array, Array]

    @classmethod
    def empty(cls, columns: int) -> CellMoments:
        """Return the moments of no rows."""
        zero = np.zeros(columns)
        return cls(
            zero,
            zero,
            np.full(columns, np.inf),
            np.full(columns, -np.inf),
            (zero,) * 2,
            (zero,) * 2,
        )

    @classmethod
    @np.errstate(over="ignore", invalid="ignore")
    def of(cls, values: Array, weights: Array) -> CellMoments:
        """Return the moments of rows."""
        absent = np.isnan(values)
        total = float(weights.sum())
        if absent.any():
            missing = weights @ absent
            per_cell = np.where(absent, 0.0, weights[:, None])
            present = np.where(absent.all(axis=0), 0.0, total - missing)
            low = np.where(absent, np.inf, values).min(axis=0)
            high = np.where(absent, -np.inf, values).max(axis=0)
            base = np.where(present > 0, low, 0.0)
            values = np.where(absent, base, values)
            count = np.where(present > 0, present, 1.0)
            mean = base + np.einsum("ij,ij->j", per_cell, values - base) / count
            rest = np.einsum("ij,ij->j", per_cell, values - mean)
            squares = np.einsum("ij,ij->j", per_cell, (values - mean) ** 2)
        else:
            present, missing = np.full(values.shape[1], total), np.zeros(values.shape[1])
            low, high = values.min(axis=0), values.max(axis=0)
            # from the least value: the mean of equal values is exactly that value
            mean = low + np.einsum("i,ij->j", weights, values - low) / total
            rest = np.einsum("i,ij->j", weights, values - mean)
            squares = np.einsum("i,ij->j", weights, (values - mean) ** 2)
        # sum x = n m + sum (x - m) and sum x^2 = n m^2 + 2 m sum (x - m) + sum (x - m)^2, m the
        # rounded mean
        zero = np.zeros_like(mean)
        square, error = _multiply(mean, mean)
        product, more = _multiply(present, square)
        second = _add(_multiply(2 * mean, rest), (squares, zero))
        return cls(
            present,
            missing,
            low,
            high,
            _add(_multiply(present, mean), (rest, zero)),
            _add((product, more + present * error), second),
        )

    def __add__(self, other: CellMoments) -> CellMoments:
        return CellMoments(
            self.present + other.present,
            self.missing + other.missing,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            _add(self.sums, other.sums),
            _add(self.squares, other.squares),
        )

    @property
    def mean(self) -> Array:
        """Mean of the present cells of each column; 0 where there are none."""
        return self._mean()[0]

    @property
    def variance(self) -> Array:
        """Population variance of the present cells; 0 for a constant column."""
        mean, rest = self._mean()
        square, more = _multiply(mean, mean)
        product, error = _multiply(self.present, square)
        error += self.present * (more + 2 * mean * rest)
        spread = _add(self.squares, (-product, -error))[0]
        varies = (self.high > self.low) & (self.present > 0)
        return np.where(varies, np.maximum(spread, 0.0) / np.maximum(self.present, 1e-300), 0.0)

    def _mean(self) -> tuple[Array, Array]:
        count = np.where(self.present > 0, self.present, 1.0)
        mean = self.sums[0] / count
        product, error = _multiply(count, mean)
        return mean, ((self.sums[0] - product) + (self.sums[1] - error)) / count


@dataclass(frozen=True, eq=False)
class RowCounters:
    """Whether columns of integers count the rows, by the index of each row; weights do not matter.

    A column does so if it is first + step * row, or if its values are all the integers of a range.
    For the latter the sum of hashes of the values, modulo 2^64, is compared with that of the range.
    """

    rows: int
    integers: Array  # whether all cells are integers
    regular: Array  # whether all cells are on one line
    start: int  # the first row
    first: Array  # its values
    step: Array  # NaN with a single row
    low: Array
    high: Array
    checksum: Array  # uint64

    @classmethod
    def empty(cls, columns: int) -> RowCounters:
        """Return the counters of no rows."""
        nan, yes = np.full(columns, np.nan), np.ones(columns, dtype=bool)
        low, high = np.full(columns, np.inf), np.full(columns, -np.inf)
        return cls(0, yes, yes, 0, nan, nan, low, high, np.zeros(columns, dtype=np.uint64))

    @classmethod
    def of(cls, values: Array, start: int) -> RowCounters:
        """Return the counters of consecutive rows."""
        n, columns = values.shape
        result = cls.empty(columns)
        with np.errstate(invalid="ignore"):
            # NaN is not equal to itself; most columns that are no integers fail at the first row
            some = np.flatnonzero(values[0] == np.rint(values[0]))
            part = values[:, some]
            whole = ((part == np.rint(part)) & (np.abs(part) < _LARGEST_INTEGER)).all(axis=0)
        integers, regular = np.zeros(columns, dtype=bool), np.zeros(columns, dtype=bool)
        integers[some[whole]] = True
        columns_of_integers = np.flatnonzero(integers)
        part = values[:, columns_of_integers]
        step = np.full(columns, np.nan)
        if n > 1:
            steps = np.diff(part, axis=0)
            regular[columns_of_integers] = (steps == steps[:1]).all(axis=0) & (steps[0] != 0)
            step[columns_of_integers] = steps[0]
        else:
            regular[columns_of_integers] = True
        low, high, checksum = result.low, result.high, result.checksum
        low[columns_of_integers] = part.min(axis=0)
        high[columns_of_integers] = part.max(axis=0)
        hashes = _mix(part.astype(np.int64).view(np.uint64))
        checksum[columns_of_integers] = hashes.sum(axis=0, dtype=np.uint64)
        return cls(n, integers, regular, start, values[0], step, low, high, checksum)

    def __add__(self, other: RowCounters) -> RowCounters:
        if self.rows == 0 or other.rows == 0:
            return other if self.rows == 0 else self
        if other.start < self.start:
            return other + self
        with np.errstate(invalid="ignore"):
            between = (other.first - self.first) / (other.start - self.start)
            step = np.where(np.isnan(self.step), between, self.step)
            regular = self.regular & other.regular & (step != 0) & (between == step)
            regular &= np.isnan(other.step) | (other.step == step)
        return RowCounters(
            self.rows + other.rows,
            self.integers & other.integers,
            regular,
            self.start,
            self.first,
            step,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.checksum + other.checksum,
        )

    @property
    def counts_rows(self) -> Array:
        """Whether each column counts the rows."""
        result = self.integers & self.regular
        with np.errstate(invalid="ignore"):
            fills = self.integers & ~result & (self.high - self.low + 1 == self.rows)
        for column in np.flatnonzero(fills):
            result[column] = self.checksum[column] == _sum_of_range(
                int(self.low[column]), int(self.high[column])
            )
        return result


@dataclass(frozen=True, eq=False)
class DateRanges:
    """Least and largest day of the year, weekday and second of the day of columns of dates."""

    low: Array  # (columns, 3); inf where no cell is present
    high: Array

    @classmethod
    def empty(cls, columns: int) -> DateRanges:
        """Return the ranges of no rows."""
        return cls(np.full((columns, 3), np.inf), np.full((columns, 3), -np.inf))

    @classmethod
    def of(cls, seconds: Array) -> DateRanges:
        """Return the ranges of rows; NaN is left out."""
        absent = np.isnan(seconds)
        parts = date_parts(np.where(absent, 0.0, seconds))
        return cls(
            np.stack([np.where(absent, np.inf, part).min(axis=0) for part in parts], axis=1),
            np.stack([np.where(absent, -np.inf, part).max(axis=0) for part in parts], axis=1),
        )

    def __add__(self, other: DateRanges) -> DateRanges:
        return DateRanges(np.minimum(self.low, other.low), np.maximum(self.high, other.high))

    @property
    def varies(self) -> Array:
        """Whether each part of each column has more than one value, (columns, 3)."""
        return self.high > self.low


class CategoryCounts:
    """Weights of the distinct hashes of a column, exactly, up to ``limit`` of them.

    Of more hashes the smallest are kept, with exact weights: they are a uniform sample of the
    distinct values, which depends on these alone, and estimate their number.

    Parameters
    ----------
    limit : int

    Attributes
    ----------
    hashes : array of int64
        Ascending.
    weights : array
        Weights of the rows that have each of them.
    missing : float
        Weight of the missing cells.
    rows : int
        Present cells, whatever their weights.
    truncated : bool
        Whether there were more hashes.
    """

    def __init__(self, limit: int = CATEGORIES) -> None:
        self.limit = limit
        self.hashes: Array = np.empty(0, dtype=np.int64)
        self.weights: Array = np.empty(0)
        self.missing = 0.0
        self.rows = 0
        self.truncated = False

    def add(self, values: Array, weights: Array) -> None:
        """Add cells, float64 with NaN for missing ones."""
        absent = np.isnan(values)
        if absent.any():
            self.missing += float(weights[absent].sum())
            values, weights = values[~absent], weights[~absent]
        counted = weights > 0
        if not counted.all():
            values, weights = values[counted], weights[counted]
        self.rows += len(values)
        self._merge(values.astype(np.int64), weights)

    def __add__(self, other: Self) -> Self:
        merged = copy.copy(self)
        merged.missing += other.missing
        merged.rows += other.rows
        merged._merge(other.hashes, other.weights)
        merged.truncated |= other.truncated
        return merged

    @property
    def distinct(self) -> float:
        """Number of distinct values; beyond ``limit`` an estimate, with an error of 0.4%."""
        if not self.truncated:
            return float(len(self.hashes))
        return (self.limit - 1) / ((float(self.hashes[-1]) + 1) / _HASHES)

    def _merge(self, hashes: Array, weights: Array) -> None:
        if self.truncated:
            kept = hashes <= self.hashes[-1]
            hashes, weights = hashes[kept], weights[kept]
        place = np.searchsorted(self.hashes, hashes)
        place[place == len(self.hashes)] = 0
        known = self.hashes[place] == hashes if len(self.hashes) else np.zeros(len(hashes), bool)
        if known.any():
            more = np.bincount(place[known], weights[known], minlength=len(self.hashes))
            self.weights = self.weights + more
        if known.all():
            return
        new, inverse = np.unique(hashes[~known], return_inverse=True)
        all_hashes = np.concatenate([self.hashes, new])
        order = np.argsort(all_hashes, kind="stable")[: self.limit]
        self.truncated |= len(all_hashes) > self.limit
        sums = np.bincount(inverse.ravel(), weights[~known], minlength=len(new))
        self.hashes = all_hashes[order]
        self.weights = np.concatenate([self.weights, sums])[order]


def _multiply(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the product and its rounding error (Dekker)."""
    product = a * b
    (ah, al), (bh, bl) = (_halves(x) for x in (a, b))
    return product, ((ah * bh - product) + ah * bl + al * bh) + al * bl


def _halves(x: Array) -> tuple[Array, Array]:
    large = _SPLIT * x
    high = large - (large - x)
    return high, x - high


def _add(a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
    """Return the sum of two double-double numbers."""
    total = a[0] + b[0]
    part = total - a[0]
    error = (a[0] - (total - part)) + (b[0] - part) + (a[1] + b[1])
    rounded = total + error
    return rounded, error - (rounded - total)


def _mix(words: Any) -> Any:
    """Return a hash of each word (the finalizer of SplitMix64)."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _sum_of_range(low: int, high: int) -> int:
    """Return the sum of the hashes of the integers low, ..., high, modulo 2^64."""
    total, step = 0, 2**20
    for start in range(low, high + 1, step):
        part = np.arange(start, min(start + step, high + 1), dtype=np.int64).view(np.uint64)
        total += int(_mix(part).sum(dtype=np.uint64))
    return total % 2**64
