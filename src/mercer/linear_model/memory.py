"""Peak memory of a fit: its rows, blocks, weights and the arrays of its route."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array, random_array

from mercer._typing import is_csr
from mercer.data import Stream
from mercer.errors import ParameterError, Setting
from mercer.linear_model.cross_validation import FOLDS
from mercer.linear_model.routes import ROUTES, Plan, Settings, plan_model, probe_block
from mercer.linear_model.solvers.coded_descent import group_width, is_one_hot
from mercer.linear_model.solvers.newton_folds import KEPT_ALPHAS
from mercer.linear_model.solvers.preconditioner import (
    FULL_FEATURES,
    preconditioner_bytes,
    sampled_rows,
)
from mercer.linear_model.solvers.ridge import PROJECTION_BYTES
from mercer.maps.base import Map, names_of_statistics
from mercer.maps.block import gram_operand
from mercer.parallel.threads import n_threads
from mercer.parallel.tile_size import (
    CSR_TILE_ROWS,
    PANEL,
    SHARD,
    TILE_ROWS,
    Cost,
    format_bytes,
    grid,
    tile_rows,
)

# bytes of coordinate descent for a coefficient: five arrays in float32, three of them in float64
_DESCENT_BYTES = 32
_FIXED_BYTES = 2**20  # buffers of BLAS, stacks of threads
_READ_BLOCKS = 3  # of a file: read, ahead of it, and its columns in use
_CHUNK_BYTES = 8 * 2**20  # of a file, while it is read
_TARGET_ARRAYS = 8  # arrays of the size of the targets
# that any fit may take: the buffers of BLAS, of readers and of threads are not measured so closely
LEAST_LIMIT = 32 * 2**20
_UNKNOWN_ROWS = 2**31  # of a file that no pass has counted: more than a block
_SHARES = (1.0, 0.85, 0.7, 0.55, 0.4, 0.25, 0.0)  # of the limit that the arrays of a route may take
SAMPLE_ROWS = 8192  # to time on, at most: those of a block
SAMPLE_NUMBERS = 2**22  # and 32 MiB of float64


@dataclass(frozen=True)
class DataShape:
    """Rows, columns, density (None for dense rows), dtype and kind of source of a data set."""

    rows: int
    columns: int
    density: float | None
    dtype: str
    kind: str = "array"

    @property
    def itemsize(self) -> int:
        """Bytes of a number."""
        return 4 if self.dtype == "float32" else 8

    @property
    def stored(self) -> float:
        """Numbers of a row that are stored."""
        return self.columns * (1.0 if self.density is None else self.density)

    @property
    def bytes(self) -> int:
        """Bytes of all rows in memory: of CSR rows the numbers and their columns."""
        return round(self.rows * self.stored * (self.itemsize + 4 * (self.density is not None)))

    def synthetic(self, rows: int) -> Any:
        """Return uniform random rows of this shape, an array or a CSR matrix."""
        rng = np.random.default_rng(0)
        if self.density is None:
            return rng.random((rows, self.columns), dtype=np.dtype(self.dtype))
        rows_of_entries = random_array(
            (rows, self.columns), density=self.density, format="csr", rng=rng, dtype=self.dtype
        )
        return csr_array(rows_of_entries)

    def sample_rows(self) -> int:
        """Return the number of rows to time on, at most."""
        return max(1, min(self.rows, SAMPLE_ROWS, int(SAMPLE_NUMBERS / max(self.stored, 1.0))))


@dataclass(frozen=True)
class MapSize:
    """Widths and work of a map at one size.

    Attributes
    ----------
    columns : int
        D.
    cost : Cost
        Multiply-adds and bytes of working space of one row.
    weights : float
        Numbers that are drawn.
    stored : float
        Numbers that a row of features holds in memory: D, positions of a code, or entries of a
        sparse row.
    form : {"dense", "sparse", "coded"}
    statistics : tuple of str
        Names of the statistics of the maps, one pass over the rows each.
    dense_gram : bool
        Whether Z'Z is computed from an array, as for codes of few values too.
    one_hot : bool
        Whether codes are one-hot, which coordinate descent sweeps over.
    """

    columns: int
    cost: Cost
    weights: float
    stored: float
    form: str
    statistics: tuple[str, ...] = ()
    dense_gram: bool = True
    one_hot: bool = False

    @classmethod
    def of(cls, fitted: Map, *, density: float | None = None) -> MapSize:
        """Measure a fitted map on one row of the given density."""
        d, transform = fitted.n_features_in_, fitted.tile_transform_
        block = probe_block(fitted, density)
        form = type(block).__name__.lower()
        D = transform.columns(d)
        stored = D
        if form != "dense":
            stored = block.codes.shape[1] if form == "coded" else block.Z.nnz
        weights = float(sum(array.size for array in transform.arrays().values()))
        needed = names_of_statistics(fitted)
        dense_gram = not is_csr(gram_operand(block))
        cost, one_hot = transform.cost(d), is_one_hot(block)
        return cls(D, cost, weights, float(stored), form, needed, dense_gram, one_hot)


def plan_within(model: Any, settings: Settings, stream: Stream, limit: int) -> Plan:
    """Return the plan of a fit whose peak memory is within ``max_memory``, rows included.

    The arrays of the route may take ``limit``; less, where a file is read whose blocks would not
    fit beside them. Rows in memory are not counted, nor are blocks of them.

    Raises
    ------
    ParameterError
        Where the route with the least memory takes more, and more than 32 MiB.
    """
    size = MapSize.of(model.feature_map_)
    rows = _UNKNOWN_ROWS if stream.rows is None else stream.rows
    density = 1 / stream.width if stream.sparse else None
    shape = DataShape(rows, stream.width, density, str(stream.dtype), stream.kind)
    outputs = model._n_outputs if settings.loss != "squared" else 1

    threads = n_threads(model.n_jobs)

    def plan_with(arrays: int) -> Plan:
        return plan_model(model, settings, stream, arrays)

    def peak_of(plan: Plan) -> int:
        return peak_bytes(plan, shape, size, threads, outputs, settings.loss)

    if not stream.files() and limit >= LEAST_LIMIT:
        return plan_with(limit)
    allowed = max(limit, LEAST_LIMIT)
    plan = reduce_arrays(plan_with, peak_of, limit, allowed)
    peak = peak_of(plan)
    if peak <= allowed:
        return plan
    raise ParameterError(
        type(model).__name__,
        Setting("max_memory"),
        f" is {format_bytes(limit)}, and this fit takes at least {format_bytes(peak)}: "
        f"{ROUTES[plan.route].method}, blocks of {min(rows, block_rows(shape, size)):,} rows x "
        f"{size.columns:,} features. Give so much, or fewer features.",
    )


def require_memory_for_rows(estimator_name: str, stream: Stream, limit: int) -> None:
    """Raise a ParameterError where blocks of dense rows of a file take more than ``max_memory``.

    It is raised before a row is read, or weights of so many columns are drawn.
    """
    if stream.sparse or not stream.files():
        return
    row = stream.width * stream.dtype.itemsize
    rows = grid(stream.width, stream.dtype.itemsize).rows
    rows = rows if stream.rows is None else min(rows, stream.rows)
    need = _READ_BLOCKS * rows * row
    if need > max(limit, LEAST_LIMIT):
        raise ParameterError(
            estimator_name,
            Setting("max_memory"),
            f" is {format_bytes(limit)}, and reading {stream.name} takes {format_bytes(need)}: "
            f"{_READ_BLOCKS} blocks of {rows} rows of {stream.width:,} columns. Give more, or "
            "choose columns.",
        )


def reduce_arrays(
    plan_with: Callable[[int], Plan], peak_of: Callable[[Plan], int], limit: int, allowed: int
) -> Plan:
    """Return the plan with the largest share of a limit for arrays whose peak is allowed.

    The plan with the smallest share where none is.
    """
    for share in _SHARES:
        plan = plan_with(max(1, int(share * limit)))
        if peak_of(plan) <= allowed:
            break
    return plan


def peak_bytes(
    plan: Plan,
    shape: DataShape,
    size: MapSize,
    threads: int,
    outputs: int,
    loss: str = "squared",
) -> int:
    """Return the peak memory of a fit beyond that of the process, rows in memory not counted."""
    n, D = shape.rows, size.columns
    B = min(n, block_rows(shape, size))
    weights = size.weights * (12 if shape.dtype == "float32" else 8)
    block = B * row_bytes(shape, size)
    read = (
        0.0
        if shape.kind == "array"
        else _READ_BLOCKS * B * shape.stored * shape.itemsize + _CHUNK_BYTES
    )
    scratch = rows_of_tile(shape, size) * size.cost.bytes * shape.itemsize / 8
    computed = 2 * block + min(threads, 2) * scratch
    # a block as it is multiplied by itself
    operand = B * D * shape.itemsize if size.dense_gram else block
    always = _FIXED_BYTES + weights + read + 8 * D * outputs * 3
    if plan.route in ("moments", "two-stage"):
        folds = {"kfold": FOLDS, "held-out": 2}.get(plan.alpha_method or "", 1)
        copies = 1 if folds == 1 and n <= block_rows(shape, size) * SHARD else 2
        # tiles on the diagonal of Z'Z, of more than one, are products of copies
        tiles = math.ceil(D / PANEL)
        panels = min(threads, tiles) * B * PANEL * shape.itemsize if tiles > 1 else 0
        codes = block if size.form == "coded" else 0
        added = codes + 2 * operand + (panels if size.dense_gram else 24.0 * D**2)
        solver = float(plan.solver_bytes)
        if folds > 1:  # whose rows are copied
            added = computed + added / folds
        if plan.alpha_method == "kfold":  # the allocator keeps a block
            solver += block
        most = max(copies * folds * 4 * D**2 + max(computed, added), solver)
        if plan.alpha_method == "loo":  # eigenvectors, and three arrays of a tile of projections
            tile = min(B * D * 8, max(PROJECTION_BYTES, 64 * 8 * D))
            most = max(most, 8 * D**2 + computed + 3 * tile)
        return round(always + most)
    if plan.route == "gram":
        return round(always + scratch + plan.solver_bytes)
    kept = is_kept(plan, shape, size, outputs)
    blocks = kept_bytes(shape, size, outputs) if kept else computed
    if uses_descent(plan, shape, size, outputs, loss):
        width = group_width(outputs)
        arrays = _DESCENT_BYTES * D * math.ceil(outputs / width) * width
        models = KEPT_ALPHAS * FOLDS if plan.alpha_method == "kfold" else 0
        return round(always + blocks + arrays + 8 * D * outputs * models)
    # a block about its mean and by eigenvectors, for copies of rows
    cast = 2 * B * D * 8 if has_copies(plan, shape, size, outputs) else 0
    most = blocks + cast if kept else max(blocks, 2 * block + cast)
    if plan.route == "passes" and not kept:  # a block about its mean, and one that is read ahead
        most += 2 * block
    models = _TARGET_ARRAYS
    if plan.route == "newton-cg" and plan.alpha_method == "kfold":  # of all folds
        models += KEPT_ALPHAS * FOLDS
    spectrum = preconditioner_bytes(D, plan.limit)
    count = sampled_rows(D, plan.limit)
    if size.form != "dense" and count:  # the sample is sparse
        spectrum //= 3
    elif count:  # the sample, its Gram matrix, the eigenvectors and a copy of them
        spectrum = max(spectrum, 8 * count * (D + 3 * count))
    arrays = 8 * D * outputs * models + spectrum
    return round(always + most + arrays)


def is_kept(plan: Plan, shape: DataShape, size: MapSize, outputs: int) -> bool:
    """Return whether the features of all rows stay in memory between passes."""
    return bool(plan.cache_bytes) and kept_bytes(shape, size, outputs) <= plan.cache_bytes


def has_copies(plan: Plan, shape: DataShape, size: MapSize, outputs: int) -> bool:
    """Return whether Newton's method works on copies of dense rows, times all eigenvectors."""
    kept = plan.route == "newton-cg" and is_kept(plan, shape, size, outputs)
    return kept and size.form == "dense" and size.columns <= FULL_FEATURES


