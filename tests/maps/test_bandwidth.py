"""Bandwidths from the data: what they do not depend on, and how they scale."""

from __future__ import annotations

import inspect
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import pdist
from sklearn.datasets import load_digits

from mercer import (
    CompressiveFourier,
    ExpChi2,
    KernelClassifier,
    Nystroem,
    RandomFourier,
    RandomLaplace,
    SkewedFourier,
)
from mercer.kernels import Chi2
from mercer.maps import every_map
from mercer.maps._bandwidth import median_above_zero, median_skew, sample_rows

RNG = np.random.default_rng(0)
# Integers, so that sums with large offsets are exact.
X = RNG.integers(-40, 41, size=(120, 6)).astype(np.float64)
COUNTS = RNG.poisson(9 * RNG.gamma(0.5, size=(120, 6))).astype(np.float64)
OFFSETS = np.array([1e4, 2e4, 8e4, 3e4, 5e4, 6e4])
DIFFERENCES = [
    *(
        RandomFourier(8, kernel=kernel, random_state=0)
        for kernel in ("gaussian", "laplacian", "cauchy", "matern")
    ),
    CompressiveFourier(8, random_state=0),
    *(
        Nystroem(12, kernel=kernel, random_state=0)
        for kernel in ("gaussian", "laplacian", "cauchy", "matern")
    ),
]
HISTOGRAMS = [
    ExpChi2(8, random_state=0),
    Nystroem(12, kernel="exp-chi2", random_state=0),
    SkewedFourier(8, random_state=0),
    SkewedFourier(8, kernel="intersection", random_state=0),
    Nystroem(12, kernel="skewed-chi2", random_state=0),
    Nystroem(12, kernel="skewed-intersection", random_state=0),
    RandomLaplace(8, random_state=0),
    RandomLaplace(8, kernel="reciprocal", random_state=0),
    Nystroem(12, kernel="exponential-semigroup", random_state=0),
    Nystroem(12, kernel="reciprocal-semigroup", random_state=0),
]
COSINE = [
    RandomFourier(8, kernel="cosine-rbf", random_state=0),
    Nystroem(12, kernel="cosine-rbf", random_state=0),
]
BANDWIDTHS = ("gamma", "skew", "beta")


def bandwidth(feature_map, rows) -> float:
    fitted = feature_map.fit(rows)
    values = [getattr(fitted, f"{name}_", None) for name in BANDWIDTHS]
    values += (getattr(fitted, "kernel_params_", None) or {}).values()
    (value,) = (value for value in values if value is not None)
    return value


def kernel_matrix(feature_map, rows) -> np.ndarray:
    return feature_map.fit(rows).kernel_(rows)


def changed(rows: np.ndarray, change: str) -> np.ndarray:
    if change == "constant column":
        return np.column_stack([rows[:, :2], np.full(len(rows), 8e4), rows[:, 2:]])
    return rows[:, [3, 1, 5, 0, 4, 2]] if change == "permuted" else rows + OFFSETS


@pytest.mark.parametrize("change", ["offsets", "constant column", "permuted"])
@pytest.mark.parametrize("feature_map", DIFFERENCES, ids=str)
def test_kernels_of_differences_depend_on_differences_alone(feature_map, change):
    other = changed(X, change)
    assert bandwidth(feature_map, other) == pytest.approx(bandwidth(feature_map, X), rel=1e-12)
    np.testing.assert_allclose(
        kernel_matrix(feature_map, other), kernel_matrix(feature_map, X), rtol=1e-6
    )


@pytest.mark.parametrize("feature_map", DIFFERENCES, ids=str)
def test_ids_and_float32_do_not_change_a_bandwidth(feature_map):
    expected = bandwidth(feature_map, X)
    ids = X + np.array([0, 2.0**53 - 80, 0, 0, 1.7e18 / 2**10, 0])
    assert bandwidth(feature_map, ids) == pytest.approx(expected, rel=1e-12)
    single = (X + OFFSETS).astype(np.float32)
    assert bandwidth(feature_map, single) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("change", ["constant column", "permuted"])
@pytest.mark.parametrize("feature_map", HISTOGRAMS[:6], ids=str)
def test_kernels_of_histograms_depend_on_columns_that_vary(feature_map, change):
    other = changed(COUNTS, change)
    assert bandwidth(feature_map, other) == pytest.approx(bandwidth(feature_map, COUNTS), rel=1e-9)
    np.testing.assert_allclose(
        kernel_matrix(feature_map, other), kernel_matrix(feature_map, COUNTS), rtol=1e-9
    )


