"""CPU time of one thread on each instruction set, for machines that have other work to do.

The rows are those of the other parts that were short of their goals. MERCER_ISA changes this
library alone: BLAS and the rivals use what the processor has.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import mercer._native as core
import numpy as np
import scipy.sparse
from sklearn import kernel_approximation

from benchmarks import maps, subspaces
from benchmarks.coded import ROWS
from benchmarks.libraries import libraries
from benchmarks.measure import Row, Work, against
from mercer import (
    GCWS,
    AdditiveNystroem,
    ExpChi2,
    Homogeneous,
    Nystroem,
    RandomFourier,
    RandomLaplace,
    SkewedFourier,
)
from mercer.maps.base import Map

Case = tuple[str, Work, str, Work, float | None]
RIVAL_ROWS = 5  # that datasketch hashes in a sample: its time is given for as many as ours
LEAST = 0.05  # seconds of a sample


def rows(rounds: int) -> Iterator[Row]:
    """Return all rows, for every instruction set but the slowest."""
    before = os.environ.get("MERCER_ISA")
    try:
        for isa in core.isas()[:-1]:
            os.environ["MERCER_ISA"] = isa
            core.pick()
            for what, ours, rival, theirs, target in cases():
                timing: dict[str, Any] = {"threads": 1, "clock": time.process_time}
                timing |= {"least_seconds": LEAST, "target": target}
                row = against(f"{isa}: {what}", ours, rival, theirs, rounds, **timing)
                yield for_all_rows(row) if "datasketch" in rival else row
    finally:
        os.environ.pop("MERCER_ISA", None)
        if before is not None:
            os.environ["MERCER_ISA"] = before
        core.pick()


def for_all_rows(row: Row) -> Row:
    """Return a row with the rival's time for ROWS rows."""
    assert row.rival_milliseconds is not None and row.times is not None
    factor = ROWS / RIVAL_ROWS
    low, median, high = (factor * times for times in row.times)
    scaled = factor * row.rival_milliseconds
    return replace(row, rival_milliseconds=scaled, times=(low, median, high))


def cases() -> Iterator[Case]:
    """Yield (what, function, rival, function, target)."""
    yield from subspace_maps()
    yield from projections()
    yield from sparse_rows()


def fitted(feature_map: Map, X: Any) -> Work:
    return partial(feature_map.set_params(n_jobs=1).fit(X).transform, X)


def subspace_maps() -> Iterator[Case]:
    X = subspaces.histograms(4000, 784, np.float32)
    theirs = fitted(Homogeneous(2, kernel="jensen-shannon"), X)
    ours = fitted(AdditiveNystroem(5), X)
    yield "Jensen-Shannon, 5 values, 4000x784", ours, "mercer Homogeneous(2)", theirs, 0.7
    X = subspaces.histograms(5000, 300, np.float64)
    for kernel, name, target in (("gaussian", "rbf", 1.5), ("exp-chi2", "chi2", 8)):
        rival = kernel_approximation.Nystroem(name, gamma=1.0, n_components=256, random_state=0)
        landmarks = rival.fit(X).components_
        ours = fitted(Nystroem(kernel=kernel, gamma=1.0, landmarks=landmarks), X)
        what = f"Nystroem {kernel}, float64, 5000x300, 256 landmarks"
        yield what, ours, subspaces.RIVAL, partial(rival.transform, X), target


def projections() -> Iterator[Case]:
    """Yield maps of 4000 x 128 rows to 1024 columns."""
    offset = {"design": "iid", "form": "offset", "gamma": 0.3, "random_state": 0}
    X = maps.data(RandomFourier())
    sampler = kernel_approximation.RBFSampler(gamma=0.3, n_components=1024, random_state=0).fit(X)
    theirs = partial(sampler.transform, X)
    for what, more, target in (("", {}, 1.15), (", normalized", {"normalize": True}, 1.0)):
        ours = fitted(RandomFourier(1024, **offset, **more), X)
        yield f"RandomFourier, offset{what}, 4000x128 -> 1024", ours, "RBFSampler", theirs, target
    H = maps.data(SkewedFourier())
    skewed = kernel_approximation.SkewedChi2Sampler(n_components=1024, random_state=0).fit(H)
    ours = fitted(SkewedFourier(1024, random_state=0), H)
    theirs = partial(skewed.transform, H)
    yield "SkewedFourier, 4000x128 -> 1024", ours, "SkewedChi2Sampler", theirs, 3
    feature_map = ExpChi2(1024, design="iid", gamma=0.3, random_state=0)
    ours = fitted(feature_map, H)
    lift, *others = feature_map.tile_transform_.astype(np.float32).stages
    lifted, panel = lift(H), others[-1].linear.panel
    theirs = partial(np.matmul, lifted, panel)
    yield "ExpChi2, iid, 4000x128 -> 1024", ours, "its product alone", theirs, None


def sparse_rows() -> Iterator[Case]:
    rng = np.random.default_rng(0)
    wide = 10_000
    places = np.stack([np.sort(rng.choice(wide, 100, replace=False)) for _ in range(ROWS)])
    values = rng.gamma(0.5, size=places.shape).astype(np.float32)
    starts = np.arange(ROWS + 1) * 100
    S = scipy.sparse.csr_array((values.ravel(), places.ravel(), starts), shape=(ROWS, wide))
    for library in libraries():
        if library.__name__.endswith("weighted_minhash"):
            D = rng.gamma(0.5, size=(ROWS, 784)).astype(np.float32)
            for what, rows_, target in (("CSR, 100 of 10000", S, 1500), ("dense, 784", D, 130)):
                ours = partial(GCWS(256, random_state=0, n_jobs=1).fit(rows_).codes, rows_)
                some = rows_[:RIVAL_ROWS].toarray() if rows_ is S else rows_[:RIVAL_ROWS]
                works = library.works(library.hashes(rows_.shape[1], 256), some)
                rival = f"{library.name} ({RIVAL_ROWS} rows)"
                name = f"GCWS codes, {what} columns, {ROWS} rows, 256 hashes"
                yield name, ours, rival, works[library.ROW_BY_ROW], target
    S = scipy.sparse.random_array(
        (6000, 784), density=0.05, format="csr", dtype=np.float32, rng=rng
    )
    feature_map = RandomLaplace(4096, beta=0.01, normalize=False, random_state=0)
    ours = fitted(feature_map, S)
    panel = feature_map.tile_transform_.stages[0].linear.panel.astype(np.float32)

    def theirs() -> np.ndarray:
        T = S @ panel
        np.negative(T, out=T)
        np.exp(T, out=T)
        T *= 1 / np.float32(np.sqrt(4096))
        return T

    yield "Laplace, CSR 5%, 6000x784 -> 4096", ours, "SciPy product, NumPy exp", theirs, 4
