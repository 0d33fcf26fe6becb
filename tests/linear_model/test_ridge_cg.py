"""Conjugate gradients over blocks: the answers of Cholesky, and alphas chosen on rows held out."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge
from tests.helpers.normal_equations_data import INTERCEPT, assert_same, data, normal, rows_of, truth

from mercer.linear_model.solvers import preconditioner
from mercer.linear_model.solvers.blocks import CachedBlocks
from mercer.linear_model.solvers.ridge import ALPHAS, solve
from mercer.linear_model.solvers.ridge_cg import (
    LOOSE_SEARCH,
    choose_ridge_held_out,
    search_alphas,
    solve_ridge,
)
from mercer.maps.block import Coded, Dense, OneHot, Sparse, as_block


def coded_blocks() -> dict[str, tuple[np.ndarray, object]]:
    """The same kinds of blocks that maps return, as (features, row numbers -> block)."""
    rng = np.random.default_rng(4)
    codes = rng.integers(0, 4, (90, 3)).astype(np.uint8)
    codes[:, 0] = np.minimum(rng.geometric(0.6, 90) - 1, 3)
    empty = rng.random(90) < 0.1
    tables, fractions = rng.normal(size=(3, 5, 2)), rng.random((90, 3))
    dense = rng.normal(size=(90, 6)) + 4
    csr = sp.csr_array(rng.normal(size=(90, 11)) * (rng.random((90, 11)) < 0.3))
    kinds = {
        "dense": lambda i: Dense(dense[i]),
        "float32": lambda i: Dense(dense[i].astype(np.float32)),
        "sparse": lambda i: Sparse(csr[i]),
        "one-hot": lambda i: Coded(codes[i], OneHot(4, 0.5), None, empty[i]),
        "tables": lambda i: Coded(codes[i], tables, fractions[i]),
    }
    return {
        name: (make(np.arange(90)).toarray().astype(float), make) for name, make in kinds.items()
    }


BLOCKS = coded_blocks()


@INTERCEPT
@pytest.mark.parametrize("kind", BLOCKS)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_conjugate_gradients_are_cholesky_on_every_block(kind, weighted, fit_intercept):
    Z, make = BLOCKS[kind]
    _, Y, w = data(90, 5, 3)
    w = w if weighted else None
    rows = rows_of(np.arange(90), Y, w, kind=make)
    found = solve_ridge(rows, 0.1, fit_intercept=fit_intercept, tol=1e-11)
    coef, intercept = solve(normal(Z, Y, w, fit_intercept), 0.1)
    np.testing.assert_allclose(found.coef, coef, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(found.intercept, intercept, rtol=1e-7, atol=1e-8)
    assert found.residual.max() <= 1e-11
    assert 1 <= found.iterations <= Z.shape[1] + 5


def test_the_residual_of_conjugate_gradients_is_that_of_the_normal_equations(monkeypatch):
    monkeypatch.setattr(preconditioner, "FULL_FEATURES", 0)
    monkeypatch.setattr(preconditioner, "SAMPLED_ROWS", 2)
    Z, Y, w = data(90, 30)
    with pytest.warns(
        ConvergenceWarning, match=r"relative residual of .* after 3 passes, above tol=1e-06"
    ):
        found = solve_ridge(rows_of(Z, Y, w), 1.0, max_iter=3)
    equations = normal(Z, Y, w)
    left = equations.cross - equations.scatter @ found.coef - found.coef
    np.testing.assert_allclose(
        found.residual,
        np.linalg.norm(left, axis=0) / np.linalg.norm(equations.cross, axis=0),
        rtol=1e-8,
    )
    assert found.iterations == 3


def test_conjugate_gradients_start_from_coef0():
    Z, Y, w = data(90, 30)
    cold = solve_ridge(rows_of(Z, Y, w), 1.0, tol=1e-8)
    again = solve_ridge(rows_of(Z, Y, w), 1.0, tol=1e-7, start=cold)
    near = solve_ridge(rows_of(Z, Y, w), 1.1, tol=1e-8, start=cold)
    assert again.iterations == 0
    np.testing.assert_array_equal(again.coef, cold.coef)
    np.testing.assert_allclose(near.coef, solve(normal(Z, Y, w), 1.1)[0], rtol=1e-5, atol=1e-7)


def test_columns_of_unlike_scales_need_no_more_passes():
    """12 columns take 10 passes; without the scaling by the diagonal they take 37."""
    _, Y, _ = data(200, 12)
    scales = np.logspace(-3, 3, 12)
    found = solve_ridge(
        rows_of(np.random.default_rng(0).normal(size=(200, 12)) * scales, Y), 1e-8, tol=1e-8
    )
    assert found.iterations <= 14


def test_a_mean_that_is_large_beside_the_spread_costs_conjugate_gradients_few_digits():
    """Z'Z p - n mean mean'p would lose 1e14 eps of it."""
    Z, Y, _ = data(90, 6)
    found = solve_ridge(rows_of(Z + 1e7, Y), 1.0, tol=1e-9)
    assert_same(found.coef, solve(normal(Z, Y), 1.0)[0], 1e-6)


@pytest.mark.parametrize("size", [1e-170, 1e170])
def test_tiny_and_huge_targets_are_solved_like_others(size):
    Z, Y, _ = data()
    plain = solve_ridge(rows_of(Z, Y), 1.0, tol=1e-10)
    found = solve_ridge(rows_of(Z, Y * size), 1.0, tol=1e-10)
    np.testing.assert_allclose(found.coef / size, plain.coef, rtol=1e-7)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_conjugate_gradients_of_nothing_to_learn_are_0(fit_intercept):
    Z, _, _ = data()
    Y = np.full(60, 3.0 * fit_intercept)
    found = solve_ridge(rows_of(np.full((60, 4), 0.25), Y), 1.0, fit_intercept=fit_intercept)
    np.testing.assert_allclose(found.coef, 0, atol=1e-15)
    np.testing.assert_allclose(found.intercept, 3.0 * fit_intercept)
    one = solve_ridge(rows_of(Z[:1], np.ones(1)), 1.0)
    np.testing.assert_array_equal(one.coef, 0)
    np.testing.assert_array_equal(one.intercept, 1)


@INTERCEPT
def test_held_out_rows_choose_what_brute_force_chooses(fit_intercept):
    Z, Y, w = data(200, 20, seed=6)
    Y = Y + np.random.default_rng(7).normal(size=Y.shape) * 8
    alphas = np.logspace(4, -1, 11)
    held = np.random.default_rng(1).random(200) < 0.3
    scores = []
    for alpha in alphas:
        coef, intercept = truth(Z[~held], Y[~held], alpha, w[~held], fit_intercept)
        scores.append((w[held] @ (Y[held] - intercept - Z[held] @ coef) ** 2).sum() / w[held].sum())
    options = {"fit_intercept": fit_intercept, "tol": 1e-10}
    choice, solution = choose_ridge_held_out(
        rows_of(Z, Y, w), held, alphas, patience=None, **options
    )
    np.testing.assert_allclose(choice.scores, scores, rtol=1e-7)
    best = int(np.argmin(scores))
    assert 0 < best < 10
    assert choice.alpha == alphas[best]
    coef, _ = truth(Z[~held], Y[~held], choice.alpha, w[~held], fit_intercept)
    np.testing.assert_allclose(solution.coef, coef, rtol=1e-5, atol=1e-8)
    order = np.random.default_rng(0).permutation(11)
    rows = rows_of(Z, Y, w, size=61)
    early, _ = choose_ridge_held_out(rows, held, alphas[order], patience=2, **options)
    assert early.alpha == choice.alpha
    tried = np.isfinite(early.scores)
    np.testing.assert_allclose(early.scores[tried], choice.scores[order][tried], rtol=1e-7)
    assert set(alphas[order][tried]) == set(alphas[: best + 3])


def test_held_out_choice_has_a_grid_of_its_own():
    Z, Y, _ = data(200, 20, seed=6)
    held = np.random.default_rng(0).random(200) < 0.1
    choice, _ = choose_ridge_held_out(rows_of(Z, Y), held)
    np.testing.assert_allclose(choice.alphas, ALPHAS * normal(Z[~held], Y[~held]).scale, rtol=1e-9)


@pytest.mark.parametrize("patience", [1, 2])
def test_a_score_that_rises_by_thousandths_before_it_falls_does_not_end_the_search(patience):
    """These are log losses of held-out rows, 16 of 1,600 positive."""
    alphas = 10.0 ** np.arange(3, -10, -1)
    scores = [70.95, 70.95, 70.951, 70.953, 70.99, 71.298, 69.083, 66.883, 82.383, 126, 189, 263, 1]
    found = dict(zip(alphas, scores, strict=True))
    how = {**LOOSE_SEARCH, "step": 1}
    search, _ = search_alphas(
        "test", alphas, 1.0, lambda alpha, _: alpha, found.__getitem__, patience, **how
    )
    assert search.alpha == 1e-4
    assert np.count_nonzero(np.isfinite(search.scores)) == 9


def test_a_search_of_scores_that_only_rise_ends_where_they_are_clearly_worse():
    alphas = 10.0 ** np.arange(3, -10, -1)
    rise = np.array([0, 0, 0, 1e-3, 5e-3, 1e-2, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    found = dict(zip(alphas, 1 + rise, strict=True))
    how = {**LOOSE_SEARCH, "step": 1}
    search, _ = search_alphas(
        "test", alphas, 1.0, lambda alpha, _: alpha, found.__getitem__, 1, **how
    )
    assert search.alpha == alphas[0]
    assert np.count_nonzero(np.isfinite(search.scores)) == 7


def coded_rows(n=90, places=40, values=8, seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, values, size=(n, places)).astype(np.uint8)
    codes[20:40, :30] = codes[0, :30]  # rows that are alike
    codes[41] = codes[40]
    empty = np.zeros(n, dtype=bool)
    empty[5] = True
    block = Coded(codes, OneHot(values, 0.5), empty=empty)
    Y = np.stack([codes[:, 0] - codes[:, 1], codes[:, 2] * 1.0], axis=1)
    Y = Y + rng.normal(size=Y.shape)
    return block, Y, rng.integers(0, 3, n).astype(np.float64)


def in_memory(block, Y, w):
    blocks = CachedBlocks(lambda: iter([(block, Y, w)]), 10**9)
    list(blocks())
    assert blocks.cached
    return blocks


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("alpha", [1e-5, 0.01, 3.0])
def test_codes_in_memory_are_solved_for_the_coefficients_of_rows(fit_intercept, alpha):
    block, Y, w = coded_rows()
    found = solve_ridge(in_memory(block, Y, w), alpha, fit_intercept=fit_intercept, tol=1e-9)
    assert (found.descent is None) == (alpha < 3)
    assert found.residual.max() <= 1e-9
    model = Ridge(alpha, fit_intercept=fit_intercept, tol=1e-12)
    model.fit(block.toarray(), Y, sample_weight=w)
    scale = np.abs(model.coef_).max()
    np.testing.assert_allclose(found.coef.T, model.coef_, rtol=0, atol=1e-6 * scale)
    np.testing.assert_allclose(found.intercept, model.intercept_, rtol=0, atol=1e-6)
    warm = solve_ridge(
        in_memory(block, Y, w), 1.1 * alpha, fit_intercept=fit_intercept, tol=1e-9, start=found
    )
    cold = solve_ridge(in_memory(block, Y, w), 1.1 * alpha, fit_intercept=fit_intercept, tol=1e-9)
    np.testing.assert_allclose(warm.coef, cold.coef, rtol=0, atol=1e-6 * scale)
    if alpha > 1e-5:  # steps in float32 are many there, and their number is a matter of rounding
        assert warm.iterations <= cold.iterations


def test_a_search_over_codes_in_memory_is_that_over_their_features():
    block, Y, w = coded_rows(seed=3)
    held_out = np.arange(90) % 3 == 0
    alphas = np.logspace(-2, 2, 9)
    options = {"tol": 1e-8, "max_iter": 1000, "patience": None}
    codes, solution = choose_ridge_held_out(in_memory(block, Y, w), held_out, alphas, **options)
    dense = [(as_block(block.toarray()), Y, w)]
    features, _ = choose_ridge_held_out(lambda: iter(dense), held_out, alphas, **options)
    assert codes.alpha == features.alpha
    np.testing.assert_allclose(codes.scores, features.scores, rtol=1e-5)
    assert not np.concatenate(solution.descent.a)[held_out].any()


def test_codes_without_weight_are_refused_and_steps_are_limited():
    block, Y, w = coded_rows()
    with pytest.raises(ValueError, match="needs rows with a weight above 0"):
        solve_ridge(in_memory(block, Y, np.zeros(90)), 1.0)
    with pytest.warns(ConvergenceWarning, match="after 3 passes"):
        solve_ridge(in_memory(block, Y, w), 1e-6, tol=1e-12, max_iter=3)
