"""Array functions of the hot loops, dispatched to NumPy, compiled or torch forms.

The definition of each op is in reference.py or reference_codes.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.ops import cpu as cpu
from mercer.ops.dispatch import OPS as OPS
from mercer.ops.dispatch import is_device as is_device
from mercer.ops.reference import *  # noqa: F403
from mercer.ops.reference_codes import *  # noqa: F403


def is_array(value: Any) -> bool:
    """Return whether a value is a NumPy array or a device array."""
    return isinstance(value, np.ndarray) or is_device(value)


def empty(shape: tuple[int, ...], dtype: Any, beside: Any) -> Any:
    """Allocate an array on the device of another array; on the host for a CSR matrix."""
    return np.empty(shape, dtype, like=beside) if is_device(beside) else np.empty(shape, dtype)


def asarray_like(values: Any, other: Any) -> Any:
    """Return values as an array, copied to the device of `other` if that is a device array."""
    if is_device(other):
        return np.asarray(values, like=other)
    return values if is_device(values) else np.asarray(values)


def implementation_of(name: str) -> str:
    """Return what runs an op on NumPy arrays: an instruction set of the compiled core, or numpy."""
    return "numpy" if OPS[name].compiled is None else cpu.isa()
