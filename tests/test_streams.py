"""Streams: every source gives the same rows in the same blocks; what is wrong with a file is said with its place."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file

from mercer import door, open_stream
from mercer.streams import Chunk, base, rechunk, svmlight, text

N, D = 257, 5
NAMES = [f"c{i}" for i in range(D)]


def rows() -> np.ndarray:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D)) * 10.0 ** rng.integers(-8, 8, size=(N, D))
    X[rng.random((N, D)) < 0.3] = 0
    X[0] = X[N - 1] = 1  # svmlight finds its width
    return X


X = rows()
y = np.random.default_rng(1).integers(0, 3, size=N)
w = np.random.default_rng(2).random(N)


def table(X=X, y=y, w=w) -> pa.Table:
    return pa.table({**dict(zip(NAMES, X.T, strict=True)), "label": y, "w": w})


def parquet_folder(path: Path) -> Path:
    path.mkdir()
    edges = [0, 40, 40, 41, 120, 250, N]  # one file is empty, one has a row
    for i, (start, stop) in enumerate(pairwise(edges)):
        pq.write_table(table().slice(start, stop - start), path / f"part-{i:04}.parquet", row_group_size=17)
    (path / "_metadata.parquet").write_bytes(b"not data")
    return path


def lists() -> pa.Table:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X[:, 1:].ravel()), D - 1)
    return pa.table({"c0": X[:, 0], "v": vectors, "label": y, "w": w})


def write_csv(path: Path, delimiter: str = ",") -> Path:
    lines = [delimiter.join([*NAMES, "label", "w"])]
    lines += [
        delimiter.join(map(repr, [*map(float, row), int(a), float(b)])) for row, a, b in zip(X, y, w, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def written(path: Path, write, *args, **options) -> Path:
    write(path, *args, **options)
    return path


FRAME = {**dict(zip(NAMES, X.T, strict=True)), "label": y, "w": w}
TABLE = {"target": "label", "weight": "w"}
SOURCES = {
    "array": lambda folder: open_stream((X, y, w)),
    "array with all in it": lambda folder: open_stream(np.column_stack([w, X, y]), target=-1, weight=0),
    "array in Fortran order": lambda folder: open_stream(np.asfortranarray(X), target=y, weight=w),
    "list of lists": lambda folder: open_stream((X.tolist(), y.tolist(), w.tolist())),
    "csr": lambda folder: open_stream((sp.csr_array(X), y, w)),
    "coo": lambda folder: open_stream((sp.coo_matrix(X), y, w)),
    "pandas": lambda folder: open_stream(pd.DataFrame(FRAME), **TABLE),
    "polars": lambda folder: open_stream(pl.DataFrame(FRAME), **TABLE),
    "npy": lambda folder: open_stream((written(folder / "X.npy", np.save, X), y, w)),
    "npy with all in it": lambda folder: open_stream(
        written(folder / "X.npy", np.save, np.column_stack([X, y, w])), target=5, weight=-1
    ),
    "npy in Fortran order": lambda folder: open_stream(
        str(written(folder / "X.npy", np.save, np.asfortranarray(X))), target=y, weight=w
    ),
    "npz": lambda folder: open_stream(written(folder / "d.npz", np.savez, X=X, y=y, w=w), weight="w"),
    "npz, compressed": lambda folder: open_stream(
        written(folder / "d.npz", np.savez_compressed, X=X, label=y, w=w), **TABLE
    ),
    "npz, one array": lambda folder: open_stream((written(folder / "d.npz", np.savez, X), y, w)),
    "npz, csr": lambda folder: open_stream((written(folder / "d.npz", sp.save_npz, sp.csr_array(X)), y, w)),
    "parquet": lambda folder: open_stream(
        written(folder / "d.parquet", lambda path: pq.write_table(table(), path, row_group_size=50)), **TABLE
    ),
    "parquet folder": lambda folder: open_stream(parquet_folder(folder / "d"), **TABLE),
    "parquet list of files": lambda folder: open_stream(sorted(parquet_folder(folder / "d").glob("part*")), **TABLE),
    "parquet column of lists": lambda folder: open_stream(
        written(folder / "d.parquet", lambda path: pq.write_table(lists(), path)), **TABLE
    ),
    "csv": lambda folder: open_stream(write_csv(folder / "d.csv"), **TABLE),
    "tsv": lambda folder: open_stream(write_csv(folder / "d.tsv", "\t"), **TABLE),
    "svmlight": lambda folder: open_stream(
        written(folder / "d.svm", lambda path: dump_svmlight_file(X, y, str(path), zero_based=False)), weight=w
    ),
    "svmlight from 0": lambda folder: open_stream(
        written(folder / "d.libsvm", lambda path: dump_svmlight_file(X, y, str(path))), weight=w
    ),
}


@pytest.fixture
def small(monkeypatch):
    """Chunks of a few rows, so that a few hundred are many chunks."""
    monkeypatch.setattr(base, "_CHUNK_BYTES", 21 * D * 8)
    monkeypatch.setattr(text, "_BLOCK", 512)
    monkeypatch.setattr(svmlight, "_RANGE", 300)


def dense(chunks) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    chunks = list(chunks)
    X = [chunk.X.toarray() if hasattr(chunk.X, "indptr") else chunk.X for chunk in chunks]
    return tuple(map(np.concatenate, (X, [chunk.y for chunk in chunks], [chunk.weight for chunk in chunks])))


def assert_rows(stream, chunks, start: int = 0, stop: int = N) -> None:
    seen, labels, weights = dense(chunks)
    if stream.kind == "svmlight":  # scikit-learn writes 16 digits
        np.testing.assert_allclose(seen, X[start:stop], rtol=1e-15)
    else:
        assert seen.tobytes() == np.ascontiguousarray(X[start:stop]).tobytes()
    np.testing.assert_array_equal(labels, y[start:stop])
    np.testing.assert_array_equal(weights, w[start:stop])


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_gives_the_same_rows_in_the_same_blocks_again_and_again(source, small, tmp_path):
    stream = SOURCES[source](tmp_path)
    assert stream.width == D
    assert stream.dtype == np.float64
    assert stream.rows == (None if stream.kind == "csv" else N)
    for size in (1, 7, 64, N, 1000):
        blocks = list(stream.blocks(size))
        assert [len(block) for block in blocks] == [size] * (N // size) + [N % size] * (N % size > 0)
        assert [block.start for block in blocks] == list(range(0, N, size))
        assert_rows(stream, blocks)
        for block in blocks:
            if stream.sparse:
                assert block.X.has_canonical_format and block.X.format == "csr"
            else:
                assert block.X.flags.c_contiguous
            assert block.X.dtype == np.float64
    assert stream.rows == N


@pytest.mark.parametrize("source", SOURCES)
def test_to_start_at_a_row_is_to_leave_out_the_rows_before_it(source, small, tmp_path):
    stream = SOURCES[source](tmp_path)
    for start in (1, 17, 50, 119, 120, 255, N - 1):
        assert_rows(stream, stream.chunks(start), start)
        blocks = list(stream.blocks(8, start, start + 19))
        assert_rows(stream, blocks, start, min(start + 19, N))
        assert [block.start for block in blocks] == list(range(start, min(start + 19, N), 8))
    assert list(stream.blocks(8, N)) == []
    (tmp_path / "fresh").mkdir()
    fresh = SOURCES[source](tmp_path / "fresh")  # one that has not counted its rows yet
    with pytest.raises(ValueError, match=f"has {N} rows: there is no row 300 to start from"):
        list(fresh.chunks(300))


@pytest.mark.parametrize("source", SOURCES)
def test_a_stream_can_be_sent_to_another_process(source, tmp_path):
    stream = SOURCES[source](tmp_path)
    assert_rows(stream, pickle.loads(pickle.dumps(stream)).chunks())


@pytest.mark.parametrize("source", SOURCES)
def test_fingerprints_are_plain_know_the_data_and_name_no_folder(source, tmp_path):
    stream = SOURCES[source](tmp_path)
    mark = stream.fingerprint()
    list(stream.chunks())
    assert json.loads(json.dumps(mark)) == mark == stream.fingerprint()
    assert str(tmp_path) not in json.dumps(mark)
    assert mark["width"] == D and mark["target"] is not None and mark["weight"] is not None
    for path in tmp_path.rglob("*"):
        os.utime(path, ns=(1, 1))
    assert (stream.fingerprint() == mark) == (not any(tmp_path.iterdir()))


def test_fingerprints_see_one_changed_number_and_one_changed_label():
    other, labels = X.copy(), y.copy()
    other[200, 3] += 1
    labels[200] += 1
    marks = [open_stream(pair).fingerprint() for pair in ((X, y), (other, y), (X, labels), (X.astype(np.float32), y))]
    assert len({json.dumps(mark) for mark in marks}) == 4
    assert marks[0]["hashed"] == "all rows"
    sparse = [open_stream(sp.csr_array(matrix)).fingerprint()["sha256"] for matrix in (X, other)]
    assert sparse[0] != sparse[1]


def test_the_fingerprint_of_a_large_array_says_which_rows_it_looked_at(monkeypatch):
    monkeypatch.setattr(base, "_HASH_BYTES", 2**21)
    large = np.zeros((2**17, 8))
    mark = open_stream((large, large[:, :2])).fingerprint()
    assert mark["hashed"] == "16384 rows of every 65536"
    assert mark["y"]["hashed"] == "all rows"
    large[65536] = 1
    assert open_stream(large).fingerprint()["sha256"] != mark["sha256"]


@pytest.mark.parametrize("kind", ["array", "csr", "npy", "npz", "pandas", "polars", "parquet"])
def test_float32_is_kept_and_integers_and_booleans_become_float64(kind, tmp_path):
    def opened(values):
        names = [f"c{i}" for i in range(values.shape[1])]
        columns = dict(zip(names, np.ascontiguousarray(values.T), strict=True))
        match kind:
            case "array":
                return open_stream(values)
            case "csr":
                return open_stream(sp.csr_array(values))
            case "npy":
                return open_stream(written(tmp_path / "X.npy", np.save, values))
            case "npz":
                return open_stream(written(tmp_path / "X.npz", np.savez, values))
            case "pandas":
                return open_stream(pd.DataFrame(columns))
            case "polars":
                return open_stream(pl.DataFrame(columns))
        pq.write_table(pa.table(columns), tmp_path / "X.parquet")
        return open_stream(tmp_path / "X.parquet")

    for dtype, expected in (("f4", "f4"), ("f8", "f8"), ("i8", "f8"), ("u1", "f8"), ("?", "f8")):
        values = (np.abs(X) > 1).astype(dtype)
        stream = opened(values)
        (block,) = stream.blocks(N)
        got = block.X.toarray() if stream.sparse else block.X
        assert stream.dtype == got.dtype == expected
        np.testing.assert_array_equal(got, values)


def test_columns_of_mixed_types_are_float64(tmp_path):
    frame = pd.DataFrame({"a": np.float32([1.5, 2]), "b": [1, 2], "c": [True, False], "h": np.float16([0.5, 3])})
    frame.to_parquet(tmp_path / "d.parquet")
    for source in (frame, pl.from_pandas(frame.drop(columns="h")), tmp_path / "d.parquet"):
        stream = open_stream(source, columns=["c", "a", "b"])
        assert stream.dtype == np.float64 and stream.columns == ("c", "a", "b")
        assert next(stream.chunks()).X.tolist() == [[1, 1.5, 1], [0, 2, 2]]
    assert next(open_stream(tmp_path / "d.parquet", columns=["h"]).chunks()).X.tolist() == [[0.5], [3]]


@pytest.mark.parametrize("kind", ["pandas", "polars", "parquet", "csv"])
def test_labels_may_be_words_categories_and_several_columns(kind, tmp_path):
    frame = pd.DataFrame({"x": [1.0, 2, 3], "word": ["yes", "no", "maybe"], "number": [3, 1, 2], "real": [0.5, 1, 2]})
    frame["truth"] = [True, False, True]
    frame["kind"] = pd.Categorical(["a", "b", "a"])
    source = {"pandas": frame, "polars": pl.from_pandas(frame)}.get(kind)
    if source is None:
        source = tmp_path / f"d.{kind}"
        frame.to_parquet(source) if kind == "parquet" else frame.to_csv(source, index=False)

    def labels(target):
        stream = open_stream(source, target=target, columns=["x"])
        (block,) = stream.blocks(9)
        assert stream.target == target
        return block.y

    assert labels("word").tolist() == ["yes", "no", "maybe"]
    assert labels("kind").tolist() == ["a", "b", "a"]
    assert labels("number").dtype.kind == "i"
    assert labels("truth").dtype.kind == "b"
    np.testing.assert_array_equal(labels(["number", "real"]), [[3, 0.5], [1, 1], [2, 2]])
    assert labels(["word", "number"]).tolist() == [["yes", 3], ["no", 1], ["maybe", 2]]


def test_nothing_of_a_float_array_is_copied():
    stream = open_stream((X, y))
    for block in stream.blocks(10):
        assert np.shares_memory(block.X, X) and np.shares_memory(block.y, y)


def test_columns_are_chosen_by_number_in_arrays():
    weighted = np.abs(X)
    for matrix in (weighted, sp.csr_array(weighted)):
        stream = open_stream(matrix, columns=[3, 0], target=[1, 4], weight=2)
        assert stream.columns == ("x3", "x0") and stream.target == ["x1", "x4"] and stream.weight == "x2"
        (block,) = stream.blocks(N)
        got = block.X.toarray() if stream.sparse else block.X
        np.testing.assert_array_equal(got, weighted[:, [3, 0]])
        np.testing.assert_array_equal(block.y, weighted[:, [1, 4]])
        np.testing.assert_array_equal(block.weight, weighted[:, 2])


@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=12),
    size=st.integers(1, 20),
    begin=st.integers(0, 10),
    stop=st.none() | st.integers(0, 130),
    sparse=st.booleans(),
)
def test_blocks_do_not_depend_on_the_chunks_they_are_cut_from(lengths, size, begin, stop, sparse):
    n = sum(lengths)
    matrix = np.arange(1.0, 2 * n + 1).reshape(n, 2)
    edges = np.cumsum([0, *lengths])
    store = sp.csr_array(matrix) if sparse else matrix
    chunks = [Chunk(store[a:b], matrix[a:b, 0], None, begin + int(a)) for a, b in pairwise(edges)]
    blocks = list(rechunk(chunks, size, stop))
    end = n if stop is None else min(n, max(0, stop - begin))
    assert [len(block) for block in blocks] == [min(size, end - at) for at in range(0, end, size)]
    for at, block in zip(range(0, end, size), blocks, strict=True):
        got = block.X.toarray() if sparse else block.X
        np.testing.assert_array_equal(got, matrix[at : min(at + size, end)])
        np.testing.assert_array_equal(block.y, got[:, 0])
        assert block.start == begin + at and block.weight is None


def test_a_nan_in_block_37_of_a_folder_is_named_by_file_row_and_column(tmp_path):
    """What fold does: check each block, and let the stream say where the row is."""
    bad = X.copy()
    bad[37 * 5 + 2, 3] = np.nan
    for i, start in enumerate(range(0, N, 100)):
        pq.write_table(table(bad).slice(start, 100), tmp_path / f"part-{i:04}.parquet", row_group_size=30)
    stream = open_stream(tmp_path, target="label", weight="w")

    def check() -> None:
        for number, block in enumerate(stream.blocks(5)):
            try:
                door.require_finite("fold", block.X, stream.columns)
            except door.RowError as error:
                assert number == 37
                raise stream.located(error, block.start) from None

    with pytest.raises(door.RowError) as caught:
        check()
    assert str(caught.value) == (
        "Input X contains NaN: fold needs finite numbers, got nan at part-0001.parquet, row 87 of the file, column 3 ('c3'). "
        "Drop or impute such values first (sklearn.impute)."
    )
    assert caught.value.row == 187
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_places_are_rows_for_arrays_and_files_and_rows_for_files(tmp_path):
    assert open_stream(X).where(7) == "row 7"
    stream = open_stream(parquet_folder(tmp_path / "d"))
    assert stream.where(0) == "part-0000.parquet, row 0 of the file"
    assert stream.where(40) == "part-0002.parquet, row 0 of the file"
    assert stream.where(256) == "part-0005.parquet, row 6 of the file"
    assert open_stream(write_csv(tmp_path / "d.csv")).where(3) == "d.csv, row 3 of the file"


def nulls() -> pa.Table:
    lists = pa.array([[1.0, 2], None, [3, None], [5, 6]], pa.list_(pa.float64(), 2))
    return pa.table(
        {
            "real": [1.0, None, 3, 4],
            "whole": [1, 2, None, 4],
            "truth": [None, True, False, True],
            "none": pa.nulls(4),
            "v": lists,
        }
    )


def test_nulls_are_nan_whatever_the_column(tmp_path):
    pq.write_table(nulls(), tmp_path / "d.parquet")
    nan = np.nan
    expected = [[1, 1, nan, nan, 1, 2], [nan, 2, 1, nan, nan, nan], [3, nan, 0, nan, 3, nan], [4, 4, 1, nan, 5, 6]]
    stream = open_stream(tmp_path / "d.parquet")
    np.testing.assert_array_equal(next(stream.chunks()).X, expected)
    np.testing.assert_array_equal(next(stream.chunks(1)).X, expected[1:])
    assert stream.columns == ("real", "whole", "truth", "none", "v[0]", "v[1]")
    frame = pl.from_arrow(nulls().drop_columns(["v", "none"]))
    np.testing.assert_array_equal(next(open_stream(frame).chunks()).X, np.array(expected)[:, :3])
    frame = frame.to_pandas().astype({"whole": "Int64", "truth": "boolean"})
    np.testing.assert_array_equal(next(open_stream(frame).chunks()).X, np.array(expected)[:, :3])


@pytest.mark.parametrize("kind", ["array", "words in an array", "npy", "npz", "pandas", "polars", "parquet", "csv"])
def test_a_missing_target_is_named_by_its_row(kind, tmp_path):
    labels = np.arange(N, dtype=float)
    labels[201] = np.nan
    words = np.array([f"w{i}" for i in range(N)], dtype=object)
    words[201] = None
    frame = pd.DataFrame({"x": X[:, 0], "label": words})
    match kind:
        case "array":
            stream, sentence = open_stream((X, labels)), "target needs a value in every row, got nan at row 201."
        case "words in an array":
            stream, sentence = open_stream((X, words)), "target needs a value in every row, got None at row 201."
        case "npy":
            np.save(tmp_path / "d.npy", np.column_stack([labels, X]))
            stream, sentence = (
                open_stream(tmp_path / "d.npy", target=0),
                "target 'x0' .* nan at d.npy, row 201 of the file.",
            )
        case "npz":
            np.savez(tmp_path / "d.npz", X=X, y=labels)
            stream, sentence = open_stream(tmp_path / "d.npz"), "target 'y' .* nan at d.npz, row 201 of the file."
        case "pandas":
            stream, sentence = open_stream(frame, target="label"), "target 'label' .* None at row 201."
        case "polars":
            stream, sentence = open_stream(pl.from_pandas(frame), target="label"), "target 'label' .* None at row 201."
        case "parquet":
            frame.assign(other=1).to_parquet(tmp_path / "d.parquet")
            stream = open_stream(tmp_path / "d.parquet", target=["other", "label"])
            sentence = "target 'label' .* None at d.parquet, row 201 of the file."
        case "csv":
            frame.to_csv(tmp_path / "d.csv", index=False)
            stream = open_stream(tmp_path / "d.csv", target="label")
            sentence = "target 'label' .* None at d.csv, row 201 of the file."
    with pytest.raises(ValueError, match=sentence):
        list(stream.blocks(10))


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
def test_weights_are_finite_and_not_negative(value, tmp_path):
    bad = w.copy()
    bad[9] = value
    with pytest.raises(ValueError, match=f"Weights must be finite and not negative, got {value} at row 9."):
        list(open_stream((X, y, bad)).chunks())
    pq.write_table(table(w=bad), tmp_path / "d.parquet")
    with pytest.raises(ValueError, match=r"at d.parquet, row 9 of the file"):
        list(open_stream(tmp_path / "d.parquet", target="label", weight="w").chunks())


def test_a_file_that_changes_its_columns_stops_with_file_and_column(tmp_path):
    pq.write_table(table(), tmp_path / "a.parquet")
    changes = {
        "b.parquet has no column 'c4', which a.parquet has": table().drop_columns(["c4"]),
        "b.parquet has a column 'more', which a.parquet has not": table().append_column("more", pa.array(w)),
        "b.parquet: column 'c2' is float, and in a.parquet it is double": table().set_column(
            2, "c2", pa.array(X[:, 2].astype("f4"))
        ),
        "b.parquet: column 'label' is text, and in a.parquet it is int64": table().set_column(
            5, "label", pa.array(y.astype(str))
        ),
    }
    for sentence, other in changes.items():
        pq.write_table(other, tmp_path / "b.parquet")
        with pytest.raises(ValueError, match=sentence):
            open_stream(tmp_path, target="label")
    pq.write_table(table().append_column("more", pa.array(w)), tmp_path / "b.parquet")
    assert open_stream(tmp_path, columns=["c1"]).rows == 2 * N
    pq.write_table(table().select(["label", *NAMES[::-1], "w"]), tmp_path / "b.parquet")
    (block,) = open_stream(tmp_path, target="label").blocks(2 * N)
    np.testing.assert_array_equal(block.X[N:], np.column_stack([X, w]))


def test_a_list_column_of_another_length_stops(tmp_path):
    pq.write_table(lists(), tmp_path / "a.parquet")
    short = pa.FixedSizeListArray.from_arrays(pa.array(X[:, 2:].ravel()), D - 2)
    pq.write_table(lists().set_column(1, "v", short), tmp_path / "b.parquet")
    with pytest.raises(
        ValueError, match=r"b.parquet: column 'v' is double, 3 to a row, and in a.parquet it is double, 4"
    ):
        open_stream(tmp_path, target="label")


def test_files_that_change_under_a_stream_are_noticed(tmp_path):
    path = written(tmp_path / "X.npy", np.save, X)
    stream = open_stream(path)
    np.save(path, X[:100])
    with pytest.raises(ValueError, match=r"X.npy has become shorter since it was opened"):
        list(stream.chunks())
    pq.write_table(table(), tmp_path / "d.parquet")
    stream = open_stream(tmp_path / "d.parquet")
    pq.write_table(table().slice(10), tmp_path / "d.parquet")
    with pytest.raises(ValueError, match=r"d.parquet has changed since it was opened"):
        list(stream.chunks())
    write_csv(tmp_path / "d.csv")
    stream = open_stream(tmp_path / "d.csv")
    list(stream.chunks())
    lines = (tmp_path / "d.csv").read_text().splitlines(keepends=True)
    (tmp_path / "d.csv").write_text("".join(lines[:-1]))
    with pytest.raises(ValueError, match=f"d.csv had {N} rows, and now ends after {N - 1}"):
        list(stream.chunks())


def test_row_groups_before_the_start_are_not_read(tmp_path):
    path = tmp_path / "d.parquet"
    pq.write_table(table(), path, row_group_size=50)
    second = pq.ParquetFile(path).metadata.row_group(1).column(0).dictionary_page_offset
    content = path.read_bytes()
    path.write_bytes(content[:4] + b"\xff" * (second - 4) + content[second:])
    stream = open_stream(path, **TABLE)
    assert_rows(stream, stream.chunks(50), 50)
    with pytest.raises(ValueError, match=r"d.parquet is damaged, or no Parquet file"):
        list(stream.chunks(49))


def test_one_row_is_a_stream(tmp_path):
    pq.write_table(table().slice(3, 1), tmp_path / "d.parquet")
    (tmp_path / "d.csv").write_text("a,b\n1,2\n")
    (tmp_path / "d.svm").write_text("1 1:2 3:4\n")
    np.save(tmp_path / "d.npy", X[:1])
    for name in ("d.parquet", "d.csv", "d.svm", "d.npy"):
        (block,) = open_stream(tmp_path / name).blocks(10)
        assert len(block) == 1
    assert block.X.tolist() == X[:1].tolist()


EMPTY = {
    "the array has no rows": lambda folder: np.empty((0, 3)),
    "the array has no columns": lambda folder: np.empty((3, 0)),
    "the pandas frame has no rows": lambda folder: pd.DataFrame({"a": []}),
    "X.npy has no rows": lambda folder: written(folder / "X.npy", np.save, np.empty((0, 3))),
    "d.parquet has no rows": lambda folder: written(
        folder / "d.parquet", lambda path: pq.write_table(table().slice(0, 0), path)
    ),
    "d.csv is empty": lambda folder: written(folder / "d.csv", Path.write_text, ""),
    "d.csv has no rows after its first line": lambda folder: written(folder / "d.csv", Path.write_text, "a,b\n"),
    "d.svm has no rows": lambda folder: written(folder / "d.svm", Path.write_text, "# nothing\n"),
    "d.svm has no entries": lambda folder: written(folder / "d.svm", Path.write_text, "1\n2\n"),
}


@pytest.mark.parametrize("sentence", EMPTY)
def test_an_empty_stream_is_refused(sentence, tmp_path):
    with pytest.raises(ValueError, match=sentence):
        open_stream(EMPTY[sentence](tmp_path))


def a_parquet(folder: Path, **columns) -> Path:
    return written(folder / "d.parquet", lambda path: pq.write_table(pa.table(columns), path))


def damaged(folder: Path, name: str, content: bytes = b"nothing that anybody can read") -> Path:
    return written(folder / name, Path.write_bytes, content)


def objects(folder: Path) -> Path:
    return written(folder / "X.npy", np.save, np.array([[print]], dtype=object), allow_pickle=True)


REFUSED = {
    r"There is no file .*gone.csv": lambda f: (f / "gone.csv", {}),
    r"d.csv.gz is compressed: unpack it first": lambda f: (damaged(f, "d.csv.gz"), {}),
    r"d.xls is of no known kind. Known are .npy, .npz, .parquet, .csv": lambda f: (damaged(f, "d.xls"), {}),
    r"The folder .* has no .parquet files": lambda f: (f, {}),
    r"takes lists of .parquet files, got d.csv": lambda f: ([damaged(f, "d.csv")], {}),
    r"d.parquet is damaged, or no Parquet file": lambda f: (damaged(f, "d.parquet"), {}),
    r"d.npz is damaged, or no .npz file": lambda f: (damaged(f, "d.npz"), {}),
    r"d.npy is not a .npy array": lambda f: (damaged(f, "d.npy"), {}),
    r"X.npy is cut short: 10408 bytes are announced, 9000 are there": lambda f: (
        damaged(f, "X.npy", written(f / "Y.npy", np.save, X).read_bytes()[:9000]),
        {},
    ),
    r"X.npy holds pickled Python objects, which could run code": lambda f: (objects(f), {}),
    r"X.npy must be a 2-d array of real numbers, got 1-d of float64": lambda f: (written(f / "X.npy", np.save, w), {}),
    r"2-d array of real numbers, got 2-d of complex128": lambda f: (X + 1j, {}),
    r"open_stream needs numbers, could not convert string to float: 'b' at row 0, column 1": lambda f: (
        [["1", "b"]],
        {},
    ),
    r"d.npz needs an array X, one array, or .* Its arrays: 'a', 'b'": lambda f: (
        written(f / "d.npz", np.savez, a=X, b=y),
        {},
    ),
    r"d.npz has no array 'z' \(target\). Its arrays: 'X', 'y'": lambda f: (
        written(f / "d.npz", np.savez, X=X, y=y),
        {"target": "z"},
    ),
    r"d.npz: y needs a value for each of 257 rows, got \(3,\)": lambda f: (
        written(f / "d.npz", np.savez, X=X, y=y[:3]),
        {},
    ),
    r"d.npz: X is in Fortran order": lambda f: (written(f / "d.npz", np.savez, X=np.asfortranarray(X)), {}),
    r"d.npz holds a csc matrix: save it as CSR": lambda f: (written(f / "d.npz", sp.save_npz, sp.csc_array(X)), {}),
    r"d.parquet has no column 'lable' \(target\). Its columns: 'c0', .* Did you mean 'label'": lambda f: (
        written(f / "d.parquet", lambda path: pq.write_table(table(), path)),
        {"target": "lable"},
    ),
    r"the pandas frame has no column 'z' \(weight\). Its columns: 'c0'": lambda f: (
        pd.DataFrame(FRAME),
        {"weight": "z"},
    ),
    r"the array has no column 5 \(target\): its columns are numbered 0 to 4": lambda f: (X, {"target": 5}),
    r"column 'c1' is chosen twice among columns, target and weight": lambda f: (
        pd.DataFrame(FRAME),
        {"columns": ["c0", "c1"], "target": "c1"},
    ),
    r"column 0 is chosen twice .* give values as an array": lambda f: (X, {"target": [0, 1, 0]}),
    r"the array: target needs one number or label for each of the 257 rows, got .* \(3,\)": lambda f: (
        X,
        {"target": y[:3]},
    ),
    r"the array: columns must be a list of columns, got 'c0'": lambda f: (X, {"columns": "c0"}),
    r"d.parquet: column 'city' is text, and inputs must be numbers": lambda f: (
        a_parquet(f, x=[1.0], city=["Bern"]),
        {},
    ),
    r"d.parquet: column 'when' is timestamp\[us\]": lambda f: (
        a_parquet(f, x=[1.0], when=pa.array([0], pa.timestamp("us"))),
        {},
    ),
    r"d.parquet: column 'v' is list<.*double>, and inputs must be numbers or lists of them of one length": lambda f: (
        a_parquet(f, v=[[1.0], [2.0, 3.0]]),
        {},
    ),
    r"d.parquet: the target 'when' is timestamp\[us\], and must be numbers or labels": lambda f: (
        a_parquet(f, x=[1.0], when=pa.array([0], pa.timestamp("us"))),
        {"target": "when"},
    ),
    r"the pandas frame: column 'city' is of type .*, and inputs must be numbers": lambda f: (
        pd.DataFrame({"x": [1.0], "city": ["Bern"]}),
        {},
    ),
    r"the polars frame: column 'city' is of type String": lambda f: (pl.DataFrame({"x": [1.0], "city": ["Bern"]}), {}),
    r"takes no LazyFrame: collect\(\) it": lambda f: (pl.LazyFrame({"x": [1.0]}), {}),
    r"rows that can be read more than once, got a generator": lambda f: ((row for row in X), {}),
    r"n_features is for svmlight files": lambda f: (X, {"n_features": 3}),
    r"for a tuple, without target=": lambda f: ((X, y), {"target": y}),
    r"d.csv: column 'city' is text, and inputs must be numbers": lambda f: (
        damaged(f, "d.csv", b"x,city\n1,Bern\n"),
        {},
    ),
    r"d.csv: the first line must have the names of the columns, got numbers \(5.1, 3.5, 1\)": lambda f: (
        damaged(f, "d.csv", b"5.1,3.5,1\n1,2,3\n"),
        {},
    ),
    r"d.csv has one column, 'a;b'": lambda f: (damaged(f, "d.csv", b"a;b\n1;2\n"), {}),
    r"d.csv has two columns named 'a'": lambda f: (damaged(f, "d.csv", b"a,b,a\n1,2,3\n"), {}),
    r"d.csv cannot be read as CSV: .*Expected 2 columns, got 3": lambda f: (
        damaged(f, "d.csv", b"a,b\n1,2\n3,4,5\n"),
        {},
    ),
    r"d.csv: the number of rows is not known, so target must be the name": lambda f: (
        damaged(f, "d.csv", b"a,b\n1,2\n"),
        {"target": y},
    ),
    r"no svmlight file \(label index:value ...\) at d.svm, row 1 of the file: .*sorted and unique": lambda f: (
        damaged(f, "d.svm", b"# a comment\n1 1:2 # more\n\n2 3:1 2:1\n"),
        {},
    ),
    r"at d.svm, row 0 of the file: it has a query id \(qid:\)": lambda f: (damaged(f, "d.svm", b"1 qid:3 1:2\n"), {}),
    r"d.svm: n_features is 2, and the file uses 3 columns": lambda f: (
        damaged(f, "d.svm", b"1 3:2\n"),
        {"n_features": 2},
    ),
    r"d.svm: the target of an svmlight file is the label": lambda f: (damaged(f, "d.svm", b"1 3:2\n"), {"target": 1}),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_cannot_be_a_stream_is_refused_in_a_sentence(sentence, tmp_path):
    source, options = REFUSED[sentence](tmp_path)
    with pytest.raises(ValueError, match=sentence):
        open_stream(source, **options)


def test_columns_kept_in_folder_names_are_refused(tmp_path):
    (tmp_path / "year=2020").mkdir()
    pq.write_table(table(), tmp_path / "year=2020" / "a.parquet")
    with pytest.raises(ValueError, match=r"year=2020/a.parquet: columns kept in folder names are not read"):
        open_stream(tmp_path)


def test_subfolders_are_read_in_the_order_of_their_names(tmp_path):
    for name, start in (("b/a.parquet", 100), ("a/b.parquet", 50), ("a/a.parquet", 0)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pq.write_table(table().slice(start, 50), tmp_path / name)
    stream = open_stream(tmp_path, **TABLE)
    assert_rows(stream, stream.chunks(), 0, 150)
    assert stream.where(149) == "b/a.parquet, row 49 of the file"


@pytest.mark.parametrize(
    ("value", "column", "kind"), [("oops", "b", "numbers"), ("2.5", "n", "whole numbers"), ("7", "t", "true and false")]
)
def test_a_csv_value_that_does_not_fit_its_column_is_named_by_row(value, column, kind, small, tmp_path):
    lines = [[str(i), " 0.5 ", str(i), "true"] for i in range(300)]
    lines[250]["abnt".index(column)] = value
    (tmp_path / "d.csv").write_text("a,b,n,t\n" + "".join(",".join(line) + "\n" for line in lines))
    stream = open_stream(tmp_path / "d.csv", target="n")
    sentence = f"Column '{column}' has {kind} in the first rows, and then '{value}' at d.csv, row 250 of the file"
    with pytest.raises(ValueError, match=sentence):
        list(stream.chunks())


def test_csv_columns_that_turn_from_whole_to_real_and_from_empty_to_numbers_are_read(small, tmp_path):
    lines = ["1,,true"] * 200 + ["2.5,3,false"] * 100
    (tmp_path / "d.csv").write_text("a,b,c\n" + "\n".join(lines))
    (block,) = open_stream(tmp_path / "d.csv").blocks(300)
    np.testing.assert_array_equal(block.X, [[1, np.nan, 1]] * 200 + [[2.5, 3, 0]] * 100)


def test_csv_lines_longer_than_a_block_are_read(small, tmp_path):
    wide = np.arange(3000.0).reshape(3, 1000)
    pd.DataFrame(wide).to_csv(tmp_path / "d.csv", index=False)
    np.testing.assert_array_equal(next(open_stream(tmp_path / "d.csv").blocks(3)).X, wide)


def test_svmlight_counts_columns_over_the_whole_file(small, tmp_path):
    lines = [f"{i % 2} 1:{i} 4:1 # comment 9:9\n" for i in range(200)] + ["\n", "# 0:1\n", "1 0:7\n"]
    (tmp_path / "d.svm").write_text("".join(lines))
    stream = open_stream(tmp_path / "d.svm")
    assert (stream.width, stream.rows) == (5, 201)
    (block,) = stream.blocks(300)
    assert block.X.toarray()[[199, 200]].tolist() == [[0, 199, 0, 0, 1], [7, 0, 0, 0, 0]]
    (tmp_path / "d.svm").write_text("".join(lines[:200]))
    assert open_stream(tmp_path / "d.svm").width == 4
    with pytest.raises(
        ValueError, match=r"d.svm uses columns 1 to 4, and 9 are wanted: they may count from 0 or from 1"
    ):
        open_stream(tmp_path / "d.svm", n_features=9)
    for zero_based, row in ((True, [0, 199, 0, 0, 1, 0, 0, 0, 0]), (False, [199, 0, 0, 1, 0, 0, 0, 0, 0])):
        (block,) = open_stream(tmp_path / "d.svm", n_features=9, zero_based=zero_based).blocks(300)
        assert block.X.toarray()[199].tolist() == row
    (tmp_path / "zero.svm").write_text("".join(lines))
    with pytest.raises(ValueError, match=r"zero.svm uses column 0, so that its columns cannot count from 1"):
        open_stream(tmp_path / "zero.svm", zero_based=False)
    (block,) = open_stream(tmp_path / "d.svm", columns=[3, 0]).blocks(300)
    assert block.X.toarray()[199].tolist() == [1, 199]


def test_csr_files_that_are_no_csr_are_refused(tmp_path):
    csr = sp.csr_array(X)
    for name, sentence in (("indices", "a column outside 0 to 4"), ("indptr", "indptr falls")):
        parts = {"data": csr.data, "indices": csr.indices.copy(), "indptr": csr.indptr.copy(), "shape": csr.shape}
        parts[name][3] = 400
        np.savez(tmp_path / "d.npz", **parts)
        with pytest.raises(ValueError, match=f"d.npz is not a CSR matrix: {sentence}"):
            list(open_stream(tmp_path / "d.npz").chunks())


def test_duplicates_in_a_sparse_matrix_are_added_up_and_the_caller_keeps_his():
    matrix = sp.csr_array((np.ones(3), np.array([2, 0, 2]), np.array([0, 3])), shape=(1, 3))
    (block,) = open_stream(matrix).blocks(1)
    assert block.X.toarray().tolist() == [[1, 0, 2]] and block.X.has_canonical_format
    assert matrix.indices.tolist() == [2, 0, 2]


def test_without_pyarrow_there_is_a_sentence(monkeypatch, tmp_path):
    pq.write_table(table(), tmp_path / "d.parquet")
    write_csv(tmp_path / "d.csv")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for name, doing in (("d.parquet", "Reading Parquet"), ("d.csv", "Reading CSV")):
        with pytest.raises(ValueError, match=rf"{doing} needs pyarrow: pip install 'mercer\[parquet\]'."):
            open_stream(tmp_path / name)


def test_arrays_are_streamed_without_pyarrow_pandas_or_scipy():
    code = (
        "import sys, numpy; from mercer import open_stream; list(open_stream(numpy.ones((3, 2))).blocks(2)); "
        "print({name.partition('.')[0] for name in sys.modules} & {'pyarrow', 'pandas', 'polars', 'scipy', 'sklearn'})"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_a_stream_is_a_stream_already():
    stream = open_stream(X)
    assert open_stream(stream) is stream
    with pytest.raises(ValueError, match="is open already: target=, columns= and weight= are given when"):
        open_stream(stream, columns=[0])


def test_a_shard_reads_no_chunk_beyond_its_end(small):
    read = []

    def chunks():
        for start in range(0, 100, 10):
            read.append(start)
            yield Chunk(np.zeros((10, 1)), start=start)

    assert sum(map(len, rechunk(chunks(), 5, 30))) == 30
    assert read == [0, 10, 20]


def test_small_integers_are_read_in_chunks_that_stay_small_as_float64(tmp_path):
    pixels = np.ones((20_000, 784), np.uint8)
    for source in (pixels, written(tmp_path / "p.npy", np.save, pixels), written(tmp_path / "p.npz", np.savez, pixels)):
        assert max(chunk.X.nbytes for chunk in open_stream(source).chunks()) <= 2**23


def test_bad_grids_are_refused():
    stream = open_stream(X)
    with pytest.raises(ValueError, match="rows of a block must be a whole number of at least 1, got 0"):
        stream.blocks(0)
    with pytest.raises(ValueError, match="start must be a whole number of at least 0, got -1"):
        stream.blocks(5, -1)


# VmHWM and not ru_maxrss, which a child takes over from the process that started it, together with the arrays made here.
PEAK = """
import sys
from mercer import open_stream
rows = sum(len(block) for block in open_stream(sys.argv[1]).blocks(512))
if sys.argv[2] == "hold":
    held = [block.X for block in open_stream(sys.argv[1]).chunks()]
