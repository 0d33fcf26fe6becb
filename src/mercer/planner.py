"""Every decision by memory, dtype or n, as pure arithmetic on numbers."""

from __future__ import annotations

from dataclasses import dataclass

_TILE_BYTES = 32 * 2**20  # working space of one tile: a few of them fit beside anything
TILE_ROWS = 512  # GEMM is within 2% of its full speed here, and a few thousand rows still keep several threads busy
CSR_TILE_ROWS = 1024  # all weights are read anew for each tile, and sparse rows use each of them only a few times
_LEAST_ROWS = 16
_THREADS_FROM = 2e8  # multiply-adds: about 20 ms on one core; below, waking a thread costs more than it gives
_THREADS_FROM_BYTES = 2.0**26  # or this much memory: fresh pages are cleared by the thread that touches them first


@dataclass(frozen=True)
class Cost:
    """What one row costs: multiply-adds, and bytes of working space (output included)."""

    flops: float
    bytes: float

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.flops + other.flops, self.bytes + other.bytes)

    def sparse(self, d: int, share: float) -> Cost:
        """The same where only this share of the d numbers of a row is stored, and the output is dense."""
        return Cost(self.flops * share, self.bytes - 8.0 * d * (1 - share))


def tile_rows(cost: Cost, most_rows: int = TILE_ROWS) -> int:
    """Rows of a tile. It depends on the width of the work only, so that the grid is the same for every thread count."""
    fitting = int(_TILE_BYTES / max(cost.bytes, 1))
    return max(_LEAST_ROWS, min(most_rows, fitting))


def long_tile_rows(cost: Cost) -> int:
    """Rows of a tile of sparse features, whose memory is small: as many as are worth a thread."""
    return tile_rows(cost, max(TILE_ROWS, int(_THREADS_FROM / max(cost.flops, 1))))


def rows_at_once(cost: Cost) -> int:
    """Rows that are predicted in one go, in whole tiles: enough for many threads, while only tiles hold features."""
    return 64 * tile_rows(cost)


def blocks_in(bytes_each: int) -> int:
    """How many pieces of this size the working space of a tile has room for; at least one."""
    return max(1, _TILE_BYTES // max(bytes_each, 1))


def worth_threads(cost: Cost, rows: int) -> bool:
    """Whether this many rows are enough work to be spread over threads."""
    return cost.flops * rows >= _THREADS_FROM or cost.bytes * rows >= _THREADS_FROM_BYTES
