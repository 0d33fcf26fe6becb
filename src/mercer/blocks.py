"""What a map returns and a learner sees: a matrix of rows that can be multiplied, and never says what the data was."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_HUGE_PAGE = 2 * 2**20
_HUGE_FROM = 4 * 2**20


@runtime_checkable
class Block(Protocol):
    """block @ w, block.T @ r, block.gram() = Z'Z, and the block as an array or a CSR matrix."""

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

        return csr_array(self.Z)


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


def as_block(rows: Any) -> Block:
    """A 2-d array or a CSR matrix as a block."""
    return Sparse(rows) if hasattr(rows, "indptr") else Dense(rows)


def fresh(shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
    """An empty array for features. A large one begins at a huge page.

    Clearing fresh pages is most of what a lift costs. From 4 MiB on NumPy asks for huge pages, and those that fit into the array are used:
    up to 2 MiB at its ends would still come in pages of 4 KiB, at 0.7 ms in all. Memory that is never touched costs nothing.
    """
    size = math.prod(shape) * dtype.itemsize
    if size < _HUGE_FROM:
        return np.empty(shape, dtype)
    memory = np.empty(size + _HUGE_PAGE, np.uint8)
    start = -memory.ctypes.data % _HUGE_PAGE
    return memory[start : start + size].view(dtype).reshape(shape)


def matrix(block: Block) -> Any:
    """The array or CSR matrix that a block stands for, without a copy where it is one."""
    return block.toarray() if isinstance(block, Dense) else block.tocsr()
