"""Whole fits, alpha chosen, over rows, features and losses, against scikit-learn on the same map.

The rival fits scikit-learn's linear model to the features of the same map, at the one alpha that
was chosen here. Each fit runs in a process of its own, with a limit of time; its peak memory is
beyond that of the imports and the rows. Runs alternate.
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
LOSSES = ("squared", "squared_hinge", "logistic")


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


def _compare(case: Case, loss: str, name: str, rounds: int) -> Row:
    ours, theirs = [_run("ours", case, loss, None)], []
    alpha = ours[0].get("alpha")
    theirs.append(_run("theirs", case, loss, alpha))
    long = max(ours[0]["seconds"], theirs[0]["seconds"]) > LIMIT / 30
    for _ in range(0 if long else min(rounds, 3) - 1):
        ours.append(_run("ours", case, loss, None))
        theirs.append(_run("theirs", case, loss, alpha))
    mine, other = (np.array([run["seconds"] for run in runs]) for runs in (ours, theirs))
    low, median, high = (float(q) for q in np.percentile(other / mine, [25, 50, 75]))
    text = (
        f"{name}; accuracy {ours[0].get('accuracy', 0):.2%}, {theirs[0].get('accuracy', 0):.2%}; "
        f"memory {megabytes(ours[0])}, {megabytes(theirs[0])}; {ours[0].get('route')}"
    )
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


def _run(which: str, case: Case, loss: str, alpha: float | None) -> dict[str, Any]:
    """Return what the process of one fit prints; its limit where it did not end."""
    command = [sys.executable, "-m", "benchmarks.regimes", which, json.dumps([*case, loss, alpha])]
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
    *fields, loss, alpha = json.loads(text)
    case = Case(*fields)
    parts = np.load(_path(case.data), allow_pickle=False)
    X, y, n = parts["X"].astype(np.float64), parts["y"], int(parts["n_train"])
    if not n:  # no official split
        order = np.random.default_rng(0).permutation(len(X))
        X, y, n = X[order], y[order], len(X) // 2
    training = slice(None, n if case.rows is None else min(n, case.rows))
    fit = _fit_ours if which == "ours" else _fit_theirs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit(case, loss, 1.0, X[:50], y[:50])  # imports
        before, start = resident("VmRSS"), time.perf_counter()
        model, found = fit(case, loss, alpha, X[training], y[training])
        found |= {"seconds": time.perf_counter() - start, "peak": resident("VmHWM") - before}
    found["accuracy"] = float(np.mean(model(X[n:]) == y[n:]))
    print(json.dumps(found))


def _map(case: Case) -> Any:
    from mercer import GCWS, RandomFourier, Scaled

    if case.feature_map == "gcws":
        return GCWS(case.size, random_state=0)
    return Scaled() >> RandomFourier(case.size, random_state=0)


def _fit_ours(case: Case, loss: str, alpha: float | None, X: Any, y: Any) -> tuple[Any, Any]:
    from mercer import KernelClassifier

    model = KernelClassifier(
        _map(case), loss=loss, alpha="auto" if alpha is None else alpha, scale=False
    ).fit(X, y)
    return model.predict, {"alpha": model.alpha_, "route": model.plan_.route}


def _fit_theirs(case: Case, loss: str, alpha: float, X: Any, y: Any) -> tuple[Any, Any]:
    """Fit scikit-learn's model of the same objective; the squared hinge has no 1/2."""
    from sklearn.linear_model import LogisticRegression, RidgeClassifier
    from sklearn.svm import LinearSVC

    feature_map = _map(case).fit(X)
    models: dict[str, Any] = {
        "squared": RidgeClassifier(alpha),
        "squared_hinge": LinearSVC(C=1 / alpha, random_state=0),
        "logistic": LogisticRegression(C=1 / alpha, max_iter=1000),
    }
    model = models[loss].fit(feature_map.transform(X), y)
    name = f"{case.feature_map}, {type(model).__name__} at that alpha"
    return lambda rows: model.predict(feature_map.transform(rows)), {"name": name}


if __name__ == "__main__":
    main(*sys.argv[1:])
