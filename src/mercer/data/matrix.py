"""Streams of one matrix, dense or CSR, whose columns are chosen by number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from mercer._typing import Array
from mercer.data.column_roles import assign_roles
from mercer.data.files import describe_row
from mercer.data.stream import Parts, Stream, as_float
from mercer.errors import RowError
from mercer.parallel.tile_size import format_bytes
from mercer.validation.rows import validate_rows
from mercer.validation.sparse import canonical_csr

# An array with a number for each takes 8 GiB: maps hold several, most of them D for each column.
_MOST_COLUMNS = 2**30


class MatrixStream(Stream):
    """Rows of a matrix of one dtype; some columns may be the target or the weight."""

    def __init__(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        *,
        columns: Any = None,
        target: Any = None,
        weight: Any = None,
        sparse: bool = False,
    ) -> None:
        super().__init__(name)
        if len(shape) != 2 or dtype.kind not in "biuf":
            raise ValueError(
                f"{name} must be a 2-d array of real numbers, got {len(shape)}-d of {dtype}."
            )
        if shape[0] == 0 or shape[1] == 0:
            raise ValueError(
                f"{name} has no {'rows' if shape[0] == 0 else 'columns'}: its shape is {shape}."
            )
        if shape[1] > _MOST_COLUMNS:
            raise ValueError(
                f"{name} has {shape[1]:,} columns, and at most {_MOST_COLUMNS:,} are read: one row "
                f"of numbers for them would take {format_bytes(8 * shape[1])}. Hash or choose "
                "columns before the matrix is saved."
            )
        self._roles = assign_roles(
            name, range(shape[1]), columns=columns, target=target, weight=weight
        )
        self._raw_dtype = dtype
        self.rows, self.width = shape[0], len(self._roles.inputs)
        self.dtype, self.sparse = as_float([dtype]), sparse
        if not self._roles.plain:
            self.columns = tuple(f"x{place}" for place in self._roles.inputs)
        targets = [f"x{place}" for place in self._roles.target]
        if targets:
            self.target = targets if self._roles.several else targets[0]
        if self._roles.weight is not None:
            self.weight = f"x{self._roles.weight}"

    @property
    def _row_bytes(self) -> float:
        """Bytes of a row of the whole matrix, the larger number of before and after conversion."""
        return float(self._roles.width * max(self._raw_dtype.itemsize, self.dtype.itemsize))

    def _split(
        self, matrix: Any, y: Array | None = None, weight: Array | None = None, *, start: int = 0
    ) -> Parts:
        """Split rows of the matrix, from row `start` of the stream, into X, y and weight.

        y and weight that are given come from another array.
        """
        roles = self._roles
        if hasattr(matrix, "tocsr"):
            try:
                matrix = canonical_csr(self.name, matrix)
            except RowError as error:
                raise self.locate(error, start) from None
        if roles.target:
            y = (
                _columns(matrix, list(roles.target))
                if roles.several
                else _columns(matrix, [roles.target[0]])[:, 0]
            )
        if roles.weight is not None:
            weight = _columns(matrix, [roles.weight])[:, 0]
        X = matrix if roles.plain else matrix[:, list(roles.inputs)]
        if not self.sparse:
            X = np.ascontiguousarray(X, dtype=self.dtype, like=X)
        else:
            X = X.astype(self.dtype, copy=False) if roles.plain else validate_rows(self.name, X)
        return X, y, None if weight is None else weight.astype(np.float64, copy=False)


class FileMatrixStream(MatrixStream):
    """Rows of the matrix in one file."""

    @property
    def path(self) -> Path:
        return self._files.paths[0]

    def where(self, row: int) -> str:
        return describe_row(self.path.name, row)


def csr_row_bytes(entries: int, rows: int) -> float:
    """Return the mean bytes of a row of a CSR matrix: 12 for each entry, and a pointer."""
    return 12.0 * entries / rows + 8.0


def _columns(matrix: Any, places: list[int]) -> Array:
    part = matrix[:, places]
    return np.asarray(part.toarray() if hasattr(part, "toarray") else part)
