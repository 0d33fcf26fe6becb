"""Columns centered and divided by their spread, for tables whose columns have different units."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from mercer._typing import Array, is_csr
from mercer.kernels import Kernel
from mercer.kernels import Scaled as ScaledKernel
from mercer.maps._transform import Chain
from mercer.maps.base import Map
from mercer.maps.stages.linear import Divide
from mercer.rng import Rng
from mercer.stats.base import CombinedStatistics
from mercer.stats.basic import Range, Reservoir
from mercer.validation.parameters import Flag, Option, Threads
from mercer.validation.rows import warn_coarse_columns

# Sampled rows. Columns that are rarely other than 0 need many of them: with 512 rows the accuracy
# on pixels is 0.004 lower.
_ROWS = 1024
_FEWEST_ROWS = 64  # of very wide rows
_SAMPLE_NUMBERS = 2**24  # of the sample where it has more rows than that: 128 MB
_SEED = 0  # of the sample: the map has no other random numbers, and so no random_state
# Larger deviations from the median count as this quantile of them: up to 5% of a column have a
# bounded effect, and one outlier has where at least 12 values differ from the median.
_QUANTILE = 0.95
_NUMBERS_AT_ONCE = 2**22  # of the sample that are sorted at a time: 32 MB


class Scaled(Map):
    """phi(x) = ((x_1 - c_1)/s_1, ..., (x_d - c_d)/s_d), c_i the median, s_i the spread of column i.

    s_i^2 = max(p, 1/2) mean min(|x - c_i|, q)^2 over the values x of column i that are not c_i, p
    their share of the rows and q the 95% quantile of their |x - c_i|; s_i = 1 where a column is
    constant. Outliers do not change it, and a column that is rarely different from 0 is divided by
    the size of its other values, not by a standard deviation close to 0. ``Scaled() >>
    RandomFourier()`` has a bandwidth of its own for each column.

    Parameters
    ----------
    center : bool or "auto", default="auto"
        Whether the median is subtracted. "auto" does so unless the map that follows needs numbers
        of at least 0. Columns that are 0 in half of the rows have median 0, so that sparse rows
        stay sparse; a column of a CSR matrix whose median is another number has an entry in every
        row. Kernels of differences do not depend on it, but for rounding.
    n_jobs : int or None, default=None
        Threads; None and -1 use all that the process may use.

    Attributes
    ----------
    scale_ : array of shape (n_features,)
        s, of 1,024 sampled rows; fewer where rows have more than 16,384 columns.
    center_ : array of shape (n_features,) or None
        c, of the same rows; None where nothing is subtracted.
    kernel_, limit_ : Kernel
        sum (x - center_)(z - center_)/scale_^2.

    Examples
    --------
    >>> from mercer import Scaled
    >>> Scaled().fit_transform([[1.0, 400.0], [3.0, 0.0], [2.0, 200.0]])
    array([[-1.22474487,  1.22474487],
           [ 1.22474487, -1.22474487],
           [ 0.        ,  0.        ]])
    """

    name = "scaled"
    numpy_attributes = True
    kernels = ("linear",)
    paper = "columns centered and divided by their spread"
    statistics_name = "column scales"
    parameter_constraints = {
        "center": (Flag(), Option("auto")),
        "n_jobs": (Threads(),),
    }
    size_parameter = None
    rate = None
    scale_: Array
    center_: Array | None

    def __init__(self, *, center: bool | str = "auto", n_jobs: int | None = None) -> None:
        self.center = center
        self.n_jobs = n_jobs

    @property
    def kernel_(self) -> Kernel:
        """sum (x - center_)(z - center_)/scale_^2; the features have no error."""
        check_is_fitted(self)
        # files written before columns were centered have no center_
        return ScaledKernel(self.scale_, getattr(self, "center_", None))

    def before(self, following: Map) -> Map:
        if self.center == "auto" and following.domain == "nonnegative":
            return clone(self).set_params(center=False)
        return self

    def required_statistics(self, d: int) -> CombinedStatistics:
        rows = max(_FEWEST_ROWS, min(_ROWS, _SAMPLE_NUMBERS // d))
        return CombinedStatistics(Range(), Reservoir(rows, _SEED))

    def build(self, rng: Rng, d: int, statistics: Any) -> Chain:
        column_range, sample = statistics.parts
        median, spread = column_spread(sample.rows, sample.frequencies)
        # A column that is constant in the sample: two values, as far as is known.
        if sample.rows.dtype == np.float32:
            warn_coarse_columns("Scaled", median, spread)
        width = column_range.high - column_range.low
        self.scale_ = np.where(spread > 0, spread, np.sqrt(0.5) * width)
        self.scale_[self.scale_ == 0] = 1.0
        self.center_ = median if self.center and median.any() else None
        return Chain((Divide(self.scale_, self.center_),))

    @classmethod
    def cases(cls) -> list[Map]:
        return [cls(), cls(center=False)]


def column_spread(rows: Any, weights: Array) -> tuple[Array, Array]:
    """Return the median and the spread of each column, by the formula of Scaled.

    The median is a value of the column, the lower one of two. The spread is 0 for a constant
    column. NaN is left out; a column of nothing else has median and spread 0.

    Parameters
    ----------
    rows : array or CSR matrix
    weights : array
        Frequencies of the rows.
    """
    n, d = rows.shape
    median, spread = np.zeros(d), np.zeros(d)
    columns = np.unique(rows.indices) if is_csr(rows) else np.arange(d)
    rows = rows.tocsc() if is_csr(rows) else rows
    step = max(1, _NUMBERS_AT_ONCE // max(n, 1))
    for start in range(0, len(columns), step):
        part = columns[start : start + step]
        values = rows[:, part]
        values = values.toarray() if hasattr(values, "toarray") else values
        values = values.astype(np.float64)
        present = ~np.isnan(values)
        total = np.full(len(part), float(weights.sum()))
        if present.all():
            per_value = np.broadcast_to(weights[:, None], values.shape)
        else:
            per_value = np.where(present, weights[:, None], 0.0)
            some = ~present.all(axis=0)
            total[some] = per_value[:, some].sum(axis=0)
            # values of weight 0 at the end of the order
            values = np.where(present, values, np.inf)
        sums, ordered, _ = _sort(values, per_value)
        median[part] = np.where(total > 0, _first_from(ordered, sums, 0.5 * total), 0.0)
        deviations = np.where(present, np.abs(values - median[part]), 0.0)
        sums, deviations, sorted_weights = _sort(deviations, per_value)
        other = np.sum(sorted_weights * (deviations > 0), axis=0)
        place = np.floor(_QUANTILE * np.maximum(other - 1, 0.0) + 0.5)
        quantile = _first_from(deviations, sums, np.minimum(total - other + place + 1, total))
        # Divided by the quantile: squares of tiny numbers do not underflow.
        unit = np.where(quantile > 0, quantile, 1.0)
        squares = np.sum(sorted_weights * np.minimum(deviations / unit, 1.0) ** 2, axis=0)
        mean = squares / np.where(other > 0, other, 1.0)
        share = other / np.where(total > 0, total, 1.0)
        spread[part] = unit * np.sqrt(np.maximum(share, 0.5) * mean)
    return median, spread


def _sort(values: Array, weights: Array) -> tuple[Array, Array, Array]:
    """Return the cumulative weights, the values and their weights, each column in order."""
    order = np.argsort(values, axis=0, kind="stable")
    sorted_weights = np.take_along_axis(weights, order, axis=0)
    return sorted_weights.cumsum(axis=0), np.take_along_axis(values, order, axis=0), sorted_weights


def _first_from(ordered: Array, sums: Array, wanted: Array) -> Array:
    """Return the first value of each column whose cumulative weight is at least that wanted."""
    place = np.sum(sums < wanted * (1 - 1e-12), axis=0)  # cumulative sums of weights are rounded
    return np.take_along_axis(ordered, np.minimum(place, len(ordered) - 1)[None], axis=0)[0]
