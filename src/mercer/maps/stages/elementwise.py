"""Lifts: one number becomes several, coordinate by coordinate. Zero stays zero, so that CSR stays
CSR.

The values of one input stand side by side: column values * j + q holds value q of input j.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from mercer import ops
from mercer.maps.stages.base import Array, Stage, require
from mercer.validation.rows import require_finite, require_nonnegative

_TERMS = 2**20  # of a series: none was ever of use beyond a few dozen


@dataclass(frozen=True, eq=False)
class Lift(Stage):
    """x -> (lift_1(x_1), ..., lift_N(x_1), lift_1(x_2), ...) for x >= 0; with signed, sign(x)
    lift(|x|) for all x.
    """

    keeps_sparse: ClassVar[bool] = True

    @property
    def values(self) -> int:
        """N, the values that one number becomes."""
        raise NotImplementedError

    @property
    def odd(self) -> bool:
        """Whether negative numbers are taken, as sign(x) lift(|x|)."""
        return bool(getattr(self, "signed", False))

    def lift(self, X: Array, out: Array, bad: Array) -> None:
        """out[i, N j + q] = lift_q(X[i, j]), X >= 0; where it looks, bad[0] becomes whether a
        number of X is not in [0, inf).
        """
        raise NotImplementedError

    def __call__(self, X: Any, out: Array | None = None) -> Any:
        sparse = hasattr(X, "indptr")
        stored = X.data[:, None] if sparse else X
        out = (
            ops.empty((len(stored), stored.shape[1] * self.values), X.dtype, X)
            if out is None
            else out
        )
        bad = np.zeros(1, dtype=bool)
        with np.errstate(divide="ignore", invalid="ignore"):  # of numbers that are refused below
            self._signed_lift(stored, out, bad)
        if bad[0]:
            require_finite(type(self).__name__, X)
            require_nonnegative(type(self).__name__, X)
        return self._columns_of(X, out.ravel()) if sparse else out

    def columns(self, d: int) -> int:
        return d * self.values

    def _signed_lift(self, X: Array, out: Array, bad: Array) -> None:
        self.lift(np.abs(X) if self.odd else X, out, bad)
        for q in range(self.values if self.odd else 0):
            out[:, q :: self.values] *= np.sign(X)

    def _columns_of(self, X: Any, data: Array) -> Any:
        """The CSR matrix of lifted data: its rows stay sorted."""
        large = max(self.columns(X.shape[1]), len(data)) > np.iinfo(np.int32).max
        kind = np.dtype(np.int64) if large else X.indices.dtype
        indices = ops.spread(X.indices, np.empty((X.nnz, self.values), kind)).ravel()
        parts = (data, indices, X.indptr.astype(kind, copy=False) * kind.type(self.values))
        lifted = type(X)(parts, shape=(X.shape[0], self.columns(X.shape[1])))
        lifted.has_canonical_format = True
        return lifted


@dataclass(frozen=True, eq=False)
class SquareRoot(Lift):
    """x -> sqrt(x)."""

    values = 1

    def lift(self, X: Array, out: Array, bad: Array) -> None:
        np.sqrt(X, out=out)


@dataclass(frozen=True, eq=False)
class LogSkew(Lift):
    """x -> log(1 + x/skew): log(x + skew) up to a constant that shift-invariant kernels do not see,
    with 0 -> 0.
    """

    skew: float
    values = 1

    def check(self, d: int) -> None:
        require(0 < self.skew < np.inf, self, f"a skew above 0, got {self.skew}")

    def lift(self, X: Array, out: Array, bad: Array) -> None:
        np.log1p(X / X.dtype.type(self.skew), out=out)


@dataclass(frozen=True, eq=False)
class Shift(Stage):
    """x -> x + shift."""

    shift: float

    def check(self, d: int) -> None:
        require(bool(np.isfinite(self.shift)), self, f"a finite shift, got {self.shift}")

    def __call__(self, X: Any, out: Array | None = None) -> Array:
        return np.add(X.toarray() if hasattr(X, "indptr") else X, X.dtype.type(self.shift), out=out)


@dataclass(frozen=True, eq=False)
class SeriesLift(Lift):
    """x -> the direct chi2 series with these poles."""

    validates_input: ClassVar[bool] = True
    poles: Array
    signed: bool = False

    def check(self, d: int) -> None:
        super().check(d)
        good = self.poles.ndim == 1 and self.poles.size > 0 and self.poles.dtype == np.float64
        require(good and bool(np.all(self.poles > 0)), self, "poles above 0")

    @property
    def values(self) -> int:
        return len(self.poles)

    def lift(self, X: Array, out: Array, bad: Array) -> None:
        ops.chi2_series(X, self.poles, out, bad)


@dataclass(frozen=True, eq=False)
class ChebyshevLift(Lift):
    """x -> the Chebyshev series of chi2 about a center."""

    validates_input: ClassVar[bool] = True
    n_terms: int
    center: float
    signed: bool = False

    def check(self, d: int) -> None:
        good = 0 < self.n_terms < _TERMS and 0 < self.center < np.inf
        require(good, self, f"terms and a center above 0, got {self.n_terms} and {self.center}")

    @property
    def values(self) -> int:
        return self.n_terms

    def lift(self, X: Array, out: Array, bad: Array) -> None:
        ops.chi2_chebyshev(X, self.n_terms, self.center, out, bad)


@dataclass(frozen=True, eq=False)
class HomogeneousLift(Lift):
    """x -> x^(degree/2) (a_0, a_1 cos(h_1 L ln x), a_1 sin(h_1 L ln x), ...)."""

    validates_input: ClassVar[bool] = True
    amplitudes: Array
    harmonics: tuple[int, ...]
    step: float
    degree: float = 1.0
    signed: bool = False

    def check(self, d: int) -> None:
        super().check(d)
        count = len(self.harmonics)
        good = all(
            before < after for before, after in pairwise((0, *self.harmonics, 3 * count + 1))
        )
        good = (
            good and self.amplitudes.shape == (count + 1,) and self.amplitudes.dtype == np.float64
        )
        require(good, self, "rising harmonics, and an amplitude for each of them and for 0")
        good = 0 < self.step < np.inf and 0 < self.degree < np.inf
        require(good, self, f"a step and a degree above 0, got {self.step} and {self.degree}")

    @property
    def values(self) -> int:
        return 2 * len(self.harmonics) + 1

    def lift(self, X: Array, out: Array, bad: Array) -> None:
        harmonics = np.array(self.harmonics, dtype=np.int64)
        ops.homogeneous(X, self.amplitudes, harmonics, self.step, self.degree, out, bad)
