"""Nystroem maps: exact on their landmarks, equal to scikit-learn's on the same ones, and any
kernel.
"""

from __future__ import annotations

import copy
import pickle
import warnings
from dataclasses import fields

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import kernel_approximation
from sklearn.base import clone

import mercer
from mercer import Chi2Series, Nystroem, kernels
from mercer.data.batches import blocks_of
from mercer.kernels import CallableKernel, Chi2, Gaussian, JensenShannon, Laplacian, Linear
from mercer.kernels.registry import kernel_class, kernel_classes
from mercer.maps._bandwidth import BANDWIDTH_RULES
from mercer.maps._landmarks import (
    pivoted_cholesky,
    pool_size,
    propose_by_residual,
    sample_by_leverage,
    sample_by_pivoted_cholesky,
    sample_kmeans_plus_plus,
)
from mercer.parallel.tile_size import override_limits
from mercer.rng import Rng

X = np.random.default_rng(0).gamma(0.7, size=(60, 6))
Y = np.random.default_rng(1).gamma(0.7, size=(25, 6))


def polynomial(X, Z, degree=2, shift=1.0):
    return (X @ Z.T + shift) ** degree


def clusters(seed: int, n: int = 1000) -> np.ndarray:
    """One large cluster and nine of a few rows each, far from each other."""
    rng = np.random.default_rng(seed)
    sizes = [n, *[3] * 9]
    return rng.permutation(
        np.concatenate([30 * i + rng.normal(size=(size, 2)) for i, size in enumerate(sizes)])
    )


def relative_error(fitted, X) -> float:
    Z, K = fitted.transform(X), mercer.gram(fitted.kernel_, X)
    return float(np.linalg.norm(Z @ Z.T - K) / np.linalg.norm(K))


KERNELS = [
    "gaussian",
    "chi2",
    "exp-chi2",
    "jensen-shannon",
    "min-max",
    "laplacian",
    "cosine-rbf",
    polynomial,
]
KERNELS += [Gaussian(0.5).over(Chi2()), Chi2() + Laplacian(0.3)]
every_kernel = pytest.mark.parametrize(
    "kernel", KERNELS, ids=lambda kernel: getattr(kernel, "__name__", str(kernel))
)


@every_kernel
@pytest.mark.parametrize("landmarks", ["rpcholesky", "uniform", "kmeans++", "leverage"])
def test_the_map_is_exact_when_all_rows_are_landmarks(kernel, landmarks):
    fitted = Nystroem(60, kernel=kernel, landmarks=landmarks, random_state=0).fit(X)
    np.testing.assert_array_equal(np.sort(fitted.landmarks_, axis=0), np.sort(X, axis=0))
    assert relative_error(fitted, X) < 1e-10


@every_kernel
def test_the_map_is_exact_on_its_landmarks_and_too_short_elsewhere(kernel):
    fitted = Nystroem(20, kernel=kernel, random_state=0).fit(X)
    Z, exact = fitted.transform(fitted.landmarks_), fitted.kernel_(fitted.landmarks_)
    np.testing.assert_allclose(Z @ Z.T, exact, atol=1e-9 * exact.max())
    Z, exact = fitted.transform(Y), fitted.kernel_(Y)
    assert np.linalg.eigvalsh(exact - Z @ Z.T).min() > -1e-9 * exact.max()
    assert relative_error(fitted, Y) > 1e-6


@pytest.mark.parametrize(
    ("ours", "theirs", "gamma"),
    [
        ("rbf", "rbf", 0.2),
        ("exp-chi2", "chi2", 0.4),
        ("laplacian", "laplacian", 0.3),
        ("cosine", "cosine", None),
    ],
)
def test_features_are_those_of_scikit_learn_on_the_same_landmarks(ours, theirs, gamma):
    rival = kernel_approximation.Nystroem(theirs, gamma=gamma, n_components=6, random_state=0).fit(
        X
    )
    fitted = Nystroem(kernel=ours, gamma=gamma or "auto", landmarks=rival.components_).fit(X)
    assert fitted.n_components_ == 6
    np.testing.assert_allclose(fitted.transform(Y), rival.transform(Y), atol=1e-10)


def test_a_kernel_by_name_is_that_kernel():
    assert Nystroem(kernel="rbf", n_components=5, gamma=0.3).fit(X).kernel_ == Gaussian(0.3)
    assert Nystroem(kernel="matern", n_components=5, gamma=2.0, kernel_params={"nu": 2.5}).fit(
        X
    ).kernel_ == (kernels.Matern(2.5, 2.0))
    assert Nystroem(kernel="skewed-chi2", n_components=5, kernel_params={"skew": 0.2}).fit(
        X
    ).kernel_ == (kernels.SkewedChi2(0.2))
    both = Gaussian(0.5).over(Chi2())
    assert Nystroem(kernel=both, n_components=5).fit(X).kernel_ is both


