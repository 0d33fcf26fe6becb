"""fold(source, summary): the only loop over data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import numpy as np

from mercer import door
from mercer.blocks import Block, as_block
from mercer.planner import Cost, tile_rows
from mercer.summaries import Summary
from mercer.tiles import spans

S = TypeVar("S", bound=Summary)


def fold(source: Any, summary: S) -> S:
    """The summary of all rows of source: an array, a sparse matrix, a data frame, or an iterable of blocks.

    The summary given is filled and returned.
    """
    start = 0
    for block in blocks_of(door.rows("fold", source)) if hasattr(source, "shape") else _blocks(source):
        summary.add(block, start=start)
        start += block.shape[0]
    return summary


def blocks_of(rows: Any) -> Iterator[Block]:
    """An array or a CSR matrix as consecutive blocks."""
    n, d = rows.shape
    for span in spans(n, tile_rows(Cost(d, d * rows.dtype.itemsize))):
        block = rows[span]
        yield as_block(
            block if hasattr(block, "indptr") else np.ascontiguousarray(block)
        )  # the same bits for every memory order


def _blocks(source: Iterable[Block]) -> Iterator[Block]:
    for block in source:
        if not isinstance(block, Block):
            raise TypeError(
                f"fold needs an array, a CSR matrix or blocks (map.blocks(X)), got a {type(block).__name__}."
            )
        yield block
