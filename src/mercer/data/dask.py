"""Streams of Dask arrays, whose chunks are computed when they are read."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import numpy as np

from mercer.data.matrix import MatrixStream
from mercer.data.stream import Parts, Stream, is_lazy

_BESIDE = ("_y", "_weight")


class DaskStream(MatrixStream):
    """Rows of a Dask array; y and weights may be Dask arrays, which are computed with the rows.

    On a worker it holds chunks that have been computed.
    """

    kind = "dask"
    lazy = True

    def __init__(self, array: Any, **roles: Any) -> None:
        _require_array("open_stream", array)
        name = "the Dask array"
        if array.ndim and np.isnan(array.shape[0]):
            raise ValueError(
                f"{name} has chunks of unknown length: call compute_chunk_sizes() on it first."
            )
        sparse = hasattr(array._meta, "tocsr")
        super().__init__(name, array.shape, array.dtype, sparse=sparse, **roles)
        self._array = array.rechunk({1: -1})
        self._mark = array.name
        self._ends = list(accumulate(array.chunks[0]))
        self._beside: dict[str, Any] = {}

    def with_targets(self, y: Any, weight: Any) -> Stream:
        """Set y and weight to values in memory or Dask arrays; return this stream."""
        given = dict(zip(_BESIDE, (y, weight), strict=True))
        self._beside = dict(self._beside)
        for name, values in given.items():
            if is_lazy(values):
                self._beside[name] = self._along(name, values)
                setattr(self, name, None)
                given[name] = None
            elif values is not None:
                self._beside.pop(name, None)
        super().with_targets(*given.values())
        if "_y" in self._beside:
            several = self._beside["_y"].ndim == 2
            self.target = (
                [f"y{i}" for i in range(self._beside["_y"].shape[1])] if several else "given"
            )
        if "_weight" in self._beside:
            self.weight = "given"
        return self

    def where(self, row: int) -> str:
        chunk = min(bisect_right(self._ends, row), len(self._ends) - 1)
        return f"row {row} (chunk {chunk} of the Dask array)"

    def values_in_memory(self, start: int, stop: int) -> dict[str, Any]:
        """Return values in memory, and as `_chunks` the delayed parts of chunks with these rows."""
        return {**super().values_in_memory(start, stop), "_chunks": list(self._lazies(start, stop))}

    def with_values(self, held: dict[str, Any], first: int) -> DaskStream:
        return super().with_values({**held, "_array": None, "_beside": {}}, first)

    def _lazies(self, start: int, stop: int) -> Iterator[Any]:
        from dask.delayed import delayed

        while start < stop:
            end = min(stop, self._ends[bisect_right(self._ends, start)])
            parts = [self._array, *(self._beside.get(name) for name in _BESIDE)]
            yield delayed(_whole, pure=False)(
                [None if part is None else part[start:end] for part in parts]
            )
            start = end

    def _read(self, start: int, rows: int) -> Iterator[Parts]:
        assert self.rows is not None
        chunks = getattr(self, "_chunks", None)
        for chunk in self._lazies(start, self.rows) if chunks is None else chunks:
            X, y, weight = chunk.compute() if chunks is None else chunk
            parts = self._split(X, start=start)
            start += X.shape[0]
            yield (
                parts[0],
                *(
                    own if given is None else given
                    for own, given in zip(parts[1:], (y, weight), strict=True)
                ),
            )

    def _identity(self) -> dict[str, Any]:
        beside = {name.removeprefix("_"): values.name for name, values in self._beside.items()}
        return {
            "shape": list(self._array.shape),
            "from": str(self._raw_dtype),
            "name": self._mark,
            "beside": beside,
        }

    def _along(self, name: str, values: Any) -> Any:
        """Validate y or weight that is a Dask array; weights are cast to float64."""
        _require_array(self.name, values)
        what, most = ("target", 2) if name == "_y" else ("weight", 1)
        if not 1 <= values.ndim <= most or values.shape[0] != self.rows:
            raise ValueError(
                f"{self.name}: {what} needs one value for each of the {self.rows} rows, got a "
                f"Dask array of shape {values.shape}. If its length is unknown, call "
                "compute_chunk_sizes() on it first."
            )
        if values.ndim == 2:
            values = values.rechunk({1: -1})
        return values if name == "_y" else values.astype(np.float64)


def _require_array(estimator_name: str, source: Any) -> None:
    from dask.array import Array

    if not isinstance(source, Array):
        raise ValueError(
            f"{estimator_name} takes Dask arrays, got a Dask {type(source).__name__}. Convert a "
            "Dask frame "
            "with frame[columns].to_dask_array(lengths=True), for inputs and target alike, or "
            "open its Parquet files."
        )


def _whole(parts: list[Any]) -> list[Any]:
    return parts
