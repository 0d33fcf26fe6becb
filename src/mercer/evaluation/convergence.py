"""Pilots: how the error of a map falls with its knob, measured at small sizes, and the size that
reaches an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np

from mercer.evaluation.kernel_error import Measured, drawn_pairs, measure
from mercer.maps.base import Map, Rate
from mercer.maps.compose import Composed

_DRAWS = 4  # of each pilot
_LARGEST = 2**16  # the largest size of a deterministic map that is tried
_STEEPEST = -0.75  # what is believed of a slope that was measured on three sizes
_SMALLEST = 16  # size of a pilot: a few features, odd ones of pairs among them, are on no law
_MOST = 2**31 - 1  # of a size


@dataclass(frozen=True)
class Law:
    """error(size) = sqrt(floor^2 + (constant size^slope)^2); size is m/(1 - m/end) where the knob m
    ends at a number of columns.

    Attributes
    ----------
    knob : str
    slope, constant : float
    floor : float
        What more features do not remove: bias and rounding.
    end : int or None
    sizes, errors : tuple
        The pilots, and the fitted map itself, that the constant comes from.
    """

    size_parameter: str
    slope: float
    constant: float
    floor: float
    end: int | None
    sizes: tuple[int, ...]
    errors: tuple[float, ...]

    def error(self, size: int) -> float:
        """The relative error at this size."""
        if self.end is not None and size >= self.end:
            return self.floor
        at = size if self.end is None else size / (1 - size / self.end)
        return math.hypot(self.floor, self.constant * at**self.slope)

    def size_for(self, error: float) -> int | None:
        """The smallest size with at most this error, of those from the smallest pilot on; None
        where there is none.
        """
        at = self._place(error)
        if at is None or (self.end is None and at > _MOST):
            return None
        if self.end is not None:
            at = at / (1 + at / self.end)
        least = max(min(self.sizes, default=1), math.ceil(at))
        return least if self.end is None else min(least, self.end)

    def below(self, error: float) -> int | None:
        """A size for this error below all pilots, where the law was not measured; None where it
        lies among them.
        """
        at = self._place(error)
        smallest = min(self.sizes, default=1)
        return (
            None
            if at is None or smallest <= _SMALLEST or at >= smallest
            else max(_SMALLEST, math.ceil(at))
        )

    def why_not(self, error: float) -> str:
        """Why no size has this error."""
        if error > self.floor:
            return f"it would take more than {_MOST:,}"
        return f"bias and rounding alone are {100 * self.floor:.3g}%"

    def _place(self, error: float) -> float | None:
        """size of the law for this error; infinity where no float has it, None where no size
        does.
        """
        if error <= self.floor:
            return None
        left = error * math.sqrt(1 - (self.floor / error) ** 2)
        power = math.log(left / self.constant) / self.slope if left > 0 else math.inf
        return math.exp(min(power, 700.0))


@dataclass(frozen=True)
class Table:
    """The error of a deterministic map at the sizes that were tried.

    Attributes
    ----------
    knob : str
    sizes, errors : tuple
        Sizes, rising, and the relative error of each.
    """

    size_parameter: str
    sizes: tuple[int, ...]
    errors: tuple[float, ...]

    def error(self, size: int) -> float:
        """The relative error of the largest size that was tried and is not above this one."""
        below = [
            error for tried, error in zip(self.sizes, self.errors, strict=True) if tried <= size
        ]
        return below[-1] if below else self.errors[0]

    def size_for(self, error: float) -> int | None:
        """The smallest size that was tried and has at most this error; None where there is none."""
        fitting = [
            size for size, found in zip(self.sizes, self.errors, strict=True) if found <= error
        ]
        return min(fitting, default=None)

    def why_not(self, error: float) -> str:
        """Why no size has this error."""
        best = int(np.argmin(self.errors))
        return (
            f"the least that was measured is {100 * self.errors[best]:.3g}%, with "
            f"{self.sizes[best]:,}"
        )


def fitted_size(fitted: Map) -> int | None:
    """The size of a fitted map: its parameter, or what fit made of "auto"; None where it has no
    single one.
    """
    size_parameter = str(fitted.size_parameter)
    size = fitted.get_params().get(size_parameter)
    if isinstance(size, str):
        last = fitted.maps_[-1] if isinstance(fitted, Composed) else fitted
        size = getattr(last, f"{size_parameter.rpartition('__')[2]}_")
    return int(size) if isinstance(size, int | np.integer) else None


def law_of(
    fitted: Map, rows: Any, measured: Measured, seed: int, wanted: float | None
) -> Law | Table | None:
    """How the error of a fitted map falls with its knob; None where it does not depend on one.

    Pilots are fitted on half of the rows and measured on pairs of the other half, so that landmarks
    are not among what is measured. Random maps have pilots at a quarter and half of their size,
    four draws of each, and the law that is known for them; where it says "or steeper", the slope is
    measured. Deterministic ones are tried at sizes that double until the error is the wanted one or
    the map takes no larger size, then between the last two.
    """
    rate, size_parameter, size = fitted.rate, str(fitted.size_parameter), fitted_size(fitted)
    if rate is None or size is None:
        return None
    apart = rows.shape[0] >= 4
    seen, unseen = (rows[::2], rows[1::2]) if apart else (rows, rows)
    pairs = drawn_pairs(unseen.shape[0], len(measured.exact), seed)

    @cache
    def pilot(of: int, draw: int) -> Measured:
        return measure(seeded(fitted.with_size(of), seed + draw).fit(seen), unseen, pairs)

    end = rows.shape[1] if isinstance(rate, Rate) and rate.ends else None
    small = max(1, size // 4)
    sizes = tuple(of for of in (small, max(small + 1, size // 2)) if end is None or of < end)
    if isinstance(rate, Rate) and sizes:
        law = _law(rate, size_parameter, sizes, (size, measured), pilot, end)
        near = None if wanted is None else law.below(wanted)
        return (
            law
            if near is None
            else _law(
                rate, size_parameter, (near, 2 * near), (size, measured), pilot, end, near=True
            )
        )
    return _table(size_parameter, size, measured, pilot, wanted)


def _law(
    rate: Rate,
    size_parameter: str,
    sizes: tuple[int, ...],
    own: tuple[int, Measured],
    pilot: Callable[[int, int], Measured],
    end: int | None,
    *,
    near: bool = False,
) -> Law:
    """The law through pilots of one or two sizes, four draws each, and through the map itself; with
    near, through the pilots alone.
    """
    size, measured = own
    near = near or size == end  # where all that is left of the error is rounding, on no law
    pilots = [[pilot(of, draw) for draw in range(_DRAWS)] for of in sizes]
    bias = measured.part(measured.bias)
    if bias is None:  # errors of independent draws have nothing in common but the bias
        every = [one for draws in pilots for one in draws]
        common = [np.sum(a.errors * b.errors) for a, b in combinations(every, 2)]
        bias = math.sqrt(max(float(np.mean(common)) / float(np.sum(every[0].exact ** 2)), 0.0))

    def squared(one: Measured) -> float:
        known = one.part(one.sampling)
        return max(
            float(one.part(one.errors) or 0.0) ** 2 - bias**2 if known is None else known**2, 1e-300
        )

    tried = sizes if near else (*sizes, size)
    squares = [float(np.mean([squared(one) for one in draws])) for draws in pilots]
    squares += [] if near else [squared(measured)]
    at = np.log([of if end is None else of / max(1 - of / end, 1e-9) for of in tried])
    errors = np.log(squares) / 2
    slope = rate.slope
    # half way between what was measured and what independent blocks of the design have in the end
    if not rate.exact:
        slope = float(np.clip((np.polyfit(at, errors, 1)[0] - 0.5) / 2, _STEEPEST, rate.slope))
    constant = math.exp(float(np.mean(errors - slope * at)))
    floor = math.hypot(bias, measured.part(measured.rounding) or 0.0)
    return Law(
        size_parameter, slope, constant, floor, end, tried, tuple(math.sqrt(one) for one in squares)
    )


def _table(
    size_parameter: str,
    size: int,
    measured: Measured,
    pilot: Callable[[int, int], Measured],
    wanted: float | None,
) -> Table:
    found = {size: float(measured.part(measured.errors) or 0.0)}

    def error(of: int) -> float:
        if of not in found:
            one = pilot(of, 0)
            found[of] = float(one.part(one.errors) or 0.0)
        return found[of]

    if wanted is None:
        for of in {max(1, size // 4), max(1, size // 2)}:
            error(of)
    else:
        low, high = 0, 1
        while not _reached(error, high, wanted) and high < _LARGEST:
            low, high = high, 2 * high
            if not _taken(error, high):
                break
        while found.get(high, math.inf) <= wanted and high - low > 1:
            middle = (low + high) // 2
            if _reached(error, middle, wanted):
                high = middle
            else:
                low = middle
    sizes = tuple(sorted(found))
    return Table(size_parameter, sizes, tuple(found[of] for of in sizes))


def _reached(error: Callable[[int], float], size: int, wanted: float) -> bool:
    return _taken(error, size) and error(size) <= wanted


def _taken(error: Callable[[int], float], size: int) -> bool:
    """Whether the map takes this size: more landmarks than rows, say, are refused."""
    try:
        error(size)
    except ValueError:
        return False
    return True


def seeded(unfitted: Map, seed: int) -> Map:
    """The same map with this random_state; the parts of a composition have this one and those after
    it.
    """
    names = [name for name in unfitted.get_params() if name.split("__")[-1] == "random_state"]
    return unfitted.set_params(**{name: seed + i for i, name in enumerate(names)})
