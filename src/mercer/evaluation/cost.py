"""Cost of a fit: widths of a map, and seconds timed on a sample of rows."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from mercer.data import open_stream
from mercer.data.batches import features
from mercer.linear_model.cross_validation import FOLDS
from mercer.linear_model.memory import (
    DataShape,
    MapSize,
    block_rows,
    has_copies,
    is_kept,
    uses_descent,
)
from mercer.linear_model.regressor import KernelRegressor
from mercer.linear_model.routes import GRAM_ROWS, Plan
from mercer.linear_model.solvers.blocks import multiply, multiply_transposed
from mercer.linear_model.solvers.coded_descent import CodedDescent, is_one_hot
from mercer.linear_model.solvers.preconditioner import sampled_rows
from mercer.linear_model.solvers.ridge import ALPHAS
from mercer.linear_model.solvers.ridge_folds import DECOMPOSED_FEATURES, SEARCH_FACTORS
from mercer.maps.base import Map, Rate
from mercer.maps.block import Block, Coded, as_block, gram_operand, select_rows
from mercer.parallel.threads import one_blas_thread
from mercer.parallel.tile_size import Cost
from mercer.stats.moments import Moments

# Numbers of steps that only the data decide, alpha chosen, on six to ten sets: 38 to 230 of ridge
# regression; 290 to 860 of Newton's method with one output. With several, which converge one after
# the other, 520 to 1,840 passes have 0.3 to 0.7 of the outputs each. Log loss has one Hessian.
CONJUGATE_GRADIENT_STEPS = 100
NEWTON_CG_PASSES = 500
NEWTON_CG_PASSES_SEVERAL = 800
NEWTON_CG_PASSES_COUPLED = 1700
# Sweeps of coordinate descent: 78 to 119 of squared loss, 109 to 238 of others; scores of held-out
# rows take a fifth of the time.
DESCENT_SWEEPS = 130
DESCENT_SWEEPS_FOLDS = 240
# share of the passes of Newton-CG that compute gradients; the others are conjugate gradient steps
_GRADIENT_SHARE = 0.12

_PREDICTED_ROWS = 10**6

_FIRST_SIZE = 256  # the size of a map that is drawn first
_LARGEST_SIZE = 2**13
_SYNTHETIC_ROWS = 64  # rows that maps with statistics are fitted to, at least
_QUADRATIC = 2.05  # ratio of weights at twice the size, above which they grow as a square

_SECONDS = 0.1  # a timed sample is large enough from here on: threads are in use at a quarter of it
_RUNS = 3  # of which the fastest counts, unless they take longer than a sample in all
_GROWTH = 4  # ratio of the two sample sizes
_STATISTICS_ROWS = 512  # the sample of rows that bandwidths come from is full from here on
_MOMENT_COLUMNS = 1024  # moments of more columns are extrapolated
_SOLVER_COLUMNS = 512  # and solutions of more equations


@dataclass(eq=False)
class MapSizes:
    """MapSize of a map for d columns, as a function of its size parameter.

    Up to `most_weights` weights the map is drawn, on synthetic rows where it needs statistics (its
    own rows would change the weights, not their number). Beyond, widths are extrapolated: linearly,
    or as a square where the weights grow so, as for landmarks.

    Parameters
    ----------
    feature_map : Map
        Fitted or not.
    d : int
    density : float or None
        Share of entries that sparse rows store; None for dense rows.
    most_weights : int
        The default is 8 MiB of them, a tenth of a second.
    """

    feature_map: Map
    d: int
    density: float | None = None
    most_weights: int = 2**20
    _drawn: dict[int | None, tuple[Map, MapSize]] = field(default_factory=dict, init=False)

    @property
    def own_size(self) -> int | None:
        """The value of the size parameter; None where the map has no single one."""
        name = self.feature_map.size_parameter
        value = None if name is None else self.feature_map.get_params().get(str(name))
        return int(value) if isinstance(value, int | np.integer) else None

    def __call__(self, size: int | None) -> MapSize:
        """Return the widths at a size; None is the map's own."""
        low, high = self._drawable(size)
        if low is None or high is None or size is None or size <= high:
            return self.draw(high)[1]
        points = (low, (low + high) // 2, high)
        return _extrapolate(points, [self.draw(point)[1] for point in points], size)

    def reference(self, size: int | None) -> tuple[Map, MapSize]:
        """Return a fitted map of this size, or of the largest that is cheap to draw."""
        return self.draw(self._drawable(size)[1])

    def draw(self, size: int | None) -> tuple[Map, MapSize]:
        """Fit the map at this size to synthetic rows; None is the map as it is."""
        if size not in self._drawn:
            fitted = self.feature_map
            if not (size in (None, self.own_size) and self._is_fitted()):
                rows = max(_SYNTHETIC_ROWS, min(size or 0, self.most_weights // self.d))
                unfitted = clone(fitted) if size is None else fitted.with_size(size)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    fitted = unfitted.fit(np.random.default_rng(0).random((rows, self.d)))
            self._drawn[size] = fitted, MapSize.of(fitted, density=self.density)
        return self._drawn[size]

    def _is_fitted(self) -> bool:
        return getattr(self.feature_map, "n_features_in_", None) == self.d

    def _drawable(self, size: int | None) -> tuple[int | None, int | None]:
        """Return two sizes that are cheap to draw, the second the wanted one where that is."""
        own = self.own_size
        size = own if size is None else size
        if size is None or (size == own and self._is_fitted()):
            return None, size
        high = max(2, min(_FIRST_SIZE, size, self.most_weights // self.d))
        if not isinstance(self.feature_map.rate, Rate):
            # larger ones may be expensive: series of hundreds of terms
            high = max(4, min(high, own or high))
            return high // 2, min(high, size)
        while high < size:
            here, half = (self.draw(n)[1].weights for n in (high, high // 2))
            if (
                here > _QUADRATIC * max(half, 1)
                or here * 2 > self.most_weights
                or high >= _LARGEST_SIZE
            ):
                break
            high = min(2 * high, size)
        return high // 2, min(high, size)


def _extrapolate(points: tuple[int, ...], known: list[MapSize], size: int) -> MapSize:
    """Continue a line through the last sizes, or a parabola where the weights grow as a square."""
    quadratic = known[-1].weights > _QUADRATIC * max(known[0].weights, 1)

    def at(*values: float) -> float:
        if quadratic:
            return float(np.polyval(np.polyfit(points, values, 2), size))
        return values[-1] + (values[-1] - values[0]) * (size - points[-1]) / (
            points[-1] - points[0]
        )

    columns, weights, stored = (
        at(*(getattr(one, name) for one in known)) for name in ("columns", "weights", "stored")
    )
    cost = Cost(at(*(one.cost.flops for one in known)), at(*(one.cost.bytes for one in known)))
    return replace(known[-1], columns=round(columns), cost=cost, weights=weights, stored=stored)


@dataclass(frozen=True)
class Line:
    """seconds = fixed + per_row n."""

    fixed: float
    per_row: float

    def __call__(self, rows: float, blocks: int = 1) -> float:
        """Return the seconds of so many rows in so many blocks."""
        return blocks * self.fixed + rows * self.per_row

    def scaled(self, fixed: float, per_row: float) -> Line:
        """Multiply both coefficients."""
        return Line(self.fixed * fixed, self.per_row * per_row)


@dataclass(frozen=True)
class Timings:
    """Seconds of each kind of work, timed on two samples of rows.

    Attributes
    ----------
    sample : (int, int)
        Rows of the two samples of features.
    reference : MapSize
        The map that was timed; seconds at other sizes are in proportion to their work.
    start : float
        A fit to a few rows.
    read : float
        Reading a row from its source.
    statistics : Line
        Fitting the map.
    features, moments : Line
        Computing a block of features, and adding it to the normal equations.
    moment_columns, moment_stored : float
        Columns, and stored numbers of a row, of the features that were added.
    products, gradients, images : float
        Z p and Z'r for a row and an output: in the dtype of Z, in float64, and in float64 by one
        product for a block, as conjugate gradients on the normal equations compute them.
    eigenvectors : (float, float)
        A decomposition for all alphas: seconds for D^2 and D^3.
    factor : float
        A Cholesky factor: seconds for D^3.
    sweeps : Line
        A sweep of coordinate descent over one-hot codes, all outputs.
    """

    sample: tuple[int, int]
    reference: MapSize
    start: float
    read: float
    statistics: Line
    features: Line
    moments: Line
    moment_columns: float
    moment_stored: float
    products: float
    gradients: float
    images: float
    eigenvectors: tuple[float, float]
    factor: float
    sweeps: Line = Line(0.0, 0.0)

    def __repr__(self) -> str:
        return f"Timings(sample={self.sample}, start={self.start:.3g})"


def measure_timings(
    fitted: Map, reference: MapSize, rows: Any, shape: DataShape, *, read: float, outputs: int
) -> Timings:
    """Time a fitted map and the solvers on the first rows of a data set.

    Parameters
    ----------
    fitted, reference : Map, MapSize
    rows : array or CSR matrix
        A sample of the rows.
    shape : DataShape
    read : float
        Seconds to read a row.
    outputs : int
    """
    block: Block = as_block(rows[:1])

    def compute_features(n: int) -> None:
        nonlocal block
        *_, block = features(open_stream(rows[:n]), fitted).blocks()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fit issues them again
        X = np.random.default_rng(0).random((20, 2))
        start = _time(lambda: KernelRegressor("linear").fit(X, X[:, 0]))
        eigenvectors = _time_ridge(reference.columns)
    with warnings.catch_warnings(), one_blas_thread():
        warnings.simplefilter("ignore")
        most = min(rows.shape[0], block_rows(shape, reference))
        of_features, sample = _time_line(compute_features, 16, most)
        part, part_share = block, 1.0
        if reference.columns > _MOMENT_COLUMNS:
            Z = gram_operand(block)
            part = as_block(Z[:, :_MOMENT_COLUMNS])
            part_share = max(gram_operand(part).size, 1) / Z.size
        return Timings(
            sample,
            reference,
            start,
            read,
            _time_statistics(fitted, rows),
            of_features,
            _time_moments(part, outputs),
            part.shape[1],
            reference.stored * part_share,
            _time_products(block, block.dtype, outputs),
            _time_products(block, np.float64, outputs),
            _time_products(block, np.float64, outputs, whole=True),
            eigenvectors,
            _time_factor(reference.columns),
            _time_sweeps(block, outputs),
        )


def _time_statistics(fitted: Map, rows: Any) -> Line:
    """Time the fit of a map: statistics of the rows, and its weights.

    The time of bandwidths, whose sample of rows is full at the smaller size, does not grow.
    """
    most = rows.shape[0]
    least = min(_STATISTICS_ROWS, most)
    unfitted = clone(fitted)
    try:
        few, many = (_time(lambda n=n: unfitted.fit(rows[:n])) for n in (least, most))  # type: ignore[misc]
    except ValueError:  # more landmarks than rows of the sample
        return Line(0.0, 0.0)
    slope = max(many - few, 0.0) / max(most - least, 1)
    return Line(max(few - slope * least, 0.0), slope)


def _time_moments(block: Block, outputs: int) -> Line:
    Z, y = gram_operand(block), np.ones((block.shape[0], outputs))
    moments = Moments()
    moments.add(as_block(Z[:1]), y[:1])
    line, _ = _time_line(lambda n: moments.add(as_block(Z[:n]), y[:n]), 16, Z.shape[0])
    if not isinstance(block, Coded):
        return line
    return replace(line, per_row=line.per_row + _time(lambda: gram_operand(block)) / Z.shape[0])


def _time_products(block: Block, dtype: Any, outputs: int, *, whole: bool = False) -> float:
    """Time Z P and Z'R, for a row."""
    n, D = block.shape
    P, R = np.ones((D, outputs), dtype), np.ones((n, outputs), dtype)
    if whole:
        return _time(lambda: (block @ P, block.T @ R)) / n
    return _time(lambda: (multiply(block, P), multiply_transposed(block, R))) / n


def _time_sweeps(block: Block, outputs: int) -> Line:
    """Time a sweep of coordinate descent over codes of a quarter of the rows, and of all."""
    if not isinstance(block, Coded) or not is_one_hot(block):
        return Line(0.0, 0.0)
    sizes, seconds = sorted({max(1, block.shape[0] // _GROWTH), block.shape[0]}), []
    for n in sizes:
        part = select_rows(block, np.arange(block.shape[0]) < n)
        Y = np.random.default_rng(0).random((n, outputs))
        sweep = CodedDescent(part, Y, np.ones(n), "squared", True).prepare_sweep()
        sweep()
        seconds.append(_time(sweep))
    return _line_through(sizes, seconds)


def _time_ridge(columns: int) -> tuple[float, float]:
    """Time one decomposition of a scatter at two sizes; return seconds for D^2 and D^3."""
    D = max(2, min(columns, _SOLVER_COLUMNS))
    half = D // 2
    X = np.random.default_rng(0).random((D + 2, D))
    seconds = []
    for size in (half, D):
        solutions: list[float] = []
        for _ in range(_RUNS):
            model = KernelRegressor("linear", alpha="gcv").partial_fit(X[:, :size], X[:, 0])
            start = time.perf_counter()
            _ = model.alpha_  # solved when it is needed
            solutions.append(time.perf_counter() - start)
        seconds.append(min(solutions))
    cubic = (seconds[1] - seconds[0] * (D / half) ** 2) / (D**3 - half * D**2)
    cubic = min(max(cubic, 0.0), seconds[1] / D**3)
    return seconds[1] / D**2 - cubic * D, cubic


def _time_factor(columns: int) -> float:
    """Time a Cholesky factor; return seconds for D^3."""
    from scipy.linalg import cho_factor

    D = min(columns, _SOLVER_COLUMNS)
    rows = np.random.default_rng(0).random((D, D))
    A = rows @ rows.T + D * np.eye(D)
    return _time(lambda: cho_factor(A, check_finite=False)) / D**3


def _time(work: Callable[[], Any]) -> float:
    """Return the seconds of the fastest of a few runs."""
    seconds: list[float] = []
    while len(seconds) < _RUNS and sum(seconds) < _SECONDS:
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def _time_line(work: Callable[[int], Any], least: int, most: int) -> tuple[Line, tuple[int, int]]:
    """Time samples of growing size; return the line through the last two, and their sizes.

    Samples grow by a factor of 4 until one takes 0.1 s, or has `most` rows.
    """
    n = min(least, most)
    work(n)  # loads what is loaded on first use
    sizes, seconds = [n], [_time(lambda: work(n))]
    while sizes[-1] < most and (len(sizes) < 2 or seconds[-1] < _SECONDS):
        n = min(most, _GROWTH * sizes[-1])
        sizes.append(n)
        seconds.append(_time(lambda n=n: work(n)))  # type: ignore[misc]
    if len(sizes) == 1:
        return (Line(seconds[0], 0.0) if n == most else Line(0.0, seconds[0] / n)), (n, n)
    return _line_through(sizes, seconds), (sizes[-2], sizes[-1])


def _line_through(sizes: Sequence[int], seconds: Sequence[float]) -> Line:
    """Return the line through the last two points, neither of whose coefficients is below 0."""
    n, last = sizes[-1], seconds[-1]
    slope = last / n
    if len(sizes) > 1 and last > seconds[-2]:
        slope = min((last - seconds[-2]) / (n - sizes[-2]), slope)
    return Line(max(last - slope * n, 0.0), slope)


@dataclass(frozen=True)
class Step:
    """Part of a fit.

    Attributes
    ----------
    name : str
    seconds : float
        Of one repetition.
    times : int
        Repetitions that are assumed where only the data decide; 1 otherwise.
    """

    name: str
    seconds: float
    times: int = 1


def steps_of(
    plan: Plan,
    shape: DataShape,
    size: MapSize,
    timings: Timings,
    outputs: int,
    loss: str = "squared",
) -> tuple[Step, ...]:
    """Return the steps of a plan with their seconds, in order."""
    n, D = shape.rows, size.columns
    blocks = math.ceil(n / block_rows(shape, size))
    read = n * timings.read
    work = size.weights / max(timings.reference.weights, 1.0)
    statistics = timings.statistics.scaled(work, 1.0)
    steps = [
        Step("start", timings.start),
        Step(
            "fitting the map",
            len(size.statistics) * read + statistics(n if size.statistics else 0),
        ),
    ]
    one_pass = read + _features(size, timings)(n, blocks)
    moments = _moments(size, timings)(n, blocks)
    square, cubic = timings.eigenvectors
    stored = n * size.stored / timings.reference.stored
    if plan.route in ("moments", "two-stage"):
        steps.append(Step("normal equations", one_pass + moments))
        decomposition, factor = square * D**2 + cubic * D**3, timings.factor * D**3
        folds = {"kfold": FOLDS, "held-out": 1}.get(plan.alpha_method or "", 0)
        if folds and D > DECOMPOSED_FEATURES:
            seconds = (SEARCH_FACTORS * folds + 1) * factor
            steps.append(Step("solving for some alphas", seconds))
        else:
            seconds = max(folds, 1) * decomposition + bool(folds) * factor
            steps.append(Step("solving for all alphas", seconds))
        if plan.alpha_method == "loo":
            # Features times all eigenvectors are twice the multiply-adds of Z'Z, in one product:
            # 1.2 to 1.5 times its seconds. Then predictions by alpha.
            path = len(ALPHAS) * stored * timings.products / 2 * 8 / shape.itemsize
            steps.append(Step("leave-one-out", read + one_pass + 1.5 * moments + path))
        return tuple(steps)
    if plan.route == "gram":
        steps.append(Step("features of all rows", one_pass))
        product = moments * n / D  # n^2 D instead of n D^2 multiply-adds
        if size.form != "dense":
            product = n * stored * timings.gradients / (2 * outputs)
        if plan.alpha_method is None:
            steps.append(Step("Gram matrix, solved", product + timings.factor * n**3))
        else:
            decomposition = square * n**2 + cubic * n**3
            steps.append(Step("Gram matrix, solved for all alphas", product + decomposition))
        return tuple(steps)
    kept = is_kept(plan, shape, size, outputs)
    again = 0.0 if kept else one_pass
    steps.append(Step("first pass", one_pass))
    if uses_descent(plan, shape, size, outputs, loss):
        ratio = size.columns / timings.reference.columns
        seconds = timings.sweeps.scaled(ratio, size.stored / timings.reference.stored)(n)
        sweeps = DESCENT_SWEEPS if plan.route == "passes" else DESCENT_SWEEPS_FOLDS
        steps.append(Step("sweep of coordinate descent", seconds, sweeps))
        return tuple(steps)
    if is_reduced(plan, shape, size):
        product = moments * n / D  # n^2 D instead of n D^2 multiply-adds
        steps.append(Step("basis of the rows", product + square * n**2 + cubic * n**3))
        size, D = replace(size, columns=n, stored=float(n)), n
        moments = _moments(size, timings)(n, 1)
        stored, again = n * size.stored / timings.reference.stored, 0.0
    # eigenvectors of all features, or of a sample of rows
    sampled = sampled_rows(D, plan.limit)
    if sampled is None:
        spectrum = moments + square * D**2 + cubic * D**3
        if has_copies(plan, shape, size, outputs):
            spectrum += 1.5 * moments  # times all eigenvectors as above
    else:
        m = min(n, sampled)
        spectrum = moments * m**2 / (n * D) + square * m**2 + cubic * m**3
    steps.append(Step("preconditioner", spectrum))
    if plan.route == "passes":
        seconds = again + stored * timings.images
        steps.append(Step("conjugate gradient step", seconds, CONJUGATE_GRADIENT_STEPS))
        return tuple(steps)
    mixed = (1 - _GRADIENT_SHARE) * timings.products + _GRADIENT_SHARE * timings.gradients
    passes = NEWTON_CG_PASSES if outputs == 1 else NEWTON_CG_PASSES_SEVERAL
    if loss == "log_loss" and outputs > 1:
        passes = NEWTON_CG_PASSES_COUPLED
    steps.append(Step("Newton-CG pass", again + stored * mixed, passes))
    return tuple(steps)


def is_reduced(plan: Plan, shape: DataShape, size: MapSize) -> bool:
    """Return whether Newton's method works in a basis of the rows, fewer than dense features."""
    few = shape.rows < size.columns and shape.rows <= GRAM_ROWS
    return plan.route == "newton-cg" and size.form == "dense" and few


def _features(size: MapSize, timings: Timings) -> Line:
    ratio = size.cost.flops / max(timings.reference.cost.flops, 1.0)
    return timings.features.scaled(ratio, ratio)


def _moments(size: MapSize, timings: Timings) -> Line:
    squares = (size.columns / timings.moment_columns) ** 2
    return timings.moments.scaled(squares, (size.stored / timings.moment_stored) ** 2)


def predict_seconds(shape: DataShape, size: MapSize, timings: Timings) -> float:
    """Return the seconds to predict a million rows that are in memory."""
    n = _PREDICTED_ROWS
    scores = n * size.stored / timings.reference.stored * timings.products / 2
    return _features(size, timings)(n, math.ceil(n / block_rows(shape, size))) + scores
