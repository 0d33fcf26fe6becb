"""Stages and random matrices against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import hadamard
from scipy.special import ndtri
from scipy.stats import chi, kstest, qmc

from mercer.errors import RowError
from mercer.maps.stages import linear
from mercer.maps.stages.elementwise import (
    ChebyshevLift,
    Cos,
    CosSin,
    HomogeneousLift,
    RowNorm,
    SeriesLift,
)
from mercer.maps.stages.fourier import FourierFeatures
from mercer.rng import Rng


def test_orthogonal_rows_are_orthogonal_in_blocks_with_chi_lengths():
    d = 12
    panel = linear.sample_orthogonal(Rng(0), 5 * d, d)
    block = panel[:, :d].T @ panel[:, :d]
    np.testing.assert_allclose(block - np.diag(np.diag(block)), 0, atol=1e-12)
    lengths = np.linalg.norm(linear.sample_orthogonal(Rng(1), 2000, d), axis=0)
    assert kstest(lengths, chi(d).cdf).pvalue > 0.01


def test_orthogonal_rows_have_uniform_directions():
    first = np.array([linear.sample_orthogonal(Rng(seed), 1, 3)[:, 0] for seed in range(4000)])
    # Length times direction is standard normal again.
    assert kstest(first[:, 0], "norm").pvalue > 0.01
    assert abs(np.corrcoef(first.T) - np.eye(3)).max() < 0.06


@pytest.mark.parametrize("d", [1, 5, 64, 65, 100])
def test_hadamard_is_three_products_of_signs_and_hadamard_matrices(d):
    rows = 200
    stage = linear.sample_hadamard(Rng(0), rows, d)
    p = stage.signs.shape[2]
    assert p == max(64, 2 ** int(np.ceil(np.log2(d))))
    H = hadamard(p)
    S = [[np.diag(signs) for signs in block] for block in stage.signs]
    W = np.vstack([H @ third @ H @ second @ H @ first for first, second, third in S])[:rows]
    X = np.random.default_rng(0).normal(size=(9, d))
    np.testing.assert_allclose(stage(X), X @ W[:, :d].T * stage.lengths, atol=1e-10)
    np.testing.assert_allclose(stage(sp.csr_array(X)), stage(X), atol=1e-12)
    norms = np.linalg.norm(W * stage.lengths[:, None], axis=1)
    assert stage.max_norm() == pytest.approx(norms.max())
    lengths = [linear.sample_hadamard(Rng(seed), 256, d).lengths for seed in range(8)]
    assert kstest(np.concatenate(lengths) * p**1.5, chi(p).cdf).pvalue > 0.01


def test_sobol_points_are_a_scrambled_digital_net():
    points = linear.sample_sobol(Rng(0), 64, 4)
    assert ((points > 0) & (points < 1)).all()
    for column in points.T:  # one point in each of 64 equal intervals, as in every scrambled net
        assert sorted(np.floor(column * 64)) == list(range(64))
    boxes = {tuple(np.floor(point[:2] * 8)) for point in points}
    assert len(boxes) == 64  # and one in each cell of the 8 x 8 grid of the first two columns
    assert qmc.discrepancy(points) < qmc.discrepancy(np.random.default_rng(0).random((64, 4)))


def test_sobol_points_are_uniform_over_scrambles_and_nested():
    one = np.array([linear.sample_sobol(Rng(seed), 2, 2)[1] for seed in range(3000)])
    assert kstest(one[:, 0], "uniform").pvalue > 0.01
    assert kstest(one[:, 1], "uniform").pvalue > 0.01
    np.testing.assert_array_equal(
        linear.sample_sobol(Rng(5), 100, 3)[:37], linear.sample_sobol(Rng(5), 37, 3)
    )


def test_sobol_has_a_largest_number_of_columns():
    with pytest.raises(ValueError, match="at most 21201 columns, got 21202"):
        linear.sample_sobol(Rng(0), 4, 21202)


def test_independent_weights_do_not_depend_on_the_chunk_size(monkeypatch):
    whole = linear.sample_independent(Rng(0), 50, 7, ndtri)
    monkeypatch.setattr(linear, "_CHUNK", 20)
    np.testing.assert_array_equal(linear.sample_independent(Rng(0), 50, 7, ndtri), whole)
    np.testing.assert_array_equal(linear.sample_independent(Rng(0), 31, 7, ndtri), whole[:, :31])


def test_cosines_and_sines_are_interleaved_and_an_odd_column_has_a_phase():
    T = np.random.default_rng(0).normal(size=(4, 3)) * 50
    Z = CosSin(0.5, np.array([0.3]))(T.copy())
    angles = 2 * np.pi * T
    np.testing.assert_allclose(Z[:, 0], 0.5 * np.cos(angles[:, 0]), atol=1e-13)
    np.testing.assert_allclose(Z[:, 3], 0.5 * np.sin(angles[:, 1]), atol=1e-13)
    np.testing.assert_allclose(Z[:, 4], 0.5 * np.cos(angles[:, 2] + 2 * np.pi * 0.3), atol=1e-13)
    assert Z.shape == (4, 5)
    np.testing.assert_allclose(
        Cos(2.0, np.array([0.0, 0.25, 0.5]))(T.copy())[:, 1], -2 * np.sin(angles[:, 1]), atol=1e-12
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_have_norm_one_from_tiny_to_huge(dtype):
    limits = np.finfo(dtype)
    X = np.array([[3.0, 4.0], [limits.max, limits.max], [limits.tiny, 0.0], [0.0, 0.0]], dtype)
    expected = np.array([[0.6, 0.8], [0.5**0.5, 0.5**0.5], [1.0, 0.0], [0.0, 0.0]])
    np.testing.assert_allclose(RowNorm()(X), expected, rtol=2 * limits.eps)
    sparse = RowNorm()(sp.csr_array(X))
    np.testing.assert_allclose(sparse.toarray(), expected, rtol=2 * limits.eps)
    assert sparse.dtype == dtype


def test_large_float32_phases_are_reduced_in_float64():
    """Large float32 numbers have no fraction of a turn: every cosine would be 1."""
    rng = np.random.default_rng(0)
    panel = rng.normal(size=(5, 400)).astype(np.float32)
    stage = FourierFeatures(
        linear.Matrix(panel), Cos(1.0, np.zeros(400, np.float32)), linear.Matrix(panel).max_norm()
    )
    X = 1e9 * rng.normal(size=(3, 5)).astype(np.float32)
    exact = X.astype(np.float64) @ panel.astype(np.float64)
    np.testing.assert_allclose(stage(X), np.cos(2 * np.pi * (exact - np.rint(exact))), atol=5e-5)
    naive = X @ panel
    assert np.mean(naive == np.rint(naive)) > 0.99


@pytest.mark.parametrize("pairs", [3, 64, 65, 130])
@pytest.mark.parametrize("odd", [0, 1])
def test_the_links_of_a_hadamard_product_are_those_of_its_result(pairs, odd):
    stage = linear.sample_hadamard(Rng(0), pairs + odd, 20)
    X = np.random.default_rng(0).normal(size=(7, 20))
    for link in (CosSin(0.5, np.full(odd, 0.3)), Cos(0.5, np.linspace(0, 1, pairs + odd))):
        features = FourierFeatures(stage, link, stage.max_norm())
        np.testing.assert_allclose(features(X), link(stage(X)), atol=1e-13)


LIFTS = [
    SeriesLift(np.array([0.1, 0.7, 0.4])),
    ChebyshevLift(3, 0.3),
    HomogeneousLift(np.array([0.9, 0.5]), (1,), 0.8),
]


@pytest.mark.parametrize("lift", LIFTS, ids=lambda lift: type(lift).__name__)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, sp.csr_matrix])
def test_a_lift_rejects_numbers_outside_its_domain(lift, form):
    assert lift.validates_input
    for value, words in (
        (-2.0, "got -2 at row 1, column 2"),
        (np.inf, "got inf at row 1"),
        (np.nan, "got nan at row 1"),
    ):
        with pytest.raises(RowError, match=words), np.errstate(invalid="ignore"):
            lift(form(np.array([[1.0, 0.0, 0.5], [0.0, 3.0, value]])))


@pytest.mark.parametrize("lift", LIFTS, ids=lambda lift: type(lift).__name__)
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_a_lift_of_sparse_rows_is_sparse_and_canonical(lift, index):
    X = sp.random_array((30, 17), density=0.3, format="csr", rng=np.random.default_rng(0))
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    lifted = lift(X)
    assert lifted.indices.dtype == index
    np.testing.assert_array_equal(lifted.toarray(), lift(X.toarray()))
    assert sp.csr_array((lifted.data, lifted.indices, lifted.indptr)).has_canonical_format
