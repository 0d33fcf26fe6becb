"""Random projections and compressive random features: identities, exact means, and what they
refuse.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import hadamard
from scipy.stats import beta, chi2, kstest, ortho_group
from tests.helpers.battery import CHECKS, close, data, same
from tests.test_real_data import load

from mercer import CompressiveFourier, Hellinger, RandomFourier, RandomProjection, theory
from mercer.kernels import Gaussian, Laplacian, Linear
from mercer.maps._transform import Chain
from mercer.maps.stages.linear import Matrix
from mercer.maps.stages.projection import sample_projection
from mercer.rng import Rng

METHODS = ("orthoprojector", "bernoulli", "gaussian", "hadamard")


def matrix(
    method: str, m: int, d: int, seed: int = 0, basis: np.ndarray | None = None
) -> np.ndarray:
    """P, as a map would apply it."""
    fitted = RandomProjection(m, method=method, basis=basis, random_state=seed).fit(
        np.zeros((1, d))
    )
    return fitted.transform(np.eye(d)).T


@pytest.mark.parametrize("method", ["orthoprojector", "bernoulli"])
@pytest.mark.parametrize(("m", "d"), [(1, 1), (1, 7), (5, 7), (2, 2), (5, 5), (32, 256)])
def test_rows_of_an_orthoprojector_are_orthogonal_with_norm_d_over_m(method, m, d):
    for seed in range(5):
        P = matrix(method, m, d, seed)
        np.testing.assert_allclose(P @ P.T, d / m * np.eye(m), atol=1e-12 * d)


def test_rows_of_the_hadamard_projection_are_different_rows_of_signs():
    m, d, p = 5, 16, 16
    P = matrix("hadamard", m, d)
    np.testing.assert_allclose(np.abs(P), 1 / np.sqrt(m), rtol=1e-14)
    np.testing.assert_allclose(P @ P.T, d / m * np.eye(m), atol=1e-12)
    stage = sample_projection(Rng(0), "hadamard", m, d)
    expected = hadamard(p)[stage.rows] * stage.signs[0, 0] / np.sqrt(m)
    np.testing.assert_allclose(P, expected, atol=1e-14)
    assert len(set(stage.rows)) == m
    padded = sample_projection(Rng(0), "hadamard", m, 11)
    np.testing.assert_allclose(padded(np.eye(11)), expected[:, :11].T, atol=1e-14)


def test_gaussian_entries_are_normal_with_variance_1_over_m_and_may_be_more_than_d():
    P = matrix("gaussian", 400, 30)
    assert kstest(P.ravel() * np.sqrt(400), "norm").pvalue > 0.01


def test_rows_of_signs_that_depend_on_others_give_way_to_the_next():
    """Two rows of three signs are one line a quarter of the time: the plane is then that of the
    first and the next.
    """
    skipped = 0
    for seed in range(40):
        first, *others = Rng(seed).signs("projection", 20, 3)
        second = next(row for row in others if abs(row @ first) != 3)
        skipped += second is not others[0]
        P = matrix("bernoulli", 2, 3, seed)
        normal = np.cross(first, second)
        np.testing.assert_allclose(P @ normal, 0, atol=1e-12)
        np.testing.assert_allclose(P @ P.T, 1.5 * np.eye(2), atol=1e-12)
    assert skipped > 3


@pytest.mark.parametrize("method", METHODS)
def test_norms_are_kept_in_the_mean_and_spread_as_stated(method):
    m, d, draws = 32, 256, 2000
    x = np.random.default_rng(0).normal(size=(1, d))
    x /= np.linalg.norm(x)
    squares = np.array(
        [np.sum(sample_projection(Rng(seed), method, m, d)(x) ** 2) for seed in range(draws)]
    )
    assert squares.mean() == pytest.approx(1, abs=4 * squares.std() / np.sqrt(draws))
    assert squares.std() / np.sqrt(draws) < 0.01
    if method in ("orthoprojector", "gaussian"):  # the spread of the others depends on x
        assert squares.std() == pytest.approx(theory.projection_spread(m, d, method), rel=0.06)
    if method == "orthoprojector":
        assert kstest(squares * m / d, beta(m / 2, (d - m) / 2).cdf).pvalue > 0.01
    if method == "gaussian":
        assert kstest(squares * m, chi2(m).cdf).pvalue > 0.01


@pytest.mark.full
def test_signs_spread_less_on_sparse_differences_and_only_there():
    """A difference with 15 entries: 3/4 of the orthoprojector's spread, and all of it in another
    basis.
    """
    m, d, draws = 32, 256, 2000
    x = np.zeros((1, d))
    x[0, np.random.default_rng(1).permutation(d)[:15]] = 1 / np.arange(1, 16)
    x /= np.linalg.norm(x)
    basis = ortho_group.rvs(d, random_state=0)

    def spread(method: str, row: np.ndarray, psi: np.ndarray | None = None) -> float:
        return float(
            np.std(
                [
                    np.sum(
                        sample_projection(Rng(s), method, m, d)(row if psi is None else row @ psi)
                        ** 2
                    )
                    for s in range(draws)
                ]
            )
        )

    assert spread("orthoprojector", x) == pytest.approx(0.2329, rel=0.06)
    kurtosis = np.sum(
        x**4
    )  # Var (h.x)^2 = 2 (1 - sum x^4) for one row h of signs; of m among d without replacement:
    expected = np.sqrt(2 * (1 - kurtosis) / m * (d - m) / (d - 1))
    assert expected < 0.18
    assert spread("hadamard", x) == pytest.approx(expected, rel=0.06)
    assert spread("bernoulli", x) == pytest.approx(expected, rel=0.06)
    hidden = x @ basis.T  # sparse in the basis alone
    assert spread("hadamard", hidden) == pytest.approx(0.2329, rel=0.06)
    assert spread("hadamard", hidden, basis) == pytest.approx(expected, rel=0.06)


@pytest.mark.parametrize("method", METHODS)
def test_a_basis_gives_the_projection_of_the_coefficients(method):
    d, m = 12, 5
    basis = ortho_group.rvs(d, random_state=1)
    P = matrix(method, m, d, basis=basis)
    np.testing.assert_allclose(P, matrix(method, m, d) @ basis.T, atol=1e-13)
    np.testing.assert_allclose(
        matrix(method, m, d, basis=np.eye(d, dtype=int)), matrix(method, m, d), atol=1e-13
    )
    np.testing.assert_allclose(matrix(method, m, d, basis=basis.astype(np.float32)), P, atol=1e-5)


@pytest.mark.parametrize("method", ["bernoulli", "hadamard"])
@pytest.mark.parametrize(
    "check",
    [
        name
        for name in CHECKS
        if not any(word in name for word in ("limit", "larger_size", "exact"))
    ],
)
def test_the_battery_with_a_basis(method, check):
    basis = ortho_group.rvs(5, random_state=2)
    CHECKS[check](RandomProjection(3, method=method, basis=basis, random_state=0))
    CHECKS[check](
        CompressiveFourier(
            16, n_measurements=3, method=method, basis=basis, gamma=0.3, random_state=0
        )
    )


class Unscaled(RandomProjection):
    """Wrong on purpose: no sqrt(d/m)."""

    factor = staticmethod(lambda m, d: np.sqrt(m / d))

    def build(self, rng, d, statistics):
        (measured,) = super().build(rng, d, statistics).stages
        panel = measured.linear.panel * self.factor(self.n_components, d)
        return Chain((replace(measured, linear=Matrix(panel)),))


class ThreePerCent(Unscaled):
    """Wrong on purpose: three per cent too long."""

    factor = staticmethod(lambda m, d: 1.03)


def test_the_battery_fails_a_projection_that_is_wrong():
    rate, average = (
        CHECKS[name]
        for name in (
            "inner_products_approach_the_limit_at_the_stated_rate",
            "draws_average_to_the_limit",
        )
    )
    for check in (rate, average):
        check(RandomProjection(2, random_state=0))
        with pytest.raises(AssertionError):
            check(Unscaled(2, random_state=0))
    with pytest.raises(AssertionError):
        average(ThreePerCent(2, random_state=0))


# Compressive random features


X = np.random.default_rng(0).normal(size=(40, 30))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("design", ["auto", "iid", "hadamard"])
def test_compressive_fourier_spells_a_composition_bit_for_bit(method, design):
    spelt = CompressiveFourier(
        100, n_measurements=20, gamma=0.02, method=method, design=design, random_state=3
    )
    both = RandomProjection(20, method=method, random_state=3) >> RandomFourier(
        100, gamma=0.02, design=design, random_state=3
    )
    same(spelt.fit_transform(X), both.fit_transform(X))
    assert spelt.kernel_ == both.kernel_ == Gaussian(0.02)
    close(spelt.limit_(X), both.limit_(X))
    close(spelt.limit_(X), Gaussian(0.02)(both.maps_[0].transform(X)))
    assert abs(spelt.limit_(X) - spelt.kernel_(X)).max() > 0.01
    assert spelt.design_ == both.maps_[1].design_


@pytest.mark.parametrize("word", ["auto", "scale", "median"])
def test_gamma_is_that_of_the_original_rows(word):
    spelt = CompressiveFourier(10, n_measurements=8, gamma=word, random_state=0).fit(X)
    assert spelt.gamma_ == RandomFourier(10, gamma=word, random_state=0).fit(X).gamma_


def test_a_projection_and_a_map_with_the_same_seed_have_different_numbers():
    both = (
        RandomProjection(30, method="gaussian", random_state=0)
        >> RandomFourier(60, gamma=0.5, design="iid", random_state=0)
    ).fit(X)
    P, W = (
        both.tile_transform_.parts[0].stages[0].linear.panel,
        both.tile_transform_.parts[1].stages[0].linear.panel,
    )
    assert abs(np.corrcoef(P.ravel(), W.ravel())[0, 1]) < 0.15


@pytest.mark.parametrize("method", ["orthoprojector", "gaussian"])
@pytest.mark.parametrize(
    ("m", "d", "a"), [pytest.param(32, 256, 1.0, marks=pytest.mark.full), (4, 16, 2.5)]
)
def test_the_mean_and_the_spread_of_the_compressed_kernel_are_exact(method, m, d, a):
    draws = 3000
    rows = np.zeros((2, d))
    rows[1, :9] = np.sqrt(a / 9)
    values = np.empty(draws)
    for seed in range(draws):
        values[seed] = Gaussian(1.0)(sample_projection(Rng(seed), method, m, d)(rows))[0, 1]
    variance = theory.compressed_variance(a, m, d, method)
    assert values.mean() == pytest.approx(
        theory.compressed_gaussian(a, m, d, method), abs=4 * np.sqrt(variance / draws)
    )
    assert values.var() == pytest.approx(variance, rel=0.12)
    assert abs(values.mean() - np.exp(-a)) > 4 * np.sqrt(
        variance / draws
    )  # the bias is there to be seen


@pytest.mark.full
def test_the_mean_over_projections_and_features_is_that_of_the_compressed_kernel():
    m, d, a, draws = 4, 16, 2.0, 1500
    rows = np.zeros((2, d))
    rows[1, :2] = np.sqrt(a / 2)
    products = np.empty(draws)
    for seed in range(draws):
        phi = CompressiveFourier(
            50, n_measurements=m, gamma=1.0, design="iid", random_state=seed, n_jobs=1
        )
        Z = phi.fit_transform(rows)
        products[seed] = Z[0] @ Z[1]
    standard_error = products.std() / np.sqrt(draws)
    assert products.mean() == pytest.approx(
        theory.compressed_gaussian(a, m, d), abs=4 * standard_error
    )
    assert products.mean() - np.exp(-a) > 4 * standard_error


def test_projections_compose_with_maps_of_real_rows_and_refuse_others_in_words():
    laplacian = (
        RandomProjection(8, random_state=0)
        >> RandomFourier(64, kernel="laplacian", gamma=0.1, random_state=1)
    ).fit(X)
    close(laplacian.limit_(X), Laplacian(0.1)(laplacian.maps_[0].transform(X)))
    with pytest.raises(
        AttributeError, match="no exact kernel"
    ):  # a projection keeps Euclidean distances alone
        _ = laplacian.kernel_
    cosine = (
        RandomProjection(8, random_state=0)
        >> RandomFourier(64, kernel="cosine-rbf", random_state=1)
    ).fit(X)
    assert np.isfinite(cosine.transform(X)).all()
    assert (RandomProjection(8, random_state=0) >> RandomProjection(4, random_state=1)).fit(
        X
    ).kernel_ == Linear()
    with pytest.raises(ValueError, match="Negative values in data: Hellinger needs X >= 0"):
        (RandomProjection(8, random_state=0) >> Hellinger()).fit_transform(X)


def test_a_kernel_over_the_linear_one_is_itself():
    assert Gaussian(0.3).over(Linear()) == Gaussian(0.3)
    assert Linear().over(Gaussian(0.3)) == Gaussian(0.3)


# Bad input, in words


SPELT = partial(CompressiveFourier, 16, gamma=1.0)


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (
            RandomProjection(6),
            r"RandomProjection: n_components must be at most the number of columns, "
            r"n_features=5, got 6",
        ),
        (RandomProjection(6, method="hadamard"), r"Use a smaller one, or method='gaussian'"),
        (RandomProjection(0), r"n_components must be an integer of at least 1, or 'auto', got 0"),
        (
            RandomProjection(2.0),
            r"n_components must be an integer of at least 1, or 'auto', got 2.0",
        ),
        (
            RandomProjection(2, method="bernouli"),
            r"method must be one of .*Did you mean 'bernoulli'\?",
        ),
        (
            RandomProjection(2, basis=np.eye(4)),
            r"basis must be a \(5, 5\) array of real numbers.* got one of shape \(4, 4\)",
        ),
        (
            RandomProjection(2, basis=1j * np.eye(5)),
            r"basis must be a \(5, 5\) array of real numbers.* type complex128",
        ),
        (RandomProjection(2, basis="dct"), r"basis must be None, or an array of shape \(d, d\)"),
        (
            RandomProjection(2, basis=np.eye(5) + 0.1 * np.eye(5, k=2)),
            r"orthonormal columns.* by 1e-05, got 0.1 at columns 0 and 2",
        ),
        (
            RandomProjection(2, basis=2 * np.eye(5)),
            r"orthonormal columns.* got 3 at columns 0 and 0",
        ),
        (
            RandomProjection(2, basis=np.full((5, 5), np.nan)),
            r"orthonormal columns.* got nan at columns 0 and 0",
        ),
        (
            SPELT(n_measurements=6),
            r"CompressiveFourier: n_measurements must be at most the number of columns, "
            r"n_features=5, got 6",
        ),
        (
            SPELT(n_measurements=2, basis=np.ones((5, 5))),
            r"CompressiveFourier: basis must have orthonormal columns",
        ),
        (SPELT(n_measurements=2, method=None), r"CompressiveFourier: method must be one of"),
        (SPELT(n_measurements=2, form="pair"), r"form must be 'paired' or 'offset'"),
        (
            CompressiveFourier(16, n_measurements=2, gamma=-1.0),
            r"CompressiveFourier: gamma must be a finite number above 0",
        ),
    ],
)
def test_parameters_out_of_range_are_refused(case, words):
    with pytest.raises(ValueError, match=words):
        case.fit(data(case))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_rows_that_overflow_are_named(method, form):
    rows = np.ones((2000, 8), np.float32)
    rows[1500] = 3e38
    rows[1500, 6] = -3.2e38
    fitted = RandomProjection(4, method=method, random_state=0).fit(form(rows[:3]))
    with pytest.raises(
        ValueError,
        match=r"RandomProjection: Values too large .* got -3\.2e\+38 at row 1500, column 6\. Scale",
    ):
        fitted.transform(form(rows))
    rows[1500] = 1e9
    assert np.isfinite(fitted.transform(form(rows))).all()


def test_sparse_rows_are_made_dense_a_tile_at_a_time_at_most():
    """4000 x 50,000 would be 1.6 GB; a tile of the Hadamard projection is a few hundred rows."""
    import tracemalloc

    S = sp.random_array((4000, 50_000), density=1e-4, format="csr", rng=np.random.default_rng(0))
    for method in ("gaussian", "hadamard"):
        fitted = RandomProjection(16, method=method, random_state=0, n_jobs=1).fit(S)
        tracemalloc.start()
        Z = fitted.transform(S)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 100e6, (method, peak)
        close(Z[:20], fitted.transform(S[:20].toarray()))


@pytest.mark.slow
@pytest.mark.parametrize(("m", "published"), [(100, 95.51), (300, 96.27)])
def test_accuracy_on_mnist_is_the_published_one(m, published):
    """Figure 2b of the paper: sigma = 10, C = 1, 2000 features, all 60,000 training rows, one draw
    where the paper has 20.
    """
    from sklearn.svm import LinearSVC

    mnist = load("mnist")
    X, y, n = (mnist["X"] / 255).astype(np.float32), mnist["y"], int(mnist["n_train"])
    phi = CompressiveFourier(
        2000, n_measurements=m, gamma=1 / 200, form="offset", design="iid", random_state=0
    )
    model = LinearSVC(C=1.0, dual=True, tol=1e-2, random_state=0).fit(
        phi.fit_transform(X[:n]), y[:n]
    )
    assert 100 * model.score(phi.transform(X[n:]), y[n:]) == pytest.approx(published, abs=0.6)
