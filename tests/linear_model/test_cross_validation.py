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
    tried = np.isfinite(once.alpha_scores_) & np.isfinite(twice.alpha_scores_)
    assert tried.sum() >= 2  # the best and another
    np.testing.assert_allclose(twice.alpha_scores_[tried], once.alpha_scores_[tried], rtol=1e-3)


def _patients(count=40, each=20):
    """Rows of a patient are nearly equal, and so are their targets, which no other patient says."""
    rng = np.random.default_rng(3)
    groups = np.repeat(np.arange(count), each)
    center = rng.normal(size=(count, 6))
    X = center[groups] + 0.05 * rng.normal(size=(len(groups), 6))
    target = rng.normal(size=count)
    return X, target[groups] + 0.05 * rng.normal(size=len(groups)), groups


@pytest.mark.parametrize("loss", ["squared", "logistic", "squared_hinge", "log_loss"])
def test_rows_of_a_group_are_left_out_together(loss):
    X, y, groups = _patients()
    labels = (y > np.median(y)).astype(int)
    fourier = RandomFourier(256, random_state=0)
    model = KernelClassifier(fourier, loss=loss)
    alone, together = (
        model.fit(X, labels, groups=given).validation_score_.explained
        for given in (None, [f"patient {group}" for group in groups])
    )
    assert alone > 0.6 and together < 0.2


def test_folds_by_group_are_those_of_scikit_learn_on_whole_groups():
    from sklearn.linear_model import Ridge

    from mercer.data.row_keys import fold_numbers, row_keys

    X, y, groups = _patients()
    fourier = RandomFourier(64, random_state=0).fit(X)
    alphas = [0.1, 1.0, 10.0]
    model = KernelRegressor(fourier, alpha=alphas, scale=False).fit(X, y, groups=groups)
    numbers = np.unique(groups.astype(str), return_inverse=True)[1]
    folds = fold_numbers(row_keys(numbers[:, None].astype(float)), 5)
    assert all(len(np.unique(folds[groups == group])) == 1 for group in range(40))
    Z = model.feature_map_.transform(X)
    for alpha, score in zip(alphas, model.alpha_scores_, strict=True):
        squares = 0.0
        for fold in range(5):
            out = folds == fold
            squares += np.sum((Ridge(alpha).fit(Z[~out], y[~out]).predict(Z[out]) - y[out]) ** 2)
        assert score == pytest.approx(squares / len(y), rel=1e-8)


def test_the_latest_rows_are_held_out_by_time():
    rng = np.random.default_rng(4)
    times = rng.permutation(1000)
    X = rng.normal(size=(1000, 3))
    y = np.where(times < 750, X[:, 0], -X[:, 0])  # what was learned is wrong later
    stream = open_stream((X, y)).with_times(times)
    held_out = held_out_rows(stream)
    assert times[held_out].min() > times[~held_out].max()
    model = KernelRegressor(RandomFourier(64, random_state=0)).fit(stream)
    assert model.plan_.alpha_method == "held-out"
    assert model.validation_score_.explained < 0.1
    mixed = KernelRegressor(RandomFourier(64, random_state=0)).fit(X, y)
    assert mixed.validation_score_.explained > 0.15


@pytest.mark.parametrize(
    ("groups", "alpha", "message"),
    [
        ([0] * 50, "auto", "all rows are in one fold"),
        (list(range(50)), "loo", "leaves out rows that others of their group predict"),
        ([1, 2], "auto", "one number or label for each of the 50 rows"),
    ],
)
def test_groups_that_cannot_be_left_out_are_refused(groups, alpha, message):
    X = np.random.default_rng(0).normal(size=(50, 3))
    with pytest.raises(ValueError, match=message):
        KernelRegressor(alpha=alpha).fit(X, X[:, 0], groups=groups)
