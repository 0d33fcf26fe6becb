"""Parametrization over the forms of the ops and the dtypes they are tested in."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import torch_ops
from tests.helpers.op_arguments import reference
from tests.helpers.op_cases import CASES

from mercer import ops

DTYPES = [np.float32, np.float64]
needs_core = pytest.mark.skipif(not ops.cpu.available(), reason=str(ops.cpu.why_not()))
needs_torch = pytest.mark.skipif(torch_ops.MISSING is not None, reason="no torch")
NUMPY_FORMS = [
    pytest.param(reference, id="reference"),
    pytest.param(ops, id="compiled", marks=needs_core),
]
TORCH_FORM = pytest.param(torch_ops, id="torch", marks=needs_torch)
every_form = pytest.mark.parametrize("form", [*NUMPY_FORMS, TORCH_FORM])
every_numpy_form = pytest.mark.parametrize("form", NUMPY_FORMS)
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float64"])
every_op = pytest.mark.parametrize("name", sorted(CASES))
