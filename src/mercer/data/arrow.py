"""Record batches of pyarrow as rows of numbers: what Parquet and CSV share. pyarrow is loaded when
it is first needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from mercer.data.column_roles import ENCODE, assign
from mercer.data.stream import Array, Parts, Stream, as_float
from mercer.errors import ParameterError
from mercer.validation.rows import index_columns


def pyarrow(doing: str, module: str = "") -> Any:
    """pyarrow, or its part `module`; a sentence where it is not installed."""
    try:
        return import_module("pyarrow" + (f".{module}" if module else ""))
    except ImportError:
        raise ValueError(f"{doing} needs pyarrow: pip install 'mercer[parquet]'.") from None


@dataclass(frozen=True)
class Column:
    """A column: what it holds in one word where that is all that matters, and the length of its
    lists (0 for plain values).

    index: it is the index of the pandas frame that the table was written from, and an input only
    where it is named.
    """

    name: str
    type: str
    size: int = 0
    index: bool = field(default=False, compare=False)

    @property
    def number(self) -> bool:
        return self.type.startswith(
            ("int", "uint", "float", "double", "halffloat", "bool", "decimal", "null")
        )

    @property
    def label(self) -> bool:
        return self.size == 0 and (self.number or self.type == "text")

    @property
    def width(self) -> int:
        return self.size or 1

    def names(self) -> list[str]:
        return [f"{self.name}[{place}]" for place in range(self.size)] if self.size else [self.name]


def describe(schema: Any) -> list[Column]:
    """The columns of an Arrow schema; all kinds of text are one, and a dictionary is what it
    holds.
    """
    pa = pyarrow("Reading")
    types, index = pa.types, index_columns(schema)
    found = []
    for one in schema:
        kind, size = one.type, 0
        if types.is_fixed_size_list(kind):
            kind, size = kind.value_type, kind.list_size
        if types.is_dictionary(kind):
            kind = kind.value_type
        text = any(
            test(kind) for test in (types.is_string, types.is_large_string, types.is_string_view)
        )
        found.append(Column(one.name, "text" if text else str(kind), size, one.name in index))
    return found


class TableStream(Stream):
    """Rows of a table of named columns, which come as record batches: a subclass writes
    ``_batches``.
    """

    def _assign(
        self, who: str, table: Sequence[Column], columns: Any, target: Any, weight: Any
    ) -> None:
        """Sets what the table's columns are for, and refuses columns that cannot be that."""
        index = [column.name for column in table if column.index]
        names = [column.name for column in table]
        roles = assign(who, names, columns=columns, target=target, weight=weight, index=index)
        self._inputs = [table[place] for place in roles.inputs]
        self._targets = [table[place] for place in roles.target]
        self._several = roles.several
        self._weights = None if roles.weight is None else table[roles.weight]
        for column in self._inputs + ([self._weights] if self._weights else []):
            if not column.number:
                raise ParameterError(
                    "",
                    f"{who}: column {column.name!r} is {column.type}, and inputs must be numbers "
                    "or lists of them of one length. ",
                    *ENCODE,
                )
        for column in self._targets:
            if not column.label:
                raise ValueError(
                    f"{who}: the target {column.name!r} is {column.type}, and must be numbers or "
                    "labels."
                )
        if self._weights and self._weights.size:
            raise ValueError(
                f"{who}: the weight {self._weights.name!r} holds lists, and must be one number "
                "for each row."
            )
        self.width = sum(column.width for column in self._inputs)
        if self.width == 0:
            raise ValueError(f"{who} has no input columns.")
        self.dtype = as_float(
            [np.float32 if column.type == "float" else np.float64 for column in self._inputs]
        )
        self.columns = tuple(name for column in self._inputs for name in column.names())
        names = [column.name for column in self._targets]
        if names:
            self.target = names if self._several else names[0]
        if self._weights:
            self.weight = self._weights.name
        if columns is None:
            used = {column.name for column in self._used}
            self.left_out = tuple(name for name in index if name not in used)

    @property
    def _used(self) -> list[Column]:
        return [*self._inputs, *self._targets, *([self._weights] if self._weights else [])]

    def _batches(self, start: int, rows: int) -> Iterator[Any]:
        raise NotImplementedError

    def _read(self, start: int, rows: int) -> Iterator[Parts]:
        for batch in self._batches(start, self._chunk_rows(rows)):
            X = np.empty((batch.num_rows, self.width), self.dtype)
            at = 0
            for column in self._inputs:
                X[:, at : at + column.width] = _numbers(
                    batch.column(column.name), column, self.dtype
                )
                at += column.width
            labels = [_labels(batch.column(column.name), column) for column in self._targets]
            y = None if not labels else np.column_stack(labels) if self._several else labels[0]
            weight = None
            if self._weights:
                weight = _numbers(
                    batch.column(self._weights.name), self._weights, np.dtype(np.float64)
                )[:, 0]
            yield X, y, weight

    def _identity(self) -> dict[str, Any]:
        types = [
            f"{column.type}[{column.size}]" if column.size else column.type for column in self._used
        ]
        return {**super()._identity(), "types": types}


def skip(batches: Iterable[Any], rows: int, name: str) -> Iterator[Any]:
    """The batches without their first `rows` rows."""
    left = rows
    for batch in batches:
        if left < batch.num_rows:
            yield batch.slice(left)
        left = max(0, left - batch.num_rows)
    if left:
        raise ValueError(f"{name} has {rows - left} rows: there is no row {rows} to start from.")


def _numbers(values: Any, column: Column, dtype: np.dtype[Any]) -> Array:
    """(rows, width) numbers; nulls are NaN, for the check that follows to name."""
    if not column.size:
        return _floats(values, dtype)[:, None]
    lists = _floats(values.flatten(), dtype).reshape(-1, column.size)
    if not values.null_count:
        return lists
    rows = np.full((len(values), column.size), np.nan, dtype)  # flatten() leaves null lists out
    rows[values.is_valid().to_numpy(zero_copy_only=False)] = lists
    return rows


def _floats(values: Any, dtype: np.dtype[Any]) -> Array:
    pa = pyarrow("Reading")
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if not pa.types.is_float16(values.type):  # which pyarrow casts to nothing before version 20
        values = values.cast(pa.float32() if dtype == np.float32 else pa.float64(), safe=False)
    return np.asarray(values.to_numpy(zero_copy_only=False)).astype(dtype, copy=False)


def _labels(values: Any, column: Column) -> Array:
    """Labels as they are; nulls are NaN among numbers and None among words, for the check that
    follows to name.
    """
    pa = pyarrow("Reading")
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if column.number and (values.null_count or column.type.startswith(("decimal", "null"))):
        values = values.cast(pa.float64(), safe=False)
    return np.asarray(values.to_numpy(zero_copy_only=False))
