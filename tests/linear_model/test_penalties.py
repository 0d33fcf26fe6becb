"""LASSO and group LASSO equal scikit-learn's and satisfy their optimality conditions."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso as SklearnLasso
from sklearn.linear_model import MultiTaskLasso

from mercer import Chi2Series, KernelClassifier, KernelRegressor, RandomFourier
from mercer.linear_model.normal_equations import NormalEquations
from mercer.linear_model.penalties import Penalty
from mercer.linear_model.solvers import lasso
from mercer.linear_model.solvers.lasso import GroupLasso, Lasso
from mercer.linear_model.solvers.pca import PrincipalComponents
from mercer.maps.block import Dense
from mercer.stats.moments import Moments

INTERCEPT = pytest.mark.parametrize(
    "fit_intercept", [True, False], ids=["intercept", "no intercept"]
)
MANY = SklearnLasso(tol=1e-14, max_iter=10**6)

rng = np.random.default_rng(0)
X = rng.random((300, 4))
t = np.sin(5 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=300)
y = np.digitize(t, np.quantile(t, [0.3, 0.6]))


def data(n: int = 80, D: int = 30, t: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Correlated features, targets that need a few of them, neither about 0."""
    rng = np.random.default_rng(seed)
    Z = (
        rng.normal(size=(n, D))
        + 1.5 * rng.normal(size=(n, 3)) @ rng.normal(size=(3, D))
        + rng.normal(size=D)
    )
    return Z, Z[:, :4] @ rng.normal(size=(4, t)) + 0.5 * rng.normal(size=(n, t)) + 2


def normal(Z, Y, w=None, fit_intercept=True) -> NormalEquations:
    seen = Moments()
    seen.add(Dense(Z), y=Y, weight=w)
    return NormalEquations.of(seen, fit_intercept=fit_intercept)


def sklearns(Z, v, alpha, fit_intercept=True, w=None) -> SklearnLasso:
    n = len(Z) if w is None else w.sum()
    return SklearnLasso(alpha / n, tol=1e-14, max_iter=10**6, fit_intercept=fit_intercept).fit(
        Z, v, w
    )


@INTERCEPT
@pytest.mark.parametrize(("n", "D"), [(80, 30), (25, 60), (40, 1)])
@pytest.mark.parametrize("share", [0.5, 0.05, 0.002])
def test_the_lasso_is_scikit_learns(n, D, share, fit_intercept):
    Z, Y = data(n, max(D, 4))
    Z = Z[:, :D]
    equations = normal(Z, Y, fit_intercept=fit_intercept)
    alpha = share * Lasso().max_alpha(equations)
    coef, kkt = Penalty("l1", (D,)).solve(equations, alpha)
    assert kkt < 1e-9
    for column, found, intercept in zip(Y.T, coef.T, equations.intercept(coef), strict=True):
        expected = sklearns(Z, column, alpha, fit_intercept)
        assert np.allclose(found, expected.coef_, rtol=0, atol=1e-8 * np.abs(expected.coef_).max())
        assert intercept == pytest.approx(expected.intercept_, abs=1e-8)


def test_weights_of_the_lasso_are_numbers_of_rows():
    Z, Y = data()
    w = np.random.default_rng(1).integers(0, 4, len(Z)).astype(float)
    coef, _ = Penalty("l1", (30,)).solve(normal(Z, Y, w), 3.0)
    assert np.allclose(coef[:, 1], sklearns(Z, Y[:, 1], 3.0, w=w).coef_, rtol=0, atol=1e-8)


def test_outputs_of_any_scale_have_a_lasso_of_their_own():
    Z, Y = data()
    both = np.stack([1e12 * Y[:, 0], Y[:, 1]], axis=1)
    coef, kkt = Penalty("l1", (30,)).solve(normal(Z, both), 3.0)
    assert kkt < 1e-9
    assert np.allclose(
        coef[:, 1],
        Penalty("l1", (30,)).solve(normal(Z, Y[:, 1:]), 3.0).coef[:, 0],
        rtol=0,
        atol=1e-8,
    )


