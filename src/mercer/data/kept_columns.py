"""KeptColumns: columns of a table that are written beside predictions, row by row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from mercer._typing import Array
from mercer.data._pyarrow import pyarrow
from mercer.data.column_roles import describe_no_column
from mercer.data.table_files import FilesStream


class KeptColumns:
    """Columns of the files of a stream: integers and floats as such, others as text.

    Cells of CSV files and JSON lines are kept as they are written.

    Parameters
    ----------
    stream : FilesStream
    names : sequence of str

    Attributes
    ----------
    types : dict of names and NumPy dtypes
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
        self._read_as: dict[str, Any] = {}
        for name in names:
            kind = schema.field(name).type
            number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
            if not number or not stream.seeks:
                self.types[name], self._read_as[name] = np.dtype(object), pa.string()
            else:
                whole = pa.types.is_integer(kind)
                self.types[name] = np.dtype(np.int64 if whole else np.float64)
                self._read_as[name] = kind
        self._stream = stream
        self._batches = self._read()
        self._rest: Any = None

    def rows(self, count: int) -> dict[str, Array]:
        """Return the next rows of all columns."""
        parts: list[Any] = []
        while count:
            batch = self._rest if self._rest is not None else next(self._batches)
            size = min(count, batch.num_rows)
            parts.append(batch.slice(0, size))
            self._rest = batch.slice(size) if size < batch.num_rows else None
            count -= size
        pa = pyarrow("Reading")
        table = pa.Table.from_batches(parts)
        return {name: self._column(name, table.column(name)) for name in self.types}

    def _read(self) -> Iterator[Any]:
        table = self._stream._table
        for i in range(len(table.names)):
            rows = self._stream._chunk_rows(1)
            for _, batch in table.batches(i, self._read_as, 0, rows):
                if batch.num_rows:
                    yield batch

    def _column(self, name: str, values: Any) -> Array:
        pa = pyarrow("Reading")
        if self.types[name] == np.dtype(object):
            return np.array(values.cast(pa.string()).to_pylist(), dtype=object)
        if values.null_count and self.types[name].kind == "i":
            raise ValueError(
                f"{self._stream.name}: column {name!r} has integers and missing cells, and cannot "
                "be kept: fill them, or keep another column."
            )
        return np.asarray(values.to_numpy()).astype(self.types[name], copy=False)
