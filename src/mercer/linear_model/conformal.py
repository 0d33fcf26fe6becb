"""Conformal prediction intervals from scores of rows that were left out: CV+ and split conformal.

With R_i = |y_i - f_k(i)(x_i)|, k(i) being the fold of row i, the interval of a new row x is

    [the floor((1 - c)(n + 1))-th smallest of f_k(i)(x) - R_i,
     the ceil(c (n + 1))-th smallest of f_k(i)(x) + R_i].

If rows are exchangeable it has y with a probability of at least 2c - 1 - 2/sqrt(n) (Barber, Candes,
Ramdas and Tibshirani, "Predictive inference with the jackknife+", 2021), and of about c for models
that depend little on a fold; with one part of the rows held out, of at least c.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer._typing import Array
from mercer.linear_model.left_out import FoldModels, LeftOutSample, order_by_fold

_BISECTIONS = 24  # of the difference between fold models


@dataclass(frozen=True, eq=False)
class ConformalIntervals:
    """Models of the folds, and the residuals of the rows that each was fitted without.

    Attributes
    ----------
    models : FoldModels
    residuals : array of shape (n, t)
        |y - f_k(x)|.
    fold : array of shape (n,)
    scale : array of shape (n,)
        sqrt(1 + h) of the model without the row, h being its leverage: the standard deviation of
        the residual in units of the noise's.
    weight : array of shape (n,)
    """

    models: FoldModels
    residuals: Array
    fold: Array
    scale: Array
    weight: Array

    @classmethod
    def of(cls, models: FoldModels, sample: LeftOutSample) -> ConformalIntervals:
        residuals = np.abs(sample.targets - sample.scores)
        own = np.clip(sample.leverage * sample.together, 0.0, 1 - 1e-9)  # h/(1 - h) without the row
        return cls(models, residuals, sample.fold, 1 / np.sqrt(1 - own), sample.weight)

    def intervals(self, scores: Array, coverage: float, scale: Array | None = None) -> Array:
        """Return the ends of the intervals, (n, t, 2).

        Parameters
        ----------
        scores : array of shape (n, K t)
            Of the fold models side by side.
        coverage : float
        scale : array of shape (n,), optional
            sqrt(1 + h) of the rows, where residuals are divided by it.
        """
        K, _, t = self.models.coef.shape
        F = scores.reshape(-1, K, t)
        units = np.ones(len(F)) if scale is None else scale
        out = np.empty((len(F), t, 2))
        for output in range(t):
            residuals = self.residuals[:, output] / (1.0 if scale is None else self.scale)
            one_fold = np.zeros_like(self.fold)
            ((inside, sums),) = order_by_fold(residuals, one_fold, self.weight, 1)
            wanted = required_weight("An interval", float(sums[-1]), coverage)
            middle = inside[np.searchsorted(sums[1:], wanted)] * units
            ordered = order_by_fold(residuals, self.fold, self.weight, K)
            for end, sign in enumerate((-1, 1)):
                part = sign * F[:, :, output]
                out[:, output, end] = sign * _quantile(part, units, middle, wanted, ordered)
        return out

    def validate(self, features: int, outputs: int) -> None:
        """Raise unless the arrays fit so many features and outputs, and are finite."""
        n, K = len(self.fold), len(self.models.coef)
        arrays = (self.residuals, self.scale, self.weight, self.models.intercept)
        good = (
            self.models.fits(features, outputs)
            and self.residuals.shape == (n, outputs)
            and self.scale.shape == self.weight.shape == (n,)
            and self.fold.ndim == 1
            and self.fold.dtype.kind == "i"
            and bool(np.all(self.residuals >= 0) and np.all(self.scale > 0))
            and bool(np.all(self.weight > 0))
            and n > 0
            and bool(np.all((self.fold >= 0) & (self.fold < K)))
        )
        # sums of two of them must be finite
        if not good or not all(np.all(np.abs(array) < 1e300) for array in arrays):
            raise ValueError(
                f"Conformal intervals need residuals of {outputs} outputs and finite models of "
                f"{features} features."
            )


def required_weight(name: str, total: float, coverage: float) -> float:
    """Return coverage (n + 1), the number of left-out rows inside; raise where it is above n."""
    wanted = coverage * (total + 1) * (1 - 1e-12)
    if wanted > total:
        least = int(np.ceil(coverage / (1 - coverage) * (1 - 1e-12)))
        raise ValueError(
            f"{name} of coverage {coverage:g} needs at least {least:,} rows that were left out, "
            f"and there are {total:g}: give more rows, or a smaller coverage."
        )
    return wanted


def _quantile(
    F: Array, units: Array, middle: Array, wanted: float, ordered: list[tuple[Array, Array]]
) -> Array:
    """Return the smallest v with sum w_i [f_k(i) + u R_i <= v] >= wanted, (n,).

    Parameters
    ----------
    F : array of shape (n, K)
    units : array of shape (n,)
    middle : array of shape (n,)
        That of one model, with f = 0.
    wanted : float
    ordered : list of (residuals, sums of weights), for each fold
    """
    low, high = middle + F.min(axis=1), middle + F.max(axis=1)
    for _ in range(_BISECTIONS if F.shape[1] > 1 else 0):
        v = (low + high) / 2
        count = np.zeros(len(v))
        for k, (residuals, sums) in enumerate(ordered):
            count += sums[np.searchsorted(residuals, (v - F[:, k]) / units, side="right")]
        enough = count >= wanted
        high, low = np.where(enough, v, high), np.where(enough, low, v)
    return high