def test_a_path_warm_or_cold_is_the_same():
    Z, Y = data()
    equations = normal(Z, Y)
    alphas = np.array([200.0, 40.0, 8.0, 1.0, 60.0])
    for alpha, found in zip(alphas, Lasso().path(equations, alphas), strict=True):
        (cold,) = Lasso().path(equations, np.array([alpha]))
        assert np.allclose(found.coef, cold.coef, rtol=0, atol=1e-9)


def test_each_step_of_the_lasso_goes_to_the_lowest_point_of_its_line(monkeypatch):
    Z, Y = data(25, 60)
    equations = normal(Z, Y[:, :1])
    H, v = equations.scatter, equations.cross[:, 0]
    steps, plain = [], lasso._step_to_signs

    def watched(H, g, alpha, w, s):
        moved = plain(H, g, alpha, w, s)
        steps.append((alpha, w.copy(), moved))
        return moved

    def objective(w, alpha):
        return 0.5 * w @ H @ w - v @ w + alpha * np.abs(w).sum()

    monkeypatch.setattr(lasso, "_step_to_signs", watched)
    list(Lasso().path(equations, np.array([300.0, 3.0, 0.1])))
    crossed = 0
    for alpha, w, moved in steps:
        lowest = objective(moved, alpha)
        assert lowest < objective(w, alpha)
        others = [objective(w + share * (moved - w), alpha) for share in np.linspace(0, 2, 81)]
        assert lowest <= min(others) + 1e-9 * abs(lowest)
        crossed += np.any(w * moved < 0)
    assert crossed > 0


def test_the_largest_alpha_of_interest_is_where_the_first_coefficient_comes_in():
    Z, Y = data()
    for solver in (Lasso(), GroupLasso((10, 5, 15))):
        most = solver.max_alpha(normal(Z, Y))
        at, below = solver.path(normal(Z, Y), np.array([most, 0.999 * most]))
        assert not at.coef.any() and below.coef.any()


def test_features_that_are_equal_or_constant_have_an_answer():
    Z, Y = data()
    Z = np.hstack([Z, Z[:, :5], np.full((len(Z), 2), 3.0)])
    equations = normal(Z, Y[:, :1])
    coef, kkt = Penalty("l1", (Z.shape[1],)).solve(equations, 2.0)
    assert kkt < 1e-9
    assert not coef[-2:].any()
    fitted = Z @ coef[:, 0] + equations.intercept(coef)
    assert np.allclose(
        fitted, sklearns(Z[:, :30], Y[:, 0], 2.0).predict(Z[:, :30]), rtol=0, atol=1e-7
    )


def test_after_components_the_lasso_is_soft_thresholding():
    Z, Y = data()
    equations = normal(Z, Y)
    basis, reduced = PrincipalComponents(7, (30,)).reduced(equations)
    alpha = 0.2 * Lasso().max_alpha(reduced)
    values, v = basis.values[0][:, None], basis.parts[0].T @ equations.cross
    expected = basis.parts[0] @ (np.sign(v) * np.maximum(np.abs(v) - alpha, 0) / values)
    coef, kkt = Penalty("l1", (30,), PrincipalComponents(7, (30,))).solve(equations, alpha)
    assert 0 < np.count_nonzero(np.maximum(np.abs(v) - alpha, 0)) < v.size
    assert np.allclose(coef, expected, rtol=0, atol=1e-13)
    assert kkt < 1e-14
    scores = (Z - Z.mean(axis=0)) @ basis.parts[0]
    theirs = sklearns(scores, Y[:, 0], alpha)
    assert np.allclose(coef[:, 0], basis.parts[0] @ theirs.coef_, rtol=0, atol=1e-8)


def optimality(Z, Y, coef, alpha, widths) -> float:
    """How far the gradient of the plain objective is from the subgradient of the penalty, by rows
    and not by moments.
    """
    R = (Y - Y.mean(axis=0)) - (Z - Z.mean(axis=0)) @ coef
    G, off, start = (Z - Z.mean(axis=0)).T @ R, 0.0, 0
    for width in widths:
        g, c, a = G[start : start + width], coef[start : start + width], alpha * np.sqrt(width)
        start += width
        length = np.linalg.norm(c)
        off = max(
            off, np.linalg.norm(g - a * c / length) if length else max(np.linalg.norm(g) - a, 0.0)
        )
    return off


