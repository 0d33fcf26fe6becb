"""Fits and predictions against scikit-learn's ridge on stored features: time and memory.

Memory is measured in a separate process.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import scipy.sparse
from sklearn.datasets import dump_svmlight_file
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from benchmarks.measure import Row, against, alone
from benchmarks.targets import GAMMA, pixels
from mercer import KernelRegressor, RandomFourier, open_stream

ROWS, SIZE = 60_000, 4096
RIVAL = "sklearn RBFSampler, Ridge"
ROOT = Path(__file__).parents[1]


def rows(rounds: int) -> Iterator[Row]:
    """Return all rows; a fit takes seconds to minutes, so three rounds are enough."""
    rounds = min(rounds, 3)
    yield from fits(rounds)
    yield from memory()
    yield from growth()
    yield from sources(rounds)


def ours(size: int) -> KernelRegressor:
    """Return the estimator with the default design of the map."""
    return KernelRegressor(RandomFourier(size, gamma=GAMMA, random_state=0), alpha=1.0)


def theirs(size: int) -> Any:
    return make_pipeline(
        RBFSampler(gamma=GAMMA, n_components=size, random_state=0), Ridge(alpha=1.0)
    )


def fits(rounds: int, n: int = ROWS, size: int = SIZE) -> Iterator[Row]:
    """Time a fit on all rows and predictions of a sixth of them, on all threads."""
    X, source = pixels(n)
    y = target(X)
    what = f"{source} {len(X)}x{X.shape[1]} -> {size}, float32"
    yield against(
        f"fit, {what}",
        lambda: ours(size).fit(X, y),
        RIVAL,
        lambda: theirs(size).fit(X, y),
        rounds,
        target=1.3,
    )
    some = X[: n // 6]
    one, other = ours(size).fit(X[:5000], y[:5000]), theirs(size).fit(X[:5000], y[:5000])
    both = partial(one.predict, some), RIVAL, partial(other.predict, some)
    yield against(
        f"predict {len(some)} rows, {source} -> {size}, float32", *both, rounds, target=1.3
    )


def memory(n: int = ROWS, size: int = SIZE) -> Iterator[Row]:
    """Measure the peak memory of a fit in addition to X, which is in memory."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        X, source = pixels(n)
        np.save(path, X)
        mine, rival = (in_a_process(which, path, size) for which in ("ours", "theirs"))
    ratio = rival["peak"] / mine["peak"]
    yield Row(
        f"memory of that fit above X: {ratio:.2f} times less, {megabytes(mine)} against "
        f"{megabytes(rival)} ({source} {n} rows)",
        1e3 * mine["seconds"],
        rival=RIVAL,
        rival_milliseconds=1e3 * rival["seconds"],
        target=3.5,
    )


def growth(
    few: int = 100_000, many: int = 1_000_000, d: int = 100, size: int = 1024
) -> Iterator[Row]:
    """Measure the peak memory of a fit from a .npy file, at two numbers of rows."""
    peaks = []
    for n in (few, many):
        with TemporaryDirectory() as folder:
            path = Path(folder) / "rows.npy"
            rng = np.random.default_rng(0)
            file = np.lib.format.open_memmap(path, "w+", np.float32, (n, d + 1))
            for start in range(0, n, 10_000):
                file[start : start + 10_000] = rng.random(
                    (min(10_000, n - start), d + 1), dtype=np.float32
                )
            file.flush()
            del file
            seen = in_a_process("file", path, size)
        peaks.append(seen["whole"])
        held = f"{seen['whole'] / 1e6:.0f} MB in all, {megabytes(seen)} above the start"
        yield Row(f"fit from .npy, {n} x {d} -> {size}, float32: {held}", 1e3 * seen["seconds"])
    change = 100 * (peaks[1] / peaks[0] - 1)
    yield Row(
        f"memory in all grows by {change:.1f}% from {few} to {many} rows (below 5% is wanted)", 0.0
    )


def sources(rounds: int, n: int = 20_000, d: int = 100, size: int = 256) -> Iterator[Row]:
    """Measure rows per second from each source, with 256 features."""
    X = np.random.default_rng(0).random((n, d), dtype=np.float32)
    y = target(X)
    names = [f"x{i}" for i in range(d)]
    with TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "rows.npy", np.column_stack([X, y.astype(np.float32)]))
        np.savez(folder / "rows.npz", X=X, y=y)
        scalars = pa.table({**dict(zip(names, X.T, strict=True)), "y": y})
        lists = pa.table({"x": pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), d), "y": y})
        pa.parquet.write_table(scalars, folder / "scalars.parquet")
        pa.parquet.write_table(lists, folder / "lists.parquet")
        pa.csv.write_csv(scalars, folder / "rows.csv")
        dump_svmlight_file(X, y, str(folder / "rows.svm"), zero_based=True)
        opened = {
            "array": lambda: open_stream((X, y)),
            "CSR, all entries": lambda: open_stream((scipy.sparse.csr_array(X), y)),
            ".npy": lambda: open_stream(folder / "rows.npy", target=-1),
            ".npz": lambda: open_stream(folder / "rows.npz"),
            "Parquet, a column of lists": lambda: open_stream(folder / "lists.parquet", target="y"),
            "Parquet, 100 columns": lambda: open_stream(folder / "scalars.parquet", target="y"),
            "CSV": lambda: open_stream(folder / "rows.csv", target="y"),
            "svmlight": lambda: open_stream(folder / "rows.svm"),
        }
        for source, opener in opened.items():
            row = alone(source, lambda opener=opener: ours(size).fit(opener()), rounds)
            speed = n / (row.milliseconds / 1e3)
            yield Row(
                f"fit from {source}, {n}x{d} -> {size}: {speed:,.0f} rows a second",
                row.milliseconds,
            )


def target(X: np.ndarray) -> np.ndarray:
    """Return a smooth function of the rows."""
    return np.sin(X @ np.random.default_rng(1).normal(size=X.shape[1]) / np.sqrt(X.shape[1]))


def megabytes(seen: dict[str, float]) -> str:
    return f"{seen['peak'] / 1e6:.0f} MB"


def in_a_process(which: str, path: Path, size: int) -> dict[str, float]:
    """Return seconds, additional and total peak memory of a fit in a separate process."""
    command = [sys.executable, "-m", "benchmarks.learning", which, str(path), str(size)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    seen: dict[str, float] = json.loads(done.stdout)
    return seen


def main(which: str, path: str, size: str) -> None:
    """Run the separate process: "ours" and "theirs" fit an array, "file" fits from a file."""
    import time

    model: Any = (theirs if which == "theirs" else ours)(int(size))
    X = None if which == "file" else np.load(path)
    y = None if X is None else target(X)
    before = resident("VmRSS")
    start = time.perf_counter()
    if which == "file":
        model.fit(open_stream(path, target=-1))
    else:
        model.fit(X, y)
    seconds = time.perf_counter() - start
    whole = resident("VmHWM")
    print(json.dumps({"seconds": seconds, "whole": whole, "peak": whole - before}))


def resident(field: str) -> int:
    """Return the resident bytes now (VmRSS), or their peak (VmHWM).

    The peak of getrusage would be the parent's, where that is larger.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return 1024 * int(line.split()[1])
    raise ValueError(f"/proc/self/status has no {field}")


if __name__ == "__main__":
    main(*sys.argv[1:])
