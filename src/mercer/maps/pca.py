"""Principal components of features in one pass (Li, Lebanon, Sminchisescu, arXiv 1206.4074)."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import eigh
from sklearn.utils.validation import check_is_fitted

from mercer._typing import Array
from mercer.errors import ParameterError, Setting
from mercer.kernels import Centered, Kernel, Linear
from mercer.maps._transform import Chain
from mercer.maps.base import Decay, Map
from mercer.maps.stages.linear import Components
from mercer.rng import Rng
from mercer.stats.base import Statistic
from mercer.stats.moments import Moments
from mercer.validation.parameters import Flag, Integer, Missing, Positive, Threads


class FeaturePCA(Map):
    """phi(x) = U' (x - mean), U the first eigenvectors of S = sum (x - mean)(x - mean)'.

    ``feature_map >> FeaturePCA(500)`` is the PCA of any map's features, in one pass over blocks of
    rows that keeps d x d sums in float64, each about its block's own mean: memory is O(d^2).

    Parameters
    ----------
    n_components : int, float or None, default=None
        The number of components; between 0 and 1, the share of the variance that they have; None
        keeps all d, a rotation of the data.
    center : bool, default=True
        Subtract the mean of the rows. With center=False the mean is 0, and the inner products, and
        so the kernel of the map before, are kept.
    n_jobs : int or None, default=None
        Threads; None and -1 use all that the process may use.

    Attributes
    ----------
    components_ : array of shape (n_components_, n_features)
        U', rows of norm 1; the largest entry of each is positive.
    explained_variance_ : array of shape (n_components_,)
        Variance along each component (divided by n - 1); with center=False, the mean square
        (divided by n).
    explained_variance_ratio_ : array of shape (n_components_,)
        explained_variance_ as a share of the total.
    mean_ : array of shape (n_features,)
        The mean; zeros with center=False.
    n_components_ : int
        The number of components in use.
    kernel_, limit_ : Kernel
        <x - mean_, z - mean_>.

    Notes
    -----
    F. Li, G. Lebanon and C. Sminchisescu, "A linear approximation to the chi2 kernel with geometric
    convergence", arXiv 1206.4074, Algorithm 3.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import FeaturePCA, RandomFourier
    >>> X = np.random.default_rng(0).normal(size=(200, 5))
    >>> fourier = RandomFourier(256, gamma=0.1, random_state=0)
    >>> both = (fourier >> FeaturePCA(0.99, center=False)).fit(X)
    >>> both.kernel_
    Gaussian(gamma=0.1)
    >>> bool(both.transform(X).shape[1] < 100)
    True
    """

    name = "pca"
    numpy_attributes = True
    kernels = ("linear",)
    paper = "Li, Lebanon and Sminchisescu, arXiv 1206.4074, Algorithm 3"
    statistics_name = "covariance"
    parameter_constraints = {
        "n_components": (Missing(), Integer(), Positive(below=1, noun="a share of the variance")),
        "center": (Flag(),),
        "n_jobs": (Threads(),),
    }
    nested = False
    n_components_: int
    mean_: Array
    explained_variance_: Array
    explained_variance_ratio_: Array

    def __init__(
        self,
        n_components: int | float | None = None,
        *,
        center: bool = True,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.center = center
        self.n_jobs = n_jobs

    @property
    def kernel_(self) -> Kernel:
        """<x - mean_, z - mean_>, or <x, z> with center=False."""
        check_is_fitted(self)
        return Centered(self.mean_) if self.center else Linear()

    @property
    def rate(self) -> Decay | None:
        """None with all components, which are exact; otherwise it depends on the data."""
        return None if self.n_components is None else Decay((1, 3, 5), 0.9)

    @property
    def components_(self) -> Array:
        check_is_fitted(self)
        return self.tile_transform_.arrays()["0.panel"].T

    def check(self, d: int) -> None:
        if self.n_components is not None and self.n_components > d:
            why = f" is more than the {d} feature(s) of the data."
            size = Setting("n_components", repr(self.n_components))
            raise ParameterError(type(self).__name__, size, why)

    def required_statistics(self, d: int) -> Statistic:
        return Moments(wide=True)

    def build(self, rng: Rng, d: int, statistics: Any) -> Chain:
        moments: Moments = statistics
        with np.errstate(over="ignore", invalid="ignore"):
            scatter = np.asarray(moments.scatter)
            if not self.center:
                scatter = scatter + moments.n * np.outer(moments.mean, moments.mean)
        if not np.isfinite(scatter).all():
            raise ValueError(
                f"{type(self).__name__} needs data whose squares have a finite sum. Scale the data "
                "first (sklearn.preprocessing.StandardScaler)."
            )
        values, vectors = eigh(scatter, check_finite=False, **self._wanted(d))
        values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
        count = self._count(values, moments.rows)
        total = float(np.trace(scatter))
        divisor = max(moments.n - 1, 1.0) if self.center else moments.n
        self.n_components_ = count
        self.mean_ = moments.mean if self.center else np.zeros(d)
        self.explained_variance_ = values[:count] / divisor
        self.explained_variance_ratio_ = values[:count] / (total or 1.0)
        vectors = vectors[:, :count]
        signs = np.sign(vectors[np.argmax(np.abs(vectors), axis=0), np.arange(count)])
        panel = np.ascontiguousarray(vectors * signs)
        offset = (self.mean_, self.mean_ @ panel) if self.center else ()
        return Chain((Components(panel, *offset),))

    @classmethod
    def cases(cls) -> list[Map]:
        return [cls(), cls(2), cls(0.8), cls(center=False), cls(2, center=False)]

    def _wanted(self, d: int) -> dict[str, Any]:
        """Return which eigenvectors are computed: the leading ones where their number is given."""
        given = self.n_components
        if given is None or given < 1 or given > d // 2:
            return {"driver": "evd"}
        return {"subset_by_index": [d - given, d - 1]}

    def _count(self, values: Array, rows: int) -> int:
        """Return the number of components, of the falling eigenvalues that were computed."""
        given = self.n_components
        if given is None:
            return len(values)
        if given < 1:
            share = np.cumsum(values) / (values.sum() or 1.0)
            count = int(np.searchsorted(share, given, side="right")) + 1
            return min(count, len(values)) if values[0] > 0 else 1
        noise = self.n_features_in_ * np.finfo(np.float64).eps * values[0]
        rank = int(np.count_nonzero(values > noise))
        if given > rank:
            why = (
                f" is more than the {rank} directions in which the {rows} sample(s) differ. "
                "Use fewer, or None for all columns."
            )
            raise ParameterError(type(self).__name__, Setting("n_components", repr(given)), why)
        return int(given)
