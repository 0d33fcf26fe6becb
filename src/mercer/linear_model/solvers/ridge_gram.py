"""Ridge regression from the Gram matrix of the rows, where they are fewer than the features.

With rows Z about their mean and s the roots of their weights, K = diag(s) Z Z' diag(s) has the
eigenvalues of the scatter that are not 0. Its decomposition V diag(l) V' yields that of the
scatter, U = Z' diag(s) V/sqrt(l), whose columns are never formed: a fit takes n x n numbers and
the features of the rows, no D x D numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer._typing import Array
from mercer.linear_model.normal_equations import NormalEquations
from mercer.linear_model.solvers.blocks import (
    WeightedBlock,
    column_sums,
    multiply,
    multiply_transposed,
    stack_coded,
    with_weights,
)
from mercer.linear_model.solvers.ridge import (
    Projections,
    RidgeDecomposition,
    Rows,
    decompose,
    solve_cholesky,
)
from mercer.maps.block import Block, Dense, rows_of
from mercer.parallel.threads import row_slices

_PANEL_BYTES = 2**25  # of the columns of Z' that a product is computed for, where Z is not dense


@dataclass(frozen=True, eq=False)
class GramDecomposition(RidgeDecomposition):
    """RidgeDecomposition of rows in memory; `vectors` are V, of shape (n, k).

    Attributes
    ----------
    rows : CenteredRows
    targets : array of shape (n, t)
        About their mean.
    weights : array of shape (n,)
    """

    rows: CenteredRows
    targets: Array
    weights: Array

    @classmethod
    def of_rows(cls, rows: Rows, **options: Any) -> GramDecomposition:
        """Decompose the Gram matrix of rows; parameters as of `GramSystem.of_rows`."""
        return cls.of(GramSystem.of_rows(rows, **options))

    @classmethod
    @np.errstate(over="ignore", invalid="ignore")
    def of(cls, system: GramSystem) -> GramDecomposition:  # type: ignore[override]
        """Decompose the matrix of a system, which is overwritten."""
        normal, w, Y = system.normal, system.weights, system.targets
        scale = float(np.trace(system.gram)) / len(normal.mean) or 1.0
        # Equal rows are not 0 about a mean whose sum of len(w) rows was rounded.
        square = float(normal.mean @ normal.mean)
        rounding = normal.n * square * (len(w) * np.finfo(np.float64).eps) ** 2
        values, vectors, cut = decompose(system.gram, least=rounding, overwrite=True)
        projected = np.sqrt(values)[:, None] * (vectors.T @ (np.sqrt(w)[:, None] * Y))
        return cls(normal, scale, cut, values, vectors, projected, system.rows, Y, w)

    def coef(self, alpha: float) -> Array:
        """Return c = Z' diag(s) V V' diag(s) y/(l + alpha), (D, t)."""
        shrunk = self.projected / (np.sqrt(self.values) * (self.values + alpha))[:, None]
        return self.rows.multiply_transposed(
            np.sqrt(self.weights)[:, None] * (self.vectors @ shrunk)
        )

    def explained(self, alpha: float, excess: float) -> Array:
        """Return M with M'M = sum l/(l + alpha) u u', (k, D), of the largest eigenvalues.

        Those left out add at most `excess` to z'(I - M'M)z, summed over the training rows.
        """
        l = self.values
        left_out = int(np.count_nonzero(np.cumsum(l**2 / (l + alpha)) <= excess))
        used = slice(min(left_out, max(len(l) - 1, 0)), None)
        scaled = np.sqrt(self.weights)[:, None] * self.vectors[:, used]
        return np.ascontiguousarray(
            self.rows.multiply_transposed(scaled / np.sqrt(l[used] + alpha)).T
        )

    def left_out(self, alpha: float, fold: Array, folds: int) -> tuple[Array, Array]:
        """Return coefficients and intercepts fitted without each fold, (K, D, t) and (K, t).

        With H the hat matrix of the rows F of a fold and e their residuals, r = (I - H)^-1 e are
        the residuals of the model without them, and its coefficients are c - A^-1 (Z_F - mean)'r.

        Parameters
        ----------
        alpha : float
        fold : array of shape (n,)
            Number of each row's fold, below `folds`.
        folds : int
        """
        normal, roots, t = self.normal, np.sqrt(self.weights), self.targets.shape[1]
        coef = self.coef(alpha)
        share = self.values / (self.values + alpha)
        fitted = self.vectors @ (
            share[:, None] * (self.vectors.T @ (roots[:, None] * self.targets))
        )
        residuals = roots[:, None] * self.targets - fitted
        duals = np.zeros((len(self.values), folds, t))
        shift = np.zeros((folds, t))
        for k in range(folds):
            rows = np.flatnonzero(fold == k)
            V = self.vectors[rows]
            hat = (V * share) @ V.T
            if normal.fit_intercept:
                hat += np.multiply.outer(roots[rows], roots[rows]) / normal.n
            without = np.linalg.solve(np.eye(len(rows)) - hat, residuals[rows])
            duals[:, k] = V.T @ without / (self.values + alpha)[:, None]
            shift[k] = normal.fit_intercept * (roots[rows] @ without) / normal.n
        steps = self.rows.multiply_transposed(
            roots[:, None] * (self.vectors @ duals.reshape(len(self.values), folds * t))
        )
        steps = steps.reshape(-1, folds, t).transpose(1, 0, 2)
        intercept = normal.intercept(coef) - shift + np.einsum("d,kdt->kt", normal.mean, steps)
        return coef - steps, intercept

    def projections(self, rows: Rows | None = None) -> Projections:
        """Yield U'(z - mean) = sqrt(l) V/s of the rows themselves; 0 for those of weight 0."""
        roots = np.sqrt(self.weights)[:, None]
        for part in self._tiles(len(roots)):
            P = self.vectors[part] * np.sqrt(self.values)
            P = np.divide(P, roots[part], out=np.zeros_like(P), where=roots[part] > 0)
            yield P, self.targets[part], self.weights[part]


