"""The compiled twins of reference.py.

An input that the core cannot read (columns apart, not aligned) is copied. Where it cannot write, or
the numbers are neither float32 nor float64, the reference does the work.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.ops import reference

__all__ = [
    "brackets",
    "chi2_chebyshev",
    "chi2_series",
    "coded_descent",
    "coded_product",
    "coded_rows",
    "coded_sums",
    "cos_",
    "cossin",
    "csr_exp2neg",
    "csr_product",
    "exp2neg_",
    "gcws",
    "gcws_csr",
    "gcws_parameters",
    "gram_chi2",
    "gram_chi2_csr",
    "gram_chi2_distance",
    "gram_intersection",
    "gram_intersection_csr",
    "gram_jensen_shannon",
    "gram_l1",
    "gram_l2",
    "gram_minmax",
    "gram_minmax_csr",
    "hadamard",
    "hadamard_cos",
    "hadamard_cossin",
    "homogeneous",
    "levels",
    "product_cos",
    "product_cossin",
    "spread",
]

Array = NDArray[Any]
NUMBERS = (np.float32, np.float64)
CODES = (np.uint8, np.uint16, np.int32)

_reason: str | None = None
if os.environ.get("MERCER_PURE", "").lower() not in {"", "0", "false", "no", "off"}:
    _reason = "MERCER_PURE is set"
else:
    try:
        import mercer._native as _native
    except ModuleNotFoundError:
        _reason = (
            "the compiled core was not built; to see why, install again with "
            "MERCER_NATIVE=1 (needs GCC 12 or Clang)"
        )
    except ImportError as error:
        _reason = f"the compiled core could not be loaded: {error}"
    else:
        _native.pick()


def available() -> bool:
    """Whether the compiled core is in use."""
    return _reason is None


def why_not() -> str | None:
    """Why the compiled core is not in use; None when it is."""
    return _reason


def isa() -> str:
    """The instruction set in use: avx512, avx2, base, neon; numpy when there is no compiled
    core.
    """
    return _native.isa() if available() else "numpy"


def cos_(T: Array, scale: float, phases: Array | None = None) -> Array:
    if not _writable(T, T):
        return reference.cos_(T, scale, phases)
    _native.cos_(T, scale, _optional(phases, T))
    return T


def cossin(T: Array, scale: float, out: Array) -> Array:
    if not _writable(out, T):
        return reference.cossin(T, scale, out)
    _native.cossin(_rows(T), scale, out)
    return out


def product_cos(X: Array, W: Array, scale: float, phases: Array | None, out: Array) -> Array:
    return cos_(np.matmul(X, W, out=out), scale, phases)


def product_cossin(X: Array, W: Array, scale: float, out: Array) -> Array:
    return cossin(np.matmul(X, W), scale, out)


def exp2neg_(T: Array, scale: float) -> Array:
    if not _writable(T, T):
        return reference.exp2neg_(T, scale)
    _native.exp2neg_(T, scale)
    return T


def hadamard(X: Array, signs: Array, lengths: Array, out: Array) -> Array:
    if not _writable(out, X, signs, lengths):
        return reference.hadamard(X, signs, lengths, out)
    _native.hadamard(_rows(X), _whole(signs), _whole(lengths[: out.shape[1]]), out)
    return out


def hadamard_cos(
    X: Array, signs: Array, lengths: Array, scale: float, phases: Array | None, out: Array
) -> Array:
    if not _writable(out, X, signs, lengths):
        return reference.hadamard_cos(X, signs, lengths, scale, phases, out)
    _native.hadamard_cos(_rows(X), _whole(signs), _whole(lengths), scale, _optional(phases, X), out)
    return out


def hadamard_cossin(X: Array, signs: Array, lengths: Array, scale: float, out: Array) -> Array:
    if not _writable(out, X, signs, lengths):
        return reference.hadamard_cossin(X, signs, lengths, scale, out)
    _native.hadamard_cossin(_rows(X), _whole(signs), _whole(lengths), scale, out)
    return out


def chi2_series(X: Array, poles: Array, out: Array, bad: Array | None = None) -> Array:
    if not _writable(out, X):
        return reference.chi2_series(X, poles, out, bad)
    _note(_native.chi2_series(_rows(X), _vector(poles, X), out), bad)
    return out


def chi2_chebyshev(
    X: Array, n_terms: int, center: float, out: Array, bad: Array | None = None
) -> Array:
    if not _writable(out, X):
        return reference.chi2_chebyshev(X, n_terms, center, out, bad)
    _note(_native.chi2_chebyshev(_rows(X), n_terms, center, out), bad)
    return out


def homogeneous(
    X: Array,
    amplitudes: Array,
    harmonics: Array,
    step: float,
    degree: float,
    out: Array,
    bad: Array | None = None,
) -> Array:
    if not _writable(out, X):
        return reference.homogeneous(X, amplitudes, harmonics, step, degree, out, bad)
    whole = _whole(np.asarray(harmonics, dtype=np.int64))
    _note(_native.homogeneous(_rows(X), _vector(amplitudes, X), whole, step, degree, out), bad)
    return out


def spread(indices: Array, out: Array) -> Array:
    if out.dtype not in (np.int32, np.int64) or not (out.flags.writeable and _readable(out)):
        return reference.spread(indices, out)
    _native.spread(_whole(indices.astype(out.dtype, copy=False)), out)
    return out


def _gram(op: Callable[[Array, Array, Array], Array]) -> Callable[[Array, Array, Array], Array]:
    """The compiled twin of a Gram op."""

    @wraps(op)
    def twin(X: Array, Z: Array, out: Array) -> Array:
        if not _writable(out, X, Z):
            return op(X, Z, out)
        getattr(_native, op.__name__)(_rows(X), _rows(Z), out)
        return out

    twin.__module__ = __name__
    return twin


def _gram_csr(op: Callable[..., Array]) -> Callable[..., Array]:
    """The compiled twin of a Gram op on CSR rows."""

    @wraps(op)
    def twin(
        X_indptr: Array,
        X_indices: Array,
        X_data: Array,
        Z_indptr: Array,
        Z_indices: Array,
        Z_data: Array,
        n_columns: int,
        out: Array,
    ) -> Array:
        if not _writable(out, X_data, Z_data):
            return op(X_indptr, X_indices, X_data, Z_indptr, Z_indices, Z_data, n_columns, out)
        Xp, Xi, Zp, Zi = _indices(X_indptr, X_indices, Z_indptr, Z_indices)
        getattr(_native, op.__name__)(
            Xp, Xi, _whole(X_data), Zp, Zi, _whole(Z_data), n_columns, out
        )
        return out

    twin.__module__ = __name__
    return twin


gram_chi2 = _gram(reference.gram_chi2)
gram_chi2_distance = _gram(reference.gram_chi2_distance)
gram_intersection = _gram(reference.gram_intersection)
gram_jensen_shannon = _gram(reference.gram_jensen_shannon)
gram_l1 = _gram(reference.gram_l1)
gram_l2 = _gram(reference.gram_l2)
gram_minmax = _gram(reference.gram_minmax)
gram_chi2_csr = _gram_csr(reference.gram_chi2_csr)
gram_intersection_csr = _gram_csr(reference.gram_intersection_csr)
gram_minmax_csr = _gram_csr(reference.gram_minmax_csr)


def csr_product(indptr: Array, indices: Array, data: Array, W: Array, out: Array) -> Array:
    if not _writable(out, data, W):
        return reference.csr_product(indptr, indices, data, W, out)
    p, k = _indices(indptr, indices)
    _native.csr_product(p, k, _whole(data), _rows(W), out)
    return out


def gcws_parameters(seed: int, ids: Array, first: int, out: Array) -> Array:
    if not (
        _alike(np.uint64, ids)
        and _alike(np.float32, out)
        and out.flags.writeable
        and _is_whole(out)
    ):
        return reference.gcws_parameters(seed, ids, first, out)
    _native.gcws_parameters(int(seed), _whole(ids), int(first), out)
    return out


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
    if not (
        _takes_codes(out, 2) and _alike(np.uint64, ids) and _alike(np.float32, logs, parameters)
    ):
        return reference.gcws(logs, parameters, ids, seed, first, bits, keep_t, out)
    _native.gcws(
        _rows(logs), _whole(parameters), _whole(ids), int(seed), int(first), bits, keep_t, out
    )
    return out


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
    if not (
        _takes_codes(out, 2) and _alike(np.uint64, ids) and _alike(np.float32, logs, parameters)
    ):
        return reference.gcws_csr(
            indptr, places, logs, parameters, ids, seed, first, bits, keep_t, out
        )
    p, k = _indices(indptr, places)
    drawn = _whole(parameters), _whole(ids), int(seed), int(first)
    _native.gcws_csr(p, k, _whole(logs), *drawn, bits, keep_t, out)
    return out


def coded_product(codes: Array, panels: Array, fractions: Array | None, out: Array) -> Array:
    if not (_writable(out, panels) and _coded(codes, fractions, out)):
        return reference.coded_product(codes, panels, fractions, out)
    _native.coded_product(
        _rows(codes), _whole(panels), fractions if fractions is None else _rows(fractions), out
    )
    return out


def coded_sums(codes: Array, R: Array, fractions: Array | None, out: Array) -> Array:
    if not (_is_whole(out) and _writable(out, R) and _coded(codes, fractions, out)):
        return reference.coded_sums(codes, R, fractions, out)
    _native.coded_sums(
        _rows(codes), _rows(R), fractions if fractions is None else _rows(fractions), out
    )
    return out


def coded_descent(
    codes: Array, order: Array, Y: Array, b: Array, c: Array, scale: float, a: Array, W: Array
) -> Array:
    known = _writable(a, Y, W, b, c) and _is_whole(W) and W.flags.writeable and codes.dtype in CODES
    if known and order.dtype == np.int64:
        _native.coded_descent(
            _rows(codes), _whole(order), _rows(Y), _whole(b), _whole(c), scale, a, W
        )
    else:
        reference.coded_descent(codes, order, Y, b, c, scale, a, W)
    return W


def coded_rows(codes: Array, tables: Array, fractions: Array | None, out: Array) -> Array:
    if not (_writable(out, tables) and _coded(codes, fractions, out)):
        return reference.coded_rows(codes, tables, fractions, out)
    _native.coded_rows(
        _rows(codes), _whole(tables), fractions if fractions is None else _rows(fractions), out
    )
    return out


def levels(X: Array, edges: Array, inclusive: bool, out: Array) -> Array:
    if not (_takes_codes(out) and X.dtype in NUMBERS and edges.dtype == X.dtype):
        return reference.levels(X, edges, inclusive, out)
    _native.levels(_rows(X), _rows(edges), inclusive, out)
    return out


def brackets(X: Array, anchors: Array, codes: Array, fractions: Array) -> None:
    if _takes_codes(codes) and _writable(fractions, X, anchors):
        _native.brackets(_rows(X), _rows(anchors), codes, fractions)
    else:
        reference.brackets(X, anchors, codes, fractions)


def csr_exp2neg(
    indptr: Array,
    indices: Array,
    data: Array,
    W: Array,
    offsets: Array | None,
    scale: float,
    out: Array,
) -> Array:
    if not _writable(out, data, W):
        return reference.csr_exp2neg(indptr, indices, data, W, offsets, scale, out)
    p, k = _indices(indptr, indices)
    _native.csr_exp2neg(p, k, _whole(data), _rows(W), _optional(offsets, data), scale, out)
    return out


def _note(found: bool, bad: Array | None) -> None:
    if bad is not None:
        bad[0] = found


def _writable(out: Array, *inputs: Array) -> bool:
    """Whether the core can write to out, and the inputs have its type of number."""
    known = out.dtype in NUMBERS and all(a.dtype == out.dtype for a in inputs)
    return known and out.flags.writeable and (_is_whole(out) or _readable(out))


def _coded(codes: Array, fractions: Array | None, like: Array) -> bool:
    """Whether the core knows the types of codes and fractions, the latter being that of like."""
    return codes.dtype in CODES and (fractions is None or fractions.dtype == like.dtype)


def _takes_codes(out: Array, kinds: int = 3) -> bool:
    """Whether the core can write codes to out, which has one of the first so many types of code."""
    return out.dtype in CODES[:kinds] and out.flags.writeable and _readable(out)


def _alike(dtype: type, *arrays: Array) -> bool:
    return all(a.dtype == dtype for a in arrays)


def _readable(A: Array) -> bool:
    return A.flags.aligned and (A.shape[1] < 2 or A.strides[1] == A.itemsize)


def _rows(A: Array) -> Array:
    return A if _readable(A) else A.copy(order="C")


def _is_whole(a: Array) -> bool:
    return a.flags.c_contiguous and a.flags.aligned


def _whole(a: Array) -> Array:
    return a if _is_whole(a) else a.copy(order="C")


def _optional(phases: Array | None, like: Array) -> Array | None:
    return None if phases is None else _vector(phases, like)


def _vector(a: Array, like: Array) -> Array:
    return _whole(np.asarray(a, dtype=like.dtype))


def _indices(*arrays: Array) -> list[Array]:
    """All as int32, where all are; else as int64."""
    kind = np.int32 if all(a.dtype == np.int32 for a in arrays) else np.int64
    return [_whole(a.astype(kind, copy=False)) for a in arrays]
