"""Lifts: one number becomes several, coordinate by coordinate. Zero stays zero, so that CSR stays CSR.

The values of one input stand side by side: column values * j + q holds value q of input j.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mercer import ops
from mercer.stages.base import Array, Stage


@dataclass(frozen=True, eq=False)
class Lift(Stage):
    """x -> (lift_1(x_1), ..., lift_N(x_1), lift_1(x_2), ...) for x >= 0; with signed, sign(x) lift(|x|) for all x."""

    keeps_sparse: ClassVar[bool] = True

    @property
    def values(self) -> int:
        """N, the values that one number becomes."""
        raise NotImplementedError

    @property
    def odd(self) -> bool:
        """Whether negative numbers are taken, as sign(x) lift(|x|)."""
        return bool(getattr(self, "signed", False))

    def lift(self, X: Array, out: Array) -> Array:
        """out[i, N j + q] = lift_q(X[i, j]), X >= 0."""
        raise NotImplementedError

    def __call__(self, X: Any, out: Array | None = None) -> Any:
        if hasattr(X, "indptr"):
            return self._spread(X, self._signed_lift(X.data[:, None], np.empty((len(X.data), self.values), X.dtype)))
        out = np.empty((len(X), self.columns(X.shape[1])), X.dtype) if out is None else out
        return self._signed_lift(X, out)

    def columns(self, d: int) -> int:
        return d * self.values

    def _spread(self, X: Any, data: Array) -> Any:
        """The CSR matrix in which the values of each stored number, a row of data, stand side by side in its place."""
        indices = np.empty(data.shape, _index_type(X, self.values))
        np.multiply(X.indices, self.values, out=indices[:, 0], dtype=indices.dtype)
        for q in range(1, self.values):
            np.add(indices[:, 0], q, out=indices[:, q])
        parts = (data.ravel(), indices.ravel(), X.indptr * self.values)
        return type(X)(parts, shape=(X.shape[0], self.columns(X.shape[1])))

    def _signed_lift(self, X: Array, out: Array) -> Array:
        if not self.odd:
            return self.lift(X, out)
        self.lift(np.abs(X), out)
        for q in range(self.values):
            out[:, q :: self.values] *= np.sign(X)
        return out


@dataclass(frozen=True, eq=False)
class SquareRoot(Lift):
    """x -> sqrt(x)."""

    values = 1

    def lift(self, X: Array, out: Array) -> Array:
        return np.sqrt(X, out=out)


@dataclass(frozen=True, eq=False)
class LogSkew(Lift):
    """x -> log(1 + x/skew): log(x + skew) up to a constant that shift-invariant kernels do not see, with 0 -> 0."""

    skew: float
    values = 1

    def lift(self, X: Array, out: Array) -> Array:
        return np.log1p(X / X.dtype.type(self.skew), out=out)


@dataclass(frozen=True, eq=False)
class Shift(Stage):
    """x -> x + shift."""

    shift: float

    def __call__(self, X: Any, out: Array | None = None) -> Array:
        return np.add(X.toarray() if hasattr(X, "indptr") else X, X.dtype.type(self.shift), out=out)


@dataclass(frozen=True, eq=False)
class SeriesLift(Lift):
    """x -> the direct chi2 series with these poles."""

    poles: Array
    signed: bool = False

    @property
    def values(self) -> int:
        return len(self.poles)

    def lift(self, X: Array, out: Array) -> Array:
        return ops.chi2_series(X, self.poles, out)


@dataclass(frozen=True, eq=False)
class ChebyshevLift(Lift):
    """x -> the Chebyshev series of chi2 about a center."""

    n_terms: int
    center: float
    signed: bool = False

    @property
    def values(self) -> int:
        return self.n_terms

    def lift(self, X: Array, out: Array) -> Array:
        return ops.chi2_chebyshev(X, self.n_terms, self.center, out)


@dataclass(frozen=True, eq=False)
class HomogeneousLift(Lift):
    """x -> x^(degree/2) (a_0, a_1 cos(h_1 L ln x), a_1 sin(h_1 L ln x), ...)."""

    amplitudes: Array
    harmonics: tuple[int, ...]
    step: float
    degree: float = 1.0
    signed: bool = False

    @property
    def values(self) -> int:
        return 2 * len(self.harmonics) + 1

    def lift(self, X: Array, out: Array) -> Array:
        return ops.homogeneous(
            X, self.amplitudes, np.array(self.harmonics, dtype=np.int64), self.step, self.degree, out
        )


def _index_type(X: Any, values: int) -> Any:
    largest = max(X.shape[1] * values, len(X.data) * values)
    return np.int64 if largest > np.iinfo(np.int32).max else X.indices.dtype
