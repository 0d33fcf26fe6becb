"""Base class of stages: frozen arrays and numbers, and a function of a tile."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import DTypeLike

from mercer import ops
from mercer._typing import Array
from mercer.parallel.tile_size import Cost

_LARGEST = 1e150  # of a number of a stage: products of two are finite


@dataclass(frozen=True, eq=False)
class FrozenArrays:
    """Record of arrays and numbers that do not change."""

    def arrays(self) -> dict[str, Array]:
        """Return the arrays by field name, those of other records in it among them."""
        arrays: dict[str, Array] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, FrozenArrays):
                arrays |= value.arrays()
            elif ops.is_array(value):
                arrays[field.name] = value
        return arrays

    def astype(self, dtype: DTypeLike) -> Self:
        """Return a copy with floating-point arrays of another dtype."""
        cast: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, FrozenArrays):
                cast[field.name] = value.astype(dtype)
            elif ops.is_array(value) and value.dtype.kind == "f":
                cast[field.name] = value.astype(dtype, copy=False)
        return replace(self, **cast)

    def check(self, d: int) -> None:
        """Raise a ValueError unless the arrays fit each other and d columns.

        No fit makes such arrays, but a model file is not trusted.
        """
        for name, array in self.arrays().items():
            valid = array.dtype in (np.float64, np.int64)
            require(valid, self, f"{name} of float64 or int64, got {array.dtype}")
            require(bool(np.all(np.abs(array) <= _LARGEST)), self, f"{name} to be finite")
        for name, value in vars(self).items():
            valid = not isinstance(value, float) or abs(value) <= _LARGEST
            require(valid, self, f"{name} to be finite, got {value}")


def require(valid: bool, record: object, needs: str) -> None:
    """Raise a ValueError about a record unless a condition is valid."""
    if not valid:
        raise ValueError(f"{type(record).__name__} needs {needs}.")


@dataclass(frozen=True, eq=False)
class Stage(FrozenArrays):
    """stage(tile) -> tile, row by row.

    A tile is a 2-d array or a CSR matrix. The first stage of a chain does not write into its input;
    a later one may, if its docstring says so.
    """

    keeps_sparse: ClassVar[bool] = False  # CSR in, CSR out
    # Whether values outside the domain are rejected by the stage itself, as it reads them.
    validates_input: ClassVar[bool] = False
    on_host: ClassVar[bool] = False  # computed in host memory; a tile on a device is copied

    def __call__(self, X: Any, out: Array | None = None) -> Any:
        """Return the stage of a tile, written into `out` where it is given and dense."""
        raise NotImplementedError

    def vjp(self, X: Any, G: Array) -> Array:
        """Return J(x)'g of each row, J the Jacobian of the stage: a vector-Jacobian product.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d)
            Input of the stage.
        G : array of shape (..., n, columns) or (..., 1, columns)

        Returns
        -------
        array of shape (..., n, d)
        """
        raise TypeError(f"{type(self).__name__} has no gradient.")

    def cost(self, d: int) -> Cost:
        """Return the cost of one row of d columns: bytes of output and working space, not input.

        Bytes are those of float64, so that both dtypes have equal tiles.
        """
        return Cost(8.0 * d, 8.0 * d, d)
