"""What streams of files share: a name without its folder, a size, a time of modification."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mercer.streams.base import Stream


class OneFile(Stream):
    """A stream of one file: places are named by its name and the row in it."""

    path: Path

    def where(self, row: int) -> str:
        return place(self.path.name, row)

    def files(self) -> list[dict[str, Any]]:
        return identities([self.path], [self.path.name])


def place(name: str, row: int) -> str:
    """A row of a file in words."""
    return f"{name}, row {row} of the file"


def identities(paths: Sequence[Path], names: Sequence[str]) -> list[dict[str, Any]]:
    """Name, size and time of modification of each file."""
    marks = [(name, path.stat()) for path, name in zip(paths, names, strict=True)]
    return [{"name": name, "bytes": stat.st_size, "modified_ns": stat.st_mtime_ns} for name, stat in marks]
