"""One-dimensional Nystroem: the published errors, the chi2 series as a special case, any additive
kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp

import mercer
from mercer import AdditiveNystroem, Chi2Series, Homogeneous
from mercer.kernels import Additive, Chi2, Intersection, JensenShannon, Signed
from mercer.kernels import Homogeneous as HomogeneousKernel
from mercer.maps._landmarks import pivoted_cholesky, propose_largest
from mercer.maps.additive_nystroem import LandmarkLift, TabulatedLift, _principal
from mercer.stats.histogram import Histogram

rng = np.random.default_rng(0)
X = rng.gamma(0.7, size=(60, 8)) * (rng.random((60, 8)) < 0.8)
GRID = np.append(0.0, np.geomspace(1e-8, 1, 4001))[:, None]
FINE = np.geomspace(1e-8, 1, 20001)


@dataclass(frozen=True)
class Warped(Additive):
    """k(x, z) = sum exp(-|x - z|): an additive kernel that is not 0 at 0."""

    ignores_zeros = False

    def term(self, x, z):
        return np.exp(-np.abs(x - z))


def greedy_pivots(kernel, x, weights, n) -> np.ndarray:
    def values(rows, columns):
        return kernel.term(x[rows][:, None], x[columns])

    pivots, _ = pivoted_cholesky(values, kernel.term(x, x), n, propose_largest(weights))
    return x[pivots]


def inner_products(fitted, X) -> np.ndarray:
    Z = fitted.transform(X)
    return np.asarray((Z @ Z.T).todense() if sp.issparse(Z) else Z @ Z.T)


def relative_error(fitted, X) -> float:
    K = fitted.kernel_(X)
    return float(np.linalg.norm(inner_products(fitted, X) - K) / np.linalg.norm(K))


def sup_error(fitted, x=GRID) -> float:
    """The error is a kernel, so it is largest on the diagonal."""
    Z = fitted.transform(x)
    width = Z.shape[1] // x.shape[1]
    return float(np.abs(np.sum(Z[:, :width] ** 2, axis=1) - fitted.kernel_.diagonal(x)).max())


@pytest.mark.parametrize("n", [1, 3, 5, 7])
@pytest.mark.parametrize("landmarks", ["greedy", "given"])
def test_the_chi2_series_is_the_special_case_of_chi2(n, landmarks):
    given = "greedy" if landmarks == "greedy" else np.geomspace(0.01, 3, n)
    ours = AdditiveNystroem(n, kernel="chi2", landmarks=given).fit(X)
    series = Chi2Series(n, poles=ours.landmarks_).fit(X)
    np.testing.assert_allclose(
        inner_products(ours, X), inner_products(series, X), rtol=0, atol=1e-12
    )
    np.testing.assert_allclose(
        np.abs(ours.transform(X)), np.abs(series.transform(X)), rtol=0, atol=1e-12
    )


@pytest.mark.parametrize(("n", "error"), [(3, 1.5e-3), (5, 1.0e-4), (7, 1.5e-5), (10, 1.8e-6)])
def test_jensen_shannon_has_its_published_errors(n, error):
    """Pivoted Cholesky on a fine grid of [0, 1], logarithmic so that no place is favoured; a
    histogram of it is nearly as good.
    """
    pivots = greedy_pivots(JensenShannon(), FINE, np.ones_like(FINE), n)
    assert sup_error(AdditiveNystroem(n, landmarks=pivots).fit(GRID)) == pytest.approx(
        error, rel=0.03
    )
    assert sup_error(AdditiveNystroem(n).fit(FINE[:, None])) == pytest.approx(error, rel=0.08)


@pytest.mark.parametrize(("n", "gain"), [(3, 13), (5, 63), (7, 190)])
def test_jensen_shannon_gains_what_is_published_over_the_homogeneous_map(n, gain):
    theirs = Homogeneous(n // 2, kernel="jensen-shannon", window="uniform").fit(GRID[1:])
    K = JensenShannon()(GRID[::10])
    Z = theirs.transform(GRID[::10])
    assert np.abs(Z @ Z.T - K).max() / sup_error(AdditiveNystroem(n).fit(GRID)) > 0.95 * gain


@pytest.mark.parametrize("per_column", [False, True])
@pytest.mark.parametrize("landmarks", ["greedy", "rpcholesky"])
def test_the_trace_error_is_that_of_the_features(landmarks, per_column):
    """Up to the width of the bins of the histogram."""
    rows = np.random.default_rng(3).gamma(0.7, size=(3000, 3)) * [1, 10, 100]
    fitted = AdditiveNystroem(
        4, kernel="chi2", landmarks=landmarks, per_column=per_column, random_state=0
    ).fit(rows)
    squares = np.sum(fitted.transform(rows) ** 2)
    assert fitted.trace_error_ == pytest.approx(1 - squares / rows.sum(), rel=0.05)
    assert 0 < fitted.trace_error_ < 0.1


@pytest.mark.parametrize("n", [4, 10])
def test_intersection_with_even_landmarks_has_an_error_of_a_quarter_over_n(n):
    """Maji and Berg's piecewise linear map: 1/(4n), between two landmarks."""
    fitted = AdditiveNystroem(n, kernel="intersection", landmarks=np.arange(1, n + 1) / n).fit(GRID)
    x = np.linspace(0, 1, 2 * n + 1)[:, None]
    assert sup_error(fitted, x) == pytest.approx(1 / (4 * n), rel=1e-9)


