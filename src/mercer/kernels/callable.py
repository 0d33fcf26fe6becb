"""Kernels given as a Python function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from mercer.kernels.base import Array, Kernel

_ROWS = 32  # rows of the Gram matrices of which only the diagonal is used


@dataclass(frozen=True)
class CallableKernel(Kernel):
    """k(X, Z) = function(X, Z, **params), the Gram matrix of two float64 arrays of rows."""

    ignores_zeros: ClassVar[bool] = False  # unknown for a function
    function: Callable[..., Any]
    params: Mapping[str, Any] = field(default_factory=dict)

    def _value(self, X: Array, Z: Array) -> Array:
        if X.ndim == 3 and X.shape[1] == 1 and Z.shape[0] == 1:
            return self._gram(X[:, 0], Z[0])
        shape = np.broadcast_shapes(X.shape, Z.shape)
        left, right = (np.broadcast_to(rows, shape).reshape(-1, shape[-1]) for rows in (X, Z))
        starts = range(0, len(left), _ROWS)
        parts = [np.diagonal(self._gram(left[i : i + _ROWS], right[i : i + _ROWS])) for i in starts]
        return np.concatenate([np.empty(0), *parts]).reshape(shape[:-1])

    def _gram(self, X: Array, Z: Array) -> Array:
        K = np.asarray(self.function(X, Z, **self.params))
        if K.shape != (len(X), len(Z)) or K.dtype.kind not in "biuf":
            raise ValueError(
                f"{self!r} must return the Gram matrix of its rows, {(len(X), len(Z))} real "
                f"numbers here, got {K.dtype} of shape {K.shape}. A function of two single rows "
                "can be applied to each pair of them (numpy.vectorize)."
            )
        if not np.isfinite(K).all():
            i, j = np.argwhere(~np.isfinite(K))[0]
            raise ValueError(
                f"{self!r} returned {K[i, j]} for the rows {X[i]} and {Z[j]}; it must be finite."
            )
        return K.astype(np.float64)

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return f"{name}({', '.join(f'{key}={value!r}' for key, value in self.params.items())})"
