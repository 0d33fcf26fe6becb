"""certify(map, X): measure the error of a fitted map, and the size for another error."""

from __future__ import annotations

import os
import warnings
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer._html import TextAsHtml
from mercer._typing import Array
from mercer.data import Stream, open_stream
from mercer.data.batches import Rows
from mercer.evaluation.convergence import Law, Table, fitted_size, measure_convergence
from mercer.evaluation.kernel_error import ZeroKernelError, draw_pairs, measure
from mercer.maps.base import Map
from mercer.parallel.device import arithmetic, current_device
from mercer.stats.basic import Reservoir
from mercer.stats.reduce import accumulate
from mercer.validation.parameters import validate_integer, validate_positive, validate_probability


@dataclass(frozen=True)
class Certificate(TextAsHtml):
    """Measured errors <phi(x), phi(z)> - k(x, z), relative to the root mean square of k(x, z).

    Attributes
    ----------
    feature_map, kernel : str
        The map, and the exact kernel.
    rows, pairs : int
        Rows, and pairs of different rows that were drawn from them with replacement.
    dtype : str
        Of the rows and of the features.
    arithmetic : str
        "cpu", or the device of features and the precision of their products, "cuda tf32".
    mean, rms, p95 : float
        Mean, root mean square and 95th percentile of the absolute error of a kernel value.
    relative : float or None
        sqrt(sum (<phi(x), phi(z)> - k(x, z))^2/sum k(x, z)^2): the Gram error off the diagonal.
        None where k is 0 for every pair, and with it all that is relative: interval, sampling,
        bias, rounding and rate.
    interval : (float, float) or None
        Interval of the relative error over all pairs of these rows, with `confidence`.
    confidence : float
    sampling : float or None
        Sampling error, which falls with more features: features against ``limit_``. None where
        the limit has no closed form.
    bias : float or None
        Error that remains with any number of features: ``limit_`` against ``kernel_``.
    rounding : float or None
        Error of float32: features against those of the same rows in float64; 0 for float64.
    size_parameter, size : str or None, int or None
        The parameter that sets the accuracy, and its value.
    rate : Law, Table or None
        Convergence of the relative error with the size, from pilots at two smaller sizes; None
        where the map is exact or has no single size parameter, and where k is 0 for every pair of
        the rows that pilots are measured on.
    trace_error : float or None
        1 - sum |phi(x)|^2/sum k(x, x) over the rows, for maps that project (Nystroem,
        AdditiveNystroem): no error is above the root of (k(x, x) - |phi(x)|^2)(k(z, z) -
        |phi(z)|^2), and their mean not above trace_error times the mean of k(x, x).
    wanted, needed : float or None, int or None
        The error given to ``certify``, and the smallest size that reaches it; None where none does.
    """

    feature_map: str
    kernel: str
    rows: int
    pairs: int
    dtype: str
    mean: float
    rms: float
    p95: float
    relative: float | None
    interval: tuple[float, float] | None
    confidence: float
    sampling: float | None
    bias: float | None
    rounding: float | None
    size_parameter: str | None
    size: int | None
    rate: Law | Table | None
    wanted: float | None = None
    needed: int | None = None
    arithmetic: str = "cpu"
    trace_error: float | None = None

    def __repr__(self) -> str:
        relative = "" if self.relative is None else f", relative={self.relative:.3g}"
        needed = "" if self.needed is None else f", needed={self.needed}"
        return (
            f"Certificate({self.feature_map} against {self.kernel}{relative}, rows={self.rows}"
            f"{needed})"
        )

    def __str__(self) -> str:
        device = "" if self.arithmetic == "cpu" else f" on {self.arithmetic}"
        lines = [
            f"{self.feature_map} against {self.kernel}: {self.pairs:,} pairs of {self.rows:,} "
            f"rows, {self.dtype}{device}"
        ]
        if self.relative is None or self.interval is None:
            lines.append(
                "  relative error          undefined: the exact kernel is 0 for every pair of "
                "these rows"
            )
        else:
            low, high = self.interval
            lines += [
                f"  relative error          {format_percent(self.relative)} ({self.confidence:.0%} "
                f"interval {format_percent(low)} to {format_percent(high)})",
                f"    sampling error        {format_percent(self.sampling)}",
                f"    bias                  {format_percent(self.bias)}",
                f"    rounding              {format_percent(self.rounding)}",
            ]
        lines.append(
            f"  error of a value        mean {self.mean:.2g}, root mean square {self.rms:.2g}, "
            f"95th percentile {self.p95:.2g}"
        )
        if self.trace_error is not None:
            lines.append(f"  trace error             {format_percent(self.trace_error)}")
        if self.wanted is not None:
            lines.append(f"  {self._describe_size(self.wanted)}")
        return "\n".join(lines)

    def _describe_size(self, wanted: float) -> str:
        """State which size has the wanted error."""
        if self.relative is None:
            return (
                f"an error of {format_percent(wanted)} is relative to the exact kernel, and "
                "undefined "
                "with it"
            )
        if self.size_parameter is None:
            exact = self.sampling == 0 and self.bias == 0
            why = "is exact" if exact else "has no single parameter that buys accuracy"
            reached = "" if self.relative <= wanted else "not "
            return f"an error of {format_percent(wanted)} is {reached}reached: this map {why}"
        parameter = self.size_parameter.rpartition("__")[2]  # of the last map of a composition
        if self.rate is None:
            return (
                f"which {parameter} has an error of {format_percent(wanted)} is not "
                "known: the "
                "exact kernel is 0 for every pair that pilots are measured on. Give more rows"
            )
        if self.needed is None:
            return (
                f"an error of {format_percent(wanted)} is not reachable by {parameter}: "
                f"{self.rate.why_not(wanted)}"
            )
        return (
            f"an error of {format_percent(wanted)} needs {parameter} = {self.needed:,} "
            f"(it is {self.size:,})"
        )


