"""Pairs of rows: kernel values, inner products of features, and where their difference comes
from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.kernels import Kernel
from mercer.maps.base import Map
from mercer.maps.block import as_block, at_home, matrix
from mercer.parallel import devices
from mercer.parallel.threads import one_blas_thread, spans
from mercer.parallel.tile_size import blocks_in, worth_keeping
from mercer.rng import Rng

Array = NDArray[Any]
Pairs = tuple[Array, Array]


class ZeroKernelError(ValueError):
    """The exact kernel is 0 for every pair, so that no error can be relative to it."""


@dataclass(frozen=True, eq=False)
class Measured:
    """Differences over pairs, one number for each: errors = sampling + bias + rounding where the
    limit is known.

    Attributes
    ----------
    exact : array
        k(x, z).
    errors : array
        <phi(x), phi(z)> - k(x, z), in the dtype of the rows.
    sampling : array or None
        <phi(x), phi(z)> - limit(x, z), in float64; None where the limit has no closed form.
    bias : array or None
        limit(x, z) - k(x, z).
    rounding : array
        <phi(x), phi(z)> in the dtype of the rows less the same in float64.
    """

    exact: Array
    errors: Array
    sampling: Array | None
    bias: Array | None
    rounding: Array

    def part(self, differences: Array | None) -> float | None:
        """sqrt(sum differences^2/sum k^2)."""
        return (
            None if differences is None else float(np.sqrt(np.sum(differences**2) / self.total()))
        )

    def relative(self, confidence: float) -> tuple[float, tuple[float, float]]:
        """The relative error, and its interval by the delta method on the logarithm of the ratio of
        two means.
        """
        from scipy.special import ndtri

        self.total()
        A, B = self.errors**2, self.exact**2
        if not A.any():
            return 0.0, (0.0, 0.0)
        ratio = float(A.mean() / B.mean())
        spread = np.std(A / A.mean() - B / B.mean(), ddof=1) / np.sqrt(len(A))
        half = float(ndtri(0.5 + confidence / 2) * spread / 2)
        return float(np.sqrt(ratio)), (
            float(np.sqrt(ratio) * np.exp(-half)),
            float(np.sqrt(ratio) * np.exp(half)),
        )

    def total(self) -> float:
        """sum k^2.

        Raises
        ------
        ZeroKernelError
            Where it is 0.
        """
        total = float(np.sum(self.exact**2))
        if total == 0:
            raise ZeroKernelError(
                "The exact kernel is 0 for every pair of these rows: no error is relative to it."
            )
        return total


def drawn_pairs(n: int, count: int, seed: int) -> Pairs:
    """i and j != i, uniform over all pairs of n rows, with replacement."""
    u = Rng(seed).uniform("pairs", 2, count)
    i = np.minimum((u[0] * n).astype(np.int64), n - 1)
    step = 1 + np.minimum((u[1] * (n - 1)).astype(np.int64), n - 2)
    return i, (i + step) % n


def measure(fitted: Map, rows: Any, pairs: Pairs) -> Measured:
    """The differences of a fitted map over pairs of rows that it has let in."""
    kernel, limit = fitted.kernel_, fitted.limit_
    exact = kernel_values(kernel, rows, pairs)
    reached = (
        exact if limit == kernel else None if limit is None else kernel_values(limit, rows, pairs)
    )

    def features(rows: Any) -> Any:
        return at_home(fitted._transform_block(devices.sent(rows)))

    products = inner_products(features, rows, pairs)
    wide = products
    if rows.dtype != np.float64:
        wide = inner_products(features, rows.astype(np.float64), pairs)
    return Measured(
        exact,
        products - exact,
        None if reached is None else wide - reached,
        None if reached is None else reached - exact,
        products - wide,
    )


def kernel_values(kernel: Kernel, rows: Any, pairs: Pairs) -> Array:
    """k(x, z) for each pair, in float64; some pairs at a time."""
    i, j = pairs
    if not (hasattr(rows, "indptr") and kernel.ignores_zeros):
        size = blocks_in(8 * 4 * rows.shape[1])
        return np.concatenate(
            [kernel.pairs(rows[i[part]], rows[j[part]]) for part in spans(len(i), size)]
        )
    size = blocks_in(8 * 8 * max(1, int(np.diff(rows.indptr).max(initial=0))))
    return np.concatenate(
        [kernel.pairs(*_closed_up(rows[i[part]], rows[j[part]])) for part in spans(len(i), size)]
    )


def _closed_up(A: Any, B: Any) -> Pairs:
    """Rows of two CSR matrices as arrays in which row k of both has the columns that either of them
    stores, then zeros.

    Pairs have columns of their own, which kernels that ignore zeros do not see.
    """
    n, d = A.shape
    numbers = np.arange(n)
    cells = [
        np.repeat(numbers, np.diff(one.indptr)) * d + one.indices.astype(np.int64) for one in (A, B)
    ]
    known = np.unique(np.concatenate(cells))
    starts = np.searchsorted(known // d, numbers)
    width = int(np.diff(starts, append=len(known)).max(initial=0))
    made = []
    for one, cell in zip((A, B), cells, strict=True):
        dense = np.zeros((n, max(width, 1)))
        dense[cell // d, np.searchsorted(known, cell) - starts[cell // d]] = one.data
        made.append(dense)
    return made[0], made[1]


def inner_products(features: Callable[[Any], Any], rows: Any, pairs: Pairs) -> Array:
    """<phi(x), phi(z)> for each pair, summed in float64; the features of all rows at once where
    they are few, else pair by pair.
    """
    i, j = pairs
    row = as_block(matrix(features(rows[:1]))).nbytes + 8 * rows.shape[1]
    parts = []
    with one_blas_thread():
        kept = matrix(features(rows)) if worth_keeping(row * rows.shape[0]) else None
        for part in spans(len(i), blocks_in(4 * row)):
            A, B = (
                matrix(features(rows[which[part]])) if kept is None else kept[which[part]]
                for which in (i, j)
            )
            parts.append(row_products(A, B))
    return np.concatenate(parts)


def row_products(A: Any, B: Any) -> Array:
    """The inner product of each row of A with that of B, in float64."""
    if hasattr(A, "indptr"):
        return np.asarray(A.astype(np.float64).multiply(B.astype(np.float64)).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", A, B, dtype=np.float64)


def gram_error(kernel: Kernel, rows: Any, Z: Any, pairs: int = 20_000, seed: int = 0) -> float:
    """sqrt(sum (<phi(x), phi(z)> - k(x, z))^2/sum k(x, z)^2) over pairs of different rows drawn
    with replacement; Z has their features.
    """
    chosen = drawn_pairs(rows.shape[0], pairs, seed)
    exact = kernel_values(kernel, rows, chosen)
    return float(
        np.sqrt(np.sum((inner_products(as_block, Z, chosen) - exact) ** 2) / np.sum(exact**2))
    )