@dataclass(frozen=True, eq=False)
class GramSystem:
    """diag(s) (Z - 1 mean')(Z - 1 mean')' diag(s) of rows in memory, s the roots of the weights.

    Attributes
    ----------
    gram : array of shape (n, n)
    rows : CenteredRows
    targets : array of shape (n, t)
        About their mean.
    weights : array of shape (n,)
    normal : NormalEquations
        Means and numbers of rows; its matrices are empty.
    """

    gram: Array
    rows: CenteredRows
    targets: Array
    weights: Array
    normal: NormalEquations

    @classmethod
    @np.errstate(over="ignore", invalid="ignore")
    def of_rows(
        cls, rows: Rows, *, fit_intercept: bool = True, observations: float | None = None
    ) -> GramSystem:
        """Multiply rows, all of which are held in memory.

        Parameters
        ----------
        rows : iterable of (block, targets, weights or None)
        fit_intercept : bool, default=True
        observations : float, optional
            Number of rows, where weights do not count them.
        """
        blocks: list[WeightedBlock] = stack_coded(list(with_weights(rows)))
        Y = np.concatenate([targets for _, targets, _ in blocks])
        w = np.concatenate([weights for *_, weights in blocks])
        n = float(w.sum())
        if n <= 0:
            raise ValueError(f"Least squares needs rows with a weight above 0, got {n:g} in all.")
        D, t = blocks[0][0].shape[1], Y.shape[1]
        mean, target_mean = np.zeros(D), np.zeros(t)
        if fit_intercept:
            mean += sum(column_sums(block, weights) for block, _, weights in blocks) / n
            target_mean = w @ Y / n
        Y = Y - target_mean
        centered = CenteredRows.of([block for block, *_ in blocks], mean)
        roots = np.sqrt(w)
        gram = centered.gram()
        gram *= roots
        gram *= roots[:, None]
        target_scatter = w @ Y**2
        if not (np.isfinite(gram.sum()) and np.isfinite(target_scatter.sum())):
            raise ValueError(
                "Sums of squares of features or targets leave the range of float64: scale them "
                "down."
            )
        normal = NormalEquations(
            n,
            mean,
            np.empty((0, 0)),
            np.empty((0, t)),
            target_mean,
            target_scatter,
            fit_intercept,
            observations,
        )
        return cls(gram, centered, Y, w, normal)

    def solve(self, alpha: float) -> Array | None:
        """Return c = (Z - mean)' diag(s) (gram + alpha I)^-1 diag(s) y, (D, t), by Cholesky.

        None where the matrix is singular to rounding; what `GramDecomposition` reads of it is kept.
        """
        roots = np.sqrt(self.weights)[:, None]
        duals = solve_cholesky(self.gram, alpha, roots * self.targets)
        return None if duals is None else self.rows.multiply_transposed(roots * duals)


@dataclass(frozen=True, eq=False)
class CenteredRows:
    """Z - 1 mean' of rows in memory: dense blocks about their mean, others as they are."""

    blocks: Sequence[Block]
    mean: Array

    @classmethod
    def of(cls, blocks: Sequence[Block], mean: Array) -> CenteredRows:
        return cls(
            [
                Dense(block.Z - mean.astype(block.dtype)) if isinstance(block, Dense) else block
                for block in blocks
            ],
            mean,
        )

    def gram(self) -> Array:
        """Return (Z - 1 mean')(Z - 1 mean')', (n, n), in float64."""
        n = sum(block.shape[0] for block in self.blocks)
        out = np.empty((n, n))
        along = np.zeros(n)  # Z mean; 0 for dense blocks, which are centered
        for at, block in self._numbered():
            for other_at, other in self._numbered():
                if other_at.start <= at.start:
                    out[at, other_at] = _multiply_rows(block, other)
                    out[other_at, at] = out[at, other_at].T
            if not isinstance(block, Dense):
                along[at] = multiply(block, self.mean[:, None])[:, 0]
        if along.any():
            out -= along
            out -= along[:, None]
            out += float(self.mean @ self.mean)
        return out

    def multiply_transposed(self, R: Array) -> Array:
        """Return (Z - 1 mean')'R, (D, t)."""
        out = np.zeros((len(self.mean), R.shape[1]))
        for at, block in self._numbered():
            out += multiply_transposed(block, R[at])
            if not isinstance(block, Dense):
                out -= np.multiply.outer(self.mean, R[at].sum(axis=0))
        return out

    def _numbered(self) -> Iterator[tuple[slice, Block]]:
        start = 0
        for block in self.blocks:
            yield slice(start, start + block.shape[0]), block
            start += block.shape[0]


def _multiply_rows(block: Block, other: Block) -> Array:
    """Return Z X', a few columns of X' at a time where blocks are not dense."""
    if isinstance(block, Dense) and isinstance(other, Dense):
        return block.Z @ other.Z.T
    n, (m, D) = block.shape[0], other.shape
    out = np.empty((n, m))
    for part in row_slices(m, max(8, _PANEL_BYTES // (8 * D))):
        identity = np.eye(part.stop - part.start)
        out[:, part] = multiply(block, multiply_transposed(rows_of(other, part), identity))
    return out
