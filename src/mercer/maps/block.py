"""Blocks of features: matrices of some rows that can be multiplied, dense, sparse or coded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import getattr_static
from operator import attrgetter
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike

from mercer import ops
from mercer._repr import short_repr
from mercer._typing import Array, is_csr
from mercer.parallel.threads import for_each, row_slices
from mercer.parallel.tile_size import Cost

DENSE_VALUES = 8
"""Values of a one-hot code up to which Z'Z is computed from an array. For 2,048 rows and columns in
float64, on one thread, an array takes 0.24 s and CSR 4.9 s with 2 values, 0.36 s with 8 and 0.14 s
with 32; for 512 columns both take as long with 8. The number of values belongs to the map: the
same arithmetic for every block."""

# Bytes of a row of weights that are multiplied at once: gathers from wider ones leave the cache.
_WEIGHT_BYTES = 256
# Columns up to which the core multiplies rows faster than BLAS, which copies them into panels, and
# rows from which on a transposed copy of the columns costs little.
THIN_COLUMNS = 32
_THIN_ROWS = 64
_HUGE_PAGE = 2 * 2**20
_HUGE_FROM = 4 * 2**20
_CACHE_LINE = 64


class Block(Protocol):
    """Z, with block @ w, block.T @ r, block.gram() = Z'Z, toarray() and tocsr().

    Use ``is_block`` and not isinstance: an isinstance of a protocol evaluates its properties before
    Python 3.12, and so transposes every CSR block.
    """

    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def T(self) -> Any: ...
    def __matmul__(self, w: Array) -> Array: ...
    def gram(self) -> Array: ...
    def toarray(self) -> Array: ...
    def tocsr(self) -> Any: ...


_BLOCK_ATTRIBUTES = tuple(
    name for name in vars(Block) if not name.startswith("_") or name == "__matmul__"
)


def _forward(path: str) -> Any:
    """Return a property that is an attribute of an attribute."""
    return property(attrgetter(path))


@dataclass(frozen=True, eq=False)
class Dense:
    """Block that is a 2-d array."""

    Z: Array

    __repr__ = short_repr

    shape = _forward("Z.shape")
    dtype = _forward("Z.dtype")
    nbytes = _forward("Z.nbytes")
    T = _forward("Z.T")

    def __matmul__(self, w: Array) -> Array:
        n, columns = self.Z.shape[0], w.shape[1] if w.ndim == 2 else 1
        thin = 1 < columns <= THIN_COLUMNS and n >= _THIN_ROWS and w.dtype == self.Z.dtype
        if not thin or ops.is_device(self.Z) or ops.is_device(w):
            return self.Z @ w
        return ops.inner_products(
            self.Z, np.ascontiguousarray(w.T), np.empty((n, columns), w.dtype)
        )

    def gram(self) -> Array:
        """Return Z'Z."""
        return self.Z.T @ self.Z

    def toarray(self) -> Array:
        return self.Z

    def tocsr(self) -> Any:
        from scipy.sparse import csr_array

        return csr_array(np.asarray(self.Z))


@dataclass(frozen=True, eq=False)
class Sparse:
    """Block that is a CSR matrix."""

    Z: Any

    __repr__ = short_repr

    shape = _forward("Z.shape")
    dtype = _forward("Z.dtype")

    @property
    def nbytes(self) -> int:
        return self.Z.data.nbytes + self.Z.indices.nbytes + self.Z.indptr.nbytes

    @cached_property
    def T(self) -> Any:
        return self.Z.T.tocsr()

    def __matmul__(self, w: Array) -> Array:
        return self.Z @ w

    def gram(self) -> Array:
        """Return Z'Z as a dense array."""
        return (self.T @ self.Z).toarray()

    def toarray(self) -> Array:
        return self.Z.toarray()

    def tocsr(self) -> Any:
        return self.Z


@dataclass(frozen=True)
class OneHot:
    """One-hot tables: code a of a place is `scale` in column a of the place's `width` columns."""

    width: int
    scale: float
    dtype: Any = np.float64


