"""Streams of files: Parquet, CSV, svmlight, .npy: what each kind has of its own, and memory that
does not grow.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from tests.helpers.stream_data import TABLE, X, assert_rows, damaged, table, write_csv

from mercer import open_stream


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


def test_columns_kept_in_folder_names_are_refused(tmp_path):
    (tmp_path / "year=2020").mkdir()
    pq.write_table(table(), tmp_path / "year=2020" / "a.parquet")
    with pytest.raises(
        ValueError, match=r"year=2020/a.parquet: columns kept in folder names are not read"
    ):
        open_stream(tmp_path)


def test_subfolders_are_read_in_the_order_of_their_names(tmp_path):
    for name, start in (("b/a.parquet", 100), ("a/b.parquet", 50), ("a/a.parquet", 0)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pq.write_table(table().slice(start, 50), tmp_path / name)
    stream = open_stream(tmp_path, **TABLE)
    assert_rows(stream, stream.chunks(), 0, 150)
    assert stream.where(149) == "b/a.parquet, row 49 of the file"


@pytest.mark.parametrize(
    ("value", "column", "kind"),
    [("oops", "b", "numbers"), ("2.5", "n", "whole numbers"), ("7", "t", "true and false")],
)
def test_a_csv_value_that_does_not_fit_its_column_is_named_by_row(
    value, column, kind, small, tmp_path
):
    lines = [[str(i), " 0.5 ", str(i), "true"] for i in range(300)]
    lines[250]["abnt".index(column)] = value
    (tmp_path / "d.csv").write_text("a,b,n,t\n" + "".join(",".join(line) + "\n" for line in lines))
    stream = open_stream(tmp_path / "d.csv", target="n")
    sentence = (
        f"Column '{column}' has {kind} in the first rows, and then '{value}' at d.csv, "
        "row 250 of the file"
    )
    with pytest.raises(ValueError, match=sentence):
        list(stream.chunks())


def test_csv_columns_that_turn_from_whole_to_real_and_from_empty_to_numbers_are_read(
    small, tmp_path
):
    lines = ["1,,true"] * 200 + ["2.5,3,false"] * 100
    (tmp_path / "d.csv").write_text("a,b,c\n" + "\n".join(lines))
    (block,) = open_stream(tmp_path / "d.csv").blocks(300)
    np.testing.assert_array_equal(block.X, [[1, np.nan, 1]] * 200 + [[2.5, 3, 0]] * 100)


def test_csv_lines_longer_than_a_block_are_read(small, tmp_path):
    wide = np.arange(3000.0).reshape(3, 1000)
    pd.DataFrame(wide).to_csv(tmp_path / "d.csv", index=False)
    np.testing.assert_array_equal(next(open_stream(tmp_path / "d.csv").blocks(3)).X, wide)


def test_svmlight_counts_columns_over_the_whole_file(small, tmp_path):
    lines = [f"{i % 2} 1:{i} 4:1 # comment 9:9\n" for i in range(200)] + [
        "\n",
        "# 0:1\n",
        "1 0:7\n",
    ]
    (tmp_path / "d.svm").write_text("".join(lines))
    stream = open_stream(tmp_path / "d.svm")
    assert (stream.width, stream.rows) == (5, 201)
    (block,) = stream.blocks(300)
    assert block.X.toarray()[[199, 200]].tolist() == [[0, 199, 0, 0, 1], [7, 0, 0, 0, 0]]
    (tmp_path / "d.svm").write_text("".join(lines[:200]))
    assert open_stream(tmp_path / "d.svm").width == 4
    with pytest.raises(
        ValueError,
        match=r"d.svm uses columns 1 to 4, and 9 are needed: they may count from 0 or from 1",
    ):
        open_stream(tmp_path / "d.svm", n_features=9)
    for zero_based, row in (
        (True, [0, 199, 0, 0, 1, 0, 0, 0, 0]),
        (False, [199, 0, 0, 1, 0, 0, 0, 0, 0]),
    ):
        (block,) = open_stream(tmp_path / "d.svm", n_features=9, zero_based=zero_based).blocks(300)
        assert block.X.toarray()[199].tolist() == row
    (tmp_path / "zero.svm").write_text("".join(lines))
    with pytest.raises(
        ValueError, match=r"zero.svm uses column 0, so that its columns cannot count from 1"
    ):
        open_stream(tmp_path / "zero.svm", zero_based=False)
    (block,) = open_stream(tmp_path / "d.svm", columns=[3, 0]).blocks(300)
    assert block.X.toarray()[199].tolist() == [1, 199]


def test_csr_files_that_are_no_csr_are_refused(tmp_path):
    csr = sp.csr_array(X)
    for name, sentence in (
        ("indices", "the column index 400 at d.npz, row"),
        ("indptr", "indptr falls"),
    ):
        parts = {
            "data": csr.data,
            "indices": csr.indices.copy(),
            "indptr": csr.indptr.copy(),
            "shape": csr.shape,
        }
        parts[name][3] = 400
        np.savez(tmp_path / "d.npz", **parts)
        with pytest.raises(ValueError, match=f"d.npz.* is a malformed CSR matrix: {sentence}"):
            list(open_stream(tmp_path / "d.npz").chunks())


def test_without_pyarrow_there_is_a_sentence(monkeypatch, tmp_path):
    pq.write_table(table(), tmp_path / "d.parquet")
    write_csv(tmp_path / "d.csv")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for name, doing in (("d.parquet", "Reading Parquet"), ("d.csv", "Reading CSV")):
        with pytest.raises(
            ValueError, match=rf"{doing} needs pyarrow: pip install 'mercer\[parquet\]'."
        ):
            open_stream(tmp_path / name)


def test_arrays_are_streamed_without_pyarrow_pandas_or_scipy():
    code = (
        "import sys, numpy; from mercer import open_stream; list(open_stream(numpy.ones((3, "
        "2))).blocks(2)); "
        "print({name.partition('.')[0] for name in sys.modules} & {'pyarrow', 'pandas', "
        "'polars', 'scipy', 'sklearn'})"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "set()\n"
    )


# VmHWM and not ru_maxrss, which a child takes over from the process that started it, together with
# the arrays made here.
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
    """n rows of a kind of file; what a reader holds at a time, such as a row group, is there
    several times.
    """
    values = np.random.default_rng(0).normal(size=(n, WIDTH))
    match kind:
        case "npy":
            np.save(path, values)
        case "npy in Fortran order":
            np.save(path, np.asfortranarray(values))
        case "npz":
            np.savez_compressed(path, X=values)
        case "parquet":
            pq.write_table(
                pa.table({f"c{i}": values[:, i] for i in range(WIDTH)}), path, row_group_size=2**13
            )
        case "parquet column of lists":
            vectors = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), WIDTH)
            pq.write_table(pa.table({"v": vectors}), path, row_group_size=2**13)
        case "csv" | "csv.gz":
            pd.DataFrame(values.round(6)).to_csv(path, index=False)
        case "jsonl":
            frame = pd.DataFrame(values.round(6), columns=[f"c{i}" for i in range(WIDTH)])
            frame.to_json(path, orient="records", lines=True)
        case "feather":
            frame = pa.table({f"c{i}": values[:, i] for i in range(WIDTH)})
            pyarrow.feather.write_feather(frame, path, chunksize=2**13)
        case "svm":
            line = " ".join(f"{i + 1}:0.12345678901" for i in range(WIDTH))
            path.write_text(f"1 {line}\n" * n)
    return path


def peak(path: Path, how: str = "read") -> tuple[int, float]:
    """(rows, MiB at the peak), the median of three processes: what an allocator keeps for later
    varies by 20 MiB.
    """
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
        ("csv.gz", 65_000, 195_000),
        ("jsonl", 65_000, 195_000),
        ("feather", 130_000, 390_000),
        ("svm", 20_000, 200_000),
    ],
)
def test_memory_does_not_grow_with_the_file(kind, little, large, tmp_path):
    """More rows, 66 to 180 MB of them as float64, take less than 24 MiB more; to hold them would
    take more than 60.
    """
    suffix = kind.split()[0]
    paths = [written_in_groups(kind, tmp_path / f"{n}.{suffix}", n) for n in (little, large)]
    (few, less), (many, more) = map(peak, paths)
    assert (few, many) == (little, large)
    print(f"{kind}: {less:.0f} MiB for {little} rows, {more:.0f} MiB for {large}")
    assert more - less < 24, (less, more)
    assert peak(paths[1], "hold")[1] - less > 60


def test_wavelengths_are_names_of_columns(tmp_path):
    waves = [f"{400 + 1.5 * i}" for i in range(9)]
    path = damaged(tmp_path, "d.csv", f"{','.join(waves)}\n{','.join('1' * 9)}\n".encode())
    assert open_stream(path).columns == tuple(waves)
    path = damaged(tmp_path, "e.csv", f"{','.join(waves[:7])}\n{','.join('1' * 7)}\n".encode())
    assert open_stream(path).columns == tuple(f"f{i}" for i in range(7))


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_few_columns_of_a_wide_array_are_read_without_the_others(order, tmp_path):
    rng = np.random.default_rng(0)
    wide = np.asarray(rng.normal(size=(70, 5000)), order=order)
    np.save(tmp_path / "d.npy", wide)
    columns = {"columns": [3010, 3004, 3007], "target": 3001, "weight": 3009}
    wide[:, 3009] = abs(wide[:, 3009])
    np.save(tmp_path / "d.npy", wide)
    stream = open_stream(tmp_path / "d.npy", **columns)
    taken = []
    numbers = stream._numbers
    stream._numbers = lambda file, first, count: taken.append(count) or numbers(file, first, count)
    (chunk,) = stream.blocks(64, 3, 67)
    np.testing.assert_array_equal(chunk.X, wide[3:67, [3010, 3004, 3007]])
    np.testing.assert_array_equal(chunk.y, wide[3:67, 3001])
    np.testing.assert_array_equal(chunk.weight, wide[3:67, 3009])
    if order == "C":
        assert sum(taken) <= 70 * 10, "a row is read from column 3001 to 3010"
    assert stream.columns == ("x3010", "x3004", "x3007")


def test_rows_of_a_wide_matrix_are_read_in_small_chunks_for_a_few_of_their_columns(tmp_path):
    np.savez(tmp_path / "d.npz", X=np.ones((64, 20_000)))
    stream = open_stream(tmp_path / "d.npz", columns=[0, 19_999])
    stream.chunk_bytes = 2**20
    assert max(len(chunk) for chunk in stream.chunks(0, 64)) <= 6


@pytest.mark.parametrize("columns", [2**62, 10**13])
def test_a_csr_matrix_of_absurdly_many_columns_is_refused_with_their_number(columns, tmp_path):
    parts = {"data": np.ones(3), "indices": np.arange(3), "indptr": np.arange(4)}
    np.savez(tmp_path / "d.npz", **parts, shape=np.array([3, columns]), format=np.array(b"csr"))
    with pytest.raises(ValueError, match=rf"d.npz has {columns:,} columns, and at most"):
        open_stream(tmp_path / "d.npz")
