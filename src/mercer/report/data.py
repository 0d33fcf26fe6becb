"""What the figures of a report show, as numbers: errors against sizes, and Gram matrices side by
side.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from mercer.evaluation.convergence import Law, law_of, seeded
from mercer.evaluation.kernel_error import drawn_pairs, measure
from mercer.kernels import Kernel
from mercer.kernels.additive import Additive
from mercer.kernels.gram import gram
from mercer.maps.base import Map, Rate
from mercer.maps.compose import Composed
from mercer.parallel.tile_size import figure_pairs, worth_drawing
from mercer.report.theory import Expected, expected

Array = NDArray[Any]

ROWS = 2000  # of the sample, at most: half of them for fitting, half for measuring
HEAT_ROWS = 60
_CLASSES = 10  # in a heat map
_LABORIOUS_PAIRS = 400
_DRAWS = 4
_SHARES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1)  # of a random map's size
_STEPS = (1 / 4, 1 / 2, 1, 2, 4)  # of a deterministic one's


@dataclass(frozen=True)
class Rows:
    """Held-out rows of the data: one half to fit maps on, the other half to measure them on."""

    seen: Any
    unseen: Any
    y: Array

    @classmethod
    def of(cls, X: Any, y: Any) -> Rows:
        """At most ROWS rows, evenly spread over X, in turn for each half."""
        places = np.unique(
            np.linspace(0, X.shape[0] - 1, min(ROWS, X.shape[0])).round().astype(np.int64)
        )
        return cls(X[places[::2]], X[places[1::2]], np.asarray(y)[places[1::2]])

    def through(self, steps: Sequence[Any]) -> Rows:
        """The rows after these steps, which are fitted on the first half."""
        seen, unseen = self.seen, self.unseen
        for step in steps:
            fitted = clone(step).fit(seen)
            seen, unseen = fitted.transform(seen), fitted.transform(unseen)
        return Rows(seen, unseen, self.y)


@dataclass(frozen=True)
class Curve:
    """The relative Gram error of a map at several sizes.

    Attributes
    ----------
    name, knob : str
    size : int
        The size in the leaderboard.
    sizes : tuple of int
    draws : tuple of tuples of float
        The errors of the draws at each size; one for a deterministic map.
    law : Law or None
        How the error falls by the map's known rate, from pilots.
    theory : Expected or None
    """

    name: str
    size_parameter: str
    size: int
    sizes: tuple[int, ...]
    draws: tuple[tuple[float, ...], ...]
    law: Law | None
    theory: Expected | None

    @property
    def errors(self) -> list[float]:
        """The root of the mean square of the draws at each size."""
        return [float(np.sqrt(np.mean(np.square(found)))) for found in self.draws]


@dataclass(frozen=True)
class Heat:
    """Exact and approximate kernel values of the same pairs.

    Attributes
    ----------
    name, kernel : str
    exact, approximate : array of shape (n, n)
    groups : tuple of (label, count)
        The classes of the rows in their order; empty where rows are sorted by a number, or are a
        grid.
    grid : array or None
        The numbers along both sides, where rows have a single number.
    reduced : str
        The size of the map, where it is not that of the leaderboard since the rows are too few for
        that.
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
        """sqrt(sum (approximate - exact)^2/sum exact^2), 0 where all of it is 0."""
        total = float(np.sum(self.exact**2))
        return (
            float(np.sqrt(np.sum((self.approximate - self.exact) ** 2) / total)) if total else 0.0
        )


def map_of(model: Any) -> tuple[list[Any], Map] | None:
    """(the steps before it, the map) of an unfitted model; None where it has no map of ours.

    Of a composition whose first maps are exact, such as columns that are scaled, these are steps.
    """
    steps: list[Any] = []
    if hasattr(model, "steps"):
        *steps, model = [step for _, step in model.steps]
    found = getattr(model, "feature_map", model)
    if isinstance(found, Composed) and all(part.rate is None for part in found.maps[:-1]):
        *exact, found = found.maps
        steps += exact
    return (steps, found) if isinstance(found, Map) else None


