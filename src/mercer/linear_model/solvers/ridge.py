"""Ridge regression from the normal equations: one decomposition for all alphas.

The objective is sum w |y - b - z'c|^2 + alpha |c|^2 everywhere: no 1/n, and the intercept b is not
penalized. Coefficients may be those of principal components.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from mercer._typing import Array
from mercer.linear_model.normal_equations import NormalEquations
from mercer.linear_model.solvers.pca import PrincipalComponents
from mercer.maps.block import Block
from mercer.parallel.device import current_device, torch_ops
from mercer.stats.base import frequency_weights

ALPHAS = np.logspace(-6, 6, 25)
"""Default grid, in units of the mean eigenvalue ``NormalEquations.scale``: features times c have
alphas times c^2, rows repeated k times alphas times k, and the choice is the same."""

MAX_RELATIVE_ALPHA = 1e3
"""Times sum w |z - mean|^2: alphas above it leave predictions within a thousandth of the mean,
and errors that differ by rounding."""

_EPS = float(np.finfo(np.float64).eps)

Rows = Iterable[tuple[Block, Array, Array | None]]
"""(features, targets, weights) block by block; targets of shape (n,) or (n, t), weights of
shape (n,) or None."""


class AlphaSearch(NamedTuple):
    """Alphas that were compared, the score of each, and the best of them.

    The best has the smallest score; the larger alpha where scores are equal.
    """

    alpha: float
    alphas: Array
    scores: Array


@dataclass(frozen=True, eq=False)
class RidgeDecomposition:
    """scatter = U diag(l) U' and q = U'cross, once; then c = U q/(l + alpha) for any alpha.

    With `components`, U has one column for each: ridge on principal components, expanded to the
    features, so that a prediction is b + z'c and needs no projection. (Without an intercept these
    are components about 0, not about the mean.)

    Directions whose eigenvalue is 0 to rounding are left out, so that alpha = 0 is the
    pseudo-inverse and no rounding error is divided by a small alpha. The threshold is D eps times
    the largest eigenvalue, or twice the most negative eigenvalue, which products of float32
    features produce.
    """

    normal: NormalEquations  # without its scatter
    scale: float  # of the normal equations, or of those of the components
    cut: float  # eigenvalues up to this one are left out
    values: Array  # l, ascending, (k,)
    vectors: Array  # U, (D, k)
    projected: Array  # q, (k, t)

    @classmethod
    def of(
        cls,
        normal: NormalEquations,
        components: PrincipalComponents | None = None,
        *,
        overwrite: bool = False,
    ) -> RidgeDecomposition:
        """Decompose normal equations; with overwrite, in the memory of their scatter."""
        from scipy.linalg import eigh

        if components is not None:
            basis, reduced = components.reduced(normal)
            inside = cls.of(reduced, overwrite=True)
            rest = replace(normal, scatter=np.empty((0, 0)))
            return replace(inside, normal=rest, vectors=basis.expand(inside.vectors))
        D = len(normal.scatter)
        scale = normal.scale
        device = current_device()
        if device is None:
            values, vectors = eigh(
                normal.scatter.T, overwrite_a=overwrite, check_finite=False, driver="evd"
            )
        else:
            values, vectors = torch_ops().linalg.eigh(normal.scatter, device.torch_device)
        cut = max(D * _EPS * values[-1], -2 * values[0], 0.0)
        positive = slice(np.count_nonzero(values <= cut), None)
        values, vectors = values[positive], vectors[:, positive]
        rest = replace(normal, scatter=np.empty((0, 0)))
        return cls(rest, scale, float(cut), values, vectors, vectors.T @ normal.cross)

    def coef(self, alpha: float) -> Array:
        """Return c = U q/(l + alpha), (D, t)."""
        return self.vectors @ (self.projected / (self.values + alpha)[:, None])

    def intercept(self, alpha: float) -> Array:
        """Return b = target_mean - mean'c, (t,); zeros without an intercept."""
        return self.normal.intercept(self.coef(alpha))

    def rss(self, alpha: float) -> Array:
        """Return sum w (y - b - z'c)^2 = yy - sum q^2 (l + 2 alpha)/(l + alpha)^2, (t,).

        It is the sum of what no c explains, yy - sum q^2/l, which is 0 where rounding exceeds it,
        and sum (q^2/l) (alpha/(l + alpha))^2, which keeps its digits where the fit is near perfect.
        """
        energy, unexplained = self._energies
        return unexplained + (alpha / (self.values + alpha)) ** 2 @ energy

    def degrees(self, alpha: float) -> float:
        """Return the degrees of freedom, df = 1 + sum l/(l + alpha), the 1 for an intercept."""
        return float(self.normal.fit_intercept + np.sum(self.values / (self.values + alpha)))

    def gcv(self, alpha: float) -> Array:
        """Return n RSS/(n - df)^2 for n rows, (t,); infinite where df is not below n."""
        n = self.normal.observations
        free = n - self.normal.fit_intercept - len(self.values)
        # n - df, with all its digits where that is small
        left = free + np.sum(alpha / (self.values + alpha))
        return (
            n * self.rss(alpha) / left**2 if left > 0 else np.full(self.projected.shape[1], np.inf)
        )

    @cached_property
    def _energies(self) -> tuple[Array, Array]:
        """q^2/l, and yy less their sum, which is 0 where rounding exceeds it."""
        l, yy = self.values[:, None], self.normal.target_scatter
        energy = self.projected**2 / l
        left = yy - energy.sum(axis=0)
        rounding = self.cut * np.sum(energy / l, axis=0) + len(l) * _EPS * yy
        return energy, np.where(left > rounding, left, 0.0)


