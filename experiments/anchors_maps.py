"""Maps, rows and learner of the ANNFM paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from experiments.heads import Score, svm
from experiments.running import Bench
from experiments.sets import Split
from mercer.kernels import Additive, Chi2, Intersection, JensenShannon
from mercer.maps.anchors import Anchors
from mercer.maps.base import Map
from mercer.maps.homogeneous import Homogeneous

DIGITS, BOW = "mnist", "caltech101_bow"
KERNELS: dict[str, Additive] = {
    "chi2": Chi2(),
    "jensen-shannon": JensenShannon(),
    "intersection": Intersection(),
}
CAPTION, TEXT = 0.95, 0.99  # the energy, in the two places where the paper tells it

C_UNIT = 1.0  # of features whose rows have norm 1, such as signs

Make = Callable[[int], Map | None]  # of a seed; None is the rows as they are


def near(
    n: int, kernel: str, k: int = 1, energy: float = CAPTION, spacing: str = "uniform"
) -> Anchors:
    """Return k-ANNFM with n anchors, on [0, 1] where they are uniform."""
    places: dict[str, Any] = {"feature_range": (0.0, 1.0)} if spacing == "uniform" else {}
    return Anchors(
        n,
        kernel=kernel,
        spacing=spacing,
        n_neighbors=k,
        weights="equal",
        energy=energy,
        sparse_output=True,
        **places,
    )


def between(n: int, kernel: str, energy: float = TEXT, spacing: str = "uniform") -> Anchors:
    """Return ANNFM with linear weights in place of the paper's equal ones."""
    return near(n, kernel, 2, energy, spacing).set_params(weights="linear")


def digits(bench: Bench, train: int | None, test: int | None = None) -> Split:
    """Return so many rows of MNIST, pixels in [0, 1]."""
    split = bench.sets[DIGITS].split(train, test)
    X, X_test = (rows.astype(np.float32) / np.float32(255) for rows in (split.X, split.X_test))
    return replace(split, X=X, X_test=X_test)


def bags(bench: Bench) -> Split:
    """Return caltech101_bow with columns scaled by their largest training value.

    Uniform anchors on [0, 1] need columns of that range.
    """
    split = bench.sets[BOW].split(*bench.pick((200, 200), (None, None), (None, None)))
    largest = np.maximum(split.X.max(axis=0), 1).astype(np.float32)
    return replace(
        split,
        X=split.X.astype(np.float32) / largest,
        X_test=split.X_test.astype(np.float32) / largest,
    )


def score(make: Make, split: Split, C: float, seed: int = 0, *, together: bool = False) -> Score:
    """Score LIBLINEAR with tolerance 0.1 on sparse features.

    Squared hinge, one-vs-rest or all classes together (Crammer and Singer).
    """
    feature_map = make(seed)
    # The others are codes either way.
    if feature_map is None or isinstance(feature_map, Homogeneous):
        split = replace(split, X=sp.csr_array(split.X), X_test=sp.csr_array(split.X_test))
    return svm(
        feature_map,
        split,
        C=C,
        dual=True,
        tol=0.1,
        multi_class="crammer_singer" if together else "ovr",
    )
