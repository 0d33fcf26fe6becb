"""Tables in memory: Arrow tables, and data frames whose columns are not all numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from mercer.data._pyarrow import pyarrow
from mercer.data.arrow import Table, TableStream, describe_columns
from mercer.data.stream import Parts, hash_rows

_HEAD_ROWS = 1000


class ArrowTableStream(TableStream):
    """Rows of an Arrow table; record batches are slices of it, without copies."""

    kind = "arrow"

    def __init__(self, table: ArrowTable, **selection: Any) -> None:
        super().__init__(table.name)
        self._table, self.rows = table, table.table.num_rows
        self._assign(table.name, table.columns, **selection)
        names = [column.name for column in self._used]
        self._rows = table.table.select(names).unify_dictionaries()
        # all that another process needs of it
        self._table = ArrowTable(_copy_rows(table.table, 0, _HEAD_ROWS), table.name)

    def _read(self, start: int, rows: int) -> Iterator[Parts]:
        assert self.rows is not None
        step = self._chunk_rows(rows)
        for at in range(start, self.rows, step):
            # one record batch; a copy where the rows span several
            rows_of_chunk = self._rows.slice(at - self._first, step).combine_chunks()
            yield self._parts(rows_of_chunk.to_batches()[0])

    def record_batches(self, names: Sequence[str]) -> Iterator[Any]:
        yield from self._rows.select(names).to_batches(self._chunk_rows(1))

    def values_in_memory(self, start: int, stop: int) -> dict[str, Any]:
        rows = _copy_rows(self._rows, start, stop)
        return {**super().values_in_memory(start, stop), "_rows": rows}

    def _identity(self) -> dict[str, Any]:
        assert self.rows is not None
        identity = {**super()._identity(), "rows": self.rows}
        return {**identity, **hash_rows(self, self.rows, self.width * self.dtype.itemsize)}


class ArrowTable(Table):
    """An Arrow table in memory.

    Parameters
    ----------
    table : pyarrow.Table
    name : str
    """

    stream_class = ArrowTableStream

    def __init__(self, table: Any, name: str = "the Arrow table") -> None:
        if not table.num_rows:
            raise ValueError(f"{name} has no rows.")
        self.name, self.table = name, table
        self.columns = describe_columns(table.schema)

    def head(self) -> Any:
        return self.table.slice(0, _HEAD_ROWS)


def open_arrow(source: Any) -> ArrowTable:
    """Return the table of an object with ``__arrow_c_stream__``, without copies."""
    pa = pyarrow("Reading an Arrow table")
    return ArrowTable(source if isinstance(source, pa.Table) else pa.table(source))


def _copy_rows(table: Any, start: int, stop: int) -> Any:
    """Return rows as a table of their own: a slice is pickled with all rows of its source."""
    return table.take(np.arange(start, min(stop, table.num_rows)))
