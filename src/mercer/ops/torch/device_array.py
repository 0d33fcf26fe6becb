"""DeviceArray: a torch tensor with NumPy's interface, so that stages and blocks are written once.

NumPy dispatches its functions by the type of their arguments (`__array_ufunc__`,
`__array_function__`, `like=`). Those listed here run in torch on the tensor's device; any other
raises a TypeError. Data is copied to the host by `numpy.asarray` only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

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
_NUMPY_TYPES = {kind: dtype for dtype, kind in TYPES.items()}
_SCALAR_TYPES = {float: torch.float64, int: torch.int64, bool: torch.bool}


@dispatch.device_array
class DeviceArray(NDArrayOperatorsMixin):
    """Array over a torch tensor, `tensor`: slices are views, in-place operators work in place."""

    __slots__ = ("_extremes", "tensor")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor
        self._extremes: torch.Tensor | None = None

    def start_extremes(self) -> None:
        """Start computing `extremes` without waiting for the result; the array must not change."""
        if self._extremes is None and self.size:
            self._extremes = torch.stack(torch.aminmax(self.tensor))

    def extremes(self) -> tuple[float, float]:
        """Return the minimum and the maximum of 0 and all entries; NaN for both if one is NaN."""
        self.start_extremes()
        if self._extremes is None:
            return 0.0, 0.0
        least, largest = self._extremes.tolist()
        return (least, largest) if least != least else (min(least, 0.0), max(largest, 0.0))

    @property
    def dtype(self) -> np.dtype[Any]:
        return _NUMPY_TYPES[self.tensor.dtype]

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

    def __format__(self, spec: str) -> str:
        return format(self.tensor.item(), spec) if self.ndim == 0 else repr(self)

    def astype(self, dtype: Any, copy: bool = True) -> DeviceArray:
        return DeviceArray(self.tensor.to(TYPES[np.dtype(dtype)], copy=copy))

    def copy(self, order: str = "C") -> DeviceArray:
        return DeviceArray(self.tensor.clone(memory_format=torch.contiguous_format))

    def view(self, dtype: Any) -> DeviceArray:
        return DeviceArray(self.tensor.view(TYPES[np.dtype(dtype)]))

    def reshape(self, *shape: Any) -> DeviceArray:
        return DeviceArray(self.tensor.reshape(*shape))

    def transpose(self, *axes: int) -> DeviceArray:
        return DeviceArray(self.tensor.permute(*axes))

    def max(self, axis: int | None = None, **options: Any) -> DeviceArray:
        return DeviceArray(_extreme(self.tensor, torch.amax, torch.maximum, axis, **options))

    def min(self, axis: int | None = None, **options: Any) -> DeviceArray:
        return DeviceArray(_extreme(self.tensor, torch.amin, torch.minimum, axis, **options))

    def sum(self, axis: int | None = None, keepdims: bool = False) -> DeviceArray:
        return _reduce(self.tensor.sum, axis, keepdims)

    def any(self, axis: int | None = None, keepdims: bool = False) -> DeviceArray:
        return _reduce(self.tensor.any, axis, keepdims)

    def all(self, axis: int | None = None, keepdims: bool = False) -> DeviceArray:
        return _reduce(self.tensor.all, axis, keepdims)

    def __array_ufunc__(
        self,
        ufunc: Any,
        method: str,
        *inputs: Any,
        out: Any = None,
        where: Any = True,
        **kwargs: Any,
    ) -> Any:
        function = _UFUNCS.get(ufunc.__name__)
        host_output = out and type(out[0]) is np.ndarray
        if method != "__call__" or function is None or kwargs or host_output:
            return NotImplemented
        like = next(a for a in (*inputs, *(out or ())) if isinstance(a, DeviceArray)).tensor
        operands = [_as_tensor(_operand(value, like)) for value in inputs]
        if not out:
            return DeviceArray(function(*operands))
        target = out[0].tensor
        if where is not True:
            target.copy_(torch.where(_operand(where, like), function(*operands), target))
        elif ufunc.__name__ in _WITH_OUT and operands[0].dtype == target.dtype:
            function(*operands, out=target)
        else:
            target.copy_(function(*operands))
        return out[0]

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        function = _FUNCTIONS.get(func.__name__)
        return NotImplemented if function is None else function(self.tensor, *args, **kwargs)


def array(tensor: torch.Tensor) -> DeviceArray:
    """Return a tensor as an array; half floats become float32, other integers int64."""
    tensor = tensor.detach()
    if tensor.dtype in (torch.float16, torch.bfloat16):
        tensor = tensor.float()
    elif tensor.dtype not in _NUMPY_TYPES and not tensor.is_complex():
        tensor = tensor.long()
    if tensor.dtype not in _NUMPY_TYPES:
        raise ValueError(
            f"Complex data not supported: tensors of real numbers are needed, got {tensor.dtype}."
        )
    return DeviceArray(tensor)


def tensor(value: Any, like: torch.Tensor) -> torch.Tensor:
    """Return an array, of NumPy or on a device, as a tensor on the device of `like`."""
    if isinstance(value, DeviceArray):
        return value.tensor
    value = np.ascontiguousarray(value)
    return torch.from_numpy(value if value.flags.writeable else value.copy()).to(like.device)


def _operand(value: Any, like: torch.Tensor) -> Any:
    """Return arrays as tensors and numbers as Python scalars, which promote no dtype."""
    if isinstance(value, DeviceArray):
        return value.tensor
    if isinstance(value, np.ndarray) and value.ndim:
        return tensor(value, like)
    return value.item() if isinstance(value, np.generic | np.ndarray) else value


def _as_tensor(value: Any) -> torch.Tensor:
    """Return a Python scalar as a tensor of no dimensions, which promotes no dtype either."""
    if isinstance(value, torch.Tensor):
        return value
    return torch.tensor(value, dtype=_SCALAR_TYPES.get(type(value)))


def _index(key: Any, like: torch.Tensor) -> Any:
    if isinstance(key, tuple):
        return tuple(_index(part, like) for part in key)
    if isinstance(key, DeviceArray | np.ndarray):
        index = _operand(key, like)
        is_mask = not isinstance(index, torch.Tensor) or index.dtype == torch.bool
        return index if is_mask else index.long()
    return key


def _reduce(reduce: Callable[..., Any], axis: int | None, keepdims: bool) -> DeviceArray:
    return DeviceArray(reduce() if axis is None else reduce(axis, keepdim=keepdims))


def _extreme(
    t: torch.Tensor,
    over_axes: Any,
    of_pair: Any,
    axis: int | None,
    initial: float | None = None,
    keepdims: bool = False,
) -> Any:
    """Return the minimum or maximum over an axis, of `initial` too if it is given."""
    axes = tuple(range(t.ndim)) if axis is None else (axis,)
    if all(t.shape[a] for a in axes):
        extreme = over_axes(t, axes, keepdim=keepdims)
        if initial is None:
            return extreme
        return of_pair(extreme, torch.full_like(extreme, initial))
    shape = [
        1 if a in axes else size for a, size in enumerate(t.shape) if keepdims or a not in axes
    ]
    if initial is None:
        raise ValueError("zero-size array to reduction operation which has no identity")
    return t.new_full(shape, initial)


def _where(like: torch.Tensor, condition: Any, x: Any, y: Any) -> DeviceArray:
    mask, x, y = (_operand(value, like) for value in (condition, x, y))
    if not isinstance(x, torch.Tensor) and not isinstance(y, torch.Tensor):
        x, y = torch.tensor(x, device=like.device), torch.tensor(y, device=like.device)
    return DeviceArray(torch.where(mask, x, y))


def _creation(create: Callable[..., torch.Tensor]) -> Callable[..., DeviceArray]:
    """Return NumPy's form of a torch function that creates an array of a shape."""

    def form(like: torch.Tensor, shape: Any, dtype: Any = np.float64, **kwargs: Any) -> DeviceArray:
        return DeviceArray(create(shape, dtype=TYPES[np.dtype(dtype)], device=like.device))

    return form


