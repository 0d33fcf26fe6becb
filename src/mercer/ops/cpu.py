"""Compiled forms of the ops.

An input that the core cannot address (columns apart, unaligned) is copied. A form returns
NotImplemented for an output that the core cannot write and for dtypes other than its own: float32
and float64, and for codes uint8, uint16 and int32.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import numpy as np

from mercer._typing import Array
from mercer.ops import dispatch, reference, reference_codes
from mercer.ops.dispatch import Op, P, R

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
CODES = (np.dtype(np.uint8), np.dtype(np.uint16), np.dtype(np.int32))
DESCENT_LOSSES = ("squared", "squared_hinge", "logistic")  # in the order of native/table.h

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
    """Return whether the compiled core is in use."""
    return _reason is None


def why_not() -> str | None:
    """Return why the compiled core is not in use, or None if it is."""
    return _reason


def isa() -> str:
    """Return the instruction set: avx512, avx2, base or neon; numpy without the compiled core."""
    return _native.isa() if available() else "numpy"


@cache
def blas_is_openblas() -> bool:
    """Return whether every BLAS library of this process is OpenBLAS."""
    from threadpoolctl import threadpool_info

    libraries = [library for library in threadpool_info() if library["user_api"] == "blas"]
    return {library["internal_api"] for library in libraries} == {"openblas"}


def replaces_blas() -> bool:
    """Return whether products of dense rows are those of the core.

    They are on AMD's processors with AVX-512, beside OpenBLAS: as fast as its kernels of AVX-512 or
    faster, 2.4 times for rows of 20 columns (docs/decisions/compiled-core.md).
    """
    return available() and _native.isa() == "avx512" and _native.amd() and blas_is_openblas()


def compiled(op: Op[P, R]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that registers the compiled form of an op if the core is in use."""
    return dispatch.compiled(op) if available() else lambda form: form


@compiled(reference.cos_)
def cos_(T: Array, scale: float, phases: Array | None = None) -> Array:
    if not _supported(T):
        return NotImplemented
    _native.cos_(T, scale, _vector(phases, T))
    return T


@compiled(reference.cossin)
def cossin(T: Array, scale: float, out: Array) -> Array:
    if not _supported(out, T):
        return NotImplemented
    _native.cossin(_rows(T), scale, out)
    return out


@compiled(reference.product)
def product(X: Array, W: Array, out: Array) -> Array:
    if not (_supported(out, X, W) and replaces_blas()):
        return np.matmul(X, W, out=out)
    _native.product(_rows(X), _rows(W), out)
    return out


@compiled(reference.product_cos)
def product_cos(X: Array, W: Array, scale: float, phases: Array | None, out: Array) -> Array:
    if not (_supported(out, X, W) and replaces_blas()):
        return cos_(np.matmul(X, W, out=out), scale, phases)
    _native.product_cos(_rows(X), _rows(W), scale, _vector(phases, X), out)
    return out


@compiled(reference.product_cossin)
def product_cossin(X: Array, W: Array, scale: float, out: Array) -> Array:
    if not (_supported(out, X, W) and replaces_blas()):
        return cossin(np.matmul(X, W), scale, out)
    _native.product_cossin(_rows(X), _rows(W), scale, out)
    return out


@compiled(reference.inner_products)
def inner_products(X: Array, W: Array, out: Array) -> Array:
    if not _supported(out, X, W):
        return NotImplemented
    _native.inner_products(_rows(X), _rows(W), out)
    return out


@compiled(reference.weighted_sums)
def weighted_sums(R: Array, X: Array, out: Array) -> Array:
    if not _supported(out, R, X):
        return NotImplemented
    _native.weighted_sums(_rows(R), _rows(X), out)
    return out


@compiled(reference.exp2neg_)
def exp2neg_(T: Array, scale: float) -> Array:
    if not _supported(T):
        return NotImplemented
    _native.exp2neg_(T, scale)
    return T


@compiled(reference.exp2neg_expanded_)
def exp2neg_expanded_(T: Array, rows: Array, columns: Array, scale: float) -> Array:
    if not _supported(T):
        return NotImplemented
    _native.exp2neg_expanded_(T, _vector(rows, T), _vector(columns, T), scale)
    return T


