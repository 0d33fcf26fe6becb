"""How the error of a map falls with its knob."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rate:
    """How the Gram error falls with the knob: error ~ knob ** slope, or steeper where exact is
    False.

    Where the knob ends at the d columns of the data, error ~ (knob / (1 - knob/d)) ** slope, which
    is 0 at d.
    """

    slope: float
    exact: bool
    ends: bool = False


@dataclass(frozen=True)
class Decay:
    """How the Gram error of a deterministic map falls: from each of these sizes to the next, to at
    most `factor` of what it was.
    """

    sizes: tuple[int, ...]
    factor: float


INDEPENDENT = Rate(-0.5, exact=True)  # independent draws
STRUCTURED = Rate(-0.43, exact=False)  # orthogonal, Hadamard, low-discrepancy
SUBSPACE = Rate(-0.5, exact=True, ends=True)  # orthogonal rows of which there are at most d
