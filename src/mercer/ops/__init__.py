"""The hot array functions, by the type of their first array. reference.py defines each; faster twins stand beside it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from mercer.ops import reference

__all__ = ["cos_", "cossin", "hadamard"]

P = ParamSpec("P")
R = TypeVar("R")


def _by_array(op: Callable[P, R]) -> Callable[P, R]:
    """The op of the module that is fastest for its first argument: where a compiled or a device twin enters."""

    @wraps(op)
    def dispatched(*args: P.args, **kwargs: P.kwargs) -> R:
        return op(*args, **kwargs)

    return dispatched


def home(name: str) -> str:
    """Where the op of that name runs for NumPy arrays."""
    return "numpy"


cos_ = _by_array(reference.cos_)
cossin = _by_array(reference.cossin)
hadamard = _by_array(reference.hadamard)
