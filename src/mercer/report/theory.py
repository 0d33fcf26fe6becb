"""Theoretical Gram error of a random map on given pairs of rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mercer import theory
from mercer._typing import Array, is_csr
from mercer.evaluation.kernel_error import Pairs, kernel_values
from mercer.maps.base import Map
from mercer.maps.exp_chi2 import ExpChi2
from mercer.maps.fourier import RandomFourier
from mercer.maps.gcws import GCWS
from mercer.maps.laplace import RandomLaplace

DELTA = 0.05  # probability that a bound fails
_PAIRS = 400  # pairs whose variances are averaged where each has its own formula


@dataclass(frozen=True)
class ExpectedError:
    """error(size) = sqrt(floor^2 + constant^2/size), relative to the root mean square of k.

    Attributes
    ----------
    constant, floor : float
        From the variance of <phi(x), phi(z)> for independent draws, averaged over the pairs, and
        from limit(x, z) - k(x, z).
    bound : float or None
        The error of a fixed pair is below bound/sqrt(size) with probability 1 - DELTA; None if no
        such bound is known.
    uniform_size : int or None
        Size at which the error of all pairs is below a tenth of the root mean square of k, with
        the same probability; None if no such bound is known.
    """

    constant: float
    floor: float
    bound: float | None = None
    uniform_size: int | None = None

    def error(self, size: float) -> float:
        """Return the expected error at this size."""
        return math.hypot(self.floor, self.constant / math.sqrt(size))

    def pair_bound(self, size: float) -> float | None:
        """Return the bound for a fixed pair; None if there is none or it is vacuous (>= 1)."""
        bound = math.inf if self.bound is None else self.bound / math.sqrt(size)
        return bound if bound < 1 else None


def expected_error(fitted: Map, rows: Any, pairs: Pairs) -> ExpectedError | None:
    """Return the expected error of a fitted map; None if ``mercer.theory`` has no variance."""
    formula = _FORMULAS.get(type(fitted))
    if formula is None or fitted.limit_ is None:
        return None
    exact = limit = kernel_values(fitted.kernel_, rows, pairs)
    if fitted.limit_ != fitted.kernel_:
        limit = kernel_values(fitted.limit_, rows, pairs)
    scale = float(np.sqrt(np.mean(exact**2)))
    variance, bound, uniform_size = formula(fitted, rows, pairs, limit, scale)
    if not (scale > 0 and math.isfinite(variance) and variance >= 0):
        return None
    floor = float(np.sqrt(np.mean((limit - exact) ** 2))) / scale
    bound = None if bound is None else bound / scale
    return ExpectedError(math.sqrt(variance) / scale, floor, bound, uniform_size)


class _Moments(NamedTuple):
    """Mean variance and bound of one component; components for a bound over all pairs."""

    variance: float
    bound: float | None = None
    uniform_size: int | None = None


def _fourier(fitted: Any, rows: Any, pairs: Pairs, k: Array, scale: float) -> _Moments:
    gaussian = fitted._kernel_name in ("gaussian", "cosine-rbf")
    if fitted.normalize and fitted.form == "offset":
        if not gaussian:
            return _Moments(math.nan)
        return _Moments(float(np.mean([theory.nrff_variance(float(value), 1) for value in k])))
    k_twice = k**4 if gaussian else kernel_values(fitted.kernel_, rows * 2.0, pairs)
    return _cosine_moments(fitted.form, k, k_twice, _uniform_size(fitted, rows, scale))


def _exp_chi2(fitted: Any, rows: Any, pairs: Pairs, k: Array, scale: float) -> _Moments:
    return _cosine_moments("paired", k, k**4, None)


def _cosine_moments(form: str, k: Array, k_twice: Array, uniform_size: int | None) -> _Moments:
    """Return the moments of cosine features; k_twice is k at twice the difference.

    The variance is linear in k^2 and k_twice, so its mean over pairs is its value at their means.
    """
    variance = theory.variance(float(np.sqrt(np.mean(k**2))), float(np.mean(k_twice)), 1, form)
    bound = 0.01 * math.sqrt(theory.components_for_pair(0.01, DELTA, form))
    return _Moments(variance, bound, uniform_size)


def _uniform_size(fitted: Any, rows: Any, scale: float) -> int | None:
    if fitted._kernel_name != "gaussian":
        return None
    d = rows.shape[1]
    squares = rows.multiply(rows).sum(axis=1) if is_csr(rows) else (rows * rows).sum(axis=1)
    diameter, deviation = 2 * math.sqrt(float(np.max(squares))), math.sqrt(2 * fitted.gamma_ * d)
    error = 0.1 * scale
    if not 0 < error <= deviation * diameter:
        return None
    return theory.components_uniform(error, DELTA, d, deviation, diameter, fitted.form)


def _hashes(fitted: Any, rows: Any, pairs: Pairs, k: Array, scale: float) -> _Moments:
    """Return m (1 - m), the variance of one hash that collides with probability m = limit(x, z)."""
    return _Moments(float(np.mean([theory.gmm_variance(float(m), 1) for m in np.clip(k, 0, 1)])))


def _laplace(fitted: Any, rows: Any, pairs: Pairs, k: Array, scale: float) -> _Moments:
    variance = theory.laplace_normalized_variance if fitted.normalize else theory.laplace_variance
    x, z = (_dense(rows[index[:_PAIRS]]) + fitted.shift for index in pairs)
    with np.errstate(all="ignore"):  # a kernel value of 0 has no relative variance
        variances = [variance(fitted.kernel_, a, b, 1) for a, b in zip(x, z, strict=True)]
    return _Moments(float(np.mean(variances)))


def _dense(rows: Any) -> Array:
    return rows.toarray() if hasattr(rows, "toarray") else rows


_FORMULAS: dict[type, Callable[[Any, Any, Pairs, Array, float], _Moments]] = {
    RandomFourier: _fourier,
    ExpChi2: _exp_chi2,
    GCWS: _hashes,
    RandomLaplace: _laplace,
}
