"""Nystroem features: k(x, L) for landmarks L among the rows (Williams and Seeger, NIPS 2000)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from scipy.spatial.distance import cdist
from sklearn.utils.validation import check_is_fitted

from mercer import ops
from mercer._repr import short_repr
from mercer._typing import Array, is_csr
from mercer.errors import ParameterError, RowError, Setting
from mercer.kernels import CallableKernel, Kernel, Laplacian
from mercer.kernels.base import ratio
from mercer.kernels.euclidean import Radial
from mercer.kernels.gram import GramByExpansion, gram
from mercer.kernels.registry import KernelOption, kernel_class, kernel_classes
from mercer.maps._bandwidth import (
    BANDWIDTH_RULES,
    GAMMA,
    OF_DIFFERENCES,
    OTHER_RULES,
    Gamma,
    sample_rows,
)
from mercer.maps._landmarks import (
    inverse_square_root,
    pool_size,
    sample_by_leverage,
    sample_by_pivoted_cholesky,
    sample_kmeans_plus_plus,
)
from mercer.maps._transform import TileTransform
from mercer.maps.base import Decay, Map
from mercer.maps.block import Block, Dense
from mercer.maps.stages.base import require
from mercer.parallel.tile_size import Cost
from mercer.rng import Rng
from mercer.stats.base import CombinedStatistics, Statistic
from mercer.stats.basic import Reservoir
from mercer.validation.parameters import (
    ArrayLike,
    Function,
    InstanceOf,
    Integer,
    Missing,
    Option,
    Seed,
    Threads,
)
from mercer.validation.rows import require_finite, require_finite_features, validate_rows

# Each returns the chosen rows of a pool, and the trace error where it is known.
_SAMPLERS: dict[str, Callable[[Rng, Kernel, Any, int], tuple[Array, float | None]]] = {
    "rpcholesky": sample_by_pivoted_cholesky,
    "uniform": lambda rng, kernel, pool, count: (np.arange(count), None),
    "kmeans++": lambda *given: (sample_kmeans_plus_plus(*given), None),
    "leverage": lambda *given: (sample_by_leverage(*given), None),
}
# Largest factor by which K^(-1/2) may magnify the rounding of float32: 64 eps is 8e-6.
_MOST_MAGNIFIED = 64.0


class Nystroem(Map):
    """phi(x) = K_LL^(-1/2) k(L, x), so that <phi(x), phi(z)> = k(x, L) K_LL^+ k(L, z), landmarks L.

    It is exact on the landmarks, and |phi(x)|^2 <= k(x, x) elsewhere. The inverse root is that of
    the eigenvectors of K_LL with eigenvalues above 1e-12 of the largest: landmarks may be repeated.

    Parameters
    ----------
    n_components : int, default=256
        Number of landmarks and of output columns. With fewer rows than this all of them are
        landmarks, with a warning.
    kernel : str, Kernel or callable, default="gaussian"
        A kernel of ``mercer.kernels`` by name ("gaussian", "exp-chi2", "jensen-shannon", "min-max",
        ...; "rbf" is "gaussian", "additive_chi2" is "chi2"), any kernel object, or a function
        k(X, Z, **kernel_params) of two float64 arrays of rows that returns their Gram matrix.
        scikit-learn's "chi2" is "exp-chi2" here; "chi2" is the additive kernel sum 2xz/(x + z).
    gamma : float or {"auto", "scale", "median"}, default="auto"
        Bandwidth parameter of kernels by name that have one, as in RandomFourier. "auto" is
        "median": for exp-chi2, 1 over twice the median of sum (x - z)^2/(x + z) over pairs of
        sampled rows.
    kernel_params : dict or None, default=None
        Other parameters of a kernel by name ({"nu": 2.5}), or keywords of a function. A skew or a
        beta that is not given is estimated, as in SkewedFourier and RandomLaplace.
    landmarks : {"rpcholesky", "uniform", "kmeans++", "leverage"} or array-like, \