@compiled(reference.row_norm)
def row_norm(X: Array, out: Array) -> Array:
    if not _supported(out, X):
        return NotImplemented
    _native.row_norm(_rows(X), out)
    return out


@compiled(reference.hadamard)
def hadamard(X: Array, signs: Array, lengths: Array, out: Array) -> Array:
    if not _supported(out, X, signs, lengths):
        return NotImplemented
    _native.hadamard(_rows(X), _contiguous(signs), _contiguous(lengths[: out.shape[1]]), out)
    return out


@compiled(reference.hadamard_cos)
def hadamard_cos(
    X: Array, signs: Array, lengths: Array, scale: float, phases: Array | None, out: Array
) -> Array:
    if not _supported(out, X, signs, lengths):
        return NotImplemented
    signs, lengths = _contiguous(signs), _contiguous(lengths)
    _native.hadamard_cos(_rows(X), signs, lengths, scale, _vector(phases, X), out)
    return out


@compiled(reference.hadamard_cossin)
def hadamard_cossin(X: Array, signs: Array, lengths: Array, scale: float, out: Array) -> Array:
    if not _supported(out, X, signs, lengths):
        return NotImplemented
    _native.hadamard_cossin(_rows(X), _contiguous(signs), _contiguous(lengths), scale, out)
    return out


@compiled(reference.chi2_series)
def chi2_series(X: Array, poles: Array, out: Array, bad: Array | None = None) -> Array:
    if not _supported(out, X):
        return NotImplemented
    _store(_native.chi2_series(_rows(X), _vector(poles, X), out), bad)
    return out


@compiled(reference.chi2_chebyshev)
def chi2_chebyshev(
    X: Array, n_terms: int, center: float, out: Array, bad: Array | None = None
) -> Array:
    if not _supported(out, X):
        return NotImplemented
    _store(_native.chi2_chebyshev(_rows(X), n_terms, center, out), bad)
    return out


@compiled(reference.homogeneous)
def homogeneous(
    X: Array,
    amplitudes: Array,
    harmonics: Array,
    step: float,
    degree: float,
    out: Array,
    bad: Array | None = None,
) -> Array:
    if not _supported(out, X):
        return NotImplemented
    orders = _contiguous(np.asarray(harmonics, dtype=np.int64))
    _store(_native.homogeneous(_rows(X), _vector(amplitudes, X), orders, step, degree, out), bad)
    return out


@compiled(reference.piecewise_cubic)
def piecewise_cubic(
    X: Array,
    table: Array,
    values: int,
    per_octave: int,
    first: int,
    out: Array,
    bad: Array | None = None,
) -> Array:
    if not _supported(out, X, table):
        return NotImplemented
    pieces = _contiguous(table), values, per_octave, first
    _store(_native.piecewise_cubic(_rows(X), *pieces, out), bad)
    return out


@compiled(reference.spread)
def spread(indices: Array, out: Array) -> Array:
    if not _is_output(out, (np.int32, np.int64)):
        return NotImplemented
    _native.spread(_contiguous(indices.astype(out.dtype, copy=False)), out)
    return out


def _compiled_gram(op: Op[[Array, Array, Array], Array]) -> None:
    """Register the compiled form of a Gram op of dense rows."""

    @compiled(op)
    @wraps(op.reference)
    def form(X: Array, Z: Array, out: Array) -> Array:
        if not _supported(out, X, Z):
            return NotImplemented
        getattr(_native, op.__name__)(_rows(X), _rows(Z), out)
        return out


def _compiled_csr_gram(op: Op[..., Array]) -> None:
    """Register the compiled form of a Gram op of CSR rows."""

    @compiled(op)
    @wraps(op.reference)
    def form(
        X_indptr: Array,
        X_indices: Array,
        X_data: Array,
        Z_indptr: Array,
        Z_indices: Array,
        Z_data: Array,
        n_columns: int,
        out: Array,
    ) -> Array:
        if not _supported(out, X_data, Z_data):
            return NotImplemented
        Xp, Xi, Zp, Zi = _indices(X_indptr, X_indices, Z_indptr, Z_indices)
        X, Z = (Xp, Xi, _contiguous(X_data)), (Zp, Zi, _contiguous(Z_data))
        getattr(_native, op.__name__)(*X, *Z, n_columns, out)
        return out


