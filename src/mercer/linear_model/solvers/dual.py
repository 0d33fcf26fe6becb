"""Newton's method in the dual, for codes of few rows and many features: w = sum a (z - mean).

With K = Z Z' about the mean, scores are b + K a, the gradient is Z'(alpha a + r) with r = s y
loss', and products K q take a few positions of the codes at a time: neither w nor the gradient
are formed before the end. Steps and stopping rules are those of `solvers.newton_cg`.
"""

from __future__ import annotations

import numpy as np

from mercer._typing import Array
from mercer.linear_model.solvers.blocks import (
    multiply,
    multiply_centered_gram,
    multiply_transposed,
)
from mercer.linear_model.solvers.newton_cg import (
    FORCING,
    GRADIENT_FLOOR,
    GRADIENT_TOLERANCE,
    INNER_STEPS,
    ROUNDING,
    SUFFICIENT_DECREASE,
    Objective,
    divide,
    next_forcing,
    relative_change,
    score_sums,
)
from mercer.maps.block import Coded

_STEP_SIZES = 0.5 ** np.arange(32)


class DualProblem:
    """Outputs of one coded block as functions of a, the weights of its rows, and b."""

    def __init__(self, objective: Objective, block: Coded, Y: Array, w: Array) -> None:
        self.objective, self.block, self.Y, self.w = objective, block, Y, w[:, None]
        self.mean, self.t = objective.mean, Y.shape[1]
        self.along = np.zeros(len(w))  # Z mean
        if objective.fit_intercept:
            self.along = multiply(block, self.mean[:, None])[:, 0]
        self.square = float(self.mean @ self.mean)

    def multiply(self, Q: Array) -> Array:
        """Return K Q; products are in the dtype of Q for one-hot codes."""
        out = multiply_centered_gram(self.block, Q, self.along, self.square)
        return out.astype(np.float64, copy=False)

    def descend(self, a: Array, b: Array, tol: float, max_iter: int) -> tuple[int, Array, Array]:
        """Take Newton steps from (a, b), both changed in place.

        Returns the number of steps, the relative change of scores in the last one, and which
        outputs are unconverged.
        """
        objective, alpha = self.objective, self.objective.alpha
        loss = objective.margin_loss
        F = (self.multiply(a) if a.any() else np.zeros_like(a)) + b
        norms, unconverged = np.zeros(self.t), np.zeros(self.t, bool)
        changes, forcing = np.full(self.t, np.inf), np.full(self.t, FORCING)
        active, steps = np.arange(self.t), 0
        while True:
            Y, A, S = self.Y[:, active], a[:, active], F[:, active]
            M = Y * S
            R, C = self.w * Y * loss.slope(M), self.w * loss.curvature(M)
            g = h = np.zeros(len(active))
            if objective.fit_intercept:
                g, h = R.sum(axis=0), C.sum(axis=0)
            down = -(alpha * A + R - C * divide(g, h))
            image = self.multiply(down.astype(self.block.dtype))
            energy = np.sum(A * (S - b[active]), axis=0)  # |w|^2
            norms[active] = np.sqrt(
                np.maximum(np.sum(down * image, axis=0), 0.0) + (objective.unit * g) ** 2
            )
            goal = np.maximum(
                min(tol, GRADIENT_TOLERANCE) * alpha * np.sqrt(np.maximum(energy, 0.0)),
                GRADIENT_FLOOR * objective.steepest,
            )
            unconverged[active] = (norms[active] > goal) & (changes[active] > tol)
            busy = unconverged[active]
            if steps == max_iter or not busy.any():
                return steps, np.where(np.isfinite(changes), changes, 0.0), unconverged
            active = active[busy]
            Y, A, S, M, C, down, image = (part[:, busy] for part in (Y, A, S, M, C, down, image))
            g, h, energy, R = g[busy], h[busy], energy[busy], R[:, busy]
            forcing[active] = next_forcing(changes[active], forcing[active], tol)
            x = self._step(down, image, C, h, forcing[active])
            dF = self.multiply(x)
            db = -divide(g + np.sum(C * dF, axis=0), h)
            predicted = np.sum((alpha * A + R) * dF, axis=0) + g * db
            dF += db
            step_sizes = self._line_search(A, S, energy, x, dF, db, Y, predicted)
            a[:, active] += step_sizes * x
            b[active] += step_sizes * db
            F[:, active] += step_sizes * dF
            sums = score_sums(S + dF, dF, self.w)
            changes[active] = relative_change(sums, objective.n)
            steps += 1
            if not step_sizes.all():
                active = active[step_sizes > 0]
                if not len(active):
                    return steps, changes, unconverged

    def _line_search(
        self,
        A: Array,
        S: Array,
        energy: Array,
        x: Array,
        dF: Array,
        db: Array,
        Y: Array,
        predicted: Array,
    ) -> Array:
        """Return the largest step size with sufficient decrease; 0 where there is none."""
        loss, alpha = self.objective.margin_loss, self.objective.alpha
        mixed, square = np.sum(A * (dF - db), axis=0), np.sum(x * (dF - db), axis=0)
        M, dM = Y * S, Y * dF
        here = np.sum(self.w * loss.value(M), axis=0) + alpha / 2 * energy
        rounding = ROUNDING * np.abs(here)
        step_sizes = np.zeros(len(energy))
        for s in _STEP_SIZES:
            left = np.flatnonzero(step_sizes == 0)
            if not len(left):
                break
            value = np.sum(self.w * loss.value(M[:, left] + s * dM[:, left]), axis=0)
            value += alpha / 2 * (energy[left] + 2 * s * mixed[left] + s**2 * square[left])
            decrease = SUFFICIENT_DECREASE * s * predicted[left]
            step_sizes[left[value <= here[left] + decrease + rounding[left]]] = s
        return step_sizes

    def _step(self, down: Array, image: Array, C: Array, h: Array, forcing: Array) -> Array:
        """Solve (alpha + C K) x = down by conjugate gradients; image is K down.

        With an intercept, C is less its projection on 1. Products are in float32: a step need not
        be exact.
        """
        alpha = self.objective.alpha
        x, residual = np.zeros_like(down), down.copy()
        P, KP = down.copy(), image
        size = np.sum(residual * KP, axis=0)
        goal = forcing**2 * size
        busy = np.arange(len(h))
        for _ in range(INNER_STEPS):
            CU = C[:, busy] * KP
            total = CU.sum(axis=0)
            HP = alpha * P + CU - C[:, busy] * divide(total, h[busy])
            step = divide(size[busy], np.sum(KP * HP, axis=0))
            x[:, busy] += step * P
            residual[:, busy] -= step * HP
            image = self.multiply(residual[:, busy].astype(np.float32))
            new = np.sum(residual[:, busy] * image, axis=0)
            turn, size[busy] = divide(new, size[busy]), new
            left = new > goal[busy]
            if not left.any():
                break
            P = residual[:, busy[left]] + turn[left] * P[:, left]
            KP = image[:, left] + turn[left] * KP[:, left]
            busy = busy[left]
        return x

    def coef(self, a: Array) -> Array:
        """Return w = Z'a about the mean."""
        W = multiply_transposed(self.block, a)
        W -= np.multiply.outer(self.mean, a.sum(axis=0))
        return W
