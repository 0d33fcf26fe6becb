"""Torch forms with the signatures of the reference: NumPy arrays are copied to a device and back.

The device is torch's CPU, or the one in MERCER_TEST_DEVICE (`make test-gpu`: cuda).
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.helpers.op_cases import CASES

DEVICE = os.environ.get("MERCER_TEST_DEVICE", "cpu")
MISSING = None if importlib.util.find_spec("torch") else "torch is not installed"

if MISSING is None:
    import torch

    from mercer.ops.torch import triton_dispatch

    triton_dispatch.min_entries = 0  # test Triton kernels on small arrays too
    torch.set_num_threads(1)  # threads do not pay for small arrays


def to_device(a: Any) -> Any:
    import torch

    from mercer.ops.torch import DeviceArray

    if not isinstance(a, np.ndarray):
        return a
    return DeviceArray(torch.from_numpy(np.array(a, order="C")).to(DEVICE))


def __getattr__(name: str) -> Callable[..., Any]:
    if name not in CASES:
        raise AttributeError(name)

    def form(*args: Any, **kwargs: Any) -> Any:
        import inspect

        from mercer import ops

        named = dict(inspect.signature(ops.OPS[name].reference).bind(*args, **kwargs).arguments)
        bad = named.pop("bad", None)
        moved = {k: to_device(a) for k, a in named.items()}
        if bad is not None:
            moved["bad"] = bad
        getattr(ops, name)(**moved)
        for k in {*CASES[name].outputs, *CASES[name].state}:
            named[k][...] = np.asarray(moved[k])
        return named[CASES[name].outputs[0]] if len(CASES[name].outputs) == 1 else None

    return form
