"""KernelRegressor: a feature map and ridge regression, in memory or out of core."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from mercer.linear_model.base import KernelModel
from mercer.linear_model.cross_validation import Folds
from mercer.linear_model.normal_equations import Array, Normal
from mercer.linear_model.targets import targets_of
from mercer.parallel import devices
from mercer.stats.moments import Moments


class KernelRegressor(RegressorMixin, KernelModel):
    """f(x) = b + c'phi(x), minimising sum w |y - f(x)|^2 + alpha |c|^2: ridge regression on the
    features of a map.

    From moments (Z'Z, Z'y, in one pass over blocks of rows) where their D x D arrays fit into
    ``max_memory``, otherwise by conjugate gradients over blocks. Neither holds the features of more
    than a few tiles.

    Parameters
    ----------
    feature_map : map, composition, name or list of these, default="fourier"
        ``RandomFourier(2048)``, ``Chi2Series() >> RandomFourier()``, or the registered name of a
        map with its defaults ("exp-chi2"). The maps of a list stand side by side, as those of ``a +
        b`` do.
    alpha : float, list, "auto", "gcv", "kfold" or "loo", default="auto"
        A number; a list to choose from by generalised cross-validation; "gcv", the same over a grid
        of 25; "kfold", five folds by a hash of the row's index, from the same pass; "loo", exact
        leave-one-out, which costs a second pass for the rows' leverages; "auto", "gcv" from
        moments, and a tenth of the rows held out where there are too many features for moments.
        With another penalty than "l2", "auto" and a list are "kfold".
    penalty : {"l2", "l1", "group"}, default="l2"
        "l1" minimises 1/2 sum w |y - f(x)|^2 + alpha |c|_1 (alpha is n times that of scikit-learn's
        Lasso), "group" the same with alpha sum_g sqrt(|g|) |c_g|, where the groups are the maps of
        a list or of ``a + b``: maps that are of no use get no coefficients. Both need moments; with
        ``pca`` they act on the components.
    fit_intercept : bool, default=True
    pca : int or None, default=None
        Learn on so many principal components of each map's features, folded back: prediction needs
        no projection. One pass where the moments of all maps together fit into ``max_memory``, two
        where only those of each map do.
    max_memory : int, str or None, default=None
        Bytes, or "2GB": what the fit may hold beside a few blocks of rows; half of the machine's
        memory when None.
    checkpoint : path or None, default=None
        A file that is written from time to time; a fit that was killed goes on from there, to the
        same model bit for bit. It keeps moments, so that too many features for ``max_memory`` are
        refused with it.
    cluster : address, distributed.Client or None, default=None
        A cluster of Dask that sums the rows, to the same model bit for bit: "tcp://host:8786".
        ``clone`` copies an address, and no Client. For Dask arrays None is the current client, when
        there is one.
    device : {"cuda", "cuda:0", ...} or None, default=None
        A GPU, through torch, that makes features, moments, the ridge solution and predictions; rows
        stream through it. None is the CPU, or what ``mercer.use_device`` has chosen. Other losses
        and penalties have their features made there, and are solved on the CPU.
    precision : {"float32", "tf32", "bf16"} or None, default=None
        How products of float32 are made on a GPU, as in ``mercer.use_device``.
    n_jobs : int or None, default=None
        Threads; None and -1 use all that the process may use.
    verbose : int, default=0
        1 prints the plan.
    random_state : int, Generator, RandomState or None, default=None
        Seeds the map, where its own random_state is None.

    Attributes
    ----------
    feature_map_ : the fitted map
    coef_, intercept_ : array and float, or arrays
    alpha_, alphas_, gcv_ : the alpha in use, those tried, and their scores, whichever way they are
    found kkt_ : float
        With "l1" and "group": how far the optimality conditions are from holding, relative to the
        largest gradient.
    zero_maps_ : list of str
        Maps all of whose coefficients are 0.
    plan_ : Plan
    n_features_in_, feature_names_in_ : as in scikit-learn

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRegressor, RandomFourier
    >>> X = np.random.default_rng(0).uniform(-3, 3, size=(400, 1))
    >>> y = np.sin(2 * X[:, 0])
    >>> model = KernelRegressor(RandomFourier(128, gamma=2.0, random_state=0)).fit(X[:300], y[:300])
    >>> bool(model.score(X[300:], y[300:]) > 0.99)
    True
    """

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """R^2 of the predictions; y, and weights, may be None where the stream has them."""
        rows, truth, weights = targets_of(X, y, sample_weight)
        found = np.asarray(devices.brought_home(self.predict(rows)))
        return float(r2_score(truth, found, sample_weight=weights))

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Take more rows in: their moments are added to those of all rows before. The map sees the
        rows of the first call only.

        Parameters
        ----------
        X, y, sample_weight : as in ``fit``

        Returns
        -------
        self
        """
        self._take_in(X, y, sample_weight)
        return self

    def _numeric(self) -> bool:
        return True

    def _checked(self, y: Array) -> Array:
        return y

    def _encoded(self, y: Any) -> Array:
        return np.asarray(y, dtype=np.float64)

    def _parts(self) -> Any:
        return Moments()

    def _normals(self, seen: Any) -> list[Normal]:
        parts = seen.parts if isinstance(seen, Folds) else [seen]
        return [Normal.of(part, fit_intercept=self.fit_intercept) for part in parts if part.rows]

    def _decoded(self, scores: Array) -> Array:
        return scores if self._wide else scores[:, 0]

    def _kind(self) -> Any:
        return np.dtype(np.float64)

    @property
    def _wide(self) -> bool:
        """Several targets: coef_ and predictions are 2-d."""
        return bool(self._columns) or self._solved().coef.shape[1] > 1

    def _names(self, name: str) -> list[str]:
        return (
            [f"{name}_{i}" for i in range(self._solved().coef.shape[1])] if self._wide else [name]
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