def curve(name: str, model: Any, rows: Rows, seed: int) -> Curve | None:
    """The Gram error of a model's map against its size; None where it does not depend on one, or no
    two sizes can be had.
    """
    rows, feature_map = _parts(model, rows)
    rate, size = feature_map.rate, feature_map.get_params().get(str(feature_map.size_parameter))
    if rate is None or not isinstance(size, int | np.integer):
        return None
    rows = _let_in(feature_map, rows)
    random = isinstance(rate, Rate)
    tried = sorted({max(1, round(int(size) * share)) for share in (_SHARES if random else _STEPS)})
    tried = [of for of in tried if worth_drawing(of * rows.seen.shape[1])]
    found: dict[int, tuple[float, ...]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of rows outside the range of the other half
        for of in tried:
            try:
                draws = [
                    _drawn(feature_map, of, rows, seed + i) for i in range(_DRAWS if random else 1)
                ]
            except ValueError:  # more components than rows have directions, say
                continue
            if all(np.isfinite(error) for error in draws):
                found[of] = tuple(draws)
        if len(found) < 2:
            return None
        fitted = seeded(feature_map.with_size(max(found)), seed).fit(rows.seen)
        pairs = _pairs(fitted.kernel_, rows, seed)
        law = (
            law_of(fitted, _interleaved(rows), measure(fitted, rows.unseen, pairs), seed, None)
            if random
            else None
        )
    return Curve(
        name,
        str(feature_map.size_parameter),
        int(size),
        tuple(found),
        tuple(found.values()),
        law if isinstance(law, Law) else None,
        expected(fitted, rows.unseen, pairs),
    )


def _drawn(feature_map: Map, size: int, rows: Rows, seed: int) -> float:
    """The relative error of one draw; not a number where the kernel has no formula."""
    fitted = seeded(feature_map.with_size(size), seed).fit(rows.seen)
    if not hasattr(fitted, "kernel_"):
        return float("nan")
    measured = measure(fitted, rows.unseen, _pairs(fitted.kernel_, rows, seed))
    return float(measured.part(measured.errors) or 0.0)


def heat(name: str, model: Any, rows: Rows, numeric: bool, seed: int) -> Heat | None:
    """The exact and the approximate Gram matrix of some rows that the map has not seen, sorted by
    class or target.

    None for a composition whose kernel has no formula, and where it has values that are not finite.
    """
    order, groups = _sorted_rows(rows.y, numeric)
    fitted, rows = _fitted(model, rows, seed)
    if not hasattr(fitted, "kernel_"):
        return None
    chosen = rows.unseen[order]
    exact, approximate = gram(fitted.kernel_, chosen), _products(fitted, chosen)
    if not (np.isfinite(exact).all() and np.isfinite(approximate).all()):
        return None
    return Heat(
        name, repr(fitted.kernel_), exact, approximate, groups, reduced=_reduced(model, fitted)
    )


def scalar_heat(name: str, model: Any, rows: Rows, seed: int) -> Heat | None:
    """The same for the kernel of two numbers, on a grid over the widest column; None for a kernel
    that is no sum over columns.
    """
    fitted, rows = _fitted(model, rows, seed)
    if not isinstance(getattr(fitted, "kernel_", None), Additive):
        return None
    highest = rows.seen.max(axis=0)
    highest = np.ravel(highest.toarray() if hasattr(highest, "toarray") else highest)
    column = int(np.argmax(highest))
    if not highest[column] > 0:
        return None
    grid = np.linspace(0, float(highest[column]), HEAT_ROWS)
    lines = np.zeros((HEAT_ROWS, rows.seen.shape[1]))
    lines[:, column] = grid
    return Heat(
        name,
        repr(fitted.kernel_),
        fitted.kernel_(lines),
        _products(fitted, lines),
        grid=grid,
        reduced=_reduced(model, fitted),
    )


def _parts(model: Any, rows: Rows) -> tuple[Rows, Map]:
    parts = map_of(model)
    assert parts is not None
    steps, feature_map = parts
    return rows.through(steps), feature_map


def _let_in(feature_map: Map, rows: Rows) -> Rows:
    """The rows as the map takes them."""
    enter = clone(feature_map)
    return Rows(
        enter._validate_input(rows.seen, reset=True),
        enter._validate_input(rows.unseen, reset=True),
        rows.y,
    )


def _interleaved(rows: Rows) -> Any:
    """Both halves as they were, which is how pilots halve them again."""
    count = min(rows.seen.shape[0], rows.unseen.shape[0])
    order = np.arange(2 * count).reshape(2, count).T.ravel()
    halves = (rows.seen[:count], rows.unseen[:count])
    if hasattr(halves[0], "indptr"):
        from scipy.sparse import vstack

        return vstack(halves, format="csr")[order]
    return np.concatenate(halves)[order]


def _pairs(kernel: Kernel, rows: Rows, seed: int) -> tuple[Array, Array]:
    count = figure_pairs(rows.unseen.shape[1])
    return drawn_pairs(
        rows.unseen.shape[0], min(count, _LABORIOUS_PAIRS) if kernel.laborious else count, seed
    )


def _fitted(model: Any, rows: Rows, seed: int) -> tuple[Map, Rows]:
    """The model's map, fitted on the first half; a size that this half is too small for is halved
    until it fits.
    """
    rows, feature_map = _parts(model, rows)
    rows = _let_in(feature_map, rows)
    unfitted = seeded(clone(feature_map), seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        while True:
            try:
                return unfitted.fit(rows.seen), rows
            except ValueError:
                size = unfitted.get_params().get(str(unfitted.size_parameter))
                if not isinstance(size, int | np.integer) or size < 2:
                    raise
                unfitted = unfitted.with_size(int(size) // 2)


def _reduced(model: Any, fitted: Map) -> str:
    asked, size_parameter = map_of(model), str(fitted.size_parameter)
    assert asked is not None
    before, after = (one.get_params().get(size_parameter) for one in (asked[1], fitted))
    return "" if before == after else f"{size_parameter} = {after}"


def _products(fitted: Map, rows: Any) -> Array:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        Z = fitted.set_output(transform="default").transform(rows)
    K = Z @ Z.T
    return np.asarray(K.toarray() if hasattr(K, "toarray") else K, dtype=np.float64)


def _sorted_rows(y: Array, numeric: bool) -> tuple[Array, tuple[tuple[str, int], ...]]:
    """At most HEAT_ROWS places, sorted by target: evenly over numbers, or as many of each of the
    most frequent classes.
    """
    if numeric:
        order = np.argsort(y, kind="stable")
        return order[
            np.unique(
                np.linspace(0, len(order) - 1, min(HEAT_ROWS, len(order))).round().astype(int)
            )
        ], ()
    labels, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    shown = np.sort(np.argsort(-counts, kind="stable")[:_CLASSES])
    each = HEAT_ROWS // len(shown)
    places = [np.flatnonzero(codes == code)[:each] for code in shown]
    return np.concatenate(places), tuple(
        (str(labels[code]), len(at)) for code, at in zip(shown, places, strict=True)
    )
