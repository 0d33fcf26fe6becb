"""gamma from data: a number, or a word that stands for one over the size of what gamma multiplies.

kernel                      gamma multiplies       "auto" is
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
from numpy.typing import NDArray

from mercer import ops
from mercer.stats.basic import Reservoir, Spread, Statistic
from mercer.validation.parameters import Option, Positive

Array = NDArray[Any]

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
class _Kind:
    """What "auto" stands for, and the distances of all pairs of rows that gamma multiplies; None:
    an angle.
    """

    auto: str | float
    distances: Callable[[Array], Array] | None


KINDS = {
    "gaussian": _Kind("scale", _squared),
    "laplacian": _Kind("median", _absolute),
    "cauchy": _Kind("scale", _squared),
    "matern": _Kind("scale", _squared),
    "cosine-rbf": _Kind(1.0, None),
    "exp-chi2": _Kind("median", _chi2),
}


@dataclass(frozen=True)
class Gamma:
    """The gamma of one of these kernels, as a map was given it."""

    who: str
    kernel: str
    given: float | str

    def check(self) -> None:
        """Refuse what is neither a number above 0 nor a word that this kernel has."""
        kind = KINDS[self.kernel]
        if self.given == "scale" and kind.distances is not _squared:
            raise ValueError(
                f"{self.who}: gamma='scale' is for kernels of squared distances, and "
                f"kernel={self.kernel!r} is not one. "
                "Use 'median' or a number."
            )
        if self.given == "median" and kind.distances is None:
            raise ValueError(
                f"{self.who}: gamma='median' needs a kernel of a distance, and "
                f"kernel={self.kernel!r} is not one."
            )

    def required_statistics(self, seed: int) -> Statistic | None:
        """What must be known of the data."""
        word = self._word()
        return (
            Spread()
            if word == "scale"
            else Reservoir(_MEDIAN_ROWS, seed)
            if word == "median"
            else None
        )

    def value(self, d: int, statistics: Any) -> float:
        """The number, for d columns of which look() has seen all rows."""
        word = self._word()
        if not isinstance(word, str):
            return float(word)
        size = d * statistics.variance if word == "scale" else self._median(statistics.rows)
        if size == 0:
            return 1.0
        if not np.isfinite(size) or not np.isfinite(1 / size):
            raise ValueError(
                f"{self.who}: gamma={word!r} needs data whose spread is a finite number, got "
                f"{size:g}. "
                "Scale the data (sklearn.preprocessing.StandardScaler) or give gamma as a number."
            )
        return float(1 / size)

    def _word(self) -> float | str:
        return KINDS[self.kernel].auto if self.given == "auto" else self.given

    def _median(self, rows: Any) -> float:
        if hasattr(rows, "indptr"):
            rows = rows[
                :, np.unique(rows.indices)
            ].toarray()  # the other columns are zero in every row
        distances = KINDS[self.kernel].distances
        values = np.empty(0) if distances is None else distances(rows.astype(np.float64))
        return float(np.median(values)) if len(values) else 0.0
