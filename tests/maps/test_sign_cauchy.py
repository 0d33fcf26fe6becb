"""Signs of stable projections, and the exact chance that they agree."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from tests.helpers.reduction_data import parquet

from mercer import KernelClassifier, SignCauchy, open_stream
from mercer.kernels import SignStable

A = np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.1, 0.0, 0.5]])
B = np.array([[0.25, 0.25, 0.25, 0.25], [0.7, 0.1, 0.1, 0.1]])
G = np.array([[-5.0, 3.0, 0.0, 2.0], [-1.0, 4.0, -2.0, 0.0]])


@pytest.mark.parametrize(
    ("alpha", "X", "differ"),
    [
        (1.0, A, 0.220353526),
        (1.0, B, 0.187015630),
        (1.0, np.array([[1.0, 1, 0], [0, 1, 1]]), 1 / 3),
        (2.0, A, np.arccos(0.7324670208) / np.pi),
        (2.0, B, np.arccos(0.6933752453) / np.pi),
    ],
)
def test_the_chance_of_equal_signs_has_its_reference_values(alpha, X, differ):
    assert 1 - SignStable(alpha)(X)[0, 1] == pytest.approx(differ, abs=1e-9)


def test_the_closed_form_for_cauchy_weights_is_the_integral():
    rng = np.random.default_rng(0)
    X = np.where(rng.random((12, 6)) < 0.7, rng.normal(size=(12, 6)), 0)
    X[3] = 0
    X[4] = 2 * X[5]
    X[6] = -X[5]
    close = SignStable(1.0)(X)
    np.testing.assert_allclose(close, SignStable(1 + 1e-9)(X), atol=1e-8)
    assert close[4, 5] == pytest.approx(1.0) and close[5, 6] == pytest.approx(0.0, abs=1e-12)
    assert close[3, 3] == 1.0 and close[3, 0] == 0.5


@pytest.mark.parametrize("alpha", [0.3, 1.0, 1.5, 2.0])
def test_signs_agree_as_often_as_the_integral_says(alpha):
    X = np.vstack([A, G])
    phi = SignCauchy(40000, alpha=alpha, random_state=1).fit(X)
    codes = phi.codes(X)
    rates = np.array([[np.mean(a == b) for a in codes] for b in codes])
    np.testing.assert_allclose(rates, phi.kernel_(X), atol=4 * 0.5 / 200)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("alpha", [0.1, "loo", "kfold"])
def test_a_model_solves_the_normal_equations_of_the_csr_features(dtype, alpha):
    X, y = _rows(300)
    phi = SignCauchy(70, random_state=0)
    model = KernelClassifier(phi, alpha=alpha).fit(X.astype(dtype), y)
    features = model.feature_map_.transform(X)
    assert sp.issparse(features)
    Z = features.toarray() - features.mean(axis=0)
    coef = np.linalg.solve(Z.T @ Z + model.alpha_ * np.eye(140), Z.T @ y)
    tolerance = 1e-9 if dtype == np.float64 else 1e-4
    np.testing.assert_allclose(model.feature_coef_, coef, atol=tolerance * np.abs(coef).max())


def test_threads_and_chunks_change_no_bit_of_a_model(small_grid, tmp_path):
    X, y = _rows(500)
    labels = (y > 0).astype(np.int64)
    one, two = (
        KernelClassifier(SignCauchy(150, random_state=0), n_jobs=n_jobs).fit(X, labels)
        for n_jobs in (1, 2)
    )
    stream = open_stream(parquet(tmp_path / "rows", X, labels, 37), target="label")
    chunked = KernelClassifier(SignCauchy(150, random_state=0)).fit(stream)
    for other in (two, chunked):
        assert other.alpha_ == one.alpha_
        np.testing.assert_array_equal(other.feature_coef_, one.feature_coef_)


def _rows(n):
    X = np.random.default_rng(0).normal(size=(n, 5))
    return X, np.sign(X[:, 0] * X[:, 1])
