"""What a map returns and a learner sees: a matrix of rows that can be multiplied, and never says
what the data was.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import getattr_static
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mercer import ops

Array = NDArray[Any]

_HUGE_PAGE = 2 * 2**20
_HUGE_FROM = 4 * 2**20


class Block(Protocol):
    """block @ w, block.T @ r, block.gram() = Z'Z, and the block as an array or a CSR matrix.

    ``is_block`` tells whether a value is one. An isinstance of this protocol would evaluate its
    properties before Python 3.12, and so transpose every CSR block.
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


_OF_A_BLOCK = tuple(
    name for name in vars(Block) if not name.startswith("_") or name == "__matmul__"
)


@dataclass(frozen=True, eq=False)
class Dense:
    """A block that is a 2-d array."""

    Z: Array

    @property
    def shape(self) -> tuple[int, int]:
        return self.Z.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.Z.dtype

    @property
    def nbytes(self) -> int:
        return self.Z.nbytes

    @property
    def T(self) -> Array:
        return self.Z.T

    def __matmul__(self, w: Array) -> Array:
        return self.Z @ w

    def gram(self) -> Array:
        """Z'Z."""
        return self.Z.T @ self.Z

    def toarray(self) -> Array:
        return self.Z

    def tocsr(self) -> Any:
        from scipy.sparse import csr_array

        return csr_array(np.asarray(self.Z))


@dataclass(frozen=True, eq=False)
class Sparse:
    """A block that is a CSR matrix."""

    Z: Any

    @property
    def shape(self) -> tuple[int, int]:
        return self.Z.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.Z.dtype

    @property
    def nbytes(self) -> int:
        return self.Z.data.nbytes + self.Z.indices.nbytes + self.Z.indptr.nbytes

    @cached_property
    def T(self) -> Any:
        return self.Z.T.tocsr()

    def __matmul__(self, w: Array) -> Array:
        return self.Z @ w

    def gram(self) -> Array:
        """Z'Z as a dense array."""
        return (self.T @ self.Z).toarray()

    def toarray(self) -> Array:
        return self.Z.toarray()

    def tocsr(self) -> Any:
        return self.Z


@dataclass(frozen=True)
class OneHot:
    """The tables of a one-hot block: code a of a place is `scale` in column a of the `width`
    columns that the place has.
    """

    width: int
    scale: float
    dtype: Any = np.float64


@dataclass(frozen=True, eq=False)
class Coded:
    """A block that is small integers: row i is (T_1[codes[i, 1]], T_2[codes[i, 2]], ...), a piece
    of features for each place.

    With fractions f a piece is (1 - f) T[code] + f T[code + 1]. Products are gathers and sums over
    codes; the features exist only where they are asked for. nbytes counts what the rows cost: the
    tables are those of the map.

    Parameters
    ----------
    codes : array of shape (n, places), uint8, uint16 or int32
    tables : OneHot, or array of shape (places, codes, values) or (1, codes, values)
        The values of each code; one table for all places where there is only one.
    fractions : array of shape (n, places), optional
    empty : boolean array of shape (n,), optional
        Rows without codes: their features are 0.
    """

    codes: Array
    tables: OneHot | Array
    fractions: Array | None = None
    empty: Array | None = None

    @property
    def values(self) -> int:
        """Columns of one place."""
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
        w = ops.beside(w, self.codes)
        kind = np.result_type(self.dtype, w.dtype)
        panels = w.astype(kind, copy=False).reshape(self.codes.shape[1], self.values, -1)
        if not isinstance(self.tables, OneHot):
            panels = np.matmul(self.tables.astype(kind, copy=False), panels)
        out = ops.empty((len(self.codes), panels.shape[2]), kind, self.codes)
        ops.coded_product(self.codes, panels, self._fractions(kind), out)
        if isinstance(self.tables, OneHot):
            out *= kind.type(self.tables.scale)
        if self.empty is not None:
            out[self.empty] = 0
        return out if w.ndim == 2 else out[:, 0]

    def gram(self) -> Array:
        """Z'Z as a dense array."""
        if isinstance(self.tables, OneHot) and not ops.is_device(self.codes):
            Z = self.tocsr()
            return (Z.T @ Z).toarray()
        Z = self.toarray()
        return Z.T @ Z

    def toarray(self, out: Array | None = None) -> Array:
        """The features; written into out where it is given."""
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
        """The features as a canonical CSR matrix without explicit zeros; one entry for each code
        where the tables are one-hot.
        """
        from scipy.sparse import csr_array

        if ops.is_device(self.codes):
            return at_home(self).tocsr()
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
        """Z'R."""
        R = ops.beside(R, self.codes)
        kind = np.result_type(self.dtype, R.dtype)
        rows = R.astype(kind, copy=False).reshape(len(self.codes), -1)
        if self.empty is not None:
            rows = np.where(self.empty[:, None], kind.type(0), rows)
        known = self.tables.width if isinstance(self.tables, OneHot) else self.tables.shape[1]
        totals = ops.empty((self.codes.shape[1], known, rows.shape[1]), kind, self.codes)
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
    """Z' of a coded block, for Z' @ R."""

    block: Coded

    @property
    def shape(self) -> tuple[int, int]:
        return self.block.shape[::-1]

    def __matmul__(self, R: Array) -> Array:
        return self.block.sums(R)


