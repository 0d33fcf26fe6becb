"""Timing: interleaved, in random order, medians and quartiles; only ratios are meaningful."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

Work = Callable[[], Any]


@dataclass(frozen=True)
class Row:
    """A line of a table.

    times: how many times faster than the rival, median and quartiles over rounds. Errors are
    relative.
    """

    what: str
    milliseconds: float
    threads: int | None = None
    rival: str | None = None
    rival_milliseconds: float | None = None
    times: tuple[float, float, float] | None = None  # lower quartile, median, upper quartile
    target: float | None = None
    error: float | None = None
    rival_error: float | None = None
    bytes_per_row: float | None = None


def interleaved(
    works: dict[str, Work],
    rounds: int,
    least_seconds: float = 0.0,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, np.ndarray]:
    """Return the seconds of each function in each round, by a clock.

    In a round every function runs once, in random order, after one run that does not count.

    A work that takes less than least_seconds is repeated within a round until it takes that long,
    and its mean is kept.
    """
    order = random.Random(0)
    repeats = {}
    for name, work in works.items():
        work()
        start = clock()
        work()
        repeats[name] = max(1, round(least_seconds / (clock() - start)))
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name in order.sample(sorted(works), len(works)):
            start = clock()
            for _ in range(repeats[name]):
                works[name]()
            seconds[name].append((clock() - start) / repeats[name])
    return {name: np.array(values) for name, values in seconds.items()}


def alone(what: str, ours: Work, rounds: int, **more: Any) -> Row:
    """Return a row without a rival."""
    return Row(what, _milliseconds(interleaved({"ours": ours}, rounds)["ours"]), **more)


def against(
    what: str,
    ours: Work,
    rival: str,
    theirs: Work,
    rounds: int,
    *,
    threads: int | None = None,
    least_seconds: float = 0.0,
    clock: Callable[[], float] = time.perf_counter,
    **more: Any,
) -> Row:
    """Return a row with a rival; both use at most ``threads`` BLAS threads (None: any number)."""
    limit: AbstractContextManager[Any] = (
        nullcontext() if threads is None else threadpool_limits(threads)
    )
    with limit:
        seconds = interleaved({"ours": ours, "theirs": theirs}, rounds, least_seconds, clock)
    low, median, high = (
        float(q) for q in np.percentile(seconds["theirs"] / seconds["ours"], [25, 50, 75])
    )
    return Row(
        what,
        _milliseconds(seconds["ours"]),
        threads,
        rival,
        _milliseconds(seconds["theirs"]),
        (low, median, high),
        **more,
    )


def _milliseconds(seconds: np.ndarray) -> float:
    return float(1e3 * np.median(seconds))
