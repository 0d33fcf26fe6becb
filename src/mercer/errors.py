"""Errors with fields: the row or the parameters they are about, so that no caller parses text."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Setting(NamedTuple):
    """A parameter, or a parameter with a value, in the text of an error.

    Parameters
    ----------
    parameter : str
    value : str
        The value to set, as Python writes it: Setting("loss", "'logistic'") is loss='logistic'.
    text : str
        Text that replaces both: "open_stream(source, columns=[...])".
    """

    parameter: str
    value: str = ""
    text: str = ""

    def __str__(self) -> str:
        return self.text or (f"{self.parameter}={self.value}" if self.value else self.parameter)


Part = str | Setting


class ParameterError(ValueError):
    """A ValueError about parameters: "<estimator_name>: n_jobs must be ...".

    Parameters
    ----------
    estimator_name : str
        The estimator or function whose parameter it is; "" where there is none.
    *parts : str or Setting
        The parts of the message.
    """

    def __init__(self, estimator_name: str, *parts: Part) -> None:
        super().__init__(estimator_name, *parts)
        self.estimator_name, self.parts = estimator_name, parts

    def __str__(self) -> str:
        prefix = f"{self.estimator_name}: " if self.estimator_name else ""
        return prefix + join_parts(self.parts)

    @property
    def parameter(self) -> str | None:
        """The first parameter in the message."""
        return next((part.parameter for part in self.parts if isinstance(part, Setting)), None)

    def with_parts(self, *parts: Part) -> ParameterError:
        """Return this error with parts appended to its message."""
        return ParameterError(self.estimator_name, *self.parts, *parts)


def join_parts(parts: tuple[Part, ...], format_setting: Callable[[Setting], str] = str) -> str:
    """Join the parts of a message; ``format_setting`` writes its parameters."""
    return "".join(part if isinstance(part, str) else format_setting(part) for part in parts)


class RowError(ValueError):
    """A ValueError about one row: "<before> row 7<after>".

    Parameters
    ----------
    row : int
        Index of the row, in a tile or in the whole data (see ``with_offset``).
    before, after : str
        The message before and after the row.
    location : str, optional
        Text that replaces the row number: "part-3.parquet, row 7 of the file".
    advice : tuple of str or Setting, optional
        The end of the message, where it names parameters.
    """

    def __init__(
        self, row: int, before: str, after: str, location: str = "", advice: tuple[Part, ...] = ()
    ) -> None:
        super().__init__(row, before, after, location, advice)
        self.row, self.before, self.after = row, before, after
        self.location, self.advice = location, advice

    def __str__(self) -> str:
        return join_parts(self.parts)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts of the message, parameters as ``Setting``."""
        row = self.location or f"row {self.row}"
        return (f"{self.before} {row}{self.after}", *self.advice)

    def with_offset(self, start: int, estimator_name: str = "") -> RowError:
        """Return this error of a tile whose first row is row ``start`` of the data.

        The message is prefixed with the estimator's name where it does not contain it.
        """
        before = self.before
        if estimator_name not in before:
            before = f"{estimator_name}: {before}"
        return type(self)(self.row + start, before, self.after, advice=self.advice)

    def with_location(self, location: str) -> RowError:
        """Return this error with a text in place of the row number."""
        return type(self)(self.row, self.before, self.after, location, self.advice)


class MissingValueError(RowError):
    """A RowError about a missing cell: NaN or null where a number is needed."""


class ColumnTypeError(RowError):
    """A RowError about a cell that is not of the type that its column has in the first rows.

    Parameters
    ----------
    row, before, after, location, advice
        As of ``RowError``.
    column : str
        The column; ``stream.retyped(column)`` reads it as text.
    """

    def __init__(
        self,
        row: int,
        before: str,
        after: str,
        location: str = "",
        advice: tuple[Part, ...] = (),
        column: str = "",
    ) -> None:
        super().__init__(row, before, after, location, advice)
        self.args = (row, before, after, location, advice, column)
        self.column = column

    def with_offset(self, start: int, estimator_name: str = "") -> ColumnTypeError:
        return self._of(super().with_offset(start, estimator_name))

    def with_location(self, location: str) -> ColumnTypeError:
        return self._of(super().with_location(location))

    def _of(self, error: RowError) -> ColumnTypeError:
        after, location, advice = error.after, error.location, error.advice
        return ColumnTypeError(error.row, error.before, after, location, advice, self.column)
