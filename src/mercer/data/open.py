"""open_stream(source): a stream of the rows of an array, a data frame or a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mercer.data.arrow import Table
from mercer.data.arrow_table import open_arrow
from mercer.data.csv import CsvTable
from mercer.data.dask import DaskStream
from mercer.data.in_memory import ArrayStream, frame_library, is_table, open_frame
from mercer.data.inputs import (
    ARROW,
    COMPRESSED,
    CSV,
    FORMATS,
    JSON,
    PARQUET,
    files_in,
    format_of,
    require_one_format,
    require_readable,
    resolve,
)
from mercer.data.ipc import ArrowFilesTable
from mercer.data.json_lines import JsonLinesTable
from mercer.data.npy import NpyStream, NpzStream
from mercer.data.parquet import ParquetTable
from mercer.data.stream import Stream, is_lazy
from mercer.data.svmlight import SVMLIGHT, SvmlightStream
from mercer.data.table_files import FilesTable
from mercer.data.table_schema import TableSchema

_MATRICES: dict[str, Callable[..., Stream]] = {
    ".npy": NpyStream,
    ".npz": NpzStream,
    **dict.fromkeys(SVMLIGHT, SvmlightStream),
}
_TABLES: dict[str, type[FilesTable]] = {
    PARQUET: ParquetTable,
    CSV: CsvTable,
    ARROW: ArrowFilesTable,
    JSON: JsonLinesTable,
}
SUFFIXES = (".npy", ".npz", *FORMATS, *SVMLIGHT)


def open_stream(
    source: Any,
    *,
    target: Any = None,
    columns: Any = None,
    weight: Any = None,
    n_features: int | None = None,
    zero_based: bool | None = None,
    kinds: Mapping[str, str] | None = None,
    schema: TableSchema | None = None,
) -> Stream:
    """Open the rows of a source as a stream, which is read in chunks and as often as needed.

    Parameters
    ----------
    source : array, sparse matrix, Dask array, data frame, path, list of paths, tuple, or Stream
        A NumPy array or a sparse matrix; a Dask array, whose chunks are computed when they are
        read; a pandas or polars frame, an Arrow table or another object with
        ``__arrow_c_stream__`` that can be read more than once; a file ``.npy``, ``.npz`` (arrays X
        and y, one array, or a CSR matrix of ``scipy.sparse.save_npz``), svmlight (``.svm``,
        ``.svmlight``, ``.libsvm``), ``.parquet``, ``.csv``, ``.tsv``, Arrow (``.feather``,
        ``.arrow``, ``.ipc``) or JSON lines (``.jsonl``, ``.ndjson``); CSV and JSON lines may be
        compressed (``.gz``, ``.bz2``, ``.zst``); a folder or a list of tables of one format; a URL
        of a table such as ``s3://...``, through fsspec; ``"-"``, a table from standard input; or
        (X, y) or (X, y, weight) with X any of these. The separator, the decimal mark, the encoding
        and the header of a CSV file are detected, and said in ``stream.notes``.
    target : column, list of columns, or array
        The target y: a column by name (by number for arrays; the name of an array in a ``.npz``
        file), a list of columns for several targets, or an array with a value for each row. Labels
        may be numbers or strings. A list always chooses columns.
    columns : list of columns
        The inputs, in this order; all columns that are neither target nor weight when None. A
        Parquet column of fixed-size lists counts as so many inputs. The index of a pandas frame
        that a Parquet file was written from is an input only where it is named.
    weight : column or array
        The weights of rows, in the same way.
    n_features : int
        Width of an svmlight file; the largest column in use when None.
    zero_based : bool
        Whether the columns of an svmlight file count from 0; when None, from 1 where no row uses 0.
    kinds : dict
        Kinds of columns of a table by name, "number", "category", "date", "text" or "boolean",
        where they are not to be inferred; "%d.%m.%Y" is a date in this format.
    schema : TableSchema
        That of the rows that a model was fitted on: inputs are its columns, of its kinds.

    Returns
    -------
    stream : Stream
        ``stream.chunks(start)`` and ``stream.blocks(rows, start, stop)`` yield chunks with ``X``,
        ``y``, ``weight`` and ``start``.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import open_stream
    >>> stream = open_stream(np.array([[1, 2, 0], [3, 4, 1], [5, 6, 1]]), target=-1)
    >>> stream.width, stream.rows, stream.dtype
    (2, 3, dtype('float64'))
    >>> for block in stream.blocks(2):
    ...     print(block.start, block.X.tolist(), block.y.tolist())
    0 [[1.0, 2.0], [3.0, 4.0]] [0, 1]
    2 [[5.0, 6.0]] [1]
    """
    if isinstance(source, Stream):
        options = (target, columns, weight, n_features, zero_based, kinds, schema)
        if any(option is not None for option in options):
            raise ValueError(
                f"{source!r} is open already: target=, columns= and weight= are given when it is "
                "opened."
            )
        return source
    given = {"n_features": n_features, "zero_based": zero_based}
    svmlight = {name: value for name, value in given.items() if value is not None}
    table = {"kinds": kinds, "schema": schema}
    if isinstance(source, tuple):
        if target is not None or weight is not None or not 2 <= len(source) <= 3:
            raise ValueError(
                "open_stream needs (X, y) or (X, y, weight) for a tuple, without target= and "
                "weight= beside it."
            )
        roles = {"columns": columns, "target": None, "weight": None}
        return _open(source[0], roles, svmlight, table).with_targets(
            *source[1:], *[None] * (3 - len(source))
        )
    y, weights = (values if _is_values(values) else None for values in (target, weight))
    target, weight = (None if _is_values(values) else values for values in (target, weight))
    roles = {"columns": columns, "target": target, "weight": weight}
    return _open(source, roles, svmlight, table).with_targets(y, weights)


def open_table(source: str | os.PathLike[str]) -> Table | None:
    """Open a table: a file, a folder of files, a URL or "-"; None for other files."""
    path = resolve(source)
    if path.is_dir():
        path = path.absolute()
        paths = files_in(path)
        return _TABLES[str(format_of(paths[0]))](path.name, paths, folder=path)
    require_readable(path)
    form = format_of(path)
    if form is None:
        return None
    if not path.is_file():
        raise ValueError(f"There is no file {path}.")
    path = path.absolute()
    return _TABLES[form](path.name, [path])


def _open(
    source: Any, roles: dict[str, Any], svmlight: dict[str, Any], table: dict[str, Any]
) -> Stream:
    """Open a source with columns, target and weight; `table` has kinds and schema."""
    if isinstance(source, str | os.PathLike):
        return _open_path(source, roles, svmlight, table)
    if svmlight:
        raise ValueError(f"open_stream: {next(iter(svmlight))} is for svmlight files.")
    if isinstance(source, list) and source and all(map(_is_path, source)):
        return _open_list(source).stream(**roles, **table)
    if is_lazy(source):
        return DaskStream(source, **roles)
    library = frame_library(source)
    if library == "polars lazy":
        raise ValueError(
            "open_stream takes no LazyFrame: collect() it, or sink_parquet() it and open the file."
        )
    if library is not None:
        return open_frame(source, **roles, **table)
    if hasattr(source, "__next__") or not (
        any(hasattr(source, name) for name in ("__len__", "shape", "__arrow_c_stream__"))
    ):
        raise ValueError(
            "open_stream needs rows that can be read more than once, got a "
            f"{type(source).__name__}. Give an array, a frame or a path."
        )
    if is_table(source):
        return open_arrow(source).stream(**roles, **table)
    return ArrayStream(source, **roles)


def _open_list(sources: list[Any]) -> Table:
    paths = [resolve(source).absolute() for source in sources]
    for path in paths:
        if format_of(path) is None:
            raise ValueError(
                f"open_stream takes lists of tables ({', '.join(FORMATS)}), got {path.name}."
            )
        require_readable(path)
        if not path.is_file():
            raise ValueError(f"There is no file {path}.")
    form = require_one_format("The list", paths)
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return _TABLES[form](f"{paths[0].name}{more}", paths)


def _open_path(
    source: Any, roles: dict[str, Any], svmlight: dict[str, Any], table: dict[str, Any]
) -> Stream:
    path = resolve(source)
    suffix = path.suffix.lower()
    if not path.is_dir():
        if not path.is_file():
            raise ValueError(f"There is no file {path}.")
        require_readable(path)
        if suffix not in SUFFIXES and format_of(path) is None:
            raise ValueError(
                f"{path.name} has an unknown suffix. Known are {', '.join(SUFFIXES)}, "
                f"{', '.join(COMPRESSED)} of CSV and JSON lines, and folders of tables."
            )
    if svmlight and suffix not in SVMLIGHT:
        raise ValueError(f"{path.name}: {next(iter(svmlight))} is for svmlight files.")
    opened = open_table(path)
    if opened is not None:
        return opened.stream(**roles, **table)
    if not isinstance(path, Path):
        raise ValueError(f"{path} cannot be read from a URL: of these, tables are.")
    return _MATRICES[suffix](path.absolute(), **roles, **svmlight)


def _is_path(source: Any) -> bool:
    return isinstance(source, str | os.PathLike)


def _is_values(values: Any) -> bool:
    """Return whether a target or weight is an array of values, not the choice of a column."""
    return len(getattr(values, "shape", ())) > 0
