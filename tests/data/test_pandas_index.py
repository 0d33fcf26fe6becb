"""The index of a pandas frame in a Parquet file or an Arrow table is no input, unless it is
named.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from mercer import KernelClassifier, RandomFourier, load, open_stream
from mercer.cli import main

RNG = np.random.default_rng(0)
FIT = ("--target", "y", "--map", "fourier:n_components=32,gamma=0.1")


def frame(rows: int = 300) -> pd.DataFrame:
    """Rows that were sorted by class, as their index shows."""
    made = pd.DataFrame(RNG.normal(size=(rows, 3)), columns=["a", "b", "c"])
    made["y"] = (made["a"] + RNG.normal(size=rows) > 0).astype(int)
    return made.sort_values("y", ignore_index=True).sample(frac=1, random_state=0)


INDEXES = {
    "unnamed": (lambda made: made, ["__index_level_0__"]),
    "named": (lambda made: made.rename_axis("id"), ["id"]),
    "of two levels": (
        lambda made: (
            made.assign(k=1.5, i=made.index).set_index(["k", "i"]).rename_axis(["k", None])
        ),
        ["k", "__index_level_1__"],
    ),
    "of words": (lambda made: made.set_index(made.index.astype(str)), ["__index_level_0__"]),
    "that counts rows": (lambda made: made.reset_index(drop=True), []),
}


@pytest.fixture(params=INDEXES)
def written(request, tmp_path):
    change, names = INDEXES[request.param]
    made = change(frame())
    made.to_parquet(tmp_path / "d.parquet")
    made.to_csv(tmp_path / "d.csv", index=False)
    return made, names, tmp_path


def run(*arguments: object):
    outcome = CliRunner().invoke(main, [*map(str, arguments)])
    assert outcome.exit_code == 0, outcome.stderr
    return outcome


def test_the_index_is_left_out_and_said(written):
    _, names, folder = written
    stream = open_stream(folder / "d.parquet", target="y")
    assert stream.columns == ("a", "b", "c")
    assert stream.left_out == tuple(names)
    assert sum(len(chunk) for chunk in stream.chunks()) == 300


def test_csv_and_parquet_of_the_same_rows_give_the_same_model(written):
    _, names, folder = written
    said = {}
    for kind in ("csv", "parquet"):
        said[kind] = run("fit", folder / f"d.{kind}", *FIT, "-o", folder / f"{kind}.mercer").stdout
    first, other = (load(folder / f"{kind}.mercer") for kind in ("csv", "parquet"))
    assert first.feature_names_in_.tolist() == other.feature_names_in_.tolist() == ["a", "b", "c"]
    assert first.feature_coef_.tobytes() == other.feature_coef_.tobytes()
    assert first.intercept_ == other.intercept_
    assert "Ignoring" not in said["csv"]
    listed = ", ".join(map(repr, names))
    assert (f"Ignoring {listed}, the index of the pandas frame" in said["parquet"]) == bool(names)


def test_dropping_a_column_does_not_bring_the_index_in(written):
    _, names, folder = written
    outcome = run("fit", folder / "d.parquet", *FIT, "--drop", "c", "-o", folder / "m.mercer")
    assert load(folder / "m.mercer").feature_names_in_.tolist() == ["a", "b"]
    assert ("Ignoring " in outcome.stdout) == bool(names)


def test_predictions_do_not_depend_on_whether_a_file_has_the_index(written):
    made, _, folder = written
    run("fit", folder / "d.csv", *FIT, "-o", folder / "m.mercer")
    for name in ("d.csv", "d.parquet"):
        run("predict", folder / "m.mercer", folder / name, "-o", folder / f"{name}.npy")
    expected = np.load(folder / "d.csv.npy")[:, 0]
    np.testing.assert_array_equal(np.load(folder / "d.parquet.npy")[:, 0], expected)
    model = load(folder / "m.mercer")
    made.drop(columns="y").to_parquet(folder / "x.parquet")
    np.testing.assert_array_equal(model.predict(folder / "x.parquet"), expected)


def test_an_index_that_is_named_is_an_input_or_the_target(tmp_path):
    frame().rename_axis("id").to_parquet(tmp_path / "d.parquet")
    stream = open_stream(tmp_path / "d.parquet", target="y", columns=["a", "id"])
    assert (stream.columns, stream.left_out) == (("a", "id"), ())
    stream = open_stream(tmp_path / "d.parquet", target="id")
    assert (stream.columns, stream.target, stream.left_out) == (("a", "b", "c", "y"), "id", ())
    outcome = run(
        "fit", tmp_path / "d.parquet", *FIT, "--columns", "a,id", "-o", tmp_path / "m.mercer"
    )
    assert "Ignoring" not in outcome.stdout
    assert load(tmp_path / "m.mercer").feature_names_in_.tolist() == ["a", "id"]


def test_a_model_that_was_fitted_on_an_index_still_predicts(tmp_path):
    """Models of before took it for an input; they know it by name."""
    made = frame()
    made.drop(columns="y").to_parquet(tmp_path / "x.parquet")
    names = ["a", "b", "c", "__index_level_0__"]
    table = pq.read_table(tmp_path / "x.parquet")
    model = KernelClassifier(RandomFourier(16, gamma=0.1, random_state=0))
    model.fit(open_stream(tmp_path / "x.parquet", columns=names), made["y"].to_numpy())
    expected = model.predict(made.assign(__index_level_0__=made.index)[names])
    np.testing.assert_array_equal(model.predict(tmp_path / "x.parquet"), expected)
    np.testing.assert_array_equal(model.predict(table), expected)


@pytest.mark.parametrize(
    "form", [lambda table: table, lambda table: table.to_batches()[0]], ids=["table", "batch"]
)
def test_arrow_tables_in_memory_have_no_index_either(form):
    made = frame()
    table = form(pa.Table.from_pandas(made.drop(columns="y")))
    assert "__index_level_0__" in table.schema.names
    model = KernelClassifier(RandomFourier(16, gamma=0.1, random_state=0)).fit(
        table, made["y"].to_numpy()
    )
    assert model.n_features_in_ == 3
    plain = made[["a", "b", "c"]]
    plain = (
        plain if hasattr(model, "feature_names_in_") else plain.to_numpy()
    )  # scikit-learn finds no names in a batch
    np.testing.assert_array_equal(model.predict(table), model.predict(plain))
    fitted = RandomFourier(16, gamma=0.1, random_state=0).fit(table)
    assert fitted.n_features_in_ == 3
    np.testing.assert_array_equal(fitted.transform(table), fitted.transform(plain))
    assert open_stream(table).width == 3


def test_files_of_a_folder_may_differ_in_their_index(tmp_path):
    made = frame()
    made.to_parquet(
        tmp_path / "a.parquet"
    )  # an index of its own, none, and that of others without pandas' metadata
    made.reset_index(drop=True).to_parquet(tmp_path / "b.parquet")
    pq.write_table(
        pq.read_table(tmp_path / "a.parquet").replace_schema_metadata(None), tmp_path / "c.parquet"
    )
    for names in (["a", "b", "c"], ["b", "a", "c"], ["c", "b", "a"]):
        stream = open_stream([tmp_path / f"{name}.parquet" for name in names], target="y")
        assert stream.columns == ("a", "b", "c")
        assert sum(len(chunk) for chunk in stream.chunks()) == 900


def test_a_column_that_is_an_index_in_another_file_is_refused(tmp_path):
    made = frame().rename_axis("id")
    made.reset_index().to_parquet(tmp_path / "a.parquet")
    made.to_parquet(tmp_path / "b.parquet")
    with pytest.raises(
        ValueError,
        match=r"b.parquet: column 'id' is the index of a pandas frame, and in a.parquet it is an",
    ):
        open_stream(tmp_path, target="y")
    assert open_stream(tmp_path, target="y", columns=["a", "id"]).width == 2


def test_a_table_that_has_nothing_beside_its_index_is_refused(tmp_path):
    frame().set_index("a")[["y"]].to_parquet(tmp_path / "d.parquet")
    with pytest.raises(
        ValueError, match=r"d.parquet has no input columns beside the pandas index 'a'"
    ):
        open_stream(tmp_path / "d.parquet", target="y")


@pytest.mark.parametrize(
    "text",
    [b"no JSON", b"[]", b"{}", b'{"index_columns": 3}', b'{"index_columns": ["gone"]}', b"\xff"],
)
def test_metadata_that_are_not_of_pandas_do_no_harm(tmp_path, text):
    table = pa.table({"a": [1.0, 2.0], "y": [0, 1]}).replace_schema_metadata({b"pandas": text})
    pq.write_table(table, tmp_path / "d.parquet")
    assert open_stream(tmp_path / "d.parquet", target="y").columns == ("a",)
    assert open_stream(table).width == 2
