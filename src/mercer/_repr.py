"""Short representations: arrays as their shape and dtype."""

from __future__ import annotations

from typing import Any


def short_repr(self: Any) -> str:
    """Return the class with its public attributes; a class assigns this function to __repr__."""
    values = {
        name: value
        for name, value in vars(self).items()
        if not name.startswith("_") and value is not None
    }
    parts = ", ".join(f"{name}={describe_value(value)}" for name, value in values.items())
    return f"{type(self).__name__}({parts})"


def describe_value(value: Any) -> str:
    """Return "178 x 13 float64" for an array or a sparse matrix, and the repr of anything else."""
    shape = getattr(value, "shape", ())
    if shape and hasattr(value, "dtype"):
        return f"<{' x '.join(f'{n:,}' for n in shape)} {value.dtype}>"
    if isinstance(value, tuple | list):
        return f"({', '.join(map(describe_value, value))})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {describe_value(v)}' for key, v in value.items())}}}"
    return repr(value)