@pytest.mark.parametrize("feature_map", HISTOGRAMS[6:], ids=str)
def test_kernels_of_sums_do_not_depend_on_columns_of_zeros(feature_map):
    other = np.column_stack([np.zeros(len(COUNTS)), COUNTS[:, ::-1]])
    assert bandwidth(feature_map, other) == pytest.approx(bandwidth(feature_map, COUNTS))


@pytest.mark.parametrize("feature_map", [*DIFFERENCES, *HISTOGRAMS[:2]], ids=str)
def test_gamma_halves_where_every_column_comes_twice(feature_map):
    rows = COUNTS if feature_map in HISTOGRAMS else X
    twice = np.repeat(rows, 2, axis=1)
    assert bandwidth(feature_map, twice) == pytest.approx(bandwidth(feature_map, rows) / 2)
    np.testing.assert_allclose(
        kernel_matrix(feature_map, twice), kernel_matrix(feature_map, rows), rtol=1e-9
    )


@pytest.mark.parametrize("feature_map", [*DIFFERENCES, *HISTOGRAMS, *COSINE], ids=str)
def test_one_cell_far_away_hardly_changes_a_bandwidth(feature_map):
    rows = np.tile(COUNTS, (4, 1)) + np.arange(480)[:, None] % 7
    expected = bandwidth(feature_map, rows)
    rows[17, 2] = 1e9
    assert bandwidth(feature_map, rows) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("feature_map", [*DIFFERENCES, *HISTOGRAMS, *COSINE], ids=str)
def test_sparse_rows_have_the_bandwidth_of_dense_ones(feature_map):
    rows = np.where(COUNTS > 3, COUNTS, 0)
    assert bandwidth(feature_map, sp.csr_array(rows)) == pytest.approx(
        bandwidth(feature_map, rows), rel=1e-9
    )


@pytest.mark.parametrize("feature_map", [*DIFFERENCES, *HISTOGRAMS, *COSINE], ids=str)
def test_the_scale_of_the_rows_does_not_change_the_kernel(feature_map):
    np.testing.assert_allclose(
        kernel_matrix(feature_map, COUNTS * 1000), kernel_matrix(feature_map, COUNTS), rtol=1e-8
    )


def test_equal_rows_leave_the_median_of_those_that_differ():
    rows = np.repeat(X[:3], [90, 3, 2], axis=0)
    distances = pdist(rows, "sqeuclidean")
    assert np.median(distances) == 0
    assert RandomFourier(8).fit(rows).gamma_ == 0.5 / np.median(distances[distances > 0])
    counts = np.repeat(COUNTS[:3], [90, 3, 2], axis=0)
    chi2 = Chi2().squared_distance(counts)[np.triu_indices(95, 1)]
    assert ExpChi2(8).fit(counts).gamma_ == pytest.approx(0.5 / np.median(chi2[chi2 > 0]))
    few = np.where(np.arange(95)[:, None] < 90, 0.0, counts)
    assert RandomLaplace(8, kernel="reciprocal").fit(few).beta_ == np.median(
        2 * few.sum(axis=1)[90:]
    )


@pytest.mark.parametrize("feature_map", [*DIFFERENCES, *HISTOGRAMS, *COSINE], ids=str)
def test_rows_that_are_all_zero_have_the_bandwidth_one(feature_map):
    assert bandwidth(feature_map, np.zeros((30, 3))) == 1.0


def test_the_median_above_zero():
    assert median_above_zero(np.array([1.0, 2.0, 9.0])) == 2.0
    assert median_above_zero(np.array([0.0, 0.0, 0.0, 2.0, 4.0])) == 3.0
    assert median_above_zero(np.zeros(4)) == median_above_zero(np.empty(0)) == 0.0


@pytest.mark.parametrize("kernel", ["chi2", "intersection"])
def test_the_skewed_kernel_of_the_median_pair_is_one_over_e(kernel):
    for rows in (COUNTS, COUNTS / 300, np.repeat(COUNTS, 40, axis=1), COUNTS > 3):
        phi = SkewedFourier(8, kernel=kernel, random_state=0).fit(rows)
        k = phi.kernel_(rows.astype(np.float64))
        assert np.median(k[np.triu_indices(120, 1)]) == pytest.approx(np.exp(-1), rel=0.05)


def test_the_skew_of_rows_that_differ_by_little_is_their_smallest_number():
    rows = 100 + RNG.random((40, 2))
    assert SkewedFourier(8).fit(rows).skew_ == rows.min()


