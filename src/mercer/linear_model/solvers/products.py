"""Z W and Z'R of a block over threads: rows of the one, columns of the other, in spans that do not
depend on the threads.
"""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np

from mercer.linear_model.normal_equations import Array
from mercer.maps.block import Block, Coded, Dense, OneHot
from mercer.parallel.threads import share, spans
from mercer.parallel.tile_size import PANEL, TILE_ROWS, Cost

_CODED_ROWS = 4096  # products of tables and weights are made for each span anew
_PLACES = 64  # whose sums for some tens of outputs stay near
_PARTIAL = 4  # sums of groups of places, whatever the threads


def product(block: Block, W: Array) -> Array:
    """Z W, (n, t), in the wider of both dtypes."""
    n, t = block.shape[0], W.shape[1]
    if not isinstance(block, Dense | Coded):
        return block @ W
    out = np.empty((n, t), np.result_type(block.dtype, W.dtype))
    wide = isinstance(block, Coded)

    def work(rows: slice) -> None:
        part = _rows_of(block, rows) if isinstance(block, Coded) else Dense(block.Z[rows])
        out[rows] = part @ W

    each = float(t * (block.codes.shape[1] if isinstance(block, Coded) else block.shape[1]))
    share(work, list(spans(n, _CODED_ROWS if wide else TILE_ROWS)), Cost(each, 0.0), n)
    return out


def back(block: Block, R: Array) -> Array:
    """Z'R, (D, t), in the wider of both dtypes."""
    n, t = R.shape
    if not isinstance(block, Dense | Coded):
        return block.T @ R
    out = np.empty((block.shape[1], t), np.result_type(block.dtype, R.dtype))

    def work(columns: slice) -> None:
        if isinstance(block, Coded):
            here = slice(columns.start * block.values, columns.stop * block.values)
            out[here] = _places_of(block, columns).T @ R
        else:
            out[columns] = block.Z[:, columns].T @ R

    if isinstance(block, Coded):
        places = block.codes.shape[1]
        share(work, list(spans(places, _PLACES)), Cost(float(t * places), 0.0), n)
    else:
        share(work, list(spans(block.shape[1], PANEL)), Cost(float(t * block.shape[1]), 0.0), n)
    return out


def round_trip(block: Coded, Q: Array) -> Array:
    """Z Z'Q, (n, t), a few places at a time: Z'Q never exists as a whole. Groups of places are
    added in an order of their own.
    """
    (n, places), t = block.codes.shape, Q.shape[1]
    groups = list(spans(places, _PLACES))
    count = min(_PARTIAL, len(groups))
    sums = [np.zeros((n, t), np.result_type(block.dtype, Q.dtype)) for _ in range(count)]

    def work(which: int) -> None:
        for places in groups[which::count]:
            part = _places_of(block, places)
            sums[which] += part @ (part.T @ Q)

    share(work, list(range(count)), Cost(2.0 * t * places, 0.0), n)
    return functools.reduce(np.add, sums)


def _rows_of(block: Coded, rows: slice) -> Coded:
    return replace(
        block,
        codes=block.codes[rows],
        fractions=None if block.fractions is None else block.fractions[rows],
        empty=None if block.empty is None else block.empty[rows],
    )


def _places_of(block: Coded, places: slice) -> Coded:
    tables = block.tables
    return replace(
        block,
        codes=block.codes[:, places],
        tables=tables if isinstance(tables, OneHot) or len(tables) == 1 else tables[places],
        fractions=None if block.fractions is None else block.fractions[:, places],
    )
