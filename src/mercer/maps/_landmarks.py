"""Landmarks of Nystroem maps: rows that are sampled from a uniform sample of the data, the pool.

Distances and leverages are those of the kernel's feature space, computed from Gram matrices.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from mercer._typing import Array
from mercer.kernels import Kernel
from mercer.kernels.gram import gram
from mercer.parallel.threads import row_slices
from mercer.rng import Rng

CUTOFF = 1e-12  # eigenvalues below this share of the largest one are rounding errors
_POOL = 10  # rows of the pool for each landmark
_LEAST_POOL = 2  # of them, where the factor of pivoted Cholesky would exceed _FACTOR_BYTES
_FACTOR_BYTES = 256 * 2**20
_POOL_ROWS = 2048  # that a pool has at least, if they have no more than _POOL_VALUES
_POOL_VALUES = 2**21
_LEAST_PROPOSED = 16  # rows that are proposed at once
_PROPOSED = 10  # there are so many landmarks for each row that is proposed at once
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


def sample_by_pivoted_cholesky(
    rng: Rng, kernel: Kernel, pool: Any, count: int
) -> tuple[Array, float]:
    """Return count rows of the pool, each sampled by its residual, and the trace error.

    The residual is k(x, x) - |phi(x)|^2 for the landmarks so far, and the trace error its sum after
    all of them, over the sum of k(x, x). Randomly pivoted Cholesky (Chen, Epperly, Tropp and
    Webber, 2022), by blocks of proposals (Epperly, Tropp and Webber, 2024): (count + 1) values of
    the kernel for each row.
    """
    diagonal = _diagonal(kernel, pool)

    def values(rows: Any, columns: Array) -> Array:
        return gram(kernel, pool[rows], pool[columns]).astype(np.float64, copy=False)

    propose = propose_by_residual(rng, "rpcholesky", count, np.ones(len(diagonal)))
    pivots, residual = pivoted_cholesky(values, diagonal, count, propose)
    # Where no residual is left all other rows are exact, and any of them will do.
    others = np.setdiff1d(np.arange(len(diagonal)), pivots)[: count - len(pivots)]
    total = float(diagonal.sum())
    return np.append(pivots, others), float(residual.sum()) / total if total else 0.0


def pivoted_cholesky(
    values: Callable[[Any, Array], Array],
    diagonal: Array,
    count: int,
    propose: Callable[[Array], tuple[Array, Array]],
) -> tuple[Array, Array]:
    """Return up to count pivots of K, and the diagonal of K - F F', F being K's partial factor.

    Parameters
    ----------
    values : callable
        values(rows, columns) is that part of K.
    diagonal : array of shape (n,)
        The diagonal of K.
    count : int
    propose : callable
        propose(residual) returns proposals and a level for each: a proposal becomes a pivot where
        its residual, after the proposals before it, is above its level. Levels that are uniform
        below the residuals sample pivots as if they were proposed one at a time.
    """
    residual = np.maximum(diagonal, 0.0, dtype=np.float64)
    factor = np.empty((len(residual), count))
    pivots = np.empty(0, dtype=np.intp)
    while (done := len(pivots)) < count and residual.any():
        proposed, levels = propose(residual)
        F = factor[proposed, :done]
        accepted, C = _accept(
            values(proposed, proposed) - F @ F.T,
            np.maximum(levels, CUTOFF * diagonal[proposed]),
            count - done,
        )
        new = proposed[accepted]
        if len(new):
            columns = values(slice(None), new) - factor[:, :done] @ factor[new, :done].T
            part = solve_triangular(C, columns.T, lower=True).T
            factor[:, done : done + len(new)] = part
            residual -= np.einsum("ij,ij->i", part, part)
            residual[residual <= CUTOFF * diagonal] = 0.0
        residual[new] = 0.0
        residual[proposed[0]] = 0.0  # a pivot now, or the rounding error of a residual of 0
        pivots = np.append(pivots, new)
    return pivots, residual


def propose_by_residual(
    rng: Rng, name: str, count: int, weights: Array
) -> Callable[[Array], tuple[Array, Array]]:
    """Return a function that samples a block of proposals in proportion to weight x residual."""
    size = max(_LEAST_PROPOSED, count // _PROPOSED)
    blocks = itertools.count()

    def propose(residual: Array) -> tuple[Array, Array]:
        position, level = rng.uniform(name, 2, size, start=2 * size * next(blocks))
        sums = np.cumsum(weights * residual)
        proposed = np.searchsorted(sums, position * sums[-1], side="right")
        return proposed, level * residual[proposed]

    return propose


def propose_largest(weights: Array) -> Callable[[Array], tuple[Array, Array]]:
    """Return a function that proposes where weight x residual is largest: greedy pivots."""
    return lambda residual: (np.array([np.argmax(weights * residual)]), np.zeros(1))


def _accept(K: Array, levels: Array, most: int) -> tuple[list[int], Array]:
    """Return up to most pivots of K, in order, above their levels, and the factor of their K."""
    factor = np.zeros((len(K), len(K)))
    accepted: list[int] = []
    for i, level in enumerate(levels):
        done = len(accepted)
        column = K[:, i] - factor[:, :done] @ factor[i, :done]
        if done < most and column[i] > level:
            factor[:, done] = column / np.sqrt(column[i])
            accepted.append(i)
    return accepted, factor[accepted, : len(accepted)]


def pool_size(count: int, d: int) -> int:
    """Return how many rows of d columns are sampled for count landmarks to be chosen from them."""
    wanted = max(_POOL * count, min(_POOL_ROWS, _POOL_VALUES // d))
    return max(_LEAST_POOL * count, min(wanted, _FACTOR_BYTES // (8 * count)))


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
