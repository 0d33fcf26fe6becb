"""Sizes of maps that have no use are refused at once, with the largest that has one."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from mercer import Chi2Series, ExpChi2, Homogeneous, plan
from mercer.errors import ParameterError
from mercer.kernels import Chi2
from mercer.kernels.gram import gram
from mercer.maps._chi2_poles import minimax_poles, residual

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


@pytest.mark.parametrize("n", [3, 40, 48, 64])
def test_up_to_the_largest_size_the_minimax_error_has_n_plus_1_equal_maxima(n):
    """As Chebyshev's theorem has it; by 2^12 points between any two poles, for x P(x)^2."""
    poles = minimax_poles(n)
    edges = np.log([poles[0] * 1e-4, *poles, 1.0])
    x = np.exp(np.linspace(edges[:-1], edges[1:], 2**12))
    maxima = [(column * residual(column, poles) ** 2).max() for column in x.T]
    assert len(maxima) == n + 1 and (np.diff(poles) > 0).all() and poles[-1] < 1
    np.testing.assert_allclose(maxima, maxima[-1], rtol=1e-6)
    assert maxima[-1] < 20 * np.exp(-np.pi * np.sqrt(2 * n))


def test_the_largest_chi2_series_is_exact_to_rounding():
    features = Chi2Series(64, poles="minimax").fit(X).transform(X)
    np.testing.assert_allclose(features @ features.T, gram(Chi2(), X, X), rtol=0, atol=1e-12)
