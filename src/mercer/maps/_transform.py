"""What a fitted map is made of: frozen arrays and numbers that turn a tile of rows into a block of
features.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mercer import ops
from mercer.kernels import Kernel
from mercer.maps.block import Block, as_block
from mercer.maps.stages.base import Stage
from mercer.parallel import devices
from mercer.parallel.tile_size import Cost

Array = NDArray[Any]


@runtime_checkable
class TileTransform(Protocol):
    """drawn(tile) -> Block. The tile is a 2-d array or a canonical CSR matrix, of the dtype of the
    arrays.
    """

    def __call__(self, tile: Any, out: Array | None = None) -> Block: ...
    def columns(self, d: int) -> int: ...
    def dense(self, sparse: bool) -> bool: ...
    def arrays(self) -> dict[str, Array]: ...
    def astype(self, dtype: DTypeLike) -> Self: ...
    def cost(self, d: int) -> Cost: ...
    def check(self, d: int) -> None: ...


@dataclass(frozen=True, eq=False)
class Chain:
    """Stages one after the other: the usual Drawn."""

    stages: tuple[Stage, ...]

    @property
    def validates_input(self) -> bool:
        """Whether it refuses numbers outside its domain itself."""
        return self.stages[0].validates_input

    def __call__(self, tile: Any, out: Array | None = None) -> Block:
        """The block of features of a tile; written into out where the features are dense and out is
        given.
        """
        for stage in self.stages[:-1]:
            tile = stage(tile)
        return as_block(self.stages[-1](tile, out))

    def columns(self, d: int) -> int:
        """Features for d inputs."""
        return self._widths(d)[-1]

    def dense(self, sparse: bool) -> bool:
        """Whether the features are a dense array, given whether the input is a CSR matrix."""
        return not (sparse and all(stage.keeps_sparse for stage in self.stages))

    def arrays(self) -> dict[str, Array]:
        """The drawn arrays, named by the place of their stage."""
        return {
            f"{i}.{name}": array
            for i, stage in enumerate(self.stages)
            for name, array in stage.arrays().items()
        }

    def check(self, d: int) -> None:
        """Refuse stages that do not go with d columns, or with each other."""
        if not self.stages:
            raise ValueError("Chain needs at least one stage.")
        for stage in self.stages:
            stage.check(d)
            d = stage.columns(d)

    def astype(self, dtype: DTypeLike) -> Chain:
        """The same chain with its arrays in another dtype."""
        return Chain(tuple(stage.astype(dtype) for stage in self.stages))

    def cost(self, d: int) -> Cost:
        """What one row costs; bytes for float64, so that both dtypes have the same tiles."""
        widths = self._widths(d)
        pairs = list(zip(self.stages, widths, strict=False))
        flops = sum(stage.flops(width) for stage, width in pairs)
        return Cost(
            flops, 8.0 * (sum(widths) + sum(stage.scratch(width) for stage, width in pairs))
        )

    def _widths(self, d: int) -> list[int]:
        widths = [d]
        for stage in self.stages:
            widths.append(stage.columns(widths[-1]))
        return widths


def on_first(kernel: Kernel, drawn: Any, domain: str) -> Featured:
    """The kernel on what the first stage of a chain gives: the limit of a map that spells a
    composition.
    """
    return Featured(kernel, (Chain(drawn.stages[:1]),), domain)


_casts: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def in_dtype(drawn: Any, dtype: np.dtype[Any]) -> Any:
    """drawn with float64 or float32 arrays. Weights are kept in float64; the float32 copy is made
    once and lives as long as they do.
    """
    if dtype == np.float64:
        return drawn
    if drawn not in _casts:
        with np.errstate(over="ignore"):
            cast = drawn.astype(dtype)
        kept = cast.arrays()
        for name, array in drawn.arrays().items():
            if name in kept and not np.array_equal(np.isfinite(kept[name]), np.isfinite(array)):
                largest = np.abs(array[np.isfinite(array)]).max()
                raise ValueError(
                    f"The map has weights up to {largest:.2g}, beyond {dtype}: give float64 "
                    "rows, or fit to data that is scaled "
                    "(sklearn.preprocessing)."
                )
        _casts[drawn] = cast
    return _casts[drawn]


_moves: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()


def for_rows(drawn: Any, rows: Any) -> Any:
    """drawn in the dtype of rows, and where they are: moved to a device once, and kept there as
    long as the original.
    """
    cast = in_dtype(drawn, rows.dtype)
    if not ops.is_device(rows):
        return cast
    kept = _moves.setdefault(cast, {})
    name = str(rows.tensor.device)
    if name not in kept:
        kept[name] = _moved(cast, rows)
    return kept[name]


def _moved(part: Any, rows: Any) -> Any:
    """The same with its arrays where rows are; CSR matrices become dense."""
    if isinstance(part, np.ndarray) or hasattr(part, "indptr"):
        return devices.moved(
            part.toarray() if hasattr(part, "indptr") else part, rows, columns=True
        )
    if isinstance(part, tuple):
        return tuple(_moved(one, rows) for one in part)
    if hasattr(part, "arrays") and is_dataclass(part) and not isinstance(part, type):
        return replace(
            part, **{field.name: _moved(getattr(part, field.name), rows) for field in fields(part)}
        )
    return part


@dataclass(frozen=True)
class Featured(Kernel):
    """k(phi(x), phi(z)) for features phi that were drawn: the limit of a map that is built on
    them.
    """

    ignores_zeros: ClassVar[bool] = (
        False  # the features have as many columns as they were drawn for
    )
    kernel: Kernel
    features: tuple[TileTransform, ...]
    needs: str  # the domain of the first of them

    @property
    def domain(self) -> str:  # type: ignore[override]
        return self.needs

    def _value(self, X: Array, Z: Array) -> Array:
        return self.kernel._value(self._features(X), self._features(Z))

    def _features(self, X: Array) -> Array:
        rows: Any = X.reshape(-1, X.shape[-1])
        for drawn in self.features:
            rows = drawn(rows).toarray()
        return rows.reshape(*X.shape[:-1], -1)
