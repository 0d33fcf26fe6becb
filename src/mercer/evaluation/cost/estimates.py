"""What a fit takes: seconds of each of its steps and the bytes it holds at most, as arithmetic on
widths and measured speeds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from mercer.evaluation.cost.speeds import Speeds
from mercer.evaluation.outline import Outline
from mercer.linear_model.routes import Plan
from mercer.parallel.tile_size import (
    CSR_TILE_ROWS,
    PANEL,
    SHARD,
    TILE_ROWS,
    Cost,
    grid,
    tile_rows,
    worth_threads,
)

# What nobody knows before: about what they were on digits, alpha chosen among 25 (315 to 478; 67 to
# 75; 609 to 2349).
CONJUGATE_PASSES = 400
NEWTON_STEPS = 70
NEWTON_PASSES = 1000
_FIXED = 2**20  # bytes: buffers of BLAS, stacks of threads
_CHUNK = 8 * 2**20  # of a file, while it is read
_PREDICTED = 10**6  # rows whose prediction is quoted
_GRADIENTS = (
    0.25  # of the passes of Newton's method by conjugate gradients; the others are their steps
)
_TARGETS = 8  # arrays of the size of the targets


@dataclass(frozen=True)
class Rows:
    """What is known of the rows: their number, width, the share of entries that is stored (None for
    dense rows), dtype and source.
    """

    rows: int
    columns: int
    density: float | None
    dtype: str
    kind: str = "array"

    @property
    def itemsize(self) -> int:
        return 4 if self.dtype == "float32" else 8

    @property
    def numbers(self) -> float:
        """Of one row."""
        return self.columns * (1.0 if self.density is None else self.density)


@dataclass(frozen=True)
class Step:
    """A part of a fit: what it is, its seconds, and how often it is assumed to be done where that
    cannot be known; 1 otherwise.
    """

    what: str
    seconds: float
    times: int = 1


def steps_of(
    plan: Plan, rows: Rows, outline: Outline, speeds: Speeds, outputs: int
) -> tuple[Step, ...]:
    """The steps of a plan, in order."""
    n, D = rows.rows, outline.columns
    numbers = n * rows.numbers
    read = numbers * speeds.rates("read", rows.kind)[0]
    steps = [Step("start", speeds.rates("start", "")[0])]
    steps += [
        Step("what the map must know", read + numbers * speeds.rates("look", name)[0])
        for name in outline.statistics_parts
    ]
    fixed, each = speeds.rates("draw", outline.draws)
    steps.append(Step("drawing the map", fixed + each * outline.numbers))
    once = speeds.rates("start", "")[0] + read + n * seconds_of_features(rows, outline, speeds)

    def products(table: str, outputs: int = outputs) -> float:
        a, b = speeds.rates(table, _form(rows, outline))
        return n * outline.stored * (a + b * outputs)

    if plan.route in ("moments", "two-stage"):
        more = products("products") - products("products", 1)
        steps.append(Step("moments", once + _sums(n, rows, outline, speeds) + more))
        steps.append(
            Step("solving for all alphas", speeds.rates("solve", "eigenvectors")[0] * D**3)
        )
        return tuple(steps)
    again = 0.0 if plan.room and kept_bytes(n, rows, outline, outputs) <= plan.room else once
    if plan.route == "passes":
        steps.append(
            Step("a step of conjugate gradients", once + products("images"), CONJUGATE_PASSES)
        )
        return tuple(steps)
    steps.append(Step("the first pass", once))
    if plan.route == "newton":
        matrices = outputs * (
            _sums(n, rows, outline, speeds) + speeds.rates("solve", "factor")[0] * D**3
        )
        steps.append(
            Step("a Newton step", 2 * again + matrices + 2 * products("gradients"), NEWTON_STEPS)
        )
    else:
        mixed = (1 - _GRADIENTS) * products("products") + _GRADIENTS * products("gradients")
        steps.append(Step("a pass of Newton's method", again + mixed, NEWTON_PASSES))
    return tuple(steps)


def seconds_of_features(rows: Rows, outline: Outline, speeds: Speeds) -> float:
    """For one row."""
    parts = outline.parts
    table = rows.dtype
    costs = [part.cost for part in parts]
    if rows.density is not None:
        table = "csr"
        costs = [cost.sparse(rows.columns, rows.density) for cost in costs]
    whole = sum(costs, Cost(0.0, 0.0))
    if not worth_threads(whole, block_rows(rows, outline)):
        table += " alone"
    found = 0.0
    for part, cost in zip(parts, costs, strict=True):
        flop, byte = speeds.rates(table, part.kind)
        found += flop * cost.flops + byte * max(cost.bytes, 0.0)
    return found


def seconds_to_predict(rows: Rows, outline: Outline, speeds: Speeds, outputs: int) -> float:
    """For a million rows that are in memory."""
    a, b = speeds.rates("products", _form(rows, outline))
    return _PREDICTED * (
        seconds_of_features(rows, outline, speeds) + outline.stored * (a + b * outputs) / 2
    )


def peak_bytes(plan: Plan, rows: Rows, outline: Outline, threads: int, outputs: int) -> int:
    """What a fit holds at most beyond what the process has before, rows that are in memory
    aside.
    """
    n, D = rows.rows, outline.columns
    B = min(n, block_rows(rows, outline))
    weights = outline.numbers * (12 if rows.dtype == "float32" else 8)
    block = B * row_bytes(rows, outline)
    read = 0.0 if rows.kind == "array" else 3 * B * rows.numbers * rows.itemsize + _CHUNK
    made = 2 * block + min(threads, 2) * scratch(rows, outline)
    always = _FIXED + weights + read + 8 * D * outputs * 3
    if plan.route in ("moments", "two-stage"):
        copies = 1 if n <= block_rows(rows, outline) * SHARD else 2
        at_once = min(
            math.ceil(threads / 2), math.ceil(D / PANEL)
        )  # half of the threads have a panel in float64
        panels = at_once * B * min(D, PANEL) * 8
        added = 2 * block + panels if outline.form == "dense" else 2 * block + 24.0 * D**2
        return round(always + max(copies * 4 * D**2 + max(made, added), plan.held))
    kept = plan.room and kept_bytes(n, rows, outline, outputs) <= plan.room
    blocks = n * (row_bytes(rows, outline) + 8 * outputs * _TARGETS) if kept else made
    if plan.route == "newton":
        weighted = (
            3 * block
        )  # rows about their mean, those that have a weight, and these times its root
        return round(always + blocks + weighted + plan.held)
    cast = (
        B * D * 8 if outline.form == "dense" and rows.dtype == "float32" else 0
    )  # a block in float64, for products
    most = blocks + cast if kept else max(blocks, 2 * block + cast)
    return round(always + most + 8 * D * outputs * _TARGETS)


def block_rows(rows: Rows, outline: Outline) -> int:
    """Rows of a block of features."""
    width = outline.columns if rows.density is not None else max(outline.columns, rows.columns)
    return grid(width, rows.itemsize).rows


def tile(rows: Rows, outline: Outline) -> int:
    """Rows of a tile."""
    if rows.density is None:
        return tile_rows(outline.cost, TILE_ROWS)
    return tile_rows(outline.cost.sparse(rows.columns, rows.density), CSR_TILE_ROWS)


def scratch(rows: Rows, outline: Outline) -> float:
    """Bytes of the working space of a tile."""
    return tile(rows, outline) * outline.cost.bytes * rows.itemsize / 8


def row_bytes(rows: Rows, outline: Outline) -> float:
    """What a row of features takes in a block: codes of a byte, sparse entries with their
    columns.
    """
    if outline.form == "coded":
        return outline.stored * 2
    return outline.stored * (rows.itemsize + 4 * (outline.form == "sparse"))


def kept_bytes(n: int, rows: Rows, outline: Outline, outputs: int) -> float:
    """Of all blocks, with what is kept of each row beside them, while passes are made over them."""
    return n * (
        row_bytes(rows, outline) * (1 if outline.form == "coded" else 2)
        + 8 * outputs * _TARGETS
        + 8
    )


def _sums(n: int, rows: Rows, outline: Outline, speeds: Speeds) -> float:
    """Seconds of moments of n rows of features."""
    D = outline.columns
    if outline.form == "dense":
        square, line = speeds.rates("sums", rows.dtype)
        return n * (square * D**2 + line * D)
    square, whole = speeds.rates("sums", "csr")
    return n * square * outline.stored**2 + math.ceil(n / block_rows(rows, outline)) * whole * D**2


def _form(rows: Rows, outline: Outline) -> str:
    return {"dense": rows.dtype, "sparse": "csr", "coded": "coded"}[outline.form]