def _asarray(like: torch.Tensor, values: Any, dtype: Any = None, **kwargs: Any) -> DeviceArray:
    copy = tensor(values, like)
    return DeviceArray(copy if dtype is None else copy.to(TYPES[np.dtype(dtype)]))


def _einsum(like: torch.Tensor, subscripts: str, *arrays: Any, dtype: Any = None) -> DeviceArray:
    parts = [_operand(array, like) for array in arrays]
    if dtype is not None:
        parts = [part.to(TYPES[np.dtype(dtype)]) for part in parts]
    if subscripts == "ij,ij->i":
        return DeviceArray((parts[0] * parts[1]).sum(1))
    return DeviceArray(matmul.einsum(subscripts, *parts))


def _take(
    like: torch.Tensor, a: Any, indices: Any, axis: int, out: Any = None, mode: str = "raise"
) -> DeviceArray:
    result = torch.index_select(_operand(a, like), axis, _operand(indices, like).long())
    if out is None:
        return DeviceArray(result)
    out.tensor.copy_(result)
    return cast(DeviceArray, out)


def _of_list(function: Callable[..., torch.Tensor]) -> Callable[..., DeviceArray]:
    """Return NumPy's form of a torch function of a list of tensors and an axis."""

    def form(like: torch.Tensor, arrays: Any, axis: int = 0) -> DeviceArray:
        return DeviceArray(function([_operand(array, like) for array in arrays], axis))

    return form


