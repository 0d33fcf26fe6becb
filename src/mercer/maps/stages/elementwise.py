"""Elementwise stages: lifts of single numbers, links after a projection, and row norms.

A lift maps one number to several, side by side: column values * j + q holds value q of input j.
Zero stays zero, so that CSR stays CSR.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from mercer import ops
from mercer._typing import Array, is_csr
from mercer.maps.stages.base import Stage, require
from mercer.parallel.tile_size import Cost
from mercer.validation.rows import require_finite, require_nonnegative

_MAX_TERMS = 2**20  # of a series; a few dozen are enough for every dtype


@dataclass(frozen=True, eq=False)
class Lift(Stage):
    """x -> (lift_1(x_1), ..., lift_N(x_1), lift_1(x_2), ...); signed, sign(x) lift(|x|)."""

    keeps_sparse: ClassVar[bool] = True

    @property
    def values(self) -> int:
        """N, the number of values for each input."""
        raise NotImplementedError

    @property
    def odd(self) -> bool:
        """Whether negative numbers are mapped to sign(x) lift(|x|)."""
        return bool(getattr(self, "signed", False))

    def lift(self, X: Array, out: Array, bad: Array) -> None:
        """Write out[i, N j + q] = lift_q(X[i, j]).

        X has the magnitudes of a signed lift, else the input itself, in the domain of the map. A
        stage that validates its input gets any numbers and sets bad[0] to whether one is not in
        [0, inf).
        """
        raise NotImplementedError

    def __call__(self, X: Any, out: Array | None = None) -> Any:
        sparse = is_csr(X)
        stored = X.data[:, None] if sparse else X
        if out is None:
            out = ops.empty((len(stored), stored.shape[1] * self.values), X.dtype, X)
        bad = np.zeros(1, dtype=bool)
        with np.errstate(divide="ignore", invalid="ignore"):  # of numbers that are rejected below
            self._signed_lift(stored, out, bad)
        if bad[0]:
            require_finite(type(self).__name__, X)
            require_nonnegative(type(self).__name__, X)
        return self._lifted_csr(X, out.ravel()) if sparse else out

    def vjp(self, X: Any, G: Array) -> Array:
        """Return J(x)'g by central differences; the derivative at 0 is taken as 0.

        Each output depends on one number, so that two lifts of all rows are enough.
        """
        rows = X.toarray() if is_csr(X) else X
        step = np.finfo(rows.dtype).eps ** (1 / 3) * np.abs(rows)
        above, below = rows + step, rows - step
        width = np.where(step > 0, above - below, 1.0)[:, :, None]
        shape = (*rows.shape, self.values)
        slopes = (self(above).reshape(shape) - self(below).reshape(shape)) / width
        return np.einsum("ijq,...ijq->...ij", slopes, G.reshape(*G.shape[:-1], *shape[1:]))

    def cost(self, d: int) -> Cost:
        columns = d * self.values
        return Cost(8.0 * columns, 8.0 * columns, columns)

    def _signed_lift(self, X: Array, out: Array, bad: Array) -> None:
        self.lift(np.abs(X) if self.odd else X, out, bad)
        for q in range(self.values if self.odd else 0):
            out[:, q :: self.values] *= np.sign(X)

    def _lifted_csr(self, X: Any, data: Array) -> Any:
        """Return the CSR matrix of lifted data; column indices stay sorted."""
        columns = X.shape[1] * self.values
        large = max(columns, len(data)) > np.iinfo(np.int32).max
        kind = np.dtype(np.int64) if large else X.indices.dtype
        indices = ops.spread(X.indices, np.empty((X.nnz, self.values), kind)).ravel()
        parts = (data, indices, X.indptr.astype(kind, copy=False) * kind.type(self.values))
        lifted = type(X)(parts, shape=(X.shape[0], columns))
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
    """x -> log(1 + x/skew), with 0 -> 0.

    It is log(x + skew) up to a constant, which a shift-invariant kernel does not depend on.
    """

    skew: float
    values = 1

    def check(self, d: int) -> None:
        require(0 < self.skew < np.inf, self, f"a skew above 0, got {self.skew}")

    def lift(self, X: Array, out: Array, bad: Array) -> None:
        skew = X.dtype.type(self.skew)
        with np.errstate(over="ignore"):
            np.log1p(X / skew, out=out)
        if skew < 1 and np.isinf(out).any():  # x/skew is beyond the dtype, its logarithm is not
            out[...] = np.where(np.isinf(out), np.log(X) - np.log(skew), out)


@dataclass(frozen=True, eq=False)
class SeriesLift(Lift):
    """x -> terms of the direct chi2 series with these poles."""

    validates_input: ClassVar[bool] = True
    poles: Array
    signed: bool = False

    def check(self, d: int) -> None:
        super().check(d)
        valid = self.poles.ndim == 1 and self.poles.size > 0 and self.poles.dtype == np.float64
        require(valid and bool(np.all(self.poles > 0)), self, "poles above 0")

    @property
    def values(self) -> int:
        return len(self.poles)

    def lift(self, X: Array, out: Array, bad: Array) -> None:
        ops.chi2_series(X, self.poles, out, bad)


@dataclass(frozen=True, eq=False)
class ChebyshevLift(Lift):
    """x -> terms of the Chebyshev series of chi2 about a center."""

    validates_input: ClassVar[bool] = True
    n_terms: int
    center: float
    signed: bool = False

    def check(self, d: int) -> None:
        valid = 0 < self.n_terms < _MAX_TERMS and 0 < self.center < np.inf
        require(valid, self, f"terms and a center above 0, got {self.n_terms} and {self.center}")

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
        rising = all(a < b for a, b in pairwise((0, *self.harmonics, 3 * count + 1)))
        valid = self.amplitudes.shape == (count + 1,) and self.amplitudes.dtype == np.float64
        needs = "rising harmonics, and an amplitude for each of them and for 0"
        require(rising and valid, self, needs)
        valid = 0 < self.step < np.inf and 0 < self.degree < np.inf
        require(valid, self, f"a step and a degree above 0, got {self.step} and {self.degree}")

    @property
    def values(self) -> int:
        return 2 * len(self.harmonics) + 1

    def lift(self, X: Array, out: Array, bad: Array) -> None:
        harmonics = np.array(self.harmonics, dtype=np.int64)
        ops.homogeneous(X, self.amplitudes, harmonics, self.step, self.degree, out, bad)


@dataclass(frozen=True, eq=False)
class Shift(Stage):
    """x -> x + shift."""

    shift: float

    def check(self, d: int) -> None:
        require(bool(np.isfinite(self.shift)), self, f"a finite shift, got {self.shift}")

    def __call__(self, X: Any, out: Array | None = None) -> Array:
        return np.add(X.toarray() if is_csr(X) else X, X.dtype.type(self.shift), out=out)

    def vjp(self, X: Any, G: Array) -> Array:
        return np.broadcast_to(G, (*G.shape[:-2], *X.shape))


@dataclass(frozen=True, eq=False)
class Cos(Stage):
    """t_j -> scale cos(2 pi (t_j + phase_j)).

    It overwrites its input, which is a projection that nothing else refers to.
    """

    scale: float
    phases: Array

    def check(self, d: int) -> None:
        super().check(d)
        require(0 < self.scale < np.inf, self, f"a scale above 0, got {self.scale}")
        valid = self.phases.shape == (d,) and self.phases.dtype == np.float64
        require(valid, self, f"{d} phases, got an array of shape {self.phases.shape}")

    def __call__(self, X: Any, out: Array | None = None) -> Array:
        ops.cos_(X, self.scale, self.phases)
        return X if out is None or out is X else _copy(X, out)

    def vjp(self, X: Any, G: Array) -> Array:
        return -2 * np.pi * self.scale * np.sin(2 * np.pi * (X + self.phases)) * G


@dataclass(frozen=True, eq=False)
class CosSin(Stage):
    """t_1, t_2, ... -> scale (cos 2 pi t_1, sin 2 pi t_1, cos 2 pi t_2, ...).

    With one phase, the last t becomes a single cosine, scale cos(2 pi (t + phase)), and is
    overwritten.
    """

    scale: float
    phase: Array  # empty, or the phase of the last column

    def check(self, d: int) -> None:
        super().check(d)
        require(0 < self.scale < np.inf, self, f"a scale above 0, got {self.scale}")
        valid = self.phase.shape in ((0,), (1,)) and self.phase.dtype == np.float64
        valid = valid and len(self.phase) <= d
        require(valid, self, f"one phase or none, got an array of shape {self.phase.shape}")

    def __call__(self, X: Any, out: Array | None = None) -> Array:
        pairs = X.shape[1] - len(self.phase)
        if out is None:
            out = ops.empty((len(X), 2 * pairs + len(self.phase)), X.dtype, X)
        ops.cossin(X[:, :pairs], self.scale, out[:, : 2 * pairs])
        if len(self.phase):
            _copy(ops.cos_(X[:, pairs:], self.scale, self.phase), out[:, 2 * pairs :])
        return out

    def vjp(self, X: Any, G: Array) -> Array:
        pairs = X.shape[1] - len(self.phase)
        turns = 2 * np.pi * X[:, :pairs]
        first, second = G[..., 0 : 2 * pairs : 2], G[..., 1 : 2 * pairs : 2]
        slopes = 2 * np.pi * self.scale * (np.cos(turns) * second - np.sin(turns) * first)
        if not len(self.phase):
            return slopes
        last = Cos(self.scale, self.phase).vjp(X[:, pairs:], G[..., 2 * pairs :])
        return np.concatenate([slopes, last], axis=-1)

    def cost(self, d: int) -> Cost:
        columns = 2 * d - len(self.phase)
        return Cost(8.0 * columns, 8.0 * columns, columns)


@dataclass(frozen=True, eq=False)
class RowNorm(Stage):
    """x -> x / |x|; a zero row stays zero.

    Rows are divided by their largest entry first, so that no square over- or underflows.
    """

    keeps_sparse = True

    def __call__(self, X: Any, out: Array | None = None) -> Any:
        if not is_csr(X):
            return ops.row_norm(X, ops.empty(X.shape, X.dtype, X) if out is None else out)
        largest = abs(X).max(axis=1)
        largest = _divisor(largest.toarray().ravel() if hasattr(largest, "toarray") else largest)
        Z = X.copy()
        counts = np.diff(X.indptr)
        Z.data = Z.data / np.repeat(largest, counts)
        norms = _divisor(np.sqrt(np.asarray(Z.multiply(Z).sum(axis=1)).ravel()))
        Z.data /= np.repeat(norms, counts).astype(Z.dtype)
        return Z

    def vjp(self, X: Any, G: Array) -> Array:
        """Return (g - z z'g)/|x| with z = x/|x|; 0 at a zero row."""
        rows = X.toarray() if is_csr(X) else X
        Z = self(rows)
        norms = _divisor(np.einsum("ij,ij->i", Z, rows))[:, None]
        along = np.sum(Z * G, axis=-1, keepdims=True)
        return (G - along * Z) / norms * (Z != 0).any(axis=1, keepdims=True)


def _divisor(values: Array) -> Array:
    return np.where(values > 0, values, values.dtype.type(1))


def _copy(values: Array, out: Array) -> Array:
    out[...] = values
    return out