@pytest.mark.parametrize("t", [1, 3])
@pytest.mark.parametrize("share", [0.9, 0.3, 0.05, 0.003])
@pytest.mark.parametrize(("n", "widths"), [(80, (10, 5, 15)), (20, (12, 1, 7, 10))])
def test_the_group_lasso_is_optimal(n, widths, share, t):
    Z, Y = data(n, sum(widths), t)
    equations = normal(Z, Y)
    alpha = share * GroupLasso(widths).max_alpha(equations)
    coef, kkt = Penalty("group", widths).solve(equations, alpha)
    assert kkt < 1e-9
    assert optimality(Z, Y, coef, alpha, widths) < 1e-7 * np.abs(equations.cross).max()


def test_groups_of_one_feature_are_scikit_learns_lasso_and_multi_task_lasso():
    Z, Y = data()
    coef, _ = Penalty("group", (1,) * 30).solve(normal(Z, Y[:, :1]), 3.0)
    assert np.allclose(coef[:, 0], sklearns(Z, Y[:, 0], 3.0).coef_, rtol=0, atol=1e-8)
    theirs = MultiTaskLasso(3.0 / len(Z), tol=1e-14, max_iter=10**6).fit(Z, Y)
    coef, _ = Penalty("group", (1,) * 30).solve(normal(Z, Y), 3.0)
    assert np.allclose(coef, theirs.coef_.T, rtol=0, atol=1e-7)


def test_similar_maps_converge_by_the_lengths_of_their_groups(monkeypatch):
    """Descent over groups alone does not get there; the lengths of groups do."""
    maps = [RandomFourier(40, gamma=g, random_state=i) for i, g in enumerate((0.5, 0.6, 0.7))]
    Z = np.hstack([one.fit(X).transform(X) for one in maps])
    equations = normal(Z, t[:, None])
    widths = (40, 40, 40)
    alpha = 1e-3 * GroupLasso(widths).max_alpha(equations)
    coef, kkt = Penalty("group", widths).solve(equations, alpha)
    assert kkt < 1e-12
    assert optimality(Z, t[:, None], coef, alpha, widths) < 1e-10 * np.abs(equations.cross).max()
    monkeypatch.setattr(lasso, "_LENGTHS_EVERY", 10**6)
    monkeypatch.setattr(lasso, "_SWEEPS", 50)
    with pytest.warns(ConvergenceWarning, match="group LASSO is .* from optimal after 50 sweeps"):
        Penalty("group", widths).solve(equations, alpha)


def test_signs_that_do_not_converge_are_a_warning(monkeypatch):
    monkeypatch.setattr(lasso, "_STEPS", 1)
    with pytest.warns(ConvergenceWarning, match="LASSO has not determined the signs"):
        Penalty("l1", (30,)).solve(normal(*data()), 1.0)


@pytest.mark.parametrize("kind", ["l1", "group"])
@pytest.mark.parametrize("rank", [None, 4])
def test_alpha_is_chosen_by_folds_that_are_left_out(kind, rank):
    Z, Y = data(90)
    widths = (10, 5, 15)
    which = np.arange(90) % 3
    folds = [normal(Z[which == k], Y[which == k]) for k in range(3)]
    alphas = [500.0, 100.0, 20.0, 4.0]
    components = None if rank is None else PrincipalComponents(rank, widths)
    penalty = Penalty(kind, widths, components)
    choice = penalty.choose(folds, alphas)
    expected = []
    for alpha in alphas:
        error = 0.0
        for k in range(3):
            inside, out = which != k, which == k
            rest = normal(Z[inside], Y[inside])
            coef, _ = penalty.solve(rest, alpha)
            error += np.sum((Y[out] - Z[out] @ coef - rest.intercept(coef)) ** 2)
        expected.append(error / 90)
    assert np.allclose(choice.scores, expected, rtol=1e-7)
    assert choice.alpha == alphas[int(np.argmin(expected))]


MAPS = [
    RandomFourier(24, gamma=2.0, random_state=0),
    Chi2Series(2, poles="minimax"),
    RandomFourier(24, gamma=300.0, random_state=2),
]


