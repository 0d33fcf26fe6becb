"""Folds: the summaries of rows that are left out in turn, in one pass."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from mercer.blocks import Block, as_block, matrix
from mercer.learn.normal import Array
from mercer.philox import Rng
from mercer.summaries import State
from mercer.together import Together


class Folds:
    """One summary for each fold. A row's fold is a hash of its index: it does not depend on blocks or workers.

    Parameters
    ----------
    *parts : summaries
        Empty ones, as many as there are folds.
    first : int, default=0
        How many rows came before, in earlier calls.
    """

    def __init__(self, *parts: Any, first: int = 0) -> None:
        self.parts = parts
        self.first = first

    def add(self, block: Block, y: Array | None = None, weight: Array | None = None, start: int = 0) -> None:
        words = Rng(0).words("folds", self.first + start, block.shape[0])
        which, rows = words % np.uint64(len(self.parts)), matrix(block)
        for fold, part in enumerate(self.parts):
            chosen = np.flatnonzero(which == fold)
            if len(chosen):
                some = (None if values is None else values[chosen] for values in (y, weight))
                part.add(as_block(rows[chosen]), *some, start=start)

    def __add__(self, other: Folds) -> Folds:
        pairs = zip(self.parts, other.parts, strict=True)
        return Folds(*(mine + theirs for mine, theirs in pairs), first=self.first)

    def __iadd__(self, other: Folds) -> Folds:
        self.parts = tuple(operator.iadd(mine, theirs) for mine, theirs in zip(self.parts, other.parts, strict=True))
        return self

    def state(self) -> State:
        """The states of the folds, under their numbers."""
        return Together(*self.parts).state()

    def from_state(self, state: State) -> Folds:
        """Folds like these with that state."""
        return Folds(*Together(*self.parts).from_state(state).parts, first=self.first)
