"""Calendar parts of seconds since 1970 (UTC), by integer arithmetic (proleptic Gregorian)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mercer._typing import Array
from mercer.errors import RowError

DAY = 86_400
LARGEST_SECONDS = 1e13
"""Largest |seconds since 1970| of a date, in the year 318,857."""
_ERA = 146_097  # days of 400 years
_TO_MARCH = 719_468  # days from March 1 of year 0 to 1970
_AFTER_MARCH = 306  # days from March 1 to December 31


def date_parts(seconds: Array) -> tuple[Array, Array, Array]:
    """Return the day of the year from 0, the weekday from Monday = 0 and the second of the day.

    Parameters
    ----------
    seconds : array of float64
        Finite, below LARGEST_SECONDS in magnitude.
    """
    days = np.floor(seconds / DAY)
    second = seconds - DAY * days
    # seconds/86400 may round up to the next day
    early = second < 0
    days, second = days - early, second + DAY * early
    whole = days.astype(np.int64)
    shifted = whole + _TO_MARCH
    of_era = shifted - _ERA * (shifted // _ERA)
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    from_march = of_era - (365 * year + year // 4 - year // 100)
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year == 0))  # February before this March
    day = np.where(
        from_march >= _AFTER_MARCH,
        from_march - _AFTER_MARCH,
        from_march + 59 + leap.astype(np.int64),
    )
    return day, (whole + 3) % 7, second


def require_dates(seconds: Array, columns: Sequence[int], start: int = 0) -> None:
    """Raise a RowError for the first date beyond LARGEST_SECONDS; NaN is accepted.

    Parameters
    ----------
    seconds : array of shape (rows, dates)
    columns : sequence of int
        Columns of the dates in the data.
    start : int
        The first row.
    """
    with np.errstate(invalid="ignore"):
        beyond = np.abs(seconds) >= LARGEST_SECONDS
    if beyond.any():
        row, place = np.argwhere(beyond)[0]
        raise RowError(
            int(row) + start,
            f"A date beyond the year 318,000: got {seconds[row, place]:g} seconds since 1970 at",
            f", column {columns[place]}. Correct or remove such cells.",
        )
