"""Every form of the Gram ops: textbook formulas, extreme values, NaN, many columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.helpers.gram_cases import LITERAL
from tests.helpers.op_arguments import Array, extremes, histogram, wide
from tests.helpers.op_cases import CASES, check, result
from tests.helpers.op_forms import every_dtype, every_form

GRAMS = sorted(LITERAL)


@every_form
@every_dtype
@pytest.mark.parametrize("name", GRAMS)
def test_grams_are_the_textbook_formulas(form: Any, dtype: type, name: str) -> None:
    rng = np.random.default_rng(4)
    X, Z = (0.1 + rng.random((k, 37)).astype(dtype) for k in (11, 13))
    expected = LITERAL[name](wide(X)[:, None], wide(Z))
    found = getattr(form, name)(X, Z, np.empty((11, 13), dtype=dtype))
    assert np.all(np.abs(found - expected) <= 16 * np.finfo(dtype).eps * expected)


@every_form
@every_dtype
@pytest.mark.parametrize("name", sorted(n for n in CASES if n.startswith("gram")))
def test_grams_at_the_ends_of_the_range(form: Any, dtype: type, name: str) -> None:
    values = extremes(dtype)
    pairs = np.stack([np.repeat(values, len(values)), np.tile(values, len(values))])
    columns = [
        values[:, None],
        np.stack([values, values[::-1]], axis=1),
        np.tile(values[:, None], 70),
    ]
    rng = np.random.default_rng(9)
    columns += [
        rng.choice(values, size=(20, 40)),
        rng.choice(values[3:], size=(20, 40)),
        rng.choice(values[4:9], size=(9, 3)),
    ]
    columns += [pairs[:1].T, pairs[1:].T]
    for X in columns:
        args = CASES[name].make(rng, dtype, len(X), X.shape[1], len(X))
        if "X" in args:
            args |= {"X": X, "Z": X}
        else:
            parts = dense_to_csr(X)
            args |= {f"{which}_{part}": a for which in "XZ" for part, a in parts.items()}
        if name in ("gram_l1", "gram_l2"):
            args["X"] = np.where(np.arange(X.shape[1]) % 2, -X, X)
        check(form, name, args)
        assert not np.isnan(args["out"]).any()


def dense_to_csr(X: Array) -> dict[str, Array]:
    """With explicit zeros: a canonical matrix may hold them."""
    n, d = X.shape
    return {
        "indptr": np.arange(0, n * d + 1, d, dtype=np.int32),
        "indices": np.tile(np.arange(d, dtype=np.int32), n),
        "data": X.ravel(),
    }


@every_form
@every_dtype
@pytest.mark.parametrize("name", GRAMS)
def test_one_nan_takes_its_row_or_column_and_nothing_else(
    form: Any, dtype: type, name: str
) -> None:
    rng = np.random.default_rng(10)
    for zero in (False, True):
        args = CASES[name].make(rng, dtype, 11, 19, 37)
        if zero:
            args["X"][:], args["Z"][:] = 0, 0
        args["X"][4, 17], args["Z"][36, 0] = np.nan, np.nan
        found = result(form, name, args)
        expected = np.zeros((11, 37), dtype=bool)
        expected[4], expected[:, 36] = True, True
        np.testing.assert_array_equal(np.isnan(found), expected)


@every_form
@every_dtype
@pytest.mark.parametrize(
    "name", sorted(n for n in CASES if n.startswith("gram") and n.endswith("csr"))
)
def test_one_nan_in_a_sparse_row(form: Any, dtype: type, name: str) -> None:
    args = CASES[name].make(np.random.default_rng(11), dtype, 5, 30, 7)
    args["X_data"][args["X_indptr"][2]] = np.nan
    args["Z_data"][args["Z_indptr"][6]] = np.nan
    expected = np.zeros((5, 7), dtype=bool)
    expected[2], expected[:, 6] = True, True
    np.testing.assert_array_equal(np.isnan(result(form, name, args)), expected)


@every_form
@every_dtype
@pytest.mark.parametrize("name", GRAMS)
def test_grams_at_the_ends_of_the_fast_range(form: Any, dtype: type, name: str) -> None:
    """Between 2^-60 and 2^60 (float32) the core uses approximate reciprocals, outside divisions."""
    rng = np.random.default_rng(16)
    top = 60 if dtype is np.float32 else 500
    for step in (0, 1):
        ends = 2.0 ** np.array([-top - step, -top, 1 - top, -1, 0, top - 1, top, top + step])
        X = rng.choice(np.append(ends, 0).astype(dtype), size=(20, 6))
        Z = np.where(rng.random(X.shape) < 0.5, np.nextafter(X, dtype(np.inf)), X)
        for a, b in ((X, Z), (X, X[::-1]), (X[:, :1], Z[:, :1]), (Z[:4, :1], Z[:, :1])):
            check(form, name, {"X": a, "Z": b, "out": np.empty((len(a), len(b)), dtype=dtype)})


@every_form
@every_dtype
@pytest.mark.parametrize("name", GRAMS)
def test_many_columns_lose_no_digits(form: Any, dtype: type, name: str) -> None:
    rng = np.random.default_rng(13)
    ones = np.full((1, 50_000), 0.1)
    X = np.concatenate([histogram(rng, dtype, 2, 50_000), ones, 3 * ones]).astype(dtype)
    check(form, name, {"X": X, "Z": X[::-1].copy(), "out": np.empty((4, 4), dtype=dtype)})


@every_form
def test_near_duplicates_have_an_accurate_chi2_distance(form: Any) -> None:
    X = 1 + np.random.default_rng(14).random((3, 100)).astype(np.float32)
    Z = np.nextafter(X, np.float32(9))
    check(form, "gram_chi2_distance", {"X": X, "Z": Z, "out": np.empty((3, 3), dtype=np.float32)})


@every_form
@every_dtype
def test_disjoint_and_equal_rows(form: Any, dtype: type) -> None:
    rng = np.random.default_rng(15)
    left = histogram(rng, dtype, 5, 40) + np.eye(5, 40, dtype=dtype)
    X, Z = np.hstack([left, 0 * left]), np.hstack([0 * left, left])
    for name in ("gram_chi2", "gram_intersection", "gram_minmax", "gram_jensen_shannon"):
        assert (getattr(form, name)(X, Z, np.empty((5, 5), dtype=dtype)) == 0).all()
    for name in ("gram_chi2_distance", "gram_l1", "gram_l2"):
        assert (np.diag(getattr(form, name)(X, X, np.empty((5, 5), dtype=dtype))) == 0).all()
    assert form.gram_minmax(X, X, np.empty((5, 5), dtype=dtype)).max() <= 1
