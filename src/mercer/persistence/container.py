"""Safetensors files with a checksum: arrays, and metadata as canonical JSON.

    8 bytes   length of the header, little-endian
    header    {"__metadata__": {"mercer": "{...}"}, name: {"data_offsets": [begin, end],
              "dtype": "F64", "shape": [...]}, ...}, padded with spaces to a multiple of 8
    arrays    contiguous, little-endian

The header is validated before any array is read: nothing is allocated that the file does not
contain. The safetensors package is not used: it cannot write the canonical header that the
checksum covers, and it accepts headers of 100 MB, duplicate names and booleans other than 0 and 1.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np

from mercer._typing import Array
from mercer.persistence.atomic_write import open_atomic

_HEADER_BYTES = 2**24
_AXES = 8
_DTYPES = {
    **{f"F{8 * size}": np.dtype(f"<f{size}") for size in (4, 8)},
    **{f"I{8 * size}": np.dtype(f"<i{size}") for size in (1, 2, 4, 8)},
    **{f"U{8 * size}": np.dtype(f"<u{size}") for size in (1, 2, 4, 8)},
    "BOOL": np.dtype(bool),
}
_DTYPE_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


@dataclass(frozen=True)
class ArrayEntry:
    """Dtype, shape and byte range of an array in a file."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offsets: tuple[int, int]


@dataclass(frozen=True, eq=False)
class Container:
    """An open file with a valid header.

    Attributes
    ----------
    metadata : dict
        "kind", "format", "sha256" and the values that were given to ``write``.
    entries : dict
        Name of each array -> ArrayEntry.
    """

    metadata: dict[str, Any]
    entries: dict[str, ArrayEntry]
    _file: BufferedReader
    _unsigned_header: bytes  # with an empty checksum

    def read_arrays(self) -> dict[str, Array]:
        """Return all arrays by name; ValueError if the checksum is wrong."""
        checksum = hashlib.sha256(self._unsigned_header)
        arrays = {}
        for name, entry in sorted(self.entries.items(), key=lambda item: item[1].offsets):
            array = np.empty(entry.shape, np.uint8 if entry.dtype == bool else entry.dtype)
            view = array.reshape(-1).view(np.uint8).data
            count = self._file.readinto(view)
            require(count == len(view), "it was truncated while it was read")
            checksum.update(view)
            if entry.dtype == bool:
                require(array.max(initial=0) <= 1, f"{name} has a boolean that is not 0 or 1")
                array = array.view(bool)
            arrays[name] = array.astype(array.dtype.newbyteorder("="), copy=False)
        require(self.metadata["sha256"] == checksum.hexdigest(), "its checksum does not match")
        return arrays


def write(
    path: Path, kind: str, version: int, metadata: dict[str, Any], arrays: dict[str, Array]
) -> None:
    """Write a file atomically; the same metadata and arrays give the same bytes.

    Parameters
    ----------
    path : Path
    kind : str
        "model" or "checkpoint".
    version : int
        Version of the format of this kind.
    metadata : dict of JSON values
    arrays : dict of str to array
    """
    stored = {}
    for name, array in arrays.items():
        array = np.asarray(array, order="C")
        dtype = array.dtype.newbyteorder("<")
        if dtype not in _DTYPE_NAMES:
            stores = ", ".join(map(str, _DTYPE_NAMES))
            raise ValueError(f"{name} has dtype {array.dtype}; a file stores {stores}.")
        stored[name] = array.astype(dtype, copy=False)
    # by decreasing item size, so that each array is aligned
    order = [name for _, name in sorted((-array.itemsize, name) for name, array in stored.items())]
    table, end = {}, 0
    for name in order:
        begin, end = end, end + stored[name].nbytes
        table[name] = {
            "dtype": _DTYPE_NAMES[stored[name].dtype],
            "shape": list(stored[name].shape),
            "data_offsets": [begin, end],
        }
    metadata = {**metadata, "kind": kind, "format": version, "sha256": ""}
    checksum = hashlib.sha256(_encode_header(metadata, table))
    views = [stored[name].reshape(-1).view(np.uint8).data for name in order]
    for view in views:
        checksum.update(view)
    header = _encode_header({**metadata, "sha256": checksum.hexdigest()}, table)
    if len(header) > _HEADER_BYTES:
        raise ValueError(
            f"The header of {path.name} would have {len(header):,} bytes of names and parameters; "
            f"the limit is {_HEADER_BYTES:,}. Use shorter column names, or none."
        )
    with open_atomic(path) as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for view in views:
            file.write(view)


@contextmanager
def open_container(path: Path, kind: str, version: int) -> Iterator[Container]:
    """Open a file and validate its header.

    A ValueError, here or in the body of the with statement, is raised again with the name of the
    file.

    Parameters
    ----------
    path : Path
    kind : str
        Required kind: "model" or "checkpoint".
    version : int
        Newest supported version of the format.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        what = "a folder" if path.is_dir() else "not a regular file"
        raise ValueError(f"{path} is {what}; a {kind} file is needed.")
    try:
        with path.open("rb") as file:
            yield _read_container(file, path.name, kind, version)
    except _RefusedFile:
        raise
    except (ValueError, RecursionError) as error:
        nested = isinstance(error, RecursionError)
        reason = "it is nested too deeply" if nested else str(error).rstrip(".")
        raise ValueError(f"{path.name} is damaged or not a {kind} file: {reason}.") from None


def canonical_json(value: Any) -> str:
    """Return JSON with sorted keys, without spaces and NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


