"""plan(rows, map): what a fit would take, before anything runs: the size for an error, the route,
seconds and bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer import system
from mercer.data import open_stream
from mercer.errors import ParameterError
from mercer.evaluation.certificate import Certificate, share
from mercer.evaluation.convergence import Law, Table
from mercer.evaluation.cost import speeds
from mercer.evaluation.cost.estimates import (
    Rows,
    Step,
    block_rows,
    peak_bytes,
    seconds_to_predict,
    steps_of,
    tile,
)
from mercer.evaluation.cost.speeds import Speeds
from mercer.evaluation.outline import Outline, Outlines
from mercer.linear_model.base import make_map
from mercer.linear_model.losses import LOSSES
from mercer.linear_model.routes import Plan, plan_fit
from mercer.maps.base import Map
from mercer.parallel.threads import threads
from mercer.parallel.tile_size import size, width_for
from mercer.validation.parameters import (
    parse_memory,
    validate_integer,
    validate_option,
    validate_positive,
    validate_probability,
)

_FINER = 4  # sizes that are tried between one and its half, where a budget decides


@dataclass(frozen=True, kw_only=True)
class Quotation(Plan):
    """A plan with its price. ``print`` shows it as a quotation.

    Attributes
    ----------
    feature_map : str
    knob, amount : str or None, int or None
        The parameter that buys accuracy, and the size that is planned with.
    why : str
        Where the size comes from: "as given", or what says that it has the error that was asked
        for.
    error : float or None
        The relative error that is expected at this size; None where nothing says.
    dtype : str
    tile_rows, block_rows : int
    bytes : int
        What the fit holds at most beyond what the process has before, rows that are in memory
        aside.
    steps : tuple of Step
        What the fit does, with seconds.
    predict_seconds : float
        For a million rows.
    short : tuple of str
        What falls short of what was asked for, and what can be done instead; empty when nothing
        does.
    speeds : str
        When the machine was measured, or that it was not.
    """

    feature_map: str
    size_parameter: str | None
    amount: int | None
    why: str
    error: float | None
    dtype: str
    tile_rows: int
    block_rows: int
    bytes: int
    steps: tuple[Step, ...]
    predict_seconds: float
    short: tuple[str, ...] = ()
    speeds: str = ""

    @property
    def seconds(self) -> float:
        """Of the whole fit."""
        return sum(step.seconds * step.times for step in self.steps)

    @property
    def fits(self) -> bool:
        """Whether all that was asked for can be had."""
        return not self.short

    def __str__(self) -> str:
        lines = [
            f"{self.rows:,} rows x {self.columns:,} columns, {self.dtype} -> {self.features:,} "
            f"features of {self.feature_map}",
        ]
        if self.size_parameter is not None and self.amount is not None:
            lines.append(f"  {self.size_parameter + ' ':<14}{self.amount:,}: {self.why}")
        if self.error is not None:
            lines.append(f"  {'error':<14}about {share(self.error)}")
        route = f"{_ROUTES[self.route]}; passes: {', '.join(self.passes)}"
        lines += [
            f"  {'route':<14}{route}",
            f"  {'tiles':<14}{self.tile_rows:,} rows, in blocks of {self.block_rows:,}",
            f"  {'memory':<14}about {size(self.bytes)} beside the rows",
            f"  {'fit':<14}about {_time(self.seconds)}: "
            f"{', '.join(_told(step) for step in self.steps if _counts(step, self))}",
            f"  {'predict':<14}about {_time(self.predict_seconds)} for a million rows",
            f"  {'speeds':<14}{self.speeds}",
        ]
        return "\n".join([*lines, *(f"  falls short   {sentence}" for sentence in self.short)])


_ROUTES = {
    "moments": "least squares from moments",
    "passes": "conjugate gradients over blocks",
    "newton": "Newton's method by matrices",
    "newton-cg": "Newton's method by conjugate gradients",
}


def plan(
    source: Any,
    feature_map: Any = "fourier",
    *,
    error: float | None = None,
    confidence: float = 0.95,
    max_memory: int | str | None = None,
    max_seconds: float | None = None,
    rate: Law | Table | Certificate | None = None,
    loss: str = "squared",
    outputs: int = 1,
) -> Quotation:
    """What a fit of KernelRegressor or KernelClassifier, alpha chosen, would take: arithmetic on
    sizes and on this machine's speeds.

    Parameters
    ----------
    source : stream, anything that ``open_stream`` takes, or (rows, columns) or (rows, columns,
    density)
        Of a stream a chunk is read where its rows are sparse, and all of it where only that tells
        how many rows it has. A shape is one of rows in memory, float32 where the error that is
        wanted is far above its rounding; a density, of sparse rows.
    feature_map : map, composition, name, or list of these
        Fitted or not.
    error : float, optional
        A relative error of kernel values that is wanted. The size for it comes from ``rate``;
        without it, from a bound that holds for any data, where the map has one and it asks for
        fewer features than there are rows.
    confidence : float, default=0.95
        With which a bound is to hold; a rate that was measured has none.
    max_memory : int or str, optional
        Bytes, "2GB": what the fit may hold. Moments may have half of the machine's memory by
        default, as in a fit.
    max_seconds : float, optional
        What the fit may take.
    rate : Certificate, Law or Table, optional
        How the error falls with the size, as ``certify`` measures it: a certificate, or its
        ``rate``.
    loss : {"squared", "squared_hinge", "logistic"}, default="squared"
    outputs : int, default=1
        Targets, or classes.

    Returns
    -------
    Quotation
        A Plan. Where a budget or an error cannot be met, ``short`` says so, and what can be done
        instead; ``fits`` is then False.

    Examples
    --------
    >>> from mercer import RandomFourier, plan
    >>> found = plan((1_000_000, 50), RandomFourier(512))
    >>> found.route, found.features, found.fits
    ('moments', 512, True)
    """
    who = "plan"
    fitted = feature_map if isinstance(feature_map, Map) else make_map(who, feature_map, None, None)
    if error is not None:
        validate_positive(who, "error", error)
    validate_probability(who, "confidence", confidence)
    validate_option(who, "loss", loss, ("squared", *LOSSES))
    validate_integer(who, "outputs", outputs)
    measured = _rate_of(who, rate, fitted)
    rows = _rows_of(who, source, error)
    outlines = Outlines(fitted, rows.columns, rows.density)
    machine_speeds = speeds.read()

    def quote(amount: int | None, why: str = "", limit: int | None = None) -> Quotation:
        outline = outlines(amount)
        expected = _expected(fitted, measured, amount)
        most = system.memory() // 2 if limit is None else limit
        return _quoted(
            rows, fitted, outline, machine_speeds, most, loss, outputs, amount, why, expected
        )

    def budget(name: str, value: Any, check: Callable[[str, str, Any], Any]) -> Any:
        """What may be used; a budget of nothing is refused, and told what the least is."""
        try:
            return None if value is None else check(who, name, value)
        except ParameterError as error:
            least = quote(None if outlines.size is None else 1)
            raise error.extended(f" The least that this fit takes is {_needs(least)}.") from None

    room, time = (
        budget("max_memory", max_memory, parse_memory),
        budget("max_seconds", max_seconds, validate_positive),
    )
    amount, why, short = _size(who, fitted, outlines.size, error, confidence, measured, rows.rows)
    found = quote(amount, why, room)
    over = _over(found, time, room) + _beyond(found)
    if over and amount is not None:
        over += (_instead(lambda one: quote(one, limit=room), amount, time, room),)
    return replace(found, short=short + over)


def _rows_of(who: str, source: Any, error: float | None) -> Rows:
    """What is known of the rows."""
    if isinstance(source, tuple) and source and all(np.ndim(part) == 0 for part in source):
        if len(source) not in (2, 3):
            raise ValueError(
                f"{who}: a shape is (rows, columns) or (rows, columns, density), got {source!r}."
            )
        rows, columns = (
            validate_integer(who, name, part)
            for name, part in zip(("rows", "columns"), source[:2], strict=True)
        )
        density = None
        if len(source) == 3:
            density = validate_positive(who, "density", source[2])
            if density > 1:
                raise ValueError(
                    f"{who}: density is a share of entries, at most 1, got {source[2]!r}."
                )
        return Rows(rows, columns, density, width_for(error))
    stream = open_stream(source)
    if stream.rows is None:
        for _ in stream.chunks():  # only a pass tells how many rows there are
            pass
    if not stream.rows:
        raise ValueError(f"{who}: {stream.name} has no rows.")
    density = None
    if stream.sparse:
        X = next(iter(stream.chunks())).X
        density = max(X.nnz, 1) / (X.shape[0] * X.shape[1])
    kind = "array" if stream.kind in ("pandas", "polars") else stream.kind
    return Rows(stream.rows, stream.width, density, str(stream.dtype), kind)


def _rate_of(who: str, rate: Any, fitted: Map) -> Law | Table | None:
    """The law of a certificate, or the law itself, of the map's knob."""
    found = rate.rate if isinstance(rate, Certificate) else rate
    if found is None:
        return None
    if not isinstance(found, Law | Table):
        raise TypeError(
            f"{who}: rate must be a Certificate or its rate, got a {type(rate).__name__}."
        )
    if found.size_parameter != fitted.size_parameter:
        raise ValueError(
            f"{who}: rate is one of {found.size_parameter}, and {type(fitted).__name__} has "
            f"{fitted.size_parameter}."
        )
    return found


