"""TableSchema: the kinds of the columns of a table, and the matrix of numbers that they become.

A matrix has NaN for missing cells; for a category the hash of its text, which needs no dictionary,
so that chunks, workers and files of one table agree. `mercer.maps.Tabular` encodes such a matrix.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer._typing import Array
from mercer.data import cells
from mercer.data._pyarrow import pyarrow
from mercer.data.column_roles import COLUMNS, KINDS_SETTING, describe_missing
from mercer.errors import ColumnTypeError, ParameterError, Setting

DAY_FIRST, MONTH_FIRST = "%d/%m/%Y", "%m/%d/%Y"
TYPED = "typed"  # format of categories whose cells are numbers, dates or booleans
NUMBER, BOOLEAN, CATEGORY, DATE, TEXT = KINDS = ("number", "boolean", "category", "date", "text")
TEXT_SIZE = 256  # hash values of the words of a text
_WORDS = 4  # words of a text on average, from which it is text and no category
_SHOWN = 60  # characters of a value in an error
_PLURALS = {NUMBER: "numbers", BOOLEAN: "true or false", CATEGORY: "categories", DATE: "dates"}


@dataclass(frozen=True)
class TableColumn:
    """An input column of a table and how its cells become numbers.

    Attributes
    ----------
    name : str
    kind : {"number", "boolean", "category", "date", "text"}
        A number or a boolean is itself (0 and 1); a category is the 52-bit hash of its text; a date
        is seconds since 1970 (UTC); a text is the counts of its words by `size` hash values. A
        missing cell is NaN; a missing text has no words.
    size : int
        Columns of the matrix: 1, or the number of hash values of a text, or the length of
        fixed-size lists of numbers.
    format : str
        Of cells that are text: the strptime format of a date, which a time may follow, or the
        separators of a number and its mark (",." for 1,234.5, ",.$" for $1,234.5); "" where cells
        are of the kind itself. "%s" are seconds since 1970; "typed" are categories whose cells are
        numbers, dates or booleans, and "+-" those among which "-" is not a missing cell.
    """

    name: str
    kind: str
    size: int = 1
    format: str = ""

    def convert(self, values: Any) -> Array:
        """Return the cells of an Arrow array as (rows,) or (rows, size) numbers.

        Raises a ColumnTypeError for the first cell that is not of this kind.
        """
        try:
            if pyarrow("Reading a table").types.is_fixed_size_list(values.type):
                return cells.lists(values, self.size, np.dtype(np.float64))
            if self.kind == NUMBER:
                return cells.numbers(values, self.format)
            if self.kind == BOOLEAN:
                return cells.booleans(values)
            if self.kind == DATE:
                return cells.dates(values, self.format)
            if self.kind == TEXT:
                return cells.word_counts(values, self.size)
            return cells.categories(values, self.format)
        except cells.InvalidCell as error:
            raise self._type_error(error) from None

    def _type_error(self, error: cells.InvalidCell) -> ColumnTypeError:
        value = repr(error.value)
        if len(value) > _SHOWN:
            value = f"{value[:_SHOWN]}..."
        form = f" ({self.format})" if self.kind == DATE and self.format else ""
        plain = self.kind == NUMBER and not self.format
        otherwise = plain and cells.number_formats_of(str(error.value).strip())
        correct = "Write it as 1234.5" if otherwise else "Correct it, leave it empty"
        kinds = f"kinds={{{self.name!r}: 'category'}}"
        return ColumnTypeError(
            error.row,
            f"Column {self.name!r} has {_PLURALS[self.kind]}{form}, got {value} at",
            "",
            advice=(
                f". {correct}, or declare the column's kind when fitting: ",
                Setting("categorical", repr(self.name), text=kinds),
                ".",
            ),
            column=self.name,
        )

    def retyped(self) -> TableColumn:
        """Return the column for cells that are not of this kind: month first, or categories."""
        if self.kind == DATE and self.format == DAY_FIRST:
            return replace(self, format=MONTH_FIRST)
        return TableColumn(self.name, CATEGORY)

    @property
    def names(self) -> list[str]:
        """Names of its columns in the matrix: "x", or "x[0]", "x[1]", ..."""
        if self.size == 1:
            return [self.name]
        return [f"{self.name}[{place}]" for place in range(self.size)]


@dataclass(frozen=True)
class TableSchema:
    """Kinds of the input columns of a table, in the order of the matrix."""

    columns: tuple[TableColumn, ...]

    @property
    def width(self) -> int:
        """Number of columns of the matrix."""
        return sum(column.size for column in self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of the matrix."""
        return tuple(name for column in self.columns for name in column.names)

    @property
    def plain(self) -> bool:
        """Whether all columns are numbers or booleans: rows of an array have this schema."""
        return all(
            column.kind in (NUMBER, BOOLEAN) and not column.format for column in self.columns
        )

    def spans(self) -> Iterator[tuple[TableColumn, slice]]:
        """Yield each column with its place in the matrix."""
        start = 0
        for column in self.columns:
            yield column, slice(start, start + column.size)
            start += column.size

    def matrix(self, batch: Any) -> Array:
        """Return the rows of a record batch or an Arrow table as float64.

        Columns are found by name; others are left alone. Raises a ColumnTypeError that names row,
        column and value for the first cell that is not of its column's kind.
        """
        X = np.empty((batch.num_rows, self.width))
        for column, span in self.spans():
            values = batch.column(column.name)
            if hasattr(values, "combine_chunks"):
                values = values.combine_chunks()
            X[:, span] = column.convert(values).reshape(batch.num_rows, column.size)
        return X

    def refuse_codes(self, batch: Any, declared: Collection[str]) -> None:
        """Raise a ColumnTypeError for the first leading zero in a text of numbers, as in 00123.

        Columns of declared kinds are left alone.
        """
        for column in self.columns:
            if column.kind != NUMBER or column.name in declared:
                continue
            values = batch.column(column.name)
            if cells.is_text(values.type):
                row = cells.first_leading_zero(values)
                if row is not None:
                    raise column._type_error(cells.InvalidCell(row, values[row].as_py()))

    def describe(self) -> str:
        """Return the number of columns of each kind: "5 numbers, 3 categories, 1 date"."""
        counts = {kind: sum(c.kind == kind for c in self.columns) for kind in KINDS}
        plural = {CATEGORY: "categories"}
        return ", ".join(
            f"{count} {kind if count == 1 else plural.get(kind, f'{kind}s')}"
            for kind, count in counts.items()
            if count
        )


