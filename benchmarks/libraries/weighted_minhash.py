"""datasketch's WeightedMinHash: consistent weighted samples, (column, t) of each hash, one row at a
time or many.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from datasketch import WeightedMinHashGenerator

from mercer.maps.base import Map

name = "datasketch WeightedMinHash"
ROW_BY_ROW = "minhash, row by row"


def rival(feature_map: Map) -> Any:
    """It makes no features, so it has no place among maps; benchmarks/coded.py races its hashes."""


def hashes(d: int, n_hashes: int) -> WeightedMinHashGenerator:
    """The generator: its parameters are drawn here, which no time counts."""
    return WeightedMinHashGenerator(d, n_hashes, seed=0)


def one_by_one(generator: WeightedMinHashGenerator, X: Any) -> list[Any]:
    return [generator.minhash(x) for x in X]


def together(generator: WeightedMinHashGenerator, X: Any) -> Any:
    return generator.minhash_many(X)


ways = {ROW_BY_ROW: one_by_one, "minhash_many": together}


def works(generator: WeightedMinHashGenerator, X: Any) -> dict[str, Any]:
    """Every way to hash the rows of X."""
    return {way: partial(work, generator, X) for way, work in ways.items()}
