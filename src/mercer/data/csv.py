"""CSV files, read by pyarrow: types are inferred from the first block, numbers are float64."""

from __future__ import annotations

import codecs
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer._typing import Array
from mercer.data import cells
from mercer.data.arrow import Column, pyarrow
from mercer.data.cells import FALSE, TRUE
from mercer.data.column_roles import COLUMNS
from mercer.data.csv_dialect import HEAD_BYTES, Dialect, detect_dialect
from mercer.data.files import describe_row
from mercer.data.inputs import COMPRESSED, LONGEST_LINE, AnyPath, open_input
from mercer.data.stream import CHUNK_BYTES, Parts
from mercer.data.table_files import TextFilesStream, TextFilesTable
from mercer.errors import ColumnTypeError, RowError
from mercer.ops import cpu

_TAB_SEPARATED = (".tsv", *(f".tsv{suffix}" for suffix in COMPRESSED))
_LINES = 4  # at least, in the head of a file
_SHOWN = 60  # characters of a line in an error
_COUNTED = 2**30  # bytes of a line that is too long, for the error


@dataclass(frozen=True, eq=False)
class NumberBlock:
    """Rows of plain numbers: inputs, and targets and weights as other columns of some dtypes."""

    inputs: Array
    others: Array
    dtypes: Sequence[np.dtype[Any]]

    @property
    def num_rows(self) -> int:
        return len(self.inputs)

    def slice(self, start: int) -> NumberBlock:
        """Return the rows from `start` on."""
        return NumberBlock(self.inputs[start:], self.others[start:], self.dtypes)

    def code_columns(self, types: dict[str, Any], names: Collection[str]) -> Any:
        """Return a record batch of the columns of `types` that are among the names."""
        pa = pyarrow("Reading CSV")
        width, arrays = self.inputs.shape[1], {}
        for j, (name, kind) in enumerate(types.items()):
            if name in names:
                values = self.inputs[:, j] if j < width else self.others[:, j - width]
                arrays[name] = pa.array(values, from_pandas=True).cast(kind)
        return pa.RecordBatch.from_pydict(arrays)


class CsvStream(TextFilesStream):
    """Rows of CSV files, one after the other.

    The compiled core reads numbers up to the first line that is not plain, pyarrow whatever
    follows.
    """

    _table: CsvTable

    def _batches(
        self, i: int, begin: int, types: dict[str, Any], start: int, rows: int
    ) -> Iterator[tuple[int, Any]]:
        done = 0
        if self._has_numbers_only(types):
            for block in self._table.number_blocks(i, types, len(self._inputs)):
                if block is None:
                    break
                if self._infers:
                    self._refuse_codes(i, begin, block.code_columns(types, self._table.lengths))
                yield done, block
                done += block.num_rows
            else:
                return
        for at, batch in super()._batches(i, begin, types, max(start, done), rows):
            if at + batch.num_rows <= done:
                continue
            if self._infers:
                self._refuse_codes(i, begin, batch)
            skipped = max(0, done - at)
            yield at + skipped, batch.slice(skipped)

    def _refuse_codes(self, i: int, begin: int, batch: Any) -> None:
        error = self._table.find_code(i, batch, self.declared)
        if error is not None:
            raise self.locate(error, begin)

    def _has_numbers_only(self, types: dict[str, Any]) -> bool:
        """Return whether all columns are numbers, those of targets possibly whole ones."""
        pa = pyarrow("Reading CSV")
        numbers = all(
            pa.types.is_float64(kind) or pa.types.is_int64(kind) for kind in types.values()
        )
        return cpu.available() and numbers and self.schema is None and self._split is None

    def _parts(self, batch: Any) -> Parts:
        if not isinstance(batch, NumberBlock):
            return super()._parts(batch)
        labels = [batch.others[:, j].astype(batch.dtypes[j]) for j in range(len(self._targets))]
        y = None if not labels else np.column_stack(labels) if self._several else labels[0]
        return batch.inputs, y, batch.others[:, -1].copy() if self._weights else None


