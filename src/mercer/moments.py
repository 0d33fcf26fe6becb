"""Moments: what least squares, principal components and their cross-validation need to know of all rows."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from mercer.blocks import Block, matrix
from mercer.summaries import Array, frequency_weights

_SQUARES_TO_FLOAT32 = 1e15  # entries up to which sums of squares stay well inside float32


class Moments:
    """n, sum z, sum z z', and with a target sum y, sum y y', sum z y', about a shift, in float64.

    Each block is centred by its own mean before its products are made in its own dtype, and moved to the common shift in float64: a
    large mean, or one that wanders, costs no digits. Moments can be subtracted, so that a fold can be left out without a second pass.
    With wide, float32 rows are taken to float64 first: what is small beside the rest then keeps its digits.
    """

    def __init__(self, *, wide: bool = False) -> None:
        self.wide = wide
        self.rows = 0
        self.n = 0.0
        self.targets: int | None = None  # columns of y, once rows were seen; 0 without a target
        self._shift: Array = np.empty(0)  # of (z, y)
        self._sum: Array = np.empty(0)  # sum w ((z, y) - shift)
        self._products: Array = np.empty((0, 0))  # sum w (z - shift)(z - shift)'
        self._cross: Array = np.empty((0, 0))  # sum w (z - shift)(y - shift)'
        self._squares: Array = np.empty((0, 0))  # sum w (y - shift)(y - shift)'

    @np.errstate(over="ignore", invalid="ignore")  # beyond float64 it is infinite or NaN, for the caller to see
    def add(self, block: Block, y: Array | None = None, weight: Array | None = None, start: int = 0) -> None:
        n, D = block.shape
        w = frequency_weights(n, weight)
        Y = np.empty((n, 0)) if y is None else _targets(n, y)
        self._must_fit(D, Y.shape[1])
        if w.sum() == 0:
            return
        part = Moments(wide=self.wide)
        part.rows, part.n, part.targets = (
            int(np.count_nonzero(w)) if weight is not None else n,
            float(w.sum()),
            Y.shape[1],
        )
        Z, mean = _centred(block, w, self.wide)
        y_mean = w @ Y / part.n
        Y = Y - y_mean
        part._shift = np.concatenate([mean, y_mean])
        part._sum = np.concatenate([np.asarray(Z.T @ w.astype(Z.dtype), dtype=np.float64), w @ Y])
        weighted = Z if weight is None else _scale_rows(Z, w)
        part._products = np.asarray(_dense(weighted.T @ Z), dtype=np.float64)
        part._cross = np.asarray(Z.T @ (Y * w[:, None]), dtype=np.float64)
        part._squares = (Y * w[:, None]).T @ Y
        self.__dict__.update(part.__dict__ if self.targets is None else (self + part).__dict__)

    @property
    def mean(self) -> Array:
        """sum w z / n."""
        return (self._shift + self._sum / self._known_n())[: len(self._products)]

    @property
    def scatter(self) -> Array:
        """sum w (z - mean)(z - mean)'."""
        total = self._sum[: len(self._products)]
        return self._products - np.outer(total, total / self._known_n())

    @property
    def target_mean(self) -> Array:
        """sum w y / n."""
        self._known_target()
        return (self._shift + self._sum / self._known_n())[len(self._products) :]

    @property
    def target_scatter(self) -> Array:
        """sum w (y - mean)(y - mean)'."""
        self._known_target()
        total = self._sum[len(self._products) :]
        return self._squares - np.outer(total, total / self._known_n())

    @property
    def cross(self) -> Array:
        """sum w (z - mean)(y - mean)', one column for each target."""
        self._known_target()
        D = len(self._products)
        return self._cross - np.outer(self._sum[:D], self._sum[D:] / self._known_n())

    def __add__(self, other: Moments) -> Moments:
        return self._combine(other, +1)

    def __sub__(self, other: Moments) -> Moments:
        return self._combine(other, -1)

    @np.errstate(over="ignore", invalid="ignore")
    def _combine(self, other: Moments, sign: int) -> Moments:
        if other.targets is None:
            return copy.deepcopy(self)
        if self.targets is None:
            if sign < 0:
                raise ValueError("Moments of rows cannot be taken from moments of no rows.")
            return copy.deepcopy(other)
        D = len(self._products)
        self._must_fit(len(other._products), other.targets)
        step = other._shift - self._shift  # other's sums, as they would be about our shift
        moved = other._sum + other.n * step
        z, y = slice(0, D), slice(D, None)
        merged = Moments(wide=self.wide)
        merged.rows, merged.n = self.rows + sign * other.rows, self.n + sign * other.n
        merged.targets, merged._shift = self.targets, self._shift
        merged._sum = self._sum + sign * moved
        merged._products = self._products + sign * _moved(other._products, other._sum[z], moved[z], step[z], step[z])
        merged._cross = self._cross + sign * _moved(other._cross, other._sum[z], moved[y], step[z], step[y])
        merged._squares = self._squares + sign * _moved(other._squares, other._sum[y], moved[y], step[y], step[y])
        return merged

    def _must_fit(self, columns: int, targets: int) -> None:
        if self.targets is not None and (columns, targets) != (len(self._products), self.targets):
            raise ValueError(
                f"Moments of {len(self._products)} columns and {self.targets} targets do not combine with rows of {columns} columns "
                f"and {targets} targets."
            )

    def _known_n(self) -> float:
        if self.targets is None:
            raise ValueError("These Moments have not seen a row.")
        return self.n

    def _known_target(self) -> None:
        self._known_n()
        if self.targets == 0:
            raise ValueError("These Moments have not seen a target.")


def _moved(products: Array, a: Array, b_moved: Array, a_step: Array, b_step: Array) -> Array:
    """sum (a + a_step)(b + b_step)' from sum a b', sum a and sum (b + b_step)."""
    return products + np.outer(a, b_step) + np.outer(a_step, b_moved)


def _centred(block: Block, w: Array, wide: bool) -> tuple[Any, Array]:
    """The rows about their mean, and that mean as it was subtracted. CSR rows stay as they are, about 0, in float64.

    float32 rows whose products might leave float32, or all when wide, are taken to float64 first.
    """
    rows = matrix(block)
    if hasattr(rows, "indptr"):
        return rows.astype(np.float64), np.zeros(block.shape[1])
    if (
        wide
        or rows.dtype.kind != "f"
        or (rows.dtype == np.float32 and np.abs(rows).max(initial=0) > _SQUARES_TO_FLOAT32)
    ):
        rows = rows.astype(np.float64)
    mean = (w @ rows / w.sum()).astype(rows.dtype)
    return rows - mean, mean.astype(np.float64)


def _targets(n: int, y: Array) -> Array:
    Y = np.asarray(y, dtype=np.float64)
    if Y.shape[:1] != (n,) or Y.ndim > 2:
        raise ValueError(
            f"A block of {n} rows needs {n} targets (or {n} rows of them), got an array of shape {Y.shape}."
        )
    return Y.reshape(n, -1)


def _dense(products: Any) -> Array:
    return products.toarray() if hasattr(products, "indptr") else products


def _scale_rows(rows: Any, w: Array) -> Any:
    w = w.astype(rows.dtype)
    return rows.multiply(w[:, None]).tocsr() if hasattr(rows, "indptr") else rows * w[:, None]
