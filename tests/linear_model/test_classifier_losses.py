"""Classifiers of squared hinge and logistic loss equal scikit-learn's on the same features."""

from __future__ import annotations

import inspect
import warnings
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.helpers.loss_data import LOSS, data, rows_of
from tests.helpers.normal_equations_data import INTERCEPT
from tests.helpers.plans import plan_fit

from mercer import GCWS, Anchors, Chi2Series, Identity, KernelClassifier, RandomFourier, open_stream
from mercer.linear_model.losses import LOSSES
from mercer.linear_model.solvers.newton_cg import minimize_loss
from mercer.linear_model.solvers.newton_folds import choose_alpha
from mercer.parallel.tile_size import override_limits

SMALL = "1kB"  # no room for blocks or matrices

rng = np.random.default_rng(0)
X = rng.random((240, 4))
y = np.digitize(np.sin(5 * X[:, 0]) + X[:, 1] ** 2 + 0.2 * rng.normal(size=240), [0.2, 0.9])


def fourier(**more) -> RandomFourier:
    return RandomFourier(48, gamma=2.0, random_state=0, **more)


def classifier(loss="logistic", alpha=0.3, feature_map=None, **more) -> KernelClassifier:
    return KernelClassifier(
        fourier() if feature_map is None else feature_map,
        loss=loss,
        alpha=alpha,
        **{"tol": 1e-7, **more},
    )


def features() -> np.ndarray:
    return fourier().fit(X).transform(X)


