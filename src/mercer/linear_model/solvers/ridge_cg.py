"""Ridge regression where D x D numbers do not fit: conjugate gradients over blocks of features.

The objective is that of `mercer.linear_model.solvers.ridge`: sum w |y - b - z'c|^2 + alpha |c|^2,
the intercept not penalized. Each step is one pass over the rows. The loop of conjugate gradients
and the search for an alpha on held-out rows also serve Newton's method (`solvers.newton_cg`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from mercer._typing import Array
from mercer.linear_model.solvers.blocks import (
    CachedBlocks,
    ReadRows,
    WeightedBlock,
    column_squares,
    column_sums,
    multiply,
    multiply_centered_gram,
    multiply_transposed,
    split,
    with_weights,
)
from mercer.linear_model.solvers.coded_descent import CodedDescent, Descent, is_one_hot
from mercer.linear_model.solvers.preconditioner import SpectralPreconditioner
from mercer.linear_model.solvers.ridge import MAX_RELATIVE_ALPHA, AlphaSearch, alpha_grid
from mercer.maps.block import Block, Coded, select_rows
from mercer.parallel.threads import row_slices
from mercer.rng import Rng
from mercer.validation.parameters import validate_positive, warn_not_converged

T = TypeVar("T")

LOOSE_SEARCH = {"step": 2, "worse": 0.01, "indistinct": 1e-3}
"""Of a search over the default grid with loose solutions: a decade at a time, then half of it."""

_CLEARLY_WORSE = 0.02  # than the best score, at which a descent that is on its way ends
_ROUND_STEPS = 60  # of conjugate gradients between residuals in float64
_LANDMARKS = 512  # rows of the preconditioner of a dual system
_LANDMARK_PANEL = 64  # of which products are computed at a time
_LANDMARK_SHIFT = 1e-8  # of the trace, which keeps the matrix of equal landmarks positive


@dataclass(frozen=True, eq=False)
class RidgeSolution:
    """c (D, t), b (t,), alpha, passes, and |cross - (scatter + alpha I) c|/|cross| by output."""

    coef: Array
    intercept: Array
    alpha: float
    iterations: int
    residual: Array
    preconditioner: SpectralPreconditioner | None = None
    point: Array | None = None  # the unknowns that were solved for: c, or coefficients of rows
    rest: Array | None = None  # right side less the system times the unknowns
    descent: Descent | None = None  # where sweeps of coordinate descent came to the solution

    def at(self, alpha: float) -> tuple[Array, Array] | None:
        """Return the unknowns, with what is left of the right side at another alpha."""
        if self.point is None or self.rest is None:
            return None
        return self.point.copy(), self.rest + (self.alpha - alpha) * self.point


def solve_ridge(
    read_rows: ReadRows,
    alpha: float,
    *,
    fit_intercept: bool = True,
    start: RidgeSolution | None = None,
    tol: float = 1e-6,
    max_iter: int = 300,
    preconditioner: SpectralPreconditioner | None = None,
    max_memory: int | None = None,
) -> RidgeSolution:
    """Solve (scatter + alpha I) c = cross by conjugate gradients; scatter is never formed.

    A step is one pass: sum w (z - mean) ((z - mean)'p) for the directions p of the outputs that
    have not converged. Steps are preconditioned by the eigenvectors of scatter, or of that of a
    sample of rows (`SpectralPreconditioner`). One pass more computes means and cross, one the
    preconditioner, and one the residual of the starting point.

    One-hot codes in memory with fewer rows than features are solved by coordinate descent
    (`solvers.coded_descent`); for small alphas, for the coefficients of the rows (`_DualSystem`).

    Parameters
    ----------
    read_rows : callable
        Returns an iterable of (block, targets, weights or None), the same at each call.
    alpha : float
        Above 0.
    fit_intercept : bool, default=True
    start : RidgeSolution, optional
        Starting point, a solution of the same rows for another alpha or other weights; 0 by
        default.
    tol : float, default=1e-6
        A column has converged when its residual is below tol times that of c = 0; by coordinate
        descent when its scores are within tol of their standard deviation.
    max_iter : int, default=300
        Maximum number of steps; a ConvergenceWarning states the residual reached.
    preconditioner : SpectralPreconditioner, optional
        That of ``RidgeSolution.preconditioner``; computed by default.
    max_memory : int, optional
        Of `SpectralPreconditioner.of_rows`.

    Returns
    -------
    RidgeSolution
    """
    name = "solve_ridge"
    validate_positive(name, "alpha", alpha)
    system = _system_of(
        name, read_rows, fit_intercept, preconditioner=preconditioner, max_memory=max_memory
    )
    if start is not None and start.point is not None:  # perhaps of other weights
        rest = system.cross - system.multiply(start.point) - alpha * start.point
        start = replace(start, alpha=alpha, rest=rest)
    solution = system.solve(alpha, start, tol, max_iter)
    worst = solution.residual.max(initial=0.0)
    if worst > tol:
        warn_not_converged(
            f"{name}: conjugate gradients have a relative residual of {worst:.2g} after "
            f"{solution.iterations} passes, above tol={tol:g}. Take a larger max_iter, alpha or "
            "tol."
        )
    return solution


def choose_ridge_held_out(
    read_rows: ReadRows,
    held_out: Array,
    alphas: Sequence[float] | Array | None = None,
    *,
    fit_intercept: bool = True,
    tol: float = 1e-2,
    max_iter: int = 100,
    patience: int | None = 2,
    max_memory: int | None = None,
) -> tuple[AlphaSearch, RidgeSolution]:
    """Return the alpha with the smallest sum w (y - b - z'c)^2/sum w on held-out rows.

    Alphas are tried from the largest down, each starting from the solution of the last one, whose
    residual needs no pass: it is r + (last alpha - alpha) c. Of the default grid every second one
    is tried, until one is clearly worse than the best, then those on both sides of the best. A
    solution that max_iter cut short is scored as it is.

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
    max_memory : int, optional
        Of `SpectralPreconditioner.of_rows`.

    Returns
    -------
    search : AlphaSearch
        Alphas that were not tried have the score infinity.
    solution : RidgeSolution
        That of the best alpha, from the rows that were not held out.
    """
    name = "choose_ridge_held_out"
    system = _system_of(name, read_rows, fit_intercept, ~held_out, max_memory=max_memory)

    def evaluate(solution: RidgeSolution) -> float:
        def squares(block: Block, Y: Array) -> Array:
            errors = Y - solution.intercept - block @ solution.coef
            return np.sum(errors**2, axis=1)

        return held_out_mean(name, split(read_rows, held_out), squares)

    score = BestScore(evaluate)

    def solve(alpha: float, start: RidgeSolution | None) -> RidgeSolution:
        is_worse = score.is_worse if alphas is None else None
        return system.solve(alpha, start, tol, max_iter, is_worse)

    trace = float(system.diagonal.sum())
    candidates = alpha_grid(name, alphas, trace / len(system.mean) or 1.0)
    loose: Any = LOOSE_SEARCH if alphas is None else {}
    return search_alphas(name, candidates, trace, solve, score, patience, **loose)


class BestScore:
    """Function that scores solutions, with the least of its values."""

    def __init__(self, evaluate: Callable[[Any], float]) -> None:
        self.evaluate, self.least = evaluate, np.inf

    def __call__(self, solution: Any) -> float:
        value = self.evaluate(solution)
        self.least = min(self.least, value)
        return value

    def is_worse(self, solution: Any) -> bool:
        """Return whether a solution that has not converged is worse than the best."""
        return self.evaluate(solution) > (1 + _CLEARLY_WORSE) * self.least


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
    indistinct: float = 0.0,
) -> tuple[AlphaSearch, T]:
    """Try alphas from the largest down; stop when `patience` in a row are no better than the best.

    solve(alpha, start) starts from the last solution. A single alpha ends the search too where its
    score is above the best by a share of more than `worse`, once one was better than the first.
    A smaller alpha is better where its score is below the best by a share of more than
    `indistinct`, which a loose tolerance leaves undecided. Alphas above MAX_RELATIVE_ALPHA times
    `scale`, which leave the coefficients next to 0, do not count; nor do others before one is
    distinctly better than the first, unless they are clearly worse: the loss of few positive rows
    may rise by some thousandths before it falls. Those that were not tried have the score infinity.
    With a step of 2 every second alpha is tried, then those on both sides of the best, from its
    solution.
    """
    if not alphas.min() > 0:
        raise ValueError(f"{name}: alphas must be above 0, got {alphas.min():g}.")
    scores = np.full(len(alphas), np.inf)
    solutions: dict[int, T] = {}
    descending = np.argsort(-alphas, kind="stable")
    best = waited = 0
    last: T | None = None

    def is_distinct() -> bool:
        """Return whether the best score is below the first by more than is undecided."""
        return bool(scores[descending[best]] < (1 - 10 * indistinct) * scores[descending[0]])

    def evaluate(position: int) -> bool:
        """Return whether the alpha at this position is better than the best before it."""
        nonlocal best, last
        i = int(descending[position])
        last = solution = solve(float(alphas[i]), last)
        scores[i] = score(solution)
        if solutions:
            # next to the first one, alphas are too large to tell
            decided = position > best and is_distinct()
            if not scores[i] < (1 - indistinct * decided) * scores[descending[best]]:
                return False
        best = position
        solutions.clear()
        solutions[best] = solution
        return True

    for position in range(0, len(alphas), step):
        if evaluate(position):
            waited = 0
        elif alphas[descending[position]] <= MAX_RELATIVE_ALPHA * scale:
            this, least = scores[descending[[position, best]]]
            waited += is_distinct() or this > (1 + _CLEARLY_WORSE) * least
            if is_distinct() and this > (1 + worse) * least:
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
    values, w = held_out_values(name, rows, value)
    return float(w @ values) / float(w.sum())


def held_out_values(
    name: str, rows: Iterator[WeightedBlock], value: Callable[[Block, Array], Array]
) -> tuple[Array, Array]:
    """Return the values and the weights of the rows of weight above 0, both (m,)."""
    values, weights = [], []
    for block, Y, w in rows:
        if isinstance(block, Coded) and not w.all():
            block, Y, w = select_rows(block, w > 0), Y[w > 0], w[w > 0]
        if w.any():
            values.append(value(block, Y)[w > 0])
            weights.append(w[w > 0])
    if not values:
        raise ValueError(f"{name}: no row is held out. Give more rows, or a number for alpha.")
    return np.concatenate(values), np.concatenate(weights)


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


def _system_of(
    name: str,
    read_rows: ReadRows,
    fit_intercept: bool,
    chosen: Array | None = None,
    preconditioner: SpectralPreconditioner | None = None,
    max_memory: int | None = None,
) -> _System:
    """Return the system of the chosen rows; that of their coefficients for codes in memory."""
    if isinstance(read_rows, CachedBlocks) and read_rows.cached:
        (block, Y, w), *more = read_rows()
        few = not more and block.shape[0] < block.shape[1]
        if few and isinstance(block, Coded) and is_one_hot(block):
            w = w if chosen is None else w * chosen
            return _DualSystem.of_block(name, block, Y, w, fit_intercept)

    def read() -> Iterator[WeightedBlock]:
        return with_weights(read_rows()) if chosen is None else split(read_rows, chosen)

    return _System.of(name, read, fit_intercept, preconditioner, max_memory)


@dataclass(frozen=True, eq=False)
class _System:
    """Normal equations of rows that are read again for each product."""

    read_rows: ReadRows
    n: float
    mean: Array
    target_mean: Array
    cross: Array
    diagonal: Array  # of scatter
    preconditioner: SpectralPreconditioner | None

    @classmethod
    def of(
        cls,
        name: str,
        read_rows: ReadRows,
        fit_intercept: bool,
        preconditioner: SpectralPreconditioner | None = None,
        max_memory: int | None = None,
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
            sums += column_sums(block, w)
            squares += column_squares(block, w)
            cross += multiply_transposed(block, R)
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
                lambda: with_weights(read_rows()),
                mean,
                centered=fit_intercept,
                max_memory=max_memory,
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
            R = (multiply(block, P) - center) * w[:, None]
            out += multiply_transposed(block, R)
            total += R.sum(axis=0)
        out -= np.outer(self.mean, total)
        return out

    def start(self, alpha: float, start: RidgeSolution | None) -> tuple[Array, Array]:
        """Return unknowns and residual, in units of `unit`, of a solution of the same rows."""
        known = None if start is None else start.at(alpha)
        point, residual = (np.zeros_like(self.cross), self.cross) if known is None else known
        return point / self.unit, residual / self.unit

    def solve(
        self,
        alpha: float,
        start: RidgeSolution | None,
        tol: float,
        max_iter: int,
        is_worse: Callable[[RidgeSolution], bool] | None = None,
    ) -> RidgeSolution:
        """Return the solution of conjugate gradients."""
        unit, spectrum = self.unit, self.preconditioner
        assert spectrum is not None
        point, residual = self.start(alpha, start)
        norm = np.linalg.norm(self.cross / unit, axis=0)

        def apply(P: Array, columns: Array) -> tuple[Array, Array]:
            image = self.multiply(P) + alpha * P
            return image, np.sum(P * image, axis=0)

        def precondition(R: Array, columns: Array) -> Array:
            return spectrum.solve(R, alpha, np.full(len(columns), self.n))

        passes = conjugate_gradients(apply, point, residual, precondition, tol * norm, max_iter)
        return self._solution(alpha, point, residual, passes)

    def _solution(self, alpha: float, point: Array, residual: Array, passes: int) -> RidgeSolution:
        """Return the solution of unknowns and residuals in units of `unit`."""
        unit = self.unit
        norm = np.linalg.norm(self.cross / unit, axis=0)
        relative = np.linalg.norm(residual, axis=0) / np.where(norm > 0, norm, 1.0)
        point, residual = point * unit, residual * unit
        coef = self.coef(point)
        intercept = self.target_mean - self.mean @ coef
        return RidgeSolution(
            coef, intercept, alpha, passes, relative, self.preconditioner, point, residual
        )

    def coef(self, point: Array) -> Array:
        """Return the coefficients of features, which the unknowns are."""
        return point

    @property
    def unit(self) -> Array:
        """Largest entry of each column of cross, or 1.

        Columns are divided by it, so that no square leaves float64.
        """
        largest = np.abs(self.cross).max(axis=0)
        return np.where(largest > 0, largest, 1.0)


@dataclass(frozen=True, eq=False)
class _DualSystem(_System):
    """(K + alpha I) b = diag(s) y of one-hot codes, for the coefficients b of n < D rows.

    K = diag(s) Z Z' diag(s) with Z about its mean and s the roots of the weights; c = Z' diag(s) b.
    Products take a few positions of the codes at a time, and vectors have n numbers instead of D.
    """

    block: Coded
    roots: Array  # s, (n, 1)
    along: Array  # Z mean, (n,)
    descent: CodedDescent

    @classmethod
    def of_block(
        cls, name: str, block: Coded, Y: Array, w: Array, fit_intercept: bool
    ) -> _DualSystem:
        """Compute means."""
        n = float(w.sum())
        if n == 0:
            raise ValueError(f"{name} needs rows with a weight above 0 to learn from, got none.")
        D, t = block.shape[1], Y.shape[1]
        mean, target_mean = np.zeros(D), np.zeros(t)
        if fit_intercept:
            mean, target_mean = column_sums(block, w) / n, w @ Y / n
        roots = np.sqrt(w)[:, None]
        cross = roots * (Y - target_mean)
        if not np.isfinite(cross.sum()):
            raise ValueError(
                f"{name}: sums of squares of features or targets leave the range of float64: "
                "scale them down."
            )
        centered = np.where(w[:, None] > 0, Y - target_mean, 0.0)
        largest = np.abs(cross).max(axis=0)
        centered /= np.where(largest > 0, largest, 1.0)
        descent = CodedDescent(block, centered, w, "squared", fit_intercept)
        squares = np.full(len(w), descent.square)
        if block.empty is not None:
            squares[block.empty] = 0.0
        along = multiply(block, mean[:, None])[:, 0]
        diagonal = w * (squares - 2 * along + float(mean @ mean))
        return cls(list, n, mean, target_mean, cross, diagonal, None, block, roots, along, descent)

    def solve(
        self,
        alpha: float,
        start: RidgeSolution | None,
        tol: float,
        max_iter: int,
        is_worse: Callable[[RidgeSolution], bool] | None = None,
    ) -> RidgeSolution:
        """Return the solution by coordinate descent, or by conjugate gradients for small alphas."""

        def solution(found: Descent) -> RidgeSolution:
            coef, intercept = self.unit * found.coef, self.target_mean + self.unit * found.intercept
            return RidgeSolution(coef, intercept, alpha, found.steps, found.change, descent=found)

        ends = None if is_worse is None else lambda found: is_worse(solution(found))
        known = None if start is None else start.descent
        found = self.descent.minimize(alpha, known, tol, max_iter, ends)
        return self._refine(alpha, start, tol, max_iter) if found is None else solution(found)

    def _refine(
        self, alpha: float, start: RidgeSolution | None, tol: float, max_iter: int
    ) -> RidgeSolution:
        """Return the solution by refinement: steps in float32, from a residual in float64.

        Each round of steps reduces the residual to a thousandth, or to the tolerance. Where a
        round does not halve it, the system is too ill-conditioned for float32, and the next ones
        are in float64.
        """
        unit, spectrum = self.unit, self.nystroem
        point, residual = self.start(alpha, start)
        right = self.cross / unit
        norm = np.linalg.norm(right, axis=0)
        passes = 0
        kind: np.dtype[Any] = np.dtype(np.float32)

        def apply(P: Array, columns: Array) -> tuple[Array, Array]:
            image = self.multiply(P) + P.dtype.type(alpha) * P
            return image, np.sum(P * image, axis=0)

        def precondition(R: Array, columns: Array) -> Array:
            return spectrum.solve(R, alpha, np.full(len(columns), self.n))

        while True:
            left = np.linalg.norm(residual, axis=0)
            size = np.where(left > 0, left, 1.0)
            if passes >= max_iter or np.all(left <= tol * norm):
                break
            change = np.zeros_like(point, dtype=kind)
            goal = np.where(left > tol * norm, np.maximum(0.9 * tol * norm, 1e-3 * left), left)
            passes += 1 + conjugate_gradients(
                apply,
                change,
                (residual / size).astype(kind),
                precondition,
                goal / size,
                max(1, min(max_iter - passes - 1, _ROUND_STEPS)),
            )
            point += size * change
            residual = right - self.multiply(point) - alpha * point
            if np.any(np.linalg.norm(residual, axis=0) > np.maximum(0.5 * left, tol * norm)):
                kind = np.dtype(np.float64)
        return self._solution(alpha, point, residual, passes)

    def multiply(self, P: Array) -> Array:
        """Return K P, in the dtype of P."""
        roots, square = self.roots.astype(P.dtype, copy=False), float(self.mean @ self.mean)
        return roots * multiply_centered_gram(self.block, roots * P, self.along, square)

    def coef(self, point: Array) -> Array:
        A = self.roots * point
        return multiply_transposed(self.block, A) - np.multiply.outer(self.mean, A.sum(axis=0))

    @cached_property
    def nystroem(self) -> SpectralPreconditioner:
        """Eigenvectors of K_J' (K_JJ)^-1 K_J for some rows J of weight above 0.

        The tail is the mean of the other eigenvalues of K. All are divided by n, as those of a
        covariance are.
        """
        from scipy.linalg import cholesky, eigh, solve_triangular

        rows = np.flatnonzero(self.roots)
        order = np.argsort(Rng(0).words("landmarks", 0, len(rows)), kind="stable")
        J = np.sort(rows[order[: min(_LANDMARKS, math.ceil(len(rows) / 4))]])
        selection = np.zeros((len(self.roots), len(J)), dtype=np.float32)
        selection[J, np.arange(len(J))] = 1.0
        parts = [self.multiply(selection[:, part]) for part in row_slices(len(J), _LANDMARK_PANEL)]
        C = np.concatenate(parts, axis=1).astype(np.float64)
        K = C[J]
        K.flat[:: len(J) + 1] += _LANDMARK_SHIFT * max(np.trace(K), np.finfo(np.float64).tiny)
        B = solve_triangular(cholesky(K, check_finite=False), C.T, trans="T", check_finite=False)
        values, V = eigh(B @ B.T, check_finite=False, driver="evd")
        kept = values > np.finfo(np.float64).eps ** 0.5 * max(values[-1], 0.0)
        values, V = values[kept], V[:, kept]
        rest = max(float(self.diagonal.sum() - values.sum()), 0.0)
        tail = rest / max(len(rows) - len(values), 1)
        vectors = np.ascontiguousarray(B.T @ V / np.sqrt(values), dtype=np.float32)
        return SpectralPreconditioner(vectors, values / self.n, tail / self.n)
