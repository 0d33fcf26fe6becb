"""fit: what it chooses and says, which options reach the model, and what it and other commands
refuse.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.helpers.digits_data import SMALL, frame
from tests.helpers.shell import call, fails, run

import mercer
from mercer import KernelClassifier, KernelRegressor, RandomFourier, open_stream


def test_the_model_is_that_of_python(model):
    expected = KernelClassifier(RandomFourier(64), random_state=0).fit(
        open_stream("data.parquet", target="digit")
    )
    np.testing.assert_array_equal(model.feature_coef_, expected.feature_coef_)
    assert model.alpha_ == expected.alpha_
    assert list(model.feature_names_in_) == list(frame().columns[:64])


def test_fit_says_what_it_chose_what_it_will_do_and_what_is_next(folder):
    output = run(f"fit data.parquet --target digit {SMALL} -o model.mercer --test data.csv")
    first, plan, done, left_out, half, score, following = output.splitlines()
    assert first.startswith(
        "data.parquet: 1,797 rows x 64 columns. Target 'digit': 10 distinct integers in the first "
        "1,797 rows; fitting a classifier (override with --task regress)."
    )
    assert plan.startswith(
        "KernelClassifier: 1,797 rows x 64 columns -> 64 features; least squares from normal "
        "equations"
    )
    assert done.startswith("Fitted on 1,797 rows in ")
    assert "10 classes, 64 features, alpha " in done and "Wrote model.mercer" in done
    assert left_out.startswith("Leave-one-out accuracy 9")
    assert left_out.endswith(" (most frequent class: 10.18%).")
    assert half.startswith("Leave-one-out accuracy of 1,797 rows: ")
    assert " with 64 features, " in half and " with 32 of them; more features are" in half
    assert half.endswith(" Try --map fourier:n_components=128.")
    assert float(score.removeprefix("accuracy on data.csv: ").rstrip("%")) > 80
    assert following == "Next: mercer predict model.mercer data.parquet -o predictions.parquet"


def test_json_lines_are_json_and_tell_of_every_pass(folder):
    lines = run(
        f"fit data.csv --target digit {SMALL} -o model.mercer --test data.csv --json"
    ).splitlines()
    events = [json.loads(line) for line in lines]
    kinds = [one["event"] for one in events if one["event"] != "progress"]
    assert kinds == ["plan", "done", "half_size", "score"]
    passes = [one for one in events if one["event"] == "progress"]
    assert passes[-1]["rows"] == 1797
    assert passes[-1]["rate"] > 0
    assert events[-3]["classes"] == 10 and events[-3]["rows"] == 1797
    half = events[-2]
    assert (half["features"], half["half"], half["rows"], half["more_help"]) == (64, 32, 1797, True)
    assert 0.8 < half["half_score"] < half["score"] < 1


@pytest.mark.parametrize(
    ("values", "kind", "why"),
    [
        (
            ["yes", "no"],
            KernelClassifier,
            "2 distinct strings in the first 300 rows; fitting a classifier.",
        ),
        ([True, False], KernelClassifier, "2 distinct booleans in"),
        ([1, 2, 3], KernelClassifier, "3 distinct integers in"),
        ([1.0, -1.0], KernelClassifier, "2 distinct integers in"),
        (
            [0.5, 1.25, 2.0],
            KernelRegressor,
            "3 distinct numbers in the first 300 rows; fitting a regressor (override with",
        ),
        (list(range(150)), KernelRegressor, "150 distinct integers in"),
    ],
    ids=["words", "booleans", "integers", "whole floats", "floats", "many integers"],
)
def test_the_target_decides_between_classes_and_numbers(tmp_path, monkeypatch, values, kind, why):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    pd.DataFrame({"a": rng.normal(size=300), "y": np.resize(np.array(values), 300)}).to_parquet(
        "t.parquet"
    )
    assert why in run(f"fit t.parquet --target y {SMALL} -o m.mercer")
    assert type(mercer.load("m.mercer")) is kind


def test_the_task_may_be_said(folder):
    run(f"fit data.parquet --target digit {SMALL} --task regress -o m.mercer")
    assert type(mercer.load("m.mercer")) is KernelRegressor
    output = run("predict m.mercer data.parquet -o p.parquet")
    assert output.startswith("Predicted 1,797 rows")
    assert pd.read_parquet("p.parquet")["prediction"].dtype == np.float64


def test_options_of_the_estimator_reach_it(folder):
    run(
        "fit data.parquet --target digit --map fourier:n_components=64 --alpha [0.1,1] "
        "--class-weight balanced "
        "--max-memory 200MB --fit-intercept false --jobs 1 --seed 7 --pca 32 -o m.mercer"
    )
    made = mercer.load("m.mercer")
    assert (made.alpha, made.class_weight, made.max_memory) == ([0.1, 1], "balanced", "200MB")
    assert (made.fit_intercept, made.random_state, made.pca) == (False, 7, 32)


def test_several_maps_columns_weights_and_unlabeled_rows(folder):
    frame().assign(w=1.0).to_parquet("weighted.parquet")
    run(
        'fit weighted.parquet --target digit --weight w --drop pixel_0_0 --map "hellinger + '
        'fourier:n_components=32" '
        "--pca 16 --unlabeled data.csv -o m.mercer"
    )
    made = mercer.load("m.mercer")
    assert made.n_features_in_ == 63
    assert made.feature_map_._n_features_out == 63 + 32
    run("fit data.csv --target digit --columns pixel_1_1,pixel_1_2 -o two.mercer --map hellinger")
    assert list(mercer.load("two.mercer").feature_names_in_) == ["pixel_1_1", "pixel_1_2"]


def test_columns_of_matrices_are_chosen_by_number(folder):
    np.save("m.npy", frame().to_numpy(dtype=float))
    run(f"fit m.npy --target -1 {SMALL} -o a.mercer")
    run(f"fit m.npy --target 64 --columns 0:64 {SMALL} -o b.mercer")
    np.testing.assert_array_equal(
        mercer.load("a.mercer").feature_coef_, mercer.load("b.mercer").feature_coef_
    )
    run("predict a.mercer m.npy --columns 0:64 -o p.npy")
    assert np.mean(np.load("p.npy")[:, 0] == frame()["digit"]) > 0.8
    sentence = fails("predict a.mercer m.npy -o q.npy")
    assert (
        sentence
        == "m.npy has 65 input columns, and the model was fitted on 64. Choose them with --columns."
    )


@pytest.mark.parametrize(
    ("line", "code", "sentence"),
    [
        ("fit data.csv --target digit --map furier -o m", 2, "Did you mean 'fourier'?"),
        ("fit data.csv --target digit --map gcws:bit=3 -o m", 2, "Did you mean 'bits'?"),
        (
            "fit data.csv --target digt -o m",
            1,
            "has no column 'digt' (target). Its columns: 'pixel_0_0'",
        ),
        ("fit data.csv --target digt -o m", 1, "Did you mean 'digit'?"),
        (
            "fit data.csv -o m",
            2,
            "Name the column to be predicted: --target COLUMN. data.csv has the columns",
        ),
        ("fit none.csv --target digit -o m", 1, "There is no file none.csv."),
        (
            "fit data.csv --target digit --drop pixel -o m",
            1,
            "data.csv has no column 'pixel' (--drop)",
        ),
        (
            "fit data.csv --target digit -o data.csv",
            1,
            "data.csv exists: name another file, or replace it with --force.",
        ),
        (
            "fit data.csv --target digit -o no/m.mercer",
            1,
            "There is no folder no to write m.mercer to.",
        ),
        ("fit data.csv --target digit -o .", 1, "is a folder: name a file."),
        (
            "fit data.csv --target digit --task regress --loss squared -o m",
            2,
            "--loss is for classifiers. Target 'digit': 10 distinct integers",
        ),
        (
            "fit data.csv --target digit --max-memory lots -o m",
            1,
            "--max-memory must be a number of bytes above 0",
        ),
        (
            "fit data.csv --target digit --alpha big -o m",
            1,
            "--alpha must be a number of at least 0, a list of such numbers, or one of 'auto'",
        ),
        (
            "fit data.csv --target digit --map fourier:n_components=-3 -o m",
            1,
            "n_components must be an integer",
        ),
        (
            "fit data.csv --target digit --map fourier:gamma=wide -o m",
            1,
            "RandomFourier: gamma must be",
        ),
        (
            "predict m.mercer data.csv -o p.xls",
            1,
            "p.xls has a suffix that cannot be written: use .parquet",
        ),
        (
            "predict m.mercer data.csv --scores --proba -o p.csv",
            2,
            "Use one of --scores, --proba, --std",
        ),
        (
            "transform data.csv -o z.npy",
            2,
            "mercer transform MODEL DATA -o OUT, or mercer transform DATA --map MAP",
        ),
        ("compare --target digit", 2, "--target is for DATA"),
        (
            "compare data.csv --target digit --max-seconds 0",
            1,
            "--max-seconds must be a finite number above 0, got 0.0",
        ),
        ("compare data.csv --target digit --kernels furier", 1, "Did you mean 'fourier'?"),
        ("transform data.csv --map auto -o z.npy", 2, "'auto' is for mercer fit"),
    ],
)
def test_what_is_wrong_is_one_sentence(folder, line, code, sentence):
    assert sentence in fails(line, code)


def test_files_that_are_not_what_their_suffix_says(folder):
    (folder / "data.csv").rename("lie.parquet")
    (folder / "data.parquet").rename("lie.csv")
    (folder / "lie.npy").write_text("1,2,3")
    assert "lie.parquet is damaged, or no Parquet file" in fails(
        "fit lie.parquet --target digit -o m"
    )
    assert "lie.csv" in fails("fit lie.csv --target digit -o m")
    assert "lie.npy is not a .npy array" in fails("fit lie.npy --target 0 -o m")


def test_a_target_with_too_many_classes_is_refused_before_anything_is_fitted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame(
        {"a": np.arange(10_000.0), "name": [f"user{i:05}" for i in range(10_000)]}
    ).to_parquet("t.parquet")
    sentence = fails("fit t.parquet --target name -o m.mercer")
    assert sentence.startswith(
        "The target 'name' has 10,000 distinct values in its first 10,000 rows ('user00000', "
    )
    assert "Every row has a different one: is it an identifier?" in sentence
    assert "--max-classes 10000 or more" in sentence


def test_an_input_of_words_is_encoded_and_one_of_lists_names_the_ways_out(folder):
    frame().assign(name="word").to_csv("words.csv", index=False)
    assert "Columns encoded by Tabular: " in run(
        f"fit words.csv --target digit {SMALL} -o m.mercer"
    )
    lists = frame().assign(name=[[1]] * len(frame()), other=[[2]] * len(frame()))
    lists.to_parquet("lists.parquet")
    said = fails("fit lists.parquet --target digit -o m")
    assert "'name' (list<element: int64>), 'other'" in said
    assert "Leave them out with --columns" in said


def test_progress_is_quiet_when_it_is_piped(folder):
    assert call(f"fit data.csv --target digit {SMALL} -o m.mercer").stderr == ""


def test_weights_of_classes_are_found_as_json_has_them(folder):
    run(
        "fit data.csv --target digit --map fourier:n_components=16 --class-weight '{\"1\": 3}' "
        "--alpha 1 -o a.mercer"
    )
    run(
        "fit data.csv --target digit --map fourier:n_components=16 --class-weight '{1: 3}' "
        "--alpha 1 -o b.mercer"
    )
    assert mercer.load("a.mercer").class_weight == mercer.load("b.mercer").class_weight == {1: 3}


def test_the_next_command_of_a_matrix_runs(folder):
    import numpy as np
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    np.save("left.npy", np.column_stack([y, X]))
    np.save("middle.npy", np.column_stack([X[:, :3], y, X[:, 3:]]))
    for name, target in (("left", 0), ("middle", 3)):
        said = run(
            f"fit {name}.npy --target {target} --map fourier:n_components=16 --alpha 1 -o "
            f"{name}.mercer"
        )
        following = re.search(r"Next: mercer (.*)", said)[1]
        assert ("--columns 1:65" if name == "left" else "--columns 0:3,4:65") in following
        run(following.replace("predictions.parquet", f"{name}.csv"))


def test_files_that_are_read_are_not_written_over(folder):
    run("fit data.csv --target digit --map fourier:n_components=16 --alpha 1 -o model.mercer")
    for line in (
        "fit data.csv --target digit -o data.csv --force",
        "predict model.mercer data.csv -o data.csv --force",
        "transform model.mercer data.csv -o data.csv --force",
    ):
        assert "data.csv is an input or the checkpoint, and the output: name another" in fails(line)
    assert len(Path("data.csv").read_text().splitlines()) == 1798


def test_maps_of_no_use_are_named(folder):
    said = run(
        'fit data.csv --target digit --map "fourier:n_components=16 + hellinger" --penalty group '
        "--alpha 100 -o g.mercer"
    )
    assert " used of 80 features" in said
    assert "Maps with all-zero coefficients: randomfourier." in said


def test_words_of_python_are_those_of_the_command_line(folder):
    assert "give --map 'a + b'" in fails("fit data.csv --target digit --penalty group -o m.mercer")
    assert "--jobs must be" in fails("fit data.csv --target digit --jobs 0 -o m.mercer")


def test_a_device_that_is_not_there_is_one_sentence(folder):
    run("fit data.csv --target digit --map fourier:n_components=8 -o m.mercer")
    for line in (
        "predict m.mercer data.csv --device cuda:99 -o p.csv",
        "transform m.mercer data.csv --device cuda:99 -o f.npy",
        "certify m.mercer data.csv --device cuda:99",
        "fit data.csv --target digit --device cuda:99 -o n.mercer",
    ):
        assert re.search("cuda:99|A GPU needs torch", fails(line))