default="rpcholesky"
        "uniform" is a sample without replacement. The others choose from a uniform sample of ten
        rows for each landmark, and of 2,048 at least: "rpcholesky" by k(x, x) - |phi(x)|^2 for the
        landmarks so far, "kmeans++" by squared distances in the kernel's feature space, "leverage"
        by approximate ridge leverages. For 1,832 landmarks and more there are fewer rows for each,
        two at least. An array or
        sparse matrix of shape (n_landmarks, n_features) has the landmarks themselves; n_components
        is then not used.
    random_state : int, Generator, RandomState or None, default=None
        Seed; ``seed_`` is the one in use.
    n_jobs : int or None, default=None
        Threads; None and -1 use all that the process may use.

    Attributes
    ----------
    landmarks_ : array or CSR matrix of shape (n_components_, n_features)
        L.
    n_components_ : int
        The number of landmarks.
    trace_error_ : float or None
        sum (k(x, x) - |phi(x)|^2)/sum k(x, x) over the rows from which "rpcholesky" chose; None for
        other landmarks. It is larger for other rows, on which ``certify`` measures it.
    gamma_ : float or None
        The gamma in use, for kernels by name that have one.
    kernel_params_ : dict or None
        kernel_params, with the skew or the beta that was estimated.
    kernel_, limit_ : Kernel
        The exact kernel.

    Notes
    -----
    The rows are sampled in one pass, whatever their number. <phi(x), phi(z)> differs from k(x, z)
    by at most the root of (k(x, x) - |phi(x)|^2)(k(z, z) - |phi(z)|^2). K_LL^(-1/2) magnifies the
    rounding of k(L, x); where it does so more than 64 times, float32 rows are mapped in float64 and
    the features rounded.

    C. K. I. Williams and M. Seeger, "Using the Nystroem method to speed up kernel machines",
    NIPS 2000. Y. Chen, E. N. Epperly, J. A. Tropp and R. J. Webber, "Randomly pivoted Cholesky:
    practical approximation of a kernel matrix with few entry evaluations", 2022; E. N. Epperly,
    J. A. Tropp and R. J. Webber, "Embrace rejection: kernel matrix approximation by accelerated
    randomly pivoted Cholesky", 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Nystroem
    >>> X = np.random.default_rng(0).dirichlet(np.ones(20), size=300)
    >>> phi = Nystroem(100, kernel="jensen-shannon", random_state=0).fit(X)
    >>> bool(abs(phi.transform(X) @ phi.transform(X).T - phi.kernel_(X)).max() < 2e-3)
    True
    """

    name = "nystroem"
    kernels = tuple(kernel_classes())
    paper = "Williams and Seeger, NIPS 2000; a comparator of arXiv 1206.4074"
    statistics_name = "landmarks"
    parameter_constraints = {
        "n_components": (Integer(),),
        "kernel": (
            KernelOption(*kernel_classes()),
            InstanceOf(Kernel, "a kernel such as mercer.kernels.Chi2()"),
            Function("a function k(X, Z)"),
        ),
        "gamma": GAMMA,
        "kernel_params": (Missing(), InstanceOf(Mapping, "a dict")),
        "landmarks": (Option(*_SAMPLERS), ArrayLike("rows with the columns of the data")),
        "random_state": (Seed(),),
        "n_jobs": (Threads(),),
    }
    domain_advice = "For signed data use a kernel of all numbers, such as 'gaussian'."
    nested = False
    is_projection = True
    gamma_: float | None
    kernel_params_: dict[str, Any] | None
    trace_error_: float | None
    rate = Decay((10, 20, 40), 0.75)  # it depends on the data; exact where all rows are landmarks

    def __init__(
        self,
        n_components: int = 256,
        *,
        kernel: str | Kernel | Callable[..., Any] = "gaussian",
        gamma: float | str = "auto",
        kernel_params: Mapping[str, Any] | None = None,
        landmarks: str | Any = "rpcholesky",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.kernel_params = kernel_params
        self.landmarks = landmarks
        self.random_state = random_state
        self.n_jobs = n_jobs

    @property
    def domain(self) -> str:  # type: ignore[override]
        """The domain of the kernel; nonnegative where a skew is estimated."""
        if self._estimated() is not None:
            return "nonnegative"
        kernel = self._kernel_or_none()
        return "real" if kernel is None else kernel.domain

    @property
    def random(self) -> bool:  # type: ignore[override]
        """Whether landmarks are sampled, not given."""
        return isinstance(self.landmarks, str)

    @property
    def kernel_(self) -> Kernel:
        """The exact kernel."""
        check_is_fitted(self)
        return self._kernel(self.gamma_, self.kernel_params_)

    @property
    def landmarks_(self) -> Any:
        check_is_fitted(self)
        assert isinstance(self.tile_transform_, Landmarks)
        return self.tile_transform_.landmarks

    @property
    def n_components_(self) -> int:
        return int(self.landmarks_.shape[0])

    def check(self, d: int) -> None:
        estimator_name = type(self).__name__
        kernel = self._kernel(None)
        if self.random:
            return
        given = self._given_landmarks()
        if given.shape[1] != d or given.shape[0] == 0:
            needed = (
                f" must have at least one row of {d} columns, as the data have, got an array of "
            )
            raise ParameterError(
                estimator_name, Setting("landmarks"), f"{needed}shape {given.shape}."
            )
        require_finite(f"{estimator_name} (landmarks)", given)
        kernel.check(given)

    def required_statistics(self, d: int) -> Statistic | None:
        gamma = self._gamma()
        parts = [] if gamma is None else [gamma.required_statistics(d, self.seed_)]
        if self._estimated() is not None:
            parts.append(sample_rows(d, self.seed_))
        if self.random:
            count = self.n_components
            size = count if self.landmarks == "uniform" else pool_size(count, d)
            parts.append(Reservoir(size, self.seed_))
        required = [part for part in parts if part is not None]
        return CombinedStatistics(*required) if required else None

    def build(self, rng: Rng, d: int, statistics: Any) -> Landmarks:
        estimator_name = type(self).__name__
        parts = [] if statistics is None else list(statistics.parts)
        sample = parts.pop() if self.random else None
        gamma = self._gamma()
        self.gamma_ = None if gamma is None else gamma.value(d, parts[0] if parts else None)
        estimated = self._estimated()
        params = self.kernel_params
        if estimated is not None:
            name, estimate = estimated
            params = {**(params or {}), name: parts[0].estimate(estimate)}
        self.kernel_params_ = None if params is None else dict(params)
        kernel = self._kernel(self.gamma_, self.kernel_params_)
        self.trace_error_ = None
        try:
            rows = self._given_landmarks() if sample is None else self._sample(rng, kernel, sample)
            return Landmarks.of(estimator_name, kernel, rows.astype(np.float64))
        except RowError as error:
            raise ValueError(f"{estimator_name}: in the landmarks, {error}") from None

    @classmethod
    def cases(cls) -> list[Map]:
        return [
            cls(12, gamma=0.3, random_state=0),
            cls(12, kernel="exp-chi2", landmarks="uniform", random_state=0),
            cls(12, kernel="min-max", landmarks="kmeans++", random_state=0),
            cls(12, kernel="laplacian", landmarks="leverage", random_state=0),
            cls(12, kernel="matern", kernel_params={"nu": 0.5}, random_state=0),
            cls(12, kernel="skewed-chi2", random_state=0),
        ]

    def _sample(self, rng: Rng, kernel: Kernel, sample: Reservoir) -> Any:
        """Return the landmarks, chosen from a uniform sample of rows."""
        pool: Any = sample.rows
        count = min(self.n_components, pool.shape[0])
        if count < self.n_components:
            warnings.warn(
                f"{type(self).__name__}: n_components={self.n_components} is more than the "
                f"{count} rows seen; all of them are landmarks.",
                stacklevel=2,
            )
        sampler = _SAMPLERS[self.landmarks]
        chosen, self.trace_error_ = sampler(rng, kernel, pool.astype(np.float64), count)
        return pool[chosen]

    @property
    def depends_on_units(self) -> bool:
        """Whether gamma is computed from differences of rows; given landmarks have its units."""
        estimated = isinstance(self.landmarks, str) and isinstance(self.gamma, str)
        return estimated and isinstance(self.kernel, str) and self._kernel_name in OF_DIFFERENCES

    def _given_landmarks(self) -> Any:
        return validate_rows(f"{type(self).__name__}: landmarks", self.landmarks)

    def _gamma(self) -> Gamma | None:
        """Return the gamma of a kernel by name that has one, else None."""
        if not isinstance(self.kernel, str):
            return None
        name = self._kernel_name
        return Gamma(type(self).__name__, name, self.gamma) if name in BANDWIDTH_RULES else None

    def _estimated(self) -> tuple[str, Callable[[Any], float]] | None:
        """Return the parameter beside gamma that is not given, and its value from rows, or None."""
        if not isinstance(self.kernel, str):
            return None
        rule = OTHER_RULES.get(self._kernel_name)
        return None if rule is None or rule[0] in (self.kernel_params or {}) else rule

    def _kernel(self, gamma: float | None, given: Mapping[str, Any] | None = None) -> Kernel:
        """Return the kernel with a gamma and the given parameters, kernel_params by default.

        Raise where the parameters contradict each other.
        """
        estimator_name = type(self).__name__
        params = dict(given or self.kernel_params or {})
        if isinstance(self.kernel, str):
            cls = kernel_class(self.kernel)
            allowed = {field.name for field in fields(cls)} - {"gamma"}
            if set(params) - allowed:
                needed = (
                    f" of kernel={self.kernel!r} may have {sorted(allowed) or 'nothing'}, got "
                    f"{sorted(params)}. gamma is a parameter of its own."
                )
                raise ParameterError(estimator_name, Setting("kernel_params"), needed)
            bandwidth = self._gamma()
            if bandwidth is not None:
                bandwidth.check()
                return cls(**params, **({} if gamma is None else {"gamma": gamma}))
            self._refuse_gamma(f"kernel={self.kernel!r} has none")
            return cls(**params)
        if isinstance(self.kernel, Kernel):
            if params:
                needed = f" are for kernels by name and functions; {self.kernel!r} has its own."
                raise ParameterError(estimator_name, Setting("kernel_params"), needed)
            self._refuse_gamma(f"{self.kernel!r} has its own parameters")
            return self.kernel
        self._refuse_gamma("a function takes it from kernel_params")
        return CallableKernel(self.kernel, params)

    def _refuse_gamma(self, why: str) -> None:
        if self.gamma != "auto":
            needed = f" must be 'auto' here, since {why}, got {self.gamma!r}."
            raise ParameterError(type(self).__name__, Setting("gamma"), needed)

    def _kernel_or_none(self) -> Kernel | None:
        """Return the kernel with any gamma, or None for wrong parameters, which fit refuses."""
        try:
            return self._kernel(None)
        except (KeyError, TypeError, ValueError):
            return None

    def _validate_domain(self, rows: Any, names: Any = None) -> None:
        super()._validate_domain(rows, names)
        kernel = self._kernel_or_none()
        if kernel is not None:
            kernel.check(rows)


@dataclass(frozen=True, eq=False)
class Landmarks(TileTransform):
    """tile -> k(tile, landmarks) projection."""

    kernel: Kernel
    landmarks: Any  # an array or a CSR matrix
    projection: Array
    careful: bool  # map float32 rows in float64

    __repr__ = short_repr

    @classmethod
    def of(cls, estimator_name: str, kernel: Kernel, landmarks: Any) -> Landmarks:
        """Return the transform with these landmarks.

        K^(-1/2) magnifies rounding by the largest norm of its columns, times the scale of k.
        """
        K = gram(kernel, landmarks)
        projection = inverse_square_root(estimator_name, kernel, K)
        magnified = np.sqrt(np.max(np.sum(projection**2, axis=0)) * np.max(np.diagonal(K)))
        return cls(kernel, landmarks, projection, bool(magnified > _MOST_MAGNIFIED))

    def check(self, d: int) -> None:
        """Raise unless landmarks, projection and d columns go together."""
        rows = validate_rows("Landmarks", self.landmarks)
        good = (
            self.projection.ndim == 2
            and rows.shape == (len(self.projection), d)
            and self.projection.size > 0
        )
        good = good and self.landmarks.dtype == self.projection.dtype == np.float64
        good = good and (not is_csr(rows) or self.landmarks.has_canonical_format)
        require(good, self, f"landmarks of {d} columns, and a row of its projection for each")
        require_finite("Landmarks", rows)
        require_finite("Landmarks (projection)", self.projection)
        self.kernel.check(rows)

    def __call__(self, tile: Any, out: Array | None = None) -> Block:
        shape = (tile.shape[0], self.projection.shape[1])
        Z = ops.empty(shape, tile.dtype, tile) if out is None else out
        rows = tile.astype(self.projection.dtype, copy=False)
        K = None if self._expansion is None else self._expansion(rows)
        if K is None:
            K = gram(self.kernel, rows, self.landmarks)
        with np.errstate(over="ignore", invalid="ignore"):
            if K.dtype == Z.dtype:
                ops.product(K, self.projection, Z)
            else:
                Z[...] = K @ self.projection
        require_finite_features(tile, Z)
        return Dense(Z)

    @cached_property
    def _expansion(self) -> GramByExpansion | None:
        return GramByExpansion.of(self.kernel, self.landmarks)

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def vjp(self, tile: Any, G: Array) -> Array:
        """Return the products for kernels of distances; the derivative at a landmark is 0."""
        rows, landmarks = (X.toarray() if is_csr(X) else X for X in (tile, self.landmarks))
        weights = G @ self.projection.T
        if isinstance(self.kernel, Laplacian):
            weights = weights * (-self.kernel.gamma * gram(self.kernel, rows, landmarks))
            columns = zip(rows.T, landmarks.T, strict=True)
            signs = (np.sign(x[:, None] - l) for x, l in columns)
            return np.stack([np.sum(weights * sign, axis=-1) for sign in signs], axis=-1)
        if not isinstance(self.kernel, Radial):
            return super().vjp(tile, G)
        squares = cdist(rows, landmarks, "sqeuclidean")
        step = np.finfo(np.float64).eps ** (1 / 3)
        above, below = (self.kernel.profile(squares * (1 + sign * step)) for sign in (1, -1))
        weights = weights * (2 * ratio(above - below, 2 * step * squares))
        return np.sum(weights, axis=-1, keepdims=True) * rows - weights @ landmarks

    def dense(self, sparse: bool) -> bool:
        return True

    def arrays(self) -> dict[str, Array]:
        rows = self.landmarks
        parts = ("data", "indices", "indptr") if is_csr(rows) else ()
        stored = {f"landmarks.{part}": getattr(rows, part) for part in parts} or {"landmarks": rows}
        return {**stored, "projection": self.projection}

    def astype(self, dtype: DTypeLike) -> Landmarks:
        if self.careful:
            return replace(self)
        return replace(
            self, landmarks=self.landmarks.astype(dtype), projection=self.projection.astype(dtype)
        )

    def cost(self, d: int) -> Cost:
        count, columns = self.projection.shape
        flops = 4.0 * count * d + self.projection.size
        return Cost(flops, 8.0 * (2 * d + 2 * count + columns), columns)
