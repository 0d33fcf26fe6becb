"""Every statistic: the merged statistics of two halves are those of the whole."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from mercer import accumulate
from mercer.maps.block import Dense, Sparse, as_block
from mercer.stats.base import CombinedStatistics
from mercer.stats.basic import ColumnSpread, Range, Reservoir, Spread
from mercer.stats.histogram import ColumnHistogram, Histogram
from mercer.stats.moments import Moments

MAKERS = {
    "range": Range,
    "spread": Spread,
    "spread by column": ColumnSpread,
    "histogram": Histogram,
    "reservoir": lambda: Reservoir(7, seed=3),
    "moments": Moments,
    "histogram by column": ColumnHistogram,
    "together": lambda: CombinedStatistics(Range(), Spread()),
}


def rows(seed: int, n: int = 40, d: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)


def facts(summary) -> dict[str, np.ndarray]:
    if isinstance(summary, Range):
        return {"low": summary.low, "high": summary.high, "rows": summary.rows}
    if isinstance(summary, Spread):
        return {"count": summary.count, "mean": summary.mean, "variance": summary.variance}
    if isinstance(summary, ColumnSpread):
        return {"count": summary.count, "mean": summary.mean, "deviation": summary.deviation}
    if isinstance(summary, Histogram):
        values, weights = summary.centers()
        return {
            "values": values,
            "weights": weights,
            "zeros": summary.zeros,
            "negatives": summary.negatives,
            "low": summary.low,
            "high": summary.high,
        }
    if isinstance(summary, ColumnHistogram):
        return {name: getattr(summary, name) for name in ("keys", "weights", "sums", "low", "high")}
    if isinstance(summary, Reservoir):
        kept = summary.rows
        return {"keys": summary.keys, "rows": kept.toarray() if hasattr(kept, "toarray") else kept}
    if isinstance(summary, CombinedStatistics):
        return {
            f"{name}.{key}": value
            for name, part in enumerate(summary.parts)
            for key, value in facts(part).items()
        }
    assert isinstance(summary, Moments)
    return {
        name: getattr(summary, name)
        for name in ("rows", "n", "mean", "scatter", "target_mean", "target_scatter", "cross")
    }


def summary_of(name, X, y, w, start=0, sparse=False):
    summary = MAKERS[name]()
    summary.add((Sparse(sp.csr_array(X)) if sparse else Dense(X)), y=y, weight=w, start=start)
    return summary


def agree(a, b, tolerance=1e-10):
    for name, value in facts(a).items():
        np.testing.assert_allclose(
            value, facts(b)[name], rtol=tolerance, atol=tolerance, err_msg=name
        )


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@given(seed=st.integers(0, 10**6), cut=st.integers(1, 39), weighted=st.booleans())
def test_halves_merged_are_the_whole(name, sparse, seed, cut, weighted):
    X, y = rows(seed), np.random.default_rng(seed).normal(size=(40, 2))
    w = np.random.default_rng(seed + 1).integers(0, 4, 40).astype(float) if weighted else None
    if weighted:
        w[[0, 39]] = 1.0
    parts = [
        (X[:cut], y[:cut], None if w is None else w[:cut], 0),
        (X[cut:], y[cut:], None if w is None else w[cut:], cut),
    ]
    first, second = (summary_of(name, *part, sparse=sparse) for part in parts)
    whole = summary_of(name, X, y, w, sparse=sparse)
    before = facts(first)
    agree(first + second, whole)
    for key, value in before.items():  # a merge leaves its parts alone
        np.testing.assert_array_equal(facts(first)[key], value)
    one_by_one = MAKERS[name]()
    for part, target, weight, start in parts:
        one_by_one.add(Dense(part), y=target, weight=weight, start=start)
    agree(one_by_one, whole)


@pytest.mark.parametrize("name", [name for name in MAKERS if name != "reservoir"])
@given(seed=st.integers(0, 10**6))
def test_a_weight_is_a_number_of_equal_rows(name, seed):
    X, y = rows(seed), np.random.default_rng(seed).normal(size=(40, 1))
    w = np.random.default_rng(seed + 1).integers(0, 4, 40)
    weighted = summary_of(name, X, y, w.astype(float))
    repeated = summary_of(name, np.repeat(X, w, axis=0), np.repeat(y, w, axis=0), None)
    for key, value in facts(repeated).items():
        if key not in ("rows", "0.rows"):
            np.testing.assert_allclose(
                facts(weighted)[key], value, rtol=1e-10, atol=1e-10, err_msg=key
            )


def test_range_and_spread_are_those_of_numpy():
    X = rows(0)
    seen, spread = accumulate(X, Range()), accumulate(sp.csr_array(X), Spread())
    np.testing.assert_array_equal(seen.low, X.min(axis=0))
    np.testing.assert_array_equal(seen.high, X.max(axis=0))
    assert spread.variance == pytest.approx(X.var(), rel=1e-13)
    assert spread.mean == pytest.approx(X.mean(), rel=1e-13)
    for source in (X, sp.csr_array(X)):
        columns = accumulate(source, ColumnSpread())
        np.testing.assert_allclose(columns.deviation, X.std(axis=0), rtol=1e-13)
        np.testing.assert_allclose(columns.mean, X.mean(axis=0), rtol=1e-12, atol=1e-16)


def test_spread_keeps_its_digits_far_from_zero():
    X = rows(0).astype(np.float32) + np.float32(3e4)
    assert accumulate(X, Spread()).variance == pytest.approx(X.astype(np.float64).var(), rel=1e-10)


def test_histogram_has_every_value_in_a_bin_around_it():
    X = np.array([[1.0, 2.0, 0.0, -3.0], [1e-300, 5e-324, 1e300, 1.01]])
    seen = Histogram(per_octave=16)
    seen.add(Dense(X))
    values, weights = seen.centers()
    assert (seen.zeros, seen.negatives, weights.sum()) == (1.0, 1.0, 6.0)
    positive = np.sort(X[X > 0])
    nearest = np.array([values[np.argmin(np.abs(np.log2(values) - np.log2(v)))] for v in positive])
    assert np.abs(np.log2(nearest / positive)).max() <= 1 / 16
    with pytest.raises(ValueError, match="do not merge"):
        seen + Histogram(per_octave=8)


def test_histograms_by_column_are_those_of_the_columns():
    X = rows(0)
    X[:, 1] = 0
    for some in (X, sp.csr_array(X)):
        seen = accumulate(some, ColumnHistogram())
        np.testing.assert_array_equal(seen.column(1), [[0.0], [len(X)]])
        np.testing.assert_array_equal(seen.low, X.min(axis=0))
        np.testing.assert_array_equal(seen.high, X.max(axis=0))
        for column in (0, 2):
            values, weights = seen.column(column)
            assert weights.sum() == len(X)
            assert weights @ values == pytest.approx(X[:, column].sum())
            assert np.all(np.diff(values) > 0)
            expected = accumulate(np.abs(X[:, [column]]), Histogram()).centers()
            magnitudes, counts = accumulate(
                X[:, [column]], ColumnHistogram(magnitudes=True)
            ).column(0)
            np.testing.assert_allclose(
                magnitudes[magnitudes > 0], expected[0], rtol=2 ** (1 / 16) - 1
            )
            np.testing.assert_array_equal(counts[magnitudes > 0], expected[1])


def test_reservoir_is_a_uniform_sample_that_does_not_depend_on_blocks():
    counts = np.zeros(20)
    X = np.arange(20.0)[:, None]
    for seed in range(600):
        sample = (
            accumulate([Dense(X[:7]), Dense(X[7:])], Reservoir(5, seed)).rows.ravel().astype(int)
        )
        assert len(set(sample)) == 5
        counts[sample] += 1
    assert np.abs(counts / 600 - 0.25).max() < 4 * np.sqrt(0.25 * 0.75 / 600)
    np.testing.assert_array_equal(
        accumulate(X, Reservoir(5, 0)).rows,
        accumulate([Dense(X[:3]), Dense(X[3:])], Reservoir(5, 0)).rows,
    )


def test_reservoir_takes_heavy_rows_more_often():
    w = np.array([0.0, 1.0, 3.0])
    picks = [summary_of_weighted(w, seed) for seed in range(800)]
    assert 0 not in picks
    assert np.mean(np.array(picks) == 2) == pytest.approx(0.75, abs=4 * np.sqrt(0.75 * 0.25 / 800))


def summary_of_weighted(w: np.ndarray, seed: int) -> int:
    sample = Reservoir(1, seed)
    sample.add(Dense(np.arange(3.0)[:, None]), weight=w)
    return int(sample.rows[0, 0])


def test_moments_are_those_of_numpy():
    X, y = rows(0), np.random.default_rng(1).normal(size=40)
    seen = Moments()
    seen.add(Dense(X[:11]), y=y[:11])
    seen.add(Dense(X[11:]), y=y[11:])
    centered = X - X.mean(axis=0)
    np.testing.assert_allclose(seen.mean, X.mean(axis=0), atol=1e-13)
    np.testing.assert_allclose(seen.scatter, centered.T @ centered, atol=1e-12)
    np.testing.assert_allclose(seen.cross[:, 0], centered.T @ (y - y.mean()), atol=1e-12)
    np.testing.assert_allclose(seen.target_scatter[0, 0], ((y - y.mean()) ** 2).sum(), rtol=1e-13)


@given(seed=st.integers(0, 10**6), cut=st.integers(1, 38))
def test_a_fold_can_be_subtracted(seed, cut):
    X, y = rows(seed), np.random.default_rng(seed).normal(size=(40, 2))
    whole, fold_ = summary_of("moments", X, y, None), summary_of("moments", X[:cut], y[:cut], None)
    agree(whole - fold_, summary_of("moments", X[cut:], y[cut:], None), 1e-9)


def test_float32_moments_keep_the_spread_of_columns_far_from_zero():
    """H - m m'/n in float32 loses everything when the mean is large: 42% relative error in the
    trial this guards against.
    """
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(5000, 4)) + 3000).astype(np.float32)
    exact = np.cov(X.astype(np.float64).T, bias=True) * len(X)
    seen = accumulate([Dense(X[:1000]), Dense(X[1000:])], Moments())
    np.testing.assert_allclose(seen.scatter, exact, rtol=2e-5, atol=2e-5 * exact.max())
    naive = X.T @ X - np.outer(X.sum(axis=0), X.mean(axis=0))
    assert np.abs(naive - exact).max() > 0.1 * exact.max()


def test_moments_that_do_not_fit_together_say_so():
    with pytest.raises(ValueError, match="are empty"):
        _ = Moments().mean
    with pytest.raises(ValueError, match="were given no target"):
        _ = accumulate(rows(0), Moments()).cross
    with pytest.raises(ValueError, match="do not combine"):
        accumulate(rows(0), Moments()) + accumulate(rows(0, d=2), Moments())
    with pytest.raises(ValueError, match="cannot be subtracted from"):
        Moments() - accumulate(rows(0), Moments())
    agree_rows = (Moments() + accumulate(rows(0), Moments())).rows
    assert agree_rows == 40


def test_accumulate_takes_arrays_matrices_and_blocks_and_nothing_else():
    X = rows(0)
    for source in (X, sp.csr_array(X), [Dense(X[:9]), Dense(X[9:])]):
        assert accumulate(source, Spread()).count == X.size
    with pytest.raises(TypeError, match=r"needs an array, a CSR matrix or blocks .* got a int"):
        accumulate([3], Spread())


@pytest.mark.parametrize("name", MAKERS)
def test_integers_and_booleans_are_numbers(name):
    counts = np.random.default_rng(0).integers(0, 10, (40, 3))
    for kind in (np.int64, np.uint8, bool):
        typed = counts.astype(kind)
        summary, expected = (
            accumulate(typed, MAKERS[name]()),
            accumulate(typed.astype(float), MAKERS[name]()),
        )
        if name == "moments":
            np.testing.assert_allclose(summary.mean, expected.mean)
            np.testing.assert_allclose(summary.scatter, expected.scatter)
        else:
            agree(summary, expected)


def test_a_merge_with_nothing_is_a_copy():
    X = rows(0)
    whole = accumulate(X, Moments())
    scatter = whole.scatter
    for merged in (whole + Moments(), Moments() + whole, whole - Moments()):
        merged.add(Dense(X))
        np.testing.assert_array_equal(whole.scatter, scatter)


def test_targets_far_from_zero_keep_their_spread():
    X, y = rows(0), 1e9 + np.random.default_rng(0).normal(size=40)
    seen = summary_of("moments", X, y, None)
    assert seen.target_scatter[0, 0] == pytest.approx(((y - y.mean()) ** 2).sum(), rel=1e-6)


def test_a_mean_that_wanders_costs_no_digits_in_float32():
    rng = np.random.default_rng(0)
    blocks = [
        Dense((rng.normal(size=(500, 2)) + (0 if i == 0 else 1e4)).astype(np.float32))
        for i in range(10)
    ]
    later = accumulate(blocks, Moments()) - accumulate(blocks[:1], Moments())
    exact = np.concatenate([block.toarray() for block in blocks[1:]]).astype(np.float64)
    np.testing.assert_allclose(np.diag(later.scatter) / 4500, exact.var(axis=0), rtol=1e-4)


def test_float32_products_do_not_overflow():
    X = (1e20 * rows(0)).astype(np.float32)
    assert np.isfinite(accumulate(X, Moments()).scatter).all()


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (
            {"X": rows(0), "y": np.ones(40)},
            {"X": rows(0)},
            "3 columns and 1 targets do not combine with rows of 3 columns and 0",
        ),
        (
            {"X": rows(0)},
            {"X": rows(0, d=1)},
            "3 columns and 0 targets do not combine with rows of 1 columns",
        ),
        ({"X": rows(0)}, {"X": rows(0), "y": np.ones(80)}, "needs 40 targets"),
        ({"X": rows(0)}, {"X": rows(0), "weight": np.ones(1)}, "needs 40 finite weights"),
        (
            {"X": rows(0)},
            {"X": rows(0), "weight": np.full(40, -1.0)},
            "finite weights of at least 0",
        ),
        (
            {"X": rows(0)},
            {"X": rows(0), "weight": np.full(40, np.nan)},
            "finite weights of at least 0",
        ),
    ],
)
def test_blocks_that_do_not_fit_are_refused(first, second, words):
    seen = Moments()
    seen.add(Dense(first["X"]), y=first.get("y"))
    with pytest.raises(ValueError, match=words):
        seen.add(Dense(second["X"]), y=second.get("y"), weight=second.get("weight"))


def test_sparse_and_dense_blocks_mix():
    X = rows(0)
    for name in MAKERS:
        mixed = MAKERS[name]()
        for part, start in (
            (Sparse(sp.csr_array(X[:15])), 0),
            (Dense(X[15:20]), 15),
            (Sparse(sp.csr_array(X[20:])), 20),
        ):
            mixed.add(part, y=np.zeros(part.shape[0]), start=start)
        agree(mixed, summary_of(name, X, np.zeros(40), None))


def test_equal_values_have_exactly_no_spread():
    for value in (0.1, 7.3, 1e-3):
        assert accumulate(np.full((3000, 7), value), Spread()).variance == 0.0
        assert accumulate(sp.csr_array(np.full((300, 7), value)), Spread()).variance == 0.0
        assert not accumulate(np.full((3000, 7), value), ColumnSpread()).deviation.any()


def test_accumulate_takes_what_users_have():
    import pandas as pd

    X = rows(0)
    halves = sp.csr_array(
        (np.repeat(X.ravel() / 2, 2), np.tile(np.repeat(np.arange(3), 2), 40), np.arange(41) * 6),
        shape=(40, 3),
    )
    for source in (pd.DataFrame(X), sp.csc_array(X), halves):
        assert accumulate(source, Spread()).variance == pytest.approx(X.var(), rel=1e-12)
    with pytest.raises(
        ValueError, match="accumulate needs 2-d arrays of real numbers, got 2-d of object"
    ):
        accumulate(np.array([["a"]], dtype=object), Spread())
    with pytest.raises(ValueError, match="is empty"):
        _ = Reservoir(3, 0).rows


def test_the_frequencies_of_a_sample_are_the_weights_of_all_rows_or_1():
    X, w = np.arange(6.0)[:, None], np.array([1.0, 0.0, 2.0, 0.5, 3.0, 1.0])
    whole = Reservoir(5, 0)
    whole.add(as_block(X[:4]), weight=w[:4])
    rest = Reservoir(5, 0)
    rest.add(as_block(X[4:]), weight=w[4:], start=4)
    merged = whole + rest
    np.testing.assert_array_equal(merged.frequencies, w[merged.rows[:, 0].astype(int)])
    part = Reservoir(4, 0)
    part.add(as_block(X), weight=w)
    np.testing.assert_array_equal(part.frequencies, np.ones(4))
