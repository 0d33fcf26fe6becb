"""Errors that name what they are about by fields: a row, or parameters, so that no caller has to
read the text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Setting(NamedTuple):
    """A parameter as an error names it.

    Parameters
    ----------
    parameter : str
    value : str
        The value that it is to have, as Python writes it: Setting("loss", "'logistic'") is
        loss='logistic'.
    text : str
        What is written instead: "open_stream(source, columns=[...])".
    """

    parameter: str
    value: str = ""
    text: str = ""

    def __str__(self) -> str:
        return self.text or (f"{self.parameter}={self.value}" if self.value else self.parameter)


Part = str | Setting


class ParameterError(ValueError):
    """A ValueError about parameters: "who: n_jobs must be ...".

    Parameters
    ----------
    who : str
        The estimator or function whose parameter the sentence begins with; "" where there is none.
    *parts : str or Setting
        The sentence.
    """

    def __init__(self, who: str, *parts: Part) -> None:
        super().__init__(who, *parts)
        self.who, self.parts = who, parts

    def __str__(self) -> str:
        return f"{self.who}: {join_parts(self.parts)}" if self.who else join_parts(self.parts)

    @property
    def parameter(self) -> str | None:
        """The first parameter that the sentence names."""
        return next((part.parameter for part in self.parts if isinstance(part, Setting)), None)

    def extended(self, *parts: Part) -> ParameterError:
        """The same error with more parts at its end."""
        return ParameterError(self.who, *self.parts, *parts)


def join_parts(parts: tuple[Part, ...], spell: Callable[[Setting], str] = str) -> str:
    """The parts of a sentence as text; spell gives the names of parameters."""
    return "".join(part if isinstance(part, str) else spell(part) for part in parts)


class RowError(ValueError):
    """A ValueError about one row: "<before> row 7<after>". A tile counts its own rows; at() counts
    from the start of the whole data.

    advice is the end of the sentence where it names parameters.
    """

    def __init__(
        self, row: int, before: str, after: str, place: str = "", advice: tuple[Part, ...] = ()
    ) -> None:
        super().__init__(row, before, after, place, advice)
        self.row, self.before, self.after, self.place, self.advice = (
            row,
            before,
            after,
            place,
            advice,
        )

    def __str__(self) -> str:
        return join_parts(self.parts)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The sentence, whose parameters are fields."""
        return (f"{self.before} {self.place or f'row {self.row}'}{self.after}", *self.advice)

    def at(self, start: int, who: str = "") -> RowError:
        """The same, for a tile whose first row is row `start` of the data; who is named where the
        sentence does not do so.
        """
        before = self.before if who in self.before else f"{who}: {self.before}"
        return RowError(self.row + start, before, self.after, advice=self.advice)

    def named(self, place: str) -> RowError:
        """The same, with the row's place in words instead of its number: "part-3.parquet, row 7 of
        the file".
        """
        return RowError(self.row, self.before, self.after, place, self.advice)
