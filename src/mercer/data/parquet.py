"""Parquet files and folders, read file by file.

``ParquetFile.iter_batches`` with a small read buffer, not pyarrow's dataset reader, whose memory
grows with the file (apache/arrow issue 39808). A page or two of each column are in memory: one
column of fixed-size lists takes less, and is several times faster, than hundreds of scalar columns.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

from mercer.data.arrow import Column, Table, TableStream, describe_columns, pyarrow
from mercer.data.column_roles import COLUMNS
from mercer.data.files import FileSet, FileStream, describe_row
from mercer.data.stream import Parts, Stream
from mercer.errors import ParameterError

_BUFFER = 2**19  # bytes of read-ahead for one column
_BUFFERS = 64 * 2**20  # for all columns in use
_OPEN_FILES = 16  # files that stay open between passes


def files_in(folder: Path) -> list[Path]:
    """Return the Parquet files of a folder and its subfolders, sorted by name.

    Hidden files and those that start with an underscore are not data.
    """
    files = []
    for path in sorted(folder.rglob("*.parquet")):
        parts = path.relative_to(folder).parts
        if any(part.startswith((".", "_")) for part in parts) or not path.is_file():
            continue
        if any("=" in part for part in parts[:-1]):
            raise ValueError(
                f"{folder.name}/{'/'.join(parts)}: columns kept in folder names are not read. "
                "Write them into the files."
            )
        files.append(path)
    if not files:
        raise ValueError(f"The folder {folder} has no .parquet files.")
    return files


class ParquetTable(Table):
    """Parquet files with their columns and numbers of rows. Each footer is read once.

    Up to 16 files stay open, so that further passes need not open them again.

    Parameters
    ----------
    name : str
    paths : sequence of Path
    folder : Path, optional
        The folder of the files, which is searched for new ones before and after each pass.
    """

    def __init__(self, name: str, paths: Sequence[Path], folder: Path | None = None) -> None:
        pyarrow("Reading Parquet")
        self.name = name
        shared = os.path.commonpath([path.parent.absolute() for path in paths])
        self.names = [path.absolute().relative_to(shared).as_posix() for path in paths]
        self.files = FileSet(
            paths, self.names, None if folder is None else partial(files_in, folder)
        )
        # (buffer, file) of files that are open and not in use, by index
        self._idle: dict[int, list[tuple[int, Any]]] = {i: [] for i in range(len(paths))}
        self.columns_of_files: list[list[Column]] = []
        lengths = []
        for i in range(len(paths)):
            with self.open(i) as file:
                self.columns_of_files.append(describe_columns(file.schema_arrow))
                lengths.append(file.metadata.num_rows)
        self.columns = self.columns_of_files[0]
        self.ends = list(accumulate(lengths))  # index of the row after the last row of each file
        if self.ends[-1] == 0:
            raise ValueError(f"{name} has no rows.")

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_idle": {i: [] for i in self._idle}}

    def stream(self, *, columns: Any, target: Any, weight: Any) -> Stream:
        return ParquetStream(self, columns=columns, target=target, weight=weight)

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
                    self.files.paths[i], metadata=footer, pre_buffer=False, buffer_size=wanted
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
                    file.close()
        except FileNotFoundError:
            raise ValueError(f"{self.names[i]} does not exist any more.") from None
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"{self.names[i]} is damaged, or no Parquet file: {error}") from None


class ParquetStream(FileStream, TableStream):
    """Rows of Parquet files, one after the other."""

    kind = "parquet"

    def __init__(self, table: ParquetTable, *, columns: Any, target: Any, weight: Any) -> None:
        super().__init__(table.name)
        self._table, self._files = table, table.files
        self.rows = table.ends[-1]
        self._assign(table.names[0], table.columns, columns, target, weight)
        for i in range(1, len(table.names)):
            self._require_columns(i, all_used=columns is None)

    def where(self, row: int) -> str:
        ends = self._table.ends
        i = min(bisect_right(ends, row), len(ends) - 1)
        return describe_row(self._table.names[i], row - (ends[i - 1] if i else 0))

    def _read(self, start: int, rows: int) -> Iterator[Parts]:
        names = [column.name for column in self._used]
        rows = self._chunk_rows(rows)
        begin = 0
        for i, end in enumerate(self._table.ends):
            skip = max(0, start - begin)  # rows of this file before `start`
            if start < end:
                with self._table.open(i, len(names)) as file:
                    if file.metadata.num_rows != end - begin:
                        raise ValueError(f"{self._table.names[i]} has changed since it was opened.")
                    groups = list(range(file.metadata.num_row_groups))
                    while groups and file.metadata.row_group(groups[0]).num_rows <= skip:
                        skip -= file.metadata.row_group(groups.pop(0)).num_rows
                    for batch in file.iter_batches(rows, row_groups=groups, columns=names):
                        if skip < batch.num_rows:
                            yield self._parts(batch.slice(skip) if skip else batch)
                        skip = max(0, skip - batch.num_rows)
            begin = end

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


def _describe(column: Column) -> str:
    return f"{column.type}, {column.size} to a row" if column.size else column.type
