"""svmlight (LIBSVM) files, read in byte ranges of whole lines."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from operator import lt
from pathlib import Path
from typing import IO, Any

import numpy as np

from mercer._typing import Array, is_csr
from mercer.data.files import FileSet, describe_row
from mercer.data.inputs import LONGEST_LINE
from mercer.data.matrix import FileMatrixStream
from mercer.data.stream import CHUNK_BYTES, Parts
from mercer.errors import ParameterError, Setting
from mercer.ops import cpu
from mercer.persistence.atomic_write import open_atomic
from mercer.validation.parameters import validate_integer

SVMLIGHT = (".svm", ".svmlight", ".libsvm")
MOST_COLUMNS = 2**27  # maps have arrays of a number for each column, of 1 GiB then
_ENTRIES = 2**17  # that are written at a time
_SHOWN = 40  # characters of a token in an error
_FORM = rb"[+-]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?|nan)"
_NUMBER = re.compile(_FORM, re.I)
_LINE = re.compile(rb"\s*%b(?>\s+0*\d{1,10}:%b)*+\s*(?:#.*)?" % (_FORM, _FORM), re.I | re.S)


class SvmlightStream(FileMatrixStream):
    """Rows of an svmlight file as CSR, labels as y.

    Opening reads the file once, to count rows and columns, to record where byte ranges start, and
    to decide whether columns count from 0 or from 1: by zero_based if given, otherwise from 1 when
    no row uses 0, as scikit-learn does. Where n_features is given and both are possible, it is
    refused.
    """

    kind = "svmlight"

    def __init__(
        self,
        path: Path,
        *,
        columns: Any,
        target: Any,
        weight: Any,
        n_features: int | None = None,
        zero_based: bool | None = None,
    ) -> None:
        if target is not None:
            raise ValueError(
                f"{path.name}: the target of an svmlight file is the label of each line, got "
                f"target={target!r}."
            )
        self._files, self.name = FileSet([path], [path.name]), path.name
        self._range_bytes = CHUNK_BYTES.get() // 2
        self._starts, self._firsts = [0], [0]  # first byte and first row of each range
        lowest, highest, rows = MOST_COLUMNS, -1, 0
        measure = cpu.svmlight_extent if cpu.available() else measure_lines
        for text in self._ranges(0):
            found, low, high, refused = measure(text, MOST_COLUMNS - 1)
            if refused >= 0:
                raise self._explain(self._starts[-1] + refused, 0, MOST_COLUMNS - 1)
            lowest, highest, rows = min(lowest, low), max(highest, high), rows + found
            self._starts.append(self._starts[-1] + len(text))
            self._firsts.append(rows)
        if rows == 0 or highest < 0:
            raise ValueError(f"{path.name} has no {'rows' if rows == 0 else 'entries'}.")
        if zero_based is False and lowest == 0:
            problem = f"{path.name} uses column 0, so that its columns cannot count from 1: give "
            raise ParameterError("", problem, Setting("zero_based", "True"), ".")
        if zero_based is None and n_features is not None and lowest > 0 and highest < n_features:
            raise ParameterError(
                "",
                f"{path.name} uses columns {lowest} to {highest}, and {n_features} are needed: "
                "they may count from 0 or from 1. Give ",
                Setting("zero_based", "True"),
                " or ",
                Setting("zero_based", "False"),
                ".",
            )
        self._base = int(lowest > 0 if zero_based is None else not zero_based)
        width = highest + 1 - self._base
        if n_features is not None and validate_integer(path.name, "n_features", n_features) < width:
            raise ValueError(
                f"{path.name}: n_features is {n_features}, and the file uses {width} columns."
            )
        shape = (rows, n_features or width)
        super().__init__(
            path.name, shape, np.dtype(np.float64), columns=columns, weight=weight, sparse=True
        )
        self._columns_of_file, self.target = shape[1], "label"
        self._highest = highest

    def _read(self, start: int, rows: int) -> Iterator[Parts]:
        from scipy.sparse import csr_array

        parse = cpu.svmlight_rows if cpu.available() else parse_lines
        i = min(bisect_right(self._firsts, start), len(self._starts) - 1) - 1
        row, at = self._firsts[i], self._starts[i]
        for text in self._ranges(at):
            labels, indptr, indices, data, refused = parse(text, self._base, self._highest)
            if refused >= 0:  # the file has changed since it was opened
                raise self._explain(at + refused, self._base, self._highest)
            stop = row + len(labels)
            if stop > start:
                skipped = max(0, start - row)
                shape = len(labels), self._columns_of_file
                matrix = csr_array((data, indices, indptr), shape=shape)
                yield self._split(
                    matrix[skipped:] if skipped else matrix, labels[skipped:], start=row + skipped
                )
            row, at = stop, at + len(text)

    def _ranges(self, start: int) -> Iterator[bytes]:
        """Yield the bytes of the file from `start` on, in ranges that end with a line."""
        with self.path.open("rb") as file:
            file.seek(start)
            while text := file.read(self._range_bytes):
                rest = b"" if text.endswith(b"\n") else file.readline(LONGEST_LINE)
                if len(rest) == LONGEST_LINE and not rest.endswith(b"\n"):
                    line = self._count_lines(start + text.rfind(b"\n") + 1)
                    raise ValueError(
                        f"{self.name}, line {line:,} has more than {LONGEST_LINE:,} bytes, which "
                        "are not read as one line. Is it a file with a row on each line?"
                    )
                start += len(text) + len(rest)
                yield text + rest

    def _count_lines(self, byte: int) -> int:
        """Return the number of the line, from 1, that has a byte of the file."""
        line = 1
        with self.path.open("rb") as file:
            while byte > 0 and (block := file.read(min(byte, 2**20))):
                line, byte = line + block.count(b"\n"), byte - len(block)
        return line

    def _explain(self, byte: int, base: int, most: int) -> ValueError:
        """Return the error of the line that has a byte of the file."""
        i = bisect_right(self._starts, byte) - 1
        with self.path.open("rb") as file:
            file.seek(self._starts[i])
            before = file.read(byte - self._starts[i])
            start = before.rfind(b"\n") + 1
            line = before[start:] + file.readline(LONGEST_LINE)
        problem = find_problem(line, base, most)
        row = self._firsts[i] + measure_lines(before[:start], most)[0]
        return ValueError(
            f"{self.name} is no svmlight file (label index:value ...) at "
            f"{describe_row(self.name, row)}, line {self._count_lines(byte):,}: {problem}."
        )


def parse_lines(text: bytes, base: int, most: int) -> tuple[Array, Array, Array, Array, int]:
    """Return labels, indptr, indices and data of lines, and where they are refused.

    A line is `label index:value ... # comment`. Indices increase, from `base` to `most`, and
    columns are index - base. Numbers are decimal, inf or nan, without underscores.

    Returns
    -------
    labels, indptr, indices, data : array
    refused : int
        First byte of the first line that is refused, up to which lines are read; -1 if none is.
    """
    labels, starts = list[float](), [0]
    indices, values = list[int](), list[float]()
    at, refused = 0, -1
    for line in text.split(b"\n"):
        body = line.partition(b"#")[0]
        if body.strip():
            label, *entries = body.replace(b":", b" ").split() or [b""]
            columns = [*map(int, entries[::2])] if _LINE.fullmatch(line) else [-1]
            inside = not columns or base <= columns[0] <= columns[-1] <= most
            if not inside or not all(map(lt, columns, columns[1:])):
                refused = at
                break
            labels.append(float(label))
            indices += columns
            values += map(float, entries[1::2])
            starts.append(len(values))
        at += len(line) + 1
    return (
        np.array(labels, np.float64),
        np.array(starts, np.int32),
        (np.array(indices, np.int64) - base).astype(np.int32),
        np.array(values, np.float64),
        refused,
    )


def measure_lines(text: bytes, most: int) -> tuple[int, int, int, int]:
    """Return rows, lowest and highest index of lines, and where they are refused."""
    labels, _, indices, _, refused = parse_lines(text, 0, most)
    lowest = int(indices.min()) if len(indices) else most + 1
    return len(labels), lowest, int(indices.max(initial=-1)), refused


def find_problem(line: bytes, base: int, most: int) -> str:
    """Return why a line is refused; empty if it is not."""
    label, *entries = line.partition(b"#")[0].split() or [b"0"]
    if not _NUMBER.fullmatch(label):
        return f"the label {_show(label)} is no number"
    before = -1
    for entry in entries:
        name, colon, value = entry.partition(b":")
        if name == b"qid":
            return "it has a query id (qid:), which is not supported: remove it"
        if not colon or not name.isdigit():
            return f"{_show(entry)} is not index:value"
        if len(name.lstrip(b"0")) > len(str(most)) or int(name) > most:
            return f"column {_show(name)} is beyond {most:,}, the last that is read"
        index = int(name)
        if index < base:
            return f"column {index} is below {base}, the first"
        if index <= before:
            return f"columns must be sorted and unique, and {index} follows {before}"
        if not _NUMBER.fullmatch(value):
            return f"the value {_show(value)} of column {index} is no number"
        before = index
    return ""


def _show(token: bytes) -> str:
    text = token.decode("utf-8", "backslashreplace")
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


@contextmanager
def svmlight_writer(path: Path) -> Iterator[SvmlightWriter]:
    """Open a file for rows and labels, which is written completely or not at all."""
    with open_atomic(path) as file:
        yield SvmlightWriter(file, path.name)


class SvmlightWriter:
    """Writer of lines "label 3:0.5 7:1.0": columns count from 1, floats are written exactly.

    The last column is written in the first row even where it is 0, so that a reader finds the
    number of columns.
    """

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file, self._name, self.rows = file, name, 0

    def write(self, X: Any, y: Any) -> None:
        """Append rows, an array or a canonical CSR matrix, and numeric labels (0 if y is None)."""
        from scipy.sparse import csr_array

        labels = np.zeros(X.shape[0]) if y is None else np.asarray(y)
        if labels.ndim != 1 or labels.dtype.kind not in "biuf":
            seen = "several columns" if labels.ndim > 1 else f"text such as {labels[0]!r}"
            raise ValueError(
                f"{self._name}: an svmlight file has one number for each row as its label, got "
                f"{seen}. Write .parquet."
            )
        if labels.dtype.kind == "b":
            labels = labels.astype(np.int64)
        rows = X if is_csr(X) else csr_array(X)
        step = max(1, _ENTRIES * rows.shape[0] // max(1, rows.nnz))
        for start in range(0, rows.shape[0], step):
            self._write(rows[start : start + step], labels[start : start + step].tolist())

    def _write(self, rows: Any, labels: list[Any]) -> None:
        columns, values = (rows.indices + 1).tolist(), rows.data.astype(np.float64).tolist()
        pairs = [f"{column}:{value!r}" for column, value in zip(columns, values, strict=True)]
        ends = rows.indptr.tolist()
        lines = [
            " ".join([repr(label), *pairs[start:stop]])
            for label, start, stop in zip(labels, ends[:-1], ends[1:], strict=True)
        ]
        if self.rows == 0 and (ends[1] == 0 or columns[ends[1] - 1] != rows.shape[1]):
            lines[0] += f" {rows.shape[1]}:0.0"
        self._file.write("".join(f"{line}\n" for line in lines).encode())
        self.rows += len(lines)
