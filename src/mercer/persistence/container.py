"""One safetensors file: arrays, and canonical JSON beside them. It runs no code, and its digest
covers all of it.

    8 bytes       the length of the opening, little-endian
    opening       {"__metadata__": {"mercer": "{...}"}, name: {"data_offsets": [from, to], "dtype":
    "F64", "shape": [...]}, ...} arrays        one after the other, little-endian, without gaps

The opening is judged before an array is read: nothing is allocated that the file does not have.
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
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from mercer.persistence.atomic_write import replacing

Array = NDArray[Any]

_MOST = 2**24  # bytes of the opening
_AXES = 8
_CODES = {"F": "f", "I": "i", "U": "u"}
DTYPES = {
    f"{letter}{8 * size}": np.dtype(f"<{kind}{size}")
    for letter, kind in _CODES.items()
    for size in ((4, 8) if kind == "f" else (1, 2, 4, 8))
} | {"BOOL": np.dtype(bool)}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}


@dataclass(frozen=True)
class Tensor:
    """Where an array is in a file, and what it is."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    span: tuple[int, int]


@dataclass(frozen=True, eq=False)
class Opened:
    """A file whose opening is in order; arrays() reads the rest."""

    facts: dict[str, Any]
    tensors: dict[str, Tensor]
    _file: IO[bytes]
    _unsigned: bytes  # the opening without its digest

    def arrays(self) -> dict[str, Array]:
        """All arrays, when the digest is that of the file."""
        digest = hashlib.sha256(self._unsigned)
        found = {}
        for name, tensor in sorted(self.tensors.items(), key=lambda item: item[1].span):
            array = np.empty(tensor.shape, np.uint8 if tensor.dtype == bool else tensor.dtype)
            view = array.reshape(-1).view(np.uint8).data
            _fill(self._file, view)
            digest.update(view)
            if tensor.dtype == bool:
                if array.max(initial=0) > 1:
                    raise ValueError(f"{name} has a byte that is neither true nor false")
                array = array.view(bool)
            found[name] = array.astype(array.dtype.newbyteorder("="), copy=False)
        if self.facts["sha256"] != digest.hexdigest():
            raise ValueError("its digest is not that of its content")
        return found


def write(
    path: Path, kind: str, version: int, facts: dict[str, Any], arrays: dict[str, Array]
) -> None:
    """Write the file, whole or not at all: what was there before stays until then. The same facts
    and arrays give the same bytes.
    """
    whole = {name: _little(name, array) for name, array in arrays.items()}
    order = sorted(whole, key=lambda name: (-whole[name].itemsize, name))  # so that each is aligned
    ends = np.cumsum([whole[name].nbytes for name in order], dtype=object).tolist()
    table = {
        name: {
            "dtype": _NAMES[whole[name].dtype],
            "shape": list(whole[name].shape),
            "data_offsets": [end - whole[name].nbytes, end],
        }
        for name, end in zip(order, ends, strict=True)
    }
    facts = {**facts, "kind": kind, "format": version, "sha256": ""}
    digest = hashlib.sha256(_opening(facts, table))
    views = [whole[name].reshape(-1).view(np.uint8).data for name in order]
    for view in views:
        digest.update(view)
    opening = _opening({**facts, "sha256": digest.hexdigest()}, table)
    if len(opening) > _MOST:
        raise ValueError(
            f"{path.name} would have {len(opening):,} bytes of names and parameters, and at most "
            f"{_MOST:,} are read. "
            "Use shorter names of columns, or none."
        )
    with replacing(path) as file:
        file.write(len(opening).to_bytes(8, "little") + opening)
        for view in views:
            file.write(view)


@contextmanager
def opened(path: Path, kind: str, version: int) -> Iterator[Opened]:
    """The file, its opening judged. A ValueError, there or in the with statement, becomes a
    sentence that names the file.

    Parameters
    ----------
    path : Path
    kind : str
        What the file must be: "model" or "checkpoint".
    version : int
        The newest format that is known.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError(
            f"{path} is {'a folder' if path.is_dir() else 'no file'}: name a {kind} file."
        )
    try:
        with path.open("rb") as file:
            header, facts = _read_opening(file)
            _must_be(path.name, kind, version, facts)
            tensors = _tensors(
                {name: one for name, one in header.items() if name != "__metadata__"}
            )
            start = file.tell()
            _must_fill(tensors, os.fstat(file.fileno()).st_size - start)
            table = {name: header[name] for name in tensors}
            signed = _opening(facts, table)
            file.seek(0)
            if file.read(start) != len(signed).to_bytes(8, "little") + signed:
                raise ValueError("its opening is not in canonical form")
            yield Opened(facts, tensors, file, _opening({**facts, "sha256": ""}, table))
    except _Refused:
        raise
    except (ValueError, RecursionError) as error:
        reason = (
            "it is nested too deeply"
            if isinstance(error, RecursionError)
            else str(error).rstrip(".")
        )
        raise ValueError(f"{path.name} is damaged, or no {kind}: {reason}.") from None


def canonical(value: Any) -> str:
    """JSON in one form: sorted keys, no spaces, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


