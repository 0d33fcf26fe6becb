from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
import scipy.sparse as sp

import mercer
from mercer.kernels import Chi2, Gaussian, Laplacian, MinMax


@pytest.mark.parametrize("kernel", [Gaussian(0.3), Laplacian(0.3), Chi2(), MinMax()], ids=repr)
def test_gram_is_the_kernel_tile_by_tile_dense_and_sparse(kernel):
    rng = np.random.default_rng(0)
    X, Z = rng.gamma(1.0, size=(70, 9)), rng.gamma(1.0, size=(33, 9))
    X[X < 0.7] = 0
    expected = kernel(X, Z)
    with patch("mercer.tiles.tile_rows", lambda cost: 16), patch("mercer.tiles.worth_threads", lambda cost, rows: True):
        np.testing.assert_allclose(mercer.gram(kernel, X, Z), expected, rtol=1e-13)
        np.testing.assert_allclose(mercer.gram(kernel, sp.csr_array(X), sp.csc_matrix(Z)), expected, rtol=1e-13)
        np.testing.assert_allclose(mercer.gram(kernel, sp.csr_array(X), Z), expected, rtol=1e-13)
        np.testing.assert_allclose(mercer.gram(kernel, X), kernel(X), rtol=1e-13)


def test_float32_in_gives_float32_out():
    X = np.ones((3, 2), np.float32)
    assert mercer.gram(Chi2(), X).dtype == np.float32
    assert mercer.gram(Chi2(), X, X.astype(np.float64)).dtype == np.float64


def test_a_million_columns_of_sparse_data_cost_only_those_that_are_used():
    X = sp.random_array((20, 10**6), density=1e-5, format="csr", rng=np.random.default_rng(0))
    used = np.unique(X.indices)
    np.testing.assert_allclose(mercer.gram(Chi2(), X), Chi2()(X[:, used]), rtol=1e-13)


def test_rows_of_different_width_are_refused():
    with pytest.raises(ValueError, match="got X with 2 columns and Z with 3"):
        mercer.gram(Chi2(), np.ones((4, 2)), np.ones((4, 3)))
    with pytest.raises(ValueError, match="got X with 2 columns and Z with 3"):
        mercer.gram(Chi2(), sp.csr_array(np.ones((4, 2))), sp.csr_array(np.ones((4, 3))))
