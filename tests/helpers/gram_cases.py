"""Cases of Gram blocks, dense and sparse, and the textbook formula of each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tests.helpers.op_arguments import Args, Array, Axes, Case, eps, histogram, normal, sparse_parts

# Gram blocks: 16 eps of the exact value, and one denormal for each term.


def gram_bound(truth: Array, args: Args) -> Array:
    d = args["n_columns"] if "n_columns" in args else args["X"].shape[1]
    with np.errstate(invalid="ignore"):
        size = np.where(np.isfinite(truth), np.abs(truth), 0)
    return 16 * eps(args) * size + d * np.finfo(args["out"].dtype).smallest_subnormal


def gram(values: Callable[..., Array]) -> Case:
    def make(rng: np.random.Generator, dtype: type, n: int, d: int, m: int) -> Args:
        return {
            "X": values(rng, dtype, n, d),
            "Z": values(rng, dtype, m, d),
            "out": np.empty((n, m), dtype=dtype),
        }

    return Case(make, gram_bound, Axes({"X": 0}, {"Z": 0}))


def sparse_gram(rng: np.random.Generator, dtype: type, n: int, d: int, m: int) -> Args:
    index = (np.int32, np.int64)[(n + d + m) % 2]
    X, Z = (
        sparse_parts(name, histogram(rng, dtype, k, d), index) for name, k in (("X_", n), ("Z_", m))
    )
    return {**X, **Z, "n_columns": d, "out": np.empty((n, m), dtype=dtype)}


CSR_GRAM = Axes({"X_": 0}, {"Z_": 0})
GRAMS: dict[str, Case] = {
    "gram_chi2": gram(histogram),
    "gram_chi2_distance": gram(histogram),
    "gram_intersection": gram(histogram),
    "gram_minmax": gram(histogram),
    "gram_jensen_shannon": gram(histogram),
    "gram_l1": gram(normal),
    "gram_l2": gram(normal),
    "gram_chi2_csr": Case(sparse_gram, gram_bound, CSR_GRAM),
    "gram_intersection_csr": Case(sparse_gram, gram_bound, CSR_GRAM),
    "gram_minmax_csr": Case(sparse_gram, gram_bound, CSR_GRAM),
}

# The textbook formula of each Gram op, for numbers where nothing over- or underflows.
LITERAL: dict[str, Callable[[Array, Array], Array]] = {
    "gram_chi2": lambda x, z: (2 * x * z / (x + z)).sum(axis=-1),
    "gram_chi2_distance": lambda x, z: ((x - z) ** 2 / (x + z)).sum(axis=-1),
    "gram_intersection": lambda x, z: np.minimum(x, z).sum(axis=-1),
    "gram_minmax": lambda x, z: np.minimum(x, z).sum(axis=-1) / np.maximum(x, z).sum(axis=-1),
    "gram_jensen_shannon": lambda x, z: (
        x / 2 * np.log2((x + z) / x) + z / 2 * np.log2((x + z) / z)
    ).sum(axis=-1),
    "gram_l1": lambda x, z: np.abs(x - z).sum(axis=-1),
    "gram_l2": lambda x, z: ((x - z) ** 2).sum(axis=-1),
}
