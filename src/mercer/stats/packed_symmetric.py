"""Symmetric: a large symmetric matrix that sums of products are added into, half of it kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer import ops
from mercer.parallel import devices
from mercer.parallel.threads import share, spans
from mercer.parallel.tile_size import DEVICE_PANEL, PANEL, Cost

Array = NDArray[Any]
Tile = tuple[slice, slice, Array]  # rows, columns, and the view of what is kept of them


class Symmetric:
    """S = S' in float64. Of each panel of rows the columns from the diagonal on are kept, one panel
    after the other.

    What is added goes tile by tile over threads. A tile is added to by one thread, so that the
    number of threads changes no bit. Only the upper half of what is added counts: the lower one is
    its mirror.
    """

    def __init__(self, size: int, packed: Array | None = None, *, beside: Any = None) -> None:
        self.size = size
        self.panel = (
            DEVICE_PANEL if ops.is_device(beside) else PANEL
        )  # on a device, beside the array that is given there
        length = _length(size, self.panel)
        self.packed: Any = (
            packed if packed is not None else np.zeros(length, like=beside if self.away else None)
        )
        if self.packed.shape != (length,):
            raise ValueError(
                f"A symmetric matrix of {size} columns keeps {length} numbers, got "
                f"{self.packed.shape}."
            )

    @property
    def away(self) -> bool:
        """Whether it is on a device."""
        return self.panel != PANEL

    def add_gram(self, Z: Any) -> None:
        """S += Z'Z, with products in the dtype of Z."""
        if self.away:
            panels = [(rows, kept.tensor) for rows, kept in self._panels()]
            devices.gpu().matmul.add_gram(ops.beside(Z, self.packed).tensor, panels)
            return
        Z = np.asarray(Z)

        def work(tile: Tile) -> None:
            rows, columns, kept = tile
            kept += Z[:, rows].T @ Z[:, columns]

        self._each(work, Z.shape[0])

    def add_products(self, A: Array, B: Array) -> None:
        """S += A'B, for A'B that is symmetric but for rounding."""
        if self.away:
            A, B = (ops.beside(part, self.packed) for part in (A, B))
            for rows, kept in self._panels():
                kept += A[:, rows].T @ B[:, rows.start :]
            return

        def work(tile: Tile) -> None:
            rows, columns, kept = tile
            kept += A[:, rows].T @ B[:, columns]

        self._each(work, A.shape[0])

    def add_csr(self, other: Any) -> None:
        """S += a symmetric CSR matrix."""
        self._come_home()
        for rows, kept in self._panels():
            kept += other[rows].toarray()[:, rows.start :]

    def add(self, other: Symmetric, sign: int) -> None:
        """S += other, or S -= other."""
        if self.away != other.away:
            self._come_home()
            other = other.home()
        (np.add if sign > 0 else np.subtract)(self.packed, other.packed, out=self.packed)

    def home(self) -> Symmetric:
        """The same on the CPU."""
        if not self.away:
            return self
        found = Symmetric(self.size)
        panels = found._panels()
        for rows, kept in self._panels():
            whole = np.asarray(kept)
            for at in spans(rows.stop - rows.start, PANEL):
                next(panels)[1][:] = whole[at, at.start :]
        return found

    def _come_home(self) -> None:
        self.packed, self.panel = self.home().packed, PANEL

    def toarray(self, minus: tuple[Array, Array] | None = None) -> Array:
        """The whole matrix, less the outer product of two vectors (proportional to each other)
        where they are given.
        """
        if self.away:
            return self._whole(minus)
        full = np.empty((self.size, self.size))
        for rows, kept in self._panels():
            part = full[rows, rows.start :]
            if minus is None:
                part[:] = kept
            else:
                np.multiply.outer(minus[0][rows], minus[1][rows.start :], out=part)
                np.subtract(kept, part, out=part)
            square = part[:, : part.shape[0]]
            below = np.tril_indices(part.shape[0], -1)
            square[below] = square.T[below]
            full[rows.stop :, rows] = part[:, part.shape[0] :].T
        return full

    def _whole(self, minus: tuple[Array, Array] | None) -> Array:
        """toarray, made on the device panel by panel and brought home."""
        full = np.empty((self.size, self.size))
        place = devices.place_of(self.packed)
        assert place is not None
        back = devices.returning(place)
        one, other = (
            (None, None) if minus is None else (ops.beside(part, self.packed) for part in minus)
        )
        for rows, kept in self._panels():
            part = (
                kept
                if one is None or other is None
                else kept - one[rows, None] * other[None, rows.start :]
            )
            width = part.shape[0]
            square = np.triu(part[:, :width])
            back.bring(square + np.triu(square, 1).T, full[rows, rows])
            if rows.stop < self.size:
                back.bring(part[:, width:], full[rows, rows.stop :])
                back.bring(part[:, width:].T, full[rows.stop :, rows])
        back.finish()
        return full

    def _panels(self) -> Iterator[tuple[slice, Any]]:
        """Rows, and what is kept of them: columns from rows.start on."""
        at = 0
        for rows in spans(self.size, self.panel):
            shape = (rows.stop - rows.start, self.size - rows.start)
            yield rows, self.packed[at : at + shape[0] * shape[1]].reshape(shape)
            at += shape[0] * shape[1]

    def _each(self, work: Any, depth: int) -> None:
        tiles = [
            (rows, columns, kept[:, columns.start - rows.start : columns.stop - rows.start])
            for rows, kept in self._panels()
            for columns in spans(self.size, PANEL)
            if columns.start >= rows.start
        ]
        share(work, tiles, Cost(float(len(self.packed)), 0.0), depth)


def _length(size: int, panel: int) -> int:
    return sum((rows.stop - rows.start) * (size - rows.start) for rows in spans(size, panel))
