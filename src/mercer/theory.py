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

from mercer import door

__all__ = ["bound_uniform", "components_for_pair", "components_uniform", "nrff_variance", "variance"]

_FORMS = ("paired", "offset")


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
    per_column = 1 + k2 - 2 * k**2 if form == "paired" else 1 + k2 / 2 - k**2
    return per_column / n_components


def nrff_variance(k: float, n_components: int) -> float:
    """Var of the normalized offset features, Gaussian kernel, to first order in 1/D: (1 - k^2)^2 (1 + k^2/4)/D (Li, KDD 2017, eq. 13).

    It is (1 + k^2/4) times the variance of the paired form, which is never worse and has no bias.
    """
    return (1 - k**2) ** 2 * (1 + k**2 / 4) / n_components


def bound_uniform(
    error: float, n_components: int, d: int, spread: float, diameter: float, form: str = "paired"
) -> float:
    """P(sup |<phi(x), phi(z)> - k(x, z)| >= error) <= 2^8 (spread diameter/error)^2 exp(-m error^2/(c (d + 2))), at most 1.

    Rahimi and Recht's Claim 1, with m frequencies; c = 4 holds for the paired form, whose products lie in [-1, 1]; the offset form's lie
    in [-2, 2], so that c = 16.

    Parameters
    ----------
    error : float
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
    log_bound = math.log(2**8) + 2 * math.log(spread * diameter / error)
    log_bound -= _frequencies(n_components, form) * error**2 / (_constant(form) * (d + 2))
    return math.exp(min(log_bound, 0.0))


def components_uniform(error: float, delta: float, d: int, spread: float, diameter: float, form: str = "paired") -> int:
    """D for which bound_uniform is at most delta: c (d + 2)/error^2 ln(2^8 (spread diameter/error)^2/delta) frequencies."""
    log_term = math.log(2**8) + 2 * math.log(spread * diameter / error) - math.log(delta)
    return _columns(_constant(form) * (d + 2) / error**2 * log_term, form)


def components_for_pair(error: float, delta: float, form: str = "paired") -> int:
    """D for which one pair (x, z), fixed beforehand, has an error below `error` with probability 1 - delta (Hoeffding).

    2/error^2 ln(2/delta) frequencies in the paired form, 4 times as many in the offset form. For n rows at once take delta/(n (n - 1)/2).
    """
    return _columns(_constant(form) / 2 / error**2 * math.log(2 / delta), form)


def _constant(form: str) -> float:
    return {"paired": 4.0, "offset": 16.0}[door.one_of("theory", "form", form, _FORMS)]


def _frequencies(n_components: int, form: str) -> float:
    return n_components / 2 if form == "paired" else n_components


def _columns(frequencies: float, form: str) -> int:
    return math.ceil(frequencies) * (2 if form == "paired" else 1)
