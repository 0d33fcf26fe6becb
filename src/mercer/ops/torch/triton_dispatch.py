"""Where a kernel of our own is used instead of torch: float32 on a CUDA device, with Triton there.
triton_kernels.py has the kernels.
"""

from __future__ import annotations

import importlib.util
import math
from functools import cache
from typing import Any

import torch
from torch.utils.weak import WeakTensorKeyDictionary

_poles: Any = (
    WeakTensorKeyDictionary()
)  # poles -> what the kernel reads, None where it cannot be used
_TERMS = (
    "gram_chi2",
    "gram_chi2_distance",
    "gram_intersection",
    "gram_minmax",
    "gram_l1",
    "gram_l2",
    "gram_jensen_shannon",
)
least = 2**16  # entries from which a kernel of our own is worth its compilation
_RANGE = 2.0**-60, 2.0**60  # numbers whose products and sums float32 holds
_BLOCK = 8  # columns whose terms are summed apart
_VALUES = 8  # of a lift, at most
_ENTRIES, _TIMES, _WARPS = 64, 2, 1  # of a lift: entries at once, how often, and warps for them
_LEAST_ROW, _MOST_ROW = 16, 8192  # columns of a Hadamard transform that is made on the chip
_DEEPEST = 1024  # columns up to which our own product is the faster one


@cache
def there() -> bool:
    """Whether Triton is installed."""
    return importlib.util.find_spec("triton") is not None


def take(*tensors: torch.Tensor) -> bool:
    """Whether kernels of our own can work on these."""
    known = all(t.is_cuda and t.dtype == torch.float32 and t.numel() > 0 for t in tensors)
    return known and max(t.numel() for t in tensors) >= least and there()


def fuses(X: torch.Tensor, W: torch.Tensor, out: torch.Tensor) -> bool:
    """Whether our own product, which takes the cosines of its sums in passing, is faster than that
    of torch and a second pass.
    """
    lies = X.stride(1) == 1 == out.stride(1) and W.stride(0) == 1
    return (
        lies and 0 < W.shape[0] <= _DEEPEST and take(X, W, out) and _shared(X.device) >= 196 * 1024
    )


def product(
    X: torch.Tensor,
    W: torch.Tensor,
    scale: float,
    phases: torch.Tensor | None,
    out: torch.Tensor,
    *,
    paired: bool,
) -> None:
    """out = the cosines of X W, or its cosines and sines, in tf32."""
    (n, d), m = X.shape, W.shape[1]
    rows, columns = 128, 128 if paired else 256
    grid = (_parts(n, rows) * _parts(m, columns),)
    strides = X.stride(0), W.stride(1), out.stride(0)
    fixed = paired, phases is not None, rows, columns, 32, 8
    _kernels().product_kernel[grid](
        X,
        W,
        X if phases is None else phases,
        out,
        scale,
        n,
        m,
        d,
        *strides,
        *fixed,
        num_warps=8,
        num_stages=4,
    )


def cos_(T: torch.Tensor, scale: float, phases: torch.Tensor | None) -> None:
    n, m = T.shape
    grid = (_parts(m, 1024), _parts(n, 8))
    _kernels().cos_kernel[grid](
        T,
        T if phases is None else phases,
        scale,
        n,
        m,
        T.stride(0),
        phases is not None,
        8,
        1024,
        num_warps=8,
    )


def cossin(T: torch.Tensor, scale: float, out: torch.Tensor) -> None:
    n, m = T.shape
    grid = (_parts(m, 512), _parts(n, 8))
    _kernels().cossin_kernel[grid](
        T, out, scale, n, m, T.stride(0), out.stride(0), 8, 512, num_warps=8
    )


def transforms(
    x: torch.Tensor, signs: torch.Tensor, lengths: torch.Tensor, out: torch.Tensor
) -> bool:
    """Whether all rounds of a Hadamard transform can be made on the chip."""
    lies = x.stride(-1) == 1 == out.stride(-1) and signs.is_contiguous()
    p = signs.shape[2]
    return (
        lies
        and _LEAST_ROW <= p <= _MOST_ROW
        and take(x, signs, lengths, out)
        and _shared(x.device) >= max(28 * p, 80 * 1024)
    )


