"""Preconditioner of conjugate gradients: the eigenvectors of the covariance of features.

Ridge regression and Newton's method solve (c S + alpha I) x = r for many c and alpha, where S is
the covariance of the features, or near to a multiple of it. One eigendecomposition serves all
outputs, alphas and Newton steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh

from mercer._typing import Array, is_csr
from mercer.linear_model.solvers.blocks import WeightedBlock, multiply, multiply_transposed
from mercer.maps.block import Dense
from mercer.parallel.threads import row_slices
from mercer.parallel.tile_size import PANEL
from mercer.stats.basic import Reservoir
from mercer.stats.moments import Moments

FULL_FEATURES = 2048  # up to which all eigenvectors are computed
SAMPLED_ROWS = 2048  # at most, whose eigenvectors serve beyond
VECTOR_BYTES = 256 * 2**20  # at most, of the eigenvectors of a sample; its rows take no more
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class SpectralPreconditioner:
    """(c S + alpha I)^-1 for S = U diag(l) U' + tail (I - U U'), U'U = I.

    Attributes
    ----------
    vectors : array of shape (D, r)
        U.
    values : array of shape (r,)
        l, eigenvalues of the covariance of the features.
    tail : float
        Eigenvalue of all directions that U does not span.
    """

    vectors: Array
    values: Array
    tail: float = 0.0

    @classmethod
    def of_rows(
        cls, read_rows: Callable[[], Iterable[WeightedBlock]], mean: Array, *, centered: bool
    ) -> SpectralPreconditioner:
        """Decompose sum s (z - mean)(z - mean)'/sum s: one pass.

        Up to FULL_FEATURES features all eigenvectors are computed, beyond those of a sample of
        rows: at most SAMPLED_ROWS, and so many that VECTOR_BYTES are not exceeded.

        Parameters
        ----------
        read_rows : callable
            Returns blocks with targets and weights.
        mean : array of shape (D,)
        centered : bool
            Whether mean is the mean of the rows; it is 0 otherwise.
        """
        D = len(mean)
        if D <= FULL_FEATURES:
            moments = Moments(target=False)
            for block, _, w in read_rows():
                moments.add(block, weight=w)
            scatter = moments.scatter
            if not centered:
                scatter += np.multiply.outer(moments.n * moments.mean, moments.mean)
            scatter /= moments.n
            values, vectors = eigh(scatter, overwrite_a=True, check_finite=False, driver="evd")
            return cls(vectors, np.maximum(values, 0.0))
        sample = Reservoir(min(SAMPLED_ROWS, max(1, VECTOR_BYTES // (8 * D))), seed=0)
        start = 0
        for block, _, w in read_rows():
            sample.add(block, weight=w, start=start)
            start += len(w)
        return cls.of_sample(sample.rows, sample.frequencies, mean)

    @classmethod
    def of_sample(cls, Z: Any, weights: Array, mean: Array) -> SpectralPreconditioner:
        """Decompose A'A with rows sqrt(s/sum s) (z - mean) of A, by the eigenvectors V of A A'.

        U = A'V/sqrt(l). Z is an array or a CSR matrix with fewer rows than columns.
        """
        roots = np.sqrt(weights / weights.sum())
        gram = _gram(Z, mean) * np.multiply.outer(roots, roots)
        values, V = eigh(gram, overwrite_a=True, check_finite=False, driver="evd")
        kept = values > len(values) * _EPS**0.5 * values[-1]  # below, U is not orthogonal
        if not kept.any():  # constant rows
            return cls(np.zeros((len(mean), 0)), np.zeros(0))
        values, V = values[kept], roots[:, None] * V[:, kept] / np.sqrt(values[kept])
        vectors = np.empty((len(mean), len(values)))
        total = V.sum(axis=0)
        for panel in row_slices(len(mean), PANEL):
            vectors[panel] = Z[:, panel].T @ V - np.multiply.outer(mean[panel], total)
        return cls(vectors, values, float(values[0]))

    def solve(self, R: Array, alpha: float, c: Array) -> Array:
        """Return (c_k S + alpha I)^-1 r_k for the columns r_k of R, (D, t), and c, (t,)."""
        U = Dense(self.vectors)
        inverse = 1 / (np.multiply.outer(self.values, c) + alpha)
        Q = multiply_transposed(U, R)
        if len(self.values) == len(self.vectors):
            return multiply(U, Q * inverse)
        rest = 1 / (c * self.tail + alpha)
        return multiply(U, Q * (inverse - rest)) + rest * R


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
