"""What is known on paper: variances, error bounds, and the sizes they ask for.

n_components counts output columns everywhere: the paired form has one frequency for two columns, the offset form one for each.

    >>> from mercer import theory
    >>> round(theory.variance(0.5, 0.2, 1000, form="paired"), 6)
    0.0007
    >>> theory.components_for_pair(0.1, 0.01, form="paired")
    2120
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer import door
from mercer.kernels import ExponentialSemigroup, ReciprocalSemigroup

__all__ = [
    "bound_uniform",
    "components_for_pair",
    "components_uniform",
    "laplace_bound",
    "laplace_components",
    "laplace_curvature",
    "laplace_normalized_variance",
    "laplace_shift",
    "laplace_variance",
    "nrff_variance",
    "variance",
]

_FORMS = ("paired", "offset")
Semigroup = ExponentialSemigroup | ReciprocalSemigroup


def variance(k: float, k2: float, n_components: int, form: str = "paired") -> float:
    """Var <phi(x), phi(z)> for independent frequencies: (1 + k2 - 2 k^2)/D paired, (1 + k2/2 - k^2)/D offset.

    Parameters
    ----------
    k, k2 : float
        k(x - z) and k(2 (x - z)).
    n_components : int
        D, output columns; even in the paired form.
    form : {"paired", "offset"}
    """
    door.one_of("variance", "form", form, _FORMS)
    door.whole("variance", "n_components", n_components)
    per_column = 1 + k2 - 2 * k**2 if form == "paired" else 1 + k2 / 2 - k**2
    return per_column / n_components


def nrff_variance(k: float, n_components: int) -> float:
    """Var of the normalized offset features, Gaussian kernel, to first order in 1/D: (1 - k^2)^2 (1 + k^2/4)/D (Li, KDD 2017, eq. 13).

    It is (1 + k^2/4) times the variance of the paired form, which is never worse and has no bias.
    """
    door.whole("nrff_variance", "n_components", n_components)
    return (1 - k**2) ** 2 * (1 + k**2 / 4) / n_components


def bound_uniform(
    error: float, n_components: int, d: int, spread: float, diameter: float, form: str = "paired"
) -> float:
    """P(sup |<phi(x), phi(z)> - k(x, z)| >= error) <= a (spread diameter/error)^2 exp(-m error^2/c), at most 1, for m frequencies.

    paired: a = 2^8, c = 4 (d + 2), Rahimi and Recht's Claim 1, whose features depend on x - z alone and have products in [-1, 1].
    offset: a = 98, c = 32 (d + 1), since these depend on x and z and have products in [-2, 2] (Sutherland and Schneider, UAI 2015).

    Parameters
    ----------
    error : float
        At most spread * diameter.
    n_components : int
        D, output columns.
    d : int
        Input columns.
    spread : float
        sqrt(E |w|^2) of the frequencies: sqrt(2 gamma d) for the Gaussian kernel.
    diameter : float
        Of the set that x and z come from.
    form : {"paired", "offset"}
    """
    door.whole("bound_uniform", "n_components", n_components)
    log_factor, constant = _uniform("bound_uniform", error, d, spread, diameter, form)
    frequencies = n_components / 2 if form == "paired" else n_components
    return math.exp(min(log_factor - frequencies * error**2 / constant, 0.0))


def components_uniform(error: float, delta: float, d: int, spread: float, diameter: float, form: str = "paired") -> int:
    """D for which bound_uniform is at most delta: c/error^2 ln(a (spread diameter/error)^2/delta) frequencies."""
    door.probability("components_uniform", "delta", delta)
    log_factor, constant = _uniform("components_uniform", error, d, spread, diameter, form)
    return _columns(constant / error**2 * (log_factor - math.log(delta)), form)


def components_for_pair(error: float, delta: float, form: str = "paired") -> int:
    """D for which one pair (x, z), fixed beforehand, has an error below `error` with probability 1 - delta (Hoeffding).

    2/error^2 ln(2/delta) frequencies in the paired form, 4 times as many in the offset form. For n rows at once take delta/(n (n - 1)/2).
    """
    who = "components_for_pair"
    door.positive(who, "error", error)
    door.probability(who, "delta", delta)
    constant = {"paired": 2.0, "offset": 8.0}[door.one_of(who, "form", form, _FORMS)]
    return _columns(constant / error**2 * math.log(2 / delta), form)


# Random Laplace features (Yang et al., CVPR 2014), corrected. phi(s) = k(x, z) for s = x + z.


def laplace_curvature(kernel: Semigroup, r: float) -> float:
    """L = phi''(2r) in one dimension: Lemma 6 (exponential) and Lemma 8 (reciprocal); r is the smallest coordinate of the data.

    exponential: (beta/4)(beta sqrt(2r) + 1)/((2r)^(3/2) e^(beta sqrt(2r))), infinite at r = 0. reciprocal: 2 beta/(beta + 2r)^3.
    """
    beta = kernel.beta
    if isinstance(kernel, ReciprocalSemigroup):
        return 2 * beta / (beta + 2 * r) ** 3
    root = beta * math.sqrt(2 * door.positive("laplace_curvature", "r", r))
    return beta / 4 * (root + 1) / ((2 * r) ** 1.5 * math.exp(root))


def laplace_bound(
    error: float, n_components: int, d: int, radius: float, curvature: float, constant: float = 288.0
) -> float:
    """P(sup |<phi(x), phi(z)> - k(x, z)| >= error) <= 2^(1 + 2/(d + 2)) (c d R^2 L/error^2)^(d/(d + 2)) exp(-D error^2/(d + 2)), at most 1.

    Theorem 5, corrected. c = 288 is rigorous, with L = laplace_curvature(kernel, 2 r); c = 2^10 with L at r is the paper's own proof.
    R is the radius of the set that x and z come from.
    """
    door.whole("laplace_bound", "n_components", n_components)
    log_factor = _laplace_factor("laplace_bound", error, d, radius, curvature, constant)
    return math.exp(min(log_factor - n_components * error**2 / (d + 2), 0.0))


def laplace_components(
    error: float, delta: float, d: int, radius: float, curvature: float, constant: float = 288.0
) -> int:
    """D for which laplace_bound is at most delta."""
    door.probability("laplace_components", "delta", delta)
    log_factor = _laplace_factor("laplace_components", error, d, radius, curvature, constant)
    return math.ceil((d + 2) / error**2 * (log_factor - math.log(delta)))


def laplace_shift(error: float, beta: float, d: int) -> float:
    """ln(1/(1 - error/2))^2/(2 beta^2 d^2): the shift that lowers the exponential-semigroup kernel by error/2 at most (Lemma 7)."""
    door.probability("laplace_shift", "error", error)
    return math.log(1 - error / 2) ** 2 / (2 * door.positive("laplace_shift", "beta", beta) ** 2 * d**2)


def laplace_variance(kernel: Semigroup, x: ArrayLike, z: ArrayLike, n_components: int) -> float:
    """Var <phi(x), phi(z)> of the plain map: (phi(2s) - phi(s)^2)/D, s = x + z."""
    s = np.asarray(x, dtype=np.float64) + np.asarray(z)
    return (_phi(kernel, 2 * s) - _phi(kernel, s) ** 2) / door.whole("laplace_variance", "n_components", n_components)


def laplace_normalized_variance(kernel: Semigroup, x: ArrayLike, z: ArrayLike, n_components: int) -> float:
    """Var <phi(x), phi(z)> of the normalized map, to first order in 1/D (the delta method)."""
    door.whole("laplace_normalized_variance", "n_components", n_components)
    x, z = np.asarray(x, dtype=np.float64), np.asarray(z, dtype=np.float64)
    k, kx, kz = (_phi(kernel, s) for s in (x + z, 2 * x, 2 * z))
    both = _phi(kernel, 2 * x + 2 * z)
    relative = (
        both / k**2 + _phi(kernel, 4 * x) / (4 * kx**2) + _phi(kernel, 4 * z) / (4 * kz**2) + both / (2 * kx * kz)
    )
    relative -= _phi(kernel, 3 * x + z) / (k * kx) + _phi(kernel, x + 3 * z) / (k * kz)
    return k**2 * relative / n_components


def _phi(kernel: Semigroup, s: NDArray[np.float64]) -> float:
    return float(kernel.pairs(s[None, :], np.zeros((1, len(s))))[0])


def _laplace_factor(who: str, error: float, d: int, radius: float, curvature: float, constant: float) -> float:
    for name, value in (("error", error), ("radius", radius), ("curvature", curvature), ("constant", constant)):
        door.positive(who, name, value)
    door.whole(who, "d", d)
    base = math.log(constant * d * radius**2 * curvature / error**2)
    return (1 + 2 / (d + 2)) * math.log(2) + d / (d + 2) * base


def _uniform(who: str, error: float, d: int, spread: float, diameter: float, form: str) -> tuple[float, float]:
    """ln(a (spread diameter/error)^2) and c."""
    for name, value in (("error", error), ("spread", spread), ("diameter", diameter)):
        door.positive(who, name, value)
    door.whole(who, "d", d)
    if error > spread * diameter:
        raise ValueError(
            f"{who}: error must be at most spread * diameter = {spread * diameter:g} for the bound to hold, got {error!r}."
        )
    a, c = {"paired": (2.0**8, 4.0 * (d + 2)), "offset": (98.0, 32.0 * (d + 1))}[door.one_of(who, "form", form, _FORMS)]
    return math.log(a) + 2 * math.log(spread * diameter / error), c


def _columns(frequencies: float, form: str) -> int:
    return max(1, math.ceil(frequencies)) * (2 if form == "paired" else 1)
