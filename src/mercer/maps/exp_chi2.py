"""The exponentiated chi2 kernel (Li, Lebanon and Sminchisescu, arXiv 1206.4074, Algorithm 2)."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from mercer._typing import Array
from mercer.kernels import ExpChi2 as ExpChi2Kernel
from mercer.kernels import Gaussian, Kernel
from mercer.maps._bandwidth import Gamma
from mercer.maps._size import SIZE
from mercer.maps._transform import Chain, kernel_on_first_stage
from mercer.maps.base import Map, Rate
from mercer.maps.chi2_series import Chi2Series
from mercer.maps.fourier import RandomFourier
from mercer.rng import Rng
from mercer.stats.base import CombinedStatistics, Statistic
from mercer.validation.parameters import Integer, Option, Positive, Seed, Threads


class ExpChi2(Map):
    """phi = RandomFourier of Chi2Series, for k(x, z) = exp(-gamma D), D = sum (x - z)^2/(x + z).

    x, z >= 0. It is ``Chi2Series(n_terms) >> RandomFourier(n_components, gamma=gamma)``, since D is
    the squared distance of chi2 features; the n_terms * d values between the two exist for one tile
    at a time.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Number of output columns; "auto" as in RandomFourier.
    gamma : float or {"auto", "median"}, default="auto"
        Bandwidth parameter, as in scikit-learn. "auto" and "median" are 1 over twice the median of
        D over pairs of sampled rows, as in RandomFourier.
    n_terms : int, default=5
        Terms of the series; 5 are enough for up to about 1e5 components.
    poles : {"fit", "greedy", "minimax"} or array of shape (n_terms,), default="fit"
        As in Chi2Series.
    design : {"auto", "iid", "orthogonal", "hadamard", "sobol"}, default="auto"
        As in RandomFourier, for the n_terms * d columns of the series.
    random_state : int, Generator, RandomState or None, default=None
        Seed; ``seed_`` is the one in use.
    n_jobs : int or None, default=None
        Threads; None and -1 use all that the process may use.

    Attributes
    ----------
    gamma_ : float
        The gamma in use.
    n_components_ : int
        The number of columns in use.
    kernel_ : Kernel
        The exact kernel.
    limit_ : Kernel
        The Gaussian kernel of the series' features, the limit as n_components grows.

    Notes
    -----
    The parameter gamma in other sources::

        source                          kernel               gamma here     frequencies
        scikit-learn chi2_kernel        exp(-gamma D)        gamma          variance 2 gamma
        Yang et al. 2014, Table 1       exp(-D/sigma^2)      1/sigma^2      variance 2/sigma^2
        Li et al. 2012, eq. 4           exp(-beta D/2)       beta/2         variance beta

    F. Li, G. Lebanon and C. Sminchisescu, "A linear approximation to the chi2 kernel with geometric
    convergence", arXiv 1206.4074, Algorithm 2.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import ExpChi2
    >>> X = np.random.default_rng(0).dirichlet(np.ones(20), size=50)
    >>> phi = ExpChi2(4000, random_state=0).fit(X)
    >>> bool(abs(phi.transform(X) @ phi.transform(X).T - phi.kernel_(X)).max() < 0.03)
    True
    """

    name = "exp-chi2"
    kernels = ("exp-chi2",)
    paper = "Li, Lebanon and Sminchisescu, arXiv 1206.4074"
    parameter_constraints = {
        "n_components": SIZE,
        "gamma": (Positive(), Option("auto", "median")),
        "n_terms": (Integer(),),
        "poles": Chi2Series.parameter_constraints["poles"],
        "design": RandomFourier.parameter_constraints["design"],
        "random_state": (Seed(),),
        "n_jobs": (Threads(),),
    }
    domain = "nonnegative"
    gamma_: float
    size_follows_rows = True
    n_components_: int

    def __init__(
        self,
        n_components: int | str = "auto",
        *,
        gamma: float | str = "auto",
        n_terms: int = 5,
        poles: str | Array = "fit",
        design: str = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.gamma = gamma
        self.n_terms = n_terms
        self.poles = poles
        self.design = design
        self.random_state = random_state
        self.n_jobs = n_jobs

    @property
    def statistics_name(self) -> str:  # type: ignore[override]
        """The histogram that poles are fitted to, and a sample of rows for gamma."""
        return "histogram of values" + (", bandwidth" if isinstance(self.gamma, str) else "")

    @property
    def kernel_(self) -> Kernel:
        """The exact kernel."""
        check_is_fitted(self)
        return ExpChi2Kernel(self.gamma_)

    @property
    def limit_(self) -> Kernel:
        """The Gaussian kernel of the series' features."""
        check_is_fitted(self)
        return kernel_on_first_stage(Gaussian(self.gamma_), self.tile_transform_, self.domain)

    @property
    def rate(self) -> Rate:
        """The rate of RandomFourier."""
        return self._fourier(self.gamma).rate

    def check(self, d: int) -> None:
        self._series().check(d)

    def required_statistics(self, d: int) -> Statistic | None:
        parts = (
            self._series().required_statistics(d),
            self._gamma().required_statistics(d, self.seed_),
        )
        required = [part for part in parts if part is not None]
        return CombinedStatistics(*required) if required else None

    def build(self, rng: Rng, d: int, statistics: Any) -> Chain:
        parts = [] if statistics is None else list(statistics.parts)
        sample = parts.pop() if isinstance(self.gamma, str) else None
        self.gamma_ = self._gamma().value(d, sample)
        series = self._series().build(rng, d, parts[0] if parts else None)
        fourier = self._fourier(self.gamma_)
        fourier.n_components_ = self.n_components_
        return Chain((*series.stages, *fourier.build(rng, d * self.n_terms, None).stages))

    @classmethod
    def cases(cls) -> list[Map]:
        return [
            cls(64, gamma=0.3, design="iid", random_state=0),
            cls(64, gamma=0.3, n_terms=3, poles="minimax", random_state=0),
            cls(64, design="iid", random_state=0),
        ]

    def _series(self) -> Chi2Series:
        return Chi2Series(self.n_terms, poles=self.poles)

    def _gamma(self) -> Gamma:
        return Gamma(type(self).__name__, "exp-chi2", self.gamma)

    def _fourier(self, gamma: float | str) -> RandomFourier:
        return RandomFourier(self.n_components, gamma=gamma, design=self.design)
