"""Losses of the margin m = y f(x), y = +1 or -1, with their derivatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import expit

from mercer._typing import Array


class Loss(Protocol):
    """Convex function of the margin with its first two derivatives, which are finite."""

    @property
    def name(self) -> str: ...
    def value(self, m: Array) -> Array: ...
    def slope(self, m: Array) -> Array: ...
    def curvature(self, m: Array) -> Array: ...


@dataclass(frozen=True)
class SquaredHinge:
    """max(0, 1 - m)^2.

    Its curvature is 2 below the margin 1 and 0 from there on, a generalized second derivative at
    m = 1.
    """

    name: str = "squared_hinge"

    def value(self, m: Array) -> Array:
        return np.maximum(1 - m, 0.0) ** 2

    def slope(self, m: Array) -> Array:
        return -2 * np.maximum(1 - m, 0.0)

    def curvature(self, m: Array) -> Array:
        return np.where(m < 1, 2.0, 0.0)


@dataclass(frozen=True)
class Logistic:
    """log(1 + exp(-m))."""

    name: str = "logistic"

    def value(self, m: Array) -> Array:
        # without overflow, in half the time of scipy.special.log_expit
        return np.maximum(-m, 0.0) + np.log1p(np.exp(-np.abs(m)))

    def slope(self, m: Array) -> Array:
        return -expit(-m)

    def curvature(self, m: Array) -> Array:
        return expit(m) * expit(-m)


LOSSES: dict[str, Loss] = {loss.name: loss for loss in (SquaredHinge(), Logistic())}
