"""Few rows, few features, features without variance, weights of 0: every route is right or refuses.

Solutions are compared with those of NumPy and SciPy on the features of the fitted map.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.linear_model import LinearRegression
from tests.helpers.route_cases import ROUTE_CASES, RouteCase

from mercer import GCWS, Identity, KernelClassifier, KernelRegressor, open_stream
from mercer.linear_model.cross_validation import held_out_rows

RNG = np.random.default_rng(0)
LONG, WIDE = RNG.random((24, 3)), RNG.random((10, 40))  # WIDE has more columns than rows
NOISE = RNG.random(24)


def equal_rows(X):
    return np.full_like(X, 0.3)


def constant_column(X):
    return np.column_stack([np.full(len(X), 0.7), X[:, 1:]])


def duplicated_rows(X):
    return np.repeat(X[: len(X) // 3], 3, axis=0)


def equal_columns(X):
    return np.column_stack([X[:, :-1], X[:, 0]])


KINDS = {
    "one row": lambda X: X[:1],
    "two rows": lambda X: X[:2],
    "one column": lambda X: X[:, :1],
    "equal rows": equal_rows,
    "constant column": constant_column,
    "duplicated rows": duplicated_rows,
    "equal columns": equal_columns,
    "some weights 0": lambda X: X,
    "one weight above 0": lambda X: X,
    "equal targets": lambda X: X,
}


def rows_of(case: RouteCase, kind: str):
    """Return rows, targets or labels, and weights."""
    X = KINDS[kind](WIDE if case.route == "gram" else LONG)
    n = len(X)
    t = 2 * X[:, 0] + NOISE[:n]
    if kind == "equal targets":
        t[:] = 2.0
    if case.labels:
        t = (np.arange(n) % 2 if kind in ("equal rows", "equal targets") else t > np.median(t)) + 3
    weights = None
    if kind == "some weights 0":
        weights = np.arange(n) % 3.0
    if kind == "one weight above 0":
        weights = (np.arange(n) == 1) * 2.0
    return X, t, weights


def fit(case: RouteCase, X, t, weights=None, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = case.make(**({"tol": 1e-9} if case.labels else {}), **more).fit(X, t, weights)
    assert model.plan_.route == case.route
    return model


def dense_features(model, X):
    Z = model.feature_map_.transform(X)
    return np.asarray(Z.todense() if hasattr(Z, "todense") else Z, dtype=np.float64)


def scores_of(model, X):
    scores = model.decision_function(X) if hasattr(model, "classes_") else model.predict(X)
    assert np.isfinite(scores).all()
    assert np.isfinite(model.feature_coef_).all()
    return scores


def solve_least_squares(Z, y, w, alpha, basis=None):
    """Return the scores of ridge regression, the shortest solution for alpha = 0."""
    mean, target_mean = w @ Z / w.sum(), w @ y / w.sum()
    basis = np.eye(Z.shape[1]) if basis is None else basis
    A = np.sqrt(w)[:, None] * (Z - mean) @ basis
    A = np.vstack([A, np.sqrt(alpha) * np.eye(A.shape[1])])
    right = np.concatenate([np.sqrt(w) * (y - target_mean), np.zeros(A.shape[1])])
    c = np.linalg.lstsq(A, right, rcond=1e-12)[0]
    return target_mean + (Z - mean) @ basis @ c


def first_components(Z, w, groups):
    """Return the first principal component of each group of columns."""
    mean = w @ Z / w.sum()
    basis = np.zeros((Z.shape[1], len(groups)))
    for j, columns in enumerate(groups):
        A = np.sqrt(w)[:, None] * (Z - mean)[:, columns]
        basis[columns, j] = np.linalg.svd(A)[2][0]
    return basis


def minimize_loss(Z, y, w, alpha, loss):
    """Return the scores of the minimum of sum w loss(y f) + alpha/2 |c|^2."""
    value = {
        "squared_hinge": lambda f: np.maximum(1 - y * f, 0) ** 2,
        "logistic": lambda f: np.logaddexp(0, -y * f),
        # two classes have one score; the loss of both is that of their difference
        "log_loss": lambda f: -log_softmax(np.stack([y * f, 0 * f], axis=1), axis=1)[:, 0],
    }[loss]

    def objective(x):
        return w @ value(Z @ x[1:] + x[0]) + alpha / 2 * x[1:] @ x[1:]

    found = minimize(objective, np.zeros(Z.shape[1] + 1), tol=1e-12, options={"maxiter": 2000})
    return Z @ found.x[1:] + found.x[0]


CASES = [
    pytest.param(name, kind, id=f"{name}: {kind}")
    for name, case in ROUTE_CASES.items()
    for kind in KINDS
    if not (case.route == "gram" and kind == "one column" and not case.codes)
    if not (case.labels and kind == "one row")  # one class
]


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_hard_rows_have_the_solution_of_numpy_or_are_refused(name, kind, monkeypatch):
    case = ROUTE_CASES[name]
    case.prepare(monkeypatch)
    X, t, weights = rows_of(case, kind)
    given = case.parameters.get("alpha", 1.0)
    try:
        model = fit(case, X, t, weights)
    except ValueError as error:
        few = kind in ("one row", "two rows", "equal rows", "one weight above 0")
        said = "ive more rows" in str(error) or "rows with a weight above 0" in str(error)
        if isinstance(given, str) and few and said:
            return
        raise
    scores, Z = scores_of(model, X), dense_features(model, X)
    w = np.ones(len(X)) if weights is None else weights
    y = np.where(t == model.classes_[1], 1.0, -1.0) if case.labels else t
    loss = case.parameters.get("loss", "squared")
    if loss != "squared":
        if kind == "one weight above 0":  # of one class: the intercept has no minimum
            assert np.all(np.sign(scores) == y[w > 0])
            return
        expected = minimize_loss(Z, y, w, model.alpha_, loss)
        np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-5)
        return
    if "penalty" in case.parameters:
        assert model.kkt_ < 1e-9
        if case.parameters["penalty"] == "l1":
            slopes = (w * (y - scores)) @ (Z - w @ Z / w.sum())
            assert np.all(np.abs(slopes) <= model.alpha_ * (1 + 1e-9) + 1e-12)
            used = model.feature_coef_ != 0
            signs = np.sign(model.feature_coef_[used])
            np.testing.assert_allclose(slopes[used], model.alpha_ * signs, atol=1e-9)
        return
    basis = None
    if "pca" in case.parameters:
        D = Z.shape[1]
        halves = [slice(0, D // 2), slice(D // 2, D)] if case.route == "two-stage" else [slice(D)]
        basis = first_components(Z, w, halves)
    expected = solve_least_squares(Z, y, w, model.alpha_, basis)
    tol = 1e-6 if case.route == "passes" else 1e-9
    np.testing.assert_allclose(scores, expected, rtol=0, atol=tol * np.abs(y).max())


@pytest.mark.parametrize("name", ROUTE_CASES)
def test_weights_of_0_leave_rows_out(name, monkeypatch):
    case = ROUTE_CASES[name]
    case.prepare(monkeypatch)
    X, t, _ = rows_of(case, "some weights 0")
    if "auto" in case.parameters.values() and case.route == "passes":
        pytest.skip("rows of weight 0 count for the share of rows that is held out")
    kept = np.arange(len(X)) % 4 > 0
    model, other = fit(case, X, t, kept * 1.0), fit(case, X[kept], t[kept])
    assert model.alpha_ == pytest.approx(other.alpha_)
    np.testing.assert_allclose(scores_of(model, X), scores_of(other, X), atol=1e-6)


def has_zero_alpha(case: RouteCase) -> bool:
    return case.route in ("moments", "gram", "two-stage") and "penalty" not in case.parameters


@pytest.mark.parametrize(
    "name", [name for name, case in ROUTE_CASES.items() if "alpha" not in case.parameters]
)
@pytest.mark.parametrize("kind", ["equal columns", "equal rows", "duplicated rows", "one row"])
def test_an_alpha_of_0_is_the_shortest_solution_or_refused(name, kind, monkeypatch):
    case = ROUTE_CASES[name]
    case.prepare(monkeypatch)
    X, t, _ = rows_of(case, kind)
    if case.labels and kind == "one row":
        return
    if not has_zero_alpha(case):
        with pytest.raises(ValueError, match=r"alpha=0 needs|needs an alpha above 0"):
            fit(case, X, t, alpha=0.0)
        return
    model = fit(case, X, t, alpha=0.0)
    Z, scores = dense_features(model, X), scores_of(model, X)
    if "pca" in case.parameters:
        return
    y = np.where(t == model.classes_[1], 1.0, -1.0) if case.labels else t
    expected = solve_least_squares(Z, y, np.ones(len(X)), 0.0)
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-7)
    centered = Z - Z.mean(axis=0)
    centered[np.abs(centered) < 1e-14] = 0
    shortest = np.linalg.pinv(centered, rcond=1e-9) @ (y - y.mean())
    np.testing.assert_allclose(np.ravel(model.feature_coef_), shortest, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ROUTE_CASES)
def test_what_has_no_solution_is_refused_in_words(name, monkeypatch):
    case = ROUTE_CASES[name]
    case.prepare(monkeypatch)
    X, t, _ = rows_of(case, "some weights 0")
    with pytest.raises(ValueError, match=r"at least one non-zero|weight above 0"):
        fit(case, X, t, np.zeros(len(X)))
    with pytest.raises(ValueError, match=r"weight above 0"):
        fit(case, open_stream(X).with_targets(t, np.zeros(len(X))), None)
    if case.labels:
        with pytest.raises(ValueError, match="at least two classes, got one class: 3"):
            fit(case, X, np.full(len(X), 3))
    if isinstance(case.parameters.get("alpha"), str) and not case.labels:
        with pytest.raises(ValueError, match=r"one sample only\. Give more rows"):
            fit(case, X[:1], t[:1])


@pytest.mark.parametrize(
    "name", [name for name, case in ROUTE_CASES.items() if "newton" in name and "held" not in name]
)
def test_a_gradient_that_is_rounding_is_no_lack_of_convergence(name, monkeypatch):
    """Equal rows of two classes: the gradients of both cancel at w = 0."""
    case = ROUTE_CASES[name]
    case.prepare(monkeypatch)
    for X in (equal_rows(LONG), equal_rows(WIDE)):
        model = fit(case, X, np.arange(len(X)) % 2, fit_intercept=False)
        assert np.abs(scores_of(model, X)).max() < 1e-12


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic", "log_loss"])
@pytest.mark.parametrize("feature_map", ["linear", GCWS(12, bits=3, random_state=0)], ids=str)
def test_a_class_of_one_row_that_is_held_out_is_fitted(loss, feature_map):
    """All rows that alpha is chosen on have one label, which has no minimum."""
    rng = np.random.default_rng(0)
    X = rng.random((60, 3))
    for row in np.flatnonzero(held_out_rows(open_stream(X)))[:2]:
        y = (X[:, 0] > 0.5).astype(int)
        y[row] = 2
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            chosen = KernelClassifier(feature_map, loss=loss, tol=1e-5).fit(X, y)
            given = KernelClassifier(feature_map, loss=loss, alpha=chosen.alpha_, tol=1e-5)
            expected = given.fit(X, y).decision_function(X)
        largest = np.abs(expected).max()
        np.testing.assert_allclose(chosen.decision_function(X), expected, atol=1e-3 * largest)


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("mean", [0.0, 1e5, 1e6, 1e7])
def test_float32_rows_with_large_means_are_fitted_as_well_as_their_digits_allow(mean, scale):
    """Means are taken out before products, in the fit and in predictions."""
    rng = np.random.default_rng(0)
    base = rng.normal(size=(2000, 4))
    y = base @ [1.0, -2.0, 0.5, 3.0] + 0.01 * rng.normal(size=2000)
    X = (base + mean).astype(np.float32)
    model = KernelRegressor(Identity(), alpha=1e-6, scale=scale)
    if mean == 1e7:
        with pytest.warns(UserWarning, match=r"column 0 has a spread of .* where float32 has step"):
            model.fit(X, y)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.fit(X, y)
    exact = X.astype(np.float64) - mean  # the digits that are left
    best = LinearRegression().fit(exact, y).score(exact, y)
    assert model.score(X, y) == pytest.approx(best, abs=1e-5)
    whole = model.predict(X)
    parts = [model.predict(X[start : start + 37]) for start in range(0, 2000, 37)]
    np.testing.assert_allclose(np.concatenate(parts), whole, rtol=0, atol=1e-4)


def test_columns_whose_squares_underflow_are_warned_of():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    model = KernelRegressor(Identity(), alpha=1e-6, scale=False)
    with pytest.warns(UserWarning, match="so small that their squares are 0, and the coefficients"):
        model.fit(X * 1e-200, X[:, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, X[:, 0])
