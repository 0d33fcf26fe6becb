"""Tables of files of one format, read one after the other: what Parquet, CSV and others share."""

from __future__ import annotations

import copy
import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate
from typing import Any, Self

import numpy as np

from mercer._typing import Array
from mercer.data.arrow import Column, Table, TableStream, describe_columns, pyarrow
from mercer.data.column_roles import COLUMNS, describe_no_column
from mercer.data.files import FileSet, describe_row
from mercer.data.inputs import AnyPath, files_in
from mercer.data.row_keys import row_keys, time_keys
from mercer.data.stream import Parts
from mercer.data.table_schema import (
    CATEGORY,
    DATE,
    NUMBER,
    TEXT,
    TYPED,
    TableColumn,
    TableSchema,
    describe_ambiguous_dates,
    infer_schema,
)
from mercer.errors import ParameterError, RowError

HEAD_ROWS = 1000
_FILES = 16  # after the first, that are opened for the types of columns without values


class FilesTable(Table):
    """Files of one format with the columns of each.

    A subclass sets ``columns``, ``columns_of_files`` and, where they are known, ``ends``; it
    implements ``batches``.

    Parameters
    ----------
    name : str
    paths : sequence of paths
    folder : path, optional
        The folder of the files, which is searched for new ones before and after each pass.

    Attributes
    ----------
    kind : str
        The format, in the fingerprint of a stream.
    ends : list of int or None
        Index of the row after the last row of each file; None where files must be read for it.
    notes : tuple of str
        Sentences about how the files are read.
    """

    kind: str
    ends: list[int] | None = None
    notes: tuple[str, ...] = ()
    columns_of_files: list[list[Column]]

    def __init__(self, name: str, paths: Sequence[AnyPath], folder: AnyPath | None = None) -> None:
        folders = [os.path.dirname(str(path)) for path in paths]
        shared = os.path.commonpath(folders)
        self.name = name
        self.names = [os.path.relpath(str(path), shared).replace(os.sep, "/") for path in paths]
        self.files = FileSet(
            paths, self.names, None if folder is None else partial(files_in, folder)
        )

    def read_types(self, stream: FilesStream) -> dict[str, Any]:
        """Return the Arrow types that the columns of a stream are read with."""
        raise NotImplementedError

    def batches(
        self, i: int, types: dict[str, Any], start: int, rows: int
    ) -> Iterator[tuple[int, Any]]:
        """Yield record batches of file i, each with the index of its first row in the file.

        Parameters
        ----------
        types : dict of names and Arrow types
            The columns to read.
        start : int
            The first row that is needed; batches may begin before it.
        rows : int
            Rows of a batch, where the format allows it.
        """
        raise NotImplementedError


