"""The rule that decides whether a target is classes or numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.data.stream import Stream

MOST_INTEGER_CLASSES = 100


def is_classification(y: NDArray[Any]) -> bool:
    """Return whether targets are class labels.

    They are if they are strings, booleans, or integers with at most 100 distinct values.
    """
    if y.dtype.kind not in "iuf":
        return True
    return bool(np.all(y == np.floor(y))) and len(np.unique(y)) <= MOST_INTEGER_CLASSES


def first_targets(stream: Stream) -> NDArray[Any]:
    """Return the targets of the first chunk of a stream."""
    return np.asarray(next(iter(stream.chunks())).y)
