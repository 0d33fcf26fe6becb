"""Support vector machines over grids of C: LIBSVM on Gram matrices, LIBLINEAR on rows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.heads import Score, accuracy, row_bytes
from experiments.sets import Split
from mercer.kernels import GMM, Kernel, MinMax
from mercer.kernels.gram import gram
from mercer.maps.base import Map
from mercer.parallel.threads import max_threads

Array = NDArray[Any]
# (rows, labels, other rows, C): labels of the others.
Train = Callable[[Array, Array, Array, float], Array]

FOLDS = 3
HINGE, SQUARED = "hinge", "squared_hinge"


@dataclass(frozen=True)
class GridResult:
    """Best test accuracy of a grid, as in the paper, and that of the cross-validated point."""

    best: float
    chosen: float


def gmm_grams(split: Split, powers: Iterable[float] = (1.0,)) -> Iterator[tuple[Array, Array]]:
    """Return (training x training, test x training) Gram matrices of GMM, or pGMM."""
    positive = min(split.X.min(), split.X_test.min()) >= 0
    for power in powers:
        # The same, at half the work.
        kernel: Kernel = MinMax() if positive and power == 1 else GMM(power)
        yield (
            gram(kernel, split.X).astype(np.float64),
            gram(kernel, split.X_test, split.X).astype(np.float64),
        )


def rbf_grams(split: Split, gammas: Iterable[float]) -> Iterator[tuple[Array, Array]]:
    """Return the Gram matrices of exp(-gamma (1 - rho)) for each gamma.

    Half the squared distance of rows of norm 1 is 1 - rho.
    """
    X, X_test = unit_rows(split.X), unit_rows(split.X_test)
    half, half_test = (np.einsum("ij,ij->i", rows, rows) / 2 for rows in (X, X_test))
    D = half[:, None] + half - X @ X.T
    D_test = half_test[:, None] + half - X_test @ X.T
    for gamma in gammas:
        yield np.exp(-gamma * D).astype(np.float64), np.exp(-gamma * D_test).astype(np.float64)


def unit_rows(X: Array) -> Array:
    """Scale rows to norm 1 in their dtype; zero rows stay."""
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    return X / np.where(lengths == 0, 1.0, lengths)


def kernel_curve(K: Array, K_test: Array, split: Split, Cs: Sequence[float]) -> list[float]:
    """Return accuracies of LIBSVM (one-vs-one) on Gram matrices, one for each C."""
    with ThreadPoolExecutor(max_threads()) as pool:
        return list(pool.map(lambda C: accuracy(split, _by_kernel(K, split.y, K_test, C)), Cs))


def kernel_grid(
    grams: Iterable[tuple[Array, Array]], split: Split, Cs: Sequence[float], rows: int
) -> GridResult:
    """Evaluate each pair of Gram matrices with each C.

    Cross-validation uses at most so many training rows.
    """
    some = _sample_indices(len(split.y), rows)
    points: list[tuple[float, float]] = []
    for K, K_test in grams:
        part = K[np.ix_(some, some)]
        folded = [_cross_validate(_by_kernel, part, split.y[some], C, square=True) for C in Cs]
        points += zip(folded, kernel_curve(K, K_test, split, Cs), strict=True)
    return _best_point(points)


def linear_curve(split: Split, Cs: Sequence[float], loss: str = HINGE) -> list[float]:
    """Return accuracies of LIBLINEAR (one-vs-rest, no bias) on unit rows, one for each C."""
    X, X_test = unit_rows(split.X), unit_rows(split.X_test)
    return [accuracy(split, fit_liblinear(X, split.y, C, loss).predict(X_test)) for C in Cs]


def linear_grid(split: Split, Cs: Sequence[float], rows: int, loss: str = HINGE) -> GridResult:
    """Evaluate each C; cross-validation uses at most so many training rows."""
    some = _sample_indices(len(split.y), rows)
    X, y = unit_rows(split.X[some]), split.y[some]

    def train(Z: Array, y: Array, Z_other: Array, C: float) -> Array:
        return fit_liblinear(Z, y, C, loss).predict(Z_other)

    folded = [_cross_validate(train, X, y, C) for C in Cs]
    return _best_point(list(zip(folded, linear_curve(split, Cs, loss), strict=True)))


def _by_kernel(K: Array, y: Array, K_other: Array, C: float) -> Array:
    from sklearn.svm import SVC

    return SVC(kernel="precomputed", C=C).fit(K, y).predict(K_other)


def fit_liblinear(Z: Any, y: Array, C: float, loss: str = HINGE) -> Any:
    """Fit LIBLINEAR with its defaults: dual, tolerance 0.1, no bias, at most 1000 iterations.

    The squared hinge is solved in the primal where there are more rows than columns.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC

    dual = loss == HINGE or Z.shape[0] < Z.shape[1]
    tol = 0.1 if dual else 1e-3
    model = LinearSVC(C=C, loss=loss, dual=dual, tol=tol, fit_intercept=False, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(Z, y)


def evaluate_linear(feature_map: Map, split: Split, Cs: Sequence[float]) -> Score:
    """Return the best test accuracy over C of LIBLINEAR on the features, and its seconds."""
    start = time.perf_counter()
    Z = feature_map.fit(split.X).transform(split.X)
    seconds = time.perf_counter() - start
    Z_test = feature_map.transform(split.X_test)

    def score(C: float) -> tuple[float, float]:
        start = time.perf_counter()
        model = fit_liblinear(Z, split.y, C)
        spent = time.perf_counter() - start
        return accuracy(split, model.predict(Z_test)), -spent

    best, spent = max(map(score, Cs))
    return Score(best, seconds - spent, Z.shape[1], row_bytes(feature_map, split.X))


def _cross_validate(train: Train, Z: Array, y: Array, C: float, *, square: bool = False) -> float:
    """Return the cross-validated accuracy; a square Z is a Gram matrix."""
    right = 0
    for fold in range(FOLDS):
        out = np.arange(len(y)) % FOLDS == fold
        rows, others = (
            (Z[np.ix_(~out, ~out)], Z[np.ix_(out, ~out)]) if square else (Z[~out], Z[out])
        )
        right += int(
            np.sum(
                train(np.ascontiguousarray(rows), y[~out], np.ascontiguousarray(others), C)
                == y[out]
            )
        )
    return right / len(y)


def _sample_indices(count: int, rows: int) -> Array:
    """Return at most so many indices, in random order, by a fixed seed."""
    return np.random.default_rng(0).permutation(count)[:rows]


def _best_point(points: Sequence[tuple[float, float]]) -> GridResult:
    """Return the result of (cross-validation, test) for each point; the first of equals wins."""
    return GridResult(max(right for _, right in points), max(points, key=lambda point: point[0])[1])
