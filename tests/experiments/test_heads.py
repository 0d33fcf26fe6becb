"""The learners of the papers are those of scikit-learn and of this library.

Accuracies are in per cent.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from experiments.heads import (
    RIDGES,
    Score,
    accuracy,
    exact_ridge,
    exact_svm,
    learner,
    over_draws,
    svm,
)
from experiments.sets import Split
from sklearn.datasets import load_digits
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVC, LinearSVC

from mercer import Homogeneous, KernelClassifier, RandomFourier, gram
from mercer.kernels import Chi2, Gaussian

X, y = load_digits(return_X_y=True)
SPLIT = Split(X[:400] / 16, y[:400], X[400:900] / 16, y[400:900])


def fourier(seed: int = 0) -> RandomFourier:
    return RandomFourier(64, gamma=0.1, random_state=seed)


def per_cent(predicted: np.ndarray) -> float:
    return 100 * float(np.mean(predicted == SPLIT.y_test))


def test_accuracy_is_in_per_cent():
    assert accuracy(SPLIT, SPLIT.y_test) == 100
    assert accuracy(SPLIT, np.where(np.arange(500) < 125, SPLIT.y_test, -1)) == 25


def test_svm_is_liblinear_on_the_features_of_the_training_rows():
    made = Homogeneous().fit(SPLIT.X)
    model = LinearSVC(C=0.1, fit_intercept=False, random_state=0).fit(
        made.transform(SPLIT.X), SPLIT.y
    )
    found = svm(Homogeneous(), SPLIT, C=0.1, bias=False)
    assert found.accuracy == per_cent(model.predict(made.transform(SPLIT.X_test)))
    assert (found.features, found.bytes) == (192, 192 * 8)


def test_svm_without_a_map_is_on_the_rows():
    model = LinearSVC(C=1.0, dual=True, tol=0.1, random_state=0).fit(SPLIT.X, SPLIT.y)
    found = svm(None, SPLIT, dual=True, tol=0.1)
    assert found.accuracy == per_cent(model.predict(SPLIT.X_test))
    assert (found.features, found.bytes) == (64, 64 * 8)
    rows = sp.csr_array(SPLIT.X)
    assert svm(
        None, Split(rows, SPLIT.y, sp.csr_array(SPLIT.X_test), SPLIT.y_test), dual=True, tol=0.1
    ).bytes == ((rows.data.nbytes + rows.indices.nbytes + rows.indptr.nbytes) / 400)


def test_svm_has_a_bias_where_it_is_asked_for():
    x = np.linspace(1, 2, 200)[:, None]
    split = Split(x, x[:, 0] > 1.7, x, x[:, 0] > 1.7)
    assert svm(None, split, C=1e4).accuracy > 98
    assert svm(None, split, C=1e4, bias=False).accuracy == pytest.approx(70)


def test_learner_is_the_classifier_of_this_library():
    found = learner(fourier(), SPLIT, alpha=0.1)
    model = KernelClassifier(fourier(), alpha=0.1).fit(SPLIT.X, SPLIT.y)
    assert found.accuracy == per_cent(model.predict(SPLIT.X_test))
    assert found.features == 64


@pytest.mark.parametrize("unlabeled", [False, True])
def test_learner_takes_components_of_training_rows_or_of_all(unlabeled):
    found = learner(fourier(), SPLIT, pca=10, alpha=0.1, unlabeled=unlabeled)
    model = KernelClassifier(fourier(), alpha=0.1, pca=10)
    model.fit(SPLIT.X, SPLIT.y, unlabeled=SPLIT.X_test if unlabeled else None)
    assert found.accuracy == per_cent(model.predict(SPLIT.X_test))
    assert found.features == 10


def test_exact_svm_is_libsvm_on_kernel_values():
    model = SVC(C=2.0, gamma=0.1).fit(SPLIT.X, SPLIT.y)
    found = exact_svm(Gaussian(0.1), SPLIT, C=2.0)
    # A row that rounding turns.
    assert found.accuracy == pytest.approx(per_cent(model.predict(SPLIT.X_test)), abs=0.21)
    assert found.features == 400


@pytest.mark.parametrize("labels", [y, y == 8], ids=["ten classes", "one in ten"])
@pytest.mark.parametrize(
    "kernel", [Chi2(), lambda X, Z=None: gram(Chi2(), X, Z)], ids=["kernel", "function"]
)
def test_exact_ridge_is_kernel_ridge_with_the_best_ridge_of_held_out_rows(kernel, labels):
    split = Split(SPLIT.X[:100], labels[:100], SPLIT.X_test, labels[400:900])
    classes = np.unique(split.y)
    Y = np.where(split.y[:, None] == classes, 1.0, -1.0)
    K, K_test = gram(Chi2(), split.X), gram(Chi2(), split.X_test, split.X)

    def predicted(rows: np.ndarray, others: np.ndarray, ridge: float) -> np.ndarray:
        part, mean = K[np.ix_(rows, rows)], Y[rows].mean(axis=0)
        alpha = ridge * np.diag(part).mean()
        model = KernelRidge(alpha=alpha, kernel="precomputed").fit(part, Y[rows] - mean)
        return classes[np.argmax(model.predict(others[:, rows]) + mean, axis=1)]

    out = np.arange(100) % 4 == 3
    ridges = RIDGES[::-1]
    right = [
        np.mean(predicted(np.flatnonzero(~out), K[out], ridge) == split.y[out]) for ridge in ridges
    ]
    expected = predicted(np.arange(100), K_test, ridges[int(np.argmax(right))])
    assert exact_ridge(kernel, split).accuracy == accuracy(split, expected)


def test_exact_ridge_takes_rows_that_are_like_no_other_for_the_largest_class():
    X = np.eye(24)[:, :23]
    split = Split(X[:20], np.arange(20) // 14, X[20:23], np.zeros(3))
    assert exact_ridge(lambda X, Z=None: X @ (X if Z is None else Z).T, split).accuracy == 100


def test_draws_are_seeded_from_0_and_averaged():
    found = over_draws(3, lambda seed: Score(80.0 + seed, 2.0 * seed, 7, 5.0))
    assert (found.mean, found.spread, found.draws) == (81.0, 1.0, 3)
    assert (found.seconds, found.features, found.bytes) == (2.0, 7, 5.0)
