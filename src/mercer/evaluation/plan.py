"""plan(rows, map): estimate the size, route, seconds and memory of a fit before it runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer import system
from mercer._typing import is_csr
from mercer.data import open_stream
from mercer.errors import ParameterError
from mercer.evaluation.certificate import Certificate, format_percent
from mercer.evaluation.convergence import Law, Table
from mercer.evaluation.cost import (
    MapSizes,
    Step,
    Timings,
    measure_timings,
    predict_seconds,
    steps_of,
)
from mercer.linear_model.base import fit_encoder, make_map
from mercer.linear_model.losses import LOSSES
from mercer.linear_model.memory import (
    LEAST_LIMIT,
    SAMPLE_NUMBERS,
    SAMPLE_ROWS,
    DataShape,
    MapSize,
    block_rows,
    is_kept,
    peak_bytes,
    reduce_arrays,
    row_bytes,
    rows_of_tile,
)
from mercer.linear_model.parameters import ESTIMATOR_PARAMETERS
from mercer.linear_model.routes import (
    ROUTES,
    SCALED,
    Plan,
    Problem,
    Settings,
    plan_alpha,
    plan_others,
)
from mercer.maps.base import Map
from mercer.maps.block import matrix
from mercer.maps.compose import count_scaled
from mercer.maps.scaled import Scaled
from mercer.maps.tabular import Tabular
from mercer.parallel.device import device_context
from mercer.parallel.threads import max_threads
from mercer.parallel.tile_size import dtype_for_error, format_bytes
from mercer.validation.parameters import (
    parse_memory,
    validate_integer,
    validate_option,
    validate_parameter,
    validate_positive,
    validate_probability,
)

_SIZES_PER_HALVING = 4  # sizes that are tried between one and its half, where a budget decides
_INDENT = 16  # columns in front of a text of a printed estimate
_LEAST_SHARE = 0.01  # of the seconds of a fit, for a step to be printed


@dataclass(frozen=True)
class RouteCost:
    """Cost of a fit by a route that was not chosen.

    Attributes
    ----------
    route : str
    seconds : float
    bytes : int
        As those of `CostEstimate`.
    fits : bool
        Whether its arrays are within the memory limit.
    assumed_steps : int
        Steps that are assumed where only the data decide; 1 without any.
    """

    route: str
    seconds: float
    bytes: int
    fits: bool
    assumed_steps: int


@dataclass(frozen=True, kw_only=True)
class CostEstimate(Plan):
    """Plan of a fit with its estimated seconds and memory. ``print`` shows it as a table.

    Attributes
    ----------
    feature_map : str
    size_parameter, size : str or None, int or None
        The parameter that sets the accuracy, and the value that is planned with.
    reason : str
        Source of the size: "as given", or the bound or measured rate that the error comes from.
    error : float or None
        Expected relative error at this size; None where it is not known.
    dtype : str
    tile_rows, block_rows : int
    bytes : int
        Peak memory beyond that of the process, rows in memory not counted.
    row_bytes : int
        Bytes of the rows, where the source has them in memory; 0 where they are read in blocks.
    keeps_features : bool
        Whether the features of all rows stay in memory between passes.
    steps : tuple of Step
        Steps of the fit, with seconds.
    predict_seconds : float
        For a million rows.
    others : tuple of RouteCost
        What the other routes would cost.
    shortfalls : tuple of str
        Requirements that are not met, and the largest size that meets them; empty when all are.
    timings : Timings
        Seconds of the timed samples.
    """

    feature_map: str
    size_parameter: str | None
    size: int | None
    reason: str
    error: float | None
    dtype: str
    tile_rows: int
    block_rows: int
    bytes: int
    row_bytes: int
    keeps_features: bool
    steps: tuple[Step, ...]
    predict_seconds: float
    timings: Timings
    others: tuple[RouteCost, ...] = ()
    shortfalls: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return (
            f"CostEstimate({self.feature_map}, {self.rows:,} rows x {self.columns:,} columns, "
            f"route={self.route!r}, seconds={self.seconds:.2g}, bytes={self.bytes})"
        )

    @property
    def seconds(self) -> float:
        """Seconds of the whole fit."""
        return _total_seconds(self.steps)

    @property
    def fits(self) -> bool:
        """Whether the error and both budgets are met."""
        return not self.shortfalls

    def __str__(self) -> str:
        shown = [
            step for step in self.steps if step.seconds * step.times >= _LEAST_SHARE * self.seconds
        ]
        small, large = self.timings.sample
        facts = {
            "error": None if self.error is None else f"about {format_percent(self.error)}",
            "columns": SCALED if self.scaled else None,
            "route": f"{ROUTES[self.route].method}; passes: {', '.join(self.passes)}",
            "tiles": f"{self.tile_rows:,} rows, in blocks of {self.block_rows:,}",
            "memory": self._describe_memory(),
            "fit": f"about {_time(self.seconds)}: {', '.join(map(_describe_step, shown))}",
            "routes": self._compare_routes(),
            "predict": f"about {_time(self.predict_seconds)} for a million rows",
            "timed on": f"samples of {small:,} and {large:,} rows",
        }
        if self.size is not None:
            facts = {str(self.size_parameter): f"{self.size:,}: {self.reason}", **facts}
        return "\n".join(
            [
                f"{self.rows:,} rows x {self.columns:,} columns, {self.dtype} -> "
                f"{self.features:,} features of {self.feature_map}",
                *(
                    f"  {name + ' ':<{_INDENT - 2}}{text}"
                    for name, text in facts.items()
                    if text is not None
                ),
                *(f"  falls short   {sentence}" for sentence in self.shortfalls),
            ]
        )

    def _describe_memory(self) -> str:
        """Return the peak memory, and which rows and features are in memory."""
        rows = f" beside the rows, {format_bytes(self.row_bytes)}"
        if not self.row_bytes:
            rows = f"; rows are read in blocks of {self.block_rows:,}"
        kept = "; features of all rows stay in memory" if self.keeps_features else ""
        return f"about {format_bytes(self.bytes)}{rows}{kept}"

    def _compare_routes(self) -> str:
        """Return a table: seconds and memory of each route, the chosen one first."""
        rows = [
            (ROUTES[self.route].method, self.seconds, self.bytes, f"chosen: {self.route_reason}"),
            *(
                (ROUTES[other.route].method, other.seconds, other.bytes, self._describe(other))
                for other in self.others
            ),
        ]
        width = max(len(method) for method, *_ in rows)
        return f"\n{' ' * _INDENT}".join(
            f"{method:<{width}}  {_time(seconds):>7}  {format_bytes(most):>7}  {note}".rstrip()
            for method, seconds, most, note in rows
        )

    def _describe(self, other: RouteCost) -> str:
        if not other.fits:
            return f"above the limit of {format_bytes(self.limit)}"
        return f"{other.assumed_steps} steps assumed" if other.assumed_steps > 1 else ""


@device_context(None)  # samples are timed on the CPU
def plan(
    source: Any,
    feature_map: Any = "fourier",
    *,
    scale: bool | str = "auto",
    error: float | None = None,
    confidence: float = 0.95,
    max_memory: int | str | None = None,
    max_seconds: float | None = None,
    rate: Law | Table | Certificate | None = None,
    loss: str = "squared",
    outputs: int = 1,
    timings: Timings | None = None,
) -> CostEstimate:
    """Estimate seconds and memory of a fit of KernelRegressor or KernelClassifier, alpha chosen.

    Work is counted; its seconds are timed on two samples of the rows and extrapolated.

    Parameters
    ----------
    source : stream, anything that ``open_stream`` takes, or (rows, columns[, density])
        The first rows of a stream are timed; all of it is read where only that gives the number of
        rows. A shape stands for dense rows in memory, or sparse ones with a density; random rows
        of this shape are timed, in float32 where the wanted error is far above its rounding.
    feature_map : map, composition, name, or list of these
        Fitted or not. A size that is "auto" is the one for these rows.
    scale : bool or "auto", default="auto"
        As of the estimators, which fit a fitted map again.
    error : float, optional
        Relative error of kernel values that is wanted. The size for it comes from ``rate``;
        without it, from a bound that holds for any data, where the map has one that needs fewer
        features than there are rows.
    confidence : float, default=0.95
        Probability with which a bound holds; a measured rate has none.
    max_memory : int or str, optional
        Memory of the fit, in bytes or as "2GB". By default moments may take half of the machine's
        memory, as in a fit.
    max_seconds : float, optional
        Seconds of the fit.
    rate : Certificate, Law or Table, optional
        Convergence of the error with the size, as ``certify`` measures it: a certificate, or its
        ``rate``.
    loss : {"squared", "squared_hinge", "logistic", "log_loss"}, default="squared"
    outputs : int, default=1
        Targets, or classes.
    timings : Timings, optional
        ``timings`` of an earlier estimate for the same rows and map, which is used instead of new
        ones: estimates that differ in one parameter can be compared.

    Returns
    -------
    CostEstimate
        A Plan. Where an error or a budget cannot be met, ``fits`` is False and ``shortfalls``
        lists the reasons and what can be done instead.

    Examples
    --------
    >>> from mercer import RandomFourier, plan
    >>> estimate = plan((1_000_000, 50), RandomFourier(512))
    >>> estimate.route, estimate.features, estimate.fits
    ('moments', 512, True)
    """
    estimator_name = "plan"
    validate_parameter(estimator_name, "scale", scale, *ESTIMATOR_PARAMETERS["scale"].constraints)
    fitted = (
        feature_map
        if isinstance(feature_map, Map)
        else make_map(estimator_name, feature_map, None, None)
    )
    if error is not None:
        validate_positive(estimator_name, "error", error)
    validate_probability(estimator_name, "confidence", confidence)
    validate_option(estimator_name, "loss", loss, ("squared", *LOSSES))
    validate_integer(estimator_name, "outputs", outputs)
    measured = _validate_rate(estimator_name, rate, fitted)
    shape, sample, read, encoder = _sample(estimator_name, source, error, scale)
    unsized, fitted = fitted, fitted.for_rows(shape.rows)
    given = "as given" if fitted is unsized else f"auto, for {shape.rows:,} rows"
    sizes = MapSizes(fitted, shape.columns, shape.density)
    chosen, reason, unreachable = _choose_size(
        estimator_name, fitted, sizes.own_size, given, error, confidence, measured, shape.rows
    )
    if timings is None:
        timings = measure_timings(
            *sizes.reference(chosen), sample, shape, read=read, outputs=outputs
        )
    scaled = count_scaled(fitted, scale) if encoder is None else 0
    estimator = _Estimator(shape, fitted, sizes, timings, measured, loss, outputs, scaled, encoder)

    def budget(name: str, value: Any, validate: Callable[[str, str, Any], Any]) -> Any:
        """Validate a budget; a refusal states the least that is needed."""
        try:
            return None if value is None else validate(estimator_name, name, value)
        except ParameterError as error:
            least = estimator(None if sizes.own_size is None else 1, None)
            raise error.with_parts(f" The least that this fit takes is {_needs(least)}.") from None

    memory = budget("max_memory", max_memory, parse_memory)
    seconds = budget("max_seconds", max_seconds, validate_positive)
    estimate = estimator(chosen, memory, reason)
    over = _over_budget(estimate, seconds, memory)
    if over and chosen is not None:
        over += (_largest_fitting(lambda n: estimator(n, memory), chosen, seconds, memory),)
    return replace(estimate, shortfalls=unreachable + over)


@dataclass(frozen=True, eq=False)
class _Estimator:
    """CostEstimate of one map and data set, as a function of the size and of a memory limit."""

    shape: DataShape
    fitted: Map
    sizes: MapSizes
    timings: Timings
    rate: Law | Table | None
    loss: str
    outputs: int
    scaled: int  # maps that the estimator puts Scaled in front of
    encoder: Tabular | None  # of the columns of a table

    def __call__(self, number: int | None, memory: int | None, reason: str = "") -> CostEstimate:
        shape, fitted, widths = self.shape, self.fitted, self.sizes(number)
        scales = (Scaled.statistics_name,) * self.scaled
        if self.encoder is not None:
            scales = (Tabular.statistics_name,)
        widths = replace(widths, statistics=scales + widths.statistics)
        limit = system.physical_memory() // 2 if memory is None else memory
        problem = Problem(
            Settings("plan", "auto", self.loss),
            shape.rows,
            shape.columns,
            widths.columns,
            limit,
            first_passes=widths.statistics,
            outputs=0 if self.loss == "squared" else self.outputs,
            targets=self.outputs,
            stored=widths.columns if widths.dense_gram else widths.stored,
            row_bytes=row_bytes(shape, widths),
        )
        route = reduce_arrays(
            lambda arrays: plan_alpha(replace(problem, limit=arrays)),
            lambda plan: self._bytes(plan, widths),
            limit,
            system.physical_memory() if memory is None else max(memory, LEAST_LIMIT),
        )
        others = plan_others(route, replace(problem, limit=route.limit))
        error = 0.0 if fitted.rate is None and fitted.size_parameter is None else None
        if self.rate is not None and number is not None:
            error = self.rate.error(number)
        return CostEstimate(
            **{
                **vars(route),
                "scaled": self.scaled > 0,
                "encoded": "" if self.encoder is None else self.encoder.schema_.describe(),
            },
            feature_map=type(fitted).__name__ if number is None else repr(fitted.with_size(number)),
            size_parameter=fitted.size_parameter,
            size=number,
            reason=reason,
            error=error,
            dtype=shape.dtype,
            tile_rows=rows_of_tile(shape, widths),
            block_rows=min(shape.rows, block_rows(shape, widths)),
            bytes=self._bytes(route, widths),
            row_bytes=shape.bytes if shape.kind == "array" else 0,
            keeps_features=route.route == "gram" or is_kept(route, shape, widths, self.outputs),
            steps=self._steps(route, widths),
            predict_seconds=predict_seconds(shape, widths, self.timings),
            timings=self.timings,
            others=tuple(self._cost(other, widths) for other in others),
        )

    def _cost(self, plan: Plan, widths: MapSize) -> RouteCost:
        steps = self._steps(plan, widths)
        return RouteCost(
            plan.route,
            _total_seconds(steps),
            self._bytes(plan, widths),
            plan.solver_bytes <= plan.limit,
            max(step.times for step in steps),
        )

    def _steps(self, plan: Plan, widths: MapSize) -> tuple[Step, ...]:
        return steps_of(plan, self.shape, widths, self.timings, self.outputs, self.loss)

    def _bytes(self, plan: Plan, widths: MapSize) -> int:
        return peak_bytes(plan, self.shape, widths, max_threads(), self.outputs, self.loss)


def _total_seconds(steps: tuple[Step, ...]) -> float:
    return sum(step.seconds * step.times for step in steps)


def _sample(
    estimator_name: str, source: Any, error: float | None, scale: bool | str
) -> tuple[DataShape, Any, float, Tabular | None]:
    """Return the shape of the data, rows to time on, seconds to read a row, and an encoder.

    The columns of a table are encoded, which counts as reading them.
    """
    if isinstance(source, tuple) and source and all(np.ndim(part) == 0 for part in source):
        shape = _validate_shape(estimator_name, source, dtype_for_error(error))
        return shape, shape.synthetic(shape.sample_rows()), 0.0, None
    stream = open_stream(source)
    start, parts, rows, numbers = time.perf_counter(), [], 0, 0
    for chunk in stream.chunks():
        if rows < SAMPLE_ROWS and numbers < SAMPLE_NUMBERS:
            parts.append(chunk.X[: SAMPLE_ROWS - rows])
            numbers += chunk.X.nnz if stream.sparse else chunk.X.size
        elif stream.rows is not None:
            break
        rows += len(chunk)  # only a whole pass gives the number of rows of some sources
    if not rows:
        raise ValueError(f"{estimator_name}: {stream.name} has no rows.")
    read = (time.perf_counter() - start) / rows
    encoder = None
    if not stream.sparse:
        X, density = np.concatenate(parts), None
        encoder = fit_encoder(X, stream, scale="robust" if scale is True else scale)
    else:
        from scipy.sparse import vstack

        X = vstack(parts, format="csr")
        density = max(X.nnz, 1) / (X.shape[0] * X.shape[1])
    if encoder is not None:
        start = time.perf_counter()
        X = matrix(encoder._transform_block(X))
        read += (time.perf_counter() - start) / X.shape[0]
        density = X.nnz / (X.shape[0] * X.shape[1]) if is_csr(X) else None
    kind = "array" if stream.kind in ("pandas", "polars") else stream.kind
    shape = DataShape(stream.rows or rows, X.shape[1], density, str(stream.dtype), kind)
    return shape, X[: shape.sample_rows()], read, encoder


def _validate_shape(estimator_name: str, source: tuple[Any, ...], dtype: str) -> DataShape:
    if len(source) not in (2, 3):
        raise ValueError(
            f"{estimator_name}: a shape is (rows, columns) or (rows, columns, density), got "
            f"{source!r}."
        )
    rows = validate_integer(estimator_name, "rows", source[0])
    columns = validate_integer(estimator_name, "columns", source[1])
    density = None if len(source) == 2 else validate_positive(estimator_name, "density", source[2])
    if density is not None and density > 1:
        raise ValueError(
            f"{estimator_name}: density is a share of entries, at most 1, got {source[2]!r}."
        )
    return DataShape(rows, columns, density, dtype)


def _validate_rate(estimator_name: str, rate: Any, fitted: Map) -> Law | Table | None:
    """Return the rate itself, or that of a certificate; refuse one of another parameter."""
    law = rate.rate if isinstance(rate, Certificate) else rate
    if law is None:
        return None
    if not isinstance(law, Law | Table):
        raise TypeError(
            f"{estimator_name}: rate must be a Certificate or its rate, got a "
            f"{type(rate).__name__}."
        )
    if law.size_parameter != fitted.size_parameter:
        raise ValueError(
            f"{estimator_name}: rate is one of {law.size_parameter}, and {type(fitted).__name__} "
            "has "
            f"{fitted.size_parameter}."
        )
    return law


def _choose_size(
    estimator_name: str,
    fitted: Map,
    own: int | None,
    given: str,
    error: float | None,
    confidence: float,
    measured: Law | Table | None,
    rows: int,
) -> tuple[int | None, str, tuple[str, ...]]:
    """Return the size to plan with, the reason for it, and why an error is out of reach."""
    name = type(fitted).__name__
    if error is None:
        return own, given, ()
    if own is None:
        if fitted.rate is None and fitted.size_parameter is None:
            return None, "exact", ()
        several = (
            f"{name} has no single parameter that buys accuracy: certify measures the error that "
            "it has"
        )
        return None, given, (several,)
    if measured is not None:
        needed = measured.size_for(error)
        if needed is not None:
            return (
                needed,
                f"for an error of {format_percent(error)}, by the rate that was measured",
                (),
            )
        unreachable = (
            f"an error of {format_percent(error)} is not reachable by {fitted.size_parameter}: "
            f"{measured.why_not(error)}"
        )
        return own, given, (unreachable,)
    bound = fitted.size_for(error, 1 - confidence)
    if bound is not None and bound <= rows:
        reason = (
            f"for an error of {error:g} of a pair, with probability {confidence:g}, by theory: any "
            "data"
        )
        return bound, reason, ()
    vacuous = "no bound that holds for any data"
    if bound is not None:
        vacuous = (
            f"a bound that asks for {fitted.size_parameter} = {bound:,}, more than there are rows"
        )
    raise ValueError(
        f"{estimator_name}: theory has {vacuous}, for {name} and an error of {error:g}. Measure "
        "how its error "
        "falls on rows of your own, and pass it on: rate=certify(fitted_map, X, error=...)."
    )


def _over_budget(
    estimate: CostEstimate, max_seconds: float | None, max_memory: int | None
) -> tuple[str, ...]:
    """List the budgets, and the memory of the machine, that an estimate exceeds."""
    over = []
    if max_seconds is not None and estimate.seconds > max_seconds:
        over.append(f"{_time(estimate.seconds)} are more than max_seconds={max_seconds:g}")
    if max_memory is not None and estimate.bytes > max_memory:
        over.append(
            f"{format_bytes(estimate.bytes)} are more than max_memory, {format_bytes(max_memory)}"
        )
    memory = system.physical_memory()
    if estimate.bytes > memory:
        over.append(
            f"{format_bytes(estimate.bytes)} are more than this machine has, {format_bytes(memory)}"
        )
    return tuple(over)


def _largest_fitting(
    estimate: Callable[[int], CostEstimate],
    number: int,
    max_seconds: float | None,
    max_memory: int | None,
) -> str:
    """Search the largest size below `number` within the budgets, and describe it."""
    tried = sorted({max(1, int(number * 0.5 ** (i / _SIZES_PER_HALVING))) for i in range(1, 64)})
    low, high = -1, len(tried)  # tried[low] is within the budgets, tried[high] is not
    best: CostEstimate | None = None
    while high - low > 1:
        middle = (low + high) // 2
        candidate = estimate(tried[middle])
        if _over_budget(candidate, max_seconds, max_memory):
            high = middle
        else:
            low, best = middle, candidate
    if best is None:
        return f"nothing fits: the least is {_needs(estimate(tried[0]))}"
    error = "" if best.error is None else f", with an error of about {format_percent(best.error)}"
    return f"what fits is {_needs(best)}{error}"


def _needs(estimate: CostEstimate) -> str:
    at = "" if estimate.size is None else f", with {estimate.size_parameter} = {estimate.size:,}"
    return f"about {_time(estimate.seconds)} and {format_bytes(estimate.bytes)}{at}"


def _describe_step(step: Step) -> str:
    assumed = f", {step.times} of which are assumed" if step.times > 1 else ""
    return f"{step.name} {_time(step.seconds)}{assumed}"


def _time(seconds: float) -> str:
    """Format seconds: 950 ms, 12 s, 3.5 min, 20 h."""
    units = (("h", 3600.0, 2), ("min", 60.0, 2), ("s", 1.0, 0.995), ("ms", 1e-3, 0))
    unit, length, _ = next(unit for unit in units if seconds >= unit[2] * unit[1])
    return f"{float(f'{seconds / length:.2g}'):g} {unit}"
