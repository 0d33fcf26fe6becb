"""One-vs-rest machines on few rows and many features, in the span of the training rows.

A linear machine on n rows sees inner products only, so that n - 1 columns are as good as 29,400;
and in the rows' principal axes least squares, and its errors leaving one row out, have closed forms
for every alpha.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from experiments.heads import Score, accuracy
from experiments.sets import Split
from mercer.linear_model.losses import SquaredHinge
from mercer.linear_model.solvers.blocks import CachedBlocks
from mercer.linear_model.solvers.newton_cg import minimize_loss
from mercer.maps.base import Map
from mercer.maps.block import as_block

Array = NDArray[Any]

# In units of the mean squared distance of a training row from their mean.
ALPHAS = np.logspace(-4, 2, 19)
TOL = 1e-2  # of the machine: how far its weights may be from the best ones, as a share of them

_COLUMNS = 4096  # whose products are summed at once
_CUT = 1e-7  # of the largest eigenvalue: directions below it are rounding of float32 features


@dataclass(frozen=True, eq=False)
class Axes:
    """Training rows less their mean are vectors diag(sqrt values); test rows in the same axes.

    Attributes
    ----------
    values : array of shape (k,)
    vectors : array of shape (n, k)
    test : array of shape (m, k)
    """

    values: Array
    vectors: Array
    test: Array

    @classmethod
    def of(cls, Z: Any, Z_test: Any) -> Self:
        """Compute the axes from features, by products of rows, or of columns where fewer."""
        from scipy.linalg import eigh

        n, D = Z.shape
        mean = np.asarray(Z.mean(axis=0, dtype=np.float64)).ravel()
        if n > D:
            A, B = _centred(Z, mean), _centred(Z_test, mean)
            values, turn = _significant(
                *eigh((A.T @ A).astype(np.float64), overwrite_a=True, check_finite=False)
            )
            return cls(values, A @ (turn / np.sqrt(values)), B @ turn)
        K, K_test = np.zeros((n, n)), np.zeros((Z_test.shape[0], n))
        for start in range(0, D, _COLUMNS):
            some = slice(start, start + _COLUMNS)
            A, B = _centred(Z[:, some], mean[some]), _centred(Z_test[:, some], mean[some])
            K += A @ A.T
            K_test += B @ A.T
        return cls._of_products(K, K_test)

    @classmethod
    def of_kernel(cls, K: Array, K_test: Array) -> Self:
        """Compute the axes from kernel values of the training rows, and of test rows with them."""
        mean = K.mean(axis=0)
        centred = K - mean - mean[:, None] + mean.mean()
        return cls._of_products(
            centred, K_test - K_test.mean(axis=1, keepdims=True) - mean + mean.mean()
        )

    @classmethod
    def _of_products(cls, K: Array, K_test: Array) -> Self:
        from scipy.linalg import eigh

        values, vectors = _significant(*eigh(K, overwrite_a=True, check_finite=False))
        return cls(values, vectors, K_test @ (vectors / np.sqrt(values)))

    @property
    def train(self) -> Array:
        return self.vectors * np.sqrt(self.values)

    @property
    def scale(self) -> float:
        """Mean squared distance of a training row from their mean."""
        return float(self.values.sum() / len(self.vectors))


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """The alpha with the best leave-one-out accuracy of least squares, and that accuracy."""

    alpha: float
    right: float

    @classmethod
    def of(cls, axes: Axes, y: Array) -> Self:
        """Choose alpha; y - f(x) leaving x out is (y - f(x))/(1 - h), h the leverage of x.

        The largest alpha among equals is chosen.
        """
        index, Y = _targets(y)
        mean, squares = Y.mean(axis=0), axes.vectors**2
        projected = axes.vectors.T @ Y
        outside = np.maximum(1 - 1 / len(Y) - squares.sum(axis=1), 0.0)
        unexplained = Y - mean - axes.vectors @ projected

        def right(alpha: float) -> float:
            left = alpha / (axes.values + alpha)
            missed = unexplained + axes.vectors @ (left[:, None] * projected)
            spared = outside + squares @ left
            return float(np.mean(np.argmax(Y - missed / spared[:, None], axis=1) == index))

        return max(
            (cls(float(alpha), right(float(alpha))) for alpha in ALPHAS[::-1] * axes.scale),
            key=lambda one: one.right,
        )


def hinge_scores(axes: Axes, y: Array, C: float, *, tol: float = TOL) -> Array:
    """Return b + w'x of each class minimising C sum max(0, 1 - y (b + w'x))^2 + |w|^2/2."""
    block, Y = as_block(axes.train.astype(np.float32)), _targets(y)[1]
    found = minimize_loss(
        CachedBlocks(lambda: iter([(block, Y, None)]), 2**34), SquaredHinge(), 1 / C, tol=tol
    )
    return np.asarray(axes.test @ found.coef + found.intercept)


def machine(axes: Axes, split: Split) -> float:
    """Return the accuracy of SVMs with squared hinge, with C = 1/(2 alpha) of LeastSquares."""
    scores = hinge_scores(axes, split.y, 1 / (2 * LeastSquares.of(axes, split.y).alpha))
    return accuracy(split, np.unique(split.y)[np.argmax(scores, axis=1)])


def map_rows(feature_map: Map | None, split: Split) -> tuple[Axes, float, int]:
    """Return rows in their axes, seconds for the features of all rows, and their number.

    None uses the rows themselves.
    """
    start = time.perf_counter()
    if feature_map is None:
        Z, Z_test = split.X, split.X_test
    else:
        Z = feature_map.fit(split.X).transform(split.X)
        Z_test = feature_map.transform(split.X_test)
    seconds = time.perf_counter() - start
    return Axes.of(Z, Z_test), seconds, Z.shape[1]


def svm_in_span(feature_map: Map | None, split: Split) -> Score:
    """Score ``machine`` on the features; its seconds exclude training."""
    axes, seconds, features = map_rows(feature_map, split)
    return Score(machine(axes, split), seconds, features)


def tune(make: Callable[[float], Map], values: Sequence[float], split: Split) -> float:
    """Return the value whose map has the best leave-one-out accuracy by least squares."""
    if len(values) == 1:
        return values[0]
    found = {
        value: LeastSquares.of(map_rows(make(value), split)[0], split.y).right for value in values
    }
    return max(found, key=lambda value: found[value])


def _centred(Z: Any, mean: Array) -> Array:
    dense = Z.toarray() if sp.issparse(Z) else Z
    return np.asarray(dense - mean.astype(dense.dtype))


def _significant(values: Array, vectors: Array) -> tuple[Array, Array]:
    """Return the directions whose values exceed rounding."""
    some = values > _CUT * values[-1]
    return values[some], vectors[:, some]


def _targets(y: Array) -> tuple[Array, Array]:
    """Return class indices (n,), and targets +1 and -1 of shape (n, classes)."""
    classes, index = np.unique(y, return_inverse=True)
    return index, np.where(index[:, None] == np.arange(len(classes)), 1.0, -1.0)
