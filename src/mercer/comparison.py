"""Linear, the exact kernels and every registered map on the same data: what each one gains and what it costs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.linear_model import RidgeClassifierCV, RidgeCV
from sklearn.metrics import r2_score
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from mercer.blocks import Dense, as_block
from mercer.grams import gram
from mercer.kernels import Kernel, Linear
from mercer.maps import registry
from mercer.maps.base import Map
from mercer.pairs import drawn_pairs, inner_products, kernel_values
from mercer.planner import size as in_words
from mercer.streams import Stream
from mercer.summaries import Reservoir

Array = NDArray[Any]

ALPHAS = np.logspace(-5, 3, 9)  # of the ridge head, chosen by generalised cross-validation
SVM_C = 10.0
RIDGES = np.logspace(-4, 0, 5)  # of exact kernel ridge regression, in units of the mean of the kernel's diagonal
PAIRS = 20000
_DENSE = 2**30  # bytes of the sample
_SEED = 0


@dataclass(frozen=True)
class Split:
    """Training rows and held-out rows with their targets: labels, or numbers where numeric."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array
    numeric: bool = False

    def score(self, predicted: Array) -> float:
        """Share of right labels, or R^2, on the held-out rows."""
        return float(r2_score(self.y_test, predicted) if self.numeric else np.mean(predicted == self.y_test))


@dataclass(frozen=True)
class Entry:
    """One row of the table.

    kernel is the exact one, or the one that is approximated; score is accuracy, or R^2; gram_error is the root mean square over held-out
    pairs, relative, and None where nothing is approximated.
    """

    name: str
    kernel: Kernel
    score: float
    gram_error: float | None
    features: int
    bytes_per_row: float
    fit_seconds: float
    predict_seconds: float


def contestants(split: Split) -> tuple[list[tuple[str, Callable[[], Entry]]], dict[str, str]]:
    """(name, run) for linear, for the exact kernel of each map (but laborious ones), and for each registered map with its defaults.

    Maps for numbers of at least 0 are left out where there are others; those that refuse the rows are named, with what they say.
    """
    maps = [
        cls(**({"random_state": _SEED} if "random_state" in cls().get_params() else {})) for cls in registry().values()
    ]
    usable, kernels, refused = [], [], {}
    for one in maps:
        if one.domain == "real" or min(split.X.min(), split.X_test.min()) >= 0:
            try:
                kernels.append(clone(one).fit(split.X).kernel_)
                usable.append(one)
            except ValueError as error:
                refused[str(one.name)] = str(error)
    exact = {repr(kernel): kernel for kernel in kernels if not kernel.laborious}
    runs: list[tuple[str, Callable[[], Entry]]] = [("linear", partial(_linear, split))]
    runs += [(f"exact {name}", partial(_exact, split, kernel)) for name, kernel in exact.items()]
    runs += [(str(one.name), partial(_mapped, split, one)) for one in usable]
    return runs, refused


