"""Encoding of the matrix of a table: scaled numbers, indicators, one-hot categories, date parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mercer import ops
from mercer._typing import Array, is_csr
from mercer.data.calendar import DAY, date_parts, require_dates
from mercer.maps.stages.base import Stage, require
from mercer.parallel.device import to_device_of
from mercer.parallel.tile_size import Cost
from mercer.validation.rows import require_finite_features

PERIODS = (365.25, 7.0, float(DAY))
"""Of the day of the year, the weekday and the second of the day."""
MISSING = 2**53
"""Code of a missing category, beyond every hash."""
_LARGEST_WIDTH = 2**31  # features; a file with more was not written by a fit


@dataclass(frozen=True, eq=False)
class TableEncoding(Stage):
    """x -> (scaled numbers, indicators of missing cells, one-hot and hashed categories, dates).

    A number is mapped to (x - center)/scale, NaN to that of `fill`. A category that is not in its
    table is mapped to one of the features of other values, by its hash, or to zeros. The stage runs
    on the host: rows on a device are copied to it, and features back.
    """

    on_host: ClassVar[bool] = True
    width: int  # features
    sparse: bool  # CSR features
    nonnegative: bool  # features of dates are at least 0
    numbers: Array  # (p, 2): column, feature
    fill: Array  # (p,)
    center: Array  # (p,)
    scale: Array  # (p,)
    indicators: Array  # (q, 2): column, feature
    categories: Array  # (c, 3): column, first feature of other values or -1, their number
    offsets: Array  # (c + 1,): where the table of each category begins
    hashes: Array  # ascending in each table; MISSING for missing cells
    features: Array  # of each hash
    dates: Array  # (t, 5): column, feature of the number, feature of each sine or -1

    def __call__(self, X: Any, out: Array | None = None) -> Any:
        if ops.is_device(X):
            Z = self._dense(np.asarray(X), None)
            on_device = to_device_of(Z, X)
            if out is None:
                return on_device
            out[...] = on_device
            return out
        rows = X.toarray() if is_csr(X) else X
        if rows.dtype == np.float32 and (len(self.categories) or len(self.dates)):
            raise ValueError(
                "Tabular needs float64 rows: float32 numbers do not hold the hashes of categories "
                "and the seconds of dates."
            )
        return self._csr(rows) if self.sparse and out is None else self._dense(rows, out)

    def cost(self, d: int) -> Cost:
        flops = 8.0 * (len(self.numbers) + self.width)
        flops += 64.0 * (len(self.categories) + 8 * len(self.dates))
        return Cost(flops, 8.0 * (self.width + 2 * len(self.numbers) + 2), self.width)

    def check(self, d: int) -> None:
        super().check(d)
        require(0 < self.width < _LARGEST_WIDTH, self, f"a number of features, got {self.width}")
        shapes = {
            "numbers": (self.numbers, 2),
            "indicators": (self.indicators, 2),
            "categories": (self.categories, 3),
            "dates": (self.dates, 5),
        }
        for name, (table, columns) in shapes.items():
            valid = table.ndim == 2 and table.shape[1] == columns and table.dtype == np.int64
            valid = valid and bool(np.all((table[:, 0] >= 0) & (table[:, 0] < d)))
            valid = valid and bool(np.all((table[:, 1:] >= -1) & (table[:, 1:] <= self.width)))
            require(valid, self, f"{name} of {columns} integers that are columns and features")
        for name in ("numbers", "indicators", "dates"):
            feature = shapes[name][0][:, 1]
            valid = bool(np.all((feature >= 0) & (feature < self.width)))
            require(valid, self, f"a feature for each of its {name}")
        for name in ("fill", "center", "scale"):
            array = getattr(self, name)
            valid = array.shape == (len(self.numbers),) and array.dtype == np.float64
            require(valid, self, f"a {name} for each number")
        require(bool(np.all(self.scale > 0)), self, "scales above 0")
        count = len(self.hashes)
        valid = self.hashes.shape == self.features.shape == (count,)
        valid = valid and self.hashes.dtype == self.features.dtype == self.offsets.dtype == np.int64
        valid = valid and self.offsets.shape == (len(self.categories) + 1,)
        valid = valid and self.offsets[0] == 0 and self.offsets[-1] == count
        valid = valid and bool(np.all(np.diff(self.offsets) >= 0))
        valid = valid and bool(np.all((self.features >= 0) & (self.features < self.width)))
        require(valid, self, "a table of hashes and features for each category")
        for table, _, _ in self.tables():
            require(bool(np.all(np.diff(table) > 0)), self, "hashes that rise in each table")
        first, size = self.categories[:, 1], self.categories[:, 2]
        none, some = (first == -1) & (size == 0), (first >= 0) & (size > 0)
        valid = bool(np.all(none | (some & (first + size <= self.width))))
        require(valid, self, "features for the other values of a category")
        last = self.dates[:, 2:].max(axis=1, initial=-1)
        require(bool(np.all(last < self.width - 1)), self, "a sine and a cosine for each part")

    def unseen(self, rows: Array) -> Array:
        """Return the number of cells of each category that are in no table; 0 where it is partial.

        A missing cell is one of them where none was missing in fit.
        """
        result = np.zeros(len(self.categories), dtype=np.int64)
        for i, (_, place, features) in enumerate(self._places(rows)):
            # the table of a hashed column may lack values that fit saw
            if self.categories[i, 2] <= 1 or self.merged(i).any():
                result[i] = np.count_nonzero(place == len(features))
        return result

    def merged(self, i: int) -> Array:
        """Return which hashes in the table of category i share a feature with other values."""
        _, first, size = self.categories[i]
        features = self.features[self.offsets[i] : self.offsets[i + 1]]
        return (features >= first) & (features < first + size)

    def _dense(self, rows: Array, out: Array | None) -> Array:
        """Write the features of rows into an array."""
        n = len(rows)
        if out is None:
            out = np.empty((n, self.width), rows.dtype)
        if len(self.numbers) < self.width:
            out[...] = 0
        if len(self.numbers):
            out[:, _as_slice(self.numbers[:, 1])] = self._numbers(rows)
        if len(self.indicators):
            present = np.isnan(rows[:, _as_slice(self.indicators[:, 0])])
            out[:, _as_slice(self.indicators[:, 1])] = present
        for index, feature in self._ones(rows):
            out[index, feature] = 1
        for column, values in self._date_features(rows, out[:, self.dates[:, 1]]):
            out[:, column] = values
        self._require_finite(rows, out)
        return out

    def _csr(self, rows: Array) -> Any:
        """Return the features of rows as a CSR matrix."""
        from scipy.sparse import coo_array

        n = len(rows)
        parts: list[tuple[Array, Array, Array]] = []
        numbers = self._numbers(rows)
        self._require_finite(rows, numbers)
        of_dates = numbers[:, np.isin(self.numbers[:, 1], self.dates[:, 1])]
        squashed = set(self.dates[:, 1].tolist()) if self.nonnegative else set()
        plain = [i for i, feature in enumerate(self.numbers[:, 1]) if feature not in squashed]
        row, place = np.nonzero(numbers[:, plain])
        parts.append((row, self.numbers[plain, 1][place], numbers[:, plain][row, place]))
        row, place = np.nonzero(np.isnan(rows[:, self.indicators[:, 0]]))
        parts.append((row, self.indicators[place, 1], np.ones(len(row), rows.dtype)))
        for row, feature in self._ones(rows):
            feature = np.broadcast_to(feature, row.shape)
            parts.append((row, feature, np.ones(len(row), rows.dtype)))
        for column, values in self._date_features(rows, of_dates):
            row = np.flatnonzero(values)
            parts.append((row, np.full(len(row), column), values[row].astype(rows.dtype)))
        at, features, data = (np.concatenate(each) for each in zip(*parts, strict=True))
        index = np.int32 if max(self.width, len(data)) < 2**31 else np.int64
        Z = coo_array(
            (data, (at.astype(index), features.astype(index))), shape=(n, self.width)
        ).tocsr()
        Z.sort_indices()
        return Z

    def _numbers(self, rows: Array) -> Array:
        values = rows[:, _as_slice(self.numbers[:, 0])]
        absent = np.isnan(values)
        with np.errstate(over="ignore"):
            if absent.any():
                values = np.where(absent, self.fill, values)
            Z: Array = values - self.center
            Z /= self.scale
        return Z

    def _ones(self, rows: Array) -> Iterator[tuple[Array, Array]]:
        """Yield rows and features that are 1."""
        every = np.arange(len(rows))
        for i, (codes, place, features) in enumerate(self._places(rows)):
            _, first, size = self.categories[i]
            feature = np.append(features, -1)[place]
            if size:
                # a missing cell where none was is no value to be hashed
                other = (feature < 0) & ((size == 1) | (codes != MISSING))
                feature = np.where(other, first + codes % size, feature)
            kept = feature >= 0
            yield (every, feature) if kept.all() else (every[kept], feature[kept])

    def _places(self, rows: Array) -> Iterator[tuple[Array, Array, Array]]:
        """Yield, for each category, codes of the rows, their places in its table, its features.

        Codes that are not in it have the place after its end.
        """
        for table, features, column in self.tables():
            values = rows[:, column]
            codes = np.where(np.isnan(values), float(MISSING), values).astype(np.int64)
            place = np.searchsorted(table, codes)
            if len(table):
                inside = table[np.minimum(place, len(table) - 1)] == codes
                place = np.where(inside, place, len(table))
            yield codes, place, features

    def tables(self) -> Iterator[tuple[Array, Array, int]]:
        """Yield the hashes, the features and the column of each category."""
        for i, column in enumerate(self.categories[:, 0]):
            span = slice(self.offsets[i], self.offsets[i + 1])
            yield self.hashes[span], self.features[span], int(column)

    def _date_features(self, rows: Array, numbers: Array) -> Iterator[tuple[int, Array]]:
        """Yield features of dates and their values, given their scaled numbers."""
        if not len(self.dates):
            return
        seconds = rows[:, self.dates[:, 0]]
        require_dates(seconds, [int(column) for column in self.dates[:, 0]])
        absent = np.isnan(seconds)
        parts = date_parts(np.where(absent, 0.0, seconds))
        for i, (_, number, *sines) in enumerate(self.dates):
            if self.nonnegative:
                yield int(number), 0.5 + 0.5 * np.tanh(0.5 * numbers[:, i])
            for part, period, sine in zip(parts, PERIODS, sines, strict=True):
                if sine < 0:
                    continue
                angle = 2 * np.pi / period * part[:, i]
                for feature, wave in ((sine, np.sin), (sine + 1, np.cos)):
                    # no direction, the center of the circle, where the date is missing
                    values = np.where(absent[:, i], 0.0, wave(angle))
                    yield int(feature), 0.5 + 0.5 * values if self.nonnegative else values

    def _require_finite(self, rows: Array, Z: Array) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(np.sum(Z)):
                return
        # hashes are no numbers that are too large
        numbers = np.zeros_like(rows)
        columns = self.numbers[:, 0]
        numbers[:, columns] = np.nan_to_num(rows[:, columns], nan=0.0)
        require_finite_features(numbers, Z)


def _as_slice(places: Array) -> Any:
    """Return places as a slice where they are consecutive: views in place of copies."""
    if not len(places):
        return places
    first, last = int(places[0]), int(places[-1])
    consecutive = last - first + 1 == len(places) and bool(np.all(np.diff(places) == 1))
    return slice(first, last + 1) if consecutive else places
