"""KernelClassifier: a feature map and a linear head for each class, in memory or out of core."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from mercer.data import Stream
from mercer.data.batches import features
from mercer.data.dask import is_lazy
from mercer.linear_model import heads
from mercer.linear_model.base import KernelModel
from mercer.linear_model.cross_validation import Folds
from mercer.linear_model.labels import (
    Reweighted,
    aligned,
    balanced_weights,
    count_classes,
    given_weights,
    probabilities,
    unweighted,
)
from mercer.linear_model.losses import LOSSES
from mercer.linear_model.normal_equations import Array, Normal
from mercer.linear_model.solvers.passes import Kept
from mercer.linear_model.targets import targets_of
from mercer.parallel import devices
from mercer.parallel.dask_cluster import map_chunks
from mercer.parallel.threads import at_most, one_blas_thread
from mercer.stats.class_sums import ClassSums
from mercer.stats.combined import CombinedStatistics
from mercer.stats.moments import Moments
from mercer.validation.parameters import validate_integer, validate_positive


class KernelClassifier(ClassifierMixin, KernelModel):
    """argmax over classes of f_c(x) = b_c + w_c'phi(x), each fitted to y = +1 in the class and -1
    outside; one f for two classes.

    The objective, s being the weights of rows, is

        loss             minimised for each output
        "squared"        sum s (y - f(x))^2 + alpha |w|^2
        "squared_hinge"  sum s max(0, 1 - y f(x))^2 + alpha/2 |w|^2     (LinearSVC with C = 1/alpha,
        but b is not penalised) "logistic"       sum s log(1 + exp(-y f(x))) + alpha/2 |w|^2
        (LogisticRegression with C = 1/alpha)

    One-against-all least squares needs the sums of each class beside the moments of all rows, so
    that classes are found in the same pass. The other losses take passes: Newton's method, by the
    matrix of each output where there are few features, by conjugate gradients otherwise; blocks of
    features stay in memory where they fit into ``max_memory``.

    Parameters
    ----------
    feature_map, fit_intercept, max_memory, cluster, device, precision, n_jobs, verbose,
    random_state : as in KernelRegressor alpha : float, list, "auto", "gcv", "kfold" or "loo",
    default="auto"
        As in KernelRegressor for squared loss. For the other losses a number above 0, or the one of
        a list, of a grid of 25 for "auto", that has the smallest mean loss on a tenth of the rows,
        held out by a hash of the row's index.
    penalty, pca, checkpoint : as in KernelRegressor; squared loss only
    loss : {"squared", "squared_hinge", "logistic"}, default="squared"
    class_weight : dict, "balanced" or None, default=None
        Factors of the loss of the classes' rows; "balanced", n/(classes n_c), costs a first pass
        over the labels. Unlike sample_weight they do not count as more rows where alpha is chosen;
        with
        alpha="loo" they do.
    max_iter : int, default=100
        Most Newton steps; a ConvergenceWarning names the classes that need more.
    tol : float, default=1e-7
        Newton's method ends when w is within tol |w| of the minimum, which |gradient| <= tol alpha
        |w| ensures, or when the gradient is 1e-12 of that at w = 0.

    Attributes
    ----------
    classes_ : array
        The labels, sorted.
    n_iter_ : int
        Newton steps; 1 for squared loss from moments.
    feature_map_, coef_, intercept_, alpha_, alphas_, gcv_, kkt_, zero_maps_, plan_, n_features_in_,
    feature_names_in_
        As in KernelRegressor.

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
    _announced: bool  # the classes were told by partial_fit

    def __init__(
        self,
        feature_map: Any = "fourier",
        *,
        loss: str = "squared",
        alpha: Any = "auto",
        penalty: str = "l2",
        fit_intercept: bool = True,
        pca: int | None = None,
        class_weight: Any = None,
        max_iter: int = 100,
        tol: float = 1e-7,
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
            alpha=alpha,
            penalty=penalty,
            fit_intercept=fit_intercept,
            pca=pca,
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

    @available_if(lambda model: model._adds())
    def partial_fit(
        self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None
    ) -> Self:
        """Take more rows in, as KernelRegressor does; squared loss only, whose moments add up.

        Parameters
        ----------
        X, y, sample_weight : as in ``fit``
        classes : array-like
            All labels there will be; needed at the first call.
        """
        self._check_loss()
        self._must_have_moments()
        if not hasattr(self, "_seen"):
            if classes is None:
                raise ValueError(
                    "classes must be passed on the first call to partial_fit: all labels there "
                    "will be."
                )
            self._set_classes(np.unique(np.asarray(classes)))
        elif classes is not None and not np.array_equal(
            np.unique(np.asarray(classes)), self.classes_
        ):
            raise ValueError(
                f"classes={classes!r} is not the same as on the first call to partial_fit, "
                f"{self.classes_}."
            )
        self._announced = True
        self._take_in(X, y, sample_weight)
        return self

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, unlabeled: Any = None
    ) -> Self:
        """Fit the map and the head; the parameters are those of ``KernelRegressor.fit``."""
        self._forget()
        self._check_loss()
        self._announced = False
        return super().fit(X, y, sample_weight, unlabeled=unlabeled)

    @devices.its_own
    def decision_function(self, X: Any) -> Array:
        """b + w'phi(x): a number for two classes (above 0 for the second), a column for each class
        otherwise.
        """
        if is_lazy(X):
            check_is_fitted(self)
            return self._lazily("decision_function", X, np.dtype(np.float64), wide=self._wide)
        scores = np.concatenate(list(self._scores(X)[1]))
        return scores[:, 0] if scores.shape[1] == 1 else scores

    @available_if(lambda model: model.loss == "logistic")
    @devices.its_own
    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes, a column for each: 1/(1 + exp(-f)), divided by their sum
        where there are more than two.
        """
        if is_lazy(X):
            check_is_fitted(self)
            return map_chunks(self, "predict_proba", X, len(self.classes_), np.dtype(np.float64))
        return np.concatenate([probabilities(part) for part in self._scores(X)[1]])

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Share of right predictions; y, and weights, may be None where the stream has them."""
        rows, truth, weights = targets_of(X, y, sample_weight)
        found = np.asarray(devices.brought_home(self.predict(rows)))
        return float(accuracy_score(truth, found, sample_weight=weights))

    def _numeric(self) -> bool:
        return False

    def _checked(self, y: Array) -> Array:
        labels: Array = column_or_1d(y, warn=True)
        check_classification_targets(labels)
        return labels

    def _parts(self) -> Any:
        return CombinedStatistics(Moments(target=False), ClassSums())

    def _normals(self, seen: Any) -> list[Normal]:
        if not self._announced:
            self._set_classes(_labels(seen))
        parts = [part.parts for part in (seen.parts if isinstance(seen, Folds) else [seen])]
        return [
            self._normal(moments, *aligned(self.classes_, sums))
            for moments, sums in parts
            if moments.rows
        ]

    def _normal(self, moments: Moments, counts: Array, sums: Array) -> Normal:
        """The normal equations of weighted sums; rows are counted without the weights of
        classes.
        """
        weights = given_weights(type(self).__name__, self.class_weight)
        rows = (
            None
            if weights is None
            else unweighted(counts, [weights.get(one, 1.0) for one in self.classes_.tolist()])
        )
        return Normal.of_classes(moments, counts, sums, fit_intercept=self.fit_intercept, rows=rows)

    def _let_in(self, part: Any) -> None:
        strange = np.setdiff1d(_labels(part), self.classes_)
        if len(strange):
            raise ValueError(
                f"y has the label {strange.tolist()[0]!r}, which is not among "
                f"{self.classes_.tolist()}."
            )

    def _set_classes(self, found: Array) -> None:
        if len(found) < 2:
            raise ValueError(
                f"{type(self).__name__} needs rows of at least two classes, got one class: "
                f"{found.tolist()[0]!r}."
            )
        if found.dtype.kind == "f" and np.any(found % 1):
            raise ValueError(
                "Unknown label type: continuous. Labels are words or whole numbers, got "
                f"{found[found % 1 != 0][0]}: use KernelRegressor."
            )
        if isinstance(self.class_weight, dict):
            strange = [label for label in self.class_weight if label not in set(found.tolist())]
            if strange:
                raise ValueError(
                    f"class_weight has the label {strange[0]!r}, which is not among "
                    f"{found.tolist()}."
                )
        self.classes_ = found

    def _keep(self, kept: dict[str, Any]) -> None:
        super()._keep(kept)
        classes, outputs = np.asarray(self.classes_), self._solved().coef.shape[1]
        if classes.ndim != 1 or len(classes) < 2 or not np.array_equal(np.unique(classes), classes):
            raise ValueError(
                f"{type(self).__name__} needs at least two labels, sorted, none of them twice."
            )
        if outputs != (1 if len(classes) == 2 else len(classes)):
            raise ValueError(
                f"{type(self).__name__} has {len(classes)} classes, and a head of {outputs} "
                "outputs."
            )
        given_weights(type(self).__name__, self.class_weight)
        self._check_loss()

    def _encoded(self, y: Any) -> Array:
        return heads.signs(y, self.classes_)

    @property
    def n_iter_(self) -> int:
        """Newton steps, or passes of conjugate gradients; 1 for squared loss from moments."""
        return self._solved().steps

    def _adds(self) -> bool:
        """Whether rows can be taken in by partial_fit; an AttributeError that says why not."""
        if self.loss in LOSSES:
            raise AttributeError(
                f"partial_fit adds the moments of loss='squared', got loss={self.loss!r}. Use "
                "fit, on a stream where rows are many."
            )
        return True

    def _check_loss(self) -> None:
        who = type(self).__name__
        heads.check_loss(who, self.loss, self.alpha, self.penalty, self.pca, self.checkpoint)
        validate_integer(who, "max_iter", self.max_iter)
        validate_positive(who, "tol", self.tol)

    def _outputs(self) -> int:
        return 0 if self.loss == "squared" else len(self.classes_) if self._wide else 1

    def _pass_over(self, stream: Stream) -> None:
        if self.loss != "squared":
            how: Any = {
                "fit_intercept": self.fit_intercept,
                "tol": self.tol,
                "max_iter": self.max_iter,
            }
            made = features(stream, self.feature_map_)
            rows, loss = Kept(lambda: self._again(made), self.plan_.room), LOSSES[self.loss]
            with at_most(self.n_jobs), one_blas_thread():
                exact = self.plan_.route == "newton"
                who = type(self).__name__
                self._head = heads.from_newton(
                    who, rows, loss, self.alpha, self.classes_, exact=exact, **how
                )
            return
        if self.class_weight != "balanced":  # whose weights needed the classes already
            self._set_classes(count_classes(stream).classes)
        super()._pass_over(stream)

    def _decoded(self, scores: Array) -> Array:
        return self.classes_[
            (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else np.argmax(scores, axis=1)
        ]

    def _kind(self) -> Any:
        return self.classes_.dtype

    @property
    def _wide(self) -> bool:
        return len(self.classes_) > 2

    def _reweighted(self, stream: Stream) -> Stream:
        weights = given_weights(type(self).__name__, self.class_weight)
        if self.class_weight == "balanced":
            found = count_classes(stream)
            if not self._announced:
                self._set_classes(found.classes)
            weights = balanced_weights(found)
        elif self.loss != "squared":
            self._set_classes(count_classes(stream).classes)
        return stream if weights is None else Reweighted(stream, weights)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = True
        return tags


def _labels(seen: Any) -> Array:
    """The labels of all rows in a sum."""
    parts = seen.parts if isinstance(seen, Folds) else [seen]
    return np.unique(
        np.concatenate([part.parts[1].classes for part in parts if part.parts[0].rows])
    )
