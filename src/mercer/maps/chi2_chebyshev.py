"""The Chebyshev series of 2xz/(x + z) (Li, Lebanon and Sminchisescu, arXiv 1206.4074)."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer import ops
from mercer.kernels import Additive, Chi2
from mercer.maps._additive import AdditiveMap
from mercer.maps._transform import Chain
from mercer.maps.base import Decay, Map
from mercer.maps.stages.elementwise import ChebyshevLift
from mercer.rng import Rng
from mercer.stats.base import Statistic
from mercer.stats.histogram import Histogram
from mercer.validation.parameters import Flag, Integer, Option, Positive, Threads


class Chi2Chebyshev(AdditiveMap):
    """phi_q(x) = sqrt(c) d_q(x/c), the Chebyshev terms d_q of the chi2 kernel, q < n, x >= 0.

    d_0(t) = 2t/(t + 1), d_1 = -sqrt(2) (ln t/pi) d_0 and

        d_q = ((-1)^q (2 ln t/pi) d_{q-1} + (q - 2) d_{q-2})/q.

    n values for each input, side by side, phi(0) = 0. CSR rows give CSR features.

    Parameters
    ----------
    n_terms : int, default=5
        n.
    center : float or "fit", default="fit"
        c. "fit" minimizes the trace of the error's Gram matrix over the histogram of the data; 1.0
        is the paper's.
    signed : bool, default=False
        Map negative numbers to sign(x) phi(|x|).
    n_jobs : int or None, default=None
        Threads; None and -1 use all that the process may use.

    Attributes
    ----------
    center_ : float
        The center in use.
    kernel_, limit_ : Kernel
        The chi2 kernel, sum 2xz/(x + z).

    Notes
    -----
    The error falls like 1/n. Chi2Series has a far smaller error at the same size; this map is here
    for comparison.

    F. Li, G. Lebanon and C. Sminchisescu, "A linear approximation to the chi2 kernel with geometric
    convergence", arXiv 1206.4074, section 5.

    Examples
    --------
    >>> from mercer import Chi2Chebyshev
    >>> Chi2Chebyshev(3, center=1.0).fit_transform([[0.3]]).round(4)
    array([[ 0.4615,  0.2501, -0.0959]])
    """

    name = "chi2-chebyshev"
    kernels = ("chi2",)
    paper = "Li, Lebanon and Sminchisescu, arXiv 1206.4074"
    parameter_constraints = {
        "n_terms": (Integer(),),
        "center": (Positive(), Option("fit")),
        "signed": (Flag(),),
        "n_jobs": (Threads(),),
    }
    rate = Decay((4, 8, 16), 0.75)
    center_: float

    def __init__(
        self,
        n_terms: int = 5,
        *,
        center: float | str = "fit",
        signed: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.n_terms = n_terms
        self.center = center
        self.signed = signed
        self.n_jobs = n_jobs

    def additive(self) -> Additive:
        return Chi2()

    def required_statistics(self, d: int) -> Statistic | None:
        return Histogram(magnitudes=self.signed) if isinstance(self.center, str) else None

    def build(self, rng: Rng, d: int, statistics: Any) -> Chain:
        self.center_ = (
            float(self.center) if statistics is None else _best_center(statistics, self.n_terms)
        )
        return Chain((ChebyshevLift(self.n_terms, self.center_, self.signed),))

    @classmethod
    def cases(cls) -> list[Map]:
        return [cls(4), cls(4, center=1.0), cls(4, signed=True)]


def _best_center(statistics: Histogram, n_terms: int) -> float:
    """Return the center that minimizes sum h (x - |phi(x)|^2), on a grid that is refined once."""
    values, weights = statistics.centers()
    if len(values) == 0:
        return 1.0
    x = values[:, None]

    def trace(center: float) -> float:
        lifts = ops.chi2_chebyshev(x, n_terms, center, np.empty((len(x), n_terms)))
        return float(weights @ (values - np.einsum("ij,ij->i", lifts, lifts)))

    grid = np.append(np.geomspace(values[0], values[-1], 60), 1.0)
    best = min(grid, key=trace)
    finer = best * np.geomspace(0.8, 1.25, 21)
    return float(min([best, *finer], key=trace))
