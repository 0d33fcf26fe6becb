"""Kinds of columns by their types and first cells, and the numbers that cells become."""

import datetime as dt
from decimal import Decimal
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pytest

from mercer import KernelRegressor, RandomFourier, open_stream
from mercer.data.cells import hash_text
from mercer.data.table_schema import TableColumn, TableSchema, category_names, infer_schema
from mercer.errors import RowError

UTC = dt.UTC
DAY = 86400.0


def seconds(*date):
    return dt.datetime(*date, tzinfo=UTC).timestamp()


def infer(values, kind=None, type=None):
    head = pa.table({"x": values if isinstance(values, pa.Array) else pa.array(values, type)})
    return infer_schema("t", ["x"], head, {"x": kind} if kind else None).columns[0]


def convert(column, values, type=None):
    values = values if isinstance(values, pa.Array) else pa.array(values, type)
    return TableSchema((column,)).matrix(pa.record_batch({"x": values}))


def cells(values, kind=None, type=None):
    values = values if isinstance(values, pa.Array) else pa.array(values, type)
    return convert(infer(values, kind), values)[:, 0]


def test_the_hash_of_a_text_is_the_upper_52_bits_of_blake2b():
    expected = int(blake2b("Zoë".encode(), digest_size=8).hexdigest(), 16) >> 12
    assert hash_text("Zoë") == expected
    assert 0 <= expected < 2**52


@pytest.mark.parametrize(
    ("values", "type"),
    [
        ([1, None, -3], pa.int8()),
        ([1, None, 2**63 - 1], pa.int64()),
        ([1, None, 2**64 - 1], pa.uint64()),
        ([1.5, None, np.nan], pa.float64()),
        ([1.5, None, np.nan], pa.float32()),
        ([np.float16(1.5), None], pa.float16()),
        ([Decimal("1.25"), None], pa.decimal128(10, 2)),
        ([None, None], pa.null()),
    ],
)
def test_numbers_are_themselves_and_nulls_are_nan(values, type):
    assert infer(values, type=type) == TableColumn("x", "number")
    expected = [np.nan if value is None else float(value) for value in values]
    np.testing.assert_array_equal(cells(values, type=type), expected)


def test_booleans_are_zero_and_one():
    assert infer([True, None]) == TableColumn("x", "boolean")
    np.testing.assert_array_equal(cells([True, None, False]), [1, np.nan, 0])
    column = TableColumn("x", "boolean")
    np.testing.assert_array_equal(
        convert(column, [" Yes", "no", "", "TRUE", "0"])[:, 0], [1, 0, np.nan, 1, 0]
    )
    np.testing.assert_array_equal(convert(column, [1, 0, None])[:, 0], [1, 0, np.nan])
    with pytest.raises(RowError, match=r"Column 'x' has true or false, got 2 at row 1"):
        convert(column, [1, 2])
    with pytest.raises(RowError, match=r"got 'perhaps' at row 2"):
        convert(column, ["yes", None, "perhaps"])


@pytest.mark.parametrize(
    "type",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.uint32(), pa.large_string()),
    ],
)
def test_a_category_is_the_hash_of_its_text(type):
    values = ["b", None, "a", " b ", "", "b"]
    if pa.types.is_dictionary(type):
        array = pa.array(values, type.value_type).dictionary_encode().cast(type)
    else:
        array = pa.array(values, type)
    assert infer(array) == TableColumn("x", "category")
    a, b = hash_text("a"), hash_text("b")
    np.testing.assert_array_equal(cells(array), [b, np.nan, a, b, np.nan, b])
    np.testing.assert_array_equal(cells(array.slice(2, 2)), [a, b])


def test_unused_levels_of_a_dictionary_change_nothing():
    levels = pa.array([str(i) for i in range(1000)])
    array = pa.DictionaryArray.from_arrays(pa.array([5, None, 999], pa.int16()), levels)
    np.testing.assert_array_equal(cells(array), [hash_text("5"), np.nan, hash_text("999")])


@pytest.mark.parametrize(
    ("values", "type"),
    [
        ([1, 10, None, 2**60], pa.int64()),
        ([1.0, 10.0, None, 2.0**60], pa.float64()),
        ([Decimal("1.00"), Decimal("10.00"), None, Decimal(2**60)], pa.decimal128(24, 2)),
        (["1", "10", None, str(2**60)], pa.string()),
    ],
)
def test_a_number_that_is_a_category_has_one_hash_in_every_type(values, type):
    expected = [hash_text("1"), hash_text("10"), np.nan, hash_text(str(2**60))]
    np.testing.assert_array_equal(cells(values, "category", type), expected)


