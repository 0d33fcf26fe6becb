"""Torch forms of the links, Hadamard transforms and elementwise maps of reference.py."""

from __future__ import annotations

import math
from typing import Any

import torch

from mercer.ops import reference
from mercer.ops.dispatch import torch_form
from mercer.ops.torch import matmul, triton_dispatch
from mercer.ops.torch.device_array import DeviceArray, tensor
from mercer.ops.torch.triton_dispatch import hadamard_signs

_SIGNS = 128  # largest Hadamard matrix that rows are multiplied by


@torch_form(reference.cos_)
def cos_(T: DeviceArray, scale: float, phases: Any = None) -> DeviceArray:
    matmul.cos_(T.tensor, scale, _optional(phases, T.tensor))
    return T


@torch_form(reference.cossin)
def cossin(T: DeviceArray, scale: float, out: DeviceArray) -> DeviceArray:
    matmul.cossin(T.tensor, scale, out.tensor)
    return out


@torch_form(reference.exp2neg_)
def exp2neg_(T: DeviceArray, scale: float) -> DeviceArray:
    T.tensor.neg_().exp2_().mul_(scale)
    return T


@torch_form(reference.exp2neg_expanded_)
def exp2neg_expanded_(T: DeviceArray, rows: Any, columns: Any, scale: float) -> DeviceArray:
    sums = tensor(rows, T.tensor)[:, None] + tensor(columns, T.tensor)
    T.tensor.mul_(-scale).add_(sums).clamp_(min=0).neg_().exp2_()
    return T


@torch_form(reference.row_norm)
def row_norm(X: DeviceArray, out: DeviceArray) -> DeviceArray:
    x = X.tensor
    if x.shape[1]:
        largest = x.abs().amax(dim=1, keepdim=True)
        x = x / torch.where(largest > 0, largest, 1.0)
    norms = torch.sqrt(torch.sum(x * x, dim=1, keepdim=True))
    out.tensor.copy_(x / torch.where(norms > 0, norms, 1.0))
    return out


@torch_form(reference.product)
def product(X: DeviceArray, W: Any, out: DeviceArray) -> DeviceArray:
    matmul.matmul(X.tensor, tensor(W, X.tensor), out=out.tensor)
    return out


@torch_form(reference.inner_products)
def inner_products(X: DeviceArray, W: Any, out: DeviceArray) -> DeviceArray:
    matmul.matmul(X.tensor, tensor(W, X.tensor).T, out=out.tensor)
    return out


@torch_form(reference.weighted_sums)
def weighted_sums(R: DeviceArray, X: Any, out: DeviceArray) -> DeviceArray:
    matmul.matmul(R.tensor.T, tensor(X, R.tensor), out=out.tensor)
    return out


@torch_form(reference.product_cos)
def product_cos(X: DeviceArray, W: Any, scale: float, phases: Any, out: DeviceArray) -> DeviceArray:
    matmul.product_cos(
        X.tensor, tensor(W, X.tensor), scale, _optional(phases, X.tensor), out.tensor
    )
    return out


@torch_form(reference.product_cossin)
def product_cossin(X: DeviceArray, W: Any, scale: float, out: DeviceArray) -> DeviceArray:
    matmul.product_cossin(X.tensor, tensor(W, X.tensor), scale, out.tensor)
    return out


@torch_form(reference.hadamard)
def hadamard(X: DeviceArray, signs: Any, lengths: Any, out: DeviceArray) -> DeviceArray:
    rows, flips, scales = X.tensor, tensor(signs, X.tensor), tensor(lengths, X.tensor)
    if triton_dispatch.supports_hadamard(rows, flips, scales, out.tensor):
        triton_dispatch.hadamard(rows, flips, scales[: out.shape[1]], 1.0, None, out.tensor, 0)
        return out
    n, d = rows.shape
    p = flips.shape[2]
    for b, (first, *others) in enumerate(flips):
        stop = min((b + 1) * p, out.shape[1])
        work = rows.new_zeros((n, p))
        torch.mul(rows, first[:d], out=work[:, :d])
        work = _walsh(work)
        for other in others:
            work = _walsh(work.mul_(other))
        torch.mul(work[:, : stop - b * p], scales[b * p : stop], out=out.tensor[:, b * p : stop])
    return out


@torch_form(reference.hadamard_cos)
def hadamard_cos(
    X: DeviceArray, signs: Any, lengths: Any, scale: float, phases: Any, out: DeviceArray
) -> DeviceArray:
    rows, flips, scales = X.tensor, tensor(signs, X.tensor), tensor(lengths, X.tensor)
    if triton_dispatch.supports_hadamard(rows, flips, scales, out.tensor):
        triton_dispatch.hadamard(rows, flips, scales, scale, _optional(phases, rows), out.tensor, 1)
        return out
    return cos_(hadamard(X, signs, lengths, out), scale, phases)


