"""Split rows into tiles, and run them on the threads of one pool."""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple, TypeVar

import numpy as np

from mercer.errors import ParameterError, Setting
from mercer.parallel.tile_size import TILE_ROWS, Cost, is_worth_threads, tile_rows

# An upper bound: the pool starts threads when they are needed.
_MAX_THREADS = 256

T = TypeVar("T")


class _Blas(NamedTuple):
    """Functions that return and set the number of threads of one BLAS library.

    The last user of ``one_blas_thread`` need not be on the thread of the first, and threadpoolctl
    since 3.7 ignores calls from any other thread than the first. Hence ``set_threads`` is its
    private function, which has no such rule.
    """

    get_threads: Callable[[], int | None]
    set_threads: Callable[[int | None], Any]


_lock = threading.Lock()
_pool = ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="mercer")
# in_tile: True while the thread works on a tile, and must not wait for others of the pool.
# n_threads: see limit_threads.
_thread = threading.local()
_blas_users = 0
# Threads of each BLAS before it was limited; empty where none is limited.
_blas_before: list[int | None] = []
# The BLAS libraries whose number of threads holds for the process, and those that have one for each
# thread that calls them.
_blas: list[_Blas] = []
_blas_of_threads: list[_Blas] = []
_MODULES = ("numpy", "scipy.linalg", "torch", "mkl", "numexpr", "cupy")  # that load a BLAS
_modules = 0  # of these, imported when the libraries were looked for


def max_threads() -> int:
    """Return the number of threads that this process may use.

    That is MERCER_NUM_THREADS, else OMP_NUM_THREADS, else the number of CPUs it may run on.
    """
    for name in ("MERCER_NUM_THREADS", "OMP_NUM_THREADS"):
        text = os.environ.get(name, "").split(",")[0].strip()
        if text:
            if not text.isdigit() or int(text) < 1:
                raise ValueError(
                    f"{name} must be an integer of at least 1, got {os.environ[name]!r}."
                )
            return int(text)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def n_threads(n_jobs: int | None, estimator_name: str = "") -> int:
    """Return the number of threads for ``n_jobs`` of an estimator.

    None is the number of ``limit_threads``, or all that this process may use; -1 is all, -2 all
    but one.
    """
    if n_jobs is None:
        return getattr(_thread, "n_threads", None) or max_threads()
    if not isinstance(n_jobs, int | np.integer) or isinstance(n_jobs, bool) or n_jobs == 0:
        needed = " must be None, an integer of at least 1, or negative (-1 for all)"
        raise ParameterError(estimator_name, Setting("n_jobs"), f"{needed}, got {n_jobs!r}.")
    return int(n_jobs) if n_jobs > 0 else max(1, max_threads() + 1 + int(n_jobs))


@contextmanager
def limit_threads(n_jobs: int | None) -> Iterator[None]:
    """Set the number of threads for calls of this thread with n_jobs=None."""
    outer = getattr(_thread, "n_threads", None)
    _thread.n_threads = n_threads(n_jobs)
    try:
        yield
    finally:
        _thread.n_threads = outer


def row_slices(n: int, rows: int) -> Iterator[slice]:
    """Yield consecutive slices of ``rows`` rows (the last may be shorter) that cover n rows."""
    for start in range(0, n, rows):
        yield slice(start, min(start + rows, n))


def for_each_tile(
    work: Callable[[slice], Any],
    n: int,
    cost: Cost,
    n_jobs: int | None,
    most_rows: int = TILE_ROWS,
) -> None:
    """Call work(rows) for every tile of n rows, on several threads where that is faster.

    BLAS runs on one thread inside.
    """
    for_each(work, list(row_slices(n, tile_rows(cost, most_rows))), cost, n, n_jobs)


