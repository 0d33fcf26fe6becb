"""Random Laplace features: the learner in the span of the training rows, and its claims."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from experiments.laplace import MAPS, OUR_MAPS, PAPER, TABLE_2, root_sums
from experiments.laplace_heads import (
    ALPHAS,
    Axes,
    LeastSquares,
    hinge_scores,
    machine,
    svm_in_span,
    tune,
)
from experiments.running import Bench, Task, run_cell
from experiments.sets import Sets, Split
from sklearn.svm import LinearSVC

from mercer.kernels import Chi2, ExponentialSemigroup
from mercer.kernels.gram import gram


def rows(n: int = 120, d: int = 40, classes: int = 4, noise: float = 0.1) -> Split:
    rng = np.random.default_rng(0)
    y = np.arange(2 * n) % classes
    X = rng.poisson(rng.gamma(0.5, 2.0, size=(classes, d))[y]) + rng.poisson(noise, size=(2 * n, d))
    X = X / X.sum(axis=1, keepdims=True)
    return Split(X[:n], y[:n], X[n:], y[n:])


@pytest.mark.parametrize("d", [30, 200], ids=["fewer columns than rows", "more"])
def test_axes_keep_the_inner_products_of_rows_about_the_mean(d):
    split = rows(d=d)
    axes = Axes.of(split.X, split.X_test)
    centered, held_out = split.X - split.X.mean(axis=0), split.X_test - split.X.mean(axis=0)
    np.testing.assert_allclose(axes.train @ axes.train.T, centered @ centered.T, atol=1e-8)
    np.testing.assert_allclose(axes.test @ axes.train.T, held_out @ centered.T, atol=1e-8)
    assert axes.scale == pytest.approx(np.mean(np.sum(centered**2, axis=1)))


def test_axes_of_sparse_rows_and_of_a_kernel_are_those_of_features():
    split = rows(d=200)
    features = Axes.of(split.X, split.X_test)
    sparse = Axes.of(sp.csr_array(split.X), sp.csr_array(split.X_test))
    kernel = Axes.of_kernel(split.X @ split.X.T, split.X_test @ split.X.T)
    for other in (sparse, kernel):
        np.testing.assert_allclose(other.values, features.values, rtol=1e-6)
        np.testing.assert_allclose(
            other.test @ other.train.T, features.test @ features.train.T, atol=1e-8
        )


@pytest.mark.parametrize("d", [20, 60])
def test_errors_leaving_one_out_are_those_of_machines_without_the_row(d):
    split = rows(40, d, noise=1.0)
    axes = Axes.of(split.X, split.X_test)
    found = LeastSquares.of(axes, split.y)
    Y = np.where(split.y[:, None] == np.unique(split.y), 1.0, -1.0)

    def right(alpha: float) -> float:
        hits = 0
        for i in range(len(Y)):
            rest = np.arange(len(Y)) != i
            A, B = split.X[rest] - split.X[rest].mean(axis=0), Y[rest] - Y[rest].mean(axis=0)
            coef = np.linalg.solve(A.T @ A + alpha * np.eye(d), A.T @ B)
            hits += (
                np.argmax((split.X[i] - split.X[rest].mean(axis=0)) @ coef + Y[rest].mean(axis=0))
                == split.y[i]
            )
        return hits / len(Y)

    shares = {alpha: right(alpha) for alpha in ALPHAS[::9] * axes.scale}
    assert found.right >= max(shares.values())
    assert found.right == right(found.alpha)
    assert found.right > min(shares.values())


def test_the_machine_is_that_of_liblinear():
    split = rows(d=150, noise=20.0)
    axes = Axes.of(split.X, split.X_test)
    C = 1 / (2 * LeastSquares.of(axes, split.y).alpha)
    theirs = LinearSVC(C=C, intercept_scaling=1000.0, tol=1e-8, max_iter=10**5, dual=False).fit(
        split.X, split.y
    )
    np.testing.assert_allclose(
        hinge_scores(axes, split.y, C, tol=1e-6), theirs.decision_function(split.X_test), atol=2e-3
    )
    share = np.mean(np.argmax(hinge_scores(axes, split.y, C), axis=1) == split.y_test)
    assert 0.3 < share < 1
    assert machine(axes, split) == pytest.approx(100 * share)


def test_features_as_they_are_have_their_own_number_of_columns():
    split = rows()
    found = svm_in_span(None, split)
    assert found.features == 40
    assert found.accuracy > 60


def test_the_parameter_that_suits_the_rows_is_chosen():
    split = rows()
    make = MAPS["exp-semigroup"][0]
    assert tune(lambda beta: make(100, beta, 0), (1e-9, 0.1), split) == 0.1
    assert tune(lambda beta: make(100, beta, 0), (0.3,), split) == 0.3


def test_sums_of_roots_are_the_exponent_of_the_kernel():
    split = rows()
    exact = gram(ExponentialSemigroup(0.5), split.X_test, split.X)
    np.testing.assert_allclose(np.exp(-0.5 * root_sums(split.X_test, split.X)), exact, rtol=1e-12)


@pytest.mark.parametrize("label", ["exp-semigroup", "reciprocal-semigroup"])
def test_the_papers_map_is_plain_and_ours_has_the_exact_diagonal(label):
    X = rows().X
    plain, ours = (
        MAPS[label][0](50, 1.0, 0).fit(X),
        OUR_MAPS[f"{label}, normalised"][0](50, 1.0, 0).fit(X),
    )
    assert plain.kernel_ == ours.kernel_
    diagonal = np.array([ours.kernel_(x[None])[0, 0] for x in X])
    np.testing.assert_allclose(np.sum(ours.transform(X) ** 2, axis=1), diagonal, rtol=1e-9)
    assert np.max(np.abs(np.sum(plain.transform(X) ** 2, axis=1) / diagonal - 1)) > 0.05


def test_the_papers_exp_chi2_is_near_the_kernel():
    X = rows(60).X
    fitted = MAPS["exp-chi2"][0](5000, 0.5, 0).fit(X)
    Z = fitted.transform(X)
    exact = np.exp(-0.5 * (2 - 2 * Chi2()(X)))
    assert np.sqrt(np.mean((Z @ Z.T - exact) ** 2)) < 0.03


@pytest.mark.full
def test_additive_maps_have_as_many_features_as_the_column_says(tmp_path):
    split = rows()
    np.savez(
        tmp_path / "caltech101_bow.npz",
        X=np.concatenate([split.X, split.X_test]),
        y=np.concatenate([split.y, split.y_test]),
        n_train=len(split.y),
    )
    bench = Bench("standard", Sets(tmp_path))
    for cell in TABLE_2.cells:
        if len(cell.columns) == 1:
            (figure,) = run_cell(Task(TABLE_2, cell), bench).figures.values()
            assert figure.features == (2 * int(cell.columns[0][-1]) + 1) * 40


@pytest.mark.slow
def test_normalised_features_have_less_error_on_bags_of_words():
    folder = Path(os.environ.get("MERCER_DATA", ""))
    if not (folder / "caltech101_bow.npz").is_file():
        pytest.skip("caltech101_bow.npz is not in $MERCER_DATA")
    bench = Bench("quick", Sets(folder))
    for experiment in PAPER.experiments[:2]:
        errors = {
            cell.label: run_cell(Task(experiment, cell), bench).figures["s = 200"].mean
            for cell in experiment.cells
        }
        for label, error in errors.items():
            if not label.endswith("normalised"):
                assert errors[f"{label}, normalised"] < error
