"""What a worker of a cluster does: one pure task for each shard, and what all of them share."""

from __future__ import annotations

import threading
from typing import Any

from mercer import __version__, ops
from mercer.data.batches import Rows
from mercer.parallel.threads import at_most, one_blas_thread
from mercer.parallel.warnings import hearing
from mercer.stats.base import Statistic, empty_like


class Job:
    """What all tasks of a fold share. A worker has it once: it checks it, and draws its map, when
    it needs it first.
    """

    def __init__(self, rows: Rows, like: Statistic, *, whole: bool) -> None:
        self.rows = rows.with_rows(rows.stream.held(0, 0), 0) if whole else rows.packed()
        self.like = like
        self.made = {"mercer": __version__, "isa": ops.cpu.isa()}
        self.files = rows.stream.files()
        self.drawn = None if whole else rows.mark()
        self._start()

    def _start(self) -> None:
        self._ready: Rows | None = None
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value for name, value in vars(self).items() if name not in ("_ready", "_lock")
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._start()

    def itself(self) -> Job:
        """The task that has this job, for the tasks that share it."""
        return self

    def ready(self) -> Rows:
        """The rows with their maps drawn, once it is known that this worker sees the same files and
        rounds in the same way.
        """
        with self._lock:
            if self._ready is None:
                self._require_same()
                rows = self.rows.unpacked()
                rows.stream.record_files()
                if self.drawn is not None and rows.mark() != self.drawn:
                    raise DrawnOtherwise
                self._ready = rows
            return self._ready

    def _require_same(self) -> None:
        here = {"mercer": __version__, "isa": ops.cpu.isa()}
        if here["mercer"] != self.made["mercer"]:
            raise ValueError(
                f"{_worker()} has mercer {here['mercer']}, and {self.made['mercer']} is needed: "
                "install that."
            )
        if here != self.made:
            raise ValueError(
                f"{_worker()} uses the instruction set {here['isa']}, and the driver "
                f"{self.made['isa']}, which rounds differently: "
                "set MERCER_ISA to one that all have, there and here."
            )
        try:
            files = self.rows.stream.files()
        except OSError as error:
            raise ValueError(
                f"{_worker()} cannot read {error.filename}: {error.strerror}. Rows in files are "
                "read by the workers: "
                "put the files where all of them see the same path."
            ) from None
        for theirs, ours in zip(files, self.files, strict=True):
            if theirs != ours:
                what = "size" if theirs["bytes"] != ours["bytes"] else "time of modification"
                raise ValueError(
                    f"{_worker()} sees another {ours['name']} than the driver: its {what} "
                    "differs. Copy files with their times (cp -p), "
                    "and do not write to them while they are read."
                )


class DrawnOtherwise(Exception):
    """A worker's map has other last digits: its processor is another one. It is sent what was
    drawn.
    """


def summed(job: Job, start: int, stop: int, held: dict[str, Any]) -> tuple[Any, int, list[str]]:
    """The sum of rows start to stop, how many they are, and what was warned of: the task of a
    worker, which has a thread for each task.
    """
    shard, taken = empty_like(job.like), 0
    with at_most(1), one_blas_thread(), hearing() as heard:
        rows = job.ready().with_rows(held, start)
        for piece in rows.pieces(start, stop):
            shard.add(piece.block, y=piece.y, weight=piece.weight, start=piece.start)
            taken = piece.start + piece.block.shape[0] - start
        rows.stream.require_same_files()
    if taken != stop - start:
        raise ValueError(
            f"{job.rows.stream.name} has {taken} of the rows {start} to {stop - 1}: it has changed."
        )
    return shard, taken, heard


def _worker() -> str:
    from distributed import get_worker

    return f"The worker at {get_worker().address}"
