"""What maps to small integers share: codes(X), coded blocks, and the choice between dense and
sparse features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mercer.maps.base import Array, Map
from mercer.maps.block import Block, Coded
from mercer.maps.stages.base import Frozen
from mercer.parallel import devices
from mercer.parallel.tile_size import Cost


class CodedMap(Map):
    """A map whose features are looked up: row i has a small integer for each place, and a table
    says what it stands for.
    """

    sparse_output: bool

    def codes(self, X: Any) -> Array:
        """The codes of X, uint8, uint16 or int32, one column for each place; ``blocks(X)`` gives
        them with their tables.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        """
        return devices.left(self._coded(X).codes)

    def _coded(self, X: Any) -> Coded:
        block = self._made(X, lambda rows, drawn, out: self._whole_block(rows, drawn.coded, drawn))
        assert isinstance(block, Coded)
        return block


@dataclass(frozen=True, eq=False)
class CodedDrawn(Frozen):
    """A Drawn that gives coded blocks."""

    sparse_output: bool

    def coded(self, tile: Any, out: None = None) -> Coded:
        """The codes of a tile and their tables."""
        raise NotImplementedError

    def __call__(self, tile: Any, out: Array | None = None) -> Block:
        block = self.coded(tile)
        if out is not None:
            block.toarray(out)
        return block

    def columns(self, d: int) -> int:
        raise NotImplementedError

    def dense(self, sparse: bool) -> bool:
        return not self.sparse_output

    def cost(self, d: int) -> Cost:
        raise NotImplementedError
