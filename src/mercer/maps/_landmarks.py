"""Landmarks: the rows that a Nystroem map compares all others with, chosen from a uniform sample of
the data.

Distances and leverages are those of the kernel's feature space, by Gram matrices alone: the kernel
may be any.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.kernels import Kernel
from mercer.kernels.gram import gram
from mercer.parallel.threads import spans
from mercer.rng import Rng

Array = NDArray[Any]

CUTOFF = 1e-12  # eigenvalues below this part of the largest one are rounding
POOL = 10  # rows of the sample for each landmark
_SYMMETRY = 1e-8  # what rounding may leave of K - K', and of negative eigenvalues
_BLOCK = 64  # rows of Gram matrices of which only the diagonal is wanted


def plus_plus(rng: Rng, kernel: Kernel, pool: Any, count: int) -> Array:
    """k-means++ seeding (Arthur and Vassilvitskii, 2007): each row with chance in proportion to its
    squared distance from those chosen.
    """
    diagonal = diagonal_of(kernel, pool)
    nearest = np.full(len(diagonal), np.inf)
    free = np.ones(len(diagonal), dtype=bool)
    chosen = np.empty(count, dtype=np.intp)
    for step, u in enumerate(rng.uniform("kmeans++", count)):
        weights = np.where(free, np.minimum(nearest, 1.0) if step == 0 else nearest, 0.0)
        sums = np.cumsum(
            weights if weights.any() else free
        )  # copies of the chosen are as good as any other
        one = int(np.searchsorted(sums, u * sums[-1], side="right"))
        chosen[step], free[one] = one, False
        row = gram(kernel, pool[[one]], pool)[0]
        nearest = np.minimum(nearest, np.maximum(diagonal + diagonal[one] - 2 * row, 0.0))
    return chosen


def by_leverage(rng: Rng, kernel: Kernel, pool: Any, count: int) -> Array:
    """Rows with chances in proportion to their ridge leverage (Musco and Musco, 2017), estimated
    with the first `count` rows S:

        l(x) = (k(x, x) - k(x, S) (K_SS + r c/n I)^-1 k(S, x))/r, n rows in the pool, c in S,

    with r the mean over S of what S itself leaves unexplained.
    """
    base = pool[:count]
    left = gram(kernel, base, pool).astype(np.float64)
    diagonal = diagonal_of(kernel, pool)
    values, vectors = np.linalg.eigh(left[:, :count])
    values = np.maximum(values, 0.0)
    projected = (vectors.T @ left) ** 2
    kept = values > CUTOFF * values[-1]
    unexplained = np.maximum(
        diagonal - np.sum(projected[kept] / values[kept, None], axis=0), 0.0
    ).sum()
    ridge = max(
        float(unexplained) / count, CUTOFF * float(diagonal.sum()), np.finfo(np.float64).tiny
    )
    explained = np.sum(projected / (values + ridge * count / len(diagonal))[:, None], axis=0)
    leverage = np.maximum(diagonal - explained, 0.0) / ridge
    keys = -np.log(rng.uniform("leverage", len(diagonal))) / np.maximum(
        leverage, np.finfo(np.float64).tiny
    )
    return np.argsort(keys, kind="stable")[:count]


def diagonal_of(kernel: Kernel, rows: Any) -> Array:
    """k(x, x) for each row of an array or a CSR matrix, by small Gram matrices."""
    parts = [np.diagonal(gram(kernel, rows[span])) for span in spans(rows.shape[0], _BLOCK)]
    return np.concatenate(parts).astype(np.float64)


def inverse_root(who: str, kernel: Kernel, K: Array) -> Array:
    """K^(-1/2) on the space where K is not 0, by its eigenvectors; refused unless K is symmetric
    and positive semi-definite.
    """
    largest = np.abs(K).max(initial=0.0)
    if np.abs(K - K.T).max(initial=0.0) > _SYMMETRY * largest:
        raise ValueError(
            f"{who} needs a symmetric kernel, and the Gram matrix of {kernel!r} on the landmarks "
            "is not."
        )
    values, vectors = np.linalg.eigh((K + K.T) / 2)
    if values[0] < -_SYMMETRY * largest * len(K):
        raise ValueError(
            f"{who} needs a positive semi-definite kernel, and the Gram matrix of {kernel!r} on "
            "the landmarks has the eigenvalue "
            f"{values[0]:g} (the largest is {values[-1]:g}): no features have such inner products."
        )
    kept = values > CUTOFF * values[-1]
    return (vectors[:, kept] / np.sqrt(values[kept])) @ vectors[:, kept].T
