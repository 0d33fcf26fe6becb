"""CSV files, read by pyarrow: types are inferred from the first block, inputs are float64."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from mercer.data.arrow import Column, Table, TableStream, describe_columns, pyarrow
from mercer.data.column_roles import COLUMNS
from mercer.data.files import OneFile, one_file
from mercer.data.stream import CHUNK_BYTES, Parts, Stream
from mercer.errors import RowError
from mercer.validation.rows import reads_as_number

_LONGEST_LINE = 2**28
_SCALE = 8  # sorted numbers are taken for names from this count on: random ones are once in 20,000
DELIMITERS = {".csv": ",", ".tsv": "\t"}


class CsvTable(Table):
    """A CSV file (or .tsv, with tabs) whose first line has the names of the columns."""

    def __init__(self, path: Path) -> None:
        pa = pyarrow("Reading CSV")
        self.name, self.path, self.file = path.name, path, one_file(path)
        self.block_bytes = _block_bytes(path)
        try:
            reader = self.open()
            self.columns = describe_columns(reader.schema)
            empty = not any(batch.num_rows for batch in reader)
        except pa.ArrowInvalid as error:
            raise ValueError(f"{path.name} cannot be read as CSV: {error}") from None
        _validate_header(path.name, [column.name for column in self.columns])
        if empty:
            raise ValueError(f"{path.name} has no rows after its first line.")

    def stream(self, *, columns: Any, target: Any, weight: Any) -> Stream:
        return CsvStream(self, columns=columns, target=target, weight=weight)

    def open(self, types: dict[str, Any] | None = None) -> Any:
        """Return a reader of record batches; of the columns of `types` with these types, if any."""
        csv = pyarrow("Reading CSV", "csv")
        convert = {} if types is None else {"column_types": types, "include_columns": list(types)}
        return csv.open_csv(
            self.path,
            read_options=csv.ReadOptions(block_size=self.block_bytes, use_threads=False),
            parse_options=csv.ParseOptions(delimiter=DELIMITERS[self.path.suffix.lower()]),
            convert_options=csv.ConvertOptions(strings_can_be_null=True, **convert),
        )


class CsvStream(OneFile, TableStream):
    """Rows of a CSV file."""

    kind = "csv"
    seeks = False

    def __init__(self, table: CsvTable, *, columns: Any, target: Any, weight: Any) -> None:
        super().__init__(table.name)
        self._table, self._files, self.rows = table, table.file, None
        self._assign(table.name, table.columns, columns, target, weight)

    def _read(self, start: int, rows: int) -> Iterator[Parts]:
        pa = pyarrow("Reading CSV")
        skip = start
        try:
            for batch in self._table.open(self._types()):
                if skip < batch.num_rows:
                    yield self._parts(batch.slice(skip) if skip else batch)
                skip = max(0, skip - batch.num_rows)
        except pa.ArrowInvalid as error:
            raise self._locate(error) from None
        if skip:
            raise ValueError(
                f"{self.name} has {start - skip} rows: there is no row {start} to start from."
            )

    def _types(self) -> dict[str, Any]:
        """Return the Arrow types that the columns in use are read with."""
        pa = pyarrow("Reading CSV")
        inputs = self._inputs + ([self._weights] if self._weights else [])
        numbers = {"bool": pa.bool_()}
        labels = {"text": pa.string(), "bool": pa.bool_(), "int64": pa.int64()}
        return {
            **{column.name: numbers.get(column.type, pa.float64()) for column in inputs},
            **{column.name: labels.get(column.type, pa.float64()) for column in self._targets},
        }

    def _locate(self, error: Exception) -> ValueError:
        """Return an error for the first value that is not of its column's type.

        pyarrow's message is used where lines cannot be parsed at all.
        """
        pa = pyarrow("Reading CSV")
        types, start = self._types(), 0
        try:
            for batch in self._table.open(dict.fromkeys(types, pa.string())):
                for column in self._used:
                    values = batch.column(column.name)
                    row = _first_mismatch(values, types[column.name])
                    if row is not None:
                        return self.locate(_mismatch(column, row, values[row].as_py()), start)
                start += batch.num_rows
        except pa.ArrowInvalid:
            pass
        return ValueError(f"{self.name} cannot be read as CSV: {error}")


def _block_bytes(path: Path) -> int:
    """Return the bytes that are parsed at a time: an eighth of a chunk, at least several lines."""
    with path.open("rb") as file:
        lines = [file.readline(_LONGEST_LINE) for _ in range(2)]
    if not lines[0].strip():
        raise ValueError(
            f"{path.name} is empty: its first line must have the names of the columns."
        )
    return max(CHUNK_BYTES.get() // 8, 8 * max(map(len, lines)))


def _first_mismatch(values: Any, kind: Any) -> int | None:
    """Return the first value that cannot be cast, by bisection; None if all can."""
    pa, compute = pyarrow("Reading CSV"), pyarrow("Reading CSV", "compute")
    values = compute.utf8_trim_whitespace(values)

    def fits(low: int, high: int) -> bool:
        try:
            values.slice(low, high - low).cast(kind)
        except pa.ArrowInvalid:
            return False
        return True

    low, high = 0, len(values)
    if fits(low, high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(low, middle) else (low, middle)
    return low


def _mismatch(column: Column, row: int, value: str) -> RowError:
    kind = {"int64": "whole numbers", "bool": "true and false"}.get(column.type, "numbers")
    return RowError(
        row,
        f"Column {column.name!r} has {kind} in the first rows, and then {value!r} at",
        "",
        advice=(". Correct it, or leave the column out with ", COLUMNS, "."),
    )


def _validate_header(name: str, names: list[str]) -> None:
    """Raise for a first line without names or with another delimiter; warn if it may be a row.

    Numbers are accepted as names if they count columns (0, 1, 2) or are sorted, as wavelengths
    are.
    """
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        raise ValueError(
            f"{name} has one column, {names[0]!r}: columns are separated by commas (.csv) or "
            "tabs (.tsv)."
        )
    numbers = [text for text in names if reads_as_number(text)]
    if not numbers or (
        all(text.isdigit() for text in numbers) and len(set(numbers)) == len(numbers)
    ):
        return
    steps = {
        float(after) > float(before)
        for before, after in pairwise(numbers)
        if float(after) != float(before)
    }
    if len(set(numbers)) == len(numbers) >= _SCALE and len(steps) == 1:
        return
    if len(numbers) == len(names):
        raise ValueError(
            f"{name}: the first line must have the names of the columns, got numbers "
            f"({', '.join(names[:3])})."
        )
    warnings.warn(
        f"{name}: the first line is read as the names of the columns, and "
        f"{', '.join(map(repr, numbers[:3]))} among them look like values. If it is a row, put a "
        "line with names before it.",
        stacklevel=2,
    )
