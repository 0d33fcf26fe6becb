"""Columns of a CSV or Parquet file, by name and type, without its rows."""

from __future__ import annotations

from pathlib import Path

from mercer.data.arrow import Column, describe, pyarrow
from mercer.data.csv import DELIMITERS, block_bytes, open_csv, require_header
from mercer.data.parquet import files_in


def table_columns(path: Path) -> list[Column] | None:
    """Return the columns of a .csv, .tsv or .parquet file or of a folder of Parquet files.

    None for files whose columns have no names.
    """
    suffix = path.suffix.lower()
    if path.is_dir() or (suffix == ".parquet" and path.is_file()):
        return _parquet(files_in(path)[0] if path.is_dir() else path)
    return _csv(path) if suffix in DELIMITERS and path.is_file() else None


def _csv(path: Path) -> list[Column]:
    pa = pyarrow("Reading CSV")
    try:
        schema = open_csv(path, block_bytes(path)).schema
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path.name} cannot be read as CSV: {error}") from None
    require_header(path.name, schema.names)
    return describe(schema)


def _parquet(path: Path) -> list[Column]:
    pa, parquet = pyarrow("Reading Parquet"), pyarrow("Reading Parquet", "parquet")
    try:
        return describe(parquet.read_schema(path))
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path.name} is damaged, or no Parquet file: {error}") from None