class CsvTable(TextFilesTable):
    """CSV files (or .tsv, with tabs), each with a dialect of its own.

    Attributes
    ----------
    dialects : list of Dialect
    lengths : dict of names and int
        Columns of digits of one length, which are codes if one has a leading zero.
    """

    kind = "csv"
    stream_class = CsvStream

    def __init__(self, name: str, paths: Sequence[AnyPath], folder: AnyPath | None = None) -> None:
        pyarrow("Reading CSV")
        super().__init__(name, paths, folder)
        self.block_bytes = CHUNK_BYTES.get() // 8  # that are parsed at a time
        self.dialects = list[Dialect]()
        for path, label in zip(paths, self.names, strict=True):
            head, complete = read_head(path, label, max(self.block_bytes, HEAD_BYTES))
            longest = max(map(len, head.split(b"\n", _LINES)[:_LINES]))
            self.block_bytes = max(self.block_bytes, 8 * longest)
            usual = "\t" if path.name.lower().endswith(_TAB_SEPARATED) else ","
            self.dialects.append(detect_dialect(label, head, complete, usual))
        self.words, self.decimal = self.dialects[0].words, self.dialects[0].decimal
        self.notes = describe_notes(self.names, [dialect.notes for dialect in self.dialects])
        self._infer_types()
        self._find_codes()

    def _infer_types(self) -> None:
        super()._infer_types()
        if self.dialects[0].index:
            self.columns[0] = replace(self.columns[0], index=True)
        known = {column.name: column for column in self.columns}
        self.columns_of_files = [
            [known.get(name) or Column(name, "text") for name in dialect.names]
            for dialect in self.dialects
        ]

    def _find_codes(self) -> None:
        """Declare digits of one length with leading zeros, such as postal codes, and 0x1F as text.

        Columns of digits of one length without such zeros in the first block may have them later.
        """
        pa = pyarrow("Reading CSV")
        whole = [name for name, kind in self._types.items() if pa.types.is_integer(kind)]
        self.lengths: dict[str, int] = {}
        if not whole:
            return
        self._declared = dict.fromkeys(whole, pa.string())
        batch = next(self._first_batches())
        texts = {name: batch.column(name).drop_null() for name in whole}
        self.lengths = {name: cells.code_length(values) for name, values in texts.items()}
        self.lengths = {name: length for name, length in self.lengths.items() if length}
        codes = [name for name in self.lengths if cells.has_leading_zeros(texts[name])]
        codes += [name for name in whole if cells.has_hexadecimals(texts[name])]
        self._declared = dict.fromkeys(codes, pa.string())
        if codes:
            self._infer_types()

    def find_code(self, i: int, batch: Any, declared: Collection[str]) -> RowError | None:
        """Return an error for the first leading zero of file i in a column of digits of one length.

        The file is read as text where a number of the batch has fewer digits; columns of declared
        kinds are left alone.
        """
        pa, compute = pyarrow("Reading CSV"), pyarrow("Reading CSV", "compute")
        for name, length in list(self.lengths.items()):
            if name in declared or name not in batch.schema.names:
                continue
            values = batch.column(name)
            least = None if pa.types.is_string(values.type) else compute.min(values).as_py()
            if least is None or not 0 <= least < 10 ** (length - 1):
                continue
            start = 0
            for part in self._open(i, {name: pa.string()}, [], all_columns=False):
                row = cells.first_leading_zero(self._trim(i, part).column(0))
                if row is not None:
                    where = describe_row(self.names[i], start + row)
                    value = part.column(0)[row].as_py()
                    return _mismatch(name, values.type, start + row, value, where)
                start += part.num_rows
            self.lengths.pop(name, None)  # numbers of other lengths
        return None

    def number_blocks(
        self, i: int, types: dict[str, Any], inputs: int
    ) -> Iterator[NumberBlock | None]:
        """Yield the rows of file i up to the first line that is not plain numbers.

        None follows where there is such a line.

        Parameters
        ----------
        types : dict of names and Arrow types
            The columns to read, float64 or int64: inputs, then others.
        inputs : int
            Number of inputs.
        """
        dialect, pa = self.dialects[i], pyarrow("Reading CSV")
        unusual = dialect.comments or dialect.newlines or dialect.spaces or dialect.decimal != "."
        if dialect.empty:
            return
        if unusual or dialect.encoding != "utf-8" or dialect.delimiter == " ":
            yield None
            return
        order = {name: place for place, name in enumerate(types)}
        places = [order.get(name, -1) for name in dialect.names]
        whole = [name in types and pa.types.is_int64(types[name]) for name in dialect.names]
        columns = places, whole, list(dialect.nulls), inputs, len(types) - inputs
        dtypes = [np.dtype(kind.to_pandas_dtype()) for kind in list(types.values())[inputs:]]
        try:
            with open_input(self.files.paths[i]) as file:
                block = file.read(self.block_bytes)
                rest = _skip_lines(block, dialect.skip)
                while block and rest is not None:
                    block = file.read(self.block_bytes)
                    text = rest + block
                    end = text.rfind(b"\n") + 1 if block else len(text)
                    X, Y, stop = cpu.csv_rows(text, end, dialect.delimiter, *columns)
                    if len(X):
                        yield NumberBlock(X, Y, dtypes)
                    rest = None if stop < end or len(text) - end > self.block_bytes else text[end:]
        except OSError:
            rest = None  # pyarrow's error is explained
        if rest is None:
            yield None

    def _first_batches(self) -> Iterator[Any]:
        pa = pyarrow("Reading CSV")
        names, rows = self.dialects[0].names, False
        for i, dialect in enumerate(self.dialects):
            if dialect.empty or {*dialect.names} != {*names}:
                continue
            for _, batch in self.batches(i, self._declared, 0, 0, all_columns=True):
                if not batch.num_rows:
                    continue
                for item in batch.schema:
                    if pa.types.is_binary(item.type):
                        raise self._explain_encoding(i) or ValueError(
                            f"{self.names[i]}: column {item.name!r} is no text."
                        )
                yield batch.select(list(names))
                rows = True
                break
        if not rows:
            raise ValueError(f"{self.name} has no rows after its first line.")

    def batches(
        self,
        i: int,
        types: dict[str, Any],
        start: int,
        rows: int,
        *,
        all_columns: bool = False,
    ) -> Iterator[tuple[int, Any]]:
        pa = pyarrow("Reading CSV")
        if self.dialects[i].empty:
            return
        at, ragged = 0, list[Any]()
        try:
            for batch in self._open(i, types, ragged, all_columns):
                yield at, self._trim(i, batch)
                at += batch.num_rows
        except (pa.ArrowInvalid, UnicodeDecodeError) as error:
            raise self._explain(i, types, ragged, error) from None
        except FileNotFoundError:
            raise ValueError(f"{self.names[i]} does not exist any more.") from None
        except OSError as error:
            raise ValueError(f"{self.names[i]} is damaged: {error}") from None

    def _open(self, i: int, types: dict[str, Any], ragged: list[Any], all_columns: bool) -> Any:
        """Return a reader of the columns of `types`; the first ragged line is put into `ragged`."""
        csv, dialect = pyarrow("Reading CSV", "csv"), self.dialects[i]

        def handle_ragged(row: Any) -> str:
            if dialect.comments and row.text.startswith("#"):
                return "skip"
            ragged.append(row)
            return "error"

        return csv.open_csv(
            open_input(self.files.paths[i]),
            read_options=csv.ReadOptions(
                block_size=self.block_bytes,
                use_threads=False,
                skip_rows=dialect.skip,
                column_names=list(dialect.names),
                encoding=dialect.encoding,
            ),
            parse_options=csv.ParseOptions(
                delimiter=dialect.delimiter,
                newlines_in_values=dialect.newlines,
                invalid_row_handler=handle_ragged,
            ),
            convert_options=csv.ConvertOptions(
                column_types=types,
                include_columns=[] if all_columns else list(types),
                strings_can_be_null=True,
                null_values=dialect.nulls,
                true_values=TRUE,
                false_values=FALSE,
                decimal_point=dialect.decimal,
            ),
        )

    def _trim(self, i: int, batch: Any) -> Any:
        """Return a batch whose text has no spaces around it, where a file has them."""
        if not self.dialects[i].spaces:
            return batch
        pa, compute = pyarrow("Reading CSV"), pyarrow("Reading CSV", "compute")
        for place, item in enumerate(batch.schema):
            if pa.types.is_string(item.type):
                values = compute.utf8_trim_whitespace(batch.column(place))
                missing = compute.is_in(values, pa.array(self.dialects[i].nulls))
                values = compute.if_else(missing, pa.scalar(None, pa.string()), values)
                batch = batch.set_column(place, item, values)
        return batch

    def _explain(
        self, i: int, types: dict[str, Any], ragged: list[Any], error: Exception
    ) -> ValueError:
        """Return an error that says which line, row or byte of file i cannot be read."""
        if ragged:
            return self._explain_ragged(i, ragged[0])
        return (
            self._find_mismatch(i, types)
            or self._explain_encoding(i)
            or _find_long_line(self.files.paths[i], self.names[i], self.block_bytes)
            or ValueError(f"{self.names[i]} cannot be read as CSV: {error}")
        )

    def _explain_ragged(self, i: int, row: Any) -> ValueError:
        text = row.text if len(row.text) <= _SHOWN else f"{row.text[:_SHOWN]}..."
        said = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "bars", " ": "spaces"}
        mark = said[self.dialects[i].delimiter]
        return ValueError(
            f"{self.names[i]}, line {row.number} has {row.actual_columns} cells separated by "
            f"{mark}, and the table has {row.expected_columns}: {text!r}. Quote cells that contain "
            f"{mark} or line breaks, and remove lines that are no rows."
        )

    def _find_mismatch(self, i: int, types: dict[str, Any]) -> RowError | None:
        """Return an error for the first value of file i that is not of its column's type."""
        pa = pyarrow("Reading CSV")
        start, dialect = 0, self.dialects[i]
        try:
            for batch in self._open(i, dict.fromkeys(types, pa.string()), [], all_columns=False):
                for name, kind in types.items():
                    values = batch.column(name)
                    row = _first_mismatch(values, kind, dialect.decimal)
                    if row is not None:
                        where = describe_row(self.names[i], start + row)
                        return _mismatch(name, kind, start + row, values[row].as_py(), where)
                start += batch.num_rows
        except (pa.ArrowInvalid, UnicodeDecodeError):
            pass
        return None

    def _explain_encoding(self, i: int) -> ValueError | None:
        encoding = self.dialects[i].encoding
        decoder = codecs.getincrementaldecoder(encoding)()
        at, line = 0, 1
        with open_input(self.files.paths[i]) as file:
            while block := file.read(2**20):
                try:
                    decoder.decode(block)
                except UnicodeDecodeError as error:
                    at += error.start - (len(error.object) - len(block))
                    line += error.object.count(b"\n", 0, error.start)
                    value = error.object[error.start]
                    return ValueError(
                        f"{self.names[i]} starts as {encoding}, and byte {at:,}, in line {line:,}, "
                        f"is not: 0x{value:02X}. Save it as UTF-8 (iconv -f cp1252 -t utf-8)."
                    )
                at += len(block)
                line += block.count(b"\n")
        return None


