"""JSON lines (.jsonl, .ndjson): one object on each line, read by pyarrow in blocks of lines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from mercer.data.arrow import pyarrow
from mercer.data.column_roles import COLUMNS
from mercer.data.files import describe_row
from mercer.data.inputs import LONGEST_LINE, AnyPath, open_input
from mercer.data.stream import CHUNK_BYTES
from mercer.data.table_files import TextFilesTable
from mercer.errors import ColumnTypeError, RowError

_SHOWN = 60  # characters of a line in an error


class JsonLinesTable(TextFilesTable):
    """Files of JSON lines, whose columns are those of the first block of lines.

    Objects that lack a column have a missing cell; columns that come later are refused.
    """

    kind = "jsonl"

    def __init__(self, name: str, paths: Sequence[AnyPath], folder: AnyPath | None = None) -> None:
        pyarrow("Reading JSON lines")
        super().__init__(name, paths, folder)
        self.block_bytes = CHUNK_BYTES.get() // 8
        self._infer_types()

    def _infer_types(self) -> None:
        super()._infer_types()
        self.columns_of_files = [self.columns] * len(self.names)

    def _first_batches(self) -> Iterator[Any]:
        rows = False
        for i in range(len(self.names)):
            for block in self._blocks(i):
                yield self._parse(i, 0, block, self._declared, "infer")
                rows = True
                break
        if not rows:
            raise ValueError(f"{self.name} is empty: a JSON object on each line is needed.")

    def batches(
        self, i: int, types: dict[str, Any], start: int, rows: int
    ) -> Iterator[tuple[int, Any]]:
        others = "error" if {*types} >= {*self._types} else "ignore"
        at = 0
        for block in self._blocks(i):
            batch = self._parse(i, at, block, types, others)
            yield at, batch.select(list(types))
            at += batch.num_rows

    def _blocks(self, i: int) -> Iterator[bytes]:
        """Yield blocks of whole lines of file i that are not all blank."""
        name = self.names[i]
        try:
            with open_input(self.files.paths[i]) as file:
                text = file.read(self.block_bytes)
                while more := file.read(max(self.block_bytes, len(text))):
                    lines, end, rest = text.rpartition(b"\n")
                    if lines.strip():
                        yield lines + end
                    text = rest + more
                    if len(text) > LONGEST_LINE:
                        raise ValueError(
                            f"{name} has a line of more than {LONGEST_LINE:,} bytes: JSON lines "
                            "have one object on each line."
                        )
                if text.strip():
                    yield text
        except FileNotFoundError:
            raise ValueError(f"{name} does not exist any more.") from None
        except OSError as error:
            raise ValueError(f"{name} is damaged: {error}") from None

    def _parse(self, i: int, at: int, block: bytes, types: dict[str, Any], others: str) -> Any:
        """Return the record batch of a block of lines, whose first is row `at` of file i."""
        pa, reader = pyarrow("Reading JSON lines"), pyarrow("Reading JSON lines", "json")
        block = block.removeprefix(b"\xef\xbb\xbf")
        try:
            table = reader.read_json(
                pa.BufferReader(block),
                read_options=reader.ReadOptions(use_threads=False, block_size=len(block) + 1),
                parse_options=reader.ParseOptions(
                    explicit_schema=pa.schema(types), unexpected_field_behavior=others
                ),
            )
        except pa.ArrowInvalid as error:
            raise self._explain(i, at, block, types, others, error) from None
        (batch,) = table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([])]
        return batch

    def _explain(
        self, i: int, at: int, block: bytes, types: dict[str, Any], others: str, error: Exception
    ) -> ValueError:
        """Return an error for the first line that is no object, or has a value of another type."""
        kinds: dict[str, Any] = {}  # of the first value of each column, where no type is given
        for line in filter(bytes.strip, block.splitlines()):
            where = describe_row(self.names[i], at)
            try:
                values = json.loads(line)
            except ValueError as reason:
                values = f"no JSON ({reason})"
            if not isinstance(values, dict):
                text = line[:_SHOWN].decode(errors="replace")
                return RowError(
                    at,
                    'An object such as {"a": 1} is needed on each line, got '
                    f"{values if isinstance(values, str) else type(values).__name__}, {text!r}, at",
                    ".",
                    where,
                )
            for name, value in values.items():
                if name not in types and others == "error":
                    return RowError(
                        at,
                        f"{self.name}: column {name!r} is none of those of the first rows, at",
                        "",
                        where,
                        (". Write it in the first line (as null), or choose ", COLUMNS, "."),
                    )
                kind = types.get(name)
                if value is None or (kind is None and others != "infer"):
                    continue
                seen = kinds.setdefault(name, type(value)) if kind is None else None
                if kind is None and type(value) in (seen, int, float) and seen in (int, float):
                    continue
                if _fits(value, seen if kind is None else kind):
                    continue
                if kind is not None and pyarrow("Reading").types.is_null(self._types[name]):
                    return _late_value(name, value, at, where)
                return _mismatch(name, seen if kind is None else kind, value, at, where)
            at += 1
        return ValueError(f"{self.names[i]} cannot be read as JSON lines: {error}")


def _fits(value: Any, kind: Any) -> bool:
    """Return whether a value is of a Python type or of an Arrow type."""
    pa = pyarrow("Reading JSON lines")
    if isinstance(kind, type):
        return isinstance(value, kind)
    if pa.types.is_boolean(kind):
        return isinstance(value, bool)
    if pa.types.is_string(kind):
        return isinstance(value, str)
    if pa.types.is_integer(kind):
        return isinstance(value, int) and not isinstance(value, bool)
    if pa.types.is_floating(kind):
        return isinstance(value, int | float) and not isinstance(value, bool)
    try:
        pa.scalar(value, pa.string()).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return False
    return True


def _late_value(name: str, value: Any, row: int, where: str) -> RowError:
    """Return an error for the first value of a column, which is no number."""
    before = f"Column {name!r} has no values in the first rows, and then "
    before += f"{json.dumps(value)[:_SHOWN]} at"
    advice = (". Write a value of it in the first line, or leave it out with ", COLUMNS, ".")
    if isinstance(value, str):
        return ColumnTypeError(row, before, "", where, advice, name)
    return RowError(row, before, "", where, advice)


def _mismatch(name: str, kind: Any, value: Any, row: int, where: str) -> RowError:
    pa = pyarrow("Reading JSON lines")
    before = f"Column {name!r} has {_SAID.get(kind, str(kind))} in the first rows, and then "
    before += f"{json.dumps(value)[:_SHOWN]} at"
    advice = (". Correct it, or leave the column out with ", COLUMNS, ".")
    integer = not isinstance(kind, type) and pa.types.is_integer(kind)
    dates = not isinstance(kind, type) and pa.types.is_temporal(kind)
    if (integer and isinstance(value, float)) or (dates and isinstance(value, str)):
        return ColumnTypeError(row, before, "", where, advice, name)
    return RowError(row, before, "", where, advice)


_SAID = {int: "numbers", float: "numbers", str: "text", bool: "true and false", dict: "objects"}
