"""Reference candidates of a search: gradient boosting and exact kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer._typing import Array, is_csr
from mercer.kernels import Kernel
from mercer.kernels.gram import gram
from mercer.model_selection.candidates import Candidate, ModelOptions

TREES = "gradient boosting"
CONSTANT = "guessing"
SVM_C = 10.0
# of exact kernel ridge regression, in units of the mean of the kernel's diagonal
RIDGES = np.logspace(-4, 0, 5)
# Outputs up to which boosting has scikit-learn's defaults. For more it has half of the rounds with
# twice the learning rate, in half the time (vowel, 11 classes: 91.3% both). With rare classes that
# may fail (pageblocks, five classes, one of 11 rows: 88 instead of 97%).
_FEW_OUTPUTS = 10
_MOST_BOOSTED = 20_000  # columns times outputs: trees on more take too long
_THREADS_FROM = 1e6  # numbers: trees on fewer grow faster on one thread


@dataclass(frozen=True, eq=False)
class BoostingCandidate(Candidate):
    """scikit-learn's gradient boosting of trees, which shows where kernels are the wrong model."""

    rounds: int
    learning_rate: float = 0.1

    def build(self, size: int, options: ModelOptions) -> Trees:
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        numeric = options.numeric
        cls: Any = HistGradientBoostingRegressor if numeric else HistGradientBoostingClassifier
        return Trees(
            cls(
                max_iter=self.rounds,
                learning_rate=self.learning_rate,
                early_stopping=False,
                random_state=options.seed,
            )
        )

    def estimate_seconds(self, size: int, rows: int, options: ModelOptions) -> float:
        # the histograms of all leaves, which trees of few rows do not have, then the rows
        leaves = 1e-4 * options.columns * min(1.0, rows / 1000)
        each = 1e-3 + leaves + 2e-8 * rows * (options.columns + 2)
        return options.outputs * self.rounds * each


@dataclass(frozen=True, eq=False)
class ConstantCandidate(Candidate):
    """Constant prediction: the most frequent class and the shares of classes, or the mean."""

    def build(self, size: int, options: ModelOptions) -> Any:
        from sklearn.dummy import DummyClassifier, DummyRegressor

        if options.numeric:
            return DummyRegressor(strategy=options.scoring.constant)
        return DummyClassifier(strategy="prior")


@dataclass(frozen=True, eq=False)
class ExactCandidate(Candidate):
    """Support vector machine, or kernel ridge regression, on the Gram matrix itself."""

    kernel: Kernel
    row_work: float

    def build(self, size: int, options: ModelOptions) -> Exact:
        return Exact(self.kernel, numeric=options.numeric)

    def estimate_seconds(self, size: int, rows: int, options: ModelOptions) -> float:
        return 1e-9 * rows**2 * (options.columns + rows / 10)

    def work(self, size: int) -> float:
        return self.row_work


def boosting_candidate(
    options: ModelOptions, rounds: int, refused: dict[str, str]
) -> BoostingCandidate | None:
    """Return gradient boosting, or record why it would take too long."""
    if options.columns * options.outputs <= _MOST_BOOSTED:
        if options.outputs > _FEW_OUTPUTS:
            return BoostingCandidate(TREES, TREES, "outside", -(-rounds // 2), 0.2)
        return BoostingCandidate(TREES, TREES, "outside", rounds)
    refused[TREES] = (
        f"Trees on {options.columns:,} columns, for {options.outputs} output(s), take too long."
    )
    return None


class Trees:
    """scikit-learn's trees, for sparse rows too; on one thread where they are small."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Trees:
        """Grow the trees."""
        self.threads = None if X.shape[0] * X.shape[1] >= _THREADS_FROM else 1
        with self._limited():
            self.model.fit(_dense(X), y, sample_weight)
        return self

    @property
    def classes_(self) -> Array:
        """Labels, sorted."""
        return np.asarray(self.model.classes_)

    def predict(self, X: Any) -> Any:
        """Return labels or numbers for the rows."""
        with self._limited():
            return self.model.predict(_dense(X))

    def predict_proba(self, X: Any) -> Any:
        """Return probabilities of the classes."""
        with self._limited():
            return self.model.predict_proba(_dense(X))

    def _limited(self) -> Any:
        from threadpoolctl import threadpool_limits

        return threadpool_limits(self.threads, user_api="openmp")


def _dense(X: Any) -> Any:
    return X.toarray() if is_csr(X) else X


class Exact:
    """Exact kernel: a support vector machine for labels, kernel ridge regression for numbers.

    C is 10 in units of the mean squared distance from the centre.
    """

    def __init__(self, kernel: Kernel, *, numeric: bool) -> None:
        self.kernel, self.numeric = kernel, numeric

    def fit(self, X: Any, y: Array, sample_weight: Array | None = None) -> Exact:
        """Solve for a coefficient of each row."""
        from sklearn.svm import SVC

        self.rows = X
        K = gram(self.kernel, X)
        if self.numeric:
            self.solution: Any = _Ridge(K, y, sample_weight)
        else:
            # the mean squared distance from the centre
            spread = float(np.trace(K)) / len(K) - float(K.mean())
            C = SVM_C / (spread if spread > 0 else 1.0)
            self.solution = SVC(kernel="precomputed", C=C).fit(K, y, sample_weight)
        return self

    @property
    def classes_(self) -> Array:
        """Labels, sorted."""
        return np.asarray(self.solution.classes_)

    def decision_function(self, X: Any) -> Array:
        """Return the scores of the classes."""
        return np.asarray(self.solution.decision_function(gram(self.kernel, X, self.rows)))

    def predict(self, X: Any) -> Array:
        """Return labels or numbers for the rows."""
        return np.asarray(self.solution.predict(gram(self.kernel, X, self.rows)))


class _Ridge:
    """(K + ridge/w) coef = y - mean, w the weights; ridge chosen on a quarter of the rows."""

    def __init__(self, K: Array, y: Array, weights: Array | None) -> None:
        y = y.astype(np.float64)
        w = np.ones(len(y)) if weights is None else weights / weights.mean()
        kept = 3 * len(K) // 4
        errors = []
        for ridge in RIDGES:
            coef, mean = _solve_ridge(K[:kept, :kept], y[:kept], w[:kept], ridge)
            errors.append(w[kept:] @ (K[kept:, :kept] @ coef + mean - y[kept:]) ** 2)
        self.coef, self.mean = _solve_ridge(K, y, w, float(RIDGES[int(np.argmin(errors))]))

    def predict(self, K: Array) -> Array:
        return K @ self.coef + self.mean


def _solve_ridge(K: Array, y: Array, w: Array, ridge: float) -> tuple[Array, float]:
    """Solve (sqrt(w) K sqrt(w) + ridge) b = sqrt(w) (y - mean), coef = sqrt(w) b."""
    from scipy.linalg import solve

    mean, root = float(np.average(y, weights=w)), np.sqrt(w)
    A = root[:, None] * K * root
    A.flat[:: len(A) + 1] += ridge * float(np.trace(K)) / len(K)
    return root * solve(A, root * (y - mean), assume_a="pos"), mean
