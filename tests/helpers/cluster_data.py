"""Rows, files and sizes that tests of clusters and of Dask arrays share."""

from __future__ import annotations

import numpy as np
from tests.helpers import reduction_data
from tests.helpers.waiting import wait_until

from mercer import RandomFourier

BLOCK, N = 64, 64 * 16 * 6 + 100  # seven shards, the last one short
TILE = 40  # a block has a tile and a half
SMALL = f"""
from mercer.data.batches import Tiles
from mercer.parallel import tile_size
tile_size._LEAST_BLOCK = tile_size._MOST_BLOCK = {BLOCK}
Tiles.most_rows = {TILE}
"""


def data(n=N, d=4, dtype=np.float32):
    return reduction_data.data(n, d, dtype)


def fourier(X, size=40):
    return RandomFourier(size, gamma=0.5, random_state=0).fit(X[:100])


def scale(cluster, client, workers):
    cluster.scale(workers)
    wait_until(lambda: len(client.nthreads()) == workers, f"{workers} workers")


def parquet(folder, X, y, parts=4):
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    for i, rows in enumerate(np.array_split(np.arange(len(X)), parts)):
        columns = {f"c{j}": X[rows, j] for j in range(X.shape[1])}
        pq.write_table(
            pa.table({**columns, "label": y[rows]}),
            folder / f"part-{i}.parquet",
            row_group_size=300,
        )
    return folder
