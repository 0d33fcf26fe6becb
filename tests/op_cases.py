"""One maker of arguments and one error bound for every op. test_every_op checks that no op is missing here.

make(rng, dtype, n, d, m) gives the arguments; a name that ends in _ works on T, others write to out or to what `outputs` names.
Codes must be those of the truth; where an op is float32 by definition, dtype chooses the type of its codes.
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
    wider: bool = True  # the truth is the reference in the next wider type; else in its own, to the last bit
    outputs: tuple[str, ...] = ("out",)
    state: tuple[str, ...] = ()  # what it reads and writes: copied for each call


def eps(args: Args) -> float:
    return float(
        np.finfo(next(a.dtype for a in args.values() if isinstance(a, np.ndarray) and a.dtype.kind == "f")).eps
    )


def wide(a: Any) -> Any:
    """The next wider type: there the reference is the truth."""
    if not isinstance(a, np.ndarray) or a.dtype.kind != "f":
        return a
    with np.errstate(invalid="ignore"):  # an output that was never written
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


def projected(rng: np.random.Generator, dtype: type, n: int, d: int, m: int) -> Args:
    return {"X": normal(rng, dtype, n, d), "W": normal(rng, dtype, d, m)}


def product_bound(truth: Array, args: Args) -> Array:
    """The worst case of d additions, before the link."""
    size = norms(args["X"])[:, None] * norms(args["W"].T)
    return linked((args["X"].shape[1] + 1) / 2 * size, truth, args)


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


# Consistent weighted sampling: float32 by definition, and the same codes everywhere. Parameters come from float64 logarithms, which may
# differ in their last bit: the number may then be rounded to its neighbour.


def no_error(truth: Array, args: Args) -> int:
    return 0


def rounded_bound(truth: Array, args: Args) -> Array:
    return np.abs(truth) * eps(args)


def sampling(rng: np.random.Generator, dtype: type, d: int, m: int) -> tuple[Args, type]:
    """m hashes of d columns, and the type of the codes. For odd m the parameters are whole numbers over 8: many a are equal."""
    seed, first = int(rng.integers(2**64, dtype=np.uint64)), int(rng.integers(1000))
    ids = rng.integers(2**64, size=d, dtype=np.uint64)
    parameters = reference.gcws_parameters(seed, ids, first, np.empty((-(-m // 64), d, 4, 64), dtype=np.float32))
    if m % 2:
        parameters = np.ceil(8 * parameters) / np.float32(8)
    bits, code = (1 + m % 8, np.uint8) if dtype is np.float32 else (1 + m % 16, np.uint16)
    fixed = {"seed": seed, "first": first, "bits": bits, "keep_t": bool(rng.integers(2))}
    return {"parameters": parameters, "ids": ids, **fixed}, code


def logarithms(rng: np.random.Generator, n: int, d: int) -> Array:
    """Of histograms; every seventh row is empty."""
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
    there = np.isfinite(logs)
    index = (np.int32, np.int64)[(n + d + m) % 2]
    indptr = np.append(0, np.cumsum(there.sum(axis=1))).astype(index)
    parts = {"indptr": indptr, "places": np.nonzero(there)[1].astype(index), "logs": logs[there]}
    return {**parts, **drawn, "out": np.empty((n, m), dtype=code)}


def parameters(rng: np.random.Generator, dtype: type, n: int, d: int, m: int) -> Args:
    drawn, _ = sampling(rng, dtype, d, 64 * (n % 3))
    return {k: drawn[k] for k in ("seed", "ids", "first")} | {"out": np.empty_like(drawn["parameters"])}


# Codes into tables: a plain sum of as many terms as there are places, or rows; twice as many with fractions, each rounded once more.


def coded(rng: np.random.Generator, dtype: type, n: int, d: int, m: int) -> tuple[Args, int]:
    """Codes of n rows and d places, fractions for every second m, and how many codes there are."""
    count = 2 + (n + 3 * d + m) % 20
    code = (np.uint8, np.uint16, np.int32)[(n + d + m) % 3]
    fractions = rng.random((n, d)).astype(dtype) if m % 2 else None
    return {"codes": rng.integers(count - m % 2, size=(n, d)).astype(code), "fractions": fractions}, count


def coded_product(rng: np.random.Generator, dtype: type, n: int, d: int, m: int) -> Args:
    given, count = coded(rng, dtype, n, d, m)
    return {**given, "panels": normal(rng, dtype, d if n % 3 else 1, count, m), "out": np.empty((n, m), dtype=dtype)}


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
    """A sweep over most rows from weights a, with W = sum scale a; a few rows have no weight."""
    count = 5
    codes = rng.integers(0, count, (n, d)).astype([np.uint8, np.uint16, np.int32][m % 3])
    Y = rng.choice([-1, 1], (n, m)).astype(dtype)
    a = Y * np.maximum(rng.normal(size=(n, m)), 0).astype(dtype)
    scale = 1 / np.sqrt(max(d, 1))
    W = np.zeros((d, count, m))
    for p in range(d):
        np.add.at(W[p], codes[:, p], scale * a)
    given = {"codes": codes, "order": rng.permutation(n)[: n - n // 5], "Y": Y, "b": normal(rng, dtype, m) / 4}
    c = np.where(np.arange(n) % 7 == 3, 0, rng.random(n)).astype(dtype)
    return {**given, "c": c, "scale": scale, "a": a, "W": W.astype(dtype)}


def descent_bound(truth: Array, args: Args) -> Any:
    """Each step has the rounding of a score, a sum over places; steps of the rows before add to it, each with a factor below 1."""
    places, rows = args["codes"].shape[1], len(args["codes"])
    return eps(args) * (places + 8) * (rows + 1) * (1 + np.abs(args["W"]).max(initial=0.0))


def coded_bound(name: str, numbers: str, axis: int | None) -> Callable[[Array, Args], Any]:
    def bound(truth: Array, args: Args) -> Any:
        size = getattr(reference, name)(**args | {numbers: np.abs(wide(args[numbers])), "out": np.empty_like(truth)})
        if args["fractions"] is None:
            return 0 if axis is None else eps(args) * (args["codes"].shape[axis] + 1) / 2 * size
        return eps(args) * ((0 if axis is None else args["codes"].shape[axis]) + 2) * size

    return bound


# Numbers to codes. Numbers and edges are whole numbers over 8 for every second n, so that many are equal; infinite edges are no edges.


def rising(rng: np.random.Generator, dtype: type, d: int, m: int, least: int) -> Array:
    """(d or 1, least + m) different numbers for each row, which ends in inf for every third m."""
    shape = (d if m % 4 else 1, least + m)
    numbers = np.sort(
        rng.permuted(np.broadcast_to(np.arange(2 * shape[1]), (shape[0], 2 * shape[1])), axis=1)[:, : shape[1]], axis=1
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
    """Codes are equal, fractions within 2 eps."""
    return eps(args) * np.array([0, 2])[:, None, None]


def spread(rng: np.random.Generator, dtype: type, n: int, d: int, m: int) -> Args:
    """Integers of the size of dtype, up to the largest that a lifted CSR matrix can have."""
    kind, values = {np.float32: np.int32, np.float64: np.int64}[dtype], m % 11
    indices = rng.integers(0, np.iinfo(kind).max // max(values, 1), n * d).astype(kind)
    return {"indices": indices, "out": np.empty((n * d, values), dtype=kind)}


CASES: dict[str, Case] = {
    "spread": Case(spread, no_error),
    "levels": Case(levels, no_error),
    "brackets": Case(brackets, brackets_bound, outputs=("codes", "fractions")),
    "coded_descent": Case(coded_descent, descent_bound, outputs=("W",), state=("a", "W")),
    "coded_product": Case(coded_product, coded_bound("coded_product", "panels", 1)),
    "coded_rows": Case(coded_rows, coded_bound("coded_rows", "tables", None)),
    "coded_sums": Case(coded_sums, coded_bound("coded_sums", "R", 0)),
    "gcws": Case(dense_sampling, no_error, wider=False),
    "gcws_csr": Case(sparse_sampling, no_error, wider=False),
    "gcws_parameters": Case(parameters, rounded_bound, wider=False),
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
        outputs=("T",),
    ),
    "cossin": Case(
        lambda rng, t, n, d, m: {"T": 5 * normal(rng, t, n, m), "scale": SCALE, "out": np.empty((n, 2 * m), dtype=t)},
        link_bound,
    ),
    "exp2neg_": Case(
        lambda rng, t, n, d, m: {"T": 5 * normal(rng, t, n, m), "scale": SCALE}, exp2_bound, outputs=("T",)
    ),
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
    "product_cos": Case(
        lambda rng, t, n, d, m: {
            **projected(rng, t, n, d, m),
            "scale": SCALE,
            "phases": normal(rng, t, m) if d % 2 else None,
            "out": np.empty((n, m), dtype=t),
        },
        product_bound,
    ),
    "product_cossin": Case(
        lambda rng, t, n, d, m: {**projected(rng, t, n, d, m), "scale": SCALE, "out": np.empty((n, 2 * m), dtype=t)},
        product_bound,
    ),
    "gram_chi2": gram(histogram),
    "gram_chi2_distance": gram(histogram),
    "gram_intersection": gram(histogram),
    "gram_minmax": gram(histogram),
    "gram_jensen_shannon": gram(histogram),
    "gram_l1": gram(normal),
    "gram_l2": gram(normal),
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
    "gram_l2": lambda x, z: ((x - z) ** 2).sum(axis=-1),
}


def result(module: Any, name: str, args: Args) -> Array:
    """The op on copies of its input (it may use T as working space), but on the very out."""
    return call(module, name, {k: a.copy() if k in ("T", *CASES[name].state) else a for k, a in args.items()})


def call(module: Any, name: str, args: Args) -> Array:
    """The op on its very arguments. Two outputs are stacked."""
    found = getattr(module, name)(**args)
    outputs = CASES[name].outputs
    if len(outputs) == 1:
        return found
    assert found is None
    return np.stack([args[k] for k in outputs], dtype=args[outputs[-1]].dtype, casting="unsafe")


def truth(name: str, args: Args) -> Array:
    """In memory of its own."""
    own = {k: a.copy() if isinstance(a, np.ndarray) else a for k, a in args.items()}
    with np.errstate(all="ignore"):
        return call(reference, name, {k: wide(a) if CASES[name].wider else a for k, a in own.items()})


def check(module: Any, name: str, args: Args) -> None:
    exact = truth(name, args)
    with np.errstate(all="ignore"):
        found = result(module, name, args)
        agree(found, exact, CASES[name].bound(exact, args))


def agree(found: Array, exact: Array, bound: Any) -> None:
    """Within the bound; NaN where the truth is NaN, inf where it leaves the range of the type. Codes are equal."""
    assert found.shape == exact.shape
    if found.dtype.kind != "f":
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