with open("/proc/self/status") as status:
    print(rows, next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024)
"""
WIDTH = 64


def written_in_groups(kind: str, path: Path, n: int) -> Path:
    """n rows of a kind of file; what a reader holds at a time, such as a row group, is there several times."""
    values = np.random.default_rng(0).normal(size=(n, WIDTH))
    match kind:
        case "npy":
            np.save(path, values)
        case "npy in Fortran order":
            np.save(path, np.asfortranarray(values))
        case "npz":
            np.savez_compressed(path, X=values)
        case "parquet":
            pq.write_table(pa.table({f"c{i}": values[:, i] for i in range(WIDTH)}), path, row_group_size=2**13)
        case "parquet column of lists":
            vectors = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), WIDTH)
            pq.write_table(pa.table({"v": vectors}), path, row_group_size=2**13)
        case "csv":
            pd.DataFrame(values.round(6)).to_csv(path, index=False)
        case "svm":
            line = " ".join(f"{i + 1}:0.12345678901" for i in range(WIDTH))
            path.write_text(f"1 {line}\n" * n)
    return path


def peak(path: Path, how: str = "read") -> tuple[int, float]:
    """(rows, MiB at the peak), the median of three processes: what an allocator keeps for later varies by 20 MiB."""
    runs = [
        subprocess.run(
            [sys.executable, "-c", PEAK, path, how], capture_output=True, text=True, check=True
        ).stdout.split()
        for _ in range(3)
    ]
    return int(runs[0][0]), float(np.median([float(megabytes) for _, megabytes in runs]))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
@pytest.mark.parametrize(
    ("kind", "little", "large"),
    [
        ("npy", 39_000, 390_000),
        ("npy in Fortran order", 39_000, 390_000),
        ("npz", 39_000, 390_000),
        ("parquet", 130_000, 390_000),  # by then all buffers have been in use
        ("parquet column of lists", 130_000, 390_000),
        ("csv", 65_000, 195_000),  # 40 MB of text and 120: pyarrow reads about 30 MB ahead
        ("svm", 20_000, 200_000),
    ],
)
def test_memory_does_not_grow_with_the_file(kind, little, large, tmp_path):
    """More rows, 66 to 180 MB of them as float64, take less than 24 MiB more; to hold them would take more than 60."""
    suffix = kind.split()[0]
    paths = [written_in_groups(kind, tmp_path / f"{n}.{suffix}", n) for n in (little, large)]
    (few, less), (many, more) = map(peak, paths)
    assert (few, many) == (little, large)
    print(f"{kind}: {less:.0f} MiB for {little} rows, {more:.0f} MiB for {large}")
    assert more - less < 24, (less, more)
    assert peak(paths[1], "hold")[1] - less > 60


def test_a_watched_stream_tells_where_each_pass_begins_and_ends(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((70_000, 32)))
    seen = []
    stream = open_stream(tmp_path / "x.npy").watched(lambda row, of: seen.append((row, of)))
    chunks = [len(chunk) for chunk in stream.chunks()]
    assert len(chunks) > 1
    assert seen == [(0, 70_000), *((int(row), 70_000) for row in np.cumsum(chunks))]
    seen.clear()
    next(stream.chunks(start=69_000))
    assert seen == [(69_000, 70_000)]
    (tmp_path / "x.csv").write_text("a,b\n1,2\n3,4\n")
    short = open_stream(tmp_path / "x.csv").watched(lambda row, of: seen.append((row, of)))
    seen.clear()
    assert sum(len(chunk) for chunk in short.chunks()) == 2
    assert seen == [(0, None), (2, None)]
