"""Streams of CSV files, through pyarrow: types are found in the first block, inputs are read as
float64.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from mercer.data.arrow import Column, TableStream, describe, pyarrow, skip
from mercer.data.column_roles import COLUMNS
from mercer.data.files import OneFile, one_file
from mercer.errors import RowError
from mercer.validation.rows import reads_as_number

_BLOCK = 2**20  # bytes parsed at a time
_LONGEST = 2**28  # of a line
_SCALE = (
    8  # numbers that rise or fall all along are names from so many on: by chance, once in 20,000
)
DELIMITERS = {".csv": ",", ".tsv": "\t"}


class CsvStream(OneFile, TableStream):
    """Rows of a CSV file (or .tsv, with tabs) whose first line has the names of the columns."""

    kind = "csv"
    seeks = False

    def __init__(self, path: Path, *, columns: Any, target: Any, weight: Any) -> None:
        pa = pyarrow("Reading CSV")
        super().__init__(path.name)
        self._files, self.rows = one_file(path), None
        self._block = block_bytes(path)
        try:
            reader = self._reader(types=None, only=None)
            table = describe(reader.schema)
            first = next((batch for batch in reader if batch.num_rows), None)
        except pa.ArrowInvalid as error:
            raise ValueError(f"{path.name} cannot be read as CSV: {error}") from None
        require_header(path.name, [column.name for column in table])
        if first is None:
            raise ValueError(f"{path.name} has no rows after its first line.")
        self._assign(path.name, table, columns, target, weight)

    def _batches(self, start: int, rows: int) -> Iterator[Any]:
        pa = pyarrow("Reading CSV")
        try:
            yield from skip(
                self._reader(self._types(), [column.name for column in self._used]),
                start,
                self.name,
            )
        except pa.ArrowInvalid as error:
            raise self._explained(error) from None

    def _types(self) -> dict[str, Any]:
        pa = pyarrow("Reading CSV")
        inputs = self._inputs + ([self._weights] if self._weights else [])
        types = {
            column.name: pa.bool_() if column.type == "bool" else pa.float64() for column in inputs
        }
        words = {"text": pa.string(), "bool": pa.bool_(), "int64": pa.int64()}
        return {
            **types,
            **{column.name: words.get(column.type, pa.float64()) for column in self._targets},
        }

    def _reader(self, types: dict[str, Any] | None, only: list[str] | None) -> Any:
        return open_csv(
            self.path,
            self._block,
            column_types=types,
            include_columns=only,
            strings_can_be_null=True,
        )

    def _explained(self, error: Exception) -> ValueError:
        """The first value that is not what its column is, with its place; pyarrow's words where
        lines do not parse at all.
        """
        pa = pyarrow("Reading CSV")
        words, types, read = {column.name: pa.string() for column in self._used}, self._types(), 0
        try:
            for batch in self._reader(words, list(words)):
                for column in self._used:
                    row = _first_misfit(batch.column(column.name), types[column.name])
                    if row is not None:
                        return self.located(
                            _misfit(column, row, batch.column(column.name)[row].as_py()), read
                        )
                read += batch.num_rows
        except pa.ArrowInvalid:
            pass
        return ValueError(f"{self.name} cannot be read as CSV: {error}")


def block_bytes(path: Path) -> int:
    """Bytes that are parsed at a time: several lines."""
    with path.open("rb") as file:
        lines = [file.readline(_LONGEST) for _ in range(2)]
    if not lines[0].strip():
        raise ValueError(
            f"{path.name} is empty: its first line must have the names of the columns."
        )
    return max(_BLOCK, 8 * max(map(len, lines)))


def open_csv(path: Path, block: int, **convert: Any) -> Any:
    """pyarrow's reader of a file whose suffix says what separates its columns."""
    csv = pyarrow("Reading CSV", "csv")
    return csv.open_csv(
        path,
        read_options=csv.ReadOptions(block_size=block, use_threads=False),
        parse_options=csv.ParseOptions(delimiter=DELIMITERS[path.suffix.lower()]),
        convert_options=csv.ConvertOptions(**convert),
    )


def _first_misfit(values: Any, kind: Any) -> int | None:
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


def _misfit(column: Column, row: int, value: str) -> RowError:
    kind = {"int64": "whole numbers", "bool": "true and false"}.get(column.type, "numbers")
    return RowError(
        row,
        f"Column {column.name!r} has {kind} in the first rows, and then {value!r} at",
        "",
        advice=(". Correct it, or leave the column out with ", COLUMNS, "."),
    )


def require_header(name: str, names: list[str]) -> None:
    """Refuse a first line that has no names, or separates them in another way; warn of one that may
    be a row.

    Numbers are names where they count columns (0, 1, 2) or rise or fall all along, as wavelengths
    do.
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
        f"{name}: the first line has the names of the columns, and "
        f"{', '.join(map(repr, numbers[:3]))} among them look like "
        "values. If it is a row, put a line with names before it: it is not read as one.",
        stacklevel=2,
    )
