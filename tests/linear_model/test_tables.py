"""Estimators of tables: mixed data frames, Arrow tables and files."""

import datetime as dt
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from mercer import (
    Identity,
    KernelClassifier,
    KernelRegressor,
    RandomFourier,
    Tabular,
    load,
    open_stream,
    save,
)
from mercer.data.stream import CHUNK_BYTES
from mercer.data.table_schema import TableColumn
from mercer.errors import RowError

pl = pytest.importorskip("polars", reason="polars is not installed: pip install --group dev")

ROWS = 300
_random = np.random.default_rng(0)
_age = _random.integers(18, 80, ROWS).astype(float)
_city = np.array(["Oslo", "Rome", "Paris"])[_random.integers(0, 3, ROWS)]
_flag = _random.random(ROWS) < 0.5
LABELS = np.where((_city == "Oslo") ^ _flag, "in", "out")
INCOME = _age + 10 * (_city == "Rome") + 5 * _flag
FRAME = pd.DataFrame(
    {
        "age": np.where(np.arange(ROWS) % 7, _age, np.nan),
        "city": np.where(np.arange(ROWS) % 11, _city, None),
        "since": [dt.datetime(2024, 1, 1) + dt.timedelta(days=int(i)) for i in _age],
        "member": _flag,
        "key": [f"u{i}" for i in range(ROWS)],
    }
)
NUMBERS = FRAME[["age", "member"]].assign(noise=_random.normal(size=ROWS))
TRAIN, TEST = slice(0, 200), slice(200, ROWS)
IN_MEMORY = {
    "pandas": FRAME,
    "nullable": FRAME.convert_dtypes(),
    "categories": FRAME.astype({"city": pd.CategoricalDtype(["Bern", "Oslo", "Paris", "Rome"])}),
    "polars": pl.DataFrame(FRAME),
    "arrow": pa.Table.from_pandas(FRAME),
}


def classifier(**parameters):
    return KernelClassifier(RandomFourier(64), random_state=0, **parameters)


def part(table, rows):
    if isinstance(table, pa.Table):
        return table.slice(rows.start, rows.stop - rows.start)
    return table[rows]


@pytest.fixture(params=["csv", "parquet", "feather", "jsonl"])
def path(request, tmp_path):
    frame = FRAME.assign(label=LABELS)
    path = tmp_path / f"people.{request.param}"
    if request.param == "csv":
        frame.to_csv(path, index=False)
    elif request.param == "parquet":
        frame.to_parquet(path)
    elif request.param == "feather":
        frame.to_feather(path)
    else:
        frame.to_json(path, orient="records", lines=True, date_format="iso")
    return path


@pytest.mark.parametrize("name", IN_MEMORY)
def test_mixed_tables_in_memory(name):
    table = IN_MEMORY[name]
    model = classifier().fit(part(table, TRAIN), LABELS[TRAIN])
    assert model.score(part(table, TEST), LABELS[TEST]) > 0.85
    assert model.feature_names_in_.tolist() == list(FRAME.columns)
    assert model.n_features_in_ == 5
    assert isinstance(model.feature_map_.maps_[0], Tabular)
    words = "Columns encoded by Tabular: 1 number, 1 boolean, 2 categories, 1 date; 1 dropped."
    assert words in str(model.plan_)
    expected = classifier().fit(FRAME[TRAIN], LABELS[TRAIN])
    np.testing.assert_array_equal(model.decision_function(table), expected.decision_function(FRAME))


def test_files_and_frames_give_one_model(path):
    stream = open_stream(path, target="label")
    assert stream.schema.describe() == "1 number, 1 boolean, 2 categories, 1 date"
    model = classifier().fit(stream)
    expected = classifier().fit(FRAME, LABELS)
    np.testing.assert_array_equal(model.decision_function(path), expected.decision_function(FRAME))
    assert model.score(stream) == expected.score(FRAME, LABELS)
    np.testing.assert_array_equal(expected.predict(path), model.predict(FRAME))


