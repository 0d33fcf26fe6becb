"""Checkpoints of ``accumulate``: the sum of the completed shards in one file.

A rerun resumes from the file, or raises with the input that has changed. The format is that of
``mercer.persistence.container``: arrays, and canonical JSON.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mercer.persistence import container
from mercer.persistence.container import canonical_json
from mercer.stats.base import State

_FORMAT = 2  # 1 has no partial shard
_FIELDS = ("inputs", "shards", "rows", "complete", "values")
_PARTIAL = "partial."  # prefix of the arrays of the partial shard


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The inputs, progress and state of a partial sum.

    Attributes
    ----------
    inputs : dict
        JSON values that the sum depends on: the caller's "spec", "source" (a fingerprint), "map",
        "grid", "isa" and "statistic".
    shards, rows : int
        Shards and rows in the sum: always the first ones.
    complete : bool
        Whether these are all rows.
    state : State
        State of the statistic.
    partial_rows : int
        Rows of the shard that is not completed yet: whole blocks.
    partial : State or None
        State of the statistic of these rows.
    """

    inputs: dict[str, Any]
    shards: int
    rows: int
    complete: bool
    state: State
    partial_rows: int = 0
    partial: State | None = None

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the file atomically: until then, an earlier file stays."""
        facts = {
            "inputs": self.inputs,
            "shards": self.shards,
            "rows": self.rows,
            "complete": self.complete,
            "values": self.state.values,
        }
        arrays = self.state.arrays
        if self.partial is not None:
            facts["partial"] = {"rows": self.partial_rows, "values": self.partial.values}
            parts = self.partial.arrays.items()
            arrays = {**arrays, **{f"{_PARTIAL}{name}": array for name, array in parts}}
        container.write(Path(path), "checkpoint", _FORMAT, facts, arrays)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Checkpoint:
        """Read a checkpoint; raise a ValueError where the file is damaged."""
        try:
            with container.open_container(Path(path), "checkpoint", _FORMAT) as file:
                facts, arrays = file.metadata, file.read_arrays()
                if set(facts) - {"partial"} != {"kind", "format", "sha256", *_FIELDS}:
                    raise ValueError(f"it needs {', '.join(_FIELDS)}, and nothing else")
        except ValueError as error:
            raise ValueError(
                f"{error} Name another file, or remove a damaged checkpoint to start from the "
                "first row."
            ) from None
        saved = (facts["inputs"], facts["shards"], facts["rows"], facts["complete"])
        if "partial" not in facts:
            return cls(*saved, State(arrays, facts["values"]))
        whole = {name: array for name, array in arrays.items() if not name.startswith(_PARTIAL)}
        part = {name.removeprefix(_PARTIAL): arrays[name] for name in arrays if name not in whole}
        partial = State(part, facts["partial"]["values"])
        return cls(*saved, State(whole, facts["values"]), facts["partial"]["rows"], partial)

    @classmethod
    def read_spec(cls, path: str | os.PathLike[str]) -> dict[str, Any] | None:
        """Return the ``spec`` of a checkpoint, such as the seed; None where there is no file."""
        if not Path(path).exists():
            return None
        spec: dict[str, Any] = cls.read(path).inputs["spec"]
        return spec

    @classmethod
    def read_row_count(cls, path: str | os.PathLike[str]) -> int:
        """Return the rows in a checkpoint without reading its arrays; 0 where there is no file."""
        if not Path(path).exists():
            return 0
        with container.open_container(Path(path), "checkpoint", _FORMAT) as file:
            partial = file.metadata.get("partial", {"rows": 0})
            return int(file.metadata["rows"]) + int(partial["rows"])

    def require_inputs(self, inputs: dict[str, Any], name: str) -> None:
        """Raise a ValueError that names the first input which differs from that of the sum."""
        for part, explain in _EXPLANATIONS.items():
            before, now = self.inputs.get(part), inputs.get(part)
            if before != now:
                raise ValueError(f"{name} cannot be resumed: {explain(before, now)} {_ADVICE}")
        shard_rows = inputs["grid"]["rows"] * inputs["grid"]["shard"]
        most = self.shards * shard_rows
        if not (self.rows == most or (self.complete and most - shard_rows < self.rows <= most)):
            raise ValueError(
                f"{name} cannot be resumed: {self.shards} shards have {most} rows, and the "
                f"checkpoint counts {self.rows}: a shard is missing or counted twice. {_ADVICE}"
            )
        blocks, rest = divmod(self.partial_rows, inputs["grid"]["rows"])
        if rest or not 0 <= blocks < inputs["grid"]["shard"]:
            raise ValueError(
                f"{name} cannot be resumed: {self.partial_rows} rows of a shard are no whole "
                f"blocks of {inputs['grid']['rows']}. {_ADVICE}"
            )


def to_json_values(name: str, value: Any) -> Any:
    """Return a value after a JSON round trip; raise a ValueError where JSON has no such value."""
    try:
        return json.loads(canonical_json(value))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must be JSON values (numbers, strings, lists, dicts): {error}."
        ) from None


_ADVICE = "Restore it, or name another checkpoint file to start from the first row."


def _changes(was: Any, now: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield (name, before, after) of the values that differ in two nested dicts."""
    if isinstance(was, dict) and isinstance(now, dict):
        for key in sorted({*was, *now}):
            yield from _changes(was.get(key), now.get(key), f"{path}.{key}" if path else key)
    elif was != now:
        yield path, was, now


def _explain_value(opening: str) -> Callable[[Any, Any], str]:
    def explain(was: Any, now: Any) -> str:
        name, before, after = next(_changes(was, now))
        return f"{opening}{name or 'it'} was {_shorten(before)}, now {_shorten(after)}."

    return explain


def _explain_source(was: dict[str, Any], now: dict[str, Any]) -> str:
    before, after = (
        {file["name"]: file for file in source.get("files", [])} for source in (was, now)
    )
    for name in sorted({*before, *after}):
        if name not in after or name not in before:
            change = "has been removed" if name in before else "is new"
            return f"the source has changed: {name} {change}."
        if before[name]["bytes"] != after[name]["bytes"]:
            return (
                f"the source has changed: {name} had {before[name]['bytes']:,} bytes, now "
                f"{after[name]['bytes']:,}."
            )
        if before[name] != after[name]:
            return f"the source has changed: {name} was modified since."
    rest = [
        {key: value for key, value in source.items() if key != "files"} for source in (was, now)
    ]
    if rest[0] == rest[1]:
        return "the source has changed: its files are in another order."
    return _explain_value("the source has changed: ")(*rest)


def _explain_isa(was: str, now: str) -> str:
    return (
        f"it was computed with the instruction set {was}, and {now} is in use, which rounds "
        f"differently: set MERCER_ISA={was}."
    )


def _explain_map(was: Any, now: Any) -> str:
    if was and now and {**was, "sha256": ""} == {**now, "sha256": ""}:
        return "the map has other random weights: use the seed of Checkpoint.read_spec(path)."
    return _explain_value("the map has changed: ")(was, now)


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


_EXPLANATIONS: dict[str, Callable[[Any, Any], str]] = {
    "spec": _explain_value(""),
    "source": _explain_source,
    "map": _explain_map,
    "grid": _explain_value("the grid of blocks has changed: "),
    "isa": _explain_isa,
    "statistic": _explain_value("the statistic has changed: "),
}