def infer_schema(
    source: str,
    names: Sequence[str],
    head: Any,
    kinds: Mapping[str, str] | None = None,
    *,
    decimal: str = ".",
) -> TableSchema:
    """Return the kinds of columns by their Arrow types and first rows.

    Parameters
    ----------
    source : str
        Name of the table in errors.
    names : sequence of str
        The input columns.
    head : pyarrow.Table
        First rows, with at least these columns.
    kinds : dict of str to str, optional
        Kinds by name, which override inference; a text with "%" is the format of a date.
    decimal : str
        The decimal mark of the table, where 1.200 or 1,200 may be either.
    """
    kinds = dict(kinds or {})
    unknown = [name for name in kinds if name not in head.column_names]
    if unknown:
        raise ParameterError(
            "",
            f"{source}: ",
            KINDS_SETTING,
            f" names {describe_missing(unknown, head.column_names)}",
        )
    for name, kind in kinds.items():
        if kind not in KINDS and "%" not in str(kind):
            raise ParameterError(
                "",
                f"{source}: the kind of {name!r} must be one of {', '.join(KINDS)}, or the format "
                f"of a date such as '%d.%m.%Y', got {kind!r}.",
            )
    unusable = {
        name: str(head.schema.field(name).type)
        for name in names
        if not _is_usable(head.schema.field(name).type)
    }
    if unusable:
        listed = ", ".join(f"{name!r} ({kind})" for name, kind in unusable.items())
        raise ParameterError(
            "",
            f"{source}: inputs must be numbers, text, dates, booleans or lists of numbers of one "
            f"length, got {listed}. Leave {'them' if len(unusable) > 1 else 'it'} out with ",
            COLUMNS,
            ".",
        )
    return TableSchema(
        tuple(
            _infer_column(source, name, head.column(name), kinds.get(name), decimal)
            for name in names
        )
    )


def number_schema(names: Iterable[object]) -> TableSchema:
    """Return the schema of columns that are all numbers."""
    return TableSchema(tuple(TableColumn(str(name), NUMBER) for name in names))


def category_names(
    stream: Any, wanted: Mapping[str, Iterable[float]]
) -> dict[str, dict[float, str]]:
    """Return the texts of hashes, by column: {"city": {1234.0: "Oslo"}}.

    The columns are read until all hashes have been found. A hash that no cell has is left out.

    Parameters
    ----------
    stream : Stream
        Rows of a table, with a schema; of an array no hash is found.
    wanted : dict of str to hashes
        Hashes by the name of the column.
    """
    missing = {name: set(map(float, hashes)) for name, hashes in wanted.items()}
    missing = {name: hashes for name, hashes in missing.items() if hashes}
    texts: dict[str, dict[float, str]] = {name: {} for name in wanted}
    if not missing or not hasattr(stream, "record_batches"):
        return texts
    for batch in stream.record_batches(list(missing)):
        for name, hashes in list(missing.items()):
            for text in cells.distinct_categories(batch.column(name)):
                code = cells.hash_text(text)
                if code in hashes:
                    texts[name][code] = text
                    hashes.remove(code)
            if not hashes:
                del missing[name]
        if not missing:
            break
    return texts


