"""Sums on worker processes against one process: rows per second, and cost per shard."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
from distributed import Client, LocalCluster

from benchmarks.measure import Row, against, alone
from benchmarks.targets import GAMMA, pixels
from mercer import RandomFourier, accumulate, open_stream
from mercer.data.batches import Rows, features
from mercer.stats.moments import Moments

SIZE = 4096
SHARDS = 2


def rows(rounds: int) -> Iterator[Row]:
    """Return all rows; a sum takes seconds, so three rounds are enough."""
    rounds = min(rounds, 3)
    with TemporaryDirectory() as name:
        folder = Path(name)
        yield from folds(folder, rounds)
        yield from overhead(folder, rounds)
        yield from merging(rounds)


@contextmanager
def workers(count: int) -> Iterator[Client]:
    """Open a client of so many processes with one thread each."""
    options: Any = {
        "threads_per_worker": 1,
        "processes": True,
        "dashboard_address": ":0",
        "memory_limit": 0,
    }
    with (
        patch.dict(os.environ),  # where Dask leaves OMP_NUM_THREADS=1 for later benchmarks
        LocalCluster(n_workers=count, **options) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def folds(folder: Path, rounds: int) -> Iterator[Row]:
    """Sum the moments of the features of two shards that are read from a file."""
    one = RandomFourier(SIZE, gamma=GAMMA, random_state=0)
    sample, source = pixels(1000)
    one.fit(sample)
    count = SHARDS * features(open_stream(sample), one).grid.step
    X, source = pixels(count)
    X = np.resize(X, (count, X.shape[1]))
    np.save(folder / "rows.npy", X)
    read = features(open_stream(folder / "rows.npy"), one)
    for processes in (1, 2):
        with workers(processes) as client:
            row = against(
                f"moments of {source} {count}x784 -> {SIZE}, float32, {processes} worker(s)",
                lambda client=client: accumulate(read, Moments(), client=client),
                f"one process, {processes} thread(s)",
                lambda n=processes: accumulate(read, Moments(), n_jobs=n),
                rounds,
            )
        yield row
        speed = count / (row.milliseconds / 1e3) / processes
        yield Row(
            f"that is {speed:,.0f} rows a second for each of {processes} worker(s)",
            row.milliseconds,
        )


def overhead(folder: Path, rounds: int) -> Iterator[Row]:
    """Sum shards of one column each: the time is that of Dask."""
    shards = 16
    step = Rows(open_stream(np.zeros((1, 1), dtype=np.float32))).grid.step
    np.save(
        folder / "column.npy", np.random.default_rng(0).random((shards * step, 1), dtype=np.float32)
    )
    read = open_stream(folder / "column.npy")
    with workers(1) as client:
        there = alone("there", lambda: accumulate(read, Moments(), client=client), rounds)
    here = alone("here", lambda: accumulate(read, Moments(), n_jobs=1), rounds)
    each = (there.milliseconds - here.milliseconds) / shards
    yield Row(
        f"what a task costs beside its sum, {shards} shards of {step} rows and one column", each
    )


def merging(rounds: int) -> Iterator[Row]:
    """Time the client's work for each shard: fetch its moments from a worker, and add them."""
    fetched, merged = [], []
    with workers(1) as client:
        total = client.submit(_moments, 0, pure=False).result()
        for i in range(3 * rounds):
            shard = client.submit(_moments, i + 1, pure=False)
            shard.exception()
            start = time.perf_counter()
            part = client.gather(shard, direct=True)
            fetched.append(time.perf_counter() - start)
            start = time.perf_counter()
            total += part
            merged.append(time.perf_counter() - start)
    size = sum(array.nbytes for array in total.state().arrays.values())
    yield Row(
        f"fetching the moments of a shard, {SIZE} features, {size / 1e6:.0f} MB",
        1e3 * float(np.median(fetched)),
    )
    yield Row("adding them", 1e3 * float(np.median(merged)))


def _moments(seed: int) -> Moments:
    return accumulate(np.random.default_rng(seed).random((64, SIZE), dtype=np.float32), Moments())
