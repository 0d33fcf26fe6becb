"""Folds: the summaries of rows that are left out in turn, in one pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mercer.blocks import Block, as_block, matrix
from mercer.learn.normal import Array
from mercer.philox import Rng
from mercer.summaries import State


class Folds:
    """One summary for each fold. A row's fold is a hash of (seed, row index): it does not depend on blocks or workers.

    Parameters
    ----------
    parts : sequence of summaries
        Empty ones, as many as there are folds.
    seed : int
    """

    def __init__(self, parts: Sequence[Any], seed: int) -> None:
        self.parts = list(parts)
        self.seed = seed

    def add(self, block: Block, y: Array | None = None, weight: Array | None = None, start: int = 0) -> None:
        words = Rng(self.seed).words("folds", start, block.shape[0])
        which, rows = words % np.uint64(len(self.parts)), matrix(block)
        for fold, part in enumerate(self.parts):
            chosen = np.flatnonzero(which == fold)
            if len(chosen):
                some = (None if values is None else values[chosen] for values in (y, weight))
                part.add(as_block(rows[chosen]), *some, start=start)
