"""Validate rows: an error names the first value that is not allowed, its row and its column."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from mercer.errors import RowError
from mercer.parallel.warnings import warn
from mercer.validation.sparse import canonical_csr
from mercer.validation.times import refuse_times

_ROWS = 4096  # rows checked at a time, so that a check never allocates a mask as large as the data


def validate_rows(who: str, X: Any) -> Any:
    """X as a float array or a canonical CSR matrix, float32 kept; refused unless it is 2-d and of
    real numbers.
    """
    X = canonical_csr(who, X) if hasattr(X, "tocsr") else as_numpy(who, X)
    if len(X.shape) != 2 or X.dtype.kind not in "biuf":
        raise ValueError(
            f"{who} needs 2-d arrays of real numbers, got {len(X.shape)}-d of {X.dtype}."
        )
    return X if X.dtype == np.float32 else X.astype(np.float64, copy=False)


def index_columns(schema: Any) -> set[str]:
    """Return the columns of an Arrow schema that are the index of a pandas frame, by pandas'
    metadata or by their name.
    """
    try:
        written = list(
            schema.pandas_metadata["index_columns"]
        )  # an index that counts rows is a dict, and no column
    except (ValueError, TypeError, KeyError):  # there is none, or it is not pandas'
        written = []
    unnamed = [name for name in schema.names if re.fullmatch(r"__index_level_\d+__", name)]
    return {name for name in (*written, *unnamed) if isinstance(name, str) and name in schema.names}


def drop_index_columns(X: Any, wanted: Iterable[object] = ()) -> Any:
    """Return X, where it is an Arrow table without the columns of a pandas index but the wanted
    ones.
    """
    if type(X).__module__.partition(".")[0] != "pyarrow" or not hasattr(X, "schema"):
        return X
    left_out = index_columns(X.schema) - {str(name) for name in wanted}
    return (
        X.select([place for place, name in enumerate(X.schema.names) if name not in left_out])
        if left_out
        else X
    )


def as_numpy(who: str, X: Any) -> Any:
    """X as a NumPy array; masked entries are refused, since the mask would be lost, and so are
    dates and times.
    """
    refuse_times(who, X)
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise ValueError(
            f"{who} has no masked entries, got {np.ma.count_masked(X)}. Fill or impute them "
            "first (X.filled, sklearn.impute)."
        )
    return X if getattr(X, "resident", False) else np.asarray(X)


def value_range(X: Any) -> tuple[float, float]:
    """The least and the largest of 0 and all numbers of an array or a CSR matrix; NaN for both
    where it has one.
    """
    if getattr(X, "resident", False):
        ends: tuple[float, float] = X.ends()
        return ends
    stored = X.data if hasattr(X, "indptr") else X
    with np.errstate(invalid="ignore"):
        return float(stored.min(initial=0)), float(stored.max(initial=0))


def require_finite(who: str, X: Any, columns: Sequence[object] | None = None) -> None:
    """Raise a ValueError that names the first NaN or infinity of an array or a CSR matrix."""
    found = _first(X, lambda values: ~np.isfinite(values))
    if found is not None:
        row, column, value = found
        kind = "NaN" if np.isnan(value) else "infinity (inf)"
        raise RowError(
            row,
            f"Input X contains {kind}: {who} needs finite numbers, got {value} at",
            f"{_column(column, columns)}. Drop or impute such values first (sklearn.impute).",
        )


def require_finite_features(X: Any, Z: Any) -> None:
    """Raise a ValueError that names the first row of X whose features Z are beyond their dtype, and
    its largest number.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.sum(Z)):
            return
    rows = np.flatnonzero(~np.isfinite(Z).all(axis=1))
    if len(rows):
        row = int(rows[0])
        column, value = largest_entry(X, row)
        after = (
            f"{_column(column, None)}. Scale the data (sklearn.preprocessing.StandardScaler) "
            "or use float64."
        )
        raise RowError(row, f"Features beyond {Z.dtype}: got {value:g} at", after)


def largest_entry(X: Any, row: int) -> tuple[int, float]:
    """(column, value) of the number of a row that is farthest from 0."""
    numbers = X[[row]].toarray()[0] if hasattr(X, "indptr") else X[row]
    column = int(np.argmax(np.abs(numbers)))
    return column, float(numbers[column])


