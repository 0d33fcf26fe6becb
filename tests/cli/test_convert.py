"""convert: every pair of kinds gives the same rows back; what would be lost is refused, or said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.helpers.shell import call, fails, run

from mercer import open_stream


@pytest.fixture
def table(tmp_path, monkeypatch):
    """mixed.parquet: floats that need 17 digits, float32, whole numbers, booleans, words that need
    quotes, missing values.
    """
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    made = pa.table(
        {
            "x": pa.array(rng.normal(size=50)),
            "n": pa.array(rng.integers(-(2**62), 2**62, size=50)),
            "yes": pa.array(rng.random(50) < 0.5),
            "word": pa.array([None if i == 3 else f'a,"{i}"' for i in range(50)]),
            "gap": pa.array([None if i % 7 == 2 else i / 3 for i in range(50)]),
        }
    )
    pq.write_table(made, "mixed.parquet")
    return made


def test_between_tables_all_columns_and_types_are_kept(table):
    run("convert mixed.parquet a.csv")
    run("convert a.csv b.tsv")
    run("convert b.tsv c.parquet")
    back = pq.read_table("c.parquet")
    assert back.column_names == table.column_names
    words = [word or "" for word in table["word"].to_pylist()]  # CSV has no missing words
    assert back["word"].to_pylist() == words
    for name in ("x", "n", "yes", "gap"):
        assert back[name].to_pylist() == table[name].to_pylist(), name
        assert back[name].type == table[name].type


def test_a_long_csv_becomes_few_row_groups(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"a": np.arange(300_000) / 7}).to_csv("long.csv", index=False)
    assert run("convert long.csv long.parquet").startswith("Copied 300,000 rows")
    assert pq.ParquetFile("long.parquet").num_row_groups == 1
    np.testing.assert_array_equal(pd.read_parquet("long.parquet")["a"], np.arange(300_000) / 7)


def test_a_folder_of_parquet_becomes_one_file(table):
    Path("parts").mkdir()
    for i in range(3):
        pq.write_table(table.slice(17 * i, 17), f"parts/p{i}.parquet")
    run("convert parts all.parquet")
    assert pq.read_table("all.parquet").equals(table)
    pq.write_table(table.drop_columns("x"), "parts/p3.parquet")
    assert "p3.parquet has other columns than p0.parquet" in fails("convert parts other.csv")


@pytest.fixture
def numbers(tmp_path, monkeypatch):
    """numbers.csv: three columns, the last of which is 0 in the first rows, and a label."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 3)) * (rng.random((40, 3)) < 0.6)
    X[:5, 2] = 0.0
    pd.DataFrame(X, columns=["a", "b", "c"]).assign(label=np.arange(40) % 4).to_csv(
        "numbers.csv", index=False
    )
    return X


@pytest.mark.parametrize("suffix", [".svm", ".svmlight", ".libsvm"])
def test_svmlight_keeps_rows_labels_and_width(numbers, suffix):
    run(f"convert numbers.csv rows{suffix} --target label")
    stream = open_stream(f"rows{suffix}")
    (chunk,) = stream.chunks()
    np.testing.assert_array_equal(chunk.X.toarray(), numbers)
    np.testing.assert_array_equal(chunk.y, np.arange(40) % 4)
    run(f"convert rows{suffix} back.parquet")
    back = pd.read_parquet("back.parquet")
    assert list(back.columns) == ["x0", "x1", "x2", "label"]
    np.testing.assert_array_equal(back[["x0", "x1", "x2"]].to_numpy(), numbers)


def test_a_last_column_of_zeros_is_not_lost(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("z.npy", np.array([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0]]))
    run("convert z.npy z.svm")
    assert open_stream("z.svm").width == 3
    assert Path("z.svm").read_text() == "0.0 1:1.0 3:0.0\n0.0 2:2.0\n"


