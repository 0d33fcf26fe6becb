"""Where the work is done: on the CPU, or on a GPU through torch, which is asked for here and
nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from types import ModuleType
from typing import Any, TypeVar

from mercer import ops
from mercer.parallel.tile_size import device_rows
from mercer.parallel.warnings import warn

T = TypeVar("T")
_LEAST = 16  # rows of a tile that is not halved any more
_PRECISIONS = ("float32", "tf32", "bf16")


@dataclass
class Place:
    """A device, and how often its tiles had to be halved so far."""

    device: Any
    halved: int = 0


_place: ContextVar[Place | None] = ContextVar("place", default=None)
_known: dict[Any, Place] = {}


@contextmanager
def use_device(device: str | None = "cuda", *, precision: str | None = None) -> Iterator[None]:
    """Maps, moments, ridge regression, predictions and Gram matrices on a GPU, for all that is
    called inside.

    Rows of NumPy are copied to the device block by block, beside what it computes, and results come
    back as arrays of NumPy; data larger than its memory streams through. Weights are drawn on the
    CPU and moved: the same seed gives the same map. torch tensors do not need it: they are worked
    on where they are, and tensors come out.

    Parameters
    ----------
    device : {"cuda", "cuda:0", ..., "cpu"} or None, default="cuda"
        "cpu" leaves the GPU again; None changes nothing.
    precision : {"float32", "tf32", "bf16"} or None, default=None
        How products of float32 are made: float32, unless the shorter numbers of tf32 (10 bits of a
        fraction) or bf16 (7) are asked for. Sums are float32 all the same; float64 stays float64.
        None changes nothing.

    Examples
    --------
    >>> import mercer
    >>> with mercer.use_device("cpu"):
    ...     K = mercer.gram(mercer.kernels.Intersection(), [[1.0, 2.0], [0.0, 3.0]])
    >>> K
    array([[3., 2.],
           [2., 3.]])
    """
    if precision is not None and precision not in _PRECISIONS:
        words = ", ".join(map(repr, _PRECISIONS))
        raise ValueError(f"precision must be one of {words}, got {precision!r}.")
    if device is not None and not isinstance(device, str):
        device = str(device)
    place = _place.get()
    if device == "cpu":
        place = None
    elif device is not None:
        place = Place(gpu().transfer.find_device(device))
    if precision not in (None, "float32") and place is None and device != "cpu":
        raise ValueError(f'precision={precision!r} is for a GPU: give device="cuda" too.')
    with at(place), nullcontext() if precision is None else gpu_precision(precision, place):
        yield


@contextmanager
def at(place: Place | None) -> Iterator[None]:
    """All that is called inside, at that place; None is the CPU, without torch."""
    token = _place.set(place)
    try:
        yield
    finally:
        _place.reset(token)


def gpu_precision(name: str, place: Place | None) -> Any:
    """The precision of products, where there is a device to have one."""
    return nullcontext() if place is None else gpu().matmul.use_precision(name)


def gpu() -> ModuleType:
    """mercer.ops.torch, which loads torch; a sentence when that is not there."""
    try:
        from mercer.ops import torch as found
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ValueError("A GPU needs torch: pip install 'mercer[gpu]'.") from None
    return found


def is_tensor(X: Any) -> bool:
    """Whether X is a torch tensor; torch is not imported to find out."""
    return any(base.__module__ == "torch" and base.__name__ == "Tensor" for base in type(X).__mro__)


def entered(X: Any) -> Any:
    """A tensor as an array that stages can work on, where it is; all else as it is."""
    if not is_tensor(X):
        return X
    return gpu().device_array.array(gpu().sparse.to_dense(X) if "sparse" in str(X.layout) else X)


def brought_home(values: Any) -> Any:
    """A tensor as an array of NumPy; all else as it is."""
    return values.detach().cpu().numpy() if is_tensor(values) else values


def answer(values: Any, X: Any) -> Any:
    """Numbers as a tensor beside X, where X is one; all else as it is."""
    if (
        not is_tensor(X)
        or getattr(values, "dtype", None) is None
        or values.dtype.kind not in "biuf"
    ):
        return values
    return moved(values, entered(X)).tensor


def its_own(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of rows X that works on the device of its object's parameters, or where X is;
    numbers come out beside X.
    """

    @wraps(method)
    def wrapped(self: Any, X: Any, *args: Any, **named: Any) -> Any:
        if not is_tensor(X):
            with use_device(self.device, precision=self.precision):
                return method(self, X, *args, **named)
        with at(place_of(entered(X))), use_device(None, precision=self.precision):
            return answer(method(self, X, *args, **named), X)

    return wrapped


