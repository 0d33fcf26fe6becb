"""Sums of shards on a Dask cluster: one pure task for each shard, merged here in order.

Once for each worker a ``ShardJob`` is sent (the location of the rows, an empty statistic, and the
map: its parameters, seed and statistics, or its arrays where these are smaller); for each task two
numbers, and the rows that are in memory. A task returns the sum of its shard.
"""

from __future__ import annotations

import copy
import functools
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from mercer.data.batches import Rows
from mercer.errors import RowError
from mercer.parallel.dask_worker import MapMismatchError, ShardJob, sum_shard
from mercer.parallel.threads import limit_threads
from mercer.parallel.tile_size import limits, shards_in_flight
from mercer.parallel.warnings import collect_warnings, issue_collected
from mercer.stats.base import Statistic

_CONNECT_SECONDS = 2.0  # to test whether a worker can be reached directly
_POLL_SECONDS = 5.0  # between tests of whether the cluster is still there
_NO_WORKER_SECONDS = 60.0  # that a cluster may be without workers
# Times that a shard, sent alone, may lose all workers that Dask tries: three are no coincidence of
# workers that are killed by others.
_MOST_LOSSES = 3

_thread = threading.local()  # client: see use_cluster


@contextmanager
def use_cluster(cluster: Any) -> Iterator[None]:
    """Run the sums of this thread on a cluster; None changes nothing."""
    outer = getattr(_thread, "client", None)
    with connect(cluster) as client:
        _thread.client = outer if client is None else client
        try:
            yield
        finally:
            _thread.client = outer


@contextmanager
def without_cluster() -> Iterator[None]:
    """Run the sums of this thread in this process, within ``use_cluster`` too."""
    outer = getattr(_thread, "client", None)
    _thread.client = None
    try:
        yield
    finally:
        _thread.client = outer


@contextmanager
def client_for(client: Any, rows: Rows | None) -> Iterator[Any]:
    """Yield the client that sums these rows, or None to sum them in this process.

    That is the one given, that of ``use_cluster``, or for Dask arrays the current one.
    """
    if client is not None and rows is None:
        raise ValueError(
            "accumulate: client= needs rows that can be read again: a stream, an array or "
            "features(stream, map)."
        )
    if client is None and rows is not None:
        client = _find_client(rows.stream)
    with connect(client) as connected:
        yield connected


def uses_cluster(stream: Any) -> bool:
    """Return whether a sum over this stream would run on a cluster."""
    return _find_client(stream) is not None


@contextmanager
def connect(cluster: Any) -> Iterator[Any]:
    """Yield a client of a cluster with at least one worker.

    Parameters
    ----------
    cluster : distributed.Client, address, cluster object or None
        A client stays open; for the others one is opened and closed; None yields None.
    """
    if cluster is None:
        yield None
        return
    if hasattr(cluster, "submit") and hasattr(cluster, "scheduler"):
        if cluster.asynchronous or cluster.status != "running":
            state = "asynchronous" if cluster.asynchronous else cluster.status
            raise ValueError(
                "A client that is connected and not asynchronous is needed, got one that is "
                f"{state}."
            )
        yield _require_workers(cluster)
        return
    client = open_client(cluster)
    try:
        yield _require_workers(client)
    finally:
        client.close()


def open_client(address: Any) -> Any:
    """Open a client of the scheduler at an address, "tcp://host:8786", or of a cluster object."""
    if not isinstance(address, str) and not hasattr(address, "scheduler_address"):
        raise ValueError(
            "A cluster is a distributed.Client or the address of a scheduler, "
            f"'tcp://host:8786', got a {type(address).__name__}."
        )
    try:
        distributed = import_module("distributed")
    except ImportError:
        raise ValueError(
            f"The cluster {address!r} needs distributed: pip install 'mercer[dask]'."
        ) from None
    timeout = limits().cluster_timeout
    try:
        return distributed.Client(address, timeout=timeout, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"No scheduler answers at {address!r} within {timeout:g} s: {error}. Is it running "
            "('dask scheduler' prints its address), and can this machine reach it?"
        ) from None


@dataclass(frozen=True, eq=False)
class _Task:
    """A submitted shard: its rows, the worker it was meant for, and its future."""

    start: int
    stop: int
    worker: str | None
    future: Any


