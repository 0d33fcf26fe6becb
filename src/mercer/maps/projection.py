"""Random projections that keep inner products on average (Chang et al., CVPR 2016).

method            P, m x d
orthoprojector    sqrt(d/m) times the rows of the QR factor of a Gaussian matrix
bernoulli         sqrt(d/m) times the rows of the QR factor of a matrix of signs
gaussian          independent normal entries, variance 1/m
hadamard          1/sqrt(m) times m distinct rows of H S, a Hadamard matrix and random signs
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer._typing import Array
from mercer.errors import ParameterError, Setting
from mercer.kernels import Kernel, Linear
from mercer.maps._transform import Chain
from mercer.maps.base import INDEPENDENT, SUBSPACE, Map, Rate
from mercer.maps.stages.projection import METHODS, CheckedProjection, sample_projection
from mercer.rng import Rng
from mercer.validation.parameters import ArrayLike, Integer, Missing, Option, Seed, Threads
from mercer.validation.rows import as_numpy

_AUTO_SIZE = 50
_ORTHONORMAL = 1e-5  # largest entry of basis' basis - I: the rounding of float32


class RandomProjection(Map):
    """phi(x) = P x, P random, m x d, with E <phi(x), phi(z)> = <x, z>.

    E |phi(x) - phi(z)|^2 = |x - z|^2. ``RandomProjection(200) >> RandomFourier(2000)`` are
    compressive random features (see CompressiveFourier); any map of real rows may follow.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        m, at most d; with method="gaussian" it may be more. "auto" is min(50, d), and 50 with
        method="gaussian".
    method : {"orthoprojector", "bernoulli", "gaussian", "hadamard"}, default="orthoprojector"
        Distribution of P. The first two have orthogonal rows, P P' = (d/m) I, and are exact at
        m = d. "hadamard" costs O(d log d) a row in place of O(d m); rows are padded to a power of
        two, p, and it is exact at m = p. "gaussian" is exact at no m.
    basis : array of shape (d, d) or None, default=None
        Orthonormal columns in which the signals are sparse: P is applied to the coefficients basis'
        x. It matters for "bernoulli" and "hadamard", whose variance is smaller on sparse
        differences; the distributions of "orthoprojector" and "gaussian" are invariant under
        rotation. With a basis, "hadamard" is an m x d matrix like the others.
    random_state : int, Generator, RandomState or None, default=None
        Seed; ``seed_`` is the one in use.
    n_jobs : int or None, default=None
        Threads; None and -1 use all that the process may use.

    Attributes
    ----------
    n_components_ : int
        The m in use.
    kernel_, limit_ : Kernel
        The linear kernel.

    Notes
    -----
    |P x|^2 has the relative standard deviation sqrt(2 (1 - m/d) / (m (d + 2)/d)) for
    "orthoprojector" and sqrt(2/m) for "gaussian". A kernel of the projected rows has a bias against
    the kernel of the original ones, about k a^2 (1 - m/d)/m for the Gaussian k = exp(-a):
    ``mercer.theory.compressed_gaussian`` has the exact mean. Rows of a CSR matrix are never made
    dense, except by "hadamard", a tile at a time.

    Chang, Sankaranarayanan and Vijaya Kumar, CVPR 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RandomProjection
    >>> X = np.random.default_rng(0).normal(size=(5, 400))
    >>> phi = RandomProjection(100, random_state=0).fit(X)
    >>> P = phi.transform(np.eye(400)).T
    >>> bool(np.allclose(P @ P.T, 4 * np.eye(100)))
    True
    """

    name = "projection"
    kernels = ("linear",)
    paper = "Chang, Sankaranarayanan and Vijaya Kumar, CVPR 2016"
    parameter_constraints = {
        "n_components": (Integer(), Option("auto")),
        "method": (Option(*METHODS),),
        "basis": (Missing(), ArrayLike("an array of shape (d, d) with orthonormal columns")),
        "random_state": (Seed(),),
        "n_jobs": (Threads(),),
    }

    def __init__(
        self,
        n_components: int | str = "auto",
        *,
        method: str = "orthoprojector",
        basis: Array | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.method = method
        self.basis = basis
        self.random_state = random_state
        self.n_jobs = n_jobs

    @property
    def kernel_(self) -> Kernel:
        """The exact kernel, <x, z>."""
        return Linear()

    @property
    def n_components_(self) -> int:
        """The number of columns of P x."""
        check_is_fitted(self)
        return self._n_features_out

    @property
    def rate(self) -> Rate:
        """Up to no error at m = d, for orthogonal rows; -1/2 for independent entries."""
        return INDEPENDENT if self.method == "gaussian" else SUBSPACE

    def check(self, d: int) -> None:
        check_projection(
            type(self).__name__, "n_components", self.n_components, d, self.method, self.basis
        )

    def build(self, rng: Rng, d: int, statistics: None) -> Chain:
        m = projection_size(self.n_components, d, self.method)
        return Chain(
            (CheckedProjection(sample_projection(rng, self.method, m, d, as_basis(self.basis))),)
        )

    @classmethod
    def cases(cls) -> list[Map]:
        return [
            cls(64, method="gaussian", random_state=0),
            cls(2, random_state=0),
            cls(2, method="bernoulli", random_state=0),
            cls(2, method="hadamard", random_state=0),
        ]


def projection_size(size: Any, d: int, method: str) -> Any:
    """Return the number of rows of P for d columns, with "auto" resolved."""
    if isinstance(size, str) and size == "auto":
        return _AUTO_SIZE if method == "gaussian" else min(_AUTO_SIZE, d)
    return size


def check_projection(
    estimator_name: str, name: str, size: Any, d: int, method: str, basis: Any
) -> None:
    """Raise where the number of rows of P, the parameter `name`, or the basis is wrong."""
    size = projection_size(size, d, method)
    if method != "gaussian" and size > d:
        needed = (
            f" must be at most the number of columns, n_features={d}, got {size}: {d} orthogonal "
            "rows are exact. Use a smaller one, or method='gaussian', which has no such limit."
        )
        raise ParameterError(estimator_name, Setting(name), needed)
    if basis is not None:
        _check_basis(estimator_name, basis, d)


def as_basis(basis: Any) -> Array | None:
    """Return the basis as float64, or None."""
    return None if basis is None else np.asarray(basis, dtype=np.float64)


def _check_basis(estimator_name: str, basis: Any, d: int) -> None:
    """Raise unless a basis is a (d, d) array with orthonormal columns."""
    array = as_numpy(estimator_name, basis)
    if array.shape != (d, d) or array.dtype.kind not in "biuf":
        needed = (
            f" must be a ({d}, {d}) array of real numbers, a column for each column of X, got one "
            f"of shape {array.shape} and type {array.dtype}."
        )
        raise ParameterError(estimator_name, Setting("basis"), needed)
    array = array.astype(np.float64)
    off = np.abs(array.T @ array - np.eye(d))
    i, j = (int(index) for index in np.unravel_index(np.argmax(off), off.shape))
    if not off[i, j] <= _ORTHONORMAL:  # NaN included
        needed = (
            " must have orthonormal columns: basis.T @ basis may differ from the identity by "
            f"{_ORTHONORMAL:g}, got {off[i, j]:.3g} at columns {i} and {j}. "
            "numpy.linalg.qr(basis)[0] has such columns."
        )
        raise ParameterError(estimator_name, Setting("basis"), needed)
