"""Types of the public interface, as a user's type checker sees them."""

from __future__ import annotations

import ast
import os
import re
import runpy
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

import mercer

SCRIPT = Path(__file__).with_name("user_script.py")
# expression -> its type; Any would accept every mistake of a user
TYPES = {
    "KernelClassifier().fit(X, y)": "KernelClassifier",
    "KernelClassifier().partial_fit(X, y)": "KernelClassifier",
    "KernelClassifier().predict(X)": "ndarray",
    "KernelClassifier().predict_proba(X)": "ndarray",
    "KernelClassifier().predict_set(X)": "ndarray",
    "KernelClassifier().compiled()": "Predictor",
    "KernelClassifier().plan_": "Plan",
    "KernelClassifier().feature_map_": "Map",
    "KernelRegressor().predict(X)": "ndarray",
    "KernelRegressor().predict_interval(X)": "ndarray",
    "KernelRegressor().alpha_": "float",
    "RandomFourier().fit(X)": "RandomFourier",
    "RandomFourier().kernel_": "Kernel",
    "Scaled() >> RandomFourier()": "Composed",
    "Scaled() + RandomFourier()": "Stacked",
    "gram(kernels.Gaussian(1.0), X)": "ndarray",
    "kernels.Gaussian(1.0)(X)": "ndarray",
    "theory.variance(0.5, 0.1, 64, 'paired')": "float",
    "open_stream(X)": "Stream",
    "select(X, y)": "Leaderboard",
    "select(X, y).best_": "KernelClassifier | mercer",
    "select(X, y).winner": "Entry",
    "certify(RandomFourier(), X)": "Certificate",
    "plan(X)": "CostEstimate",
}


def check(folder: Path, *scripts: Path) -> str:
    """Run mypy --strict outside of the repository, without its settings."""
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", os.devnull, *scripts]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_the_script_has_every_public_name_and_the_package_is_marked_as_typed():
    tree = ast.parse(SCRIPT.read_text())
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert not set(mercer.__all__) - names
    assert files("mercer").joinpath("py.typed").is_file()


@pytest.mark.full
def test_mypy_strict_has_nothing_to_say_about_the_script(tmp_path):
    assert "Success: no issues found in 1 source file" in check(tmp_path, SCRIPT)


@pytest.mark.full
def test_results_have_their_class_and_misspelt_names_are_errors(tmp_path):
    script = tmp_path / "reveal.py"
    names = ", ".join(name for name in mercer.__all__ if re.search(rf"\b{name}\b", " ".join(TYPES)))
    lines = [
        f"from mercer import {names}",
        "import numpy as np",
        "X, y = np.ones((9, 2)), np.ones(9)",
    ]
    lines += [f"reveal_type({expression})" for expression in TYPES]
    script.write_text("\n".join([*lines, "from mercer import KernelClasifier", ""]))
    said = check(tmp_path, script)
    revealed = re.findall(r'Revealed type is "(.*)"', said)
    for (expression, expected), found in zip(TYPES.items(), revealed, strict=True):
        assert re.search(rf"\b{re.escape(expected)}", found), (expression, found)
    assert 'has no attribute "KernelClasifier"' in said
    assert said.count("error:") == 1


@pytest.mark.full
def test_the_script_runs(tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    runpy.run_path(str(SCRIPT))["main"](tmp_path)
    assert (tmp_path / "report.html").is_file()