@parametrize_with_checks(
    [
        KernelClassifier(
            Chi2Series(2, poles="minimax", signed=True), loss=loss, alpha=1.0, tol=1e-8
        )
        for loss in sorted(LOSSES)
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("memory", [None, SMALL], ids=["kept", "read anew"])
@pytest.mark.parametrize("labels", [y, y == 1], ids=["three", "two"])
@pytest.mark.parametrize("rows", [X, sp.csr_matrix(X)], ids=["dense", "csr"])
def test_without_an_intercept_it_is_linear_svc_on_features(rows, labels, memory):
    model = classifier("squared_hinge", fit_intercept=False, max_memory=memory).fit(rows, labels)
    other = LinearSVC(C=1 / 0.3, fit_intercept=False, dual=False, tol=1e-10, max_iter=100_000).fit(
        features(), labels
    )
    assert model.plan_.route == "newton-cg"
    theirs = np.squeeze(other.coef_)
    assert np.abs(model.feature_coef_ - theirs).max() <= 1e-6 * np.abs(theirs).max()
    assert np.array_equal(model.predict(X), other.predict(features()))


@pytest.mark.parametrize("memory", [None, SMALL], ids=["kept", "read anew"])
@INTERCEPT
def test_two_classes_are_logistic_regression_on_features(fit_intercept, memory):
    labels = y == 1
    model = classifier(fit_intercept=fit_intercept, max_memory=memory).fit(X, labels)
    other = LogisticRegression(
        C=1 / 0.3, fit_intercept=fit_intercept, solver="newton-cholesky", tol=1e-12
    ).fit(features(), labels)
    assert np.abs(model.feature_coef_ - other.coef_[0]).max() <= 1e-6 * np.abs(other.coef_).max()
    assert model.intercept_ == pytest.approx(other.intercept_[0], abs=1e-6)
    np.testing.assert_allclose(
        model.predict_proba(X), other.predict_proba(features()), rtol=0, atol=1e-6
    )


@LOSS
@pytest.mark.parametrize("weight", ["balanced", {0: 3.0, 2: 0.5}], ids=["balanced", "dict"])
def test_classes_are_weighted(loss, weight):
    model = classifier(loss, class_weight=weight).fit(X, y)
    counts = np.bincount(y)
    each = len(y) / (3 * counts) if weight == "balanced" else np.array([3.0, 1.0, 0.5])
    other = classifier(loss).fit(X, y, sample_weight=each[y])
    np.testing.assert_allclose(
        model.feature_coef_,
        other.feature_coef_,
        rtol=0,
        atol=1e-6 * np.abs(other.feature_coef_).max(),
    )


def test_hashes_are_linear_svc_on_their_features():
    hashing = GCWS(64, bits=4, random_state=0)
    model = classifier("squared_hinge", feature_map=hashing, fit_intercept=False).fit(X, y)
    other = LinearSVC(C=1 / 0.3, fit_intercept=False, dual=False, tol=1e-10, max_iter=100_000)
    other.fit(hashing.fit_transform(X), y)
    assert (model.plan_.route, model.plan_.features) == ("newton-cg", 1024)
    assert np.abs(model.feature_coef_ - other.coef_).max() <= 1e-6 * np.abs(other.coef_).max()


@pytest.mark.parametrize("labels", [y, y == 1], ids=["three", "two"])
def test_probabilities_add_up_and_follow_the_scores(labels):
    model = classifier().fit(X, labels)
    P, scores = model.predict_proba(X), model.decision_function(X)
    np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=1e-12)
    assert P.shape == (240, len(model.classes_))
    assert np.array_equal(model.classes_[P.argmax(axis=1)], model.predict(X))
    if scores.ndim == 1:
        np.testing.assert_allclose(P[:, 1], 1 / (1 + np.exp(-scores)), rtol=1e-12)
    else:
        plain = 1 / (1 + np.exp(-scores))
        np.testing.assert_allclose(P, plain / plain.sum(axis=1, keepdims=True), rtol=1e-10)
    assert (
        np.abs(P.mean(axis=0) - np.array([np.mean(labels == c) for c in model.classes_])).max()
        < 0.03
    )


@pytest.mark.parametrize("loss", ["logistic", "log_loss"])
def test_probabilities_of_rows_that_no_class_wants_are_numbers(loss):
    from mercer.linear_model.labels import probabilities

    F = np.array([[-1000.0, -1001.0, -2000.0], [900.0, 900.0, -5.0]])
    P = probabilities(F, loss)
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    np.testing.assert_allclose(P[0, 1] / P[0, 0], np.exp(-1.0))
    np.testing.assert_allclose(probabilities(np.array([[-1000.0]]), loss), [[1.0, 0.0]])


def test_every_loss_has_probabilities_before_fit():
    for loss in ("logistic", "log_loss", "squared", "squared_hinge"):
        assert hasattr(classifier(loss), "predict_proba")
    assert inspect.signature(KernelClassifier.predict_proba).parameters.keys() == {"self", "X"}
    assert "softmax" in KernelClassifier.predict_proba.__doc__


def test_calibration_gives_probabilities_to_other_losses():
    model = CalibratedClassifierCV(classifier("squared_hinge")).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


@LOSS
def test_auto_and_a_list_choose_and_are_fitted_to_all_rows(loss):
    for alpha in ("auto", [0.03, 0.3, 3.0]):
        model = classifier(loss, alpha).fit(X, y)
        assert model.alpha_ == model.alphas_[np.argmin(model.alpha_scores_)]
        plain = classifier(loss, model.alpha_).fit(X, y)
        np.testing.assert_allclose(
            model.feature_coef_,
            plain.feature_coef_,
            rtol=0,
            atol=1e-6 * np.abs(plain.feature_coef_).max(),
        )
    assert len(classifier(loss, "auto").fit(X, y).alphas_) == 25


@LOSS
def test_a_loose_search_does_not_end_at_large_alphas(loss):
    """There the scores of intercepts that are off would be better by chance."""
    draw = np.random.default_rng(0)
    rows = draw.normal(size=(60, 1))
    labels = np.digitize(rows[:, 0] + 0.3 * draw.normal(size=60), [-0.5, 0.5])
    w = np.arange(60) % 2 * 1.0
    model = classifier(loss, "auto", Identity()).fit(rows, labels, sample_weight=w)
    assert model.alpha_ < 1
    assert model.score(rows, labels) > 0.7 > 1.5 * np.bincount(labels).max() / 60


@LOSS
@pytest.mark.parametrize("memory", [None, SMALL], ids=["kept", "read anew"])
def test_streams_give_the_model_of_arrays(loss, memory, tmp_path):
    for i, start in enumerate(range(0, 240, 50)):
        part = {f"c{j}": X[start : start + 50, j] for j in range(4)}
        pq.write_table(
            pa.table({**part, "y": y[start : start + 50]}), tmp_path / f"part-{i}.parquet"
        )
    model = classifier(loss, max_memory=memory).fit(open_stream(tmp_path, target="y"))
    assert np.array_equal(
        model.feature_coef_, classifier(loss, max_memory=memory).fit(X, y).feature_coef_
    )


@LOSS
@pytest.mark.parametrize("memory", [None, SMALL])
@pytest.mark.parametrize(
    "feature_map",
    [fourier(), GCWS(130, bits=4, random_state=0), Anchors(32)],
    ids=["fourier", "gcws", "anchors"],
)
def test_threads_change_no_bit(feature_map, memory, loss):
    def fit(jobs):
        model = classifier(loss, 3.0, feature_map, n_jobs=jobs, max_memory=memory, tol=1e-3)
        return model.fit(X, y).feature_coef_

    with override_limits(thread_flops=0):
        one, two, again = (fit(jobs) for jobs in (1, 2, 2))
    assert np.array_equal(one, two)
    assert np.array_equal(two, again)


def test_too_few_steps_are_a_convergence_warning():
    words = (
        r"KernelClassifier: Newton's method has not reached tol=1e-07 for class 0, 1, 2: the "
        r"last step changed scores by [\d.e-]+ of their spread after 1 "
        r"steps and \d+ passes. Take a larger max_iter \(it is 1\), alpha or tol"
    )
    for memory in (None, SMALL):
        with pytest.warns(ConvergenceWarning, match=words):
            classifier(max_iter=1, max_memory=memory).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="for class 'b': the last step"):
        classifier(max_iter=1).fit(X, np.where(y == 1, "b", "a"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        classifier(max_iter=30).fit(X, y)


def test_the_plan_states_memory_and_cache():
    few = plan_fit(1000, 16, 256, limit=10**9, outputs=3)
    assert few.route == "newton-cg"
    assert few.solver_bytes < 10**7
    assert few.cache_bytes == 10**9 - few.solver_bytes
    assert "blocks are cached up to" in str(few)
    small = plan_fit(None, 16, 256, limit=1000, outputs=3)
    assert small.cache_bytes == 0
    assert "conjugate gradients over blocks" in str(small)
    assert small.passes[0] == "class labels"
    balanced = classifier(class_weight="balanced").fit(X, y).plan_
    assert "class weights" in balanced.passes and "class labels" not in balanced.passes
    assert str(replace(few, route="newton")) == str(few)  # in files of older versions


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: classifier("hinge").fit(X, y),
            "loss must be one of 'squared', .*'squared_hinge'.*got 'hinge'",
        ),
        (
            lambda: classifier(alpha="gcv").fit(X, y),
            "alpha='gcv' needs loss='squared', got loss='logistic'. Use 'auto'",
        ),
        (
            lambda: classifier(alpha="gcv").fit(X, y),
            "alpha='gcv' needs loss='squared'.* Use 'auto' or 'kfold' .rows that are left out.",
        ),
        (lambda: classifier(alpha="loo").fit(X, y), "alpha='loo' needs loss='squared'"),
        (
            lambda: classifier(alpha=0).fit(X, y),
            "alpha=0 needs loss='squared'.* Give an alpha above 0 .separable rows have no minimum",
        ),
        (lambda: classifier(alpha=[0.0, 1.0]).fit(X, y), "alpha=0 needs loss='squared'"),
        (lambda: classifier(alpha=-1.0).fit(X, y), "alpha must be a number of at least 0"),
        (
            lambda: classifier(pca=3).fit(X, y),
            "pca=3 needs loss='squared', got loss='logistic'",
        ),
        (
            lambda: classifier(checkpoint="a").fit(X, y),
            "checkpoint='a' needs loss='squared'",
        ),
        (
            lambda: classifier(max_iter=0).fit(X, y),
            "max_iter must be an integer of at least 1, got 0",
        ),
        (lambda: classifier(tol=0.0).fit(X, y), "tol must be a finite number above 0, got 0.0"),
        (
            lambda: classifier().fit(X, ["a"] * 240),
            "needs rows of at least two classes, got one class: 'a'",
        ),
        (
            lambda: classifier().fit(X, y, sample_weight=np.zeros(240)),
            # scikit-learn 1.6 leaves the check to minimize_loss
            "at least one non-zero number|needs rows with a weight above 0",
        ),
        (
            lambda: minimize_loss(rows_of(*data()[:2], np.zeros(90)), LOSSES["logistic"], 1.0),
            "needs rows with a weight above 0",
        ),
        (lambda: classifier(class_weight={7: 1.0}).fit(X, y), "class_weight has the label 7"),
        (lambda: classifier("squared_hinge").fit(X, X[:, 0]), "Unknown label type: continuous"),
        (
            lambda: classifier(alpha="auto").fit(X[:1], y[:1]),
            "needs rows of at least two classes|one sample only",
        ),
        (
            lambda: classifier(alpha="auto").fit(X[[0, 0]], [0, 1]),
            "no row is held out. Give more rows, or a number",
        ),
        (
            lambda: minimize_loss(rows_of(*data()[:2]), LOSSES["logistic"], 0.0),
            "alpha must be a finite number above 0, got 0.0",
        ),
        (
            lambda: choose_alpha(
                rows_of(*data()[:2]), LOSSES["logistic"], np.arange(90) // 18, [0.0]
            ),
            "alphas must be above 0, got 0",
        ),
    ],
)
def test_incompatible_parameters_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_partial_fit_needs_squared_loss():
    model = classifier("squared_hinge")
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError) as error:
        model.partial_fit(X, y, classes=[0, 1, 2])
    assert (
        "partial_fit adds the normal equations of loss='squared', got loss='squared_hinge'. Use fit"
        in str(error.value)
    )
    assert hasattr(classifier("squared"), "partial_fit")
