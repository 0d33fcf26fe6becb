"""Definitions of the ops in NumPy.

An op whose name ends in an underscore works in place. Angles are in turns (a full circle is 1), so
that range reduction is t - round(t), which is exact in floating point. A definition calls the
`reference` of other ops, so that it depends on NumPy alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._typing import Array
from mercer.ops.dispatch import op


@op
def cos_(T: Array, scale: float, phases: Array | None = None) -> Array:
    """T[i, j] <- scale cos(2 pi (T[i, j] + phases[j])), in place."""
    _fraction_(T)
    if phases is not None:
        T += phases - np.rint(phases)
        _fraction_(T)
    T *= _two_pi(T)
    np.cos(T, out=T)
    T *= T.dtype.type(scale)
    return T


@op
def cossin(T: Array, scale: float, out: Array) -> Array:
    """out[i, 2j] = scale cos(2 pi T[i, j]), out[i, 2j + 1] = scale sin(2 pi T[i, j]).

    T is overwritten.
    """
    _fraction_(T)
    T *= _two_pi(T)
    np.cos(T, out=out[:, 0::2])
    np.sin(T, out=out[:, 1::2])
    out *= out.dtype.type(scale)
    return out


@op
def product(X: Array, W: Array, out: Array) -> Array:
    """out[i, j] = (X W)[i, j]."""
    return np.matmul(X, W, out=out)


@op
def product_cos(X: Array, W: Array, scale: float, phases: Array | None, out: Array) -> Array:
    """out[i, j] = scale cos(2 pi ((X W)[i, j] + phases[j]))."""
    return cos_.reference(np.matmul(X, W, out=out), scale, phases)


@op
def product_cossin(X: Array, W: Array, scale: float, out: Array) -> Array:
    """out[i, 2j] = scale cos(2 pi (X W)[i, j]), out[i, 2j + 1] = scale sin(2 pi (X W)[i, j])."""
    return cossin.reference(np.matmul(X, W), scale, out)


@op
def inner_products(X: Array, W: Array, out: Array) -> Array:
    """out[i, j] = <x_i, w_j>, X W' for few rows of W."""
    return np.matmul(X, W.T, out=out)


@op
def weighted_sums(R: Array, X: Array, out: Array) -> Array:
    """out[j, k] = sum over i of R[i, j] X[i, k], R'X for few columns of R."""
    return np.matmul(R.T, X, out=out)


@op
def exp2neg_(T: Array, scale: float) -> Array:
    """T[i, j] <- scale 2^(-T[i, j]), in place."""
    np.negative(T, out=T)
    with np.errstate(over="ignore", under="ignore"):
        np.exp2(T, out=T)
        T *= T.dtype.type(scale)
    return T


@op
def exp2neg_expanded_(T: Array, rows: Array, columns: Array, scale: float) -> Array:
    """T[i, j] <- 2^-max(0, rows[i] + columns[j] - scale T[i, j]), in place.

    A kernel of |x - z|^2 = |x|^2 + |z|^2 - 2 <x, z>, which rounding may make negative.
    """
    T *= T.dtype.type(-scale)
    T += rows[:, None] + columns
    np.maximum(T, 0, out=T)
    return exp2neg_.reference(T, 1.0)


@op
def row_norm(X: Array, out: Array) -> Array:
    """out[i] = X[i]/|X[i]|; a zero row stays zero.

    Rows are divided by their largest entry first, so that no square over- or underflows.
    """
    out[...] = X / _divisor(np.abs(X).max(axis=1, initial=0))[:, None]
    out /= _divisor(np.sqrt(np.einsum("ij,ij->i", out, out)))[:, None]
    return out


@op
def hadamard(X: Array, signs: Array, lengths: Array, out: Array) -> Array:
    """out[i, b p + r] = lengths[b p + r] (H S_b2 H S_b1 H S_b0 x_i)_r.

    H is the p x p Hadamard matrix of signs (Sylvester's order, not scaled), S_bk the diagonal
    matrix of signs[b, k], x_i row i of X, padded with zeros to p columns. signs has shape (blocks,
    rounds, p): three rounds in the formula, and any number from one. Only the first out.shape[1]
    columns are computed.
    """
    n, d = X.shape
    p = signs.shape[2]
    for b, (first, *others) in enumerate(signs):
        columns = slice(b * p, min((b + 1) * p, out.shape[1]))
        work = np.zeros((n, p), dtype=X.dtype)
        np.multiply(X, first[:d], out=work[:, :d])
        _walsh_(work)
        for other in others:
            work *= other
            _walsh_(work)
        np.multiply(work[:, : columns.stop - columns.start], lengths[columns], out=out[:, columns])
    return out


