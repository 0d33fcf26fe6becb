"""Corrupted model files: changed bytes, and changed content with a valid checksum."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np

from mercer.persistence import container

JUNK: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1,
    2,
    7,
    2**31,
    2**62,
    2**64,
    -(2**63),
    0.0,
    -0.5,
    0.5,
    1e308,
    5e-324,
    "",
    "x",
    "auto",
    "../../etc",
    [],
    [1],
    [[]],
    {},
    {"tuple": []},
    {"tuple": [1, 2]},
    {"dict": [["a", 1]]},
    {"dict": [[{"tuple": [1]}, 1]]},
    {"float": "inf"},
    {"float": "nan"},
    {"number": ["float32", 0.5]},
    {"number": ["int8", 300]},
    {"dtype": "float32"},
    {"dtype": "object"},
    {"words": ["object", ["a"]]},
    {"words": ["<U9", ["a"]]},
    {"array": "gone"},
    {"record": ["Chain", {"stages": {"tuple": []}}]},
    {"record": ["Cos", {}]},
    {"record": ["CallableKernel", {"function": "x", "params": {"dict": []}}]},
    {"record": ["Sum", {"terms": {"tuple": []}}]},
    {"model": ["Hellinger", {}, None]},
    {"model": ["os", {}, {}]},
    {"csr": ["array", [1, 1], 1, 2, 3]},
]


def mutated(good: bytes, rng: np.random.Generator) -> bytes:
    """Return the bytes of a file after one random corruption."""
    size, header = len(good), 8 + int.from_bytes(good[:8], "little")
    at, other = sorted(
        int(place) for place in rng.integers(0, [size, header][int(rng.random() < 0.5)], 2)
    )
    some = bytes(rng.integers(0, 256, int(rng.integers(1, 9)), dtype=np.uint8))
    corruptions = [
        lambda: good[:at] + bytes([good[at] ^ (1 << int(rng.integers(8)))]) + good[at + 1 :],
        lambda: good[:at],
        lambda: good[:at] + some + good[at:],
        lambda: good[:at] + some + good[at + len(some) :],
        lambda: good[:at] + good[at + len(some) :],
        lambda: good[:at] + good[other:] + good[at:other],
        lambda: good[:at] + bytes(other - at) + good[other:],
        lambda: good[:at] + good[at:other] * 2 + good[other:],
        lambda: good + some,
        lambda: bytes(rng.integers(0, 256, 8, dtype=np.uint8)) + good[8:],
        lambda: _duplicate_key(good, header),
        lambda: good[:8] + good[8:header].replace(*_pair(rng)) + good[header:],
    ]
    return corruptions[int(rng.integers(len(corruptions)))]()


def _duplicate_key(good: bytes, header: int) -> bytes:
    """Return the file with a duplicate key in its header, and the new length."""
    text = good[8:header].rstrip()
    text = text[:-1] + b',"__metadata__":{}}'
    return len(text).to_bytes(8, "little") + text + good[header:]


def _pair(rng: np.random.Generator) -> tuple[bytes, bytes]:
    words = [b"F64 F32", b"F64 I64", b"1 2", b"0, 1,", b"null NaN", b"true 1", b"\" '"]
    before, after = words[int(rng.integers(len(words)))].split()
    return before, after


def content(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the metadata and the arrays of a model file."""
    with container.open_container(path, "model", 1) as file:
        return file.metadata, file.read_arrays()


def altered(
    facts: dict[str, Any], arrays: dict[str, Any], rng: np.random.Generator
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the content after one random change of a value or an array."""
    facts, arrays = copy.deepcopy(facts), dict(arrays)
    if arrays and rng.random() < 0.4:
        name = sorted(arrays)[int(rng.integers(len(arrays)))]
        changed = shapes_of(arrays[name]) + values_of(arrays[name], rng)
        arrays[name] = changed[int(rng.integers(len(changed)))]
        return facts, arrays
    places = list(_places(facts["model"]))
    holder, key = places[int(rng.integers(len(places)))]
    act = rng.random()
    if act < 0.15:
        del holder[key]
    elif act < 0.25 and isinstance(holder, dict):
        holder[
            ["transform", "__class__", "tile_transform_", "n_jobs", "odd", "a.b"][
                int(rng.integers(6))
            ]
        ] = 1
    elif act < 0.35:
        holder_2, key_2 = places[int(rng.integers(len(places)))]
        holder[key] = copy.deepcopy(holder_2[key_2])
    else:
        holder[key] = copy.deepcopy(JUNK[int(rng.integers(len(JUNK)))])
    return facts, arrays


def _places(value: Any) -> Any:
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


def shapes_of(array: np.ndarray) -> list[np.ndarray]:
    """Return the array in other shapes and dtypes."""
    found = [
        array[None],
        array[..., None],
        array[:0],
        array.reshape(-1)[:1],
        np.zeros((), array.dtype),
    ]
    if array.size:
        found += [array[:-1], np.concatenate([array, array[-1:]]), array.reshape(-1)]
    if array.ndim > 1:
        found += [
            array[:, :-1],
            array[:, :0],
            np.concatenate([array, array], axis=1),
            array.swapaxes(0, 1),
        ]
    found += [
        array.astype(kind)
        for kind in (np.float32, np.int32, np.uint8, bool)
        if np.isfinite(array).all()
    ]
    return [one for one in found if (one.shape, one.dtype) != (array.shape, array.dtype)]


def values_of(array: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """Return copies of the array with another number in one place."""
    if not array.size:
        return []
    numbers = (
        [np.nan, np.inf, -np.inf, -1.0, 0.0, 1e308]
        if array.dtype.kind == "f"
        else [-1, 2**31 - 1, 0, 1]
    )
    found = []
    for number in numbers:
        changed = array.copy()
        changed.reshape(-1)[int(rng.integers(array.size))] = number
        found.append(changed)
    return found


def named(stored: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Return an encoded value with the content of arrays in place of their names."""
    if isinstance(stored, list):
        return [named(one, arrays) for one in stored]
    if not isinstance(stored, dict):
        return stored
    if set(stored) == {"array"}:
        array = arrays[stored["array"]]
        return [str(array.dtype), list(array.shape), array.tobytes().hex()]
    return {key: named(value, arrays) for key, value in stored.items()}


def agrees(stored: Any, back: Any) -> bool:
    """Return whether a model that was loaded and saved again has the content of the file.

    A missing parameter or field has its default.
    """
    if isinstance(stored, dict) and isinstance(back, dict):
        return all(key in back and agrees(value, back[key]) for key, value in stored.items())
    if isinstance(stored, list) and isinstance(back, list):
        return len(stored) == len(back) and all(
            agrees(a, b) for a, b in zip(stored, back, strict=True)
        )
    return type(stored) is type(back) and stored == back
