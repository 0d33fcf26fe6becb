"""KernelRegressor and KernelClassifier: a feature map and a linear head, in memory or out of core."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from mercer import door
from mercer.classes import ClassSums
from mercer.learn import heads
from mercer.learn.base import KernelModel
from mercer.learn.folds import Folds
from mercer.learn.labels import Reweighted, aligned, balanced_weights, count_classes, given_weights
from mercer.learn.normal import Array, Normal
from mercer.learn.targets import targets_of
from mercer.moments import Moments
from mercer.streams import Stream
from mercer.together import Together


class KernelRegressor(RegressorMixin, KernelModel):
    """f(x) = b + c'phi(x), minimising sum w |y - f(x)|^2 + alpha |c|^2: ridge regression on the features of a map.

    From moments (Z'Z, Z'y, in one pass over blocks of rows) where their D x D arrays fit into ``max_memory``, otherwise by conjugate
    gradients over blocks. Neither holds the features of more than a few tiles.

    Parameters
    ----------
    feature_map : map, composition, name or list of these, default="fourier"
        ``RandomFourier(2048)``, ``Chi2Series() >> RandomFourier()``, or the registered name of a map with its defaults ("exp-chi2"). The
        maps of a list stand side by side, as those of ``a + b`` do.
    alpha : float, list, "auto", "gcv", "kfold" or "loo", default="auto"
        A number; a list to choose from by generalised cross-validation; "gcv", the same over a grid of 25; "kfold", five folds by a hash
        of the row's index, from the same pass; "loo", exact leave-one-out, which costs a second pass for the rows' leverages; "auto",
        "gcv" from moments, and a tenth of the rows held out where there are too many features for moments. With another penalty than
        "l2", "auto" and a list are "kfold".
    penalty : {"l2", "l1", "group"}, default="l2"
        "l1" minimises 1/2 sum w |y - f(x)|^2 + alpha |c|_1 (alpha is n times that of scikit-learn's Lasso), "group" the same with
        alpha sum_g sqrt(|g|) |c_g|, where the groups are the maps of a list or of ``a + b``: maps that are of no use get no coefficients.
        Both need moments; with ``pca`` they act on the components.
    fit_intercept : bool, default=True
    pca : int or None, default=None
        Learn on so many principal components of each map's features, folded back: prediction needs no projection. One pass where the
        moments of all maps together fit into ``max_memory``, two where only those of each map do.
    max_memory : int, str or None, default=None
        Bytes, or "2GB": what the fit may hold beside a few blocks of rows; half of the machine's memory when None.
    checkpoint : path or None, default=None
        A file that is written from time to time; a fit that was killed goes on from there, to the same model bit for bit. It keeps
        moments, so that too many features for ``max_memory`` are refused with it.
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
    alpha_, alphas_, gcv_ : the alpha in use, those tried, and their scores, whichever way they are found
    kkt_ : float
        With "l1" and "group": how far the optimality conditions are from holding, relative to the largest gradient.
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
        truth, weights = targets_of(X, y, sample_weight)
        return float(r2_score(truth, self.predict(X), sample_weight=weights))

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Take more rows in: their moments are added to those of all rows before. The map sees the rows of the first call only.

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
        return [f"{name}_{i}" for i in range(self._solved().coef.shape[1])] if self._wide else [name]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class KernelClassifier(ClassifierMixin, KernelModel):
    """argmax over classes of b_c + w_c'phi(x), each fitted by ridge regression to +1 in the class and -1 outside.

    One-against-all least squares needs the sums of each class beside the moments of all rows, so that classes are found in the same pass.

    Parameters
    ----------
    feature_map, alpha, penalty, fit_intercept, pca, max_memory, checkpoint, n_jobs, verbose, random_state : as in KernelRegressor
    loss : {"squared"}, default="squared"
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes' rows; "balanced", n/(classes n_c), costs a first pass over the labels.

    Attributes
    ----------
    classes_ : array
        The labels, sorted.
    feature_map_, coef_, intercept_, alpha_, alphas_, gcv_, kkt_, zero_maps_, plan_, n_features_in_, feature_names_in_
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
        max_memory: int | str | None = None,
        checkpoint: Any = None,
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
            n_jobs=n_jobs,
            verbose=verbose,
            random_state=random_state,
        )
        self.loss = loss
        self.class_weight = class_weight

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None) -> Self:
        """Take more rows in, as KernelRegressor does.

        Parameters
        ----------
        X, y, sample_weight : as in ``fit``
        classes : array-like
            All labels there will be; needed at the first call.
        """
        door.one_of(type(self).__name__, "loss", self.loss, ("squared",))
        self._must_have_moments()
        if not hasattr(self, "_seen"):
            if classes is None:
                raise ValueError("classes must be passed on the first call to partial_fit: all labels there will be.")
            self._set_classes(np.unique(np.asarray(classes)))
        elif classes is not None and not np.array_equal(np.unique(np.asarray(classes)), self.classes_):
            raise ValueError(
                f"classes={classes!r} is not the same as on the first call to partial_fit, {self.classes_}."
            )
        self._announced = True
        self._take_in(X, y, sample_weight)
        return self

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, unlabeled: Any = None) -> Self:
        """Fit the map and the head; the parameters are those of ``KernelRegressor.fit``."""
        door.one_of(type(self).__name__, "loss", self.loss, ("squared",))
        self._announced = False
        return super().fit(X, y, sample_weight, unlabeled=unlabeled)

    def decision_function(self, X: Any) -> Array:
        """b + w'phi(x): a number for two classes (above 0 for the second), a column for each class otherwise."""
        scores = np.concatenate(list(self._scores(X)[1]))
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Share of right predictions; y, and weights, may be None where the stream has them."""
        truth, weights = targets_of(X, y, sample_weight)
        return float(accuracy_score(truth, self.predict(X), sample_weight=weights))

    def _numeric(self) -> bool:
        return False

    def _checked(self, y: Array) -> Array:
        labels: Array = column_or_1d(y, warn=True)
        check_classification_targets(labels)
        return labels

    def _parts(self) -> Any:
        return Together(Moments(target=False), ClassSums())

    def _normals(self, seen: Any) -> list[Normal]:
        if not self._announced:
            self._set_classes(_labels(seen))
        parts = [part.parts for part in (seen.parts if isinstance(seen, Folds) else [seen])]
        return [
            Normal.of_classes(moments, *aligned(self.classes_, sums), fit_intercept=self.fit_intercept)
            for moments, sums in parts
            if moments.rows
        ]

    def _let_in(self, part: Any) -> None:
        strange = np.setdiff1d(_labels(part), self.classes_)
        if len(strange):
            raise ValueError(f"y has the label {strange.tolist()[0]!r}, which is not among {self.classes_.tolist()}.")

    def _set_classes(self, found: Array) -> None:
        if len(found) < 2:
            raise ValueError(
                f"{type(self).__name__} needs rows of at least two classes, got one class: {found.tolist()[0]!r}."
            )
        if found.dtype.kind == "f" and np.any(found % 1):
            raise ValueError(
                f"Unknown label type: continuous. Labels are words or whole numbers, got {found[found % 1 != 0][0]}: use KernelRegressor."
            )
        if isinstance(self.class_weight, dict):
            strange = [label for label in self.class_weight if label not in set(found.tolist())]
            if strange:
                raise ValueError(f"class_weight has the label {strange[0]!r}, which is not among {found.tolist()}.")
        self.classes_ = found

    def _keep(self, kept: dict[str, Any]) -> None:
        super()._keep(kept)
        classes, outputs = np.asarray(self.classes_), self._solved().coef.shape[1]
        if classes.ndim != 1 or len(classes) < 2 or not np.array_equal(np.unique(classes), classes):
            raise ValueError(f"{type(self).__name__} needs at least two labels, sorted, none of them twice.")
        if outputs != (1 if len(classes) == 2 else len(classes)):
            raise ValueError(f"{type(self).__name__} has {len(classes)} classes, and a head of {outputs} outputs.")
        given_weights(type(self).__name__, self.class_weight)

    def _encoded(self, y: Any) -> Array:
        return heads.signs(y, self.classes_)

    def _pass_over(self, stream: Stream) -> None:
        if self.class_weight != "balanced":  # whose weights needed the classes already
            self._set_classes(count_classes(stream).classes)
        super()._pass_over(stream)

    def _decoded(self, scores: Array) -> Array:
        return self.classes_[(scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else np.argmax(scores, axis=1)]

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
        return stream if weights is None else Reweighted(stream, weights)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = True
        return tags


def _labels(seen: Any) -> Array:
    """The labels of all rows in a sum."""
    parts = seen.parts if isinstance(seen, Folds) else [seen]
    return np.unique(np.concatenate([part.parts[1].classes for part in parts if part.parts[0].rows]))