def submit_shards(
    client: Any, rows: Rows, template: Statistic, first: int
) -> Generator[tuple[Any, int], None, None]:
    """Yield the sum and the number of rows of each shard, in order, from shard ``first`` on.

    A few shards for each thread of the cluster are in flight at once.
    """
    n_rows = rows.stream.rows
    if n_rows is None or not rows.stream.seeks:
        raise ValueError(
            f"{rows.stream.name} cannot be read from the middle, so that workers cannot share it: "
            "convert it to Parquet first, or fit without a cluster."
        )
    step = rows.grid.step
    pending = deque(
        (start, min(start + step, n_rows)) for start in range(first * step, n_rows, step)
    )
    in_flight: deque[_Task] = deque()
    include_arrays = False
    job = _submit(client, ShardJob.identity, ShardJob(rows, template, include_arrays=False))
    warned, direct = set[str](), _can_reach_workers(client)
    # Shards to send one at a time, after a worker has died, and deaths with the first one alone.
    one_by_one, losses = 0, 0
    threads, next_poll = dict[str, int](), 0.0

    def requeue() -> int:
        """Cancel the tasks in flight, queue their shards again, and return their number."""
        count = len(in_flight)
        while in_flight:
            task = in_flight.pop()
            task.future.release()
            pending.appendleft((task.start, task.stop))
        return count

    try:
        while pending or in_flight:
            if time.monotonic() >= next_poll:  # workers join and leave
                next_row = in_flight[0].start if in_flight else pending[0][0]
                threads = _worker_threads(client, next_row)
                next_poll = time.monotonic() + _POLL_SECONDS
            most = 1 if one_by_one else shards_in_flight(sum(threads.values()))
            while pending and len(in_flight) < most:
                start, stop = pending.popleft()
                worker = _least_loaded(threads, [task.worker for task in in_flight])
                in_memory = _rows_in_memory(client, rows, start, stop, worker)
                future = _submit(client, sum_shard, job, start, stop, in_memory, worker=worker)
                in_flight.append(_Task(start, stop, worker, future))
            task = in_flight[0]
            try:
                shard, shard_rows, texts = _result(client, task, direct=direct)
            except MapMismatchError:
                requeue()
                include_arrays = True
                job = _submit(
                    client, ShardJob.identity, ShardJob(rows, template, include_arrays=True)
                )
                continue
            except _killed_worker_error() as error:
                losses += len(in_flight) == 1
                if losses == _MOST_LOSSES:
                    raise RuntimeError(
                        f"Every worker that summed rows {task.start} to {task.stop - 1} of "
                        f"{rows.stream.name} has died, the last one at "
                        f"{error.last_worker.address}: see its log. Too little memory for a task "
                        "is the usual reason."
                    ) from None
                # A worker that dies fails all its tasks: sent one at a time, the shard that kills
                # workers is identified.
                one_by_one = max(one_by_one, requeue())
                # the job may be the task that is counted as the one that kills workers
                job.release()
                again = ShardJob(rows, template, include_arrays=include_arrays)
                job, next_poll = _submit(client, ShardJob.identity, again), 0.0
                continue
            in_flight.popleft()
            task.future.release()
            one_by_one, losses = max(0, one_by_one - 1), 0
            issue_collected(texts, warned)
            yield shard, shard_rows
            del shard  # merged by now, and the next one is as large
    finally:
        requeue()
        job.release()


def map_chunks(
    model: Any,
    method: str,
    X: Any,
    columns: int | None,
    dtype: Any,
    *,
    sparse: bool = False,
    **options: Any,
) -> Any:
    """Apply a method of a model to each chunk of a Dask array, lazily.

    The model is one task, on which those of the chunks depend.

    Parameters
    ----------
    model : Map or estimator
        Fitted.
    method : str
    X : dask.array.Array
    columns : int or None
        Columns of the result; None where it is 1-d.
    dtype : dtype
    sparse : bool
        Whether the chunks of the result are CSR.
    **options
        Further arguments of the method.

    Returns
    -------
    result : dask.array.Array
    """
    from dask import array
    from dask.delayed import delayed

    if X.ndim != 2 or X.shape[1] != model.n_features_in_:
        raise ValueError(
            f"The Dask array has the shape {X.shape}, but {type(model).__name__} is expecting "
            f"{model.n_features_in_} columns."
        )
    empty: Any = np.empty((0,) if columns is None else (0, columns), dtype)
    if sparse:
        from scipy.sparse import csr_array

        empty = csr_array(empty)
    task = delayed(_unpack, pure=False)(delayed(model._pack(), pure=False))
    layout: dict[str, Any] = (
        {"drop_axis": 1} if columns is None else {"chunks": (X.chunks[0], (columns,))}
    )
    work = functools.partial(_apply_to_chunk, method=method, empty=empty, options=options)
    return array.map_blocks(work, X.rechunk({1: -1}), task, meta=empty, dtype=empty.dtype, **layout)


def _find_client(stream: Any) -> Any:
    """Return the client of ``use_cluster``, for Dask arrays else the current one, or None."""
    client = getattr(_thread, "client", None)
    distributed = sys.modules.get("distributed")
    if client is None and distributed is not None and getattr(stream, "lazy", False):
        try:
            return distributed.default_client()
        except ValueError:  # there is none
            return None
    return client


