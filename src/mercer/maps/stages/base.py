"""What every stage is: frozen arrays and numbers, and a function of a tile."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mercer import ops

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Frozen:
    """Arrays and numbers that do not change: what stages and drawn maps are."""

    def arrays(self) -> dict[str, Array]:
        """The drawn arrays by field name: casting, moving, saving and measuring are loops over
        these.
        """
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if ops.is_array(value)}

    def astype(self, dtype: DTypeLike) -> Self:
        """The same with its arrays of floats in another dtype."""
        floats = {name: array for name, array in self.arrays().items() if array.dtype.kind == "f"}
        cast: dict[str, Any] = {
            name: array.astype(dtype, copy=False) for name, array in floats.items()
        }
        return replace(self, **cast)

    def check(self, d: int) -> None:
        """Refuse what no fit has drawn: arrays that do not go together or not with d columns. A
        model file is not trusted.
        """
        for name, array in self.arrays().items():
            require(
                array.dtype in (np.float64, np.int64),
                self,
                f"{name} of float64 or int64, got {array.dtype}",
            )
            require(bool(np.isfinite(array).all()), self, f"{name} to be finite")


def require(good: bool, who: object, needs: str) -> None:
    """Refuse, in one sentence, something that was drawn."""
    if not good:
        raise ValueError(f"{type(who).__name__} needs {needs}.")


@dataclass(frozen=True, eq=False)
class Stage(Frozen):
    """stage(tile) -> tile, row by row. A tile is a 2-d array or a CSR matrix; a stage never writes
    into the tile it is given.
    """

    keeps_sparse: ClassVar[bool] = False  # CSR in, CSR out
    validates_input: ClassVar[bool] = (
        False  # refuses numbers outside its domain itself, while it reads them
    )

    def __call__(self, X: Any, out: Array | None = None) -> Any:
        raise NotImplementedError

    def columns(self, d: int) -> int:
        """Columns that come out when d go in."""
        return d

    def flops(self, d: int) -> float:
        """Multiply-adds for one row of d columns."""
        return 8.0 * self.columns(d)

    def scratch(self, d: int) -> int:
        """Numbers of working space for one row, beside what goes in and comes out."""
        return 0
