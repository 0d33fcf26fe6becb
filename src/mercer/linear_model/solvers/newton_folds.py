"""Alpha of losses without a closed form, by rows that are left out: folds, or one part of the rows.

A path over alphas on the first fold narrows the grid. The other folds start from the solutions of
the folds before them, and evaluate the best alpha and those beside it that may still be better.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from mercer._typing import Array
from mercer.linear_model.losses import Loss
from mercer.linear_model.solvers.blocks import (
    CachedBlocks,
    CenteredBlocks,
    SplitBlocks,
    multiply,
)
from mercer.linear_model.solvers.coded_descent import Descent, add_up, combine_descents
from mercer.linear_model.solvers.newton_cg import (
    BlockSource,
    Minimum,
    Objective,
    Solution,
    descend,
    eigenbasis,
    with_preconditioner,
)
from mercer.linear_model.solvers.ridge import AlphaSearch, alpha_grid
from mercer.linear_model.solvers.ridge_cg import (
    LOOSE_SEARCH,
    BestScore,
    held_out_values,
    search_alphas,
)
from mercer.maps.block import Block, Coded

KEPT_ALPHAS = 3
"""Alphas for which the solution of every fold is kept: the best and those beside it."""

FEW_ROWS = 150
"""Rows up to which every second alpha above the best of the first fold is tried on all folds."""

_PATIENCE = 2  # alphas in a row that are no better than the best
_CURVATURE = 1 / 16  # p (1 - p) of rows that are predicted well: a Hessian's share of covariance
_SMALL_LOSS = 0.01  # of that of a constant: no smaller alphas than those of the grid are tried
_STANDARD_ERRORS = 2.0  # of the mean difference of losses, beyond which an alpha is not better


class FoldSearch(NamedTuple):
    """Choice of an alpha, with the models for it that were trained without held-out rows.

    Attributes
    ----------
    search : AlphaSearch
    start : Solution
        Mean of the models, from which a fit of all rows starts.
    models : list of Solution
        Models of the folds, to the tolerance of the search.
    """

    search: AlphaSearch
    start: Solution
    models: list[Solution]


def choose_alpha(
    rows: CachedBlocks,
    loss: Loss,
    fold: Array,
    alphas: Sequence[float] | Array | None = None,
    *,
    grouped: bool = False,
    fit_intercept: bool = True,
    tol: float = 6e-2,
    max_iter: int = 100,
    max_memory: int | None = None,
) -> FoldSearch:
    """Return the alpha with the smallest mean loss of rows by models trained without their fold.

    On the first fold alphas are tried from the largest down, each starting from the minimum of the
    last one, until one is worse than the best by a hundredth, or two in a row are no better than
    it, except those so large that w is next to 0. Of the default grid, ``ridge.ALPHAS`` in units of
    the mean over columns of sum s (z - mean)^2, every second alpha is tried, then those on both
    sides of the best; a smaller alpha must be better by a thousandth, and with several folds one
    that is no better ends the path. If the smallest alpha of the grid is the best and leaves more
    than a hundredth of the loss of a constant, the path goes on to a hundredth of the smallest
    eigenvalue of a Hessian, where that of the covariance is known.

    On the other folds the best alpha and its neighbours are tried (up to FEW_ROWS rows, every
    second of the larger ones too, since the first fold may be separable by chance), but for those
    whose losses on the folds before are above those of the best by two standard errors of the
    difference; likewise the neighbours of the alpha that is the best of all folds, until both are
    no better. Alphas that were not tried on all folds have the score infinity.

    Held-out rows of a label that no training row has do not count, unless a fold has no others.

    Parameters
    ----------
    rows : CachedBlocks
        Blocks, targets of +1 and -1, weights.
    loss : Loss
    fold : array of shape (n,)
        Fold of each row, from 0 on; -1 for a row that is never held out. One part of the rows that
        is held out is a single fold.
    alphas : sequence of float, optional
        Above 0.
    grouped : bool, default=False
        Whether rows of a group are alike, so that there is no standard error: all folds then try
        the same alphas.
    fit_intercept : bool, default=True
    tol, max_iter : float and int
        Of each alpha, as in `minimize_loss`.
    max_memory : int, optional
        Of `SpectralPreconditioner.of_rows`.

    Returns
    -------
    FoldSearch
    """
    problem = _Problem(rows, loss, fold, fit_intercept, max_memory)
    search, models = _Choice(problem, alphas, grouped, tol, max_iter).search()
    models = [problem.expand(model) for model in models]
    start = _combine([(1 / len(models), model) for model in models])
    if isinstance(start, Minimum):
        # where all training rows have one label there is no minimum: no start for all rows
        both = np.stack([problem.known[k].labels.all(axis=0) for k in range(problem.count)])
        share = both / np.maximum(both.sum(axis=0), 1)
        start = start._replace(
            coef=add_up(share, [model.coef for model in models]),
            intercept=add_up(share, [model.intercept for model in models]),
            weights=None if start.weights is None else start.weights * both.any(axis=0),
            preconditioner=start.preconditioner if problem.spectrum is None else problem.spectrum,
        )
    return FoldSearch(search, start, models)


_NAME = "choose_alpha"


@dataclass(frozen=True, eq=False)
class _Fold:
    """Objective of the rows outside a fold, and the rows of the fold."""

    objective: Objective
    validation: BlockSource

    def losses(self, model: Solution | None) -> tuple[Array, Array]:
        """Return the losses of held-out rows and their weights, 0 for labels not learned.

        Without a model those of the best constant of the training rows.
        """
        objective, loss = self.objective, self.objective.loss
        negative, positive = objective.labels
        constant = np.zeros_like(objective.target_mean)
        if model is None and objective.fit_intercept:
            constant = loss.constant(objective.target_mean)

        def values(block: Block, Y: Array) -> Array:
            known = np.all(np.where(Y > 0, positive, negative), axis=1)
            if isinstance(model, Descent) and isinstance(block, Coded):
                scores = model.scores(block).astype(np.float64)
            elif model is not None:
                scores = multiply(block, model.coef) + model.intercept
            else:
                scores = np.tile(constant, (len(Y), 1))
            return np.column_stack([loss.row_values(Y, scores), known])

        (found, known), w = (part.T for part in held_out_values(_NAME, self.validation(), values))
        return found, w * known if known.any() else w

    def score(self, model: Solution) -> float:
        """Return the mean loss of held-out rows."""
        values, w = self.losses(model)
        return float(w @ values) / float(w.sum())


class _Problem:
    """Rows of all folds, in the basis of one spectrum where they are dense and in memory."""

    def __init__(
        self,
        rows: CachedBlocks,
        loss: Loss,
        fold: Array,
        fit_intercept: bool,
        max_memory: int | None,
    ) -> None:
        self.rows, self.fold, self.count = rows, fold, int(fold.max()) + 1
        first = Objective.of(_NAME, SplitBlocks(rows, fold != 0), loss, 1.0, fit_intercept)
        first = with_preconditioner(first, max_memory=max_memory)
        self.spectrum, self.basis = first.preconditioner, eigenbasis(first)
        self.origin, self.copies = np.zeros_like(first.mean), None
        if self.basis is not None:
            self.copies = CenteredBlocks.of(rows, first.mean, basis=self.basis)
        if self.copies is None or self.spectrum is None:
            self.basis, self.known = None, {0: first}
            self.template = first
            return
        self.origin, self.known = first.mean, {}
        self.template = replace(first, preconditioner=self.spectrum.rotated)
        # copies leave out blocks without weights
        ends = np.cumsum([len(w) for *_, w in rows()])
        parts = zip(np.split(fold, ends[:-1]), rows(), strict=True)
        self.fold = np.concatenate([part for part, (*_, w) in parts if w.any()])

    @property
    def smallest(self) -> float:
        """Smallest eigenvalue of the covariance above rounding; infinite where it is not known."""
        spectrum = None if self.basis is None else self.spectrum
        values = np.empty(0) if spectrum is None else spectrum.values
        least = len(values) * np.finfo(np.float64).eps * np.max(values, initial=0.0)
        return float(np.min(values, initial=np.inf, where=values > least))

    @contextmanager
    def without(self, k: int) -> Iterator[_Fold]:
        """Yield the objective of the rows outside a fold, and the rows of the fold."""
        held_out = self.fold == k
        if self.copies is None:
            others = SplitBlocks(self.rows, ~held_out)
            yield _Fold(self._objective(k, others), SplitBlocks(self.rows, held_out))
            return
        with self.copies.parted(held_out) as (training, validation):
            yield _Fold(self._objective(k, training), validation)

    def _objective(self, k: int, rows: BlockSource) -> Objective:
        """Return the objective of rows, whose sums are computed at the first call."""
        if k not in self.known:
            first = self.template
            found = Objective.of(_NAME, rows, first.loss, first.alpha, first.fit_intercept)
            self.known[k] = replace(found, preconditioner=first.preconditioner)
        self.known[k] = replace(self.known[k], rows=rows)
        return self.known[k]

    def expand(self, model: Solution) -> Solution:
        """Return a model of the rows of this problem as one of the features."""
        if self.basis is None or isinstance(model, Descent):
            return model
        coef = self.basis @ model.coef
        return model._replace(coef=coef, intercept=model.intercept - self.origin @ coef)


class _Choice:
    """Losses of alphas on folds; alphas are numbered from the largest down."""

    def __init__(
        self,
        problem: _Problem,
        alphas: Sequence[float] | Array | None,
        grouped: bool,
        tol: float,
        max_iter: int,
    ) -> None:
        self.problem, self.grouped, self.tol, self.max_iter = problem, grouped, tol, max_iter
        self.default = alphas is None
        self.few = self.default and problem.count > 1 and len(problem.fold) <= FEW_ROWS
        self.losses: dict[int, dict[int, Array]] = {}  # by alpha and fold
        self.weights: dict[int, Array] = {}  # of held-out rows, by fold
        self.minima: dict[int, dict[int, Solution]] = {}  # by alpha and fold
        self.constants: dict[int, float] = {}  # losses of held-out rows by a constant, by fold
        with problem.without(0) as fold:
            self.scale, self.squares = fold.objective.scale, float(fold.objective.squares.sum())
            self.smallest = _CURVATURE * fold.objective.n * problem.smallest
        self.alphas = alpha_grid(_NAME, alphas, self.scale)
        self.order = np.argsort(-self.alphas, kind="stable")

    def search(self) -> tuple[AlphaSearch, list[Solution]]:
        """Return the best alpha and the model of each fold for it."""
        count = self.problem.count
        best = self._search_folds(self._search_path(self.alphas))
        known = len(self.alphas)
        if self.default and best == known - 1 and self._explains_little(best):
            self.alphas = alpha_grid(_NAME, None, self.scale, self.smallest)
            self.order = np.argsort(-self.alphas, kind="stable")
            best = self._search_folds(
                self._search_path(self.alphas[: len(self.alphas) - known + 1])
            )
        if best and best == len(self.alphas) - 1:  # whether the error still falls there
            for k in range(count):
                self._try(k, [best - 1])
        return self._result(best), self._models(best)

    def _search_folds(self, best: int) -> int:
        """Try an alpha and its neighbours on all folds, until both of the best are no better."""
        count = self.problem.count
        wanted = [best, best + 1, best - 1]
        if self.few:  # which a fold separates by chance
            wanted += range(best % 2, best, 2)
        while count > 1 and wanted:
            for k in range(count):
                tried = [r for r in dict.fromkeys(wanted) if self.few or self._may_win(r, best)]
                self._try(k, [r for r in tried if 0 <= r < len(self.alphas)])
            best = self._best()
            # neighbours of the best only: each has the coefficients of all folds
            self.minima = {r: self.minima[r] for r in self.minima if abs(r - best) <= 1}
            wanted = [
                r
                for r in (best + 1, best - 1)
                if self._may_win(r, best) and len(self.losses.get(r, ())) < count
            ]
        return best

    def _alpha(self, r: int) -> float:
        return float(self.alphas[self.order[r]])

    def _solve(
        self,
        fold: _Fold,
        r: int,
        start: Solution | None,
        is_worse: Callable[[Descent], bool] | None = None,
    ) -> Solution:
        objective = replace(fold.objective, alpha=self._alpha(r))
        return descend(objective, start, self.tol, self.max_iter, is_worse)

    def _record(self, fold: _Fold, k: int, r: int, minimum: Solution) -> float:
        """Keep the losses of held-out rows; return their mean."""
        values, w = fold.losses(minimum)
        self.losses.setdefault(r, {})[k] = values
        if k not in self.constants:
            self.constants[k], self.weights[k] = float(w @ fold.losses(None)[0]), w
        return float(w @ values) / float(w.sum())

    def _explains_little(self, r: int) -> bool:
        """Return whether an alpha leaves much of the loss of a constant on the first fold."""
        loss = float(self.weights[0] @ self.losses[r][0])
        return loss > _SMALL_LOSS * self.constants[0]

    def _search_path(self, alphas: Array) -> int:
        """Try alphas on the first fold, from the largest down; return the number of the best."""
        numbers = {self._alpha(r): r for r in reversed(range(len(self.alphas)))}
        recent: dict[int, Solution] = {}
        with self.problem.without(0) as fold:
            score = BestScore(fold.score)

            def solve(alpha: float, start: Solution | None) -> Solution:
                r = numbers[alpha]
                minimum = self._solve(fold, r, start, score.is_worse if self.default else None)
                score.least = min(score.least, self._record(fold, 0, r, minimum))
                while len(recent) >= KEPT_ALPHAS - 1:
                    recent.pop(next(iter(recent)))
                recent[r] = minimum
                return minimum

            def mean_loss(_: Solution) -> float:
                return self._mean(next(reversed(recent)), [0])

            how: Any = LOOSE_SEARCH if self.default else {"worse": LOOSE_SEARCH["worse"]}
            # the neighbours of the best, at half a decade, are tried on all folds
            patience = _PATIENCE - (self.default and self.problem.count > 1)
            search, minimum = search_alphas(
                _NAME, alphas, self.squares, solve, mean_loss, patience, **how
            )
        best = numbers[search.alpha]
        self.minima = {r: {0: known} for r, known in {**recent, best: minimum}.items()}
        return best

    def _try(self, k: int, wanted: Sequence[int]) -> None:
        """Solve for alphas that were not tried on a fold."""
        missing = [r for r in wanted if k not in self.losses.get(r, {})]
        if not missing:
            return
        with self.problem.without(k) as fold:
            score = BestScore(fold.score)
            score.least = min(
                (self._mean(r, [k]) for r in self.losses if k in self.losses[r]), default=np.inf
            )
            for r in missing:
                is_worse = score.is_worse if self.default and not self.few else None
                minimum = self._solve(fold, r, self._start(k, r), is_worse)
                score.least = min(score.least, self._record(fold, k, r, minimum))
                self.minima.setdefault(r, {})[k] = minimum

    def _start(self, k: int, r: int) -> Solution | None:
        """Return the mean of the other folds' minima, moved as the fold's minimum beside it is.

        That minimum where no other fold has one; None where nothing is known.
        """
        others = self.minima.get(r, {})
        beside = [s for s in (r - 1, r + 1) if k in self.minima.get(s, {})]
        if not beside:
            share = 1 / max(len(others), 1)
            return _combine([(share, one) for one in others.values()]) if others else None
        near = self.minima[beside[0]]
        common = [j for j in others if j in near]
        if not common or isinstance(near[k], Descent) or near[k].weights is not None:
            return near[k]
        share = 1 / len(common)
        moves = [(share, others[j]) for j in common] + [(-share, near[j]) for j in common]
        return _combine([(1.0, near[k]), *moves])

    def _mean(self, r: int, folds: Sequence[int]) -> float:
        """Return the mean loss on some folds."""
        total = sum(float(self.weights[k] @ self.losses[r][k]) for k in folds)
        return total / sum(float(self.weights[k].sum()) for k in folds)

    def _may_win(self, r: int, best: int) -> bool:
        """Return whether an alpha may be better than the best, by folds where both are known."""
        if not 0 <= r < len(self.alphas):
            return False
        known = self.losses.get(r, {})
        folds = [k for k in known if k in self.losses[best]]
        if r == best or not folds or self.grouped:
            return True
        w = np.concatenate([self.weights[k] for k in folds])
        difference = np.concatenate([known[k] - self.losses[best][k] for k in folds])
        mean = float(w @ difference) / float(w.sum())
        error = float(np.linalg.norm(w * (difference - mean))) / float(w.sum())
        return mean <= _STANDARD_ERRORS * error

    def _best(self) -> int:
        """Return the number of the alpha with the least loss of those tried on all folds.

        A smaller alpha of the default grid must be better by more than a loose solution decides.
        """
        folds = range(self.problem.count)
        least = 1 - self.default * LOOSE_SEARCH["indistinct"]
        best, best_score = -1, np.inf
        for r in sorted(r for r in self.losses if len(self.losses[r]) == len(folds)):
            score = self._mean(r, folds)
            if best < 0 or score < least * best_score:
                best, best_score = r, score
        return best

    def _models(self, best: int) -> list[Solution]:
        """Return the model of each fold; one that ended early is solved to the end."""
        for k in range(self.problem.count):
            known = self.minima[best].get(k)
            if known is None or (isinstance(known, Descent) and known.ended):
                with self.problem.without(k) as fold:
                    start = self._start(k, best) if known is None else known
                    self.minima[best][k] = self._solve(fold, best, start)
        return [self.minima[best][k] for k in range(self.problem.count)]

    def _result(self, best: int) -> AlphaSearch:
        """Return the scores of the alphas that were tried on all folds."""
        folds = range(self.problem.count)
        scores = np.full(len(self.alphas), np.inf)
        for r, known in self.losses.items():
            if len(known) == len(folds):
                scores[self.order[r]] = self._mean(r, folds)
        method = "kfold" if len(folds) > 1 else "held-out"
        baseline = sum(self.constants.values()) / sum(float(self.weights[k].sum()) for k in folds)
        return AlphaSearch(self._alpha(best), self.alphas, scores, method, baseline)


def _combine(terms: Sequence[tuple[float, Solution]]) -> Solution:
    """Return the sum of factors times minima, with weights of rows where all have them."""
    factors, minima = zip(*terms, strict=True)
    descents = [one for one in minima if isinstance(one, Descent)]
    if len(descents) == len(minima):
        return combine_descents(factors, descents)
    weights = [one.weights for one in minima]
    newton = next(one for one in minima if isinstance(one, Minimum))
    return newton._replace(
        coef=add_up(factors, [one.coef for one in minima]),
        intercept=add_up(factors, [one.intercept for one in minima]),
        weights=None if any(one is None for one in weights) else add_up(factors, weights),
    )
