"""Cases of codes: consistent weighted sampling, lookup in tables, search among edges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tests.helpers.op_arguments import (
    Args,
    Array,
    Axes,
    Case,
    eps,
    histogram,
    normal,
    reference,
    wide,
)

# Consistent weighted sampling is float32 by definition, with equal codes in every form. Parameters
# are computed from float64 logarithms, which may differ in their last bit: a parameter may then be
# rounded to its neighbour.


def no_error(truth: Array, args: Args) -> int:
    return 0


def rounded_bound(truth: Array, args: Args) -> Array:
    return np.abs(truth) * eps(args)


def sampling(rng: np.random.Generator, dtype: type, d: int, m: int) -> tuple[Args, type]:
    """Return m hashes of d columns and the dtype of the codes.

    For odd m the parameters are multiples of 1/8, so that many a are equal.
    """
    seed, first = int(rng.integers(2**64, dtype=np.uint64)), int(rng.integers(1000))
    ids = rng.integers(2**64, size=d, dtype=np.uint64)
    parameters = reference.gcws_parameters(
        seed, ids, first, np.empty((-(-m // 64), d, 4, 64), dtype=np.float32)
    )
    if m % 2:
        parameters = np.ceil(8 * parameters) / np.float32(8)
    bits, code = (1 + m % 8, np.uint8) if dtype is np.float32 else (1 + m % 16, np.uint16)
    fixed = {"seed": seed, "first": first, "bits": bits, "keep_t": bool(rng.integers(2))}
    return {"parameters": parameters, "ids": ids, **fixed}, code


def logarithms(rng: np.random.Generator, n: int, d: int) -> Array:
    """Return logarithms of histograms; every seventh row is empty."""
    X = histogram(rng, np.float32, n, d)
    X[::7] = 0
    with np.errstate(divide="ignore"):
        return np.log(X)


def dense_sampling(rng: np.random.Generator, dtype: type, n: int, d: int, m: int) -> Args:
    drawn, code = sampling(rng, dtype, d, m)
    return {"logs": logarithms(rng, n, d), **drawn, "out": np.empty((n, m), dtype=code)}


def sparse_sampling(rng: np.random.Generator, dtype: type, n: int, d: int, m: int) -> Args:
    drawn, code = sampling(rng, dtype, d, m)
    logs = logarithms(rng, n, d)
    stored = np.isfinite(logs)
    index = (np.int32, np.int64)[(n + d + m) % 2]
    indptr = np.append(0, np.cumsum(stored.sum(axis=1))).astype(index)
    parts = {"indptr": indptr, "places": np.nonzero(stored)[1].astype(index), "logs": logs[stored]}
    return {**parts, **drawn, "out": np.empty((n, m), dtype=code)}


def parameters(rng: np.random.Generator, dtype: type, n: int, d: int, m: int) -> Args:
    drawn, _ = sampling(rng, dtype, d, 64 * (n % 3))
    return {k: drawn[k] for k in ("seed", "ids", "first")} | {
        "out": np.empty_like(drawn["parameters"])
    }


# Lookup in tables: a plain sum with one term for each place or row; two with fractions, each
# rounded once more.


def coded(rng: np.random.Generator, dtype: type, n: int, d: int, m: int) -> tuple[Args, int]:
    """Return codes of n rows and d places, with fractions for odd m, and the number of codes."""
    count = 2 + (n + 3 * d + m) % 20
    code = (np.uint8, np.uint16, np.int32)[(n + d + m) % 3]
    fractions = rng.random((n, d)).astype(dtype) if m % 2 else None
    return {
        "codes": rng.integers(count - m % 2, size=(n, d)).astype(code),
        "fractions": fractions,
    }, count


def coded_product(rng: np.random.Generator, dtype: type, n: int, d: int, m: int) -> Args:
    given, count = coded(rng, dtype, n, d, m)
    return {
        **given,
        "panels": normal(rng, dtype, d if n % 3 else 1, count, m),
        "out": np.empty((n, m), dtype=dtype),
    }


def coded_rows(rng: np.random.Generator, dtype: type, n: int, d: int, m: int) -> Args:
    given, count = coded(rng, dtype, n, d, m)
    r = m % 12
    return {
        **given,
        "tables": normal(rng, dtype, d if n % 3 else 1, count, r),
        "out": np.empty((n, r * d), dtype=dtype),
    }


def coded_sums(rng: np.random.Generator, dtype: type, n: int, d: int, m: int) -> Args:
    given, count = coded(rng, dtype, n, d, m)
    return {**given, "R": normal(rng, dtype, n, m), "out": np.empty((d, count, m), dtype=dtype)}


def coded_descent(rng: np.random.Generator, dtype: type, n: int, d: int, m: int) -> Args:
    """Make a sweep over most rows from weights a, with W = sum scale a; some rows have c = 0.

    Losses and intercepts alternate with n, rows without codes with d.
    """
    count = 5
    loss = ("squared_hinge", "squared", "logistic")[n % 3]
    codes = rng.integers(0, count, (n, d)).astype([np.uint8, np.uint16, np.int32][m % 3])
    empty = rng.random(n) < 0.2 if d % 2 else None
    Y = rng.choice([-1, 1], (n, m)).astype(dtype)
    c = np.where(np.arange(n) % 7 == 3, 0, rng.random(n)).astype(dtype)
    a = Y * (c[:, None] * rng.random((n, m))).astype(dtype)
    scale = 1 / np.sqrt(max(d, 1))
    W = np.zeros((d, count, m))
    for p in range(d):
        rows = a if empty is None else np.where(empty[:, None], 0, a)
        np.add.at(W[p], codes[:, p], scale * rows)
    return {
        "codes": codes,
        "empty": empty,
        "order": rng.permutation(n)[: n - n // 5],
        "Y": Y,
        "c": c,
        "scale": scale,
        "slope": 0.0 if n % 2 else 0.25,
        "loss": loss,
        "F": np.zeros((n, m), dtype),
        "a": a,
        "b": normal(rng, dtype, m) / 4,
        "W": W.astype(dtype),
    }


def descent_bound(truth: Array, args: Args) -> Any:
    """Return the rounding of a score, a sum over places, for each row of the sweep.

    Errors of earlier rows are propagated with factors below 1.
    """
    places, rows = args["codes"].shape[1], len(args["codes"])
    return eps(args) * (places + 8) * (rows + 1) * (1 + np.abs(args["W"]).max(initial=0.0))


def coded_bound(name: str, numbers: str, axis: int | None) -> Callable[[Array, Args], Any]:
    def bound(truth: Array, args: Args) -> Any:
        size = getattr(reference, name)(
            **args | {numbers: np.abs(wide(args[numbers])), "out": np.empty_like(truth)}
        )
        if args["fractions"] is None:
            return 0 if axis is None else eps(args) * (args["codes"].shape[axis] + 1) / 2 * size
        return eps(args) * ((0 if axis is None else args["codes"].shape[axis]) + 2) * size

    return bound


# Search among edges. Values and edges are multiples of 1/8 for even n, so that many are equal;
# infinite edges are padding.


def rising(rng: np.random.Generator, dtype: type, d: int, m: int, least: int) -> Array:
    """Return (d or 1, least + m) distinct rising values; rows end in inf for every third m."""
    shape = (d if m % 4 else 1, least + m)
    numbers = np.sort(
        rng.permuted(np.broadcast_to(np.arange(2 * shape[1]), (shape[0], 2 * shape[1])), axis=1)[
            :, : shape[1]
        ],
        axis=1,
    )
    table = ((numbers - shape[1]) / 8).astype(dtype)
    if not m % 3:
        table[:, least + 2 * m // 3 :] = np.inf
    return table


def between(rng: np.random.Generator, dtype: type, n: int, d: int, table: Array) -> Array:
    finite = table[np.isfinite(table)]
    low, high = (finite.min() - 1, finite.max() + 1) if finite.size else (-1, 1)
    X = rng.uniform(low, high, size=(n, d))
    return (X if n % 2 else np.rint(8 * X) / 8).astype(dtype)


def levels(rng: np.random.Generator, dtype: type, n: int, d: int, m: int) -> Args:
    edges = rising(rng, dtype, d, m, 0)
    code = (np.uint16, np.int32, np.uint8)[(n + d + m) % 3 if m < 256 else m % 2]
    X = between(rng, dtype, n, d, edges)
    return {"X": X, "edges": edges, "inclusive": bool(n % 3), "out": np.empty((n, d), dtype=code)}


def brackets(rng: np.random.Generator, dtype: type, n: int, d: int, m: int) -> Args:
    anchors = rising(rng, dtype, d, m, 2)
    code = (np.uint16, np.int32, np.uint8)[(n + d + m) % 3 if m < 256 else m % 2]
    outputs = {"codes": np.empty((n, d), dtype=code), "fractions": np.empty((n, d), dtype=dtype)}
    return {"X": between(rng, dtype, n, d, anchors), "anchors": anchors, **outputs}


def brackets_bound(truth: Array, args: Args) -> Array:
    """Return 0 for codes and 2 eps for fractions."""
    return eps(args) * np.array([0, 2])[:, None, None]


def spread(rng: np.random.Generator, dtype: type, n: int, d: int, m: int) -> Args:
    """Make integers of the size of dtype, up to the largest index of a mapped CSR matrix."""
    kind, values = {np.float32: np.int32, np.float64: np.int64}[dtype], m % 11
    indices = rng.integers(0, np.iinfo(kind).max // max(values, 1), n * d).astype(kind)
    return {"indices": indices, "out": np.empty((n * d, values), dtype=kind)}


CODES: dict[str, Case] = {
    "spread": Case(spread, no_error, Axes({"indices": 0})),
    "levels": Case(levels, no_error, Axes({"X": 0}, {"X": 1, "edges": 0})),
    "brackets": Case(
        brackets,
        brackets_bound,
        Axes({"X": 0}, {"X": 1, "anchors": 0}, output=(1, 2)),
        outputs=("codes", "fractions"),
    ),
    "coded_descent": Case(
        coded_descent,
        descent_bound,
        Axes({}, {"Y": 1, "b": 0, "F": 1, "a": 1, "W": 2}, output=(0, 2)),
        outputs=("W",),
        state=("F", "a", "b", "W"),
    ),
    "coded_product": Case(
        coded_product,
        coded_bound("coded_product", "panels", 1),
        Axes({"codes": 0, "fractions": 0}, {"panels": 2}),
    ),
    "coded_rows": Case(
        coded_rows,
        coded_bound("coded_rows", "tables", None),
        Axes({"codes": 0, "fractions": 0}, {"codes": 1, "fractions": 1, "tables": 0}, values=0),
    ),
    "coded_sums": Case(
        coded_sums, coded_bound("coded_sums", "R", 0), Axes({}, {"R": 1}, output=(0, 2))
    ),
    "gcws": Case(dense_sampling, no_error, Axes({"logs": 0}, prefix=True), wider=False),
    "gcws_csr": Case(sparse_sampling, no_error, Axes({"": 0}, prefix=True), wider=False),
    "gcws_parameters": Case(parameters, rounded_bound, Axes({}, {"ids": 0}), wider=False),
}
