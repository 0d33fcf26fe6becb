"""The modules that have every op, and the types of numbers they are tested in."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import torch_ops
from tests.helpers.op_cases import CASES

from mercer.ops import cpu, reference

DTYPES = [np.float32, np.float64]
MODULES = [
    pytest.param(reference, id="reference"),
    pytest.param(
        cpu, id="cpu", marks=pytest.mark.skipif(not cpu.available(), reason=str(cpu.why_not()))
    ),
]
TWIN = pytest.param(
    torch_ops,
    id="torch",
    marks=pytest.mark.skipif(torch_ops.MISSING is not None, reason="no torch"),
)
every_module = pytest.mark.parametrize("module", [*MODULES, TWIN])
every_host_module = pytest.mark.parametrize(
    "module", MODULES
)  # for what arrays of NumPy alone can be
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float64"])
every_op = pytest.mark.parametrize("name", sorted(CASES))
