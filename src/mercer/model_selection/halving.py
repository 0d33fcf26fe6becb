"""Successive halving of candidates on ever more rows, and cross-validation of the finalists."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from mercer._typing import Array
from mercer.evaluation.kernel_error import gram_error
from mercer.kernels import Kernel
from mercer.maps._transform import KernelOnFeatures
from mercer.maps.base import Map
from mercer.maps.compose import Composed
from mercer.model_selection.candidates import Candidate, MapCandidate, ModelOptions
from mercer.model_selection.models import ExactCandidate, boosting_candidate
from mercer.model_selection.sample import Sample
from mercer.model_selection.schedule import Budget, Schedule, model_memory
from mercer.parallel.threads import one_blas_thread

NOISE = 1.0  # standard errors of a difference, below which two models rank equal
FINAL = "the final"
_PER_FAMILY = 2  # bandwidths of one kernel that are kept
_PAIRS = 5000
_PAIR_ROWS = 500
_EXACT = 2  # kernels that are also fitted exactly
_EXACT_ROWS = 2000  # at most
_EXPENSIVE = 1.0  # estimated seconds: such models run after all others
_ROUNDS_SHARE = 0.5  # of the time; the rest is for the final
_GROWING = 2  # finalists that are tried with more features


class Clock:
    """Seconds since the start, and a limit. It only stops a search: no score depends on it."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.start = seconds, time.perf_counter()

    def spent(self) -> float:
        """Return the seconds since the start."""
        return time.perf_counter() - self.start

    def left(self, share: float = 1.0) -> float:
        """Return the seconds left of a share of the limit."""
        return self.seconds * share - self.spent()


@dataclass(frozen=True, eq=False)
class Result:
    """Score of a fitted candidate on rows that it was not trained on.

    Attributes
    ----------
    candidate : Candidate
    size, rows : int
        Features at most, and training rows.
    row_scores : array
        For each scored row, whether the label was right, or 1 - (y - f)^2/var(y). The mean is the
        score.
    fit_seconds, predict_seconds : float
    model : fitted model of the last fold
    resolution : float
        The least difference of two models on a row: 1 for labels, 0 for numbers.
    grown : bool
        Whether it has more features than all finalists begin with.
    """

    candidate: Candidate
    size: int
    rows: int
    row_scores: Array
    fit_seconds: float = 0.0
    predict_seconds: float = 0.0
    model: Any = None
    resolution: float = 1.0
    grown: bool = False

    @property
    def label(self) -> str:
        """Name, with about the number of features it has grown to."""
        return f"{self.candidate.name} x{self.size}" if self.grown else self.candidate.name

    @property
    def score(self) -> float:
        """Accuracy, or R^2."""
        return float(self.row_scores.mean())

    @property
    def spread(self) -> float:
        """Standard error of the score."""
        return float(self.row_scores.std() / np.sqrt(len(self.row_scores)))

    @property
    def work(self) -> float:
        """Work of a row at this size."""
        return self.candidate.work(self.size)

    def lead_over(self, other: Result) -> float:
        """Return the difference of two scores on the same rows, in standard errors of it.

        The resolution of one row is added to the standard error: a single label that only one of
        two models has right is no evidence yet.
        """
        difference, n = self.row_scores - other.row_scores, len(self.row_scores)
        mean = float(difference.mean())
        spread = float(np.sqrt(difference.var() / n + (self.resolution / n) ** 2))
        return mean / spread if spread > 0 else float(np.sign(mean)) * np.inf if mean else 0.0


