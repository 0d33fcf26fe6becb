"""Stream: a re-readable source of rows, in chunks of the source or in blocks of a fixed size."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from mercer._repr import short_repr
from mercer._typing import Array, is_csr
from mercer.data.files import SEGMENT_BYTES, SEGMENT_ROWS, FileSet, PassChecksums
from mercer.data.row_keys import row_keys, time_keys
from mercer.data.table_schema import TableSchema
from mercer.errors import RowError
from mercer.rng import Rng
from mercer.validation.parameters import Integer, validate_parameter
from mercer.validation.rows import as_numpy, first_missing

Parts = tuple[Any, ...]  # X, y, weight, and keys where a column has groups or times
Progress = Callable[[int, int | None], None]

CHUNK_BYTES: ContextVar[int] = ContextVar("chunk_bytes", default=8 * 2**20)
"""Size of a chunk, read when a stream is opened: 8 MiB are read at full speed."""


@dataclass(frozen=True, eq=False)
class Chunk:
    """Consecutive rows of a stream: X, y, weight, the index of the first row, and row keys.

    y and weight are None where the stream has none, keys unless it has groups or times. The arrays
    may be views of the caller's data and must not be written to.
    """

    X: Any
    y: Array | None = None
    weight: Array | None = None
    start: int = 0
    keys: Array | None = None

    __repr__ = short_repr

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def part(self, start: int, stop: int) -> Chunk:
        """Return rows start to stop of this chunk."""
        y, weight, keys = (
            None if values is None else values[start:stop]
            for values in (self.y, self.weight, self.keys)
        )
        return Chunk(self.X[start:stop], y, weight, self.start + start, keys)


class Stream:
    """Base class of streams: rows that are read in chunks, as often as needed.

    A subclass implements ``_read(start, rows)``, which yields (X, y, weight) from row ``start``
    on, and ``_identity()``. One of files sets ``_files`` before it reads: they are checked for
    changes before and after each pass.

    Attributes
    ----------
    width : int
        Number of input columns.
    rows : int or None
        Number of rows; None for CSV until a pass has counted them.
    dtype : numpy.dtype
        float32 when all inputs are, otherwise float64.
    sparse : bool
        Whether X comes as CSR matrices.
    columns : tuple of str or None
        Names of the input columns; None for arrays, all of whose columns are used.
    left_out : tuple of str
        Columns of a pandas index that were not named, and are therefore no inputs.
    notes : tuple of str
        Sentences about how a file is read: separators, a missing header, skipped lines.
    schema : TableSchema or None
        Kinds of the columns of a table, by which it becomes a matrix (see
        ``mercer.data.table_schema``); None where all inputs are numbers.
    target, weight : str, list of str or None
        Columns of y and of the weights, by name; "given" for arrays beside the source.
    group, time : str or None
        Column of groups, whose rows fall into the same fold; or of times, the latest of which are
        held out.
    """

    kind: str
    seeks: bool = True  # reads from a row without reading all rows before it
    lazy: bool = False  # holds a Dask collection
    hash_bytes: int = 64 * 2**20  # of values in memory that a fingerprint hashes

    width: int
    rows: int | None
    dtype: np.dtype[Any]
    sparse: bool = False
    columns: tuple[str, ...] | None = None
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    schema: TableSchema | None = None
    target: str | list[str] | None = None
    weight: str | None = None
    group: str | None = None
    time: str | None = None
    _files: FileSet = FileSet([], [])
    _checksums: dict[int, list[int]] | None = None  # of earlier passes, see PassChecksums
    _y: Array | None = None
    _weight: Array | None = None
    _keys: Array | None = None
    _first: int = 0  # index in the stream of the first row in memory
    _progress: Progress | None = None
    _observer: Callable[[Chunk], None] | None = None

    def __init__(self, name: str) -> None:
        self.name = name
        self.chunk_bytes = CHUNK_BYTES.get()

    def __repr__(self) -> str:
        rows = "? rows" if self.rows is None else f"{self.rows:,} rows"
        target = "" if self.target is None else f", target {self.target!r}"
        return (
            f"Stream({self.name}: {rows} x {self.width:,} columns, "
            f"{self.dtype}{', CSR' * self.sparse}{target})"
        )

    def chunks(self, start: int = 0, rows: int = 1) -> Iterator[Chunk]:
        """Yield the rows from `start` on, validated, in chunks of about 8 MiB of the source.

        Parameters
        ----------
        start : int
            The first row. Arrays, .npy, Parquet and svmlight files seek; CSV and compressed .npz
            files are read up to it.
        rows : int
            Chunks have a multiple of this number of rows where the source allows it.
        """
        validate_parameter(self.name, "start", start, Integer(0))
        at = int(start)
        if self.rows is not None and at > self.rows:
            raise ValueError(
                f"{self.name} has {self.rows} rows: there is no row {at} to start from."
            )
        self._files.require_same()
        checksums = self._pass_checksums(at) if self._files.paths else None
        if self._progress is not None:
            self._progress(at, self.rows)
        try:
            for X, y, weight, *keys in self._read(at, rows):
                stop = at + X.shape[0]
                if stop == at:
                    continue
                if checksums is not None:
                    checksums.add(X, y, weight)
                held = slice(at - self._first, stop - self._first)
                y = y if self._y is None else self._y[held]
                weight = weight if self._weight is None else self._weight[held]
                self._validate(y, weight, at)
                keys = keys if self._keys is None else [self._keys[held]]
                chunk = Chunk(X, y, weight, at, *keys)
                if self._observer is not None:
                    self._observer(chunk)
                yield chunk
                at = stop
                if self._progress is not None:
                    self._progress(at, self.rows)
        except (ValueError, OSError) as error:  # such as a file that is being written
            self._files.require_same(error)
            if isinstance(error, RowError) and not error.location:  # of a cell that was read
                raise self.locate(error, at) from None
            raise
        self._files.require_same()
        if checksums is not None:
            checksums.add(last=True)
        if self.rows is None:
            self.rows = at
        elif self.rows != at:
            raise ValueError(
                f"{self.name} had {self.rows} rows, and now ends after {at}: it has changed "
                "since it was opened."
            )

    def blocks(
        self, rows: int, start: int = 0, stop: int | None = None
    ) -> Generator[Chunk, None, None]:
        """Yield rows `start` to `stop` in blocks of `rows` rows; the last may be shorter.

        Examples
        --------
        >>> import numpy as np
        >>> from mercer import open_stream
        >>> stream = open_stream(np.arange(10.0).reshape(5, 2))
        >>> [(block.start, len(block)) for block in stream.blocks(2)]
        [(0, 2), (2, 2), (4, 1)]
        >>> [(block.start, len(block)) for block in stream.blocks(2, start=2, stop=4)]
        [(2, 2)]
        """
        validate_parameter(self.name, "rows of a block", rows, Integer())
        return rechunk(self.chunks(start, rows), int(rows), stop)

    def where(self, row: int) -> str:
        """Return the position of a row: "row 7", or "part-3.parquet, row 17 of the file"."""
        return f"row {row}"

    def locate(self, error: RowError, start: int = 0) -> RowError:
        """Return an error of a block with where() its row is; `start` is the block's first row."""
        error = error.with_offset(start)
        return error.with_location(self.where(error.row))

    def fingerprint(self) -> dict[str, Any]:
        """Return JSON values that are equal for the same data and differ for changed data.

        Files are identified by name, size and time of modification; values in memory by shape,
        dtype and a hash: of all rows up to ``hash_bytes``, of evenly spaced runs of rows beyond
        ("hashed" states which).
        """
        mark = {
            "kind": self.kind,
            **self._identity(),
            "columns": None if self.columns is None else list(self.columns),
            "width": self.width,
            "dtype": str(self.dtype),
            "target": self.target,
            "weight": self.weight,
            "group": self.group,
            "time": self.time,
        }
        if self.schema is not None:
            mark["schema"] = [list(vars(column).values()) for column in self.schema.columns]
        in_memory = (("y", self._y), ("sample_weight", self._weight), ("groups", self._keys))
        for name, values in in_memory:
            if values is not None:
                mark[name] = {
                    "shape": list(values.shape),
                    "dtype": str(values.dtype),
                    **_hash_array(values, self.hash_bytes),
                }
        return mark

    def with_targets(self, y: Any, weight: Any) -> Stream:
        """Set y and weight to values in memory, one for each row; return this stream."""
        if y is not None:
            self._y, self.target = self._values("target", y), "given"
        if weight is not None:
            self._weight = _as_weight(self.name, self._values("weight", weight))
            self.weight = "given"
        return self

    def with_groups(self, groups: Any) -> Stream:
        """Set the groups of rows to values in memory, one for each row; return this stream."""
        values = self._values("groups", groups)
        if values.ndim != 1:
            raise ValueError(
                f"{self.name}: groups need one value for each row, got {values.shape}."
            )
        _, numbers = np.unique(values.astype(str), return_inverse=True)
        self._keys, self.group = row_keys(numbers[:, None].astype(np.float64)), "given"
        return self

    def with_times(self, times: Any) -> Stream:
        """Set the times of rows, numbers in memory; return this stream.

        The key of a row is the share of rows that are as late as it is, or later.
        """
        values = self._values("times", times)
        if values.ndim != 1 or values.dtype.kind not in "biuf" or not np.isfinite(values).all():
            raise ValueError(f"{self.name}: times need one finite number for each row.")
        self._keys, self.time = time_keys(values, np.sort(values)), "given"
        return self

    def values_in_memory(self, start: int, stop: int) -> dict[str, Any]:
        """Return the values in memory of rows start to stop, by attribute.

        They are what another process needs beside the files.
        """
        values = {"_y": self._y, "_weight": self._weight, "_keys": self._keys}
        return {name: part[start:stop] for name, part in values.items() if part is not None}

    def with_values(self, held: dict[str, Any], first: int) -> Self:
        """Return a copy with such values in memory, the first of which is of row `first`."""
        other = copy.copy(self)
        vars(other).update(held, _first=first, _progress=None, _observer=None)
        return other

    def files(self) -> list[dict[str, Any]]:
        """Return name, size and time of modification of each file; empty for values in memory."""
        files = []
        for path, name in zip(self._files.paths, self._files.names, strict=True):
            stat = path.stat()
            files.append({"name": name, "bytes": stat.st_size, "modified_ns": stat.st_mtime_ns})
        return files

    def record_files(self) -> None:
        """Record the present state of the files; for another machine with the same files."""
        self._files = self._files.recorded_anew()  # copies of the stream keep theirs
        self._checksums = None

    def require_same_files(self) -> None:
        """Raise ChangedFileError if a file has changed since it was opened."""
        self._files.require_same()

    def set_rows(self, rows: int) -> None:
        """Set the number of rows, where no pass has counted them: a checkpoint has."""
        if self.rows is None:
            self.rows = rows

    def with_progress(self, progress: Progress | None) -> Stream:
        """Call progress(next row, number of rows or None) when a pass begins and after each chunk.

        None calls nothing. Returns this stream.
        """
        self._progress = progress
        return self

    def with_observer(self, observer: Callable[[Chunk], None]) -> Stream:
        """Call observer(chunk) for each chunk that is read; return this stream."""
        self._observer = observer
        return self

    def __getstate__(self) -> dict[str, Any]:
        # a copy may read other columns, or the files of another machine
        return {name: value for name, value in vars(self).items() if name != "_checksums"}

    def _pass_checksums(self, start: int) -> PassChecksums:
        """Return checksums of a pass, which are compared with those of earlier ones."""
        if self._checksums is None:
            self._checksums = {}
        row_bytes = self.width * self.dtype.itemsize
        rows = SEGMENT_ROWS if self.sparse else max(1, SEGMENT_BYTES // row_bytes)
        words = Rng(0).words("checksums", 0, 0 if self.sparse else self.width) | np.uint64(1)
        return PassChecksums(self.name, self._checksums, rows, words, start, start % rows == 0)

    def _read(self, start: int, rows: int) -> Iterator[Parts]:
        raise NotImplementedError

    def _identity(self) -> dict[str, Any]:
        """Return what a fingerprint has beside width, dtype and names."""
        files = self.files()
        return {"files": files} if files else {}

    def _chunk_rows(self, rows: int, row_bytes: float = 0.0) -> int:
        """Return the rows of a chunk: a multiple of `rows`, of about chunk_bytes.

        Fewer, where a block of `rows` is read for a few of its columns.
        """
        used = self.width * self.dtype.itemsize
        fitting = int(self.chunk_bytes / (row_bytes or used))
        if fitting < rows and row_bytes > 2 * used:
            return max(1, fitting)
        return rows * max(1, fitting // rows)

    def _values(self, what: str, values: Any) -> Array:
        array = as_numpy(self.name, values)
        if self.rows is None:
            raise ValueError(
                f"{self.name}: the number of rows is not known, so {what} must be the name of a "
                "column."
            )
        if (
            array.ndim not in (1, 2)
            or len(array) != self.rows
            or array.dtype.kind not in "biufOUST"
        ):
            raise ValueError(
                f"{self.name}: {what} needs one number or label for each of the {self.rows} rows, "
                f"got an array of shape {array.shape} and type {array.dtype}."
            )
        return array

    def _validate(self, y: Array | None, weight: Array | None, start: int) -> None:
        """Raise a RowError for the first missing target, or the first weight that is not >= 0."""
        missing = None if y is None else first_missing(y)
        if missing is not None:
            row, column, value = missing
            names = self.target if isinstance(self.target, list) else [self.target]
            unnamed = names[-1] in (None, "given")
            name = "" if unnamed else f" {names[min(column, len(names) - 1)]!r}"
            before = f"The target{name} needs a value in every row, got {value} at"
            raise self.locate(RowError(row, before, ". Drop such rows first."), start)
        if weight is None:
            return
        invalid = ~(np.isfinite(weight) & (weight >= 0))
        if invalid.any():
            row = int(np.argmax(invalid))
            before = f"Weights must be finite and not negative, got {weight[row]} at"
            raise self.locate(RowError(row, before, "."), start)


def rechunk(
    chunks: Iterable[Chunk], rows: int, stop: int | None = None
) -> Generator[Chunk, None, None]:
    """Yield the rows of chunks up to row `stop` in chunks of `rows` rows; the last may be shorter.

    Rows are copied only where a block spans several chunks.
    """
    pending: list[Chunk] = []
    count = 0  # rows of pending
    for chunk in chunks:
        length = int(chunk.X.shape[0])
        end = length if stop is None else min(length, stop - chunk.start)
        at = 0
        while at < end:
            take = min(rows - count, end - at)
            pending.append(chunk if take == length else chunk.part(at, at + take))
            at, count = at + take, count + take
            if count == rows:
                yield pending[0] if len(pending) == 1 else _concatenate(pending)
                pending, count = [], 0
        if stop is not None and chunk.start + length >= stop:
            break
    if pending:
        yield pending[0] if len(pending) == 1 else _concatenate(pending)


def as_float(dtypes: Iterable[Any]) -> np.dtype[Any]:
    """Return float32 if all dtypes are float32, otherwise float64."""
    single = all(np.dtype(dtype) == np.float32 for dtype in dtypes)
    return np.dtype(np.float32 if single else np.float64)


def hash_rows(stream: Stream, rows: int, row_bytes: float) -> dict[str, Any]:
    """Hash the inputs of a stream in memory: all rows, or evenly spaced runs of them."""
    digest = hashlib.sha256()
    total = max(1, rows * row_bytes)
    run = max(1, int(2**20 / row_bytes))
    step = run * max(1, round(total / stream.hash_bytes))
    for start in range(0, rows, step):
        for block in stream.blocks(run, start, min(start + run, rows)):
            X = block.X
            for values in (X.indptr, X.indices, X.data) if is_csr(X) else (X,):
                digest.update(np.ascontiguousarray(values).data)
    return {"sha256": digest.hexdigest(), "hashed": _describe_runs(run, step)}


def _hash_array(values: Array, hash_bytes: int) -> dict[str, Any]:
    digest = hashlib.sha256()
    row_bytes = max(1, values.nbytes // max(1, len(values)))
    run = max(1, 2**20 // row_bytes)
    step = run * max(1, round(values.nbytes / hash_bytes))
    for start in range(0, len(values), step):
        part = values[start : start + run]
        text = part.dtype.kind in "OUST"
        digest.update(repr(part.tolist()).encode() if text else np.ascontiguousarray(part).data)
    return {"sha256": digest.hexdigest(), "hashed": _describe_runs(run, step)}


def _describe_runs(run: int, step: int) -> str:
    return "all rows" if step == run else f"{run} rows of every {step}"


def _concatenate(parts: Sequence[Chunk]) -> Chunk:
    first = parts[0]
    if is_csr(first.X):
        from scipy.sparse import vstack

        X = vstack([part.X for part in parts], format="csr")
        X.has_canonical_format = True
    else:
        X = np.concatenate([part.X for part in parts])
    y, weight, keys = (
        None
        if column[0] is None
        else np.concatenate([values for values in column if values is not None])
        for column in zip(*((part.y, part.weight, part.keys) for part in parts), strict=True)
    )
    return replace(first, X=X, y=y, weight=weight, keys=keys)


def _as_weight(name: str, values: Array) -> Array:
    if values.ndim != 1 or values.dtype.kind not in "biuf":
        raise ValueError(
            f"{name}: weight needs one number for each row, got shape {values.shape} of "
            f"{values.dtype}."
        )
    return values.astype(np.float64, copy=False)


def is_lazy(source: Any) -> bool:
    """Return whether source is a Dask collection, without importing Dask."""
    return hasattr(source, "__dask_graph__") and hasattr(source, "__dask_keys__")
