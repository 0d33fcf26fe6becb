"""Cells of a column of a table as float64: numbers, booleans, hashes of text, dates, words.

Text is converted once for each distinct value of an Arrow array. A missing cell is NaN.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np

from mercer._typing import Array
from mercer.data._pyarrow import pyarrow

_PURPOSE = "Reading a table"

# Words for missing cells of every kind; "-" is none where the column has "+" too
NULLS = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null", "?", "-"),
)
# and for missing numbers, dates and booleans, which categories may be
MISSING = (*NULLS, "--", ".", "na", "NaT", "none", "missing")
SIGNS = "+-"  # format of categories among which are "+" and "-"
YES = ("yes", "Yes", "YES")
NO = ("no", "No", "NO")
TRUE = ("true", "True", "TRUE", *YES)
FALSE = ("false", "False", "FALSE", *NO)
_TRUE, _FALSE = ("true", "t", "yes", "y", "1", "1.0"), ("false", "f", "no", "n", "0", "0.0")

# Separators of thousands and decimals: 1,234.5, 1.234,5, 1 234,5, 1 234.5 and 1'234.5
NUMBER_FORMATS = ("", ",.", ".,", " ,", " .", "'.")
MARKS = "$€£¥₹%"  # of currencies and shares; a mark is the last character of a format: ",.$"

# Day before month where both would do; a time may follow each
DATE_FORMATS = (
    *("%Y-%m-%d", "%Y/%m/%d", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y"),
    *("%d %b %Y", "%d-%b-%Y", "%b %d %Y", "%b %d, %Y"),
)
_FIELDS = {
    "%Y": r"(?P<Y>\d{4})",
    "%y": r"(?P<y>\d{2})",
    "%m": r"(?P<m>\d{1,2})",
    "%b": r"(?P<b>[A-Za-z]{3,9})\.?",
    "%d": r"(?P<d>\d{1,2})",
    "%H": r"(?P<H>\d{1,2})",
    "%M": r"(?P<M>\d{2})",
    "%S": r"(?P<S>\d{2}(?:\.\d+)?)",
    "%p": r"(?P<p>[AaPp][Mm])",
    "%z": r"(?P<z>Z|UTC|[+-]\d{2}:?\d{2})",
}
_TIME = rf"(?:[T ] *{_FIELDS['%H']}:{_FIELDS['%M']}(?::{_FIELDS['%S']})? *{_FIELDS['%p']}? *"
_TIME += rf"{_FIELDS['%z']}?)?"
SECONDS = "%s"  # strptime's format of seconds since 1970
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WORD = re.compile(r"[^\W\d_]+")
_DAY = 86400.0
TEXT_TYPES = ("string", "large_string", "string_view")  # of Arrow
_UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}


class InvalidCell(ValueError):
    """A cell that is not of its kind: `row` in the array, and the `value` that was found."""

    def __init__(self, row: int, value: object) -> None:
        super().__init__(row, value)
        self.row, self.value = row, value


def hash_text(text: str) -> float:
    """Return the upper 52 bits of the BLAKE2b hash of the UTF-8 text, exact as a float64."""
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return float(int.from_bytes(digest, "big") >> 12)


def numbers(values: Any, format: str = "") -> Array:
    """Return numbers; times of day and durations in seconds.

    Text has the separators `format`; timestamps are numbers with the format "%s" only.
    """
    kind = _value_type(values)
    if is_text(kind):
        plain = "" if format == SECONDS else format
        return _by_distinct_text(values, lambda texts: text_numbers(texts, plain))
    if is_date(kind) and format != SECONDS:
        _refuse_all(values)
    return _numbers(values)


def booleans(values: Any) -> Array:
    """Return 0 and 1; NaN where missing."""
    if is_text(_value_type(values)):
        return _by_distinct_text(values, _text_booleans)
    result = _numbers(values)
    _require(np.isnan(result) | (result == 0) | (result == 1), values)
    return result


def dates(values: Any, format: str = "") -> Array:
    """Return seconds since 1970 in UTC.

    Text and integers have the strptime `format`: "%s" is a number of seconds, "%Y%m%d" 20241231.
    """
    pa = pyarrow(_PURPOSE)
    kind = _value_type(values)
    if is_date(kind):
        return _numbers(values)
    if format == SECONDS:
        return numbers(values, format)
    if pa.types.is_integer(kind) and format:
        values = _decode(values).cast(pa.string())
    elif not is_text(kind):
        _refuse_all(values)
        return _numbers(values)
    return _by_distinct_text(values, lambda texts: text_dates(texts, format or DATE_FORMATS[0]))


def categories(values: Any, format: str = "") -> Array:
    """Return the hashes of texts without outer whitespace; one of NULLS is missing.

    Numbers are hashed as their shortest text, so that 1 and 1.0 are one category. With the format
    SIGNS "-" is a category.
    """
    distinct, codes = _encode(values)
    missing = {None, *NULLS} - ({"-"} if format == SIGNS else set())
    hashes = [
        np.nan if text is None or text in missing else hash_text(text)
        for text in category_texts(distinct)
    ]
    return _take(np.array(hashes, dtype=np.float64), codes)


def _numbers(values: Any) -> Array:
    values = _decode(values)
    if pyarrow(_PURPOSE).types.is_temporal(values.type):
        return _seconds(values)
    return floats(values, np.dtype(np.float64))


def word_counts(values: Any, size: int) -> Array:
    """Return the counts of lower-cased words by hash modulo `size`; a missing text has none."""
    pa, compute = pyarrow(_PURPOSE), pyarrow(_PURPOSE, "compute")
    texts = _as_text(_decode(values))
    lists = compute.split_pattern_regex(compute.utf8_lower(texts), r"[^\pL\pN]+")
    rows = compute.list_parent_indices(lists).to_numpy(zero_copy_only=False)
    words = compute.list_flatten(lists).dictionary_encode()
    assert isinstance(words, pa.DictionaryArray)
    places = np.array(
        [int(hash_text(word)) % size if word else -1 for word in words.dictionary.to_pylist()],
        dtype=np.int64,
    )
    counts = np.zeros((len(texts), size))
    if len(places):
        columns = places[words.indices.to_numpy(zero_copy_only=False)]
        kept = columns >= 0
        cells = rows[kept].astype(np.int64) * size + columns[kept]
        counts += np.bincount(cells, minlength=counts.size).reshape(counts.shape)
    # not by if_else() before: pyarrow before 24 gives wrong offsets for a slice of texts
    counts[_mask(_is_word(texts, [*NULLS]))] = 0
    return counts


def lists(values: Any, size: int, dtype: np.dtype[Any]) -> Array:
    """Return (rows, size) numbers of a column of fixed-size lists; nulls become NaN."""
    cells = floats(values.flatten(), dtype).reshape(-1, size)
    if not values.null_count:
        return cells
    rows = np.full((len(values), size), np.nan, dtype)  # flatten() skips null lists
    rows[values.is_valid().to_numpy(zero_copy_only=False)] = cells
    return rows


def floats(values: Any, dtype: np.dtype[Any]) -> Array:
    """Return numbers; nulls become NaN."""
    pa = pyarrow(_PURPOSE)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if not pa.types.is_float16(values.type):  # pyarrow before version 20 has no cast of float16
        values = values.cast(pa.float32() if dtype == np.float32 else pa.float64(), safe=False)
    return np.asarray(values.to_numpy(zero_copy_only=False)).astype(dtype, copy=False)


def is_text(kind: Any) -> bool:
    """Return whether an Arrow type is one of the types of strings."""
    return str(kind) in TEXT_TYPES


def is_date(kind: Any) -> bool:
    """Return whether an Arrow type is one of dates or timestamps."""
    types = pyarrow(_PURPOSE).types
    return bool(types.is_date(kind) or types.is_timestamp(kind))


def category_texts(distinct: Any) -> list[str | None]:
    """Return the texts that `categories` hashes, of an array of distinct values."""
    pa, compute = pyarrow(_PURPOSE), pyarrow(_PURPOSE, "compute")
    if is_text(distinct.type):
        texts: list[str | None] = compute.utf8_trim_whitespace(_as_text(distinct)).to_pylist()
        return texts
    if pa.types.is_floating(distinct.type) or pa.types.is_decimal(distinct.type):
        return [None if value is None else _number_text(value) for value in distinct.to_pylist()]
    texts = _as_text(distinct).to_pylist()
    return texts


def distinct_texts(values: Any) -> Any:
    """Return the distinct texts of an array, without outer whitespace and without nulls."""
    compute = pyarrow(_PURPOSE, "compute")
    return compute.utf8_trim_whitespace(_as_text(_encode(values)[0].drop_null()))


def distinct_categories(values: Any) -> list[str]:
    """Return the texts of the categories of an array, each once."""
    if hasattr(values, "combine_chunks"):
        values = values.combine_chunks()
    return [text for text in category_texts(_encode(values)[0]) if text]


def count_missing(values: Any) -> int:
    """Return the number of cells of text that are null or one of NULLS."""
    compute = pyarrow(_PURPOSE, "compute")
    return int(compute.sum(_is_word(_as_text(_decode(values)), [*NULLS, None])).as_py() or 0)


def drop_missing(texts: Any, words: Sequence[str] = MISSING) -> Any:
    """Return the texts that are none of the words for missing cells."""
    return texts.filter(pyarrow(_PURPOSE, "compute").invert(_is_word(texts, [*words])))


def are_truth_values(texts: Any) -> bool:
    """Return whether all texts are words for true and false."""
    return {*texts.to_pylist()} <= {*TRUE, *FALSE}


def have_signs(texts: Any) -> bool:
    """Return whether "+" and "-" are among the texts."""
    return {*SIGNS} <= {*texts.to_pylist()}


def first_leading_zero(texts: Any) -> int | None:
    """Return the first text of digits that begin with a zero, as codes do: 00123."""
    compute = pyarrow(_PURPOSE, "compute")
    row = compute.index(compute.match_substring_regex(texts, r"^\s*0\d+\s*$"), True).as_py()
    return None if row < 0 else int(row)


def has_leading_zeros(texts: Any) -> bool:
    """Return whether a text is digits that begin with a zero."""
    return first_leading_zero(texts) is not None


def has_hexadecimals(texts: Any) -> bool:
    """Return whether a text is a hexadecimal number such as 0x1F, which Arrow reads as 31."""
    compute = pyarrow(_PURPOSE, "compute")
    return bool(compute.any(compute.match_substring_regex(texts, r"^\s*[+-]?0[xX]")).as_py())


def code_length(texts: Any) -> int:
    """Return the length of texts that are all digits of one length of at least 3; otherwise 0."""
    compute = pyarrow(_PURPOSE, "compute")
    lengths = compute.min_max(compute.utf8_length(texts)).as_py()
    if (lengths["min"] or 0) < 3 or lengths["min"] != lengths["max"]:
        return 0
    digits = compute.all(compute.utf8_is_digit(texts)).as_py()
    return int(lengths["min"]) if digits else 0


def mean_words(texts: Any) -> float:
    """Return the mean number of words of texts; numbers are none."""
    counts = [len(_WORD.findall(text)) for text in texts.to_pylist()]
    return sum(counts) / max(1, len(counts))


def number_formats_of(text: str, decimal: str = ".") -> list[str]:
    """Return the formats of NUMBER_FORMATS, with the mark of a text, in which it is a number.

    Those with the decimal mark come first: 1.200 has thousands where it is a comma.
    """
    formats = sorted(NUMBER_FORMATS, key=lambda form: (form[1:] or ".") != decimal)
    found = mark_of(text)
    return [form + found for form in formats if re.match(_number_pattern(form + found), text)]


def mark_of(text: str) -> str:
    """Return the last of MARKS in a number, or at the end of a format; "" without one."""
    return next((mark for mark in reversed(text) if mark in MARKS), "")


def date_formats_of(text: str) -> list[str]:
    """Return the formats of DATE_FORMATS in which a text may be a date."""
    return [form for form in DATE_FORMATS if re.match(_date_pattern(form), text)]


def text_numbers(texts: Any, format: str) -> tuple[Array, Array]:
    """Return the numbers of trimmed texts, and which of the texts are numbers in this format."""
    pa, compute = pyarrow(_PURPOSE), pyarrow(_PURPOSE, "compute")
    valid = _mask(compute.match_substring_regex(texts, _number_pattern(format)))
    plain = compute.if_else(pa.array(valid), texts, pa.scalar(None, texts.type))
    separators, mark = format.rstrip(MARKS), mark_of(format)
    if mark:
        plain = compute.replace_substring_regex(
            plain, f"[{_spaces(' ')}]*{re.escape(mark)}[{_spaces(' ')}]*", ""
        )
    if separators:
        plain = compute.replace_substring_regex(plain, f"[{_spaces(separators[0])}]", "")
        plain = compute.replace_substring(plain, separators[1], ".")
    return floats(plain, np.dtype(np.float64)), valid


def text_dates(texts: Any, format: str) -> tuple[Array, Array]:
    """Return seconds since 1970 of trimmed texts, and which of the texts are such dates."""
    compute = pyarrow(_PURPOSE, "compute")
    found = compute.extract_regex(texts, _date_pattern(format))
    valid = _mask(found.is_valid())
    names = [field.name for field in found.type]
    parts = dict(zip(names, found.flatten(), strict=True))

    def number(name: str, default: str = "0") -> Array:
        if name not in parts:
            return np.full(len(texts), float(default))
        part = compute.fill_null(parts[name], default)
        part = compute.if_else(compute.equal(part, ""), default, part)
        return floats(part, np.dtype(np.float64))

    year, month, day = number("Y", "1970"), number("m", "1"), number("d", "1")
    if "y" in parts:
        year = number("y") + np.where(number("y") < 69, 2000, 1900)  # as POSIX has it
    if "b" in parts:
        words = [(word or "")[:3].lower() for word in parts["b"].to_pylist()]
        month = np.array([_MONTHS.index(w) + 1 if w in _MONTHS else 0 for w in words], dtype=float)
    valid &= (month >= 1) & (month <= 12) & (day >= 1)
    months = ((year - 1970) * 12 + month - 1).astype(np.int64).astype("datetime64[M]")
    days = months.astype("datetime64[D]") + (day - 1).astype(np.int64)
    valid &= days.astype("datetime64[M]") == months  # no 31 June
    hour, minute, second = number("H"), number("M"), number("S")
    valid &= (hour < 24) & (minute < 60) & (second < 61)  # a leap second is the next one
    if "p" in parts:
        half = np.array([(word or "")[:1].lower() for word in parts["p"].to_pylist()])
        valid &= (half == "") | ((hour >= 1) & (hour <= 12))
        hour = np.where(half == "", hour, hour % 12 + 12 * (half == "p"))
    seconds = days.astype(np.int64) * _DAY + hour * 3600 + minute * 60 + second
    if "z" in parts:
        seconds -= np.array([_offset(zone or "") for zone in parts["z"].to_pylist()])
    return np.where(valid, seconds, np.nan), valid


def validate_date_format(format: str) -> None:
    """Raise a ValueError for a format with fields that are not read."""
    fields = re.findall(r"%.", format)
    if format == SECONDS:
        return
    if not fields or set(fields) - set(_FIELDS) or len(set(fields)) < len(fields):
        raise ValueError(
            f"The date format {format!r} must have some of {', '.join(_FIELDS)}, each at most "
            "once, such as '%d.%m.%Y %H:%M'."
        )


@cache
def _number_pattern(format: str) -> str:
    if not format:
        return r"^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$|^[+-]?(?i:inf|infinity)$"
    separators, unit = format.rstrip(MARKS), re.escape(mark_of(format))
    number = r"(?:\d+\.?\d*|\.\d+)"
    if separators:
        gap, mark = f"[{_spaces(separators[0])}]", re.escape(separators[1])
        number = rf"(?:\d+|[1-9]\d{{0,2}}(?:{gap}\d{{3}})+)(?:{mark}\d+)?"
    number += r"(?:[eE][+-]?\d+)?"
    if not unit:
        return f"^[+-]?{number}$"
    spaces = f"[{_spaces(' ')}]*"
    before = f"[+-]?{unit}{spaces}{number}|{unit}{spaces}[+-]?{number}"
    return f"^(?:{before}|[+-]?{number}{spaces}{unit})$"


def _spaces(separator: str) -> str:
    # beside a space: the no-break and the narrow no-break space; two kinds of apostrophes
    return {" ": " \u00a0\u202f", "'": "'\u2019"}.get(separator, re.escape(separator))


@cache
def _date_pattern(format: str) -> str:
    parts = re.split(r"(%.)", format)
    text = "".join(_FIELDS[part] if part in _FIELDS else re.escape(part) for part in parts)
    return f"^{text}{'' if '%H' in parts else _TIME}$"


def _offset(zone: str) -> float:
    if zone in ("", "Z", "UTC"):
        return 0.0
    seconds = int(zone[1:3]) * 3600 + int(zone[-2:]) * 60
    return float(-seconds if zone[0] == "-" else seconds)


def _text_booleans(texts: Any) -> tuple[Array, Array]:
    compute = pyarrow(_PURPOSE, "compute")
    lower = compute.utf8_lower(texts)
    true, false = (_mask(_is_word(lower, [*words])) for words in (_TRUE, _FALSE))
    return np.where(true, 1.0, 0.0), true | false


def _by_distinct_text(values: Any, convert: Callable[[Any], tuple[Array, Array]]) -> Array:
    """Convert each distinct text; raise InvalidCell for the first one that is not of its kind."""
    compute = pyarrow(_PURPOSE, "compute")
    distinct, codes = _encode(values)
    texts = compute.utf8_trim_whitespace(_as_text(distinct))
    missing = _mask(_is_word(texts, [*MISSING, None]))
    result, valid = convert(texts)
    result = np.where(missing, np.nan, result)
    _require(_take((valid | missing).astype(float), codes) != 0, values)
    return _take(result, codes)


def _is_word(texts: Any, words: list[str | None]) -> Any:
    """Return whether each text, without outer whitespace, is one of the words."""
    pa, compute = pyarrow(_PURPOSE), pyarrow(_PURPOSE, "compute")
    return compute.is_in(compute.utf8_trim_whitespace(texts), value_set=pa.array(words, texts.type))


def _require(valid: Array, values: Any) -> None:
    if not valid.all():
        row = int(np.argmin(valid))
        raise InvalidCell(row, values[row].as_py())


def _refuse_all(values: Any) -> None:
    """Raise InvalidCell for the first value, unless all are missing."""
    _require(~_mask(values.is_valid()), values)


def _encode(values: Any) -> tuple[Any, Array]:
    """Return the distinct values of an array, and the place of each among them; -1 for nulls."""
    pa, compute = pyarrow(_PURPOSE), pyarrow(_PURPOSE, "compute")
    if pa.types.is_dictionary(values.type) and len(values.dictionary) > 2 * len(values):
        values = values.dictionary_decode()  # a part of an array with many categories
    if not pa.types.is_dictionary(values.type):
        values = _plain(values).dictionary_encode()
    codes = compute.fill_null(values.indices.cast(pa.int64()), -1)
    return values.dictionary, np.asarray(codes.to_numpy(zero_copy_only=False))


def _take(cells: Array, codes: Array) -> Array:
    """Return the cell of each code; NaN for -1."""
    return np.append(cells, np.nan)[codes]


def _decode(values: Any) -> Any:
    dictionary = pyarrow(_PURPOSE).types.is_dictionary(values.type)
    return values.dictionary_decode() if dictionary else values


def _plain(values: Any) -> Any:
    """Return an array whose type has kernels: strings for string views, float32 for float16."""
    pa = pyarrow(_PURPOSE)
    if pa.types.is_string_view(values.type):
        return values.cast(pa.large_string())
    return values.cast(pa.float32()) if pa.types.is_float16(values.type) else values


def _as_text(values: Any) -> Any:
    pa = pyarrow(_PURPOSE)
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return values
    if pa.types.is_floating(values.type) or pa.types.is_decimal(values.type):
        return pa.array(category_texts(values), pa.string())
    return values.cast(pa.large_string())


def _number_text(value: float | Decimal) -> str:
    """Return the shortest text of a number: "1" for 1.0, "" for NaN."""
    if value != value:
        return ""
    if value == value // 1:
        return str(int(value))
    return repr(float(value))


def _seconds(values: Any) -> Array:
    """Return the seconds of timestamps (since 1970 in UTC), times of day and durations."""
    pa = pyarrow(_PURPOSE)
    if pa.types.is_date32(values.type):
        return floats(values.cast(pa.int32()), np.dtype(np.float64)) * _DAY
    unit = "ms" if pa.types.is_date64(values.type) else values.type.unit
    counts = values.cast(pa.int32() if pa.types.is_time32(values.type) else pa.int64())
    return floats(counts, np.dtype(np.float64)) / _UNITS[unit]


def _value_type(values: Any) -> Any:
    dictionary = pyarrow(_PURPOSE).types.is_dictionary(values.type)
    return values.type.value_type if dictionary else values.type


def _mask(values: Any) -> Array:
    """Return booleans; False for nulls."""
    compute = pyarrow(_PURPOSE, "compute")
    return np.array(compute.fill_null(values, False).to_numpy(zero_copy_only=False))
