"""Metrics that KernelRegressor and KernelClassifier learn from targets."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone

import mercer
from mercer import (
    Chi2Series,
    Hellinger,
    KernelClassifier,
    KernelRegressor,
    Metric,
    RandomFourier,
    Scaled,
    open_stream,
)
from mercer.linear_model.metric import GradientOuterProducts, LabeledSample
from mercer.maps.block import as_block


def two_of_ten(n: int = 600, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(seed).normal(size=(n, 10))
    return X, np.sin(2 * X[:, 3]) * X[:, 7]


def metric_of(model) -> Metric:
    return next(part for part in model.feature_map_.maps_ if isinstance(part, Metric))


@pytest.mark.parametrize(
    "kernel",
    [
        "gaussian",
        *(pytest.param(k, marks=pytest.mark.full) for k in ("laplacian", "cauchy", "matern")),
    ],
)
def test_columns_that_matter_are_found_and_the_error_falls(kernel):
    X, y = two_of_ten(800)
    fourier = RandomFourier(256, kernel=kernel)
    model = KernelRegressor(Metric() >> fourier, random_state=0).fit(X[:600], y[:600])
    plain = KernelRegressor(fourier, random_state=0).fit(X[:600], y[:600])
    assert set(np.argsort(model.importances_)[-2:]) == {3, 7}
    assert model.importances_[[3, 7]].sum() > 0.75
    assert model.score(X[600:], y[600:]) > 0.8
    assert plain.score(X[600:], y[600:]) < 0.5


@pytest.mark.full
def test_combinations_of_columns_are_found_by_a_full_metric_only():
    X = np.random.default_rng(0).normal(size=(900, 8))
    direction = np.array([1, -1, 1, 1, -1, 1, 1, -1]) / np.sqrt(8)
    y = np.sin(2 * X @ direction)
    full, diagonal = (
        KernelRegressor(Metric(kind=kind) >> RandomFourier(256), random_state=0).fit(
            X[:600], y[:600]
        )
        for kind in ("full", "diagonal")
    )
    M = metric_of(full).metric_
    assert direction @ M @ direction > 0.9 * np.trace(M)
    assert metric_of(diagonal).metric_.shape == (8,)
    assert full.score(X[600:], y[600:]) > 0.95 > diagonal.score(X[600:], y[600:]) + 0.1


@pytest.mark.full
def test_a_classifier_learns_a_metric_from_its_classes():
    X, score = two_of_ten(900)
    y = np.array(["low", "middle", "high"])[np.digitize(score, [-0.3, 0.3])]
    model = KernelClassifier(Metric() >> RandomFourier(256), loss="log_loss", random_state=0)
    model.fit(X[:600], y[:600])
    assert set(np.argsort(model.importances_)[-2:]) == {3, 7}
    plain = KernelClassifier(RandomFourier(256), random_state=0).fit(X[:600], y[:600])
    assert model.score(X[600:], y[600:]) > plain.score(X[600:], y[600:]) + 0.15


@pytest.mark.full
def test_metric_learned_is_metric_in_front_of_the_map_behind_scaled_columns():
    X, y = two_of_ten(300)
    X = X * 10.0 ** np.arange(-5, 5)
    short = KernelRegressor(RandomFourier(128), metric="learned", random_state=0).fit(X, y)
    long = KernelRegressor(Metric() >> RandomFourier(128), random_state=0).fit(X, y)
    longest = KernelRegressor(Scaled() >> Metric() >> RandomFourier(128), random_state=0).fit(X, y)
    assert [type(part).__name__ for part in short.feature_map_.maps_] == [
        "Scaled",
        "Metric",
        "RandomFourier",
    ]
    assert (short.predict(X) == long.predict(X)).all()
    assert (short.predict(X) == longest.predict(X)).all()
    assert "metric" in str(short.plan_)


def test_a_metric_that_does_not_help_is_the_identity():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 5)), rng.normal(size=200)
    model = KernelRegressor(Metric() >> RandomFourier(64), random_state=0).fit(X, y)
    metric = metric_of(model)
    if np.argmax(metric.validation_scores_) == 0:
        assert metric.matrix_ == pytest.approx(np.eye(5), abs=1e-12)
    assert model.score(X, y) < 0.5


def test_a_metric_of_classes_that_predicts_fewer_of_them_is_the_identity():
    """R^2 of held-out scores rises from 0.68 to 0.71, and 4 of 51 are wrong instead of 2."""
    X = np.random.default_rng(20).normal(size=(240, 6))
    squares = np.sum(X**2, axis=1)
    y = squares > np.median(squares)
    model = KernelClassifier(RandomFourier(128), metric="learned", random_state=0).fit(X, y)
    assert metric_of(model).is_identity_
    plain = KernelClassifier(RandomFourier(128), random_state=0).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), plain.decision_function(X), rtol=1e-6)


def test_an_identity_has_no_importances():
    X = np.random.default_rng(0).normal(size=(100, 5))
    model = KernelRegressor(Metric(n_rounds=0) >> RandomFourier(32), random_state=0)
    model.fit(X, X[:, 0])
    assert metric_of(model).is_identity_
    with pytest.raises(AttributeError, match="its metric is the identity"):
        _ = model.importances_


def test_scores_of_rounds_end_after_three_that_do_not_rise():
    X, y = two_of_ten(300)
    model = KernelRegressor(Metric(n_rounds=12) >> RandomFourier(64), random_state=0).fit(X, y)
    scores = metric_of(model).validation_scores_
    assert len(scores) <= 13
    assert len(scores) == 13 or len(scores) - 1 - np.argmax(scores) == 3
    none = KernelRegressor(Metric(n_rounds=0) >> RandomFourier(64), random_state=0).fit(X, y)
    assert len(metric_of(none).validation_scores_) == 1
    assert (metric_of(none).matrix_ == np.eye(10)).all()


def test_a_gamma_that_is_given_keeps_its_meaning():
    X, y = two_of_ten(400)
    model = KernelRegressor(Metric() >> RandomFourier(128, gamma=0.05), random_state=0).fit(X, y)
    assert model.feature_map_.maps_[-1].gamma_ == 0.05
    rows = metric_of(model).transform(X)
    medians = [np.median(np.linalg.norm(Z[:200] - Z[200:], axis=1)) for Z in (X, rows)]
    assert medians[0] == pytest.approx(medians[1], rel=0.1)


def test_rows_of_weight_0_are_not_learned_from():
    X, y = two_of_ten(300)
    kept = np.arange(300) % 3 > 0
    model = KernelRegressor(Metric() >> RandomFourier(64, gamma=0.1), random_state=0, scale=False)
    weighted = clone(model).fit(X, np.where(kept, y, 1e6), sample_weight=kept.astype(float))
    alone = clone(model).fit(X[kept], y[kept])
    assert metric_of(weighted).matrix_ == pytest.approx(metric_of(alone).matrix_, rel=1e-9)


@pytest.mark.parametrize("diagonal", [False, True])
def test_outer_products_of_halves_add_up_and_equal_those_by_hand(diagonal):
    X = np.random.default_rng(0).normal(size=(60, 3))
    weights = np.random.default_rng(1).uniform(size=60)
    coef = np.random.default_rng(2).normal(size=(20, 2))
    fitted = RandomFourier(20, gamma=0.3, random_state=0).fit(X)
    whole, first, second = (
        GradientOuterProducts(fitted.tile_transform_, coef, diagonal) for _ in range(3)
    )
    whole.add(as_block(X), weight=weights)
    first.add(as_block(X[:25]), weight=weights[:25])
    second.add(as_block(X[25:]), weight=weights[25:])
    expected = np.zeros((3, 3))
    step = 1e-5 * np.eye(3)
    for output in coef.T:
        G = [(fitted.transform(X + e) - fitted.transform(X - e)) @ output / 2e-5 for e in step]
        expected += (np.array(G) * weights) @ np.array(G).T
    expected /= weights.sum()
    expected = np.diag(expected) if diagonal else expected
    assert whole.average == pytest.approx(expected, rel=1e-7)
    assert (first + second).average == pytest.approx(expected, rel=1e-7)


def test_the_sample_has_targets_and_keys_of_its_rows_in_any_blocks():
    X = np.arange(40.0).reshape(20, 2)
    y, keys = np.array(list("ab") * 10), np.arange(20, dtype=np.uint64) << np.uint64(40)
    for rows in (X, csr_array(X)):
        sample = LabeledSample(8, 0, np.array(["a", "b"]))
        parts = [LabeledSample(8, 0, np.array(["a", "b"])) for _ in range(2)]
        sample.add(as_block(rows), y, keys=keys)
        for part, span in zip(parts, (slice(0, 13), slice(13, 20)), strict=True):
            part.add(as_block(rows[span]), y[span], start=span.start, keys=keys[span])
        table = sample.rows.toarray() if hasattr(sample.rows, "toarray") else sample.rows
        merged = (parts[0] + parts[1]).rows
        merged = merged.toarray() if hasattr(merged, "toarray") else merged
        assert (table == merged).all()
        index = table[:, -1].astype(int)
        assert (table[:, :2] == X[index]).all()
        assert (table[:, 2] == (y[index] == "b")).all()
        assert (table[:, 3] == index * 2.0**29).all()


@pytest.mark.full
def test_a_file_gives_the_metric_of_the_array(tmp_path):
    X, y = two_of_ten(500)
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(10)]).assign(target=y)
    frame.to_parquet(tmp_path / "rows.parquet")
    model = KernelRegressor(Metric() >> RandomFourier(128), random_state=0)
    from_array = clone(model).fit(X, y)
    from_file = clone(model).fit(open_stream(tmp_path / "rows.parquet", target="target"))
    assert (metric_of(from_array).matrix_ == metric_of(from_file).matrix_).all()
    assert (from_array.predict(X) == from_file.predict(frame.drop(columns="target"))).all()


@pytest.mark.full
def test_more_rows_than_the_sample_are_fitted_and_only_the_sample_is_learned_from():
    X, y = two_of_ten(3000)
    model = KernelRegressor(Metric(max_rows=400) >> RandomFourier(128), random_state=0).fit(X, y)
    assert model.n_samples_seen_ == 3000
    assert model.importances_[[3, 7]].sum() > 0.7


def test_importances_of_a_table_are_those_of_its_columns():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "noise": rng.normal(size=600),
            "city": rng.choice(["Oslo", "Rome", "Lima"], size=600),
            "size": rng.normal(size=600),
        }
    )
    frame.loc[::50, "noise"] = np.nan
    y = np.sin(2 * frame["size"]) + 2.0 * (frame["city"] == "Rome")
    model = KernelRegressor(RandomFourier(256), metric="learned", random_state=0).fit(frame, y)
    assert model.importances_.shape == (3,)
    assert model.importances_.sum() == pytest.approx(1.0)
    assert np.argmin(model.importances_) == 0


def test_models_without_a_metric_say_how_to_get_importances():
    X, y = two_of_ten(60)
    model = KernelRegressor(RandomFourier(32), random_state=0).fit(X, y)
    with pytest.raises(AttributeError, match="metric='learned'"):
        _ = model.importances_
    assert not hasattr(model, "importances_")


def test_a_saved_model_predicts_the_same_and_has_its_metric(tmp_path):
    X, y = two_of_ten(200)
    model = KernelRegressor(Metric() >> RandomFourier(64), random_state=0).fit(X, y)
    mercer.save(model, tmp_path / "model.mercer")
    loaded = mercer.load(tmp_path / "model.mercer")
    assert (loaded.predict(X) == model.predict(X)).all()
    assert (loaded.importances_ == model.importances_).all()
    assert (metric_of(loaded).validation_scores_ == metric_of(model).validation_scores_).all()


def test_counts_have_a_diagonal_metric_and_a_full_one_is_refused():
    rng = np.random.default_rng(0)
    X = rng.poisson(3.0, size=(400, 6)).astype(float)
    y = np.sqrt(X[:, 2])
    for following in (Chi2Series(2), Hellinger()):
        model = KernelRegressor(Metric() >> following, random_state=0).fit(X, y)
        assert metric_of(model).matrix_.shape == (6,)
        assert np.argmax(model.importances_) == 2
    with pytest.raises(ValueError, match="kind='full' gives numbers below 0, and Chi2Series"):
        KernelRegressor(Metric(kind="full") >> Chi2Series(2), random_state=0).fit(X, y)


def test_sparse_rows_with_a_diagonal_metric_equal_dense_ones():
    X, y = two_of_ten(300)
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    model = KernelRegressor(Metric(kind="diagonal") >> RandomFourier(64), random_state=0)
    dense, sparse = clone(model).fit(X, y), clone(model).fit(csr_array(X), y)
    assert metric_of(sparse).matrix_ == pytest.approx(metric_of(dense).matrix_, rel=1e-6)


@pytest.mark.parametrize("kind", ["full", "diagonal"])
def test_constant_columns_have_no_importance(kind):
    X, y = two_of_ten(300)
    X[:, 5] = 7.0
    model = KernelRegressor(Metric(kind=kind) >> RandomFourier(64), random_state=0).fit(X, y)
    assert model.importances_[5] < 1e-9
    assert set(np.argsort(model.importances_)[-2:]) == {3, 7}


@pytest.mark.parametrize("n", [2, 3, 9, 30])
def test_few_rows_and_constant_columns_are_fitted(n):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, 3)), rng.normal(size=n)
    X[:, 1] = 4.0
    model = KernelRegressor(Metric() >> RandomFourier(16), alpha=1.0, random_state=0).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    constant = KernelRegressor(Metric() >> RandomFourier(16), alpha=1.0, random_state=0)
    assert constant.fit(X, np.ones(n)).predict(X) == pytest.approx(np.ones(n))
    labels = np.arange(n) % 2
    classifier = KernelClassifier(Metric() >> RandomFourier(16), alpha=1.0, random_state=0)
    assert set(classifier.fit(X, labels).predict(X)) <= {0, 1}


@pytest.mark.full
def test_several_targets_and_maps_side_by_side_are_fitted():
    X, y = two_of_ten(400)
    Y = np.column_stack([y, X[:, 1] ** 2])
    model = KernelRegressor(
        [Metric() >> RandomFourier(64), Metric(kind="diagonal") >> RandomFourier(64)],
        random_state=0,
    ).fit(X, Y)
    assert model.predict(X).shape == (400, 2)
    with pytest.raises(AttributeError, match="several metrics"):
        _ = model.importances_
    single = KernelRegressor(Metric() >> RandomFourier(64), random_state=0).fit(X, Y)
    assert set(np.argsort(single.importances_)[-3:]) == {1, 3, 7}


@pytest.mark.full
def test_the_number_of_threads_does_not_change_a_bit():
    X, y = two_of_ten(300)
    model = KernelRegressor(Metric() >> RandomFourier(64), random_state=0)
    one, two = (clone(model).set_params(n_jobs=n).fit(X, y) for n in (1, 2))
    assert (metric_of(one).matrix_ == metric_of(two).matrix_).all()
    assert (one.predict(X) == two.predict(X)).all()


@pytest.mark.full
def test_groups_are_held_out_together():
    X, y = two_of_ten(120)
    X, y, groups = np.repeat(X, 4, axis=0), np.repeat(y, 4), np.repeat(np.arange(120), 4)
    X = X + 1e-3 * np.random.default_rng(1).normal(size=X.shape)
    model = KernelRegressor(Metric() >> RandomFourier(64), random_state=0)
    grouped = clone(model).fit(X, y, groups=groups)
    alone = clone(model).fit(X, y)
    scores = [metric_of(each).validation_scores_[0] for each in (grouped, alone)]
    assert scores[0] < scores[1] - 0.2  # near copies of a row predict it
