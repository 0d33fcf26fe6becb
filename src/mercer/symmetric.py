"""Symmetric: a large symmetric matrix that sums of products are added into, half of it kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.planner import PANEL, Cost
from mercer.tiles import share, spans

Array = NDArray[Any]
Tile = tuple[slice, slice, Array]  # rows, columns, and the view of what is kept of them


class Symmetric:
    """S = S' in float64. Of each panel of rows the columns from the diagonal on are kept, one panel after the other.

    What is added goes tile by tile over threads. A tile is added to by one thread, so that the number of threads changes no bit. Only the
    upper half of what is added counts: the lower one is its mirror.
    """

    def __init__(self, size: int, packed: Array | None = None) -> None:
        self.size = size
        self.packed: Array = np.zeros(_length(size)) if packed is None else packed
        if self.packed.shape != (_length(size),):
            raise ValueError(
                f"A symmetric matrix of {size} columns keeps {_length(size)} numbers, got {self.packed.shape}."
            )

    def add_gram(self, Z: Array) -> None:
        """S += Z'Z, with products in the dtype of Z."""

        def work(tile: Tile) -> None:
            rows, columns, kept = tile
            kept += Z[:, rows].T @ Z[:, columns]

        self._each(work, Z.shape[0])

    def add_products(self, A: Array, B: Array) -> None:
        """S += A'B, for A'B that is symmetric but for rounding."""

        def work(tile: Tile) -> None:
            rows, columns, kept = tile
            kept += A[:, rows].T @ B[:, columns]

        self._each(work, A.shape[0])

    def add_csr(self, other: Any) -> None:
        """S += a symmetric CSR matrix."""
        for rows, kept in self._panels():
            kept += other[rows].toarray()[:, rows.start :]

    def add(self, other: Symmetric, sign: int) -> None:
        """S += other, or S -= other."""
        (np.add if sign > 0 else np.subtract)(self.packed, other.packed, out=self.packed)

    def copy(self) -> Symmetric:
        return Symmetric(self.size, self.packed.copy())

    def toarray(self, minus: tuple[Array, Array] | None = None) -> Array:
        """The whole matrix, less the outer product of two vectors (proportional to each other) where they are given."""
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

    def _panels(self) -> Iterator[tuple[slice, Array]]:
        """Rows, and what is kept of them: columns from rows.start on."""
        at = 0
        for rows in spans(self.size, PANEL):
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


def _length(size: int) -> int:
    return sum((rows.stop - rows.start) * (size - rows.start) for rows in spans(size, PANEL))
