"""Torch forms of the ops on CSR rows, and conversions of sparse tensors."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from mercer.ops import reference
from mercer.ops.dispatch import Op, torch_form
from mercer.ops.torch.dense import exp2neg_
from mercer.ops.torch.device_array import TYPES, DeviceArray, tensor
from mercer.ops.torch.gram import gram_chi2, gram_intersection, gram_minmax


def to_dense(X: torch.Tensor) -> torch.Tensor:
    """Return a sparse tensor as a dense one, with validated indices."""
    index_names: dict[Any, Any] = {
        torch.sparse_csr: ("crow_indices", "col_indices"),
        torch.sparse_bsr: ("crow_indices", "col_indices"),
        torch.sparse_csc: ("ccol_indices", "row_indices"),
        torch.sparse_bsc: ("ccol_indices", "row_indices"),
    }
    try:
        if X.layout == torch.sparse_coo:
            torch.sparse_coo_tensor(X._indices(), X._values(), X.shape, check_invariants=True)
        elif X.layout in index_names:
            first, second = (getattr(X, name)() for name in index_names[X.layout])
            torch.sparse_compressed_tensor(
                first, second, X.values(), X.shape, layout=X.layout, check_invariants=True
            )
    except RuntimeError as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise ValueError(
            f"X is a malformed {X.layout} tensor: {reason}. Correct its indices; "
            "torch.sparse.check_sparse_tensor_invariants finds such tensors where they are made."
        ) from None
    return X.to_dense()


@torch_form(reference.csr_product)
def csr_product(
    indptr: Any, indices: Any, data: DeviceArray, W: Any, out: DeviceArray
) -> DeviceArray:
    values, panel = data.tensor, tensor(W, data.tensor)
    rows = _row_indices(tensor(indptr, values))
    out.tensor.zero_().index_add_(0, rows, values[:, None] * panel[tensor(indices, values).long()])
    return out


@torch_form(reference.csr_exp2neg)
def csr_exp2neg(
    indptr: Any,
    indices: Any,
    data: DeviceArray,
    W: Any,
    offsets: Any,
    scale: float,
    out: DeviceArray,
) -> DeviceArray:
    csr_product(indptr, indices, data, W, out)
    if offsets is not None:
        out.tensor.add_(tensor(offsets, out.tensor))
    return exp2neg_(out, scale)


@torch_form(reference.spread)
def spread(indices: DeviceArray, out: DeviceArray) -> DeviceArray:
    width = out.shape[1]
    steps = torch.arange(width, dtype=out.tensor.dtype, device=out.tensor.device)
    out.tensor.copy_(indices.tensor.to(out.tensor.dtype)[:, None] * width + steps)
    return out


def _torch_csr_gram(op: Op[..., Any], gram: Callable[..., DeviceArray]) -> None:
    """Register the torch form of a Gram op of CSR rows: that of dense rows on converted rows."""

    @torch_form(op)
    def form(
        X_indptr: Any,
        X_indices: Any,
        X_data: DeviceArray,
        Z_indptr: Any,
        Z_indices: Any,
        Z_data: Any,
        n_columns: int,
        out: DeviceArray,
    ) -> DeviceArray:
        like = X_data.tensor
        X = dense(tensor(X_indptr, like), tensor(X_indices, like), like, n_columns)
        Z = dense(tensor(Z_indptr, like), tensor(Z_indices, like), tensor(Z_data, like), n_columns)
        return gram(DeviceArray(X), DeviceArray(Z), out)


_torch_csr_gram(reference.gram_chi2_csr, gram_chi2)
_torch_csr_gram(reference.gram_intersection_csr, gram_intersection)
_torch_csr_gram(reference.gram_minmax_csr, gram_minmax)


def dense(
    indptr: torch.Tensor,
    indices: torch.Tensor,
    data: torch.Tensor,
    columns: int,
    empty: float = 0.0,
) -> Any:
    """Return the dense rows of a CSR matrix, with `empty` for entries that are not stored."""
    X = data.new_full((len(indptr) - 1, columns), empty)
    X[_row_indices(indptr), indices.long()] = data
    return X


def _row_indices(indptr: torch.Tensor) -> torch.Tensor:
    """Return the row of each stored entry."""
    counts = torch.diff(indptr.long())
    return torch.repeat_interleave(torch.arange(len(counts), device=indptr.device), counts)


def as_tensor(block: Any) -> torch.Tensor:
    """Return a block as a CSR tensor, with one entry for each code if its tables are one-hot."""
    tables: Any = getattr(block, "tables", None)  # of a coded block: OneHot or an array
    if tables is None or isinstance(tables, DeviceArray):
        with _no_sparse_warnings():
            return block.toarray().tensor.to_sparse_csr()
    columns = block._columns().tensor.long()
    n, places = columns.shape
    counts = torch.full((n,), places, device=columns.device)
    if block.empty is not None:
        counts[block.empty.tensor] = 0
        columns = columns[~block.empty.tensor]
    indptr = torch.cat((counts.new_zeros(1), torch.cumsum(counts, 0)))
    values = torch.full(
        (columns.numel(),), tables.scale, dtype=TYPES[block.dtype], device=columns.device
    )
    with _no_sparse_warnings():
        return torch.sparse_csr_tensor(
            indptr, columns.reshape(-1), values, block.shape, check_invariants=False
        )


@contextmanager
def _no_sparse_warnings() -> Iterator[None]:
    """Suppress torch's warning that CSR tensors are in beta state."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Sparse (CSR|invariant)", category=UserWarning)
        yield
