"""Accelerated coordinate descent in the dual, for one-hot codes in memory.

The objective is sum s loss(y, b + z'w) + alpha/2 |w|^2. Step k minimizes it with a term
(kappa/2) |w - v|^2 and one in (b - v_b)^2, by one sweep of `ops.coded_descent` over the rows in
random order; then v = w + momentum (w - last w) (Catalyst: Lin, Mairal and Harchaoui, NeurIPS
2015). A sweep alone leaves about exp(-alpha/(s |z|^2)) of the error, a step 1 - sqrt(alpha/(alpha +
kappa)), with alpha + kappa of the order of s |z|^2. In the limit both terms are 0, so that the
intercept has no penalty.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from mercer import ops
from mercer._typing import Array
from mercer.linear_model.losses import LOSSES
from mercer.linear_model.solvers.blocks import multiply
from mercer.maps.block import Coded, OneHot
from mercer.ops.reference_codes import descent_weight
from mercer.parallel.threads import for_each, row_slices
from mercer.parallel.tile_size import Cost
from mercer.rng import Rng

_SINGLE = 5e-6  # smallest relative change of scores in a step that float32 resolves
_SEARCH_TOLERANCE = 0.08  # estimate of the error of scores, which is 0.01 to 0.03 then
_ROUNDING = 4  # eps of the scores
_OUTPUTS = 16  # of a cache line in float32
_PANEL = 16  # places whose weights stay in the cache
# alpha + kappa in units of s |z|^2, and the largest second derivative of the loss
_STRENGTH = {"squared": 0.6, "squared_hinge": 0.9, "logistic": 0.06}
_CURVATURE = {"squared": 1.0, "squared_hinge": 2.0, "logistic": 0.25}
_PATIENCE = 4.0  # sweeps, in units of 1/(1 - rate), that should halve the change
# sweeps, in units of 1/(1 - rate), from which on a search looks at the scores, and between looks
_CHECKED_FROM, _CHECKED = 2.0, 4
# 1/(term in b): in units of |z|^2, and of what the curvatures of all rows would be without features
_SLOPE = 0.3, 10.0


@dataclass(frozen=True, eq=False)
class Descent:
    """w and b, with what another alpha starts from; arrays are by groups of outputs."""

    W: list[Array]  # w, (places, codes, outputs)
    a: list[Array]  # weights of rows, (n, outputs)
    F: list[Array]  # scores, (n, outputs)
    b: list[Array]
    alpha: float
    strength: float  # alpha + kappa
    outputs: int
    steps: int  # sweeps
    change: Array  # estimate of the relative error of the scores, (t,)
    ended: bool = False  # before the minimum
    passes: ClassVar[int] = 0  # over blocks
    preconditioner: ClassVar[None] = None

    @property
    def coef(self) -> Array:
        """w, (D, t)."""
        W = np.concatenate([part.reshape(-1, part.shape[2]) for part in self.W], axis=1)
        return W[:, : self.outputs].astype(np.float64)

    @property
    def intercept(self) -> Array:
        return np.concatenate(self.b)[: self.outputs].astype(np.float64)

    @property
    def unconverged(self) -> Array:
        return np.zeros(self.outputs, bool)

    def scores(self, block: Coded) -> Array:
        """Return b + z'w of the rows of a block of such codes, (n, t), in the dtype of w."""
        assert isinstance(block.tables, OneHot)
        block = replace(block, tables=replace(block.tables, dtype=self.W[0].dtype))
        groups = zip(self.W, self.b, strict=True)
        parts = [multiply(block, W.reshape(-1, len(b))) + b for W, b in groups]
        return np.concatenate(parts, axis=1)[:, : self.outputs]

    @property
    def weights(self) -> Array:
        """Weights of rows with w = sum a z, (n, t), at the minimum."""
        a = np.concatenate(self.a, axis=1)[:, : self.outputs].astype(np.float64)
        return self.strength / self.alpha * a