@op
def hadamard_cos(
    X: Array, signs: Array, lengths: Array, scale: float, phases: Array | None, out: Array
) -> Array:
    """out[i, j] = scale cos(2 pi (t_ij + phases[j])), t = hadamard(X, signs, lengths)."""
    return cos_.reference(hadamard.reference(X, signs, lengths, out), scale, phases)


@op
def hadamard_cossin(X: Array, signs: Array, lengths: Array, scale: float, out: Array) -> Array:
    """out[i, 2j] = scale cos(2 pi t_ij), out[i, 2j + 1] = scale sin(2 pi t_ij).

    t = hadamard(X, signs, lengths).
    """
    turns = np.empty((len(X), len(lengths)), dtype=X.dtype)
    return cossin.reference(hadamard.reference(X, signs, lengths, turns), scale, out)


# Elementwise maps of x >= 0 to N values: out[i, N j + q] = lift_q(X[i, j]), with 0 -> 0 and NaN
# kept. If bad is given, bad[0] becomes whether an entry of X is outside [0, inf): a check that
# costs nothing while X is read anyway.


@op
def chi2_series(X: Array, poles: Array, out: Array, bad: Array | None = None) -> Array:
    """lift_q(x) = prod_{p<q} (x - k_p)/(x + k_p) * 2 sqrt(k_q) x/(x + k_q), k the poles."""
    _check_domain(X, bad)
    product = np.ones_like(X)
    for q, k in enumerate(poles):
        np.multiply(product, 2 * np.sqrt(k) * (X / (X + k)), out=out[:, q :: len(poles)])
        product *= (X - k) / (X + k)
    return out


@op
def chi2_chebyshev(
    X: Array, n_terms: int, center: float, out: Array, bad: Array | None = None
) -> Array:
    """lift_q(x) = sqrt(c) d_q(x/c), c the center.

    d_0(t) = 2t/(t + 1), d_1 = -sqrt(2) (ln t/pi) d_0,
    d_q = ((-1)^q (2 ln t/pi) d_{q-1} + (q - 2) d_{q-2})/q.
    """
    _check_domain(X, bad)
    c = X.dtype.type(center)
    logs = _logs(X) - np.log(c)
    before, last = np.zeros_like(X), 2 * np.sqrt(c) * (X / (X + c))
    for q in range(n_terms):
        if q == 1:
            before, last = last, X.dtype.type(-np.sqrt(2) / np.pi) * logs * last
        elif q > 1:
            sign = X.dtype.type(2 / np.pi if q % 2 == 0 else -2 / np.pi)
            before, last = last, (sign * logs * last + (q - 2) * before) / q
        out[:, q::n_terms] = last
    return out


@op
def homogeneous(
    X: Array,
    amplitudes: Array,
    harmonics: Array,
    step: float,
    degree: float,
    out: Array,
    bad: Array | None = None,
) -> Array:
    """lift(x) = x^(degree/2) (a_0, a_1 cos(h_1 L ln x), a_1 sin(h_1 L ln x), ...).

    a are the amplitudes, L is the step. The harmonics h_1 < h_2 < ... are integers from 1 on, one
    fewer than there are amplitudes.
    """
    _check_domain(X, bad)
    logs = _logs(X)
    powers = np.sqrt(X) if degree == 1 else np.exp(X.dtype.type(degree / 2) * logs)
    root = np.where(X == 0, X, powers)
    width = 2 * len(harmonics) + 1
    out[:, 0::width] = amplitudes[0] * root
    for j, h in enumerate(harmonics):
        angle = X.dtype.type(h * step) * logs
        out[:, 2 * j + 1 :: width] = amplitudes[j + 1] * root * np.cos(angle)
        out[:, 2 * j + 2 :: width] = amplitudes[j + 1] * root * np.sin(angle)
    return out


