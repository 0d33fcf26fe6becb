"""Layers of a map: frames above a product, and code that a local NumPy call does not enter."""

from __future__ import annotations

import ast
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from tests.helpers.battery import data

import mercer
from mercer import GCWS, Anchors, Hellinger, Nystroem, RandomFourier, ops
from mercer._typing import is_csr
from mercer.maps import every_map
from mercer.maps.block import Coded, Dense, Sparse

SOURCE = str(Path(mercer.__file__).parent)
MOST_FRAMES = 8  # above a product: transform, for each tile, transform tile, chain, stage, op
OP_FRAMES = 2  # of these, the dispatch of an op and its implementation
CASES = [case for cls in every_map() for case in cls.cases()]


def own_frames(frame) -> list[str]:
    """Return the names of this package's functions on a stack, innermost first."""
    names = []
    while frame is not None:
        if frame.f_code.co_filename.startswith(SOURCE):
            names.append(frame.f_code.co_name)
        frame = frame.f_back
    return names


class Spy:
    """Function that records the frames above each call, those of the calling thread included.

    Calls wait until so many threads have called.
    """

    def __init__(self, function, threads):
        self.function = function
        self.stacks: list[list[str]] = []
        self.threads: set[int] = set()
        self.expected, self.arrived = threads, threading.Event()

    def __call__(self, *args, **kwargs):
        names = own_frames(sys._getframe(1))
        if threading.current_thread() is not threading.main_thread():
            caller = own_frames(sys._current_frames()[threading.main_thread().ident])
            names += caller[-2:]  # transform, and the loop over tiles
        self.stacks.append(names)
        self.threads.add(threading.get_ident())
        if len(self.threads) >= self.expected:
            self.arrived.set()
        assert self.arrived.wait(timeout=60)
        return self.function(*args, **kwargs)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", [1, 300])
@pytest.mark.parametrize(("design", "op"), [("iid", "product_cossin"), ("auto", "hadamard_cossin")])
def test_frames_above_a_product_are_few(monkeypatch, design, op, rows, dtype):
    X = np.random.default_rng(0).normal(size=(rows, 64)).astype(dtype)
    fitted = RandomFourier(64, gamma=0.1, design=design, random_state=0, n_jobs=3).fit(X)
    expected = fitted.transform(X)
    spy = Spy(getattr(ops, op), threads=1 if rows == 1 else 2)
    monkeypatch.setattr(ops, op, spy)
    monkeypatch.setattr("mercer.parallel.threads.is_worth_threads", lambda cost, rows: True)
    monkeypatch.setattr("mercer.maps.base.tile_rows", lambda cost, most_rows=0: 16)
    # products by BLAS may round otherwise in tiles of other sizes
    atol = 0 if design == "auto" else 64 * np.finfo(dtype).eps
    np.testing.assert_allclose(fitted.transform(X), expected, rtol=0, atol=atol)
    assert len(spy.stacks) == -(-rows // 16)
    for stack in spy.stacks:
        assert stack[-1] == "transform"
        assert len(stack) <= MOST_FRAMES - OP_FRAMES, stack


def entered_by(work) -> set[tuple[str, str]]:
    """Return (file, function) of all functions of this package that a call enters."""
    entered = set()

    def note(frame, event, arg):
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(SOURCE):
            entered.add((name.removeprefix(f"{SOURCE}/"), frame.f_code.co_name))

    before = sys.getprofile()
    sys.setprofile(note)
    threading.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    return entered


LOCAL = [
    RandomFourier(64, gamma="median", random_state=0),
    GCWS(64, random_state=0),
    Anchors(8),
    Hellinger() >> RandomFourier(64, random_state=0) + RandomFourier(32, random_state=1),
]


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("case", LOCAL, ids=lambda case: type(case).__name__)
def test_a_local_fit_and_transform_enter_no_dask_and_no_device_code(case, form):
    X = form(data(Hellinger(), n=60))
    entered = entered_by(lambda: clone(case).fit(X).transform(X))
    assert ("maps/base.py", "transform") in entered
    # Which device is in use, and whether X is a tensor.
    checks = {"here", "current_device", "is_tensor", "<genexpr>"}
    assert not [
        (file, function)
        for file, function in entered
        if "dask" in file
        or file.startswith("ops/torch")
        or ("devic" in file and function not in checks)
    ]


def test_no_module_of_maps_imports_dask_code_at_its_top():
    for path in sorted((Path(SOURCE) / "maps").rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                assert "dask" not in ast.unparse(node), path


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(repr(case).split()))
def test_tags_build_nothing(case):
    """Tags are read in every call of scikit-learn's validation: no map or kernel is built."""
    fitted = clone(case).fit(data(case))
    entered = entered_by(lambda: (case.__sklearn_tags__(), fitted.__sklearn_tags__()))
    functions = {function for _, function in entered}
    assert not functions & {"build", "required_statistics", "fit"}
    if not isinstance(case, Nystroem):  # its domain is that of the kernel its parameters define
        assert not functions & {"__init__", "__post_init__", "check"}


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(repr(case).split()))
def test_the_kind_of_a_block_is_stated(case, form):
    X = form(data(case))
    fitted = clone(case).fit(X)
    transform = fitted.tile_transform_
    kind = transform.block_kind(is_csr(X))
    assert kind in (Dense, Sparse, Coded)
    assert type(transform(X)) is kind
    assert type(fitted._transform_block(X)) is kind
