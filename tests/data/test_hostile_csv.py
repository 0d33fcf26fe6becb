"""CSV files of unusual and malformed structure: read as pandas and pyarrow do, or refused."""

from __future__ import annotations

import io
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest
from tests.helpers.hostile_csv import draw_table
from tests.helpers.stream_data import chunk_bytes

from mercer import open_stream
from mercer.data.cells import NULLS
from mercer.data.table_schema import NUMBER
from mercer.ops import cpu


def read_numbers(path, size):
    """Return the columns of plain numbers as mercer reads them, and how the file is written."""
    with chunk_bytes(size):
        stream = open_stream(path)
    X = np.vstack([chunk.X for chunk in stream.chunks()])
    kinds = None if stream.schema is None else {c.name: c for c in stream.schema.columns}
    columns = {
        name: X[:, j]
        for j, name in enumerate(stream.columns)
        if kinds is None or (kinds[name].kind == NUMBER and not kinds[name].format)
    }
    return columns, stream._table.dialects[0], len(X)


def as_numbers(texts):
    """Return texts of cells as numbers, as Python's float() reads them."""
    return np.array([np.nan if text.strip() in NULLS else float(text) for text in texts])


def rows_of(path, dialect):
    """Return the text of the rows, without comments, which other readers take for cells."""
    encoding = "utf-8-sig" if dialect.encoding == "utf-8" else dialect.encoding
    text = path.read_bytes().decode(encoding)
    lines = re.findall(r"[^\r\n]*(?:\r\n|\r|\n|$)", text)[dialect.skip :]
    if dialect.comments:
        width = len(dialect.names)
        lines = [x for x in lines if x[:1] != "#" or x.count(dialect.delimiter) == width - 1]
    return "".join(lines)


def read_by_pandas(text, dialect):
    """Return the cells as texts; None where a quote is open at the end, or closed inside a cell.

    The C parser is used unless lines end with CR alone: there it loses an empty first cell, and a
    row after a blank first line that is skipped.
    """
    try:
        return pd.read_csv(
            io.StringIO(text, newline=""),
            sep=dialect.delimiter,
            names=list(dialect.names),
            index_col=False,
            dtype=str,
            na_filter=False,
            engine="python" if re.search(r"\r(?!\n)", text) else "c",
        )
    except pd.errors.ParserError as error:
        if not re.search("EOF inside string|unexpected end of data|expected after", str(error)):
            raise
    return None


def read_by_pyarrow(text, dialect):
    """Return the cells as texts; numbers are read from them by Python."""
    return pa.csv.read_csv(
        io.BytesIO(text.encode()),
        read_options=pa.csv.ReadOptions(column_names=list(dialect.names)),
        parse_options=pa.csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=True),
        convert_options=pa.csv.ConvertOptions(
            column_types=dict.fromkeys(dialect.names, pa.string()), strings_can_be_null=False
        ),
    ).to_pandas()


def assert_read_or_refused(path, drawn, size) -> bool:
    """Compare a file with what was written, pandas and pyarrow; return whether it is read."""
    path.write_bytes(drawn.content)
    try:
        columns, dialect, rows = read_numbers(path, size)
    except ValueError as error:
        if drawn.regular or path.name not in str(error):
            raise
        return False
    if drawn.regular:
        assert len(next(iter(drawn.numbers.values()))) == rows
        for name, values in drawn.numbers.items():
            np.testing.assert_array_equal(columns[name], values)
    text = rows_of(path, dialect)
    for frame in (read_by_pandas(text, dialect), read_by_pyarrow(text, dialect)):
        if frame is None:
            continue
        assert len(frame) == rows
        for name, values in columns.items():
            np.testing.assert_array_equal(values, as_numbers(frame[name]))
    return True


def draw_and_compare(rng, tmp_path) -> bool:
    drawn = draw_table(rng, int(rng.integers(5, 30)))
    return assert_read_or_refused(tmp_path / "d.csv", drawn, int(rng.choice([800, 4000, 10**6])))


@pytest.mark.full
@pytest.mark.parametrize("seed", range(10))
def test_hostile_files_are_read_as_pandas_and_pyarrow_do_or_refused(seed, tmp_path):
    rng = np.random.default_rng(seed)
    read = sum(draw_and_compare(rng, tmp_path) for _ in range(50))
    assert 20 <= read <= 45


@pytest.mark.slow
def test_ten_thousand_rows_of_hostile_files_are_read_as_pandas_and_pyarrow_do_or_refused(tmp_path):
    rng = np.random.default_rng(99)
    read = sum(draw_and_compare(rng, tmp_path) for _ in range(700))
    assert 400 <= read <= 560  # of 11,000 rows in all


def outcome(path, size, target):
    """Return rows and targets in bytes, or the error."""
    try:
        with chunk_bytes(size):
            stream = open_stream(path, target=target)
        chunks = list(stream.chunks())
    except ValueError as error:
        return type(error), str(error)
    X, y = (np.concatenate([getattr(chunk, name) for chunk in chunks]) for name in "Xy")
    return X.shape, X.tobytes(), y.dtype, y.tolist()


def assert_compiled_equals_pyarrow(path, monkeypatch) -> None:
    for size in (8, 10**6):
        for target in ("c", ["b", "d"]):
            compiled = outcome(path, size, target)
            with monkeypatch.context() as patch:
                patch.setattr("mercer.data.csv.cpu.available", lambda: False)
                assert outcome(path, size, target) == compiled


