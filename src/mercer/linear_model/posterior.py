"""Posterior of Bayesian linear regression on features: variances, covariances and samples.

With c ~ N(0, s^2/alpha I) and noise of variance s^2, ridge regression is the mean of the posterior,
whose covariance is s^2 A^-1, A = scatter + alpha I. A prediction for a new row has the variance
s^2 (1 + h), h = 1/n + z'A^-1 z, the leverage of the row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from operator import matmul
from typing import Any

import numpy as np

from mercer import ops
from mercer._repr import short_repr
from mercer._typing import Array
from mercer.linear_model.exact_variance import ExactVariance
from mercer.linear_model.normal_equations import NormalEquations
from mercer.linear_model.solvers.blocks import row_squares
from mercer.linear_model.solvers.ridge import CholeskyFactor
from mercer.linear_model.solvers.ridge_gram import GramDecomposition
from mercer.maps.block import Block, Dense, rows_of
from mercer.rng import Rng

EXCESS_VARIANCE = 0.02
"""Share by which directions that are left out may raise the variance of a training row."""

SKETCHED_LEVERAGE = 0.2
"""Leverage up to which it is that of the sketch: its relative error of 12.5% is 1% of a standard
deviation, at most."""

_SKETCHED = 128  # rows of a sketch
_FEWEST_FEATURES = 256  # whose factor is never reduced to few directions
_FEWEST_DIRECTIONS = 64  # that are tried first
_SINGLE = {True: 1e-3, False: 1e-8}  # alpha, as share of |z|^2, from which float32 is exact enough
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Posterior:
    """Covariance s^2 A^-1 of the coefficients, as a matrix M whose rows are directions.

    z'A^-1 z is |M z|^2, or (|z|^2 - |M z|^2)/alpha where M has the directions that the rows
    determine: few for a smooth kernel, so that a variance costs little more than a prediction.

    Attributes
    ----------
    matrix : array of shape (k, D)
        M, float32 where that changes no variance by a thousandth.
    complement : bool
        Whether M has the directions that the rows determine.
    mean : array of shape (D,)
        Of the features, subtracted first; zeros where variances are about 0.
    alpha : float
    n : float
        Sum of the weights.
    intercept_leverage : float
        1/n; 0 without an intercept.
    degrees : float
        Degrees of freedom, the intercept aside.
    noise_variance : array of shape (t,)
        s^2 of each output.
    log_marginal_likelihood : array of shape (t,)
    prior : float
        Variance of a coefficient that |c|^2/df implies, in units of s^2/alpha; the largest of the
        outputs.
    exact : ExactVariance or None
        Variance that the features cannot express.
    sketch : array of shape (128, D) or None
        Random combinations of the rows of A^-1/2, with |sketch z|^2 about z'A^-1 z, where M has
        more rows.
    """

    matrix: Array
    complement: bool
    mean: Array
    alpha: float
    n: float
    intercept_leverage: float
    degrees: float
    noise_variance: Array
    log_marginal_likelihood: Array
    prior: float
    exact: ExactVariance | None = None
    sketch: Array | None = None

    __repr__ = short_repr

    @classmethod
    def of(cls, normal: NormalEquations, alpha: float, coef: Array, *, centered: bool) -> Posterior:
        """Compute the posterior from normal equations and their solution.

        Parameters
        ----------
        normal : NormalEquations
        alpha : float
        coef : array of shape (D, t)
        centered : bool
            Whether variances are those of features about their mean. Otherwise the intercept is
            known but for its variance s^2/n.
        """
        scatter = np.asarray(normal.scatter)
        mean = normal.mean if centered else np.zeros_like(normal.mean)
        whole = scatter
        if not centered and normal.fit_intercept:
            whole = scatter + np.multiply.outer(normal.n * normal.mean, normal.mean)
        alpha, inverse, degrees, log_det = _factor(whole, alpha)
        if whole is not scatter:
            degrees, log_det = _factor(scatter, alpha)[2:]
        matrix = _few_directions(whole, alpha, degrees)
        complement = matrix is not None
        matrix = inverse.T if matrix is None else matrix
        sketch = _sketch(inverse.T) if len(matrix) > 2 * _SKETCHED else None
        trace = float(np.trace(scatter)) / normal.n
        rss = normal.error(coef, normal.intercept(coef))
        energy = rss + alpha * np.sum(coef**2, axis=0)
        return cls(
            _as_single(matrix, complement, alpha, trace),
            complement,
            mean,
            alpha,
            normal.n,
            normal.fit_intercept / normal.n,
            degrees,
            *_noise(normal, rss, energy, degrees, log_det),
            sketch=sketch,
        )

    @classmethod
    def of_rows(
        cls, decomposition: GramDecomposition, alpha: float, *, centered: bool
    ) -> Posterior:
        """Compute the posterior from the decomposition of the Gram matrix of few rows."""
        normal, values = decomposition.normal, decomposition.values
        alpha = max(alpha, decomposition.cut)
        degrees = float(np.sum(values / (values + alpha)))
        log_det = float(np.sum(np.log1p(values / alpha)))
        matrix = decomposition.explained(alpha, EXCESS_VARIANCE * alpha * degrees)
        mean = normal.mean
        if not centered and normal.fit_intercept:
            matrix, mean = _add_direction(matrix, alpha, normal), np.zeros_like(mean)
        trace = float(values.sum()) / normal.n
        rss = decomposition.rss(alpha)
        weight = values / (values + alpha) ** 2
        energy = rss + alpha * (weight @ (decomposition.projected**2 / values[:, None]))
        return cls(
            _as_single(matrix, True, alpha, trace),
            True,
            mean,
            alpha,
            normal.n,
            normal.fit_intercept / normal.n,
            degrees,
            *_noise(normal, rss, energy, degrees, log_det),
        )

    @cached_property
    def projection(self) -> Array:
        """M', or sketch', by which rows are multiplied for their leverages, (D, k)."""
        used = self.matrix if self.sketch is None else self.sketch
        return np.ascontiguousarray(used.T)

    def leverages(
        self,
        block: Block,
        projection: Array | None = None,
        product: Callable[[Block, Array], Array] = matmul,
    ) -> Array:
        """Return h = 1/n + (z - mean)'A^-1(z - mean) of each row of features, (n,).

        Parameters
        ----------
        block : Block
        projection : array, optional
            `projection`, where it is known already.
        product : callable, optional
            product(block, matrix).
        """
        columns = self.projection if projection is None else projection
        squares = self._lengths(block, columns, product)
        if self.sketch is None:
            return squares + self.intercept_leverage
        some = np.flatnonzero(squares > SKETCHED_LEVERAGE)
        if len(some):
            whole = self._without_sketch
            squares[some] = whole._lengths(rows_of(block, some), whole.projection, product)
        return squares + self.intercept_leverage

    @cached_property
    def _without_sketch(self) -> Posterior:
        return replace(self, sketch=None)

    def _lengths(
        self, block: Block, columns: Array, product: Callable[[Block, Array], Array]
    ) -> Array:
        """Return (z - mean)'A^-1(z - mean), (n,), by products with the columns of `projection`."""
        complement = self.complement and self.sketch is None
        if isinstance(block, Dense):
            Z = block.Z - ops.asarray_like(self.mean, block.Z) if self.mean.any() else block.Z
            rows = Dense(Z.astype(columns.dtype, copy=False))
            P = np.asarray(product(rows, columns))
            length = row_squares(rows) if complement else 0.0
        else:
            P = np.asarray(product(block, columns))
            length = row_squares(block) if complement else 0.0
            if self.mean.any():
                P = P - (self.mean @ columns).astype(P.dtype)
                along = np.asarray(product(block, self.mean[:, None]))[:, 0]
                length = length - 2 * along + float(self.mean @ self.mean)
        squares = np.einsum("ij,ij->i", P, P).astype(np.float64)
        return np.maximum(length - squares, 0.0) / self.alpha if complement else squares

    def exact_leverages(self, X: Any, leverages: Array) -> Array:
        """Return leverages of rows with the variance that their features cannot express."""
        if self.exact is None:
            return leverages
        own = self.intercept_leverage
        return self.exact.leverages(X, leverages - own) + own

    def standard_deviations(self, leverages: Array) -> Array:
        """Return s sqrt(1 + h), (n, t)."""
        return np.sqrt(np.multiply.outer(1 + leverages, self.noise_variance))

    def covariance(self, Z: Array) -> Array:
        """Return A^-1 between the rows of Z about the mean, plus 1/n, (n, n)."""
        Z = np.asarray(Z, dtype=np.float64) - self.mean
        P = Z @ self.matrix.T.astype(np.float64)
        inner = P @ P.T
        if self.complement:
            inner = (Z @ Z.T - inner) / self.alpha
        return inner + self.intercept_leverage

    def sample(self, count: int, rng: Rng) -> tuple[Array, Array]:
        """Return deviations of coefficients and intercept from the mean, (count, D, t), (count, t).

        Their covariance is s^2 A^-1; the intercept has the variance s^2/n beside.
        """
        k, D = self.matrix.shape
        t = len(self.noise_variance)
        M = self.matrix.astype(np.float64)
        if self.complement:
            g = rng.normal("posterior", count * t, D)
            _, lengths, directions = np.linalg.svd(M, full_matrices=False)
            shrink = 1 - np.sqrt(np.maximum(1 - lengths**2, 0.0))
            deviations = (g - ((g @ directions.T) * shrink) @ directions) / np.sqrt(self.alpha)
        else:
            deviations = rng.normal("posterior", count * t, k) @ M
        coef = deviations.reshape(count, t, D).transpose(0, 2, 1) * np.sqrt(self.noise_variance)
        intercept = -np.einsum("d,sdt->st", self.mean, coef)
        scale = np.sqrt(self.noise_variance * self.intercept_leverage)
        return coef, intercept + scale * rng.normal("intercept", count, t)

    def validate(self, features: int, outputs: int) -> None:
        """Raise unless the arrays fit so many features and outputs, and are finite."""
        arrays = [self.matrix, self.mean, self.noise_variance, self.log_marginal_likelihood]
        arrays += [] if self.sketch is None else [self.sketch]
        shapes = [array.shape for array in arrays]
        numbers = (self.alpha, self.n, self.intercept_leverage, self.degrees, self.prior)
        good = (
            all(len(shape) == 2 and shape[1] == features for shape in (shapes[0], *shapes[4:]))
            and shapes[1] == (features,)
            and shapes[2] == shapes[3] == (outputs,)
            and all(0 <= number < np.inf for number in numbers)
            and min(self.alpha, self.n) > 0
            and bool(np.all(self.noise_variance >= 0))
            and all(array.dtype.kind == "f" and np.isfinite(array).all() for array in arrays)
        )
        if not good:
            raise ValueError(
                f"A posterior needs finite arrays for {features} features and {outputs} outputs, "
                f"got shapes {shapes}."
            )
        if self.exact is not None:
            self.exact.validate()