def uses_descent(plan: Plan, shape: DataShape, size: MapSize, outputs: int, loss: str) -> bool:
    """Return whether a route solves by coordinate descent: over one-hot codes in memory."""
    if not size.one_hot or not is_kept(plan, shape, size, outputs):
        return False
    if plan.route == "passes":
        return shape.rows < size.columns
    return plan.route == "newton-cg" and not (loss == "log_loss" and outputs > 1)


def block_rows(shape: DataShape, size: MapSize) -> int:
    """Return the rows of a block of features."""
    width = size.columns if shape.density is not None else max(size.columns, shape.columns)
    return grid(width, shape.itemsize).rows


def rows_of_tile(shape: DataShape, size: MapSize) -> int:
    """Return the rows of a tile."""
    if shape.density is None:
        return tile_rows(size.cost, TILE_ROWS)
    return tile_rows(size.cost.sparse(shape.columns, shape.density), CSR_TILE_ROWS)


def row_bytes(shape: DataShape, size: MapSize) -> float:
    """Return the bytes of a row of features: codes, or numbers with columns where sparse."""
    if size.form == "coded":
        return size.stored * 2
    return size.stored * (shape.itemsize + 4 * (size.form == "sparse"))


def kept_bytes(shape: DataShape, size: MapSize, outputs: int) -> float:
    """Return the bytes of all blocks, and of arrays beside them, that are kept between passes."""
    copies = 1 if size.form == "coded" else 2
    return shape.rows * (row_bytes(shape, size) * copies + 8 * outputs * _TARGET_ARRAYS + 8)
