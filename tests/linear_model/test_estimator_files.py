"""Estimators on every source, and predictions into arrays and files."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file
from tests.helpers.estimator_data import (
    NAMES,
    N,
    X,
    classifier,
    folder_of,
    regressor,
    same,
    t,
    table,
    w,
    y,
)

from mercer import (
    Anchors,
    Chi2Series,
    FeaturePCA,
    KernelRegressor,
    open_stream,
)

pl = pytest.importorskip("polars", reason="polars is not installed: pip install --group dev")


def sources(folder, targets=t) -> dict:
    np.save(folder / "beside.npy", X)
    np.save(folder / "with.npy", np.column_stack([X, targets]))
    np.savez(folder / "rows.npz", X=X, y=targets)
    pc.write_csv(table(targets=targets), folder / "rows.csv")
    dump_svmlight_file(X, targets, str(folder / "rows.svm"), zero_based=True)
    parquet = folder_of(folder / "parquet", targets=targets)
    frame = pd.DataFrame(X, columns=NAMES)
    return {
        "array": (X, targets),
        "list": (X.tolist(), targets.tolist()),
        "csr": (sp.csr_matrix(X), targets),
        "pandas": (frame, pd.Series(targets)),
        "polars": (pl.DataFrame(X, schema=NAMES), targets),
        "frame with target": (open_stream(frame.assign(y=targets), target="y"),),
        "path beside y": (str(folder / "beside.npy"), targets),
        "stream beside y": (open_stream(folder / "beside.npy"), targets),
        "npy": (open_stream(folder / "with.npy", target=-1),),
        "npz": (folder / "rows.npz",),
        "parquet": (open_stream(parquet, target="y"),),
        "csv": (open_stream(folder / "rows.csv", target="y"),),
        "svmlight": (folder / "rows.svm",),
    }


def test_every_source_gives_the_same_model(tmp_path):
    expected = regressor().fit(X, t)
    labels = classifier().fit(X, y)
    for name, source in sources(tmp_path).items():
        model = regressor().fit(*source)
        same(model, expected, 1e-9)
        assert np.allclose(model.predict(source[0]), expected.predict(X), rtol=0, atol=1e-8), name
        assert model.score(*source) == pytest.approx(expected.score(X, t), abs=1e-8), name
    (tmp_path / "labels").mkdir()
    for name, source in sources(tmp_path / "labels", y).items():
        assert np.array_equal(classifier().fit(*source).predict(source[0]), labels.predict(X)), name


def test_a_list_of_paths_is_a_source(tmp_path):
    paths = sorted(folder_of(tmp_path / "parquet").iterdir())
    model = regressor().fit(open_stream(paths, target="y"))
    plain = [tmp_path / f"{i}.parquet" for i in range(len(paths))]
    for path, to in zip(paths, plain, strict=True):
        pq.write_table(pq.read_table(path).drop(["y"]), to)
    assert np.allclose(model.predict(plain), regressor().fit(X, t).predict(X), rtol=0, atol=1e-8)


def test_y_beside_a_stream_leaves_the_stream_as_it_was(tmp_path):
    np.save(tmp_path / "with.npy", np.column_stack([X, t]))
    stream = open_stream(tmp_path / "with.npy", target=-1)
    other = regressor().fit(stream, -t)
    assert np.allclose(other.predict(X), -regressor().fit(stream).predict(X), rtol=0, atol=1e-9)
    assert stream.target == "x4"


def test_weights_come_with_a_stream_or_beside_it(tmp_path):
    pq.write_table(table().append_column("w", pa.array(w.astype(float))), tmp_path / "rows.parquet")
    expected = regressor().fit(X, t, w)
    stream = open_stream(tmp_path / "rows.parquet", target="y", weight="w")
    same(regressor().fit(stream), expected, 1e-9)
    without = open_stream(tmp_path / "rows.parquet", target="y", columns=NAMES)
    same(regressor().fit(without, sample_weight=w), expected, 1e-9)
    assert expected.score(stream) == pytest.approx(expected.score(X, t, w), abs=1e-12)
    assert expected.score(stream) != pytest.approx(expected.score(X, t), abs=1e-6)


@pytest.mark.parametrize("suffix", [".parquet", ".npy", ".csv"])
def test_predictions_are_written_as_they_come(suffix, tmp_path):
    read = {
        ".npy": np.load,
        ".parquet": lambda path: pq.read_table(path).to_pandas().to_numpy(),
        ".csv": lambda path: pc.read_csv(path).to_pandas().to_numpy(),
    }[suffix]
    for model in (
        regressor().fit(X, t),
        regressor().fit(X, np.column_stack([t, -t])),
        classifier().fit(X, y),
    ):
        path = tmp_path / f"out{suffix}"
        assert model.predict(X, out=path) == path
        expected = model.predict(X)
        np.testing.assert_allclose(read(path), expected.reshape(N, -1), rtol=0, atol=1e-12)
    if suffix != ".npy":
        words = classifier().fit(X, np.array(["low", "mid", "high"])[y])
        words.predict(X, out=path)
        assert np.array_equal(read(path)[:, 0], words.predict(X))


def test_weights_count_for_the_statistics_of_a_map():
    w = np.random.default_rng(0).integers(0, 4, N)
    repeated = np.repeat(np.arange(N), w)
    for feature_map in (
        Chi2Series(2, signed=True),
        Chi2Series(2, signed=True) >> FeaturePCA(4),
        Anchors(8, spacing="kmeans"),
    ):
        rows = np.abs(X) if feature_map.domain == "nonnegative" else X
        weighted = KernelRegressor(feature_map, alpha=1.0).fit(rows, t, sample_weight=w)
        plain = KernelRegressor(feature_map, alpha=1.0).fit(rows[repeated], t[repeated])
        np.testing.assert_allclose(
            weighted.predict(rows[w > 0]), plain.predict(rows[w > 0]), rtol=1e-6, atol=1e-8
        )


def test_predictions_are_written_into_an_array(tmp_path):
    np.save(tmp_path / "rows.npy", X)
    for model in (
        regressor().fit(X, t),
        regressor().fit(X, np.column_stack([t, -t])),
        classifier().fit(X, y),
    ):
        expected = model.predict(X)
        out = np.empty_like(expected)
        assert model.predict(tmp_path / "rows.npy", out=out) is out
        np.testing.assert_allclose(out, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "out",
    [np.empty(N - 1), np.empty(N + 1), np.empty((N, 1)), np.empty(N, int), [0.0] * N],
    ids=["short", "long", "2-d", "int", "list"],
)
def test_an_array_that_does_not_fit_is_refused(out):
    with pytest.raises(
        ValueError,
        match=r"out must be a path or a writeable array of float64 and shape \(240,\), got",
    ):
        regressor().fit(X, t).predict(X, out=out)


def test_labels_are_not_cut_short_by_an_array():
    model = classifier().fit(X, np.array(["a", "b", "longer"])[y])
    with pytest.raises(ValueError, match="writeable array of <U6"):
        model.predict(X, out=np.empty(N, "<U3"))


def test_out_of_another_length_is_noticed_where_rows_are_not_counted(tmp_path):
    pc.write_csv(table().drop(["y"]), tmp_path / "rows.csv")
    model = regressor().fit(X, t)
    for size, words in ((N - 1, "there are more"), (N + 1, "there are 240")):
        with pytest.raises(ValueError, match=words):
            model.predict(tmp_path / "rows.csv", out=np.empty(size))