def test_names_are_computed_from_the_kernels():
    known = kernel_classes()
    assert known["jensen-shannon"] is JensenShannon and known["cosine-rbf"] is kernels.CosineRBF
    assert kernel_class("rbf") is Gaussian
    bases = {
        "Additive",
        "Bits",
        "CallableKernel",
        "Centered",
        "CustomAdditive",
        "Euclidean",
        "Homogeneous",
        "Kernel",
        "ComposedKernel",
        "Metric",
        "Radial",
        "Scaled",
        "Signed",
        "Sum",
    }
    assert {cls.__name__ for cls in known.values()} == set(kernels.__all__) - bases
    assert {
        name for name, cls in known.items() if "gamma" in {field.name for field in fields(cls)}
    } == set(BANDWIDTH_RULES)


def test_gamma_is_found_as_in_random_fourier():
    for kernel in ("gaussian", "laplacian", "matern"):
        expected = mercer.RandomFourier(4, kernel=kernel).fit(X).gamma_
        assert Nystroem(5, kernel=kernel).fit(X).gamma_ == expected
    D = Chi2().squared_distance(X)[np.triu_indices(60, 1)]
    for some in (X, sp.csr_array(X)):
        assert Nystroem(5, kernel="exp-chi2").fit(some).gamma_ == pytest.approx(
            0.5 / np.median(D), rel=1e-12
        )


def test_nothing_that_was_given_is_changed():
    params = {"degree": 3}
    landmarks = X[:5].copy()
    before = copy.deepcopy((params, landmarks))
    fitted = Nystroem(kernel=polynomial, kernel_params=params, landmarks=landmarks).fit(X)
    fitted.landmarks_[:] = 0
    assert params == before[0]
    np.testing.assert_array_equal(landmarks, before[1])
    assert clone(fitted).kernel_params == params


def test_a_function_is_given_arrays_and_its_keywords():
    fitted = Nystroem(
        28, kernel=polynomial, kernel_params={"degree": 2, "shift": 0.5}, random_state=0
    ).fit(X)
    assert repr(fitted.kernel_) == "polynomial(degree=2, shift=0.5)"
    np.testing.assert_allclose(fitted.kernel_(X, Y), polynomial(X, Y, 2, 0.5))
    np.testing.assert_allclose(
        fitted.kernel_.pairs(X[:25], Y), np.diag(polynomial(X[:25], Y, 2, 0.5))
    )
    np.testing.assert_allclose(fitted.kernel_.diagonal(X), np.diag(polynomial(X, X, 2, 0.5)))
    assert relative_error(fitted, Y) < 1e-9  # 28 monomials of degree 2 in 6 numbers
    np.testing.assert_allclose(fitted.transform(sp.csr_array(Y)), fitted.transform(Y), atol=1e-12)
    assert Gaussian(0.1).over(fitted.kernel_)(X).shape == (60, 60)


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (
            lambda X, Z: X @ Z.T.mean(axis=1),
            r"must return the Gram matrix of its rows, \(60, 60\) real numbers here, got",
        ),
        (lambda X, Z: np.full((len(X), len(Z)), np.nan), "returned nan for the rows"),
        (lambda X, Z: X @ np.triu(np.ones((6, 6))) @ Z.T, "needs a symmetric kernel"),
        (
            lambda X, Z: -(X @ Z.T),
            "needs a positive semi-definite kernel, and .* has the eigenvalue -",
        ),
    ],
)
def test_a_function_that_is_no_kernel_is_refused(kernel, words):
    with pytest.raises(ValueError, match=words):
        Nystroem(5, kernel=kernel, random_state=0).fit(X)


def test_fewer_rows_than_landmarks_are_all_landmarks_and_one_warning():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = Nystroem(100).fit(X)
    assert [str(one.message) for one in caught] == [
        "Nystroem: n_components=100 is more than the 60 rows seen; all of them are landmarks."
    ]
    assert fitted.n_components_ == 60 and fitted.transform(Y).shape == (25, 60)
    assert relative_error(fitted, X) < 1e-10