def test_landmarks_go_where_the_data_are():
    """On histograms the error's own weight, that of the data, has less than half the error of
    pivots that see the range alone.
    """
    rows = np.random.default_rng(2).dirichlet(np.full(100, 2.0), size=120)
    values, weights = mercer.accumulate(rows[:60], Histogram()).centers()
    blind = greedy_pivots(Intersection(), values, np.ones_like(weights), 5)
    ours = AdditiveNystroem(5, kernel="intersection").fit(rows[:60])
    theirs = AdditiveNystroem(5, kernel="intersection", landmarks=blind).fit(rows[:60])
    assert relative_error(ours, rows[60:]) < 0.5 * relative_error(theirs, rows[60:])


def test_more_terms_keep_the_first_ones():
    few, many = (AdditiveNystroem(n).fit(X).transform(X).reshape(60, 8, n) for n in (3, 6))
    np.testing.assert_allclose(many[:, :, :3], few, atol=1e-13)


def test_kernel_pca_has_less_error_than_as_many_landmarks():
    for kernel in ("jensen-shannon", "chi2", "intersection"):
        greedy = AdditiveNystroem(2, kernel=kernel).fit(X)
        sample = AdditiveNystroem(2, kernel=kernel, landmarks="sample", random_state=0).fit(X)
        assert relative_error(sample, X) < 0.7 * relative_error(greedy, X)
        assert sample.landmarks_.shape[0] > 20


def test_kernel_pca_is_that_of_the_sample_with_every_value_as_often_as_it_was_drawn():
    """phi(x) = k(x, S) V E^(-1/2), V and E of the Gram matrix of S, copies and all."""
    values, counts = np.array([0.01, 0.2, 0.3, 1.1, 2.0]), np.array([4, 1, 3, 2, 5])
    sample = np.repeat(values, counts)[:, None]
    E, V = np.linalg.eigh(JensenShannon()(sample))
    expected = JensenShannon()(GRID, sample) @ (V[:, -2:] / np.sqrt(E[-2:]))
    found = JensenShannon()(GRID, values[:, None]) @ _principal(JensenShannon(), values, counts, 2)
    np.testing.assert_allclose(np.abs(found), np.abs(expected[:, ::-1]), atol=1e-12)


