"""Scores of predictions, with a number for each row whose mean is the score.

Of a score that is no mean over rows, the numbers are score + influence of the row, to first order:
their standard error is that of the score (for the area under the ROC curve: DeLong et al., 1988),
and differences of two models are paired row by row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer._typing import Array
from mercer.errors import ParameterError, Setting

_LEAST_PROBABILITY = float(np.finfo(np.float64).eps)  # as in scikit-learn's log_loss


@dataclass(frozen=True)
class Scoring:
    """Score of a task, by scikit-learn's name; the greater the better.

    Attributes
    ----------
    name, label : str
        scikit-learn's name, and the quantity that is printed.
    numeric : bool
        Whether targets are numbers.
    response : {"predict", "scores", "probabilities"}
        Predictions that are scored: labels or numbers, decision values, probabilities of classes.
    score_rows : callable
        score_rows(y, predictions, weights), one number for each row; y are class numbers where
        predictions are columns of classes.
    sign : int
        -1 where an error is printed, which is minus the score.
    style : str
        Format of the printed quantity.
    resolution : float
        Least difference of two models on a row.
    constant : {"mean", "median"}
        The constant of the best score, for numbers.
    """

    name: str
    label: str
    numeric: bool
    response: str
    score_rows: Callable[[Array, Array, Array | None], Array]
    sign: int = 1
    style: str = ".4f"
    resolution: float = 0.0
    constant: str = "mean"

    @property
    def percent(self) -> bool:
        """Whether it is printed as a percentage."""
        return self.style.endswith("%")

    def format(self, score: float) -> str:
        """Format a score as the quantity that is printed."""
        return f"{self.sign * score:{self.style}}"

    def format_spread(self, spread: float) -> str:
        """Format a standard error."""
        return f"{spread:{self.style}}"

    def format_named(self, score: float) -> str:
        """Format a score with its label; an accuracy has none."""
        label = "" if self.name == "accuracy" else f"{self.label} "
        return label + self.format(score)

    def format_difference(self, difference: float, sign: str = "") -> str:
        """Format a difference of two scores, percentages in points."""
        scale, style = (100, ".2f") if self.percent else (1, self.style)
        return f"{self.sign * scale * difference:{sign}{style}}"

    def evaluate(
        self, y: Array, predictions: Array, classes: Array, weights: Array | None
    ) -> Array:
        """Return the numbers of all rows; `classes` are sorted labels."""
        if self.numeric:
            y, predictions = (np.asarray(values, dtype=np.float64) for values in (y, predictions))
        if self.response != "predict":
            y = np.searchsorted(classes, y.astype(str) if y.dtype == object else y)
        return self.score_rows(y, predictions, weights)

    def predict(self, model: Any, X: Any, classes: Array) -> Array:
        """Return what is scored of a fitted model, with a column for each of the classes."""
        if self.response == "predict":
            return np.asarray(model.predict(X))
        if self.response == "probabilities" or not hasattr(model, "decision_function"):
            found, missing = np.asarray(model.predict_proba(X)), 0.0
        else:
            found, missing = np.asarray(model.decision_function(X), dtype=np.float64), -np.inf
            found = np.column_stack([-found, found]) if found.ndim == 1 else found
        known = np.asarray(model.classes_)
        known = known.astype(str) if known.dtype == object else known
        columns = np.full((len(found), len(classes)), missing)
        columns[:, np.searchsorted(classes, known)] = found
        return columns


def _linearize(values: Array, weights: Array | None) -> Array:
    """Return numbers whose mean is the weighted mean of values."""
    if weights is None:
        return values
    mean = np.average(values, weights=weights)
    return np.asarray(mean + weights / weights.mean() * (values - mean))


def _accuracy(y: Array, predicted: Array, weights: Array | None) -> Array:
    return _linearize(np.asarray(predicted == y, dtype=np.float64), weights)


def _balanced_accuracy(y: Array, predicted: Array, weights: Array | None) -> Array:
    """Mean over classes of the share of their rows that is right."""
    w = np.ones(len(y)) if weights is None else weights
    _, codes = np.unique(y.astype(str), return_inverse=True)
    sums = np.bincount(codes, w)
    right = np.asarray(predicted == y, dtype=np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        recalls = np.bincount(codes, w * right) / sums
    present = sums > 0
    score, share = recalls[present].mean(), len(y) / present.sum()
    influence = np.zeros(len(y))
    scored = present[codes]
    inside = codes[scored]
    influence[scored] = share * w[scored] / sums[inside] * (right[scored] - recalls[inside])
    return np.asarray(score + influence)


def _roc_auc(y: Array, scores: Array, weights: Array | None) -> Array:
    """Mean over classes of P(score in the class > score outside) + P(equal)/2."""
    w = np.ones(len(y)) if weights is None else weights
    areas = []
    for c, column in enumerate(scores.T):
        inside = y == c
        totals = w[inside].sum(), w[~inside].sum()
        if min(totals) <= 0:
            continue
        placed = np.empty(len(y))
        placed[inside] = _share_below(column[inside], column[~inside], w[~inside])
        placed[~inside] = 1 - _share_below(column[~inside], column[inside], w[inside])
        area = float(np.average(placed[inside], weights=w[inside]))
        each = len(y) * w * np.where(inside, 1 / totals[0], 1 / totals[1])
        areas.append(area + each * (placed - area))
    return np.asarray(np.mean(areas, axis=0)) if areas else np.full(len(y), 0.5)


def _share_below(values: Array, others: Array, weights: Array) -> Array:
    """Return the weighted share of others below each value, equal ones counted by half."""
    order = np.argsort(others, kind="stable")
    sums = np.concatenate([[0.0], np.cumsum(weights[order])])
    low, high = (np.searchsorted(others[order], values, side=side) for side in ("left", "right"))
    return np.asarray((sums[low] + sums[high]) / (2 * sums[-1]))


def _log_probability(y: Array, probabilities: Array, weights: Array | None) -> Array:
    p = probabilities[np.arange(len(y)), y]
    return _linearize(np.log(np.clip(p, _LEAST_PROBABILITY, 1.0)), weights)


def _r2(y: Array, predicted: Array, weights: Array | None) -> Array:
    mean = np.average(y, weights=weights)
    variance = float(np.average((y - mean) ** 2, weights=weights)) or 1.0
    return _linearize(1 - (y - predicted) ** 2 / variance, weights)


def _negative_rmse(y: Array, predicted: Array, weights: Array | None) -> Array:
    squares = _linearize((y - predicted) ** 2, weights)
    root = float(np.sqrt(squares.mean()))
    return -root - (squares - root**2) / (2 * root) if root > 0 else np.zeros(len(y))


def _negative_mae(y: Array, predicted: Array, weights: Array | None) -> Array:
    return _linearize(-np.abs(y - predicted), weights)


SCORINGS = {
    scoring.name: scoring
    for scoring in (
        Scoring("accuracy", "accuracy", False, "predict", _accuracy, style=".2%", resolution=1.0),
        Scoring(
            "balanced_accuracy",
            "balanced accuracy",
            False,
            "predict",
            _balanced_accuracy,
            style=".2%",
            resolution=1.0,
        ),
        Scoring("roc_auc", "AUC", False, "scores", _roc_auc),
        Scoring("roc_auc_ovr", "AUC", False, "scores", _roc_auc),
        Scoring("neg_log_loss", "log loss", False, "probabilities", _log_probability, sign=-1),
        Scoring("r2", "R^2", True, "predict", _r2),
        Scoring(
            "neg_root_mean_squared_error",
            "RMSE",
            True,
            "predict",
            _negative_rmse,
            sign=-1,
            style=".4g",
        ),
        Scoring(
            "neg_mean_absolute_error",
            "MAE",
            True,
            "predict",
            _negative_mae,
            sign=-1,
            style=".4g",
            constant="median",
        ),
    )
}


def find_scoring(name: str | None, *, numeric: bool, classes: int = 2) -> Scoring:
    """Return a score by its name, by default accuracy or R^2; raise where it is of another task.

    Parameters
    ----------
    name : str or None
    numeric : bool
        Whether targets are numbers.
    classes : int
        Number of classes: roc_auc is for two.
    """
    if name is None:
        return SCORINGS["r2" if numeric else "accuracy"]
    fitting = [s.name for s in SCORINGS.values() if s.numeric == numeric]
    if not numeric and classes > 2:
        fitting.remove("roc_auc")
    if name not in fitting:
        what = "numbers" if numeric else f"{classes} classes"
        needed = ", ".join(map(repr, fitting))
        raise ParameterError(
            "select", Setting("scoring"), f" must be one of {needed} for {what}, got {name!r}."
        )
    return SCORINGS[name]
