"""Random Fourier features: k(x - z) = E cos w.(x - z) (Rahimi and Recht, NIPS 2007).

kernel        k(x, z)                      sampling density of a frequency w
gaussian      exp(-gamma |x - z|^2)        normal, variance 2 gamma
laplacian     exp(-gamma |x - z|_1)        independent Cauchy, scale gamma
cauchy        1 / (1 + gamma |x - z|^2)    normal, variance 2 gamma E, one E ~ Exp(1) for each w
matern        Matern(nu, gamma)            t with 2 nu degrees of freedom, scale sqrt(2 gamma)
cosine-rbf    exp(-gamma (1 - rho))        normal, variance gamma, on rows of unit norm
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from mercer._typing import Array
from mercer.errors import ParameterError, Setting
from mercer.kernels import Cauchy, CosineRBF, Gaussian, Kernel, Laplacian, Matern
from mercer.kernels.registry import KernelOption
from mercer.maps._bandwidth import GAMMA, OF_DIFFERENCES, Gamma
from mercer.maps._size import SIZE
from mercer.maps._transform import Chain
from mercer.maps.base import INDEPENDENT, STRUCTURED, Map, Rate
from mercer.maps.stages import linear
from mercer.maps.stages.elementwise import RowNorm
from mercer.maps.stages.fourier import build_fourier_features, count_frequencies
from mercer.rng import Rng, chi_quantile
from mercer.stats.base import Statistic
from mercer.theory import components_for_pair
from mercer.validation.parameters import Flag, NumberOption, Option, Seed, Threads


@dataclass(frozen=True)
class _Density:
    """Sampling density of w = scale stretch(u, nu) g, g standard normal or Cauchy.

    The scale is sqrt(variance gamma), and gamma for Cauchy's.
    """

    kernel: Callable[..., Kernel]
    normal: bool = True
    variance: float = 2.0
    # A factor for each frequency, from a uniform number u.
    stretch: Callable[[Array, float], Array] | None = None

    def quantile(self, u: Array) -> Array:
        return ndtri(u) if self.normal else np.tan(np.pi * (u - 0.5))


_DENSITIES = {
    "gaussian": _Density(Gaussian),
    "laplacian": _Density(Laplacian, normal=False),
    "cauchy": _Density(Cauchy, stretch=lambda u, nu: np.sqrt(-np.log(u))),
    "matern": _Density(Matern, stretch=lambda u, nu: np.sqrt(2 * nu) / chi_quantile(u, 2 * nu)),
    "cosine-rbf": _Density(CosineRBF, variance=1.0),
}


class RandomFourier(Map):
    """phi(x) = sqrt(2/D) (cos w_1.x, sin w_1.x, cos w_2.x, ...), E <phi(x), phi(z)> = k(x, z).

    The frequencies w are sampled from the spectral density of a shift-invariant kernel.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        D, the number of output columns. "auto" is a power of two by the number of rows: 1024 from
        129 to 262,144 of them, about 4 n below, about 2 sqrt(n) up to 8192 above. Where it is odd,
        the last column of the paired form is an offset feature.
    kernel : {"gaussian", "laplacian", "cauchy", "matern", "cosine-rbf"}, default="gaussian"
        exp(-gamma |x - z|^2), exp(-gamma |x - z|_1), 1 / (1 + gamma |x - z|^2), Matern(nu, gamma),
        exp(-gamma (1 - rho)) with rho = cos(x, z). "rbf" is "gaussian".
    gamma : float or {"auto", "scale", "median"}, default="auto"
        Bandwidth parameter of the kernel. "auto" and "median" are 1 over twice the median of the
        distance that gamma multiplies, over all pairs of at most 512 sampled rows (fewer of more
        than 512 columns, at least 64): it depends neither on the origin nor on constant columns,
        and hardly on single outliers. Where it is 0, since rows are equal, it is that of the pairs
        that differ; 1.0 where none does. "scale" is scikit-learn's 1 / (d var(X)), for squared
        distances; 1.0 when the variance is 0.
    nu : {0.5, 1.5, 2.5}, default=1.5
        Smoothness of the Matern kernel.
    form : {"paired", "offset"}, default="paired"
        "paired" has a cosine and a sine for each frequency: rows have norm 1, and the variance is
        the lowest. "offset" has cos(w.x + b) with an independent phase b for each frequency, as
        scikit-learn's RBFSampler.
    design : {"auto", "iid", "orthogonal", "hadamard", "sobol"}, default="auto"
        Sampling of the frequencies: independent; orthogonal in blocks of d with chi lengths; by
        three Hadamard products, in O(D log d) a row; from a scrambled Sobol sequence. "auto"
        depends on kernel and d alone: iid for the laplacian; sobol up to 32 columns, orthogonal
        below 64, hadamard up to 16384, iid above.
    normalize : bool, default=False
        Divide rows by their norm. With form="offset" these are the normalized random Fourier
        features of Li (KDD 2017).
    random_state : int, Generator, RandomState or None, default=None
        Seed; ``seed_`` is the one in use.
    n_jobs : int or None, default=None
        Threads; None and -1 use all that the process may use, 1 is one, BLAS included.

    Attributes
    ----------
    n_components_ : int
        The D in use.
    gamma_ : float
        The gamma in use.
    design_ : str
        The design in use.
    kernel_, limit_ : Kernel
        The exact kernel, which is also the limit as n_components grows.
    seed_ : int
        Pass it as random_state to sample the same map again.

    Notes
    -----
    At equal D the variance of <phi(x), phi(z)> is (1 + k2 - 2 k^2)/D for "paired" and
    (1 + k2/2 - k^2)/D for "offset", with k = k(x - z), k2 = k(2(x - z)): see ``mercer.theory``.
    A float32 projection has an error of about eps |x| |w|; rows for which this is no small part of
    a turn are projected in float64, and rows beyond that raise an error.

    A. Rahimi and B. Recht, "Random features for large-scale kernel machines", NIPS 2007.
    P. Li, "Linearized GMM kernels and normalized random Fourier features", KDD 2017.

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
    kernels = tuple(_DENSITIES)
    paper = "Rahimi and Recht, NIPS 2007; Li, KDD 2017 (normalized)"
    statistics_name = "bandwidth statistics"
    parameter_constraints = {
        "n_components": SIZE,
        "kernel": (KernelOption(*_DENSITIES),),
        "gamma": GAMMA,
        "nu": (NumberOption(0.5, 1.5, 2.5),),
        "form": (Option("paired", "offset"),),
        "design": (Option("auto", "iid", "orthogonal", "hadamard", "sobol"),),
        "normalize": (Flag(),),
        "random_state": (Seed(),),
        "n_jobs": (Threads(),),
    }
    size_follows_rows = True
    n_components_: int
    gamma_: float
    design_: str

    def __init__(
        self,
        n_components: int | str = "auto",
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
        nu = {"nu": self.nu} if self._kernel_name == "matern" else {}
        return _DENSITIES[self._kernel_name].kernel(**nu, gamma=self.gamma_)

    @property
    def rate(self) -> Rate:
        """-1/2 for independent frequencies; at most slightly more for the other designs."""
        plain = self.design == "iid" or (
            self.design == "auto" and not _DENSITIES[self._kernel_name].normal
        )
        return INDEPENDENT if plain else STRUCTURED

    @property
    def depends_on_units(self) -> bool:
        """Whether gamma is computed from differences of rows, not of angles."""
        return isinstance(self.gamma, str) and self._kernel_name in OF_DIFFERENCES

    def size_for(self, error: float, delta: float) -> int | None:
        """Return the size by Hoeffding's inequality, for independent frequencies."""
        independent = self.rate.exact and not self.normalize
        return components_for_pair(error, delta, self.form) if independent else None

    def check(self, d: int) -> None:
        self._gamma().check()
        if self.design in ("orthogonal", "hadamard") and not _DENSITIES[self._kernel_name].normal:
            why = (
                " needs frequencies whose density is invariant under rotation; that of "
                f"kernel={self.kernel!r} is not. Use design='iid' or 'sobol'."
            )
            raise ParameterError(type(self).__name__, Setting("design", repr(self.design)), why)

    def required_statistics(self, d: int) -> Statistic | None:
        return self._gamma().required_statistics(d, self.seed_)

    def build(self, rng: Rng, d: int, statistics: Any) -> Chain:
        density = _DENSITIES[self._kernel_name]
        self.gamma_ = self._gamma().value(d, statistics)
        self.design_ = self.design
        if self.design == "auto":  # by kernel and d alone: a larger D extends the map
            rotates = density.normal and d <= 16384
            wide = "orthogonal" if d < 64 else "hadamard"
            self.design_ = "iid" if not rotates else "sobol" if d <= 32 else wide
        count = count_frequencies(self.n_components_, self.form)
        scale = np.sqrt(density.variance * self.gamma_) if density.normal else self.gamma_
        projection = self._projection(rng, count, d, scale / (2 * np.pi))
        if not np.isfinite(projection.max_norm()):
            why = " gives frequencies beyond float64. Use a smaller one."
            raise ParameterError(type(self).__name__, Setting("gamma", f"{self.gamma_:g}"), why)
        before = (RowNorm(),) if self._kernel_name == "cosine-rbf" else ()
        after = (RowNorm(),) if self.normalize else ()
        return Chain(
            (
                *before,
                build_fourier_features(rng, projection, self.n_components_, self.form),
                *after,
            )
        )

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
        """Return the projection W, in turns: a whole circle is 1."""
        density = _DENSITIES[self._kernel_name]
        stretch: Any = scale
        if self.design_ == "sobol":
            points = linear.sample_sobol(rng, count, d + (density.stretch is not None))
            if density.stretch is not None:
                stretch = scale * density.stretch(points[:, 0], self.nu)
            return linear.Matrix(np.ascontiguousarray(density.quantile(points[:, -d:]).T) * stretch)
        if density.stretch is not None:
            stretch = scale * density.stretch(rng.uniform("stretch", count), self.nu)
        if self.design_ == "hadamard":
            blocks = linear.sample_hadamard(rng, count, d)
            return linear.Hadamard(blocks.signs, blocks.lengths * stretch)
        if self.design_ == "orthogonal":
            return linear.Matrix(linear.sample_orthogonal(rng, count, d) * stretch)
        return linear.Matrix(linear.sample_independent(rng, count, d, density.quantile) * stretch)

    def _gamma(self) -> Gamma:
        return Gamma(type(self).__name__, self._kernel_name, self.gamma)
