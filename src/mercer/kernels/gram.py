"""gram(kernel, X, Z): exact Gram matrices tile by tile, by a fast op or the literal kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from mercer import ops
from mercer._typing import Array, is_csr
from mercer.errors import RowError
from mercer.kernels import (
    GMM,
    CallableKernel,
    Chi2,
    ComposedKernel,
    ExpChi2,
    Gaussian,
    Intersection,
    JensenShannon,
    Kernel,
    Laplacian,
    MinMax,
    Radial,
    Resemblance,
)
from mercer.kernels.base import OfScaledColumns
from mercer.parallel.device import (
    Device,
    device_of,
    device_tile_rows,
    for_each_device_tile,
    from_tensor,
    host_copies,
    is_tensor,
    prefetch,
    tensor_of,
    use_device,
)
from mercer.parallel.threads import for_each_tile, row_slices
from mercer.parallel.tile_size import Cost
from mercer.validation.rows import largest_entry, validate_rows

_FLOPS_PER_ENTRY = 4.0  # of a kernel, for one pair and one column, about
_TILE = 320  # rows of a tile: Z is packed once for each, which costs 5% here and 25% at 128
_ARRAYS = 4  # arrays of the size of a tile of K that are on a device at a time
# gamma (s(x) + s(z)) / (1 + gamma D) up to which D may be s(x) + s(z) - 2 k(x, z), and the largest
# gamma (s(x) + s(z)) for which that is tried.
_CANCELLATION, _MOST_EXPANDED = 4.0, 1000.0
_SPARSE_TILE = 512  # rows of a CSR matrix Z that are made dense at a time


@dataclass(frozen=True)
class _Fast:
    """K = finish(op(*prepare(X, Z))); csr is the op for CSR rows, where there is one."""

    op: Callable[[Array, Array, Array], Array]
    csr: Callable[..., Array] | None = None
    prepare: Callable[[Any, Any], tuple[Any, Any]] | None = None
    finish: Callable[[Array], Array] | None = None
    squares: bool = False  # float32 rows must have squares that float32 can hold


def gram(
    kernel: Kernel, X: Any, Z: Any = None, *, n_jobs: int | None = None, device: str | None = None
) -> Array:
    """K[i, j] = k(X[i], Z[j]), exact, with a few tiles of working memory.

    Parameters
    ----------
    kernel : Kernel
        One of ``mercer.kernels``, or a map's ``kernel_``.
    X, Z : array-like, sparse matrix or torch tensor of shape (n, d) and (m, d)
        Z is X when it is None. K is a tensor where X is one, on its device.
    n_jobs : int or None
        Threads; None and -1 use all that the process may use.
    device : {"cuda", "cuda:0", ..., "cpu"} or None
        The device, as in ``mercer.use_device``; None is the one that it has set.

    Returns
    -------
    K : array of shape (n, m)
        float32 when X and Z both are, otherwise float64. The relative error is 16 eps for additive
        and ratio kernels of dense rows, 16 eps (1 + gamma D) for exp(-gamma D).

    Examples
    --------
    >>> import mercer
    >>> mercer.gram(mercer.kernels.Intersection(), [[1.0, 2.0], [0.0, 3.0]])
    array([[3., 2.],
           [2., 3.]])
    """
    if not isinstance(kernel, Kernel):
        raise TypeError(f"gram needs a kernel such as mercer.kernels.Chi2(), got {kernel!r}.")
    if isinstance(kernel, CallableKernel) and device_of(from_tensor(X)) is not None:
        raise TypeError(f"{kernel!r} is a function of NumPy arrays and cannot run on a GPU.")
    if is_tensor(X):
        return tensor_of(gram(kernel, from_tensor(X), from_tensor(Z), n_jobs=n_jobs))
    with use_device(device):
        return _gram(kernel, X, from_tensor(Z), n_jobs)


def scale_first(kernel: Kernel, *rows: Any) -> tuple[Kernel, tuple[Any, ...]]:
    """Return a kernel of scaled columns as its outer kernel, and rows whose columns are scaled.

    Other kernels, and CSR rows that a center would make dense, are returned as they are.
    """
    if isinstance(kernel, OfScaledColumns | ComposedKernel) and kernel.inner.scales_columns:
        inner = kernel.inner
        if inner.keeps_zeros or not any(map(is_csr, rows)):
            return kernel.outer, tuple(map(inner._scale, rows))
    return kernel, rows


def _gram(kernel: Kernel, X: Any, Z: Any, n_jobs: int | None) -> Any:
    same = Z is None
    X = validate_rows("gram", X)
    Z = X if same else validate_rows("gram", Z)
    device = device_of(X)
    if device is not None and not ops.is_device(X):
        return _gram_on_device(kernel, X, Z, device)
    kernel.same_width(X, Z)
    for rows in (X,) if same else (X, Z):
        kernel.check(rows)
    dtype = np.result_type(X.dtype, Z.dtype)
    if device is None:
        kernel, (X, *others) = scale_first(kernel, *((X,) if same else (X, Z)))
        Z = X if same else others[0]
    fast = _fast_op(kernel)
    if fast is not None and fast.squares and dtype == np.float32:
        fast = fast if _squares_in_range(X) and _squares_in_range(Z) else None
    if fast is not None and fast.prepare is not None:
        X, Z = fast.prepare(X, Z)
    X, Z = X.astype(dtype, copy=False), Z.astype(dtype, copy=False)
    n, m, d = X.shape[0], Z.shape[0], X.shape[1]
    K = ops.empty((n, m), dtype, X)

    def work(rows: slice) -> None:
        for columns in row_slices(m, _SPARSE_TILE if is_csr(Z) else max(m, 1)):
            _tile(kernel, fast, X[rows], Z[columns], K[rows, columns])
        if np.isinf(K[rows]).any():
            i, j = map(int, np.argwhere(np.isinf(K[rows]))[0])
            row = i + rows.start
            column, value = largest_entry(X, row)
            after = f", column {column}, with row {j} of Z. Scale the data or use float64."
            raise RowError(row, f"{kernel!r} is beyond {dtype}: got {value:g} at", after)

    if device is None:
        for_each_tile(
            work, n, Cost(_FLOPS_PER_ENTRY * m * d, 8.0 * (m + d)), n_jobs, most_rows=_TILE
        )
    else:
        for_each_device_tile(work, n, device_tile_rows(_ARRAYS * 8.0 * (m + d), device), device)
    return K


@dataclass(frozen=True, eq=False)
class GramByExpansion:
    """K = exp(-gamma (s(x) + s(z) - 2 k(x, z))) of float64 tiles X, for Gaussian and ExpChi2.

    k(x, z) is an inner product of centered rows and s(x) = |x|^2, or the chi2 kernel and the sum of
    x. The difference loses digits where gamma (s(x) + s(z)) is far above 1 + gamma D: beyond 4
    times that, K is computed from D itself. What depends on Z alone is computed once.
    """

    kernel: Gaussian | ExpChi2
    Z: Array
    center: Array  # mean of the rows of Z; empty for ExpChi2
    panel: Array  # (Z - center)', row by row; empty for ExpChi2
    sizes: Array  # gamma s(z)

    @classmethod
    def of(cls, kernel: Kernel, Z: Any) -> GramByExpansion | None:
        """Return the expansion, or None for other kernels, sparse rows, float32 and devices."""
        if not isinstance(kernel, Gaussian | ExpChi2) or Z.dtype != np.float64:
            return None
        if is_csr(Z) or ops.is_device(Z):
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            if isinstance(kernel, ExpChi2):
                empty = np.empty(0)
                return cls(kernel, Z, empty, empty, kernel.gamma * Z.sum(axis=1))
            center = Z.mean(axis=0)
            right = Z - center
            sizes = kernel.gamma * np.einsum("ij,ij->i", right, right)
            return cls(kernel, Z, center, np.ascontiguousarray(right.T), sizes)

    def __call__(self, X: Any) -> Array | None:
        """Return K, or None for sparse rows and where gamma (s(x) + s(z)) is too large."""
        if is_csr(X) or X.dtype != np.float64:
            return None
        kernel, K = self.kernel, np.empty((len(X), len(self.Z)))
        with np.errstate(over="ignore", invalid="ignore"):
            if isinstance(kernel, Gaussian):
                left = X - self.center
                sizes = kernel.gamma * np.einsum("ij,ij->i", left, left)
            else:
                sizes = kernel.gamma * X.sum(axis=1)
            most = sizes + self.sizes.max(initial=0)
            direct = ~(most < _MOST_EXPANDED)
            if direct.all():
                return None
            if isinstance(kernel, Gaussian):
                ops.product(left, self.panel, K)
            else:
                ops.gram_chi2(X, self.Z, K)
            bit = 1 / np.log(2)
            ops.exp2neg_expanded_(K, bit * sizes, bit * self.sizes, 2 * kernel.gamma * bit)
        far = np.flatnonzero((most > _CANCELLATION) & ~direct)
        if len(far):  # gamma (s(x) + s(z)) > 4 (1 + gamma D), in terms of K = exp(-gamma D)
            bounds = np.exp(1 - sizes[far] / _CANCELLATION), np.exp(-self.sizes / _CANCELLATION)
            direct[far] = (np.multiply.outer(*bounds) < K[far]).any(axis=1)
        if direct.any():
            K[direct] = gram(kernel, X[direct], self.Z)
        return K


def _gram_on_device(kernel: Kernel, X: Any, Z: Any, device: Device) -> Array:
    """Return the Gram matrix of NumPy rows, by a device that holds Z and some rows of X."""
    n, m, d = X.shape[0], Z.shape[0], X.shape[1]
    K = np.empty((n, m), np.result_type(X.dtype, Z.dtype))
    back = host_copies(device)
    ((_, right),) = prefetch([Z], lambda rows: rows, device)
    step = device_tile_rows(_ARRAYS * 8.0 * (m + d), device, transferred=True)
    for span, left in prefetch(row_slices(n, step), lambda span: X[span], device):

        def work(rows: slice, span: slice = span, left: Any = left) -> None:
            at = slice(span.start + rows.start, span.start + rows.stop)
            try:
                back.start(_gram(kernel, left[rows], right, None), K[at])
            except RowError as error:
                raise error.with_offset(at.start) from None

        for_each_device_tile(work, left.shape[0], left.shape[0], device)
    back.finish()
    return K


def _tile(kernel: Kernel, fast: _Fast | None, X: Any, Z: Any, out: Array) -> None:
    """Write the Gram matrix of a tile into out."""
    if fast is None:
        with np.errstate(over="ignore"):
            try:
                out[...] = kernel(*(_shared_columns(X, Z) if kernel.ignores_zeros else (X, Z)))
            except TypeError:
                if not ops.is_device(X):
                    raise
                advice = "give its rows as NumPy arrays"
                raise TypeError(f"{kernel!r} cannot run on a GPU: {advice}.") from None
    else:
        if fast.csr is not None and is_csr(X) and is_csr(Z):
            parts = (X.indptr, X.indices, X.data, Z.indptr, Z.indices, Z.data)
            fast.csr(*parts, X.shape[1], out)
        else:
            left, right = _shared_columns(X, Z)
            fast.op(_dense(left), _dense(right), out)
        if fast.finish is not None:
            with np.errstate(over="ignore"):
                out[...] = fast.finish(out)


def _fast_op(kernel: Kernel) -> _Fast | None:
    """Return the fast op of a kernel, or None."""
    match kernel:
        case Chi2():
            return _Fast(ops.gram_chi2, ops.gram_chi2_csr)
        case Intersection():
            return _Fast(ops.gram_intersection, ops.gram_intersection_csr)
        case JensenShannon():
            return _Fast(ops.gram_jensen_shannon)
        case MinMax():
            return _Fast(ops.gram_minmax, ops.gram_minmax_csr)
        case GMM():
            split = partial(_signed_splits, kernel)
            return _Fast(ops.gram_minmax, ops.gram_minmax_csr, prepare=split)
        case Resemblance():
            return _Fast(ops.gram_minmax, ops.gram_minmax_csr, prepare=_presence)
        case Laplacian():
            return _Fast(ops.gram_l1, finish=lambda D: np.exp(-kernel.gamma * D))
        case ExpChi2():
            return _Fast(ops.gram_chi2_distance, finish=lambda D: np.exp(-kernel.gamma * D))
        case Radial():
            return _Fast(ops.gram_l2, finish=kernel.profile, squares=True)
        case ComposedKernel(outer=Radial() as outer, inner=Chi2()):
            return _Fast(ops.gram_chi2_distance, finish=outer.profile)
    return None


def _signed_splits(kernel: GMM, X: Any, Z: Any) -> tuple[Any, Any]:
    scale = kernel.scale(X, Z)
    return _signed_split(kernel, X, scale), _signed_split(kernel, Z, scale)


def _signed_split(kernel: GMM, X: Any, scale: float) -> Any:
    """Return the signed split of GMM; CSR stays CSR."""
    if not is_csr(X):
        return kernel.split(X.astype(np.float64, copy=False), scale)
    from scipy.sparse import hstack

    X = X.astype(np.float64) / scale
    parts = hstack([X.maximum(0), (-X).maximum(0)], format="csr")
    parts.sort_indices()
    parts.data **= kernel.power
    return parts


def _presence(X: Any, Z: Any) -> tuple[Any, Any]:
    """Return 1 for nonzero entries, 0 for others."""
    return (X != 0).astype(X.dtype), (Z != 0).astype(Z.dtype)


def _squares_in_range(X: Any) -> bool:
    """Return whether float32 holds the square of the largest magnitude of X."""
    stored = X.data if is_csr(X) else X
    largest = max(stored.max(initial=0), -stored.min(initial=0))
    return bool(largest == 0 or 1e-15 < largest < 1e15)


def _dense(X: Any) -> Array:
    return X.toarray() if is_csr(X) else X


def _shared_columns(X: Any, Z: Any) -> tuple[Any, Any]:
    """Return two CSR matrices without the columns that are zero in both, however wide they are."""
    if not (is_csr(X) and is_csr(Z)):
        return X, Z
    columns = np.union1d(X.indices, Z.indices)
    return X[:, columns], Z[:, columns]
