"""Codes: consistent weighted sampling against datasketch, anchors against scikit-learn, sums of codes against SciPy; float32."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.kernel_approximation import AdditiveChi2Sampler

from benchmarks.libraries import libraries
from benchmarks.measure import Row, Work, against, interleaved
from mercer import ops

ROWS = 2000
FEW = {"dense": 10, "sparse": 5}  # rows that the rival hashes in a sample: it takes tens of milliseconds for each


def rows(rounds: int) -> Iterator[Row]:
    """All rows; where the rival is slow it hashes few rows, and its time is that of as many as ours."""
    yield from sampling(rounds)
    yield from anchors(rounds)
    yield from products(rounds)


def sampling(rounds: int) -> Iterator[Row]:
    """Codes from values, logarithms and the parameters of the columns in use included; the rival's parameters are ready."""
    rival = next((library for library in libraries() if library.__name__.endswith("weighted_minhash")), None)
    if rival is None:
        return
    rng = np.random.default_rng(0)
    X = rng.gamma(0.5, size=(ROWS, 784)).astype(np.float32)
    wide = 10_000
    places = np.stack([np.sort(rng.choice(wide, 100, replace=False)) for _ in range(ROWS)])
    values = rng.gamma(0.5, size=places.shape).astype(np.float32)
    S = scipy.sparse.csr_array((values.ravel(), places.ravel(), np.arange(ROWS + 1) * 100), shape=(ROWS, wide))
    for k in (256, 1024):
        few = X[: FEW["dense"]]
        for way, theirs in rival.works(rival.hashes(784, k), few).items():
            what = f"GCWS codes, dense {ROWS}x784, {k} hashes"
            yield by_the_row(what, partial(dense_codes, X, k), f"{rival.name}, {way}", theirs, len(few), rounds, 130)
    few = S[: FEW["sparse"]].toarray()
    for way, theirs in rival.works(rival.hashes(wide, 256), few).items():
        what = f"GCWS codes, CSR {ROWS}x{wide}, 100 entries in a row, 256 hashes"
        target = 1000 if way == rival.ROW_BY_ROW else None
        yield by_the_row(what, partial(csr_codes, S, 256), f"{rival.name}, {way}", theirs, len(few), rounds, target)


def by_the_row(
    what: str, ours: Work, rival: str, theirs: Work, theirs_rows: int, rounds: int, target: float | None
) -> Row:
    """Ours on ROWS rows, the rival on fewer; both by the row."""
    seconds = interleaved({"ours": ours, "theirs": theirs}, rounds)
    theirs_seconds = seconds["theirs"] * ROWS / theirs_rows
    low, median, high = (float(q) for q in np.percentile(theirs_seconds / seconds["ours"], [25, 50, 75]))
    ours_ms, theirs_ms = (1e3 * float(np.median(s)) for s in (seconds["ours"], theirs_seconds))
    return Row(what, ours_ms, 1, f"{rival} ({theirs_rows} rows)", theirs_ms, (low, median, high), target)


def parameters(ids: Any, k: int) -> Any:
    return ops.gcws_parameters(1, ids, 0, np.empty((k // 64, len(ids), 4, 64), np.float32))


def dense_codes(X: Any, k: int) -> Any:
    ids = np.arange(X.shape[1], dtype=np.uint64)
    with np.errstate(divide="ignore"):
        logs = np.log(X)
    return ops.gcws(logs, parameters(ids, k), ids, 1, 0, 8, True, np.empty((len(X), k), np.uint8))


def csr_codes(S: Any, k: int) -> Any:
    used, places = np.unique(S.indices, return_inverse=True)
    ids = used.astype(np.uint64)
    drawn = parameters(ids, k)
    out = np.empty((S.shape[0], k), np.uint8)
    return ops.gcws_csr(S.indptr, places, np.log(S.data), drawn, ids, 1, 0, 8, True, out)


def anchors(rounds: int) -> Iterator[Row]:
    """64 anchors, of each column or of all; 3 values for each input, as many as the rival has with two steps."""
    rng = np.random.default_rng(0)
    X = rng.random((4000, 784), dtype=np.float32)
    theirs = partial(AdditiveChi2Sampler(sample_steps=2).fit(X).transform, X)
    rival = "sklearn AdditiveChi2Sampler(2)"
    for whose, count in (("all columns", 1), ("each column", 784)):
        table = np.sort(rng.random((count, 64), dtype=np.float32), axis=1)
        values = rng.random((count, 64, 3), dtype=np.float32)
        for fresh in (True, False):
            made = Nearest(X, table, values, fresh)
            for what, ours, target in (
                ("codes of the nearest", made.codes, 80),
                ("codes and fractions", made.brackets, None),
                ("nearest, 3 values", made.nearest, 10),
                ("interpolated, 3 values", made.interpolated, 10),
            ):
                where = "4000x784" if fresh else "4000x784, out="
                what = f"64 anchors of {whose}, {what}, {where}"
                yield against(what, ours, rival, theirs, rounds, threads=1, target=target)


class Nearest:
    """Anchors by their ops; outputs are allocated in the call (fresh), or once."""

    def __init__(self, X: Any, table: Any, values: Any, fresh: bool) -> None:
        self.X, self.table, self.values, self.fresh = X, table, values, fresh
        self.edges = (table[:, 1:] + table[:, :-1]) / 2
        self.kept: dict[str, Any] = {}

    def empty(self, name: str, columns: int, dtype: Any) -> Any:
        if self.fresh or name not in self.kept:
            self.kept[name] = np.empty((len(self.X), columns), dtype)
        return self.kept[name]

    def codes(self) -> Any:
        return ops.levels(self.X, self.edges, True, self.empty("codes", self.X.shape[1], np.uint8))

    def brackets(self) -> tuple[Any, Any]:
        d = self.X.shape[1]
        found = self.empty("codes", d, np.uint8), self.empty("fractions", d, np.float32)
        ops.brackets(self.X, self.table, *found)
        return found

    def nearest(self) -> Any:
        return ops.coded_rows(self.codes(), self.values, None, self.empty("rows", 3 * self.X.shape[1], np.float32))

    def interpolated(self) -> Any:
        codes, fractions = self.brackets()
        return ops.coded_rows(codes, self.values, fractions, self.empty("rows", 3 * self.X.shape[1], np.float32))


def products(rounds: int) -> Iterator[Row]:
    """One-hot codes of 1024 places with 256 codes each, as 8-bit hashes are, times m columns, and the transpose."""
    rng = np.random.default_rng(0)
    codes = rng.integers(256, size=(ROWS, 1024), dtype=np.uint8)
    columns = (codes + 256 * np.arange(1024)).ravel()
    S = scipy.sparse.csr_array(
        (np.ones(columns.size, np.float32), columns, 1024 * np.arange(ROWS + 1)), shape=(ROWS, 1024 * 256)
    )
    across = S.T.tocsr()
    for m in (1, 10):
        W = rng.standard_normal((1024 * 256, m), dtype=np.float32)
        R = rng.standard_normal((ROWS, m), dtype=np.float32)
        panels = W.reshape(1024, 256, m)
        yield against(
            f"coded_product, {ROWS} rows, 1024 places of 256 codes, {m} columns",
            lambda p=panels, m=m: ops.coded_product(codes, p, None, np.empty((ROWS, m), np.float32)),
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
