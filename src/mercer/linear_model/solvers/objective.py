"""sum s loss(y f(x)) + alpha/2 |w|^2, f(x) = b + w'z: its value and its derivatives, one pass over
blocks for all outputs at once.

The intercept b is not penalised. Where there is one, features are taken about their mean, so that a
large mean costs no digits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from mercer.linear_model.losses import Loss
from mercer.linear_model.normal_equations import Array
from mercer.linear_model.solvers.passes import column_squares
from mercer.linear_model.solvers.products import back, product
from mercer.maps.block import Block

_EPS = float(np.finfo(np.float64).eps)


class Source(Protocol):
    """Blocks with targets (n, t) and weights (n,), once more at each call; how many calls there
    were, and whether blocks stay in memory.
    """

    @property
    def kept(self) -> bool: ...
    @property
    def passes(self) -> int: ...
    def __call__(self) -> Iterator[tuple[Block, Array, Array]]: ...


@dataclass(frozen=True, eq=False)
class Objective:
    """What one pass tells of the rows, whatever w is."""

    rows: Source
    loss: Loss
    alpha: float
    fit_intercept: bool
    n: float
    mean: Array  # (D,), 0 without an intercept
    squares: Array  # sum s (z - mean)^2, (D,)
    first: Array  # |gradient| at w = 0, b = 0, (t,)

    @classmethod
    def of(cls, who: str, rows: Source, loss: Loss, alpha: float, fit_intercept: bool) -> Objective:
        """One pass."""
        n, sums = 0.0, None
        for block, Y, w in rows():
            if not w.any():
                continue
            if sums is None:
                D, t = block.shape[1], Y.shape[1]
                sums, squares, cross, balance = (
                    np.zeros(D),
                    np.zeros(D),
                    np.zeros((D, t)),
                    np.zeros(t),
                )
            n += float(w.sum())
            sums += block.T @ w
            squares += column_squares(block, w)
            cross += back(block, w[:, None] * Y)
            balance += w @ Y
        if sums is None:
            raise ValueError(f"{who} needs rows with a weight above 0 to learn from, got none.")
        if not (np.isfinite(squares.sum()) and np.isfinite(cross.sum())):
            raise ValueError(
                f"{who}: sums of squares of features leave the range of float64: scale them down."
            )
        mean = sums / n if fit_intercept else np.zeros(D)
        centred = np.maximum(squares - n * mean**2, _EPS * squares)
        cross -= np.multiply.outer(mean, balance)
        steepness = abs(float(loss.slope(np.zeros(1))[0]))
        made = cls(rows, loss, alpha, fit_intercept, n, mean, centred, np.zeros(t))
        first = steepness * lengths(cross, fit_intercept * balance, made.unit)
        return replace(made, first=first)

    @property
    def scale(self) -> float:
        """What alphas are measured in: the mean over columns of sum s (z - mean)^2. 1 where all
        features are constant.
        """
        return float(self.squares.mean()) or 1.0

    @property
    def unit(self) -> float:
        """What a gradient in b is measured in, so that lengths of gradients follow the scale of
        features: the root mean of |z - mean|^2.
        """
        return float(np.sqrt(self.squares.sum() / self.n)) or 1.0

    def scores(self, block: Block, W: Array, b: Array) -> Array:
        """b + (z - mean)'W of the rows of a block."""
        if not W.any():
            return np.broadcast_to(b, (block.shape[0], len(b))).copy()
        return product(block, W) + (b - self.mean @ W)


@dataclass(frozen=True, eq=False)
class Look:
    """The objective at a point for the outputs at work: value, gradient, and the sums by which the
    intercept is eliminated.
    """

    value: Array  # (t,)
    G: Array  # gradient in w, (D, t)
    g: Array  # gradient in b, (t,); 0 without an intercept
    H: Array  # sum s loss'' (z - mean), (D, t); no columns without an intercept
    h: Array  # sum s loss'', (t,)
    unit: float  # of g

    @property
    def norms(self) -> Array:
        """Lengths of the gradients."""
        return lengths(self.G, self.g, self.unit)

    def only(self, chosen: Array) -> Look:
        """Some of the outputs."""
        H = self.H[:, chosen] if self.H.size else self.H
        return Look(
            self.value[chosen], self.G[:, chosen], self.g[chosen], H, self.h[chosen], self.unit
        )

    def downhill(self) -> Array:
        """-gradient in w where b follows w: -(G - H g/h)."""
        return -(self.G - self.H * over(self.g, self.h)) if self.H.size else -self.G

    def intercept_step(self, d: Array) -> Array:
        """The step of b that goes with the step d of w: -(g + H'd)/h."""
        return (
            -over(self.g + np.sum(self.H * d, axis=0), self.h)
            if self.H.size
            else np.zeros(d.shape[1])
        )


