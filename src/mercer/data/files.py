"""Files of a stream: their states, and the checks that neither they nor their rows change."""

from __future__ import annotations

import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from mercer._typing import Array, is_csr

SEGMENT_BYTES = 4 * 2**20  # of dense rows that have one checksum
SEGMENT_ROWS = 2**14  # of sparse rows, whose bytes differ
_PAGE = 4096  # bytes of one sample of a checksum
_SAMPLES = 16  # evenly spaced; smaller sources are read completely


class ChangedFileError(ValueError):
    """A file has changed since it was opened."""


@dataclass(frozen=True)
class FileState:
    """Size, times and inode of a file, which differ when its content does."""

    bytes: int
    modified_ns: int
    changed_ns: int  # of content, permissions or name; cannot be set
    inode: tuple[int, int | str]  # a text is the ETag of a URL

    @classmethod
    def of(cls, path: Any) -> FileState | None:
        """Return the state of a file, a Path or a RemoteFile; None if it does not exist."""
        try:
            stat = path.stat()
        except FileNotFoundError:
            return None
        return cls(stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, (stat.st_dev, stat.st_ino))

    def differences(self, now: FileState | None) -> list[str]:
        """Return descriptions of the differences of a later state."""
        if now is None:
            return ["it does not exist any more"]
        changes = []
        if now.inode != self.inode:
            changes.append("another file has taken its place")
        if now.bytes != self.bytes:
            changes.append(f"size {self.bytes:,} -> {now.bytes:,} bytes")
        if now.modified_ns != self.modified_ns:
            changes.append(f"modified {_time(self.modified_ns)} -> {_time(now.modified_ns)}")
        if not changes and now.changed_ns != self.changed_ns:
            changes.append(
                "written to, renamed, linked or given other permissions at "
                f"{_time(now.changed_ns)}, with the time of modification unchanged"
            )
        return changes


class FileSet:
    """Files of a source: their states when it was opened, and checksums of up to 17 pages.

    Parameters
    ----------
    paths : sequence of Path or RemoteFile
        None of them for a source in memory.
    names : sequence of str
        Names of the files in errors.
    listing : callable, optional
        Returns the present files of a folder, so that new ones are detected.
    """

    def __init__(
        self,
        paths: Sequence[Any],
        names: Sequence[str],
        listing: Callable[[], Sequence[Any]] | None = None,
    ) -> None:
        self.paths, self.names, self._listing = list(paths), list(names), listing
        self._states = [FileState.of(path) for path in paths]
        self._checksums = self._sample()

    def recorded_anew(self) -> FileSet:
        """Return the same files with their present states."""
        return FileSet(self.paths, self.names, self._listing)

    def require_same(self, error: Exception | None = None) -> None:
        """Raise ChangedFileError, caused by `error`, if a file has changed."""
        for path, name, was in zip(self.paths, self.names, self._states, strict=True):
            now = FileState.of(path)
            if now != was:
                changes = ["it did not exist"] if was is None else was.differences(now)
                raise _changed(name, ", ".join(changes)) from error
        if self._listing is not None:
            new = next((path for path in self._listing() if path not in self.paths), None)
            if new is not None:
                raise _changed(new.name, "it is new in the folder") from error
        for i, checksum in self._sample().items():
            if checksum != self._checksums.get(i):
                raise _changed(
                    self.names[i], "its content differs, at the same size and time"
                ) from error

    def _sample(self) -> dict[int, int]:
        """Return checksums of evenly spaced pages of all files together, by index of the file.

        Files of URLs, for which pages are requests, have their ETag.
        """
        if not self.paths or not all(isinstance(path, Path) for path in self.paths):
            return {}
        sizes = [0 if state is None else state.bytes for state in self._states]
        ends = list(accumulate(sizes))
        total, checksums = ends[-1], dict[int, int]()
        step = max(_PAGE, total // _SAMPLES)
        offsets = sorted({*range(0, total, step), max(0, total - _PAGE)}) if total else []
        indices = [bisect_right(ends, offset) for offset in offsets]
        for i in sorted(set(indices)):
            with self.paths[i].open("rb", buffering=0) as file:
                for offset in offsets[bisect_left(indices, i) : bisect_right(indices, i)]:
                    file.seek(offset - (ends[i] - sizes[i]))
                    checksums[i] = zlib.crc32(file.read(_PAGE), checksums.get(i, 0))
        return checksums


@dataclass(eq=False)
class PassChecksums:
    """Checksums of the rows of a pass in segments; those of earlier passes must be the same.

    They detect writes that keep size and times, as those to pages that another process has mapped.
    X, y and weight have a CRC-32 each, so that chunks may end anywhere. That of dense rows x is of
    sum_j w_j bits(x_j) with odd w_j, which is read three times as fast.

    Parameters
    ----------
    name : str
        Name of the source in errors.
    known : dict
        Checksums of earlier passes by the first row of the segment; new ones are added.
    rows : int
        Rows of a segment.
    words : array of shape (d,), uint64
        The numbers w_j; of shape (0,) for sparse rows.
    row : int
        The next row. A segment that a pass begins in the middle of has no checksum.
    """

    name: str
    known: dict[int, list[int]]
    rows: int
    words: Array
    row: int
    _whole: bool  # whether all rows of this segment are read
    _values: list[int] = field(default_factory=list)

    def add(self, *parts: Any, last: bool = False) -> None:
        """Add the next rows, or end after the last one.

        Raises ChangedFileError where an earlier pass has read others.
        """
        at, n = 0, parts[0].shape[0] if parts else 0
        while at < n or last:
            stop = min(n, at + self.rows - self.row % self.rows)
            if self._whole and stop > at:
                arrays: list[Any] = []
                for part in (part[at:stop] for part in parts if part is not None):
                    if is_csr(part):
                        arrays += [np.diff(part.indptr).astype(np.int64), part.indices, part.data]
                    elif part.dtype.kind in "OUST":
                        text = "".join(f"{label}\0" for label in part.ravel().tolist())
                        arrays.append(np.frombuffer(text.encode(errors="surrogatepass"), np.uint8))
                    elif part.dtype.kind == "f" and part.shape[1:] == self.words.shape:
                        bits = np.ascontiguousarray(part).view(f"u{part.itemsize}")
                        arrays.append(np.einsum("ij,j->i", bits, self.words.astype(bits.dtype)))
                    else:
                        arrays.append(part)
                before = self._values or [0] * len(arrays)
                self._values = [
                    zlib.crc32(np.ascontiguousarray(array).data, value)
                    for array, value in zip(arrays, before, strict=True)
                ]
            self.row += stop - at
            at = stop
            if last or self.row % self.rows == 0:
                values, self._values = self._values, []
                first = (self.row - 1) // self.rows * self.rows
                if values and self.known.setdefault(first, values) != values:
                    what = f"rows {first:,} to {self.row - 1:,} are not those of an earlier pass"
                    raise _changed(self.name, f"{what}, at the same size and time")
                self._whole, last = True, False


def describe_row(name: str, row: int) -> str:
    """Return the position of a row in a file as text."""
    return f"{name}, row {row} of the file"


def _changed(name: str, what: str) -> ChangedFileError:
    return ChangedFileError(
        f"{name} has changed since it was opened: {what}. Old and new rows would be mixed, so the "
        "command was stopped. Copy the data to where nothing writes to it, and start again; a "
        "checkpoint of the rows read so far cannot be resumed."
    )


def _time(ns: int) -> str:
    seconds, rest = divmod(ns, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{rest:09d} UTC"
