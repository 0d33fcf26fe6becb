"""Random projections x -> P x with E <P x, P z> = <x, z>."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer import ops
from mercer._typing import Array, is_csr
from mercer.errors import RowError
from mercer.maps.stages.base import Stage, require
from mercer.maps.stages.linear import Matrix, orthonormalize, require_signs, sample_independent
from mercer.parallel.tile_size import Cost
from mercer.rng import Rng

# The distance of a row of signs from the span of the rows before it, as a part of its length, below
# which it is a combination of them.
_DEPENDENT = 1e-9


@dataclass(frozen=True, eq=False)
class SampledHadamard(Stage):
    """x -> some rows of diag(lengths) H S x.

    It takes a Hadamard transform of p entries in place of m d multiply-adds.
    """

    signs: Array  # (1, 1, p), +1 or -1
    lengths: Array  # (p,)
    rows: Array  # (m,) different numbers below p

    def check(self, d: int) -> None:
        super().check(d)
        require_signs(self, self.signs, d)
        p = self.signs.shape[2]
        valid = self.signs.shape == (1, 1, p) and self.lengths.shape == (p,)
        require(valid, self, f"{p} signs and {p} lengths")
        valid = self.rows.ndim == 1 and self.rows.dtype == np.int64
        valid = valid and 0 < len(self.rows) == len(np.unique(self.rows))
        valid = valid and self.rows.min() >= 0 and self.rows.max() < p
        require(bool(valid), self, f"rows that are different numbers from 0 to {p - 1}")

    def __call__(self, X: Any, out: Array | None = None) -> Array:
        X = X.toarray() if is_csr(X) else X
        T = ops.empty((len(X), len(self.lengths)), X.dtype, X)
        T = ops.hadamard(X, self.signs, self.lengths, T)
        return np.take(T, self.rows, axis=1, out=out, mode="clip")

    def cost(self, d: int) -> Cost:
        p, m = len(self.lengths), len(self.rows)
        # a row made dense, its padded copy and its transform
        return Cost(p * (np.log2(p) + 1), 8.0 * (m + 3 * p), m)

    def max_norm(self) -> float:
        """Return max |w_j|: every row of H S has norm sqrt(p)."""
        return float(np.max(np.abs(self.lengths)) * np.sqrt(len(self.lengths)))


@dataclass(frozen=True, eq=False)
class CheckedProjection(Stage):
    """x -> P x; a RowError where an entry of P x exceeds `most` or the range of the dtype."""

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
            self._raise_row_error(X, T, limit)
        return T

    def cost(self, d: int) -> Cost:
        return self.linear.cost(d)

    def _raise_row_error(self, X: Any, T: Array, limit: float) -> None:
        row = int(np.flatnonzero(~(np.abs(T) <= limit).all(axis=1))[0])
        values = X[[row]].toarray()[0] if is_csr(X) else X[row]
        column = int(np.argmax(np.abs(values)))
        most = limit / self.linear.max_norm() / np.sqrt(len(values))
        raise RowError(
            row,
            f"Values too large for this projection: |x| below {most:.3g} is needed, got "
            f"{values[column]:g} at",
            f", column {column}. Scale the data (sklearn.preprocessing.StandardScaler).",
        )


def sample_projection(
    rng: Rng, method: str, rows: int, d: int, basis: Array | None = None
) -> Matrix | SampledHadamard:
    """Return P of a method, or P basis' where a basis is given.

    More rows extend fewer, up to the scale. The random sequences have names of their own, so that
    a map on the projected rows may have the same seed.
    """
    projection = _METHODS[method](rng, rows, d)
    return projection if basis is None else Matrix(projection(basis))


def _orthoprojector(rng: Rng, rows: int, d: int) -> Matrix:
    return Matrix(np.sqrt(d / rows) * orthonormalize(_normal(rng, rows, d))[0])


def _gaussian(rng: Rng, rows: int, d: int) -> Matrix:
    return Matrix(_normal(rng, rows, d) / np.sqrt(rows))


def _normal(rng: Rng, rows: int, d: int) -> Array:
    from scipy.special import ndtri

    return sample_independent(rng, rows, d, ndtri, "projection")


def _bernoulli(rng: Rng, rows: int, d: int) -> Matrix:
    """Return orthonormalized rows of signs.

    A row that is a combination of those before it, as happens for small d, is replaced by the next.
    """
    signs = rng.signs("projection", rows, d).T
    sampled = rows
    while True:
        panel, distances = orthonormalize(signs)
        dependent = np.flatnonzero(distances < _DEPENDENT * np.sqrt(d))
        if len(dependent) == 0:
            return Matrix(np.sqrt(d / rows) * panel)
        following = rng.signs("projection", 1, d, start=sampled * d).T
        signs = np.hstack([np.delete(signs, dependent[0], axis=1), following])
        sampled += 1


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
