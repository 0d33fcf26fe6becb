"""Torch forms of the Gram ops, in groups of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from mercer.ops import reference
from mercer.ops.dispatch import Op, torch_form
from mercer.ops.torch import triton_dispatch
from mercer.ops.torch.device_array import DeviceArray, tensor

_ENTRIES = 2**24  # terms (rows x rows x columns) in memory at once

Sum = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def _chi2(x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    a, b = torch.minimum(x, z), torch.maximum(x, z)
    return (a * (2 / (1 + _ratio(a, b)))).sum(-1)


def _chi2_distance(x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    a, b = torch.minimum(x, z), torch.maximum(x, z)
    return ((b - a) * (_ratio(b - a, b) / (1 + _ratio(a, b)))).sum(-1)


def _intersection(x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    return torch.minimum(x, z).sum(-1)


def _minmax(x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    a, b = torch.minimum(x, z), torch.maximum(x, z)
    if not b.shape[-1]:
        return a.sum(-1)
    largest = torch.clamp(b.amax(-1, keepdim=True), min=0)
    return _ratio(_ratio(a, largest).sum(-1), _ratio(b, largest).sum(-1))


def _jensen_shannon(x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    bit = 1 / (2 * torch.log(torch.tensor(2.0, dtype=torch.float64)).item())
    a, b = torch.minimum(x, z), torch.maximum(x, z)
    u = _ratio(a, b)
    far = u < torch.finfo(x.dtype).tiny
    log_u = torch.where(far, torch.log(a) - torch.log(b), torch.log(u))
    grown = torch.log1p(u)
    terms = torch.where(far, bit * a, b * (bit * grown)) + a * (bit * (grown - log_u))
    return torch.where(a == 0, torch.zeros_like(terms), terms).sum(-1)


def _l1(x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    return (x - z).abs().sum(-1)


def _l2(x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    return (x - z).square().sum(-1)


def _ratio(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return a / b, where 0 / 0 = 0."""
    return torch.where(b != 0, a / b, torch.zeros_like(a))


def _torch_gram(
    op: Op[..., Any], sum_of_terms: Sum, *, triton_kind: int | None = None
) -> Callable[..., DeviceArray]:
    """Register the torch form of a Gram op: a Triton kernel where it applies, else torch.

    triton_kind is the KIND of its term in triton_kernels.py, if there is one.
    """

    @torch_form(op)
    def form(X: DeviceArray, Z: Any, out: DeviceArray) -> DeviceArray:
        x, z, target = X.tensor, tensor(Z, X.tensor), out.tensor
        if triton_kind is not None and triton_dispatch.supports_gram(x, z, target):
            triton_dispatch.gram(triton_kind, x, z, target)
            return out
        step = max(1, _ENTRIES // max(1, z.numel()))
        for start in range(0, len(x), step):
            target[start : start + step] = sum_of_terms(x[start : start + step, None], z[None])
        return out

    return form


gram_chi2 = _torch_gram(reference.gram_chi2, _chi2, triton_kind=0)
gram_chi2_distance = _torch_gram(reference.gram_chi2_distance, _chi2_distance, triton_kind=1)
gram_intersection = _torch_gram(reference.gram_intersection, _intersection, triton_kind=2)
gram_jensen_shannon = _torch_gram(reference.gram_jensen_shannon, _jensen_shannon, triton_kind=6)
gram_l1 = _torch_gram(reference.gram_l1, _l1, triton_kind=4)
gram_l2 = _torch_gram(reference.gram_l2, _l2, triton_kind=5)
gram_minmax = _torch_gram(reference.gram_minmax, _minmax, triton_kind=3)
