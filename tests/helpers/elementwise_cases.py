"""Cases of elementwise ops (links), Hadamard transforms and products, with and without a link."""

from __future__ import annotations

import numpy as np
from tests.helpers.op_arguments import (
    SCALE,
    Args,
    Array,
    Axes,
    Case,
    eps,
    normal,
    norms,
    reference,
    sparse_parts,
    wide,
)

# Links: within 4 eps of the amplitude in float32, 4e-16 in float64. 2^-t: 2 ulp, also of denormal
# results.


def link_bound(truth: Array, args: Args) -> float:
    return args["scale"] * (4 * eps(args) if eps(args) > 1e-10 else 4e-16)


def phased_bound(truth: Array, args: Args) -> float:
    return args["scale"] * 4 * eps(args)


def exp2_bound(truth: Array, args: Args) -> Array:
    kind = args["T"].dtype
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = np.abs(truth).astype(kind)
    return 2 * np.maximum(
        np.where(np.isfinite(rounded), rounded, 0) * eps(args), np.finfo(kind).smallest_subnormal
    )


def expanded_bound(truth: Array, args: Args) -> Array:
    """Return ln 2 times the error of the sum, 2 eps of its parts, and 2 ulp of the power."""
    parts = np.abs(args["rows"][:, None]) + np.abs(args["columns"]) + np.abs(SCALE * args["T"])
    return exp2_bound(truth, args) + np.abs(truth) * np.expm1(np.log(2) * 2 * eps(args) * parts)


# Transforms: the worst case of three times log2 p additions, log2(p^3) / 2 eps |x| |w|.
# test_transforms_keep_the_promise has a smaller bound on the mean.


def hadamard_bound(truth: Array, args: Args) -> Array:
    p = args["signs"].shape[2]
    size = norms(args["X"])[:, None] * np.abs(args["lengths"]) * p**1.5
    return eps(args) * (3 * np.log2(p) + 3) / 2 * size


def hadamard_link_bound(truth: Array, args: Args) -> Array:
    return linked(hadamard_bound(truth, args) / eps(args), truth, args)


