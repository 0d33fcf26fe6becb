"""Ridge regression, with or without principal components first, from the normal equations: one decomposition for all alphas.

The objective is sum w |y - b - z'c|^2 + alpha |c|^2 everywhere: no 1/n, and the intercept b is not penalised.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from mercer import door
from mercer.blocks import Block
from mercer.learn.normal import Array, Normal
from mercer.summaries import frequency_weights

ALPHAS = np.logspace(-6, 6, 25)
"""The grid where none is given, in units of the mean eigenvalue ``Normal.scale``: features times c have alphas times c^2, rows repeated k
times alphas times k, and the choice stays."""

Rows = Iterable[tuple[Block, Array, Array | None]]
"""(features, targets, weights) block by block; targets of shape (n,) or (n, t), weights of shape (n,) or None."""


class Choice(NamedTuple):
    """The alpha of the smallest score (the larger one where scores are equal), and the score of each alpha."""

    alpha: float
    alphas: Array
    scores: Array


@dataclass(frozen=True, eq=False)
class Spectrum:
    """scatter = U diag(l) U' and q = U'cross, once; then c = U q/(l + alpha) for any alpha.

    With `rank`, U has the leading eigenvectors only: ridge on that many principal components, folded back onto the features, so that a
    prediction is b + z'c and needs no projection. (Without an intercept these are components about 0, not about the mean.)

    Eigenvalues that rounding made negative are 0. The most negative of them, and D eps times the largest, say what cannot be told from
    0: directions whose l + alpha is not above that are left out, so that alpha = 0 is the pseudo-inverse, and rounding is not blown up.
    """

    normal: Normal  # without its scatter, which is taken apart
    scale: float  # that of the normal equations
    values: Array  # l, rising
    vectors: Array  # U, (D, k)
    projected: Array  # q, (k, t)
    cut: float

    @classmethod
    def of(cls, normal: Normal, rank: int | None = None, *, overwrite: bool = False) -> Spectrum:
        """The decomposition of the normal equations; with overwrite, in the memory of their scatter, which is lost."""
        from scipy.linalg import eigh

        D = len(normal.scatter)
        if rank is not None and door.whole("Spectrum", "rank", rank) > D:
            raise ValueError(f"Spectrum: rank must be at most the number of features, {D}, got {rank}.")
        scale = normal.scale
        some: Any = {"driver": "evd"} if rank in (None, D) else {"subset_by_index": [D - rank, D - 1]}
        values, vectors = eigh(normal.scatter.T, overwrite_a=overwrite, check_finite=False, **some)
        cut = max(D * np.finfo(np.float64).eps * values[-1], -values[0], 0.0)
        rest = replace(normal, scatter=np.empty((0, 0)))
        return cls(rest, scale, np.maximum(values, 0.0), vectors, vectors.T @ normal.cross, float(cut))

    def coef(self, alpha: float) -> Array:
        """c = U q/(l + alpha), (D, t)."""
        return self.vectors @ (self._inverse(alpha)[:, None] * self.projected)

    def intercept(self, alpha: float) -> Array:
        """b = target_mean - mean'c, (t,); zeros without an intercept."""
        return self.normal.intercept(self.coef(alpha))

    def rss(self, alpha: float) -> Array:
        """sum w (y - b - z'c)^2 = yy - sum q^2 (l + 2 alpha)/(l + alpha)^2, (t,).

        Computed as what no c explains, yy - sum q^2/l, and sum (q^2/l) (alpha/(l + alpha))^2, which keeps its digits where the fit is
        near perfect. The first is 0 where it cannot be told from 0.
        """
        energy, unexplained = self._energies
        l, hidden = self.values, slice(0, self._hidden)
        lost = ((l[hidden] + 2 * alpha) * self._inverse(alpha)[hidden] ** 2) @ self.projected[hidden] ** 2
        shrunk = (alpha / (l[self._hidden :] + alpha)) ** 2 @ energy
        return np.maximum(unexplained - lost + shrunk, 0.0)

    def degrees(self, alpha: float) -> float:
        """Degrees of freedom, df = 1 + sum l/(l + alpha); without the 1 where there is no intercept."""
        return float(self.normal.fit_intercept + self.values @ self._inverse(alpha))

    def gcv(self, alpha: float) -> Array:
        """n RSS/(n - df)^2, (t,); infinite where df is not below n."""
        left = self._left(alpha)
        return self.normal.n * self.rss(alpha) / left**2 if left > 0 else np.full(self.projected.shape[1], np.inf)

    def _left(self, alpha: float) -> float:
        """n - df, without the difference of near numbers that there is when df is almost n."""
        hidden, known = self.values[: self._hidden], self.values[self._hidden :]
        shrunk = float(np.sum(alpha / (known + alpha))) - float(hidden @ self._inverse(alpha)[: self._hidden])
        return self.normal.n - self.normal.fit_intercept - len(known) + shrunk

    def _inverse(self, alpha: float) -> Array:
        """1/(l + alpha), 0 for the directions that are left out."""
        shifted = self.values + alpha
        return np.divide(1.0, shifted, out=np.zeros_like(shifted), where=shifted > self.cut)

    @cached_property
    def _hidden(self) -> int:
        """How many eigenvalues cannot be told from 0."""
        return int(np.count_nonzero(self.values <= self.cut))

    @cached_property
    def _energies(self) -> tuple[Array, Array]:
        """q^2/l of the eigenvalues that can be told from 0, and yy less their sum, 0 where rounding hides it."""
        l, q = self.values[self._hidden :, None], self.projected[self._hidden :]
        yy = self.normal.target_scatter
        energy = q**2 / l
        left = yy - energy.sum(axis=0)
        blur = self.cut * np.sum(energy / l, axis=0) + len(self.values) * np.finfo(np.float64).eps * yy
        return energy, np.where(left > blur, left, 0.0)