def _require_workers(client: Any) -> Any:
    timeout = limits().cluster_timeout
    try:
        client.wait_for_workers(1, timeout=timeout)
    except TimeoutError:
        address = client.scheduler.address
        raise ValueError(
            f"The cluster at {address} has no worker after {timeout:g} s: start one "
            f"('dask worker {address}')."
        ) from None
    return client


def _least_loaded(threads: dict[str, int], busy: list[str | None]) -> str | None:
    """Return the worker with the fewest shards for each of its threads.

    Dask would assign all tasks to the worker that holds the ShardJob.
    """
    return min(threads, key=lambda address: busy.count(address) / threads[address], default=None)


def _submit(client: Any, work: Callable[..., Any], *args: Any, worker: str | None = None) -> Any:
    from dask import config

    # Rows in memory are sent with their task, so that a dying worker does not lose them: Dask's
    # warning about large graphs does not apply.
    with config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
        return client.submit(
            work, *args, pure=False, workers=worker, allow_other_workers=worker is not None
        )


def _rows_in_memory(
    client: Any, rows: Rows, start: int, stop: int, worker: str | None
) -> dict[str, Any]:
    """Return the rows that a task is sent; chunks of Dask arrays as futures on its worker."""
    held = rows.stream.values_in_memory(start, stop)
    if rows.stream.lazy:
        held["_chunks"] = client.compute(
            held["_chunks"], workers=worker, allow_other_workers=worker is not None
        )
    return held


def _can_reach_workers(client: Any) -> bool:
    """Return whether results can be fetched from the workers, bypassing the scheduler."""
    from distributed.comm.core import connect as open_comm

    async def open_and_close(address: str) -> None:
        comm = await open_comm(address, timeout=_CONNECT_SECONDS, **client.connection_args)
        await comm.close()

    if client.direct_to_workers is not None:
        return bool(client.direct_to_workers)
    try:
        client.sync(open_and_close, next(iter(client.nthreads())))
    except (OSError, StopIteration):
        return False
    return True


def _killed_worker_error() -> type[Any]:
    """Return the class of the error for a task whose workers have died repeatedly."""
    from distributed.scheduler import KilledWorker

    error: type[Any] = KilledWorker
    return error


def _result(client: Any, task: _Task, *, direct: bool) -> tuple[Any, int, list[str]]:
    """Wait for the result of a task, as long as the cluster has workers."""
    from distributed import CancelledError

    last_worker = time.monotonic()
    while True:
        waiting = True  # a TimeoutError is then not that of the task
        try:
            error = task.future.exception(timeout=_POLL_SECONDS)
            waiting = False
            if error is not None:
                raise error
            result: tuple[Any, int, list[str]] = client.gather(task.future, direct=direct)
            return result
        except TimeoutError:
            if not waiting:
                raise
        except CancelledError:
            raise _scheduler_lost(client, task.start) from None
        if _worker_threads(client, task.start):
            last_worker = time.monotonic()
        elif time.monotonic() - last_worker > _NO_WORKER_SECONDS:
            raise ConnectionError(
                f"The cluster at {client.scheduler.address} has had no worker for "
                f"{_NO_WORKER_SECONDS:g} s. {_RESUME.format(task.start)}"
            )


def _worker_threads(client: Any, start: int) -> dict[str, int]:
    """Return the threads of each worker; ``start`` is the first row that is not summed yet."""
    try:
        if client.status == "running":
            return dict(client.nthreads())
    except OSError:
        pass
    raise _scheduler_lost(client, start)


_RESUME = (
    "{} rows were summed: a checkpoint= has them, and a rerun resumes there, with or without a "
    "cluster."
)


def _scheduler_lost(client: Any, start: int) -> ConnectionError:
    return ConnectionError(
        f"The connection to the scheduler at {client.scheduler.address} is lost. "
        f"{_RESUME.format(start)}"
    )


def _unpack(model: Any) -> Any:
    return copy.copy(model._unpack())  # a copy has its own set of issued warnings


def _apply_to_chunk(
    chunk: Any,
    model: Any,
    *,
    method: str,
    empty: Any,
    options: dict[str, Any],
    block_info: Any = None,
) -> Any:
    """Apply a method of a model to a chunk, with row numbers of the whole array in messages."""
    if chunk.shape[0] == 0:
        return empty
    start = block_info[0]["array-location"][0][0] if block_info else np.nan
    numbered = not np.isnan(start)
    try:
        with limit_threads(1), collect_warnings() as texts:
            result = getattr(model, method)(chunk, **options)
    except RowError as error:
        raise (error.with_offset(int(start)) if numbered else error) from None
    where = (
        f"Rows from {int(start)} on, counted from there"
        if numbered
        else "Rows of a chunk, counted from its first"
    )
    # distributed.warn forwards warnings to the clients of a worker.
    issue = (sys.modules.get("distributed") or warnings).warn
    issued = vars(model).setdefault("_issued_warnings", set())
    issue_collected([f"{text} ({where}.)" for text in texts], issued, issue)
    return result
