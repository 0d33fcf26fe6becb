"""Registration and dispatch of ops.

`@op` on a NumPy definition registers an op; `@compiled(op)` and `@torch_form(op)` register its
other forms. There is no other list of ops.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
Form = TypeVar("Form", bound=Callable[..., Any])

OPS: dict[str, Op[..., Any]] = {}
_device_types: tuple[type, ...] = ()  # empty until mercer.ops.torch is imported


class Op(Generic[P, R]):
    """Array function with three forms: a NumPy definition, a compiled form and a torch form.

    A call with a device array runs the torch form. Any other call runs the compiled form. The
    definition runs where that returns NotImplemented, for a dtype or a memory layout that the
    compiled core does not support, and where there is no core (MERCER_PURE=1).

    Attributes
    ----------
    reference : callable
        The definition, on NumPy arrays.
    compiled, torch : callable or None
        The other forms, with the same parameters; None without the core and without torch.
    """

    __name__: str
    __qualname__: str

    def __init__(self, definition: Callable[P, R]) -> None:
        update_wrapper(self, definition)
        self.reference = definition
        self.compiled: Callable[P, R] | None = None
        self.torch: Callable[..., Any] | None = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if _device_types:
            for value in (*args, *kwargs.values()):
                if isinstance(value, _device_types):
                    if self.torch is None:
                        raise TypeError(
                            f"ops.{self.__name__} has no torch form: pass NumPy arrays."
                        )
                    return self.torch(*args, **kwargs)
        if self.compiled is not None:
            result = self.compiled(*args, **kwargs)
            if result is not NotImplemented:
                return result
        return self.reference(*args, **kwargs)

    def __reduce__(self) -> str:
        return self.__qualname__


def op(definition: Callable[P, R]) -> Op[P, R]:
    """Register a NumPy definition as the op of its name and return the dispatched function."""
    name = definition.__name__
    if name in OPS:
        raise ValueError(f"An op named {name!r} is registered already.")
    OPS[name] = registered = Op(definition)
    return registered


def compiled(op: Op[P, R]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that registers the compiled form of an op."""

    def register(form: Callable[P, R]) -> Callable[P, R]:
        op.compiled = form
        return form

    return register


def torch_form(op: Op[..., Any]) -> Callable[[Form], Form]:
    """Return a decorator that registers the torch form of an op; it takes device arrays."""

    def register(form: Form) -> Form:
        op.torch = form
        return form

    return register


def device_array(cls: type[R]) -> type[R]:
    """Register a class whose instances are arrays on a device."""
    global _device_types
    _device_types = (cls,)
    return cls


def is_device(array: Any) -> bool:
    """Return whether an array is on a device."""
    return isinstance(array, _device_types)
