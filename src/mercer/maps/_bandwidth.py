"""Bandwidth: gamma as a number, or as one over twice the median of what it multiplies.

kernel                      gamma multiplies
gaussian, cauchy, matern    |x - z|^2
laplacian                   |x - z|_1
exp-chi2                    sum (x - z)^2/(x + z)
cosine-rbf                  1 - rho

gamma="auto" is "median": 1/(2 m), m the median distance of pairs of sampled rows, as in
exp(-|x - z|^2/(2 sigma^2)) with sigma the median of |x - z|. The skewed kernels have the shift at
which the median of the kernel is 1/e; the semigroup kernels, of sums, have the beta at which
k(x, x) is about 1/e. Where more than half of the distances (or sums) are 0, the median is that of
the others; a bandwidth is 1.0 where all are. Distances are sums of differences, in float64: neither
the origin nor a constant column nor a few rows far away change the median.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import brentq

from mercer import ops
from mercer._typing import Array, is_csr
from mercer.errors import ParameterError, Setting
from mercer.kernels import SkewedChi2, SkewedIntersection
from mercer.kernels.elementwise import Skewed
from mercer.maps.block import as_block
from mercer.stats.base import Statistic
from mercer.stats.basic import Reservoir, Spread
from mercer.validation.parameters import Option, Positive

GAMMA = (Positive(), Option("auto", "scale", "median"))
_ROWS = 512  # sampled rows, up to 512 columns
_FEWEST_ROWS = 64  # of wide data; the median of their 2,016 pairs is within some per cent
_DIFFERENCES = 2**26  # of all pairs together: 0.1 to 0.2 s
_FACTORS = 2**20  # of the pairs that a skew is tried on: 10 to 20 ms, a dozen times


class BandwidthSample(Reservoir):
    """Sample of rows that becomes one number, so that a fitted map holds no rows."""

    value: float | None = None

    def estimate(self, bandwidth: Callable[[Array], float]) -> float:
        """Return bandwidth(rows), computed once; the rows are dropped.

        Rows are a float64 array; of CSR rows, the columns that are not zero in all of them.
        """
        if self.value is None:
            rows = self.rows
            if is_csr(rows):
                rows = rows[:, np.unique(rows.indices)].toarray()
            self.value = bandwidth(np.asarray(rows, dtype=np.float64))
            self.keys, self._weights, self._rows = np.empty(0), np.empty(0), []
        return self.value


def sample_rows(d: int, seed: int) -> BandwidthSample:
    """Return the empty sample of rows of d columns that bandwidths are computed from."""
    affordable = int(np.sqrt(2 * _DIFFERENCES / max(d, 1)))
    return BandwidthSample(max(_FEWEST_ROWS, min(_ROWS, affordable)), seed)


def median_above_zero(values: Array) -> float:
    """Return the median; where it is 0, that of the values above 0; 0.0 without any."""
    median = float(np.median(values)) if len(values) else 0.0
    if median == 0 and np.any(values > 0):
        return float(np.median(values[values > 0]))
    return median


def median_skew(kernel: Callable[[float], Skewed], rows: Array) -> float:
    """Return the skew at which the median of the kernel over pairs of sampled rows is 1/e.

    It is the smallest number above 0 where no skew has so small a kernel, 1.0 where rows are equal.
    """
    rows = rows[:, rows.min(axis=0, initial=np.inf) < rows.max(axis=0, initial=-np.inf)]
    first, second = np.triu_indices(len(rows), 1)
    count = max(_FEWEST_ROWS, _FACTORS // max(rows.shape[1], 1))
    # Neighbours in the sample first: as many rows as possible are in some pair.
    pairs = np.argsort(second - first, kind="stable")[:count]
    left, right = rows[first[pairs]], rows[second[pairs]]
    distinct = (left != right).any(axis=1)
    if not distinct.any():
        return 1.0
    if 2 * distinct.sum() <= len(distinct):
        left, right = left[distinct], right[distinct]

    def excess(logarithm: float) -> float:
        skew = float(np.exp(logarithm))
        factors = kernel(skew).factor(left + skew, right + skew)
        return float(np.median(factors.prod(axis=1))) - np.exp(-1)

    smallest = float(rows[rows > 0].min())
    low = float(np.log(smallest)) - np.log(1024)
    if excess(low) >= 0:
        return smallest
    high = low + np.log(1024)
    while excess(high) < 0:
        high += np.log(16)
    return float(np.exp(brentq(excess, low, high, xtol=1e-12)))


def exponential_beta(rows: Array) -> float:
    """Return 1 over the median of sum sqrt(2x) over sampled rows: exp(-beta sum) is then 1/e."""
    return 1 / (median_above_zero(np.sqrt(2 * rows).sum(axis=1)) or 1.0)


def reciprocal_beta(rows: Array) -> float:
    """Return the median of sum 2x over sampled rows: prod beta/(2x + beta) is then about 1/e."""
    return median_above_zero(2 * rows.sum(axis=1)) or 1.0


def median_distance(rows: Any, seed: int, *, absolute: bool = False) -> float:
    """Return the median of |x - z|, or of |x - z|_1, over pairs of sampled rows."""
    sample = sample_rows(rows.shape[1], seed)
    sample.add(as_block(rows))
    return sample.estimate(partial(_median_of_pairs, "cityblock" if absolute else "euclidean"))


def _median_of_pairs(metric: str, rows: Array) -> float:
    """Return the median distance of all pairs of rows, by a metric of SciPy, "chi2" or "angle"."""
    from scipy.spatial.distance import pdist

    n = len(rows)
    if metric == "chi2":
        distances = ops.gram_chi2_distance(rows, rows, np.empty((n, n)))[np.triu_indices(n, 1)]
    elif metric == "angle":
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        distances = pdist(rows / np.where(norms > 0, norms, 1.0), "sqeuclidean") / 2
    else:
        distances = pdist(rows, metric)
    return median_above_zero(distances)


# The metric of the distances that gamma multiplies, by kernel: see _median_of_pairs.
BANDWIDTH_RULES = {
    "gaussian": "sqeuclidean",
    "laplacian": "cityblock",
    "cauchy": "sqeuclidean",
    "matern": "sqeuclidean",
    "cosine-rbf": "angle",
    "exp-chi2": "chi2",
}
# Kernels of differences of rows, whose gamma depends on the units of the columns.
OF_DIFFERENCES = ("gaussian", "laplacian", "cauchy", "matern")

# Another parameter than gamma, by kernel, and its value from sampled rows.
OTHER_RULES: dict[str, tuple[str, Callable[[Array], float]]] = {
    "exponential-semigroup": ("beta", exponential_beta),
    "reciprocal-semigroup": ("beta", reciprocal_beta),
    "skewed-chi2": ("skew", partial(median_skew, SkewedChi2)),
    "skewed-intersection": ("skew", partial(median_skew, SkewedIntersection)),
}


@dataclass(frozen=True)
class Gamma:
    """The parameter gamma of one of these kernels."""

    estimator_name: str
    kernel: str
    given: float | str

    def check(self) -> None:
        """Raise a ValueError for "scale" with a kernel that does not have it."""
        if self.given == "scale" and BANDWIDTH_RULES[self.kernel] != "sqeuclidean":
            why = (
                f" is for kernels of squared distances, and kernel={self.kernel!r} is not one. "
                "Use 'median' or a number."
            )
            raise ParameterError(self.estimator_name, Setting("gamma", "'scale'"), why)

    def required_statistics(self, d: int, seed: int) -> Statistic | None:
        """Return the statistic that gamma needs: the variance, a sample of rows, or None."""
        if self.given == "scale":
            return Spread()
        return sample_rows(d, seed) if isinstance(self.given, str) else None

    def value(self, d: int, statistics: Any) -> float:
        """Return gamma for d columns, from the required statistics of all rows; 1.0 for size 0."""
        if not isinstance(self.given, str):
            return float(self.given)
        if self.given == "scale":
            size = d * statistics.variance
        else:
            size = 2 * statistics.estimate(partial(_median_of_pairs, BANDWIDTH_RULES[self.kernel]))
        if size == 0:
            return 1.0
        if not np.isfinite(size) or not np.isfinite(1 / size):
            why = (
                f" needs data whose spread is a finite number, got {size:g}. Scale the data "
                "(sklearn.preprocessing.StandardScaler) or give gamma as a number."
            )
            raise ParameterError(self.estimator_name, Setting("gamma", repr(self.given)), why)
        return float(1 / size)
