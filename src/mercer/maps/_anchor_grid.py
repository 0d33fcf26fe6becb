"""Positions of anchors, the rising numbers at which a kernel is tabulated."""

from __future__ import annotations

import numpy as np

from mercer._typing import Array
from mercer.stats.histogram import ColumnHistogram, Histogram

_SWEEPS = 100  # of k-means, at most
_MOST_ANCHORS = 2**16


def uniform_anchors(low: float, high: float, count: int, zero: bool) -> Array:
    """Return count anchors at equal distances from low to high; with zero, one of them at 0."""
    if high <= low:
        high = low + 1.0
    if low <= 0 or not zero:
        return np.linspace(low, high, count)
    return np.append(0.0, np.linspace(low, high, count - 1))


def logarithmic_anchors(low: float, high: float, count: int) -> Array:
    """Return 0 and count - 1 anchors at equal ratios from low to high."""
    if count == 2 or high <= low:
        return np.append(0.0, np.geomspace(high / 2, high, count - 1) if count > 2 else high)
    return np.append(0.0, np.geomspace(low, high, count - 1))


def logarithmic_range(statistics: Histogram, count: int) -> tuple[float, float]:
    """Return (low, high) of logarithmic anchors, high being the largest value.

    Values below low are a share 1/count^2 of the sum of all values, so that the error that they
    cause falls as fast as that of the anchors.
    """
    values, weights = statistics.centers()
    if not len(values):
        return 0.5, 1.0
    shares = np.cumsum(values * weights / np.max(values))
    low = float(values[np.searchsorted(shares, shares[-1] / count**2)])
    return min(low, statistics.high), statistics.high


def covering_anchors(statistics: Histogram, radius: float) -> Array:
    """Return the fewest anchors, 0 among them, with no value farther than radius from its nearest.

    A histogram has the values by bins of 1/16 octave: whole bins are covered.
    """
    lows, highs = statistics.edges()
    lows, highs = np.clip(lows, None, statistics.high), np.clip(highs, None, statistics.high)
    if statistics.low < 0:
        lows, highs = np.append(statistics.low, lows), np.append(0.0, highs)
    anchors: list[float] = [] if statistics.low < 0 else [0.0]
    reached = -np.inf if statistics.low < 0 else radius
    for low, high in zip(lows, highs, strict=True):
        left = max(low, reached)
        while left < high or (left == low and reached < low):
            anchors.append(min(left + radius, statistics.high))
            left = reached = anchors[-1] + radius
            if len(anchors) > _MOST_ANCHORS:
                raise ValueError(
                    f"Anchors: cover={radius:g} needs more than {_MOST_ANCHORS} anchors up to "
                    f"{statistics.high:g}. Use a larger cover."
                )
    distinct = np.unique(np.array([*anchors, 0.0]))
    return distinct if len(distinct) > 1 else np.append(distinct, distinct + radius)


def k_means_anchors(statistics: ColumnHistogram, count: int, zero: bool) -> tuple[Array, Array]:
    """Return k-means centers for each column, padded with inf, and the constant columns.

    Lloyd's algorithm from quantiles of the cube root of the density, which is the density of the
    best quantizer. With zero, 0 is one of the anchors.
    """
    rows, constant = [], []
    for j in range(len(statistics.low)):
        values, weights = statistics.column(j)
        if zero:
            values, weights = values[values != 0], weights[values != 0]
        if len(values) < 2 and statistics.low[j] == statistics.high[j]:
            constant.append(j)
        centers = _lloyd(values, weights, count - zero) if len(values) else values
        rows.append(np.unique(np.append(0.0, centers)) if zero else centers)
    anchors = np.full((len(rows), max(2, max(map(len, rows)))), np.inf)
    for row, values in zip(anchors, rows, strict=True):
        row[: len(values)] = values
    return anchors, np.array(constant, dtype=np.int64)


def _lloyd(values: Array, weights: Array, count: int) -> Array:
    """Return the centers of at most count clusters of rising values with weights."""
    if len(values) <= count:
        return values
    density = np.cumsum(np.cbrt(weights * np.gradient(values) ** 2))
    quantiles = np.searchsorted(density, (np.arange(count) + 0.5) / count * density[-1])
    centers = values[np.unique(np.clip(quantiles, 0, len(values) - 1))]
    total, moment = np.append(0.0, np.cumsum(weights)), np.append(0.0, np.cumsum(weights * values))
    for _ in range(_SWEEPS):
        cuts = np.searchsorted(values, (centers[1:] + centers[:-1]) / 2, side="right")
        ends = np.concatenate([[0], cuts, [len(values)]])
        mass = np.diff(total[ends])
        means = np.divide(np.diff(moment[ends]), mass, out=centers.copy(), where=mass > 0)
        before, centers = centers, np.unique(means)
        if len(before) == len(centers) and np.allclose(before, centers, rtol=1e-12, atol=0):
            return before
    return centers