class _RefusedFile(ValueError):
    """An undamaged file of another kind or a newer format; the message names the file."""


def _read_container(file: BufferedReader, name: str, kind: str, version: int) -> Container:
    size = os.fstat(file.fileno()).st_size
    first = file.read(8)
    length = int.from_bytes(first, "little")
    if len(first) < 8 or not 2 <= length <= size - 8:
        pickled = first[:1] == b"\x80" and first[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")
        raise ValueError(
            "it is a pickle, which is never loaded"
            if pickled
            else "it is not a safetensors file, or truncated"
        )
    require(
        length <= _HEADER_BYTES,
        f"its header has {length:,} bytes, and the limit is {_HEADER_BYTES:,}",
    )
    header = file.read(length)
    table = _parse_json(header)
    metadata = _parse_metadata(table.pop("__metadata__", None))
    _validate_kind(name, kind, version, metadata)
    entries = {key: _parse_entry(key, fields) for key, fields in table.items()}
    _validate_offsets(entries, size - 8 - length)
    require(header == _encode_header(metadata, table), "its header is not in canonical form")
    return Container(metadata, entries, file, _encode_header({**metadata, "sha256": ""}, table))


def _encode_header(metadata: dict[str, Any], table: dict[str, Any]) -> bytes:
    text = canonical_json({"__metadata__": {"mercer": canonical_json(metadata)}, **table}).encode()
    return text + b" " * (-len(text) % 8)


def _parse_json(text: str | bytes) -> dict[str, Any]:
    value = json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
    require(isinstance(value, dict), "its header is not a JSON object")
    return value


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    require(len(value) == len(pairs), "its header has a duplicate key")
    return value


def _refuse_constant(word: str) -> None:
    raise ValueError(f"its header has {word}, which is not a JSON number")


def _parse_metadata(stored: Any) -> dict[str, Any]:
    require(
        isinstance(stored, dict) and isinstance(stored.get("mercer"), str),
        "it is a safetensors file of another program, without the metadata key 'mercer'",
    )
    require(len(stored) == 1, "it has other metadata than the key 'mercer'")
    return _parse_json(stored["mercer"])


def _validate_kind(name: str, kind: str, version: int, metadata: dict[str, Any]) -> None:
    stored, number = metadata.get("kind"), metadata.get("format")
    if (
        not isinstance(stored, str)
        or type(number) is not int
        or not isinstance(metadata.get("sha256"), str)
    ):
        raise ValueError("its metadata needs 'kind', 'format' and 'sha256'")
    if stored != kind:
        raise _RefusedFile(f"{name} is a {stored[:40]} file of mercer; a {kind} file is needed.")
    if number > version:
        raise _RefusedFile(
            f"{name} was written by a newer mercer, in format {str(number)[:20]}; this one reads "
            f"{version}. Install a newer mercer."
        )
    require(number >= 1, f"there is no format {str(number)[:20]}")


def _parse_entry(name: str, fields: Any) -> ArrayEntry:
    require(
        all(part.isidentifier() or part.isdecimal() for part in name.split(".")),
        f"{name[:40]!r} is not a valid array name",
    )
    require(
        isinstance(fields, dict) and set(fields) == {"dtype", "shape", "data_offsets"},
        f"{name} needs exactly the fields dtype, shape and data_offsets",
    )
    dtype, shape, offsets = fields["dtype"], fields["shape"], fields["data_offsets"]
    require(isinstance(dtype, str) and dtype in _DTYPES, f"{name} has an unsupported dtype")
    counts = [*shape, *offsets] if type(shape) is type(offsets) is list else [None]
    require(
        all(type(count) is int and count >= 0 for count in counts)
        and len(shape) <= _AXES
        and len(offsets) == 2,
        f"{name} has a shape or offsets that are not non-negative integers",
    )
    begin, end = offsets
    require(
        math.prod(shape) * _DTYPES[dtype].itemsize == end - begin,
        f"{name} has offsets that do not match its shape",
    )
    return ArrayEntry(_DTYPES[dtype], tuple(shape), (begin, end))


def _validate_offsets(entries: dict[str, ArrayEntry], size: int) -> None:
    """Require that the arrays cover the rest of the file without gaps and overlaps."""
    previous = 0
    for begin, end in sorted(entry.offsets for entry in entries.values()):
        require(begin == previous, "its arrays overlap or leave a gap")
        previous = end
    require(
        previous == size, f"its arrays need {str(previous)[:20]} bytes, and the file has {size:,}"
    )


def require(condition: bool, message: str) -> None:
    """Raise ValueError with the message unless the condition holds."""
    if not condition:
        raise ValueError(message)
