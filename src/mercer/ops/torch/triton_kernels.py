# mypy: ignore-errors
# Triton compiles these functions; it allows no annotations but its own.
"""Triton kernels for float32 on CUDA: one pass over memory where torch needs several.

triton_dispatch.py chooses and launches them.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import libdevice

# Cosines and sines of turns, by the polynomial of the compiled core (native/math.h): sin(2 pi u)
# for |u| <= 1/4.


@triton.jit
def _sine(u):
    square = u * u
    y = 39.1341133 * square - 76.4960480
    y = y * square + 81.5986481
    y = y * square - 41.3416176
    y = y * square + 6.28318501
    return y * u


@triton.jit
def _cosine_of_fraction(r):
    return _sine(0.25 - tl.abs(r))


@triton.jit
def _sine_of_fraction(r):
    return _sine(tl.where(tl.abs(r) > 0.25, libdevice.copysign(0.5, r) - r, r))


@triton.jit(do_not_specialize=["n"])
def cos_kernel(
    T, phases, scale, n, m, stride, PHASED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """T <- scale cos(2 pi (T + phases)), in place."""
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    inside = (rows[:, None] < n) & (columns[None, :] < m)
    at = T + rows[:, None].to(tl.int64) * stride + columns[None, :]
    t = tl.load(at, mask=inside)
    r = t - libdevice.rint(t)
    if PHASED:
        p = tl.load(phases + columns, mask=columns < m)
        r = r + (p - libdevice.rint(p))[None, :]
        r = r - libdevice.rint(r)
    tl.store(at, scale * _cosine_of_fraction(r), mask=inside)


@triton.jit(do_not_specialize=["n"])
def cossin_kernel(
    T, out, scale, n, m, stride, out_stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """out[i, 2j] and out[i, 2j + 1] = scale cos and scale sin of 2 pi T[i, j]."""
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    inside = (rows[:, None] < n) & (columns[None, :] < m)
    t = tl.load(T + rows[:, None].to(tl.int64) * stride + columns[None, :], mask=inside)
    r = t - libdevice.rint(t)
    pairs = tl.interleave(scale * _cosine_of_fraction(r), scale * _sine_of_fraction(r))
    places = tl.program_id(0) * (2 * COLUMNS) + tl.arange(0, 2 * COLUMNS)
    target = out + rows[:, None].to(tl.int64) * out_stride + places[None, :]
    tl.store(target, pairs, mask=(rows[:, None] < n) & (places[None, :] < 2 * m))


# Matrix product in tf32; cosines are taken of sums in registers.


@triton.jit(do_not_specialize=["n", "padded"])
def transpose_kernel(
    Z, out, n, m, padded, stride, out_stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """out[j, i] = Z[i, j], and 0 for i from n to padded."""
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    at = Z + rows[:, None].to(tl.int64) * stride + columns[None, :]
    tile = tl.load(at, mask=(rows[:, None] < n) & (columns[None, :] < m), other=0.0)
    to = out + columns[:, None].to(tl.int64) * out_stride + rows[None, :]
    tl.store(to, tl.trans(tile), mask=(rows[None, :] < padded) & (columns[:, None] < m))


@triton.jit(do_not_specialize=["n"])
def product_kernel(
    X,
    W,
    phases,
    out,
    scale,
    n,
    m,
    d,
    x_stride,
    w_stride,
    out_stride,
    PAIRED: tl.constexpr,
    PHASED: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
    GROUP: tl.constexpr,
):
    """out = scale cos(2 pi (X W + phases)), or cosines and sines in adjacent columns.

    W is stored by columns.
    """
    across, down = tl.cdiv(m, COLUMNS), tl.cdiv(n, ROWS)
    place = tl.program_id(0)
    group = place // (GROUP * across)  # tiles of a group read the same columns of W
    height = tl.minimum(down - group * GROUP, GROUP)
    row = group * GROUP + (place % (GROUP * across)) % height
    column = (place % (GROUP * across)) // height
    rows, columns, depth = (
        row * ROWS + tl.arange(0, ROWS),
        column * COLUMNS + tl.arange(0, COLUMNS),
        tl.arange(0, DEPTH),
    )
    x_at = X + (rows % n)[:, None].to(tl.int64) * x_stride + depth[None, :]
    w_at = W + depth[:, None] + (columns % m)[None, :].to(tl.int64) * w_stride
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for k in range(0, d, DEPTH):
        x = tl.load(x_at, mask=depth[None, :] < d - k, other=0.0)
        w = tl.load(w_at, mask=depth[:, None] < d - k, other=0.0)
        total = tl.dot(x, w, total, input_precision="tf32")
        x_at += DEPTH
        w_at += DEPTH
    r = total - libdevice.rint(total)
    if PHASED:
        p = tl.load(phases + columns % m)
        r = r + (p - libdevice.rint(p))[None, :]
        r = r - libdevice.rint(r)
    result = scale * _cosine_of_fraction(r)
    places = columns
    if PAIRED:
        result = tl.interleave(result, scale * _sine_of_fraction(r))
        places = column * (2 * COLUMNS) + tl.arange(0, 2 * COLUMNS)
    width = 2 * m if PAIRED else m
    target = out + rows[:, None].to(tl.int64) * out_stride + places[None, :]
    tl.store(target, result, mask=(rows[:, None] < n) & (places[None, :] < width))


# Elementwise maps: entry e of the flat input gives entries N e, ..., N e + N - 1 of the output.


@triton.jit
def _value(x, numbers, product, before, logs, KIND: tl.constexpr, q: tl.constexpr, N: tl.constexpr):
    """Return value q of x and the state of the recurrence."""
    if KIND == 0:  # the chi2 series: numbers are the poles k, then 2 sqrt(k)
        k = tl.load(numbers + q)
        s = x + k
        r = libdevice.fast_dividef(1.0, s)
        r = r * (2.0 - s * r)  # one Newton step
        value = product * (tl.load(numbers + N + q) * (x * r))
        product = product * ((x - k) * r)
    elif KIND == 1:  # Chebyshev: numbers are the center, 2 sqrt(center) and its logarithm
        if q == 0:
            value = tl.load(numbers + 1) * tl.math.div_rn(x, x + tl.load(numbers))
        elif q == 1:
            value = -0.45015815807855303 * logs * product
            before = product
        else:
            sign = 0.6366197723675814 if q % 2 == 0 else -0.6366197723675814
            value = (sign * logs * product + (q - 2) * before) / q
            before = product
        product = value
    else:  # homogeneous: numbers are amplitudes, then steps; product is x^(degree/2)
        a = tl.load(numbers + (q + 1) // 2)
        if q == 0:
            value = a * product
        else:
            angle = tl.load(numbers + (N + 1) // 2 + (q + 1) // 2) * logs
            value = a * product * (libdevice.cos(angle) if q % 2 == 1 else libdevice.sin(angle))
    return value, product, before


@triton.jit(do_not_specialize=["first", "count"])
def lift_kernel(
    X,
    numbers,
    out,
    flag,
    first,
    count,
    exponent,
    KIND: tl.constexpr,
    ROOT: tl.constexpr,
    N: tl.constexpr,
    PADDED: tl.constexpr,
    BLOCK: tl.constexpr,
    TIMES: tl.constexpr,
    EVEN: tl.constexpr,
):
    """out[N e + q] = value q of X[e] for contiguous entries from `first` on.

    flag[0] becomes 1 if an entry is outside [0, inf).
    """
    place, q = tl.arange(0, BLOCK), tl.arange(0, PADDED)
    outside = tl.zeros([BLOCK], tl.int1)
    for time in range(TIMES):
        start = first + (tl.program_id(0).to(tl.int64) * TIMES + time) * BLOCK
        inside = start + place < count
        x = (
            tl.load(X + start + place)
            if EVEN
            else tl.load(X + start + place, mask=inside, other=1.0)
        )
        outside = outside | ((x >= 0) & (x < float("inf")) == 0)
        product, before, logs = 1.0 + (x - x), x, x  # NaN and infinity stay NaN
        if KIND == 0:
            x = tl.minimum(x, 1.2676506e30)  # beyond 2^100 all factors are 1
        else:
            logs = libdevice.log(tl.where(x == 0, 1.0, x))
        if KIND == 1:
            logs = logs - tl.load(numbers + 2)
        if KIND == 2:
            grown = tl.math.sqrt_rn(x) if ROOT else libdevice.exp(exponent * logs)
            product = tl.where(x == 0, x, grown)
        v0, product, before = _value(x, numbers, product, before, logs, KIND, 0, N)
        v1, v2, v3, v4, v5, v6, v7 = v0, v0, v0, v0, v0, v0, v0
        if N > 1:
            v1, product, before = _value(x, numbers, product, before, logs, KIND, 1, N)
        if N > 2:
            v2, product, before = _value(x, numbers, product, before, logs, KIND, 2, N)
        if N > 3:
            v3, product, before = _value(x, numbers, product, before, logs, KIND, 3, N)
        if N > 4:
            v4, product, before = _value(x, numbers, product, before, logs, KIND, 4, N)
        if N > 5:
            v5, product, before = _value(x, numbers, product, before, logs, KIND, 5, N)
        if N > 6:
            v6, product, before = _value(x, numbers, product, before, logs, KIND, 6, N)
        if N > 7:
            v7, product, before = _value(x, numbers, product, before, logs, KIND, 7, N)
        if PADDED == 1:
            side_by_side = tl.reshape(v0, [BLOCK, 1])
        elif PADDED == 2:
            side_by_side = tl.join(v0, v1)
        elif PADDED == 4:
            side_by_side = tl.reshape(tl.join(tl.join(v0, v2), tl.join(v1, v3)), [BLOCK, 4])
        else:
            even = tl.join(tl.join(v0, v4), tl.join(v2, v6))
            side_by_side = tl.reshape(
                tl.join(even, tl.join(tl.join(v1, v5), tl.join(v3, v7))), [BLOCK, 8]
            )
        target = out + start * N + place[:, None] * N + q[None, :]
        if EVEN:
            tl.store(target, side_by_side, mask=(q < N)[None, :], cache_modifier=".cs")
        else:
            tl.store(target, side_by_side, mask=inside[:, None] & (q < N)[None, :])
    if tl.max(outside.to(tl.int32), 0) > 0:
        tl.store(flag, 1)


# Gram blocks of transposed rows, (d, n) and (d, m), d padded with zeros to full blocks of columns.
# Terms are summed in blocks, and blocks by Kahan summation, so that many columns lose no digits.


@triton.jit
def _term(x, z, KIND: tl.constexpr):
    if KIND == 0:  # chi2, halved
        return libdevice.fast_dividef(x * z, tl.maximum(x + z, 1.1754944e-38))
    if KIND == 1:  # chi2 distance
        return libdevice.fast_dividef((x - z) * (x - z), tl.maximum(x + z, 1.1754944e-38))
    if KIND == 2 or KIND == 3:  # intersection, min-max
        return tl.minimum(x, z, propagate_nan=tl.PropagateNan.ALL)
    if KIND == 4:
        return tl.abs(x - z)
    if KIND == 5:
        return (x - z) * (x - z)
    # Jensen-Shannon, twice: in bits, log2(1 + u) by the polynomial of the compiled core.
    a, b = tl.minimum(x, z), tl.maximum(x, z)
    u = libdevice.fast_dividef(a, tl.maximum(b, 1.1754944e-38))
    y = -0.00700041233 * u + 0.0302574001
    y = y * u - 0.0454278328
    y = y * u + 0.00470351847
    y = y * u + 0.0914443061
    y = y * u - 0.193865448
    y = y * u + 0.276688546
    y = y * u - 0.358916491
    y = y * u + 0.480764955
    y = y * u - 0.721343577
    grown = (y * u + 1.44269502) * u
    return tl.where(
        a == 0, 0.0, b * grown + a * (grown - libdevice.fast_log2f(tl.where(u == 0, 1.0, u)))
    )


@triton.jit
def _kahan_add(total, lost, part):
    """Return total + part and its accumulated rounding error (Kahan summation)."""
    y = part - lost
    new = total + y
    return new, (new - total) - y


@triton.jit(do_not_specialize=["n", "m", "d"])
def gram_kernel(
    Xt,
    Zt,
    out,
    n,
    m,
    d,
    n_stride,
    m_stride,
    out_stride,
    KIND: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """out[i, j] = sum over columns of term(X[i], Z[j]); for min-max, of minima over maxima."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    x_at, z_at = Xt + rows, Zt + columns
    total, lost = tl.zeros([ROWS, COLUMNS], tl.float32), tl.zeros([ROWS, COLUMNS], tl.float32)
    largest, missed = tl.zeros([ROWS, COLUMNS], tl.float32), tl.zeros([ROWS, COLUMNS], tl.float32)
    for _ in range(0, d, BLOCK):
        part = tl.zeros([ROWS, COLUMNS], tl.float32)
        above = tl.zeros([ROWS, COLUMNS], tl.float32)
        for step in tl.static_range(BLOCK):
            x = tl.load(x_at + step * n_stride)[:, None]
            z = tl.load(z_at + step * m_stride)[None, :]
            part += _term(x, z, KIND)
            if KIND == 3:
                above += tl.maximum(x, z, propagate_nan=tl.PropagateNan.ALL)
        total, lost = _kahan_add(total, lost, part)
        if KIND == 3:
            largest, missed = _kahan_add(largest, missed, above)
        x_at += BLOCK * n_stride
        z_at += BLOCK * m_stride
    if KIND == 0:
        total = 2 * total
    if KIND == 3:
        total = tl.where(largest == 0, 0.0, tl.math.div_rn(total, largest))
    if KIND == 6:
        total = 0.5 * total
    target = out + rows[:, None].to(tl.int64) * out_stride + columns[None, :]
    tl.store(target, total, mask=(rows[:, None] < n) & (columns[None, :] < m))