def linked(turns: Array, truth: Array, args: Args) -> Array:
    """Return the bound after a link with one or two columns for each of turns, in units of eps."""
    return (
        args["scale"]
        * eps(args)
        * (4 + 2 * np.pi * np.repeat(turns, truth.shape[1] // max(turns.shape[1], 1), axis=1))
    )


def promise(truth: Array, args: Args) -> Array:
    """Return the promised bound, eps (4 + |x| |w|) of the amplitude, w in radians."""
    return linked(
        norms(args["X"])[:, None] * np.abs(args["lengths"]) * args["signs"].shape[2] ** 1.5,
        truth,
        args,
    )


def projected(rng: np.random.Generator, dtype: type, n: int, d: int, m: int) -> Args:
    return {"X": normal(rng, dtype, n, d), "W": normal(rng, dtype, d, m)}


def product_bound(truth: Array, args: Args) -> Array:
    """Return the bound for the worst case of d additions before the link."""
    size = norms(args["X"])[:, None] * norms(args["W"].T)
    return linked((args["X"].shape[1] + 1) / 2 * size, truth, args)


def plain_product_bound(truth: Array, args: Args) -> Array:
    """Return the bound for the worst case of d additions."""
    size = np.abs(wide(args["X"])) @ np.abs(wide(args["W"]))
    return eps(args) * (args["X"].shape[1] + 1) / 2 * size


def hadamard_arrays(
    rng: np.random.Generator, dtype: type, n: int, d: int, m: int, p: int = 0
) -> Args:
    p = p or 1 << max(d - 1, 0).bit_length()
    signs = rng.choice(np.array([-1, 1], dtype=dtype), size=(-(-m // p), 3, p))
    lengths = ((0.5 + rng.random(m)) / p**1.5).astype(dtype)
    return {"X": normal(rng, dtype, n, d), "signs": signs, "lengths": lengths}


def sparse_product(rng: np.random.Generator, dtype: type, n: int, d: int, m: int) -> Args:
    X = normal(rng, dtype, n, d) * (rng.random((n, d)) < 0.5)
    parts = sparse_parts("", X.astype(dtype), (np.int32, np.int64)[(n + d + m) % 2])
    return {**parts, "W": normal(rng, dtype, d, m), "out": np.empty((n, m), dtype=dtype)}


def sparse_product_bound(truth: Array, args: Args) -> Array:
    absolute = {k: np.abs(wide(args[k])) for k in ("data", "W")}
    size = reference.csr_product(
        args["indptr"], args["indices"], **absolute, out=np.empty_like(truth)
    )
    return eps(args) * (np.diff(args["indptr"])[:, None] + 1) / 2 * size


def sparse_decay(rng: np.random.Generator, dtype: type, n: int, d: int, m: int) -> Args:
    args = sparse_product(rng, dtype, n, d, m)
    offsets = normal(rng, dtype, m) if d % 2 else None
    return {**args, "offsets": offsets, "scale": SCALE, "out": args["out"]}


def sparse_decay_bound(truth: Array, args: Args) -> Array:
    """Return ln 2 times the error of t (one more rounding for an offset) and 2 ulp of 2^-t."""
    shifts = 0 if args["offsets"] is None else np.abs(args["offsets"])
    t = np.log2(SCALE / truth)
    moved = sparse_product_bound(truth, args) + eps(args) * (np.abs(t) + shifts)
    return exp2_bound(truth, {"T": args["out"]}) + truth * np.expm1(np.log(2) * moved)


HADAMARD = {"X": 0}, {"lengths": 0, "phases": 0}
# Products have no axes: BLAS uses other kernels for other shapes. Those of the core are compared in
# tests/ops/test_products.py.
ELEMENTWISE: dict[str, Case] = {
    "cos_": Case(
        lambda rng, t, n, d, m: {
            "T": 5 * normal(rng, t, n, m),
            "scale": SCALE,
            "phases": normal(rng, t, m) if d % 2 else None,
        },
        phased_bound,
        Axes({"T": 0}, {"T": 1, "phases": 0}),
        outputs=("T",),
    ),
    "cossin": Case(
        lambda rng, t, n, d, m: {
            "T": 5 * normal(rng, t, n, m),
            "scale": SCALE,
            "out": np.empty((n, 2 * m), dtype=t),
        },
        link_bound,
        Axes({"T": 0}, {"T": 1}, values=2),
    ),
    "exp2neg_": Case(
        lambda rng, t, n, d, m: {"T": 5 * normal(rng, t, n, m), "scale": SCALE},
        exp2_bound,
        Axes({"T": 0}, {"T": 1}),
        outputs=("T",),
    ),
    "exp2neg_expanded_": Case(
        lambda rng, t, n, d, m: {
            "T": 5 * normal(rng, t, n, m),
            "rows": 5 * np.abs(normal(rng, t, n)),
            "columns": 5 * np.abs(normal(rng, t, m)),
            "scale": SCALE,
        },
        expanded_bound,
        Axes({"T": 0, "rows": 0}, {"T": 1, "columns": 0}),
        outputs=("T",),
    ),
    "row_norm": Case(
        lambda rng, t, n, d, m: {
            "X": np.where(rng.random((n, 1)) < 0.8, normal(rng, t, n, m), 0).astype(t)
            * np.exp2(rng.integers(-100, 100, (n, 1))).astype(t),
            "out": np.empty((n, m), dtype=t),
        },
        lambda truth, args: (
            4 * eps(args) * np.abs(truth) + np.finfo(args["X"].dtype).smallest_subnormal
        ),
        Axes({"X": 0}),
    ),
    "hadamard": Case(
        lambda rng, t, n, d, m: {
            **hadamard_arrays(rng, t, n, d, m),
            "out": np.empty((n, m), dtype=t),
        },
        hadamard_bound,
        Axes(*HADAMARD, prefix=True),
    ),
    "hadamard_cos": Case(
        lambda rng, t, n, d, m: {
            **hadamard_arrays(rng, t, n, d, m),
            "scale": SCALE,
            "phases": normal(rng, t, m) if d % 2 else None,
            "out": np.empty((n, m), dtype=t),
        },
        hadamard_link_bound,
        Axes(*HADAMARD, prefix=True),
    ),
    "hadamard_cossin": Case(
        lambda rng, t, n, d, m: {
            **hadamard_arrays(rng, t, n, d, m),
            "scale": SCALE,
            "out": np.empty((n, 2 * m), dtype=t),
        },
        hadamard_link_bound,
        Axes(*HADAMARD, values=2, prefix=True),
    ),
    "product": Case(
        lambda rng, t, n, d, m: {
            **projected(rng, t, n, d, m),
            "out": np.empty((n, m), dtype=t),
        },
        plain_product_bound,
        Axes(),
    ),
    "inner_products": Case(
        lambda rng, t, n, d, m: {
            "X": normal(rng, t, n, d),
            "W": normal(rng, t, m, d),
            "out": np.empty((n, m), dtype=t),
        },
        lambda truth, args: plain_product_bound(truth, {"X": args["X"], "W": args["W"].T}),
        Axes({"X": 0}, {"W": 0}),
    ),
    "weighted_sums": Case(
        lambda rng, t, n, d, m: {
            "R": normal(rng, t, d, n),
            "X": normal(rng, t, d, m),
            "out": np.empty((n, m), dtype=t),
        },
        lambda truth, args: plain_product_bound(truth, {"X": args["R"].T, "W": args["X"]}),
        Axes({"R": 1}, {"X": 1}),
    ),
    "product_cos": Case(
        lambda rng, t, n, d, m: {
            **projected(rng, t, n, d, m),
            "scale": SCALE,
            "phases": normal(rng, t, m) if d % 2 else None,
            "out": np.empty((n, m), dtype=t),
        },
        product_bound,
        Axes(),
    ),
    "product_cossin": Case(
        lambda rng, t, n, d, m: {
            **projected(rng, t, n, d, m),
            "scale": SCALE,
            "out": np.empty((n, 2 * m), dtype=t),
        },
        product_bound,
        Axes(),
    ),
    "csr_exp2neg": Case(sparse_decay, sparse_decay_bound, Axes({"": 0}, {"W": 1, "offsets": 0})),
    "csr_product": Case(sparse_product, sparse_product_bound, Axes({"": 0}, {"W": 1})),
}
