"""Atomic replacement of files.

The contents of ``name`` are written to ``.name.part`` in the same folder, which is locked (flock)
while its writer lives: a part without a lock is one of a killed process and is removed by the next
writer of the same name; a locked one belongs to another writer, and a second one is refused.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, NamedTuple

try:
    import fcntl
except ImportError:  # Windows, where an open file cannot be removed by another process
    fcntl = None  # type: ignore[assignment]

_ACL = "system.posix_acl_access"


class _Part(NamedTuple):
    """A locked part, and what the output was when it was opened: None where there was no file."""

    path: Path
    handle: int
    before: tuple[int, ...] | None


# Parts by path that reserve_output has opened and open_atomic has not yet taken.
_reserved: dict[Path, _Part] = {}


@contextmanager
def open_atomic(path: Path) -> Iterator[IO[bytes]]:
    """Open a temporary file that replaces path when the with statement succeeds.

    Symbolic links are followed. Mode, owner (where the system permits it) and access control list
    of an existing file are kept. The file and its folder are synced to disk. On an error the
    temporary file is removed and path is unchanged.

    Raises
    ------
    ValueError
        If path is a device, a FIFO or a socket.
    FileExistsError
        If another writer has the file open, or has written it since this one began.
    """
    target = Path(os.path.realpath(path))
    part = _reserved.pop(target, None) or _open_part(path, target)
    file = os.fdopen(part.handle, "wb")
    try:
        yield file
        file.flush()
        if part.before is not None:
            _copy_permissions(target, part.handle)
        os.fsync(part.handle)
        if _identify(path) != part.before or not _is_same_file(part.handle, part.path):
            raise FileExistsError(
                f"{path} was written by another program since this one began: it is left as it is, "
                "and nothing else was written. Name another file"
            )
        os.replace(part.path, target)
    except BaseException:
        if _is_same_file(part.handle, part.path):
            part.path.unlink(missing_ok=True)  # before the lock is released
        raise
    finally:
        with suppress(OSError):  # data that could not be written cannot be flushed
            file.close()
    if os.name == "posix":  # whose folders can be synced: the entry of the new name
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@contextmanager
def reserve_output(path: Path) -> Iterator[None]:
    """Refuse other writers of path until the with statement ends; open_atomic(path) is not one.

    For commands that write their output after hours of work.
    """
    target = Path(os.path.realpath(path))
    _reserved[target] = part = _open_part(path, target)
    try:
        yield
    finally:
        if _reserved.pop(target, None) is not None:  # nothing was written
            if _is_same_file(part.handle, part.path):
                part.path.unlink(missing_ok=True)
            os.close(part.handle)


def _open_part(path: Path, target: Path) -> _Part:
    """Create and lock the part of an output; that of a killed process is removed first."""
    part = target.with_name(f".{target.name}.part")
    while True:
        before = _identify(path)
        try:
            mode = 0o666 if before is None else 0o600
            handle, is_new = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), True
        except FileExistsError:
            try:
                if not stat.S_ISREG(part.lstat().st_mode):
                    raise ValueError(
                        f"{part} is not a regular file, and in the way of the temporary file of "
                        f"{path}: remove it, or name another output."
                    ) from None
                handle = os.open(part, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
                is_new = False
            except FileNotFoundError:  # its writer has ended
                continue
        try:
            if fcntl is not None:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise FileExistsError(
                f"{path} is being written by another run: wait until it ends, or name another file"
            ) from None
        except OSError:  # a file system without locks: the later writer wins
            pass
        if _is_same_file(handle, part):
            if is_new:
                return _Part(part, handle, before)
            part.unlink(missing_ok=True)
        os.close(handle)  # of an ended writer, or removed by another before it was locked


def _is_same_file(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.lstat())
    except FileNotFoundError:
        return False


def _identify(path: Path) -> tuple[int, ...] | None:
    """Return what changes when a file is written, None where there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise ValueError(f"{path} is not a regular file, and is not replaced: name another one.")
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _copy_permissions(source: Path, handle: int) -> None:
    """Copy owner, group, access control list and mode, in this order: each may reset the next."""
    found = source.stat()
    if hasattr(os, "fchown"):
        for uid, gid in ((-1, found.st_gid), (found.st_uid, -1)):
            with suppress(PermissionError):
                os.fchown(handle, uid, gid)
    if hasattr(os, "getxattr"):
        with suppress(OSError):  # inherited from the folder
            os.removexattr(handle, _ACL)
        with suppress(OSError):  # none, or a file system without
            os.setxattr(handle, _ACL, os.getxattr(source, _ACL))
    if hasattr(os, "fchmod"):
        os.fchmod(handle, stat.S_IMODE(found.st_mode))
