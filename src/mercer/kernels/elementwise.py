"""Kernels of differences, ratios and sums of single coordinates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.kernels.additive import Chi2
from mercer.kernels.base import Array, Kernel, multiply_columns, ratio, sum_columns
from mercer.validation.rows import require_above

_HUGE, _SMALLER = 1e280, 2.0**-200


@dataclass(frozen=True)
class Laplacian(Kernel):
    """k(x, z) = exp(-gamma |x - z|_1)."""

    gamma: float = 1.0

    def _value(self, X: Array, Z: Array) -> Array:
        return np.exp(-self.gamma * sum_columns(lambda x, z: np.abs(x - z), X, Z))


@dataclass(frozen=True)
class ExpChi2(Kernel):
    """k(x, z) = exp(-gamma sum (x - z)^2 / (x + z)), x, z >= 0: scikit-learn's chi2_kernel."""

    gamma: float = 1.0
    domain = "nonnegative"

    def _value(self, X: Array, Z: Array) -> Array:
        return np.exp(-self.gamma * Chi2()._squared_distance(X, Z))


@dataclass(frozen=True)
class Skewed(Kernel):
    """k(x, z) = prod_i factor(x_i + skew, z_i + skew), x, z > -skew."""

    skew: float = 1.0

    def factor(self, x: Array, z: Array) -> Array:
        """Return the kernel of two shifted numbers, elementwise."""
        raise NotImplementedError

    def check(self, X: Array) -> None:
        require_above(repr(self), X, -self.skew)

    def _value(self, X: Array, Z: Array) -> Array:
        return multiply_columns(self.factor, X + self.skew, Z + self.skew)


@dataclass(frozen=True)
class SkewedChi2(Skewed):
    """k(x, z) = prod 2 sqrt((x + c)(z + c)) / (x + z + 2c), c = skew, x, z > -c."""

    def factor(self, x: Array, z: Array) -> Array:
        return 2 * np.sqrt(x / (x + z)) * np.sqrt(z / (x + z))


@dataclass(frozen=True)
class SkewedIntersection(Skewed):
    """k(x, z) = prod min(sqrt((x + c)/(z + c)), sqrt((z + c)/(x + c))), c = skew, x, z > -c."""

    def factor(self, x: Array, z: Array) -> Array:
        return np.sqrt(np.minimum(x, z) / np.maximum(x, z))


@dataclass(frozen=True)
class ExponentialSemigroup(Kernel):
    """k(x, z) = exp(-beta sum sqrt(x + z)), x, z >= 0."""

    beta: float = 1.0
    domain = "nonnegative"

    def _value(self, X: Array, Z: Array) -> Array:
        return np.exp(-self.beta * sum_columns(lambda x, z: np.sqrt(x + z), X, Z))


@dataclass(frozen=True)
class ReciprocalSemigroup(Kernel):
    """k(x, z) = prod beta / (x + z + beta), x, z >= 0; beta is the paper's lambda."""

    beta: float = 1.0
    domain = "nonnegative"

    def _value(self, X: Array, Z: Array) -> Array:
        return multiply_columns(lambda x, z: self.beta / (x + z + self.beta), X, Z)


@dataclass(frozen=True)
class MinMax(Kernel):
    """k(x, z) = sum min(x, z) / sum max(x, z), 0/0 = 0, x, z >= 0."""

    domain = "nonnegative"

    def _value(self, X: Array, Z: Array) -> Array:
        if max(X.max(initial=0.0), Z.max(initial=0.0)) > _HUGE:  # whose sums might overflow
            X, Z = X * _SMALLER, Z * _SMALLER
        return ratio(sum_columns(np.minimum, X, Z), sum_columns(np.maximum, X, Z))


@dataclass(frozen=True)
class GMM(Kernel):
    """k(x, z) = sum min(u, v)^p / sum max(u, v)^p, 0/0 = 0, u and v the signed split of x and z.

    The signed split makes two columns of each: (x, 0) for x > 0, (0, -x) otherwise. p = power;
    p = 1 is GMM, any other p is pGMM.
    """

    power: float = 1.0

    def _value(self, X: Array, Z: Array) -> Array:
        scale = self.scale(X, Z)
        return MinMax()._value(self.split(X, scale), self.split(Z, scale))

    def scale(self, X: Any, Z: Any) -> float:
        """Return the largest magnitude of X and Z: the kernel of X/scale and Z/scale is the same.

        Powers of the scaled numbers stay in range.
        """
        if not (X.size and Z.size):
            return 1.0
        return float(max(abs(X).max(), abs(Z).max(), np.finfo(np.float64).tiny))

    def split(self, X: Array, scale: float) -> Array:
        """Return (max(x, 0), max(-x, 0))^power side by side, for x = X/scale."""
        X = X / scale
        return np.concatenate([np.maximum(X, 0), np.maximum(-X, 0)], axis=-1) ** self.power


@dataclass(frozen=True)
class Resemblance(Kernel):
    """k(x, z) = |S(x) and S(z)| / |S(x) or S(z)|, 0/0 = 0, S(x) the nonzero columns of x.

    The min-max kernel of binary data.
    """

    def _value(self, X: Array, Z: Array) -> Array:
        return MinMax()._value((X != 0).astype(float), (Z != 0).astype(float))
