"""Streams of .npy and .npz files.

They are read in chunks: the pages of a memory map would count as memory in use.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

import numpy as np

from mercer._typing import Array
from mercer.data.column_roles import Roles
from mercer.data.files import FileSet
from mercer.data.matrix import FileMatrixStream, csr_row_bytes
from mercer.data.stream import Parts

_SKIPPED_BYTES = 2**14  # of a row that are not in use: more than a read call takes
_SHOWN = 200  # characters of an error
# of zipfile: also for impossible offsets, unknown methods and encrypted members
_DAMAGES = (
    *(zipfile.BadZipFile, zlib.error, struct.error, KeyError),
    *(OSError, EOFError, NotImplementedError, RuntimeError, OverflowError),
)
_CSR = ("data", "indices", "indptr", "shape")


@dataclass(frozen=True)
class Header:
    """Header of a .npy file, and the offset of its data."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool
    offset: int

    @property
    def row_bytes(self) -> int:
        return int(np.prod(self.shape[1:], dtype=np.int64)) * self.dtype.itemsize


def read_header(file: IO[bytes], name: str) -> Header:
    """Read the header of an open .npy file; raise for pickled objects, which are never loaded."""
    try:
        version = np.lib.format.read_magic(file)
        read = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        shape, fortran, dtype = read(file)
    except (ValueError, EOFError, SyntaxError, TypeError, TokenError) as error:
        raise ValueError(f"{name} is not a .npy array: {error}") from None
    if dtype.hasobject:
        raise ValueError(
            f"{name} holds pickled Python objects, which could run code. Save plain numbers "
            "instead."
        )
    return Header(shape, dtype, fortran and len(shape) > 1, file.tell())


class NpyStream(FileMatrixStream):
    """Rows of a .npy file; in Fortran order a chunk is read column by column."""

    kind = "npy"

    def __init__(self, path: Path, **roles: Any) -> None:
        self._files = FileSet([path], [path.name])
        with path.open("rb") as file:
            header = read_header(file, path.name)
            size = file.seek(0, 2)
        super().__init__(path.name, header.shape, header.dtype, **roles)
        self._header = header
        self._first_column = 0
        given = self._roles
        used = [*given.inputs, *given.target, *([] if given.weight is None else [given.weight])]
        skipped = (given.width - max(used) + min(used) - 1) * header.dtype.itemsize
        if skipped > _SKIPPED_BYTES and not header.fortran:  # rows are read from `first` on
            first = self._first_column = min(used)
            self._roles = Roles(
                max(used) + 1 - first,
                tuple(place - first for place in given.inputs),
                tuple(place - first for place in given.target),
                None if given.weight is None else given.weight - first,
                given.several,
            )
        need = header.offset + header.shape[0] * header.row_bytes
        if size < need:
            raise ValueError(
                f"{path.name} is truncated: its header needs {need} bytes, and it has {size}."
            )

    def _read(self, start: int, rows: int) -> Iterator[Parts]:
        header = self._header
        n, width = header.shape
        step = self._chunk_rows(rows, self._row_bytes)
        with self.path.open("rb") as file:
            for at in range(start, n, step):
                take = min(step, n - at)
                if self._roles.width < width:
                    first, count = self._first_column, self._roles.width
                    parts = [
                        self._numbers(file, row * width + first, count)
                        for row in range(at, at + take)
                    ]
                    yield self._split(np.stack(parts))
                    continue
                if not header.fortran:
                    yield self._split(
                        self._numbers(file, at * width, take * width).reshape(take, width)
                    )
                    continue
                matrix = np.empty((take, width), header.dtype)
                for column in range(width):
                    matrix[:, column] = self._numbers(file, column * n + at, take)
                yield self._split(matrix)

    def _numbers(self, file: IO[bytes], first: int, count: int) -> Array:
        file.seek(self._header.offset + first * self._header.dtype.itemsize)
        numbers = np.fromfile(file, self._header.dtype, count)
        if len(numbers) < count:
            raise ValueError(f"{self.name} has become shorter since it was opened.")
        return numbers


class NpzStream(FileMatrixStream):
    """Rows of a .npz file: X, or its only array, or the parts of a CSR matrix.

    y and weight are other arrays of the file.
    """

    kind = "npz"

    def __init__(
        self, path: Path, *, columns: Any = None, target: Any = None, weight: Any = None
    ) -> None:
        self._files = FileSet([path], [path.name])
        with _archive(path) as archive:
            keys = [
                name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")
            ]
            self._key, shape, dtype = _matrix(archive, path.name, keys)
            self._labels = _key(
                path.name, keys, "target", "y" if target is None and "y" in keys else target
            )
            self._weights = _key(path.name, keys, "weight", weight)
            for key in (self._labels, self._weights):
                extra = None if key is None else _open(archive, path.name, key).header
                if extra is not None and (
                    extra.shape[:1] != shape[:1] or len(extra.shape) > 2 or extra.fortran
                ):
                    raise ValueError(
                        f"{path.name}: {key} needs a value for each of "
                        f"{shape[0] if shape else 0} rows, got {extra.shape}."
                    )
        super().__init__(
            path.name,
            shape,
            dtype,
            sparse=self._key is None,
            columns=columns,
            target=None if self._labels else target,
            weight=None if self._weights else weight,
        )
        self._shape = shape
        self.target, self.weight = self._labels or self.target, self._weights or self.weight

    def _read(self, start: int, rows: int) -> Iterator[Parts]:
        with _archive(self.path) as archive:
            extra = [
                None if key is None else _open(archive, self.name, key)
                for key in (self._labels, self._weights)
            ]
            for member in extra:
                if member is not None:
                    member.skip(start)
            at = start
            for matrix in (
                self._dense(archive, start, rows) if self._key else self._csr(archive, start, rows)
            ):
                y, weight = (
                    None if member is None else member.take(matrix.shape[0]) for member in extra
                )
                yield self._split(matrix, y, weight, start=at)
                at += matrix.shape[0]

    def _dense(self, archive: zipfile.ZipFile, start: int, rows: int) -> Iterator[Array]:
        member = _open(archive, self.name, str(self._key))
        member.skip(start)
        step = self._chunk_rows(rows, self._row_bytes)
        for at in range(start, self._shape[0], step):
            yield member.take(min(step, self._shape[0] - at))

    def _csr(self, archive: zipfile.ZipFile, start: int, rows: int) -> Iterator[Any]:
        from scipy.sparse import csr_array

        n, width = self._shape
        data, indices, pointers = (_open(archive, self.name, key) for key in _CSR[:3])
        pointers.skip(start)
        first = int(pointers.take(1)[0])
        data.skip(first)
        indices.skip(first)
        step = self._chunk_rows(rows, csr_row_bytes(data.header.shape[0], n))
        for at in range(start, n, step):
            ends = np.concatenate([[first], pointers.take(min(step, n - at))]).astype(np.int64)
            entries = int(ends[-1] - first)
            if (ends[1:] < ends[:-1]).any():
                row = at + int(np.argmax(ends[1:] < ends[:-1]))
                raise ValueError(
                    f"{self.name} is a malformed CSR matrix: indptr falls at row {row}, where it "
                    "must not. Save it again."
                )
            yield csr_array(
                (data.take(entries), indices.take(entries), ends - first),
                shape=(len(ends) - 1, width),
            )
            first = int(ends[-1])


