"""Stream: rows from anywhere, chunk by chunk, as often as wanted; blocks of a fixed grid whatever
the source's own chunks.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from mercer.errors import RowError
from mercer.validation.parameters import validate_integer
from mercer.validation.rows import as_numpy, first_missing

Array = NDArray[Any]
Parts = tuple[Any, Array | None, Array | None]  # X, y, weight
Watch = Callable[[int, int | None], None]

_CHUNK_BYTES = 8 * 2**20  # of one chunk: large enough to read at full speed, small beside anything
_HASH_BYTES = 64 * 2**20  # of an array's content that a fingerprint looks at


@dataclass(frozen=True, eq=False)
class Chunk:
    """Consecutive rows of a stream: X, y and weight (None where there is none), and the index of
    the first row in the stream.

    The arrays may be views of the caller's data: they are not to be written to.
    """

    X: Any
    y: Array | None = None
    weight: Array | None = None
    start: int = 0

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def part(self, start: int, stop: int) -> Chunk:
        """Rows start to stop of this chunk."""
        if start == 0 and stop == len(self):
            return self
        y, weight = (
            None if values is None else values[start:stop] for values in (self.y, self.weight)
        )
        return Chunk(self.X[start:stop], y, weight, self.start + start)


class Stream:
    """Rows that can be read again and again, and never all at once.

    A subclass writes ``_read(start, rows)``, which gives (X, y, weight) in order from row
    ``start``, and ``_identity()``.

    Attributes
    ----------
    width : int
        Number of input columns.
    rows : int or None
        Number of rows; None when only a whole pass can tell (CSV), and set after one.
    dtype : numpy.dtype
        float32 when all inputs are, otherwise float64.
    sparse : bool
        Whether X comes as CSR matrices.
    columns : tuple of str or None
        Names of the input columns; None for arrays, all of whose columns are used.
    left_out : tuple of str
        Columns that are no inputs since they are the index of a pandas frame, and were not named.
    target, weight : str, list of str or None
        Where y and the weights come from: columns by name, or "given" for values beside the source.
    """

    kind: ClassVar[str]
    seeks: bool = True  # goes to a row without reading all rows before it
    lazy: bool = False  # what it holds is computed by Dask when it is asked for

    width: int
    rows: int | None
    dtype: np.dtype[Any]
    sparse: bool = False
    columns: tuple[str, ...] | None = None
    left_out: tuple[str, ...] = ()
    target: str | list[str] | None = None
    weight: str | None = None
    _y: Array | None = None
    _weight: Array | None = None
    _first: int = 0  # the row of the stream that what is held starts with
    _watch: Watch | None = None

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        rows = "? rows" if self.rows is None else f"{self.rows:,} rows"
        target = "" if self.target is None else f", target {self.target!r}"
        return (
            f"Stream({self.name}: {rows} x {self.width:,} columns, "
            f"{self.dtype}{', CSR' * self.sparse}{target})"
        )

    def chunks(self, start: int = 0, rows: int = 1) -> Iterator[Chunk]:
        """The rows from row `start` on, in chunks of about 8 MiB as the source gives them.

        Parameters
        ----------
        start : int
            The first row. Arrays, .npy files, Parquet and svmlight go there; CSV and compressed
            .npz read up to it.
        rows : int
            Chunks have a multiple of so many rows where the source lets us choose.
        """
        start = validate_integer(self.name, "start", start, least=0)
        if self.rows is not None and start > self.rows:
            raise ValueError(
                f"{self.name} has {self.rows} rows: there is no row {start} to start from."
            )
        return self._checked(start, rows)

    def blocks(
        self, rows: int, start: int = 0, stop: int | None = None
    ) -> Generator[Chunk, None, None]:
        """The rows from `start` up to `stop` in chunks of exactly `rows` rows, the last perhaps
        shorter, whatever the source's chunks.

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
        rows = validate_integer(self.name, "rows of a block", rows)
        return rechunk(self.chunks(start, rows), rows, stop)

    def where(self, row: int) -> str:
        """The place of a row of the stream in words: "row 7", or "part-0003.parquet, row 17 of the
        file".
        """
        return f"row {row}"

    def located(self, error: RowError, start: int = 0) -> RowError:
        """The error of a block whose first row is row `start` of the stream, with the place that
        where() names.
        """
        error = error.at(start)
        return error.named(self.where(error.row))

    def fingerprint(self) -> dict[str, Any]:
        """What the stream is, as plain JSON values: equal for the same data, different when a file
        was replaced or a column changed.

        Files count by name, size and time of modification; values in memory by shape, dtype and a
        hash, of all of them up to 64 MiB and of evenly spaced runs of rows beyond that ("hashed"
        says which).
        """
        mark = {
            "kind": self.kind,
            **self._identity(),
            "columns": None if self.columns is None else list(self.columns),
            "width": self.width,
            "dtype": str(self.dtype),
            "target": self.target,
            "weight": self.weight,
        }
        for name, values in (("y", self._y), ("sample_weight", self._weight)):
            if values is not None:
                mark[name] = {
                    "shape": list(values.shape),
                    "dtype": str(values.dtype),
                    **_hash_of_rows(values),
                }
        return mark

    def beside(self, y: Any, weight: Any) -> Stream:
        """This stream with values of y and weight that are in memory, one for each row."""
        if y is not None:
            self._y, self.target = self._values("target", y), "given"
        if weight is not None:
            self._weight, self.weight = (
                _as_weight(self.name, self._values("weight", weight)),
                "given",
            )
        return self

    def held(self, start: int, stop: int) -> dict[str, Any]:
        """What of rows start to stop is in memory, by the attribute that has it: what another
        process needs beside the files.
        """
        beside = {"_y": self._y, "_weight": self._weight}
        return {name: values[start:stop] for name, values in beside.items() if values is not None}

    def holding(self, held: dict[str, Any], first: int) -> Self:
        """A copy that holds this, which starts with row `first` of the stream. Rows keep their
        numbers.
        """
        other = copy.copy(self)
        vars(other).update(held, _first=first, _watch=None)
        return other

    def files(self) -> list[dict[str, Any]]:
        """Name, size and time of modification of each file; none for what is in memory."""
        return []

    def record_files(self) -> None:
        """Take the files as they are now for what they have to be; for another machine, which sees
        them anew.
        """

    def require_same_files(self, error: Exception | None = None) -> None:
        """Refuse to go on where a file is not what it was when the stream was opened; `error` is
        what reading met with.
        """

    def watched(self, watch: Watch) -> Stream:
        """This stream, which calls watch(row, rows in all or None) when reading begins, with the
        first row, and after every chunk.
        """
        self._watch = watch
        return self

    def _read(self, start: int, rows: int) -> Iterator[Parts]:
        raise NotImplementedError

    def _identity(self) -> dict[str, Any]:
        """What a fingerprint says beside width, dtype and names."""
        files = self.files()
        return {"files": files} if files else {}

    def _chunk_rows(self, rows: int, row_bytes: float = 0.0) -> int:
        """Rows of a chunk: a multiple of `rows` of about 8 MiB."""
        fitting = int(_CHUNK_BYTES / (row_bytes or self.width * self.dtype.itemsize))
        return rows * max(1, fitting // rows)

    def _checked(self, start: int, rows: int) -> Iterator[Chunk]:
        at = start
        self.require_same_files()
        self._tell(at)
        try:
            for X, y, weight in self._read(start, rows):
                stop = at + X.shape[0]
                if stop == at:
                    continue
                here = slice(at - self._first, stop - self._first)
                y = y if self._y is None else self._y[here]
                weight = weight if self._weight is None else self._weight[here]
                chunk = Chunk(X, y, weight, at)
                self._require_labels(chunk)
                self._require_weight(chunk)
                yield chunk
                at = stop
                self._tell(at)
        except (ValueError, OSError) as error:  # as half a file gives, whose rest is being written
            self.require_same_files(error)
            raise
        self.require_same_files()
        if self.rows is None:
            self.rows = at
        elif self.rows != at:
            raise ValueError(
                f"{self.name} had {self.rows} rows, and now ends after {at}: it has changed "
                "since it was opened."
            )

    def _tell(self, row: int) -> None:
        if self._watch is not None:
            self._watch(row, self.rows)

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

    def _require_labels(self, chunk: Chunk) -> None:
        if chunk.y is None:
            return
        missing = first_missing(chunk.y)
        if missing is not None:
            row, column, value = missing
            names = self.target if isinstance(self.target, list) else [self.target]
            name = (
                "" if names[-1] in (None, "given") else f" {names[min(column, len(names) - 1)]!r}"
            )
            before = f"The target{name} needs a value in every row, got {value} at"
            raise self.located(RowError(row, before, ". Drop such rows first."), chunk.start)

    def _require_weight(self, chunk: Chunk) -> None:
        if chunk.weight is None:
            return
        bad = ~(np.isfinite(chunk.weight) & (chunk.weight >= 0))
        if bad.any():
            row = int(np.argmax(bad))
            error = RowError(
                row, f"Weights must be finite and not negative, got {chunk.weight[row]} at", "."
            )
            raise self.located(error, chunk.start)


def rechunk(
    chunks: Iterable[Chunk], rows: int, stop: int | None = None
) -> Generator[Chunk, None, None]:
    """The same rows up to row `stop` in chunks of exactly `rows` rows; the last may be shorter.
    Nothing is copied that need not be.
    """
    waiting: list[Chunk] = []
    have = 0
    for chunk in chunks:
        end = len(chunk) if stop is None else min(len(chunk), stop - chunk.start)
        at = 0
        while at < end:
            take = min(rows - have, end - at)
            waiting.append(chunk.part(at, at + take))
            at, have = at + take, have + take
            if have == rows:
                yield _joined(waiting)
                waiting, have = [], 0
        if stop is not None and chunk.start + len(chunk) >= stop:
            break
    if waiting:
        yield _joined(waiting)


def as_float(dtypes: Iterable[Any]) -> np.dtype[Any]:
    """float32 when all dtypes are, otherwise float64."""
    return np.dtype(
        np.float32 if all(np.dtype(dtype) == np.float32 for dtype in dtypes) else np.float64
    )


def hash_chunks(stream: Stream, rows: int, row_bytes: float) -> dict[str, Any]:
    """A hash of the inputs of a stream in memory: of all rows, or of every k-th run of rows where
    they take more than 64 MiB.
    """
    digest = hashlib.sha256()
    total = max(1, rows * row_bytes)
    run = max(1, int(2**20 / row_bytes))
    step = run * max(1, round(total / _HASH_BYTES))
    for start in range(0, rows, step):
        for block in stream.blocks(run, start, min(start + run, rows)):
            X = block.X
            for values in (X.indptr, X.indices, X.data) if hasattr(X, "indptr") else (X,):
                digest.update(np.ascontiguousarray(values).data)
    return {"sha256": digest.hexdigest(), "hashed": _which(run, step)}


def _hash_of_rows(values: Array) -> dict[str, Any]:
    digest = hashlib.sha256()
    row_bytes = max(1, values.nbytes // max(1, len(values)))
    run = max(1, 2**20 // row_bytes)
    step = run * max(1, round(values.nbytes / _HASH_BYTES))
    for start in range(0, len(values), step):
        part = values[start : start + run]
        digest.update(
            repr(part.tolist()).encode()
            if part.dtype.kind in "OUST"
            else np.ascontiguousarray(part).data
        )
    return {"sha256": digest.hexdigest(), "hashed": _which(run, step)}


def _which(run: int, step: int) -> str:
    return "all rows" if step == run else f"{run} rows of every {step}"


def _joined(parts: Sequence[Chunk]) -> Chunk:
    first = parts[0]
    if len(parts) == 1:
        return first
    if hasattr(first.X, "indptr"):
        from scipy.sparse import vstack

        X = vstack([part.X for part in parts], format="csr")
        X.has_canonical_format = True
    else:
        X = np.concatenate([part.X for part in parts])
    y, weight = (
        None
        if column[0] is None
        else np.concatenate([values for values in column if values is not None])
        for column in ([part.y for part in parts], [part.weight for part in parts])
    )
    return replace(first, X=X, y=y, weight=weight)


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