def test_a_fraction_that_is_a_category_is_hashed_as_python_writes_it():
    np.testing.assert_array_equal(
        cells([0.1, np.nan, -2.0], "category"), [hash_text("0.1"), np.nan, hash_text("-2")]
    )


def test_a_dictionary_of_numbers_is_a_category():
    array = pa.array([3, 4, None, 3]).dictionary_encode()
    assert infer(array) == TableColumn("x", "category")
    np.testing.assert_array_equal(
        cells(array), [hash_text("3"), hash_text("4"), np.nan, hash_text("3")]
    )


WHEN = dt.datetime(2024, 2, 29, 12, 30, 15)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
def test_timestamps_are_seconds_in_utc(unit, zone):
    values = [WHEN.replace(tzinfo=UTC) if zone else WHEN, None]
    array = pa.array(values, pa.timestamp(unit, zone))
    assert infer(array) == TableColumn("x", "date")
    np.testing.assert_array_equal(cells(array), [seconds(2024, 2, 29, 12, 30, 15), np.nan])


def test_dates_and_times_and_durations():
    day = [dt.date(1969, 12, 31), None, dt.date(9999, 12, 31)]
    for type in (pa.date32(), pa.date64()):
        assert infer(day, type=type).kind == "date"
        np.testing.assert_array_equal(cells(day, type=type), [-DAY, np.nan, seconds(9999, 12, 31)])
    for type in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")):
        time = [dt.time(1, 2, 3), None]
        assert infer(time, type=type).kind == "number"
        np.testing.assert_array_equal(cells(time, type=type), [3723, np.nan])
    for unit in ("s", "ms", "us", "ns"):
        span = [dt.timedelta(days=-1, hours=1), None]
        assert infer(span, type=pa.duration(unit)).kind == "number"
        np.testing.assert_array_equal(cells(span, type=pa.duration(unit)), [-82800, np.nan])


@pytest.mark.parametrize(
    ("texts", "format", "expected"),
    [
        (["2024-12-31", "2025-1-2"], "%Y-%m-%d", [(2024, 12, 31), (2025, 1, 2)]),
        (["2024-12-31T23:59:58Z"], "%Y-%m-%d", [(2024, 12, 31, 23, 59, 58)]),
        (["2024-12-31 23:59+02:00"], "%Y-%m-%d", [(2024, 12, 31, 21, 59)]),
        (["2024-12-31 00:59:00-0130"], "%Y-%m-%d", [(2024, 12, 31, 2, 29)]),
        (["31/12/2024", "01/02/2024"], "%d/%m/%Y", [(2024, 12, 31), (2024, 2, 1)]),
        (["12/31/2024", "01/02/2024"], "%m/%d/%Y", [(2024, 12, 31), (2024, 1, 2)]),
        (["01/02/2024", "03/04/2024 7:05"], "%d/%m/%Y", [(2024, 2, 1), (2024, 4, 3, 7, 5)]),
        (["12/31/2024 11:15 PM"], "%m/%d/%Y", [(2024, 12, 31, 23, 15)]),
        (["12/31/2024 12:15:30 am"], "%m/%d/%Y", [(2024, 12, 31, 0, 15, 30)]),
        (["31.12.2024 08:00"], "%d.%m.%Y", [(2024, 12, 31, 8)]),
        (["31 Dec 2024", "1 september 1969"], "%d %b %Y", [(2024, 12, 31), (1969, 9, 1)]),
        (["Dec 31 2024"], "%b %d %Y", [(2024, 12, 31)]),
    ],
)
def test_texts_of_dates_are_dates(texts, format, expected):
    values = [*texts, None, " NaT"]
    assert infer(values) == TableColumn("x", "date", format=format)
    np.testing.assert_array_equal(
        cells(values), [*(seconds(*date) for date in expected), np.nan, np.nan]
    )


def test_fractions_of_seconds_are_kept():
    assert cells(["2024-01-01 00:00:00.125"])[0] == seconds(2024, 1, 1) + 0.125


