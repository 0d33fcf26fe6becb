"""Compressive random features: time that a projection saves, d = 784 -> m -> 6000 columns."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.measure import Row, against
from benchmarks.targets import GAMMA, pixels
from mercer import CompressiveFourier, RandomFourier
from mercer.evaluation.kernel_error import gram_error
from mercer.kernels import Gaussian
from mercer.maps.base import Map

SIZE = 6000
TARGETS = {50: 4.0, 100: 3.0, 200: 2.2, 300: 1.7}


def rows(rounds: int) -> Iterator[Row]:
    """Compare with independent weights and no projection, both in offset form.

    Then with faster designs.

    The ratio of multiply-adds, d M / (m (d + M)), is in the name: cosines cost the same with and
    without a projection.
    """
    X, source = pixels(3000)
    d = X.shape[1]
    setting = f"{source} {len(X)}x{d} -> {SIZE}"
    for threads in (1, 2):
        made = partial(CompressiveFourier, SIZE, gamma=GAMMA, random_state=0, n_jobs=threads)
        free = partial(RandomFourier, SIZE, gamma=GAMMA, random_state=0, n_jobs=threads)
        compare = partial(_against, X, free(form="offset", design="iid").fit(X), rounds, threads)
        for m, target in TARGETS.items():
            what = (
                f"m = {m}, {d * SIZE / (m * (d + SIZE)):.1f} times fewer multiply-adds, {setting}"
            )
            yield compare(what, made(n_measurements=m, form="offset", design="iid"), target)
        for m in (50, 300):
            quick = made(n_measurements=m, method="hadamard", design="hadamard")
            yield compare(f"m = {m}, hadamard twice, paired, {setting}", quick)
        for form in ("offset", "paired"):
            yield compare(
                f"no projection, hadamard, {form}, {setting}", free(form=form, design="hadamard")
            )


def _against(
    X: np.ndarray,
    theirs: Map,
    rounds: int,
    threads: int,
    what: str,
    ours: Map,
    target: float | None = None,
) -> Row:
    sample = X[:1000].astype(np.float64)
    kernel = Gaussian(GAMMA)
    ours.fit(X)
    return against(
        what,
        partial(ours.transform, X),
        "RandomFourier iid, offset",
        partial(theirs.transform, X),
        rounds,
        threads=threads,
        least_seconds=0.1,
        target=target,
        error=gram_error(kernel, sample, ours.transform(sample)),
        rival_error=gram_error(kernel, sample, theirs.transform(sample)),
    )
