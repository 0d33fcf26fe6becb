"""Landmarks of Nystroem maps: Gram error on rows that were not seen, and seconds of a fit.

Six sets of $MERCER_DATA, two thirds of the rows and at most 10,240 to choose from, 1,500 others to
measure on; gammas of the median rule; medians over three seeds. Sets that are not there are left
out.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from benchmarks.measure import Row
from mercer import Nystroem, gram

SETS = ("letter", "magic", "mnist", "satimage", "shuttle", "spambase")
KERNELS = ("gaussian", "laplacian", "exp-chi2")
SIZES = (64, 128, 256, 512, 1024)
LANDMARKS = ("rpcholesky", "uniform", "kmeans++", "leverage")
SEEDS = 3
PICTURE = Path(__file__).parents[1] / "docs" / "landmarks.svg"


def rows(rounds: int) -> Iterator[Row]:
    """Yield a row for each set, kernel and number of landmarks, then the totals."""
    half = better = count = 0
    logs = []
    for name, X in data_sets():
        for kernel in KERNELS:
            train, test = prepare(X, kernel)
            errors: dict[tuple[str, int], float] = {}
            for size in (*SIZES, 2 * SIZES[-1]):
                names = LANDMARKS if size in SIZES else ("uniform",)
                seconds = {}
                for landmarks in names:
                    found, took = [], []
                    for seed in range(SEEDS):
                        phi = Nystroem(
                            min(size, len(train)),
                            kernel=kernel,
                            landmarks=landmarks,
                            random_state=seed,
                        )
                        start = time.process_time()
                        phi.fit(train)
                        took.append(time.process_time() - start)
                        Z, exact = phi.transform(test), gram(phi.kernel_, test)
                        found.append(np.linalg.norm(Z @ Z.T - exact) / np.linalg.norm(exact))
                    errors[landmarks, size] = float(np.median(found))
                    seconds[landmarks] = float(np.median(took))
                if size in SIZES:
                    yield Row(
                        f"{name}, {kernel}, {size} landmarks; kmeans++ "
                        f"{errors['kmeans++', size]:.2e}, leverage {errors['leverage', size]:.2e}",
                        1e3 * seconds["rpcholesky"],
                        rival="uniform",
                        rival_milliseconds=1e3 * seconds["uniform"],
                        error=errors["rpcholesky", size],
                        rival_error=errors["uniform", size],
                    )
            for size in SIZES:
                ours, theirs = errors["rpcholesky", size], errors["uniform", size]
                half += ours <= errors["uniform", 2 * size]
                better += ours <= theirs
                logs.append(np.log(ours / theirs))
                count += 1
    if count:
        low, middle, high = np.exp(np.percentile(logs, (25, 50, 75)))
        yield Row(
            f"error not above that of uniform in {better} of {count} cases, and of twice as many "
            f"uniform ones in {half}; error over that of uniform {middle:.2f} ({low:.2f}-"
            f"{high:.2f})",
            0.0,
        )


def data_sets() -> Iterator[tuple[str, np.ndarray]]:
    """Yield names and rows in random order."""
    folder = Path(os.environ.get("MERCER_DATA", ""))
    for name in SETS:
        path = folder / f"{name}.npz"
        if path.is_file():
            X = np.load(path)["X"].astype(np.float64)
            yield name, X[np.random.default_rng(0).permutation(len(X))]


def prepare(X: np.ndarray, kernel: str) -> tuple[Any, Any]:
    """Return rows to fit to and to measure on: scaled, or from 0 on for kernels of histograms."""
    n = min(2 * len(X) // 3, 10_240)
    X = X[: n + 1500]
    X = X - X.min(axis=0) if kernel == "exp-chi2" else StandardScaler().fit_transform(X)
    return X[:n], X[n:]


def finish(table: Sequence[Row]) -> None:
    """Draw errors against landmarks, a panel for each set and kernel."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "mercer"
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

    curves: dict[tuple[str, str], dict[str, list[float]]] = {}
    for row in table:
        if row.rival is None:
            continue
        name, kernel, rest = row.what.split(", ", 2)
        others = dict(part.rsplit(" ", 1) for part in rest.split("; ")[1].split(", "))
        found = {"rpcholesky": row.error, "uniform": row.rival_error, **others}
        for landmarks, error in found.items():
            curve = curves.setdefault((name, kernel), {})
            curve.setdefault(landmarks, []).append(float(error))  # type: ignore[arg-type]
    names = list(dict.fromkeys(name for name, _ in curves))
    if not names:
        return
    figure, axes = plt.subplots(
        len(KERNELS), len(names), figsize=(2.1 * len(names), 6), sharex=True, layout="constrained"
    )
    for (name, kernel), lines in curves.items():
        place = axes.reshape(len(KERNELS), -1)[KERNELS.index(kernel), names.index(name)]
        for landmarks, marker in zip(LANDMARKS, "osv^", strict=True):
            place.loglog(SIZES, lines[landmarks], marker=marker, markersize=3, label=landmarks)
        place.set_title(f"{name}, {kernel}", fontsize=8)
        place.grid(alpha=0.25)
        place.tick_params(labelsize=7)
        place.yaxis.set_minor_formatter(NullFormatter())
        place.yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
        place.yaxis.set_major_formatter("{x:.2g}")
        place.set_xticks(SIZES, [str(size) for size in SIZES])
        place.xaxis.set_minor_locator(NullLocator())
    figure.legend(*place.get_legend_handles_labels(), loc="outside upper center", ncol=4)
    figure.supxlabel("landmarks", fontsize=9)
    figure.supylabel("Gram error on other rows, relative", fontsize=9)
    figure.savefig(PICTURE, metadata={"Date": None})
