"""Random Fourier features: variances, uniform bounds, and the sizes that they require."""

from __future__ import annotations

import math

from mercer.errors import ParameterError, Setting
from mercer.validation.parameters import Constraint, Integer, Option, Positive, validate_arguments

COUNT, POSITIVE, PROBABILITY = Integer(), Positive(), Positive(below=1)
FORM = Option("paired", "offset")
_SET: dict[str, Constraint] = {
    "error": POSITIVE,
    "d": COUNT,
    "spread": POSITIVE,
    "diameter": POSITIVE,
    "form": FORM,
}


@validate_arguments(form=FORM, n_components=COUNT)
def variance(k: float, k2: float, n_components: int, form: str = "paired") -> float:
    """Var <phi(x), phi(z)> = (1 + k2 - 2 k^2)/D paired, (1 + k2/2 - k^2)/D offset.

    For independent frequencies.

    Parameters
    ----------
    k, k2 : float
        k(x - z) and k(2 (x - z)).
    n_components : int
        D, output columns; even in the paired form.
    form : {"paired", "offset"}
    """
    per_column = 1 + k2 - 2 * k**2 if form == "paired" else 1 + k2 / 2 - k**2
    return per_column / n_components


@validate_arguments(n_components=COUNT)
def nrff_variance(k: float, n_components: int) -> float:
    """Var <phi(x), phi(z)> = (1 - k^2)^2 (1 + k^2/4)/D of normalized offset features.

    Gaussian kernel, to first order in 1/D (Li, KDD 2017, eq. 13). It is (1 + k^2/4) times the
    variance of the paired form, which has no bias.
    """
    return (1 - k**2) ** 2 * (1 + k**2 / 4) / n_components


@validate_arguments(n_components=COUNT, **_SET)
def bound_uniform(
    error: float, n_components: int, d: int, spread: float, diameter: float, form: str = "paired"
) -> float:
    """P(sup |<phi(x), phi(z)> - k(x, z)| >= error) <= a (spread diameter/error)^2 e^(-m error^2/c).

    At most 1, for m frequencies. paired: a = 2^8, c = 4 (d + 2), Claim 1 of Rahimi and Recht, whose
    features depend on x - z alone and have products in [-1, 1]. offset: a = 98, c = 32 (d + 1),
    since these depend on x and z and have products in [-2, 2] (Sutherland and Schneider, UAI 2015).

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
        Of the set of x and z.
    form : {"paired", "offset"}
    """
    log_factor, c = _uniform_terms(error, d, spread, diameter, form)
    frequencies = n_components / 2 if form == "paired" else n_components
    return math.exp(min(log_factor - frequencies * error**2 / c, 0.0))


@validate_arguments(delta=PROBABILITY, **_SET)
def components_uniform(
    error: float, delta: float, d: int, spread: float, diameter: float, form: str = "paired"
) -> int:
    """D with bound_uniform <= delta: c/error^2 ln(a (spread diameter/error)^2/delta).

    So many frequencies, one or two columns each.
    """
    log_factor, c = _uniform_terms(error, d, spread, diameter, form)
    return columns(c / error**2 * (log_factor - math.log(delta)), form)


@validate_arguments(error=POSITIVE, delta=PROBABILITY, form=FORM)
def components_for_pair(error: float, delta: float, form: str = "paired") -> int:
    """D for which one fixed pair (x, z) has an error below `error` with probability 1 - delta.

    Hoeffding: 2/error^2 ln(2/delta) frequencies in the paired form, 4 times as many in the offset
    form. For all pairs of n rows take delta/(n (n - 1)/2).
    """
    constant = 2.0 if form == "paired" else 8.0
    return columns(constant / error**2 * math.log(2 / delta), form)


def columns(frequencies: float, form: str) -> int:
    """Return the output columns of so many frequencies, rounded up."""
    return max(1, math.ceil(frequencies)) * (2 if form == "paired" else 1)


def _uniform_terms(
    error: float, d: int, spread: float, diameter: float, form: str
) -> tuple[float, float]:
    """Return ln(a (spread diameter/error)^2) and c of bound_uniform."""
    if error > spread * diameter:
        needed = f" must be at most spread * diameter = {spread * diameter:g}, got {error!r}."
        raise ParameterError("", Setting("error"), needed)
    a, c = (2.0**8, 4.0 * (d + 2)) if form == "paired" else (98.0, 32.0 * (d + 1))
    return math.log(a) + 2 * math.log(spread * diameter / error), c
