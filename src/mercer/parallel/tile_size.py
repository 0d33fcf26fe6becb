"""Tile, block and batch sizes, and other decisions by memory, dtype or work.

All functions are arithmetic on numbers. The constants that decide are fields of ``Limits``;
``override_limits`` replaces them, for tests that need many tiles of few rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
DEVICE_PANEL = 2048
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

_SOLVER_ARRAYS = (
    4  # D x D arrays of float64: moments (half of one), the scatter, and two for its eigenvectors
)
_PASS_BYTES = 96 * 2**20  # of blocks, while they are read again and again
# D x t arrays of float64: coefficients, gradients, what conjugate gradients hold, copies of outputs
_STEP_ARRAYS = 16
_STEP_PRODUCTS = 32  # conjugate gradient steps for a Newton step
_THIN = (
    4  # how much slower a product with a few columns is than one of D x D, for each multiply-add
)
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
        Multiply-adds from which threads are used, about 20 ms on one core: below, waking a thread
        costs more than it saves.
    thread_bytes : float
        Bytes from which threads are used: new pages are cleared by the thread that touches them.
    mask_columns : int
        Columns up to which a mask of all columns is allocated: 80 MiB for a mask and an index.
    class_sum_bytes, min_class_limit : int
        Memory of the sums of all classes, and the number of classes that is always accepted.
    checkpoint_cost_ratio : float
        A checkpoint is due when the work since the last one took this many times longer than
        writing it.
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
    thread_flops: float = 2e8
    thread_bytes: float = 2.0**26
    mask_columns: int = 2**24
    class_sum_bytes: int = 2**30
    min_class_limit: int = 1000
    checkpoint_cost_ratio: float = 20
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
    """Cost of one row: multiply-adds, and bytes of working memory (output included)."""

    flops: float
    bytes: float

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.flops + other.flops, self.bytes + other.bytes)

    def sparse(self, d: int, share: float) -> Cost:
        """Return the cost where this share of the d values of a row is stored, output dense."""
        return Cost(self.flops * share, self.bytes - 8.0 * d * (1 - share))


def tile_rows(cost: Cost, most_rows: int = TILE_ROWS) -> int:
    """Return the rows of a tile, which depend on the cost of a row, not on threads."""
    if _limits.max_tile_rows is not None:
        most_rows = min(most_rows, _limits.max_tile_rows)
    fitting = int(_limits.tile_bytes / max(cost.bytes, 1))
    return max(_MIN_TILE_ROWS, min(most_rows, fitting))


def device_rows(bytes_each: float, memory: int, *, travelling: bool = False) -> int:
    """Return the rows of a tile on a device: an eighth of its memory.

    Tiles that are copied from and to the host are limited to what keeps both directions busy.
    """
    most = min(memory / 8, _DEVICE_COPY_BYTES) if travelling else memory / 8
    return max(_MIN_TILE_ROWS, int(most / max(bytes_each, 1)))


def long_tile_rows(cost: Cost) -> int:
    """Return the rows of a tile of sparse features: enough work for a thread, in little memory."""
    return tile_rows(cost, max(TILE_ROWS, int(_limits.thread_flops / max(cost.flops, 1))))


def rows_at_once(cost: Cost) -> int:
    """Return the rows of a prediction batch: 64 tiles, enough for many threads."""
    return 64 * tile_rows(cost)


def blocks_in(bytes_each: int) -> int:
    """Return how many items of a size fit into the working memory of a tile; at least one."""
    return max(1, _limits.tile_bytes // max(bytes_each, 1))


def worth_marking(columns: int) -> bool:
    """Return whether used columns are found by a mask of all columns rather than by sorting."""
    return columns <= _limits.mask_columns


def worth_keeping(count: int) -> bool:
    """Return whether an array of so many bytes may be cached for the next tile: two tiles."""
    return count <= 2 * _limits.tile_bytes


def worth_threads(cost: Cost, rows: int) -> bool:
    """Return whether so many rows are enough work for several threads."""
    return cost.flops * rows >= _limits.thread_flops or cost.bytes * rows >= _limits.thread_bytes


@dataclass(frozen=True)
class Grid:
    """Rows of a block and blocks of a shard, a function of the width and dtype of a row."""

    rows: int
    shard: int


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
    return Grid(max(_MIN_TILE_ROWS, rows), _limits.shard_blocks)


def max_classes(width: int) -> int:
    """Return the number of classes whose sums of so many columns fit into 1 GiB; at least 1000."""
    return max(_limits.min_class_limit, _limits.class_sum_bytes // (8 * max(width, 1)))


def is_checkpoint_due(seconds_of_work: float, seconds_to_write: float) -> bool:
    """Return whether a checkpoint is due: it costs at most a twentieth of the work it saves."""
    return seconds_of_work >= _limits.checkpoint_cost_ratio * seconds_to_write


def worth_redrawing(seen_bytes: int, drawn_bytes: int) -> bool:
    """Return whether a worker is sent the inputs of a map, to draw its arrays again."""
    return drawn_bytes >= _limits.redraw_bytes and seen_bytes * _REDRAW_RATIO <= drawn_bytes


def shards_in_flight(threads: int) -> int:
    """Return the shards that are submitted at once to a cluster of so many threads."""
    return _SHARDS_PER_THREAD * max(1, threads)


@dataclass(frozen=True)
class Plan:
    """What will be done, and what it holds in memory at once beside the data's own blocks.

    Attributes
    ----------
    route : "moments", "two-stage", "passes", "newton" or "newton-cg"
    rows : int or None
        None when only a pass can tell.
    columns, features : int
        d and D.
    held : int
        Bytes of the route's arrays.
    limit : int
        Bytes that they may have.
    passes : tuple of str
        What each pass over the rows is for.
    room : int
        Bytes that blocks may have which are kept for the next pass.
    """

    route: str
    rows: int | None
    columns: int
    features: int
    held: int
    limit: int
    passes: tuple[str, ...]
    room: int = 0

    def __str__(self) -> str:
        rows = "rows of unknown number" if self.rows is None else f"{self.rows:,} rows"
        how = {
            "moments": f"least squares from moments, which hold {size(self.held)} of at most "
            f"{size(self.limit)}",
            "two-stage": "principal components of each map first, then least squares on them, "
            f"which hold {size(self.held)} of at most "
            f"{size(self.limit)}",
            "passes": "conjugate gradients over blocks, since moments would hold more than "
            f"{size(self.limit)}",
            "newton": f"Newton's method by matrices, which hold {size(self.held)} of at most "
            f"{size(self.limit)}",
            "newton-cg": "Newton's method by conjugate gradients over blocks, whose arrays hold "
            f"{size(self.held)}",
        }[self.route]
        if self.room:
            how += f"; blocks are kept where they fit into {size(self.room)}"
        return (
            f"{rows} x {self.columns:,} columns -> {self.features:,} features; {how}. Passes: "
            f"{', '.join(self.passes)}."
        )


def plan_fit(
    rows: int | None,
    columns: int,
    features: int,
    *,
    limit: int,
    folds: int = 1,
    statistics_passes: int = 0,
    labels: bool = False,
    counts: bool = False,
    again: bool = False,
    widths: Sequence[int] = (),
    rank: int | None = None,
    side_by_side: bool = False,
    unlabelled: bool = False,
    outputs: int = 0,
) -> Plan:
    """The route. Squared loss: moments where they fit into the limit, components of each map first
    where those of each map do, passes otherwise. Other losses: Newton's method.

    Parameters
    ----------
    rows, columns, features : int
    limit : int
        Bytes.
    folds : int
        Moments that are kept apart, for k-fold cross-validation; 1 otherwise.
    statistics_passes : int
        How often the rows are seen before the map is drawn: once for each part that must know
        something.
    labels, counts, again : bool
        Whether targets are labels, classes are counted first, rows are seen again for their
        leverages.
    widths : sequence of int
        Features of each map.
    rank : int or None
        Principal components of each map, where they are asked for.
    side_by_side, unlabelled : bool
        Whether all folds are solved at the same time, and whether there are rows without targets.
    outputs : int
        Of a loss that needs Newton's method; 0 for squared loss.
    """
    first = ["what the map must know"] * statistics_passes + ["classes and their weights"] * counts
    if outputs:
        first += ["classes"] * (not counts)
        return _plan_newton(rows, columns, features, outputs, limit, first)
    held, after = _solving(features, folds, side_by_side), ["leverages"] * again
    if held <= limit:
        passes = (*first, "moments", *["moments of unlabelled rows"] * unlabelled, *after)
        return Plan("moments", rows, columns, features, held, limit, passes)
    if rank is not None and len(widths) > 1:
        kept = [min(rank, width) for width in widths]
        packed, largest = sum(width**2 for width in widths) // 2, max(widths) ** 2
        vectors = sum(width * count for width, count in zip(widths, kept, strict=True))
        held = max(
            8 * (packed + 3 * largest + vectors),
            8 * vectors + _solving(sum(kept), folds, side_by_side),
        )
        if held <= limit:
            found = ("moments of each map", *["moments of each map, unlabelled rows"] * unlabelled)
            return Plan(
                "two-stage",
                rows,
                columns,
                features,
                held,
                limit,
                (*first, *found, "moments of components", *after),
            )
    passes = (
        *first,
        *["classes"] * (labels and not counts),
        "one for each step of conjugate gradients",
    )
    return Plan("passes", rows, columns, features, _PASS_BYTES, limit, passes)


def _solving(features: int, folds: int, side_by_side: bool) -> int:
    """Bytes of moments and of what is solved from them; a fold has moments and a scatter, and
    another where all are solved at once.
    """
    more = (1.5 + side_by_side) * folds + 1 if folds > 1 else 0
    return int(8 * features**2 * (_SOLVER_ARRAYS + more))


def _plan_newton(
    rows: int | None, columns: int, features: int, outputs: int, limit: int, first: list[str]
) -> Plan:
    """By matrices where these fit into the limit and cost no more multiply-adds than conjugate
    gradients.

    For a row and a Newton step the matrices of t outputs cost t D^2, and conjugate gradients 2 D t
    for each of their steps, which are thin products, beside the features, d D, that are made anew
    for each pass.
    """
    d, D, t = columns, features, outputs
    matrices = int(
        8 * D**2 * (t / 2 + 3)
    )  # half of each, and a whole one with its copies while it is solved
    vectors = 8 * D * t * _STEP_ARRAYS
    by_matrices = t * D**2 + d * D
    by_products = _STEP_PRODUCTS * (2 * _THIN * D * t + d * D)
    if matrices + vectors <= limit and by_matrices <= by_products:
        passes = (*first, "sums of squares", "two for each Newton step")
        return Plan(
            "newton",
            rows,
            d,
            D,
            matrices + vectors,
            limit,
            passes,
            max(0, limit - matrices - vectors),
        )
    passes = (
        *first,
        "sums of squares",
        "one for each Newton step and each step of conjugate gradients",
    )
    return Plan("newton-cg", rows, d, D, vectors, limit, passes, max(0, limit - vectors))


def tolerance(itemsize: int) -> float:
    """How far conjugate gradients go, as a share of the first residual: what the products of
    features of this width can resolve.
    """
    return 1e-7 if itemsize == 8 else 1e-6


def worth_drawing(weights: float) -> bool:
    """Return whether a map of so many weights can be drawn a dozen times for a figure."""
    return weights <= _FIGURE_NUMBERS


def figure_pairs(d: int) -> int:
    """Return the pairs of rows of d columns on which a figure's errors are measured."""
    return max(_FIGURE_PAIRS // 10, min(_FIGURE_PAIRS, _FIGURE_NUMBERS // d))


def width_for(error: float | None) -> str:
    """Return the dtype for planned rows: float32 where its rounding is far below the error."""
    return "float32" if error is not None and error >= _FLOAT32_FROM else "float64"


def size(count: float) -> str:
    """Format a number of bytes, such as "1.5 GB"."""
    for unit in _UNITS[:-1]:
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} {_UNITS[-1]}"
