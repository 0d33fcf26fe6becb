"""Growth of cost: log-log slopes of seconds against rows, input and output columns."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.measure import Row, interleaved
from mercer import RandomFourier

AXES = {
    "rows n": [(n, 512, 2048) for n in (1000, 2000, 4000, 8000)],
    "input columns d": [(2000, d, 2048) for d in (128, 256, 512, 1024, 2048)],
    "output columns D": [(2000, 512, D) for D in (1024, 2048, 4096, 8192)],
}


def rows(rounds: int) -> Iterator[Row]:
    """Return one row for each design and axis, with the fitted slope in its name.

    Milliseconds are those of the largest size.
    """
    for design in ("iid", "hadamard"):
        for axis, sizes in AXES.items():
            works = {str(size): work(design, *size) for size in sizes}
            seconds = interleaved(works, rounds)
            medians = [float(np.median(seconds[str(size)])) for size in sizes]
            varying = [size[list(AXES).index(axis)] for size in sizes]
            slope = np.polyfit(np.log(varying), np.log(medians), 1)[0]
            yield Row(
                f"{design}: seconds ~ {axis} ^ {slope:.2f}, from {varying[0]} to {varying[-1]}",
                1e3 * medians[-1],
                1,
            )


def work(design: str, n: int, d: int, size: int) -> partial:
    X = np.random.default_rng(0).normal(size=(n, d)).astype(np.float32)
    ours = RandomFourier(size, gamma=1 / d, design=design, random_state=0, n_jobs=1).fit(X)
    return partial(ours.transform, X, out=np.empty((n, size), np.float32))
