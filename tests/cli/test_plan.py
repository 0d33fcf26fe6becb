"""mercer plan."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.helpers.shell import call, fails, run

from mercer import RandomFourier, plan


def test_the_pilot_says_which_size_an_error_needs(folder):
    spec = "fourier:gamma=0.0004"  # of the order of one over the squared distance of digits
    said = run(f"plan data.parquet --target digit --map {spec} --error 0.05")
    assert said.startswith("1,797 rows x 64 columns, float64 -> ")
    assert "for an error of 5%, by the rate that was measured" in said
    told = json.loads(
        call(f"plan data.csv --target digit --map {spec} --error 0.05 --json").stdout.splitlines()[
            -1
        ]
    )
    assert told["event"] == "plan"
    assert told["fits"] is True
    assert 300 < told["size"] < 1500
    assert 0.9 * 0.05 < told["error"] <= 0.05  # that of the size, which was measured
    assert told["route"] == "moments"


def test_without_an_error_it_is_the_plan_of_python(folder):
    said = run("plan data.csv --target digit --map fourier:n_components=64")
    first = str(plan((1797, 64), RandomFourier(64, random_state=0))).splitlines()
    assert said.splitlines()[0] == first[0]
    assert "as given" in said
    assert "error         about" in said


def test_the_other_routes_are_compared(folder):
    said = run("plan data.csv --target digit --map fourier:n_components=64 --max-memory 50kB")
    assert "  routes        least squares by conjugate gradients over blocks" in said
    assert "chosen: least squares from normal equations would hold" in said
    table = said[said.index("  routes ") :].splitlines()
    assert table[1].startswith(" " * 16 + "least squares from normal equations")
    assert table[1].endswith("above the limit of 50 kB")
    line = "plan data.csv --target digit --map fourier:n_components=64 --json"
    told = json.loads(run(line).splitlines()[-1])
    assert told["route_reason"] == "the least work of 2 routes"
    (other,) = told["others"]
    assert other["route"] == "passes"
    assert min(other["seconds"], other["bytes"]) > 0
    assert other["fits"] is True
    assert other["assumed_steps"] > 1


def test_columns_are_scaled_as_in_a_fit(folder):
    line = "plan data.csv --target digit --map fourier:n_components=64 --json"
    scaled = json.loads(run(line).splitlines()[-1])
    plain = json.loads(run(f"{line} --scale false").splitlines()[-1])
    assert (scaled["scaled"], plain["scaled"]) == (True, False)
    assert set(scaled["passes"]) - set(plain["passes"]) == {"column scales"}
    assert scaled["error"] != plain["error"]
    assert "--scale must be True or False, or 'auto', got 'x'" in fails(f"{line} --scale x")


def test_budgets_and_what_falls_short(folder):
    said = run("plan data.csv --target digit --map fourier --error 0.001 --max-seconds 1")
    assert "are more than max_seconds=1" in said
    assert "what fits is about" in said
    assert "n_components = " in said
    sentence = fails("plan data.csv --target digit --max-memory 0")
    assert "--max-memory must be a number of bytes above 0" in sentence
    assert "The least that this fit takes is about" in sentence
    assert "The least that this fit takes is about" in fails(
        "plan data.csv --target digit --max-seconds 0"
    )


def test_classes_and_losses_count(folder):
    ten = json.loads(
        run("plan data.csv --target digit --map hellinger --loss logistic --json").splitlines()[-1]
    )
    assert ten["route"] in ("newton", "newton-cg")
    assert "loss must be one of" in fails(
        "plan data.csv --target digit --map hellinger --loss hinge"
    )


def test_several_maps_have_no_error_that_could_be_planned(folder):
    said = run("plan data.csv --target digit --map 'hellinger + gcws:n_hashes=4' --error 0.1")
    assert "no single parameter that buys accuracy" in said
    sentence = fails(
        "plan data.csv --target digit --map 'hellinger >> gcws:n_hashes=4' --error 0.1"
    )
    assert "--error needs an exact kernel to be measured against" in sentence
    assert "4 * " not in sentence
    assert "1,024 features" in run(
        "plan data.csv --target digit --map 'hellinger >> gcws:n_hashes=4'"
    )


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "plan data.csv --target digit --error 0",
            "error must be a finite number above 0, got 0.0",
        ),
        (
            "plan data.csv --target digit --error nan",
            "error must be a finite number above 0, got nan",
        ),
        ("plan nothing.csv", "There is no file"),
        ("plan data.csv --target digits", "has no column 'digits'"),
        (
            "plan numbers.csv --target b --loss logistic",
            "--loss logistic is for classifiers. Target 'b': 20 distinct numbers",
        ),
        (
            "plan apart.csv --map gcws:n_hashes=4 --error 0.1",
            "which is 0 for every pair of these rows: plan without it",
        ),
        ("plan one.csv --error 0.1", "measured on pairs of different rows, and there is 1 row"),
    ],
)
def test_what_cannot_be_planned_is_one_sentence(line, words, folder):
    (folder / "one.csv").write_text("a,b\n1,2\n")
    (folder / "apart.csv").write_text("a,b\n1,0\n0,1\n")
    (folder / "numbers.csv").write_text("a,b\n" + "\n".join(f"{i},{i / 7}" for i in range(20)))
    assert words in fails(line)


@pytest.mark.full
def test_hard_rows(folder):
    """All rows equal; one class; fewer rows than folds."""
    (folder / "equal.csv").write_text("a,b,y\n" + "1,2,0\n" * 20)
    assert "20 rows x 2 columns" in run("plan equal.csv --target y --error 0.1")
    (folder / "three.csv").write_text("a,b,y\n1,2,0.5\n2,1,0.25\n3,3,0.125\n")
    assert "3 rows x 2 columns" in run("plan three.csv --target y")
    (folder / "apart.csv").write_text("a,b\n1,0\n0,1\n")  # whose exact kernel is 0
    assert "2 rows x 2 columns" in run("plan apart.csv --map gcws:n_hashes=4")
    wide = np.zeros((20, 2000))
    wide[:, ::7] = 1
    np.save(folder / "wide.npy", wide)
    assert "20 rows x 2,000 columns" in run("plan wide.npy --map gcws:n_hashes=4")