@pytest.mark.parametrize("kind", ["l1", "group"])
def test_alphas_that_leave_no_coefficient_do_not_end_the_search(kind):
    Z, Y = data(100)
    folds = [normal(Z[i::4], Y[i::4]) for i in range(4)]
    useful = [100.0, 10.0, 1.0]
    alone = Penalty(kind, (10, 20)).choose(folds, useful)
    more = Penalty(kind, (10, 20)).choose(folds, [*np.logspace(12, 6, 7), *useful])
    assert more.alpha == alone.alpha
    assert np.allclose(more.scores[7:], alone.scores, rtol=1e-6)


@pytest.mark.parametrize("pca", [None, pytest.param(50, marks=pytest.mark.full)])
@pytest.mark.parametrize("penalty", ["l1", "group"])
def test_moments_that_rounding_makes_negative_have_a_minimum(penalty, pca):
    maps = [
        RandomFourier(150, gamma=0.5, random_state=0),
        RandomFourier(100, gamma=0.4, random_state=1),
    ]
    model = KernelRegressor(maps, penalty=penalty, pca=pca, alpha=1e-12)
    with pytest.warns(
        ConvergenceWarning,
        match=r"the rounding of the normal equations, whose smallest eigenvalue is -[\d.]+e-0\d",
    ):
        model.fit(X[:60].astype(np.float32), t[:60])
    assert model.kkt_ < 1e-5  # what is added, a few digits of float32, times the coefficients
    assert np.abs(model.predict(X[:60].astype(np.float32)) - t[:60]).max() < 0.1


def test_groups_of_constant_features_are_of_no_use():
    maps = [
        RandomFourier(64, gamma=1.0, random_state=0),
        RandomFourier(8, gamma=1.0, random_state=1),
    ]
    rows, targets = np.ones((50, 3)), np.arange(50.0)
    with pytest.raises(ValueError, match="needs at least two different rows"):
        KernelRegressor(maps, penalty="group").fit(rows, targets)
    model = KernelRegressor(maps, penalty="group", alpha=1.0).fit(rows, targets)
    assert model.zero_maps_ == ["randomfourier-1", "randomfourier-2"]
    assert model.predict(np.ones((1, 3))) == pytest.approx([24.5])


@pytest.mark.parametrize("penalty", ["l1", "group"])
@pytest.mark.parametrize("scale", [2.0**-400, pytest.param(2.0**450, marks=pytest.mark.full)])
def test_targets_may_have_any_scale(penalty, scale):
    Z, Y = data(100)
    folds = [[normal(Z[i::4], unit * Y[i::4]) for i in range(4)] for unit in (1.0, scale)]
    one, other = (Penalty(penalty, (10, 20)).choose(some) for some in folds)
    assert other.alpha == pytest.approx(scale * one.alpha, rel=1e-9)
    coef, kkt = Penalty(penalty, (10, 20)).solve(normal(Z, scale * Y), other.alpha)
    assert kkt < 1e-9
    assert np.allclose(
        coef / scale, Penalty(penalty, (10, 20)).solve(normal(Z, Y), one.alpha).coef, rtol=1e-9
    )


def features(rows=X) -> np.ndarray:
    return np.hstack([one.fit(X).transform(rows) for one in MAPS])


def test_a_regressor_with_an_l1_penalty_is_scikit_learns_lasso_on_features():
    model = KernelRegressor(MAPS, penalty="l1", alpha=0.2).fit(X, t)
    theirs = sklearns(features(), t, 0.2)
    assert np.allclose(
        model.feature_coef_, theirs.coef_, rtol=0, atol=1e-8 * np.abs(theirs.coef_).max()
    )
    assert np.array_equal(model.feature_coef_ == 0, theirs.coef_ == 0)
    assert np.allclose(model.predict(X), theirs.predict(features()), rtol=0, atol=1e-8)
    assert model.kkt_ < 1e-9


def test_a_classifier_has_a_lasso_for_each_class():
    model = KernelClassifier(MAPS, penalty="l1", alpha=0.5).fit(X, y)
    for k in range(3):
        theirs = sklearns(features(), np.where(y == k, 1.0, -1.0), 0.5)
        assert np.allclose(model.feature_coef_[k], theirs.coef_, rtol=0, atol=1e-7)


