"""The door: what a user hands in is checked here, once, and refused in one sentence: what was seen, what was needed, what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

_ROWS = 4096  # rows looked at in one go, so that a check never makes a mask as large as the data


class RowError(ValueError):
    """A ValueError about one row: "<before> row 7<after>". A tile counts its own rows; at() counts from the start of the whole data."""

    def __init__(self, row: int, before: str, after: str) -> None:
        super().__init__(row, before, after)
        self.row, self.before, self.after = row, before, after

    def __str__(self) -> str:
        return f"{self.before} row {self.row}{self.after}"

    def at(self, start: int) -> RowError:
        """The same, for a tile whose first row is row `start` of the data."""
        return RowError(self.row + start, self.before, self.after)


def one_of(who: str, name: str, value: object, options: Iterable[str]) -> str:
    """value, if it is one of the options; otherwise a ValueError with the nearest name."""
    options = list(options)
    if isinstance(value, str) and value in options:
        return value
    near = difflib.get_close_matches(str(value), options, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"{who}: {name} must be one of {', '.join(map(repr, options))}, got {value!r}.{hint}")


def whole(who: str, name: str, value: object, *, least: int = 1) -> int:
    """value as an int of at least `least`; otherwise a ValueError."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= least:
        return int(value)
    raise ValueError(f"{who}: {name} must be a whole number of at least {least}, got {value!r}.")


def positive(who: str, name: str, value: object, *, words: Sequence[str] = ()) -> float:
    """value as a finite float above 0; otherwise a ValueError. words: strings that the caller takes as well, for the message."""
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool) and 0 < value < np.inf:
        return float(value)
    other = "".join(f", {word!r}" for word in words)
    raise ValueError(f"{who}: {name} must be a finite number above 0{other}, got {value!r}.")


def flag(who: str, name: str, value: object) -> bool:
    """value as a bool; otherwise a ValueError (0 and 1 are numbers, not flags)."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise ValueError(f"{who}: {name} must be True or False, got {value!r}.")


def require_finite(who: str, X: Any, columns: Sequence[object] | None = None) -> None:
    """Raise a ValueError that names the first NaN or infinity of an array or a CSR matrix."""
    stored = X.data if hasattr(X, "indptr") else X
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(
            np.sum(stored)
        ):  # one pass without a mask; a sum that overflows only costs the closer look below
            return
    found = _first(X, lambda values: ~np.isfinite(values))
    if found is not None:
        row, column, value = found
        kind = "NaN" if np.isnan(value) else "infinity (inf)"
        raise RowError(
            row,
            f"Input X contains {kind}: {who} needs finite numbers, got {value} at",
            f"{_column(column, columns)}. Drop or impute such values first (sklearn.impute).",
        )


def require_nonnegative(who: str, X: Any, columns: Sequence[object] | None = None, *, instead: str = "") -> None:
    """Raise a ValueError that names the first negative value of an array or a CSR matrix."""
    _require(who, X, columns, "X >= 0", "Negative values in data", lambda values: values < 0, instead)


def require_above(who: str, X: Any, bound: float) -> None:
    """Raise a ValueError that names the first value of an array that is not above the bound."""
    _require(who, X, None, f"X > {bound:g}", "Values below the domain", lambda values: ~(values > bound), "")


def describe_text(who: str, X: Any) -> str | None:
    """A sentence about the first entry of X that is no number, or None when all are numbers. Called when a conversion has failed."""
    try:
        values = np.asarray(X, dtype=object)
    except ValueError:  # ragged rows
        return None
    if values.ndim != 2:
        return None
    for (row, column), value in np.ndenumerate(values):
        if isinstance(value, str | bytes) and not _reads_as_number(value):
            names = list(X.columns) if hasattr(X, "columns") else None
            return (
                f"{who} needs numbers, could not convert string to float: {value!r} at row {row}{_column(column, names)}. "
                "Encode text first (sklearn.preprocessing.OneHotEncoder, sklearn.feature_extraction.text)."
            )
    return None


def _require(who: str, X: Any, columns: Any, needs: str, opening: str, bad: Any, instead: str) -> None:
    found = _first(X, bad)
    if found is not None:
        row, column, value = found
        way_out = f" {instead}" if instead else ""
        raise RowError(
            row, f"{opening}: {who} needs {needs}, got {value:g} at", f"{_column(column, columns)}.{way_out}"
        )


def _first(X: Any, bad: Any) -> tuple[int, int, float] | None:
    """(row, column, value) of the first entry for which bad holds, row by row; None when there is none."""
    for start, values in _pieces(X):
        places = np.argwhere(bad(values))
        if len(places):
            place = places[0]
            if not hasattr(X, "indptr"):
                return int(start + place[0]), int(place[1]), float(values[tuple(place)])
            entry = int(start + place[0])
            row = int(np.searchsorted(X.indptr, entry, side="right") - 1)
            return row, int(X.indices[entry]), float(values[place[0]])
    return None


def _pieces(X: Any) -> Iterator[tuple[int, Any]]:
    stored = X.data if hasattr(X, "indptr") else X
    step = _ROWS * (64 if hasattr(X, "indptr") else 1)
    for start in range(0, len(stored), step):
        yield start, stored[start : start + step]


def _column(column: int, columns: Sequence[object] | None) -> str:
    name = f" ({str(columns[column])!r})" if columns is not None else ""
    return f", column {column}{name}"


def _reads_as_number(value: str | bytes) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True
