"""gram(kernel, X, Z) is the literal kernel, whatever computes it."""

from __future__ import annotations

import tracemalloc
from unittest.mock import patch

import numpy as np
import pytest
import scipy.sparse as sp

import mercer
from mercer import kernels
from mercer.evaluation.kernel_error import kernel_values
from mercer.kernels import (
    GMM,
    Cauchy,
    Chi2,
    ExpChi2,
    Gaussian,
    Hellinger,
    Intersection,
    JensenShannon,
    Laplacian,
    Linear,
    Matern,
    MinMax,
    Resemblance,
)
from mercer.kernels.euclidean import Scaled
from mercer.kernels.gram import GramByExpansion
from mercer.parallel.tile_size import override_limits

KERNELS = [
    Chi2(),
    Intersection(),
    JensenShannon(),
    MinMax(),
    GMM(),
    GMM(power=0.5),
    Resemblance(),
    Laplacian(0.3),
]
KERNELS += [
    ExpChi2(0.4),
    Cauchy(0.7).over(Chi2()),
    Gaussian(0.3),
    Cauchy(0.4),
    Matern(1.5, 0.3),
    Hellinger(),
    Chi2() + Laplacian(0.2),
]
every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=repr)


def rows(kernel, n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = rng.gamma(1.0, size=(n, 9))
    X[X < 0.7] = 0
    return X * rng.choice([-1, 1], X.shape) if kernel.domain == "real" else X


@every_kernel
def test_gram_is_the_kernel_tile_by_tile_dense_and_sparse(kernel):
    X, Z = rows(kernel, 70, 0), rows(kernel, 33, 1)
    expected = kernel(X, Z)
    small_tiles = override_limits(thread_flops=0, max_tile_rows=16)
    with small_tiles, patch("mercer.kernels.gram._SPARSE_TILE", 10):
        for left in (X, sp.csr_array(X), sp.csc_matrix(X), np.asfortranarray(X)):
            for right in (Z, sp.csr_array(Z)):
                np.testing.assert_allclose(mercer.gram(kernel, left, right), expected, rtol=1e-13)
        np.testing.assert_allclose(mercer.gram(kernel, X), kernel(X), rtol=1e-13)


@every_kernel
def test_float32_keeps_its_word(kernel):
    """16 eps relative; an exponential multiplies the error of its exponent by the exponent's
    size.
    """
    X, Z = rows(kernel, 50, 0).astype(np.float32), rows(kernel, 40, 1).astype(np.float32)
    exact = kernel(X, Z)
    exponential = type(kernel).__name__ in (
        "Laplacian",
        "ExpChi2",
        "Gaussian",
        "ComposedKernel",
        "Sum",
    )
    factor = 1 - np.log(np.minimum(exact, 1)) if exponential else 1.0
    error = np.abs(mercer.gram(kernel, X, Z) - exact)
    assert (error <= 16 * np.finfo(np.float32).eps * exact * factor).all()


@every_kernel
def test_sparse_duplicates_and_explicit_zeros_are_what_they_mean(kernel):
    X = rows(kernel, 20, 0)
    d = X.shape[1]
    halves = (
        np.repeat(X.ravel() / 2, 2),
        np.tile(np.repeat(np.arange(d), 2), 20),
        np.arange(21) * 2 * d,
    )
    twice = sp.csr_array(halves, shape=X.shape)
    np.testing.assert_allclose(mercer.gram(kernel, twice), kernel(X), rtol=1e-13)
    assert twice.nnz == 2 * X.size  # and the caller's matrix is as it was


def test_integers_and_booleans_are_numbers():
    X = np.arange(12).reshape(4, 3)
    np.testing.assert_allclose(mercer.gram(Chi2(), X), Chi2()(X), rtol=1e-14)
    np.testing.assert_allclose(
        mercer.gram(Chi2(), sp.csr_array(X), X > 3), Chi2()(X, X > 3), rtol=1e-14
    )


def test_negative_rows_are_refused_by_place_dense_and_sparse():
    X = rows(Chi2(), 20, 0)
    X[7, 2] = -3.36
    for bad in (X, sp.csr_array(X)):
        with pytest.raises(ValueError, match=r"needs X >= 0, got -3.36 at row 7, column 2"):
            mercer.gram(Chi2(), bad)


def test_nan_stays_nan():
    X = rows(Chi2(), 5, 0)
    X[2, 3] = np.nan
    K = mercer.gram(MinMax(), X)
    assert np.isnan(K[2]).all() and np.isnan(K[:, 2]).all()
    assert np.isfinite(np.delete(np.delete(K, 2, 0), 2, 1)).all()


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1)])
def test_empty_and_single_rows_have_a_gram_matrix(shape):
    X = np.ones(shape)
    np.testing.assert_array_equal(
        mercer.gram(Intersection(), X), np.full((shape[0], shape[0]), float(shape[1]))
    )


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


