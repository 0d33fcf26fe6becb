"""KernelRegressor and KernelClassifier: scikit-learn's answers on materialised features, from any source, by either route."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import dump_svmlight_file
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import (
    GCWS,
    Anchors,
    Chi2Series,
    FeaturePCA,
    KernelClassifier,
    KernelRegressor,
    RandomFourier,
    open_stream,
    planner,
)
from mercer.learn.ridge import ALPHAS
from mercer.planner import plan_fit

N, D = 240, 4
NAMES = [f"c{i}" for i in range(D)]
SMALL = "1kB"  # less than the moments of any map here: passes over blocks

rng = np.random.default_rng(0)
X = rng.random((N, D))
X[rng.random((N, D)) < 0.2] = 0
X[0] = 1  # svmlight finds its width
t = np.sin(5 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=N)
y = np.digitize(t, np.quantile(t, [0.3, 0.6]))
w = rng.integers(0, 4, size=N)


def fourier(**more) -> RandomFourier:
    return RandomFourier(48, gamma=2.0, random_state=0, **more)


def regressor(alpha=0.3, feature_map=None, **more) -> KernelRegressor:
    return KernelRegressor(fourier() if feature_map is None else feature_map, alpha=alpha, **more)


def classifier(alpha=0.3, feature_map=None, **more) -> KernelClassifier:
    return KernelClassifier(fourier() if feature_map is None else feature_map, alpha=alpha, **more)


def features(rows=X) -> np.ndarray:
    return fourier().fit(X).transform(rows)


def same(model, other, tol=1e-8) -> None:
    scale = np.abs(other.coef_).max()
    assert np.shape(model.coef_) == np.shape(np.squeeze(other.coef_))
    assert np.allclose(model.coef_, np.squeeze(other.coef_), rtol=0, atol=tol * scale)
    assert np.allclose(model.intercept_, other.intercept_, rtol=0, atol=tol * scale)


@parametrize_with_checks(
    [
        KernelRegressor(RandomFourier(64, gamma=0.05, random_state=0)),
        KernelClassifier(Chi2Series(2, poles="minimax", signed=True)),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("rows", [X, sp.csr_matrix(X), sp.coo_array(X)], ids=["dense", "csr", "coo"])
def test_a_regressor_is_ridge_on_features(rows, intercept):
    model = regressor(fit_intercept=intercept).fit(rows, t)
    other = Ridge(0.3, fit_intercept=intercept).fit(features(), t)
    same(model, other)
    assert np.allclose(model.predict(rows), other.predict(features()), rtol=0, atol=1e-8)
    assert model.score(rows, t) == pytest.approx(other.score(features(), t), abs=1e-9)


@pytest.mark.parametrize("targets", [np.column_stack([t, -2 * t + X[:, 3]]), t[:, None]], ids=["two", "one column"])
def test_several_outputs_are_ridge_on_features(targets):
    model = regressor().fit(X, targets)
    other = Ridge(0.3).fit(features(), targets)
    assert model.coef_.shape == (targets.shape[1], 48)
    assert np.allclose(model.coef_, other.coef_, rtol=0, atol=1e-8)
    assert model.predict(X).shape == targets.shape
    assert np.allclose(model.predict(X), other.predict(features()).reshape(N, -1), rtol=0, atol=1e-8)


def test_targets_of_two_columns_in_an_npz_file_are_two_outputs(tmp_path):
    both = np.column_stack([t, -t])
    np.savez(tmp_path / "rows.npz", X=X, y=both)
    model = regressor().fit(tmp_path / "rows.npz")
    assert np.allclose(model.predict(X), regressor().fit(X, both).predict(X), rtol=0, atol=1e-10)


@pytest.mark.parametrize("weight", [None, "balanced", {0: 3.0, 2: 0.5}], ids=["plain", "balanced", "dict"])
@pytest.mark.parametrize("labels", [y, y == 1], ids=["three", "two"])
def test_a_classifier_is_a_ridge_classifier_on_features(weight, labels):
    weight = {bool(k): v for k, v in weight.items()} if isinstance(weight, dict) and labels.dtype == bool else weight
    model = classifier(class_weight=weight).fit(X, labels)
    other = RidgeClassifier(0.3, class_weight=weight).fit(features(), labels)
    same(model, other)
    assert np.allclose(model.decision_function(X), other.decision_function(features()), rtol=0, atol=1e-8)
    assert np.array_equal(model.predict(X), other.predict(features()))
    assert model.score(X, labels) == other.score(features(), labels)


@pytest.mark.parametrize("rows", [X, sp.csr_matrix(X)], ids=["dense", "csr"])
def test_pca_is_ridge_on_components_folded_back(rows):
    model = regressor(pca=7).fit(rows, t)
    other = make_pipeline(PCA(7, svd_solver="full"), Ridge(0.3)).fit(features(), t)
    assert np.allclose(model.predict(rows), other.predict(features()), rtol=0, atol=1e-8)
    assert not np.allclose(model.predict(rows), Ridge(0.3).fit(features(), t).predict(features()), atol=1e-3)


@pytest.mark.parametrize("alpha", [0.3, "gcv", [0.01, 1.0]])
def test_a_weight_is_a_number_of_equal_rows(alpha):
    again = np.repeat(np.arange(N), w)
    same(regressor(alpha).fit(X, t, w), regressor(alpha).fit(X[again], t[again]))
    for more in ({}, {"class_weight": "balanced"}):
        same(classifier(alpha, **more).fit(X, y, w), classifier(alpha, **more).fit(X[again], y[again]))


def test_single_precision_is_near_double():
    double, single = regressor().fit(X, t), regressor().fit(X.astype(np.float32), t)
    assert np.allclose(double.predict(X), single.predict(X.astype(np.float32)), rtol=0, atol=1e-4)


def left_out_errors(Z, alphas) -> list[float]:
    errors = []
    for alpha in alphas:
        others = [Ridge(alpha).fit(np.delete(Z, i, 0), np.delete(t[: len(Z)], i)) for i in range(len(Z))]
        errors.append(np.mean([(t[i] - other.predict(Z[i : i + 1])[0]) ** 2 for i, other in enumerate(others)]))
    return errors


def test_loo_leaves_rows_out_one_by_one():
    model = regressor("loo").fit(X[:40], t[:40])
    Z = features()[:40]
    some = [10, 13, 16]
    assert np.allclose(model.gcv_[some], left_out_errors(Z, model.alphas_[some]), rtol=1e-6)
    assert model.alpha_ == model.alphas_[np.argmin(model.gcv_)]
    same(model, Ridge(model.alpha_).fit(Z, t[:40]))


def test_gcv_is_its_formula():
    model = regressor("gcv").fit(X, t)
    Z = features() - features().mean(axis=0)
    assert np.allclose(model.alphas_, ALPHAS * np.trace(Z.T @ Z) / 48)
    for alpha, score in list(zip(model.alphas_, model.gcv_, strict=True))[8:18]:
        H = Z @ np.linalg.solve(Z.T @ Z + alpha * np.eye(48), Z.T) + 1 / N
        expected = N * np.sum((t - H @ t) ** 2) / (N - np.trace(H)) ** 2
        assert score == pytest.approx(expected, rel=1e-6)
    assert model.alpha_ == model.alphas_[np.argmin(model.gcv_)]
    same(model, Ridge(model.alpha_).fit(features(), t), 1e-6)


def test_auto_is_gcv_and_a_list_is_chosen_from():
    assert np.array_equal(regressor("auto").fit(X, t).coef_, regressor("gcv").fit(X, t).coef_)
    model = regressor([1e-3, 0.1, 1e5]).fit(X, t)
    assert model.alphas_.tolist() == [1e-3, 0.1, 1e5]
    assert model.alpha_ < 1e5
    with pytest.raises(AttributeError, match="a single alpha was given"):
        regressor(0.3).fit(X, t).gcv_  # noqa: B018


def test_kfold_trains_without_the_fold_that_it_measures():
    from mercer.philox import Rng

    fold = Rng(0).words("folds", 0, N) % np.uint64(5)
    model, Z = regressor("kfold").fit(X, t), features()
    for i in (8, 12, 16):
        error = 0.0
        for k in range(5):
            other = Ridge(model.alphas_[i]).fit(Z[fold != k], t[fold != k])
            error += np.sum((t[fold == k] - other.predict(Z[fold == k])) ** 2)
        assert model.gcv_[i] == pytest.approx(error / N, rel=1e-6)


@pytest.mark.parametrize("alpha", [0.3, [0.03, 0.3]])
def test_passes_give_what_moments_give(alpha):
    for make, targets in ((regressor, t), (regressor, np.column_stack([t, X[:, 2]])), (classifier, y)):
        for intercept in (True, False):
            one = make(alpha, fit_intercept=intercept, max_memory=SMALL).fit(X, targets)
            assert one.plan_.route == "passes"
            other = make(one.alpha_, fit_intercept=intercept).fit(X, targets)
            assert other.plan_.route == "moments"
            assert np.allclose(one.coef_, other.coef_, rtol=0, atol=1e-5 * np.abs(other.coef_).max())


def test_passes_balance_classes_like_moments():
    one = classifier(class_weight="balanced", max_memory=SMALL).fit(X, y)
    same(one, classifier(class_weight="balanced").fit(X, y), 1e-5)
    assert one.plan_.passes[0] == "classes and their weights"


def test_many_coded_columns_go_by_passes():
    model = KernelClassifier(GCWS(256, bits=8, random_state=0), alpha=1.0, max_memory="1GB").fit(X, y)
    assert (model.plan_.route, model.plan_.features) == ("passes", 65_536)
    other = RidgeClassifier(1.0, solver="lsqr", tol=1e-10).fit(GCWS(256, bits=8, random_state=0).fit_transform(X), y)
    assert np.allclose(model.coef_, other.coef_, rtol=0, atol=1e-5 * np.abs(other.coef_).max())
    assert model.score(X, y) > 0.9


def table(rows=X, targets=t) -> pa.Table:
    return pa.table({**dict(zip(NAMES, rows.T, strict=True)), "y": targets})


def folder_of(path, rows=X, targets=t, size=50):
    path.mkdir()
    for i, start in enumerate(range(0, len(rows), size)):
        part = table(rows[start : start + size], targets[start : start + size])
        pq.write_table(part, path / f"part-{i:03}.parquet")
    return path


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
    for model in (regressor().fit(X, t), regressor().fit(X, np.column_stack([t, -t])), classifier().fit(X, y)):
        path = tmp_path / f"out{suffix}"
        assert model.predict(X, out=path) == path
        expected = model.predict(X)
        assert np.array_equal(read(path), expected.reshape(N, -1))
    if suffix != ".npy":
        words = classifier().fit(X, np.array(["low", "mid", "high"])[y])
        words.predict(X, out=path)
        assert np.array_equal(read(path)[:, 0], words.predict(X))


def test_a_map_that_looks_counts_a_row_as_often_as_its_weight_says():
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
        np.testing.assert_allclose(weighted.predict(rows[w > 0]), plain.predict(rows[w > 0]), rtol=1e-6, atol=1e-8)


def test_predictions_are_written_into_an_array(tmp_path):
    np.save(tmp_path / "rows.npy", X)
    for model in (regressor().fit(X, t), regressor().fit(X, np.column_stack([t, -t])), classifier().fit(X, y)):
        expected = model.predict(X)
        out = np.empty_like(expected)
        assert model.predict(tmp_path / "rows.npy", out=out) is out
        assert np.array_equal(out, expected)


@pytest.mark.parametrize(
    "out",
    [np.empty(N - 1), np.empty(N + 1), np.empty((N, 1)), np.empty(N, int), [0.0] * N],
    ids=["short", "long", "2-d", "int", "list"],
)
def test_an_array_that_does_not_fit_is_refused(out):
    with pytest.raises(ValueError, match=r"out must be a path or a writeable array of float64 and shape \(240,\), got"):
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


@pytest.mark.parametrize("alpha", [0.3, "gcv", "kfold"])
def test_partial_fit_on_batches_is_fit_on_all(alpha):
    parts = [slice(0, 100), slice(100, 101), slice(101, N)]
    model, labels = regressor(alpha), classifier(alpha, class_weight={0: 2.0})
    for part in parts:
        model.partial_fit(X[part], t[part], w[part])
        labels.partial_fit(X[part], y[part], classes=[0, 1, 2])
    same(model, regressor(alpha).fit(X, t, w), 1e-7)
    same(labels, classifier(alpha, class_weight={0: 2.0}).fit(X, y), 1e-7)


def test_partial_fit_goes_on_from_fit():
    model = regressor().fit(X[:100], t[:100]).partial_fit(X[100:], t[100:])
    same(model, regressor().fit(X, t))
    labels = classifier().fit(X[:100], y[:100]).partial_fit(X[100:], y[100:], classes=[0, 1, 2])
    same(labels, classifier().fit(X, y))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"alpha": "kfold"}, r"alpha='kfold' with penalty='l2' has folds, unlike the moments of the rows before"),
        ({"penalty": "l1", "alpha": [1.0, 2.0]}, "has folds, unlike the moments of the rows before"),
        ({"penalty": "l0"}, "penalty must be one of 'l2', 'l1', 'group', got 'l0'"),
        ({"penalty": "l1", "alpha": 0.0}, "needs an alpha above 0"),
        ({"alpha": -1.0}, "alpha must be a number of at least 0"),
        ({"pca": 10**6}, "pca must be at most the number of features"),
    ],
)
def test_parameters_that_change_between_batches_are_judged(changed, words):
    model = regressor(0.3).partial_fit(X[:100], t[:100])
    kept = model.get_params(deep=False)
    with pytest.raises(ValueError, match=words):
        model.set_params(**changed).partial_fit(X[100:], t[100:])
    same(model.set_params(**kept).partial_fit(X[100:], t[100:]), regressor(0.3).fit(X, t), 1e-7)
    folds = regressor("kfold").partial_fit(X[:100], t[:100]).set_params(alpha=1.0)
    with pytest.raises(ValueError, match="has no folds, unlike the moments of the rows before"):
        folds.partial_fit(X[100:], t[100:])


def test_a_map_that_looks_sees_the_first_batch():
    model = regressor(feature_map=RandomFourier(32, random_state=0)).partial_fit(X[:50], t[:50])
    gamma = model.feature_map_.kernel_.gamma
    assert model.partial_fit(10 * X[50:], t[50:]).feature_map_.kernel_.gamma == gamma
    assert gamma == RandomFourier(32, random_state=0).fit(X[:50]).kernel_.gamma


def test_a_batch_that_is_refused_changes_nothing():
    model = classifier().partial_fit(X[:100], y[:100], classes=[0, 1, 2])
    before = model.coef_
    with pytest.raises(ValueError, match=r"y has the label 7, which is not among \[0, 1, 2\]"):
        model.partial_fit(X[100:], np.where(y[100:] == 1, 7, y[100:]))
    with pytest.raises(ValueError, match="not the same as on the first call"):
        model.partial_fit(X[100:], y[100:], classes=[0, 1])
    with pytest.raises(ValueError, match="requires y"):
        model.partial_fit(X[100:])
    assert np.array_equal(model.coef_, before)
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        classifier().partial_fit(X, y)
    for wrong in ({"alpha": "loo"}, {"max_memory": SMALL}):
        with pytest.raises(ValueError, match="partial_fit adds moments"):
            regressor(**wrong).partial_fit(X, t)


@pytest.mark.parametrize("memory", [None, SMALL], ids=["moments", "passes"])
@pytest.mark.parametrize(
    "labels",
    [
        np.array(["low", "mid", "high"])[y],
        np.array(["low", "mid", "high"], dtype=object)[y],
        y == 1,
        y.astype(np.int8) - 1,
        y.astype(float),
    ],
    ids=["str", "object", "bool", "int8", "float"],
)
def test_labels_come_back_as_they_were(labels, memory):
    model = classifier(max_memory=memory).fit(X, labels)
    assert np.array_equal(model.classes_, np.unique(labels))
    assert model.classes_.dtype == labels.dtype
    predicted = model.predict(X)
    assert predicted.dtype == labels.dtype
    assert np.mean(predicted == labels) > 0.8


def test_labels_from_files_are_those_of_memory(tmp_path):
    for labels in (np.array(["low", "mid", "high"])[y], y == 1):
        pq.write_table(table(targets=labels), tmp_path / "rows.parquet")
        model = classifier(class_weight="balanced").fit(open_stream(tmp_path / "rows.parquet", target="y"))
        expected = classifier(class_weight="balanced").fit(X, labels)
        predicted = model.predict(open_stream(tmp_path / "rows.parquet", columns=NAMES))
        assert predicted.tolist() == expected.predict(X).tolist()
        assert model.score(open_stream(tmp_path / "rows.parquet", target="y")) == expected.score(X, labels)


def test_names_of_columns_are_kept_and_compared(tmp_path):
    frame = pd.DataFrame(X, columns=NAMES)
    model = regressor().fit(frame, t)
    assert model.feature_names_in_.tolist() == NAMES
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[NAMES[::-1]])
    pq.write_table(table().drop(["y"]).select(NAMES[::-1]), tmp_path / "turned.parquet")
    words = r"turned.parquet has the column 'c3' where KernelRegressor was fitted on 'c0'.*columns="
    with pytest.raises(ValueError, match=words):
        model.predict(tmp_path / "turned.parquet")
    ordered = open_stream(tmp_path / "turned.parquet", columns=NAMES)
    assert np.allclose(model.predict(ordered), model.predict(frame), rtol=0, atol=1e-10)
    frame.iloc[5, 2] = np.nan
    with pytest.raises(ValueError, match=r"row 5, column 2 \('c2'\)"):
        regressor().fit(frame, t)


def test_clone_pickle_and_parameters():
    model = classifier(alpha="gcv", class_weight="balanced", max_memory="1GB", n_jobs=1).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.decision_function(X), model.decision_function(X))
    assert np.array_equal(clone(model).fit(X, y).coef_, model.coef_)
    assert clone(model).get_params()["feature_map__gamma"] == 2.0
    with pytest.raises(NotFittedError):
        clone(model).predict(X)
    with pytest.raises(NotFittedError):
        clone(model).coef_  # noqa: B018


def test_grid_search_and_pipelines():
    search = GridSearchCV(regressor(), {"alpha": [1e-2, 1e6], "feature_map__gamma": [2.0, 1e-9]}, cv=3).fit(X, t)
    assert search.best_params_ == {"alpha": 1e-2, "feature_map__gamma": 2.0}
    piped = make_pipeline(StandardScaler(), classifier()).fit(X, y)
    scaled = StandardScaler().fit_transform(X)
    assert np.array_equal(piped.predict(X), classifier().fit(scaled, y).predict(scaled))


def test_the_seed_of_the_map_wins():
    free = RandomFourier(48, gamma=2.0)
    one = KernelRegressor(free, alpha=0.3, random_state=0).fit(X, t)
    assert np.array_equal(one.coef_, regressor().fit(X, t).coef_)  # the map's own seed is 0 there
    assert np.array_equal(regressor(random_state=7).fit(X, t).coef_, one.coef_)
    assert not np.allclose(KernelRegressor(free, alpha=0.3, random_state=1).fit(X, t).coef_, one.coef_)
    assert free.random_state is None and not hasattr(free, "drawn_")


def test_two_maps_get_seeds_of_their_own():
    both = RandomFourier(16, gamma=2.0) + RandomFourier(16, gamma=2.0)
    model = KernelRegressor(both, alpha=0.3, random_state=0).fit(X, t)
    Z = model.feature_map_.transform(X)
    assert not np.allclose(Z[:, :16], Z[:, 16:])
    again = KernelRegressor(both, alpha=0.3, random_state=0).fit(X, t)
    assert np.array_equal(again.coef_, model.coef_)


@pytest.mark.parametrize("alpha", ["kfold", "loo", "gcv"])
def test_a_map_with_a_seed_makes_one_model(alpha):
    assert np.array_equal(regressor(alpha).fit(X, t).coef_, regressor(alpha).fit(X, t).coef_)
    passes = [regressor("auto", max_memory=SMALL).fit(X, t).coef_ for _ in range(2)]
    assert np.array_equal(*passes)


def test_a_map_by_name():
    assert type(KernelClassifier("hellinger").fit(X, y).feature_map_).__name__ == "Hellinger"
    with pytest.raises(ValueError, match=r"feature_map must be one of .*'exp-chi2'.*got 'exp-chi'"):
        KernelClassifier("exp-chi").fit(X, y)
    with pytest.raises(ValueError, match="feature_map must be a mercer map"):
        KernelClassifier(StandardScaler()).fit(X, y)


def test_threads_change_no_bit():
    rows = np.random.default_rng(1).random((4000, 6))
    targets = rows[:, 0] * rows[:, 1]
    for make, wanted in ((regressor, targets), (classifier, targets > 0.2)):
        models = [
            make(alpha, feature_map=RandomFourier(256, gamma=1.0, random_state=0), n_jobs=n).fit(rows, wanted)
            for alpha in (0.3, "gcv")
            for n in (1, 2)
        ]
        for one, two in (models[:2], models[2:]):
            assert np.array_equal(one.coef_, two.coef_)
            assert np.array_equal(one.predict(rows), two.predict(rows))


def test_a_checkpoint_is_gone_on_from_bit_for_bit(tmp_path, monkeypatch):
    monkeypatch.setattr(planner, "_LEAST_BLOCK", 64)
    monkeypatch.setattr(planner, "_MOST_BLOCK", 64)
    rows = np.random.default_rng(1).random((64 * 16 * 4 + 5, 3), dtype=np.float32)  # four shards and some rows
    np.savez(tmp_path / "rows.npz", X=rows, y=rows[:, 0] > rows[:, 1])
    free = RandomFourier(64, gamma=1.0)

    def model(**more):
        return KernelClassifier(free, alpha=0.3, checkpoint=tmp_path / "sum", **more)

    def stop(done, of):
        if done > 64 * 16 * 2:
            raise KeyboardInterrupt

    broken = model(verbose=2)
    broken._progress = lambda: stop
    with pytest.raises(KeyboardInterrupt):
        broken.fit(tmp_path / "rows.npz")
    assert (tmp_path / "sum").exists()
    resumed = model().fit(tmp_path / "rows.npz")  # without a seed: the checkpoint has it
    assert resumed.seed_ == broken.seed_
    whole = KernelClassifier(free, alpha=0.3, random_state=resumed.seed_).fit(tmp_path / "rows.npz")
    assert np.array_equal(resumed.coef_, whole.coef_)
    assert np.array_equal(model().fit(tmp_path / "rows.npz").coef_, whole.coef_)
    with pytest.raises(ValueError, match="cannot be resumed"):
        model(random_state=1).fit(tmp_path / "rows.npz")


def test_verbose_prints_the_plan(capsys):
    model = classifier(class_weight="balanced", verbose=1).fit(X, y)
    said = capsys.readouterr().out
    assert said == f"KernelClassifier: {model.plan_}\n"
    assert "240 rows x 4 columns -> 48 features; least squares from moments" in said
    assert "Passes: classes and their weights, moments." in said
    classifier().fit(X, y)
    assert capsys.readouterr().out == ""


def test_the_plan_counts_passes_as_they_are_made():
    """Passes over labels alone, and over features, as many as the plan says."""
    from mercer.streams.memory import ArrayStream

    class Counting(ArrayStream):
        passes = 0

        def _read(self, start, rows):
            Counting.passes += 1
            return super()._read(start, rows)

    for feature_map, more in (
        (fourier(), {}),
        (fourier(), {"alpha": "loo"}),
        (fourier(), {"class_weight": "balanced"}),
        (RandomFourier(48, random_state=0), {"class_weight": "balanced"}),
        (RandomFourier(48, random_state=0) >> fourier(), {}),
    ):
        Counting.passes = 0
        model = classifier(feature_map=feature_map, **more).fit(Counting(X).beside(y, None))
        assert Counting.passes == len(model.plan_.passes), model.plan_


def test_the_plan_goes_by_memory():
    whole = plan_fit(None, 10, 1000, limit=10**9)
    assert (whole.route, whole.held) == ("moments", 32_000_000)
    assert plan_fit(None, 10, 1000, limit=whole.held - 1).route == "passes"
    assert plan_fit(None, 10, 1000, limit=10**9, folds=5).held > 2 * whole.held
    assert "rows of unknown number" in str(whole)


def test_more_features_than_rows():
    wide = RandomFourier(150, gamma=2.0, random_state=0)
    model = KernelRegressor(wide).fit(X[:50], t[:50])
    assert model.score(X[50:], t[50:]) > 0.5
    same(regressor(feature_map=wide).fit(X[:50], t[:50]), Ridge(0.3).fit(wide.fit_transform(X[:50]), t[:50]))
    least = regressor(0, feature_map=wide).fit(X[:50], t[:50])
    assert np.allclose(least.predict(X[:50]), t[:50], rtol=0, atol=1e-6)


def test_one_row():
    for alpha in ("auto", "gcv", "kfold", "loo", [1.0, 2.0]):
        with pytest.raises(ValueError, match=r"one sample only. Give more rows, or a number for alpha"):
            regressor(alpha).fit(X[:1], t[:1])
    assert np.allclose(regressor().fit(X[:1], t[:1]).predict(X[:3]), t[0])
    model = regressor("auto").partial_fit(X[:1], t[:1])
    for i in range(1, 100):
        model.partial_fit(X[i : i + 1], t[i : i + 1])
    same(model, regressor("auto").fit(X[:100], t[:100]), 1e-6)


@pytest.mark.parametrize("more", [{}, {"class_weight": "balanced"}, {"max_memory": SMALL}])
def test_one_class(more):
    with pytest.raises(ValueError, match="KernelClassifier needs rows of at least two classes, got one class: 'a'"):
        classifier(**more).fit(X, ["a"] * N)


def test_empty_sources(tmp_path):
    np.save(tmp_path / "empty.npy", X[:0])
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty.csv").write_text("a,b,y\n")
    for source, words in (
        (tmp_path / "empty.npy", "empty.npy has no rows"),
        (tmp_path / "folder", "has no .parquet files"),
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
    with pytest.raises(ValueError, match=r"KernelRegressor needs a target in every row, got (nan|inf|None) at row 7"):
        regressor().fit(X, bad)
    words = ["a" if i % 2 else "b" for i in range(N)]
    words[9] = None
    with pytest.raises(ValueError, match="KernelClassifier needs a target in every row, got None at row 9"):
        classifier().fit(X, words)
    folder = folder_of(tmp_path / "parquet", targets=np.array(bad, dtype=float))
    with pytest.raises(ValueError, match=r"target 'y' needs a value in every row.*part-000.parquet, row 7 of the file"):
        regressor().fit(open_stream(folder, target="y"))


def test_a_nan_in_a_late_block_is_named_and_nothing_is_half_written(tmp_path):
    rows = np.random.default_rng(1).random((2000, D))
    rows[37 * 50 + 11, 2] = np.nan
    folder = folder_of(tmp_path / "parquet", rows, np.arange(2000.0))
    words = r"got nan at part-037.parquet, row 11 of the file, column 2 \('c2'\)"
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
    assert np.array_equal(model.fit(X, t).coef_, regressor().fit(X, t).coef_)
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
    with pytest.raises(ValueError, match=r"part-009.parquet has no column 'c2', which part-000.parquet has"):
        regressor().fit(open_stream(folder, target="y"))
    np.save(tmp_path / "narrow.npy", X[:, :3])
    with pytest.raises(ValueError, match=r"narrow.npy has 3 columns, but KernelRegressor is expecting 4"):
        regressor().fit(X, t).predict(tmp_path / "narrow.npy")


def test_a_target_that_is_not_there(tmp_path):
    folder = folder_of(tmp_path / "parquet")
    with pytest.raises(ValueError, match=r"no column 'Y' \(target\). Its columns: 'c0', 'c1', 'c2', 'c3', 'y'"):
        open_stream(folder, target="Y")
    with pytest.raises(ValueError, match="KernelRegressor requires y: open the rows with a target"):
        regressor().fit(folder)
    with pytest.raises(ValueError, match="score needs y"):
        regressor().fit(X, t).score(open_stream(folder, columns=NAMES))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: regressor(-1.0).fit(X, t), "alpha must be a number of at least 0, a list"),
        (lambda: regressor("best").fit(X, t), "alpha must be one of 'auto', 'gcv', 'kfold', 'loo', got 'best'"),
        (lambda: regressor("gcv", max_memory=SMALL).fit(X, t), "alpha='gcv' needs moments.*Use 'auto'"),
        (lambda: regressor(0, max_memory=SMALL).fit(X, t), "alpha = 0 needs moments"),
        (lambda: regressor(pca=3, max_memory=SMALL).fit(X, t), "pca=3 needs the moments of 48 features"),
        (lambda: regressor(checkpoint="a", max_memory=SMALL).fit(X, t), "checkpoint='a' needs the moments"),
        (lambda: regressor(pca=49).fit(X, t), "pca must be at most the number of features of a map, 48, got 49"),
        (lambda: regressor(max_memory="much").fit(X, t), "max_memory must be a number of bytes"),
        (lambda: regressor(fit_intercept="no").fit(X, t), "fit_intercept must be True or False"),
        (lambda: classifier(loss="hinge").fit(X, y), "loss must be 'squared'|loss must be one of 'squared'"),
        (lambda: classifier().fit(X, t), "Unknown label type: continuous"),
        (lambda: classifier().fit(open_stream((X, t))), "Unknown label type: continuous.*use KernelRegressor"),
        (lambda: classifier(class_weight={7: 1.0}).fit(X, y), "class_weight has the label 7.*among .0, 1, 2"),
        (lambda: classifier(class_weight={1: -1.0}).fit(X, y), "got -1.0 for the label 1"),
        (lambda: classifier(class_weight="even").fit(X, y), "class_weight must be None, 'balanced' or a dict"),
    ],
)
def test_wrong_parameters_in_words(make, words):
    with pytest.raises(ValueError, match=words):
        make()
