"""Newton's method for margin losses by conjugate gradients.

The objective is sum s loss(y f(x)) + alpha/2 |w|^2 with f(x) = b + w'z, for all outputs at once;
its value and derivatives take one pass over blocks. The intercept b is not penalized. Where there
is one, features are taken about their mean, so that a large mean costs no digits. Log loss, whose
outputs are coupled, has steps of its own (`solvers.softmax`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from mercer._typing import Array
from mercer.linear_model.losses import LogLoss, Loss, MarginLoss
from mercer.linear_model.solvers.blocks import (
    CachedBlocks,
    CenteredBlocks,
    WeightedBlock,
    column_squares,
    column_sums,
    multiply,
    multiply_hessian,
    multiply_transposed,
)
from mercer.linear_model.solvers.coded_descent import CodedDescent, Descent, is_one_hot
from mercer.linear_model.solvers.preconditioner import (
    HessianPreconditioner,
    SpectralPreconditioner,
)
from mercer.linear_model.solvers.ridge_cg import conjugate_gradients
from mercer.maps.block import Block, Coded
from mercer.validation.parameters import validate_positive

SUFFICIENT_DECREASE = 1e-4  # Armijo's share of the decrease that the gradient predicts
ROUNDING = 1e-13  # of the objective: smaller differences are rounding
FORCING = 0.1  # largest relative error to which a Newton step is solved
INNER_STEPS = 250  # maximum number of conjugate gradient steps for a Newton step

STEP_SIZES = 0.5 ** np.arange(8)  # whose objectives are summed in one pass
LINE_SEARCHES = 4  # such passes, each from the smallest step size of the last one
# of alpha |w|, at most: a looser gradient would leave b far from its minimum at large alphas
GRADIENT_TOLERANCE = 1e-4
GRADIENT_FLOOR = 1e-12  # of `Objective.steepest`: less of a gradient is rounding
_CANCELLED = 1e-3  # of sums of squares not about the mean, whose rounding a gradient has
SWEEPS = 5  # of coordinate descent, instead of a Newton step
_EPS = float(np.finfo(np.float64).eps)


class Minimum(NamedTuple):
    """w (D, t) and b (t,), with Newton steps and passes.

    change has, for each output, the root mean square by which the last Newton step changed its
    scores, relative to their standard deviation; 0 where no step was needed.
    """

    coef: Array
    intercept: Array
    steps: int
    passes: int
    change: Array
    unconverged: Array
    weights: Array | None = None  # of rows, where w is a combination of them
    preconditioner: SpectralPreconditioner | None = None  # that served


Solution = Minimum | Descent
"""Minimum by Newton steps, or by sweeps of coordinate descent over one-hot codes."""


def minimize_loss(
    rows: CachedBlocks,
    loss: Loss,
    alpha: float,
    *,
    fit_intercept: bool = True,
    start: Solution | None = None,
    tol: float = 1e-6,
    max_iter: int = 100,
    max_memory: int | None = None,
) -> Solution:
    """Minimize sum s loss(y (b + w'z)) + alpha/2 |w|^2 over w and b, for each target column y.

    The Newton step of an output solves (sum s loss'' z z' + alpha I) d = -gradient by conjugate
    gradients, a pass for each of their steps. One pass more computes the gradient at the end of the
    step and the objective at eight step sizes, of which the largest with sufficient decrease is
    taken. Outputs that have converged are left out. Log loss has one Newton step for all outputs.

    Parameters
    ----------
    rows : CachedBlocks
        Blocks, targets of +1 and -1, weights.
    loss : Loss
    alpha : float
        Above 0.
    fit_intercept : bool, default=True
    start : Solution, optional
        Starting point; 0 by default.
    tol : float, default=1e-6
        An output has converged when a Newton step changed its scores by at most tol, as root mean
        square relative to their standard deviation; or when w is within tol |w| of the minimum,
        which |gradient| <= tol alpha |w| ensures; or when its gradient is 1e-12 of a bound of that
        at w = 0, b = 0, where rounding begins. The outputs of log loss converge together.
    max_iter : int, default=100
        Maximum number of Newton steps.
    max_memory : int, optional
        Of `SpectralPreconditioner.of_rows`.

    Returns
    -------
    Solution
    """
    name = "minimize_loss"
    validate_positive(name, "alpha", alpha)
    objective = Objective.of(name, rows, loss, float(alpha), fit_intercept)
    known = None if start is None else start.preconditioner
    objective = with_preconditioner(objective, known, max_memory)
    if rows.cached and (basis := eigenbasis(objective)) is not None:
        copies = CenteredBlocks.of(rows, objective.mean, basis=basis)
        objective = replace(objective, copies=copies)
    return descend(objective, start, tol, max_iter)


def eigenbasis(objective: Objective) -> Array | None:
    """Return all eigenvectors of the covariance, where they are computed."""
    spectrum = objective.preconditioner
    if spectrum is None or len(spectrum.values) < len(objective.mean):
        return None
    return spectrum.vectors


def with_preconditioner(
    objective: Objective,
    known: SpectralPreconditioner | None = None,
    max_memory: int | None = None,
    *,
    needed: bool = False,
) -> Objective:
    """Add a preconditioner; codes in memory have none, unless it is needed."""
    if known is None and (needed or _coded_rows(objective) is None):
        known = SpectralPreconditioner.of_rows(
            objective.rows,
            objective.mean,
            centered=objective.fit_intercept,
            max_memory=max_memory,
        )
    return replace(objective, preconditioner=known)


class BlockSource(Protocol):
    """Blocks that are read once at each call, with the number of calls so far."""

    @property
    def cached(self) -> bool: ...
    @property
    def passes(self) -> int: ...
    def __call__(self) -> Iterator[WeightedBlock]: ...


@dataclass(frozen=True, eq=False)
class Objective:
    """sum s loss(y f(x)) + alpha/2 |w|^2, with sums over the rows that do not depend on w."""

    rows: BlockSource
    loss: Loss
    alpha: float
    fit_intercept: bool
    n: float
    mean: Array  # (D,), 0 without an intercept
    squares: Array  # sum s (z - mean)^2, (D,)
    steepest: float  # bound of |gradient| at 0: sqrt(n sum s |z - mean|^2) max |loss'|
    labels: Array  # whether an output has targets of -1, and of +1, (2, t)
    target_mean: Array  # (t,)
    preconditioner: SpectralPreconditioner | None = None
    copies: CenteredBlocks | None = None  # for Hessian products

    @classmethod
    def of(
        cls, name: str, rows: BlockSource, loss: Loss, alpha: float, fit_intercept: bool
    ) -> Objective:
        """Sum up means and squares in one pass."""
        n, sums, slope = 0.0, None, 0.0
        for block, Y, w in rows():
            if not w.any():
                continue
            if sums is None:
                D, t = block.shape[1], Y.shape[1]
                sums, squares = np.zeros(D), np.zeros(D)
                labels, targets = np.zeros((2, t), bool), np.zeros(t)
            n += float(w.sum())
            sums += column_sums(block, w)
            squares += column_squares(block, w)
            labels |= [(Y[w > 0] < 0).any(axis=0), (Y[w > 0] > 0).any(axis=0)]
            targets += w @ Y
            slope = max(slope, float(np.abs(loss.gradient(Y, np.zeros_like(Y))).max()))
        if sums is None:
            raise ValueError(f"{name} needs rows with a weight above 0 to learn from, got none.")
        if not np.isfinite(squares.sum()):
            raise ValueError(
                f"{name}: sums of squares of features leave the range of float64: scale them down."
            )
        mean = sums / n if fit_intercept else np.zeros(D)
        centered = np.maximum(squares - n * mean**2, _EPS * squares)
        spread = max(math.sqrt(centered.sum()), _CANCELLED * math.sqrt(squares.sum()))
        steepest = slope * math.sqrt(n) * spread
        sizes: Any = (n, mean, centered, steepest, labels, targets / n)
        return cls(rows, loss, alpha, fit_intercept, *sizes)

    @property
    def margin_loss(self) -> MarginLoss:
        assert isinstance(self.loss, MarginLoss)
        return self.loss

    @property
    def scale(self) -> float:
        """Unit of alphas: mean over columns of sum s (z - mean)^2, or 1 for constant features."""
        return float(self.squares.mean()) or 1.0

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of products: float64, or that of copies of the rows."""
        return np.dtype(np.float32 if isinstance(self.rows, CenteredBlocks) else np.float64)

    @property
    def unit(self) -> float:
        """Unit of a gradient in b, the root mean of |z - mean|^2.

        Norms of gradients then follow the scale of the features.
        """
        return float(np.sqrt(self.squares.sum() / self.n)) or 1.0

    def scores(self, block: Block, W: Array, b: Array) -> Array:
        """Return b + (z - mean)'W of the rows of a block."""
        if not W.any():
            return np.broadcast_to(b, (block.shape[0], len(b))).copy()
        return multiply(block, W.astype(self.dtype)) + (b - self.mean @ W)


@dataclass(frozen=True, eq=False)
class Derivatives:
    """Value and gradient of the active outputs, with the sums that eliminate the intercept."""

    value: Array  # (t,)
    G: Array  # gradient in w, (D, t)
    g: Array  # gradient in b, (t,); 0 without an intercept
    H: Array  # sum s loss'' (z - mean), (D, t); no columns without an intercept
    h: Array  # sum s loss'', (t,)
    unit: float  # of g

    @property
    def norms(self) -> Array:
        """Norms of the gradients."""
        return gradient_norms(self.G, self.g, self.unit)

    def select(self, outputs: Array) -> Derivatives:
        H = self.H[:, outputs] if self.H.size else self.H
        return Derivatives(
            self.value[outputs], self.G[:, outputs], self.g[outputs], H, self.h[outputs], self.unit
        )

    def descent(self) -> Array:
        """Return -gradient in w with b eliminated: -(G - H g/h)."""
        return -(self.G - self.H * divide(self.g, self.h)) if self.H.size else -self.G

    def intercept_step(self, d: Array) -> Array:
        """Return the step of b that belongs to the step d of w: -(g + H'd)/h."""
        if not self.H.size:
            return np.zeros(d.shape[1])
        return -divide(self.g + np.sum(self.H * d, axis=0), self.h)


class Iterate:
    """w and b of the active outputs, b about the mean; scores b + w'(z - mean) of cached blocks."""

    def __init__(
        self, objective: Objective, W: Array, b: Array, outputs: Array, scores: dict[int, Array]
    ) -> None:
        self.objective, self.W, self.b, self.outputs = objective, W, b, outputs
        self._scores = scores
        self._score_steps: dict[int, Array] = {}
        self.change: Array = np.zeros(len(outputs))

    def select(self, outputs: Array) -> Iterate:
        scores = {i: F[:, outputs] for i, F in self._scores.items()}
        return Iterate(
            self.objective, self.W[:, outputs], self.b[outputs], self.outputs[outputs], scores
        )

    def store(self, coef: Array, intercept: Array) -> None:
        """Write w and b into the columns of their outputs."""
        coef[:, self.outputs], intercept[self.outputs] = self.W, self.b

    def blocks(self) -> Iterator[tuple[int, Block, Array, Array, Array]]:
        """Yield (index, block, targets, weights as a column, scores) of blocks with weights."""
        rows = self.objective.rows
        for i, (block, Y, w) in enumerate(rows()):
            if not w.any():
                continue
            F = self._scores.get(i)
            if F is None:
                F = self.objective.scores(block, self.W, self.b)
                if rows.cached:
                    self._scores[i] = F
            yield i, block, Y[:, self.outputs], w[:, None], F

    def curvatures(self) -> Iterator[tuple[int, Block, Array]]:
        """Yield (index, block, s loss'') of blocks with weights: one pass."""
        for i, block, Y, w, F in self.blocks():
            yield i, block, w * self.objective.margin_loss.curvature(Y * F)

    def evaluate(
        self, d: Array | None = None, db: Array | None = None, step_sizes: Array | None = None
    ) -> tuple[Derivatives, Array]:
        """Return the derivatives here, or at the end of the step (d, db): one pass.

        The second array has the objective at each of the step sizes, (step sizes, t). `change` is
        set to the root mean square of the change of scores, relative to their standard deviation.
        """
        objective, loss = self.objective, self.objective.margin_loss
        D, t = self.W.shape
        sums = np.zeros((3, t))
        G, g, h, value = np.zeros((D, t)), np.zeros(t), np.zeros(t), np.zeros(t)
        H = np.zeros((D, t if objective.fit_intercept else 0))
        values = np.zeros((0 if step_sizes is None else len(step_sizes), t))
        for i, block, Y, w, F in self.blocks():
            M = Y * F
            if d is not None and db is not None and step_sizes is not None:
                dF = objective.scores(block, d, db)
                if objective.rows.cached:
                    self._score_steps[i] = dF
                dM = Y * dF
                for k, step_size in enumerate(step_sizes):
                    values[k] += np.sum(w * loss.value(M + step_size * dM), axis=0)
                M = M + dM
                sums += score_sums(F + dF, dF, w)
            value += np.sum(w * loss.value(M), axis=0)
            R, C = w * Y * loss.slope(M), w * loss.curvature(M)
            h += C.sum(axis=0)
            if objective.fit_intercept:
                both = multiply_transposed(block, np.hstack([R, C]).astype(objective.dtype))
                G += both[:, :t]
                H += both[:, t:]
                g += R.sum(axis=0)
            else:
                G += multiply_transposed(block, R.astype(objective.dtype))
        W = self.W if d is None else self.W + d
        if objective.fit_intercept:
            G -= np.multiply.outer(objective.mean, g)
            H -= np.multiply.outer(objective.mean, h)
        G += objective.alpha * W
        value += objective.alpha / 2 * np.sum(W**2, axis=0)
        if d is not None and step_sizes is not None:
            inner = [np.sum(A * B, axis=0) for A, B in ((self.W, self.W), (self.W, d), (d, d))]
            s = step_sizes[:, None]
            values += objective.alpha / 2 * (inner[0] + 2 * s * inner[1] + s**2 * inner[2])
            self.change = relative_change(sums, objective.n)
        return Derivatives(value, G, g, H, h, objective.unit), values

    def move(self, d: Array, db: Array, scales: Array, step_sizes: Array) -> None:
        """Take `step_sizes` of the step that was evaluated last, (scales d, scales db)."""
        self.W += (scales * step_sizes) * d
        self.b += scales * step_sizes * db
        for i, dF in self._score_steps.items():
            self._scores[i] += step_sizes * dF
        self._score_steps.clear()


def gradient_norms(G: Array, g: Array, unit: float) -> Array:
    """Return norms of gradients in w, (D, t), and b, (t,)."""
    return np.sqrt(np.sum(G**2, axis=0) + (unit * g) ** 2)


def score_sums(F: Array, dF: Array, w: Array) -> Array:
    """Return sums of s f, s f^2 and s df^2, (3, t)."""
    return np.array([np.sum(w * F, axis=0), np.sum(w * F**2, axis=0), np.sum(w * dF**2, axis=0)])


def relative_change(sums: Array, n: float, *, joint: bool = False) -> Array:
    """Return sqrt(sum s df^2/sum s (f - mean)^2), from the sums of s f, s f^2 and s df^2.

    That of all outputs together where they are joint.
    """
    total, squares, moved = sums
    spread = np.maximum(squares - total**2 / n, _EPS * squares)
    if joint:
        spread, moved = spread.sum(keepdims=True), moved.sum(keepdims=True)
    return np.sqrt(divide(moved, spread))


def divide(a: Array, b: Array) -> Array:
    """Return a/b, 0 where b is 0."""
    return np.divide(a, b, out=np.zeros(np.broadcast(a, b).shape), where=b > 0)


def descend(
    objective: Objective,
    start: Solution | None,
    tol: float,
    max_iter: int,
    is_worse: Callable[[Descent], bool] | None = None,
) -> Solution:
    """Take Newton steps until every output has converged or no longer improves.

    One-hot codes in memory go by coordinate descent, unless that takes too many sweeps.
    """
    D, t = len(objective.mean), len(objective.target_mean)
    before = objective.rows.passes
    if (coded := _coded_rows(objective)) is not None:
        if is_one_hot(coded[0]):
            sweeps = CodedDescent(*coded, objective.loss.name, objective.fit_intercept)
            known = start if isinstance(start, Descent) else None
            swept = sweeps.minimize(objective.alpha, known, tol, SWEEPS * max_iter, is_worse)
            if swept is not None:
                return swept
        if len(coded[2]) < D:
            return _descend_dual(objective, *coded, start, tol, max_iter)
        known_spectrum = None if start is None else start.preconditioner
        objective = with_preconditioner(objective, known_spectrum, needed=True)
    if isinstance(objective.loss, LogLoss):
        from mercer.linear_model.solvers import softmax

        return softmax.descend(objective, start, tol, max_iter)
    coef = np.zeros((D, t)) if start is None else start.coef.copy()
    intercept = np.zeros(t) if start is None else start.intercept + objective.mean @ coef
    point, steps = Iterate(objective, coef.copy(), intercept.copy(), np.arange(t), {}), 0
    here, moved, unconverged = point.evaluate()[0], np.ones(t, bool), np.zeros(t, bool)
    changes, change, forcing = np.zeros(t), np.full(t, np.inf), np.full(t, FORCING)
    while True:
        goal = np.maximum(
            min(tol, GRADIENT_TOLERANCE) * objective.alpha * np.linalg.norm(point.W, axis=0),
            GRADIENT_FLOOR * objective.steepest,
        )
        unconverged[point.outputs] = (change > tol) & (here.norms > goal)
        active = moved & unconverged[point.outputs]
        if not active.any() or steps == max_iter:
            break
        if not active.all():
            point.store(coef, intercept)
            point, here = point.select(active), here.select(active)
            change, forcing = change[active], forcing[active]
        forcing = next_forcing(change, forcing, tol)
        d = _newton_step(point, here, forcing)
        moved, here, change = _line_search(point, here, d)
        changes[point.outputs] = change
        steps += 1
    point.store(coef, intercept)
    return Minimum(
        coef,
        intercept - objective.mean @ coef,
        steps,
        objective.rows.passes - before,
        changes,
        unconverged,
        preconditioner=objective.preconditioner,
    )


def next_forcing(change: Array, forcing: Array, tol: float) -> Array:
    """Return the relative error to which conjugate gradients solve for the next Newton step.

    The next step is expected to change the scores by e = max(change^2, forcing change) where the
    last one changed them by `change`. Half of tol/e lets the one after it be the last.
    """
    finite = np.where(np.isfinite(change), change, 1.0)
    expected = np.maximum(finite**2, forcing * finite)
    return np.minimum(FORCING, np.maximum(expected, 0.5 * tol / np.maximum(expected, tol)))


def _coded_rows(objective: Objective) -> tuple[Coded, Array, Array] | None:
    """Return the rows of codes in memory, where they are one-hot or fewer than the features."""
    if not objective.rows.cached or isinstance(objective.loss, LogLoss):
        return None
    (block, Y, w), *more = objective.rows()
    if isinstance(block, Coded) and not more and (is_one_hot(block) or len(w) < block.shape[1]):
        return block, Y, w
    return None


def _descend_dual(
    objective: Objective,
    block: Coded,
    Y: Array,
    w: Array,
    start: Solution | None,
    tol: float,
    max_iter: int,
) -> Minimum:
    """Take the same steps on the weights of rows."""
    from mercer.linear_model.solvers.dual import DualProblem

    before = objective.rows.passes
    dual = DualProblem(objective, block, Y, w)
    a, b = np.zeros_like(dual.Y), np.zeros(dual.t)
    if start is not None and start.weights is not None:
        a += start.weights
        b += start.intercept + objective.mean @ start.coef
    steps, changes, unconverged = dual.descend(a, b, tol, max_iter)
    coef = dual.coef(a)
    passes = objective.rows.passes - before
    return Minimum(coef, b - objective.mean @ coef, steps, passes, changes, unconverged, a)


def _line_search(point: Iterate, here: Derivatives, d: Array) -> tuple[Array, Derivatives, Array]:
    """Take the largest step with sufficient decrease.

    Returns which outputs moved, the derivatives at the new point, and the relative change of scores
    that the whole step d would make.
    """
    db = here.intercept_step(d)
    predicted = np.sum(here.G * d, axis=0) + here.g * db
    rounding = ROUNDING * np.abs(here.value)
    scales = np.ones(len(db))
    for _ in range(LINE_SEARCHES):
        ahead, values = point.evaluate(scales * d, scales * db, STEP_SIZES)
        decrease = SUFFICIENT_DECREASE * np.multiply.outer(STEP_SIZES, scales * predicted)
        sufficient = values <= here.value + decrease + rounding
        accepted = sufficient.any(axis=0)
        if accepted.all():
            break
        scales = np.where(accepted, scales, scales * STEP_SIZES[-1] / 2)
    step_sizes = np.where(accepted, STEP_SIZES[np.argmax(sufficient, axis=0)], 0.0)
    change = point.change / scales
    point.move(d, db, scales, step_sizes)
    if np.any(step_sizes != 1):
        ahead = point.evaluate()[0]
    improved = (ahead.value < here.value - rounding) | (ahead.norms < 0.5 * here.norms)
    return accepted & improved, ahead, change


def _newton_step(point: Iterate, here: Derivatives, forcing: Array) -> Array:
    """Return the Newton step by conjugate gradients, each output to a relative error of `forcing`.

    Products are in the dtype of the features or of their copies, since a step need not be exact;
    the gradient, in float64, decides about convergence. The preconditioner replaces the curvatures
    of an output by their mean.
    """
    objective = point.objective
    hessian = HessianProducts(point, here)
    residual = hessian.rotate(here.descent())
    d = np.zeros_like(residual)
    spectrum, alpha = objective.preconditioner, objective.alpha
    assert spectrum is not None

    def precondition(R: Array, columns: Array) -> Array:
        return spectrum.solve(R, alpha, here.h[columns])

    if isinstance(hessian.rows, CenteredBlocks) and len(spectrum.values) == len(d):
        corrected = HessianPreconditioner(
            hessian.rows.Z, hessian.curvatures[0], spectrum.values, alpha
        )
        precondition = corrected.solve
    conjugate_gradients(
        hessian.multiply, d, residual, precondition, forcing, INNER_STEPS, energy=True
    )
    return hessian.rotate_back(d)


class HessianProducts:
    """Products with the Hessians of the outputs at a point, b eliminated, one pass each.

    Where the objective has copies of the rows, vectors are in the basis of these.
    """

    def __init__(self, point: Iterate, here: Derivatives) -> None:
        objective = point.objective
        self.point, self.here, self.alpha = point, here, objective.alpha
        self.rows: BlockSource = objective.rows
        self.mean, self.basis = objective.mean, None
        self.curvatures: list[Array] = []
        if objective.copies is not None:
            self.rows, self.basis = objective.copies, objective.copies.basis
            self.mean = np.zeros_like(self.mean)
        if objective.rows.cached:
            kind = next(iter(self.rows()))[0].dtype
            self.curvatures = [C.astype(kind, copy=False) for _, _, C in point.curvatures()]
        if objective.copies is not None:
            self.curvatures = [np.concatenate(self.curvatures)]
        self.H = self.rotate(here.H)

    def rotate(self, W: Array) -> Array:
        return W if self.basis is None else self.basis.T @ W

    def rotate_back(self, W: Array) -> Array:
        return W if self.basis is None else self.basis @ W

    def multiply(self, P: Array, outputs: Array) -> tuple[Array, Array]:
        """Return A P and P'A P for the Hessians A of some outputs: one pass.

        P'A P is a sum of squares, and so never negative.
        """
        H, h = self.H, self.here.h[outputs]
        image, total, bend = np.zeros_like(P), np.zeros(P.shape[1]), np.zeros(P.shape[1])
        center = self.mean @ P
        for block, C in self._blocks():
            kind = block.dtype
            busy = (C if len(outputs) == C.shape[1] else C[:, outputs]).astype(kind, copy=False)

            def weigh(U: Array, rows: slice, C: Array = busy) -> Array:
                return C[rows] * U

            parts = multiply_hessian(block, P.astype(kind), center.astype(kind), weigh)
            image += parts[0]
            total += parts[1]
            bend += parts[2]
        if H.size:
            image -= np.multiply.outer(self.mean, total)
            image -= H[:, outputs] * divide(total, h)
            bend -= divide(total**2, h)
        image += self.alpha * P
        return image, np.maximum(bend, 0.0) + self.alpha * np.sum(P**2, axis=0)

    def _blocks(self) -> Iterator[tuple[Block, Array]]:
        """Yield the blocks that have weights, with the curvatures of their rows."""
        if self.curvatures:
            blocks = (block for block, _, w in self.rows() if w.any())
            return zip(blocks, self.curvatures, strict=True)
        return ((block, C) for _, block, C in self.point.curvatures())
