from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import accumulate
from mercer.maps.block import (
    Coded,
    Dense,
    OneHot,
    Sparse,
    allocate_features,
    as_block,
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