def _factor(scatter: Array, alpha: float) -> tuple[float, Array, float, float]:
    """Return alpha, R^-1 with R'R = scatter + alpha I, df, and log|I + scatter/alpha|.

    df is tr(scatter A^-1). An alpha below the rounding of the scatter is raised to it: a factor
    exists, and no rounding error counts as variance.
    """
    from scipy.linalg import lapack

    D = len(scatter)
    factor = CholeskyFactor.of(scatter.copy(), alpha)
    while factor is None:
        alpha = max(10 * alpha, D * _EPS * float(np.trace(scatter)), np.finfo(np.float64).tiny)
        factor = CholeskyFactor.of(scatter.copy(), alpha)
    log_det = 2 * float(np.sum(np.log(np.diag(factor.upper)))) - D * np.log(alpha)
    inverse, failed = lapack.dtrtri(factor.upper, lower=False, overwrite_c=True)
    assert not failed
    inverse = np.triu(inverse)
    degrees = D - alpha * float(np.einsum("ij,ij->", inverse, inverse))
    return alpha, inverse, degrees, log_det


def _few_directions(scatter: Array, alpha: float, degrees: float) -> Array | None:
    """Return M with M'M about scatter A^-1, of at most a quarter as many rows; None where more.

    With F F' <= scatter, a Nystroem approximation, M'M = F (F'F + alpha)^-1 F' is never above
    scatter A^-1, so that variances are never below those of the posterior. Over all training rows
    they add up to alpha df, and are above that by tr(scatter (scatter A^-1 - M'M)).
    """
    from scipy.linalg import LinAlgError, cholesky, solve_triangular

    D = len(scatter)
    k, most = max(_FEWEST_DIRECTIONS, int(1.25 * degrees)), D // 4
    if D < _FEWEST_FEATURES:
        return None
    explained = float(np.trace(scatter)) - alpha * degrees
    while k <= most:
        Q = np.linalg.qr(scatter @ (scatter @ Rng(0).normal("directions", D, k)))[0]
        image = scatter @ Q
        core = Q.T @ image
        core.flat[:: k + 1] += _EPS * np.trace(core)
        try:
            F = solve_triangular(cholesky((core + core.T) / 2), image.T, trans="T")
        except LinAlgError:  # sums of float32 products
            return None
        inner = F @ F.T
        inner.flat[:: k + 1] += alpha
        M = np.asarray(solve_triangular(cholesky(inner), F, trans="T"))
        if explained - np.einsum("ij,ij->", M @ scatter, M) <= EXCESS_VARIANCE * alpha * degrees:
            return M
        k = int(1.5 * k)
    return None


