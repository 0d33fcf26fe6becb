"""Equal rows are on the same side: left out together, in one fold, held out or not."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import scale

from mercer import KernelClassifier, KernelRegressor, RandomFourier, open_stream
from mercer.linear_model.cross_validation import held_out_rows, left_out_weights


def regressor(alpha="auto", **more):
    return KernelRegressor(RandomFourier(512, gamma=0.05, random_state=0), alpha=alpha, **more)


def rows() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_diabetes(return_X_y=True)
    return scale(X), y


@pytest.mark.parametrize("alpha", ["auto", "loo", "kfold"])
def test_every_row_twice_and_weights_of_2_give_the_model_of_the_rows(alpha):
    X, y = rows()
    once = regressor(alpha).fit(X[:300], y[:300])
    twice = regressor(alpha).fit(np.repeat(X[:300], 2, axis=0), np.repeat(y[:300], 2))
    weighted = regressor(alpha).fit(X[:300], y[:300], sample_weight=np.full(300, 2.0))
    assert once.score(X[300:], y[300:]) > 0.4
    for other in (twice, weighted):
        assert other.alpha_ == pytest.approx(2 * once.alpha_)
        np.testing.assert_allclose(other.alpha_scores_, once.alpha_scores_, rtol=1e-7)
        np.testing.assert_allclose(other.predict(X), once.predict(X), rtol=1e-6)


def test_a_repeated_row_of_noise_does_not_change_the_choice():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 3)), rng.normal(size=400)
    X[:, 0] += 0.7 * y
    plain = regressor().fit(X, y)
    more = regressor().fit(np.vstack([X, X[:1]]), np.append(y, y[0]))
    assert more.alpha_ == pytest.approx(plain.alpha_, rel=0.01)


def test_generalized_cross_validation_degenerates_where_leave_one_out_does_not():
    X, y = rows()
    X, y = np.repeat(X[:300], 2, axis=0), np.repeat(y[:300], 2)
    assert regressor("gcv").fit(X, y).alpha_ < 1e-3 * regressor("auto").fit(X, y).alpha_


def weights_of(X, y, weights=None) -> list[float]:
    return left_out_weights(open_stream((X, y)).with_targets(None, weights), np.asarray).tolist()


def test_copies_are_left_out_together_where_their_targets_agree():
    X = np.array([[1.0], [2.0], [1.0], [2.0], [1.0], [3.0]])
    assert weights_of(X, [5.0, 1.0, 5.0, 2.0, 5.0, 7.0]) == [3, 1, 3, 1, 3, 1]
    weights = [1.0, 0.5, 2.0, 3.0, 1.0, 4.0]
    assert weights_of(X, [5.0, 1.0, 5.0, 2.0, 5.0, 7.0], weights) == [4, 0.5, 4, 1, 4, 4]
    two = np.array([[5.0, 0.0], [1.0, 0.0], [5.0, 0.0], [1.0, 0.0], [5.0, 1.0], [7.0, 0.0]])
    assert weights_of(X, two) == [1, 2, 1, 2, 1, 1]


def test_held_out_rows_are_a_share_of_the_different_rows_with_all_their_copies():
    X = np.repeat(np.random.default_rng(0).normal(size=(60, 3)), 4, axis=0)
    held = held_out_rows(open_stream(X)).reshape(60, 4)
    assert np.all(held == held[:, :1])
    assert held[:, 0].sum() == 20
    assert held_out_rows(open_stream(np.tile(X, (100, 1)))).sum() == 6 * 400
    for n, count in ((1, 0), (2, 1), (3, 1)):
        assert held_out_rows(open_stream(X[: 4 * n])).sum() == 4 * count


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_losses_hold_copies_out_together(loss):
    X, y = rows()
    label = y > np.median(y)
    feature_map = RandomFourier(64, gamma=0.05, random_state=0)
    once = KernelClassifier(feature_map, loss=loss).fit(X, label)
    twice = KernelClassifier(feature_map, loss=loss).fit(np.vstack([X, X]), np.r_[label, label])
    assert twice.alpha_ == pytest.approx(2 * once.alpha_)
    tried = np.isfinite(once.alpha_scores_)
    np.testing.assert_allclose(twice.alpha_scores_[tried], once.alpha_scores_[tried], rtol=1e-3)
