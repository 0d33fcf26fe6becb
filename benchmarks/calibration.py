"""Probabilities of KernelClassifier(uncertainty=True) beside CalibratedClassifierCV.

Squared loss, 1,024 random Fourier features, three seeds of the map and of the split where the set
has none. CalibratedClassifierCV has five folds of RidgeClassifier, with the alpha that the model
chose, or of LinearSVC, its default (not on letter: minutes), on the features of the map, which are
computed before. Milliseconds are what uncertainty=True
adds to the fit, and what CalibratedClassifierCV takes. A set without a file in $MERCER_DATA is left
out.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics import log_loss
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from benchmarks.measure import Row
from mercer import KernelClassifier, RandomFourier

SETS = ("letter", "satimage", "magic", "spambase", "digits")
FEATURES = 1024
SEEDS = 3
BINS = 15
COVERAGE = 0.9
RIVALS: dict[str, Callable[[float], Any]] = {
    "RidgeClassifier, sigmoid": lambda alpha: CalibratedClassifierCV(RidgeClassifier(alpha=alpha)),
    "RidgeClassifier, isotonic": lambda alpha: CalibratedClassifierCV(
        RidgeClassifier(alpha=alpha), method="isotonic"
    ),
    "LinearSVC, sigmoid": lambda alpha: CalibratedClassifierCV(LinearSVC()),
}
SLOW = ("letter", "LinearSVC, sigmoid")
WANTED = 10.0  # times faster


def rows(rounds: int) -> Iterator[Row]:
    """Yield a row for each set and each method of CalibratedClassifierCV."""
    for name in SETS:
        if name != "digits" and not _path(name).is_file():
            continue
        with threadpool_limits(1):
            runs = [_run(name, seed, min(rounds, 3)) for seed in range(SEEDS)]
        for rival in (each for each in RIVALS if each in runs[0]):
            ours, theirs = ([run[who] for run in runs] for who in ("mercer", rival))
            sizes = np.mean([run["sets"] for run in runs], axis=0)
            yield Row(
                f"{name}: ours {_describe(ours)}; rival {_describe(theirs)}; sets of 90%: "
                f"coverage {sizes[0]:.3f}, size {sizes[1]:.2f}",
                1e3 * float(np.median([each[0] for each in ours])),
                threads=1,
                rival=rival,
                rival_milliseconds=1e3 * float(np.median([each[0] for each in theirs])),
                times=_quartiles([b[0] / a[0] for a, b in zip(ours, theirs, strict=True)]),
                target=WANTED,
            )


def _run(name: str, seed: int, rounds: int) -> dict[str, Any]:
    """Return (seconds, ECE, Brier score, log loss) by method, and coverage and size of sets."""
    X, y, X_test, y_test = _load(name, seed)

    def fit(uncertainty: bool) -> KernelClassifier:
        feature_map = RandomFourier(FEATURES, random_state=seed)
        return KernelClassifier(feature_map, uncertainty=uncertainty, n_jobs=1).fit(X, y)

    plain = min(_seconds(lambda: fit(False))[0] for _ in range(rounds))
    fits = [_seconds(lambda: fit(True)) for _ in range(rounds)]
    model = fits[0][1]
    truth = np.searchsorted(model.classes_, y_test)
    extra = max(min(seconds for seconds, _ in fits) - plain, 1e-3)
    found: dict[str, Any] = {"mercer": (extra, *scores(model.predict_proba(X_test), truth))}
    sets = model.predict_set(X_test, COVERAGE)
    found["sets"] = (sets[np.arange(len(sets)), truth].mean(), sets.sum(axis=1).mean())
    Z, Z_test = (model.feature_map_.transform(part) for part in (X, X_test))
    for rival, build in RIVALS.items():
        if (name, rival) == SLOW:
            continue
        other = build(model.alpha_)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of LinearSVC, that has not converged
            seconds, fitted = _seconds(lambda other=other: other.fit(Z, y))
        found[rival] = (seconds, *scores(fitted.predict_proba(Z_test), truth))
    return found


def scores(P: np.ndarray, truth: np.ndarray) -> tuple[float, float, float]:
    """Return the expected calibration error of the first class, the Brier score and log loss."""
    confidence, right = P.max(axis=1), P.argmax(axis=1) == truth
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bins, right) - np.bincount(bins, confidence)
    brier = np.sum((P - np.eye(P.shape[1])[truth]) ** 2, axis=1).mean()
    loss = log_loss(truth, P, labels=np.arange(P.shape[1]))
    return float(np.abs(gaps).sum() / len(truth)), float(brier), float(loss)


def _describe(runs: list[tuple[float, ...]]) -> str:
    ece, brier, loss = np.mean(runs, axis=0)[1:]
    return f"ECE {ece:.4f}, Brier {brier:.4f}, log loss {loss:.4f}"


def _quartiles(values: list[float]) -> tuple[float, float, float]:
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return float(low), float(middle), float(high)


def _seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def _load(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        train = 0
    else:
        with np.load(_path(name), allow_pickle=False) as stored:
            X, y, train = stored["X"].astype(float), stored["y"], int(stored["n_train"])
    if not train:
        order = np.random.default_rng(seed).permutation(len(X))
        X, y, train = X[order], y[order], len(X) // 2
    return X[:train], y[:train], X[train:], y[train:]


def _path(name: str) -> Path:
    return Path(os.environ.get("MERCER_DATA", "")) / f"{name}.npz"
