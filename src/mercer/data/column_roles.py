"""Roles of the columns of a table: inputs, target, weight."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.errors import Setting

COLUMNS = Setting("columns", text="columns=[...]")
KINDS_SETTING = Setting("kinds", text="kinds={...}")
TARGET = Setting("target", text="open_stream(source, target='column')")

_MOST_NAMES = 20  # columns listed in an error


@dataclass(frozen=True)
class Roles:
    """Indices of the columns with each role in a table of `width` columns.

    `several` states that the target was given as a list, so that y has two dimensions. `inputs` is
    a range where all columns of a matrix are inputs, of which there may be a hundred million.
    """

    width: int
    inputs: tuple[int, ...] | range
    target: tuple[int, ...] = ()
    weight: int | None = None
    several: bool = False

    @property
    def plain(self) -> bool:
        """Whether all columns are inputs, in their order."""
        return isinstance(self.inputs, range) or self.inputs == tuple(range(self.width))


def assign_roles(
    source: str,
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
    source : str
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
    if isinstance(names, range) and names and columns is None is target is weight:
        return Roles(len(names), names)
    indices = {name: i for i, name in enumerate(names)}
    if len(indices) < len(names):
        twice = [name for name, count in Counter(names).items() if count > 1]
        raise ValueError(
            f"{source} has two columns named {_list_names(twice)}: give each its own name."
        )

    def find(role: str, name: Any) -> int:
        is_number = isinstance(names, range) and isinstance(name, int | np.integer)
        if is_number and -len(names) <= name < 0:
            return int(name) + len(names)
        if not isinstance(name, Hashable) or name not in indices or isinstance(name, bool):
            raise ValueError(describe_no_column(source, names, role, name))
        return indices[name]

    several = isinstance(target, list | tuple)
    targets = [] if target is None else target if several else [target]
    targets = [find("target", name) for name in targets]
    weights = [] if weight is None else [find("weight", weight)]
    if columns is None:
        used = {*targets, *weights}
        inputs = [i for i, name in enumerate(names) if i not in used and name not in index]
    elif isinstance(columns, list | tuple):
        inputs = [find("columns", name) for name in columns]
    else:
        raise ValueError(f"{source}: columns must be a list of columns, got {columns!r}.")
    chosen = [*inputs, *targets, *weights]
    if len(set(chosen)) < len(chosen):
        again = next(i for i in chosen if chosen.count(i) > 1)
        raise ValueError(
            f"{source}: column {names[again]!r} is chosen twice among columns, target and weight. "
            "Lists choose columns; give values as an array (numpy.asarray)."
        )
    if not inputs:
        listed = ", ".join(map(repr, sorted(map(str, index))))
        others = f" beside the pandas index {listed}" if index else ""
        raise ValueError(f"{source} has no input columns{others}.")
    weight_index = weights[0] if weights else None
    return Roles(len(names), tuple(inputs), tuple(targets), weight_index, several)


def describe_missing(missing: Sequence[Hashable], names: Sequence[Hashable]) -> str:
    """Return columns that are not there, the nearest names, and those there are, as text."""
    asked = []
    for name in missing[:_MOST_NAMES]:
        near = _nearest(name, names)
        asked.append(f"{name!r}" + (f" (did you mean {near!r}?)" if near else ""))
    more = f" and {len(missing) - _MOST_NAMES} more" if len(missing) > _MOST_NAMES else ""
    return f"{', '.join(asked)}{more}, which it has not. Its columns: {_list_names(names)}."


def _nearest(name: Hashable, names: Sequence[Hashable]) -> str | None:
    """Return the name that is most similar, in any case of letters; None if none is."""
    texts = {str(text).lower(): str(text) for text in names}
    near = difflib.get_close_matches(str(name).lower(), texts, n=1)
    return texts[near[0]] if near else None


def _list_names(names: Sequence[Hashable]) -> str:
    listed = list(map(repr, names))
    if len(listed) > _MOST_NAMES:
        count = len(names) - _MOST_NAMES + 1
        listed = [*listed[: _MOST_NAMES - 5], f"{count} more", *listed[-4:]]
    return ", ".join(listed)


def describe_no_column(source: str, names: Sequence[Hashable], role: str, name: Any) -> str:
    """Return a message about a column that a table has not, with the nearest name."""
    if isinstance(names, range):
        return (
            f"{source} has no column {name!r} ({role}): its columns are numbered 0 to "
            f"{len(names) - 1}. Give values as an array (numpy.asarray)."
        )
    near = _nearest(name, names)
    hint = f" Did you mean {near!r}?" if near else ""
    return f"{source} has no column {name!r} ({role}). Its columns: {_list_names(names)}.{hint}"
