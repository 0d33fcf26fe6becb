"""Choice and launch of Triton kernels: float32 on a CUDA device, if Triton is installed.

Functions named supports_* return whether a Triton kernel applies; the others launch it.
"""

from __future__ import annotations

import importlib.util
import math
from functools import cache
from typing import Any

import torch
from torch.utils.weak import WeakTensorKeyDictionary

# For each tensor of poles k: (k, 2 sqrt(k)), or None if the Triton kernel cannot use them.
_poles: Any = WeakTensorKeyDictionary()
_JENSEN_SHANNON = 6  # its KIND in triton_kernels._term
min_entries = 2**16  # entries from which a Triton kernel is worth its compilation; tests set 0
_RANGE = 2.0**-60, 2.0**60  # values whose products and sums are in the range of float32
_BLOCK = 8  # columns whose terms are summed before the total changes
_MAX_VALUES = 8  # values for each entry of an elementwise map
_ENTRIES, _REPEATS, _WARPS = 64, 2, 1  # elementwise maps: entries of a block, blocks, warps
_MIN_ROW, _MAX_ROW = 16, 8192  # columns of a Hadamard transform in shared memory
_MAX_DEPTH = 1024  # columns up to which the fused product is faster than torch


@cache
def has_triton() -> bool:
    """Return whether Triton is installed."""
    return importlib.util.find_spec("triton") is not None


def supports(*tensors: torch.Tensor) -> bool:
    """Return whether Triton kernels can use these tensors and are worth their compilation."""
    float32 = all(t.is_cuda and t.dtype == torch.float32 and t.numel() > 0 for t in tensors)
    return float32 and max(t.numel() for t in tensors) >= min_entries and has_triton()


def supports_fused_product(X: torch.Tensor, W: torch.Tensor, out: torch.Tensor) -> bool:
    """Return whether the product that takes cosines of its sums is faster than torch's."""
    contiguous = X.stride(1) == 1 == out.stride(1) and W.stride(0) == 1
    shallow = 0 < W.shape[0] <= _MAX_DEPTH
    return contiguous and shallow and supports(X, W, out) and _shared_memory(X.device) >= 196 * 1024


def product(
    X: torch.Tensor,
    W: torch.Tensor,
    scale: float,
    phases: torch.Tensor | None,
    out: torch.Tensor,
    *,
    paired: bool,
) -> None:
    """out = scale cos(2 pi (X W + phases)); cosines and sines if paired; in tf32."""
    (n, d), m = X.shape, W.shape[1]
    rows, columns = 128, 128 if paired else 256
    grid = (_ceil_div(n, rows) * _ceil_div(m, columns),)
    strides = X.stride(0), W.stride(1), out.stride(0)
    fixed = paired, phases is not None, rows, columns, 32, 8
    tensors = X, W, X if phases is None else phases, out
    _triton_kernels().product_kernel[grid](
        *tensors, scale, n, m, d, *strides, *fixed, num_warps=8, num_stages=4
    )


def cos_(T: torch.Tensor, scale: float, phases: torch.Tensor | None) -> None:
    n, m = T.shape
    grid = (_ceil_div(m, 1024), _ceil_div(n, 8))
    tensors, fixed = (T, T if phases is None else phases), (phases is not None, 8, 1024)
    _triton_kernels().cos_kernel[grid](*tensors, scale, n, m, T.stride(0), *fixed, num_warps=8)


def cossin(T: torch.Tensor, scale: float, out: torch.Tensor) -> None:
    n, m = T.shape
    grid = (_ceil_div(m, 512), _ceil_div(n, 8))
    _triton_kernels().cossin_kernel[grid](
        T, out, scale, n, m, T.stride(0), out.stride(0), 8, 512, num_warps=8
    )


def transpose(Z: torch.Tensor, out: torch.Tensor) -> None:
    """out = Z', followed by columns of zeros where it has more columns than Z has rows."""
    n, m = Z.shape
    grid = (_ceil_div(m, 64), _ceil_div(out.shape[1], 64))
    _triton_kernels().transpose_kernel[grid](
        Z, out, n, m, out.shape[1], Z.stride(0), out.stride(0), 64, 64, num_warps=8
    )