def describe_ambiguous_dates(schema: TableSchema, head: Any) -> list[str]:
    """Return sentences about dates whose first rows do not tell the day from the month."""
    sentences = []
    for column in schema.columns:
        if column.kind == DATE and column.format == DAY_FIRST:
            texts = cells.drop_missing(
                cells.distinct_texts(head.column(column.name).combine_chunks())
            )
            if cells.text_dates(texts, MONTH_FIRST)[1].all():
                sentences.append(f"Dates of {column.name!r} are read as day/month/year.")
    return sentences


def _is_usable(kind: Any) -> bool:
    types = pyarrow("Reading a table").types
    if types.is_fixed_size_list(kind):
        return _is_number(kind.value_type)
    if types.is_dictionary(kind):
        kind = kind.value_type
    # intervals of months are no number of seconds
    return cells.is_text(kind) or _is_number(kind) or types.is_temporal(kind)


def _is_number(kind: Any) -> bool:
    types = pyarrow("Reading a table").types
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_decimal(kind)
        or types.is_boolean(kind)
        or types.is_null(kind)
    )


def _infer_column(
    source: str, name: str, values: Any, declared: str | None, decimal: str
) -> TableColumn:
    types = pyarrow("Reading a table").types
    values = values.combine_chunks()
    kind, dictionary = values.type, types.is_dictionary(values.type)
    if types.is_fixed_size_list(kind):
        if declared not in (None, NUMBER):
            raise ParameterError("", f"{source}: column {name!r} has lists, which are numbers.")
        return TableColumn(name, NUMBER, kind.list_size)
    if dictionary:
        kind = kind.value_type
    if declared == TEXT:
        return TableColumn(name, TEXT, TEXT_SIZE)
    if declared == BOOLEAN:
        return TableColumn(name, BOOLEAN)
    if declared == CATEGORY:
        return (
            _category(name, values)
            if cells.is_text(kind)
            else TableColumn(name, CATEGORY, format=TYPED)
        )
    if declared and "%" in declared:
        cells.validate_date_format(declared)
        return TableColumn(name, DATE, format=declared)
    if cells.is_text(kind):
        return _infer_text(source, name, values, dictionary, declared, decimal)
    if declared == NUMBER:
        return TableColumn(name, NUMBER, format=cells.SECONDS if cells.is_date(kind) else "")
    if declared == DATE:
        return TableColumn(name, DATE, format="" if cells.is_date(kind) else cells.SECONDS)
    if dictionary:
        return TableColumn(name, CATEGORY)
    if types.is_boolean(kind):
        return TableColumn(name, BOOLEAN)
    return TableColumn(name, DATE if cells.is_date(kind) else NUMBER)


def _infer_text(
    source: str, name: str, values: Any, dictionary: bool, declared: str | None, decimal: str
) -> TableColumn:
    """Return the column of text cells: numbers or dates where all cells of the head are."""
    texts = cells.drop_missing(cells.distinct_texts(values), cells.NULLS)
    present = cells.drop_missing(texts)
    if declared is None and (dictionary or not len(present)):
        return _category(name, values)
    if declared is None and cells.are_truth_values(present):
        return TableColumn(name, BOOLEAN)
    first = present[0].as_py() if len(present) else ""
    if declared in (None, NUMBER):
        # leading zeros are those of codes: 00123
        if declared or not cells.has_leading_zeros(present):
            for form in cells.number_formats_of(first, decimal):
                if cells.text_numbers(present, form)[1].all():
                    return TableColumn(name, NUMBER, format=form)
        if declared:
            return TableColumn(name, NUMBER)  # the first cell that is none is refused by its row
    if declared in (None, DATE):
        for form in cells.date_formats_of(first):
            if cells.text_dates(present, form)[1].all():
                return TableColumn(name, DATE, format=form)
        if declared:
            raise ParameterError(
                "",
                f"{source}: column {name!r} has no dates in a known format, such as "
                f"{first!r}. Give the format as its kind: ",
                Setting("kinds", text=f"kinds={{{name!r}: '%d.%m.%Y'}}"),
                ".",
            )
    distinct = 2 * len(texts) > len(values) - cells.count_missing(values)
    if distinct and cells.mean_words(present) >= _WORDS:
        return TableColumn(name, TEXT, TEXT_SIZE)
    return _category(name, values)


def _category(name: str, texts: Any) -> TableColumn:
    signs = cells.have_signs(cells.distinct_texts(texts))
    return TableColumn(name, CATEGORY, format=cells.SIGNS if signs else "")
