"""Every op, in NumPy and compiled, against the reference in a wider type: all edges, layouts and extreme numbers."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import torch_ops
from mercer import ops
from mercer.ops import coded, cpu, reference
from op_cases import CASES, LITERAL, agree, call, check, hadamard_arrays, histogram, promise, result, truth, wide

Array = NDArray[Any]
DTYPES = [np.float32, np.float64]
GRAMS = sorted(LITERAL)
LIFTS = ["chi2_chebyshev", "chi2_series", "homogeneous"]
MODULES = [
    pytest.param(reference, id="reference"),
    pytest.param(cpu, id="cpu", marks=pytest.mark.skipif(not cpu.available(), reason=str(cpu.why_not()))),
]
TWIN = pytest.param(torch_ops, id="torch", marks=pytest.mark.skipif(torch_ops.MISSING is not None, reason="no torch"))
every_module = pytest.mark.parametrize("module", [*MODULES, TWIN])
every_host_module = pytest.mark.parametrize("module", MODULES)  # for what arrays of NumPy alone can be
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float64"])
every_op = pytest.mark.parametrize("name", sorted(CASES))


def public(module: Any) -> set[str]:
    found = inspect.getmembers(module, inspect.isfunction)
    return {name for name, f in found if f.__module__ == module.__name__ and not name.startswith("_")}


def sizes() -> Iterator[tuple[int, int, int]]:
    """Every size from 0 to 70 in each dimension, alone and together."""
    for k in range(71):
        yield from ((k, 5, 9), (3, k, 5), (2, 7, k), (k, 70 - k, (k * 31) % 71))
    yield from ((0, 0, 0), (70, 70, 70), (9, 129, 131), (17, 1000, 33), (2, 40, 300), (20, 40, 300))


def test_no_op_is_forgotten() -> None:
    assert public(reference) | public(coded) == set(reference.__all__)
    assert set(reference.__all__) == set(ops.__all__) == set(cpu.__all__) == set(CASES)
    if torch_ops.MISSING is None:
        from mercer.ops import gpu

        assert set(gpu.__all__) == {*ops.__all__, "DeviceArray"}
    assert public(cpu) == set(ops.__all__) | {"available", "isa", "why_not"}
    for name in ops.__all__:
        assert inspect.signature(getattr(cpu, name)) == inspect.signature(getattr(reference, name))


@every_module
@every_dtype
@every_op
def test_all_sizes(module: Any, dtype: type, name: str) -> None:
    rng = np.random.default_rng(1)
    for n, d, m in sizes() if module is not torch_ops else list(sizes())[::11]:
        args = CASES[name].make(rng, dtype, n, d, m)
        try:
            check(module, name, args)
        except AssertionError as error:
            raise AssertionError(f"n = {n}, d = {d}, m = {m}: {error}") from error


@every_module
@every_dtype
@pytest.mark.parametrize("name", ["hadamard", "hadamard_cos", "hadamard_cossin"])
def test_every_power_of_two(module: Any, dtype: type, name: str) -> None:
    rng = np.random.default_rng(2)
    for p in [2**k for k in range(14)]:
        for d, m in ((p, p), (max(1, p // 2 + 1), 2 * p + 1), (min(3, p), max(1, p - 1))):
            args = CASES[name].make(rng, dtype, 2, d, m)
            args |= hadamard_arrays(rng, dtype, 2, d, m, p)
            check(module, name, args)


@every_module
@every_dtype
@pytest.mark.parametrize("name", ["hadamard_cos", "hadamard_cossin"])
def test_transforms_keep_the_promise(module: Any, dtype: type, name: str) -> None:
    """A transform by plain float sums is within eps (4 + |x| |w|) but for its tails: rms a quarter, all but 1 in 500."""
    for d in (7, 33, 200, 784):
        args = CASES[name].make(np.random.default_rng(d), dtype, 40, d, 300)
        exact = truth(name, args)
        ratio = np.abs(result(module, name, args) - exact) / promise(exact, args)
        assert np.sqrt(np.mean(ratio**2)) < 0.25
        assert np.mean(ratio > 1) < 1 / 500


@every_dtype
def test_hadamard_is_the_matrix_product(dtype: type) -> None:
    rng = np.random.default_rng(3)
    p, H = 1, np.ones((1, 1))
    for _ in range(8):
        a = hadamard_arrays(rng, dtype, 3, p, 2 * p, p)
        for b in range(2):
            S = [np.diag(a["signs"][b, k].astype(float)) for k in range(3)]
            expected = (a["X"].astype(float) @ (H @ S[2] @ H @ S[1] @ H @ S[0]).T) * a["lengths"][b * p : (b + 1) * p]
            found = ops.hadamard(**a, out=np.empty((3, 2 * p), dtype=dtype))[:, b * p : (b + 1) * p]
            np.testing.assert_allclose(found, expected, atol=50 * np.finfo(dtype).eps, rtol=0)
        p, H = 2 * p, np.kron([[1, 1], [1, -1]], H)


@every_module
@every_dtype
@pytest.mark.parametrize("name", ["hadamard", "hadamard_cos", "hadamard_cossin"])
def test_products_of_one_round_and_of_more_are_those_of_three(module: Any, dtype: type, name: str) -> None:
    """H 1 H = p, so that rounds of ones may be added in pairs."""
    rng = np.random.default_rng(5)
    for p, m in ((4, 3), (64, 150)):
        args = CASES[name].make(rng, dtype, 3, p - 1, m) | hadamard_arrays(rng, dtype, 3, p - 1, m, p)
        args["signs"][:, 1:] = 1  # p H S
        three = result(module, name, args)
        ones = np.ones_like(args["signs"][:, :2])
        for fewer, signs in ((1, args["signs"][:, :1]), (-1, np.concatenate([args["signs"], ones], axis=1))):
            lengths = args["lengths"] * dtype(float(p) ** fewer)
            found = result(module, name, args | {"signs": signs, "lengths": lengths})
            np.testing.assert_allclose(found, three, atol=100 * np.finfo(dtype).eps, rtol=0)


@every_module
@every_dtype
@pytest.mark.parametrize("name", GRAMS)
def test_grams_are_the_textbook_formulas(module: Any, dtype: type, name: str) -> None:
    rng = np.random.default_rng(4)
    X, Z = (0.1 + rng.random((k, 37)).astype(dtype) for k in (11, 13))
    expected = LITERAL[name](wide(X)[:, None], wide(Z))
    found = getattr(module, name)(X, Z, np.empty((11, 13), dtype=dtype))
    assert np.all(np.abs(found - expected) <= 16 * np.finfo(dtype).eps * expected)


# Layouts


def apart(A: Array) -> Array:
    """The same numbers with gaps between the rows."""
    big = np.full((A.shape[0], A.shape[1] + 5), np.nan if A.dtype.kind == "f" else 77, dtype=A.dtype)
    big[:, 2:-3] = A
    return big[:, 2:-3]


def unaligned(A: Array) -> Array:
    raw = np.empty(A.nbytes + 1, dtype=np.uint8)
    copy = np.frombuffer(raw.data, dtype=A.dtype, offset=1, count=A.size).reshape(A.shape)
    copy[...] = A
    return copy


def read_only(A: Array) -> Array:
    A = A.copy()
    A.flags.writeable = False
    return A


def every_second(A: Array) -> Array:
    return np.repeat(A, 2, axis=-1)[..., ::2]


LAYOUTS = {
    "gaps between rows": lambda A: apart(A) if A.ndim == 2 else A,
    "rows backwards": lambda A: A[::-1].copy()[::-1],
    "columns apart": every_second,
    "Fortran": np.asfortranarray,
    "unaligned": unaligned,
    "read-only": read_only,
    "other byte order": lambda A: A.astype(A.dtype.newbyteorder()),
}


@every_host_module
@every_dtype
@every_op
@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_layout_of_the_input_does_not_matter(module: Any, dtype: type, name: str, layout: str) -> None:
    rng = np.random.default_rng(5)
    args = CASES[name].make(rng, dtype, 13, 21, 35)
    exact = truth(name, args)
    changed = {
        k: LAYOUTS[layout](a) if isinstance(a, np.ndarray) and k not in {"T", *CASES[name].outputs} else a
        for k, a in args.items()
    }
    if name == "cossin":
        changed["T"] = LAYOUTS["rows backwards" if layout == "read-only" else layout](args["T"])
        assert changed["T"].shape == args["T"].shape
        found = getattr(module, name)(**changed)
    else:
        found = result(module, name, changed)
    agree(found, exact, CASES[name].bound(exact, args))


@every_host_module
@every_dtype
@every_op
@pytest.mark.parametrize("layout", ["gaps between rows", "rows backwards", "columns apart", "Fortran", "unaligned"])
def test_layout_of_the_output_does_not_matter(module: Any, dtype: type, name: str, layout: str) -> None:
    rng = np.random.default_rng(6)
    args = CASES[name].make(rng, dtype, 13, 21, 35)
    exact = truth(name, args)
    views = {k: LAYOUTS[layout](args[k]) for k in CASES[name].outputs}
    found = call(module, name, {**args, **views})
    assert len(views) > 1 or found is next(iter(views.values()))
    agree(found, exact, CASES[name].bound(exact, args))


@every_host_module
@every_dtype
@every_op
def test_nothing_outside_out_is_written(module: Any, dtype: type, name: str) -> None:
    rng = np.random.default_rng(7)
    for n, d, m in ((1, 3, 1), (5, 6, 7), (9, 17, 33), (3, 64, 64), (8, 70, 66)):
        args = CASES[name].make(rng, dtype, n, d, m)
        guards, views = {}, {}
        for target in CASES[name].outputs:
            rows, columns, *more = args[target].shape
            guards[target] = np.full((rows + 2, columns + 40 * (not more), *more), 77, dtype=args[target].dtype)
            views[target] = guards[target][1:-1] if more else guards[target][1:-1, 20:-20]
            views[target][...] = args[target]
        call(module, name, {**args, **views})
        for target, guard in guards.items():
            views[target][...] = 77
            assert (guard == 77).all()


@every_host_module
@every_op
def test_other_types_of_numbers_go_to_the_reference(module: Any, name: str) -> None:
    rng = np.random.default_rng(8)
    args = CASES[name].make(rng, np.float64, 4, 5, 6)
    if CASES[name].wider:
        args = {k: wide(a) for k, a in args.items()}
    else:
        args["out"] = np.zeros(args["out"].shape, dtype=np.int64 if args["out"].dtype.kind == "u" else np.float64)
    np.testing.assert_array_equal(result(module, name, args).astype(float), truth(name, args).astype(float))


# Numbers


@every_module
@every_dtype
@pytest.mark.parametrize("name", ["cos_", "cossin", "exp2neg_"])
def test_links_at_the_ends_of_the_range(module: Any, dtype: type, name: str) -> None:
    info = np.finfo(dtype)
    numbers = [
        0.0,
        -0.0,
        info.smallest_subnormal,
        -info.tiny,
        0.25,
        0.5,
        -0.5,
        0.75,
        1e6 + 0.25,
        info.max,
        -info.max,
        info.tiny,
    ]
    numbers += [np.nan, np.inf, -np.inf, *range(-1100, 1101, 7), *(k + 0.4999 for k in range(-170, 171))]
    T = np.array(numbers, dtype=dtype)[None]
    for m in (T.shape[1], 3):
        args = {"T": T[:, :m], "scale": 1.0, "out": np.empty((1, 2 * m), dtype=dtype)}
        if name != "cossin":
            del args["out"]
        check(module, name, args)


@every_dtype
@pytest.mark.skipif(not cpu.available(), reason=str(cpu.why_not()))
def test_powers_of_two_are_exact(dtype: type) -> None:
    info = np.finfo(dtype)
    k = np.arange(info.minexp - info.nmant - 3, info.maxexp + 3)
    with np.errstate(all="ignore"):
        found = cpu.exp2neg_(-k[None].astype(dtype), 1.0)
        np.testing.assert_array_equal(found[0], np.ldexp(dtype(1), k))


@every_module
@every_dtype
def test_cos_and_sin_of_whole_and_half_turns(module: Any, dtype: type) -> None:
    T = np.array([[0, 0.25, 0.5, 0.75, 1, -0.25, 1e4, 12345.5]], dtype=dtype)
    found = module.cossin(T, 1.0, np.empty((1, 16), dtype=dtype)).reshape(-1, 2)
    expected = [[1, 0], [0, 1], [-1, 0], [0, -1], [1, 0], [0, -1], [1, 0], [-1, 0]]
    np.testing.assert_allclose(found, expected, atol=2 * np.finfo(dtype).eps, rtol=0)


def extremes(dtype: type) -> Array:
    info = np.finfo(dtype)
    top = [info.max, info.max / 2, 3e38 if dtype is np.float32 else 1e300]
    bottom = [
        0.0,
        info.smallest_subnormal,
        3 * info.smallest_subnormal,
        info.tiny,
        1e-38 if dtype is np.float32 else 1e-300,
    ]
    return np.array([*top, *bottom, 1.0, 1 + info.eps, 1e-20, 1e20, 0.3], dtype=dtype)


@every_module
@every_dtype
@pytest.mark.parametrize("name", sorted(n for n in CASES if n.startswith("gram")))
def test_grams_at_the_ends_of_the_range(module: Any, dtype: type, name: str) -> None:
    values = extremes(dtype)
    pairs = np.stack([np.repeat(values, len(values)), np.tile(values, len(values))])
    columns = [values[:, None], np.stack([values, values[::-1]], axis=1), np.tile(values[:, None], 70)]
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
        check(module, name, args)
        assert not np.isnan(args["out"]).any()


def dense_to_csr(X: Array) -> dict[str, Array]:
    """With explicit zeros: a canonical matrix may hold them."""
    n, d = X.shape
    return {
        "indptr": np.arange(0, n * d + 1, d, dtype=np.int32),
        "indices": np.tile(np.arange(d, dtype=np.int32), n),
        "data": X.ravel(),
    }


@every_module
@every_dtype
@pytest.mark.parametrize("name", GRAMS)
def test_one_nan_takes_its_row_or_column_and_nothing_else(module: Any, dtype: type, name: str) -> None:
    rng = np.random.default_rng(10)
    for zero in (False, True):
        args = CASES[name].make(rng, dtype, 11, 19, 37)
        if zero:
            args["X"][:], args["Z"][:] = 0, 0
        args["X"][4, 17], args["Z"][36, 0] = np.nan, np.nan
        found = result(module, name, args)
        expected = np.zeros((11, 37), dtype=bool)
        expected[4], expected[:, 36] = True, True
        np.testing.assert_array_equal(np.isnan(found), expected)


@every_module
@every_dtype
@pytest.mark.parametrize("name", sorted(n for n in CASES if n.startswith("gram") and n.endswith("csr")))
def test_one_nan_in_a_sparse_row(module: Any, dtype: type, name: str) -> None:
    args = CASES[name].make(np.random.default_rng(11), dtype, 5, 30, 7)
    args["X_data"][args["X_indptr"][2]] = np.nan
    args["Z_data"][args["Z_indptr"][6]] = np.nan
    expected = np.zeros((5, 7), dtype=bool)
    expected[2], expected[:, 6] = True, True
    np.testing.assert_array_equal(np.isnan(result(module, name, args)), expected)


@every_module
@every_dtype
@pytest.mark.parametrize("name", ["csr_exp2neg", "csr_product", "hadamard", "hadamard_cos", "hadamard_cossin"])
def test_nan_stays_in_its_row(module: Any, dtype: type, name: str) -> None:
    args = CASES[name].make(np.random.default_rng(12), dtype, 6, 20, 40)
    args["data" if name.startswith("csr") else "X"].flat[0] = np.nan
    found = result(module, name, args)
    assert np.isnan(found[0]).all() and not np.isnan(found[1:]).any()


@every_module
@every_dtype
@pytest.mark.parametrize("name", LIFTS)
def test_lifts_at_the_ends_of_the_range(module: Any, dtype: type, name: str) -> None:
    """0 gives 0 and NaN gives NaN in every value of that number and in no other; all between is finite and right."""
    rng = np.random.default_rng(17)
    info = np.finfo(dtype)
    everything = np.exp2(rng.uniform(info.minexp - info.nmant, info.maxexp - 0.01, 500)).astype(dtype)
    near_one = 1 + np.arange(-40, 40) * info.eps
    values = np.concatenate([extremes(dtype), [-0.0, np.nan, np.nan], near_one, everything]).astype(dtype)[None]
    for m in range(60):
        for X in (values, values.T.copy(), values[:, :7]):
            args = CASES[name].make(rng, dtype, len(X), X.shape[1], m)
            if args.get("degree", 1) > 1:
                X = np.minimum(X, info.max / 4)  # exp(log(x)) may be inf for the largest x
            args["X"] = X
            check(module, name, args)
            found = args["out"].reshape(X.size, -1)
            np.testing.assert_array_equal(np.isnan(found), np.isnan(X.reshape(-1, 1)) & np.ones_like(found, dtype=bool))
            assert (found[X.ravel() == 0] == 0).all()
            assert np.isfinite(found[np.isfinite(X.ravel())]).all()


@every_module
@every_dtype
@pytest.mark.parametrize("name", LIFTS)
def test_lifts_say_whether_a_number_is_outside_their_domain(module: Any, dtype: type, name: str) -> None:
    """For every place in vectors and edges, in rows with and without gaps, and for every number of values."""
    rng, bad = np.random.default_rng(19), np.zeros(1, dtype=bool)
    for m in range(11):
        args = CASES[name].make(rng, dtype, 3, 21, m)
        X = args["X"]
        X[0, 0], X[2, 20] = -0.0, np.finfo(dtype).max
        for layout in (np.asarray, apart, np.asfortranarray):
            with np.errstate(all="ignore"):
                getattr(module, name)(**args | {"X": layout(X)}, bad=bad)
            assert not bad[0]
            for i, j in ((0, 0), (1, 15), (1, 16), (2, 19), (2, 20)):
                for value in (np.nan, np.inf, -np.inf, -1.0, -np.finfo(dtype).smallest_subnormal):
                    wrong = X.copy()
                    wrong[i, j] = value
                    with np.errstate(all="ignore"):
                        getattr(module, name)(**args | {"X": layout(wrong)}, bad=bad)
                    assert bad[0], (m, i, j, value)
                    bad[0] = False


@every_module
@every_dtype
@pytest.mark.parametrize("name", LIFTS)
def test_lifts_of_infinity(module: Any, dtype: type, name: str) -> None:
    for m in (2, 4, 8, 9):
        args = CASES[name].make(np.random.default_rng(18), dtype, 1, 9, m) | {"X": np.full((1, 9), np.inf, dtype=dtype)}
        check(module, name, args)


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
    check(cpu, name, args)
    assert (args["out"].reshape(7, 3)[:6, 0] != 0).all()


@every_module
@every_dtype
def test_many_harmonics_do_not_drift(module: Any, dtype: type) -> None:
    """Near x = 1 all angles are small, and the bound is 4 eps for each of them."""
    X = np.exp2(np.linspace(-1e-3, 1e-3, 301)).astype(dtype)[None]
    for harmonics in (np.arange(1, 100), np.arange(2, 200, 2), np.array([7, 8, 9, 1000])):
        amplitudes = np.ones(len(harmonics) + 1, dtype=dtype)
        out = np.empty((1, 301 * (2 * len(harmonics) + 1)), dtype=dtype)
        check(
            module,
            "homogeneous",
            {"X": X, "amplitudes": amplitudes, "harmonics": harmonics, "step": 0.01, "degree": 1.0, "out": out},
        )


@every_module
@every_dtype
def test_lifts_at_their_own_poles(module: Any, dtype: type) -> None:
    """x = k makes the product 0 from there on; x = center has the logarithm 0."""
    poles = np.array([0.7, 0.1, 0.3], dtype=dtype)
    found = module.chi2_series(poles[None], poles, np.empty((1, 9), dtype=dtype)).reshape(3, 3)
    assert (found[0, 1:] == 0).all() and found[1, 2] == 0 and (found[2] != 0).all()
    center = float(dtype(0.3))
    found = module.chi2_chebyshev(np.array([[center]], dtype=dtype), 3, center, np.empty((1, 3), dtype=dtype))
    np.testing.assert_allclose(found, [[np.sqrt(center), 0, 0]], atol=np.finfo(dtype).eps, rtol=0)


@every_module
@every_dtype
@pytest.mark.parametrize("name", GRAMS)
def test_grams_at_the_ends_of_the_fast_range(module: Any, dtype: type, name: str) -> None:
    """Between 2^-60 and 2^60 (float32) the core divides by an approximate reciprocal; outside it takes another way."""
    rng = np.random.default_rng(16)
    top = 60 if dtype is np.float32 else 500
    for step in (0, 1):
        ends = 2.0 ** np.array([-top - step, -top, 1 - top, -1, 0, top - 1, top, top + step])
        X = rng.choice(np.append(ends, 0).astype(dtype), size=(20, 6))
        Z = np.where(rng.random(X.shape) < 0.5, np.nextafter(X, dtype(np.inf)), X)
        for a, b in ((X, Z), (X, X[::-1]), (X[:, :1], Z[:, :1]), (Z[:4, :1], Z[:, :1])):
            check(module, name, {"X": a, "Z": b, "out": np.empty((len(a), len(b)), dtype=dtype)})


@every_module
@every_dtype
@pytest.mark.parametrize("name", GRAMS)
def test_many_columns_lose_no_digits(module: Any, dtype: type, name: str) -> None:
    rng = np.random.default_rng(13)
    ones = np.full((1, 50_000), 0.1)
    X = np.concatenate([histogram(rng, dtype, 2, 50_000), ones, 3 * ones]).astype(dtype)
    check(module, name, {"X": X, "Z": X[::-1].copy(), "out": np.empty((4, 4), dtype=dtype)})


@every_module
def test_near_duplicates_have_an_accurate_chi2_distance(module: Any) -> None:
    X = 1 + np.random.default_rng(14).random((3, 100)).astype(np.float32)
    Z = np.nextafter(X, np.float32(9))
    check(module, "gram_chi2_distance", {"X": X, "Z": Z, "out": np.empty((3, 3), dtype=np.float32)})


@every_module
@every_dtype
def test_disjoint_and_equal_rows(module: Any, dtype: type) -> None:
    rng = np.random.default_rng(15)
    left = histogram(rng, dtype, 5, 40) + np.eye(5, 40, dtype=dtype)
    X, Z = np.hstack([left, 0 * left]), np.hstack([0 * left, left])
    for name in ("gram_chi2", "gram_intersection", "gram_minmax", "gram_jensen_shannon"):
        assert (getattr(module, name)(X, Z, np.empty((5, 5), dtype=dtype)) == 0).all()
    for name in ("gram_chi2_distance", "gram_l1", "gram_l2"):
        assert (np.diag(getattr(module, name)(X, X, np.empty((5, 5), dtype=dtype))) == 0).all()
    assert module.gram_minmax(X, X, np.empty((5, 5), dtype=dtype)).max() <= 1


# Codes


@every_module
def test_no_step_of_sampling_is_fused(module: Any) -> None:
    """Parameters for which one rounding less would give another t, or another winner, in every second hash."""
    rng = np.random.default_rng(19)
    count = 640
    inverse = rng.uniform(0.1, 0.9, count).astype(np.float32)
    log = np.float32(-0.789)
    ids = np.array([3, 5], dtype=np.uint64)

    def codes(columns: list[list[Array]], keep_t: bool) -> Array:
        drawn = np.array(columns, dtype=np.float32).reshape(len(columns), 4, -1, 64)
        drawn = np.ascontiguousarray(drawn.transpose(2, 0, 1, 3))
        logs = np.full((9, len(columns)), log)
        out = np.empty((9, count), dtype=np.uint16)
        return module.gcws(logs, drawn, ids[: len(columns)], 1, 0, 16, keep_t, out)

    one, zero = np.ones(count, dtype=np.float32), np.zeros(count, dtype=np.float32)
    found = codes([[inverse, -(log * inverse), one, one]], True)  # log * inverse + beta is 0, not a little less or more
    np.testing.assert_array_equal(found, codes([[zero, zero, one, one]], True))
    r = rng.uniform(0.1, 0.9, count).astype(np.float32)
    rounded = [zero, 77 * one, r, r * np.float32(77)]  # a = 0
    exact = [zero, one, one, one]  # a = 0
    np.testing.assert_array_equal(codes([rounded, exact], False), codes([exact], False))
    np.testing.assert_array_equal(codes([exact, rounded], False), codes([exact], False))


@every_module
def test_parameters_of_sampling_are_those_of_float64_logarithms(module: Any) -> None:
    """All but a millionth of the numbers are the reference's; the others are its neighbours."""
    ids = np.random.default_rng(20).integers(2**64, size=1000, dtype=np.uint64)
    exact = reference.gcws_parameters(2, ids, 0, np.empty((8, 1000, 4, 64), dtype=np.float32))
    found = module.gcws_parameters(2, ids, 0, np.empty_like(exact))
    assert np.mean(found != exact) <= 1e-6
    np.testing.assert_allclose(found, exact, rtol=np.finfo(np.float32).eps)