_compiled_gram(reference.gram_chi2)
_compiled_gram(reference.gram_chi2_distance)
_compiled_gram(reference.gram_intersection)
_compiled_gram(reference.gram_jensen_shannon)
_compiled_gram(reference.gram_l1)
_compiled_gram(reference.gram_l2)
_compiled_gram(reference.gram_minmax)
_compiled_csr_gram(reference.gram_chi2_csr)
_compiled_csr_gram(reference.gram_intersection_csr)
_compiled_csr_gram(reference.gram_minmax_csr)


@compiled(reference.csr_product)
def csr_product(indptr: Array, indices: Array, data: Array, W: Array, out: Array) -> Array:
    if not _supported(out, data, W):
        return NotImplemented
    starts, columns = _indices(indptr, indices)
    _native.csr_product(starts, columns, _contiguous(data), _rows(W), out)
    return out


@compiled(reference.csr_exp2neg)
def csr_exp2neg(
    indptr: Array,
    indices: Array,
    data: Array,
    W: Array,
    offsets: Array | None,
    scale: float,
    out: Array,
) -> Array:
    if not _supported(out, data, W):
        return NotImplemented
    starts, columns = _indices(indptr, indices)
    shifts = _vector(offsets, data)
    _native.csr_exp2neg(starts, columns, _contiguous(data), _rows(W), shifts, scale, out)
    return out


@compiled(reference_codes.gcws_parameters)
def gcws_parameters(seed: int, ids: Array, first: int, out: Array) -> Array:
    writable = out.dtype == np.float32 and out.flags.writeable and _is_contiguous(out)
    if not writable or ids.dtype != np.uint64:
        return NotImplemented
    _native.gcws_parameters(int(seed), _contiguous(ids), int(first), out)
    return out


@compiled(reference_codes.gcws)
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
    if not _supported_hashing(logs, parameters, ids, out):
        return NotImplemented
    table = _contiguous(parameters), _contiguous(ids), int(seed), int(first)
    _native.gcws(_rows(logs), *table, bits, keep_t, out)
    return out


@compiled(reference_codes.gcws_csr)
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
    if not _supported_hashing(logs, parameters, ids, out):
        return NotImplemented
    starts, columns = _indices(indptr, places)
    table = _contiguous(parameters), _contiguous(ids), int(seed), int(first)
    _native.gcws_csr(starts, columns, _contiguous(logs), *table, bits, keep_t, out)
    return out


@compiled(reference_codes.coded_product)
def coded_product(codes: Array, panels: Array, fractions: Array | None, out: Array) -> Array:
    if not _supported_codes(codes, fractions, out, panels):
        return NotImplemented
    _native.coded_product(_rows(codes), _contiguous(panels), _optional_rows(fractions), out)
    return out


@compiled(reference_codes.coded_sums)
def coded_sums(codes: Array, R: Array, fractions: Array | None, out: Array) -> Array:
    if not (_is_contiguous(out) and _supported_codes(codes, fractions, out, R)):
        return NotImplemented
    _native.coded_sums(_rows(codes), _rows(R), _optional_rows(fractions), out)
    return out


@compiled(reference_codes.coded_rows)
def coded_rows(codes: Array, tables: Array, fractions: Array | None, out: Array) -> Array:
    if not _supported_codes(codes, fractions, out, tables):
        return NotImplemented
    _native.coded_rows(_rows(codes), _contiguous(tables), _optional_rows(fractions), out)
    return out


@compiled(reference_codes.coded_descent)
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
    writable = W.flags.writeable and _is_contiguous(W) and _supported_codes(codes, None, a, W)
    if not writable or order.dtype != np.int64 or not _supported(a, Y, c):
        return NotImplemented
    if not (b.flags.writeable and _is_contiguous(b) and _supported(F, a, b)):
        return NotImplemented
    rows = _rows(codes), None if empty is None else _contiguous(empty), _contiguous(order)
    numbers = scale, slope, DESCENT_LOSSES.index(loss)
    _native.coded_descent(*rows, _rows(Y), _contiguous(c), *numbers, F, a, b, W)
    return W


