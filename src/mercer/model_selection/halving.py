"""A race of models on the same rows: rounds that learn from ever more of them, and a final on rows
that no round has seen.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.evaluation.kernel_error import gram_error
from mercer.kernels import Kernel
from mercer.maps._transform import KernelOnFeatures
from mercer.maps.base import Map
from mercer.maps.compose import Composed
from mercer.model_selection.candidates import Candidate
from mercer.model_selection.models import Contestant, exact, mapped, outside
from mercer.model_selection.sample import Sample
from mercer.model_selection.schedule import Course, is_dear, race_memory, worth_gram
from mercer.parallel.threads import one_blas_thread

Array = NDArray[Any]

NOISE = 1.0  # standard errors of a difference: models that are nearer than that are not told apart
_OF_A_KIND = 2  # bandwidths of one kernel that go on
_PAIRS = 5000
_PAIR_ROWS = 500
_EXACT = 2  # kernels that are also learnt exactly
_ROUNDS_SHARE = 0.5  # of the time: what is left is for the final
_TREES_SHARE = 0.25  # of the time, for the trees of the final: they are there to be compared with
_GROWING = 2  # finalists that are tried with more features


class Clock:
    """Seconds since the start, and how many there are. It only stops things: no score and no order
    depends on it.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds, self.start = seconds, time.perf_counter()

    def spent(self) -> float:
        return time.perf_counter() - self.start

    def left(self, share: float = 1.0) -> float:
        return self.seconds * share - self.spent()


@dataclass(frozen=True, eq=False)
class Trial:
    """A model that was fitted and scored on rows that it has not learnt from: in a round, or fold
    by fold.

    credits has a number for each of those rows: whether the label was right, or 1 - (y -
    f)^2/var(y). Their mean is the score.
    """

    contestant: Contestant
    size: int
    rows: int
    credits: Array
    fit_seconds: float
    predict_seconds: float
    model: Any  # fitted, of the last fold
    # the least that two models can differ by on a row: a label is right or wrong, a number may be
    # as near as can be
    grain: float = 1.0

    grown: bool = False  # has more features than all finalists begin with

    @property
    def label(self) -> str:
        """The name, and about how many features it has grown to."""
        return f"{self.contestant.name} x{self.size}" if self.grown else self.contestant.name

    @property
    def score(self) -> float:
        return float(self.credits.mean())

    @property
    def spread(self) -> float:
        """The standard error of the score."""
        return float(self.credits.std() / np.sqrt(len(self.credits)))

    def above(self, other: Trial) -> float:
        """By how many standard errors of their difference this one is better, on the same rows.

        A row more is added to what differs: that one model has a single label right that the other
        has not says nothing yet.
        """
        difference, n = self.credits - other.credits, len(self.credits)
        mean, spread = (
            float(difference.mean()),
            float(np.sqrt(difference.var() / n + (self.grain / n) ** 2)),
        )
        return mean / spread if spread > 0 else float(np.sign(mean)) * np.inf if mean else 0.0


