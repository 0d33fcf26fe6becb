"""Measurements for the figures of a report: Gram errors against size, and Gram matrices."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.base import clone

from mercer._typing import Array, is_csr
from mercer.evaluation.convergence import Law, measure_convergence, with_seed
from mercer.evaluation.kernel_error import draw_pairs, measure
from mercer.kernels import Kernel
from mercer.kernels.additive import Additive
from mercer.kernels.gram import gram
from mercer.maps.base import Map, Rate
from mercer.maps.compose import Composed
from mercer.parallel.tile_size import figure_pairs, fits_figure
from mercer.report.theory import ExpectedError, expected_error

ROWS = 2000  # most rows of a sample: one half to fit, one half to measure
HEAT_MAP_ROWS = 60
_CLASSES = 10  # most classes of a heat map
_SLOW_KERNEL_PAIRS = 400
_DRAWS = 4
# sizes of a curve, relative to the size in the leaderboard
_RANDOM_SIZES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1)
_DETERMINISTIC_SIZES = (1 / 4, 1 / 2, 1, 2, 4)


@dataclass(frozen=True)
class SampleSplit:
    """Rows to fit maps on, rows to measure them on, and the targets of the latter and former."""

    train: Any
    test: Any
    y: Array
    train_y: Array | None = None

    @classmethod
    def of(cls, X: Any, y: Any, *, classes: bool = False) -> SampleSplit:
        """Return at most ROWS evenly spaced rows of X, assigned to the two parts in turn.

        With classes, the rows of each class are assigned in turn: rows that alternate between two
        classes would have one class in each part.
        """
        places, y = evenly_spaced(X.shape[0], ROWS), np.asarray(y)
        order = places
        if classes:
            labels = y[places].astype(str) if y.dtype == object else y[places]
            order = places[np.argsort(labels, kind="stable")]
        train, test = np.sort(order[::2]), np.sort(order[1::2])
        return cls(X[train], X[test], y[test], y[train])

    def transform(self, steps: Sequence[Any]) -> SampleSplit:
        """Return both parts transformed by steps that are fitted on the training rows."""
        train, test = self.train, self.test
        for step in steps:
            fitted = clone(step).fit(train)
            train, test = fitted.transform(train), fitted.transform(test)
        return SampleSplit(train, test, self.y, self.train_y)


@dataclass(frozen=True)
class ErrorCurve:
    """Relative Gram error of a map at several sizes.

    Attributes
    ----------
    name, size_parameter : str
    size : int
        Size in the leaderboard.
    sizes : tuple of int
    draws : tuple of tuples of float
        Error of each draw at each size; one draw for a deterministic map.
    law : Law or None
        Known rate of the map, with constants estimated from smaller maps.
    theory : ExpectedError or None
    """

    name: str
    size_parameter: str
    size: int
    sizes: tuple[int, ...]
    draws: tuple[tuple[float, ...], ...]
    law: Law | None
    theory: ExpectedError | None

    @property
    def errors(self) -> list[float]:
        """Root mean square over the draws, for each size."""
        return [float(np.sqrt(np.mean(np.square(draws)))) for draws in self.draws]


@dataclass(frozen=True)
class HeatMap:
    """Exact and approximate kernel values of the same pairs.

    Attributes
    ----------
    name, kernel : str
    exact, approximate : array of shape (n, n)
    groups : tuple of (label, count)
        Classes in the order of the rows; empty if rows are sorted by a number or are a grid.
    grid : array or None
        Values along both axes, for the kernel of two numbers.
    reduced : str
        Size of the map if the sample has too few rows for the size in the leaderboard.
    """

    name: str
    kernel: str
    exact: Array
    approximate: Array
    groups: tuple[tuple[str, int], ...] = ()
    grid: Array | None = None
    reduced: str = ""

    @property
    def error(self) -> float:
        """sqrt(sum (approximate - exact)^2/sum exact^2), 0 if all exact values are 0."""
        total = float(np.sum(self.exact**2))
        difference = float(np.sum((self.approximate - self.exact) ** 2))
        return float(np.sqrt(difference / total)) if total else 0.0


def split_steps(model: Any) -> tuple[list[Any], Any]:
    """Return the steps before the last one of a pipeline, and the last one, or the model itself."""
    if not hasattr(model, "steps"):
        return [], model
    *steps, last = [step for _, step in model.steps]
    return steps, last


def split_model(model: Any) -> tuple[list[Any], Map] | None:
    """Return the preceding steps and the feature map of an unfitted model.

    The exact maps at the beginning of a composition, such as scaled columns, count as steps.
    Returns None if the model has no map of mercer.
    """
    steps, model = split_steps(model)
    feature_map = getattr(model, "feature_map", model)
    if isinstance(feature_map, Composed) and all(m.rate is None for m in feature_map.maps[:-1]):
        parts = feature_map.maps
        steps += [part.before(following) for part, following in pairwise(parts)]
        feature_map = parts[-1]
    return (steps, feature_map) if isinstance(feature_map, Map) else None


def measure_curve(name: str, model: Any, sample: SampleSplit, seed: int) -> ErrorCurve | None:
    """Return the Gram error of a model's map against its size.

    Returns None if the error does not depend on a size, or fewer than two sizes can be fitted.
    """
    feature_map = _split(model)[1].for_rows(sample.train.shape[0])
    parameter = str(feature_map.size_parameter)
    rate, size = feature_map.rate, feature_map.get_params().get(parameter)
    if rate is None or not isinstance(size, int | np.integer):
        return None
    sample = _map_input(model, sample)
    random = isinstance(rate, Rate)
    shares = _RANDOM_SIZES if random else _DETERMINISTIC_SIZES
    draws: dict[int, tuple[float, ...]] = {}
    with ignored_warnings():
        for m in sorted({max(1, round(int(size) * share)) for share in shares}):
            if not fits_figure(m * sample.train.shape[1]):
                continue
            seeds = range(seed, seed + (_DRAWS if random else 1))
            try:
                errors = tuple(_measure_draw(feature_map, m, sample, draw) for draw in seeds)
            except ValueError:  # such as more components than the rows have directions
                continue
            if np.isfinite(errors).all():
                draws[m] = errors
        if len(draws) < 2:
            return None
        fitted = with_seed(feature_map.with_size(max(draws)), seed).fit(sample.train)
        pairs = _draw_pairs(fitted.kernel_, sample, seed)
        measured = measure(fitted, sample.test, pairs)
        law = (
            measure_convergence(fitted, _interleave(sample), measured, seed, None)
            if random
            else None
        )
    return ErrorCurve(
        name,
        parameter,
        int(size),
        tuple(draws),
        tuple(draws.values()),
        law if isinstance(law, Law) else None,
        expected_error(fitted, sample.test, pairs),
    )


def _measure_draw(feature_map: Map, size: int, sample: SampleSplit, seed: int) -> float:
    """Return the relative error of one draw; NaN if the kernel has no formula."""
    fitted = with_seed(feature_map.with_size(size), seed).fit(sample.train)
    if not hasattr(fitted, "kernel_"):
        return float("nan")
    measured = measure(fitted, sample.test, _draw_pairs(fitted.kernel_, sample, seed))
    return float(measured.part(measured.errors) or 0.0)


def gram_heat_map(
    name: str, model: Any, sample: SampleSplit, numeric: bool, seed: int
) -> HeatMap | None:
    """Return the exact and approximate Gram matrix of some test rows, sorted by class or target.

    Returns None if the kernel of a composition has no formula, or a value is not finite.
    """
    order, groups = _sort_rows(sample.y, numeric)
    fitted, sample = _fit(model, sample, seed)
    if not hasattr(fitted, "kernel_"):
        return None
    rows = sample.test[order]
    exact, approximate = gram(fitted.kernel_, rows), _inner_products(fitted, rows)
    if not (np.isfinite(exact).all() and np.isfinite(approximate).all()):
        return None
    reduced = _describe_reduction(model, fitted)
    return HeatMap(name, repr(fitted.kernel_), exact, approximate, groups, reduced=reduced)


def scalar_heat_map(name: str, model: Any, sample: SampleSplit, seed: int) -> HeatMap | None:
    """Return the kernel of two numbers on a grid over the column with the largest maximum.

    Returns None if the kernel is not a sum over columns.
    """
    fitted, sample = _fit(model, sample, seed)
    if not isinstance(getattr(fitted, "kernel_", None), Additive):
        return None
    maxima = np.ravel(_dense(sample.train.max(axis=0)))
    column = int(np.argmax(maxima))
    if not maxima[column] > 0:
        return None
    grid = np.linspace(0, float(maxima[column]), HEAT_MAP_ROWS)
    rows = np.zeros((HEAT_MAP_ROWS, sample.train.shape[1]))
    rows[:, column] = grid
    return HeatMap(
        name,
        repr(fitted.kernel_),
        fitted.kernel_(rows),
        _inner_products(fitted, rows),
        grid=grid,
        reduced=_describe_reduction(model, fitted),
    )


def _split(model: Any) -> tuple[list[Any], Map]:
    parts = split_model(model)
    assert parts is not None
    return parts


def _map_input(model: Any, sample: SampleSplit) -> SampleSplit:
    """Return the sample after the steps before the model's map, validated by the map."""
    steps, feature_map = _split(model)
    sample, validator = sample.transform(steps), clone(feature_map)
    train, test = (
        validator._validate_input(rows, reset=True) for rows in (sample.train, sample.test)
    )
    return SampleSplit(train, test, sample.y, sample.train_y)