@dataclass(frozen=True, eq=False)
class Coded:
    """Block of small integers: row i is (T_1[codes[i, 1]], T_2[codes[i, 2]], ...).

    With fractions f the values of a place are (1 - f) T[code] + f T[code + 1]. Products are gathers
    and sums over codes; toarray() and tocsr() alone compute the features. nbytes counts the arrays
    of the rows: the tables belong to the map.

    Parameters
    ----------
    codes : array of shape (n, places), uint8, uint16 or int32
    tables : OneHot, or array of shape (places, codes, values) or (1, codes, values)
        The values of each code; the first table serves all places where there is only one.
    fractions : array of shape (n, places), optional
    empty : boolean array of shape (n,), optional
        Rows without codes: their features are 0.
    largest : float, optional
        The largest number that was coded; NaN where one is negative or not finite.
    """

    codes: Array
    tables: OneHot | Array
    fractions: Array | None = None
    empty: Array | None = None
    largest: float | None = None

    __repr__ = short_repr

    @property
    def values(self) -> int:
        """Number of columns of one place."""
        return self.tables.width if isinstance(self.tables, OneHot) else self.tables.shape[2]

    @property
    def shape(self) -> tuple[int, int]:
        return self.codes.shape[0], self.codes.shape[1] * self.values

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.tables.dtype)

    @property
    def nbytes(self) -> int:
        return sum(
            array.nbytes for array in (self.codes, self.fractions, self.empty) if array is not None
        )

    @property
    def T(self) -> Any:
        return _Transposed(self)

    def __matmul__(self, w: Array) -> Array:
        w = ops.asarray_like(w, self.codes)
        kind = np.result_type(self.dtype, w.dtype)
        panels = w.astype(kind, copy=False).reshape(self.codes.shape[1], self.values, -1)
        if not isinstance(self.tables, OneHot):
            panels = np.matmul(self.tables.astype(kind, copy=False), panels)
        out = ops.empty((len(self.codes), panels.shape[2]), kind, self.codes)
        fractions = self._fractions(kind)
        if ops.is_device(self.codes) or panels.shape[2] * kind.itemsize <= 2 * _WEIGHT_BYTES:
            ops.coded_product(self.codes, panels, fractions, out)
        else:

            def work(columns: slice) -> None:
                ops.coded_product(self.codes, panels[:, :, columns], fractions, out[:, columns])

            spans = list(row_slices(panels.shape[2], _WEIGHT_BYTES // kind.itemsize))
            each = float(self.codes.shape[1] * panels.shape[2])
            for_each(work, spans, Cost(each, 0.0), len(self.codes))
        if isinstance(self.tables, OneHot):
            out *= kind.type(self.tables.scale)
        if self.empty is not None:
            out[self.empty] = 0
        return out if w.ndim == 2 else out[:, 0]

    def gram(self) -> Array:
        """Return Z'Z as a dense array."""
        Z = gram_operand(self)
        return (Z.T @ Z).toarray() if is_csr(Z) else Z.T @ Z

    def toarray(self, out: Array | None = None) -> Array:
        """Return the features, written into `out` where it is given."""
        out = ops.empty(self.shape, self.dtype, self.codes) if out is None else out
        if isinstance(self.tables, OneHot):
            out[:] = 0
            rows = np.arange(len(self.codes))[:, None]
            out[rows, self._columns()] = self.tables.scale
        else:
            ops.coded_rows(self.codes, self.tables, self.fractions, out)
        if self.empty is not None:
            out[self.empty] = 0
        return out

    def tocsr(self) -> Any:
        """Return the features as a canonical CSR matrix without explicit zeros.

        It has one entry for each code where the tables are one-hot.
        """
        from scipy.sparse import csr_array

        if ops.is_device(self.codes):
            return block_to_host(self).tocsr()
        if not isinstance(self.tables, OneHot):
            return csr_array(self.toarray())
        n, places = self.codes.shape
        full = np.full(n, places) if self.empty is None else np.where(self.empty, 0, places)
        indptr = np.concatenate([[0], np.cumsum(full)])
        columns = self._columns() if self.empty is None else self._columns()[~self.empty]
        kind = np.int32 if max(indptr[-1], self.shape[1]) <= np.iinfo(np.int32).max else np.int64
        data = np.full(indptr[-1], self.tables.scale, self.dtype)
        Z = csr_array(
            (data, columns.ravel().astype(kind, copy=False), indptr.astype(kind)), shape=self.shape
        )
        Z.has_canonical_format = True
        return Z

    def sums(self, R: Array) -> Array:
        """Return Z'R."""
        R = ops.asarray_like(R, self.codes)
        kind = np.result_type(self.dtype, R.dtype)
        rows = R.astype(kind, copy=False).reshape(len(self.codes), -1)
        if self.empty is not None:
            rows = np.where(self.empty[:, None], kind.type(0), rows)
        count = self.tables.width if isinstance(self.tables, OneHot) else self.tables.shape[1]
        totals = ops.empty((self.codes.shape[1], count, rows.shape[1]), kind, self.codes)
        ops.coded_sums(self.codes, rows, self._fractions(kind), totals)
        if isinstance(self.tables, OneHot):
            totals *= kind.type(self.tables.scale)
        else:
            totals = np.matmul(self.tables.astype(kind, copy=False).transpose(0, 2, 1), totals)
        out = totals.reshape(self.shape[1], -1)
        return out if R.ndim == 2 else out[:, 0]

    def _columns(self) -> Array:
        kind = np.dtype(np.int32 if self.shape[1] <= np.iinfo(np.int32).max else np.int64)
        return self.codes.astype(kind) + np.arange(0, self.shape[1], self.values, dtype=kind)

    def _fractions(self, kind: DTypeLike) -> Array | None:
        return None if self.fractions is None else self.fractions.astype(kind, copy=False)


@dataclass(frozen=True, eq=False)
class _Transposed:
    """Transpose Z' of a coded block, for Z' @ R."""

    block: Coded

    @property
    def shape(self) -> tuple[int, int]:
        return self.block.shape[::-1]

    def __matmul__(self, R: Array) -> Array:
        return self.block.sums(R)


def is_block(value: object) -> bool:
    """Return whether a value has the attributes of a Block; no property is evaluated."""
    if isinstance(value, Dense | Sparse | Coded):
        return True
    return all(getattr_static(value, name, None) is not None for name in _BLOCK_ATTRIBUTES)


def code_type(count: int) -> Any:
    """Return the smallest dtype for so many different codes."""
    return np.uint8 if count <= 2**8 else np.uint16 if count <= 2**16 else np.int32


def as_block(rows: Any) -> Block:
    """Return a 2-d array or a CSR matrix as a block."""
    return Sparse(rows) if is_csr(rows) else Dense(rows)


def allocate_features(shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
    """Return an uninitialized array for features; a large one begins at a huge page.

    Most of the time of a lift is spent in clearing new pages. From 4 MiB on NumPy requests huge
    pages, and those that fit into the array are used: up to 2 MiB at its ends would still come in
    pages of 4 KiB, at 0.7 ms in all. Memory that is never written to costs nothing.
    """
    if math.prod(shape) * dtype.itemsize < _HUGE_FROM:
        return np.empty(shape, dtype)
    return aligned_empty(shape, dtype, _HUGE_PAGE)


def aligned_empty(shape: tuple[int, ...], dtype: DTypeLike, boundary: int = _CACHE_LINE) -> Array:
    """Return an uninitialized array that begins at a multiple of some bytes."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(size + boundary, np.uint8)
    start = -memory.ctypes.data % boundary
    return memory[start : start + size].view(dtype).reshape(shape)


def matrix(block: Block) -> Any:
    """Return the block as an array, or as CSR where it is sparse; without a copy if possible."""
    if isinstance(block, Dense | Sparse):
        return block.Z
    if isinstance(block, Coded) and isinstance(block.tables, OneHot):
        return block.toarray() if ops.is_device(block.codes) else block.tocsr()
    return block.toarray()


def gram_operand(block: Block) -> Any:
    """Return the block as the array or CSR matrix Z by which Z'Z is computed fastest.

    One-hot codes of at most DENSE_VALUES values fill an eighth of their columns or more, and are an
    array; any other block is what `matrix` returns.
    """
    tables = block.tables if isinstance(block, Coded) else None
    if isinstance(tables, OneHot) and tables.width <= DENSE_VALUES:
        return block.toarray()
    return matrix(block)


def block_to_host(block: Block) -> Block:
    """Return the block with NumPy arrays, copied from the device where it is on one."""
    if isinstance(block, Dense):
        return Dense(np.asarray(block.Z))
    if not isinstance(block, Coded):
        return block
    tables = block.tables if isinstance(block.tables, OneHot) else np.asarray(block.tables)
    fractions, empty = (
        None if array is None else np.asarray(array) for array in (block.fractions, block.empty)
    )
    return Coded(np.asarray(block.codes), tables, fractions, empty)


def is_on_device(block: Block) -> bool:
    """Return whether the rows of a block are on a device."""
    if isinstance(block, Coded):
        return ops.is_device(block.codes)
    return isinstance(block, Dense) and ops.is_device(block.Z)


def rows_of(block: Block, rows: slice | Array) -> Block:
    """Return some rows of a block, by a slice, a mask or their numbers."""
    if not isinstance(block, Coded):
        return as_block(matrix(block)[rows])
    return select_rows(block, rows)


def select_rows(block: Coded, rows: slice | Array) -> Coded:
    """Return some rows of a coded block, by a slice or a mask."""
    return replace(
        block,
        codes=block.codes[rows],
        fractions=None if block.fractions is None else block.fractions[rows],
        empty=None if block.empty is None else block.empty[rows],
        largest=None,
    )


def stack_blocks(blocks: Sequence[Block]) -> Block:
    """Return the rows of several blocks of one map as one; coded, or CSR where they are not."""
    if len(blocks) == 1:
        return blocks[0]
    coded = [block for block in blocks if isinstance(block, Coded)]
    if len(coded) == len(blocks):
        codes = np.concatenate([block.codes for block in coded])
        parts = [block.fractions for block in coded if block.fractions is not None]
        masks = [
            ops.asarray_like(np.zeros(len(b.codes), bool), b.codes) if b.empty is None else b.empty
            for b in coded
        ]
        empty = np.concatenate(masks)
        return Coded(
            codes,
            coded[0].tables,
            np.concatenate(parts) if parts else None,
            empty if empty.any() else None,
        )
    from scipy.sparse import vstack

    return Sparse(vstack([block.tocsr() for block in blocks], format="csr"))