class _Refused(ValueError):
    """A file that is whole, but not what was asked for."""


def _opening(facts: dict[str, Any], table: dict[str, Any]) -> bytes:
    text = canonical({"__metadata__": {"mercer": canonical(facts)}, **table}).encode()
    return text + b" " * (-len(text) % 8)


def _read_opening(file: IO[bytes]) -> tuple[dict[str, Any], dict[str, Any]]:
    first = file.read(8)
    length, rest = int.from_bytes(first, "little"), os.fstat(file.fileno()).st_size - 8
    if len(first) < 8 or not 2 <= length <= rest:
        pickled = first[:1] == b"\x80" and first[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")
        raise ValueError(
            "it is a pickle, which is never read"
            if pickled
            else "it is no safetensors file, or cut short"
        )
    if length > _MOST:
        raise ValueError(f"its opening has {length:,} bytes, and at most {_MOST:,} are read")
    header = _parsed(file.read(length))
    metadata = header.get("__metadata__")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("mercer"), str):
        raise ValueError(
            "it is a safetensors file of something else, without the metadata key 'mercer'"
        )
    if len(metadata) > 1:
        raise ValueError("it has other metadata beside the key 'mercer'")
    return header, _parsed(metadata["mercer"])


def _parsed(text: str | bytes) -> dict[str, Any]:
    value = json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    if not isinstance(value, dict):
        raise ValueError("its opening is no JSON object")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key of its opening is there twice")
    return found


def _no_constant(word: str) -> None:
    raise ValueError(f"its opening has {word}, which is no JSON number")


def _must_be(name: str, kind: str, version: int, facts: dict[str, Any]) -> None:
    seen, known = facts.get("kind"), facts.get("format")
    if (
        not isinstance(seen, str)
        or type(known) is not int
        or not isinstance(facts.get("sha256"), str)
    ):
        raise ValueError("its opening has no 'kind', 'format' and 'sha256'")
    if seen != kind:
        raise _Refused(f"{name} is a {seen[:40]} file of mercer, and a {kind} is needed.")
    if known > version:
        raise _Refused(
            f"{name} was written by a newer mercer, in format {str(known)[:20]}; this one reads "
            f"{version}. Install a newer mercer."
        )
    if known < 1:
        raise ValueError(f"there is no format {str(known)[:20]}")


def _tensors(table: dict[str, Any]) -> dict[str, Tensor]:
    return {name: _tensor(name, one) for name, one in table.items()}


def _tensor(name: str, one: Any) -> Tensor:
    if not all(part.isidentifier() or part.isdecimal() for part in name.split(".")):
        raise ValueError(f"{name[:40]!r} is no name of an array")
    if not isinstance(one, dict) or set(one) != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"{name} needs dtype, shape and data_offsets, and nothing else")
    dtype, shape, span = one["dtype"], one["shape"], one["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise ValueError(f"{name} has a dtype that is not known")
    if not (_counts(shape) and len(shape) <= _AXES and _counts(span) and len(span) == 2):
        raise ValueError(f"{name} has a shape or offsets that are no whole numbers of at least 0")
    if math.prod(shape) * DTYPES[dtype].itemsize != span[1] - span[0]:
        raise ValueError(f"{name} has offsets that are not those of its shape")
    return Tensor(DTYPES[dtype], tuple(shape), (span[0], span[1]))


def _counts(value: Any) -> bool:
    return isinstance(value, list) and all(type(number) is int and number >= 0 for number in value)


def _must_fill(tensors: dict[str, Tensor], size: int) -> None:
    """Refuse arrays that overlap, leave a gap, or are not all that follows."""
    at = 0
    for begin, end in sorted(tensor.span for tensor in tensors.values()):
        if begin != at:
            raise ValueError("its arrays overlap, or leave a gap")
        at = end
    if at != size:
        raise ValueError(f"its arrays have {str(at)[:20]} bytes, and {size:,} are there")


def _fill(file: IO[bytes], view: memoryview) -> None:
    at = 0
    while at < len(view):
        count = file.readinto(view[at:])  # type: ignore[attr-defined]
        if not count:
            raise ValueError("it was cut short while it was read")
        at += count


def _little(name: str, array: Array) -> Array:
    array = np.asarray(array, order="C")
    kind = array.dtype.newbyteorder("<")
    if kind not in _NAMES:
        raise ValueError(
            f"{name} is an array of {array.dtype}, which a file does not keep: "
            f"{', '.join(map(str, _NAMES))}."
        )
    return array.astype(kind, copy=False)
