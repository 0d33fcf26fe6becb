"""Metric as a map: M^(1/2) x, its kernel, and gradients of the maps that may follow it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone

import mercer
from mercer import (
    GCWS,
    Chi2Series,
    ExpChi2,
    FeaturePCA,
    Hellinger,
    Homogeneous,
    Identity,
    KernelRegressor,
    Metric,
    Nystroem,
    RandomFourier,
    RandomLaplace,
    Scaled,
    SkewedFourier,
)

FOURIER = [
    RandomFourier(size, kernel=kernel, gamma=0.4, nu=0.5, form=form, design=design, random_state=3)
    for kernel in ("gaussian", "laplacian", "cauchy", "matern", "cosine-rbf")
    for form in ("paired", "offset")
    for size, design in ((33, "iid"), (34, "sobol"))
]
DESIGNS = [
    RandomFourier(30, gamma=0.3, design=design, random_state=1)
    for design in ("orthogonal", "hadamard")
]
OTHERS = [
    RandomFourier(32, gamma=0.3, normalize=True, random_state=1),
    Identity(),
    Scaled(),
    FeaturePCA(3),
    Homogeneous(n_terms=3),
    Chi2Series(3),
    Hellinger(),
    SkewedFourier(20, random_state=0),
    ExpChi2(24, random_state=0),
    RandomFourier(8, gamma=0.3, random_state=1) >> RandomFourier(16, gamma=1.0, random_state=2),
    RandomFourier(8, gamma=0.3, random_state=1) + Identity(),
    *(
        Nystroem(8, kernel=kernel, gamma=0.3, random_state=0)
        for kernel in ("gaussian", "laplacian", "cauchy", "matern")
    ),
    Metric(matrix=[0.5, 2.0, 1.0, 0.1]) >> RandomFourier(16, gamma=0.3, random_state=1),
]


def rows(case, n: int = 12) -> np.ndarray:
    X = np.random.default_rng(5).normal(size=(n, 4))
    return np.abs(X) + 0.1 if case.domain == "nonnegative" or isinstance(case, SkewedFourier) else X


@pytest.mark.parametrize("case", [*FOURIER, *DESIGNS, *OTHERS], ids=repr)
@pytest.mark.parametrize("stored", [np.asarray, csr_array], ids=["dense", "csr"])
def test_vector_jacobian_products_are_derivatives_of_the_features(case, stored):
    X = rows(case)
    fitted = clone(case).fit(X[:-2] if isinstance(case, Nystroem) else X)
    # a landmark is a kink of the laplacian and Matern kernels
    X = X[-2:] if isinstance(case, Nystroem) else X
    coef = np.random.default_rng(0).normal(size=(2, 1, fitted._n_features_out))
    gradients = fitted.tile_transform_.vjp(stored(X), coef)
    assert gradients.shape == (2, *X.shape)
    step = 1e-6
    for j in range(X.shape[1]):
        shift = step * np.eye(X.shape[1])[j]
        above, below = (np.asarray(fitted.transform(rows)) for rows in (X + shift, X - shift))
        expected = np.einsum("tiq,iq->ti", coef, (above - below) / (2 * step))
        assert gradients[:, :, j] == pytest.approx(expected, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("case", [GCWS(8), RandomLaplace(8)], ids=repr)
def test_maps_without_a_gradient_are_refused_by_name(case):
    X = np.abs(rows(case, 60))
    with pytest.raises(ValueError, match=f"{type(case).__name__} has no gradient"):
        KernelRegressor(Metric() >> case, random_state=0).fit(X, X[:, 0])


@pytest.mark.parametrize("form", ["paired", "offset"])
@pytest.mark.parametrize("design", ["iid", "hadamard"])
@pytest.mark.parametrize("size", [64, pytest.param(65, marks=pytest.mark.full)])
def test_smoothing_factors_are_those_of_a_convolution_with_a_normal_density(form, design, size):
    X = rows(Identity(), 3)
    fitted = RandomFourier(size, gamma=0.4, form=form, design=design, random_state=0).fit(X)
    factors = fitted.tile_transform_.stages[0].smoothing_factors(0.5, 4)
    noise = np.random.default_rng(1).normal(size=(200_000, 4)) * 0.5
    average = np.array([fitted.transform(x + noise).mean(axis=0) for x in X])
    assert average == pytest.approx(fitted.transform(X) * factors, abs=1e-3)


def test_a_given_matrix_is_applied_and_has_its_exact_kernel():
    X = rows(Identity())
    P = np.random.default_rng(1).normal(size=(4, 4))
    fitted = Metric(matrix=P).fit(X)
    assert fitted.transform(X) == pytest.approx(X @ P, abs=1e-14)
    assert fitted.kernel_(X) == pytest.approx(X @ P @ P.T @ X.T, abs=1e-12)
    assert fitted.metric_ == pytest.approx(P @ P.T)
    assert fitted.importances_.sum() == pytest.approx(1.0)
    scales = np.array([1.0, 0.5, 2.0, 1e-6])
    diagonal = Metric(matrix=scales).fit(X)
    assert diagonal.transform(X) == pytest.approx(X * scales, abs=1e-15)
    assert diagonal.kernel_(X) == pytest.approx((X * scales**2) @ X.T, abs=1e-12)
    sparse = diagonal.transform(csr_array(X))
    assert isinstance(sparse, csr_array)
    assert sparse.toarray() == pytest.approx(X * scales)


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian", "cauchy", "matern"])
@pytest.mark.parametrize("matrix", [np.diag([2.0, 1.0, 0.5, 0.1]) + 0.1, np.ones(4) * 0.7])
def test_features_behind_scaled_columns_and_a_metric_approach_the_exact_kernel(kernel, matrix):
    X = rows(Identity(), 40) * [1.0, 10.0, 0.1, 1.0]
    chain = (
        Scaled()
        >> Metric(matrix=matrix)
        >> RandomFourier(20_000, kernel=kernel, gamma=0.2, design="iid", random_state=0)
    )
    fitted = chain.fit(X)
    Z = fitted.transform(X)
    assert np.abs(Z @ Z.T - fitted.kernel_(X)).max() < 0.05
    assert mercer.gram(fitted.kernel_, X) == pytest.approx(fitted.kernel_(X), abs=1e-10)


@pytest.mark.parametrize(
    "matrix", [np.ones(3), np.ones((4, 3)), np.zeros((4, 4)), np.full(4, np.nan), [1, 1, 1, -1]]
)
def test_a_matrix_that_does_not_fit_the_columns_is_refused(matrix):
    with pytest.raises(ValueError, match=r"matrix.* 4 finite numbers above 0, or a finite matrix"):
        Metric(matrix=matrix).fit(rows(Identity()))


def test_without_targets_the_metric_is_the_identity_and_says_so():
    X = rows(Identity())
    with pytest.warns(UserWarning, match="Metric is the identity: it is learned from targets"):
        assert (Metric().fit(X).transform(X) == X).all()
