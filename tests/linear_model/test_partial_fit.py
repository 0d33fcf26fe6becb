"""partial_fit: batches add up to the whole."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers.estimator_data import SMALL, N, X, classifier, regressor, same, t, w, y

from mercer import RandomFourier, Scaled


@pytest.mark.parametrize("alpha", [0.3, "gcv", "kfold"])
def test_partial_fit_on_batches_is_fit_on_all(alpha):
    parts = [slice(0, 100), slice(100, 101), slice(101, N)]
    model, labels = regressor(alpha), classifier(alpha, class_weight={0: 2.0})
    for part in parts:
        model.partial_fit(X[part], t[part], w[part])
        labels.partial_fit(X[part], y[part], classes=[0, 1, 2])
    same(model, regressor(alpha).fit(X, t, w), 1e-7)
    same(labels, classifier(alpha, class_weight={0: 2.0}).fit(X, y), 1e-7)


def test_a_learned_metric_keeps_the_classes_that_were_given():
    first = y < 2
    model = classifier(metric="learned")
    model.partial_fit(X[first], y[first], classes=[0, 1, 2])
    assert model.classes_.tolist() == [0, 1, 2]
    model.partial_fit(X[~first], y[~first])
    assert set(model.predict(X)) == {0, 1, 2}


def test_partial_fit_continues_a_fit():
    model = regressor().fit(X[:100], t[:100]).partial_fit(X[100:], t[100:])
    same(model, regressor().fit(X, t))
    labels = classifier().fit(X[:100], y[:100]).partial_fit(X[100:], y[100:], classes=[0, 1, 2])
    same(labels, classifier().fit(X, y))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {"alpha": "kfold"},
            r"alpha='kfold' with penalty='l2' has folds, unlike the statistics of the rows before",
        ),
        (
            {"penalty": "l1", "alpha": [1.0, 2.0]},
            "has folds, unlike the statistics of the rows before",
        ),
        ({"penalty": "l0"}, "penalty must be one of 'l2', 'l1', 'group', got 'l0'"),
        ({"penalty": "l1", "alpha": 0.0}, "needs an alpha above 0"),
        ({"alpha": -1.0}, "alpha must be a number of at least 0"),
        ({"pca": 10**6}, "pca must be at most the number of features"),
    ],
)
def test_parameters_that_change_between_batches_are_validated(changed, words):
    model = regressor(0.3).partial_fit(X[:100], t[:100])
    kept = model.get_params(deep=False)
    with pytest.raises(ValueError, match=words):
        model.set_params(**changed).partial_fit(X[100:], t[100:])
    same(model.set_params(**kept).partial_fit(X[100:], t[100:]), regressor(0.3).fit(X, t), 1e-7)
    folds = regressor("kfold").partial_fit(X[:100], t[:100]).set_params(alpha=1.0)
    with pytest.raises(ValueError, match="has no folds, unlike the statistics of the rows before"):
        folds.partial_fit(X[100:], t[100:])


def test_map_statistics_are_those_of_the_first_batch():
    model = regressor(feature_map=RandomFourier(32, random_state=0)).partial_fit(X[:50], t[:50])
    scaled, fourier = model.feature_map_.maps_
    scale, gamma = scaled.scale_, fourier.gamma_
    scaled, fourier = model.partial_fit(10 * X[50:], t[50:]).feature_map_.maps_
    assert np.array_equal(scaled.scale_, scale) and fourier.gamma_ == gamma
    first = (Scaled() >> RandomFourier(32, random_state=0)).fit(X[:50])
    assert np.array_equal(scale, first.maps_[0].scale_) and gamma == first.maps_[1].gamma_


def test_a_batch_that_is_refused_changes_nothing():
    model = classifier().partial_fit(X[:100], y[:100], classes=[0, 1, 2])
    before = model.feature_coef_
    with pytest.raises(ValueError, match=r"y has the label 7, which is not among \[0, 1, 2\]"):
        model.partial_fit(X[100:], np.where(y[100:] == 1, 7, y[100:]))
    with pytest.raises(ValueError, match="not the same as on the first call"):
        model.partial_fit(X[100:], y[100:], classes=[0, 1])
    with pytest.raises(ValueError, match="requires y"):
        model.partial_fit(X[100:])
    assert np.array_equal(model.feature_coef_, before)
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        classifier().partial_fit(X, y)
    for wrong in ({"alpha": "loo"}, {"max_memory": SMALL}):
        with pytest.raises(ValueError, match="partial_fit adds up normal equations"):
            regressor(**wrong).partial_fit(X, t)
