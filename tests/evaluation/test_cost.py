"""Cost of a fit: seconds and bytes by hand, with timings that are whole numbers; lines and timings
that are measured.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from tests.helpers.plans import plan_fit

from mercer import GCWS, Hellinger, Nystroem, RandomFourier, RandomLaplace, SignCauchy
from mercer.evaluation.cost import (
    CONJUGATE_GRADIENT_STEPS,
    DESCENT_SWEEPS,
    NEWTON_CG_PASSES,
    NEWTON_CG_PASSES_COUPLED,
    NEWTON_CG_PASSES_SEVERAL,
    Line,
    MapSizes,
    Timings,
    _time_line,
    measure_timings,
    predict_seconds,
    steps_of,
)
from mercer.linear_model.memory import DataShape, MapSize, block_rows, peak_bytes
from mercer.parallel.tile_size import Cost

SIZE = MapSize(300, Cost(1e6, 100.0), 1000.0, 300.0, "dense", ("RandomFourier",) * 2)
TIMINGS = Timings(
    sample=(500, 2000),
    reference=SIZE,
    start=73.0,
    read=5.0,
    statistics=Line(7.0, 11.0),
    features=Line(13.0, 17.0),
    moments=Line(19.0, 23.0),
    moment_columns=300,
    moment_stored=300.0,
    products=37.0,
    gradients=41.0,
    images=43.0,
    eigenvectors=(47.0, 53.0),
    factor=59.0,
)
ROWS = DataShape(20_000, 10, None, "float64")  # three blocks
BLOCKS = 3


def steps(size: MapSize = SIZE, outputs: int = 1, **more) -> dict[str, float]:
    plan = plan_fit(
        ROWS.rows,
        ROWS.columns,
        size.columns,
        limit=more.pop("limit", 10**9),
        first_passes=size.statistics,
        **more,
    )
    return {step.name: step.seconds for step in steps_of(plan, ROWS, size, TIMINGS, outputs)}


def test_seconds_of_the_normal_equations():
    assert -(-ROWS.rows // block_rows(ROWS, SIZE)) == BLOCKS
    assert steps() == {
        "start": 73,
        "fitting the map": 2 * 20_000 * 5 + 7 + 11 * 20_000,
        "normal equations": 20_000 * (5 + 17 + 23) + BLOCKS * (13 + 19),
        "solving for all alphas": 47 * 300**2 + 53 * 300**3,
    }


def test_other_sizes_cost_in_proportion_to_their_work():
    twice = MapSize(600, Cost(3e6, 200.0), 4000.0, 600.0, "dense")
    found = steps(twice)
    blocks = -(-ROWS.rows // block_rows(ROWS, twice))
    assert found["fitting the map"] == 4 * 7  # weights; no statistics
    assert found["normal equations"] == 20_000 * (5 + 3 * 17 + 4 * 23) + blocks * (3 * 13 + 4 * 19)
    sparse = MapSize(600, Cost(3e6, 200.0), 4000.0, 30.0, "sparse", dense_gram=False)
    found = steps(sparse)
    assert found["normal equations"] == pytest.approx(
        20_000 * (5 + 3 * 17 + 0.01 * 23) + blocks * (3 * 13 + 4 * 19)
    )


def test_seconds_of_passes_and_newton_steps():
    one_pass = 20_000 * (5 + 17) + BLOCKS * 13
    by_passes = steps(limit=1000)
    assert by_passes["first pass"] == one_pass
    assert by_passes["conjugate gradient step"] == one_pass + 20_000 * 43
    assert CONJUGATE_GRADIENT_STEPS > 1
    assert "normal equations" in steps(outputs=3, limit=10**9)  # squared loss
    wide = MapSize(3000, SIZE.cost, 0.0, 3000.0, "dense")
    few = DataShape(2000, 2, None, "float64")
    plan = plan_fit(2000, 2, 3000, limit=10**10, outputs=1)
    last = steps_of(plan, few, wide, TIMINGS, 1)[-1]
    assert (plan.route, last.name) == ("newton-cg", "Newton-CG pass")
    # in the basis of 2,000 rows
    assert last.seconds == pytest.approx(2000 * 2000 / 300 * (0.88 * 37 + 0.12 * 41))
    many = DataShape(5000, 2, None, "float64")
    plan = plan_fit(5000, 2, 3000, limit=10**10, outputs=1)
    last = steps_of(plan, many, wide, TIMINGS, 1)[-1]
    assert last.seconds == pytest.approx(5000 * 10 * (0.88 * 37 + 0.12 * 41))


@pytest.mark.parametrize(
    ("loss", "outputs", "passes"),
    [
        ("logistic", 1, NEWTON_CG_PASSES),
        ("squared_hinge", 5, NEWTON_CG_PASSES_SEVERAL),
        ("log_loss", 5, NEWTON_CG_PASSES_COUPLED),
        ("log_loss", 1, NEWTON_CG_PASSES),
    ],
)
def test_passes_of_newtons_method_that_are_assumed_follow_the_outputs(loss, outputs, passes):
    """About 2,000 passes of all outputs were assumed for all of them: 29 min for 8."""
    plan = plan_fit(ROWS.rows, ROWS.columns, 300, limit=10**9, outputs=outputs)
    assert steps_of(plan, ROWS, SIZE, TIMINGS, outputs, loss)[-1].times == passes
    assert passes < 2000


def test_sweeps_over_codes_cost_their_line_and_hold_a_few_arrays_of_coefficients():
    codes = replace(
        SIZE, columns=30_000, stored=600.0, form="coded", dense_gram=False, one_hot=True
    )
    timings = replace(TIMINGS, sweeps=Line(3.0, 2.0))
    plan = plan_fit(ROWS.rows, 10, 30_000, limit=10**9)
    assert plan.route == "passes"
    last = steps_of(plan, ROWS, codes, timings, 1)[-1]
    assert (last.name, last.times) == ("sweep of coordinate descent", DESCENT_SWEEPS)
    assert last.seconds == 100 * 3 + 2 * 20_000 * 2  # of 300 columns and numbers
    one, several = (peak_bytes(plan, ROWS, codes, 1, outputs) for outputs in (1, 5))
    # groups of 16 outputs; eight arrays of targets
    assert several - one == 30_000 * (15 * 32 + 4 * 8 * 3) + 20_000 * 4 * 8 * 8
    preconditioned = peak_bytes(plan, ROWS, replace(codes, one_hot=False), 1, 1)
    assert preconditioned > one + 10**8  # eigenvectors of a sample


def test_a_preconditioner_that_memory_limits_is_one_of_fewer_rows():
    wide = MapSize(5000, SIZE.cost, 0.0, 16.0, "coded", dense_gram=False)
    seconds = []
    for limit in (5 * 10**7, 10**12):
        plan = replace(plan_fit(5000, 2, 5000, limit=10**6), limit=limit)
        steps = steps_of(plan, DataShape(5000, 2, None, "float64"), wide, TIMINGS, 1)
        seconds.append(next(step.seconds for step in steps if step.name == "preconditioner"))
    few, many = 416, 2048  # rows
    moments = 5000 * 23 * (16 / 300) ** 2 + 19 * (5000 / 300) ** 2 * 10
    for m, found in zip((few, many), seconds, strict=True):
        assert found == pytest.approx(
            moments * m**2 / (5000 * 5000) + 47 * m**2 + 53 * m**3, rel=0.01
        )


def test_bytes_of_newton_folds_are_those_of_their_models():
    few = DataShape(2000, 2, None, "float64")
    plan = plan_fit(2000, 2, 300, limit=10**10, outputs=4)
    by_folds = replace(plan, alpha_method="kfold")
    found = [peak_bytes(each, few, SIZE, 1, 4) for each in (plan, by_folds)]
    assert found[1] - found[0] == 5 * 3 * 8 * 300 * 4  # five folds, three alphas


def test_seconds_of_predictions():
    blocks = -(-(10**6) // block_rows(ROWS, SIZE))
    assert predict_seconds(ROWS, SIZE, TIMINGS) == pytest.approx(1e6 * (17 + 37 / 2) + 13 * blocks)


def test_bytes_of_many_features_are_those_of_the_solver_and_of_few_those_of_blocks():
    rows = DataShape(10**6, 10, None, "float64")
    wide = MapSize(8192, SIZE.cost, 1000.0, 8192.0, "dense")
    plan = plan_fit(rows.rows, 10, 8192, limit=10**11)
    assert peak_bytes(plan, rows, wide, 2, 1) == pytest.approx(plan.solver_bytes, rel=0.02)
    plan = plan_fit(rows.rows, 10, 300, limit=10**9)
    blocks = 2 * block_rows(rows, SIZE) * 300 * 8
    found = peak_bytes(plan, rows, SIZE, 1, 1)
    assert blocks < found < 2.5 * blocks
    few = DataShape(100, 10, None, "float64")
    assert peak_bytes(plan, few, SIZE, 1, 1) < found / 3
    from_file = DataShape(10**6, 10, None, "float64", "npy")
    assert peak_bytes(plan, from_file, SIZE, 1, 1) > found


def test_bytes_of_folds_are_those_of_all_their_sums():
    rows = DataShape(10**5, 10, None, "float64")
    once = plan_fit(rows.rows, 10, 300, limit=10**9, alpha_method="gcv")
    folds = plan_fit(rows.rows, 10, 300, limit=10**9, alpha_method="kfold")
    # of each fold moments and scatter; the sum twice, and a factor
    assert folds.solver_bytes == 8 * 300**2 * (5 * 1.5 + 5)
    wide = plan_fit(rows.rows, 10, 2000, limit=10**10, alpha_method="kfold")
    assert wide.solver_bytes == 8 * 2000**2 * (5 * 1.5 + 5)
    few = plan_fit(rows.rows, 10, 200, limit=10**10, alpha_method="kfold")
    assert few.solver_bytes == wide.solver_bytes / 100
    few = DataShape(200, 10, None, "float64")
    small, large = (
        peak_bytes(replace(plan, alpha_method=method), few, SIZE, 1, 1)
        for plan, method in ((once, "gcv"), (folds, "kfold"))
    )
    block = 200 * 300 * 8
    assert large - small == folds.solver_bytes + block - once.solver_bytes


def test_a_line_goes_through_the_last_two_samples():
    sizes = []

    def work(n: int) -> None:
        sizes.append(n)
        time.sleep(0.01 + 1e-5 * n)

    line, sample = _time_line(work, 16, 4096)
    assert sample == (1024, 4096)
    assert set(sizes) == {16, 64, 256, 1024, 4096}
    assert line.fixed == pytest.approx(0.01, rel=0.5)
    assert line.per_row == pytest.approx(1e-5, rel=0.3)
    assert _time_line(lambda n: time.sleep(0.15), 16, 4096)[1] == (16, 64)  # two, and no more
    all_rows, sample = _time_line(work, 16, 5)
    assert sample == (5, 5)
    assert all_rows(5) == pytest.approx(0.01, rel=0.5)


@pytest.mark.parametrize("density", [None, 0.1], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    "feature_map", [RandomFourier(64), GCWS(8), Nystroem(32)], ids=lambda one: type(one).__name__
)
def test_all_that_steps_need_is_timed(feature_map, density):
    shape = DataShape(3000, 20, density, "float32")
    fitted, size = MapSizes(feature_map, 20, density).reference(None)
    found = measure_timings(fitted, size, shape.synthetic(3000), shape, read=0.0, outputs=2)
    assert found.reference is size
    assert found.sample[0] < found.sample[1] <= 3000
    for line in (found.features, found.moments):
        assert min(line.fixed, line.per_row) >= 0 < line(1000)
    rates = (found.start, found.products, found.gradients, found.images, found.factor)
    assert min(rates) > 0 and max(rates) < 1
    assert (found.sweeps(1000) > 0) == size.one_hot == isinstance(feature_map, GCWS)
    assert min(found.eigenvectors) >= 0 < max(found.eigenvectors)


@pytest.mark.parametrize(
    "feature_map", [RandomFourier(64, design="iid"), RandomLaplace(64), Nystroem(64)]
)
def test_widths_that_are_extrapolated_are_those_that_would_be_drawn(feature_map):
    """Sizes beyond those that are drawn grow on as a line, or as a square for landmarks."""
    whole = MapSizes(feature_map, 20).draw(600)[1]
    near = MapSizes(feature_map, 20, most_weights=4000)
    grown = near(600)
    assert 600 not in near._drawn
    for name in ("columns", "weights", "stored"):
        assert getattr(grown, name) == pytest.approx(getattr(whole, name), rel=0.01)
    assert grown.cost.flops == pytest.approx(whole.cost.flops, rel=0.01)
    assert grown.cost.bytes == pytest.approx(whole.cost.bytes, rel=0.01)
    assert near.reference(600)[1].columns < 600


def test_widths_are_those_of_the_fitted_map():
    X = np.random.default_rng(0).random((100, 12))
    for made in (Hellinger() >> RandomFourier(32), Hellinger() + RandomFourier(32), GCWS(8)):
        fitted = made.fit(X)
        found = MapSize.of(fitted)
        assert found.cost == fitted.tile_transform_.cost(12)
        assert found.columns == fitted.transform(X).shape[1]
        assert MapSizes(fitted, 12).reference(None)[0] is fitted


def test_codes_of_few_values_are_stored_as_codes_and_squared_as_arrays():
    X = np.random.default_rng(0).random((20, 12))
    signs, hashes = (MapSize.of(made.fit(X)) for made in (SignCauchy(256), GCWS(16)))
    assert (signs.form, signs.stored, signs.columns) == ("coded", 256, 512)
    assert (hashes.form, hashes.stored, hashes.columns) == ("coded", 16, 4096)
    assert (signs.dense_gram, hashes.dense_gram) == (True, False)
    rows = DataShape(20_000, 12, None, "float64")
    plan = plan_fit(rows.rows, 12, 512, limit=10**9)
    bytes_of_blocks = block_rows(rows, signs) * 512 * 8
    found = peak_bytes(plan, rows, signs, 1, 1)
    assert found > peak_bytes(plan, rows, replace(signs, dense_gram=False), 1, 1) + bytes_of_blocks
