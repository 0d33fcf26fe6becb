"""DeviceArray: a torch tensor that NumPy's own functions work on, so that stages and blocks are
written once.

NumPy hands a function over to the type of its arguments (`__array_ufunc__`, `__array_function__`,
`like=`); what is listed here is done by torch where the tensor is. Anything else is a TypeError:
nothing comes back to the CPU unless `numpy.asarray` asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.lib.mixins import NDArrayOperatorsMixin

from mercer.ops import dispatch
from mercer.ops.torch import matmul

TYPES: dict[Any, torch.dtype] = {
    np.dtype(np.float32): torch.float32,
    np.dtype(np.float64): torch.float64,
    np.dtype(np.bool_): torch.bool,
    np.dtype(np.uint8): torch.uint8,
    np.dtype(np.uint16): torch.uint16,
    np.dtype(np.uint64): torch.uint64,
    np.dtype(np.int32): torch.int32,
    np.dtype(np.int64): torch.int64,
}
_NAMES = {kind: name for name, kind in TYPES.items()}
_WIDE = {float: torch.float64, int: torch.int64, bool: torch.bool}


@dispatch.device_array
class DeviceArray(NDArrayOperatorsMixin):
    """The array that a tensor is. Slices are views, in-place operators work in place; `tensor` is
    the tensor itself.
    """

    __slots__ = ("_ends", "tensor")
    resident = True  # what says to all others that it is on a device
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor
        self._ends: torch.Tensor | None = None

    def look(self) -> None:
        """Begin to look for the least and the largest number, without waiting for them."""
        if self._ends is None and self.size:
            self._ends = torch.stack(torch.aminmax(self.tensor))

    def ends(self) -> tuple[float, float]:
        """The least and the largest of 0 and all numbers; NaN for both where there is one. Nobody
        writes to an array that was looked at.
        """
        self.look()
        if self._ends is None:
            return 0.0, 0.0
        least, largest = self._ends.tolist()
        return (least, largest) if least != least else (min(least, 0.0), max(largest, 0.0))

    @property
    def dtype(self) -> np.dtype[Any]:
        return _NAMES[self.tensor.dtype]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape)

    @property
    def ndim(self) -> int:
        return self.tensor.ndim

    @property
    def size(self) -> int:
        return self.tensor.numel()

    @property
    def nbytes(self) -> int:
        return self.size * self.tensor.element_size()

    @property
    def T(self) -> DeviceArray:
        return DeviceArray(self.tensor.mT if self.ndim == 2 else self.tensor)

    def __len__(self) -> int:
        return len(self.tensor)

    def __repr__(self) -> str:
        return f"DeviceArray({self.tensor!r})"

    def __getitem__(self, key: Any) -> Any:
        return DeviceArray(self.tensor[_index(key, self.tensor)])

    def __setitem__(self, key: Any, value: Any) -> None:
        self.tensor[_index(key, self.tensor)] = _operand(value, self.tensor)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.tensor.detach().cpu().numpy().astype(dtype or self.dtype, copy=bool(copy))

    def __float__(self) -> float:
        return float(self.tensor)

    def __int__(self) -> int:
        return int(self.tensor)

    def __bool__(self) -> bool:
        return bool(self.tensor)

    def __index__(self) -> int:
        return int(self.tensor)

    def __format__(self, words: str) -> str:
        return format(self.tensor.item(), words) if self.ndim == 0 else repr(self)

    def astype(self, dtype: Any, copy: bool = True) -> DeviceArray:
        return DeviceArray(self.tensor.to(TYPES[np.dtype(dtype)], copy=copy))

    def copy(self, order: str = "C") -> DeviceArray:
        return DeviceArray(self.tensor.clone(memory_format=torch.contiguous_format))

    def view(self, dtype: Any) -> DeviceArray:
        return DeviceArray(self.tensor.view(TYPES[np.dtype(dtype)]))

    def reshape(self, *shape: Any) -> DeviceArray:
        return DeviceArray(self.tensor.reshape(*shape))

    def ravel(self) -> DeviceArray:
        return self.reshape(-1)

    def transpose(self, *axes: int) -> DeviceArray:
        return DeviceArray(self.tensor.permute(*axes))

    def max(
        self, axis: int | None = None, initial: float | None = None, keepdims: bool = False
    ) -> DeviceArray:
        return DeviceArray(
            _extreme(self.tensor, torch.amax, torch.maximum, axis, initial, keepdims)
        )

    def min(
        self, axis: int | None = None, initial: float | None = None, keepdims: bool = False
    ) -> DeviceArray:
        return DeviceArray(
            _extreme(self.tensor, torch.amin, torch.minimum, axis, initial, keepdims)
        )

    def sum(self, axis: int | None = None, keepdims: bool = False) -> DeviceArray:
        whole = self.tensor.sum() if axis is None else self.tensor.sum(axis, keepdim=keepdims)
        return DeviceArray(whole)

    def any(self, axis: int | None = None, keepdims: bool = False) -> DeviceArray:
        return DeviceArray(
            self.tensor.any() if axis is None else self.tensor.any(axis, keepdim=keepdims)
        )

    def all(self, axis: int | None = None, keepdims: bool = False) -> DeviceArray:
        return DeviceArray(
            self.tensor.all() if axis is None else self.tensor.all(axis, keepdim=keepdims)
        )

    def __array_ufunc__(
        self,
        ufunc: Any,
        method: str,
        *inputs: Any,
        out: Any = None,
        where: Any = True,
        **kwargs: Any,
    ) -> Any:
        work = _UFUNCS.get(ufunc.__name__)
        if method != "__call__" or work is None or kwargs or (out and type(out[0]) is np.ndarray):
            return NotImplemented
        like = next(one for one in (*inputs, *(out or ())) if isinstance(one, DeviceArray)).tensor
        operands = [_filled(_operand(one, like)) for one in inputs]
        if not out:
            return DeviceArray(work(*operands))
        target = out[0].tensor
        if where is not True:
            target.copy_(torch.where(_operand(where, like), work(*operands), target))
        elif ufunc.__name__ in _IN_PLACE and operands[0].dtype == target.dtype:
            work(*operands, out=target)
        else:
            target.copy_(work(*operands))
        return out[0]

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        work = _FUNCTIONS.get(func.__name__)
        if work is None:
            return NotImplemented
        return work(self.tensor, *args, **kwargs)


def array(tensor: torch.Tensor) -> DeviceArray:
    """A tensor of numbers that we know as an array; half floats become float32."""
    tensor = tensor.detach()
    if tensor.dtype in (torch.float16, torch.bfloat16):
        tensor = tensor.float()
    elif tensor.dtype not in _NAMES and not tensor.is_complex():
        tensor = tensor.long()
    if tensor.dtype not in _NAMES:
        raise ValueError(
            f"Complex data not supported: tensors of real numbers are needed, got {tensor.dtype}."
        )
    return DeviceArray(tensor)


def tensor(value: Any, like: torch.Tensor) -> torch.Tensor:
    """An array of either kind as a tensor on the device of `like`."""
    if isinstance(value, DeviceArray):
        return value.tensor
    value = np.ascontiguousarray(value)
    with_owner = value if value.flags.writeable else value.copy()
    return torch.from_numpy(with_owner).to(like.device, non_blocking=False)


def _operand(value: Any, like: torch.Tensor) -> Any:
    """Tensors and arrays as tensors, numbers as numbers, which change no dtype."""
    if isinstance(value, DeviceArray):
        return value.tensor
    if isinstance(value, np.ndarray) and value.ndim:
        return tensor(value, like)
    return value.item() if isinstance(value, np.generic | np.ndarray) else value


def _filled(value: Any) -> torch.Tensor:
    """A number as a tensor of no dimensions, which changes no dtype either."""
    return (
        value
        if isinstance(value, torch.Tensor)
        else torch.tensor(value, dtype=_WIDE.get(type(value)))
    )


def _index(key: Any, like: torch.Tensor) -> Any:
    if isinstance(key, tuple):
        return tuple(_index(part, like) for part in key)
    if isinstance(key, DeviceArray | np.ndarray):
        places = _operand(key, like)
        return (
            places
            if not isinstance(places, torch.Tensor) or places.dtype == torch.bool
            else places.long()
        )
    return key


def _extreme(
    t: torch.Tensor, over: Any, pair: Any, axis: int | None, initial: float | None, keepdims: bool
) -> Any:
    axes = tuple(range(t.ndim)) if axis is None else (axis,)
    if all(t.shape[a] for a in axes):
        found = over(t, axes, keepdim=keepdims)
        return found if initial is None else pair(found, torch.full_like(found, initial))
    shape = [
        1 if a in axes else size for a, size in enumerate(t.shape) if keepdims or a not in axes
    ]
    if initial is None:
        raise ValueError("zero-size array to reduction operation which has no identity")
    return t.new_full(shape, initial)


def _where(like: torch.Tensor, condition: Any, x: Any, y: Any) -> DeviceArray:
    chosen, x, y = (_operand(one, like) for one in (condition, x, y))
    if not isinstance(x, torch.Tensor) and not isinstance(y, torch.Tensor):
        x, y = torch.tensor(x, device=like.device), torch.tensor(y, device=like.device)
    return DeviceArray(torch.where(chosen, x, y))


def _made(make: Callable[..., torch.Tensor]) -> Callable[..., DeviceArray]:
    def work(like: torch.Tensor, shape: Any, dtype: Any = np.float64, **kwargs: Any) -> DeviceArray:
        return DeviceArray(make(shape, dtype=TYPES[np.dtype(dtype)], device=like.device))

    return work


def _full(
    like: torch.Tensor, shape: Any, value: Any, dtype: Any = None, **kwargs: Any
) -> DeviceArray:
    kind = np.asarray(value).dtype if dtype is None else np.dtype(dtype)
    return DeviceArray(
        torch.full(np.atleast_1d(shape).tolist(), value, dtype=TYPES[kind], device=like.device)
    )


def _asarray(like: torch.Tensor, values: Any, dtype: Any = None, **kwargs: Any) -> DeviceArray:
    """numpy.asarray(values, like=array): where the array is, and its own dtype unless another is
    asked for.
    """
    moved = tensor(values, like)
    return DeviceArray(moved if dtype is None else moved.to(TYPES[np.dtype(dtype)]))


def _einsum(like: torch.Tensor, words: str, *arrays: Any, dtype: Any = None) -> DeviceArray:
    parts = [_operand(one, like) for one in arrays]
    if dtype is not None:
        parts = [part.to(TYPES[np.dtype(dtype)]) for part in parts]
    return DeviceArray(
        (parts[0] * parts[1]).sum(1) if words == "ij,ij->i" else matmul.einsum(words, *parts)
    )


def _take(
    like: torch.Tensor, a: Any, places: Any, axis: int, out: Any = None, mode: str = "raise"
) -> DeviceArray:
    source = _operand(a, like)
    return _kept(torch.index_select(source, axis, _operand(places, like).long()), out)


def _kept(found: torch.Tensor, out: Any) -> DeviceArray:
    if out is None:
        return DeviceArray(found)
    out.tensor.copy_(found)
    kept: DeviceArray = out
    return kept


def _on_list(work: Callable[..., torch.Tensor]) -> Callable[..., DeviceArray]:
    def applied(like: torch.Tensor, arrays: Any, axis: int = 0) -> DeviceArray:
        return DeviceArray(work([_operand(one, like) for one in arrays], axis))

    return applied


def _sum(
    like: torch.Tensor, a: Any, axis: int | None = None, keepdims: bool = False
) -> DeviceArray:
    return DeviceArray(_operand(a, like)).sum(axis, keepdims)


def _contiguous(like: torch.Tensor, a: Any, dtype: Any = None) -> DeviceArray:
    if isinstance(a, DeviceArray) and a.tensor.is_contiguous() and dtype in (None, a.dtype):
        return a
    found = _operand(a, like).contiguous()
    return DeviceArray(found if dtype is None else found.to(TYPES[np.dtype(dtype)]))


def _divided(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    x = x if x.is_floating_point() or y.is_floating_point() else x.double()
    return torch.div(x, y, out=out)


_UFUNCS: dict[str, Callable[..., Any]] = {
    "add": torch.add,
    "subtract": torch.subtract,
    "multiply": torch.multiply,
    "divide": _divided,
    "floor_divide": torch.floor_divide,
    "power": torch.pow,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "negative": torch.negative,
    "absolute": torch.abs,
    "sign": torch.sign,
    "sqrt": torch.sqrt,
    "square": torch.square,
    "exp": torch.exp,
    "expm1": torch.expm1,
    "log": torch.log,
    "log1p": torch.log1p,
    "rint": torch.round,
    "floor": torch.floor,
    "isfinite": torch.isfinite,
    "isinf": torch.isinf,
    "isnan": torch.isnan,
    "less": torch.lt,
    "less_equal": torch.le,
    "greater": torch.gt,
    "greater_equal": torch.ge,
    "equal": torch.eq,
    "not_equal": torch.ne,
    "logical_and": torch.logical_and,
    "bitwise_and": torch.bitwise_and,
    "bitwise_or": torch.bitwise_or,
    "invert": torch.bitwise_not,
    "matmul": matmul.matmul,
}
_IN_PLACE = {
    "add",
    "subtract",
    "multiply",
    "divide",
    "negative",
    "absolute",
    "sqrt",
    "exp",
    "log1p",
    "matmul",
}

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "empty": _made(torch.empty),
    "zeros": _made(torch.zeros),
    "ones": _made(torch.ones),
    "full": _full,
    "asarray": _asarray,
    "ascontiguousarray": _contiguous,
    "where": _where,
    "einsum": _einsum,
    "take": _take,
    "broadcast_arrays": lambda like, *arrays: tuple(
        map(DeviceArray, torch.broadcast_tensors(*(_operand(one, like) for one in arrays)))
    ),
    "triu": lambda like, a, k=0: DeviceArray(torch.triu(a.tensor, k)),
    "sum": _sum,
    "all": lambda like, a: a.all(),
    "any": lambda like, a: a.any(),
    "concatenate": _on_list(torch.cat),
    "stack": _on_list(torch.stack),
    "flatnonzero": lambda like, a: DeviceArray(torch.nonzero(a.tensor.reshape(-1))[:, 0]),
    "argwhere": lambda like, a: DeviceArray(torch.nonzero(a.tensor)),
    "argmax": lambda like, a, axis=None: DeviceArray(torch.argmax(a.tensor, axis)),
    "array_equal": lambda like, a, b: (
        a.shape == b.shape and bool(torch.equal(_operand(a, like), _operand(b, like)))
    ),
    "shape": lambda like, a: a.shape,
    "ndim": lambda like, a: a.ndim,
}
