"""Parquet files and folders, read file by file.

``ParquetFile.iter_batches`` with a small read buffer, not pyarrow's dataset reader, whose memory
grows with the file (apache/arrow issue 39808). A page or two of each column are in memory: one
column of fixed-size lists takes less, and is several times faster, than hundreds of scalar columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from mercer.data.arrow import pyarrow
from mercer.data.inputs import AnyPath, open_random
from mercer.data.table_files import TypedFilesTable, cast_batch

_BUFFER = 2**19  # bytes of read-ahead for one column
_BUFFERS = 64 * 2**20  # for all columns in use
_OPEN_FILES = 16  # files that stay open between passes


class ParquetTable(TypedFilesTable):
    """Parquet files. Each footer is read once.

    Up to 16 files stay open, so that further passes need not open them again.
    """

    kind = "parquet"

    def __init__(self, name: str, paths: Sequence[AnyPath], folder: AnyPath | None = None) -> None:
        pyarrow("Reading Parquet")
        super().__init__(name, paths, folder)
        # (buffer, file) of files that are open and not in use, by index
        self._idle: dict[int, list[tuple[int, Any]]] = {i: [] for i in range(len(paths))}
        schemas, self._lengths = [], list[int]()
        for i in range(len(paths)):
            with self.open(i) as file:
                schemas.append(file.schema_arrow)
                self._lengths.append(file.metadata.num_rows)
        self._set_schemas(schemas, self._lengths)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_idle": {i: [] for i in self._idle}}

    def batches(
        self, i: int, types: dict[str, Any], start: int, rows: int
    ) -> Iterator[tuple[int, Any]]:
        with self.open(i, len(types)) as file:
            if file.metadata.num_rows != self._lengths[i]:
                raise ValueError(f"{self.names[i]} has changed since it was opened.")
            groups = list(range(file.metadata.num_row_groups))
            at = 0  # row groups before `start` are not read
            while groups and at + file.metadata.row_group(groups[0]).num_rows <= start:
                at += file.metadata.row_group(groups.pop(0)).num_rows
            if not groups:  # pyarrow 18 and 19 refuse an empty list
                return
            for batch in file.iter_batches(rows, row_groups=groups, columns=list(types)):
                yield at, cast_batch(batch, types) if self.types else batch
                at += batch.num_rows

    @contextmanager
    def open(self, i: int, columns: int = 1) -> Iterator[Any]:
        """Return a ParquetFile that no other pass uses, with buffers for so many columns."""
        pa, parquet = pyarrow("Reading Parquet"), pyarrow("Reading Parquet", "parquet")
        wanted = min(_BUFFER, max(2**16, _BUFFERS // columns))
        idle = self._idle[i]
        try:
            try:
                buffer, file = idle.pop()
            except IndexError:  # none is open, or other threads use all of them
                buffer, file = 0, None
            if buffer != wanted:  # not open, or for fewer columns
                footer = None if file is None else file.metadata
                file = parquet.ParquetFile(
                    open_random(self.files.paths[i]),
                    metadata=footer,
                    pre_buffer=False,
                    buffer_size=wanted,
                )
            assert file is not None
            intact = False
            try:
                yield file
                intact = True
            except GeneratorExit:  # a pass that ends early
                intact = True
                raise
            finally:
                if intact and sum(map(len, self._idle.values())) < _OPEN_FILES:
                    idle.append((wanted, file))
                else:
                    file.close(force=True)  # and the source, which pyarrow did not open
        except FileNotFoundError:
            raise ValueError(f"{self.names[i]} does not exist any more.") from None
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"{self.names[i]} is damaged, or no Parquet file: {error}") from None
