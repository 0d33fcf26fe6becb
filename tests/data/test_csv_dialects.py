"""How CSV files are written is detected and said; pandas, when told, reads the same rows."""

from __future__ import annotations

import io
import pickle

import numpy as np
import pandas as pd
import pytest
from tests.helpers.stream_data import damaged

from mercer import open_stream
from mercer.data.open import open_table
from mercer.errors import ColumnTypeError

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "size": RNG.normal(size=50).round(3),
        "count": RNG.integers(-5, 2000, size=50),
        "city": RNG.choice(["Bern", "Zürich", "São Paulo"], size=50),
        "day": pd.date_range("2020-01-01", periods=50).astype(str),
    }
)


def columns(path) -> pd.DataFrame:
    """All rows with their inferred types."""
    return open_table(path).head().to_pandas()


def said(path) -> str:
    return " ".join(open_table(path).notes)


def assert_frame(path, expected=FRAME):
    got = columns(path)
    assert list(got) == list(expected)
    for name in expected:
        if expected[name].dtype.kind in "ifb":
            np.testing.assert_array_equal(got[name], expected[name])
        else:
            assert got[name].astype(str).tolist() == expected[name].astype(str).tolist()


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
@pytest.mark.parametrize("decimal", [".", ","])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("header", [True, False])
def test_separators_decimals_encodings_and_headers(mark, decimal, encoding, header, tmp_path):
    path = tmp_path / "d.csv"
    FRAME.to_csv(path, sep=mark, decimal=decimal, encoding=encoding, header=header, index=False)
    expected = FRAME if header else FRAME.set_axis([f"f{i}" for i in range(4)], axis=1)
    assert_frame(path, expected)
    notes = said(path)
    assert ("No header: columns are named f0 to f3." in notes) == (not header)
    assert ("decimal comma" in notes) == (decimal == ",")
    name = {"\t": "tab"}.get(mark, f"'{mark}'")
    assert (f"Separator {name}" in notes) == (mark != "," or decimal == ",")
    assert ("Encoding" in notes) == (encoding in ("utf-16", "cp1252"))


@pytest.mark.parametrize(
    ("text", "names", "first", "note"),
    [
        ("# made by x\n\na,b\n1,2\n", ["a", "b"], [1, 2], "1 line before the table skipped."),
        ("Report\nof 2020\n\na,b\n1,2\n3,4\n5,6\n", ["a", "b"], [1, 2], "2 lines before"),
        ("# a, b\n1,2\n3,4.5\n", ["a", "b"], [1, 2], "last comment line is read as names"),
        ("a,b\n1,2\n", ["a", "b"], [1, 2], ""),
        ("a,b,a\n1,2,3\n", ["a", "b", "a.1"], [1, 2, 3], "renamed to 'a.1'."),
        ("a,a.1,a\n1,2,3\n", ["a", "a.1", "a.2"], [1, 2, 3], "renamed to 'a.2'."),
        ("a,a,a.1\n1,2,3\n", ["a", "a.2", "a.1"], [1, 2, 3], "renamed to 'a.2'."),
        (",a,b\n0,1,2\n", ["Unnamed: 0", "a", "b"], [0, 1, 2], ""),
        ("5.1,3.5,1\n", ["f0", "f1", "f2"], [5.1, 3.5, 1], "No header"),
        ("5,3,1\n6,4,2\n", ["f0", "f1", "f2"], [5, 3, 1], "No header"),
        ("0,1,2\n6,4,2\n", ["0", "1", "2"], [6, 4, 2], "look like values"),
        ("3,7,y\n6,4,2\n", ["3", "7", "y"], [6, 4, 2], "'3', '7' among them look like values"),
        ("x\n1\n2\n", ["x"], [1], ""),
        ("1.5\n2\n", ["f0"], [1.5], "No header: the column is named f0."),
        ("a,b\r\n1,2\r\n", ["a", "b"], [1, 2], ""),
        ("a,b\r1,2\r", ["a", "b"], [1, 2], ""),
        ('"a, b","c ""d"""\n1,2\n', ["a, b", 'c "d"'], [1, 2], ""),
        ("a,b,c\nr1,1,2,3\nr2,4,5,6\n", ["Unnamed: 0", "a", "b", "c"], ["r1", 1, 2, 3], "one name"),
        ("a,b,c\n1,2,3,\n4,5,6,\n", ["a", "b", "c", "Unnamed: 3"], [1, 2, 3, None], "one name"),
        ("2020-01-01,x\n2020-01-02,y\n", ["f0", "f1"], ["2020-01-01", "x"], "No header"),
        ("?,x\n1,x\n2,x\n", ["f0", "f1"], [None, "x"], "No header"),
        ("a b\n1 2.5\n", ["a", "b"], [1, 2.5], "Separator space."),
        ("t\na b\nc d\n", ["t"], ["a b"], ""),
        ("a,b\n# c\n1,2\n# d\n", ["a", "b"], [1, 2], "that start with # are skipped"),
        ("a;b\n1,234;2\n", ["a", "b"], [1.234, 2], "1,234 is read as 1.234."),
    ],
)
def test_first_lines(text, names, first, note, tmp_path):
    table = open_table(damaged(tmp_path, "d.csv", text.encode()))
    head = table.head()
    assert head.column_names == names == [column.name for column in table.columns]
    row = [value if value is None else str(value) for value in head.to_pylist()[0].values()]
    for value, expected in zip(row, first, strict=True):
        if isinstance(expected, str):
            assert value.startswith(expected)
        else:
            assert value is expected is None or float(value) == expected
    assert note in " ".join(table.notes) if note else table.notes == ()


