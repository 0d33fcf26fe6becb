"""Copies between host and device, through pinned memory and beside the computation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, TypeVar

import numpy as np
import torch

from mercer.ops.torch.device_array import TYPES, DeviceArray

T = TypeVar("T")
_SLOTS = 2  # pinned buffers: one is filled while the other is copied


def find_device(name: str) -> torch.device:
    """Return the device of that name; raise a ValueError if it does not exist."""
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(
            f'device must be "cpu", "cuda" or "cuda:0" (or another number), got {name!r}.'
        ) from None
    if device.type == "cuda":
        if not torch.cuda.is_available():
            no_cuda = torch.version.cuda is None
            reason = "torch was built without CUDA" if no_cuda else "no NVIDIA GPU was found"
            raise ValueError(
                f"device={name!r}: no GPU is available, {reason} (torch {torch.__version__})."
            )
        count = torch.cuda.device_count()
        if device.index is not None and device.index >= count:
            raise ValueError(f"device={name!r} does not exist; the last GPU is cuda:{count - 1}.")
    return device


def describe_gpus() -> str:
    """Return names and memory of the GPUs of this machine as text."""
    if not torch.cuda.is_available():
        return f"none (torch {torch.__version__})"
    gpus = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    names = [f"cuda:{i} {g.name}, {g.total_memory / 2**30:.0f} GiB" for i, g in enumerate(gpus)]
    return f"{'; '.join(names)} (torch {torch.__version__})"


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error reports that the device is out of memory."""
    return isinstance(error, torch.OutOfMemoryError)


def release_cached_memory() -> None:
    """Return memory that torch caches to the device."""
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


@cache
def total_memory(device: torch.device) -> int:
    """Return the bytes of memory of a device; 4 GiB for the CPU.

    Asking how many of them are free would take as long as a tile.
    """
    if device.type != "cuda":
        return 4 * 2**30
    return int(torch.cuda.get_device_properties(device).total_memory)


def to_device(values: Any, device: torch.device, *, columns: bool = False) -> DeviceArray:
    """Copy a NumPy array to a device.

    With columns, a matrix is stored by columns there: the layout for the right side of a product.
    """
    if columns and values.ndim == 2:
        return DeviceArray(to_device(values.T, device).tensor.T)
    values = np.ascontiguousarray(values)
    return DeviceArray(
        torch.from_numpy(values if values.flags.writeable else values.copy()).to(device)
    )


def prefetch(
    items: Iterable[T], rows: Callable[[T], Any], device: torch.device
) -> Iterator[tuple[T, DeviceArray]]:
    """Yield each item with its rows on the device; copy those of the next item meanwhile."""
    if device.type != "cuda":
        for item in items:
            values = rows(item)
            yield item, values if isinstance(values, DeviceArray) else to_device(values, device)
        return
    stream = _CopyStream(device)
    pending: tuple[T, torch.Tensor, Any] | None = None
    for item in items:
        copy = (item, *stream.start(rows(item)))
        if pending is not None:
            yield stream.wait(*pending)
        pending = copy
    if pending is not None:
        yield stream.wait(*pending)


class _CopyStream:
    """CUDA stream of copies to a device beside the computing stream, with pinned buffers."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.slots: list[tuple[torch.Tensor, Any] | None] = [None] * _SLOTS
        self.slot = 0

    def start(self, rows: Any) -> tuple[torch.Tensor, Any]:
        """Start copying rows; return their tensor and the event that marks the end."""
        if isinstance(rows, DeviceArray):
            return rows.tensor, None
        rows = np.ascontiguousarray(rows)
        slot = self.slots[self.slot]
        if slot is None or slot[0].numel() < rows.nbytes:
            slot = (torch.empty(rows.nbytes, dtype=torch.uint8, pin_memory=True), None)
        memory, done = slot
        if done is not None:
            done.synchronize()
        staged = memory[: rows.nbytes].view(TYPES[rows.dtype]).view(rows.shape)
        np.copyto(staged.numpy(), rows)
        with torch.cuda.stream(self.stream):
            copy = staged.to(self.device, non_blocking=True)
            done = self.stream.record_event()
        self.slots[self.slot] = (memory, done)
        self.slot = (self.slot + 1) % _SLOTS
        return copy, done

    def wait(self, item: T, copy: torch.Tensor, done: Any) -> tuple[T, DeviceArray]:
        """Make the computing stream wait for a copy."""
        if done is not None:
            computing = torch.cuda.current_stream(self.device)
            computing.wait_event(done)
            copy.record_stream(computing)
        return item, DeviceArray(copy)


class HostCopies:
    """Copies from a device to NumPy arrays while the device computes the next result."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self.slots: list[torch.Tensor | None] = [None] * _SLOTS
        self.slot = 0
        self.pending: tuple[torch.Tensor, Any, Any] | None = None

    def start(self, array: DeviceArray, out: Any) -> None:
        """Start copying into a NumPy array; it is written by the next call or by finish()."""
        tensor = array.tensor
        if self.stream is None:
            np.copyto(out, tensor.numpy())
            return
        tensor = tensor.contiguous()
        size = tensor.numel() * tensor.element_size()
        memory = self.slots[self.slot]
        if memory is None or memory.numel() < size:
            memory = self.slots[self.slot] = torch.empty(size, dtype=torch.uint8, pin_memory=True)
        staged = memory[:size].view(tensor.dtype).view(tensor.shape)
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            staged.copy_(tensor, non_blocking=True)
            done = self.stream.record_event()
        tensor.record_stream(self.stream)
        self.slot = (self.slot + 1) % _SLOTS
        self.finish()
        self.pending = (staged, done, out)

    def finish(self) -> None:
        """Wait for the copy in progress."""
        if self.pending is not None:
            staged, done, out = self.pending
            done.synchronize()
            np.copyto(out, staged.numpy())
            self.pending = None
