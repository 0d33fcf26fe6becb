"""Symmetric systems in float64 on a device: eigenvectors, and Cholesky's factor with a bound on
what it can resolve.
"""

from __future__ import annotations

from typing import Any

import torch

from mercer.ops.torch.transfer import put

_STEPS = 5  # of the estimate of |A^-1|


def eigh(A: Any, where: torch.device) -> tuple[Any, Any]:
    """Eigenvalues, rising, and eigenvectors of an array of NumPy, which come back as such."""
    values, vectors = torch.linalg.eigh(put(A, where).tensor)
    return values.cpu().numpy(), vectors.cpu().numpy()


def solve(A: Any, alpha: float, B: Any, where: torch.device) -> Any:
    """(A + alpha I)^-1 B; None where A + alpha I is singular to rounding."""
    matrix = put(A, where).tensor
    matrix.diagonal().add_(alpha)
    size = float(matrix.abs().sum(0).max())
    factor, failed = torch.linalg.cholesky_ex(matrix)
    eps = len(matrix) * torch.finfo(matrix.dtype).eps
    if int(failed) or not size * _inverse_norm(factor) * eps < 1:
        return None
    return torch.cholesky_solve(put(B, where).tensor, factor).cpu().numpy()


def _inverse_norm(factor: torch.Tensor) -> float:
    """|A^-1|, the largest sum of a column, from below: Hager's method, as LAPACK's dpocon does
    it.
    """
    n = len(factor)
    x = torch.full((n, 1), 1 / n, dtype=factor.dtype, device=factor.device)
    found = 0.0
    for _ in range(_STEPS):
        y = torch.cholesky_solve(x, factor)
        found = max(found, float(y.abs().sum()))
        z = torch.cholesky_solve(torch.where(y < 0, -1.0, 1.0).to(y.dtype), factor)
        best = int(z.abs().argmax())
        if float(z[best].abs()) <= float((z * x).sum()):
            break
        x = torch.zeros_like(x)
        x[best] = 1
    return found
