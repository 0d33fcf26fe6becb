"""Streams of Parquet files and folders, file by file.

ParquetFile.iter_batches with a small read buffer, and not pyarrow's dataset reader, whose memory
grows with the file (apache/arrow issue 39808). What is held is a page or two of each column: one
column of fixed-size lists is lighter, and several times faster, than hundreds of scalar columns.
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

from mercer.data.arrow import TableStream, describe, pyarrow, skip
from mercer.data.column_roles import COLUMNS
from mercer.data.files import FileSet, FileStream, place
from mercer.errors import ParameterError

_BUFFER = 2**20  # of one column's read-ahead
_BUFFERS = 64 * 2**20  # of all of them


def files_in(folder: Path) -> list[Path]:
    """The Parquet files of a folder and its subfolders by name; hidden ones and those that start
    with an underscore are no data.
    """
    found = []
    for path in sorted(folder.rglob("*.parquet")):
        parts = path.relative_to(folder).parts
        if any(part.startswith((".", "_")) for part in parts) or not path.is_file():
            continue
        if any("=" in part for part in parts[:-1]):
            raise ValueError(
                f"{folder.name}/{'/'.join(parts)}: columns kept in folder names are not read. "
                "Write them into the files."
            )
        found.append(path)
    if not found:
        raise ValueError(f"The folder {folder} has no .parquet files.")
    return found


class ParquetStream(FileStream, TableStream):
    """Rows of Parquet files, one after the other."""

    kind = "parquet"

    def __init__(
        self,
        name: str,
        paths: Sequence[Path],
        *,
        folder: Path | None = None,
        columns: Any,
        target: Any,
        weight: Any,
    ) -> None:
        pyarrow("Reading Parquet")
        super().__init__(name)
        shared = os.path.commonpath([path.parent.absolute() for path in paths])
        self._names = [path.absolute().relative_to(shared).as_posix() for path in paths]
        self._files = FileSet(
            paths, self._names, None if folder is None else partial(files_in, folder)
        )
        self._all = columns is None
        lengths = []
        for i in range(len(paths)):
            with self._open(i) as file:
                if i == 0:
                    self._assign(
                        self._names[0], describe(file.schema_arrow), columns, target, weight
                    )
                self._require_schema(i, file)
                lengths.append(file.metadata.num_rows)
        self._ends = list(accumulate(lengths))
        self.rows = self._ends[-1]
        if self.rows == 0:
            raise ValueError(f"{name} has no rows.")

    def where(self, row: int) -> str:
        file = min(bisect_right(self._ends, row), len(self._ends) - 1)
        return place(self._names[file], row - (self._ends[file - 1] if file else 0))

    def _batches(self, start: int, rows: int) -> Iterator[Any]:
        names = [column.name for column in self._used]
        buffer = min(_BUFFER, max(2**16, _BUFFERS // len(names)))
        begin = 0
        for i, end in enumerate(self._ends):
            if start < end:
                with self._open(i, buffer) as file:
                    self._require_schema(i, file)
                    if file.metadata.num_rows != end - begin:
                        raise ValueError(f"{self._names[i]} has changed since it was opened.")
                    yield from _from_row(file, max(0, start - begin), rows, names, self._names[i])
            begin = end

    @contextmanager
    def _open(self, i: int, buffer: int = _BUFFER) -> Iterator[Any]:
        pa, parquet = pyarrow("Reading Parquet"), pyarrow("Reading Parquet", "parquet")
        try:
            with parquet.ParquetFile(
                self._files.paths[i], pre_buffer=False, buffer_size=buffer
            ) as file:
                yield file
        except FileNotFoundError:
            raise ValueError(f"{self._names[i]} is not there any more.") from None
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"{self._names[i]} is damaged, or no Parquet file: {error}") from None

    def _require_schema(self, i: int, file: Any) -> None:
        """The columns in use are those of the first file; where all are in use, there are no
        others.
        """
        found = {column.name: column for column in describe(file.schema_arrow)}
        name, first = self._names[i], self._names[0]
        for column in self._used:
            other = found.pop(column.name, None)
            if other is None:
                raise ValueError(f"{name} has no column {column.name!r}, which {first} has.")
            if other != column:
                raise ValueError(
                    f"{name}: column {column.name!r} is {_words(other)}, and in {first} it is "
                    f"{_words(column)}."
                )
            if self._all and other.index and not column.index and column in self._inputs:
                sentence = (
                    f"{name}: column {column.name!r} is the index of a pandas frame, and in "
                    f"{first} it is an ordinary "
                    "column: choose "
                )
                raise ParameterError("", sentence, COLUMNS, ".")
        new = next(
            (
                column.name
                for column in found.values()
                if not column.index and column.name not in self.left_out
            ),
            None,
        )
        if self._all and new is not None:
            raise ParameterError(
                "", f"{name} has a column {new!r}, which {first} has not: choose ", COLUMNS, "."
            )


def _from_row(file: Any, start: int, rows: int, names: list[str], name: str) -> Iterator[Any]:
    """The batches of a file from row `start` on; row groups before it are not read."""
    groups = list(range(file.metadata.num_row_groups))
    while groups and file.metadata.row_group(groups[0]).num_rows <= start:
        start -= file.metadata.row_group(groups.pop(0)).num_rows
    yield from skip(file.iter_batches(rows, row_groups=groups, columns=names), start, name)


def _words(column: Any) -> str:
    return f"{column.type}, {column.size} to a row" if column.size else column.type