@torch_form(reference.hadamard_cossin)
def hadamard_cossin(
    X: DeviceArray, signs: Any, lengths: Any, scale: float, out: DeviceArray
) -> DeviceArray:
    rows, flips, scales = X.tensor, tensor(signs, X.tensor), tensor(lengths, X.tensor)
    if triton_dispatch.supports_hadamard(rows, flips, scales, out.tensor):
        triton_dispatch.hadamard(rows, flips, scales, scale, None, out.tensor, 2)
        return out
    turns = DeviceArray(rows.new_empty((len(X), len(lengths))))
    return cossin(hadamard(X, signs, lengths, turns), scale, out)


@torch_form(reference.chi2_series)
def chi2_series(X: DeviceArray, poles: Any, out: DeviceArray, bad: Any = None) -> DeviceArray:
    x, k, target = X.tensor, tensor(poles, X.tensor), out.tensor
    if triton_dispatch.supports_lift(x, target, len(k)) and triton_dispatch.supports_poles(k):
        triton_dispatch.series(x, k, target, bad)
        return out
    _check_domain(x, bad)
    product = torch.ones_like(x)
    for q, pole in enumerate(k):
        target[:, q :: len(k)] = product * (2 * torch.sqrt(pole) * (x / (x + pole)))
        product *= (x - pole) / (x + pole)
    return out


@torch_form(reference.piecewise_cubic)
def piecewise_cubic(
    X: DeviceArray,
    table: Any,
    values: int,
    per_octave: int,
    first: int,
    out: DeviceArray,
    bad: Any = None,
) -> DeviceArray:
    x, coefficients, target = X.tensor, tensor(table, X.tensor), out.tensor
    u, e = torch.frexp(x)
    u = (2 * u - 1) * 2**per_octave
    pieces = 1 + (e.long() - 1 - first) * 2**per_octave + torch.floor(torch.nan_to_num(u)).long()
    inside = (x > 0) & (x < torch.inf) & (pieces > 0) & (pieces < len(coefficients))
    t = torch.where(inside, u - torch.floor(u) - 0.5, torch.where(x == 0, 0.0, torch.nan))
    if bad is not None:
        bad[0] = bool(torch.isnan(t).any())
    c = coefficients[torch.where(inside, pieces, 0)]
    for q in range(values):
        cubic = (c[:, :, 3, q] * t + c[:, :, 2, q]) * t + c[:, :, 1, q]
        target[:, q::values] = cubic * t + c[:, :, 0, q]
    return out


@torch_form(reference.chi2_chebyshev)
def chi2_chebyshev(
    X: DeviceArray, n_terms: int, center: float, out: DeviceArray, bad: Any = None
) -> DeviceArray:
    x, target = X.tensor, out.tensor
    if triton_dispatch.supports_lift(x, target, n_terms):
        triton_dispatch.chebyshev(x, n_terms, center, target, bad)
        return out
    _check_domain(x, bad)
    logs = _logs(x) - math.log(center)
    before, last = torch.zeros_like(x), 2 * math.sqrt(center) * (x / (x + center))
    for q in range(n_terms):
        if q == 1:
            before, last = last, (-math.sqrt(2) / math.pi) * logs * last
        elif q > 1:
            sign = 2 / math.pi if q % 2 == 0 else -2 / math.pi
            before, last = last, (sign * logs * last + (q - 2) * before) / q
        target[:, q::n_terms] = last
    return out


@torch_form(reference.homogeneous)
def homogeneous(
    X: DeviceArray,
    amplitudes: Any,
    harmonics: Any,
    step: float,
    degree: float,
    out: DeviceArray,
    bad: Any = None,
) -> DeviceArray:
    x, a, target = X.tensor, tensor(amplitudes, X.tensor), out.tensor
    width = 2 * len(harmonics) + 1
    if triton_dispatch.supports_lift(x, target, width):
        triton_dispatch.homogeneous(x, a, tensor(harmonics, x), step, degree, target, bad)
        return out
    _check_domain(x, bad)
    logs = _logs(x)
    root = torch.where(x == 0, x, torch.exp((degree / 2) * logs) if degree != 1 else torch.sqrt(x))
    target[:, 0::width] = a[0] * root
    for j, h in enumerate(harmonics):
        angle = (float(h) * step) * logs
        target[:, 2 * j + 1 :: width] = a[j + 1] * root * torch.cos(angle)
        target[:, 2 * j + 2 :: width] = a[j + 1] * root * torch.sin(angle)
    return out


def _check_domain(x: torch.Tensor, bad: Any) -> None:
    if bad is not None:
        bad[0] = x.numel() > 0 and not bool((x.amin() >= 0) & (x.amax() < torch.inf))


def _walsh(work: torch.Tensor) -> torch.Tensor:
    """Return H x for every row x, by products with the small Kronecker factors of H."""
    n, p = work.shape
    half = 1
    while half < p:
        size = min(_SIGNS, p // half)
        H = hadamard_signs(size, work.dtype, work.device)
        left, right = (work.view(-1, size), H) if half == 1 else (H, work.view(-1, size, half))
        work = matmul.full_precision_matmul(left, right).view(n, p)
        half *= size
    return work


def _logs(x: torch.Tensor) -> torch.Tensor:
    """Return ln x, and 0 where x is 0."""
    return torch.log(torch.where(x == 0, torch.ones_like(x), x))


def _optional(values: Any, like: torch.Tensor) -> torch.Tensor | None:
    return None if values is None else tensor(values, like)
