"""Refuse dates, times and time differences: converted to floats in silence, they are counts of a
unit that nobody chose.
"""

from __future__ import annotations

import datetime
import re
from typing import Any

import numpy as np

_TYPE = re.compile(
    r"\b(?:date|time|duration|period|month_)", re.IGNORECASE
)  # of NumPy, pandas, polars and Arrow
_VALUES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)
_INSTEAD = {
    "X": "Leave the column out, or turn it into numbers first: days since a date, seconds of a "
    "time difference.",
    "y": "Turn them into numbers first, days since a date, seconds of a time difference; or into "
    "text, where they are labels.",
}


def is_time(dtype: Any) -> bool:
    """Whether a dtype of NumPy, pandas, polars or Arrow is of dates, times or time differences."""
    return _TYPE.search(str(dtype)) is not None


def refuse_times(who: str, values: Any, what: str = "X") -> None:
    """Raise a ValueError that names the first column of dates, times or time differences.

    Parameters
    ----------
    who : str
        The estimator or function that an error names.
    values : array, data frame, Arrow table, series or nested list
    what : str
        The argument that has the values.
    """
    if getattr(getattr(values, "dtype", None), "kind", "") in tuple("biufc"):
        return
    found = _first_time(values)
    if found is not None:
        kind, place = found
        where = f"{what}, {place}" if place else what
        needed = "numbers or labels" if what == "y" else "numbers"
        raise ValueError(
            f"{who} needs {needed}, got dates or times ({kind}) in {where}. "
            f"{_INSTEAD.get(what, _INSTEAD['X'])}"
        )


def _first_time(values: Any) -> tuple[str, str] | None:
    """(type, place) of the first date, time or time difference; the place is "" where there is only
    one column.
    """
    columns = _columns(values)
    if columns is not None:
        for place, (name, dtype) in enumerate(columns):
            if is_time(dtype):
                return str(dtype), f"column {place} ({str(name)!r})"
            found = (
                _first_time(_column(values, place))
                if str(dtype).lower() in ("object", "category")
                else None
            )
            if found is not None:
                return found[0], ", ".join(
                    filter(None, [f"column {place} ({str(name)!r})", found[1]])
                )
        return None
    if isinstance(values, list | tuple):
        return _in_lists(values)
    dtype = getattr(values, "dtype", None)
    if dtype is None:
        return None
    several = len(getattr(values, "shape", ())) > 1
    if is_time(dtype):
        return str(dtype), "column 0" if several else ""
    if str(dtype).lower() not in ("object", "category"):
        return None
    array = np.asarray(values)
    if array.dtype != object:
        return _first_time(array)
    if not any(map(_is_time_type, set(map(type, array.flat)))):
        return None
    row, *column = next(
        place for place, value in np.ndenumerate(array) if _is_time_type(type(value))
    )
    kind = type(array[(row, *column)]).__name__
    return kind, f"row {row}, column {column[0]}" if column else f"row {row}"


def _in_lists(rows: Any) -> tuple[str, str] | None:
    for row, values in enumerate(rows):
        if isinstance(values, list | tuple):
            if any(map(_is_time_type, set(map(type, values)))):
                column = next(
                    place for place, value in enumerate(values) if _is_time_type(type(value))
                )
                return type(values[column]).__name__, f"row {row}, column {column}"
        elif _is_time_type(type(values)):
            return type(values).__name__, f"row {row}"
        elif getattr(getattr(values, "dtype", None), "kind", "f") not in tuple("biufc"):
            found = _first_time(values)
            if found is not None:
                return found[0], f"row {row}"
    return None


def _columns(frame: Any) -> list[tuple[Any, Any]] | None:
    """(name, dtype) of the columns of a data frame or an Arrow table; [] where no dtype needs a
    second look, None for all else.
    """
    if hasattr(frame, "column_names") and hasattr(frame, "schema"):
        names, types = list(frame.column_names), list(frame.schema.types)
    elif hasattr(frame, "columns") and hasattr(frame, "dtypes"):
        names, types = list(frame.columns), list(frame.dtypes)
    else:
        return None
    odd = any(
        is_time(dtype) or str(dtype).lower() in ("object", "category") for dtype in set(types)
    )
    return list(zip(names, types, strict=True)) if odd else []


def _column(frame: Any, place: int) -> Any:
    return (
        frame.iloc[:, place]
        if hasattr(frame, "iloc")
        else np.array(frame.to_series(place).to_list(), dtype=object)
    )


def _is_time_type(cls: type) -> bool:
    return issubclass(cls, _VALUES) or cls.__name__ == "Period"
