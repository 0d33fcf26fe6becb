"""Contestants of a race: a name, a way to make the model, and a guess of what it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.kernels import Kernel
from mercer.kernels.gram import gram
from mercer.linear_model.classifier import KernelClassifier
from mercer.linear_model.regressor import KernelRegressor
from mercer.model_selection.candidates import Candidate
from mercer.model_selection.sample import Sample
from mercer.model_selection.schedule import Each, guess_seconds, worth_boosting, worth_tree_threads

Array = NDArray[Any]

SVM_C = 10.0
RIDGES = np.logspace(
    -4, 0, 5
)  # of exact kernel ridge regression, in units of the mean of the kernel's diagonal
_ROUNDS_OF_TREES, _STEP = (
    50,
    0.2,
)  # as good as scikit-learn's 100 and 0.1 on what we have, in half the time
TREES = "gradient boosting"


@dataclass(frozen=True, eq=False)
class Contestant:
    """A model that is raced.

    Attributes
    ----------
    name, family, kind : str
        Models of one family differ by their bandwidth; kinds are those of ``Entry``.
    make : callable
        make(size) is the model, not fitted.
    guess : callable
        guess(size, rows) is about how many seconds a fit takes; only ratios of them count once it
        was timed.
    work : callable
        work(size) is what a row costs: what decides between models of the same score.
    grows : bool
        Whether a larger size has more features.
    """

    name: str
    family: str
    kind: str
    make: Callable[[int], Any]
    guess: Callable[[int, int], float]
    work: Callable[[int], float]
    grows: bool = False


def mapped(one: Candidate, sample: Sample, memory: int, seed: int) -> Contestant:
    """A map and the head of least squares, whose alpha is chosen by generalised
    cross-validation.
    """
    cls: Any = KernelRegressor if sample.numeric else KernelClassifier

    def make(size: int) -> Any:
        return cls(one.sized(size), max_memory=memory, random_state=seed)

    def guess(size: int, rows: int) -> float:
        units = one.units(size)
        each = Each(
            units * one.entries, units * one.flops, units * one.weights, units * one.features
        )
        return guess_seconds(rows, each, sample.outputs)

    return Contestant(one.name, one.family, one.kind, make, guess, one.work, one.grows)


def outside(sample: Sample, seed: int, refused: dict[str, str]) -> Contestant | None:
    """scikit-learn's gradient boosting of trees: what a kernel is not good at shows in it."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    if not worth_boosting(sample.columns, sample.outputs):
        refused[TREES] = (
            f"Trees on {sample.columns:,} columns, for {sample.outputs} output(s), take too long."
        )
        return None
    cls: Any = HistGradientBoostingRegressor if sample.numeric else HistGradientBoostingClassifier

    def make(size: int) -> Any:
        return Trees(
            cls(
                max_iter=_ROUNDS_OF_TREES,
                learning_rate=_STEP,
                early_stopping=False,
                random_state=seed,
            )
        )

    def guess(size: int, rows: int) -> float:
        return (
            sample.outputs * _ROUNDS_OF_TREES * (3e-4 + 1e-6 * rows + 3e-8 * rows * sample.columns)
        )

    return Contestant(TREES, TREES, "outside", make, guess, lambda size: 0.0)


def exact(name: str, kernel: Kernel, sample: Sample, rows: int) -> Contestant:
    """A support vector machine, or kernel ridge regression, on the Gram matrix itself."""
    return Contestant(
        f"exact {name}",
        f"exact {name}",
        "exact",
        lambda size: Exact(kernel, numeric=sample.numeric),
        lambda size, count: 1e-9 * count**2 * (sample.columns + count / 10),
        lambda size: float(rows * sample.columns),
    )


class Trees:
    """scikit-learn's trees, for sparse rows too, and on one thread where trees are so small that
    threads only wait for each other.
    """

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, X: Any, y: Any) -> Trees:
        """Grow the trees."""
        self.threads = None if worth_tree_threads(*X.shape) else 1
        with self._limited():
            self.model.fit(_dense(X), y)
        return self

    def predict(self, X: Any) -> Any:
        """Labels or numbers for the rows."""
        with self._limited():
            return self.model.predict(_dense(X))

    def _limited(self) -> Any:
        from threadpoolctl import threadpool_limits

        return threadpool_limits(self.threads, user_api="openmp")


def _dense(X: Any) -> Any:
    return X.toarray() if hasattr(X, "indptr") else X


class Exact:
    """An exact kernel: a support vector machine for labels, C = 10 in units of the kernel's spread;
    kernel ridge regression for numbers.
    """

    def __init__(self, kernel: Kernel, *, numeric: bool) -> None:
        self.kernel, self.numeric = kernel, numeric

    def fit(self, X: Any, y: Array) -> Exact:
        """Keep the rows, and solve for a coefficient of each."""
        from sklearn.svm import SVC

        self.rows = X
        K = gram(self.kernel, X)
        if self.numeric:
            self.machine: Any = _Ridge(K, y)
        else:
            spread = float(np.trace(K)) / len(K) - float(
                K.mean()
            )  # the mean squared distance from the centre
            self.machine = SVC(kernel="precomputed", C=SVM_C / (spread if spread > 0 else 1.0)).fit(
                K, y
            )
        return self

    def predict(self, X: Any) -> Array:
        """Labels or numbers for the rows."""
        return np.asarray(self.machine.predict(gram(self.kernel, X, self.rows)))


class _Ridge:
    """(K + ridge) coef = y - mean, the ridge chosen on a quarter of the rows."""

    def __init__(self, K: Array, y: Array) -> None:
        y = y.astype(np.float64)
        kept = 3 * len(K) // 4
        errors = []
        for ridge in RIDGES:
            coef, mean = _solved(K[:kept, :kept], y[:kept], ridge)
            errors.append(np.sum((K[kept:, :kept] @ coef + mean - y[kept:]) ** 2))
        self.coef, self.mean = _solved(K, y, float(RIDGES[int(np.argmin(errors))]))

    def predict(self, K: Array) -> Array:
        return K @ self.coef + self.mean


def _solved(K: Array, y: Array, ridge: float) -> tuple[Array, float]:
    from scipy.linalg import solve

    mean = float(y.mean())
    scale = ridge * float(np.trace(K)) / len(K)
    return solve(K + scale * np.eye(len(K)), y - mean, assume_a="pos"), mean