def solve(normal: Normal, alpha: float, *, overwrite: bool = False) -> tuple[Array, Array]:
    """c = (scatter + alpha I)^-1 cross and b = target_mean - mean'c, by Cholesky: (D, t) and (t,).

    Where scatter + alpha I is singular to rounding (alpha = 0, say) it is the Spectrum's solution, by the pseudo-inverse. With overwrite
    the memory of the scatter is used, and its content lost.
    """
    from scipy.linalg import lapack

    alpha = float(grid("solve", [alpha])[0])
    D = len(normal.scatter)
    A = (normal.scatter if overwrite else normal.scatter.copy()).T  # columns, as LAPACK wants them
    diagonal = np.diag(A).copy()
    A.flat[:: D + 1] = diagonal + alpha
    size = lapack.dlange("1", A)
    factor, failed = lapack.dpotrf(A, lower=False, clean=False, overwrite_a=True)
    if not failed and lapack.dpocon(factor, size, uplo="U")[0] > D * np.finfo(np.float64).eps:
        coef = lapack.dpotrs(factor, normal.cross, lower=False)[0]
        return coef, normal.intercept(coef)
    A.flat[:: D + 1] = diagonal  # the factor is in the upper triangle, and eigh looks at the lower one
    spectrum = Spectrum.of(replace(normal, scatter=A.T), overwrite=True)
    return spectrum.coef(alpha), spectrum.intercept(alpha)


def choose_gcv(spectrum: Spectrum, alphas: Sequence[float] | Array | None = None) -> Choice:
    """The alpha with the smallest sum over outputs of GCV(alpha) = n RSS/(n - df)^2; ALPHAS where none are given."""
    tried = grid("choose_gcv", alphas, spectrum.scale)
    scores = np.array([spectrum.gcv(alpha).sum() for alpha in tried])
    if not np.isfinite(scores).any():
        raise ValueError(
            f"choose_gcv: df is not below n = {spectrum.normal.n:g}, the sum of the weights, for any alpha up to {tried.max():g}. "
            "Weights must count rows; give more rows, larger alphas, or a single alpha."
        )
    return _best(tried, scores)


