"""Squared hinge on codes against LinearSVC on CSR, to the same objective: time and memory.

Memory is measured in a separate process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.svm import LinearSVC

from benchmarks.learning import ROOT, megabytes, resident
from benchmarks.measure import Row, against
from mercer import GCWS, KernelClassifier
from mercer.linear_model.labels import encode_one_versus_rest
from mercer.linear_model.losses import LOSSES
from mercer.linear_model.solvers.blocks import CachedBlocks
from mercer.linear_model.solvers.newton_cg import minimize_loss

NEAR = 1e-4
OUR_TOLS = (1.0, 0.3, 0.1, 0.03, 0.01)
THEIR_TOLS = (1.0, 0.3, 0.1, 0.03, 0.01, 1e-3)
WHAT = "letter 15000 rows, 1024 hashes of 8 bits"


def rows(rounds: int) -> Iterator[Row]:
    """Return all rows; a fit takes seconds, so three rounds are enough. Empty without the data."""
    if not data_path().is_file():
        return
    X, y = letter()
    Z = hashes().fit_transform(X)
    least = objective(theirs(True, 1e-4).fit(Z, y).coef_, Z, y)
    tol, ours_at = next(
        (tol, value)
        for tol in OUR_TOLS
        if (value := objective(ours(tol).fit(X, y).feature_coef_, Z, y)) <= (1 + NEAR) * least
    )
    dual, their_tol, theirs_at = cheapest(Z, y, least)
    rival = f"LinearSVC(dual={dual}, tol={their_tol:g})"
    ends = f"objective {ours_at / least - 1:.0e} and {theirs_at / least - 1:.0e} above the least"
    few = min(rounds, 3)
    yield against(
        f"squared hinge, {WHAT}, features included; {ends}",
        lambda: ours(tol).fit(X, y),
        f"GCWS, {rival}",
        lambda: theirs(dual, their_tol).fit(hashes().fit_transform(X), y),
        few,
        target=2.0,
    )
    blocks, Y = list(hashes().fit(X).blocks(X)), encode_one_versus_rest(y, np.unique(y))
    yield against(
        f"squared hinge, {WHAT}, codes and CSR ready",
        lambda: minimize_loss(
            prepared(blocks, Y), LOSSES["squared_hinge"], 1.0, fit_intercept=False, tol=tol
        ),
        rival,
        lambda: theirs(dual, their_tol).fit(Z, y),
        few,
        target=2.0,
    )
    mine, other = in_a_process("ours", tol), in_a_process(f"theirs {dual}", their_tol)
    ratio = other["peak"] / mine["peak"]
    yield Row(
        f"memory of that fit, features included: {ratio:.2f} times less, {megabytes(mine)} "
        f"against {megabytes(other)}",
        1e3 * mine["seconds"],
        rival=rival,
        rival_milliseconds=1e3 * other["seconds"],
    )


def data_path() -> Path:
    return Path(os.environ.get("MERCER_DATA", "")) / "letter.npz"


def letter() -> tuple[np.ndarray, np.ndarray]:
    """Return the official training rows."""
    parts = np.load(data_path(), allow_pickle=False)
    n = int(parts["n_train"])
    return parts["X"][:n].astype(np.float32), parts["y"][:n]


def hashes() -> GCWS:
    return GCWS(1024, random_state=0)


def ours(tol: float) -> KernelClassifier:
    return KernelClassifier(hashes(), loss="squared_hinge", alpha=1.0, fit_intercept=False, tol=tol)


def theirs(dual: bool, tol: float) -> LinearSVC:
    return LinearSVC(
        C=1.0, fit_intercept=False, dual=dual, tol=tol, random_state=0, max_iter=10_000
    )


def prepared(blocks: list[Any], Y: np.ndarray) -> CachedBlocks:
    """Return blocks in memory."""
    starts = np.cumsum([0, *(block.shape[0] for block in blocks)])
    triples = [
        (block, Y[a : a + block.shape[0]], None) for block, a in zip(blocks, starts, strict=False)
    ]
    return CachedBlocks(lambda: iter(triples), 10**9)


def objective(coef: np.ndarray, Z: Any, y: np.ndarray) -> float:
    """Return the sum over outputs of sum max(0, 1 - y f)^2 + |w|^2/2."""
    gaps = np.maximum(
        0, 1 - encode_one_versus_rest(y, np.unique(y)) * (Z @ coef.astype(np.float64).T)
    )
    return float(np.sum(gaps**2) + np.sum(coef**2) / 2)


def cheapest(Z: Any, y: np.ndarray, least: float) -> tuple[bool, float, float]:
    """Return the rival's fastest solver that is near enough, and its objective.

    For each solver, the largest tol that is near enough.
    """
    best = (np.inf, True, 0.0, np.inf)
    for dual in (True, False):
        for tol in THEIR_TOLS:
            start = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = theirs(dual, tol).fit(Z, y)
            seconds, value = time.perf_counter() - start, objective(found.coef_, Z, y)
            if seconds > best[0]:
                break
            if value <= (1 + NEAR) * least:
                best = (seconds, dual, tol, value)
                break
    return best[1:]


def in_a_process(which: str, tol: float) -> dict[str, float]:
    """Return seconds of a fit with features in a separate process, and its peak memory."""
    command = [sys.executable, "-m", "benchmarks.losses", *which.split(), str(tol)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    seen: dict[str, float] = json.loads(done.stdout)
    return seen


def main(which: str, *how: str) -> None:
    """Run the separate process: "ours tol", or "theirs dual tol"."""
    X, y = letter()
    before, start = resident("VmRSS"), time.perf_counter()
    if which == "ours":
        ours(float(how[0])).fit(X, y)
    else:
        theirs(how[0] == "True", float(how[1])).fit(hashes().fit_transform(X), y)
    print(json.dumps({"seconds": time.perf_counter() - start, "peak": resident("VmHWM") - before}))


if __name__ == "__main__":
    main(*sys.argv[1:])
