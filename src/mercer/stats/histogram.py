"""Mergeable histograms on fixed grids of logarithmic bins, for poles, landmarks and anchors."""

from __future__ import annotations

from typing import Self

import numpy as np

from mercer._typing import Array
from mercer.maps.block import Block
from mercer.stats.base import Mergeable, frequency_weights


class Histogram(Mergeable):
    """Histogram of the entries of all columns on logarithmic bins.

    The bins do not depend on the data, so that histograms merge exactly. Zeros and negative entries
    are counted apart.

    Parameters
    ----------
    per_octave : int, default=16
        Bins for each factor of 2.
    magnitudes : bool, default=False
        Count |x| instead of x.

    Attributes
    ----------
    bins : dict of int to float
        Weight of each bin that is not empty.
    zeros, negatives : float
        Their weights.
    low, high : float
        Smallest and largest entry whose weight is not 0.
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
        """Add the rows of a block."""
        n, d = block.shape
        weights = frequency_weights(n, weight)
        csr = block.tocsr()
        per_value = np.repeat(weights, np.diff(csr.indptr))
        values = csr.data.astype(np.float64)
        values = np.abs(values) if self.magnitudes else values
        counted = values[per_value > 0]
        zeros = [0.0] if np.count_nonzero(per_value) < np.count_nonzero(weights) * d else []
        self.low = min([self.low, *zeros, counted.min(initial=np.inf)])
        self.high = max([self.high, *zeros, counted.max(initial=-np.inf)])
        positive, negative = values > 0, values < 0
        bins, inverse = np.unique(
            np.floor(np.log2(values[positive]) * self.per_octave), return_inverse=True
        )
        totals = np.bincount(inverse, weights=per_value[positive])
        for edge, total in zip(bins, totals, strict=True):
            self.bins[int(edge)] = self.bins.get(int(edge), 0.0) + float(total)
        self.negatives += float(per_value[negative].sum())
        self.zeros += (
            float(weights.sum()) * d
            - float(per_value[positive].sum())
            - float(per_value[negative].sum())
        )

    def __iadd__(self, other: Self) -> Self:
        if self.per_octave != other.per_octave:
            raise ValueError(
                f"Histograms of {self.per_octave} and {other.per_octave} bins per octave do not "
                "merge."
            )
        self.zeros += other.zeros
        self.negatives += other.negatives
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        for edge, total in other.bins.items():
            self.bins[edge] = self.bins.get(edge, 0.0) + total
        return self

    def edges(self) -> tuple[Array, Array]:
        """Return the lower and the upper edges of the bins that are not empty, ascending."""
        bins = np.array(
            sorted(edge for edge, total in self.bins.items() if total > 0), dtype=np.float64
        )
        return np.exp2(bins / self.per_octave), np.exp2((bins + 1) / self.per_octave)

    def centers(self) -> tuple[Array, Array]:
        """Return the geometric centers of the bins that are not empty, ascending, and weights."""
        edges = sorted(edge for edge, total in self.bins.items() if total > 0)
        values = np.exp2((np.array(edges, dtype=np.float64) + 0.5) / self.per_octave)
        return values, np.array([self.bins[edge] for edge in edges])


class ColumnHistogram(Mergeable):
    """Weight and mean of the entries of each column in logarithmic bins.

    Bins are 1/16 octave wide on both sides of zero, and zeros have a bin of their own. The bins do
    not depend on the data, so that histograms merge.

    Parameters
    ----------
    magnitudes : bool, default=False
        Count |x| instead of x.

    Attributes
    ----------
    low, high : array of shape (d,)
        Smallest and largest entry of each column, over the rows whose weight is not 0.
    """

    # Bins of float64 are numbered -17184 to 16384.
    _PER_OCTAVE, _OFFSET = 16, 1 << 15

    def __init__(self, *, magnitudes: bool = False) -> None:
        self.magnitudes = magnitudes
        self.keys: Array = np.empty(0, dtype=np.int64)  # column * 2^17 + bin, ascending
        self.weights: Array = np.empty(0)
        self.sums: Array = np.empty(0)
        self.low: Array = np.empty(0)
        self.high: Array = np.empty(0)

    def add(
        self, block: Block, y: Array | None = None, weight: Array | None = None, start: int = 0
    ) -> None:
        """Add the rows of a block."""
        n, d = block.shape
        w = frequency_weights(n, weight)
        csr = block.tocsr()
        per_value = np.repeat(w, np.diff(csr.indptr))
        counted = (per_value > 0) & (csr.data != 0)
        columns, values = csr.indices[counted].astype(np.int64), csr.data[counted].astype(float)
        per_value = per_value[counted]
        values = np.abs(values) if self.magnitudes else values
        bins = np.floor(np.log2(np.abs(values)) * self._PER_OCTAVE).astype(np.int64) + self._OFFSET
        keys = columns * (4 * self._OFFSET) + np.where(values > 0, bins, -bins)
        zeros = w.sum() - np.bincount(columns, weights=per_value, minlength=d)
        with_zeros = np.flatnonzero(np.count_nonzero(w) - np.bincount(columns, minlength=d))
        low, high = np.full(d, np.inf), np.full(d, -np.inf)
        low[with_zeros] = high[with_zeros] = 0.0
        np.minimum.at(low, columns, values)
        np.maximum.at(high, columns, values)
        part = ColumnHistogram(magnitudes=self.magnitudes)
        part.low, part.high = low, high
        part._set_bins(
            np.concatenate([keys, with_zeros * (4 * self._OFFSET)]),
            np.concatenate([per_value, zeros[with_zeros]]),
            np.concatenate([per_value * values, np.zeros(len(with_zeros))]),
        )
        self += part

    def __iadd__(self, other: ColumnHistogram) -> Self:
        if not len(other.low):
            return self
        if not len(self.low):
            vars(self).update(vars(other))
            return self
        if len(self.low) != len(other.low):
            raise ValueError(
                f"Histograms of {len(self.low)} and {len(other.low)} columns do not merge."
            )
        self.low, self.high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        parts = (
            (getattr(self, name), getattr(other, name)) for name in ("keys", "weights", "sums")
        )
        self._set_bins(*(np.concatenate(pair) for pair in parts))
        return self

    def column(self, j: int) -> tuple[Array, Array]:
        """Return the means of the bins of column j that are not empty, ascending, and weights."""
        width = 4 * self._OFFSET
        first, last = np.searchsorted(self.keys, [j * width - width // 2, j * width + width // 2])
        return self.sums[first:last] / self.weights[first:last], self.weights[first:last]

    def pooled(self) -> tuple[Array, Array]:
        """Return the means of the bins of all columns together, ascending, and their weights."""
        width = 4 * self._OFFSET
        bins, inverse = np.unique((self.keys + width // 2) % width, return_inverse=True)
        weights, sums = (
            np.bincount(inverse, weights=part, minlength=len(bins))
            for part in (self.weights, self.sums)
        )
        return sums / weights, weights

    def _set_bins(self, keys: Array, weights: Array, sums: Array) -> None:
        """Sum the weights and values of equal keys."""
        self.keys, inverse = np.unique(keys, return_inverse=True)
        self.weights = np.bincount(inverse, weights=weights, minlength=len(self.keys))
        self.sums = np.bincount(inverse, weights=sums, minlength=len(self.keys))
