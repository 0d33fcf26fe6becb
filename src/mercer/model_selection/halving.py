"""Successive halving of candidates on ever more rows, and cross-validation of the finalists."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from mercer._typing import Array
from mercer.evaluation.kernel_error import gram_error
from mercer.kernels import Kernel
from mercer.linear_model.metric import fitted_metrics
from mercer.maps._transform import KernelOnFeatures
from mercer.maps.base import Map
from mercer.maps.compose import Composed
from mercer.model_selection.candidates import Candidate, MapCandidate, ModelOptions, candidates
from mercer.model_selection.models import (
    CONSTANT,
    ConstantCandidate,
    ExactCandidate,
    boosting_candidate,
)
from mercer.model_selection.sample import Sample
from mercer.model_selection.schedule import Budget, Schedule, make_schedule, model_memory
from mercer.model_selection.scoring import Scoring, find_scoring
from mercer.parallel.threads import one_blas_thread

NOISE = 1.0  # standard errors of a difference, below which two models rank equal
FINAL = "the final"
_PER_FAMILY = 2  # bandwidths of one kernel that are kept
_PAIRS = 5000
_PAIR_ROWS = 500
_EXACT = 2  # kernels that are also fitted exactly
_EXACT_ROWS = 2000  # at most
_EXPENSIVE = 1.0  # estimated seconds: such models run after all others
_ROUNDS_SHARE = 0.5  # of the time that a pass has; the rest is for the final
_PROBING_SHARE = 0.25  # of that time, at most, is spent on probing maps
_SMALLER = 0.7  # ratio of estimates, below which the difference of two timings is more than noise
_GROWING = 2  # finalists that are tried with more features


class Clock:
    """Seconds since the start, and a limit. It only stops a search: no score depends on it."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.start = seconds, time.perf_counter()

    def spent(self) -> float:
        """Return the seconds since the start."""
        return time.perf_counter() - self.start

    def left(self) -> float:
        """Return the seconds left of the limit."""
        return self.seconds - self.spent()


@dataclass(frozen=True, eq=False)
class Result:
    """Score of a fitted candidate on rows that it was not trained on.

    Attributes
    ----------
    candidate : Candidate
    size, rows : int
        Features at most, and training rows.
    row_scores : array
        For each scored row, whether the label was right, 1 - (y - f)^2/var(y), or as another
        ``Scoring`` has it. The mean is the score.
    fit_seconds, predict_seconds : float
    feature_map : Map or None
        Fitted, of the last fold.
    resolution : float
        The least difference of two models on a row: 1 for labels, 0 for numbers.
    grown : bool
        Whether it has more features than all finalists begin with.
    groups : array or None
        Numbers of the groups of the rows, which are independent of each other.
    """

    candidate: Candidate
    size: int
    rows: int
    row_scores: Array
    fit_seconds: float = 0.0
    predict_seconds: float = 0.0
    feature_map: Map | None = None
    resolution: float = 1.0
    grown: bool = False
    groups: Array | None = None

    @property
    def label(self) -> str:
        """Name, with about the number of features it has grown to."""
        return f"{self.candidate.name} x{self.size}" if self.grown else self.candidate.name

    @property
    def score(self) -> float:
        """Mean of the scores of rows: accuracy or R^2 by default."""
        return float(self.row_scores.mean())

    @property
    def spread(self) -> float:
        """Standard error of the score."""
        return standard_error(self.row_scores, self.groups)

    @property
    def work(self) -> float:
        """Work of a row at this size."""
        return self.candidate.work(self.size)

    def difference_to(self, other: Result) -> tuple[float, float]:
        """Return the difference of two scores on the same rows, and the standard error of it.

        The resolution of one row is added to the standard error: a single label that only one of
        two models has right is no evidence yet.
        """
        difference = self.row_scores - other.row_scores
        spread = standard_error(difference, self.groups)
        return float(difference.mean()), float(np.hypot(spread, self.resolution / len(difference)))

    def lead_over(self, other: Result) -> float:
        """Return the difference of two scores on the same rows, in standard errors of it."""
        mean, spread = self.difference_to(other)
        return mean / spread if spread > 0 else float(np.sign(mean)) * np.inf if mean else 0.0


