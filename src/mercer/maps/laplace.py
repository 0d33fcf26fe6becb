"""Random Laplace features: kernels of x + z on x, z >= 0 (Yang, Sindhwani, Fan, Avron and Mahoney,
CVPR 2014).

kernel         k(x, z)                           law of each w_i
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

from mercer.kernels import ExponentialSemigroup, Kernel, ReciprocalSemigroup
from mercer.maps._transform import Chain, Featured
from mercer.maps.base import INDEPENDENT, STRUCTURED, Array, Map, Rate
from mercer.maps.stages import linear
from mercer.maps.stages.elementwise import Shift
from mercer.maps.stages.laplace import Decays, Exponent
from mercer.rng import Rng
from mercer.stats.basic import RowMean, Statistic
from mercer.validation.parameters import (
    Flag,
    Integer,
    Nonnegative,
    Option,
    Positive,
    Seed,
    Threads,
)

_LARGEST = 1e30  # a weight at which exp(-w x) is 0 for every x above 1e-28, and that float32 holds


@dataclass(frozen=True)
class _Law:
    """The law of the weights of a semigroup kernel, and what beta="auto" averages."""

    kernel: Callable[[float], Kernel]
    quantile: Callable[[Array, float], Array]
    term: Callable[[Array], Array]
    auto: Callable[[float], float]


def _levy(u: Array, beta: float) -> Array:
    return beta**2 / (4 * erfcinv(u) ** 2)


def _exponential(u: Array, beta: float) -> Array:
    return -np.log(u) / beta


def _root_term(x: Array) -> Array:
    return np.sqrt(2 * x)


def _term(x: Array) -> Array:
    return 2 * x


_LAWS = {
    "exponential": _Law(ExponentialSemigroup, _levy, _root_term, lambda mean: 1 / mean),
    "reciprocal": _Law(ReciprocalSemigroup, _exponential, _term, lambda mean: mean),
}


class RandomLaplace(Map):
    """phi(x) = exp(-W x)/sqrt(D), scaled so that <phi(x), phi(x)> = limit_(x, x) exactly when
    normalize is True; x >= 0.

    Parameters
    ----------
    n_components : int, default=1024
        D, the number of columns of the output.
    kernel : {"exponential", "reciprocal"}, default="exponential"
        exp(-beta sum sqrt(x + z)) or prod beta/(x + z + beta).
    beta : float or "auto", default="auto"
        The kernel's parameter (lambda of the reciprocal one in the paper). "auto" makes k(x, x)
        about 1/e: one over the mean of sum sqrt(2x) for exponential, the mean of sum 2x for
        reciprocal.
    shift : float, default=0.0
        The paper's delta, added to every coordinate: limit_ is then k(x + delta, z + delta).
        ``theory.laplace_shift`` gives the one for a wanted error. CSR rows stay sparse.
    normalize : bool, default=True
        Scale each row to the exact diagonal: 2 to 25 times less error on histograms. False is the
        paper's map.
    design : {"iid", "sobol", "lhs"}, default="iid"
        Independent weights, a scrambled Sobol sequence, or a Latin hypercube (which draws anew when
        n_components changes).
    random_state : int, Generator, RandomState or None, default=None
    n_jobs : int or None, default=None
        Threads; None and -1 use all that the process may use.

    Attributes
    ----------
    beta_ : float
        The beta in use.

    Notes
    -----
    The law of Levy has no mean: weights above 1e30 are taken as 1e30, where exp(-w x) is 0 for
    every x above 1e-28 all the same. The relative variance of the plain map is exp((2 - sqrt 2)
    beta sum sqrt(x + z)) - 1: it is of no use once beta sum sqrt(x + z) is above 10, whatever its
    size.

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
    kernels = tuple(_LAWS)
    paper = "Yang, Sindhwani, Fan, Avron and Mahoney, CVPR 2014"
    parameter_constraints = {
        "n_components": (Integer(),),
        "kernel": (Option(*_LAWS),),
        "beta": (Positive(), Option("auto")),
        "shift": (Nonnegative(),),
        "normalize": (Flag(),),
        "design": (Option("iid", "sobol", "lhs"),),
        "random_state": (Seed(),),
        "n_jobs": (Threads(),),
    }
    domain = "nonnegative"
    beta_: float

    def __init__(
        self,
        n_components: int = 1024,
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
        """A Latin hypercube is a new one at every size."""
        return self.design != "lhs"

    @property
    def rate(self) -> Rate:
        """-1/2 for independent draws; at least nearly that for the others."""
        return INDEPENDENT if self.design == "iid" else STRUCTURED

    @property
    def kernel_(self) -> Kernel:
        """The exact kernel."""
        check_is_fitted(self)
        return _LAWS[self.kernel].kernel(self.beta_)

    @property
    def limit_(self) -> Kernel:
        """k(x + shift, z + shift)."""
        return (
            self.kernel_
            if self.shift == 0
            else Featured(self.kernel_, (Chain((Shift(self.shift),)),), self.domain)
        )

    def required_statistics(self, d: int) -> Statistic | None:
        return RowMean(_LAWS[self.kernel].term) if isinstance(self.beta, str) else None

    def build(self, rng: Rng, d: int, statistics: Any) -> Chain:
        law = _LAWS[self.kernel]
        self.beta_ = (
            float(self.beta)
            if statistics is None
            else law.auto(statistics.mean)
            if statistics.mean > 0
            else 1.0
        )
        panel = np.minimum(self._weights(rng, d, lambda u: law.quantile(u, self.beta_)), _LARGEST)
        exponent = Exponent(self.kernel, self.beta_) if self.normalize else None
        return Chain((Decays.of(panel, float(self.shift), exponent),))

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
            return linear.independent(rng, self.n_components, d, quantile)
        points = linear.sobol if self.design == "sobol" else linear.latin_hypercube
        return np.ascontiguousarray(quantile(points(rng, self.n_components, d)).T)
