"""Errors that name the row they are about."""

from __future__ import annotations


class RowError(ValueError):
    """A ValueError about one row: "<before> row 7<after>". A tile counts its own rows; at() counts from the start of the whole data."""

    def __init__(self, row: int, before: str, after: str, place: str = "") -> None:
        super().__init__(row, before, after, place)
        self.row, self.before, self.after, self.place = row, before, after, place

    def __str__(self) -> str:
        return f"{self.before} {self.place or f'row {self.row}'}{self.after}"

    def at(self, start: int, who: str = "") -> RowError:
        """The same, for a tile whose first row is row `start` of the data; who is named where the sentence does not do so."""
        before = self.before if who in self.before else f"{who}: {self.before}"
        return RowError(self.row + start, before, self.after)

    def named(self, place: str) -> RowError:
        """The same, with the row's place in words instead of its number: "part-3.parquet, row 7 of the file"."""
        return RowError(self.row, self.before, self.after, place)
