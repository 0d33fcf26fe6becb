"""Newton's method on few rows: the minimum in the basis of the rows is that over all features."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from mercer import KernelClassifier, RandomFourier
from mercer.linear_model.routes import ROUTES
from mercer.linear_model.solvers.ridge_gram import CenteredRows
from mercer.linear_model.solvers.row_basis import RowBasis
from mercer.maps.block import as_block

X, y = (part[:120] for part in load_digits(return_X_y=True))
WEIGHTS = np.random.default_rng(0).integers(0, 3, 120).astype(np.float64)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic", "log_loss"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_few_rows_have_the_minimum_of_all_features(loss, fit_intercept, monkeypatch):
    def fit():
        feature_map = RandomFourier(200, gamma=1e-3, random_state=0)
        options = {"loss": loss, "alpha": 0.1, "tol": 1e-8, "fit_intercept": fit_intercept}
        return KernelClassifier(feature_map, scale=False, **options).fit(X, y, WEIGHTS)

    expanded, expand = [], RowBasis.expand

    def count(self, *solution):
        expanded.append(1)
        return expand(self, *solution)

    monkeypatch.setattr(RowBasis, "expand", count)
    few = fit()
    assert expanded
    monkeypatch.setattr(type(ROUTES["newton-cg"]), "_has_few_rows", lambda *_: False)
    plain = fit()
    assert len(expanded) == 1
    largest = np.abs(plain.feature_coef_).max()
    np.testing.assert_allclose(few.feature_coef_, plain.feature_coef_, atol=1e-5 * largest)
    np.testing.assert_allclose(few.decision_function(X), plain.decision_function(X), atol=1e-4)


def test_few_rows_have_scikit_learns_minimum():
    Z = RandomFourier(300, gamma=1e-3, random_state=0).fit_transform(X)
    options = {"loss": "log_loss", "alpha": 0.1, "tol": 1e-9, "scale": False}
    found = KernelClassifier("linear", **options).fit(Z, y)
    other = LogisticRegression(C=10.0, tol=1e-10, max_iter=10_000).fit(Z, y)
    largest = np.abs(other.coef_).max()
    np.testing.assert_allclose(found.feature_coef_, other.coef_, atol=1e-4 * largest)


def test_a_basis_is_orthonormal_and_keeps_products_of_rows():
    Z = np.random.default_rng(0).normal(size=(20, 50)) + 2
    Y, w = np.ones((20, 1)), np.ones(20)
    basis = RowBasis.of([(as_block(Z[:8]), Y[:8], w[:8]), (as_block(Z[8:]), Y[8:], w[8:])])
    features = basis.block[0].toarray()
    centered = CenteredRows.of([as_block(Z)], Z.mean(axis=0)).gram()
    np.testing.assert_allclose(features @ features.T, centered, atol=1e-10)
    U, shift = basis.expand(np.eye(features.shape[1]), np.zeros(features.shape[1]))
    np.testing.assert_allclose(U.T @ U, np.eye(features.shape[1]), atol=1e-10)
    np.testing.assert_allclose(shift + Z @ U, features, atol=1e-10)