def test_an_unnamed_first_column_is_the_index_that_pandas_wrote(tmp_path):
    FRAME[["size", "count"]].to_csv(tmp_path / "d.csv")
    stream = open_stream(tmp_path / "d.csv", target="count")
    assert (stream.columns, stream.left_out) == (("size",), ("Unnamed: 0",))
    assert open_stream(tmp_path / "d.csv", columns=["Unnamed: 0"]).width == 1


@pytest.mark.parametrize(
    "word", ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "n/a", "#N/A", "?", "-", "<NA>"]
)
@pytest.mark.parametrize("space", ["", " "])
def test_words_for_missing_cells(word, space, tmp_path):
    text = f"a,b\n1.5,{space}x\n{space}{word},{space}{word}\n3,y\n"
    (tmp_path / "d.csv").write_text(text)
    expected = pd.read_csv(io.StringIO(text), na_values=["?", "-"], skipinitialspace=True)
    got = columns(tmp_path / "d.csv")
    np.testing.assert_array_equal(got["a"], expected["a"])
    assert got["b"].isna().tolist() == [False, True, False]
    assert got["b"].dropna().tolist() == ["x", "y"]


def test_plus_and_minus_are_labels(tmp_path):
    (tmp_path / "d.csv").write_text("a,y\n1,+\n2,-\n")
    (block,) = open_stream(tmp_path / "d.csv", target="y").blocks(5)
    assert block.y.tolist() == ["+", "-"]


