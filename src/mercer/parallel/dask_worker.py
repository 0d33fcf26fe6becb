"""The tasks of a Dask worker: the sum of one shard, and the job that all shards share."""

from __future__ import annotations

import threading
from typing import Any

from mercer import __version__, ops
from mercer.data.batches import Rows
from mercer.parallel.threads import limit_threads, one_blas_thread
from mercer.parallel.warnings import collect_warnings
from mercer.stats.base import Statistic, empty_like


class ShardJob:
    """The rows and the empty statistic that all tasks of one sum share.

    A worker receives it once; on first use it validates its environment and draws the map.

    Parameters
    ----------
    rows : Rows
    template : Statistic
        An empty statistic.
    include_arrays : bool
        Send the arrays of the maps, not only the inputs from which a worker draws them.
    """

    def __init__(self, rows: Rows, template: Statistic, *, include_arrays: bool) -> None:
        empty = rows.stream.values_in_memory(0, 0)
        self.rows = rows.with_rows(empty, 0) if include_arrays else rows.packed()
        self.template = template
        self.environment = _environment()
        self.files = rows.stream.files()
        self.map_digest = None if include_arrays else rows.fingerprint()
        self._reset()

    def _reset(self) -> None:
        self._prepared: Rows | None = None
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value for name, value in vars(self).items() if name not in ("_prepared", "_lock")
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._reset()

    def identity(self) -> ShardJob:
        """Return the job: the Dask task on which the tasks of the shards depend."""
        return self

    def prepare(self) -> Rows:
        """Return the rows with their maps drawn, after validating this worker's environment."""
        with self._lock:
            if self._prepared is None:
                self._require_same_environment()
                self._require_same_files()
                rows = self.rows.unpacked()
                rows.stream.record_files()
                if self.map_digest is not None and rows.fingerprint() != self.map_digest:
                    raise MapMismatchError
                self._prepared = rows
            return self._prepared

    def _require_same_environment(self) -> None:
        environment = _environment()
        for field, name in (("mercer", "mercer"), ("isa", "instruction set")):
            mine, theirs = environment[field], self.environment[field]
            if mine != theirs:
                advice = (
                    f"install mercer {theirs} there"
                    if field == "mercer"
                    else "which rounds differently: set MERCER_ISA to one that all machines support"
                )
                raise ValueError(
                    f"{_worker_name()} has {name} {mine}, and the client {theirs}: {advice}."
                )

    def _require_same_files(self) -> None:
        try:
            files = self.rows.stream.files()
        except OSError as error:
            raise ValueError(
                f"{_worker_name()} cannot read {error.filename}: {error.strerror}. Workers read "
                "the files themselves: put them on a path that all machines share."
            ) from None
        for mine, theirs in zip(files, self.files, strict=True):
            if mine != theirs:
                field = "size" if mine["bytes"] != theirs["bytes"] else "modification time"
                raise ValueError(
                    f"{_worker_name()} has another {theirs['name']} than the client: its {field} "
                    "differs. Copy files with their times (cp -p), and do not write to them while "
                    "they are read."
                )


class MapMismatchError(Exception):
    """A worker's map differs in the last digits, on another processor: its arrays must be sent."""


def sum_shard(
    job: ShardJob, start: int, stop: int, in_memory: dict[str, Any]
) -> tuple[Any, int, list[str]]:
    """Sum rows start to stop on one thread.

    Parameters
    ----------
    job : ShardJob
    start, stop : int
    in_memory : dict
        The rows of the shard that are not in files.

    Returns
    -------
    shard : Statistic
    n_rows : int
    warnings : list of str
    """
    shard, done = empty_like(job.template), 0
    with limit_threads(1), one_blas_thread(), collect_warnings() as warnings:
        rows = job.prepare().with_rows(in_memory, start)
        for batch in rows.batches(start, stop):
            batch.add_to(shard)
            done = batch.start + batch.block.shape[0] - start
        rows.stream.require_same_files()
    if done != stop - start:
        raise ValueError(
            f"{job.rows.stream.name} has {done} of the rows {start} to {stop - 1}: it has changed."
        )
    return shard, done, warnings


def _environment() -> dict[str, str]:
    return {"mercer": __version__, "isa": ops.cpu.isa()}


def _worker_name() -> str:
    from distributed import get_worker

    return f"The worker at {get_worker().address}"
