"""The numbers of a report: errors against sizes, what theory expects of them, and Gram matrices
side by side.
"""

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
    kernels,
)
from mercer.evaluation.kernel_error import drawn_pairs, measure
from mercer.report.data import Rows, curve, heat, map_of, scalar_heat
from mercer.report.theory import expected


@pytest.fixture(scope="module")
def halves() -> Rows:
    return Rows.of(*rows())


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
def test_the_mean_square_of_many_draws_is_what_theory_expects(feature_map, halves):
    pairs = drawn_pairs(len(halves.unseen), 2000, 0)
    draws = [
        clone(feature_map).set_params(random_state=seed).fit(halves.seen) for seed in range(60)
    ]
    measured = [measure(one, halves.unseen, pairs) for one in draws]
    found = expected(draws[0], halves.unseen, pairs)
    size = feature_map.get_params()[feature_map.size_parameter]
    for parts, square in (
        ([one.errors for one in measured], found.error(size) ** 2),
        ([one.sampling for one in measured], found.constant**2 / size),
    ):
        squares = [one.part(part) ** 2 for one, part in zip(measured, parts, strict=True)]
        spread = np.std(squares) / np.sqrt(len(squares))
        assert abs(np.mean(squares) - square) < 4 * spread + 0.03 * np.mean(squares)


def test_theory_of_sparse_rows_is_that_of_the_same_rows(halves):
    pairs = drawn_pairs(len(halves.unseen), 500, 0)
    for feature_map in (
        RandomFourier(64, gamma=4.0, kernel="cauchy"),
        RandomLaplace(64),
        RandomFourier(64, gamma=1.0),
    ):
        fitted = feature_map.set_params(random_state=0).fit(halves.seen)
        dense = expected(fitted, halves.unseen, pairs)
        assert expected(fitted, csr_array(halves.unseen), pairs).constant == pytest.approx(
            dense.constant
        )


def test_exact_maps_of_a_composition_are_steps_before_its_last_map(halves):
    fourier = RandomFourier(64, gamma=2.0)
    roots = Rows(np.sqrt(halves.seen), np.sqrt(halves.unseen), halves.y)
    found = curve("both", KernelClassifier(Hellinger() >> fourier), halves, 0)
    assert found == curve("both", KernelClassifier(fourier), roots, 0) and found.theory is not None
    hashed = Scaled() >> GCWS(16)  # whose kernel has no formula as a whole
    assert curve("gcws", KernelClassifier(hashed), halves, 0).errors[-1] < 0.5
    assert heat("gcws", KernelClassifier(hashed), halves, False, 0).kernel == "GMM(power=1.0)"


def test_a_composition_whose_kernel_has_no_formula_has_neither_curve_nor_heat_map(halves):
    model = KernelClassifier(RandomFourier(16, gamma=2.0) >> FeaturePCA(8) >> GCWS(16))
    assert curve("odd", model, halves, 0) is None
    assert (
        heat("odd", model, halves, False, 0) is None
        and scalar_heat("odd", model, halves, 0) is None
    )


def test_the_bound_of_a_pair_holds_and_is_silent_where_it_says_nothing(halves):
    pairs = drawn_pairs(len(halves.unseen), 2000, 0)
    fitted = RandomFourier(1024, gamma=4.0, design="iid", random_state=0).fit(halves.seen)
    found, measured = expected(fitted, halves.unseen, pairs), measure(fitted, halves.unseen, pairs)
    scale = np.sqrt(np.mean(measured.exact**2))
    assert np.mean(np.abs(measured.errors) / scale > found.at_most(1024)) < 0.05
    assert found.at_most(2) is None and found.error(1024) < found.at_most(1024) < 1
    assert found.everywhere > 10_000


def test_maps_without_a_variance_on_paper_have_no_theory(halves):
    pairs = drawn_pairs(len(halves.unseen), 100, 0)
    assert expected(Chi2Series(3).fit(halves.seen), halves.unseen, pairs) is None
    assert (
        expected(GCWS(8, scheme="0-bit", random_state=0).fit(halves.seen), halves.unseen, pairs)
        is None
    )