def digits() -> Split:
    """scikit-learn's digits as histograms of ink (rows with sum 1), three quarters for training."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return split_rows(X / X.sum(axis=1, keepdims=True), y, numeric=False)


def split_rows(X: Array, y: Array, *, numeric: bool) -> Split:
    """Three quarters of the rows for training; classes in proportion, where each has rows enough for that."""
    counts = np.unique(y, return_counts=True)[1] if not numeric else np.zeros(1)
    even = counts.min() >= 2 and len(counts) <= len(y) // 4
    X, X_test, y, y_test = train_test_split(X, y, random_state=_SEED, stratify=y if even else None)
    return Split(X, y, X_test, y_test, numeric)


def sample(stream: Stream, rows: int, seed: int = _SEED) -> tuple[Array, Array]:
    """(X, y) of at most so many rows of a stream, drawn without replacement, in their order; X is dense, y as it came."""
    total = stream.rows if stream.rows is not None else sum(len(chunk) for chunk in stream.chunks())
    if min(rows, total) * stream.width * 8 > _DENSE:
        raise ValueError(
            f"{min(rows, total):,} rows of {stream.width:,} columns are more than {in_words(_DENSE)}: compare fewer of either."
        )
    drawn = Reservoir(rows, seed)
    drawn.add(Dense(np.arange(total, dtype=np.float64)[:, None]))
    places = np.sort(drawn.rows[:, 0].astype(np.int64))
    parts = []
    for chunk in stream.chunks():
        low, high = np.searchsorted(places, [chunk.start, chunk.start + len(chunk)])
        inside = places[low:high] - chunk.start
        X = chunk.X[inside]
        parts.append((X.toarray() if stream.sparse else X, np.asarray(chunk.y)[inside]))
    return np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts])


def gram_error(kernel: Kernel, X: Array, Z: Any, pairs: int = PAIRS, seed: int = _SEED) -> float:
    """sqrt(sum (<phi(x), phi(z)> - k(x, z))^2 / sum k(x, z)^2) over pairs of different rows drawn with replacement.

    Z has the features phi of the rows of X.
    """
    chosen = drawn_pairs(len(X), pairs, seed)
    exact = kernel_values(kernel, X, chosen)
    products = inner_products(as_block, Z, chosen)
    return float(np.sqrt(np.sum((products - exact) ** 2) / np.sum(exact**2)))


def _linear(split: Split) -> Entry:
    return _entry("linear", Linear(), split, split.X.shape[1], split.X.itemsize * split.X.shape[1], None, lambda X: X)


def _exact(split: Split, kernel: Kernel) -> Entry:
    start = time.perf_counter()
    K = gram(kernel, split.X)
    predict: Callable[[Array], Array]
    if split.numeric:
        coef, shift = _kernel_ridge(K, split.y)
        predict = lambda rows: rows @ coef + shift  # noqa: E731
    else:
        predict = SVC(kernel="precomputed", C=SVM_C).fit(K, split.y).predict
    fitted = time.perf_counter()
    score = split.score(predict(gram(kernel, split.X_test, split.X)))
    done = time.perf_counter()
    n = len(split.X)
    return Entry("exact", kernel, score, None, n, 8.0 * n, fitted - start, done - fitted)


def _kernel_ridge(K: Array, y: Array) -> tuple[Array, float]:
    """(coefficients of the training rows, the mean of y): (K + ridge) coef = y - mean, the ridge chosen on a quarter of the rows."""
    from scipy.linalg import solve

    def fit(rows: slice, ridge: float) -> tuple[Array, float]:
        part, mean = K[rows, rows], float(y[rows].mean())
        scale = ridge * float(np.trace(part)) / len(part)
        return solve(part + scale * np.eye(len(part)), y[rows] - mean, assume_a="pos"), mean

    kept = 3 * len(K) // 4
    errors = []
    for ridge in RIDGES:
        coef, mean = fit(slice(0, kept), ridge)
        errors.append(np.sum((K[kept:, :kept] @ coef + mean - y[kept:]) ** 2))
    return fit(slice(0, len(K)), float(RIDGES[int(np.argmin(errors))]))


def _mapped(split: Split, feature_map: Map) -> Entry:
    start = time.perf_counter()
    fitted = clone(feature_map).fit(split.X)
    fit_seconds = time.perf_counter() - start
    blocks = list(fitted.blocks(split.X_test))
    size = sum(block.nbytes for block in blocks) / len(split.X_test)
    error = gram_error(fitted.kernel_, split.X_test, fitted.transform(split.X_test))
    columns = blocks[0].shape[1]
    entry = _entry(str(fitted.name), fitted.kernel_, split, columns, size, error, fitted.transform)
    return replace(entry, fit_seconds=entry.fit_seconds + fit_seconds)


def _entry(
    name: str,
    kernel: Kernel,
    split: Split,
    columns: int,
    size: float,
    error: float | None,
    features: Callable[[Any], Any],
) -> Entry:
    start = time.perf_counter()
    ridge = RidgeCV if split.numeric else RidgeClassifierCV
    model = ridge(alphas=ALPHAS).fit(features(split.X), split.y)
    fitted = time.perf_counter()
    score = split.score(model.predict(features(split.X_test)))
    done = time.perf_counter()
    return Entry(name, kernel, score, error, columns, size, fitted - start, done - fitted)