def solve(normal: NormalEquations, alpha: float, *, overwrite: bool = False) -> tuple[Array, Array]:
    """Return c = (scatter + alpha I)^-1 cross, (D, t), and b = target_mean - mean'c, by Cholesky.

    Where scatter + alpha I is singular to rounding (alpha = 0, say) the solution is that of
    RidgeDecomposition, by the pseudo-inverse. With overwrite the memory of the scatter is reused.
    """
    from scipy.linalg import lapack

    alpha = float(alpha_grid("solve", [alpha])[0])
    device = current_device()
    if device is not None:
        coef = torch_ops().linalg.solve(normal.scatter, alpha, normal.cross, device.torch_device)
        if coef is not None:
            return coef, normal.intercept(coef)
        decomposition = RidgeDecomposition.of(normal)
        return decomposition.coef(alpha), decomposition.intercept(alpha)
    D = len(normal.scatter)
    A = (normal.scatter if overwrite else normal.scatter.copy()).T  # columns, as LAPACK wants them
    diagonal = np.diag(A).copy()
    A.flat[:: D + 1] = diagonal + alpha
    size = lapack.dlange("1", A)
    factor, failed = lapack.dpotrf(A, lower=False, clean=False, overwrite_a=True)
    if not failed and lapack.dpocon(factor, size, uplo="U")[0] > D * _EPS:
        coef = lapack.dpotrs(factor, normal.cross, lower=False)[0]
        return coef, normal.intercept(coef)
    # the factor is in the upper triangle, and eigh reads the lower one
    A.flat[:: D + 1] = diagonal
    decomposition = RidgeDecomposition.of(replace(normal, scatter=A.T), overwrite=True)
    return decomposition.coef(alpha), decomposition.intercept(alpha)


def choose_gcv(
    decomposition: RidgeDecomposition, alphas: Sequence[float] | Array | None = None
) -> AlphaSearch:
    """Return the alpha with the smallest sum over outputs of GCV(alpha) = n RSS/(n - df)^2."""
    tried = alpha_grid("choose_gcv", alphas, decomposition.scale)
    scores = np.array([decomposition.gcv(alpha).sum() for alpha in tried])
    if not np.isfinite(scores).any():
        raise ValueError(
            f"choose_gcv: df is not below n = {decomposition.normal.observations:g}, the sum of "
            f"the weights, for any alpha up to {tried.max():g}. Weights must count rows; give more "
            "rows, larger alphas, or a single alpha."
        )
    return best_of(tried, scores)


