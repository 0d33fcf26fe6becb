"""Codes against datasketch, anchors against scikit-learn, code sums against SciPy.

All in float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.kernel_approximation import AdditiveChi2Sampler

from benchmarks.libraries import libraries
from benchmarks.measure import Row, Work, against, interleaved
from mercer import GCWS, Anchors, ops
from mercer.evaluation.kernel_error import gram_error
from mercer.kernels import Chi2

ROWS = 2000
# Rows that the rival hashes in a sample: it takes tens of milliseconds for each.
FEW = {"dense": 10, "sparse": 5}


def rows(rounds: int) -> Iterator[Row]:
    """Return all rows; a slow rival hashes fewer rows, and its time is scaled to as many."""
    yield from sampling(rounds)
    yield from anchors(rounds)
    yield from products(rounds)


def sampling(rounds: int) -> Iterator[Row]:
    """Time codes from values, with logarithms and parameters of the columns in use.

    The rival's parameters are prepared.
    """
    rival = next(
        (library for library in libraries() if library.__name__.endswith("weighted_minhash")), None
    )
    if rival is None:
        return
    rng = np.random.default_rng(0)
    X = rng.gamma(0.5, size=(ROWS, 784)).astype(np.float32)
    wide = 10_000
    places = np.stack([np.sort(rng.choice(wide, 100, replace=False)) for _ in range(ROWS)])
    values = rng.gamma(0.5, size=places.shape).astype(np.float32)
    S = scipy.sparse.csr_array(
        (values.ravel(), places.ravel(), np.arange(ROWS + 1) * 100), shape=(ROWS, wide)
    )
    for k in (256, 1024):
        few = X[: FEW["dense"]]
        for way, theirs in rival.works(rival.hashes(784, k), few).items():
            what = f"GCWS codes, dense {ROWS}x784, {k} hashes"
            yield by_the_row(
                what,
                partial(hashes(k).fit(X).codes, X),
                f"{rival.name}, {way}",
                theirs,
                len(few),
                rounds,
                130,
            )
    few = S[: FEW["sparse"]].toarray()
    for way, theirs in rival.works(rival.hashes(wide, 256), few).items():
        what = f"GCWS codes, CSR {ROWS}x{wide}, 100 entries in a row, 256 hashes"
        target = 1000 if way == rival.ROW_BY_ROW else None
        yield by_the_row(
            what,
            partial(hashes(256).fit(S).codes, S),
            f"{rival.name}, {way}",
            theirs,
            len(few),
            rounds,
            target,
        )


def hashes(k: int) -> GCWS:
    return GCWS(k, random_state=0, n_jobs=1)


def by_the_row(
    what: str,
    ours: Work,
    rival: str,
    theirs: Work,
    theirs_rows: int,
    rounds: int,
    target: float | None,
) -> Row:
    """Time this library on ROWS rows and the rival on fewer, both per row."""
    seconds = interleaved({"ours": ours, "theirs": theirs}, rounds)
    theirs_seconds = seconds["theirs"] * ROWS / theirs_rows
    low, median, high = (
        float(q) for q in np.percentile(theirs_seconds / seconds["ours"], [25, 50, 75])
    )
    ours_ms, theirs_ms = (1e3 * float(np.median(s)) for s in (seconds["ours"], theirs_seconds))
    return Row(
        what, ours_ms, 1, f"{rival} ({theirs_rows} rows)", theirs_ms, (low, median, high), target
    )


def anchors(rounds: int) -> Iterator[Row]:
    """Time 64 anchors with 3 values per input, as many as the rival has with two steps.

    Errors are those of 500 rows.
    """
    rng = np.random.default_rng(0)
    X = rng.gamma(0.5, size=(4000, 784)).astype(np.float32)
    X /= X.sum(axis=1, keepdims=True)
    sampler = AdditiveChi2Sampler(sample_steps=2).fit(X)
    rival, theirs, some = "sklearn AdditiveChi2Sampler(2)", partial(sampler.transform, X), X[:500]
    for what, spacing, neighbors in (
        ("nearest", "log", 1),
        ("interpolated", "log", 2),
        ("interpolated, k-means", "kmeans", 2),
    ):
        for threads, target in ((1, 10), (2, 18)):
            ours = Anchors(64, spacing=spacing, n_neighbors=neighbors, n_jobs=threads).fit(X)
            assert ours.table_.shape[-1] == 3
            more: dict[str, Any] = {"threads": threads, "least_seconds": 0.3}
            errors = {
                "error": gram_error(Chi2(), some, ours.transform(some)),
                "rival_error": gram_error(Chi2(), some, sampler.transform(some)),
            }
            name = f"64 anchors, {what}, 3 values, 4000x784"
            yield against(
                name,
                partial(ours.transform, X),
                rival,
                theirs,
                rounds,
                target=target,
                **more,
                **errors,
            )
            out = np.empty((len(X), 3 * X.shape[1]), np.float32)
            reused = partial(ours.transform, X, out=out)
            yield against(f"{name}, out=", reused, rival, theirs, rounds, **more)
            if neighbors == 1:
                name = "64 anchors, nearest, codes only, 4000x784"
                yield against(
                    name, partial(ours.codes, X), rival, theirs, rounds, target=80, **more
                )


def products(rounds: int) -> Iterator[Row]:
    """Time products of one-hot codes, 1024 places of 256 codes, with m columns, and transposed."""
    rng = np.random.default_rng(0)
    codes = rng.integers(256, size=(ROWS, 1024), dtype=np.uint8)
    columns = (codes + 256 * np.arange(1024)).ravel()
    S = scipy.sparse.csr_array(
        (np.ones(columns.size, np.float32), columns, 1024 * np.arange(ROWS + 1)),
        shape=(ROWS, 1024 * 256),
    )
    across = S.T.tocsr()
    for m in (1, 10):
        W = rng.standard_normal((1024 * 256, m), dtype=np.float32)
        R = rng.standard_normal((ROWS, m), dtype=np.float32)
        panels = W.reshape(1024, 256, m)
        yield against(
            f"coded_product, {ROWS} rows, 1024 places of 256 codes, {m} columns",
            lambda p=panels, m=m: ops.coded_product(
                codes, p, None, np.empty((ROWS, m), np.float32)
            ),
            "SciPy CSR",
            lambda w=W: S @ w,
            rounds,
            threads=1,
        )
        yield against(
            f"coded_sums, {ROWS} rows, 1024 places of 256 codes, {m} columns",
            lambda r=R, m=m: ops.coded_sums(codes, r, None, np.empty((1024, 256, m), np.float32)),
            "SciPy CSR, transposed before",
            lambda r=R: across @ r,
            rounds,
            threads=1,
        )
