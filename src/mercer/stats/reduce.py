"""fold(source, summary): the only loop over data.

Blocks are summed in order inside shards of a fixed number of blocks, and shards are merged in
order. The grid of blocks depends on the width of a row and its dtype alone, and BLAS runs on one
thread inside: threads, kills, resumes and the chunks of a source change no bit of a sum.
"""

from __future__ import annotations

import operator
import os
import sys
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import closing, nullcontext, suppress
from pathlib import Path
from typing import Any, Generic, TypeVar

from mercer.data import ChangedFileError, Stream, open_stream
from mercer.data.batches import Piece, Rows
from mercer.maps.block import Block, at_home, is_block
from mercer.parallel import dask_cluster, devices
from mercer.parallel.threads import at_most, one_blas_thread
from mercer.parallel.tile_size import SHARD, worth_writing
from mercer.persistence.atomic_write import remove_leftovers
from mercer.stats.basic import Statistic
from mercer.stats.checkpoint import Checkpoint, plain
from mercer.stats.combined import described, fresh, state_of
from mercer.validation.rows import validate_rows

S = TypeVar("S", bound=Statistic)


def fold(
    source: Any,
    summary: S,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    spec: dict[str, Any] | None = None,
    progress: Callable[[int, int | None], None] | None = None,
    n_jobs: int | None = None,
    client: Any = None,
) -> S:
    """The summary of all rows of source.

    Parameters
    ----------
    source : Stream, Rows, Features, array, sparse matrix, data frame, or iterable of blocks
        ``features(stream, fitted_map)`` gives the features of a stream. Blocks of an iterable are
        taken as they are.
    summary : Summary
        It is filled and returned. After an error it is as it was.
    checkpoint : path, optional
        A file that keeps the sum of the shards that are done. A rerun goes on from there; a file
        that belongs to something else is refused. It stays when all rows are summed. Interrupted by
        Ctrl-C, the shard in work is dropped and the others are kept.
    spec : dict of JSON values, optional
        What else the sum depends on (parameters, the seed): kept in the checkpoint, and compared.
        ``Checkpoint.peek(path)`` shows it.
    progress : callable, optional
        progress(rows_done, rows_in_all) after every block (every shard on a cluster); rows_in_all
        is None when it is not known.
    n_jobs : int, optional
        Threads; it does not change the result. None and -1 use all that MERCER_NUM_THREADS or the
        machine allow. Not for a cluster, whose workers run as many tasks at once as they have
        threads.
    client : distributed.Client or address, optional
        A cluster of Dask that sums the shards: the same bits, whatever the number of its workers.
        For a Dask array the current client, when there is one.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import fold, open_stream
    >>> from mercer.stats.moments import Moments
    >>> fold(open_stream(np.array([[1.0, 2.0], [3.0, 6.0]])), Moments()).mean
    array([2., 4.])
    """
    rows = _rows_of(source)
    if checkpoint is not None and rows is None:
        raise ValueError(
            "fold: checkpoint= needs rows that can be read again: a stream, an array or "
            "features(stream, map)."
        )
    with at_most(n_jobs), one_blas_thread():
        total: Total[S] = Total(summary)
        keeper = (
            None
            if checkpoint is None or rows is None
            else _Keeper(Path(checkpoint), rows, total, spec)
        )
        try:
            if not total.complete:
                # without distributed there is no client
                clustered = client is not None or (
                    rows is not None and "distributed" in sys.modules
                )
                with dask_cluster.for_rows(client, rows) if clustered else nullcontext() as found:
                    if found is None or rows is None:
                        _sum(rows, source, total, keeper, progress)
                    else:
                        rows.stream.require_same_files()
                        _sum_on(found, rows, total, keeper, progress)
                        rows.stream.require_same_files()
        except BaseException:
            if keeper is not None:
                keeper.keep()
            raise
        if total.sum is not None:
            merged = operator.iadd(summary, total.sum)
            if merged is not summary:
                vars(summary).update(vars(merged))
    return summary


class Total(Generic[S]):
    """The sum of the first shards, in order: a shard that comes twice, or too early, is refused."""

    def __init__(self, like: S) -> None:
        self.like = like
        self.sum: S | None = None
        self.shards = 0
        self.rows = 0
        self.complete = False
        self.steady = True  # not in the middle of a merge

    def take(self, index: int, shard: S, rows: int, *, last: bool = False) -> None:
        """Merge the shard of that number, which has so many rows. The shard is not to be used
        afterwards.
        """
        if index != self.shards:
            what = (
                "was summed already"
                if index < self.shards
                else f"has come before shard {self.shards}"
            )
            raise ValueError(f"Shard {index} {what}: shards are merged once each, in order.")
        self.steady = False
        self.sum = shard if self.sum is None else operator.iadd(self.sum, shard)
        self.shards, self.rows, self.complete = self.shards + 1, self.rows + rows, last
        self.steady = True