def choose_kfold(
    folds: Sequence[NormalEquations],
    alphas: Sequence[float] | Array | None = None,
    components: PrincipalComponents | None = None,
) -> AlphaSearch:
    """Return the alpha with the smallest cross-validated squared error, summed over outputs.

    A model is trained on the sum of all folds less one, whose normal equations are subtracted, and
    evaluated on that fold's: no second pass over the rows, and one decomposition for each fold.
    """
    if len(folds) < 2:
        raise ValueError(f"choose_kfold needs at least 2 folds that have rows, got {len(folds)}.")
    total = sum(folds[1:], start=folds[0])
    tried = alpha_grid("choose_kfold", alphas, total.scale)
    errors = np.zeros(len(tried))
    for fold in folds:
        decomposition = RidgeDecomposition.of(total - fold, components, overwrite=True)
        for i, alpha in enumerate(tried):
            coef = decomposition.coef(alpha)
            errors[i] += fold.error(coef, decomposition.normal.intercept(coef)).sum()
    return best_of(tried, errors / total.n)


def choose_loo(
    decomposition: RidgeDecomposition, rows: Rows, alphas: Sequence[float] | Array | None = None
) -> AlphaSearch:
    """Return the alpha with the smallest leave-one-out error, summed over outputs."""
    tried = alpha_grid("choose_loo", alphas, decomposition.scale)
    scores = loo_errors(decomposition, rows, tried).sum(axis=1) / decomposition.normal.n
    if not np.isfinite(scores).any():
        raise ValueError(
            "choose_loo: some row has leverage 1 for any alpha up to "
            f"{tried.max():g} (n = {decomposition.normal.n:g}). Give more rows, larger alphas, or "
            "a single alpha."
        )
    return best_of(tried, scores)


def loo_errors(
    decomposition: RidgeDecomposition, rows: Rows, alphas: Sequence[float] | Array
) -> Array:
    """Return sum w (e/(1 - h))^2, h = 1/n + sum_j (u_j'(z - mean))^2/(l_j + alpha), for all alphas.

    This is exact leave-one-out in a second pass: e is a row's residual and h its leverage (without
    1/n where there is no intercept). A weight counts equal rows, one of which is left out; a row of
    weight below 1 is left out whole, so that its leverage is w h. The error is infinite where 1 - h
    is 0 to rounding: a row that determines its own prediction has no leave-one-out error.

    Parameters
    ----------
    decomposition : RidgeDecomposition
        Of the same rows.
    rows : iterable of (block, targets, weights or None)
    alphas : sequence of float

    Returns
    -------
    array of shape (alphas, t)
    """
    tried = alpha_grid("loo_errors", alphas)
    normal = decomposition.normal
    t = normal.cross.shape[1]
    inverses = 1 / (decomposition.values + tried[:, None])
    rounding = decomposition.cut * inverses.max(axis=1, initial=0.0)
    center = normal.mean @ decomposition.vectors
    errors = np.zeros((len(tried), t))
    for block, targets, weight in rows:
        n = block.shape[0]
        w = frequency_weights(n, weight)
        Y = np.asarray(targets, dtype=np.float64).reshape(n, t) - normal.target_mean
        P = block @ decomposition.vectors - center
        complement = 1 - np.minimum(w, 1.0)[:, None] * (
            normal.fit_intercept / normal.n + P**2 @ inverses.T
        )
        for i, inverse in enumerate(inverses):
            if np.any(complement[:, i] <= rounding[i]):
                errors[i] = np.inf
            else:
                residuals = Y - P @ (inverse[:, None] * decomposition.projected)
                errors[i] += w @ (residuals / complement[:, i, None]) ** 2
    return errors


def alpha_grid(name: str, alphas: Sequence[float] | Array | None, scale: float = 1.0) -> Array:
    """Return the alphas as a validated array; ALPHAS times scale where none are given."""
    if alphas is None:
        return ALPHAS * scale
    tried: Any = np.asarray(alphas)
    if (
        tried.ndim != 1
        or not len(tried)
        or tried.dtype.kind not in "iuf"
        or not np.all((tried >= 0) & (tried < np.inf))
    ):
        raise ValueError(
            f"{name}: alphas must be one or more finite numbers of at least 0, got {alphas!r}."
        )
    return tried.astype(np.float64)


def best_of(alphas: Array, scores: Array) -> AlphaSearch:
    """Return the search result for these scores."""
    return AlphaSearch(float(alphas[scores == scores.min()].max()), alphas, scores)
