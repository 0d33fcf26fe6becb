"""Consistent weighted sampling: hashes that agree as often as the min-max kernel says, and linear
models on their codes.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from mercer import GCWS, Anchors, Homogeneous, theory
from mercer.kernels import GMM
from mercer.maps.block import Coded
from mercer.parallel.tile_size import override_limits

A = np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.1, 0.0, 0.5]])
B = np.array([[0.25, 0.25, 0.25, 0.25], [0.7, 0.1, 0.1, 0.1]])
G = np.array([[-5.0, 3.0, 0.0, 2.0], [-1.0, 4.0, -2.0, 0.0]])


def collisions(X, n_hashes=65536, **params):
    codes = GCWS(n_hashes, bits=16, random_state=3, **params).fit(X).codes(X)
    return float(np.mean(codes[0] == codes[1]))


@pytest.mark.parametrize(("X", "exact"), [(A, 3 / 7), (G, 4 / 13)], ids=["A", "G"])
def test_hashes_agree_as_often_as_the_min_max_kernel_says(X, exact):
    assert collisions(X) == pytest.approx(
        exact, abs=4 * np.sqrt(exact * (1 - exact) / 65536) + 2**-16
    )


@pytest.mark.parametrize(
    ("X", "biased"),
    [(A, 0.4878), (G, 0.3779), (np.vstack([A[0], 2 * A[0]]), 0.668)],
    ids=["A", "G", "twice"],
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
        *(GCWS(512, bits=2, random_state=seed).fit(G).similarity(G, G) for seed in range(200)),
        strict=True,
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


def test_a_sparse_tile_without_entries_before_others_changes_nothing():
    X = np.vstack([np.zeros((1, 4)), np.abs(G)])
    mapped = GCWS(16, random_state=0).fit(X)
    whole = mapped.codes(X[1:])
    mapped.codes(sp.csr_array(X[:1]))
    np.testing.assert_array_equal(mapped.codes(sp.csr_array(X[1:])), whole)


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
    wide = sp.csr_array(
        (X.ravel(), np.tile(np.arange(6), 20), np.arange(21) * 6), shape=(20, 10**6)
    )
    np.testing.assert_array_equal(
        GCWS(128, random_state=1).fit(wide).codes(wide), GCWS(128, random_state=1).fit(X).codes(X)
    )


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_million_columns_cost_only_those_in_use():
    """1000 rows with 100 of a million columns each: less than 500 MB at the peak, Python and its
    libraries included.
    """
    program = """
import numpy as np
import scipy.sparse as sp
from mercer import GCWS

rng = np.random.default_rng(0)
columns = np.sort(rng.integers(10**6, size=(1000, 100)), axis=1).ravel()
X = sp.csr_array((rng.gamma(1.0, size=100_000), columns, np.arange(1001) * 100),
                 shape=(1000, 10**6))
X.sum_duplicates()
Z = GCWS(1024, random_state=0).fit(X).transform(X)
assert Z.shape == (1000, 1024 * 256)
with open("/proc/self/status") as status:  # of this process alone: ru_maxrss begins at its parent's
    print(next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmHWM")))
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
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


def test_columns_in_use_are_found_by_marks_and_by_sorting_alike():
    X = sp.random_array((30, 50), density=0.2, format="csr", rng=np.random.default_rng(0))
    phi = GCWS(64, random_state=1).fit(X)
    codes = phi.codes(X)
    with override_limits(mask_columns=0):
        np.testing.assert_array_equal(phi.codes(X), codes)


def test_hashes_made_a_few_at_a_time_are_the_same():
    X = np.random.default_rng(0).normal(size=(20, 6))
    phi = GCWS(200, random_state=1).fit(X)
    whole = phi.codes(X)
    with override_limits(tile_bytes=1):
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
        ({"bits": 0}, "bits must be an integer from 1 to 16, got 0"),
        ({"bits": 17}, "bits must be an integer from 1 to 16, got 17"),
        ({"n_hashes": 0}, "n_hashes must be an integer of at least 1"),
        ({"scheme": "0bit"}, "Did you mean '0-bit'"),
        ({"power": -1.0}, "power must be a finite number above 0"),
        ({"sparse_output": "yes"}, "sparse_output must be True or False"),
    ],
)
def test_wrong_parameters_of_gcws_are_refused_in_words(params, words):
    with pytest.raises(ValueError, match=words):
        GCWS(**params).fit(G)


@pytest.mark.parametrize(
    "model",
    [
        LinearSVC(C=1.0),
        pytest.param(LogisticRegression(C=10.0, max_iter=300), marks=pytest.mark.full),
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
    ours, theirs = (
        next(phi.fit(X).blocks(X)).nbytes
        for phi in (Anchors(30, n_neighbors=1), Homogeneous(1, n_jobs=1))
    )
    assert theirs / ours >= 9.6
