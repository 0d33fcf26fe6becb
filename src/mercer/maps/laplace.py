"""Random Laplace features: k(x + z) = E exp(-w.(x + z)) for x, z >= 0 (Yang et al., CVPR 2014).

kernel         k(x, z)                           sampling density of each w_i
exponential    exp(-beta sum sqrt(x_i + z_i))    Levy, scale beta^2/2
reciprocal     prod beta/(x_i + z_i + beta)      exponential, rate beta
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import erfcinv
from sklearn.utils.validation import check_is_fitted

from mercer._typing import Array
from mercer.kernels import ExponentialSemigroup, Kernel, ReciprocalSemigroup
from mercer.maps._bandwidth import exponential_beta, reciprocal_beta, sample_rows
from mercer.maps._size import SIZE
from mercer.maps._transform import Chain, KernelOnFeatures
from mercer.maps.base import INDEPENDENT, STRUCTURED, Map, Rate
from mercer.maps.stages import linear
from mercer.maps.stages.elementwise import Shift
from mercer.maps.stages.laplace import Exponent, LaplaceFeatures
from mercer.rng import Rng
from mercer.stats.base import Statistic
from mercer.validation.parameters import (
    Flag,
    Nonnegative,
    Option,
    Positive,
    Seed,
    Threads,
)

_LARGEST = 1e30  # a weight at which exp(-w x) is 0 for every x above 1e-28, and that float32 holds


@dataclass(frozen=True)
class _Density:
    """Sampling density of the weights of a semigroup kernel, and beta="auto" from sampled rows."""

    kernel: Callable[[float], Kernel]
    quantile: Callable[[Array, float], Array]
    auto: Callable[[Any], float]


def _levy(u: Array, beta: float) -> Array:
    return beta**2 / (4 * erfcinv(u) ** 2)


def _exponential(u: Array, beta: float) -> Array:
    return -np.log(u) / beta


_DENSITIES = {
    "exponential": _Density(ExponentialSemigroup, _levy, exponential_beta),
    "reciprocal": _Density(ReciprocalSemigroup, _exponential, reciprocal_beta),
}


class RandomLaplace(Map):
    """phi(x) = exp(-W x)/sqrt(D), E <phi(x), phi(z)> = k(x, z), a kernel of x + z for x, z >= 0.

    With normalize=True rows are scaled so that <phi(x), phi(x)> = limit_(x, x) exactly.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        D, the number of output columns; "auto" as in RandomFourier.
    kernel : {"exponential", "reciprocal"}, default="exponential"
        exp(-beta sum sqrt(x + z)) or prod beta/(x + z + beta).
    beta : float or "auto", default="auto"
        The kernel's parameter (the paper's lambda for the reciprocal one). "auto" makes k(x, x)
        about 1/e: 1 over the median of sum sqrt(2x) over sampled rows for exponential, the median
        of sum 2x for reciprocal; of the sums above 0 where it is 0, and 1.0 where all are 0.
    shift : float, default=0.0
        The paper's delta, added to every coordinate: limit_ is then k(x + delta, z + delta).
        ``theory.laplace_shift`` has the shift for a given error. CSR rows stay sparse.
    normalize : bool, default=True
        Scale each row to the exact diagonal: 2 to 25 times less error on histograms. False is the
        paper's map.
    design : {"iid", "sobol", "lhs"}, default="iid"
        Independent weights, a scrambled Sobol sequence, or a Latin hypercube (which has other
        weights for every n_components).
    random_state : int, Generator, RandomState or None, default=None
        Seed; ``seed_`` is the one in use.
    n_jobs : int or None, default=None
        Threads; None and -1 use all that the process may use.

    Attributes
    ----------
    n_components_ : int
        The D in use.
    beta_ : float
        The beta in use.
    kernel_ : Kernel
        The exact kernel.
    limit_ : Kernel
        k(x + shift, z + shift), the limit as n_components grows.

    Notes
    -----
    The Levy density has no mean: weights above 1e30 are replaced by 1e30, where exp(-w x) is 0 for
    every x above 1e-28. The relative variance of the plain map is
    exp((2 - sqrt 2) beta sum sqrt(x + z)) - 1: no size is large enough once beta sum sqrt(x + z)
    is above 10.

    J. Yang, V. Sindhwani, Q. Fan, H. Avron and M. W. Mahoney, "Random Laplace feature maps for
    semigroup kernels on histograms", CVPR 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RandomLaplace
    >>> X = np.random.default_rng(0).dirichlet(np.ones(20), size=50)
    >>> phi = RandomLaplace(2000, random_state=0).fit(X)
    >>> bool(abs(phi.transform(X) @ phi.transform(X).T - phi.kernel_(X)).max() < 0.01)
    True
    """

    name = "laplace"
    kernels = tuple(_DENSITIES)
    paper = "Yang, Sindhwani, Fan, Avron and Mahoney, CVPR 2014"
    statistics_name = "bandwidth statistics"
    parameter_constraints = {
        "n_components": SIZE,
        "kernel": (Option(*_DENSITIES),),
        "beta": (Positive(), Option("auto")),
        "shift": (Nonnegative(),),
        "normalize": (Flag(),),
        "design": (Option("iid", "sobol", "lhs"),),
        "random_state": (Seed(),),
        "n_jobs": (Threads(),),
    }
    domain = "nonnegative"
    size_follows_rows = True
    n_components_: int
    beta_: float

    def __init__(
        self,
        n_components: int | str = "auto",
        *,
        kernel: str = "exponential",
        beta: float | str = "auto",
        shift: float = 0.0,
        normalize: bool = True,
        design: str = "iid",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.beta = beta
        self.shift = shift
        self.normalize = normalize
        self.design = design
        self.random_state = random_state
        self.n_jobs = n_jobs

    @property
    def nested(self) -> bool:  # type: ignore[override]
        """Whether a larger map extends a smaller one: not with a Latin hypercube."""
        return self.design != "lhs"

    @property
    def rate(self) -> Rate:
        """-1/2 for independent weights; at most slightly more for the other designs."""
        return INDEPENDENT if self.design == "iid" else STRUCTURED

    @property
    def kernel_(self) -> Kernel:
        """The exact kernel."""
        check_is_fitted(self)
        return _DENSITIES[self.kernel].kernel(self.beta_)

    @property
    def limit_(self) -> Kernel:
        """k(x + shift, z + shift)."""
        if self.shift == 0:
            return self.kernel_
        return KernelOnFeatures(self.kernel_, (Chain((Shift(self.shift),)),), self.domain)

    def required_statistics(self, d: int) -> Statistic | None:
        return sample_rows(d, self.seed_) if isinstance(self.beta, str) else None

    def build(self, rng: Rng, d: int, statistics: Any) -> Chain:
        density = _DENSITIES[self.kernel]
        auto = isinstance(self.beta, str)
        self.beta_ = statistics.estimate(density.auto) if auto else float(self.beta)
        weights = self._weights(rng, d, lambda u: density.quantile(u, self.beta_))
        panel = np.minimum(weights, _LARGEST)
        exponent = Exponent(self.kernel, self.beta_) if self.normalize else None
        return Chain((LaplaceFeatures.from_weights(panel, float(self.shift), exponent),))

    @classmethod
    def cases(cls) -> list[Map]:
        return [
            cls(64, beta=0.3, random_state=0),
            cls(64, beta=0.3, normalize=False, random_state=0),
            cls(64, beta=0.3, shift=0.1, random_state=0),
            cls(64, kernel="reciprocal", beta=2.0, normalize=False, random_state=0),
            cls(64, kernel="reciprocal", random_state=0),
            cls(64, random_state=0),
            cls(64, beta=0.3, design="sobol", random_state=0),
            cls(64, beta=0.3, design="lhs", normalize=False, random_state=0),
        ]

    def _weights(self, rng: Rng, d: int, quantile: Callable[[Array], Array]) -> Array:
        if self.design == "iid":
            return linear.sample_independent(rng, self.n_components_, d, quantile)
        points = linear.sample_sobol if self.design == "sobol" else linear.sample_latin_hypercube
        return np.ascontiguousarray(quantile(points(rng, self.n_components_, d)).T)