def test_a_text_that_is_no_date_makes_the_column_categories():
    for text in (
        *("2024-02-30", "2023-02-29", "2024-13-01", "2024-01-00", "x", "2024-01-01 13:00 pm"),
        *("2024-01-01 24:00", "2024-01-01 10:60", "2024-01-01 10:00:61"),
    ):
        assert infer(["2024-01-01", text]).kind == "category", text
        with pytest.raises(RowError, match=r"Column 'x' has dates \(%Y-%m-%d\), got .* at row 1"):
            convert(TableColumn("x", "date", format="%Y-%m-%d"), ["2024-01-01", text])


def test_formats_of_dates_can_be_declared():
    assert cells(["31-12-24 05h30"], "%d-%m-%y %Hh%M")[0] == seconds(2024, 12, 31, 5, 30)
    assert cells(["1.1.69"], "%d.%m.%y")[0] == seconds(1969, 1, 1)
    assert cells([20241231], "%Y%m%d")[0] == seconds(2024, 12, 31)
    np.testing.assert_array_equal(cells([1.5, None], "date"), [1.5, np.nan])
    assert infer([20241231], "date").format == "%s"
    with pytest.raises(ValueError, match=r"date format '%d.%Q' must have some of %Y, .*, such as"):
        infer(["1"], "%d.%Q")
    with pytest.raises(ValueError, match=r"t: column 'x' has no dates in a known format, such as"):
        infer(["soon"], "date")


def test_a_date_is_a_number_where_declared():
    array = pa.array([WHEN], pa.timestamp("us"))
    assert cells(array, "number")[0] == seconds(2024, 2, 29, 12, 30, 15)
    with pytest.raises(RowError, match=r"Column 'x' has numbers, got datetime.datetime\(2024"):
        convert(TableColumn("x", "number"), array)
    with pytest.raises(RowError, match=r"Column 'x' has dates, got 5 at row 1"):
        convert(TableColumn("x", "date"), [None, 5])


@pytest.mark.parametrize(
    ("texts", "format", "expected"),
    [
        (["1", "-2.5", "+1e3", ".5", "inf"], "", [1, -2.5, 1000, 0.5, np.inf]),
        (["1,234", "12", "-1,234,567.5"], ",.", [1234, 12, -1234567.5]),
        (["1.234,5", "0,567"], ".,", [1234.5, 0.567]),
        (["1,5", "1,234"], ".,", [1.5, 1.234]),
        (["1 234,5", "12\u00a0345\u202f678,9"], " ,", [1234.5, 12345678.9]),
        (["1 234.5"], " .", [1234.5]),
        (["1'234.5", "1\u2019234"], "'.", [1234.5, 1234]),
    ],
)
def test_texts_of_numbers_are_numbers(texts, format, expected):
    values = [*texts, None, "", "n/a", "?"]
    assert infer(values) == TableColumn("x", "number", format=format)
    np.testing.assert_array_equal(cells(values), [*expected, *[np.nan] * 4])


def test_separators_at_other_places_are_refused():
    for format, text in ((",.", "1,23"), (".,", "1.23"), ("", "1,234"), (",.", "0,123")):
        with pytest.raises(RowError, match="Column 'x' has numbers, got '") as error:
            convert(TableColumn("x", "number", format=format), ["1", None, text])
        assert error.value.row == 2
        assert repr(text) in str(error.value)
        assert "kinds={'x': 'category'}" in str(error.value)


def test_digits_with_leading_zeros_are_categories_unless_declared():
    assert infer(["00123", "99999"]) == TableColumn("x", "category")
    assert infer(["0", "0.5"]) == TableColumn("x", "number")
    np.testing.assert_array_equal(cells(["00123", "7"], "number"), [123, 7])


SENTENCES = [f"Flight {i} to Oslo was late again, sorry" for i in range(9)]


def test_texts_of_many_words_are_counts_of_hashed_words():
    values = [*SENTENCES, None, "late LATE Late"]
    assert infer(values) == TableColumn("x", "text", 256)
    X = convert(infer(values), values)
    assert X.shape == (11, 256)
    expected = np.zeros(256)
    for word in ("flight", "3", "to", "oslo", "was", "late", "again", "sorry"):
        expected[int(hash_text(word)) % 256] += 1
    np.testing.assert_array_equal(X[3], expected)
    assert X[9].sum() == 0
    assert X[10, int(hash_text("late")) % 256] == 3 == X[10].sum()
    np.testing.assert_array_equal(convert(infer(values), pa.array(values).slice(3, 1))[0], X[3])