@dataclass(eq=False)
class Contest:
    """What is raced, on what, and what was found."""

    sample: Sample
    plan: Course
    limit: int
    seed: int
    clock: Clock
    tell: Callable[[str, str], None] = lambda stage, name: None
    last: dict[str, Trial] = field(default_factory=dict)  # of the rounds, by name
    rounds: dict[str, int] = field(default_factory=dict)
    final: list[Trial] = field(default_factory=list)
    cut: dict[str, list[str]] = field(default_factory=dict)  # what the clock has left out, by stage
    refused: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)

    def run(self, candidates: Iterable[Candidate]) -> None:
        """The rounds, then the final."""
        maps = [mapped(one, self.sample, race_memory(self.limit), self.seed) for one in candidates]
        rows, size = self.plan.rounds[0]
        maps.sort(key=lambda one: one.kind != "linear" and is_dear(one.guess(size, rows)))
        trees = outside(self.sample, self.seed, self.refused)
        ranked = self._run_rounds(maps, trees)
        self._run_final(ranked, trees)

    def _run_rounds(self, alive: list[Contestant], trees: Contestant | None) -> list[Trial]:
        """The best first, linear among them."""
        ranked: list[Trial] = []
        for i, (rows, size) in enumerate(self.plan.rounds):
            stage = f"round {i + 1}"
            here: list[Trial] = []
            others = [trees] if trees is not None and i == 0 else []
            for one in [*alive, *others]:
                must = not here and i == 0  # linear always runs
                trial = self._trial(one, size, rows, stage, must=must)
                if trial is not None:
                    self.last[one.name], self.rounds[one.name] = trial, i + 1
                    if one is not trees:
                        here.append(trial)
            before = [trial for trial in ranked if self.rounds[trial.contestant.name] <= i]
            ranked = [*_ranked(here), *before]
            if not ranked:
                raise ValueError(self.refused.get("linear", "select: no model takes these rows."))
            ranked = _kept(ranked, self.plan.keep[i])
            alive = [trial.contestant for trial in ranked]
        return ranked

    def _run_final(self, ranked: list[Trial], trees: Contestant | None) -> None:
        """Cross-validation of the finalists, linear first and always; of trees, more features for
        as long as they gain, exact kernels.
        """
        found = []
        for one in sorted(
            (trial.contestant for trial in ranked), key=lambda one: one.kind != "linear"
        ):
            trial = self._validated(
                one, self.plan.sizes[0], np.inf if one.kind == "linear" else None
            )
            found += [] if trial is None else [trial]
        share = min(self.clock.left(), self.clock.seconds * _TREES_SHARE)
        late = None
        if (
            trees is not None
            and trees.name in self.last
            and self._validated(trees, 1, share) is None
        ):
            late = None if trees.name in self.refused else trees
        self._grow([trial for trial in found if trial.contestant.grows])
        self._run_exact(found)
        if late is not None:  # now that nothing else waits, all that is left is theirs
            self.cut["the final"].remove(late.name)
            self.cut = {stage: names for stage, names in self.cut.items() if names}
            self._validated(late, 1)

    def _run_exact(self, found: list[Trial]) -> None:
        rows = self.sample.rows - self.plan.final // self.plan.folds
        if not worth_gram(rows):
            return
        kernels: dict[str, Kernel] = {}
        for trial in sorted(found, key=lambda one: -one.score):
            kernel = kernel_of(trial.model.feature_map_)
            if not kernel.laborious:
                kernels.setdefault(shown_kernel(kernel), kernel)
        for name, kernel in list(kernels.items())[:_EXACT]:
            self._validated(exact(name, kernel, self.sample, rows), 1)

    def _grow(self, growing: list[Trial]) -> None:
        for size in self.plan.sizes[1:]:
            growing = sorted(growing, key=lambda one: -one.score)[:_GROWING]
            gained = []
            for before in growing:
                after = self._validated(before.contestant, size)
                if after is not None and after.above(before) > 0:
                    gained.append(after)
            growing = gained

    def _trial(
        self, one: Contestant, size: int, rows: int, stage: str, *, must: bool
    ) -> Trial | None:
        held_out = slice(self.plan.rows, self.plan.rows + self.plan.held_out)
        if not must and self._late(one, size, rows, 1, self.clock.left(_ROUNDS_SHARE), stage):
            return None
        return self._tried(one, size, [(slice(0, rows), held_out)], stage, np.inf)

    def _validated(self, one: Contestant, size: int, left: float | None = None) -> Trial | None:
        """Fold by fold on the rows of the final; the rows of rounds are learnt from, too."""
        folds = np.array_split(
            np.arange(self.sample.rows - self.plan.final, self.sample.rows), self.plan.folds
        )
        everything = np.arange(self.sample.rows)
        left = self.clock.left() if left is None else left
        if self._late(one, size, self.sample.rows - len(folds[0]), len(folds), left, "the final"):
            return None
        splits = [(np.setdiff1d(everything, fold), fold) for fold in folds]
        trial = self._tried(one, size, splits, "the final", self.clock.spent() + left)
        if trial is not None:
            self.final.append(trial)
        return trial

    def _late(
        self, one: Contestant, size: int, rows: int, folds: int, left: float, stage: str
    ) -> bool:
        """Whether there is no time for it, by what its last trial took, or by a guess."""
        expected = one.guess(size, rows)
        before = self.last.get(one.name)
        if before is not None:
            took = before.fit_seconds + before.predict_seconds
            expected *= took / max(one.guess(before.size, before.rows), 1e-9)
        if left > 0 and folds * expected <= left:
            return False
        self.cut.setdefault(stage, []).append(one.name)
        return True

    def _tried(
        self, one: Contestant, size: int, splits: list[tuple[Any, Any]], stage: str, until: float
    ) -> Trial | None:
        """Fitted and scored on each split; None where it refuses the rows, or where time is up
        before the last split.
        """
        self.tell(stage, one.name)
        X, y = self.sample.X, self.sample.y
        truth = np.concatenate([y[test] for _, test in splits])
        credits, fitting, predicting, model = [], 0.0, 0.0, None
        with (
            warnings.catch_warnings(record=True) as caught,
            one_blas_thread(),
        ):  # so that threads do not change a bit
            warnings.simplefilter("always")
            try:
                for train, test in splits:
                    if self.clock.spent() > until:
                        self.cut.setdefault(stage, []).append(one.name)
                        return None
                    model, start = one.make(size), time.perf_counter()
                    model.fit(X[train], y[train])
                    fitted = time.perf_counter()
                    predicted = model.predict(X[test])
                    predicting += time.perf_counter() - fitted
                    fitting += fitted - start
                    credits.append(_credits(y[test], predicted, truth, self.sample.numeric))
            except (ValueError, MemoryError, np.linalg.LinAlgError) as error:
                self.refused.setdefault(one.name, str(error) or type(error).__name__)
                return None
        self.notes |= {str(warning.message): one.name for warning in caught}
        rows = len(y[splits[0][0]])
        n = len(splits)
        return Trial(
            one,
            size,
            rows,
            np.concatenate(credits),
            fitting / n,
            predicting / n,
            model,
            grain=0.0 if self.sample.numeric else 1.0,
            grown=one.grows and size > self.plan.sizes[0],
        )

    def guess(self, *, in_final: bool) -> Trial:
        """What the most frequent class, or the mean, has on the rows of the final, or on those that
        rounds are scored on.
        """
        first = self.sample.rows - self.plan.final
        y = self.sample.y[first:] if in_final else self.sample.y[first - self.plan.held_out : first]
        if self.sample.numeric:
            guessed: Any = y.astype(np.float64).mean()
        else:
            _, places, counts = np.unique(y.astype(str), return_index=True, return_counts=True)
            guessed = y[places[np.argmax(counts)]]
        one = Contestant(
            "guess", "guess", "outside", lambda size: None, lambda size, rows: 0.0, lambda size: 0.0
        )
        grain = 0.0 if self.sample.numeric else 1.0
        return Trial(
            one,
            1,
            len(y),
            _credits(y, guessed, y, self.sample.numeric),
            0.0,
            0.0,
            None,
            grain=grain,
        )

    def gram_error(self, trial: Trial) -> float | None:
        """Of the features that a trial has made, over pairs of rows of the last fold; None where
        the map is exact.
        """
        fitted = getattr(trial.model, "feature_map_", None)
        rows = self.sample.X[-min(_PAIR_ROWS, self.plan.final) :]
        if fitted is None or fitted.rate is None or rows.shape[0] < 2:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            error = gram_error(kernel_of(fitted), rows, fitted.transform(rows), _PAIRS)
        return error if np.isfinite(error) else None


