"""Sizes of maps that have no use are refused at once, with the largest that has one."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from mercer import Chi2Series, ExpChi2, Homogeneous, plan
from mercer.errors import ParameterError

X = np.random.default_rng(0).gamma(0.5, size=(50, 3))
TOO_LARGE = [
    (Chi2Series(200), 64),
    (Chi2Series(65, poles="minimax"), 64),
    (ExpChi2(64, n_terms=200), 64),
    (Homogeneous(200), 128),
    (Homogeneous(129, kernel="intersection"), 128),
]


@pytest.mark.parametrize(("feature_map", "most"), TOO_LARGE, ids=lambda value: repr(value)[:30])
def test_a_size_of_no_use_is_refused_before_anything_is_computed(feature_map, most):
    for refused in (lambda: clone(feature_map).fit(X), lambda: plan(X, feature_map)):
        with pytest.raises(ParameterError, match=rf"n_terms is \d+, and at most {most} are of use"):
            refused()


@pytest.mark.parametrize(
    "feature_map",
    [Chi2Series(100, poles="greedy"), Homogeneous(300, window="uniform")],
    ids=["greedy", "uniform"],
)
def test_sizes_that_cost_nothing_are_not_limited(feature_map):
    assert feature_map.fit(X).transform(X[:2]).shape[1] >= 300