def choose_kfold(
    folds: Sequence[Normal], alphas: Sequence[float] | Array | None = None, rank: int | None = None
) -> Choice:
    """The alpha with the smallest mean squared error, summed over outputs, on folds that were left out.

    Trained on the sum of all folds less one, from which a fold's normal equations are subtracted, and measured on that fold's: no second
    pass over the rows, and one decomposition for each fold.
    """
    if len(folds) < 2:
        raise ValueError(f"choose_kfold needs at least 2 folds that have rows, got {len(folds)}.")
    total = sum(folds[1:], start=folds[0])
    tried = grid("choose_kfold", alphas, total.scale)
    errors = np.zeros(len(tried))
    for fold in folds:
        spectrum = Spectrum.of(total - fold, rank, overwrite=True)
        for i, alpha in enumerate(tried):
            coef = spectrum.coef(alpha)
            errors[i] += fold.error(coef, spectrum.normal.intercept(coef)).sum()
    return _best(tried, errors / total.n)


def choose_loo(spectrum: Spectrum, rows: Rows, alphas: Sequence[float] | Array | None = None) -> Choice:
    """The alpha with the smallest mean squared error, summed over outputs, of rows that were left out one by one: `loo_errors`."""
    tried = grid("choose_loo", alphas, spectrum.scale)
    scores = loo_errors(spectrum, rows, tried).sum(axis=1) / spectrum.normal.n
    if not np.isfinite(scores).any():
        raise ValueError(
            f"choose_loo: some row is fitted whatever it says, for any alpha up to {tried.max():g} (n = {spectrum.normal.n:g}). "
            "Give more rows, larger alphas, or a single alpha."
        )
    return _best(tried, scores)


def loo_errors(spectrum: Spectrum, rows: Rows, alphas: Sequence[float] | Array) -> Array:
    """sum w (e/(1 - h))^2, h = 1/n + sum_j (u_j'(z - mean))^2/(l_j + alpha): exact leave-one-out for all alphas in a second pass.

    e is a row's residual and h its leverage (without 1/n where there is no intercept). A weight counts equal rows, and one of them is
    left out; a row of weight below 1 is left out whole, so that its leverage is w h. Infinite where 1 - h cannot be told from 0: leverages
    are not in the moments, and a row that is fitted whatever it says has no error that could be known.

    Parameters
    ----------
    spectrum : Spectrum
        Of the same rows.
    rows : iterable of (block, targets, weights or None)
    alphas : sequence of float

    Returns
    -------
    array of shape (alphas, t)
    """
    tried = grid("loo_errors", alphas)
    normal = spectrum.normal
    t = normal.cross.shape[1]
    inverses = np.array([spectrum._inverse(alpha) for alpha in tried])
    blur = spectrum.cut * inverses[:, spectrum._hidden :].max(axis=1, initial=0.0)
    center = normal.mean @ spectrum.vectors
    errors = np.zeros((len(tried), t))
    for block, targets, weight in rows:
        n = block.shape[0]
        w = frequency_weights(n, weight)
        Y = np.asarray(targets, dtype=np.float64).reshape(n, t) - normal.target_mean
        P = block @ spectrum.vectors - center
        kept = 1 - np.minimum(w, 1.0)[:, None] * (normal.fit_intercept / normal.n + P**2 @ inverses.T)
        for i, inverse in enumerate(inverses):
            if np.any(kept[:, i] <= blur[i]):
                errors[i] = np.inf
            else:
                residuals = Y - P @ (inverse[:, None] * spectrum.projected)
                errors[i] += w @ (residuals / kept[:, i, None]) ** 2
    return errors


def grid(who: str, alphas: Sequence[float] | Array | None, scale: float = 1.0) -> Array:
    """The alphas as an array, ALPHAS times scale where there are none; refused unless they are finite numbers of at least 0."""
    if alphas is None:
        return ALPHAS * scale
    tried: Any = np.asarray(alphas)
    if (
        tried.ndim != 1
        or not len(tried)
        or tried.dtype.kind not in "iuf"
        or not np.all((tried >= 0) & (tried < np.inf))
    ):
        raise ValueError(f"{who}: alphas must be one or more finite numbers of at least 0, got {alphas!r}.")
    return tried.astype(np.float64)


def _best(alphas: Array, scores: Array) -> Choice:
    return Choice(float(alphas[scores == scores.min()].max()), alphas, scores)