class FilesStream(TableStream):
    """Rows of files, one file after the other."""

    _table: FilesTable
    _beside: Column | None = None  # the column of groups or times

    def __init__(self, table: FilesTable, **selection: Any) -> None:
        super().__init__(table.name)
        self.kind, self._files, self._selection = table.kind, table.files, selection
        self._set_table(table)
        # by file; grows in the first pass where the files do not state it
        self._ends = [] if table.ends is None else table.ends
        self.rows = table.ends[-1] if table.ends else None

    def _set_table(self, table: FilesTable) -> None:
        self._table, self.notes = table, table.notes
        self._assign(table.names[0], table.columns, **self._selection)
        if self._beside is not None:
            self._used = [*self._used, self._beside]
        if self.schema is not None and self._infers:
            self.notes += tuple(describe_ambiguous_dates(self.schema, table.head()))
        for i in range(1, len(table.names)):
            all_used = self._selection["columns"] is None and self._infers
            self._require_columns(i, all_used=all_used)

    def with_group_column(self, name: str) -> Self:
        """Return this stream with a column of groups, which is no input."""
        other = self._with_column("group", name)
        other._split = partial(_group_keys, TableSchema((TableColumn(name, CATEGORY),)))
        other.group = name
        return other

    def with_time_column(self, name: str) -> Self:
        """Return this stream with a column of times, which is no input; it is read once for them.

        Raises a ValueError where a time is missing.
        """
        other = self._with_column("time", name)
        schema = infer_schema(self.name, [name], self._table.head(), decimal=self._table.decimal)
        parts = [schema.matrix(batch)[:, 0] for batch in other.record_batches([name])]
        times = np.concatenate(parts)
        missing = np.flatnonzero(np.isnan(times))
        kind = schema.columns[0].kind
        if len(missing) or kind not in (NUMBER, DATE):
            what = f"it is missing in row {missing[0]}" if len(missing) else f"it is a {kind}"
            raise ValueError(
                f"{self.name}: the time {name!r} must be a number or a date in every row; {what}."
            )
        other._split = partial(_time_keys, schema, np.sort(times))
        other.time = name
        return other

    def _with_column(self, role: str, name: str) -> Self:
        """Return a copy that reads one more column, which has no other role."""
        if name in {column.name for column in self._used}:
            raise ValueError(f"{self.name}: column {name!r} cannot be the {role} and another role.")
        columns = {column.name: column for column in self._table.columns}
        if name not in columns:
            raise ValueError(describe_no_column(self.name, list(columns), role, name))
        other = copy.copy(self)
        other._beside = columns[name]
        other._used = [*self._used, other._beside]
        return other

    def where(self, row: int) -> str:
        i = min(bisect_right(self._ends, row), len(self._table.names) - 1)
        return describe_row(self._table.names[i], row - (self._ends[i - 1] if i else 0))

    def _read(self, start: int, rows: int) -> Iterator[Parts]:
        types = self._table.read_types(self)
        rows = self._chunk_rows(rows)
        begin = 0  # first row of the file
        for i in range(len(self._table.names)):
            if i < len(self._ends) and self._ends[i] <= start:
                begin = self._ends[i]
                continue
            end = begin
            for at, batch in self._batches(i, begin, types, max(0, start - begin), rows):
                skip = max(0, start - begin - at)
                end = begin + at + batch.num_rows
                if skip < batch.num_rows:
                    yield self._parts(batch.slice(skip) if skip else batch)
            if len(self._ends) == i:
                self._ends.append(end)
            begin = end
        if start > begin:
            raise ValueError(
                f"{self.name} has {begin} rows: there is no row {start} to start from."
            )

    def _batches(
        self, i: int, begin: int, types: dict[str, Any], start: int, rows: int
    ) -> Iterator[tuple[int, Any]]:
        """Yield the batches of file i, whose first row is row `begin`; errors say where."""
        try:
            yield from self._table.batches(i, types, start, rows)
        except RowError as error:
            raise self.locate(error, begin) from None

    def record_batches(self, names: Sequence[str]) -> Iterator[Any]:
        """Yield record batches of some columns of all rows, with the types that they are read with.

        Unlike ``chunks`` it does not check the files for changes.
        """
        types = self._table.read_types(self)
        for i in range(len(self._table.names)):
            some = {name: types[name] for name in names}
            for _, batch in self._table.batches(i, some, 0, self._chunk_rows(1)):
                yield batch

    def _require_columns(self, i: int, *, all_used: bool) -> None:
        """Require the columns in use to be those of the first file, and no others if all are."""
        columns = {column.name: column for column in self._table.columns_of_files[i]}
        name, first = self._table.names[i], self._table.names[0]
        for column in self._used:
            other = columns.pop(column.name, None)
            if other is None:
                raise ValueError(f"{name} has no column {column.name!r}, which {first} has.")
            if other != column:
                raise ValueError(
                    f"{name}: column {column.name!r} is {_describe(other)}, and in {first} it is "
                    f"{_describe(column)}."
                )
            if all_used and other.index and not column.index and column in self._inputs:
                text = (
                    f"{name}: column {column.name!r} is the index of a pandas frame, and in "
                    f"{first} it is an ordinary column: choose "
                )
                raise ParameterError("", text, COLUMNS, ".")
        if not all_used:
            return
        for column in columns.values():
            if not column.index and column.name not in self.left_out:
                text = f"{name} has a column {column.name!r}, which {first} has not: choose "
                raise ParameterError("", text, COLUMNS, ".")


