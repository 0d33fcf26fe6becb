"""Threads: one pool, never nested, safe from several threads, in joblib and after fork.

Each test fails by a time limit.
"""

from __future__ import annotations

import multiprocessing
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from tests.helpers.waiting import LIMIT
from threadpoolctl import threadpool_info, threadpool_limits

from mercer import KernelClassifier, KernelRegressor, RandomFourier
from mercer.parallel import threads as pool
from mercer.parallel.tile_size import Cost, is_worth_threads, tile_rows

HEAVY = Cost(flops=1e9, bytes=2**25 / 16)  # tiles of 16 rows, worth threads


def blas_threads() -> list[int]:
    return [info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"]


def within_limit(work):
    """Call work() on another thread, so that a deadlock fails the test and does not block it."""
    done = []
    thread = threading.Thread(target=lambda: done.append(work()), daemon=True)
    thread.start()
    thread.join(LIMIT)
    assert done, f"not finished after {LIMIT} s"
    return done[0]


def features(seed: int = 0) -> np.ndarray:
    X = np.random.default_rng(0).normal(size=(3000, 100))
    return RandomFourier(2048, gamma=0.01, random_state=seed).fit(X).transform(X)


def test_tiles_cover_all_rows_once_in_any_number_of_threads():
    for n in (0, 1, 15, 16, 17, 333):
        for jobs in (1, 2, 5, -1, None):
            counts = np.zeros(n, int)

            def work(rows, counts=counts):
                counts[rows] += 1

            pool.for_each_tile(work, n, HEAVY, jobs)
            assert (counts == 1).all()


def threads_used(jobs: int) -> set[str]:
    """Return the names of the threads that took tiles; the first tiles wait for each other."""
    names = set()
    everyone = threading.Barrier(jobs)

    def work(rows):
        if threading.current_thread().name not in names:
            names.add(threading.current_thread().name)
            everyone.wait(LIMIT)

    pool.for_each_tile(work, 320, HEAVY, jobs)
    return names


def test_work_is_spread_over_the_threads_asked_for():
    assert len(threads_used(3)) == 3
    assert threads_used(1) == {threading.current_thread().name}


def test_blas_has_one_thread_inside_and_its_own_number_after():
    seen = []
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        pool.for_each_tile(lambda rows: seen.append(blas_threads()), 64, HEAVY, 2)
        assert blas_threads() == before
    assert all(count == 1 for counts in seen for count in counts)
    assert all(count == 2 for count in before)


def test_blas_is_restored_by_a_thread_that_did_not_set_it():
    before = blas_threads()
    entered, leave, left, over = (threading.Event() for _ in range(4))

    def other():
        with pool.one_blas_thread():
            entered.set()
            leave.wait(LIMIT)
        left.set()
        over.wait(LIMIT)  # alive, as a thread of a pool is

    thread = threading.Thread(target=other)
    with threadpool_limits(2, user_api="blas"):
        inside = blas_threads()
        thread.start()
        assert entered.wait(LIMIT)
        with pool.one_blas_thread():
            leave.set()
            assert left.wait(LIMIT)
            assert all(count == 1 for count in blas_threads())
        assert blas_threads() == inside
    over.set()
    thread.join()
    assert blas_threads() == before


def test_blas_is_limited_though_another_thread_has_set_it():
    held, done = threading.Event(), threading.Event()

    def other():
        with threadpool_limits(2, user_api="blas"):
            held.set()
            done.wait(LIMIT)

    thread = threading.Thread(target=other)
    thread.start()
    assert held.wait(LIMIT)
    with pool.one_blas_thread():
        inside = blas_threads()
    done.set()
    thread.join()
    assert all(count == 1 for count in inside)


def test_blas_is_restored_when_several_threads_leave_in_any_order():
    with threadpool_limits(2, user_api="blas"):
        first, second = pool.one_blas_thread(), pool.one_blas_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert all(count == 1 for count in blas_threads())
        second.__exit__(None, None, None)
        assert all(count == 2 for count in blas_threads())


def test_blas_that_somebody_else_has_set_meanwhile_keeps_that_number():
    held, release, gone = (threading.Event() for _ in range(3))

    def other():
        with threadpool_limits(1, user_api="blas"):
            held.set()
            release.wait(LIMIT)
        gone.set()

    before = blas_threads()
    with pool.one_blas_thread():  # which finds the libraries
        pass
    for library in pool._blas:
        library.set_threads(2)
    thread = threading.Thread(target=other)
    thread.start()
    assert held.wait(LIMIT)
    with pool.one_blas_thread():  # which sees 1, the limit of the other thread
        release.set()
        assert gone.wait(LIMIT)
        assert blas_threads() == [2] * len(before)  # lifted by the other thread
    thread.join()
    after = blas_threads()
    for library, number in zip(pool._blas, before, strict=True):
        library.set_threads(number)
    assert after == [2] * len(before)


def fit_some(index: int) -> None:
    """Fit a model of one of four kinds; every fifth fails in the middle of its rows."""
    X = np.random.default_rng(index).random((1500, 6))
    y = X[:, 0] + X[:, 1]
    if index % 5 == 4:
        X[1400, 3] = np.inf
        with pytest.raises(ValueError, match="infinity"):
            KernelRegressor(RandomFourier(64, gamma=1.0, random_state=0)).fit(X, y)
        return
    phi = RandomFourier(64, gamma=1.0, random_state=index)
    if index % 2:
        KernelClassifier(phi, loss="log_loss", alpha=1.0, tol=1e-3).fit(X, (2 * y).astype(int))
    else:
        KernelRegressor(phi, alpha="kfold" if index % 4 else "gcv").fit(X, y).predict(X)


@pytest.mark.parametrize("way", ["pool", "joblib", "nested"])
def test_fits_in_threads_leave_blas_as_it_was(way):
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()

        def work():
            if way == "joblib":
                joblib.Parallel(8, backend="threading")(
                    joblib.delayed(fit_some)(i) for i in range(16)
                )
                return True
            with ThreadPoolExecutor(8) as executor:
                if way == "nested":
                    with pool.one_blas_thread():
                        list(executor.map(fit_some, range(8)))
                else:
                    list(executor.map(fit_some, range(16)))
            return True

        within_limit(work)
        assert blas_threads() == before == [2] * len(before)


class FakeBlas:
    """A BLAS whose number of threads holds for the process, or for each thread that calls it."""

    def __init__(self, internal_api: str, *, of_threads: bool) -> None:
        self.internal_api = internal_api
        self.threading_layer = "openmp" if of_threads else "pthreads"
        self.numbers = threading.local() if of_threads else SimpleNamespace()

    def get_num_threads(self) -> int:
        return getattr(self.numbers, "number", 4)

    def set_num_threads(self, number: int) -> None:
        self.numbers.number = number

    _real_set_num_threads = set_num_threads


@pytest.fixture
def fake_blas(monkeypatch):
    """Replace the libraries that are found by a list, which a test may extend."""
    loaded: list[FakeBlas] = []
    found = SimpleNamespace(select=lambda user_api: SimpleNamespace(lib_controllers=[*loaded]))
    monkeypatch.setattr("threadpoolctl.ThreadpoolController", lambda: found)
    for name in ("_blas", "_blas_of_threads"):
        monkeypatch.setattr(pool, name, [])
    monkeypatch.setattr(pool, "_modules", 0)
    return loaded


@pytest.mark.parametrize("internal_api", ["mkl", "openblas"])
def test_blas_with_a_limit_for_each_thread_is_restored_in_each(internal_api, fake_blas):
    library = FakeBlas(internal_api, of_threads=True)
    fake_blas.append(library)
    entered, leave, inside = threading.Event(), threading.Event(), []

    def other():
        with pool.one_blas_thread():
            entered.set()
            leave.wait(LIMIT)
            inside.append(library.get_num_threads())
        return library.get_num_threads()

    with ThreadPoolExecutor(1) as executor:
        with pool.one_blas_thread():  # the first user, which leaves before the last one
            task = executor.submit(other)
            assert entered.wait(LIMIT)
            assert library.get_num_threads() == 1
        assert library.get_num_threads() == 4
        leave.set()
        assert task.result(LIMIT) == 4
        assert inside == [1]
    seen = []
    pool.for_each_tile(lambda rows: seen.append(library.get_num_threads()), 640, HEAVY, 3)
    assert set(seen) == {1}  # on the threads of the pool too
    with ThreadPoolExecutor(1) as executor, pytest.raises(ValueError, match="tile"):
        executor.submit(pool.for_each_tile, raise_error, 64, HEAVY, 2).result(LIMIT)
    assert library.get_num_threads() == 4


def raise_error(rows):
    raise ValueError("tile")


def test_a_library_that_a_later_import_has_loaded_is_limited_and_restored(fake_blas, monkeypatch):
    first, later = (FakeBlas("openblas", of_threads=False) for _ in range(2))
    fake_blas.append(first)
    with pool.one_blas_thread():
        assert first.get_num_threads() == 1
        fake_blas.append(later)
        monkeypatch.setitem(sys.modules, "mkl", SimpleNamespace())
        with pool.one_blas_thread():
            pass
    assert (first.get_num_threads(), later.get_num_threads()) == (4, 4)
    with pool.one_blas_thread():
        assert (first.get_num_threads(), later.get_num_threads()) == (1, 1)
    assert (first.get_num_threads(), later.get_num_threads()) == (4, 4)


def test_a_tile_inside_a_tile_runs_where_it_is():
    def outer(rows):
        def inner(_):
            names.add(threading.current_thread().name)

        names = set()
        pool.for_each_tile(inner, 64, HEAVY, 4)
        assert names == {threading.current_thread().name}

    within_limit(lambda: pool.for_each_tile(outer, 160, HEAVY, 3))


def test_an_error_in_a_tile_reaches_the_caller_and_stops_the_others():
    seen, failed = [], threading.Event()

    def work(rows):
        seen.append(rows.start)
        if rows.start == 32:
            failed.set()
            raise ValueError("tile 2")
        if rows.start > 32:
            assert failed.wait(LIMIT)
            # 500 tiles are far more time than the error needs to reach the other threads.
            time.sleep(0.01)

    with pytest.raises(ValueError, match="tile 2"):
        pool.for_each_tile(work, 16 * 500, HEAVY, 3)
    assert len(seen) < 500
    seen.clear()
    with pytest.raises(ValueError, match="tile 2"):
        pool.for_each_tile(work, 16 * 500, HEAVY, 1)
    assert seen == [0, 16, 32]
    pool.for_each_tile(lambda rows: None, 64, HEAVY, 3)


def test_maps_are_safe_from_several_threads():
    expected = features()

    def work():
        with ThreadPoolExecutor(4) as pool:
            return list(pool.map(lambda _: features(), range(8)))

    for Z in within_limit(work):
        np.testing.assert_array_equal(Z, expected)


@pytest.mark.parametrize("backend", ["threading", pytest.param("loky", marks=pytest.mark.full)])
def test_maps_work_inside_joblib(backend):
    expected = [features(seed) for seed in (0, 1)]
    results = within_limit(
        lambda: joblib.Parallel(n_jobs=2, backend=backend)(
            joblib.delayed(features)(seed) for seed in (0, 1)
        )
    )
    for Z, other in zip(results, expected, strict=True):
        np.testing.assert_array_equal(Z, other)


def _child(queue):
    queue.put((features().sum(), len(threads_used(3))))


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_maps_work_after_fork():
    pool.for_each_tile(
        lambda rows: None, 320, HEAVY, 3
    )  # the parent has a pool that the child does not
    expected = features().sum()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_child, args=(queue,))
    child.start()
    child.join(LIMIT)
    hangs = child.is_alive()
    child.kill()
    assert not hangs, "the forked child hangs"
    assert queue.get(timeout=LIMIT) == (expected, 3)


