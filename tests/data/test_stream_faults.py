"""What is wrong with the rows of a stream is named by file, row and column."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from tests.helpers.stream_data import (
    NAMES,
    REFUSED,
    D,
    N,
    X,
    lists,
    parquet_folder,
    table,
    w,
    write_csv,
    written,
    y,
)

from mercer import open_stream
from mercer.errors import RowError
from mercer.validation.rows import require_finite

pl = pytest.importorskip("polars", reason="polars is not installed: pip install --group dev")


def test_a_nan_in_block_37_of_a_folder_is_named_by_file_row_and_column(tmp_path):
    """What fold does: check each block, and let the stream say where the row is."""
    bad = X.copy()
    bad[37 * 5 + 2, 3] = np.nan
    for i, start in enumerate(range(0, N, 100)):
        pq.write_table(
            table(bad).slice(start, 100), tmp_path / f"part-{i:04}.parquet", row_group_size=30
        )
    stream = open_stream(tmp_path, target="label", weight="w")

    def check() -> None:
        for number, block in enumerate(stream.blocks(5)):
            try:
                require_finite("accumulate", block.X, stream.columns)
            except RowError as error:
                assert number == 37
                raise stream.locate(error, block.start) from None

    with pytest.raises(RowError) as caught:
        check()
    assert str(caught.value) == (
        "Input X contains NaN: accumulate needs finite numbers, got nan at part-0001.parquet, "
        "row 87 "
        "of the file, column 3 ('c3'). "
        "Drop or impute such values first (sklearn.impute), or fit with Tabular() in front of the "
        "map."
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


@pytest.mark.parametrize("kind", ["arrow", "parquet"])
def test_nulls_are_nan_whatever_the_column(tmp_path, kind):
    nan = np.nan
    expected = np.array(
        [
            [1, 1, nan, nan, 1, 2],
            [nan, 2, 1, nan, nan, nan],
            [3, nan, 0, nan, 3, nan],
            [4, 4, 1, nan, 5, 6],
        ]
    )
    columns = ("real", "whole", "truth", "none", "v[0]", "v[1]")
    path = tmp_path / f"d.{kind}"
    if kind == "arrow":
        feather.write_feather(nulls(), path)
    else:
        try:
            pq.write_table(nulls(), path)
        except pa.ArrowNotImplementedError:  # of null lists, by pyarrow 24 and before
            pq.write_table(nulls().drop_columns(["v"]), path)
            expected, columns = expected[:, :4], columns[:4]
    stream = open_stream(path)
    np.testing.assert_array_equal(next(stream.chunks()).X, expected)
    np.testing.assert_array_equal(next(stream.chunks(1)).X, expected[1:])
    assert stream.columns == columns


def test_nulls_of_frames_are_nan():
    nan = np.nan
    expected = [[1, 1, nan], [nan, 2, 1], [3, nan, 0], [4, 4, 1]]
    frame = pl.from_arrow(nulls().drop_columns(["v", "none"]))
    np.testing.assert_array_equal(next(open_stream(frame).chunks()).X, expected)
    frame = frame.to_pandas().astype({"whole": "Int64", "truth": "boolean"})
    np.testing.assert_array_equal(next(open_stream(frame).chunks()).X, expected)


@pytest.mark.parametrize(
    "kind", ["array", "words in an array", "npy", "npz", "pandas", "polars", "parquet", "csv"]
)
def test_a_missing_target_is_named_by_its_row(kind, tmp_path):
    labels = np.arange(N, dtype=float)
    labels[201] = np.nan
    words = np.array([f"w{i}" for i in range(N)], dtype=object)
    words[201] = None
    frame = pd.DataFrame({"x": X[:, 0], "label": words})
    match kind:
        case "array":
            stream, sentence = (
                open_stream((X, labels)),
                "target needs a value in every row, got nan at row 201.",
            )
        case "words in an array":
            stream, sentence = (
                open_stream((X, words)),
                "target needs a value in every row, got None at row 201.",
            )
        case "npy":
            np.save(tmp_path / "d.npy", np.column_stack([labels, X]))
            stream, sentence = (
                open_stream(tmp_path / "d.npy", target=0),
                "target 'x0' .* nan at d.npy, row 201 of the file.",
            )
        case "npz":
            np.savez(tmp_path / "d.npz", X=X, y=labels)
            stream, sentence = (
                open_stream(tmp_path / "d.npz"),
                "target 'y' .* nan at d.npz, row 201 of the file.",
            )
        case "pandas":
            stream, sentence = (
                open_stream(frame, target="label"),
                "target 'label' .* None at row 201.",
            )
        case "polars":
            stream, sentence = (
                open_stream(pl.from_pandas(frame), target="label"),
                "target 'label' .* None at row 201.",
            )
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
    with pytest.raises(
        ValueError, match=f"Weights must be finite and not negative, got {value} at row 9."
    ):
        list(open_stream((X, y, bad)).chunks())
    pq.write_table(table(w=bad), tmp_path / "d.parquet")
    with pytest.raises(ValueError, match=r"at d.parquet, row 9 of the file"):
        list(open_stream(tmp_path / "d.parquet", target="label", weight="w").chunks())


def test_a_file_that_changes_its_columns_stops_with_file_and_column(tmp_path):
    pq.write_table(table(), tmp_path / "a.parquet")
    changes = {
        "b.parquet has no column 'c4', which a.parquet has": table().drop_columns(["c4"]),
        "b.parquet has a column 'more', which a.parquet has not": table().append_column(
            "more", pa.array(w)
        ),
        "b.parquet: column 'c2' is text, and in a.parquet it is double": table().set_column(
            2, "c2", pa.array(X[:, 2].astype(str))
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
        ValueError,
        match=r"b.parquet: column 'v' is double, 3 to a row, and in a.parquet it is double, 4",
    ):
        open_stream(tmp_path, target="label")


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
    "d.csv has no rows after its first line": lambda folder: written(
        folder / "d.csv", Path.write_text, "a,b\n"
    ),
    "d.svm has no rows": lambda folder: written(folder / "d.svm", Path.write_text, "# nothing\n"),
    "d.svm has no entries": lambda folder: written(folder / "d.svm", Path.write_text, "1\n2\n"),
}


@pytest.mark.parametrize("sentence", EMPTY)
def test_an_empty_stream_is_refused(sentence, tmp_path):
    with pytest.raises(ValueError, match=sentence):
        open_stream(EMPTY[sentence](tmp_path))


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_cannot_be_a_stream_is_refused_in_a_sentence(sentence, tmp_path):
    source, options = REFUSED[sentence](tmp_path)
    with pytest.raises(ValueError, match=sentence):
        open_stream(source, **options)
