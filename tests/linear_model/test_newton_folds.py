"""Alpha of losses without a closed form: folds, the models without them, and the plan."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from tests.helpers.loss_data import LOSS, PLENTY, data, rows_of
from tests.helpers.plans import problem_of

from mercer import GCWS, KernelClassifier, RandomFourier, open_stream
from mercer.linear_model import routes
from mercer.linear_model.cross_validation import folds_of_rows
from mercer.linear_model.losses import LOSSES
from mercer.linear_model.routes import ROUTES, Settings, plan_alpha
from mercer.linear_model.solvers import newton_folds
from mercer.linear_model.solvers.blocks import CachedBlocks, CenteredBlocks
from mercer.linear_model.solvers.coded_descent import Descent
from mercer.linear_model.solvers.newton_cg import minimize_loss
from mercer.linear_model.solvers.newton_folds import choose_alpha
from mercer.maps.block import Coded, Dense, OneHot, Sparse


def coefficients(models) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients and intercepts of models, (K, D, t) and (K, t)."""
    return np.array([one.coef for one in models]), np.array([one.intercept for one in models])


def mean_losses(loss, Z, Y, w, fold, alpha) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the mean loss of rows by models of `minimize_loss` without their fold, and these."""
    total, coef, intercept = 0.0, [], []
    for k in range(fold.max() + 1):
        model = minimize_loss(rows_of(Z, Y, w * (fold != k)), LOSSES[loss], alpha, tol=1e-8)
        F = Z @ model.coef + model.intercept
        total += (w * (fold == k)) @ LOSSES[loss].row_values(Y, F)
        coef.append(model.coef)
        intercept.append(model.intercept)
    return total / w[fold >= 0].sum(), np.array(coef), np.array(intercept)


@pytest.mark.parametrize(("loss", "classes"), [("log_loss", 3), ("logistic", 2)])
def test_scores_and_models_are_those_of_scikit_learn_without_each_fold(loss, classes):
    Z, Y, w = data(150, 6, classes)
    if classes == 2:
        Y = Y[:, :1]
    labels = np.argmax(Y, axis=1) if classes > 2 else Y[:, 0]
    alphas, fold = [1.0, 10.0, 100.0, 1000.0], np.arange(150) % 5
    rows = rows_of(Z, Y, w)
    found = choose_alpha(rows, LOSSES[loss], fold, alphas, grouped=True, tol=1e-6)
    scores, models = [], []
    for alpha in alphas:
        values = np.zeros(150)
        for k in range(5):
            out = fold == k
            model = LogisticRegression(C=1 / alpha, tol=1e-7, max_iter=10_000)
            model.fit(Z[~out], labels[~out], sample_weight=w[~out])
            P = model.predict_log_proba(Z[out])
            values[out] = -P[np.arange(out.sum()), np.searchsorted(model.classes_, labels[out])]
            models.append((alpha, model))
        scores.append(w @ values / w.sum())
    assert found.search.alpha == alphas[np.argmin(scores)]
    assert found.search.method == "kfold"
    tried = np.isfinite(found.search.scores)
    assert tried.sum() >= 3
    np.testing.assert_allclose(found.search.scores[tried], np.array(scores)[tried], rtol=1e-3)
    chosen = [model for alpha, model in models if alpha == found.search.alpha]
    for ours, model in zip(found.models, chosen, strict=True):
        largest = np.abs(model.coef_).max()
        np.testing.assert_allclose(ours.coef.T, model.coef_, atol=1e-2 * largest)
        np.testing.assert_allclose(ours.intercept, model.intercept_, atol=1e-2 * largest)


def codes(n: int, places: int = 40) -> Coded:
    return Coded(
        np.random.default_rng(0).integers(0, 8, (n, places)).astype(np.uint8), OneHot(8, 0.3)
    )


def tables(n: int) -> Coded:
    draw = np.random.default_rng(0)
    return Coded(draw.integers(0, 4, (n, 60)).astype(np.uint8), draw.normal(size=(60, 5, 3)))


@LOSS
@pytest.mark.parametrize(
    "kind",
    ["dense", "sparse", "read anew", "one-hot", "tables"],
)
def test_every_form_of_rows_has_the_models_without_each_fold(kind, loss):
    """One-hot codes go by coordinate descent, tables of fewer rows than features by the dual."""
    Z, Y, w = data(80, 6)
    fold = np.where(np.arange(80) < 8, -1, np.arange(80) % 3)
    if kind in ("one-hot", "tables"):
        block = codes(80) if kind == "one-hot" else tables(80)
        rows, Z = CachedBlocks(lambda: iter([(block, Y, w)]), PLENTY), block.toarray()
    else:
        make = Dense if kind != "sparse" else lambda part: Sparse(sp.csr_array(part))
        rows = rows_of(Z, Y, w, make, room=0 if kind == "read anew" else PLENTY)
    alphas = [0.1, 1.0, 10.0]
    found = choose_alpha(rows, LOSSES[loss], fold, alphas, tol=1e-6, max_iter=1000)
    score, coef, intercept = mean_losses(loss, Z, Y, w, fold, found.search.alpha)
    assert found.search.scores.min() == pytest.approx(score, rel=1e-3)
    found_coef, found_intercept = coefficients(found.models)
    np.testing.assert_allclose(found_coef, coef, atol=2e-3 * np.abs(coef).max())
    np.testing.assert_allclose(found_intercept, intercept, atol=5e-3 * np.abs(coef).max())
    mean = found_coef.mean(axis=0)
    swept = kind == "one-hot" and loss != "log_loss"
    assert isinstance(found.start, Descent) == swept
    rounding = 1e-6 if swept else 1e-9
    np.testing.assert_allclose(found.start.coef, mean, atol=rounding * np.abs(mean).max())
    plain, warm = (
        minimize_loss(rows, LOSSES[loss], found.search.alpha, start=start, tol=1e-8, max_iter=1000)
        for start in (None, found.start)
    )
    np.testing.assert_allclose(warm.coef, plain.coef, atol=1e-5 * np.abs(plain.coef).max())


@pytest.mark.full
@LOSS
def test_the_default_grid_finds_what_all_alphas_on_all_folds_find(loss):
    Z, Y, w = data(240, 6)
    fold = np.arange(240) % 5
    found = choose_alpha(rows_of(Z, Y, w), LOSSES[loss], fold).search
    best = int(np.flatnonzero(found.alphas == found.alpha)[0])
    near = range(best - 2, best + 3)
    exact = [mean_losses(loss, Z, Y, w, fold, found.alphas[i])[0] for i in near]
    assert exact[2] <= 1.001 * min(exact)
    assert found.scores[best] == pytest.approx(exact[2], rel=0.01)
    alone = mean_losses(loss, Z, Y, w, fold, found.alphas[-1])[0]  # next to the intercept alone
    assert found.baseline == pytest.approx(alone, rel=1e-4)
    assert 2 <= np.isfinite(found.scores).sum() < 8


def test_alphas_that_cannot_be_the_best_are_left_out_of_later_folds(monkeypatch):
    Z, Y, w = data(400, 6)
    fold, solved = np.arange(400) % 5, []
    go = newton_folds._Choice._solve

    def solve(self, fold, r, *more):
        solved.append(self._alpha(r))
        return go(self, fold, r, *more)

    monkeypatch.setattr(newton_folds._Choice, "_solve", solve)
    alphas = [500.0, 1.0, 1e-5]
    loss = LOSSES["logistic"]
    found = choose_alpha(rows_of(Z, Y, w), loss, fold, alphas).search
    assert found.alpha == 1.0 and np.isinf(found.scores[0])
    assert solved.count(500.0) == 1 and solved.count(1.0) == 5
    solved.clear()
    found = choose_alpha(rows_of(Z, Y, w), loss, fold, alphas, grouped=True).search
    assert found.alpha == 1.0 and np.isfinite(found.scores).all()
    assert solved.count(500.0) == 5


@pytest.mark.parametrize(
    ("rows", "features", "method"),
    [
        (4096, 16_384, "kfold"),
        (4097, 16_384, "held-out"),
        (16_384, 16_384, "kfold"),
        (20_001, 1024, "held-out"),
        (None, 1024, "held-out"),
    ],
)
def test_folds_are_for_few_rows(rows, features, method):
    settings = Settings("KernelClassifier", "auto", loss="logistic")
    assert settings.alpha_methods(rows, features)[0] == method


def test_the_other_folds_move_the_choice_of_the_first():
    """Labels of the first fold are noise, for which the largest alpha is the best."""
    draw = np.random.default_rng(1)
    Z = draw.normal(size=(200, 4))
    Y = np.sign(Z[:, :1] + 0.3 * draw.normal(size=(200, 1)))
    fold = np.arange(200) % 5
    Y[fold == 0] = draw.choice([-1.0, 1.0], (40, 1))
    alphas = 10.0 ** np.arange(-2, 5)
    one = choose_alpha(rows_of(Z, Y), LOSSES["logistic"], np.where(fold == 0, 0, -1), alphas)
    all_folds = choose_alpha(rows_of(Z, Y), LOSSES["logistic"], fold, alphas, grouped=True)
    assert one.search.method == "held-out" and len(one.models) == 1
    exact = [mean_losses("logistic", Z, Y, np.ones(200), fold, alpha)[0] for alpha in alphas]
    assert all_folds.search.alpha == alphas[np.argmin(exact)] < one.search.alpha


@LOSS
def test_the_baseline_is_the_best_constant_of_the_other_folds(loss):
    Z, Y, w = data(90, 6)
    mean = w @ Y / w.sum()
    scores = np.tile(LOSSES[loss].constant(mean), (90, 1))
    slopes = w @ LOSSES[loss].gradient(Y, scores)
    np.testing.assert_allclose(slopes, 0, atol=1e-9)
    one = np.array([1.0, -1.0, -1.0])  # all rows in the first class
    assert np.isfinite(LOSSES[loss].constant(one)).all()
    fold = np.arange(90) % 3
    found = choose_alpha(rows_of(Z, Y, w), LOSSES[loss], fold, [1.0], fit_intercept=False)
    zero = LOSSES[loss].row_values(Y, np.zeros_like(Y))
    assert found.search.baseline == pytest.approx(w @ zero / w.sum())
    found = choose_alpha(rows_of(Z, Y, w), LOSSES[loss], np.where(fold == 0, 0, -1), [1.0])
    out = fold == 0
    constant = LOSSES[loss].constant(w[~out] @ Y[~out] / w[~out].sum())
    values = LOSSES[loss].row_values(Y[out], np.tile(constant, (out.sum(), 1)))
    assert found.search.baseline == pytest.approx(w[out] @ values / w[out].sum())


@LOSS
def test_rows_of_a_class_that_no_training_row_has_do_not_count(loss):
    """The only row of the third class is in the first fold."""
    Z, Y, w = data(90, 6)
    w[w == 0] = 1.0
    label = np.argmax(Y[:, :2], axis=1)
    label[0] = 2
    Y = np.where(label[:, None] == np.arange(3), 1.0, -1.0)
    fold = np.arange(90) % 5
    found = choose_alpha(rows_of(Z, Y, w), LOSSES[loss], fold, [1.0], tol=1e-6)
    total, weight = 0.0, 0.0
    for k in range(5):
        F = Z @ found.models[k].coef + found.models[k].intercept
        chosen = w * (fold == k) * (label != 2)
        total, weight = total + chosen @ LOSSES[loss].row_values(Y, F), weight + chosen.sum()
    assert found.search.scores[0] == pytest.approx(total / weight, rel=1e-4)
    assert np.isfinite(found.start.coef).all()
    # the mean of the third output is that of the folds that learned it
    if loss != "log_loss":
        learned = coefficients(found.models[1:])[0][:, :, 2].mean(axis=0)
        np.testing.assert_allclose(found.start.coef[:, 2], learned, rtol=1e-9)


def test_rows_are_swapped_and_swapped_back():
    Z, Y, w = data(60, 5)
    copies = CenteredBlocks.of(_kept(rows_of(Z, Y, w)), np.zeros(5))
    before, chosen = copies.Z.copy(), np.random.default_rng(0).random(60) < 0.3
    with copies.parted(chosen) as (others, some):
        assert np.shares_memory(others.Z, copies.Z)
        for part, which in ((others, ~chosen), (some, chosen)):
            order = np.lexsort(before[which].T), np.lexsort(part.Z.T)
            np.testing.assert_array_equal(part.Z[order[1]], before[which][order[0]])
            np.testing.assert_array_equal(part.w[order[1]], w[which][order[0]])
            np.testing.assert_array_equal(part.Y[order[1]], Y[which][order[0]])
    np.testing.assert_array_equal(copies.Z, before)
    np.testing.assert_array_equal(copies.w, w)


def _kept(rows: CachedBlocks) -> CachedBlocks:
    for _ in rows():
        pass
    return rows


def test_folds_are_parts_of_the_different_rows_with_all_their_copies():
    X = np.repeat(np.random.default_rng(0).normal(size=(63, 3)), 4, axis=0)
    folds = folds_of_rows(open_stream(X)).reshape(63, 4)
    assert np.all(folds == folds[:, :1])
    assert sorted(np.bincount(folds[:, 0])) == [12, 12, 13, 13, 13]
    shuffled = np.random.default_rng(1).permutation(len(X))
    again = folds_of_rows(open_stream(X[shuffled]))
    np.testing.assert_array_equal(again, folds.ravel()[shuffled])
    assert folds_of_rows(open_stream(X[:12])).reshape(3, 4)[:, 0].tolist() != [0, 0, 0]
    assert set(folds_of_rows(open_stream(X[:12]))) == {0, 1, 2}
    assert set(folds_of_rows(open_stream(X[:4]))) == {-1}
    y, w = np.zeros(len(X)), np.arange(len(X)) % 4 * 1.0
    weighted = folds_of_rows(open_stream((X, y)).with_targets(None, w)).reshape(63, 4)
    assert np.all(weighted[:, 0] == -1) and np.array_equal(weighted[:, 1:], folds[:, 1:])


def rows() -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(2)
    X = draw.normal(size=(240, 4))
    return X, np.digitize(X[:, 0] * X[:, 1] + 0.3 * draw.normal(size=240), [-0.4, 0.4])


@LOSS
@pytest.mark.parametrize(
    "feature_map",
    [
        RandomFourier(64, random_state=0),
        RandomFourier(512, random_state=0),
        GCWS(16, bits=3, random_state=0),
    ],
    ids=["fourier", "few rows", "codes"],
)
def test_an_estimator_chooses_by_folds_up_to_20000_rows(feature_map, loss, monkeypatch):
    X, y = rows()
    seen = []

    def choose(blocks, loss, fold, *more, **options):
        seen.append(fold)
        return choose_alpha(blocks, loss, fold, *more, **options)

    monkeypatch.setattr(routes, "choose_alpha", choose)
    model = KernelClassifier(feature_map, loss=loss).fit(X, y)
    assert model.plan_.alpha_method == model.validation_score_.method == "kfold"
    assert "; alpha by 5-fold cross-validation." in str(model.plan_)
    assert str(model.validation_score_).startswith("Cross-validated loss")
    assert 0 < model.validation_score_.explained < 1
    np.testing.assert_array_equal(seen[0], folds_of_rows(open_stream(X)))
    same = KernelClassifier(feature_map, loss=loss, alpha="kfold").fit(X, y)
    np.testing.assert_array_equal(same.feature_coef_, model.feature_coef_)
    monkeypatch.setattr(routes, "LOO_ROWS", 200)
    monkeypatch.setattr("mercer.linear_model.cross_validation.LOO_ROWS", 200)
    many = KernelClassifier(feature_map, loss=loss).fit(X, y)
    assert many.plan_.alpha_method == many.validation_score_.method == "held-out"
    assert "; alpha by a tenth of the rows, held out." in str(many.plan_)
    assert (seen[-1] == 0).sum() == 24 and set(seen[-1]) == {-1, 0}
    folds = KernelClassifier(feature_map, loss=loss, alpha="kfold").fit(X, y)
    assert folds.alpha_ == model.alpha_


def test_the_latest_third_is_held_out_by_time():
    X, y = rows()
    times = np.random.default_rng(4).permutation(240)
    model = KernelClassifier(RandomFourier(64, random_state=0), loss="log_loss")
    model.fit(open_stream((X, y)).with_times(times))
    assert model.validation_score_.method == "held-out"
    assert "; alpha by a third of the rows, held out." in str(model.plan_)


def test_a_tenth_is_held_out_where_the_models_of_all_folds_do_not_fit_in_memory():
    problems = [problem_of(1000, 4, 4096, limit=limit, outputs=20) for limit in (10**9, 2**24)]
    plans = [plan_alpha(problem) for problem in problems]
    assert [plan.alpha_method for plan in plans] == ["kfold", "held-out"]
    models = 8 * 4096 * 20 * 3 * 5
    assert plans[0].solver_bytes - ROUTES["newton-cg"].estimate(problems[0]).memory == models
    plan = plan_alpha(problem_of(1000, 4, 4096, limit=2**24, alpha="kfold", outputs=20))
    assert (plan.route, plan.alpha_method) == ("newton-cg", "kfold")
    given = plan_alpha(problem_of(1000, 4, 4096, limit=10**9, alpha=1.0, outputs=20))
    assert given.alpha_method is None


def columns_of_unlike_scales() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, classes and the factors of the columns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1400, 8))
    y = (X @ [3, 2, 2, 1, 1, 0.5, 0.2, 0.1] + rng.logistic(size=1400) > 0).astype(int)
    return X, y, 10.0 ** np.linspace(-2, 4, 8)


@pytest.mark.parametrize("loss", ["log_loss", "squared_hinge"])
def test_columns_of_unlike_scales_extend_the_grid_to_the_smallest_eigenvalue(loss):
    X, y, factors = columns_of_unlike_scales()
    model = KernelClassifier("linear", loss=loss).fit(X[:1000] * factors, y[:1000])
    reference = LogisticRegression().fit(X[:1000], y[:1000]).score(X[1000:], y[1000:])
    assert model.score(X[1000:] * factors, y[1000:]) > reference - 0.02
    assert len(model.alphas_) > 25


def test_a_search_that_ends_at_the_smallest_alpha_of_the_grid_is_warned_of(monkeypatch):
    X, y, factors = columns_of_unlike_scales()
    monkeypatch.setattr(newton_folds._Problem, "smallest", np.inf)
    with pytest.warns(UserWarning, match="is the smallest of the grid, and the error"):
        model = KernelClassifier("linear", loss="log_loss").fit(X * factors, y)
    assert model.alpha_ == model.alphas_.min()
    assert np.isfinite(model.alpha_scores_[:2]).all()
    KernelClassifier("linear", loss="log_loss", alpha=[1e4, 1e5]).fit(X * factors, y)  # no warning


def test_separable_rows_do_not_extend_the_grid():
    X = np.repeat([[-1.0, 0.0], [1.0, 0.0]], 50, axis=0)
    X[:, 1] = 1e-3 * np.random.default_rng(0).normal(size=100)
    model = KernelClassifier("linear", loss="log_loss").fit(X, np.repeat([0, 1], 50))
    assert len(model.alphas_) == 25


def test_a_first_fold_that_is_separable_by_chance_does_not_decide_for_few_rows():
    """Six of 30 rows are in the first fold, whose loss falls to the smallest alpha of the grid."""
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(150)
    X, y = X[order], y[order]
    phi = RandomFourier(64, gamma=0.2, random_state=0)
    model = KernelClassifier(phi, loss="log_loss").fit(X[:30], y[:30])
    tried = np.isfinite(model.alpha_scores_)
    assert model.alphas_[tried].min() < 1e-6 < 1e-3 < model.alpha_
    assert log_loss(y[30:], model.predict_proba(X[30:])) < 0.1
