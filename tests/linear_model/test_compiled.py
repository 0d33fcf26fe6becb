"""Compiled predictors: the predictions of the model for one row or a few, in any thread."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from mercer import (
    Anchors,
    Chi2Series,
    Hellinger,
    KernelClassifier,
    KernelRegressor,
    Nystroem,
    RandomFourier,
    Tabular,
)
from mercer.maps import every_map

rng = np.random.default_rng(0)
X = rng.gamma(0.7, size=(300, 12)).astype(np.float32).astype(np.float64)  # exact in both dtypes
y = X[:, 0] + X[:, 1] * X[:, 2]
LABELS = np.array(["low", "middle", "high"])[np.digitize(y, [0.5, 2])]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    "feature_map",
    [case for cls in every_map() if cls.name for case in cls.cases()[:1]],
    ids=lambda case: type(case).__name__,
)
def test_predictions_are_those_of_the_model_for_every_map(feature_map, dtype):
    model = KernelRegressor(feature_map, alpha=0.1).fit(X, y)
    predictor = model.compiled(dtype)
    expected = model.predict(X.astype(dtype))
    scale = np.abs(expected).max()
    tolerance = 1e-12 if dtype == "float64" else 2e-6
    np.testing.assert_allclose(predictor.predict(X), expected, atol=tolerance * scale)
    one = predictor.predict(X[7])
    assert np.ndim(one) == 0 and one == pytest.approx(expected[7], abs=tolerance * scale)
    np.testing.assert_allclose(predictor.predict([list(X[7])]), [one])


@pytest.mark.parametrize("loss", ["squared", "log_loss", "logistic", "squared_hinge"])
@pytest.mark.parametrize("labels", [LABELS, LABELS == "low"], ids=["three", "two"])
def test_classes_scores_and_probabilities_are_those_of_the_model(loss, labels):
    model = KernelClassifier(RandomFourier(64, random_state=0), loss=loss, alpha=0.1).fit(X, labels)
    probability = model.predict_proba(X)  # measures the calibration of losses without one
    predictor = model.compiled()
    np.testing.assert_array_equal(predictor.predict(X), model.predict(X))
    np.testing.assert_allclose(predictor.decision_function(X), model.decision_function(X))
    np.testing.assert_allclose(predictor.predict_proba(X), probability, atol=1e-12)
    np.testing.assert_allclose(predictor.predict_proba(X[0]), probability[0], atol=1e-12)
    assert predictor.predict(X[0]) == model.predict(X[:1])[0]


def test_several_targets_have_a_row_of_predictions():
    model = KernelRegressor(Chi2Series(3), alpha=0.1).fit(X, np.column_stack([y, -y]))
    np.testing.assert_allclose(model.compiled().predict(X[3]), model.predict(X[3:4])[0])


def test_float32_rows_with_large_means_keep_the_digits_of_the_model():
    rows = (1e6 + X).astype(np.float32)
    model = KernelRegressor("linear", alpha=1e-3, scale=False).fit(rows, y)
    expected = model.predict(rows)
    assert np.abs(rows.astype(np.float32) @ model.coef_.astype(np.float32)).max() > 1e4
    np.testing.assert_allclose(model.compiled("float32").predict(rows), expected, atol=1e-6)


def test_threads_share_a_predictor():
    model = KernelRegressor(RandomFourier(128, random_state=0), alpha=0.1).fit(X, y)
    predictor = model.compiled()
    expected = [float(predictor.predict(row)) for row in X]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            assert [float(found) for found in pool.map(predictor.predict, X)] == expected


def test_a_predictor_stays_as_it_was_when_the_model_is_fitted_again():
    model = KernelRegressor(RandomFourier(64, random_state=0), alpha=0.1).fit(X, y)
    predictor = model.compiled()
    before = predictor.predict(X[0])
    model.fit(X[:, :5], -y)
    assert predictor.predict(X[0]) == before


@pytest.mark.parametrize(
    ("rows", "error", "words"),
    [
        (X[0, :5], ValueError, r"rows of 12 numbers, .* got an array of shape \(5,\)"),
        (X[None], ValueError, r"got an array of shape \(1, 300, 12\)"),
        (np.where(np.arange(12) == 4, np.nan, X[0]), ValueError, "NaN.*column 4"),
        (np.where(np.arange(12) == 4, np.inf, X[0]), ValueError, "infinity.*column 4"),
        (-X[0], ValueError, "Negative values in data: Hellinger needs X >= 0"),
        (pd.DataFrame(X), TypeError, "needs an array of numbers, got a DataFrame"),
        (sp.csr_array(X), TypeError, "needs an array of numbers, got a csr_array"),
    ],
)
def test_rows_that_are_not_valid_are_refused(rows, error, words):
    predictor = KernelRegressor(Hellinger(), alpha=0.1).fit(X, y).compiled()
    with pytest.raises(error, match=words):
        predictor.predict(rows)


def test_models_and_dtypes_that_cannot_be_compiled_are_refused():
    model = KernelRegressor(Hellinger(), alpha=0.1).fit(X, y)
    with pytest.raises(ValueError, match="dtype must be 'float64' or 'float32', got 'int64'"):
        model.compiled("int64")
    with pytest.raises(AttributeError, match="The model has no probabilities"):
        model.compiled().predict_proba(X)
    frame = pd.DataFrame(X[:, :3]).assign(kind=LABELS)
    frame.columns = [*"abc", "kind"]
    table = KernelRegressor(Tabular() >> RandomFourier(32), alpha=0.1).fit(frame, y)
    with pytest.raises(ValueError, match=r"fitted on a table .*: use predict"):
        table.compiled()


def test_a_warning_of_rows_outside_the_range_is_that_of_the_model():
    model = KernelRegressor(Anchors(), alpha=0.1).fit(X, y)
    with pytest.warns(UserWarning, match="outside the range of the anchors"):
        expected = model.predict(1e3 * X[:1])[0]
    with pytest.warns(UserWarning, match="outside the range of the anchors"):
        assert model.compiled().predict(1e3 * X[0]) == pytest.approx(expected)


def test_a_kernel_without_negative_numbers_refuses_them():
    model = KernelRegressor(Nystroem(8, kernel="chi2", random_state=0), alpha=0.1).fit(X, y)
    with pytest.raises(ValueError, match="Negative"):
        model.compiled().predict(-X[0])
