"""Former names of mercer.parallel.device."""

from __future__ import annotations

from mercer.parallel.device import Device as Place
from mercer.parallel.device import arithmetic, is_tensor, use_device
from mercer.parallel.device import current_device as here
from mercer.parallel.device import current_precision as precision
from mercer.parallel.device import device_context as at
from mercer.parallel.device import device_of as place_of
from mercer.parallel.device import device_tile_rows as tile_rows
from mercer.parallel.device import for_each_device_tile as each
from mercer.parallel.device import from_tensor as entered
from mercer.parallel.device import host_copies as returning
from mercer.parallel.device import prefetch as ahead
from mercer.parallel.device import sparse_tensor as sparse
from mercer.parallel.device import tensor_of as left
from mercer.parallel.device import tile_results as pieces
from mercer.parallel.device import to_current_device as sent
from mercer.parallel.device import to_device_of as moved
from mercer.parallel.device import to_host as brought_home
from mercer.parallel.device import to_tensor_like as answer
from mercer.parallel.device import torch_ops as gpu

__all__ = [
    "Place",
    "ahead",
    "answer",
    "arithmetic",
    "at",
    "brought_home",
    "each",
    "entered",
    "gpu",
    "here",
    "is_tensor",
    "left",
    "moved",
    "pieces",
    "place_of",
    "precision",
    "returning",
    "sent",
    "sparse",
    "tile_rows",
    "use_device",
]
