"""Copies to and from the device of the tests: torch's CPU, or the one in MERCER_TEST_DEVICE."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest
from tests.helpers.torch_ops import DEVICE

from mercer.parallel.device import Device, device_context

torch = pytest.importorskip("torch", reason="torch is not installed")


def on_device() -> AbstractContextManager[None]:
    return device_context(Device(torch.device(DEVICE)))


def to_tensor(X: Any) -> Any:
    return torch.from_numpy(np.array(X)).to(DEVICE)


def to_numpy(Z: Any) -> Any:
    Z = Z.cpu()
    return (Z if Z.layout == torch.strided else Z.to_dense()).numpy()


def dense(Z: Any) -> Any:
    return Z.toarray() if hasattr(Z, "toarray") else Z


def assert_close(found: Any, expected: Any, dtype: Any) -> None:
    """Compare to 1e-11 of the largest value in float64, 2e-5 in float32."""
    assert found.dtype == expected.dtype
    tolerance = 1e-11 if dtype == np.float64 else 2e-5
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())
