"""Adaptive prediction sets: coverage, sizes, weights and what is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.special import softmax

from mercer import KernelClassifier, RandomFourier
from mercer.linear_model.calibration import Calibration
from mercer.linear_model.left_out import FoldModels, LeftOutSample
from mercer.linear_model.prediction_sets import PredictionSets, probability_before

CLASSES = 4


def simulate(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of classes that overlap: the most probable one is right for two in three."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    F = 2 * np.column_stack([X[:, 0], -X[:, 0], np.sin(2 * X[:, 1]), X[:, 1] ** 2 - 1])
    P = softmax(F, axis=1)
    return X, (P.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)


def classifier(**more: object) -> KernelClassifier:
    feature_map = RandomFourier(48, gamma=0.5, random_state=0)
    return KernelClassifier(feature_map, **{"alpha": 1.0, **more})


def made(
    K: int = 3, n: int = 200, t: int = CLASSES, seed: int = 0
) -> tuple[PredictionSets, LeftOutSample, FoldModels]:
    rng = np.random.default_rng(seed)
    models = FoldModels(rng.normal(size=(K, 5, t)), rng.normal(size=(K, t)), K)
    sample = LeftOutSample(
        rng.normal(size=(n, t)),
        rng.integers(0, t, (n, 1)).astype(float),
        rng.integers(0, K, n),
        np.zeros(n),
        np.ones(n),
        np.ones(n),
    )
    sets = PredictionSets.of(models, sample, Calibration.identity(t), "squared", sample.weight)
    return sets, sample, models


def test_probability_before_is_that_of_the_more_probable_classes():
    P = np.array([[0.2, 0.5, 0.3], [0.25, 0.25, 0.5], [1.0, 0.0, 0.0]])
    np.testing.assert_allclose(
        probability_before(P), [[0.8, 0.0, 0.5], [0.5, 0.75, 0.0], [0.0, 1.0, 1.0]]
    )


@pytest.mark.parametrize("K", [1, 3])
@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_sets_are_those_of_the_definition(K, coverage):
    sets, sample, _ = made(K)
    n, rng = len(sample.fold), np.random.default_rng(1)
    scores = rng.normal(size=(30, K * CLASSES))
    predicted = rng.integers(0, CLASSES, 30)
    found = sets.sets(scores, predicted, Calibration.identity(CLASSES), "squared", coverage)

    def before(F: np.ndarray) -> np.ndarray:
        P = softmax(F, axis=-1)
        return np.array([[p[p > value].sum() for value in p] for p in P])

    own = before(sample.scores)[np.arange(n), sample.targets[:, 0].astype(int)]
    for row in range(30):
        new = before(scores[row].reshape(K, CLASSES))
        for c in range(CLASSES):
            below = sum(own[i] < new[sample.fold[i], c] - 1e-12 for i in range(n))
            expected = below < coverage * (n + 1) or c == predicted[row]
            assert found[row, c] == expected


def test_a_set_does_not_depend_on_the_rows_beside_it(monkeypatch):
    sets, _, _ = made()
    rng = np.random.default_rng(2)
    scores, predicted = rng.normal(size=(50, 3 * CLASSES)), rng.integers(0, CLASSES, 50)
    arguments = (Calibration.identity(CLASSES), "squared", 0.8)
    all_rows = sets.sets(scores, predicted, *arguments)
    monkeypatch.setattr("mercer.linear_model.prediction_sets._NUMBERS", 12)
    np.testing.assert_array_equal(sets.sets(scores, predicted, *arguments), all_rows)


@pytest.mark.full
@pytest.mark.parametrize("coverage", [0.8, 0.9, 0.95])
@pytest.mark.parametrize("loss", ["squared", "squared_hinge", "log_loss"])
def test_coverage_is_kept_on_average(loss, coverage):
    seeds, train, test, covered, sizes = 12, 400, 1500, [], []
    for seed in range(seeds):
        X, y = simulate(train + test, seed)
        model = classifier(loss=loss, uncertainty=True).fit(X[:train], y[:train])
        S = model.predict_set(X[train:], coverage)
        covered.append(S[np.arange(test), y[train:]].mean())
        sizes.append(S.sum(axis=1).mean())
        assert S.any(axis=1).all()
    # of a fit the coverage has the variance of n left-out rows, and that of the new ones
    error = np.sqrt(coverage * (1 - coverage) * (1 / train + 1 / test) / seeds)
    assert coverage - 4 * error < np.mean(covered) < coverage + 4 * error + 0.02
    assert 1 < np.mean(sizes) < {0.8: 2.2, 0.9: 2.8, 0.95: 3.3}[coverage]


def test_a_part_that_is_held_out_keeps_the_coverage():
    covered = []
    for seed in range(6):
        X, y = simulate(4000, seed)
        model = classifier(loss="squared_hinge", uncertainty=True).fit(X[:2200], y[:2200])
        assert len(model._sets.models.coef) == 1
        covered.append(model.predict_set(X[2200:], 0.8)[np.arange(1800), y[2200:]].mean())
    error = np.sqrt(0.8 * 0.2 * (1 / 550 + 1 / 1800) / 6)
    assert abs(np.mean(covered) - 0.8) < 4 * error


def test_larger_coverage_has_larger_sets_with_the_predicted_class():
    X, y = simulate(600, 0)
    model = classifier(uncertainty=True).fit(X[:300], np.array(list("abcd"))[y[:300]])
    sets = [model.predict_set(X[300:], c) for c in (0.2, 0.5, 0.8, 0.95, 0.99)]
    for smaller, larger in itertools.pairwise(sets):
        assert not (smaller & ~larger).any()
    first = np.searchsorted(model.classes_, model.predict(X[300:]))
    assert sets[0][np.arange(300), first].all()
    assert sets[0].sum(axis=1).mean() < 1.2 < sets[-1].sum(axis=1).mean()
    np.testing.assert_array_equal(model.predict_set(X[300:]), model.predict_set(X[300:], 0.9))


def test_sure_models_have_sets_of_one_class():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    X = np.eye(3)[y] * 5 + rng.normal(size=(300, 3))
    S = classifier(uncertainty=True).fit(X, y).predict_set(X, 0.9)
    assert S.sum(axis=1).mean() < 1.05


def test_two_classes_have_sets():
    X, y = simulate(1000, 3)
    y = y % 2
    S = classifier(uncertainty=True).fit(X[:500], y[:500]).predict_set(X[500:], 0.9)
    assert S.shape == (500, 2)
    assert 0.85 < S[np.arange(500), y[500:]].mean() < 0.97
    assert 1.0 < S.sum(axis=1).mean() < 2.0


def test_sample_weights_count_rows_and_class_weights_do_not():
    X, y = simulate(2400, 4)
    train, test = slice(0, 1200), slice(1200, 2400)
    w = np.random.default_rng(5).integers(0, 3, 1200)
    weighted = classifier(uncertainty=True).fit(X[train], y[train], sample_weight=w)
    repeated = np.repeat(np.arange(1200), w)
    copies = classifier(uncertainty=True).fit(X[repeated], y[repeated])
    np.testing.assert_array_equal(weighted.predict_set(X[test]), copies.predict_set(X[test]))
    heavy = classifier(uncertainty=True, class_weight={0: 20.0, 3: 0.5}).fit(X[train], y[train])
    np.testing.assert_allclose(heavy._sets.weight, 1.0)
    S = heavy.predict_set(X[test], 0.8)
    error = np.sqrt(0.8 * 0.2 * (2 / 1200))
    assert abs(S[np.arange(1200), y[test]].mean() - 0.8) < 4 * error
    balanced = classifier(uncertainty=True, class_weight="balanced").fit(X[train], y[train])
    np.testing.assert_allclose(balanced._sets.weight, 1.0)


def test_a_coverage_that_needs_more_rows_is_refused_with_their_number():
    X, y = simulate(60, 6)
    model = classifier(uncertainty=True).fit(X, y)
    assert model.predict_set(X, 60 / 61).shape == (60, CLASSES)
    with pytest.raises(
        ValueError,
        match=r"A prediction set of coverage 0.99 needs at least 99 rows .*, and there are 60",
    ):
        model.predict_set(X, 0.99)


@pytest.mark.parametrize("coverage", [0, 1, 1.5, -0.1, "0.9", None])
def test_coverage_is_a_number_between_0_and_1(coverage):
    X, y = simulate(60, 7)
    with pytest.raises(ValueError, match="coverage must be a number between 0 and 1, got"):
        classifier().fit(X, y).predict_set(X, coverage)
