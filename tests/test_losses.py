"""Squared hinge and logistic loss: each equal to SciPy's and scikit-learn's minimum of the same objective, by every route."""

from __future__ import annotations

import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import GCWS, Anchors, Chi2Series, KernelClassifier, RandomFourier, open_stream
from mercer.blocks import Coded, Dense, OneHot, Sparse
from mercer.learn import newton
from mercer.learn.losses import LOSSES, chance
from mercer.learn.newton import choose_held_out, minimise
from mercer.learn.objective import Objective
from mercer.learn.passes import Kept
from mercer.learn.products import back, product, round_trip
from mercer.learn.span import Span
from mercer.philox import Rng, open_interval
from mercer.planner import plan_fit

LOSS = pytest.mark.parametrize("loss", sorted(LOSSES))
INTERCEPT = pytest.mark.parametrize("fit_intercept", [True, False], ids=["intercept", "no intercept"])
PLENTY = 10**9
SMALL = "1kB"  # no room for blocks or matrices

rng = np.random.default_rng(0)
X = rng.random((240, 4))
y = np.digitize(np.sin(5 * X[:, 0]) + X[:, 1] ** 2 + 0.2 * rng.normal(size=240), [0.2, 0.9])


def data(n: int = 90, D: int = 8, t: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Correlated features far from 0, overlapping classes one against all, and whole weights, some of them 0."""
    draw = np.random.default_rng(seed)
    Z = draw.normal(size=(n, D)) @ draw.normal(size=(D, D)) / np.sqrt(D)
    label = np.argmax(Z[:, :t] + draw.normal(size=(n, t)), axis=1)
    return (
        Z + 2 * draw.normal(size=D),
        np.where(label[:, None] == np.arange(t), 1.0, -1.0),
        draw.integers(0, 4, n) * 1.0,
    )


def hashes(n: int, seed: int = 0) -> Coded:
    """Codes of few rows and many features; two rows have none."""
    codes = np.random.default_rng(seed).integers(0, 8, (n, 40)).astype(np.uint8)
    empty = np.zeros(n, bool)
    empty[[3, n - 1]] = True
    return Coded(codes, OneHot(8, 0.3), empty=empty)


def tabled(n: int) -> Coded:
    """Codes between the entries of tables."""
    draw = np.random.default_rng(0)
    tables = draw.normal(size=(6, 5, 3))
    return Coded(draw.integers(0, 4, (n, 6)).astype(np.uint8), tables, draw.random((n, 6)))


def rows_of(Z, Y, w=None, kind=Dense, size=17, room=PLENTY) -> Kept:
    def rows():
        for start in range(0, len(Y), size):
            part = slice(start, start + size)
            yield kind(Z[part]), Y[part], None if w is None else w[part]

    return Kept(rows, room)


def coded_rows(block: Coded, Y, w=None, size=17, room=PLENTY) -> Kept:
    def rows():
        for start in range(0, len(Y), size):
            part = slice(start, start + size)
            fractions = None if block.fractions is None else block.fractions[part]
            empty = None if block.empty is None else block.empty[part]
            yield Coded(block.codes[part], block.tables, fractions, empty), Y[part], None if w is None else w[part]

    return Kept(rows, room)


def value(loss: str, m: np.ndarray) -> np.ndarray:
    """The losses once more, as they are written in books."""
    return np.maximum(0, 1 - m) ** 2 if loss == "squared_hinge" else np.logaddexp(0, -m)


def slope(loss: str, m: np.ndarray) -> np.ndarray:
    return -2 * np.maximum(0, 1 - m) if loss == "squared_hinge" else -1 / (1 + np.exp(m))


def objective(loss, coef, intercept, Z, Y, alpha, w) -> np.ndarray:
    return w @ value(loss, Y * (Z @ coef + intercept)) + alpha / 2 * np.sum(coef**2, axis=0)


def truth(loss, Z, Y, alpha, w, fit_intercept) -> tuple[np.ndarray, np.ndarray]:
    """w and b of each output by L-BFGS on the objective as it is written; kept for the next test that asks for the same."""
    key = (loss, Z.tobytes(), Y.tobytes(), alpha, w.tobytes(), fit_intercept)
    if key not in _known:
        _known[key] = _truth(loss, Z, Y, alpha, w, fit_intercept)
    return _known[key]


_known: dict = {}


def _truth(loss, Z, Y, alpha, w, fit_intercept) -> tuple[np.ndarray, np.ndarray]:
    D = Z.shape[1]
    found = []
    for column in Y.T:

        def both(v, column=column):
            m = column * (Z @ v[:D] + fit_intercept * v[D])
            r = w * column * slope(loss, m)
            return w @ value(loss, m) + alpha / 2 * v[:D] @ v[:D], np.append(
                Z.T @ r + alpha * v[:D], fit_intercept * r.sum()
            )

        options = {"maxiter": 100_000, "maxfun": 1_000_000, "ftol": 1e-16, "gtol": 1e-10, "maxcor": 50}
        found.append(minimize(both, np.zeros(D + 1), jac=True, method="L-BFGS-B", options=options).x)
    V = np.array(found).T
    return V[:D], fit_intercept * V[D]


def assert_minimum(found, loss, Z, Y, alpha, w, fit_intercept):
    """Objective and coefficients are those of L-BFGS to 1e-6."""
    w = np.ones(len(Z)) if w is None else w
    coef, intercept = truth(loss, Z, Y, alpha, w, fit_intercept)
    ours, theirs = (
        objective(loss, c, b, Z, Y, alpha, w) for c, b in ((found.coef, found.intercept), (coef, intercept))
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    assert np.all(ours <= theirs * (1 + 1e-9))
    assert np.abs(found.coef - coef).max() <= 1e-6 * np.abs(coef).max()
    assert np.abs(found.intercept - intercept).max() <= 1e-6 * max(np.abs(coef).max(), np.abs(intercept).max())
    assert not found.late.any()


@LOSS
def test_slope_and_curvature_are_derivatives(loss):
    f = LOSSES[loss]
    m = np.concatenate([np.linspace(-30, 0.999, 200), np.linspace(1.001, 30, 200)])
    e = 1e-6
    np.testing.assert_allclose(f.slope(m), (f.value(m + e) - f.value(m - e)) / (2 * e), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(f.curvature(m), (f.slope(m + e) - f.slope(m - e)) / (2 * e), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(f.value(m), value(loss, m), rtol=1e-14)


@LOSS
def test_losses_are_finite_for_margins_to_1e4(loss):
    f = LOSSES[loss]
    m = np.array([-1e4, -800.0, -1.0, 0.0, 800.0, 1e4])
    for part in (f.value(m), f.slope(m), f.curvature(m)):
        assert np.isfinite(part).all()
    assert f.value(m)[0] == pytest.approx(1e4 if loss == "logistic" else (1 + 1e4) ** 2)
    assert np.all(np.diff(f.value(m)) <= 0)
    assert chance(np.array([-700.0]))[0] == pytest.approx(np.exp(-700.0), rel=1e-12)


@pytest.mark.parametrize("make", [hashes, tabled], ids=["one-hot", "tables"])
def test_products_over_threads_are_those_of_the_matrix(make):
    block, W = make(60), np.random.default_rng(1).normal(size=(make(60).shape[1], 4))
    Z = block.toarray()
    R = np.random.default_rng(2).normal(size=(60, 4))
    np.testing.assert_allclose(product(block, W), Z @ W, atol=1e-12)
    np.testing.assert_allclose(back(block, R), Z.T @ R, atol=1e-12)
    np.testing.assert_allclose(round_trip(block, R), Z @ (Z.T @ R), atol=1e-12)
    np.testing.assert_allclose(product(Dense(Z), W), Z @ W, atol=1e-12)
    np.testing.assert_allclose(back(Dense(Z), R), Z.T @ R, atol=1e-12)


@LOSS
@INTERCEPT
@pytest.mark.parametrize("exact", [True, False], ids=["matrices", "conjugate gradients"])
@pytest.mark.parametrize(("n", "D", "t"), [(70, 6, 4), (24, 30, 2), (60, 5, 1)])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_the_minimum_is_that_of_l_bfgs(n, D, t, weighted, exact, fit_intercept, loss):
    Z, Y, w = data(n, D, max(t, 2))
    Y, w = Y[:, :t], w if weighted else None
    for alpha, kind, room in (
        (2.0, Dense, PLENTY),
        (2.0, lambda part: Sparse(sp.csr_array(part)), PLENTY),
        (50.0, Dense, 0),
    ):
        rows = rows_of(Z, Y, w, kind, room=room)
        found = minimise(rows, LOSSES[loss], alpha, fit_intercept=fit_intercept, exact=exact, tol=1e-7)
        assert rows.kept == (room > 0)
        assert_minimum(found, loss, Z, Y, alpha, w, fit_intercept)


@LOSS
@INTERCEPT
@pytest.mark.parametrize("make", [hashes, tabled], ids=["one-hot", "tables"])
@pytest.mark.parametrize("room", [PLENTY, 0], ids=["kept", "read anew"])
def test_codes_have_the_same_minimum(make, room, fit_intercept, loss):
    """One-hot codes of 70 rows are 320 features: kept, they go by the weights of rows."""
    _, Y, w = data(70)
    block = make(70)
    found = minimise(coded_rows(block, Y, w, room=room), LOSSES[loss], 0.2, fit_intercept=fit_intercept, tol=1e-7)
    assert (found.weights is not None) == (make is hashes and room > 0)
    assert_minimum(found, loss, block.toarray(), Y, 0.2, w, fit_intercept)


def test_sweeps_alone_come_to_the_minimum():
    """Newton steps would hide a wrong formula of the sweeps: here there are none."""
    _, Y, w = data(70)
    block = hashes(70)
    hinge = Objective.of("sweeps", coded_rows(block, Y, w), LOSSES["squared_hinge"], 0.2, False)
    span, a = Span(hinge, block, Y, w), np.zeros((70, 3))
    span.sweep(a, 1e-9)
    expected, _ = truth("squared_hinge", block.toarray(), Y, 0.2, w, False)
    assert np.abs(span.coef(a) - expected).max() <= 1e-6 * np.abs(expected).max()


@LOSS
def test_float32_features_have_the_minimum_of_those_numbers(loss):
    Z, Y, w = data()
    Z = Z.astype(np.float32)
    for exact in (True, False):
        found = minimise(rows_of(Z, Y, w), LOSSES[loss], 0.3, exact=exact, tol=1e-7)
        assert_minimum(found, loss, Z.astype(np.float64), Y, 0.3, w, True)
    block = hashes(70)
    single = Coded(block.codes, OneHot(8, float(np.float32(0.3)), np.dtype(np.float32)), empty=block.empty)
    found = minimise(coded_rows(single, Y[:70], w[:70]), LOSSES[loss], 0.3, tol=1e-7)
    assert found.weights is not None
    assert_minimum(found, loss, single.toarray().astype(np.float64), Y[:70], 0.3, w[:70], True)


@INTERCEPT
@LOSS
def test_a_weight_is_a_number_of_equal_rows(loss, fit_intercept):
    Z, Y, w = data()
    again = np.repeat(np.arange(len(Z)), w.astype(int))
    for exact in (True, False):
        one = minimise(rows_of(Z, Y, w), LOSSES[loss], 0.3, exact=exact, fit_intercept=fit_intercept, tol=1e-8)
        other = minimise(
            rows_of(Z[again], Y[again]), LOSSES[loss], 0.3, exact=exact, fit_intercept=fit_intercept, tol=1e-8
        )
        np.testing.assert_allclose(one.coef, other.coef, rtol=0, atol=1e-7 * np.abs(one.coef).max())


@LOSS
@pytest.mark.parametrize("make", [lambda Y, w: rows_of(data()[0], Y, w), lambda Y, w: coded_rows(hashes(90), Y, w)])
def test_warm_starts_end_where_cold_ones_do(make, loss):
    _, Y, w = data()
    rows = make(Y, w)
    far = minimise(rows, LOSSES[loss], 30.0)
    warm = minimise(rows, LOSSES[loss], 0.3, start=far, tol=1e-8)
    cold = minimise(rows, LOSSES[loss], 0.3, tol=1e-8)
    np.testing.assert_allclose(warm.coef, cold.coef, rtol=0, atol=1e-7 * np.abs(cold.coef).max())
    np.testing.assert_allclose(warm.intercept, cold.intercept, rtol=0, atol=1e-6)
    assert minimise(rows, LOSSES[loss], 0.3, start=cold).steps == 0


@LOSS
@pytest.mark.parametrize("exact", [True, False])
def test_a_large_mean_costs_no_digits(exact, loss):
    Z, Y, w = data()
    near = minimise(rows_of(Z, Y, w), LOSSES[loss], 0.3, exact=exact)
    away = minimise(rows_of(Z + 1e5, Y, w), LOSSES[loss], 0.3, exact=exact)
    np.testing.assert_allclose(near.coef, away.coef, rtol=0, atol=1e-5 * np.abs(near.coef).max())


@LOSS
@pytest.mark.parametrize("alpha", [1e-2, 1.0])
@pytest.mark.parametrize("exact", [True, False])
def test_separable_rows_and_constant_features_have_a_minimum(exact, alpha, loss):
    Z, Y, _ = data(60, 5, 2)
    Z[:, 0] += 50 * Y[:, 0]
    Z[:, 1] = 3.0
    found = minimise(rows_of(Z, Y[:, :1]), LOSSES[loss], alpha, exact=exact, tol=1e-7)
    assert not found.late.any()
    assert np.all(np.sign(Z @ found.coef + found.intercept) == Y[:, :1])
    assert found.coef[1] == pytest.approx(0, abs=1e-8)
    alone = minimise(rows_of(Z[:, 1:2], Y[:, :1]), LOSSES[loss], alpha, exact=exact)
    assert alone.coef[0] == pytest.approx(0, abs=1e-10)


@LOSS
def test_the_alpha_is_chosen_by_the_loss_of_rows_held_out(loss):
    Z, Y, w = data(200, 6)
    held = open_interval(Rng(0).words("held out", 0, 200)) < 0.1
    choice, start = choose_held_out(rows_of(Z, Y, w), LOSSES[loss], [1e-2, 1.0, 100.0], tol=1e-6)
    for alpha, score in zip(choice.alphas, choice.scores, strict=True):
        if np.isfinite(score):
            coef, intercept = truth(loss, Z[~held], Y[~held], alpha, w[~held], True)
            errors = w[held] @ value(loss, Y[held] * (Z[held] @ coef + intercept))
            assert score == pytest.approx(errors.sum() / w[held].sum(), rel=1e-2)
    assert choice.alpha == choice.alphas[np.argmin(choice.scores)]
    assert start.coef.shape == (6, 3)


@LOSS
def test_alphas_so_large_that_w_is_next_to_0_do_not_end_the_search(loss):
    Z, Y, w = data(200, 6)
    useful = [100.0, 1.0, 1e-2]
    alone, _ = choose_held_out(rows_of(Z, Y, w), LOSSES[loss], useful)
    more, _ = choose_held_out(rows_of(Z, Y, w), LOSSES[loss], [*np.logspace(30, 10, 6), *useful])
    assert more.alpha == alone.alpha
    assert np.isfinite(more.scores[:6]).all()


def test_an_output_that_is_stuck_is_late_while_others_go_on(monkeypatch):
    Z, Y, _ = data(150, 6)
    go = newton._go

    def stuck(point, here, d):
        moved, there = go(point, here, d)
        return moved & (point.outputs != 1), there

    monkeypatch.setattr(newton, "_go", stuck)
    found = minimise(rows_of(Z, Y), LOSSES["logistic"], 1.0, exact=True, tol=1e-9)
    assert found.steps > 2
    assert found.late.tolist() == [False, True, False]


def fourier(**more) -> RandomFourier:
    return RandomFourier(48, gamma=2.0, random_state=0, **more)


def classifier(loss="logistic", alpha=0.3, feature_map=None, **more) -> KernelClassifier:
    return KernelClassifier(fourier() if feature_map is None else feature_map, loss=loss, alpha=alpha, **more)


def features() -> np.ndarray:
    return fourier().fit(X).transform(X)


@parametrize_with_checks(
    [KernelClassifier(Chi2Series(2, poles="minimax", signed=True), loss=loss, alpha=1.0) for loss in sorted(LOSSES)]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("memory", [None, SMALL], ids=["matrices", "conjugate gradients"])
@pytest.mark.parametrize("labels", [y, y == 1], ids=["three", "two"])
@pytest.mark.parametrize("rows", [X, sp.csr_matrix(X)], ids=["dense", "csr"])
def test_without_an_intercept_it_is_linear_svc_on_features(rows, labels, memory):
    model = classifier("squared_hinge", fit_intercept=False, max_memory=memory).fit(rows, labels)
    other = LinearSVC(C=1 / 0.3, fit_intercept=False, dual=False, tol=1e-10, max_iter=100_000).fit(features(), labels)
    assert model.plan_.route == ("newton" if memory is None else "newton-cg")
    theirs = np.squeeze(other.coef_)
    assert np.abs(model.coef_ - theirs).max() <= 1e-6 * np.abs(theirs).max()
    assert np.array_equal(model.predict(X), other.predict(features()))


@pytest.mark.parametrize("memory", [None, SMALL], ids=["matrices", "conjugate gradients"])
@INTERCEPT
def test_two_classes_are_logistic_regression_on_features(fit_intercept, memory):
    labels = y == 1
    model = classifier(fit_intercept=fit_intercept, max_memory=memory).fit(X, labels)
    other = LogisticRegression(C=1 / 0.3, fit_intercept=fit_intercept, solver="newton-cholesky", tol=1e-12).fit(
        features(), labels
    )
    assert np.abs(model.coef_ - other.coef_[0]).max() <= 1e-6 * np.abs(other.coef_).max()
    assert model.intercept_ == pytest.approx(other.intercept_[0], abs=1e-6)
    np.testing.assert_allclose(model.predict_proba(X), other.predict_proba(features()), rtol=0, atol=1e-6)


@LOSS
@pytest.mark.parametrize("weight", ["balanced", {0: 3.0, 2: 0.5}], ids=["balanced", "dict"])
def test_classes_are_weighted(loss, weight):
    model = classifier(loss, class_weight=weight).fit(X, y)
    counts = np.bincount(y)
    each = len(y) / (3 * counts) if weight == "balanced" else np.array([3.0, 1.0, 0.5])
    other = classifier(loss).fit(X, y, sample_weight=each[y])
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=0, atol=1e-6 * np.abs(other.coef_).max())


def test_hashes_are_linear_svc_on_their_features():
    hashing = GCWS(64, bits=4, random_state=0)
    model = classifier("squared_hinge", feature_map=hashing, fit_intercept=False).fit(X, y)
    other = LinearSVC(C=1 / 0.3, fit_intercept=False, dual=False, tol=1e-10, max_iter=100_000)
    other.fit(hashing.fit_transform(X), y)
    assert (model.plan_.route, model.plan_.features) == ("newton-cg", 1024)
    assert np.abs(model.coef_ - other.coef_).max() <= 1e-6 * np.abs(other.coef_).max()


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
    assert np.abs(P.mean(axis=0) - np.array([np.mean(labels == c) for c in model.classes_])).max() < 0.03


def test_probabilities_of_rows_that_no_class_wants_are_numbers():
    from mercer.learn.labels import probabilities

    P = probabilities(np.array([[-1000.0, -1001.0, -2000.0], [900.0, 900.0, -5.0]]))
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    np.testing.assert_allclose(P[0, 1] / P[0, 0], np.exp(-1.0))
    np.testing.assert_allclose(probabilities(np.array([[-1000.0]])), [[1.0, 0.0]])


def test_only_logistic_loss_has_probabilities():
    assert hasattr(classifier("logistic"), "predict_proba")
    for loss in ("squared", "squared_hinge"):
        assert not hasattr(classifier(loss), "predict_proba")


@LOSS
def test_auto_and_a_list_choose_and_are_fitted_to_all_rows(loss):
    for alpha in ("auto", [0.03, 0.3, 3.0]):
        model = classifier(loss, alpha).fit(X, y)
        assert model.alpha_ == model.alphas_[np.argmin(model.gcv_)]
        plain = classifier(loss, model.alpha_).fit(X, y)
        np.testing.assert_allclose(model.coef_, plain.coef_, rtol=0, atol=1e-6 * np.abs(plain.coef_).max())
    assert len(classifier(loss, "auto").fit(X, y).alphas_) == 25


@LOSS
def test_the_choice_does_not_depend_on_the_scale_of_features_or_repeated_rows(loss):
    Z, Y, _ = data(150, 6)
    one, _ = choose_held_out(rows_of(Z, Y), LOSSES[loss])
    other, _ = choose_held_out(rows_of(8 * Z, Y, np.full(150, 3.0)), LOSSES[loss])
    np.testing.assert_allclose(other.alphas, 192 * one.alphas)
    assert np.argmin(one.scores) == np.argmin(other.scores)


@LOSS
@pytest.mark.parametrize("memory", [None, SMALL], ids=["kept", "read anew"])
def test_streams_give_the_model_of_arrays(loss, memory, tmp_path):
    for i, start in enumerate(range(0, 240, 50)):
        part = {f"c{j}": X[start : start + 50, j] for j in range(4)}
        pq.write_table(pa.table({**part, "y": y[start : start + 50]}), tmp_path / f"part-{i}.parquet")
    model = classifier(loss, max_memory=memory).fit(open_stream(tmp_path, target="y"))
    assert np.array_equal(model.coef_, classifier(loss, max_memory=memory).fit(X, y).coef_)


@LOSS
@pytest.mark.parametrize("memory", [None, SMALL])
@pytest.mark.parametrize(
    "feature_map", [fourier(), GCWS(130, bits=4, random_state=0), Anchors(32)], ids=["fourier", "gcws", "anchors"]
)
def test_threads_change_no_bit(feature_map, memory, loss, monkeypatch):
    monkeypatch.setattr("mercer.tiles.worth_threads", lambda cost, rows: True)
    one, two, again = (
        classifier(loss, 3.0, feature_map, n_jobs=jobs, max_memory=memory, tol=1e-3).fit(X, y).coef_
        for jobs in (1, 2, 2)
    )
    assert np.array_equal(one, two)
    assert np.array_equal(two, again)


def test_steps_that_are_not_enough_are_a_warning_in_words():
    words = (
        r"KernelClassifier: Newton's method has not reached tol=1e-07 for class 0, 1, 2: the gradient is [\d.e-]+ of the first after 1 "
        r"steps and \d+ passes. Take a larger max_iter \(it is 1\), alpha or tol"
    )
    for memory in (None, SMALL):
        with pytest.warns(ConvergenceWarning, match=words):
            classifier(max_iter=1, max_memory=memory).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="for class 'b': the gradient"):
        classifier(max_iter=1).fit(X, np.where(y == 1, "b", "a"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        classifier(max_iter=30).fit(X, y)


def test_the_plan_says_how():
    few = plan_fit(1000, 16, 256, limit=10**9, outputs=3)
    assert few.route == "newton"
    assert few.held < 10**7
    assert few.room == 10**9 - few.held
    assert "Newton's method by matrices, which hold" in str(few)
    assert "blocks are kept where they fit into" in str(few)
    assert plan_fit(1000, 16, 256, limit=few.held - 1, outputs=3).route == "newton-cg"
    assert plan_fit(1000, 16, 8192, limit=10**12, outputs=3).route == "newton-cg"
    assert plan_fit(1000, 5000, 4096, limit=10**12, outputs=3).route == "newton"
    small = plan_fit(None, 16, 256, limit=1000, outputs=3, counts=True)
    assert small.room == 0
    assert "conjugate gradients over blocks" in str(small)
    assert small.passes[0] == "classes and their weights"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: classifier("hinge").fit(X, y), "loss must be one of 'squared', .*'squared_hinge'.*got 'hinge'"),
        (
            lambda: classifier(alpha="gcv").fit(X, y),
            "alpha='gcv' needs loss='squared', got loss='logistic'. Use 'auto'",
        ),
        (lambda: classifier(alpha="kfold").fit(X, y), "alpha='kfold' needs loss='squared'"),
        (lambda: classifier(alpha="loo").fit(X, y), "alpha='loo' needs loss='squared'"),
        (
            lambda: classifier(alpha=0).fit(X, y),
            "alpha = 0 needs loss='squared': .*have no minimum. Give an alpha above 0",
        ),
        (lambda: classifier(alpha=[0.0, 1.0]).fit(X, y), "alpha = 0 needs loss='squared'"),
        (lambda: classifier(alpha=-1.0).fit(X, y), "alpha must be a number of at least 0"),
        (lambda: classifier(pca=3).fit(X, y), "pca=3 needs the moments of loss='squared', got loss='logistic'"),
        (lambda: classifier(checkpoint="a").fit(X, y), "checkpoint='a' needs the moments of loss='squared'"),
        (lambda: classifier(max_iter=0).fit(X, y), "max_iter must be a whole number of at least 1, got 0"),
        (lambda: classifier(tol=0.0).fit(X, y), "tol must be a finite number above 0, got 0.0"),
        (lambda: classifier().fit(X, ["a"] * 240), "needs rows of at least two classes, got one class: 'a'"),
        (lambda: classifier().fit(X, y, sample_weight=np.zeros(240)), "at least one non-zero number"),
        (
            lambda: minimise(rows_of(*data()[:2], np.zeros(90)), LOSSES["logistic"], 1.0),
            "needs rows with a weight above 0",
        ),
        (lambda: classifier(class_weight={7: 1.0}).fit(X, y), "class_weight has the label 7"),
        (lambda: classifier("squared_hinge").fit(X, X[:, 0]), "Unknown label type: continuous"),
        (lambda: classifier(alpha="auto").fit(X[:1], y[:1]), "needs rows of at least two classes|one sample only"),
        (lambda: classifier(alpha="auto").fit(X[:2], [0, 1]), "no row is held out. Give more rows, or a number"),
        (
            lambda: minimise(rows_of(*data()[:2]), LOSSES["logistic"], 0.0),
            "alpha must be a finite number above 0, got 0.0",
        ),
        (lambda: choose_held_out(rows_of(*data()[:2]), LOSSES["logistic"], [0.0]), "alphas must be above 0, got 0"),
    ],
)
def test_what_does_not_go_together_is_refused_in_words(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_rows_cannot_be_taken_in_later():
    model = classifier("squared_hinge")
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError) as error:
        model.partial_fit(X, y, classes=[0, 1, 2])
    assert "partial_fit adds the moments of loss='squared', got loss='squared_hinge'. Use fit" in str(
        error.value.__cause__
    )
    assert hasattr(classifier("squared"), "partial_fit")


def test_sums_that_leave_float64_are_refused():
    Z, Y, _ = data()
    with np.errstate(over="ignore", invalid="ignore"), pytest.raises(ValueError, match="leave the range of float64"):
        minimise(rows_of(Z * 1e200, Y), LOSSES["logistic"], 1.0)
