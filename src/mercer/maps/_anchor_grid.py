"""Where anchors stand: rising numbers that stand for all the numbers around them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.stats.histogram import ColumnHistogram, Histogram

Array = NDArray[Any]

_SWEEPS = 100  # of k-means, at most
_MOST = 2**16


def uniform(low: float, high: float, count: int, zero: bool) -> Array:
    """count anchors at equal distances from low to high; with zero, one of them at 0."""
    if high <= low:
        high = low + 1.0
    return (
        np.linspace(low, high, count)
        if low <= 0 or not zero
        else np.append(0.0, np.linspace(low, high, count - 1))
    )


def logarithmic(low: float, high: float, count: int) -> Array:
    """0, and count - 1 anchors at equal ratios from low to high."""
    if count == 2 or high <= low:
        return np.append(0.0, np.geomspace(high / 2, high, count - 1) if count > 2 else high)
    return np.append(0.0, np.geomspace(low, high, count - 1))


def lowest(statistics: Histogram, count: int) -> tuple[float, float]:
    """The range of logarithmic anchors: up to the largest value, down to where a share 1/count^2 of
    the total of all values is below.

    Values below it are few and small: what they are worth falls as fast as the error of the anchors
    does.
    """
    values, weights = statistics.centers()
    if not len(values):
        return 0.5, 1.0
    shares = np.cumsum(values * weights / np.max(values))
    low = float(values[np.searchsorted(shares, shares[-1] / count**2)])
    return min(low, statistics.high), statistics.high


def cover(statistics: Histogram, radius: float) -> Array:
    """The fewest anchors, from left to right, such that none of the values seen is farther than
    radius from one.

    0 is an anchor. Values are known by their bins, 1/16 octave wide, so that whole bins are
    covered.
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
            if len(anchors) > _MOST:
                raise ValueError(
                    f"Anchors: a cover of radius {radius:g} needs more than {_MOST} anchors up "
                    f"to {statistics.high:g}. Take a larger cover."
                )
    places = np.unique(np.array([*anchors, 0.0]))
    return places if len(places) > 1 else np.append(places, places + radius)


def k_means(statistics: ColumnHistogram, count: int, zero: bool) -> tuple[Array, Array]:
    """(anchors, constant): for each column the centers of its best clusters, padded with inf, and
    the columns with a single value.

    Lloyd's sweeps from quantiles of the weights' cube root, the density of the best quantiser. With
    zero, 0 is an anchor besides.
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
    if len(values) <= count:
        return values
    density = np.cumsum(np.cbrt(weights * np.gradient(values) ** 2))
    places = np.searchsorted(density, (np.arange(count) + 0.5) / count * density[-1])
    centers = values[np.unique(np.clip(places, 0, len(values) - 1))]
    total, moment = np.append(0.0, np.cumsum(weights)), np.append(0.0, np.cumsum(weights * values))
    for _ in range(_SWEEPS):
        cuts = np.searchsorted(values, (centers[1:] + centers[:-1]) / 2, side="right")
        ends = np.concatenate([[0], cuts, [len(values)]])
        mass = np.diff(total[ends])
        moved = np.unique(
            np.divide(np.diff(moment[ends]), mass, out=centers.copy(), where=mass > 0)
        )
        if len(moved) == len(centers) and np.allclose(moved, centers, rtol=1e-12, atol=0):
            break
        centers = moved
    return centers
