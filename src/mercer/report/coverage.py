"""How sure a model is, measured on rows that it was not fitted to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer._typing import Array
from mercer.report.best_model import BestModel
from mercer.report.data import SampleSplit, evenly_spaced, ignored_warnings

LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
SHOWN = 0.9  # of the intervals that are drawn
_INTERVALS = 40  # that are drawn
_BINS = 10  # of the highest probability


@dataclass(frozen=True)
class Coverage:
    """Share of rows whose target is in its interval, or whose class is in its set.

    Attributes
    ----------
    name : str
        Of the model.
    covered : array of shape (k,)
        Share of the rows, for each of LEVELS.
    sizes : array of shape (k,)
        Mean width of the intervals, or mean number of classes of the sets.
    rows : int
    intervals : array of shape (m, 4) or None
        Prediction, target, lower and upper end of SHOWN for some rows in the order of their
        predictions, where targets are numbers.
    deviation : float
        Root mean square of the residuals of all rows, where targets are numbers.
    bins : array of shape (m, 3) or None
        Mean probability of the predicted class, share of these predictions that are right, and
        number of rows, by bins of equal width; None where targets are numbers.
    """

    name: str
    covered: Array
    sizes: Array
    rows: int
    intervals: Array | None = None
    deviation: float = 0.0
    bins: Array | None = None

    @property
    def calibration_error(self) -> float:
        """Mean of |probability - share| over the rows; 0 where targets are numbers."""
        if self.bins is None:
            return 0.0
        probability, share, count = self.bins.T
        return float(np.average(np.abs(probability - share), weights=count))

    @property
    def pairs(self) -> list[tuple[float, float]]:
        """Nominal coverage and share of the rows."""
        return [*zip(LEVELS, self.covered.tolist(), strict=True)]

    @property
    def share(self) -> float:
        """Share of the rows that SHOWN covers."""
        return float(self.covered[LEVELS.index(SHOWN)])

    @property
    def size(self) -> float:
        """Mean size of the intervals or sets of SHOWN."""
        return float(self.sizes[LEVELS.index(SHOWN)])


def measure_coverage(best: BestModel) -> Coverage | None:
    """Measure the intervals or sets of a fitted model on the test rows of its sample.

    Returns None for a model without intervals, and where the training rows are too few for them.
    """
    measure = _measure_intervals if best.numeric else _measure_sets
    with ignored_warnings():
        try:
            return measure(best.name, best.fitted, best.sample)
        except ValueError:  # a penalty without a posterior, or too few rows
            return None


def _measure_intervals(name: str, fitted: Any, sample: SampleSplit) -> Coverage:
    y, predictions = sample.y.astype(np.float64), fitted.predict(sample.test)
    ends = {level: fitted.predict_interval(sample.test, level) for level in LEVELS}
    covered = [np.mean((low <= y) & (y <= high)) for low, high in (e.T for e in ends.values())]
    widths = [np.mean(high - low) for low, high in (e.T for e in ends.values())]
    drawn = np.argsort(predictions, kind="stable")[evenly_spaced(len(y), _INTERVALS)]
    table = np.column_stack([predictions, y, ends[SHOWN]])[drawn]
    deviation = float(np.sqrt(np.mean((y - predictions) ** 2)))
    return Coverage(name, np.array(covered), np.array(widths), len(y), table, deviation)


def _measure_sets(name: str, fitted: Any, sample: SampleSplit) -> Coverage:
    known = np.isin(sample.y, fitted.classes_)
    number = np.searchsorted(fitted.classes_, sample.y[known])
    rows = np.arange(len(number))
    sets = [fitted.predict_set(sample.test, level)[known] for level in LEVELS]
    P = fitted.predict_proba(sample.test)[known]
    highest, right = P.max(axis=1), P.argmax(axis=1) == number
    bin_of = np.minimum((highest * _BINS).astype(np.int64), _BINS - 1)
    bins = [
        (highest[inside].mean(), right[inside].mean(), np.count_nonzero(inside))
        for inside in (bin_of == b for b in range(_BINS))
        if inside.any()
    ]
    return Coverage(
        name,
        np.array([chosen[rows, number].mean() for chosen in sets]),
        np.array([chosen.sum(axis=1).mean() for chosen in sets]),
        len(rows),
        bins=np.array(bins),
    )
