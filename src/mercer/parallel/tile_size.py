"""Every decision by memory, dtype or n, as pure arithmetic on numbers."""

from __future__ import annotations

from dataclasses import dataclass

_TILE_BYTES = 32 * 2**20  # working space of one tile: a few of them fit beside anything
# GEMM is within 2% of its full speed here, and a few thousand rows still keep several threads busy
TILE_ROWS = 512
# all weights are read anew for each tile, and sparse rows use each of them only a few times
CSR_TILE_ROWS = 1024
_LEAST_ROWS = 16
_TRAVEL_BYTES = (
    2**30
)  # working space of a tile that is copied to a device while it works on the one before
_DEVICE_BLOCK = 2**30  # bytes of a block there
DEVICE_PANEL = (
    2048  # columns of a panel of products there: a multiple of PANEL, and enough to fill a device
)
_THREADS_FROM = (
    2e8  # multiply-adds: about 20 ms on one core; below, waking a thread costs more than it gives
)
_THREADS_FROM_BYTES = (
    2.0**26
)  # or this much memory: fresh pages are cleared by the thread that touches them first
# columns of a panel of products: GEMM is at full speed, and a tile of products stays in the cache
# until it is added
PANEL = 512
SHARD = (
    16  # blocks whose sum is one step of a fold: what a checkpoint counts, and what a worker does
)
_LEAST_BLOCK, _MOST_BLOCK = (
    1024,
    8192,
)  # rows: fewer make adding up dear, more cost digits of float32 products
_BLOCK_BYTES = 128 * 2**20  # of a block of very wide rows, which then has fewer
_MARKS = 2**24  # columns: a mark and a place for each are 80 MiB
_CLASS_BYTES = 2**30  # of the sums of all classes
_CHECKPOINT_SHARE = (
    20  # the work since the last checkpoint took so many times longer than writing it: it is due
)

_REDRAWN_FROM = 4 * 2**20  # bytes that a map has drawn: less is sent to a worker as it is
_REDRAWN_SHARE = 16  # what is sent instead takes at most this part of them
_IN_FLIGHT = 2  # shards for each thread of a cluster: the next one is there when a thread is free

_FIGURE_NUMBERS, _FIGURE_PAIRS = 2**22, 4000  # that are drawn, or read, a dozen times
_FLOAT32_FROM = 1e-3  # a relative error of kernel values: rounding is a hundredth of it
_UNITS = ("B", "kB", "MB", "GB", "TB")


@dataclass(frozen=True)
class Cost:
    """What one row costs: multiply-adds, and bytes of working space (output included)."""

    flops: float
    bytes: float

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.flops + other.flops, self.bytes + other.bytes)

    def sparse(self, d: int, share: float) -> Cost:
        """The same where only this share of the d numbers of a row is stored, and the output is
        dense.
        """
        return Cost(self.flops * share, self.bytes - 8.0 * d * (1 - share))


def tile_rows(cost: Cost, most_rows: int = TILE_ROWS) -> int:
    """Rows of a tile. It depends on the width of the work only, so that the grid is the same for
    every thread count.
    """
    fitting = int(_TILE_BYTES / max(cost.bytes, 1))
    return max(_LEAST_ROWS, min(most_rows, fitting))


def device_rows(bytes_each: float, memory: int, *, travelling: bool = False) -> int:
    """Rows of a tile on a device: an eighth of its memory; of those that travel there and back,
    what keeps both ways busy.
    """
    most = min(memory / 8, _TRAVEL_BYTES) if travelling else memory / 8
    return max(_LEAST_ROWS, int(most / max(bytes_each, 1)))


def long_tile_rows(cost: Cost) -> int:
    """Rows of a tile of sparse features, whose memory is small: as many as are worth a thread."""
    return tile_rows(cost, max(TILE_ROWS, int(_THREADS_FROM / max(cost.flops, 1))))


def rows_at_once(cost: Cost) -> int:
    """Rows that are predicted in one go, in whole tiles: enough for many threads, while only tiles
    hold features.
    """
    return 64 * tile_rows(cost)


def blocks_in(bytes_each: int) -> int:
    """How many pieces of this size the working space of a tile has room for; at least one."""
    return max(1, _TILE_BYTES // max(bytes_each, 1))


def worth_marking(columns: int) -> bool:
    """Whether those of so many columns that are in use are marked in an array of all of them, not
    sorted.
    """
    return columns <= _MARKS


def worth_keeping(count: int) -> bool:
    """Whether something of so many bytes may stay in memory for the next tile: as much as two tiles
    of working space.
    """
    return count <= 2 * _TILE_BYTES


def worth_threads(cost: Cost, rows: int) -> bool:
    """Whether this many rows are enough work to be spread over threads."""
    return cost.flops * rows >= _THREADS_FROM or cost.bytes * rows >= _THREADS_FROM_BYTES


@dataclass(frozen=True)
class Grid:
    """Blocks of so many rows, shards of so many blocks: it depends on the width of a row and its
    dtype, and on nothing else.
    """

    rows: int
    shard: int


def grid(width: int, itemsize: int, *, device: bool = False) -> Grid:
    """Blocks of about 32 MiB of rows of this width, in whole tiles; of at least 1024 rows where
    those take no more than 128 MiB.

    On a device all blocks have the most rows, so that adding their products up costs little beside
    making them, up to 1 GiB.
    """
    if device:
        return Grid(
            max(_LEAST_ROWS, min(_MOST_BLOCK, _DEVICE_BLOCK // max(1, width * itemsize))), SHARD
        )
    fitting = _TILE_BYTES // max(1, width * itemsize) // TILE_ROWS * TILE_ROWS
    rows = max(_LEAST_BLOCK, min(_MOST_BLOCK, fitting))
    return Grid(max(_LEAST_ROWS, min(rows, _BLOCK_BYTES // max(1, width * itemsize))), SHARD)


def most_classes(width: int) -> int:
    """Classes whose sums of so many columns fit into 1 GiB; at least a thousand."""
    return max(1000, _CLASS_BYTES // (8 * max(width, 1)))


def worth_writing(seconds_of_work: float, seconds_to_write: float) -> bool:
    """Whether a checkpoint is due: it costs at most a twentieth of the work that it saves."""
    return seconds_of_work >= _CHECKPOINT_SHARE * seconds_to_write


def worth_redrawing(seen_bytes: int, drawn_bytes: int) -> bool:
    """Whether a worker is sent what a map saw, so many bytes, to draw the rest again, and not what
    was drawn.
    """
    return drawn_bytes >= _REDRAWN_FROM and seen_bytes * _REDRAWN_SHARE <= drawn_bytes


def shards_in_flight(threads: int) -> int:
    """Shards that a cluster of so many threads is given at once."""
    return _IN_FLIGHT * max(1, threads)


def worth_drawing(weights: float) -> bool:
    """Whether a map with so many weights may be drawn a dozen times for a figure: a fraction of a
    second each.
    """
    return weights <= _FIGURE_NUMBERS


def figure_pairs(d: int) -> int:
    """Pairs of rows of d columns that the errors of a figure are measured on, a dozen times."""
    return max(_FIGURE_PAIRS // 10, min(_FIGURE_PAIRS, _FIGURE_NUMBERS // d))


def width_for(error: float | None) -> str:
    """The dtype of rows that are not there yet: float32 where its rounding is far below the error
    that is wanted.
    """
    return "float32" if error is not None and error >= _FLOAT32_FROM else "float64"


def size(count: float) -> str:
    """Bytes in words: 1.5 GB."""
    for unit in _UNITS[:-1]:
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} {_UNITS[-1]}"
