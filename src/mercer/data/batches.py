"""Rows of a stream, or their features, as validated blocks of a fixed size."""

from __future__ import annotations

import copy
import hashlib
import threading
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from mercer._repr import short_repr
from mercer._typing import Array, is_csr
from mercer.data import Chunk, Stream
from mercer.data.row_keys import row_keys
from mercer.errors import RowError
from mercer.maps.block import Block, Dense, as_block, block_to_host, matrix
from mercer.parallel.device import Device, current_device, prefetch, tile_results
from mercer.parallel.threads import n_threads
from mercer.parallel.tile_size import Cost, Grid, grid, tile_rows
from mercer.validation.rows import require_finite


@dataclass(frozen=True, eq=False)
class Batch:
    """A block with the targets, weights and keys of its rows, and the index of its first row."""

    block: Block
    y: Array | None = None
    weight: Array | None = None
    start: int = 0
    keys: Array | None = None

    __repr__ = short_repr

    def add_to(self, statistic: Any) -> None:
        """Add the batch to a statistic, on the host and with the keys of its rows as it needs."""
        block = self.block
        if not getattr(statistic, "accepts_device_blocks", False):
            block = block_to_host(block)
        keys = {"keys": self.keys} if getattr(statistic, "uses_keys", False) else {}
        statistic.add(block, y=self.y, weight=self.weight, start=self.start, **keys)


