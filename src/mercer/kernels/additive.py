"""Additive kernels, k(x, z) = sum_i term(x_i, z_i)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.kernels.base import Array, Kernel, ratio, sum_columns


@dataclass(frozen=True)
class Additive(Kernel):
    """k(x, z) = sum_i term(x_i, z_i)."""

    def term(self, x: Array, z: Array) -> Array:
        """Return the kernel of two numbers, elementwise."""
        raise NotImplementedError

    def _value(self, X: Array, Z: Array) -> Array:
        return sum_columns(self.term, X, Z)


@dataclass(frozen=True)
class Hellinger(Additive):
    """k(x, z) = sum sqrt(x z), x, z >= 0."""

    domain = "nonnegative"

    def term(self, x: Array, z: Array) -> Array:
        return np.sqrt(x) * np.sqrt(z)

    def _squared_distance(self, X: Array, Z: Array) -> Array:
        return sum_columns(lambda x, z: (np.sqrt(x) - np.sqrt(z)) ** 2, X, Z)


@dataclass(frozen=True)
class Chi2(Additive):
    """k(x, z) = sum 2 x z / (x + z), 0/0 = 0, x, z >= 0.

    Its squared distance is sum (x - z)^2 / (x + z).
    """

    domain = "nonnegative"

    def term(self, x: Array, z: Array) -> Array:
        low, high = np.minimum(x, z), np.maximum(x, z)
        return low * (2 / (1 + ratio(low, high)))  # so that no step overflows

    def _squared_distance(self, X: Array, Z: Array) -> Array:
        # The identity x + z - 4 x z / (x + z) cancels on near-duplicates.
        return sum_columns(_chi2_distance, X, Z)


def _chi2_distance(x: Array, z: Array) -> Array:
    low, high = np.minimum(x, z), np.maximum(x, z)
    return (high - low) * (ratio(high - low, high) / (1 + ratio(low, high)))


@dataclass(frozen=True)
class Intersection(Additive):
    """k(x, z) = sum min(x, z), x, z >= 0.

    Its squared distance is sum |x - z|.
    """

    domain = "nonnegative"

    def term(self, x: Array, z: Array) -> Array:
        return np.minimum(x, z)

    def _squared_distance(self, X: Array, Z: Array) -> Array:
        return sum_columns(lambda x, z: np.abs(x - z), X, Z)


@dataclass(frozen=True)
class JensenShannon(Additive):
    """k(x, z) = sum x/2 log2((x + z)/x) + z/2 log2((x + z)/z), 0 log = 0, x, z >= 0."""

    domain = "nonnegative"

    def term(self, x: Array, z: Array) -> Array:
        return (_half_entropy(x, z) + _half_entropy(z, x)) / np.log(4)


@dataclass(frozen=True)
class Signed(Additive):
    """k(x, z) = sum sign(x z) term(|x|, |z|), term being that of a kernel of x, z >= 0."""

    inner: Additive

    def term(self, x: Array, z: Array) -> Array:
        return np.sign(x) * np.sign(z) * self.inner.term(np.abs(x), np.abs(z))


@dataclass(frozen=True)
class Homogeneous(Additive):
    """k(x, z) = sum (x z)^((degree - 1)/2) term(x, z), x, z >= 0, term being of degree 1."""

    inner: Additive
    degree: float = 1.0
    domain = "nonnegative"

    def term(self, x: Array, z: Array) -> Array:
        value = self.inner.term(x, z)
        with np.errstate(divide="ignore", invalid="ignore"):
            power = np.sqrt(x) ** (self.degree - 1) * np.sqrt(z) ** (self.degree - 1)
            return np.where((x == 0) | (z == 0), 0.0, power * value)


@dataclass(frozen=True)
class CustomAdditive(Additive):
    """k(x, z) = sum function(x_i, z_i), for a function of two arrays of one shape."""

    function: Callable[[Any, Any], Any]

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return f"CustomAdditive({name})"

    def term(self, x: Array, z: Array) -> Array:
        x, z = np.broadcast_arrays(x, z)
        value = np.asarray(self.function(x, z), dtype=np.float64)
        if value.shape != x.shape:
            raise ValueError(
                f"{self.function!r} must give one number for each pair of numbers: for arrays of "
                f"shape {x.shape} it returned {value.shape}."
            )
        return value


def _half_entropy(x: Array, z: Array) -> Array:
    """Return x log((x + z)/x), 0 where x is 0, without the overflow of z/x."""
    x, z = np.broadcast_arrays(x, z)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        logs = np.where(z > x, np.log(x + z) - np.log(x), np.log1p(ratio(z, x)))
    return np.multiply(x, logs, out=np.zeros(x.shape), where=x > 0)
