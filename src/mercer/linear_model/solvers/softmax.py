"""Newton's method for log loss, -log softmax(f)_y, whose Hessian couples the outputs.

With p = softmax(f), the gradient in the scores of a row is r = s (p - e_y), and its Hessian s
(diag(p) - p p'). A step of all outputs is found by conjugate gradients, with one pass over blocks
for each Hessian product. f is unchanged where all intercepts move by one number: the solution is
the one whose intercepts have mean 0.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.special import softmax

from mercer._typing import Array
from mercer.linear_model.solvers.blocks import CenteredBlocks, multiply_hessian, multiply_transposed
from mercer.linear_model.solvers.newton_cg import (
    FORCING,
    GRADIENT_FLOOR,
    GRADIENT_TOLERANCE,
    INNER_STEPS,
    LINE_SEARCHES,
    ROUNDING,
    STEP_SIZES,
    SUFFICIENT_DECREASE,
    Derivatives,
    Iterate,
    Minimum,
    Objective,
    Solution,
    divide,
    next_forcing,
    relative_change,
    score_sums,
)
from mercer.linear_model.solvers.preconditioner import HessianPreconditioner
from mercer.linear_model.solvers.ridge_cg import conjugate_gradients
from mercer.maps.block import Block


def descend(
    objective: Objective,
    start: Solution | None,
    tol: float,
    max_iter: int,
) -> Minimum:
    """Take Newton steps until one changes all scores by at most tol of their standard deviation.

    They also end where |gradient| <= max(tol alpha |w|, GRADIENT_FLOOR steepest).
    """
    D, t = len(objective.mean), len(objective.target_mean)
    before, floor = objective.rows.passes, GRADIENT_FLOOR * objective.steepest
    # steps never leave the coefficients that add up to 0 over outputs, where the minimum is
    W = np.zeros((D, t)) if start is None else start.coef - start.coef.mean(axis=1, keepdims=True)
    b = np.zeros(t) if start is None else start.intercept + objective.mean @ W
    point, steps, moved = SoftmaxIterate(objective, W, b, np.arange(t), {}), 0, True
    here, change, forcing = point.evaluate()[0], np.array([np.inf]), np.array([FORCING])
    while True:
        norm = float(np.linalg.norm(here.norms))
        bound = min(tol, GRADIENT_TOLERANCE) * objective.alpha * float(np.linalg.norm(point.W))
        goal = max(bound, floor)
        converged = norm <= goal or change[0] <= tol
        if converged or not moved or steps == max_iter:
            break
        forcing = next_forcing(change, forcing, tol)
        d, db = _newton_step(point, here, forcing)
        moved, here, change = _line_search(point, here, d, db)
        steps += 1
    intercept = point.b - point.b.mean() - objective.mean @ point.W
    return Minimum(
        point.W,
        intercept,
        steps,
        objective.rows.passes - before,
        np.full(t, change[0] if steps else 0.0),
        np.full(t, not converged),
        preconditioner=objective.preconditioner,
    )


class SoftmaxIterate(Iterate):
    """w and b of all outputs."""

    def probabilities(self) -> Iterator[tuple[int, Block, Array, Array]]:
        """Yield (index, block, weights as a column, p) of blocks with weights: one pass."""
        for i, block, _, w, F in self.blocks():
            yield i, block, w, np.asarray(softmax(F, axis=1))

    def evaluate(
        self, d: Array | None = None, db: Array | None = None, step_sizes: Array | None = None
    ) -> tuple[Derivatives, Array]:
        """Return the derivatives here, or at the end of the step (d, db): one pass.

        The value and the objective at each of the step sizes are those of all outputs. H is empty;
        h has the diagonal of the Hessian in b.
        """
        objective, loss = self.objective, self.objective.loss
        G, g, h = np.zeros_like(self.W), np.zeros_like(self.b), np.zeros_like(self.b)
        sums = np.zeros((3, len(self.b)))
        value, values = 0.0, np.zeros(0 if step_sizes is None else len(step_sizes))
        for i, block, Y, w, F in self.blocks():
            if d is not None and db is not None and step_sizes is not None:
                dF = objective.scores(block, d, db)
                if objective.rows.cached:
                    self._score_steps[i] = dF
                for k, step_size in enumerate(step_sizes):
                    values[k] += w[:, 0] @ loss.row_values(Y, F + step_size * dF)
                F = F + dF
                sums += score_sums(F, dF, w)
            value += float(w[:, 0] @ loss.row_values(Y, F))
            R = loss.gradient(Y, F)
            P = R + (Y > 0)
            h += np.sum(w * P * (1 - P), axis=0)
            R *= w
            G += multiply_transposed(block, R.astype(objective.dtype))
            g += R.sum(axis=0)
        W = self.W if d is None else self.W + d
        if objective.fit_intercept:
            G -= np.multiply.outer(objective.mean, g)
        else:
            g = np.zeros_like(g)
        G += objective.alpha * W
        value += objective.alpha / 2 * np.sum(W**2)
        if d is not None and step_sizes is not None:
            ww, wd, dd = (float(np.sum(A * B)) for A, B in ((self.W,) * 2, (self.W, d), (d, d)))
            values += objective.alpha / 2 * (ww + 2 * step_sizes * wd + step_sizes**2 * dd)
            self.change = relative_change(sums, objective.n, joint=True)
        H = np.zeros((len(G), 0))
        return Derivatives(np.array([value]), G, g, H, h, objective.unit), values


def _newton_step(point: SoftmaxIterate, here: Derivatives, forcing: Array) -> tuple[Array, Array]:
    """Return the Newton step of w and b by conjugate gradients, to a relative error of `forcing`.

    All outputs are one column. The preconditioner neglects what couples them and replaces the
    curvatures of an output by the mean of p (1 - p).
    """
    objective, (D, t), copies = point.objective, point.W.shape, point.objective.copies
    spectrum, basis = objective.preconditioner, None if copies is None else copies.basis
    assert spectrum is not None
    probabilities: list[Array] = []
    if objective.rows.cached:
        probabilities = [P for _, _, _, P in point.probabilities()]
    if copies is not None:
        probabilities = [np.concatenate(probabilities)]
    rows = objective.rows if copies is None else copies

    def solve(R: Array) -> Array:
        return spectrum.solve(R, objective.alpha, here.h)

    if isinstance(rows, CenteredBlocks) and len(spectrum.values) == D:
        (P,) = probabilities
        corrected = HessianPreconditioner(
            rows.Z, rows.w[:, None] * P * (1 - P), spectrum.values, objective.alpha
        )

        def solve(R: Array) -> Array:
            return corrected.solve(R, np.arange(t))

    def join(W: Array, b: Array) -> Array:
        # without the direction in which all outputs are equal: probabilities do not depend on it
        W, b = W - W.mean(axis=1, keepdims=True), b - b.mean()
        return np.concatenate([W.ravel(), b])[:, None]

    def split(x: Array) -> tuple[Array, Array]:
        return x[: D * t, 0].reshape(D, t), x[D * t :, 0]

    def apply(x: Array, _: Array) -> tuple[Array, Array]:
        image, total, curvature = _hessian_product(point, *split(x), probabilities)
        return join(image, total), np.array([curvature])

    def precondition(x: Array, _: Array) -> Array:
        W, b = split(x)
        return join(solve(W), divide(b, here.h))

    residual = join(-here.G if basis is None else -basis.T @ here.G, -here.g)
    x = np.zeros_like(residual)
    conjugate_gradients(apply, x, residual, precondition, forcing, INNER_STEPS, energy=True)
    d, db = split(x)
    return d if basis is None else basis @ d, db


def _hessian_product(
    point: SoftmaxIterate, W: Array, b: Array, probabilities: list[Array]
) -> tuple[Array, Array, float]:
    """Return the product of the Hessian with (W, b), and its inner product with them: one pass.

    Where the objective has copies of the rows, W is in the basis of these.
    """
    objective, copies = point.objective, point.objective.copies
    image, total, bend = np.zeros_like(W), np.zeros_like(b), 0.0
    mean = objective.mean if copies is None else np.zeros_like(objective.mean)
    center = mean @ W - b
    if probabilities:
        rows = objective.rows() if copies is None else copies()
        weighted = ((block, w[:, None]) for block, _, w in rows if w.any())
        blocks = ((*row, P) for row, P in zip(weighted, probabilities, strict=True))
    else:
        blocks = ((block, w, P) for _, block, w, P in point.probabilities())
    for block, w, P in blocks:
        kind = block.dtype

        def weigh(U: Array, rows: slice, P: Array = P, w: Array = w) -> Array:
            """Return s (diag(p) - p p') u; in float64, since a p next to 1 leaves few digits."""
            about = U - np.einsum("ij,ij->i", P[rows], U)[:, None]
            U[:] = about
            return (w[rows] * P[rows] * about).astype(U.dtype, copy=False)

        parts = multiply_hessian(block, W.astype(kind), center.astype(kind), weigh)
        image += parts[0]
        total += parts[1]
        bend += float(parts[2].sum())
    if objective.fit_intercept:
        image -= np.multiply.outer(mean, total)
    else:
        total = np.zeros_like(b)
    image += objective.alpha * W
    return image, total, bend + objective.alpha * float(np.sum(W**2))


def _line_search(
    point: SoftmaxIterate, here: Derivatives, d: Array, db: Array
) -> tuple[bool, Derivatives, Array]:
    """Take the largest step with sufficient decrease.

    Returns whether the objective or the gradient has become smaller, the derivatives at the new
    point, and the relative change of scores that the whole step would make.
    """
    predicted = float(np.sum(here.G * d) + here.g @ db)
    value = float(here.value[0])
    rounding, scale, step_size = ROUNDING * abs(value), 1.0, 0.0
    for _ in range(LINE_SEARCHES):
        ahead, values = point.evaluate(scale * d, scale * db, STEP_SIZES)
        decrease = SUFFICIENT_DECREASE * STEP_SIZES * scale * predicted
        sufficient = values <= value + decrease + rounding
        if sufficient.any():
            step_size = float(STEP_SIZES[np.argmax(sufficient)])
            break
        scale *= STEP_SIZES[-1] / 2
    t, change = len(db), point.change / scale
    point.move(d, db, np.full(t, scale), np.full(t, step_size))
    if step_size != 1:
        ahead = point.evaluate()[0]
    smaller = ahead.value[0] < value - rounding
    norms = [float(np.linalg.norm(at.norms)) for at in (ahead, here)]
    return bool(step_size and (smaller or norms[0] < 0.5 * norms[1])), ahead, change