def test_a_model_of_a_table_is_saved_and_loaded(tmp_path):
    model = classifier().fit(FRAME, LABELS)
    save(model, tmp_path / "m.mercer")
    again = load(tmp_path / "m.mercer")
    assert again.schema_ == model.schema_
    assert str(again.plan_) == str(model.plan_)
    np.testing.assert_array_equal(again.decision_function(FRAME), model.decision_function(FRAME))


def test_columns_are_found_by_name(tmp_path):
    model = classifier().fit(FRAME, LABELS)
    expected = model.predict(FRAME)
    turned = FRAME[FRAME.columns[::-1]].assign(extra=[[1]] * ROWS, other="x")
    turned.to_parquet(tmp_path / "turned.parquet")
    for source in (
        turned,
        pl.DataFrame(turned),
        pa.Table.from_pandas(turned),
        tmp_path / "turned.parquet",
    ):
        np.testing.assert_array_equal(model.predict(source), expected)
        assert model.score(source, LABELS) == model.score(FRAME, LABELS)


def test_missing_columns_are_named_with_the_nearest(tmp_path):
    model = classifier().fit(FRAME, LABELS)
    other = FRAME.drop(columns="key").rename(columns={"city": "City"})
    other.to_csv(tmp_path / "other.csv", index=False)
    for source in (other, pl.DataFrame(other), pa.table(other), tmp_path / "other.csv"):
        with pytest.raises(ValueError, match=r"needs 'city' \(did you mean 'City'\?\), 'key', whi"):
            model.predict(source)


def test_files_of_numbers_are_matched_by_name(tmp_path):
    frame = pd.DataFrame(_random.normal(size=(50, 3)), columns=["a", "b", "c"])
    model = KernelRegressor(RandomFourier(16), random_state=0).fit(frame, frame["a"])
    frame.assign(word="x", b=frame["b"])[["c", "word", "b", "a"]].to_csv(tmp_path / "n.csv")
    np.testing.assert_allclose(model.predict(tmp_path / "n.csv"), model.predict(frame), rtol=1e-12)
    frame[["a", "c"]].assign(B=1.0).to_parquet(tmp_path / "n.parquet")
    with pytest.raises(
        ValueError, match=r"n.parquet: KernelRegressor needs 'b' \(did you mean 'B'"
    ):
        model.predict(tmp_path / "n.parquet")


def test_values_that_do_not_fit_are_refused_by_row():
    model = classifier().fit(FRAME, LABELS)
    odd = FRAME.assign(age=FRAME["age"].astype(object))
    odd.loc[123, "age"] = "old"
    with pytest.raises(RowError, match=r"Column 'age' has numbers, got 'old' at row 123") as error:
        model.predict(odd)
    assert error.value.row == 123
    with pytest.raises(RowError, match=r"Column 'since' has dates, got 5 at row 0"):
        model.predict(FRAME.assign(since=5))
    blank = FRAME.assign(age="", city="", since=None)
    assert model.predict(blank).shape == (ROWS,)


