"""Rows, targets and a small map for the tests of model files."""

from __future__ import annotations

import numpy as np

from mercer import RandomFourier

RNG = np.random.default_rng(0)
X = RNG.gamma(1.0, size=(60, 5))
Y = np.sin(X[:, 0])
WORDS = np.array(["blue", "green", "red"])[np.arange(60) % 3]


def fourier(size: int = 16) -> RandomFourier:
    return RandomFourier(size, gamma=0.5, random_state=0)
