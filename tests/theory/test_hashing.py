"""What is known on paper of hashes and anchors: at the reference values, and against simulation."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import GCWS, theory
from mercer.kernels import GMM, Chi2

A = np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.1, 0.0, 0.5]])
B = np.array([[0.25, 0.25, 0.25, 0.25], [0.7, 0.1, 0.1, 0.1]])
G = np.array([[-5.0, 3.0, 0.0, 2.0], [-1.0, 4.0, -2.0, 0.0]])


TABLE = [  # rho, gamma, g, V_g of math.md
    (0.0, 1.0, 0.17157288, 0.32672828),
    (0.5, 1.0, 1 / 3, 0.41386437),
    (0.9, 1.0, 0.634512, 0.085123914),
    (0.99, 1.0, 0.86791823, 2.9536179e-3),
    (0.5, 10.0, 1 / 3, 0.0051074921),
    (0.9, 10.0, 0.634512, 1.4070888),
]


@pytest.mark.parametrize(("rho", "gamma", "g", "V"), TABLE)
def test_the_relation_of_gmm_to_correlation_has_its_reference_values(rho, gamma, g, V):
    assert theory.gmm_of_correlation(rho) == pytest.approx(g, rel=1e-6)
    assert theory.correlation_of_gmm(g) == pytest.approx(rho, abs=1e-6)
    assert theory.rbf_from_gmm_variance(rho, gamma, 1) == pytest.approx(V, rel=1e-6)


@pytest.mark.full
@pytest.mark.parametrize("degrees", [None, 3, 10])
def test_gmm_of_elliptical_data_tends_to_the_relation(degrees):
    """Figure 2 of the paper: normal and t data of correlation rho, many columns."""
    rng = np.random.default_rng(0)
    for rho in (-0.5, 0.0, 0.6, 0.9):
        d = 100_000
        pairs = rng.multivariate_normal([0, 0], [[1, rho], [rho, 1]], size=d).T
        if degrees is not None:
            pairs = pairs * np.sqrt(degrees / rng.chisquare(degrees, size=d))
        assert GMM()(pairs)[0, 1] == pytest.approx(theory.gmm_of_correlation(rho), abs=0.012)


def test_the_variance_of_hashes_is_that_of_simulated_ones():
    k = 4 / 13
    rates = [
        GCWS(64, bits=16, random_state=seed).fit(G).similarity(G, G)[0][0, 1] for seed in range(600)
    ]
    assert np.var(rates) == pytest.approx(theory.gmm_variance(k, 64), rel=0.2)


def test_the_error_of_anchors_is_within_its_bound():
    """N = 20, d = 200: a bound of 9.6e-3 (paper: 1.36e-2) on the mean over columns, whose 95%
    quantile is 2.5e-3.
    """
    assert theory.anchors_error(1 / 20, 200, 0.05) == pytest.approx(9.6e-3, rel=1e-2)
    rng = np.random.default_rng(0)
    X, Z = rng.random((2000, 200)), rng.random((2000, 200))
    k = Chi2()
    errors = np.abs(k.pairs(np.round(X * 20) / 20, np.round(Z * 20) / 20) - k.pairs(X, Z)) / 200
    assert np.quantile(errors, 0.95) == pytest.approx(2.5e-3, rel=0.15)
    assert errors.max() <= theory.anchors_error(1 / 20, 200, 1e-4)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: theory.gmm_variance(1.5, 10), "gmm must be a number from 0 to 1"),
        (lambda: theory.gmm_of_correlation(2.0), "rho must be a number from -1 to 1"),
        (lambda: theory.anchors_error(0.1, 0, 0.1), "d must be an integer"),
    ],
)
def test_wrong_arguments_are_refused_in_words(call, words):
    with pytest.raises(ValueError, match=words):
        call()
