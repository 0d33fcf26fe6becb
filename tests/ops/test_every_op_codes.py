"""Every form of the ops on codes: sampling, sums, products, levels, brackets, descent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.helpers.op_arguments import Array, reference
from tests.helpers.op_cases import CASES, check
from tests.helpers.op_forms import every_dtype, every_form, every_numpy_form


@every_form
def test_no_step_of_sampling_is_fused(form: Any) -> None:
    """With one rounding less, every second hash would have another t or another winner."""
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
        return form.gcws(logs, drawn, ids[: len(columns)], 1, 0, 16, keep_t, out)

    one, zero = np.ones(count, dtype=np.float32), np.zeros(count, dtype=np.float32)
    # log * inverse + beta is exactly 0 when each operation is rounded.
    found = codes([[inverse, -(log * inverse), one, one]], True)
    np.testing.assert_array_equal(found, codes([[zero, zero, one, one]], True))
    r = rng.uniform(0.1, 0.9, count).astype(np.float32)
    rounded = [zero, 77 * one, r, r * np.float32(77)]  # a = 0
    exact = [zero, one, one, one]  # a = 0
    np.testing.assert_array_equal(codes([rounded, exact], False), codes([exact], False))
    np.testing.assert_array_equal(codes([exact, rounded], False), codes([exact], False))


@every_form
def test_parameters_of_sampling_are_those_of_float64_logarithms(form: Any) -> None:
    """At most a millionth of the parameters differs from the reference, by one ulp."""
    ids = np.random.default_rng(20).integers(2**64, size=1000, dtype=np.uint64)
    exact = reference.gcws_parameters(2, ids, 0, np.empty((8, 1000, 4, 64), dtype=np.float32))
    found = form.gcws_parameters(2, ids, 0, np.empty_like(exact))
    assert np.mean(found != exact) <= 1e-6
    np.testing.assert_allclose(found, exact, rtol=np.finfo(np.float32).eps)


@every_form
def test_the_hashes_of_a_later_start_are_the_later_hashes(form: Any) -> None:
    rng = np.random.default_rng(21)
    ids = rng.integers(2**64, size=30, dtype=np.uint64)
    logs = rng.standard_normal((5, 30), dtype=np.float32)

    def codes(first: int, count: int) -> Array:
        drawn = form.gcws_parameters(
            4, ids, first, np.empty((-(-count // 64), 30, 4, 64), dtype=np.float32)
        )
        return form.gcws(logs, drawn, ids, 4, first, 8, True, np.empty((5, count), dtype=np.uint8))

    whole = codes(0, 200)
    for first in (1, 64, 100, 136):
        np.testing.assert_array_equal(codes(first, 200 - first), whole[:, first:])


@every_form
@every_dtype
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("blended", [False, True])
def test_codes_are_short_for_rows_of_weights(
    form: Any, dtype: type, shared: bool, blended: bool
) -> None:
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
    found = form.coded_product(codes, panels, fractions, np.empty((n, m), dtype=dtype))
    np.testing.assert_allclose(found, flat @ whole.reshape(-1, m), **close)
    found = form.coded_sums(codes, R, fractions, np.empty((places, count, m), dtype=dtype))
    np.testing.assert_allclose(found.reshape(-1, m), flat.T @ R, **close)
    found = form.coded_rows(codes, panels, fractions, np.empty((n, m * places), dtype=dtype))
    np.testing.assert_allclose(
        found, np.einsum("ica,caq->icq", weights, whole).reshape(n, -1), **close
    )


@every_form
@every_dtype
def test_many_codes_in_many_places(form: Any, dtype: type) -> None:
    """Panels larger than a group of places in the cache, and single ones larger than the cache."""
    rng = np.random.default_rng(23)
    for places, count, m in (
        (300, 256, 1),
        (70, 256, 10),
        (40, 256, 20),
        (6, 3000, 70),
        (3, 40_000, 3),
    ):
        codes = rng.integers(count - 1, size=(11, places), dtype=np.int32)
        for fractions in (None, rng.random((11, places)).astype(dtype)):
            given = {"codes": codes, "fractions": fractions}
            panels = rng.standard_normal((places, count, m)).astype(dtype)
            check(
                form,
                "coded_product",
                {**given, "panels": panels, "out": np.empty((11, m), dtype=dtype)},
            )
            out = np.empty((11, places * m), dtype=dtype)
            check(form, "coded_rows", {**given, "tables": panels, "out": out})
            R = rng.standard_normal((11, m)).astype(dtype)
            check(form, "coded_sums", {**given, "R": R, "out": np.empty_like(panels)})


@every_form
@every_dtype
@pytest.mark.parametrize("name", ["coded_product", "coded_rows"])
def test_coded_rows_are_independent(form: Any, dtype: type, name: str) -> None:
    rng = np.random.default_rng(24)
    for m in range(1, 80):
        args = CASES[name].make(rng, dtype, 13, 21, m)
        whole = getattr(form, name)(**args).copy()
        for rows in (slice(0, 1), slice(3, 8), slice(12, 13)):
            some = {k: args[k][rows] for k in ("codes", "out")}
            some["fractions"] = None if args["fractions"] is None else args["fractions"][rows]
            np.testing.assert_array_equal(getattr(form, name)(**args | some), whole[rows])


@every_form
@every_dtype
def test_nan_stays_in_the_sums_of_its_codes(form: Any, dtype: type) -> None:
    """A row that is NaN stays in the sums of its codes."""
    rng = np.random.default_rng(25)
    for m in range(1, 40):
        args = CASES["coded_sums"].make(rng, dtype, 30, 4, m)
        args["R"][3] = np.nan
        found = form.coded_sums(**args)
        expected = np.zeros(found.shape[:2], dtype=bool)
        for step in range(2 if m % 2 else 1):
            expected[np.arange(4), args["codes"][3].astype(int) + step] = True
        np.testing.assert_array_equal(np.isnan(found).all(axis=2), expected)
        np.testing.assert_array_equal(np.isnan(found).any(axis=2), expected)


@every_form
@every_dtype
@pytest.mark.parametrize("pooled", [False, True])
def test_levels_at_and_beside_every_edge(form: Any, dtype: type, pooled: bool) -> None:
    """Tables of every length to 70 and some longer ones: edges, neighbours, ends of the range."""
    info = np.finfo(dtype)
    for count in (*range(71), 127, 128, 255, 300):
        ends = np.array(
            [-info.max, -info.tiny, -info.smallest_subnormal, 0, info.smallest_subnormal, info.max],
            dtype=dtype,
        )
        edges = np.unique(np.append(ends, np.arange(count) - 7))[:count].astype(dtype)
        with np.errstate(over="ignore", under="ignore"):
            beside = [np.nextafter(edges, dtype(np.inf)), np.nextafter(edges, dtype(-np.inf))]
        values = np.concatenate(
            [edges, *beside, ends, -np.zeros(1, dtype=dtype), [-np.inf, np.inf]]
        ).astype(dtype)
        X = np.tile(values[:, None], 3)
        table = edges[None] if pooled else np.tile(edges, (3, 1))
        for inclusive in (False, True):
            found = form.levels(X, table, inclusive, np.empty(X.shape, dtype=np.uint16))
            below = edges <= values[:, None] if inclusive else edges < values[:, None]
            np.testing.assert_array_equal(found, np.tile(below.sum(axis=1)[:, None], 3))


@every_form
@every_dtype
def test_brackets_at_and_beside_every_anchor(form: Any, dtype: type) -> None:
    """An anchor has fraction 0 of its bracket, the last one 1 of the last bracket, as all above."""
    for count in (*range(2, 70), 127, 128, 129, 255, 256, 257):
        anchors = np.cumsum(1 + np.arange(count) % 3).astype(dtype)
        X = np.concatenate([anchors, anchors[:-1] + np.diff(anchors) / 4, [-5, 1e4]]).astype(dtype)[
            None
        ]
        codes, fractions = np.empty(X.shape, dtype=np.uint16), np.empty(X.shape, dtype=dtype)
        form.brackets(X, anchors[None], codes, fractions)
        last = count - 2
        order = np.arange(count - 1)
        np.testing.assert_array_equal(codes[0], [*order, last, *order, 0, last])
        np.testing.assert_array_equal(fractions[0], [*(0 * order), 1, *(0 * order + 0.25), 0, 1])


@every_form
@every_dtype
def test_brackets_of_columns_with_anchors_of_their_own(form: Any, dtype: type) -> None:
    """Columns with fewer anchors are padded with inf; the last finite anchor bounds all above."""
    inf = np.inf
    anchors = np.array(
        [[0, 1, 2, 4], [0, 2, inf, inf], [5, inf, inf, inf], [1, 1, 3, 3]], dtype=dtype
    )
    X = np.array([[3, 1, 5, 1], [4, 2, 9, 3], [-1, 7, 0, 7]], dtype=dtype)
    codes, fractions = np.empty(X.shape, dtype=np.uint8), np.empty(X.shape, dtype=dtype)
    form.brackets(X, anchors, codes, fractions)
    np.testing.assert_array_equal(codes, [[2, 0, 0, 1], [2, 1, 0, 2], [0, 1, 0, 2]])
    np.testing.assert_array_equal(fractions, [[0.5, 0.5, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]])


@pytest.mark.full
@every_form
@pytest.mark.parametrize("order", ["rising", "any"])
def test_sampling_of_many_long_sparse_rows(form: Any, order: str) -> None:
    """More rows and columns than fit into the cache, equal a, unsorted entries: the first wins."""
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
    found = form.gcws_csr(*args, np.empty((n, k), dtype=np.uint16))
    np.testing.assert_array_equal(found, exact)
    assert (found[299] == 0).all()


G = {
    "squared": lambda y, f: y - f,
    "squared_hinge": lambda y, f: y * np.maximum(0, 1 - y * f),
    "logistic": lambda y, f: y / (1 + np.exp(y * f)),
}


@every_form
@every_dtype
@pytest.mark.parametrize("loss", sorted(G))
def test_a_sweep_ends_at_the_minimum_of_each_row_in_turn(form: Any, dtype: type, loss: str) -> None:
    """W and b stay the sums of the rows' weights; the last row has a = c g(f)."""
    rng = np.random.default_rng(3)
    for n, d, m in ((40, 12, 35), (7, 3, 16), (1, 1, 1)):
        args = CASES["coded_descent"].make(rng, dtype, n, d, m) | {"loss": loss}
        args["c"] = args["c"] * dtype(30 if n == 40 else 1)
        before, b, sums = args["a"].copy(), args["b"].copy(), args["W"].copy()
        form.coded_descent(**args)
        a, codes, i = args["a"].astype(np.float64), args["codes"], args["order"][-1]
        change = a - before
        empty = np.zeros(n, bool) if args["empty"] is None else args["empty"]
        W = sums.astype(np.float64)
        for p in range(d):
            np.add.at(W[p], codes[:, p], np.where(empty[:, None], 0, args["scale"] * change))
        tolerance = 100 * np.finfo(dtype).eps * (1 + np.abs(W).max() + np.abs(a).max())
        np.testing.assert_allclose(args["W"], W, rtol=0, atol=tolerance)
        b = b + args["slope"] * change.sum(axis=0)
        np.testing.assert_allclose(args["b"], b, rtol=0, atol=tolerance)
        f = b + (not empty[i]) * args["scale"] * W[np.arange(d), codes[i]].sum(axis=0)
        np.testing.assert_allclose(
            a[i], args["c"][i] * G[loss](args["Y"][i], f), rtol=0, atol=40 * tolerance
        )
        left = np.setdiff1d(np.arange(n), args["order"])
        np.testing.assert_array_equal(args["a"][left], before[left])


