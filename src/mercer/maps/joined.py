"""What compositions have drawn: one part after the other, or all side by side."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from mercer import ops
from mercer.maps._transform import TileTransform, in_dtype
from mercer.maps.base import Array, Bounds
from mercer.maps.block import Block, Dense, Sparse
from mercer.parallel.tile_size import Cost
from mercer.validation.rows import require_nonnegative


@dataclass(frozen=True)
class Guard:
    """The door of a map whose input is made by another map."""

    who: str
    domain: str
    domain_advice: str
    bounds: Bounds | None = None

    def __call__(self, rows: Any) -> None:
        if self.domain == "nonnegative":
            require_nonnegative(self.who, rows, instead=self.domain_advice)
        if self.bounds is not None:
            self.bounds(rows, numbered=False)


@dataclass(frozen=True, eq=False)
class After:
    """The features of the features: each part on what the one before it gives, guarded by the
    part's domain.
    """

    parts: tuple[TileTransform, ...]
    guards: tuple[Guard, ...]  # of all parts but the first

    def __call__(self, tile: Any, out: Array | None = None) -> Block:
        for part, guard in zip(self.parts[:-1], self.guards, strict=True):
            block, dense = part(tile), part.dense(hasattr(tile, "indptr"))
            tile = block.toarray() if dense or ops.is_device(tile) else block.tocsr()
            guard(tile)
        return self.parts[-1](tile, out)

    def columns(self, d: int) -> int:
        return self._widths(d)[-1]

    def dense(self, sparse: bool) -> bool:
        for part in self.parts:
            sparse = not part.dense(sparse)
        return not sparse

    def arrays(self) -> dict[str, Array]:
        return _numbered(self.parts)

    def check(self, d: int) -> None:
        for part in self.parts:
            part.check(d)
            d = part.columns(d)

    def astype(self, dtype: DTypeLike) -> After:
        return After(tuple(in_dtype(part, np.dtype(dtype)) for part in self.parts), self.guards)

    def cost(self, d: int) -> Cost:
        return sum(
            (part.cost(width) for part, width in zip(self.parts, self._widths(d), strict=False)),
            Cost(0, 0),
        )

    def _widths(self, d: int) -> list[int]:
        widths = [d]
        for part in self.parts:
            widths.append(part.columns(widths[-1]))
        return widths


@dataclass(frozen=True, eq=False)
class Beside:
    """The features of several maps side by side: dense when all are, otherwise CSR."""

    parts: tuple[TileTransform, ...]

    def __call__(self, tile: Any, out: Array | None = None) -> Block:
        n, d = tile.shape
        sparse = hasattr(tile, "indptr")
        if not self.dense(sparse) and not ops.is_device(tile):
            from scipy.sparse import hstack

            return Sparse(hstack([part(tile).tocsr() for part in self.parts], format="csr"))
        out = ops.empty((n, self.columns(d)), tile.dtype, tile) if out is None else out
        start = 0
        for part in self.parts:
            stop = start + part.columns(d)
            part(tile, out[:, start:stop])
            start = stop
        return Dense(out)

    def columns(self, d: int) -> int:
        return sum(part.columns(d) for part in self.parts)

    def dense(self, sparse: bool) -> bool:
        return all(part.dense(sparse) for part in self.parts)

    def arrays(self) -> dict[str, Array]:
        return _numbered(self.parts)

    def check(self, d: int) -> None:
        for part in self.parts:
            part.check(d)

    def astype(self, dtype: DTypeLike) -> Beside:
        return Beside(tuple(in_dtype(part, np.dtype(dtype)) for part in self.parts))

    def cost(self, d: int) -> Cost:
        return sum((part.cost(d) for part in self.parts), Cost(0, 0))


def _numbered(parts: Iterable[TileTransform]) -> dict[str, Array]:
    return {
        f"{i}.{name}": array
        for i, part in enumerate(parts)
        for name, array in part.arrays().items()
    }
