"""Losses of the margin m = y f(x), y = +1 or -1: value, slope and curvature of each margin by
itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mercer.linear_model.normal_equations import Array


class Loss(Protocol):
    """A convex function of the margin, with its first two derivatives; finite wherever its value
    is.
    """

    @property
    def name(self) -> str: ...
    def value(self, m: Array) -> Array: ...
    def slope(self, m: Array) -> Array: ...
    def curvature(self, m: Array) -> Array: ...


@dataclass(frozen=True)
class SquaredHinge:
    """max(0, 1 - m)^2. Its curvature is 2 below the margin 1 and 0 from there on: a generalised
    second derivative at m = 1.
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
    """log(1 + exp(-m)), of which no exponential overflows: max(-m, 0) + log1p(exp(-|m|))."""

    name: str = "logistic"

    def value(self, m: Array) -> Array:
        return np.maximum(-m, 0.0) + np.log1p(np.exp(-np.abs(m)))

    def slope(self, m: Array) -> Array:
        return -chance(-m)

    def curvature(self, m: Array) -> Array:
        return chance(m) * chance(-m)


LOSSES: dict[str, Loss] = {loss.name: loss for loss in (SquaredHinge(), Logistic())}


def chance(m: Array) -> Array:
    """1/(1 + exp(-m)), the probability of a label whose margin is m, to the last digits on both
    sides.
    """
    small = np.exp(-np.abs(m))
    return np.where(m >= 0, 1.0, small) / (1 + small)
