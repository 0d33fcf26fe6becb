"""Coded maps: the min-max kernel and its hashes (Li, KDD 2017), and anchors (Wang et al., ICCV
2015), corrected.
"""

from __future__ import annotations

import math

from mercer.validation.parameters import validate_integer, validate_positive, validate_probability


def gmm_variance(gmm: float, n_hashes: int, bits: int | None = None) -> float:
    """Var of the estimate of GMM from k hashes: GMM (1 - GMM)/k (eq. 7); from b bits of each, m (1
    - m)/(k (1 - 2^-b)^2), unbiased.

    m = GMM + (1 - GMM) 2^-b is the chance that the bits agree.
    """
    who = "gmm_variance"
    _share(who, "gmm", gmm)
    validate_integer(who, "n_hashes", n_hashes)
    chance = 0.0 if bits is None else 2.0 ** -validate_integer(who, "bits", bits)
    m = gmm + (1 - gmm) * chance
    return m * (1 - m) / (n_hashes * (1 - chance) ** 2)


def gmm_of_correlation(rho: float) -> float:
    """g(rho) = (1 - s)/(1 + s), s = sqrt((1 - rho)/2): what GMM tends to as d grows, for data of
    correlation rho (Theorem 3.1, eq. 15).

    The data have an elliptical law with finite second moments, such as the normal, or t with more
    than two degrees of freedom.
    """
    if not -1 <= rho <= 1:
        raise ValueError(f"gmm_of_correlation: rho must be a number from -1 to 1, got {rho!r}.")
    s = math.sqrt((1 - rho) / 2)
    return (1 - s) / (1 + s)


def correlation_of_gmm(gmm: float) -> float:
    """1 - 2 ((1 - g)/(1 + g))^2, the inverse of gmm_of_correlation: an estimate of rho from hashes
    (eq. 16).
    """
    _share("correlation_of_gmm", "gmm", gmm)
    return 1 - 2 * ((1 - gmm) / (1 + gmm)) ** 2


def rbf_from_gmm_variance(rho: float, gamma: float, n_hashes: int) -> float:
    """Var of E = exp(-gamma (1 - rho)) estimated from k hashes by correlation_of_gmm: 64 E^2
    gamma^2 g (1 - g)^3/((1 + g)^6 k) (eq. 20).

    To first order in 1/k. ``variance`` (eq. 11) and ``nrff_variance`` (eq. 13) are those of random
    Fourier features of the same kernel.
    """
    who = "rbf_from_gmm_variance"
    validate_positive(who, "gamma", gamma)
    validate_integer(who, "n_hashes", n_hashes)
    g = gmm_of_correlation(rho)
    slope = math.exp(-gamma * (1 - rho)) * 8 * gamma * (1 - g) / (1 + g) ** 3
    return slope**2 * g * (1 - g) / n_hashes


def anchors_error(spacing: float, d: int, delta: float, gradient: float = 2.0) -> float:
    """eps = L sigma sqrt(2 ln(2/delta)/d), sigma = spacing/2: the mean error over d columns, with
    probability 1 - delta (Theorem 1).

    For the nearest of uniform anchors, and signs of rounding that are independent between columns.
    L bounds the kernel's gradient: 2 for chi2. The paper's constant is sqrt(2) larger.

    Parameters
    ----------
    spacing : float
        Distance between two anchors.
    d : int
        Columns.
    delta : float
    gradient : float, default=2.0
    """
    who = "anchors_error"
    for name, value in (("spacing", spacing), ("gradient", gradient)):
        validate_positive(who, name, value)
    validate_probability(who, "delta", delta)
    return (
        gradient * spacing / 2 * math.sqrt(2 * math.log(2 / delta) / validate_integer(who, "d", d))
    )


def _share(who: str, name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"{who}: {name} must be a number from 0 to 1, got {value!r}.")
