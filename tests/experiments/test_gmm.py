"""The GMM paper: its rows, its machines and its variances; on real data, a row of its Table 1."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from experiments.gmm import PAPER
from experiments.gmm_codes import MAPS
from experiments.gmm_machines import (
    SQUARED,
    GridResult,
    _best_point,
    evaluate_linear,
    gmm_grams,
    kernel_curve,
    kernel_grid,
    linear_grid,
    rbf_grams,
    unit_rows,
)
from experiments.gmm_rows import ABSENT, ROWS, rotate
from experiments.gmm_variances import (
    features,
    hashed,
    hashed_error,
    normal_pair,
    normalised,
    normalised_over_hashed,
    plain,
    squared_error,
)
from experiments.records import Experiment
from experiments.running import Bench, Results, cells, run
from experiments.sets import Sets, Split
from experiments.verdicts import AGREES, table
from tests.helpers.experiment_data import TRAIN, write_sets

from mercer import RandomFourier
from mercer.kernels import GMM, CosineRBF

# Rows


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    return Bench(
        "quick",
        Sets(write_sets(tmp_path_factory.mktemp("sets"), ("shuttle", "vowel", "mnist", "splice"))),
    )


def rows_of(X) -> set[bytes]:
    return {row.tobytes() for row in np.ascontiguousarray(X, np.float64)}


def test_every_published_row_has_three_numbers_of_which_none_is_above_100():
    for numbers in (
        *(row.published for row in ROWS.values()),
        *(absent[1:] for absent in ABSENT.values()),
    ):
        assert len(numbers) in (0, 3)
        assert all(0 < number < 100 for number in numbers)
    assert all(row.gamma for row in ROWS.values() if row.published)


def test_shuttle500_has_the_first_training_rows(bench):
    found = bench.sets["shuttle"]
    np.testing.assert_array_equal(ROWS["Shuttle500"].split(bench).X, found.X[:120])
    assert rows_of(ROWS["Shuttle500"].split(bench).X_test) <= rows_of(found.X[TRAIN:])


def test_vowel_is_cut_from_the_official_training_rows_alone(bench):
    split = ROWS["Vowel"].split(bench, seed=1)
    assert rows_of(split.X) | rows_of(split.X_test) <= rows_of(bench.sets["vowel"].X[:TRAIN])
    assert not rows_of(split.X) & rows_of(split.X_test)


def test_variations_have_the_labels_of_the_plain_digits_and_are_made_by_the_seed(bench):
    plain_rows, noisy = ROWS["M-Basic"].split(bench, 3), ROWS["M-Rand"].split(bench, 3)
    np.testing.assert_array_equal(plain_rows.y, noisy.y)
    assert np.all(noisy.X >= plain_rows.X)
    assert 120 < noisy.X[plain_rows.X == 0].mean() < 135
    np.testing.assert_array_equal(noisy.X, ROWS["M-Rand"].split(bench, 3).X)
    assert not np.array_equal(
        noisy.X[:50] - plain_rows.X[:50], noisy.X_test[:50] - plain_rows.X_test[:50]
    )
    assert noisy.X.dtype == np.float32


def test_a_quarter_turn_is_a_quarter_turn():
    X = np.random.default_rng(0).uniform(size=(3, 784)).astype(np.float32)
    images = X.reshape(3, 28, 28)
    found = rotate(X, np.array([0.0, 90.0, 180.0])).reshape(3, 28, 28)
    expected = [images[0], np.rot90(images[1]), images[2][::-1, ::-1]]
    np.testing.assert_allclose(found, expected, atol=1e-5)


# Machines


@pytest.fixture(scope="module")
def blobs():
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3
    X = 3 * rng.normal(size=(3, 6))[y] + rng.normal(size=(120, 6))
    return Split(X[:80], y[:80], X[80:], y[80:])


def test_the_gram_matrices_are_those_of_the_exact_kernels(blobs):
    positive = Split(np.abs(blobs.X), blobs.y, np.abs(blobs.X_test), blobs.y_test)
    for split in (blobs, positive):
        for power, (K, K_test) in zip((1.0, 2.0), gmm_grams(split, (1.0, 2.0)), strict=True):
            np.testing.assert_allclose(K, GMM(power)(split.X), rtol=1e-12)
            np.testing.assert_allclose(K_test, GMM(power)(split.X_test, split.X), rtol=1e-12)
    for gamma, (K, K_test) in zip((0.5, 20.0), rbf_grams(blobs, (0.5, 20.0)), strict=True):
        np.testing.assert_allclose(K, CosineRBF(gamma)(blobs.X), rtol=1e-10)
        np.testing.assert_allclose(K_test, CosineRBF(gamma)(blobs.X_test, blobs.X), rtol=1e-10)


def test_a_row_of_zeros_has_the_rbf_kernel_of_the_library(blobs):
    X = blobs.X.copy()
    X[0] = 0
    K, _ = next(rbf_grams(Split(X, blobs.y, blobs.X_test, blobs.y_test), (2.0,)))
    np.testing.assert_allclose(K, CosineRBF(2.0)(X), rtol=1e-10)
    assert not unit_rows(X)[0].any()


def test_the_chosen_point_is_the_best_of_cross_validation_and_not_of_the_test():
    assert _best_point([(0.5, 99.0), (0.9, 10.0), (0.9, 20.0)]) == GridResult(99.0, 10.0)


def test_a_grid_has_the_best_of_its_points(blobs):
    K, K_test = next(gmm_grams(blobs))
    curve = kernel_curve(K, K_test, blobs, (1e-4, 10.0))
    found = kernel_grid([(K, K_test)], blobs, (1e-4, 10.0), 60)
    assert found.best == max(curve)
    assert found.chosen == curve[1]
    assert curve[1] > 90 > curve[0]


@pytest.mark.parametrize("loss", ["hinge", SQUARED])
def test_linear_machines_choose_a_C_that_is_not_too_small(blobs, loss):
    found = linear_grid(blobs, (1e-6, 10.0), 60, loss)
    assert found.chosen == found.best > 85


def test_hashes_have_k_bytes_and_two_to_the_b_columns_each(blobs):
    score = evaluate_linear(MAPS["GCWS full, b = 4"](32, 0, 1.0), blobs, (1.0, 10.0))
    assert (score.features, score.bytes) == (32 * 16, 32)
    assert score.accuracy > 80
    assert score.seconds > 0


# Variances


def test_variances_are_those_of_the_reference_table():
    assert plain(0.5, 1.0) == pytest.approx(0.69978820, abs=5e-9)
    assert plain(0.5, 1.0, "paired") == pytest.approx(0.39957640, abs=5e-9)
    assert normalised(0.5, 1.0) == pytest.approx(0.43632539, abs=5e-9)
    assert hashed(0.5, 1.0) == pytest.approx(0.41386437, abs=5e-9)
    assert normalised_over_hashed(0.5, 10.0) == pytest.approx(195.77525, rel=1e-6)


def test_a_group_of_simulated_features_is_the_normalised_map():
    x = np.array([[1.0, 0.0], [0.6, 0.8]])
    Z = features(x, 50, 1, 2.0, "offset")[0]
    how = {"form": "offset", "design": "iid", "normalize": True}
    exact = (
        RandomFourier(50, kernel="cosine-rbf", gamma=2.0, random_state=0, **how).fit(x).transform(x)
    )
    np.testing.assert_allclose(Z / np.linalg.norm(Z, axis=1, keepdims=True), exact, atol=1e-12)


@pytest.mark.parametrize(
    ("how", "expected"), [("RFF", 0.69978820), ("NRFF", 0.43632539), ("paired", 0.39957640)]
)
def test_simulated_errors_are_those_of_the_formulas(how, expected):
    """2000 draws: the mean of squares has a standard error of 3%."""
    x = np.array([[1.0, 0.0], [0.5, np.sqrt(0.75)]])
    assert squared_error(x, 0.5, 1.0, 100, 2000, how) == pytest.approx(expected, rel=0.12)


@pytest.mark.full
def test_simulated_hashes_have_the_error_of_the_formula():
    """Of one pair of 1000 columns, whose GMM is near g(rho): 400 draws have a standard error of
    7%.
    """
    assert hashed_error(0.5, 1.0, 300, 400, 1000) == pytest.approx(hashed(0.5, 1.0), rel=0.25)


def test_pairs_have_the_correlation_that_was_asked_for():
    for freedom in (np.inf, 5.0):
        assert np.corrcoef(normal_pair(0.8, 20000, freedom))[0, 1] == pytest.approx(0.8, abs=0.02)


# Real data


@pytest.mark.slow
def test_splice_agrees_with_the_paper_in_all_three_kernels():
    folder = Path(os.environ.get("MERCER_DATA", ""))
    if not (folder / "splice.npz").is_file():
        pytest.skip("splice.npz is not in $MERCER_DATA")
    first: Experiment = PAPER.experiments[0]
    tasks = [
        task for task in cells([PAPER]) if task.experiment is first and task.cell.label == "Splice"
    ]
    results = Results()
    assert not run(tasks, Bench("standard", Sets(folder)), results)
    published = [
        row for row in table(first, "standard", results) if row.label == "Splice" and row.published
    ]
    assert [row.verdict for row in published] == [AGREES] * 3
