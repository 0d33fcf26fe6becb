"""Cases of all ops, their exact results, and comparison with a form's results."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.helpers.code_cases import CODES
from tests.helpers.elementwise_cases import ELEMENTWISE
from tests.helpers.gram_cases import GRAMS
from tests.helpers.lift_cases import LIFTS
from tests.helpers.op_arguments import Args, Array, Case, reference, wide

CASES: dict[str, Case] = {**CODES, **LIFTS, **ELEMENTWISE, **GRAMS}


def result(form: Any, name: str, args: Args) -> Array:
    """Return the op's result on a copy of T, which it may overwrite, and of its state."""
    return call(
        form,
        name,
        {k: a.copy() if k in ("T", *CASES[name].state) else a for k, a in args.items()},
    )


def call(form: Any, name: str, args: Args) -> Array:
    """Return the op's result on these arguments; two outputs are stacked."""
    found = getattr(form, name)(**args)
    outputs = CASES[name].outputs
    if len(outputs) == 1:
        return found
    assert found is None
    return np.stack([args[k] for k in outputs], dtype=args[outputs[-1]].dtype, casting="unsafe")


def truth(name: str, args: Args) -> Array:
    """Return the exact result, computed on copies of the arguments."""
    own = {k: a.copy() if isinstance(a, np.ndarray) else a for k, a in args.items()}
    with np.errstate(all="ignore"):
        return call(
            reference, name, {k: wide(a) if CASES[name].wider else a for k, a in own.items()}
        )


def check(form: Any, name: str, args: Args) -> None:
    exact = truth(name, args)
    with np.errstate(all="ignore"):
        found = result(form, name, args)
        agree(found, exact, CASES[name].bound(exact, args))


def agree(found: Array, exact: Array, bound: Any) -> None:
    """Assert that a result is within the bound of the exact one; codes must be equal.

    It must be NaN where the exact one is, and infinite where that overflows.
    """
    assert found.shape == exact.shape
    if found.dtype.kind != "f":
        np.testing.assert_array_equal(found, exact)
        return
    rounded = exact.astype(found.dtype)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(rounded))
    near_end = np.abs(exact) > np.finfo(found.dtype).max * (1 - 1e-5)
    odd = (np.isfinite(found) != np.isfinite(rounded)) & ~near_end
    assert not odd.any(), f"{found[odd][0]} for {exact[odd][0]}"
    kept = np.isfinite(rounded) & np.isfinite(found)
    over = np.where(kept, np.abs(np.where(kept, found, 0) - np.where(kept, exact, 0)) - bound, 0)
    if over.size and over.max() > 0:
        at = np.unravel_index(over.argmax(), over.shape)
        raise AssertionError(
            f"at {at}: {found[at]!r} for {exact[at]!r}, {float(over.max())} above the bound"
        )
