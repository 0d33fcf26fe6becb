"""Rows, files and statistics for tests of accumulate."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mercer import RandomFourier
from mercer.stats.base import CombinedStatistics
from mercer.stats.class_sums import ClassSums
from mercer.stats.moments import Moments

BLOCK, N = 64, 64 * 16 * 3 + 100  # four shards, the last one short


def data(n=N, d=4, dtype=np.float32):
    rng = np.random.default_rng(0)
    return rng.random((n, d)).astype(dtype), rng.choice(["no", "yes", "maybe"], n), rng.random(n)


def both():
    return CombinedStatistics(Moments(target=False), ClassSums())


def bits(summary) -> dict[str, bytes]:
    state = summary.state()
    return {name: array.tobytes() for name, array in state.arrays.items()} | {
        "facts": repr(state.values)
    }


def fourier(X, size=1100):
    return RandomFourier(size, gamma=0.5, random_state=0).fit(X[:100])


def parquet(folder, X, y, group=100, parts=4):
    folder.mkdir()
    for i, (start, stop) in enumerate(pairwise(np.linspace(0, len(X), parts + 1).astype(int))):
        columns = {f"c{j}": X[start:stop, j] for j in range(X.shape[1])}
        pq.write_table(
            pa.table({**columns, "label": y[start:stop]}),
            folder / f"part-{i:04}.parquet",
            row_group_size=group,
        )
    return folder