def read_head(path: AnyPath, name: str, size: int) -> tuple[bytes, bool]:
    """Return the first bytes of a file, at least four lines, and whether they are all of it."""
    head = b""
    try:
        with open_input(path) as file:
            while block := file.read(max(size - len(head), len(head))):
                head += block
                long = len(head) > LONGEST_LINE and max(map(len, head.split(b"\n"))) > LONGEST_LINE
                error = _find_long_line(path, name, LONGEST_LINE) if long else None
                if error is not None:
                    raise error
                if len(head) >= size and head.count(b"\n") + head.count(b"\r") >= _LINES:
                    return head, False
            return head, True
    except FileNotFoundError:
        raise ValueError(f"{name} does not exist any more.") from None
    except OSError as error:
        raise ValueError(f"{name} is damaged: {error}") from None


def _skip_lines(text: bytes, count: int) -> bytes | None:
    """Return the text after some lines; None where it ends before, or lines end with CR alone."""
    at = 0
    for _ in range(count):
        at = text.find(b"\n", at) + 1
        if not at:
            return None
    return None if b"\r" in text[:at].replace(b"\r\n", b"") else text[at:]


def _find_long_line(path: AnyPath, name: str, most: int) -> ValueError | None:
    """Return an error about the first line of more than `most` bytes; None if there is none."""
    line, length, ended = 1, 0, False
    with open_input(path) as file:
        while not ended and length <= _COUNTED and (block := file.read(2**20)):
            first, *others = block.split(b"\n")
            length += len(first)
            for part in others:
                ended = length > most
                if ended:
                    break
                line, length = line + 1, len(part)
    if length <= most:
        return None
    more = "" if length <= _COUNTED else "more than "
    return ValueError(
        f"{name}, line {line:,} has {more}{length:,} bytes, and at most {most:,} are read as one "
        "line. Is it a table with a row on each line?"
    )


