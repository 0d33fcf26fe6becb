"""Seconds and bytes are the arithmetic that they say: by hand, with speeds that are whole
numbers.
"""

from __future__ import annotations

import pytest

from mercer.evaluation.cost.estimates import (
    CONJUGATE_PASSES,
    Rows,
    block_rows,
    peak_bytes,
    seconds_to_predict,
    steps_of,
)
from mercer.evaluation.cost.speeds import ANY, Speeds
from mercer.evaluation.outline import Outline, Part
from mercer.linear_model.routes import plan_fit
from mercer.parallel.tile_size import Cost

TABLES = {
    "float32": {ANY: (2.0, 3.0)},
    "float64": {ANY: (4.0, 5.0), "Known": (7.0, 11.0)},
    "csr": {ANY: (13.0, 17.0)},
    "sums": {"float32": (1.0, 1.0), "float64": (19.0, 23.0), "csr": (29.0, 31.0)},
    "products": dict.fromkeys(("float32", "float64", "csr", "coded"), (37.0, 41.0)),
    "images": dict.fromkeys(("float32", "float64", "csr", "coded"), (79.0, 83.0)),
    "gradients": dict.fromkeys(("float32", "float64", "csr", "coded"), (89.0, 97.0)),
    "solve": {"eigenvectors": (43.0,), "factor": (47.0,)},
    "read": {ANY: (53.0,), "array": (59.0,)},
    "look": {ANY: (61.0,)},
    "draw": {ANY: (67.0, 71.0)},
    "start": {ANY: (73.0,)},
}
SPEEDS = Speeds(TABLES, threads=4, when="now")
OUTLINE = Outline(
    columns=300,
    parts=(Part("Known", Cost(1e6, 100.0)), Part("Other", Cost(1e5, 10.0))),
    numbers=1000.0,
    stored=300.0,
    form="dense",
    statistics_parts=("A", "B"),
    draws="A",
)


def steps(rows: Rows, outline: Outline = OUTLINE, outputs: int = 1, **more) -> dict[str, float]:
    plan = plan_fit(
        rows.rows,
        rows.columns,
        outline.columns,
        limit=more.pop("limit", 10**9),
        statistics_passes=len(outline.statistics_parts),
        **more,
    )
    return {step.what: step.seconds for step in steps_of(plan, rows, outline, SPEEDS, outputs)}


def test_the_steps_of_moments():
    found = steps(Rows(2000, 10, None, "float64"))
    numbers = 2000 * 10
    features = 7e6 + 1100 + 4e5 + 50
    assert found["start"] == 73
    assert found["what the map must know"] == numbers * (59 + 61)
    assert found["drawing the map"] == 67 + 71 * 1000
    assert found["moments"] == 73 + numbers * 59 + 2000 * (features + 19 * 300**2 + 23 * 300)
    assert found["solving for all alphas"] == 43 * 300**3


def test_sparse_rows_cost_what_they_store():
    found = steps(Rows(2000, 10, 0.1, "float32"))
    numbers = 2000 * 10 * 0.1
    assert found["what the map must know"] == pytest.approx(numbers * (59 + 61))
    flops, of = (
        1.1e5,
        (100 - 72) + 0.0,
    )  # a tenth of the multiply-adds; the bytes of nine columns less, and never below 0
    features = 13 * flops + 17 * of
    assert found["moments"] == pytest.approx(73 + numbers * 59 + 2000 * (features + 300**2 + 300))


def test_little_work_is_done_by_one_thread():
    """Below what is worth a thread the rates are those of one: so many times the others where only
    those are known.
    """
    light = Outline(300, (Part("Known", Cost(10.0, 100.0)),), 0.0, 300.0, "dense", (), "A")
    found = steps(Rows(2000, 10, None, "float64"), light)
    assert found["moments"] == 73 + 2000 * 10 * 59 + 2000 * (
        4 * (70 + 1100) + 19 * 300**2 + 23 * 300
    )


def test_passes_and_newton_steps():
    by_passes = steps(Rows(2000, 10, None, "float64"), limit=1000)
    features = 7e6 + 1100 + 4e5 + 50
    once = 73 + 2000 * 10 * 59 + 2000 * features
    assert by_passes["a step of conjugate gradients"] == once + 2000 * 300 * (79 + 83)
    newton = steps(Rows(2000, 10, None, "float64"), outputs=3, limit=10**9)
    assert newton["moments"] == once + 2000 * (19 * 300**2 + 23 * 300) + 2 * 2000 * 300 * 41
    plan = plan_fit(2000, 10, 300, limit=10**9, outputs=3)
    found = {
        step.what: step.seconds
        for step in steps_of(plan, Rows(2000, 10, None, "float64"), OUTLINE, SPEEDS, 3)
    }
    assert found["the first pass"] == once
    kept = 3 * (2000 * (19 * 300**2 + 23 * 300) + 47 * 300**3) + 2 * 2000 * 300 * (89 + 3 * 97)
    assert found["a Newton step"] == kept
    assert CONJUGATE_PASSES > 1
    few = Rows(2000, 2, None, "float64")
    wide = Outline(3000, OUTLINE.parts, 0.0, 3000.0, "dense")
    plan = plan_fit(2000, 2, 3000, limit=10**10, outputs=1)
    last = steps_of(plan, few, wide, SPEEDS, 1)[-1]
    assert (plan.route, last.what) == ("newton-cg", "a pass of Newton's method")
    assert last.seconds == pytest.approx(2000 * 3000 * (0.75 * (37 + 41) + 0.25 * (89 + 97)))


def test_predictions():
    found = seconds_to_predict(Rows(2000, 10, None, "float64"), OUTLINE, SPEEDS, 2)
    assert found == pytest.approx(1e6 * (7e6 + 1100 + 4e5 + 50 + 300 * (37 + 2 * 41) / 2))


def test_bytes_of_many_features_are_those_of_the_solver_and_of_few_those_of_blocks():
    rows = Rows(10**6, 10, None, "float64")
    wide = Outline(8192, OUTLINE.parts, 1000.0, 8192.0, "dense")
    plan = plan_fit(rows.rows, 10, 8192, limit=10**11)
    assert peak_bytes(plan, rows, wide, 2, 1) == pytest.approx(plan.held, rel=0.02)
    plan = plan_fit(rows.rows, 10, 300, limit=10**9)
    blocks = 2 * block_rows(rows, OUTLINE) * 300 * 8
    found = peak_bytes(plan, rows, OUTLINE, 1, 1)
    assert blocks < found < 2.5 * blocks
    few = Rows(100, 10, None, "float64")
    assert peak_bytes(plan, few, OUTLINE, 1, 1) < found / 3
    from_file = Rows(10**6, 10, None, "float64", "npy")
    assert peak_bytes(plan, from_file, OUTLINE, 1, 1) > found