def test_what_is_no_kernel_or_no_matrix_is_refused_with_a_sentence():
    X = np.ones((3, 2))
    for bad in ("gaussian", Chi2):
        with pytest.raises(
            TypeError, match=r"gram needs a kernel such as mercer.kernels.Chi2\(\), got"
        ):
            mercer.gram(bad, X)
    with pytest.raises(ValueError, match="gram needs 2-d arrays of real numbers, got 1-d"):
        mercer.gram(Chi2(), sp.coo_array(np.ones(3)))
    with pytest.raises(ValueError, match="of complex128"):
        mercer.gram(Chi2(), sp.csr_array(X + 1j))
    with pytest.raises(ValueError, match="n_jobs must be None"):
        mercer.gram(Chi2(), X, n_jobs=0)


def test_values_beyond_the_dtype_are_refused_by_place():
    X = np.ones((300, 2), np.float32)
    X[200] = 1e30
    with pytest.raises(
        ValueError,
        match=r"Linear\(\) is beyond float32: got 1e\+30 at row 200, column 0, with row 200 of "
        r"Z\. Scale the data",
    ):
        mercer.gram(Linear(), X)


@pytest.mark.parametrize("scale", [1e-22, 1e22])
def test_squares_that_float32_cannot_hold_are_made_in_float64(scale):
    X = (rows(Gaussian(), 20, 0) * scale).astype(np.float32)
    kernel = Cauchy(0.1 / scale**2)
    for some in (X, sp.csr_array(X)):
        np.testing.assert_allclose(mercer.gram(kernel, some), kernel(X), rtol=1e-5)


@pytest.mark.parametrize("scale", [1e-30, 1e20])
def test_powers_stay_in_range_in_float32(scale):
    X = (rows(GMM(), 20, 0) * scale).astype(np.float32)
    exact = GMM(power=2.0)(X)
    np.testing.assert_allclose(mercer.gram(GMM(power=2.0), X), exact, rtol=1e-5)
    np.testing.assert_allclose(mercer.gram(GMM(power=2.0), sp.csr_array(X)), exact, rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kernel", [kernels.Gaussian(0.3), kernels.Cauchy(0.3)], ids=repr)
def test_radial_kernels_of_scaled_columns_take_the_op_of_the_kernel(kernel, dtype):
    """The kernel of the estimators' default map; it was summed column by column."""
    rng = np.random.default_rng(0)
    X, Z = (rng.normal(size=(n, 5)).astype(dtype) for n in (30, 20))
    scaled = kernel.over(Scaled(np.arange(1.0, 6.0), np.arange(5.0)))
    expected = scaled(X.astype(np.float64), Z.astype(np.float64))
    with patch("mercer.kernels.euclidean.sum_columns", side_effect=AssertionError):
        K = mercer.gram(scaled, X, Z)
        same = mercer.gram(scaled, X)
    assert K.dtype == dtype
    np.testing.assert_allclose(K, expected, rtol=1e-12 if dtype == np.float64 else 1e-5)
    np.testing.assert_allclose(np.diag(same), 1.0)


@pytest.mark.parametrize("kernel", [Gaussian(0.7), ExpChi2(0.7)])
def test_expanded_distances_have_the_digits_of_direct_ones(kernel):
    """Near duplicates that are far from all others would lose digits, and are computed directly."""
    rng = np.random.default_rng(3)
    Z = rng.gamma(0.5, size=(30, 40)) / 10
    Z[-2:] += 4
    X = np.concatenate([rng.gamma(0.5, size=(50, 40)) / 10, Z + 1e-9 * rng.random(Z.shape)])
    exact = kernel(X.astype(np.longdouble), Z.astype(np.longdouble)).astype(np.float64)
    expansion = GramByExpansion.of(kernel, Z)
    assert expansion is not None
    found = expansion(X)
    assert found is not None
    allowed = 64 * np.finfo(np.float64).eps * (1 - np.log(exact)) * exact
    assert np.all(np.abs(found - exact) <= allowed)


def test_expanded_distances_are_for_dense_float64_rows_of_two_kernels():
    X = np.random.default_rng(4).random((5, 3))
    expansion = GramByExpansion.of(Gaussian(1.0), X)
    assert expansion is not None
    assert expansion(X) is not None
    assert expansion(X.astype(np.float32)) is None
    assert expansion(sp.csr_array(X)) is None
    assert expansion(1e200 * X) is None
    assert GramByExpansion.of(Laplacian(1.0), X) is None
    assert GramByExpansion.of(Gaussian(1.0), X.astype(np.float32)) is None
    assert GramByExpansion.of(Gaussian(1.0), sp.csr_array(X)) is None


@pytest.mark.parametrize("outer", [Gaussian(0.5), GMM(), Laplacian(0.1)])
def test_sparse_rows_of_scaled_columns_stay_sparse(outer):
    rng = np.random.default_rng(0)
    rows = sp.random_array((20, 10**6), density=1e-5, format="csr", rng=rng)
    kernel = outer.over(Scaled(1 + rng.random(10**6)))
    tracemalloc.start()
    try:
        K = mercer.gram(kernel, rows)
        values = kernel_values(kernel, rows, np.triu_indices(20))
        assert tracemalloc.get_traced_memory()[1] < 20 * 10**6
    finally:
        tracemalloc.stop()
    few = np.unique(rows.indices)
    narrow = outer.over(Scaled(kernel.inner.scales[few]))
    exact = narrow(rows[:, few].toarray())
    np.testing.assert_allclose(K, exact, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(values, exact[np.triu_indices(20)], rtol=1e-12, atol=1e-14)
