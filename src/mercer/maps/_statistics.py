"""Statistics of the rows that a map is fitted to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mercer.data.batches import Piece, Tiles
from mercer.errors import RowError
from mercer.maps.block import Block
from mercer.stats.basic import Magnitude, Statistic
from mercer.stats.combined import CombinedStatistics
from mercer.stats.reduce import fold


def compute_statistics(
    who: str, blocks: Iterator[Block | Piece] | Tiles, summary: Statistic
) -> Statistic:
    """The summary of all rows; rows whose numbers are too large or too small for statistics are
    refused.
    """
    try:
        magnitude, statistics = fold(blocks, CombinedStatistics(Magnitude(who), summary)).parts
    except RowError as error:
        if isinstance(blocks, Tiles) and not error.place:
            raise blocks.stream.located(error) from None
        raise
    magnitude.require()
    return statistics


def count_statistics_passes(fitted: Any) -> int:
    """Count the passes over the rows before a map is drawn; parts of a composition add up."""
    parts = getattr(fitted, "maps_", None)
    if parts is not None:
        return sum(count_statistics_passes(part) for part in parts)
    return int(fitted.required_statistics(fitted.n_features_in_) is not None)
