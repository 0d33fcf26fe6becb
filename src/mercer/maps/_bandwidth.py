"""Bandwidth: gamma as a number, or as one over the size of the distance that it multiplies.

kernel                      gamma multiplies       gamma="auto" is
gaussian, cauchy, matern    |x - z|^2              "scale"
laplacian                   |x - z|_1              "median"
exp-chi2                    (x - z)^2/(x + z)      "median"
cosine-rbf                  1 - rho                1.0
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer import ops
from mercer._typing import Array, is_csr
from mercer.errors import ParameterError, Setting
from mercer.stats.base import Statistic
from mercer.stats.basic import Reservoir, Spread
from mercer.validation.parameters import Option, Positive

GAMMA = (Positive(), Option("auto", "scale", "median"))
_MEDIAN_ROWS = 512  # rows whose pairwise distances give gamma="median"


def _squared(rows: Array) -> Array:
    from scipy.spatial.distance import pdist

    return pdist(rows, "sqeuclidean")


def _absolute(rows: Array) -> Array:
    from scipy.spatial.distance import pdist

    return pdist(rows, "cityblock")


def _chi2(rows: Array) -> Array:
    n = len(rows)
    return ops.gram_chi2_distance(rows, rows, np.empty((n, n)))[np.triu_indices(n, 1)]


@dataclass(frozen=True)
class _Rule:
    """The meaning of "auto", and the pairwise distances that gamma multiplies; None for angles."""

    auto: str | float
    distances: Callable[[Array], Array] | None


BANDWIDTH_RULES = {
    "gaussian": _Rule("scale", _squared),
    "laplacian": _Rule("median", _absolute),
    "cauchy": _Rule("scale", _squared),
    "matern": _Rule("scale", _squared),
    "cosine-rbf": _Rule(1.0, None),
    "exp-chi2": _Rule("median", _chi2),
}


@dataclass(frozen=True)
class Gamma:
    """The parameter gamma of one of these kernels."""

    estimator_name: str
    kernel: str
    given: float | str

    def check(self) -> None:
        """Raise a ValueError for "scale" or "median" with a kernel that does not have it."""
        distances = BANDWIDTH_RULES[self.kernel].distances
        if self.given == "scale" and distances is not _squared:
            why = (
                f" is for kernels of squared distances, and kernel={self.kernel!r} is not one. "
                "Use 'median' or a number."
            )
            raise ParameterError(self.estimator_name, Setting("gamma", "'scale'"), why)
        if self.given == "median" and distances is None:
            why = f" needs a kernel of a distance, and kernel={self.kernel!r} is not one."
            raise ParameterError(self.estimator_name, Setting("gamma", "'median'"), why)

    def required_statistics(self, seed: int) -> Statistic | None:
        """Return the statistic that gamma needs: the variance, a sample of rows, or None."""
        if self._rule == "scale":
            return Spread()
        return Reservoir(_MEDIAN_ROWS, seed) if self._rule == "median" else None

    def value(self, d: int, statistics: Any) -> float:
        """Return gamma for d columns, from the required statistics of all rows; 1.0 for size 0."""
        if not isinstance(self._rule, str):
            return float(self._rule)
        scale = self._rule == "scale"
        size = d * statistics.variance if scale else self._median(statistics.rows)
        if size == 0:
            return 1.0
        if not np.isfinite(size) or not np.isfinite(1 / size):
            why = (
                f" needs data whose spread is a finite number, got {size:g}. Scale the data "
                "(sklearn.preprocessing.StandardScaler) or give gamma as a number."
            )
            raise ParameterError(self.estimator_name, Setting("gamma", repr(self._rule)), why)
        return float(1 / size)

    @property
    def _rule(self) -> float | str:
        return BANDWIDTH_RULES[self.kernel].auto if self.given == "auto" else self.given

    def _median(self, rows: Any) -> float:
        """Return the median distance of the pairs of rows."""
        if is_csr(rows):  # columns that are zero in every row change no distance
            rows = rows[:, np.unique(rows.indices)].toarray()
        distances = BANDWIDTH_RULES[self.kernel].distances
        values = np.empty(0) if distances is None else distances(rows.astype(np.float64))
        return float(np.median(values)) if len(values) else 0.0
