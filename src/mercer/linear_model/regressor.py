"""KernelRegressor: a feature map and ridge regression, in memory or out of core."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from mercer._typing import Array
from mercer.linear_model.base import KernelModel, _to_host, targets_of
from mercer.linear_model.cross_validation import Folds
from mercer.linear_model.normal_equations import NormalEquations
from mercer.stats.moments import Moments


class KernelRegressor(RegressorMixin, KernelModel):
    """Ridge regression on the features of a map: f(x) = b + c'phi(x).

    It minimizes sum w |y - f(x)|^2 + alpha |c|^2: from the normal equations (Z'Z, Z'y, in one pass
    over blocks of rows) where their D x D arrays fit into ``max_memory``, otherwise by conjugate
    gradients over blocks. Neither holds the features of more than a few tiles.

    Parameters
    ----------
    feature_map : map, composition, name or list of these, default="fourier"
        ``RandomFourier(2048)``, ``Chi2Series() >> RandomFourier()``, or the registered name of a
        map with its defaults ("exp-chi2"). The maps of a list stand side by side, as those of ``a +
        b`` do.
    scale : bool or "auto", default="auto"
        Whether columns are centered and divided by their spread: ``Scaled() >> map`` is fitted in
        place of the map, each one of a list by itself. "auto" does so for kernels of differences
        (gaussian, laplacian, cauchy, matern) whose gamma is computed from the data; a gamma that is
        a number is in the units of the columns. Maps of histograms and compositions are fitted as
        they are. True does so for every map that does not begin with Scaled, False for none.
    alpha : float, list, "auto", "gcv", "kfold" or "loo", default="auto"
        Regularization. A number; "loo", the best alpha of a grid by exact leave-one-out, which
        reads the rows twice more; "kfold", by five folds in the pass of the normal equations;
        "gcv", by generalized cross-validation; "auto", "loo" up to 20,000 rows and 1,024 features
        (and up to 2,048 rows with more), beyond, with partial_fit and on a cluster "kfold" up to
        1,024 features, and a quarter of the rows held out with more; a list to choose from in the
        same way. Equal rows are left out together, and a row of weight 2 counts as two. Where
        there are too many features for normal equations, a third of the rows is held out. With
        another penalty than "l2", "auto" and a list use "kfold".
    penalty : {"l2", "l1", "group"}, default="l2"
        "l1" minimizes 1/2 sum w |y - f(x)|^2 + alpha |c|_1 (alpha is n times that of scikit-learn's
        Lasso), "group" the same with alpha sum_g sqrt(|g|) |c_g|, where the groups are the maps of
        a list or of ``a + b``: irrelevant maps get no coefficients. Both need normal equations;
        with ``pca`` they act on the components.
    fit_intercept : bool, default=True
    pca : int or None, default=None
        Fit on this number of principal components of each map's features. Coefficients are expanded
        to the features, so that prediction needs no projection. One pass where the normal equations
        of all maps together fit into ``max_memory``, two where only those of each map do.
    max_memory : int, str or None, default=None
        Bytes, or "2GB", for the arrays of the fit, beside a few blocks of rows; None is half of the
        machine's memory.
    checkpoint : path or None, default=None
        File to which partial sums are written; a fit that was killed resumes from it, to the same
        model bit for bit. It needs normal equations, and so enough ``max_memory``.
    cluster : address, distributed.Client or None, default=None
        Dask cluster that sums the rows, to the same model bit for bit: "tcp://host:8786".
        ``clone`` copies an address, and no Client. For Dask arrays None is the current client, if
        there is one.
    device : {"cuda", "cuda:0", ...} or None, default=None
        GPU, through torch, that computes features, normal equations, the ridge solution, products
        of other losses and predictions; rows stream through it. None is the CPU, or the device of
        ``mercer.use_device``. Penalties "l1" and "group" are solved on the CPU.
    precision : {"float32", "tf32", "bf16"} or None, default=None
        Precision of float32 products on a GPU, as in ``mercer.use_device``.
    n_jobs : int or None, default=None
        Threads; None and -1 use all that the process may use.
    verbose : int, default=0
        1 prints the plan, 2 also the progress.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the map, where its own random_state is None.

    Attributes
    ----------
    feature_map_ : Map
        Fitted feature map; with scaled columns ``feature_map_.maps_`` are Scaled and the map.
    feature_coef_ : array of shape (D,) or (n_outputs, D)
        Coefficients of the features.
    coef_ : array of shape (n_features,) or (n_outputs, n_features)
        Coefficients of the columns, with the map ``Identity()`` ("linear") only.
    intercept_ : float or array of shape (n_outputs,)
    alpha_ : float
        Regularization parameter in use.
    alphas_, alpha_scores_ : array
        Alphas that were compared, and the score of each.
    kkt_ : float
        Violation of the optimality conditions, relative to the largest gradient, for "l1" and
        "group".
    zero_maps_ : list of str
        Maps all of whose coefficients are 0.
    plan_ : Plan
        Route, passes and memory of the fit.
    n_samples_seen_ : int
        Rows of fit, or of all calls of partial_fit; 0 where a stream does not state their number.
    n_features_in_ : int
    feature_names_in_ : array of str
        Where X has column names.
    schema_ : TableSchema
        Kinds of the columns, where X was a table with text, dates or missing cells.

    See Also
    --------
    KernelClassifier : Classification, with squared, squared hinge, logistic or log loss.

    Notes
    -----
    Far from the training rows the prediction of an exact kernel of differences goes to the mean of
    the targets. With random Fourier features it is a random wave about the intercept, of standard
    deviation ``norm(feature_coef_)/sqrt(D)``, which may exceed that of the targets.

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
        """Return R^2 of the predictions.

        Parameters
        ----------
        X, y, sample_weight
            As in ``fit``; y and weights may be None where the stream has them.

        Returns
        -------
        float
        """
        rows, truth, weights = targets_of(X, y, sample_weight)
        predictions = np.asarray(_to_host(self.predict(rows)))
        return float(r2_score(truth, predictions, sample_weight=weights))

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Add the normal equations of more rows; the map is fitted to those of the first call.

        So is its size where that is "auto": give it as a number where the first call has few rows.

        Parameters
        ----------
        X, y, sample_weight
            As in ``fit``.

        Returns
        -------
        self
        """
        with self._undo_failure():
            self._update(X, y, sample_weight)
        return self

    def _validate_targets(self, y: Array) -> Array:
        return y

    def _encode_targets(self, y: Any) -> Array:
        return np.asarray(y, dtype=np.float64)

    def _decode_scores(self, scores: Array) -> Array:
        return scores if self._is_2d else scores[:, 0]

    def _target_statistics(self) -> Moments:
        return Moments()

    def _normal_equations(self, statistics: Any) -> list[NormalEquations]:
        parts = statistics.parts if isinstance(statistics, Folds) else [statistics]
        return [
            NormalEquations.of(part, fit_intercept=self.fit_intercept)
            for part in parts
            if part.rows
        ]

    @property
    def _prediction_dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float64)

    @property
    def _is_2d(self) -> bool:
        return bool(self._targets_2d) or self._fitted_predictor().coef.shape[1] > 1

    def _output_names(self, name: str) -> list[str]:
        if not self._is_2d:
            return [name]
        return [f"{name}_{i}" for i in range(self._fitted_predictor().coef.shape[1])]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
