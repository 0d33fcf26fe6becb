"""Learners of the papers, on features or on the exact kernel, with accuracy and cost."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from experiments.records import Measured
from experiments.sets import Split
from mercer.kernels import Kernel
from mercer.kernels.gram import gram
from mercer.linear_model.classifier import KernelClassifier
from mercer.maps.base import Map

Array = NDArray[Any]

# Ridges of exact kernel ridge regression, in units of the mean of the kernel's diagonal.
RIDGES = np.logspace(-6, 0, 7)
# Alphas of the learner, from which generalized cross-validation chooses.
ALPHAS = tuple(np.logspace(-6, 3, 19))


@dataclass(frozen=True)
class Score:
    """Accuracy in per cent, seconds of features and training, columns, and bytes of a row."""

    accuracy: float
    seconds: float
    features: int
    bytes: float | None = None


def over_draws(draws: int, run: Callable[[int], Score]) -> Measured:
    """Call run(seed) for seeds 0, 1, ...; return mean and spread of accuracies, mean costs."""
    scores = [run(seed) for seed in range(draws)]
    return Measured.of(
        [score.accuracy for score in scores],
        seconds=fmean(score.seconds for score in scores),
        features=scores[0].features,
        bytes=scores[0].bytes,
    )


def accuracy(split: Split, predicted: Array) -> float:
    """Return the accuracy on the test rows, in per cent."""
    return 100 * split.score(predicted)


def row_bytes(feature_map: Map, X: Any) -> float:
    """Return the bytes of a row's features, averaged over at most 1000 rows."""
    rows = X[:1000]
    return sum(block.nbytes for block in feature_map.blocks(rows)) / rows.shape[0]


def svm(
    feature_map: Map | None, split: Split, *, C: float = 1.0, bias: bool = True, **how: Any
) -> Score:
    """Score LIBLINEAR on the features, or on the rows themselves for None.

    LinearSVC, squared hinge, primal where there are more rows than features.
    """
    from sklearn.svm import LinearSVC

    start = time.perf_counter()
    Z = split.X if feature_map is None else feature_map.fit(split.X).transform(split.X)
    model = LinearSVC(
        C=C,
        fit_intercept=bias,
        dual=how.pop("dual", Z.shape[0] < Z.shape[1]),
        random_state=0,
        **how,
    )
    model.fit(Z, split.y)
    seconds = time.perf_counter() - start
    Z_test = split.X_test if feature_map is None else feature_map.transform(split.X_test)
    size = (
        _bytes(split.X) / split.X.shape[0]
        if feature_map is None
        else row_bytes(feature_map, split.X)
    )
    return Score(accuracy(split, model.predict(Z_test)), seconds, Z.shape[1], size)


def learner(
    feature_map: Any,
    split: Split,
    *,
    pca: int | None = None,
    unlabeled: bool = False,
    alpha: Any = ALPHAS,
    **how: Any,
) -> Score:
    """Score KernelClassifier on blocks of features.

    With ``unlabeled`` the test rows contribute to the components of ``pca``.
    """
    alpha = list(alpha) if isinstance(alpha, tuple) else alpha
    model = KernelClassifier(feature_map, scale=False, pca=pca, alpha=alpha, **how)
    start = time.perf_counter()
    model.fit(split.X, split.y, unlabeled=split.X_test if unlabeled else None)
    seconds = time.perf_counter() - start
    made = model.feature_map_._n_features_out
    width = made if pca is None else min(pca * _maps(feature_map), made)
    return Score(accuracy(split, model.predict(split.X_test)), seconds, width)


def exact_svm(kernel: Kernel, split: Split, *, C: float = 1.0) -> Score:
    """Score a support vector machine on the exact kernel."""
    from sklearn.svm import SVC

    start = time.perf_counter()
    model = SVC(kernel="precomputed", C=C).fit(gram(kernel, split.X), split.y)
    seconds = time.perf_counter() - start
    predicted = model.predict(gram(kernel, split.X_test, split.X))
    return Score(accuracy(split, predicted), seconds, split.X.shape[0])


def exact_ridge(kernel: Kernel | Callable[..., Array], split: Split) -> Score:
    """Score one-vs-rest kernel ridge regression to +1 and -1.

    The ridge is chosen on every fourth training row, held out.

    What ``learner`` becomes as the map grows. In place of a kernel, a function of rows (X), or (X,
    Z), that gives their Gram matrix.
    """
    from scipy.linalg import solve

    start = time.perf_counter()
    values = partial(gram, kernel) if isinstance(kernel, Kernel) else kernel
    K = values(split.X).astype(np.float64)
    classes, index = np.unique(split.y, return_inverse=True)
    Y = np.where(index[:, None] == np.arange(len(classes)), 1.0, -1.0)

    def fit(rows: Array, ridge: float) -> tuple[Array, Array]:
        part, mean = K[np.ix_(rows, rows)], Y[rows].mean(axis=0)
        part[np.diag_indices_from(part)] += ridge * np.trace(part) / len(part)
        return solve(part, Y[rows] - mean, assume_a="pos", overwrite_a=True), mean

    held_out = np.arange(3, len(K), 4)
    kept = np.setdiff1d(np.arange(len(K)), held_out)

    def right(ridge: float) -> float:
        coef, mean = fit(kept, ridge)
        return float(
            np.mean(np.argmax(K[np.ix_(held_out, kept)] @ coef + mean, axis=1) == index[held_out])
        )

    best = max(RIDGES[::-1], key=right)
    coef, mean = fit(np.arange(len(K)), float(best))
    seconds = time.perf_counter() - start
    scores = values(split.X_test, split.X) @ coef + mean
    return Score(accuracy(split, classes[np.argmax(scores, axis=1)]), seconds, len(K))


def _maps(feature_map: Any) -> int:
    return len(feature_map) if isinstance(feature_map, list | tuple) else 1


def _bytes(X: Any) -> float:
    return float(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes if sp.issparse(X) else X.nbytes)