@pytest.mark.parametrize("landmarks", ["greedy", "rpcholesky", "sample"])
def test_columns_of_different_scale_gain_by_landmarks_of_their_own(landmarks):
    scaled = X * 10.0 ** np.arange(-4, 4)
    scaled[:, 3] = 0.0
    pooled, own = (
        AdditiveNystroem(3, landmarks=landmarks, per_column=per_column, random_state=0).fit(scaled)
        for per_column in (False, True)
    )
    assert own.landmarks_.shape[0] == 8
    column = [0]  # the smallest
    exact = JensenShannon()(scaled[:, column])

    def error(fitted) -> float:
        Z = fitted.transform(scaled)[:, :3]
        return float(np.abs(Z @ Z.T - exact).max() / exact.max())

    assert error(own) < 0.05 < error(pooled)
    for form in (sp.csr_array, sp.csr_matrix):
        np.testing.assert_allclose(
            own.transform(form(scaled)).toarray(), own.transform(scaled), atol=1e-12
        )


def test_a_column_that_was_empty_has_the_landmarks_of_all_others():
    rows = X.copy()
    rows[:, 2] = 0
    own, pooled = (AdditiveNystroem(3, per_column=flag).fit(rows) for flag in (True, False))
    np.testing.assert_allclose(
        own.landmarks_[2], pooled.landmarks_, rtol=2 ** (1 / 16) - 1
    )  # to the width of a bin
    assert np.abs(own.landmarks_[0] / pooled.landmarks_ - 1).max() > 0.05


def test_hellinger_is_exact_with_one_term_and_the_others_are_zero():
    fitted = AdditiveNystroem(3, kernel="hellinger").fit(X)
    Z = fitted.transform(X).reshape(60, 8, 3)
    np.testing.assert_allclose(Z[:, :, 0], np.sqrt(X), atol=1e-14)
    assert (Z[:, :, 1:] == 0).all()


def test_repeated_landmarks_are_used_once():
    twice = AdditiveNystroem(4, landmarks=[0.5, 0.5, 0.1, 0.5]).fit(X)
    once = AdditiveNystroem(2, landmarks=[0.5, 0.1]).fit(X)
    np.testing.assert_allclose(
        twice.transform(X).reshape(60, 8, 4)[:, :, :2], once.transform(X).reshape(60, 8, 2)
    )
    assert (twice.transform(X).reshape(60, 8, 4)[:, :, 2:] == 0).all()


@pytest.mark.parametrize("landmarks", ["greedy", "sample"])
@pytest.mark.parametrize("per_column", [False, True])
def test_a_kernel_that_is_not_zero_at_zero_has_dense_features(landmarks, per_column):
    fitted = AdditiveNystroem(
        30, kernel=Warped(), landmarks=landmarks, per_column=per_column, random_state=0
    ).fit(X)
    assert relative_error(fitted, X) < 0.02
    from_sparse = fitted.transform(sp.csr_array(X))
    assert isinstance(from_sparse, np.ndarray)
    np.testing.assert_allclose(from_sparse, fitted.transform(X), atol=1e-12)


def test_sparse_in_is_sparse_out():
    Z = AdditiveNystroem(3).fit(sp.csr_array(X)).transform(sp.csr_array(X))
    assert sp.issparse(Z) and Z.nnz == 3 * np.count_nonzero(X)


def test_kernel_objects_and_signs():
    half = HomogeneousKernel(Chi2(), 0.5)
    assert relative_error(AdditiveNystroem(8, kernel=half).fit(X), X) < 1e-3
    signs = np.where(np.random.default_rng(3).random(X.shape) < 0.5, -X, X)
    fitted = AdditiveNystroem(6, signed=True).fit(signs)
    assert fitted.kernel_ == Signed(JensenShannon())
    assert relative_error(fitted, signs) < 1e-3
    own = AdditiveNystroem(6, signed=True, per_column=True).fit(sp.csr_array(signs))
    assert relative_error(own, sp.csr_array(signs)) < 1e-3


def test_float32_has_the_digits_of_float32_with_many_terms():
    """M magnifies what is lost in float32 some thousand times; the lift computes in float64."""
    single = X.astype(np.float32)
    fitted = AdditiveNystroem(10).fit(single)
    np.testing.assert_allclose(
        fitted.transform(single),
        fitted.transform(single.astype(np.float64)),
        atol=4 * np.finfo(np.float32).eps,
    )


