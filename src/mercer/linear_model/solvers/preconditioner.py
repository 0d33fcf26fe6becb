"""Preconditioner of conjugate gradients: the eigenvectors of the covariance of features.

Ridge regression and Newton's method solve (c S + alpha I) x = r for many c and alpha, where S is
the covariance of the features, or near to a multiple of it. One eigendecomposition serves all
outputs, alphas and Newton steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, cholesky

from mercer._typing import Array, is_csr
from mercer.linear_model.normal_equations import NormalEquations
from mercer.linear_model.solvers.blocks import WeightedBlock, multiply, multiply_transposed
from mercer.linear_model.solvers.ridge import eigenvectors
from mercer.maps.block import Dense, block_to_host
from mercer.parallel.threads import for_each, row_slices
from mercer.parallel.tile_size import PANEL, Cost
from mercer.stats.basic import Reservoir
from mercer.stats.moments import Moments

FULL_FEATURES = 4096  # up to which all eigenvectors are computed: some seconds for 4096
SAMPLED_ROWS = 2048  # at most, whose eigenvectors serve beyond
VECTOR_BYTES = 256 * 2**20  # at most, of the rows of a sample; its eigenvectors take half of it
LEAST_BYTES = 16 * 2**20  # of all arrays, whatever max_memory is; otherwise at most half of it
_LEAST_SHARE = 0.2  # of the curvature, that some rows must have to be taken as they are
_LARGEST_SQUARE = 1e5  # |B_i|^2 up to which I - B (I + B'B)^-1 B' keeps digits in float32
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class SpectralPreconditioner:
    """(c S + alpha I)^-1 for S = U diag(l) U' + tail (I - U U'), U'U = I.

    Attributes
    ----------
    vectors : array of shape (D, r) or None
        U; None for I.
    values : array of shape (r,)
        l, eigenvalues of the covariance of the features.
    tail : float
        Eigenvalue of all directions that U does not span.
    """

    vectors: Array | None
    values: Array
    tail: float = 0.0

    @property
    def rotated(self) -> SpectralPreconditioner:
        """The preconditioner of features U'z."""
        return replace(self, vectors=None)

    @classmethod
    def of_rows(
        cls,
        read_rows: Callable[[], Iterable[WeightedBlock]],
        mean: Array,
        *,
        centered: bool,
        max_memory: int | None = None,
    ) -> SpectralPreconditioner:
        """Decompose sum s (z - mean)(z - mean)'/sum s: one pass.

        Up to FULL_FEATURES features all eigenvectors are computed, beyond those of a sample of
        rows: at most SAMPLED_ROWS, and so many that VECTOR_BYTES are not exceeded. A sample also
        serves where the arrays of all eigenvectors would take more than half of max_memory.

        Parameters
        ----------
        read_rows : callable
            Returns blocks with targets and weights.
        mean : array of shape (D,)
        centered : bool
            Whether mean is the mean of the rows; it is 0 otherwise.
        max_memory : int, optional
            Bytes of which the arrays take at most half, or LEAST_BYTES; no limit by default.
        """
        count = sampled_rows(len(mean), max_memory)
        if count is None:
            moments = Moments(target=False)
            for block, _, w in read_rows():
                moments.add(block, weight=w)
            normal = NormalEquations.of_rows(moments, fit_intercept=centered)
            values, vectors = eigenvectors(normal.scatter / moments.n, overwrite=True)
            return cls(vectors, np.maximum(values, 0.0))
        sample = Reservoir(count, seed=0)
        start = 0
        for block, _, w in read_rows():
            sample.add(block_to_host(block), weight=w, start=start)
            start += len(w)
        return cls.of_sample(sample.rows, sample.frequencies, mean)

    @classmethod
    def of_sample(cls, Z: Any, weights: Array, mean: Array) -> SpectralPreconditioner:
        """Decompose A'A with rows sqrt(s/sum s) (z - mean) of A, by the eigenvectors V of A A'.

        U = A'V/sqrt(l), for the upper half of the eigenvalues l: the lower half depends on the
        sample more than on the covariance, whose other directions have the largest of them as
        `tail`. Z is an array or a CSR matrix with fewer rows than columns.
        """
        roots = np.sqrt(weights / weights.sum())
        gram = _gram(Z, mean) * np.multiply.outer(roots, roots)
        values, V = eigenvectors(gram, overwrite=True)
        half = len(values) // 2
        tail = max(float(values[half - 1]), 0.0) if half else 0.0
        # far below the largest, U is not orthogonal
        kept = (np.arange(len(values)) >= half) & (values > _EPS**0.5 * values[-1])
        values, V = values[kept], roots[:, None] * V[:, kept] / np.sqrt(values[kept])
        vectors = np.empty((len(mean), len(values)))
        total = V.sum(axis=0)
        for panel in row_slices(len(mean), PANEL):
            vectors[panel] = Z[:, panel].T @ V - np.multiply.outer(mean[panel], total)
        return cls(vectors, values, tail)

    def solve(self, R: Array, alpha: float, c: Array) -> Array:
        """Return (c_k S + alpha I)^-1 r_k for the columns r_k of R, (D, t), and c, (t,).

        The result has the dtype of R, which should be that of U.
        """
        inverse = (1 / (np.multiply.outer(self.values, c) + alpha)).astype(R.dtype, copy=False)
        if self.vectors is None:
            return R * inverse
        U = Dense(self.vectors)
        Q = multiply_transposed(U, R)
        if len(self.values) == len(self.vectors):
            return multiply(U, Q * inverse)
        rest = (1 / (c * self.tail + alpha)).astype(R.dtype, copy=False)
        return multiply(U, Q * (inverse - rest)) + rest * R


