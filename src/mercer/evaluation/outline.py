"""What a map does to a row, part by part, at any size of its knob: widths, multiply-adds and bytes,
without its rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import clone

from mercer.maps.base import Map, Rate
from mercer.parallel.tile_size import Cost

_DRAWN = (
    2**20
)  # numbers that are drawn at most to learn what a size costs: 8 MiB, a tenth of a second
_LARGEST = 2**13  # and the largest size
_FIRST = 256  # the size that is looked at first
_SQUARE = 2.05  # times the numbers at twice the size: they grow as a square
_ROWS = 64  # of numbers made up, for maps that must see some


@dataclass(frozen=True)
class Part:
    """A stage, or a drawn map that has none: its kind, and what one row costs."""

    kind: str
    cost: Cost


@dataclass(frozen=True)
class Outline:
    """A map at one size.

    Attributes
    ----------
    columns : int
        D.
    parts : tuple of Part
    numbers : float
        How many were drawn.
    stored : float
        Numbers that a row of features has in memory: D, or the places of a code, or entries of a
        sparse row.
    form : "dense", "sparse" or "coded"
        Of its blocks.
    statistics_parts : tuple of str
        The classes of the maps that must see the rows before they are drawn, one pass for each.
    draws : str
        The class of the map.
    """

    columns: int
    parts: tuple[Part, ...]
    numbers: float
    stored: float
    form: str
    statistics_parts: tuple[str, ...] = ()
    draws: str = ""

    @property
    def cost(self) -> Cost:
        """Of one row."""
        return sum((part.cost for part in self.parts), Cost(0.0, 0.0))

    @classmethod
    def of(cls, fitted: Map, *, density: float | None = None) -> Outline:
        """That of a fitted map, on rows of so many entries of d where they are sparse."""
        d, drawn = fitted.n_features_in_, fitted.tile_transform_
        row = _row(d, density)
        block: Any = fitted._transform_block(row)
        columns = drawn.columns(d)
        forms = {"Dense": "dense", "Sparse": "sparse", "Coded": "coded"}
        form = forms[type(block).__name__]
        stored = (
            block.codes.shape[1]
            if form == "coded"
            else block.Z.nnz
            if form == "sparse"
            else columns
        )
        numbers = float(sum(array.size for array in drawn.arrays().values()))
        return cls(
            columns,
            tuple(_parts(drawn, d)),
            numbers,
            float(stored),
            form,
            lookers(fitted),
            type(fitted).__name__,
        )


@dataclass(frozen=True, eq=False)
class Outlines:
    """The outline of a map for d columns, as a function of its knob.

    Up to the size whose weights are 8 MiB the map is drawn, on rows that are made up where it must
    see some (its own rows would change the weights, not their number). Beyond, what is known grows
    on: as a line, or as a square where it does, as for landmarks.

    Parameters
    ----------
    feature_map : Map
        Fitted or not.
    d : int
    density : float or None
        Share of entries that sparse rows store; None for dense rows.
    """

    feature_map: Map
    d: int
    density: float | None = None

    def __call__(self, size: int | None) -> Outline:
        """At this size; None is the size that the map has."""
        own = self.size
        if size is None or size == own:
            if getattr(self.feature_map, "n_features_in_", None) == self.d:
                return Outline.of(self.feature_map, density=self.density)
            if own is None:
                return self._drawn(None)
            size = own
        low, high = self._known(size)
        if size <= high:
            return self._drawn(size)
        return _grown(
            self._drawn(low), self._drawn((low + high) // 2), self._drawn(high), (low, high), size
        )

    @property
    def size(self) -> int | None:
        """The map's own; None where it has no single knob."""
        value = (
            None
            if self.feature_map.size_parameter is None
            else self.feature_map.get_params().get(str(self.feature_map.size_parameter))
        )
        return int(value) if isinstance(value, int | np.integer) else None

    def _known(self, wanted: int) -> tuple[int, int]:
        """Two sizes that can be drawn, the second the largest that is cheap, or the wanted one."""
        high = max(2, min(_FIRST, wanted, _DRAWN // self.d))
        if not isinstance(self.feature_map.rate, Rate):
            high = max(
                4, min(high, self.size or high)
            )  # larger ones may be dear: series of hundreds of terms
            return high // 2, high
        while high < wanted:
            here, half = self._drawn(high), self._drawn(high // 2)
            if (
                here.numbers > _SQUARE * max(half.numbers, 1)
                or here.numbers * 2 > _DRAWN
                or high >= _LARGEST
            ):
                break
            high = min(2 * high, wanted)
        return high // 2, high

    @cached_property
    def _seen(self) -> dict[int | None, Outline]:
        return {}

    def _drawn(self, size: int | None) -> Outline:
        if size not in self._seen:
            made = clone(self.feature_map) if size is None else self.feature_map.with_size(size)
            rows = np.random.default_rng(0).random(
                (max(_ROWS, min(size or 0, _DRAWN // self.d)), self.d)
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._seen[size] = Outline.of(made.fit(rows), density=self.density)
        return self._seen[size]


def _row(d: int, density: float | None) -> Any:
    """A few rows of the kind that is asked about."""
    if density is None:
        return np.full((1, d), 0.5)
    entries = max(1, round(d * density))
    columns = np.linspace(0, d - 1, entries).astype(np.int32)
    return csr_array((np.full(entries, 0.5), columns, [0, entries]), shape=(1, d))


def _parts(drawn: Any, d: int) -> Iterator[Part]:
    """The stages of what was drawn, in order, each with what a row of its own width costs."""
    inside = getattr(drawn, "parts", None)
    if inside is not None:  # a composition
        for part in inside:
            yield from _parts(part, d)
            d = part.columns(d) if hasattr(drawn, "guards") else d
        return
    if not hasattr(drawn, "stages"):
        yield Part(kind_of(drawn), drawn.cost(d))
        return
    for stage in drawn.stages:
        width = stage.columns(d)
        yield Part(
            kind_of(stage), Cost(float(stage.flops(d)), 8.0 * (d + width + stage.scratch(d)))
        )
        d = width


def kind_of(part: Any) -> str:
    """The name of a stage, with that of the product inside or of the kernel it evaluates:
    FourierFeatures(Hadamard), Landmarks(Gaussian).
    """
    inside = (
        getattr(part, "linear", None)
        or getattr(part, "kernel", None)
        or getattr(part, "stage", None)
    )
    name = type(part).__name__.lstrip("_")
    return name if inside is None or isinstance(inside, str) else f"{name}({type(inside).__name__})"


def _grown(
    low: Outline, middle: Outline, high: Outline, known: tuple[int, int], size: int
) -> Outline:
    """A line through the last two, or a square through all three where the numbers drawn grow
    so.
    """
    a, b = known
    square = high.numbers > _SQUARE * max(low.numbers, 1)
    points = (a, (a + b) // 2, b)

    def at(*values: float) -> float:
        if square:
            return float(np.polyval(np.polyfit(points, values, 2), size))
        return values[-1] + (values[-1] - values[0]) * (size - b) / (b - a)

    parts = tuple(
        Part(
            z.kind,
            Cost(
                at(x.cost.flops, y.cost.flops, z.cost.flops),
                at(x.cost.bytes, y.cost.bytes, z.cost.bytes),
            ),
        )
        for x, y, z in zip(low.parts, middle.parts, high.parts, strict=True)
    )
    columns, numbers, stored = (
        at(*(getattr(one, name) for one in (low, middle, high)))
        for name in ("columns", "numbers", "stored")
    )
    return replace(high, columns=round(columns), parts=parts, numbers=numbers, stored=stored)


def lookers(fitted: Map) -> tuple[str, ...]:
    """The classes of the maps that had to see the rows before they were drawn; the parts of a
    composition look one after the other.
    """
    parts = getattr(fitted, "maps_", None)
    if parts is None:
        return (type(fitted).__name__,) * (
            fitted.required_statistics(fitted.n_features_in_) is not None
        )
    return tuple(name for part in parts for name in lookers(part))
