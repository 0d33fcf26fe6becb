"""Packed storage of a large symmetric matrix that sums of products are added to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.linalg.blas import dsyrk, ssyrk

from mercer import ops
from mercer._repr import short_repr
from mercer._typing import Array
from mercer.parallel.device import torch_ops
from mercer.parallel.threads import for_each, row_slices
from mercer.parallel.tile_size import DEVICE_PANEL, PANEL, Cost

Tile = tuple[slice, slice, Array]  # rows, columns, and the view of the packed entries


class PackedSymmetric:
    """S = S' in float64, of which the upper triangle is stored in panels of rows.

    A panel stores its rows from the diagonal on. Sums are added tile by tile over threads; one
    thread adds to each tile, so that the number of threads does not change a bit. Only the upper
    triangle of what is added is read.

    Parameters
    ----------
    size : int
        Rows and columns of S.
    packed : array, optional
        The stored entries; zeros by default.
    like : array, optional
        Allocate on the device of this array; in host memory by default.
    """

    __repr__ = short_repr

    def __init__(self, size: int, packed: Array | None = None, *, like: Any = None) -> None:
        self.size = size
        on_device = ops.is_device(like)
        self.panel = DEVICE_PANEL if on_device else PANEL
        panels = row_slices(size, self.panel)
        length = sum((rows.stop - rows.start) * (size - rows.start) for rows in panels)
        if packed is None:
            packed = np.zeros(length, like=like if on_device else None)
        self.packed: Any = packed
        if self.packed.shape != (length,):
            raise ValueError(
                f"A symmetric matrix of {size} columns stores {length} entries, got "
                f"{self.packed.shape}."
            )

    def add_products(self, A: Any, B: Any = None) -> None:
        """Add A'B, which is symmetric up to rounding; without B add A'A, in the dtype of A."""
        if ops.is_device(self.packed):
            self._add_on_device(A, B)
            return
        A = np.asarray(A)
        right = A if B is None else B
        syrk = ssyrk if A.dtype == np.float32 else dsyrk

        def work(tile: Tile) -> None:
            rows, columns, stored = tile
            if B is None and rows == columns:  # matmul would also copy one triangle to the other
                stored += syrk(1.0, A[:, rows].T, lower=1).T
            else:
                stored += A[:, rows].T @ right[:, columns]

        tiles = [
            (rows, columns, stored[:, columns.start - rows.start : columns.stop - rows.start])
            for rows, stored in self._panels()
            for columns in row_slices(self.size, PANEL)
            if columns.start >= rows.start
        ]
        for_each(work, tiles, Cost(float(len(self.packed)), 0.0), A.shape[0])

    def _add_on_device(self, A: Any, B: Any) -> None:
        A = ops.asarray_like(A, self.packed)
        if B is None:
            panels = [(rows, stored.tensor) for rows, stored in self._panels()]
            torch_ops().matmul.add_gram(A.tensor, panels)
            return
        B = ops.asarray_like(B, self.packed)
        for rows, stored in self._panels():
            stored += A[:, rows].T @ B[:, rows.start :]

    def add_csr(self, other: Any) -> None:
        """Add a symmetric CSR matrix."""
        self._move_to_host()
        for rows, stored in self._panels():
            stored += other[rows].toarray()[:, rows.start :]

    def add(self, other: PackedSymmetric, sign: int) -> None:
        """Add another packed matrix (sign +1), or subtract it (sign -1)."""
        if ops.is_device(self.packed) != ops.is_device(other.packed):
            self._move_to_host()
            other = other.to_host()
        (np.add if sign > 0 else np.subtract)(self.packed, other.packed, out=self.packed)

    def to_host(self) -> PackedSymmetric:
        """Return a copy in host memory, or this matrix where it is there already."""
        if not ops.is_device(self.packed):
            return self
        result = PackedSymmetric(self.size)
        panels = result._panels()
        for rows, stored in self._panels():
            whole = np.asarray(stored)
            for at in row_slices(rows.stop - rows.start, PANEL):
                next(panels)[1][:] = whole[at, at.start :]
        return result

    def _move_to_host(self) -> None:
        self.packed, self.panel = self.to_host().packed, PANEL

    def toarray(self, minus: tuple[Array, Array] | None = None) -> Any:
        """Return S, or S - u v' for ``minus=(u, v)``, where v is proportional to u.

        The array is in the memory, of host or device, that the entries are in.
        """
        full = np.empty((self.size, self.size), like=self.packed)
        u, v = (None, None) if minus is None else (ops.asarray_like(x, self.packed) for x in minus)
        for rows, stored in self._panels():
            part = full[rows, rows.start :]
            if u is None or v is None:
                part[...] = stored
            else:
                np.multiply(u[rows, None], v[None, rows.start :], out=part)
                np.subtract(stored, part, out=part)
            width = part.shape[0]
            square = np.triu(part[:, :width])
            part[:, :width] = square + np.triu(square, 1).T
            full[rows.stop :, rows] = part[:, width:].T
        return full

    def _panels(self) -> Iterator[tuple[slice, Any]]:
        """Yield the rows of each panel, and the view of its entries from column rows.start on."""
        at = 0
        for rows in row_slices(self.size, self.panel):
            shape = (rows.stop - rows.start, self.size - rows.start)
            yield rows, self.packed[at : at + shape[0] * shape[1]].reshape(shape)
            at += shape[0] * shape[1]
