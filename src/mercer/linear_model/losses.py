"""Losses of targets of +1 and -1, with their derivatives.

A margin loss is a function of m = y f(x), one output at a time; log loss couples the outputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import expit, logsumexp, softmax

from mercer._typing import Array

_LARGEST_MEAN = 1 - 1e-6  # of targets, beyond which the best constant is bounded


class Loss(Protocol):
    """Convex function of the scores F of rows with targets Y, both (n, outputs)."""

    @property
    def name(self) -> str: ...
    def row_values(self, Y: Array, F: Array) -> Array:
        """Return the loss of each row, (n,)."""

    def gradient(self, Y: Array, F: Array) -> Array:
        """Return the derivative in F, (n, outputs)."""

    def constant(self, mean: Array) -> Array:
        """Return the score of the least loss that is the same for all rows, (outputs,).

        mean is that of the targets; where they are all equal it is taken 1e-6 less.
        """


class MarginLoss:
    """Sum over outputs of a convex function of m = y f, with two derivatives, which are finite."""

    def value(self, m: Array) -> Array:
        raise NotImplementedError

    def slope(self, m: Array) -> Array:
        raise NotImplementedError

    def curvature(self, m: Array) -> Array:
        raise NotImplementedError

    def row_values(self, Y: Array, F: Array) -> Array:
        return self.value(Y * F).sum(axis=1)

    def gradient(self, Y: Array, F: Array) -> Array:
        return Y * self.slope(Y * F)


@dataclass(frozen=True)
class SquaredHinge(MarginLoss):
    """max(0, 1 - m)^2.

    Its curvature is 2 below the margin 1 and 0 from there on, a generalized second derivative at
    m = 1.
    """

    name: str = "squared_hinge"

    def constant(self, mean: Array) -> Array:
        return mean

    def value(self, m: Array) -> Array:
        return np.maximum(1 - m, 0.0) ** 2

    def slope(self, m: Array) -> Array:
        return -2 * np.maximum(1 - m, 0.0)

    def curvature(self, m: Array) -> Array:
        return np.where(m < 1, 2.0, 0.0)


@dataclass(frozen=True)
class Logistic(MarginLoss):
    """log(1 + exp(-m))."""

    name: str = "logistic"

    def constant(self, mean: Array) -> Array:
        return 2 * np.arctanh(np.clip(mean, -_LARGEST_MEAN, _LARGEST_MEAN))

    def value(self, m: Array) -> Array:
        # without overflow, in half the time of scipy.special.log_expit
        return np.maximum(-m, 0.0) + np.log1p(np.exp(-np.abs(m)))

    def slope(self, m: Array) -> Array:
        return -expit(-m)

    def curvature(self, m: Array) -> Array:
        return expit(m) * expit(-m)


@dataclass(frozen=True)
class LogLoss:
    """-log p_y with p = softmax(f), one score for each class; y is +1 in the class, -1 outside."""

    name: str = "log_loss"

    def row_values(self, Y: Array, F: Array) -> Array:
        return np.asarray(logsumexp(F, axis=1)) - np.sum(F, axis=1, where=Y > 0)

    def gradient(self, Y: Array, F: Array) -> Array:
        return np.asarray(softmax(F, axis=1)) - (Y > 0)

    def constant(self, mean: Array) -> Array:
        logs = np.log1p(np.clip(mean, -_LARGEST_MEAN, _LARGEST_MEAN))
        return logs - logs.mean()


LOSSES: dict[str, Loss] = {loss.name: loss for loss in (SquaredHinge(), Logistic(), LogLoss())}


def loss_of(name: str, outputs: int) -> Loss:
    """Return the loss of a name: log loss of a single output, that of two classes, is logistic."""
    return LOSSES["logistic" if name == "log_loss" and outputs == 1 else name]
