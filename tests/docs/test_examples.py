"""Every example of the gallery runs without a warning, draws a figure and prints what it claims."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted(EXAMPLES.glob("plot_*.py"))
TOPICS = {  # that the gallery must have
    "checkpoint",
    "column_transformer",
    "compressive",
    "dask",
    "digits",
    "error_against_size",
    "gcws",
    "group_lasso",
    "out_of_core",
    "own_kernel",
    "plan_and_certify",
    "report",
    "text_chi2",
    "uncertainty",
}
CLAIMS = {  # what an example must print, whatever the machine
    "checkpoint": "equal bits: True",
    "dask": "equal bits: True",
    "latency": "equal predictions: True",
    "tabular": "equal predictions: True",
}
OPTIONAL = ("dask", "distributed", "jinja2", "matplotlib", "pandas", "pyarrow")
LIMIT = 600  # seconds: only an example that hangs takes as long

# plt.show() warns where there is a display that the backend does not draw on.
RUN = """
import runpy, sys, warnings
import matplotlib.pyplot as plt
plt.show = lambda: None
warnings.simplefilter("error")
runpy.run_path(sys.argv[1], run_name="__main__")
assert plt.get_fignums(), "no figure"
for number in plt.get_fignums():
    plt.figure(number).savefig(f"{number}.png")
"""


def imported(tree: ast.Module) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found


def needs(tree: ast.Module) -> set[str]:
    """Return the optional packages of an example; those of a report are imported by mercer."""
    modules = imported(tree)
    report = {"jinja2"} if "write_report" in ast.unparse(tree) else set()
    return {name for name in OPTIONAL if name in modules} | report


def test_every_topic_has_an_example():
    shown = {path.stem.removeprefix("plot_") for path in FILES}
    assert not (TOPICS | CLAIMS.keys()) - shown
    assert (EXAMPLES / "GALLERY_HEADER.rst").read_text().splitlines()[1].startswith("===")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_example_has_a_question_as_its_title_and_ends_with_a_figure(path):
    tree = ast.parse(path.read_text())
    title, line, empty, *text = (ast.get_docstring(tree, clean=True) or "").splitlines()
    assert title.endswith("?")
    assert line == "=" * len(title)
    assert empty == "" and text
    assert path.read_text().endswith("\nplt.show()\n")
    assert re.search(r"^# %%$", path.read_text(), flags=re.MULTILINE)


@pytest.mark.full
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_example_runs(path, tmp_path):
    for package in sorted(needs(ast.parse(path.read_text())) | {"matplotlib"}):
        if find_spec(package) is None:
            pytest.skip(f"needs {package}")
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(path)],
        cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "agg"},
        text=True,
        capture_output=True,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stderr
    claim = CLAIMS.get(path.stem.removeprefix("plot_"))
    assert claim is None or claim in done.stdout.splitlines()
    left = {found.name for found in tmp_path.iterdir()}
    assert left and all(re.fullmatch(r"\d+\.png", name) for name in left)
