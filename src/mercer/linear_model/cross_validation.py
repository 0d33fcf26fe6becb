"""Folds of k-fold cross-validation, whose statistics are computed in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mercer._typing import Array
from mercer.maps.block import Block, as_block, matrix
from mercer.rng import Rng
from mercer.stats.base import CombinedStatistics

FOLDS = 5
"""Folds of alpha="kfold"."""


class Folds(CombinedStatistics):
    """Statistics of each fold.

    The fold of a row is a hash of its index; it does not depend on blocks or workers.

    Parameters
    ----------
    *parts : Statistic
        Empty statistics, one for each fold.
    first : int, default=0
        Number of rows of earlier calls.
    """

    def __init__(self, *parts: Any, first: int = 0) -> None:
        super().__init__(*parts)
        self.first = first

    def add(
        self, block: Block, y: Array | None = None, weight: Array | None = None, start: int = 0
    ) -> None:
        words = Rng(0).words("folds", self.first + start, block.shape[0])
        which, rows = words % np.uint64(len(self.parts)), matrix(block)
        for fold, part in enumerate(self.parts):
            chosen = np.flatnonzero(which == fold)
            if len(chosen):
                some = (None if values is None else values[chosen] for values in (y, weight))
                part.add(as_block(rows[chosen]), *some, start=start)

    def _with_parts(self, parts: Sequence[Any]) -> Folds:
        return Folds(*parts, first=self.first)
