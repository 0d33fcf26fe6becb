"""Predictions of the best model on rows that it was not fitted to: confusions and residuals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer._typing import Array
from mercer.report.best_model import BestModel
from mercer.report.data import ignored_warnings

SHOWN_CLASSES = 30  # of a confusion matrix
SHOWN_ERRORS = 5  # most frequent confusions that are listed


@dataclass(frozen=True)
class Confusion:
    """Confusion matrix.

    Attributes
    ----------
    name : str
        Of the model.
    classes : tuple of str
    counts : array of shape (k, k)
        Rows of class i that were predicted as class j.
    """

    name: str
    classes: tuple[str, ...]
    counts: Array

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.counts.sum())

    @property
    def accuracy(self) -> float:
        """Share of right predictions."""
        return float(np.trace(self.counts) / self.rows)

    @property
    def by_class(self) -> list[tuple[str, int, float | None, float | None]]:
        """Class, rows, recall and precision; None where there is no such row or prediction."""
        right = np.diag(self.counts)
        truths, predictions = self.counts.sum(axis=1), self.counts.sum(axis=0)
        return [
            (label, int(n), float(r / n) if n else None, float(r / m) if m else None)
            for label, r, n, m in zip(self.classes, right, truths, predictions, strict=True)
        ]

    @property
    def errors(self) -> list[tuple[str, str, int, int]]:
        """The most frequent errors: class, predicted class, their number, rows of the class."""
        wrong = self.counts - np.diag(np.diag(self.counts))
        totals = self.counts.sum(axis=1)
        order = np.argsort(-wrong, axis=None, kind="stable")[:SHOWN_ERRORS]
        places = zip(*np.unravel_index(order, wrong.shape), strict=True)
        return [
            (self.classes[i], self.classes[j], int(wrong[i, j]), int(totals[i]))
            for i, j in places
            if wrong[i, j]
        ]

    def most_frequent(self) -> Confusion:
        """Return the matrix of the SHOWN_CLASSES classes with the most rows, in their order."""
        order = np.argsort(-self.counts.sum(axis=1), kind="stable")[:SHOWN_CLASSES]
        kept = np.sort(order)
        classes = tuple(self.classes[i] for i in kept)
        return Confusion(self.name, classes, self.counts[np.ix_(kept, kept)])


@dataclass(frozen=True)
class Residuals:
    """Targets and predictions of numbers.

    Attributes
    ----------
    name : str
        Of the model.
    predictions, residuals : array of shape (n,)
        Residuals are target - prediction.
    """

    name: str
    predictions: Array
    residuals: Array

    @property
    def rms(self) -> float:
        """Root mean square of the residuals."""
        return float(np.sqrt(np.mean(self.residuals**2)))

    @property
    def mean(self) -> float:
        """Mean of the residuals."""
        return float(self.residuals.mean())

    def quantile(self, share: float) -> float:
        """Return the absolute residual that a share of the rows is below."""
        return float(np.quantile(np.abs(self.residuals), share))


def measure_confusion(best: BestModel) -> Confusion:
    """Count the predictions of each class on the test rows."""
    truth, found = best.sample.y, _predict(best)
    if truth.dtype == object:
        truth, found = truth.astype(str), found.astype(str)
    labels = np.unique(np.concatenate([truth, found]))
    k = len(labels)
    pairs = np.searchsorted(labels, truth) * k + np.searchsorted(labels, found)
    counts = np.bincount(pairs, minlength=k * k).reshape(k, k)
    return Confusion(best.name, tuple(map(str, labels)), counts)


def measure_residuals(best: BestModel) -> Residuals:
    """Return the residuals on the test rows."""
    predictions = _predict(best).astype(np.float64)
    return Residuals(best.name, predictions, best.sample.y.astype(np.float64) - predictions)


def _predict(best: BestModel) -> Array:
    with ignored_warnings():
        return np.asarray(best.fitted.predict(best.sample.test))
