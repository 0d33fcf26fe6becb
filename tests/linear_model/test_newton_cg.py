"""Squared hinge and logistic loss: derivatives, and minima equal to SciPy's, by every route."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import expit
from tests.helpers.loss_data import MARGIN_LOSS, PLENTY, data, rows_of
from tests.helpers.normal_equations_data import INTERCEPT

from mercer.linear_model.losses import LOSSES
from mercer.linear_model.solvers import newton_cg
from mercer.linear_model.solvers.blocks import (
    CachedBlocks,
    multiply,
    multiply_gram,
    multiply_transposed,
)
from mercer.linear_model.solvers.coded_descent import CodedDescent, Descent
from mercer.linear_model.solvers.newton_cg import minimize_loss
from mercer.linear_model.solvers.newton_folds import choose_alpha
from mercer.maps.block import Coded, Dense, OneHot, Sparse
from mercer.parallel.threads import limit_threads


def hashes(n: int, seed: int = 0) -> Coded:
    """Codes of few rows and many features; two rows have none."""
    codes = np.random.default_rng(seed).integers(0, 8, (n, 40)).astype(np.uint8)
    empty = np.zeros(n, bool)
    empty[[3, n - 1]] = True
    return Coded(codes, OneHot(8, 0.3), empty=empty)


def tabled(n: int) -> Coded:
    """Codes between the entries of tables."""
    draw = np.random.default_rng(0)
    tables = draw.normal(size=(6, 5, 3))
    return Coded(draw.integers(0, 4, (n, 6)).astype(np.uint8), tables, draw.random((n, 6)))


def coded_rows(block: Coded, Y, w=None, size=17, room=PLENTY) -> CachedBlocks:
    def rows():
        for start in range(0, len(Y), size):
            part = slice(start, start + size)
            fractions = None if block.fractions is None else block.fractions[part]
            empty = None if block.empty is None else block.empty[part]
            yield (
                Coded(block.codes[part], block.tables, fractions, empty),
                Y[part],
                None if w is None else w[part],
            )

    return CachedBlocks(rows, room)


def value(loss: str, m: np.ndarray) -> np.ndarray:
    """The losses once more, as they are written in books."""
    return np.maximum(0, 1 - m) ** 2 if loss == "squared_hinge" else np.logaddexp(0, -m)


def slope(loss: str, m: np.ndarray) -> np.ndarray:
    return -2 * np.maximum(0, 1 - m) if loss == "squared_hinge" else -1 / (1 + np.exp(m))


def objective(loss, coef, intercept, Z, Y, alpha, w) -> np.ndarray:
    return w @ value(loss, Y * (Z @ coef + intercept)) + alpha / 2 * np.sum(coef**2, axis=0)


def truth(loss, Z, Y, alpha, w, fit_intercept) -> tuple[np.ndarray, np.ndarray]:
    """w and b of each output by L-BFGS on the objective as it is written; kept for the next test
    that asks for the same.
    """
    key = (loss, Z.tobytes(), Y.tobytes(), alpha, w.tobytes(), fit_intercept)
    if key not in _known:
        _known[key] = _truth(loss, Z, Y, alpha, w, fit_intercept)
    return _known[key]


_known: dict = {}


def _truth(loss, Z, Y, alpha, w, fit_intercept) -> tuple[np.ndarray, np.ndarray]:
    D = Z.shape[1]
    found = []
    for column in Y.T:

        def both(v, column=column):
            m = column * (Z @ v[:D] + fit_intercept * v[D])
            r = w * column * slope(loss, m)
            return w @ value(loss, m) + alpha / 2 * v[:D] @ v[:D], np.append(
                Z.T @ r + alpha * v[:D], fit_intercept * r.sum()
            )

        options = {
            "maxiter": 100_000,
            "maxfun": 1_000_000,
            "ftol": 1e-16,
            "gtol": 1e-10,
            "maxcor": 50,
        }
        found.append(
            minimize(both, np.zeros(D + 1), jac=True, method="L-BFGS-B", options=options).x
        )
    V = np.array(found).T
    return V[:D], fit_intercept * V[D]


def assert_minimum(found, loss, Z, Y, alpha, w, fit_intercept):
    """Objective and coefficients are those of L-BFGS to 1e-6."""
    w = np.ones(len(Z)) if w is None else w
    coef, intercept = truth(loss, Z, Y, alpha, w, fit_intercept)
    ours, theirs = (
        objective(loss, c, b, Z, Y, alpha, w)
        for c, b in ((found.coef, found.intercept), (coef, intercept))
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    assert np.all(ours <= theirs * (1 + 1e-9))
    assert np.abs(found.coef - coef).max() <= 1e-6 * np.abs(coef).max()
    assert np.abs(found.intercept - intercept).max() <= 1e-6 * max(
        np.abs(coef).max(), np.abs(intercept).max()
    )
    assert not found.unconverged.any()


@MARGIN_LOSS
def test_slope_and_curvature_are_derivatives(loss):
    f = LOSSES[loss]
    m = np.concatenate([np.linspace(-30, 0.999, 200), np.linspace(1.001, 30, 200)])
    e = 1e-6
    np.testing.assert_allclose(
        f.slope(m), (f.value(m + e) - f.value(m - e)) / (2 * e), rtol=1e-6, atol=1e-8
    )
    np.testing.assert_allclose(
        f.curvature(m), (f.slope(m + e) - f.slope(m - e)) / (2 * e), rtol=1e-6, atol=1e-8
    )
    np.testing.assert_allclose(f.value(m), value(loss, m), rtol=1e-14)


@MARGIN_LOSS
def test_losses_are_finite_for_margins_to_1e4(loss):
    f = LOSSES[loss]
    m = np.array([-1e4, -800.0, -1.0, 0.0, 800.0, 1e4])
    for part in (f.value(m), f.slope(m), f.curvature(m)):
        assert np.isfinite(part).all()
    assert f.value(m)[0] == pytest.approx(1e4 if loss == "logistic" else (1 + 1e4) ** 2)
    assert np.all(np.diff(f.value(m)) <= 0)
    assert expit(np.array([-700.0]))[0] == pytest.approx(np.exp(-700.0), rel=1e-12)


@pytest.mark.parametrize("make", [hashes, tabled], ids=["one-hot", "tables"])
def test_products_over_threads_are_those_of_the_matrix(make):
    block, W = make(60), np.random.default_rng(1).normal(size=(make(60).shape[1], 4))
    Z = block.toarray()
    R = np.random.default_rng(2).normal(size=(60, 4))
    np.testing.assert_allclose(multiply(block, W), Z @ W, atol=1e-12)
    np.testing.assert_allclose(multiply_transposed(block, R), Z.T @ R, atol=1e-12)
    np.testing.assert_allclose(multiply_gram(block, R), Z @ (Z.T @ R), atol=1e-12)
    np.testing.assert_allclose(multiply(Dense(Z), W), Z @ W, atol=1e-12)
    np.testing.assert_allclose(multiply_transposed(Dense(Z), R), Z.T @ R, atol=1e-12)


@MARGIN_LOSS
@INTERCEPT
@pytest.mark.parametrize(
    ("n", "D", "t"),
    [
        pytest.param(70, 6, 4, marks=pytest.mark.full),
        pytest.param(24, 30, 2, marks=pytest.mark.full),
        (60, 5, 1),
    ],
)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_the_minimum_is_that_of_l_bfgs(n, D, t, weighted, fit_intercept, loss):
    Z, Y, w = data(n, D, max(t, 2))
    Y, w = Y[:, :t], w if weighted else None
    for alpha, kind, room in (
        (2.0, Dense, PLENTY),
        (2.0, lambda part: Sparse(sp.csr_array(part)), PLENTY),
        (50.0, Dense, 0),
    ):
        rows = rows_of(Z, Y, w, kind, room=room)
        found = minimize_loss(rows, LOSSES[loss], alpha, fit_intercept=fit_intercept, tol=1e-7)
        assert rows.cached == (room > 0)
        assert_minimum(found, loss, Z, Y, alpha, w, fit_intercept)


@MARGIN_LOSS
@INTERCEPT
@pytest.mark.parametrize(
    "make", [pytest.param(hashes, marks=pytest.mark.full), tabled], ids=["one-hot", "tables"]
)
@pytest.mark.parametrize(
    "room", [pytest.param(PLENTY, marks=pytest.mark.full), 0], ids=["kept", "read anew"]
)
def test_codes_have_the_same_minimum(make, room, fit_intercept, loss):
    """One-hot codes of 70 rows are 320 features: kept, they go by coordinate descent."""
    _, Y, w = data(70)
    block = make(70)
    found = minimize_loss(
        coded_rows(block, Y, w, room=room), LOSSES[loss], 0.2, fit_intercept=fit_intercept, tol=1e-7
    )
    assert isinstance(found, Descent) == (make is hashes and room > 0)
    assert_minimum(found, loss, block.toarray(), Y, 0.2, w, fit_intercept)


@pytest.mark.parametrize("alpha", [0.2, 20.0, 1e4])
@INTERCEPT
@MARGIN_LOSS
def test_sweeps_alone_come_to_the_minimum(loss, fit_intercept, alpha):
    """Newton steps would hide a wrong formula of the sweeps: here there are none."""
    _, Y, w = data(70)
    block = hashes(70)
    found = CodedDescent(block, Y, w, loss, fit_intercept).minimize(alpha, None, 1e-9, 3000)
    assert found is not None
    coef, intercept = truth(loss, block.toarray(), Y, alpha, w, fit_intercept)
    assert np.abs(found.coef - coef).max() <= 1e-5 * np.abs(coef).max()
    assert np.abs(found.intercept - intercept).max() <= 1e-5 * max(1, np.abs(intercept).max())
    weights = np.where(block.empty[:, None], 0, found.weights)
    assert np.abs(block.T @ weights - coef).max() <= 1e-4 * np.abs(coef).max()


@MARGIN_LOSS
def test_the_error_of_scores_is_within_the_tolerance(loss):
    """Sweeps in float32, with rows that are alike and outputs that fill a cache line and more."""
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 8, (90, 40)).astype(np.uint8)
    codes[30:] = np.where(rng.random((60, 40)) < 0.9, codes[:30].repeat(2, 0), codes[30:])
    block = Coded(codes, OneHot(8, 40**-0.5))
    Y = rng.choice([-1.0, 1.0], (90, 18))
    problem = CodedDescent(block, Y, rng.integers(0, 3, 90).astype(float), loss, True)
    exact = problem.minimize(0.1, None, 1e-7, 5000)
    found = problem.minimize(0.1, None, 1e-4, 5000)
    F, E = (block @ one.coef + one.intercept for one in (found, exact))
    assert found.a[0].dtype == np.float32
    assert np.sqrt(np.mean((F - E) ** 2, axis=0) / E.var(axis=0)).max() <= 2e-4
    again = problem.minimize(0.1, problem.minimize(1.0, None, 1e-3, 5000), 1e-4, 5000)
    F = block @ again.coef + again.intercept
    assert np.sqrt(np.mean((F - E) ** 2, axis=0) / E.var(axis=0)).max() <= 2e-4


def test_sweeps_are_the_same_on_any_number_of_threads(monkeypatch):
    from mercer.parallel import threads

    _, Y, w = data(70)
    problem = CodedDescent(hashes(70), np.tile(Y, (1, 14)), w, "squared_hinge", True)
    one = problem.minimize(0.2, None, 1e-6, 1000)
    monkeypatch.setattr(threads, "is_worth_threads", lambda *_: True)
    with limit_threads(2):
        two = problem.minimize(0.2, None, 1e-6, 1000)
    np.testing.assert_array_equal(one.coef, two.coef)
    np.testing.assert_array_equal(one.intercept, two.intercept)


def test_too_many_sweeps_are_left_to_newton_steps():
    _, Y, w = data(70)
    problem = CodedDescent(hashes(70), Y, w, "logistic", True)
    assert problem.minimize(1e-9, None, 1e-4, 500) is None
    assert problem.minimize(0.2, None, 1e-4, 3) is None


@MARGIN_LOSS
def test_float32_features_have_the_minimum_of_those_numbers(loss):
    Z, Y, w = data()
    Z = Z.astype(np.float32)
    found = minimize_loss(rows_of(Z, Y, w), LOSSES[loss], 0.3, tol=1e-7)
    assert_minimum(found, loss, Z.astype(np.float64), Y, 0.3, w, True)
    block = hashes(70)
    single = Coded(
        block.codes, OneHot(8, float(np.float32(0.3)), np.dtype(np.float32)), empty=block.empty
    )
    found = minimize_loss(coded_rows(single, Y[:70], w[:70]), LOSSES[loss], 0.3, tol=1e-7)
    assert isinstance(found, Descent)
    assert_minimum(found, loss, single.toarray().astype(np.float64), Y[:70], 0.3, w[:70], True)


@INTERCEPT
@MARGIN_LOSS
def test_a_weight_is_a_number_of_equal_rows(loss, fit_intercept):
    Z, Y, w = data()
    again = np.repeat(np.arange(len(Z)), w.astype(int))
    options = {"fit_intercept": fit_intercept, "tol": 1e-8}
    one = minimize_loss(rows_of(Z, Y, w), LOSSES[loss], 0.3, **options)
    other = minimize_loss(rows_of(Z[again], Y[again]), LOSSES[loss], 0.3, **options)
    np.testing.assert_allclose(one.coef, other.coef, rtol=0, atol=1e-7 * np.abs(one.coef).max())


@MARGIN_LOSS
@pytest.mark.parametrize(
    "make", [lambda Y, w: rows_of(data()[0], Y, w), lambda Y, w: coded_rows(hashes(90), Y, w)]
)
def test_warm_starts_end_where_cold_ones_do(make, loss):
    _, Y, w = data()
    rows = make(Y, w)
    far = minimize_loss(rows, LOSSES[loss], 30.0)
    warm = minimize_loss(rows, LOSSES[loss], 0.3, start=far, tol=1e-8)
    cold = minimize_loss(rows, LOSSES[loss], 0.3, tol=1e-8)
    np.testing.assert_allclose(warm.coef, cold.coef, rtol=0, atol=1e-7 * np.abs(cold.coef).max())
    np.testing.assert_allclose(warm.intercept, cold.intercept, rtol=0, atol=1e-6)
    # a sweep sees that there is nothing to do, a Newton step is not taken
    again = minimize_loss(rows, LOSSES[loss], 0.3, start=cold)
    assert again.steps == isinstance(again, Descent)


@MARGIN_LOSS
def test_a_large_mean_costs_no_digits(loss):
    Z, Y, w = data()
    near = minimize_loss(rows_of(Z, Y, w), LOSSES[loss], 0.3)
    away = minimize_loss(rows_of(Z + 1e5, Y, w), LOSSES[loss], 0.3)
    np.testing.assert_allclose(near.coef, away.coef, rtol=0, atol=1e-5 * np.abs(near.coef).max())


@MARGIN_LOSS
@pytest.mark.parametrize("alpha", [1e-2, 1.0])
def test_separable_rows_and_constant_features_have_a_minimum(alpha, loss):
    Z, Y, _ = data(60, 5, 2)
    Z[:, 0] += 50 * Y[:, 0]
    Z[:, 1] = 3.0
    found = minimize_loss(rows_of(Z, Y[:, :1]), LOSSES[loss], alpha, tol=1e-7)
    assert not found.unconverged.any()
    assert np.all(np.sign(Z @ found.coef + found.intercept) == Y[:, :1])
    first = 2 * np.linalg.norm(Z.T @ Y[:, :1])  # the gradient at 0, of which 1e-12 may be left
    assert found.coef[1] == pytest.approx(0, abs=max(1e-8, 1e-12 * first / alpha))
    alone = minimize_loss(rows_of(Z[:, 1:2], Y[:, :1]), LOSSES[loss], alpha)
    assert alone.coef[0] == pytest.approx(0, abs=1e-10)


@pytest.mark.full
@MARGIN_LOSS
def test_the_alpha_is_chosen_by_the_loss_of_rows_held_out(loss):
    Z, Y, w = data(200, 6)
    held = np.random.default_rng(0).random(200) < 0.1
    alphas = [1e-2, 1.0, 100.0]
    fold = np.where(held, 0, -1)
    choice, start, *_ = choose_alpha(rows_of(Z, Y, w), LOSSES[loss], fold, alphas, tol=1e-6)
    for alpha, score in zip(choice.alphas, choice.scores, strict=True):
        if np.isfinite(score):
            coef, intercept = truth(loss, Z[~held], Y[~held], alpha, w[~held], True)
            errors = w[held] @ value(loss, Y[held] * (Z[held] @ coef + intercept))
            assert score == pytest.approx(errors.sum() / w[held].sum(), rel=1e-2)
    assert choice.alpha == choice.alphas[np.argmin(choice.scores)]
    assert start.coef.shape == (6, 3)


@pytest.mark.full
@MARGIN_LOSS
def test_alphas_so_large_that_w_is_next_to_0_do_not_end_the_search(loss):
    Z, Y, w = data(200, 6)
    useful = [100.0, 1.0, 1e-2]
    fold, rows = np.where(np.arange(200) % 10 == 3, 0, -1), rows_of(Z, Y, w)
    alone = choose_alpha(rows, LOSSES[loss], fold, useful).search
    more = choose_alpha(rows, LOSSES[loss], fold, [*np.logspace(30, 10, 6), *useful]).search
    assert more.alpha == alone.alpha
    assert np.isfinite(more.scores[:6]).all()


def test_an_output_without_progress_is_unconverged_while_others_continue(monkeypatch):
    Z, Y, _ = data(150, 6)
    go = newton_cg._line_search

    def stuck(point, here, d):
        moved, there, change = go(point, here, d)
        return moved & (point.outputs != 1), there, change

    monkeypatch.setattr(newton_cg, "_line_search", stuck)
    found = minimize_loss(rows_of(Z, Y), LOSSES["logistic"], 1.0, tol=1e-9)
    assert found.steps > 2
    assert found.unconverged.tolist() == [False, True, False]


@pytest.mark.full
@MARGIN_LOSS
def test_the_choice_does_not_depend_on_the_scale_of_features_or_repeated_rows(loss):
    Z, Y, _ = data(150, 6)
    fold = np.arange(150) % 5
    one = choose_alpha(rows_of(Z, Y), LOSSES[loss], fold).search
    other = choose_alpha(rows_of(8 * Z, Y, np.full(150, 3.0)), LOSSES[loss], fold).search
    np.testing.assert_allclose(other.alphas, 192 * one.alphas)
    assert np.argmin(one.scores) == np.argmin(other.scores)


def test_sums_that_leave_float64_are_refused():
    Z, Y, _ = data()
    with (
        np.errstate(over="ignore", invalid="ignore"),
        pytest.raises(ValueError, match="leave the range of float64"),
    ):
        minimize_loss(rows_of(Z * 1e200, Y), LOSSES["logistic"], 1.0)