def test_repeated_landmarks_and_zero_rows_do_no_harm():
    once = Nystroem(kernel="chi2", landmarks=X[:10]).fit(X)
    twice = Nystroem(
        kernel="chi2", landmarks=np.concatenate([X[:10], X[:10], np.zeros((2, 6))])
    ).fit(X)
    A, B = once.transform(Y), twice.transform(Y)
    assert B.shape == (25, 22)
    np.testing.assert_allclose(B @ B.T, A @ A.T, atol=1e-10)
    np.testing.assert_array_equal(
        Nystroem(5, kernel="chi2").fit(np.zeros((9, 6))).transform(Y), np.zeros((25, 5))
    )
    nothing = Nystroem(3, random_state=0).fit(np.ones((9, 6)))
    np.testing.assert_allclose(
        nothing.transform(np.ones((1, 6))) @ nothing.transform(np.ones((1, 6))).T, 1.0
    )


@pytest.mark.parametrize("choose", [sample_kmeans_plus_plus, sample_by_leverage])
def test_small_clusters_get_landmarks(choose):
    """k-means++ nearly always finds all ten clusters, leverages most of them; a uniform sample of
    twenty rows finds one to four.
    """
    found = []
    for seed in range(10):
        rows = clusters(seed, 200)
        chosen = choose(Rng(seed), Gaussian(0.02), rows, 20)
        assert len(np.unique(chosen)) == 20
        found.append(len(np.unique(np.round(rows[chosen, 0] / 30))))
    assert min(found) >= (9 if choose is sample_kmeans_plus_plus else 6), found


@pytest.mark.parametrize("landmarks", ["kmeans++", "leverage"])
def test_chosen_landmarks_have_less_error_than_uniform_ones(landmarks):
    rows = np.concatenate([clusters(0, 300), clusters(1, 300)])

    def error(landmarks: str) -> float:
        draws = [
            Nystroem(30, gamma=0.05, landmarks=landmarks, random_state=seed).fit(rows)
            for seed in range(8)
        ]
        return float(
            np.median([np.mean(1 - np.sum(draw.transform(rows) ** 2, axis=1)) for draw in draws])
        )

    assert error(landmarks) < 0.5 * error("uniform"), (error(landmarks), error("uniform"))


def test_kmeans_plus_plus_takes_no_copies_while_there_are_other_rows():
    rows = np.repeat(X[:10], 8, axis=0)
    chosen = sample_kmeans_plus_plus(Rng(3), Gaussian(0.5), rows, 10)
    assert len(np.unique(rows[chosen], axis=0)) == 10
    assert len(np.unique(sample_kmeans_plus_plus(Rng(3), Gaussian(0.5), rows, 40))) == 40


def test_landmarks_do_not_depend_on_blocks():
    def landmarks(step: int, choice: str) -> np.ndarray:
        with override_limits(max_tile_rows=step):
            assert len(list(blocks_of(X))) == -(-60 // step)
            return (
                Nystroem(5, kernel="exp-chi2", landmarks=choice, random_state=0).fit(X).landmarks_
            )

    for choice in ("uniform", "kmeans++", "leverage"):
        np.testing.assert_array_equal(landmarks(17, choice), landmarks(60, choice))


def test_a_million_sparse_columns_stay_sparse():
    rows = sp.random_array((200, 10**6), density=1e-5, format="csr", rng=np.random.default_rng(0))
    fitted = Nystroem(50, kernel="chi2", random_state=0).fit(rows)
    assert sp.issparse(fitted.landmarks_)
    exact = mercer.gram(Chi2(), fitted.landmarks_)
    Z = fitted.transform(fitted.landmarks_)
    np.testing.assert_allclose(Z @ Z.T, exact, atol=1e-12)
    assert sum(array.nbytes for array in fitted.tile_transform_.arrays().values()) < 10**6


def test_landmarks_may_be_sparse_and_the_data_dense():
    dense = Nystroem(kernel="jensen-shannon", landmarks=X[:8]).fit(X)
    sparse = Nystroem(kernel="jensen-shannon", landmarks=sp.csc_array(X[:8])).fit(X)
    np.testing.assert_allclose(sparse.transform(Y), dense.transform(Y), atol=1e-12)


def test_float32_keeps_its_digits_where_the_landmarks_are_nearly_dependent():
    """Eigenvalues down to 1e-12 of the largest: in float32 throughout, the features would be off by
    a tenth.
    """
    fitted = Nystroem(40, gamma=0.002, random_state=0).fit(X)
    assert fitted.tile_transform_.careful
    single, double = (
        fitted.transform(Y.astype(np.float32)),
        fitted.transform(Y.astype(np.float32).astype(np.float64)),
    )
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, double, atol=1e-6)
    assert not Nystroem(10, kernel="exp-chi2", random_state=0).fit(X).tile_transform_.careful


