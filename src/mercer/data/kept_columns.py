"""KeptColumns: columns of a table that are written beside predictions, row by row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mercer.data._pyarrow import pyarrow
from mercer.data.column_roles import describe_no_column
from mercer.data.table_files import FilesStream


class KeptColumns:
    """Columns of the files of a stream, with their types; cells of CSV files as they are written.

    Parameters
    ----------
    stream : FilesStream
    names : sequence of str

    Attributes
    ----------
    types : dict of names and Arrow types
    """

    def __init__(self, stream: FilesStream, names: Sequence[str]) -> None:
        pa = pyarrow("Reading")
        table = stream._table
        columns = {column.name for column in table.columns}
        for name in names:
            if name not in columns:
                raise ValueError(describe_no_column(stream.name, sorted(columns), "keep", name))
        schema = table.head().schema
        self.types: dict[str, Any] = {}
        for name in names:
            kind = schema.field(name).type
            kind = kind.value_type if pa.types.is_dictionary(kind) else kind
            if stream.kind == "csv" or pa.types.is_null(kind) or pa.types.is_string_view(kind):
                kind = pa.string()
            self.types[name] = pa.float64() if pa.types.is_floating(kind) else kind
        self._stream = stream
        self._batches = self._read()
        self._rest: Any = None

    def rows(self, count: int) -> dict[str, Any]:
        """Return the next rows of all columns, as Arrow arrays."""
        parts: list[Any] = []
        while count:
            batch = self._rest if self._rest is not None else next(self._batches)
            size = min(count, batch.num_rows)
            parts.append(batch.slice(0, size))
            self._rest = batch.slice(size) if size < batch.num_rows else None
            count -= size
        pa = pyarrow("Reading")
        table = pa.Table.from_batches(parts)
        return {name: table.column(name).combine_chunks() for name in self.types}

    def _read(self) -> Iterator[Any]:
        table = self._stream._table
        for i in range(len(table.names)):
            rows = self._stream._chunk_rows(1)
            for _, batch in table.batches(i, self.types, 0, rows):
                if batch.num_rows:
                    yield batch
