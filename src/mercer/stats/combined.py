"""CombinedStatistics: several summaries filled in one pass."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Self, TypeVar

from mercer.maps.block import Block
from mercer.stats.basic import Array, State, Statistic

S = TypeVar("S", bound=Statistic)


class CombinedStatistics:
    """Several summaries of the same rows: CombinedStatistics(Moments(target=False),
    ClassSums()).parts has them, in this order.
    """

    def __init__(self, *parts: Any) -> None:
        self.parts = parts

    @property
    def anywhere(self) -> bool:
        """Whether all of them sum blocks where they are."""
        return all(getattr(part, "anywhere", False) for part in self.parts)

    def add(
        self, block: Block, y: Array | None = None, weight: Array | None = None, start: int = 0
    ) -> None:
        for part in self.parts:
            part.add(block, y=y, weight=weight, start=start)

    def __add__(self, other: Self) -> Self:
        self._must_match(other)
        return self._like(
            [mine + theirs for mine, theirs in zip(self.parts, other.parts, strict=True)]
        )

    def __iadd__(self, other: Self) -> Self:
        self._must_match(other)
        merged = list(self.parts)
        for i, part in enumerate(other.parts):
            merged[i] += part
        self.parts = tuple(merged)
        return self

    def state(self) -> State:
        """The states of the parts, under their numbers."""
        states = [state_of(part) for part in self.parts]
        arrays = {
            f"{i}.{name}": values
            for i, state in enumerate(states)
            for name, values in state.arrays.items()
        }
        return State(arrays, {str(i): state.facts for i, state in enumerate(states)})

    def from_state(self, state: State) -> Self:
        """Summaries like these with that state."""
        made = []
        for i, part in enumerate(self.parts):
            mine = f"{i}."
            arrays = {
                name.removeprefix(mine): a
                for name, a in state.arrays.items()
                if name.startswith(mine)
            }
            made.append(part.from_state(State(arrays, state.facts[str(i)])))
        return self._like(made)

    def _like(self, parts: Sequence[Any]) -> Self:
        return type(self)(*parts)

    def _must_match(self, other: CombinedStatistics) -> None:
        mine, theirs = ([type(part).__name__ for part in one.parts] for one in (self, other))
        if mine != theirs:
            raise ValueError(f"{', '.join(mine)} together do not merge with {', '.join(theirs)}.")


def fresh(summary: S) -> S:
    """An empty summary of the same kind and settings."""
    given: list[Any] = []
    named = {}
    for name, parameter in inspect.signature(type(summary)).parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            given += [fresh(part) for part in getattr(summary, name)]
        else:
            named[name] = getattr(summary, name)
    return type(summary)(*given, **named)


def state_of(summary: Any) -> State:
    """The state of a summary; refused where it has none."""
    if not hasattr(summary, "state"):
        raise TypeError(
            f"{type(summary).__name__} cannot be kept in a checkpoint: fold it without "
            "checkpoint=. "
            "Moments, ClassSums and CombinedStatistics can."
        )
    state: State = summary.state()
    return state


def described(summary: Any) -> str:
    """The kind and the settings of a summary in words: "CombinedStatistics(Moments(target=False),
    ClassSums())".
    """
    settings = []
    for name, parameter in inspect.signature(type(summary)).parameters.items():
        value = getattr(summary, name)
        many = parameter.kind is parameter.VAR_POSITIONAL
        settings += [described(part) for part in value] if many else [f"{name}={value!r}"]
    return f"{type(summary).__name__}({', '.join(settings)})"
