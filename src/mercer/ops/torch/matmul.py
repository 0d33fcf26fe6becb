"""Matrix products in the chosen precision, and cosines of products."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import torch

from mercer.ops.torch import triton_dispatch

_precision: ContextVar[str] = ContextVar("precision", default="float32")


def current_precision() -> str:
    """Return the precision of float32 products: "float32", "tf32" or "bf16"."""
    return _precision.get()


@contextmanager
def use_precision(name: str) -> Iterator[None]:
    """Round the factors of float32 products to a shorter type inside the context.

    Sums stay float32; float64 products are not affected.
    """
    token = _precision.set(name)
    try:
        yield
    finally:
        _precision.reset(token)


def matmul(A: torch.Tensor, B: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """Return A B in the wider dtype of both; float32 in the precision in use."""
    dtype = torch.promote_types(A.dtype, B.dtype)
    A, B = A.to(dtype), B.to(dtype)
    if dtype == torch.float32 and current_precision() == "bf16":
        return _store(_bf16(A, B), out)
    with _tf32(current_precision() == "tf32"):
        if out is not None and out.dtype == dtype:
            return torch.matmul(A, B, out=out)
        return _store(torch.matmul(A, B), out)


def full_precision_matmul(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    """Return A B in the dtype of A and B, whatever the precision in use."""
    with _tf32(False):
        return torch.matmul(A, B)


def add_gram(Z: torch.Tensor, panels: Sequence[tuple[slice, torch.Tensor]]) -> None:
    """S += Z'Z; each panel holds some rows of S, from their diagonal on.

    All memory is allocated before the first sum changes.
    """
    bf16 = Z.dtype == torch.float32 and current_precision() == "bf16"
    factors = Z.to(torch.bfloat16) if bf16 else Z
    if Z.dtype == torch.float32 and current_precision() == "tf32":
        factors = _stored_by_columns(Z)
    buffer = Z.new_empty(max((panel.numel() for _, panel in panels), default=0))
    for rows, panel in panels:
        product = buffer[: panel.numel()].view(panel.shape)
        left, right = factors[:, rows].T, factors[:, rows.start :]
        if not bf16:
            matmul(left, right, out=product)
        elif Z.device.type == "cuda":
            torch.mm(left, right, out_dtype=torch.float32, out=product)
        else:
            torch.matmul(left.float(), right.float(), out=product)
        panel.add_(product)


def _stored_by_columns(Z: torch.Tensor) -> torch.Tensor:
    """Return Z, with rows of zeros up to a multiple of 32, the numbers of a column side by side.

    Tensor cores read factors in tf32 along the index of the sum, from aligned addresses: Z'Z of
    8192 x 8192 numbers takes 1.5 ms so, 3 ms by rows and 4 ms from unaligned columns.
    """
    n, m = Z.shape
    transposed = Z.new_empty((m, -(-n // 32) * 32))
    if triton_dispatch.supports(Z) and Z.stride(1) == 1:
        triton_dispatch.transpose(Z, transposed)
    else:
        transposed[:, :n] = Z.T
        transposed[:, n:] = 0
    return transposed.T


def einsum(words: str, *parts: torch.Tensor) -> torch.Tensor:
    """Return torch.einsum in the dtype of its parts, whatever the precision in use."""
    with _tf32(False):
        return torch.einsum(words, *parts)


@contextmanager
def _tf32(allowed: bool) -> Iterator[None]:
    """Set torch's switch for TF32, which is global to the process, and restore it."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def product_cos(
    X: torch.Tensor, W: torch.Tensor, scale: float, phases: torch.Tensor | None, out: torch.Tensor
) -> None:
    """out = scale cos(2 pi (X W + phases))."""
    if current_precision() == "tf32" and triton_dispatch.supports_fused_product(X, W, out):
        triton_dispatch.product(X, W, scale, phases, out, paired=False)
    else:
        cos_(matmul(X, W, out=out), scale, phases)


def product_cossin(X: torch.Tensor, W: torch.Tensor, scale: float, out: torch.Tensor) -> None:
    """out[:, 2j] and out[:, 2j + 1] = scale cos and scale sin of 2 pi X W."""
    if current_precision() == "tf32" and triton_dispatch.supports_fused_product(X, W, out):
        triton_dispatch.product(X, W, scale, None, out, paired=True)
    else:
        cossin(matmul(X, W), scale, out)


def cos_(T: torch.Tensor, scale: float, phases: torch.Tensor | None) -> torch.Tensor:
    """T <- scale cos(2 pi (T + phases)), in place."""
    if triton_dispatch.supports(T) and T.stride(-1) == 1:
        triton_dispatch.cos_(T, scale, phases)
        return T
    _fraction_(T)
    if phases is not None:
        T += phases - torch.round(phases)
        _fraction_(T)
    return T.mul_(2 * torch.pi).cos_().mul_(scale)


def cossin(T: torch.Tensor, scale: float, out: torch.Tensor) -> None:
    """out[:, 2j] and out[:, 2j + 1] = scale cos and scale sin of 2 pi T; T is overwritten."""
    if triton_dispatch.supports(T, out) and T.stride(-1) == 1 and out.stride(-1) == 1:
        triton_dispatch.cossin(T, scale, out)
        return
    _fraction_(T).mul_(2 * torch.pi)
    torch.mul(torch.cos(T), scale, out=out[:, 0::2])
    torch.mul(torch.sin(T), scale, out=out[:, 1::2])


def _fraction_(T: torch.Tensor) -> torch.Tensor:
    """T <- T - round(T), in place: exact."""
    return T.sub_(torch.round(T))


def _bf16(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    """Return A B with factors rounded to bfloat16 and sums in float32."""
    A, B = A.to(torch.bfloat16), B.to(torch.bfloat16)
    if A.device.type == "cuda" and A.ndim == B.ndim == 2:
        return torch.mm(A, B, out_dtype=torch.float32)
    return torch.matmul(A.float(), B.float())


def _store(result: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    return result if out is None else out.copy_(result)
