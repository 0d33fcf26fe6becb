"""Tables of other formats: Arrow, JSON lines, folders, compressed files, URLs, standard input."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import sys
from types import SimpleNamespace

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from tests.helpers.stream_data import (
    NAMES,
    TABLE,
    N,
    X,
    assert_rows,
    damaged,
    folder_of,
    table,
    write_arrow,
    write_csv,
    write_json_lines,
    write_memory,
)

from mercer import open_stream
from mercer.data.cells import NULLS
from mercer.data.files import ChangedFileError
from mercer.data.open import open_table
from mercer.errors import ColumnTypeError, RowError


def test_feather_of_pandas_has_its_index_left_out(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "y": [0, 1, 0]}, index=[5, 7, 9])
    pyarrow.feather.write_feather(pa.Table.from_pandas(frame), tmp_path / "d.feather")
    stream = open_stream(tmp_path / "d.feather", target="y")
    assert (stream.columns, stream.left_out) == (("a",), ("__index_level_0__",))
    assert next(stream.chunks()).X.tolist() == [[1], [2], [3]]


def test_record_batches_before_the_start_are_not_read(tmp_path):
    path = write_arrow(tmp_path / "d.arrow", compression="lz4")
    stream = open_stream(path, **TABLE)
    content = path.read_bytes()
    name = content.index(b"\x04\x22\x4d\x18")  # the first LZ4 frame
    path.write_bytes(content[:name] + b"\xff" * 8 + content[name + 8 :])
    stream.record_files()
    assert_rows(stream, stream.chunks(37), 37)
    with pytest.raises(ValueError, match=r"d.arrow is damaged, or no Arrow file"):
        list(stream.chunks(36))


@pytest.mark.parametrize("content", [b"nothing", b"", b"ARROW1\x00\x00" + b"\xff" * 99])
def test_what_is_no_arrow_file_is_refused(content, tmp_path):
    with pytest.raises(ValueError, match=r"d.feather is damaged, or no Arrow file"):
        open_stream(damaged(tmp_path, "d.feather", content))


WRITERS = {".csv": write_csv, ".jsonl": write_json_lines, ".arrow": write_arrow}


@pytest.mark.parametrize("suffix", WRITERS)
def test_rows_of_a_folder_are_named_by_file(suffix, tmp_path):
    stream = open_stream(folder_of(tmp_path / "d", suffix, WRITERS[suffix]), **TABLE)
    list(stream.chunks())
    assert stream.where(0) == f"part-0000{suffix}, row 0 of the file"
    assert stream.where(41) == f"part-0002{suffix}, row 0 of the file"
    assert stream.where(256) == f"part-0004{suffix}, row 6 of the file"


@pytest.mark.parametrize("suffix", WRITERS)
def test_a_new_file_in_the_folder_is_refused(suffix, tmp_path):
    stream = open_stream(folder_of(tmp_path / "d", suffix, WRITERS[suffix]), **TABLE)
    WRITERS[suffix](tmp_path / "d" / f"z{suffix}")
    with pytest.raises(ChangedFileError, match=f"z{suffix} has changed .* new in the folder"):
        list(stream.chunks())


def test_a_later_file_may_be_empty_but_for_its_header(tmp_path):
    folder_of(tmp_path / "d", ".csv", write_csv)
    write_csv(tmp_path / "d" / "part-0000-.csv", stop=0)
    assert_rows(None or (s := open_stream(tmp_path / "d", **TABLE)), s.chunks())
    write_csv(tmp_path / "d" / "_hidden.csv", stop=0)
    (tmp_path / "d" / "part-0000.csv").rename(tmp_path / "d" / "part-00000.csv")
    write_csv(tmp_path / "d" / "a.csv", stop=0)  # and so may be the first
    assert_rows(s := open_stream(tmp_path / "d", **TABLE), s.chunks())


def test_files_of_two_formats_are_refused(tmp_path):
    write_csv(tmp_path / "a.csv")
    write_json_lines(tmp_path / "b.jsonl")
    sentence = r"has files of two formats, a.csv \(CSV\) and b.jsonl \(JSON lines\)"
    with pytest.raises(ValueError, match=sentence):
        open_stream(tmp_path)
    with pytest.raises(ValueError, match=sentence):
        open_stream([tmp_path / "a.csv", tmp_path / "b.jsonl"])


def test_csv_files_of_a_folder_are_written_as_each_likes(tmp_path):
    write_csv(tmp_path / "a.csv", stop=100)
    write_csv(tmp_path / "b.csv.gz", ";", ",", 100, 200)
    write_csv(tmp_path / "c.tsv", "\t", ".", 200)
    stream = open_stream(tmp_path, **TABLE)
    assert stream.notes == ("b.csv.gz: Separator ';', decimal comma.",)
    assert_rows(stream, stream.chunks())


def test_csv_files_of_other_columns_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    (tmp_path / "b.csv").write_text("b,a\n4,3\n")
    (block,) = open_stream(tmp_path).blocks(5)
    assert block.X.tolist() == [[1, 2], [3, 4]]
    (tmp_path / "b.csv").write_text("b,c\n4,3\n")
    with pytest.raises(ValueError, match=r"b.csv has no column 'a', which a.csv has"):
        open_stream(tmp_path)
    (tmp_path / "b.csv").write_text("b,a,c\n4,3,7\n")
    with pytest.raises(ValueError, match=r"b.csv has a column 'c', which a.csv has not"):
        open_stream(tmp_path)
    assert open_stream(tmp_path, columns=["a"]).width == 1


def test_a_value_in_a_later_file_is_named_by_its_file_and_read_again(tmp_path):
    (tmp_path / "a.csv").write_text("a,n\n1,2\n")
    (tmp_path / "b.csv").write_text("a,n\n3,4\n5,x\n")
    stream = open_stream(tmp_path, columns=["a"], target="n")
    with pytest.raises(ColumnTypeError, match=r"and then 'x' at b.csv, row 1 of the file") as error:
        list(stream.chunks())
    assert (error.value.row, error.value.column) == (2, "n")
    stream = stream.retyped("n").retyped("n")
    assert np.concatenate([chunk.y for chunk in stream.chunks()]).tolist() == ["2", "4", "x"]


def test_parquet_types_of_files_are_unified(tmp_path):
    pq.write_table(pa.table({"a": [1, 2], "b": [1.5, 2], "y": [0, 1]}), tmp_path / "a.parquet")
    pq.write_table(
        pa.table({"a": [0.5], "b": pa.array([None], pa.null()), "y": [1.0]}), tmp_path / "b.parquet"
    )
    stream = open_stream(tmp_path, target="y")
    (block,) = stream.blocks(5)
    np.testing.assert_array_equal(block.X, [[1, 1.5], [2, 2], [0.5, np.nan]])
    assert [chunk.y.dtype for chunk in stream.chunks()] == [np.float64] * 2
    pq.write_table(pa.table({"a": ["x"], "b": [1.0], "y": [1]}), tmp_path / "b.parquet")
    with pytest.raises(ValueError, match=r"b.parquet: column 'a' is text, and in a.parquet it is"):
        open_stream(tmp_path, target="y")
    pq.write_table(pa.table({"a": [True], "b": [1.0], "y": [1]}), tmp_path / "b.parquet")
    with pytest.raises(ValueError, match=r"b.parquet: column 'a' is bool, and in a.parquet it is"):
        open_stream(tmp_path, target="y")


def test_heads_have_the_types_of_the_columns(tmp_path):
    times = pa.array([0, 10**6], pa.timestamp("us"))
    words = pa.array(["a", "b"]).dictionary_encode()
    expected = pa.table({"x": [1, 2], "t": times, "c": words, "s": ["u", None]})
    pq.write_table(expected, tmp_path / "d.parquet")
    pyarrow.feather.write_feather(expected, tmp_path / "d.feather")
    for name in ("d.parquet", "d.feather"):
        assert open_table(tmp_path / name).head().equals(expected)
    lines = [{"x": 1, "t": "2020-01-01 10:00:00", "c": "a"}, {"x": 2.5, "c": None, "b": True}]
    (tmp_path / "d.jsonl").write_text("\n".join(map(json.dumps, lines)))
    head = open_table(tmp_path / "d.jsonl").head()
    assert head.schema.types == [pa.float64(), pa.timestamp("us"), pa.string(), pa.bool_()]
    assert head.column("b").to_pylist() == [None, True]


JSON = {
    r"d.jsonl is empty": "",
    r"on each line, got no JSON \(.*\), '{\"a\": 2', at d.jsonl, row 1 of the file": (
        '{"a": 1}\n{"a": 2\n'
    ),
    r"on each line, got list, '\[1, 2\]', at d.jsonl, row 0 of the file": "[1, 2]\n",
    r"Column 'a' has numbers in the first rows, and then \"x\" at d.jsonl, row 2": (
        '{"a": 1}\n\n{"a": 2.5}\n{"a": "x"}\n'
    ),
    r"d.jsonl: inputs must be .*, got 'a' \(struct<b: int64>\)": '{"a": {"b": 1}, "c": 1}\n',
    r"d.jsonl: inputs must be .*, got 'a' \(list<item: int64>\)": '{"a": [1, 2], "c": 1}\n',
}


@pytest.mark.parametrize("sentence", JSON)
def test_json_lines_that_are_no_table_are_refused(sentence, tmp_path):
    (tmp_path / "d.jsonl").write_text(JSON[sentence])
    with pytest.raises(ValueError, match=sentence):
        open_stream(tmp_path / "d.jsonl")


def test_nested_columns_may_be_left_out(tmp_path):
    (tmp_path / "d.jsonl").write_text('{"a": {"b": 1}, "c": 1}\n{"c": 2}\n')
    (block,) = open_stream(tmp_path / "d.jsonl", columns=["c"]).blocks(5)
    assert block.X.tolist() == [[1], [2]]


def write_lines(path, first, rest):
    lines = [first] * 300 + [rest]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize(
    ("value", "error"),
    [({"a": "x", "n": 1}, RowError), ({"a": 1, "n": 1.5}, ColumnTypeError)],
)
def test_json_values_of_another_type_later_are_named(value, error, small, tmp_path):
    path = write_lines(tmp_path / "d.jsonl", {"a": 1, "n": 0}, value)
    stream = open_stream(path, target="n")
    with pytest.raises(error, match=r"and then .* at d.jsonl, row 300 of the file") as caught:
        list(stream.chunks())
    if error is ColumnTypeError:
        labels = np.concatenate([c.y for c in stream.retyped(caught.value.column).chunks()])
        assert labels.tolist() == [0.0] * 300 + [1.5]


def test_json_columns_that_come_later_are_refused_unless_others_are_chosen(small, tmp_path):
    path = write_lines(tmp_path / "d.jsonl", {"a": 1, "n": 0}, {"a": 1, "n": 0, "new": 3})
    sentence = r"column 'new' is none of those of the first rows, at d.jsonl, row 300 of the file"
    with pytest.raises(RowError, match=sentence):
        list(open_stream(path).chunks())
    assert sum(map(len, open_stream(path, columns=["a"]).chunks())) == 301


@pytest.mark.parametrize("damage", ["cut", "overwritten"])
@pytest.mark.parametrize("name", ["d.csv.gz", "d.csv.bz2", "d.jsonl.gz"])
def test_damaged_compressed_files_are_refused(name, damage, tmp_path):
    write = write_json_lines if "json" in name else write_csv
    path = write(tmp_path / name)
    content = path.read_bytes()
    middle = len(content) // 2
    end = b"" if damage == "cut" else b"\x00" * 50 + content[middle + 50 :]
    path.write_bytes(content[:middle] + end)
    with pytest.raises(ValueError, match=rf"{name}"):
        list(open_stream(path, **TABLE).chunks())


def test_compression_is_known_by_content(tmp_path):
    plain = write_csv(tmp_path / "plain.csv").read_bytes()
    parts = gzip.compress(plain[:1000]) + gzip.compress(plain[1000:])  # as by cat a.gz b.gz
    for content in (plain, bz2.compress(plain), parts):
        path = damaged(tmp_path, "d.csv.gz", content)
        assert_rows(s := open_stream(path, **TABLE), s.chunks())


def test_a_compressed_file_that_changes_is_refused(tmp_path):
    stream = open_stream(write_csv(tmp_path / "d.csv.gz"), **TABLE)
    write_csv(tmp_path / "d.csv.gz", stop=100)
    with pytest.raises(ChangedFileError, match=r"d.csv.gz has changed since it was opened"):
        list(stream.chunks())


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".jsonl", ".arrow"])
def test_urls_are_read_and_checked(suffix, tmp_path):
    write = WRITERS[suffix.removesuffix(".gz")]
    path = write(tmp_path / f"d{suffix}")
    url = write_memory(tmp_path, path)
    assert_rows(s := open_stream(url, **TABLE), s.chunks())
    assert s.files()[0]["bytes"] == path.stat().st_size
    assert_rows(s, s.chunks(50), 50)
    assert_rows(o := open_stream(f"file://{path}", **TABLE), o.chunks())
    write_memory(tmp_path, write(path, stop=N - 1))
    with pytest.raises(ChangedFileError, match=rf"d{suffix} has changed since it was opened"):
        list(s.chunks())
    with fsspec.open(url.replace("/d.", "/e."), "wb") as file:
        file.write(path.read_bytes())
    assert sum(map(len, open_stream(f"memory://{tmp_path.name}", **TABLE).chunks())) == 2 * N - 2


def test_a_url_with_other_content_of_the_same_size_is_refused(tmp_path):
    url = write_memory(tmp_path, damaged(tmp_path, "d.csv", b"a,b\n1,2\n"))
    stream = open_stream(url)
    write_memory(tmp_path, damaged(tmp_path, "d.csv", b"a,b\n1,3\n"))
    with pytest.raises(ChangedFileError, match=r"d.csv has changed .*another file has taken its"):
        list(stream.chunks())


def test_parquet_from_a_url(tmp_path):
    pq.write_table(table(), tmp_path / "d.parquet")
    assert_rows(
        s := open_stream(write_memory(tmp_path, tmp_path / "d.parquet"), **TABLE), s.chunks()
    )


def test_urls_that_cannot_be_read_are_refused(monkeypatch, tmp_path):
    with pytest.raises(ValueError, match=r"There is no file memory://nowhere/d.csv"):
        open_stream("memory://nowhere/d.csv")
    with pytest.raises(ValueError, match=r"nothing://x/d.csv cannot be read: .*nothing"):
        open_stream("nothing://x/d.csv")
    np.save(tmp_path / "X.npy", X)
    with pytest.raises(ValueError, match=r"X.npy cannot be read from a URL: of these, tables are"):
        open_stream(write_memory(tmp_path, tmp_path / "X.npy"))
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(ValueError, match=r"Reading s3://b/d.csv needs fsspec .*pip install"):
        open_stream("s3://b/d.csv")


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".tsv", ".jsonl", ".arrow", ".parquet"])
def test_standard_input_is_read_more_than_once(suffix, monkeypatch, tmp_path):
    path = tmp_path / f"d{suffix}"
    if suffix == ".parquet":
        pq.write_table(table(), path)
    elif suffix == ".tsv":
        write_csv(path, "\t")
    else:
        WRITERS[suffix.removesuffix(".gz")](path)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(path.read_bytes())))
    stream = open_stream("-", **TABLE)
    assert stream.name.startswith("standard-input")
    assert_rows(stream, stream.chunks())
    assert_rows(stream, stream.chunks())
    assert_rows(s := open_stream("-", **TABLE), s.chunks())
    assert s.columns == tuple(NAMES)


def test_standard_input_without_rows_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO()))
    with pytest.raises(ValueError, match=r"Standard input \(-\) is empty"):
        open_stream("-")


def write_formats(frame, folder):
    """Write a frame as CSV, Parquet, Feather and JSON lines; return the paths."""
    paths = [folder / f"t{suffix}" for suffix in (".csv", ".parquet", ".feather", ".jsonl")]
    frame.to_csv(paths[0], index=False)
    frame.to_parquet(paths[1])
    frame.to_feather(paths[2])
    frame.to_json(paths[3], orient="records", lines=True)
    return paths


def test_words_for_missing_cells_are_the_same_in_every_format(tmp_path):
    words = [word for word in NULLS if word]
    n = 4 * len(words)
    frame = pd.DataFrame(
        {
            "city": [["Oslo", "Rome"][i % 2] if i % 4 else words[i // 4] for i in range(n)],
            "note": [
                f"sentence {i} has five words" if i % 4 else f" {words[i // 4]}" for i in range(n)
            ],
            "cost": [f"{i},000.5" if i % 4 else words[i // 4] for i in range(n)],
            "day": [f"2024-01-{i % 28 + 1:02}" if i % 4 else words[i // 4] for i in range(n)],
            "paid": [["yes", "No"][i % 2] if i % 4 else words[i // 4] for i in range(n)],
            "sign": [["+", "-", "NA"][i % 3] for i in range(n)],
        }
    )
    expected = None
    for path in [*write_formats(frame, tmp_path), frame]:
        stream = open_stream(path)
        kinds = ["category", "text", "number", "date", "boolean", "category"]
        assert [column.kind for column in stream.schema.columns] == kinds
        X = np.concatenate([chunk.X for chunk in stream.chunks()])
        if expected is None:
            expected = X
            missing = np.arange(n) % 4 == 0
            for column in (0, -4, -3, -2):
                np.testing.assert_array_equal(np.isnan(X[:, column]), missing)
            assert not X[missing, 1:-4].any() and X[~missing, 1:-4].sum() == 5 * 3 * len(words)
            np.testing.assert_array_equal(np.isnan(X[:, -1]), np.arange(n) % 3 == 2)
        np.testing.assert_array_equal(X, expected)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".feather", ".jsonl"])
@pytest.mark.parametrize("name", ["number", "word", "flag"])
def test_a_column_may_be_empty_in_the_first_file(name, suffix, tmp_path):
    frame = pd.DataFrame({"number": [1.5, 2.5], "word": ["x", "y"], "flag": [True, False]})
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    for folder, part in (("first", frame.assign(**{name: None})), ("second", frame)):
        for path in write_formats(part, tmp_path / folder):
            if path.suffix == suffix:
                path.rename(tmp_path / f"{folder}{suffix}")
    stream = open_stream([tmp_path / f"{folder}{suffix}" for folder in ("first", "second")])
    kinds = ["number", "category", "boolean"]
    assert [column.kind for column in stream.schema.columns] == kinds
    X = np.concatenate([chunk.X for chunk in stream.chunks()])
    expected = next(iter(open_stream(frame).chunks())).X
    np.testing.assert_array_equal(X[2:], expected)
    np.testing.assert_array_equal(np.isnan(X[:2]), [[name == column for column in frame]] * 2)


@pytest.mark.parametrize(("value", "error"), [("x", ColumnTypeError), (True, RowError)])
def test_values_of_json_that_come_late_are_named(value, error, small, tmp_path):
    lines = [{"a": 1.5, "b": None} for _ in range(500)]
    lines[499]["b"] = value
    (tmp_path / "d.jsonl").write_text("\n".join(map(json.dumps, lines)))
    stream = open_stream(tmp_path / "d.jsonl")
    words = r"'b' has no values in the first rows, and then .* at d.jsonl, row 499 of the file"
    with pytest.raises(RowError, match=words) as caught:
        list(stream.chunks())
    assert type(caught.value) is error
    if error is ColumnTypeError:
        (again,) = [column for column in stream.retyped("b").schema.columns if column.name == "b"]
        assert again.kind == "category"


@pytest.mark.parametrize("suffix", ["parquet", "feather", "jsonl"])
@pytest.mark.parametrize("other", [["x"], [True], [[1.0, 2.0]], None])
def test_files_of_a_folder_that_differ_name_the_column(suffix, other, tmp_path):
    rows = {"a": [1.0], "b": [2.0], "y": [0.0]}
    changed = {"a": [1.0], "y": [0.0], "z": [1.0]} if other is None else {**rows, "b": other}
    for i, columns in enumerate((rows, changed)):
        path = tmp_path / f"{i}.{suffix}"
        if suffix == "jsonl":
            path.write_text(
                json.dumps({name: values[0] for name, values in columns.items()}) + "\n"
            )
        elif suffix == "parquet":
            pq.write_table(pa.table(columns), path)
        else:
            pyarrow.feather.write_feather(pa.table(columns), path)
    with pytest.raises(ValueError, match=r"[cC]olumn '[bz]'") as error:
        list(open_stream(tmp_path, target="y").chunks())
    assert f"1.{suffix}" in str(error.value)