def test_the_kernel_composes():
    both = (Chi2Series(3) >> Nystroem(20, gamma=0.5, random_state=0)).fit(X)
    assert both.kernel_ == Gaussian(0.5).over(Chi2())
    np.testing.assert_allclose(
        both.limit_(X), Gaussian(0.5)(both.maps_[0].transform(X)), atol=1e-13
    )
    with pytest.raises(AttributeError, match="no exact kernel: polynomial"):
        _ = (Chi2Series(3) >> Nystroem(5, kernel=polynomial)).fit(X).kernel_


@pytest.mark.parametrize(
    ("params", "words"),
    [
        (
            {"kernel": "gausian"},
            r"Nystroem: kernel must be one of .* got 'gausian'. Did you mean 'gaussian'",
        ),
        (
            {"kernel": Chi2},
            r"kernel must be one of .*'gaussian', .* a kernel such as "
            r"mercer.kernels.Chi2\(\), or a func",
        ),
        ({"kernel": 3}, "kernel must be one of"),
        (
            {"kernel": "chi2", "gamma": 1.0},
            "gamma must be 'auto' here, since kernel='chi2' has none, got 1.0",
        ),
        (
            {"kernel": Gaussian(2.0), "gamma": 1.0},
            r"since Gaussian\(gamma=2.0\) has its own parameters",
        ),
        (
            {"kernel": Gaussian(2.0), "kernel_params": {"gamma": 1.0}},
            "kernel_params are for kernels by name and functions",
        ),
        ({"kernel": polynomial, "gamma": 1.0}, "a function takes it from kernel_params"),
        (
            {"kernel_params": {"gamma": 1.0}},
            "may have nothing, got .'gamma'.. gamma is a parameter of its own",
        ),
        ({"kernel": "matern", "kernel_params": {"mu": 1.0}}, r"may have \['nu'\], got \['mu'\]"),
        ({"kernel": "matern", "kernel_params": {"nu": 1.0}}, "nu must be 0.5, 1.5 or 2.5"),
        (
            {"kernel": "exp-chi2", "gamma": "scale"},
            "gamma='scale' is for kernels of squared distances",
        ),
        ({"gamma": -1.0}, "gamma must be a finite number above 0, or one of"),
        ({"n_components": 0}, "n_components must be an integer of at least 1, got 0"),
        ({"landmarks": "kmeans"}, "landmarks must be one of .* got 'kmeans'. Did you mean 'kmeans"),
        (
            {"landmarks": X[:, :4]},
            r"at least one row of 6 columns, as the data have, got an array of shape \(60, 4\)",
        ),
        ({"landmarks": X[:0]}, r"got an array of shape \(0, 6\)"),
        ({"landmarks": X[0]}, "landmarks needs 2-d arrays"),
        (
            {"landmarks": np.where(X > 2, np.nan, X)},
            r"Nystroem \(landmarks\) needs finite numbers, got nan at row",
        ),
        ({"kernel": "chi2", "landmarks": -X}, "needs X >= 0, got -.* at row 0, column 0"),
        ({"landmarks": None}, "landmarks must be one of .*, or rows with the columns of the data"),
    ],
)
def test_parameters_that_do_not_go_together_are_refused(params, words):
    with pytest.raises(ValueError, match=words):
        Nystroem(**{"n_components": 5, **params}).fit(X)


def test_rows_outside_the_domain_of_the_kernel_are_named_by_place():
    bad = X.copy()
    bad[7, 2] = -0.5
    with pytest.raises(ValueError, match=r"needs X > -0.5, got -0.5 at row 7, column 2"):
        Nystroem(5, kernel="skewed-chi2", kernel_params={"skew": 0.5}).fit(bad)
    fitted = Nystroem(5, kernel="chi2").fit(X)
    with pytest.raises(
        ValueError, match=r"Nystroem needs X >= 0, got -0.5 at row 7, column 2. For signed data use"
    ):
        fitted.transform(bad)


def test_numbers_beyond_float64_are_named_by_place_in_any_tile():
    rows = np.ones((2000, 3))
    fitted = Nystroem(3, kernel=Linear(), random_state=0).fit(rows + np.eye(3)[np.arange(2000) % 3])
    rows[1700, 1] = 1.7e308
    for some in (rows, sp.csr_array(rows)):
        with pytest.raises(ValueError, match=r"got 1.7e\+308 at row 1700, column 1"):
            fitted.transform(some)
    with pytest.raises(
        ValueError,
        match=r"Nystroem: in the landmarks, Linear\(\) is beyond float64: got 1.7e\+308 at row",
    ):
        Nystroem(landmarks=rows, kernel="linear").fit(np.ones((5, 3)))