def _expected(fitted: Map, measured: Law | Table | None, amount: int | None) -> float | None:
    """The relative error at a size; None where nothing says."""
    if measured is not None and amount is not None:
        return measured.error(amount)
    return 0.0 if fitted.rate is None and fitted.size_parameter is None else None


def _size(
    who: str,
    fitted: Map,
    own: int | None,
    error: float | None,
    confidence: float,
    measured: Law | Table | None,
    rows: int,
) -> tuple[int | None, str, tuple[str, ...]]:
    """The size to plan with, why, and what falls short of the error that is wanted."""
    name = type(fitted).__name__
    if error is None:
        return own, "as given", ()
    if own is None:
        exact = fitted.rate is None and fitted.size_parameter is None
        many = (
            f"{name} has no single parameter that buys accuracy: certify measures the error "
            "that it has"
        )
        return None, "exact" if exact else "as given", () if exact else (many,)
    if measured is not None:
        found = measured.size_for(error)
        if found is None:
            why_not = (
                f"an error of {share(error)} is not reachable by {fitted.size_parameter}: "
                f"{measured.why_not(error)}"
            )
            return own, "as given", (why_not,)
        return found, f"for an error of {share(error)}, by the rate that was measured", ()
    bound = fitted.size_for(error, 1 - confidence)
    if bound is not None and bound <= rows:
        said = (
            f"for an error of {error:g} of a pair, with probability {confidence:g}, by "
            "theory: any data"
        )
        return bound, said, ()
    vacuous = "no bound that holds for any data"
    if bound is not None:
        vacuous = (
            f"a bound that asks for {fitted.size_parameter} = {bound:,}, more than there are rows"
        )
    raise ValueError(
        f"{who}: theory has {vacuous}, for {name} and an error of {error:g}. Measure how its "
        "error falls on rows of your own, and pass it "
        "on: rate=certify(fitted_map, X, error=...)."
    )


