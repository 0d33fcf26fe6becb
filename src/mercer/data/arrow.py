"""Record batches of pyarrow as rows of numbers, for Parquet and CSV.

pyarrow is imported when it is first needed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from mercer._typing import Array
from mercer.data._pyarrow import pyarrow as pyarrow
from mercer.data.cells import TEXT_TYPES, floats, lists
from mercer.data.column_roles import assign_roles, describe_missing
from mercer.data.stream import Parts, Stream
from mercer.data.table_schema import CATEGORY, TableSchema, infer_schema
from mercer.errors import ColumnTypeError
from mercer.parallel.warnings import warn
from mercer.validation.rows import index_columns

_T = TypeVar("_T")
_NUMBERS = ("int", "uint", "float", "double", "halffloat", "bool", "decimal", "null")


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
    dictionary : bool
        Whether it is encoded as a dictionary, as pandas writes categories.
    number : bool
        Whether its values are numbers.
    """

    name: str
    type: str
    size: int = 0
    index: bool = field(default=False, compare=False)
    dictionary: bool = field(default=False, compare=False)
    number: bool = field(default=False, compare=False)

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
        dictionary = types.is_dictionary(kind)
        if dictionary:
            kind = kind.value_type
        name, text = item.name, str(kind)
        number = text.startswith(_NUMBERS)
        text = "text" if text in TEXT_TYPES else text
        columns.append(Column(name, text, size, name in index, dictionary, number))
    return columns


class Table:
    """A source of named columns that has been opened, from which a stream is made.

    Attributes
    ----------
    name : str
    columns : list of Column
    decimal : str
        The decimal mark of numbers that are text.
    """

    name: str
    columns: list[Column]
    decimal = "."
    stream_class: ClassVar[Callable[..., TableStream]]

    def stream(self, **selection: Any) -> TableStream:
        """Return a stream of the rows.

        Parameters
        ----------
        columns, target, weight, kinds, schema
            Those of ``open_stream``; the last two may be left out.
        """
        return self.stream_class(self, **selection)

    def head(self) -> Any:
        """Return the first rows with the types of all columns, as a pyarrow.Table."""
        raise NotImplementedError


