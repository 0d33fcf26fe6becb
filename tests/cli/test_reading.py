"""What commands say about how a file is read; tables from standard input and to standard output."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from tests.helpers.digits_data import SMALL, frame
from tests.helpers.shell import fails, run

from mercer import load
from mercer.cli import main

FIT = f"--target digit {SMALL} -o m.mercer --force"


def piped(content: bytes, *arguments: str):
    return CliRunner().invoke(main, [*arguments], input=content)


def test_commands_say_how_a_file_is_read(folder):
    frame().to_csv("d.csv", sep=";", decimal=",", index=False)
    said = "d.csv: Separator ';', decimal comma."
    assert said not in run(f"fit data.csv {FIT}")
    assert run(f"fit d.csv {FIT}").startswith(said)
    assert run("plan d.csv --target digit --map fourier:n_components=32").startswith(said)
    assert run("predict m.mercer d.csv -o p.csv").startswith(said)
    assert said in run(f"transform d.csv --target digit {SMALL} -o z.npy")
    events = [json.loads(line) for line in run(f"fit d.csv {FIT} --json").splitlines()]
    (event,) = [event for event in events if event["event"] == "reading"]
    assert event["notes"] == ["Separator ';', decimal comma."]


FORMS = {
    "d.csv.gz": lambda path: frame().to_csv(path, index=False),
    "d.tsv.bz2": lambda path: frame().to_csv(path, index=False, sep="\t"),
    "d.feather": lambda path: frame().to_feather(path),
    "d.jsonl": lambda path: frame().to_json(path, orient="records", lines=True),
    "folder": lambda path: (
        Path(path).mkdir(),
        frame()[:900].to_csv(f"{path}/a.csv", index=False),
        frame()[900:].to_csv(f"{path}/b.csv", index=False),
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_every_format_gives_the_same_model_and_predictions(name, model):
    FORMS[name](name)
    run(f"fit {name} {FIT}")
    other = load("m.mercer")
    assert other.feature_names_in_.tolist() == model.feature_names_in_.tolist()
    np.testing.assert_array_equal(other.feature_coef_, model.feature_coef_)
    run(f"predict model.mercer {name} -o a.csv")
    run("predict model.mercer data.parquet -o b.csv")
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()


def test_standard_input_and_output(model):
    for name in ("data.csv", "data.parquet"):
        content = Path(name).read_bytes()
        outcome = piped(content, "predict", "model.mercer", "-", "-o", "-")
        assert outcome.exit_code == 0, outcome.output
        found = pd.read_csv(io.StringIO(outcome.stdout))
        np.testing.assert_array_equal(
            found["prediction"], model.predict(frame().drop(columns="digit"))
        )
    outcome = piped(content, "fit", "-", *FIT.split())
    assert outcome.exit_code == 0, outcome.output
    np.testing.assert_array_equal(load("m.mercer").feature_coef_, model.feature_coef_)
    outcome = piped(content, "fit", "-", "-o", "x.mercer")
    assert "Name the column to be predicted" in outcome.stderr and "'pixel_0_0'" in outcome.stderr
    assert "-o - or --json" in fails("predict model.mercer data.csv -o - --json", 2)


def test_a_column_without_a_name_is_said_to_be_an_index(folder):
    frame().to_csv("d.csv")
    assert "Ignoring 'Unnamed: 0', the index of the pandas frame" in run(f"fit d.csv {FIT}")
    assert "Unnamed: 0" not in load("m.mercer").feature_names_in_