def hadamard(
    x: torch.Tensor,
    signs: torch.Tensor,
    lengths: torch.Tensor,
    scale: float,
    phases: torch.Tensor | None,
    out: torch.Tensor,
    link: int,
) -> None:
    """out = the transform, its cosines (1), or its cosines and sines (2)."""
    from mercer.ops.torch import triton_hadamard

    (n, d), (_, rounds, p) = x.shape, signs.shape
    m, bits = len(lengths), p.bit_length() - 1
    A, B = (1 << (bits + 1) // 2, 1 << bits // 2) if p > 256 else (p // 16, 16)
    rows, warps = max(1, 4096 // p), 4 if p <= 1024 else 8
    fixed = A, B, max(A, 16), rows, rounds, link, phases is not None
    H = hadamard_signs(128, x.dtype, x.device)
    grid = (_parts(n, rows), _parts(m, p))
    phase = lengths if phases is None else phases
    limit = (
        torch.finfo(x.dtype).max / 2 / float(p) ** rounds
    )  # of entries whose sums stay in float32
    triton_hadamard.hadamard_kernel[grid](
        x,
        signs,
        lengths,
        H,
        phase,
        out,
        scale,
        limit,
        n,
        d,
        m,
        x.stride(0),
        out.stride(0),
        *fixed,
        num_warps=warps,
    )


@cache
def hadamard_signs(size: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """The Hadamard matrix of signs, in Sylvester's order."""
    H = torch.ones((1, 1), dtype=dtype, device=device)
    while len(H) < size:
        H = torch.cat((torch.cat((H, H), 1), torch.cat((H, -H), 1)))
    return H


def lifts(x: torch.Tensor, out: torch.Tensor, values: int) -> bool:
    """Whether a lift of so many values can be made in one pass."""
    return values <= _VALUES and take(x, out) and x.is_contiguous() and out.is_contiguous()


def moderate(poles: torch.Tensor) -> bool:
    """Whether reciprocals of sums with these poles are in the range of float32; asked once for the
    poles of a map.
    """
    if poles not in _poles:
        good = bool(((poles >= 2.0**-100) & (poles <= 2.0**70)).all())
        _poles[poles] = (
            torch.cat((poles, (2 * poles.double().sqrt()).to(poles.dtype))) if good else None
        )
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
    """Whole pieces of entries without a mask, and what is left with one; bad[0] becomes whether a
    number is outside [0, inf).
    """
    fixed = kind, exponent == 0.5, values, 1 << (values - 1).bit_length(), _ENTRIES, _TIMES
    count, piece = x.numel(), _ENTRIES * _TIMES
    wrong = torch.zeros(1, dtype=torch.int32, device=x.device)
    for first, programs, even in ((0, count // piece, True), (count // piece * piece, 1, False)):
        if programs and first < count:
            _kernels().lift_kernel[(programs,)](
                x, numbers, out, wrong, first, count, exponent, *fixed, even, num_warps=_WARPS
            )
    if bad is not None:
        bad[0] = bool(wrong)


def supports_gram(x: torch.Tensor, z: torch.Tensor, out: torch.Tensor) -> bool:
    """Whether a Gram block can be made by the kernel: all numbers far from the ends of float32."""
    return take(x, z, out) and out.stride(-1) == 1 and _moderate(x) and _moderate(z)


def gram(name: str, x: torch.Tensor, z: torch.Tensor, out: torch.Tensor) -> None:
    rows, columns = 16, 128
    block = 4 if name == "gram_jensen_shannon" else _BLOCK  # its terms are long
    left, right = _turned(x, rows), _turned(z, columns)
    (n, m), d = out.shape, len(left)
    grid = (_parts(n, rows), _parts(m, columns))
    strides = left.stride(0), right.stride(0), out.stride(0)
    _kernels().gram_kernel[grid](
        left, right, out, n, m, d, *strides, _TERMS.index(name), rows, columns, block, num_warps=4
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
    """The codes of all hashes; a row without columns has the code 0."""
    (n, width), rows, unroll, hashes = L.shape, 32, 8, len(streams)
    d = _parts(width, unroll) * unroll
    turned = L.new_full((d, _parts(n, rows) * rows), -torch.inf)
    turned[:width, :n] = L.T
    if d > width:
        P = torch.cat((P, P[:, :1].expand(-1, d - width, -1, -1)), 1)  # columns that no row has
    winners = torch.empty((n, hashes), dtype=torch.int32, device=L.device)
    levels = torch.empty((n, hashes), dtype=torch.float32, device=L.device)
    grid = (_parts(n, rows), _parts(hashes, 64))
    _kernels().winners_kernel[grid](
        turned,
        P.contiguous(),
        winners,
        levels,
        n,
        d,
        hashes,
        turned.stride(0),
        rows,
        unroll,
        num_warps=4,
        enable_fp_fusion=False,
    )
    count = n * hashes
    _kernels().codes_kernel[(_parts(count, 1024),)](
        winners, levels, streams, ids, winners, count, hashes, 64 - bits, keep_t, 1024, num_warps=4
    )
    out.copy_(winners)


@cache
def _shared(device: torch.device) -> int:
    """Bytes of shared memory that a block may have; 28 bytes for an entry of a transform, and some
    more for small ones.
    """
    return int(
        getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", 0)
    )


def _turned(x: torch.Tensor, rows: int) -> torch.Tensor:
    """x', filled up with zeros to whole blocks of columns and rows."""
    n, d = x.shape
    turned = x.new_zeros((_parts(d, _BLOCK) * _BLOCK, _parts(n, rows) * rows))
    turned[:d, :n] = x.T
    return turned


def _moderate(x: torch.Tensor) -> bool:
    low, high = _RANGE
    sizes = x.abs()
    return bool(((sizes == 0) | ((sizes >= low) & (sizes <= high))).all())


def _parts(count: int, size: int) -> int:
    return -(-count // size)


def _kernels() -> Any:
    from mercer.ops.torch import triton_kernels

    return triton_kernels
