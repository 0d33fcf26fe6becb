"""Tile transforms: the fitted part of a map, which computes the features of a tile of rows."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import DTypeLike

from mercer import ops
from mercer._typing import Array, is_csr
from mercer.kernels import Kernel
from mercer.maps.block import Block, Dense, Sparse, as_block
from mercer.maps.stages.base import Stage
from mercer.parallel.device import to_device_of
from mercer.parallel.tile_size import Cost


class TileTransform:
    """transform(tile) -> Block: frozen arrays and numbers, and a function of a tile of rows.

    A tile is a 2-d array or a canonical CSR matrix, of the dtype of the arrays.
    """

    @property
    def validates_input(self) -> bool:
        """Whether values outside the domain are rejected by the transform itself."""
        return False

    @property
    def finds_largest(self) -> bool:
        """Whether blocks of dense tiles have ``Coded.largest``."""
        return False

    def __call__(self, tile: Any, out: Array | None = None) -> Block:
        """Return the features of a tile, written into `out` where they are dense."""
        raise NotImplementedError

    def vjp(self, tile: Any, G: Array) -> Array:
        """Return J(x)'g of each row, J the Jacobian of the features, as ``Stage.vjp``."""
        raise TypeError(f"{type(self).__name__} has no gradient.")

    def columns(self, d: int) -> int:
        """Return the number of features for d inputs."""
        return self.cost(d).columns

    def dense(self, sparse: bool) -> bool:
        """Return whether the features are a dense array; `sparse` is whether the input is CSR."""
        raise NotImplementedError

    def block_kind(self, sparse: bool, *, on_device: bool = False) -> type[Block]:
        """Return the class of the blocks: Dense, Sparse or Coded. A device has no Sparse ones."""
        return Dense if on_device or self.dense(sparse) else Sparse

    def arrays(self) -> dict[str, Array]:
        """Return the arrays by name."""
        raise NotImplementedError

    def astype(self, dtype: DTypeLike) -> Self:
        """Return a copy with floating-point arrays of another dtype."""
        raise NotImplementedError

    def cost(self, d: int) -> Cost:
        """Return the cost of one row; bytes for float64, so that both dtypes have equal tiles."""
        raise NotImplementedError

    def check(self, d: int) -> None:
        """Raise a ValueError unless the parts fit each other and d columns."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Chain(TileTransform):
    """x -> stage_m(... stage_1(x)): stages applied one after the other."""

    stages: tuple[Stage, ...]

    def __repr__(self) -> str:
        return f"Chain({', '.join(type(stage).__name__ for stage in self.stages)})"

    @property
    def validates_input(self) -> bool:
        return self.stages[0].validates_input

    def __call__(self, tile: Any, out: Array | None = None) -> Block:
        for stage in self.stages[:-1]:
            tile = stage(tile)
        return as_block(self.stages[-1](tile, out))

    def vjp(self, tile: Any, G: Array) -> Array:
        inputs = [tile]
        for stage in self.stages[:-1]:
            # a stage that overwrites its input gets a copy: the input is needed again
            inputs.append(stage(inputs[-1] if len(inputs) == 1 else inputs[-1].copy()))
        for stage, rows in zip(self.stages[::-1], inputs[::-1], strict=True):
            G = stage.vjp(rows, G)
        return G

    def dense(self, sparse: bool) -> bool:
        return not (sparse and all(stage.keeps_sparse for stage in self.stages))

    def arrays(self) -> dict[str, Array]:
        return number_arrays(self.stages)

    def check(self, d: int) -> None:
        if not self.stages:
            raise ValueError("Chain needs at least one stage.")
        for stage in self.stages:
            stage.check(d)
            d = stage.cost(d).columns

    def astype(self, dtype: DTypeLike) -> Chain:
        return replace(self, stages=tuple(stage.astype(dtype) for stage in self.stages))

    def cost(self, d: int) -> Cost:
        flops, used = 0.0, 8.0 * d
        for stage in self.stages:
            cost = stage.cost(d)
            flops, used, d = flops + cost.flops, used + cost.bytes, cost.columns
        return Cost(flops, used, d)


@dataclass(frozen=True)
class KernelOnFeatures(Kernel):
    """k(phi(x), phi(z)) for fitted features phi: the limit of a map that is built on them."""

    # The features have a fixed number of columns.
    ignores_zeros: ClassVar[bool] = False
    kernel: Kernel
    features: tuple[TileTransform, ...]
    needs: str  # the domain of the first transform

    @property
    def domain(self) -> str:  # type: ignore[override]
        return self.needs

    def _value(self, X: Array, Z: Array) -> Array:
        return self.kernel._value(self._features(X), self._features(Z))

    def _features(self, X: Array) -> Array:
        rows: Any = X.reshape(-1, X.shape[-1])
        for transform in self.features:
            rows = transform(rows).toarray()
        return rows.reshape(*X.shape[:-1], -1)


def kernel_on_first_stage(kernel: Kernel, transform: Any, domain: str) -> KernelOnFeatures:
    """Return the kernel on the output of the first stage of a chain."""
    return KernelOnFeatures(kernel, (Chain(transform.stages[:1]),), domain)


def number_arrays(parts: Any) -> dict[str, Array]:
    """Return the arrays of all parts, each name preceded by the index of its part."""
    return {
        f"{i}.{name}": array
        for i, part in enumerate(parts)
        for name, array in part.arrays().items()
    }


_casts: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def cast_transform(transform: Any, dtype: np.dtype[Any]) -> Any:
    """Return a transform with arrays of float64 or float32.

    Weights are stored in float64. The float32 copy is made once and lives as long as they do.
    """
    if dtype == np.float64:
        return transform
    cast = _casts.get(transform)
    if cast is None:
        with np.errstate(over="ignore"):
            cast = transform.astype(dtype)
        arrays = cast.arrays()
        for name, array in transform.arrays().items():
            if name in arrays and not np.array_equal(np.isfinite(arrays[name]), np.isfinite(array)):
                largest = np.abs(array[np.isfinite(array)]).max()
                raise ValueError(
                    f"The map has weights up to {largest:.2g}, beyond {dtype}: give float64 rows, "
                    "or fit to data that is scaled (sklearn.preprocessing)."
                )
        _casts[transform] = cast
    return cast


_device_copies: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()


def adapt_transform(transform: Any, rows: Any) -> Any:
    """Return a transform with arrays in the dtype and on the device of rows.

    It is copied to a device once; the copy lives as long as the original.
    """
    if rows.dtype != np.float64:
        transform = cast_transform(transform, rows.dtype)
    if not ops.is_device(rows):
        return transform
    copies = _device_copies.setdefault(transform, {})
    name = str(rows.tensor.device)
    if name not in copies:
        copies[name] = _copy_to_device(transform, rows)
    return copies[name]


def _copy_to_device(part: Any, rows: Any) -> Any:
    """Return a part with its arrays on the device of rows; CSR matrices become dense."""
    if isinstance(part, np.ndarray) or is_csr(part):
        array = part.toarray() if is_csr(part) else part
        return to_device_of(array, rows, columns=True)
    if isinstance(part, tuple):
        return tuple(_copy_to_device(value, rows) for value in part)
    if getattr(part, "on_host", False):
        return part
    if hasattr(part, "arrays") and is_dataclass(part) and not isinstance(part, type):
        values = {field.name: getattr(part, field.name) for field in fields(part)}
        return replace(
            part, **{name: _copy_to_device(value, rows) for name, value in values.items()}
        )
    return part