def for_each(
    work: Callable[[T], Any], items: Sequence[T], cost: Cost, rows: int, n_jobs: int | None = None
) -> None:
    """Call work(item) for every item, in any order, on several threads where that is faster.

    The calling thread and threads of the pool take items from one queue. Where the pool is busy,
    the calling thread processes more of them. BLAS runs on one thread inside.
    """
    queue = deque(items)

    def run() -> None:
        _thread.in_tile = True
        try:
            with _one_thread_here() if _blas_of_threads else nullcontext():
                while queue:
                    try:
                        item = queue.popleft()
                    except IndexError:  # another thread took the last one
                        return
                    work(item)
        except BaseException:
            queue.clear()  # the other threads stop after their current item
            raise
        finally:
            _thread.in_tile = False

    outer = getattr(_thread, "in_tile", False)
    available = 1 if outer else n_threads(n_jobs)
    workers = min(available, len(items)) if is_worth_threads(cost, rows) else 1
    with one_blas_thread():
        helpers = [_pool.submit(run) for _ in range(workers - 1)]
        try:
            run()
        finally:
            _thread.in_tile = outer
            started = [helper for helper in helpers if not helper.cancel()]
            if started:
                wait(started)
        for helper in started:
            helper.result()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread until the last user of this context has left it.

    The limit of most libraries holds for the whole process, hence the count of users. A signal
    handler may raise at any call. The count is right whenever it does, and the threads that BLAS
    had are stored before it is limited: where a signal prevents the limit from being lifted, the
    next user lifts it.
    """
    global _blas_users, _blas_before, _modules
    inside = False
    try:
        with _lock:
            if _blas_users == 0:
                _restore_blas()
                modules = sum(name in sys.modules for name in _MODULES)
                if _modules != modules:
                    _find_blas()
                    _modules = modules
                _blas_before = [library.get_threads() for library in _blas]
                for library in _blas:
                    library.set_threads(1)
            _blas_users += 1
            inside = True
        with _one_thread_here() if _blas_of_threads else nullcontext():
            yield
    finally:
        with _lock:
            if inside:
                _blas_users -= 1
            if _blas_users == 0:
                _restore_blas()


@contextmanager
def _one_thread_here() -> Iterator[None]:
    """Limit the libraries that have a number of threads for each caller, in this thread."""
    limited: list[tuple[_Blas, int | None]] = []
    try:
        for library in _blas_of_threads:
            limited.append((library, library.get_threads()))
            library.set_threads(1)
        yield
    finally:
        for library, before in limited:
            library.set_threads(before)


def _find_blas() -> None:
    """Look for the BLAS libraries that the imported modules have loaded."""
    global _blas, _blas_of_threads
    from threadpoolctl import ThreadpoolController

    of_process: list[_Blas] = []
    of_threads: list[_Blas] = []
    # BLAS alone: querying OpenMP too takes longer.
    for library in ThreadpoolController().select(user_api="blas").lib_controllers:
        set_threads = getattr(library, "_real_set_num_threads", library.set_num_threads)
        found = of_threads if _is_limited_by_thread(library) else of_process
        found.append(_Blas(library.get_num_threads, set_threads))
    _blas, _blas_of_threads = of_process, of_threads


def _is_limited_by_thread(library: Any) -> bool:
    """Return whether a limit holds only for the thread that sets it.

    That is MKL, and OpenBLAS with OpenMP since threadpoolctl 3.7.
    """
    if library.internal_api == "openblas":
        return library.threading_layer == "openmp" and hasattr(library, "_real_set_num_threads")
    return bool(library.internal_api == "mkl")


def _restore_blas() -> None:
    """Restore the threads that BLAS had before it was limited.

    A library that has more than one thread now was set by somebody else, whose number stays.
    """
    global _blas_before
    for library, before in zip(_blas, _blas_before, strict=False):
        if before is not None and library.get_threads() == 1:
            library.set_threads(before)
    _blas_before = []


def _reset_after_fork() -> None:
    """Reset the pool, the lock and the count of BLAS users: a fork has no threads but its own."""
    global _lock, _pool, _blas_users
    _lock = threading.Lock()
    _pool = ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="mercer")
    _thread.__dict__.clear()
    _blas_users = 0
    _restore_blas()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
