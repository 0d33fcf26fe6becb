"""Columns as they are, and divided by their spread: what the battery does not know of them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import (
    GCWS,
    Chi2Series,
    CompressiveFourier,
    ExpChi2,
    FeaturePCA,
    Identity,
    KernelRegressor,
    Nystroem,
    RandomFourier,
    RandomProjection,
    Scaled,
    load,
    open_stream,
    save,
)
from mercer.kernels import Chi2, Gaussian, Laplacian
from mercer.maps.compose import is_scaled, scale_columns
from mercer.maps.scaled import column_spread


def table() -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.gamma(1.0, size=(200, 3)) * [1.0, 1000.0, 1e-6]


def spread(values: np.ndarray) -> tuple[float, float]:
    """The formula of the docstring, for one column."""
    center = np.sort(values)[(len(values) - 1) // 2]
    deviations = np.sort(np.abs(values - center)[values != center])
    if not len(deviations):
        return center, 1.0
    share = len(deviations) / len(values)
    limit = deviations[int(np.floor(0.95 * (len(deviations) - 1) + 0.5))]
    mean = np.mean(np.minimum(deviations, limit) ** 2)
    return center, float(np.sqrt(max(share, 0.5) * mean))


def test_columns_are_centered_and_divided_by_their_spread():
    rng = np.random.default_rng(2)
    rare = np.where(rng.random(200) < 0.1, rng.normal(50, 5, 200), 0.0)
    X = np.column_stack([table(), np.full(200, 7.0), rare, rng.integers(0, 2, 200)])
    fitted = Scaled().fit(X)
    centers, scales = np.transpose([spread(column) for column in X.T])
    np.testing.assert_allclose(fitted.scale_, scales, rtol=1e-12)
    np.testing.assert_array_equal(fitted.center_, centers)
    np.testing.assert_allclose(fitted.transform(X), (X - centers) / scales, rtol=1e-12)
    assert fitted.scale_[3] == 1.0 and 30 < fitted.scale_[4] < 40
    assert fitted.scale_[5] == pytest.approx(np.sqrt(0.5))


def test_a_normal_column_has_about_its_standard_deviation():
    X = np.random.default_rng(0).normal(5.0, 3.0, size=(5000, 1))
    assert Scaled().fit(X).scale_[0] == pytest.approx(3.0, rel=0.12)


@pytest.mark.parametrize("rows", [30, 5000])
def test_one_cell_does_not_change_the_spread_of_its_column(rows):
    X = np.random.default_rng(0).normal(size=(rows, 3))
    before = Scaled().fit(X)
    X[7, 1] = 1e9
    after = Scaled().fit(X)
    np.testing.assert_allclose(after.scale_, before.scale_, rtol=0.2)
    np.testing.assert_allclose(after.center_, before.center_, atol=0.2)


def test_a_column_that_is_constant_in_the_sample_has_the_size_of_its_range():
    X = np.random.default_rng(0).normal(size=(40_000, 2))
    X[:, 1] = 3.0
    X[20_000, 1] = 5.0
    fitted = Scaled().fit(X)
    assert fitted.scale_[1] == pytest.approx(2.0 * np.sqrt(0.5))
    assert fitted.center_[1] == 3.0


def test_the_spread_of_many_columns_is_that_of_each():
    X = np.random.default_rng(0).normal(size=(20, 9000)) * np.arange(9000)
    centers, scales = column_spread(X, np.ones(20))
    for i in (0, 4095, 4096, 8999):
        center, scale = column_spread(X[:, [i]], np.ones(20))
        assert (centers[i], scales[i]) == (center[0], scale[0])


def test_sparse_rows_stay_sparse_and_no_zero_becomes_another_number():
    X = sp.csr_array(table() * (np.random.default_rng(1).random((200, 3)) < 0.3))
    for feature_map in (Scaled(), Identity()):
        Z = feature_map.fit_transform(X)
        assert sp.issparse(Z)
        np.testing.assert_array_equal(Z.indices, X.indices)
        np.testing.assert_allclose(Z.toarray(), feature_map.fit_transform(X.toarray()), rtol=1e-13)
        Z.data[:] = -1.0
        assert X.min() >= 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_full_column_of_sparse_rows_is_centered_and_the_others_are_not_stored(dtype):
    rng = np.random.default_rng(1)
    X = np.where(rng.random((200, 50)) < 0.05, rng.random((200, 50)), 0.0).astype(dtype)
    X[:, 7] = rng.normal(1000.0, 1.0, size=200)
    for form in (sp.csr_array, sp.csr_matrix):
        Z = Scaled().fit_transform(form(X))
        assert type(Z) is form and Z.dtype == dtype and Z.has_canonical_format
        assert Z.nnz <= form(X).nnz
        np.testing.assert_allclose(Z.toarray(), Scaled().fit_transform(X), rtol=1e-6)


def test_a_kernel_of_differences_has_a_bandwidth_for_each_column():
    X = table()
    both = (Scaled() >> RandomFourier(4096, gamma=0.3, random_state=0)).fit(X)
    U = X / both.maps_[0].scale_
    exact = np.exp(-0.3 * ((U[:, None] - U[None]) ** 2).sum(axis=2))
    np.testing.assert_allclose(both.kernel_(X), exact, rtol=1e-10)
    assert np.abs(both.transform(X) @ both.transform(X).T - exact).max() < 0.1


def test_kernels_of_all_kinds_are_stated_over_scaled_columns():
    X = table()
    for last, kernel in (
        (RandomFourier(64, kernel="laplacian", gamma=0.5, random_state=0), Laplacian(0.5)),
        (RandomFourier(64, gamma=0.5, random_state=0), Gaussian(0.5)),
        (Chi2Series(), Chi2()),
    ):
        both = (Scaled() >> last).fit(X)
        scaled = both.maps_[0]
        expected = kernel(scaled.transform(X))
        np.testing.assert_allclose(both.kernel_(X), expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(both.kernel_.pairs(X, X), np.diag(expected), rtol=1e-9)
        assert repr(both.kernel_) == f"{kernel!r}.over(Scaled(d=3))"
    with pytest.raises(TypeError, match="a parameter for each column"):
        both.kernel_.over(Gaussian())


def test_the_linear_kernel_of_centered_columns_is_that_of_the_features():
    X = table()
    fitted = Scaled().fit(X)
    Z = fitted.transform(X)
    np.testing.assert_allclose(fitted.kernel_(X), Z @ Z.T, rtol=1e-10, atol=1e-12)


def test_maps_of_numbers_of_at_least_0_take_columns_that_are_not_centered():
    X = table()
    for last in (Chi2Series(), GCWS(64, random_state=0) + Chi2Series()):
        both = (Scaled() >> last).fit(X)
        assert both.maps_[0].center_ is None and both.maps[0].center == "auto"
        np.testing.assert_array_equal(both.maps_[0].transform(X), X / both.maps_[0].scale_)
    assert (Scaled() >> GCWS(64, random_state=0)).fit(X).maps_[0].center_ is not None
    with pytest.raises(ValueError, match="needs X >= 0"):
        (Scaled(center=True) >> Chi2Series()).fit(X)


def test_ids_and_nanoseconds_are_features_like_any_other():
    """Numbers near 2^53 and 2^60 are centered before they are multiplied."""
    rng = np.random.default_rng(0)
    small = rng.normal(size=(400, 3)) * [1.0, 1e3, 1e9]
    large = np.round(small) + np.array([0.0, 2.0**52, 2.0**60])
    y = np.sin(np.round(small)[:, 1] / 1e3)
    R2 = KernelRegressor(random_state=0).fit(large[:300], y[:300]).score(large[300:], y[300:])
    assert R2 > 0.9


def test_columns_whose_squares_are_beyond_float64_are_refused_in_a_sentence():
    X = table()
    X[:, 1] *= 1e200
    with pytest.raises(
        ValueError,
        match=r"Scaled needs float64 rows with \|x\| below 2e\+99 to fit to, got .* column 1",
    ):
        Scaled().fit(X)


def test_a_model_on_scaled_columns_is_saved_and_loaded(tmp_path):
    X = table()
    model = KernelRegressor(RandomFourier(64, random_state=0)).fit(X, X[:, 0])
    assert is_scaled(model.feature_map_) and model.plan_.scaled
    save(model, tmp_path / "model.mercer")
    loaded = load(tmp_path / "model.mercer")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.scale == "auto" and loaded.plan_.scaled
    np.testing.assert_array_equal(loaded.feature_map_.kernel_(X), model.feature_map_.kernel_(X))


# What the estimators scale by themselves.

FROM_DATA = [
    RandomFourier(),
    RandomFourier(gamma="median"),
    RandomFourier(gamma="scale"),
    RandomFourier(kernel="laplacian"),
    RandomFourier(kernel="matern"),
    Nystroem(),
    Nystroem(kernel="cauchy"),
    CompressiveFourier(),
]
AS_GIVEN = [
    RandomFourier(gamma=0.5),
    RandomFourier(kernel="cosine-rbf"),
    Nystroem(kernel="chi2"),
    Nystroem(kernel="exp-chi2"),
    Nystroem(kernel=Gaussian(0.5)),
    Nystroem(landmarks=np.eye(3)),
    CompressiveFourier(basis=np.eye(3)),
    Chi2Series(),
    ExpChi2(),
    GCWS(),
    Identity(),
    RandomProjection(2),
    Scaled() >> RandomFourier(),
    FeaturePCA(2) >> RandomFourier(),
]


@pytest.mark.parametrize("feature_map", FROM_DATA, ids=repr)
def test_a_bandwidth_of_differences_is_computed_from_scaled_columns(feature_map):
    scaled = scale_columns(feature_map, "auto")
    assert repr(scaled) == repr(Scaled() >> feature_map)
    assert scale_columns(feature_map, False) is feature_map


@pytest.mark.parametrize("feature_map", AS_GIVEN, ids=lambda one: repr(one)[:40])
def test_other_maps_take_columns_as_they_are(feature_map):
    assert scale_columns(feature_map, "auto") is feature_map
    if not is_scaled(feature_map):
        assert is_scaled(scale_columns(feature_map, True))


def test_each_map_of_a_list_follows_its_own_rule():
    X = table()
    maps = [RandomFourier(16), RandomFourier(16, gamma=0.1), Chi2Series()]
    model = KernelRegressor(maps, random_state=0).fit(X, X[:, 0])
    assert [is_scaled(part) for part in model.feature_map_.maps_] == [True, False, False]
    grouped = KernelRegressor(maps[:2], penalty="group", alpha=1e9, random_state=0).fit(X, X[:, 0])
    assert grouped.zero_maps_ == ["randomfourier-1", "randomfourier-2"]


def test_the_plan_says_what_is_scaled():
    X = table()
    words = "Columns centered and divided by their spread; scale=False keeps them."
    for feature_map, scale, said, measured in (
        ("fourier", "auto", True, True),
        ("fourier", False, False, False),
        (RandomFourier(16, gamma=1.0), "auto", False, False),
        (RandomFourier(16, gamma=1.0), True, True, True),
        (Scaled() >> RandomFourier(16), "auto", False, True),
    ):
        plan = KernelRegressor(feature_map, scale=scale, alpha=1.0).fit(X, X[:, 0]).plan_
        assert (words in str(plan)) is said
        assert ("column scales" in plan.passes) is measured


@pytest.mark.parametrize("scale", ["always", None, 2, "false"])
def test_another_scale_is_refused(scale):
    with pytest.raises(ValueError, match=r"scale must be .*'auto'"):
        KernelRegressor(scale=scale).fit(table(), np.arange(200.0))


def test_units_and_origins_of_columns_change_no_prediction():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2]
    units, origin = 2.0 ** np.array([-10, 0, 5, 13]), np.array([0.0, 64.0, -1024.0, 2.0**15])
    for kernel in ("gaussian", "laplacian"):
        phi = RandomFourier(128, kernel=kernel, gamma="median", random_state=0)
        plain = KernelRegressor(phi).fit(X[:200], y[:200]).predict(X[200:])
        moved = X * units + origin
        other = KernelRegressor(phi).fit(moved[:200], y[:200]).predict(moved[200:])
        np.testing.assert_allclose(other, plain, rtol=0, atol=1e-6)


def test_neither_chunks_nor_the_kind_of_source_change_the_scales(tmp_path):
    X = np.random.default_rng(0).normal(size=(5000, 3)) * [1.0, 10.0, 1e4]
    np.save(tmp_path / "X.npy", X)
    expected = Scaled().fit(X)
    fitted = Scaled()._fit_stream(open_stream(tmp_path / "X.npy"))
    for one in (fitted, Scaled().fit(sp.csr_array(X))):
        np.testing.assert_array_equal(one.scale_, expected.scale_)
        np.testing.assert_array_equal(one.center_, expected.center_)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_a_row_of_weight_2_counts_as_two_rows(form):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4)) * (rng.random((60, 4)) < [1.0, 0.9, 0.5, 0.1])
    w, y = rng.integers(0, 4, 60), X.sum(axis=1)
    phi = RandomFourier(16, gamma=0.1, random_state=0)
    weighted = KernelRegressor(phi, scale=True, alpha=1.0).fit(form(X), y, sample_weight=w)
    repeated = KernelRegressor(phi, scale=True, alpha=1.0)
    repeated.fit(form(np.repeat(X, w, axis=0)), np.repeat(y, w))
    one, other = weighted.feature_map_.maps_[0], repeated.feature_map_.maps_[0]
    np.testing.assert_allclose(one.scale_, other.scale_, rtol=1e-12)
    np.testing.assert_array_equal(one.center_, other.center_)
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=0, atol=1e-9)
