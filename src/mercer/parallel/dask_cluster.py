"""The shards of a fold on a cluster of Dask: one pure task for each, merged here in their order.

What goes over the wire: once for each worker a Job (where the rows are, an empty summary, and the
map: its parameters, its seed and what it saw, or what it has drawn where that is less); for each
task two numbers, and rows that are in memory; back, the sum of a shard.
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
from importlib import import_module
from typing import Any

import numpy as np

from mercer.data.batches import Rows
from mercer.errors import RowError
from mercer.parallel.dask_worker import DrawnOtherwise, Job, summed
from mercer.parallel.threads import at_most
from mercer.parallel.tile_size import shards_in_flight
from mercer.parallel.warnings import hearing, say
from mercer.stats.base import Statistic

_ANSWERS_WITHIN = 10.0  # seconds for a scheduler, and for its first worker
_KNOCKS = 2.0  # seconds for a worker that the driver would like to reach
_POLL = 5.0  # seconds between looks at whether the cluster is still there
_PATIENCE = 60.0  # seconds that a cluster may be without workers

_inside = threading.local()  # client: see folding_on


@contextmanager
def folding_on(cluster: Any) -> Iterator[None]:
    """A cluster for all that this thread folds inside; None leaves it as it is."""
    outer = getattr(_inside, "client", None)
    with connected(cluster) as client:
        _inside.client = outer if client is None else client
        try:
            yield
        finally:
            _inside.client = outer


def on_its_cluster(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method whose folds run on the cluster of its object's parameter of that name."""

    @functools.wraps(method)
    def wrapped(self: Any, *args: Any, **named: Any) -> Any:
        with folding_on(self.cluster):
            return method(self, *args, **named)

    return wrapped


@contextmanager
def client_for(client: Any, rows: Rows | None) -> Iterator[Any]:
    """The cluster that sums these rows: the one given, that of folding_on, for Dask arrays the
    current one; None when there is none.
    """
    if client is not None and rows is None:
        raise ValueError(
            "fold: client= needs rows that can be read again: a stream, an array or "
            "features(stream, map)."
        )
    given = _find(rows.stream if rows is not None else None) if client is None else client
    with connected(None if rows is None else given) as found:
        yield found


def in_use(stream: Any) -> bool:
    """Whether a fold over this stream would go to a cluster."""
    return _find(stream) is not None


@contextmanager
def connected(cluster: Any) -> Iterator[Any]:
    """A client of a cluster: given as one, which is left open; as an address or a cluster, from
    which one is made; None for None.
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
        yield _with_workers(cluster)
        return
    client = connect(cluster)
    try:
        yield _with_workers(client)
    finally:
        client.close()


def connect(address: Any) -> Any:
    """A client of the scheduler at an address, "tcp://host:8786", or of a cluster object; refused
    when it does not answer in time.
    """
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
    try:
        return distributed.Client(address, timeout=_ANSWERS_WITHIN, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"No scheduler answers at {address!r} within {_ANSWERS_WITHIN:g} s: {error}. Is it "
            "running ('dask scheduler' prints its "
            "address), and can this machine reach it?"
        ) from None


def sum_shards(
    client: Any, rows: Rows, like: Statistic, first: int
) -> Generator[tuple[Any, int], None, None]:
    """(sum, number of rows) of each shard from that number on, in order. A few for each thread of
    the cluster are on their way at once.
    """
    count = rows.stream.rows
    if count is None or not rows.stream.seeks:
        raise ValueError(
            f"{rows.stream.name} cannot be read from the middle, so that workers cannot share "
            "it: convert it to Parquet first, or go "
            "without a cluster."
        )
    waiting = deque(
        (start, min(start + rows.step, count))
        for start in range(first * rows.step, count, rows.step)
    )
    flight: deque[tuple[int, int, str | None, Any]] = deque()
    job, said, lone = _submit(client, Job.itself, Job(rows, like, whole=False)), set[str](), 0
    direct, threads, look = _reaches_workers(client), dict[str, int](), 0.0

    def back() -> int:
        """Shards on their way are to be sent again; how many they are."""
        again = len(flight)
        while flight:
            start, stop, _, future = flight.pop()
            future.release()
            waiting.appendleft((start, stop))
        return again

    try:
        while waiting or flight:
            if time.monotonic() >= look:  # workers come and go
                threads = _threads(client, (flight or waiting)[0][0])
                look = time.monotonic() + _POLL
            most = 1 if lone else shards_in_flight(sum(threads.values()))
            while waiting and len(flight) < most:
                start, stop = waiting.popleft()
                where = _freest(threads, [address for _, _, address, _ in flight])
                held = _held(client, rows, start, stop, where)
                flight.append(
                    (
                        start,
                        stop,
                        where,
                        _submit(client, summed, job, start, stop, held, where=where),
                    )
                )
            start, stop, _, future = flight[0]
            try:
                shard, taken, heard = _result(client, start, future, direct=direct)
            except DrawnOtherwise:
                back()
                job = _submit(client, Job.itself, Job(rows, like, whole=True))
                continue
            except _deaths() as error:
                if len(flight) == 1:
                    raise RuntimeError(
                        f"Every worker that summed rows {start} to {stop - 1} of "
                        f"{rows.stream.name} has died, the last one at "
                        f"{error.last_worker.address}: see its log. Too little memory for a task "
                        "is the usual reason."
                    ) from None
                # a worker that dies takes blameless tasks with it: one by one it shows which is to
                # blame
                lone = back()
                continue
            flight.popleft()
            future.release()
            lone = max(0, lone - 1)
            say(heard, said)
            yield shard, taken
            del shard  # it is part of the sum now, and the next one is as large
    finally:
        back()
        job.release()


def map_chunks(
    model: Any, method: str, X: Any, columns: int | None, dtype: Any, *, sparse: bool = False
) -> Any:
    """model.method of each chunk of rows, as a Dask array that is not computed yet; columns is None
    where it has one dimension.

    The model is one task, whose result all others take.
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
    sent = delayed(_unpacked, pure=False)(delayed(model._packed(), pure=False))
    form: dict[str, Any] = (
        {"drop_axis": 1} if columns is None else {"chunks": (X.chunks[0], (columns,))}
    )
    work = functools.partial(_of_chunk, method=method, empty=empty)
    return array.map_blocks(work, X.rechunk({1: -1}), sent, meta=empty, dtype=empty.dtype, **form)


