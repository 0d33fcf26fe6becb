"""What a model is told and what it says: targets in, predictions out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from mercer.data import Stream, open_stream
from mercer.data.dask import is_lazy
from mercer.errors import RowError
from mercer.linear_model.normal_equations import Array
from mercer.parallel import devices
from mercer.validation.rows import first_missing


def is_source(X: Any) -> bool:
    """Whether X is opened as a stream: a stream, a path, a list of paths, or a Dask array. All else
    is rows in memory.
    """
    if isinstance(X, list) and X:
        return all(isinstance(path, str | os.PathLike) for path in X)
    return isinstance(X, Stream | str | os.PathLike) or is_lazy(X)


def require_targets(who: str, y: Any) -> None:
    """Refuse the first target in memory that is None, NaN or infinite."""
    values = np.asarray(y, dtype=None if hasattr(y, "dtype") else object)
    bad = first_missing(values) if values.ndim in (1, 2) else None
    if bad is None:
        return
    row, _, value = bad
    infinite = isinstance(value, float | np.floating) and np.isinf(value)
    what = "infinity or a value too large for dtype('float64')" if infinite else "NaN"
    raise RowError(
        row,
        f"Input y contains {what}: {who} needs a target in every row, got {value} at",
        ". Drop such rows first.",
    )


def targets_of(X: Any, y: Any, sample_weight: Any) -> tuple[Any, Array, Any]:
    """The rows that are scored, their true targets and weights: those given, or those of X, which
    is opened once for both passes.
    """
    y, sample_weight = devices.brought_home(y), devices.brought_home(sample_weight)
    if y is not None:
        return X, np.asarray(y), sample_weight
    stream = open_stream(X)
    if stream.target is None:
        raise ValueError(f"score needs y: {stream.name} was opened without a target.")
    chunks = [(chunk.y, chunk.weight) for chunk in stream.chunks()]
    truth = np.concatenate([np.asarray(targets) for targets, _ in chunks])
    if sample_weight is None and stream.weight is not None:
        sample_weight = np.concatenate([np.asarray(weights) for _, weights in chunks])
    return stream, truth, sample_weight


def write_into(
    out: Any, parts: Iterator[Array], shape: tuple[int | None, ...], dtype: np.dtype[Any]
) -> None:
    """Write consecutive parts into an array that has room for exactly all of them; rows may be
    None, for a number not known yet.
    """
    fitting = (
        isinstance(out, np.ndarray)
        and out.flags.writeable
        and out.shape[1:] == shape[1:]
        and out.ndim == len(shape)
    )
    floats = fitting and dtype.kind == "f" and out.dtype.kind == "f"
    if (
        not fitting
        or not (floats or np.can_cast(dtype, out.dtype))
        or shape[0] not in (None, len(out))
    ):
        seen = f"{out.dtype} {out.shape}" if isinstance(out, np.ndarray) else type(out).__name__
        wanted = ", ".join("rows" if size is None else str(size) for size in shape)
        comma = "," * (len(shape) == 1)
        raise ValueError(
            f"out must be a path or a writeable array of {dtype} and shape ({wanted}{comma}), "
            f"got {seen}."
        )
    start = 0
    for part in parts:
        if start + len(part) > len(out):
            raise ValueError(f"out has {len(out)} rows, and there are more.")
        out[start : start + len(part)] = part
        start += len(part)
    if start < len(out):
        raise ValueError(f"out has {len(out)} rows, and there are {start}.")