def describe_notes(names: Sequence[str], notes: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the notes of files: those of the first, and others with the names of the files."""
    others = [
        f"{name}: {note}"
        for name, said in zip(names, notes, strict=True)
        for note in said
        if note not in notes[0]
    ]
    more = [f"And so on for {len(others) - 3} notes of other files."] if len(others) > 3 else []
    return (*notes[0], *others[:3], *more)


def _first_mismatch(values: Any, kind: Any, decimal: str) -> int | None:
    """Return the first value that cannot be cast, by bisection; None if all can."""
    pa, compute = pyarrow("Reading CSV"), pyarrow("Reading CSV", "compute")
    values = compute.utf8_trim_whitespace(values)
    if pa.types.is_boolean(kind):
        truths = pa.array([*TRUE, *FALSE, "0", "1"])
        fits_all = compute.or_(compute.is_in(values, truths), compute.is_null(values))
        row = compute.index(fits_all, False).as_py()
        return None if row < 0 else int(row)
    if decimal != "." and pa.types.is_floating(kind):
        values = compute.replace_substring(values, ".", "no number")
        values = compute.replace_substring(values, decimal, ".")

    def fits(low: int, high: int) -> bool:
        try:
            values.slice(low, high - low).cast(kind)
        except pa.ArrowInvalid:
            return False
        return True

    low, high = 0, len(values)
    if fits(low, high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(low, middle) else (low, middle)
    return low


def _mismatch(name: str, kind: Any, row: int, value: str, where: str) -> ColumnTypeError:
    types = pyarrow("Reading CSV").types
    said = (
        "whole numbers"
        if types.is_integer(kind)
        else "true and false"
        if types.is_boolean(kind)
        else "numbers"
        if types.is_floating(kind)
        else "times"
        if types.is_time(kind)
        else "dates"
    )
    return ColumnTypeError(
        row,
        f"Column {name!r} has {said} in the first rows, and then {value!r} at",
        "",
        where,
        (". Correct it, or leave the column out with ", COLUMNS, "."),
        name,
    )
