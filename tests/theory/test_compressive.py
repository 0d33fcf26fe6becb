"""The theory of projections has its reference values: the compressed kernel, and what the theorems
ask for.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta

from mercer import theory


def test_the_compressed_kernel_has_its_reference_values():
    assert theory.compressed_gaussian(1, 32, 256) == pytest.approx(0.3776904201, abs=5e-11)
    assert theory.compressed_gaussian(1, 32, 256, "gaussian") == pytest.approx(
        0.3790853319, abs=5e-11
    )
    for m, bias in ((50, 0.006777), (100, 0.003184), (200, 0.001365)):
        assert theory.compressed_gaussian(1, m, 784) - np.exp(-1) == pytest.approx(bias, abs=5e-7)
    assert theory.projection_spread(32, 256) == pytest.approx(0.2329, abs=5e-5)
    assert theory.projection_spread(32, 256, "gaussian") == 0.25


@pytest.mark.parametrize(
    ("m", "d", "a"), [(2, 10, 0.3), (50, 784, 5.0), (300, 784, 10.0), (100, 3072, 20.0)]
)
def test_the_compressed_kernel_is_a_mean_over_beta_numbers(m, d, a):
    law = beta(m / 2, (d - m) / 2)
    mean, _ = quad(
        lambda u: np.exp(-a * d / m * law.ppf(u)), 0, 1, limit=400, epsabs=0, epsrel=1e-9
    )
    assert theory.compressed_gaussian(a, m, d) == pytest.approx(mean, rel=1e-7)
    assert theory.compressed_gaussian(a, d, d) == pytest.approx(np.exp(-a), rel=1e-12)
    assert theory.compressed_variance(a, d, d) == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize(
    ("d", "k", "own", "printed", "offset"),
    [(784, 20, 469895.89, 447715.18, 1879583.55), (3072, 50, 1258472.93, 1203021.16, 5033891.73)],
)
def test_theorem_1_has_its_reference_values(d, k, own, printed, offset):
    setting = (0.1, 0.01, d, k, np.sqrt(d) / 10, 20.0)
    assert theory.components_sparse(*setting) == 2 * int(np.ceil(own))
    assert theory.components_sparse(*setting, constant=2.0) == 2 * int(np.ceil(printed))
    assert theory.components_sparse(*setting, form="offset") == int(np.ceil(offset))
    assert (
        theory.components_sparse(*setting)
        < theory.components_uniform(0.1, 0.01, d, np.sqrt(d) / 10, 20.0) / 10
    )


def test_theorem_3_has_its_reference_values_and_is_vacuous_at_practical_sizes():
    assert theory.bound_isometry(0.5, 6611, 784, 5) == 1.0  # 6611.86 for vectors with 10 entries
    assert theory.bound_isometry(0.5, 6612, 784, 5) < 1.0
    assert theory.measurements_isometry(0.5, 0.01, 784, 10) == 12460  # 12459.49
    assert theory.bound_isometry(0.5, 784, 784, 10) == 1.0


def test_sizes_of_theorem_2_meet_its_bound_and_say_where_it_is_vacuous():
    setting = (100_000, 1, 0.5, 1.0)
    sizes = theory.sizes_compressive(0.9, 0.1, *setting)
    assert not sizes.vacuous and sizes.n_measurements < 100_000
    assert theory.bound_compressive(0.9, sizes.n_components, sizes.n_measurements, *setting) <= 0.1
    assert (
        theory.bound_compressive(0.9, sizes.n_components - 2, sizes.n_measurements - 1, *setting)
        > 0.1
    )
    assert theory.bound_compressive(0.9, 2, sizes.n_measurements, *setting) == 1.0
    images = theory.sizes_compressive(0.1, 0.01, 784, 20, 1 / 200, 20.0)
    assert images.vacuous and images.n_measurements > 784


def test_theorem_2_is_theorem_1_on_the_measurements_and_theorem_3_with_half_the_error_each():
    half, D, m, d, z, diameter = (
        0.45,
        3000,
        1200,
        10_000,
        2,
        1.0,
    )  # gamma = 1/2, so that the slope of the kernel is at most e^(-1/2)
    t = half * np.exp(0.5) / diameter
    inside = 4 * np.e * d * np.sqrt(m) * (1 + t) * diameter / (z * half)
    features = 3 * inside ** (2 * z / (z + 2)) * np.exp(-D / 2 * half**2 / (4 * (z + 2)))
    isometry = 2 * (12 * np.e * d / (z * t)) ** z * np.exp(-m * (t**2 / 16 - t**3 / 48))
    assert 0.1 < features + isometry < 0.2
    found = theory.bound_compressive(2 * half, D, m, d, z // 2, 0.5, diameter)
    assert found == pytest.approx(features + isometry, rel=1e-9)


def test_the_lipschitz_constant_of_the_gaussian_is_its_steepest_slope():
    r = np.linspace(0, 5, 200_001)
    steepest = np.abs(np.diff(np.exp(-0.7 * r**2))).max() / (r[1] - r[0])
    error, diameter = 0.2, 3.0
    t = error / (2 * steepest * diameter)
    m = theory.measurements_isometry(t, 0.05, 1000, 2)
    assert theory.sizes_compressive(
        error, 0.1, 1000, 2, 0.7, diameter
    ).n_measurements == pytest.approx(m, rel=1e-5)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: theory.compressed_gaussian(-1, 3, 5),
            "a must be a finite number of at least 0, got -1",
        ),
        (
            lambda: theory.compressed_gaussian(1, 6, 5),
            "n_measurements must be at most d=5 for an orthoprojector, got 6",
        ),
        (
            lambda: theory.compressed_gaussian(1, 3, 5, "hadamard"),
            "method must be 'orthoprojector' or 'gaussian'",
        ),
        (
            lambda: theory.components_sparse(0.1, 0.1, 10, 6, 1.0, 1.0),
            "k must be at most d/2 = 5, .* got 6",
        ),
        (
            lambda: theory.components_sparse(0.1, 2, 10, 2, 1.0, 1.0),
            "delta must be a number between 0 and 1, got 2",
        ),
        (
            lambda: theory.bound_sparse(0.1, 10, 10, 2, 1.0, 1.0, "pair"),
            "form must be 'paired' or 'offset'",
        ),
        (
            lambda: theory.measurements_isometry(1.5, 0.1, 10, 2),
            "distortion must be a number between 0 and 1",
        ),
        (
            lambda: theory.sizes_compressive(0.9, 0.1, 10, 2, 0.5, 0.1),
            "error must be below 2 diameter",
        ),
    ],
)
def test_arguments_out_of_range_are_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()