@pytest.mark.parametrize(
    ("mercer", "omp", "threads"),
    [("3", "2", 3), (None, "2", 2), (None, "4,2", 4), (None, None, None), ("", "", None)],
)
def test_threads_come_from_the_environment_then_from_the_machine(monkeypatch, mercer, omp, threads):
    import os

    for name, value in (("MERCER_NUM_THREADS", mercer), ("OMP_NUM_THREADS", omp)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    assert pool.max_threads() == (threads or len(os.sched_getaffinity(0)))
    assert pool.n_threads(None) == pool.n_threads(-1) == pool.max_threads()
    assert pool.n_threads(2) == 2
    assert pool.n_threads(-1000) == 1


def test_a_number_of_threads_that_is_none_is_refused(monkeypatch):
    monkeypatch.setenv("MERCER_NUM_THREADS", "many")
    with pytest.raises(
        ValueError, match="MERCER_NUM_THREADS must be an integer of at least 1, got 'many'"
    ):
        pool.max_threads()
    for bad in (0, 1.5, True, "2"):
        with pytest.raises(ValueError, match="n_jobs must be None"):
            pool.n_threads(bad)


def test_the_planner_makes_tiles_that_fit_and_threads_only_for_work():
    assert tile_rows(Cost(1, 1)) == 512
    assert tile_rows(Cost(1, 1), most_rows=128) == 128
    assert 16 <= tile_rows(Cost(1, 1e5)) <= 400
    assert tile_rows(Cost(1, 1e12)) == 16
    assert not is_worth_threads(Cost(1e3, 1), 100)
    assert is_worth_threads(Cost(1e6, 1), 10000)
    assert is_worth_threads(Cost(1, 1e4), 10000)  # little arithmetic, but memory to fill
    dense = Cost(1e6, 8.0 * (700 + 4000))
    assert dense.sparse(700, 0.05) == Cost(5e4, 8.0 * (35 + 4000))
    assert dense.sparse(700, 1.0) == dense
