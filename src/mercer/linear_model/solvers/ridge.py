"""Ridge regression, with or without principal components first, from the normal equations: one
decomposition for all alphas.

The objective is sum w |y - b - z'c|^2 + alpha |c|^2 everywhere: no 1/n, and the intercept b is not
penalised.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from mercer.linear_model.normal_equations import Array, Normal
from mercer.linear_model.solvers.pca import Components
from mercer.maps.block import Block
from mercer.parallel import devices
from mercer.stats.basic import frequency_weights

ALPHAS = np.logspace(-6, 6, 25)
"""The grid where none is given, in units of the mean eigenvalue ``Normal.scale``: features times c
have alphas times c^2, rows repeated k times alphas times k, and the choice stays."""

FLAT = 1e3
"""Times sum w |z - mean|^2: alphas above it leave predictions within a thousandth of the mean,
and errors that differ by rounding."""

_EPS = float(np.finfo(np.float64).eps)

Rows = Iterable[tuple[Block, Array, Array | None]]
"""(features, targets, weights) block by block; targets of shape (n,) or (n, t), weights of
shape (n,) or None."""


class Choice(NamedTuple):
    """The alpha of the smallest score (the larger one where scores are equal), and the score of
    each alpha.
    """

    alpha: float
    alphas: Array
    scores: Array


@dataclass(frozen=True, eq=False)
class Spectrum:
    """scatter = U diag(l) U' and q = U'cross, once; then c = U q/(l + alpha) for any alpha.

    With `components`, U has as many columns as they are: ridge on principal components, folded back
    onto the features, so that a prediction is b + z'c and needs no projection. (Without an
    intercept these are components about 0, not about the mean.)

    Directions whose eigenvalue cannot be told from 0 are left out, so that alpha = 0 is the
    pseudo-inverse and no rounding is divided by a small alpha. What cannot be told is D eps times
    the largest eigenvalue, and twice what rounding has made of a 0 when it shows as a negative
    eigenvalue, as it does with products of float32 features.
    """

    normal: Normal  # without its scatter, which is taken apart
    scale: float  # that of the normal equations, of components where there are some
    cut: float  # eigenvalues up to this one are left out
    values: Array  # l, rising, (k,)
    vectors: Array  # U, (D, k)
    projected: Array  # q, (k, t)

    @classmethod
    def of(
        cls, normal: Normal, components: Components | None = None, *, overwrite: bool = False
    ) -> Spectrum:
        """The decomposition of the normal equations; with overwrite, in the memory of their
        scatter, which is lost.
        """
        from scipy.linalg import eigh

        if components is not None:
            basis, reduced = components.reduced(normal)
            inside = cls.of(reduced, overwrite=True)
            rest = replace(normal, scatter=np.empty((0, 0)))
            return replace(inside, normal=rest, vectors=basis.expand(inside.vectors))
        D = len(normal.scatter)
        scale = normal.scale
        place = devices.here()
        if place is None:
            values, vectors = eigh(
                normal.scatter.T, overwrite_a=overwrite, check_finite=False, driver="evd"
            )
        else:
            values, vectors = devices.gpu().linalg.eigh(normal.scatter, place.torch_device)
        cut = max(D * _EPS * values[-1], -2 * values[0], 0.0)
        known = slice(np.count_nonzero(values <= cut), None)
        values, vectors = values[known], vectors[:, known]
        rest = replace(normal, scatter=np.empty((0, 0)))
        return cls(rest, scale, float(cut), values, vectors, vectors.T @ normal.cross)

    def coef(self, alpha: float) -> Array:
        """c = U q/(l + alpha), (D, t)."""
        return self.vectors @ (self.projected / (self.values + alpha)[:, None])

    def intercept(self, alpha: float) -> Array:
        """b = target_mean - mean'c, (t,); zeros without an intercept."""
        return self.normal.intercept(self.coef(alpha))

    def rss(self, alpha: float) -> Array:
        """sum w (y - b - z'c)^2 = yy - sum q^2 (l + 2 alpha)/(l + alpha)^2, (t,).

        Computed as what no c explains, yy - sum q^2/l, and sum (q^2/l) (alpha/(l + alpha))^2, which
        keeps its digits where the fit is near perfect. The first is 0 where it cannot be told from
        0.
        """
        energy, unexplained = self._energies
        return unexplained + (alpha / (self.values + alpha)) ** 2 @ energy

    def degrees(self, alpha: float) -> float:
        """Degrees of freedom, df = 1 + sum l/(l + alpha); without the 1 where there is no
        intercept.
        """
        return float(self.normal.fit_intercept + np.sum(self.values / (self.values + alpha)))

    def gcv(self, alpha: float) -> Array:
        """n RSS/(n - df)^2 for n rows, (t,); infinite where df is not below n."""
        n = self.normal.observations
        free = n - self.normal.fit_intercept - len(self.values)
        left = free + np.sum(
            alpha / (self.values + alpha)
        )  # n - df, with all its digits where that is small
        return (
            n * self.rss(alpha) / left**2 if left > 0 else np.full(self.projected.shape[1], np.inf)
        )

    @cached_property
    def _energies(self) -> tuple[Array, Array]:
        """q^2/l, and yy less their sum, 0 where rounding hides it."""
        l, yy = self.values[:, None], self.normal.target_scatter
        energy = self.projected**2 / l
        left = yy - energy.sum(axis=0)
        blur = self.cut * np.sum(energy / l, axis=0) + len(l) * _EPS * yy
        return energy, np.where(left > blur, left, 0.0)


