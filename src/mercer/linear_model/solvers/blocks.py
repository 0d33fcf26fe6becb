"""Blocks of features that are read in every pass: caching, splits, and products over threads."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Self

import numpy as np

from mercer import ops
from mercer._typing import Array, is_csr
from mercer.linear_model.solvers.ridge import Rows
from mercer.maps.block import (
    THIN_COLUMNS,
    Block,
    Coded,
    Dense,
    OneHot,
    is_on_device,
    matrix,
    rows_of,
    stack_blocks,
)
from mercer.parallel.threads import for_each, row_slices
from mercer.parallel.tile_size import PANEL, TILE_ROWS, Cost
from mercer.stats.base import frequency_weights

ReadRows = Callable[[], Rows]
"""Each call reads the same (features, targets, weights or None), block by block."""

WeightedBlock = tuple[Block, Array, Array]
"""Features, targets (n, t) and weights (n,) in float64."""

# arrays of the size of the targets: scores, steps, curvatures, and temporaries of a pass
_TARGET_ARRAYS = 8
_SINGLE_RANGE = 1e-15, 1e15  # magnitudes whose sums of squares stay well inside float32
_CODED_ROWS = 4096  # products of tables and weights are computed for each span anew
_POSITIONS = 64  # of codes, whose sums for some tens of outputs stay in the cache
_PARTIAL_SUMS = 4  # over groups of positions, whatever the number of threads
_TILE_SUMS = 8  # over tiles of rows, likewise


class DeviceBlock(Dense):
    """Dense features on a device, whose products with NumPy arrays are NumPy arrays."""

    @property
    def T(self) -> Any:
        return DeviceBlock(self.Z.T)

    def __matmul__(self, w: Array) -> Array:
        return np.asarray(self.Z @ ops.asarray_like(w, self.Z))


class CachedBlocks:
    """Blocks that stay in memory after the first pass where they fit, and are read anew otherwise.

    Coded blocks, whose products with all columns cost as much for a few rows as for many, are
    stacked.

    Parameters
    ----------
    read_rows : ReadRows
    memory : int
        Bytes for blocks, and for the arrays of each row beside them.
    """

    def __init__(self, read_rows: ReadRows, memory: int) -> None:
        self.read_rows, self.memory = read_rows, memory
        self.passes = 0
        self._blocks: list[WeightedBlock] | None = None

    @property
    def cached(self) -> bool:
        """Whether the blocks are in memory."""
        return self._blocks is not None

    def __call__(self) -> Iterator[WeightedBlock]:
        """Yield all blocks: one pass."""
        self.passes += 1
        if self._blocks is not None:
            yield from self._blocks
            return
        blocks, left = [], self.memory
        for block, Y, w in with_weights(self.read_rows()):
            copies = 1 if isinstance(block, Coded) else 2
            left -= block.nbytes * copies + _TARGET_ARRAYS * Y.nbytes + w.nbytes
            if left >= 0:
                blocks.append((block, Y, w))
            else:
                blocks.clear()
            yield block, Y, w
        if left >= 0:
            self._blocks = stack_coded(blocks)


class SplitBlocks:
    """The chosen rows of cached blocks, such as the held-out ones: other rows have weight 0."""

    def __init__(self, blocks: CachedBlocks, chosen: Array) -> None:
        self.blocks, self.chosen = blocks, chosen

    @property
    def cached(self) -> bool:
        return self.blocks.cached

    @property
    def passes(self) -> int:
        return self.blocks.passes

    def __call__(self) -> Iterator[WeightedBlock]:
        return split(self.blocks, self.chosen)


class CenteredBlocks:
    """Copies of dense blocks in memory: z - mean in float32, or U'(z - mean) for a basis U.

    They are one block, for products that need not be exact.
    """

    cached = True

    def __init__(self, Z: Array, Y: Array, w: Array, basis: Array | None) -> None:
        self.Z, self.Y, self.w, self.basis = Z, Y, w, basis
        self.passes = 0

    @classmethod
    def of(
        cls,
        rows: CachedBlocks,
        mean: Array,
        *,
        basis: Array | None = None,
    ) -> Self | None:
        """Copy the rows of the blocks that have weights.

        None where the blocks are not dense and in memory, or float32 might overflow.
        """
        if not rows.cached:
            return None
        parts: list[tuple[Any, Array, Array]] = []
        low, high = _SINGLE_RANGE
        for block, Y, w in rows():
            if not isinstance(block, Dense):
                return None
            if not w.any():
                continue
            Z = block.Z - ops.asarray_like(mean, block.Z)
            largest = np.abs(Z).max(axis=0, initial=0.0)
            if not np.all((largest == 0) | ((largest >= low) & (largest <= high))):
                return None
            Z = Z.astype(np.float32)
            if basis is not None:
                on_device = ops.is_device(Z)
                axes = basis.astype(np.float32)
                Z = Z @ ops.asarray_like(axes, Z) if on_device else multiply(Dense(Z), axes)
            parts.append((Z, Y, w))
        Z, Y, w = (np.concatenate(part) for part in zip(*parts, strict=True))
        return cls(Z, Y, w, basis)

    @contextmanager
    def parted(self, chosen: Array) -> Iterator[tuple[CenteredBlocks, CenteredBlocks]]:
        """Yield the other rows and the chosen ones, by an array of shape (n,).

        No row is copied: those on the wrong side are swapped, and swapped again at the end.
        """
        count = int(len(chosen) - np.count_nonzero(chosen))
        i, j = np.flatnonzero(chosen[:count]), count + np.flatnonzero(~chosen[count:])

        def swap() -> None:
            for array in (self.Z, self.Y, self.w):
                array[i], array[j] = array[j], array[i]

        swap()
        try:
            yield (
                CenteredBlocks(self.Z[:count], self.Y[:count], self.w[:count], self.basis),
                CenteredBlocks(self.Z[count:], self.Y[count:], self.w[count:], self.basis),
            )
        finally:
            swap()

    def __call__(self) -> Iterator[WeightedBlock]:
        """Yield the block: one pass."""
        self.passes += 1
        yield (DeviceBlock if ops.is_device(self.Z) else Dense)(self.Z), self.Y, self.w


def with_weights(rows: Rows) -> Iterator[WeightedBlock]:
    """Yield blocks with targets (n, t) and weights (n,) in float64."""
    for block, targets, weight in rows:
        n = block.shape[0]
        Y = np.asarray(targets, dtype=np.float64).reshape(n, -1)
        yield block, Y, frequency_weights(n, weight)


def split(read_rows: ReadRows, chosen: Array) -> Iterator[WeightedBlock]:
    """Yield the blocks with weight 0 for rows that are not chosen, by an array of shape (n,)."""
    start = 0
    for block, Y, w in with_weights(read_rows()):
        yield block, Y, w * chosen[start : start + len(w)]
        start += len(w)


def column_sums(block: Block, w: Array) -> Array:
    """Return sum w z of each column."""
    return multiply_transposed(block, w[:, None])[:, 0]


def column_squares(block: Block, w: Array) -> Array:
    """Return sum w z^2 of each column."""
    if isinstance(block, Coded) and isinstance(block.tables, OneHot):
        return block.tables.scale * (block.T @ w)
    Z = matrix(block)
    if isinstance(block, DeviceBlock):
        return DeviceBlock(Z * Z).T @ w
    if is_csr(Z):
        return Z.astype(np.float64).power(2).T @ w
    sums = np.zeros(Z.shape[1])
    for rows in row_slices(len(w), TILE_ROWS):
        sums += w[rows] @ np.square(Z[rows], dtype=np.float64)
    return sums


def row_squares(block: Block) -> Array:
    """Return |z|^2 of each row, in float64."""
    if isinstance(block, Coded) and isinstance(block.tables, OneHot):
        n, places = block.codes.shape
        squares = np.full(n, places * float(block.tables.scale) ** 2)
        if block.empty is not None:
            squares[np.asarray(block.empty)] = 0.0
        return squares
    Z = matrix(block)
    if is_csr(Z):
        return np.asarray(Z.astype(np.float64).power(2).sum(axis=1)).ravel()
    if ops.is_device(Z):
        return np.asarray((Z * Z).sum(axis=1)).astype(np.float64)
    return np.einsum("ij,ij->i", Z, Z).astype(np.float64)


def multiply(block: Block, W: Array) -> Array:
    """Return Z W, (n, t), in the wider of both dtypes; threads share spans of rows."""
    n, t = block.shape[0], W.shape[1]
    if is_on_device(block):
        return np.asarray(block @ W)
    if not isinstance(block, Dense | Coded):
        return block @ W
    out = np.empty((n, t), np.result_type(block.dtype, W.dtype))
    coded = isinstance(block, Coded)
    thin = not coded and 1 < t <= THIN_COLUMNS
    axes = np.ascontiguousarray(W.T, dtype=out.dtype) if thin else W

    def work(rows: slice) -> None:
        if thin and isinstance(block, Dense):
            ops.inner_products(block.Z[rows].astype(out.dtype, copy=False), axes, out[rows])
        elif isinstance(block, Coded) or block.dtype == out.dtype:
            out[rows] = rows_of(block, rows) @ W
        else:
            out[rows] = 0
            for columns in row_slices(block.shape[1], PANEL):  # cast in the cache
                out[rows] += block.Z[rows, columns].astype(out.dtype) @ W[columns]

    each = float(t * (block.codes.shape[1] if isinstance(block, Coded) else block.shape[1]))
    for_each(work, list(row_slices(n, _CODED_ROWS if coded else TILE_ROWS)), Cost(each, 0.0), n)
    return out


def multiply_transposed(block: Block, R: Array) -> Array:
    """Return Z'R, (D, t), in the wider of both dtypes; threads share spans of columns."""
    n, t = R.shape
    if isinstance(block, DeviceBlock) or not isinstance(block, Dense | Coded):
        return block.T @ R
    out = np.empty((block.shape[1], t), np.result_type(block.dtype, R.dtype))
    thin = 1 < t <= THIN_COLUMNS
    R = R.astype(out.dtype, copy=False) if thin else R

    def work(columns: slice) -> None:
        if isinstance(block, Coded):
            features = slice(columns.start * block.values, columns.stop * block.values)
            out[features] = _positions_of(block, columns).T @ R
        elif thin:
            total = np.zeros((t, columns.stop - columns.start), out.dtype)
            part = np.empty_like(total)
            for rows in row_slices(n, TILE_ROWS):
                Z = block.Z[rows, columns].astype(out.dtype, copy=False)
                total += ops.weighted_sums(R[rows], Z, part)
            out[columns] = total.T
        elif block.dtype == out.dtype:
            out[columns] = block.Z[:, columns].T @ R
        else:  # matmul would cast all of the transposed rows at once: four times as long or more
            out[columns] = 0
            for rows in row_slices(n, TILE_ROWS):
                out[columns] += block.Z[rows, columns].astype(out.dtype).T @ R[rows]

    if isinstance(block, Coded):
        positions = block.codes.shape[1]
        for_each(work, list(row_slices(positions, _POSITIONS)), Cost(float(t * positions), 0.0), n)
    else:
        for_each(
            work, list(row_slices(block.shape[1], PANEL)), Cost(float(t * block.shape[1]), 0.0), n
        )
    return out


