"""Eigenvectors and Cholesky solutions of symmetric float64 systems on a device."""

from __future__ import annotations

from typing import Any

import torch

from mercer.ops.torch.device_array import DeviceArray
from mercer.ops.torch.transfer import to_device

_STEPS = 5  # iterations of the estimate of |A^-1|


def eigh(A: Any, device: torch.device) -> tuple[Any, Any]:
    """Return eigenvalues, rising, and eigenvectors of an array, as NumPy arrays."""
    values, vectors = torch.linalg.eigh(_matrix(A, device))
    return values.cpu().numpy(), vectors.cpu().numpy()


def solve(A: Any, alpha: float, B: Any, device: torch.device) -> Any:
    """Return (A + alpha I)^-1 B, or None if A + alpha I is singular to rounding.

    A, where it is on the device, is changed and restored.
    """
    matrix = _matrix(A, device)
    diagonal = matrix.diagonal().clone()
    matrix.diagonal().add_(alpha)
    norm = float(torch.linalg.matrix_norm(matrix, 1))
    factor, failed = torch.linalg.cholesky_ex(matrix)
    matrix.diagonal().copy_(diagonal)
    eps = len(matrix) * torch.finfo(matrix.dtype).eps
    if int(failed) or not norm * _inverse_norm(factor) * eps < 1:
        return None
    return torch.cholesky_solve(to_device(B, device).tensor, factor).cpu().numpy()


def _matrix(A: Any, device: torch.device) -> torch.Tensor:
    return A.tensor if isinstance(A, DeviceArray) else to_device(A, device).tensor


def _inverse_norm(factor: torch.Tensor) -> float:
    """Return a lower bound of |A^-1|_1: Hager's method, as in LAPACK's dpocon."""
    n = len(factor)
    x = torch.full((n, 1), 1 / n, dtype=factor.dtype, device=factor.device)
    norm = 0.0
    for _ in range(_STEPS):
        y = torch.cholesky_solve(x, factor)
        norm = max(norm, float(y.abs().sum()))
        z = torch.cholesky_solve(torch.where(y < 0, -1.0, 1.0).to(y.dtype), factor)
        best = int(z.abs().argmax())
        if float(z[best].abs()) <= float((z * x).sum()):
            break
        x = torch.zeros_like(x)
        x[best] = 1
    return norm
