"""Rows on the device that tests have, torch's CPU or the one that MERCER_TEST_DEVICE names, and
rows that come back from it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.helpers.torch_ops import DEVICE

from mercer.parallel import devices

torch = pytest.importorskip("torch", reason="torch is not installed")


def there(X: Any) -> Any:
    return torch.from_numpy(np.array(X)).to(DEVICE)


def back(Z: Any) -> Any:
    Z = Z.cpu()
    return (Z if Z.layout == torch.strided else Z.to_dense()).numpy()


def dense(Z: Any) -> Any:
    return Z.toarray() if hasattr(Z, "toarray") else Z


def place() -> devices.Place:
    return devices.Place(torch.device(DEVICE))


def close(found: Any, expected: Any, dtype: Any) -> None:
    """1e-6 relative in float64 (much less, in fact); float32 as the battery has it for both
    dtypes.
    """
    assert found.dtype == expected.dtype
    tolerance = 1e-11 if dtype == np.float64 else 2e-5
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())
