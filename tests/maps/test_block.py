from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import accumulate
from mercer.maps.block import (
    DENSE_VALUES,
    Coded,
    Dense,
    OneHot,
    Sparse,
    allocate_features,
    as_block,
    gram_operand,
    is_block,
    matrix,
)
from mercer.stats.basic import Range

Z = np.random.default_rng(0).normal(size=(6, 4)) * (np.random.default_rng(1).random((6, 4)) < 0.6)


@pytest.mark.parametrize("block", [Dense(Z), Sparse(sp.csr_array(Z))], ids=["dense", "sparse"])
def test_a_block_is_its_matrix(block):
    assert is_block(block)
    w, r = np.arange(8.0).reshape(4, 2), np.arange(6.0)
    np.testing.assert_allclose(block @ w, Z @ w, atol=1e-14)
    np.testing.assert_allclose(block.T @ r, Z.T @ r, atol=1e-14)
    np.testing.assert_allclose(block.gram(), Z.T @ Z, atol=1e-14)
    assert isinstance(block.gram(), np.ndarray)
    np.testing.assert_array_equal(block.toarray(), Z)
    np.testing.assert_array_equal(block.tocsr().toarray(), Z)
    assert (block.shape, block.dtype) == (Z.shape, Z.dtype)


def test_nbytes_counts_the_arrays():
    csr = sp.csr_array(Z)
    assert Dense(Z).nbytes == Z.nbytes
    assert Sparse(csr).nbytes == csr.data.nbytes + csr.indices.nbytes + csr.indptr.nbytes


def test_rows_become_the_block_of_their_kind_and_back_without_a_copy():
    csr = sp.csr_array(Z)
    assert matrix(as_block(Z)) is Z
    assert matrix(as_block(csr)) is csr


def one_hot(width: int, dtype: type = np.float64, rows: int = 50) -> Coded:
    rng = np.random.default_rng(width)
    empty = np.arange(rows) % 7 == 3
    codes = rng.integers(0, width, (rows, 12)).astype(np.uint8)
    return Coded(codes, OneHot(width, 0.3, dtype), empty=empty)


@pytest.mark.parametrize("width", [2, DENSE_VALUES, DENSE_VALUES + 1])
def test_products_of_codes_of_few_values_are_dense_and_features_are_csr(width):
    block = one_hot(width)
    operand, features = gram_operand(block), matrix(block)
    assert isinstance(operand, np.ndarray) == (width <= DENSE_VALUES)
    assert sp.issparse(features) and features.format == "csr"
    Z = features.toarray()
    np.testing.assert_array_equal(operand if width <= DENSE_VALUES else operand.toarray(), Z)
    np.testing.assert_allclose(block.gram(), Z.T @ Z, rtol=1e-14, atol=1e-14)
    assert isinstance(gram_operand(Dense(Z)), np.ndarray)
    assert sp.issparse(gram_operand(Sparse(features)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("columns", [1, 64, 65, 127, 128, 129, 200])
@pytest.mark.parametrize("fractions", [False, True])
def test_codes_times_many_columns_are_the_codes_times_each(dtype, columns, fractions):
    rng = np.random.default_rng(columns)
    block = one_hot(4, dtype)
    if fractions:
        codes = block.codes % 3
        block = Coded(
            codes, rng.random((1, 4, 3)).astype(dtype), rng.random((50, 12)).astype(dtype)
        )
    W = rng.normal(size=(block.shape[1], columns)).astype(dtype)
    product = block @ W
    assert (product.shape, product.dtype) == ((50, columns), dtype)
    if not fractions:  # BLAS multiplies tables and weights, and may round otherwise for one column
        np.testing.assert_array_equal(product[:, -1], block @ W[:, -1])
    scale = 1e-5 if dtype == np.float32 else 1e-13
    np.testing.assert_allclose(product, block.toarray() @ W, rtol=scale, atol=scale)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_outputs_begin_at_a_huge_page(dtype):
    for shape in ((0, 5), (3, 0), (7, 11), (1023, 1024), (1025, 1024), (2000, 3001)):
        out = allocate_features(shape, np.dtype(dtype))
        assert (out.shape, out.dtype) == (shape, dtype)
        assert out.flags.c_contiguous and out.flags.writeable and out.flags.aligned
        assert out.nbytes < 2**22 or out.ctypes.data % 2**21 == 0
        out[:] = 1
        assert out.sum() == out.size


class Foreign:
    """Dense block of another library, whose transpose is expensive."""

    def __init__(self, Z):
        self.Z, self.shape, self.dtype, self.nbytes = Z, Z.shape, Z.dtype, Z.nbytes

    @property
    def T(self):
        raise AssertionError("no transpose is needed")

    def __matmul__(self, w):
        return self.Z @ w

    def gram(self):
        return self.Z.T @ self.Z

    def toarray(self):
        return self.Z

    def tocsr(self):
        return sp.csr_array(self.Z)


def test_a_value_with_all_attributes_of_a_block_is_one():
    assert is_block(Foreign(Z))
    assert is_block(Coded(np.zeros((2, 3), np.uint8), OneHot(4, 1.0)))
    for other in (Z, sp.csr_array(Z), 1, None, "rows", object()):
        assert not is_block(other)


def test_a_sum_transposes_no_block_that_its_statistic_does_not():
    blocks = [Sparse(sp.csr_array(Z)), Sparse(sp.csr_array(2 * Z)), Foreign(Z)]
    seen = accumulate(iter(blocks), Range())
    assert seen.rows == 18
    assert all("T" not in vars(block) for block in blocks[:2])
