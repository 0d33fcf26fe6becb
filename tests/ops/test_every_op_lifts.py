"""Every form of the elementwise maps: extreme values, values outside the domain, poles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.helpers.op_arguments import apart, extremes
from tests.helpers.op_cases import CASES, check
from tests.helpers.op_forms import every_dtype, every_form

from mercer import ops
from mercer.ops import cpu

LIFTS = ["chi2_chebyshev", "chi2_series", "homogeneous"]


@every_form
@every_dtype
@pytest.mark.parametrize("name", LIFTS)
def test_lifts_at_the_ends_of_the_range(form: Any, dtype: type, name: str) -> None:
    """0 gives 0 and NaN gives NaN in the values of that entry alone; all others are accurate."""
    rng = np.random.default_rng(17)
    info = np.finfo(dtype)
    everything = np.exp2(rng.uniform(info.minexp - info.nmant, info.maxexp - 0.01, 500)).astype(
        dtype
    )
    near_one = 1 + np.arange(-40, 40) * info.eps
    values = np.concatenate([extremes(dtype), [-0.0, np.nan, np.nan], near_one, everything]).astype(
        dtype
    )[None]
    for m in range(60):
        for X in (values, values.T.copy(), values[:, :7]):
            args = CASES[name].make(rng, dtype, len(X), X.shape[1], m)
            if args.get("degree", 1) > 1:
                X = np.minimum(X, info.max / 4)  # exp(log(x)) may be inf for the largest x
            args["X"] = X
            check(form, name, args)
            found = args["out"].reshape(X.size, -1)
            np.testing.assert_array_equal(
                np.isnan(found), np.isnan(X.reshape(-1, 1)) & np.ones_like(found, dtype=bool)
            )
            assert (found[X.ravel() == 0] == 0).all()
            assert np.isfinite(found[np.isfinite(X.ravel())]).all()


@every_form
@every_dtype
@pytest.mark.parametrize("name", LIFTS)
def test_lifts_report_values_outside_their_domain(form: Any, dtype: type, name: str) -> None:
    """Every position in vectors and edges, rows with and without gaps, every number of values."""
    rng, bad = np.random.default_rng(19), np.zeros(1, dtype=bool)
    for m in range(11):
        args = CASES[name].make(rng, dtype, 3, 21, m)
        X = args["X"]
        X[0, 0], X[2, 20] = -0.0, np.finfo(dtype).max
        for layout in (np.asarray, apart, np.asfortranarray):
            with np.errstate(all="ignore"):
                getattr(form, name)(**args | {"X": layout(X)}, bad=bad)
            assert not bad[0]
            for i, j in ((0, 0), (1, 15), (1, 16), (2, 19), (2, 20)):
                for value in (np.nan, np.inf, -np.inf, -1.0, -np.finfo(dtype).smallest_subnormal):
                    wrong = X.copy()
                    wrong[i, j] = value
                    with np.errstate(all="ignore"):
                        getattr(form, name)(**args | {"X": layout(wrong)}, bad=bad)
                    assert bad[0], (m, i, j, value)
                    bad[0] = False


@every_form
@every_dtype
@pytest.mark.parametrize("name", LIFTS)
def test_lifts_of_infinity(form: Any, dtype: type, name: str) -> None:
    for m in (2, 4, 8, 9):
        args = CASES[name].make(np.random.default_rng(18), dtype, 1, 9, m) | {
            "X": np.full((1, 9), np.inf, dtype=dtype)
        }
        check(form, name, args)


@pytest.mark.skipif(not cpu.available(), reason=str(cpu.why_not()))
@every_dtype
@pytest.mark.parametrize("name", ["chi2_chebyshev", "chi2_series"])
def test_poles_at_the_end_of_the_range(dtype: type, name: str) -> None:
    """x + k overflows in the reference; the core halves both."""
    top = float(np.finfo(dtype).max)
    X = np.array([[top, top / 2, top / 3, top / 100, np.sqrt(top), 1, 0]], dtype=dtype)
    args: dict[str, Any] = {"X": X, "out": np.empty((1, 21), dtype=dtype)}
    if name == "chi2_series":
        args["poles"] = np.array([top, top / 7, top / 1000], dtype=dtype)
    else:
        args |= {"n_terms": 3, "center": float(dtype(top / 3))}
    check(ops, name, args)
    assert (args["out"].reshape(7, 3)[:6, 0] != 0).all()


@every_form
@every_dtype
def test_many_harmonics_do_not_drift(form: Any, dtype: type) -> None:
    """Near x = 1 all angles are small, and the bound is 4 eps for each of them."""
    X = np.exp2(np.linspace(-1e-3, 1e-3, 301)).astype(dtype)[None]
    for harmonics in (np.arange(1, 100), np.arange(2, 200, 2), np.array([7, 8, 9, 1000])):
        amplitudes = np.ones(len(harmonics) + 1, dtype=dtype)
        out = np.empty((1, 301 * (2 * len(harmonics) + 1)), dtype=dtype)
        check(
            form,
            "homogeneous",
            {
                "X": X,
                "amplitudes": amplitudes,
                "harmonics": harmonics,
                "step": 0.01,
                "degree": 1.0,
                "out": out,
            },
        )


@every_form
@every_dtype
def test_lifts_at_their_own_poles(form: Any, dtype: type) -> None:
    """x = k makes the product 0 from there on; x = center has the logarithm 0."""
    poles = np.array([0.7, 0.1, 0.3], dtype=dtype)
    found = form.chi2_series(poles[None], poles, np.empty((1, 9), dtype=dtype)).reshape(3, 3)
    assert (found[0, 1:] == 0).all() and found[1, 2] == 0 and (found[2] != 0).all()
    center = float(dtype(0.3))
    found = form.chi2_chebyshev(
        np.array([[center]], dtype=dtype), 3, center, np.empty((1, 3), dtype=dtype)
    )
    np.testing.assert_allclose(found, [[np.sqrt(center), 0, 0]], atol=np.finfo(dtype).eps, rtol=0)
