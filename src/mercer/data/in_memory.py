"""Streams of arrays, sparse matrices, pandas and polars frames in memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from mercer._typing import Array
from mercer.data.column_roles import ENCODE, assign_roles
from mercer.data.matrix import MatrixStream, csr_row_bytes
from mercer.data.stream import Parts, Stream, as_float, hash_rows
from mercer.errors import ParameterError
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


class FrameStream(Stream):
    """Rows of a data frame; a subclass accesses the frames of its library."""

    def __init__(
        self, frame: Any, *, columns: Any = None, target: Any = None, weight: Any = None
    ) -> None:
        super().__init__(f"the {self.kind} frame")
        if len(frame) == 0:
            raise ValueError(f"{self.name} has no rows.")
        names = list(frame.columns)
        self._frame = frame
        self._roles = roles = assign_roles(
            self.name, names, columns=columns, target=target, weight=weight
        )
        types = list(frame.dtypes)
        for place in (*roles.inputs, *([] if roles.weight is None else [roles.weight])):
            if not self._is_number(types[place]):
                raise ParameterError(
                    "",
                    f"{self.name}: column {names[place]!r} is of type {types[place]}, and inputs "
                    "must be numbers. ",
                    *ENCODE,
                )
        for place in roles.target:
            if not (self._is_number(types[place]) or self._is_label(types[place])):
                raise ValueError(
                    f"{self.name}: the target {names[place]!r} is of type {types[place]}, and "
                    "must be numbers or labels."
                )
        self.rows, self.width = len(frame), len(roles.inputs)
        single = all(self._is_single(types[place]) for place in roles.inputs)
        self.dtype = as_float([np.float32 if single else np.float64])
        self.columns = tuple(str(names[place]) for place in roles.inputs)
        targets = [str(names[place]) for place in roles.target]
        if targets:
            self.target = targets if roles.several else targets[0]
        if roles.weight is not None:
            self.weight = str(names[roles.weight])

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

    def _is_number(self, dtype: Any) -> bool:
        raise NotImplementedError

    def _is_label(self, dtype: Any) -> bool:
        raise NotImplementedError

    def _is_single(self, dtype: Any) -> bool:
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
        if not self._is_number(column.dtype):
            return np.asarray(column.astype(object).where(column.notna(), None).to_numpy())
        if column.isna().any():
            return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
        return np.asarray(column.to_numpy(dtype=getattr(column.dtype, "numpy_dtype", column.dtype)))

    def _is_number(self, dtype: Any) -> bool:
        return getattr(dtype, "kind", "O") in "biuf"

    def _is_label(self, dtype: Any) -> bool:
        return getattr(dtype, "kind", "O") not in "Mmc"

    def _is_single(self, dtype: Any) -> bool:
        return getattr(dtype, "numpy_dtype", dtype) == np.float32


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
        if self._is_number(column.dtype):
            exact = column.null_count() == 0 and not str(column.dtype).startswith("Decimal")
            return np.asarray(
                (column if exact else column.cast(sys.modules["polars"].Float64)).to_numpy()
            )
        return np.array(column.to_list(), dtype=object)

    def _is_number(self, dtype: Any) -> bool:
        return bool(dtype.is_numeric()) or str(dtype) == "Boolean"

    def _is_label(self, dtype: Any) -> bool:
        return str(dtype).partition("(")[0] in ("String", "Categorical", "Enum")

    def _is_single(self, dtype: Any) -> bool:
        return str(dtype) == "Float32"


def frame_library(source: Any) -> str | None:
    """Return "pandas", "polars" or "polars lazy" for a frame of theirs, importing neither."""
    for base in type(source).__mro__:
        library = base.__module__.partition(".")[0]
        if library in ("pandas", "polars") and base.__name__ == "DataFrame":
            return library
        if library == "polars" and base.__name__ == "LazyFrame":
            return "polars lazy"
    return None
