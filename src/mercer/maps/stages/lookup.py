"""Lookup among anchors: the table entry of the nearest anchor, or an interpolation of two."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer import ops
from mercer._typing import Array
from mercer.maps.block import Coded, code_type
from mercer.maps.stages.base import require
from mercer.maps.stages.elementwise import Lift
from mercer.parallel.tile_size import Cost


@dataclass(frozen=True, eq=False)
class NearestAnchor(Lift):
    """x -> T[c], where c is the number of edges below x (inclusive: at or below x)."""

    edges: Array  # (1 or d, codes - 1), rising along each row
    tables: Array  # (1 or d, codes, values)
    inclusive: bool = False

    def check(self, d: int) -> None:
        _require_tables(self, self.edges, self.tables, d, 1)

    @property
    def values(self) -> int:
        return self.tables.shape[2]

    def coded(self, X: Array) -> Coded:
        """Return the coded block of a dense tile."""
        codes = ops.empty(X.shape, code_type(self.tables.shape[1]), X)
        largest = None if ops.is_device(X) else np.zeros(1, X.dtype)
        ops.levels(X, self.edges, self.inclusive, codes, largest)
        return Coded(codes, self.tables, largest=None if largest is None else float(largest[0]))

    def lift(self, X: Array, out: Array, bad: Array) -> None:
        self.coded(X).toarray(out)

    def cost(self, d: int) -> Cost:
        return super().cost(d) + Cost(0.0, 8.0 * d)  # the codes


@dataclass(frozen=True, eq=False)
class AnchorInterpolation(Lift):
    """x -> (1 - f) T[c] + f T[c + 1] for x = (1 - f) a_c + f a_{c+1} between two anchors."""

    # (1 or d, codes), rising along each row, inf at its end where a column has fewer
    anchors: Array
    tables: Array  # (1 or d, codes, values)

    def check(self, d: int) -> None:
        _require_tables(self, self.anchors, self.tables, d, 0)
        require(self.anchors.shape[1] > 1, self, "at least two anchors")

    @property
    def values(self) -> int:
        return self.tables.shape[2]

    def coded(self, X: Array) -> Coded:
        """Return the coded block of a dense tile."""
        codes = ops.empty(X.shape, code_type(self.tables.shape[1]), X)
        fractions = ops.empty(X.shape, X.dtype, X)
        largest = None if ops.is_device(X) else np.zeros(1, X.dtype)
        ops.brackets(X, self.anchors, codes, fractions, largest)
        found = None if largest is None else float(largest[0])
        return Coded(codes, self.tables, fractions, largest=found)

    def lift(self, X: Array, out: Array, bad: Array) -> None:
        self.coded(X).toarray(out)

    def cost(self, d: int) -> Cost:
        return super().cost(d) + Cost(0.0, 16.0 * d)  # the codes and fractions


def _require_tables(record: object, points: Array, tables: Array, d: int, more: int) -> None:
    """Raise a ValueError unless points rise, and tables have `more` entries than points.

    inf stands for no point.
    """
    valid = points.ndim == 2 and len(points) in (1, d) and tables.ndim == 3 and tables.size > 0
    valid = valid and tables.shape[:2] == (len(points), points.shape[1] + more)
    valid = valid and points.dtype == tables.dtype == np.float64
    valid = valid and bool(np.isfinite(tables).all())
    require(valid, record, f"one row of points and a table, or {d} of them, and finite tables")
    rising = bool(np.all(points[:, :-1] <= points[:, 1:])) and bool(np.all(points > -np.inf))
    require(rising and not np.isnan(points).any(), record, "points that rise")