class _Member:
    """An array of a .npz file, read in order."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self.file, self.name = file, name
        self.header = read_header(file, name)

    def skip(self, rows: int) -> None:
        self.file.seek(rows * self.header.row_bytes, 1)

    def take(self, rows: int) -> Array:
        header = self.header
        numbers = self.file.read(rows * header.row_bytes)
        if len(numbers) < rows * header.row_bytes:
            raise ValueError(f"{self.name} is truncated.")
        return np.frombuffer(numbers, header.dtype).reshape(rows, *header.shape[1:])


@contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        # the file is closed even if members are open
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            yield archive
    except FileNotFoundError:
        raise
    except _DAMAGES as error:
        text = str(error)[:_SHOWN]  # zipfile shows what it reads in place of a name
        raise ValueError(f"{path.name} is damaged, or no .npz file: {text}") from None


def _open(archive: zipfile.ZipFile, name: str, key: str) -> _Member:
    return _Member(archive.open(f"{key}.npy"), f"{name}[{key!r}]")


def _whole(archive: zipfile.ZipFile, name: str, key: str) -> Array:
    member = _open(archive, name, key)
    return (
        member.take(member.header.shape[0]) if member.header.shape else member.take(1).reshape(())
    )


def _key(name: str, keys: list[str], role: str, chosen: Any) -> str | None:
    """Return the array that target= or weight= names; None for a column of X, or nothing."""
    if isinstance(chosen, str) and chosen not in keys:
        raise ValueError(
            f"{name} has no array {chosen!r} ({role}). Its arrays: {', '.join(map(repr, keys))}."
        )
    return chosen if isinstance(chosen, str) else None


def _matrix(
    archive: zipfile.ZipFile, name: str, keys: list[str]
) -> tuple[str | None, tuple[int, ...], np.dtype[Any]]:
    """Return key, shape and dtype of the inputs; the key is None for a CSR matrix."""
    if set(_CSR) <= set(keys):
        layout = str(_whole(archive, name, "format").astype(str)) if "format" in keys else "csr"
        if layout != "csr":
            raise ValueError(f"{name} holds a {layout} matrix: save it as CSR (matrix.tocsr()).")
        n, width = (int(length) for length in _whole(archive, name, "shape"))
        _require_csr(archive, name, n)
        return None, (n, width), _open(archive, name, "data").header.dtype
    if "X" not in keys and len(keys) != 1:
        raise ValueError(
            f"{name} needs an array X, one array, or the parts of a CSR matrix "
            f"(scipy.sparse.save_npz). Its arrays: {', '.join(map(repr, keys)) or 'none'}."
        )
    key = "X" if "X" in keys else keys[0]
    header = _open(archive, name, key).header
    if header.fortran:
        raise ValueError(
            f"{name}: {key} is in Fortran order, which cannot be read row by row: save "
            f"numpy.ascontiguousarray({key})."
        )
    return key, header.shape, header.dtype


def _require_csr(archive: zipfile.ZipFile, name: str, rows: int) -> None:
    """Raise for parts of a CSR matrix with inconsistent types, lengths or ends."""
    data, indices, indptr = (_open(archive, name, key) for key in _CSR[:3])
    entries = data.header.shape
    types = [part.header.dtype.kind in "iu" for part in (indices, indptr)]
    wrong = ""
    if (
        len(entries) != 1
        or indices.header.shape != entries
        or indptr.header.shape != (rows + 1,)
        or not all(types)
    ):
        seen = ", ".join(
            f"{part.header.dtype} {part.header.shape}" for part in (data, indices, indptr)
        )
        wrong = f"its data, indices and indptr are {seen} for {rows} rows"
    else:
        first = int(indptr.take(1)[0])
        indptr.skip(rows - 1)
        last = int(indptr.take(1)[0]) if rows else first
        if (first, last) != (0, entries[0]):
            wrong = f"indptr goes from {first} to {last}, and 0 to {entries[0]} is needed"
    if wrong:
        raise ValueError(
            f"{name} is a malformed CSR matrix: {wrong}. Save it again (scipy.sparse.save_npz)."
        )