class HessianPreconditioner:
    """(sum c (z - mean)(z - mean)' + alpha I)^-1 of some outputs, approximately, in the basis U.

    The rows of the largest curvatures c of an output are taken as they are, A; the others by the
    sum of their c times the covariance, diag(l). With B = diag(b)^-1/2 A' diag(c)^1/2 and
    b = l sum c + alpha the inverse is diag(b)^-1/2 (I - B (I + B'B)^-1 B') diag(b)^-1/2.

    Parameters
    ----------
    Z : array of shape (n, D)
        Features in the basis U, about their mean.
    C : array of shape (n, t)
        Curvatures.
    values : array of shape (D,)
        l.
    alpha : float
    """

    def __init__(self, Z: Any, C: Array, values: Array, alpha: float) -> None:
        (n, D), t = Z.shape, C.shape[1]
        self.cost = Cost(float(D * math.sqrt(n)), 0.0)
        # B'B costs as much as two or three products with all rows
        count = min(n, math.isqrt(6 * n), D // 2, VECTOR_BYTES // (8 * D * t))
        self.roots, self.parts = np.empty((D, t)), [(np.empty((0, D)), np.empty((0, 0)))] * t

        def work(k: int) -> None:
            c = C[:, k].astype(np.float64)
            total = float(c.sum())
            top = np.sort(np.argpartition(c, min(n - count, n - 1))[n - count :])
            share = float(c[top].sum()) / total if total > 0 else 0.0
            if share < _LEAST_SHARE:
                self.roots[:, k] = np.sqrt(values * total + alpha)
                return
            self.roots[:, k] = np.sqrt(values * (1 - share) * total + alpha)
            rows = np.asarray(Z[top])
            B = rows * np.sqrt(c[top])[:, None].astype(Z.dtype)
            B /= self.roots[:, k].astype(Z.dtype)
            if np.einsum("ij,ij->i", B, B).max() > _LARGEST_SQUARE:
                B = rows * np.sqrt(c[top])[:, None] / self.roots[:, k]
            K = (B @ B.T).astype(np.float64)
            K.flat[:: count + 1] += 1.0
            self.parts[k] = B, cholesky(K, lower=True, overwrite_a=True, check_finite=False)

        for_each(work, list(range(t)), self.cost, n)

    def solve(self, R: Array, columns: Array) -> Array:
        """Return the products with the columns of R, (D, outputs)."""
        X = R / self.roots[:, columns]

        def work(j: int) -> None:
            B, factor = self.parts[columns[j]]
            if len(B):
                x = X[:, j].astype(B.dtype)
                y = cho_solve((factor, True), B @ x, check_finite=False)
                X[:, j] -= y.astype(B.dtype) @ B

        for_each(work, list(range(len(columns))), self.cost, len(R))
        X /= self.roots[:, columns]
        return X


def preconditioner_bytes(features: int, max_memory: int | None = None) -> int:
    """Return the bytes of the arrays of `SpectralPreconditioner.of_rows`."""
    count = sampled_rows(features, max_memory)
    return 3 * 8 * features**2 if count is None else 3 * 8 * features * count // 2


def sampled_rows(features: int, max_memory: int | None) -> int | None:
    """Return the rows of the sample; None where all eigenvectors are computed."""
    room = math.inf if max_memory is None else max(max_memory // 2, LEAST_BYTES)
    if features <= FULL_FEATURES and 3 * 8 * features**2 <= room:
        return None
    rows = min(VECTOR_BYTES, 2 * room / 3) // (8 * features)
    return int(max(1, min(rows, SAMPLED_ROWS, features - 1)))


def _gram(Z: Any, mean: Array) -> Array:
    """Return sum over columns of (z_i - mean)(z_j - mean), in float64."""
    if is_csr(Z):
        Z = Z.astype(np.float64)
        along = Z @ mean
        gram = (Z @ Z.T).toarray()
        return gram - along[:, None] - along + mean @ mean
    gram = np.zeros((len(Z), len(Z)))
    for panel in row_slices(len(mean), PANEL):
        part = Z[:, panel] - mean[panel]
        gram += part @ part.T
    return gram
