"""Random Laplace features (Yang et al., CVPR 2014), corrected; phi(s) = k(x, z) for s = x + z."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer.kernels import ExponentialSemigroup, ReciprocalSemigroup
from mercer.theory.fourier import COUNT, POSITIVE, PROBABILITY
from mercer.validation.parameters import Constraint, validate_arguments, validate_positive

Semigroup = ExponentialSemigroup | ReciprocalSemigroup

_SET: dict[str, Constraint] = {
    "error": POSITIVE,
    "d": COUNT,
    "radius": POSITIVE,
    "curvature": POSITIVE,
}
_SET |= {"constant": POSITIVE}


def laplace_curvature(kernel: Semigroup, r: float) -> float:
    """L = phi''(2r) in one dimension, r being the smallest coordinate of the data.

    exponential (Lemma 6): (beta/4)(beta sqrt(2r) + 1)/((2r)^(3/2) e^(beta sqrt(2r))), infinite at
    r = 0. reciprocal (Lemma 8): 2 beta/(beta + 2r)^3.
    """
    beta = kernel.beta
    if isinstance(kernel, ReciprocalSemigroup):
        return 2 * beta / (beta + 2 * r) ** 3
    root = beta * math.sqrt(2 * validate_positive("laplace_curvature", "r", r))
    return beta / 4 * (root + 1) / ((2 * r) ** 1.5 * math.exp(root))


@validate_arguments(n_components=COUNT, **_SET)
def laplace_bound(
    error: float,
    n_components: int,
    d: int,
    radius: float,
    curvature: float,
    constant: float = 288.0,
) -> float:
    """P(sup |<phi(x), phi(z)> - k(x, z)| >= error) <= F exp(-D error^2/(d + 2)), at most 1.

    F = 2^(1 + 2/(d + 2)) (c d R^2 L/error^2)^(d/(d + 2)): Theorem 5, corrected. c = 288 is
    rigorous, with L = laplace_curvature(kernel, 2 r); c = 2^10 with L at r is the paper's own
    proof. R is the radius of the set of x and z.
    """
    log_factor = _log_factor(error, d, radius, curvature, constant)
    return math.exp(min(log_factor - n_components * error**2 / (d + 2), 0.0))


@validate_arguments(delta=PROBABILITY, **_SET)
def laplace_components(
    error: float, delta: float, d: int, radius: float, curvature: float, constant: float = 288.0
) -> int:
    """Return the D for which laplace_bound is at most delta."""
    log_factor = _log_factor(error, d, radius, curvature, constant)
    return math.ceil((d + 2) / error**2 * (log_factor - math.log(delta)))


@validate_arguments(error=PROBABILITY, beta=POSITIVE, d=COUNT)
def laplace_shift(error: float, beta: float, d: int) -> float:
    """shift = ln(1/(1 - error/2))^2/(2 beta^2 d^2).

    It lowers the exponential-semigroup kernel by at most error/2 (Lemma 7).
    """
    return math.log(1 - error / 2) ** 2 / (2 * beta**2 * d**2)


@validate_arguments(n_components=COUNT)
def laplace_variance(kernel: Semigroup, x: ArrayLike, z: ArrayLike, n_components: int) -> float:
    """Var <phi(x), phi(z)> = (phi(2s) - phi(s)^2)/D, s = x + z, of the plain map."""
    s = np.asarray(x, dtype=np.float64) + np.asarray(z)
    return (_phi(kernel, 2 * s) - _phi(kernel, s) ** 2) / n_components


@validate_arguments(n_components=COUNT)
def laplace_normalized_variance(
    kernel: Semigroup, x: ArrayLike, z: ArrayLike, n_components: int
) -> float:
    """Var <phi(x), phi(z)> of the normalized map, to first order in 1/D (the delta method)."""
    x, z = np.asarray(x, dtype=np.float64), np.asarray(z, dtype=np.float64)
    k, kx, kz = (_phi(kernel, s) for s in (x + z, 2 * x, 2 * z))
    both = _phi(kernel, 2 * x + 2 * z)
    relative = (
        both / k**2
        + _phi(kernel, 4 * x) / (4 * kx**2)
        + _phi(kernel, 4 * z) / (4 * kz**2)
        + both / (2 * kx * kz)
    )
    relative -= _phi(kernel, 3 * x + z) / (k * kx) + _phi(kernel, x + 3 * z) / (k * kz)
    return k**2 * relative / n_components


def _phi(kernel: Semigroup, s: NDArray[np.float64]) -> float:
    return float(kernel.pairs(s[None, :], np.zeros((1, len(s))))[0])


def _log_factor(error: float, d: int, radius: float, curvature: float, constant: float) -> float:
    """Return ln F of laplace_bound."""
    base = math.log(constant * d * radius**2 * curvature / error**2)
    return (1 + 2 / (d + 2)) * math.log(2) + d / (d + 2) * base
