"""Warnings of a task, brought to where somebody reads them."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Heard = tuple[type[Warning], str]

_lock = threading.Lock()
_hearers = 0
_catching: Any = None
_caught: list[Any] = []


@contextmanager
def hearing() -> Iterator[list[Heard]]:
    """What this process warns of while somebody is inside; the list is filled on leaving. Python catches for the whole process, hence the
    count, and hence a task may bring home what another one beside it has warned of.
    """
    global _hearers, _catching, _caught
    heard: list[Heard] = []
    with _lock:
        if _hearers == 0:
            _catching = warnings.catch_warnings(record=True, action="always")
            _caught = _catching.__enter__()
        _hearers += 1
    try:
        yield heard
    finally:
        with _lock:
            heard += [(one.category, str(one.message)) for one in _caught]
            _caught.clear()
            _hearers -= 1
            if _hearers == 0:
                _catching.__exit__(None, None, None)


def say(heard: list[Heard], said: set[str], warn: Callable[..., None] = warnings.warn) -> None:
    """Warn of what was heard elsewhere: once of each kind, by whom it names first."""
    new = []
    with _lock:
        for category, text in heard:
            who = text.partition(":")[0]
            new += [(category, text)] if who not in said else []
            said.add(who)
    for category, text in new:
        warn(text, category, stacklevel=2)