@dataclass(eq=False)
class SuccessiveHalving:
    """Search over candidates.

    Attributes
    ----------
    sample, schedule : Sample, Schedule
    limit : int
        Bytes.
    seed : int
    clock : Clock
    budget : Budget
    tell : callable
        tell(stage, name) is called before each model is fitted.
    last : dict of Result
        Of the last round of each candidate, by name.
    rounds : dict of int
        Rounds of each candidate, by name.
    final : list of Result
        Of the final cross-validation.
    skipped : dict of list of str
        Candidates there was no time for, by stage.
    refused : dict of str
        Reasons, by name.
    notes : dict of str
        Names, by the warning that their models issued.
    """

    sample: Sample
    schedule: Schedule
    limit: int
    seed: int
    clock: Clock
    budget: Budget = field(default_factory=Budget)
    tell: Callable[[str, str], None] = lambda stage, name: None
    last: dict[str, Result] = field(default_factory=dict)
    rounds: dict[str, int] = field(default_factory=dict)
    final: list[Result] = field(default_factory=list)
    skipped: dict[str, list[str]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)

    @cached_property
    def options(self) -> ModelOptions:
        """Settings of all models."""
        sample, memory = self.sample, model_memory(self.limit)
        return ModelOptions(sample.numeric, sample.outputs, sample.columns, memory, self.seed)

    def run(self, candidates: Iterable[MapCandidate]) -> None:
        """Run all rounds, then the final cross-validation."""
        rows, size = self.schedule.rounds[0]

        def is_late(candidate: Candidate) -> bool:
            seconds = candidate.estimate_seconds(size, rows, self.options)
            return candidate.kind != "linear" and seconds > _EXPENSIVE

        trees = boosting_candidate(self.options, self.budget.boosting_rounds, self.refused)
        self._run_final(self._run_rounds(sorted(candidates, key=is_late), trees), trees)

    def _run_rounds(self, alive: Iterable[Candidate], trees: Candidate | None) -> list[Result]:
        """Return the results that reach the final, best first, linear among them."""
        ranked: list[Result] = []
        for i, (rows, size) in enumerate(self.schedule.rounds):
            results: list[Result] = []
            others = [trees] if trees is not None and i == 0 else []
            for candidate in [*alive, *others]:
                must_run = not results and i == 0  # linear
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
        """Cross-validate the finalists, linear first and always; then trees, and exact kernels."""
        finalists = []
        for result in sorted(ranked, key=lambda result: result.candidate.kind != "linear"):
            left = np.inf if result.candidate.kind == "linear" else None
            validated = self._cross_validate(result.candidate, self.schedule.sizes[0], left)
            finalists += [] if validated is None else [validated]
        postponed = None
        if trees is not None and trees.name in self.last:
            left = min(self.clock.left(), self.clock.seconds * self.budget.boosting_share)
            if self._cross_validate(trees, 1, left) is None and trees.name not in self.refused:
                postponed = trees
        self._grow([result for result in finalists if result.candidate.grows])
        self._evaluate_exact(finalists)
        if postponed is not None:  # all time that is left is theirs
            self.skipped[FINAL].remove(postponed.name)
            self.skipped = {stage: names for stage, names in self.skipped.items() if names}
            self._cross_validate(postponed, 1)

    def _evaluate_exact(self, finalists: list[Result]) -> None:
        rows = self.sample.rows - self.schedule.final // self.schedule.folds
        if rows > _EXACT_ROWS:
            return
        kernels: dict[str, Kernel] = {}
        for result in sorted(finalists, key=lambda result: -result.score):
            kernel = kernel_of(result.model.feature_map_)
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
        stage, left = f"round {number}", self.clock.left(_ROUNDS_SHARE)
        if not must_run and not self._has_time(candidate, size, rows, 1, left, stage):
            return None
        held_out = slice(self.schedule.rows, self.schedule.rows + self.schedule.held_out)
        return self._evaluate(candidate, size, [(slice(0, rows), held_out)], stage, np.inf)

    def _cross_validate(
        self, candidate: Candidate, size: int, left: float | None = None
    ) -> Result | None:
        """Score all rows of the final fold by fold; rows of rounds are trained on, too."""
        rows, folds = self.sample.rows, self.schedule.folds
        tests = np.array_split(np.arange(rows - self.schedule.final, rows), folds)
        left = self.clock.left() if left is None else left
        if not self._has_time(candidate, size, rows - len(tests[0]), folds, left, FINAL):
            return None
        later = 0 if self.sample.timed else rows  # rows up to which others are trained on
        splits = [(np.r_[0 : test[0], min(test[-1] + 1, later) : later], test) for test in tests]
        result = self._evaluate(candidate, size, splits, FINAL, self.clock.spent() + left)
        if result is not None:
            self.final.append(result)
        return result

    def _has_time(
        self, candidate: Candidate, size: int, rows: int, folds: int, left: float, stage: str
    ) -> bool:
        """Compare the time left with an estimate, scaled by the last fit; record skipped models."""
        seconds = candidate.estimate_seconds(size, rows, self.options)
        before = self.last.get(candidate.name)
        if before is not None:
            estimated = candidate.estimate_seconds(before.size, before.rows, self.options)
            seconds *= (before.fit_seconds + before.predict_seconds) / max(estimated, 1e-9)
        if left > 0 and folds * seconds <= left:
            return True
        self.skipped.setdefault(stage, []).append(candidate.name)
        return False

    def _evaluate(
        self,
        candidate: Candidate,
        size: int,
        splits: list[tuple[Any, Any]],
        stage: str,
        until: float,
    ) -> Result | None:
        """Fit and score each split; None where rows are refused or time is up before the last."""
        self.tell(stage, candidate.name)
        X, y, numeric = self.sample.X, self.sample.y, self.sample.numeric
        truth = np.concatenate([y[test] for _, test in splits])
        scores, fit_seconds, predict_seconds, model = [], 0.0, 0.0, None
        # one BLAS thread, so that scores do not depend on the number of threads
        with warnings.catch_warnings(record=True) as caught, one_blas_thread():
            warnings.simplefilter("always")
            try:
                for train, test in splits:
                    if self.clock.spent() > until:
                        self.skipped.setdefault(stage, []).append(candidate.name)
                        return None
                    model, start = candidate.build(size, self.options), time.perf_counter()
                    model.fit(X[train], y[train])
                    fitted = time.perf_counter()
                    predicted = model.predict(X[test])
                    predict_seconds += time.perf_counter() - fitted
                    fit_seconds += fitted - start
                    scores.append(score_rows(y[test], predicted, truth, numeric))
            except (ValueError, MemoryError, np.linalg.LinAlgError) as error:
                self.refused.setdefault(candidate.name, str(error) or type(error).__name__)
                return None
        self.notes |= {str(warning.message): candidate.name for warning in caught}
        n = len(splits)
        return Result(
            candidate,
            size,
            len(y[splits[0][0]]),
            np.concatenate(scores),
            fit_seconds / n,
            predict_seconds / n,
            model,
            resolution=0.0 if numeric else 1.0,
            grown=candidate.grows and size > self.schedule.sizes[0],
        )

    def baseline(self, *, in_final: bool) -> Result:
        """Score the most frequent class, or the mean, on the rows of the final or of rounds."""
        first, numeric = self.sample.rows - self.schedule.final, self.sample.numeric
        rows = slice(first, None) if in_final else slice(first - self.schedule.held_out, first)
        y = self.sample.y[rows]
        if numeric:
            constant: Any = y.astype(np.float64).mean()
        else:
            _, indices, counts = np.unique(y.astype(str), return_index=True, return_counts=True)
            constant = y[indices[np.argmax(counts)]]
        scores = score_rows(y, constant, y, numeric)
        candidate = Candidate("guess", "guess", "outside")
        return Result(candidate, 1, len(y), scores, resolution=0.0 if numeric else 1.0)

    def gram_error(self, result: Result) -> float | None:
        """Return the error of a fitted map over pairs of the last fold; None where it is exact."""
        fitted = getattr(result.model, "feature_map_", None)
        rows = self.sample.X[-min(_PAIR_ROWS, self.schedule.final) :]
        if fitted is None or fitted.rate is None or rows.shape[0] < 2:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            error = gram_error(kernel_of(fitted), rows, fitted.transform(rows), _PAIRS)
        return error if np.isfinite(error) else None


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


def score_rows(y: Array, predicted: Array, truth: Array, numeric: bool) -> Array:
    """Return a number for each row whose mean over all rows is accuracy or R^2."""
    if not numeric:
        return np.asarray(predicted == y, dtype=np.float64)
    variance = float(np.var(truth.astype(np.float64))) or 1.0
    return 1 - (y.astype(np.float64) - np.asarray(predicted, dtype=np.float64)) ** 2 / variance


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
