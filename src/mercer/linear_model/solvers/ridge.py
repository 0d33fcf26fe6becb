"""Ridge regression from the normal equations: one decomposition for all alphas.

The objective is sum w |y - b - z'c|^2 + alpha |c|^2 everywhere: no 1/n, and the intercept b is not
penalized. Coefficients may be those of principal components.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from mercer._typing import Array
from mercer.linear_model.labels import class_numbers
from mercer.linear_model.normal_equations import NormalEquations
from mercer.linear_model.solvers.pca import PrincipalComponents
from mercer.maps.block import Block, rows_of
from mercer.parallel.device import device_of, torch_ops
from mercer.parallel.threads import row_slices
from mercer.stats.base import frequency_weights

ALPHAS = np.logspace(-6, 6, 25)
"""Default grid, in units of the mean eigenvalue ``NormalEquations.scale``: features times c have
alphas times c^2, rows repeated k times alphas times k, and the choice is the same."""

SMALLEST_RELATIVE_ALPHA = 1e-16
"""Times the mean eigenvalue: to which the grid is extended at most. Columns of unlike scales need
alphas far below the mean eigenvalue; below this one is rounding."""

MAX_RELATIVE_ALPHA = 1e3
"""Times sum w |z - mean|^2: alphas above it leave predictions within a thousandth of the mean,
and errors that differ by rounding."""

PROJECTION_BYTES = 2**24
"""Bytes of a tile of projections of rows on eigenvectors, in leave-one-out."""

_EPS = float(np.finfo(np.float64).eps)

Rows = Iterable[tuple[Block, Array, Array | None]]
"""(features, targets, weights) block by block; targets of shape (n,) or (n, t), weights of
shape (n,) or None."""

Projections = Iterator[tuple[Array, Array, Array]]
"""(U'(z - mean), targets about their mean, weights) of consecutive rows, (n, k), (n, t), (n,)."""


class AlphaSearch(NamedTuple):
    """Alphas that were compared, the score of each, and the best of them.

    The best has the smallest score; the larger alpha where scores are equal. Scores are errors on
    rows that were left out; infinite for alphas that were not tried.

    Attributes
    ----------
    alpha : float
    alphas, scores : array
    method : str
        "loo", "kfold", "gcv" or "held-out".
    baseline : float or None
        Score of a model without features: the mean of the targets, or the intercept alone.
    accuracy : float or None
        Share of rows whose label is predicted by the model that was fitted without them, for the
        best alpha; None where there are no labels, or only sums of squares.
    majority : float or None
        Share of the most frequent label, where there is an accuracy.
    """

    alpha: float
    alphas: Array
    scores: Array
    method: str = ""
    baseline: float | None = None
    accuracy: float | None = None
    majority: float | None = None

    @property
    def is_open(self) -> bool:
        """Whether the smallest alpha is the best, and smaller ones are likely to be better.

        So it is where the last step lowers the error by a thousandth of that of a constant, or of
        the largest error, and leaves more than a tenth of it.
        """
        order = np.argsort(self.alphas, kind="stable")
        finite = self.scores[np.isfinite(self.scores)]
        if self.method == "evidence" or len(order) < 2 or self.alpha > self.alphas[order[0]]:
            return False
        least, before = self.scores[order[:2]]
        whole = finite.max() if self.baseline is None else self.baseline
        return bool(before - least > 1e-3 * whole and least > 0.1 * whole)


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
        if components is not None:
            basis, reduced = components.reduced(normal)
            inside = cls.of(reduced, overwrite=True)
            rest = replace(normal, scatter=np.empty((0, 0)))
            return replace(inside, normal=rest, vectors=basis.expand(inside.vectors))
        scale = normal.scale
        values, vectors, cut = decompose(normal.scatter, overwrite=overwrite)
        rest = replace(normal, scatter=np.empty((0, 0)))
        return cls(rest, scale, cut, values, vectors, vectors.T @ normal.cross)

    @property
    def smallest(self) -> float:
        """Smallest eigenvalue that is above 0 to rounding; infinite where there is none."""
        return float(self.values[0]) if len(self.values) else np.inf

    def coef(self, alpha: float) -> Array:
        """Return c = U q/(l + alpha), (D, t)."""
        return self.vectors @ (self.projected / (self.values + alpha)[:, None])

    def intercept(self, alpha: float) -> Array:
        """Return b = target_mean - mean'c, (t,); zeros without an intercept."""
        return self.normal.intercept(self.coef(alpha))

    def projections(self, rows: Rows | None = None) -> Projections:
        """Yield U'(z - mean) of the rows, a tile at a time, with targets about their mean."""
        assert rows is not None
        normal = self.normal
        center = normal.mean @ self.vectors
        for block, targets, weight in rows:
            n = block.shape[0]
            w = frequency_weights(n, weight)
            Y = np.asarray(targets, dtype=np.float64).reshape(n, -1) - normal.target_mean
            for part in self._tiles(n):
                P = rows_of(block, part) @ self.vectors
                P -= center
                yield P, Y[part], w[part]

    def _tiles(self, n: int) -> Iterator[slice]:
        return row_slices(n, max(64, PROJECTION_BYTES // (8 * max(len(self.values), 1))))

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


def eigenvectors(matrix: Any, *, overwrite: bool = False) -> tuple[Array, Array]:
    """Return the eigenvalues, ascending, and eigenvectors of a symmetric matrix.

    They are computed on its device, or that of ``use_device``. The matrix may be overwritten.
    """
    from scipy.linalg import eigh

    device = device_of(matrix)
    if device is not None:
        values, vectors = torch_ops().linalg.eigh(matrix, device.torch_device)
    else:
        values, vectors = eigh(matrix.T, overwrite_a=overwrite, check_finite=False, driver="evd")
    return values, vectors


def decompose(
    matrix: Any, *, least: float = 0.0, overwrite: bool = False
) -> tuple[Array, Array, float]:
    """Return the eigenvalues above a cut, ascending, their eigenvectors, and the cut.

    The cut is D eps times the largest eigenvalue, twice the most negative one, or `least`. The
    matrix may be overwritten.
    """
    values, vectors = eigenvectors(matrix, overwrite=overwrite)
    cut = max(len(matrix) * _EPS * values[-1], -2 * values[0], least)
    positive = slice(np.count_nonzero(values <= cut), None)
    return values[positive], vectors[:, positive], float(cut)


def solve(normal: NormalEquations, alpha: float, *, overwrite: bool = False) -> tuple[Array, Array]:
    """Return c = (scatter + alpha I)^-1 cross, (D, t), and b = target_mean - mean'c, by Cholesky.

    Where scatter + alpha I is singular to rounding (alpha = 0, say) the solution is that of
    RidgeDecomposition, by the pseudo-inverse. With overwrite the memory of the scatter is reused.
    """
    alpha = float(alpha_grid("solve", [alpha])[0])
    scatter = normal.scatter if overwrite else normal.scatter.copy()
    coef = solve_cholesky(scatter, alpha, normal.cross)
    if coef is not None:
        return coef, normal.intercept(coef)
    decomposition = RidgeDecomposition.of(replace(normal, scatter=scatter), overwrite=True)
    return decomposition.coef(alpha), decomposition.intercept(alpha)


def solve_cholesky(scatter: Any, alpha: float, cross: Array) -> Array | None:
    """Return (scatter + alpha I)^-1 cross; None where the matrix is singular to rounding.

    One triangle of the scatter is overwritten, and its diagonal unless None is returned.
    """
    device = device_of(scatter)
    if device is not None:
        solution: Array | None = torch_ops().linalg.solve(
            scatter, alpha, cross, device.torch_device
        )
        return solution
    factor = CholeskyFactor.of(scatter, alpha)
    return None if factor is None else factor.solve(cross)


@dataclass(frozen=True, eq=False)
class CholeskyFactor:
    """R with R'R = scatter + alpha I, in the memory of the scatter."""

    upper: Array  # R, in Fortran order; below the diagonal are entries of the scatter

    @classmethod
    def of(cls, scatter: Array, alpha: float) -> CholeskyFactor | None:
        """Factor a matrix, one triangle of which is overwritten; None where it is singular.

        Its reciprocal condition number is then at most D eps, and its diagonal as before.
        """
        from scipy.linalg import lapack

        D = len(scatter)
        A = scatter.T  # columns, as LAPACK wants them
        diagonal = np.diag(A).copy()
        A.flat[:: D + 1] = diagonal + alpha
        size = lapack.dlange("1", A)
        upper, failed = lapack.dpotrf(A, lower=False, clean=False, overwrite_a=True)
        if not failed and lapack.dpocon(upper, size, uplo="U")[0] > D * _EPS:
            return cls(upper)
        A.flat[:: D + 1] = diagonal
        return None

    def solve(self, B: Array) -> Array:
        """Return (scatter + alpha I)^-1 B."""
        from scipy.linalg import lapack

        solution: Array = lapack.dpotrs(self.upper, B, lower=False)[0]
        return solution


def choose_gcv(
    decomposition: RidgeDecomposition, alphas: Sequence[float] | Array | None = None
) -> AlphaSearch:
    """Return the alpha with the smallest sum over outputs of GCV(alpha) = n RSS/(n - df)^2."""
    tried = alpha_grid("choose_gcv", alphas, decomposition.scale, decomposition.smallest)
    scores = np.array([decomposition.gcv(alpha).sum() for alpha in tried])
    if not np.isfinite(scores).any():
        raise ValueError(
            f"choose_gcv: df is not below n = {decomposition.normal.observations:g}, the sum of "
            f"the weights, for any alpha up to {tried.max():g}. Weights must count rows; give more "
            "rows, larger alphas, or a single alpha."
        )
    return best_of(tried, scores, "gcv", decomposition.normal.variance)


def choose_loo(
    decomposition: RidgeDecomposition,
    rows: Rows | None,
    alphas: Sequence[float] | Array | None = None,
    left_out: Array | None = None,
    *,
    labels: bool = False,
) -> AlphaSearch:
    """Return the alpha with the smallest leave-one-out error, summed over outputs.

    Parameters
    ----------
    decomposition, rows, left_out, labels
        As in `leave_one_out`.
    alphas : sequence of float, optional
        The default grid, down to the smallest eigenvalue.
    """
    normal = decomposition.normal
    tried = alpha_grid("choose_loo", alphas, decomposition.scale, decomposition.smallest)
    result = leave_one_out(decomposition, rows, tried, left_out=left_out, labels=labels)
    scores = result.errors.sum(axis=1) / normal.n
    scores[np.isnan(scores)] = np.inf  # 1/alpha may leave the range of float64
    if not np.isfinite(scores).any():
        raise ValueError(
            "choose_loo: some row has leverage 1 for any alpha up to "
            f"{tried.max():g} (n = {normal.n:g}). Give more rows, larger alphas, or a single alpha."
        )
    search = best_of(tried, scores, "loo", normal.variance)
    if not labels:
        return search
    accuracy = float(result.accuracy[tried == search.alpha][0])
    return search._replace(accuracy=accuracy, majority=result.majority)


class LeftOut(NamedTuple):
    """Squared errors of rows that were left out, (alphas, t), and shares of labels.

    accuracy, of shape (alphas,), is the weighted share of the labels that are predicted without
    their row; majority that of the most frequent label. Both are 0 without labels.
    """

    errors: Array
    accuracy: Array
    majority: float


def leave_one_out(
    decomposition: RidgeDecomposition,
    rows: Rows | None,
    alphas: Sequence[float] | Array,
    *,
    left_out: Array | None = None,
    labels: bool = False,
) -> LeftOut:
    """Return sum w (e/(1 - v h))^2, h = 1/n + sum_j (u_j'(z - mean))^2/(l_j + alpha), by alpha.

    This is exact leave-one-out in a second pass: e is a row's residual, h its leverage (without
    1/n where there is no intercept) and v the weight that is left out with it, that of the row and
    its copies, which have the same residual. The error is infinite where 1 - v h is 0 to rounding:
    a row that determines its own prediction has no leave-one-out error.

    Parameters
    ----------
    decomposition : RidgeDecomposition
        Of the same rows.
    rows : iterable of (block, targets, weights or None), or None
        None where the decomposition has them (``GramDecomposition``).
    alphas : sequence of float
    left_out : array of shape (n,), optional
        v; the weight of each row by default.
    labels : bool, default=False
        Whether targets are one-versus-rest labels, +1 and -1.

    Returns
    -------
    LeftOut
    """
    tried = alpha_grid("leave_one_out", alphas)
    normal, t = decomposition.normal, decomposition.projected.shape[1]
    inverses = 1 / (decomposition.values + tried[:, None])
    rounding = decomposition.cut * inverses.max(axis=1, initial=0.0)
    errors, right = np.zeros((len(tried), t)), np.zeros(len(tried))
    counts = np.zeros(max(t, 2))
    start = 0
    for P, Y, w in decomposition.projections(rows):
        v = w if left_out is None else left_out[start : start + len(w)]
        start += len(w)
        complement = 1 - v[:, None] * (normal.fit_intercept / normal.n + P**2 @ inverses.T)
        if labels:
            truth = class_numbers(Y + normal.target_mean)
            counts += np.bincount(truth, w, minlength=len(counts))
        for i, inverse in enumerate(inverses):
            if np.any(complement[:, i] <= rounding[i]):
                errors[i] = np.inf
                continue
            residuals = Y - P @ (inverse[:, None] * decomposition.projected)
            residuals /= complement[:, i, None]
            errors[i] += w @ residuals**2
            if labels:
                right[i] += w @ (class_numbers(Y + normal.target_mean - residuals) == truth)
    return LeftOut(errors, right / normal.n, float(counts.max() / normal.n))


def alpha_grid(
    name: str,
    alphas: Sequence[float] | Array | None,
    scale: float = 1.0,
    smallest: float = np.inf,
) -> Array:
    """Return the alphas as a validated array; ALPHAS times scale where none are given.

    This default grid is extended by the same steps down to a hundredth of the smallest eigenvalue,
    at least SMALLEST_RELATIVE_ALPHA times scale, so that no direction is shrunk by every alpha.
    """
    if alphas is None:
        least = np.clip(smallest / scale / 100, SMALLEST_RELATIVE_ALPHA, ALPHAS[0])
        more = math.ceil(2 * math.log10(ALPHAS[0] / least))
        grid = np.logspace(-6 - more / 2, 6, 25 + more) * scale
        return grid[np.isfinite(grid)]
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


def best_of(
    alphas: Array, scores: Array, method: str = "", baseline: float | None = None
) -> AlphaSearch:
    """Return the search result for these scores."""
    best = float(alphas[scores == scores.min()].max())
    return AlphaSearch(best, alphas, scores, method, baseline)