def test_maps_without_coefficients_are_named():
    model = KernelRegressor(MAPS, penalty="group", alpha=2.0).fit(X, t)
    assert model.zero_maps_ == ["randomfourier-2"]
    assert not model.feature_coef_[-24:].any() and model.feature_coef_[:24].any()
    assert model.kkt_ < 1e-9
    assert KernelRegressor(MAPS, alpha=0.5).fit(X, t).zero_maps_ == []
    everything = KernelRegressor(MAPS, penalty="group", alpha=1e6).fit(X, t)
    assert everything.zero_maps_ == ["randomfourier-1", "chi2series", "randomfourier-2"]
    assert np.allclose(everything.predict(X), t.mean())


def test_a_map_has_one_name_alone_or_in_a_list():
    for feature_map in (MAPS[0], MAPS[:1], [MAPS[0], "chi2-series"]):
        model = KernelRegressor(feature_map, penalty="l1", alpha=1e6).fit(X, t)
        assert model.zero_maps_[0] == "randomfourier"


@pytest.mark.parametrize("penalty", ["l1", "group"])
@pytest.mark.parametrize("alpha", ["auto", "kfold", [10.0, 1.0, 0.1]])
def test_a_sparse_model_chooses_its_alpha_and_predicts(penalty, alpha):
    model = KernelRegressor(MAPS, penalty=penalty, alpha=alpha).fit(X[:200], t[:200])
    assert model.score(X[200:], t[200:]) > 0.9
    assert model.alpha_ in model.alphas_
    assert model.alpha_ == model.alphas_[np.argmin(model.alpha_scores_)]


def test_batches_of_a_sparse_model_are_the_whole():
    whole = KernelRegressor(MAPS[0], penalty="l1", alpha=0.2).fit(X, t)
    parts = KernelRegressor(MAPS[0], penalty="l1", alpha=0.2)
    for start in (0, 100, 200):
        parts.partial_fit(X[start : start + 100], t[start : start + 100])
    assert np.allclose(parts.feature_coef_, whole.feature_coef_, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"penalty": "l0"}, "penalty must be one of 'l2', 'l1', 'group', got 'l0'"),
        (
            {"penalty": "group", "feature_map": "fourier"},
            "penalty='group' selects maps, and feature_map is one map",
        ),
        ({"penalty": "l1", "alpha": "gcv"}, "alpha='gcv' needs penalty='l2'. Use 'kfold'"),
        ({"penalty": "group", "alpha": "loo"}, "alpha='loo' needs penalty='l2'"),
        ({"penalty": "l1", "alpha": 0.0}, "penalty='l1' needs an alpha above 0"),
        (
            {"penalty": "l1", "alpha": 1.0, "max_memory": "1kB"},
            "penalty='l1' needs the normal equations of",
        ),
    ],
)
def test_what_does_not_go_with_a_penalty_is_refused(more, words):
    with pytest.raises(ValueError, match=words):
        KernelRegressor(**{"feature_map": MAPS, **more}).fit(X, t)
    assert not hasattr(KernelRegressor(MAPS, alpha=1.0).fit(X, t), "kkt_")


def test_kkt_is_computed_from_the_coefficients_of_the_model(monkeypatch):
    """By a solver whose solution is wrong by a thousandth, and by the residuals of the rows."""
    search = lasso._search_signs_of_outputs
    monkeypatch.setattr(lasso, "_search_signs_of_outputs", lambda *args: 1.001 * search(*args))
    model = KernelRegressor(MAPS, penalty="l1", alpha=0.2).fit(X, t)
    Z, c = features() - features().mean(axis=0), model.feature_coef_
    gradient = Z.T @ (t - t.mean() - Z @ c)
    violations = [
        abs(g - 0.2 * np.sign(one)) if one else max(abs(g) - 0.2, 0.0)
        for g, one in zip(gradient, c, strict=True)
    ]
    expected = max(violations) / np.abs(Z.T @ (t - t.mean())).max()
    assert expected > 1e-4
    assert model.kkt_ == pytest.approx(expected, rel=1e-6)