@compiled(reference_codes.levels)
def levels(
    X: Array, edges: Array, inclusive: bool, out: Array, largest: Array | None = None
) -> Array:
    if not (_is_output(out, CODES) and X.dtype in FLOATS and edges.dtype == X.dtype):
        return NotImplemented
    _store(_native.levels(_rows(X), _rows(edges), inclusive, out), largest)
    return out


@compiled(reference_codes.brackets)
def brackets(
    X: Array, anchors: Array, codes: Array, fractions: Array, largest: Array | None = None
) -> None:
    if not (_is_output(codes, CODES) and _supported(fractions, X, anchors)):
        return NotImplemented
    _store(_native.brackets(_rows(X), _rows(anchors), codes, fractions), largest)
    return None


def csv_rows(
    text: bytes,
    size: int,
    delimiter: str,
    places: list[int],
    whole: list[bool],
    nulls: list[str],
    inputs: int,
    others: int,
) -> tuple[Array, Array, int]:
    return _native.csv_rows(text, size, delimiter, places, whole, nulls, inputs, others)


def svmlight_extent(text: bytes, most: int) -> tuple[int, int, int, int]:
    return _native.svmlight_extent(text, most)


def svmlight_rows(text: bytes, base: int, most: int) -> tuple[Array, Array, Array, Array, int]:
    return _native.svmlight_rows(text, base, most)


def _supported(out: Array, *inputs: Array) -> bool:
    """Return whether the core can write floats to out and the inputs have the dtype of out."""
    if out.dtype not in FLOATS or not out.flags.writeable:
        return False
    for a in inputs:
        if a.dtype != out.dtype:
            return False
    return _has_contiguous_rows(out)


def _supported_codes(codes: Array, fractions: Array | None, out: Array, values: Array) -> bool:
    """Return whether the core can combine codes, fractions and a table or panel into out."""
    same_dtype = fractions is None or fractions.dtype == out.dtype
    return codes.dtype in CODES and same_dtype and _supported(out, values)


def _supported_hashing(logs: Array, parameters: Array, ids: Array, out: Array) -> bool:
    """Return whether the core can hash rows into out: codes of 8 or 16 bits."""
    inputs = logs.dtype == parameters.dtype == np.float32 and ids.dtype == np.uint64
    return inputs and _is_output(out, CODES[:2])


def _is_output(out: Array, dtypes: tuple[Any, ...]) -> bool:
    return out.dtype in dtypes and out.flags.writeable and _has_contiguous_rows(out)


def _has_contiguous_rows(A: Array) -> bool:
    flags = A.flags
    return flags.aligned and (flags.c_contiguous or A.shape[1] < 2 or A.strides[1] == A.itemsize)


def _is_contiguous(a: Array) -> bool:
    return a.flags.c_contiguous and a.flags.aligned


def _rows(A: Array) -> Array:
    """Return A, copied if the entries of a row are not adjacent."""
    return A if _has_contiguous_rows(A) else A.copy(order="C")


def _optional_rows(A: Array | None) -> Array | None:
    return None if A is None else _rows(A)


def _contiguous(a: Array) -> Array:
    """Return a, copied if it is not contiguous."""
    flags = a.flags
    return a if flags.c_contiguous and flags.aligned else a.copy(order="C")


def _vector(a: Array | None, like: Array) -> Any:
    """Return a as a contiguous array with the dtype of `like`; None for None."""
    return None if a is None else _contiguous(np.asarray(a, dtype=like.dtype))


def _indices(*arrays: Array) -> list[Array]:
    """Return index arrays as int32 if all of them are, else as int64."""
    dtype = np.int32 if all(a.dtype == np.int32 for a in arrays) else np.int64
    return [_contiguous(a.astype(dtype, copy=False)) for a in arrays]


def _store(value: float, out: Array | None) -> None:
    if out is not None:
        out[0] = value