def _group_keys(schema: TableSchema, batch: Any) -> Array:
    return row_keys(schema.matrix(batch))


def _time_keys(schema: TableSchema, ordered: Array, batch: Any) -> Array:
    return time_keys(schema.matrix(batch)[:, 0], ordered)


class TextFilesStream(FilesStream):
    """Rows of files of text, whose columns may turn out to be of another type than at first."""

    seeks = False
    _table: TextFilesTable

    def retyped(self, column: str) -> TextFilesStream:
        """Return this stream with a column that is read as text; whole numbers as real ones first.

        For a ColumnTypeError, which names the column.
        """
        pa = pyarrow("Reading")
        kind = self._table.read_types(self)[column]
        other = copy.copy(self)
        if pa.types.is_string(kind):  # of texts that are numbers or dates in the first rows
            described = () if self.schema is None else self.schema.columns
            if any(each.name == column and each.retyped().kind == DATE for each in described):
                return super().retyped(column)
            other._selection = {**self._selection, "kinds": {**self.declared, column: CATEGORY}}
            other._set_table(self._table)
            return other
        whole = pa.types.is_integer(kind)
        other._set_table(self._table.retyped(column, pa.float64() if whole else pa.string()))
        return other


class TypedFilesTable(FilesTable):
    """Files whose columns have types, and whose numbers of rows are known: Parquet and Arrow.

    Types of one column that differ between files are unified: int64 and double become double, and
    a column without values takes any type. Others are left as they are, which a stream refuses.
    """

    stream_class = FilesStream

    def _set_schemas(self, schemas: Sequence[Any], lengths: Sequence[int]) -> None:
        """Set the columns of the files by their Arrow schemas, and the last rows of files."""
        self.types = unify_types(schemas) if len(schemas) > 1 else {}
        self.columns_of_files = [
            describe_columns(_with_types(schema, self.types) if self.types else schema)
            for schema in schemas
        ]
        self.columns = self.columns_of_files[0]
        self.ends = list(accumulate(lengths))
        if self.ends[-1] == 0:
            raise ValueError(f"{self.name} has no rows.")

    def read_types(self, stream: FilesStream) -> dict[str, Any]:
        return {column.name: self.types.get(column.name) for column in stream._used}

    def head(self) -> Any:
        pa = pyarrow("Reading")
        assert self.ends is not None
        i = bisect_right(self.ends, 0)  # the first file that has rows
        types = {column.name: self.types.get(column.name) for column in self.columns}
        _, batch = next(self.batches(i, types, 0, HEAD_ROWS))
        return pa.Table.from_batches([batch.slice(0, HEAD_ROWS)])


