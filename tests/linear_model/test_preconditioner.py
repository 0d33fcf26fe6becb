"""Preconditioners are the inverses of the matrices that they state."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from tests.helpers import normal_equations_data
from tests.helpers.loss_data import PLENTY, data, rows_of

from mercer.linear_model.losses import LOSSES
from mercer.linear_model.solvers import preconditioner
from mercer.linear_model.solvers.blocks import CachedBlocks, CenteredBlocks
from mercer.linear_model.solvers.newton_cg import minimize_loss
from mercer.linear_model.solvers.preconditioner import (
    HessianPreconditioner,
    SpectralPreconditioner,
    preconditioner_bytes,
)
from mercer.linear_model.solvers.ridge import solve
from mercer.linear_model.solvers.ridge_cg import solve_ridge
from mercer.maps.block import Dense, Sparse

C = np.array([0.5, 3.0])


def covariance(Z, w, mean) -> np.ndarray:
    return ((Z - mean) * w[:, None]).T @ (Z - mean) / w.sum()


@pytest.mark.parametrize("centered", [True, False])
@pytest.mark.parametrize("kind", [Dense, lambda part: Sparse(sp.csr_array(part))])
def test_all_eigenvectors_give_the_inverse(kind, centered):
    Z, Y, w = data()
    mean = w @ Z / w.sum() if centered else np.zeros(8)
    found = SpectralPreconditioner.of_rows(rows_of(Z, Y, w, kind), mean, centered=centered)
    R = np.random.default_rng(0).normal(size=(8, 2))
    S = covariance(Z, w, mean)
    expected = [np.linalg.solve(c * S + 0.1 * np.eye(8), r) for c, r in zip(C, R.T, strict=True)]
    np.testing.assert_allclose(found.solve(R, 0.1, C), np.transpose(expected), rtol=1e-9)
    U = found.vectors
    rotated = found.rotated.solve(U.T @ R, 0.1, C)
    np.testing.assert_allclose(U @ rotated, np.transpose(expected), rtol=1e-9)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_a_sample_keeps_the_upper_half_of_its_eigenvalues(kind):
    draw = np.random.default_rng(1)
    Z, w, mean = draw.normal(size=(10, 40)), draw.random(10), draw.normal(size=40)
    found = SpectralPreconditioner.of_sample(kind(Z), w, mean)
    values = np.linalg.eigvalsh(covariance(Z, w, mean))
    np.testing.assert_allclose(found.values, values[-5:], rtol=1e-10)
    np.testing.assert_allclose(found.tail, values[-6], rtol=1e-10)
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(5), atol=1e-10)
    U = found.vectors
    S = U @ np.diag(found.values) @ U.T + found.tail * (np.eye(40) - U @ U.T)
    R = draw.normal(size=(40, 2))
    expected = [np.linalg.solve(c * S + 0.1 * np.eye(40), r) for c, r in zip(C, R.T, strict=True)]
    np.testing.assert_allclose(found.solve(R, 0.1, C), np.transpose(expected), rtol=1e-8)


def test_equal_rows_leave_alpha_alone():
    found = SpectralPreconditioner.of_sample(np.full((4, 9), 2.0), np.ones(4), np.full(9, 2.0))
    np.testing.assert_allclose(found.solve(np.ones((9, 2)), 0.5, C), 2.0)


def test_rows_of_large_curvature_are_taken_as_they_are():
    draw = np.random.default_rng(2)
    Z, values = draw.normal(size=(50, 12)), draw.random(12)
    curvature = np.column_stack([draw.random(50) ** 8, np.full(50, 0.2), np.zeros(50)])
    found = HessianPreconditioner(Z, curvature, values, 0.3)
    R = draw.normal(size=(12, 3))
    c = curvature[:, 0]
    top = np.argsort(c)[-6:]  # half of the features
    dense = np.diag(values * (c.sum() - c[top].sum()) + 0.3) + (Z[top].T * c[top]) @ Z[top]
    expected = np.column_stack(
        [
            np.linalg.solve(dense, R[:, 0]),
            R[:, 1] / (values * 10 + 0.3),  # no row stands out
            R[:, 2] / 0.3,
        ]
    )
    np.testing.assert_allclose(found.solve(R, np.arange(3)), expected, rtol=1e-10)
    np.testing.assert_allclose(found.solve(R[:, :1], np.array([0])), expected[:, :1], rtol=1e-10)


def test_copies_are_centered_and_rotated():
    Z, Y, w = data()
    rows = rows_of(Z, Y, w)
    assert CenteredBlocks.of(rows, np.zeros(8)) is None  # not in memory yet
    list(rows())
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(8, 8)))[0]
    copies = CenteredBlocks.of(rows, Z.mean(axis=0), basis=basis)
    ((block, targets, weights),) = copies()
    np.testing.assert_allclose(block.Z, (Z - Z.mean(axis=0)) @ basis, atol=1e-5)
    np.testing.assert_array_equal(targets, Y)
    np.testing.assert_array_equal(weights, w)
    huge = rows_of(Z * 1e20, Y, w)
    list(huge())
    assert CenteredBlocks.of(huge, np.zeros(8)) is None


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_a_sample_of_rows_leads_to_the_same_minimum(loss, monkeypatch):
    Z, Y, w = data(200, 30)
    full = minimize_loss(rows_of(Z, Y, w), LOSSES[loss], 0.5, tol=1e-9)
    monkeypatch.setattr(preconditioner, "FULL_FEATURES", 10)
    monkeypatch.setattr(preconditioner, "SAMPLED_ROWS", 20)
    for room in (PLENTY, 0):
        found = minimize_loss(rows_of(Z, Y, w, room=room), LOSSES[loss], 0.5, tol=1e-9)
        np.testing.assert_allclose(found.coef, full.coef, atol=1e-7 * np.abs(full.coef).max())
        assert len(found.preconditioner.values) == 10


def test_a_sample_saves_steps_of_ridge_regression(monkeypatch):
    draw = np.random.default_rng(0)
    Z = draw.normal(size=(400, 60)) * np.logspace(0, -3, 60) @ draw.normal(size=(60, 60))
    Y = Z[:, :1] + draw.normal(size=(400, 1))
    rows = CachedBlocks(lambda: iter([(Dense(Z), Y, None)]), PLENTY)
    monkeypatch.setattr(preconditioner, "FULL_FEATURES", 10)
    monkeypatch.setattr(preconditioner, "SAMPLED_ROWS", 59)
    sampled = solve_ridge(rows, 1.0, tol=1e-9)
    none = SpectralPreconditioner(np.zeros((60, 0)), np.zeros(0), 1.0)
    plain = solve_ridge(rows, 1.0, tol=1e-9, preconditioner=none)
    assert sampled.iterations < 0.6 * plain.iterations
    expected, _ = solve(normal_equations_data.normal(Z, Y), 1.0)
    np.testing.assert_allclose(sampled.coef, expected, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("features", "max_memory", "rows"),
    [
        (1000, None, None),
        (1000, 48_000_000, None),
        (1000, 47_999_999, 999),  # fewer rows than features
        (2000, 48_000_000, 1000),
        (2000, 1, 699),  # 16 MiB are taken in any case
        (4096, None, None),
        (5000, None, 2048),
        (4000, 48_000_000, 500),
        (65_536, None, 512),
        (65_536, 2**28, 170),
    ],
)
def test_the_arrays_take_at_most_half_of_max_memory(features, max_memory, rows):
    taken = preconditioner_bytes(features, max_memory)
    assert taken == (24 * features**2 if rows is None else 12 * features * rows)
    if max_memory is not None:
        assert taken <= max(max_memory / 2, preconditioner.LEAST_BYTES)


def test_a_sample_serves_where_all_eigenvectors_do_not_fit(monkeypatch):
    monkeypatch.setattr(preconditioner, "LEAST_BYTES", 0)
    Z, Y, w = data(200, 30)
    room = 2 * 12 * 30 * 10
    for centered in (True, False):
        mean = w @ Z / w.sum() if centered else np.zeros(30)
        found = SpectralPreconditioner.of_rows(
            rows_of(Z, Y, w), mean, centered=centered, max_memory=room
        )
        assert found.vectors.shape == (30, 5)
    few = minimize_loss(rows_of(Z, Y, w), LOSSES["log_loss"], 0.5, tol=1e-9, max_memory=room)
    full = minimize_loss(rows_of(Z, Y, w), LOSSES["log_loss"], 0.5, tol=1e-9)
    np.testing.assert_allclose(few.coef, full.coef, atol=1e-7 * np.abs(full.coef).max())
    assert len(few.preconditioner.values) == 5
    ridge = solve_ridge(rows_of(Z, Y, w), 0.5, max_memory=room)
    assert len(ridge.preconditioner.values) == 5 and ridge.residual.max() <= 1e-6
