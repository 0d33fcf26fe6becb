"""Skewed Fourier maps: random Fourier features of log(x + c) (Li, Ionescu, Sminchisescu, 2010).

kernel         k(x, z), c = skew                                    sampling density of a frequency
chi2           prod 2 sqrt((x + c)(z + c)) / (x + z + 2c)           hyperbolic secant
intersection   prod sqrt(min(x + c, z + c)/max(x + c, z + c))       Cauchy, scale 1/2
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer._typing import Array
from mercer.kernels import Kernel, SkewedChi2, SkewedIntersection
from mercer.maps._bandwidth import median_skew, sample_rows
from mercer.maps._size import SIZE
from mercer.maps._transform import Chain
from mercer.maps.base import Map
from mercer.maps.stages.elementwise import LogSkew
from mercer.maps.stages.fourier import build_fourier_features, count_frequencies
from mercer.maps.stages.linear import Matrix, sample_independent
from mercer.rng import Rng
from mercer.stats.base import Statistic
from mercer.validation.parameters import Option, Positive, Seed, Threads


def _secant(u: Array) -> Array:
    return np.log(np.tan(np.pi * u / 2)) / np.pi


def _cauchy(u: Array) -> Array:
    return np.tan(np.pi * (u - 0.5)) / 2


_DENSITIES = {"chi2": (SkewedChi2, _secant), "intersection": (SkewedIntersection, _cauchy)}


class SkewedFourier(Map):
    """phi(x) = sqrt(2/D) (cos w_1.l, sin w_1.l, ...), l = log(1 + x/skew), for x >= 0.

    E <phi(x), phi(z)> = k(x, z). The kernel depends on differences of log(x + c) only; log(1 + x/c)
    has the same differences and maps 0 to 0, so that CSR rows stay sparse.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        D, the number of output columns; "auto" as in RandomFourier.
    kernel : {"chi2", "intersection"}, default="chi2"
        prod 2 sqrt((x + c)(z + c)) / (x + z + 2c), or
        prod sqrt(min(x + c, z + c)/max(x + c, z + c)).
    skew : float or "auto", default="auto"
        c; the smaller it is, the more differ 0 and small numbers. With "auto" the kernel of the
        median pair of sampled rows is 1/e, as it is for the gamma of RandomFourier; it is the
        smallest number above 0 where no c has so small a kernel, and 1.0 where all rows are equal.
    form : {"paired", "offset"}, default="paired"
        As in RandomFourier.
    random_state : int, Generator, RandomState or None, default=None
        Seed; ``seed_`` is the one in use.
    n_jobs : int or None, default=None
        Threads; None and -1 use all that the process may use.

    Attributes
    ----------
    skew_ : float
        The skew in use.
    n_components_ : int
        The D in use.
    kernel_, limit_ : Kernel
        The exact kernel, which is also the limit as n_components grows.

    Notes
    -----
    F. Li, C. Ionescu and C. Sminchisescu, "Random Fourier approximations for skewed multiplicative
    histogram kernels", DAGM 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import SkewedFourier
    >>> X = np.random.default_rng(0).random((50, 4))
    >>> phi = SkewedFourier(4000, random_state=0).fit(X)
    >>> bool(abs(phi.transform(X) @ phi.transform(X).T - phi.kernel_(X)).max() < 0.05)
    True
    """

    name = "skewed"
    kernels = tuple(_DENSITIES)
    paper = "Li, Ionescu and Sminchisescu, DAGM 2010; a comparator of Yang et al., CVPR 2014"
    statistics_name = "bandwidth statistics"
    parameter_constraints = {
        "n_components": SIZE,
        "kernel": (Option(*_DENSITIES),),
        "skew": (Positive(), Option("auto")),
        "form": (Option("paired", "offset"),),
        "random_state": (Seed(),),
        "n_jobs": (Threads(),),
    }
    domain = "nonnegative"
    size_follows_rows = True
    n_components_: int

    def __init__(
        self,
        n_components: int | str = "auto",
        *,
        kernel: str = "chi2",
        skew: float | str = "auto",
        form: str = "paired",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.skew = skew
        self.form = form
        self.random_state = random_state
        self.n_jobs = n_jobs

    @property
    def skew_(self) -> float:
        """The skew in use."""
        check_is_fitted(self)
        chain: Any = self.tile_transform_
        return float(chain.stages[0].skew)

    @property
    def kernel_(self) -> Kernel:
        """The exact kernel."""
        return _DENSITIES[self.kernel][0](self.skew_)

    def required_statistics(self, d: int) -> Statistic | None:
        return sample_rows(d, self.seed_) if isinstance(self.skew, str) else None

    def build(self, rng: Rng, d: int, statistics: Any) -> Chain:
        kernel, quantile = _DENSITIES[self.kernel]
        auto = isinstance(self.skew, str)
        skew = statistics.estimate(partial(median_skew, kernel)) if auto else float(self.skew)
        count = count_frequencies(self.n_components_, self.form)
        panel = Matrix(sample_independent(rng, count, d, quantile) / (2 * np.pi))
        waves = build_fourier_features(rng, panel, self.n_components_, self.form)
        return Chain((LogSkew(skew), waves))

    @classmethod
    def cases(cls) -> list[Map]:
        return [
            cls(64, random_state=0),
            cls(64, skew=1.0, random_state=0),
            cls(64, kernel="intersection", form="offset", skew=2.0, random_state=0),
        ]
