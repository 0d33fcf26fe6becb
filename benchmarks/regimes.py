"""Whole fits, alpha chosen, over rows, features and losses, against scikit-learn on the same map.

The rival fits scikit-learn's linear model to the features of the same map, at the one alpha that
was chosen here, to the same objective: the tolerance of LogisticRegression, whose default stops
early, is the first of TOLERANCES at which its objective is at most 0.1% above ours. For squared
loss there is a second rival, which chooses alpha too. Each fit runs in a process of its own, with a
limit of time; its peak memory is beyond that of the imports and the rows. Runs alternate.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.learning import ROOT, megabytes, resident
from benchmarks.measure import Row

LIMIT = 300  # seconds
LOSSES = ("squared", "squared_hinge", "log_loss")
TOLERANCES = (1e-4, 1e-5, 1e-6, 1e-7)


class Case(NamedTuple):
    """A data set of $MERCER_DATA, its first rows, a map and its size."""

    data: str
    rows: int | None
    feature_map: str
    size: int

    def __str__(self) -> str:
        rows = "all" if self.rows is None else f"{self.rows:,}"
        return f"{self.data}, {rows} rows, {self.feature_map} {self.size:,}"


CASES = (
    Case("letter", 2000, "fourier", 1024),
    Case("letter", 2000, "fourier", 4096),
    Case("letter", 2000, "gcws", 64),
    Case("letter", 2000, "fourier", 32_768),
    Case("letter", 2000, "gcws", 512),
    Case("letter", None, "fourier", 1024),
    Case("letter", None, "fourier", 4096),
    Case("letter", None, "gcws", 64),
    Case("letter", None, "gcws", 256),
    Case("satimage", None, "fourier", 1024),
    Case("satimage", None, "gcws", 256),
    Case("magic", None, "fourier", 1024),
    Case("shuttle", None, "fourier", 1024),
    Case("shuttle", None, "gcws", 64),
    Case("mnist", None, "fourier", 1024),
    Case("mnist", None, "fourier", 4096),
    Case("mnist", None, "gcws", 256),
)


def rows(rounds: int) -> Iterator[Row]:
    """Return a row for each case and loss, whose data is there; one run of each where it is long.

    The environment variable REGIMES chooses cases by a regular expression.
    """
    chosen = os.environ.get("REGIMES", "")
    for case in CASES:
        for loss in LOSSES:
            name = f"{case}, {loss}"
            if re.search(chosen, name) and _path(case.data).is_file():
                yield _compare(case, loss, name, rounds)
                if loss == "squared":
                    yield _compare(case, loss, f"{name}, alpha chosen by both", rounds, "choosing")


def _compare(case: Case, loss: str, name: str, rounds: int, rival: str = "theirs") -> Row:
    ours = [_run("ours", case, loss)]
    alpha, objective = ours[0].get("alpha"), ours[0].get("objective", np.inf)
    for tol in TOLERANCES if loss == "log_loss" else TOLERANCES[:1]:
        theirs = [_run(rival, case, loss, alpha, tol)]
        if theirs[0].get("late") or theirs[0]["objective"] <= 1.001 * objective:
            break
    long = max(ours[0]["seconds"], theirs[0]["seconds"]) > LIMIT / 30
    for _ in range(0 if long else min(rounds, 3) - 1):
        ours.append(_run("ours", case, loss))
        theirs.append(_run(rival, case, loss, alpha, tol))
    mine, other = (np.array([run["seconds"] for run in runs]) for runs in (ours, theirs))
    low, median, high = (float(q) for q in np.percentile(other / mine, [25, 50, 75]))
    text = (
        f"{name}; accuracy {ours[0].get('accuracy', 0):.2%}, {theirs[0].get('accuracy', 0):.2%}; "
        f"memory {megabytes(ours[0])}, {megabytes(theirs[0])}; {ours[0].get('route')}"
    )
    if rival == "theirs" and "objective" in theirs[0]:
        text += f"; its objective {theirs[0]['objective'] / objective - 1:+.2%}"
    if theirs[0].get("late"):
        text += f"; the rival was stopped after {LIMIT} s"
    return Row(
        text,
        1e3 * float(np.median(mine)),
        rival=theirs[0].get("name", ""),
        rival_milliseconds=1e3 * float(np.median(other)),
        times=(low, median, high),
        target=1.0,
    )


def _run(
    which: str, case: Case, loss: str, alpha: float | None = None, tol: float = 1e-4
) -> dict[str, Any]:
    """Return what the process of one fit prints; its limit where it did not end."""
    given = json.dumps([*case, loss, alpha, tol])
    command = [sys.executable, "-m", "benchmarks.regimes", which, given]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, cwd=ROOT, timeout=LIMIT
        )
    except subprocess.TimeoutExpired:
        return {"seconds": float(LIMIT), "peak": float("nan"), "late": True}
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


def _path(data: str) -> Path:
    return Path(os.environ.get("MERCER_DATA", "")) / f"{data}.npz"


def main(which: str, text: str) -> None:
    """Fit once and print seconds, peak memory and accuracy on the test rows as JSON."""
    *fields, loss, alpha, tol = json.loads(text)
    case = Case(*fields)
    parts = np.load(_path(case.data), allow_pickle=False)
    X, y, n = parts["X"].astype(np.float64), parts["y"], int(parts["n_train"])
    if not n:  # no official split
        order = np.random.default_rng(0).permutation(len(X))
        X, y, n = X[order], y[order], len(X) // 2
    training = slice(None, n if case.rows is None else min(n, case.rows))
    fit = {"ours": _fit_ours, "theirs": _fit_theirs, "choosing": _fit_choosing}[which]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit(case, loss, 1.0, 1e-4, X[:50], y[:50])  # imports
        before, start = resident("VmRSS"), time.perf_counter()
        fitted = fit(case, loss, alpha, tol, X[training], y[training])
        found = {"seconds": time.perf_counter() - start, "peak": resident("VmHWM") - before}
    found |= fitted.about | {"accuracy": float(np.mean(fitted.predict(X[n:]) == y[n:]))}
    found["objective"] = _objective(case, loss, fitted, X[training], y[training])
    print(json.dumps(found))


class Fitted(NamedTuple):
    """Predictions of a fitted model, its coefficients and alpha, and what is said of it."""

    predict: Any
    coef: Any  # (t, D)
    intercept: Any
    alpha: float
    about: dict[str, Any]


def _objective(case: Case, loss: str, fitted: Fitted, X: Any, y: Any) -> float:
    """Return sum loss + alpha/2 |w|^2 of all rows; (f - y)^2/2 for squared loss."""
    from scipy.special import logsumexp

    F = np.zeros((len(X), len(fitted.coef)))
    feature_map = _map(case).fit(X)
    for rows in np.array_split(np.arange(len(X)), max(1, len(X) // 4096)):
        F[rows] = feature_map.transform(X[rows]) @ fitted.coef.T + fitted.intercept
    classes, number = np.unique(y, return_inverse=True)
    if len(classes) == 2:
        Y = np.where(number == 1, 1.0, -1.0)[:, None]
    else:
        Y = np.where(number[:, None] == np.arange(len(classes)), 1.0, -1.0)
    if loss == "squared":
        total = np.sum((F - Y) ** 2) / 2
    elif loss == "squared_hinge":
        total = np.sum(np.maximum(0, 1 - Y * F) ** 2)
    elif len(classes) == 2:
        total = np.sum(np.logaddexp(0, -Y * F))
    else:
        total = np.sum(logsumexp(F, axis=1) - F[np.arange(len(F)), number])
    return float(total + fitted.alpha / 2 * np.sum(fitted.coef**2))


def _map(case: Case) -> Any:
    from mercer import GCWS, RandomFourier, Scaled

    if case.feature_map == "gcws":
        return GCWS(case.size, random_state=0)
    return Scaled() >> RandomFourier(case.size, random_state=0)


def _fit_ours(case: Case, loss: str, alpha: float | None, tol: float, X: Any, y: Any) -> Fitted:
    from mercer import KernelClassifier

    model = KernelClassifier(
        _map(case), loss=loss, alpha="auto" if alpha is None else alpha, scale=False
    ).fit(X, y)
    about = {"alpha": model.alpha_, "route": model.plan_.route}
    coef = np.atleast_2d(model.feature_coef_)
    return Fitted(model.predict, coef, model.intercept_, model.alpha_, about)


def _fit_choosing(case: Case, loss: str, alpha: float, tol: float, X: Any, y: Any) -> Fitted:
    """Fit RidgeClassifierCV, which chooses alpha by leave-one-out of every second of our grid."""
    from sklearn.linear_model import RidgeClassifierCV

    feature_map = _map(case).fit(X)
    Z = feature_map.transform(X)
    dense = Z if isinstance(Z, np.ndarray) else Z.toarray()
    scale = float(np.mean(np.var(dense, axis=0)) * len(dense)) or 1.0
    model = RidgeClassifierCV(scale * 10.0 ** np.arange(-10, 3)).fit(dense, y)
    return _of_rival(feature_map, model, float(model.alpha_))


def _of_rival(feature_map: Any, model: Any, alpha: float) -> Fitted:
    return Fitted(
        lambda rows: model.predict(feature_map.transform(rows)),
        np.atleast_2d(model.coef_),
        model.intercept_,
        alpha,
        {"name": type(model).__name__},
    )


def _fit_theirs(case: Case, loss: str, alpha: float, tol: float, X: Any, y: Any) -> Fitted:
    """Fit scikit-learn's model of the same objective; the squared hinge has no 1/2."""
    from sklearn.linear_model import LogisticRegression, RidgeClassifier
    from sklearn.svm import LinearSVC

    feature_map = _map(case).fit(X)
    models: dict[str, Any] = {
        "squared": RidgeClassifier(alpha),
        "squared_hinge": LinearSVC(C=1 / alpha, random_state=0),
        "log_loss": LogisticRegression(C=1 / alpha, max_iter=100_000, tol=tol),
    }
    return _of_rival(feature_map, models[loss].fit(feature_map.transform(X), y), alpha)


if __name__ == "__main__":
    main(*sys.argv[1:])
