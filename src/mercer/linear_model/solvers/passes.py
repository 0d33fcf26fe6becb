"""Passes over rows: the same blocks again and again, read anew or kept, and parts of them that are
held out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from mercer.linear_model.normal_equations import Array
from mercer.linear_model.solvers.ridge import Rows
from mercer.maps.block import Block, Coded, OneHot, matrix, stack_blocks
from mercer.rng import Rng, open_interval
from mercer.stats.basic import frequency_weights

Pass = Callable[[], Rows]
"""Each call gives the same (features, targets, weights or None) once more, block by block."""


# arrays of the size of the targets: scores, steps, curvatures, and what is made of them in a pass
_BESIDE = 8


class Kept:
    """A pass whose blocks stay in memory after the first time, where they fit into so many bytes;
    otherwise they are read each time.

    Coded blocks, whose products with all columns cost as much for a few rows as for many, are put
    together.

    Parameters
    ----------
    rows : Pass
    room : int
        Bytes for blocks, and for what is kept of each row beside them.
    """

    def __init__(self, rows: Pass, room: int) -> None:
        self.rows, self.room = rows, room
        self.passes = 0
        self._held: list[tuple[Block, Array, Array]] | None = None

    @property
    def kept(self) -> bool:
        """Whether the blocks are in memory."""
        return self._held is not None

    def __call__(self) -> Iterator[tuple[Block, Array, Array]]:
        """All blocks, with targets (n, t) and weights (n,) in float64."""
        self.passes += 1
        if self._held is not None:
            yield from self._held
            return
        held, left = [], self.room
        for block, Y, w in weighted(self.rows()):
            left -= (
                block.nbytes * (1 if isinstance(block, Coded) else 2)
                + _BESIDE * Y.nbytes
                + w.nbytes
            )
            if left >= 0:
                held.append((block, Y, w))
            else:
                held.clear()
            yield block, Y, w
        if left >= 0:
            self._held = _together(held)


def _together(held: list[tuple[Block, Array, Array]]) -> list[tuple[Block, Array, Array]]:
    if len(held) < 2 or not all(isinstance(block, Coded) for block, _, _ in held):
        return held
    blocks, targets, weights = zip(*held, strict=True)
    return [(stack_blocks(blocks), np.concatenate(targets), np.concatenate(weights))]


def weighted(rows: Rows) -> Iterator[tuple[Block, Array, Array]]:
    """Blocks with targets (n, t) and weights (n,), in float64."""
    for block, targets, weight in rows:
        n = block.shape[0]
        yield (
            block,
            np.asarray(targets, dtype=np.float64).reshape(n, -1),
            frequency_weights(n, weight),
        )


def split(
    rows: Pass, seed: int, share: float, *, held: bool
) -> Iterator[tuple[Block, Array, Array]]:
    """The same blocks; rows of the other part have weight 0. A row is held out by a hash of (seed,
    row index), whatever the blocks.
    """
    start = 0
    for block, Y, w in weighted(rows()):
        chosen = open_interval(Rng(seed).words("held out", start, len(w))) < share
        start += len(w)
        yield block, Y, w * (chosen == held)


def column_squares(block: Block, w: Array) -> Array:
    """sum w z^2 of each column."""
    if isinstance(block, Coded) and isinstance(block.tables, OneHot):
        return block.tables.scale * (block.T @ w)
    Z = matrix(block)
    if hasattr(Z, "indptr"):
        return Z.astype(np.float64).power(2).T @ w
    return np.einsum("i,ij,ij->j", w, Z, Z)
