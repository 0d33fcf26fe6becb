"""Tile, block and batch sizes, and other decisions by memory, dtype or work.

All functions are arithmetic on numbers. The constants that decide are fields of ``Limits``;
``override_limits`` replaces them, for tests that need many tiles of few rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

# Rows of a dense tile: GEMM is within 2% of its full speed, and a few thousand rows still keep
# several threads busy.
TILE_ROWS = 512
# Rows of a CSR tile: a tile reads all weights, and sparse rows use each of them only a few times.
CSR_TILE_ROWS = 1024
_MIN_TILE_ROWS = 16
# Columns of a panel of products: GEMM is at full speed, and a tile of products stays in the cache
# until it is added.
PANEL = 512
# Columns of a panel of products on a device: a multiple of PANEL, and enough to fill a device.
DEVICE_PANEL = 1024
# Blocks of a shard, by default.
SHARD = 16
# Working memory of a device tile that is copied while the previous one is computed.
_DEVICE_COPY_BYTES = 2**30
_DEVICE_BLOCK_BYTES = 2**30
# Blocks of very wide rows have at most these bytes, and then fewer than Limits.min_block_rows.
_WIDE_BLOCK_BYTES = 128 * 2**20
# A map is redrawn by the workers where its inputs take at most this fraction of its arrays.
_REDRAW_RATIO = 16
# Shards in flight for each thread of a cluster: the next one is there when a thread is free.
_SHARDS_PER_THREAD = 2

# Numbers that are drawn, and pairs that are evaluated, a dozen times for a figure.
_FIGURE_NUMBERS, _FIGURE_PAIRS = 2**22, 4000
# Relative error of kernel values from which float32 is precise enough: a hundred times its own.
_FLOAT32_FROM = 1e-3
_UNITS = ("B", "kB", "MB", "GB", "TB")


@dataclass(frozen=True)
class Limits:
    """Thresholds of this module. Block sizes determine the rounding of sums.

    Attributes
    ----------
    tile_bytes : int
        Working memory of one tile: a few of them fit beside anything.
    max_tile_rows : int or None
        Upper bound on the rows of every tile; None for that of the caller.
    min_block_rows, max_block_rows : int
        Rows of a block: with fewer, adding up their products is expensive; with more, float32
        products lose digits.
    shard_blocks : int
        Blocks of a shard: the unit that a checkpoint counts and a worker computes.
    thread_flops : float
        Multiply-adds from which threads are used, 0.5 to 2 ms on one core: below, waking a thread
        costs as much as it saves.
    thread_bytes : float
        Bytes from which threads are used: new pages are cleared by the thread that touches them.
    mask_columns : int
        Columns up to which a mask of all columns is allocated: 80 MiB for a mask and an index.
    class_sum_bytes, min_class_limit : int
        Memory of the sums of all classes, and the number of classes that is always accepted.
    checkpoint_cost_ratio : float
        A checkpoint is due when the work since the last one took this many times longer than
        writing it.
    checkpoint_seconds : float
        Inside a shard, only after as many seconds, too.
    redraw_bytes : int
        Bytes of a map's arrays from which workers draw them again; smaller arrays are sent.
    cluster_timeout : float
        Seconds to wait for a Dask scheduler, and for its first worker.
    """

    tile_bytes: int = 32 * 2**20
    max_tile_rows: int | None = None
    min_block_rows: int = 1024
    max_block_rows: int = 8192
    shard_blocks: int = SHARD
    thread_flops: float = 5e7
    thread_bytes: float = 2.0**26
    mask_columns: int = 2**24
    class_sum_bytes: int = 2**30
    min_class_limit: int = 1000
    checkpoint_cost_ratio: float = 20
    checkpoint_seconds: float = 1.0
    redraw_bytes: int = 4 * 2**20
    cluster_timeout: float = 10.0


_limits = Limits()


def limits() -> Limits:
    """Return the limits in force."""
    return _limits


def set_limits(**values: Any) -> Limits:
    """Replace some limits for the whole process, all its threads included.

    For tests, and for the preload scripts of their Dask workers: the client and the workers of a
    cluster need the same block sizes.

    Parameters
    ----------
    **values
        Fields of ``Limits``.

    Returns
    -------
    previous : Limits
    """
    global _limits
    previous = _limits
    _limits = replace(previous, **values)
    return previous


@contextmanager
def override_limits(**values: Any) -> Iterator[None]:
    """Replace some limits for the whole process inside a with statement (see ``set_limits``)."""
    global _limits
    previous = set_limits(**values)
    try:
        yield
    finally:
        _limits = previous


@dataclass(frozen=True)
class Cost:
    """Cost of one row: multiply-adds, bytes of working memory (output included), output columns."""

    flops: float
    bytes: float
    columns: int = 0

    def __add__(self, other: Cost) -> Cost:
        columns = self.columns + other.columns
        return Cost(self.flops + other.flops, self.bytes + other.bytes, columns)

    def sparse(self, d: int, share: float) -> Cost:
        """Return the cost where this share of the d values of a row is stored, output dense."""
        return Cost(self.flops * share, self.bytes - 8.0 * d * (1 - share), self.columns)


def tile_rows(cost: Cost, most_rows: int = TILE_ROWS) -> int:
    """Return the rows of a tile, which depend on the cost of a row, not on threads."""
    if _limits.max_tile_rows is not None:
        most_rows = min(most_rows, _limits.max_tile_rows)
    fitting = int(_limits.tile_bytes / max(cost.bytes, 1))
    return max(_MIN_TILE_ROWS, min(most_rows, fitting))


def rows_of_device_tile(bytes_each: float, memory: int, *, transferred: bool = False) -> int:
    """Return the rows of a tile on a device: an eighth of its memory.

    Tiles that are copied from and to the host are limited to what keeps both directions busy.
    """
    most = min(memory / 8, _DEVICE_COPY_BYTES) if transferred else memory / 8
    return max(_MIN_TILE_ROWS, int(most / max(bytes_each, 1)))


def sparse_tile_rows(cost: Cost) -> int:
    """Return the rows of a tile of sparse features: enough work for a thread, in little memory."""
    return tile_rows(cost, max(TILE_ROWS, int(_limits.thread_flops / max(cost.flops, 1))))


def rows_per_batch(cost: Cost) -> int:
    """Return the rows of a prediction batch: 64 tiles, enough for many threads."""
    return 64 * tile_rows(cost)


def items_per_tile(bytes_each: int) -> int:
    """Return how many items of a size fit into the working memory of a tile; at least one."""
    return max(1, _limits.tile_bytes // max(bytes_each, 1))


def fits_column_mask(columns: int) -> bool:
    """Return whether used columns are found by a mask of all columns rather than by sorting."""
    return columns <= _limits.mask_columns


def fits_in_cache(count: int) -> bool:
    """Return whether an array of so many bytes may be cached for the next tile: two tiles."""
    return count <= 2 * _limits.tile_bytes


def is_worth_threads(cost: Cost, rows: int) -> bool:
    """Return whether so many rows are enough work for several threads."""
    return cost.flops * rows >= _limits.thread_flops or cost.bytes * rows >= _limits.thread_bytes


@dataclass(frozen=True)
class Grid:
    """Rows of a block, blocks of a shard and rows of a shard, by the width and dtype of a row."""

    rows: int
    shard: int
    step: int


def grid(width: int, itemsize: int, *, device: bool = False) -> Grid:
    """Return the grid for rows of this width: blocks of about 32 MiB, in whole tiles.

    Blocks have at least 1024 rows where these take at most 128 MiB. On a device blocks have 8192
    rows, up to 1 GiB, so that adding their products costs little relative to computing them.
    """
    row_bytes = max(1, width * itemsize)
    if device:
        rows = min(_limits.max_block_rows, _DEVICE_BLOCK_BYTES // row_bytes)
    else:
        fitting = _limits.tile_bytes // row_bytes // TILE_ROWS * TILE_ROWS
        rows = max(_limits.min_block_rows, min(_limits.max_block_rows, fitting))
        rows = min(rows, _WIDE_BLOCK_BYTES // row_bytes)
    rows, shard = max(_MIN_TILE_ROWS, rows), _limits.shard_blocks
    return Grid(rows, shard, rows * shard)


def max_classes(width: int) -> int:
    """Return the number of classes whose sums of so many columns fit into 1 GiB; at least 1000."""
    return max(_limits.min_class_limit, _limits.class_sum_bytes // (8 * max(width, 1)))


def is_checkpoint_due(
    seconds_of_work: float, seconds_to_write: float, *, whole: bool = True
) -> bool:
    """Return whether a checkpoint is due: it costs at most a twentieth of the work it saves.

    Inside a shard (not ``whole``) it is due after ``checkpoint_seconds`` at the earliest.
    """
    least = 0.0 if whole else _limits.checkpoint_seconds
    cheap = seconds_of_work >= _limits.checkpoint_cost_ratio * seconds_to_write
    return cheap and seconds_of_work >= least


def is_cheaper_to_redraw(seen_bytes: int, drawn_bytes: int) -> bool:
    """Return whether a worker is sent the inputs of a map, to draw its arrays again."""
    return drawn_bytes >= _limits.redraw_bytes and seen_bytes * _REDRAW_RATIO <= drawn_bytes


def shards_in_flight(threads: int) -> int:
    """Return the shards that are submitted at once to a cluster of so many threads."""
    return _SHARDS_PER_THREAD * max(1, threads)


def fits_figure(weights: float) -> bool:
    """Return whether a map of so many weights can be drawn a dozen times for a figure."""
    return weights <= _FIGURE_NUMBERS


def figure_pairs(d: int) -> int:
    """Return the pairs of rows of d columns on which a figure's errors are measured."""
    return max(_FIGURE_PAIRS // 10, min(_FIGURE_PAIRS, _FIGURE_NUMBERS // d))


def dtype_for_error(error: float | None) -> str:
    """Return the dtype for planned rows: float32 where its rounding is far below the error."""
    return "float32" if error is not None and error >= _FLOAT32_FROM else "float64"


def format_bytes(count: float) -> str:
    """Format a number of bytes, such as "1.5 GB"."""
    for unit in _UNITS[:-1]:
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} {_UNITS[-1]}"
