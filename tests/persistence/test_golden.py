"""Model files of earlier versions load and give the same features and predictions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.persistence.golden.make import given_by

import mercer
from mercer.maps._coded import CodedMap
from mercer.persistence.io import describe

HERE = Path(__file__).parent / "golden"

FILES = sorted(HERE.glob("*.mercer"))
CLOSE = 1e-10  # of the largest: another instruction set rounds differently


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_older_file_gives_the_same_features_and_predictions(path):
    expected = np.load(HERE / "expected.npz")
    model = mercer.load(path)
    found = given_by(model)
    assert found
    exact = isinstance(model, CodedMap)
    for name, values in found.items():
        wanted = expected[f"{path.stem}.{name}"]
        assert values.shape == wanted.shape and values.dtype == wanted.dtype
        if values.dtype.kind != "f" or (exact and name == "codes"):
            np.testing.assert_array_equal(values, wanted)
        else:
            np.testing.assert_allclose(values, wanted, rtol=0, atol=CLOSE * np.abs(wanted).max())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_model_of_an_older_file_can_be_saved_again(path, tmp_path):
    model = mercer.load(path)
    mercer.save(model, tmp_path / "again.mercer")
    was, now = describe(path, verify=True), describe(tmp_path / "again.mercer", verify=True)
    for part in ("class", "columns", "classes", "seed", "rows"):
        assert now[part] == was[part]
    assert _sizes(now) == _sizes(was)  # arrays are named after attributes, which may be renamed
    assert was["parameters"].items() <= now["parameters"].items()


def test_kernels_of_older_files_have_the_parameters_that_were_given():
    old = {
        name: mercer.load(HERE / f"{name}.mercer") for name in ("exp-chi2", "skewed", "nystroem")
    }
    assert old["exp-chi2"].gamma_ == old["exp-chi2"].gamma == 1.0
    assert old["exp-chi2"].kernel_ == mercer.kernels.ExpChi2(1.0)
    assert old["skewed"].kernel_ == mercer.kernels.SkewedChi2(1.0)
    assert old["nystroem"].kernel_params_ is old["nystroem"].kernel_params is None


def _sizes(description):
    return sorted((one["dtype"], one["shape"]) for one in description["arrays"].values())


def test_there_is_a_file_of_every_kind():
    names = {path.stem for path in FILES}
    assert names >= {
        "composed",
        "stacked",
        "regressor",
        "classifier",
        "fourier",
        "gcws",
        "anchors",
        "nystroem",
        "pca",
    }

    assert sum(path.stat().st_size for path in HERE.iterdir() if path.is_file()) < 300_000
