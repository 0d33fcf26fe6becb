"""open_stream(source): a stream of the rows of an array, a data frame or a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mercer.data.arrow import Table
from mercer.data.arrow_table import open_arrow
from mercer.data.csv import DELIMITERS, CsvTable
from mercer.data.dask import DaskStream
from mercer.data.in_memory import ArrayStream, frame_library, open_frame
from mercer.data.npy import NpyStream, NpzStream
from mercer.data.parquet import ParquetTable, files_in
from mercer.data.stream import Stream, is_lazy
from mercer.data.svmlight import SVMLIGHT, SvmlightStream

_MATRICES: dict[str, Callable[..., Stream]] = {
    ".npy": NpyStream,
    ".npz": NpzStream,
    **dict.fromkeys(SVMLIGHT, SvmlightStream),
}
SUFFIXES = (".npy", ".npz", ".parquet", *DELIMITERS, *SVMLIGHT)


def open_stream(
    source: Any,
    *,
    target: Any = None,
    columns: Any = None,
    weight: Any = None,
    n_features: int | None = None,
    zero_based: bool | None = None,
    kinds: Any = None,
    schema: Any = None,
) -> Stream:
    """Open the rows of a source as a stream, which is read in chunks and as often as needed.

    Parameters
    ----------
    source : array, sparse matrix, Dask array, data frame, path, list of paths, tuple, or Stream
        A NumPy array or a sparse matrix; a Dask array, whose chunks are computed when they are
        read; a pandas or polars frame; a file ``.npy``, ``.npz`` (arrays X and y, one array, or a
        CSR matrix of ``scipy.sparse.save_npz``), ``.parquet``, ``.csv``, ``.tsv`` or svmlight
        (``.svm``, ``.svmlight``, ``.libsvm``); a folder or a list of Parquet files; or (X, y) or
        (X, y, weight) with X any of these.
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
        if any(option is not None for option in (target, columns, weight, n_features, zero_based)):
            raise ValueError(
                f"{source!r} is open already: target=, columns= and weight= are given when it is "
                "opened."
            )
        return source
    given = {"n_features": n_features, "zero_based": zero_based}
    svmlight = {name: value for name, value in given.items() if value is not None}
    if isinstance(source, tuple):
        if target is not None or weight is not None or not 2 <= len(source) <= 3:
            raise ValueError(
                "open_stream needs (X, y) or (X, y, weight) for a tuple, without target= and "
                "weight= beside it."
            )
        return _open(source[0], columns, None, None, svmlight, kinds, schema).with_targets(
            *source[1:], *[None] * (3 - len(source))
        )
    y, weights = (values if _is_values(values) else None for values in (target, weight))
    target, weight = (None if _is_values(values) else values for values in (target, weight))
    return _open(source, columns, target, weight, svmlight, kinds, schema).with_targets(y, weights)


def open_table(path: str | os.PathLike[str]) -> Table | None:
    """Open a Parquet or CSV file or a folder of Parquet files; None for other files."""
    path = Path(path)
    suffix = path.suffix.lower()
    if path.is_dir():
        return ParquetTable(path.name, files_in(path.absolute()), folder=path.absolute())
    if suffix not in (".parquet", *DELIMITERS):
        return None
    if not path.is_file():
        raise ValueError(f"There is no file {path}.")
    path = path.absolute()
    return ParquetTable(path.name, [path]) if suffix == ".parquet" else CsvTable(path)


def _open(
    source: Any,
    columns: Any,
    target: Any,
    weight: Any,
    svmlight: dict[str, Any],
    kinds: Any,
    schema: Any,
) -> Stream:
    table = {"kinds": kinds, "schema": schema}
    roles = {"columns": columns, "target": target, "weight": weight}
    if isinstance(source, str | os.PathLike):
        return _open_path(Path(source), roles, svmlight)
    if svmlight:
        raise ValueError(f"open_stream: {next(iter(svmlight))} is for svmlight files.")
    if isinstance(source, list) and source and all(map(_is_path, source)):
        paths = [Path(path).absolute() for path in source]
        for path in paths:
            if path.suffix.lower() != ".parquet":
                raise ValueError(f"open_stream takes lists of .parquet files, got {path.name}.")
            if not path.is_file():
                raise ValueError(f"There is no file {path}.")
        name = f"{paths[0].name} and {len(paths) - 1} more"
        return ParquetTable(name, paths).stream(**roles)
    if is_lazy(source):
        return DaskStream(source, **roles)
    library = frame_library(source)
    if library == "polars lazy":
        raise ValueError(
            "open_stream takes no LazyFrame: collect() it, or sink_parquet() it and open the file."
        )
    if library is not None:
        return open_frame(source, **roles, **table)
    if hasattr(source, "__arrow_c_stream__") and not hasattr(source, "__next__"):
        return open_arrow(source).stream(**roles, **table)
    if hasattr(source, "__next__") or not (hasattr(source, "__len__") or hasattr(source, "shape")):
        raise ValueError(
            "open_stream needs rows that can be read more than once, got a "
            f"{type(source).__name__}. Give an array, a frame or a path."
        )
    return ArrayStream(source, **roles)


def _open_path(path: Path, roles: dict[str, Any], svmlight: dict[str, Any]) -> Stream:
    suffix = path.suffix.lower()
    if not path.is_dir():
        if not path.is_file():
            raise ValueError(f"There is no file {path}.")
        if suffix in (".gz", ".bz2", ".xz", ".zst", ".zip"):
            raise ValueError(
                f"{path.name} is compressed: unpack it first (Parquet is compressed inside, and "
                "is read)."
            )
        if suffix not in SUFFIXES:
            raise ValueError(
                f"{path.name} has an unknown suffix. Known are {', '.join(SUFFIXES)} and folders "
                "of .parquet."
            )
    if svmlight and suffix not in SVMLIGHT:
        raise ValueError(f"{path.name}: {next(iter(svmlight))} is for svmlight files.")
    table = open_table(path)
    if table is not None:
        return table.stream(**roles)
    return _MATRICES[suffix](path.absolute(), **roles, **svmlight)


def _is_path(source: Any) -> bool:
    return isinstance(source, str | os.PathLike)


def _is_values(values: Any) -> bool:
    """Return whether a target or weight is an array of values, not the choice of a column."""
    return len(getattr(values, "shape", ())) > 0