def test_other_rows_than_tables_are_refused():
    model = classifier().fit(FRAME, LABELS)
    words = r"was fitted on a table \(1 number, 1 boolean, 2 categories, 1 date\): give a data fr"
    with pytest.raises(ValueError, match=f"{words}.*got ndarray"):
        model.predict(np.zeros((2, 5)))
    with pytest.raises(ValueError, match=f"{words}.*got list"):
        model.predict([[0.0] * 5])
    words = r"opened with columns of other kinds \(1 number, 1 boolean, 3 categories\).*schema=mod"
    with pytest.raises(ValueError, match=words):
        model.predict(open_stream(FRAME, kinds={"since": "category"}))
    np.testing.assert_array_equal(
        model.predict(open_stream(FRAME, schema=model.schema_)), model.predict(FRAME)
    )
    numeric = KernelRegressor(RandomFourier(16), random_state=0).fit(
        NUMBERS[["member", "noise"]], INCOME
    )
    words = r"has columns that are no numbers \(1 number, 1 category\), and KernelRegressor was fit"
    with pytest.raises(ValueError, match=words):
        numeric.predict(open_stream(FRAME[["city", "age"]]))
    with pytest.raises(AttributeError, match="was not fitted on a table"):
        numeric.schema_  # noqa: B018


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "csv", "parquet"])
@pytest.mark.parametrize("feature_map", ["fourier", "linear"])
def test_numbers_with_missing_cells_are_encoded(kind, feature_map, tmp_path):
    frame = NUMBERS.assign(income=INCOME)
    model = KernelRegressor(feature_map, random_state=0)
    if kind in ("csv", "parquet"):
        path = tmp_path / f"n.{kind}"
        frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
        model.fit(open_stream(path, target="income"))
    else:
        table = {"pandas": NUMBERS, "polars": pl.DataFrame(NUMBERS), "arrow": pa.table(NUMBERS)}
        model.fit(table[kind], INCOME)
        path = table[kind]
    assert model.schema_.describe() == "2 numbers, 1 boolean"
    assert "Columns encoded by Tabular: 2 numbers, 1 boolean." in str(model.plan_)
    predictions = model.predict(NUMBERS[["noise", "member", "age"]])
    np.testing.assert_array_equal(model.predict(path), predictions)
    given = Tabular() >> (Identity() if feature_map == "linear" else RandomFourier())
    expected = KernelRegressor(given, random_state=0).fit(NUMBERS, INCOME)
    np.testing.assert_array_equal(predictions, expected.predict(NUMBERS))
    with pytest.warns(UserWarning, match="valid feature names"):
        array = model.predict(NUMBERS.to_numpy(dtype=float))
    np.testing.assert_array_equal(array, predictions)


def test_numbers_without_missing_cells_are_not_encoded():
    whole = NUMBERS.assign(age=_age)
    model = KernelRegressor(RandomFourier(32), random_state=0).fit(whole, INCOME)
    assert model.plan_.encoded == ""
    assert model.plan_.scaled
    array = KernelRegressor(RandomFourier(32), random_state=0).fit(
        whole.to_numpy(dtype=float), INCOME
    )
    np.testing.assert_array_equal(model.feature_coef_, array.feature_coef_)


def test_arrays_with_missing_cells_are_refused():
    with pytest.raises(ValueError, match=r"Input X contains NaN.* row 0, column 0"):
        KernelRegressor("fourier").fit(NUMBERS.to_numpy(dtype=float), INCOME)


def test_a_checkpoint_of_a_table_with_missing_cells(tmp_path):
    NUMBERS.assign(income=INCOME).to_csv(tmp_path / "n.csv", index=False)
    fits = [
        KernelRegressor("linear", scale=False, alpha=1.0, checkpoint=checkpoint).fit(
            open_stream(tmp_path / "n.csv", target="income")
        )
        for checkpoint in (None, tmp_path / "c", tmp_path / "c")
    ]
    for model in fits:
        np.testing.assert_array_equal(model.feature_coef_, fits[0].feature_coef_)


def test_partial_fit_of_tables():
    model = KernelRegressor(RandomFourier(32), random_state=0)
    model.partial_fit(FRAME[:150], INCOME[:150]).partial_fit(FRAME[150:], INCOME[150:])
    assert model.n_samples_seen_ == ROWS
    assert model.score(FRAME, INCOME) > 0.8
    numbers = KernelRegressor(RandomFourier(32), random_state=0)
    numbers.partial_fit(NUMBERS[:150], INCOME[:150]).partial_fit(NUMBERS[150:], INCOME[150:])
    assert numbers.schema_.describe() == "2 numbers, 1 boolean"


def test_several_maps_side_by_side_have_encodings_of_their_own():
    model = KernelClassifier(["fourier", "chi2-series"], random_state=0).fit(FRAME, LABELS)
    assert [type(part.maps_[0]) for part in model.feature_map_.maps_] == [Tabular, Tabular]
    assert model.score(FRAME, LABELS) > 0.9
    assert model.zero_maps_ == []


def test_a_map_that_begins_with_tabular_is_kept():
    given = Tabular(max_categories=2, n_hashed=0) >> RandomFourier(16)
    model = KernelClassifier(given, random_state=0).fit(FRAME, LABELS)
    assert len(model.feature_map_.maps_) == 2
    assert model.feature_map_.maps_[0].max_categories == 2


