"""Probabilities that are calibrated on rows that were left out."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_predict

import mercer
from mercer import GCWS, KernelClassifier, RandomFourier
from mercer.data.row_keys import fold_numbers, row_keys
from mercer.linear_model.calibration import SHRINKAGE, Calibration, logits_of
from mercer.linear_model.cross_validation import Folds, HeldOutFold

LOSS = pytest.mark.parametrize("loss", ["squared", "squared_hinge", "logistic", "log_loss"])


def sample(n: int = 2000, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return logits, classes that follow softmax(a z + b), and their probabilities."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, 3))
    P = softmax(Z * [3.0, 1.5, 2.0] + [0.5, 0.0, -1.0], axis=1)
    return Z, (P.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1), P


def rows(n: int = 600, classes: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    f = X[:, 0] + 0.5 * np.sin(3 * X[:, 1]) + 0.7 * rng.normal(size=n)
    return X, np.digitize(f, np.linspace(-0.7, 0.7, classes - 1) if classes > 2 else [0.3])


def classifier(loss: str = "squared", alpha: object = 1.0, **more: object) -> KernelClassifier:
    feature_map = more.pop("feature_map", RandomFourier(64, gamma=0.5, random_state=0))
    return KernelClassifier(feature_map, loss=loss, alpha=alpha, **more)


def test_slopes_and_offsets_are_those_of_the_classes():
    Z, y, P = sample(60_000)
    found = Calibration.of(Z, y, np.ones(len(Z)))
    np.testing.assert_allclose(found.slope, [3.0, 1.5, 2.0], rtol=0.03)
    np.testing.assert_allclose(
        found.offset - found.offset.mean(), [2 / 3, 1 / 6, -5 / 6], atol=0.04
    )
    free = softmax(Z * found.slope + found.offset, axis=1)
    assert np.abs(free - P).max() < 0.02


def test_slopes_and_offsets_are_the_minimum_of_the_objective():
    Z, y, _ = sample(300)
    w = np.random.default_rng(1).random(len(Z)) + 0.5
    found = Calibration.of(Z, y, w)
    shared = Calibration.of(Z, y, w, shared=True).slope[0]
    share = 1 / (1 + w.sum())
    T = np.eye(3)[y] * (1 - share) + share / 3

    def objective(slope: np.ndarray, offset: np.ndarray) -> float:
        logP = np.log(softmax(Z * slope + offset, axis=1))
        shrunk = np.sum((slope / shared - 1) ** 2) + np.sum(offset**2)
        return float(-w @ (T * logP).sum(axis=1) + SHRINKAGE / 2 * shrunk)

    least = objective(found.slope, found.offset)
    for step in np.concatenate([np.eye(6), -np.eye(6)]) * 1e-3:
        assert objective(found.slope + step[:3], found.offset + step[3:]) > least
    losses = [
        -w @ (T * np.log(softmax(s * shared * Z, axis=1))).sum(axis=1) for s in (0.99, 1, 1.01)
    ]
    assert losses[1] < min(losses[0], losses[2])


def test_two_classes_have_the_sigmoid_of_platt():
    rng = np.random.default_rng(2)
    f = rng.normal(size=4000)
    y = (rng.random(4000) < expit(2.5 * f + 0.4)).astype(int)
    logits = logits_of(f[:, None], "squared")
    np.testing.assert_array_equal(logits, np.column_stack([-f / 2, f / 2]))
    found = Calibration.of(logits, y, np.ones(4000))
    slope, offset = found.slope.mean(), found.offset[1] - found.offset[0]
    reference = LogisticRegression(C=1e6, tol=1e-10).fit(f[:, None], y)
    np.testing.assert_allclose(slope, reference.coef_[0, 0], rtol=0.01)
    np.testing.assert_allclose(offset, reference.intercept_[0], atol=0.01)


def test_logits_have_the_probabilities_of_the_losses():
    F = np.random.default_rng(3).normal(size=(20, 4)) * 3
    np.testing.assert_allclose(softmax(logits_of(F, "log_loss"), axis=1), softmax(F, axis=1))
    P = expit(F)
    expected = P / P.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(softmax(logits_of(F, "logistic"), axis=1), expected)
    for loss in ("log_loss", "logistic", "squared"):
        P = softmax(logits_of(F[:, :1], loss), axis=1)
        np.testing.assert_allclose(P[:, 1], expit(F[:, 0]))


def test_separate_classes_and_scores_without_information_have_finite_slopes():
    Z, y = np.eye(3)[np.arange(60) % 3], np.arange(60) % 3
    sure = Calibration.of(Z, y, np.ones(60)).probabilities(Z)
    assert 0.95 < sure[np.arange(60), y].min() < 1
    for logits in (np.zeros((60, 3)), -Z):
        P = Calibration.of(logits, y, np.ones(60)).probabilities(logits)
        np.testing.assert_allclose(P, 1 / 3, atol=0.01)
    far = Calibration.of(1e8 * Z, y, np.ones(60)).probabilities(1e8 * Z)
    np.testing.assert_allclose(far, sure, atol=1e-12)


def test_a_class_without_left_out_rows_keeps_the_shared_slope():
    Z, y, _ = sample(500)
    kept = y != 2
    found = Calibration.of(Z[kept], y[kept], np.ones(kept.sum()))
    assert np.isfinite(found.slope).all() and np.isfinite(found.offset).all()
    assert found.offset[2] < found.offset[:2].min()


def test_weights_count_as_copies():
    Z, y, _ = sample(200)
    w = np.random.default_rng(4).integers(0, 4, 200)
    one = Calibration.of(Z, y, w.astype(float))
    other = Calibration.of(np.repeat(Z, w, axis=0), np.repeat(y, w), np.ones(w.sum()))
    np.testing.assert_allclose(one.slope, other.slope, rtol=1e-7)
    np.testing.assert_allclose(one.offset, other.offset, rtol=0, atol=1e-7)


def test_the_predicted_class_has_the_highest_probability():
    rng = np.random.default_rng(5)
    Z = rng.normal(size=(500, 4))
    calibration = Calibration(np.array([1.0, 3.0, 0.5, 2.0]), np.array([1.0, -1.0, 0.0, 0.5]))
    P, free = calibration.probabilities(Z), softmax(Z * calibration.slope + calibration.offset, 1)
    same = free.argmax(axis=1) == Z.argmax(axis=1)
    assert 0.2 < same.mean() < 0.9
    np.testing.assert_array_equal(P.argmax(axis=1), Z.argmax(axis=1))
    np.testing.assert_array_equal(P[same], free[same])
    np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-12)
    for row in np.flatnonzero(~same)[:50]:  # no other point of the set is nearer
        first = Z[row].argmax()
        for other in (np.full(4, 0.25), np.eye(4)[first], free[row] * 0.5 + np.eye(4)[first] * 0.5):
            if other[first] >= other.max():
                for step in (1e-3, 1.0):
                    near = P[row] + step * (other - P[row])
                    distance = np.sum((near - free[row]) ** 2)
                    assert distance > np.sum((P[row] - free[row]) ** 2) - 1e-6


@pytest.mark.parametrize("classes", [2, 3])
@LOSS
def test_probabilities_of_new_rows_are_calibrated(loss, classes):
    X, y = rows(3000, classes)
    model = classifier(loss, uncertainty=True).fit(X[:1500], y[:1500])
    P = model.predict_proba(X[1500:])
    assert P.shape == (1500, classes)
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[P.argmax(axis=1)], model.predict(X[1500:]))
    for c in range(classes):
        for low, high in ((0.0, 0.5), (0.5, 1.0)):
            inside = (P[:, c] >= low) & (P[:, c] < high)
            p, truth = P[inside, c], y[1500:][inside] == c
            # of as many left-out rows as new ones
            error = np.sqrt(2 * np.mean(p * (1 - p)) / len(p))
            assert abs(p.mean() - truth.mean()) < 4 * error


@pytest.mark.full
def test_calibrated_probabilities_of_digits_have_the_log_loss_of_log_loss():
    X, y = load_digits(return_X_y=True)
    losses = {}
    for loss in ("squared", "squared_hinge", "log_loss"):
        model = KernelClassifier(RandomFourier(512, random_state=0), loss=loss).fit(
            X[:900], y[:900]
        )
        losses[loss] = log_loss(y[900:], model.predict_proba(X[900:]))
    assert max(losses.values()) < 0.2


@pytest.mark.full
def test_a_given_alpha_of_log_loss_has_a_temperature_and_a_chosen_one_has_not():
    X, y = rows(900)
    train, test = slice(0, 450), slice(450, 900)
    feature_map = RandomFourier(256, gamma=0.5, random_state=0)
    for loss in ("log_loss", "logistic"):
        plain = classifier(loss, 1e-4, feature_map=feature_map).fit(X[train], y[train])
        scaled = clone(plain).set_params(uncertainty=True).fit(X[train], y[train])
        own, P = plain.predict_proba(X[test]), scaled.predict_proba(X[test])
        assert log_loss(y[test], P) < 0.7 * log_loss(y[test], own)
        np.testing.assert_array_equal(own.argmax(axis=1), P.argmax(axis=1))
        plain.predict_set(X[test])  # measures it for the sets alone
        np.testing.assert_array_equal(plain.predict_proba(X[test]), own)
        chosen = classifier(loss, "auto").fit(X[train], y[train])
        again = classifier(loss, "auto", uncertainty=True).fit(X[train], y[train])
        np.testing.assert_allclose(
            again.predict_proba(X[test]), chosen.predict_proba(X[test]), atol=1e-12
        )


@pytest.mark.parametrize("loss", ["squared", "squared_hinge"])
def test_probabilities_after_fit_are_those_of_uncertainty(loss):
    X, y = rows()
    measured = classifier(loss, uncertainty=True).fit(X, y)
    later = classifier(loss).fit(X, y)
    before = dict(vars(later))
    np.testing.assert_allclose(later.predict_proba(X), measured.predict_proba(X))
    assert vars(later) == before
    np.testing.assert_array_equal(later.predict_set(X), measured.predict_set(X))


@pytest.mark.parametrize("alpha", ["auto", 0.5, "gcv", "kfold"])
@pytest.mark.parametrize("n_components", [32, 3000])
def test_folds_are_left_out_whatever_the_route(alpha, n_components):
    if alpha == "kfold" and n_components > 1000:
        pytest.skip("the Gram matrix has no folds")
    X, y = rows(400)
    feature_map = RandomFourier(n_components, gamma=0.5, random_state=0)
    model = classifier("squared", alpha, feature_map=feature_map, uncertainty=True).fit(X, y)
    assert model.plan_.route == ("moments" if n_components == 32 else "gram")
    assert model.plan_.passes[-1] == "scores of left-out rows"
    models = model._sets.models
    assert models.coef.shape == (5, n_components, 3)
    fold = fold_numbers(row_keys(X), models.count)
    rest = clone(model).set_params(alpha=model.alpha_, uncertainty=False)
    rest.set_params(feature_map=feature_map, scale=False).fit(X[fold != 2], y[fold != 2])
    np.testing.assert_allclose(models.coef[2], rest.feature_coef_.T, rtol=0, atol=5e-6)


@LOSS
@pytest.mark.parametrize("n_components", [32, 500])
def test_a_quarter_is_left_out_of_a_fit_by_passes(loss, n_components):
    X, y = rows(400)
    feature_map = RandomFourier(n_components, gamma=0.5, random_state=0)
    memory = "1kB" if loss == "squared" else None
    model = classifier(
        loss, feature_map=feature_map, uncertainty=True, max_memory=memory, tol=1e-6, scale=False
    ).fit(X, y)
    assert model.plan_.route == ("passes" if loss == "squared" else "newton-cg")
    models = model._sets.models
    assert (models.count, len(models.coef)) == (4, 4)
    fold = fold_numbers(row_keys(X), models.count)
    other = clone(model).set_params(uncertainty=False).fit(X[fold != 1], y[fold != 1])
    scale = np.abs(other.feature_coef_).max()
    np.testing.assert_allclose(models.coef[1].T, other.feature_coef_, rtol=0, atol=1e-3 * scale)
    np.testing.assert_allclose(models.intercept[1], other.intercept_, rtol=0, atol=1e-3)


def test_folds_are_summed_in_the_pass_of_the_fit():
    X, y = rows(2200)
    few = classifier("squared", "gcv", uncertainty=True).fit(X, y)
    assert type(few._statistics) is Folds and len(few._statistics.parts) == 5
    assert "normal equations of 5 folds" in few.plan_.passes
    wide = RandomFourier(1100, gamma=0.5, random_state=0)
    many = classifier(feature_map=wide, uncertainty=True).fit(X, y)
    assert type(many._statistics) is HeldOutFold
    assert (many._sets.models.count, len(many._sets.models.coef)) == (4, 1)
    assert many.plan_.solver_bytes > classifier(feature_map=wide).fit(X, y).plan_.solver_bytes


def test_many_rows_have_one_quarter_left_out():
    X, y = rows(2100)
    model = classifier("squared_hinge", uncertainty=True).fit(X, y)
    assert (model._sets.models.count, len(model._sets.models.coef)) == (4, 1)
    assert 400 < len(model._sets.fold) < 650


@LOSS
def test_codes_have_probabilities_and_sets(loss):
    X, y = rows(400)
    X = np.abs(X)
    model = classifier(loss, feature_map=GCWS(32, bits=4, random_state=0), uncertainty=True).fit(
        X, y
    )
    P = model.predict_proba(X)
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    assert log_loss(y, P) < log_loss(y, np.full(P.shape, 1 / 3))
    assert model.predict_set(X, 0.8).any(axis=1).all()


def test_without_rows_the_message_says_what_to_do(tmp_path):
    X, y = rows()
    model = classifier().fit(X, y)
    mercer.save(model, tmp_path / "plain.mercer")
    loaded = mercer.load(tmp_path / "plain.mercer")
    part = classifier().partial_fit(X, y, classes=[0, 1, 2])
    frame = pd.DataFrame(X, columns=list("abc")).assign(y=y)
    frame.to_parquet(tmp_path / "rows.parquet")
    streamed = classifier().fit(mercer.open_stream(tmp_path / "rows.parquet", target="y"))
    for without in (loaded, part, streamed):
        assert not hasattr(without, "predict_proba")
        with pytest.raises(
            AttributeError, match="Fit with uncertainty=True, or with loss='log_loss'"
        ):
            without.predict_proba(X)
        with pytest.raises(ValueError, match="fit it again with mercer fit --uncertainty"):
            without.predict_set(X)
    updated = model.partial_fit(X, y)
    assert not hasattr(updated, "predict_proba")
    with pytest.raises(ValueError, match=r"partial_fit keeps no rows .* uncertainty=True needs"):
        classifier(uncertainty=True).partial_fit(X, y, classes=[0, 1, 2])


@pytest.mark.parametrize("more", [{"penalty": "l1"}, {"pca": 8}, {"alpha": 0.0}])
def test_settings_without_left_out_scores_have_no_probabilities(more):
    X, y = rows(100)
    model = KernelClassifier(RandomFourier(16, random_state=0), **{"alpha": 1.0, **more})
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError, match="uncertainty=True needs penalty='l2', no pca"):
        model.fit(X, y).predict_proba(X)
    with pytest.raises(ValueError, match="uncertainty=True needs penalty='l2', no pca"):
        model.set_params(uncertainty=True).fit(X, y)


@pytest.mark.parametrize("loss", ["squared", "squared_hinge", "log_loss"])
def test_a_file_has_probabilities_and_sets_with_uncertainty(loss, tmp_path):
    X, y = rows()
    model = classifier(loss, uncertainty=True).fit(X, np.array(list("abc"))[y])
    mercer.save(model, tmp_path / "model.mercer")
    for other in (
        mercer.load(tmp_path / "model.mercer"),
        pickle.loads(pickle.dumps(model)),
        copy.deepcopy(model),
    ):
        np.testing.assert_array_equal(other.predict_proba(X), model.predict_proba(X))
        np.testing.assert_array_equal(other.predict_set(X), model.predict_set(X))


def test_tools_of_scikit_learn_find_probabilities():
    X, y = rows(300)
    P = cross_val_predict(classifier(), X, y, method="predict_proba", cv=3)
    assert P.shape == (300, 3) and log_loss(y, P) < log_loss(y, np.full(P.shape, 1 / 3))
    parts = [("a", classifier()), ("b", classifier("squared_hinge"))]
    soft = VotingClassifier(parts, voting="soft").fit(X, y)
    assert soft.predict_proba(X).shape == (300, 3)
    stacked = StackingClassifier(parts, cv=3).fit(X, y)
    assert stacked.stack_method_ == ["predict_proba", "predict_proba"]


@pytest.mark.full
def test_probabilities_are_those_of_weighted_classes():
    X, y = rows(2000, 2)
    heavy = classifier(class_weight={0: 1.0, 1: 4.0}, uncertainty=True).fit(X, y)
    repeated = np.repeat(np.arange(2000), np.where(y == 1, 4, 1))
    other = classifier(uncertainty=True).fit(X[repeated], y[repeated])
    np.testing.assert_allclose(heavy.predict_proba(X), other.predict_proba(X), atol=2e-3)
    plain = classifier(uncertainty=True).fit(X, y).predict_proba(X)
    assert heavy.predict_proba(X)[:, 1].mean() > plain[:, 1].mean() + 0.1


def test_groups_are_left_out_together():
    X, y = rows(400)
    groups = np.arange(400) // 20
    X = X + np.random.default_rng(0).normal(size=(20, 3))[groups]
    y = np.where(np.arange(400) % 4 == 0, y, groups % 3)  # of a group, mostly
    sharp = RandomFourier(256, gamma=20.0, random_state=0)
    together = KernelClassifier(sharp, alpha=0.1, uncertainty=True).fit(X, y, groups=groups)
    later = KernelClassifier(sharp, alpha=0.1).fit(X, y, groups=groups)
    apart = KernelClassifier(sharp, alpha=0.1, uncertainty=True).fit(X, y)
    np.testing.assert_allclose(later.predict_proba(X), together.predict_proba(X), atol=1e-9)
    for k in range(5):
        assert not set(groups[_fold(together, groups) == k]) & set(
            groups[_fold(together, groups) != k]
        )
    assert together.predict_proba(X).max(axis=1).mean() < apart.predict_proba(X).max(axis=1).mean()


def _fold(model: KernelClassifier, groups: np.ndarray) -> np.ndarray:
    keys = row_keys(np.unique(groups.astype(str), return_inverse=True)[1][:, None] * 1.0)
    return fold_numbers(keys, model._sets.models.count)


def test_tensors_and_dask_arrays_have_the_same_probabilities_and_sets():
    torch, da = pytest.importorskip("torch"), pytest.importorskip("dask.array")
    X, y = rows(300)
    model = classifier().fit(X, y)
    P, S = model.predict_proba(X), model.predict_set(X)
    lazy, sets = (
        getattr(model, m)(da.from_array(X, chunks=(70, 3)))
        for m in ("predict_proba", "predict_set")
    )
    assert (sets.dtype, sets.shape) == (np.dtype(bool), S.shape)
    np.testing.assert_allclose(lazy.compute(), P, atol=1e-12)
    np.testing.assert_array_equal(sets.compute(), S)
    tensor = torch.from_numpy(X)
    np.testing.assert_allclose(model.predict_proba(tensor).numpy(), P, atol=1e-12)
    found = model.predict_set(tensor)
    assert found.dtype == torch.bool
    np.testing.assert_array_equal(found.numpy(), S)