def supports_hadamard(
    x: torch.Tensor, signs: torch.Tensor, lengths: torch.Tensor, out: torch.Tensor
) -> bool:
    """Return whether all rounds of a Hadamard transform fit into shared memory."""
    contiguous = x.stride(-1) == 1 == out.stride(-1) and signs.is_contiguous()
    p = signs.shape[2]
    if not (contiguous and _MIN_ROW <= p <= _MAX_ROW and supports(x, signs, lengths, out)):
        return False
    # 28 bytes for an entry of a transform, and some more for small ones.
    return _shared_memory(x.device) >= max(28 * p, 80 * 1024)


def hadamard(
    x: torch.Tensor,
    signs: torch.Tensor,
    lengths: torch.Tensor,
    scale: float,
    phases: torch.Tensor | None,
    out: torch.Tensor,
    link: int,
) -> None:
    """out = the transform (link 0), its cosines (1), or its cosines and sines (2)."""
    from mercer.ops.torch import triton_hadamard

    (n, d), (_, rounds, p) = x.shape, signs.shape
    m, bits = len(lengths), p.bit_length() - 1
    A, B = (1 << (bits + 1) // 2, 1 << bits // 2) if p > 256 else (p // 16, 16)
    rows, warps = max(1, 4096 // p), 4 if p <= 1024 else 8
    fixed = A, B, max(A, 16), rows, rounds, link, phases is not None
    H = hadamard_signs(128, x.dtype, x.device)
    grid = (_ceil_div(n, rows), _ceil_div(m, p))
    tensors = x, signs, lengths, H, lengths if phases is None else phases, out
    limit = torch.finfo(x.dtype).max / 2 / float(p) ** rounds  # sums of such entries are finite
    triton_hadamard.hadamard_kernel[grid](
        *tensors, scale, limit, n, d, m, x.stride(0), out.stride(0), *fixed, num_warps=warps
    )


@cache
def hadamard_signs(size: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return the Hadamard matrix of signs, in Sylvester's order."""
    H = torch.ones((1, 1), dtype=dtype, device=device)
    while len(H) < size:
        H = torch.cat((torch.cat((H, H), 1), torch.cat((H, -H), 1)))
    return H


def supports_lift(x: torch.Tensor, out: torch.Tensor, values: int) -> bool:
    """Return whether an elementwise map with so many values runs in one pass."""
    contiguous = x.is_contiguous() and out.is_contiguous()
    return values <= _MAX_VALUES and supports(x, out) and contiguous


def supports_poles(poles: torch.Tensor) -> bool:
    """Return whether 1 / (x + pole) is in the range of float32; computed once for each tensor."""
    if poles not in _poles:
        in_range = bool(((poles >= 2.0**-100) & (poles <= 2.0**70)).all())
        factors = (2 * poles.double().sqrt()).to(poles.dtype)
        _poles[poles] = torch.cat((poles, factors)) if in_range else None
    return _poles[poles] is not None


def series(x: torch.Tensor, poles: torch.Tensor, out: torch.Tensor, bad: Any) -> None:
    _lift(x, _poles[poles], out, bad, 0, len(poles))


def chebyshev(x: torch.Tensor, n_terms: int, center: float, out: torch.Tensor, bad: Any) -> None:
    numbers = [center, 2 * math.sqrt(center), math.log(center)]
    _lift(x, torch.tensor(numbers, dtype=torch.float32, device=x.device), out, bad, 1, n_terms)


def homogeneous(
    x: torch.Tensor,
    amplitudes: torch.Tensor,
    harmonics: torch.Tensor,
    step: float,
    degree: float,
    out: torch.Tensor,
    bad: Any,
) -> None:
    steps = torch.cat((harmonics.new_zeros(1), harmonics)).double() * step
    numbers = torch.cat((amplitudes, steps.to(amplitudes.dtype)))
    _lift(x, numbers, out, bad, 2, 2 * len(harmonics) + 1, degree / 2)


def _lift(
    x: torch.Tensor,
    numbers: torch.Tensor,
    out: torch.Tensor,
    bad: Any,
    kind: int,
    values: int,
    exponent: float = 0.5,
) -> None:
    """Map full blocks of entries without a mask and the remainder with one.

    bad[0] becomes whether an entry is outside [0, inf).
    """
    fixed = kind, exponent == 0.5, values, 1 << (values - 1).bit_length(), _ENTRIES, _REPEATS
    count, block = x.numel(), _ENTRIES * _REPEATS
    invalid = torch.zeros(1, dtype=torch.int32, device=x.device)
    for first, programs, even in ((0, count // block, True), (count // block * block, 1, False)):
        if programs and first < count:
            _triton_kernels().lift_kernel[(programs,)](
                x, numbers, out, invalid, first, count, exponent, *fixed, even, num_warps=_WARPS
            )
    if bad is not None:
        bad[0] = bool(invalid)


def supports_gram(x: torch.Tensor, z: torch.Tensor, out: torch.Tensor) -> bool:
    """Return whether all values of a Gram block are far from the limits of float32."""
    return supports(x, z, out) and out.stride(-1) == 1 and _in_range(x) and _in_range(z)


def gram(kind: int, x: torch.Tensor, z: torch.Tensor, out: torch.Tensor) -> None:
    """out[i, j] = the sum over columns of the term of that KIND in triton_kernels._term."""
    rows, columns = 16, 128
    block = 4 if kind == _JENSEN_SHANNON else _BLOCK  # its terms need more registers
    left, right = _padded_transpose(x, rows), _padded_transpose(z, columns)
    (n, m), d = out.shape, len(left)
    grid = (_ceil_div(n, rows), _ceil_div(m, columns))
    strides = left.stride(0), right.stride(0), out.stride(0)
    _triton_kernels().gram_kernel[grid](
        left, right, out, n, m, d, *strides, kind, rows, columns, block, num_warps=4
    )


def codes(
    L: torch.Tensor,
    P: torch.Tensor,
    streams: torch.Tensor,
    ids: torch.Tensor,
    bits: int,
    keep_t: bool,
    out: torch.Tensor,
) -> None:
    """out = the codes of all hashes; a row without columns has the code 0."""
    (n, width), rows, unroll, hashes = L.shape, 32, 8, len(streams)
    d = _ceil_div(width, unroll) * unroll
    logs = L.new_full((d, _ceil_div(n, rows) * rows), -torch.inf)
    logs[:width, :n] = L.T
    if d > width:  # parameters for the padding
        P = torch.cat((P, P[:, :1].expand(-1, d - width, -1, -1)), 1)
    winners = torch.empty((n, hashes), dtype=torch.int32, device=L.device)
    levels = torch.empty((n, hashes), dtype=torch.float32, device=L.device)
    grid = (_ceil_div(n, rows), _ceil_div(hashes, 64))
    tensors, sizes = (logs, P.contiguous(), winners, levels), (n, d, hashes, logs.stride(0))
    _triton_kernels().winners_kernel[grid](
        *tensors, *sizes, rows, unroll, num_warps=4, enable_fp_fusion=False
    )
    count = n * hashes
    _triton_kernels().codes_kernel[(_ceil_div(count, 1024),)](
        winners, levels, streams, ids, winners, count, hashes, 64 - bits, keep_t, 1024, num_warps=4
    )
    out.copy_(winners)


@cache
def _shared_memory(device: torch.device) -> int:
    """Return the bytes of shared memory that a block may have."""
    properties = torch.cuda.get_device_properties(device)
    return int(getattr(properties, "shared_memory_per_block_optin", 0))


def _padded_transpose(x: torch.Tensor, rows: int) -> torch.Tensor:
    """Return x', padded with zeros to full blocks of columns and rows."""
    n, d = x.shape
    padded = x.new_zeros((_ceil_div(d, _BLOCK) * _BLOCK, _ceil_div(n, rows) * rows))
    padded[:d, :n] = x.T
    return padded


def _in_range(x: torch.Tensor) -> bool:
    low, high = _RANGE
    sizes = x.abs()
    return bool(((sizes == 0) | ((sizes >= low) & (sizes <= high))).all())


def _ceil_div(count: int, size: int) -> int:
    return -(-count // size)


def _triton_kernels() -> Any:
    from mercer.ops.torch import triton_kernels

    return triton_kernels
