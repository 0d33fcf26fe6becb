"""Products of matrices in the precision that was asked for, and the cosines of a product."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import torch

from mercer.ops.torch import triton_dispatch

PRECISIONS = ("float32", "tf32", "bf16")
_precision: ContextVar[str] = ContextVar("precision", default="float32")


def current() -> str:
    """How products of float32 are made: "float32", or the shorter "tf32" and "bf16"."""
    return _precision.get()


@contextmanager
def precision(name: str) -> Iterator[None]:
    """Products of float32 by shorter numbers, inside; sums are float32 all the same. float64 stays
    float64.
    """
    token = _precision.set(name)
    try:
        yield
    finally:
        _precision.reset(token)


def matmul(A: torch.Tensor, B: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """A B, each in the wider type of both; float32 in the precision in use."""
    kind = torch.promote_types(A.dtype, B.dtype)
    A, B = A.to(kind), B.to(kind)
    if kind == torch.float32 and current() == "bf16":
        return _kept(_bf16(A, B), out)
    fits = out is not None and out.dtype == kind
    with _tf32(current() == "tf32"):
        return torch.matmul(A, B, out=out) if fits else _kept(torch.matmul(A, B), out)


def exact(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    """A B without shorter numbers, whatever the precision in use."""
    with _tf32(False):
        return torch.matmul(A, B)


def add_gram(Z: torch.Tensor, panels: Sequence[tuple[slice, torch.Tensor]]) -> None:
    """S += Z'Z, of which the panels keep the columns from their rows on. All memory is taken before
    the first sum is changed.
    """
    short = Z.to(torch.bfloat16) if Z.dtype == torch.float32 and current() == "bf16" else Z
    room = Z.new_empty(max((kept.numel() for _, kept in panels), default=0))
    for rows, kept in panels:
        found = room[: kept.numel()].view(kept.shape)
        left, right = short[:, rows].T, short[:, rows.start :]
        if short is Z:
            matmul(left, right, out=found)
        elif Z.device.type == "cuda":
            torch.mm(left, right, out_dtype=torch.float32, out=found)
        else:
            torch.matmul(left.float(), right.float(), out=found)
        kept.add_(found)


def einsum(words: str, *parts: torch.Tensor) -> torch.Tensor:
    """Sums of products, without shorter numbers."""
    with _tf32(False):
        return torch.einsum(words, *parts)


@contextmanager
def _tf32(allowed: bool) -> Iterator[None]:
    """torch's own switch is one for the whole process: it is set back at once."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def cos(
    X: torch.Tensor, W: torch.Tensor, scale: float, phases: torch.Tensor | None, out: torch.Tensor
) -> None:
    """out = scale cos(2 pi (X W + phases))."""
    if current() == "tf32" and triton_dispatch.fuses(X, W, out):
        triton_dispatch.product(X, W, scale, phases, out, paired=False)
    else:
        cos_(matmul(X, W, out=out), scale, phases)


def cossin(X: torch.Tensor, W: torch.Tensor, scale: float, out: torch.Tensor) -> None:
    """out[:, 2j] and out[:, 2j + 1] = scale cos and scale sin of 2 pi X W."""
    if current() == "tf32" and triton_dispatch.fuses(X, W, out):
        triton_dispatch.product(X, W, scale, None, out, paired=True)
    else:
        turns_(matmul(X, W), scale, out)


def cos_(T: torch.Tensor, scale: float, phases: torch.Tensor | None) -> torch.Tensor:
    """T <- scale cos(2 pi (T + phases)), in place."""
    if triton_dispatch.take(T) and T.stride(-1) == 1:
        triton_dispatch.cos_(T, scale, phases)
        return T
    fraction_(T)
    if phases is not None:
        T += phases - torch.round(phases)
        fraction_(T)
    return T.mul_(2 * torch.pi).cos_().mul_(scale)


def turns_(T: torch.Tensor, scale: float, out: torch.Tensor) -> None:
    """Cosines and sines of turns, side by side; T is working space."""
    if triton_dispatch.take(T, out) and T.stride(-1) == 1 and out.stride(-1) == 1:
        triton_dispatch.cossin(T, scale, out)
        return
    fraction_(T).mul_(2 * torch.pi)
    torch.mul(torch.cos(T), scale, out=out[:, 0::2])
    torch.mul(torch.sin(T), scale, out=out[:, 1::2])


def fraction_(T: torch.Tensor) -> torch.Tensor:
    """t - round(t), in place: exact."""
    return T.sub_(torch.round(T))


def _bf16(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    """Products of numbers rounded to bfloat16, summed in float32."""
    short, other = A.to(torch.bfloat16), B.to(torch.bfloat16)
    if A.device.type == "cuda" and A.ndim == B.ndim == 2:
        return torch.mm(short, other, out_dtype=torch.float32)
    return torch.matmul(short.float(), other.float())


def _kept(found: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    return found if out is None else out.copy_(found)
