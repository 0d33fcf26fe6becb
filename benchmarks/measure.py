"""How things are measured: interleaved, in random order, medians and quartiles. Only ratios are worth quoting."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Ratio:
    """How many times faster than the rival: median and quartiles over rounds."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f}-{self.high:.2f})"


def interleaved(
    works: dict[str, Callable[[], Any]], rounds: int = 9, least_seconds: float = 0.0
) -> dict[str, np.ndarray]:
    """Seconds of each work in each round. In a round every work runs once, in random order, after one round that does not count.

    A work that takes less than least_seconds is repeated within a round until it takes that long, and its mean is kept.
    """
    order = random.Random(0)
    repeats = {}
    for name, work in works.items():
        start = time.perf_counter()
        work()
        repeats[name] = max(1, round(least_seconds / (time.perf_counter() - start)))
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name in order.sample(sorted(works), len(works)):
            start = time.perf_counter()
            for _ in range(repeats[name]):
                works[name]()
            seconds[name].append((time.perf_counter() - start) / repeats[name])
    return {name: np.array(values) for name, values in seconds.items()}


def ratio(ours: np.ndarray, theirs: np.ndarray) -> Ratio:
    """theirs / ours, round by round."""
    low, median, high = np.percentile(theirs / ours, [25, 50, 75])
    return Ratio(float(median), float(low), float(high))


def milliseconds(seconds: np.ndarray) -> float:
    """The median."""
    return float(1e3 * np.median(seconds))
