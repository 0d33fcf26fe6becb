"""KernelRegressor and KernelClassifier equal scikit-learn on materialized features."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectFromModel
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.helpers.estimator_data import (
    NAMES,
    SMALL,
    N,
    X,
    classifier,
    fourier,
    regressor,
    same,
    t,
    table,
    w,
    y,
)
from tests.helpers.plans import problem_of

from mercer import (
    GCWS,
    Chi2Series,
    Identity,
    KernelClassifier,
    KernelRegressor,
    RandomFourier,
    open_stream,
)
from mercer.data.row_keys import fold_numbers, row_keys
from mercer.linear_model.routes import Settings, plan_alpha
from mercer.linear_model.solvers.ridge import ALPHAS


def features(rows=X) -> np.ndarray:
    return fourier().fit(X).transform(rows)


@parametrize_with_checks(
    [
        KernelRegressor(RandomFourier(64, gamma=0.05, random_state=0)),
        KernelClassifier(Chi2Series(2, poles="minimax", signed=True)),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(
    "rows", [X, sp.csr_matrix(X), sp.coo_array(X)], ids=["dense", "csr", "coo"]
)
def test_a_regressor_is_ridge_on_features(rows, intercept):
    model = regressor(fit_intercept=intercept).fit(rows, t)
    other = Ridge(0.3, fit_intercept=intercept).fit(features(), t)
    same(model, other)
    assert np.allclose(model.predict(rows), other.predict(features()), rtol=0, atol=1e-8)
    assert model.score(rows, t) == pytest.approx(other.score(features(), t), abs=1e-9)


@pytest.mark.parametrize(
    "targets", [np.column_stack([t, -2 * t + X[:, 3]]), t[:, None]], ids=["two", "one column"]
)
def test_several_outputs_are_ridge_on_features(targets):
    model = regressor().fit(X, targets)
    other = Ridge(0.3).fit(features(), targets)
    assert model.feature_coef_.shape == (targets.shape[1], 48)
    assert np.allclose(model.feature_coef_, other.coef_, rtol=0, atol=1e-8)
    assert model.predict(X).shape == targets.shape
    assert np.allclose(
        model.predict(X), other.predict(features()).reshape(N, -1), rtol=0, atol=1e-8
    )


def test_targets_of_two_columns_in_an_npz_file_are_two_outputs(tmp_path):
    both = np.column_stack([t, -t])
    np.savez(tmp_path / "rows.npz", X=X, y=both)
    model = regressor().fit(tmp_path / "rows.npz")
    assert np.allclose(model.predict(X), regressor().fit(X, both).predict(X), rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    "weight", [None, "balanced", {0: 3.0, 2: 0.5}], ids=["plain", "balanced", "dict"]
)
@pytest.mark.parametrize("labels", [y, y == 1], ids=["three", "two"])
def test_a_classifier_is_a_ridge_classifier_on_features(weight, labels):
    weight = (
        {bool(k): v for k, v in weight.items()}
        if isinstance(weight, dict) and labels.dtype == bool
        else weight
    )
    model = classifier(class_weight=weight).fit(X, labels)
    other = RidgeClassifier(0.3, class_weight=weight).fit(features(), labels)
    same(model, other)
    assert np.allclose(
        model.decision_function(X), other.decision_function(features()), rtol=0, atol=1e-8
    )
    assert np.array_equal(model.predict(X), other.predict(features()))
    assert model.score(X, labels) == other.score(features(), labels)


@pytest.mark.parametrize("rows", [X, sp.csr_matrix(X)], ids=["dense", "csr"])
def test_pca_is_ridge_on_components_folded_back(rows):
    model = regressor(pca=7).fit(rows, t)
    other = make_pipeline(PCA(7, svd_solver="full"), Ridge(0.3)).fit(features(), t)
    assert np.allclose(model.predict(rows), other.predict(features()), rtol=0, atol=1e-8)
    assert not np.allclose(
        model.predict(rows), Ridge(0.3).fit(features(), t).predict(features()), atol=1e-3
    )


@pytest.mark.parametrize("alpha", [0.3, "gcv", [0.01, 1.0]])
def test_a_weight_is_a_number_of_equal_rows(alpha):
    again = np.repeat(np.arange(N), w)
    same(regressor(alpha).fit(X, t, w), regressor(alpha).fit(X[again], t[again]))
    for more in ({}, {"class_weight": "balanced"}):
        same(
            classifier(alpha, **more).fit(X, y, w),
            classifier(alpha, **more).fit(X[again], y[again]),
        )


def test_single_precision_is_near_double():
    double, single = regressor().fit(X, t), regressor().fit(X.astype(np.float32), t)
    assert np.allclose(double.predict(X), single.predict(X.astype(np.float32)), rtol=0, atol=1e-4)


def left_out_errors(Z, alphas) -> list[float]:
    errors = []
    for alpha in alphas:
        others = [
            Ridge(alpha).fit(np.delete(Z, i, 0), np.delete(t[: len(Z)], i)) for i in range(len(Z))
        ]
        errors.append(
            np.mean(
                [(t[i] - other.predict(Z[i : i + 1])[0]) ** 2 for i, other in enumerate(others)]
            )
        )
    return errors


def test_loo_leaves_rows_out_one_by_one():
    model = regressor("loo").fit(X[:40], t[:40])
    Z = features()[:40]
    some = [10, 13, 16]
    assert np.allclose(
        model.alpha_scores_[some], left_out_errors(Z, model.alphas_[some]), rtol=1e-6
    )
    assert model.alpha_ == model.alphas_[np.argmin(model.alpha_scores_)]
    same(model, Ridge(model.alpha_).fit(Z, t[:40]))


def test_gcv_is_its_formula():
    model = regressor("gcv").fit(X, t)
    Z = features() - features().mean(axis=0)
    assert np.allclose(model.alphas_[-25:], ALPHAS * np.trace(Z.T @ Z) / 48)
    for alpha, score in list(zip(model.alphas_, model.alpha_scores_, strict=True))[8:18]:
        H = Z @ np.linalg.solve(Z.T @ Z + alpha * np.eye(48), Z.T) + 1 / N
        expected = N * np.sum((t - H @ t) ** 2) / (N - np.trace(H)) ** 2
        assert score == pytest.approx(expected, rel=1e-6)
    assert model.alpha_ == model.alphas_[np.argmin(model.alpha_scores_)]
    same(model, Ridge(model.alpha_).fit(features(), t), 1e-6)


def test_a_list_is_chosen_from():
    model = regressor([1e-3, 0.1, 1e5]).fit(X, t)
    assert model.alphas_.tolist() == [1e-3, 0.1, 1e5]
    assert model.alpha_ < 1e5
    with pytest.raises(AttributeError, match="a single alpha was given"):
        regressor(0.3).fit(X, t).alpha_scores_  # noqa: B018


@pytest.mark.parametrize("alpha", ["auto", [0.01, 0.1, 1.0]])
def test_auto_is_leave_one_out_for_few_rows_and_k_fold_where_rows_are_read_once(alpha):
    assert regressor(alpha).fit(X, t).plan_.alpha_method == "loo"
    assert regressor(alpha).partial_fit(X, t).plan_.alpha_method == "kfold"
    settings = Settings("KernelRegressor", alpha)
    assert settings.alpha_methods(20_000, 100) == ("loo",)
    many = settings.alpha_methods(20_001, 100)
    assert many == settings.alpha_methods(None, 100) == ("kfold", "loo")
    assert replace(settings, cluster=True).alpha_methods(10, 100) == ("kfold", "gcv")
    assert settings.alpha_methods(2048, 5000) == settings.alpha_methods(20_000, 1024) == ("loo",)
    for rows in (2049, 20_000, 30_000):
        assert settings.alpha_methods(rows, 1025) == ("held-out", "loo")
    if alpha == "auto":
        same(regressor(alpha).fit(X, t), regressor("loo").fit(X, t), 0)


def test_auto_reads_rows_again_where_normal_equations_of_folds_exceed_the_memory():
    problem = problem_of(10**6, 5, 1000, limit=8 * 1000**2 * 6)
    plan = plan_alpha(problem)
    assert (plan.route, plan.alpha_method) == ("moments", "loo")
    plan = plan_alpha(problem_of(10**6, 5, 1000, limit=8 * 1000**2 * 6, cluster=True))
    assert (plan.route, plan.alpha_method) == ("moments", "gcv")
    plan = plan_alpha(replace(problem, limit=8 * 1000**2 * 17))
    assert (plan.route, plan.alpha_method) == ("moments", "kfold")
    plan = plan_alpha(replace(problem, limit=1000))
    assert (plan.route, plan.alpha_method) == ("passes", None)


def test_kfold_trains_without_the_fold_that_it_measures():
    fold = fold_numbers(row_keys(X), 5)
    assert np.bincount(fold).min() > N / 10
    model, Z = regressor("kfold").fit(X, t), features()
    for i in (8, 12, 16):
        error = 0.0
        for k in range(5):
            other = Ridge(model.alphas_[i]).fit(Z[fold != k], t[fold != k])
            error += np.sum((t[fold == k] - other.predict(Z[fold == k])) ** 2)
        assert model.alpha_scores_[i] == pytest.approx(error / N, rel=1e-6)


@pytest.mark.parametrize("alpha", [0.3, [0.03, 0.3]])
def test_passes_give_what_moments_give(alpha):
    for make, targets in (
        (regressor, t),
        (regressor, np.column_stack([t, X[:, 2]])),
        (classifier, y),
    ):
        for intercept in (True, False):
            one = make(alpha, fit_intercept=intercept, max_memory=SMALL).fit(X, targets)
            assert one.plan_.route == "passes"
            other = make(one.alpha_, fit_intercept=intercept).fit(X, targets)
            assert other.plan_.route == "moments"
            assert np.allclose(
                one.feature_coef_,
                other.feature_coef_,
                rtol=0,
                atol=1e-5 * np.abs(other.feature_coef_).max(),
            )


def test_passes_balance_classes_like_moments():
    one = classifier(class_weight="balanced", max_memory=SMALL).fit(X, y)
    same(one, classifier(class_weight="balanced").fit(X, y), 1e-5)
    assert one.plan_.passes[0] == "class weights"


@pytest.mark.parametrize(("memory", "route"), [("1GB", "gram"), (SMALL, "passes")])
def test_many_coded_columns_go_by_the_gram_matrix_or_by_passes(memory, route):
    model = KernelClassifier(GCWS(256, bits=8, random_state=0), alpha=1.0, max_memory=memory).fit(
        X, y
    )
    assert (model.plan_.route, model.plan_.features) == (route, 65_536)
    other = RidgeClassifier(1.0, solver="lsqr", tol=1e-10).fit(
        GCWS(256, bits=8, random_state=0).fit_transform(X), y
    )
    Z = model.feature_map_.transform(X)
    scores = other.decision_function(Z)
    assert np.allclose(model.decision_function(X), scores, rtol=0, atol=2e-5 * np.abs(scores).max())
    assert model.score(X, y) > 0.9


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
        model = classifier(class_weight="balanced").fit(
            open_stream(tmp_path / "rows.parquet", target="y")
        )
        expected = classifier(class_weight="balanced").fit(X, labels)
        predicted = model.predict(open_stream(tmp_path / "rows.parquet", columns=NAMES))
        assert predicted.tolist() == expected.predict(X).tolist()
        assert model.score(open_stream(tmp_path / "rows.parquet", target="y")) == expected.score(
            X, labels
        )


def test_names_of_columns_are_kept_and_compared(tmp_path):
    frame = pd.DataFrame(X.copy(), columns=NAMES)  # without copy() pandas 2 shares the memory of X
    model = regressor().fit(frame, t)
    assert model.feature_names_in_.tolist() == NAMES
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[NAMES[::-1]])
    pq.write_table(table().drop(["y"]).select(NAMES[::-1]), tmp_path / "turned.parquet")
    words = r"turned.parquet has the column 'c3' where KernelRegressor was fitted on 'c0'.*columns="
    with pytest.raises(ValueError, match=words):
        model.predict(open_stream(tmp_path / "turned.parquet"))
    for turned in (
        tmp_path / "turned.parquet",
        open_stream(tmp_path / "turned.parquet", columns=NAMES),
    ):
        assert np.allclose(model.predict(turned), model.predict(frame), rtol=0, atol=1e-10)
    frame.iloc[5, 2] = np.inf
    with pytest.raises(ValueError, match=r"row 5, column 2 \('c2'\)"):
        regressor().fit(frame, t)


def test_clone_pickle_and_parameters():
    model = classifier(alpha="gcv", class_weight="balanced", max_memory="1GB", n_jobs=1).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.decision_function(X), model.decision_function(X))
    assert np.array_equal(clone(model).fit(X, y).feature_coef_, model.feature_coef_)
    assert clone(model).get_params()["feature_map__gamma"] == 2.0
    with pytest.raises(NotFittedError):
        clone(model).predict(X)
    with pytest.raises(NotFittedError):
        clone(model).feature_coef_  # noqa: B018


def test_grid_search_and_pipelines():
    search = GridSearchCV(
        regressor(), {"alpha": [1e-2, 1e6], "feature_map__gamma": [2.0, 1e-9]}, cv=3
    ).fit(X, t)
    assert search.best_params_ == {"alpha": 1e-2, "feature_map__gamma": 2.0}
    piped = make_pipeline(StandardScaler(), classifier()).fit(X, y)
    scaled = StandardScaler().fit_transform(X)
    assert np.array_equal(piped.predict(X), classifier().fit(scaled, y).predict(scaled))


def test_the_seed_of_the_map_wins():
    free = RandomFourier(48, gamma=2.0)
    one = KernelRegressor(free, alpha=0.3, random_state=0).fit(X, t)
    assert np.array_equal(
        one.feature_coef_, regressor().fit(X, t).feature_coef_
    )  # the map's own seed is 0 there
    assert np.array_equal(regressor(random_state=7).fit(X, t).feature_coef_, one.feature_coef_)
    assert not np.allclose(
        KernelRegressor(free, alpha=0.3, random_state=1).fit(X, t).feature_coef_, one.feature_coef_
    )
    assert free.random_state is None and not hasattr(free, "drawn_")


def test_two_maps_get_seeds_of_their_own():
    both = RandomFourier(16, gamma=2.0) + RandomFourier(16, gamma=2.0)
    model = KernelRegressor(both, alpha=0.3, random_state=0).fit(X, t)
    Z = model.feature_map_.transform(X)
    assert not np.allclose(Z[:, :16], Z[:, 16:])
    again = KernelRegressor(both, alpha=0.3, random_state=0).fit(X, t)
    assert np.array_equal(again.feature_coef_, model.feature_coef_)


@pytest.mark.parametrize("alpha", ["kfold", "loo", "gcv"])
def test_a_map_with_a_seed_makes_one_model(alpha):
    assert np.array_equal(
        regressor(alpha).fit(X, t).feature_coef_, regressor(alpha).fit(X, t).feature_coef_
    )
    passes = [regressor("auto", max_memory=SMALL).fit(X, t).feature_coef_ for _ in range(2)]
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
            make(alpha, feature_map=RandomFourier(256, gamma=1.0, random_state=0), n_jobs=n).fit(
                rows, wanted
            )
            for alpha in (0.3, "gcv")
            for n in (1, 2)
        ]
        for one, two in (models[:2], models[2:]):
            assert np.array_equal(one.feature_coef_, two.feature_coef_)
            assert np.array_equal(one.predict(rows), two.predict(rows))


@pytest.mark.parametrize(("make", "targets"), [(regressor, t), (classifier, y)])
def test_coefficients_of_features_are_not_taken_for_those_of_columns(make, targets):
    model = make().fit(X, targets)
    assert model.feature_coef_.shape[-1] == 48
    assert not hasattr(model, "coef_")
    words = "no coef_: it is linear in the 48 features of its map, not in the 4 columns of X.*feat"
    with pytest.raises(AttributeError, match=words):
        model.coef_  # noqa: B018
    with pytest.raises(ValueError, match="importance_getter"):
        SelectFromModel(model, prefit=True).transform(X)
    as_wide = make(feature_map=RandomFourier(4, random_state=0)).fit(X, targets)
    assert as_wide.feature_coef_.shape[-1] == 4
    assert not hasattr(as_wide, "coef_")


def test_a_linear_model_has_coefficients_of_columns():
    for feature_map in ("linear", Identity()):
        model = KernelRegressor(feature_map, alpha=0.3).fit(X, t)
        np.testing.assert_allclose(model.coef_, Ridge(0.3).fit(X, t).coef_, rtol=0, atol=1e-9)
        chosen = SelectFromModel(model, prefit=True, max_features=1, threshold=-np.inf)
        assert chosen.transform(X).shape == (N, 1)


def test_scores_with_weights_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    rows = rng.random((200, 3))
    numbers, labels = rows[:, 0] + rng.normal(size=200), rng.integers(0, 2, 200)
    weights = rng.random(200) * (rows[:, 0] > 0.5)
    for model, truth, score in (
        (KernelRegressor(RandomFourier(16, random_state=0), alpha=1.0), numbers, r2_score),
        (KernelClassifier(RandomFourier(16, random_state=0), alpha=1.0), labels, accuracy_score),
    ):
        model.fit(rows, truth)
        plain, weighted = model.score(rows, truth), model.score(rows, truth, sample_weight=weights)
        assert plain == pytest.approx(score(truth, model.predict(rows)))
        expected = score(truth, model.predict(rows), sample_weight=weights)
        assert weighted == pytest.approx(expected) and abs(weighted - plain) > 1e-3
