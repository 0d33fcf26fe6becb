"""Files of random structure, whole and corrupted: read as NumPy and pyarrow read them, or refused
with a sentence; never misread, and no other error.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.json as pj
import pyarrow.parquet as pq
import pytest

from mercer import open_stream

NUMBERS = [pa.float64(), pa.float32(), pa.int8(), pa.int64(), pa.uint16(), pa.bool_()]
OTHERS = [pa.string(), pa.list_(pa.float64()), pa.struct([("u", pa.int64())]), pa.binary()]


def random_table(rng: np.random.Generator) -> pa.Table:
    """Return a table of 0 to 60 rows: numbers mostly, some with nulls, nested or named alike."""
    rows, columns = int(rng.integers(0, 60)), {}
    for j in range(int(rng.integers(1, 6))):
        odd = rng.random() < 0.1
        kind = (OTHERS if odd else NUMBERS)[int(rng.integers(len(OTHERS if odd else NUMBERS)))]
        numbers = rng.integers(0, 100, rows)
        values: list[Any] = numbers.tolist()
        if pa.types.is_floating(kind):
            values = rng.normal(size=rows).tolist()
        elif pa.types.is_boolean(kind):
            values = (numbers % 2 == 1).tolist()
        elif kind in OTHERS:
            forms = (str, lambda v: [float(v)] * (v % 3), lambda v: {"u": v}, lambda v: b"%d" % v)
            values = [forms[OTHERS.index(kind)](v) for v in values]
        if rng.random() < 0.1 and rows:
            values[int(rng.integers(rows))] = None
        name = ["a b", "", "ü", "a.b"][j % 4] + str(j) if rng.random() < 0.3 else f"c{j}"
        columns[name] = pa.array(values, kind)
    return pa.table(columns)


def write_parquet(path: Path, table: pa.Table, rng: np.random.Generator) -> None:
    pq.write_table(
        table,
        path,
        row_group_size=int(rng.integers(1, 40)),
        compression=["none", "snappy", "zstd", "gzip"][int(rng.integers(4))],
        use_dictionary=bool(rng.random() < 0.5),
        data_page_version=["1.0", "2.0"][int(rng.integers(2))],
    )


def write_arrow(path: Path, table: pa.Table, rng: np.random.Generator) -> None:
    options = ipc.IpcWriteOptions(compression=[None, "lz4", "zstd"][int(rng.integers(3))])
    with (
        pa.OSFile(str(path), "wb") as sink,
        ipc.new_file(sink, table.schema, options=options) as file,
    ):
        file.write_table(table, max_chunksize=int(rng.integers(1, 40)))


def write_json(path: Path, table: pa.Table, rng: np.random.Generator) -> None:
    lines = []
    for row in table.to_pylist():
        row = {name: str(v) if isinstance(v, bytes) else v for name, v in row.items()}
        if rng.random() < 0.05:
            row.pop(next(iter(row)))
        lines.append(json.dumps(row) + ["", " ", "\r"][int(rng.integers(3))])
    path.write_text("\n".join(lines) + "\n" * int(rng.integers(3)))


def random_array(rng: np.random.Generator) -> np.ndarray:
    dimensions = 2 if rng.random() < 0.8 else int(rng.integers(0, 4))
    shape = tuple(int(n) for n in rng.integers(0, 9, dimensions))
    kinds = ["<f8", ">f8", "<f4", "<i2", ">i8", "|u1", "|b1", "<f2", "<c16", "<U3", "<M8[s]"]
    kind = np.dtype(kinds[int(rng.integers(len(kinds) if rng.random() < 0.3 else 8))])
    values = rng.integers(0, 99, shape)
    array = values.astype(kind) if kind.kind != "M" else values.astype("<i8").view(kind)
    return np.asfortranarray(array) if rng.random() < 0.3 else array


def write_npy(path: Path, array: np.ndarray, rng: np.random.Generator) -> None:
    np.save(path, array)


def write_npz(path: Path, array: np.ndarray, rng: np.random.Generator) -> None:
    save = np.savez_compressed if rng.random() < 0.5 else np.savez
    # a target of as many rows, or of others
    y = {"y": np.arange(int(rng.integers(0, 9)))} if rng.random() < 0.2 else {}
    save(path, **{["X", "x y", "data"][int(rng.integers(3))]: array, **y})


def read_npz(path: Path) -> np.ndarray:
    with np.load(path, allow_pickle=False) as file:
        names = [name for name in file.files if name != "y" or len(file.files) == 1]
        return file["X" if "X" in file.files else names[0]]


def numbers_of(table: pa.Table) -> np.ndarray:
    columns = [column.cast(pa.float64(), safe=False).to_numpy() for column in table.columns]
    return np.column_stack(columns) if columns else np.empty((table.num_rows, 0))


READERS = {
    ".npy": (random_array, write_npy, lambda path: np.load(path, allow_pickle=False)),
    ".npz": (random_array, write_npz, read_npz),
    ".parquet": (random_table, write_parquet, lambda path: numbers_of(pq.read_table(path))),
    ".arrow": (
        random_table,
        write_arrow,
        lambda path: numbers_of(ipc.open_file(pa.OSFile(str(path))).read_all()),
    ),
    ".jsonl": (random_table, write_json, lambda path: numbers_of(pj.read_json(path))),
}


def corrupted(good: bytes, rng: np.random.Generator) -> bytes:
    """Return the bytes with a span changed, removed, doubled or swapped, or as they are."""
    if not good or rng.random() < 0.4:
        return good
    at, end = sorted(int(place) for place in rng.integers(0, len(good) + 1, 2))
    end = min(end, at + int(rng.integers(1, 40)))
    junk = bytes(rng.integers(0, 256, end - at, dtype=np.uint8))
    forms = [junk, b"", good[at:end] * 2, good[at:end][::-1], b"\xff" * (end - at)]
    return good[:at] + forms[int(rng.integers(len(forms)))] + good[end:]


def read_or_refuse(path: Path, read: Any) -> bool:
    """Return whether a file was read; its numbers must be those of the other reader."""
    try:
        stream = open_stream(path)
        chunks = list(stream.chunks())
    except ValueError as error:
        sentence = str(error)
        assert sentence and "should not happen" not in sentence, sentence
        assert "Traceback" not in sentence and len(sentence) < 2000
        return False
    X = np.concatenate([chunk.X for chunk in chunks])
    if stream.schema is not None:  # text and missing cells, encoded
        assert X.shape[1] == stream.width
        return True
    expected = np.asarray(read(path))
    np.testing.assert_array_equal(X, expected.astype(X.dtype))
    return True


def try_files(suffix: str, count: int, seed: int, folder: Path) -> tuple[int, int]:
    """Return how many files of random structure were read, and how many refused."""
    rng, taken = np.random.default_rng(seed), 0
    make, write, read = READERS[suffix]
    for i in range(count):
        path = folder / f"{i}{suffix}"
        write(path, make(rng), rng)
        path.write_bytes(corrupted(path.read_bytes(), rng))
        taken += read_or_refuse(path, read)
        path.unlink()
    return taken, count - taken


@pytest.mark.full
@pytest.mark.parametrize("suffix", READERS)
def test_sixty_files_of_random_structure_are_read_as_by_others_or_refused(suffix, tmp_path):
    taken, refused = try_files(suffix, 60, 0, tmp_path)
    assert taken >= 5 and refused >= 5


@pytest.mark.slow
@pytest.mark.parametrize("suffix", READERS)
def test_six_hundred_files_of_random_structure_are_read_as_by_others_or_refused(suffix, tmp_path):
    taken, refused = try_files(suffix, 600, 1, tmp_path)
    assert taken >= 50 and refused >= 50