def test_called_is_a_kernel_like_the_others():
    k = CallableKernel(polynomial, {"degree": 2})
    assert (k + Chi2())(X).shape == (60, 60)
    np.testing.assert_allclose(mercer.gram(k, X, Y), polynomial(X, Y, 2), rtol=1e-13)
    D = k.squared_distance(X)
    np.testing.assert_allclose(D, D.T, atol=1e-9)
    assert (np.diag(D) == 0).all()


@pytest.mark.full
def test_blocks_of_proposals_sample_pivots_as_one_at_a_time_does():
    """Three pivots of six: the probability of each sequence is that of randomly pivoted Cholesky,
    p(i) = K_ii/trace, then of the residuals.
    """
    A = np.random.default_rng(0).normal(size=(6, 4))
    K = A @ A.T
    weights = np.array([1.0, 2.0, 1.0, 0.5, 1.0, 3.0])

    def probabilities(R, chosen, p, table):
        if len(chosen) == 3:
            table[chosen] = p
            return table
        share = weights * np.maximum(np.diag(R), 0)
        share = np.where(np.isin(np.arange(6), chosen), 0, share) / share.sum()
        for i in np.flatnonzero(share):
            rest = R - np.outer(R[:, i], R[i]) / R[i, i]
            probabilities(rest, (*chosen, int(i)), p * share[i], table)
        return table

    expected = probabilities(K, (), 1.0, {})
    counts = dict.fromkeys(expected, 0)
    draws = 6_000
    for seed in range(draws):
        propose = propose_by_residual(Rng(seed), "test", 3, weights)
        pivots, _ = pivoted_cholesky(lambda i, j: K[i][:, j], np.diag(K).copy(), 3, propose)
        counts[tuple(map(int, pivots))] += 1
    frequency = np.array([counts[key] for key in expected])
    mean = draws * np.array(list(expected.values()))
    likely = mean > 5
    statistic = np.sum((frequency - mean)[likely] ** 2 / mean[likely])
    assert likely.sum() > 40
    assert statistic < likely.sum() + 5 * np.sqrt(2 * likely.sum())


@every_kernel
def test_the_trace_error_is_that_of_the_rows_of_which_landmarks_are_chosen(kernel):
    fitted = Nystroem(12, kernel=kernel, random_state=0).fit(X)
    squares = np.sum(fitted.transform(X) ** 2)
    total = np.trace(fitted.kernel_(X))
    assert fitted.trace_error_ == pytest.approx(1 - squares / total, rel=1e-6, abs=1e-9)
    assert Nystroem(12, kernel=kernel, landmarks="uniform").fit(X).trace_error_ is None


def test_pivoted_cholesky_has_a_fifth_of_the_error_of_uniform_landmarks_on_small_clusters():
    rows = clusters(0)
    errors = {
        name: np.median(
            [
                relative_error(Nystroem(40, landmarks=name, random_state=seed).fit(rows), rows)
                for seed in range(5)
            ]
        )
        for name in ("uniform", "rpcholesky")
    }
    assert errors["rpcholesky"] < errors["uniform"] / 5


def test_repeated_rows_are_chosen_once_and_others_fill_the_number():
    rows = np.repeat(X[:4], 30, axis=0)
    chosen, error = sample_by_pivoted_cholesky(Rng(0), Gaussian(0.3), rows, 10)
    assert error == 0
    assert len(np.unique(chosen)) == 10 and len(np.unique(rows[chosen[:4]], axis=0)) == 4
    fitted = Nystroem(10, gamma=0.3, random_state=0).fit(rows)
    assert fitted.transform(Y).shape == (25, 10) and relative_error(fitted, rows) < 1e-7


def test_the_factor_of_the_pool_is_bounded():
    assert pool_size(10, 8) == 2048 and pool_size(10, 2**15) == 100
    assert pool_size(1000, 8) == 10_000
    assert pool_size(4000, 8) == 2**28 // 32_000
    assert pool_size(20_000, 8) == 40_000


def test_a_pickle_has_no_copy_of_the_landmarks():
    X = np.random.default_rng(0).normal(size=(300, 40))
    fitted = Nystroem(64, gamma=0.01, random_state=0).fit(X)
    before = pickle.dumps(fitted)
    expected = fitted.transform(X)
    assert len(pickle.dumps(fitted)) == len(before)
    np.testing.assert_array_equal(pickle.loads(before).transform(X), expected)
