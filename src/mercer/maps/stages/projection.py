"""Random projections, x -> P x with E <P x, P z> = <x, z>: fewer rows than columns, and rows that
no float can hold refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from mercer import ops
from mercer.errors import RowError
from mercer.maps.stages.base import Array, Stage, require
from mercer.maps.stages.linear import Matrix, independent, orthonormal, require_signs
from mercer.rng import Rng

# what a row of signs has beside the rows before it, as a part of its length, when it is a
# combination of them
_DEPENDENT = 1e-9


@dataclass(frozen=True, eq=False)
class SampledHadamard(Stage):
    """x -> diag(lengths) H S x at some rows: a Hadamard transform of p entries in place of m d
    multiply-adds.
    """

    signs: Array  # (1, 1, p), +1 or -1
    lengths: Array  # (p,)
    rows: Array  # (m,) different numbers below p

    def check(self, d: int) -> None:
        super().check(d)
        require_signs(self, self.signs, d)
        p = self.signs.shape[2]
        require(
            self.signs.shape == (1, 1, p) and self.lengths.shape == (p,),
            self,
            f"{p} signs and {p} lengths",
        )
        good = (
            self.rows.ndim == 1
            and self.rows.dtype == np.int64
            and 0 < len(self.rows) == len(np.unique(self.rows))
        )
        good = good and self.rows.min() >= 0 and self.rows.max() < p
        require(bool(good), self, f"rows that are different numbers from 0 to {p - 1}")

    def __call__(self, X: Any, out: Array | None = None) -> Array:
        X = X.toarray() if hasattr(X, "indptr") else X
        T = ops.hadamard(
            X, self.signs, self.lengths, ops.empty((len(X), len(self.lengths)), X.dtype, X)
        )
        return np.take(T, self.rows, axis=1, out=out, mode="clip")

    def columns(self, d: int) -> int:
        return len(self.rows)

    def flops(self, d: int) -> float:
        p = len(self.lengths)
        return p * (np.log2(p) + 1)

    def scratch(self, d: int) -> int:
        return 3 * len(self.lengths)  # a row made dense, its padded copy and its transform

    def reach(self) -> float:
        """max |w_j|: every row of H S has norm sqrt(p)."""
        return float(np.max(np.abs(self.lengths)) * np.sqrt(len(self.lengths)))


@dataclass(frozen=True, eq=False)
class Measured(Stage):
    """x -> P x; a row is refused, by its largest column, where an entry of P x is larger than
    `most` or than the dtype has.
    """

    linear: Matrix | SampledHadamard
    most: float = np.inf

    def check(self, d: int) -> None:
        self.linear.check(d)
        require(self.most > 0, self, f"a bound above 0, got {self.most}")

    def __call__(self, X: Any, out: Array | None = None) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            T = self.linear(X, out)
            limit = min(self.most, float(np.finfo(T.dtype).max))
            within = T.max(initial=0.0) <= limit and T.min(initial=0.0) >= -limit
        if not within:
            self._refuse(X, T, limit)
        return T

    def columns(self, d: int) -> int:
        return self.linear.columns(d)

    def flops(self, d: int) -> float:
        return self.linear.flops(d)

    def scratch(self, d: int) -> int:
        return self.linear.scratch(d)

    def arrays(self) -> dict[str, Array]:
        return self.linear.arrays()

    def astype(self, dtype: DTypeLike) -> Measured:
        return Measured(self.linear.astype(dtype), self.most)

    def _refuse(self, X: Any, T: Array, limit: float) -> None:
        row = int(np.flatnonzero(~(np.abs(T) <= limit).all(axis=1))[0])
        values = X[[row]].toarray()[0] if hasattr(X, "indptr") else X[row]
        column = int(np.argmax(np.abs(values)))
        most = limit / self.linear.reach() / np.sqrt(len(values))
        raise RowError(
            row,
            f"Values too large for this projection: |x| below {most:.3g} is needed, got "
            f"{values[column]:g} at",
            f", column {column}. Scale the data (sklearn.preprocessing.StandardScaler).",
        )


def projection(
    rng: Rng, method: str, rows: int, d: int, basis: Array | None = None
) -> Matrix | SampledHadamard:
    """P of the method, applied to the coefficients basis' x where a basis is given; more rows keep
    the earlier ones, up to the scale.

    Sequences have names of their own, so that a map on the projected rows may have the same seed.
    """
    made = _METHODS[method](rng, rows, d)
    return made if basis is None else Matrix(made(basis))


def _orthoprojector(rng: Rng, rows: int, d: int) -> Matrix:
    return Matrix(np.sqrt(d / rows) * orthonormal(_normal(rng, rows, d))[0])


def _gaussian(rng: Rng, rows: int, d: int) -> Matrix:
    return Matrix(_normal(rng, rows, d) / np.sqrt(rows))


def _normal(rng: Rng, rows: int, d: int) -> Array:
    from scipy.special import ndtri

    return independent(rng, rows, d, ndtri, "projection")


def _bernoulli(rng: Rng, rows: int, d: int) -> Matrix:
    """Rows of signs; one that is a combination of those before it, as happens for small d, gives
    way to the next.
    """
    signs = rng.signs("projection", rows, d).T
    drawn = rows
    while True:
        panel, beside = orthonormal(signs)
        dependent = np.flatnonzero(beside < _DEPENDENT * np.sqrt(d))
        if len(dependent) == 0:
            return Matrix(np.sqrt(d / rows) * panel)
        following = rng.signs("projection", 1, d, start=drawn * d).T
        signs = np.hstack([np.delete(signs, dependent[0], axis=1), following])
        drawn += 1


def _hadamard(rng: Rng, rows: int, d: int) -> SampledHadamard:
    p = 1 << (d - 1).bit_length()
    order = np.argsort(rng.words("projection rows", 0, p), kind="stable")
    return SampledHadamard(
        rng.signs("projection", 1, 1, p), np.full(p, 1 / np.sqrt(rows)), order[:rows]
    )


_METHODS: dict[str, Callable[[Rng, int, int], Matrix | SampledHadamard]] = {
    "orthoprojector": _orthoprojector,
    "bernoulli": _bernoulli,
    "gaussian": _gaussian,
    "hadamard": _hadamard,
}
METHODS = tuple(_METHODS)
