"""Fourier features: cosines and sines of projections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer import ops
from mercer._typing import Array, is_csr
from mercer.errors import RowError
from mercer.maps.stages.base import Stage, require
from mercer.maps.stages.elementwise import Cos, CosSin
from mercer.maps.stages.linear import Hadamard, Matrix
from mercer.parallel.tile_size import Cost
from mercer.rng import Rng
from mercer.validation.rows import value_range

_MAX_PHASE_ERROR = 1 / 8  # in turns, up to which a dtype is used for a phase


@dataclass(frozen=True, eq=False)
class FourierFeatures(Stage):
    """x -> link(W x): a projection in turns, and its cosines (and sines).

    The error of a phase t is about eps |x| |w|, and has to be far below one turn. Rows of float32
    for which it is not are projected in float64 and reduced to (-1/2, 1/2]; rows for which float64
    is not enough are rejected, since their cosines would be one constant.
    """

    linear: Matrix | Hadamard
    link: Cos | CosSin
    max_norm: float  # max |w_j|, in turns

    def check(self, d: int) -> None:
        self.linear.check(d)
        self.link.check(self.linear.cost(d).columns)
        norm = self.linear.max_norm()
        valid = abs(self.max_norm - norm) <= 1e-9 * norm < np.inf
        require(valid, self, f"a largest norm of {norm}, got {self.max_norm}")

    def __call__(self, X: Any, out: Array | None = None) -> Array:
        linear, link = self.linear, self.link
        if out is None:
            out = ops.empty((X.shape[0], self.cost(X.shape[1]).columns), X.dtype, X)
        with np.errstate(over="ignore", invalid="ignore"):
            if isinstance(linear, Hadamard):
                rows = X.toarray() if is_csr(X) else X
                if isinstance(link, Cos):
                    ops.hadamard_cos(
                        rows, linear.signs, linear.lengths, link.scale, link.phases, out
                    )
                else:
                    pairs = len(linear.lengths) - len(link.phase)
                    ops.hadamard_cossin(
                        rows, linear.signs, linear.lengths[:pairs], link.scale, out[:, : 2 * pairs]
                    )
                    if len(link.phase):
                        last = linear.last_row(rows)
                        out[:, 2 * pairs :] = ops.cos_(last, link.scale, link.phase)
            elif is_csr(X):
                link(linear(X, out if isinstance(link, Cos) else None), out)
            elif isinstance(link, Cos):
                ops.product_cos(X, linear.panel, link.scale, link.phases, out)
            elif len(link.phase):
                link(linear(X), out)
            else:
                ops.product_cossin(X, linear.panel, link.scale, out)
        least, largest = value_range(X)
        if not max(largest, -least) <= self.max_entry(X.dtype, X.shape[1]):  # NaN included
            unresolved = self._unresolved_rows(X, X.dtype)
            if len(unresolved):
                rows = X[unresolved].astype(np.float64)
                self._require_resolved(rows, unresolved)
                t = linear.astype(np.float64)(rows)
                out[unresolved] = link((t - np.rint(t)).astype(X.dtype))
        return out

    def vjp(self, X: Any, G: Array) -> Array:
        rows = X.toarray() if is_csr(X) else X
        return self.linear.vjp(rows, self.link.vjp(self.linear(rows), G))

    def smoothing_factors(self, width: float, d: int) -> Array:
        """Return s such that the sum of s_j c_j phi_j is f = c'phi convolved with N(0, width^2 I).

        s_j = exp(-width^2 |w_j|^2/2), w_j the frequency of feature j for d columns, in radians.
        """
        squared_norms = np.sum(np.square(self.linear.dense_panel(d)), axis=0)
        factors = np.exp(-2 * (np.pi * width) ** 2 * squared_norms)
        if isinstance(self.link, Cos):
            return factors
        pairs = len(factors) - len(self.link.phase)
        return np.concatenate([np.repeat(factors[:pairs], 2), factors[pairs:]])

    def cost(self, d: int) -> Cost:
        linear = self.linear.cost(d)
        link = self.link.cost(linear.columns)
        return Cost(linear.flops + link.flops, linear.bytes + link.bytes, link.columns)

    def max_entry(self, dtype: Any, d: int) -> float:
        """Return the largest entry of a row of d for which this dtype resolves the phases."""
        norm = max(self.max_norm, np.finfo(np.float64).tiny)
        return float(_MAX_PHASE_ERROR / np.finfo(dtype).eps / np.sqrt(d) / norm)

    def _unresolved_rows(self, X: Any, dtype: Any) -> Array:
        """Return the indices of the rows whose phases this dtype does not resolve."""
        sizes = abs(X).max(axis=1)
        sizes = sizes.toarray().ravel() if hasattr(sizes, "toarray") else sizes
        return np.flatnonzero(sizes > self.max_entry(dtype, X.shape[1]))

    def _require_resolved(self, rows: Any, numbers: Array) -> None:
        """Raise a RowError for the first row that float64 does not resolve."""
        unresolved = self._unresolved_rows(rows, np.float64)
        if not len(unresolved):
            return
        row = unresolved[0]
        values = rows[[row]].toarray()[0] if is_csr(rows) else rows[row]
        column = int(np.argmax(np.abs(values)))
        most = self.max_entry(np.float64, len(values))
        raise RowError(
            int(numbers[row]),
            f"Values too large for this kernel: |x| below {most:.3g} is needed, got "
            f"{values[column]:g} at",
            f", column {column}; beyond, a cosine of it has no digits left. Scale the data "
            "(sklearn.preprocessing.StandardScaler) or use a smaller gamma.",
        )


def count_frequencies(n_components: int, form: str) -> int:
    """Return the number of frequencies for so many columns of a form."""
    return -(-n_components // 2) if form == "paired" else n_components


def build_fourier_features(
    rng: Rng, projection: Matrix | Hadamard, n_components: int, form: str
) -> FourierFeatures:
    """Return sqrt(2/D) (cos, sin) of a projection in turns, or cosines with random phases.

    The first is the form "paired", the second "offset". When n_components is odd, the last column
    of the paired form is one offset feature: all columns then have equal weight, and the inner
    product stays unbiased.
    """
    scale = float(np.sqrt(2 / n_components))
    count = count_frequencies(n_components, form)
    link: Cos | CosSin
    if form == "paired":
        link = CosSin(scale, rng.uniform("phases", n_components % 2, start=count - 1))
    else:
        link = Cos(scale, rng.uniform("phases", count))
    return FourierFeatures(projection, link, projection.max_norm())