def test_a_curve_falls_at_the_known_rate_and_its_law_goes_through_it(halves):
    found = curve(
        "fourier", KernelClassifier(RandomFourier(256, gamma=4.0, design="iid")), halves, 0
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


def test_the_curve_of_a_deterministic_map_has_no_law_and_an_exact_map_has_no_curve(halves):
    found = curve("chi2", KernelClassifier(Chi2Series(4)), halves, 0)
    assert found.sizes == (1, 2, 4, 8, 16) and found.law is None and found.theory is None
    assert found.errors[0] > 10 * found.errors[2]
    assert curve("hellinger", KernelClassifier(Hellinger()), halves, 0) is None


def test_sizes_that_the_rows_are_too_few_for_are_left_out_of_a_curve_and_halved_for_a_heat_map():
    few = Rows.of(*rows(50, 60))
    model = KernelClassifier(FeaturePCA(40))
    assert curve("pca", model, few, 0).sizes == (10, 20)
    found = heat("pca", model, few, False, 0)
    assert found.reduced == "n_components = 20" and 0 < found.error < 0.5
    assert heat("pca", KernelClassifier(FeaturePCA(20)), few, False, 0).reduced == ""


def test_a_heat_map_is_sorted_by_class_and_exact_for_an_exact_map(halves):
    found = heat("hellinger", KernelClassifier(Hellinger()), halves, False, 0)
    assert found.groups == (("0", 20), ("1", 20), ("2", 20)) and found.error < 1e-12
    inside = np.mean([found.exact[at : at + 20, at : at + 20].mean() for at in (0, 20, 40)])
    assert inside > 1.1 * found.exact.mean()
    by_number = heat("hellinger", KernelClassifier(Hellinger()), Rows(*halves_of(halves)), True, 0)
    assert by_number.groups == () and by_number.exact.shape == (60, 60)


def halves_of(halves: Rows) -> tuple:
    return halves.seen, halves.unseen, np.arange(len(halves.unseen)) * 1.0


def test_the_heat_map_of_two_numbers_is_the_scalar_kernel_on_a_grid(halves):
    found = scalar_heat("chi2", KernelClassifier(Chi2Series(3)), halves, 0)
    g = found.grid
    assert g[0] == 0 and g[-1] == halves.seen.max()
    assert np.allclose(found.exact, kernels.Chi2()(g[:, None]))
    assert 0 < found.error < 0.05
    assert scalar_heat("fourier", KernelClassifier(RandomFourier(16)), halves, 0) is None


def test_the_halves_are_of_different_rows_and_not_too_many():
    X = np.arange(6000.0)[:, None]
    halves = Rows.of(X, np.arange(6000))
    assert len(halves.seen) == len(halves.unseen) == len(halves.y) == 1000
    assert not set(halves.seen.ravel()) & set(halves.unseen.ravel())
    assert np.array_equal(halves.unseen.ravel(), halves.y)


def test_the_map_of_a_model_is_found_behind_the_steps_of_a_pipeline(halves):
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    fourier = RandomFourier(32, gamma=0.1)
    piped = make_pipeline(StandardScaler(), KernelClassifier(fourier))
    assert map_of(piped)[1] is fourier and map_of(KernelClassifier(fourier)) == ([], fourier)
    assert map_of(HistGradientBoostingClassifier()) is None and map_of(None) is None
    scaled = StandardScaler().fit(halves.seen)
    direct = Rows(scaled.transform(halves.seen), scaled.transform(halves.unseen), halves.y)
    assert (
        curve("a", piped, halves, 0).errors
        == curve("a", KernelClassifier(fourier), direct, 0).errors
    )


def test_kernels_that_are_0_or_overflow_on_all_pairs_are_left_out():
    X, y = rows()
    far = Rows.of(1e4 * X, y)
    assert (
        curve(
            "exp-chi2",
            KernelClassifier(ExpChi2(32, gamma=10.0, n_terms=2, poles="minimax")),
            far,
            0,
        )
        is None
    )
    assert (
        heat(
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
    found = curve(
        "fourier",
        KernelClassifier(RandomFourier(4096, gamma=1.0, design="iid")),
        Rows.of(X, np.arange(60) % 2),
        0,
    )
    assert found.sizes == (256, 512) and found.size == 4096
