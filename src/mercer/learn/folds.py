"""Folds: the summaries of rows that are left out in turn, in one pass."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.blocks import Block, as_block, matrix
from mercer.learn.normal import Array
from mercer.philox import Rng
from mercer.summaries import State
from mercer.together import Together


class Folds:
    """One summary for each fold. A row's fold is a hash of (seed, row index): it does not depend on blocks or workers.

    Parameters
    ----------
    *parts : summaries
        Empty ones, as many as there are folds.
    seed : int
    """

    def __init__(self, *parts: Any, seed: int = 0) -> None:
        self.parts = parts
        self.seed = seed

    def add(self, block: Block, y: Array | None = None, weight: Array | None = None, start: int = 0) -> None:
        words = Rng(self.seed).words("folds", start, block.shape[0])
        which, rows = words % np.uint64(len(self.parts)), matrix(block)
        for fold, part in enumerate(self.parts):
            chosen = np.flatnonzero(which == fold)
            if len(chosen):
                some = (None if values is None else values[chosen] for values in (y, weight))
                part.add(as_block(rows[chosen]), *some, start=start)

    def __add__(self, other: Folds) -> Folds:
        pairs = zip(self.parts, other.parts, strict=True)
        return Folds(*(mine + theirs for mine, theirs in pairs), seed=self.seed)

    def state(self) -> State:
        """The states of the folds, under their numbers."""
        return Together(*self.parts).state()

    def from_state(self, state: State) -> Folds:
        """Folds like these with that state."""
        return Folds(*Together(*self.parts).from_state(state).parts, seed=self.seed)
