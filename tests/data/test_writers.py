"""Rows out: what is written is read back, bit for bit; a file is whole or not there."""

from __future__ import annotations

import os
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

from mercer import open_stream
from mercer.data import open_writer

Z = np.random.default_rng(0).normal(size=(1000, 6)) * 10.0 ** np.random.default_rng(1).integers(
    -300, 300, size=(1000, 6)
)
FORMATS = ["parquet", "npy", "csv"]


def write(path, columns, parts, **options) -> None:
    with open_writer(path, columns, **options) as sink:
        for part in parts:
            sink.write(part)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_is_written_is_read_back_bit_for_bit(kind, dtype, tmp_path):
    path = tmp_path / f"d.{kind}"
    with np.errstate(over="ignore"):
        values = Z.astype(dtype)
    values[~np.isfinite(values)] = 0
    write(path, list("abcdef"), np.array_split(values, [1, 1, 17, 700]), dtype=dtype)
    stream = open_stream(path)
    (block,) = stream.blocks(1000)
    assert block.X.astype(dtype).tobytes() == values.tobytes()
    assert stream.columns == (None if kind == "npy" else tuple("abcdef"))
    assert stream.dtype == (np.float64 if kind == "csv" else dtype)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_words_and_numbers_go_side_by_side(tmp_path):
    labels = np.array(["a", 'b "quoted", with a comma', "ü"])
    for kind in ("parquet", "csv"):
        path = tmp_path / f"d.{kind}"
        write(
            path,
            {"label": str, "p": "f8", "n": "i4"},
            [{"label": labels, "p": [0.1, 0.2, 0.3], "n": np.int32([1, 2, 3])}],
        )
        (block,) = open_stream(path, target="label").blocks(9)
        assert block.y.tolist() == labels.tolist()
        assert block.X.tolist() == [[0.1, 1], [0.2, 2], [0.3, 3]]


def test_a_column_of_lists_holds_features(tmp_path):
    path = tmp_path / "z.parquet"
    write(path, {"z": ("f8", 6)}, np.array_split(Z, 3))
    stream = open_stream(path)
    assert stream.columns == tuple(f"z[{i}]" for i in range(6))
    np.testing.assert_array_equal(next(stream.blocks(1000)).X, Z)
    write(tmp_path / "z.npy", {"z": ("f8", 6)}, np.array_split(Z, 3))
    np.testing.assert_array_equal(np.load(tmp_path / "z.npy"), Z)


def test_small_blocks_make_large_row_groups(tmp_path):
    with open_writer(tmp_path / "d.parquet", 6) as sink:
        sink.row_group_bytes = 400 * 6 * 8
        for block in np.array_split(Z, 100):
            sink.write(block)
    metadata = pq.ParquetFile(tmp_path / "d.parquet").metadata
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [
        400,
        400,
        200,
    ]


@pytest.mark.parametrize("kind", FORMATS)
def test_no_rows_are_a_file_too(kind, tmp_path):
    write(tmp_path / f"d.{kind}", ["a", "b"], [])
    with pytest.raises(ValueError, match=f"d.{kind} has no rows"):
        open_stream(tmp_path / f"d.{kind}")


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_leaves_nothing_half_written_and_the_old_file_untouched(kind, error, tmp_path):
    path = tmp_path / f"d.{kind}"

    def fail() -> None:
        with open_writer(path, 6) as sink:
            sink.write(Z)
            assert len(list(tmp_path.iterdir())) == 1 + path.exists()
            raise error("in the middle")

    with pytest.raises(error, match="in the middle"):
        fail()
    assert list(tmp_path.iterdir()) == []
    write(path, 6, [Z])
    before = path.read_bytes()
    with pytest.raises(error, match="in the middle"):
        fail()
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    write(path, 6, [Z[:3]])
    assert len(next(open_stream(path).blocks(9))) == 3


@pytest.mark.parametrize("kind", FORMATS)
def test_who_reads_the_old_file_goes_on_reading_it(kind, tmp_path):
    path = tmp_path / f"d.{kind}"
    write(path, 6, [Z])
    before = path.read_bytes()
    with path.open("rb") as reader:
        write(path, 6, [Z[:3]])
        assert reader.read() == before != path.read_bytes()


@pytest.mark.parametrize("kind", FORMATS)
def test_rows_that_cannot_be_finished_leave_nothing(kind, tmp_path, monkeypatch):
    def full(*_):
        raise OSError("no space left on the device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        write(tmp_path / f"d.{kind}", 6, [Z])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", FORMATS)
def test_rows_that_do_not_fit_are_refused(kind, tmp_path):
    path = tmp_path / f"d.{kind}"
    with pytest.raises(
        ValueError, match=rf"d.{kind} needs rows of 5 columns, got an array of shape \(1000, 6\)"
    ):
        write(path, 5, [Z])
    with pytest.raises(
        ValueError, match="column 'x0' is float32, and float64 does not fit into it"
    ):
        write(path, 6, [Z], dtype=np.float32)
    with pytest.raises(ValueError, match=r"has the columns \['a', 'b'\], got \['a'\]"):
        write(path, ["a", "b"], [{"a": [1.0]}])
    with pytest.raises(ValueError, match=r"columns of one length are needed, got \[1, 2\] rows"):
        write(path, ["a", "b"], [{"a": [1.0], "b": [1.0, 2.0]}])
    assert list(tmp_path.iterdir()) == []


def test_places_that_cannot_be_written_to_are_refused(tmp_path):
    for path, columns, sentence in (
        (
            tmp_path / "d.xls",
            2,
            "d.xls has a suffix that cannot be written: use .parquet, .npy, .csv",
        ),
        (tmp_path / "gone" / "d.npy", 2, "There is no folder .*gone to write to"),
        (tmp_path / "d.npy", 0, "columns must be an integer of at least 1, got 0"),
        (tmp_path / "d.npy", [], "d.npy needs at least one column"),
        (tmp_path / "d.npy", ["a", "a"], "two columns have one name"),
        (tmp_path / "d.npy", {"a": "f4", "b": "f8"}, "d.npy needs numbers of one dtype"),
        (tmp_path / "d.npy", {"a": str}, "d.npy needs numbers of one dtype"),
        (tmp_path / "d.csv", {"a": ("f4", 3)}, "CSV has no columns of lists"),
        (tmp_path / "d.parquet", {"a": "c16"}, "columns are numbers or text, got complex128"),
    ):
        with pytest.raises(ValueError, match=sentence):
            open_writer(path, columns)
    (tmp_path / "e.npy").mkdir()
    with pytest.raises(ValueError, match=r"e.npy is a folder"):
        open_writer(tmp_path / "e.npy", 2)


def test_without_pyarrow_npy_is_written_and_the_others_say_what_they_need(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    write(tmp_path / "d.npy", 6, [Z])
    for kind, doing in (("parquet", "Writing Parquet"), ("csv", "Writing CSV")):
        with pytest.raises(
            ValueError, match=rf"{doing} needs pyarrow: pip install 'mercer\[parquet\]'."
        ):
            open_writer(tmp_path / f"d.{kind}", 6)