class TableStream(Stream):
    """Rows of a table; a subclass passes the record batches that it reads to ``_parts``."""

    declared: Mapping[str, str]  # kinds that were given, by name
    _table: Table
    _infers: bool  # whether kinds are inferred, not those of a schema
    _split: Callable[[Any], Array] | None = None  # keys of a record batch by group or time

    def record_batches(self, names: Sequence[str]) -> Iterator[Any]:
        """Yield record batches of some columns of all rows."""
        raise NotImplementedError

    @property
    def available(self) -> list[str]:
        """Names of all columns of the table."""
        return [column.name for column in self._table.columns]

    def with_schema(self) -> Self:
        """Return a copy of a stream of numbers with a schema, for columns with missing cells."""
        other = copy.copy(self)
        names = [column.name for column in self._inputs]
        other._set_schema(
            infer_schema(self.name, names, self._table.head(), decimal=self._table.decimal)
        )
        return other

    def retyped(self, column: str) -> Self:
        """Return this stream with a column retyped, for a ColumnTypeError that names it."""
        assert self.schema is not None
        other = copy.copy(self)
        other._set_schema(
            TableSchema(
                tuple(
                    each.retyped() if each.name == column else each for each in self.schema.columns
                )
            )
        )
        return other

    def _assign(
        self,
        source: str,
        table: Sequence[Column],
        *,
        columns: Any,
        target: Any,
        weight: Any,
        kinds: Any = None,
        schema: TableSchema | None = None,
    ) -> None:
        """Set the roles of the table's columns and their kinds; raise for unsuitable types."""
        self.declared, self._infers = dict(kinds or {}), schema is None
        names = [column.name for column in table]
        if schema is not None:
            columns = schema_inputs(source, names, columns, schema)
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
        plain = all(column.number and not column.dictionary for column in self._inputs)
        if schema is None and (kinds or not plain):
            inputs = [column.name for column in self._inputs]
            inferred = infer_schema(
                source, inputs, self._table.head(), kinds, decimal=self._table.decimal
            )
            if not (inferred.plain and plain):
                schema = inferred
        self.width = sum(column.size or 1 for column in self._inputs)
        single = all(column.type == "float" for column in self._inputs)
        self.dtype = np.dtype(np.float32 if single else np.float64)
        self.columns = tuple(
            name
            for column in self._inputs
            for name in (column.names() if column.size else [column.name])
        )
        self.schema = None
        if schema is not None:
            self._set_schema(schema)
        names = [column.name for column in self._targets]
        if names:
            self.target = names if self._several else names[0]
        if self._weights:
            self.weight = self._weights.name
        if columns is None:
            used = {column.name for column in self._used}
            self.left_out = tuple(name for name in index if name not in used)

    def _set_schema(self, schema: TableSchema) -> None:
        self.schema, self.columns, self.width = schema, schema.names, schema.width
        self.dtype = np.dtype(np.float64)

    def _require_types(self, source: str) -> None:
        """Raise for a target or a weight of an unsuitable type."""
        for column in self._targets:
            if column.size or not (column.number or column.type == "text"):
                raise ValueError(
                    f"{source}: the target {column.name!r} is {column.type}, and must be numbers "
                    "or labels."
                )
        if self._weights and (self._weights.size or not self._weights.number):
            kind = "holds lists" if self._weights.size else f"is {self._weights.type}"
            raise ValueError(
                f"{source}: the weight {self._weights.name!r} {kind}, and must be one number for "
                "each row."
            )

    def _parts(self, batch: Any) -> Parts:
        """Return the inputs, target, weight and keys of a record batch."""
        if self._infers and self.schema is not None:
            self.schema.refuse_codes(batch, self.declared)
        if self.schema is None:
            X, at = np.empty((batch.num_rows, self.width), self.dtype), 0
            for column in self._inputs:
                values = batch.column(column.name)
                if column.size:
                    X[:, at : at + column.size] = lists(values, column.size, self.dtype)
                else:
                    X[:, at] = floats(values, self.dtype)
                at += column.size or 1
        else:
            X = self.schema.matrix(batch)
        labels, pa = [], pyarrow("Reading")
        for column in self._targets:
            values = batch.column(column.name)
            if pa.types.is_dictionary(values.type):
                values = values.dictionary_decode()
            # nulls become NaN among numbers and None among text, for validation
            if column.number and (values.null_count or column.type.startswith(("decimal", "null"))):
                values = values.cast(pa.float64(), safe=False)
            labels.append(np.asarray(values.to_numpy(zero_copy_only=False)))
        y = None if not labels else np.column_stack(labels) if self._several else labels[0]
        weight = None
        if self._weights:
            weight = floats(batch.column(self._weights.name), np.dtype(np.float64))
        keys = () if self._split is None else (self._split(batch),)
        return X, y, weight, *keys

    def _identity(self) -> dict[str, Any]:
        return {**super()._identity(), "types": [str(column) for column in self._used]}


def read_retyped(stream: Stream, read: Callable[[Stream], _T]) -> tuple[Stream, _T]:
    """Return a stream and read(stream), read again where a column turns out to be of another type.

    Raises the ColumnTypeError of a column whose kind is declared, or of a schema.
    """
    while True:
        try:
            return stream, read(stream)
        except ColumnTypeError as error:
            if not isinstance(stream, TableStream) or not stream._infers:
                raise
            if error.column in stream.declared:
                raise
            stream = stream.retyped(error.column)
            warn_retyped(stream, error)


def warn_retyped(stream: Stream, error: ColumnTypeError) -> None:
    """Warn of a column that became categories by a cell of the later rows."""
    columns = () if stream.schema is None else stream.schema.columns
    if any(column.name == error.column and column.kind == CATEGORY for column in columns):
        warn(
            f"{error.before} {error.location or f'row {error.row}'}: the column is read as "
            "categories.",
            stacklevel=3,
        )


def schema_inputs(
    source: str, names: Sequence[str], columns: Any, schema: TableSchema
) -> list[str]:
    """Return the names of the columns of a schema; raise where some of them are not there."""
    if columns is not None:
        raise ValueError(f"{source}: schema= states the inputs; leave columns= out.")
    inputs = [column.name for column in schema.columns]
    missing = [name for name in inputs if name not in names]
    if missing:
        raise ValueError(f"{source}: the model needs {describe_missing(missing, names)}")
    return inputs
