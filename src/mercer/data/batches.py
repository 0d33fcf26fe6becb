"""What a fold reads: rows of a stream, or their features, as blocks of a fixed grid."""

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

from mercer.data import Chunk, Stream
from mercer.errors import RowError
from mercer.maps.block import Array, Block, Dense, as_block, matrix
from mercer.parallel import devices
from mercer.parallel.threads import spans, width
from mercer.parallel.tile_size import Cost, Grid, grid, tile_rows
from mercer.validation.rows import require_finite


@dataclass(frozen=True, eq=False)
class Piece:
    """A block with the targets and weights of its rows, and the index of its first row in the
    stream.
    """

    block: Block
    y: Array | None = None
    weight: Array | None = None
    start: int = 0


class Rows:
    """The rows of a stream as blocks; each is checked before it is given: finite, and in the domain
    of a map where there is one.

    Errors name the place of a row as the stream does: the file, the row in it, the column.

    Parameters
    ----------
    stream : Stream
    feature_map : Map, optional
        The map that the rows are for, fitted or not.
    """

    def __init__(self, stream: Stream, feature_map: Any = None) -> None:
        self.stream = stream
        self.feature_map = feature_map

    @property
    def width(self) -> int:
        """Columns of a block."""
        return self.stream.width

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.stream.dtype

    @property
    def grid(self) -> Grid:
        """Rows of a block and blocks of a shard, by the width of a row (that of the inputs too,
        where they are dense) and the dtype.
        """
        width = self.width if self.stream.sparse else max(self.width, self.stream.width)
        return grid(width, self.dtype.itemsize, device=self.place is not None)

    @property
    def place(self) -> devices.Place | None:
        """Where blocks are made: on the CPU, where rows are looked at."""
        return None

    @property
    def step(self) -> int:
        """Rows of a shard."""
        return self.grid.rows * self.grid.shard

    def pieces(self, start: int = 0, stop: int | None = None) -> Generator[Piece, None, None]:
        """The blocks from row `start`, the first of a block, up to row `stop`. With several threads
        the next rows are read meanwhile.
        """
        read = self.stream.blocks(self.grid.rows, start, stop)
        with closing(_ahead(read) if width(None) > 1 else read) as chunks:
            for chunk in chunks if self.place is None else _arriving(chunks, self.place):
                for part, block in self._made(chunk):
                    yield Piece(block, part.y, part.weight, part.start)

    def _made(self, chunk: Chunk) -> Iterator[tuple[Chunk, Block]]:
        """The block of a chunk; those of its parts, where a device has no memory for the whole."""

        def work(rows: slice) -> tuple[Chunk, Block]:
            part = chunk.part(rows.start, rows.stop)
            try:
                return part, self._block(part)
            except RowError as error:
                raise self.stream.located(error, part.start) from None

        if self.place is None:
            yield work(slice(0, len(chunk)))
        else:
            yield from (
                made for _, made in devices.pieces(work, len(chunk), len(chunk), self.place)
            )

    def blocks(self) -> Iterator[Block]:
        """The blocks alone, in order."""
        return (piece.block for piece in self.pieces())

    def mark(self) -> dict[str, Any] | None:
        """What was drawn, as plain values; None where nothing was."""
        return None

    def packed(self) -> Self:
        """A copy for another process: without the rows in memory, and without what its maps can
        draw again.
        """
        other = copy.copy(self)
        other.stream = self.stream.holding(self.stream.held(0, 0), 0)
        return other

    def unpacked(self) -> Self:
        """A copy whose maps have drawn what packed() left out."""
        return copy.copy(self)

    def with_rows(self, held: dict[str, Any], first: int) -> Self:
        """A copy whose stream holds these rows."""
        other = copy.copy(self)
        other.stream = self.stream.holding(held, first)
        return other

    def _block(self, chunk: Chunk) -> Block:
        self._let_in(chunk.X)
        return as_block(chunk.X)

    def _let_in(self, X: Any) -> None:
        if self.feature_map is None:
            require_finite("fold", X, self.stream.columns)
        else:
            self.feature_map._validate_values(X, self.stream.columns)


