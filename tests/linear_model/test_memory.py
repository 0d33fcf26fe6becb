"""The peak memory of a fit: as planned, and within max_memory, measured in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from mercer import KernelRegressor, RandomFourier, open_stream
from mercer.errors import ParameterError

_MEASURE = """
import json, sys
from pathlib import Path
from mercer import KernelClassifier, KernelRegressor, RandomFourier, open_stream
from mercer.linear_model.memory import DataShape, MapSize, peak_bytes

def memory(field):
    return 1024 * int(Path("/proc/self/status").read_text().split(field + ":")[1].split()[0])

path, size, options = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
loss = options.get("loss", "squared")
make = KernelRegressor if loss == "squared" else KernelClassifier
model = make(RandomFourier(8, random_state=0), **{**options, "max_memory": None})
model.fit([[0.0], [1.0], [2.0]] * 4, [0, 1, 0] * 4)  # what is imported and compiled is not counted
Path("/proc/self/clear_refs").write_text("5")
before = memory("VmRSS")
stream = open_stream(path, target=-1)
model = make(RandomFourier(size, random_state=0), **options).fit(stream)
growth = memory("VmHWM") - before
shape = DataShape(stream.rows, stream.width, None, str(stream.dtype), stream.kind)
planned = peak_bytes(model.plan_, shape, MapSize.of(model.feature_map_), 1, 1, loss)
print(json.dumps([model.plan_.route, growth, planned]))
"""


def write_rows(path, dtype="float64", rows=12_000, columns=20):
    X = np.random.default_rng(0).normal(size=(rows, columns))
    np.save(path, np.column_stack([X, X[:, 0] + X[:, 1] > 0]).astype(dtype))
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
@pytest.mark.full
@pytest.mark.parametrize(
    ("route", "size", "dtype", "options"),
    [
        ("moments", 512, "float64", {"alpha": 1.0}),
        ("moments", 1024, "float32", {"alpha": 1.0}),
        ("moments", 1024, "float64", {"alpha": 1.0, "max_memory": "110MB"}),
        ("passes", 3072, "float64", {"alpha": 100.0, "max_memory": "250MB"}),
        ("newton-cg", 1024, "float64", {"alpha": 10.0, "max_memory": "120MB", "loss": "logistic"}),
    ],
)
def test_a_fit_takes_the_memory_of_its_plan_and_no_more_than_max_memory(
    route, size, dtype, options, tmp_path
):
    path = write_rows(tmp_path / "d.npy", dtype)
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE, path, str(size), json.dumps({**options, "n_jobs": 1})],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    taken, growth, planned = json.loads(done.stdout.splitlines()[-1])
    assert taken == route
    assert 0.7 * planned < growth < 1.25 * planned
    if "max_memory" in options:
        assert growth < 1.25 * 1e6 * float(options["max_memory"].removesuffix("MB"))


@pytest.mark.parametrize("source", ["file", "array"])
def test_memory_that_cannot_be_enough_is_refused_with_the_least_that_is(source, tmp_path):
    path = write_rows(tmp_path / "d.npy", rows=3000)
    rows = np.load(path)
    model = KernelRegressor(RandomFourier(2048, random_state=0), alpha=1.0, max_memory="1MB")
    data = (open_stream(path, target=-1),) if source == "file" else (rows[:, :-1], rows[:, -1])
    with pytest.raises(ParameterError) as caught:
        model.fit(*data)
    assert str(caught.value).startswith(
        "KernelRegressor: max_memory is 1 MB, and this fit takes at least 1"
    )
    least = str(caught.value).split("at least ")[1].split(":")[0].replace(" ", "")
    more = f"{float(least.removesuffix('MB')) + 1}MB"
    model.set_params(max_memory=more.replace(".0", "")).fit(*data)


def test_fits_of_a_few_megabytes_are_not_refused(tmp_path):
    """What readers and BLAS hold is not known so closely; the route has little memory."""
    rows = np.load(write_rows(tmp_path / "d.npy", rows=300))
    model = KernelRegressor(RandomFourier(16, random_state=0), alpha=1.0, max_memory="1kB")
    assert model.fit(rows[:, :-1], rows[:, -1]).plan_.route == "passes"


def test_rows_that_are_too_wide_are_refused_before_weights_are_drawn(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "d.npz", X=np.zeros((40, 400_000)), y=np.arange(40.0))
    monkeypatch.setattr(RandomFourier, "_fit_stream", lambda self, stream: pytest.fail("drawn"))
    model = KernelRegressor(RandomFourier(256, random_state=0), max_memory="100MB")
    with pytest.raises(
        ParameterError,
        match=r"max_memory is 100 MB, and reading d.npz takes 384 MB: 3 blocks of 40 rows of "
        r"400,000 columns. Give more, or choose columns.",
    ):
        model.fit(open_stream(tmp_path / "d.npz"))
