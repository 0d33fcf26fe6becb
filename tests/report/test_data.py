"""Gram errors against size, their theoretical values, and Gram matrices of a report."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from tests.helpers.leaderboards import rows

from mercer import (
    GCWS,
    Chi2Series,
    ExpChi2,
    FeaturePCA,
    Hellinger,
    KernelClassifier,
    RandomFourier,
    RandomLaplace,
    Scaled,
    SkewedFourier,
    kernels,
)
from mercer.evaluation.kernel_error import draw_pairs, measure
from mercer.report.data import (
    SampleSplit,
    gram_heat_map,
    measure_curve,
    scalar_heat_map,
    split_model,
)
from mercer.report.theory import expected_error


@pytest.fixture(scope="module")
def sample() -> SampleSplit:
    return SampleSplit.of(*rows())


RANDOM = [
    RandomFourier(64, gamma=4.0, design="iid"),
    RandomFourier(64, gamma=4.0, design="iid", form="offset"),
    RandomFourier(256, gamma=4.0, design="iid", form="offset", normalize=True),
    RandomFourier(64, kernel="laplacian", gamma=0.5),
    RandomFourier(64, kernel="cauchy", gamma=4.0, design="iid"),
    RandomFourier(64, kernel="cosine-rbf", gamma=2.0, design="iid"),
    pytest.param(
        ExpChi2(64, gamma=2.0, design="iid", n_terms=2, poles="minimax"), marks=pytest.mark.full
    ),
    GCWS(32, bits=2),
    RandomLaplace(64, normalize=False, beta=0.3, shift=0.3),
    RandomLaplace(256, beta=0.3),
]


@pytest.mark.parametrize("feature_map", RANDOM, ids=repr)
def test_the_mean_square_of_many_draws_is_what_theory_expects(feature_map, sample):
    pairs = draw_pairs(len(sample.test), 2000, 0)
    draws = [
        clone(feature_map).set_params(random_state=seed).fit(sample.train) for seed in range(60)
    ]
    measured = [measure(one, sample.test, pairs) for one in draws]
    found = expected_error(draws[0], sample.test, pairs)
    size = feature_map.get_params()[feature_map.size_parameter]
    for parts, square in (
        ([one.errors for one in measured], found.error(size) ** 2),
        ([one.sampling for one in measured], found.constant**2 / size),
    ):
        squares = [one.part(part) ** 2 for one, part in zip(measured, parts, strict=True)]
        spread = np.std(squares) / np.sqrt(len(squares))
        assert abs(np.mean(squares) - square) < 4 * spread + 0.03 * np.mean(squares)


def test_theory_of_sparse_rows_is_that_of_the_same_rows(sample):
    pairs = draw_pairs(len(sample.test), 500, 0)
    for feature_map in (
        RandomFourier(64, gamma=4.0, kernel="cauchy"),
        RandomLaplace(64),
        RandomFourier(64, gamma=1.0),
    ):
        fitted = feature_map.set_params(random_state=0).fit(sample.train)
        dense = expected_error(fitted, sample.test, pairs)
        assert expected_error(fitted, csr_array(sample.test), pairs).constant == pytest.approx(
            dense.constant
        )


def test_exact_maps_of_a_composition_are_steps_before_its_last_map(sample):
    fourier = RandomFourier(64, gamma=2.0)
    roots = SampleSplit(np.sqrt(sample.train), np.sqrt(sample.test), sample.y)
    found = measure_curve("both", KernelClassifier(Hellinger() >> fourier), sample, 0)
    assert (
        found == measure_curve("both", KernelClassifier(fourier), roots, 0)
        and found.theory is not None
    )
    hashed = Scaled() >> GCWS(16)  # whose kernel has no formula as a whole
    assert measure_curve("gcws", KernelClassifier(hashed), sample, 0).errors[-1] < 0.5
    assert (
        gram_heat_map("gcws", KernelClassifier(hashed), sample, False, 0).kernel == "GMM(power=1.0)"
    )


def test_scaled_columns_are_not_centered_in_front_of_a_map_of_numbers_of_at_least_0(sample):
    model = KernelClassifier(Scaled() >> SkewedFourier(32, skew=0.5, random_state=0))
    steps, last = split_model(model)
    assert [step.center for step in steps] == [False] and isinstance(last, SkewedFourier)
    assert measure_curve("skewed", model, sample, 0) is not None
    assert gram_heat_map("skewed", model, sample, False, 0).error < 0.5


def test_a_composition_whose_kernel_has_no_formula_has_neither_curve_nor_heat_map(sample):
    model = KernelClassifier(RandomFourier(16, gamma=2.0) >> FeaturePCA(8) >> GCWS(16))
    assert measure_curve("odd", model, sample, 0) is None
    assert (
        gram_heat_map("odd", model, sample, False, 0) is None
        and scalar_heat_map("odd", model, sample, 0) is None
    )


def test_the_bound_of_a_pair_holds_and_is_none_where_it_is_vacuous(sample):
    pairs = draw_pairs(len(sample.test), 2000, 0)
    fitted = RandomFourier(1024, gamma=4.0, design="iid", random_state=0).fit(sample.train)
    found, measured = (
        expected_error(fitted, sample.test, pairs),
        measure(fitted, sample.test, pairs),
    )
    scale = np.sqrt(np.mean(measured.exact**2))
    assert np.mean(np.abs(measured.errors) / scale > found.pair_bound(1024)) < 0.05
    assert found.pair_bound(2) is None and found.error(1024) < found.pair_bound(1024) < 1
    assert found.uniform_size > 10_000


def test_maps_without_a_known_variance_have_no_theory(sample):
    pairs = draw_pairs(len(sample.test), 100, 0)
    assert expected_error(Chi2Series(3).fit(sample.train), sample.test, pairs) is None
    assert (
        expected_error(
            GCWS(8, scheme="0-bit", random_state=0).fit(sample.train), sample.test, pairs
        )
        is None
    )


def test_a_curve_falls_at_the_known_rate_and_its_law_goes_through_it(sample):
    found = measure_curve(
        "fourier", KernelClassifier(RandomFourier(256, gamma=4.0, design="iid")), sample, 0
    )
    assert (
        found.sizes == (16, 32, 64, 128, 256)
        and found.size_parameter == "n_components"
        and found.size == 256
    )
    slope = np.polyfit(np.log(found.sizes), np.log(found.errors), 1)[0]
    assert -0.65 < slope < -0.35
    for size, error in zip(found.sizes, found.errors, strict=True):
        assert found.law.error(size) == pytest.approx(error, rel=0.35)
        assert found.theory.error(size) == pytest.approx(error, rel=0.35)


def test_the_curve_of_a_deterministic_map_has_no_law_and_an_exact_map_has_no_curve(sample):
    found = measure_curve("chi2", KernelClassifier(Chi2Series(4)), sample, 0)
    assert found.sizes == (1, 2, 4, 8, 16) and found.law is None and found.theory is None
    assert found.errors[0] > 10 * found.errors[2]
    assert measure_curve("hellinger", KernelClassifier(Hellinger()), sample, 0) is None


def test_sizes_that_the_rows_are_too_few_for_are_left_out_of_a_curve_and_halved_for_a_heat_map():
    few = SampleSplit.of(*rows(50, 60))
    model = KernelClassifier(FeaturePCA(40))
    assert measure_curve("pca", model, few, 0).sizes == (10, 20)
    found = gram_heat_map("pca", model, few, False, 0)
    assert found.reduced == "n_components = 20" and 0 < found.error < 0.5
    assert gram_heat_map("pca", KernelClassifier(FeaturePCA(20)), few, False, 0).reduced == ""


def test_a_heat_map_is_sorted_by_class_and_exact_for_an_exact_map(sample):
    found = gram_heat_map("hellinger", KernelClassifier(Hellinger()), sample, False, 0)
    assert found.groups == (("0", 20), ("1", 20), ("2", 20)) and found.error < 1e-12
    inside = np.mean([found.exact[at : at + 20, at : at + 20].mean() for at in (0, 20, 40)])
    assert inside > 1.1 * found.exact.mean()
    by_number = gram_heat_map(
        "hellinger", KernelClassifier(Hellinger()), SampleSplit(*parts_of(sample)), True, 0
    )
    assert by_number.groups == () and by_number.exact.shape == (60, 60)


def parts_of(sample: SampleSplit) -> tuple:
    return sample.train, sample.test, np.arange(len(sample.test)) * 1.0


def test_the_heat_map_of_two_numbers_is_the_scalar_kernel_on_a_grid(sample):
    found = scalar_heat_map("chi2", KernelClassifier(Chi2Series(3)), sample, 0)
    g = found.grid
    assert g[0] == 0 and g[-1] == sample.train.max()
    assert np.allclose(found.exact, kernels.Chi2()(g[:, None]))
    assert 0 < found.error < 0.05
    assert scalar_heat_map("fourier", KernelClassifier(RandomFourier(16)), sample, 0) is None


def test_the_halves_are_of_different_rows_and_not_too_many():
    X = np.arange(6000.0)[:, None]
    sample = SampleSplit.of(X, np.arange(6000))
    assert len(sample.train) == len(sample.test) == len(sample.y) == 1000
    assert not set(sample.train.ravel()) & set(sample.test.ravel())
    assert np.array_equal(sample.test.ravel(), sample.y)


def test_the_map_of_a_model_is_found_behind_the_steps_of_a_pipeline(sample):
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    fourier = RandomFourier(32, gamma=0.1)
    piped = make_pipeline(StandardScaler(), KernelClassifier(fourier))
    assert split_model(piped)[1] is fourier and split_model(KernelClassifier(fourier)) == (
        [],
        fourier,
    )
    assert split_model(HistGradientBoostingClassifier()) is None and split_model(None) is None
    scaled = StandardScaler().fit(sample.train)
    direct = SampleSplit(scaled.transform(sample.train), scaled.transform(sample.test), sample.y)
    assert (
        measure_curve("a", piped, sample, 0).errors
        == measure_curve("a", KernelClassifier(fourier), direct, 0).errors
    )


def test_kernels_that_are_0_or_overflow_on_all_pairs_are_left_out():
    X, y = rows()
    far = SampleSplit.of(1e4 * X, y)
    assert (
        measure_curve(
            "exp-chi2",
            KernelClassifier(ExpChi2(32, gamma=10.0, n_terms=2, poles="minimax")),
            far,
            0,
        )
        is None
    )
    assert (
        gram_heat_map(
            "exp-chi2",
            KernelClassifier(ExpChi2(32, gamma=10.0, n_terms=2, poles="minimax")),
            far,
            False,
            0,
        )
        is not None
    )


def test_sizes_with_too_many_weights_to_draw_a_dozen_times_are_left_out():
    from scipy.sparse import random_array

    X = random_array((60, 5000), density=0.001, rng=0, format="csr")
    found = measure_curve(
        "fourier",
        KernelClassifier(RandomFourier(4096, gamma=1.0, design="iid")),
        SampleSplit.of(X, np.arange(60) % 2),
        0,
    )
    assert found.sizes == (256, 512) and found.size == 4096


def test_the_error_of_a_heat_map_is_that_of_its_matrices(sample):
    model = KernelClassifier(RandomFourier(16, gamma=4.0, random_state=0))
    for found in (
        gram_heat_map("fourier", model, sample, False, 0),
        scalar_heat_map("chi2", KernelClassifier(Chi2Series(2)), sample, 0),
    ):
        difference = np.linalg.norm(found.approximate - found.exact)
        assert found.error == pytest.approx(difference / np.linalg.norm(found.exact))
        assert 1e-3 < found.error < 1