@pytest.mark.parametrize(("scale", "kept"), [(False, False), (True, "robust"), ("auto", "auto")])
def test_scale_is_that_of_the_encoding(scale, kept):
    model = KernelClassifier(RandomFourier(16), scale=scale, random_state=0).fit(FRAME, LABELS)
    assert model.feature_map_.maps_[0].scale == kept


def test_class_weights_and_sample_weights():
    weights = np.where(np.arange(ROWS) % 2, 1.0, 2.0)
    for options in ({"class_weight": "balanced"}, {"class_weight": {"in": 2.0}}, {}):
        model = classifier(**options).fit(FRAME, LABELS, sample_weight=weights)
        assert model.score(FRAME, LABELS, sample_weight=weights) > 0.85
        assert "city_Oslo" in model.feature_map_.maps_[0].get_feature_names_out()


def test_targets_of_tables_are_validated():
    with pytest.raises(ValueError, match="requires y: open the rows with a target"):
        classifier().fit(FRAME)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        classifier().fit(FRAME, LABELS[:10])
    with pytest.raises(ValueError, match=r"Input y contains NaN.* row 3"):
        KernelRegressor().fit(FRAME, np.where(np.arange(ROWS) == 3, np.nan, INCOME))
    with pytest.raises(ValueError, match="dates or times"):
        KernelRegressor().fit(FRAME, FRAME["since"])


def test_cross_validation_of_frames():
    scores = cross_val_score(classifier(), FRAME, LABELS, cv=3)
    assert scores.min() > 0.85


def test_frames_of_unusable_columns_are_refused_together():
    frame = FRAME.assign(lists=[[1]] * ROWS, bits=[b"x"] * ROWS)
    with pytest.raises(ValueError, match=r"got 'lists' \(list<.*\), 'bits' \(binary\)"):
        classifier().fit(frame, LABELS)


@pytest.mark.parametrize(
    ("convert", "words"),
    [
        (lambda frame: pl.LazyFrame(frame), "takes no LazyFrame"),
        (lambda frame: pa.table(frame).to_reader(), "more than once, got a RecordBatchReader"),
        (lambda frame: frame.assign(z=1j), "column 'z' is complex128, and inputs must be real"),
        (lambda frame: frame[:0], "the pandas frame has no rows"),
    ],
)
def test_tables_that_cannot_be_read_are_refused_in_a_sentence(convert, words):
    with pytest.raises(ValueError, match=words):
        KernelRegressor().fit(convert(FRAME), INCOME)


