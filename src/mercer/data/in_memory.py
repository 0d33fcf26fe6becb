"""Streams of arrays, sparse matrices, pandas and polars frames in memory."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Self

import numpy as np

from mercer._typing import Array
from mercer.data._pyarrow import pyarrow
from mercer.data.arrow import schema_inputs
from mercer.data.arrow_table import ArrowTable
from mercer.data.column_roles import Roles, assign_roles
from mercer.data.matrix import MatrixStream, csr_row_bytes
from mercer.data.stream import Parts, Stream, as_float, hash_rows
from mercer.data.table_schema import BOOLEAN, NUMBER, TableColumn, TableSchema
from mercer.validation.rows import as_numpy, describe_text
from mercer.validation.sparse import canonical_csr


class ArrayStream(MatrixStream):
    """Rows of an array or a sparse matrix; chunks of a float array are views."""

    kind = "array"

    def __init__(self, matrix: Any, **roles: Any) -> None:
        sparse = hasattr(matrix, "tocsr")
        if sparse:
            matrix = canonical_csr("open_stream", matrix)
        else:
            source, matrix = matrix, as_numpy("open_stream", matrix)
            numeric = matrix.dtype.kind in "biuf"
            problem = None if numeric else describe_text("open_stream", source)
            if problem:
                raise ValueError(problem)
        super().__init__("the array", matrix.shape, matrix.dtype, sparse=sparse, **roles)
        self._matrix = matrix

    def _read(self, start: int, rows: int) -> Iterator[Parts]:
        assert self.rows is not None
        step = self._chunk_rows(rows, self._row_bytes)
        for at in range(start, self.rows, step):
            yield self._split(self._matrix[at - self._first : at - self._first + step])

    def values_in_memory(self, start: int, stop: int) -> dict[str, Any]:
        return {**super().values_in_memory(start, stop), "_matrix": self._matrix[start:stop]}

    def _identity(self) -> dict[str, Any]:
        identity = {"shape": list(self._matrix.shape), "from": str(self._raw_dtype)}
        return {**identity, **hash_rows(self, self._matrix.shape[0], self._row_bytes)}

    @property
    def _row_bytes(self) -> float:
        return (
            csr_row_bytes(self._matrix.nnz, self._matrix.shape[0])
            if self.sparse
            else super()._row_bytes
        )


FLOAT32, LABEL, OTHER = "float32", "label", "other"  # kinds of a column, beside those of a table
_NUMBERS = (NUMBER, BOOLEAN, FLOAT32)


class FrameStream(Stream):
    """Rows of a data frame of numbers; a subclass accesses the frames of its library."""

    def __init__(self, frame: Any, roles: Roles, schema: TableSchema | None = None) -> None:
        super().__init__(f"the {self.kind} frame")
        names, types = list(frame.columns), list(frame.dtypes)
        self._frame, self._roles = frame, roles
        if roles.weight is not None and self.column_kind(types[roles.weight]) not in _NUMBERS:
            raise ValueError(
                f"{self.name}: the weight {names[roles.weight]!r} is of type "
                f"{types[roles.weight]}, and must be one number for each row."
            )
        for place in roles.target:
            if self.column_kind(types[place]) == OTHER:
                raise ValueError(
                    f"{self.name}: the target {names[place]!r} is of type {types[place]}, and "
                    "must be numbers or labels."
                )
        self.rows, self.width = len(frame), len(roles.inputs)
        single = all(self.column_kind(types[place]) == FLOAT32 for place in roles.inputs)
        self.dtype = as_float([np.float32 if single else np.float64])
        self.columns = tuple(str(names[place]) for place in roles.inputs)
        targets = [str(names[place]) for place in roles.target]
        if targets:
            self.target = targets if roles.several else targets[0]
        if roles.weight is not None:
            self.weight = str(names[roles.weight])
        if schema is not None:
            self.schema, self.dtype = schema, np.dtype(np.float64)

    def with_schema(self) -> Self:
        """Return a copy with a schema, for columns with missing cells."""
        other = copy.copy(self)
        types, names = list(self._frame.dtypes), self.columns or ()
        truths = (self.column_kind(types[at]) == BOOLEAN for at in self._roles.inputs)
        columns = (
            TableColumn(name, BOOLEAN if truth else NUMBER)
            for name, truth in zip(names, truths, strict=True)
        )
        other.schema, other.dtype = TableSchema(tuple(columns)), np.dtype(np.float64)
        return other

    def _read(self, start: int, rows: int) -> Iterator[Parts]:
        assert self.rows is not None
        step, roles = self._chunk_rows(rows), self._roles
        for at in range(start, self.rows, step):
            frame = self._slice(at - self._first, step)
            y = weight = None
            if roles.target:
                labels = [self._labels(frame, place) for place in roles.target]
                y = np.column_stack(labels) if roles.several else labels[0]
            if roles.weight is not None:
                weight = self._numbers(frame, [roles.weight], np.dtype(np.float64))[:, 0]
            yield (
                np.ascontiguousarray(self._numbers(frame, list(roles.inputs), self.dtype)),
                y,
                weight,
            )

    def values_in_memory(self, start: int, stop: int) -> dict[str, Any]:
        return {**super().values_in_memory(start, stop), "_frame": self._slice(start, stop - start)}

    def _identity(self) -> dict[str, Any]:
        assert self.rows is not None
        types = [str(dtype) for dtype in self._frame.dtypes]
        identity = {
            "rows": self.rows,
            "types": [types[place] for place in (*self._roles.inputs, *self._roles.target)],
        }
        return {**identity, **hash_rows(self, self.rows, self.width * self.dtype.itemsize)}

    def _slice(self, start: int, rows: int) -> Any:
        raise NotImplementedError

    def _numbers(self, frame: Any, places: list[int], dtype: np.dtype[Any]) -> Array:
        raise NotImplementedError

    def _labels(self, frame: Any, place: int) -> Array:
        raise NotImplementedError

    @staticmethod
    def to_arrow(frame: Any, place: int) -> Any:
        """Return a column as an Arrow array; a type that Arrow has not becomes text."""
        raise NotImplementedError

    @staticmethod
    def column_kind(dtype: Any) -> str:
        """Return NUMBER, BOOLEAN, FLOAT32, LABEL or OTHER for the dtype of a column."""
        raise NotImplementedError


class PandasStream(FrameStream):
    """Rows of a pandas frame; missing values become NaN, which validation reports."""

    kind = "pandas"

    def _slice(self, start: int, rows: int) -> Any:
        return self._frame.iloc[start : start + rows]

    def _numbers(self, frame: Any, places: list[int], dtype: np.dtype[Any]) -> Array:
        return np.asarray(frame.iloc[:, places].to_numpy(dtype=dtype, na_value=np.nan))

    def _labels(self, frame: Any, place: int) -> Array:
        column = frame.iloc[:, place]
        if self.column_kind(column.dtype) not in _NUMBERS:
            return np.asarray(column.astype(object).where(column.notna(), None).to_numpy())
        if column.isna().any():
            return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
        return np.asarray(column.to_numpy(dtype=getattr(column.dtype, "numpy_dtype", column.dtype)))

    @staticmethod
    def to_arrow(frame: Any, place: int) -> Any:
        pa = pyarrow("Reading a data frame")
        column = frame.iloc[:, place]
        if getattr(column.dtype, "kind", "O") == "c":
            raise ValueError(
                f"the pandas frame: column {column.name!r} is {column.dtype}, and inputs must be "
                "real numbers."
            )
        if hasattr(column, "sparse"):
            column = column.sparse.to_dense()
        try:
            array = pa.Array.from_pandas(column)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            array = None
        if array is None or isinstance(array.type, pa.BaseExtensionType):
            missing = column.isna()
            texts = zip(column, missing, strict=True)
            array = pa.array([None if gap else str(value) for value, gap in texts], pa.string())
        return array

    @staticmethod
    def column_kind(dtype: Any) -> str:
        kind = getattr(dtype, "kind", "O")
        if kind not in "biuf":
            return OTHER if kind in "Mmc" else LABEL
        if getattr(dtype, "numpy_dtype", dtype) == np.float32:
            return FLOAT32
        return BOOLEAN if kind == "b" else NUMBER


class PolarsStream(FrameStream):
    """Rows of a polars frame; nulls become NaN, which validation reports."""

    kind = "polars"

    def _slice(self, start: int, rows: int) -> Any:
        return self._frame.slice(start, rows)

    def _numbers(self, frame: Any, places: list[int], dtype: np.dtype[Any]) -> Array:
        polars = sys.modules["polars"]
        number = polars.Float32 if dtype == np.float32 else polars.Float64
        part = frame.select([frame.columns[place] for place in places]).cast(number)
        return np.asarray(part.to_numpy(order="c"))

    def _labels(self, frame: Any, place: int) -> Array:
        column = frame.to_series(place)
        if self.column_kind(column.dtype) in _NUMBERS:
            exact = column.null_count() == 0 and not str(column.dtype).startswith("Decimal")
            return np.asarray(
                (column if exact else column.cast(sys.modules["polars"].Float64)).to_numpy()
            )
        return np.array(column.to_list(), dtype=object)

    @staticmethod
    def to_arrow(frame: Any, place: int) -> Any:
        pa = pyarrow("Reading a data frame")
        column = frame.to_series(place)
        if str(column.dtype) == "Object":
            values = column.to_list()
            return pa.array([None if value is None else str(value) for value in values])
        if str(column.dtype) in ("Int128", "UInt128"):
            column = column.cast(sys.modules["polars"].Float64)
        return column.to_arrow()

    @staticmethod
    def column_kind(dtype: Any) -> str:
        name = str(dtype).partition("(")[0]
        kinds = {"Boolean": BOOLEAN, "Float32": FLOAT32}
        kinds |= dict.fromkeys(("String", "Categorical", "Enum"), LABEL)
        return kinds.get(name) or (NUMBER if dtype.is_numeric() else OTHER)


def open_frame(
    frame: Any,
    *,
    columns: Any = None,
    target: Any = None,
    weight: Any = None,
    kinds: Mapping[str, str] | None = None,
    schema: TableSchema | None = None,
) -> Stream:
    """Return a stream of a pandas or polars frame; by way of Arrow where not all are numbers."""
    library = PandasStream if frame_library(frame) == "pandas" else PolarsStream
    name, names = f"the {library.kind} frame", list(frame.columns)
    if len(frame) == 0:
        raise ValueError(f"{name} has no rows.")
    if schema is not None:
        by_text = {str(column): column for column in names}
        inputs = schema_inputs(name, list(by_text), columns, schema)
        columns = [by_text[column] for column in inputs]
    roles = assign_roles(name, names, columns=columns, target=target, weight=weight)
    plain = not kinds and (schema is None or (schema.plain and schema.width == len(roles.inputs)))
    types = list(frame.dtypes)
    mixed = [at for at in roles.inputs if library.column_kind(types[at]) not in _NUMBERS]
    if plain and not mixed:
        return library(frame, roles, schema)
    weights = [] if roles.weight is None else [roles.weight]
    used = {place: str(names[place]) for place in (*roles.inputs, *roles.target, *weights)}
    listed = ", ".join(repr(used[at]) for at in mixed)
    pa = pyarrow(f"{name[0].upper()}{name[1:]} with columns that are no numbers ({listed})")
    if len(set(used.values())) < len(used):
        raise ValueError(f"{name} has two columns whose names have the same text: rename one.")
    table = pa.table({text: library.to_arrow(frame, place) for place, text in used.items()})
    targets = [used[place] for place in roles.target]
    return ArrowTable(table, name).stream(
        columns=None if schema else [used[place] for place in roles.inputs],
        target=targets if roles.several else targets[0] if targets else None,
        weight=used[weights[0]] if weights else None,
        kinds=kinds,
        schema=schema,
    )


def is_table(source: Any) -> bool:
    """Return whether source is a data frame, an Arrow table or another table with its interface.

    So are lazy frames and readers, which open_stream refuses.
    """
    if type(source) is np.ndarray or hasattr(source, "dtype"):  # of one type, such as a series
        return False
    if frame_library(source) is not None:
        return True
    return hasattr(source, "__arrow_c_stream__") and type(source).__name__ != "ChunkedArray"


def frame_library(source: Any) -> str | None:
    """Return "pandas", "polars" or "polars lazy" for a frame of theirs, importing neither."""
    for base in type(source).__mro__:
        library = base.__module__.partition(".")[0]
        if library in ("pandas", "polars") and base.__name__ == "DataFrame":
            return library
        if library == "polars" and base.__name__ == "LazyFrame":
            return "polars lazy"
    return None