def standard_error(values: Array, groups: Array | None) -> float:
    """Return the standard error of a mean of independent rows, or of independent groups of rows."""
    deviations = values - values.mean()
    if groups is not None:
        deviations = np.bincount(groups, deviations)
    return float(np.sqrt(np.sum(deviations**2)) / len(values))


def extrapolate_seconds(timings: list[tuple[float, float]], estimate: float) -> float:
    """Return the seconds of a fit with this estimate, from (estimate, seconds) of fits before it.

    In proportion to the last one, or on the line through it and the last one of a smaller estimate,
    which has the part of the time that does not grow; never less than the last one for a larger
    fit.
    """
    last, seconds = timings[-1]
    before = [timing for timing in timings if timing[0] < _SMALLER * last]
    if not before or estimate <= last:
        return seconds * estimate / max(last, 1e-9)
    slope = (seconds - before[-1][1]) / (last - before[-1][0])
    return seconds + max(slope, 0.0) * (estimate - last)


@dataclass(eq=False)
class SuccessiveHalving:
    """Search over candidates.

    A pass runs all rounds and the final. Results are kept, so that a later pass, with time that was
    left or that ``run`` was given again, computes only what is missing: a search that is continued
    has the results of one that had the time from its start.

    Attributes
    ----------
    sample : Sample
    kernels : "auto", list or None
        As in ``select``: maps that are not probed yet.
    limit : int
        Bytes.
    seed : int
    clock : Clock
    budget : Budget
    tell : callable
        tell(stage, name) is called before each model is fitted.
    scoring_name : str or None
    last : dict of Result
        Of the last round of each candidate, by name.
    rounds : dict of int
        Rounds of each candidate, by name.
    final : list of Result
        Of the final cross-validation.
    skipped : dict of dict
        Estimated seconds of candidates there was no time for, by name, by stage.
    refused : dict of str
        Reasons, by name.
    notes : dict of str
        Names, by the warning that their models issued.
    """

    sample: Sample
    kernels: Any
    limit: int
    seed: int
    clock: Clock
    budget: Budget = field(default_factory=Budget)
    tell: Callable[[str, str], None] = lambda stage, name: None
    scoring_name: str | None = None
    last: dict[str, Result] = field(default_factory=dict)
    rounds: dict[str, int] = field(default_factory=dict)
    final: list[Result] = field(default_factory=list)
    skipped: dict[str, dict[str, float]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0  # of runs before the last one

    def __post_init__(self) -> None:
        self._maps: dict[str, MapCandidate] = {}
        self._results: dict[tuple[str, str, int], Result] = {}  # by name, stage and size
        self._folds: dict[tuple[str, str, int], list[_Fold]] = {}
        # (estimate, seconds) of the last fit, by name, by stage and size in the order of fits
        self._timings: dict[str, dict[tuple[str, int], tuple[float, float]]] = {}
        self._is_first = True  # of all passes

    def __repr__(self) -> str:
        return (
            f"SuccessiveHalving({self.sample.rows:,} rows x {self.sample.columns:,} columns, "
            f"{len(self.last)} models in rounds, {len(self.final)} in the final)"
        )

    @cached_property
    def scoring(self) -> Scoring:
        """Score of all models."""
        classes = 0 if self.sample.numeric else len(self.sample.classes)
        return find_scoring(self.scoring_name, numeric=self.sample.numeric, classes=classes)

    @cached_property
    def options(self) -> ModelOptions:
        """Settings of all models."""
        sample, memory = self.sample, model_memory(self.limit)
        return ModelOptions(
            sample.numeric, sample.outputs, sample.columns, memory, self.seed, self.scoring
        )

    @property
    def schedule(self) -> Schedule:
        """Rows and sizes of all rounds."""
        return make_schedule(self.sample.rows, len(self._maps), self.limit)

    def run(self) -> None:
        """Run passes while models are skipped, time is left and the last pass has got further.

        The first one skips what it may not complete; the others begin whatever one fit is expected
        to be in time for. Exact kernels come last.
        """
        self._run_pass()
        done = -1
        while self.skipped and self.clock.left() > 0 and self._count_folds() > done:
            self._is_first, done = False, self._count_folds()
            self._run_pass()
        self._evaluate_exact()

    def resume(self, seconds: float) -> None:
        """Run for so many seconds more."""
        self.seconds += self.clock.spent()
        self.clock = Clock(seconds)
        self.run()

    def _count_folds(self) -> int:
        return sum(map(len, self._folds.values()))

    def _run_pass(self) -> None:
        """Run all rounds, then the final cross-validation; results there are already are reused."""
        self.last, self.rounds, self.final, self.skipped = {}, {}, [], {}
        self._end = self.clock.left() * (1 - _ROUNDS_SHARE)  # seconds left when rounds are over
        self._probe_maps()
        trees = boosting_candidate(self.options, self.budget.boosting_rounds, self.refused)
        rows, size = self.schedule.rounds[0]

        def is_late(candidate: Candidate) -> bool:
            seconds = candidate.estimate_seconds(size, rows, self.options)
            return candidate.kind != "linear" and seconds > _EXPENSIVE

        alive = sorted(self._maps.values(), key=is_late)
        self._run_final(self._run_rounds(alive, trees), trees)

    def _probe_maps(self) -> None:
        """Add candidates of the kernels that were not probed yet, while there is time."""
        if self.kernels is None:
            return
        until = self.clock.left() * (1 - _PROBING_SHARE)
        found, refused, late = candidates(
            self.sample.X[: self.sample.rows // 2],
            self.kernels,
            self.seed,
            domain=self.sample.domain,
            over=lambda: self.clock.left() <= max(until, 0.0),
        )
        self._maps |= {candidate.name: candidate for candidate in found}
        self.refused |= refused
        self.kernels = late or None
        if late:
            names = [item if isinstance(item, str) else repr(item) for item in late]
            self.skipped["round 1"] = dict.fromkeys(names, 0.0)

    def _run_rounds(self, alive: list[Any], trees: Candidate | None) -> list[Result]:
        """Return the results that reach the final, best first, linear among them.

        Linear and trees come first in each round; trees are in all rounds that they have time for.
        """
        ranked: list[Result] = []
        for i, (rows, size) in enumerate(self.schedule.rounds):
            results: list[Result] = []
            for candidate in _with_trees(alive, trees):
                must_run = not results and i == 0 and candidate is not trees  # linear
                result = self._evaluate_round(candidate, size, rows, i + 1, must_run=must_run)
                if result is not None:
                    self.last[candidate.name], self.rounds[candidate.name] = result, i + 1
                    if candidate is not trees:
                        results.append(result)
            before = [result for result in ranked if self.rounds[result.candidate.name] <= i]
            ranked = [*rank(results), *before]
            if not ranked:
                raise ValueError(self.refused.get("linear", "select: no model takes these rows."))
            ranked = keep_best(ranked, self.schedule.keep[i])
            alive = [result.candidate for result in ranked]
        return ranked

    def _run_final(self, ranked: list[Result], trees: Candidate | None) -> None:
        """Cross-validate the finalists, linear first and always, then trees, then maps as ranked.

        Trees are a reference: they have a share of the time at first, unless they lead.
        """
        best = max(result.score for result in ranked)
        growing = []
        for candidate in _with_trees([result.candidate for result in ranked], trees):
            left = np.inf if candidate.kind == "linear" else self.clock.left()
            if candidate is trees and self._is_first:
                leads = candidate.name in self.last and self.last[candidate.name].score > best
                share = 1.0 if leads else self.budget.boosting_share
                left = min(left, self.clock.seconds * share)
            result = self._cross_validate(candidate, self.schedule.sizes[0], left)
            if result is not None and candidate.grows:
                growing.append(result)
        self._grow(growing)

    def _evaluate_exact(self) -> None:
        """Cross-validate the exact kernels of the best maps, in time that nothing else needs."""
        schedule = self.schedule
        rows = self.sample.rows - schedule.final // schedule.folds
        if rows > _EXACT_ROWS or self.scoring.response == "probabilities":
            return
        kernels: dict[str, Kernel] = {}
        for result in sorted(self.final, key=lambda result: -result.score):
            if result.feature_map is None or result.grown:
                continue
            if fitted_metrics(result.feature_map):  # learned from the targets of other folds
                continue
            kernel = kernel_of(result.feature_map)
            if not kernel.expensive:
                kernels.setdefault(f"exact {format_kernel(kernel)}", kernel)
        for name, kernel in list(kernels.items())[:_EXACT]:
            work = float(rows * self.sample.columns)
            self._cross_validate(ExactCandidate(name, name, "exact", kernel, work), 1)

    def _grow(self, growing: list[Result]) -> None:
        """Double the features of the best finalists for as long as their scores rise."""
        for size in self.schedule.sizes[1:]:
            gained = []
            for before in sorted(growing, key=lambda result: -result.score)[:_GROWING]:
                after = self._cross_validate(before.candidate, size)
                if after is not None and after.lead_over(before) > 0:
                    gained.append(after)
            growing = gained

    def _evaluate_round(
        self, candidate: Candidate, size: int, rows: int, number: int, *, must_run: bool
    ) -> Result | None:
        """Score a candidate of a round on the held-out rows."""
        stage, left = f"round {number}", self.clock.left() - self._end
        fits = len(self._round_splits(rows))
        if candidate.kind == "outside":  # trees may be in the final without having been in rounds
            left *= self.budget.boosting_share if self._is_first else 0.0
            if left < fits * self._forecast(candidate, size, rows, stage):
                return self._results.get((candidate.name, stage, size))
        elif not must_run and not self._has_time(candidate, size, rows, fits, left, stage):
            return None
        return self._evaluate(candidate, size, self._round_splits(rows), stage, np.inf)

    def _round_splits(self, rows: int) -> list[tuple[Any, Any]]:
        """Return training and scored rows of a round: those held out, or folds of few rows."""
        first, held_out = self.schedule.rows, self.schedule.held_out
        if self.schedule.round_folds == 1 or self.sample.timed:
            return [(slice(0, rows), slice(first, first + held_out))]
        everything = np.arange(first + held_out)
        tests = np.array_split(everything, self.schedule.round_folds)
        return [(np.setdiff1d(everything, test)[:rows], test) for test in tests]

    def _cross_validate(
        self, candidate: Candidate, size: int, left: float | None = None
    ) -> Result | None:
        """Score all rows of the final fold by fold; rows of rounds are trained on, too."""
        splits = self._final_splits()
        left = self.clock.left() if left is None else left
        done = len(self._folds.get((candidate.name, FINAL, size), ()))
        rows = len(splits[-1][0])
        if not self._has_time(candidate, size, rows, len(splits) - done, left, FINAL):
            return None
        result = self._evaluate(candidate, size, splits, FINAL, self.clock.spent() + left)
        if result is not None:
            self.final.append(result)
        return result

    def _final_splits(self) -> list[tuple[Any, Any]]:
        rows, final = self.sample.rows, self.schedule.final
        tests = np.array_split(np.arange(rows - final, rows), self.schedule.folds)
        later = 0 if self.sample.timed else rows  # rows up to which others are trained on
        return [(np.r_[0 : test[0], min(test[-1] + 1, later) : later], test) for test in tests]

    def _has_time(
        self, candidate: Candidate, size: int, rows: int, fits: int, left: float, stage: str
    ) -> bool:
        """Compare the time left with that of fits at the rate of those before; record skipped."""
        if (candidate.name, stage, size) in self._results or candidate.name in self.refused:
            return True
        if not self._is_first and (stage, size) not in self._timings.get(candidate.name, {}):
            fits = 1  # how long one takes at this size is not known before it was fitted
        seconds = fits * self._forecast(candidate, size, rows, stage)
        if left > 0 and seconds <= left:
            return True
        self._skip(candidate, size, stage, seconds)
        return False

    def _skip(self, candidate: Candidate, size: int, stage: str, seconds: float) -> None:
        grown = stage == FINAL and self._is_grown(candidate, size)
        name = f"{candidate.name} x{size}" if grown else candidate.name
        self.skipped.setdefault(stage, {})[name] = seconds

    def _is_grown(self, candidate: Candidate, size: int) -> bool:
        return candidate.grows and size > self.schedule.sizes[0]

    def _forecast(self, candidate: Candidate, size: int, rows: int, stage: str) -> float:
        """Return the seconds of a fit by the candidate's own fits and by those of other maps.

        By the growth from its last fit that maps have had that were fitted at both sizes, or by
        that of its own fits; where it was not fitted yet, by the rate of the others.
        """
        estimate = candidate.estimate_seconds(size, rows, self.options)
        own = self._timings.get(candidate.name)
        if not isinstance(candidate, MapCandidate):
            return extrapolate_seconds([*own.values()], estimate) if own else estimate
        others = [
            timings
            for name, timings in self._timings.items()
            if name in self._maps
            and self._maps[name].kind == candidate.kind
            and self._maps[name].learning is None
        ]
        if not own:
            last = [next(reversed(timings.values())) for timings in others]
            ratios = [seconds / max(estimated, 1e-9) for estimated, seconds in last]
            return estimate * float(np.median(ratios)) if ratios else estimate
        key, before = (stage, size), next(reversed(own))
        growth = [
            timings[key][1] / max(timings[before][1], 1e-9)
            for timings in others
            if key in timings and before in timings
        ]
        if growth and candidate.learning is None:  # which takes as long for any larger size
            return own[before][1] * float(np.median(growth))
        return extrapolate_seconds([*own.values()], estimate)

    def _evaluate(
        self,
        candidate: Candidate,
        size: int,
        splits: list[tuple[Any, Any]],
        stage: str,
        until: float,
    ) -> Result | None:
        """Fit and score each split; None where rows are refused or time is up before the last."""
        key = (candidate.name, stage, size)
        if key in self._results or candidate.name in self.refused:
            return self._results.get(key)
        if candidate.name != CONSTANT:
            self.tell(stage, candidate.name)
        X, y, weights = self.sample.X, self.sample.y, self.sample.weights
        folds = self._folds.setdefault(key, [])
        # one BLAS thread, so that scores do not depend on the number of threads
        with warnings.catch_warnings(record=True) as caught, one_blas_thread():
            warnings.simplefilter("always")
            try:
                for train, test in splits[len(folds) :]:
                    seconds = folds[-1].seconds if folds else 0.0
                    if self.clock.spent() + seconds > until:
                        self._skip(candidate, size, stage, seconds)
                        return None
                    model, start = candidate.build(size, self.options), time.perf_counter()
                    given = {} if weights is None else {"sample_weight": weights[train]}
                    model.fit(X[train], y[train], **given)
                    fitted = time.perf_counter()
                    predictions = self.scoring.predict(model, X[test], self.sample.classes)
                    end = time.perf_counter()
                    fitted_map = getattr(model, "feature_map_", None)
                    folds.append(_Fold(predictions, fitted - start, end - fitted, fitted_map))
                    estimate = candidate.estimate_seconds(size, len(y[train]), self.options)
                    timings = self._timings.setdefault(candidate.name, {})
                    timings[stage, size] = estimate, folds[-1].seconds
                self._results[key] = self._score(candidate, size, splits, folds)
            except (ValueError, MemoryError, np.linalg.LinAlgError) as error:
                self.refused.setdefault(candidate.name, str(error) or type(error).__name__)
                return None
        self.notes |= {str(warning.message): candidate.name for warning in caught}
        return self._results[key]

    def _score(
        self, candidate: Candidate, size: int, splits: list[tuple[Any, Any]], folds: list[_Fold]
    ) -> Result:
        """Score the predictions of all folds together."""
        sample, scoring = self.sample, self.scoring
        truth = np.concatenate([sample.y[test] for _, test in splits])
        weights, groups = (
            None if values is None else np.concatenate([values[test] for _, test in splits])
            for values in (sample.weights, sample.groups)
        )
        predictions = np.concatenate([fold.predictions for fold in folds])
        for fold in folds:
            fold.predictions = predictions[:0]  # they are scored
        return Result(
            candidate,
            size,
            len(sample.y[splits[0][0]]),
            scoring.evaluate(truth, predictions, sample.classes, weights),
            float(np.mean([fold.fit_seconds for fold in folds])),
            float(np.mean([fold.predict_seconds for fold in folds])),
            folds[-1].feature_map,
            resolution=scoring.resolution,
            grown=self._is_grown(candidate, size),
            groups=groups,
        )

    def baseline(self, *, in_final: bool) -> Result:
        """Score a constant prediction on the rows of the final or of rounds."""
        splits, stage = self._round_splits(self.schedule.rounds[0][0]), "round 1"
        if in_final:
            splits, stage = self._final_splits(), FINAL
        candidate = ConstantCandidate(CONSTANT, CONSTANT, "outside")
        result = self._evaluate(candidate, 1, splits, stage, np.inf)
        assert result is not None
        return result

    def round_result(self, name: str, number: int) -> Result | None:
        """Return the result of a candidate in a round, None where it was not in it."""
        size = self.schedule.rounds[number - 1][1]
        return self._results.get((name, f"round {number}", size))

    def gram_error(self, result: Result) -> float | None:
        """Return the error of a fitted map over pairs of the last fold; None where it is exact."""
        fitted = result.feature_map
        rows = self.sample.X[-min(_PAIR_ROWS, self.schedule.final) :]
        if fitted is None or fitted.rate is None or rows.shape[0] < 2:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            error = gram_error(kernel_of(fitted), rows, fitted.transform(rows), _PAIRS)
        return error if np.isfinite(error) else None


@dataclass
class _Fold:
    """Predictions of a model on the rows it was not trained on, and the seconds they took."""

    predictions: Array
    fit_seconds: float
    predict_seconds: float
    feature_map: Map | None

    @property
    def seconds(self) -> float:
        return self.fit_seconds + self.predict_seconds


def _with_trees(alive: list[Any], trees: Candidate | None) -> list[Candidate]:
    """Order candidates: linear, trees, then the others as they are."""
    linear = [candidate for candidate in alive if candidate.kind == "linear"]
    others = [candidate for candidate in alive if candidate.kind != "linear"]
    return [*linear, *([] if trees is None else [trees]), *others]


def kernel_of(fitted: Map) -> Kernel:
    """Return the kernel that a fitted map approximates.

    Of a composition without a formula: that of the last map on the features of the others.
    """
    try:
        return fitted.kernel_
    except AttributeError:
        assert isinstance(fitted, Composed)
        transforms = tuple(part.tile_transform_ for part in fitted.maps_[:-1])
        return KernelOnFeatures(fitted.maps_[-1].kernel_, transforms, fitted.domain)


def format_kernel(kernel: Kernel) -> str:
    """Format a kernel with three digits and without names of parameters: Gaussian(0.11)."""
    if isinstance(kernel, KernelOnFeatures):
        return f"{format_kernel(kernel.kernel)} of scaled columns"
    text = re.sub(r"\d+\.\d+(e-?\d+)?", lambda number: f"{float(number[0]):.3g}", repr(kernel))
    return re.sub(r"\w+=", "", text)


def rank(results: list[Result]) -> list[Result]:
    """Sort by score; results within noise of the best come first, by their work."""
    if not results:
        return []
    best = max(results, key=lambda result: result.score)

    def key(result: Result) -> tuple[bool, float, float]:
        near = best.lead_over(result) <= NOISE / 2
        return not near, result.work if near else 0.0, -result.score

    return sorted(results, key=key)


def keep_best(ranked: list[Result], count: int) -> list[Result]:
    """Keep `count` results, two of each family at most, and the first linear one in any place."""
    kept: list[Result] = []
    families: dict[str, int] = {}
    for result in ranked:
        family, linear = result.candidate.family, result.candidate.kind == "linear"
        others = sum(one.candidate.kind != "linear" for one in kept)
        if linear and others < len(kept):
            continue
        if linear or (others < count and families.get(family, 0) < _PER_FAMILY):
            kept.append(result)
            families[family] = families.get(family, 0) + 1
    return kept
