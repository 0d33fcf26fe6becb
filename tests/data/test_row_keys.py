"""Row keys depend on the content of a row alone."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from mercer.data.row_keys import fold_numbers, row_keys


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_rows_have_equal_keys_wherever_they_are(dtype):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 7)).astype(dtype)
    keys = row_keys(X)
    order = rng.permutation(500)
    np.testing.assert_array_equal(row_keys(X[order]), keys[order])
    np.testing.assert_array_equal(row_keys(np.asfortranarray(X)), keys)
    np.testing.assert_array_equal(row_keys(X[123:125]), keys[123:125])
    assert len(np.unique(keys)) == 500


def test_dense_and_csr_rows_and_both_zeros_have_equal_keys():
    X = np.random.default_rng(0).poisson(0.3, size=(200, 30)).astype(float)
    keys = row_keys(X)
    np.testing.assert_array_equal(row_keys(sp.csr_array(X)), keys)
    np.testing.assert_array_equal(row_keys(np.where(X == 0, -0.0, X)), keys)
    assert row_keys(np.zeros((2, 30))).tolist() == [0, 0]


def test_rows_on_a_device_have_the_keys_of_the_host():
    pytest.importorskip("torch", reason="torch is not installed")
    from tests.helpers.device_data import to_tensor

    from mercer.parallel.device import from_tensor

    X = np.random.default_rng(1).normal(size=(300, 9))
    X[5, 3] = -0.0
    for rows in (X, X.astype(np.float32)):
        np.testing.assert_array_equal(row_keys(from_tensor(to_tensor(rows))), row_keys(rows))


def test_small_integers_have_different_keys_in_the_upper_half():
    rows = np.stack(np.meshgrid(*[np.arange(6.0)] * 5), -1).reshape(-1, 5)  # 7,776 rows
    assert len(np.unique(row_keys(rows) >> np.uint64(32))) > len(rows) - 20


@pytest.mark.parametrize("kind", ["normal", "integers", "offset"])
def test_folds_have_about_equal_numbers_of_rows(kind):
    rng = np.random.default_rng(0)
    X = {
        "normal": rng.normal(size=(5000, 3)),
        "integers": np.arange(5000.0)[:, None],
        "offset": 2.0**53 - np.arange(5000.0)[:, None],
    }[kind]
    counts = np.bincount(fold_numbers(row_keys(X), 5), minlength=5)
    assert counts.min() > 850  # 1,000 expected, standard deviation 28
    assert fold_numbers(np.array([0, 2**64 - 1], dtype=np.uint64), 5).tolist() == [0, 4]