def _add_direction(matrix: Array, alpha: float, normal: NormalEquations) -> Array:
    """Return M of scatter + n m m', from that of the scatter: A^-1 = (I - M'M)/alpha.

    (A + n m m')^-1 = A^-1 - u u'/(1/n + m'u), u = A^-1 m: one more direction.
    """
    m = normal.mean
    u = (m - matrix.T @ (matrix @ m)) / alpha
    scale = np.sqrt(alpha / (1 / normal.n + float(m @ u)))
    return np.concatenate([matrix, scale * u[None]])


def _noise(
    normal: NormalEquations, rss: Array, energy: Array, degrees: float, log_det: float
) -> tuple[Array, Array, float]:
    """Return s^2 = RSS/(n - df), the log marginal likelihood for it, and (alpha |c|^2/df)/s^2.

    s^2 is at least the rounding of sums of squares. energy is RSS + alpha |c|^2; with an intercept
    the likelihood is that of n - 1 contrasts. The last one is the largest of the outputs, and 1
    for the alpha of evidence.
    """
    contrasts = normal.observations - normal.fit_intercept
    free, tiny = contrasts - degrees, np.finfo(np.float64).tiny
    if not free > 0:
        raise ValueError(
            f"The noise of {normal.observations:g} rows cannot be told from a model with "
            f"{degrees + normal.fit_intercept:.3g} degrees of freedom: give more rows, or a larger "
            "alpha."
        )
    rounding = _EPS * normal.target_scatter / normal.observations
    noise = np.maximum(rss / free, np.maximum(rounding, tiny))
    count = np.log(normal.observations) if normal.fit_intercept else 0.0
    fit = contrasts * np.log(2 * np.pi * noise) + energy / noise
    ratios = (energy - rss) / max(degrees, _EPS) * free / np.maximum(rss, tiny)
    return noise, -0.5 * (fit + log_det + count), float(np.max(np.minimum(ratios, 1e300)))


def _sketch(matrix: Array) -> Array:
    """Return random combinations of the rows of a matrix."""
    signs = Rng(0).signs("sketch", _SKETCHED, len(matrix)) / np.sqrt(_SKETCHED)
    return np.ascontiguousarray(signs @ matrix, dtype=np.float32)


def _as_single(matrix: Array, complement: bool, alpha: float, square: float) -> Array:
    """Return a matrix as float32 where that changes no variance by a thousandth."""
    single = alpha >= _SINGLE[complement] * square
    return np.ascontiguousarray(matrix, dtype=np.float32 if single else np.float64)
