"""Hashes of the min-max kernel (Li, KDD 2017) and anchors (Wang et al., ICCV 2015), corrected."""

from __future__ import annotations

import math

from mercer.theory.fourier import COUNT, POSITIVE, PROBABILITY
from mercer.validation.parameters import Between, Integer, validate_arguments, validate_parameter

_SHARE, _CORRELATION = Between(0, 1), Between(-1, 1)


@validate_arguments(gmm=_SHARE, n_hashes=COUNT)
def gmm_variance(gmm: float, n_hashes: int, bits: int | None = None) -> float:
    """Var of the estimate of GMM from k hashes: GMM (1 - GMM)/k (equation 7).

    From b bits of each hash m (1 - m)/(k (1 - 2^-b)^2), unbiased; m = GMM + (1 - GMM) 2^-b is the
    probability that the bits are equal.
    """
    if bits is not None:
        validate_parameter("gmm_variance", "bits", bits, Integer())
    chance = 0.0 if bits is None else 2.0**-bits
    m = gmm + (1 - gmm) * chance
    return m * (1 - m) / (n_hashes * (1 - chance) ** 2)


@validate_arguments(rho=_CORRELATION)
def gmm_of_correlation(rho: float) -> float:
    """g(rho) = (1 - s)/(1 + s), s = sqrt((1 - rho)/2): the limit of GMM as d grows.

    For data of correlation rho with an elliptical law and finite second moments, such as the
    normal, or t with more than two degrees of freedom (Theorem 3.1, eq. 15).
    """
    s = math.sqrt((1 - rho) / 2)
    return (1 - s) / (1 + s)


@validate_arguments(gmm=_SHARE)
def correlation_of_gmm(gmm: float) -> float:
    """rho = 1 - 2 ((1 - g)/(1 + g))^2, the inverse of gmm_of_correlation (equation 16)."""
    return 1 - 2 * ((1 - gmm) / (1 + gmm)) ** 2


@validate_arguments(rho=_CORRELATION, gamma=POSITIVE, n_hashes=COUNT)
def rbf_from_gmm_variance(rho: float, gamma: float, n_hashes: int) -> float:
    """Var of E = exp(-gamma (1 - rho)) from k hashes: 64 E^2 gamma^2 g (1 - g)^3/((1 + g)^6 k).

    To first order in 1/k, with rho estimated by correlation_of_gmm (eq. 20). ``variance`` (eq. 11)
    and ``nrff_variance`` (eq. 13) are those of random Fourier features of the same kernel.
    """
    g = gmm_of_correlation(rho)
    slope = math.exp(-gamma * (1 - rho)) * 8 * gamma * (1 - g) / (1 + g) ** 3
    return slope**2 * g * (1 - g) / n_hashes


@validate_arguments(spacing=POSITIVE, d=COUNT, delta=PROBABILITY, gradient=POSITIVE)
def anchors_error(spacing: float, d: int, delta: float, gradient: float = 2.0) -> float:
    """eps = L sigma sqrt(2 ln(2/delta)/d), sigma = spacing/2: bound of the mean error of a column.

    With probability 1 - delta over d columns (Theorem 1), for the nearest of uniform anchors and
    signs of rounding that are independent between columns. L bounds the kernel's gradient: 2 for
    chi2. The paper's constant is sqrt(2) larger.

    Parameters
    ----------
    spacing : float
        Distance between two anchors.
    d : int
        Columns.
    delta : float
    gradient : float, default=2.0
    """
    return gradient * spacing / 2 * math.sqrt(2 * math.log(2 / delta) / d)
