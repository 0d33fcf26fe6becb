"""Row keys: 64-bit hashes of the content of rows, by which equal rows fall into the same fold."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer import ops
from mercer._typing import Array, is_csr
from mercer.parallel.device import torch_ops
from mercer.rng import Rng

Keys = NDArray[np.uint64]

_HALF = np.uint64(32)
_LOW = np.uint64(2**32 - 1)
_TILE = 2**15  # numbers that are hashed at a time, within the cache


def row_keys(X: Any) -> Keys:
    """Return h(x) = sum_j a_j low(x_j) + b_j high(x_j) mod 2^64 for each row.

    low and high are the halves of the 64 bits of a number, a and b random words: multilinear
    hashing, strongly universal in the upper 32 bits (Lemire and Kaser, 2014). A zero adds nothing,
    so that dense and CSR rows have equal keys; 0.0 and -0.0 are the same number.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)

    Returns
    -------
    array of shape (n,), uint64
    """
    keys: Keys
    n, d = X.shape
    words = Rng(0).words("row keys", 0, 2 * d).reshape(d, 2)
    low, high = np.ascontiguousarray(words.T)
    if ops.is_device(X):
        keys = torch_ops().codes.row_keys(X, low, high)
        return keys
    if is_csr(X):
        terms = _hash_words(X.data, low[X.indices], high[X.indices])
        sums = np.zeros(len(terms) + 1, dtype=np.uint64)
        np.cumsum(terms, out=sums[1:])
        keys = sums[X.indptr[1:]] - sums[X.indptr[:-1]]  # differences are exact mod 2^64
        return keys
    X, keys = np.asarray(X), np.empty(n, dtype=np.uint64)
    step = max(1, _TILE // max(1, d))
    for start in range(0, n, step):
        tile = slice(start, start + step)
        np.add.reduce(_hash_words(X[tile], low, high), axis=1, out=keys[tile])
    return keys


def time_keys(times: Array, ordered: Array) -> Keys:
    """Return keys that fall with time: the share of later ones among ordered times."""
    later = len(ordered) - np.searchsorted(ordered, times, side="right")
    keys: Keys = np.ldexp(later / len(ordered), 63).astype(np.uint64) << np.uint64(1)
    return keys


def fold_numbers(keys: Keys, folds: int) -> NDArray[np.int64]:
    """Return the fold of each key, a number below `folds`, by its upper 32 bits."""
    return ((keys >> _HALF) * np.uint64(folds) >> _HALF).astype(np.int64)


def _hash_words(values: Array, low: Keys, high: Keys) -> Keys:
    bits = (values.astype(np.float64, order="C") + 0.0).view(np.uint64)
    upper = bits >> _HALF
    upper *= high
    bits &= _LOW
    bits *= low
    bits += upper
    return bits
