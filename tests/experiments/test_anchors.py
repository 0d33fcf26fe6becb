"""The ANNFM paper: its numbers, its bound and its energy."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from experiments.anchors_errors import ANCHORS, BOUND, ERRORS
from experiments.anchors_maps import (
    BOW,
    CAPTION,
    DIGITS,
    KERNELS,
    TEXT,
    bags,
    between,
    digits,
    near,
    score,
)
from experiments.running import Bench
from experiments.sets import Sets
from tests.helpers.experiment_data import write_sets

from experiments import anchors, anchors_bags
from mercer.kernels import Intersection
from mercer.maps.homogeneous import Homogeneous


def bench(folder=None) -> Bench:
    return Bench("quick", Sets(folder))


def cell(experiment, label):
    (found,) = (one for one in experiment.cells if one.label == label)
    return found


@pytest.mark.parametrize("experiment", anchors.TABLES, ids=lambda one: one.key)
def test_every_published_accuracy_has_its_cells(experiment):
    kernel = experiment.key.removeprefix("anchors/mnist-")
    shown = {}
    for one in experiment.cells:
        shown.setdefault(one.label.split(", energy")[0], []).extend(one.published.values())
    for label, numbers in anchors.PUBLISHED[kernel].items():
        assert tuple(shown[label][: len(numbers)]) == numbers, label


def test_every_published_number_of_bags_has_its_cell():
    shown = {
        (one.label, kernel): number
        for one in anchors_bags.BAGS.cells
        for kernel, number in one.published.items()
    }
    told = {
        (label, kernel): one
        for label, row in anchors_bags.PUBLISHED.items()
        for kernel, one in row.items()
    }
    told |= {(label, "chi2"): one for label, (_, one) in anchors_bags.SIGNS.items()}
    told |= {("linear", kernel): anchors_bags.LINEAR for kernel in KERNELS}
    assert shown == told


def test_the_energy_of_the_caption_keeps_one_value_and_that_of_the_text_two():
    X = np.random.default_rng(0).random((50, 3))
    for kernel in ("chi2", "jensen-shannon"):
        for n in (30, 40, 50):
            assert near(n, kernel, energy=CAPTION).fit(X).table_.shape == (n, 1)
            assert near(n, kernel, energy=TEXT).fit(X).table_.shape == (n, 2)
    assert near(30, "intersection").fit(X).table_.shape == (30, 4)


def test_the_bound_holds_for_independent_columns_and_has_the_known_values():
    measured, bound, loose = (
        {column: one.mean for column, one in cell(BOUND, label).run(bench()).items()}
        for label in (
            "measured, independent uniform numbers",
            "the bound with the right constant",
            "the paper's bound",
        )
    )
    assert bound["D = 200"] == pytest.approx(9.6e-3, rel=0.01)
    assert loose["D = 200"] == pytest.approx(1.36e-2, rel=0.01)
    assert measured["D = 200"] == pytest.approx(2.5e-3, rel=0.2)
    assert all(measured[D] < bound[D] < loose[D] for D in bound)


def test_linear_weights_gain_four_times_by_twice_the_anchors_and_others_two():
    for weights, factor in {"nearest": 2, "2 equal": 2, "linear": 4}.items():
        errors = [one.mean for one in cell(ANCHORS, f"chi2, {weights}").run(bench()).values()]
        assert (errors[0] / errors[-1]) ** (1 / 3) == pytest.approx(factor, rel=0.15)


def test_a_square_of_the_heat_map_is_the_mean_error_in_it():
    (heat,) = (one for one in ERRORS if one.key == "anchors/figure2-intersection-linear")
    found = heat.cells[3].run(bench())
    x, z = np.meshgrid(np.linspace(8 / 12, 9 / 12, 400), np.linspace(3 / 12, 4 / 12, 400))
    phi = between(30, "intersection").fit(x.reshape(-1, 1))
    X, Z = (phi.transform(np.unique(numbers)[:, None]).toarray() for numbers in (x, z))
    wrong = np.abs(X @ Z.T - Intersection()(np.unique(x)[:, None], np.unique(z)[:, None])).mean()
    assert list(found.values())[8].mean == pytest.approx(wrong, rel=0.05)


def test_pixels_and_words_are_scaled_to_one(tmp_path):
    on_stand_ins = bench(write_sets(tmp_path, (DIGITS, BOW)))
    assert digits(on_stand_ins, 50).X.max() <= 1 < on_stand_ins.sets[DIGITS].X.max()
    np.testing.assert_array_equal(
        bags(on_stand_ins).X.max(axis=0)[on_stand_ins.sets[BOW].X[:100].max(axis=0) > 0], 1
    )


@pytest.mark.slow
def test_two_values_for_a_pixel_are_as_good_as_vz_and_one_is_not():
    folder = os.environ.get("MERCER_DATA")
    if not folder or not (Path(folder) / f"{DIGITS}.npz").is_file():
        pytest.skip(f"{DIGITS}.npz is not in $MERCER_DATA")
    split = digits(bench(Path(folder)), 10000)
    found = {
        name: score(lambda seed, make=make: make(), split, anchors.C).accuracy
        for name, make in {
            "one": partial(near, 30, "chi2"),
            "two": partial(near, 30, "chi2", 1, TEXT),
            "VZ": Homogeneous,
        }.items()
    }
    assert found["two"] > found["one"] + 0.5
    assert found["two"] == pytest.approx(found["VZ"], abs=0.4)