def test_the_skew_of_many_equal_rows_is_that_of_the_others():
    rows = np.repeat(COUNTS[:30], [200, *([1] * 29)], axis=0)
    phi = SkewedFourier(8, random_state=0).fit(rows)
    pairs = pdist(rows, "cityblock") > 0
    k = phi.kernel_(rows)[np.triu_indices(len(rows), 1)][pairs]
    assert np.median(k) == pytest.approx(np.exp(-1), rel=0.05)


def test_the_skew_of_wide_rows_comes_from_some_of_the_pairs(monkeypatch):
    rows = RNG.poisson(0.2, size=(300, 400)).astype(np.float64)
    shapes = []
    from mercer.kernels import SkewedChi2

    plain = SkewedChi2.factor
    monkeypatch.setattr(
        SkewedChi2, "factor", lambda self, x, z: shapes.append(x.shape) or plain(self, x, z)
    )
    skew = median_skew(SkewedChi2, rows)
    assert all(n * d <= 2**20 for n, d in shapes)
    assert len(shapes) < 30
    k = SkewedChi2(skew)(rows)[np.triu_indices(300, 1)]
    assert np.median(k) == pytest.approx(np.exp(-1), rel=0.05)


def test_a_sample_has_fewer_rows_of_wide_data():
    assert [sample_rows(d, 0).size for d in (1, 512, 2048, 10**6)] == [512, 512, 256, 64]


def test_exp_chi2_of_given_poles_needs_the_sample_alone():
    phi = ExpChi2(8, n_terms=2, poles=[3.0, 0.3], random_state=0).fit(COUNTS)
    chi2 = Chi2().squared_distance(COUNTS)[np.triu_indices(120, 1)]
    assert phi.gamma_ == pytest.approx(0.5 / np.median(chi2))
    assert ExpChi2(8, gamma=0.5, n_terms=2, poles=[3.0, 0.3]).fit(COUNTS).gamma_ == 0.5


def test_nystroem_estimates_what_the_maps_of_the_same_kernel_do():
    for kernel, feature_map in (
        ("skewed-chi2", SkewedFourier(8, random_state=0)),
        ("skewed-intersection", SkewedFourier(8, kernel="intersection", random_state=0)),
        ("exponential-semigroup", RandomLaplace(8, random_state=0)),
        ("reciprocal-semigroup", RandomLaplace(8, kernel="reciprocal", random_state=0)),
    ):
        phi = Nystroem(12, kernel=kernel, random_state=0).fit(COUNTS)
        assert phi.kernel_ == feature_map.fit(COUNTS).kernel_
        (name,) = phi.kernel_params_
        given = Nystroem(12, kernel=kernel, kernel_params={name: 0.5}).fit(COUNTS)
        assert given.kernel_params_ == {name: 0.5}
        assert getattr(given.kernel_, name) == 0.5
    with pytest.raises(ValueError, match=r"needs X >= 0, got -0\.5"):
        Nystroem(12, kernel="skewed-chi2").fit(COUNTS - 0.5)
    signed = Nystroem(12, kernel="skewed-chi2", kernel_params={"skew": 1.0}).fit(COUNTS - 0.5)
    assert np.isfinite(signed.transform(COUNTS - 0.5)).all()


@pytest.mark.parametrize("feature_map", [*DIFFERENCES[:5], *HISTOGRAMS[2:4]], ids=str)
def test_a_fitted_map_holds_no_rows(feature_map):
    X = np.arange(40_000.0).reshape(100, 400)
    fitted = feature_map.with_size(4096).fit(X)
    assert pickle.dumps(fitted).find(X[70].tobytes()) == -1
    assert pickle.dumps(Nystroem(100, gamma=1.0).fit(X)).find(X[70].tobytes()) > 0


def test_every_bandwidth_is_estimated_by_default():
    for cls in every_map():
        for name, parameter in inspect.signature(cls).parameters.items():
            assert name not in BANDWIDTHS or parameter.default == "auto", (cls.__name__, name)


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e4])
def test_exp_chi2_and_skewed_features_classify_counts_by_default(scale):
    digits, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))[:900]
    rows, y = digits[order] * scale, y[order]
    for cls in (ExpChi2, SkewedFourier):
        model = KernelClassifier(cls(256, random_state=0), alpha="kfold", random_state=0, verbose=0)
        assert model.fit(rows[:600], y[:600]).score(rows[600:], y[600:]) > 0.9
