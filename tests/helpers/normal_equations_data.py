"""Features, targets and normal equations that tests of solvers share."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from mercer.linear_model.normal_equations import NormalEquations
from mercer.maps.block import Dense
from mercer.stats.moments import Moments

INTERCEPT = pytest.mark.parametrize(
    "fit_intercept", [True, False], ids=["intercept", "no intercept"]
)


def data(
    n: int = 60, D: int = 7, t: int = 2, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Correlated features and targets far from 0, and whole weights, some of them 0."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, D)) @ rng.normal(size=(D, D)) + rng.normal(size=D) * 3
    Y = Z @ rng.normal(size=(D, t)) * 0.3 + rng.normal(size=(n, t)) + 5
    return Z, Y, rng.integers(0, 4, n).astype(float)


def assert_same(found, expected, tolerance=1e-8):
    """Equal to the tolerance times the largest of the numbers, which is what a solution's rounding
    is measured in.
    """
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max()


def moments(Z, Y=None, w=None) -> Moments:
    seen = Moments()
    for part in np.array_split(np.arange(len(Z)), 3):
        if len(part):
            seen.add(
                Dense(Z[part]),
                y=None if Y is None else Y[part],
                weight=None if w is None else w[part],
            )
    return seen


def normal(Z, Y, w=None, fit_intercept=True) -> NormalEquations:
    return NormalEquations.of(moments(Z, Y, w), fit_intercept=fit_intercept)


def rows_of(Z, Y, w=None, kind=Dense, size=17):
    """A pass over (block, targets, weights)."""

    def rows():
        for start in range(0, len(Y), size):
            part = slice(start, start + size)
            yield kind(Z[part]), Y[part], None if w is None else w[part]

    return rows


def truth(Z, Y, alpha, w=None, fit_intercept=True) -> tuple[np.ndarray, np.ndarray]:
    model = Ridge(alpha=alpha, fit_intercept=fit_intercept, solver="svd").fit(Z, Y, w)
    return np.atleast_2d(model.coef_).T, np.broadcast_to(model.intercept_, Y.shape[1])
