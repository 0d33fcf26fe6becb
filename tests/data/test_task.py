"""One rule says whether a target is classes or numbers, for the command line and for select."""

import numpy as np
import pytest

from mercer import open_stream
from mercer.cli._task import infer_task
from mercer.data.task import MOST_INTEGER_CLASSES, is_classification
from mercer.model_selection.sample import draw

ROWS = 2 * MOST_INTEGER_CLASSES + 2
TARGETS = {
    "words": (np.array(["a", "b"] * (ROWS // 2)), True),
    "objects": (np.array(["a", "b"] * (ROWS // 2), dtype=object), True),
    "booleans": (np.arange(ROWS) % 2 == 0, True),
    "as many integers as are few": (np.arange(ROWS) % MOST_INTEGER_CLASSES, True),
    "one more": (np.arange(ROWS) % (MOST_INTEGER_CLASSES + 1), False),
    "unsigned": ((np.arange(ROWS) % 3).astype(np.uint8), True),
    "whole numbers as floats": ((np.arange(ROWS) % 3).astype(float), True),
    "negative ones": ((np.arange(ROWS) % 3 - 1).astype(np.float32), True),
    "halves": (np.arange(ROWS) % 3 / 2, False),
    "one half among whole numbers": (
        np.where(np.arange(ROWS) == 7, 0.5, np.arange(ROWS) % 3),
        False,
    ),
}


@pytest.mark.parametrize("kind", TARGETS)
def test_few_integers_words_and_booleans_is_classification(kind):
    y, classes = TARGETS[kind]
    X = np.random.default_rng(0).random((ROWS, 2))
    assert is_classification(y) is classes
    assert infer_task(open_stream(X, target=y), None).name == ("classify" if classes else "regress")
    assert draw(X, y, numeric=None, limit=2**20, seed=0).numeric is not classes
