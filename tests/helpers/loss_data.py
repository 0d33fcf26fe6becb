"""Features, targets and rows of them that tests of the losses share."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.linear_model.losses import LOSSES
from mercer.linear_model.solvers.blocks import CachedBlocks
from mercer.maps.block import Dense

LOSS = pytest.mark.parametrize("loss", sorted(LOSSES))
MARGIN_LOSS = pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
PLENTY = 10**9


def data(
    n: int = 90, D: int = 8, t: int = 3, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Correlated features far from 0, overlapping classes one against all, and whole weights, some
    of them 0.
    """
    draw = np.random.default_rng(seed)
    Z = draw.normal(size=(n, D)) @ draw.normal(size=(D, D)) / np.sqrt(D)
    label = np.argmax(Z[:, :t] + draw.normal(size=(n, t)), axis=1)
    return (
        Z + 2 * draw.normal(size=D),
        np.where(label[:, None] == np.arange(t), 1.0, -1.0),
        draw.integers(0, 4, n) * 1.0,
    )


def rows_of(Z, Y, w=None, kind=Dense, size=17, room=PLENTY) -> CachedBlocks:
    def rows():
        for start in range(0, len(Y), size):
            part = slice(start, start + size)
            yield kind(Z[part]), Y[part], None if w is None else w[part]

    return CachedBlocks(rows, room)
