"""Atomic replacement of files."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO


@contextmanager
def open_atomic(path: Path) -> Iterator[IO[bytes]]:
    """Open a temporary file beside path that replaces it when the with statement succeeds.

    The file and its folder are synced to disk. On an error the temporary file is removed and path
    is unchanged.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.part")
    file = part.open("xb")
    try:
        yield file
        file.flush()
        os.fsync(file.fileno())
        file.close()
        os.replace(part, path)
        _sync_folder(path.parent)
    finally:
        with suppress(OSError):  # data that could not be written cannot be flushed
            file.close()
        part.unlink(missing_ok=True)


def remove_leftovers(path: Path) -> None:
    """Remove temporary files of processes that were killed while they wrote path."""
    for part in path.parent.glob(f".{path.name}.*.part"):
        part.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Sync the entry of the new name to disk, on systems whose folders can be synced."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
