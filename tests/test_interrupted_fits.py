"""Signals while a map is drawn: the caller gets the exception, or the right map; the next fit is
right either way.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parent / "helpers" / "interrupted_fits.py"
LIMIT = 600  # seconds: a fit that hangs after a signal fails the test

# The table of direction numbers is loaded by numpy.load; a file of the test itself is no part of
# it.
AT_THE_LOAD = """
import os, signal, sys
import numpy as np
signal.signal(signal.SIGINT, signal.default_int_handler)
load = np.load
def signalled(file, *args, **named):
    if "sobol" in str(file):
        np.load = load
        os.kill(os.getpid(), getattr(signal, NUMBER))
    return load(file, *args, **named)
"""
DRAW = """
from mercer import RandomFourier
X = np.random.default_rng(0).normal(size=(10, 3))
def draw():
    return RandomFourier(16, gamma=0.5, design="sobol", random_state=0).fit(X).transform(X)
"""


def run(code: str, *arguments: str, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        text=True,
        capture_output=True,
        timeout=LIMIT,
        **options,
    )


def sweep(what: str, most: int) -> dict[str, dict[str, object]]:
    command = [sys.executable, str(SCRIPT), what, str(most)]
    # two, so that a number that is not restored differs
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run(command, text=True, capture_output=True, timeout=LIMIT, env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def assert_nothing_lost(found: dict[str, dict[str, object]], least: int) -> None:
    assert sum(one["moments"] for one in found.values()) >= least
    assert {name: one["wrong"] for name, one in found.items() if one["wrong"]} == {}


def test_a_signal_at_any_of_some_moments_stops_a_fit_and_spoils_no_other():
    assert_nothing_lost(sweep("maps", 4), 4 * 20)


def test_a_signal_while_the_sobol_table_is_loaded_stops_the_fit_and_spoils_no_other():
    assert_nothing_lost(sweep("table", 12), 12)


@pytest.mark.slow
def test_a_signal_at_any_place_stops_a_fit_and_spoils_no_other():
    assert_nothing_lost(sweep("maps", 0), 5_000)


@pytest.mark.slow
def test_a_signal_at_any_place_of_the_loading_of_the_sobol_table_stops_the_fit():
    assert_nothing_lost(sweep("table", 0), 200)


def test_other_handlers_that_raise_reach_the_caller_too():
    code = f"""
NUMBER = "SIGUSR1"
{AT_THE_LOAD}{DRAW}
class Timeout(Exception): ...
def handle(number, frame): raise Timeout
signal.signal(signal.SIGUSR1, handle)
np.load = signalled
try:
    draw()
except Timeout:
    print("Timeout")
"""
    done = run(code)
    assert done.stdout.strip() == "Timeout", done.stderr


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_command_that_is_stopped_while_the_table_is_loaded_writes_no_model(tmp_path, name, code):
    X = np.random.default_rng(0).normal(size=(50, 3))
    np.save(tmp_path / "data.npy", np.column_stack([X, X[:, 0] > 0]))
    command = (
        f"NUMBER = {name!r}\n{AT_THE_LOAD}\nnp.load = signalled\nfrom mercer.cli import "
        "main\nmain(prog_name='mercer')"
    )
    arguments = (
        "fit",
        "data.npy",
        "--target",
        "-1",
        "--map",
        "fourier:n_components=16,gamma=0.5,design=sobol",
    )
    done = run(command, *arguments, "-o", "model.mercer", cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert "Stopped. Nothing was written" in done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"data.npy"}


def test_a_call_of_scipy_that_was_interrupted_before_does_no_harm():
    code = f"""
NUMBER = "SIGINT"
{AT_THE_LOAD}{DRAW}
from scipy.stats import qmc
np.load = signalled
try:
    qmc.Sobol(3, scramble=False, bits=32)
except KeyboardInterrupt:  # SciPy 1.17 loses it
    pass
after = draw()
np.load = load
import scipy.stats._sobol as table
table._poly_dict.clear()
table._vinit_dict.clear()
print(np.array_equal(after, draw()))
"""
    done = run(code)
    assert done.stdout.strip() == "True", done.stderr


def test_a_table_that_cannot_be_loaded_is_refused_in_words():
    code = f"""
import os, resource
import numpy as np
{DRAW}
held = []
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from mercer.maps.stages.linear import sample_sobol
from mercer.rng import Rng
try:
    while True:
        held.append(os.open(os.devnull, os.O_RDONLY))
except OSError:
    pass
try:
    sample_sobol(Rng(0), 16, 3)
except RuntimeError as error:
    message = str(error)
for one in held:
    os.close(one)
print(message)
print(np.unique(sample_sobol(Rng(0), 16, 3)[:, 0]).size)
"""
    done = run(code)
    refused, distinct = done.stdout.strip().splitlines()
    assert refused.startswith("SciPy could not load the direction numbers of its Sobol sequence")
    assert refused.endswith("fit again without them, or use design='iid'.")
    assert distinct == "16"
