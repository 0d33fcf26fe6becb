"""svmlight (LIBSVM) files: read by scikit-learn's parser in byte ranges of whole lines."""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from mercer._typing import is_csr
from mercer.data.files import OneFile, describe_row, one_file
from mercer.data.matrix import MatrixStream
from mercer.data.stream import CHUNK_BYTES, Parts
from mercer.errors import ParameterError, Setting
from mercer.persistence.atomic_write import open_atomic
from mercer.validation.parameters import validate_integer

SVMLIGHT = (".svm", ".svmlight", ".libsvm")
_ENTRIES = 2**17  # that are written at a time


class SvmlightStream(OneFile, MatrixStream):
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
        self._files, self.name = one_file(path), path.name
        self._range_bytes = CHUNK_BYTES.get() // 2
        self._starts, self._firsts = [0], [0]  # first byte and first row of each range
        lowest, highest, rows = np.iinfo(np.int64).max, -1, 0
        for text in _ranges(path, 0, self._range_bytes):
            matrix = self._parse(text, 2**31, rows)[0]
            if matrix.nnz:
                lowest = min(lowest, int(matrix.indices.min()))
                highest = max(highest, int(matrix.indices.max()))
            rows += matrix.shape[0]
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

    def _read(self, start: int, rows: int) -> Iterator[Parts]:
        i = min(bisect_right(self._firsts, start), len(self._starts) - 1) - 1
        row = self._firsts[i]
        for text in _ranges(self.path, self._starts[i], self._range_bytes):
            matrix, labels = self._parse(text, self._columns_of_file + self._base, row)
            stop = row + len(labels)
            if stop > start:
                skipped = max(0, start - row)
                yield self._split(
                    matrix[skipped:, self._base :], labels[skipped:], start=row + skipped
                )
            row = stop

    def _parse(self, text: bytes, width: int, first: int) -> tuple[Any, Any]:
        """Parse whole lines into rows and labels; columns count as in the file."""
        from scipy.sparse import csr_array
        from sklearn.datasets import load_svmlight_file

        def load(lines: bytes) -> tuple[Any, Any]:
            if b"qid:" in lines and any(
                b"qid:" in line.partition(b"#")[0] for line in lines.splitlines()
            ):
                raise ValueError("it has a query id (qid:), which is not supported: remove it")
            matrix, labels = load_svmlight_file(
                io.BytesIO(lines), n_features=width, zero_based=True
            )
            return csr_array(matrix), labels

        try:
            return load(text)
        except ValueError:
            row = first
            for line in text.splitlines(keepends=True):
                try:
                    row += len(load(line)[1])
                except ValueError as error:
                    raise ValueError(
                        f"{self.name} is no svmlight file (label index:value ...) at "
                        f"{describe_row(self.name, row)}: {error}."
                    ) from None
            raise


def _ranges(path: Path, start: int, range_bytes: int) -> Iterator[bytes]:
    """Yield the bytes of a file from `start` on, in ranges that end with a line."""
    with path.open("rb") as file:
        file.seek(start)
        while text := file.read(range_bytes):
            yield text + (b"" if text.endswith(b"\n") else file.readline())


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
