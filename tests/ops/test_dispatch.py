"""Registration of ops and dispatch to their forms."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.helpers.op_cases import CASES
from tests.helpers.op_forms import every_dtype, every_op, needs_core, needs_torch

from mercer import ops
from mercer.ops.dispatch import OPS, Op, compiled, op, torch_form


@pytest.fixture
def doubled() -> Iterator[Op[..., Any]]:
    """An op that is registered for one test; each form appends its name to `calls`."""

    @op
    def doubled(X: Any, out: Any, calls: list[str]) -> Any:
        """out = 2 X."""
        calls.append("reference")
        return np.multiply(X, 2, out=out)

    yield doubled
    del OPS["doubled"]


def run(function: Any, X: Any, **keywords: Any) -> list[str]:
    calls: list[str] = []
    out = np.empty_like(X) if isinstance(X, np.ndarray) else X.copy()
    result = function(X, out=out, calls=calls, **keywords)
    assert result is out
    np.testing.assert_array_equal(np.asarray(result), 2 * np.asarray(X))
    return calls


def test_an_op_runs_its_definition_until_other_forms_are_registered(doubled) -> None:
    X = np.arange(6.0).reshape(2, 3)
    assert OPS["doubled"] is doubled and ops.implementation_of("doubled") == "numpy"
    assert run(doubled, X) == ["reference"]

    @compiled(doubled)
    def fast(X: Any, out: Any, calls: list[str]) -> Any:
        calls.append("compiled")
        return NotImplemented if X.dtype == np.longdouble else np.add(X, X, out=out)

    assert run(doubled, X) == ["compiled"]
    assert run(doubled, X.astype(np.longdouble)) == ["compiled", "reference"]
    assert run(doubled.reference, X) == ["reference"]


@needs_torch
def test_a_device_array_runs_the_torch_form(doubled) -> None:
    from tests.helpers.torch_ops import to_device

    X = np.arange(6.0).reshape(2, 3)
    with pytest.raises(TypeError, match="doubled has no torch form"):
        run(doubled, to_device(X))

    @torch_form(doubled)
    def on_device(X: Any, out: Any, calls: list[str]) -> Any:
        calls.append("torch")
        out.tensor.copy_(X.tensor * 2)
        return out

    assert run(doubled, to_device(X)) == ["torch"]
    # Any argument may be the device array, by position or by name.
    out, calls = to_device(X), []
    np.testing.assert_array_equal(run(doubled, X), ["reference"])
    with pytest.raises(AttributeError, match="tensor"):
        doubled(X, out=out, calls=calls)
    assert calls == ["torch"]


def test_an_op_is_registered_once(doubled) -> None:
    with pytest.raises(ValueError, match="'doubled' is registered already"):
        op(doubled.reference)


def test_every_op_has_a_definition_a_docstring_and_a_case() -> None:
    assert set(OPS) == set(CASES)
    for name, registered in OPS.items():
        assert getattr(ops, name) is registered
        assert registered.__name__ == registered.reference.__name__ == name
        assert registered.__doc__ and registered.__doc__ == registered.reference.__doc__


@needs_core
@every_op
@every_dtype
def test_every_op_has_a_compiled_form_that_supports_its_case(name: str, dtype: type) -> None:
    form = OPS[name].compiled
    assert form is not None and ops.implementation_of(name) == ops.cpu.isa()
    assert inspect.signature(form) == inspect.signature(OPS[name].reference)
    args = CASES[name].make(np.random.default_rng(0), dtype, 5, 6, 7)
    assert form(**args) is not NotImplemented


@needs_torch
def test_every_op_has_a_torch_form() -> None:
    import mercer.ops.torch  # noqa: F401

    for name, registered in OPS.items():
        assert registered.torch is not None, name
        names = list(inspect.signature(registered.torch).parameters)
        assert names == list(inspect.signature(registered.reference).parameters)


def test_ops_are_pickled_and_copied_by_reference() -> None:
    assert pickle.loads(pickle.dumps(ops.cossin)) is ops.cossin
    assert copy.deepcopy(ops.cossin) is ops.cossin
