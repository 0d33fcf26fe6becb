"""Convergence of the error of a map with its size, measured on small pilot maps."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np

from mercer.evaluation.kernel_error import PairErrors, draw_pairs, measure
from mercer.maps.base import Map, Rate
from mercer.maps.compose import Composed

_DRAWS = 4  # of each pilot
_LARGEST = 2**16  # the largest size of a deterministic map that is tried
_STEEPEST = -0.75  # limit of a slope that was measured on three sizes
_SMALLEST = 16  # size of a pilot: fewer features, odd ones of pairs among them, follow no law
_MOST = 2**31 - 1  # of a size


@dataclass(frozen=True)
class Law:
    """error(size) = sqrt(floor^2 + (constant size^slope)^2).

    size is m/(1 - m/end) where the parameter m ends at the number of columns.

    Attributes
    ----------
    size_parameter : str
    slope, constant : float
    floor : float
        Bias and rounding, which remain with any number of features.
    end : int or None
    sizes, errors : tuple
        Pilots, and the fitted map itself, that the constant was fitted to.
    """

    size_parameter: str
    slope: float
    constant: float
    floor: float
    end: int | None
    sizes: tuple[int, ...]
    errors: tuple[float, ...]

    def error(self, size: int) -> float:
        """Return the relative error at a size."""
        if self.end is not None and size >= self.end:
            return self.floor
        at = size if self.end is None else size / (1 - size / self.end)
        return math.hypot(self.floor, self.constant * at**self.slope)

    def size_for(self, error: float) -> int | None:
        """Return the smallest size of at most this error, from the smallest pilot on, or None."""
        at = self._size(error)
        if at is None or (self.end is None and at > _MOST):
            return None
        if self.end is not None:
            at = at / (1 + at / self.end)
        least = max(min(self.sizes, default=1), math.ceil(at))
        return least if self.end is None else min(least, self.end)

    def below(self, error: float) -> int | None:
        """Return the size for this error where it is below all pilots; None otherwise."""
        at = self._size(error)
        smallest = min(self.sizes, default=1)
        if at is None or smallest <= _SMALLEST or at >= smallest:
            return None
        return max(_SMALLEST, math.ceil(at))

    def why_not(self, error: float) -> str:
        """Explain why no size has this error."""
        if error > self.floor:
            return f"it would take more than {_MOST:,}"
        return f"bias and rounding alone are {100 * self.floor:.3g}%"

    def _size(self, error: float) -> float | None:
        """Invert the law; None where the error is not above the floor."""
        if error <= self.floor:
            return None
        left = error * math.sqrt(1 - (self.floor / error) ** 2)
        power = math.log(left / self.constant) / self.slope if left > 0 else math.inf
        return math.exp(min(power, 700.0))


@dataclass(frozen=True)
class Table:
    """Errors of a deterministic map at the sizes that were tried.

    Attributes
    ----------
    size_parameter : str
    sizes, errors : tuple
        Increasing sizes, and the relative error of each.
    """

    size_parameter: str
    sizes: tuple[int, ...]
    errors: tuple[float, ...]

    def error(self, size: int) -> float:
        """Return the error of the largest size that was tried and is not above this one."""
        below = [e for tried, e in zip(self.sizes, self.errors, strict=True) if tried <= size]
        return below[-1] if below else self.errors[0]

    def size_for(self, error: float) -> int | None:
        """Return the smallest size that was tried and has at most this error, or None."""
        sizes = [tried for tried, e in zip(self.sizes, self.errors, strict=True) if e <= error]
        return min(sizes, default=None)

    def why_not(self, error: float) -> str:
        """Explain why no size has this error."""
        best = int(np.argmin(self.errors))
        return (
            f"the least that was measured is {100 * self.errors[best]:.3g}%, with "
            f"{self.sizes[best]:,}"
        )


def fitted_size(fitted: Map) -> int | None:
    """Return the size of a fitted map, None where it has no single size parameter.

    The value of the parameter, or that chosen by fit for "auto".
    """
    size_parameter = str(fitted.size_parameter)
    size = fitted.get_params().get(size_parameter)
    if isinstance(size, str):
        last = fitted.maps_[-1] if isinstance(fitted, Composed) else fitted
        size = getattr(last, f"{size_parameter.rpartition('__')[2]}_")
    return int(size) if isinstance(size, int | np.integer) else None


def measure_convergence(
    fitted: Map, rows: Any, measured: PairErrors, seed: int, wanted: float | None
) -> Law | Table | None:
    """Measure how the error of a fitted map falls with its size; None where it has no size.

    Pilots are fitted to half of the rows and measured on pairs of the other half, which no
    landmarks are from. Random maps have pilots at a quarter and half of their size, four draws of
    each, and a law of known slope; where that is a bound, the slope is measured. Deterministic maps
    are tried at sizes that double until the wanted error or the largest size is reached, then by
    bisection.
    """
    rate, size_parameter, size = fitted.rate, str(fitted.size_parameter), fitted_size(fitted)
    if rate is None or size is None:
        return None
    seen, unseen = (rows[::2], rows[1::2]) if rows.shape[0] >= 4 else (rows, rows)
    pairs = draw_pairs(unseen.shape[0], len(measured.exact), seed)

    @cache
    def pilot(n: int, draw: int) -> PairErrors:
        return measure(with_seed(fitted.with_size(n), seed + draw).fit(seen), unseen, pairs)

    end = rows.shape[1] if isinstance(rate, Rate) and rate.ends else None
    small = max(1, size // 4)
    sizes = tuple(n for n in (small, max(small + 1, size // 2)) if end is None or n < end)
    if not isinstance(rate, Rate) or not sizes:
        return _tabulate(size_parameter, size, measured, pilot, wanted)
    law = _fit_law(rate, size_parameter, sizes, (size, measured), pilot, end)
    low = None if wanted is None else law.below(wanted)
    if low is None:
        return law
    return _fit_law(
        rate, size_parameter, (low, 2 * low), (size, measured), pilot, end, pilots_only=True
    )


def _fit_law(
    rate: Rate,
    size_parameter: str,
    sizes: tuple[int, ...],
    own: tuple[int, PairErrors],
    pilot: Callable[[int, int], PairErrors],
    end: int | None,
    *,
    pilots_only: bool = False,
) -> Law:
    """Fit the law to pilots of one or two sizes, four draws each, and to the map itself."""
    size, measured = own
    pilots_only = pilots_only or size == end  # where all that is left of the error is rounding
    pilots = [[pilot(n, draw) for draw in range(_DRAWS)] for n in sizes]
    bias = measured.part(measured.bias)
    if bias is None:  # errors of independent draws have nothing in common but the bias
        every = [errors for draws in pilots for errors in draws]
        common = [np.sum(a.errors * b.errors) for a, b in combinations(every, 2)]
        bias = math.sqrt(max(float(np.mean(common)) / float(np.sum(every[0].exact ** 2)), 0.0))

    def squared(errors: PairErrors) -> float:
        sampling = errors.part(errors.sampling)
        if sampling is not None:
            return max(sampling**2, 1e-300)
        return max(float(errors.part(errors.errors) or 0.0) ** 2 - bias**2, 1e-300)

    squares = [float(np.mean([squared(errors) for errors in draws])) for draws in pilots]
    if not pilots_only:
        sizes, squares = (*sizes, size), [*squares, squared(measured)]
    x = np.log([n if end is None else n / max(1 - n / end, 1e-9) for n in sizes])
    y = np.log(squares) / 2
    slope = rate.slope
    if not rate.exact:
        # half way between the measured slope and that of independent blocks of the design
        slope = float(np.clip((np.polyfit(x, y, 1)[0] - 0.5) / 2, _STEEPEST, rate.slope))
    constant = math.exp(float(np.mean(y - slope * x)))
    floor = math.hypot(bias, measured.part(measured.rounding) or 0.0)
    errors = tuple(math.sqrt(square) for square in squares)
    return Law(size_parameter, slope, constant, floor, end, sizes, errors)


def _tabulate(
    size_parameter: str,
    size: int,
    measured: PairErrors,
    pilot: Callable[[int, int], PairErrors],
    wanted: float | None,
) -> Table:
    """Measure the errors of a deterministic map; search the smallest size for the wanted one."""
    table = {size: float(measured.part(measured.errors) or 0.0)}

    def error(n: int) -> float:
        """Return the error at a size; infinity where the map refuses it: too many landmarks."""
        if n not in table:
            try:
                errors = pilot(n, 0)
            except ValueError:
                return math.inf
            table[n] = float(errors.part(errors.errors) or 0.0)
        return table[n]

    if wanted is None:
        for n in {max(1, size // 4), max(1, size // 2)} - {size}:
            pilot(n, 0)  # raises where the map refuses the size
            error(n)
    else:
        low, high = 0, 1
        while error(high) > wanted and high < _LARGEST:
            low, high = high, 2 * high
            if error(high) == math.inf:
                break
        while error(high) <= wanted and high - low > 1:
            middle = (low + high) // 2
            if error(middle) <= wanted:
                high = middle
            else:
                low = middle
    sizes = tuple(sorted(table))
    return Table(size_parameter, sizes, tuple(table[n] for n in sizes))


def with_seed(unfitted: Map, seed: int) -> Map:
    """Set random_state; parts of a composition get this seed and those after it."""
    names = [name for name in unfitted.get_params() if name.split("__")[-1] == "random_state"]
    return unfitted.set_params(**{name: seed + i for i, name in enumerate(names)})
