"""Collect warnings in worker threads and processes, and issue them in the caller's."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_thread = threading.local()  # collected: the list of collect_warnings, where one is active


def warn(text: str, stacklevel: int = 1) -> None:
    """Issue a warning, or append it to this thread's collector if one is active."""
    collected = getattr(_thread, "collected", None)
    if collected is None:
        warnings.warn(text, stacklevel=stacklevel + 1)
    else:
        collected.append(text)


@contextmanager
def collect_warnings() -> Iterator[list[str]]:
    """Collect the warnings of this thread in a list instead of issuing them."""
    outer = getattr(_thread, "collected", None)
    collected: list[str] = []
    _thread.collected = collected
    try:
        yield collected
    finally:
        _thread.collected = outer


def issue_collected(
    texts: list[str], issued: set[str], warn: Callable[..., None] = warnings.warn
) -> None:
    """Issue collected warnings, one for each estimator name that a text begins with.

    Parameters
    ----------
    texts : list of str
    issued : set of str
        Names that were warned about before; extended.
    warn : callable
    """
    new = []
    with _lock:
        for text in texts:
            name = text.partition(":")[0]
            if name not in issued:
                new.append(text)
            issued.add(name)
    for text in new:
        warn(text, stacklevel=2)
