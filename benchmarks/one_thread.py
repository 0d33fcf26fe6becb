"""Rows that were short of their goals, with one and two threads, on each instruction set.

MERCER_ISA changes this library alone: BLAS and the rivals use what the processor has. With one
thread the clock is that of the process's CPU time, for machines that have other work to do; with
two it is the wall clock, which needs a quiet machine. ``THREADS=1`` leaves two threads out.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import mercer._native as core
import numpy as np
import pyarrow as pa
import pyarrow.csv
import scipy.sparse
from sklearn import kernel_approximation
from sklearn.datasets import dump_svmlight_file
from sklearn.decomposition import PCA
from threadpoolctl import threadpool_limits

from benchmarks import learning, maps, subspaces
from benchmarks.coded import ROWS
from benchmarks.libraries import libraries
from benchmarks.measure import Row, Work, against, interleaved
from mercer import (
    GCWS,
    AdditiveNystroem,
    Anchors,
    Chi2Series,
    ExpChi2,
    FeaturePCA,
    Homogeneous,
    KernelRegressor,
    Nystroem,
    RandomFourier,
    RandomLaplace,
    SkewedFourier,
    open_stream,
)
from mercer.maps.base import Map

RIVAL_ROWS = 5  # that datasketch hashes in a sample: its time is given for as many as ours
LEAST = {1: 0.05, 2: 0.3}  # seconds of a sample, by threads


class Case(NamedTuple):
    """A row of the table: a function beside that of a rival, and the goal for the ratio."""

    what: str
    ours: Work
    rival: str
    theirs: Work
    target: float | None


def rows(rounds: int) -> Iterator[Row]:
    """Return all rows, for every instruction set but the slowest."""
    before = os.environ.get("MERCER_ISA")
    counts = [int(text) for text in os.environ.get("THREADS", "1,2").split(",")]
    try:
        for isa in core.isas()[:-1]:
            os.environ["MERCER_ISA"] = isa
            core.pick()
            for threads in counts:
                timing = {"clock": time.process_time if threads == 1 else time.perf_counter}
                timing |= {"least_seconds": LEAST[threads]}
                for what, ours, rival, theirs, target in cases(threads):
                    more = timing | {"threads": threads, "target": target}
                    row = against(f"{isa}: {what}", ours, rival, theirs, rounds, **more)
                    yield for_all_rows(row) if "datasketch" in rival else row
                for what, work, n, wanted in readers(threads):
                    with threadpool_limits(threads):
                        seconds = interleaved({what: work}, rounds, **timing)[what]
                    speed = f"{n / np.median(seconds):,.0f} rows a second, {wanted:,} wanted"
                    yield Row(f"{isa}: {what}: {speed}", 1e3 * float(np.median(seconds)), threads)
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


def cases(threads: int) -> Iterator[Case]:
    """Yield all cases with a rival."""
    yield from subspace_maps(threads)
    yield from lifts(threads)
    yield from projections(threads)
    yield from sparse_rows(threads)


def fitted(feature_map: Map, X: Any, threads: int) -> Work:
    return partial(feature_map.set_params(n_jobs=threads).fit(X).transform, X)


def subspace_maps(threads: int) -> Iterator[Case]:
    X = subspaces.histograms(4000, 784, np.float32)
    theirs = fitted(Homogeneous(2, kernel="jensen-shannon"), X, threads)
    ours = fitted(AdditiveNystroem(5), X, threads)
    yield Case("Jensen-Shannon, 5 values, 4000x784", ours, "mercer Homogeneous(2)", theirs, 0.7)
    X = subspaces.histograms(5000, 300, np.float64)
    for kernel, name, targets in (("gaussian", "rbf", (1.5, 1.5)), ("exp-chi2", "chi2", (8, 14))):
        rival = kernel_approximation.Nystroem(name, gamma=1.0, n_components=256, random_state=0)
        landmarks = rival.fit(X).components_
        ours = fitted(Nystroem(kernel=kernel, gamma=1.0, landmarks=landmarks), X, threads)
        what = f"Nystroem {kernel}, float64, 5000x300, 256 landmarks"
        yield Case(what, ours, subspaces.RIVAL, partial(rival.transform, X), targets[threads - 1])
    for dtype in (np.float32, np.float64):
        X = np.random.default_rng(0).normal(size=(20_000, 20)).astype(dtype)
        features = RandomFourier(512, gamma=0.05, random_state=0, n_jobs=threads)
        both = features >> FeaturePCA(64, n_jobs=threads)

        def stored(X: np.ndarray = X, features: RandomFourier = features) -> PCA:
            return PCA(64, svd_solver="covariance_eigh").fit(features.fit_transform(X))

        what = f"fit of 64 components of 512 features, 20000 rows, {dtype.__name__}"
        yield Case(what, partial(both.fit, X), "features, then sklearn PCA", stored, 1)


def lifts(threads: int) -> Iterator[Case]:
    """Yield maps of each number of 4000 x 784 histograms."""
    X = subspaces.histograms(4000, 784, np.float32)
    rivals = {
        steps: partial(
            kernel_approximation.AdditiveChi2Sampler(sample_steps=steps).fit(X).transform, X
        )
        for steps in (2, 3)
    }
    ours = fitted(Homogeneous(1), X, threads)
    rival = "AdditiveChi2Sampler"
    target = (12, 20)[threads - 1]
    yield Case("homogeneous, 3 values, 4000x784", ours, f"{rival}(2)", rivals[2], target)
    ours = fitted(Chi2Series(5), X, threads)
    target = (10, 20)[threads - 1]
    yield Case("chi2 series, 5 values, 4000x784", ours, f"{rival}(3)", rivals[3], target)
    anchors = Anchors(64, n_neighbors=1, n_jobs=threads).fit(X)
    what, target = "64 anchors, nearest, 4000x784", (10, 18)[threads - 1]
    yield Case(f"{what}, 3 values", partial(anchors.transform, X), f"{rival}(2)", rivals[2], target)
    yield Case(f"{what}, codes only", partial(anchors.codes, X), f"{rival}(2)", rivals[2], 60)


def projections(threads: int) -> Iterator[Case]:
    """Yield maps of 4000 x 128 rows to 1024 columns."""
    offset = {"design": "iid", "form": "offset", "gamma": 0.3, "random_state": 0}
    X = maps.data(RandomFourier())
    sampler = kernel_approximation.RBFSampler(gamma=0.3, n_components=1024, random_state=0).fit(X)
    theirs = partial(sampler.transform, X)
    for more, options, target in (("", {}, 1.15), (", normalized", {"normalize": True}, 1.0)):
        ours = fitted(RandomFourier(1024, **offset, **options), X, threads)
        what = f"RandomFourier, offset{more}, 4000x128 -> 1024"
        yield Case(what, ours, "RBFSampler", theirs, target)
    H = maps.data(SkewedFourier())
    skewed = kernel_approximation.SkewedChi2Sampler(n_components=1024, random_state=0).fit(H)
    ours = fitted(SkewedFourier(1024, random_state=0), H, threads)
    theirs = partial(skewed.transform, H)
    yield Case("SkewedFourier, 4000x128 -> 1024", ours, "SkewedChi2Sampler", theirs, 3)
    feature_map = ExpChi2(1024, design="iid", gamma=0.3, random_state=0)
    ours = fitted(feature_map, H, threads)
    lift, *others = feature_map.tile_transform_.astype(np.float32).stages
    lifted, panel = lift(H), others[-1].linear.panel
    theirs = partial(np.matmul, lifted, panel)
    yield Case("ExpChi2, iid, 4000x128 -> 1024", ours, "its product alone, by BLAS", theirs, 1)


def sparse_rows(threads: int) -> Iterator[Case]:
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
                ours = partial(GCWS(256, random_state=0, n_jobs=threads).fit(rows_).codes, rows_)
                some = rows_[:RIVAL_ROWS].toarray() if rows_ is S else rows_[:RIVAL_ROWS]
                works = library.works(library.hashes(rows_.shape[1], 256), some)
                rival = f"{library.name} ({RIVAL_ROWS} rows)"
                name = f"GCWS codes, {what} columns, {ROWS} rows, 256 hashes"
                yield Case(name, ours, rival, works[library.ROW_BY_ROW], target)
    S = scipy.sparse.random_array(
        (6000, 784), density=0.05, format="csr", dtype=np.float32, rng=rng
    )
    feature_map = RandomLaplace(4096, beta=0.01, normalize=False, random_state=0)
    ours = fitted(feature_map, S, threads)
    panel = feature_map.tile_transform_.stages[0].linear.panel.astype(np.float32)

    def theirs() -> np.ndarray:
        T = S @ panel
        np.negative(T, out=T)
        np.exp(T, out=T)
        T *= 1 / np.float32(np.sqrt(4096))
        return T

    target, rival = (4, 7)[threads - 1], "SciPy product, NumPy exp"
    yield Case("Laplace, CSR 5%, 6000x784 -> 4096", ours, rival, theirs, target)


def readers(threads: int, n: int = 20_000, d: int = 100) -> Iterator[tuple[str, Work, int, int]]:
    """Yield (what, fit from a file, its rows, rows a second that are wanted)."""
    X = np.random.default_rng(0).random((n, d), dtype=np.float32)
    y = learning.target(X)
    with TemporaryDirectory() as name:
        svm, csv = Path(name) / "rows.svm", Path(name) / "rows.csv"
        dump_svmlight_file(X, y, str(svm), zero_based=True)
        columns = {f"x{i}": column for i, column in enumerate(X.T)}
        pa.csv.write_csv(pa.table({**columns, "y": y}), csv)

        def fit(path: Path, **options: Any) -> KernelRegressor:
            phi = RandomFourier(256, gamma=learning.GAMMA, random_state=0)
            model = KernelRegressor(phi, alpha=1.0, n_jobs=threads)
            return model.fit(open_stream(path, **options))

        yield f"fit from svmlight, {n}x{d} -> 256", partial(fit, svm), n, 80_000
        yield f"fit from CSV, {n}x{d} -> 256", partial(fit, csv, target="y"), n, 300_000
