"""Columns as they are, and divided by their spread: what the battery does not know of them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import GCWS, Chi2Series, Identity, KernelRegressor, RandomFourier, Scaled, load, save


def table() -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.gamma(1.0, size=(200, 3)) * [1.0, 1000.0, 1e-6]


def test_columns_have_one_spread_and_a_constant_one_stays():
    X = np.column_stack([table(), np.full(200, 7.0)])
    fitted = Scaled().fit(X)
    np.testing.assert_allclose(fitted.scale_, [*X.std(axis=0)[:3], 1.0], rtol=1e-12)
    np.testing.assert_allclose(fitted.transform(X).std(axis=0), [1, 1, 1, 0], atol=1e-12)


def test_sparse_rows_stay_sparse_and_no_zero_becomes_another_number():
    X = sp.csr_array(table() * (np.random.default_rng(1).random((200, 3)) < 0.3))
    for feature_map in (Scaled(), Identity()):
        Z = feature_map.fit_transform(X)
        assert sp.issparse(Z)
        np.testing.assert_array_equal(Z.indices, X.indices)
        np.testing.assert_allclose(Z.toarray(), feature_map.fit_transform(X.toarray()), rtol=1e-13)
        Z.data[:] = -1.0
        assert X.min() >= 0


def test_a_kernel_of_differences_has_a_bandwidth_for_each_column():
    X = table()
    both = (Scaled() >> RandomFourier(4096, gamma=0.3, random_state=0)).fit(X)
    U = X / X.std(axis=0)
    exact = np.exp(-0.3 * ((U[:, None] - U[None]) ** 2).sum(axis=2))
    np.testing.assert_allclose(both.kernel_(X), exact, rtol=1e-10)
    assert np.abs(both.transform(X) @ both.transform(X).T - exact).max() < 0.1


def test_maps_of_numbers_of_at_least_0_take_the_scaled_columns():
    X = table()
    for last in (Chi2Series(), GCWS(64, random_state=0)):
        assert (Scaled() >> last).fit(X).transform(X).shape[0] == 200


def test_columns_whose_squares_are_beyond_float64_are_refused_in_a_sentence():
    X = table()
    X[:, 1] *= 1e200
    with pytest.raises(
        ValueError,
        match=r"Scaled needs float64 rows with \|x\| below 2e\+99 to fit to, got .* column 1",
    ):
        Scaled().fit(X)


def test_a_model_on_scaled_columns_is_saved_and_loaded(tmp_path):
    X = table()
    model = KernelRegressor(Scaled() >> RandomFourier(64, random_state=0)).fit(X, X[:, 0])
    save(model, tmp_path / "model.mercer")
    np.testing.assert_array_equal(load(tmp_path / "model.mercer").predict(X), model.predict(X))
