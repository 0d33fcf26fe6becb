"""mercer fit reads a Parquet file directly: it is opened once, by few functions of ours."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType

import pyarrow.parquet
import pytest
from tests.helpers.shell import run

import mercer

SOURCE = Path(mercer.__file__).parent
# 370 were counted (530 before): a map of scaled columns, the size by rows, leave-one-out, the score
# with half the features, columns that say the target, files that are compared between passes. Where
# other tests of the process imported Dask or another BLAS they are 380.
MOST_FUNCTIONS = 390
NESTED = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}  # part of the function around them
FIT = "fit data.parquet --target digit -o {}.mercer"


@pytest.mark.parametrize("command", [FIT.format("m"), "plan data.parquet --target digit"])
def test_a_parquet_file_is_opened_once(command, folder, monkeypatch):
    opened = []

    class Counted(pyarrow.parquet.ParquetFile):
        def __init__(self, source, **options):
            opened.append(source)
            super().__init__(source, **options)

    monkeypatch.setattr(pyarrow.parquet, "ParquetFile", Counted)
    run(command)
    assert len(opened) == 1


def functions_of_ours(command: str) -> list[CodeType]:
    """Return the functions of the package that a command calls, in all threads."""
    called: set[CodeType] = set()

    def profile(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            called.add(frame.f_code)

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        run(command)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return [
        code
        for code in called
        if SOURCE in Path(code.co_filename).parents and code.co_name not in NESTED
    ]


def test_fit_passes_through_few_functions(folder):
    run(FIT.format("first"))  # imports, which are not counted, and pools of threads
    functions = functions_of_ours(FIT.format("second"))
    packages = Counter(
        Path(code.co_filename).relative_to(SOURCE).parts[0].removesuffix(".py")
        for code in functions
    )
    print(len(functions), *(f"{name} {count}" for name, count in packages.most_common()))
    assert len(functions) <= MOST_FUNCTIONS, packages
    assert packages["cli"] <= 24
    assert packages["data"] <= 62  # two of them compare the rows of each pass
