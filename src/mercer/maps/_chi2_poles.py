"""Poles of the direct chi2 series: where k(x, z) = 2xz/(x + z) is matched, and so where its error
is small.

With P(x) = prod (x - k)/(x + k) the error of the series is P(x) P(z) 2xz/(x + z), a kernel itself:
it is largest on the diagonal, x P(x)^2. So poles that make x P(x)^2 small make all errors small.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_BINS = 100  # of the paper's histogram
_GRID = 4000  # points on which the extrema of the minimax error are found


def residual(x: Array, poles: Array) -> Array:
    """P(x) = prod_k (x - k)/(x + k)."""
    return np.prod((x[:, None] - poles) / (x[:, None] + poles), axis=1)


def greedy(x: Array, h: Array, n: int, *, root: bool = False) -> Array:
    """Algorithm 1 of Li, Lebanon and Sminchisescu: each pole where h(x) x/(x + 1) |P(x)| is
    largest, P having the poles before it.

    With root the weight is sqrt(h x), which is the error's own (1 to 19 times less error). Fewer
    bins than poles: poles are repeated.
    """
    weight = np.sqrt(h * x) if root else h * x / (x + 1)
    error = weight.copy()
    chosen: list[float] = []
    for _ in range(n):
        best = int(np.argmax(error))
        if error[best] == 0 and chosen:
            chosen.append(chosen[len(chosen) % len(np.unique(chosen))])
            continue
        chosen.append(float(x[best]))
        error *= np.abs((x - x[best]) / (x + x[best]))
    return np.array(chosen)


def coarse(values: Array, weights: Array, bins: int = _BINS) -> tuple[Array, Array]:
    """A histogram of `bins` logarithmic bins from the smallest to the largest value: (middles,
    weights).
    """
    if values[0] == values[-1]:
        return values[:1], np.array([weights.sum()])
    edges = np.geomspace(values[0], values[-1], bins + 1)
    place = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, bins - 1)
    totals = np.bincount(place, weights=weights, minlength=bins)
    return np.sqrt(edges[:-1] * edges[1:]), totals


def zolotarev(low: float, high: float, n: int) -> Array:
    """Poles with the smallest relative error max P^2 on [low, high], about 4 exp(-pi^2 n/ln(4
    high/low)).
    """
    from scipy.special import ellipj, ellipkm1

    ratio = (low / high) ** 2
    quarter = ellipkm1(ratio)
    j = np.arange(1, n + 1)
    return high * ellipj((2 * j - 1) * quarter / (2 * n), 1 - ratio)[2]


def minimax(n: int) -> Array:
    """Poles with the smallest absolute error max x P(x)^2 on [0, 1]: sqrt(x) |P(x)| takes its
    maximum n + 1 times. Rising.
    """
    from scipy.optimize import least_squares

    def spread(log_gaps: Array) -> Array:
        peaks = np.log(_peaks(np.exp(-np.cumsum(np.exp(log_gaps)))[::-1]))
        return np.diff(peaks)

    start = -np.log(_start(n))[::-1]  # rising distances of the poles' logarithms from 0
    gaps = np.diff(start, prepend=0.0)
    found = least_squares(spread, np.log(gaps), xtol=1e-15, ftol=1e-15, gtol=1e-15)
    return np.exp(-np.cumsum(np.exp(found.x)))[::-1]


def fitted(x: Array, h: Array, n: int) -> Array:
    """Poles with the smallest sum h x P(x)^2, the trace of the error's Gram matrix: L-BFGS over log
    k from several starts. Rising.
    """
    from scipy.optimize import minimize

    weight = h * x / np.sum(h * x)

    def objective(log_poles: Array) -> tuple[float, Array]:
        poles = np.exp(log_poles)
        total = x[:, None] + poles
        factors = (x[:, None] - poles) / total
        others = np.stack(
            [np.prod(np.delete(factors, q, axis=1), axis=1) for q in range(n)], axis=1
        )
        product = factors[:, 0] * others[:, 0]
        value = weight @ product**2
        slopes = -2 * x[:, None] * poles / total**2 * others
        if value == 0:
            return -800.0, np.zeros(n)
        return float(np.log(value)), 2 * (weight * product) @ slopes / value

    inner = np.quantile(
        np.repeat(x, np.maximum(1, np.round(1000 * h / h.sum()).astype(int))), [0.01, 0.99]
    )
    starts = [greedy(x, h, n, root=True), minimax(n) * x[-1]]
    if inner[0] < inner[1]:
        starts.append(zolotarev(inner[0], inner[1], n))
    # Poles beyond the data gain nothing, and an L-BFGS step may want to go there.
    bounds = [(np.log(x[0]) - 1, np.log(x[-1]) + 1)] * n
    options = {"maxiter": 500}
    logs = [np.clip(np.log(start), *bounds[0]) for start in starts]
    runs = [
        minimize(objective, log, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        for log in logs
    ]
    return np.sort(np.exp(min(runs, key=lambda run: run.fun).x))


def _start(n: int) -> Array:
    """Near the minimax poles, rising: the exact one for n = 1, logarithms that thin out towards 0
    for more.
    """
    j = np.arange(1, n + 1)
    return (
        np.exp(-np.pi / np.sqrt(2) * (n + 1 - j) / np.sqrt(n) * (n + 1 - j) / n) * 0.9
        if n > 1
        else np.array([0.618])
    )


def _peaks(poles: Array) -> Array:
    """The maxima of x P(x)^2 left of, between and right of the poles (rising): the last one is at x
    = 1.
    """
    grid = np.concatenate([np.geomspace(poles[0] * 1e-4, 1.0, _GRID), poles])
    grid = np.sort(grid[grid <= 1.0])
    values = grid * residual(grid, poles) ** 2
    place = np.searchsorted(poles, grid, side="right")
    peaks = []
    for interval in range(len(poles)):
        inside = np.flatnonzero(place == interval)
        best = inside[np.argmax(values[inside])]
        peaks.append(_refined(np.log(grid), values, best))
    return np.array([*peaks, residual(np.ones(1), poles)[0] ** 2])


def _refined(t: Array, values: Array, best: int) -> float:
    """The top of the parabola through a maximum on a grid and its neighbours."""
    if best == 0 or best == len(values) - 1:
        return float(values[best])
    left, middle, right = np.log(np.maximum(values[best - 1 : best + 2], 1e-300))
    a, b = t[best - 1] - t[best], t[best + 1] - t[best]
    curve = ((left - middle) / a - (right - middle) / b) / (a - b)
    slope = (left - middle) / a - curve * a
    return float(np.exp(middle - slope**2 / (4 * curve))) if curve < 0 else float(values[best])
