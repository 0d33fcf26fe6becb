"""Landmarks of Nystroem maps: rows that are sampled from a uniform sample of the data, the pool.

Distances and leverages are those of the kernel's feature space, computed from Gram matrices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._typing import Array
from mercer.kernels import Kernel
from mercer.kernels.gram import gram
from mercer.parallel.threads import row_slices
from mercer.rng import Rng

CUTOFF = 1e-12  # eigenvalues below this share of the largest one are rounding errors
POOL = 10  # rows of the pool for each landmark
_SYMMETRY = 1e-8  # largest rounding error of K - K' and of eigenvalues below 0, relative to K
_BLOCK = 64  # rows of the Gram matrices of which only the diagonal is used


def sample_kmeans_plus_plus(rng: Rng, kernel: Kernel, pool: Any, count: int) -> Array:
    """Return count rows of the pool, each sampled by its squared distance from those before it.

    k-means++ seeding (Arthur and Vassilvitskii, 2007).
    """
    diagonal = _diagonal(kernel, pool)
    nearest = np.full(len(diagonal), np.inf)
    free = np.ones(len(diagonal), dtype=bool)
    chosen = np.empty(count, dtype=np.intp)
    for step, u in enumerate(rng.uniform("kmeans++", count)):
        weights = np.where(free, np.minimum(nearest, 1.0) if step == 0 else nearest, 0.0)
        # Where all weights are 0 the free rows are copies of chosen ones: sample uniformly.
        sums = np.cumsum(weights if weights.any() else free)
        index = int(np.searchsorted(sums, u * sums[-1], side="right"))
        chosen[step], free[index] = index, False
        row = gram(kernel, pool[[index]], pool)[0]
        nearest = np.minimum(nearest, np.maximum(diagonal + diagonal[index] - 2 * row, 0.0))
    return chosen


def sample_by_leverage(rng: Rng, kernel: Kernel, pool: Any, count: int) -> Array:
    """Return count rows of the pool, sampled by their ridge leverage (Musco and Musco, 2017).

    It is estimated with the first count rows S, of n:

        l(x) = (k(x, x) - k(x, S) (K_SS + r count/n I)^-1 k(S, x))/r,

    r being 1/count times the sum over the pool of the residuals k(x, x) - k(x, S) K_SS^+ k(S, x).
    """
    K = gram(kernel, pool[:count], pool).astype(np.float64)
    diagonal = _diagonal(kernel, pool)
    values, vectors = np.linalg.eigh(K[:, :count])
    values = np.maximum(values, 0.0)
    projected = (vectors.T @ K) ** 2
    kept = values > CUTOFF * values[-1]
    residuals = np.maximum(diagonal - np.sum(projected[kept] / values[kept, None], axis=0), 0.0)
    tiny = np.finfo(np.float64).tiny
    ridge = max(float(residuals.sum()) / count, CUTOFF * float(diagonal.sum()), tiny)
    explained = np.sum(projected / (values + ridge * count / len(diagonal))[:, None], axis=0)
    leverage = np.maximum(diagonal - explained, 0.0) / ridge
    keys = -np.log(rng.uniform("leverage", len(diagonal))) / np.maximum(leverage, tiny)
    return np.argsort(keys, kind="stable")[:count]


def _diagonal(kernel: Kernel, rows: Any) -> Array:
    """Return k(x, x) for each row of an array or a CSR matrix, by small Gram matrices."""
    parts = [np.diagonal(gram(kernel, rows[span])) for span in row_slices(rows.shape[0], _BLOCK)]
    return np.concatenate(parts).astype(np.float64)


def inverse_square_root(estimator_name: str, kernel: Kernel, K: Array) -> Array:
    """Return K^(-1/2) on the range of K, which must be symmetric and positive semi-definite."""
    largest = np.abs(K).max(initial=0.0)
    if np.abs(K - K.T).max(initial=0.0) > _SYMMETRY * largest:
        raise ValueError(
            f"{estimator_name} needs a symmetric kernel, and the Gram matrix of {kernel!r} on "
            "the landmarks "
            "is not."
        )
    values, vectors = np.linalg.eigh((K + K.T) / 2)
    if values[0] < -_SYMMETRY * largest * len(K):
        raise ValueError(
            f"{estimator_name} needs a positive semi-definite kernel, and the Gram matrix of "
            f"{kernel!r} on "
            f"the landmarks has the eigenvalue {values[0]:g} (the largest is {values[-1]:g}): no "
            "features have such inner products."
        )
    kept = values > CUTOFF * values[-1]
    return (vectors[:, kept] / np.sqrt(values[kept])) @ vectors[:, kept].T
