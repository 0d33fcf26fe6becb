"""Laplace features: decaying exponentials of projections."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer import ops
from mercer._typing import Array, is_csr
from mercer.maps.stages.base import Stage, require
from mercer.maps.stages.linear import Matrix
from mercer.parallel.tile_size import Cost

EXPONENTS = {
    "exponential": lambda x, beta: beta * np.sqrt(2 * x),
    "reciprocal": lambda x, beta: np.log1p(2 * x / beta),
}


@dataclass(frozen=True)
class Exponent:
    """Diagonal of a semigroup kernel, k(x, x) = exp(-sum_i term(x_i, beta))."""

    kernel: str  # a key of EXPONENTS
    beta: float

    def term(self, x: Array) -> Array:
        """Return -ln k(x, x) of single numbers."""
        return EXPONENTS[self.kernel](x, self.beta)

    def root_diagonal(self, X: Any, shift: float) -> Array:
        """Return sqrt(k(x + shift, x + shift)) for each row, in float64.

        CSR rows are summed over their stored entries.
        """
        base = float(self.term(np.array(shift)))
        values = X.data if is_csr(X) else X
        with np.errstate(over="ignore"):  # where a term overflows, the diagonal is 0
            terms = self.term(values.astype(np.float64) + shift) - base
        if is_csr(X):
            rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
            totals = np.bincount(rows, weights=terms, minlength=X.shape[0])
        else:
            totals = terms.sum(axis=1)
        return np.exp(-0.5 * (totals + X.shape[1] * base))


@dataclass(frozen=True, eq=False)
class LaplaceFeatures(Stage):
    """x -> exp(-W (x + shift))/sqrt(D), or scaled to |phi(x)|^2 = k(x + shift, x + shift).

    Weights are in bits: they include the factor log2 e. The shift is applied to the product, so
    that CSR rows stay sparse.
    """

    linear: Matrix
    offsets: Array  # W shift, in bits
    shift: float
    exponent: Exponent | None  # None: not scaled

    def check(self, d: int) -> None:
        super().check(d)
        self.linear.check(d)
        panel = getattr(self.linear, "panel", None)
        require(panel is None or bool(np.all(panel >= 0)), self, "weights of at least 0")
        columns = self.linear.cost(d).columns
        require(self.offsets.shape == (columns,), self, "an offset for each weight")
        require(0 <= self.shift < np.inf, self, f"a shift of at least 0, got {self.shift}")
        if self.exponent is not None:
            valid = self.exponent.kernel in EXPONENTS and 0 < self.exponent.beta < np.inf
            require(valid, self, f"a known exponent, got {self.exponent}")

    @classmethod
    def from_weights(cls, panel: Array, shift: float, exponent: Exponent | None) -> LaplaceFeatures:
        """Return the stage for a (d, D) panel of weights in natural units."""
        bits = panel * math.log2(math.e)
        return cls(Matrix(bits), shift * bits.sum(axis=0), shift, exponent)

    def __call__(self, X: Any, out: Array | None = None) -> Array:
        if self.exponent is None and is_csr(X):
            if out is None:
                out = ops.empty((X.shape[0], len(self.offsets)), X.dtype, X)
            offsets = self.offsets if self.shift else None
            scale = 1 / np.sqrt(out.shape[1])
            with np.errstate(over="ignore"):  # where a product overflows, its exponential is 0
                return ops.csr_exp2neg(
                    X.indptr, X.indices, X.data, self.linear.panel, offsets, scale, out
                )
        with np.errstate(over="ignore"):
            T = self.linear(X, out)
            if self.shift:
                T += self.offsets
        if self.exponent is None:
            return ops.exp2neg_(T, 1 / np.sqrt(T.shape[1]))
        # The smallest exponent is subtracted first: the norm neither over- nor underflows.
        least = T.min(axis=1, initial=np.inf)
        T -= np.where(np.isfinite(least), least, 0)[:, None]
        ops.exp2neg_(T, 1.0)
        norms = np.sqrt(np.einsum("ij,ij->i", T, T, dtype=np.float64))
        scales = self.exponent.root_diagonal(X, self.shift) / np.where(norms > 0, norms, 1)
        T *= scales.astype(T.dtype)[:, None]
        return T

    def cost(self, d: int) -> Cost:
        linear = self.linear.cost(d)
        return Cost(linear.flops + 8.0 * linear.columns, linear.bytes, linear.columns)
