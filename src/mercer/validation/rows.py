"""Validate rows; errors name the first invalid value, its row and its column."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from mercer import ops
from mercer._typing import is_csr
from mercer.errors import MissingValueError, RowError
from mercer.parallel.warnings import warn
from mercer.validation.sparse import canonical_csr
from mercer.validation.times import reject_times

# Steps of float32 that the spread of a column has at least; below, more than 1% of its variance is
# rounding.
_STEPS = 3
# Rows validated at a time, so that no mask is as large as the data.
_CHUNK_ROWS = 4096


def validate_rows(estimator_name: str, X: Any) -> Any:
    """Return X as a float32 or float64 array or canonical CSR matrix; require 2-d real numbers."""
    X = canonical_csr(estimator_name, X) if hasattr(X, "tocsr") else as_numpy(estimator_name, X)
    if len(X.shape) != 2 or X.dtype.kind not in "biuf":
        raise ValueError(
            f"{estimator_name} needs 2-d arrays of real numbers, got {len(X.shape)}-d of {X.dtype}."
        )
    return X if X.dtype == np.float32 else X.astype(np.float64, copy=False)


def index_columns(schema: Any) -> set[str]:
    """Return the columns of an Arrow schema that are the index of a pandas frame.

    They are recognized by pandas' metadata or by their name.
    """
    try:
        from_metadata = list(schema.pandas_metadata["index_columns"])
    except (ValueError, TypeError, KeyError):  # no metadata, or not those of pandas
        from_metadata = []
    unnamed = [name for name in schema.names if re.fullmatch(r"__index_level_\d+__", name)]
    # A range index is a dict in the metadata, and no column.
    return {
        name
        for name in (*from_metadata, *unnamed)
        if isinstance(name, str) and name in schema.names
    }


def drop_index_columns(X: Any, wanted: Iterable[object] = ()) -> Any:
    """Return X; from an Arrow table drop the columns of a pandas index, except wanted ones."""
    if type(X).__module__.partition(".")[0] != "pyarrow" or not hasattr(X, "schema"):
        return X
    dropped = index_columns(X.schema) - {str(name) for name in wanted}
    if not dropped:
        return X
    return X.select([i for i, name in enumerate(X.schema.names) if name not in dropped])


def as_numpy(estimator_name: str, X: Any) -> Any:
    """Return X as a NumPy array; reject masked entries, dates and times."""
    reject_times(estimator_name, X)
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise ValueError(
            f"{estimator_name} does not accept masked entries, got {np.ma.count_masked(X)}. Fill "
            "or impute them first (X.filled, sklearn.impute)."
        )
    return X if ops.is_device(X) else np.asarray(X)


def value_range(X: Any) -> tuple[float, float]:
    """Return the minimum and maximum of 0 and all values of rows; NaN where there is a NaN."""
    if ops.is_device(X):
        ends: tuple[float, float] = X.extremes()
        return ends
    stored = X.data if is_csr(X) else X
    with np.errstate(invalid="ignore"):
        return float(stored.min(initial=0)), float(stored.max(initial=0))


def require_finite(estimator_name: str, X: Any, columns: Sequence[object] | None = None) -> None:
    """Raise a ValueError that names the first NaN or infinity of an array or a CSR matrix."""
    entry = _first_entry(X, lambda values: ~np.isfinite(values))
    if entry is not None:
        row, column, value = entry
        missing = np.isnan(value)
        kind = "NaN" if missing else "infinity (inf)"
        raise (MissingValueError if missing else RowError)(
            row,
            f"Input X contains {kind}: {estimator_name} needs finite numbers, got {value} at",
            f"{_describe_column(column, columns)}. Drop or impute such values first "
            f"(sklearn.impute){', or fit with Tabular() in front of the map' if missing else ''}.",
        )


def require_finite_features(X: Any, Z: Any) -> None:
    """Raise a ValueError that names the first row of X whose features Z overflow their dtype."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.sum(Z)):
            return
    rows = np.flatnonzero(~np.isfinite(Z).all(axis=1))
    if len(rows):
        row = int(rows[0])
        column, value = largest_entry(X, row)
        after = (
            f"{_describe_column(column, None)}. Scale the data "
            "(sklearn.preprocessing.StandardScaler) or use float64."
        )
        raise RowError(row, f"Features beyond {Z.dtype}: got {value:g} at", after)


def largest_entry(X: Any, row: int) -> tuple[int, float]:
    """Return the column and the value of the entry of a row with the largest magnitude."""
    values = X[[row]].toarray()[0] if is_csr(X) else X[row]
    column = int(np.argmax(np.abs(values)))
    return column, float(values[column])


def require_nonnegative(
    estimator_name: str, X: Any, columns: Sequence[object] | None = None, *, advice: str = ""
) -> None:
    """Raise a ValueError that names the first negative value of an array or a CSR matrix."""
    stored = X.data if is_csr(X) else X
    if stored.size == 0 or stored.min() >= 0:  # one pass without a mask
        return
    opening = f"Negative values in data: {estimator_name} needs X >= 0"
    _require_no_entry(lambda values: values < 0, X, opening, columns, advice)


