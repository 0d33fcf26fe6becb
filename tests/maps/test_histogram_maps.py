"""Maps for non-negative data: reference values, identities, rates and bad input beyond the
battery.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.kernel_approximation import AdditiveChi2Sampler

from mercer import (
    Chi2Chebyshev,
    Chi2Series,
    ExpChi2,
    Hellinger,
    Homogeneous,
    RandomFourier,
    RandomLaplace,
    SkewedFourier,
)
from mercer.kernels import Chi2
from mercer.maps import _chi2_poles

A = np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.1, 0.0, 0.5]])
RNG = np.random.default_rng(0)
HISTOGRAMS = RNG.dirichlet(np.full(30, 0.3), size=60)


def dot(feature_map, X=A) -> float:
    Z = feature_map.fit(X).transform(X)
    return float(Z[0] @ Z[1])


# Homogeneous maps

TABLE = [  # kernel, window, n, period, c, <psi(xA), psi(zA)>
    ("chi2", "uniform", 1, 9.51, [0.6606924613, 0.1632343755], 0.74664301),
    (
        "chi2",
        "uniform",
        3,
        13.799818,
        [0.4553092968, 0.2060423601, 0.0519386021, 0.0124627944],
        0.73912627,
    ),
    ("chi2", "rectangular", 1, 7.924951, [0.6545039669, 0.1694011948], 0.73696570),
    (
        "chi2",
        "rectangular",
        3,
        11.4032,
        [0.5104983455, 0.2075043941, 0.0276378162, 0.0094999925],
        0.73782135,
    ),
    ("jensen-shannon", "uniform", 1, 13.88, [0.6530778302, 0.1636133064], 0.75762770),
    (
        "jensen-shannon",
        "uniform",
        3,
        18.740817,
        [0.4836886305, 0.2075159611, 0.0414412682, 0.0081194575],
        0.76431701,
    ),
    ("jensen-shannon", "rectangular", 1, 10.688877, [0.6923903322, 0.1567743723], 0.76878957),
    (
        "jensen-shannon",
        "rectangular",
        3,
        16.33,
        [0.5218247117, 0.2092572789, 0.0217571196, 0.0083357102],
        0.76460509,
    ),
    ("intersection", "uniform", 1, 6.998932, [0.5715157470, 0.1353112702], 0.61776897),
    (
        "intersection",
        "uniform",
        3,
        8.777303,
        [0.4557208758, 0.1494296927, 0.0495405984, 0.0234332590],
        0.61285014,
    ),
    ("intersection", "rectangular", 1, 4.896269, [0.5767396765, 0.1393375866], 0.58769162),
    (
        "intersection",
        "rectangular",
        3,
        6.287582,
        [0.5040721597, 0.1538274557, 0.0296903744, 0.0207925283],
        0.59831763,
    ),
]


@pytest.mark.parametrize(("kernel", "window", "n", "period", "c", "product"), TABLE)
def test_homogeneous_maps_have_their_reference_values(kernel, window, n, period, c, product):
    phi = Homogeneous(n, kernel=kernel, window=window).fit(A)
    amplitudes = phi.tile_transform_.stages[0].amplitudes
    assert phi.period_ == pytest.approx(period, abs=6e-7)
    np.testing.assert_allclose(amplitudes**2 / [1, *[2] * n], c, atol=6e-11)
    assert dot(phi) == pytest.approx(product, abs=6e-9)


def test_a_homogeneous_map_of_one_number_is_in_the_documented_order():
    Z = Homogeneous(1, window="uniform").fit_transform([[0.3, 0.3]])
    np.testing.assert_allclose(Z, [[0.4452052767, 0.2190555460, -0.2235068077] * 2], atol=6e-11)


@pytest.mark.parametrize(("steps", "interval"), [(1, 0.8), (2, 0.5), (3, 0.4)])
def test_homogeneous_equals_scikit_learn_with_its_periods(steps, interval):
    X = HISTOGRAMS
    theirs = AdditiveChi2Sampler(sample_steps=steps).fit(X).transform(X)
    ours = Homogeneous(steps - 1, window="uniform", period=2 * np.pi / interval).fit(X).transform(X)
    width = 2 * steps - 1
    reordered = (
        ours.reshape(len(X), -1, width).transpose(0, 2, 1).reshape(len(X), -1)
    )  # scikit-learn: by component
    np.testing.assert_allclose(reordered, theirs, rtol=0, atol=1e-15)


def test_homogeneous_is_right_where_scikit_learn_is_not():
    counts = np.array([[3, 0, 7], [1, 2, 0]])
    phi = Homogeneous(2).fit(counts)
    np.testing.assert_array_equal(phi.transform(counts), phi.transform(counts.astype(float)))
    stored = sp.csr_array((np.array([0.0, 0.5]), np.array([0, 1]), np.array([0, 2])), shape=(1, 3))
    assert np.isfinite(phi.transform(stored).toarray()).all()
    assert Homogeneous(10).fit_transform(A).shape == (2, 4 * 21)
    for x in (1e-7, 300.0, 1e6):
        assert np.linalg.norm(Homogeneous(1).fit_transform([[x]])) == pytest.approx(
            np.sqrt(x), rel=0.2
        )


def test_no_terms_are_a_scaled_square_root():
    np.testing.assert_allclose(
        np.diff(Homogeneous(0).fit_transform(A) / np.sqrt(np.where(A, A, 1)), axis=0)[:, [0, 1, 3]],
        0,
        atol=1e-15,
    )


# The direct series


def test_the_series_has_its_reference_values():
    ks = [0.5, 0.05, 0.005]
    Z = Chi2Series(3, poles=ks).fit_transform([[0.3], [0.02]])
    np.testing.assert_allclose(Z[0], [0.5303300859, -0.0958314847, -0.0248398167], atol=6e-11)
    np.testing.assert_allclose(Z[1], [0.0543928293, -0.1179464428, 0.0447575281], atol=6e-11)
    assert Z[0] @ Z[1] == pytest.approx(0.0390373678, abs=6e-11)
    assert dot(Chi2Series(3, poles=ks)) == pytest.approx(0.7285091979, abs=6e-11)
    x = Chi2Series(3, poles=ks).fit_transform(A)[0]
    assert x @ x == pytest.approx(0.9722008388, abs=6e-11)
    assert dot(Chi2Series(3, poles=_chi2_poles.zolotarev_poles(1e-3, 1, 3))) == pytest.approx(
        0.7224812006, abs=6e-11
    )
    assert dot(Chi2Series(5, poles=_chi2_poles.zolotarev_poles(1e-3, 1, 5))) == pytest.approx(
        0.7358919534, abs=6e-11
    )


def test_zolotarev_poles_have_their_reference_values():
    np.testing.assert_allclose(
        _chi2_poles.zolotarev_poles(1e-3, 1, 2), [0.24757319, 0.00403921], atol=6e-9
    )
    np.testing.assert_allclose(
        _chi2_poles.zolotarev_poles(1e-3, 1, 3), [0.47223199, 0.03162278, 0.0021176], atol=6e-9
    )
    expected = [0.73306723, 0.16497956, 0.03162278, 0.00606136, 0.00136413]
    np.testing.assert_allclose(_chi2_poles.zolotarev_poles(1e-3, 1, 5), expected, atol=6e-9)


@pytest.mark.parametrize(
    ("n", "first", "error"),
    [
        (1, [0.6180339], 5.572811e-2),
        (2, [0.13165169, 0.7673265], 1.020523e-2),
        (3, [0.03454434, 0.24854695, 0.83184485], 2.658296e-3),
        (5, [0.00394509, 0.02900611, 0.12627941, 0.41018576, 0.89153697], 3.033949e-4),
        (8, [], 2.295987e-5),
        (10, [], 5.316372e-6),
        (20, [], 1.66e-8),
    ],
)
def test_minimax_poles_have_their_reference_values(n, first, error):
    found = _chi2_poles.minimax_poles(n)
    np.testing.assert_allclose(found[: len(first)], first, rtol=2e-5)
    x = np.geomspace(1e-12, 1, 200_001)
    largest = np.max(x * _chi2_poles.residual(x, found) ** 2)
    assert largest == pytest.approx(error, rel=1e-3 if n == 20 else 2e-5)


def test_minimax_products_have_their_reference_values():
    assert dot(Chi2Series(3, poles=[0.03454434, 0.24854695, 0.83184485])) == pytest.approx(
        0.7363263645, abs=2e-7
    )
    five = [0.00394509, 0.02900611, 0.12627941, 0.41018576, 0.89153697]
    assert dot(Chi2Series(5, poles=five)) == pytest.approx(0.7379363436, abs=2e-7)


def test_greedy_poles_have_their_reference_values():
    x = np.geomspace(1e-3, 1, 1001)
    expected = [1, 0.3334264128, 0.1044720219, 0.6561452663, 0.0303389118]
    np.testing.assert_allclose(_chi2_poles.greedy_poles(x, np.ones(1001), 5), expected, atol=6e-11)


def test_the_error_of_the_series_is_the_product_of_its_residuals():
    x = np.geomspace(1e-4, 1, 50)[:, None]
    phi = Chi2Series(4).fit(x)
    Z = phi.transform(x)
    P = _chi2_poles.residual(x.ravel(), phi.poles_)
    K = Chi2()(x)
    np.testing.assert_allclose(K - Z @ Z.T, np.outer(P, P) * K, atol=1e-15)
    assert np.linalg.eigvalsh(K - Z @ Z.T).min() > -1e-14


def test_the_series_is_the_nystroem_map_with_landmarks_at_its_poles():
    landmarks = np.array([0.7, 0.2, 0.05, 0.01])
    x = np.geomspace(1e-3, 1, 40)
    C = Chi2()(x[:, None], landmarks[:, None])
    nystroem = C @ np.linalg.solve(Chi2()(landmarks[:, None]), C.T)
    Z = Chi2Series(4, poles=landmarks).fit_transform(x[:, None])
    np.testing.assert_allclose(Z @ Z.T, nystroem, atol=1e-12)


def test_the_relative_error_falls_geometrically_away_from_zero():
    x = np.geomspace(1e-3, 1, 2001)
    errors = [
        np.max(_chi2_poles.residual(x, _chi2_poles.zolotarev_poles(1e-3, 1, n)) ** 2)
        for n in (5, 10)
    ]
    np.testing.assert_allclose(errors, [1.04e-2, 2.72e-5], rtol=0.01)
    for n, error in zip((5, 10), errors, strict=True):
        assert error == pytest.approx(4 * np.exp(-(np.pi**2) * n / np.log(4e3)), rel=0.01)


def test_fitted_poles_are_better_than_the_papers_and_than_minimax():
    def error(p):
        phi = Chi2Series(5, poles=p).fit(HISTOGRAMS[:30])
        Z = phi.transform(HISTOGRAMS[30:])
        K = Chi2()(HISTOGRAMS[30:])
        return np.linalg.norm(Z @ Z.T - K) / np.linalg.norm(K)

    fit, greedy, minimax = (error(p) for p in ("fit", "greedy", "minimax"))
    assert fit < greedy
    assert fit < minimax
    Z = AdditiveChi2Sampler(sample_steps=3).fit_transform(HISTOGRAMS[30:])
    K = Chi2()(HISTOGRAMS[30:])
    assert fit < np.linalg.norm(Z @ Z.T - K) / np.linalg.norm(K) / 10


def test_fitted_poles_are_a_minimum_of_the_trace_of_the_error():
    x = np.sort(HISTOGRAMS[HISTOGRAMS > 1e-4])
    found = _chi2_poles.fit_poles(x, np.ones(len(x)), 4)
    least = x @ _chi2_poles.residual(x, found) ** 2
    for q in range(4):
        for factor in (0.95, 1.05):
            moved = found.copy()
            moved[q] *= factor
            assert x @ _chi2_poles.residual(x, moved) ** 2 > least


@pytest.mark.parametrize("p", ["fit", "greedy", "minimax"])
def test_poles_of_data_with_few_values_exist(p):
    for X in (np.zeros((3, 2)), np.full((3, 2), 0.5), np.array([[0.5, 1.0]])):
        Z = Chi2Series(4, poles=p).fit_transform(X)
        assert np.isfinite(Z).all()


# Chebyshev


def test_the_chebyshev_series_has_its_reference_values():
    Z = Chi2Chebyshev(6, center=1.0).fit_transform([[0.3], [0.02], [1.0]])
    first = [0.4615384615, 0.2501437754, -0.0958642115, 0.0588888186, -0.0592162766, 0.0262557570]
    second = [
        0.0392156863,
        0.0690599635,
        -0.0859959250,
        -0.0483701368,
        -0.0128818544,
        -0.0354384596,
    ]
    np.testing.assert_allclose(Z, [first, second, [1, 0, 0, 0, 0, 0]], atol=6e-11)
    assert Z[0] @ Z[1] == pytest.approx(0.0406022907, abs=6e-11)
    twenty = Chi2Chebyshev(20, center=1.0).fit_transform([[0.3], [0.02]])
    assert twenty[0] @ twenty[1] == pytest.approx(0.0382065777, abs=6e-11)
    for n, value in ((3, 0.7141576112), (5, 0.7268465794), (10, 0.7331253635)):
        assert dot(Chi2Chebyshev(n, center=1.0)) == pytest.approx(value, abs=6e-11)


def test_the_chebyshev_error_falls_as_one_over_n():
    x = np.geomspace(1e-6, 1, 300)[:, None]
    K = Chi2()(x)
    errors = {}
    for n in (5, 8, 9, 16, 17, 32, 33):
        Z = Chi2Chebyshev(n, center=1.0).fit_transform(x)
        errors[n] = np.abs(Z @ Z.T - K).max()
    for n in (5, 9, 17, 33):
        assert errors[n] * n == pytest.approx(0.0436, rel=0.02)
    for n in (8, 16, 32):  # even numbers of terms come down to it from above
        assert 0.0436 < errors[n] * n < 0.0436 * (1 + 1.2 / n)


def test_a_fitted_center_is_better_than_the_papers():
    def error(center):
        Z = Chi2Chebyshev(5, center=center).fit_transform(HISTOGRAMS)
        K = Chi2()(HISTOGRAMS)
        return np.linalg.norm(Z @ Z.T - K) / np.linalg.norm(K)

    assert error("fit") < error(1.0) / 1.5
    small = HISTOGRAMS / 100  # where the paper's series has its center far from the data
    Z, Z1 = (Chi2Chebyshev(5, center=center).fit_transform(small) for center in ("fit", 1.0))
    K = Chi2()(small)
    assert np.linalg.norm(Z @ Z.T - K) < np.linalg.norm(Z1 @ Z1.T - K) / 4


# Laplace


def test_auto_beta_makes_the_diagonal_about_one_over_e():
    for kernel in ("exponential", "reciprocal"):
        phi = RandomLaplace(8, kernel=kernel).fit(HISTOGRAMS)
        assert phi.kernel_.diagonal(HISTOGRAMS).mean() == pytest.approx(np.exp(-1), rel=0.25)
    assert RandomLaplace(8).fit(HISTOGRAMS).beta_ == pytest.approx(
        1 / np.median(np.sqrt(2 * HISTOGRAMS).sum(axis=1))
    )
    assert RandomLaplace(8, kernel="reciprocal").fit(HISTOGRAMS).beta_ == pytest.approx(
        np.median(2 * HISTOGRAMS.sum(axis=1))
    )
    assert RandomLaplace(8).fit(np.zeros((3, 2))).beta_ == 1.0


@pytest.mark.parametrize("kernel", ["exponential", "reciprocal"])
@pytest.mark.parametrize("shift", [0.0, 0.01])
def test_normalized_rows_have_the_exact_diagonal(kernel, shift):
    phi = RandomLaplace(50, kernel=kernel, shift=shift, random_state=0).fit(HISTOGRAMS)
    expected = phi.limit_.diagonal(HISTOGRAMS)
    for X in (HISTOGRAMS, sp.csr_array(HISTOGRAMS)):
        Z = phi.transform(X)
        np.testing.assert_allclose((Z**2).sum(axis=1), expected, rtol=1e-12)


def test_heavy_weights_never_give_nan():
    X = np.array([[0.0, 1e-30, 3e38], [0.0, 0.0, 0.0], [3e38, 3e38, 3e38]], np.float32)
    for normalize in (True, False):
        for beta in (1e-3, 1e6):
            Z = (
                RandomLaplace(4096, beta=beta, normalize=normalize, random_state=0)
                .fit(X)
                .transform(X)
            )
            assert np.isfinite(Z).all()
            np.testing.assert_allclose(Z[1], 1 / np.sqrt(4096), rtol=1e-6)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("shift", [0.0, 0.2])
def test_laplace_features_of_sparse_rows_are_those_of_dense_rows(shift, normalize):
    phi = RandomLaplace(50, beta=0.7, shift=shift, normalize=normalize, random_state=0).fit(
        HISTOGRAMS
    )
    for X in (HISTOGRAMS, HISTOGRAMS * (np.median(HISTOGRAMS) < HISTOGRAMS)):
        np.testing.assert_allclose(phi.transform(sp.csr_array(X)), phi.transform(X), rtol=1e-12)


def test_plain_features_are_positive_and_at_most_their_value_at_zero():
    Z = RandomLaplace(100, normalize=False, random_state=0).fit_transform(HISTOGRAMS)
    assert ((Z >= 0) & (Z <= 0.1)).all()


def test_normalized_features_have_less_error_on_histograms():
    def error(**params):
        draws = []
        for seed in range(10):
            phi = RandomLaplace(512, random_state=seed, **params).fit(HISTOGRAMS)
            Z, K = phi.transform(HISTOGRAMS), phi.kernel_(HISTOGRAMS)
            draws.append(np.linalg.norm(Z @ Z.T - K) / np.linalg.norm(K))
        return np.median(draws)

    assert error(normalize=True) < error(normalize=False) / 1.5


# Compositions and the rest


def test_exp_chi2_is_the_series_and_then_fourier_features():
    spelt = ExpChi2(64, gamma=0.7, n_terms=3, random_state=5).fit(HISTOGRAMS)
    composed = (Chi2Series(3) >> RandomFourier(64, gamma=0.7, random_state=5)).fit(HISTOGRAMS)
    np.testing.assert_allclose(
        spelt.transform(HISTOGRAMS), composed.transform(HISTOGRAMS), atol=1e-13
    )
    np.testing.assert_allclose(spelt.limit_(HISTOGRAMS), composed.limit_(HISTOGRAMS), atol=1e-13)
    np.testing.assert_allclose(spelt.kernel_(HISTOGRAMS), composed.kernel_(HISTOGRAMS), rtol=1e-12)


def test_exp_chi2_does_not_hold_the_series_of_all_rows():
    import tracemalloc

    X = sp.random_array((4000, 2000), density=0.01, format="csr", rng=np.random.default_rng(0))
    phi = ExpChi2(16, random_state=0).fit(X)
    out = np.empty((4000, 16))
    tracemalloc.start()
    phi.transform(X, out=out)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4000 * 2000 * 5 * 8 / 4


@pytest.mark.parametrize(
    "feature_map",
    [Homogeneous(2), Chi2Series(3), Chi2Chebyshev(3), Hellinger()],
    ids=lambda m: type(m).__name__,
)
def test_sparse_in_sparse_out_with_as_many_entries_as_there_must_be(feature_map):
    X = sp.csr_array(np.where(HISTOGRAMS > 0.02, HISTOGRAMS, 0))
    Z = feature_map.fit(X).transform(X)
    assert Z.format == "csr"
    assert Z.nnz == X.nnz * Z.shape[1] // X.shape[1]
    assert Z.has_canonical_format


@pytest.mark.parametrize(
    "feature_map", [Homogeneous(2), Chi2Series(3), Chi2Chebyshev(3)], ids=lambda m: type(m).__name__
)
def test_signed_maps_are_odd(feature_map):
    signed = feature_map.set_params(signed=True).fit(HISTOGRAMS)
    np.testing.assert_allclose(
        signed.transform(-HISTOGRAMS), -signed.transform(HISTOGRAMS), atol=1e-15
    )
    feature_map.set_params(signed=False)
    with pytest.raises(
        ValueError,
        match=r"Negative values .* at row 0, column \d+\. For signed data use signed=True",
    ):
        feature_map.fit(-HISTOGRAMS)


@pytest.mark.parametrize(
    "feature_map",
    [
        Homogeneous(2),
        Chi2Series(3),
        Chi2Chebyshev(3),
        Hellinger(),
        RandomLaplace(16),
        SkewedFourier(16),
        ExpChi2(16),
    ],
    ids=lambda m: type(m).__name__,
)
def test_zeros_are_exact_and_extremes_stay_finite(feature_map):
    X = np.array([[0.0, 0.0], [5e-324, 1e-300], [1e300, 1.0], [1.0, 0.0]])
    fitted = feature_map.fit(X[[0, 3]])
    Z = fitted.transform(X[[0, 1, 3]])
    assert np.isfinite(Z).all()
    if not isinstance(feature_map, RandomLaplace | SkewedFourier | ExpChi2):
        assert (Z[0] == 0).all()
        assert np.isfinite(fitted.transform(X)).all()


@pytest.mark.parametrize(
    ("feature_map", "words"),
    [
        (Homogeneous(-1), "n_terms must be an integer of at least 0, got -1"),
        (
            Homogeneous(window="round"),
            "window must be 'rectangular' or 'uniform', got 'round'",
        ),
        (Homogeneous(period=0), "period must be a finite number above 0, or 'auto', got 0"),
        (Homogeneous(degree=0), "degree must be a finite number above 0, got 0"),
        (Homogeneous(kernel="chi"), "kernel must be one of .* Did you mean 'chi2'"),
        (Chi2Series(0), "n_terms must be an integer of at least 1, got 0"),
        (
            Chi2Series(2, poles="best"),
            "poles must be one of 'fit', 'greedy', 'minimax', or an array of .*, got 'best'",
        ),
        (Chi2Series(2, poles=[1.0]), "poles must have one number for each of the 2 terms, got"),
        (Chi2Series(2, poles=[1.0, -1.0]), "or an array of finite numbers above 0"),
        (Chi2Chebyshev(2, center=-1), "center must be a finite number above 0, or 'fit', got -1"),
        (SkewedFourier(8, skew=0), "skew must be a finite number above 0, or 'auto', got 0"),
        (SkewedFourier(8, kernel="js"), "kernel must be 'chi2' or 'intersection', got 'js'"),
        (
            RandomLaplace(8, beta="scale"),
            "beta must be a finite number above 0, or 'auto', got 'scale'",
        ),
        (RandomLaplace(8, shift=-1), "shift must be a finite number of at least 0, got -1"),
        (RandomLaplace(8, design="orthogonal"), "design must be one of 'iid', 'sobol', 'lhs'"),
        (
            ExpChi2(8, gamma="scale"),
            "gamma must be a finite number above 0, or 'auto' or 'median', got 'scale'",
        ),
        (ExpChi2(8, n_terms=0), "n_terms must be an integer"),
    ],
    ids=str,
)
def test_wrong_parameters_are_refused_with_a_sentence(feature_map, words):
    with pytest.raises(ValueError, match=words):
        feature_map.fit(A)