@pytest.mark.parametrize(
    "columns",
    [
        {"nothing": [None] * ROWS},
        {"constant": ["x"] * ROWS},
        {"key": [f"u{i}" for i in range(ROWS)]},
        {"day": [dt.date(1, 1, 1), dt.date(9999, 12, 31)] * (ROWS // 2)},
        {"text": [f"the {i} of many words in a long text" for i in range(ROWS)]},
    ],
)
def test_columns_that_say_little_have_a_model(columns):
    frame = pd.DataFrame(columns)
    model = KernelRegressor(RandomFourier(8), random_state=0).fit(frame, INCOME)
    assert np.isfinite(model.predict(frame)).all()


def test_objects_that_are_numbers_are_numbers():
    frame = NUMBERS.assign(age=_age)[["age", "noise"]]
    model = KernelRegressor(RandomFourier(32), random_state=0).fit(frame.astype(object), INCOME)
    expected = KernelRegressor(RandomFourier(32), random_state=0).fit(frame, INCOME)
    assert model.plan_.encoded == ""
    np.testing.assert_array_equal(model.feature_coef_, expected.feature_coef_)


def test_without_pyarrow(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ValueError, match=r"no numbers \('city', 'key'.*\) needs pyarrow: pip"):
        classifier().fit(FRAME[["age", "city", "key"]].astype({"city": object}), LABELS)
    frame = NUMBERS.assign(age=_age)[["age", "noise"]]
    KernelRegressor(RandomFourier(8)).fit(frame.astype(object), INCOME)
    model = KernelRegressor(RandomFourier(8)).fit(NUMBERS, INCOME)
    assert model.schema_.describe() == "2 numbers, 1 boolean"
    assert model.predict(NUMBERS).shape == (ROWS,)


def late(tmp_path, cell, rows=2000):
    values = [str(i % 50) for i in range(rows)]
    values[-5] = cell
    lines = [f"{value},{i % 3},{i % 2}" for i, value in enumerate(values)]
    (tmp_path / "late.csv").write_text("\n".join(["x,z,y", *lines]) + "\n")
    return tmp_path / "late.csv"


@pytest.mark.parametrize(("cell", "kind"), [("1.5", "number"), ("abc", "category"), ("", "number")])
def test_columns_of_another_type_in_later_rows_are_read_again(tmp_path, cell, kind, recwarn):
    token = CHUNK_BYTES.set(16_000)
    try:
        stream = open_stream(late(tmp_path, cell), target="y")
    finally:
        CHUNK_BYTES.reset(token)
    assert stream.schema is None
    model = KernelClassifier(RandomFourier(16), random_state=0).fit(stream)
    names = list(model.feature_names_in_)
    assert names == ["x", "z"]
    if cell == "1.5":
        assert model.plan_.encoded == ""
    else:
        assert model.schema_.columns[0].kind == kind
    said = [str(warning.message) for warning in recwarn if "read as" in str(warning.message)]
    assert len(said) == (kind == "category")
    assert all("got 'abc' at" in text or "then 'abc' at" in text for text in said)
    assert len(model.predict(tmp_path / "late.csv")) == 2000


def test_declared_kinds_are_kept(tmp_path):
    token = CHUNK_BYTES.set(16_000)
    try:
        stream = open_stream(late(tmp_path, "abc"), target="y", kinds={"x": "number"})
    finally:
        CHUNK_BYTES.reset(token)
    with pytest.raises(RowError, match=r"'abc' at late.csv, row 1995 of the file"):
        KernelClassifier(RandomFourier(16), random_state=0).fit(stream)


def test_texts_of_numbers_that_are_none_in_later_rows_are_categories():
    frame = pd.DataFrame({"x": [str(i % 9) for i in range(1500)], "z": 1.0})
    frame.loc[1400, "x"] = "many"
    with pytest.warns(UserWarning, match=r"'x' has numbers, got 'many' at row 1400: the column is"):
        model = KernelRegressor(RandomFourier(16), random_state=0).fit(frame, np.arange(1500.0))
    assert model.schema_.columns[0].kind == "category"


def test_tabular_equals_a_column_transformer():
    frame = FRAME[["age", "city", "member"]]
    columns = ColumnTransformer(
        [
            (
                "numbers",
                make_pipeline(SimpleImputer(strategy="median", add_indicator=True)),
                ["age"],
            ),
            ("categories", OneHotEncoder(handle_unknown="ignore"), ["city"]),
            ("rest", "passthrough", ["member"]),
        ],
        sparse_threshold=0,
    )
    other = make_pipeline(columns, KernelRegressor(Identity(), scale=False, alpha=0.1))
    other.fit(frame[TRAIN], INCOME[TRAIN])
    ours = KernelRegressor(Tabular(scale=False) >> Identity(), alpha=0.1)
    ours.fit(frame[TRAIN], INCOME[TRAIN])
    np.testing.assert_allclose(ours.predict(frame), other.predict(frame), rtol=1e-9)


def test_a_column_transformer_in_front_of_a_classifier():
    columns = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), ["age"]),
            ("categories", OneHotEncoder(sparse_output=False), ["city", "member"]),
        ]
    )
    model = make_pipeline(columns, classifier()).fit(FRAME[TRAIN], LABELS[TRAIN])
    assert model.score(FRAME[TEST], LABELS[TEST]) > 0.85


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_codes_whose_leading_zeros_come_later_are_categories(tmp_path, suffix):
    rng = np.random.default_rng(3)
    codes = [f"{code:05}" for code in rng.integers(20_000, 20_040, 2000)]
    codes[1990] = "01234"
    frame = pd.DataFrame({"zip": codes, "n": rng.normal(size=2000).round(3)})
    frame["y"] = np.where(frame["zip"] < "20020", "low", "high")
    path = tmp_path / f"late{suffix}"
    write = {
        ".csv": lambda: frame.to_csv(path, index=False),
        ".parquet": lambda: frame.to_parquet(path),
        ".jsonl": lambda: frame.to_json(path, orient="records", lines=True),
    }
    write[suffix]()
    token = CHUNK_BYTES.set(16_000)
    try:
        stream, declared = (
            open_stream(path, target="y", kinds=kinds) for kinds in (None, {"zip": "number"})
        )
    finally:
        CHUNK_BYTES.reset(token)
    with pytest.warns(UserWarning, match=r"'01234' at late\..*, row 1990 .*read as categories"):
        model = KernelClassifier(RandomFourier(16), random_state=0).fit(stream)
    assert model.schema_.columns[0] == TableColumn("zip", "category")
    assert len(model.predict(path)) == 2000
    numbers = KernelClassifier(RandomFourier(16), random_state=0).fit(declared)
    assert list(numbers.feature_names_in_) == ["zip", "n"]
    assert numbers.plan_.encoded in ("", "2 numbers")


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("2,500", r"'a' has numbers, got '2,500' at .*row 7.*Write it as 1234\.5, or declare"),
        ("many", r"'a' has numbers, got 'many' at .*row 7.*Correct it"),
        (None, r"got nan at .*row 7.*'a'.*or fit with Tabular\(\) in front of the map"),
    ],
)
def test_cells_that_a_model_of_numbers_does_not_take_are_named(tmp_path, cell, words):
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(rng.normal(size=(40, 2)), columns=["a", "b"])
    model = KernelRegressor(RandomFourier(16), random_state=0).fit(frame, frame["a"])
    assert model.plan_.encoded == ""
    other = frame[["b", "a"]].astype({"a": object})
    other.loc[7, "a"] = cell
    other.to_csv(tmp_path / "other.csv", index=False)
    text = other.astype({"a": "string"})
    text.to_parquet(tmp_path / "other.parquet")
    for rows in (text[["a", "b"]], tmp_path / "other.csv", tmp_path / "other.parquet"):
        with pytest.raises(RowError, match=words):
            model.predict(rows)
    fine = frame.map(str)
    np.testing.assert_array_equal(model.predict(fine), model.predict(frame))


