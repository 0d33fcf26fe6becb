"""The protocol of mergeable statistics, their serialized state, and several of them in one pass.

The statistics of two parts of the rows, merged by ``+``, are the statistics of all rows: exactly
for counts and samples, within rounding for sums. Weights are frequency weights: a row of weight 2
counts as two rows.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from mercer._repr import short_repr
from mercer._typing import Array
from mercer.maps.block import Block, Dense, Sparse

S = TypeVar("S", bound="Statistic")


class Statistic(Protocol):
    """A mergeable statistic of rows, filled block by block.

    Constructor arguments are stored under their own names, as in scikit-learn, so that
    ``empty_like`` can construct an empty statistic with the same settings. A statistic with
    ``state()`` and ``from_state(state)`` can be checkpointed. One whose class attribute
    ``accepts_device_blocks`` is True adds blocks on the device where they are; others are given
    blocks in host memory. One whose class attribute ``uses_keys`` is True is given the keys of the
    rows as well (``mercer.data.row_keys``).
    """

    def add(
        self, block: Block, y: Array | None = None, weight: Array | None = None, start: int = 0
    ) -> None:
        """Add the rows of a block; ``start`` is the index of its first row in the stream."""

    def __add__(self, other: Self) -> Self: ...


class Mergeable:
    """Base class of statistics that define ``+=``; their sum is a copy with the other one added."""

    __repr__ = short_repr

    def __add__(self, other: Self) -> Self:
        merged = copy.deepcopy(self)
        merged += other
        return merged


@dataclass(frozen=True, eq=False)
class State:
    """The complete state of a statistic, as a checkpoint stores it.

    Attributes
    ----------
    arrays : dict of str to ndarray
    values : dict of str to JSON values
    """

    arrays: dict[str, Array]
    values: dict[str, Any]


class CombinedStatistics(Mergeable):
    """Several statistics of the same rows, computed in one pass.

    Parameters
    ----------
    *parts : Statistic
        ``CombinedStatistics(Moments(target=False), ClassSums()).parts`` holds them in this order.
    """

    def __init__(self, *parts: Any) -> None:
        self.parts = parts

    @property
    def accepts_device_blocks(self) -> bool:
        """Whether all parts add blocks on the device where they are."""
        return all(getattr(part, "accepts_device_blocks", False) for part in self.parts)

    def add(
        self, block: Block, y: Array | None = None, weight: Array | None = None, start: int = 0
    ) -> None:
        """Add the rows of a block to every part."""
        for part in self.parts:
            part.add(block, y=y, weight=weight, start=start)

    def __iadd__(self, other: Self) -> Self:
        mine, theirs = (
            [type(part).__name__ for part in statistics.parts] for statistics in (self, other)
        )
        if mine != theirs:
            raise ValueError(
                f"Combined statistics {', '.join(mine)} do not merge with {', '.join(theirs)}."
            )
        merged = list(self.parts)
        for i, part in enumerate(other.parts):
            merged[i] += part
        self.parts = tuple(merged)
        return self

    def state(self) -> State:
        """Return the states of the parts, prefixed by their positions."""
        states = [get_state(part) for part in self.parts]
        arrays = {
            f"{i}.{name}": values
            for i, state in enumerate(states)
            for name, values in state.arrays.items()
        }
        return State(arrays, {str(i): state.values for i, state in enumerate(states)})

    def from_state(self, state: State) -> Self:
        """Return statistics with the settings of these and a given state."""
        parts = []
        for i, part in enumerate(self.parts):
            prefix = f"{i}."
            arrays = {
                name.removeprefix(prefix): array
                for name, array in state.arrays.items()
                if name.startswith(prefix)
            }
            parts.append(with_state(part, State(arrays, state.values[str(i)])))
        return self._with_parts(parts)

    def _with_parts(self, parts: Sequence[Any]) -> Self:
        return type(self)(*parts)


def empty_like(statistic: S) -> S:
    """Return an empty statistic of the same class and settings."""
    args: list[Any] = []
    kwargs = {}
    for name, parameter in inspect.signature(type(statistic)).parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            args += [empty_like(part) for part in getattr(statistic, name)]
        else:
            kwargs[name] = getattr(statistic, name)
    return type(statistic)(*args, **kwargs)


def get_state(statistic: Any) -> State:
    """Return the state of a statistic: its own, or all its attributes.

    Raises a TypeError where an attribute is no number, text, array, block, or container of these.
    """
    if hasattr(statistic, "state"):
        state: State = statistic.state()
        return state
    arrays: dict[str, Array] = {}
    try:
        return State(arrays, {"attributes": _encode(vars(statistic), arrays)})
    except TypeError as error:
        raise TypeError(
            f"{type(statistic).__name__} cannot be checkpointed ({error}): omit checkpoint=."
        ) from None


def with_state(template: S, state: State) -> S:
    """Return a statistic with the settings of ``template`` and a given state."""
    if hasattr(template, "from_state"):
        filled: S = template.from_state(state)
        return filled
    filled = empty_like(template)
    vars(filled).update(_decode(state.values["attributes"], state.arrays, vars(filled)))
    return filled


def _encode(value: Any, arrays: dict[str, Array]) -> Any:
    """Return JSON values with references to arrays, which are added to ``arrays``."""
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return {"float": value.hex()}
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biuf":
        name = f"a{len(arrays)}"
        arrays[name] = np.asarray(value)
        return {"array" if isinstance(value, np.ndarray) else "number": name}
    if type(value) in (list, tuple):
        return {type(value).__name__: [_encode(item, arrays) for item in value]}
    if type(value) is dict:
        pairs = [[_encode(key, arrays), _encode(item, arrays)] for key, item in value.items()]
        return {"dict": pairs}
    if isinstance(value, Dense):
        return {"dense": _encode(value.Z, arrays)}
    if isinstance(value, Sparse):
        parts = (value.Z.data, value.Z.indices, value.Z.indptr, value.shape)
        return {"sparse": _encode(parts, arrays)}
    if type(value).__module__.startswith(__package__) and hasattr(value, "__dict__"):
        return {"object": _encode(vars(value), arrays)}
    raise TypeError(f"it holds a {type(value).__name__}")


def _decode(value: Any, arrays: dict[str, Array], empty: Any = None) -> Any:
    """Return an encoded value; objects have the classes of those in ``empty``."""
    if not isinstance(value, dict):
        return value
    ((kind, body),) = value.items()
    if kind == "float":
        return float.fromhex(body)
    if kind in ("array", "number"):
        return arrays[body] if kind == "array" else arrays[body][()]
    if kind in ("list", "tuple"):
        others = list(empty or ())
        others += [None] * (len(body) - len(others))
        items = [_decode(item, arrays, other) for item, other in zip(body, others, strict=False)]
        return items if kind == "list" else tuple(items)
    if kind == "dict":
        pairs = [(_decode(key, arrays), item) for key, item in body]
        known = empty or {}
        return {key: _decode(item, arrays, known.get(key)) for key, item in pairs}
    if kind == "dense":
        return Dense(_decode(body, arrays))
    if kind == "sparse":
        from scipy.sparse import csr_array

        data, indices, indptr, shape = _decode(body, arrays)
        return Sparse(csr_array((data, indices, indptr), shape=shape))
    filled = copy.copy(empty)
    vars(filled).update(_decode(body, arrays, vars(empty)))
    return filled


def describe_statistic(statistic: Any) -> str:
    """Return the class and settings of a statistic as text, as a checkpoint records them."""
    settings = []
    for name, parameter in inspect.signature(type(statistic)).parameters.items():
        value = getattr(statistic, name)
        if parameter.kind is parameter.VAR_POSITIONAL:
            settings += [describe_statistic(part) for part in value]
        else:
            settings.append(f"{name}={value!r}")
    return f"{type(statistic).__name__}({', '.join(settings)})"


def frequency_weights(n: int, weight: Array | None) -> Array:
    """Return the weights of n rows as float64, ones for None; require n finite weights >= 0."""
    if weight is None:
        return np.ones(n)
    w = np.asarray(weight, dtype=np.float64)
    if w.shape != (n,) or not np.all((w >= 0) & np.isfinite(w)):
        raise ValueError(
            f"A block of {n} rows needs {n} finite weights of at least 0, got {w.shape} with "
            f"smallest {w.min(initial=0):g}."
        )
    return w
