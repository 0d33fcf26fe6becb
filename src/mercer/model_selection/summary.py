"""The verdict on a race: who wins, why, whether it is more than guessing, and what there was no
time for.
"""

from __future__ import annotations

from dataclasses import dataclass

from mercer.model_selection.candidates import LINEAR, TWINS, twin
from mercer.model_selection.halving import NOISE, Contest, Trial
from mercer.model_selection.models import TREES

_OURS = ("linear", "map")

_GUESSING = 2.0  # standard errors that a winner, chosen on the same rows, must be above guessing


def judged(contest: Contest) -> tuple[Trial, str]:
    """The winner, and the verdict. By cross-validation where a map has reached it or none was
    tried, otherwise by the last round.
    """
    validated = [one for one in contest.final if one.contestant.kind in _OURS]
    raced = {name: one for name, one in contest.last.items() if one.contestant.kind in _OURS}
    alone = not _maps([*validated, *raced.values()])
    by_rounds = not validated or (not alone and not _maps(validated))
    final = validated
    if by_rounds:
        known = [name for name, one in raced.items() if one.contestant.kind == "linear"]
        most = max(contest.rounds[name] for name in known or raced)
        final = [one for name, one in raced.items() if contest.rounds[name] == most]
    best = max(final, key=lambda one: one.score)
    near = [one for one in final if best.above(one) <= NOISE / 2]
    winner = min(near, key=lambda one: (one.contestant.work(one.size), -one.score))
    linear = max(
        (one for one in final if one.contestant.kind == "linear"),
        key=lambda one: one.score,
        default=None,
    )
    if linear is not None and best.above(linear) <= NOISE:
        winner = linear
    judge, guess = _Judge(contest.sample.numeric), contest.guess(in_final=not by_rounds)
    if alone:
        verdict = judge.alone(winner, guess, _why_alone(contest))
    elif winner.above(guess) <= _GUESSING:
        verdict = (
            f"Nothing here beats guessing ({judge.guess(guess)}): {winner.label} has "
            f"{judge.score(winner)}."
        )
    else:
        verdict = judge.verdict(winner, best, linear)
    trees = next((one for one in contest.final if one.contestant.name == TREES), None)
    if trees is not None and not by_rounds and min(trees.above(winner), trees.above(guess)) > NOISE:
        verdict = verdict.replace("Nothing here beats", "nothing beats")
        verdict = (
            f"Trees are better here: {TREES} has {judge.score(trees)}, "
            f"{judge.lead(trees, winner)} than ours. Of ours: {verdict}"
        )
    if by_rounds:
        verdict += (
            " No map got through the final: this is the score of the last round, which "
            "the choice was made by."
        )
    return next(
        (one for one in validated if one.contestant is winner.contestant), winner
    ) if by_rounds else winner, verdict


def _maps(trials: list[Trial]) -> list[Trial]:
    return [one for one in trials if one.contestant.kind == "map"]


def _why_alone(contest: Contest) -> str:
    """Why no map took part beside linear."""
    refused = {
        name: why
        for name, why in contest.refused.items()
        if name != TREES and name not in LINEAR and not (name in TWINS and why == twin(name))
    }
    whys = []
    if refused:
        name, why = next(iter(refused.items()))
        more = f" {len(refused) - 1} more refuse the rows." if len(refused) > 1 else ""
        whys.append(f"{name} took no part: {why}{more}")
    if contest.cut.get("round 1"):
        whys.append("There was no time for others.")
    return " ".join(whys) or "No map beside it was asked for."


@dataclass(frozen=True)
class _Judge:
    """Scores in words."""

    numeric: bool

    def verdict(self, winner: Trial, best: Trial, linear: Trial | None) -> str:
        if winner.contestant.kind == "linear":
            beside = (
                ""
                if best is winner
                else f"; {best.label} has {self.score(best)}, no more than noise"
            )
            return f"Linear is enough: {self.score(winner)}{beside}."
        lead = "" if linear is None else f", {self.lead(winner, linear)} than linear"
        return f"{winner.label} wins with {self.score(winner)}{lead}."

    def alone(self, linear: Trial, guess: Trial, why: str) -> str:
        beside = (
            ""
            if linear.above(guess) > _GUESSING
            else f", no better than guessing ({self.guess(guess)})"
        )
        return f"Only linear was tried: {self.score(linear)}{beside}. {why}"

    def guess(self, one: Trial) -> str:
        return "R^2 0" if self.numeric else f"{one.score:.2%}"

    def score(self, one: Trial) -> str:
        if self.numeric:
            return f"R^2 {one.score:.4f} +- {one.spread:.4f}"
        return f"{one.score:.2%} +- {one.spread:.2%}"

    def lead(self, one: Trial, other: Trial) -> str:
        lead = one.score - other.score
        return f"{lead:.4f} more" if self.numeric else f"{100 * lead:.2f} points more"


def stopped(contest: Contest, max_seconds: float) -> str | None:
    """What the clock has left out, in a sentence."""
    parts = []
    for whose, stages in (
        (
            f"Their share of {max_seconds:g} s was",
            [stage for stage in contest.cut if stage != "the final"],
        ),
        (f"{max_seconds:g} s were", [stage for stage in contest.cut if stage == "the final"]),
    ):
        named = "; ".join(f"{_some(contest.cut[stage])} in {stage}" for stage in stages)
        parts += [f"{whose} not enough for {named}."] if named else []
    return " ".join(parts) or None


def _some(names: list[str]) -> str:
    names = list(dict.fromkeys(names))
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
