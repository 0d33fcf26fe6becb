"""Every form of every op against the reference in a wider dtype: sizes, layouts, values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.helpers import torch_ops
from tests.helpers.elementwise_cases import hadamard_arrays, promise
from tests.helpers.op_arguments import Array, apart, wide
from tests.helpers.op_cases import CASES, agree, call, check, result, truth
from tests.helpers.op_forms import every_dtype, every_form, every_numpy_form, every_op

from mercer import ops
from mercer.ops import cpu


def sizes() -> Iterator[tuple[int, int, int]]:
    """Yield every size from 0 to 70 in each dimension, alone and together."""
    for k in range(71):
        yield from ((k, 5, 9), (3, k, 5), (2, 7, k), (k, 70 - k, (k * 31) % 71))
    yield from ((0, 0, 0), (70, 70, 70), (9, 129, 131), (17, 1000, 33), (2, 40, 300), (20, 40, 300))


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.full)])
@every_form
@every_dtype
@every_op
def test_all_sizes(form: Any, dtype: type, name: str, step: int) -> None:
    """Every third size has all remainders modulo the lanes of a vector, in each dimension."""
    rng = np.random.default_rng(1)
    for n, d, m in list(sizes())[:: step if form is not torch_ops else 11]:
        args = CASES[name].make(rng, dtype, n, d, m)
        try:
            check(form, name, args)
        except AssertionError as error:
            raise AssertionError(f"n = {n}, d = {d}, m = {m}: {error}") from error


@every_form
@every_dtype
@pytest.mark.parametrize("name", ["hadamard", "hadamard_cos", "hadamard_cossin"])
def test_every_power_of_two(form: Any, dtype: type, name: str) -> None:
    rng = np.random.default_rng(2)
    for p in [2**k for k in range(14)]:
        for d, m in ((p, p), (max(1, p // 2 + 1), 2 * p + 1), (min(3, p), max(1, p - 1))):
            args = CASES[name].make(rng, dtype, 2, d, m)
            args |= hadamard_arrays(rng, dtype, 2, d, m, p)
            check(form, name, args)


@every_form
@every_dtype
@pytest.mark.parametrize("name", ["hadamard_cos", "hadamard_cossin"])
def test_transforms_keep_the_promise(form: Any, dtype: type, name: str) -> None:
    """Errors relative to eps (4 + |x| |w|): rms below a quarter, above 1 for at most 1 in 500."""
    for d in (7, 33, 200, 784):
        args = CASES[name].make(np.random.default_rng(d), dtype, 40, d, 300)
        exact = truth(name, args)
        ratio = np.abs(result(form, name, args) - exact) / promise(exact, args)
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
            expected = (a["X"].astype(float) @ (H @ S[2] @ H @ S[1] @ H @ S[0]).T) * a["lengths"][
                b * p : (b + 1) * p
            ]
            found = ops.hadamard(**a, out=np.empty((3, 2 * p), dtype=dtype))[:, b * p : (b + 1) * p]
            np.testing.assert_allclose(found, expected, atol=50 * np.finfo(dtype).eps, rtol=0)
        p, H = 2 * p, np.kron([[1, 1], [1, -1]], H)


@every_form
@every_dtype
@pytest.mark.parametrize("name", ["hadamard", "hadamard_cos", "hadamard_cossin"])
def test_products_of_one_round_and_of_more_are_those_of_three(
    form: Any, dtype: type, name: str
) -> None:
    """H 1 H = p, so that rounds of ones may be added in pairs."""
    rng = np.random.default_rng(5)
    for p, m in ((4, 3), (64, 150)):
        args = CASES[name].make(rng, dtype, 3, p - 1, m) | hadamard_arrays(
            rng, dtype, 3, p - 1, m, p
        )
        args["signs"][:, 1:] = 1  # p H S
        three = result(form, name, args)
        ones = np.ones_like(args["signs"][:, :2])
        for fewer, signs in (
            (1, args["signs"][:, :1]),
            (-1, np.concatenate([args["signs"], ones], axis=1)),
        ):
            lengths = args["lengths"] * dtype(float(p) ** fewer)
            found = result(form, name, args | {"signs": signs, "lengths": lengths})
            np.testing.assert_allclose(found, three, atol=100 * np.finfo(dtype).eps, rtol=0)


# Layouts


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


@every_numpy_form
@every_dtype
@every_op
@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_layout_of_the_input_does_not_matter(
    form: Any, dtype: type, name: str, layout: str
) -> None:
    rng = np.random.default_rng(5)
    args = CASES[name].make(rng, dtype, 13, 21, 35)
    exact = truth(name, args)
    changed = {
        k: LAYOUTS[layout](a)
        if isinstance(a, np.ndarray) and k not in {"T", *CASES[name].outputs}
        else a
        for k, a in args.items()
    }
    if name == "cossin":
        changed["T"] = LAYOUTS["rows backwards" if layout == "read-only" else layout](args["T"])
        assert changed["T"].shape == args["T"].shape
        found = getattr(form, name)(**changed)
    else:
        found = result(form, name, changed)
    agree(found, exact, CASES[name].bound(exact, args))


@every_numpy_form
@every_dtype
@every_op
@pytest.mark.parametrize(
    "layout", ["gaps between rows", "rows backwards", "columns apart", "Fortran", "unaligned"]
)
def test_layout_of_the_output_does_not_matter(
    form: Any, dtype: type, name: str, layout: str
) -> None:
    rng = np.random.default_rng(6)
    args = CASES[name].make(rng, dtype, 13, 21, 35)
    exact = truth(name, args)
    views = {k: LAYOUTS[layout](args[k]) for k in CASES[name].outputs}
    found = call(form, name, {**args, **views})
    assert len(views) > 1 or found is next(iter(views.values()))
    agree(found, exact, CASES[name].bound(exact, args))


@every_numpy_form
@every_dtype
@every_op
def test_nothing_outside_out_is_written(form: Any, dtype: type, name: str) -> None:
    rng = np.random.default_rng(7)
    for n, d, m in ((1, 3, 1), (5, 6, 7), (9, 17, 33), (3, 64, 64), (8, 70, 66)):
        args = CASES[name].make(rng, dtype, n, d, m)
        guards, views = {}, {}
        for target in CASES[name].outputs:
            rows, columns, *more = args[target].shape
            guards[target] = np.full(
                (rows + 2, columns + 40 * (not more), *more), 77, dtype=args[target].dtype
            )
            views[target] = guards[target][1:-1] if more else guards[target][1:-1, 20:-20]
            views[target][...] = args[target]
        call(form, name, {**args, **views})
        for target, guard in guards.items():
            views[target][...] = 77
            assert (guard == 77).all()


@every_numpy_form
@every_op
def test_other_types_of_numbers_go_to_the_reference(form: Any, name: str) -> None:
    rng = np.random.default_rng(8)
    args = CASES[name].make(rng, np.float64, 4, 5, 6)
    if CASES[name].wider:
        args = {k: wide(a) for k, a in args.items()}
    else:
        args["out"] = np.zeros(
            args["out"].shape, dtype=np.int64 if args["out"].dtype.kind == "u" else np.float64
        )
    np.testing.assert_array_equal(
        result(form, name, args).astype(float), truth(name, args).astype(float)
    )


# Values


@every_form
@every_dtype
@pytest.mark.parametrize("name", ["cos_", "cossin", "exp2neg_"])
def test_links_at_the_ends_of_the_range(form: Any, dtype: type, name: str) -> None:
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
    numbers += [
        np.nan,
        np.inf,
        -np.inf,
        *range(-1100, 1101, 7),
        *(k + 0.4999 for k in range(-170, 171)),
    ]
    T = np.array(numbers, dtype=dtype)[None]
    for m in (T.shape[1], 3):
        args = {"T": T[:, :m], "scale": 1.0, "out": np.empty((1, 2 * m), dtype=dtype)}
        if name != "cossin":
            del args["out"]
        check(form, name, args)


@every_dtype
@pytest.mark.skipif(not cpu.available(), reason=str(cpu.why_not()))
def test_powers_of_two_are_exact(dtype: type) -> None:
    info = np.finfo(dtype)
    k = np.arange(info.minexp - info.nmant - 3, info.maxexp + 3)
    with np.errstate(all="ignore"):
        found = cpu.exp2neg_(-k[None].astype(dtype), 1.0)
        np.testing.assert_array_equal(found[0], np.ldexp(dtype(1), k))


@every_form
@every_dtype
def test_cos_and_sin_of_whole_and_half_turns(form: Any, dtype: type) -> None:
    T = np.array([[0, 0.25, 0.5, 0.75, 1, -0.25, 1e4, 12345.5]], dtype=dtype)
    found = form.cossin(T, 1.0, np.empty((1, 16), dtype=dtype)).reshape(-1, 2)
    expected = [[1, 0], [0, 1], [-1, 0], [0, -1], [1, 0], [0, -1], [1, 0], [-1, 0]]
    np.testing.assert_allclose(found, expected, atol=2 * np.finfo(dtype).eps, rtol=0)


@every_form
@every_dtype
@pytest.mark.parametrize(
    "name", ["csr_exp2neg", "csr_product", "hadamard", "hadamard_cos", "hadamard_cossin"]
)
def test_nan_stays_in_its_row(form: Any, dtype: type, name: str) -> None:
    args = CASES[name].make(np.random.default_rng(12), dtype, 6, 20, 40)
    args["data" if name.startswith("csr") else "X"].flat[0] = np.nan
    found = result(form, name, args)
    assert np.isnan(found[0]).all() and not np.isnan(found[1:]).any()
