"""Kernel: a formula on broadcast rows, with validation of the rows; sums of kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mercer.validation.parameters import Constraint, Positive, validate_parameter
from mercer.validation.rows import as_numpy, require_nonnegative
from mercer.validation.sparse import validate_sparse

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Kernel:
    """k(X, Z)[i, j] = k(X[i], Z[j]), a positive semi-definite function of two rows, in float64.

    A subclass defines ``_value``; its fields of type float are finite and above 0, unless
    ``parameter_constraints`` has others.
    """

    domain: ClassVar[str] = "real"
    expensive: ClassVar[bool] = False  # a Gram matrix of thousands of rows takes minutes
    ignores_zeros: ClassVar[bool] = True  # a column that is zero in both rows changes no value
    parameter_constraints: ClassVar[Mapping[str, Constraint]] = {}  # of numbers; else Positive()
    scales_columns: ClassVar[bool] = False  # its features are linear in the columns
    keeps_zeros: ClassVar[bool] = False  # ... and 0 where a column is: CSR rows stay CSR

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.type == "float":
                constraint = self.parameter_constraints.get(field.name, Positive())
                value = getattr(self, field.name)
                validate_parameter(type(self).__name__, field.name, value, constraint)

    def __call__(self, X: Any, Z: Any = None) -> Array:
        """Return the Gram matrix of the rows of X and Z, or of X and X when Z is None."""
        X, Z = self._pair(X, Z)
        return self._value(X[:, None], Z[None, :])

    def pairs(self, X: Any, Z: Any) -> Array:
        """Return k(X[i], Z[i]) for each i."""
        X, Z = self._pair(X, Z)
        if len(X) != len(Z):
            raise ValueError(
                f"{self!r}.pairs needs as many rows in X as in Z, got {len(X)} and {len(Z)}."
            )
        return self._value(X, Z)

    def diagonal(self, X: Any) -> Array:
        """Return k(x, x) for each row of X."""
        X = self._rows(X)
        return self._value(X, X)

    def squared_distance(self, X: Any, Z: Any = None) -> Array:
        """|phi(x) - phi(z)|^2 = k(x, x) + k(z, z) - 2 k(x, z), in the kernel's feature space."""
        X, Z = self._pair(X, Z)
        return self._squared_distance(X[:, None], Z[None, :])

    def over(self, inner: Kernel) -> Kernel:
        """Return this kernel on the feature space of another.

        Gaussian(gamma).over(Chi2()) is the exponentiated chi2 kernel.
        """
        if inner.scales_columns:
            return OfScaledColumns(self, inner)
        raise TypeError(
            f"{self!r} depends on more than inner products and Euclidean distances, so it has no "
            f"value over {inner!r}. "
            "Linear, Gaussian, Cauchy, Matern, Cosine and CosineRBF have one."
        )

    def __add__(self, other: Kernel) -> Kernel:
        """(k1 + k2)(x, z) = k1(x, z) + k2(x, z): the kernel of two maps side by side."""
        return Sum((*_terms(self), *_terms(other))) if isinstance(other, Kernel) else NotImplemented

    def _value(self, X: Array, Z: Array) -> Array:
        """Return the kernel of broadcast rows: columns lie along the last axis."""
        raise NotImplementedError

    def _scale(self, X: Array) -> Array:
        """Return the scaled columns of rows, where the kernel ``scales_columns``."""
        raise NotImplementedError

    def _squared_distance(self, X: Array, Z: Array) -> Array:
        return np.maximum(self._value(X, X) + self._value(Z, Z) - 2 * self._value(X, Z), 0.0)

    def _pair(self, X: Any, Z: Any) -> tuple[Array, Array]:
        X = self._rows(X)
        Z = X if Z is None else self._rows(Z)
        self.same_width(X, Z)
        return X, Z

    def same_width(self, X: Any, Z: Any) -> None:
        """Raise a ValueError where X and Z have different numbers of columns."""
        if X.shape[1] != Z.shape[1]:
            raise ValueError(
                f"{self!r} needs rows of one width, got X with {X.shape[1]} columns and Z with "
                f"{Z.shape[1]}."
            )

    def _rows(self, X: Any) -> Array:
        validate_sparse(repr(self), X)
        rows = X.toarray() if hasattr(X, "toarray") else as_numpy(repr(self), X)
        if rows.ndim != 2 or rows.dtype.kind not in "biuf":
            raise ValueError(
                f"{self!r} needs a 2-d array of real numbers, got {rows.ndim}-d of {rows.dtype}."
            )
        rows = rows.astype(np.float64)
        self.check(rows)
        return rows

    def check(self, X: Any) -> None:
        """Raise a ValueError for rows outside the domain, of an array or a CSR matrix."""
        if self.domain == "nonnegative":
            require_nonnegative(repr(self), X)


