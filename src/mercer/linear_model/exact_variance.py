"""Posterior variance by the exact kernel, from a sample of the training rows.

D features know the kernel to about 1/sqrt(D): far from the training rows the products of unrelated
rows explain a part of the variance, and the tail of the spectrum is missing. The exact kernel on m
of n rows, each of which stands for n/m of them, has the variance

    k(x, x) - k_x'(K + alpha m/n I)^-1 k_x,

that of the Gaussian process where all rows are in the sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer._typing import Array
from mercer.kernels.base import Kernel
from mercer.kernels.gram import gram
from mercer.maps.base import Map
from mercer.rng import Rng

SAMPLE_ROWS = 2048
"""Rows of the sample: all of them up to so many, and the variance is that of the exact kernel."""

_DIRECTIONS = 64  # that are tried at least
_LARGER_PRIOR = 4  # times the variance that coefficients imply: what few of them leave open
_MEAN_EXCESS = 0.5  # of the noise's variance, that a sample may add to that of training rows
_LEAST_LEVERAGE = 0.1  # below which the variance of the noise is ten times that of the model
_EXCESS = 0.02  # share by which directions that are left out may raise the variance of a row


@dataclass(frozen=True, eq=False)
class ExactVariance:
    """k(x, x) - |M k_x|^2, k_x = k(rows, x), beside the variance that features have.

    Attributes
    ----------
    rows : array or CSR matrix of shape (m, d)
    matrix : array of shape (k, m)
        M.
    kernel : Kernel
    alpha : float
        Noise variance in units of the prior's.
    least : float
        Leverage up to which rows are taken as they are.
    share : float
        Part of the prior's variance s^2/alpha that counts: below 1 where coefficients are far
        smaller than an alpha of cross-validation says.
    offset : float
        Mean of what the exact variance of a training row that is left out is above that of the
        features: the noise of the model, a mean of residuals, has it already.
    """

    rows: Any
    matrix: Array
    kernel: Kernel
    alpha: float
    offset: float
    least: float
    share: float

    @classmethod
    def of(
        cls,
        feature_map: Map,
        rows: Any,
        frequencies: Array,
        *,
        alpha: float,
        n: float,
        degrees: float,
        implied: float,
        leverages: Array,
    ) -> ExactVariance | None:
        """Factor the Gram matrix of a sample; None for a map without an exact kernel.

        Parameters
        ----------
        feature_map : Map
            Fitted.
        rows : array or CSR matrix of shape (m, d)
        frequencies : array of shape (m,)
            Weights of the sampled rows.
        alpha, n, degrees : float
            Of the model, the sum of the weights of its rows, and its degrees of freedom.
        implied : float
            Variance of coefficients that their size implies, in units of that by alpha.
        leverages : array of shape (m,)
            z'A^-1 z of the sampled rows.
        """
        from scipy.linalg import LinAlgError, cholesky
        from scipy.linalg.lapack import dpotri

        kernel = _exact_kernel(feature_map)
        if kernel is None:
            return None
        K = np.asarray(gram(kernel, rows.astype(np.float64)))
        noise = alpha * (frequencies.sum() / n) / frequencies
        roots = np.sqrt(noise)
        G = K / roots / roots[:, None]
        try:
            inverse = dpotri(cholesky(G + np.eye(len(G))))[0]
        except LinAlgError:  # alpha is below the rounding of the kernel
            return None
        left = np.diag(inverse)  # 1 - the leverage of a row in the sample
        sampled_degrees = len(G) - float(left.sum())
        exact = noise * (1 - left) / left
        own = np.clip(leverages * frequencies, 0.0, 1 - 1e-9)
        featured = alpha * own / frequencies / (1 - own)
        offset = max(0.0, float(np.average(exact - featured, weights=frequencies)))
        M = _few_directions(G, sampled_degrees) / roots
        prior = float(np.mean(np.diag(K)))
        # of the variance far from all rows, which products of unrelated features explain
        spurious = min(1.0, degrees / feature_map._n_features_out)
        matrix = np.ascontiguousarray(M)
        share = min(1.0, _LARGER_PRIOR * implied)
        if frequencies.sum() < n:  # the other rows determine more than the sample does
            excess = np.average(
                np.maximum(exact - offset - featured / share, 0.0), weights=frequencies
            )
            share = min(share, _MEAN_EXCESS * alpha / max(excess, np.finfo(np.float64).tiny))
        least = min(_LEAST_LEVERAGE, 0.1 * (1 - spurious) * prior / alpha)
        return cls(rows, matrix, kernel, alpha, offset, least, share)

    def leverages(self, X: Any, leverages: Array) -> Array:
        """Return leverages of rows, raised to those of the exact kernel where these are larger.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d)
        leverages : array of shape (n,)
            z'A^-1 z.
        """
        raised = leverages.copy()
        some = np.flatnonzero(leverages > self.least)
        if len(some):
            X = X if len(some) == len(raised) else X[some]
            k_x = np.asarray(gram(self.kernel, X, self.rows))
            P = k_x @ self.matrix.T
            exact = self.kernel.diagonal(X) - np.einsum("ij,ij->i", P, P)
            excess = self.share * (exact - self.offset) / self.alpha
            raised[some] = np.maximum(raised[some], excess)
        return raised

    def validate(self) -> None:
        """Raise unless the arrays belong together and are finite."""
        numbers = (self.alpha, self.offset, self.least, self.share)
        stored = self.rows.data if hasattr(self.rows, "indptr") else self.rows
        good = (
            isinstance(stored, np.ndarray)
            and stored.dtype.kind == "f"
            and len(self.rows.shape) == 2
            and self.matrix.dtype.kind == "f"
            and self.matrix.ndim == 2
            and self.matrix.shape[1] == self.rows.shape[0]
            and bool(np.isfinite(self.matrix).all())
            and not np.isinf(stored).any()
            and all(0 <= number < np.inf for number in numbers)
            and self.alpha > 0
        )
        if not good:
            raise ValueError("An exact variance needs finite rows and a matrix with a column each.")


def _few_directions(G: Array, degrees: float) -> Array:
    """Return M with M'M at most (I + G)^-1, so that |M g|^2 is about g'(I + G)^-1 g.

    The variances of the rows g of G add up to df. M has k rows, where these raise them by a share
    of _EXCESS at most; as many as G where more than half of them would be needed.
    """
    from scipy.linalg import cholesky, solve_triangular

    m, trace = len(G), float(np.trace(G))
    k = max(_DIRECTIONS, int(1.25 * degrees))
    while k <= m // 2:
        Q = np.linalg.qr(G @ (G @ Rng(0).normal("directions", m, k)))[0]
        core = Q.T @ (G @ Q)
        core.flat[:: k + 1] += 1.0
        M = np.asarray(solve_triangular(cholesky(core), Q.T, trans="T"))
        explained = M @ G
        if trace - degrees - np.einsum("ij,ij->", explained, explained) <= _EXCESS * degrees:
            return M
        k = int(1.5 * k)
    return np.asarray(solve_triangular(cholesky(G + np.eye(m)), np.eye(m), trans="T"))


def _exact_kernel(feature_map: Map) -> Kernel | None:
    """Return the kernel that a map approximates; None where it has none, or an expensive one."""
    try:
        kernel = feature_map.kernel_
    except (AttributeError, TypeError, NotImplementedError, ValueError):
        return None
    return None if kernel.expensive else kernel
