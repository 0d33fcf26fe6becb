"""Ridge from the Gram matrix of the rows: the model of the normal equations."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Ridge
from tests.helpers.plans import plan_fit

from mercer import (
    GCWS,
    Anchors,
    Identity,
    KernelClassifier,
    KernelRegressor,
    RandomFourier,
    load,
    save,
)
from mercer.linear_model.normal_equations import NormalEquations
from mercer.linear_model.routes import ROUTES, measure_row
from mercer.linear_model.solvers.ridge import RidgeDecomposition, leave_one_out
from mercer.linear_model.solvers.ridge_gram import GramDecomposition, GramSystem
from mercer.maps.block import Sparse, as_block
from mercer.stats.moments import Moments

RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 6))
Y = np.stack([X[:, 0] + np.sin(3 * X[:, 1]), X[:, 2] ** 2], axis=1)
Y += 0.1 * RNG.normal(size=Y.shape)
LABELS = (Y[:, 0] > 0) + (Y[:, 0] > 1).astype(int)
WEIGHTS = RNG.integers(0, 4, 150).astype(np.float64)
FOURIER = RandomFourier(400, random_state=0)


@pytest.fixture
def prefer_gram(monkeypatch):
    """Take the Gram matrix wherever it applies."""
    prefer(monkeypatch)


def prefer(monkeypatch) -> None:
    estimate = type(ROUTES["gram"]).estimate

    def without_work(route, problem):
        cost = estimate(route, problem)
        return None if cost is None else cost._replace(work=-1.0)

    monkeypatch.setattr(type(ROUTES["gram"]), "estimate", without_work)


def both(monkeypatch, make, *rows, **more):
    """Return the model of each route."""
    gram = make().fit(*rows, **more)
    monkeypatch.setattr(type(ROUTES["gram"]), "estimate", lambda *_: None)
    moments = make().fit(*rows, **more)
    assert (gram.plan_.route, moments.plan_.route) == ("gram", "moments")
    return gram, moments


def same(one, other, tol=1e-8):
    assert one.alpha_ == pytest.approx(other.alpha_, rel=1e-12)
    for a, b in (
        (one.feature_coef_, other.feature_coef_),
        (one.intercept_, other.intercept_),
    ):
        np.testing.assert_allclose(a, b, rtol=0, atol=tol * np.abs(other.feature_coef_).max())


@pytest.mark.parametrize("alpha", ["auto", "loo", "gcv", 0.3, [0.1, 1.0, 10.0]])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weight", [None, WEIGHTS], ids=["no weights", "weights"])
@pytest.mark.usefixtures("prefer_gram")
def test_the_model_is_that_of_normal_equations(monkeypatch, alpha, fit_intercept, weight):
    def make():
        return KernelRegressor(FOURIER, alpha=alpha, fit_intercept=fit_intercept)

    gram, moments = both(monkeypatch, make, X, Y, sample_weight=weight)
    same(gram, moments)
    if not isinstance(alpha, float):
        assert gram.validation_score_ == pytest.approx(moments.validation_score_)


@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 2.0, 1: 1.0, 2: 3.0}], ids=str)
@pytest.mark.parametrize("alpha", ["loo", "gcv"])
@pytest.mark.usefixtures("prefer_gram")
def test_the_classifier_is_that_of_normal_equations(monkeypatch, class_weight, alpha):
    def make():
        return KernelClassifier(FOURIER, alpha=alpha, class_weight=class_weight)

    gram, moments = both(monkeypatch, make, X, LABELS, sample_weight=WEIGHTS)
    same(gram, moments)
    assert gram.validation_score_ == pytest.approx(moments.validation_score_)
    monkeypatch.undo()
    prefer(monkeypatch)
    if class_weight != {0: 2.0, 1: 1.0, 2: 3.0}:
        same(*both(monkeypatch, make, X, LABELS > 0, sample_weight=WEIGHTS))


@pytest.mark.parametrize("feature_map", [GCWS(4, random_state=0), Anchors(40)], ids=str)
@pytest.mark.usefixtures("prefer_gram")
def test_codes_are_not_expanded(monkeypatch, feature_map):
    def make():
        return KernelRegressor(feature_map, alpha=0.5)

    rows = np.abs(RNG.normal(size=(25, 120)))
    rows[3] = 0  # without codes
    same(*both(monkeypatch, make, rows, Y[:25]))


@pytest.mark.usefixtures("prefer_gram")
def test_sparse_rows_and_rows_with_a_large_mean_keep_their_digits(monkeypatch):
    wide = RNG.normal(size=(60, 500))
    plain, moved = (
        KernelRegressor("linear", scale=False).fit(rows, Y[:60]) for rows in (wide, wide + 1e5)
    )
    assert plain.plan_.route == moved.plan_.route == "gram"
    np.testing.assert_allclose(moved.feature_coef_, plain.feature_coef_, rtol=1e-4, atol=1e-8)
    sparse = sp.random_array((60, 500), density=0.1, format="csr", rng=RNG)
    same(*both(monkeypatch, lambda: KernelRegressor("linear", scale=False), sparse, Y[:60]))


@pytest.mark.usefixtures("prefer_gram")
def test_rows_twice_are_rows_of_weight_2_and_an_alpha_of_0_is_the_shortest_solution():
    feature_map = RandomFourier(1000, gamma=0.1, random_state=0)

    def model():
        return KernelRegressor(feature_map, alpha=0.3, scale=False)

    twice = model().fit(np.repeat(X, 2, axis=0), np.repeat(Y, 2, axis=0))
    weighted = model().fit(X, Y, sample_weight=np.full(150, 2.0))
    assert twice.plan_.route == weighted.plan_.route == "gram"
    same(twice, weighted)
    Z = RandomFourier(1200, random_state=0).fit_transform(X[:40])
    zero = KernelRegressor("linear", alpha=0.0, scale=False).fit(Z, Y[:40])
    assert zero.plan_.route == "gram"
    expected = np.linalg.lstsq(Z - Z.mean(axis=0), Y[:40] - Y[:40].mean(axis=0))[0]
    np.testing.assert_allclose(zero.feature_coef_, expected.T, atol=1e-7)


def test_leave_one_out_errors_are_those_of_models_without_the_row():
    Z = RNG.normal(size=(30, 50))
    rows = [(as_block(Z), Y[:30], WEIGHTS[:30] + 1)]
    found = leave_one_out(GramDecomposition.of_rows(rows), None, [2.0]).errors
    errors = np.zeros(2)
    for i in range(30):
        w = WEIGHTS[:30] + 1
        kept = np.arange(30) != i
        model = Ridge(2.0).fit(Z[kept], Y[:30][kept], sample_weight=w[kept])
        errors += w[i] * (Y[i] - model.predict(Z[i : i + 1])[0]) ** 2
    np.testing.assert_allclose(found[0], errors, rtol=1e-8)


def test_eigenvalues_and_projections_are_those_of_the_scatter():
    Z = RNG.normal(size=(30, 50)) + 3
    moments = Moments()
    moments.add(as_block(Z), Y[:30])
    of_scatter = RidgeDecomposition.of(NormalEquations.of(moments))
    for block in (as_block(Z), Sparse(sp.csr_array(Z))):
        gram = GramDecomposition.of_rows([(block, Y[:30], None)])
        np.testing.assert_allclose(gram.values, of_scatter.values, rtol=1e-9)
        np.testing.assert_allclose(gram.projected**2, of_scatter.projected**2, atol=1e-7)
        assert gram.scale == pytest.approx(of_scatter.scale)
        assert gram.normal.variance == pytest.approx(of_scatter.normal.variance)


@pytest.mark.parametrize("weights", [None, WEIGHTS[:30] + 1])
def test_a_given_alpha_has_the_solution_of_the_decomposition(weights):
    Z = RNG.normal(size=(30, 50)) + 3
    for block in (as_block(Z), Sparse(sp.csr_array(Z))):
        rows = [(block, Y[:30], weights)]
        for alpha in (1e-3, 2.0, 1e6):
            coef = GramSystem.of_rows(rows).solve(alpha)
            expected = GramDecomposition.of_rows(rows).coef(alpha)
            np.testing.assert_allclose(coef, expected, rtol=1e-8, atol=1e-10)
    twice = [(as_block(np.repeat(Z[:15], 2, axis=0)), Y[:30], weights)]
    system = GramSystem.of_rows(twice)
    assert system.solve(1e-13) is None  # singular to rounding, and still to be decomposed
    expected = GramDecomposition.of_rows(twice).coef(1e-13)
    np.testing.assert_array_equal(GramDecomposition.of(system).coef(1e-13), expected)


@pytest.mark.parametrize("rows", [1, 2])
def test_one_row_and_rows_of_constant_features_give_the_mean_of_the_targets(rows):
    model = KernelRegressor(FOURIER, alpha=1.0).fit(np.repeat(X[:1], rows, axis=0), Y[:rows])
    np.testing.assert_allclose(model.predict(X[:1])[0], Y[:rows].mean(axis=0))
    assert not np.abs(model.feature_coef_).max() > 1e-12


def test_weights_of_0_and_numbers_too_large_are_refused():
    with pytest.raises(ValueError, match="needs rows with a weight above 0"):
        GramDecomposition.of_rows([(as_block(X), Y, np.zeros(150))])
    with pytest.raises(ValueError, match="leave the range of float64"):
        GramDecomposition.of_rows([(as_block(X * 1e200), Y, None)])


@pytest.mark.usefixtures("prefer_gram")
def test_a_model_file_and_a_partial_fit(tmp_path):
    model = KernelRegressor(FOURIER).fit(X, Y)
    save(model, tmp_path / "model.mercer")
    np.testing.assert_array_equal(load(tmp_path / "model.mercer").predict(X), model.predict(X))
    with pytest.raises(ValueError, match="from their Gram matrix"):
        model.partial_fit(X, Y)


def test_the_route_follows_rows_features_and_memory():
    sizes = {"limit": 10**10, "alpha_method": "loo"}
    expected = {
        (300, 1024): "gram",
        (300, 200): "moments",  # a tenth of a second
        (1800, 16_384): "gram",
        (2000, 1024): "moments",
        (5000, 2000): "moments",
    }
    for (rows, features), route in expected.items():
        assert plan_fit(rows, 20, features, **sizes).route == route
    assert plan_fit(1800, 20, 16_384, **(sizes | {"limit": 10**8})).route == "passes"
    codes = {"stored": 64, "row_bytes": 64, "limit": 10**8 * 2}
    assert plan_fit(1800, 20, 16_384, **(sizes | codes)).route == "gram"
    # where no closed form takes seconds, conjugate gradients take less
    assert plan_fit(15_000, 16, 65_536, stored=256, row_bytes=256, limit=10**12).route == "passes"


def test_a_row_of_codes_is_measured_as_codes():
    codes = GCWS(16, random_state=0).fit(np.abs(X))
    assert measure_row(codes) == {"stored": 16, "row_bytes": 16}
    assert measure_row(FOURIER.fit(X)) == {"stored": 400, "row_bytes": 3200}


def test_a_plan_of_many_multiply_adds_states_its_seconds():
    long = plan_fit(10**7, 20, 8192, limit=10**12, partial=True)
    assert long.solver_seconds > 10
    assert str(long).endswith(f" About {long.solver_seconds:.0f} s.")
    short = plan_fit(1000, 20, 512, limit=10**12)
    assert short.solver_seconds == 0
    assert "About" not in str(short)


@pytest.mark.parametrize("value", [0.1, 0.3, 0.7])
def test_equal_rows_have_no_coefficients_where_their_mean_is_rounded(prefer_gram, value):
    """Whatever the order of the sum: about a rounded mean, rows are not 0."""
    for rows in range(2, 40):
        model = KernelRegressor(Identity(), alpha=0.0).fit(
            np.full((rows, 50), value), np.arange(float(rows))
        )
        assert model.plan_.route == "gram"
        assert not np.abs(model.feature_coef_).max() > 1e-12
        assert model.predict(np.zeros((1, 50)))[0] == pytest.approx((rows - 1) / 2)
