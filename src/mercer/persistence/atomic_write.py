"""Files that appear under their name whole, or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file beside path to write to; it takes the name, and the place of what was there, when the
    with statement ends well.
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
        with suppress(OSError):  # what could not be written cannot be flushed either
            file.close()
        part.unlink(missing_ok=True)


def remove_leftovers(path: Path) -> None:
    """Remove what processes that were killed while they wrote path have left beside it."""
    for part in path.parent.glob(f".{path.name}.*.part"):
        part.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """The new name on the disk too, where folders can be synced."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