@every_module
def test_the_hashes_of_a_later_start_are_the_later_hashes(module: Any) -> None:
    rng = np.random.default_rng(21)
    ids = rng.integers(2**64, size=30, dtype=np.uint64)
    logs = rng.standard_normal((5, 30), dtype=np.float32)

    def codes(first: int, count: int) -> Array:
        drawn = module.gcws_parameters(4, ids, first, np.empty((-(-count // 64), 30, 4, 64), dtype=np.float32))
        return module.gcws(logs, drawn, ids, 4, first, 8, True, np.empty((5, count), dtype=np.uint8))

    whole = codes(0, 200)
    for first in (1, 64, 100, 136):
        np.testing.assert_array_equal(codes(first, 200 - first), whole[:, first:])


@every_module
@every_dtype
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("blended", [False, True])
def test_codes_are_short_for_rows_of_weights(module: Any, dtype: type, shared: bool, blended: bool) -> None:
    """With the weights written out, (n, places x codes), coded ops are matrix products."""
    rng = np.random.default_rng(22)
    n, places, count, m = 40, 6, 9, 5
    codes = rng.integers(count - 1, size=(n, places), dtype=np.uint8)
    fractions = rng.random((n, places)).astype(dtype) if blended else None
    f = np.zeros((n, places)) if fractions is None else fractions.astype(float)
    weights = np.zeros((n, places, count))
    i, c = np.indices((n, places))
    weights[i, c, codes] = 1 - f
    weights[i, c, codes + 1] += f
    flat = weights.reshape(n, -1)
    panels = rng.standard_normal((1 if shared else places, count, m)).astype(dtype)
    whole = np.broadcast_to(panels, (places, count, m)).astype(float)
    R = rng.standard_normal((n, m)).astype(dtype)
    close = {"atol": 50 * np.finfo(dtype).eps, "rtol": 0}
    found = module.coded_product(codes, panels, fractions, np.empty((n, m), dtype=dtype))
    np.testing.assert_allclose(found, flat @ whole.reshape(-1, m), **close)
    found = module.coded_sums(codes, R, fractions, np.empty((places, count, m), dtype=dtype))
    np.testing.assert_allclose(found.reshape(-1, m), flat.T @ R, **close)
    found = module.coded_rows(codes, panels, fractions, np.empty((n, m * places), dtype=dtype))
    np.testing.assert_allclose(found, np.einsum("ica,caq->icq", weights, whole).reshape(n, -1), **close)


@every_module
@every_dtype
def test_many_codes_in_many_places(module: Any, dtype: type) -> None:
    """Panels larger than a group of places in the cache, and single ones larger than the cache."""
    rng = np.random.default_rng(23)
    for places, count, m in ((300, 256, 1), (70, 256, 10), (40, 256, 20), (6, 3000, 70), (3, 40_000, 3)):
        codes = rng.integers(count - 1, size=(11, places), dtype=np.int32)
        for fractions in (None, rng.random((11, places)).astype(dtype)):
            given = {"codes": codes, "fractions": fractions}
            panels = rng.standard_normal((places, count, m)).astype(dtype)
            check(module, "coded_product", {**given, "panels": panels, "out": np.empty((11, m), dtype=dtype)})
            out = np.empty((11, places * m), dtype=dtype)
            check(module, "coded_rows", {**given, "tables": panels, "out": out})
            R = rng.standard_normal((11, m)).astype(dtype)
            check(module, "coded_sums", {**given, "R": R, "out": np.empty_like(panels)})


@every_module
@every_dtype
@pytest.mark.parametrize("name", ["coded_product", "coded_rows"])
def test_coded_rows_do_not_see_each_other(module: Any, dtype: type, name: str) -> None:
    rng = np.random.default_rng(24)
    for m in range(1, 80):
        args = CASES[name].make(rng, dtype, 13, 21, m)
        whole = getattr(module, name)(**args).copy()
        for rows in (slice(0, 1), slice(3, 8), slice(12, 13)):
            some = {k: args[k][rows] for k in ("codes", "out")}
            some["fractions"] = None if args["fractions"] is None else args["fractions"][rows]
            np.testing.assert_array_equal(getattr(module, name)(**args | some), whole[rows])


@every_module
@every_dtype
def test_a_sum_does_not_reach_its_neighbours(module: Any, dtype: type) -> None:
    """A row that is NaN stays in the sums of its codes."""
    rng = np.random.default_rng(25)
    for m in range(1, 40):
        args = CASES["coded_sums"].make(rng, dtype, 30, 4, m)
        args["R"][3] = np.nan
        found = module.coded_sums(**args)
        expected = np.zeros(found.shape[:2], dtype=bool)
        for step in range(2 if m % 2 else 1):
            expected[np.arange(4), args["codes"][3].astype(int) + step] = True
        np.testing.assert_array_equal(np.isnan(found).all(axis=2), expected)
        np.testing.assert_array_equal(np.isnan(found).any(axis=2), expected)


@every_module
@every_dtype
@pytest.mark.parametrize("pooled", [False, True])
def test_levels_at_and_beside_every_edge(module: Any, dtype: type, pooled: bool) -> None:
    """For tables of every length to 70 and a few longer ones: each edge, its neighbours, and the ends of the range."""
    info = np.finfo(dtype)
    for count in (*range(71), 127, 128, 255, 300):
        ends = np.array(
            [-info.max, -info.tiny, -info.smallest_subnormal, 0, info.smallest_subnormal, info.max], dtype=dtype
        )
        edges = np.unique(np.append(ends, np.arange(count) - 7))[:count].astype(dtype)
        with np.errstate(over="ignore", under="ignore"):
            beside = [np.nextafter(edges, dtype(np.inf)), np.nextafter(edges, dtype(-np.inf))]
        values = np.concatenate([edges, *beside, ends, -np.zeros(1, dtype=dtype), [-np.inf, np.inf]]).astype(dtype)
        X = np.tile(values[:, None], 3)
        table = edges[None] if pooled else np.tile(edges, (3, 1))
        for inclusive in (False, True):
            found = module.levels(X, table, inclusive, np.empty(X.shape, dtype=np.uint16))
            below = edges <= values[:, None] if inclusive else edges < values[:, None]
            np.testing.assert_array_equal(found, np.tile(below.sum(axis=1)[:, None], 3))


@every_module
@every_dtype
def test_brackets_at_and_beside_every_anchor(module: Any, dtype: type) -> None:
    """An anchor has the fraction 0 of its own bracket, the last one 1 of the bracket before; outside the fraction stays there."""
    for count in (*range(2, 70), 127, 128, 129, 255, 256, 257):
        anchors = np.cumsum(1 + np.arange(count) % 3).astype(dtype)
        X = np.concatenate([anchors, anchors[:-1] + np.diff(anchors) / 4, [-5, 1e4]]).astype(dtype)[None]
        codes, fractions = np.empty(X.shape, dtype=np.uint16), np.empty(X.shape, dtype=dtype)
        module.brackets(X, anchors[None], codes, fractions)
        last = count - 2
        order = np.arange(count - 1)
        np.testing.assert_array_equal(codes[0], [*order, last, *order, 0, last])
        np.testing.assert_array_equal(fractions[0], [*(0 * order), 1, *(0 * order + 0.25), 0, 1])


@every_module
@every_dtype
def test_brackets_of_columns_with_anchors_of_their_own(module: Any, dtype: type) -> None:
    """Columns with fewer anchors than others are filled up with inf; the last finite one, or one of equals, holds all above it."""
    inf = np.inf
    anchors = np.array([[0, 1, 2, 4], [0, 2, inf, inf], [5, inf, inf, inf], [1, 1, 3, 3]], dtype=dtype)
    X = np.array([[3, 1, 5, 1], [4, 2, 9, 3], [-1, 7, 0, 7]], dtype=dtype)
    codes, fractions = np.empty(X.shape, dtype=np.uint8), np.empty(X.shape, dtype=dtype)
    module.brackets(X, anchors, codes, fractions)
    np.testing.assert_array_equal(codes, [[2, 0, 0, 1], [2, 1, 0, 2], [0, 1, 0, 2]])
    np.testing.assert_array_equal(fractions, [[0.5, 0.5, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]])


@every_module
@pytest.mark.parametrize("order", ["rising", "any"])
def test_sampling_of_many_long_sparse_rows(module: Any, order: str) -> None:
    """More rows and columns than are held in the cache, many a alike, and rows whose entries are in any order: the first of equals wins."""
    rng = np.random.default_rng(26)
    n, d, count, k = 600, 3000, 40, 70
    places = np.stack([rng.choice(d, count, replace=False) for _ in range(n)])
    if order == "rising":
        places.sort(axis=1)
    indptr = np.arange(0, n * count + 1, count)
    indptr[300:] -= count  # row 299 is empty
    logs = rng.standard_normal(indptr[-1], dtype=np.float32)
    ids = rng.integers(2**64, size=d, dtype=np.uint64)
    drawn = reference.gcws_parameters(5, ids, 0, np.empty((2, d, 4, 64), dtype=np.float32))
    drawn = np.ceil(2 * drawn) / np.float32(2)
    args = (indptr, places.ravel()[: indptr[-1]], logs, drawn, ids, 5, 0, 16, True)
    exact = reference.gcws_csr(*args, np.empty((n, k), dtype=np.uint16))
    found = module.gcws_csr(*args, np.empty((n, k), dtype=np.uint16))
    np.testing.assert_array_equal(found, exact)
    assert (found[299] == 0).all()


@every_module
@every_dtype
def test_a_sweep_ends_at_the_minimum_of_each_row_in_turn(module: Any, dtype: type) -> None:
    """W stays the sum of the rows' weights, and the last row of the sweep is at its minimum: a = c y max(0, 1 - y f)."""
    rng = np.random.default_rng(3)
    for n, d, m in ((40, 12, 35), (7, 3, 16), (1, 1, 1)):
        args = CASES["coded_descent"].make(rng, dtype, n, d, m)
        before = args["a"].copy()
        module.coded_descent(**args)
        a, codes, i = args["a"].astype(np.float64), args["codes"], args["order"][-1]
        W = np.zeros(args["W"].shape)
        for p in range(d):
            np.add.at(W[p], codes[:, p], args["scale"] * a)
        tolerance = 100 * np.finfo(dtype).eps * (1 + np.abs(W).max())
        np.testing.assert_allclose(args["W"], W, rtol=0, atol=tolerance)
        f = args["b"] + args["scale"] * W[np.arange(d), codes[i]].sum(axis=0)
        np.testing.assert_allclose(
            a[i], args["c"][i] * args["Y"][i] * np.maximum(0, 1 - args["Y"][i] * f), rtol=0, atol=10 * tolerance
        )
        left = np.setdiff1d(np.arange(n), args["order"])
        np.testing.assert_array_equal(args["a"][left], before[left])
