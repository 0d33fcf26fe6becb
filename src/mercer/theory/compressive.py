"""Random projections and compressive random features (Chang, Sankaranarayanan, Vijaya Kumar, CVPR
2016), corrected.

k is the number of entries of a signal that are not zero, in some orthonormal basis; differences of
signals have up to 2k.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from mercer.theory.fourier import _FORMS, _columns
from mercer.validation.parameters import (
    validate_integer,
    validate_option,
    validate_positive,
    validate_probability,
)

_METHODS = ("orthoprojector", "gaussian")


@dataclass(frozen=True)
class CompressiveSizes:
    """Measurements and columns that a bound asks for; vacuous when there are as many measurements
    as columns of the data, or more.
    """

    n_measurements: int
    n_components: int
    vacuous: bool


def projection_spread(n_measurements: int, d: int, method: str = "orthoprojector") -> float:
    """Standard deviation of |P x|^2/|x|^2, whose mean is 1: sqrt(2 (1 - m/d)/(m (d + 2)/d)), and
    sqrt(2/m) for "gaussian".
    """
    m = _measurements("projection_spread", n_measurements, d, method)
    return (
        math.sqrt(2 / m) if method == "gaussian" else math.sqrt(2 * (1 - m / d) / (m * (d + 2) / d))
    )


def compressed_gaussian(
    a: float, n_measurements: int, d: int, method: str = "orthoprojector"
) -> float:
    """E exp(-gamma |P x - P z|^2) over P, for a = gamma |x - z|^2: 1F1(m/2; d/2; -(d/m) a), and (1
    + 2a/m)^(-m/2) for "gaussian".

    |P x|^2/|x|^2 is d/m times a Beta(m/2, (d - m)/2) number for an orthoprojector, 1/m times a
    chi-square number for a Gaussian matrix.
    The bias against exp(-a) is about a^2 exp(-a) (1 - m/d)/m, at a = 1 and d = 784: .0068, .0032,
    .0014 for m = 50, 100, 200.
    """
    from scipy.special import hyp1f1

    m = _measurements("compressed_gaussian", n_measurements, d, method)
    if not 0 <= a < math.inf:
        raise ValueError(
            f"compressed_gaussian: a must be a finite number of at least 0, got {a!r}."
        )
    return (
        (1 + 2 * a / m) ** (-m / 2)
        if method == "gaussian"
        else float(hyp1f1(m / 2, d / 2, -d / m * a))
    )


def compressed_variance(
    a: float, n_measurements: int, d: int, method: str = "orthoprojector"
) -> float:
    """Var exp(-gamma |P x - P z|^2) over P: F(2a) - F(a)^2 for F = compressed_gaussian. It is about
    2 a^2 exp(-2a) (1 - m/d)/m.
    """
    mean = compressed_gaussian(a, n_measurements, d, method)
    return max(compressed_gaussian(2 * a, n_measurements, d, method) - mean**2, 0.0)


def bound_sparse(
    error: float,
    n_components: int,
    d: int,
    k: int,
    spread: float,
    diameter: float,
    form: str = "paired",
    constant: float = 4.0,
) -> float:
    """P(sup |<phi(x), phi(z)> - k(x, z)| >= error) <= 3 (c e d spread diameter/(z error))^(2z/(z +
    2)) exp(-M error^2/(4 (z + 2))).

    At most 1. Theorem 1 for k-sparse x and z, z = 2k and M frequencies of RandomFourier: 2k takes
    the place of d in bound_uniform. c = 4 is what the proof gives; the paper prints 1, then 2.
    Offset features have products in [-2, 2], so 4 (z + 2) becomes 16 (z + 2); as in the paper the
    cover is one of differences, though offset features depend on x and z themselves: a cover of
    pairs would change c.

    Parameters
    ----------
    error : float
    n_components : int
        D, output columns.
    d, k : int
        Input columns, and those of a row that are not zero; 2k is at most d.
    spread : float
        sqrt(E |w|^2) of the frequencies: sqrt(2 gamma d) for the Gaussian kernel.
    diameter : float
        Of the set that x and z come from.
    form : {"paired", "offset"}
    constant : float
        c.
    """
    who = "bound_sparse"
    validate_integer(who, "n_components", n_components)
    log_factor, rate = _sparse(who, error, d, k, spread, diameter, form, constant)
    frequencies = n_components / 2 if form == "paired" else n_components
    return math.exp(min(log_factor - frequencies * rate, 0.0))


def components_sparse(
    error: float,
    delta: float,
    d: int,
    k: int,
    spread: float,
    diameter: float,
    form: str = "paired",
    constant: float = 4.0,
) -> int:
    """D for which bound_sparse is at most delta: 4 (z + 2)/error^2 [2z/(z + 2) ln(c e d spread
    diameter/(z error)) + ln(3/delta)] times.

    So many frequencies, one or two columns each. At d = 784, k = 20, gamma = 1/200, diameter 20,
    error .1 and delta .01 these are 469,896: 15 times fewer than components_uniform asks for, and
    still no guide to what is enough.
    """
    who = "components_sparse"
    validate_probability(who, "delta", delta)
    log_factor, rate = _sparse(who, error, d, k, spread, diameter, form, constant)
    return _columns((log_factor - math.log(delta)) / rate, form)


def bound_isometry(distortion: float, n_measurements: int, d: int, k: int) -> float:
    """P(some |P (x - z)| is not within (1 +- distortion) |x - z|) <= 2 (12 e d/(s distortion))^s
    exp(-c m), s = 2k, at most 1.

    Theorem 3 (Baraniuk, Davenport, DeVore and Wakin, 2008) with c = distortion^2/16 -
    distortion^3/48, for k-sparse x and z: s = 2k, where the paper has k. It holds for matrices with
    independent normal entries or signs, and for orthoprojectors of the first.
    """
    who = "bound_isometry"
    log_factor, rate = _isometry(who, distortion, d, k)
    return math.exp(
        min(log_factor - validate_integer(who, "n_measurements", n_measurements) * rate, 0.0)
    )


def measurements_isometry(distortion: float, delta: float, d: int, k: int) -> int:
    """m for which bound_isometry is at most delta: [s ln(12 e d/(s distortion)) + ln(2/delta)]/c.

    More than d measurements mean that the theorem says nothing: at d = 784, k = 10, distortion .5
    and delta .01 it asks for 12,460.
    """
    who = "measurements_isometry"
    validate_probability(who, "delta", delta)
    log_factor, rate = _isometry(who, distortion, d, k)
    return max(1, math.ceil((log_factor - math.log(delta)) / rate))


def bound_compressive(
    error: float,
    n_components: int,
    n_measurements: int,
    d: int,
    k: int,
    gamma: float,
    diameter: float,
    form: str = "paired",
) -> float:
    """P(sup |<phi(P x), phi(P z)> - exp(-gamma |x - z|^2)| >= error), at most 1: Theorem 2 for
    CompressiveFourier, Gaussian kernel.

    Half the error is the features' on the projected rows (bound_sparse with spread sqrt(2 gamma m),
    in a set of diameter (1 + t) diameter), half is the kernel's, which is within L t diameter of
    that of the original rows where P has distortion t (bound_isometry); L = sqrt(2 gamma) e^(-1/2),
    so t = error/(2 L diameter).
    """
    who = "bound_compressive"
    t = _distortion(who, error, gamma, diameter)
    spread = math.sqrt(2 * gamma * validate_integer(who, "n_measurements", n_measurements))
    features = bound_sparse(error / 2, n_components, d, k, spread, (1 + t) * diameter, form)
    return min(features + bound_isometry(t, n_measurements, d, k), 1.0)


def sizes_compressive(
    error: float, delta: float, d: int, k: int, gamma: float, diameter: float, form: str = "paired"
) -> CompressiveSizes:
    """m and D for which bound_compressive is at most delta, half of it for each of its terms.

    For images the answer is vacuous: m is larger than d by orders of magnitude.
    ``compressed_gaussian`` and ``compressed_variance`` are exact for one pair, and the better
    guide.
    """
    t = _distortion("sizes_compressive", error, gamma, diameter)
    m = measurements_isometry(t, delta / 2, d, k)
    spread = math.sqrt(2 * gamma * m)
    D = components_sparse(error / 2, delta / 2, d, k, spread, (1 + t) * diameter, form)
    return CompressiveSizes(m, D, vacuous=m >= d)


def _measurements(who: str, m: int, d: int, method: str) -> int:
    validate_integer(who, "n_measurements", m)
    validate_integer(who, "d", d)
    if validate_option(who, "method", method, _METHODS) == "orthoprojector" and m > d:
        raise ValueError(
            f"{who}: n_measurements must be at most d={d} for an orthoprojector, got {m}."
        )
    return m


def _differences(who: str, d: int, k: int) -> int:
    """2k, the entries of a difference that may be other than zero."""
    validate_integer(who, "d", d)
    if 2 * validate_integer(who, "k", k) > d:
        raise ValueError(
            f"{who}: k must be at most d/2 = {d / 2:g}, since differences of k-sparse rows have "
            f"2k entries, got {k}."
        )
    return 2 * k


def _sparse(
    who: str,
    error: float,
    d: int,
    k: int,
    spread: float,
    diameter: float,
    form: str,
    constant: float,
) -> tuple[float, float]:
    """ln of the factor before the exponential, and what each frequency adds to the exponent."""
    for name, value in (
        ("error", error),
        ("spread", spread),
        ("diameter", diameter),
        ("constant", constant),
    ):
        validate_positive(who, name, value)
    z = _differences(who, d, k)
    width = {"paired": 4.0, "offset": 16.0}[validate_option(who, "form", form, _FORMS)]
    base = math.log(constant * math.e * d * spread * diameter / (z * error))
    return math.log(3) + 2 * z / (z + 2) * base, error**2 / (width * (z + 2))


def _isometry(who: str, distortion: float, d: int, k: int) -> tuple[float, float]:
    """ln of the factor before the exponential, and what each measurement adds to the exponent."""
    t = validate_probability(who, "distortion", distortion)
    s = _differences(who, d, k)
    return math.log(2) + s * math.log(12 * math.e * d / (s * t)), t**2 / 16 - t**3 / 48


def _distortion(who: str, error: float, gamma: float, diameter: float) -> float:
    for name, value in (("error", error), ("gamma", gamma), ("diameter", diameter)):
        validate_positive(who, name, value)
    slope = math.sqrt(2 * gamma) * math.exp(-0.5)
    if error >= 2 * slope * diameter:
        raise ValueError(
            f"{who}: error must be below 2 diameter sqrt(2 gamma) e^(-1/2) = "
            f"{2 * slope * diameter:g}, got {error!r}: "
            "rows so near have kernel values that differ by less."
        )
    return error / (2 * slope * diameter)
