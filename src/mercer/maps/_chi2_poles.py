"""Poles of the direct chi2 series, the points x where it has no error.

The error of the series is P(x) P(z) 2xz/(x + z), with P(x) = prod (x - k)/(x + k) over the poles k.
It is a kernel itself, so that its diagonal x P(x)^2 bounds it.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from mercer._typing import Array

_BINS = 100  # of the paper's histogram
_GRID = 33  # points of each interval from which the search of a maximum of the error begins


def residual(x: Array, poles: Array) -> Array:
    """P(x) = prod_k (x - k)/(x + k) over the poles k."""
    return np.prod((x[:, None] - poles) / (x[:, None] + poles), axis=1)


def greedy_poles(x: Array, h: Array, n: int, *, root: bool = False) -> Array:
    """Return n poles, each where h(x) x/(x + 1) |P(x)| is largest, P having the poles before it.

    Algorithm 1 of Li, Lebanon and Sminchisescu. With root the weight is sqrt(h x), that of the
    error itself, which is then 1 to 19 times less. With fewer bins than poles, poles are repeated.
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


def logarithmic_histogram(values: Array, weights: Array, bins: int = _BINS) -> tuple[Array, Array]:
    """Return (middles, weights) of logarithmic bins from the smallest to the largest value."""
    if values[0] == values[-1]:
        return values[:1], np.array([weights.sum()])
    edges = np.geomspace(values[0], values[-1], bins + 1)
    bin_of = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, bins - 1)
    totals = np.bincount(bin_of, weights=weights, minlength=bins)
    return np.sqrt(edges[:-1] * edges[1:]), totals


def zolotarev_poles(low: float, high: float, n: int) -> Array:
    """Return the n poles that minimize the relative error max P^2 on [low, high].

    It is about 4 exp(-pi^2 n/ln(4 high/low)).
    """
    from scipy.special import ellipj, ellipkm1

    ratio = (low / high) ** 2
    quarter = ellipkm1(ratio)
    j = np.arange(1, n + 1)
    return high * ellipj((2 * j - 1) * quarter / (2 * n), 1 - ratio)[2]


@cache
def minimax_poles(n: int) -> Array:
    """Return the n poles, rising, that minimize the absolute error max x P(x)^2 on [0, 1].

    sqrt(x) |P(x)| takes its maximum n + 1 times. The array is read-only.
    """
    from scipy.optimize import least_squares

    def spread(log_gaps: Array) -> Array:
        return np.diff(np.log(_error_maxima(np.exp(-np.cumsum(np.exp(log_gaps)))[::-1])))

    initial = -np.log(_initial_poles(n))[::-1]  # rising
    gaps = np.diff(initial, prepend=0.0)
    solution = least_squares(spread, np.log(gaps), xtol=1e-15, ftol=1e-15, gtol=1e-15)
    poles: Array = np.exp(-np.cumsum(np.exp(solution.x)))[::-1]
    poles.flags.writeable = False
    return poles


def fit_poles(x: Array, h: Array, n: int) -> Array:
    """Return n poles, rising, that minimize sum h x P(x)^2, the trace of the error's Gram matrix.

    By L-BFGS over log k from several starts.
    """
    from scipy.optimize import minimize

    weight = h * x / np.sum(h * x)

    def objective(log_poles: Array) -> tuple[float, Array]:
        poles = np.exp(log_poles)
        total = x[:, None] + poles
        factors = (x[:, None] - poles) / total
        others = _products_of_others(factors)
        product = factors[:, 0] * others[:, 0]
        value = weight @ product**2
        slopes = -2 * x[:, None] * poles / total**2 * others
        if value == 0:
            return -800.0, np.zeros(n)
        return float(np.log(value)), 2 * (weight * product) @ slopes / value

    copies = np.maximum(1, np.round(1000 * h / h.sum()).astype(int))
    low, high = np.quantile(np.repeat(x, copies), [0.01, 0.99])
    starts = [greedy_poles(x, h, n, root=True), minimax_poles(n) * x[-1]]
    if low < high:
        starts.append(zolotarev_poles(low, high, n))
    # Poles outside the data do not lower the error, and an L-BFGS step may go there.
    bounds = [(np.log(x[0]) - 1, np.log(x[-1]) + 1)] * n
    options = {"maxiter": 500}
    logs = [np.clip(np.log(start), *bounds[0]) for start in starts]
    runs = [
        minimize(objective, log, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        for log in logs
    ]
    return np.sort(np.exp(min(runs, key=lambda run: run.fun).x))


def _products_of_others(factors: Array) -> Array:
    """prod_{p != q} f_ip for every i and q: the product before q times the product after it."""
    before, after = np.ones_like(factors), np.ones_like(factors)
    np.cumprod(factors[:, :-1], axis=1, out=before[:, 1:])
    np.cumprod(factors[:, :0:-1], axis=1, out=after[:, -2::-1])
    return before * after


def _initial_poles(n: int) -> Array:
    """Return an approximation of the minimax poles, rising; the exact one for n = 1."""
    if n == 1:
        return np.array([0.618])
    j = np.arange(n, 0, -1)
    return np.exp(-np.pi / np.sqrt(2) * j / np.sqrt(n) * j / n) * 0.9


def _error_maxima(poles: Array) -> Array:
    """Return the maxima of x P(x)^2 on [0, 1] left of, between and right of rising poles.

    The last maximum is at x = 1.
    """
    logs = np.log(poles)
    edges = np.concatenate([[logs[0] - 9.0], logs])
    t = edges[:-1, None] + np.diff(edges)[:, None] * np.linspace(0.0, 1.0, _GRID)
    values = np.exp(t) * residual(np.exp(t).ravel(), poles).reshape(t.shape) ** 2
    best = t[np.arange(len(t)), np.argmax(values, axis=1)]
    for _ in range(3):  # Newton's method: ln(x P^2) is concave in ln x between two poles
        x = np.exp(best)[:, None]
        product, difference = x * poles, x**2 - poles**2
        slope = 1 + 4 * np.sum(product / difference, axis=1)
        curve = -4 * np.sum(product * (x**2 + poles**2) / difference**2, axis=1)
        best = best - slope / curve
    x = np.concatenate([np.exp(best), [1.0]])
    return x * residual(x, poles) ** 2
