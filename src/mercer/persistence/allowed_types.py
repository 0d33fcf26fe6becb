"""The classes that may be in a model file, and what they say of themselves: the fields of records,
the attributes that fit finds.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SKLEARN = {
    "n_features_in_": int,
    "feature_names_in_": NDArray[Any] | None,
    "_sklearn_output_config": dict | None,
}


@dataclass(frozen=True)
class Known:
    """The classes that may be in a file, by name: all others are refused."""

    models: Mapping[str, type]
    records: Mapping[str, type]

    @functools.cached_property
    def attributes(self) -> dict[str, dict[str, Any]]:
        """What fit finds, for each model: names and types."""
        return {name: _attributes(cls) for name, cls in self.models.items()}

    @functools.cached_property
    def fields(self) -> dict[str, dict[str, Any]]:
        """The fields of each record: names and types."""
        return {name: typing.get_type_hints(cls) for name, cls in self.records.items()}


def names_of(cls: type) -> tuple[str, ...]:
    """The fields of a dataclass or a named tuple."""
    return tuple(one.name for one in fields(cls)) if is_dataclass(cls) else cls._fields  # type: ignore[attr-defined]


def _attributes(cls: type) -> dict[str, Any]:
    """What fit finds, by name: the types that a class of ours, and those it comes from, say in
    their bodies.
    """
    found: dict[str, Any] = {**_SKLEARN}
    for one in reversed(cls.__mro__):
        if one.__module__.partition(".")[0] == __name__.partition(".")[0]:
            found |= inspect.get_annotations(one, eval_str=True)
    params = inspect.signature(cls).parameters
    return {
        name: hint for name, hint in found.items() if name not in params and not hasattr(cls, name)
    }


def needed(cls: type) -> set[str]:
    """The fields without a default: one that came later has one, so that older files still load."""
    if not is_dataclass(cls):
        return set(names_of(cls)) - set(cls._field_defaults)  # type: ignore[attr-defined]
    return {
        one.name for one in fields(cls) if one.default is MISSING and one.default_factory is MISSING
    }


def agrees(value: Any, hint: Any) -> bool:
    """Whether a value has the type that a field says."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hasattr(
        origin, "__value__"
    ):  # an alias with a name of its own, as NumPy's NDArray is from 2.5 on
        origin = typing.get_origin(origin.__value__)
    if hint is Any:
        return value is not None and (not isinstance(value, float) or value == value)
    if origin in (typing.Union, types.UnionType):
        return any(agrees(value, one) for one in inner)
    if origin is tuple:
        return isinstance(value, tuple) and all(agrees(one, inner[0]) for one in value)
    if origin is not None:
        return isinstance(value, origin)
    if hint is float:
        return isinstance(value, float | np.floating) and bool(value == value)
    if hint is int:
        return is_whole(value)
    if hint is bool:
        return isinstance(value, bool | np.bool_)
    return isinstance(value, hint)


def is_whole(value: Any) -> bool:
    """Whether a value is a whole number, and no flag."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
