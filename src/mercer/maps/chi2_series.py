"""The direct chi2 series of 2xz/(x + z) (Li, Lebanon and Sminchisescu, arXiv 1206.4074)."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._typing import Array
from mercer.errors import ParameterError, Setting
from mercer.kernels import Additive, Chi2
from mercer.maps import _chi2_poles
from mercer.maps._additive import AdditiveMap
from mercer.maps._transform import Chain
from mercer.maps.base import Decay, Map
from mercer.maps.stages.elementwise import SeriesLift
from mercer.rng import Rng
from mercer.stats.base import Statistic
from mercer.stats.histogram import Histogram
from mercer.validation.parameters import Flag, Integer, Option, PositiveNumbers, Threads

# Poles that are optimized at most: the largest error of 60 is 8e-15 of the largest value.
_MOST_TERMS = 64


class Chi2Series(AdditiveMap):
    """phi_q(x) = prod_{p<q} (x - k_p)/(x + k_p) 2 sqrt(k_q) x/(x + k_q), q = 1..n, poles k, x >= 0.

    n values for each input, side by side, phi(0) = 0. CSR rows give CSR features.

    Parameters
    ----------
    n_terms : int, default=5
        n.
    poles : {"fit", "greedy", "minimax"} or array of shape (n_terms,), default="fit"
        "fit" minimizes the trace of the error's Gram matrix over the histogram of the data (within
        7 to 28% of the best linear map of that many values). "greedy" is the paper's Algorithm 1.
        "minimax" minimizes the largest error on [0, max x].
    signed : bool, default=False
        Map negative numbers to sign(x) phi(|x|).
    n_jobs : int or None, default=None
        Threads; None and -1 use all that the process may use.

    Attributes
    ----------
    poles_ : array of shape (n_terms,)
        The poles in use.
    kernel_, limit_ : Kernel
        The chi2 kernel, sum 2xz/(x + z).

    Notes
    -----
    The error is exactly P(x) P(z) 2xz/(x + z), with P(x) = prod (x - k)/(x + k): that of the
    Nystroem approximation of the chi2 kernel with landmarks at the poles. It falls geometrically
    with n for data bounded away from 0.

    F. Li, G. Lebanon and C. Sminchisescu, "A linear approximation to the chi2 kernel with geometric
    convergence", arXiv 1206.4074.

    Examples
    --------
    >>> from mercer import Chi2Series
    >>> Chi2Series(3, poles=[0.5, 0.05, 0.005]).fit_transform([[0.3]]).round(4)
    array([[ 0.5303, -0.0958, -0.0248]])
    """

    name = "chi2-series"
    numpy_attributes = True
    kernels = ("chi2",)
    paper = "Li, Lebanon and Sminchisescu, arXiv 1206.4074"
    parameter_constraints = {
        "n_terms": (Integer(),),
        "poles": (Option("fit", "greedy", "minimax"), PositiveNumbers()),
        "signed": (Flag(),),
        "n_jobs": (Threads(),),
    }
    rate = Decay((2, 4, 8), 0.2)
    poles_: Array

    def __init__(
        self,
        n_terms: int = 5,
        *,
        poles: str | Array = "fit",
        signed: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.n_terms = n_terms
        self.poles = poles
        self.signed = signed
        self.n_jobs = n_jobs

    def additive(self) -> Additive:
        return Chi2()

    def check(self, d: int) -> None:
        if not isinstance(self.poles, str) and len(self.poles) != self.n_terms:
            needed = (
                f" must have one number for each of the {self.n_terms} terms, got {self.poles!r}."
            )
            raise ParameterError(type(self).__name__, Setting("poles"), needed)
        if isinstance(self.poles, str) and self.poles != "greedy" and self.n_terms > _MOST_TERMS:
            raise ParameterError(
                type(self).__name__,
                Setting("n_terms"),
                f" is {self.n_terms}, and at most {_MOST_TERMS} are of use: the error of so many "
                "poles is that of float64. Give fewer, or ",
                Setting("poles", "'greedy'"),
                ", which are not optimized.",
            )

    def required_statistics(self, d: int) -> Statistic | None:
        return Histogram(magnitudes=self.signed) if isinstance(self.poles, str) else None

    def build(self, rng: Rng, d: int, statistics: Any) -> Chain:
        self.poles_ = self._poles(statistics)
        return Chain((SeriesLift(self.poles_, self.signed),))

    @classmethod
    def cases(cls) -> list[Map]:
        return [cls(3), cls(3, poles="greedy"), cls(3, poles="minimax"), cls(3, signed=True)]

    def _poles(self, statistics: Histogram | None) -> Array:
        if statistics is None:
            return np.asarray(self.poles, dtype=np.float64)
        values, weights = statistics.centers()
        if len(values) == 0:  # all zeros: any poles are exact
            values, weights = np.ones(1), np.ones(1)
        if self.poles == "greedy":
            return _chi2_poles.greedy_poles(
                *_chi2_poles.logarithmic_histogram(values, weights), self.n_terms
            )
        if self.poles == "minimax":
            return _chi2_poles.minimax_poles(self.n_terms) * values[-1]
        return _chi2_poles.fit_poles(values, weights, self.n_terms)