def left(Z: Any) -> Any:
    """The tensor of an array on a device; all else as it is."""
    return Z.tensor if ops.is_device(Z) else Z


def sparse(block: Any) -> Any:
    """A block on a device as one CSR tensor there."""
    return gpu().sparse.as_tensor(block)


def here() -> Place | None:
    """The place that `use_device` has chosen; None is the CPU."""
    return _place.get()


def place_of(rows: Any) -> Place | None:
    """Where rows are, or where they are to go."""
    place = here()
    if not ops.is_device(rows) or (
        place is not None and place.device.type == rows.tensor.device.type
    ):
        return place
    return _of(rows.tensor.device)


def precision() -> str | None:
    """How products are made on the device in use; None on the CPU."""
    return None if here() is None else str(gpu().matmul.current_precision())


def arithmetic() -> str:
    """What the bits of a result depend on: the instruction set of the CPU, or the device and its
    precision.
    """
    place = here()
    return ops.cpu.isa() if place is None else f"{place.device.type} {precision()}"


def moved(values: Any, rows: Any, *, columns: bool = False) -> Any:
    """Values of NumPy where rows are; with columns, laid out for the right side of a product."""
    return gpu().transfer.to_device(values, rows.tensor.device, columns=columns)


def ahead(items: Iterable[T], rows: Callable[[T], Any], place: Place) -> Iterator[tuple[T, Any]]:
    """Each item with its rows at the place, CSR rows as dense ones; the next are on their way while
    these are in use.
    """
    found: Iterator[tuple[T, Any]] = gpu().transfer.prefetch(
        items, lambda item: _dense(rows(item)), place.device
    )
    return found


def sent(rows: Any) -> Any:
    """Rows at the place that `use_device` has chosen."""
    place = here()
    return (
        rows
        if place is None or ops.is_device(rows)
        else gpu().transfer.to_device(_dense(rows), place.device)
    )


def returning(place: Place) -> Any:
    """bring(found, out) and finish(): arrays on their way back from the place."""
    return gpu().transfer.HostCopies(place.device)


def tile_rows(bytes_each: float, place: Place, *, travelling: bool = False) -> int:
    """Rows of a tile that fit into the memory of the place, each with so many bytes of working
    space; fewer when they travel there.
    """
    fitting = device_rows(
        bytes_each, gpu().transfer.total_memory(place.device), travelling=travelling
    )
    return max(1, fitting >> place.halved)


def each(work: Callable[[slice], None], n: int, rows: int, place: Place) -> None:
    """work(rows) for every tile of n rows; where the device is full, the tile is halved and the run
    goes on, with one warning.
    """
    for _ in pieces(work, n, rows, place):
        pass


def pieces(
    work: Callable[[slice], T], n: int, rows: int, place: Place
) -> Iterator[tuple[slice, T]]:
    """Tiles of n rows and work(rows) of each, in order; a tile for which the device has no memory
    is halved, down to 16 rows.
    """
    start, size = 0, max(1, rows)
    while start < n:
        tile = slice(start, min(start + size, n))
        made = _tried(work, tile)
        if made is None:
            size = max(1, (tile.stop - tile.start) // 2)
            _say_full(place, size)
            gpu().transfer.release_cached_memory()
        else:
            yield tile, made[0]
            start = tile.stop


def _tried(work: Callable[[slice], T], tile: slice) -> tuple[T] | None:
    """(work(tile),), or None when the device has no memory left for it; nothing of what was begun
    is held any more then.
    """
    try:
        return (work(tile),)
    except Exception as error:
        if not gpu().transfer.is_out_of_memory(error) or tile.stop - tile.start <= _LEAST:
            raise
    return None


def _say_full(place: Place, rows: int) -> None:
    if not place.halved:
        warn(
            f"{place.device} has no memory left: tiles are halved, to {rows} rows now, and the "
            "run goes on.",
            stacklevel=4,
        )
    place.halved += 1


def _of(device: Any) -> Place:
    return _known.setdefault(str(device), Place(device))


def _dense(rows: Any) -> Any:
    return rows.toarray() if hasattr(rows, "indptr") else rows
