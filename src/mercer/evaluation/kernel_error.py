"""Errors of a map over pairs of rows: sampling, bias and rounding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer._typing import Array, is_csr
from mercer.kernels import Kernel
from mercer.kernels.gram import scale_first
from mercer.maps.base import Map
from mercer.maps.block import as_block, block_to_host, matrix
from mercer.parallel.device import to_current_device
from mercer.parallel.threads import one_blas_thread, row_slices
from mercer.parallel.tile_size import fits_in_cache, items_per_tile
from mercer.rng import Rng

Pairs = tuple[Array, Array]

_MATRIX_PRODUCTS = 32  # of a product of matrices, which take as long as one of two gathered rows


class ZeroKernelError(ValueError):
    """Exact kernel that is 0 for every pair, so that no error can be relative to it."""


@dataclass(frozen=True, eq=False)
class PairErrors:
    """errors = sampling + bias + rounding, one number for each pair.

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
        if differences is None:
            return None
        return float(np.sqrt(np.sum(differences**2) / self.total()))

    def relative(self, confidence: float) -> tuple[float, tuple[float, float]]:
        """Return the relative error and its interval.

        By the delta method on the logarithm of the ratio of two means.
        """
        from scipy.special import ndtri

        total = self.total()
        A, B = self.errors**2, self.exact**2
        if not A.any():
            return 0.0, (0.0, 0.0)
        ratio = float(np.sum(A) / total)
        spread = np.std(A / A.mean() - B / B.mean(), ddof=1) / np.sqrt(len(A))
        half = float(ndtri(0.5 + confidence / 2) * spread / 2)
        error = float(np.sqrt(ratio))
        return error, (error * float(np.exp(-half)), error * float(np.exp(half)))

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


def draw_pairs(n: int, count: int, seed: int) -> Pairs:
    """Draw i and j != i, uniform over all pairs of n rows, with replacement."""
    u = Rng(seed).uniform("pairs", 2, count)
    i = np.minimum((u[0] * n).astype(np.int64), n - 1)
    step = 1 + np.minimum((u[1] * (n - 1)).astype(np.int64), n - 2)
    return i, (i + step) % n


def measure(
    fitted: Map,
    rows: Any,
    pairs: Pairs,
    *,
    keep_features: bool | None = None,
    values: Callable[[Kernel, Any, Pairs], Array] | None = None,
) -> PairErrors:
    """Measure the errors of a fitted map over pairs of validated rows.

    keep_features: as in ``inner_products``. values: in place of ``kernel_values``.
    """
    kernel, limit, values = fitted.kernel_, fitted.limit_, values or kernel_values
    exact = values(kernel, rows, pairs)
    expected = exact if limit == kernel else None
    if expected is None and limit is not None:
        expected = values(limit, rows, pairs)

    def features(rows: Any) -> Any:
        return block_to_host(fitted._transform_block(to_current_device(rows)))

    products = inner_products(features, rows, pairs, keep_features)
    wide = products
    if rows.dtype != np.float64:
        wide = inner_products(features, rows.astype(np.float64), pairs, keep_features)
    return PairErrors(
        exact,
        products - exact,
        None if expected is None else wide - expected,
        None if expected is None else expected - exact,
        products - wide,
    )


def kernel_values(kernel: Kernel, rows: Any, pairs: Pairs) -> Array:
    """Return k(x, z) for each pair, in float64, computed in batches of pairs."""
    i, j = pairs
    if is_csr(rows):
        kernel, (rows,) = scale_first(kernel, rows)
    if not (is_csr(rows) and kernel.ignores_zeros):
        size = items_per_tile(8 * 4 * rows.shape[1])
        return np.concatenate(
            [kernel.pairs(rows[i[part]], rows[j[part]]) for part in row_slices(len(i), size)]
        )
    size = items_per_tile(8 * 8 * max(1, int(np.diff(rows.indptr).max(initial=0))))
    return np.concatenate(
        [
            kernel.pairs(*_compress(rows[i[part]], rows[j[part]]))
            for part in row_slices(len(i), size)
        ]
    )


def _compress(A: Any, B: Any) -> Pairs:
    """Return dense rows of two CSR matrices on the columns that either row of a pair stores.

    The columns differ from pair to pair, which does not change kernels that ignore zeros.
    """
    n, d = A.shape
    numbers = np.arange(n)
    cells = [
        np.repeat(numbers, np.diff(rows.indptr)) * d + rows.indices.astype(np.int64)
        for rows in (A, B)
    ]
    stored = np.unique(np.concatenate(cells))
    starts = np.searchsorted(stored // d, numbers)
    width = int(np.diff(starts, append=len(stored)).max(initial=0))
    dense = np.zeros((2, n, max(width, 1)))
    for out, rows, cell in zip(dense, (A, B), cells, strict=True):
        out[cell // d, np.searchsorted(stored, cell) - starts[cell // d]] = rows.data
    return dense[0], dense[1]


def inner_products(
    features: Callable[[Any], Any], rows: Any, pairs: Pairs, keep_features: bool | None = None
) -> Array:
    """Return <phi(x), phi(z)> for each pair, summed in float64.

    keep_features: whether to compute the features of all rows once, instead of those of each
    batch of pairs; None chooses by their bytes. Dense features of few rows have all products
    computed as a matrix.
    """
    i, j = pairs
    first = matrix(features(rows[:1]))
    row = as_block(first).nbytes + 8 * rows.shape[1]
    parts = []
    with one_blas_thread():
        few = rows.shape[0] ** 2 <= _MATRIX_PRODUCTS * len(i)
        if keep_features is None and few and not is_csr(first):
            Z = np.asarray(matrix(features(rows)), np.float64)
            return np.asarray((Z @ Z.T)[i, j])
        if keep_features is None:
            keep_features = fits_in_cache(row * rows.shape[0])
        kept = matrix(features(rows)) if keep_features else None
        for part in row_slices(len(i), items_per_tile(4 * row)):
            A, B = (
                matrix(features(rows[which[part]])) if kept is None else kept[which[part]]
                for which in (i, j)
            )
            parts.append(row_products(A, B))
    return np.concatenate(parts)


def row_products(A: Any, B: Any) -> Array:
    """Return the inner product of each row of A with that of B, in float64."""
    if is_csr(A):
        return np.asarray(A.astype(np.float64).multiply(B.astype(np.float64)).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", A, B, dtype=np.float64)


def gram_error(kernel: Kernel, rows: Any, Z: Any, pairs: int = 20_000, seed: int = 0) -> float:
    """sqrt(sum (<phi(x), phi(z)> - k(x, z))^2/sum k(x, z)^2) over pairs of different rows.

    Z has the features of the rows; pairs are drawn with replacement.
    """
    chosen = draw_pairs(rows.shape[0], pairs, seed)
    exact = kernel_values(kernel, rows, chosen)
    errors = inner_products(as_block, Z, chosen) - exact
    return float(np.sqrt(np.sum(errors**2) / np.sum(exact**2)))
