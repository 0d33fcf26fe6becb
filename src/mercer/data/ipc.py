"""Arrow IPC files (Feather): .feather, .arrow, .ipc, read by record batch.

By file reads, not from a memory map: where another process makes the file shorter, a read fails
with an error, and a map ends the process (SIGBUS).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Any

from mercer.data.arrow import pyarrow
from mercer.data.inputs import AnyPath, open_random
from mercer.data.table_files import TypedFilesTable, cast_batch


class ArrowFilesTable(TypedFilesTable):
    """Arrow files. The lengths of their record batches are read when they are opened."""

    kind = "arrow"

    def __init__(self, name: str, paths: Sequence[AnyPath], folder: AnyPath | None = None) -> None:
        pyarrow("Reading Arrow files")
        super().__init__(name, paths, folder)
        schemas = []
        self._lengths: list[list[int]] = []  # of the record batches of each file
        for i in range(len(paths)):
            with self._open(i) as reader:
                schemas.append(reader.schema)
            # one column of each batch, the others are not decompressed
            narrow = _narrowest(reader.schema)
            with self._open(i, narrow) as reader:
                counts = range(reader.num_record_batches)
                self._lengths.append([reader.get_batch(j).num_rows for j in counts])
        self._set_schemas(schemas, [sum(lengths) for lengths in self._lengths])

    def batches(
        self, i: int, types: dict[str, Any], start: int, rows: int
    ) -> Iterator[tuple[int, Any]]:
        lengths, ends = self._lengths[i], list(accumulate(self._lengths[i]))
        with self._open(i, list(types)) as reader:
            for j in range(bisect_right(ends, start), len(ends)):
                batch, at = reader.get_batch(j), ends[j] - lengths[j]
                if batch.num_rows != lengths[j]:
                    raise ValueError(f"{self.names[i]} has changed since it was opened.")
                for begin in range(max(0, start - at), lengths[j], rows):
                    yield at + begin, cast_batch(batch.slice(begin, rows), types)

    @contextmanager
    def _open(self, i: int, names: Sequence[str] | None = None) -> Iterator[Any]:
        """Return a reader of the named columns, all if None."""
        pa, ipc = pyarrow("Reading Arrow files"), pyarrow("Reading Arrow files", "ipc")
        try:
            with open_random(self.files.paths[i]) as file:
                reader = ipc.open_file(file)
                if names is not None:
                    places = sorted(reader.schema.get_field_index(name) for name in names)
                    options = ipc.IpcReadOptions(included_fields=places, use_threads=False)
                    reader = ipc.open_file(file, options=options)
                yield reader
        except FileNotFoundError:
            raise ValueError(f"{self.names[i]} does not exist any more.") from None
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"{self.names[i]} is damaged, or no Arrow file: {error}") from None


def _narrowest(schema: Any) -> list[str]:
    """Return the name of a column of the fewest bytes, as a list."""

    def width(item: Any) -> int:
        try:
            return int(item.type.bit_width)
        except (ValueError, TypeError):  # text and others of no fixed width
            return 2**31

    return [min(schema, key=width).name] if len(schema) else []