def test_yes_and_no_are_true_and_false_but_labels_as_a_target(tmp_path):
    (tmp_path / "d.csv").write_text("a,b,y\nyes,True,no\nNo,false,yes\nYES,TRUE,no\n")
    stream = open_stream(tmp_path / "d.csv", target="y")
    (block,) = stream.blocks(5)
    assert block.X.tolist() == [[1, 1], [0, 0], [1, 1]]
    assert block.y.tolist() == ["no", "yes", "no"]
    (block,) = open_stream(tmp_path / "d.csv", target="b", columns=["a"]).blocks(5)
    assert block.y.tolist() == [True, False, True]
    (tmp_path / "d.csv").write_text("a,y\n1,no\n2,\n")
    with pytest.raises(ValueError, match=r"The target 'y' needs a value in every row, got None"):
        list(open_stream(tmp_path / "d.csv", target=["y"]).chunks())


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ('a,b\n"1,234.5",1\n"12,000",2\n999,3\n', ["1,234.5", "12,000", "999"]),
        ("a;b\n1.234,5;1,5\n12.000;2,5\n", ["1.234,5", "12.000"]),
        ("a\tb\n1 234,5\t1,5\n12 000\t2,5\n", ["1 234,5", "12 000"]),
        ("a;b\n1'234.5;1.5\n;2.5\n", ["1'234.5", None]),
    ],
)
def test_thousands_are_said_and_their_cells_are_text(text, cells, tmp_path):
    (tmp_path / "d.csv").write_text(text)
    got = open_table(tmp_path / "d.csv").head()
    assert got.column("a").to_pylist() == cells
    assert got.column("b").to_pylist()[0] in (1, 1.5)
    assert "Separators of thousands in 'a'." in said(tmp_path / "d.csv")


def test_codes_with_leading_zeros_are_text(tmp_path):
    (tmp_path / "d.csv").write_text("zip,n\n01234,01\n98765,12\n")
    got = columns(tmp_path / "d.csv")
    assert got["zip"].tolist() == ["01234", "98765"]
    assert got["n"].tolist() == [1, 12]


def test_quoted_cells_may_have_separators_and_line_breaks(small, tmp_path):
    frame = pd.DataFrame({"t": ['a,b\nc "d"', "e\r\nf", "g"] * 100, "x": np.arange(300.0)})
    frame.to_csv(tmp_path / "d.csv", index=False, lineterminator="\n")
    stream = open_stream(tmp_path / "d.csv", columns=["x"])
    assert np.concatenate([chunk.X[:, 0] for chunk in stream.chunks()]).tolist() == [*range(300)]
    assert columns(tmp_path / "d.csv")["t"].tolist()[:3] == frame["t"].tolist()[:3]


def test_comments_between_rows_are_skipped_where_there_are_some_before(tmp_path):
    (tmp_path / "d.csv").write_text("# first\na,b\n1,2\n# second\n3,4\n")
    (block,) = open_stream(tmp_path / "d.csv").blocks(5)
    assert block.X.tolist() == [[1, 2], [3, 4]]


DATES = {
    "2020-01-01": "2020-02-03 10:20:30.5",
    "2020-01-01 10:00:00": "2020-02-03",
    "2020-01-01T10:00:00": "1815-02-03T10:00:00",
}


@pytest.mark.parametrize("first", DATES)
def test_times_may_follow_dates(first, small, tmp_path):
    lines = [first] * 300 + [DATES[first]]
    (tmp_path / "d.csv").write_text("d,x\n" + "".join(f"{line},1\n" for line in lines))
    table = open_table(tmp_path / "d.csv")
    days = [
        value
        for _, batch in table.batches(0, {"d": table.head().schema.field("d").type}, 0, 100)
        for value in batch.column("d").to_pylist()
    ]
    assert days == [pd.Timestamp(line).to_pydatetime() for line in lines]


def lines_with(value: str, at: int = 250) -> str:
    lines = [f"{i},0.5,{i % 3},true,2020-01-01" for i in range(300)]
    lines[at] = value
    return "a,b,n,t,d\n" + "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize(
    ("line", "column", "kind"),
    [
        ("1,oops,1,true,2020-01-01", "b", "numbers"),
        ("1,1,1,7,2020-01-01", "t", "true and false"),
        ("1,1,1.5,true,2020-01-01", "n", "whole numbers"),
    ],
)
def test_a_column_of_another_type_later_is_named_and_read_again(
    line, column, kind, small, tmp_path
):
    (tmp_path / "d.csv").write_text(lines_with(line))
    stream = open_stream(tmp_path / "d.csv", columns=["a", "b", "t"], target="n")
    with pytest.raises(ColumnTypeError) as caught:
        list(stream.chunks())
    error = caught.value
    assert (error.column, error.row) == (column, 250)
    assert str(error).startswith(f"Column '{column}' has {kind} in the first rows, and then ")
    assert "at d.csv, row 250 of the file" in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.column) == (str(error), column)