class _Keeper:
    """The checkpoint of a fold: read at the start, written when it is due."""

    def __init__(
        self, path: Path, rows: Rows, total: Total[Any], spec: dict[str, Any] | None
    ) -> None:
        if path.is_dir():
            raise ValueError(f"The checkpoint {path} is a folder: name a file.")
        if not path.parent.is_dir():
            raise ValueError(
                f"There is no folder {path.parent} to write the checkpoint {path.name} to."
            )
        self.path, self.stream, self.total = path, rows.stream, total
        state_of(total.like)
        self.made = {
            "spec": plain("fold: spec", {} if spec is None else spec),
            "source": plain("The fingerprint", rows.stream.fingerprint()),
            "map": plain("The map", rows.mark()),
            "grid": {
                "rows": rows.grid.rows,
                "shard": rows.grid.shard,
                "width": rows.width,
                "dtype": str(rows.dtype),
            },
            "isa": devices.arithmetic(),
            "summary": described(total.like),
        }
        remove_leftovers(path)
        if path.exists():
            saved = Checkpoint.read(path)
            saved.require(self.made, path.name)
            total.sum = total.like.from_state(saved.state)
            total.shards, total.rows, total.complete = saved.shards, saved.rows, saved.complete
        self.written = total.shards
        self.wrote_at, self.seconds = time.monotonic(), 0.0

    def note(self) -> None:
        """A shard is done: write when that is due."""
        if self.total.complete or worth_writing(time.monotonic() - self.wrote_at, self.seconds):
            self.write()

    def keep(self) -> None:
        """Something went wrong: keep what is done, if it can be kept."""
        if self.total.steady and self.total.shards > self.written:
            with suppress(OSError, ChangedFileError):
                self.write()

    def write(self) -> None:
        total = self.total
        begin = time.monotonic()
        self.stream.require_same_files()  # all that was summed was read before
        try:
            Checkpoint(
                self.made, total.shards, total.rows, total.complete, state_of(total.sum)
            ).write(self.path)
        except OSError as error:
            kept = (
                f"the one of {self.written} shards is as it was"
                if self.written
                else "there is none yet"
            )
            raise OSError(
                error.errno,
                f"The checkpoint {self.path.name} could not be written, and {kept}: "
                f"{error.strerror or error}",
            ) from error
        self.written = total.shards
        self.wrote_at = time.monotonic()
        self.seconds = self.wrote_at - begin


def _sum(
    rows: Rows | None,
    source: Any,
    total: Total[Any],
    keeper: _Keeper | None,
    progress: Callable[[int, int | None], None] | None,
) -> None:
    pieces = _pieces(source) if rows is None else rows.pieces(total.rows)
    shard, blocks, done = fresh(total.like), 0, total.rows
    anywhere = getattr(total.like, "anywhere", False)  # else blocks are brought to the CPU

    def is_full() -> bool:
        return blocks == SHARD if rows is None else done - total.rows >= rows.step

    def finish(last: bool) -> None:
        total.take(total.shards, shard, done - total.rows, last=last)
        if keeper is not None:
            keeper.note()

    with closing(pieces):
        for piece in pieces:
            if is_full():
                finish(last=False)
                shard, blocks = fresh(total.like), 0
            block = piece.block if anywhere else at_home(piece.block)
            shard.add(block, y=piece.y, weight=piece.weight, start=piece.start)
            blocks, done = blocks + 1, piece.start + piece.block.shape[0]
            if progress is not None:
                progress(done, None if rows is None else rows.stream.rows)
    if blocks:
        finish(last=True)


def _sum_on(
    client: Any,
    rows: Rows,
    total: Total[Any],
    keeper: _Keeper | None,
    progress: Callable[[int, int | None], None] | None,
) -> None:
    count = rows.stream.rows
    with closing(dask_cluster.shards(client, rows, fresh(total.like), total.shards)) as shards:
        for shard, taken in shards:
            total.take(total.shards, shard, taken, last=total.rows + taken == count)
            if keeper is not None:
                keeper.note()
            if progress is not None:
                progress(total.rows, count)


def _rows_of(source: Any) -> Rows | None:
    """What can be read again, as blocks of the fixed grid; None for an iterable of blocks."""
    if isinstance(source, Rows):
        return source
    if isinstance(source, Stream):
        return Rows(source)
    return Rows(open_stream(validate_rows("fold", source))) if hasattr(source, "shape") else None


def _pieces(source: Iterable[Block]) -> Generator[Piece, None, None]:
    start = 0
    for block in source:
        if isinstance(block, Piece):
            yield block
            start = block.start + block.block.shape[0]
            continue
        if not is_block(block):
            raise TypeError(
                "fold needs an array, a CSR matrix or blocks (map.blocks(X)), got a "
                f"{type(block).__name__}."
            )
        yield Piece(block, start=start)
        start += block.shape[0]