def _interleave(sample: SampleSplit) -> Any:
    """Return the rows in their original order, which law_of splits in the same way."""
    count = min(sample.train.shape[0], sample.test.shape[0])
    order = np.arange(2 * count).reshape(2, count).T.ravel()
    parts = (sample.train[:count], sample.test[:count])
    if is_csr(parts[0]):
        from scipy.sparse import vstack

        return vstack(parts, format="csr")[order]
    return np.concatenate(parts)[order]


def _draw_pairs(kernel: Kernel, sample: SampleSplit, seed: int) -> tuple[Array, Array]:
    rows, columns = sample.test.shape
    count = figure_pairs(columns)
    return draw_pairs(rows, min(count, _SLOW_KERNEL_PAIRS) if kernel.expensive else count, seed)


def _fit(model: Any, sample: SampleSplit, seed: int) -> tuple[Map, SampleSplit]:
    """Fit the model's map; a size that the training rows are too few for is halved until it fits.

    Returns
    -------
    tuple of (fitted map, sample as the map's input)
    """
    sample = _map_input(model, sample)
    feature_map = with_seed(clone(_split(model)[1]), seed)
    with ignored_warnings():
        while True:
            try:
                return feature_map.fit(sample.train), sample
            except ValueError:
                size = feature_map.get_params().get(str(feature_map.size_parameter))
                if not isinstance(size, int | np.integer) or size < 2:
                    raise
                feature_map = feature_map.with_size(int(size) // 2)


def _describe_reduction(model: Any, fitted: Map) -> str:
    """Return "name = size" if the fitted map is smaller than the model's, "" otherwise."""
    parameter = str(fitted.size_parameter)
    before, after = (m.get_params().get(parameter) for m in (_split(model)[1], fitted))
    return "" if before == after else f"{parameter} = {after}"


def _inner_products(fitted: Map, rows: Any) -> Array:
    with ignored_warnings():
        Z = fitted.set_output(transform="default").transform(rows)
    return np.asarray(_dense(Z @ Z.T), dtype=np.float64)


def _dense(rows: Any) -> Any:
    return rows.toarray() if hasattr(rows, "toarray") else rows


def evenly_spaced(count: int, most: int) -> Array:
    """Return at most so many different indices from 0 to count - 1."""
    return np.unique(np.linspace(0, count - 1, min(most, count)).round().astype(np.int64))


def _sort_rows(y: Array, numeric: bool) -> tuple[Array, tuple[tuple[str, int], ...]]:
    """Return the indices of at most HEAT_MAP_ROWS rows, sorted by target, and their classes.

    Numeric targets are evenly spaced by rank; otherwise the most frequent classes have equally
    many rows each.
    """
    if numeric:
        return np.argsort(y, kind="stable")[evenly_spaced(len(y), HEAT_MAP_ROWS)], ()
    labels, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    frequent = np.sort(np.argsort(-counts, kind="stable")[:_CLASSES])
    members = [np.flatnonzero(codes == code)[: HEAT_MAP_ROWS // len(frequent)] for code in frequent]
    groups = [(str(labels[code]), len(rows)) for code, rows in zip(frequent, members, strict=True)]
    return np.concatenate(members), tuple(groups)


@contextmanager
def ignored_warnings() -> Iterator[None]:
    """Ignore warnings of test rows outside the range of the training rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield
