"""Products of blocks with few and with many columns, and products with Hessians."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.linear_model.solvers.blocks import multiply, multiply_hessian, multiply_transposed
from mercer.maps.block import Coded, Dense, OneHot
from mercer.parallel import threads
from mercer.parallel.threads import limit_threads

ROWS = 1100  # two tiles and a part of a third
draw = np.random.default_rng(0)
BLOCKS = {
    "float64": Dense(draw.normal(size=(ROWS, 70))),
    "float32": Dense(draw.normal(size=(ROWS, 70)).astype(np.float32)),
    "codes": Coded(draw.integers(0, 4, (ROWS, 9)).astype(np.uint8), OneHot(4, 0.3)),
}
every_block = pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
every_width = pytest.mark.parametrize("columns", [1, 2, 7, 32, 33])


@every_block
@every_width
def test_few_columns_and_many_are_multiplied_alike(block, columns):
    Z = block.toarray().astype(np.float64)
    W, R = draw.normal(size=(Z.shape[1], columns)), draw.normal(size=(ROWS, columns))
    np.testing.assert_allclose(multiply(block, W), Z @ W, rtol=0, atol=1e-11)
    np.testing.assert_allclose(multiply_transposed(block, R), Z.T @ R, rtol=0, atol=1e-10)
    if isinstance(block, Dense):
        single = W.astype(block.dtype)
        rounding = 1e-12 if block.dtype == np.float64 else 1e-4
        np.testing.assert_allclose(block @ single, Z @ single, rtol=0, atol=rounding)


@every_block
@every_width
def test_a_product_with_a_hessian_is_that_of_its_matrix(block, columns):
    Z = block.toarray().astype(np.float64)
    P, center = draw.normal(size=(Z.shape[1], columns)), draw.normal(size=columns)
    C = draw.random((ROWS, columns))
    U = Z @ P - center
    kind = block.dtype
    image, total, bend = multiply_hessian(
        block, P.astype(kind), center.astype(kind), lambda U, rows: C[rows].astype(U.dtype) * U
    )
    single = kind == np.float32 or isinstance(block, Coded)  # codes are multiplied in float32
    for found, exact in (
        (image, Z.T @ (C * U)),
        (total, (C * U).sum(axis=0)),
        (bend, (C * U**2).sum(axis=0)),
    ):
        scale = np.abs(exact).max()
        np.testing.assert_allclose(found, exact, rtol=0, atol=(1e-5 if single else 1e-12) * scale)


def test_a_product_with_a_hessian_is_the_same_on_any_number_of_threads(monkeypatch):
    monkeypatch.setattr(threads, "is_worth_threads", lambda *_: True)
    block = BLOCKS["float32"]
    P = draw.normal(size=(70, 3)).astype(np.float32)
    found = []
    for n_jobs in (1, 3):
        with limit_threads(n_jobs):
            found.append(multiply_hessian(block, P, np.zeros(3, np.float32), lambda U, rows: U))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
