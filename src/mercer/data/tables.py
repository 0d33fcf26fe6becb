"""Tables as they are: all columns of a CSV or Parquet file with their own types, for copying and
for lists of names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mercer.data.arrow import Column, describe, pyarrow
from mercer.data.csv import DELIMITERS, block_bytes, open_csv, require_header
from mercer.data.files import FileSet, one_file
from mercer.data.parquet import files_in
from mercer.data.stream import Watch
from mercer.data.writers import csv_writer
from mercer.persistence.atomic_write import replacing

_CSV_BLOCK = 2**24  # bytes in which the types of columns are found
_GROUP_BYTES = 32 * 2**20  # that are written at once: a row group of Parquet


@dataclass(frozen=True, eq=False)
class Table:
    """A file, or a folder of files, of named columns. read() gives its record batches; rows is None
    where only that can tell.

    The schema has the metadata of pandas where there is one: it says which columns are an index.
    """

    name: str
    schema: Any
    rows: int | None
    read: Callable[[], Iterator[Any]]

    @property
    def columns(self) -> list[Column]:
        return describe(self.schema)


class Misfit(ValueError):
    """A value that is not of the type that a column of a CSV file has in the first rows; wider is a
    type that may hold both.
    """

    def __init__(self, name: str, column: str, kind: str) -> None:
        super().__init__(
            f"{name}: column {column!r} is {kind} in the first rows, and something else further on."
        )
        self.column, self.wider = column, {"null": "int64", "int64": "double"}.get(kind, "string")


def open_table(path: str | os.PathLike[str], types: dict[str, str] | None = None) -> Table | None:
    """The table in a .csv, .tsv or .parquet file, or in a folder of Parquet files; None for all
    else.

    The types of the columns of a CSV file are those of its first rows, where `types` does not name
    them.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if path.is_dir() or (suffix == ".parquet" and path.is_file()):
        return _parquet(path)
    return _csv(path, types or {}) if suffix in DELIMITERS and path.is_file() else None


def copy_table(table: Table, path: Path, watch: Watch = lambda row, rows: None) -> int:
    """Write a table to a .csv, .tsv or .parquet file, whole or not at all; how many rows there
    were.
    """
    pa = pyarrow("Writing")
    suffix, done = path.suffix.lower(), 0
    lists = next((column.name for column in table.columns if column.size), None)
    if suffix in DELIMITERS and lists is not None:
        raise ValueError(
            f"{path.name}: column {lists!r} has lists, which {suffix} has not: write .parquet or "
            ".npy."
        )
    watch(0, table.rows)
    with replacing(path) as file:
        try:
            writer = _writer(file, table.schema, suffix)
            try:
                for group in _groups(table.read()):
                    writer.write_table(group)
                    done += group.num_rows
                    watch(done, table.rows)
            except BaseException:
                with suppress(Exception):
                    writer.close()
                raise
            writer.close()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise ValueError(f"{table.name} cannot be written as {suffix}: {error}") from None
    return done


def _groups(batches: Iterator[Any]) -> Iterator[Any]:
    """The same rows in tables of about 32 MiB."""
    pa = pyarrow("Writing")
    waiting: list[Any] = []
    for batch in batches:
        waiting.append(batch)
        if sum(one.nbytes for one in waiting) >= _GROUP_BYTES:
            yield pa.Table.from_batches(waiting).combine_chunks()
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting).combine_chunks()


def _with_pandas(schema: Any) -> Any:
    """The schema with no metadata but that of pandas."""
    kept = {key: value for key, value in (schema.metadata or {}).items() if key == b"pandas"}
    return schema.with_metadata(kept or None)


def _writer(file: Any, schema: Any, suffix: str) -> Any:
    if suffix in DELIMITERS:
        return csv_writer(file, schema.remove_metadata(), DELIMITERS[suffix])
    return pyarrow("Writing Parquet", "parquet").ParquetWriter(file, schema)


def _csv(path: Path, types: dict[str, str]) -> Table:
    pa, state = pyarrow("Reading CSV"), one_file(path)
    block = max(_CSV_BLOCK, block_bytes(path))
    chosen = {name: pa.type_for_alias(kind) for name, kind in types.items()}

    def read() -> Iterator[Any]:
        try:
            yield from open_csv(path, block, column_types=chosen)
            state.require_same()
        except pa.ArrowInvalid as error:
            state.require_same(error)
            found = re.search(r"CSV column #(\d+): .*conversion error to (\w+)", str(error))
            if found is None or found[2] == "string":  # which holds all but broken text
                raise ValueError(f"{path.name} cannot be read as CSV: {error}") from None
            raise Misfit(path.name, schema.names[int(found[1])], found[2]) from None

    try:
        schema = open_csv(path, block, column_types=chosen).schema
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path.name} cannot be read as CSV: {error}") from None
    require_header(path.name, schema.names)
    return Table(path.name, schema, None, read)


def _parquet(path: Path) -> Table:
    pa, parquet = pyarrow("Reading Parquet"), pyarrow("Reading Parquet", "parquet")
    files = files_in(path) if path.is_dir() else [path]
    state = FileSet(files, [one.name for one in files])

    def opened(one: Path) -> Any:
        try:
            return parquet.ParquetFile(one, pre_buffer=False)
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"{one.name} is damaged, or no Parquet file: {error}") from None

    schema: Any = None
    rows = 0
    for one in files:
        with opened(one) as file:
            found = file.schema_arrow
            schema = _with_pandas(found) if schema is None else schema
            if not found.equals(schema):
                raise ValueError(
                    f"{one.name} has other columns than {files[0].name}, or in another order."
                )
            rows += file.metadata.num_rows

    def read() -> Iterator[Any]:
        for one in files:
            with opened(one) as file:
                try:
                    for batch in file.iter_batches(
                        max(1024, _GROUP_BYTES // (8 * max(1, len(schema.names))))
                    ):
                        yield batch.replace_schema_metadata(None)
                except (pa.ArrowException, OSError) as error:
                    state.require_same(error)
                    raise ValueError(f"{one.name} is damaged: {error}") from None
        state.require_same()

    return Table(path.name, schema, rows, read)