def solve(normal: Normal, alpha: float, *, overwrite: bool = False) -> tuple[Array, Array]:
    """c = (scatter + alpha I)^-1 cross and b = target_mean - mean'c, by Cholesky: (D, t) and (t,).

    Where scatter + alpha I is singular to rounding (alpha = 0, say) it is the Spectrum's solution,
    by the pseudo-inverse. With overwrite the memory of the scatter is used, and its content lost.
    """
    from scipy.linalg import lapack

    alpha = float(grid("solve", [alpha])[0])
    place = devices.here()
    if place is not None:
        coef = devices.gpu().linalg.solve(normal.scatter, alpha, normal.cross, place.torch_device)
        if coef is not None:
            return coef, normal.intercept(coef)
        spectrum = Spectrum.of(normal)
        return spectrum.coef(alpha), spectrum.intercept(alpha)
    D = len(normal.scatter)
    A = (normal.scatter if overwrite else normal.scatter.copy()).T  # columns, as LAPACK wants them
    diagonal = np.diag(A).copy()
    A.flat[:: D + 1] = diagonal + alpha
    size = lapack.dlange("1", A)
    factor, failed = lapack.dpotrf(A, lower=False, clean=False, overwrite_a=True)
    if not failed and lapack.dpocon(factor, size, uplo="U")[0] > D * _EPS:
        coef = lapack.dpotrs(factor, normal.cross, lower=False)[0]
        return coef, normal.intercept(coef)
    A.flat[:: D + 1] = (
        diagonal  # the factor is in the upper triangle, and eigh looks at the lower one
    )
    spectrum = Spectrum.of(replace(normal, scatter=A.T), overwrite=True)
    return spectrum.coef(alpha), spectrum.intercept(alpha)


def choose_gcv(spectrum: Spectrum, alphas: Sequence[float] | Array | None = None) -> Choice:
    """The alpha with the smallest sum over outputs of GCV(alpha) = n RSS/(n - df)^2; ALPHAS where
    none are given.
    """
    tried = grid("choose_gcv", alphas, spectrum.scale)
    scores = np.array([spectrum.gcv(alpha).sum() for alpha in tried])
    if not np.isfinite(scores).any():
        raise ValueError(
            f"choose_gcv: df is not below n = {spectrum.normal.observations:g}, the sum of the "
            "weights, "
            f"for any alpha up to {tried.max():g}. Weights must count rows; give more rows, "
            "larger alphas, or a single alpha."
        )
    return best_of(tried, scores)


