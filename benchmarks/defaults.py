"""Bandwidths by default against the best of a grid: accuracy (R2 for diabetes) on test rows.

Six sets of counts and histograms and six tables. Columns are scaled where the estimators scale
them, for the default and for the grid. A set without a file in $MERCER_DATA is left out.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from sklearn import datasets
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from benchmarks.measure import Row
from mercer import (
    CompressiveFourier,
    ExpChi2,
    KernelClassifier,
    KernelRegressor,
    Nystroem,
    RandomFourier,
    RandomLaplace,
    Scaled,
    SkewedFourier,
)
from mercer.maps.base import Map

COUNTS = ("digits", "mnist", "fashion_mnist", "caltech101_bow", "reuters_r8", "spambase")
TABLES = ("wine", "breast_cancer", "diabetes", "letter", "satimage", "magic")
NUMERIC = ("diabetes",)
OF_SKLEARN = ("digits", "wine", "breast_cancer", "diabetes")
SIZE = 256
ROWS = 500  # to fit to, and as many to test; half of a smaller set
SPLITS = 3  # of a set of fewer than 2 * ROWS rows, whose scores are averaged
FACTORS = tuple(4.0**k for k in range(-3, 4))
NEAR = 5.0  # points that a default may be below the best

Split = tuple[Any, np.ndarray, Any, np.ndarray]


def maps(counts: bool) -> dict[str, tuple[Map, str]]:
    """Return maps with a bandwidth, by name, and its parameter."""
    fourier = {
        f"fourier {kernel}": (RandomFourier(SIZE, kernel=kernel), "gamma")
        for kernel in ("gaussian", "laplacian", "cauchy", "matern", "cosine-rbf")
    }
    everywhere = fourier | {
        "compressive": (CompressiveFourier(SIZE), "gamma"),
        "nystroem gaussian": (Nystroem(SIZE), "gamma"),
    }
    if not counts:
        return everywhere
    return everywhere | {
        "nystroem exp-chi2": (Nystroem(SIZE, kernel="exp-chi2"), "gamma"),
        "exp-chi2": (ExpChi2(SIZE), "gamma"),
        "skewed chi2": (SkewedFourier(SIZE), "skew"),
        "skewed intersection": (SkewedFourier(SIZE, kernel="intersection"), "skew"),
        "laplace exponential": (RandomLaplace(SIZE), "beta"),
        "laplace reciprocal": (RandomLaplace(SIZE, kernel="reciprocal"), "beta"),
    }


def rows(rounds: int) -> Iterator[Row]:
    """Return a row for each map and set, then one for the largest loss of each map."""
    losses: dict[str, dict[str, float]] = {}
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Nystroem: fewer rows than landmarks
        for data in (*COUNTS, *TABLES):
            parts = splits(data)
            for name, (feature_map, parameter) in maps(data in COUNTS).items() if parts else ():
                start = time.perf_counter()
                scores = np.mean(
                    [scores_of(feature_map, parameter, split, data) for split in parts], axis=0
                )
                seconds = time.perf_counter() - start
                default, best = scores[FACTORS.index(1.0)], scores.max()
                losses.setdefault(name, {})[data] = best - default
                yield Row(
                    f"{name}, {data}: {default:.1f} by default, {best:.1f} at best, "
                    f"{parameter} {FACTORS[int(scores.argmax())]:g} times as large",
                    1e3 * seconds / (len(parts) * len(FACTORS)),
                )
    for name, lost in losses.items():
        worst = max(lost, key=lambda data: lost[data])
        near = sum(loss <= NEAR for loss in lost.values())
        yield Row(
            f"{name}: within {NEAR:g} points of the best on {near} of {len(lost)} sets; "
            f"{np.mean(list(lost.values())):.1f} below on average, at most {lost[worst]:.1f} "
            f"({worst})",
            0.0,
        )


def scores_of(feature_map: Map, parameter: str, split: Split, data: str) -> list[float]:
    """Return the score of the default bandwidth times each factor."""
    X, y, X_test, y_test = split
    if feature_map.depends_on_units:
        scaled = Scaled().fit(X)
        X, X_test = scaled.transform(X), scaled.transform(X_test)
    fitted = clone(feature_map).set_params(random_state=0).fit(X)
    estimated = getattr(fitted, f"{parameter}_")
    scores = []
    for factor in FACTORS:
        tried = clone(fitted).set_params(**{parameter: estimated * factor})
        cls: Any = KernelRegressor if data in NUMERIC else KernelClassifier
        model = cls(tried, scale=False, random_state=0)
        scores.append(100 * float(model.fit(X, y).score(X_test, y_test)))
    return scores


def splits(data: str) -> list[Split]:
    """Return random halves of a sample of rows to fit to and to test; none without the file."""
    if data in OF_SKLEARN:
        X, y = getattr(datasets, f"load_{data}")(return_X_y=True)
    else:
        path = Path(os.environ.get("MERCER_DATA", "")) / f"{data}.npz"
        if not path.is_file():
            return []
        stored = np.load(path, allow_pickle=False)
        csr = (stored["data"], stored["indices"], stored["indptr"]) if "indptr" in stored else None
        X = stored["X"] if csr is None else scipy.sparse.csr_array(csr, shape=stored["shape"])
        y = stored["y"]
    n = X.shape[0]
    half = min(ROWS, n // 2)
    made = []
    for seed in range(SPLITS if n < 2 * ROWS else 1):
        chosen = np.random.default_rng(seed).permutation(n)[: 2 * half]
        sample = X[chosen].astype(np.float64)
        made.append((sample[:half], y[chosen[:half]], sample[half:], y[chosen[half:]]))
    return made
