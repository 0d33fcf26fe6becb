"""Accumulate a statistic over rows: the only loop over data.

Blocks are added in order inside shards of a fixed number of blocks, and shards are merged in order.
The grid of blocks depends on the width of a row and its dtype alone, and BLAS runs on one thread
inside: neither threads, kills, resumes nor the chunks of a source change a bit of a sum.
"""

from __future__ import annotations

import hashlib
import operator
import os
import re
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Generic, TypeVar

from mercer.data import ChangedFileError, Stream, open_stream
from mercer.data.batches import Batch, Rows
from mercer.errors import ParameterError
from mercer.maps.block import Block, is_block
from mercer.parallel import dask_cluster
from mercer.parallel.device import arithmetic
from mercer.parallel.threads import limit_threads, one_blas_thread
from mercer.parallel.tile_size import SHARD, is_checkpoint_due
from mercer.persistence.container import canonical_json
from mercer.stats.base import Statistic, describe_statistic, empty_like, get_state, with_state
from mercer.stats.checkpoint import Checkpoint, to_json_values
from mercer.validation.rows import validate_rows

S = TypeVar("S", bound=Statistic)
Progress = Callable[[int, int | None], None]


def accumulate(
    source: Any,
    statistic: S,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    spec: dict[str, Any] | None = None,
    progress: Progress | None = None,
    n_jobs: int | None = None,
    client: Any = None,
) -> S:
    """Add all rows of a source to a statistic, and return it.

    Parameters
    ----------
    source : Stream, Rows, Features, array, sparse matrix, data frame, or iterable of blocks
        ``features(stream, fitted_map)`` gives the features of a stream. Blocks of an iterable are
        not validated.
    statistic : Statistic
        It is filled and returned. After an error it is unchanged.
    checkpoint : path, optional
        A file for the sum of the completed shards. A rerun resumes from it; a file of another sum
        is an error. The file remains when all rows are added. Ctrl-C keeps the completed shards,
        and of the current one what was written last.
    spec : dict of JSON values, optional
        Further inputs of the sum (parameters, the seed): stored in the checkpoint, and compared.
        ``Checkpoint.read_spec(path)`` returns them.
    progress : callable, optional
        progress(rows_done, n_rows) after every block (every shard on a cluster); n_rows is None
        where the source has no row count.
    n_jobs : int, optional
        Threads; the result does not depend on them. None and -1 use all that MERCER_NUM_THREADS or
        the machine allow. Ignored on a cluster, whose workers run one task per thread.
    client : distributed.Client or address, optional
        A Dask cluster that sums the shards, to the same bits for any number of workers. By default
        the current client for a Dask array, and none otherwise.

    Returns
    -------
    statistic : Statistic
        The argument.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import accumulate, open_stream
    >>> from mercer.stats.moments import Moments
    >>> accumulate(open_stream(np.array([[1.0, 2.0], [3.0, 6.0]])), Moments()).mean
    array([2., 4.])
    """
    rows = _as_rows(source)
    if rows is not None:
        rows.with_keys = getattr(statistic, "uses_keys", False)
    if checkpoint is not None and rows is None:
        raise ValueError(
            "accumulate: checkpoint= needs rows that can be read again: a stream, an array or "
            "features(stream, map)."
        )
    with limit_threads(n_jobs), one_blas_thread():
        total: Total[S] = Total(statistic)
        writer, passes = None, _pass_checkpoint.get()
        if checkpoint is not None and rows is not None:
            inputs = _describe_inputs(rows, statistic, spec)
            writer = _CheckpointWriter(Path(checkpoint), inputs, rows, total)
        elif passes is not None and rows is not None and rows.stream.files():
            writer = _pass_writer(passes, rows, total)
        try:
            if not total.complete:
                # Without distributed there is no client.
                loaded = rows is not None and "distributed" in sys.modules
                clustered = client is not None or loaded
                context = dask_cluster.client_for(client, rows) if clustered else nullcontext()
                with context as dask_client:
                    if dask_client is None or rows is None:
                        _sum_locally(rows, source, total, writer, progress)
                    else:
                        rows.stream.require_same_files()
                        _sum_on_cluster(dask_client, rows, total, writer, progress)
                        rows.stream.require_same_files()
        except BaseException:
            if writer is not None:
                writer.write_after_error()
            raise
        if total.sum is not None:
            merged = operator.iadd(statistic, total.sum)
            if merged is not statistic:
                vars(statistic).update(vars(merged))
        if writer is not None and rows is not None:
            rows.stream.set_rows(total.rows)
    return statistic