def add_up(factors: Sequence[Any], arrays: Sequence[Array]) -> Array:
    """Return the sum of factors times arrays."""
    total: Array = factors[0] * arrays[0]
    for factor, array in zip(factors[1:], arrays[1:], strict=True):
        total += factor * array
    return total


def combine_descents(factors: Sequence[float], descents: Sequence[Descent]) -> Descent:
    """Return the sum of factors times descents, with the strength of the first."""
    first = descents[0]
    strengths = [one.strength / first.strength for one in descents]
    scaled = [factor * strength for factor, strength in zip(factors, strengths, strict=True)]

    def add(name: str, units: Sequence[float]) -> list[Array]:
        groups = zip(*(getattr(one, name) for one in descents), strict=True)
        return [add_up(units, parts) for parts in groups]

    W, F, b = (add(name, factors) for name in ("W", "F", "b"))
    return replace(first, W=W, a=add("a", scaled), F=F, b=b)


class CodedDescent:
    """Outputs of one block of one-hot codes.

    Parameters
    ----------
    block : Coded
    Y : array of shape (n, t)
    w : array of shape (n,)
        Weights s; rows of weight 0 are left out.
    loss : {"squared", "squared_hinge", "logistic"}
        (y - f)^2/2, max(0, 1 - y f)^2 or log(1 + exp(-y f)).
    fit_intercept : bool
    """

    def __init__(self, block: Coded, Y: Array, w: Array, loss: str, fit_intercept: bool) -> None:
        assert isinstance(block.tables, OneHot)
        self.block, self.Y, self.w, self.loss = block, Y, w, loss
        self.rows = np.flatnonzero(w > 0).astype(np.int64)
        self.square = block.codes.shape[1] * block.tables.scale**2  # |z|^2
        self.n = float(w.sum())
        self.strength = _STRENGTH[loss] * self.square * float(w @ w) / self.n
        self.fit_intercept = fit_intercept

    def minimize(
        self,
        alpha: float,
        start: Descent | None,
        tol: float,
        max_sweeps: int,
        is_worse: Callable[[Descent], bool] | None = None,
    ) -> Descent | None:
        """Descend until the scores of every output are within tol of those of the minimum.

        The error is estimated from the change of scores in the last step and the rate of the
        steps, as root mean square relative to the standard deviation of the scores. Sweeps are in
        float32 as long as that resolves their changes, and in float64 from there on. None where
        max_sweeps do not suffice, which is known at once where alpha is small. A search for alpha
        ends a descent early where is_worse says so of what it has come to.
        """
        if is_worse is not None:
            tol = max(tol, _SEARCH_TOLERANCE)
        if self._slowness(alpha, self.strength) * math.log(1 / tol) > max_sweeps:
            return None
        strength, sweeps = self.strength, 0
        kind: np.dtype[Any] = np.dtype(np.float32)
        while True:
            single = _SINGLE * self._slowness(alpha, strength)
            goal = max(tol, single) if kind == np.float32 else tol
            found = self._descend(alpha, strength, start, goal, kind, sweeps, max_sweeps, is_worse)
            if found.ended or found.change.max() <= tol:
                return found
            if found.steps >= max_sweeps:
                return None
            if found.change.max() > goal:  # stalled: a sweep is too far from the minimum of a step
                strength *= 2
            start, sweeps, kind = found, found.steps, np.dtype(np.float64)

    def _descend(
        self,
        alpha: float,
        strength: float,
        start: Descent | None,
        tol: float,
        kind: np.dtype[Any],
        sweeps: int,
        max_sweeps: int,
        is_worse: Callable[[Descent], bool] | None,
    ) -> Descent:
        """Descend until tol is reached, steps no longer halve the change, or is_worse says so."""
        slowness, strength = self._slowness(alpha, strength), max(alpha, strength)
        t = self.Y.shape[1]
        parts = self._groups(alpha, strength, start, kind)
        check = sweeps + _CHECKED_FROM * slowness + _CHECKED
        least, halved = np.inf, sweeps
        while True:
            self._sweep(parts, sweeps)
            sweeps += 1
            change = slowness * np.concatenate([part.change for part in parts])[:t]
            if change.max() <= least / 2:
                least, halved = float(change.max()), sweeps
            found = Descent(
                [part.W for part in parts],
                [part.a for part in parts],
                [part.F for part in parts],
                [part.b for part in parts],
                alpha,
                strength,
                t,
                sweeps,
                change,
            )
            stalled = sweeps - halved > _PATIENCE * slowness + _CHECKED
            if change.max() <= tol or stalled or sweeps >= max_sweeps:
                return found
            if is_worse is not None and sweeps >= check:
                if is_worse(found):
                    return replace(found, ended=True)
                check = sweeps + 2 * _CHECKED

    def prepare_sweep(self) -> Callable[[], None]:
        """Return a function that sweeps over the rows once, to be timed."""
        parts = self._groups(self.strength, self.strength, None, np.dtype(np.float32))
        return lambda: self._sweep(parts, 0)

    def _groups(
        self, alpha: float, strength: float, start: Descent | None, kind: np.dtype[Any]
    ) -> list[_Outputs]:
        """Return the states of all groups of outputs."""
        t = self.Y.shape[1]
        width = group_width(t)
        return [
            _Outputs(self, k, group, width, alpha, strength, start, kind)
            for k, group in enumerate(row_slices(t, width))
        ]

    def _sweep(self, parts: list[_Outputs], number: int) -> None:
        """Take a step of every group of outputs over the rows in random order."""
        keys = Rng(0).words(f"sweep {number}", 0, len(self.rows))
        order = self.rows[np.argsort(keys, kind="stable")]
        width = group_width(self.Y.shape[1])
        cost = Cost(2.0 * self.block.codes.shape[1] * width, 0.0)
        for_each(lambda part: part.step(order), parts, cost, len(order))

    def slope(self, strength: float) -> float:
        """Return the change of b for a change of a."""
        if not self.fit_intercept:
            return 0.0
        near, far = _SLOPE
        return near * self.square + far * strength / (_CURVATURE[self.loss] * self.n)

    def _slowness(self, alpha: float, strength: float) -> float:
        """Return 1/(1 - rate) of the steps, at least 1."""
        return math.sqrt(max(alpha, strength) / alpha)


