"""Summary of a search: the winner, the reason in a sentence, and what there was no time for."""

from __future__ import annotations

from dataclasses import dataclass

from mercer.model_selection.candidates import ALTERNATIVES, LINEAR, alternative_reason
from mercer.model_selection.halving import FINAL, NOISE, Result, SuccessiveHalving, rank
from mercer.model_selection.models import TREES

_SIGNIFICANT = 2.0  # standard errors that a winner, chosen on the same rows, must be above guessing


def choose_winner(search: SuccessiveHalving) -> tuple[Result, str]:
    """Return the winner, and a sentence that states by how much.

    By cross-validation where a map has reached it or none was tried, otherwise by the last round.
    Linear wins unless the best is more than one standard error above it.
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
    best = max(results, key=lambda result: result.score)
    linear = max(
        (result for result in results if result.candidate.kind == "linear"),
        key=lambda result: result.score,
        default=None,
    )
    winner = rank(results)[0]
    if linear is not None and best.lead_over(linear) <= NOISE:
        winner = linear
    words, baseline = _Words(search.sample.numeric), search.baseline(in_final=not by_rounds)
    if alone:
        summary = words.alone(winner, baseline, _why_alone(search))
    elif winner.lead_over(baseline) <= _SIGNIFICANT:
        summary = (
            f"Nothing here beats guessing ({words.baseline(baseline)}): {winner.label} has "
            f"{words.score(winner)}."
        )
    else:
        summary = words.winner(winner, best, linear)
    trees = next((result for result in search.final if result.candidate.name == TREES), None)
    if (
        trees is not None
        and not by_rounds
        and min(trees.lead_over(winner), trees.lead_over(baseline)) > NOISE
    ):
        summary = summary.replace("Nothing here beats", "nothing beats")
        summary = (
            f"Trees are better here: {TREES} has {words.score(trees)}, "
            f"{words.lead(trees, winner)} than ours. Of ours: {summary}"
        )
    if by_rounds:
        summary += (
            " No map got through the final: this is the score of the last round, which the choice "
            "was made by."
        )
        winner = next((one for one in validated if one.candidate is winner.candidate), winner)
    return winner, summary


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
    """Scores in words: accuracy, or R^2 where numeric."""

    numeric: bool

    def winner(self, winner: Result, best: Result, linear: Result | None) -> str:
        if winner.candidate.kind == "linear":
            noise = f"; {best.label} has {self.score(best)}, no more than noise"
            return f"Linear is enough: {self.score(winner)}{'' if best is winner else noise}."
        lead = "" if linear is None else f", {self.lead(winner, linear)} than linear"
        return f"{winner.label} wins with {self.score(winner)}{lead}."

    def alone(self, linear: Result, baseline: Result, why: str) -> str:
        better = linear.lead_over(baseline) > _SIGNIFICANT
        guessing = f", no better than guessing ({self.baseline(baseline)})"
        return f"Only linear was tried: {self.score(linear)}{'' if better else guessing}. {why}"

    def baseline(self, result: Result) -> str:
        return "R^2 0" if self.numeric else f"{result.score:.2%}"

    def score(self, result: Result) -> str:
        if self.numeric:
            return f"R^2 {result.score:.4f} +- {result.spread:.4f}"
        return f"{result.score:.2%} +- {result.spread:.2%}"

    def lead(self, result: Result, other: Result) -> str:
        lead = result.score - other.score
        return f"{lead:.4f} more" if self.numeric else f"{100 * lead:.2f} points more"


def describe_skipped(search: SuccessiveHalving, max_seconds: float) -> str | None:
    """Name the candidates that the time limit has left out; None where there are none."""
    rounds = [stage for stage in search.skipped if stage != FINAL]
    final = [stage for stage in search.skipped if stage == FINAL]
    parts = []
    for whose, stages in (
        (f"Their share of {max_seconds:g} s was", rounds),
        (f"{max_seconds:g} s were", final),
    ):
        named = "; ".join(f"{_first_names(search.skipped[stage])} in {stage}" for stage in stages)
        parts += [f"{whose} not enough for {named}."] if named else []
    return " ".join(parts) or None


def _first_names(names: list[str]) -> str:
    names = list(dict.fromkeys(names))
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