def first_missing(y: Any) -> tuple[int, int, object] | None:
    """Return (row, column, value) of the first target that is None, NaN or infinite, or None."""
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


def require_above(estimator_name: str, X: Any, bound: float) -> None:
    """Raise a ValueError that names the first value of an array that is not above the bound."""
    opening = f"Values below the domain: {estimator_name} needs X > {bound:g}"
    _require_no_entry(lambda values: ~(values > bound), X, opening)


def warn_outside(
    estimator_name: str, X: Any, low: Any, high: Any, *, numbered: bool = True
) -> bool:
    """Issue a warning where values of X are outside [low, high]; return whether it was issued.

    Parameters
    ----------
    estimator_name : str
        The estimator that the warning names.
    X : array or CSR matrix
    low, high : float or array of shape (d,)
    numbered : bool, default=True
        Whether the rows of X are counted from the first row of the data, and named in the warning.
    """
    stored = X.data if is_csr(X) else X
    if not stored.size:
        return False
    if stored.ndim == 2 and np.ndim(high):  # column by column
        inside = np.all(stored.max(axis=0) <= high) and np.all(stored.min(axis=0) >= low)
    else:
        inside = stored.max() <= np.min(high) and stored.min() >= np.max(low)
    if inside:
        return False
    stored = np.asarray(stored)
    columns = X.indices if is_csr(X) else np.broadcast_to(np.arange(X.shape[1]), X.shape)
    lows, highs = (np.broadcast_to(bound, X.shape[1])[columns] for bound in (low, high))
    outside = np.argwhere((stored > highs) | (stored < lows))
    if not len(outside):
        return False
    first = tuple(outside[0])
    row = np.searchsorted(X.indptr, first[0], side="right") - 1 if is_csr(X) else first[0]
    where = f"at row {row}, column {columns[first]}" if numbered else f"in column {columns[first]}"
    warn(
        f"{estimator_name}: {len(outside)} value(s) outside the range of the anchors, "
        f"[{lows[first]:g}, {highs[first]:g}], are clipped to it, the first {stored[first]:g} "
        f"{where}. Set feature_range, or fit on data that has such values.",
        stacklevel=2,
    )
    return True


def describe_text(estimator_name: str, X: Any) -> str | None:
    """Return a message about the first entry of X that is text and no number, or None.

    Called after the conversion to float has failed.
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
                f"{estimator_name} needs numbers, could not convert string to float: {value!r} at "
                f"row {row}{_describe_column(column, names)}. Encode text first "
                "(sklearn.preprocessing.OneHotEncoder, sklearn.feature_extraction.text)."
            )
    return None


def _is_missing(value: object) -> bool:
    if isinstance(value, float):
        return not np.isfinite(value)
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def _require_no_entry(
    is_invalid: Callable[[Any], Any],
    X: Any,
    opening: str,
    columns: Sequence[object] | None = None,
    advice: str = "",
) -> None:
    """Raise a RowError for the first invalid entry: "<opening>, got -1 at row 3, column 2."."""
    entry = _first_entry(X, is_invalid)
    if entry is not None:
        row, column, value = entry
        after = f"{_describe_column(column, columns)}.{f' {advice}' if advice else ''}"
        raise RowError(row, f"{opening}, got {value:g} at", after)


def _first_entry(X: Any, predicate: Callable[[Any], Any]) -> tuple[int, int, float] | None:
    """Return (row, column, value) of the first entry that satisfies a predicate, row by row."""
    sparse = is_csr(X)
    stored = X.data if sparse else X
    step = _CHUNK_ROWS * (64 if sparse else 1)
    for start in range(0, len(stored), step):
        values = stored[start : start + step]
        matches = np.argwhere(predicate(values))
        if len(matches):
            first = matches[0]
            if not sparse:
                return int(start + first[0]), int(first[1]), float(values[tuple(first)])
            entry = int(start + first[0])
            row = int(np.searchsorted(X.indptr, entry, side="right") - 1)
            return row, int(X.indices[entry]), float(values[first[0]])
    return None


def _describe_column(column: int, columns: Sequence[object] | None) -> str:
    name = f" ({str(columns[column])!r})" if columns is not None else ""
    return f", column {column}{name}"


def reads_as_number(value: str | bytes) -> bool:
    """Return whether float() accepts a text."""
    try:
        float(value)
    except ValueError:
        return False
    return True


def warn_coarse_columns(estimator_name: str, center: Any, spread: Any) -> None:
    """Warn of the first column of float32 whose spread is a few of its steps at the center."""
    steps = np.finfo(np.float32).eps * np.abs(center)
    coarse = np.flatnonzero((spread > 0) & (spread < _STEPS * steps))
    if len(coarse):
        j = int(coarse[0])
        warn(
            f"{estimator_name}: column {j} has a spread of {spread[j]:.2g} around {center[j]:.2g}, "
            f"where float32 has steps of {steps[j]:.2g}: most of its digits are lost"
            f"{f' ({len(coarse)} such columns)' if len(coarse) > 1 else ''}. Give float64 rows, or "
            "subtract the means before they are cast.",
            stacklevel=3,
        )
