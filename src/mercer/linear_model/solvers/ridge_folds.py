"""Alpha of ridge regression by rows that are left out: folds, or one part of the rows.

The normal equations of a fold are subtracted from the sum, so that no row is read again. Few
features are decomposed; for more, a Cholesky factor for one alpha gives the errors of those nearby.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from mercer._typing import Array
from mercer.linear_model.normal_equations import NormalEquations
from mercer.linear_model.solvers.pca import PrincipalComponents
from mercer.linear_model.solvers.ridge import (
    ALPHAS,
    SMALLEST_RELATIVE_ALPHA,
    AlphaSearch,
    CholeskyFactor,
    RidgeDecomposition,
    alpha_grid,
    best_of,
    solve_cholesky,
)
from mercer.parallel.device import device_of

DECOMPOSED_FEATURES = 256
"""Features up to which the scatter of a fold is decomposed, for all alphas of the default grid; of
more, so many are decomposed for a first guess."""

LISTED_FEATURES = 1024
"""Features up to which it is decomposed for a list of alphas; beyond, each has a factor."""

SEARCH_FACTORS = 3
"""Cholesky factors that take about as long as a search over the default grid, in each fold."""

_REACH = 2  # positions in the grid on both sides of a factor, a decade
_STEPS = 8  # of a Krylov space, at most
_SCORE_CHANGE = 3e-4  # share of an error by which it changes in the last step
_FEWEST_FEATURES = 32  # for each output, below which factors are cheaper than a Krylov space
_RATIO = ALPHAS[1] / ALPHAS[0]

Splits = Callable[[int], Iterable[tuple[NormalEquations, NormalEquations]]]
"""splits(every) returns (held out, training) of each fold, for every so many of the features; the
scatter of the training rows may be overwritten."""


def choose_kfold(
    folds: Sequence[NormalEquations],
    alphas: Sequence[float] | Array | None = None,
    components: PrincipalComponents | None = None,
    *,
    total: NormalEquations | None = None,
    scale: float | None = None,
    decompose: bool | None = None,
) -> AlphaSearch:
    """Return the alpha with the smallest cross-validated squared error, summed over outputs.

    A model is trained on the sum of all folds less one, whose normal equations are subtracted, and
    evaluated on that fold's: no second pass over the rows. The scatter of one fold's training rows
    is in memory at a time.

    Parameters
    ----------
    folds : sequence of NormalEquations
        At least two, each with rows.
    alphas : sequence of float, optional
        The default grid, extended where its smallest alpha is the best.
    components : PrincipalComponents, optional
    total : NormalEquations, optional
        Sum of the folds; computed by default.
    scale : float, optional
        Unit of the default grid; the scale of the sum of the folds by default.
    decompose : bool, optional
        Whether folds are decomposed; by default up to DECOMPOSED_FEATURES features, or
        LISTED_FEATURES for a list of alphas.
    """
    if len(folds) < 2:
        raise ValueError(f"choose_kfold needs at least 2 folds that have rows, got {len(folds)}.")
    whole = sum(folds[1:], start=folds[0]) if total is None else total

    def splits(every: int) -> Iterable[tuple[NormalEquations, NormalEquations]]:
        some = whole.every(every)
        for fold in folds:
            part = fold.every(every)
            yield part, some - part

    unit = whole.scale if scale is None else scale
    result = _search("choose_kfold", splits, whole, alphas, components, unit, decompose)
    return result._replace(method="kfold", baseline=whole.variance)


def choose_fold(
    held_out: NormalEquations,
    training: NormalEquations,
    alphas: Sequence[float] | Array | None = None,
    components: PrincipalComponents | None = None,
    *,
    scale: float | None = None,
    decompose: bool | None = None,
) -> AlphaSearch:
    """Return the alpha with the smallest squared error on held-out rows, summed over outputs.

    Parameters
    ----------
    held_out, training : NormalEquations
        Of disjoint rows.
    alphas, components, scale, decompose
        As in `choose_kfold`.
    """

    def splits(every: int) -> Iterable[tuple[NormalEquations, NormalEquations]]:
        part = training.every(every)
        yield held_out.every(every), replace(part, scatter=part.scatter.copy())

    unit = (held_out + training).scale if scale is None else scale
    result = _search("choose_fold", splits, held_out, alphas, components, unit, decompose)
    intercept = training.target_mean
    constant = held_out.error(np.zeros_like(training.cross), intercept).sum() / held_out.n
    return result._replace(method="held-out", baseline=float(constant))


def _search(
    name: str,
    splits: Splits,
    evaluated: NormalEquations,
    alphas: Sequence[float] | Array | None,
    components: PrincipalComponents | None,
    unit: float,
    decompose: bool | None,
) -> AlphaSearch:
    """Return the best alpha; scores are errors by row of `evaluated`, whose scatter is not read.

    Without a list of alphas, the best one for every 4^k-th feature is where the search for every
    4^(k-1)-th begins, from a full decomposition of at most DECOMPOSED_FEATURES features on. These
    first guesses are those of the first fold.
    """
    D, n = len(evaluated.mean), evaluated.n
    if decompose is None:
        most = DECOMPOSED_FEATURES if alphas is None else LISTED_FEATURES
        decompose = most >= D or components is not None
    if decompose:
        return _decomposed(name, splits(1), n, alphas, components, unit)
    if alphas is not None:
        listed = alpha_grid(name, alphas)
        errors = sum((_factored_errors(*split, listed) for split in splits(1)), np.zeros(()))
        return best_of(listed, errors / n)
    every = 4 ** max(1, math.ceil(math.log(D / DECOMPOSED_FEATURES, 4)))
    start = None
    while every > 1:
        first = next(iter(splits(every)))
        scale = first[0].scale + first[1].scale  # about that of all rows
        if start is None:
            guess = _decomposed(name, [first], n, None, None, scale)
            start = round(math.log(guess.alpha / scale / ALPHAS[0], _RATIO))
        else:
            start = _best_position(
                _descend(lambda each: [next(iter(splits(each)))], every, scale, start)
            )
        every //= 4
    assert start is not None
    tried = _descend(splits, 1, unit, start)
    positions = np.arange(min(0, *tried), len(ALPHAS))
    scores = np.array([tried.get(int(position), np.inf) for position in positions])
    return best_of(_alphas(positions, unit), scores / n)


def _decomposed(
    name: str,
    splits: Iterable[tuple[NormalEquations, NormalEquations]],
    n: float,
    alphas: Sequence[float] | Array | None,
    components: PrincipalComponents | None,
    unit: float,
) -> AlphaSearch:
    """Return the best alpha by one decomposition of each fold's training rows.

    Of the default grid, errors are computed down to SMALLEST_RELATIVE_ALPHA, and those of alphas
    that no fold's smallest eigenvalue asks for are left out.
    """
    tried = alpha_grid(name, alphas, unit, 0.0)
    errors, smallest = np.zeros(len(tried)), np.inf
    for held_out, training in splits:
        decomposition = RidgeDecomposition.of(training, components, overwrite=True)
        smallest = min(smallest, decomposition.smallest)
        for i, alpha in enumerate(tried):
            coef = decomposition.coef(alpha)
            errors[i] += held_out.error(coef, training.intercept(coef)).sum()
        del decomposition, training  # before those of the next fold
    count = len(alpha_grid(name, alphas, unit, smallest))
    return best_of(tried[-count:], errors[-count:] / n)


def _factored_errors(held_out: NormalEquations, training: NormalEquations, alphas: Array) -> Array:
    """Return the error for each alpha, with a Cholesky factor for each; infinite where none is."""
    errors = np.full(len(alphas), np.inf)
    for i, alpha in enumerate(alphas):
        coef = solve_cholesky(training.scatter.copy(), alpha, training.cross)
        if coef is not None:
            errors[i] = held_out.error(coef, training.intercept(coef)).sum()
    return errors


def _alphas(positions: Array, unit: float) -> Array:
    return ALPHAS[0] * _RATIO**positions * unit


def _best_position(tried: dict[int, float]) -> int:
    """Return the position of the smallest score, the larger one of two."""
    least = min(tried.values())
    return max(position for position, score in tried.items() if score == least)


def _descend(splits: Splits, every: int, unit: float, start: int) -> dict[int, float]:
    """Return the errors at the positions of the grid that were tried, to a best between others.

    Factors are computed at `start`, then at the best position until the errors on both of its
    sides are known. Positions reach beyond the grid down to SMALLEST_RELATIVE_ALPHA; the error is
    infinite where the matrix is singular to rounding.
    """
    fewest = math.floor(math.log(SMALLEST_RELATIVE_ALPHA / ALPHAS[0], _RATIO))
    tried: dict[int, float] = {}
    factored: set[int] = set()
    position: int | None = min(max(start, fewest), len(ALPHAS) - 1)
    while position is not None:
        factored.add(position)
        near = np.arange(max(position - _REACH, fewest), min(position + _REACH + 1, len(ALPHAS)))
        alphas, own = _alphas(near, unit), position - int(near[0])
        parts = (_errors_near(*split, alphas, own) for split in splits(every))
        errors = sum(parts, np.zeros(len(near)))
        known = {
            int(other): float(error)
            for other, error in zip(near, errors, strict=True)
            if not np.isnan(error) and other not in factored - {position}
        }
        tried |= known
        position = _next_position(tried, factored, fewest)
    return tried


def _next_position(tried: dict[int, float], factored: set[int], fewest: int) -> int | None:
    """Return where to compute the next factor; None where the best is between others."""
    best = _best_position(tried)
    if np.isinf(tried[best]):
        return best + 2 * _REACH if best + 2 * _REACH < len(ALPHAS) else None
    for other in (best - 1, best + 1):
        if fewest <= other < len(ALPHAS) and other not in tried:
            return other if best in factored else best
    return None


def _errors_near(
    held_out: NormalEquations, training: NormalEquations, alphas: Array, own: int
) -> Array:
    """Return the errors for alphas from the Cholesky factor for alphas[own]; NaN where unknown.

    With A = scatter + alpha I, the solution of (A + d I) c = cross is c = A^-1 u with
    (I + d A^-1) u = cross. Let W be an orthonormal basis of cross, A^-1 cross, A^-2 cross, ..., and
    P = A^-1 W: then u is about W z with (I + d W'P) z = W'cross, c about P z, and the error is that
    of coefficients z on features P'z. Blocks are added until the smallest error and those beside it
    change by no more than a share of _SCORE_CHANGE; an error that still does is not known.
    """
    D, t = training.cross.shape
    on_host = device_of(training.scatter) is None
    steps = _STEPS if _FEWEST_FEATURES * t <= D and on_host else 0
    errors = np.full(len(alphas), np.nan)
    if not steps:
        errors[own] = _factored_errors(held_out, training, alphas[own : own + 1])[0]
        return errors
    factor = CholeskyFactor.of(training.scatter, alphas[own])
    if factor is None:
        errors[own] = np.inf
        return errors
    new = np.linalg.qr(training.cross)[0]
    W, P, image = new, np.empty((D, 0)), np.empty((D, 0))
    for step in range(steps):
        solved = factor.solve(new)
        P = np.concatenate([P, solved], axis=1)
        image = np.concatenate([image, held_out.scatter @ solved], axis=1)
        reduced = replace(
            held_out, mean=held_out.mean @ P, scatter=P.T @ image, cross=P.T @ held_out.cross
        )
        last, errors = errors, _reduced_errors(reduced, training, W, P, alphas - alphas[own])
        changed = ~(np.abs(errors - last) <= _SCORE_CHANGE * errors)
        best = int(np.nanargmin(errors))
        if not changed[max(min(own, best) - 1, 0) : max(own, best) + 2].any():
            break
        if step + 1 < steps:
            new = _orthonormal(solved, W)
            W = np.concatenate([W, new], axis=1)
    changed[own] = False
    errors[changed] = np.nan
    return errors


def _reduced_errors(
    reduced: NormalEquations, training: NormalEquations, W: Array, P: Array, shifts: Array
) -> Array:
    """Return the errors of z = (I + d W'P)^-1 W'cross; NaN where rounding makes it indefinite."""
    from scipy.linalg import lapack

    T, right = W.T @ P, W.T @ training.cross
    T = (T + T.T) / 2
    along = training.mean @ P
    errors = np.empty(len(shifts))
    for i, shift in enumerate(shifts):
        matrix = shift * T
        matrix.flat[:: len(T) + 1] += 1.0
        _, z, failed = lapack.dposv(matrix, right)
        error = reduced.error(z, training.target_mean - along @ z).sum()
        errors[i] = np.nan if failed else error
    return errors


def _orthonormal(block: Array, W: Array) -> Array:
    """Return an orthonormal basis of a block less its projection on W."""
    norms = np.linalg.norm(block, axis=0)
    rest = block / np.where(norms > 0, norms, 1.0)
    for _ in range(2):  # what is left of a dependent column is rounding, along W too
        rest -= W @ (W.T @ rest)
        rest = np.linalg.qr(rest)[0]
    return rest