@op
def piecewise_cubic(
    X: Array,
    table: Array,
    values: int,
    per_octave: int,
    first: int,
    out: Array,
    bad: Array | None = None,
) -> Array:
    """lift_q(x) = sum_k table[c, k, q] t^k, c the piece in which x > 0 lies; c = t = 0 for x = 0.

    An octave [2^e, 2^(e + 1)) has S = 2^per_octave pieces of equal length: for x = 2^e (1 + u) the
    piece is c = 1 + S (e - first) + floor(S u), and t = S u - floor(S u) - 1/2. table has shape
    (count, 4, width); the width is 4 or a multiple of 8, and at least the number of values, beyond
    which it is not used. An x that is neither 0 nor in one of the pieces 1, ..., count - 1 gives
    NaN; bad[0] becomes whether there is one.
    """
    u, e = np.frexp(X)
    u = (2 * u - 1) * 2**per_octave
    pieces = 1 + (e.astype(np.int64) - 1 - first) * 2**per_octave
    with np.errstate(invalid="ignore"):
        pieces += np.floor(u).astype(np.int64)
    inside = (X > 0) & (np.inf > X) & (pieces > 0) & (pieces < len(table))
    t = np.where(inside, u - np.floor(u) - 0.5, np.where(X == 0, 0, np.nan)).astype(X.dtype)
    if bad is not None:
        bad[0] = np.isnan(t).any()
    c = table[np.where(inside, pieces, 0)]
    for q in range(values):
        cubic = (c[:, :, 3, q] * t + c[:, :, 2, q]) * t + c[:, :, 1, q]
        out[:, q::values] = cubic * t + c[:, :, 0, q]
    return out


@op
def spread(indices: Array, out: Array) -> Array:
    """out[e, q] = N indices[e] + q, N the number of columns of out.

    These are the columns of the N values of entry e of a CSR matrix.
    """
    np.multiply(indices[:, None], out.shape[1], out=out, dtype=out.dtype)
    out += np.arange(out.shape[1], dtype=out.dtype)
    return out


# Gram blocks: out[i, j] = k(X[i], Z[j]). With a = min(x, z), b = max(x, z), u = a / b no
# intermediate result overflows. A NaN makes its whole row or column NaN.


@op
def gram_chi2(X: Array, Z: Array, out: Array) -> Array:
    """sum_k 2 x z / (x + z), where 0 / 0 = 0."""
    for i, x in enumerate(X):
        a, _, u = _ordered(x, Z)
        out[i] = (a * (2 / (1 + u))).sum(axis=1)
    return out


@op
def gram_chi2_distance(X: Array, Z: Array, out: Array) -> Array:
    """sum_k (x - z)^2 / (x + z), where 0 / 0 = 0.

    Computed directly: sx + sz - 2 k(x, z) cancels.
    """
    for i, x in enumerate(X):
        a, b, u = _ordered(x, Z)
        out[i] = ((b - a) * (_divide(b - a, b) / (1 + u))).sum(axis=1)
    return out


@op
def gram_intersection(X: Array, Z: Array, out: Array) -> Array:
    """sum_k min(x, z)."""
    for i, x in enumerate(X):
        with np.errstate(over="ignore"):
            out[i] = np.minimum(x, Z).sum(axis=1)
    return out


@op
def gram_minmax(X: Array, Z: Array, out: Array) -> Array:
    """sum_k min(x, z) / sum_k max(x, z), where 0 / 0 = 0."""
    for i, x in enumerate(X):
        a, b = np.minimum(x, Z), np.maximum(x, Z)
        largest = b.max(axis=1, initial=0)[:, None]  # scale, so that no sum overflows
        with np.errstate(under="ignore"):
            out[i] = _divide(_divide(a, largest).sum(axis=1), _divide(b, largest).sum(axis=1))
    return out


@op
def gram_jensen_shannon(X: Array, Z: Array, out: Array) -> Array:
    """sum_k x / 2 log2((x + z) / x) + z / 2 log2((x + z) / z), where 0 log 0 = 0."""
    bit = 1 / (2 * np.log(X.dtype.type(2)))
    for i, x in enumerate(X):
        a, b, u = _ordered(x, Z)
        with np.errstate(divide="ignore", invalid="ignore", under="ignore"):
            tiny = u < np.finfo(X.dtype).tiny  # u has lost digits: b log(1 + u) = a
            log_u = np.where(tiny, np.log(a) - np.log(b), np.log(u))
            larger = np.where(tiny, bit * a, b * (bit * np.log1p(u)))
            terms = larger + a * (bit * (np.log1p(u) - log_u))
        out[i] = np.where(a == 0, 0, terms).sum(axis=1)
    return out


@op
def gram_l1(X: Array, Z: Array, out: Array) -> Array:
    """sum_k |x - z|."""
    for i, x in enumerate(X):
        with np.errstate(over="ignore"):
            out[i] = np.abs(x - Z).sum(axis=1)
    return out


@op
def gram_l2(X: Array, Z: Array, out: Array) -> Array:
    """sum_k (x - z)^2.

    Computed directly: |x|^2 + |z|^2 - 2 <x, z> cancels.
    """
    for i, x in enumerate(X):
        with np.errstate(over="ignore", under="ignore"):
            out[i] = np.square(x - Z).sum(axis=1)
    return out


# Sparse rows are the three arrays of a canonical CSR matrix: sorted columns without duplicates.


