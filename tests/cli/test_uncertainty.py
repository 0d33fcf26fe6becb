"""mercer fit --uncertainty, and mercer predict --std, --interval and --leverage."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests.helpers.shell import fails, run

import mercer

FIT = "fit train.csv --target y --map fourier:n_components=64 -o m.mercer"


@pytest.fixture
def test_rows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 2))
    kind = rng.choice(["a", "b"], 900)
    y = np.sin(2 * X[:, 0]) + (kind == "a") + 0.2 * rng.normal(size=900)
    table = pd.DataFrame({"u": X[:, 0], "v": X[:, 1], "kind": kind, "y": y})
    table.loc[::40, "v"] = np.nan
    table[:600].to_csv("train.csv", index=False)
    table[600:].to_csv("test.csv", index=False)
    return pd.read_csv("test.csv")


@pytest.mark.parametrize(
    ("option", "columns"),
    [
        ("--std", ["prediction", "std"]),
        ("--interval 0.8", ["prediction", "lower", "upper"]),
        ("--leverage", ["prediction", "leverage"]),
    ],
)
def test_measures_are_columns_beside_the_predictions(test_rows, option, columns):
    run(f"{FIT} --uncertainty true")
    run(f"predict m.mercer test.csv {option} -o p.csv")
    found = pd.read_csv("p.csv")
    model = mercer.load("m.mercer")
    mean, std = model.predict(test_rows, return_std=True)
    assert list(found.columns) == columns
    np.testing.assert_allclose(found["prediction"], mean)
    if "std" in found:
        np.testing.assert_allclose(found["std"], std)
    if "leverage" in found:
        expected = std**2 / model.noise_variance_ - 1
        np.testing.assert_allclose(found["leverage"], expected, atol=1e-9)
    if "lower" in found:
        inside = (test_rows["y"] >= found["lower"]) & (test_rows["y"] <= found["upper"])
        assert inside.mean() == pytest.approx(0.8, abs=0.07)


def test_a_model_without_them_says_how_to_get_them(test_rows):
    run(FIT)
    assert "mercer fit --uncertainty true" in fails("predict m.mercer test.csv --std -o p.csv")
