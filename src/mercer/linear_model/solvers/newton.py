"""Losses that need passes: Newton's method, by the matrix of each output or by conjugate gradients,
for all outputs at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from mercer.linear_model.losses import Loss, SquaredHinge
from mercer.linear_model.normal_equations import Array
from mercer.linear_model.solvers.dual import Span
from mercer.linear_model.solvers.objective import Look, Objective, Point, over
from mercer.linear_model.solvers.passes import Kept, split
from mercer.linear_model.solvers.products import back, product
from mercer.linear_model.solvers.ridge import FLAT, Choice, grid
from mercer.maps.block import Block, Coded, OneHot, matrix
from mercer.stats.packed_symmetric import PackedSymmetric
from mercer.validation.parameters import validate_positive, validate_probability

_PARTS = 0.5 ** np.arange(8)  # of a step, whose losses are summed in one pass
_ROUNDS = 4  # of such passes, each from where the last one ended
_DESCENT = 1e-4  # of what the gradient promises, which a step must keep
_BLUR = 1e-13  # of the objective: differences below it are rounding
# Gradients, as a share of the first, that are never asked to be smaller: for the minimum, and for a
# choice.
_FLOOR, _COARSE = 1e-12, 1e-4
# How far sweeps of coordinate descent go at most and at least: the change of a sweep, as a share of
# the weights.
_SWEPT = 1e-3, 1e-2
_INNER = 250  # most conjugate gradient steps for a Newton step
_PATIENCE = 2  # alphas in a row that are no better than the best


class Minimum(NamedTuple):
    """w (D, t) and b (t,), the Newton steps and passes that were made, |gradient|/|gradient at 0|
    of each output, and whether it is late.

    An output is late when its gradient is not as small as was asked for.
    """

    coef: Array
    intercept: Array
    steps: int
    passes: int
    gradient: Array
    late: Array
    weights: Array | None = None  # of rows, where w is their sum


def minimise(
    rows: Kept,
    loss: Loss,
    alpha: float,
    *,
    fit_intercept: bool = True,
    exact: bool = False,
    start: Minimum | None = None,
    tol: float = 1e-6,
    max_iter: int = 100,
) -> Minimum:
    """min over w and b of sum s loss(y (b + w'z)) + alpha/2 |w|^2 for each column y of the targets.

    The Newton step of an output solves (sum s loss'' z z' + alpha I) d = -gradient: by its matrix
    with `exact`, which takes D^2 numbers for each output, and one pass; otherwise by conjugate
    gradients, a pass for each of their steps, as far as the gradient has come. One pass more finds
    the gradient at the end of the step and the objective at eight parts of it, of which the longest
    with enough descent is taken. An output that is done takes no further part.

    Parameters
    ----------
    rows : Kept
        Blocks, targets of +1 and -1, weights.
    loss : Loss
    alpha : float
        Above 0.
    fit_intercept : bool, default=True
    exact : bool, default=False
    start : Minimum, optional
        Where to begin; 0 by default.
    tol : float, default=1e-6
        An output is done when w is within tol |w| of the minimum, which |gradient| <= tol alpha |w|
        ensures; or when its gradient is 1e-12 of that at w = 0, b = 0, where rounding begins.
    max_iter : int, default=100
        Most Newton steps. The Minimum says how far they went.

    Returns
    -------
    Minimum
    """
    validate_positive("minimise", "alpha", alpha)
    return _descend(
        Objective.of("minimise", rows, loss, float(alpha), fit_intercept),
        start,
        exact,
        tol,
        max_iter,
    )


def choose_held_out(
    rows: Kept,
    loss: Loss,
    alphas: Sequence[float] | Array | None = None,
    *,
    fit_intercept: bool = True,
    exact: bool = False,
    tol: float = 1e-3,
    max_iter: int = 100,
    share: float = 0.1,
    seed: int = 0,
) -> tuple[Choice, Minimum]:
    """The alpha whose minimum, from the other rows, has the smallest mean loss on rows that are
    held out; and that minimum.

    A row is held out by a hash of (seed, row index), whatever the blocks. Alphas, ``ridge.ALPHAS``
    in units of the mean over columns of sum s (z - mean)^2 by default, are taken from the largest
    down, each starting where the last one ended, until two in a row are no better than the best,
    alphas so large that w is next to 0 aside: those that were not tried have the score infinity.
    """
    who = "choose_held_out"
    validate_probability(who, "share", share)
    objective = Objective.of(who, _Part(rows, seed, share, held=False), loss, 1.0, fit_intercept)
    tried = grid(who, alphas, objective.scale)
    if not tried.min() > 0:
        raise ValueError(f"{who}: alphas must be above 0, got {tried.min():g}.")
    scores = np.full(len(tried), np.inf)
    last: Minimum | None = None
    best: tuple[int, Minimum] | None = None
    waited = 0
    for i in np.argsort(-tried, kind="stable"):
        last = _descend(
            replace(objective, alpha=float(tried[i])), last, exact, tol, max_iter, _COARSE
        )
        scores[i] = _mean_loss(who, _Part(rows, seed, share, held=True), loss, last)
        better = best is None or scores[i] < scores[best[0]]
        flat = tried[i] > FLAT * objective.squares.sum()
        best, waited = (
            ((int(i), last), 0) if better or best is None else (best, waited + (not flat))
        )
        if waited >= _PATIENCE:
            break
    assert best is not None
    return Choice(float(tried[best[0]]), tried, scores), best[1]


class _Part:
    """The same blocks, with weights of 0 for the rows of the other part."""

    def __init__(self, rows: Kept, seed: int, share: float, *, held: bool) -> None:
        self.rows, self.seed, self.share, self.held = rows, seed, share, held

    @property
    def kept(self) -> bool:
        return self.rows.kept

    @property
    def passes(self) -> int:
        return self.rows.passes

    def __call__(self) -> Iterator[tuple[Block, Array, Array]]:
        return split(self.rows, self.seed, self.share, held=self.held)


def _mean_loss(who: str, rows: _Part, loss: Loss, minimum: Minimum) -> float:
    """sum s loss(y f(x))/sum s, summed over outputs."""
    total, n = 0.0, 0.0
    for block, Y, w in rows():
        if w.any():
            F = minimum.intercept + product(block, minimum.coef)
            total += float(w @ loss.value(Y * F).sum(axis=1))
            n += float(w.sum())
    if n == 0:
        raise ValueError(f"{who}: no row is held out. Give more rows, or a number for alpha.")
    return total / n


def _descend(
    objective: Objective,
    start: Minimum | None,
    exact: bool,
    tol: float,
    max_iter: int,
    floor: float = _FLOOR,
) -> Minimum:
    """Newton steps until every output is done, or its steps bring nothing any more."""
    D, t = len(objective.mean), len(objective.first)
    before, norms = objective.rows.passes, np.zeros(t)
    if objective.rows.kept and not exact:
        (block, Y, w), *more = objective.rows()
        if isinstance(block, Coded) and not more and len(w) < D:
            return _descend_in_span(
                objective, Span(objective, block, Y, w), start, tol, max_iter, floor
            )
    coef = np.zeros((D, t)) if start is None else start.coef.copy()
    intercept = np.zeros(t) if start is None else start.intercept + objective.mean @ coef
    point, steps = Point(objective, coef.copy(), intercept.copy(), np.arange(t), {}), 0
    here, moved, late = point.look()[0], np.ones(t, bool), np.zeros(t, bool)
    while True:
        norms[point.outputs] = here.norms
        goal = np.maximum(
            tol * objective.alpha * np.linalg.norm(point.W, axis=0),
            floor * objective.first[point.outputs],
        )
        late[point.outputs] = here.norms > goal
        going = moved & late[point.outputs]
        if not going.any() or steps == max_iter:
            break
        if not going.all():
            point.leave(coef, intercept)
            point, here, goal = point.only(going), here.only(going), goal[going]
        reached = here.norms / objective.first[point.outputs]
        forcing = np.maximum(np.minimum(0.1, np.sqrt(reached)), 0.1 * goal / here.norms)
        d = _by_matrix(point, here) if exact else _by_products(point, here, forcing)
        moved, here = _go(point, here, d)
        steps += 1
    point.leave(coef, intercept)
    passes = objective.rows.passes - before
    relative = over(norms, objective.first)
    return Minimum(coef, intercept - objective.mean @ coef, steps, passes, relative, late)


def _descend_in_span(
    objective: Objective, span: Span, start: Minimum | None, tol: float, max_iter: int, floor: float
) -> Minimum:
    """The same steps on the weights of rows."""
    before = objective.rows.passes
    a, b = np.zeros_like(span.Y), np.zeros(span.t)
    if start is not None and start.weights is not None:
        a += start.weights
        b += start.intercept + objective.mean @ start.coef
    elif (
        isinstance(objective.loss, SquaredHinge)
        and isinstance(span.block.tables, OneHot)
        and not objective.fit_intercept
    ):
        span.sweep(a, float(np.clip(tol, *_SWEPT)))
    steps, norms, late = span.descend(a, b, tol, floor, max_iter)
    coef = span.coef(a)
    relative = over(norms, objective.first)
    return Minimum(
        coef, b - objective.mean @ coef, steps, objective.rows.passes - before, relative, late, a
    )


def _go(point: Point, here: Look, d: Array) -> tuple[Array, Look]:
    """Take the longest part of the step that keeps its promise: which outputs moved, and the look
    from there.
    """
    db = here.intercept_step(d)
    promise = np.sum(here.G * d, axis=0) + here.g * db
    blur = _BLUR * np.abs(here.value)
    scales = np.ones(len(db))
    for _ in range(_ROUNDS):
        there, values = point.look(scales * d, scales * db, _PARTS)
        enough = (
            values <= here.value + _DESCENT * np.multiply.outer(_PARTS, scales * promise) + blur
        )
        found = enough.any(axis=0)
        if found.all():
            break
        scales = np.where(found, scales, scales * _PARTS[-1] / 2)
    parts = np.where(found, _PARTS[np.argmax(enough, axis=0)], 0.0)
    point.move(d, db, scales, parts)
    if np.any(parts != 1):
        there = point.look()[0]
    gained = (there.value < here.value - blur) | (there.norms < 0.5 * here.norms)
    return found & gained, there


def _by_matrix(point: Point, here: Look) -> Array:
    """The Newton step of w by the matrix of each output, b eliminated: sum c (z - m)(z - m)' +
    alpha I, m = sum c z/sum c, c = s loss''.
    """
    objective, (D, t) = point.objective, point.W.shape
    mean, plain = objective.mean, False
    sums = [PackedSymmetric(D) for _ in range(t)]
    for _, block, C in point.curvatures():
        Z = matrix(block)
        plain = hasattr(Z, "indptr")
        rows = Z if plain else Z - mean.astype(Z.dtype)
        for total, c in zip(sums, C.T, strict=True):
            some = np.flatnonzero(c)
            roots = np.sqrt(c[some]).astype(Z.dtype)[:, None]
            if plain:
                part = rows[some].multiply(roots).tocsr()
                total.add_csr((part.T @ part).tocsr())
            else:
                total.add_gram(rows[some] * roots)
    steps, down = np.empty((D, t)), here.downhill()
    for j, total in enumerate(sums):
        A = total.toarray()
        if here.H.size:
            H, h = here.H[:, j], here.h[j]
            if plain:  # about 0 so far
                A -= (
                    np.multiply.outer(H, mean)
                    + np.multiply.outer(mean, H)
                    + h * np.multiply.outer(mean, mean)
                )
            A -= np.multiply.outer(H, over(H, h))
        steps[:, j] = _solve(A, objective.alpha, down[:, j])
    return steps


def _solve(A: Array, alpha: float, right: Array) -> Array:
    """(A + alpha I)^-1 right; where rounding has made a 0 of A negative, it counts as 0."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh

    D = len(A)
    diagonal = A.diagonal().copy()
    A.flat[:: D + 1] += alpha
    try:
        return cho_solve(cho_factor(A, check_finite=False), right, check_finite=False)
    except LinAlgError:
        A.flat[:: D + 1] = diagonal
        values, vectors = eigh(A, check_finite=False)
        return vectors @ ((vectors.T @ right) / (np.maximum(values, 0.0) + alpha))


def _by_products(point: Point, here: Look, forcing: Array) -> Array:
    """The same step by conjugate gradients, each output until its residual is `forcing` of the
    gradient: a pass for each step.

    Products are made in the dtype of the features, since a step need not be exact; the gradient, in
    float64, decides where it ends. Steps are scaled by 1/(alpha + mean curvature times sum s (z -
    mean)^2).
    """
    objective = point.objective
    residual = here.downhill()
    d = np.zeros_like(residual)
    scale = 1 / (objective.alpha + np.multiply.outer(objective.squares, here.h / objective.n))
    goal = forcing * np.linalg.norm(residual, axis=0)
    direction = scale * residual
    slope = np.sum(residual * direction, axis=0)
    kept: dict[int, Array] = {}
    for _ in range(_INNER):
        busy = np.flatnonzero(np.linalg.norm(residual, axis=0) > goal)
        if not len(busy):
            break
        P = direction[:, busy]
        image, bend = _image(point, here, P, busy, kept)
        step = slope[busy] / bend
        d[:, busy] += step * P
        residual[:, busy] -= step * image
        scaled = scale[:, busy] * residual[:, busy]
        new = np.sum(residual[:, busy] * scaled, axis=0)
        direction[:, busy] = scaled + (new / slope[busy]) * P
        slope[busy] = new
    return d


def _image(
    point: Point, here: Look, P: Array, busy: Array, kept: dict[int, Array]
) -> tuple[Array, Array]:
    """A P and P'A P for the matrices A of the busy outputs, b eliminated: one pass. P'A P is a sum
    of squares, and so never negative.
    """
    objective = point.objective
    image, total, bend = np.zeros_like(P), np.zeros(P.shape[1]), np.zeros(P.shape[1])
    center = objective.mean @ P
    curved = ((i, block, kept[i]) for i, block in _numbered(point)) if kept else point.curvatures()
    for i, block, C in curved:
        if objective.rows.kept:
            kept[i] = C
        U = product(block, P.astype(block.dtype)) - center
        R = C[:, busy] * U
        bend += np.sum(R * U, axis=0)
        total += R.sum(axis=0)
        image += back(block, R.astype(block.dtype))
    if objective.fit_intercept:
        image -= np.multiply.outer(objective.mean, total)
        image -= here.H[:, busy] * over(total, here.h[busy])
        bend -= over(total**2, here.h[busy])
    image += objective.alpha * P
    return image, np.maximum(bend, 0.0) + objective.alpha * np.sum(P**2, axis=0)


def _numbered(point: Point) -> Iterator[tuple[int, Block]]:
    """The blocks that have weights, and their numbers: one pass."""
    for i, (block, _, w) in enumerate(point.objective.rows()):
        if w.any():
            yield i, block
