"""Kernels that are the probability of equal codes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer.kernels.base import Array, Kernel, divide_by_largest
from mercer.validation.parameters import Positive

_NODES = 64  # of the double exponential rule, for each piece between two kinks
_SPAN = 3.2  # half-width of the rule: the weights beyond are below 1e-15
_NUMBERS = 2**20  # held at a time


@dataclass(frozen=True)
class Bits(Kernel):
    """k(x, z) + (1 - k(x, z)) 2^-bits: the probability that codes of so many bits are equal.

    Hashes are equal with probability k(x, z), and the bits of different hashes with probability
    2^-bits. A zero row has no codes: the kernel is 0.
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
    """k(x, z) = Pr(sign(w.x) = sign(w.z)), w with independent symmetric alpha-stable entries.

    1 - k = 1/2 - 1/(alpha pi^2) int_0^inf ln(sum |x + t z|^alpha / sum |x - t z|^alpha) dt/t for
    0 < alpha <= 2. alpha = 2 is 1 - arccos(rho)/pi, and alpha = 1 (Cauchy) is near the chi2
    similarity of histograms. sign(0) is -1; one zero row gives 1/2, two give 1.
    """

    alpha: float = 1.0

    expensive = True
    parameter_constraints = {"alpha": Positive(at_most=2)}

    def _value(self, X: Array, Z: Array) -> Array:
        shape = np.broadcast_shapes(X.shape, Z.shape)
        X, Z = np.broadcast_to(X, shape), np.broadcast_to(Z, shape)
        agree = np.empty(shape[:-1])
        step = max(
            1, _NUMBERS // max(1, shape[-1] * (1 if self.alpha == 1 else _NODES * shape[-1]))
        )
        for start in range(0, agree.size, step):
            part = np.unravel_index(np.arange(start, min(start + step, agree.size)), shape[:-1])
            agree[part] = self._agree(divide_by_largest(X[part]), divide_by_largest(Z[part]))
        return agree

    def _agree(self, X: Array, Z: Array) -> Array:
        # The integral from 1 to infinity is that from 0 to 1 of 1/t, with x and z exchanged.
        integral = _half_integral(X, Z, self.alpha) + _half_integral(Z, X, self.alpha)
        k = 0.5 + integral / (self.alpha * np.pi**2)
        x, z = X.any(axis=1), Z.any(axis=1)
        return np.clip(np.where(x & z, k, np.where(x | z, 0.5, 1.0)), 0.0, 1.0)


def _half_integral(X: Array, Z: Array, alpha: float) -> Array:
    """Return int_0^1 ln(sum |x + t z|^alpha / sum |x - t z|^alpha) dt/t for each pair of rows."""
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
    """Return int_0^1 ln(h(t)) dt/t - ln h(0) int_0^1 dt/t, h = sum |a - s t b|, s = falling.

    h is linear between its kinks, the ends; each piece is a dilogarithm.
    """
    start = a.sum(axis=1)
    # A term with s = 1 falls before its kink and rises after it.
    slopes = np.where(a > 0, -np.sign(falling), 1.0) * b
    turns = (falling > 0) & (a > 0) & (ends[:, 1:-1] < 1)
    constant = start[:, None] - np.cumsum(np.where(turns, 2 * a, 0.0), axis=1)
    slope = slopes.sum(axis=1)[:, None] + np.cumsum(np.where(turns, 2 * b, 0.0), axis=1)
    constant = np.concatenate([start[:, None], constant], axis=1)
    slope = np.concatenate([slopes.sum(axis=1)[:, None], slope], axis=1)
    # Pieces end in a turn, or at 1.
    last = np.concatenate([turns, np.ones((len(a), 1), bool)], axis=1)
    where = np.nonzero(last & (ends[:, 1:] > 0))
    q = ends[:, 1:][where]
    p = np.where(np.append(True, np.diff(where[0]) > 0), 0.0, np.append(0.0, q[:-1]))
    constant, slope, start = constant[where], slope[where], start[where[0]]
    with np.errstate(divide="ignore", invalid="ignore"):
        log = np.log(q / p)
        small = _dilogarithm(-slope * p / constant) - _dilogarithm(-slope * q / constant)
        small += np.where(p > 0, (np.log(constant) - np.log(start)) * log, 0.0)
        large = (np.log(slope) - np.log(start)) * log + (np.log(q) ** 2 - np.log(p) ** 2) / 2
        large += _dilogarithm(-constant / (slope * q)) - _dilogarithm(-constant / (slope * p))
    pieces = np.where(q > p, np.where(constant > np.abs(slope) * 1e-300, small, large), 0.0)
    finite = np.where(np.isfinite(pieces), pieces, 0.0)
    return np.bincount(where[0], weights=finite, minlength=len(a)).astype(np.float64)


def _dilogarithm(x: Array) -> Array:
    """Return Li2(x) for x <= 1."""
    from scipy.special import spence

    return spence(1 - np.minimum(x, 1.0))


def _smooth_pieces(a: Array, b: Array, same: Array, ends: Array, alpha: float) -> Array:
    """Return int_0^1 ln(sum |a + s t b|^alpha / sum |a - s t b|^alpha) dt/t, s = same.

    By a double exponential rule on each piece between kinks, which may end in a cusp or a
    logarithm.
    """
    from scipy.special import expit

    s = np.linspace(-_SPAN, _SPAN, _NODES)
    inner = np.pi / 2 * np.sinh(s)
    weights = (s[1] - s[0]) * np.pi / 4 * np.cosh(s) / np.cosh(inner) ** 2
    total = np.zeros(len(a))
    step = np.where(same == 0, b, same * b)[:, None, :]  # where x is 0, |t z| in both sums
    for piece in range(ends.shape[1] - 1):
        p, q = ends[:, piece], ends[:, piece + 1]
        t = p[:, None] * expit(-2 * inner) + q[:, None] * expit(2 * inner)
        up = np.sum(np.abs(a[:, None, :] + step * t[:, :, None]) ** alpha, axis=2)
        down = np.sum(np.abs(a[:, None, :] - step * t[:, :, None]) ** alpha, axis=2)
        with np.errstate(divide="ignore", invalid="ignore"):
            values = np.where((up > 0) & (down > 0) & (t > 0), np.log(up / down) / t, 0.0)
        total += (q - p) * (values @ weights)
    return total