def test_categories_that_fit_did_not_see_are_counted_once():
    rng = np.random.default_rng(6)
    frame = pd.DataFrame(
        {
            "city": rng.choice(["Oslo", "Rome"], 600),
            "shop": rng.choice([f"shop {i}" for i in range(100)], 600),
            "x": rng.normal(size=600),
        }
    )
    model = KernelRegressor(RandomFourier(16), random_state=0)
    model.partial_fit(frame, frame["x"]).predict(frame)
    new = frame.copy()
    new.loc[:4, "city"] = "Mars"
    new.loc[:1, "shop"] = ["shop 100", "shop 101"]
    words = r"KernelRegressor: cells with a value that .* not fitted on: 'city' 5, 'shop' 2\."
    for call in (model.predict, lambda rows: model.partial_fit(rows, frame["x"])):
        with pytest.warns(UserWarning, match=words) as caught:
            call(new)
        assert len(caught) == 1


@pytest.mark.parametrize("type", ["boolean", "Int64", "UInt8", "bool[pyarrow]", "int64[pyarrow]"])
@pytest.mark.parametrize("columns", [["age", "noise"], ["age", "city"]])
def test_nullable_targets_are_classes_of_their_own_type(type, columns):
    labels = pd.Series(np.asarray(INCOME) > np.median(INCOME)).astype(type)
    plain = labels.to_numpy(dtype=labels.dtype.numpy_dtype)
    rows = FRAME.assign(age=FRAME["age"].fillna(0), noise=1.0)[columns]
    model = KernelClassifier(RandomFourier(16), random_state=0).fit(rows, labels)
    assert model.classes_.dtype == plain.dtype and model.predict(rows).dtype == plain.dtype
    assert model.score(rows, labels) == model.score(rows, plain)
    with pytest.raises(RowError, match=r"Input y contains NaN.* row 0"):
        model.fit(rows, labels.where(labels.index > 0))
