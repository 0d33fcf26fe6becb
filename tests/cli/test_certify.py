"""mercer certify: the certificate of a saved map."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.helpers.shell import call

from mercer import GCWS, KernelClassifier, RandomFourier, certify, load, save


@pytest.fixture
def files(folder, tmp_path):
    """A model and a map of the digits, and their rows."""
    import pandas as pd

    frame = pd.read_parquet(folder / "data.parquet")
    X, y = frame.drop(columns="digit"), frame["digit"]
    model = KernelClassifier(RandomFourier(64, random_state=0), alpha=1.0).fit(X[:900], y[:900])
    save(model, tmp_path / "model.mercer")
    save(model.feature_map_, tmp_path / "map.mercer")
    frame[900:].to_csv(tmp_path / "rows.csv", index=False)
    return tmp_path


@pytest.mark.parametrize("name", ["model", "map"])
def test_a_certificate_is_that_of_python(name, files):
    import pandas as pd

    done = call(f"certify {files}/{name}.mercer {files}/rows.csv --error 0.05")
    rows = pd.read_csv(files / "rows.csv").drop(columns="digit")
    here = certify(load(files / f"{name}.mercer"), rows, error=0.05)
    assert done.exit_code == 0
    assert done.stdout.splitlines()[0] == str(here).splitlines()[0]
    assert "an error of 5% needs n_components = " in done.stdout
    told = json.loads(
        call(f"certify {files}/{name}.mercer {files}/rows.csv --json").stdout.splitlines()[-1]
    )
    assert told["event"] == "certificate"
    assert told["relative"] == pytest.approx(
        here.relative, rel=0.05
    )  # of a sample in another order


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("--error 0", "Error: --error must be a finite number above 0, got 0.0."),
        ("--confidence 2", "confidence"),
        ("--pairs 1", "pairs must be an integer of at least 2, got 1"),
    ],
)
def test_what_cannot_be_certified_is_one_sentence(more, words, files):
    done = call(f"certify {files}/model.mercer {files}/rows.csv {more}")
    assert done.exit_code == 1
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_columns_that_are_not_there_are_named(files):
    np.savetxt(files / "other.csv", np.ones((3, 2)), delimiter=",", header="a,b", comments="")
    done = call(f"certify {files}/model.mercer {files}/other.csv")
    assert done.exit_code == 1
    assert "lacks the columns 'pixel_0_0'" in done.stderr


def test_rows_whose_exact_kernel_is_0_have_absolute_errors(tmp_path):
    save(GCWS(16, bits=2, random_state=0).fit(np.eye(8)), tmp_path / "map.mercer")
    np.save(tmp_path / "rows.npy", np.eye(8))
    here = certify(load(tmp_path / "map.mercer"), np.eye(8))
    done = call(f"certify {tmp_path}/map.mercer {tmp_path}/rows.npy --error 0.1")
    assert done.exit_code == 0
    assert (
        "relative error          undefined: the exact kernel is 0 for every pair of these rows"
        in done.stdout
    )
    assert "an error of 10% is relative to the exact kernel, and undefined with it" in done.stdout
    told = json.loads(
        call(f"certify {tmp_path}/map.mercer {tmp_path}/rows.npy --json").stdout.splitlines()[-1]
    )
    assert (told["relative"], told["interval"], told["needed"]) == (None, None, None)
    assert told["mean"] == pytest.approx(here.mean, rel=0.05) and here.mean > 0.05
