"""Probabilities of classes from scores, calibrated on rows that were left out: vector scaling.

P(c | x) = softmax_c(slope_c z_c + offset_c) for z, the scores of the classes, minimizes

    sum_i w_i (-log P(y_i | x_i)) + lambda/2 sum_c ((slope_c/s - 1)^2 + offset_c^2),

where s is the best slope that all classes share (temperature scaling; Guo, Pleiss, Sun and
Weinberger, 2017), so that a class of few rows keeps it. For two classes this is Platt's sigmoid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import log_expit

from mercer._typing import Array

SHRINKAGE = 3.0
"""lambda. Of 0.1, 1, 3 and 10 it has the smallest log loss of new rows, on five sets of data."""

_SLOPES = 1e-3, 1e6  # of all classes, in units of 1/root mean square of the logits
_TIE = 1e-9  # by which the predicted class is above others of the same probability
_TOLERANCE = 1e-9  # of the gradient, for each row


@dataclass(frozen=True, eq=False)
class Calibration:
    """P(c | x) = softmax_c(slope_c z_c + offset_c).

    Attributes
    ----------
    slope, offset : array of shape (classes,)
    """

    slope: Array
    offset: Array

    @classmethod
    def of(
        cls, logits: Array, classes: Array, weight: Array, *, shared: bool = False
    ) -> Calibration:
        """Fit slopes and offsets to left-out rows.

        Parameters
        ----------
        logits : array of shape (n, classes)
            Of `logits_of`.
        classes : array of shape (n,)
            Number of the class of each row.
        weight : array of shape (n,)
        shared : bool, default=False
            Whether all classes have one slope, the inverse of a temperature, and no offset.
        """
        n, C = logits.shape
        # one row more, of no class: slopes stay finite where classes are separate
        share = 1 / (1 + weight.sum())
        targets = np.full((n, C), share / C)
        targets[np.arange(n), classes] += 1 - share
        objective = _Objective(logits, targets, weight)
        slope = objective.shared_slope()
        if shared:
            return cls(np.full(C, slope), np.zeros(C))
        objective = _Objective(slope * logits, targets, weight)
        best = minimize(
            objective.value,
            objective.start,
            jac=True,
            hess=objective.hessian,
            method="trust-exact",
            options={"gtol": _TOLERANCE * weight.sum()},
        )
        return cls(slope * best.x[:C], best.x[C:])

    @classmethod
    def identity(cls, classes: int) -> Calibration:
        """Return the calibration of logits that are logarithms of probabilities themselves."""
        return cls(np.ones(classes), np.zeros(classes))

    def probabilities(self, logits: Array) -> Array:
        """Return the probabilities of the classes, (n, classes); no class is above the predicted.

        Where slopes and offsets put classes above that of the largest logit, all of these have
        their mean: the nearest probabilities with the predicted class first.
        """
        P, _ = _softmax(logits * self.slope + self.offset)
        predicted = np.argmax(logits, axis=1)
        changed = np.flatnonzero(np.argmax(P, axis=1) != predicted)
        if len(changed):
            P[changed] = _pool(P[changed], predicted[changed])
        return P

    def validate(self, features: int, outputs: int) -> None:
        """Raise unless there are a finite slope and offset for each class of so many outputs."""
        shape = (max(outputs, 2),)
        arrays = (self.slope, self.offset)
        # a slope beyond 1e150 times a score may be no finite number
        if not all(a.shape == shape and np.all(np.abs(a) < 1e150) for a in arrays):
            raise ValueError(
                f"A calibration needs finite slopes and offsets of {shape[0]} classes."
            )


def _pool(P: Array, first: Array) -> Array:
    """Return the nearest rows of P in which the class `first` is above all others.

    That class and the largest of the others have their mean, which is the largest mean of so many.
    """
    rows, places = np.arange(len(P)), np.arange(P.shape[1])
    keys = -P
    keys[rows, first] = -np.inf
    order = np.argsort(keys, axis=1, kind="stable")
    ordered = np.take_along_axis(P, order, axis=1)
    means = np.cumsum(ordered, axis=1) / (places + 1)
    last = np.argmax(means, axis=1)
    mean = means[rows, last]
    pooled = np.where(places <= last[:, None], mean[:, None] * (1 - _TIE), ordered)
    pooled[:, 0] += mean * (last + 1) * _TIE
    out = np.empty_like(P)
    np.put_along_axis(out, order, pooled, axis=1)
    return out


class _Objective:
    """sum w (-sum_c t_c log P(c)) + lambda/2 |p - start|^2 for p = (slopes, offsets)."""

    def __init__(self, logits: Array, targets: Array, weight: Array) -> None:
        self.logits, self.targets, self.weight = logits, targets, weight
        C = logits.shape[1]
        self.start = np.concatenate([np.ones(C), np.zeros(C)])

    def shared_slope(self) -> float:
        """Return the slope of all classes without offsets, at which the derivative is 0."""
        squares = float(self.weight @ np.einsum("ij,ij->i", self.logits, self.logits))
        unit = np.sqrt(self.logits.shape[1] * self.weight.sum() / squares) if squares else 1.0

        def derivative(logarithm: float) -> float:
            P, _ = _softmax(unit * np.exp(logarithm) * self.logits)
            return float(self.weight @ np.einsum("ij,ij->i", P - self.targets, self.logits))

        low, high = np.log(_SLOPES)
        if derivative(low) >= 0:  # the scores say nothing of the classes
            return float(unit * _SLOPES[0])
        return float(unit * np.exp(brentq(derivative, low, high, xtol=1e-12)))

    def value(self, p: Array) -> tuple[float, Array]:
        """Return the objective and its gradient."""
        scaled = self._scale(p)
        P, normalizer = _softmax(scaled)
        R = self.weight[:, None] * (P - self.targets)
        step = p - self.start
        gradient = np.concatenate([np.sum(R * self.logits, axis=0), R.sum(axis=0)])
        own = np.einsum("ij,ij->i", scaled, self.targets)
        value = float(self.weight @ (normalizer - own)) + SHRINKAGE / 2 * float(step @ step)
        return value, gradient + SHRINKAGE * step

    def hessian(self, p: Array) -> Array:
        P, _ = _softmax(self._scale(p))
        W = self.weight[:, None] * P
        A = np.hstack([self.logits * P, P])
        H: Array = -(A.T @ (self.weight[:, None] * A))
        C = P.shape[1]
        slopes, offsets = np.arange(C), np.arange(C, 2 * C)
        H[slopes, slopes] += np.sum(W * self.logits**2, axis=0)
        mixed = np.sum(W * self.logits, axis=0)
        H[slopes, offsets] += mixed
        H[offsets, slopes] += mixed
        H[offsets, offsets] += W.sum(axis=0)
        H.flat[:: 2 * C + 1] += SHRINKAGE
        return H

    def _scale(self, p: Array) -> Array:
        C = self.logits.shape[1]
        return self.logits * p[:C] + p[C:]


def _softmax(Z: Array) -> tuple[Array, Array]:
    """Return softmax(z) and log sum exp(z) of rows, in a third of the time of SciPy's."""
    largest = Z.max(axis=1, keepdims=True)
    P = np.exp(Z - largest)
    sums = P.sum(axis=1, keepdims=True)
    P /= sums
    return P, (largest + np.log(sums))[:, 0]


def logits_of(scores: Array, loss: str) -> Array:
    """Return a number for each class from scores, (n, classes): its softmax is calibrated.

    The scores themselves, -f/2 and f/2 of two classes; for logistic loss of several classes
    log(1/(1 + exp(-f))).
    """
    if scores.shape[1] == 1:
        return np.hstack([-scores / 2, scores / 2])
    logits: Any = log_expit(scores) if loss == "logistic" else scores
    return np.asarray(logits)
