"""Statistics of the columns of a table in one pass; NaN stands for a missing cell.

Counts, extremes, samples and categories of two halves merge into exactly those of the whole; means
and variances do so to twice the digits of float64 for halves of whole tiles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from mercer._typing import Array, is_csr
from mercer.data.calendar import date_parts, require_dates
from mercer.maps.block import Block, Dense, matrix
from mercer.stats.base import Mergeable, frequency_weights
from mercer.stats.basic import Reservoir

CATEGORIES = 65_536
"""Distinct values of a column that are counted, 1 MB; fewer in a table of more than 64 such."""
_ALL_CATEGORIES, _FEWEST_CATEGORIES = 64 * CATEGORIES, 1024  # of all columns, and of each of many
_HASHES = 2.0**52  # number of hash values of a text
_BUFFER_ROWS = 8192  # rows that are sorted at once: one sort takes less than sixteen of 512 rows
_BUFFER_NUMBERS = 2**22  # 32 MB
_SLOTS = 4096
_LARGEST_INTEGER = 2.0**53
_SPLIT = 2.0**27 + 1  # Veltkamp's, for float64


class TableColumns(Mergeable):
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
        self._moments = CellMoments.empty(len(numbers))
        self._counters = RowCounters.empty(len(numbers))
        self._parts = DateRanges.empty(len(dates))
        self._sample = Reservoir(sample_rows, seed)
        limit = max(_FEWEST_CATEGORIES, _ALL_CATEGORIES // max(1, len(categories)))
        self._counts = [CategoryCounts(min(limit, CATEGORIES)) for _ in categories]
        self._buffer: list[tuple[Array, Array, int]] = []  # tiles: rows, weights, first row

    @property
    def moments(self) -> CellMoments:
        """Moments of ``numbers``."""
        self._flush()
        return self._moments

    @property
    def counters(self) -> RowCounters:
        """Counters of rows among ``numbers``."""
        self._flush()
        return self._counters

    @property
    def parts(self) -> DateRanges:
        """Ranges of the parts of ``dates``, as long as some of them do not vary."""
        self._flush()
        return self._parts

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
        rows = rows.toarray() if is_csr(rows) else rows
        require_dates(rows[:, list(self.dates)], self.dates, start)
        self._buffer.append((rows, frequency_weights(len(rows), weight), start))
        held = sum(len(part[0]) for part in self._buffer)
        if held >= _BUFFER_ROWS or held * rows.shape[1] >= _BUFFER_NUMBERS:
            self._flush()

    def __iadd__(self, other: Self) -> Self:
        self._flush()
        other._flush()
        self._moments = self._moments + other._moments
        self._counters = self._counters + other._counters
        self._parts = self._parts + other._parts
        self._sample += other._sample
        for i, counts in enumerate(other._counts):
            self._counts[i] += counts
        return self

    def _flush(self) -> None:
        """Add the rows of the buffer to all statistics, consecutive ones of one length at once."""
        while self._buffer:
            (first, _, start), count = self._buffer[0], 0
            for rows, _, at in self._buffer:
                if at != start + count * len(first) or len(rows) != len(first):
                    break
                count += 1
            parts, self._buffer = self._buffer[:count], self._buffer[count:]
            rows = np.concatenate([part[0] for part in parts])
            weights = np.concatenate([part[1] for part in parts])
            columns = np.ascontiguousarray(rows.T, dtype=np.float64)
            if self.numbers:
                self._add_numbers(columns[list(self.numbers)], weights, start, len(first))
            for column, counts in zip(self.categories, self._counts, strict=True):
                counts.add(columns[column], weights)

    def _add_numbers(self, columns: Array, weights: Array, start: int, tile: int) -> None:
        """Add the columns of ``numbers``, tiles of equal length."""
        self._counters = self._counters + RowCounters.of(columns, start)
        self._moments = self._moments + CellMoments.of(columns, weights, tile)
        if not self._parts.varies.all():
            places = [self.numbers.index(column) for column in self.dates]
            self._parts = self._parts + DateRanges.of(columns[places][:, weights > 0])
        self._sample.add(Dense(columns.T), weight=weights, start=start)


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
    def of(cls, columns: Array, weights: Array, tile: int) -> CellMoments:
        """Return the moments of columns, of shape (columns, rows), in tiles of `tile` rows.

        Each tile is summed by itself, so that the bits do not depend on how many there are.
        """
        values, w = columns.reshape(len(columns), -1, tile), weights.reshape(-1, tile)
        absent = np.isnan(values) | (w == 0)
        total = np.broadcast_to(w.sum(axis=1), values.shape[:2])
        some = absent.any()
        missing = (np.isnan(values) * w).sum(axis=2) if some else np.zeros_like(total)
        present = np.where(absent.all(axis=2), 0.0, total - missing) if some else total
        low = (np.where(absent, np.inf, values) if some else values).min(axis=2)
        high = (np.where(absent, -np.inf, values) if some else values).max(axis=2)
        weighted = bool((w != 1).any())

        def add_up(cells: Array) -> Array:
            """Return the weighted sums of present cells, which are overwritten."""
            if some:
                cells[absent] = 0.0
            if weighted:
                cells *= w
            return np.asarray(cells.sum(axis=2))

        # from the least value: the mean of equal values is exactly that value
        base = np.where(present > 0, low, 0.0)
        count = np.where(present > 0, present, 1.0)
        mean = base + add_up(values - base[..., None]) / count
        deviation = values - mean[..., None]
        rest, squares = add_up(deviation.copy()), add_up(deviation * deviation)
        # sum x = n m + sum (x - m) and sum x^2 = n m^2 + 2 m sum (x - m) + sum (x - m)^2, m the
        # rounded mean
        zero = np.zeros_like(mean)
        square, error = _multiply(mean, mean)
        product, more = _multiply(present, square)
        second = _add(_multiply(2 * mean, rest), (squares, zero))
        return cls(
            present.sum(axis=1),
            missing.sum(axis=1),
            low.min(axis=1),
            high.max(axis=1),
            _add_tiles(_add(_multiply(present, mean), (rest, zero))),
            _add_tiles(_add((product, more + present * error), second)),
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
    def of(cls, columns: Array, start: int) -> RowCounters:
        """Return the counters of columns of consecutive rows, of shape (columns, rows)."""
        n = columns.shape[1]
        result = cls.empty(len(columns))
        with np.errstate(invalid="ignore"):
            # NaN is not equal to itself; most columns that are no integers fail at the first row
            some = np.flatnonzero(columns[:, 0] == np.rint(columns[:, 0]))
            part = columns[some]
            whole = ((part == np.rint(part)) & (np.abs(part) < _LARGEST_INTEGER)).all(axis=1)
        integers, regular = (np.zeros(len(columns), dtype=bool) for _ in range(2))
        some, part = some[whole], part[whole]
        integers[some] = True
        step = np.full(len(columns), np.nan)
        if n > 1:
            steps = np.diff(part, axis=1)
            regular[some] = (steps == steps[:, :1]).all(axis=1) & (steps[:, 0] != 0)
            step[some] = steps[:, 0]
        else:
            regular[some] = True
        low, high, checksum = result.low, result.high, result.checksum
        low[some], high[some] = part.min(axis=1), part.max(axis=1)
        hashes = _mix(part.astype(np.int64).view(np.uint64))
        checksum[some] = hashes.sum(axis=1, dtype=np.uint64)
        return cls(n, integers, regular, start, columns[:, 0].copy(), step, low, high, checksum)

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
    """Least and largest day of the year, weekday and second of the day of columns of dates.

    Rows need not be added any more when all parts vary.
    """

    low: Array  # (columns, 3); inf where no cell is present
    high: Array

    @classmethod
    def empty(cls, columns: int) -> DateRanges:
        """Return the ranges of no rows."""
        return cls(np.full((columns, 3), np.inf), np.full((columns, 3), -np.inf))

    @classmethod
    def of(cls, seconds: Array) -> DateRanges:
        """Return the ranges of columns of dates, of shape (columns, rows); NaN is left out."""
        absent = np.isnan(seconds)
        parts = date_parts(np.where(absent, 0.0, seconds))
        ends = [
            (
                np.where(absent, np.inf, part).min(axis=1, initial=np.inf),
                np.where(absent, -np.inf, part).max(axis=1, initial=-np.inf),
            )
            for part in parts
        ]
        low, high = (np.stack(end, axis=1) for end in zip(*ends, strict=True))
        return cls(low, high)

    def __add__(self, other: DateRanges) -> DateRanges:
        return DateRanges(np.minimum(self.low, other.low), np.maximum(self.high, other.high))

    @property
    def varies(self) -> Array:
        """Whether each part of each column has more than one value, (columns, 3)."""
        return self.high > self.low


class CategoryCounts(Mergeable):
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
        self._slots: Array = np.zeros(_SLOTS, dtype=np.int64)  # a place by hash modulo _SLOTS

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

    def __iadd__(self, other: Self) -> Self:
        self.missing += other.missing
        self.rows += other.rows
        self._merge(other.hashes, other.weights)
        self.truncated |= other.truncated
        return self

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
        place, known = self._find(hashes)
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
        self._slots = np.zeros(_SLOTS, dtype=np.int64)
        self._slots[self.hashes % _SLOTS] = np.arange(len(self.hashes))

    def _find(self, hashes: Array) -> tuple[Array, Array]:
        """Return places in ``hashes``, and whether each of the given ones is at its place."""
        if not len(self.hashes):
            return np.zeros(len(hashes), dtype=np.int64), np.zeros(len(hashes), dtype=bool)
        # of few hashes nearly all have a slot of their own, which takes less than a binary search
        place = self._slots[hashes % _SLOTS]
        known = self.hashes[place] == hashes
        if not known.all():
            others = np.flatnonzero(~known)
            place[others] = np.searchsorted(self.hashes, hashes[others])
            place[place == len(self.hashes)] = 0
            known[others] = self.hashes[place[others]] == hashes[others]
        return place, known


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


def _add_tiles(pairs: tuple[Array, Array]) -> tuple[Array, Array]:
    """Return the sum of double-double numbers of shape (columns, tiles) over the tiles."""
    while (tiles := pairs[0].shape[1]) > 1:
        half = tiles // 2
        first, second, rest = (
            (pairs[0][:, span], pairs[1][:, span])
            for span in (slice(half), slice(half, 2 * half), slice(2 * half, None))
        )
        pairs = _add(first, second)
        if tiles % 2:
            pairs = (np.hstack([pairs[0], rest[0]]), np.hstack([pairs[1], rest[1]]))
    return pairs[0][:, 0], pairs[1][:, 0]


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