def test_float32_keeps_its_value_and_its_type(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(2).normal(size=(20, 4)).astype(np.float32)
    np.save("x.npy", X)
    run("convert x.npy x.parquet")
    assert open_stream("x.parquet").dtype == np.float32
    run("convert x.parquet y.npy")
    np.testing.assert_array_equal(np.load("y.npy"), X)
    assert np.load("y.npy").dtype == np.float32
    run("convert x.npy x.svm")
    (chunk,) = open_stream("x.svm").chunks()
    np.testing.assert_array_equal(chunk.X.toarray(), X.astype(np.float64))


def test_what_a_matrix_has_no_room_for_is_said(numbers):
    result = call("convert numbers.csv m.npy --target label")
    assert (
        "Note: m.npy has no names of columns: they are counted in the order of numbers.csv."
        in result.stderr
    )
    assert "Note: the target is the last column of m.npy: --target -1 finds it." in result.stderr
    np.testing.assert_array_equal(np.load("m.npy")[:, -1], np.arange(40) % 4)
    assert "every row of m.svm gets the label 0" in call("convert numbers.csv m.svm").stderr


def test_chosen_columns_alone_are_copied(numbers):
    run("convert numbers.csv some.parquet --columns c,a")
    assert list(pd.read_parquet("some.parquet").columns) == ["c", "a"]
    run("convert numbers.csv rest.csv --drop b")
    assert list(pd.read_csv("rest.csv").columns) == ["a", "c", "label"]


def test_what_would_be_lost_is_refused(table):
    assert "word" in fails("convert mixed.parquet m.npy")
    pq.write_table(table.append_column("kind", pa.array(["b"] * 50)), "kinds.parquet")
    assert "words such as 'b'" in fails("convert kinds.parquet m.svm --target kind --columns x,n")
    assert "the target has words: write .parquet" in fails(
        "convert kinds.parquet m.npy --target kind --columns x,n"
    )
    lists = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(6.0)), 3)
    pq.write_table(pa.table({"z": lists}), "lists.parquet")
    assert "column 'z' has lists, which .csv has not" in fails("convert lists.parquet l.csv")
    assert fails("convert mixed.parquet m.xls").startswith(
        "m.xls is of no kind that is written here."
    )
    assert "exists" in fails("convert mixed.parquet mixed.parquet")
    assert "is read while" in fails("convert mixed.parquet mixed.parquet --force")
    assert fails("convert none.csv a.parquet") == "There is no file none.csv."


def test_a_column_that_changes_its_kind_further_on_is_copied_as_one_that_holds_all(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mercer.data.tables._CSV_BLOCK", 2**12)
    monkeypatch.setattr("mercer.data.csv._BLOCK", 2**12)
    first, later = ["1,2,,true"] * 4000, ["0.5,word,7,maybe"]
    Path("late.csv").write_text("\n".join(["a,b,c,d", *first, *later, ""]))
    result = call("convert late.csv late.parquet")
    assert result.exit_code == 0, result.output
    assert (
        "Note: late.csv: column 'a' is int64 in the first rows, and something else further on. "
        in result.stderr
    )
    back = pq.read_table("late.parquet")
    assert [str(field.type) for field in back.schema] == ["double", "string", "int64", "string"]
    assert back.to_pylist()[-1] == {"a": 0.5, "b": "word", "c": 7, "d": "maybe"}
    assert back.to_pylist()[0] == {"a": 1.0, "b": "2", "c": None, "d": "true"}


def test_lines_of_different_lengths_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("bad.csv").write_text("a,b\n1,2\n1,2,3\n")
    assert "Expected 2 columns, got 3" in fails("convert bad.csv bad.parquet")
    Path("latin.csv").write_bytes(b"a,b\nword,2\nw\xf6rd,2\n")
    run("convert latin.csv latin.parquet")  # as bytes
    monkeypatch.setattr("mercer.data.tables._CSV_BLOCK", 2**12)
    monkeypatch.setattr("mercer.data.csv._BLOCK", 2**12)
    Path("late.csv").write_bytes(b"a,b\n" + b"word,2\n" * 4000 + b"w\xf6rd,2\n")
    assert "invalid UTF8" in fails("convert late.csv late.parquet")
