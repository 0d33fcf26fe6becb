"""Streams: rows in from arrays, frames and files, chunk by chunk, and rows out to files. Nothing
numeric happens here.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from mercer.data.csv import CsvStream
from mercer.data.dask import DaskStream, is_lazy
from mercer.data.files import ChangedFileError as ChangedFileError
from mercer.data.in_memory import ArrayStream, PandasStream, PolarsStream, frame_library
from mercer.data.npy import NpyStream, NpzStream
from mercer.data.parquet import ParquetStream, files_in
from mercer.data.stream import Chunk as Chunk
from mercer.data.stream import Stream as Stream
from mercer.data.stream import rechunk as rechunk
from mercer.data.svmlight import SVMLIGHT, SvmlightStream
from mercer.data.writers import Sink as Sink
from mercer.data.writers import open_sink as open_sink
from mercer.validation.rows import drop_index_columns

_SUFFIXES: dict[str, Callable[..., Stream]] = {
    ".npy": NpyStream,
    ".npz": NpzStream,
    ".parquet": lambda path, **roles: ParquetStream(path.name, [path], **roles),
    ".csv": CsvStream,
    ".tsv": CsvStream,
    **dict.fromkeys(SVMLIGHT, SvmlightStream),
}


def open_stream(
    source: Any,
    *,
    target: Any = None,
    columns: Any = None,
    weight: Any = None,
    n_features: int | None = None,
    zero_based: bool | None = None,
) -> Stream:
    """The rows of a source as a stream: re-readable, of known width, never all in memory at once.

    Parameters
    ----------
    source : array, sparse matrix, Dask array, data frame, path, list of paths, tuple, or Stream
        A NumPy array or a sparse matrix; a Dask array, whose chunks are computed when they are
        read; a pandas or polars frame; a file ``.npy``, ``.npz`` (arrays X and y, one array, or a
        CSR matrix of ``scipy.sparse.save_npz``), ``.parquet``, ``.csv``, ``.tsv`` or svmlight
        (``.svm``, ``.svmlight``, ``.libsvm``); a folder or a list of Parquet files; or (X, y) or
        (X, y, weight) with X any of these.
    target : column, list of columns, or array
        Where y comes from: a column by name (by number for arrays; the name of an array in a
        ``.npz`` file), a list of columns for several targets, or an array with a value for each
        row. Labels may be numbers or words. A list always chooses columns.
    columns : list of columns
        The inputs, in this order; all columns that are neither target nor weight when None. A
        Parquet column of fixed-size lists counts as so many inputs. The index of a pandas frame
        that a Parquet file was written from is an input only where it is named.
    weight : column or array
        Where the weights of rows come from, in the same way.
    n_features : int
        Width of an svmlight file; the largest column in use when None.
    zero_based : bool
        Whether the columns of an svmlight file count from 0; when None, from 1 where no row uses 0.

    Returns
    -------
    stream : Stream
        ``stream.chunks(start)`` and ``stream.blocks(rows, start, stop)`` give chunks with ``X``,
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
        return _open(source[0], columns, None, None, svmlight).beside(
            *source[1:], *[None] * (3 - len(source))
        )
    y, weights = (values if _is_values(values) else None for values in (target, weight))
    target, weight = (None if _is_values(values) else values for values in (target, weight))
    return _open(source, columns, target, weight, svmlight).beside(y, weights)


def _open(source: Any, columns: Any, target: Any, weight: Any, svmlight: dict[str, Any]) -> Stream:
    roles = {"columns": columns, "target": target, "weight": weight}
    if isinstance(source, str | os.PathLike):
        return _open_path(Path(source), roles, svmlight)
    if svmlight:
        raise ValueError(f"open_stream: {next(iter(svmlight))} is for svmlight files.")
    if (
        isinstance(source, list)
        and source
        and all(isinstance(path, str | os.PathLike) for path in source)
    ):
        paths = [Path(path) for path in source]
        for path in paths:
            if path.suffix.lower() != ".parquet":
                raise ValueError(f"open_stream takes lists of .parquet files, got {path.name}.")
            _require_file(path)
        paths = [path.absolute() for path in paths]
        return ParquetStream(f"{paths[0].name} and {len(paths) - 1} more", paths, **roles)
    if is_lazy(source):
        return DaskStream(source, **roles)
    source = drop_index_columns(source)
    library = frame_library(source)
    if library == "polars lazy":
        raise ValueError(
            "open_stream takes no LazyFrame: collect() it, or sink_parquet() it and open the file."
        )
    if library is not None:
        return (PandasStream if library == "pandas" else PolarsStream)(source, **roles)
    if hasattr(source, "__next__") or not (hasattr(source, "__len__") or hasattr(source, "shape")):
        raise ValueError(
            "open_stream needs rows that can be read more than once, got a "
            f"{type(source).__name__}. "
            "Give an array, a frame or a path."
        )
    return ArrayStream(source, **roles)


def _open_folder(path: Path, **roles: Any) -> Stream:
    return ParquetStream(path.name, files_in(path), folder=path, **roles)


def _open_path(path: Path, roles: dict[str, Any], svmlight: dict[str, Any]) -> Stream:
    opener: Callable[..., Stream]
    if path.is_dir():
        opener = _open_folder
    else:
        _require_file(path)
        suffix = path.suffix.lower()
        if suffix in (".gz", ".bz2", ".xz", ".zst", ".zip"):
            raise ValueError(
                f"{path.name} is compressed: unpack it first (Parquet is compressed inside, and "
                "is read)."
            )
        if suffix not in _SUFFIXES:
            raise ValueError(
                f"{path.name} is of no known kind. Known are {', '.join(_SUFFIXES)} and folders "
                "of .parquet."
            )
        opener = _SUFFIXES[suffix]
    if opener is SvmlightStream:
        opener = partial(opener, **svmlight)
    elif svmlight:
        raise ValueError(f"{path.name}: {next(iter(svmlight))} is for svmlight files.")
    return opener(path.absolute(), **roles)


def _require_file(path: Path) -> None:
    if not path.is_file():
        raise ValueError(f"There is no file {path}.")


def _is_values(values: Any) -> bool:
    """Whether target or weight is values, and not the choice of a column."""
    return len(getattr(values, "shape", ())) > 0