def require_nonnegative(
    who: str, X: Any, columns: Sequence[object] | None = None, *, instead: str = ""
) -> None:
    """Raise a ValueError that names the first negative value of an array or a CSR matrix."""
    stored = X.data if hasattr(X, "indptr") else X
    if stored.size == 0 or stored.min() >= 0:  # one pass without a mask
        return
    _require(
        who, X, columns, "X >= 0", "Negative values in data", lambda values: values < 0, instead
    )


def first_missing(y: Any) -> tuple[int, int, object] | None:
    """(row, column, value) of the first target that is None, NaN or infinite."""
    if y.dtype.kind == "f":
        bad = ~np.isfinite(y)
    elif y.dtype.kind in "OT":
        bad = np.fromiter(map(_is_missing, y.flat), dtype=bool, count=y.size).reshape(y.shape)
    else:
        return None
    if not bad.any():
        return None
    row, *column = np.argwhere(bad)[0]
    return int(row), int(column[0]) if column else 0, y[(row, *column)]


def require_above(who: str, X: Any, bound: float) -> None:
    """Raise a ValueError that names the first value of an array that is not above the bound."""
    _require(
        who,
        X,
        None,
        f"X > {bound:g}",
        "Values below the domain",
        lambda values: ~(values > bound),
        "",
    )


def warn_outside(who: str, X: Any, low: Any, high: Any, *, numbered: bool = True) -> bool:
    """Whether values of X are outside [low, high], numbers or a number for each column; one warning
    then: how many, and the first.

    Its row is named when rows are numbered, that is, counted from the first row of the data.
    """
    stored = X.data if hasattr(X, "indptr") else X
    if not stored.size:
        return False
    if stored.ndim == 2 and np.ndim(high):  # column by column
        inside = np.all(stored.max(axis=0) <= high) and np.all(stored.min(axis=0) >= low)
    else:
        inside = stored.max() <= np.min(high) and stored.min() >= np.max(low)
    if inside:
        return False
    stored = np.asarray(stored)
    columns = X.indices if hasattr(X, "indptr") else np.broadcast_to(np.arange(X.shape[1]), X.shape)
    lows, highs = (np.broadcast_to(bound, X.shape[1])[columns] for bound in (low, high))
    outside = np.argwhere((stored > highs) | (stored < lows))
    if not len(outside):
        return False
    place = tuple(outside[0])
    row = (
        int(np.searchsorted(X.indptr, place[0], side="right") - 1)
        if hasattr(X, "indptr")
        else int(place[0])
    )
    where = f"at row {row}, column {columns[place]}" if numbered else f"in column {columns[place]}"
    warn(
        f"{who}: {len(outside)} value(s) outside the range of the anchors, [{lows[place]:g}, "
        f"{highs[place]:g}], are taken at its nearest "
        f"end, the first {stored[place]:g} {where}. Set feature_range, or fit on data that has "
        "such values.",
        stacklevel=2,
    )
    return True


def describe_text(who: str, X: Any) -> str | None:
    """A sentence about the first entry of X that is no number, or None when all are numbers. Called
    when a conversion has failed.
    """
    if hasattr(X, "dtype") and X.dtype.kind not in "OUSTV":
        return None
    try:
        values = np.asarray(X, dtype=object)
    except ValueError:  # ragged rows
        return None
    if values.ndim != 2:
        return None
    for (row, column), value in np.ndenumerate(values):
        if isinstance(value, str | bytes) and not reads_as_number(value):
            names = list(X.columns) if hasattr(X, "columns") else None
            return (
                f"{who} needs numbers, could not convert string to float: {value!r} at row "
                f"{row}{_column(column, names)}. "
                "Encode text first (sklearn.preprocessing.OneHotEncoder, "
                "sklearn.feature_extraction.text)."
            )
    return None


def _is_missing(value: object) -> bool:
    if isinstance(value, float):
        return not np.isfinite(value)
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def _require(
    who: str, X: Any, columns: Any, needs: str, opening: str, bad: Any, instead: str
) -> None:
    found = _first(X, bad)
    if found is not None:
        row, column, value = found
        way_out = f" {instead}" if instead else ""
        raise RowError(
            row,
            f"{opening}: {who} needs {needs}, got {value:g} at",
            f"{_column(column, columns)}.{way_out}",
        )


def _first(X: Any, bad: Any) -> tuple[int, int, float] | None:
    """(row, column, value) of the first entry for which bad holds, row by row; None when there is
    none.
    """
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


def reads_as_number(value: str | bytes) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True