def kernel_of(fitted: Map) -> Kernel:
    """The kernel that a fitted map approximates; of a composition without a formula, the last map's
    on the features of the others.
    """
    try:
        return fitted.kernel_
    except AttributeError:
        assert isinstance(fitted, Composed)
        return KernelOnFeatures(
            fitted.maps_[-1].kernel_,
            tuple(one.tile_transform_ for one in fitted.maps_[:-1]),
            fitted.domain,
        )


def shown_kernel(kernel: Kernel) -> str:
    """Gaussian(0.11): three digits, without the names of parameters."""
    import re

    if isinstance(kernel, KernelOnFeatures):
        return f"{shown_kernel(kernel.kernel)} of scaled columns"
    text = re.sub(r"\d+\.\d+(e-?\d+)?", lambda number: f"{float(number[0]):.3g}", repr(kernel))
    return re.sub(r"\w+=", "", text)


def _credits(y: Array, predicted: Array, truth: Array, numeric: bool) -> Array:
    """A number for each row whose mean is the score."""
    if not numeric:
        return np.asarray(predicted == y, dtype=np.float64)
    variance = float(np.var(truth.astype(np.float64))) or 1.0
    return 1 - (y.astype(np.float64) - np.asarray(predicted, dtype=np.float64)) ** 2 / variance


def _ranked(trials: list[Trial]) -> list[Trial]:
    """Best first; those that cannot be told from the best, by their cost."""
    if not trials:
        return []
    best = max(trials, key=lambda one: one.score)
    near = [one for one in trials if best.above(one) <= NOISE / 2]
    rest = [one for one in trials if best.above(one) > NOISE / 2]
    return sorted(near, key=lambda one: (one.contestant.work(one.size), -one.score)) + sorted(
        rest, key=lambda one: -one.score
    )


def _kept(ranked: list[Trial], count: int) -> list[Trial]:
    """The first ones, a few of each kernel at most, and the first linear one wherever it is."""
    kept: list[Trial] = []
    families: dict[str, int] = {}
    for trial in ranked:
        family = trial.contestant.family
        linear = trial.contestant.kind == "linear"
        if linear and any(one.contestant.kind == "linear" for one in kept):
            continue
        if linear or (
            len([one for one in kept if one.contestant.kind != "linear"]) < count
            and families.get(family, 0) < _OF_A_KIND
        ):
            kept.append(trial)
            families[family] = families.get(family, 0) + 1
    return kept