@op
def gram_chi2_csr(
    X_indptr: Array,
    X_indices: Array,
    X_data: Array,
    Z_indptr: Array,
    Z_indices: Array,
    Z_data: Array,
    n_columns: int,
    out: Array,
) -> Array:
    """sum_k 2 x z / (x + z) for CSR rows, where 0 / 0 = 0."""
    X, Z = _dense_pair(X_indptr, X_indices, X_data, Z_indptr, Z_indices, Z_data)
    return gram_chi2.reference(X, Z, out)


@op
def gram_intersection_csr(
    X_indptr: Array,
    X_indices: Array,
    X_data: Array,
    Z_indptr: Array,
    Z_indices: Array,
    Z_data: Array,
    n_columns: int,
    out: Array,
) -> Array:
    """sum_k min(x, z) for CSR rows without negative entries."""
    X, Z = _dense_pair(X_indptr, X_indices, X_data, Z_indptr, Z_indices, Z_data)
    return gram_intersection.reference(X, Z, out)


@op
def gram_minmax_csr(
    X_indptr: Array,
    X_indices: Array,
    X_data: Array,
    Z_indptr: Array,
    Z_indices: Array,
    Z_data: Array,
    n_columns: int,
    out: Array,
) -> Array:
    """sum_k min(x, z) / sum_k max(x, z) for CSR rows, where 0 / 0 = 0."""
    X, Z = _dense_pair(X_indptr, X_indices, X_data, Z_indptr, Z_indices, Z_data)
    return gram_minmax.reference(X, Z, out)


@op
def csr_product(indptr: Array, indices: Array, data: Array, W: Array, out: Array) -> Array:
    """out[i] = sum_e data[e] W[indices[e]] over the entries e of row i; W has shape (d, m)."""
    for i in range(len(out)):
        entries = slice(indptr[i], indptr[i + 1])
        out[i] = data[entries] @ W[indices[entries]]
    return out


@op
def csr_exp2neg(
    indptr: Array,
    indices: Array,
    data: Array,
    W: Array,
    offsets: Array | None,
    scale: float,
    out: Array,
) -> Array:
    """out[i, j] = scale 2^-((X W)[i, j] + offsets[j]), X the CSR matrix."""
    csr_product.reference(indptr, indices, data, W, out)
    if offsets is not None:
        out += offsets
    return exp2neg_.reference(out, scale)


def _check_domain(X: Array, bad: Array | None) -> None:
    if bad is not None:
        with np.errstate(invalid="ignore"):
            bad[0] = not (X.min(initial=0) >= 0 and X.max(initial=0) < np.inf)


def _walsh_(X: Array) -> Array:
    """x_i <- H x_i for every row, in place; H the unscaled Hadamard matrix in Sylvester's order."""
    n, p = X.shape
    half = 1
    while half < p:
        pairs = X.reshape(n, p // (2 * half), 2, half)
        above, below = pairs[:, :, 0], pairs[:, :, 1]
        difference = above - below
        above += below
        below[...] = difference
        half *= 2
    return X


def _ordered(x: Array, Z: Array) -> tuple[Array, Array, Array]:
    a, b = np.minimum(x, Z), np.maximum(x, Z)
    with np.errstate(under="ignore"):
        return a, b, _divide(a, b)


def _divide(a: Array, b: Array) -> Array:
    """Return a / b, where 0 / 0 = 0."""
    return np.divide(a, b, out=np.zeros_like(a), where=b != 0)


def _dense_pair(*csr: Array) -> tuple[Array, Array]:
    """Return the rows of two CSR matrices as arrays, of the columns that any of them has."""
    used, places = np.unique(np.concatenate([csr[1], csr[4]]), return_inverse=True)
    pair = []
    for (indptr, _, data), columns in zip(
        (csr[:3], csr[3:]), np.split(places, [len(csr[1])]), strict=True
    ):
        rows = np.zeros((len(indptr) - 1, len(used)), dtype=data.dtype)
        rows[np.repeat(np.arange(len(rows)), np.diff(indptr)), columns] = data
        pair.append(rows)
    return pair[0], pair[1]


def _divisor(values: Array) -> Array:
    return np.where(values > 0, values, values.dtype.type(1))


def _fraction_(T: Array) -> None:
    T -= np.rint(T)


def _two_pi(T: Array) -> Any:
    return 8 * np.arctan(T.dtype.type(1))  # accurate in any dtype


def _logs(X: Array) -> Array:
    """Return ln x, and 0 where x is 0 (its factor is 0 there)."""
    return np.log(np.where(X == 0, X.dtype.type(1), X))
