"""Moments against the float32 product Z'Z of the same blocks.

The difference is the cost of centering, float64 sums and a target.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.measure import Row, against
from mercer.maps.block import Dense
from mercer.parallel.threads import limit_threads, one_blas_thread
from mercer.parallel.tile_size import grid
from mercer.stats.moments import Moments

ROWS, SIZE = 60_000, 4096


def rows(rounds: int) -> Iterator[Row]:
    """Time 60,000 rows of 4096 features with one target, in blocks; the rival sums nothing."""
    per_block = grid(SIZE, 4).rows
    Z = np.random.default_rng(0).random((per_block, SIZE), dtype=np.float32)
    y = np.random.default_rng(1).random(per_block)
    blocks = -(-ROWS // per_block)

    def ours(threads: int) -> float:
        seen = Moments()
        with limit_threads(threads), one_blas_thread():
            for _ in range(blocks):
                seen.add(Dense(Z), y=y)
            return float(seen.state().arrays["products"][0])

    def theirs() -> None:
        for _ in range(blocks):
            np.dot(Z.T, Z)

    for threads in (1, 2):
        what = f"Moments of {ROWS} x {SIZE} float32, one target"
        yield against(
            what,
            lambda n=threads: ours(n),
            "numpy.dot(Z.T, Z)",
            theirs,
            rounds,
            threads=threads,
            target=0.8,
        )
