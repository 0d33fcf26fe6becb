"""Streams: the same rows from every source, in the same blocks."""

from __future__ import annotations

import json
import os
import pickle
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file
from tests.helpers.stream_data import (
    FRAME,
    TABLE,
    D,
    N,
    X,
    assert_rows,
    folder_of,
    lists,
    parquet_folder,
    table,
    w,
    write_arrow,
    write_csv,
    write_json_lines,
    written,
    y,
)

from mercer import open_stream
from mercer.data import Chunk, rechunk

pl = pytest.importorskip("polars", reason="polars is not installed: pip install --group dev")


def write_csv_zst(folder):
    """By a codec, since pyarrow's output streams do not know the suffix of all versions."""
    path = folder / "d.tsv.zst"
    text = write_csv(folder / "plain", "\t").read_bytes()
    (folder / "plain").unlink()
    with pa.CompressedOutputStream(path, "zstd") as file:
        file.write(text)
    return path


SOURCES = {
    "array": lambda folder: open_stream((X, y, w)),
    "array with all in it": lambda folder: open_stream(
        np.column_stack([w, X, y]), target=-1, weight=0
    ),
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
    "npz": lambda folder: open_stream(
        written(folder / "d.npz", np.savez, X=X, y=y, w=w), weight="w"
    ),
    "npz, compressed": lambda folder: open_stream(
        written(folder / "d.npz", np.savez_compressed, X=X, label=y, w=w), **TABLE
    ),
    "npz, one array": lambda folder: open_stream((written(folder / "d.npz", np.savez, X), y, w)),
    "npz, csr": lambda folder: open_stream(
        (written(folder / "d.npz", sp.save_npz, sp.csr_array(X)), y, w)
    ),
    "parquet": lambda folder: open_stream(
        written(
            folder / "d.parquet", lambda path: pq.write_table(table(), path, row_group_size=50)
        ),
        **TABLE,
    ),
    "parquet folder": lambda folder: open_stream(parquet_folder(folder / "d"), **TABLE),
    "parquet list of files": lambda folder: open_stream(
        sorted(parquet_folder(folder / "d").glob("part*")), **TABLE
    ),
    "parquet column of lists": lambda folder: open_stream(
        written(folder / "d.parquet", lambda path: pq.write_table(lists(), path)), **TABLE
    ),
    "csv": lambda folder: open_stream(write_csv(folder / "d.csv"), **TABLE),
    "tsv": lambda folder: open_stream(write_csv(folder / "d.tsv", "\t"), **TABLE),
    "csv.gz": lambda folder: open_stream(write_csv(folder / "d.csv.gz"), **TABLE),
    "csv.bz2": lambda folder: open_stream(write_csv(folder / "d.csv.bz2"), **TABLE),
    "tsv.zst": lambda folder: open_stream(write_csv_zst(folder), **TABLE),
    "csv with decimal commas": lambda folder: open_stream(
        write_csv(folder / "d.csv", ";", ","), **TABLE
    ),
    "csv in UTF-16": lambda folder: open_stream(
        written(
            folder / "d.csv",
            lambda path: path.write_text(write_csv(path).read_text(), encoding="utf-16"),
        ),
        **TABLE,
    ),
    "csv folder": lambda folder: open_stream(folder_of(folder / "d", ".csv", write_csv), **TABLE),
    "csv list of files": lambda folder: open_stream(
        sorted(folder_of(folder / "d", ".csv.gz", write_csv).glob("part*")), **TABLE
    ),
    "arrow": lambda folder: open_stream(write_arrow(folder / "d.arrow"), **TABLE),
    "feather, compressed": lambda folder: open_stream(
        write_arrow(folder / "d.feather", compression="lz4"), **TABLE
    ),
    "arrow folder": lambda folder: open_stream(
        folder_of(folder / "d", ".ipc", write_arrow), **TABLE
    ),
    "json lines": lambda folder: open_stream(write_json_lines(folder / "d.jsonl"), **TABLE),
    "json lines.gz": lambda folder: open_stream(write_json_lines(folder / "d.ndjson.gz"), **TABLE),
    "json lines folder": lambda folder: open_stream(
        folder_of(folder / "d", ".jsonl", write_json_lines), **TABLE
    ),
    "svmlight": lambda folder: open_stream(
        written(
            folder / "d.svm", lambda path: dump_svmlight_file(X, y, str(path), zero_based=False)
        ),
        weight=w,
    ),
    "svmlight from 0": lambda folder: open_stream(
        written(folder / "d.libsvm", lambda path: dump_svmlight_file(X, y, str(path))), weight=w
    ),
}


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_gives_the_same_rows_in_the_same_blocks_again_and_again(
    source, small, tmp_path
):
    stream = SOURCES[source](tmp_path)
    assert stream.width == D
    assert stream.dtype == np.float64
    assert stream.rows == (None if stream.kind in ("csv", "jsonl") else N)
    for size in (1, 7, 64, N, 1000):
        blocks = list(stream.blocks(size))
        assert [len(block) for block in blocks] == [size] * (N // size) + [N % size] * (
            N % size > 0
        )
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
    marks = [
        open_stream(pair).fingerprint()
        for pair in ((X, y), (other, y), (X, labels), (X.astype(np.float32), y))
    ]
    assert len({json.dumps(mark) for mark in marks}) == 4
    assert marks[0]["hashed"] == "all rows"
    sparse = [open_stream(sp.csr_array(matrix)).fingerprint()["sha256"] for matrix in (X, other)]
    assert sparse[0] != sparse[1]