@pytest.mark.parametrize("per_column", [False, True])
def test_nothing_but_zeros_is_mapped_to_zeros(per_column):
    zeros = np.zeros((4, 3))
    for landmarks in ("greedy", "sample"):
        fitted = AdditiveNystroem(2, landmarks=landmarks, per_column=per_column).fit(zeros)
        assert (fitted.transform(zeros) == 0).all()
        assert np.isfinite(fitted.transform(zeros + 1.0)).all()


@pytest.mark.parametrize(
    ("params", "words"),
    [
        (
            {"kernel": "gaussian"},
            "kernel must be one of 'chi2', 'hellinger', 'intersection', 'jensen-shannon', "
            "'additive_chi2', "
            "or an additive kernel, got 'gaussian'",
        ),
        ({"kernel": mercer.kernels.Gaussian()}, "kernel must be one of"),
        (
            {"landmarks": "gredy"},
            "landmarks must be one of 'greedy', 'rpcholesky', 'sample', or an array of finite "
            "numbers above 0, got 'gredy'. Did you mean 'greedy'",
        ),
        (
            {"landmarks": [0.1, 0.2]},
            "landmarks must have one number for each of the 5 terms",
        ),
        ({"landmarks": [0.1, 0.2, -0.3], "n_terms": 3}, "or an array of finite numbers above 0"),
        (
            {"landmarks": [0.1], "n_terms": 1, "per_column": True},
            "with per_column=False, got .* with per_column=True",
        ),
        ({"n_terms": 0}, "n_terms must be an integer of at least 1"),
        ({"per_column": 1}, "per_column must be True or False"),
    ],
)
def test_parameters_that_do_not_go_together_are_refused(params, words):
    with pytest.raises(ValueError, match=words):
        AdditiveNystroem(**params).fit(X)


@pytest.mark.parametrize("kernel", ["chi2", "hellinger", "jensen-shannon"])
@pytest.mark.parametrize("settings", [{}, {"landmarks": "sample"}, {"signed": True}])
def test_float32_is_read_from_a_table_with_the_digits_of_float32(kernel, settings):
    fitted = AdditiveNystroem(5, kernel=kernel, random_state=0, **settings).fit(X)
    lift = fitted.tile_transform_.astype(np.float32).stages[0]
    assert isinstance(lift, TabulatedLift)
    rng = np.random.default_rng(5)
    numbers = np.exp2(rng.uniform(-30, 8, (100, X.shape[1]))).astype(np.float32)
    wanted = fitted.transform(numbers.astype(np.float64)).reshape(*numbers.shape, 5)
    found = fitted.transform(numbers).reshape(wanted.shape)
    errors = np.abs(found - wanted).max(axis=2) / np.abs(wanted).max(axis=2)
    assert errors.max() < 2 * np.finfo(np.float32).eps


def test_numbers_beyond_the_table_are_lifted_without_it():
    fitted = AdditiveNystroem(5).fit(X)
    lift = fitted.tile_transform_.astype(np.float32).stages[0]
    info = np.finfo(np.float32)
    below, above = 2.0**lift.first, 2.0 ** (lift.first + (len(lift.table) >> lift.per_octave))
    numbers = np.zeros((3, X.shape[1]), np.float32)
    numbers[0, :5] = np.nextafter(np.float32(below), np.float32(0)), above, 1e30, 1e-30, info.tiny
    numbers[2, 6:8] = info.smallest_subnormal, below
    wanted = fitted.transform(numbers.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(fitted.transform(numbers), wanted, rtol=1e-6)
    sparse = fitted.transform(sp.csr_array(numbers))
    np.testing.assert_allclose(sparse.toarray(), wanted, rtol=1e-6)


def test_a_kernel_with_a_cusp_has_no_table():
    fitted = AdditiveNystroem(5, kernel="intersection").fit(X)
    lift = fitted.tile_transform_.astype(np.float32).stages[0]
    assert isinstance(lift, LandmarkLift)
