"""Roles of the columns of a table: inputs, target, weight."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.errors import Setting

COLUMNS = Setting("columns", text="columns=[...]")
TARGET = Setting("target", text="open_stream(source, target='column')")

_MOST_NAMES = 20  # columns listed in an error
ENCODE = (
    "Encode it (sklearn.preprocessing; dates and times as numbers, such as days since a date) or "
    "leave it out with ",
    COLUMNS,
    ".",
)


@dataclass(frozen=True)
class Roles:
    """Indices of the columns with each role in a table of `width` columns.

    `several` states that the target was given as a list, so that y has two dimensions.
    """

    width: int
    inputs: tuple[int, ...]
    target: tuple[int, ...] = ()
    weight: int | None = None
    several: bool = False

    @property
    def plain(self) -> bool:
        """Whether all columns are inputs, in their order."""
        return self.inputs == tuple(range(self.width))


def assign(
    who: str,
    names: Sequence[Hashable],
    *,
    columns: Any,
    target: Any,
    weight: Any,
    index: Collection[Hashable] = (),
) -> Roles:
    """Assign the columns of a table to their roles.

    Parameters
    ----------
    who : str
        Name of the source in errors.
    names : sequence
        The names of the columns; a range for a matrix, whose columns are chosen by number, negative
        ones from the end.
    columns : list of names or None
        The inputs; None for all that are neither target nor weight.
    target : name, list of names or None
    weight : name or None
    index : collection of names
        Columns of a pandas index, which have a role only where they are named.
    """
    places: dict[Hashable, int] = {}
    for place, name in enumerate(names):
        if name in places:
            raise ValueError(f"{who} has two columns named {name!r}: give each its own name.")
        places[name] = place

    def find(role: str, name: Any) -> int:
        if (
            isinstance(names, range)
            and isinstance(name, int | np.integer)
            and -len(names) <= name < 0
        ):
            return int(name) + len(names)
        if not isinstance(name, Hashable) or name not in places or isinstance(name, bool):
            raise ValueError(_no_column(who, names, role, name))
        return places[name]

    several = isinstance(target, list | tuple)
    targets = (
        []
        if target is None
        else [find("target", name) for name in (target if several else [target])]
    )
    heavy = None if weight is None else find("weight", weight)
    if columns is None:
        inputs = [
            place
            for place, name in enumerate(names)
            if place not in targets and place != heavy and name not in index
        ]
    elif isinstance(columns, list | tuple):
        inputs = [find("columns", name) for name in columns]
    else:
        raise ValueError(f"{who}: columns must be a list of columns, got {columns!r}.")
    chosen = [*inputs, *targets, *([] if heavy is None else [heavy])]
    twice = (
        next((place for place in chosen if chosen.count(place) > 1), None)
        if len(set(chosen)) < len(chosen)
        else None
    )
    if twice is not None:
        raise ValueError(
            f"{who}: column {names[twice]!r} is chosen twice among columns, target and weight. "
            "Lists choose columns; give values as an array (numpy.asarray)."
        )
    if not inputs:
        beside = (
            f" beside the pandas index {', '.join(map(repr, sorted(map(str, index))))}"
            if index
            else ""
        )
        raise ValueError(f"{who} has no input columns{beside}.")
    return Roles(len(names), tuple(inputs), tuple(targets), heavy, several)


def _no_column(who: str, names: Sequence[Hashable], role: str, name: Any) -> str:
    if isinstance(names, range):
        return (
            f"{who} has no column {name!r} ({role}): its columns are numbered 0 to "
            f"{len(names) - 1}. Give values as an array (numpy.asarray)."
        )
    shown = list(map(repr, names))
    if len(shown) > _MOST_NAMES:
        shown = [*shown[: _MOST_NAMES - 5], f"{len(names) - _MOST_NAMES + 1} more", *shown[-4:]]
    near = difflib.get_close_matches(str(name), map(str, names), n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"{who} has no column {name!r} ({role}). Its columns: {', '.join(shown)}.{hint}"
