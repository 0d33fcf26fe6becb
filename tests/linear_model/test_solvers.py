"""Least squares from normal equations equals scikit-learn, or brute force, on the features."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge, RidgeClassifier, RidgeCV
from tests.helpers.normal_equations_data import (
    INTERCEPT,
    assert_same,
    data,
    moments,
    normal,
    rows_of,
    truth,
)

from mercer.linear_model.normal_equations import NormalEquations
from mercer.linear_model.solvers.pca import PrincipalComponents
from mercer.linear_model.solvers.ridge import (
    ALPHAS,
    RidgeDecomposition,
    alpha_grid,
    best_of,
    choose_gcv,
    choose_loo,
    leave_one_out,
    solve,
)
from mercer.linear_model.solvers.ridge_cg import choose_ridge_held_out, solve_ridge
from mercer.linear_model.solvers.ridge_folds import choose_kfold
from mercer.maps.block import Sparse


def hat(Z, alpha, fit_intercept) -> np.ndarray:
    """The matrix that takes y to its fitted values, by plain inversion."""
    ones = np.ones((len(Z), 1))
    A = np.hstack([ones, Z]) if fit_intercept else Z
    penalty = alpha * np.eye(A.shape[1])
    if fit_intercept:
        penalty[0, 0] = 0
    return A @ np.linalg.solve(A.T @ A + penalty, A.T)


@INTERCEPT
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("alpha", [1e-3, 1.0, 300.0])
@pytest.mark.parametrize(("n", "D"), [(60, 7), (20, 45), (9, 1)])
def test_both_ways_to_solve_are_scikit_learns_ridge(n, D, alpha, weighted, fit_intercept):
    Z, Y, w = data(n, D)
    w = w if weighted else None
    coef, intercept = truth(Z, Y, alpha, w, fit_intercept)
    equations = normal(Z, Y, w, fit_intercept)
    spectrum = RidgeDecomposition.of(equations)
    for found in (solve(equations, alpha), (spectrum.coef(alpha), spectrum.intercept(alpha))):
        assert_same(found[0], coef)
        assert_same(found[1], intercept)


@pytest.mark.parametrize("rank", [1, 3, 7])
@pytest.mark.parametrize("alpha", [1e-3, 5.0])
def test_ridge_on_principal_components_is_scikit_learns_pipeline(rank, alpha):
    Z, Y, _ = data()
    components = PCA(rank, svd_solver="full").fit(Z)
    model = Ridge(alpha=alpha).fit(components.transform(Z), Y)
    spectrum = RidgeDecomposition.of(normal(Z, Y), PrincipalComponents(rank, (7,)))
    coef = spectrum.coef(alpha)
    assert_same(coef, components.components_.T @ model.coef_.T)
    predicted = model.predict(components.transform(Z))
    assert_same(spectrum.intercept(alpha) + Z @ coef, predicted)
    assert_same(spectrum.rss(alpha), ((Y - predicted) ** 2).sum(axis=0))
    assert spectrum.degrees(alpha) == pytest.approx(
        np.trace(hat(components.transform(Z), alpha, True)), rel=1e-8
    )


def test_without_an_intercept_components_are_those_of_the_rows_about_0():
    Z, Y, _ = data()
    U, s, Vt = np.linalg.svd(Z, full_matrices=False)
    expected = Vt[:3].T @ ((s[:3] / (s[:3] ** 2 + 0.7))[:, None] * (U[:, :3].T @ Y))
    assert_same(
        RidgeDecomposition.of(normal(Z, Y, fit_intercept=False), PrincipalComponents(3, (7,))).coef(
            0.7
        ),
        expected,
    )


@INTERCEPT
@pytest.mark.parametrize(("n", "D"), [(60, 7), (20, 45)])
@pytest.mark.parametrize("alpha", [1e-4, 0.3, 100.0])
def test_rss_df_and_gcv_are_those_of_the_hat_matrix(n, D, alpha, fit_intercept):
    Z, Y, _ = data(n, D)
    H = hat(Z, alpha, fit_intercept)
    spectrum = RidgeDecomposition.of(normal(Z, Y, fit_intercept=fit_intercept))
    rss = ((Y - H @ Y) ** 2).sum(axis=0)
    np.testing.assert_allclose(spectrum.degrees(alpha), np.trace(H), rtol=1e-8)
    np.testing.assert_allclose(spectrum.rss(alpha), rss, rtol=1e-6 if n < D else 1e-9)
    np.testing.assert_allclose(
        spectrum.gcv(alpha), n * rss / (n - np.trace(H)) ** 2, rtol=1e-6 if n < D else 1e-8
    )


def test_rss_keeps_its_digits_where_the_fit_is_near_perfect():
    """yy - sum q^2 (l + 2a)/(l + a)^2 would be rounding alone: the RSS is 1e-18 of yy."""
    Z, Y, _ = data(20, 45)
    alpha = 1e-8
    centered, targets = Z - Z.mean(axis=0), Y - Y.mean(axis=0)
    l, V = np.linalg.eigh(centered @ centered.T)
    residuals = (alpha / (l[1:] + alpha))[:, None] * (V[:, 1:].T @ targets)
    spectrum = RidgeDecomposition.of(normal(Z, Y))
    np.testing.assert_allclose(spectrum.rss(alpha), (residuals**2).sum(axis=0), rtol=1e-6)
    left = np.sum(alpha / (l[1:] + alpha))
    np.testing.assert_allclose(
        spectrum.gcv(alpha), 20 * (residuals**2).sum(axis=0) / left**2, rtol=1e-6
    )


@INTERCEPT
@pytest.mark.parametrize(("n", "D"), [(60, 7), (20, 45), (30, 28)])
def test_gcv_chooses_what_brute_force_chooses(n, D, fit_intercept):
    Z, Y, _ = data(n, D, seed=3)
    Y = Y - Y.mean(axis=0) + np.random.default_rng(1).normal(size=Y.shape) * 3
    alphas = np.logspace(-3, 4, 15)
    scores = []
    for alpha in alphas:
        H = hat(Z, alpha, fit_intercept)
        scores.append(n * ((Y - H @ Y) ** 2).sum() / (n - np.trace(H)) ** 2)
    choice = choose_gcv(RidgeDecomposition.of(normal(Z, Y, fit_intercept=fit_intercept)), alphas)
    np.testing.assert_allclose(choice.scores, scores, rtol=1e-5)
    assert choice.alpha == alphas[np.argmin(scores)]
    assert alphas[0] < choice.alpha < alphas[-1]


@INTERCEPT
@pytest.mark.parametrize(("n", "D"), [(60, 7), (20, 45)])
def test_leave_one_out_is_that_of_scikit_learn(n, D, fit_intercept):
    Z, Y, _ = data(n, D, seed=5)
    alphas = np.logspace(-1, 3, 9)
    model = RidgeCV(alphas, fit_intercept=fit_intercept, store_cv_results=True).fit(Z, Y)
    spectrum = RidgeDecomposition.of(normal(Z, Y, fit_intercept=fit_intercept))
    errors = leave_one_out(spectrum, rows_of(Z, Y)(), alphas).errors
    np.testing.assert_allclose(errors, model.cv_results_.sum(axis=0).T, rtol=1e-8)
    choice = choose_loo(
        spectrum, rows_of(Z, Y, kind=lambda part: Sparse(sp.csr_array(part)), size=7)(), alphas
    )
    assert choice.alpha == model.alpha_
    np.testing.assert_allclose(choice.scores, errors.sum(axis=1) / n, rtol=1e-10)


@INTERCEPT
@pytest.mark.parametrize("rank", [None, 4])
def test_leave_one_out_leaves_a_row_out_with_its_weight_or_its_copies(fit_intercept, rank):
    components = None if rank is None else PrincipalComponents(rank, (5,))
    Z, Y, w = data(25, 5)
    alphas = [0.01, 2.0]
    repeated = np.repeat(np.arange(25), w.astype(int))
    weighted = leave_one_out(
        RidgeDecomposition.of(normal(Z, Y, w, fit_intercept), components),
        rows_of(Z, Y, w, size=4)(),
        alphas,
    )
    copies = leave_one_out(
        RidgeDecomposition.of(normal(Z[repeated], Y[repeated], None, fit_intercept), components),
        rows_of(Z[repeated], Y[repeated], size=4)(),
        alphas,
        left_out=w[repeated],
    )
    np.testing.assert_allclose(weighted.errors, copies.errors, rtol=1e-8)
    if rank is None:
        brute = [np.zeros(2), np.zeros(2)]
        for i in range(25):
            others = np.where(np.arange(25) == i, 0, w)
            for a, alpha in enumerate(alphas):
                coef, intercept = truth(Z, Y, alpha, others, fit_intercept)
                brute[a] += w[i] * (Y[i] - intercept - Z[i] @ coef) ** 2
        np.testing.assert_allclose(weighted.errors, brute, rtol=1e-8)


@pytest.mark.parametrize("classes", [2, 3])
def test_leave_one_out_accuracy_is_brute_force(classes):
    Z, _, _ = data(40, 5)
    rng = np.random.default_rng(1)
    centered = Z - np.median(Z, axis=0)
    label = (centered[:, 0] + rng.normal(size=40) > 0) + (classes - 2) * (centered[:, 1] > 0)
    Y = np.where(label[:, None] == np.arange(classes), 1.0, -1.0)[:, (classes == 2) :]
    w = rng.integers(1, 4, 40).astype(float)
    right = 0.0
    for i in range(40):
        coef, intercept = truth(Z, Y, 0.5, np.where(np.arange(40) == i, 0, w))
        score = intercept + Z[i] @ coef
        right += w[i] * (label[i] == (score[0] > 0 if classes == 2 else np.argmax(score)))
    search = choose_loo(
        RidgeDecomposition.of(normal(Z, Y, w)), rows_of(Z, Y, w)(), [0.5], labels=True
    )
    assert 0.3 < search.accuracy < 0.95
    assert search.accuracy == pytest.approx(right / w.sum())
    assert search.majority == pytest.approx(np.bincount(label, w).max() / w.sum())


@INTERCEPT
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("rank", [None, 3])
def test_k_fold_from_moments_is_brute_force(rank, weighted, fit_intercept):
    Z, Y, w = data(60, 7, seed=2)
    w = w if weighted else np.ones(60)
    part = np.arange(60) % 4
    alphas = np.logspace(-2, 4, 7)
    scores = np.zeros(7)
    for k in range(4):
        train, test = part != k, part == k
        center = np.average(Z[train], axis=0, weights=w[train]) if fit_intercept else np.zeros(7)
        U = np.eye(7)
        if rank is not None:
            half = np.sqrt(w[train])[:, None] * (Z[train] - center)
            U = np.linalg.svd(half, full_matrices=False)[2][:rank].T
        for i, alpha in enumerate(alphas):
            coef, intercept = truth(
                (Z[train] - center) @ U, Y[train], alpha, w[train], fit_intercept
            )
            scores[i] += (
                w[test] @ (Y[test] - intercept - (Z[test] - center) @ U @ coef) ** 2
            ).sum()
    folds = [normal(Z[part == k], Y[part == k], w[part == k], fit_intercept) for k in range(4)]
    choice = choose_kfold(
        folds, alphas, None if rank is None else PrincipalComponents(rank, (Z.shape[1],))
    )
    np.testing.assert_allclose(choice.scores, scores / w.sum(), rtol=1e-8)
    assert choice.alpha == alphas[np.argmin(scores)]


def test_folds_of_classes_are_left_out_too():
    Z, _, _ = data(60, 7)
    label = np.arange(60) % 7 % 3
    part = np.arange(60) // 20
    folds = []
    for k in range(3):
        here = part == k
        sums = [Z[here & (label == c)].sum(axis=0) for c in range(3)]
        folds.append(
            NormalEquations.of_classes(
                moments(Z[here]), np.bincount(label[here], minlength=3), np.array(sums)
            )
        )
    signs = np.where(label[:, None] == np.arange(3), 1.0, -1.0)
    plain = choose_kfold([normal(Z[part == k], signs[part == k]) for k in range(3)])
    choice = choose_kfold(folds)
    np.testing.assert_allclose(choice.scores, plain.scores, rtol=1e-10)
    assert choice.alpha == plain.alpha


@INTERCEPT
@pytest.mark.parametrize("classes", [2, 3])
def test_class_sums_give_scikit_learns_ridge_classifier(classes, fit_intercept):
    Z, _, w = data(60, 7)
    label = np.random.default_rng(1).integers(0, classes, 60)
    one_hot = (label[:, None] == np.arange(classes)) * w[:, None]
    equations = NormalEquations.of_classes(
        moments(Z, None, w), one_hot.sum(axis=0), one_hot.T @ Z, fit_intercept=fit_intercept
    )
    model = RidgeClassifier(alpha=2.0, fit_intercept=fit_intercept, solver="svd").fit(Z, label, w)
    coef, intercept = solve(equations, 2.0)
    assert_same(coef, np.atleast_2d(model.coef_).T)
    assert_same(intercept, np.broadcast_to(model.intercept_, len(intercept)))
    signs = np.where(label[:, None] == np.arange(classes), 1.0, -1.0)[
        :, -1 if classes == 2 else 0 :
    ]
    plain = normal(Z, signs, w, fit_intercept)
    for name in ("cross", "target_mean", "target_scatter"):
        np.testing.assert_allclose(
            getattr(equations, name), getattr(plain, name), rtol=1e-10, atol=1e-10
        )


@INTERCEPT
def test_normals_add_subtract_and_count_weights_as_rows(fit_intercept):
    Z, Y, w = data()
    repeated = np.repeat(np.arange(60), w.astype(int))
    whole = normal(Z, Y, w, fit_intercept)
    first, second = (
        normal(Z[s], Y[s], w[s], fit_intercept) for s in (slice(0, 17), slice(17, None))
    )
    equal = normal(Z[repeated], Y[repeated], None, fit_intercept)
    for other, expected in ((first + second, whole), (whole - first, second), (equal, whole)):
        for name in ("n", "mean", "scatter", "cross", "target_mean", "target_scatter"):
            np.testing.assert_allclose(
                getattr(other, name), getattr(expected, name), rtol=1e-9, atol=1e-9
            )


@INTERCEPT
def test_the_error_of_any_line_comes_from_the_sums(fit_intercept):
    Z, Y, w = data()
    coef = np.random.default_rng(3).normal(size=(7, 2))
    intercept = np.array([2.0, -1.0]) * fit_intercept
    expected = w @ (Y - intercept - Z @ coef) ** 2
    np.testing.assert_allclose(
        normal(Z, Y, w, fit_intercept).error(coef, intercept), expected, rtol=1e-10
    )


def test_the_scatter_is_left_alone_unless_it_may_be_used_up():
    Z, Y, _ = data(20, 45)
    for alpha in (1.0, 0.0):  # by Cholesky, and by the fallback after its failure
        equations = normal(Z, Y)
        before = equations.scatter.copy()
        kept = [
            solve(equations, alpha)[0],
            RidgeDecomposition.of(equations).coef(alpha),
            RidgeDecomposition.of(equations, PrincipalComponents(9, (45,))).coef(alpha),
        ]
        np.testing.assert_array_equal(equations.scatter, before)
        spent = [
            solve(normal(Z, Y), alpha, overwrite=True)[0],
            RidgeDecomposition.of(normal(Z, Y), overwrite=True).coef(alpha),
            RidgeDecomposition.of(normal(Z, Y), PrincipalComponents(9, (45,)), overwrite=True).coef(
                alpha
            ),
        ]
        for a, b in zip(kept, spent, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-10 * np.abs(a).max())


@INTERCEPT
@pytest.mark.parametrize(("n", "D"), [(60, 7), (20, 45), (1, 3)])
@pytest.mark.parametrize("alpha", [0.0, 1e-300])
def test_alpha_0_is_the_pseudo_inverse(n, D, alpha, fit_intercept):
    Z, Y, _ = data(n, D)
    Z[:, -1] = Z[:, 0] if D > 3 else 1.0  # a column twice, or a constant one
    center, target = (Z.mean(axis=0), Y.mean(axis=0)) if fit_intercept else (0.0, 0.0)
    expected = np.linalg.pinv(Z - center) @ (Y - target)
    equations = normal(Z, Y, fit_intercept=fit_intercept)
    np.testing.assert_allclose(solve(equations, alpha)[0], expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(
        RidgeDecomposition.of(equations).coef(alpha), expected, rtol=1e-7, atol=1e-9
    )


def test_rounding_of_float32_features_is_not_blown_up():
    """Products in float32 hide directions in which the rows do not differ; tiny alphas must not
    divide their rounding.
    """
    Z, Y, _ = data(40, 80)
    singles = normal(Z.astype(np.float32), Y)
    assert np.linalg.eigvalsh(singles.scatter)[0] < -1e-12 * singles.scale
    for alpha in (0.0, 1e-12, 1e-9):
        assert np.linalg.norm(RidgeDecomposition.of(singles).coef(alpha)) < 2 * np.linalg.norm(
            solve(normal(Z, Y), 1e-6)[0]
        )


def test_one_row_constant_targets_and_constant_features_have_answers():
    Z, Y, _ = data()
    one = RidgeDecomposition.of(normal(Z[:1], Y[:1]))
    np.testing.assert_array_equal(one.coef(1.0), 0)
    np.testing.assert_allclose(one.intercept(1.0), Y[0])
    with pytest.raises(
        ValueError,
        match=r"df is not below n = 1, the sum of the weights, for any alpha up to 1e\+06",
    ):
        choose_gcv(one)
    with pytest.raises(ValueError, match=r"some row has leverage 1"):
        choose_loo(one, rows_of(Z[:1], Y[:1])())
    flat = RidgeDecomposition.of(normal(Z, np.full((60, 1), 3.0)))
    choice = choose_gcv(flat)
    np.testing.assert_array_equal(choice.scores, 0)
    assert choice.alpha == choice.alphas.max()
    np.testing.assert_array_equal(flat.coef(0.0), 0)
    np.testing.assert_array_equal(flat.intercept(0.0), 3.0)
    still = RidgeDecomposition.of(normal(np.full((60, 4), 0.5), Y))
    choice = choose_gcv(still)
    assert choice.alpha == choice.alphas.max() == ALPHAS.max()
    for alpha in (0.0, 1.0):
        np.testing.assert_array_equal(still.coef(alpha), 0)
        np.testing.assert_allclose(still.intercept(alpha), Y.mean(axis=0))
    np.testing.assert_allclose(still.rss(0.0), 60 * Y.var(axis=0))


@pytest.mark.parametrize(("features", "copies"), [(1000.0, 1), (0.01, 1), (1.0, 5)])
def test_the_default_grid_does_not_depend_on_the_scale_of_features_or_on_copies_of_rows(
    features, copies
):
    Z, Y, _ = data(seed=3)
    Y = Y + np.random.default_rng(0).normal(size=Y.shape) * 5
    plain = choose_kfold([normal(Z[:30], Y[:30]), normal(Z[30:], Y[30:])])
    factor, w = features**2 * copies, np.full(30, float(copies))
    other = choose_kfold(
        [normal(features * Z[:30], Y[:30], w), normal(features * Z[30:], Y[30:], w)]
    )
    assert plain.alphas.min() < plain.alpha < plain.alphas.max()
    np.testing.assert_allclose(other.alpha, plain.alpha * factor, rtol=1e-12)
    np.testing.assert_allclose(other.scores, plain.scores, rtol=1e-8)
    w = np.full(60, float(copies))
    spectrum = RidgeDecomposition.of(normal(features * Z, Y, w))
    scale = normal(Z, Y).scale * factor
    for choice in (choose_gcv(spectrum), choose_loo(spectrum, rows_of(features * Z, Y, w)())):
        np.testing.assert_allclose(choice.alphas, ALPHAS * scale, rtol=1e-12)


@pytest.mark.parametrize("choose", ["gcv", "loo", "kfold"])
def test_the_default_grid_reaches_columns_of_unlike_scales(choose):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(200, 4))
    Y = Z.sum(axis=1, keepdims=True) + 0.1 * rng.normal(size=(200, 1))
    Z *= [1e-3, 1.0, 100.0, 1e4]
    spectrum = RidgeDecomposition.of(normal(Z, Y))
    search = {
        "gcv": lambda: choose_gcv(spectrum),
        "loo": lambda: choose_loo(spectrum, rows_of(Z, Y)()),
        "kfold": lambda: choose_kfold([normal(Z[k::5], Y[k::5]) for k in range(5)]),
    }[choose]()
    assert search.baseline == pytest.approx(Y.var())
    assert search.scores.min() < 0.02 < 0.25 * search.baseline


def test_alphas_so_large_that_c_is_next_to_0_do_not_end_the_search():
    Z, Y, w = data(200, 20, seed=6)
    useful = [100.0, 1.0, 1e-2]
    held, rows = np.arange(200) % 10 == 3, rows_of(Z, Y, w)
    more, _ = choose_ridge_held_out(rows, held, [*np.logspace(30, 18, 4), *useful])
    assert more.alpha == choose_ridge_held_out(rows, held, useful)[0].alpha


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda Z, Y: solve(normal(Z, Y), -1.0),
            r"solve: alphas must be .* finite numbers of at least 0, got \[-1.0\]",
        ),
        (
            lambda Z, Y: choose_gcv(RidgeDecomposition.of(normal(Z, Y)), []),
            r"choose_gcv: alphas must be .* got \[\]",
        ),
        (
            lambda Z, Y: choose_gcv(RidgeDecomposition.of(normal(Z, Y)), [np.nan]),
            "choose_gcv: alphas must be",
        ),
        (lambda Z, Y: choose_kfold([normal(Z, Y)]), "at least 2 folds that have rows, got 1"),
        (
            lambda Z, Y: normal(Z, Y) + normal(Z[:, :3], Y),
            "7 columns and 2 targets with an intercept and of 3 columns",
        ),
        (
            lambda Z, Y: normal(Z, Y) - normal(Z, Y, fit_intercept=False),
            "without an intercept do not combine",
        ),
        (lambda Z, Y: normal(Z, Y) - normal(Z, Y), "No rows are left: 60 subtracted from 60"),
        (lambda Z, Y: NormalEquations.of(moments(Z)), "were given no target"),
        (
            lambda Z, Y: NormalEquations.of_classes(moments(Z), [60.0], np.ones((1, 7))),
            r"at least two classes .* got 1 class",
        ),
        (
            lambda Z, Y: NormalEquations.of_classes(moments(Z), [30, 29], np.ones((2, 7))),
            "add up to 59, the moments have 60",
        ),
        (
            lambda Z, Y: NormalEquations.of_classes(moments(Z), [30, 30], np.ones((2, 6))),
            r"got 2 class\(es\) and sums of shape",
        ),
        (
            lambda Z, Y: solve_ridge(rows_of(Z, Y), 0.0),
            "solve_ridge: alpha must be a finite number above 0, got 0.0",
        ),
        (
            lambda Z, Y: solve_ridge(rows_of(Z, Y, np.zeros(60)), 1.0),
            "needs rows with a weight above 0",
        ),
        (
            lambda Z, Y: choose_ridge_held_out(rows_of(Z, Y), np.arange(60) < 6, [0.0, 1.0]),
            "alphas must be above 0, got 0",
        ),
        (
            lambda Z, Y: choose_ridge_held_out(rows_of(Z, Y), np.zeros(60, dtype=bool)),
            "no row is held out. Give more rows",
        ),
    ],
)
def test_what_cannot_be_solved_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call(*data()[:2])


def test_sums_that_leave_float64_are_refused():
    Z, Y, _ = data()
    with np.errstate(over="ignore", invalid="ignore"):
        with pytest.raises(ValueError, match="leave the range of float64: scale them down"):
            normal(Z * 1e200, Y)
        with pytest.raises(ValueError, match="leave the range of float64: scale them down"):
            solve_ridge(rows_of(Z * 1e200, Y), 1.0)


def test_a_grid_is_an_array_of_numbers():
    np.testing.assert_array_equal(alpha_grid("x", [1, 2]), [1.0, 2.0])
    np.testing.assert_array_equal(alpha_grid("x", None, 3.0), 3 * ALPHAS)


@pytest.mark.parametrize(
    ("scores", "method", "is_open"),
    [
        ([0.5, 0.6, 1.0], "loo", True),
        ([0.5, 0.5005, 1.0], "loo", False),  # flat
        ([0.6, 0.5, 1.0], "loo", False),  # the best is inside
        ([0.001, 0.1, 1.0], "loo", False),  # little is left
        ([-3.0, -2.0, 1.0], "evidence", False),
    ],
)
def test_a_search_is_open_where_the_error_still_falls_at_the_smallest_alpha(
    scores, method, is_open
):
    search = best_of(np.array([1e-2, 1e-1, 1.0]), np.array(scores), method, 1.0)
    assert search.is_open == is_open
    order = [2, 0, 1]
    turned = search._replace(alphas=search.alphas[order], scores=search.scores[order])
    assert turned.is_open == is_open
