"""Links: what is done to numbers one by one, or to rows one by one, after a projection or before
it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer import ops
from mercer.maps.stages.base import Array, Stage, require


@dataclass(frozen=True, eq=False)
class Cos(Stage):
    """t_j -> scale cos(2 pi (t_j + phase_j)). The tile is working space: a link follows a
    projection that nobody else holds.
    """

    scale: float
    phases: Array

    def check(self, d: int) -> None:
        super().check(d)
        require(0 < self.scale < np.inf, self, f"a scale above 0, got {self.scale}")
        good = self.phases.shape == (d,) and self.phases.dtype == np.float64
        require(good, self, f"{d} phases, got an array of shape {self.phases.shape}")

    def __call__(self, X: Any, out: Array | None = None) -> Array:
        ops.cos_(X, self.scale, self.phases)
        return X if out is None or out is X else _copy(X, out)

    def of_product(self, X: Array, panel: Array, out: Array) -> Array:
        """The cosines of X times the panel, in one pass where there is one."""
        return ops.product_cos(X, panel, self.scale, self.phases, out)

    def of_hadamard(self, X: Array, signs: Array, lengths: Array, out: Array) -> Array:
        """The cosines of Hadamard(signs, lengths)(X), in one pass."""
        return ops.hadamard_cos(X, signs, lengths, self.scale, self.phases, out)


@dataclass(frozen=True, eq=False)
class CosSin(Stage):
    """t_1, t_2, ... -> scale (cos 2 pi t_1, sin 2 pi t_1, cos 2 pi t_2, ...); with one phase, the
    last t gives one offset cosine.
    """

    scale: float
    phase: Array  # empty, or the phase of the last column

    def check(self, d: int) -> None:
        super().check(d)
        require(0 < self.scale < np.inf, self, f"a scale above 0, got {self.scale}")
        good = (
            self.phase.shape in ((0,), (1,))
            and len(self.phase) <= d
            and self.phase.dtype == np.float64
        )
        require(good, self, f"one phase or none, got an array of shape {self.phase.shape}")

    def __call__(self, X: Any, out: Array | None = None) -> Array:
        out = ops.empty((len(X), self.columns(X.shape[1])), X.dtype, X) if out is None else out
        pairs = X.shape[1] - len(self.phase)
        ops.cossin(X[:, :pairs], self.scale, out[:, : 2 * pairs])
        if len(self.phase):
            _copy(ops.cos_(X[:, pairs:], self.scale, self.phase), out[:, 2 * pairs :])
        return out

    def of_product(self, X: Array, panel: Array, out: Array) -> Array:
        """The cosines and sines of X times the panel, in one pass where there is one."""
        if len(self.phase):
            return self(np.matmul(X, panel), out)
        return ops.product_cossin(X, panel, self.scale, out)

    def of_hadamard(self, X: Array, signs: Array, lengths: Array, out: Array) -> Array:
        """The cosines and sines of Hadamard(signs, lengths)(X), in one pass."""
        pairs = len(lengths) - len(self.phase)
        ops.hadamard_cossin(X, signs, lengths[:pairs], self.scale, out[:, : 2 * pairs])
        if len(self.phase):
            block, last = divmod(pairs, signs.shape[2])
            own = signs[block : block + 1]
            T = ops.hadamard(
                X, own, lengths[block * signs.shape[2] :], ops.empty((len(X), last + 1), X.dtype, X)
            )
            _copy(ops.cos_(T[:, last:], self.scale, self.phase), out[:, 2 * pairs :])
        return out

    def columns(self, d: int) -> int:
        return 2 * d - len(self.phase)


@dataclass(frozen=True, eq=False)
class RowNorm(Stage):
    """x -> x / |x|; a zero row stays zero. Rows are scaled by their largest entry first, so that no
    square over- or underflows.
    """

    keeps_sparse = True

    def __call__(self, X: Any, out: Array | None = None) -> Any:
        largest = abs(X).max(axis=1)
        largest = _divisor(largest.toarray().ravel() if hasattr(largest, "toarray") else largest)
        if hasattr(X, "indptr"):
            Z = X.copy()
            counts = np.diff(X.indptr)
            Z.data = Z.data / np.repeat(largest, counts)
            norms = _divisor(np.sqrt(np.asarray(Z.multiply(Z).sum(axis=1)).ravel()))
            Z.data /= np.repeat(norms, counts).astype(Z.dtype)
            return Z
        out = np.divide(X, largest[:, None], out=out)
        out /= _divisor(np.sqrt(np.einsum("ij,ij->i", out, out)))[:, None]
        return out


def _divisor(values: Array) -> Array:
    return np.where(values > 0, values, values.dtype.type(1))


def _copy(values: Array, out: Array) -> Array:
    out[...] = values
    return out
