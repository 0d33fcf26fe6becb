"""open_writer(path, columns): write rows to .parquet, .npy, .csv and .tsv files.

Rows are written to a temporary file beside the target, which replaces it at the end; those for
"-" are CSV on standard output.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, Self

import numpy as np

from mercer._typing import Array
from mercer.data.arrow import pyarrow
from mercer.data.csv_dialect import DELIMITERS
from mercer.persistence.atomic_write import open_atomic
from mercer.validation.parameters import validate_integer

_STANDARD_OUTPUT = Path("-")
_NPY_HEADER = 128  # bytes: room for the number of rows, which is written at the end


def open_writer(path: str | os.PathLike[str], columns: Any, *, dtype: Any = np.float64) -> Writer:
    """Open a file for rows, which are written block by block in a with statement.

    The file appears under its name when the statement ends without an error.

    Parameters
    ----------
    path : path
        Its suffix is the format: ``.parquet``, ``.npy``, ``.csv`` or ``.tsv``. An existing file is
        replaced at the end. "-" is CSV on standard output, as the rows come.
    columns : int, list of str, or mapping of names to dtypes
        Number of columns (x0, x1, ...), their names, or names and dtypes. In Parquet ``{"z": ("f4",
        512)}`` is one column of lists of 512 numbers, which is written and read many times faster
        than 512 columns. ``object`` and ``str`` are text. Columns of Arrow types are Arrow arrays.
    dtype : dtype
        Dtype of the columns for which none is given.

    Returns
    -------
    writer : Writer
        ``writer.write(rows)`` takes a 2-d array, or a mapping of names to columns.

    Examples
    --------
    >>> import numpy as np, os, tempfile
    >>> from mercer.data import open_writer
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "features.npy")
    ...     with open_writer(path, 2) as writer:
    ...         writer.write(np.ones((3, 2)))
    ...     np.load(path).shape
    (3, 2)
    """
    path = Path(path)
    if isinstance(columns, Mapping):
        types = {
            str(name): kind if _is_arrow(kind) else np.dtype(kind) for name, kind in columns.items()
        }
    elif isinstance(columns, Sequence) and not isinstance(columns, str):
        types = {str(name): np.dtype(dtype) for name in columns}
        if len(types) < len(columns):
            raise ValueError(f"open_writer: two columns have one name among {list(columns)}.")
    else:
        types = {
            f"x{place}": np.dtype(dtype)
            for place in range(validate_integer("open_writer", "columns", columns))
        }
    if not types:
        raise ValueError(f"open_writer: {path.name} needs at least one column.")
    suffix = ".csv" if path == _STANDARD_OUTPUT else path.suffix.lower()
    if suffix not in _SINKS:
        raise ValueError(
            f"{path.name} has a suffix that cannot be written: use {', '.join(_SINKS)}."
        )
    if path.is_dir() or not path.parent.is_dir():
        missing = f"There is no folder {path.parent} to write to."
        raise ValueError(f"{path} is a folder." if path.is_dir() else missing)
    return _SINKS[suffix](path, types)


class Writer:
    """Base class of files of rows; subclasses implement ``_start``, ``_append``, ``_finish``."""

    def __init__(self, path: Path, types: dict[str, Any]) -> None:
        self.path, self.types, self.rows = path, types, 0
        self._check()

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            self._file = opened.enter_context(_open_output(self.path))
            opened.callback(self._drop)
            self._start()
            self._opened = opened.pop_all()
        return self

    def write(self, rows: Any) -> None:
        """Append rows: a 2-d array (or 1-d, for one column), or a mapping of names to columns.

        Values that the dtype of a column cannot hold are refused.
        """
        table = self._table(rows)
        lengths = {len(values) for values in table.values()}
        if len(lengths) > 1:
            raise ValueError(
                f"{self.path.name}: columns of one length are needed, got {sorted(lengths)} rows."
            )
        (n,) = lengths
        if n:
            self._append(table, n)
            self.rows += n

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        if kind is None:
            self._opened.callback(self._finish)
        self._opened.__exit__(kind, value, trace)

    def _drop(self) -> None:
        """Close what _start has opened, but for the file itself."""

    def _table(self, rows: Any) -> dict[str, Array]:
        if isinstance(rows, Mapping):
            if set(rows) != set(self.types):
                raise ValueError(
                    f"{self.path.name} has the columns {list(self.types)}, got {list(rows)}."
                )
            table = {
                name: rows[name] if _is_arrow(kind) else np.asarray(rows[name])
                for name, kind in self.types.items()
            }
        else:
            values = np.asarray(rows)
            values = values[:, None] if values.ndim == 1 else values
            widths = [int(np.prod(kind.shape, dtype=np.int64)) for kind in self.types.values()]
            if values.ndim != 2 or values.shape[1] != sum(widths):
                raise ValueError(
                    f"{self.path.name} needs rows of {sum(widths)} columns, got an array of "
                    f"shape {values.shape}."
                )
            ends = np.cumsum(widths)
            table = {
                name: values[:, end - width : end].reshape(-1, *kind.shape)
                for (name, kind), width, end in zip(self.types.items(), widths, ends, strict=True)
            }
        return {name: self._cast(name, values, self.types[name]) for name, values in table.items()}

    def _cast(self, name: str, values: Any, kind: Any) -> Any:
        if _is_arrow(kind):
            return values
        if values.shape[1:] != kind.shape:
            raise ValueError(
                f"{self.path.name}: column {name!r} needs shape {('rows', *kind.shape)}, got "
                f"{values.shape}."
            )
        if kind.kind in "OUT":
            return values.astype(object)
        if not np.can_cast(values.dtype, kind.base):
            raise ValueError(
                f"{self.path.name}: column {name!r} is {kind.base}, and {values.dtype} does not "
                "fit into it. Convert it first (astype), or give the writer a wider dtype."
            )
        return values.astype(kind.base, copy=False)

    def _check(self) -> None:
        """Raise for columns that the format does not support."""

    def _start(self) -> None:
        raise NotImplementedError

    def _append(self, table: dict[str, Array], n: int) -> None:
        raise NotImplementedError

    def _finish(self) -> None:
        raise NotImplementedError


class NpyWriter(Writer):
    """A .npy file of a 2-d array; the header is rewritten when the number of rows is known."""

    def _check(self) -> None:
        kinds: set[Any] = {
            _numpy_type(kind) if _is_arrow(kind) else kind.base for kind in self.types.values()
        }
        if len(kinds) > 1 or getattr(next(iter(kinds)), "kind", "O") not in "biuf":
            raise ValueError(
                f"{self.path.name} needs numbers of one dtype, got {sorted(map(str, kinds))}: "
                "write .parquet."
            )
        self._dtype = next(iter(kinds))
        self._width = int(sum(np.prod(kind.shape, dtype=np.int64) for kind in self.types.values()))

    def _start(self) -> None:
        self._file.write(self._header())

    def _append(self, table: dict[str, Array], n: int) -> None:
        columns = [np.asarray(values).reshape(n, -1) for values in table.values()]
        self._file.write(np.ascontiguousarray(np.concatenate(columns, axis=1)).data)

    def _finish(self) -> None:
        self._file.seek(0)
        self._file.write(self._header())

    def _header(self) -> bytes:
        descr = np.lib.format.dtype_to_descr(self._dtype)
        text = (
            f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': ({self.rows}, "
            f"{self._width}), }}"
        )
        room = _NPY_HEADER - 10
        return (
            b"\x93NUMPY\x01\x00"
            + room.to_bytes(2, "little")
            + f"{text:<{room - 1}}\n".encode("latin1")
        )


class ParquetTableWriter(Writer):
    """A Parquet file with row groups of about 32 MiB, whatever the size of the written blocks."""

    row_group_bytes = 32 * 2**20  # before compression

    def _check(self) -> None:
        pa = pyarrow("Writing Parquet")
        self._schema = pa.schema(
            [(name, _arrow_type(self.path.name, kind)) for name, kind in self.types.items()]
        )

    def _start(self) -> None:
        parquet = pyarrow("Writing Parquet", "parquet")
        self._writer = parquet.ParquetWriter(self._file, self._schema)
        self._waiting: list[Any] = []
        self._bytes = 0

    def _append(self, table: dict[str, Array], n: int) -> None:
        batch = _record_batch(self._schema, table)
        self._waiting.append(batch)
        self._bytes += batch.nbytes
        if self._bytes >= self.row_group_bytes:
            self._flush()

    def _finish(self) -> None:
        self._flush()
        self._writer.close()

    def _drop(self) -> None:
        if hasattr(self, "_writer"):
            self._writer.close()

    def _flush(self) -> None:
        if self._waiting:
            pa = pyarrow("Writing Parquet")
            self._writer.write_table(pa.Table.from_batches(self._waiting).combine_chunks())
            self._waiting, self._bytes = [], 0


class CsvWriter(Writer):
    """A CSV file with a header; numbers are written exactly, in their shortest form."""

    def _check(self) -> None:
        pa = pyarrow("Writing CSV")
        nested = pa.types.is_nested
        if any(nested(kind) if _is_arrow(kind) else kind.shape for kind in self.types.values()):
            raise ValueError(
                f"{self.path.name}: CSV has no columns of lists: write .parquet, or one column "
                "for each number."
            )
        self._schema = pa.schema(
            [(name, _arrow_type(self.path.name, kind)) for name, kind in self.types.items()]
        )

    def _start(self) -> None:
        csv, delimiter = (
            pyarrow("Writing CSV", "csv"),
            DELIMITERS.get(self.path.suffix.lower(), ","),
        )
        options = csv.WriteOptions(quoting_style="needed", delimiter=delimiter)
        self._writer = csv.CSVWriter(self._file, self._schema, write_options=options)

    def _append(self, table: dict[str, Array], n: int) -> None:
        self._writer.write_batch(_record_batch(self._schema, table))

    def _finish(self) -> None:
        self._writer.close()


@contextmanager
def _open_output(path: Path) -> Iterator[IO[bytes]]:
    if path != _STANDARD_OUTPUT:
        with open_atomic(path) as file:
            yield file
    else:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()


def _is_arrow(kind: Any) -> bool:
    return type(kind).__module__.startswith("pyarrow")


def _numpy_type(kind: Any) -> Any:
    """Return the NumPy dtype of an Arrow type of floats, the type itself for others."""
    return np.dtype(np.float64) if pyarrow("Writing").types.is_float64(kind) else kind


def _arrow_type(name: str, kind: Any) -> Any:
    pa = pyarrow("Writing")
    if _is_arrow(kind):
        return kind
    if kind.base.kind in "OUT":
        return pa.string()
    if kind.base.kind not in "biuf":
        raise ValueError(f"{name}: columns are numbers or text, got {kind}.")
    number = pa.from_numpy_dtype(kind.base)
    return pa.list_(number, int(np.prod(kind.shape))) if kind.shape else number


def _record_batch(schema: Any, table: dict[str, Array]) -> Any:
    pa = pyarrow("Writing")
    arrays = []
    for field, values in zip(schema, table.values(), strict=True):
        if isinstance(values, pa.Array):
            arrays.append(values)
        elif values.ndim > 1:
            flat = pa.array(np.ascontiguousarray(values).reshape(-1), field.type.value_type)
            arrays.append(pa.FixedSizeListArray.from_arrays(flat, type=field.type))
        else:
            arrays.append(pa.array(values, field.type, from_pandas=False))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


_SINKS: dict[str, type[Writer]] = {
    ".parquet": ParquetTableWriter,
    ".npy": NpyWriter,
    ".csv": CsvWriter,
    ".tsv": CsvWriter,
}
