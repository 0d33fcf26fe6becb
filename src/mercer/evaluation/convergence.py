"""Convergence of the error of a map with its size, measured on small pilot maps."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from mercer._typing import Array
from mercer.evaluation.kernel_error import PairErrors, Pairs, draw_pairs, kernel_values, measure
from mercer.kernels import Kernel
from mercer.maps.base import Map, Rate, names_of_statistics
from mercer.maps.compose import Composed

_DRAWS = 4  # of each pilot
_VERIFYING_DRAWS = 8, 256  # of each pilot of a size that may be recommended, at least and at most
_VERIFYING_WORK = 2**29  # multiply-adds of a pilot, at most: a tenth of a second or less
_ROUNDS = 8  # of such sizes
_NEAR = 1.08  # ratio of sizes that are not told apart
_SLOPES = -2.0, -0.25  # limits of a slope between two sizes
_PILOT_ROWS = 400  # that pairs of random pilots are drawn from, at most
_PILOT_PAIRS = 5000  # at most
_FEATURE_WORK = 32  # multiply-adds that a feature counts for at least: 2^24 of them in memory
_FIRST_SIZES = 8  # of a deterministic map, which are tried one after the other
_LARGEST = 2**16  # the largest size of a deterministic map that is tried
_STEEPEST = -0.75  # limit of a slope that was measured on three sizes
_SMALLEST = 16  # size of a pilot: fewer features, odd ones of pairs among them, follow no law
_MOST = 2**31 - 1  # of a size


@dataclass(frozen=True)
class Law:
    """error(size) = sqrt(floor^2 + (constant size^slope)^2).

    size is m/(1 - m/end) where the parameter m ends at the number of columns. A law that was
    verified near a wanted error is a power between each two of the sizes that were measured.

    Attributes
    ----------
    size_parameter : str
    slope, constant : float
    floor : float
        Bias and rounding, which remain with any number of features.
    end : int or None
    sizes, errors : tuple
        Pilots, and the fitted map itself; root mean squares over draws.
    margin : float
        Share that is added to the error of a size where a size for an error is looked up: that of
        its standard error at least.
    near : tuple of (slope, constant) or None
        Of the law near a wanted error, where it was verified: a size for an error is looked up in
        it.
    """

    size_parameter: str
    slope: float
    constant: float
    floor: float
    end: int | None
    sizes: tuple[int, ...]
    errors: tuple[float, ...]
    margin: float = 0.0
    near: tuple[float, float] | None = None

    def error(self, size: int) -> float:
        """Return the relative error at a size."""
        if self.end is not None and size >= self.end:
            return self.floor
        at = self.position(size)
        if self.near is None:
            return math.hypot(self.floor, self.constant * at**self.slope)
        sizes = [n for n in self.sizes if n != self.end]
        position = np.log([self.position(n) for n in sizes])
        x = float(np.clip(math.log(at), position[0], position[-1]))
        sampling = math.exp(np.interp(x, position, np.log(self.errors[: len(sizes)])))
        return math.hypot(self.floor, sampling * (at / math.exp(x)) ** self.slope)

    def size_for(self, error: float) -> int | None:
        """Return the smallest size of at most this error, from the smallest pilot on, or None.

        It is even: features come in pairs.
        """
        target = self.sampling_error(error)
        at = math.inf if target is None else self.invert(target)
        if target is None or (self.end is None and at > _MOST):
            return None
        return max(self.size_at(at), min(self.sizes, default=1))

    def sampling_error(self, error: float) -> float | None:
        """Return what the floor leaves of an error; None where that is nothing."""
        if error <= self.floor:
            return None
        return (error * math.sqrt(1 - (self.floor / error) ** 2)) or None

    def position(self, size: int) -> float:
        """Return the size that errors are a power of: m, or m/(1 - m/end)."""
        return float(size) if self.end is None else size / (1 - size / self.end)

    def invert(self, target: float) -> float:
        """Return the position of a sampling error."""
        slope, constant = self.near or (self.slope, self.constant)
        power = math.log(target / (1 + self.margin) / constant) / slope
        return math.exp(min(power, 700.0))

    def size_at(self, position: float) -> int:
        """Return the first size at or after a position, an even one unless sizes end."""
        position *= 1 - 1e-9  # of rounding
        if self.end is None:
            return 2 * math.ceil(min(position, 2.0 * _MOST) / 2)
        return min(math.ceil(position / (1 + position / self.end)), self.end)

    def why_not(self, error: float) -> str:
        """Explain why no size has this error."""
        if error > self.floor:
            return f"it would take more than {_MOST:,}"
        return f"bias and rounding alone are {100 * self.floor:.3g}%"


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

    Random maps have pilots at a quarter and half of their size and a law of known slope; where
    that is a bound, the slope is measured. For a wanted error, the size that the law has for it
    and those near it are measured as well. Deterministic maps are tried at the first sizes one
    after the other, then at sizes that double until the wanted error or the largest size is
    reached, then by bisection.
    """
    rate, size = fitted.rate, fitted_size(fitted)
    if rate is None or size is None:
        return None
    pilots = _Pilots(fitted, rows, len(measured.exact), seed)
    end = rows.shape[1] if isinstance(rate, Rate) and rate.ends else None
    small = max(1, size // 4)
    sizes = tuple(n for n in (small, max(small + 1, size // 2)) if end is None or n < end)
    if not isinstance(rate, Rate) or not sizes:
        return _tabulate(size, measured, pilots, wanted)
    law, squared = _fit_law(rate, sizes, (size, measured), pilots, end)
    return law if wanted is None else _verify(law, pilots, squared, wanted)


class _Pilots:
    """Errors of maps of other sizes and seeds, over the same pairs of rows.

    They are fitted to half of the rows and measured on pairs of the other half, which no landmarks
    are from. Maps without seeds and statistics are measured on all rows, as the map itself is.

    Parameters
    ----------
    fitted : Map
    rows : array or CSR matrix
    pairs : int
    seed : int
    """

    def __init__(self, fitted: Map, rows: Any, pairs: int, seed: int) -> None:
        self.fitted, self.seed = fitted, seed
        self.size_parameter = str(fitted.size_parameter)
        self.random = bool(_seed_parameters(fitted))
        self.seen = self.unseen = rows
        if rows.shape[0] >= 4 and (self.random or names_of_statistics(fitted)):
            self.seen, self.unseen = rows[::2], rows[1::2]
        if self.random:
            self.unseen = self.unseen[:: max(1, -(-self.unseen.shape[0] // _PILOT_ROWS))]
            pairs = min(pairs, _PILOT_PAIRS)
        self.pairs = draw_pairs(self.unseen.shape[0], pairs, seed)
        self._exact: list[tuple[Kernel, Array]] = []
        self._errors: dict[tuple[int, int], PairErrors] = {}

    @property
    def affordable(self) -> int:
        """The largest size that is measured for a wanted error."""
        d, size = self.fitted.n_features_in_, max(fitted_size(self.fitted) or 1, 1)
        transform = self.fitted.tile_transform_
        each = max(transform.cost(d).flops, _FEATURE_WORK * transform.columns(d)) / size
        return int(_VERIFYING_WORK / (each * self.unseen.shape[0]))

    def root_mean_square(
        self, size: int, squared: Callable[[PairErrors], float], wanted: float | None
    ) -> tuple[float, float]:
        """Return the root mean square error at a size over draws, and its relative standard error.

        There are more draws of smaller maps: a few landmarks seldom miss a cluster of rows. They
        end where the mean is above the wanted error whatever the others are.
        """
        draws = 1
        if self.random:
            least, most = _VERIFYING_DRAWS
            draws = _DRAWS if wanted is None else min(max(self.affordable // size, least), most)
        limit = math.inf if wanted is None else draws * wanted**2
        squares: list[float] = []
        while len(squares) < draws and sum(squares) <= limit:
            squares.append(squared(self(size, len(squares))))
        mean = float(np.mean(squares))
        if len(squares) < 2 or not mean:
            return math.sqrt(mean), 0.0
        spread = float(np.std(squares, ddof=1)) / mean / math.sqrt(len(squares))
        return math.sqrt(mean), spread / 2

    def __call__(self, size: int, draw: int) -> PairErrors:
        """Return the errors of a map of this size, with a seed for each draw."""
        if (size, draw) not in self._errors:
            pilot = with_seed(self.fitted.with_size(size), self.seed + draw).fit(self.seen)
            self._errors[size, draw] = measure(
                pilot, self.unseen, self.pairs, values=self._kernel_values
            )
        return self._errors[size, draw]

    def _kernel_values(self, kernel: Kernel, rows: Any, pairs: Pairs) -> Array:
        """Return k(x, z) for each pair: the last ones for the same kernel."""
        for known, values in self._exact:
            if known == kernel:
                return values
        values = kernel_values(kernel, rows, pairs)
        self._exact = [(kernel, values), *self._exact[:1]]  # of the map, and its limit
        return values


def _fit_law(
    rate: Rate,
    sizes: tuple[int, ...],
    own: tuple[int, PairErrors],
    pilot: _Pilots,
    end: int | None,
) -> tuple[Law, Callable[[PairErrors], float]]:
    """Fit the law to pilots of one or two sizes, four draws each, and to the map itself.

    Returns it with the function that squares errors which fall with the size.
    """
    size, measured = own
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
    if size != end:  # where all that is left of the error is rounding
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
    return Law(pilot.size_parameter, slope, constant, floor, end, sizes, errors), squared


def _verify(
    law: Law, pilots: _Pilots, squared: Callable[[PairErrors], float], wanted: float
) -> Law:
    """Measure sizes near that of a law until one has the wanted error and none a little below.

    A size has it where the root mean square over draws and its standard error are within it.
    Returns the law with that near the wanted error: through the smallest such size, with the slope
    to the next smaller one that was measured; through the largest that is affordable where none of
    them has the error.
    """
    target = law.sampling_error(wanted)
    if target is None:
        return law
    found: dict[int, tuple[float, float]] = {}  # sampling error and its standard error

    def upper(n: int) -> float:
        return found[n][0] * (1 + found[n][1])

    largest = max(pilots.affordable, _SMALLEST) // 2 * 2
    if law.end is not None:
        largest = min(largest, law.end - 1)
    least = min(_SMALLEST, *law.sizes)
    low = high = None
    for _ in range(_ROUNDS):
        if low is not None and high is not None and high <= max(_NEAR**2 * low, low + 2):
            break
        n = _next_size(law, upper, target, low, high)
        n = max(least, min(n, largest))
        if n in found:
            break
        found[n] = pilots.root_mean_square(n, squared, target)
        high = min((size for size in found if upper(size) <= target), default=None)
        low = max((size for size in found if size < (high or math.inf)), default=None)
    known = dict(zip(law.sizes, law.errors, strict=True)) | {n: e for n, (e, _) in found.items()}
    sizes = tuple(sorted(known))
    law = replace(law, sizes=sizes, errors=tuple(known[n] for n in sizes))
    nearest = low if high is None else high
    if nearest is None:
        return law
    slope, sampling, margin = law.slope, *found[nearest]
    if high is not None:
        margin = target / sampling - 1
        if low is not None:
            slope = _slope(law, (low, upper(low)), (high, upper(high)))
    near = slope, sampling / law.position(nearest) ** slope
    return replace(law, margin=margin, near=near)


def _next_size(
    law: Law, upper: Callable[[int], float], target: float, low: int | None, high: int | None
) -> int:
    """Return the size to measure next, for the largest one that is too small and the smallest not.

    That of the law at first, then along its slope, then along that between the two.
    """
    if low is None and high is None:
        return law.size_at(law.invert(target))
    slope = law.slope
    if low is not None and high is not None:
        slope = _slope(law, (low, upper(low)), (high, upper(high)))
    nearest = high if low is None else low
    assert nearest is not None
    n = law.size_at(law.position(nearest) * (target / upper(nearest)) ** (1 / slope))
    if low is not None:
        n = max(n, low + 1, round(_NEAR * low))
    if high is not None:
        n = min(n, high - 1, round(high / _NEAR))
    return n if law.end is not None else n + n % 2


def _slope(law: Law, low: tuple[int, float], high: tuple[int, float]) -> float:
    """Return the slope of errors between two sizes, within limits."""
    rise = math.log(high[1] / low[1]) / math.log(law.position(high[0]) / law.position(low[0]))
    return min(max(rise, _SLOPES[0]), _SLOPES[1])


def _tabulate(size: int, measured: PairErrors, pilots: _Pilots, wanted: float | None) -> Table:
    """Measure the errors of a deterministic map; search the smallest size for the wanted one.

    Landmarks are random: their errors are root mean squares of several draws, plus the standard
    error.
    """
    table: dict[int, float] = {}
    if not pilots.random:
        table[size] = float(measured.part(measured.errors) or 0.0)

    def squared(errors: PairErrors) -> float:
        return float(errors.part(errors.errors) or 0.0) ** 2

    def error(n: int) -> float:
        """Return the error at a size; infinity where the map refuses it: too many landmarks."""
        if n not in table:
            try:
                mean, standard_error = pilots.root_mean_square(n, squared, wanted)
            except ValueError:
                return math.inf
            table[n] = mean * (1 + standard_error)
        return table[n]

    if wanted is None:
        for n in {max(1, size // 4), max(1, size // 2), size}:
            pilots(n, 0)  # raises where the map refuses the size
            error(n)
    else:
        # errors of few terms may rise from one size to the next
        high = next((n for n in range(1, _FIRST_SIZES) if error(n) <= wanted), _FIRST_SIZES)
        low = high - 1
        while error(high) > wanted and high < _LARGEST:
            low, high = high, 2 * high
            if error(high) in (math.inf, error(low)):  # no more landmarks than rows
                break
        while error(high) <= wanted and high - low > 1:
            middle = (low + high) // 2
            if error(middle) <= wanted:
                high = middle
            else:
                low = middle
    sizes = tuple(sorted(table))
    return Table(pilots.size_parameter, sizes, tuple(table[n] for n in sizes))


def with_seed(unfitted: Map, seed: int) -> Map:
    """Set random_state; parts of a composition get this seed and those after it."""
    names = _seed_parameters(unfitted)
    return unfitted.set_params(**{name: seed + i for i, name in enumerate(names)})


def _seed_parameters(feature_map: Map) -> list[str]:
    return [name for name in feature_map.get_params() if name.split("__")[-1] == "random_state"]
