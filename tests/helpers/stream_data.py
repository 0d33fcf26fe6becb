"""Rows that every source of a stream has, and the sources."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from mercer._typing import is_csr
from mercer.data.stream import CHUNK_BYTES

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


@contextmanager
def chunk_bytes(size: int) -> Iterator[None]:
    """Open streams whose chunks are read from about `size` bytes."""
    token = CHUNK_BYTES.set(size)
    try:
        yield
    finally:
        CHUNK_BYTES.reset(token)


def table(X=X, y=y, w=w) -> pa.Table:
    return pa.table({**dict(zip(NAMES, X.T, strict=True)), "label": y, "w": w})


def parquet_folder(path: Path) -> Path:
    path.mkdir()
    edges = [0, 40, 40, 41, 120, 250, N]  # one file is empty, one has a row
    for i, (start, stop) in enumerate(pairwise(edges)):
        pq.write_table(
            table().slice(start, stop - start), path / f"part-{i:04}.parquet", row_group_size=17
        )
    (path / "_metadata.parquet").write_bytes(b"not data")
    return path


def lists() -> pa.Table:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X[:, 1:].ravel()), D - 1)
    return pa.table({"c0": X[:, 0], "v": vectors, "label": y, "w": w})


def write_csv(
    path: Path, delimiter: str = ",", decimal: str = ".", start: int = 0, stop: int = N
) -> Path:
    lines = [delimiter.join([*NAMES, "label", "w"])]
    lines += [
        delimiter.join(map(repr, [*map(float, row), int(a), float(b)])).replace(".", decimal)
        for row, a, b in list(zip(X, y, w, strict=True))[start:stop]
    ]
    text = "\n".join(lines) + "\n"
    with pa.output_stream(path) as file:  # compressed by its suffix
        file.write(text.encode())
    return path


def write_json_lines(path: Path, start: int = 0, stop: int = N) -> Path:
    lines = [json.dumps(row) + "\n" for row in table().slice(start, stop - start).to_pylist()]
    with pa.output_stream(path) as file:
        file.write("".join(lines).encode())
    return path


def write_arrow(path: Path, start: int = 0, stop: int = N, **options) -> Path:
    part = table().slice(start, stop - start)
    with pa.ipc.new_file(path, part.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for batch in part.to_batches(max_chunksize=37):
            writer.write(batch)
    return path


def folder_of(path: Path, suffix: str, write) -> Path:
    """Files of a format, one of which has no rows where the format allows it."""
    path.mkdir()
    for i, (start, stop) in enumerate(pairwise([0, 40, 41, 120, 250, N])):
        write(path / f"part-{i:04}{suffix}", start=start, stop=stop)
    (path / "_notes.csv").write_text("not data")
    (path / "readme.txt").write_text("not data")
    return path


def write_memory(folder: Path, path: Path) -> str:
    """The URL of a copy in fsspec's memory."""
    url = f"memory://{folder.name}/{path.name}"
    with fsspec.open(url, "wb") as file:
        file.write(path.read_bytes())
    return url


def written(path: Path, write, *args, **options) -> Path:
    write(path, *args, **options)
    return path


FRAME = {**dict(zip(NAMES, X.T, strict=True)), "label": y, "w": w}
TABLE = {"target": "label", "weight": "w"}


def dense(chunks) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    chunks = list(chunks)
    X = [chunk.X.toarray() if is_csr(chunk.X) else chunk.X for chunk in chunks]
    return tuple(
        map(np.concatenate, (X, [chunk.y for chunk in chunks], [chunk.weight for chunk in chunks]))
    )


def assert_rows(stream, chunks, start: int = 0, stop: int = N) -> None:
    seen, labels, weights = dense(chunks)
    if stream.kind == "svmlight":  # scikit-learn writes 16 digits
        np.testing.assert_allclose(seen, X[start:stop], rtol=1e-15)
    else:
        assert seen.tobytes() == np.ascontiguousarray(X[start:stop]).tobytes()
    np.testing.assert_array_equal(labels, y[start:stop])
    np.testing.assert_array_equal(weights, w[start:stop])


def a_parquet(folder: Path, **columns) -> Path:
    return written(folder / "d.parquet", lambda path: pq.write_table(pa.table(columns), path))


def damaged(folder: Path, name: str, content: bytes = b"nothing that anybody can read") -> Path:
    return written(folder / name, Path.write_bytes, content)


def objects(folder: Path) -> Path:
    return written(folder / "X.npy", np.save, np.array([[print]], dtype=object), allow_pickle=True)


