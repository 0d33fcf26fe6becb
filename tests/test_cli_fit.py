"""fit, predict, transform and inspect: what they write, what they choose, and what they refuse."""

from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import mercer
from mercer import KernelClassifier, KernelRegressor, RandomFourier, open_stream
from shell import call, fails, run

SMALL = "--map fourier:n_components=64"


@pytest.fixture
def model(folder):
    run(f"fit data.parquet --target digit {SMALL} -o model.mercer")
    return mercer.load("model.mercer")


def frame() -> pd.DataFrame:
    return pd.read_parquet("data.parquet")


def test_the_model_is_that_of_python(model):
    expected = KernelClassifier(RandomFourier(64), random_state=0).fit(open_stream("data.parquet", target="digit"))
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    assert model.alpha_ == expected.alpha_
    assert list(model.feature_names_in_) == list(frame().columns[:64])


def test_fit_says_what_it_chose_what_it_will_do_and_what_is_next(folder):
    output = run(f"fit data.parquet --target digit {SMALL} -o model.mercer --test data.csv")
    first, plan, done, score, following = output.splitlines()
    assert first.startswith("data.parquet: 1,797 rows x 64 columns. Target 'digit': whole numbers, 10 different values")
    assert plan.startswith("Plan: 1,797 rows x 64 columns -> 64 features; least squares from moments")
    assert done.startswith("Fitted on 1,797 rows in ")
    assert "10 classes, 64 features, alpha " in done and "Written to model.mercer" in done
    assert float(score.removeprefix("accuracy on data.csv: ").rstrip("%")) > 80
    assert following == "Next: mercer predict model.mercer data.parquet -o predictions.parquet"


def test_json_lines_are_json_and_tell_of_every_pass(folder):
    lines = run(f"fit data.csv --target digit {SMALL} -o model.mercer --test data.csv --json").splitlines()
    events = [json.loads(line) for line in lines]
    assert [one["event"] for one in events if one["event"] != "progress"] == ["plan", "done", "score"]
    passes = [one for one in events if one["event"] == "progress"]
    assert passes[-1]["rows"] == 1797
    assert passes[-1]["rate"] > 0
    assert events[-2]["classes"] == 10 and events[-2]["rows"] == 1797


@pytest.mark.parametrize(
    ("values", "kind", "why"),
    [
        (["yes", "no"], KernelClassifier, "words, 2 different values"),
        ([True, False], KernelClassifier, "whole numbers, 2 different values"),
        ([1, 2, 3], KernelClassifier, "whole numbers, 3 different values"),
        ([1.0, -1.0], KernelClassifier, "whole numbers, 2 different values"),
        ([0.5, 1.25, 2.0], KernelRegressor, "numbers, 3 different values"),
        (list(range(150)), KernelRegressor, "numbers, 150 different values"),
    ],
    ids=["words", "booleans", "integers", "whole floats", "floats", "many integers"],
)
def test_the_target_decides_between_classes_and_numbers(tmp_path, monkeypatch, values, kind, why):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    pd.DataFrame({"a": rng.normal(size=300), "y": np.resize(np.array(values), 300)}).to_parquet("t.parquet")
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
        "fit data.parquet --target digit --map fourier:n_components=64 --alpha [0.1,1] --class-weight balanced "
        "--max-memory 200MB --fit-intercept false --jobs 1 --seed 7 --pca 32 -o m.mercer"
    )
    made = mercer.load("m.mercer")
    assert (made.alpha, made.class_weight, made.max_memory) == ([0.1, 1], "balanced", "200MB")
    assert (made.fit_intercept, made.random_state, made.pca) == (False, 7, 32)