@contextmanager
def checkpoint_passes(path: str | os.PathLike[str]) -> Iterator[None]:
    """Keep the partial sums of all passes over files inside a with statement, beside a checkpoint.

    A sum without a checkpoint of its own has one whose name is a hash of its inputs, ``path`` +
    ".pass-0123456789abcdef". These are removed when the statement ends without an error, or with
    one of parameters.
    """
    token = _pass_checkpoint.set(Path(path))
    try:
        yield
        _remove_passes(Path(path))
    except ParameterError:
        _remove_passes(Path(path))
        raise
    finally:
        _pass_checkpoint.reset(token)


_pass_checkpoint: ContextVar[Path | None] = ContextVar("pass_checkpoint", default=None)


def _remove_passes(path: Path) -> None:
    pattern = re.compile(re.escape(path.name) + r"\.pass-[0-9a-f]{16}")
    for name in os.listdir(path.parent):
        if pattern.fullmatch(name):
            path.with_name(name).unlink(missing_ok=True)


def _pass_writer(path: Path, rows: Rows, total: Total[Any]) -> _CheckpointWriter | None:
    """Return the writer of a pass; None where its statistic cannot be checkpointed."""
    try:
        inputs = _describe_inputs(rows, total.template, {"rows": type(rows).__name__})
    except TypeError:
        return None
    digest = hashlib.sha256(canonical_json(inputs).encode()).hexdigest()[:16]
    return _CheckpointWriter(path.with_name(f"{path.name}.pass-{digest}"), inputs, rows, total)


def _describe_inputs(rows: Rows, template: Any, spec: dict[str, Any] | None) -> dict[str, Any]:
    """Return what a sum depends on; raise a TypeError where it cannot be checkpointed."""
    get_state(template)
    return {
        "spec": to_json_values("accumulate: spec", {} if spec is None else spec),
        "source": to_json_values("The fingerprint", rows.stream.fingerprint()),
        "map": to_json_values("The map", rows.fingerprint()),
        "grid": {
            "rows": rows.grid.rows,
            "shard": rows.grid.shard,
            "width": rows.width,
            "dtype": str(rows.dtype),
        },
        "isa": arithmetic(),
        "statistic": describe_statistic(template),
    }


class Total(Generic[S]):
    """Sum of the first shards, merged in order; each shard is merged once.

    Parameters
    ----------
    template : Statistic
        Its class and settings are those of the shards.
    """

    def __init__(self, template: S) -> None:
        self.template = template
        self.sum: S | None = None
        self.shards = 0
        self.rows = 0
        self.complete = False
        self.consistent = True  # False during a merge
        self.partial: tuple[S, int] | None = None  # shard of a checkpoint to go on with, and rows

    def merge(
        self,
        index: int,
        shard: S,
        rows: int,
        writer: _CheckpointWriter | None = None,
        *,
        last: bool = False,
    ) -> None:
        """Merge shard number ``index``, which has so many rows and must not be used afterwards.

        The writer writes a checkpoint then, if one is due.
        """
        if index != self.shards:
            problem = (
                "is already merged"
                if index < self.shards
                else f"was delivered before shard {self.shards}"
            )
            raise ValueError(f"Shard {index} {problem}: shards are merged once each, in order.")
        self.consistent = False
        self.sum = shard if self.sum is None else operator.iadd(self.sum, shard)
        self.shards, self.rows, self.complete = self.shards + 1, self.rows + rows, last
        self.consistent = True
        if writer is not None:
            writer.write_if_due()


