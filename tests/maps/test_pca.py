"""FeaturePCA: scikit-learn's PCA of features that were never held."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import PCA

from mercer import Chi2Series, FeaturePCA, Hellinger, RandomFourier
from mercer.kernels import Chi2, Gaussian, Linear

X = (
    np.random.default_rng(0).normal(size=(300, 6)) @ np.random.default_rng(1).normal(size=(6, 6))
    + 3
)


def fourier(size: int = 40) -> RandomFourier:
    return RandomFourier(size, gamma=0.05, design="iid", random_state=0)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-8), (np.float32, 1e-5)])
@pytest.mark.parametrize("size", [None, 7, 0.9])
def test_it_is_the_pca_of_features_that_were_made(dtype, tolerance, size):
    rows = X.astype(dtype)
    both = (fourier() >> FeaturePCA(size)).fit(rows)
    features = both.maps_[0].transform(rows).astype(np.float64)
    theirs = PCA(size).fit(features)
    ours = both.maps_[1]
    assert ours.n_components_ == theirs.n_components_
    np.testing.assert_allclose(ours.mean_, theirs.mean_, rtol=0, atol=tolerance)
    np.testing.assert_allclose(
        ours.explained_variance_, theirs.explained_variance_, rtol=tolerance, atol=1e-12
    )
    np.testing.assert_allclose(
        ours.explained_variance_ratio_, theirs.explained_variance_ratio_, rtol=tolerance, atol=1e-12
    )
    mine, expected = both.transform(rows), theirs.transform(features)
    assert mine.dtype == dtype
    clear = theirs.explained_variance_ratio_ > 1e-3  # directions that are well apart
    signs = np.sign(np.sum(mine * expected, axis=0))
    scale = np.abs(expected).max()
    np.testing.assert_allclose(
        (mine * signs)[:, clear], expected[:, clear], rtol=0, atol=tolerance * scale
    )


def test_without_centring_it_is_the_singular_value_decomposition():
    fitted = FeaturePCA(3, center=False).fit(X)
    _, s, V = np.linalg.svd(X, full_matrices=False)
    np.testing.assert_allclose(np.abs(fitted.components_ @ V[:3].T), np.eye(3), atol=1e-10)
    np.testing.assert_allclose(fitted.explained_variance_, s[:3] ** 2 / 300, rtol=1e-12)
    np.testing.assert_allclose(
        fitted.explained_variance_ratio_, s[:3] ** 2 / np.sum(s**2), rtol=1e-12
    )
    np.testing.assert_array_equal(fitted.mean_, np.zeros(6))


def test_alone_its_kernel_is_centered():
    fitted = FeaturePCA().fit(X)
    np.testing.assert_allclose(
        fitted.kernel_(X, X[:9]), (X - X.mean(axis=0)) @ (X[:9] - X.mean(axis=0)).T, atol=1e-11
    )
    assert repr(fitted.kernel_) == "Centered(d=6)"
    np.testing.assert_allclose(fitted.kernel_.squared_distance(X), Linear().squared_distance(X))
    assert FeaturePCA(center=False).fit(X).kernel_ == Linear()


def test_after_a_map_it_has_the_maps_kernel_unless_it_centres():
    assert (fourier() >> FeaturePCA(5, center=False)).fit(X).kernel_ == Gaussian(0.05)
    assert (Chi2Series(3) >> FeaturePCA(2, center=False) >> fourier()).fit(
        np.abs(X)
    ).kernel_ == Gaussian(0.05).over(Chi2())
    centered = (fourier() >> FeaturePCA(5)).fit(X)
    with pytest.raises(
        AttributeError, match=r"no exact kernel: Centered\(d=40\) is centered .* With center=False"
    ):
        _ = centered.kernel_
    features = centered.maps_[0].transform(X)
    np.testing.assert_allclose(
        centered.limit_(X), (features - features.mean(0)) @ (features - features.mean(0)).T
    )


def test_signs_are_fixed_by_the_largest_loading():
    components = FeaturePCA().fit(X).components_
    assert (components[np.arange(6), np.abs(components).argmax(axis=1)] > 0).all()
    np.testing.assert_allclose(FeaturePCA().fit(-X).components_, components, atol=1e-12)


def test_features_are_seen_once_and_never_held():
    rows = np.random.default_rng(0).normal(size=(40_000, 4)).astype(np.float32)
    both = fourier(256) >> FeaturePCA(8)
    both.fit(rows[:100])
    tracemalloc.start()
    both.fit(rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40_000 * 256 * 4 / 4  # a quarter of the float32 features
    assert both.maps_[1].explained_variance_[0] > 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_large_mean_costs_no_digits(dtype):
    rows = (X + 1e4).astype(dtype)
    theirs = PCA(3, svd_solver="full").fit(rows.astype(np.float64))
    ours = FeaturePCA(3).fit(rows)
    np.testing.assert_allclose(ours.explained_variance_, theirs.explained_variance_, rtol=1e-9)
    np.testing.assert_allclose(
        np.abs(ours.components_ @ theirs.components_.T), np.eye(3), atol=1e-8
    )


def test_a_column_far_smaller_than_the_others_keeps_its_direction_in_float32():
    rng = np.random.default_rng(4)
    rows = (rng.normal(size=(500, 3)) * [1, 1, 1e-5]).astype(np.float32)
    fitted = FeaturePCA().fit(rows)
    assert fitted.explained_variance_[2] == pytest.approx(
        rows[:, 2].astype(np.float64).var(ddof=1), rel=1e-2
    )
    assert abs(fitted.components_[2, 2]) == pytest.approx(1, abs=1e-4)


def test_sparse_rows_are_never_made_dense():
    rows = sp.random_array((400, 300), density=0.02, format="csr", rng=np.random.default_rng(0))
    rows.data += 1
    fitted = FeaturePCA(10).fit(rows)
    theirs = PCA(10, svd_solver="full").fit(rows.toarray())
    np.testing.assert_allclose(fitted.explained_variance_, theirs.explained_variance_, rtol=1e-9)
    wide = sp.csr_array((rows.data, rows.indices, rows.indptr), shape=rows.shape)
    wide.toarray = None  # whoever calls it fails
    np.testing.assert_allclose(fitted.transform(wide), fitted.transform(rows.toarray()), atol=1e-12)


def test_sparse_features_of_a_map_are_taken_too():
    rows = sp.csr_array(np.abs(X) * (np.random.default_rng(5).random(X.shape) < 0.3))
    both = (Hellinger() >> FeaturePCA(3)).fit(rows)
    theirs = PCA(3).fit(np.sqrt(rows.toarray()))
    np.testing.assert_allclose(
        both.maps_[1].explained_variance_, theirs.explained_variance_, rtol=1e-10
    )


@pytest.mark.parametrize("center", [True, False])
def test_one_row_and_equal_rows_have_all_components_and_no_variance(center):
    for rows in (np.ones((1, 3)), np.ones((9, 3))):
        fitted = FeaturePCA(center=center).fit(rows)
        Z = fitted.transform(rows)
        np.testing.assert_allclose(
            Z @ Z.T, np.full((len(rows), len(rows)), 0.0 if center else 3.0), atol=1e-12
        )
        assert np.isfinite(fitted.explained_variance_ratio_).all()
        assert FeaturePCA(0.5, center=center).fit(rows).n_components_ == 1


@pytest.mark.parametrize(
    ("size", "rows", "words"),
    [
        (7, X, r"n_components=7 is more than the 6 feature\(s\) of the data"),
        (
            3,
            X[:3],
            r"n_components=3 is more than the 2 directions in which the 3 sample\(s\) differ. "
            r"Use fewer",
        ),
        (4, X[:, [0, 1, 2, 0, 1]], "n_components=4 is more than the 3 directions"),
        (0, X, "n_components must be None, an integer of at least 1, or .*, got 0"),
        (
            1.0,
            X,
            "an integer of at least 1, or a share of the variance between 0 and 1, got 1.0",
        ),
        (-0.5, X, "or a share of the variance between 0 and 1, got -0.5"),
        (float("nan"), X, "or a share of the variance between 0 and 1, got nan"),
        ("all", X, "n_components must be None, an integer of at least 1, or .*, got 'all'"),
        (True, X, "n_components must be None, an integer of at least 1, or .*, got True"),
        (2, X * 1e200, r"needs float64 rows with \|x\| below 2e\+99 to fit to, got .* column"),
    ],
)
def test_what_cannot_be_is_refused_in_words(size, rows, words):
    with pytest.raises(ValueError, match=words):
        FeaturePCA(size).fit(rows)
    if isinstance(rows, np.ndarray) and np.abs(rows).max() > 1e100:
        with pytest.raises(ValueError, match=words):
            FeaturePCA(size).fit(sp.csr_array(rows))
    with pytest.raises(ValueError, match="center must be True or False, got 1"):
        FeaturePCA(center=1).fit(X)


def test_features_beyond_the_dtype_are_named_by_place_in_any_tile():
    rows = np.ones((3000, 3)) + np.eye(3)[np.arange(3000) % 3]
    for center in (True, False):
        fitted = FeaturePCA(center=center).fit(rows)
        bad = rows.copy()
        bad[2500] = [1.7e308, 1.0, 1.79e308]
        for some in (bad, sp.csr_array(bad)):
            with pytest.raises(
                ValueError,
                match=r"FeaturePCA: Features beyond float64: got 1.79e\+308 at row 2500, column 2",
            ):
                fitted.transform(some)
