"""Adaptive prediction sets from probabilities of rows that were left out.

The score of class c is the probability of the classes before it, s_k(x, c) = sum of P_k(c') over
the classes c' that are more probable, by the model k that was fitted without a fold. With
s_i = s_k(i)(x_i, y_i), k(i) being the fold of row i, the set of a new row x has the classes

    {c : the number of rows i with s_i < s_k(i)(x, c) is below coverage (n + 1)}

and the predicted class (Romano, Sesia and Candes, "Classification with valid and adaptive
coverage", 2020, without their randomization). If rows are exchangeable it has the class of x with a
probability of at least `coverage` where one part of the rows was held out, and of at least
2 coverage - 1 - 2/sqrt(n) for folds, about `coverage` for models that depend little on a fold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer._typing import Array
from mercer.linear_model.calibration import Calibration, logits_of
from mercer.linear_model.conformal import required_weight
from mercer.linear_model.left_out import FoldModels, LeftOutSample, order_by_fold
from mercer.parallel.threads import row_slices

_NUMBERS = 2**20  # probabilities that exist at once


@dataclass(frozen=True, eq=False)
class PredictionSets:
    """Models of the folds, and the scores s_i of the rows that each was fitted without.

    Attributes
    ----------
    models : FoldModels
    before : array of shape (n,)
        Probability of the classes that are more probable than that of the row.
    fold : array of shape (n,)
    weight : array of shape (n,)
    """

    models: FoldModels
    before: Array
    fold: Array
    weight: Array

    @classmethod
    def of(
        cls,
        models: FoldModels,
        sample: LeftOutSample,
        calibration: Calibration,
        loss: str,
        weight: Array,
    ) -> PredictionSets:
        """Compute the scores of a sample, whose rows count as often as their weight says."""
        n = len(sample.scores)
        before = np.empty(n)
        classes = sample.targets[:, 0].astype(np.int64)
        for rows in row_slices(n, max(1, _NUMBERS // len(calibration.slope))):
            P = calibration.probabilities(logits_of(sample.scores[rows], loss))
            before[rows] = probability_before(P)[np.arange(len(P)), classes[rows]]
        return cls(models, before, sample.fold, weight)

    def sets(
        self, scores: Array, predicted: Array, calibration: Calibration, loss: str, coverage: float
    ) -> Array:
        """Return whether each class is in the set of each row, (n, classes).

        Parameters
        ----------
        scores : array of shape (n, K t)
            Of the fold models side by side.
        predicted : array of shape (n,)
            Number of the predicted class.
        calibration : Calibration
        loss : str
        coverage : float
        """
        K, _, t = self.models.coef.shape
        wanted = required_weight("A prediction set", float(self.weight.sum()), coverage)
        ordered = order_by_fold(self.before, self.fold, self.weight, K)
        out = np.empty((len(scores), len(calibration.slope)), bool)
        for rows in row_slices(len(out), max(1, _NUMBERS // out.shape[1])):
            count = np.zeros_like(out[rows], np.float64)
            for k, (before, sums) in enumerate(ordered):
                F = scores[rows, k * t : (k + 1) * t]
                P = calibration.probabilities(logits_of(F, loss))
                count += sums[np.searchsorted(before, probability_before(P), side="left")]
            out[rows] = count < wanted
        out[np.arange(len(out)), predicted] = True
        return out

    def validate(self, features: int, outputs: int) -> None:
        """Raise unless the arrays fit so many features and outputs, and are finite."""
        n = len(self.fold)
        good = (
            self.before.shape == self.weight.shape == (n,)
            and n > 0
            and self.fold.dtype.kind == "i"
            and bool(np.all((self.fold >= 0) & (self.fold < len(self.models.coef))))
            and self.models.fits(features, outputs)
        )
        finite = np.isfinite(self.before).all() and np.isfinite(self.weight).all()
        if not (good and finite and (self.weight >= 0).all()):
            raise ValueError(
                f"Prediction sets need finite scores of left-out rows and finite models of "
                f"{features} features and {outputs} outputs."
            )


def probability_before(P: Array) -> Array:
    """Return the sum of the probabilities above each one, (n, classes); the first of equals is 0.

    Equal probabilities are in the order of the classes.
    """
    order = np.argsort(-P, axis=1, kind="stable")
    ordered = np.take_along_axis(P, order, axis=1)
    sums = np.zeros_like(P)
    np.cumsum(ordered[:, :-1], axis=1, out=sums[:, 1:])
    before = np.empty_like(P)
    np.put_along_axis(before, order, sums, axis=1)
    return before
