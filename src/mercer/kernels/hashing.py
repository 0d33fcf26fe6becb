"""Kernels that are the chance that two codes agree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer.kernels.base import Array, Kernel

_NODES = 64  # of the double exponential rule, for each piece between two kinks
_NUMBERS = 2**20  # held in one go
_SPAN = 3.2  # its half-width: what lies beyond is below 1e-15


@dataclass(frozen=True)
class Bits(Kernel):
    """k(x, z) + (1 - k(x, z)) 2^-bits where neither row is zero, else 0: the chance that codes of
    so many bits agree.

    Hashes agree with chance k; those that do not still share their last bits now and then. A zero
    row has no codes.
    """

    kernel: Kernel
    bits: int

    @property
    def domain(self) -> str:  # type: ignore[override]
        return self.kernel.domain

    def _value(self, X: Array, Z: Array) -> Array:
        k = self.kernel._value(X, Z)
        coded = X.any(axis=-1) & Z.any(axis=-1)
        return np.where(coded, k + (1 - k) * 2.0**-self.bits, 0.0)


@dataclass(frozen=True)
class SignStable(Kernel):
    """k(x, z) = Pr(sign(w.x) = sign(w.z)), w with independent symmetric alpha-stable entries, 0 <
    alpha <= 2; sign(0) is -1.

    1 - k = 1/2 - 1/(alpha pi^2) int_0^inf ln(sum |x + t z|^alpha / sum |x - t z|^alpha) dt/t. alpha
    = 2 is 1 - arccos(rho)/pi, and alpha = 1 (Cauchy) is near the chi2 similarity of histograms. One
    zero row gives 1/2, two give 1.
    """

    alpha: float = 1.0

    laborious = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.alpha > 2:
            raise ValueError(f"SignStable: alpha must be at most 2, got {self.alpha!r}.")

    def _value(self, X: Array, Z: Array) -> Array:
        shape = np.broadcast_shapes(X.shape, Z.shape)
        X, Z = np.broadcast_to(X, shape), np.broadcast_to(Z, shape)
        agree = np.empty(shape[:-1])
        step = max(
            1, _NUMBERS // max(1, shape[-1] * (1 if self.alpha == 1 else _NODES * shape[-1]))
        )
        for start in range(0, agree.size, step):
            part = np.unravel_index(np.arange(start, min(start + step, agree.size)), shape[:-1])
            agree[part] = self._agree(_unit(X[part]), _unit(Z[part]))
        return agree

    def _agree(self, X: Array, Z: Array) -> Array:
        both = _half(X, Z, self.alpha) + _half(
            Z, X, self.alpha
        )  # t and 1/t: the integral from 0 to 1 twice
        k = 0.5 + both / (self.alpha * np.pi**2)
        x, z = X.any(axis=1), Z.any(axis=1)
        return np.clip(np.where(x & z, k, np.where(x | z, 0.5, 1.0)), 0.0, 1.0)


def _unit(X: Array) -> Array:
    """Rows divided by their largest entry: signs of projections do not see it, and nothing
    overflows.
    """
    largest = np.abs(X).max(axis=-1, keepdims=True, initial=0.0)
    return X / np.where(largest > 0, largest, 1.0)


def _half(X: Array, Z: Array, alpha: float) -> Array:
    """int_0^1 ln(sum |x + t z|^alpha / sum |x - t z|^alpha) dt/t for each pair of rows."""
    a, b = np.abs(X), np.abs(Z)
    with np.errstate(divide="ignore", invalid="ignore"):
        kinks = np.where(b > 0, a / b, np.inf)
    kinks = np.where(kinks < 1, kinks, 1.0)
    order = np.argsort(kinks, axis=1)
    a, b, kinks = (np.take_along_axis(v, order, axis=1) for v in (a, b, kinks))
    same = np.take_along_axis(np.sign(X) * np.sign(Z), order, axis=1)
    ends = np.concatenate([np.zeros((len(X), 1)), kinks, np.ones((len(X), 1))], axis=1)
    if alpha == 1:
        return _linear_pieces(a, b, -same, ends) - _linear_pieces(a, b, same, ends)
    return _smooth_pieces(a, b, same, ends, alpha)


def _linear_pieces(a: Array, b: Array, falling: Array, ends: Array) -> Array:
    """int_0^1 ln(h(t)) dt/t, up to ln h(0) int dt/t, for h = sum |a - s t b|, s = falling: linear
    between its kinks.
    """
    start = a.sum(axis=1)
    slopes = (
        np.where(a > 0, -np.sign(falling), 1.0) * b
    )  # before its kink a term with s = 1 falls, after it the term rises
    turns = (falling > 0) & (a > 0) & (ends[:, 1:-1] < 1)
    constant = start[:, None] - np.cumsum(np.where(turns, 2 * a, 0.0), axis=1)
    slope = slopes.sum(axis=1)[:, None] + np.cumsum(np.where(turns, 2 * b, 0.0), axis=1)
    constant = np.concatenate([start[:, None], constant], axis=1)
    slope = np.concatenate([slopes.sum(axis=1)[:, None], slope], axis=1)
    last = np.concatenate(
        [turns, np.ones((len(a), 1), bool)], axis=1
    )  # pieces that end in a turn, or at 1
    where = np.nonzero(last & (ends[:, 1:] > 0))
    q = ends[:, 1:][where]
    p = np.where(np.append(True, np.diff(where[0]) > 0), 0.0, np.append(0.0, q[:-1]))
    constant, slope, start = constant[where], slope[where], start[where[0]]
    with np.errstate(divide="ignore", invalid="ignore"):
        small = -_li2(-slope * q / constant) + _li2(-slope * p / constant)
        small += np.where(p > 0, (np.log(constant) - np.log(start)) * np.log(q / p), 0.0)
        large = (np.log(slope) - np.log(start)) * np.log(q / p) + (
            np.log(q) ** 2 - np.log(p) ** 2
        ) / 2
        large += _li2(-constant / (slope * q)) - _li2(-constant / (slope * p))
    pieces = np.where(q > p, np.where(constant > np.abs(slope) * 1e-300, small, large), 0.0)
    totals = np.bincount(
        where[0], weights=np.where(np.isfinite(pieces), pieces, 0.0), minlength=len(a)
    )
    return totals.astype(np.float64)


def _li2(x: Array) -> Array:
    """The dilogarithm of x <= 1."""
    from scipy.special import spence

    return spence(1 - np.minimum(x, 1.0))


def _smooth_pieces(a: Array, b: Array, same: Array, ends: Array, alpha: float) -> Array:
    """int_0^1 ln(g/f) dt/t by a double exponential rule on each piece between kinks, which may end
    in a cusp or a logarithm.
    """
    s = np.linspace(-_SPAN, _SPAN, _NODES)
    inner = np.pi / 2 * np.sinh(s)
    from_left = 1 / (1 + np.exp(-2 * inner))
    from_right = 1 / (1 + np.exp(2 * inner))
    weights = (s[1] - s[0]) * np.pi / 4 * np.cosh(s) / np.cosh(inner) ** 2
    total = np.zeros(len(a))
    step = np.where(same == 0, b, same * b)[:, None, :]  # where x is 0 both sums have |t z|
    for piece in range(ends.shape[1] - 1):
        p, q = ends[:, piece], ends[:, piece + 1]
        t = p[:, None] * from_right + q[:, None] * from_left
        up = np.sum(np.abs(a[:, None, :] + step * t[:, :, None]) ** alpha, axis=2)
        down = np.sum(np.abs(a[:, None, :] - step * t[:, :, None]) ** alpha, axis=2)
        with np.errstate(divide="ignore", invalid="ignore"):
            values = np.where((up > 0) & (down > 0) & (t > 0), np.log(up / down) / t, 0.0)
        total += (q - p) * (values @ weights)
    return total