class Features(Rows):
    """The features that a fitted map makes of the rows of a stream, as blocks: dense, sparse or
    coded, as the map makes them.
    """

    def __init__(self, stream: Stream, feature_map: Any) -> None:
        super().__init__(stream, feature_map)
        who, known = type(feature_map).__name__, getattr(feature_map, "n_features_in_", None)
        if known is None:
            raise ValueError(
                f"This {who} is not fitted yet: fit it before its features are asked for."
            )
        if known != stream.width:
            raise ValueError(
                f"{stream.name} has {stream.width} input columns, and {who} was fitted on {known}."
            )
        names = getattr(feature_map, "feature_names_in_", None)
        if names is not None and stream.columns is not None and list(names) != list(stream.columns):
            place = next(
                i
                for i, pair in enumerate(zip(names, stream.columns, strict=True))
                if pair[0] != pair[1]
            )
            raise ValueError(
                f"Column {place} of {stream.name} is {stream.columns[place]!r}, and {who} was "
                f"fitted on {names[place]!r} there."
            )
        self._warned = False

    @property
    def width(self) -> int:
        return int(self.feature_map._n_features_out)

    @property
    def place(self) -> devices.Place | None:
        """Where features are made: on the device that was chosen, or on the CPU."""
        return devices.here()

    def mark(self) -> dict[str, Any]:
        """The class, the plain parameters but those of chance and threads, and a hash of what was
        drawn.
        """
        parameters = {
            name: value
            for name, value in self.feature_map.get_params().items()
            if isinstance(value, str | bool | int | float | None)
            and not name.endswith(("random_state", "n_jobs"))
        }
        return {
            "class": type(self.feature_map).__name__,
            "parameters": parameters,
            "sha256": _digest([self.feature_map]),
        }

    def packed(self) -> Self:
        other = super().packed()
        other.feature_map = self.feature_map._packed()
        return other

    def unpacked(self) -> Self:
        other = super().unpacked()
        other.feature_map = self.feature_map._unpacked()
        return other

    def _block(self, chunk: Chunk) -> Block:
        self._let_in(chunk.X)
        bounds = self.feature_map.bounds_
        if bounds is not None and not self._warned:
            self._warned = bounds(chunk.X, numbered=False)
        block: Block = self.feature_map._transform_block(chunk.X)
        return block


class Tiles(Rows):
    """What a map looks at before it is drawn: rows of a stream in tiles, as an array would have
    them, or features of the maps before it.
    """

    def __init__(
        self, stream: Stream, feature_map: Any, before: Iterable[Any] = (), following: Any = None
    ) -> None:
        super().__init__(stream, feature_map)
        self.before = tuple(before)
        self.following = following  # the map whose domain the features are to be in

    def then(self, fitted: Any, following: Any) -> Tiles:
        """The features that a fitted map makes of these, for the map that follows."""
        return Tiles(self.stream, self.feature_map, (*self.before, fitted), following)

    def pieces(self, start: int = 0, stop: int | None = None) -> Generator[Piece, None, None]:
        for piece in super().pieces(start, stop):
            at = 0
            for tile in blocks_of(matrix(piece.block)):
                end = at + tile.shape[0]
                weight = None if piece.weight is None else piece.weight[at:end]
                try:
                    block = self._features(tile)
                except RowError as error:
                    raise self.stream.located(error, piece.start + at) from None
                yield Piece(block, None, weight, piece.start + at)
                at = end

    def _features(self, block: Block) -> Block:
        for part, following in zip(self.before, (*self.before[1:], self.following), strict=False):
            block = part._transform_between(block, following)
        return block

    def mark(self) -> dict[str, Any] | None:
        return {"sha256": _digest(self.before)} if self.before else None

    def packed(self) -> Self:
        other = super().packed()
        other.before = tuple(part._packed() for part in self.before)
        return other

    def unpacked(self) -> Self:
        other = super().unpacked()
        other.before = tuple(part._unpacked() for part in self.before)
        return other


class Labels(Rows):
    """The targets and weights of a stream alone: blocks have no columns."""

    def _block(self, chunk: Chunk) -> Block:
        return Dense(np.empty((len(chunk), 0)))


def features(stream: Stream, feature_map: Any) -> Features:
    """The features of a stream, for fold: fold(features(stream, fitted_map), Moments()).

    Parameters
    ----------
    stream : Stream
    feature_map : Map
        A fitted map.
    """
    return Features(stream, feature_map)


def _arriving(chunks: Iterable[Chunk], place: devices.Place) -> Iterator[Chunk]:
    """The same chunks with their rows on a device."""
    return (
        replace(chunk, X=rows)
        for chunk, rows in devices.ahead(chunks, lambda chunk: chunk.X, place)
    )


def _ahead(chunks: Generator[Chunk, None, None]) -> Generator[Chunk, None, None]:
    """The same chunks, each read by another thread while the one before it is in use."""
    reading = threading.Lock()

    def read() -> Chunk | None:
        with reading:
            return next(chunks, None)

    try:
        with ThreadPoolExecutor(1, thread_name_prefix="mercer-reader") as reader:
            waiting = reader.submit(read)
            while (chunk := waiting.result()) is not None:
                waiting = reader.submit(read)
                yield chunk
    finally:
        with (
            reading
        ):  # Ctrl-C while the thread starts leaves one that the executor does not wait for
            chunks.close()


def blocks_of(rows: Any) -> Iterator[Block]:
    """An array or a CSR matrix as consecutive blocks."""
    n, d = rows.shape
    for span in spans(n, tile_rows(Cost(d, d * rows.dtype.itemsize))):
        block = rows[span]
        yield as_block(
            block if hasattr(block, "indptr") else np.ascontiguousarray(np.asarray(block))
        )  # the same bits for every memory order, and on the CPU, where rows are looked at


def _digest(maps: Iterable[Any]) -> str:
    """A hash of what maps have drawn."""
    digest = hashlib.sha256()
    for part in maps:
        for name, array in sorted(part.tile_transform_.arrays().items()):
            digest.update(f"{name} {array.dtype} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
