"""mercer fit --metric learned and --map "metric >> ...": importances on the screen and in files."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from tests.helpers.shell import fails, run

import mercer


@pytest.fixture
def rows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).normal(size=(300, 7))
    table = pd.DataFrame(X, columns=["age", "dose", "height", "pulse", "room", "weight", "zip"])
    table["outcome"] = np.sin(2 * X[:, 3]) + X[:, 5]
    table.to_csv("rows.csv", index=False)
    return table


def test_importances_are_printed_by_fit_and_inspect_and_stored(rows):
    text = run("fit rows.csv --target outcome --metric learned -o m.mercer")
    line = next(line for line in text.splitlines() if line.startswith("Importances"))
    assert line.startswith("Importances by the learned metric: pulse ")
    assert ", weight " in line
    assert "2 others" in line
    assert "sample for the metric" in text
    assert "pulse" in run("inspect m.mercer").partition("importances")[2].splitlines()[0]
    model = mercer.load("m.mercer")
    found = pd.read_csv("rows.csv").drop(columns="outcome")
    assert model.score(found, rows["outcome"]) > 0.9
    assert np.argmax(model.importances_) == 3


def test_a_map_with_a_metric_is_written_as_text_and_json_has_the_importances(rows):
    out = run(
        'fit rows.csv --target outcome --map "metric:kind=diagonal >> fourier:n_components=64" '
        "-o m.mercer --json"
    )
    done = next(json.loads(line) for line in out.splitlines() if '"done"' in line)
    assert len(done["importances"]) == 7
    assert sum(done["importances"]) == pytest.approx(1.0)
    assert "metric:kind=diagonal >> fourier:n_components=64" in run("inspect m.mercer")


def test_a_metric_that_stays_the_identity_is_said(rows):
    metric = "metric:n_rounds=0 >> fourier:n_components=64"
    text = run(f'fit rows.csv --target outcome --map "{metric}" -o m.mercer')
    assert "No importances: no learned metric had a lower error" in text
    assert "Importances" not in text
    assert "importances" not in run("inspect m.mercer")


def test_a_map_without_a_gradient_is_refused_in_a_sentence(rows):
    message = fails('fit rows.csv --target outcome --map "metric >> gcws" -o m.mercer')
    assert "GCWS has no gradient, from which a metric is learned" in message
