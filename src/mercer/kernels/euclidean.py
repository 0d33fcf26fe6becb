"""Kernels of inner products and Euclidean distances, which can be composed: outer.over(inner)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mercer._typing import is_csr
from mercer.kernels.base import Array, Kernel, divide_by_largest, ratio, sum_columns
from mercer.validation.parameters import NumberOption

_LARGEST_EXPONENT = 800.0  # exp(-800) is 0


@dataclass(frozen=True)
class Euclidean(Kernel):
    """k(x, z) as a function of <x, z>, <x, x> and <z, z> alone."""

    def of(self, inner: Kernel, X: Array, Z: Array) -> Array:
        """Return the kernel with inner(x, z) in place of <x, z>."""
        raise NotImplementedError

    def over(self, inner: Kernel) -> Kernel:
        return self if isinstance(inner, Linear) else ComposedKernel(self, inner)

    def _value(self, X: Array, Z: Array) -> Array:
        return self.of(Linear(), X, Z)


@dataclass(frozen=True)
class Linear(Euclidean):
    """k(x, z) = <x, z>."""

    def of(self, inner: Kernel, X: Array, Z: Array) -> Array:
        return inner._value(X, Z)

    def over(self, inner: Kernel) -> Kernel:
        return inner

    def _value(self, X: Array, Z: Array) -> Array:
        return np.einsum("...i,...i->...", X, Z)

    def _squared_distance(self, X: Array, Z: Array) -> Array:
        return sum_columns(lambda x, z: (x - z) ** 2, X, Z)


@dataclass(frozen=True, eq=False)
class Centered(Kernel):
    """k(x, z) = <x - mean, z - mean>."""

    ignores_zeros: ClassVar[bool] = False  # the mean of a column of zeros need not be 0
    mean: Array

    def over(self, inner: Kernel) -> Kernel:
        raise TypeError(
            f"{self!r} is centered at a mean of features, which is no function of inner products, "
            f"so it has no value over {inner!r}. With center=False, FeaturePCA keeps the kernel of "
            "the map before it."
        )

    def _value(self, X: Array, Z: Array) -> Array:
        return Linear()._value(X - self.mean, Z - self.mean)

    def _squared_distance(self, X: Array, Z: Array) -> Array:
        return Linear()._squared_distance(X, Z)

    def __repr__(self) -> str:
        return f"Centered(d={len(self.mean)})"


@dataclass(frozen=True, eq=False)
class OfColumns(Kernel):
    """k(x, z) = <scale(x), scale(z)>, scale(x) having a parameter for each column of x.

    A subclass defines ``_scale``. Any other kernel has a value over it.
    """

    ignores_zeros: ClassVar[bool] = False  # rows must have a column for each parameter
    scales_columns: ClassVar[bool] = True

    def over(self, inner: Kernel) -> Kernel:
        if inner.scales_columns:
            return super().over(inner)
        raise TypeError(
            f"{self!r} has a parameter for each column, so it has no value over {inner!r}."
        )

    def _value(self, X: Array, Z: Array) -> Array:
        return Linear()._value(self._scale(X), self._scale(Z))

    def _squared_distance(self, X: Array, Z: Array) -> Array:
        return Linear()._squared_distance(self._scale(X), self._scale(Z))


@dataclass(frozen=True, eq=False)
class Scaled(OfColumns):
    """k(x, z) = sum_i (x_i - center_i)(z_i - center_i)/scale_i^2; None is a center of 0."""

    scales: Array
    center: Array | None = None

    @property
    def keeps_zeros(self) -> bool:  # type: ignore[override]
        return self.center is None

    def _scale(self, X: Any) -> Any:
        if is_csr(X):
            scaled = X.copy()
            scaled.data = scaled.data / self.scales[scaled.indices]
            return scaled
        return (X if self.center is None else X - self.center) / self.scales

    def __repr__(self) -> str:
        return f"Scaled(d={len(self.scales)})"


@dataclass(frozen=True, eq=False)
class Metric(OfColumns):
    """k(x, z) = x'M z with M = P P'."""

    matrix: Array  # P, (d, d)

    def _scale(self, X: Array) -> Array:
        return X @ self.matrix

    def __repr__(self) -> str:
        return f"Metric(d={len(self.matrix)})"


@dataclass(frozen=True)
class Radial(Euclidean):
    """k(x, z) = profile(|x - z|^2), profile(0) = 1."""

    def profile(self, squared_distance: Array) -> Array:
        """Return the kernel of squared distances, elementwise."""
        raise NotImplementedError

    def of(self, inner: Kernel, X: Array, Z: Array) -> Array:
        return self.profile(inner._squared_distance(X, Z))


@dataclass(frozen=True)
class Gaussian(Radial):
    """k(x, z) = exp(-gamma |x - z|^2)."""

    gamma: float = 1.0

    def profile(self, squared_distance: Array) -> Array:
        return np.exp(-self.gamma * squared_distance)


@dataclass(frozen=True)
class Cauchy(Radial):
    """k(x, z) = 1 / (1 + gamma |x - z|^2)."""

    gamma: float = 1.0

    def profile(self, squared_distance: Array) -> Array:
        return 1 / (1 + self.gamma * squared_distance)


@dataclass(frozen=True)
class Matern(Radial):
    """k(x, z) = e^-a, (1 + a) e^-a or (1 + a + a^2/3) e^-a for nu = 1/2, 3/2 or 5/2.

    a = 2 sqrt(nu gamma) |x - z|. The usual length scale is l = 1/sqrt(2 gamma); as nu grows the
    kernel tends to Gaussian(gamma).
    """

    nu: float = 1.5
    gamma: float = 1.0
    parameter_constraints = {"nu": NumberOption(0.5, 1.5, 2.5)}

    def profile(self, squared_distance: Array) -> Array:
        a = np.minimum(2 * np.sqrt(self.nu * self.gamma * squared_distance), _LARGEST_EXPONENT)
        polynomial = {0.5: 1.0, 1.5: 1 + a, 2.5: 1 + a + a**2 / 3}[self.nu]
        return polynomial * np.exp(-a)


@dataclass(frozen=True)
class Cosine(Euclidean):
    """k(x, z) = rho = <x, z> / (|x| |z|), 0 where a row is zero."""

    def _value(self, X: Array, Z: Array) -> Array:
        return self.of(Linear(), divide_by_largest(X), divide_by_largest(Z))

    def of(self, inner: Kernel, X: Array, Z: Array) -> Array:
        norms = np.sqrt(inner._value(X, X)) * np.sqrt(inner._value(Z, Z))
        return ratio(inner._value(X, Z), norms)


@dataclass(frozen=True)
class CosineRBF(Euclidean):
    """k(x, z) = exp(-gamma (1 - rho)) = exp(-gamma/2 |u - v|^2), u = x/|x|, v = z/|z|.

    A zero row stays zero, so that k(0, z) = exp(-gamma/2) and k(0, 0) = 1.
    """

    gamma: float = 1.0

    def _value(self, X: Array, Z: Array) -> Array:
        return self.of(Linear(), divide_by_largest(X), divide_by_largest(Z))

    def of(self, inner: Kernel, X: Array, Z: Array) -> Array:
        squares = (inner._value(X, X) > 0).astype(float) + (inner._value(Z, Z) > 0)
        return np.exp(-self.gamma / 2 * (squares - 2 * Cosine().of(inner, X, Z)))


@dataclass(frozen=True)
class ComposedKernel(Euclidean):
    """k(x, z) = outer(phi(x), phi(z)), phi being the feature space of inner."""

    outer: Euclidean
    inner: Kernel

    @property
    def domain(self) -> str:  # type: ignore[override]
        return self.inner.domain

    @property
    def ignores_zeros(self) -> bool:  # type: ignore[override]
        return self.inner.ignores_zeros

    def over(self, inner: Kernel) -> Kernel:
        return ComposedKernel(self.outer, self.inner.over(inner))

    def check(self, X: Array) -> None:
        self.inner.check(X)

    def _value(self, X: Array, Z: Array) -> Array:
        return self.outer.of(self.inner, X, Z)

    def __repr__(self) -> str:
        return f"{self.outer!r}.over({self.inner!r})"