@every_numpy_form
@every_dtype
@pytest.mark.parametrize("name", ["levels", "brackets"])
@pytest.mark.parametrize("shared", [True, False])
def test_codes_report_the_largest_number(form: Any, dtype: type, name: str, shared: bool) -> None:
    """It is NaN where a number, at any place, is negative or not finite; -0 is 0."""
    rng = np.random.default_rng(4)
    largest = np.empty(1, dtype)
    for n, d in ((1, 1), (1, 40), (5, 7), (17, 33), (3, 0), (0, 3)):
        X = rng.random((n, d)).astype(dtype)
        table = np.linspace(0.1, 0.9, 20, dtype=dtype)[None]
        table = table if shared else np.repeat(table, d, axis=0)
        codes, fractions = np.empty((n, d), np.uint8), np.empty((n, d), dtype)
        outputs = {"inclusive": True, "out": codes}
        if name == "brackets":
            outputs = {"codes": codes, "fractions": fractions}
        key = "edges" if name == "levels" else "anchors"

        def found(rows: Any, more: Any = outputs | {key: table}) -> float:
            getattr(form, name)(X=rows, **more, largest=largest)
            return float(largest[0])

        assert found(X) == X.max(initial=0)
        for place in np.ndindex(X.shape) if X.size < 50 else [(0, 0), (n - 1, d - 1), (n // 2, 5)]:
            for value in (-0.0, 7.5, -1e-30, np.nan, -np.nan, np.inf, -np.inf):
                changed = X.copy()
                changed[place] = value
                inside = 0 <= value < np.inf
                expected = changed.max() if inside else np.nan
                np.testing.assert_array_equal(found(changed), expected)