def test_whole_targets_are_read_again_as_numbers_and_others_as_text(small, tmp_path):
    (tmp_path / "d.csv").write_text(lines_with("1,1,1.5,true,2020-01-01"))
    stream = open_stream(tmp_path / "d.csv", columns=["a"], target="n").retyped("n")
    labels = np.concatenate([chunk.y for chunk in stream.chunks()])
    assert labels[250] == 1.5 and labels.dtype == np.float64
    (tmp_path / "d.csv").write_text(lines_with("1,1,few,true,2020-01-01"))
    stream = open_stream(tmp_path / "d.csv", columns=["a"], target="n").retyped("n").retyped("n")
    labels = np.concatenate([chunk.y for chunk in stream.chunks()])
    assert labels[249:252].tolist() == ["0", "few", "2"]


def test_a_later_date_that_is_none_is_named(small, tmp_path):
    (tmp_path / "d.csv").write_text(lines_with("1,1,1,true,yesterday"))
    table = open_table(tmp_path / "d.csv")
    with pytest.raises(ColumnTypeError, match=r"Column 'd' has dates .* then 'yesterday' at d.csv"):
        list(table.batches(0, {"d": table.head().schema.field("d").type}, 0, 100))


def test_decimal_commas_are_located_too(small, tmp_path):
    lines = ["1,5;2"] * 300
    lines[280] = "1.5;2"
    (tmp_path / "d.csv").write_text("a;b\n" + "\n".join(lines))
    with pytest.raises(ColumnTypeError, match=r"and then '1.5' at d.csv, row 280 of the file"):
        list(open_stream(tmp_path / "d.csv").chunks())