def multiply_hessian(
    block: Block, P: Array, center: Array, weigh: Callable[[Array, slice], Array]
) -> tuple[Array, Array, Array]:
    """Return Z'R, the sums of R and those of R * U, with U = Z P - center and R = weigh(U, rows).

    weigh may change U. P and center have the dtype of the block; sums over tiles of dense rows,
    which are read once, are in float64. Tiles are added in a fixed order, whatever the number of
    threads.
    """
    if isinstance(block, Coded) and isinstance(block.tables, OneHot):  # half of the bytes
        block = replace(block, tables=replace(block.tables, dtype=np.dtype(np.float32)))
    if not isinstance(block, Dense) or is_on_device(block):
        U = multiply(block, P.astype(block.dtype, copy=False)) - center
        R = weigh(U, slice(None)).astype(block.dtype, copy=False)
        image = multiply_transposed(block, R)
        bend = np.einsum("ij,ij->j", R, U, dtype=np.float64)
        return image.astype(np.float64), R.sum(axis=0, dtype=np.float64), bend
    n, (D, t) = block.shape[0], P.shape
    thin, axes = 1 < t <= THIN_COLUMNS, np.ascontiguousarray(P.T)
    tiles = list(row_slices(n, TILE_ROWS))
    count = min(_TILE_SUMS, len(tiles))
    images, sums = np.zeros((count, t, D)), np.zeros((count, 2, t))

    def work(which: int) -> None:
        part, U = np.empty((t, D), block.dtype), np.empty((TILE_ROWS, t), block.dtype)
        for rows in tiles[which::count]:
            Z, V = block.Z[rows], U[: rows.stop - rows.start]
            if thin:
                ops.inner_products(Z, axes, V)
            else:
                np.matmul(Z, P, out=V)
            V -= center
            R = weigh(V, rows)
            images[which] += ops.weighted_sums(R, Z, part) if thin else R.T @ Z
            sums[which] += R.sum(axis=0), np.einsum("ij,ij->j", R, V)

    for_each(work, list(range(count)), Cost(2.0 * t * D, 0.0), n)
    total, bend = sums.sum(axis=0)
    return images.sum(axis=0).T, total, bend


