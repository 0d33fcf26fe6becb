"""KernelClassifier: a linear classifier on the features of a map, in memory or out of core."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial, update_wrapper
from types import MethodType
from typing import Any, Self, TypeVar, cast

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from mercer._typing import Array
from mercer.data import Stream
from mercer.data.stream import is_lazy
from mercer.errors import ParameterError, Setting
from mercer.linear_model.base import KernelModel, _to_host, targets_of
from mercer.linear_model.calibration import Calibration, logits_of
from mercer.linear_model.cross_validation import Folds
from mercer.linear_model.labels import (
    ClassWeightedStream,
    align_classes,
    balance_classes,
    class_numbers,
    count_classes,
    encode_one_versus_rest,
    probabilities,
    validate_class_weight,
)
from mercer.linear_model.losses import LOSSES
from mercer.linear_model.normal_equations import NormalEquations
from mercer.linear_model.parameters import validate_estimator
from mercer.linear_model.prediction_sets import PredictionSets
from mercer.linear_model.uncertainty import leave_out
from mercer.parallel.dask_cluster import map_chunks
from mercer.parallel.device import to_tensor_like
from mercer.stats.base import CombinedStatistics
from mercer.stats.class_sums import ClassSums
from mercer.stats.moments import Moments

Method = TypeVar("Method", bound=Callable[..., Any])

_PROBABILISTIC = ("logistic", "log_loss")  # losses whose scores are logarithms of odds


class _available_if:
    """Make a method an attribute of the instances for which a check raises no AttributeError.

    scikit-learn's decorator of this name replaces the message of the check by its own.
    """

    def __init__(self, check: Callable[[Any], None]) -> None:
        self.check = check

    def __call__(self, method: Method) -> Method:
        self.method = method
        return cast(Method, update_wrapper(self, method))

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self.method
        self.check(instance)
        return MethodType(self.method, instance)


class KernelClassifier(ClassifierMixin, KernelModel):
    """Classification by linear functions of the features of a map: argmax_c b_c + w_c'phi(x).

    Each f_c(x) = b_c + w_c'phi(x) is fitted to y = +1 in the class and -1 outside; two classes have
    one f. The objective of each output, s being the weights of rows, is for the loss

    - "squared": sum s (y - f(x))^2 + alpha |w|^2;
    - "squared_hinge": sum s max(0, 1 - y f(x))^2 + alpha/2 |w|^2, that of LinearSVC with
      C = 1/alpha, but b is not penalized;
    - "logistic": sum s log(1 + exp(-y f(x))) + alpha/2 |w|^2, that of LogisticRegression with
      C = 1/alpha, for two classes;
    - "log_loss": sum s (log sum_c exp f_c(x) - f_y(x)) + alpha/2 sum_c |w_c|^2 of all outputs
      together, multinomial logistic regression: that of LogisticRegression with C = 1/alpha, and
      the same as "logistic" for two classes.

    Squared loss needs the sums of each class beside the moments of all rows, so that classes are
    determined in the same pass. The other losses take several passes of Newton's method by
    conjugate gradients; blocks of features stay in memory where they fit into ``max_memory``.

    Parameters
    ----------
    feature_map : map, composition, name or list of these, default="fourier"
        As in KernelRegressor.
    scale : bool or "auto", default="auto"
        As in KernelRegressor.
    metric : "learned" or None, default=None
        As in KernelRegressor.
    loss : {"squared", "squared_hinge", "logistic", "log_loss"}, default="squared"
        "logistic" and "log_loss" have probabilities of their own; those of the others are
        calibrated on rows that are left out.
    alpha : float, list, "auto", "gcv", "kfold" or "loo", default="auto"
        As in KernelRegressor for squared loss. For the other losses a number above 0, or the one of
        a list, of a grid of 25 for "auto" and "kfold", that has the smallest mean loss of rows by
        models trained without them. "kfold" leaves out five folds in turn, equal rows and rows of
        a group together; "auto" and a list do so up to 20,000 rows, or 4,096 where features are
        more than rows. Beyond, and where the models of all folds take more than ``max_memory``, a
        tenth of the rows is held out (a third up to 20,000 rows), the latest third or tenth where
        rows have times. Alphas that the first folds exclude are not tried on all: their score is
        infinite.
    penalty : {"l2", "l1", "group"}, default="l2"
        As in KernelRegressor; other than "l2" for squared loss only.
    fit_intercept : bool, default=True
    pca : int or None, default=None
        As in KernelRegressor; squared loss only.
    uncertainty : bool, default=False
        Measure and store what ``predict_proba`` and ``predict_set`` need: scores of training rows
        by models that were fitted without them. Squared loss leaves out five folds by subtraction
        from normal equations, a quarter of the rows beyond 1,024 features; for other losses, and
        where conjugate gradients solve, the model is fitted once more without a quarter of the
        rows (up to 2,048 rows, without each quarter). Without it both work for rows that were given
        in memory, up to 64 MB of which are kept; a model file has what they need only with it.
    class_weight : dict, "balanced" or None, default=None
        Factors of the loss of the classes' rows; "balanced", n/(classes n_c), costs a first pass
        over the labels. Unlike sample_weight they do not count as more rows where alpha is chosen,
        nor for the coverage of ``predict_set``. Probabilities are those of classes with these
        weights. To rank rows of a rare class, leave it None: "balanced" raises recall at the
        threshold 0, and lowers the average precision (as it does for SVC).
    max_iter : int, default=100
        Maximum number of Newton steps, each as good as five sweeps of coordinate descent on one-hot
        codes; a ConvergenceWarning says where more are needed.
    tol : float, default=1e-4
        Newton's method ends for an output when a step changes its scores f(x) by at most tol, as
        root mean square over the training rows relative to the scores' standard deviation; or when
        |gradient| <= tol alpha |w|, or 1e-12 of that at w = 0. Coordinate descent on one-hot codes
        ends when this is the estimated error of the scores of all outputs.
    max_memory : int, str or None, default=None
        As in KernelRegressor.
    checkpoint : path or None, default=None
        As in KernelRegressor; squared loss only.
    cluster, device, precision, n_jobs, verbose, random_state
        As in KernelRegressor.

    Attributes
    ----------
    classes_ : array
        Sorted labels.
    n_iter_ : int
        Newton steps, sweeps of coordinate descent or conjugate gradient passes; 1 for squared loss
        from normal equations.
    feature_map_, feature_coef_, coef_, intercept_, alpha_, alphas_, alpha_scores_
    validation_score_, kkt_, zero_maps_, plan_
        As in KernelRegressor.
    n_samples_seen_, n_features_in_, feature_names_in_, schema_
        As in KernelRegressor.

    See Also
    --------
    KernelRegressor : Ridge regression on the features of a map.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from mercer import KernelClassifier, RandomFourier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = KernelClassifier(RandomFourier(512, random_state=0)).fit(X[:1200], y[:1200])
    >>> bool(model.score(X[1200:], y[1200:]) > 0.9)
    True
    """

    classes_: Array
    _classes_declared: bool  # by partial_fit
    _calibration: Calibration | None
    _sets: PredictionSets | None

    _numeric_targets = False

    def __init__(
        self,
        feature_map: Any = "fourier",
        *,
        scale: bool | str = "auto",
        metric: str | None = None,
        loss: str = "squared",
        alpha: Any = "auto",
        penalty: str = "l2",
        fit_intercept: bool = True,
        pca: int | None = None,
        uncertainty: bool = False,
        class_weight: Any = None,
        max_iter: int = 100,
        tol: float = 1e-4,
        max_memory: int | str | None = None,
        checkpoint: Any = None,
        cluster: Any = None,
        device: str | None = None,
        precision: str | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            feature_map,
            scale=scale,
            metric=metric,
            alpha=alpha,
            penalty=penalty,
            fit_intercept=fit_intercept,
            pca=pca,
            uncertainty=uncertainty,
            max_memory=max_memory,
            checkpoint=checkpoint,
            cluster=cluster,
            device=device,
            precision=precision,
            n_jobs=n_jobs,
            verbose=verbose,
            random_state=random_state,
        )
        self.loss = loss
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.tol = tol

    @_available_if(lambda model: model._require_partial_fit())
    def partial_fit(
        self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None
    ) -> Self:
        """Add the normal equations of more rows, for squared loss.

        The map, and its size where that is "auto", is fitted to the rows of the first call: give
        the size as a number where these are few.

        Parameters
        ----------
        X, y, sample_weight
            As in ``fit``.
        classes : array-like
            All labels of this and later calls; required in the first one.

        Returns
        -------
        self
        """
        with self._undo_failure():
            validate_estimator(self)
            self._require_statistics()
            if self.uncertainty:
                raise ParameterError(
                    type(self).__name__,
                    "partial_fit keeps no rows that could be left out, which ",
                    Setting("uncertainty", "True"),
                    " needs. Use fit, on a stream where there are many rows, or leave it out.",
                )
            if not hasattr(self, "_statistics"):
                if classes is None:
                    raise ValueError(
                        "classes must be passed on the first call to partial_fit: all labels of "
                        "this and later calls."
                    )
                self._set_classes(np.unique(np.asarray(classes)))
            elif classes is not None and not np.array_equal(
                np.unique(np.asarray(classes)), self.classes_
            ):
                raise ValueError(
                    f"classes={classes!r} is not the same as on the first call to partial_fit, "
                    f"{self.classes_}."
                )
            self._classes_declared = True
            self._update(X, y, sample_weight)
        return self

    def decision_function(self, X: Any) -> Array:
        """Return the scores b + w'phi(x).

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, Dask array, path or stream

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_classes)
            For two classes a number, above 0 for the second.
        """
        if self._is_local(X):
            return self._decide(X)
        if is_lazy(X):
            check_is_fitted(self)
            columns = len(self.classes_) if self._is_2d else None
            return map_chunks(self, "decision_function", X, columns, np.dtype(np.float64))
        with self._execution(X):
            return to_tensor_like(self._decide(X), X)

    def _decide(self, X: Any) -> Array:
        scores = np.concatenate(list(self._scores(X)[1]))
        return scores[:, 0] if scores.shape[1] == 1 else scores

    @_available_if(lambda model: model._require_probabilities())
    def predict_proba(self, X: Any) -> Array:
        """Return softmax(f) for log loss; for logistic loss 1/(1 + exp(-f)), divided by their sum.

        For other losses softmax_c(a_c f_c + b_c), calibrated on scores of rows by models that were
        fitted without them: ``uncertainty=True`` computes them in ``fit``, and a model with a copy
        of its rows at the first call. Log loss and logistic loss have a temperature with
        ``uncertainty=True`` where alpha was given: one that is chosen has the least loss of held-
        out rows already.

        ``predict`` is the class of the highest score. With calibrated probabilities it is that of
        the highest probability but for a few rows that are near a boundary.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, Dask array, path or stream

        Returns
        -------
        array of shape (n_samples, n_classes)
        """
        self._require_calibration()
        if self._is_local(X):
            return self._probabilities(X)
        if is_lazy(X):
            check_is_fitted(self)
            return map_chunks(self, "predict_proba", X, len(self.classes_), np.dtype(np.float64))
        with self._execution(X):
            return to_tensor_like(self._probabilities(X), X)

    def _probabilities(self, X: Any) -> Array:
        return np.concatenate([self._decode_probabilities(part) for part in self._scores(X)[1]])

    def _require_calibration(self) -> None:
        """Measure the calibration of a loss without probabilities of its own."""
        if self.loss not in _PROBABILISTIC:
            self._require_uncertainty()

    def _decode_probabilities(self, scores: Array) -> Array:
        decode = self._decoders()[1]
        assert decode is not None
        return decode(scores)

    def predict_set(self, X: Any, coverage: float = 0.9) -> Array:
        """Return adaptive prediction sets: which classes a row may have.

        A class is in the set of a row unless the classes that are more probable have a higher total
        probability than those of ``coverage`` of the rows that a model was fitted without had, the
        probability of the classes before their own. The predicted class always is. If new rows
        are like those of ``fit``, their class is in the set with a probability of about
        ``coverage``, or more: at least that of predicting it.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, Arrow table, Dask array, path or stream
        coverage : float, default=0.9

        Returns
        -------
        array of bool of shape (n_samples, n_classes)
            In the order of ``classes_``.
        """
        if not (isinstance(coverage, float | np.floating) and 0 < coverage < 1):
            raise ValueError(f"coverage must be a number between 0 and 1, got {coverage!r}.")
        self._require_uncertainty()
        if is_lazy(X):
            options: Any = {"coverage": coverage}
            return map_chunks(self, "predict_set", X, len(self.classes_), np.dtype(bool), **options)
        with self._execution(X):
            parts = [chosen for _, chosen in self._set_parts(X, coverage)]
            return to_tensor_like(np.concatenate(parts), X)

    def _set_parts(self, X: Any, coverage: float) -> Iterator[tuple[Array, Array]]:
        """Yield the scores (n, t) and the prediction sets (n, classes) of consecutive rows."""
        (calibration, sets), own = self._measures(), self._fitted_predictor()
        t = own.coef.shape[1]
        for scores in self._scores(X, sets.models.predictor(own))[1]:
            predicted = class_numbers(scores[:, :t])
            chosen = sets.sets(scores[:, t:], predicted, calibration, self.loss, coverage)
            yield scores[:, :t], chosen

    @property
    def _has_uncertainty(self) -> bool:
        return getattr(self, "_sets", None) is not None or "_sets" in getattr(self, "_lazy", ())

    def _measures(self) -> tuple[Calibration, PredictionSets]:
        self._require_uncertainty()
        measured = vars(self) if getattr(self, "_sets", None) is not None else self._lazy
        return measured["_calibration"], measured["_sets"]

    def _pack(self) -> Self:
        other = super()._pack()
        other.__dict__.update(getattr(self, "_lazy", {}))
        return other

    def _measure_uncertainty(self, stream: Stream) -> None:
        measured: dict[str, Any] = getattr(self, "_lazy", self.__dict__)
        models, sample = leave_out(self, stream)
        classes = sample.targets[:, 0].astype(np.int64)
        own = self.loss in _PROBABILISTIC
        if own and self._fitted_predictor().search is not None:  # alpha has the least held-out loss
            calibration = Calibration.identity(len(self.classes_))
        else:
            logits = logits_of(sample.scores, self.loss)
            calibration = Calibration.of(logits, classes, sample.weight, shared=own)
        rows = sample.weight
        if isinstance(stream, ClassWeightedStream):  # sets count rows, whatever their class
            factors = [stream.weights.get(label, 1.0) for label in self.classes_.tolist()]
            rows = rows / np.array(factors)[classes]
        measured["_calibration"] = calibration
        measured["_sets"] = PredictionSets.of(models, sample, calibration, self.loss, rows)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy of the predictions.

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
        return float(accuracy_score(truth, predictions, sample_weight=weights))

    def _reset(self) -> None:
        super()._reset()
        self._classes_declared = False

    def _validate_targets(self, y: Array) -> Array:
        labels: Array = column_or_1d(y, warn=True)
        check_classification_targets(labels)
        return labels

    def _target_statistics(self) -> CombinedStatistics:
        return CombinedStatistics(Moments(target=False), ClassSums())

    def _normal_equations(self, statistics: Any) -> list[NormalEquations | None]:
        if not self._classes_declared:
            self._set_classes(_labels(statistics))
        normals: list[NormalEquations | None] = []
        for fold in statistics.parts if isinstance(statistics, Folds) else [statistics]:
            moments, class_sums = fold.parts
            if not moments.rows:
                normals.append(None)
                continue
            counts, sums = align_classes(self.classes_, class_sums)
            # class weights do not count as rows
            rows = self._rows_of_classes(counts) if isinstance(self.class_weight, dict) else None
            normals.append(
                NormalEquations.of_classes(
                    moments, counts, sums, fit_intercept=self.fit_intercept, rows=rows
                )
            )
        return normals

    def _rows_of_classes(self, counts: Array) -> float:
        """Return the number of rows from the weighted counts of classes, but for weights of 0."""
        weights = validate_class_weight(type(self).__name__, self.class_weight)
        factors = [weights.get(label, 1.0) for label in self.classes_.tolist()]
        pairs = zip(counts.tolist(), factors, strict=True)
        return float(sum(count / factor for count, factor in pairs if factor))

    def _count_rows(self, stream: Stream) -> float | None:
        if not isinstance(self.class_weight, dict):
            return None
        return self._rows_of_classes(align_classes(self.classes_, count_classes(stream))[0])

    def _validate_labels(self, part: Any) -> None:
        unknown = np.setdiff1d(_labels(part), self.classes_)
        if len(unknown):
            raise ValueError(
                f"y has the label {unknown.tolist()[0]!r}, which is not among "
                f"{self.classes_.tolist()}."
            )

    def _set_classes(self, classes: Array) -> None:
        if len(classes) < 2:
            raise ValueError(
                f"{type(self).__name__} needs rows of at least two classes, got one class: "
                f"{classes.tolist()[0]!r}."
            )
        if classes.dtype.kind == "f" and np.any(classes % 1):
            raise ValueError(
                "Unknown label type: continuous. Labels are words or whole numbers, got "
                f"{classes[classes % 1 != 0][0]}: use KernelRegressor."
            )
        if isinstance(self.class_weight, dict):
            labels = set(classes.tolist())
            unknown = [label for label in self.class_weight if label not in labels]
            if unknown:
                raise ValueError(
                    f"class_weight has the label {unknown[0]!r}, which is not among "
                    f"{classes.tolist()}."
                )
        self.classes_ = classes

    def _find_classes(self, stream: Stream) -> None:
        # those of balanced weights, and of partial_fit, are known
        if self.class_weight != "balanced" and not self._classes_declared:
            self._set_classes(count_classes(stream).classes)

    def _set_fitted_state(self, attributes: dict[str, Any]) -> None:
        super()._set_fitted_state(attributes)
        classes, outputs = np.asarray(self.classes_), self._fitted_predictor().coef.shape[1]
        if classes.ndim != 1 or len(classes) < 2 or not np.array_equal(np.unique(classes), classes):
            raise ValueError(
                f"{type(self).__name__} needs at least two labels, sorted, none of them twice."
            )
        if outputs != (1 if len(classes) == 2 else len(classes)):
            raise ValueError(
                f"{type(self).__name__} has {len(classes)} classes, and coefficients of {outputs} "
                "outputs."
            )
        if isinstance(self.class_weight, dict):
            validate_class_weight(type(self).__name__, self.class_weight)

    def _encode_targets(self, y: Any) -> Array:
        return encode_one_versus_rest(y, self.classes_)

    @property
    def n_iter_(self) -> int:
        """Newton steps or conjugate gradient passes; 1 for squared loss from normal equations."""
        return self._fitted_predictor().n_iter

    def _require_probabilities(self) -> None:
        """Raise an AttributeError that says how to get probabilities, unless there are any."""
        if self.loss in _PROBABILISTIC:
            return
        needed = "Fit with uncertainty=True, or with loss='log_loss'."
        try:
            replace(self._settings(), uncertainty=True).validate()
        except ValueError as error:
            raise AttributeError(
                f"predict_proba of loss={self.loss!r} needs scores of rows that were left out. "
                f"{error} Or fit with loss='log_loss'."
            ) from None
        fitted = self.__sklearn_is_fitted__()
        if fitted and not (self._has_uncertainty or hasattr(self, "_training")):
            raise AttributeError(
                f"predict_proba of loss={self.loss!r} needs scores of rows that were left out, and "
                f"this {type(self).__name__} has none, and no copy of its rows (it was loaded, "
                "updated by partial_fit, or fitted on a file or on more than 64 MB of rows). "
                f"{needed}"
            )

    def _require_partial_fit(self) -> None:
        """Raise an AttributeError with the reason unless the loss has normal equations."""
        if self.loss in LOSSES:
            raise AttributeError(
                "partial_fit adds the normal equations of loss='squared', got "
                f"loss={self.loss!r}. Use fit, on a stream where there are many rows."
            )

    @property
    def _n_outputs(self) -> int:
        return len(self.classes_) if self._is_2d else 1

    def _decode_scores(self, scores: Array) -> Array:
        return self.classes_[class_numbers(scores)]

    def _decoders(self) -> tuple[Callable[[Array], Array], Callable[[Array], Array] | None]:
        classes, loss = self.classes_, self.loss
        probability: Callable[[Array], Array] | None = None
        if loss in _PROBABILISTIC and not (self.uncertainty and self._has_uncertainty):
            probability = partial(probabilities, loss=loss)
        elif self._has_uncertainty:
            calibrated = self._measures()[0].probabilities
            probability = lambda scores: calibrated(logits_of(scores, loss))  # noqa: E731
        return lambda scores: classes[class_numbers(scores)], probability

    @property
    def _prediction_dtype(self) -> np.dtype[Any]:
        return self.classes_.dtype

    @property
    def _is_2d(self) -> bool:
        return len(self.classes_) > 2

    def _extra_names(self, extra: str | None, coverage: float | None) -> list[str]:
        if extra is None:
            return []
        if extra not in ("score", "probability", "set"):
            raise ValueError(f"A KernelClassifier predicts classes: it has no {extra} of numbers.")
        if extra == "set":
            self._require_uncertainty()
        if extra == "probability":
            if not hasattr(self, "predict_proba"):
                raise ParameterError(
                    "",
                    "This KernelClassifier has no probabilities, which come with ",
                    Setting("uncertainty", "True"),
                    " or with ",
                    Setting("loss", "'log_loss'"),
                    " and 'logistic': write scores, or fit it with one of these.",
                )
            self._require_calibration()
        classes: list[Any] = self.classes_.tolist()
        second = extra == "score" and len(classes) == 2
        return [f"{extra}_{label}" for label in (classes[1:] if second else classes)]

    def _prediction_columns(
        self, X: Any, extra: str | None, coverage: float | None
    ) -> Iterator[list[Array]]:
        if extra == "set":
            assert coverage is not None
            for scores, chosen in self._set_parts(X, coverage):
                yield [self._decode_scores(scores), *chosen.T]
            return
        for scores in self._scores(X)[1]:
            columns = [self._decode_scores(scores)]
            if extra is not None:
                columns += [*(scores if extra == "score" else self._decode_probabilities(scores)).T]
            yield columns

    def _weight_classes(self, stream: Stream) -> Stream:
        weights = None
        if isinstance(self.class_weight, dict):
            weights = validate_class_weight(type(self).__name__, self.class_weight)
        if self.class_weight == "balanced":
            sums = count_classes(stream)
            if not self._classes_declared:
                self._set_classes(sums.classes)
            weights = balance_classes(sums)
        elif self.loss != "squared":
            self._set_classes(count_classes(stream).classes)
        return stream if weights is None else ClassWeightedStream(stream, weights)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = True
        return tags


def _labels(statistics: Any) -> Array:
    """Return the labels of all rows that were summed up."""
    folds = statistics.parts if isinstance(statistics, Folds) else [statistics]
    labels = [fold.parts[1].classes for fold in folds if fold.parts[0].rows]
    return np.unique(np.concatenate(labels))