REFUSED = {
    r"There is no file .*gone.csv": lambda f: (f / "gone.csv", {}),
    r"d.csv.xz is compressed: unpack it first. Of CSV and JSON lines, .gz, .bz2": lambda f: (
        damaged(f, "d.csv.xz"),
        {},
    ),
    r"d.parquet.gz is compressed: unpack it first \(it is compressed inside": lambda f: (
        damaged(f, "d.parquet.gz"),
        {},
    ),
    r"d.xls has an unknown suffix. Known are .npy, .npz, .parquet, .csv": lambda f: (
        damaged(f, "d.xls"),
        {},
    ),
    r"The folder .* has no .parquet, .csv, .tsv, .*files": lambda f: (f, {}),
    r"takes lists of tables \(.parquet, .csv, .*\), got d.npy": lambda f: (
        [damaged(f, "d.npy")],
        {},
    ),
    r"d.parquet is damaged, or no Parquet file": lambda f: (damaged(f, "d.parquet"), {}),
    r"d.npz is damaged, or no .npz file": lambda f: (damaged(f, "d.npz"), {}),
    r"d.npy is not a .npy array": lambda f: (damaged(f, "d.npy"), {}),
    r"X.npy is truncated: its header needs 10408 bytes, and it has 9000": lambda f: (
        damaged(f, "X.npy", written(f / "Y.npy", np.save, X).read_bytes()[:9000]),
        {},
    ),
    r"X.npy holds pickled Python objects, which could run code": lambda f: (objects(f), {}),
    r"X.npy must be a 2-d array of real numbers, got 1-d of float64": lambda f: (
        written(f / "X.npy", np.save, w),
        {},
    ),
    r"2-d array of real numbers, got 2-d of complex128": lambda f: (X + 1j, {}),
    r"open_stream needs numbers, could not convert string to float: 'b' at row 0, column "
    r"1": lambda f: (
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
    r"d.npz: X is in Fortran order": lambda f: (
        written(f / "d.npz", np.savez, X=np.asfortranarray(X)),
        {},
    ),
    r"d.npz holds a csc matrix: save it as CSR": lambda f: (
        written(f / "d.npz", sp.save_npz, sp.csc_array(X)),
        {},
    ),
    r"d.parquet has no column 'lable' \(target\). Its columns: 'c0', .* Did you mean "
    r"'label'": lambda f: (
        written(f / "d.parquet", lambda path: pq.write_table(table(), path)),
        {"target": "lable"},
    ),
    r"the pandas frame has no column 'z' \(weight\). Its columns: 'c0'": lambda f: (
        pd.DataFrame(FRAME),
        {"weight": "z"},
    ),
    r"the array has no column 5 \(target\): its columns are numbered 0 to 4": lambda f: (
        X,
        {"target": 5},
    ),
    r"column 'c1' is chosen twice among columns, target and weight": lambda f: (
        pd.DataFrame(FRAME),
        {"columns": ["c0", "c1"], "target": "c1"},
    ),
    r"column 0 is chosen twice .* give values as an array": lambda f: (X, {"target": [0, 1, 0]}),
    r"the array: target needs one number or label for each of the 257 rows, got .* "
    r"\(3,\)": lambda f: (
        X,
        {"target": y[:3]},
    ),
    r"the array: columns must be a list of columns, got 'c0'": lambda f: (X, {"columns": "c0"}),
    r"d.parquet: inputs must be numbers, text, .*, got 'v' \(list<.*double>\). Leave it out with "
    r"columns=": lambda f: (
        a_parquet(f, v=[[1.0], [2.0, 3.0]]),
        {},
    ),
    r"d.parquet: the target 'when' is timestamp\[us\], and must be numbers or labels": lambda f: (
        a_parquet(f, x=[1.0], when=pa.array([0], pa.timestamp("us"))),
        {"target": "when"},
    ),
    r"takes no LazyFrame: collect\(\) it": lambda f: (
        pytest.importorskip("polars").LazyFrame({"x": [1.0]}),
        {},
    ),
    r"rows that can be read more than once, got a generator": lambda f: ((row for row in X), {}),
    r"n_features is for svmlight files": lambda f: (X, {"n_features": 3}),
    r"for a tuple, without target=": lambda f: ((X, y), {"target": y}),
    r"d.csv, line 3 has 3 cells separated by commas, and the table has 2: '3,4,5'": lambda f: (
        damaged(f, "d.csv", b"a,b\n1,2\n3,4,5\n"),
        {},
    ),
    r"d.csv: the number of rows is not known, so target must be the name": lambda f: (
        damaged(f, "d.csv", b"a,b\n1,2\n"),
        {"target": y},
    ),
    r"no svmlight file \(label index:value ...\) at d.svm, row 1 of the file, line 4: columns "
    r"must be sorted and unique, and 2 follows 3": lambda f: (
        damaged(f, "d.svm", b"# a comment\n1 1:2 # more\n\n2 3:1 2:1\n"),
        {},
    ),
    r"at d.svm, row 0 of the file, line 1: it has a query id \(qid:\)": lambda f: (
        damaged(f, "d.svm", b"1 qid:3 1:2\n"),
        {},
    ),
    r"d.svm: n_features is 2, and the file uses 3 columns": lambda f: (
        damaged(f, "d.svm", b"1 3:2\n"),
        {"n_features": 2},
    ),
    r"d.svm: the target of an svmlight file is the label": lambda f: (
        damaged(f, "d.svm", b"1 3:2\n"),
        {"target": 1},
    ),
}
