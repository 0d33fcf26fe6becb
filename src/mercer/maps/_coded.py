"""Maps to small integers: codes(X), coded blocks, and dense or sparse features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mercer import ops
from mercer._typing import Array
from mercer.maps._transform import TileTransform, cast_transform
from mercer.maps.base import Map
from mercer.maps.block import Block, Coded
from mercer.maps.stages.base import FrozenArrays
from mercer.parallel.device import current_device, tensor_of


class CodedMap(Map):
    """Map whose features are table entries: a small integer for each row and table."""

    sparse_output: bool

    def codes(self, X: Any) -> Array:
        """Return the codes of X, one column for each table.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, n_tables), uint8, uint16 or int32
            ``blocks(X)`` has them together with their tables.
        """
        return tensor_of(self._encode(X).codes)

    def _encode(self, X: Any) -> Coded:
        """Return the features of X as one coded block."""

        def encode(rows: Any, transform: Any, out: Array | None = None) -> Block:
            return self._stack_tiles(rows, transform, transform.coded, largest=largest)

        rows = self._convert_fitted_input(X)
        with self._error_reporting(rows) as largest:
            if ops.is_device(rows) or current_device() is not None:
                block = self._compute_on_device(rows, encode)
            else:
                block = encode(rows, cast_transform(self.tile_transform_, rows.dtype))
        assert isinstance(block, Coded)
        return block


@dataclass(frozen=True, eq=False)
class CodedTransform(FrozenArrays, TileTransform):
    """Tile transform whose blocks are coded."""

    sparse_output: bool

    def coded(self, tile: Any, out: None = None) -> Coded:
        """Return the codes of a tile and their tables."""
        raise NotImplementedError

    def __call__(self, tile: Any, out: Array | None = None) -> Block:
        block = self.coded(tile)
        if out is not None:
            block.toarray(out)
        return block

    def dense(self, sparse: bool) -> bool:
        return not self.sparse_output

    def block_kind(self, sparse: bool, *, on_device: bool = False) -> type[Block]:
        return Coded
