"""The hot array functions in NumPy: the definition of each op.

Arrays and numbers in, arrays out. A name that ends in an underscore works in place. Angles are in turns (a whole circle is 1), so that
range reduction is t - round(t), which is exact in floating point.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def cos_(T: Array, scale: float, phases: Array | None = None) -> Array:
    """T[i, j] <- scale cos(2 pi (T[i, j] + phases[j])), in place."""
    _fraction_(T)
    if phases is not None:
        T += phases
    T *= _circle(T)
    np.cos(T, out=T)
    T *= T.dtype.type(scale)
    return T


def cossin(T: Array, scale: float, out: Array) -> Array:
    """out[i, 2j] = scale cos(2 pi T[i, j]), out[i, 2j + 1] = scale sin(2 pi T[i, j]). T is used as working space."""
    _fraction_(T)
    T *= _circle(T)
    np.cos(T, out=out[:, 0::2])
    np.sin(T, out=out[:, 1::2])
    out *= out.dtype.type(scale)
    return out


def hadamard(X: Array, signs: Array, lengths: Array, out: Array) -> Array:
    """out[i, b p + r] = lengths[b p + r] (H S_b2 H S_b1 H S_b0 x_i)_r for the first out.shape[1] of all rows (b, r).

    H is the p x p Hadamard matrix of signs (Sylvester's order, not scaled), S_bk the diagonal matrix of signs[b, k], x_i is padded with
    zeros to p columns.
    """
    n, d = X.shape
    p = signs.shape[2]
    for b, (first, second, third) in enumerate(signs):
        columns = slice(b * p, min((b + 1) * p, out.shape[1]))
        work = np.zeros((n, p), dtype=X.dtype)
        np.multiply(X, first[:d], out=work[:, :d])
        walsh_(work)
        work *= second
        walsh_(work)
        work *= third
        walsh_(work)
        np.multiply(work[:, : columns.stop - columns.start], lengths[columns], out=out[:, columns])
    return out


def walsh_(X: Array) -> Array:
    """x_i <- H x_i for every row, in place; H the Hadamard matrix of signs in Sylvester's order, not scaled."""
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


def _fraction_(T: Array) -> None:
    T -= np.rint(T)


def _circle(T: Array) -> Any:
    return T.dtype.type(2 * np.pi)
