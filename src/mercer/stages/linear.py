"""Linear stages, x -> W x, and the random matrices W: independent rows, orthogonal rows, low-discrepancy rows, Hadamard blocks.

Weights are drawn row by row, so that more rows keep the earlier ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer import ops
from mercer.door import RowError
from mercer.philox import Rng
from mercer.stages.base import Array, Stage

_LEAST_HADAMARD = (
    64  # below this size the rows of three HD products are too few to look independent (a bias of -.005 at 16)
)
_RESOLVED = 1 / 8  # the error of a phase, in turns, up to which a dtype is used for it
_SOBOL_BITS = 32
_SOBOL_COLUMNS = 21201  # columns for which direction numbers are known
_CHUNK = 2**22  # weights drawn in one go


@dataclass(frozen=True, eq=False)
class Matrix(Stage):
    """x -> W x. The panel is W', (d, m) in row order, which serves dense and CSR tiles alike."""

    panel: Array

    def __call__(self, X: Any, out: Array | None = None) -> Array:
        return np.asarray(X @ self.panel)

    def columns(self, d: int) -> int:
        return self.panel.shape[1]

    def flops(self, d: int) -> float:
        return float(self.panel.size)

    def reach(self) -> float:
        """max |w_j|, the most that the projection of a unit vector can be."""
        return float(np.sqrt(np.max(np.sum(np.square(self.panel), axis=0), initial=0.0)))


@dataclass(frozen=True, eq=False)
class Hadamard(Stage):
    """x -> W x for W = diag(lengths) H S H S H S in blocks of p rows: O(m log p) in place of O(m d) multiply-adds a row."""

    signs: Array  # (blocks, 3, p), +1 or -1
    lengths: Array  # (m,)

    def __call__(self, X: Any, out: Array | None = None) -> Array:
        rows = X.toarray() if hasattr(X, "indptr") else X
        return ops.hadamard(rows, self.signs, self.lengths, np.empty((len(rows), len(self.lengths)), rows.dtype))

    def columns(self, d: int) -> int:
        return len(self.lengths)

    def flops(self, d: int) -> float:
        blocks, _, p = self.signs.shape
        return 3.0 * blocks * p * (np.log2(p) + 1)

    def reach(self) -> float:
        """max |w_j|: every row of H S H S H S has norm p^(3/2)."""
        return float(np.max(np.abs(self.lengths), initial=0.0) * self.signs.shape[2] ** 1.5)


@dataclass(frozen=True, eq=False)
class Turns(Stage):
    """x -> W x in turns, for a cosine to follow.

    A phase t known to within eps |x| |w| is of use while that is far below one turn. Rows of float32 that go beyond are projected in
    float64 and brought back to (-1/2, 1/2]; rows that are beyond float64 too are refused: their cosines would be one constant.
    """

    linear: Matrix | Hadamard
    reach: float

    def __call__(self, X: Any, out: Array | None = None) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            T = self.linear(X)
        far = self._beyond(X, X.dtype)
        if len(far):
            rows = X[far].astype(np.float64)
            self._refuse(rows, far)
            t = self.linear.astype(np.float64)(rows)
            T[far] = t - np.rint(t)
        return T

    def columns(self, d: int) -> int:
        return self.linear.columns(d)

    def flops(self, d: int) -> float:
        return self.linear.flops(d)

    def arrays(self) -> dict[str, Array]:
        return self.linear.arrays()

    def astype(self, dtype: Any) -> Turns:
        return Turns(self.linear.astype(dtype), self.reach)

    def _largest(self, dtype: Any, d: int) -> float:
        """The largest entry of a row up to which the phases of this dtype are resolved."""
        return float(_RESOLVED / np.finfo(dtype).eps / np.sqrt(d) / max(self.reach, np.finfo(np.float64).tiny))

    def _beyond(self, X: Any, dtype: Any) -> Array:
        """The rows whose phases this dtype does not resolve."""
        most = self._largest(dtype, X.shape[1])
        values = X.data if hasattr(X, "indptr") else X
        if np.abs(values).max(initial=0.0) <= most:
            return np.empty(0, dtype=np.intp)
        largest = abs(X).max(axis=1)
        return np.flatnonzero((largest.toarray().ravel() if hasattr(largest, "toarray") else largest) > most)

    def _refuse(self, rows: Any, numbers: Array) -> None:
        beyond = self._beyond(rows, np.float64)
        if len(beyond):
            values = rows[[beyond[0]]].toarray()[0] if hasattr(rows, "indptr") else rows[beyond[0]]
            column = int(np.argmax(np.abs(values)))
            most = self._largest(np.float64, len(values))
            raise RowError(
                int(numbers[beyond[0]]),
                f"Values too large for this kernel: |x| below {most:.3g} is needed, got {values[column]:g} at",
                f", column {column}; beyond, a cosine of it has no digits left. "
                "Scale the data (sklearn.preprocessing.StandardScaler) or use a smaller gamma.",
            )