def choose_kfold(
    folds: Sequence[Normal],
    alphas: Sequence[float] | Array | None = None,
    components: Components | None = None,
) -> Choice:
    """The alpha with the smallest mean squared error, summed over outputs, on folds that were left
    out.

    Trained on the sum of all folds less one, from which a fold's normal equations are subtracted,
    and measured on that fold's: no second pass over the rows, and one decomposition for each fold.
    """
    if len(folds) < 2:
        raise ValueError(f"choose_kfold needs at least 2 folds that have rows, got {len(folds)}.")
    total = sum(folds[1:], start=folds[0])
    tried = grid("choose_kfold", alphas, total.scale)
    errors = np.zeros(len(tried))
    for fold in folds:
        spectrum = Spectrum.of(total - fold, components, overwrite=True)
        for i, alpha in enumerate(tried):
            coef = spectrum.coef(alpha)
            errors[i] += fold.error(coef, spectrum.normal.intercept(coef)).sum()
    return best_of(tried, errors / total.n)


def choose_loo(
    spectrum: Spectrum, rows: Rows, alphas: Sequence[float] | Array | None = None
) -> Choice:
    """The alpha with the smallest mean squared error, summed over outputs, of rows that were left
    out one by one: `loo_errors`.
    """
    tried = grid("choose_loo", alphas, spectrum.scale)
    scores = loo_errors(spectrum, rows, tried).sum(axis=1) / spectrum.normal.n
    if not np.isfinite(scores).any():
        raise ValueError(
            "choose_loo: some row is fitted whatever it says, for any alpha up to "
            f"{tried.max():g} (n = {spectrum.normal.n:g}). "
            "Give more rows, larger alphas, or a single alpha."
        )
    return best_of(tried, scores)


def loo_errors(spectrum: Spectrum, rows: Rows, alphas: Sequence[float] | Array) -> Array:
    """sum w (e/(1 - h))^2, h = 1/n + sum_j (u_j'(z - mean))^2/(l_j + alpha): exact leave-one-out
    for all alphas in a second pass.

    e is a row's residual and h its leverage (without 1/n where there is no intercept). A weight
    counts equal rows, and one of them is left out; a row of weight below 1 is left out whole, so
    that its leverage is w h. Infinite where 1 - h cannot be told from 0: leverages are not in the
    moments, and a row that is fitted whatever it says has no error that could be known.

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
    inverses = 1 / (spectrum.values + tried[:, None])
    blur = spectrum.cut * inverses.max(axis=1, initial=0.0)
    center = normal.mean @ spectrum.vectors
    errors = np.zeros((len(tried), t))
    for block, targets, weight in rows:
        n = block.shape[0]
        w = frequency_weights(n, weight)
        Y = np.asarray(targets, dtype=np.float64).reshape(n, t) - normal.target_mean
        P = block @ spectrum.vectors - center
        kept = 1 - np.minimum(w, 1.0)[:, None] * (
            normal.fit_intercept / normal.n + P**2 @ inverses.T
        )
        for i, inverse in enumerate(inverses):
            if np.any(kept[:, i] <= blur[i]):
                errors[i] = np.inf
            else:
                residuals = Y - P @ (inverse[:, None] * spectrum.projected)
                errors[i] += w @ (residuals / kept[:, i, None]) ** 2
    return errors


def grid(who: str, alphas: Sequence[float] | Array | None, scale: float = 1.0) -> Array:
    """The alphas as an array, ALPHAS times scale where there are none; refused unless they are
    finite numbers of at least 0.
    """
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
            f"{who}: alphas must be one or more finite numbers of at least 0, got {alphas!r}."
        )
    return tried.astype(np.float64)


def best_of(alphas: Array, scores: Array) -> Choice:
    """The smallest score, and the larger alpha where scores are equal."""
    return Choice(float(alphas[scores == scores.min()].max()), alphas, scores)
