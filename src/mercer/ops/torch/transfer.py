"""Rows on their way to a device and back: through pinned memory, beside what the device
computes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, TypeVar

import numpy as np
import torch

from mercer.ops.torch.device_array import TYPES, DeviceArray

T = TypeVar("T")
_SLOTS = 2  # of pinned memory: one is filled while the other is on its way


def device(name: str) -> torch.device:
    """The device of that name; a ValueError that says what there is when it is not there."""
    try:
        found = torch.device(name)
    except RuntimeError:
        raise ValueError(
            f'device must be "cpu", "cuda" or "cuda:0" (or another number), got {name!r}.'
        ) from None
    if found.type == "cuda":
        if not torch.cuda.is_available():
            why = (
                "this torch was built without CUDA"
                if torch.version.cuda is None
                else "no NVIDIA GPU was found"
            )
            raise ValueError(
                f"device={name!r}: there is no GPU to run on, {why} (torch {torch.__version__})."
            )
        count = torch.cuda.device_count()
        if found.index is not None and found.index >= count:
            raise ValueError(
                f"device={name!r}: there is no such GPU, the last one is cuda:{count - 1}."
            )
    return found


def describe() -> str:
    """The GPUs that there are, in words."""
    if not torch.cuda.is_available():
        return f"none (torch {torch.__version__})"
    found = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    names = [
        f"cuda:{i} {one.name}, {one.total_memory / 2**30:.0f} GiB" for i, one in enumerate(found)
    ]
    return f"{'; '.join(names)} (torch {torch.__version__})"


def is_full(error: BaseException) -> bool:
    """Whether an error says that the device has no memory left."""
    return isinstance(error, torch.OutOfMemoryError)


def forget() -> None:
    """Give memory that is kept for later back to the device."""
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


@cache
def memory(where: torch.device) -> int:
    """Bytes that a device has; 4 GiB where it does not say. How many of them are free takes as long
    to ask as a tile takes.
    """
    return (
        int(torch.cuda.get_device_properties(where).total_memory)
        if where.type == "cuda"
        else 4 * 2**30
    )


def put(values: Any, where: torch.device, *, columns: bool = False) -> DeviceArray:
    """An array of NumPy on a device; with columns, the numbers of a column lie side by side, as the
    right side of a product wants them.
    """
    if columns and values.ndim == 2:
        return DeviceArray(put(values.T, where).tensor.T)
    values = np.ascontiguousarray(values)
    return DeviceArray(
        torch.from_numpy(values if values.flags.writeable else values.copy()).to(where)
    )


def ahead(
    items: Iterable[T], rows: Callable[[T], Any], where: torch.device
) -> Iterator[tuple[T, DeviceArray]]:
    """Each item with its rows on the device; those of the next are on their way while this one is
    in use.
    """
    if where.type != "cuda":
        for item in items:
            values = rows(item)
            yield item, values if isinstance(values, DeviceArray) else put(values, where)
        return
    lane = _Lane(where)
    waiting: tuple[T, torch.Tensor, Any] | None = None
    for item in items:
        sent = (item, *lane.send(rows(item)))
        if waiting is not None:
            yield lane.arrived(*waiting)
        waiting = sent
    if waiting is not None:
        yield lane.arrived(*waiting)


class _Lane:
    """A stream of copies beside the stream that computes, and its pinned memory."""

    def __init__(self, where: torch.device) -> None:
        self.where = where
        self.stream = torch.cuda.Stream(where)
        self.slots: list[tuple[torch.Tensor, Any] | None] = [None] * _SLOTS
        self.turn = 0

    def send(self, rows: Any) -> tuple[torch.Tensor, Any]:
        if isinstance(rows, DeviceArray):
            return rows.tensor, None
        rows = np.ascontiguousarray(rows)
        slot = self.slots[self.turn]
        if slot is None or slot[0].numel() < rows.nbytes:
            slot = (torch.empty(rows.nbytes, dtype=torch.uint8, pin_memory=True), None)
        memory, done = slot
        if done is not None:
            done.synchronize()
        staged = memory[: rows.nbytes].view(TYPES[rows.dtype]).view(rows.shape)
        np.copyto(staged.numpy(), rows)
        with torch.cuda.stream(self.stream):
            moved = staged.to(self.where, non_blocking=True)
            done = self.stream.record_event()
        self.slots[self.turn] = (memory, done)
        self.turn = (self.turn + 1) % _SLOTS
        return moved, done

    def arrived(self, item: T, moved: torch.Tensor, done: Any) -> tuple[T, DeviceArray]:
        if done is not None:
            computing = torch.cuda.current_stream(self.where)
            computing.wait_event(done)
            moved.record_stream(computing)
        return item, DeviceArray(moved)


class Returning:
    """Arrays on their way back: each is written where it belongs while the device works on the next
    one.
    """

    def __init__(self, where: torch.device) -> None:
        self.where = where
        self.stream = torch.cuda.Stream(where) if where.type == "cuda" else None
        self.slots: list[torch.Tensor | None] = [None] * _SLOTS
        self.turn = 0
        self.waiting: tuple[torch.Tensor, Any, Any] | None = None

    def bring(self, found: DeviceArray, out: Any) -> None:
        """Copy found into out, an array of NumPy, by the next call or by finish()."""
        tensor = found.tensor
        if self.stream is None:
            np.copyto(out, tensor.numpy())
            return
        tensor = tensor.contiguous()
        size = tensor.numel() * tensor.element_size()
        memory = self.slots[self.turn]
        if memory is None or memory.numel() < size:
            memory = self.slots[self.turn] = torch.empty(size, dtype=torch.uint8, pin_memory=True)
        staged = memory[:size].view(tensor.dtype).view(tensor.shape)
        self.stream.wait_stream(torch.cuda.current_stream(self.where))
        with torch.cuda.stream(self.stream):
            staged.copy_(tensor, non_blocking=True)
            done = self.stream.record_event()
        tensor.record_stream(self.stream)
        self.turn = (self.turn + 1) % _SLOTS
        self.finish()
        self.waiting = (staged, done, out)

    def finish(self) -> None:
        """Wait for what is on its way."""
        if self.waiting is not None:
            staged, done, out = self.waiting
            done.synchronize()
            np.copyto(out, staged.numpy())
            self.waiting = None