def independent(rng: Rng, rows: int, d: int, quantile: Callable[[Array], Array]) -> Array:
    """(d, rows) panel of independent weights, quantile(u) each."""
    panel = np.empty((d, rows))
    step = max(1, _CHUNK // max(d, 1))
    for start in range(0, rows, step):
        count = min(step, rows - start)
        panel[:, start : start + count] = quantile(rng.uniform("weights", count, d, start=start * d)).T
    return panel


def orthogonal(rng: Rng, rows: int, d: int) -> Array:
    """(d, rows) panel of standard normal weights made orthogonal in blocks of d: Haar rows times independent chi lengths."""
    from scipy.special import ndtri

    blocks = -(-rows // d)
    normals = independent(rng, blocks * d, d, ndtri)
    panel = np.empty((d, blocks * d))
    for block in range(blocks):
        columns = slice(block * d, (block + 1) * d)
        Q, R = np.linalg.qr(normals[:, columns])
        panel[:, columns] = Q * np.sign(np.diag(R))
    return panel[:, :rows] * rng.chi("lengths", d, rows)


def hadamard(rng: Rng, rows: int, d: int) -> Hadamard:
    """Standard normal weights by three Hadamard-times-signs products, each row with an independent chi length."""
    p = max(_LEAST_HADAMARD, 1 << (d - 1).bit_length())
    blocks = -(-rows // p)
    return Hadamard(rng.signs("signs", blocks, 3, p), rng.chi("lengths", p, rows) / p**1.5)


def sobol(rng: Rng, rows: int, d: int) -> Array:
    """(rows, d) points of a scrambled Sobol sequence, strictly inside the unit cube.

    The scramble is a random lower triangular matrix of bits for each column, then a random shift (Matousek); both come from rng.
    """
    from scipy.stats import qmc

    if d > _SOBOL_COLUMNS:
        raise ValueError(f"design='sobol' exists for at most {_SOBOL_COLUMNS} columns, got {d}. Use 'iid' or 'auto'.")
    points = qmc.Sobol(d, scramble=False, bits=_SOBOL_BITS).random_base2((rows - 1).bit_length())[:rows]
    x = (points * 2.0**_SOBOL_BITS).astype(np.uint64)
    words = rng.words("scramble", 0, d * (_SOBOL_BITS + 1)).reshape(d, _SOBOL_BITS + 1) >> np.uint64(64 - _SOBOL_BITS)
    y = np.zeros_like(x) ^ words[:, _SOBOL_BITS]
    for bit in range(_SOBOL_BITS):  # column `bit` of the triangular matrix: that bit itself, random bits below it
        place = np.uint64(_SOBOL_BITS - 1 - bit)
        column = (words[:, bit] & np.uint64((1 << int(place)) - 1)) | np.uint64(1 << int(place))
        y ^= np.where(x >> place & np.uint64(1), column, np.uint64(0))
    return (y.astype(np.float64) + 0.5) * 2.0**-_SOBOL_BITS
