"""Anchors and levels: additive kernels looked up in tables."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.battery import dense

from mercer import Anchors, Homogeneous, UnaryIntersection
from mercer.kernels import GMM, Chi2, Intersection
from mercer.maps._anchor_grid import covering_anchors
from mercer.maps.block import as_block
from mercer.stats.histogram import Histogram

A = np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.1, 0.0, 0.5]])
B = np.array([[0.25, 0.25, 0.25, 0.25], [0.7, 0.1, 0.1, 0.1]])
G = np.array([[-5.0, 3.0, 0.0, 2.0], [-1.0, 4.0, -2.0, 0.0]])


def one_dimension(feature_map, n=4000):
    rng = np.random.default_rng(0)
    x, y = rng.random((n, 1)), rng.random((n, 1))
    phi = feature_map.fit(x)
    products = np.sum(dense(phi.transform(x)) * dense(phi.transform(y)), axis=1)
    return np.abs(products - phi.kernel_.pairs(x, y)).mean()


@pytest.mark.parametrize(
    ("N", "nearest", "linear"), [(10, 0.0254, 2.7e-3), (20, 0.0134, 7.2e-4), (40, 0.0065, 1.7e-4)]
)
def test_mean_errors_of_uniform_anchors_are_the_reference_ones(N, nearest, linear):
    def places(**params):
        return Anchors(N + 1, spacing="uniform", feature_range=(0.0, 1.0), energy=1.0, **params)

    assert one_dimension(places(n_neighbors=1)) == pytest.approx(nearest, rel=0.06)
    assert one_dimension(places(weights="equal")) == pytest.approx(nearest, rel=0.25)
    assert one_dimension(places()) == pytest.approx(linear, rel=0.12)


@pytest.mark.parametrize(
    ("kernel", "N", "energy", "columns"),
    [
        ("chi2", 20, 0.95, 1),
        ("chi2", 20, 0.99, 2),
        ("chi2", 40, 0.999, 3),
        ("jensen-shannon", 20, 0.99, 2),
        ("hellinger", 20, 0.99, 1),
        ("intersection", 10, 0.99, 8),
        ("intersection", 20, 0.99, 13),
        ("intersection", 40, 0.99, 17),
    ],
)
def test_the_energy_share_keeps_as_many_columns_as_the_reference_says(kernel, N, energy, columns):
    phi = Anchors(N + 1, kernel=kernel, spacing="uniform", feature_range=(0.0, 1.0), energy=energy)
    assert phi.fit(A).table_.shape == (N + 1, columns)


def test_the_nearest_anchor_stands_for_a_number():
    rng = np.random.default_rng(0)
    X = rng.random((30, 4))
    phi = Anchors(9, spacing="uniform", feature_range=(0.0, 1.0), energy=1.0, n_neighbors=1).fit(X)
    Z = phi.transform(X)
    np.testing.assert_allclose(Z @ Z.T, Chi2()(np.round(X * 8) / 8), atol=1e-12)
    np.testing.assert_array_equal(phi.codes(X), np.round(X * 8))
    assert phi.codes([[1 / 16, 3 / 16, 0.0, 1.0]]).tolist() == [
        [0, 1, 0, 8]
    ]  # a tie takes the lower anchor


@pytest.mark.parametrize("k", [2, 3, 5])
def test_equal_weights_are_the_mean_of_the_nearest_anchors(k):
    rng = np.random.default_rng(0)
    X = rng.gamma(1.0, size=(50, 3))
    phi = Anchors(12, n_neighbors=k, weights="equal", energy=1.0).fit(X)
    Z = phi.transform(X).reshape(50, 3, -1)
    nearest = np.argsort(np.abs(X[:, :, None] - phi.anchors_), axis=2)[:, :, :k]
    np.testing.assert_allclose(Z, phi.table_[nearest].mean(axis=2), atol=1e-12)
    assert not phi.transform(np.zeros((1, 3))).any()


def test_linear_weights_of_the_intersection_kernel_are_maji_and_bergs_levels():
    rng = np.random.default_rng(0)
    X = rng.random((30, 4))
    X[0] = 0
    linear = Anchors(
        11, kernel="intersection", spacing="uniform", feature_range=(0.0, 1.0), energy=1.0
    ).fit_transform(X)
    levels = UnaryIntersection(10, feature_range=(0, 1), sparse_output=False).fit_transform(X)
    np.testing.assert_allclose(linear @ linear.T, levels @ levels.T, atol=1e-14)


@pytest.mark.parametrize(("interpolate", "worst"), [(True, 0.025), (False, 0.1)])
def test_the_error_of_levels_is_bounded_and_the_bound_is_reached(interpolate, worst):
    x = np.linspace(0, 1, 401)[:, None]
    phi = UnaryIntersection(
        10, interpolate=interpolate, feature_range=(0, 1), sparse_output=False
    ).fit(x)
    Z = phi.transform(x)
    error = np.abs(Z @ Z.T - Intersection()(x)).max()
    assert error <= worst + 1e-12
    assert error == pytest.approx(worst, rel=0.03)


def test_levels_of_csr_rows_have_no_explicit_zeros():
    X = sp.csr_array(np.array([[0.0, 0.37], [1.0, 0.0]]))
    Z = UnaryIntersection(10, feature_range=(0, 1)).fit_transform(X)
    assert Z.nnz == 4 + 10
    assert Z.has_canonical_format


def test_a_callable_is_as_good_as_a_name():
    X = np.random.default_rng(0).gamma(1.0, size=(40, 3))

    def chi2(x, z):
        return np.divide(2 * x * z, x + z, out=np.zeros_like(x), where=x + z > 0)

    named, given_ = Anchors(16).fit(X), Anchors(16, kernel=chi2).fit(X)
    np.testing.assert_allclose(given_.transform(X), named.transform(X), atol=1e-12)
    np.testing.assert_allclose(given_.kernel_(X), named.kernel_(X), rtol=1e-12)


def test_a_callable_on_all_numbers_has_anchors_on_both_sides_of_zero():
    X = np.random.default_rng(0).normal(size=(60, 3))

    def cosine(x, z):
        return np.cos(x - z)

    for spacing in ("uniform", "kmeans"):
        phi = Anchors(64, kernel=cosine, spacing=spacing, energy=1.0).fit(X)
        Z = phi.transform(X)
        assert np.abs(Z @ Z.T - phi.kernel_(X)).max() < 0.05
    with pytest.raises(ValueError, match="Negative values in data"):
        Anchors(64, kernel=cosine).fit(X)


def test_k_means_anchors_do_not_depend_on_blocks():
    from mercer.data.batches import blocks_of
    from mercer.maps._anchor_grid import k_means_anchors
    from mercer.stats.histogram import ColumnHistogram
    from mercer.stats.reduce import accumulate

    X = np.random.default_rng(0).gamma(1.0, size=(300, 4))
    X[X < 0.2] = 0
    whole = accumulate(X, ColumnHistogram())
    halves = accumulate(X[:120], ColumnHistogram()) + accumulate(
        sp.csr_array(X[120:]), ColumnHistogram()
    )
    np.testing.assert_allclose(
        k_means_anchors(whole, 12, True)[0], k_means_anchors(halves, 12, True)[0], rtol=1e-12
    )
    np.testing.assert_array_equal(whole.low, X.min(axis=0))
    np.testing.assert_array_equal(whole.high, X.max(axis=0))
    assert sum(block.shape[0] for block in blocks_of(X)) == 300


def test_k_means_anchors_are_better_than_uniform_ones_on_clusters():
    rng = np.random.default_rng(0)
    X = np.abs(rng.choice([0.01, 0.5, 20.0], size=(200, 4)) * rng.normal(1, 0.02, size=(200, 4)))

    def error(spacing):
        phi = Anchors(12, spacing=spacing, energy=1.0).fit(X)
        Z = phi.transform(X)
        return np.linalg.norm(Z @ Z.T - phi.kernel_(X)) / np.linalg.norm(phi.kernel_(X))

    assert error("kmeans") < 0.25 * error("uniform")


def test_columns_of_zeros_do_not_ask_for_more_values_of_the_others():
    X = np.random.default_rng(0).random((200, 3))
    wider = np.column_stack([X, np.zeros(len(X))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a constant column has a single anchor
        phi = [Anchors(16, spacing="kmeans", energy=0.95).fit(rows) for rows in (X, wider)]
    assert phi[0].table_.shape == (3, 16, 1)
    assert phi[1].table_.shape == (4, 16, 1)
    np.testing.assert_array_equal(
        phi[1].transform(wider), np.column_stack([phi[0].transform(X), np.zeros(len(X))])
    )


def test_a_constant_column_has_one_k_means_anchor_and_it_is_said():
    X = np.random.default_rng(0).gamma(1.0, size=(40, 3))
    X[:, 1] = 0.25
    with pytest.warns(
        UserWarning, match=r"1 constant column\(s\) \(1\) have a single k-means anchor"
    ):
        phi = Anchors(8, spacing="kmeans", energy=1.0).fit(X)
    assert list(phi.anchors_[1, :3]) == [0.0, 0.25, np.inf]
    Z = phi.transform(X)[:, phi.table_.shape[2] : 2 * phi.table_.shape[2]]
    np.testing.assert_allclose(Z @ Z.T, np.full((40, 40), 0.25), atol=1e-12)


@given(st.lists(st.floats(0, 1e3), min_size=1, max_size=30), st.floats(0.05, 50))
def test_a_cover_covers(values, radius):
    seen = Histogram()
    seen.add(as_block(np.array(values)[:, None]))
    anchors = covering_anchors(seen, radius)
    assert all(np.abs(anchors - value).min() <= radius * (1 + 1e-9) for value in values)
    assert np.all(np.diff(anchors) > 0)


def test_a_cover_uses_few_anchors_and_says_when_it_would_need_too_many():
    X = np.linspace(0, 1, 500)[:, None]
    phi = Anchors(None, cover=0.05, energy=1.0).fit(X)
    assert 10 <= len(phi.anchors_) <= 12
    with pytest.raises(ValueError, match="needs more than 65536 anchors"):
        Anchors(None, cover=1e-6).fit(X)


def test_values_outside_the_anchors_get_one_warning_that_names_the_first():
    X = np.random.default_rng(0).random((40, 3))
    for phi in (Anchors(8), UnaryIntersection(8), Anchors(8, spacing="kmeans")):
        phi.fit(X)
        wild = X.copy()
        wild[7, 2], wild[9, 0] = 30.0, 40.0
        for rows in (wild, sp.csr_array(wild)):
            with pytest.warns(
                UserWarning,
                match=r"2 value\(s\) outside the range .* the first 30 at row 7, column 2\. Set",
            ) as seen:
                Z = phi.transform(rows)
            assert len(seen) == 1
            nearest = wild.copy()
            nearest[7, 2], nearest[9, 0] = X[:, 2].max(), X[:, 0].max()
            if phi.bounds_.high is not None and np.ndim(phi.bounds_.high) == 0:
                nearest[7, 2] = nearest[9, 0] = phi.bounds_.high
            np.testing.assert_allclose(dense(Z), dense(phi.transform(nearest)), atol=1e-12)


def test_values_outside_the_anchors_are_said_in_compositions_too():
    X = np.random.default_rng(0).random((40, 3))
    both = (Homogeneous(0) >> Anchors(8)).fit(X)
    with pytest.warns(UserWarning, match=r"1 value\(s\) outside the range .* in column 2"):
        both.transform(np.array([[0.1, 0.2, 90.0]]))


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"n_anchors": 1}, "n_anchors must be an integer of at least 2"),
        ({"energy": 0.0}, "energy must be a number above 0 and at most 1, got 0.0"),
        ({"energy": 1.5}, "energy must be a number above 0 and at most 1, got 1.5"),
        (
            {"n_neighbors": 3},
            "weights='linear' needs 1 or 2 neighbours, got n_neighbors=3. Use weights='equal'",
        ),
        ({"n_neighbors": 40, "weights": "equal"}, "n_neighbors=40 needs as many anchors"),
        ({"n_anchors": None}, "n_anchors=None needs cover"),
        ({"cover": 0.1}, "it needs n_anchors=None"),
        ({"spacing": "kmean"}, "Did you mean 'kmeans'"),
        ({"kernel": "chi"}, "Did you mean 'chi2'"),
        ({"kernel": GMM()}, "an additive kernel"),
        ({"feature_range": (1.0, 0.0)}, r"feature_range must be \(low, high\)"),
        ({"feature_range": (0.0, 1.0)}, "low > 0"),
        ({"feature_range": (0.1, 1.0), "spacing": "kmeans"}, "feature_range is for spacing"),
        (
            {"kernel": lambda x, z: -x * z},
            r"not positive semi-definite on the anchors: its smallest eigenvalue is -",
        ),
        ({"kernel": lambda x, z: 1.0}, "must give one number for each pair"),
    ],
)
def test_wrong_parameters_of_anchors_are_refused_in_words(params, words):
    with pytest.raises(ValueError, match=words):
        Anchors(**params).fit(A)
    with pytest.raises(
        ValueError, match=r"feature_range must be \(0, high\), finite numbers 0 < high"
    ):
        UnaryIntersection(feature_range=(0.5, 1.0)).fit(A)


def test_all_zero_data_has_zero_features():
    X = np.zeros((5, 3))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*constant column")
        for phi in (
            Anchors(8),
            Anchors(8, spacing="uniform"),
            Anchors(8, spacing="kmeans"),
            UnaryIntersection(4),
        ):
            assert not dense(phi.fit(X).transform(X)).any()


@pytest.mark.parametrize("neighbors", [1, 2])
@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
def test_a_number_outside_the_domain_is_named_in_every_tile(neighbors: int, value: float) -> None:
    X = np.random.default_rng(0).random((700, 3)).astype(np.float32)
    phi = Anchors(8, n_neighbors=neighbors, n_jobs=1).fit(X)
    changed = X.copy()
    changed[600, 1] = value
    for compute in (phi.transform, phi.codes):
        with pytest.raises(ValueError, match="row 600, column 1"):
            compute(changed)


@pytest.mark.parametrize("spacing", ["log", "uniform", "kmeans"])
def test_values_beyond_the_anchors_are_warned_of_in_every_tile(spacing: str) -> None:
    X = np.random.default_rng(0).random((700, 3)).astype(np.float32)
    phi = Anchors(8, spacing=spacing, n_neighbors=1, n_jobs=1).fit(X)
    changed = X.copy()
    changed[650, 2] = 3.0
    for compute in (phi.transform, phi.codes):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            compute(X)
        with pytest.warns(UserWarning, match="row 650, column 2"):
            compute(changed)