class TextFilesTable(FilesTable):
    """Files of text, whose types are inferred from the first rows: CSV and JSON lines.

    Numbers of inputs are read as float64. A subclass implements ``_first_batches`` and calls
    ``_infer_types`` when it has been opened.
    """

    stream_class = TextFilesStream

    def __init__(self, name: str, paths: Sequence[AnyPath], folder: AnyPath | None = None) -> None:
        super().__init__(name, paths, folder)
        self._declared: dict[str, Any] = {}  # types that are not inferred
        self.words: frozenset[str] = frozenset()  # columns of yes and no

    def stream(self, **selection: Any) -> TableStream:
        table, target = self, selection["target"]
        for name in self.words & {*(target if isinstance(target, list | tuple) else [target])}:
            # predictions are yes and no, not True and False
            table = table.retyped(name, pyarrow("Reading").string())
        return super(TextFilesTable, table).stream(**selection)

    def _first_batches(self) -> Iterator[Any]:
        """Yield the first rows of each file that has some, columns of ``_declared`` as such types.

        Raises where no file has rows.
        """
        raise NotImplementedError

    def _infer_types(self) -> None:
        pa = pyarrow("Reading")
        batches = self._first_batches()
        batch = next(batches)
        self._types = {item.name: _wider_type(item.type) for item in batch.schema}
        for _ in range(_FILES):  # for the types of columns that are empty in the files before
            empty = [name for name, kind in self._types.items() if pa.types.is_null(kind)]
            other = next(batches, None) if empty else None
            if other is None:
                break
            for name in {*empty}.intersection(other.schema.names):
                self._types[name] = _wider_type(other.schema.field(name).type)
        self._head = pa.Table.from_batches([cast_batch(batch.slice(0, HEAD_ROWS), self._types)])
        self.columns = describe_columns(self._head.schema)

    def head(self) -> Any:
        return self._head

    def retyped(self, column: str, kind: Any) -> TextFilesTable:
        """Return this table with another type of a column."""
        other = copy.copy(self)
        other._declared = {**self._declared, column: kind}
        other._infer_types()
        return other

    def read_types(self, stream: FilesStream) -> dict[str, Any]:
        pa = pyarrow("Reading")
        schema = getattr(stream, "schema", None)
        declared = {} if schema is None else {column.name: column for column in schema.columns}
        types = {}
        for column in stream._used:
            kind = self._types[column.name]
            is_target, described = column in stream._targets, declared.get(column.name)
            if described is not None and not is_target and _needs_text(described, column):
                kind = pa.string()
            elif pa.types.is_null(kind) or (column.number and not is_target):
                kind = kind if pa.types.is_boolean(kind) else pa.float64()
            types[column.name] = kind
        return types


def _needs_text(described: Any, column: Column) -> bool:
    """Return whether cells must be read as they are written: categories, and dates of a format."""
    if described.kind in (CATEGORY, TEXT):
        return described.format != TYPED
    return described.kind == DATE and column.number and described.format not in ("", "%s")


def _wider_type(kind: Any) -> Any:
    """Return the type that dates are read with: of microseconds, so that times may follow."""
    pa = pyarrow("Reading")
    plain = pa.types.is_timestamp(kind) and kind.tz is None
    return pa.timestamp("us") if plain or pa.types.is_date(kind) else kind


def unify_types(schemas: Sequence[Any]) -> dict[str, Any]:
    """Return the types of columns that differ between Arrow schemas and can be unified."""
    pa = pyarrow("Reading")
    types: dict[str, Any] = {}
    unified: dict[str, Any] = {}
    for schema in schemas:
        for item in schema:
            name, kind = item.name, _value_type(item.type)
            before = types.setdefault(name, kind)
            if before == kind or pa.types.is_nested(kind) or pa.types.is_nested(before):
                continue
            fields = [pa.schema([(name, each)]) for each in (before, kind)]
            try:
                merged = pa.unify_schemas(fields, promote_options="permissive").field(name).type
            except (pa.ArrowTypeError, pa.ArrowInvalid):
                continue
            if pa.types.is_binary(merged):
                continue
            types[name] = unified[name] = merged
    return unified


def cast_batch(batch: Any, types: dict[str, Any]) -> Any:
    """Return a record batch of the columns of `types`, cast where a type is given."""
    pa = pyarrow("Reading")
    arrays = []
    for name, kind in types.items():
        values = batch.column(name)
        if kind is not None and values.type != kind:
            if pa.types.is_dictionary(values.type):
                values = values.dictionary_decode()
            values = values.cast(kind, safe=False)
        arrays.append(values)
    return pa.RecordBatch.from_arrays(arrays, list(types))


def _value_type(kind: Any) -> Any:
    pa = pyarrow("Reading")
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return pa.string() if pa.types.is_large_string(kind) or pa.types.is_string_view(kind) else kind


def _with_types(schema: Any, types: dict[str, Any]) -> Any:
    for place, item in enumerate(schema):
        if item.name in types:
            schema = schema.set(place, item.with_type(types[item.name]))
    return schema


def _describe(column: Column) -> str:
    return f"{column.type}, {column.size} to a row" if column.size else column.type
