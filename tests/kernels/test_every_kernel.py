"""Exact kernels: reference values, symmetry, positive semi-definiteness, zeros, domains,
compositions.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import kernels
from mercer.kernels import (
    GMM,
    Bits,
    Cauchy,
    Chi2,
    Cosine,
    CosineRBF,
    ExpChi2,
    ExponentialSemigroup,
    Gaussian,
    Hellinger,
    Homogeneous,
    Intersection,
    JensenShannon,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    MinMax,
    ReciprocalSemigroup,
    Resemblance,
    Signed,
    SignStable,
    SkewedChi2,
    SkewedIntersection,
)

A = ([[0.1, 0.2, 0.3, 0.4]], [[0.4, 0.1, 0.0, 0.5]])
B = ([[0.25, 0.25, 0.25, 0.25]], [[0.7, 0.1, 0.1, 0.1]])
G = ([[-5.0, 3.0, 0.0, 2.0]], [[-1.0, 4.0, -2.0, 0.0]])

# kernel, value at pair A, value at pair B; Matern and Cauchy: a = |x - z| by hand at B
REFERENCE = [
    (Linear(), 0.26, 0.25),
    (Gaussian(1 / (2 * 0.5**2)), 0.6703200460, 0.5827482524),
    (Laplacian(1 / 2), 0.6703200460, 0.6376281516),
    (Hellinger(), 0.7886349517, 0.8926716623),
    (Chi2(), 0.7377777778, 0.7969924812),
    (Intersection(), 0.6, 0.55),
    (JensenShannon(), 0.7642106258, 0.8480886328),
    (ExpChi2(1.0), 0.5918840975, 0.6663001478),
    (ExpChi2(0.75), 0.6748037755, 0.7374837107),
    (SkewedChi2(0.01), 0.2683990530, 0.6767183830),
    (SkewedIntersection(0.01), 0.0603694338, 0.1665277083),
    (ExponentialSemigroup(1.0), 0.0638489466, 0.0639596176),
    (ExponentialSemigroup(0.01), 0.9728626657, 0.9728795142),
    (ReciprocalSemigroup(1.0), 0.2076196408, 0.2084318499),
    (ReciprocalSemigroup(10.0), 0.8235875134, 0.8236919686),
    (MinMax(), 3 / 7, 0.3793103448),
    (GMM(), 3 / 7, 0.3793103448),
    (GMM(power=0.5), None, None),
    (Bits(GMM(), 4), 3 / 7 + 4 / 7 / 16, None),
    (SignStable(1.0), None, None),  # its values are in test_signs
    (SignStable(1.5), None, None),
    (Cosine(), 0.7324670208, 0.6933752453),
    (CosineRBF(1.0), np.exp(-(1 - 0.7324670208)), np.exp(-(1 - 0.6933752453))),
    (Resemblance(), 3 / 4, 1.0),
    (Cauchy(2.0), 0.7142857143, 1 / (1 + 2 * 0.27)),
    (Matern(0.5, 2.0), 0.4088417198, np.exp(-2 * np.sqrt(0.27))),
    (Matern(1.5, 2.0), 0.5414977503, None),
    (Matern(2.5, 2.0), 0.5864528940, None),
]
ALL = [kernel for kernel, *_ in REFERENCE] + [Gaussian(0.5).over(Chi2()), Chi2() + Gaussian(0.3)]
ALL += [Signed(Chi2()), Homogeneous(JensenShannon(), 0.6), Homogeneous(Intersection(), 2.0)]
every_kernel = pytest.mark.parametrize("kernel", ALL, ids=repr)


def rows(kernel: Kernel, n: int = 30, d: int = 6, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = rng.gamma(0.7, size=(n, d))
    if kernel.domain == "real" and not isinstance(kernel, SkewedChi2 | SkewedIntersection):
        X = X * rng.choice([-1, 1], size=X.shape)
    X[rng.random(X.shape) < 0.3] = 0.0
    X[4] = 0.0
    return X


@pytest.mark.parametrize(("kernel", "at_A", "at_B"), REFERENCE, ids=repr)
def test_kernel_has_its_reference_values(kernel, at_A, at_B):
    for pair, value in ((A, at_A), (B, at_B)):
        if value is not None:
            assert kernel(*pair)[0, 0] == pytest.approx(value, abs=6e-11)


def test_signed_pair_has_its_reference_values():
    assert GMM()(*G)[0, 0] == pytest.approx(4 / 13, abs=1e-15)
    assert Cosine()(*G)[0, 0] == pytest.approx(0.6017934766, abs=6e-11)
    assert CosineRBF(1.0)(*G)[0, 0] == pytest.approx(0.6715233281, abs=6e-11)
    assert CosineRBF(10.0)(*G)[0, 0] == pytest.approx(0.0186470889, abs=6e-11)


def test_power_gmm_is_min_max_of_powers_of_the_split():
    u, v = np.array([0, 5, 3, 0, 0, 0, 2, 0.0]), np.array([0, 1, 4, 0, 0, 2, 0, 0.0])
    expected = np.minimum(u**0.5, v**0.5).sum() / np.maximum(u**0.5, v**0.5).sum()
    assert GMM(power=0.5)(*G)[0, 0] == pytest.approx(expected, abs=1e-15)


def test_every_kernel_of_the_module_has_a_reference_value():
    bases = {
        "Kernel",
        "Additive",
        "CustomAdditive",
        "Euclidean",
        "Radial",
        "ComposedKernel",
        "Sum",
        "Signed",
        "Homogeneous",
        "Centered",
        "Scaled",
        "Metric",
        "CallableKernel",
    }
    assert {type(kernel).__name__ for kernel, *_ in REFERENCE} == set(kernels.__all__) - bases


def test_chi2_distance_has_its_reference_values():
    assert Chi2().squared_distance(*A)[0, 0] == pytest.approx(0.5244444444, abs=6e-11)
    assert Chi2().squared_distance(*B)[0, 0] == pytest.approx(0.4060150376, abs=6e-11)


@every_kernel
def test_gram_is_symmetric_and_positive_semidefinite(kernel):
    X = rows(kernel)
    K = kernel(X)
    np.testing.assert_allclose(K, K.T, rtol=0, atol=1e-14 * np.abs(K).max())
    assert np.linalg.eigvalsh((K + K.T) / 2).min() > -1e-12 * np.abs(K).max() * len(X)


@every_kernel
def test_pairs_diagonal_and_rows_agree_with_the_gram_matrix(kernel):
    X = rows(kernel)
    Z = rows(kernel, seed=1)
    K = kernel(X, Z)
    assert K.dtype == np.float64
    np.testing.assert_allclose(kernel.pairs(X, Z), np.diag(K), rtol=1e-13)
    np.testing.assert_allclose(kernel.diagonal(X), np.diag(kernel(X)), rtol=1e-13)
    np.testing.assert_allclose(kernel(X[3:5], Z[:2]), K[3:5, :2], rtol=1e-13)
    np.testing.assert_array_equal(kernel(sp.csr_array(X), sp.csr_matrix(Z)), K)


@every_kernel
def test_a_column_that_is_zero_in_both_changes_nothing(kernel):
    X = rows(kernel)
    np.testing.assert_allclose(kernel(np.insert(X, [0, 3, 6], 0.0, axis=1)), kernel(X), rtol=1e-13)


@every_kernel
def test_squared_distance_is_what_its_definition_says(kernel):
    X, Z = rows(kernel), rows(kernel, seed=1)
    literal = kernel.diagonal(X)[:, None] + kernel.diagonal(Z)[None, :] - 2 * kernel(X, Z)
    np.testing.assert_allclose(kernel.squared_distance(X, Z), literal, atol=1e-12)


def test_chi2_distance_does_not_cancel_on_near_duplicates():
    x = np.full((1, 50), 0.02)
    z = x * (1 + 1e-9)
    assert Chi2().squared_distance(x, z)[0, 0] == pytest.approx(50 * 0.02 * 1e-18 / 2, rel=1e-6)


@every_kernel
def test_values_at_zero_rows_are_finite(kernel):
    K = kernel(rows(kernel))
    assert np.isfinite(K).all()


@pytest.mark.parametrize(
    "kernel", [MinMax(), GMM(), Resemblance(), Cosine(), Chi2(), Intersection(), Hellinger()]
)
def test_a_zero_row_matches_nothing_not_even_itself(kernel):
    K = kernel([[0.0, 0.0], [1.0, 2.0]])
    np.testing.assert_array_equal(K[0], [0.0, 0.0])


def test_cosine_rbf_leaves_a_zero_row_at_zero():
    K = CosineRBF(3.0)([[0.0, 0.0], [1.0, 2.0]])
    np.testing.assert_allclose(K, [[1.0, np.exp(-1.5)], [np.exp(-1.5), 1.0]], rtol=1e-15)


@pytest.mark.parametrize(
    "kernel", [Chi2(), JensenShannon(), Hellinger(), Intersection(), MinMax(), GMM()], ids=repr
)
@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_additive_kernels_are_homogeneous_from_tiny_to_huge(kernel, scale):
    x, z = np.array(A[0]) * scale, np.array(A[1]) * scale
    factor = 1.0 if isinstance(kernel, MinMax | GMM) else scale
    assert kernel(x, z)[0, 0] / factor == pytest.approx(kernel(*A)[0, 0], rel=1e-12)
    assert np.isfinite(kernel([[1e-300, 1e300]], [[1e300, 1e-300]])).all()


@pytest.mark.parametrize("kernel", [k for k in ALL if k.domain == "nonnegative"], ids=repr)
def test_negative_rows_are_refused_by_place(kernel):
    X = rows(kernel)
    X[7, 2] = -3.36
    with pytest.raises(
        ValueError,
        match=r"Negative values in data: .* needs X >= 0, got -3.36 at row 7, column 2\.",
    ):
        kernel(X)


@pytest.mark.parametrize("kernel", [SkewedChi2(0.5), SkewedIntersection(0.5)], ids=repr)
def test_skewed_kernels_reach_down_to_minus_their_skew(kernel):
    assert np.isfinite(kernel([[-0.4, 1.0]], [[0.0, 2.0]])).all()
    with pytest.raises(ValueError, match=r"needs X > -0.5, got -0.5 at row 0, column 1"):
        kernel([[0.0, -0.5]])


def test_gaussian_over_chi2_is_exponentiated_chi2():
    X, Z = rows(Chi2()), rows(Chi2(), seed=1)
    np.testing.assert_allclose(Gaussian(0.7).over(Chi2())(X, Z), ExpChi2(0.7)(X, Z), rtol=1e-14)
    assert repr(Gaussian(0.7).over(Chi2())) == "Gaussian(gamma=0.7).over(Chi2())"


def test_kernels_of_distances_over_a_map_are_kernels_of_its_features():
    X = rows(Hellinger())
    for outer in (Linear(), Gaussian(0.4), Cauchy(0.4), Matern(2.5, 0.4), Cosine(), CosineRBF(2.0)):
        np.testing.assert_allclose(outer.over(Hellinger())(X), outer(np.sqrt(X)), atol=1e-12)
    nested = Gaussian(0.4).over(Cosine().over(Hellinger()))
    roots = np.sqrt(X)
    norms = np.linalg.norm(roots, axis=1, keepdims=True)
    np.testing.assert_allclose(
        nested(X), Gaussian(0.4)(roots / np.where(norms, norms, 1)), atol=1e-12
    )
    assert Gaussian(0.4).over(Cosine()).over(Hellinger()) == nested


def test_a_kernel_without_a_value_over_another_says_so():
    with pytest.raises(
        TypeError, match=r"Laplacian\(gamma=1.0\) depends on more than inner products"
    ):
        Laplacian().over(Chi2())


def test_sums_add_and_print_as_formulas():
    k = Chi2() + Hellinger() + Gaussian(2.0)
    X = rows(Chi2())
    np.testing.assert_allclose(k(X), Chi2()(X) + Hellinger()(X) + Gaussian(2.0)(X), rtol=1e-14)
    assert repr(k) == "Chi2() + Hellinger() + Gaussian(gamma=2.0)"
    assert k.domain == "nonnegative"


@pytest.mark.parametrize("bad", [0.0, -1.0, np.inf, np.nan, "1", True])
def test_parameters_that_are_not_positive_numbers_are_refused(bad):
    with pytest.raises(ValueError, match=r"Gaussian: gamma must be a finite number above 0, got"):
        Gaussian(bad)


def test_matern_has_three_smoothnesses():
    with pytest.raises(ValueError, match=r"nu must be 0.5, 1.5 or 2.5, got 1.0"):
        Matern(1.0)


@pytest.mark.parametrize(
    ("X", "Z", "words"),
    [
        ([1.0, 2.0], None, "needs a 2-d array of real numbers, got 1-d"),
        ([["a"]], None, "needs a 2-d array of real numbers"),
        ([[1.0, 2.0]], [[1.0]], "got X with 2 columns and Z with 1"),
    ],
)
def test_wrong_shapes_are_refused(X, Z, words):
    with pytest.raises(ValueError, match=words):
        Linear()(X, Z)


@pytest.mark.parametrize("scale", [1e-200, 1e-30, 1e30, 1e150, 1e300])
def test_kernels_of_angles_and_ratios_do_not_see_the_scale_of_the_data(scale):
    x, z = np.array(G[0]), np.array(G[1])
    for kernel in (Cosine(), CosineRBF(2.0), GMM(), GMM(power=2.0), GMM(power=0.5), Resemblance()):
        assert kernel(x * scale, z * scale)[0, 0] == pytest.approx(kernel(x, z)[0, 0], rel=1e-12)
    assert MinMax()(abs(x) * scale, abs(z) * scale)[0, 0] == pytest.approx(
        MinMax()(abs(x), abs(z))[0, 0], rel=1e-12
    )


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_radial_kernels_are_zero_far_away():
    for kernel in (Gaussian(), Cauchy(), Matern(0.5), Matern(1.5), Matern(2.5)):
        np.testing.assert_array_equal(kernel([[1e200], [0.0]]), np.eye(2))


def test_chi2_at_the_end_of_the_range_is_right():
    x = np.full((1, 1), 1.5e308)
    assert Chi2()(x, x)[0, 0] == x[0, 0]
    assert Chi2().squared_distance(x, 0 * x)[0, 0] == x[0, 0]
    assert JensenShannon()(x / 4, x / 4)[0, 0] == pytest.approx(x[0, 0] / 4)
    assert MinMax()([[1.5e308, 1.5e308]])[0, 0] == 1.0


def test_signed_and_homogeneous_kernels_are_what_they_say():
    x, z = np.array([[-0.3, 0.2]]), np.array([[-0.1, -0.4]])
    expected = 2 * 0.3 * 0.1 / 0.4 - 2 * 0.2 * 0.4 / 0.6
    assert Signed(Chi2())(x, z)[0, 0] == pytest.approx(expected, rel=1e-14)
    both = np.sqrt(0.3 * 0.1) * (2 * 0.3 * 0.1 / 0.4) + np.sqrt(0.2 * 0.4) * (2 * 0.2 * 0.4 / 0.6)
    assert Homogeneous(Chi2(), 2.0)(abs(x), abs(z))[0, 0] == pytest.approx(both, rel=1e-14)


def test_sums_are_flat_however_they_are_bracketed():
    a, b, c = Chi2(), Hellinger(), Gaussian(2.0)
    assert a + (b + c) == (a + b) + c
