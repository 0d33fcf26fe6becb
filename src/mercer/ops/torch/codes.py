"""Torch forms of the ops on codes.

64-bit words are int64: their sums and products wrap as those of uint64.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from mercer.ops import reference_codes
from mercer.ops.dispatch import torch_form
from mercer.ops.reference_codes import GOLDEN, HASHES, MULTIPLIERS
from mercer.ops.torch import triton_dispatch
from mercer.ops.torch.device_array import DeviceArray, tensor
from mercer.ops.torch.sparse import dense

_ENTRIES = 2**24  # rows x columns x hashes in memory at once


def row_keys(X: DeviceArray, low: Any, high: Any) -> Any:
    """Return mercer.data.row_keys of rows on a device, as a NumPy array of uint64."""
    bits = (X.tensor.double() + 0.0).view(torch.int64)
    low, high = (tensor(words.view(np.int64), X.tensor) for words in (low, high))
    keys = ((bits & 0xFFFFFFFF) * low + _shift(bits, 32) * high).sum(1)
    return keys.cpu().numpy().view(np.uint64)


@torch_form(reference_codes.gcws_parameters)
def gcws_parameters(seed: int, ids: Any, first: int, out: DeviceArray) -> DeviceArray:
    target = out.tensor
    columns = _words(tensor(ids, target))
    hashes = torch.arange(first, first + len(target) * HASHES, device=target.device).reshape(
        -1, 1, HASHES
    )
    start = _mix(_signed(seed) + _mix(columns))[None, :, None]
    words = [_mix(start + (hashes * 4 + (q + 1)) * _signed(GOLDEN)) for q in range(3)]
    r, c = (-torch.log(_half(_shift(w, 32)) * _half(w & 0xFFFFFFFF)) for w in words[:2])
    beta = (_shift(words[2], 12).double() + 0.5) * 2.0**-52
    for place, values in enumerate((1 / r, beta, r, torch.log(c) - r * (1 - beta))):
        target[:, :, place] = values
    return out


@torch_form(reference_codes.gcws)
def gcws(
    logs: DeviceArray,
    parameters: Any,
    ids: Any,
    seed: int,
    first: int,
    bits: int,
    keep_t: bool,
    out: DeviceArray,
) -> DeviceArray:
    return _hash_rows(logs.tensor, None, parameters, ids, seed, first, bits, keep_t, out)


def _hash_rows(
    L: torch.Tensor,
    order: torch.Tensor | None,
    parameters: Any,
    ids: Any,
    seed: int,
    first: int,
    bits: int,
    keep_t: bool,
    out: DeviceArray,
) -> DeviceArray:
    """out = codes of rows of logarithms.

    Of columns with equal a the first wins: in the given order, else by index.
    """
    P, target, columns = tensor(parameters, L), out.tensor, _words(tensor(ids, L))
    if not L.shape[1]:
        target.zero_()
        return out
    places = torch.arange(first + 1, first + target.shape[1] + 1, device=L.device)
    streams = _mix(_signed(seed) + places * _signed(GOLDEN))
    if order is None and triton_dispatch.supports(L, P):
        triton_dispatch.codes(L, P, streams, columns, bits, keep_t, target)
        return out
    winners, ts = _winners(L, P, target.shape[1], order)
    words = _mix(streams ^ columns[winners])
    if keep_t:
        words = _mix(words + (ts.view(torch.int32).long() & 0xFFFFFFFF) * _signed(GOLDEN))
    codes = _shift(words, 64 - bits)
    codes[torch.isinf(L).all(1)] = 0
    target.copy_(codes)
    return out


@torch_form(reference_codes.gcws_csr)
def gcws_csr(
    indptr: Any,
    places: Any,
    logs: DeviceArray,
    parameters: Any,
    ids: Any,
    seed: int,
    first: int,
    bits: int,
    keep_t: bool,
    out: DeviceArray,
) -> DeviceArray:
    parts = tensor(indptr, logs.tensor), tensor(places, logs.tensor)
    order = dense(*parts, torch.arange(len(logs), device=logs.tensor.device), len(ids))
    rows = dense(*parts, logs.tensor, len(ids), -torch.inf)
    return _hash_rows(rows, order, parameters, ids, seed, first, bits, keep_t, out)


def _store_largest(x: torch.Tensor, largest: np.ndarray | None) -> None:
    if largest is not None:
        inside = bool(torch.all((x >= 0) & torch.isfinite(x)))
        largest[0] = (float(x.max()) if x.numel() else 0.0) if inside else np.nan


@torch_form(reference_codes.levels)
def levels(
    X: DeviceArray,
    edges: Any,
    inclusive: bool,
    out: DeviceArray,
    largest: np.ndarray | None = None,
) -> DeviceArray:
    _store_largest(X.tensor, largest)
    out.tensor.copy_(_search(tensor(edges, X.tensor), X.tensor, right=inclusive))
    return out


@torch_form(reference_codes.brackets)
def brackets(
    X: DeviceArray,
    anchors: Any,
    codes: DeviceArray,
    fractions: DeviceArray,
    largest: np.ndarray | None = None,
) -> None:
    x, a = X.tensor, tensor(anchors, X.tensor)
    _store_largest(x, largest)
    count = a.shape[1]
    lower = torch.clamp(_search(a[:, 1:].contiguous(), x, right=True), max=count - 2)
    codes.tensor.copy_(lower)
    rows = a if len(a) > 1 else a.expand(x.shape[1], count)
    low, high = (torch.gather(rows, 1, (lower + step).T).T for step in (0, 1))
    gaps = high - low
    positions = torch.where(gaps > 0, (x - low) / gaps, torch.zeros_like(x))
    fractions.tensor.copy_(torch.clamp(positions, 0, 1))


@torch_form(reference_codes.coded_product)
def coded_product(codes: DeviceArray, panels: Any, fractions: Any, out: DeviceArray) -> DeviceArray:
    target = out.tensor.zero_()
    rows, P = codes.tensor.long(), tensor(panels, out.tensor)
    F = None if fractions is None else tensor(fractions, out.tensor)
    for c in range(rows.shape[1]):
        target += _interpolate(
            P[c if len(P) > 1 else 0], rows[:, c], None if F is None else F[:, c, None]
        )
    return out


@torch_form(reference_codes.coded_sums)
def coded_sums(codes: DeviceArray, R: Any, fractions: Any, out: DeviceArray) -> DeviceArray:
    target = out.tensor.zero_()
    rows, values = codes.tensor.long(), tensor(R, out.tensor)
    F = None if fractions is None else tensor(fractions, out.tensor)
    for c in range(rows.shape[1]):
        if F is None:
            target[c].index_add_(0, rows[:, c], values)
        else:
            f = F[:, c, None]
            target[c].index_add_(0, rows[:, c], (1 - f) * values)
            target[c].index_add_(0, rows[:, c] + 1, f * values)
    return out


@torch_form(reference_codes.coded_rows)
def coded_rows(codes: DeviceArray, tables: Any, fractions: Any, out: DeviceArray) -> DeviceArray:
    T, rows = tensor(tables, out.tensor), codes.tensor.long()
    n, places = rows.shape
    at = rows + torch.arange(places, device=rows.device) * T.shape[1] if len(T) > 1 else rows
    F = None if fractions is None else tensor(fractions, out.tensor)[:, :, None]
    features = _interpolate(T.flatten(0, 1), at, F)
    out.tensor.copy_(features.reshape(n, places * T.shape[2]))
    return out


@torch_form(reference_codes.coded_descent)
def coded_descent(
    codes: DeviceArray,
    empty: Any,
    order: Any,
    Y: Any,
    c: Any,
    scale: float,
    slope: float,
    loss: str,
    F: DeviceArray,
    a: DeviceArray,
    b: DeviceArray,
    W: DeviceArray,
) -> DeviceArray:
    """Sweep row by row: sequential, hence slow on a device."""
    rows, targets, cost = (tensor(values, W.tensor) for values in (codes, Y, c))
    weights, panel = a.tensor, W.tensor
    places = torch.arange(rows.shape[1], device=rows.device)
    without = [] if empty is None else torch.nonzero(tensor(empty, W.tensor))[:, 0].tolist()
    for i in tensor(order, W.tensor).tolist():
        used = places[:0] if i in without else places
        at = (used, rows[i, : len(used)].long())
        f = b.tensor + scale * panel[at].sum(0)
        F.tensor[i] = f
        q = slope + scale * scale * len(used)
        change = _descent_weight(loss, targets[i], f, weights[i], cost[i], q) - weights[i]
        panel[at] += scale * change
        b.tensor.add_(change, alpha=slope)
        weights[i] += change
    return W


def _descent_weight(
    loss: str, y: torch.Tensor, f: torch.Tensor, a: torch.Tensor, c: torch.Tensor, q: float
) -> torch.Tensor:
    """Solve a' = c g(f + q (a' - a)), as `reference_codes.descent_weight` does."""
    if loss == "squared":
        return c * (y - f + q * a) / (1 + c * q)
    rest = y * (f - q * a)
    if loss == "squared_hinge":
        return y * torch.clamp(c * (1 - rest) / (1 + c * q), min=0)
    above = rest + c * q / 2 >= 0
    low = torch.where(above, torch.clamp(rest, min=0), rest)
    high = torch.where(above, rest + c * q, torch.clamp(rest + c * q, max=0))
    m = torch.where(above, low, high)
    for _ in range(50):
        s = torch.sigmoid(-m)
        m = m - (m - rest - c * q * s) / (1 + c * q * s * (1 - s))
        m = torch.maximum(torch.minimum(m, high), low)
    return y * (c * torch.sigmoid(-m))


def _interpolate(
    table: torch.Tensor, codes: torch.Tensor, fractions: torch.Tensor | None
) -> torch.Tensor:
    if fractions is None:
        return table[codes]
    return (1 - fractions) * table[codes] + fractions * table[codes + 1]


def _search(edges: torch.Tensor, X: torch.Tensor, *, right: bool) -> torch.Tensor:
    """Return how many edges of each column are below X; with right, at or below it."""
    if len(edges) > 1:
        return torch.searchsorted(edges.contiguous(), X.T.contiguous(), right=right).T
    return torch.searchsorted(edges[0].contiguous(), X.contiguous(), right=right)


def _winners(
    L: torch.Tensor, P: torch.Tensor, hashes: int, order: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the first column with the smallest a, and its t, for each row and hash."""
    n, d = L.shape
    winners = torch.empty((n, hashes), dtype=torch.int64, device=L.device)
    ts = torch.empty((n, hashes), dtype=torch.float32, device=L.device)
    step = max(1, _ENTRIES // max(1, d * HASHES))
    for start in range(0, n, step):
        for b, block in enumerate(P):
            at = slice(b * HASHES, min((b + 1) * HASHES, hashes))
            inverse, beta, r, base = (block[None, :, q, : at.stop - at.start] for q in range(4))
            t = torch.floor(L[start : start + step, :, None] * inverse + beta)
            a = base - r * t
            best = a.amin(1, keepdim=True)
            if order is None:
                first = (a == best).to(torch.uint8).argmax(1, keepdim=True)
            else:
                ranks = order[start : start + step, :, None]
                first = torch.where(a == best, ranks, torch.iinfo(ranks.dtype).max).argmin(
                    1, keepdim=True
                )
            winners[start : start + step, at] = first[:, 0]
            ts[start : start + step, at] = torch.gather(t, 1, first)[:, 0]
    return winners, ts


def _mix(word: torch.Tensor) -> torch.Tensor:
    """Return the finalizer of SplitMix64."""
    first, second = MULTIPLIERS
    z = (word ^ _shift(word, 30)) * _signed(first)
    z = (z ^ _shift(z, 27)) * _signed(second)
    return z ^ _shift(z, 31)


def _shift(word: torch.Tensor, places: int) -> torch.Tensor:
    """Shift to the right, filling with zeros."""
    return (word >> places) & ((1 << (64 - places)) - 1) if places else word


def _signed(word: int) -> int:
    word = int(word)
    return word - (1 << 64) if word >= 1 << 63 else word


def _words(ids: torch.Tensor) -> torch.Tensor:
    return ids.view(torch.int64) if ids.dtype == torch.uint64 else ids.long()


def _half(word: torch.Tensor) -> torch.Tensor:
    return (word.double() + 0.5) * math.ldexp(1, -32)
