"""Convergence of the error of a map with its size, measured on small pilot maps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from mercer._typing import Array
from mercer.evaluation.kernel_error import PairErrors, Pairs, draw_pairs, kernel_values, measure
from mercer.kernels import Kernel
from mercer.maps.base import Map, Rate, names_of_statistics
from mercer.maps.compose import Composed

_DRAWS = 4  # of each pilot
_VERIFYING_DRAWS = 8  # of each pilot of a size that is recommended
_LANDMARK_DRAWS = 32  # of up to _FEW_LANDMARKS landmarks, which may miss a cluster of rows
_FEW_LANDMARKS = 64
_ROUNDS = 5  # of pilots at the size that the law has for the wanted error
_NEAR = 1.08  # ratio of two sizes, up to which the second one needs no pilots
_VERIFYING_WORK = 2**29  # multiply-adds of a pilot, at most: a tenth of a second or less
_PILOT_ROWS = 1024  # that pairs of pilots are drawn from
_COMPARED = 12  # draws whose errors are compared with each other
_FIRST_SIZES = 8  # of a deterministic map, which are tried one after the other
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
        Pilots, and the fitted map itself; root mean squares over draws.
    margin : float
        Relative standard error of the error at a size. Sizes for an error allow for it.
    """

    size_parameter: str
    slope: float
    constant: float
    floor: float
    end: int | None
    sizes: tuple[int, ...]
    errors: tuple[float, ...]
    margin: float = 0.0

    def error(self, size: int) -> float:
        """Return the relative error at a size."""
        if self.end is not None and size >= self.end:
            return self.floor
        at = size if self.end is None else size / (1 - size / self.end)
        return math.hypot(self.floor, self.constant * at**self.slope)

    def size_for(self, error: float) -> int | None:
        """Return the smallest size of at most this error, from the smallest pilot on, or None.

        It is even: features come in pairs.
        """
        return self._at_least(error, min(self.sizes, default=1))

    def size_near(self, error: float) -> int | None:
        """Return the size of a pilot for this error, which may be below all others, or None."""
        return self._at_least(error, min(_SMALLEST, *self.sizes))

    def _at_least(self, error: float, least: int) -> int | None:
        at = self._size(error)
        if at is None or (self.end is None and at > _MOST):
            return None
        if self.end is not None:
            at = at / (1 + at / self.end)
            return min(max(least, math.ceil(at)), self.end)
        return max(least, 2 * math.ceil(at / 2))

    def why_not(self, error: float) -> str:
        """Explain why no size has this error."""
        if error > self.floor:
            return f"it would take more than {_MOST:,}"
        return f"bias and rounding alone are {100 * self.floor:.3g}%"

    def _size(self, error: float) -> float | None:
        """Invert the law; None where the error is not above the floor."""
        if error <= self.floor:
            return None
        left = error * math.sqrt(1 - (self.floor / error) ** 2) / (1 + self.margin)
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

    Random maps have pilots at a quarter and half of their size and a law of known slope; where
    that is a bound, the slope is measured. For a wanted error, further pilots are measured at the
    size that the law has for it, and the law is fitted again, while that changes the size.
    Deterministic maps are tried at the first sizes one after the other, then at sizes that double
    until the wanted error or the largest size is reached, then by bisection.
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
    draws = {n: [pilots(n, draw) for draw in range(_DRAWS)] for n in sizes}
    if size != end:  # where all that is left of the error is rounding
        draws[size] = [measured]
    law = _fit_law(rate, pilots.size_parameter, draws, measured, end, wanted)
    for _ in range(_ROUNDS if wanted is not None else 0):
        n = law.size_near(float(wanted or 0.0))
        if n is None:
            break
        n = min(n, max(pilots.affordable, min(draws)))
        if _is_bracketed(n, draws):
            break
        draws[n] = [pilots(n, draw) for draw in range(_VERIFYING_DRAWS)]
        law = _fit_law(rate, pilots.size_parameter, draws, measured, end, wanted)
    return law


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
        if self.random and self.unseen.shape[0] > _PILOT_ROWS:
            self.unseen = self.unseen[:: -(-self.unseen.shape[0] // _PILOT_ROWS)]
        self.pairs = draw_pairs(self.unseen.shape[0], pairs, seed)
        self._exact: list[tuple[Kernel, Array]] = []
        self._errors: dict[tuple[int, int], PairErrors] = {}

    @property
    def affordable(self) -> int:
        """The largest size that is measured to verify a law."""
        d, size = self.fitted.n_features_in_, max(fitted_size(self.fitted) or 1, 1)
        transform = self.fitted.tile_transform_
        each = max(transform.cost(d).flops, transform.columns(d), d) / size
        return int(_VERIFYING_WORK / (each * self.unseen.shape[0]))

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


def _is_bracketed(size: int, draws: Mapping[int, list[PairErrors]]) -> bool:
    """Return whether a size is near one with all draws, or within measured ones near each other."""
    verified = sorted(n for n, errors in draws.items() if len(errors) == _VERIFYING_DRAWS)
    if any(max(n, size) <= _NEAR * min(n, size) for n in verified):
        return True
    return any(a < size < b <= _NEAR**2 * a for a, b in pairwise(verified))


def _fit_law(
    rate: Rate,
    size_parameter: str,
    draws: Mapping[int, list[PairErrors]],
    measured: PairErrors,
    end: int | None,
    wanted: float | None,
) -> Law:
    """Fit the law to errors of several draws for each size.

    A slope that is exact goes through the mean of all. Another is that between the nearest two
    sizes above and below the wanted error; where all are on one side, half way between the slope
    through all of them and that of independent blocks of the design, through the nearest.
    """
    every = [errors for several in draws.values() for errors in several]
    bias = measured.part(measured.bias)
    if bias is None:  # errors of independent draws have nothing in common but the bias
        pilots = [errors for errors in every if errors is not measured]
        common = [
            float(np.sum(a.errors * b.errors)) for a, b in combinations(pilots[:_COMPARED], 2)
        ]
        bias = math.sqrt(max(float(np.mean(common)) / float(np.sum(pilots[0].exact ** 2)), 0.0))

    def squared(errors: PairErrors) -> float:
        sampling = errors.part(errors.sampling)
        if sampling is not None:
            return max(sampling**2, 1e-300)
        return max(float(errors.part(errors.errors) or 0.0) ** 2 - bias**2, 1e-300)

    sizes = tuple(sorted(draws))
    squares = {n: [squared(errors) for errors in draws[n]] for n in sizes}
    counts = np.array([len(draws[n]) for n in sizes])
    x = np.log([n if end is None else n / max(1 - n / end, 1e-9) for n in sizes])
    y = np.log([float(np.mean(squares[n])) for n in sizes]) / 2
    floor = math.hypot(bias, measured.part(measured.rounding) or 0.0)
    slope, used = rate.slope, np.ones(len(sizes), bool)
    if not rate.exact:
        target = -math.inf  # of y
        if wanted is not None and wanted > floor:
            target = math.log(wanted * math.sqrt(1 - (floor / wanted) ** 2))
        above = np.flatnonzero(y > target)  # sizes that are too small
        low = int(above[-1]) if above.size else -1
        if 0 <= low < len(sizes) - 1:
            used = np.isin(np.arange(len(sizes)), (low, low + 1))
            slope = float(np.polyfit(x[used], y[used], 1)[0])
        else:
            # half way between the measured slope and that of independent blocks of the design
            measured_slope = np.polyfit(x, y, 1, w=np.sqrt(counts))[0] if len(x) > 1 else -0.5
            slope = float(np.clip((measured_slope - 0.5) / 2, _STEEPEST, rate.slope))
            if (counts == _VERIFYING_DRAWS).any():
                nearest = len(sizes) - 1 if low >= 0 else 0
                used = np.arange(len(sizes)) == nearest
    constant = math.exp(float(np.average(y[used] - slope * x[used], weights=counts[used])))
    margin = (
        0.0
        if wanted is None
        else _standard_error([squares[sizes[i]] for i in np.flatnonzero(used)])
    )
    errors = tuple(float(np.sqrt(np.mean(squares[n]))) for n in sizes)
    return Law(size_parameter, slope, constant, floor, end, sizes, errors, margin)


def _standard_error(squares: Sequence[Sequence[float]]) -> float:
    """Return the relative standard error of a root mean square over draws of several sizes."""
    ratios = np.concatenate([np.divide(each, np.mean(each)) for each in squares])
    free = len(ratios) - len(squares)
    if free < 1:
        return 0.0
    return float(np.sqrt(np.sum((ratios - 1) ** 2) / free / len(ratios)) / 2)


def _tabulate(size: int, measured: PairErrors, pilots: _Pilots, wanted: float | None) -> Table:
    """Measure the errors of a deterministic map; search the smallest size for the wanted one.

    Landmarks are random: their errors are root mean squares of several draws, plus the standard
    error.
    """
    table: dict[int, float] = {}
    if not pilots.random:
        table[size] = float(measured.part(measured.errors) or 0.0)

    def count_draws(n: int) -> int:
        if not pilots.random:
            return 1
        return _LANDMARK_DRAWS if n <= _FEW_LANDMARKS else _VERIFYING_DRAWS

    def error(n: int) -> float:
        """Return the error at a size; infinity where the map refuses it: too many landmarks."""
        if n not in table:
            try:
                draws = [pilots(n, i) for i in range(count_draws(n))]
            except ValueError:
                return math.inf
            squares = [float(errors.part(errors.errors) or 0.0) ** 2 for errors in draws]
            margin = _standard_error([squares]) if any(squares) else 0.0
            table[n] = math.sqrt(float(np.mean(squares))) * (1 + margin)
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
