"""certify: measured errors, where they come from, their intervals, and the size that reaches an
error.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError

from mercer import (
    GCWS,
    AdditiveNystroem,
    Chi2Series,
    CompressiveFourier,
    ExpChi2,
    FeaturePCA,
    Hellinger,
    Homogeneous,
    KernelRegressor,
    Nystroem,
    RandomFourier,
    RandomLaplace,
    RandomProjection,
    Scaled,
    certify,
)
from mercer.evaluation.convergence import Law, _fit_law, _Pilots, _verify
from mercer.evaluation.kernel_error import PairErrors, draw_pairs, kernel_values, measure
from mercer.kernels import GMM, Chi2, Gaussian, SkewedChi2
from mercer.maps.base import Rate

rng = np.random.default_rng(0)
X = rng.dirichlet(np.ones(8), size=400)
TRAIN, TEST = X[:200], X[200:]


def off_diagonal(fitted, rows) -> tuple[np.ndarray, np.ndarray]:
    """Errors and exact values of all pairs of different rows."""
    Z = fitted.transform(rows)
    Z = Z.toarray() if sp.issparse(Z) else Z
    exact = fitted.kernel_(rows)
    other = ~np.eye(len(rows), dtype=bool)
    return (Z @ Z.T - exact)[other], exact[other]


def test_pairs_are_of_different_rows_and_all_of_them_come_up_equally_often():
    i, j = draw_pairs(5, 200_000, 0)
    counts = np.zeros((5, 5))
    np.add.at(counts, (i, j), 1)
    assert not np.diag(counts).any()
    others = counts[~np.eye(5, dtype=bool)]
    assert np.all(np.abs(others - 10_000) < 5 * np.sqrt(10_000))
    assert {tuple(pair) for pair in zip(*draw_pairs(2, 100, 0), strict=True)} == {(0, 1), (1, 0)}


@pytest.mark.parametrize(
    "feature_map",
    [
        RandomFourier(64, gamma=3.0, random_state=0),
        pytest.param(GCWS(64, bits=2, random_state=0), marks=pytest.mark.full),
        Chi2Series(2, poles="minimax"),
        pytest.param(ExpChi2(64, random_state=0), marks=pytest.mark.full),
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_certificate_says_what_all_pairs_say(feature_map):
    phi = feature_map.fit(TRAIN)
    found = certify(phi, TEST, pairs=100_000)
    errors, exact = off_diagonal(phi, TEST)
    assert found.relative == pytest.approx(np.sqrt(np.sum(errors**2) / np.sum(exact**2)), rel=0.02)
    assert found.rms == pytest.approx(np.sqrt(np.mean(errors**2)), rel=0.02)
    assert found.mean == pytest.approx(np.mean(np.abs(errors)), rel=0.02)
    assert found.p95 == pytest.approx(np.percentile(np.abs(errors), 95), rel=0.03)
    assert found.interval[0] < found.relative < found.interval[1]
    assert certify(phi, TEST, pairs=1000).interval[1] - certify(phi, TEST, pairs=1000).interval[
        0
    ] > 3 * (found.interval[1] - found.interval[0])


def test_the_parts_add_up():
    phi = GCWS(64, bits=2, random_state=0).fit(TRAIN)
    rows = TEST.astype(np.float32)
    found = measure(phi, rows, draw_pairs(200, 500, 0))
    np.testing.assert_allclose(
        found.sampling + found.bias + found.rounding, found.errors, atol=1e-14
    )
    np.testing.assert_allclose(found.bias, 0.25 * (1 - found.exact), atol=1e-12)


def test_features_of_few_rows_are_made_once_and_give_the_same():
    phi = RandomFourier(64, gamma=3.0, random_state=0).fit(TRAIN)
    chosen = draw_pairs(200, 500, 0)
    once = measure(phi, TEST, chosen).errors
    again = measure(phi, TEST, chosen, keep_features=False).errors
    np.testing.assert_allclose(again, once, atol=1e-14)


def test_bias_remains_with_more_features():
    few, many = (certify(GCWS(n, bits=1, random_state=0).fit(TRAIN), TEST) for n in (64, 2048))
    assert many.bias == pytest.approx(few.bias)
    assert many.sampling < few.sampling / 5
    assert many.relative == pytest.approx(many.bias, rel=0.05)
    found = certify(GCWS(64, bits=1, random_state=0).fit(TRAIN), TEST, error=few.bias / 2)
    assert found.needed is None
    assert "is not reachable by n_hashes: bias and rounding alone are" in str(found)


def test_rounding_is_that_of_float32():
    rows = TEST.astype(np.float32)
    phi = RandomFourier(64, gamma=3.0, random_state=0).fit(TRAIN)
    single, double = certify(phi, rows), certify(phi, rows.astype(np.float64))
    assert 1e-9 < single.rounding < 1e-6
    sampling, bias = str(single).splitlines()[2:4]
    assert sampling == f"    sampling error        {100 * single.sampling:.3g}%"
    assert bias == "    bias                  0"
    assert double.rounding == 0
    assert single.relative == pytest.approx(double.relative, rel=1e-4)
    exact = certify(Hellinger().fit(TRAIN), rows, error=0.01)
    assert exact.sampling == exact.bias == 0
    assert exact.rounding == exact.relative > 0
    assert "is reached: this map is exact" in str(exact)


@pytest.mark.parametrize(
    ("feature_map", "size_parameter", "error"),
    [
        (RandomFourier(128, gamma=5.0, design="iid", random_state=0), "n_components", 0.02),
        (RandomFourier(128, gamma=5.0, random_state=0), "n_components", 0.01),
        (RandomLaplace(128, random_state=0), "n_components", 0.005),
        pytest.param(GCWS(64, bits=8, random_state=0), "n_hashes", 0.06, marks=pytest.mark.full),
        (GCWS(64, bits=8, scheme="0-bit", random_state=0), "n_hashes", 0.14),
        pytest.param(ExpChi2(128, random_state=0), "n_components", 0.01, marks=pytest.mark.full),
    ],
    ids=str,
)
def test_the_size_that_is_said_to_reach_an_error_reaches_it(feature_map, size_parameter, error):
    found = certify(feature_map.fit(TRAIN), TEST, error=error)
    assert found.size_parameter == size_parameter
    assert found.needed > found.size
    reached = []
    for seed in range(4):
        larger = feature_map.with_size(found.needed).set_params(random_state=seed).fit(TRAIN)
        reached.append(certify(larger, TEST, pairs=2000).relative)
    assert 0.5 * error < np.sqrt(np.mean(np.square(reached))) < 1.5 * error


def test_a_bias_without_a_formula_is_what_draws_have_in_common():
    found = certify(GCWS(64, bits=8, scheme="0-bit", random_state=0).fit(TRAIN), TEST, error=0.01)
    assert found.bias is None
    assert found.needed is None
    many = certify(GCWS(4096, bits=8, scheme="0-bit", random_state=1).fit(TRAIN), TEST, pairs=2000)
    assert found.rate.floor == pytest.approx(many.relative, rel=0.3)


def test_the_smallest_size_of_a_deterministic_map_is_found():
    found = certify(Chi2Series(5, poles="minimax").fit(TRAIN), TEST, error=4e-3)
    errors = [
        certify(Chi2Series(n, poles="minimax").fit(TRAIN), TEST).relative for n in range(1, 7)
    ]
    assert found.needed == 1 + next(n for n, error in enumerate(errors) if error <= 4e-3)
    assert found.rate.error(found.needed) <= 4e-3 < found.rate.error(found.needed - 1)


def test_landmarks_are_not_among_the_rows_that_are_measured():
    found = certify(
        Nystroem(20, kernel="gaussian", gamma=3.0, random_state=0).fit(TRAIN), TEST, error=0.02
    )
    larger = Nystroem(found.needed, kernel="gaussian", gamma=3.0, random_state=1).fit(TRAIN)
    assert certify(larger, TEST).relative < 0.03
    never = certify(
        Nystroem(20, kernel="gaussian", gamma=3.0, random_state=0).fit(TRAIN), TEST, error=1e-30
    )
    assert never.needed is None
    assert "the least that was measured is" in str(never)


@pytest.mark.parametrize(
    "feature_map",
    [
        Nystroem(20, kernel="gaussian", gamma=3.0, random_state=0),
        Nystroem(20, kernel="min-max", landmarks="uniform", random_state=0),
        AdditiveNystroem(2),
        Scaled() >> Nystroem(20, gamma=0.1, random_state=0),
    ],
    ids=repr,
)
def test_the_trace_error_of_a_projection_bounds_its_errors(feature_map):
    fitted = feature_map.fit(TRAIN)
    found = certify(fitted, TEST)
    Z, K = fitted.transform(TEST), fitted.kernel_(TEST)
    left = np.diag(K) - np.sum(Z**2, axis=1)
    assert found.trace_error == pytest.approx(left.sum() / np.trace(K), rel=1e-6)
    assert np.all(np.abs(Z @ Z.T - K) <= np.sqrt(np.outer(left, left)) + 1e-9 * K.max())
    assert 0 < found.mean <= found.trace_error * np.diag(K).mean()
    assert "  trace error  " in str(found)


def test_the_trace_error_is_of_projections_alone():
    for other in (Chi2Series(2), RandomProjection(2), RandomFourier(64) >> Nystroem(20)):
        assert certify(other.fit(TRAIN), TEST, pairs=500).trace_error is None


def test_a_projection_needs_fewer_than_all_columns_for_an_error_above_0():
    found = certify(RandomProjection(2, random_state=0).fit(TRAIN), TEST, error=0.5)
    assert found.size < found.needed < 8
    reached = [
        certify(
            RandomProjection(found.needed, random_state=s).fit(TRAIN), TEST, pairs=5000
        ).relative
        for s in range(9)
    ]
    assert 0.3 < np.sqrt(np.mean(np.square(reached))) < 0.7
    assert certify(RandomProjection(2, random_state=0).fit(TRAIN), TEST, error=1e-9).needed == 8


def test_a_compression_has_a_bias():
    found = certify(
        CompressiveFourier(256, n_measurements=4, gamma=1.0, random_state=0).fit(TRAIN),
        TEST,
        error=0.001,
    )
    assert found.needed is None
    assert found.bias > 0.001


def test_maps_without_a_single_knob_have_no_size():
    both = RandomFourier(64, gamma=1.0, random_state=0) + RandomFourier(
        64, gamma=5.0, random_state=1
    )
    assert "is not reached: this map has no single parameter that buys accuracy" in str(
        certify(both.fit(TRAIN), TEST, error=1e-4)
    )
    assert certify(FeaturePCA().fit(TRAIN), TEST, error=0.1).size_parameter is None
    composed = (Chi2Series(2, poles="minimax") >> RandomFourier(64, gamma=1.0, random_state=0)).fit(
        TRAIN
    )
    assert certify(composed, TEST, error=0.001).size_parameter == "randomfourier__n_components"


def test_models_streams_and_sparse_rows(tmp_path):
    model = KernelRegressor(RandomFourier(64, gamma=3.0, random_state=0), alpha=1.0).fit(
        TRAIN, TRAIN[:, 0]
    )
    found = certify(model, TEST)
    assert certify(model.feature_map_, TEST) == found
    assert certify(model, sp.csr_array(TEST)).relative == pytest.approx(found.relative, rel=1e-9)
    np.save(tmp_path / "rows.npy", TEST)
    assert certify(model, tmp_path / "rows.npy").relative == pytest.approx(found.relative, rel=0.05)
    assert certify(model, tmp_path / "rows.npy", pairs=50).rows == 50


def test_the_same_seed_gives_the_same_certificate():
    phi = RandomFourier(64, gamma=3.0, random_state=0).fit(TRAIN)
    assert certify(phi, TEST, error=0.05) == certify(phi, TEST, error=0.05)
    assert certify(phi, TEST, random_state=1).relative != certify(phi, TEST).relative


def test_rows_that_are_all_equal_and_rows_that_are_0():
    phi = RandomFourier(64, gamma=3.0, random_state=0).fit(TRAIN)
    same = certify(phi, np.tile(TEST[:1], (10, 1)), error=0.1)
    assert same.relative < 1e-12
    none = certify(Chi2Series(2, poles="minimax").fit(TRAIN), np.zeros((5, 8)), error=0.1)
    assert (none.relative, none.mean, none.rms, none.p95) == (None, 0.0, 0.0, 0.0)


def test_where_the_exact_kernel_is_0_for_every_pair_errors_are_absolute_only():
    apart = np.eye(8)  # rows without a column in common
    phi = GCWS(16, bits=2, random_state=0).fit(TRAIN)
    found = certify(phi, apart, error=0.1)
    Z, (i, j) = phi.transform(apart).toarray(), draw_pairs(8, found.pairs, 0)
    errors = np.abs(np.sum(Z[i] * Z[j], axis=1))  # against k = 0
    assert found.mean == pytest.approx(errors.mean()) and found.mean > 0.05
    assert found.rms == pytest.approx(np.sqrt(np.mean(errors**2)))
    assert found.p95 == pytest.approx(np.percentile(errors, 95))
    assert [
        found.relative,
        found.interval,
        found.sampling,
        found.bias,
        found.rounding,
        found.rate,
    ] == [None] * 6
    lines = str(found).splitlines()
    assert (
        lines[1]
        == "  relative error          undefined: the exact kernel is 0 for every pair of these rows"
    )
    assert lines[2].startswith("  error of a value        mean 0.")
    assert lines[3] == "  an error of 10% is relative to the exact kernel, and undefined with it"


def test_where_the_exact_kernel_is_0_for_every_pair_of_the_pilots_no_size_is_known():
    rows = np.eye(8)
    rows[2] = rows[0]  # pilots are measured on rows 1, 3, 5, 7
    found = certify(GCWS(16, bits=2, random_state=0).fit(TRAIN), rows, error=0.1)
    assert found.relative > 0
    assert found.interval[0] < found.relative < found.interval[1]
    assert (found.rate, found.needed, found.size_parameter, found.size) == (
        None,
        None,
        "n_hashes",
        16,
    )
    assert "which n_hashes has an error of 10% is not known" in str(found)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda phi: certify(RandomFourier(8), TEST), NotFittedError, "not fitted"),
        (
            lambda phi: certify("fourier", TEST),
            TypeError,
            "certify needs a fitted map, composition or model of mercer, got a str",
        ),
        (
            lambda phi: certify(phi, TEST[:1]),
            ValueError,
            r"pairs of different rows, got 1 row\(s\)",
        ),
        (
            lambda phi: certify(phi, TEST, error=0),
            ValueError,
            "error must be a finite number above 0, got 0",
        ),
        (lambda phi: certify(phi, TEST, confidence=1.5), ValueError, "confidence"),
        (
            lambda phi: certify(phi, TEST, pairs=1),
            ValueError,
            "pairs must be an integer of at least 2",
        ),
        (
            lambda phi: certify(phi, TEST[:, :3]),
            ValueError,
            "3 features, but RandomFourier is expecting 8",
        ),
        (
            lambda phi: certify(phi, np.where(TEST[3, 2] == TEST, np.nan, TEST)),
            ValueError,
            "row 3, column 2",
        ),
    ],
)
def test_what_cannot_be_certified_is_refused_in_words(call, error, words):
    with pytest.raises(error, match=words):
        call(RandomFourier(8, gamma=3.0, random_state=0).fit(TRAIN))


def test_the_interval_of_a_ratio_is_that_of_the_delta_method():
    errors, exact = np.random.default_rng(0).normal(size=(2, 4000)) * [[0.1], [1.0]]
    relative, (low, high) = PairErrors(exact, errors, None, None, errors).relative(0.95)
    draws = np.random.default_rng(1).integers(4000, size=(2000, 4000))
    resampled = np.sqrt(np.sum(errors[draws] ** 2, axis=1) / np.sum(exact[draws] ** 2, axis=1))
    assert relative == pytest.approx(np.sqrt(np.sum(errors**2) / np.sum(exact**2)))
    assert np.log(high / low) == pytest.approx(
        np.log(np.divide(*np.quantile(resampled, [0.975, 0.025]))), rel=0.1
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "feature_map",
    [
        RandomFourier(256, gamma=3.0, random_state=0),
        GCWS(64, bits=4, random_state=0),
        Chi2Series(2, poles="minimax"),
    ],
    ids=lambda one: type(one).__name__,
)
def test_intervals_cover_the_error_of_all_pairs_as_often_as_they_say(feature_map):
    """1000 certificates of the same map and rows, each with pairs of its own: 93 to 97% of the
    intervals hold the true value.
    """
    phi = feature_map.fit(TRAIN)
    errors, exact = off_diagonal(phi, TEST)
    truth = np.sqrt(np.sum(errors**2) / np.sum(exact**2))
    inside = 0
    for seed in range(1000):
        low, high = measure(phi, TEST, draw_pairs(len(TEST), 2000, seed)).relative(0.95)[1]
        inside += low <= truth <= high
    print(f"{type(phi).__name__}: {inside / 10:.1f}%")
    assert 930 <= inside <= 970


def test_sizes_are_those_that_pilots_have_seen():
    X = np.random.default_rng(0).normal(size=(400, 5))
    phi = RandomFourier(1024, gamma=0.001, random_state=0).fit(X[:200])
    found = certify(phi, X[200:], error=0.05, pairs=2000)
    assert min(found.rate.sizes) == 16
    assert found.needed == 16
    again = certify(phi.with_size(16).fit(X[:200]), X[200:], pairs=2000)
    assert again.relative == pytest.approx(found.rate.error(16), rel=0.5)


@pytest.mark.parametrize(
    ("error", "size"), [(1e-300, None), (1e-9, None), (0.01, 10_000), (1e300, 64)]
)
def test_no_error_is_too_small_or_too_large_for_a_law(error, size):
    law = Law("n_components", -0.5, 1.0, 0.0, None, (64, 128), (0.125, 0.088))
    assert law.size_for(error) == size
    if size is None:
        assert "it would take more than 2,147,483,647" in law.why_not(error)


class PilotsOfASlope:
    """Pilots whose error is size**slope, larger for every second draw by a share `spread`."""

    size_parameter = "n_components"
    random = True
    affordable = 2**20

    def __init__(self, slope: float, spread: float = 0.0) -> None:
        self.slope, self.spread, self.sizes = slope, spread, set()

    def __call__(self, size: int, draw: int = 0) -> PairErrors:
        self.sizes.add(size)
        errors = np.full(10, size**self.slope * (1 + self.spread * (draw % 2)))
        return PairErrors(np.ones(10), errors, errors, 0 * errors, 0 * errors)

    root_mean_square = _Pilots.root_mean_square


@pytest.mark.parametrize(
    ("measured", "believed"), [(-0.4, -0.5), (-0.7, -0.6), (-0.9, -0.7), (-2.0, -0.75)]
)
def test_a_slope_steeper_than_the_stated_one_is_believed_half_and_up_to_three_quarters(
    measured, believed
):
    pilots = PilotsOfASlope(measured)
    law, _ = _fit_law(Rate(-0.5, exact=False), (16, 64), (256, pilots(256)), pilots, None)
    assert law.slope == pytest.approx(believed)


@pytest.mark.parametrize("slope", [-0.35, -0.5, -0.9, -1.5])
@pytest.mark.parametrize("size", [40, 5000])
def test_a_law_is_verified_at_the_sizes_that_it_has_for_the_wanted_error(slope, size):
    """Whatever the slope far from the pilots is, the size is one that was measured."""
    pilots = PilotsOfASlope(slope)
    law, squared = _fit_law(Rate(-0.43, exact=False), (64, 128), (256, pilots(256)), pilots, None)
    found = _verify(law, pilots, squared, size**slope)
    needed = found.size_for(size**slope)
    assert size <= needed <= 1.17 * size
    assert needed in pilots.sizes
    assert needed % 2 == 0
    assert found.error(needed) == pytest.approx(needed**slope)


def test_a_verified_law_has_the_errors_that_were_measured_at_all_sizes():
    """Errors that fall at once near the wanted one do not change those of other sizes."""

    class PilotsWithAStep(PilotsOfASlope):
        def __call__(self, size: int, draw: int = 0) -> PairErrors:
            self.slope = -0.5 if size < 300 else -0.7
            return super().__call__(size, draw)

    pilots = PilotsWithAStep(-0.5)
    law, squared = _fit_law(Rate(-0.5, exact=True), (64, 128), (256, pilots(256)), pilots, None)
    found = _verify(law, pilots, squared, 0.04)
    assert found.size_for(0.04) in pilots.sizes
    for size in (64, 128, 256):
        assert found.error(size) == pytest.approx(size**-0.5)
    assert found.error(16) == pytest.approx(16**-0.5)
    largest = max(found.sizes)
    assert found.error(4 * largest) == pytest.approx(0.5 * largest**-0.7)


def test_a_size_that_is_not_affordable_is_extrapolated_from_the_largest_that_is():
    pilots = PilotsOfASlope(-0.5)
    pilots.affordable = 1000
    law, squared = _fit_law(Rate(-0.43, exact=False), (64, 128), (256, pilots(256)), pilots, None)
    found = _verify(law, pilots, squared, 0.01)
    assert max(pilots.sizes) == 1000
    assert found.error(1000) == pytest.approx(1000**-0.5)
    assert found.size_for(0.01) == pytest.approx(10_000, rel=0.01)


def test_sizes_allow_for_the_standard_error_of_draws_and_are_even():
    law = Law("n_components", -0.5, 1.0, 0.0, None, (64,), (0.125,), margin=0.05)
    assert law.error(10_000) == pytest.approx(0.01)
    assert law.size_for(0.01) == 11_026  # 1.05^2 times 10,000, and one more
    same, spread = (
        _verify(law, pilots, squared, 0.1)
        for pilots in (PilotsOfASlope(-0.5), PilotsOfASlope(-0.5, 0.5))
        for law, squared in [
            _fit_law(Rate(-0.5, exact=True), (64, 128), (256, pilots(256)), pilots, None)
        ]
    )
    assert 100 <= same.size_for(0.1) <= 116
    # many draws, half of which have 1.5^2 = 2.25 times the square: a mean of 1.625
    assert 1.625 * 100 < spread.size_for(0.1) < 1.17 * 1.625 * 1.06 * 100


def test_draws_end_where_the_mean_is_above_the_wanted_error():
    pilots = PilotsOfASlope(-0.5)
    calls = []

    def squared(errors: PairErrors) -> float:
        calls.append(errors)
        return float(errors.errors[0] ** 2)

    assert pilots.root_mean_square(100, squared, 0.001) == (pytest.approx(0.1), 0.0)
    assert len(calls) == 1
    pilots.root_mean_square(100, squared, 0.2)
    assert len(calls) == 1 + 256


@pytest.fixture(scope="module")
def digits() -> np.ndarray:
    X = load_digits().data
    return X[np.random.default_rng(0).permutation(len(X))]


def _root_mean_square(feature_map, size, train, test, seeds=range(100, 116)) -> float:
    """Root mean square error over seeds that certify has not used."""
    pairs = draw_pairs(len(test), 2000, 1)
    fitted = [feature_map.with_size(size).set_params(random_state=s).fit(train) for s in seeds]
    found = [measure(each, test, pairs) for each in fitted]
    return float(np.sqrt(np.mean([each.part(each.errors) ** 2 for each in found])))


@pytest.mark.full
@pytest.mark.parametrize("design", ["hadamard", "orthogonal", "sobol"])
@pytest.mark.parametrize("error", [0.02, 0.03])
def test_sizes_of_structured_designs_are_measured_not_extrapolated(digits, design, error):
    """Extrapolated from 256 features, 2% took 340 Hadamard features, which have 2.6%, and 2,182
    of Sobol points, which have 1.1%.
    """
    train, test, other = digits[:600], digits[600:1200], digits[1200:]
    phi = RandomFourier(256, gamma=3.5e-4, design=design, random_state=0)
    needed = certify(phi.fit(train), test, error=error, pairs=5000).needed
    assert _root_mean_square(phi, needed, train, other) < 1.1 * error
    assert _root_mean_square(phi, int(needed / 1.5), train, other) > error


@pytest.mark.parametrize("error", [0.02, pytest.param(0.05, marks=pytest.mark.full)])
def test_landmarks_for_a_smooth_kernel_are_those_of_many_seeds(error):
    """A fifth of the rows are far from the others: three landmarks, which some seeds take from
    both, have 2% then and 15% as a root mean square.
    """
    rng = np.random.default_rng(0)
    X = 0.2 * rng.normal(size=(600, 4)) + 3.0 * (rng.random((600, 1)) < 0.2)
    train, test, other = X[:200], X[200:400], X[400:]
    phi = Nystroem(64, gamma=0.03, random_state=0)
    needed = certify(phi.fit(train), test, error=error, pairs=2000).needed
    assert _root_mean_square(phi, needed, train, other, range(100, 164)) < 1.2 * error
    assert needed <= 32


def test_one_term_is_recommended_where_it_has_the_wanted_error(digits):
    """Two terms have a larger error than one: 0.75% and 0.34%."""
    train, test = digits[:600], digits[600:1200]
    one = certify(Homogeneous(1).fit(train), test).relative
    found = certify(Homogeneous(3).fit(train), test, error=1.0001 * one)
    assert found.needed == 1
    assert found.rate.error(1) == one
    three = certify(Homogeneous(3).fit(train), test).relative
    assert certify(Homogeneous(1).fit(train), test, error=1.0001 * three).needed == 3


@pytest.mark.parametrize("kernel", [Gaussian(0.3), Chi2(), SkewedChi2(0.1), GMM(1.0)], ids=repr)
def test_kernel_values_of_sparse_pairs_are_those_of_dense_ones(kernel):
    X = sp.random_array((60, 5000), density=0.002, rng=np.random.default_rng(0), format="csr")
    X.data[:] = np.abs(X.data)
    pairs = draw_pairs(60, 300, 0)
    dense = X.toarray()
    assert_allclose(
        kernel_values(kernel, X, pairs), kernel.pairs(dense[pairs[0]], dense[pairs[1]]), rtol=1e-11
    )


def test_a_law_with_an_end_has_no_sampling_error_there():
    """error^2 = floor^2 + (1/size - 1/end), as of columns that are drawn without replacement."""
    law = Law("n_components", -0.5, 1.0, 0.02, 100, (4, 8), (0.5, 0.3))
    for size in (4, 17, 50, 99):
        assert law.error(size) == pytest.approx((0.02**2 + 1 / size - 1 / 100) ** 0.5)
    assert law.error(100) == law.error(1000) == 0.02
    for error in (0.4, 0.2, 0.1, 0.05, 0.021):
        size = law.size_for(error)
        assert law.error(size) <= error * (1 + 1e-9) < law.error(size - 1)
    assert law.size_for(0.9) == 4  # from the smallest pilot on
    assert law.size_for(0.0200001) == 100 and law.size_for(0.02) is None
