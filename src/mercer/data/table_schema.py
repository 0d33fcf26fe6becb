"""TableSchema: the kinds of the columns of a table, and the matrix of numbers that they become.

A matrix has NaN for missing cells; for a category the hash of its text, which needs no dictionary,
so that chunks, workers and files of one table agree. `mercer.maps.Tabular` encodes such a matrix.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

NUMBER, BOOLEAN, CATEGORY, DATE, TEXT = KINDS = ("number", "boolean", "category", "date", "text")


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
        Of cells that are text: the strptime format of a date, the separators of a number (",."
        for 1,234.5); "" where cells are of the kind itself.
    """

    name: str
    kind: str
    size: int = 1
    format: str = ""

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

    def spans(self) -> Iterator[tuple[TableColumn, slice]]:
        """Yield each column with its place in the matrix."""
        start = 0
        for column in self.columns:
            yield column, slice(start, start + column.size)
            start += column.size