def _find(stream: Any) -> Any:
    """The cluster that a stream is folded on when none is named: that of folding_on; for Dask
    arrays the current client.
    """
    found = getattr(_inside, "client", None)
    distributed = sys.modules.get("distributed")
    if found is None and distributed is not None and getattr(stream, "lazy", False):
        try:
            found = distributed.default_client()
        except ValueError:  # there is none
            return None
    return found


def _with_workers(client: Any) -> Any:
    try:
        client.wait_for_workers(1, timeout=_ANSWERS_WITHIN)
    except TimeoutError:
        address = client.scheduler.address
        raise ValueError(
            f"The cluster at {address} has no worker after {_ANSWERS_WITHIN:g} s: start one "
            f"('dask worker {address}')."
        ) from None
    return client


def _freest(threads: dict[str, int], busy: list[str | None]) -> str | None:
    """The worker with the fewest shards for each of its threads. Dask would give all of them to the
    one that has the Job.
    """
    return min(threads, key=lambda address: busy.count(address) / threads[address], default=None)


def _submit(client: Any, work: Callable[..., Any], *args: Any, where: str | None = None) -> Any:
    from dask import config

    # Rows in memory travel with their task, so that they are not lost with a worker: no graph is
    # too large for that.
    with config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
        return client.submit(
            work, *args, pure=False, workers=where, allow_other_workers=where is not None
        )


def _held(client: Any, rows: Rows, start: int, stop: int, where: str | None) -> dict[str, Any]:
    """What a task needs of rows that are in memory; chunks of Dask arrays as futures, made where
    the task will be.
    """
    held = rows.stream.held(start, stop)
    if rows.stream.lazy:
        held["_chunks"] = client.compute(
            held["_chunks"], workers=where, allow_other_workers=where is not None
        )
    return held


def _reaches_workers(client: Any) -> bool:
    """Whether sums can come from the workers themselves, and need not pass the scheduler."""
    from distributed.comm.core import connect as open_comm

    async def knock(address: str) -> None:
        comm = await open_comm(address, timeout=_KNOCKS, **client.connection_args)
        await comm.close()

    if client.direct_to_workers is not None:
        return bool(client.direct_to_workers)
    try:
        client.sync(knock, next(iter(client.nthreads())))
    except (OSError, StopIteration):
        return False
    return True


def _deaths() -> Any:
    """What Dask raises for a task whose workers have died, again and again."""
    from distributed.scheduler import KilledWorker

    return KilledWorker


def _result(client: Any, start: int, future: Any, *, direct: bool) -> tuple[Any, int, list[str]]:
    from distributed import CancelledError

    seen = time.monotonic()
    while True:
        try:
            error = future.exception(timeout=_POLL)
            if error is not None:
                raise error
            done: tuple[Any, int, list[str]] = client.gather(future, direct=direct)
            return done
        except TimeoutError:
            if future.done():  # it is the task's own
                raise
        except CancelledError:
            raise _lost(client, start) from None
        if _threads(client, start):
            seen = time.monotonic()
        elif time.monotonic() - seen > _PATIENCE:
            raise ConnectionError(
                f"The cluster at {client.scheduler.address} has had no worker for {_PATIENCE:g} "
                f"s. {_KEPT.format(start)}"
            )


def _threads(client: Any, start: int) -> dict[str, int]:
    """Threads of each worker; start is the first row that is not summed yet."""
    try:
        if client.status == "running":
            return dict(client.nthreads())
    except OSError:
        pass
    raise _lost(client, start)


_KEPT = (
    "{} rows were summed: a checkpoint= has them, and a rerun goes on from there, on another "
    "cluster or on none."
)


def _lost(client: Any, start: int) -> ConnectionError:
    return ConnectionError(
        f"The scheduler at {client.scheduler.address} is gone. {_KEPT.format(start)}"
    )


def _unpacked(model: Any) -> Any:
    return copy.copy(model._unpacked())  # which remembers what it has warned of, this time


def _of_chunk(chunk: Any, model: Any, *, method: str, empty: Any, block_info: Any = None) -> Any:
    if chunk.shape[0] == 0:
        return empty
    start = block_info[0]["array-location"][0][0] if block_info else np.nan
    known = not np.isnan(start)
    try:
        with at_most(1), hearing() as heard:
            made = getattr(model, method)(chunk)
    except RowError as error:
        raise (error.at(int(start)) if known else error) from None
    where = (
        f"Rows from {int(start)} on, counted from there"
        if known
        else "Rows of a chunk, counted from its first"
    )
    distributed = sys.modules.get("distributed")  # whose warnings reach the clients of a worker
    said = vars(model).setdefault("_said", set())
    say([f"{text} ({where}.)" for text in heard], said, (distributed or warnings).warn)
    return made
