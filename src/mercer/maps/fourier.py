"""Random Fourier features: kernels of x - z as averages of cos w.(x - z) (Rahimi and Recht, NIPS
2007).

kernel        k(x, z)                      law of a frequency w
gaussian      exp(-gamma |x - z|^2)        normal, variance 2 gamma
laplacian     exp(-gamma |x - z|_1)        independent Cauchy, scale gamma
cauchy        1 / (1 + gamma |x - z|^2)    normal, variance 2 gamma E, E ~ Exp(1), one for each w
matern        Matern(nu, gamma)            multivariate t, 2 nu degrees of freedom, scale sqrt(2
gamma) cosine-rbf    exp(-gamma (1 - rho))        normal, variance gamma, on rows of unit norm
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from mercer.kernels import Cauchy, CosineRBF, Gaussian, Kernel, Laplacian, Matern
from mercer.maps._bandwidth import GAMMA, Gamma
from mercer.maps._transform import Chain
from mercer.maps.base import INDEPENDENT, STRUCTURED, Array, Map, Rate
from mercer.maps.stages import linear
from mercer.maps.stages.fourier import frequencies, waves
from mercer.maps.stages.links import RowNorm
from mercer.rng import Rng, chi_quantile
from mercer.stats.basic import Statistic
from mercer.theory import components_for_pair
from mercer.validation.parameters import Flag, Integer, NumberOption, Option, Seed, Threads


@dataclass(frozen=True)
class _Law:
    """The law of the frequencies of a kernel: w = scale(gamma) stretch(u, nu) g, with g standard
    normal where `normal`, else Cauchy.
    """

    normal: bool = True
    scale: Callable[[float], float] = lambda gamma: np.sqrt(2 * gamma)
    stretch: Callable[[Array, float], Array] | None = (
        None  # one factor for each frequency, from a uniform number
    )

    def quantile(self, u: Array) -> Array:
        return ndtri(u) if self.normal else np.tan(np.pi * (u - 0.5))


_LAWS = {
    "gaussian": _Law(),
    "laplacian": _Law(normal=False, scale=lambda gamma: gamma),
    "cauchy": _Law(stretch=lambda u, nu: np.sqrt(-np.log(u))),
    "matern": _Law(stretch=lambda u, nu: np.sqrt(2 * nu) / chi_quantile(u, 2 * nu)),
    "cosine-rbf": _Law(scale=np.sqrt),
}


class RandomFourier(Map):
    """phi(x) = sqrt(2/D) (cos w_1.x, sin w_1.x, cos w_2.x, ...), with E <phi(x), phi(z)> = k(x - z)
    for w drawn from k's spectrum.

    Parameters
    ----------
    n_components : int, default=1024
        D, the number of columns of the output. When it is odd the last column of the paired form is
        one offset feature.
    kernel : {"gaussian", "laplacian", "cauchy", "matern", "cosine-rbf"}, default="gaussian"
        exp(-gamma |x - z|^2), exp(-gamma |x - z|_1), 1 / (1 + gamma |x - z|^2), Matern(nu, gamma),
        exp(-gamma (1 - rho)).
    gamma : float or {"auto", "scale", "median"}, default="auto"
        "scale" is scikit-learn's 1 / (d var(X)), for squared distances; 1.0 when the variance is 0.
        "median" is one over the median of the distance that gamma multiplies, over pairs of sampled
        rows. "auto" is "scale" for gaussian, cauchy and matern, "median" for laplacian, 1.0 for
        cosine-rbf.
    nu : {0.5, 1.5, 2.5}, default=1.5
        Smoothness of the Matern kernel.
    form : {"paired", "offset"}, default="paired"
        "paired" has a cosine and a sine for each frequency; rows have norm 1 and the variance is
        the lowest. "offset" has cos(w.x + b) with an independent phase b for each frequency, as
        scikit-learn's RBFSampler.
    design : {"auto", "iid", "orthogonal", "hadamard", "sobol"}, default="auto"
        How the frequencies are drawn: independently; orthogonal in blocks of d with chi lengths; by
        three Hadamard products, in O(D log d) a row; from a scrambled Sobol sequence. "auto" goes
        by kernel and d alone: iid for the laplacian; sobol up to 32 columns, orthogonal below 64,
        hadamard up to 16384, iid above.
    normalize : bool, default=False
        Divide rows by their norm. With form="offset" these are the normalized random Fourier
        features of Li (KDD 2017).
    random_state : int, Generator, RandomState or None, default=None
        ``seed_`` is the seed that was used.
    n_jobs : int or None, default=None
        Threads; None and -1 use all that the process may use, 1 is one, BLAS included.

    Attributes
    ----------
    gamma_ : float
        The gamma in use.
    design_ : str
        The design in use.
    kernel_, limit_ : Kernel
        The exact kernel, which is also what is reached as n_components grows.
    seed_ : int
        Pass it as random_state to draw the same map again.

    Notes
    -----
    At equal D the variance of <phi(x), phi(z)> is (1 + k2/2 - k^2)/D for "offset" and (1 + k2 - 2
    k^2)/D for "paired", with k = k(x - z), k2 = k(2(x - z)): see ``mercer.theory``. In float32 a
    projection is right to eps |x| |w|; rows for which that is no small part of a turn are projected
    in float64, and rows beyond that are refused.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RandomFourier
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> phi = RandomFourier(2000, gamma=0.1, random_state=0).fit(X)
    >>> error = phi.transform(X) @ phi.transform(X).T - phi.kernel_(X)
    >>> bool(abs(error).max() < 0.03)
    True
    """

    name = "fourier"
    kernels = tuple(_LAWS)
    paper = "Rahimi and Recht, NIPS 2007; Li, KDD 2017 (normalized)"
    parameter_constraints = {
        "n_components": (Integer(),),
        "kernel": (Option(*_LAWS),),
        "gamma": GAMMA,
        "nu": (NumberOption(0.5, 1.5, 2.5),),
        "form": (Option("paired", "offset"),),
        "design": (Option("auto", "iid", "orthogonal", "hadamard", "sobol"),),
        "normalize": (Flag(),),
        "random_state": (Seed(),),
        "n_jobs": (Threads(),),
    }
    gamma_: float
    design_: str

    def __init__(
        self,
        n_components: int = 1024,
        *,
        kernel: str = "gaussian",
        gamma: float | str = "auto",
        nu: float = 1.5,
        form: str = "paired",
        design: str = "auto",
        normalize: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.nu = nu
        self.form = form
        self.design = design
        self.normalize = normalize
        self.random_state = random_state
        self.n_jobs = n_jobs

    @property
    def kernel_(self) -> Kernel:
        """The exact kernel."""
        check_is_fitted(self)
        if self.kernel == "matern":
            return Matern(self.nu, self.gamma_)
        kernels = {
            "gaussian": Gaussian,
            "laplacian": Laplacian,
            "cauchy": Cauchy,
            "cosine-rbf": CosineRBF,
        }
        return kernels[self.kernel](self.gamma_)

    @property
    def rate(self) -> Rate:
        """-1/2 for independent draws; at least nearly that for the others."""
        plain = self.design == "iid" or (self.design == "auto" and not _LAWS[self.kernel].normal)
        return INDEPENDENT if plain else STRUCTURED

    def size_for(self, error: float, delta: float) -> int | None:
        """Hoeffding's, for independent frequencies."""
        return (
            components_for_pair(error, delta, self.form)
            if self.rate.exact and not self.normalize
            else None
        )

    def check(self, d: int) -> None:
        self._gamma().check()
        if self.design in ("orthogonal", "hadamard") and not _LAWS[self.kernel].normal:
            raise ValueError(
                f"{type(self).__name__}: design={self.design!r} needs frequencies whose density is "
                f"invariant under rotation; that of kernel={self.kernel!r} is not. "
                "Use design='iid' or 'sobol'."
            )

    def required_statistics(self, d: int) -> Statistic | None:
        return self._gamma().required_statistics(self.seed_)

    def build(self, rng: Rng, d: int, statistics: Any) -> Chain:
        law = _LAWS[self.kernel]
        self.gamma_ = self._gamma().value(d, statistics)
        self.design_ = self._design(d) if self.design == "auto" else self.design
        count = frequencies(self.n_components, self.form)
        projection = self._projection(rng, count, d, law.scale(self.gamma_) / (2 * np.pi))
        if not np.isfinite(projection.reach()):
            raise ValueError(
                f"{type(self).__name__}: gamma={self.gamma_:g} gives frequencies beyond float64. "
                "Use a smaller one."
            )
        before = (RowNorm(),) if self.kernel == "cosine-rbf" else ()
        after = (RowNorm(),) if self.normalize else ()
        return Chain((*before, waves(rng, projection, self.n_components, self.form), *after))

    @classmethod
    def cases(cls) -> list[Map]:
        return [
            cls(64, gamma=0.3, random_state=0),
            cls(64, gamma=0.3, design="iid", random_state=0),
            cls(65, gamma=0.3, design="iid", random_state=0),
            cls(64, gamma=0.3, design="orthogonal", random_state=0),
            cls(64, gamma=0.3, design="hadamard", random_state=0),
            cls(64, gamma=0.3, form="offset", design="iid", random_state=0),
            cls(64, gamma=0.3, form="offset", design="iid", normalize=True, random_state=0),
            cls(64, gamma="scale", design="iid", random_state=0),
            cls(64, kernel="laplacian", random_state=0),
            cls(64, kernel="laplacian", gamma=0.2, design="sobol", random_state=0),
            cls(64, kernel="cauchy", gamma=0.3, design="iid", random_state=0),
            cls(64, kernel="cauchy", gamma=0.3, design="hadamard", form="offset", random_state=0),
            cls(64, kernel="matern", gamma=0.3, nu=0.5, design="iid", random_state=0),
            cls(64, kernel="matern", gamma="median", nu=2.5, random_state=0),
            cls(64, kernel="cosine-rbf", gamma=2.0, design="iid", random_state=0),
        ]

    def _projection(
        self, rng: Rng, count: int, d: int, scale: float
    ) -> linear.Matrix | linear.Hadamard:
        """W in turns: a whole circle is 1."""
        law = _LAWS[self.kernel]
        if self.design_ == "sobol":
            points = linear.sobol(rng, count, d + (law.stretch is not None))
            stretch = scale if law.stretch is None else scale * law.stretch(points[:, 0], self.nu)
            return linear.Matrix(np.ascontiguousarray(law.quantile(points[:, -d:]).T) * stretch)
        stretch = (
            scale
            if law.stretch is None
            else scale * law.stretch(rng.uniform("stretch", count), self.nu)
        )
        if self.design_ == "hadamard":
            blocks = linear.hadamard(rng, count, d)
            return linear.Hadamard(blocks.signs, blocks.lengths * stretch)
        if self.design_ == "orthogonal":
            return linear.Matrix(linear.orthogonal(rng, count, d) * stretch)
        return linear.Matrix(linear.independent(rng, count, d, law.quantile) * stretch)

    def _design(self, d: int) -> str:
        """The design that "auto" stands for: by kernel and d alone, so that growing D extends the
        map and sparse = dense.
        """
        if not _LAWS[self.kernel].normal or d > 16384:
            return "iid"
        return "sobol" if d <= 32 else "orthogonal" if d < 64 else "hadamard"

    def _gamma(self) -> Gamma:
        return Gamma(type(self).__name__, self.kernel, self.gamma)