def certify(
    feature_map: Any,
    X: Any,
    *,
    pairs: int = 20_000,
    confidence: float = 0.95,
    error: float | None = None,
    random_state: int = 0,
) -> Certificate:
    """Measure <phi(x), phi(z)> - k(x, z) of a fitted map over pairs of different rows.

    Parameters
    ----------
    feature_map : fitted map, composition, or model
        Of a model, its map.
    X : array, sparse matrix, data frame, path or stream
        Rows that the map was not fitted to. Of a stream, a sample of as many rows as pairs.
    pairs : int, default=20000
        Pairs i != j, drawn uniformly with replacement.
    confidence : float, default=0.95
    error : float, optional
        Relative error to find a size for: ``needed`` of the certificate.
    random_state : int, default=0
        Seed of the pairs, the sample, and the pilots.

    Returns
    -------
    Certificate

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RandomFourier, certify
    >>> X = np.random.default_rng(0).normal(size=(600, 5))
    >>> phi = RandomFourier(256, gamma=0.1, random_state=0).fit(X[:300])
    >>> certificate = certify(phi, X[300:], error=0.005)
    >>> low, high = certificate.interval
    >>> bool(low < certificate.relative < high < 0.05)
    True
    >>> bool(certificate.needed > 256)
    True
    """
    estimator_name = "certify"
    fitted: Map = getattr(feature_map, "feature_map_", feature_map)
    if not isinstance(fitted, Map):
        raise TypeError(
            "certify needs a fitted map, composition or model of mercer, got a "
            f"{type(feature_map).__name__}."
        )
    check_is_fitted(fitted)
    validate_integer(estimator_name, "pairs", pairs, least=2)
    validate_probability(estimator_name, "confidence", confidence)
    if error is not None:
        validate_positive(estimator_name, "error", error)
    rows = _sample(fitted, X, pairs, random_state)
    chosen = draw_pairs(rows.shape[0], pairs, random_state)
    measured = measure(fitted, rows, chosen)
    if fitted.rate is None:  # exact, so that all of it is rounding
        measured = replace(
            measured, sampling=np.zeros_like(measured.exact), rounding=measured.errors
        )
    relative = interval = sampling = bias = rounding = rate = None
    size_parameter = size = None
    with suppress(ZeroKernelError):
        relative, interval = measured.relative(confidence)
        sampling, bias, rounding = (
            measured.part(differences)
            for differences in (measured.sampling, measured.bias, measured.rounding)
        )
        size = None if fitted.rate is None else fitted_size(fitted)
        size_parameter = None if size is None else fitted.size_parameter
        with warnings.catch_warnings():
            # of pilots: rows outside the range of the other half
            warnings.simplefilter("ignore", UserWarning)
            rate = measure_convergence(fitted, rows, measured, random_state, error)
    needed = None if error is None or rate is None else rate.size_for(error)
    return Certificate(
        feature_map=repr(fitted),
        kernel=repr(fitted.kernel_),
        rows=rows.shape[0],
        pairs=pairs,
        dtype=str(rows.dtype),
        mean=float(np.abs(measured.errors).mean()),
        rms=float(np.sqrt(np.mean(measured.errors**2))),
        p95=float(np.percentile(np.abs(measured.errors), 95)),
        relative=relative,
        interval=interval,
        confidence=confidence,
        sampling=sampling,
        bias=bias,
        rounding=rounding,
        size_parameter=size_parameter,
        size=size,
        rate=rate,
        wanted=error,
        needed=needed,
        arithmetic="cpu" if current_device() is None else arithmetic(),
        trace_error=_trace_error(fitted, rows, chosen[0]) if fitted.is_projection else None,
    )


def _trace_error(fitted: Map, rows: Any, chosen: Array) -> float | None:
    """1 - sum |phi(x)|^2/sum k(x, x) over the chosen rows, 0 where it is rounding."""
    each = np.unique(chosen)
    measured = measure(fitted, rows, (each, each))
    total = float(measured.exact.sum())
    return max(0.0, -float(measured.errors.sum()) / total) if total else None


def _sample(fitted: Map, X: Any, most: int, seed: int) -> Any:
    """Validate the rows of X for the map: all of them, or a sample of a stream."""
    if isinstance(X, str | os.PathLike | Stream):
        rows = accumulate(Rows(open_stream(X), fitted), Reservoir(most, seed)).rows
    else:
        rows = fitted._validate_fitted_input(X)
    if rows.shape[0] < 2:
        raise ValueError(f"certify needs pairs of different rows, got {rows.shape[0]} row(s).")
    return rows


def format_percent(value: float | None) -> str:
    """Format a relative error: 3.1%."""
    if value is None:
        return "not known (the limit has no closed form)"
    return "0" if value == 0 else f"{100 * value:.3g}%"
