"""Rows and maps that tests of select share."""

from __future__ import annotations

from functools import partial

import numpy as np

import mercer
from mercer import RandomFourier
from mercer.model_selection.schedule import Budget

# Trees are the slowest of all candidates: a few rounds are enough for tests.
FEW_TREES = Budget(boosting_rounds=3)
select = partial(mercer.select, budget=FEW_TREES)

FEW = [RandomFourier(64, gamma=0.5, random_state=0), RandomFourier(64, gamma=8.0, random_state=0)]


def rings(n: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.hypot(*X.T) > 1.18


def plane(n: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    return X, X @ np.array([1.0, -2, 0.5, 0, 1]) + 0.5 * rng.normal(size=n) > 0