class Point:
    """w and b of the outputs at work, b about the mean; where blocks are kept, so are the scores b
    + w'(z - mean) of their rows.
    """

    def __init__(
        self, objective: Objective, W: Array, b: Array, outputs: Array, scores: dict[int, Array]
    ) -> None:
        self.objective, self.W, self.b, self.outputs = objective, W, b, outputs
        self._scores = scores
        self._steps: dict[int, Array] = {}

    def only(self, chosen: Array) -> Point:
        """Some of the outputs."""
        scores = {i: F[:, chosen] for i, F in self._scores.items()}
        return Point(
            self.objective, self.W[:, chosen], self.b[chosen], self.outputs[chosen], scores
        )

    def leave(self, coef: Array, intercept: Array) -> None:
        """Write w and b where they belong among all outputs."""
        coef[:, self.outputs], intercept[self.outputs] = self.W, self.b

    def blocks(self) -> Iterator[tuple[int, Block, Array, Array, Array]]:
        """(number, block, targets, weights as a column, scores) of the blocks that have weights:
        one pass.
        """
        rows = self.objective.rows
        for i, (block, Y, w) in enumerate(rows()):
            if not w.any():
                continue
            F = self._scores.get(i)
            if F is None:
                F = self.objective.scores(block, self.W, self.b)
                if rows.kept:
                    self._scores[i] = F
            yield i, block, Y[:, self.outputs], w[:, None], F

    def curvatures(self) -> Iterator[tuple[int, Block, Array]]:
        """(number, block, s loss'') of the blocks that have weights: one pass."""
        for i, block, Y, w, F in self.blocks():
            yield i, block, w * self.objective.loss.curvature(Y * F)

    def look(
        self, d: Array | None = None, db: Array | None = None, parts: Array | None = None
    ) -> tuple[Look, Array]:
        """The objective here, or at the end of the step (d, db), and at parts of that step, (parts,
        t); one pass.
        """
        objective, loss = self.objective, self.objective.loss
        D, t = self.W.shape
        G, g, h, value = np.zeros((D, t)), np.zeros(t), np.zeros(t), np.zeros(t)
        H = np.zeros((D, t if objective.fit_intercept else 0))
        values = np.zeros((0 if parts is None else len(parts), t))
        for i, block, Y, w, F in self.blocks():
            M = Y * F
            if d is not None and db is not None and parts is not None:
                dF = objective.scores(block, d, db)
                if objective.rows.kept:
                    self._steps[i] = dF
                dM = Y * dF
                for k, part in enumerate(parts):
                    values[k] += np.sum(w * loss.value(M + part * dM), axis=0)
                M = M + dM
            value += np.sum(w * loss.value(M), axis=0)
            R, C = w * Y * loss.slope(M), w * loss.curvature(M)
            h += C.sum(axis=0)
            if objective.fit_intercept:
                both = back(block, np.hstack([R, C]))
                G += both[:, :t]
                H += both[:, t:]
                g += R.sum(axis=0)
            else:
                G += back(block, R)
        W = self.W if d is None else self.W + d
        if objective.fit_intercept:
            G -= np.multiply.outer(objective.mean, g)
            H -= np.multiply.outer(objective.mean, h)
        G += objective.alpha * W
        value += objective.alpha / 2 * np.sum(W**2, axis=0)
        if d is not None and parts is not None:
            sums = [np.sum(A * B, axis=0) for A, B in ((self.W, self.W), (self.W, d), (d, d))]
            s = parts[:, None]
            values += objective.alpha / 2 * (sums[0] + 2 * s * sums[1] + s**2 * sums[2])
        return Look(value, G, g, H, h, objective.unit), values

    def move(self, d: Array, db: Array, scales: Array, parts: Array) -> None:
        """Go `parts` of the step that was looked along last, which was (scales d, scales db)."""
        self.W += (scales * parts) * d
        self.b += scales * parts * db
        for i, dF in self._steps.items():
            self._scores[i] += parts * dF
        self._steps.clear()


def lengths(G: Array, g: Array, unit: float) -> Array:
    """Lengths of gradients in w, (D, t), and b, (t,)."""
    return np.sqrt(np.sum(G**2, axis=0) + (unit * g) ** 2)


def over(a: Array, b: Array) -> Array:
    """a/b, 0 where b is 0."""
    return np.divide(a, b, out=np.zeros(np.broadcast(a, b).shape), where=b > 0)
