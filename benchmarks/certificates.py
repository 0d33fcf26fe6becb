"""Sizes that certify recommends for an error, against the error of maps of that size.

A map of 256 features (a deterministic one of its default size) is fitted to rows of a set and
certified on others. Maps of the size that is recommended, with other seeds, are measured on other
pairs of the same rows. A set without a file in $MERCER_DATA is left out.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.preprocessing import StandardScaler

from benchmarks.measure import Row
from mercer import (
    GCWS,
    Anchors,
    Chi2Series,
    ExpChi2,
    Homogeneous,
    Nystroem,
    RandomFourier,
    RandomLaplace,
    certify,
)
from mercer.evaluation.convergence import with_seed
from mercer.evaluation.kernel_error import draw_pairs, measure
from mercer.maps.base import Map, Rate

ERRORS = (0.01, 0.02, 0.03, 0.05)
SIZE = 256
ROWS = 600  # of each part: to fit to, to certify on
PAIRS = 5000
SEEDS = range(1000, 1016)  # of maps that are measured; none of those of certify
FEW, SEEDS_OF_FEW = 64, range(1000, 1128)  # of small maps: landmarks seldom miss a cluster of rows
LARGEST = 2**11  # features that are measured
SLACK = 1.1  # how far the measured error may be above the wanted one: sampling error of the seeds
EXCESS = 1.5  # how much larger than necessary a size may be
LEAST = 16  # features that certify recommends at least
COUNTS = ("digits", "histograms")
NUMBERS = ("digits", "letter", "satimage", "normal", "clusters")
DESIGNS = ("hadamard", "orthogonal", "sobol", "iid")
SMOOTH = (1.0, 1 / 16, 1 / 256)  # times the estimated gamma


@dataclass(frozen=True)
class Recommendation:
    """Size for an error, and errors of maps of this size and of one 1.5 times smaller."""

    wanted: float
    size: int
    error: float | None
    smaller: float | None

    @property
    def reached(self) -> bool:
        return self.error is None or self.error <= SLACK * self.wanted

    @property
    def tight(self) -> bool:
        return self.smaller is None or self.smaller > self.wanted / SLACK


def rows(rounds: int) -> Iterator[Row]:
    """Yield a row for each map and set, then the number of sizes that reach their error."""
    every: list[Recommendation] = []
    for data in dict.fromkeys((*COUNTS, *NUMBERS)):
        parts = sample(data)
        if parts is None:
            continue
        for name, feature_map in maps(data, parts[0]).items():
            start = time.process_time()
            recommended = recommend(feature_map, parts)
            seconds = time.process_time() - start
            every += recommended
            yield Row(f"{name}, {data}: {', '.join(map(describe, recommended))}", 1e3 * seconds)
    known = [one for one in every if one.error is not None]
    above = [one.error / one.wanted for one in known if one.error is not None]
    yield Row(
        f"{sum(one.reached for one in known)} of {len(known)} reach the wanted error within 10%, "
        f"{sum(one.tight for one in known)} are at most {EXCESS:g} times as large as necessary; "
        f"at worst {max(above):.2f} times the wanted error",
        0.0,
    )


def describe(one: Recommendation) -> str:
    if one.error is None:
        return f"{one.wanted:.0%}: {one.size}"
    notes = " (not reached)" * (not one.reached) + " (too large)" * (not one.tight)
    return f"{one.wanted:.0%}: {one.size} has {one.error:.2%}{notes}"


def maps(data: str, X: np.ndarray) -> dict[str, Map]:
    """Return the maps of a set by name, with fixed bandwidths."""
    made: dict[str, Map] = {}
    if data == "clusters":
        smooth_kernels = {f"nystroem, gamma {g:g}": g for g in (0.3, 0.03, 0.003)}
        return {k: Nystroem(SIZE, gamma=g, random_state=0) for k, g in smooth_kernels.items()}
    if data in NUMBERS:
        gamma = RandomFourier(8, random_state=0).fit(X).gamma_
        for factor in SMOOTH:
            smooth = "" if factor == 1 else f", gamma/{1 / factor:g}"
            made[f"nystroem{smooth}"] = Nystroem(SIZE, gamma=gamma * factor, random_state=0)
            for design in DESIGNS if factor > 0.01 else ():
                made[f"fourier {design}{smooth}"] = RandomFourier(
                    SIZE, gamma=gamma * factor, design=design, random_state=0
                )
        made["laplacian"] = RandomFourier(SIZE, kernel="laplacian", random_state=0)
    if data in COUNTS:
        made |= {
            "laplace": RandomLaplace(SIZE, random_state=0),
            "exp-chi2": ExpChi2(SIZE, random_state=0),
            "gcws": GCWS(SIZE, random_state=0),
            "homogeneous": Homogeneous(),
            "homogeneous uniform": Homogeneous(window="uniform"),
            "homogeneous intersection": Homogeneous(kernel="intersection"),
            "chi2-series": Chi2Series(),
            "anchors": Anchors(),
            "nystroem exp-chi2": Nystroem(SIZE, kernel="exp-chi2", random_state=0),
        }
    return made


def recommend(feature_map: Map, parts: tuple[Any, Any]) -> list[Recommendation]:
    """Certify a map for each of the errors and measure the sizes that are recommended."""
    fitted_on, certified_on = parts
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows outside the range, fewer rows than landmarks
        fitted = feature_map.fit(fitted_on)
        least = LEAST if isinstance(fitted.rate, Rate) else 1
        for wanted in ERRORS:
            size = certify(fitted, certified_on, error=wanted).needed
            if size is None:
                continue
            error = smaller = None
            if size <= LARGEST:
                error = root_mean_square(fitted, size, fitted_on, certified_on)
                below = int(size / EXCESS)
                if below >= least:
                    smaller = root_mean_square(fitted, below, fitted_on, certified_on)
            found.append(Recommendation(wanted, size, error, smaller))
    return found


def root_mean_square(fitted: Map, size: int, train: Any, test: Any) -> float:
    """Return the root of the mean squared error of maps of a size with other seeds."""
    pairs = draw_pairs(len(test), PAIRS, 1)
    random = "random_state" in fitted.get_params()
    squares = []
    seeds = SEEDS_OF_FEW if size <= FEW else SEEDS
    for seed in seeds if random else seeds[:1]:
        measured = measure(with_seed(fitted.with_size(size), seed).fit(train), test, pairs)
        squares.append(float(measured.part(measured.errors) or 0.0) ** 2)
    return float(np.sqrt(np.mean(squares)))


def sample(data: str) -> tuple[Any, Any] | None:
    """Return two parts of the rows of a set; None without its file.

    Columns are standardized where rows are no counts or histograms.
    """
    rng = np.random.default_rng(0)
    if data == "digits":
        X = load_digits().data
    elif data == "normal":
        X = rng.normal(size=(2 * ROWS, 5))
    elif data == "clusters":  # a fifth of the rows are far from the others
        X = 0.2 * rng.normal(size=(2 * ROWS, 4)) + 3.0 * (rng.random((2 * ROWS, 1)) < 0.2)
    elif data == "histograms":
        X = rng.dirichlet(np.full(20, 0.5), size=2 * ROWS)
    else:
        path = Path(os.environ.get("MERCER_DATA", "")) / f"{data}.npz"
        if not path.is_file():
            return None
        X = np.load(path, allow_pickle=False)["X"]
    n = min(ROWS, len(X) // 2)
    X = X[rng.permutation(len(X))[: 2 * n]].astype(np.float64)
    if data not in (*COUNTS, "clusters"):
        X = StandardScaler().fit_transform(X)
    return X[:n], X[n:]
