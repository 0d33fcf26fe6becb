"""Cosines of projections: the stage that all Fourier maps end with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer import ops
from mercer.errors import RowError
from mercer.maps.stages.base import Array, Stage, require
from mercer.maps.stages.linear import Hadamard, Matrix
from mercer.maps.stages.links import Cos, CosSin
from mercer.rng import Rng
from mercer.validation.rows import value_range

_RESOLVED = 1 / 8  # the error of a phase, in turns, up to which a dtype is used for it


@dataclass(frozen=True, eq=False)
class Waves(Stage):
    """x -> link(W x), a projection in turns and the cosines (and sines) of it.

    A phase t known to within eps |x| |w| is of use while that is far below one turn. Rows of
    float32 that go beyond are projected in float64 and brought back to (-1/2, 1/2]; rows that are
    beyond float64 too are refused: their cosines would be one constant.
    """

    linear: Matrix | Hadamard
    link: Cos | CosSin
    reach: float  # max |w_j|, in turns

    def check(self, d: int) -> None:
        self.linear.check(d)
        self.link.check(self.linear.columns(d))
        right = self.linear.reach()
        require(
            abs(self.reach - right) <= 1e-9 * right < np.inf,
            self,
            f"a reach of {right}, got {self.reach}",
        )

    def __call__(self, X: Any, out: Array | None = None) -> Array:
        out = ops.empty((X.shape[0], self.columns(X.shape[1])), X.dtype, X) if out is None else out
        with np.errstate(over="ignore", invalid="ignore"):
            if isinstance(self.linear, Hadamard):
                rows = X.toarray() if hasattr(X, "indptr") else X
                self.link.of_hadamard(rows, self.linear.signs, self.linear.lengths, out)
            elif hasattr(X, "indptr"):
                self.link(self.linear(X, out if isinstance(self.link, Cos) else None), out)
            else:
                self.link.of_product(X, self.linear.panel, out)
        far = self._beyond(X, X.dtype)
        if len(far):
            rows = X[far].astype(np.float64)
            self._refuse(rows, far)
            t = self.linear.astype(np.float64)(rows)
            out[far] = self.link((t - np.rint(t)).astype(X.dtype))
        return out

    def columns(self, d: int) -> int:
        return self.link.columns(self.linear.columns(d))

    def flops(self, d: int) -> float:
        return self.linear.flops(d) + self.link.flops(self.linear.columns(d))

    def scratch(self, d: int) -> int:
        return self.linear.columns(d) + self.linear.scratch(d)

    def arrays(self) -> dict[str, Array]:
        return self.linear.arrays() | self.link.arrays()

    def astype(self, dtype: Any) -> Waves:
        return Waves(self.linear.astype(dtype), self.link.astype(dtype), self.reach)

    def largest(self, dtype: Any, d: int) -> float:
        """The largest entry of a row up to which the phases of this dtype are resolved."""
        return float(
            _RESOLVED
            / np.finfo(dtype).eps
            / np.sqrt(d)
            / max(self.reach, np.finfo(np.float64).tiny)
        )

    def _beyond(self, X: Any, dtype: Any) -> Array:
        """The rows whose phases this dtype does not resolve."""
        most = self.largest(dtype, X.shape[1])
        least, largest = value_range(X)
        if max(largest, -least) <= most:
            return np.empty(0, dtype=np.intp)
        sizes = abs(X).max(axis=1)
        return np.flatnonzero(
            (sizes.toarray().ravel() if hasattr(sizes, "toarray") else sizes) > most
        )

    def _refuse(self, rows: Any, numbers: Array) -> None:
        beyond = self._beyond(rows, np.float64)
        if len(beyond):
            values = rows[[beyond[0]]].toarray()[0] if hasattr(rows, "indptr") else rows[beyond[0]]
            column = int(np.argmax(np.abs(values)))
            most = self.largest(np.float64, len(values))
            raise RowError(
                int(numbers[beyond[0]]),
                f"Values too large for this kernel: |x| below {most:.3g} is needed, got "
                f"{values[column]:g} at",
                f", column {column}; beyond, a cosine of it has no digits left. "
                "Scale the data (sklearn.preprocessing.StandardScaler) or use a smaller gamma.",
            )


def frequencies(n_components: int, form: str) -> int:
    """How many frequencies a form needs for that many columns."""
    return -(-n_components // 2) if form == "paired" else n_components


def waves(rng: Rng, projection: Matrix | Hadamard, n_components: int, form: str) -> Waves:
    """sqrt(2/D) times the cosines and sines (paired) or the cosines with independent phases
    (offset) of a projection in turns.

    When n_components is odd, the last column of the paired form is one offset feature: every column
    then has the same weight, and the inner product stays unbiased.
    """
    scale = float(np.sqrt(2 / n_components))
    count = frequencies(n_components, form)
    link: Cos | CosSin
    if form == "paired":
        link = CosSin(scale, rng.uniform("phases", n_components % 2, start=count - 1))
    else:
        link = Cos(scale, rng.uniform("phases", count))
    return Waves(projection, link, projection.reach())
