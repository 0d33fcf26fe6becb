"""Warnings about rows, brought to where somebody reads them: a worker's log is no such place."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_inside = threading.local()  # heard: see hearing


def warn(text: str, stacklevel: int = 1) -> None:
    """A warning; told to who is hearing in this thread, where somebody is."""
    heard = getattr(_inside, "heard", None)
    if heard is None:
        warnings.warn(text, stacklevel=stacklevel + 1)
    else:
        heard.append(text)


@contextmanager
def hearing() -> Iterator[list[str]]:
    """What this thread warns of inside."""
    outer = getattr(_inside, "heard", None)
    heard: list[str] = []
    _inside.heard = heard
    try:
        yield heard
    finally:
        _inside.heard = outer


def say(heard: list[str], said: set[str], warn: Callable[..., None] = warnings.warn) -> None:
    """Warn of what was heard elsewhere: once of each kind, by whom it names first."""
    new = []
    with _lock:
        for text in heard:
            who = text.partition(":")[0]
            new += [text] if who not in said else []
            said.add(who)
    for text in new:
        warn(text, stacklevel=2)
