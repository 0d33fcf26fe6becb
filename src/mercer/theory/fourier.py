"""Random Fourier features: variances, uniform bounds, and the sizes they ask for."""

from __future__ import annotations

import math

from mercer.validation.parameters import (
    validate_integer,
    validate_option,
    validate_positive,
    validate_probability,
)

_FORMS = ("paired", "offset")


def variance(k: float, k2: float, n_components: int, form: str = "paired") -> float:
    """Var <phi(x), phi(z)> for independent frequencies: (1 + k2 - 2 k^2)/D paired, (1 + k2/2 -
    k^2)/D offset.

    Parameters
    ----------
    k, k2 : float
        k(x - z) and k(2 (x - z)).
    n_components : int
        D, output columns; even in the paired form.
    form : {"paired", "offset"}
    """
    validate_option("variance", "form", form, _FORMS)
    validate_integer("variance", "n_components", n_components)
    per_column = 1 + k2 - 2 * k**2 if form == "paired" else 1 + k2 / 2 - k**2
    return per_column / n_components


def nrff_variance(k: float, n_components: int) -> float:
    """Var of the normalized offset features, Gaussian kernel, to first order in 1/D: (1 - k^2)^2 (1
    + k^2/4)/D (Li, KDD 2017, eq. 13).

    It is (1 + k^2/4) times the variance of the paired form, which is never worse and has no bias.
    """
    validate_integer("nrff_variance", "n_components", n_components)
    return (1 - k**2) ** 2 * (1 + k**2 / 4) / n_components


def bound_uniform(
    error: float, n_components: int, d: int, spread: float, diameter: float, form: str = "paired"
) -> float:
    """P(sup |<phi(x), phi(z)> - k(x, z)| >= error) <= a (spread diameter/error)^2 exp(-m
    error^2/c), at most 1, for m frequencies.

    paired: a = 2^8, c = 4 (d + 2), Rahimi and Recht's Claim 1, whose features depend on x - z alone
    and have products in [-1, 1]. offset: a = 98, c = 32 (d + 1), since these depend on x and z and
    have products in [-2, 2] (Sutherland and Schneider, UAI 2015).

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
    validate_integer("bound_uniform", "n_components", n_components)
    log_factor, constant = _uniform("bound_uniform", error, d, spread, diameter, form)
    frequencies = n_components / 2 if form == "paired" else n_components
    return math.exp(min(log_factor - frequencies * error**2 / constant, 0.0))


def components_uniform(
    error: float, delta: float, d: int, spread: float, diameter: float, form: str = "paired"
) -> int:
    """D for which bound_uniform is at most delta: c/error^2 ln(a (spread diameter/error)^2/delta)
    frequencies.
    """
    validate_probability("components_uniform", "delta", delta)
    log_factor, constant = _uniform("components_uniform", error, d, spread, diameter, form)
    return _columns(constant / error**2 * (log_factor - math.log(delta)), form)


def components_for_pair(error: float, delta: float, form: str = "paired") -> int:
    """D for which one pair (x, z), fixed beforehand, has an error below `error` with probability 1
    - delta (Hoeffding).

    2/error^2 ln(2/delta) frequencies in the paired form, 4 times as many in the offset form. For n
    rows at once take delta/(n (n - 1)/2).
    """
    who = "components_for_pair"
    validate_positive(who, "error", error)
    validate_probability(who, "delta", delta)
    constant = {"paired": 2.0, "offset": 8.0}[validate_option(who, "form", form, _FORMS)]
    return _columns(constant / error**2 * math.log(2 / delta), form)


def _uniform(
    who: str, error: float, d: int, spread: float, diameter: float, form: str
) -> tuple[float, float]:
    """ln(a (spread diameter/error)^2) and c."""
    for name, value in (("error", error), ("spread", spread), ("diameter", diameter)):
        validate_positive(who, name, value)
    validate_integer(who, "d", d)
    if error > spread * diameter:
        raise ValueError(
            f"{who}: error must be at most spread * diameter = {spread * diameter:g} for the "
            f"bound to hold, got {error!r}."
        )
    a, c = {"paired": (2.0**8, 4.0 * (d + 2)), "offset": (98.0, 32.0 * (d + 1))}[
        validate_option(who, "form", form, _FORMS)
    ]
    return math.log(a) + 2 * math.log(spread * diameter / error), c


def _columns(frequencies: float, form: str) -> int:
    return max(1, math.ceil(frequencies)) * (2 if form == "paired" else 1)
