"""Alpha by folds: a factor for one alpha and a Krylov space for those near it."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from tests.helpers.normal_equations_data import data, normal

from mercer.linear_model.solvers import ridge_folds
from mercer.linear_model.solvers.ridge import ALPHAS, CholeskyFactor
from mercer.linear_model.solvers.ridge_folds import choose_fold, choose_kfold


def noisy(n: int, D: int, t: int, noise: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Features of decaying variance, and targets that the first of them explain."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, D)) @ np.linalg.qr(rng.normal(size=(D, D)))[0]
    Z = Z * (1 + np.arange(D)) ** -0.7
    signal = Z @ rng.normal(size=(D, t))
    return Z, signal / signal.std() + noise * rng.normal(size=(n, t)) + 3.0


def folds_of(Z, Y, count=5, fit_intercept=True) -> list:
    return [normal(Z[k::count], Y[k::count], fit_intercept=fit_intercept) for k in range(count)]


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(("t", "noise"), [(1, 0.05), (1, 2.0), (3, 0.5), (30, 0.5)])
@pytest.mark.parametrize("held_out", [False, True], ids=["folds", "held-out"])
def test_a_search_by_factors_has_the_alpha_and_the_error_of_decompositions(
    t, noise, fit_intercept, held_out
):
    folds = folds_of(*noisy(900, 120, t, noise), fit_intercept=fit_intercept)
    choose = choose_kfold
    if held_out:
        folds, choose = (
            [folds[0], sum(folds[2:], start=folds[1])],
            lambda two, **o: choose_fold(*two, **o),
        )
    every = choose(folds, decompose=True)
    some = choose(folds, decompose=False)
    tried = np.isfinite(some.scores)
    assert 3 <= tried.sum() < len(every.scores) / 2
    np.testing.assert_allclose(some.alphas, every.alphas[-len(some.alphas) :])
    near = every.scores[-len(some.scores) :][tried]
    np.testing.assert_allclose(some.scores[tried], near, rtol=1e-8 if t == 30 else 3e-3)
    assert some.alpha == pytest.approx(every.alpha)
    assert some.scores.min() == pytest.approx(every.scores.min(), rel=1e-4)
    assert some.baseline == every.baseline


@pytest.mark.parametrize("start", [-8, 2, 12, 24])
def test_a_search_ends_at_the_same_alpha_wherever_it_begins(monkeypatch, start):
    folds = folds_of(*noisy(900, 120, 2, 0.5))
    expected = choose_kfold(folds, decompose=True).alpha
    descend = ridge_folds._descend
    monkeypatch.setattr(ridge_folds, "_descend", lambda *given: descend(*given[:-1], start))
    assert choose_kfold(folds, decompose=False).alpha == pytest.approx(expected)


def test_a_search_computes_few_factors_of_all_features(monkeypatch):
    sizes = []

    def count(scatter, alpha):
        sizes.append(len(scatter))
        return CholeskyFactor.of(scatter, alpha)

    folds = folds_of(*noisy(3000, 1200, 1, 0.5))
    monkeypatch.setattr(ridge_folds, "CholeskyFactor", type("Counted", (), {"of": count}))
    choose_fold(folds[0], sum(folds[2:], start=folds[1]))
    assert sizes.count(1200) <= 2 and set(sizes) == {300, 1200}


def test_a_singular_start_moves_to_larger_alphas(monkeypatch):
    Z, Y = noisy(900, 60, 1, 0.5)
    folds = folds_of(np.hstack([Z, Z]), Y)
    descend = ridge_folds._descend
    monkeypatch.setattr(ridge_folds, "_descend", lambda *given: descend(*given[:-1], -20))
    search = choose_kfold(folds, decompose=False)
    assert np.isfinite(search.scores.min())
    assert search.scores.min() == pytest.approx(
        choose_kfold(folds, decompose=True).scores.min(), rel=1e-4
    )


@pytest.mark.parametrize("steps", [1, 2])
def test_errors_that_still_change_are_not_known(monkeypatch, steps):
    folds = folds_of(*noisy(900, 120, 1, 0.5))
    training, alphas = sum(folds[2:], start=folds[1]), np.logspace(-1, 1, 5)
    exact = choose_fold(folds[0], training, alphas).scores * folds[0].n
    monkeypatch.setattr(ridge_folds, "_STEPS", steps)
    found = ridge_folds._errors_near(folds[0], training, alphas, 2)
    assert np.isnan(found[[0, 1, 3, 4]]).all()
    assert found[2] == pytest.approx(exact[2], rel=1e-10)


@pytest.mark.parametrize("decompose", [True, False])
def test_one_fold_is_in_memory_at_a_time(decompose):
    folds = folds_of(*noisy(900, 400, 1, 0.5))
    choose_kfold(folds, decompose=decompose)
    tracemalloc.start()
    choose_kfold(folds, decompose=decompose)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # the sum of the folds, one fold's training rows, and two arrays of its eigenvectors
    assert peak < 5 * 8 * 400**2


def test_an_alpha_from_one_fold_is_the_best_on_that_fold():
    Z, Y, _ = data(300, 30, seed=4)
    Y = Y + np.random.default_rng(0).normal(size=Y.shape) * 8
    held_out, training = (
        normal(Z[::4], Y[::4]),
        normal(np.delete(Z, np.s_[::4], 0), np.delete(Y, np.s_[::4], 0)),
    )
    search = choose_fold(held_out, training)
    errors = []
    for alpha in ALPHAS * (held_out + training).scale:
        model = Ridge(alpha).fit(np.delete(Z, np.s_[::4], 0), np.delete(Y, np.s_[::4], 0))
        errors.append(np.sum((model.predict(Z[::4]).reshape(-1, Y.shape[1]) - Y[::4]) ** 2) / 75)
    tried = np.isfinite(search.scores)
    np.testing.assert_allclose(search.scores[tried], np.array(errors)[tried], rtol=1e-8)
    assert search.scores.min() == pytest.approx(min(errors)) and search.method == "held-out"
    listed = choose_fold(held_out, training, search.alphas[3:9])
    np.testing.assert_allclose(listed.scores, errors[3:9], rtol=1e-8)
    mean = np.delete(Y, np.s_[::4], 0).mean(axis=0)
    assert search.baseline == pytest.approx(np.sum((Y[::4] - mean) ** 2) / 75)


def test_a_coarse_search_is_extended_where_the_smallest_alpha_is_the_best():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(200, 4)) * [1e-2, 1.0, 1.0, 1e2]
    Y = (Z @ [100.0, 1.0, 1.0, 0.01])[:, None]
    search = choose_kfold([normal(Z[k::5], Y[k::5]) for k in range(5)], decompose=False)
    assert search.alpha < 1e-3 * search.alphas[-25]
    assert search.scores.min() < 1e-6 * search.baseline
