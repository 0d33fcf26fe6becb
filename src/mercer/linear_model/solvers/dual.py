"""Newton's method where codes of few rows stand for many features: w = sum a (z - mean), and all
that is known of w is a.

With K = Z Z' about the mean, scores are b + K a, the gradient is Z'(alpha a + r) with r = s y
loss', and products K q go a few places of the codes at a time: neither w nor the gradient exist
before the end. Steps and their ends are those of `solvers.newton`.
"""

from __future__ import annotations

import numpy as np

from mercer import ops
from mercer.linear_model.normal_equations import Array
from mercer.linear_model.solvers.objective import Objective, over
from mercer.linear_model.solvers.products import back, product, round_trip
from mercer.maps.block import Coded, OneHot
from mercer.parallel.threads import share, spans
from mercer.parallel.tile_size import Cost
from mercer.rng import Rng

_PARTS = 0.5 ** np.arange(32)
_DESCENT = 1e-4  # of what the gradient promises, which a step must keep
_BLUR = 1e-13  # of the objective: differences below it are rounding
_SWEEPS = 40  # most sweeps of coordinate descent before Newton steps
_INNER = 250  # most conjugate gradient steps for a Newton step


class Span:
    """The outputs of one coded block: a, b and the scores of its rows."""

    def __init__(self, objective: Objective, block: Coded, Y: Array, w: Array) -> None:
        self.objective, self.block, self.Y, self.w = objective, block, Y, w[:, None]
        self.mean, self.t = objective.mean, Y.shape[1]
        self.along = (
            product(block, self.mean[:, None])[:, 0]
            if objective.fit_intercept
            else np.zeros(len(w))
        )
        self.square = float(self.mean @ self.mean)

    def product(self, Q: Array) -> Array:
        """K Q in the dtype of Q, about the mean."""
        out = round_trip(self.block, Q).astype(np.float64)
        if self.objective.fit_intercept:
            total, across = Q.sum(axis=0, dtype=np.float64), self.along @ Q
            out -= np.multiply.outer(self.along, total)
            out += self.square * total - across
        return out

    def descend(
        self, a: Array, b: Array, tol: float, floor: float, max_iter: int
    ) -> tuple[int, Array, Array]:
        """Newton steps from (a, b), both changed in place: their number, |gradient| of each output,
        and whether it is late.
        """
        objective, alpha = self.objective, self.objective.alpha
        F = (self.product(a) if a.any() else np.zeros_like(a)) + b
        norms, late = np.zeros(self.t), np.zeros(self.t, bool)
        going, steps = np.arange(self.t), 0
        while True:
            Y, A, S = self.Y[:, going], a[:, going], F[:, going]
            M = Y * S
            R, C = self.w * Y * objective.loss.slope(M), self.w * objective.loss.curvature(M)
            g, h = (
                (R.sum(axis=0), C.sum(axis=0))
                if objective.fit_intercept
                else (np.zeros(len(going)),) * 2
            )
            down = -(alpha * A + R - C * over(g, h))
            image = self.product(down.astype(self.block.dtype))
            energy = np.sum(A * (S - b[going]), axis=0)  # |w|^2
            norms[going] = np.sqrt(
                np.maximum(np.sum(down * image, axis=0), 0.0) + (objective.unit * g) ** 2
            )
            goal = np.maximum(
                tol * alpha * np.sqrt(np.maximum(energy, 0.0)), floor * objective.first[going]
            )
            late[going] = norms[going] > goal
            busy = late[going]
            if steps == max_iter or not busy.any():
                return steps, norms, late
            going, goal = going[busy], goal[busy]
            Y, A, S, M, C, down, image = (part[:, busy] for part in (Y, A, S, M, C, down, image))
            g, h, energy, promise_b = g[busy], h[busy], energy[busy], R[:, busy]
            reached = norms[going] / objective.first[going]
            forcing = np.maximum(np.minimum(0.1, np.sqrt(reached)), 0.1 * goal / norms[going])
            x = self._step(down, image, C, h, forcing)
            dF = self.product(x)
            db = -over(g + np.sum(C * dF, axis=0), h)
            promise = np.sum((alpha * A + promise_b) * dF, axis=0) + g * db
            dF += db
            parts = self._parts(A, S, energy, x, dF, db, Y, promise, b[going])
            a[:, going] += parts * x
            b[going] += parts * db
            F[:, going] += parts * dF
            steps += 1
            if not parts.all():
                going = going[parts > 0]
                if not len(going):
                    return steps, norms, late

    def _parts(
        self,
        A: Array,
        S: Array,
        energy: Array,
        x: Array,
        dF: Array,
        db: Array,
        Y: Array,
        promise: Array,
        b: Array,
    ) -> Array:
        """The longest part of each step that keeps its promise; 0 where none does, or where it
        brings nothing.
        """
        loss, alpha = self.objective.loss, self.objective.alpha
        mixed, square = np.sum(A * (dF - db), axis=0), np.sum(x * (dF - db), axis=0)
        M, dM = Y * S, Y * dF
        here = np.sum(self.w * loss.value(M), axis=0) + alpha / 2 * energy
        blur = _BLUR * np.abs(here)
        parts = np.zeros(len(energy))
        for part in _PARTS:
            open_ = np.flatnonzero(parts == 0)
            if not len(open_):
                break
            value = np.sum(self.w * loss.value(M[:, open_] + part * dM[:, open_]), axis=0)
            value += alpha / 2 * (energy[open_] + 2 * part * mixed[open_] + part**2 * square[open_])
            enough = value <= here[open_] + _DESCENT * part * promise[open_] + blur[open_]
            parts[open_[enough]] = part
        return parts

    def _step(self, down: Array, image: Array, C: Array, h: Array, forcing: Array) -> Array:
        """Conjugate gradients for (alpha + C K) x = down, C less its projection on 1 with an
        intercept; image is K down.
        """
        alpha = self.objective.alpha
        x, residual = np.zeros_like(down), down.copy()
        P, KP = down.copy(), image
        size = np.sum(residual * KP, axis=0)
        goal = forcing**2 * size
        busy = np.arange(len(h))
        for _ in range(_INNER):
            CU = C[:, busy] * KP
            total = CU.sum(axis=0)
            HP = alpha * P + CU - C[:, busy] * over(total, h[busy])
            step = size[busy] / np.sum(KP * HP, axis=0)
            x[:, busy] += step * P
            residual[:, busy] -= step * HP
            image = self.product(residual[:, busy].astype(self.block.dtype))
            new = np.sum(residual[:, busy] * image, axis=0)
            turn, size[busy] = new / size[busy], new
            left = new > goal[busy]
            if not left.any():
                break
            P = residual[:, busy[left]] + turn[left] * P[:, left]
            KP = image[:, left] + turn[left] * KP[:, left]
            busy = busy[left]
        return x

    def sweep(self, a: Array, tol: float) -> None:
        """Sweeps of coordinate descent for the squared hinge without an intercept, from w = 0,
        until they change a by less than tol |a|.

        The minimum over the weight of one row is a formula. Outputs go by cache lines over threads,
        rows in the order of a hash; a sweep costs about three times as much as a step of conjugate
        gradients.
        """
        tables, codes, n = self.block.tables, self.block.codes, len(a)
        assert isinstance(tables, OneHot)
        kind = np.dtype(tables.dtype)
        line = 64 // kind.itemsize
        useful = (
            self.w[:, 0] > 0 if self.block.empty is None else (self.w[:, 0] > 0) & ~self.block.empty
        )
        c = (2 * self.w[:, 0] / self.objective.alpha).astype(kind)
        groups, b = list(spans(self.t, line)), np.zeros(line, kind)
        W = [np.zeros((codes.shape[1], tables.width, line), kind) for _ in groups]
        Y, weights = (np.zeros((len(groups), n, line), kind) for _ in range(2))
        for k, group in enumerate(groups):
            Y[k, :, : group.stop - group.start] = self.Y[:, group]
        for sweep in range(_SWEEPS):
            order = np.argsort(Rng(0).words(f"sweep {sweep}", 0, n), kind="stable")
            order = order[useful[order]].astype(np.int64)
            before = weights.copy()

            def work(k: int, order: Array = order) -> None:
                ops.coded_descent(codes, order, Y[k], b, c, tables.scale, weights[k], W[k])

            share(work, list(range(len(groups))), Cost(2.0 * codes.shape[1] * line, 0.0), n)
            change = np.sum((weights - before) ** 2, axis=1, dtype=np.float64)
            if np.all(change <= tol**2 * np.sum(weights**2, axis=1, dtype=np.float64)):
                break
        for k, group in enumerate(groups):
            a[:, group] = weights[k][:, : group.stop - group.start]

    def coef(self, a: Array) -> Array:
        """w = Z'a about the mean."""
        W = back(self.block, a)
        W -= np.multiply.outer(self.mean, a.sum(axis=0))
        return W