@dataclass(frozen=True)
class Sum(Kernel):
    """k(x, z) = sum_i k_i(x, z): the kernel of maps side by side."""

    terms: tuple[Kernel, ...]

    @property
    def domain(self) -> str:  # type: ignore[override]
        return "nonnegative" if any(term.domain == "nonnegative" for term in self.terms) else "real"

    @property
    def ignores_zeros(self) -> bool:  # type: ignore[override]
        return all(term.ignores_zeros for term in self.terms)

    def over(self, inner: Kernel) -> Kernel:
        return Sum(tuple(term.over(inner) for term in self.terms))

    def check(self, X: Array) -> None:
        for term in self.terms:
            term.check(X)

    def _value(self, X: Array, Z: Array) -> Array:
        return np.sum([term._value(X, Z) for term in self.terms], axis=0)

    def _squared_distance(self, X: Array, Z: Array) -> Array:
        return np.sum([term._squared_distance(X, Z) for term in self.terms], axis=0)

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.terms))


@dataclass(frozen=True)
class OfScaledColumns(Kernel):
    """k(x, z) = outer((x - center)/scale, (z - center)/scale), for an outer of any kind.

    Attributes
    ----------
    outer, inner : Kernel
        ``inner`` is the kernel of the scaled columns.
    """

    ignores_zeros: ClassVar[bool] = False  # rows must have a column for each scale
    outer: Kernel
    inner: Kernel

    @property
    def scales_columns(self) -> bool:  # type: ignore[override]
        return self.outer.scales_columns

    @property
    def keeps_zeros(self) -> bool:  # type: ignore[override]
        return self.inner.keeps_zeros and self.outer.keeps_zeros

    @property
    def domain(self) -> str:  # type: ignore[override]
        return self.outer.domain

    def over(self, inner: Kernel) -> Kernel:
        return self.inner.over(inner)  # which refuses

    def check(self, X: Any) -> None:
        sparse = hasattr(X, "toarray") and not self.inner.keeps_zeros
        self.outer.check(self.inner._scale(X.toarray() if sparse else X))

    def _value(self, X: Array, Z: Array) -> Array:
        return self.outer._value(self.inner._scale(X), self.inner._scale(Z))

    def _squared_distance(self, X: Array, Z: Array) -> Array:
        return self.outer._squared_distance(self.inner._scale(X), self.inner._scale(Z))

    def _scale(self, X: Array) -> Array:
        return self.outer._scale(self.inner._scale(X))

    def __repr__(self) -> str:
        return f"{self.outer!r}.over({self.inner!r})"


def _terms(kernel: Kernel) -> tuple[Kernel, ...]:
    return kernel.terms if isinstance(kernel, Sum) else (kernel,)


def sum_columns(term: Callable[[Array, Array], Array], X: Array, Z: Array) -> Array:
    """Return sum_i term(x_i, z_i)."""
    K = np.zeros(np.broadcast_shapes(X.shape[:-1], Z.shape[:-1]), like=X)
    for i in range(X.shape[-1]):
        K += term(X[..., i], Z[..., i])
    return K


def multiply_columns(factor: Callable[[Array, Array], Array], X: Array, Z: Array) -> Array:
    """Return prod_i factor(x_i, z_i)."""
    K = np.ones(np.broadcast_shapes(X.shape[:-1], Z.shape[:-1]), like=X)
    for i in range(X.shape[-1]):
        K *= factor(X[..., i], Z[..., i])
    return K


def ratio(a: Array, b: Array) -> Array:
    """Return a / b, and 0 where b is 0."""
    a, b = np.broadcast_arrays(a, b)
    return np.divide(a, b, out=np.zeros(b.shape, like=b), where=b != 0)


def divide_by_largest(X: Array) -> Array:
    """Return rows divided by their largest magnitude, so that no square over- or underflows."""
    return ratio(X, np.abs(X).max(axis=-1, keepdims=True, initial=0.0))
