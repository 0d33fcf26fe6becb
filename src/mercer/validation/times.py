"""Reject dates, times and durations: cast to floats, they would be counts of an arbitrary unit."""

from __future__ import annotations

import datetime
import re
from typing import Any

import numpy as np

# Names of such dtypes in NumPy, pandas, polars and Arrow.
_DTYPE = re.compile(r"\b(?:date|time|duration|period|month_)", re.IGNORECASE)
_TYPES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)
_ADVICE = {
    "X": "Drop the column, or convert it to numbers first: days since a date, seconds of a "
    "duration.",
    "y": "Convert them to numbers first, days since a date, seconds of a duration; or to text, "
    "where they are labels.",
}


def is_time(dtype: Any) -> bool:
    """Return whether a dtype of NumPy, pandas, polars or Arrow is of dates, times or durations."""
    return _DTYPE.search(str(dtype)) is not None


def reject_times(estimator_name: str, values: Any, what: str = "X") -> None:
    """Raise a ValueError that names the first column of dates, times or durations.

    Parameters
    ----------
    estimator_name : str
        The estimator or function that an error names.
    values : array, data frame, Arrow table, series or nested list
    what : str
        The argument that has the values.
    """
    if getattr(getattr(values, "dtype", None), "kind", "") in tuple("biufc"):
        return
    first = _first_time(values)
    if first is not None:
        kind, location = first
        where = f"{what}, {location}" if location else what
        needed = "numbers or labels" if what == "y" else "numbers"
        raise ValueError(
            f"{estimator_name} needs {needed}, got dates or times ({kind}) in {where}. "
            f"{_ADVICE.get(what, _ADVICE['X'])}"
        )


def _first_time(values: Any) -> tuple[str, str] | None:
    """Return (type, location) of the first date, time or duration, or None.

    The location is "" where there is only one column.
    """
    columns = _columns(values)
    if columns is not None:
        for index, (name, dtype) in enumerate(columns):
            column = f"column {index} ({str(name)!r})"
            if is_time(dtype):
                return str(dtype), column
            if str(dtype).lower() in ("object", "category"):
                first = _first_time(_get_column(values, index))
                if first is not None:
                    kind, location = first
                    return kind, f"{column}, {location}" if location else column
        return None
    if isinstance(values, list | tuple):
        return _first_time_in_lists(values)
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
    position = next(at for at, value in np.ndenumerate(array) if _is_time_type(type(value)))
    location = f"row {position[0]}" + "".join(f", column {j}" for j in position[1:2])
    return type(array[position]).__name__, location


def _first_time_in_lists(rows: Any) -> tuple[str, str] | None:
    for row, values in enumerate(rows):
        if isinstance(values, list | tuple):
            if any(map(_is_time_type, set(map(type, values)))):
                column = next(j for j, value in enumerate(values) if _is_time_type(type(value)))
                return type(values[column]).__name__, f"row {row}, column {column}"
        elif _is_time_type(type(values)):
            return type(values).__name__, f"row {row}"
        elif getattr(getattr(values, "dtype", None), "kind", "f") not in tuple("biufc"):
            first = _first_time(values)
            if first is not None:
                return first[0], f"row {row}"
    return None


def _columns(frame: Any) -> list[tuple[Any, Any]] | None:
    """Return (name, dtype) of the columns of a data frame or an Arrow table.

    That is [] where no dtype can hold dates or times, and None for other values.
    """
    if hasattr(frame, "column_names") and hasattr(frame, "schema"):
        names, types = list(frame.column_names), list(frame.schema.types)
    elif hasattr(frame, "columns") and hasattr(frame, "dtypes"):
        names, types = list(frame.columns), list(frame.dtypes)
    else:
        return None
    possible = any(
        is_time(dtype) or str(dtype).lower() in ("object", "category") for dtype in set(types)
    )
    return list(zip(names, types, strict=True)) if possible else []


def _get_column(frame: Any, index: int) -> Any:
    if hasattr(frame, "iloc"):
        return frame.iloc[:, index]
    return np.array(frame.to_series(index).to_list(), dtype=object)


def _is_time_type(cls: type) -> bool:
    return issubclass(cls, _TYPES) or cls.__name__ == "Period"
