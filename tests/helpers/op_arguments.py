"""Test case of an op and arrays for its arguments.

make(rng, dtype, n, d, m) returns the arguments; an op whose name ends in _ works on T, others write
to out or to `outputs`. Where an op is float32 by definition, dtype chooses the type of its codes.
bound(truth, args) is the largest error allowed, with eps of the op's own dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from mercer import ops

Array = NDArray[Any]
Args = dict[str, Any]
SCALE = 0.7
reference = SimpleNamespace(**{name: op.reference for name, op in ops.OPS.items()})


@dataclass(frozen=True)
class Axes:
    """Axes of an op's arguments that run along the rows and along the columns of its result."""

    rows: dict[str, int] = field(default_factory=dict)
    columns: dict[str, int] = field(default_factory=dict)
    values: int = 1  # columns of the result for each column of an argument; 0: any number
    prefix: bool = False  # only the first columns can be computed alone
    output: tuple[int, int] = (0, 1)  # the axes of the result


@dataclass(frozen=True)
class Case:
    make: Callable[[np.random.Generator, type, int, int, int], Args]
    bound: Callable[[Array, Args], Any]
    axes: Axes
    # Whether the exact result is the reference in the next wider dtype; else in the same dtype.
    wider: bool = True
    outputs: tuple[str, ...] = ("out",)
    state: tuple[str, ...] = ()  # arguments that are read and written: copied for each call


def eps(args: Args) -> float:
    return float(
        np.finfo(
            next(
                a.dtype for a in args.values() if isinstance(a, np.ndarray) and a.dtype.kind == "f"
            )
        ).eps
    )


def wide(a: Any) -> Any:
    """Return an array in the next wider dtype, in which the reference is taken as exact."""
    if not isinstance(a, np.ndarray) or a.dtype.kind != "f":
        return a
    with np.errstate(invalid="ignore"):  # uninitialized outputs
        return a.astype(np.float64 if a.dtype == np.float32 else np.longdouble)


def normal(rng: np.random.Generator, dtype: type, *shape: int) -> Array:
    return rng.standard_normal(shape).astype(dtype)


def histogram(rng: np.random.Generator, dtype: type, *shape: int) -> Array:
    return (rng.gamma(0.5, size=shape) * (rng.random(shape) < 0.7)).astype(dtype)


def norms(A: Array) -> Array:
    return np.linalg.norm(wide(A), axis=1)


def sparse_parts(name: str, A: Array, index: type) -> Args:
    S = scipy.sparse.csr_array(A)
    return {
        f"{name}indptr": S.indptr.astype(index),
        f"{name}indices": S.indices.astype(index),
        f"{name}data": S.data,
    }


def apart(A: Array) -> Array:
    """Return the same values with gaps between the rows."""
    big = np.full(
        (A.shape[0], A.shape[1] + 5), np.nan if A.dtype.kind == "f" else 77, dtype=A.dtype
    )
    big[:, 2:-3] = A
    return big[:, 2:-3]


def extremes(dtype: type) -> Array:
    info = np.finfo(dtype)
    top = [info.max, info.max / 2, 3e38 if dtype is np.float32 else 1e300]
    bottom = [
        0.0,
        info.smallest_subnormal,
        3 * info.smallest_subnormal,
        info.tiny,
        1e-38 if dtype is np.float32 else 1e-300,
    ]
    return np.array([*top, *bottom, 1.0, 1 + info.eps, 1e-20, 1e20, 0.3], dtype=dtype)
