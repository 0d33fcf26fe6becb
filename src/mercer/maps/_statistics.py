"""Statistics of the rows that a map is fitted to."""

from __future__ import annotations

from collections.abc import Iterator

from mercer import validation
from mercer.data.batches import Piece, Tiles
from mercer.maps.block import Block
from mercer.stats.basic import Magnitude, Summary
from mercer.stats.combined import Together
from mercer.stats.reduce import fold


def summarize(who: str, blocks: Iterator[Block | Piece] | Tiles, summary: Summary) -> Summary:
    """The summary of all rows; rows whose numbers are too large or too small for statistics are
    refused.
    """
    try:
        magnitude, seen = fold(blocks, Together(Magnitude(who), summary)).parts
    except validation.RowError as error:
        if isinstance(blocks, Tiles) and not error.place:
            raise blocks.stream.located(error) from None
        raise
    magnitude.require()
    return seen
