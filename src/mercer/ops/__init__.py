"""The hot array functions, by the type of their first array. reference.py defines each one; faster twins stand beside it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from mercer.ops import reference

__all__ = ["cos_", "cossin", "hadamard"]

P = ParamSpec("P")
R = TypeVar("R")


def _by_array(op: Callable[P, R]) -> Callable[P, R]:
    """The op of the module that is fastest for the type of its first argument: the place where a compiled or a device twin enters."""

    @wraps(op)
    def dispatched(*args: P.args, **kwargs: P.kwargs) -> R:
        return op(*args, **kwargs)

    return dispatched


cos_ = _by_array(reference.cos_)
cossin = _by_array(reference.cossin)
hadamard = _by_array(reference.hadamard)
