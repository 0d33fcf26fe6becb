"""Where a kernel of our own is used instead of torch: float32 on a CUDA device, with Triton there. `written` has the kernels."""

from __future__ import annotations

import torch


def take(*tensors: torch.Tensor) -> bool:
    return False


def lifts(x: torch.Tensor, out: torch.Tensor, values: int) -> bool:
    return False


def grams(name: str, x: torch.Tensor, z: torch.Tensor, out: torch.Tensor) -> bool:
    return False
