"""Commands that work on a device write what they write without it; torch's CPU here, a GPU with
MERCER_TEST_DEVICE=cuda.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.device_data import on_device
from tests.helpers.shell import run

from mercer import GCWS, Anchors, RandomFourier, save
from mercer.maps.base import Map

pytest.importorskip("torch", reason="torch is not installed")

X = np.random.default_rng(0).random((300, 4))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("data.npy", X)


@pytest.mark.parametrize(
    "made", [RandomFourier(8, gamma=1.0, random_state=0), Anchors(5)], ids=["dense", "coded"]
)
@pytest.mark.parametrize("suffix", [".npy", ".parquet"])
def test_transform_writes_the_features_of_the_cpu(made: Map, suffix: str):
    save(made.fit(X), "map.mercer")
    run(f"transform map.mercer data.npy -o cpu{suffix}")
    with on_device():
        run(f"transform map.mercer data.npy -o device{suffix}")
    expected, found = (features(Path(name + suffix)) for name in ("cpu", "device"))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def features(path: Path) -> np.ndarray:
    if path.suffix == ".npy":
        return np.load(path)
    import pyarrow.parquet as pq

    return np.array(pq.read_table(path)["features"].to_pylist())


def test_transform_writes_the_same_svmlight_file():
    save(GCWS(8, random_state=0).fit(X), "map.mercer")
    run("transform map.mercer data.npy -o cpu.svm")
    with on_device():
        run("transform map.mercer data.npy -o device.svm")
    assert Path("device.svm").read_text() == Path("cpu.svm").read_text()


def test_certify_measures_the_same_error():
    save(RandomFourier(64, gamma=1.0, random_state=0).fit(X[:150]), "map.mercer")
    line = "certify map.mercer data.npy --pairs 500 --json"
    expected = json.loads(run(line).splitlines()[-1])
    with on_device():
        found = json.loads(run(line).splitlines()[-1])
    assert found["rms"] == pytest.approx(expected["rms"], rel=1e-9)
