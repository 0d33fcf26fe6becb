"""Multinomial log loss equals scikit-learn's LogisticRegression on the same features."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from tests.helpers.loss_data import data, rows_of
from tests.helpers.normal_equations_data import INTERCEPT
from tests.test_real_data import load

import mercer
from mercer import GCWS, Anchors, Identity, KernelClassifier, RandomFourier, open_stream
from mercer.linear_model.losses import LOSSES, loss_of
from mercer.linear_model.solvers.newton_cg import minimize_loss
from mercer.linear_model.solvers.newton_folds import choose_alpha

SMALL = "1kB"  # no room for blocks
LOG_LOSS = LOSSES["log_loss"]

rng = np.random.default_rng(0)
X = rng.random((240, 4))
y = np.digitize(np.sin(5 * X[:, 0]) + X[:, 1] ** 2 + 0.2 * rng.normal(size=240), [0.2, 0.9])
w = rng.integers(0, 4, 240).astype(float)


def fourier() -> RandomFourier:
    return RandomFourier(48, gamma=2.0, random_state=0)


def classifier(feature_map=None, alpha=0.3, **more) -> KernelClassifier:
    chosen = fourier() if feature_map is None else feature_map
    return KernelClassifier(chosen, loss="log_loss", alpha=alpha, **{"tol": 1e-7, **more})


def value(F, labels, weights) -> float:
    return float(weights @ (logsumexp(F, axis=1) - F[np.arange(len(F)), labels]))


def objective(model, Z, alpha, weights) -> float:
    coef = getattr(model, "feature_coef_", None)
    coef = model.coef_ if coef is None else coef
    penalty = alpha / 2 * float(np.sum(coef**2))
    return value(Z @ coef.T + model.intercept_, y, weights) + penalty


def assert_same_minimum(model, Z, alpha, weights=None, class_weight=None, coef_tol=1e-5):
    total = np.ones(240) if weights is None else weights
    if class_weight == "balanced":  # scikit-learn 1.6 counts rows, not their weights
        counts = np.bincount(y, total)
        total = total * (total.sum() / (3 * counts))[y]
    other = LogisticRegression(
        C=1 / alpha, fit_intercept=model.fit_intercept, tol=1e-12, max_iter=100_000
    ).fit(Z, y, total)
    ours, theirs = (objective(one, Z, alpha, total) for one in (model, other))
    assert abs(ours - theirs) <= 1e-8 * theirs
    scale = np.abs(other.coef_).max()
    np.testing.assert_allclose(model.feature_coef_, other.coef_, rtol=0, atol=coef_tol * scale)
    np.testing.assert_allclose(model.intercept_, other.intercept_, rtol=0, atol=10 * coef_tol)
    np.testing.assert_allclose(model.predict_proba(X), other.predict_proba(Z), rtol=0, atol=1e-5)


@pytest.mark.parametrize("alpha", [0.01, 0.3, 30.0])
@pytest.mark.parametrize("memory", [None, SMALL], ids=["kept", "read anew"])
@INTERCEPT
def test_it_is_logistic_regression_on_features(fit_intercept, memory, alpha):
    model = classifier(alpha=alpha, fit_intercept=fit_intercept, max_memory=memory).fit(X, y)
    assert model.plan_.route == "newton-cg"
    assert_same_minimum(model, fourier().fit(X).transform(X), alpha)


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_weights_of_rows_and_classes(class_weight):
    model = classifier(class_weight=class_weight).fit(X, y, w)
    Z = fourier().fit(X).transform(X)
    assert_same_minimum(model, Z, 0.3, w, class_weight)


@pytest.mark.parametrize(
    "feature_map",
    [GCWS(64, bits=4, random_state=0), GCWS(8, bits=2, random_state=0), Anchors(32), Identity()],
    ids=["more codes than rows", "one-hot codes", "coded", "identity"],
)
@pytest.mark.parametrize("rows", [X, sp.csr_matrix(X)], ids=["dense", "csr"])
@INTERCEPT
def test_blocks_of_every_kind(rows, feature_map, fit_intercept):
    model = classifier(feature_map, fit_intercept=fit_intercept).fit(rows, y)
    assert_same_minimum(model, mercer_features(feature_map), 0.3)


def mercer_features(feature_map) -> np.ndarray:
    Z = feature_map.fit(X).transform(X)
    return Z.toarray() if sp.issparse(Z) else Z


def test_single_precision():
    model = classifier().fit(X.astype(np.float32), y)
    assert_same_minimum(model, fourier().fit(X).transform(X), 0.3, coef_tol=3e-5)


def test_two_classes_are_logistic():
    one = classifier().fit(X, y == 1)
    other = KernelClassifier(fourier(), loss="logistic", alpha=0.3, tol=1e-7).fit(X, y == 1)
    assert np.array_equal(one.feature_coef_, other.feature_coef_)
    assert np.array_equal(one.predict_proba(X), other.predict_proba(X))
    assert one.plan_.route == other.plan_.route == "newton-cg"
    assert loss_of("log_loss", 1) is LOSSES["logistic"]


def test_probabilities_are_the_softmax_of_scores():
    model = classifier().fit(X, y)
    P = model.predict_proba(X)
    np.testing.assert_allclose(P, softmax(model.decision_function(X), axis=1), rtol=1e-12)
    # the gradient in b is 0: mean probabilities are the shares of the classes
    np.testing.assert_allclose(P.mean(axis=0), np.bincount(y) / 240, rtol=0, atol=1e-6)
    np.testing.assert_allclose(
        model.intercept_.sum(),
        -model.feature_coef_.sum(axis=0) @ (fourier().fit(X).transform(X).mean(axis=0)),
        atol=1e-9,
    )


def test_gradient_is_the_derivative_of_the_loss():
    F, Y = rng.normal(size=(7, 4)) * 3, np.where(np.eye(4)[rng.integers(0, 4, 7)] > 0, 1.0, -1.0)
    for j in range(4):
        step = np.zeros(4)
        step[j] = 1e-6
        slope = (LOG_LOSS.row_values(Y, F + step) - LOG_LOSS.row_values(Y, F - step)) / 2e-6
        np.testing.assert_allclose(LOG_LOSS.gradient(Y, F)[:, j], slope, rtol=0, atol=1e-8)
    far = np.array([[1e4, -1e4, 0.0, 3.0]])
    target = np.array([[-1.0, 1.0, -1.0, -1.0]])
    assert LOG_LOSS.row_values(target, far) == pytest.approx(2e4)
    assert np.isfinite(LOG_LOSS.gradient(target, far)).all()


@INTERCEPT
def test_solver_reaches_the_minimum_that_scipy_finds(fit_intercept):
    Z, Y, weights = data()
    rows, labels = rows_of(Z, Y, weights), np.argmax(Y, axis=1)
    found = minimize_loss(rows, LOG_LOSS, 0.2, fit_intercept=fit_intercept, tol=1e-8)
    D = Z.shape[1]

    def f(x):
        W, b = x[: 3 * D].reshape(D, 3), fit_intercept * x[3 * D :]
        F = Z @ W + b
        R = weights[:, None] * (softmax(F, axis=1) - np.eye(3)[labels])
        gradient = np.concatenate([(Z.T @ R + 0.2 * W).ravel(), fit_intercept * R.sum(axis=0)])
        return value(F, labels, weights) + 0.1 * np.sum(W**2), gradient

    best = minimize(f, np.zeros(3 * D + 3), jac=True, method="BFGS", options={"gtol": 1e-10})
    coef = best.x[: 3 * D].reshape(D, 3)
    np.testing.assert_allclose(found.coef, coef, rtol=0, atol=1e-6 * np.abs(coef).max())
    assert f(np.concatenate([found.coef.ravel(), found.intercept]))[0] <= best.fun * (1 + 1e-12)
    assert not found.unconverged.any()


def test_a_large_mean_costs_no_digits():
    Z, Y, weights = data()
    near = minimize_loss(rows_of(Z, Y, weights), LOG_LOSS, 0.3)
    away = minimize_loss(rows_of(Z + 1e5, Y, weights), LOG_LOSS, 0.3)
    np.testing.assert_allclose(away.coef, near.coef, rtol=0, atol=1e-6)


def test_a_start_at_the_minimum_takes_no_step():
    Z, Y, weights = data()
    rows = rows_of(Z, Y, weights)
    cold = minimize_loss(rows, LOG_LOSS, 0.3, tol=1e-8)
    assert minimize_loss(rows, LOG_LOSS, 0.3, start=cold).steps == 0
    warm = minimize_loss(rows, LOG_LOSS, 0.3, start=minimize_loss(rows, LOG_LOSS, 3.0), tol=1e-8)
    np.testing.assert_allclose(warm.coef, cold.coef, rtol=0, atol=1e-7)


def test_alpha_is_chosen_by_the_deviance_of_held_out_rows():
    Z, Y, weights = data()
    rows, labels = rows_of(Z, Y, weights), np.argmax(Y, axis=1)
    alphas = [1e-2, 1.0, 100.0]
    out = np.random.default_rng(0).random(len(Z)) < 0.1
    search = choose_alpha(rows, LOG_LOSS, np.where(out, 0, -1), alphas, tol=1e-6).search
    for alpha, score in zip(alphas, search.scores, strict=True):
        trained = minimize_loss(rows_of(Z, Y, weights * ~out), LOG_LOSS, alpha, tol=1e-8)
        F = Z @ trained.coef + trained.intercept
        deviance = value(F, labels, weights * out) / (weights @ out)
        assert score == pytest.approx(deviance, rel=1e-3)  # gradients of a search end at 1e-4


def test_auto_and_a_list_are_fitted_to_all_rows():
    for alpha in ("auto", [0.03, 0.3, 3.0]):
        model = classifier(alpha=alpha).fit(X, y)
        assert model.alpha_ == model.alphas_[np.argmin(model.alpha_scores_)]
        plain = classifier(alpha=model.alpha_).fit(X, y)
        scale = np.abs(plain.feature_coef_).max()
        np.testing.assert_allclose(model.feature_coef_, plain.feature_coef_, atol=1e-6 * scale)


def test_saved_and_loaded_probabilities_are_equal(tmp_path):
    model = classifier().fit(X, np.array(["a", "b", "c"])[y])
    mercer.save(model, tmp_path / "model.mercer")
    again = mercer.load(tmp_path / "model.mercer")
    assert again.loss == "log_loss"
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert np.array_equal(again.predict(X), model.predict(X))


def test_a_class_of_weight_zero_gets_no_probability():
    model = classifier(class_weight={2: 0.0}).fit(X, y)
    P = model.predict_proba(X)
    assert P[:, 2].max() < 1e-5
    pair = y != 2
    other = KernelClassifier(
        fourier().fit(X),
        loss="logistic",
        tol=1e-7,
        alpha=0.15,  # w and -w: each has half of |w|^2
    ).fit(X[pair], y[pair])
    np.testing.assert_allclose(P[:, 1], other.predict_proba(X)[:, 1], rtol=0, atol=1e-4)


def test_streams_give_the_model_of_arrays(tmp_path):
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    stream = open_stream(tmp_path / "rows.npz", target="y")
    assert np.array_equal(
        classifier().fit(stream).feature_coef_, classifier().fit(X, y).feature_coef_
    )


def test_too_few_steps_are_a_convergence_warning():
    words = (
        r"has not reached tol=1e-07: the last step changed scores by [\d.e-]+ of their spread "
        "after 1 steps"
    )
    with pytest.warns(ConvergenceWarning, match=words):
        classifier(max_iter=1).fit(X, y)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"checkpoint": "a"}, "checkpoint='a' needs loss='squared', got loss='log_loss'"),
        ({"pca": 3}, "pca=3 needs loss='squared', got loss='log_loss'"),
        ({"penalty": "l1"}, "penalty='l1' needs loss='squared'"),
        ({"alpha": "loo"}, "alpha='loo' needs loss='squared'"),
        ({"alpha": 0.0}, "alpha=0 needs loss='squared'"),
    ],
)
def test_incompatible_parameters_are_refused(more, words):
    with pytest.raises(ValueError, match=words):
        classifier(**more).fit(X, y)


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [1.0, 0.01])
def test_26_classes_of_letter_reach_the_objective_of_scikit_learn(alpha):
    letter = load("letter")
    rows, labels = letter["X"][:3000].astype(np.float64), letter["y"][:3000]
    model = KernelClassifier(
        RandomFourier(256, random_state=0), loss="log_loss", alpha=alpha, scale=False
    ).fit(rows, labels)
    Z = model.feature_map_.transform(rows)
    other = LogisticRegression(C=1 / alpha, tol=1e-8, max_iter=20_000).fit(Z, labels)
    codes = np.unique(labels, return_inverse=True)[1]

    def objective(coef, intercept):
        F = Z @ coef.T + intercept
        loss = np.sum(logsumexp(F, axis=1) - F[np.arange(len(F)), codes])
        return float(loss + alpha / 2 * np.sum(coef**2))

    ours = objective(model.feature_coef_, model.intercept_)
    assert ours == pytest.approx(objective(other.coef_, other.intercept_), rel=1e-8)
    assert ours < 0.9 * objective(np.zeros_like(other.coef_), other.intercept_)
    np.testing.assert_array_equal(model.predict(rows), other.predict(Z))