class _Outputs:
    """State of some outputs; the columns beyond them are padding, with y = 0."""

    def __init__(
        self,
        problem: CodedDescent,
        k: int,
        group: slice,
        width: int,
        alpha: float,
        strength: float,
        start: Descent | None,
        kind: np.dtype[Any],
    ) -> None:
        block, n = problem.block, len(problem.w)
        assert isinstance(block.tables, OneHot)
        self.problem = problem
        self.Y = np.zeros((n, width), kind)
        self.Y[:, : group.stop - group.start] = problem.Y[:, group]
        self.share = kind.type(1 - alpha / strength)  # kappa/(alpha + kappa)
        root = math.sqrt(alpha / strength)
        self.momentum = kind.type((1 - root) / (1 + root))
        factor = 2.0 if problem.loss == "squared_hinge" else 1.0
        self.c = (factor / strength * problem.w).astype(kind)
        self.slope = problem.slope(strength)
        shape = block.codes.shape[1], block.tables.width, width
        self.W, self.centre, self.last = (_zeros(shape, kind) for _ in range(3))
        self.a, self.F = (np.zeros((n, width), kind) for _ in range(2))
        self.b_centre = np.zeros(width, kind)
        if start is not None:
            # the start may be of other rows: those that are left out here have no weight
            self.a[problem.rows] = start.strength / strength * start.a[k][problem.rows]
            self.F[:] = start.F[k]
            self.b_centre[:], self.centre[:] = start.b[k], start.W[k]
            self.last[:] = self.centre
        elif alpha >= problem.n * problem.square:
            self._start_from_constant()
        if start is not None or self.a.any():
            self._add_up()
        self.b_last = self.b_centre.copy()
        self.scratch = np.empty((_PANEL, *shape[1:]), kind)
        self.b = self.b_centre + kind.type(self.slope) * self._total()
        self.started = False
        self.change = np.full(width, np.inf)

    def _start_from_constant(self) -> None:
        """Set b to the best constant and a to what it leaves: the minimum for large alphas."""
        problem, loss = self.problem, self.problem.loss
        if problem.fit_intercept:
            mean = problem.w @ self.Y / problem.n
            self.b_centre[:] = LOSSES[loss].constant(mean) if loss in LOSSES else mean
        self.F[:] = self.b_centre
        slopes = descent_weight(loss, self.Y, self.F, self.a, self.c[:, None], self.c.dtype.type(0))
        self.a[problem.rows] = slopes[problem.rows]

    def _add_up(self) -> None:
        """Set W = share centre + Z'a."""
        block = self.problem.block
        assert isinstance(block.tables, OneHot)
        rows = self.a if block.empty is None else np.where(block.empty[:, None], 0, self.a)
        ops.coded_sums(block.codes, self.W.dtype.type(block.tables.scale) * rows, None, self.W)
        for panel in row_slices(len(self.W), _PANEL):
            self.W[panel] += self.share * self.centre[panel]

    def step(self, order: Array) -> None:
        """Move the centre, sweep, and compare the scores with those of the last sweep."""
        if self.started:
            self._move_centre()
        self.started = True
        problem, block = self.problem, self.problem.block
        assert isinstance(block.tables, OneHot)
        before = self.F.copy()
        ops.coded_descent(
            block.codes,
            block.empty,
            order,
            self.Y,
            self.c,
            block.tables.scale,
            self.slope,
            problem.loss,
            self.F,
            self.a,
            self.b,
            self.W,
        )
        before -= self.F
        w = problem.w.astype(self.F.dtype)
        moved, mean = w @ before**2, w @ self.F / problem.n
        spread = w @ (self.F - mean.astype(self.F.dtype)) ** 2
        # differences of rounding are none
        moved -= (_ROUNDING * np.finfo(w.dtype).eps) ** 2 * (w @ self.F**2)
        self.change = np.sqrt(np.divide(moved, spread, out=np.zeros_like(moved), where=moved > 0))

    def _move_centre(self) -> None:
        """W += share (v - centre) with v = W + momentum (W - last); centre <- v, last <- W."""
        one = self.W.dtype.type(1)
        for panel in row_slices(len(self.W), _PANEL):
            W, v, old = self.W[panel], self.last[panel], self.centre[panel]
            np.multiply(W, one + self.momentum, out=self.scratch[: len(W)])
            v *= -self.momentum
            v += self.scratch[: len(W)]
            old -= v
            old *= -self.share
            old += W
        self.W, self.centre, self.last = self.centre, self.last, self.W
        b_centre = self.b + self.momentum * (self.b - self.b_last)
        self.b_centre, self.b_last = b_centre, self.b
        self.b = b_centre + self.W.dtype.type(self.slope) * self._total()

    def _total(self) -> Array:
        """Return the sums of a."""
        return self.a.sum(axis=0, dtype=np.float64).astype(self.a.dtype)


def group_width(outputs: int) -> int:
    """Return the columns of a group of outputs: those of a cache line, or the only one."""
    return 1 if outputs == 1 else _OUTPUTS


def is_one_hot(block: Any) -> bool:
    """Return whether a block has one-hot codes, in the memory of this machine."""
    if not isinstance(block, Coded) or ops.is_device(block.codes):
        return False
    return isinstance(block.tables, OneHot)


def _zeros(shape: tuple[int, ...], kind: np.dtype[Any]) -> Array:
    """Return zeros from a cache line on: gathers from rows that straddle two take twice as long."""
    size = math.prod(shape) * kind.itemsize
    memory = np.zeros(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size].view(kind).reshape(shape)