def _quoted(
    rows: Rows,
    fitted: Map,
    outline: Outline,
    known: Speeds,
    limit: int,
    loss: str,
    outputs: int,
    amount: int | None,
    why: str,
    expected: float | None,
) -> Quotation:
    made = plan_fit(
        rows.rows,
        rows.columns,
        outline.columns,
        limit=limit,
        statistics_passes=outline.statistics_parts,
        outputs=0 if loss == "squared" else outputs,
    )
    shown = type(fitted).__name__ if amount is None else repr(fitted.with_size(amount))
    return Quotation(
        **vars(made),
        feature_map=shown,
        size_parameter=fitted.size_parameter,
        amount=amount,
        why=why,
        error=expected,
        dtype=rows.dtype,
        tile_rows=tile(rows, outline),
        block_rows=min(rows.rows, block_rows(rows, outline)),
        bytes=peak_bytes(made, rows, outline, threads(), outputs),
        steps=steps_of(made, rows, outline, known, outputs),
        predict_seconds=seconds_to_predict(rows, outline, known, outputs),
        speeds=f"measured on this machine, {known.when}" if known.measured else known.note,
    )


def _over(found: Quotation, max_seconds: float | None, max_memory: int | None) -> tuple[str, ...]:
    """What a budget has no room for."""
    over = []
    if max_seconds is not None and found.seconds > max_seconds:
        over.append(f"{_time(found.seconds)} are more than max_seconds={max_seconds:g}")
    if max_memory is not None and found.bytes > max_memory:
        over.append(f"{size(found.bytes)} are more than max_memory, {size(max_memory)}")
    return tuple(over)


def _beyond(found: Quotation) -> tuple[str, ...]:
    """What this machine has no room for."""
    has = system.memory()
    return (
        (f"{size(found.bytes)} are more than this machine has, {size(has)}",)
        if found.bytes > has
        else ()
    )


def _instead(
    quote: Callable[[int], Quotation],
    amount: int,
    max_seconds: float | None,
    max_memory: int | None,
) -> str:
    """The largest size that a budget has room for, in words."""
    sizes = sorted({max(1, int(amount * 0.5 ** (i / _FINER))) for i in range(1, 64)})
    low, high = -1, len(sizes)  # sizes[low] has room, sizes[high] has not
    best: Quotation | None = None
    while high - low > 1:
        middle = (low + high) // 2
        tried = quote(sizes[middle])
        if _over(tried, max_seconds, max_memory) or _beyond(tried):
            high = middle
        else:
            low, best = middle, tried
    if best is None:
        least = quote(sizes[0])
        return f"nothing fits: the least is {_needs(least)}"
    error = "" if best.error is None else f", with an error of about {share(best.error)}"
    return f"what fits is {_needs(best)}{error}"


def _needs(found: Quotation) -> str:
    size_parameter = (
        "" if found.amount is None else f", with {found.size_parameter} = {found.amount:,}"
    )
    return f"about {_time(found.seconds)} and {size(found.bytes)}{size_parameter}"


def _counts(step: Step, whole: Quotation) -> bool:
    """Whether a step is worth a word: a hundredth of the whole."""
    return step.seconds * step.times >= 0.01 * whole.seconds


def _told(step: Step) -> str:
    if step.times == 1:
        return f"{step.what} {_time(step.seconds)}"
    return f"{step.what} {_time(step.seconds)}, {step.times} of which are assumed"


def _time(seconds: float) -> str:
    """Seconds in words: 950 ms, 12 s, 3.5 min, 20 h."""
    units = (("h", 3600.0, 2), ("min", 60.0, 2), ("s", 1.0, 0.995), ("ms", 1e-3, 0))
    unit, length, _ = next(one for one in units if seconds >= one[2] * one[1])
    return f"{float(f'{seconds / length:.2g}'):g} {unit}"
