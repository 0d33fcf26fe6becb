"""predict, transform and inspect: what they write and show of a model, and what they refuse."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.helpers.digits_data import SMALL, frame
from tests.helpers.shell import fails, run

import mercer
from mercer import open_stream
from mercer.cli.predict import write_features


def test_predict_finds_columns_by_name_in_any_order_and_leaves_others_alone(model):
    frame()[["digit", *frame().columns[:64][::-1]]].assign(other="word").to_csv(
        "turned.csv", index=False
    )
    run("predict model.mercer turned.csv -o a.csv")
    run("predict model.mercer data.parquet -o b.csv")
    pd.testing.assert_frame_equal(pd.read_csv("a.csv"), pd.read_csv("b.csv"))
    np.testing.assert_array_equal(
        pd.read_csv("a.csv")["prediction"], model.predict(frame()[frame().columns[:64]])
    )


def test_scores_are_the_decision_function(model):
    run("predict model.mercer data.parquet --scores -o s.parquet")
    found = pd.read_parquet("s.parquet")
    assert list(found.columns) == ["prediction", *(f"score_{digit}" for digit in range(10))]
    expected = model.decision_function(frame()[frame().columns[:64]])
    np.testing.assert_allclose(found.to_numpy()[:, 1:], expected, rtol=0, atol=1e-12)


def test_two_classes_have_the_score_of_the_second(folder):
    frame().assign(digit=np.where(frame()["digit"] == 8, "eight", "other")).to_parquet(
        "two.parquet"
    )
    run(f"fit two.parquet --target digit {SMALL} -o two.mercer")
    run("predict two.mercer two.parquet --scores -o s.csv")
    found = pd.read_csv("s.csv")
    assert list(found.columns) == ["prediction", "score_other"]
    assert set(found["prediction"]) == {"eight", "other"}
    np.testing.assert_array_equal(found["prediction"] == "other", found["score_other"] > 0)


@pytest.mark.parametrize("loss", ["logistic", "log_loss"])
def test_probabilities_are_those_of_predict_proba(loss, folder):
    run(f"fit data.parquet --target digit {SMALL} --loss {loss} --alpha 1 -o model.mercer")
    model, X = mercer.load("model.mercer"), frame().drop(columns="digit")
    run("predict model.mercer data.parquet --proba -o p.parquet")
    found = pd.read_parquet("p.parquet")
    np.testing.assert_allclose(found.to_numpy()[:, 1:], model.predict_proba(X), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(found["prediction"], model.predict(X))
    frame().assign(pixel_3_3=np.where(np.arange(1797) == 1200, np.nan, 1.0)).to_parquet(
        "nan.parquet"
    )
    assert "nan.parquet, row 1200 of the file" in fails(
        "predict model.mercer nan.parquet --proba -o q.parquet"
    )


def test_calibrated_probabilities_and_sets_are_those_of_the_model(folder):
    run(f"fit data.parquet --target digit {SMALL} --uncertainty true -o model.mercer")
    model, X = mercer.load("model.mercer"), frame().drop(columns="digit")
    run("predict model.mercer data.parquet --proba -o p.parquet")
    found = pd.read_parquet("p.parquet")
    assert list(found.columns) == ["prediction", *(f"probability_{digit}" for digit in range(10))]
    np.testing.assert_allclose(found.to_numpy()[:, 1:], model.predict_proba(X), rtol=0, atol=1e-12)
    for output in ("s.parquet", "s.csv"):
        run(f"predict model.mercer data.parquet --set 0.95 -o {output}")
        found = pd.read_parquet(output) if output == "s.parquet" else pd.read_csv(output)
        assert list(found.columns) == ["prediction", *(f"set_{digit}" for digit in range(10))]
        assert {str(kind) for kind in found.dtypes[1:]} == {"bool"}
        np.testing.assert_array_equal(found.to_numpy()[:, 1:], model.predict_set(X, 0.95))
        np.testing.assert_array_equal(found["prediction"], model.predict(X))


def test_a_model_without_uncertainty_says_how_to_fit_it(model):
    message = fails("predict model.mercer data.parquet --proba -o p.parquet")
    assert "uncertainty=True" in message and "loss='log_loss'" in message
    message = fails("predict model.mercer data.parquet --set 0.9 -o p.parquet")
    assert "fit it again with mercer fit --uncertainty true" in message
    assert "0<x<1" in fails("predict model.mercer data.parquet --set 1 -o p.parquet", 2)


def test_lists_in_a_parquet_column_are_found_again(folder):
    run("transform data.parquet --target digit --map hellinger -o z.parquet --save h.mercer")
    table = pd.read_parquet("z.parquet").assign(digit=frame()["digit"])
    import pyarrow as pa
    import pyarrow.parquet as pq

    lists = pa.FixedSizeListArray.from_arrays(
        pa.array(np.concatenate(table["features"].to_list())), 64
    )
    pq.write_table(
        pa.table({"features": lists, "digit": pa.array(table["digit"])}), "lists.parquet"
    )
    run(f"fit lists.parquet --target digit {SMALL} -o m.mercer")
    assert run("predict m.mercer lists.parquet -o p.csv").startswith("Predicted 1,797 rows")


@pytest.mark.parametrize("output", ["z.npy", "z.parquet", "z.csv", "z.svm"])
def test_features_are_those_of_transform_in_every_kind_of_file(model, output):
    run(f"transform model.mercer data.parquet -o {output}")
    expected = model.feature_map_.transform(frame()[frame().columns[:64]])
    stream = open_stream(output)
    found = np.concatenate(
        [np.asarray(c.X.toarray() if stream.sparse else c.X) for c in stream.chunks()]
    )
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)


def test_sparse_features_are_written_dense_piece_by_piece(folder):
    run("transform data.parquet --drop digit --map gcws:n_hashes=4,bits=3 --save g.mercer -o z.npy")
    fitted = mercer.load("g.mercer")
    expected = fitted.transform(frame()[frame().columns[:64]]).toarray()
    np.testing.assert_array_equal(np.load("z.npy"), expected)
    stream = open_stream("data.parquet", columns=list(frame().columns[:64]))
    assert write_features(stream, fitted, Path("pieces.npy"), dense_bytes=2**16) == 1797
    np.testing.assert_array_equal(np.load("pieces.npy"), expected)


def test_inspect_shows_the_map_in_its_language(folder):
    line = "chi2-series:n_terms=3 >> fourier:n_components=64,kernel=laplacian"
    run(f'fit data.parquet --target digit --map "{line}" -o m.mercer')
    shown = json.loads(run("inspect m.mercer --json"))
    assert shown["map"] == line
    assert (shown["features"], shown["columns"], shown["rows"]) == (64, 64, 1797)
    output = run("inspect m.mercer")
    for words in (
        "KernelClassifier",
        "chi2-series:n_terms=3 >>",
        "0, 1, 2, 3",
        "pixel_0_0",
        "and 54 more",
        "checksum",
    ):
        assert words in output
    assert "divided by their spread" not in output
    run("fit data.parquet --target digit --map fourier:n_components=16 -o scaled.mercer")
    output = " ".join(run("inspect scaled.mercer").split())
    assert "scaled columns centered and divided by their spread" in output
    assert ".over(Scaled(d=64))" in output
    run("transform data.parquet --drop digit --map pca:n_components=3 --save pca.mercer -o z.npy")
    assert json.loads(run("inspect pca.mercer --json"))["map"] == "pca:n_components=3"


def test_a_damaged_model_is_one_sentence(model, folder):
    whole = (folder / "model.mercer").read_bytes()
    (folder / "model.mercer").write_bytes(whole[: len(whole) // 2])
    for line in ("predict model.mercer data.csv -o p.csv", "inspect model.mercer"):
        assert "model.mercer" in fails(line)
    (folder / "model.mercer").write_bytes(whole[:-9] + b"x" + whole[-8:])
    assert "checksum" in fails("inspect model.mercer")
    (folder / "text.mercer").write_text("no model")
    assert "text.mercer" in fails("predict text.mercer data.csv -o p.csv")
    assert (
        fails("predict none.mercer data.csv -o p.csv") == "none.mercer: No such file or directory."
    )


def test_a_model_of_other_columns_says_which_are_missing_and_which_are_new(model):
    frame().rename(columns={"pixel_0_0": "new_a", "pixel_7_7": "new_b"}).to_parquet("other.parquet")
    assert fails("predict model.mercer other.parquet -o p.csv") == (
        "other.parquet lacks the columns 'pixel_0_0', 'pixel_7_7', which the model was fitted on. "
        "It also has the columns 'new_a', 'new_b', 'digit'."
    )


def test_maps_do_not_predict_and_numbers_have_no_scores(model):
    run("transform data.parquet --drop digit --map hellinger --save h.mercer -o z.npy")
    assert "use mercer transform" in fails("predict h.mercer data.csv -o p.csv")
    run(f"fit data.csv --target digit --task regress {SMALL} -o r.mercer")
    assert "predicts numbers: it has no score of classes" in fails(
        "predict r.mercer data.csv --scores -o p.csv"
    )


def test_an_existing_output_is_replaced_only_with_force(model, folder):
    (folder / "p.csv").write_text("mine")
    fails("predict model.mercer data.csv -o p.csv")
    assert (folder / "p.csv").read_text() == "mine"
    run("predict model.mercer data.csv -o p.csv --force")
    assert len(pd.read_csv("p.csv")) == 1797


def test_a_full_disk_leaves_no_file(model, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for line in (
        "predict model.mercer data.csv -o p.csv",
        f"fit data.csv --target digit {SMALL} -o n.mercer",
    ):
        assert fails(line).startswith(
            "The disk is full: nothing was written under the name of the output."
        )


def test_a_folder_without_permission_is_refused_first(model, folder, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: mode == os.R_OK)
    assert fails("predict model.mercer data.csv -o p.csv").startswith(
        "No permission to write p.csv to the folder "
    )


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


def test_columns_of_svmlight_that_may_count_either_way_are_refused(folder):
    from sklearn.datasets import dump_svmlight_file, load_digits

    X, y = load_digits(return_X_y=True)  # whose first column is all 0
    dump_svmlight_file(X, y, "rows.svm")
    run("fit data.csv --target digit --map fourier:n_components=128 --alpha 1 -o model.mercer")
    assert "they may count from 0 or from 1. Give --zero-based or --one-based" in fails(
        "predict model.mercer rows.svm -o p.csv"
    )
    run("predict model.mercer rows.svm --zero-based -o p.csv")
    run("predict model.mercer data.csv -o q.csv")
    assert Path("p.csv").read_text() == Path("q.csv").read_text()