ODD_NUMBERS = ["", "NA", "nan", "-", "-nan", "inf", "+5", " 7", "7 ", "1e", "0x1F", "1_0", "1e400"]
ODD_NUMBERS += [
    "1e-400",
    "0e-999",
    "-0",
    "5.",
    ".5",
    ".",
    "-.5",
    "00012",
    "7\r",
    '"7"',
    '7"',
    "1,5",
    "é",
]
ODD_NUMBERS += [
    "12345678901234567890",
    "9007199254740993",
    "1.5",
    "2147483648",
    "-3",
    "1.#IND",
    "1 000",
]


@pytest.mark.skipif(not cpu.available(), reason=str(cpu.why_not()))
@pytest.mark.parametrize("seed", range(60))
def test_the_compiled_reader_of_numbers_equals_pyarrow(seed, tmp_path, monkeypatch):
    rng = np.random.default_rng(seed)
    rows, newline = int(rng.integers(6, 40)), ["\n", "\r\n"][rng.integers(2)]
    table = [
        [f"{value:.{rng.integers(1, 18)}g}" for value in rng.normal(size=4)] for _ in range(rows)
    ]
    whole = rng.random() < 0.5
    for row in table:
        row[1] = str(rng.integers(100, 999)) if whole else row[1]
        row[2] = str(rng.integers(-9, 9))
    for _ in range(rng.integers(3)):
        table[rng.integers(rows)][rng.integers(4)] = ODD_NUMBERS[rng.integers(len(ODD_NUMBERS))]
    lines = ["a,b,c,d", *map(",".join, table)]
    if rng.random() < 0.3:
        lines.insert(
            int(rng.integers(1, rows)), str(rng.choice(["", "1,2", "1,2,3,4,5", "#", " "]))
        )
    path = tmp_path / "d.csv"
    path.write_bytes(newline.join(lines).encode() + [b"", newline.encode()][rng.integers(2)])
    assert_compiled_equals_pyarrow(path, monkeypatch)


@pytest.mark.skipif(not cpu.available(), reason=str(cpu.why_not()))
@pytest.mark.parametrize("column", [1, 2, 3])
@pytest.mark.parametrize("cell", ODD_NUMBERS)
def test_an_odd_cell_after_the_first_block_is_read_as_pyarrow_does(
    cell, column, tmp_path, monkeypatch
):
    table = [[f"{i}.5", f"{100 + i}", f"{i % 7}", f"-{i}e-3"] for i in range(90)]
    table[80][column] = cell
    path = tmp_path / "d.csv"
    path.write_text("a,b,c,d\n" + "".join(",".join(row) + "\n" for row in table))
    assert_compiled_equals_pyarrow(path, monkeypatch)


@pytest.mark.parametrize("quote", ["", '"'])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_a_last_line_without_newline_is_read_at_every_boundary_of_blocks(newline, quote, tmp_path):
    path = tmp_path / "d.csv"
    lines = ["a,b", *(f"{i}.5,{quote}{10 ** (i % 3)}{quote}" for i in range(40))]
    expected = [[i + 0.5, 10 ** (i % 3)] for i in range(40)]
    sizes = set()
    for size in range(60, 200, 3):
        for end in ("", newline):
            path.write_bytes((newline.join(lines) + end).encode())
            with chunk_bytes(8 * size):
                stream = open_stream(path)
            chunks = [chunk.X for chunk in stream.chunks()]
            np.testing.assert_array_equal(np.vstack(chunks), expected)
            sizes.add(len(chunks))
    assert len(sizes) > 2 or newline == "\r"  # a head without LF is one block


def test_a_last_cell_that_is_empty_is_a_missing_number(tmp_path):
    (tmp_path / "d.csv").write_bytes(b"a,b\n1,2\n3,4\n5,")
    (chunk,) = open_stream(tmp_path / "d.csv").chunks()
    np.testing.assert_array_equal(chunk.X, [[1, 2], [3, 4], [5, np.nan]])


def test_quoted_line_breaks_are_read_across_boundaries_of_blocks(tmp_path):
    path = tmp_path / "d.csv"
    words = ["two\nlines", "three\n\nlines", 'a ""quote""\n', "none"]
    path.write_text("a,word,b\n" + "".join(f'{i},"{words[i % 4]}",{i}.5\n' for i in range(60)))
    for size in range(150, 400, 7):
        with chunk_bytes(8 * size):
            stream = open_stream(path, columns=["a", "b"])
        X = np.vstack([chunk.X for chunk in stream.chunks()])
        np.testing.assert_array_equal(X, [[i, i + 0.5] for i in range(60)])


def test_a_name_of_a_column_with_rows_in_it_is_refused(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text('a,"b,c\n1,2,3\n4,5",6\n7,8,9\n1,2,3\n')
    with pytest.raises(
        ValueError, match=r"d.csv: a quote \(\"\) in line 1, above the rows, is not"
    ):
        open_stream(path)
    path.write_text('a,"b\n(kg)",c\n' + "7,8,9\n1,2,3\n" * 4)
    assert open_stream(path).columns == ("a", "b\n(kg)", "c")
