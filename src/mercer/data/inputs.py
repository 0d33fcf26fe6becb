"""Files that are read: local ones, standard input, URLs; their formats and compression."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any

from mercer.data.arrow import pyarrow

CSV, PARQUET, ARROW, JSON = "CSV", "Parquet", "Arrow", "JSON lines"
FORMATS = {
    ".parquet": PARQUET,
    ".csv": CSV,
    ".tsv": CSV,
    ".feather": ARROW,
    ".arrow": ARROW,
    ".ipc": ARROW,
    ".jsonl": JSON,
    ".ndjson": JSON,
}
COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd"}
_ARCHIVES = (".xz", ".zip", ".7z", ".tar", ".tgz", ".rar", ".lz4", *COMPRESSED)
STANDARD_INPUT = "-"
LONGEST_LINE = 2**26  # bytes of a line of text: three million columns of 20 characters
_URL = re.compile(r"([a-z][a-z0-9+]+):/+(.*)", re.DOTALL)

AnyPath = Any  # Path or RemoteFile, which have the same methods


class RemoteFile:
    """A file or folder of a URL, read by fsspec, with the methods of a Path that readers use."""

    def __init__(self, url: str) -> None:
        self.url = url
        pure = PurePosixPath(url.partition("://")[2])
        self.name, self.suffix, self.suffixes = pure.name, pure.suffix, pure.suffixes
        self._connect()

    def __str__(self) -> str:
        return self.url

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemoteFile) and other.url == self.url

    def __hash__(self) -> int:
        return hash(self.url)

    def __reduce__(self) -> Any:
        return RemoteFile, (self.url,)

    def _connect(self) -> None:
        try:
            core = import_module("fsspec.core")
        except ImportError:
            raise ValueError(
                f"Reading {self.url} needs fsspec and its package for these addresses: pip install "
                "fsspec (and s3fs for s3://, gcsfs for gs://, adlfs for abfs://)."
            ) from None
        try:
            self._system, self._path = core.url_to_fs(self.url)
        except (ImportError, ValueError) as error:  # the package of the protocol is missing
            raise ValueError(f"{self.url} cannot be read: {error}") from None

    def absolute(self) -> RemoteFile:
        return self

    def open(self, mode: str = "rb") -> Any:
        return self._system.open(self._path, mode)

    def is_dir(self) -> bool:
        return bool(self._system.isdir(self._path))

    def is_file(self) -> bool:
        return bool(self._system.isfile(self._path))

    def exists(self) -> bool:
        return bool(self._system.exists(self._path))

    def files(self) -> list[RemoteFile]:
        """Return the files of the folder and its subfolders."""
        self._system.invalidate_cache()
        found = self._system.find(self._path)
        return [RemoteFile(self._system.unstrip_protocol(path)) for path in found]

    def stat(self) -> Any:
        """Return the size and a hash of what changes with the content: ETag, checksum or time."""
        self._system.invalidate_cache()
        info = self._system.info(self._path)
        known = ("ETag", "etag", "md5", "checksum", "LastModified", "mtime", "last_modified")
        marks = [str(info[name]) for name in (*known, "created") if info.get(name) is not None]
        seconds = info.get("mtime")
        return SimpleNamespace(
            st_size=int(info.get("size") or 0),
            st_mtime_ns=int(seconds * 1e9) if isinstance(seconds, int | float) else 0,
            st_ctime_ns=0,
            st_dev=0,
            st_ino="|".join(marks),
        )


def resolve(source: str | os.PathLike[str]) -> AnyPath:
    """Return the path of a source: a local Path, a RemoteFile, or a copy of standard input."""
    if isinstance(source, RemoteFile):
        return source
    text = os.fspath(source)
    if text == STANDARD_INPUT:
        return _spool(sys.stdin.buffer)
    address = _URL.fullmatch(text)  # a Path has lost the second slash
    if address and not os.path.lexists(text):
        protocol, rest = address.groups()
        return Path(f"/{rest}") if protocol == "file" else RemoteFile(f"{protocol}://{rest}")
    return Path(text)


@lru_cache(maxsize=1)  # commands open their input more than once
def _spool(stream: Any) -> Path:
    """Copy standard input, which is read several times, to a temporary file."""
    folder = Path(tempfile.mkdtemp(prefix="mercer-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "standard-input"
    with path.open("wb") as file:
        shutil.copyfileobj(stream, file, 2**20)
    if not path.stat().st_size:
        raise ValueError("Standard input (-) is empty: pipe a file into the command.")
    suffixes = {PARQUET: ".parquet", ARROW: ".arrow", JSON: ".jsonl", CSV: ".csv"}
    return path.rename(path.with_suffix(suffixes[_format_of_content(path)]))


def _format_of_content(path: Path) -> str:
    with open_input(path) as file:
        start = file.read(512)
    if start.startswith(b"PAR1"):
        return PARQUET
    if start.startswith(b"ARROW1"):
        return ARROW
    return JSON if start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") else CSV


def format_of(path: AnyPath) -> str | None:
    """Return the format of a file by its suffix, that of compression left out; None if unknown."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if len(suffixes) > 1 and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    return FORMATS.get(suffixes[-1]) if suffixes else None


