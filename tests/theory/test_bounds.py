"""Variances and bounds: at the reference values, and against simulation."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import RandomFourier, RandomLaplace, theory
from mercer.kernels import ExponentialSemigroup, ReciprocalSemigroup

# rho, gamma of exp(-gamma (1 - rho)); E, V of offset, V_n of NRFF, V of paired features, for one
# column
TABLE = [
    (0.0, 1.0, 0.36787944, 0.87382254, 0.77294076, 0.74764507),
    (0.5, 1.0, 0.60653066, 0.69978820, 0.43632539, 0.39957640),
    (0.9, 1.0, 0.90483742, 0.51642927, 0.039584114, 0.03285854),
    (0.99, 1.0, 0.99004983, 0.50019605, 4.8817469e-4, 3.9209254e-4),
    (0.5, 10.0, 0.006737947, 0.9999546, 0.99992055, 0.9999092),
    (0.9, 10.0, 0.36787944, 0.87382254, 0.77294076, 0.74764507),
]


@pytest.mark.parametrize(("rho", "gamma", "E", "offset", "nrff", "paired"), TABLE)
def test_variances_have_their_reference_values(rho, gamma, E, offset, nrff, paired):
    k = np.exp(-gamma * (1 - rho))
    k2 = k**4  # a Gaussian at twice the distance
    assert k == pytest.approx(E, rel=1e-7)
    assert theory.variance(k, k2, 1, "offset") == pytest.approx(offset, rel=1e-7)
    assert theory.variance(k, k2, 1, "paired") == pytest.approx(paired, rel=1e-7)
    assert theory.nrff_variance(k, 1) == pytest.approx(nrff, rel=1e-7)


@pytest.mark.full
@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
@pytest.mark.parametrize(
    ("form", "normalize"),
    [("offset", False), ("paired", False), ("offset", True)],
    ids=["offset", "paired", "nrff"],
)
def test_variances_are_those_of_simulated_maps(rho, form, normalize):
    D, draws = 100, 4000
    X = np.array([[1.0, 0.0], [rho, np.sqrt(1 - rho**2)]])
    k = np.exp(-(1 - rho))
    products = np.empty(draws)
    for seed in range(draws):
        phi = RandomFourier(
            D, gamma=0.5, form=form, normalize=normalize, design="iid", random_state=seed, n_jobs=1
        )
        Z = phi.fit(X).transform(X)
        products[seed] = Z[0] @ Z[1]
    expected = theory.nrff_variance(k, D) if normalize else theory.variance(k, k**4, D, form)
    # a variance from 4000 draws is known to about 2.2% (more for the skewed NRFF, whose formula is
    # of first order in 1/D)
    assert products.var() == pytest.approx(expected, rel=0.12)
    assert products.mean() == pytest.approx(
        k, abs=4 * np.sqrt(expected / draws) + (1 / D if normalize else 0)
    )


@pytest.mark.full
def test_laplacian_and_matern_have_the_general_variance_too():
    X = np.array([[0.0, 0.0], [0.7, -0.4]])
    for case in (
        RandomFourier(50, kernel="laplacian", gamma=0.8),
        RandomFourier(50, kernel="matern", gamma=0.8, design="iid"),
    ):
        products = []
        for seed in range(3000):
            fitted = case.set_params(random_state=seed, n_jobs=1).fit(X)
            Z = fitted.transform(X)
            products.append(Z[0] @ Z[1])
        k, k2 = fitted.kernel_(X)[0, 1], fitted.kernel_(2 * X)[0, 1]
        assert np.var(products) == pytest.approx(theory.variance(k, k2, 50), rel=0.12)


def test_the_uniform_bound_has_its_reference_values():
    """Rahimi-Recht sizes at sigma_p = sqrt(d)/10, diameter 20, error 0.1, probability 0.01."""
    for d, frequencies in ((784, 7170275.94), (3072, 29721763.66)):
        spread = np.sqrt(d) / 10
        assert theory.components_uniform(0.1, 0.01, d, spread, 20) == 2 * int(np.ceil(frequencies))
        log_term = np.log(
            98 * (spread * 20 / 0.1) ** 2 / 0.01
        )  # the offset form's bound is another one
        expected = 32 * (d + 1) / 0.01 * log_term
        assert theory.components_uniform(0.1, 0.01, d, spread, 20, "offset") == int(
            np.ceil(expected)
        )


@pytest.mark.parametrize("form", ["paired", "offset"])
def test_the_size_that_a_bound_asks_for_meets_it_and_one_less_does_not(form):
    D = theory.components_uniform(0.2, 0.05, 3, 2.0, 4.0, form)
    assert theory.bound_uniform(0.2, D, 3, 2.0, 4.0, form) <= 0.05
    assert theory.bound_uniform(0.2, D - 2, 3, 2.0, 4.0, form) > 0.05
    assert theory.bound_uniform(0.2, 2, 3, 2.0, 4.0, form) == 1.0


@pytest.mark.parametrize("form", ["paired", "offset"])
def test_the_size_for_one_pair_holds_in_simulation(form):
    error, delta = 0.3, 0.2
    D = theory.components_for_pair(error, delta, form)
    X = np.array([[0.0], [1.2]])
    failures = 0
    for seed in range(400):
        fitted = RandomFourier(
            D, gamma=0.5, form=form, design="iid", random_state=seed, n_jobs=1
        ).fit(X)
        Z = fitted.transform(X)
        failures += abs(Z[0] @ Z[1] - fitted.kernel_(X)[0, 1]) >= error
    assert failures / 400 <= delta


def test_an_unknown_form_is_refused():
    with pytest.raises(
        ValueError,
        match=r"form must be 'paired' or 'offset', got 'pair'. Did you mean 'paired'",
    ):
        theory.variance(0.5, 0.1, 10, "pair")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: theory.components_for_pair(0.1, 3),
            "delta must be a number between 0 and 1, got 3",
        ),
        (
            lambda: theory.components_for_pair(0.0, 0.1),
            "error must be a finite number above 0, got 0.0",
        ),
        (
            lambda: theory.components_uniform(0.1, 0, 3, 1.0, 1.0),
            "delta must be a number between 0 and 1, got 0",
        ),
        (
            lambda: theory.components_uniform(0.1, 0.1, 3, 1.0, 0.0),
            "diameter must be a finite number above 0",
        ),
        (
            lambda: theory.components_uniform(0.1, 0.1, 0, 1.0, 1.0),
            "d must be an integer of at least 1",
        ),
        (lambda: theory.bound_uniform(2.0, 10, 3, 1.0, 1.0), "error must be at most spread"),
        (
            lambda: theory.variance(0.5, 0.2, -3),
            "n_components must be an integer of at least 1",
        ),
    ],
)
def test_arguments_out_of_range_are_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_laplace_curvatures_have_their_reference_values():
    for beta, r, value in (
        (1, 0.01, 87.58353996),
        (0.01, 0.001, 27.95084692),
        (2, 0.5, 0.2030029249),
        (0.5, 0.2, 0.4740401210),
    ):
        assert theory.laplace_curvature(ExponentialSemigroup(float(beta)), r) == pytest.approx(
            value, rel=1e-9
        )
    assert theory.laplace_curvature(ReciprocalSemigroup(1.0), 0.1) == pytest.approx(
        1.157407407, rel=1e-9
    )
    assert theory.laplace_curvature(ReciprocalSemigroup(2.0), 0.0) == pytest.approx(0.5, rel=1e-12)


@pytest.mark.parametrize(
    ("d", "kernel", "r", "own", "rigorous"),
    [
        (10, ExponentialSemigroup(1.0), 0.01, 22877.10, 20560.34),
        (100, ExponentialSemigroup(0.1), 0.001, 255513.55, 232431.13),
        (10, ReciprocalSemigroup(1.0), 0.0, 19097.66, None),
        (100, ReciprocalSemigroup(1.0), 0.0, 206114.79, None),
    ],
)
def test_laplace_sizes_have_their_reference_values(d, kernel, r, own, rigorous):
    L = theory.laplace_curvature(kernel, r)
    assert theory.laplace_components(0.1, 0.05, d, 1.0, L, constant=2**10) == int(np.ceil(own))
    if rigorous is not None:
        D = theory.laplace_components(0.1, 0.05, d, 1.0, theory.laplace_curvature(kernel, 2 * r))
        assert int(np.ceil(rigorous)) == D
        assert theory.laplace_bound(0.1, D, d, 1.0, theory.laplace_curvature(kernel, 2 * r)) <= 0.05


def test_the_laplace_shift_has_its_reference_value_and_its_effect():
    delta = theory.laplace_shift(0.1, 1.0, 10)
    assert delta == pytest.approx(1.3155e-5, rel=1e-4)
    zeros = np.zeros((1, 10))
    kernel = ExponentialSemigroup(1.0)
    assert kernel(zeros)[0, 0] - kernel(zeros + delta)[0, 0] == pytest.approx(0.05, rel=1e-9)


X_A, Z_A = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.4, 0.1, 0.0, 0.5])
LAPLACE = [
    (ExponentialSemigroup(1.0), 0.016351611, 0.001381537),
    (ExponentialSemigroup(0.01), 0.0153771, 6.0942142e-4),
    (ReciprocalSemigroup(1.0), 0.026648549, 3.8138951e-4),
]


@pytest.mark.parametrize(("kernel", "plain", "normalized"), LAPLACE, ids=repr)
def test_laplace_variances_have_their_reference_values(kernel, plain, normalized):
    assert theory.laplace_variance(kernel, X_A, Z_A, 1) == pytest.approx(plain, rel=1e-6)
    assert theory.laplace_normalized_variance(kernel, X_A, Z_A, 1) == pytest.approx(
        normalized, rel=1e-6
    )


@pytest.mark.full
@pytest.mark.parametrize(("kernel", "plain", "normalized"), LAPLACE, ids=repr)
def test_laplace_variances_are_those_of_simulated_maps(kernel, plain, normalized):
    name = "exponential" if isinstance(kernel, ExponentialSemigroup) else "reciprocal"
    rows = np.stack([X_A, Z_A])
    for normalize, expected in ((False, plain), (True, normalized)):
        products = np.empty(3000)
        for seed in range(3000):
            phi = RandomLaplace(
                200, kernel=name, beta=kernel.beta, normalize=normalize, random_state=seed, n_jobs=1
            )
            Z = phi.fit(rows).transform(rows)
            products[seed] = Z[0] @ Z[1]
        assert products.var() * 200 == pytest.approx(expected, rel=0.15)
