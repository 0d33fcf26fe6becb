"""Ridge regression where D x D numbers do not fit: conjugate gradients over blocks of features.

The objective is that of `mercer.linear_model.solvers.ridge`: sum w |y - b - z'c|^2 + alpha |c|^2,
the intercept not penalized. Each step is one pass over the rows. The loop of conjugate gradients
and the search for an alpha on held-out rows also serve Newton's method (`solvers.newton_cg`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from mercer._typing import Array
from mercer.linear_model.solvers.blocks import (
    ReadRows,
    WeightedBlock,
    column_squares,
    split,
    with_weights,
)
from mercer.linear_model.solvers.preconditioner import SpectralPreconditioner
from mercer.linear_model.solvers.ridge import MAX_RELATIVE_ALPHA, AlphaSearch, alpha_grid
from mercer.maps.block import Block
from mercer.validation.parameters import validate_positive, warn_not_converged

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class RidgeSolution:
    """c (D, t), b (t,), passes, and |cross - (scatter + alpha I) c|/|cross| of each output."""

    coef: Array
    intercept: Array
    iterations: int
    residual: Array
    preconditioner: SpectralPreconditioner


def solve_ridge(
    read_rows: ReadRows,
    alpha: float,
    *,
    fit_intercept: bool = True,
    coef0: Array | None = None,
    tol: float = 1e-6,
    max_iter: int = 300,
    preconditioner: SpectralPreconditioner | None = None,
) -> RidgeSolution:
    """Solve (scatter + alpha I) c = cross by conjugate gradients; scatter is never formed.

    A step is one pass: sum w (z - mean) ((z - mean)'p) for the directions p of the outputs that
    have not converged. Steps are preconditioned by the eigenvectors of scatter, or of that of a
    sample of rows (`SpectralPreconditioner`). One pass more computes means and cross, one the
    preconditioner, and one the residual of coef0.

    Parameters
    ----------
    read_rows : callable
        Returns an iterable of (block, targets, weights or None), the same at each call.
    alpha : float
        Above 0.
    fit_intercept : bool, default=True
    coef0 : array of shape (D, t), optional
        Starting point; 0 by default.
    tol : float, default=1e-6
        A column has converged when its residual is below tol times that of c = 0.
    max_iter : int, default=300
        Maximum number of steps; a ConvergenceWarning states the residual reached.
    preconditioner : SpectralPreconditioner, optional
        That of ``RidgeSolution.preconditioner``; computed by default.

    Returns
    -------
    RidgeSolution
    """
    name = "solve_ridge"
    validate_positive(name, "alpha", alpha)
    system = _System.of(name, read_rows, fit_intercept, preconditioner)
    coef, residual = np.zeros_like(system.cross), system.cross.copy()
    if coef0 is not None:
        coef += np.asarray(coef0).reshape(coef.shape)
        residual -= system.multiply(coef) + alpha * coef
    coef, residual, iterations = system.descend(alpha, coef, residual, tol, max_iter)
    solution = system.solution(coef, residual, iterations)
    worst = solution.residual.max(initial=0.0)
    if worst > tol:
        warn_not_converged(
            f"{name}: conjugate gradients have a relative residual of {worst:.2g} after "
            f"{iterations} passes, above tol={tol:g}. Take a larger max_iter, alpha or tol."
        )
    return solution


def choose_ridge_held_out(
    read_rows: ReadRows,
    held_out: Array,
    alphas: Sequence[float] | Array | None = None,
    *,
    fit_intercept: bool = True,
    tol: float = 1e-4,
    max_iter: int = 100,
    patience: int | None = 2,
) -> tuple[AlphaSearch, RidgeSolution]:
    """Return the alpha with the smallest sum w (y - b - z'c)^2/sum w on held-out rows.

    Alphas are tried from the largest down, each starting from the solution of the last one, whose
    residual needs no pass: it is r + (last alpha - alpha) c. A solution that max_iter cut short is
    scored as it is.

    Parameters
    ----------
    read_rows : callable
        Returns an iterable of (block, targets, weights or None), the same at each call.
    held_out : array of shape (n,), bool
        Rows that are held out, as ``cross_validation.held_out_rows`` returns them.
    alphas : sequence of float, optional
        Above 0; ``ridge.ALPHAS`` in units of the mean of diag(scatter) by default.
    fit_intercept : bool, default=True
    tol, max_iter : float and int
        Of each alpha.
    patience : int or None, default=2
        Stop after this number of alphas in a row that are no better than the best, except those so
        large that c is next to 0; None tries all.

    Returns
    -------
    search : AlphaSearch
        Alphas that were not tried have the score infinity.
    solution : RidgeSolution
        That of the best alpha, from the rows that were not held out.
    """
    name = "choose_ridge_held_out"
    system = _System.of(name, lambda: split(read_rows, ~held_out), fit_intercept)
    coef, residual, last = np.zeros_like(system.cross), system.cross.copy(), 0.0

    def solve(alpha: float, _: RidgeSolution | None) -> RidgeSolution:
        nonlocal coef, residual, last
        residual += (last - alpha) * coef
        coef, residual, iterations = system.descend(alpha, coef, residual, tol, max_iter)
        last = alpha
        return system.solution(coef, residual, iterations)

    def score(solution: RidgeSolution) -> float:
        def squares(block: Block, Y: Array) -> Array:
            errors = Y - solution.intercept - block @ solution.coef
            return np.sum(errors**2, axis=1)

        return held_out_mean(name, split(read_rows, held_out), squares)

    candidates = alpha_grid(name, alphas, float(system.diagonal.mean()) or 1.0)
    return search_alphas(name, candidates, system.diagonal.sum(), solve, score, patience)


def search_alphas(
    name: str,
    alphas: Array,
    scale: float,
    solve: Callable[[float, T | None], T],
    score: Callable[[T], float],
    patience: int | None,
    *,
    step: int = 1,
    worse: float = np.inf,
) -> tuple[AlphaSearch, T]:
    """Try alphas from the largest down; stop when `patience` in a row are no better than the best.

    solve(alpha, start) starts from the last solution. A single alpha ends the search too where its
    score is above the best by a share of more than `worse`, once one was better than the first.
    Alphas above MAX_RELATIVE_ALPHA times `scale`, which leave the
    coefficients next to 0, do not count. Those that were not tried have the score infinity. With a
    step of 2 every second alpha is tried, then those on both sides of the best, from its solution.
    """
    if not alphas.min() > 0:
        raise ValueError(f"{name}: alphas must be above 0, got {alphas.min():g}.")
    scores = np.full(len(alphas), np.inf)
    solutions: dict[int, T] = {}
    descending = np.argsort(-alphas, kind="stable")
    best = waited = 0
    last: T | None = None

    def evaluate(position: int) -> bool:
        """Return whether the alpha at this position is better than the best before it."""
        nonlocal best, last
        i = int(descending[position])
        last = solution = solve(float(alphas[i]), last)
        scores[i] = score(solution)
        if solutions and not scores[i] < scores[descending[best]]:
            return False
        best = position
        solutions.clear()
        solutions[best] = solution
        return True

    for position in range(0, len(alphas), step):
        if evaluate(position):
            waited = 0
        elif alphas[descending[position]] <= MAX_RELATIVE_ALPHA * scale:
            waited += 1
            if best and scores[descending[position]] > (1 + worse) * scores[descending[best]]:
                break
        if patience is not None and waited >= patience:
            break
    for position in (best - 1, best + 1) if step > 1 else ():
        if 0 <= position < len(alphas):
            last = solutions[best]
            evaluate(position)
    # the largest alpha of the default grid leaves next to nothing but the intercept
    largest = int(descending[0])
    baseline = float(scores[largest]) if alphas[largest] > scale else None
    alpha = float(alphas[descending[best]])
    return AlphaSearch(alpha, alphas, scores, "held-out", baseline), solutions[best]


def held_out_mean(
    name: str, rows: Iterator[WeightedBlock], value: Callable[[Block, Array], Array]
) -> float:
    """Return sum w value/sum w over the rows of weight above 0."""
    total, n = 0.0, 0.0
    for block, Y, w in rows:
        if w.any():
            total += float(w @ value(block, Y))
            n += float(w.sum())
    if n == 0:
        raise ValueError(f"{name}: no row is held out. Give more rows, or a number for alpha.")
    return total / n


def conjugate_gradients(
    apply: Callable[[Array, Array], tuple[Array, Array]],
    x: Array,
    residual: Array,
    precondition: Callable[[Array, Array], Array],
    goal: Array,
    max_iter: int,
    *,
    energy: bool = False,
) -> int:
    """Solve A x = b for several columns, each until the norm of its residual is at most its goal.

    Parameters
    ----------
    apply : callable
        apply(P, columns) returns A P and the diagonal of P'A P: one pass.
    x, residual : array of shape (D, t)
        Starting point and b - A x; both are changed in place.
    precondition : callable
        precondition(R, columns) returns M^-1 R for an approximation M of A.
    goal : array of shape (t,)
    max_iter : int
    energy : bool, default=False
        Whether the norm is sqrt(r'M^-1 r) and goals are relative to the first one, which estimates
        the error of x in the norm of A; otherwise it is |r|.

    Returns
    -------
    int
        Steps taken.
    """
    direction = precondition(residual, np.arange(residual.shape[1]))
    slope = np.sum(residual * direction, axis=0)
    squared_goal = goal**2 * slope if energy else goal**2
    for steps in range(max_iter):
        squares = slope if energy else np.sum(residual**2, axis=0)
        busy = np.flatnonzero(squares > squared_goal)
        if not len(busy):
            return steps
        P = direction[:, busy]
        image, curvature = apply(P, busy)
        step = slope[busy] / curvature
        x[:, busy] += step * P
        residual[:, busy] -= step * image
        left = residual[:, busy]
        scaled = precondition(left, busy)
        new = np.sum(left * scaled, axis=0)
        direction[:, busy] = scaled + (new / slope[busy]) * P
        slope[busy] = new
    return max_iter


@dataclass(frozen=True, eq=False)
class _System:
    """Normal equations of rows that are read again for each product."""

    read_rows: ReadRows
    n: float
    mean: Array
    target_mean: Array
    cross: Array
    diagonal: Array  # of scatter
    preconditioner: SpectralPreconditioner

    @classmethod
    def of(
        cls,
        name: str,
        read_rows: ReadRows,
        fit_intercept: bool,
        preconditioner: SpectralPreconditioner | None = None,
    ) -> _System:
        """Sum up means, cross and diagonal in one pass; compute the preconditioner in another.

        Targets are shifted by the mean of the first block, so that a large one costs no digits.
        """
        n, shift = 0.0, None
        for block, Y, w in with_weights(read_rows()):
            if not w.any():
                continue
            if shift is None:
                shift = w @ Y / w.sum() if fit_intercept else np.zeros(Y.shape[1])
                sums, squares = np.zeros(block.shape[1]), np.zeros(block.shape[1])
                cross, target_sum = np.zeros((block.shape[1], Y.shape[1])), np.zeros(Y.shape[1])
            R = (Y - shift) * w[:, None]
            n += w.sum()
            sums += block.T @ w
            squares += column_squares(block, w)
            cross += block.T @ R
            target_sum += R.sum(axis=0)
        if shift is None:
            raise ValueError(f"{name} needs rows with a weight above 0 to learn from, got none.")
        if not (np.isfinite(squares.sum()) and np.isfinite(cross.sum())):
            raise ValueError(
                f"{name}: sums of squares of features or targets leave the range of float64: "
                "scale them down."
            )
        mean = sums / n if fit_intercept else np.zeros_like(sums)
        if preconditioner is None:
            preconditioner = SpectralPreconditioner.of_rows(
                lambda: with_weights(read_rows()), mean, centered=fit_intercept
            )
        if not fit_intercept:
            return cls(read_rows, n, mean, shift, cross, squares, preconditioner)
        centered = np.maximum(squares - n * mean**2, np.finfo(np.float64).eps * squares)
        target_mean = shift + target_sum / n
        cross -= np.outer(mean, target_sum)
        return cls(read_rows, n, mean, target_mean, cross, centered, preconditioner)

    def multiply(self, P: Array) -> Array:
        """Return scatter P = sum w (z - mean) ((z - mean)'P): one pass."""
        center = self.mean @ P
        out, total = np.zeros_like(P), np.zeros(P.shape[1])
        for block, _, w in with_weights(self.read_rows()):
            R = (block @ P - center) * w[:, None]
            out += block.T @ R
            total += R.sum(axis=0)
        out -= np.outer(self.mean, total)
        return out

    def descend(
        self, alpha: float, coef: Array, residual: Array, tol: float, max_iter: int
    ) -> tuple[Array, Array, int]:
        """Return c, residual and passes of conjugate gradients from (c, residual)."""
        unit = self.unit
        coef, residual = coef / unit, residual / unit
        goal = tol * np.linalg.norm(self.cross / unit, axis=0)

        def apply(P: Array, columns: Array) -> tuple[Array, Array]:
            image = self.multiply(P) + alpha * P
            return image, np.sum(P * image, axis=0)

        def precondition(R: Array, columns: Array) -> Array:
            return self.preconditioner.solve(R, alpha, np.full(len(columns), self.n))

        passes = conjugate_gradients(apply, coef, residual, precondition, goal, max_iter)
        return coef * unit, residual * unit, passes

    def solution(self, coef: Array, residual: Array, iterations: int) -> RidgeSolution:
        unit = self.unit
        norm = np.linalg.norm(self.cross / unit, axis=0)
        relative = np.linalg.norm(residual / unit, axis=0) / np.where(norm > 0, norm, 1.0)
        intercept = self.target_mean - self.mean @ coef
        return RidgeSolution(coef, intercept, iterations, relative, self.preconditioner)

    @property
    def unit(self) -> Array:
        """Largest entry of each column of cross, or 1.

        Columns are divided by it, so that no square leaves float64.
        """
        largest = np.abs(self.cross).max(axis=0)
        return np.where(largest > 0, largest, 1.0)