REFUSED = {
    r"d.csv is empty": b"",
    r"d.csv is empty: a line with the names": b"\n \n",
    r"d.csv has comments \(#\) and no rows": b"# a\n",
    r"d.csv has no rows after its first line": b"a,b\n",
    r"d.csv is no text: it is a Parquet file: name it .parquet": b"PAR1\x00\x00",
    r"d.csv is no text: it is a zip archive or an Excel workbook": b"PK\x03\x04\x00",
    r"d.csv is no text: byte 5 is 0": b"a,b\n1\x00,2\n",
    r"It may be UTF-16 without a byte order mark": "a,b\n1,2\n".encode("utf-16-le"),
    r"d.csv has lines such as '1 1:0.5 7:2': it looks like svmlight .* Name it .svm": (
        b"1 1:0.5 7:2\n-1 2:1\n"
    ),
    r"d.csv, line 4 has 1 cells separated by commas, and the table has 2: '5'": (
        b"a,b\n1,2\n3,4\n5\n6,7\n"
    ),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_is_no_table_is_refused_in_a_sentence(sentence, tmp_path):
    with pytest.raises(ValueError, match=sentence):
        open_stream(damaged(tmp_path, "d.csv", REFUSED[sentence]))


@pytest.mark.parametrize("later", [False, True])
def test_another_encoding_later_is_named_by_byte_and_line(later, small, tmp_path):
    rows = b"1,x\n" * (30_000 if later else 3000)
    head = "y,ü\n".encode()
    path = damaged(tmp_path, "d.csv", head + rows + b"1,caf\xe9\n" + rows)
    place = len(head) + len(rows) + 5
    if not later:  # all in the first bytes: the file is cp1252
        path.write_bytes(b"y,t\n" + rows + b"1,caf\xe9\n")
        assert said(path) == "Encoding cp1252."
        return
    sentence = rf"d.csv starts as utf-8, and byte {place:,}, in line 30,002, is not: 0xE9"
    with pytest.raises(ValueError, match=sentence):
        list(open_stream(path, target="ü").chunks())


def test_a_ragged_line_far_below_is_named_by_its_line(small, tmp_path):
    path = damaged(tmp_path, "d.csv", b"# c\na,b\n" + b"1,2\n" * 5000 + b"3,4,5\n" + b"1,2\n" * 9)
    with pytest.raises(ValueError, match=r"d.csv, line 5003 has 3 cells .*: '3,4,5'"):
        list(open_stream(path).chunks())


def test_ten_thousand_columns(tmp_path):
    values = RNG.normal(size=(5, 10_000)).round(3)
    pd.DataFrame(values, columns=[f"column{i}" for i in range(10_000)]).to_csv(
        tmp_path / "d.csv", index=False, sep=";"
    )
    (block,) = open_stream(tmp_path / "d.csv").blocks(10)
    np.testing.assert_array_equal(block.X, values)


def test_a_line_that_is_too_long_is_refused_with_its_number(small, monkeypatch, tmp_path):
    path = damaged(
        tmp_path, "d.csv", b"a,b\n" + b"1,2\n" * 5000 + b"3," + b"4" * 2_500_000 + b"\n9,9\n"
    )
    with pytest.raises(ValueError, match=r"d.csv, line 5,002 has 2,500,002 bytes, and at most"):
        list(open_stream(path).chunks())
    monkeypatch.setattr("mercer.data.csv.LONGEST_LINE", 10**5)
    path = damaged(tmp_path, "d.csv", b"a,b\n3," + b"4" * 500_000 + b"\n")
    with pytest.raises(ValueError, match=r"d.csv, line 2 has 500,002 bytes, and at most 100,000"):
        open_stream(path)
    path = damaged(tmp_path, "d.csv", b"a,b\n1,2\n3," + b"4" * 3_000_000 + b"\n5,6\n7,8\n")
    with pytest.raises(ValueError, match=r"d.csv, line 3 has 3,000,002 bytes, and at most 100,000"):
        open_stream(path)


@pytest.mark.parametrize("rows", [300, 5])
def test_a_quote_that_is_not_closed_is_refused_with_its_line(tmp_path, rows):
    lines = ["x,word", *(f"{i},w" for i in range(rows)), '0.5,"p', *(f"{i},w" for i in range(rows))]
    path = tmp_path / "open.csv"
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(ValueError, match=rf"a quote \(\"\) in line {rows + 2} is not closed"):
        open_stream(path)


def test_years_beside_a_word_are_names(tmp_path):
    path = tmp_path / "years.csv"
    rows = [f"country {i},{i},{i + 1.5},{i + 2}" for i in range(20)]
    path.write_text("\n".join(["country,2019,2020,2021", *rows]) + "\n")
    stream = open_stream(path, target="2021")
    assert stream.columns == ("country", "2019", "2020")
    assert sum(len(chunk) for chunk in stream.chunks()) == 20


def test_codes_with_leading_zeros_beyond_the_first_lines_are_text(tmp_path):
    codes = [*(str(10_000 + i) for i in range(500)), "01234"]
    (tmp_path / "d.csv").write_text("zip,n\n" + "".join(f"{code},1\n" for code in codes))
    assert open_table(tmp_path / "d.csv").head().column("zip").to_pylist() == codes
    assert open_stream(tmp_path / "d.csv").schema.columns[0].kind == "category"


def test_points_are_thousands_beside_decimal_commas(tmp_path):
    (tmp_path / "d.csv").write_text("a;b\n950;1,5\n1.200;2,5\n13.400;3,25\n")
    got = next(iter(open_stream(tmp_path / "d.csv").chunks())).X
    np.testing.assert_array_equal(got, [[950, 1.5], [1200, 2.5], [13400, 3.25]])


@pytest.mark.parametrize(
    ("text", "format"),
    [
        ('a,p\nu,"$1,200"\nv,"-$ 3,400.5"\nw,$-7\n', ",.$"),
        ("a;p;q\nu;1.200,00 €;1,5\nv;-3.400,50€;1\nw;-7 €;2\n", ".,€"),
        ("a,p\nu,1200 %\nv,-3400.5%\nw,-7\u00a0%\n", "%"),
    ],
)
@pytest.mark.parametrize("header", [True, False])
def test_marks_of_currencies_and_shares_are_removed(text, format, header, tmp_path):
    (tmp_path / "d.csv").write_text(text if header else text.partition("\n")[2])
    stream = open_stream(tmp_path / "d.csv")
    column = stream.schema.columns[1]
    assert (column.name, column.kind, column.format) == ("p" if header else "f1", "number", format)
    X = next(iter(stream.chunks())).X
    np.testing.assert_array_equal(np.abs(X[:, 1]), [1200, 3400.5, 7])
    np.testing.assert_array_equal(X[1:, 1] < 0, True)


@pytest.mark.parametrize("other", ["7", "€7", "7 %%", "$", "--$7"])
def test_numbers_of_two_marks_are_categories(other, tmp_path):
    (tmp_path / "d.csv").write_text(f"a,p\nu,$1\nv,$2\nw,{other}\n")
    assert open_stream(tmp_path / "d.csv").schema.columns[1].kind == "category"


def test_percents_are_names_above_numbers(tmp_path):
    (tmp_path / "d.csv").write_text("25%,75%\n1,2\n3,4\n")
    assert open_stream(tmp_path / "d.csv").columns == ("25%", "75%")


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
@pytest.mark.parametrize("line", ["sep={}", '"sep={}"'])
def test_a_first_line_that_states_the_separator(mark, line, tmp_path):
    rows = [line.format(mark), f"a{mark}b", f"1{mark}2", f"3{mark}4"]
    (tmp_path / "d.csv").write_text("\n".join(rows))
    stream = open_stream(tmp_path / "d.csv")
    assert stream.columns == ("a", "b") and "1 line before the table skipped." in stream.notes
    np.testing.assert_array_equal(next(iter(stream.chunks())).X, [[1, 2], [3, 4]])


@pytest.mark.parametrize("units", ["kg,m/s,", ",(m/s),", "kg,m/s,NA"])
def test_a_line_of_units_is_skipped_and_said(units, tmp_path):
    rows = "".join(f"{i},{i % 7}.5,{'xyz'[i % 3]}\n" for i in range(1, 20))
    (tmp_path / "d.csv").write_text(f"# log\na,b,c\n{units}\n{rows}")
    stream = open_stream(tmp_path / "d.csv")
    said = f"{units!r} below the header is read as units and skipped."
    if units.startswith(","):  # of one of two columns of numbers
        assert said not in stream.notes and stream.schema.columns[1].kind == "category"
        return
    assert said in stream.notes
    assert [column.kind for column in stream.schema.columns] == ["number", "number", "category"]
    np.testing.assert_array_equal(next(iter(stream.chunks())).X[:2, :2], [[1, 1.5], [2, 2.5]])


@pytest.mark.parametrize("first", ["kg,m,x", "1,m,", "?,,"])
def test_a_first_row_of_cells_is_no_line_of_units(first, tmp_path):
    rows = "".join(f"{i},{i}.5,{'xyz'[i % 3]}\n" for i in range(1, 20))
    (tmp_path / "d.csv").write_text(f"a,b,c\n{first}\n{rows}")
    stream = open_stream(tmp_path / "d.csv")
    assert not any("units" in note for note in stream.notes)
    assert len(next(iter(stream.chunks())).X) == 20


def test_hexadecimal_numbers_are_text(tmp_path):
    (tmp_path / "d.csv").write_text("id,n\n0x1F,1\n0x2A,2\n")
    assert columns(tmp_path / "d.csv")["id"].tolist() == ["0x1F", "0x2A"]
