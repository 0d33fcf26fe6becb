"""Checkpoint: the sum of the shards that are done, in one file; a rerun goes on from there or says
why it cannot.

The file is one of ``mercer.persistence.container``: arrays, and canonical JSON beside them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mercer.persistence import container
from mercer.persistence.container import canonical_json
from mercer.stats.basic import State

_FORMAT = 1
_FACTS = ("made", "shards", "rows", "complete", "facts")
_PARTS = ("spec", "source", "map", "grid", "isa", "summary")


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """What was summed, and how far.

    Attributes
    ----------
    made : dict
        What the sum depends on, as JSON values: the caller's "spec", "source" (a fingerprint),
        "map", "grid", "isa" and "summary".
    shards, rows : int
        How many shards, and rows, are in the sum: always the first ones.
    complete : bool
        Whether these are all rows.
    state : State
        Of the summary.
    """

    made: dict[str, Any]
    shards: int
    rows: int
    complete: bool
    state: State

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the file, whole or not at all: what was there before stays until then."""
        facts = {
            "made": self.made,
            "shards": self.shards,
            "rows": self.rows,
            "complete": self.complete,
            "facts": self.state.facts,
        }
        container.write(Path(path), "checkpoint", _FORMAT, facts, self.state.arrays)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Checkpoint:
        """The checkpoint in a file; a damaged one is refused."""
        try:
            with container.open_container(Path(path), "checkpoint", _FORMAT) as file:
                facts, arrays = file.metadata, file.read_arrays()
                if set(facts) != {"kind", "format", "sha256", *_FACTS}:
                    raise ValueError(f"it needs {', '.join(_FACTS)}, and nothing else")
        except ValueError as error:
            raise ValueError(f"{error} Remove it to start from the first row.") from None
        state = State(arrays, facts["facts"])
        return cls(facts["made"], facts["shards"], facts["rows"], facts["complete"], state)

    @classmethod
    def peek(cls, path: str | os.PathLike[str]) -> dict[str, Any] | None:
        """The spec that was given to fold with this checkpoint, so that a rerun can take the seed
        from it; None when there is no file.
        """
        if not Path(path).exists():
            return None
        spec: dict[str, Any] = cls.read(path).made["spec"]
        return spec

    @classmethod
    def rows_in(cls, path: str | os.PathLike[str]) -> int:
        """How many rows a file has summed up, without reading the sum; 0 when there is no file."""
        if not Path(path).exists():
            return 0
        with container.open_container(Path(path), "checkpoint", _FORMAT) as file:
            return int(file.metadata["rows"])

    def require(self, made: dict[str, Any], name: str) -> None:
        """Refuse to go on where something that the sum depends on is not what it was, and say
        what.
        """
        for part in _PARTS:
            was, now = self.made.get(part), made.get(part)
            if was != now:
                raise ValueError(
                    f"{name} cannot be resumed: {_SENTENCES[part](was, now)} {_WAY_OUT}"
                )
        whole = self.shards * made["grid"]["rows"] * made["grid"]["shard"]
        first = whole - made["grid"]["rows"] * made["grid"]["shard"]
        if not (self.rows == whole or (self.complete and first < self.rows <= whole)):
            raise ValueError(
                f"{name} cannot be resumed: {self.shards} shards have {whole} rows, and it "
                f"counts {self.rows}: "
                f"a shard is missing or there twice. {_WAY_OUT}"
            )


def plain(what: str, value: Any) -> Any:
    """value as JSON gives it back; refused where it is no plain value."""
    try:
        return json.loads(canonical_json(value))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{what} must be plain JSON values (numbers, words, lists, dicts): {error}."
        ) from None


_WAY_OUT = "Make it as it was, or name another checkpoint file to start from the first row."


def _changes(was: Any, now: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(name, before, after) of the values that differ in two nested dicts."""
    if isinstance(was, dict) and isinstance(now, dict):
        for key in sorted({*was, *now}):
            yield from _changes(was.get(key), now.get(key), f"{path}.{key}" if path else key)
    elif was != now:
        yield path, was, now


def _changed(opening: str) -> Any:
    def sentence(was: Any, now: Any) -> str:
        name, before, after = next(_changes(was, now))
        return f"{opening}{name or 'it'} was {_short(before)}, now {_short(after)}."

    return sentence


def _source(was: dict[str, Any], now: dict[str, Any]) -> str:
    before, after = ({file["name"]: file for file in one.get("files", [])} for one in (was, now))
    for name in sorted({*before, *after}):
        if name not in after or name not in before:
            return (
                f"the source has changed: {name} "
                f"{'is not there any more' if name in before else 'is new'}."
            )
        if before[name]["bytes"] != after[name]["bytes"]:
            return (
                f"the source has changed: {name} had {before[name]['bytes']:,} bytes, now "
                f"{after[name]['bytes']:,}."
            )
        if before[name] != after[name]:
            return f"the source has changed: {name} was written to since."
    rest = [{key: value for key, value in one.items() if key != "files"} for one in (was, now)]
    if rest[0] == rest[1]:
        return "the source has changed: its files are in another order."
    return str(_changed("the source has changed: ")(*rest))


def _isa(was: str, now: str) -> str:
    return (
        f"it was made with the instruction set {was}, and {now} is in use, which rounds "
        f"differently: set MERCER_ISA={was}."
    )


def _map(was: Any, now: Any) -> str:
    if was and now and {**was, "sha256": ""} == {**now, "sha256": ""}:
        return "the map has drawn other weights: give it the seed that Checkpoint.peek shows."
    return str(_changed("the map has changed: ")(was, now))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


_SENTENCES = {
    "spec": _changed(""),
    "source": _source,
    "map": _map,
    "grid": _changed("the grid of blocks has changed: "),
    "isa": _isa,
    "summary": _changed("another summary is asked for: "),
}
