"""Confusion matrices and residuals of the best model, as the report shows them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix, precision_score, recall_score

from mercer import Identity, KernelClassifier, KernelRegressor
from mercer.report.best_model import fit_best
from mercer.report.data import SampleSplit
from mercer.report.predictions import (
    SHOWN_CLASSES,
    SHOWN_ERRORS,
    Confusion,
    measure_confusion,
    measure_residuals,
)


def classes(k: int = 4, n: int = 600) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.integers(k, size=n)
    return np.eye(k)[y] + 0.6 * rng.normal(size=(n, k)), y


@pytest.mark.parametrize("labels", [int, str, object])
def test_counts_recalls_and_precisions_are_those_of_scikit_learn(labels):
    X, y = classes()
    y = y.astype(labels) if labels is not object else np.array([f"c{i}" for i in y], dtype=object)
    best = fit_best("linear", KernelClassifier(Identity()), SampleSplit.of(X, y, classes=True), 0)
    found = measure_confusion(best)
    truth, predicted = best.sample.y, best.fitted.predict(best.sample.test)
    assert found.counts.tolist() == confusion_matrix(truth, predicted).tolist()
    assert found.classes == tuple(map(str, np.unique(y)))
    assert found.rows == 300 and found.accuracy == np.mean(truth == predicted)
    _, totals, recalls, precisions = zip(*found.by_class, strict=True)
    assert totals == tuple(np.unique(truth, return_counts=True)[1])
    assert recalls == pytest.approx(recall_score(truth, predicted, average=None))
    assert precisions == pytest.approx(precision_score(truth, predicted, average=None))


def test_errors_are_the_most_frequent_ones_and_a_class_without_rows_has_no_recall():
    counts = np.array([[5, 2, 0], [1, 9, 0], [0, 0, 0]])
    found = Confusion("model", ("a", "b", "c"), counts)
    assert found.errors == [("a", "b", 2, 7), ("b", "a", 1, 10)]
    assert found.by_class[2] == ("c", 0, None, None)
    many = Confusion("model", tuple(map(str, range(40))), np.ones((40, 40), dtype=int))
    assert len(many.errors) == SHOWN_ERRORS


def test_the_most_frequent_classes_are_drawn_in_their_order():
    k = SHOWN_CLASSES + 10
    counts = np.diag(np.arange(k))
    found = Confusion("model", tuple(map(str, range(k))), counts).most_frequent()
    assert found.classes == tuple(map(str, range(10, k)))
    assert np.array_equal(found.counts, counts[10:, 10:])


def test_a_class_that_is_in_the_test_rows_alone_is_counted():
    X, y = classes(3)
    y[1] = 7
    sample = SampleSplit.of(X, y)
    found = measure_confusion(fit_best("linear", KernelClassifier(Identity()), sample, 0))
    assert found.classes == ("0", "1", "2", "7")
    assert found.by_class[3][1:] == (1, 0.0, None)


def test_residuals_are_targets_minus_predictions():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = X[:, 0] + 0.1 * rng.normal(size=400)
    best = fit_best("linear", KernelRegressor(Identity()), SampleSplit.of(X, y), 0)
    found = measure_residuals(best)
    assert found.residuals == pytest.approx(y[1::2] - best.fitted.predict(X[1::2]))
    assert found.rms == pytest.approx(np.sqrt(np.mean(found.residuals**2)))
    assert np.mean(np.abs(found.residuals) < found.quantile(0.5)) == pytest.approx(0.5, abs=0.01)


def test_rows_that_alternate_between_two_classes_have_both_in_each_half():
    y = np.arange(60) % 2
    sample = SampleSplit.of(np.arange(60.0)[:, None], y, classes=True)
    assert np.bincount(sample.y).tolist() == np.bincount(sample.train_y).tolist() == [15, 15]
    assert np.array_equal(sample.test[:, 0] % 2, sample.y)