class Rows:
    """Rows of a stream as blocks, validated: finite, and in the domain of a map if there is one.

    Errors name a row as the stream does: the file, the row in it, the column.

    Parameters
    ----------
    stream : Stream
    feature_map : Map, optional
        The map that transforms the rows, fitted or not.

    Attributes
    ----------
    width : int
        Number of columns of a block.
    dtype : numpy.dtype
    with_keys : bool
        Whether batches have the keys of their rows; False unless it is set.
    """

    with_keys = False
    on_device = False  # whether blocks are computed on the device that use_device has chosen

    def __init__(self, stream: Stream, feature_map: Any = None) -> None:
        schema, encodes = stream.schema, getattr(feature_map, "accepts_missing", True)
        if schema is not None and not schema.plain and not encodes:
            raise ValueError(
                f"{stream.name} has columns that are no numbers ({schema.describe()}): put "
                f"Tabular() in front of {type(feature_map).__name__}."
            )
        self.stream, self.feature_map = stream, feature_map
        self.width, self.dtype = stream.width, stream.dtype

    @property
    def grid(self) -> Grid:
        """Rows of a block and blocks of a shard, from the dtype and the width of a row.

        The width is the larger one of a block and of dense inputs.
        """
        width = self.width if self.stream.sparse else max(self.width, self.stream.width)
        on_device = self.on_device and current_device() is not None
        return grid(width, self.dtype.itemsize, device=on_device)

    def batches(self, start: int = 0, stop: int | None = None) -> Generator[Batch, None, None]:
        """Yield the blocks from row `start`, the first row of a block, up to row `stop`.

        With several threads the next rows are read while a block is in use.
        """
        device = current_device() if self.on_device else None
        read = self.stream.blocks(self.grid.rows, start, stop)
        if device is not None:
            read = _to_device(read, device)
        if self.with_keys:
            read = _add_keys(read)
        with closing(_read_ahead(read) if n_threads(None) > 1 else read) as chunks:
            for chunk in chunks:
                if device is not None:
                    yield from self._device_batches(chunk, device)
                    continue
                try:
                    block = self._block(chunk)
                except RowError as error:
                    raise self.stream.locate(error, chunk.start) from None
                yield Batch(block, chunk.y, chunk.weight, chunk.start, chunk.keys)

    def _device_batches(self, chunk: Chunk, device: Device) -> Iterator[Batch]:
        """Yield a batch of a chunk, or of parts of it where the device has too little memory."""

        def work(rows: slice) -> Batch:
            part = chunk.part(rows.start, rows.stop)
            try:
                return Batch(self._block(part), part.y, part.weight, part.start, part.keys)
            except RowError as error:
                raise self.stream.locate(error, part.start) from None

        for _, batch in tile_results(work, len(chunk), len(chunk), device):
            yield batch

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks alone."""
        return (batch.block for batch in self.batches())

    def fingerprint(self) -> dict[str, Any] | None:
        """Return JSON values that identify the map; None without one."""
        return None

    def packed(self) -> Self:
        """Return a copy for another process, without rows in memory and reproducible weights."""
        other = copy.copy(self)
        other.stream = self.stream.with_values(self.stream.values_in_memory(0, 0), 0)
        return other

    def unpacked(self) -> Self:
        """Return a copy in which the weights that packed() left out are drawn again."""
        return copy.copy(self)

    def with_rows(self, held: dict[str, Any], first: int) -> Self:
        """Return a copy whose stream holds these rows."""
        other = copy.copy(self)
        other.stream = self.stream.with_values(held, first)
        return other

    def _block(self, chunk: Chunk) -> Block:
        """Validate the rows of a chunk and return its block."""
        if self.feature_map is None:
            require_finite("accumulate", chunk.X, self.stream.columns)
        else:
            self.feature_map._validate_values(chunk.X, self.stream.columns)
        return as_block(chunk.X)


class Features(Rows):
    """Features of the rows of a stream by a fitted map, as dense, sparse or coded blocks."""

    on_device = True
    _warned = False  # of values outside the bounds of the map

    def __init__(self, stream: Stream, feature_map: Any) -> None:
        super().__init__(stream, feature_map)
        name, fitted = type(feature_map).__name__, getattr(feature_map, "n_features_in_", None)
        if fitted is None:
            raise ValueError(f"This {name} is not fitted yet: call fit before its features.")
        if fitted != stream.width:
            raise ValueError(
                f"{stream.name} has {stream.width} input columns, and {name} was fitted on "
                f"{fitted}."
            )
        names = getattr(feature_map, "feature_names_in_", None)
        if names is not None and stream.columns is not None:
            for i, (expected, column) in enumerate(zip(names, stream.columns, strict=True)):
                if expected != column:
                    raise ValueError(
                        f"Column {i} of {stream.name} is {column!r}, and {name} was fitted on "
                        f"{expected!r} there."
                    )
        self.width = int(feature_map._n_features_out)

    def fingerprint(self) -> dict[str, Any]:
        """Return the class of the map, its parameters and a hash of its weights."""
        parameters = {
            name: value
            for name, value in self.feature_map.get_params().items()
            if isinstance(value, str | bool | int | float | None)
            and not name.endswith(("random_state", "n_jobs"))
        }
        return {
            "class": type(self.feature_map).__name__,
            "parameters": parameters,
            "sha256": _hash_weights([self.feature_map]),
        }

    def packed(self) -> Self:
        other = super().packed()
        other.feature_map = self.feature_map._pack()
        return other

    def unpacked(self) -> Self:
        other = super().unpacked()
        other.feature_map = self.feature_map._unpack()
        return other

    def _block(self, chunk: Chunk) -> Block:
        self.feature_map._validate_values(chunk.X, self.stream.columns)
        bounds = self.feature_map.bounds_
        if bounds is not None and not self._warned:
            self._warned = bounds(chunk.X, numbered=False)
        block: Block = self.feature_map._transform_block(chunk.X)
        return block


class Tiles(Rows):
    """Tiles of rows for the statistics of a map, or of features by the maps before it.

    The tiles of a stream are those of an array with the same rows, so that statistics are equal
    bit for bit.
    """

    def __init__(
        self, stream: Stream, feature_map: Any, before: Iterable[Any] = (), following: Any = None
    ) -> None:
        super().__init__(stream, feature_map)
        self.before = tuple(before)
        self.following = following  # the map in whose domain the features must be

    def then(self, fitted: Any, following: Any) -> Tiles:
        """Return the features of these tiles by a fitted map, for the map that follows."""
        return Tiles(self.stream, self.feature_map, (*self.before, fitted), following)

    def batches(self, start: int = 0, stop: int | None = None) -> Generator[Batch, None, None]:
        for batch in super().batches(start, stop):
            at = 0
            for tile in blocks_of(matrix(batch.block)):
                end = at + tile.shape[0]
                weight = None if batch.weight is None else batch.weight[at:end]
                try:
                    for i, part in enumerate(self.before):
                        last = i + 1 == len(self.before)
                        tile = part._transform_between(
                            tile, self.following if last else self.before[i + 1]
                        )
                except RowError as error:
                    raise self.stream.locate(error, batch.start + at) from None
                yield Batch(tile, None, weight, batch.start + at)
                at = end

    def fingerprint(self) -> dict[str, Any] | None:
        return {"sha256": _hash_weights(self.before)} if self.before else None

    def packed(self) -> Self:
        other = super().packed()
        other.before = tuple(part._pack() for part in self.before)
        return other

    def unpacked(self) -> Self:
        other = super().unpacked()
        other.before = tuple(part._unpack() for part in self.before)
        return other


class Labels(Rows):
    """Targets and weights of a stream, with blocks of no columns."""

    def _block(self, chunk: Chunk) -> Block:
        return Dense(np.empty((len(chunk), 0)))


def features(stream: Stream, feature_map: Any) -> Features:
    """Return the features of a stream: accumulate(features(stream, fitted_map), Moments()).

    Parameters
    ----------
    stream : Stream
    feature_map : Map
        A fitted map.
    """
    return Features(stream, feature_map)


def _add_keys(chunks: Generator[Chunk, None, None]) -> Generator[Chunk, None, None]:
    """Yield the chunks with the keys of their groups, or of their rows."""
    with closing(chunks):
        for chunk in chunks:
            yield chunk if chunk.keys is not None else replace(chunk, keys=row_keys(chunk.X))


def _to_device(
    chunks: Generator[Chunk, None, None], device: Device
) -> Generator[Chunk, None, None]:
    """Yield the chunks with their rows on a device."""
    with closing(chunks):
        for chunk, rows in prefetch(chunks, lambda chunk: chunk.X, device):
            yield replace(chunk, X=rows)


def _read_ahead(chunks: Generator[Chunk, None, None]) -> Generator[Chunk, None, None]:
    """Yield the chunks, each read by another thread while the one before it is in use."""
    reading = threading.Lock()

    def read() -> Chunk | None:
        with reading:
            return next(chunks, None)

    try:
        with ThreadPoolExecutor(1, thread_name_prefix="mercer-reader") as reader:
            future = reader.submit(read)
            while (chunk := future.result()) is not None:
                future = reader.submit(read)
                yield chunk
    finally:
        # Ctrl-C while the thread starts leaves one that the executor does not wait for
        with reading:
            chunks.close()


def blocks_of(rows: Any) -> Iterator[Block]:
    """Yield an array or a CSR matrix as consecutive tiles."""
    n, d = rows.shape
    step = tile_rows(Cost(d, d * rows.dtype.itemsize))
    for start in range(0, n, step):
        block = rows[start : start + step]
        # contiguous: the same bits for every memory order; NumPy: on the CPU
        yield as_block(block if is_csr(block) else np.ascontiguousarray(np.asarray(block)))


def _hash_weights(maps: Iterable[Any]) -> str:
    """Return a hash of the arrays of fitted maps."""
    digest = hashlib.sha256()
    for part in maps:
        for name, array in sorted(part.tile_transform_.arrays().items()):
            digest.update(f"{name} {array.dtype} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
