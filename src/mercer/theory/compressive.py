"""Random projections and compressive random features (Chang et al., CVPR 2016), corrected.

k is the number of nonzero entries of a signal in some orthonormal basis; differences of signals
have up to 2k.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from mercer.errors import ParameterError, Setting
from mercer.theory.fourier import COUNT, FORM, POSITIVE, PROBABILITY, columns
from mercer.validation.parameters import Constraint, Nonnegative, Option, validate_arguments

_PROJECTION: dict[str, Constraint] = {
    "n_measurements": COUNT,
    "d": COUNT,
    "method": Option("orthoprojector", "gaussian"),
}
_SPARSE: dict[str, Constraint] = {"d": COUNT, "k": COUNT}
_FEATURES: dict[str, Constraint] = {
    "error": POSITIVE,
    "spread": POSITIVE,
    "diameter": POSITIVE,
    "constant": POSITIVE,
}
_FEATURES |= {**_SPARSE, "form": FORM}
_COMPRESSIVE: dict[str, Constraint] = {
    "error": POSITIVE,
    "gamma": POSITIVE,
    "diameter": POSITIVE,
    **_SPARSE,
    "form": FORM,
}


@dataclass(frozen=True)
class CompressiveSizes:
    """Measurements and columns that a bound requires; vacuous where n_measurements >= d."""

    n_measurements: int
    n_components: int
    vacuous: bool


@validate_arguments(**_PROJECTION)
def projection_spread(n_measurements: int, d: int, method: str = "orthoprojector") -> float:
    """Return the standard deviation of |P x|^2/|x|^2: sqrt(2 (1 - m/d)/(m (d + 2)/d)).

    The mean is 1. For "gaussian" it is sqrt(2/m).
    """
    m = _at_most_d(n_measurements, d, method)
    return math.sqrt(2 / m if method == "gaussian" else 2 * (1 - m / d) / (m * (d + 2) / d))


@validate_arguments(a=Nonnegative(), **_PROJECTION)
def compressed_gaussian(
    a: float, n_measurements: int, d: int, method: str = "orthoprojector"
) -> float:
    """E exp(-gamma |P x - P z|^2) over P = 1F1(m/2; d/2; -(d/m) a), a = gamma |x - z|^2.

    (1 + 2a/m)^(-m/2) for "gaussian". |P x|^2/|x|^2 is d/m times a Beta(m/2, (d - m)/2) variable for
    an orthoprojector, 1/m times a chi-square variable for a Gaussian matrix. The bias against
    exp(-a) is about a^2 exp(-a) (1 - m/d)/m: at a = 1 and d = 784 it is .0068, .0032, .0014 for
    m = 50, 100, 200.
    """
    from scipy.special import hyp1f1

    m = _at_most_d(n_measurements, d, method)
    if method == "gaussian":
        return (1 + 2 * a / m) ** (-m / 2)
    return float(hyp1f1(m / 2, d / 2, -d / m * a))


def compressed_variance(
    a: float, n_measurements: int, d: int, method: str = "orthoprojector"
) -> float:
    """Var exp(-gamma |P x - P z|^2) over P = F(2a) - F(a)^2, F = compressed_gaussian.

    About 2 a^2 exp(-2a) (1 - m/d)/m.
    """
    mean = compressed_gaussian(a, n_measurements, d, method)
    return max(compressed_gaussian(2 * a, n_measurements, d, method) - mean**2, 0.0)


@validate_arguments(n_components=COUNT, **_FEATURES)
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
    """P(sup |<phi(x), phi(z)> - k(x, z)| >= error) <= F exp(-M error^2/(4 (z + 2))), at most 1.

    F = 3 (c e d spread diameter/(z error))^(2z/(z + 2)): Theorem 1 for k-sparse x and z, z = 2k,
    and M frequencies of RandomFourier; 2k replaces d of bound_uniform. c = 4 is what the proof
    gives; the paper prints 1, then 2. Offset features have products in [-2, 2], so that 4 (z + 2)
    becomes 16 (z + 2). As in the paper the cover is one of differences, though offset features
    depend on x and z themselves: a cover of pairs would change c.

    Parameters
    ----------
    error : float
    n_components : int
        D, output columns.
    d, k : int
        Input columns, and nonzero entries of a row; 2k is at most d.
    spread : float
        sqrt(E |w|^2) of the frequencies: sqrt(2 gamma d) for the Gaussian kernel.
    diameter : float
        Of the set of x and z.
    form : {"paired", "offset"}
    constant : float
        c.
    """
    log_factor, rate = _sparse_terms(error, d, k, spread, diameter, form, constant)
    frequencies = n_components / 2 if form == "paired" else n_components
    return math.exp(min(log_factor - frequencies * rate, 0.0))


@validate_arguments(delta=PROBABILITY, **_FEATURES)
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
    """D with bound_sparse <= delta: 4 (z + 2)/error^2 ln(F/delta) frequencies.

    One or two columns each. At d = 784, k = 20, gamma = 1/200, diameter 20, error .1 and delta .01
    it is 939,792, twice 469,896 frequencies, and far more than are needed.
    """
    log_factor, rate = _sparse_terms(error, d, k, spread, diameter, form, constant)
    return columns((log_factor - math.log(delta)) / rate, form)


@validate_arguments(distortion=PROBABILITY, n_measurements=COUNT, **_SPARSE)
def bound_isometry(distortion: float, n_measurements: int, d: int, k: int) -> float:
    """P(some |P (x - z)| outside (1 +- t) |x - z|) <= 2 (12 e d/(s t))^s exp(-c m), s = 2k.

    At most 1, t = distortion: Theorem 3 (Baraniuk, Davenport, DeVore and Wakin, 2008) with
    c = t^2/16 - t^3/48, for k-sparse x and z: s = 2k, where the paper has k. It holds for matrices
    with independent normal entries or signs, and for orthoprojectors of the first.
    """
    log_factor, rate = _isometry_terms(distortion, d, k)
    return math.exp(min(log_factor - n_measurements * rate, 0.0))


@validate_arguments(distortion=PROBABILITY, delta=PROBABILITY, **_SPARSE)
def measurements_isometry(distortion: float, delta: float, d: int, k: int) -> int:
    """m with bound_isometry <= delta: [s ln(12 e d/(s t)) + ln(2/delta)]/c.

    The bound is vacuous where m > d: at d = 784, k = 10, distortion .5 and delta .01, m is 12,460.
    """
    log_factor, rate = _isometry_terms(distortion, d, k)
    return max(1, math.ceil((log_factor - math.log(delta)) / rate))


@validate_arguments(n_components=COUNT, n_measurements=COUNT, **_COMPRESSIVE)
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
    """P(sup |<phi(P x), phi(P z)> - exp(-gamma |x - z|^2)| >= error), at most 1.

    Theorem 2, for CompressiveFourier. Half of the error is that of the features on the projected
    rows (bound_sparse with spread sqrt(2 gamma m), in a set of diameter (1 + t) diameter), half is
    the kernel's, which is within L t diameter of that of the original rows where P has distortion t
    (bound_isometry); L = sqrt(2 gamma) e^(-1/2), so t = error/(2 L diameter).
    """
    t = _distortion(error, gamma, diameter)
    spread = math.sqrt(2 * gamma * n_measurements)
    features = bound_sparse(error / 2, n_components, d, k, spread, (1 + t) * diameter, form)
    return min(features + bound_isometry(t, n_measurements, d, k), 1.0)


@validate_arguments(delta=PROBABILITY, **_COMPRESSIVE)
def sizes_compressive(
    error: float, delta: float, d: int, k: int, gamma: float, diameter: float, form: str = "paired"
) -> CompressiveSizes:
    """m and D with bound_compressive <= delta, half of it for each of its terms.

    For images the bound is vacuous: m is larger than d by orders of magnitude.
    ``compressed_gaussian`` and ``compressed_variance`` are exact for one pair.
    """
    t = _distortion(error, gamma, diameter)
    m = measurements_isometry(t, delta / 2, d, k)
    spread = math.sqrt(2 * gamma * m)
    D = components_sparse(error / 2, delta / 2, d, k, spread, (1 + t) * diameter, form)
    return CompressiveSizes(m, D, vacuous=m >= d)


def _at_most_d(m: int, d: int, method: str) -> int:
    if method == "orthoprojector" and m > d:
        needed = f" must be at most d={d} for an orthoprojector, got {m}."
        raise ParameterError("", Setting("n_measurements"), needed)
    return m


def _nonzero_of_differences(d: int, k: int) -> int:
    """Return 2k, the most nonzero entries of a difference of k-sparse rows."""
    if 2 * k > d:
        why = "since differences of k-sparse rows have 2k entries"
        raise ParameterError("", Setting("k"), f" must be at most d/2 = {d / 2:g}, {why}, got {k}.")
    return 2 * k


def _sparse_terms(
    error: float, d: int, k: int, spread: float, diameter: float, form: str, constant: float
) -> tuple[float, float]:
    """Return ln F of bound_sparse, and the factor of M in its exponent."""
    z = _nonzero_of_differences(d, k)
    width = 4.0 if form == "paired" else 16.0
    base = math.log(constant * math.e * d * spread * diameter / (z * error))
    return math.log(3) + 2 * z / (z + 2) * base, error**2 / (width * (z + 2))


def _isometry_terms(t: float, d: int, k: int) -> tuple[float, float]:
    """Return ln of the factor of bound_isometry, and the factor of m in its exponent."""
    s = _nonzero_of_differences(d, k)
    return math.log(2) + s * math.log(12 * math.e * d / (s * t)), t**2 / 16 - t**3 / 48


def _distortion(error: float, gamma: float, diameter: float) -> float:
    """Return t = error/(2 L diameter), L = sqrt(2 gamma) e^(-1/2)."""
    largest = 2 * math.sqrt(2 * gamma) * math.exp(-0.5) * diameter
    if error >= largest:
        why = "kernel values of rows so near differ by less"
        needed = f" must be below 2 diameter sqrt(2 gamma) e^(-1/2) = {largest:g}, got {error!r}: "
        raise ParameterError("", Setting("error"), f"{needed}{why}.")
    return error / largest
