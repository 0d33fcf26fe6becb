# mypy: ignore-errors
# Triton compiles this function; it allows no annotations but its own.
"""Triton kernel of the Hadamard transform: all rounds and the link in shared memory."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import libdevice

from mercer.ops.torch.triton_kernels import _cosine_of_fraction, _sine_of_fraction


@triton.jit(do_not_specialize=["n"])
def hadamard_kernel(
    X,
    signs,
    lengths,
    H,
    phases,
    out,
    scale,
    limit,
    n,
    d,
    m,
    x_stride,
    out_stride,
    A: tl.constexpr,
    B: tl.constexpr,
    GROUP: tl.constexpr,
    ROWS: tl.constexpr,
    ROUNDS: tl.constexpr,
    LINK: tl.constexpr,
    PHASED: tl.constexpr,
):
    """out = link(lengths H S ... H S x), with H = H_A x H_B (Kronecker product).

    A round is a product with H_B, a transposition and a product with H_A (none for A = 1). A
    product has 16 columns at least: GROUP is 16 if A is less, and several rows are transposed
    together. Signs are exact in tf32, and so are rows once they are split in two: three products
    in tf32 are one in float32. LINK is 0 for the transform itself, 1 for its cosines, 2 for cosines
    and sines in adjacent columns.
    """
    block = tl.program_id(1)
    t, b, g = tl.arange(0, ROWS * A), tl.arange(0, B), tl.arange(0, GROUP)
    row = (tl.program_id(0) * ROWS + t // A)[:, None]
    place = (t % A)[:, None] * B + b[None, :]
    x = tl.load(X + row.to(tl.int64) * x_stride + place, mask=(row < n) & (place < d), other=0.0)
    if GROUP > A:
        # Rows that share a product must not affect each other: one that would overflow is 0 in
        # the product and NaN in the result.
        over = tl.max(tl.reshape((tl.abs(x) <= limit) == 0, [ROWS, A * B]).to(tl.int32), 1)
        over = tl.reshape(tl.broadcast_to(over[:, None], [ROWS, A * B]), [ROWS * A, B]) > 0
        x = tl.where(over, 0.0, x)
    HB = tl.load(H + b[:, None] * 128 + b[None, :])
    HA = tl.load(H + (g % A)[:, None] * 128 + (g % A)[None, :])
    HA = tl.where((g // A)[:, None] == (g // A)[None, :], HA, 0.0)
    for turn in tl.static_range(ROUNDS):
        x = x * tl.load(signs + (block * ROUNDS + turn) * (A * B) + place)
        x = tl.dot(x, HB, input_precision="tf32x3")
        if A > 1:
            y = tl.reshape(
                tl.permute(tl.reshape(x, [ROWS * A // GROUP, GROUP, B]), (0, 2, 1)),
                [ROWS * A // GROUP * B, GROUP],
            )
            y = tl.dot(y, HA, input_precision="tf32x3")
            x = tl.reshape(
                tl.permute(tl.reshape(y, [ROWS * A // GROUP, B, GROUP]), (0, 2, 1)), [ROWS * A, B]
            )
    if GROUP > A:
        x = tl.where(over, float("nan"), x)
    column = block * (A * B) + place
    x = x * tl.load(lengths + column, mask=column < m, other=0.0)
    if LINK == 0:
        result = x
    else:
        r = x - libdevice.rint(x)
        if PHASED:
            p = tl.load(phases + column, mask=column < m, other=0.0)
            r = r + (p - libdevice.rint(p))
            r = r - libdevice.rint(r)
        result = scale * _cosine_of_fraction(r)
    width = m
    if LINK == 2:
        result = tl.interleave(result, scale * _sine_of_fraction(r))
        column = 2 * (block * (A * B) + (t % A)[:, None] * B) + tl.arange(0, 2 * B)[None, :]
        width = 2 * m
    tl.store(
        out + row.to(tl.int64) * out_stride + column, result, mask=(row < n) & (column < width)
    )