def test_the_fingerprint_of_a_large_array_says_which_rows_it_looked_at():
    large = np.zeros((2**17, 8))
    stream = open_stream((large, large[:, :2]))
    stream.hash_bytes = 2**21
    mark = stream.fingerprint()
    assert mark["hashed"] == "16384 rows of every 65536"
    assert mark["y"]["hashed"] == "all rows"
    large[65536] = 1
    assert stream.fingerprint()["sha256"] != mark["sha256"]


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
    frame = pd.DataFrame(
        {"a": np.float32([1.5, 2]), "b": [1, 2], "c": [True, False], "h": np.float16([0.5, 3])}
    )
    frame.to_parquet(tmp_path / "d.parquet")
    for source in (frame, pl.from_pandas(frame.drop(columns="h")), tmp_path / "d.parquet"):
        stream = open_stream(source, columns=["c", "a", "b"])
        assert stream.dtype == np.float64 and stream.columns == ("c", "a", "b")
        assert next(stream.chunks()).X.tolist() == [[1, 1.5, 1], [0, 2, 2]]
    assert next(open_stream(tmp_path / "d.parquet", columns=["h"]).chunks()).X.tolist() == [
        [0.5],
        [3],
    ]


@pytest.mark.parametrize("kind", ["pandas", "polars", "parquet", "csv"])
def test_labels_may_be_words_categories_and_several_columns(kind, tmp_path):
    frame = pd.DataFrame(
        {"x": [1.0, 2, 3], "word": ["yes", "no", "maybe"], "number": [3, 1, 2], "real": [0.5, 1, 2]}
    )
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
        assert (
            stream.columns == ("x3", "x0")
            and stream.target == ["x1", "x4"]
            and stream.weight == "x2"
        )
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


def test_duplicates_in_a_sparse_matrix_are_added_up_and_the_caller_keeps_his():
    matrix = sp.csr_array((np.ones(3), np.array([2, 0, 2]), np.array([0, 3])), shape=(1, 3))
    (block,) = open_stream(matrix).blocks(1)
    assert block.X.toarray().tolist() == [[1, 0, 2]] and block.X.has_canonical_format
    assert matrix.indices.tolist() == [2, 0, 2]


def test_a_stream_is_a_stream_already():
    stream = open_stream(X)
    assert open_stream(stream) is stream
    with pytest.raises(
        ValueError, match="is open already: target=, columns= and weight= are given when"
    ):
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
    for source in (
        pixels,
        written(tmp_path / "p.npy", np.save, pixels),
        written(tmp_path / "p.npz", np.savez, pixels),
    ):
        assert max(chunk.X.nbytes for chunk in open_stream(source).chunks()) <= 2**23


def test_bad_grids_are_refused():
    stream = open_stream(X)
    with pytest.raises(ValueError, match="rows of a block must be an integer of at least 1, got 0"):
        stream.blocks(0)
    with pytest.raises(ValueError, match="start must be an integer of at least 0, got -1"):
        next(stream.blocks(5, -1))


def test_a_watched_stream_tells_where_each_pass_begins_and_ends(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((70_000, 32)))
    seen = []
    stream = open_stream(tmp_path / "x.npy").with_progress(lambda row, of: seen.append((row, of)))
    chunks = [len(chunk) for chunk in stream.chunks()]
    assert len(chunks) > 1
    assert seen == [(0, 70_000), *((int(row), 70_000) for row in np.cumsum(chunks))]
    seen.clear()
    next(stream.chunks(start=69_000))
    assert seen == [(69_000, 70_000)]
    (tmp_path / "x.csv").write_text("a,b\n1,2\n3,4\n")
    short = open_stream(tmp_path / "x.csv").with_progress(lambda row, of: seen.append((row, of)))
    seen.clear()
    assert sum(len(chunk) for chunk in short.chunks()) == 2
    assert seen == [(0, None), (2, None)]