def is_block(value: object) -> bool:
    """Whether a value has what a Block has; no property of it is evaluated."""
    if isinstance(value, Dense | Sparse | Coded):
        return True
    return all(getattr_static(value, name, None) is not None for name in _OF_A_BLOCK)


def code_type(count: int) -> Any:
    """The smallest type of code that counts so many."""
    return np.uint8 if count <= 2**8 else np.uint16 if count <= 2**16 else np.int32


def as_block(rows: Any) -> Block:
    """A 2-d array or a CSR matrix as a block."""
    return Sparse(rows) if hasattr(rows, "indptr") else Dense(rows)


def fresh(shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
    """An empty array for features. A large one begins at a huge page.

    Clearing fresh pages is most of what a lift costs. From 4 MiB on NumPy asks for huge pages, and
    those that fit into the array are used: up to 2 MiB at its ends would still come in pages of 4
    KiB, at 0.7 ms in all. Memory that is never touched costs nothing.
    """
    size = math.prod(shape) * dtype.itemsize
    if size < _HUGE_FROM:
        return np.empty(shape, dtype)
    memory = np.empty(size + _HUGE_PAGE, np.uint8)
    start = -memory.ctypes.data % _HUGE_PAGE
    return memory[start : start + size].view(dtype).reshape(shape)


def matrix(block: Block) -> Any:
    """The array or the CSR matrix that a block is nearest to, without a copy where it is one."""
    codes = (
        isinstance(block, Coded)
        and isinstance(block.tables, OneHot)
        and not ops.is_device(block.codes)
    )
    return block.tocsr() if codes or isinstance(block, Sparse) else block.toarray()


def at_home(block: Block) -> Block:
    """The same block as arrays of NumPy, wherever it is."""
    if isinstance(block, Dense):
        return Dense(np.asarray(block.Z))
    if not isinstance(block, Coded):
        return block
    tables = block.tables if isinstance(block.tables, OneHot) else np.asarray(block.tables)
    rest = (
        None if array is None else np.asarray(array) for array in (block.fractions, block.empty)
    )
    return Coded(np.asarray(block.codes), tables, *rest)


def stacked(blocks: Sequence[Block]) -> Block:
    """Blocks of one map, one below the other: coded blocks stay codes, others become CSR."""
    if len(blocks) == 1:
        return blocks[0]
    coded = [block for block in blocks if isinstance(block, Coded)]
    if len(coded) == len(blocks):
        codes = np.concatenate([block.codes for block in coded])
        parts = [block.fractions for block in coded if block.fractions is not None]
        masks = [
            ops.beside(np.zeros(len(b.codes), bool), b.codes) if b.empty is None else b.empty
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