# Consistent weighted sampling of transposed logs, (d, n). No step is fused: one rounding for each
# operation, as in the definition.


@triton.jit
def _mix(word):
    """Return the finalizer of SplitMix64."""
    z = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB
    return z ^ (z >> 31)


@triton.jit(do_not_specialize=["n", "d", "hashes"])
def winners_kernel(
    Lt, P, winners, levels, n, d, hashes, stride, ROWS: tl.constexpr, UNROLL: tl.constexpr
):
    """winners[i, j] = the first column with the smallest a for hash j of row i; levels: its t.

    A row without columns has the winner -1.
    """
    block = tl.program_id(1)
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    lane = tl.arange(0, 64)
    best = tl.full([ROWS, 64], float("inf"), tl.float32)
    winner = tl.full([ROWS, 64], -1, tl.int32)
    level = tl.full([ROWS, 64], float("-inf"), tl.float32)
    logs_at, at = Lt + rows, P + block.to(tl.int64) * d * 256 + lane
    for c in range(0, d, UNROLL):
        for step in tl.static_range(UNROLL):
            log = tl.load(logs_at + step * stride)[:, None]
            t = tl.floor(
                log * tl.load(at + step * 256)[None, :] + tl.load(at + step * 256 + 64)[None, :]
            )
            a = (
                tl.load(at + step * 256 + 192)[None, :]
                - tl.load(at + step * 256 + 128)[None, :] * t
            )
            better = a < best
            best = tl.where(better, a, best)
            winner = tl.where(better, c + step, winner)
            level = tl.where(better, t, level)
        logs_at += UNROLL * stride
        at += UNROLL * 256
    number = block * 64 + lane
    inside = (rows[:, None] < n) & (number[None, :] < hashes)
    target = rows[:, None].to(tl.int64) * hashes + number[None, :]
    tl.store(winners + target, winner, mask=inside)
    tl.store(levels + target, level, mask=inside)


@triton.jit(do_not_specialize=["count", "hashes"])
def codes_kernel(
    winners,
    levels,
    streams,
    ids,
    out,
    count,
    hashes,
    SHIFT: tl.constexpr,
    KEEP_T: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """out[e] = bits of a mixing hash of (hash, winner) or (hash, winner, t); 0 without a winner."""
    entry = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = entry < count
    winner = tl.load(winners + entry, mask=inside, other=-1)
    star = tl.load(ids + winner, mask=winner >= 0, other=0).to(tl.uint64, bitcast=True)
    word = _mix(
        tl.load(streams + entry % hashes, mask=inside, other=0).to(tl.uint64, bitcast=True) ^ star
    )
    if KEEP_T:
        level = tl.load(levels + entry, mask=inside, other=0.0)
        word = _mix(word + level.to(tl.uint32, bitcast=True).to(tl.uint64) * 0x9E3779B97F4A7C15)
    tl.store(out + entry, tl.where(winner < 0, 0, (word >> SHIFT).to(tl.int32)), mask=inside)
