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
from sklearn.linear_model import RidgeClassifierCV
from sklearn.svm import SVC

from mercer.blocks import as_block
from mercer.grams import gram
from mercer.kernels import Kernel, Linear
from mercer.maps import registry
from mercer.maps.base import Map
from mercer.pairs import drawn_pairs, inner_products, kernel_values

Array = NDArray[Any]

ALPHAS = np.logspace(-5, 3, 9)  # of the ridge head, chosen by generalised cross-validation
SVM_C = 10.0
PAIRS = 20000
_SEED = 0


@dataclass(frozen=True)
class Split:
    """Training rows and held-out rows with their classes."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array


@dataclass(frozen=True)
class Entry:
    """One row of the table.

    kernel is the exact one, or the one that is approximated; gram_error is the root mean square over held-out pairs, relative, and None
    where nothing is approximated.
    """

    name: str
    kernel: Kernel
    accuracy: float
    gram_error: float | None
    features: int
    bytes_per_row: float
    fit_seconds: float
    predict_seconds: float


def contestants(split: Split) -> list[tuple[str, Callable[[], Entry]]]:
    """(name, run) for linear, for the exact kernel of each map (but laborious ones), and for each registered map with its defaults."""
    maps = [
        cls(**({"random_state": _SEED} if "random_state" in cls().get_params() else {})) for cls in registry().values()
    ]
    usable = [one for one in maps if one.domain == "real" or min(split.X.min(), split.X_test.min()) >= 0]
    kernels = [clone(one).fit(split.X).kernel_ for one in usable]
    exact = {repr(kernel): kernel for kernel in kernels if not kernel.laborious}
    runs: list[tuple[str, Callable[[], Entry]]] = [("linear", partial(_linear, split))]
    runs += [(f"exact {name}", partial(_exact, split, kernel)) for name, kernel in exact.items()]
    runs += [(str(one.name), partial(_mapped, split, one)) for one in usable]
    return runs


def digits() -> Split:
    """scikit-learn's digits as histograms of ink (rows with sum 1), three quarters for training."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X / X.sum(axis=1, keepdims=True), y, random_state=_SEED, stratify=y)
    return Split(X, y, X_test, y_test)


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
    model = SVC(kernel="precomputed", C=SVM_C).fit(gram(kernel, split.X), split.y)
    fitted = time.perf_counter()
    accuracy = float(np.mean(model.predict(gram(kernel, split.X_test, split.X)) == split.y_test))
    done = time.perf_counter()
    n = len(split.X)
    return Entry("exact", kernel, accuracy, None, n, 8.0 * n, fitted - start, done - fitted)


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
    model = RidgeClassifierCV(alphas=ALPHAS).fit(features(split.X), split.y)
    fitted = time.perf_counter()
    accuracy = float(np.mean(model.predict(features(split.X_test)) == split.y_test))
    done = time.perf_counter()
    return Entry(name, kernel, accuracy, error, columns, size, fitted - start, done - fitted)
