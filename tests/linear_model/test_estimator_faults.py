"""Invalid rows, targets and parameters are refused by name, and leave no model."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from tests.helpers.estimator_data import (
    NAMES,
    SMALL,
    D,
    N,
    X,
    classifier,
    folder_of,
    fourier,
    regressor,
    same,
    t,
    table,
    y,
)

from mercer import (
    Anchors,
    KernelRegressor,
    RandomFourier,
    open_stream,
)


def test_more_features_than_rows():
    wide = RandomFourier(150, gamma=2.0, random_state=0)
    model = KernelRegressor(wide).fit(X[:50], t[:50])
    assert model.score(X[50:], t[50:]) > 0.5
    same(
        regressor(feature_map=wide).fit(X[:50], t[:50]),
        Ridge(0.3).fit(wide.fit_transform(X[:50]), t[:50]),
    )
    least = regressor(0, feature_map=wide).fit(X[:50], t[:50])
    assert np.allclose(least.predict(X[:50]), t[:50], rtol=0, atol=1e-6)


def test_one_row():
    for alpha in ("auto", "gcv", "kfold", "loo", [1.0, 2.0]):
        with pytest.raises(
            ValueError, match=r"one sample only. Give more rows, or a number for alpha"
        ):
            regressor(alpha).fit(X[:1], t[:1])
    assert np.allclose(regressor().fit(X[:1], t[:1]).predict(X[:3]), t[0])
    model = regressor("auto").partial_fit(X[:1], t[:1])
    for i in range(1, 100):
        model.partial_fit(X[i : i + 1], t[i : i + 1])
    same(model, regressor("kfold").fit(X[:100], t[:100]), 1e-6)


@pytest.mark.parametrize("more", [{}, {"class_weight": "balanced"}, {"max_memory": SMALL}])
def test_one_class(more):
    with pytest.raises(
        ValueError, match="KernelClassifier needs rows of at least two classes, got one class: 'a'"
    ):
        classifier(**more).fit(X, ["a"] * N)


def test_empty_sources(tmp_path):
    np.save(tmp_path / "empty.npy", X[:0])
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty.csv").write_text("a,b,y\n")
    for source, words in (
        (tmp_path / "empty.npy", "empty.npy has no rows"),
        (tmp_path / "folder", "has no .parquet, .csv, .*files"),
        (tmp_path / "empty.csv", "empty.csv has no rows"),
    ):
        with pytest.raises(ValueError, match=words):
            regressor().fit(source, t)
        with pytest.raises(ValueError, match=words):
            regressor().fit(X, t).predict(source, out=tmp_path / "out.npy")
    with pytest.raises(ValueError, match="minimum of 1 is required"):
        regressor().fit(X[:0], t[:0])
    assert not (tmp_path / "out.npy").exists()


@pytest.mark.parametrize("value", [np.nan, np.inf, None])
def test_targets_that_are_missing_are_named(value, tmp_path):
    bad = [value if i == 7 else target for i, target in enumerate(t)]
    with pytest.raises(
        ValueError,
        match=r"KernelRegressor needs a target in every row, got (nan|inf|None) at row 7",
    ):
        regressor().fit(X, bad)
    words = ["a" if i % 2 else "b" for i in range(N)]
    words[9] = None
    with pytest.raises(
        ValueError, match="KernelClassifier needs a target in every row, got None at row 9"
    ):
        classifier().fit(X, words)
    folder = folder_of(tmp_path / "parquet", targets=np.array(bad, dtype=float))
    with pytest.raises(
        ValueError,
        match=r"target 'y' needs a value in every row.*part-000.parquet, row 7 of the file",
    ):
        regressor().fit(open_stream(folder, target="y"))


def test_an_infinity_in_a_late_block_is_named_and_nothing_is_half_written(tmp_path):
    rows = np.random.default_rng(1).random((2000, D))
    rows[37 * 50 + 11, 2] = np.inf
    folder = folder_of(tmp_path / "parquet", rows, np.arange(2000.0))
    words = r"got inf at part-037.parquet, row 11 of the file, column 2 \('c2'\)"
    for feature_map in (fourier(), RandomFourier(48, random_state=0)):
        model = regressor(feature_map=feature_map)
        with pytest.raises(ValueError, match=words):
            model.fit(open_stream(folder, target="y"))
        with pytest.raises(NotFittedError):
            model.predict(X)
    good = regressor().fit(X, t)
    for out in ("out.parquet", "out.npy", "out.csv"):
        with pytest.raises(ValueError, match=words):
            good.predict(open_stream(folder, columns=NAMES), out=tmp_path / out)
    assert [path.name for path in tmp_path.iterdir()] == ["parquet"]


def test_a_failed_fit_leaves_no_model():
    model = regressor().fit(X, t)
    with pytest.raises(ValueError, match="row 3, column 1"):
        model.fit(np.where(X[3, 1] == X, np.nan, X), t)
    with pytest.raises(NotFittedError):
        model.predict(X)
    assert np.array_equal(model.fit(X, t).feature_coef_, regressor().fit(X, t).feature_coef_)
    for wrong in ({"alpha": "none"}, {"loss": "none"}, {"max_iter": 0}, {"pca": 0}):
        labels = classifier().fit(X, y).set_params(**wrong)
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
            labels.fit(X, y)
        with pytest.raises(NotFittedError):
            labels.predict(X)


def test_a_row_that_only_the_map_objects_to_is_named():
    model = regressor().fit(X, t)
    far = X.copy()
    far[200, 1] = 1e300
    with pytest.raises(ValueError, match="row 200"):
        model.predict(far)


def test_values_outside_the_map_get_one_warning(tmp_path):
    model = regressor(feature_map=Anchors(8)).fit(X, t)
    with pytest.warns(UserWarning, match="Anchors") as seen:
        model.predict(np.repeat(3 * X, 400, axis=0))
    assert len(seen) == 1


def test_a_file_that_changes_width(tmp_path):
    folder = folder_of(tmp_path / "parquet")
    pq.write_table(table().drop(["c2"]), folder / "part-009.parquet")
    with pytest.raises(
        ValueError, match=r"part-009.parquet has no column 'c2', which part-000.parquet has"
    ):
        regressor().fit(open_stream(folder, target="y"))
    np.save(tmp_path / "narrow.npy", X[:, :3])
    with pytest.raises(
        ValueError, match=r"narrow.npy has 3 columns, but KernelRegressor is expecting 4"
    ):
        regressor().fit(X, t).predict(tmp_path / "narrow.npy")


def test_a_target_that_is_not_there(tmp_path):
    folder = folder_of(tmp_path / "parquet")
    with pytest.raises(
        ValueError, match=r"no column 'Y' \(target\). Its columns: 'c0', 'c1', 'c2', 'c3', 'y'"
    ):
        open_stream(folder, target="Y")
    with pytest.raises(ValueError, match="KernelRegressor requires y: open the rows with a target"):
        regressor().fit(folder)
    with pytest.raises(ValueError, match="score needs y"):
        regressor().fit(X, t).score(open_stream(folder, columns=NAMES))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: regressor(-1.0).fit(X, t), "alpha must be a number of at least 0, a list"),
        (
            lambda: regressor("best").fit(X, t),
            "alpha must be .* or one of 'auto', 'gcv', 'kfold', 'loo', 'evidence', got 'best'",
        ),
        (
            lambda: regressor("gcv", max_memory=SMALL).fit(X, t),
            "alpha='gcv' needs the normal equations.*use 'auto'",
        ),
        (lambda: regressor(0, max_memory=SMALL).fit(X, t), "alpha=0 needs the normal equations"),
        (
            lambda: regressor(pca=3, max_memory=SMALL).fit(X, t),
            "pca=3 needs the normal equations of 48 features",
        ),
        (
            lambda: regressor(checkpoint="a", max_memory=SMALL).fit(X, t),
            "checkpoint='a' needs the normal equations",
        ),
        (
            lambda: regressor(pca=49).fit(X, t),
            "pca must be at most the number of features of a map, 48, got 49",
        ),
        (lambda: regressor(max_memory="much").fit(X, t), "max_memory must be a number of bytes"),
        (lambda: regressor(fit_intercept="no").fit(X, t), "fit_intercept must be True or False"),
        (
            lambda: classifier(loss="hinge").fit(X, y),
            "loss must be 'squared'|loss must be one of 'squared'",
        ),
        (lambda: classifier().fit(X, t), "Unknown label type: continuous"),
        (
            lambda: classifier().fit(open_stream((X, t))),
            "Unknown label type: continuous.*use KernelRegressor",
        ),
        (
            lambda: classifier(class_weight={7: 1.0}).fit(X, y),
            "class_weight has the label 7.*among .0, 1, 2",
        ),
        (lambda: classifier(class_weight={1: -1.0}).fit(X, y), "got -1.0 for the label 1"),
        (
            lambda: classifier(class_weight="even").fit(X, y),
            "class_weight must be None, 'balanced', or a dict",
        ),
    ],
)
def test_invalid_parameters_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()
