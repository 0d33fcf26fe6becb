"""Summary of a search: the winner, how certain that is, and what there was no time for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mercer.model_selection.candidates import ALTERNATIVES, LINEAR, alternative_reason
from mercer.model_selection.halving import NOISE, Result, SuccessiveHalving, rank
from mercer.model_selection.models import CONSTANT, TREES
from mercer.model_selection.scoring import Scoring
from mercer.rng import Rng

_SIGNIFICANT = 2.0  # standard errors that a winner, chosen on the same rows, must be above guessing
_INTERVAL = 1.96  # standard errors either side: 95%
# standard errors: the best of 20 models of the same score is 1.87 above it on average
_MOST_BIAS = 2.0
_SAMPLES = 200  # bootstrap samples: their noise is below a tenth of a standard error


@dataclass(frozen=True)
class Comparison:
    """Difference of the winner's score and another one on the same rows, with a 95% interval.

    Attributes
    ----------
    name : str
        The other model.
    difference, low, high : float
        Above 0 where the winner is better.
    """

    name: str
    difference: float
    low: float
    high: float

    @property
    def certain(self) -> bool:
        """Whether the interval does not contain 0."""
        return self.low > 0 or self.high < 0

    def format(self, scoring: Scoring) -> tuple[str, str]:
        """Format the difference of the printed quantities, and its interval."""
        ends = sorted((self.low, self.high), key=lambda end: scoring.sign * end)
        low, high = (scoring.format_difference(end, "+") for end in ends)
        return scoring.format_difference(self.difference, "+"), f"[{low}, {high}]"


@dataclass(frozen=True, eq=False)
class Verdict:
    """Winner of a search, and how certain that is.

    Attributes
    ----------
    winner : Result
    summary : str
    corrected_score : float
        Estimate of the winner's score that does not profit from the choice.
    comparisons : tuple of Comparison
        With the next best candidate, linear, gradient boosting and guessing.
    unfinished : tuple of str
        Models that led in the last round they were in, and that the time was not enough for.
    """

    winner: Result
    summary: str
    corrected_score: float
    comparisons: tuple[Comparison, ...]
    unfinished: tuple[str, ...]


def decide(search: SuccessiveHalving) -> Verdict:
    """Choose the winner, and state by how much it is better.

    By cross-validation where a map has reached it or none was tried, otherwise by the last round.
    Linear wins unless the best is more than one standard error above it. Nothing is concluded
    against a model that leads and was not finished: it is named.
    """
    validated = [result for result in search.final if result.candidate.kind in ("linear", "map")]
    rounds = {
        name: result
        for name, result in search.last.items()
        if result.candidate.kind in ("linear", "map")
    }
    alone = not _has_map([*validated, *rounds.values()])
    by_rounds = not validated or (not alone and not _has_map(validated))
    results = validated
    if by_rounds:
        linear_names = [name for name in rounds if rounds[name].candidate.kind == "linear"]
        last = max(search.rounds[name] for name in linear_names or rounds)
        results = [result for name, result in rounds.items() if search.rounds[name] == last]
    winner, best, linear = choose(results)
    corrected = correct_score(results, winner, search.seed)
    baseline = search.baseline(in_final=not by_rounds)
    finished = list(search.last.values()) if by_rounds else search.final
    trees = next((result for result in finished if result.candidate.name == TREES), None)
    comparisons = _compare(winner, results, linear, trees, baseline)
    unfinished = _find_unfinished(search, winner, results)
    words = _Words(search.scoring)
    if alone:
        summary = words.alone(winner, baseline, _why_alone(search))
    elif winner.lead_over(baseline) <= _SIGNIFICANT:
        summary = (
            f"Nothing here beats guessing ({words.baseline(baseline)}): {winner.label} has "
            f"{words.score(winner)}."
        )
    else:
        summary = words.winner(winner, best, linear, undecided=bool(unfinished))
    if (
        trees is not None
        and any(result.candidate.name == TREES for result in search.final)
        and min(trees.lead_over(winner), trees.lead_over(baseline)) > NOISE
    ):
        summary = summary.replace("Nothing here beats", "nothing beats")
        summary = (
            f"Trees are better here: {TREES} has {words.score(trees)}, "
            f"{words.lead(trees, winner)} than ours. Of ours: {summary}"
        )
    if unfinished:
        summary = f"{words.unfinished(unfinished)} Of those that were: {summary}"
    if len(results) > 1 and corrected != winner.score:
        shown = search.scoring.format_named(corrected)
        summary += f" Corrected for the choice among {len(results)} on these rows: {shown}."
    summary += words.comparisons(comparisons)
    if by_rounds:
        summary += (
            " No map got through the final: this is the score of the last round, which the choice "
            "was made by."
        )
        winner = next((one for one in validated if one.candidate is winner.candidate), winner)
    names = tuple(result.label for result in unfinished)
    return Verdict(winner, summary, corrected, comparisons, names)


def choose(results: Sequence[Result]) -> tuple[Result, Result, Result | None]:
    """Return the winner, the best score, and the best linear model, None where there is none."""
    best = max(results, key=lambda result: result.score)
    linear = max(
        (result for result in results if result.candidate.kind == "linear"),
        key=lambda result: result.score,
        default=None,
    )
    if linear is not None and best.lead_over(linear) <= NOISE:
        return linear, best, linear
    return rank(list(results))[0], best, linear


def correct_score(results: Sequence[Result], winner: Result, seed: int) -> float:
    """Return an estimate of the winner's score that does not profit from the choice.

    Bootstrap bias corrected cross-validation (Tsamardinos, Greasidou and Borboudakis, 2018): the
    mean over bootstrap samples of the rows (groups, where there are any) of the score of the
    sample's own winner on the rows that are not in it. It is at most the winner's own score, and
    at least that less two standard errors: a row on which one model is far off can be most of the
    mean.

    Parameters
    ----------
    results : sequence of Result
        All that the winner was chosen from, on the same rows.
    winner : Result
    seed : int
    """
    if len(results) == 1:
        return winner.score
    n, groups = len(winner.row_scores), winner.groups
    units = np.arange(n) if groups is None else groups
    count = int(units.max()) + 1
    rng = Rng(seed)
    estimates = []
    for i in range(_SAMPLES):
        drawn = (rng.uniform(f"bootstrap {i}", count) * count).astype(np.int64)
        times = np.bincount(drawn, minlength=count)[units]
        inside, outside = np.repeat(np.arange(n), times), np.flatnonzero(times == 0)
        if len(outside) == 0 or len(inside) == 0:
            continue
        sampled = [
            replace(
                result,
                row_scores=result.row_scores[inside],
                groups=None if groups is None else groups[inside],
            )
            for result in results
        ]
        chosen = sampled.index(choose(sampled)[0])
        estimates.append(results[chosen].row_scores[outside].mean())
    if not estimates:
        return winner.score
    least = winner.score - _MOST_BIAS * winner.spread
    return float(np.clip(np.mean(estimates), least, winner.score))


def _compare(
    winner: Result,
    results: Sequence[Result],
    linear: Result | None,
    trees: Result | None,
    baseline: Result,
) -> tuple[Comparison, ...]:
    """Compare the winner with the next best candidate, linear, trees and guessing."""
    others = [result for result in results if result.candidate.name != winner.candidate.name]
    next_best = max(others, key=lambda result: result.score, default=None)
    comparisons = {}
    for other in (next_best, linear, trees, baseline):
        if other is None or other is winner or other.label in comparisons:
            continue
        mean, spread = winner.difference_to(other)
        low, high = mean - _INTERVAL * spread, mean + _INTERVAL * spread
        comparisons[other.label] = Comparison(other.label, mean, low, high)
    return tuple(comparisons.values())


def _find_unfinished(
    search: SuccessiveHalving, winner: Result, results: Sequence[Result]
) -> list[Result]:
    """Return models that time was not enough for, and that led the winner in their last round."""
    finished = {result.candidate.name for result in [*search.final, *results]}
    skipped = {name for names in search.skipped.values() for name in names}
    unfinished = []
    for name, result in search.last.items():
        if name in finished or name not in skipped:
            continue
        rival = search.round_result(winner.candidate.name, search.rounds[name])
        rival = rival or search.last.get(winner.candidate.name)
        if rival is None or result.lead_over(rival) > NOISE:
            unfinished.append(result)
    return sorted(unfinished, key=lambda result: -result.score)


def _has_map(results: list[Result]) -> bool:
    return any(result.candidate.kind == "map" for result in results)


def _why_alone(search: SuccessiveHalving) -> str:
    """Explain why there is no map beside linear."""
    refused = {
        name: reason
        for name, reason in search.refused.items()
        if name not in (TREES, *LINEAR)
        and not (name in ALTERNATIVES and reason == alternative_reason(name))
    }
    reasons = []
    if refused:
        name, reason = next(iter(refused.items()))
        more = f" {len(refused) - 1} more refuse the rows." if len(refused) > 1 else ""
        reasons.append(f"{name} was skipped: {reason}{more}")
    if search.skipped.get("round 1"):
        reasons.append("There was no time for others.")
    return " ".join(reasons) or "No other map was named."


@dataclass(frozen=True)
class _Words:
    """Scores in words."""

    scoring: Scoring

    def winner(
        self, winner: Result, best: Result, linear: Result | None, *, undecided: bool
    ) -> str:
        if winner.candidate.kind == "linear":
            noise = f"; {best.label} has {self.score(best)}, no more than noise"
            said = f"{winner.label} has" if undecided else "Linear is enough:"
            return f"{said} {self.score(winner)}{'' if best is winner else noise}."
        lead = "" if linear is None else f", {self.lead(winner, linear)} than linear"
        return f"{winner.label} wins with {self.score(winner)}{lead}."

    def alone(self, linear: Result, baseline: Result, why: str) -> str:
        better = linear.lead_over(baseline) > _SIGNIFICANT
        guessing = f", no better than guessing ({self.baseline(baseline)})"
        return f"Only linear was tried: {self.score(linear)}{'' if better else guessing}. {why}"

    def unfinished(self, results: Sequence[Result]) -> str:
        first, *others = results
        more = f", and {len(others)} more" if others else ""
        score = self.scoring.format_named(first.score)
        return (
            f"Undecided: {first.label} led on {first.rows:,} rows ({score}){more}, and was not "
            "finished; a larger max_seconds would decide."
        )

    def comparisons(self, comparisons: Sequence[Comparison]) -> str:
        """Format differences and intervals; guessing is named only where it may be as good."""
        parts = []
        for one in comparisons:
            if one.name == CONSTANT and one.low > 0:
                continue
            difference, interval = one.format(self.scoring)
            doubt = "" if one.certain else ", undecided"
            parts.append(f"{difference} {interval} to {one.name}{doubt}")
        points = " (points)" if self.scoring.percent else ""
        listed = f" Differences on the same rows, with 95% intervals{points}: {'; '.join(parts)}."
        return listed if parts else ""

    def baseline(self, result: Result) -> str:
        return self.scoring.format_named(result.score)

    def score(self, result: Result) -> str:
        spread = self.scoring.format_spread(result.spread)
        return f"{self.scoring.format_named(result.score)} +- {spread}"

    def lead(self, result: Result, other: Result) -> str:
        lead = self.scoring.format_difference(abs(result.score - other.score))
        points = " points" if self.scoring.percent else ""
        more = "more" if (result.score >= other.score) == (self.scoring.sign > 0) else "less"
        return f"{lead.lstrip('-')}{points} {more}"


def describe_skipped(search: SuccessiveHalving) -> str | None:
    """Name the candidates that the time limit has left out; None where there are none."""
    named = "; ".join(
        f"{_first_names(list(names))} in {stage}" for stage, names in search.skipped.items()
    )
    if not named:
        return None
    left, limit = search.clock.left(), search.clock.seconds
    shortest = min(seconds for names in search.skipped.values() for seconds in names.values())
    unused = ""
    if left > 0 and shortest > left:
        unused = f" {left:.1f} s are unused: the shortest of these takes about {shortest:.1f} s."
    return f"{limit:g} s were not enough for {named}.{unused}"


def _first_names(names: list[str]) -> str:
    names = list(dict.fromkeys(names))
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
