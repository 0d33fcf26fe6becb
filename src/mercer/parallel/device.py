"""Choice of the device that computes: the CPU, or a GPU through torch.

Only this module imports mercer.ops.torch, once a device or a tensor is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar

from mercer import ops
from mercer._typing import is_csr
from mercer.parallel.tile_size import rows_of_device_tile
from mercer.parallel.warnings import warn

T = TypeVar("T")
_MIN_ROWS = 16  # a tile of so many rows is not halved when the device is out of memory
_PRECISIONS = ("float32", "tf32", "bf16")


@dataclass
class Device:
    """A torch device, and how often its tiles were halved because it was out of memory."""

    torch_device: Any
    halvings: int = 0


_current: ContextVar[Device | None] = ContextVar("device", default=None)
# Returns the device that `use_device` has chosen; None is the CPU.
current_device: Callable[[], Device | None] = _current.get
_devices_of_tensors: dict[str, Device] = {}


@contextmanager
def use_device(device: str | None = "cuda", *, precision: str | None = None) -> Iterator[None]:
    """Compute maps, moments, ridge regression, predictions and Gram matrices on a GPU.

    Applies to all calls inside the context. NumPy rows are copied to the device block by block,
    beside the computation, and results are returned as NumPy arrays, so that data may be larger
    than the device's memory. Weights are sampled on the CPU and copied: the same seed gives the
    same map. torch tensors do not need this context: they are processed on their own device, and
    tensors are returned.

    Parameters
    ----------
    device : {"cuda", "cuda:0", ..., "cpu"} or None, default="cuda"
        "cpu" leaves the GPU again; None changes nothing.
    precision : {"float32", "tf32", "bf16"} or None, default=None
        Precision of the factors of float32 products: float32 unless tf32 (10 bits of a fraction)
        or bf16 (7) is chosen. Sums are float32 in each case; float64 stays float64. None changes
        nothing.

    Examples
    --------
    >>> import mercer
    >>> with mercer.use_device("cpu"):
    ...     K = mercer.gram(mercer.kernels.Intersection(), [[1.0, 2.0], [0.0, 3.0]])
    >>> K
    array([[3., 2.],
           [2., 3.]])
    """
    if device is None and precision is None:
        yield
        return
    if precision is not None and precision not in _PRECISIONS:
        allowed = ", ".join(map(repr, _PRECISIONS))
        raise ValueError(f"precision must be one of {allowed}, got {precision!r}.")
    chosen = _current.get()
    if str(device) == "cpu":
        chosen = None
    elif device is not None:
        chosen = Device(torch_ops().transfer.find_device(str(device)))
    if precision not in (None, "float32") and chosen is None and str(device) != "cpu":
        raise ValueError(f'precision={precision!r} needs a GPU: pass device="cuda" too.')
    with device_context(chosen):
        if precision is None or chosen is None:
            yield
        else:
            with torch_ops().matmul.use_precision(precision):
                yield


@contextmanager
def device_context(device: Device | None) -> Iterator[None]:
    """Compute on a device inside the context; None is the CPU, without torch."""
    token = _current.set(device)
    try:
        yield
    finally:
        _current.reset(token)


def torch_ops() -> ModuleType:
    """Import mercer.ops.torch; raise a ValueError if torch is not installed."""
    try:
        from mercer.ops import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ValueError("A GPU needs torch: pip install 'mercer[gpu]'.") from None
    return torch


def is_tensor(X: Any) -> bool:
    """Return whether X is a torch tensor, without importing torch."""
    return any(base.__module__ == "torch" and base.__name__ == "Tensor" for base in type(X).__mro__)


def from_tensor(X: Any) -> Any:
    """Return a tensor as a dense device array; anything else unchanged."""
    if not is_tensor(X):
        return X
    torch = torch_ops()
    return torch.device_array.array(torch.sparse.to_dense(X) if "sparse" in str(X.layout) else X)


def tensor_of(Z: Any) -> Any:
    """Return the tensor of a device array; anything else unchanged."""
    return Z.tensor if ops.is_device(Z) else Z


def sparse_tensor(block: Any) -> Any:
    """Return a block on a device as a CSR tensor."""
    return torch_ops().sparse.as_tensor(block)


def to_host(values: Any) -> Any:
    """Copy a tensor to a NumPy array; return anything else unchanged."""
    return values.detach().cpu().numpy() if is_tensor(values) else values


def to_device_of(values: Any, rows: Any, *, columns: bool = False) -> Any:
    """Copy NumPy values to the device of rows; with columns, as the right side of a product."""
    return torch_ops().transfer.to_device(values, rows.tensor.device, columns=columns)


def to_current_device(rows: Any) -> Any:
    """Copy rows to the device that `use_device` has chosen, if any."""
    device = current_device()
    if device is None or ops.is_device(rows):
        return rows
    return torch_ops().transfer.to_device(_dense(rows), device.torch_device)


def to_tensor_like(values: Any, X: Any) -> Any:
    """Copy numbers to a tensor on the device of X, where X is a tensor; return others unchanged."""
    if not is_tensor(X) or getattr(getattr(values, "dtype", None), "kind", "O") not in "biuf":
        return values
    return to_device_of(values, from_tensor(X)).tensor


def device_of(rows: Any) -> Device | None:
    """Return the device of rows, or the current one if they are on the host."""
    device = current_device()
    if not ops.is_device(rows):
        return device
    torch_device = rows.tensor.device
    if device is not None and device.torch_device.type == torch_device.type:
        return device
    return _devices_of_tensors.setdefault(str(torch_device), Device(torch_device))


def current_precision() -> str | None:
    """Return the precision of products on the current device; None on the CPU."""
    return None if current_device() is None else str(torch_ops().matmul.current_precision())


def arithmetic() -> str:
    """Return what determines the bits of a result: instruction set, or device and precision."""
    device = current_device()
    if device is None:
        return ops.cpu.isa()
    return f"{device.torch_device.type} {current_precision()}"


def prefetch(
    items: Iterable[T], rows: Callable[[T], Any], device: Device
) -> Iterator[tuple[T, Any]]:
    """Yield each item with its dense rows on the device; copy those of the next meanwhile."""
    pairs: Iterator[tuple[T, Any]] = torch_ops().transfer.prefetch(
        items, lambda item: _dense(rows(item)), device.torch_device
    )
    return pairs


def host_copies(device: Device) -> Any:
    """Return the copies from a device to the host: see mercer.ops.torch.transfer.HostCopies."""
    return torch_ops().transfer.HostCopies(device.torch_device)


def device_memory(device: Device) -> int:
    """Return the bytes of memory of a device."""
    return int(torch_ops().transfer.total_memory(device.torch_device))


def device_tile_rows(bytes_per_row: float, device: Device, *, transferred: bool = False) -> int:
    """Return how many rows of a tile fit into the memory of a device.

    With transferred, for tiles that are copied to the device and back: fewer, so that copies in
    both directions overlap with the computation.
    """
    rows = rows_of_device_tile(bytes_per_row, device_memory(device), transferred=transferred)
    return max(1, rows >> device.halvings)


def for_each_device_tile(work: Callable[[slice], None], n: int, rows: int, device: Device) -> None:
    """Call work(tile) for every tile of n rows; see `tile_results`."""
    for _ in tile_results(work, n, rows, device):
        pass


def tile_results(
    work: Callable[[slice], T], n: int, rows: int, device: Device
) -> Iterator[tuple[slice, T]]:
    """Yield the tiles of n rows in order, with work(tile).

    If the device is out of memory, the tile is halved, down to 16 rows, with one warning.
    """
    start, size = 0, max(1, rows)
    while start < n:
        tile = slice(start, min(start + size, n))
        result = _try(work, tile)
        if result is None:
            size = max(1, (tile.stop - tile.start) // 2)
            _warn_out_of_memory(device, size)
            torch_ops().transfer.release_cached_memory()
        else:
            yield tile, result[0]
            start = tile.stop


def _try(work: Callable[[slice], T], tile: slice) -> tuple[T] | None:
    """Return (work(tile),), or None if the device is out of memory; then nothing is referenced."""
    try:
        return (work(tile),)
    except Exception as error:
        if not torch_ops().transfer.is_out_of_memory(error) or tile.stop - tile.start <= _MIN_ROWS:
            raise
    return None


def _warn_out_of_memory(device: Device, rows: int) -> None:
    if not device.halvings:
        warn(
            f"{device.torch_device} is out of memory: tiles are halved, to {rows} rows now, and "
            "the computation continues.",
            stacklevel=4,
        )
    device.halvings += 1


def _dense(rows: Any) -> Any:
    return rows.toarray() if is_csr(rows) else rows
