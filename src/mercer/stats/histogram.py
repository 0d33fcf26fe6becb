"""Histograms on fixed grids of logarithmic bins: what poles, landmarks and anchors are fitted
to.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.maps.block import Block
from mercer.stats.basic import frequency_weights

Array = NDArray[Any]


class Histogram:
    """Weight of the entries in each of a fixed grid of logarithmic bins, `per_octave` to a factor
    of 2; zeros and negatives counted apart.

    The grid does not depend on the data, so that histograms merge exactly. All columns are pooled.
    With magnitudes, |x| is counted. low and high are the smallest and the largest entry whose
    weight is not 0.
    """

    def __init__(self, per_octave: int = 16, *, magnitudes: bool = False) -> None:
        self.per_octave = per_octave
        self.magnitudes = magnitudes
        self.zeros = 0.0
        self.negatives = 0.0
        self.low, self.high = np.inf, -np.inf
        self.bins: dict[int, float] = {}

    def add(
        self, block: Block, y: Array | None = None, weight: Array | None = None, start: int = 0
    ) -> None:
        n, d = block.shape
        weights = frequency_weights(n, weight)
        csr = block.tocsr()
        per_value = np.repeat(weights, np.diff(csr.indptr))
        values = (
            np.abs(csr.data.astype(np.float64)) if self.magnitudes else csr.data.astype(np.float64)
        )
        counted = values[per_value > 0]
        zeros = [0.0] if np.count_nonzero(per_value) < np.count_nonzero(weights) * d else []
        self._extend(
            min([*zeros, counted.min(initial=np.inf)]), max([*zeros, counted.max(initial=-np.inf)])
        )
        positive, negative = values > 0, values < 0
        bins, places = np.unique(
            np.floor(np.log2(values[positive]) * self.per_octave), return_inverse=True
        )
        for edge, total in zip(bins, np.bincount(places, weights=per_value[positive]), strict=True):
            self._take(int(edge), float(total))
        self.negatives += float(per_value[negative].sum())
        self.zeros += (
            float(weights.sum()) * d
            - float(per_value[positive].sum())
            - float(per_value[negative].sum())
        )

    def __add__(self, other: Histogram) -> Histogram:
        if self.per_octave != other.per_octave:
            raise ValueError(
                f"Histograms of {self.per_octave} and {other.per_octave} bins per octave do not "
                "merge."
            )
        merged = copy.copy(self)
        merged.bins = dict(self.bins)
        merged.zeros += other.zeros
        merged.negatives += other.negatives
        merged._extend(other.low, other.high)
        for edge, total in other.bins.items():
            merged._take(edge, total)
        return merged

    def edges(self) -> tuple[Array, Array]:
        """(low ends, high ends) of the bins that are not empty, in rising order."""
        bins = np.array(
            sorted(edge for edge, total in self.bins.items() if total > 0), dtype=np.float64
        )
        return np.exp2(bins / self.per_octave), np.exp2((bins + 1) / self.per_octave)

    def centers(self) -> tuple[Array, Array]:
        """(values, weights): the geometric middle of each bin that is not empty, in rising order,
        and its weight.
        """
        edges = sorted(edge for edge, total in self.bins.items() if total > 0)
        values = np.exp2((np.array(edges, dtype=np.float64) + 0.5) / self.per_octave)
        return values, np.array([self.bins[edge] for edge in edges])

    def _extend(self, low: float, high: float) -> None:
        self.low, self.high = min(self.low, low), max(self.high, high)

    def _take(self, edge: int, total: float) -> None:
        self.bins[edge] = self.bins.get(edge, 0.0) + total


class ColumnHistogram:
    """For each column the weight and the mean of the entries in each of a fixed grid of logarithmic
    bins; zeros have a bin of their own.

    The grid does not depend on the data, so that halves merge. A bin is 1/16 octave wide, on both
    sides of zero. With magnitudes, |x| is counted.
    """

    _OCTAVE, _MIDDLE = 16, 1 << 15  # bins of float64 run from -17184 to 16384

    def __init__(self, *, magnitudes: bool = False) -> None:
        self.magnitudes = magnitudes
        self.keys: Array = np.empty(0, dtype=np.int64)  # column * 2^17 + bin, rising
        self.weights: Array = np.empty(0)
        self.sums: Array = np.empty(0)
        self.low: Array = np.empty(0)
        self.high: Array = np.empty(0)

    def add(
        self, block: Block, y: Array | None = None, weight: Array | None = None, start: int = 0
    ) -> None:
        n, d = block.shape
        w = frequency_weights(n, weight)
        csr = block.tocsr()
        per_value = np.repeat(w, np.diff(csr.indptr))
        kept = (per_value > 0) & (csr.data != 0)
        columns, values, per_value = (
            csr.indices[kept].astype(np.int64),
            csr.data[kept].astype(float),
            per_value[kept],
        )
        values = np.abs(values) if self.magnitudes else values
        bins = np.floor(np.log2(np.abs(values)) * self._OCTAVE).astype(np.int64) + self._MIDDLE
        keys = columns * (4 * self._MIDDLE) + np.where(values > 0, bins, -bins)
        zeros = w.sum() - np.bincount(columns, weights=per_value, minlength=d)
        missing = np.count_nonzero(w) - np.bincount(columns, minlength=d)
        empty = np.flatnonzero(missing)
        low, high = np.full(d, np.inf), np.full(d, -np.inf)
        low[empty] = high[empty] = 0.0
        np.minimum.at(low, columns, values)
        np.maximum.at(high, columns, values)
        part = ColumnHistogram(magnitudes=self.magnitudes)
        part.low, part.high = low, high
        part._gather(
            np.concatenate([keys, empty * (4 * self._MIDDLE)]),
            np.concatenate([per_value, zeros[empty]]),
            np.concatenate([per_value * values, np.zeros(len(empty))]),
        )
        self.__dict__.update((self + part).__dict__)

    def __add__(self, other: ColumnHistogram) -> ColumnHistogram:
        if not len(self.low) or not len(other.low):
            return copy.copy(self if len(self.low) else other)
        if len(self.low) != len(other.low):
            raise ValueError(
                f"Histograms of {len(self.low)} and {len(other.low)} columns do not merge."
            )
        merged = ColumnHistogram(magnitudes=self.magnitudes)
        merged.low, merged.high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        parts = (
            (getattr(self, name), getattr(other, name)) for name in ("keys", "weights", "sums")
        )
        merged._gather(*(np.concatenate(pair) for pair in parts))
        return merged

    def column(self, j: int) -> tuple[Array, Array]:
        """(values, weights) of column j: the mean of each bin that is not empty, in rising order,
        and its weight.
        """
        width = 4 * self._MIDDLE
        first, last = np.searchsorted(self.keys, [j * width - width // 2, j * width + width // 2])
        return self.sums[first:last] / self.weights[first:last], self.weights[first:last]

    def pooled(self) -> tuple[Array, Array]:
        """(values, weights) of all columns together: the mean of each bin that is not empty, in
        rising order, and its weight.
        """
        width = 4 * self._MIDDLE
        bins, places = np.unique((self.keys + width // 2) % width, return_inverse=True)
        weights, sums = (
            np.bincount(places, weights=part, minlength=len(bins))
            for part in (self.weights, self.sums)
        )
        return sums / weights, weights

    def _gather(self, keys: Array, weights: Array, sums: Array) -> None:
        self.keys, places = np.unique(keys, return_inverse=True)
        self.weights = np.bincount(places, weights=weights, minlength=len(self.keys))
        self.sums = np.bincount(places, weights=sums, minlength=len(self.keys))