def test_few_sentences_are_categories():
    assert infer(SENTENCES[:3] * 5).kind == "category"
    assert infer(["two words", "or three words"]).kind == "category"
    assert infer(["one"], "text") == TableColumn("x", "text", 256)


def test_lists_of_fixed_size_are_numbers():
    array = pa.array([[1, 2], None, [3, None]], pa.list_(pa.float64(), 2))
    assert infer(array) == TableColumn("x", "number", 2)
    np.testing.assert_array_equal(convert(infer(array), array), [[1, 2], [np.nan] * 2, [3, np.nan]])


def test_all_columns_of_unusable_types_are_named():
    head = pa.table({"a": [1], "b": [[1]], "c": [b"x"], "d": [{"e": 1}]})
    with pytest.raises(ValueError, match=r"'b' \(list<.*'c' \(binary\), 'd' \(struct<.*columns="):
        infer_schema("t", head.column_names, head)


def test_kinds_of_unknown_columns_and_unknown_kinds_are_refused():
    head = pa.table({"income": [1]})
    with pytest.raises(ValueError, match=r"names 'incom' \(did you mean 'income'\?\), which it"):
        infer_schema("t", ["income"], head, {"incom": "number"})
    with pytest.raises(ValueError, match=r"kind of 'income' must be one of number, .* got 'money'"):
        infer_schema("t", ["income"], head, {"income": "money"})


def test_columns_are_found_by_name_and_others_left_alone():
    schema = TableSchema((TableColumn("b", "number"), TableColumn("a", "category")))
    batch = pa.record_batch({"a": ["u"], "z": [[1]], "b": [2]})
    np.testing.assert_array_equal(schema.matrix(batch), [[2, hash_text("u")]])
    table = pa.concat_tables([pa.table({"a": ["u"], "b": [2]})] * 2)
    np.testing.assert_array_equal(schema.matrix(table), [[2, hash_text("u")]] * 2)
    assert schema.describe() == "1 number, 1 category"


class Batches:
    """A stream that counts the batches that were read."""

    def __init__(self, *batches):
        self.batches, self.read = batches, 0

    def record_batches(self, names):
        for batch in self.batches:
            self.read += 1
            yield batch.select(names)


def test_names_of_categories_are_read_until_all_are_found():
    stream = Batches(
        pa.record_batch({"a": ["u", None], "b": [1.0, 2.0]}),
        pa.record_batch({"a": [" v ", "u"], "b": [3.0, 3.0]}),
        pa.record_batch({"a": ["w", "w"], "b": [4.0, 5.0]}),
    )
    wanted = {"a": [hash_text("v"), hash_text("u")], "b": np.array([hash_text("2")])}
    assert category_names(stream, wanted) == {
        "a": {hash_text("v"): "v", hash_text("u"): "u"},
        "b": {hash_text("2"): "2"},
    }
    assert stream.read == 2
    assert category_names(stream, {"a": [hash_text("x")], "b": []}) == {"a": {}, "b": {}}
    assert category_names(stream, {"a": []}) == {"a": {}}


def test_dates_of_either_order_are_said_and_read_again(tmp_path):
    path = tmp_path / "days.csv"
    days = [f"{1 + i % 12:02d}/{1 + i % 9:02d}/2024" for i in range(60)]
    path.write_text("x,day,y\n" + "".join(f"{i},{day},{i}\n" for i, day in enumerate(days)))
    stream = open_stream(path, target="y")
    assert stream.notes == ("Dates of 'day' are read as day/month/year.",)
    with path.open("a") as file:
        file.writelines(f"{i},01/03/2024,{i}\n" for i in range(30_000))
        file.write("7,03/25/2024,7\n")
    model = KernelRegressor(RandomFourier(8, random_state=0)).fit(open_stream(path, target="y"))
    assert model.schema_.columns[1] == TableColumn("day", "date", format="%m/%d/%Y")
    with path.open("a") as file:
        file.write("7,soon,7\n")
    with pytest.warns(UserWarning, match="read as categories"):
        model.fit(open_stream(path, target="y"))
    assert model.schema_.columns[1].kind == "category"