def multiply_gram(block: Coded, Q: Array) -> Array:
    """Return Z Z'Q, (n, t), a few positions of the codes at a time: Z'Q is never formed.

    Groups of positions are added in a fixed order.
    """
    (n, positions), t = block.codes.shape, Q.shape[1]
    groups = list(row_slices(positions, _POSITIONS))
    count = min(_PARTIAL_SUMS, len(groups))
    sums = [np.zeros((n, t), np.result_type(block.dtype, Q.dtype)) for _ in range(count)]

    def work(which: int) -> None:
        for group in groups[which::count]:
            part = _positions_of(block, group)
            sums[which] += part @ (part.T @ Q)

    for_each(work, list(range(count)), Cost(2.0 * t * positions, 0.0), n)
    return functools.reduce(np.add, sums)


def multiply_centered_gram(block: Coded, Q: Array, along: Array, square: float) -> Array:
    """Return (Z - 1 mean')(Z - 1 mean')'Q, (n, t), with along = Z mean and square = |mean|^2.

    Products are in the dtype of Q for one-hot codes.
    """
    if isinstance(block.tables, OneHot):
        block = replace(block, tables=replace(block.tables, dtype=Q.dtype))
    out = multiply_gram(block, Q)
    along, total = along.astype(out.dtype, copy=False), Q.sum(axis=0)
    out -= np.multiply.outer(along, total)
    out += out.dtype.type(square) * total - along @ Q
    return out


def stack_coded(blocks: list[WeightedBlock]) -> list[WeightedBlock]:
    """Return coded blocks as one; others as they are."""
    if len(blocks) < 2 or not all(isinstance(block, Coded) for block, _, _ in blocks):
        return blocks
    codes, targets, weights = zip(*blocks, strict=True)
    return [(stack_blocks(codes), np.concatenate(targets), np.concatenate(weights))]


def _positions_of(block: Coded, positions: slice) -> Coded:
    tables = block.tables
    return replace(
        block,
        codes=block.codes[:, positions],
        tables=tables if isinstance(tables, OneHot) or len(tables) == 1 else tables[positions],
        fractions=None if block.fractions is None else block.fractions[:, positions],
    )