def test_several_maps_columns_weights_and_unlabelled_rows(folder):
    frame().assign(w=1.0).to_parquet("weighted.parquet")
    run(
        'fit weighted.parquet --target digit --weight w --drop pixel_0_0 --map "hellinger + fourier:n_components=32" '
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
    np.testing.assert_array_equal(mercer.load("a.mercer").coef_, mercer.load("b.mercer").coef_)
    run("predict a.mercer m.npy --columns 0:64 -o p.npy")
    assert np.mean(np.load("p.npy")[:, 0] == frame()["digit"]) > 0.8
    sentence = fails("predict a.mercer m.npy -o q.npy")
    assert sentence == "m.npy has 65 input columns, and the model was fitted on 64. Choose them with --columns."


def test_predict_finds_columns_by_name_in_any_order_and_leaves_others_alone(model):
    frame()[["digit", *frame().columns[:64][::-1]]].assign(other="word").to_csv("turned.csv", index=False)
    run("predict model.mercer turned.csv -o a.csv")
    run("predict model.mercer data.parquet -o b.csv")
    pd.testing.assert_frame_equal(pd.read_csv("a.csv"), pd.read_csv("b.csv"))
    np.testing.assert_array_equal(pd.read_csv("a.csv")["prediction"], model.predict(frame()[frame().columns[:64]]))


def test_scores_are_the_decision_function(model):
    run("predict model.mercer data.parquet --scores -o s.parquet")
    found = pd.read_parquet("s.parquet")
    assert list(found.columns) == ["prediction", *(f"score_{digit}" for digit in range(10))]
    expected = model.decision_function(frame()[frame().columns[:64]])
    np.testing.assert_array_equal(found.to_numpy()[:, 1:], expected)


def test_two_classes_have_the_score_of_the_second(folder):
    frame().assign(digit=np.where(frame()["digit"] == 8, "eight", "other")).to_parquet("two.parquet")
    run(f"fit two.parquet --target digit {SMALL} -o two.mercer")
    run("predict two.mercer two.parquet --scores -o s.csv")
    found = pd.read_csv("s.csv")
    assert list(found.columns) == ["prediction", "score_other"]
    assert set(found["prediction"]) == {"eight", "other"}
    np.testing.assert_array_equal(found["prediction"] == "other", found["score_other"] > 0)


def test_probabilities_are_those_of_predict_proba(folder):
    run(f"fit data.parquet --target digit {SMALL} --loss logistic --alpha 1 -o model.mercer")
    model, X = mercer.load("model.mercer"), frame().drop(columns="digit")
    run("predict model.mercer data.parquet --proba -o p.parquet")
    found = pd.read_parquet("p.parquet")
    np.testing.assert_array_equal(found.to_numpy()[:, 1:], model.predict_proba(X))
    np.testing.assert_array_equal(found["prediction"], model.predict(X))
    frame().assign(pixel_3_3=np.where(np.arange(1797) == 1200, np.nan, 1.0)).to_parquet("nan.parquet")
    assert "nan.parquet, row 1200 of the file" in fails("predict model.mercer nan.parquet --proba -o q.parquet")


def test_lists_in_a_parquet_column_are_found_again(folder):
    run("transform data.parquet --target digit --map hellinger -o z.parquet --save h.mercer")
    table = pd.read_parquet("z.parquet").assign(digit=frame()["digit"])
    import pyarrow as pa
    import pyarrow.parquet as pq

    lists = pa.FixedSizeListArray.from_arrays(pa.array(np.concatenate(table["features"].to_list())), 64)
    pq.write_table(pa.table({"features": lists, "digit": pa.array(table["digit"])}), "lists.parquet")
    run(f"fit lists.parquet --target digit {SMALL} -o m.mercer")
    assert run("predict m.mercer lists.parquet -o p.csv").startswith("Predicted 1,797 rows")


@pytest.mark.parametrize("output", ["z.npy", "z.parquet", "z.csv", "z.svm"])
def test_features_are_those_of_transform_in_every_kind_of_file(model, output):
    run(f"transform model.mercer data.parquet -o {output}")
    expected = model.feature_map_.transform(frame()[frame().columns[:64]])
    stream = open_stream(output)
    found = np.concatenate([np.asarray(c.X.toarray() if stream.sparse else c.X) for c in stream.chunks()])
    np.testing.assert_array_equal(found, expected)


def test_sparse_features_are_written_dense_piece_by_piece(folder, monkeypatch):
    monkeypatch.setattr("mercer.cli.predicting._PIECE", 2**16)
    run("transform data.parquet --drop digit --map gcws:n_hashes=4,bits=3 --save g.mercer -o z.npy")
    expected = mercer.load("g.mercer").transform(frame()[frame().columns[:64]]).toarray()
    np.testing.assert_array_equal(np.load("z.npy"), expected)


def test_inspect_shows_the_map_in_its_language(folder):
    line = "chi2-series:n_terms=3 >> fourier:n_components=64,kernel=laplacian"
    run(f'fit data.parquet --target digit --map "{line}" -o m.mercer')
    shown = json.loads(run("inspect m.mercer --json"))
    assert shown["map"] == line
    assert (shown["features"], shown["columns"], shown["rows"]) == (64, 64, 1797)
    output = run("inspect m.mercer")
    for words in ("KernelClassifier", "chi2-series:n_terms=3 >>", "0, 1, 2, 3", "pixel_0_0", "and 54 more", "digest"):
        assert words in output
    run("transform data.parquet --drop digit --map pca:n_components=3 --save pca.mercer -o z.npy")
    assert json.loads(run("inspect pca.mercer --json"))["map"] == "pca:n_components=3"


def test_a_damaged_model_is_one_sentence(model, folder):
    whole = (folder / "model.mercer").read_bytes()
    (folder / "model.mercer").write_bytes(whole[: len(whole) // 2])
    for line in ("predict model.mercer data.csv -o p.csv", "inspect model.mercer"):
        assert "model.mercer" in fails(line)
    (folder / "model.mercer").write_bytes(whole[:-9] + b"x" + whole[-8:])
    assert "digest" in fails("inspect model.mercer")
    (folder / "text.mercer").write_text("no model")
    assert "text.mercer" in fails("predict text.mercer data.csv -o p.csv")
    assert fails("predict none.mercer data.csv -o p.csv") == "none.mercer: No such file or directory."


@pytest.mark.parametrize(
    ("line", "code", "sentence"),
    [
        ("fit data.csv --target digit --map furier -o m", 2, "Did you mean 'fourier'?"),
        ("fit data.csv --target digit --map gcws:bit=3 -o m", 2, "Did you mean 'bits'?"),
        ("fit data.csv --target digt -o m", 1, "has no column 'digt' (target). Its columns: 'pixel_0_0'"),
        ("fit data.csv --target digt -o m", 1, "Did you mean 'digit'?"),
        ("fit data.csv -o m", 2, "Name the column to be predicted: --target COLUMN. data.csv has the columns"),
        ("fit none.csv --target digit -o m", 1, "There is no file none.csv."),
        ("fit data.csv --target digit --drop pixel -o m", 1, "data.csv has no column 'pixel' (--drop)"),
        (
            "fit data.csv --target digit -o data.csv",
            1,
            "data.csv exists: name another file, or replace it with --force.",
        ),
        ("fit data.csv --target digit -o no/m.mercer", 1, "There is no folder no to write m.mercer to."),
        ("fit data.csv --target digit -o .", 1, "is a folder: name a file."),
        ("fit data.csv --target digit --task regress --loss squared -o m", 2, "--loss is for classes"),
        ("fit data.csv --target digit --max-memory lots -o m", 1, "--max-memory must be a number of bytes above 0"),
        ("fit data.csv --target digit --alpha big -o m", 1, "alpha must be one of 'auto', 'gcv'"),
        ("fit data.csv --target digit --map fourier:n_components=-3 -o m", 1, "n_components must be a whole number"),
        ("fit data.csv --target digit --map fourier:gamma=wide -o m", 1, "RandomFourier: gamma must be"),
        ("predict m.mercer data.csv -o p.xls", 1, "p.xls is of no kind that is written here."),
        ("predict m.mercer data.csv --scores --proba -o p.csv", 2, "--scores or --proba, not both."),
        ("transform data.csv -o z.npy", 2, "mercer transform MODEL DATA -o OUT, or mercer transform DATA --map MAP"),
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
    assert "lie.parquet is damaged, or no Parquet file" in fails("fit lie.parquet --target digit -o m")
    assert "lie.csv" in fails("fit lie.csv --target digit -o m")
    assert "lie.npy is not a .npy array" in fails("fit lie.npy --target 0 -o m")


def test_a_target_with_too_many_classes_is_refused_before_anything_is_fitted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"a": np.arange(10_000.0), "name": [f"user{i:05}" for i in range(10_000)]}).to_parquet("t.parquet")
    sentence = fails("fit t.parquet --target name -o m.mercer")
    assert sentence.startswith("The target 'name' has 10,000 different values in its first 10,000 rows ('user00000', ")
    assert "Every row has its own: is it an identifier?" in sentence
    assert "--max-classes 10000 or more" in sentence


def test_an_input_of_words_names_the_ways_out(folder):
    frame().assign(name="word").to_csv("words.csv", index=False)
    assert "leave it out with --columns or --drop" in fails("fit words.csv --target digit -o m")


def test_a_model_of_other_columns_says_which_are_missing_and_which_are_new(model):
    frame().rename(columns={"pixel_0_0": "new_a", "pixel_7_7": "new_b"}).to_parquet("other.parquet")
    assert fails("predict model.mercer other.parquet -o p.csv") == (
        "other.parquet lacks the columns 'pixel_0_0', 'pixel_7_7' that the model was fitted on. "
        "New are the columns 'new_a', 'new_b', 'digit'."
    )


def test_maps_do_not_predict_and_numbers_have_no_scores(model):
    run("transform data.parquet --drop digit --map hellinger --save h.mercer -o z.npy")
    assert "use mercer transform" in fails("predict h.mercer data.csv -o p.csv")
    run(f"fit data.csv --target digit --task regress {SMALL} -o r.mercer")
    assert "predicts numbers: it has no score of classes" in fails("predict r.mercer data.csv --scores -o p.csv")


def test_an_existing_output_is_replaced_only_with_force(model, folder):
    (folder / "p.csv").write_text("mine")
    fails("predict model.mercer data.csv -o p.csv")
    assert (folder / "p.csv").read_text() == "mine"
    run("predict model.mercer data.csv -o p.csv --force")
    assert len(pd.read_csv("p.csv")) == 1797


def test_a_full_disk_leaves_no_file(model, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("mercer.atomic.os.fsync", full)
    for line in ("predict model.mercer data.csv -o p.csv", f"fit data.csv --target digit {SMALL} -o n.mercer"):
        assert fails(line).startswith("The disk is full: nothing was written under the name of the output.")


def test_a_folder_without_permission_is_refused_first(model, folder, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: mode == os.R_OK)
    assert fails("predict model.mercer data.csv -o p.csv").startswith("No permission to write p.csv to the folder ")


def test_progress_is_quiet_when_it_is_piped(folder):
    assert call(f"fit data.csv --target digit {SMALL} -o m.mercer").stderr == ""


def test_of_two_classes_the_likelier_one_is_predicted(folder):
    frame().assign(digit=frame()["digit"] == 8).to_parquet("two.parquet")
    run(f"fit two.parquet --target digit {SMALL} --loss logistic --alpha 1 -o two.mercer")
    run("predict two.mercer two.parquet --proba -o p.parquet")
    found = pd.read_parquet("p.parquet")
    assert list(found.columns) == ["prediction", "probability_False", "probability_True"]
    np.testing.assert_array_equal(found["prediction"], found["probability_True"] > 0.5)
    assert 0 < found["prediction"].mean() < 0.5


@pytest.mark.parametrize("output", ["z.npy", "z.parquet", "z.csv", "z.tsv", "z.svm"])
def test_a_write_that_fails_half_way_leaves_nothing(model, output):
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        sentence = fails(f"transform model.mercer data.parquet -o {output}")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "File too large" in sentence


def test_weights_of_classes_are_found_as_json_has_them(folder):
    run("fit data.csv --target digit --map fourier:n_components=16 --class-weight '{\"1\": 3}' --alpha 1 -o a.mercer")
    run("fit data.csv --target digit --map fourier:n_components=16 --class-weight '{1: 3}' --alpha 1 -o b.mercer")
    assert mercer.load("a.mercer").class_weight == mercer.load("b.mercer").class_weight == {1: 3}


def test_the_next_command_of_a_matrix_runs(folder):
    import numpy as np
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    np.save("left.npy", np.column_stack([y, X]))
    np.save("middle.npy", np.column_stack([X[:, :3], y, X[:, 3:]]))
    for name, target in (("left", 0), ("middle", 3)):
        said = run(f"fit {name}.npy --target {target} --map fourier:n_components=16 --alpha 1 -o {name}.mercer")
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
        assert "is read while the output is written: name another file" in fails(line)
    assert len(Path("data.csv").read_text().splitlines()) == 1798


def test_maps_of_no_use_are_named(folder):
    said = run(
        'fit data.csv --target digit --map "fourier:n_components=16 + hellinger" --penalty group --alpha 100 -o g.mercer'
    )
    assert "in use of 80 features" in said
    assert "Of no use: randomfourier." in said


def test_words_of_python_are_those_of_the_command_line(folder):
    assert "give --map 'a + b'" in fails("fit data.csv --target digit --penalty group -o m.mercer")
    assert "--jobs must be" in fails("fit data.csv --target digit --jobs 0 -o m.mercer")


def test_columns_of_svmlight_that_may_count_either_way_are_refused(folder):
    from sklearn.datasets import dump_svmlight_file, load_digits

    X, y = load_digits(return_X_y=True)  # whose first column is all 0
    dump_svmlight_file(X, y, "rows.svm")
    run("fit data.csv --target digit --map fourier:n_components=128 --alpha 1 -o model.mercer")
    assert "they may count from 0 or from 1. Say which: --zero-based, or --one-based" in fails(
        "predict model.mercer rows.svm -o p.csv"
    )
    run("predict model.mercer rows.svm --zero-based -o p.csv")
    run("predict model.mercer data.csv -o q.csv")
    assert Path("p.csv").read_text() == Path("q.csv").read_text()


def test_a_device_that_is_not_there_is_one_sentence(folder):
    run("fit data.csv --target digit --map fourier:n_components=8 -o m.mercer")
    for line in (
        "predict m.mercer data.csv --device cuda:99 -o p.csv",
        "transform m.mercer data.csv --device cuda:99 -o f.npy",
        "certify m.mercer data.csv --device cuda:99",
        "fit data.csv --target digit --device cuda:99 -o n.mercer",
    ):
        assert re.search("cuda:99|A GPU needs torch", fails(line))
