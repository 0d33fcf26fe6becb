"""Estimates of plan against measured fits: CPU seconds, and the peak memory of a process.

One thread is used, so that processes beside it change little.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import scipy.sparse

from benchmarks.learning import ROOT, resident
from benchmarks.measure import Row
from mercer import KernelClassifier, KernelRegressor, open_stream, plan
from mercer.cli import _map_syntax
from mercer.evaluation.convergence import fitted_size

SECONDS, BYTES = 2.0, 1.25  # how far a prediction may be off, as a factor


@dataclass(frozen=True)
class Case:
    """Fit of a map, as the command line spells it, to rows of a shape, dtype and source."""

    feature_map: str
    rows: int
    columns: int
    dtype: str = "float32"
    density: float | None = None
    source: str = "array"
    loss: str = "squared"
    max_memory: str | None = None
    alpha: float | None = None  # chosen where it is None

    def __str__(self) -> str:
        rows = (
            f"{self.rows}x{self.columns} "
            f"{self.dtype}{'' if self.density is None else f', CSR {self.density:.0%}'}"
        )
        more = [self.source] * (self.source != "array") + [self.loss] * (self.loss != "squared")
        return ", ".join(
            [self.feature_map, rows, *more, *([] if self.max_memory is None else [self.max_memory])]
        )


CASES = (
    Case("fourier:n_components=512", 40_000, 100),
    Case("fourier:n_components=2048", 40_000, 100),
    Case("fourier:n_components=1024,design=iid", 20_000, 784, "float64"),
    Case("fourier:n_components=1024", 100_000, 50, source="npy"),
    Case("fourier:n_components=256", 20_000, 100, source="csv"),
    Case("laplace:n_components=1024", 20_000, 200),
    Case("skewed:n_components=512", 20_000, 100, "float64"),
    Case("exp-chi2:n_components=1024", 20_000, 100),
    Case("nystroem:n_components=256", 20_000, 100),
    Case("chi2-series:n_terms=3", 40_000, 200),
    Case("homogeneous", 20_000, 300, "float64"),
    Case("hellinger", 100_000, 100),
    Case("projection:n_components=100", 40_000, 500),
    Case("laplace:n_components=1024", 20_000, 2000, density=0.05),
    Case("chi2-series:n_terms=3", 20_000, 500, density=0.05),
    Case("fourier:n_components=4096", 5_000, 100, max_memory="50MB", alpha=1.0),
    Case("gcws:n_hashes=16", 5_000, 50, max_memory="50MB", alpha=1.0),
    Case("fourier:n_components=256", 10_000, 50, loss="logistic", alpha=1.0),
    Case("fourier:n_components=1024", 10_000, 50, loss="squared_hinge", alpha=1.0),
    Case("fourier:n_components=4096", 5_000, 50, loss="logistic", alpha=1.0),
    Case("fourier:n_components=1024", 60_000, 50),
    Case("gcws", 10_000, 50),
    Case("fourier:n_components=512", 10_000, 50, loss="logistic"),
    Case("gcws", 5_000, 50, loss="logistic"),
)


def rows(rounds: int) -> Iterator[Row]:
    """Yield a row for each case, then the number of estimates within the limits.

    Steps that a plan can only assume are counted as they were made where alpha is given.
    """
    seconds, sizes = [], []
    for case in CASES:
        measured = in_a_process(case)
        seconds.append(measured["predicted_seconds"] / measured["seconds"])
        sizes.append(measured["predicted_bytes"] / measured["bytes"])
        what = (
            f"{case}: {measured['route']}, {measured['predicted_seconds']:.3g} s estimated, "
            f"{measured['seconds']:.3g} s measured, {seconds[-1]:.2f} times; "
            f"{measured['predicted_bytes'] / 1e6:.0f} MB estimated, "
            f"{measured['bytes'] / 1e6:.0f} MB measured, {sizes[-1]:.2f} times"
        )
        yield Row(what, 1e3 * measured["seconds"])
    for name, ratios, limit in (("seconds", seconds, SECONDS), ("bytes", sizes, BYTES)):
        inside = sum(1 / limit <= ratio <= limit for ratio in ratios)
        middle = np.median(ratios)
        yield Row(
            f"{name}: {inside} of {len(ratios)} within a factor {limit:g}; the median is "
            f"{middle:.2f} times",
            0.0,
        )


def data(case: Case) -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(0)
    if case.density is None:
        X = rng.random((case.rows, case.columns), dtype=np.dtype(case.dtype))
        return X, np.sin(3 * X[:, 0] + 2 * X[:, 1] * X[:, 2])
    X = scipy.sparse.random_array(
        (case.rows, case.columns), density=case.density, format="csr", rng=rng, dtype=case.dtype
    )
    return X, np.asarray(X.sum(axis=1)).ravel()


def in_a_process(case: Case) -> dict[str, Any]:
    """Estimate and measure one case in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.plan", json.dumps(asdict(case))]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def main(text: str) -> None:
    """Run one case: first the fits, since plan would leave memory behind that they could use."""
    case = Case(**json.loads(text))
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:1]))
    time.perf_counter = time.process_time  # also in plan
    X, y = data(case)
    classes = case.loss != "squared"
    y = (y > np.median(y)).astype(int) if classes else y
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        source = write(case, Path(folder), X, y)
        made = _map_syntax.build(_map_syntax.parse(case.feature_map))
        head: Any = KernelClassifier if classes else KernelRegressor
        more: dict[str, Any] = {
            "max_memory": case.max_memory,
            "alpha": "auto" if case.alpha is None else case.alpha,
        }
        model = head(made, random_state=0, **more, **({"loss": case.loss} if classes else {}))
        # loads what is loaded on first use; memory that it leaves could serve the fit
        small = made.with_size(8) if (fitted_size(made) or 0) > 8 else made
        head(small, random_state=0).fit(X[:64], y[:64])
        if case.source != "array":
            del X
        Path("/proc/self/clear_refs").write_text("5")  # the high-water mark begins anew
        before, passes = resident("VmRSS"), count_passes()
        start = time.perf_counter()
        model.fit(source)
        taken, most = time.perf_counter() - start, resident("VmHWM") - before
        passes = dict(passes)  # of this fit alone
        start = time.perf_counter()
        model.fit(source)
        taken = min(taken, time.perf_counter() - start)  # other processes may slow one of them
        start = time.perf_counter()
        estimate = plan(source, made, max_memory=case.max_memory, loss=case.loss)
        planning = time.perf_counter() - start
    predicted = estimate.seconds
    if case.alpha is not None:  # plan assumes the passes of a search
        done = passes["kept"] or passes["features"]
        predicted = sum(step.seconds * (1 if step.times == 1 else done) for step in estimate.steps)
    print(
        json.dumps(
            {
                "route": model.plan_.route,
                "seconds": taken,
                "bytes": most,
                "predicted_seconds": predicted,
                "predicted_bytes": estimate.bytes,
                "steps": [asdict(step) for step in estimate.steps],
                "passes": passes,
                "planning": planning,
            }
        )
    )


def count_passes() -> dict[str, int]:
    """Count passes over features from here on."""
    from mercer.data.batches import Features
    from mercer.linear_model.solvers.blocks import CachedBlocks, CenteredBlocks

    passes = {"features": 0, "kept": 0}

    def counting(cls: Any, method: str, name: str) -> None:
        old = getattr(cls, method)

        def new(self: Any, *args: Any, **more: Any) -> Any:
            passes[name] += 1
            return old(self, *args, **more)

        setattr(cls, method, new)

    counting(Features, "batches", "features")
    counting(CachedBlocks, "__call__", "kept")
    counting(CenteredBlocks, "__call__", "kept")
    return passes


def write(case: Case, folder: Path, X: Any, y: np.ndarray) -> Any:
    if case.source == "array":
        return open_stream((X, y))
    path = folder / f"rows.{case.source}"
    table = np.column_stack([X, y.astype(np.float32)])
    if case.source == "npy":
        np.save(path, table)
        return open_stream(path, target=-1)
    names = [*(f"x{i}" for i in range(X.shape[1])), "y"]
    np.savetxt(path, table, delimiter=",", header=",".join(names), comments="", fmt="%.7g")
    return open_stream(path, target="y")


if __name__ == "__main__":
    main(*sys.argv[1:])
