"""What theory expects of a map's Gram error on given pairs of rows, before anything is drawn."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer import theory
from mercer.evaluation.kernel_error import Pairs, kernel_values
from mercer.kernels import Kernel
from mercer.maps.base import Array, Map
from mercer.maps.exp_chi2 import ExpChi2
from mercer.maps.fourier import RandomFourier
from mercer.maps.gcws import GCWS
from mercer.maps.laplace import RandomLaplace

DELTA = 0.05  # the chance that a bound does not hold
_PAIRS = 400  # whose variances are averaged where each is a formula of its own


@dataclass(frozen=True)
class Expected:
    """error(size) = sqrt(floor^2 + constant^2/size), relative to the root mean square of k;
    independent draws.

    Attributes
    ----------
    constant, floor : float
        From the variance of <phi(x), phi(z)>, averaged over the pairs, and from limit(x, z) - k(x,
        z).
    bound : float or None
        A pair that was chosen beforehand has an error below bound/sqrt(size) with probability 1 -
        DELTA; None where no such bound is known.
    everywhere : int or None
        The size for which a bound of all pairs at once promises a tenth of the root mean square of
        k, with the same probability.
    """

    constant: float
    floor: float
    bound: float | None = None
    everywhere: int | None = None

    def error(self, size: float) -> float:
        """What is expected at this size."""
        return math.hypot(self.floor, self.constant / math.sqrt(size))

    def at_most(self, size: float) -> float | None:
        """What a pair has at most at this size; None where that is not known, or 100% or more and
        so says nothing.
        """
        most = math.inf if self.bound is None else self.bound / math.sqrt(size)
        return most if most < 1 else None


def expected(fitted: Map, rows: Any, pairs: Pairs) -> Expected | None:
    """What is expected of a fitted map on pairs of rows; None where `mercer.theory` has no variance
    for it.
    """
    formula = _FORMULAS.get(type(fitted))
    if formula is None or fitted.limit_ is None:
        return None
    exact = kernel_values(fitted.kernel_, rows, pairs)
    reached = (
        exact if fitted.limit_ == fitted.kernel_ else kernel_values(fitted.limit_, rows, pairs)
    )
    scale = float(np.sqrt(np.mean(exact**2)))
    variance, bound, everywhere = formula(fitted, rows, pairs, reached, scale)
    if not (scale > 0 and math.isfinite(variance) and variance >= 0):
        return None
    floor = float(np.sqrt(np.mean((reached - exact) ** 2))) / scale
    return Expected(
        math.sqrt(variance) / scale, floor, None if bound is None else bound / scale, everywhere
    )


Found = tuple[
    float, float | None, int | None
]  # variance and bound of one component, and components for all pairs


def _fourier(fitted: Any, rows: Any, pairs: Pairs, k: Array, scale: float) -> Found:
    i, j = pairs
    if fitted.normalize and fitted.form == "offset":
        if fitted.kernel not in ("gaussian", "cosine-rbf"):
            return math.nan, None, None
        return float(np.mean([theory.nrff_variance(float(value), 1) for value in k])), None, None
    twice = (
        k**4
        if fitted.kernel in ("gaussian", "cosine-rbf")
        else _at_twice(fitted.kernel_, rows, (i, j))
    )
    return _of_waves(fitted.form, k, twice, _everywhere(fitted, rows, scale))


def _exp_chi2(fitted: Any, rows: Any, pairs: Pairs, k: Array, scale: float) -> Found:
    return _of_waves("paired", k, k**4, None)


def _of_waves(form: str, k: Array, twice: Array, everywhere: int | None) -> Found:
    """The variance is linear in k^2 and in k at twice the difference, so that its mean is that of
    their means.
    """
    variance = theory.variance(float(np.sqrt(np.mean(k**2))), float(np.mean(twice)), 1, form)
    return variance, 0.01 * math.sqrt(theory.components_for_pair(0.01, DELTA, form)), everywhere


def _at_twice(kernel: Kernel, rows: Any, pairs: Pairs) -> Array:
    return kernel_values(kernel, rows * 2.0, pairs)


def _everywhere(fitted: Any, rows: Any, scale: float) -> int | None:
    if fitted.kernel != "gaussian":
        return None
    d = rows.shape[1]
    squares = (
        rows.multiply(rows).sum(axis=1)
        if hasattr(rows, "indptr")
        else np.einsum("ij,ij->i", rows, rows)
    )
    diameter, spread = 2 * math.sqrt(float(np.max(squares))), math.sqrt(2 * fitted.gamma_ * d)
    error = 0.1 * scale
    if not 0 < error <= spread * diameter:
        return None
    return theory.components_uniform(error, DELTA, d, spread, diameter, fitted.form)


def _hashes(fitted: Any, rows: Any, pairs: Pairs, k: Array, scale: float) -> Found:
    """Bits agree with chance m = limit(x, z): the share of hashes whose bits agree has the variance
    m (1 - m)/k.
    """
    return float(np.mean([theory.gmm_variance(float(m), 1) for m in np.clip(k, 0, 1)])), None, None


def _laplace(fitted: Any, rows: Any, pairs: Pairs, k: Array, scale: float) -> Found:
    variance = theory.laplace_normalized_variance if fitted.normalize else theory.laplace_variance
    some = [_dense(rows[which[:_PAIRS]]) + fitted.shift for which in pairs]
    with np.errstate(all="ignore"):  # a kernel value of 0 has no relative variance
        found = [variance(fitted.kernel_, x, z, 1) for x, z in zip(*some, strict=True)]
    return float(np.mean(found)), None, None


def _dense(rows: Any) -> Array:
    return rows.toarray() if hasattr(rows, "toarray") else rows


_FORMULAS: dict[type, Callable[[Any, Any, Pairs, Array, float], Found]] = {
    RandomFourier: _fourier,
    ExpChi2: _exp_chi2,
    GCWS: _hashes,
    RandomLaplace: _laplace,
}
