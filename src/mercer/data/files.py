"""Share what streams of files have in common: names of places, identities, and the check that a
file stays as it was.
"""

from __future__ import annotations

import os
import zlib
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path
from typing import Any

from mercer.data.stream import Stream

_PAGE = 4096  # bytes that are read at one place for a checksum
_PLACES = 16  # places, evenly spaced; smaller sources are read whole


class ChangedFileError(ValueError):
    """A file is not what it was when it was opened."""


@dataclass(frozen=True)
class FileState:
    """What tells two contents of a path apart without reading all of it."""

    bytes: int
    modified_ns: int
    changed_ns: int  # of anything, permissions and name among it; nobody can set it
    inode: tuple[int, int]

    @classmethod
    def of(cls, path: Path) -> FileState | None:
        """Return the state of a file, None where there is no such file."""
        try:
            stat = os.stat(path)
        except FileNotFoundError:
            return None
        return cls(stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, (stat.st_dev, stat.st_ino))

    def differences(self, now: FileState | None) -> list[str]:
        """Describe what differs in `now`; empty when nothing does."""
        if now is None:
            return ["it is not there any more"]
        found = []
        if now.inode != self.inode:
            found.append("another file has taken its place")
        if now.bytes != self.bytes:
            found.append(f"size {self.bytes:,} -> {now.bytes:,} bytes")
        if now.modified_ns != self.modified_ns:
            found.append(f"modified {_time(self.modified_ns)} -> {_time(now.modified_ns)}")
        if not found and now.changed_ns != self.changed_ns:
            found.append(
                "written to, renamed, linked or given other permissions at "
                f"{_time(now.changed_ns)}, with the time of "
                "modification left as it was"
            )
        return found


class FileSet:
    """Files of one source as they were when it was opened: their states, and a checksum of up to 17
    pages of all of them.

    Parameters
    ----------
    paths : sequence of Path
    names : sequence of str
        What errors call them.
    listing : callable, optional
        Lists the files of a folder anew, so that new ones are noticed.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        names: Sequence[str],
        listing: Callable[[], Sequence[Path]] | None = None,
    ) -> None:
        self.paths, self.names, self._listing = list(paths), list(names), listing
        self._states = [FileState.of(path) for path in paths]
        self._checksums = self._sample()

    def recorded_anew(self) -> FileSet:
        """Return the same files as they are now."""
        return FileSet(self.paths, self.names, self._listing)

    def require_same(self, error: Exception | None = None) -> None:
        """Raise ChangedFileError where a file is not what it was; `error` is what reading it has
        met with.
        """
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
        """Return the checksum of evenly spaced pages of all files together, by the number of the
        file.
        """
        sizes = [0 if state is None else state.bytes for state in self._states]
        ends = list(accumulate(sizes))
        total, found = ends[-1], dict[int, int]()
        for at in (
            sorted({*range(0, total, max(_PAGE, total // _PLACES)), max(0, total - _PAGE)})
            if total
            else ()
        ):
            i = bisect_right(ends, at)
            with self.paths[i].open("rb", buffering=0) as file:
                file.seek(at - (ends[i] - sizes[i]))
                found[i] = zlib.crc32(file.read(_PAGE), found.get(i, 0))
        return found


class FileStream(Stream):
    """A stream of files, which are checked before and after each pass: a subclass sets ``_files``
    before it reads.
    """

    _files: FileSet

    def files(self) -> list[dict[str, Any]]:
        marks = [
            (name, path.stat())
            for path, name in zip(self._files.paths, self._files.names, strict=True)
        ]
        return [
            {"name": name, "bytes": stat.st_size, "modified_ns": stat.st_mtime_ns}
            for name, stat in marks
        ]

    def record_files(self) -> None:
        self._files = self._files.recorded_anew()  # copies of the stream keep theirs

    def require_same_files(self, error: Exception | None = None) -> None:
        self._files.require_same(error)


class OneFile(FileStream):
    """A stream of one file: places are named by its name and the row in it."""

    @property
    def path(self) -> Path:
        return self._files.paths[0]

    def where(self, row: int) -> str:
        return place(self.path.name, row)


def one_file(path: Path) -> FileSet:
    """Return the state of a single file."""
    return FileSet([path], [path.name])


def place(name: str, row: int) -> str:
    """A row of a file in words."""
    return f"{name}, row {row} of the file"


def _changed(name: str, what: str) -> ChangedFileError:
    return ChangedFileError(
        f"{name} has changed since it was opened: {what}. Old and new rows would be mixed, so "
        "the work was stopped. Copy the "
        "data to where nothing writes to it, and start again; a checkpoint of the rows read so "
        "far cannot be resumed."
    )


def _time(ns: int) -> str:
    seconds, rest = divmod(ns, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{rest:09d} UTC"