class _CheckpointWriter:
    """Read the checkpoint of a sum at the start, and write it when it is due."""

    def __init__(self, path: Path, inputs: dict[str, Any], rows: Rows, total: Total[Any]) -> None:
        if path.is_dir():
            raise ValueError(f"The checkpoint {path} is a folder: name a file.")
        if not path.parent.is_dir():
            raise ValueError(
                f"There is no folder {path.parent} to write the checkpoint {path.name} to."
            )
        self.path, self.inputs = path, inputs
        self.stream, self.total = rows.stream, total
        if path.exists():
            saved = Checkpoint.read(path)
            saved.require_inputs(self.inputs, path.name)
            if saved.shards:
                total.sum = with_state(total.template, saved.state)
            if saved.partial is not None:
                total.partial = with_state(total.template, saved.partial), saved.partial_rows
            total.shards, total.rows, total.complete = saved.shards, saved.rows, saved.complete
        self.shards_written = total.shards
        self.written_at, self.seconds_to_write = time.monotonic(), 0.0

    def write_if_due(self, partial: Any = None, partial_rows: int = 0) -> None:
        """Write the checkpoint after a shard, or after a block of a partial one, if it is due."""
        seconds = time.monotonic() - self.written_at
        due = is_checkpoint_due(seconds, self.seconds_to_write, whole=partial is None)
        if self.total.complete or due:
            self.write(partial, partial_rows)

    def write_after_error(self) -> None:
        """Write the completed shards after an error, where they can be written."""
        if self.total.consistent and self.total.shards > self.shards_written:
            with suppress(OSError, ChangedFileError):
                self.write()

    def write(self, partial: Any = None, partial_rows: int = 0) -> None:
        """Write the completed shards, and blocks of a partial one.

        The files must not have changed since they were read.
        """
        total = self.total
        begin = time.monotonic()
        self.stream.require_same_files()
        try:
            Checkpoint(
                self.inputs,
                total.shards,
                total.rows,
                total.complete,
                get_state(total.template if total.sum is None else total.sum),
                partial_rows,
                None if partial is None else get_state(partial),
            ).write(self.path)
        except OSError as error:
            previous = (
                f"the one of {self.shards_written} shards is unchanged"
                if self.shards_written
                else "there is none yet"
            )
            raise OSError(
                error.errno,
                f"The checkpoint {self.path.name} could not be written, and {previous}: "
                f"{error.strerror or error}",
            ) from error
        self.shards_written = total.shards
        self.written_at = time.monotonic()
        self.seconds_to_write = self.written_at - begin


def _sum_locally(
    rows: Rows | None,
    source: Any,
    total: Total[Any],
    writer: _CheckpointWriter | None,
    progress: Progress | None,
) -> None:
    shard, done = total.partial or (empty_like(total.template), 0)
    blocks, done = int(done > 0), total.rows + done
    batches = _read_blocks(source) if rows is None else rows.batches(done)
    grid = None if rows is None else rows.grid

    with closing(batches):
        for batch in batches:
            full = blocks == SHARD if grid is None else done - total.rows >= grid.step
            if full:
                total.merge(total.shards, shard, done - total.rows, writer)
                shard, blocks = empty_like(total.template), 0
            batch.add_to(shard)
            blocks, done = blocks + 1, batch.start + batch.block.shape[0]
            if writer is not None and grid is not None:
                partial_rows = done - total.rows
                if partial_rows < grid.step and partial_rows % grid.rows == 0:
                    writer.write_if_due(shard, partial_rows)
            if progress is not None:
                progress(done, None if rows is None else rows.stream.rows)
    if blocks:
        total.merge(total.shards, shard, done - total.rows, writer, last=True)


def _sum_on_cluster(
    client: Any,
    rows: Rows,
    total: Total[Any],
    writer: _CheckpointWriter | None,
    progress: Progress | None,
) -> None:
    n_rows = rows.stream.rows
    template = empty_like(total.template)
    with closing(dask_cluster.submit_shards(client, rows, template, total.shards)) as shards:
        for shard, shard_rows in shards:
            last = total.rows + shard_rows == n_rows
            total.merge(total.shards, shard, shard_rows, writer, last=last)
            if progress is not None:
                progress(total.rows, n_rows)


def _as_rows(source: Any) -> Rows | None:
    """Return a source as blocks of the fixed grid; None for an iterable of blocks."""
    if isinstance(source, Rows):
        return source
    if isinstance(source, Stream):
        return Rows(source)
    if not hasattr(source, "shape"):
        return None
    return Rows(open_stream(validate_rows("accumulate", source)))


def _read_blocks(source: Iterable[Block]) -> Generator[Batch, None, None]:
    """Yield the blocks of an iterable with the indices of their first rows."""
    start = 0
    for block in source:
        if isinstance(block, Batch):
            yield block
            start = block.start + block.block.shape[0]
            continue
        if not is_block(block):
            raise TypeError(
                "accumulate needs an array, a CSR matrix or blocks (map.blocks(X)), got a "
                f"{type(block).__name__}."
            )
        yield Batch(block, start=start)
        start += block.shape[0]
