"""Looking numbers up among anchors: the nearest one, or the two around it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer import ops
from mercer.maps.block import Coded, code_type
from mercer.maps.stages.base import Array, require
from mercer.maps.stages.elementwise import Lift


@dataclass(frozen=True, eq=False)
class Nearest(Lift):
    """x -> T[c], c being how many edges are below x (with inclusive: at or below it)."""

    edges: Array  # (1 or d, codes - 1), rising along each row
    tables: Array  # (1 or d, codes, values)
    inclusive: bool = False

    def check(self, d: int) -> None:
        _require_places(self, self.edges, self.tables, d, 1)

    @property
    def values(self) -> int:
        return self.tables.shape[2]

    def coded(self, X: Array) -> Coded:
        codes = ops.empty(X.shape, code_type(self.tables.shape[1]), X)
        return Coded(ops.levels(X, self.edges, self.inclusive, codes), self.tables)

    def lift(self, X: Array, out: Array, bad: Array) -> None:
        self.coded(X).toarray(out)

    def scratch(self, d: int) -> int:
        return d


@dataclass(frozen=True, eq=False)
class Between(Lift):
    """x -> (1 - f) T[c] + f T[c + 1], c being the anchor at or below x and f how far x is on the
    way to the next.
    """

    anchors: (
        Array  # (1 or d, codes), rising along each row, inf at its end where a column has fewer
    )
    tables: Array  # (1 or d, codes, values)

    def check(self, d: int) -> None:
        _require_places(self, self.anchors, self.tables, d, 0)
        require(self.anchors.shape[1] > 1, self, "at least two anchors")

    @property
    def values(self) -> int:
        return self.tables.shape[2]

    def coded(self, X: Array) -> Coded:
        codes, fractions = (
            ops.empty(X.shape, kind, X) for kind in (code_type(self.tables.shape[1]), X.dtype)
        )
        ops.brackets(X, self.anchors, codes, fractions)
        return Coded(codes, self.tables, fractions)

    def lift(self, X: Array, out: Array, bad: Array) -> None:
        self.coded(X).toarray(out)

    def scratch(self, d: int) -> int:
        return 2 * d


def _require_places(who: object, places: Array, tables: Array, d: int, more: int) -> None:
    """Refuse places that do not rise, or tables that have not `more` entries than there are places;
    inf stands for no place.
    """
    good = places.ndim == 2 and len(places) in (1, d) and tables.ndim == 3 and tables.size > 0
    good = good and tables.shape[:2] == (len(places), places.shape[1] + more)
    good = good and places.dtype == tables.dtype == np.float64 and bool(np.isfinite(tables).all())
    require(good, who, f"one row of places and a table, or {d} of them, and finite tables")
    good = (
        not np.isnan(places).any()
        and bool(np.all(places[:, :-1] <= places[:, 1:]))
        and bool(np.all(places > -np.inf))
    )
    require(good, who, "places that rise")
