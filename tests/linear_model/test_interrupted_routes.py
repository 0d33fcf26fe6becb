"""Ctrl-C at some moments of a fit, by every route: no half-fitted model, and BLAS as it was."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from tests.helpers.interrupted_fits import blas_threads, chosen
from tests.helpers.route_cases import ROUTE_CASES, RouteCase
from threadpoolctl import threadpool_limits

import mercer

# Python discards an exception that is raised while a generator is closed.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

PACKAGE = str(Path(mercer.__file__).parent)
MOMENTS = 10  # of the places that a fit reaches, evenly spaced
X = np.random.default_rng(0).random((30, 40))
FLAG = "_classes_declared"  # of a classifier, False wherever partial_fit was not called


def rows_of(case: RouteCase):
    rows = X if case.route == "gram" else X[:, :3]
    target = rows[:, 0] + rows[:, 1]
    return rows, (target > np.median(target)).astype(int) if case.labels else target


class Interrupts:
    """A profile function that raises KeyboardInterrupt at event number ``at``, from 1.

    Events are those of this thread in the package: where a function begins, and where a call of
    compiled code returns. (Python's own locks stay locked by an exception between two of their
    lines.) firsts are the numbers of the events at which a place was reached for the first time.
    """

    def __init__(self, at: int = 0) -> None:
        self.at, self.count = at, 0
        self.firsts: dict[tuple[str, int, str], int] = {}

    def __call__(self, frame, event, arg) -> None:
        if event not in ("call", "c_return") or not frame.f_code.co_filename.startswith(PACKAGE):
            return
        self.count += 1
        self.firsts.setdefault((frame.f_code.co_filename, frame.f_lineno, event), self.count)
        if self.count == self.at:
            raise KeyboardInterrupt

    def run(self, work) -> bool:
        """Return whether work() is interrupted."""
        sys.setprofile(self)
        try:
            work()
        except KeyboardInterrupt:
            return True
        finally:
            sys.setprofile(None)
        return False


def moments_of(work) -> list[int]:
    counting = Interrupts()
    counting.run(work)
    return chosen(list(counting.firsts.values()), MOMENTS)


def attributes(model) -> dict:
    return {name: value for name, value in vars(model).items() if name != FLAG}


def same_attributes(model, before: dict) -> bool:
    now = attributes(model)
    return now.keys() == before.keys() and all(now[name] is before[name] for name in now)


@pytest.fixture(autouse=True)
def two_blas_threads():
    """A number of threads that differs from that inside of a fit."""
    with threadpool_limits(2, user_api="blas"):
        yield


@pytest.mark.parametrize("name", ROUTE_CASES)
def test_an_interrupted_fit_leaves_no_model(name, monkeypatch):
    case = ROUTE_CASES[name]
    case.prepare(monkeypatch)
    rows, targets = rows_of(case)
    right = case.make(random_state=0).fit(rows, targets)
    assert right.plan_.route == case.route
    threads = blas_threads()
    count = 0
    for at in moments_of(lambda: clone(right).fit(rows, targets)):
        new = clone(right)
        before = attributes(new)
        if not Interrupts(at).run(lambda new=new: new.fit(rows, targets)):
            assert np.array_equal(new.feature_coef_, right.feature_coef_)
            continue
        count += 1
        assert same_attributes(new, before)
        with pytest.raises(NotFittedError):
            new.predict(rows)
        assert np.array_equal(new.fit(rows, targets).feature_coef_, right.feature_coef_)
        assert blas_threads() == threads
    assert count >= MOMENTS // 2


@pytest.mark.parametrize("name", ["moments", "gram", "passes", "newton, logistic"])
def test_an_interrupted_second_fit_leaves_the_first_model_or_none(name, monkeypatch):
    case = ROUTE_CASES[name]
    case.prepare(monkeypatch)
    rows, targets = rows_of(case)
    model = case.make(random_state=0).fit(rows, targets)
    expected = model.predict(rows)
    for at in moments_of(lambda: clone(model).fit(rows[:20], targets[:20])):
        model.fit(rows, targets)
        if Interrupts(at).run(lambda: model.fit(rows[:20], targets[:20])):
            try:
                assert np.array_equal(model.predict(rows), expected)
            except NotFittedError:
                assert same_attributes(model, attributes(clone(model)) | model.get_params(False))


@pytest.mark.parametrize("name", ["moments", "moments, classes", "moments, kfold"])
@pytest.mark.parametrize("first", [True, False], ids=["first call", "second call"])
def test_an_interrupted_partial_fit_leaves_the_rows_before(name, first, monkeypatch):
    case = ROUTE_CASES[name]
    case.prepare(monkeypatch)
    rows, targets = rows_of(case)
    classes = {"classes": [0, 1]} if case.labels else {}

    def start():
        model = case.make(random_state=0)
        return model if first else model.partial_fit(rows[:20], targets[:20], **classes)

    def add(model):
        return model.partial_fit(rows[20:], targets[20:], **classes)

    right = add(start())
    begun = start()
    for at in moments_of(lambda: add(begun)):
        model = start()
        before = attributes(model)
        if Interrupts(at).run(lambda model=model: add(model)):
            assert same_attributes(model, before)
            add(model)
        assert np.array_equal(model.feature_coef_, right.feature_coef_)
        assert model.n_samples_seen_ == right.n_samples_seen_
