"""KernelRegressor: a feature map and ridge regression, in memory or out of core."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Self, overload

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score

from mercer._typing import Array
from mercer.data import Stream
from mercer.data.batches import features
from mercer.data.stream import is_lazy
from mercer.linear_model.base import KernelModel, _to_host, targets_of, write_predictions
from mercer.linear_model.conformal import ConformalIntervals
from mercer.linear_model.cross_validation import Folds
from mercer.linear_model.normal_equations import NormalEquations
from mercer.linear_model.posterior import Posterior
from mercer.linear_model.uncertainty import measure_uncertainty
from mercer.maps.block import block_to_host
from mercer.parallel.dask_cluster import map_chunks
from mercer.parallel.device import to_tensor_like
from mercer.rng import Rng, seed_from
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
    metric : "learned" or None, default=None
        "learned" puts ``Metric()`` in front of the map, behind the scaling of columns: columns, and
        combinations of them, are weighted by how much the target depends on them, and
        ``importances_`` has their shares.
    alpha : float, list, "auto", "gcv", "kfold", "loo" or "evidence", default="auto"
        Regularization. A number; "evidence", the alpha of the largest marginal likelihood; "loo",
        the best alpha of a grid by exact leave-one-out, which reads the rows twice more; "kfold",
        by five folds in the pass of the normal equations; "gcv", by generalized cross-validation;
        "auto", "loo" up to 20,000 rows and 1,024 features (and up to 2,048 rows with more), beyond,
        with partial_fit and on a cluster "kfold" up to 1,024 features, and a quarter of the rows
        held out with more; a list to choose from in the same way. Equal rows are left out together,
        and a row of weight 2 counts as two. Where there are too many features for normal equations,
        a third of the rows is held out. With another penalty than "l2", "auto" and a list use
        "kfold".
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
    uncertainty : bool, default=False
        Measure in ``fit`` what standard deviations, intervals and samples need, in three more
        passes over the rows, and keep it in the model file. Without it, a model that was fitted on
        up to 64 MB of rows in memory measures it at the first use, from a copy of these rows, which
        a pickle of the model contains too; a model file does not.
    max_memory : int, str or None, default=None
        Bytes, or "2GB", for the arrays of the fit, beside a few blocks of rows; None is half of the
        machine's memory.
    checkpoint : path or None, default=None
        File to which partial sums are written; a fit that was killed resumes from it, to the same
        model bit for bit. Passes before the last one have files beside it, which are removed when
        the fit ends. It needs normal equations, and so enough ``max_memory``.
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
    noise_variance_ : float or array of shape (n_outputs,)
        Variance of the noise, RSS/(n - df).
    log_marginal_likelihood_ : float or array of shape (n_outputs,)
        Log density of the targets for alpha_ and noise_variance_.
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
    deviation ``norm(feature_coef_)/sqrt(D)``, which may exceed that of the targets; the standard
    deviation of ``predict(X, return_std=True)`` is that of the prior there.

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

    _intervals: ConformalIntervals | None

    @overload
    def predict(self, X: Any, out: None = None) -> Array: ...

    @overload
    def predict(
        self, X: Any, out: Any = None, *, return_std: bool = False, return_cov: bool = False
    ) -> Any: ...

    def predict(
        self, X: Any, out: Any = None, *, return_std: bool = False, return_cov: bool = False
    ) -> Any:
        """Predict tile by tile: the features of all rows never exist at once.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, Arrow table, Dask array, path or stream
            Of tables the columns of ``fit`` are used, by name; frames of numbers need the same
            columns, unless ``fit`` had missing cells.
        out : array or path, optional
            Destination: an array with room for all predictions, or a ``.parquet``, ``.npy`` or
            ``.csv`` file with a column "prediction" (one for each output when there are several),
            and with return_std as many columns "std".
        return_std : bool, default=False
            Return the standard deviation of y for each row too, noise included:
            s sqrt(1 + h), h being the leverage of the row.
        return_cov : bool, default=False
            Return the covariance of y between all rows too.

        Returns
        -------
        predictions : array, Dask array or tensor, or ``out``
            For a Dask array a Dask array, not computed yet.
        std : array of the same shape, with return_std
        cov : array of shape (n, n) or (n, n, n_outputs), with return_cov
        """
        if return_std and return_cov:
            raise ValueError("predict returns the standard deviation or the covariance, not both.")
        if not (return_std or return_cov):
            return super().predict(X, out)
        self._require_uncertainty()
        if isinstance(out, str | os.PathLike):
            if return_cov:
                raise ValueError("A file has standard deviations, no covariance: use return_std.")
            with self._execution(X):
                write_predictions(self, X, out, "std")
            return out
        if out is not None:
            raise ValueError("With return_std or return_cov, out must be a path or None.")
        if is_lazy(X):
            if return_cov:
                raise ValueError("The covariance of a Dask array is not computed: use return_std.")
            t = self._measured_posterior().noise_variance.size
            both = map_chunks(self, "_predict_std", X, 2 * t, np.dtype(np.float64))
            columns = slice(None) if self._is_2d else 0
            return both[:, :t][:, columns], both[:, t:][:, columns]
        with self._execution(X):
            both = self._predict_std(X)
            mean, std = (self._decode_scores(part) for part in np.hsplit(both, 2))
            mean = to_tensor_like(mean, X)
            if return_std:
                return mean, to_tensor_like(std, X)
            return mean, to_tensor_like(self._covariance(X), X)

    def _predict_std(self, X: Any) -> Array:
        """Return predictions and standard deviations side by side, (n, 2 t)."""
        posterior = self._measured_posterior()
        parts = self._scores(X, posterior=posterior)[1]
        return np.concatenate([_with_std(part, posterior) for part in parts])

    def _covariance(self, X: Any) -> Array:
        posterior = self._measured_posterior()
        stream = self._open(X, None, None, reset=False)
        blocks = features(stream, self.feature_map_).blocks()
        Z = np.concatenate([np.asarray(block_to_host(block).toarray()) for block in blocks])
        inner = posterior.covariance(Z)
        parts = self._scores(X, posterior=posterior)[1]
        leverages = np.concatenate([part[:, -1] for part in parts])
        raised = np.sqrt(leverages / np.diag(inner))  # by the exact kernel
        inner *= np.multiply.outer(raised, raised)
        inner.flat[:: len(inner) + 1] += 1.0
        cov = np.multiply.outer(inner, posterior.noise_variance)
        return cov if self._is_2d else cov[:, :, 0]

    def predict_interval(self, X: Any, coverage: float = 0.9, *, scaled: bool = False) -> Array:
        """Return conformal prediction intervals, whatever the distribution of y.

        Residuals are those of rows that a model was fitted without: twenty folds up to 1,024
        features (CV+), beyond the rows that were left out to choose alpha. The probability that y
        is in its interval is about ``coverage`` if new rows are like those of ``fit``, and at least
        2 coverage - 1 - 2/sqrt(n) for any model and distribution; at least ``coverage`` where one
        part of the rows was held out.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, Arrow table, Dask array, path or stream
        coverage : float, default=0.9
        scaled : bool, default=False
            Divide residuals by the standard deviations of their rows: intervals are wider where
            the model has seen few rows.

        Returns
        -------
        array of shape (n, 2), or (n, n_outputs, 2)
            Lower and upper ends.
        """
        if not (isinstance(coverage, float | np.floating) and 0 < coverage < 1):
            raise ValueError(f"coverage must be a number between 0 and 1, got {coverage!r}.")
        t = self._measured_posterior().noise_variance.size
        if is_lazy(X):
            options: Any = {"coverage": coverage, "scaled": scaled}
            lazy = map_chunks(self, "_interval_ends", X, 2 * t, np.dtype(np.float64), **options)
            return lazy.reshape((X.shape[0], t, 2)) if self._is_2d else lazy
        with self._execution(X):
            ends = self._interval_ends(X, coverage, scaled)
            return to_tensor_like(ends.reshape(-1, t, 2) if self._is_2d else ends, X)

    def _interval_ends(self, X: Any, coverage: float, scaled: bool) -> Array:
        """Return the ends of all intervals, (n, 2 t)."""
        parts = self._interval_parts(X, coverage, scaled)
        return np.concatenate([part.reshape(len(part), -1) for part in parts])

    def _interval_parts(self, X: Any, coverage: float, scaled: bool) -> Iterator[Array]:
        """Yield the ends of the intervals of consecutive rows, (n, t, 2)."""
        posterior = self._measured_posterior() if scaled else None
        intervals = self._measured_intervals()
        for part in self._scores(X, intervals.models.predictor(), posterior)[1]:
            scores, scale = (part[:, :-1], np.sqrt(1 + part[:, -1])) if scaled else (part, None)
            yield intervals.intervals(scores, coverage, scale)

    def _measured_intervals(self) -> ConformalIntervals:
        self._require_uncertainty()
        assert self._intervals is not None
        return self._intervals

    def sample_functions(self, n: int = 1, random_state: Any = None) -> list[KernelRegressor]:
        """Sample functions of the posterior: linear models on the features, without noise.

        Parameters
        ----------
        n : int, default=1
        random_state : int, Generator, RandomState or None, default=None

        Returns
        -------
        list of KernelRegressor
            Fitted; they share the map of this model.
        """
        if not (isinstance(n, int | np.integer) and n > 0):
            raise ValueError(f"n must be a number of functions of at least 1, got {n!r}.")
        posterior = self._measured_posterior()
        rng = Rng(seed_from(type(self).__name__, random_state))
        predictor = self._fitted_predictor()
        samples = []
        for coef, intercept in zip(*posterior.sample(n, rng), strict=True):
            model = copy.copy(self)
            for name in ("_posterior", "_intervals", "_training", "_statistics"):
                model.__dict__.pop(name, None)
            model.uncertainty = False
            model._predictor = replace(
                predictor, coef=predictor.coef + coef, intercept=predictor.intercept + intercept
            )
            samples.append(model)
        return samples

    @property
    def noise_variance_(self) -> float | Array:
        """Variance of the noise of each output, RSS/(n - df); a number for a single output."""
        return self._of_posterior("noise_variance")

    @property
    def log_marginal_likelihood_(self) -> float | Array:
        """log p(y) of each output for alpha_ and noise_variance_; a number for a single output."""
        return self._of_posterior("log_marginal_likelihood")

    def _of_posterior(self, name: str) -> float | Array:
        try:
            values: Array = getattr(self._measured_posterior(), name)
        except (ValueError, NotFittedError) as error:
            raise AttributeError(str(error)) from None
        return values if self._is_2d else float(values[0])

    def _measure_uncertainty(self, stream: Stream) -> None:
        posterior, models, sample = measure_uncertainty(self, stream)
        self._intervals = ConformalIntervals.of(models, sample)
        self._posterior = posterior  # last: other threads look at it

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

    def _decoders(self) -> tuple[Callable[[Array], Array], None]:
        several = self._is_2d
        return lambda scores: scores if several else scores[:, 0], None

    def _target_statistics(self) -> Moments:
        return Moments()

    def _normal_equations(self, statistics: Any) -> list[NormalEquations | None]:
        parts = statistics.parts if isinstance(statistics, Folds) else [statistics]
        return [
            NormalEquations.of(part, fit_intercept=self.fit_intercept) if part.rows else None
            for part in parts
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

    def _extra_names(self, extra: str | None, coverage: float | None) -> list[str]:
        if extra is None:
            return []
        if extra not in ("std", "interval", "leverage"):
            raise ValueError(f"A KernelRegressor predicts numbers: it has no {extra} of classes.")
        self._require_uncertainty()
        if extra == "leverage":
            return ["leverage"]
        kinds = ["std"] if extra == "std" else ["lower", "upper"]
        names = self._output_names("")
        return [f"{kind}{name}" for name in names for kind in kinds]

    def _prediction_columns(
        self, X: Any, extra: str | None, coverage: float | None
    ) -> Iterator[list[Array]]:
        if extra in ("std", "leverage"):
            posterior = self._measured_posterior()
            for part in self._scores(X, posterior=posterior)[1]:
                yield [*(_with_std(part, posterior) if extra == "std" else part).T]
        elif extra == "interval":
            assert coverage is not None
            intervals = self._measured_intervals()
            own = self._fitted_predictor()
            t = own.coef.shape[1]
            for scores in self._scores(X, intervals.models.predictor(own))[1]:
                ends = intervals.intervals(scores[:, t:], coverage)
                yield [*scores[:, :t].T, *ends.reshape(len(ends), -1).T]
        else:
            for scores in self._scores(X)[1]:
                yield [*scores.T]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _with_std(scores: Array, posterior: Posterior) -> Array:
    """Return scores with standard deviations in place of the leverage, (n, 2 t)."""
    return np.hstack([scores[:, :-1], posterior.standard_deviations(scores[:, -1])])