def require_readable(path: AnyPath) -> None:
    """Raise for a compressed file that must be unpacked first."""
    outer = path.suffix.lower()
    known = format_of(path)
    if outer not in _ARCHIVES or (outer in COMPRESSED and known in (CSV, JSON)):
        return
    inside = " (it is compressed inside, and is read)" if known in (PARQUET, ARROW) else ""
    raise ValueError(
        f"{path.name} is compressed: unpack it first{inside}. Of CSV and JSON lines, "
        f"{', '.join(COMPRESSED)} are read."
    )


def open_input(path: AnyPath) -> Any:
    """Open a file for pyarrow, decompressed where its first bytes say that it is compressed."""
    pa = pyarrow("Reading")
    file = open_random(path)
    start = file.read(4)
    file.seek(0)
    codec = next((codec for magic, codec in _MAGIC.items() if start.startswith(magic)), None)
    return file if codec is None else pa.CompressedInputStream(file, codec)


def open_random(path: AnyPath) -> Any:
    """Open a file for pyarrow as it is."""
    pa = pyarrow("Reading")
    if isinstance(path, RemoteFile):
        return pa.PythonFile(path.open(), mode="r")
    return pa.OSFile(os.fspath(path))


def files_in(folder: AnyPath) -> list[Any]:
    """Return the tables of a folder and its subfolders, which have one format, sorted by name.

    Hidden files and those that start with an underscore are not data.
    """
    root = str(folder)
    remote = isinstance(folder, RemoteFile)
    found = folder.files() if remote else [path for path in folder.rglob("*") if path.is_file()]
    files = []
    for path in sorted(found, key=str):
        parts = PurePosixPath(os.path.relpath(str(path), root).replace(os.sep, "/")).parts
        if format_of(path) is None or any(part.startswith((".", "_")) for part in parts):
            continue
        if any("=" in part for part in parts[:-1]):
            raise ValueError(
                f"{folder.name}/{'/'.join(parts)}: columns kept in folder names are not read. "
                "Write them into the files."
            )
        files.append(path)
    if not files:
        raise ValueError(f"The folder {folder} has no {', '.join(FORMATS)} files.")
    require_one_format(f"The folder {folder.name}", files)
    return files


def require_one_format(source: str, paths: Sequence[AnyPath]) -> str:
    """Return the format of files; raise where there are several."""
    first = paths[0]
    for path in paths:
        if format_of(path) != format_of(first):
            raise ValueError(
                f"{source} has files of two formats, {first.name} ({format_of(first)}) and "
                f"{path.name} ({format_of(path)}): put each format into a folder of its own."
            )
    return str(format_of(first))
