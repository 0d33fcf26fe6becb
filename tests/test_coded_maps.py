"""Maps whose features are small integers: hashes, signs, anchors, levels."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from battery import dense
from mercer import GCWS, Anchors, Homogeneous, SignCauchy, UnaryIntersection, theory
from mercer.blocks import Coded, as_block
from mercer.histograms import Histogram
from mercer.kernels import GMM, Chi2, Intersection, SignStable
from mercer.maps.spacing import cover

A = np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.1, 0.0, 0.5]])
B = np.array([[0.25, 0.25, 0.25, 0.25], [0.7, 0.1, 0.1, 0.1]])
G = np.array([[-5.0, 3.0, 0.0, 2.0], [-1.0, 4.0, -2.0, 0.0]])


# GCWS


def collisions(X, n_hashes=65536, **params):
    codes = GCWS(n_hashes, bits=16, random_state=3, **params).fit(X).codes(X)
    return float(np.mean(codes[0] == codes[1]))


@pytest.mark.parametrize(("X", "exact"), [(A, 3 / 7), (G, 4 / 13)], ids=["A", "G"])
def test_hashes_agree_as_often_as_the_min_max_kernel_says(X, exact):
    assert collisions(X) == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 65536) + 2**-16)


@pytest.mark.parametrize(
    ("X", "biased"), [(A, 0.4878), (G, 0.3779), (np.vstack([A[0], 2 * A[0]]), 0.668)], ids=["A", "G", "twice"]
)
def test_the_zero_bit_scheme_agrees_too_often_in_low_dimension(X, biased):
    assert collisions(X, scheme="0-bit") == pytest.approx(biased, abs=0.008)


def test_a_power_gives_the_pgmm_kernel():
    exact = GMM(0.5)(A)[0, 1]
    assert collisions(A, power=0.5) == pytest.approx(exact, abs=0.008)
    assert abs(exact - 3 / 7) > 0.1


@pytest.mark.parametrize("bits", [1, 2, 4, 8, 9, 16])
def test_codes_of_few_bits_agree_by_chance_with_two_to_the_minus_bits(bits):
    phi = GCWS(32768, bits=bits, random_state=5).fit(G)
    codes = phi.codes(G)
    assert codes.dtype == (np.uint8 if bits <= 8 else np.uint16)
    assert codes.max() < 2**bits
    m = 4 / 13 + 9 / 13 * 2.0**-bits
    assert phi.limit_(G)[0, 1] == pytest.approx(m)
    assert np.mean(codes[0] == codes[1]) == pytest.approx(m, abs=4 * np.sqrt(m * (1 - m) / 32768))


def test_similarity_is_unbiased_with_the_error_it_states():
    estimates, errors = zip(
        *(GCWS(512, bits=2, random_state=seed).fit(G).similarity(G, G) for seed in range(200)), strict=True
    )
    off = np.array([estimate[0, 1] for estimate in estimates])
    spread = off.std() / np.sqrt(len(off))
    assert off.mean() == pytest.approx(4 / 13, abs=4 * spread)
    assert np.mean([error[0, 1] for error in errors]) == pytest.approx(off.std(), rel=0.15)
    assert off.var() == pytest.approx(theory.gmm_variance(4 / 13, 512, bits=2), rel=0.3)
    assert estimates[0][0, 0] == 1.0


def test_similarity_takes_blocks_and_knows_rows_without_codes():
    X = np.vstack([G, np.zeros(4)])
    phi = GCWS(64, random_state=0).fit(X)
    (block,) = phi.blocks(X)
    estimate, error = phi.similarity(block, X)
    np.testing.assert_array_equal(estimate, phi.similarity(X, X)[0])
    assert not estimate[2].any() and not estimate[:, 2].any() and not error[2].any()


def test_a_row_of_zeros_has_no_codes_no_features_and_the_limit_zero():
    X = np.vstack([G, np.zeros(4)])
    phi = GCWS(64, random_state=0).fit(X)
    Z = phi.transform(X)
    assert list(np.diff(Z.indptr)) == [64, 64, 0]
    assert not phi.limit_(X)[2].any()
    (block,) = phi.blocks(X)
    assert list(block.empty) == [False, False, True]
    assert block.codes.dtype == np.uint8


def test_codes_do_not_depend_on_dtype_storage_or_explicit_zeros():
    rng = np.random.default_rng(0)
    X = np.where(rng.random((60, 30)) < 0.4, rng.normal(size=(60, 30)), 0).astype(np.float32)
    phi = GCWS(256, random_state=1).fit(X)
    codes = phi.codes(X)
    np.testing.assert_array_equal(phi.codes(X.astype(np.float64)), codes)
    np.testing.assert_array_equal(phi.codes(sp.csr_array(X)), codes)
    stored = sp.csr_array(np.ones_like(X))
    stored.data[:] = X.ravel()
    np.testing.assert_array_equal(phi.codes(stored), codes)
    np.testing.assert_array_equal(phi.codes(np.asfortranarray(X)), codes)
    np.testing.assert_array_equal(GCWS(64, random_state=1).fit(X).codes(X), codes[:, :64])


def test_codes_of_many_columns_are_those_of_the_same_columns_alone():
    """Parameters belong to (hash, column), so a column's number matters and the width does not."""
    rng = np.random.default_rng(0)
    X = rng.gamma(1.0, size=(20, 6))
    wide = sp.csr_array((X.ravel(), np.tile(np.arange(6), 20), np.arange(21) * 6), shape=(20, 10**6))
    np.testing.assert_array_equal(
        GCWS(128, random_state=1).fit(wide).codes(wide), GCWS(128, random_state=1).fit(X).codes(X)
    )


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_million_columns_cost_only_those_in_use():
    """1000 rows with 100 of a million columns each: less than 500 MB at the peak, Python and its libraries included."""
    program = """
import numpy as np
import scipy.sparse as sp
from mercer import GCWS

rng = np.random.default_rng(0)
columns = np.sort(rng.integers(10**6, size=(1000, 100)), axis=1).ravel()
X = sp.csr_array((rng.gamma(1.0, size=100_000), columns, np.arange(1001) * 100), shape=(1000, 10**6))
X.sum_duplicates()
Z = GCWS(1024, random_state=0).fit(X).transform(X)
assert Z.shape == (1000, 1024 * 256)
with open("/proc/self/status") as status:  # of this process alone: ru_maxrss begins at its parent's
    print(next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmHWM")))
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(run.stdout) < 500, run.stdout


def test_parameters_that_were_kept_are_those_of_the_columns():
    rng = np.random.default_rng(0)
    X = np.abs(rng.normal(size=(20, 6)))
    phi, again = GCWS(128, random_state=1).fit(X), GCWS(128, random_state=1).fit(X)
    some = X.copy()
    some[:, 2] = 0  # other columns, then the first ones again
    expected = [again.codes(rows) for rows in (X[:1], some, X, -X)]
    for _ in range(2):
        for rows, codes in zip((X[:1], some, X, -X), expected, strict=True):
            np.testing.assert_array_equal(phi.codes(rows), codes)
    sparse = GCWS(128, random_state=1).fit(X)
    for rows, codes in zip((X, some, X[:1], -X), (expected[i] for i in (2, 1, 0, 3)), strict=True):
        np.testing.assert_array_equal(sparse.codes(sp.csr_array(rows)), codes)
    assert not np.array_equal(expected[2], expected[3])


def test_columns_in_use_are_found_by_marks_and_by_sorting_alike(monkeypatch):
    X = sp.random_array((30, 50), density=0.2, format="csr", rng=np.random.default_rng(0))
    phi = GCWS(64, random_state=1).fit(X)
    codes = phi.codes(X)
    monkeypatch.setattr("mercer.maps.gcws.worth_marking", lambda columns: False)
    np.testing.assert_array_equal(phi.codes(X), codes)


def test_hashes_made_a_few_at_a_time_are_the_same(monkeypatch):
    X = np.random.default_rng(0).normal(size=(20, 6))
    phi = GCWS(200, random_state=1).fit(X)
    whole = phi.codes(X)
    monkeypatch.setattr("mercer.maps.gcws.blocks_in", lambda size: 1)
    np.testing.assert_array_equal(phi.codes(X), whole)


def test_the_match_rate_is_that_of_datasketch():
    datasketch = pytest.importorskip("datasketch")
    rng = np.random.default_rng(0)
    X = rng.gamma(0.5, size=(2, 40))
    generator = datasketch.WeightedMinHashGenerator(40, sample_size=2048, seed=1)
    theirs = generator.minhash(X[0]).jaccard(generator.minhash(X[1]))
    k = GMM()(X)[0, 1]
    noise = np.sqrt(k * (1 - k) / 2048)
    assert theirs == pytest.approx(k, abs=4 * noise)
    assert collisions(X, 2048) == pytest.approx(theirs, abs=4 * np.sqrt(2) * noise)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"bits": 0}, "bits must be a whole number of at least 1"),
        ({"bits": 17}, "bits must be a whole number from 1 to 16, got 17"),
        ({"n_hashes": 0}, "n_hashes must be a whole number of at least 1"),
        ({"scheme": "0bit"}, "Did you mean '0-bit'"),
        ({"power": -1.0}, "power must be a finite number above 0"),
        ({"sparse_output": "yes"}, "sparse_output must be True or False"),
    ],
)
def test_wrong_parameters_of_gcws_are_refused_in_words(params, words):
    with pytest.raises(ValueError, match=words):
        GCWS(**params).fit(G)


# linear models on codes


@pytest.mark.parametrize(
    "model",
    [
        LinearSVC(C=1.0),
        LogisticRegression(C=10.0, max_iter=300),
        SGDClassifier(random_state=0, max_iter=20, tol=None),
    ],
    ids=lambda model: type(model).__name__,
)
def test_linear_models_train_on_codes_without_densifying(model, monkeypatch):
    X, y = load_digits(return_X_y=True)
    monkeypatch.setattr(Coded, "toarray", None)  # what densifies fails
    pipeline = make_pipeline(GCWS(256, random_state=0), model).fit(X[:800], y[:800])
    assert pipeline.score(X[800:], y[800:]) > 0.9


def test_sgd_learns_block_by_block():
    X, y = load_digits(return_X_y=True)
    phi = GCWS(256, random_state=0).fit(X)
    model, start = SGDClassifier(random_state=0), 0
    for block in phi.blocks(X[:1200]):
        Z = block.tocsr()
        assert Z.has_canonical_format and Z.indices.dtype == np.int32
        model.partial_fit(Z, y[start : start + block.shape[0]], classes=np.unique(y))
        start += block.shape[0]
    assert model.score(phi.transform(X[1200:]), y[1200:]) > 0.85


def test_codes_take_a_tenth_of_the_space_of_the_homogeneous_map():
    """ICCV 2015, Table 1: .7M for 30 anchors against 6.7M for the homogeneous map with 3 values."""
    X = load_digits().data.astype(np.float32)
    ours, theirs = (next(phi.fit(X).blocks(X)).nbytes for phi in (Anchors(30, n_neighbors=1), Homogeneous(1, n_jobs=1)))
    assert theirs / ours >= 9.6


# signs


@pytest.mark.parametrize(
    ("alpha", "X", "differ"),
    [
        (1.0, A, 0.220353526),
        (1.0, B, 0.187015630),
        (1.0, np.array([[1.0, 1, 0], [0, 1, 1]]), 1 / 3),
        (2.0, A, np.arccos(0.7324670208) / np.pi),
        (2.0, B, np.arccos(0.6933752453) / np.pi),
    ],
)
def test_the_chance_of_equal_signs_has_its_reference_values(alpha, X, differ):
    assert 1 - SignStable(alpha)(X)[0, 1] == pytest.approx(differ, abs=1e-9)


def test_the_closed_form_for_cauchy_weights_is_the_integral():
    rng = np.random.default_rng(0)
    X = np.where(rng.random((12, 6)) < 0.7, rng.normal(size=(12, 6)), 0)
    X[3] = 0
    X[4] = 2 * X[5]
    X[6] = -X[5]
    close = SignStable(1.0)(X)
    np.testing.assert_allclose(close, SignStable(1 + 1e-9)(X), atol=1e-8)
    assert close[4, 5] == pytest.approx(1.0) and close[5, 6] == pytest.approx(0.0, abs=1e-12)
    assert close[3, 3] == 1.0 and close[3, 0] == 0.5


@pytest.mark.parametrize("alpha", [0.3, 1.0, 1.5, 2.0])
def test_signs_agree_as_often_as_the_integral_says(alpha):
    X = np.vstack([A, G])
    phi = SignCauchy(40000, alpha=alpha, random_state=1).fit(X)
    codes = phi.codes(X)
    rates = np.array([[np.mean(a == b) for a in codes] for b in codes])
    np.testing.assert_allclose(rates, phi.kernel_(X), atol=4 * 0.5 / 200)


# anchors and levels


def one_dimension(feature_map, n=4000):
    rng = np.random.default_rng(0)
    x, y = rng.random((n, 1)), rng.random((n, 1))
    phi = feature_map.fit(x)
    products = np.sum(dense(phi.transform(x)) * dense(phi.transform(y)), axis=1)
    return np.abs(products - phi.kernel_.pairs(x, y)).mean()


@pytest.mark.parametrize(("N", "nearest", "linear"), [(10, 0.0254, 2.7e-3), (20, 0.0134, 7.2e-4), (40, 0.0065, 1.7e-4)])
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
    assert phi.codes([[1 / 16, 3 / 16, 0.0, 1.0]]).tolist() == [[0, 1, 0, 8]]  # a tie takes the lower anchor


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
    linear = Anchors(11, kernel="intersection", spacing="uniform", feature_range=(0.0, 1.0), energy=1.0).fit_transform(
        X
    )
    levels = UnaryIntersection(10, feature_range=(0, 1), sparse_output=False).fit_transform(X)
    np.testing.assert_allclose(linear @ linear.T, levels @ levels.T, atol=1e-14)


@pytest.mark.parametrize(("interpolate", "worst"), [(True, 0.025), (False, 0.1)])
def test_the_error_of_levels_is_bounded_and_the_bound_is_reached(interpolate, worst):
    x = np.linspace(0, 1, 401)[:, None]
    phi = UnaryIntersection(10, interpolate=interpolate, feature_range=(0, 1), sparse_output=False).fit(x)
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
    from mercer.folding import blocks_of, fold
    from mercer.histograms import ColumnHistogram
    from mercer.maps.spacing import k_means

    X = np.random.default_rng(0).gamma(1.0, size=(300, 4))
    X[X < 0.2] = 0
    whole = fold(X, ColumnHistogram())
    halves = fold(X[:120], ColumnHistogram()) + fold(sp.csr_array(X[120:]), ColumnHistogram())
    np.testing.assert_allclose(k_means(whole, 12, True)[0], k_means(halves, 12, True)[0], rtol=1e-12)
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


def test_a_constant_column_has_one_k_means_anchor_and_it_is_said():
    X = np.random.default_rng(0).gamma(1.0, size=(40, 3))
    X[:, 1] = 0.25
    with pytest.warns(UserWarning, match=r"1 constant column\(s\) \(1\) have a single k-means anchor"):
        phi = Anchors(8, spacing="kmeans", energy=1.0).fit(X)
    assert list(phi.anchors_[1, :3]) == [0.0, 0.25, np.inf]
    Z = phi.transform(X)[:, phi.table_.shape[2] : 2 * phi.table_.shape[2]]
    np.testing.assert_allclose(Z @ Z.T, np.full((40, 40), 0.25), atol=1e-12)


@given(st.lists(st.floats(0, 1e3), min_size=1, max_size=30), st.floats(0.05, 50))
def test_a_cover_covers(values, radius):
    seen = Histogram()
    seen.add(as_block(np.array(values)[:, None]))
    anchors = cover(seen, radius)
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
                UserWarning, match=r"2 value\(s\) outside the range .* the first 30 at row 7, column 2\. Set"
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
        ({"n_anchors": 1}, "n_anchors must be a whole number of at least 2"),
        ({"energy": 0.0}, "energy must be a finite number above 0"),
        ({"energy": 1.5}, "energy must be above 0 and at most 1, got 1.5"),
        ({"n_neighbors": 3}, "weights='linear' needs 1 or 2 neighbours, got n_neighbors=3. Use weights='equal'"),
        ({"n_neighbors": 40, "weights": "equal"}, "n_neighbors=40 needs as many anchors"),
        ({"n_anchors": None}, "n_anchors=None needs cover"),
        ({"cover": 0.1}, "it needs n_anchors=None"),
        ({"spacing": "kmean"}, "Did you mean 'kmeans'"),
        ({"kernel": "chi"}, "Did you mean 'chi2'"),
        ({"kernel": GMM()}, "an additive kernel"),
        ({"feature_range": (1.0, 0.0)}, r"feature_range must be \(low, high\)"),
        ({"feature_range": (0.0, 1.0)}, "low > 0"),
        ({"feature_range": (0.1, 1.0), "spacing": "kmeans"}, "feature_range is for spacing"),
        ({"kernel": lambda x, z: -x * z}, r"not positive semi-definite on the anchors: its smallest eigenvalue is -"),
        ({"kernel": lambda x, z: 1.0}, "must give one number for each pair"),
    ],
)
def test_wrong_parameters_of_anchors_are_refused_in_words(params, words):
    with pytest.raises(ValueError, match=words):
        Anchors(**params).fit(A)
    with pytest.raises(ValueError, match="feature_range must begin at 0"):
        UnaryIntersection(feature_range=(0.5, 1.0)).fit(A)


def test_all_zero_data_has_zero_features():
    X = np.zeros((5, 3))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*constant column")
        for phi in (Anchors(8), Anchors(8, spacing="uniform"), Anchors(8, spacing="kmeans"), UnaryIntersection(4)):
            assert not dense(phi.fit(X).transform(X)).any()


# theory

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
    rates = [GCWS(64, bits=16, random_state=seed).fit(G).similarity(G, G)[0][0, 1] for seed in range(600)]
    assert np.var(rates) == pytest.approx(theory.gmm_variance(k, 64), rel=0.2)


def test_the_error_of_anchors_is_within_its_bound():
    """N = 20, d = 200: a bound of 9.6e-3 (paper: 1.36e-2) on the mean over columns, whose 95% quantile is 2.5e-3."""
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
        (lambda: theory.anchors_error(0.1, 0, 0.1), "d must be a whole number"),
    ],
)
def test_wrong_arguments_are_refused_in_words(call, words):
    with pytest.raises(ValueError, match=words):
        call()
