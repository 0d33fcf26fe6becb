"""One maker of arguments and one error bound for every op. test_every_op checks that no op is missing here.

make(rng, dtype, n, d, m) gives the arguments; out is always called out, and a name that ends in _ works on T.
bound(truth, args) is the largest error allowed: design section 9, with eps of the op's own type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from mercer.ops import reference

Array = NDArray[Any]
Args = dict[str, Any]
SCALE = 0.7


@dataclass(frozen=True)
class Case:
    make: Callable[[np.random.Generator, type, int, int, int], Args]
    bound: Callable[[Array, Args], Any]


def eps(args: Args) -> float:
    return float(
        np.finfo(next(a.dtype for a in args.values() if isinstance(a, np.ndarray) and a.dtype.kind == "f")).eps
    )


def wide(a: Any) -> Any:
    """The next wider type: there the reference is the truth."""
    if not isinstance(a, np.ndarray) or a.dtype.kind != "f":
        return a
    return a.astype(np.float64 if a.dtype == np.float32 else np.longdouble)


def normal(rng: np.random.Generator, dtype: type, *shape: int) -> Array:
    return rng.standard_normal(shape).astype(dtype)


def histogram(rng: np.random.Generator, dtype: type, *shape: int) -> Array:
    return (rng.gamma(0.5, size=shape) * (rng.random(shape) < 0.7)).astype(dtype)


def norms(A: Array) -> Array:
    return np.linalg.norm(wide(A), axis=1)


# Links: within 4 eps of the amplitude in float32, 4e-16 in float64. 2^-t: 2 ulp, denormal results included.


def link_bound(truth: Array, args: Args) -> float:
    return args["scale"] * (4 * eps(args) if eps(args) > 1e-10 else 4e-16)


def phased_bound(truth: Array, args: Args) -> float:
    return args["scale"] * 4 * eps(args)


def exp2_bound(truth: Array, args: Args) -> Array:
    kind = args["T"].dtype
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = np.abs(truth).astype(kind)
    return 2 * np.maximum(np.where(np.isfinite(rounded), rounded, 0) * eps(args), np.finfo(kind).smallest_subnormal)


# Transforms: the worst case of three times log2 p additions, log2(p^3) / 2 eps |x| |w|. test_transforms_keep_the_promise asks for much
# less in the mean.


def hadamard_bound(truth: Array, args: Args) -> Array:
    p = args["signs"].shape[2]
    size = norms(args["X"])[:, None] * np.abs(args["lengths"]) * p**1.5
    return eps(args) * (3 * np.log2(p) + 3) / 2 * size


def hadamard_link_bound(truth: Array, args: Args) -> Array:
    return linked(hadamard_bound(truth, args) / eps(args), truth, args)


def linked(turns: Array, truth: Array, args: Args) -> Array:
    """The bound after a link with one or two columns for each of turns, which is in eps."""
    return (
        args["scale"] * eps(args) * (4 + 2 * np.pi * np.repeat(turns, truth.shape[1] // max(turns.shape[1], 1), axis=1))
    )


def promise(truth: Array, args: Args) -> Array:
    """Design section 9: eps (4 + |x| |w|) of the amplitude, w in radians."""
    return linked(norms(args["X"])[:, None] * np.abs(args["lengths"]) * args["signs"].shape[2] ** 1.5, truth, args)


def hadamard_arrays(rng: np.random.Generator, dtype: type, n: int, d: int, m: int, p: int = 0) -> Args:
    p = p or 1 << max(d - 1, 0).bit_length()
    signs = rng.choice(np.array([-1, 1], dtype=dtype), size=(-(-m // p), 3, p))
    lengths = ((0.5 + rng.random(m)) / p**1.5).astype(dtype)
    return {"X": normal(rng, dtype, n, d), "signs": signs, "lengths": lengths}


# Gram blocks: 16 eps of the exact value, and one denormal for each term.


def gram_bound(truth: Array, args: Args) -> Array:
    d = args["n_columns"] if "n_columns" in args else args["X"].shape[1]
    with np.errstate(invalid="ignore"):
        size = np.where(np.isfinite(truth), np.abs(truth), 0)
    return 16 * eps(args) * size + d * np.finfo(args["out"].dtype).smallest_subnormal


def gram(values: Callable[..., Array]) -> Case:
    def make(rng: np.random.Generator, dtype: type, n: int, d: int, m: int) -> Args:
        return {"X": values(rng, dtype, n, d), "Z": values(rng, dtype, m, d), "out": np.empty((n, m), dtype=dtype)}

    return Case(make, gram_bound)


def sparse_parts(name: str, A: Array, index: type) -> Args:
    S = scipy.sparse.csr_array(A)
    return {f"{name}indptr": S.indptr.astype(index), f"{name}indices": S.indices.astype(index), f"{name}data": S.data}


def sparse_gram(rng: np.random.Generator, dtype: type, n: int, d: int, m: int) -> Args:
    index = (np.int32, np.int64)[(n + d + m) % 2]
    X, Z = (sparse_parts(name, histogram(rng, dtype, k, d), index) for name, k in (("X_", n), ("Z_", m)))
    return {**X, **Z, "n_columns": d, "out": np.empty((n, m), dtype=dtype)}


def sparse_product(rng: np.random.Generator, dtype: type, n: int, d: int, m: int) -> Args:
    X = normal(rng, dtype, n, d) * (rng.random((n, d)) < 0.5)
    parts = sparse_parts("", X.astype(dtype), (np.int32, np.int64)[(n + d + m) % 2])
    return {**parts, "W": normal(rng, dtype, d, m), "out": np.empty((n, m), dtype=dtype)}


def sparse_product_bound(truth: Array, args: Args) -> Array:
    absolute = {k: np.abs(wide(args[k])) for k in ("data", "W")}
    size = reference.csr_product(args["indptr"], args["indices"], **absolute, out=np.empty_like(truth))
    return eps(args) * (np.diff(args["indptr"])[:, None] + 1) / 2 * size


def sparse_decay(rng: np.random.Generator, dtype: type, n: int, d: int, m: int) -> Args:
    args = sparse_product(rng, dtype, n, d, m)
    offsets = normal(rng, dtype, m) if d % 2 else None
    return {**args, "offsets": offsets, "scale": SCALE, "out": args["out"]}


def sparse_decay_bound(truth: Array, args: Args) -> Array:
    """2^-t moves by ln 2 of what t does, beside its own 2 ulp; adding an offset is one more rounding of t."""
    shifts = 0 if args["offsets"] is None else np.abs(args["offsets"])
    t = np.log2(SCALE / truth)
    moved = sparse_product_bound(truth, args) + eps(args) * (np.abs(t) + shifts)
    return exp2_bound(truth, {"T": args["out"]}) + truth * np.expm1(np.log(2) * moved)


# Lifts: within eps of the largest value of the same x, times what the recurrence adds up. Value q of the series is a product of q factors
# (4 + q/2: as large as the reference's own error, in which roundings mostly cancel). Value q of Chebyshev is a polynomial of degree q in
# ln x, so q times the relative error of the logarithm, which is 2 eps. An angle of homogeneous has a relative error of 2 eps: logarithm,
# step and product; its amplitude is its scale, for any other degree than 1 the exponent counts as an angle. Where x / (x + k) is denormal
# it has an absolute error, which the later steps multiply.


def lift_values(truth: Array, args: Args) -> Array:
    """As (n, d, N)."""
    n, d = args["X"].shape
    return np.abs(truth).reshape(n, d, truth.shape[1] // d if d else 1)


def lift_bound(growth: float) -> Callable[[Array, Args], Array]:
    def bound(truth: Array, args: Args) -> Array:
        with np.errstate(all="ignore"):
            values = lift_values(np.nan_to_num(truth), args)
            scale = values.max(axis=2, initial=0, keepdims=True)
            steps = growth * np.arange(values.shape[2])
            pole = np.max(args["poles"], initial=0) if "poles" in args else args["center"]
            tail = np.nan_to_num(scale / values[:, :, :1], posinf=0) + 2 * np.sqrt(wide(np.asarray(pole)))
            return (eps(args) * (4 + steps) * scale + 4 * smallest(args) * (1 + tail)).reshape(truth.shape)

    return bound


def homogeneous_bound(truth: Array, args: Args) -> Array:
    x, amplitudes = wide(args["X"])[:, :, None], wide(args["amplitudes"])
    with np.errstate(all="ignore"):
        logs = np.abs(np.log(np.where(x > 0, x, 1)))
        exponent = args["degree"] / 2
        angles = (np.append(0, np.repeat(args["harmonics"], 2)) * args["step"] + (exponent != 0.5) * exponent) * logs
        scale = np.append(amplitudes[0], np.repeat(amplitudes[1:], 2)) * x**exponent
        bound = eps(args) * (4 + 2 * angles) * scale + smallest(args) * (1 + amplitudes.max())
        return np.nan_to_num(bound, posinf=0).reshape(truth.shape)


def smallest(args: Args) -> Any:
    return wide(np.finfo(args["out"].dtype).smallest_subnormal.reshape(1))[0]


def series(rng: np.random.Generator, dtype: type, n: int, d: int, m: int) -> Args:
    poles = rng.random(1 + m % 10).astype(dtype) + dtype(0.001)
    return {"X": histogram(rng, dtype, n, d), "poles": poles, "out": np.empty((n, len(poles) * d), dtype=dtype)}


def chebyshev(rng: np.random.Generator, dtype: type, n: int, d: int, m: int) -> Args:
    terms = 1 + m % 10
    X, out = histogram(rng, dtype, n, d), np.empty((n, terms * d), dtype=dtype)
    return {"X": X, "n_terms": terms, "center": (0.375, 3.0)[m % 2], "out": out}


def homogeneous(rng: np.random.Generator, dtype: type, n: int, d: int, m: int) -> Args:
    """With all harmonics from 1 on, or with gaps."""
    count = m % 6
    chosen = rng.permutation(count * (1 + n % 2))[:count] + 1
    out = np.empty((n, (2 * count + 1) * d), dtype=dtype)
    amplitudes = (0.1 + 0.9 * rng.random(count + 1)).astype(dtype)
    degree = (1.0, 1.0, 2.0, 0.7)[(n + m) % 4]
    X = histogram(rng, dtype, n, d)
    return {"X": X, "amplitudes": amplitudes, "harmonics": np.sort(chosen), "step": 0.8, "degree": degree, "out": out}


def spread(rng: np.random.Generator, dtype: type, n: int, d: int, m: int) -> Args:
    """Integers of the size of dtype, up to the largest that a lifted CSR matrix can have."""
    kind, values = {np.float32: np.int32, np.float64: np.int64}[dtype], m % 11
    indices = rng.integers(0, np.iinfo(kind).max // max(values, 1), n * d).astype(kind)
    return {"indices": indices, "out": np.empty((n * d, values), dtype=kind)}


CASES: dict[str, Case] = {
    "spread": Case(spread, lambda truth, args: 0),
    "chi2_series": Case(series, lift_bound(0.5)),
    "chi2_chebyshev": Case(chebyshev, lift_bound(2)),
    "homogeneous": Case(homogeneous, homogeneous_bound),
    "cos_": Case(
        lambda rng, t, n, d, m: {
            "T": 5 * normal(rng, t, n, m),
            "scale": SCALE,
            "phases": normal(rng, t, m) if d % 2 else None,
        },
        phased_bound,
    ),
    "cossin": Case(
        lambda rng, t, n, d, m: {"T": 5 * normal(rng, t, n, m), "scale": SCALE, "out": np.empty((n, 2 * m), dtype=t)},
        link_bound,
    ),
    "exp2neg_": Case(lambda rng, t, n, d, m: {"T": 5 * normal(rng, t, n, m), "scale": SCALE}, exp2_bound),
    "hadamard": Case(
        lambda rng, t, n, d, m: {**hadamard_arrays(rng, t, n, d, m), "out": np.empty((n, m), dtype=t)}, hadamard_bound
    ),
    "hadamard_cos": Case(
        lambda rng, t, n, d, m: {
            **hadamard_arrays(rng, t, n, d, m),
            "scale": SCALE,
            "phases": normal(rng, t, m) if d % 2 else None,
            "out": np.empty((n, m), dtype=t),
        },
        hadamard_link_bound,
    ),
    "hadamard_cossin": Case(
        lambda rng, t, n, d, m: {
            **hadamard_arrays(rng, t, n, d, m),
            "scale": SCALE,
            "out": np.empty((n, 2 * m), dtype=t),
        },
        hadamard_link_bound,
    ),
    "gram_chi2": gram(histogram),
    "gram_chi2_distance": gram(histogram),
    "gram_intersection": gram(histogram),
    "gram_minmax": gram(histogram),
    "gram_jensen_shannon": gram(histogram),
    "gram_l1": gram(normal),
    "gram_chi2_csr": Case(sparse_gram, gram_bound),
    "gram_intersection_csr": Case(sparse_gram, gram_bound),
    "gram_minmax_csr": Case(sparse_gram, gram_bound),
    "csr_exp2neg": Case(sparse_decay, sparse_decay_bound),
    "csr_product": Case(sparse_product, sparse_product_bound),
}

# The textbook formula of each Gram op, for numbers where nothing over- or underflows.
LITERAL: dict[str, Callable[[Array, Array], Array]] = {
    "gram_chi2": lambda x, z: (2 * x * z / (x + z)).sum(axis=-1),
    "gram_chi2_distance": lambda x, z: ((x - z) ** 2 / (x + z)).sum(axis=-1),
    "gram_intersection": lambda x, z: np.minimum(x, z).sum(axis=-1),
    "gram_minmax": lambda x, z: np.minimum(x, z).sum(axis=-1) / np.maximum(x, z).sum(axis=-1),
    "gram_jensen_shannon": lambda x, z: (x / 2 * np.log2((x + z) / x) + z / 2 * np.log2((x + z) / z)).sum(axis=-1),
    "gram_l1": lambda x, z: np.abs(x - z).sum(axis=-1),
}


def result(module: Any, name: str, args: Args) -> Array:
    """The op on copies of its input (it may use T as working space), but on the very out."""
    return getattr(module, name)(**{k: a.copy() if k == "T" else a for k, a in args.items()})


def truth(name: str, args: Args) -> Array:
    with np.errstate(all="ignore"):
        copies = {
            k: a.copy() if isinstance(a, np.ndarray) else a for k, a in args.items()
        }  # wide leaves integers where they are
        return getattr(reference, name)(**{k: wide(a) for k, a in copies.items()})


def check(module: Any, name: str, args: Args) -> None:
    exact = truth(name, args)
    with np.errstate(all="ignore"):
        found = result(module, name, args)
        agree(found, exact, CASES[name].bound(exact, args))


def agree(found: Array, exact: Array, bound: Any) -> None:
    """Within the bound; NaN where the truth is NaN, inf where it leaves the range of the type."""
    if found.dtype.kind == "i":
        np.testing.assert_array_equal(found, exact)
        return
    rounded = exact.astype(found.dtype)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(rounded))
    near_end = np.abs(exact) > np.finfo(found.dtype).max * (1 - 1e-5)
    odd = (np.isfinite(found) != np.isfinite(rounded)) & ~near_end
    assert not odd.any(), f"{found[odd][0]} for {exact[odd][0]}"
    kept = np.isfinite(rounded) & np.isfinite(found)
    over = np.where(kept, np.abs(np.where(kept, found, 0) - np.where(kept, exact, 0)) - bound, 0)
    if over.size and over.max() > 0:
        at = np.unravel_index(over.argmax(), over.shape)
        raise AssertionError(f"at {at}: {found[at]!r} for {exact[at]!r}, {float(over.max())} above the bound")
