"""Tabular: encodings of numbers, categories, dates and words, and the statistics behind them."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import mercer
from mercer import GCWS, Chi2Series, KernelClassifier, RandomFourier, Scaled, Tabular, open_stream
from mercer.data.calendar import date_parts
from mercer.data.table_schema import TableColumn, TableSchema
from mercer.maps.block import Dense
from mercer.maps.compose import scale_columns
from mercer.parallel.tile_size import override_limits
from mercer.stats.table_columns import CATEGORIES, CategoryCounts, TableColumns

N = 501


def hashes(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**52, count).astype(float)


def stream_of(X, kinds, *, weight=None):
    """Return a matrix as the stream of a table; kinds maps names to kinds, or (kind, size)."""
    pairs = {name: (kind, 1) if isinstance(kind, str) else kind for name, kind in kinds.items()}
    stream = open_stream(X).with_targets(None, weight)
    stream.schema = TableSchema(tuple(TableColumn(name, *pair) for name, pair in pairs.items()))
    return stream


def fit(X, kinds, feature_map=None, **options):
    return (feature_map or Tabular())._fit_stream(stream_of(X, kinds, **options))


def mixed(n: int = N, seed: int = 0):
    """Return a matrix with a column of each kind, and the kinds."""
    rng = np.random.default_rng(seed)
    city = hashes(6)[rng.choice(6, n, p=[0.4, 0.3, 0.15, 0.1, 0.03, 0.02])]
    city[rng.random(n) < 0.07] = np.nan
    age = rng.gamma(2.0, 10.0, n)
    age[rng.random(n) < 0.1] = np.nan
    columns = {
        "age": age,
        "pay": rng.normal(3.0, 100.0, n),
        "city": city,
        "smokes": (rng.random(n) < 0.3).astype(float),
        "day": rng.uniform(-2e9, 3e9, n),
        "street": hashes(100, 1)[rng.integers(0, 100, n)],
    }
    kinds = dict.fromkeys(("age", "pay"), "number") | {
        "city": "category",
        "smokes": "boolean",
        "day": "date",
        "street": "category",
        "words": ("text", 8),
    }
    words = rng.poisson(0.3, (n, 8)).astype(float)
    return np.column_stack([*columns.values(), words]), kinds


def decisions(fitted) -> dict[str, str]:
    return {each.name: each.action for each in fitted.decisions_}


def column(fitted, Z, name) -> np.ndarray:
    Z = Z.toarray() if hasattr(Z, "toarray") else Z
    return Z[:, list(fitted.get_feature_names_out()).index(name)]


# Equal to scikit-learn.


@pytest.mark.parametrize("fill", ["mean", "median"])
@pytest.mark.parametrize("limits", [{}, {"min_frequency": 20}, {"min_frequency": 0.05}], ids=str)
def test_features_equal_those_of_scikit_learns_column_transformer(fill, limits):
    rng = np.random.default_rng(3)
    numbers = rng.gamma(2.0, 3.0, (N, 3))
    numbers[:100, 0] = np.nan  # 401 cells left: the median is one of them
    numbers[rng.random(N) < 0.2, 1] = np.nan
    if np.count_nonzero(~np.isnan(numbers[:, 1])) % 2 == 0:
        numbers[np.flatnonzero(~np.isnan(numbers[:, 1]))[0], 1] = np.nan
    values = hashes(9)
    words = values[np.minimum(rng.geometric(0.35, (N, 2)) - 1, 8)]
    words[rng.random(N) < 0.1, 1] = np.nan
    X = np.column_stack([numbers, words])
    kinds = {"a": "number", "b": "number", "c": "number", "u": "category", "v": "category"}
    fitted = fit(X, kinds, Tabular(scale="standard", fill=fill, **limits))
    new = X[:50].copy()
    new[:7, 3] = 12345.0  # not seen
    impute = make_pipeline(SimpleImputer(strategy=fill), StandardScaler())
    onehot = OneHotEncoder(handle_unknown="infrequent_if_exist", sparse_output=False, **limits)
    reference = ColumnTransformer(
        [
            ("numbers", impute, [0, 1, 2]),
            ("missing", make_pipeline(SimpleImputer(add_indicator=True)), [0, 1, 2]),
            ("words", onehot, [3, 4]),
        ]
    ).fit(X)
    encoder = reference.named_transformers_["words"]
    for rows in (X, new):
        Z, R = fitted.transform(rows), reference.transform(rows)
        for i, name in enumerate("abc"):
            np.testing.assert_allclose(column(fitted, Z, name), R[:, i], atol=1e-12)
        for i, name in enumerate("ab"):
            np.testing.assert_array_equal(column(fitted, Z, f"{name}_missing"), R[:, 6 + i])
        names = list(fitted.get_feature_names_out())
        assert "c_missing" not in names
        for label, full in zip(encoder.get_feature_names_out(["u", "v"]), R[:, 8:].T, strict=True):
            name, _, text = label.partition("_")
            if text.startswith("infrequent"):
                own = f"{name}_infrequent"
            else:
                own = f"{name}_missing" if text == "nan" else f"{name}_{int(float(text)):x}"
            np.testing.assert_array_equal(Z[:, names.index(own)], full)
        assert len([name for name in names if name[:2] in ("u_", "v_")]) == R.shape[1] - 8


@pytest.mark.parametrize("most", [2, 4, 6])
def test_the_most_frequent_categories_are_those_that_scikit_learn_keeps(most):
    rng = np.random.default_rng(0)
    values = np.sort(hashes(12))
    X = values[rng.integers(0, 12, (240, 1))]
    X[:120, 0] = np.repeat(values, 10)  # several values of equal frequency
    fitted = fit(X, {"u": "category"}, Tabular(max_categories=most, n_hashed=0))
    reference = OneHotEncoder(
        max_categories=most, handle_unknown="infrequent_if_exist", sparse_output=False
    ).fit(X)
    expected = {
        "u_infrequent" if "infrequent" in name else f"u_{int(float(name[2:])):x}": column
        for name, column in zip(
            reference.get_feature_names_out(["u"]), reference.transform(X).T, strict=True
        )
    }
    Z = fitted.transform(X)
    assert set(fitted.get_feature_names_out()) == set(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(column(fitted, Z, name), values)


def test_robust_numbers_are_those_of_scaled():
    X, _ = mixed()
    X = X[:, [1, 3]]
    np.testing.assert_array_equal(
        Tabular().fit_transform(X[:, :1]), Scaled().fit_transform(X[:, :1])
    )


def test_missing_cells_do_not_change_the_median_and_the_spread():
    X, _ = mixed()
    present = X[:, 1:2]
    holes = np.insert(present, np.arange(0, N, 5), np.nan, axis=0)
    Z, expected = Tabular().fit_transform(holes), Scaled().fit_transform(present)
    kept = ~np.isnan(holes[:, 0])
    np.testing.assert_allclose(Z[kept, 0], expected[:, 0], rtol=1e-13)
    np.testing.assert_array_equal(Z[~kept, 0], 0.0)
    np.testing.assert_array_equal(Z[:, 1], ~kept)


# One pass, merged.


def test_chunks_threads_tiles_and_arrays_give_the_same_bits():
    X, kinds = mixed(9000)
    for options in ({}, {"scale": "standard", "fill": "mean"}):
        whole = fit(X, kinds, Tabular(**options))
        expected = whole.transform(X)
        for size in (700, 4096):
            stream = stream_of(X, kinds)
            stream.chunk_bytes = size * X.shape[1] * 8
            other = Tabular(**options)._fit_stream(stream)
            assert other.decisions_ == whole.decisions_
            np.testing.assert_array_equal(other.transform(X), expected)
        numbers = X[:, [0, 1]]
        by_stream = Tabular(**options)._fit_stream(open_stream(numbers))
        by_array = Tabular(**options).fit(numbers)
        np.testing.assert_array_equal(by_stream.transform(numbers), by_array.transform(numbers))
        with override_limits(thread_flops=0, max_tile_rows=16):
            threads = clone(whole).set_params(n_jobs=3)._fit_stream(stream_of(X, kinds))
            np.testing.assert_allclose(threads.transform(X), expected, rtol=1e-14, atol=1e-14)


def test_statistics_of_two_halves_are_those_of_the_whole():
    X, _ = mixed(4096)
    weights = np.random.default_rng(0).integers(0, 4, len(X)).astype(float)

    def statistics(*spans):
        total = None
        for start, stop in spans:
            part = TableColumns((0, 1, 3, 4), (2, 5), (4,), 1000, 0)
            for at in range(start, stop, 512):
                rows = slice(at, min(at + 512, stop))
                part.add(Dense(X[rows]), weight=weights[rows], start=at)
            total = part if total is None else total + part
        return total

    whole = statistics((0, 4096))
    for spans in (((0, 2048), (2048, 4096)), ((0, 512), (512, 3072), (3072, 4096))):
        merged = statistics(*spans)
        for name in ("present", "missing", "low", "high", "mean", "variance"):
            np.testing.assert_array_equal(
                getattr(merged.moments, name), getattr(whole.moments, name), err_msg=name
            )
        np.testing.assert_array_equal(merged.sample.rows, whole.sample.rows)
        np.testing.assert_array_equal(merged.parts.varies, whole.parts.varies)
        for mine, theirs in zip(merged.counts, whole.counts, strict=True):
            np.testing.assert_array_equal(mine.hashes, theirs.hashes)
            np.testing.assert_array_equal(mine.weights, theirs.weights)
            assert (mine.missing, mine.rows) == (theirs.missing, theirs.rows)
    kept = np.repeat(X[:, 0], weights.astype(int))
    np.testing.assert_allclose(whole.moments.mean[0], np.nanmean(kept), rtol=1e-14)
    np.testing.assert_allclose(whole.moments.variance[0], np.nanvar(kept), rtol=1e-13)
    assert whole.moments.missing[0] == np.count_nonzero(np.isnan(kept))


def test_the_variance_of_numbers_far_from_0_keeps_its_digits():
    X = 1.7e9 + np.random.default_rng(0).normal(size=(2000, 1))
    fitted = fit(X, {"x": "number"}, Tabular(scale="standard"))
    scale = fitted.tile_transform_.stages[0].scale[0]
    np.testing.assert_allclose(scale, np.std(X - 1.7e9), rtol=1e-9)


@pytest.mark.parametrize("options", [{}, {"scale": "standard", "fill": "mean"}], ids=str)
def test_a_weight_of_two_is_a_row_twice(options):
    X, kinds = mixed()
    weights = np.random.default_rng(1).integers(0, 3, len(X))
    options = {**options, "min_frequency": 15}
    weighted = fit(X, kinds, Tabular(**options), weight=weights.astype(float))
    repeated = fit(np.repeat(X, weights, axis=0), kinds, Tabular(**options))
    assert weighted.decisions_ == repeated.decisions_
    np.testing.assert_allclose(weighted.transform(X), repeated.transform(X), atol=1e-12)


def test_counts_of_more_categories_than_are_kept_do_not_depend_on_blocks():
    rng = np.random.default_rng(0)
    values = hashes(3 * CATEGORIES)[rng.integers(0, 3 * CATEGORIES, 400_000)]
    ones = np.ones(len(values))
    whole, parts, other = CategoryCounts(), CategoryCounts(), CategoryCounts()
    whole.add(values, ones)
    for at in range(0, 200_000, 10_007):
        parts.add(values[at : min(at + 10_007, 200_000)], ones[at : min(at + 10_007, 200_000)])
    other.add(values[200_000:], ones[200_000:])
    merged = parts + other
    assert whole.truncated and merged.truncated
    np.testing.assert_array_equal(merged.hashes, whole.hashes)
    np.testing.assert_array_equal(merged.weights, whole.weights)
    distinct, counts = np.unique(values, return_counts=True)
    np.testing.assert_array_equal(whole.hashes, distinct[:CATEGORIES])
    np.testing.assert_array_equal(whole.weights, counts[:CATEGORIES])
    assert abs(whole.distinct / len(distinct) - 1) < 0.02


def test_the_largest_hash_that_is_kept_is_counted_exactly():
    counts = CategoryCounts(limit=2)
    for values in ([3.0, 1.0, 2.0], [2.0, 3.0], [2.0]):
        counts.add(np.array(values), np.ones(len(values)))
    assert (counts.hashes.tolist(), counts.weights.tolist()) == ([1, 2], [1.0, 3.0])


# What is decided.


def test_columns_that_count_rows_are_found_over_many_tiles():
    n = 3000
    row, rng = np.arange(n, dtype=float), np.random.default_rng(0)
    shuffled = rng.permutation(row)
    twice = shuffled.copy()
    twice[2000] = twice[5]  # one value twice, one not at all
    X = np.column_stack(
        [
            rng.normal(size=n),
            5 - 3 * row,
            shuffled,
            np.where(row < 1024, row, row + 1),  # a step of 2 between two tiles
            np.where(row < 2560, row, 2 * row - 2560),  # another step in the last tile
            twice,
            row / 2,
        ]
    )
    dropped = [i for i, each in enumerate(Tabular().fit(X).decisions_) if not each.features]
    assert dropped == [1, 2]


def test_columns_that_say_nothing_are_dropped_and_said():
    rng = np.random.default_rng(0)
    n = 200
    names = {
        "number": rng.normal(size=n),
        "constant": np.full(n, 3.0),
        "empty": np.full(n, np.nan),
        "holes": np.where(rng.random(n) < 0.5, np.nan, 3.0),
        "counter": 7.0 - 2 * np.arange(n),
        "shuffled": 10.0 + rng.permutation(n),
        "nearly": np.where(np.arange(n) == 50, 49.0, np.arange(n)),
        "year": 2000.0 + rng.integers(0, 20, n),
        "one": np.full(n, 99.0),
        "id": hashes(n),
        "no_values": np.full(n, np.nan),
    }
    kinds = dict.fromkeys(names, "number") | dict.fromkeys(("one", "id", "no_values"), "category")
    X = np.column_stack(list(names.values()))
    fitted = fit(X, kinds)
    missing = int(np.isnan(X[:, 3]).sum())
    assert decisions(fitted) == {
        "number": "number, scaled",
        "constant": "dropped: constant",
        "empty": "dropped: all cells are missing",
        "holes": f"dropped: constant; {missing} missing have an indicator",
        "counter": "dropped: counts rows",
        "shuffled": "dropped: counts rows",
        "nearly": "number, scaled",
        "year": "number, scaled",
        "one": "dropped: constant",
        "id": "dropped: 100% of its values are distinct, as those of an id",
        "no_values": "dropped: all cells are missing",
    }
    assert list(fitted.get_feature_names_out()) == ["number", "holes_missing", "nearly", "year"]


def test_a_table_of_which_nothing_is_left_keeps_its_columns():
    X = np.column_stack([np.arange(50.0), np.full(50, 2.0), np.full(50, np.nan)])
    fitted = Tabular().fit(X)
    assert fitted.transform(X).shape[1] == 4
    assert np.isfinite(fitted.transform(X)).all()
    kinds = {"a": "category", "b": "category"}
    X = np.column_stack([hashes(100), np.full(100, 5.0)])
    assert fit(X, kinds).transform(X).shape == (100, 63 + 64 + 1)


def test_categories_are_ordered_by_frequency_and_unseen_ones_are_infrequent():
    a, b, c, d = (101.0, 55.0, 77.0, 44.0)
    X = np.array([a] * 5 + [b] * 9 + [c] * 2 + [d] + [np.nan] * 3)[:, None]
    names = [f"u_{int(value):x}" for value in (b, a)]
    fitted = fit(X, {"u": "category"}, Tabular(min_frequency=3))
    assert list(fitted.get_feature_names_out()) == [*names, "u_missing", "u_infrequent"]
    new = np.array([[a], [b], [c], [d], [np.nan], [999.0]])
    np.testing.assert_array_equal(
        fitted.transform(new),
        np.eye(4)[[1, 0, 3, 3, 2, 3]],
    )
    assert fitted.count_unseen(new) == {"u": 1}
    assert fitted.count_unseen(new[:5]) == {}
    alone = fit(X[:17], {"u": "category"})
    np.testing.assert_array_equal(alone.transform(new)[4:], 0.0)  # no infrequent feature
    assert decisions(fitted)["u"] == (
        "category, 2 values + infrequent (2 merged); 3 missing as a value"
    )


def test_of_many_categories_the_most_frequent_have_features_and_others_are_hashed():
    rng = np.random.default_rng(0)
    values = hashes(500)
    X = values[np.minimum(rng.geometric(0.01, (5000, 1)), 499)]
    X[::10] = np.nan
    fitted = fit(X, {"u": "category"}, Tabular(max_categories=9, n_hashed=32))
    Z = fitted.transform(X)
    present = ~np.isnan(X[:, 0])
    names = list(fitted.get_feature_names_out())
    counts = sorted((np.count_nonzero(value == X), value) for value in values)[::-1]
    assert names[:8] == ["u_missing", *(f"u_{int(value):x}" for _, value in counts[:7])]
    assert names[8:] == [f"u_hash{i}" for i in range(32)]
    np.testing.assert_array_equal(Z[:, 0], ~present)
    own = np.isin(X[:, 0], [value for _, value in counts[:7]])
    rest = present & ~own
    np.testing.assert_array_equal(Z[rest, 8:].argmax(axis=1), X[rest, 0].astype(int) % 32)
    np.testing.assert_array_equal(Z.sum(axis=1), 1.0)
    assert fitted.count_unseen(X) == {}
    assert fitted.count_unseen(np.array([[3.0], [np.nan], [5.0], [X[1, 0]]])) == {"u": 2}
    assert Z.shape[1] == 40
    action = (
        "category, 7 most frequent of 419 values, others hashed into 32; 500 missing as a value"
    )
    assert decisions(fitted)["u"] == action
    full = fit(X[present], {"u": "category"})
    np.testing.assert_array_equal(full.transform([[np.nan]]), 0.0)  # missing is no value to hash


def test_dates_are_points_on_circles_before_1970_and_up_to_the_year_9999():
    days = [(1, 1, 1), (1600, 2, 29), (1900, 3, 1), (1969, 12, 31), (1970, 1, 1), (2000, 2, 29)]
    days += [(2001, 3, 1), (2024, 12, 31), (9999, 12, 31)]
    moments = [datetime(*day, hour=i, minute=7, tzinfo=UTC) for i, day in enumerate(days)]
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    seconds = np.array([(moment - epoch).total_seconds() for moment in moments])
    X = np.append(seconds, np.nan)[:, None]
    fitted = fit(X, {"day": "date"})
    Z = fitted.transform(X)
    for period, name, parts in (
        (365.25, "month", [moment.timetuple().tm_yday - 1 for moment in moments]),
        (7, "weekday", [moment.weekday() for moment in moments]),
        (24, "hour", [moment.hour + moment.minute / 60 for moment in moments]),
    ):
        angle = 2 * np.pi * np.array(parts) / period
        for wave in (np.sin, np.cos):
            values = column(fitted, Z, f"day_{name}_{wave.__name__}")
            np.testing.assert_allclose(values[:-1], wave(angle), atol=1e-12)
            assert values[-1] == 0
    np.testing.assert_array_equal(column(fitted, Z, "day_missing"), np.isnan(X[:, 0]))
    assert decisions(fitted)["day"].startswith("date, scaled, month, weekday, hour; 1 missing")


def test_days_of_the_year_are_those_of_numpy_from_year_1_to_9999():
    cycle = np.arange(-80_000, 66_097)  # 400 years, every day
    days = np.concatenate([np.arange(-719_162, 2_932_897, 11), cycle, [2_932_896]])
    dates = days.astype("datetime64[D]")
    of_year = (dates - dates.astype("datetime64[Y]").astype("datetime64[D]")).astype(int)
    for second in (0.0, 86_399.5):
        day, weekday, rest = date_parts(days * 86_400.0 + second)
        np.testing.assert_array_equal(day, of_year)
        np.testing.assert_array_equal(weekday, (days + 3) % 7)
        np.testing.assert_array_equal(rest, second)


def test_only_the_parts_of_dates_that_vary_are_features():
    noon_of_mondays = 4 * 86_400 + 7 * 86_400 * np.arange(40.0)[:, None] + 43_200
    X = noon_of_mondays[np.random.default_rng(0).permutation(40)]
    assert list(fit(X, {"t": "date"}).get_feature_names_out()) == [
        "t",
        "t_month_sin",
        "t_month_cos",
    ]


def test_dates_out_of_range_are_reported():
    X = np.linspace(0, 1e9, 40)[:, None]
    fitted = fit(X, {"t": "date"})
    X[7] = 1e15
    with pytest.raises(ValueError, match=r"beyond the year 318,000: got 1e\+15 .* row 7, column 0"):
        fit(X, {"t": "date"})
    with pytest.raises(ValueError, match=r"beyond the year 318,000.* row 7, column 0"):
        fitted.transform(X)


def test_lists_and_words_are_one_column_of_many_features():
    X, kinds = mixed()
    fitted = fit(X, kinds)
    names = [f"words[{i}]" for i in range(8)]
    assert list(fitted.decisions_[-1].features) == names
    Z = fitted.transform(X)
    for i, name in enumerate(names):
        values = column(fitted, Z, name)
        np.testing.assert_allclose(values, X[:, 6 + i] / X[:, 6 + i].max() * values.max())
        assert values.min() == 0  # not centered
    rng = np.random.default_rng(0)
    lists = np.column_stack([rng.normal(size=(50, 2)), np.ones(50)])
    fitted = fit(lists, {"x": ("number", 3)})
    assert decisions(fitted) == {"x": "2 numbers, scaled; 1 constant ones dropped"}
    assert list(fitted.get_feature_names_out()) == ["x[0]", "x[1]"]


def test_decisions_are_json_and_text():
    X, kinds = mixed()
    fitted = fit(X, kinds)
    stored = json.loads(json.dumps([each.as_dict() for each in fitted.decisions_]))
    assert [each["name"] for each in stored] == list(kinds)
    assert sum(len(each["features"]) for each in stored) == fitted.transform(X).shape[1]
    lines = fitted.describe_columns().splitlines()
    assert len(lines) == 1 + len(kinds)
    assert lines[4].split() == ["smokes", "boolean", "1", "boolean"]


def test_names_of_features_are_distinct():
    X = np.random.default_rng(0).normal(size=(30, 2))
    X[3, 0] = np.nan
    names = list(fit(X, {"a": "number", "a_missing": "number"}).get_feature_names_out())
    assert names == ["a", "a_missing", "a_missing_"]


# In front of other maps.


def test_numbers_stay_as_they_are_in_front_of_histogram_maps():
    X, kinds = mixed()
    X = np.abs(X)
    for last, scaled, nonnegative in (
        (RandomFourier(8, random_state=0), True, False),
        (RandomFourier(8, gamma=1.0, random_state=0), True, False),
        (Chi2Series(), False, True),
        (GCWS(8, random_state=0), False, False),
        (GCWS(8, random_state=0) + RandomFourier(8, random_state=0), True, False),
    ):
        first = fit(X, kinds, Tabular() >> last).maps_[0]
        Z = first.transform(X)
        equal = np.array_equal(column(first, Z, "pay"), X[:, 1])
        assert equal != scaled
        assert (Z.min() >= 0) == nonnegative
        assert "date, scaled" in decisions(first)["day"]
    assert fit(X, kinds, Tabular(scale=True) >> Chi2Series()).maps_[0].transform(X).min() >= 0


def test_a_composition_has_a_kernel_and_a_certificate():
    X, kinds = mixed()
    phi = fit(X, kinds, Tabular() >> RandomFourier(256, random_state=0))
    Z = phi.transform(X[:40])
    K = phi.kernel_(X[:40])
    assert np.abs(Z @ Z.T - K).max() < 0.4
    encoded = phi.maps_[0].transform(X[:40])
    np.testing.assert_allclose(K, phi.maps_[1].kernel_(encoded), rtol=1e-12)
    certificate = mercer.certify(phi, X, random_state=0)
    assert 0 < certificate.relative < 0.3
    laplacian = fit(X, kinds, Tabular() >> RandomFourier(64, kernel="laplacian", random_state=0))
    np.testing.assert_allclose(
        laplacian.kernel_(X[:9]), laplacian.maps_[1].kernel_(encoded[:9]), rtol=1e-12
    )


def test_an_estimator_never_scales_columns_in_front_of_tabular():
    feature_map = Tabular() >> RandomFourier(8)
    assert scale_columns(feature_map, True) is feature_map
    X, kinds = mixed()
    y = (X[:, 1] > 0) & (np.nan_to_num(X[:, 0]) > 10)
    stream = stream_of(X, kinds).with_targets(y, None)
    stream.schema = stream_of(X, kinds).schema
    model = KernelClassifier(Tabular() >> RandomFourier(256), random_state=0, scale=True)
    assert model.fit(stream).score(stream) > 0.85


def test_missing_cells_are_refused_by_maps_that_do_not_begin_with_tabular():
    X, _ = mixed()
    with pytest.raises(ValueError, match=r"contains NaN"):
        (RandomFourier(8, gamma=1.0) >> Tabular()).fit(X[:, :2])
    with pytest.raises(ValueError, match=r"contains NaN"):
        (Tabular() + RandomFourier(8)).fit(X[:, :2])
    both = (Tabular() + (Tabular() >> RandomFourier(8, random_state=0))).fit(X[:, :2])
    assert np.isfinite(both.transform(X[:, :2])).all()


# Forms of features, files, sizes.


def test_wide_features_of_few_values_are_sparse():
    rng = np.random.default_rng(0)
    X = np.column_stack([hashes(60, i)[rng.integers(0, 60, 600)] for i in range(6)])
    X[::9, 0] = np.nan
    X = np.column_stack([X, rng.normal(size=600), rng.uniform(0, 1e9, 600)])
    X[5, 6] = np.nan
    kinds = {f"c{i}": "category" for i in range(6)} | {"n": "number", "t": "date"}
    for first in (Tabular(), Tabular(center=False)):
        fitted = fit(X, kinds, first)
        Z = fitted.transform(X)
        assert isinstance(Z, sp.csr_array) and Z.shape[1] > 256 and Z.has_sorted_indices
        stage = fitted.tile_transform_.stages[0]
        np.testing.assert_array_equal(Z.toarray(), stage._dense(X, None))
        assert fitted.transform(X[:1]).dtype == np.float64
        model = fit(X, kinds, clone(first) >> RandomFourier(16, random_state=0))
        np.testing.assert_allclose(
            model.transform(X), model.maps_[1].transform(Z.toarray()), atol=1e-12
        )


def test_a_saved_table_map_is_the_same_and_a_forged_one_is_refused(tmp_path):
    X, kinds = mixed()
    for fitted in (fit(X, kinds), fit(X, kinds, Tabular() >> RandomFourier(16, random_state=0))):
        path = tmp_path / "map.mercer"
        mercer.save(fitted, path)
        loaded = mercer.load(path)
        np.testing.assert_array_equal(loaded.transform(X), fitted.transform(X))
        pickled = pickle.loads(pickle.dumps(fitted))
        np.testing.assert_array_equal(pickled.transform(X), fitted.transform(X))
    fitted = fit(X, kinds)
    stage = fitted.tile_transform_.stages[0]
    assert loaded.maps_[0].schema_ == fitted.schema_
    assert loaded.maps_[0].decisions_ == fitted.decisions_
    d = X.shape[1]
    stage.check(d)
    forged = {
        "width": 2**40,
        "numbers": stage.numbers + d,
        "scale": 0 * stage.scale,
        "fill": stage.fill[1:],
        "hashes": stage.hashes[::-1].copy(),
        "features": stage.features + 10_000,
        "offsets": stage.offsets + 1,
        "dates": stage.dates + np.array([0, 0, 0, 0, 1000]),
        "categories": stage.categories + np.array([0, 1000, 0]),
        "indicators": -1 - stage.indicators,
    }
    for name, value in forged.items():
        wrong = pickle.loads(pickle.dumps(stage))
        object.__setattr__(wrong, name, value)
        with pytest.raises(ValueError, match="TableEncoding needs"):
            wrong.check(d)
    fitted.decisions_ = fitted.decisions_[:-1]
    mercer.save(fitted, path)
    with pytest.raises(ValueError, match="differ from its encoding"):
        mercer.load(path)


def test_a_worker_builds_the_same_encoding_from_the_statistics():
    X, kinds = mixed()
    fitted = fit(X, kinds)
    expected = fitted.transform(X)
    np.testing.assert_array_equal(fitted._pack()._unpack().transform(X), expected)
    statistics = fitted.required_statistics(X.shape[1])
    statistics.add(Dense(X))
    rebuilt = pickle.loads(pickle.dumps(statistics))
    chain = fitted.build(None, X.shape[1], rebuilt)
    np.testing.assert_array_equal(chain(X).toarray(), expected)


def test_a_dask_array_with_missing_cells():
    array = pytest.importorskip("dask.array")
    X = mixed()[0][:, :2]
    lazy = array.from_array(X, chunks=(100, 2))
    fitted = Tabular().fit(lazy)
    np.testing.assert_array_equal(fitted.transform(X), Tabular().fit_transform(X))
    np.testing.assert_array_equal(fitted.transform(lazy).compute(), fitted.transform(X))


def test_float32_rows_are_refused_where_they_lose_hashes():
    X, kinds = mixed()
    with pytest.raises(ValueError, match="needs float64 rows"):
        fit(X, kinds).transform(X.astype(np.float32))


def test_infinite_numbers_are_refused():
    X, kinds = mixed()
    fitted = fit(X, kinds)
    X[11, 1] = -np.inf
    with pytest.raises(ValueError, match=r"needs finite numbers, got -inf at row 11, column 1"):
        fitted.transform(X)
    with pytest.raises(ValueError, match=r"needs finite numbers, got -inf at .*row 11, column 1"):
        fit(X, kinds)


@pytest.mark.full
def test_a_million_categories_take_bounded_memory():
    X = hashes(1_000_000)[:, None]
    both = fit(np.column_stack([X, X % 7]), {"id": "category", "x": "number"})
    assert decisions(both)["id"].startswith("dropped: 100% of its values are distinct")
    assert fit(X, {"id": "category"}).transform(X[:5]).shape == (5, 64)  # nothing else is left
    twice = np.tile(X[:300_000], (2, 1))
    hashed = fit(twice, {"id": "category"})
    assert "values hashed into 64" in decisions(hashed)["id"]
    arrays = hashed.tile_transform_.arrays().values()
    assert sum(array.nbytes for array in arrays) < 10_000


@pytest.mark.full
def test_ten_thousand_columns():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 10_000))
    X[rng.random(X.shape) < 0.001] = np.nan
    fitted = Tabular().fit(X)
    Z = fitted.transform(X)
    assert Z.shape[1] == 10_000 + np.isnan(X).any(axis=0).sum()
    np.testing.assert_allclose(np.median(column(fitted, Z, "x7")), 0, atol=1e-1)


def test_weights_of_0_leave_cells_out_of_the_moments():
    X, _ = mixed(1024)
    weights = np.random.default_rng(2).integers(0, 2, len(X)).astype(float)
    weights[512:1000] = 0.0
    part = TableColumns((0, 1, 3, 4), (2, 5), (4,), 1000, 0)
    for at in (0, 512):
        part.add(Dense(X[at : at + 512]), weight=weights[at : at + 512], start=at)
    kept = X[weights > 0][:, [0, 1, 3, 4]]
    np.testing.assert_array_equal(part.moments.low, np.nanmin(kept, axis=0))
    np.testing.assert_array_equal(part.moments.high, np.nanmax(kept, axis=0))
    np.testing.assert_array_equal(part.moments.missing, np.isnan(kept).sum(axis=0))
    np.testing.assert_allclose(part.moments.mean, np.nanmean(kept, axis=0), rtol=1e-14)
    np.testing.assert_allclose(part.moments.variance, np.nanvar(kept, axis=0), rtol=1e-12)


def test_hashes_that_share_a_remainder_are_counted_apart():
    values = 4096.0 * np.arange(1, 200) + 7
    counts = CategoryCounts()
    for repeat in (1, 2):
        counts.add(np.repeat(values, repeat), np.ones(len(values) * repeat))
    np.testing.assert_array_equal(counts.hashes, values)
    np.testing.assert_array_equal(counts.weights, 3.0)
