"""Gram error against seconds, RandomFourier by design and RBFSampler: the README's picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.kernel_approximation import RBFSampler
from threadpoolctl import threadpool_limits

from benchmarks.measure import Row, interleaved
from benchmarks.targets import GAMMA, pixels
from mercer import RandomFourier
from mercer.evaluation.kernel_error import gram_error
from mercer.kernels import Gaussian

SIZES = (256, 512, 1024, 2048, 4096, 8192)
PICTURE = Path(__file__).parents[1] / "docs" / "error-against-seconds.svg"
LABELS = {
    "RBFSampler": "scikit-learn RBFSampler",
    "iid": 'RandomFourier(design="iid")',
    "orthogonal": 'RandomFourier(design="orthogonal")',
    "hadamard": 'RandomFourier(), here design="hadamard"',
}


def make(name: str, size: int, seed: int) -> Any:
    if name == "RBFSampler":
        return RBFSampler(gamma=GAMMA, n_components=size, random_state=seed)
    return RandomFourier(size, gamma=GAMMA, design=name, random_state=seed, n_jobs=1)


def rows(rounds: int) -> Iterator[Row]:
    """Measure 6000 rows, one thread, float32; the error is the median of five draws."""
    X, source = pixels(6000)
    sample = X[:1000]
    kernel = Gaussian(GAMMA)
    for size in SIZES:
        draws = {name: [make(name, size, seed).fit(X) for seed in range(5)] for name in LABELS}
        with threadpool_limits(1):
            seconds = interleaved(
                {name: partial(made[0].transform, X) for name, made in draws.items()}, rounds
            )
        for name, made in draws.items():
            error = float(
                np.median([gram_error(kernel, sample, one.transform(sample)) for one in made])
            )
            yield Row(
                f"{name} {size} ({source})", 1e3 * float(np.median(seconds[name])), 1, error=error
            )


def finish(table: Sequence[Row]) -> None:
    """Draw the picture, reproducible byte for byte."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "mercer"
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for name, marker in zip(LABELS, "sovD", strict=True):
        points = [row for row in table if row.what.split()[0] == name]
        seconds, errors = [row.milliseconds / 1e3 for row in points], [row.error for row in points]
        axes.loglog(seconds, errors, marker=marker, label=LABELS[name])
        for row, x, y in zip(points, seconds, errors, strict=True):
            if name in ("RBFSampler", "hadamard"):
                axes.annotate(
                    row.what.split()[1], (x, y), (5, 5), textcoords="offset points", fontsize=7
                )
    source = table[0].what.split()[2].strip("()")
    axes.set_xlabel(f"seconds for 6000 rows of {source} (784 columns), one thread, float32")
    axes.set_ylabel("Gram error, relative rms")
    axes.set_title("Gaussian kernel, sigma = 10; numbers are features", fontsize=10)
    axes.grid(which="both", alpha=0.25)
    axes.legend(fontsize=8)
    figure.savefig(PICTURE, metadata={"Date": None})
