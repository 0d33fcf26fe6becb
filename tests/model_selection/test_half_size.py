"""Leave-one-out scores with all features and with half of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mercer import (
    Hellinger,
    KernelClassifier,
    KernelRegressor,
    RandomFourier,
    RandomLaplace,
    SignCauchy,
    open_stream,
)
from mercer.model_selection import half_size
from mercer.model_selection.half_size import HalfSize, score_half


def checks(n: int, cells: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A board of checks on the unit square."""
    X = np.random.default_rng(seed).random((n, 2))
    return X, np.floor(cells * X).sum(axis=1) % 2


def compare(model, X, y) -> HalfSize | None:
    return score_half(model.fit(X, y), open_stream(X).with_targets(y, None), 0)


@pytest.mark.parametrize("D", [5, 40], ids=["fewer features than rows", "more"])
def test_leave_one_out_is_that_of_refitted_models(D, monkeypatch):
    rng = np.random.default_rng(0)
    Z, Y = rng.normal(size=(15, D)), rng.normal(size=(15, 2))
    monkeypatch.setattr(half_size, "_ALPHAS", np.array([0.3]))
    eigenvalues = np.linalg.svd(Z - Z.mean(axis=0), compute_uv=False) ** 2
    alpha = 0.3 * eigenvalues[eigenvalues > 1e-9].mean()
    found = half_size._leave_one_out(Z, Y)
    for i in range(15):
        A, B = np.delete(Z, i, axis=0), np.delete(Y, i, axis=0)
        center, mean = A.mean(axis=0), B.mean(axis=0)
        A, B = A - center, B - mean
        coef = np.linalg.solve(A.T @ A + alpha * np.eye(D), A.T @ B)
        np.testing.assert_allclose(found[i], mean + (Z[i] - center) @ coef, rtol=0, atol=1e-9)


def test_the_best_alpha_is_taken(monkeypatch):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(40, 30))
    Y = Z[:, :1] + 3 * rng.normal(size=(40, 1))
    errors = {}
    grid = half_size._ALPHAS
    for alpha in grid:
        monkeypatch.setattr(half_size, "_ALPHAS", np.array([alpha]))
        errors[alpha] = np.sum((half_size._leave_one_out(Z, Y) - Y) ** 2)
    monkeypatch.setattr(half_size, "_ALPHAS", grid)
    assert np.sum((half_size._leave_one_out(Z, Y) - Y) ** 2) == pytest.approx(min(errors.values()))
    assert min(errors.values()) < 0.8 * errors[grid[0]]


def test_equal_features_are_predicted_by_the_mean_of_the_others():
    Y = np.arange(5.0)[:, None]
    found = half_size._leave_one_out(np.ones((5, 3)), Y)
    np.testing.assert_allclose(found, (Y.sum() - Y) / 4)


def test_more_features_help_where_few_do_not_reach_the_kernel():
    X, y = checks(600, 4)
    found = compare(KernelClassifier(RandomFourier(64, gamma=80.0, random_state=0)), X, y)
    assert (found.features, found.half, found.measure) == (64, 32, "accuracy")
    assert found.more_help and not found.fewer_suffice
    assert str(found).endswith("more features are likely to help.")


def test_fewer_features_do_as_well_where_half_of_them_reach_the_kernel():
    X, _ = checks(300, 1)
    y = X[:, 0] + X[:, 1]
    found = compare(KernelRegressor(RandomFourier(512, random_state=0)), X, y)
    assert found.measure == "R^2" and found.score > 0.999
    assert found.fewer_suffice and not found.more_help
    assert str(found) == (
        "Leave-one-out R^2 of 300 rows: 1.000 with 512 features, 1.000 with 256 of them; 256 do "
        "as well."
    )


def test_of_a_sample_it_is_not_said_that_fewer_do_as_well():
    X, _ = checks(2100, 1)
    found = compare(KernelRegressor(RandomFourier(32, random_state=0)), X, X[:, 0])
    assert (found.rows, found.total, found.sampled) == (2000, 2100, True)
    assert found.gain < 0.005 and not found.fewer_suffice and not found.more_help
    assert "2,000 sampled rows" in str(found) and str(found).endswith("of them.")


def test_verdicts_need_more_than_chance():
    scores = HalfSize("accuracy", 100, 100, False, 64, 32, 0.93, 0.90, 0.014)
    assert scores.more_help
    assert not replace(scores, deviation=0.016).more_help
    assert not replace(scores, score=0.909, deviation=0.001).more_help  # less than a point
    assert not replace(scores, score=0.909, deviation=0.001).fewer_suffice
    assert replace(scores, score=0.9009, deviation=0.0).fewer_suffice
    assert not replace(scores, score=0.9011, deviation=0.0).fewer_suffice
    assert not replace(scores, score=0.9051, deviation=0.1).fewer_suffice


def test_a_copy_does_not_predict_its_row():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.normal(size=60)
    once = compare(KernelRegressor(RandomFourier(128, gamma=1.0, random_state=0)), X, y)
    model = KernelRegressor(RandomFourier(128, gamma=1.0, random_state=0))
    twice = compare(model, np.repeat(X, 2, axis=0), np.repeat(y, 2))
    assert twice.rows == 60 and twice.total == 120
    assert twice.score == pytest.approx(once.score) and once.score < 0.3


def test_half_of_the_features_are_the_map_of_half_the_size():
    X, _ = checks(50, 2)
    for cls in (RandomFourier, RandomLaplace, SignCauchy):
        Z = cls(64, random_state=0).fit(X).transform(X)
        half = cls(32, random_state=0).fit(X).transform(X)
        part = Z[:, : half.shape[1]]
        ratio = abs(half).sum() / abs(part).sum()
        assert abs(half - ratio * part).max() < 0.1 * abs(half).max()


@pytest.mark.parametrize(
    "model",
    [
        KernelClassifier(Hellinger()),
        KernelClassifier(RandomFourier(32) + RandomFourier(32)),
        KernelClassifier(RandomFourier(32), loss="logistic"),
        KernelClassifier(RandomFourier(32), penalty="l1", alpha=1.0),
        KernelClassifier(RandomFourier(32), pca=8),
        KernelClassifier(RandomFourier(1)),
    ],
    ids=["exact", "stacked", "logistic", "l1", "pca", "one feature"],
)
def test_models_without_a_half_are_not_compared(model):
    assert compare(model.set_params(random_state=0), *checks(40, 2)) is None


def test_rows_or_targets_that_leave_nothing_to_compare_are_not():
    X, _ = checks(40, 2)
    model = KernelRegressor(RandomFourier(32, random_state=0))
    assert compare(model, X[:5], X[:5, 0]) is None
    assert compare(model, X, np.ones(40)) is None
    assert compare(model, X, X) is None
