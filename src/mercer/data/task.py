"""The rule that decides whether a target is classes or numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_INTEGER_CLASSES = 100


def is_classification(y: NDArray[Any]) -> bool:
    """Return whether targets are class labels.

    They are if they are strings, booleans, or integers with at most 100 distinct values.
    """
    if y.dtype.kind not in "iuf":
        return True
    return bool(np.all(y == np.floor(y))) and len(np.unique(y)) <= MOST_INTEGER_CLASSES
