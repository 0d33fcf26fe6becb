"""Command line: time of help and completion against an import of scikit-learn.

Also svmlight lines against scikit-learn's writer.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.datasets import dump_svmlight_file

from benchmarks.measure import Row, against
from mercer.data.svmlight import svmlight_writer

ROWS, COLUMNS = 20_000, 64


def rows(rounds: int) -> Iterator[Row]:
    """Time new processes, Python's start included, and the writer of half-zero float64 rows."""
    start = "from mercer.cli import main; main(prog_name='mercer')"
    for words in (["--help"], ["fit", "--help"]):
        ours = _process([sys.executable, "-c", start, *words])
        yield against(f"mercer {' '.join(words)}", ours, "import sklearn", _sklearn(), rounds)
    asked = {
        "_MERCER_COMPLETE": "bash_complete",
        "COMP_WORDS": "mercer fit --map gcws:b",
        "COMP_CWORD": "3",
    }
    ours = _process([sys.executable, "-c", start], **asked)
    yield against("mercer fit --map gcws:b, completed", ours, "import sklearn", _sklearn(), rounds)
    rng = np.random.default_rng(0)
    X = rng.random((ROWS, COLUMNS)) * (rng.random((ROWS, COLUMNS)) < 0.5)
    y = rng.integers(10, size=ROWS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.svm"

        def write() -> None:
            with svmlight_writer(path) as lines:
                lines.write(X, y)

        what = f"svmlight lines of {ROWS} x {COLUMNS}"
        yield against(
            what, write, "dump_svmlight_file", lambda: dump_svmlight_file(X, y, str(path)), rounds
        )


def _process(words: list[str], **more: str):
    return lambda: subprocess.run(
        words, env={**os.environ, **more}, stdout=subprocess.DEVNULL, check=True
    )


def _sklearn():
    return _process([sys.executable, "-c", "import sklearn.linear_model"])
