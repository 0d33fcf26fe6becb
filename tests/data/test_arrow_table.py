"""Tables in memory: pandas and polars frames with mixed columns, Arrow tables."""

import datetime as dt
import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from mercer import RandomFourier, certify, open_stream
from mercer.data.arrow_table import ArrowTableStream
from mercer.data.cells import hash_text
from mercer.data.in_memory import FrameStream
from mercer.data.table_schema import TableColumn, TableSchema, category_names
from mercer.errors import RowError

pl = pytest.importorskip("polars", reason="polars is not installed: pip install --group dev")

SECONDS = dt.datetime(2024, 5, 6, tzinfo=dt.UTC).timestamp()
COLUMNS = {
    "age": [31, None, 25],
    "city": ["Oslo", "Bergen", None],
    "since": [dt.datetime(2024, 5, 6), None, dt.datetime(2024, 5, 6)],
    "member": [True, False, None],
    "income": [1.5, 2.5, 3.5],
}
KINDS = ["number", "category", "date", "boolean"]
MATRIX = [
    [31, hash_text("Oslo"), SECONDS, 1],
    [np.nan, hash_text("Bergen"), np.nan, 0],
    [25, np.nan, SECONDS, np.nan],
]


class Exported:
    """An object that has nothing but the interface of Arrow."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


SOURCES = {
    "pandas": lambda: pd.DataFrame(COLUMNS),
    "nullable": lambda: pd.DataFrame(COLUMNS).convert_dtypes(),
    "category": lambda: pd.DataFrame(COLUMNS).assign(
        city=pd.Categorical(COLUMNS["city"], categories=["Rome", "Oslo", "Bergen"])
    ),
    "pyarrow types": lambda: pd.DataFrame(COLUMNS).convert_dtypes(dtype_backend="pyarrow"),
    "polars": lambda: pl.DataFrame(COLUMNS),
    "polars enum": lambda: pl.DataFrame(COLUMNS).with_columns(
        pl.col("city").cast(pl.Enum(["Rome", "Oslo", "Bergen"]))
    ),
    "arrow": lambda: pa.table(COLUMNS),
    "chunked": lambda: pa.concat_tables([pa.table(COLUMNS).slice(i, 1) for i in range(3)]),
    "dictionaries": lambda: pa.concat_tables(
        pa.table({**COLUMNS, "city": pa.array(COLUMNS["city"])})
        .slice(i, 1)
        .set_column(1, "city", pa.array(COLUMNS["city"][i : i + 1]).dictionary_encode())
        for i in (0, 1)
    ),
    "exported": lambda: Exported(pa.table(COLUMNS)),
}


def read(stream, **options):
    return np.concatenate([chunk.X for chunk in stream.chunks(**options)])


@pytest.mark.parametrize("source", SOURCES)
def test_mixed_columns_become_a_matrix(source):
    stream = open_stream(SOURCES[source](), target="income")
    assert isinstance(stream, ArrowTableStream)
    assert [column.kind for column in stream.schema.columns] == KINDS
    assert stream.columns == ("age", "city", "since", "member")
    assert (stream.width, stream.dtype) == (4, np.float64)
    np.testing.assert_array_equal(read(stream), MATRIX[: stream.rows])
    np.testing.assert_array_equal(read(stream, start=1), MATRIX[1 : stream.rows])
    [chunk] = stream.chunks()
    np.testing.assert_array_equal(chunk.y, COLUMNS["income"][: stream.rows])
    codes = {hash_text("Oslo"): "Oslo", hash_text("Bergen"): "Bergen"}
    assert category_names(stream, {"city": list(codes)}) == {"city": codes}


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_frames_of_numbers_have_no_schema(library):
    stream = open_stream(library({"a": [1, 2], "b": [True, False], "c": [1.5, np.nan]}))
    assert isinstance(stream, FrameStream)
    assert stream.schema is None
    np.testing.assert_array_equal(read(stream), [[1, 1, 1.5], [2, 0, np.nan]])
    single = open_stream(library({"a": np.ones(2, np.float32)}))
    assert single.dtype == np.float32
    typed = single.with_schema()
    assert typed.schema == TableSchema((TableColumn("a", "number"),))
    assert typed.dtype == np.float64
    assert [chunk.X.dtype for chunk in typed.chunks()] == [np.float64]
    assert single.schema is None


def test_arrow_tables_of_numbers_have_no_schema():
    stream = open_stream(pa.table({"a": np.ones(2, np.float32), "b": np.ones(2, np.float32)}))
    assert stream.schema is None
    assert stream.dtype == np.float32
    assert stream.with_schema().schema.describe() == "2 numbers"
    assert open_stream(pa.table({"a": [1]}), kinds={"a": "number"}).schema is None


def test_a_schema_chooses_columns_by_name():
    schema = open_stream(pa.table(COLUMNS), target="income").schema
    frame = pd.DataFrame({"extra": [[1]] * 3, **dict(reversed(COLUMNS.items()))})
    for source in (frame, pa.Table.from_pandas(frame), pl.DataFrame(frame)):
        stream = open_stream(source, schema=schema)
        assert stream.schema == schema
        np.testing.assert_array_equal(read(stream), MATRIX)
    with pytest.raises(ValueError, match=r"schema= states the inputs; leave columns= out"):
        open_stream(frame, schema=schema, columns=["age"])


@pytest.mark.parametrize("source", ["pandas", "polars", "arrow"])
def test_columns_that_are_missing_are_named_with_the_nearest(source):
    schema = open_stream(pa.table(COLUMNS), target="income").schema
    table = pa.table({"age": [1], "member": [True], "City": ["Oslo"], "Since": [1]})
    table = {"pandas": table.to_pandas, "polars": lambda: pl.DataFrame(table)}.get(
        source, lambda: table
    )()
    near = r"needs 'city' \(did you mean 'City'\?\), 'since' \(did you mean 'Since'\?\), which"
    with pytest.raises(ValueError, match=near):
        open_stream(table, schema=schema)


def test_a_schema_of_numbers_chooses_columns_of_frames_by_name():
    schema = TableSchema((TableColumn("b", "number"), TableColumn("a", "boolean")))
    frame = pd.DataFrame({"a": [True, False], "x": ["u", "v"], "b": [1.5, np.nan]})
    stream = open_stream(frame, schema=schema)
    assert isinstance(stream, FrameStream)
    np.testing.assert_array_equal(read(stream), [[1.5, 1], [np.nan, 0]])


def test_cells_of_another_kind_are_refused_with_their_row():
    schema = TableSchema((TableColumn("age", "number"),))
    ages = ["1"] * 3000
    ages[2500] = "old"
    stream = open_stream(pa.table({"age": ages}), schema=schema)
    stream.chunk_bytes = 8000
    with pytest.raises(
        RowError, match=r"'age' has numbers, got 'old' at row 2500.*kinds="
    ) as error:
        read(stream)
    assert error.value.row == 2500


def test_kinds_override_inference():
    frame = pd.DataFrame({"zip": [1234, 5678], "note": ["a b c d e", "f g h i j"]})
    assert open_stream(frame, kinds={"zip": "category"}).schema.columns == (
        TableColumn("zip", "category", format="typed"),
        TableColumn("note", "text", 256),
    )
    X = read(open_stream(frame, kinds={"zip": "category", "note": "category"}))
    np.testing.assert_array_equal(X[0], [hash_text("1234"), hash_text("a b c d e")])


def test_columns_of_python_objects():
    frame = pd.DataFrame(
        {
            "mixed": [1, "x", None],
            "flags": [True, None, False],
            "numbers": pd.Series([1, 2.5, None], dtype=object),
            "huge": pd.Series([2**70, 1, 2], dtype=object),
            "dates": [dt.date(2024, 5, 6), None, dt.date(2024, 5, 6)],
            "months": pd.period_range("2024-01", periods=3, freq="M"),
            "levels": pd.Categorical([3, None, 4]),
            "sparse": pd.arrays.SparseArray([0.0, 1.0, 0.0]),
            "gap": [dt.timedelta(hours=1), None, None],
            "empty": ["", "a", "b"],
        }
    )
    stream = open_stream(frame)
    kinds = {column.name: column.kind for column in stream.schema.columns}
    assert kinds == {
        "mixed": "category",
        "flags": "boolean",
        "numbers": "number",
        "huge": "number",
        "dates": "date",
        "months": "category",
        "levels": "category",
        "sparse": "number",
        "gap": "number",
        "empty": "category",
    }
    X = dict(zip(stream.columns, read(stream).T, strict=True))
    np.testing.assert_array_equal(X["mixed"], [hash_text("1"), hash_text("x"), np.nan])
    np.testing.assert_array_equal(X["flags"], [1, np.nan, 0])
    np.testing.assert_array_equal(X["numbers"], [1, 2.5, np.nan])
    np.testing.assert_array_equal(X["huge"], [2.0**70, 1, 2])
    np.testing.assert_array_equal(X["dates"], [SECONDS, np.nan, SECONDS])
    assert X["months"][0] == hash_text("2024-01")
    np.testing.assert_array_equal(X["levels"], [hash_text("3"), np.nan, hash_text("4")])
    np.testing.assert_array_equal(X["sparse"], [0, 1, 0])
    np.testing.assert_array_equal(X["gap"], [3600, np.nan, np.nan])
    np.testing.assert_array_equal(X["empty"], [np.nan, hash_text("a"), hash_text("b")])


def test_polars_objects_are_text():
    frame = pl.DataFrame({"a": pl.Series([1, "x"], dtype=pl.Object), "b": [1, 2]})
    assert read(open_stream(frame))[1, 0] == hash_text("x")


def test_what_cannot_be_read_is_said():
    frame = pd.DataFrame({"a": [1], "b": [[1, 2]], "c": [b"x"]})
    with pytest.raises(
        ValueError, match=r"the pandas frame: .* got 'b' \(list<.*\), 'c' \(binary\)"
    ):
        open_stream(frame)
    double = pd.DataFrame([[1, "x", 2, "y", 3]], columns=["a", "b", "a", "b", "c"])
    with pytest.raises(ValueError, match=r"the pandas frame has two columns named 'a', 'b': give"):
        open_stream(double)
    with pytest.raises(ValueError, match=r"the Arrow table has two columns named 'a'"):
        open_stream(pa.table([[1], [2]], names=["a", "a"]))
    with pytest.raises(ValueError, match=r"two columns whose names have the same text"):
        open_stream(pd.DataFrame([[1, "x"]], columns=[1, "1"]))
    with pytest.raises(ValueError, match=r"the weight 'w' is text, and must be one number"):
        open_stream(pa.table({"a": [1], "w": ["x"]}), weight="w")
    with pytest.raises(ValueError, match=r"the weight 'w' is of type .*, and must be one number"):
        open_stream(pd.DataFrame({"a": [1], "w": ["x"]}), weight="w")
    with pytest.raises(ValueError, match=r"the Arrow table has no rows"):
        open_stream(pa.table({"a": pa.array([], pa.int64())}))


def test_mixed_frames_need_pyarrow(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(ValueError, match=r"no numbers \('city', 'b'\) needs pyarrow: pip install"):
        open_stream(pd.DataFrame({"city": pd.Series(["x"], dtype=object), "a": [1], "b": [dt]}))
    frame = pd.DataFrame({"a": [1.0, np.nan]})
    assert open_stream(frame, schema=open_stream(frame).with_schema().schema).width == 1


def test_indices_of_pandas_are_no_inputs():
    table = pa.Table.from_pandas(pd.DataFrame({"a": ["x"]}, index=pd.Index([5], name="id")))
    stream = open_stream(table)
    assert stream.columns == ("a",)
    assert stream.left_out == ("id",)


def test_rows_of_a_part_are_sent_to_another_process():
    table = pa.table({"a": [str(i) for i in range(5000)], "b": list(range(5000))})
    stream = open_stream(table, target="b")
    held = stream.values_in_memory(1000, 1010)
    part = pickle.loads(pickle.dumps(stream.with_values(held, 1000)))
    part.rows = 1010
    np.testing.assert_array_equal(read(part, start=1000), read(stream)[1000:1010])
    empty = stream.with_values(stream.values_in_memory(0, 0), 0)
    assert len(pickle.dumps(empty)) < 20_000 < len(pickle.dumps(stream))


def test_fingerprints_differ_by_content_and_kinds():
    table = pa.table(COLUMNS)
    mark = open_stream(table).fingerprint()
    assert mark == open_stream(pl.DataFrame(table).to_arrow()).fingerprint()
    assert mark != open_stream(table.slice(0, 2)).fingerprint()
    changed = table.set_column(1, "city", pa.array(["Oslo", "Bergen", "Rome"]))
    assert mark["sha256"] != open_stream(changed).fingerprint()["sha256"]
    other = open_stream(table, kinds={"member": "category"}).fingerprint()
    assert mark["schema"] != other["schema"]


def test_maps_of_numbers_refuse_streams_of_other_columns():
    stream = open_stream(pa.table(COLUMNS))
    with pytest.raises(
        ValueError, match=r"2 numbers, .*, 1 date\): put Tabular\(\) in front of RandomFourier"
    ):
        certify(RandomFourier(8, random_state=0).fit(np.eye(5)), stream)
