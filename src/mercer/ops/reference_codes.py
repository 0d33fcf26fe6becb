"""Definitions of the ops on codes in NumPy.

Codes are small integers that stand for features: uint8, uint16 or int32, one for each (row, place).
Consistent weighted sampling is defined in float32 arithmetic, one rounding for each operation, so
that every form gives the same codes on every instruction set.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._typing import Array
from mercer.ops.dispatch import op

HASHES = 64  # hashes whose parameters are stored together
# Increment and multipliers of SplitMix64.
GOLDEN = 0x9E3779B97F4A7C15
MULTIPLIERS = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_ROWS = 16  # rows hashed at once


@op
def gcws_parameters(seed: int, ids: Array, first: int, out: Array) -> Array:
    """out[b, i] = (1/r, beta, r, ln c - r (1 - beta)) of column ids[i], for 64 hashes.

    These are the hashes from first + 64 b on. r and c are Gamma(2, 1), -ln(u u'), and beta is
    uniform: words 4 j, 4 j + 1 and 4 j + 2 for hash j of the SplitMix64 stream that starts at
    mix(seed + mix(id)). The upper and lower halves of the first two words are u and u'. out is
    float32 of shape (blocks, columns, 4, 64); ids are uint64.
    """
    hashes = np.arange(first, first + len(out) * HASHES, dtype=np.uint64).reshape(-1, 1, HASHES)
    start = _mix(np.uint64(seed) + _mix(ids))[None, :, None]
    words = [
        _mix(start + (hashes * np.uint64(4) + np.uint64(q + 1)) * np.uint64(GOLDEN))
        for q in range(3)
    ]
    r, c = (
        -np.log(_half(w >> np.uint64(32)) * _half(w & np.uint64(0xFFFFFFFF))) for w in words[:2]
    )
    beta = ((words[2] >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    for q, values in enumerate((1 / r, beta, r, np.log(c) - r * (1 - beta))):
        out[:, :, q] = values
    return out


@op
def gcws(
    logs: Array,
    parameters: Array,
    ids: Array,
    seed: int,
    first: int,
    bits: int,
    keep_t: bool,
    out: Array,
) -> Array:
    """out[i, j - first] = `bits` bits of mix(j, i*) or, with keep_t, of mix(j, i*, t*).

    This is the code of hash j of row i. logs[i, c] = ln u for the value u > 0 of column c, -inf
    where there is none, in float32; t = floor(ln u / r + beta), a = (ln c - r (1 - beta)) - r t,
    and i* is the id of the first column with the smallest a, t* its t. A row without columns has
    the code 0.
    """
    places = np.arange(logs.shape[1])
    for start in range(0, len(logs), _ROWS):
        rows = slice(start, start + _ROWS)
        for b, block in enumerate(parameters):
            hashes = slice(b * HASHES, min((b + 1) * HASHES, out.shape[1]))
            sample = seed, bits, keep_t, first + hashes.start
            _hash(logs[rows], places, block, ids, *sample, out[rows, hashes])
    return out


@op
def gcws_csr(
    indptr: Array,
    places: Array,
    logs: Array,
    parameters: Array,
    ids: Array,
    seed: int,
    first: int,
    bits: int,
    keep_t: bool,
    out: Array,
) -> Array:
    """out[i, j - first] = the code of hash j of CSR row i, as in gcws.

    Row i has the columns places[e], indices into ids, with logs[e], indptr[i] <= e < indptr[i + 1].
    """
    for i in range(len(out)):
        entries = slice(indptr[i], indptr[i + 1])
        for b, block in enumerate(parameters):
            hashes = slice(b * HASHES, min((b + 1) * HASHES, out.shape[1]))
            sample = seed, bits, keep_t, first + hashes.start
            _hash(logs[None, entries], places[entries], block, ids, *sample, out[i : i + 1, hashes])
    return out


@op
def levels(
    X: Array, edges: Array, inclusive: bool, out: Array, largest: Array | None = None
) -> Array:
    """out[i, j] = number of edges of column j below X[i, j] (with inclusive: at or below it).

    edges has one rising row for each column, or a single row for all of them. largest[0] is the
    largest number of X, 0 without numbers; NaN where one is negative or not finite.
    """
    _store_largest(X, largest)
    for j in range(X.shape[1]):
        row = edges[j if len(edges) > 1 else 0]
        out[:, j] = np.searchsorted(row, X[:, j], side="right" if inclusive else "left")
    return out


@op
def brackets(
    X: Array, anchors: Array, codes: Array, fractions: Array, largest: Array | None = None
) -> None:
    """codes[i, j] = c = max {c : a_c <= x}, fractions[i, j] = (x - a_c)/(a_{c+1} - a_c).

    x = X[i, j], a are the anchors. c is at most the last but one, so that c + 1 exists; the
    fraction is clipped to [0, 1], and 0 between equal anchors. anchors has one rising row for each
    column, or a single row for all of them, and at least two columns; rows may end in inf.
    largest is that of ``levels``.
    """
    _store_largest(X, largest)
    count = anchors.shape[1]
    for j in range(X.shape[1]):
        a = anchors[j if len(anchors) > 1 else 0]
        c = np.minimum(np.searchsorted(a[1:], X[:, j], side="right"), count - 2)
        codes[:, j] = c
        with np.errstate(over="ignore", invalid="ignore"):  # largest says where x is not finite
            gaps = a[c + 1] - a[c]
            zeros = np.zeros(len(X), X.dtype)
            positions = np.divide(X[:, j] - a[c], gaps, out=zeros, where=gaps > 0)
        fractions[:, j] = np.clip(positions, 0, 1)


def _store_largest(X: Array, largest: Array | None) -> None:
    if largest is not None:
        inside = np.all((X >= 0) & np.isfinite(X))
        largest[0] = X.max(initial=0) if inside else np.nan


@op
def coded_product(codes: Array, panels: Array, fractions: Array | None, out: Array) -> Array:
    """out[i] = sum_c (1 - f) panels[c, code] + f panels[c, code + 1].

    code = codes[i, c], f = fractions[i, c], or 0 without fractions. panels has shape (places,
    codes, m), or (1, codes, m) if all places share one.
    """
    out[:] = 0
    for c in range(codes.shape[1]):
        panel = panels[c if len(panels) > 1 else 0]
        out += _interpolate(
            panel, codes[:, c], None if fractions is None else fractions[:, c, None]
        )
    return out


@op
def coded_sums(codes: Array, R: Array, fractions: Array | None, out: Array) -> Array:
    """out[c, a] = sum_{i: codes[i, c] = a} (1 - f) R[i] + sum_{i: codes[i, c] = a - 1} f R[i].

    f = fractions[i, c], or 0 without fractions.
    """
    out[:] = 0
    for c in range(codes.shape[1]):
        if fractions is None:
            np.add.at(out[c], codes[:, c], R)
        else:
            f = fractions[:, c, None]
            np.add.at(out[c], codes[:, c], (1 - f) * R)
            np.add.at(out[c], codes[:, c].astype(np.int64) + 1, f * R)
    return out


@op
def coded_descent(
    codes: Array,
    empty: Array | None,
    order: Array,
    Y: Array,
    c: Array,
    scale: float,
    slope: float,
    loss: str,
    F: Array,
    a: Array,
    b: Array,
    W: Array,
) -> Array:
    """Solve a' = c_i g(f + q (a' - a)); W[p, code] += scale (a' - a), b += slope (a' - a), a <- a'.

    One sweep of coordinate descent over one-hot codes, in place, for the rows i of order in turn
    and all outputs. Row i has `scale` at each of its codes, none where it is empty; its score is
    f = b + scale sum_p W[p, code], stored in F, and q = slope + scale^2 times the number of its
    codes. For the losses "squared", "squared_hinge" and "logistic" g(f) is y - f, y max(0, 1 - y f)
    and y/(1 + exp(y f)); y is +1 or -1 in the last two. Y, F and a have shape (n, m), W (places,
    codes, m), b (m,), c (n,).
    """
    places = np.arange(codes.shape[1])
    for i in order:
        at = (places, codes[i]) if empty is None or not empty[i] else (places[:0], codes[i, :0])
        F[i] = b + scale * W[at].sum(axis=0)
        q = slope + scale * scale * len(at[0])
        change = descent_weight(loss, Y[i], F[i], a[i], c[i], q) - a[i]
        W[at] += scale * change
        b += slope * change
        a[i] += change
    return W


def descent_weight(loss: str, y: Array, f: Array, a: Array, c: Any, q: Any) -> Array:
    """Return the solution a' of a' = c g(f + q (a' - a))."""
    if loss == "squared":
        return c * (y - f + q * a) / (1 + c * q)
    rest = y * (f - q * a)
    if loss == "squared_hinge":
        return y * np.maximum(c * (1 - rest) / (1 + c * q), 0)
    # m = rest + c q/(1 + exp(m)), between rest and rest + c q: on one side of 0 the difference is
    # concave or convex, and Newton's steps from the side of 0 stay there
    above = rest + c * q / 2 >= 0
    low = np.where(above, np.maximum(rest, 0), rest)
    high = np.where(above, rest + c * q, np.minimum(rest + c * q, 0))
    m = np.where(above, low, high)
    for _ in range(50):
        s = _falling_sigmoid(m)
        m = np.clip(m - (m - rest - c * q * s) / (1 + c * q * s * (1 - s)), low, high)
    return y * (c * _falling_sigmoid(m))


def _falling_sigmoid(m: Array) -> Array:
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(m))


@op
def coded_rows(codes: Array, tables: Array, fractions: Array | None, out: Array) -> Array:
    """out[i, r c + q] = (1 - f) T[code, q] + f T[code + 1, q], T = tables[c].

    code = codes[i, c], f = fractions[i, c], or 0 without fractions. tables has shape (places,
    codes, r), or (1, codes, r) if all places share one.
    """
    r = tables.shape[2]
    for c in range(codes.shape[1]):
        table = tables[c if len(tables) > 1 else 0]
        f = None if fractions is None else fractions[:, c, None]
        out[:, r * c : r * (c + 1)] = _interpolate(table, codes[:, c], f)
    return out


def _interpolate(table: Array, codes: Array, fractions: Array | None) -> Array:
    if fractions is None:
        return table[codes]
    lower = codes.astype(np.int64)
    return (1 - fractions) * table[lower] + fractions * table[lower + 1]


def _hash(
    logs: Array,
    places: Array,
    block: Array,
    ids: Array,
    seed: int,
    bits: int,
    keep_t: bool,
    first: int,
    out: Array,
) -> None:
    if not len(places):
        out[:] = 0
        return
    inverse, beta, r, base = (block[places, q, : out.shape[1]][None] for q in range(4))
    L = logs[:, :, None]
    t = np.floor(L * inverse + beta)
    a = base - r * t
    winner = np.argmin(a, axis=1)
    stars = ids[places[winner]]
    ts = np.take_along_axis(t, winner[:, None], axis=1)[:, 0]
    words = _mix(_streams(seed, first, out.shape[1]) ^ stars)
    if keep_t:
        words = _mix(words + ts.view(np.uint32).astype(np.uint64) * np.uint64(GOLDEN))
    empty = np.all(np.isinf(logs), axis=1, keepdims=True)
    out[:] = np.where(empty, 0, words >> np.uint64(64 - bits))


def _streams(seed: int, first: int, count: int) -> Array:
    hashes = np.arange(first + 1, first + count + 1, dtype=np.uint64)
    return _mix(np.uint64(seed) + hashes * np.uint64(GOLDEN))


def _half(word: Array) -> Array:
    return (word.astype(np.float64) + 0.5) * 2.0**-32


def _mix(word: Array) -> Array:
    """Return the finalizer of SplitMix64, a bijection of 64 bits."""
    first, second = MULTIPLIERS
    z = (word ^ (word >> np.uint64(30))) * np.uint64(first)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(second)
    return z ^ (z >> np.uint64(31))