def _sum(
    like: torch.Tensor, a: Any, axis: int | None = None, keepdims: bool = False
) -> DeviceArray:
    return DeviceArray(_operand(a, like)).sum(axis, keepdims)


def _contiguous(like: torch.Tensor, a: Any, dtype: Any = None) -> DeviceArray:
    if isinstance(a, DeviceArray) and a.tensor.is_contiguous() and dtype in (None, a.dtype):
        return a
    copy = _operand(a, like).contiguous()
    return DeviceArray(copy if dtype is None else copy.to(TYPES[np.dtype(dtype)]))


def _divide(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    x = x if x.is_floating_point() or y.is_floating_point() else x.double()
    return torch.div(x, y, out=out)


_UFUNCS: dict[str, Callable[..., Any]] = {
    "add": torch.add,
    "subtract": torch.subtract,
    "multiply": torch.multiply,
    "divide": _divide,
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
# Functions that write to out= directly; the others allocate their result.
_WITH_OUT = {"add", "subtract", "multiply", "divide", "negative"}
_WITH_OUT |= {"absolute", "sqrt", "exp", "log1p", "matmul"}

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "empty": _creation(torch.empty),
    "empty_like": lambda like, a: DeviceArray(torch.empty_like(a.tensor)),
    "zeros": _creation(torch.zeros),
    "ones": _creation(torch.ones),
    "asarray": _asarray,
    "ascontiguousarray": _contiguous,
    "where": _where,
    "einsum": _einsum,
    "take": _take,
    "broadcast_arrays": lambda like, *arrays: tuple(
        map(DeviceArray, torch.broadcast_tensors(*(_operand(array, like) for array in arrays)))
    ),
    "triu": lambda like, a, k=0: DeviceArray(torch.triu(a.tensor, k)),
    "sum": _sum,
    "trace": lambda like, a: DeviceArray(torch.trace(a.tensor)),
    "diagonal": lambda like, a: DeviceArray(torch.diagonal(a.tensor)),
    "all": lambda like, a: a.all(),
    "any": lambda like, a: a.any(),
    "concatenate": _of_list(torch.cat),
    "stack": _of_list(torch.stack),
    "flatnonzero": lambda like, a: DeviceArray(torch.nonzero(a.tensor.reshape(-1))[:, 0]),
    "argwhere": lambda like, a: DeviceArray(torch.nonzero(a.tensor)),
    "argmax": lambda like, a, axis=None: DeviceArray(torch.argmax(a.tensor, axis)),
    "array_equal": lambda like, a, b: (
        a.shape == b.shape and bool(torch.equal(_operand(a, like), _operand(b, like)))
    ),
}
