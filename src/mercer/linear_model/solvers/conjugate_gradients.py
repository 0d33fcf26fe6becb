"""Ridge regression where D x D numbers do not fit: conjugate gradients on the normal equations, one
pass over blocks for each step.

The objective is that of `mercer.linear_model.solvers.ridge`: sum w |y - b - z'c|^2 + alpha |c|^2,
the intercept not penalised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mercer.linear_model.normal_equations import Array
from mercer.linear_model.solvers.passes import Pass, column_squares, split, weighted
from mercer.linear_model.solvers.ridge import FLAT, Rows, grid
from mercer.validation.parameters import validate_positive, validate_probability, warn_not_converged


@dataclass(frozen=True, eq=False)
class Solution:
    """c (D, t) and b (t,), the passes that were made for them, and |cross - (scatter + alpha I)
    c|/|cross| of each output.
    """

    coef: Array
    intercept: Array
    iterations: int
    residual: Array


@dataclass(frozen=True, eq=False)
class HeldOut:
    """The alpha with the smallest mean squared error on rows that were held out, the error of each
    alpha, and that alpha's Solution.

    Alphas that were not tried, because the error had been rising, have the score infinity.
    """

    alpha: float
    alphas: Array
    scores: Array
    solution: Solution


def solve_blocks(
    rows: Pass,
    alpha: float,
    *,
    fit_intercept: bool = True,
    coef0: Array | None = None,
    tol: float = 1e-6,
    max_iter: int = 300,
) -> Solution:
    """(scatter + alpha I) c = cross by conjugate gradients, every output at once; scatter is never
    formed.

    A step is one pass: sum w (z - mean) ((z - mean)'p) for the directions p of the outputs that are
    not there yet. Steps are scaled by 1/(diag(scatter) + alpha). One pass more finds means, cross
    and that diagonal, and one the residual of coef0.

    Parameters
    ----------
    rows : callable
        Gives an iterable of (block, targets, weights or None), the same at each call.
    alpha : float
        Above 0.
    fit_intercept : bool, default=True
    coef0 : array of shape (D, t), optional
        Where to start; 0 by default.
    tol : float, default=1e-6
        A column is done when its residual is below tol times that of c = 0.
    max_iter : int, default=300
        Most steps. A ConvergenceWarning says how far they went when they were not enough.

    Returns
    -------
    Solution
    """
    who = "solve_blocks"
    validate_positive(who, "alpha", alpha)
    system = _System.of(who, rows, fit_intercept)
    coef, residual = np.zeros_like(system.cross), system.cross.copy()
    if coef0 is not None:
        coef += np.asarray(coef0).reshape(coef.shape)
        residual -= system.product(coef) + alpha * coef
    coef, residual, iterations = _descend(system, alpha, coef, residual, tol, max_iter)
    solution = system.solution(coef, residual, iterations)
    worst = solution.residual.max(initial=0.0)
    if worst > tol:
        warn_not_converged(
            f"{who}: conjugate gradients have a relative residual of {worst:.2g} after "
            f"{iterations} passes, tol={tol:g} was asked for. "
            "Take a larger max_iter, alpha or tol."
        )
    return solution


def choose_held_out(
    rows: Pass,
    alphas: Sequence[float] | Array | None = None,
    *,
    share: float = 0.1,
    seed: int = 0,
    fit_intercept: bool = True,
    tol: float = 1e-4,
    max_iter: int = 100,
    patience: int | None = 2,
) -> HeldOut:
    """The alpha whose c, from the other rows, has the smallest sum w (y - b - z'c)^2/sum w on the
    rows that are held out.

    A row is held out by a hash of (seed, row index), whatever the blocks. Alphas are taken from the
    largest down, each starting where the last one ended, whose residual needs no pass: it is r +
    (last alpha - alpha) c. What max_iter cuts short is measured as it is.

    Parameters
    ----------
    rows : callable
        Gives an iterable of (block, targets, weights or None), the same at each call.
    alphas : sequence of float, optional
        Above 0; ``ridge.ALPHAS`` in units of the mean of diag(scatter) by default.
    share : float, default=0.1
        Chance of a row to be held out.
    seed : int, default=0
    fit_intercept : bool, default=True
    tol, max_iter : float and int
        Of each alpha.
    patience : int or None, default=2
        Stop after so many alphas in a row that are no better than the best, those aside that are so
        large that c is next to 0; None tries all.

    Returns
    -------
    HeldOut
    """
    who = "choose_held_out"
    validate_probability(who, "share", share)
    system = _System.of(who, lambda: split(rows, seed, share, held=False), fit_intercept)
    tried = grid(who, alphas, float(system.diagonal.mean()) or 1.0)
    if not tried.min() > 0:
        raise ValueError(f"{who}: alphas must be above 0, got {tried.min():g}.")
    scores = np.full(len(tried), np.inf)
    coef, residual = np.zeros_like(system.cross), system.cross.copy()
    best: Solution | None = None
    lowest, waited, last = np.inf, 0, 0.0
    for i in np.argsort(-tried, kind="stable"):
        residual += (last - tried[i]) * coef
        coef, residual, iterations = _descend(system, tried[i], coef, residual, tol, max_iter)
        solution, last = system.solution(coef, residual, iterations), tried[i]
        scores[i] = _error(who, split(rows, seed, share, held=True), solution)
        if best is None or scores[i] < lowest:
            best, lowest, waited, chosen = solution, scores[i], 0, float(tried[i])
        else:
            waited += tried[i] <= FLAT * system.diagonal.sum()
        if patience is not None and waited >= patience:
            break
    assert best is not None
    return HeldOut(chosen, tried, scores, best)


@dataclass(frozen=True, eq=False)
class _System:
    """The normal equations of rows that are read again for each product."""

    rows: Pass
    mean: Array
    target_mean: Array
    cross: Array
    diagonal: Array  # of scatter

    @classmethod
    def of(cls, who: str, rows: Pass, fit_intercept: bool) -> _System:
        """One pass. Targets are shifted by the mean of the first block, so that a large one costs
        no digits.
        """
        n, shift = 0.0, None
        for block, Y, w in weighted(rows()):
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
            raise ValueError(f"{who} needs rows with a weight above 0 to learn from, got none.")
        if not (np.isfinite(squares.sum()) and np.isfinite(cross.sum())):
            raise ValueError(
                f"{who}: sums of squares of features or targets leave the range of float64: "
                "scale them down."
            )
        if not fit_intercept:
            return cls(rows, np.zeros_like(sums), shift, cross, squares)
        mean = sums / n
        centred = np.maximum(squares - n * mean**2, np.finfo(np.float64).eps * squares)
        return cls(rows, mean, shift + target_sum / n, cross - np.outer(mean, target_sum), centred)

    def product(self, P: Array) -> Array:
        """scatter P = sum w (z - mean) ((z - mean)'P), one pass."""
        center = self.mean @ P
        out, total = np.zeros_like(P), np.zeros(P.shape[1])
        for block, _, w in weighted(self.rows()):
            R = (block @ P - center) * w[:, None]
            out += block.T @ R
            total += R.sum(axis=0)
        out -= np.outer(self.mean, total)
        return out

    def solution(self, coef: Array, residual: Array, iterations: int) -> Solution:
        unit = self.unit
        size = np.linalg.norm(self.cross / unit, axis=0)
        relative = np.linalg.norm(residual / unit, axis=0) / np.where(size > 0, size, 1.0)
        return Solution(coef, self.target_mean - self.mean @ coef, iterations, relative)

    @property
    def unit(self) -> Array:
        """The largest of each column of cross, or 1: what the columns are divided by, so that no
        square leaves float64.
        """
        largest = np.abs(self.cross).max(axis=0)
        return np.where(largest > 0, largest, 1.0)


def _descend(
    system: _System, alpha: float, coef: Array, residual: Array, tol: float, max_iter: int
) -> tuple[Array, Array, int]:
    """Conjugate gradients for (scatter + alpha I) c = cross from (c, residual), each column until
    it is done; new c, residual, passes.
    """
    unit = system.unit
    coef, residual = coef / unit, residual / unit
    goal = tol * np.linalg.norm(system.cross / unit, axis=0)
    scale = 1 / (system.diagonal + alpha)[:, None]
    direction = scale * residual
    slope = np.sum(residual * direction, axis=0)
    passes = 0
    while passes < max_iter:
        busy = np.flatnonzero(np.linalg.norm(residual, axis=0) > goal)
        if not len(busy):
            break
        P = direction[:, busy]
        image = system.product(P) + alpha * P
        step = slope[busy] / np.sum(P * image, axis=0)
        coef[:, busy] += step * P
        residual[:, busy] -= step * image
        scaled = scale * residual[:, busy]
        new = np.sum(residual[:, busy] * scaled, axis=0)
        direction[:, busy] = scaled + (new / slope[busy]) * P
        slope[busy] = new
        passes += 1
    return coef * unit, residual * unit, passes


def _error(who: str, rows: Rows, solution: Solution) -> float:
    """sum w |y - b - z'c|^2/sum w."""
    total, n = 0.0, 0.0
    for block, Y, w in weighted(rows):
        if w.any():
            total += float(
                w @ np.sum((Y - solution.intercept - block @ solution.coef) ** 2, axis=1)
            )
            n += float(w.sum())
    if n == 0:
        raise ValueError(
            f"{who}: no row is held out. Take a larger share, or choose alpha by GCV or k-fold "
            "from moments."
        )
    return total / n
