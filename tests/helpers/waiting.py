"""Wait for events, with a limit that only a deadlock exceeds."""

from __future__ import annotations

import time
from collections.abc import Callable

LIMIT = 600  # seconds


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Return as soon as the condition holds; fail after LIMIT."""
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, f"{what}: not after {LIMIT} s"
        time.sleep(0.01)
