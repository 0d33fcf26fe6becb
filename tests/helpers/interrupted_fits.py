"""Interrupt fits by SIGINT at chosen events: a script that prints failures as JSON.

``python interrupted_fits.py maps MOST`` interrupts the fit of each map, ``python
interrupted_fits.py table MOST`` that of a map for which SciPy's Sobol table is not loaded yet, each
time in a new fork. Moments are where Python runs signal handlers: where a function begins, and
where a call of compiled code returns. The first time of each place is taken, in our code and in
libraries; MOST of them are tried, evenly spaced, all of them for 0.
"""

from __future__ import annotations

import _thread
import contextlib
import json
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator

import numpy as np
from sklearn.base import clone
from threadpoolctl import threadpool_info

import mercer
from mercer import RandomFourier
from mercer.maps.base import Map
from mercer.parallel import threads

X = np.abs(np.random.default_rng(0).normal(size=(12, 3))) + 0.1
SOBOL = RandomFourier(16, gamma=0.5, design="sobol", random_state=0)


def blas_threads() -> list[int]:
    return [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]


BLAS_THREADS = blas_threads()


class Profiler:
    """A profile function for all threads that calls act() at event number ``at``, from 1.

    firsts are the numbers of the events at which a place was reached for the first time; with
    `inside`, of the events that have a function of that file on the stack.
    """

    def __init__(
        self, at: int = 0, act: Callable[[], None] | None = None, inside: str | None = None
    ) -> None:
        self.at, self.act, self.inside = at, act, inside
        self.count = 0
        self.firsts: list[int] = []
        self._places: set[tuple[str, int, str]] = set()

    def __call__(self, frame, event, arg) -> None:
        if event in ("call", "c_return"):
            self.count += 1
            place = (frame.f_code.co_filename, frame.f_lineno, event)
            if self.at == 0 and place not in self._places and self._is_inside(frame):
                self._places.add(place)
                self.firsts.append(self.count)
            if self.count == self.at:
                self.act()

    def _is_inside(self, frame) -> bool:
        while self.inside is not None and frame is not None:
            if os.path.basename(frame.f_code.co_filename) == self.inside:
                return True
            frame = frame.f_back
        return self.inside is None

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        start = _thread.start_new_thread

        def start_profiled(work, *args):
            def run(*given):
                sys.setprofile(self)
                work(*given)

            return start(run, *args)

        _thread.start_new_thread = start_profiled
        threading.setprofile(self)
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
            _thread.start_new_thread = start


def arrays(fitted: Map) -> dict[str, bytes]:
    return {
        name: np.ascontiguousarray(array).tobytes()
        for name, array in fitted.tile_transform_.arrays().items()
    }


def chosen(moments: list[int], most: int) -> list[int]:
    if not most or most >= len(moments):
        return moments
    return [moments[round(i * (len(moments) - 1) / (most - 1))] for i in range(most)]


def interrupted(case: Map, at: int, right: dict[str, bytes], *, delivered: bool) -> str | None:
    """Interrupt one fit; return what went wrong, or None.

    delivered: whether the exception must come, also where the map is right. Python itself discards
    one that is raised while a generator is closed.
    """
    profiler = Profiler(at, lambda: os.kill(os.getpid(), signal.SIGINT))
    try:
        with profiler.running():
            fitted = clone(case).fit(X)
    except KeyboardInterrupt:
        pass
    except BaseException as error:
        return f"{type(error).__name__} in place of KeyboardInterrupt: {error}"
    else:
        if arrays(fitted) != right:
            return "the signal was lost, and the map is wrong"
        if delivered and profiler.count >= at:
            return "the signal was lost, and the map is right"
    if arrays(clone(case).fit(X)) != right:
        return "the next fit is wrong"
    return (
        None
        if blas_threads() == BLAS_THREADS
        else f"BLAS has {blas_threads()} threads, and had {BLAS_THREADS}"
    )


def sweep_maps(most: int) -> dict[str, dict[str, object]]:
    found = {}
    for name in mercer.__all__:
        cls = getattr(mercer, name)
        if not (isinstance(cls, type) and issubclass(cls, Map)):
            continue
        case = cls.cases()[0]
        right = arrays(clone(case).fit(X))
        counting = Profiler()
        with counting.running():
            clone(case).fit(X)
        moments = chosen(counting.firsts, most)
        wrong = {at: interrupted(case, at, right, delivered=False) for at in moments}
        found[name] = {
            "moments": len(moments),
            "wrong": {at: what for at, what in wrong.items() if what},
        }
    big = np.random.default_rng(1).normal(size=(20_000, 16))  # enough rows for the pool of threads
    fitted = clone(SOBOL).fit(big[:, :3])
    with threads.limit_threads(1):
        alone = fitted.transform(big[:, :3])
    with threads.limit_threads(2):
        found["threads"] = {
            "moments": 1,
            "wrong": {} if np.array_equal(fitted.transform(big[:, :3]), alone) else {0: "?"},
        }
    return found


def in_fork(work: Callable[[], object]) -> object:
    """Return the JSON result of work() in a child process."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, json.dumps(work()).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    return (
        json.loads(answer) if status == 0 and answer else f"the process ended with status {status}"
    )


def sweep_table(most: int) -> dict[str, dict[str, object]]:
    def right() -> dict[str, str]:
        return {name: array.hex() for name, array in arrays(clone(SOBOL).fit(X)).items()}

    def count() -> list[int]:
        counting = Profiler(inside="_qmc.py")
        with counting.running():
            clone(SOBOL).fit(X)
        return counting.firsts

    clone(SOBOL).set_params(design="iid").fit(X)  # all else is loaded
    expected = {name: bytes.fromhex(text) for name, text in in_fork(right).items()}
    moments = chosen(in_fork(count), most)
    wrong = {
        at: in_fork(lambda at=at: interrupted(SOBOL, at, expected, delivered=True))
        for at in moments
    }
    return {
        "table": {
            "moments": len(moments),
            "wrong": {at: what for at, what in wrong.items() if what},
        }
    }


if __name__ == "__main__":
    # Also where the tests run in a shell's background.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    warnings.simplefilter("ignore")
    sweeps = {"maps": sweep_maps, "table": sweep_table}
    print(json.dumps(sweeps[sys.argv[1]](int(sys.argv[2]))))
