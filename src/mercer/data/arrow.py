"""Record batches of pyarrow as rows of numbers, for Parquet and CSV.

pyarrow is imported when it is first needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from mercer._typing import Array
from mercer.data.column_roles import ENCODE, assign_roles
from mercer.data.stream import Parts, Stream
from mercer.errors import ParameterError
from mercer.validation.rows import index_columns

_NUMBERS = ("int", "uint", "float", "double", "halffloat", "bool", "decimal", "null")


def pyarrow(purpose: str, module: str = "") -> Any:
    """Import pyarrow, or its submodule; raise a ValueError where it is not installed."""
    try:
        return import_module("pyarrow" + (f".{module}" if module else ""))
    except ImportError:
        raise ValueError(f"{purpose} needs pyarrow: pip install 'mercer[parquet]'.") from None


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes
    ----------
    name : str
    type : str
        The Arrow type of its values; "text" for all kinds of strings.
    size : int
        Length of its fixed-size lists; 0 for scalars.
    index : bool
        Whether it is the index of the pandas frame that was written: an input only where named.
    """

    name: str
    type: str
    size: int = 0
    index: bool = field(default=False, compare=False)

    @property
    def number(self) -> bool:
        return self.type.startswith(_NUMBERS)

    def names(self) -> list[str]:
        """Return the names of the inputs in a column of lists: "z[0]", "z[1]", ..."""
        return [f"{self.name}[{place}]" for place in range(self.size)]

    def __str__(self) -> str:
        return f"{self.type}[{self.size}]" if self.size else self.type


def describe_columns(schema: Any) -> list[Column]:
    """Return the columns of an Arrow schema; a dictionary has the type of its values."""
    types, index = pyarrow("Reading").types, index_columns(schema)
    columns = []
    for item in schema:
        kind, size = item.type, 0
        if types.is_fixed_size_list(kind):
            kind, size = kind.value_type, kind.list_size
        if types.is_dictionary(kind):
            kind = kind.value_type
        text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
        name = item.name
        columns.append(Column(name, "text" if text else str(kind), size, name in index))
    return columns


class Table:
    """A source of named columns that has been opened, from which a stream is made.

    Attributes
    ----------
    name : str
    columns : list of Column
    """

    name: str
    columns: list[Column]

    def stream(
        self, *, columns: Any, target: Any, weight: Any, kinds: Any = None, schema: Any = None
    ) -> Stream:
        """Return a stream of the rows, with these columns as inputs, target and weight."""
        raise NotImplementedError


class TableStream(Stream):
    """Rows of a table; a subclass passes the record batches that it reads to ``_parts``."""

    def _assign(
        self,
        source: str,
        table: Sequence[Column],
        columns: Any,
        target: Any,
        weight: Any,
        kinds: Any = None,
        schema: Any = None,
    ) -> None:
        """Set the roles of the table's columns; raise for columns of unsuitable types."""
        names = [column.name for column in table]
        index = [column.name for column in table if column.index]
        roles = assign_roles(
            source, names, columns=columns, target=target, weight=weight, index=index
        )
        self._inputs = [table[place] for place in roles.inputs]
        self._targets = [table[place] for place in roles.target]
        self._several = roles.several
        self._weights = None if roles.weight is None else table[roles.weight]
        self._used = self._inputs + self._targets
        if self._weights:
            self._used = [*self._used, self._weights]
        self._require_types(source)
        self.width = sum(column.size or 1 for column in self._inputs)
        if self.width == 0:
            raise ValueError(f"{source} has no input columns.")
        single = all(column.type == "float" for column in self._inputs)
        self.dtype = np.dtype(np.float32 if single else np.float64)
        self.columns = tuple(
            name
            for column in self._inputs
            for name in (column.names() if column.size else [column.name])
        )
        names = [column.name for column in self._targets]
        if names:
            self.target = names if self._several else names[0]
        if self._weights:
            self.weight = self._weights.name
        if columns is None:
            used = {column.name for column in self._used}
            self.left_out = tuple(name for name in index if name not in used)

    def _require_types(self, source: str) -> None:
        for column in self._inputs + ([self._weights] if self._weights else []):
            if not column.number:
                raise ParameterError(
                    "",
                    f"{source}: column {column.name!r} is {column.type}, and inputs must be "
                    "numbers or lists of them of one length. ",
                    *ENCODE,
                )
        for column in self._targets:
            if column.size or not (column.number or column.type == "text"):
                raise ValueError(
                    f"{source}: the target {column.name!r} is {column.type}, and must be numbers "
                    "or labels."
                )
        if self._weights and self._weights.size:
            raise ValueError(
                f"{source}: the weight {self._weights.name!r} holds lists, and must be one number "
                "for each row."
            )

    def _parts(self, batch: Any) -> Parts:
        """Return the inputs, target and weight of a record batch."""
        X = np.empty((batch.num_rows, self.width), self.dtype)
        at = 0
        for column in self._inputs:
            values = batch.column(column.name)
            if column.size:
                X[:, at : at + column.size] = _lists(values, column.size, self.dtype)
            else:
                X[:, at] = _floats(values, self.dtype)
            at += column.size or 1
        labels = [_labels(batch.column(column.name), column) for column in self._targets]
        y = None if not labels else np.column_stack(labels) if self._several else labels[0]
        weight = None
        if self._weights:
            weight = _floats(batch.column(self._weights.name), np.dtype(np.float64))
        return X, y, weight

    def _identity(self) -> dict[str, Any]:
        return {**super()._identity(), "types": [str(column) for column in self._used]}


def _lists(values: Any, size: int, dtype: np.dtype[Any]) -> Array:
    """Return (rows, size) numbers of a column of lists; nulls become NaN."""
    lists = _floats(values.flatten(), dtype).reshape(-1, size)
    if not values.null_count:
        return lists
    rows = np.full((len(values), size), np.nan, dtype)  # flatten() skips null lists
    rows[values.is_valid().to_numpy(zero_copy_only=False)] = lists
    return rows


def _floats(values: Any, dtype: np.dtype[Any]) -> Array:
    """Return numbers; nulls become NaN, which validation reports."""
    pa = pyarrow("Reading")
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if not pa.types.is_float16(values.type):  # pyarrow before version 20 has no cast of float16
        values = values.cast(pa.float32() if dtype == np.float32 else pa.float64(), safe=False)
    return np.asarray(values.to_numpy(zero_copy_only=False)).astype(dtype, copy=False)


def _labels(values: Any, column: Column) -> Array:
    """Return labels; nulls become NaN among numbers and None among text, for validation."""
    pa = pyarrow("Reading")
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if column.number and (values.null_count or column.type.startswith(("decimal", "null"))):
        values = values.cast(pa.float64(), safe=False)
    return np.asarray(values.to_numpy(zero_copy_only=False))
