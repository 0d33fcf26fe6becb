"""Compositions of maps: a >> b is b on the features of a, a + b is both side by side.

They are estimators like any other map, flat, with parameters named as in a pipeline.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.random import Generator, RandomState
from numpy.typing import DTypeLike
from sklearn.base import clone
from sklearn.pipeline import _name_estimators
from sklearn.utils.metaestimators import _BaseComposition
from sklearn.utils.validation import check_is_fitted

from mercer import ops
from mercer._typing import Array, is_csr
from mercer.data.batches import Batch, Tiles
from mercer.data.table_schema import TableSchema
from mercer.errors import RowError
from mercer.kernels import Kernel, Sum
from mercer.maps._transform import KernelOnFeatures, TileTransform, cast_transform, number_arrays
from mercer.maps.base import Bounds, Decay, Map, Rate
from mercer.maps.block import Block, Dense, Sparse
from mercer.maps.fourier import RandomFourier
from mercer.maps.metric import Metric
from mercer.maps.scaled import Scaled
from mercer.maps.tabular import Tabular
from mercer.parallel.tile_size import Cost
from mercer.validation.parameters import validate_parameters
from mercer.validation.rows import require_nonnegative

Blocks = Callable[[], Iterator[Block | Batch] | Tiles]


class _Composite(_BaseComposition, Map):
    """Base class of Composed and Stacked: a list of maps as one parameter.

    The parameters of each map are named after it, as in a pipeline.
    """

    maps_: list[Map]

    def __init__(self, maps: Sequence[Map]) -> None:
        self.maps = maps

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters and, when deep, those of the parts.

        Parameters
        ----------
        deep : bool, default=True

        Returns
        -------
        dict
            A parameter of a part has the name of the part before it: "randomfourier-1__gamma".
        """
        return self._get_params("_named", deep=deep)

    def set_params(self, **params: Any) -> Self:
        """Set parameters by the names that get_params returns.

        Parameters
        ----------
        **params : dict

        Returns
        -------
        self
        """
        self._set_params("_named", **params)
        return self

    @property
    def _parts(self) -> list[Map]:
        """The maps; empty where the parameter is no list of maps, which fit reports."""
        maps = self.maps if isinstance(self.maps, list | tuple) else []
        return list(maps) if all(isinstance(part, Map) for part in maps) else []

    @property
    def _named(self) -> list[tuple[str, Map]]:
        return list(zip(names_of(self._parts), self._parts, strict=True))

    @_named.setter
    def _named(self, pairs: list[tuple[str, Map]]) -> None:
        self.maps = [part for _, part in pairs]

    @property
    def bounds_(self) -> Bounds | None:
        return None  # each part validates its own

    @property
    def n_jobs(self) -> int | None:
        return getattr(self._parts[-1], "n_jobs", None) if self._parts else None

    @classmethod
    def flat(cls, *maps: Map) -> Self:
        """Return one composition of all these maps; those of this class contribute their parts.

        Parameters
        ----------
        *maps : Map
        """
        parts: list[Map] = []
        for part in maps:
            parts += part.maps if isinstance(part, cls) else [part]
        return cls(parts)

    @property
    def seed_(self) -> list[Any]:
        """The seeds of the parts."""
        check_is_fitted(self)
        return [part.seed_ for part in self.maps_]

    def for_rows(self, n: int) -> Self:
        """Return an unfitted copy whose parts of size "auto" have the one for n rows.

        Parameters
        ----------
        n : int
        """
        parts = [part.for_rows(n) for part in self._parts]
        changed = any(new is not old for new, old in zip(parts, self._parts, strict=True))
        return type(self)(parts) if changed else self

    def check(self, d: int) -> None:
        if not self._parts:
            raise ValueError(
                f"{type(self).__name__}: maps must be a list of at least one mercer map, got "
                f"{self.maps!r}."
            )

    def _pack(self) -> Self:
        packed = copy.copy(self)
        packed.maps_ = [part._pack() for part in self.maps_]
        del packed.tile_transform_
        return packed

    def _unpack(self) -> Self:
        if hasattr(self, "tile_transform_"):
            return self
        unpacked = copy.copy(self)
        unpacked.maps_ = [part._unpack() for part in self.maps_]
        unpacked.tile_transform_ = unpacked._combine_transforms()
        return unpacked

    def _fitted_state(self) -> dict[str, Any]:
        attributes = super()._fitted_state()
        attributes.pop("tile_transform_", None)  # the parts have theirs
        return attributes

    def _set_fitted_state(self, attributes: dict[str, Any]) -> None:
        super()._set_fitted_state(attributes)
        same_types = isinstance(self.maps_, list) and list(map(type, self.maps_)) == list(
            map(type, self._parts)
        )
        if not same_types or [part.n_features_in_ for part in self.maps_] != self._input_widths():
            raise ValueError(
                f"{type(self).__name__} has fitted maps that differ from its parameter, or do not "
                "fit each other."
            )
        for part, width in zip(self._parts, self._input_widths(), strict=True):
            validate_parameters(part)
            part.check(width)
        self.tile_transform_ = self._combine_transforms()

    def _combine_transforms(self) -> TileTransform:
        """Return the tile transforms of the fitted parts as one."""
        raise NotImplementedError

    def _input_widths(self) -> list[int]:
        """Return the number of columns of each fitted part's input."""
        raise NotImplementedError


class Composed(_Composite):
    """phi(x) = phi_m(...phi_2(phi_1(x))): each map is fitted on the features of the one before.

    ``a >> b`` makes one. Its kernel is ``b.kernel_.over(a.kernel_)`` where b's kernel depends on
    inner products or Euclidean distances only; its limit is b's limit on the features of a. No
    features are stored: they are computed tile by tile.

    Parameters
    ----------
    maps : list of maps
        In the order in which they are applied. They are cloned in ``fit``.

    Attributes
    ----------
    maps_ : list of maps
        The fitted maps.

    Examples
    --------
    >>> from mercer import RandomFourier
    >>> first = RandomFourier(64, gamma=0.5, random_state=0)
    >>> both = first >> RandomFourier(256, gamma=2.0, random_state=1)
    >>> both.fit([[0.0, 1.0], [1.0, 0.0]]).kernel_
    Gaussian(gamma=2.0).over(Gaussian(gamma=0.5))
    """

    @property
    def size_parameter(self) -> str | None:  # type: ignore[override]
        """The size parameter of the last map."""
        name, last = self._named[-1] if self._parts else ("", Map)
        return f"{name}__{last.size_parameter}" if self._parts and last.size_parameter else None

    @property
    def domain(self) -> str:  # type: ignore[override]
        """The domain of the first map."""
        return self._parts[0].domain if self._parts else "real"

    @property
    def accepts_missing(self) -> bool:  # type: ignore[override]
        """Whether the first map does."""
        return bool(self._parts) and self._parts[0].accepts_missing

    @property
    def depends_on_units(self) -> bool:
        """Whether a metric is learned in front of a map that does; else maps are as composed."""
        parts = self._parts
        learned = len(parts) > 1 and isinstance(parts[0], Metric) and parts[0].matrix is None
        return learned and parts[1].depends_on_units

    @property
    def table_schema_(self) -> TableSchema | None:
        """That of the first map."""
        check_is_fitted(self)
        return self.maps_[0].table_schema_

    @property
    def nested(self) -> bool:  # type: ignore[override]
        """Whether the last map is nested."""
        return bool(self._parts) and self._parts[-1].nested

    @property
    def is_projection(self) -> bool:  # type: ignore[override]
        """Whether the last map projects, and those before it are exact."""
        *before, last = self._parts
        return last.is_projection and all(part.rate is None for part in before)

    @property
    def rate(self) -> Rate | Decay | None:
        """The convergence rate of the last map."""
        return self._parts[-1].rate if self._parts else None

    def size_for(self, error: float, delta: float) -> int | None:
        """Return the size of the last map: its bound holds for any data."""
        return self._parts[-1].size_for(error, delta) if self._parts else None

    @property
    def kernel_(self) -> Kernel:
        """The kernel of the last map over that of the maps before."""
        check_is_fitted(self)
        kernel = self.maps_[0].kernel_
        for part in self.maps_[1:]:
            try:
                kernel = part.kernel_.over(kernel)
            except TypeError as error:
                raise AttributeError(f"This composition has no exact kernel: {error}") from None
        return kernel

    @property
    def limit_(self) -> Kernel | None:
        """The limit of the last map on the features of the maps before."""
        check_is_fitted(self)
        limit = self.maps_[-1].limit_
        before = tuple(part.tile_transform_ for part in self.maps_[:-1])
        if limit is None or not before:
            return limit
        return KernelOnFeatures(limit, before, self.domain)

    @classmethod
    def cases(cls) -> list[Map]:
        first = RandomFourier(8, gamma=0.3, design="iid", random_state=1)
        last = RandomFourier(64, gamma=1.0, design="iid", random_state=2)
        from_data = RandomFourier(8, gamma="median", random_state=3)
        return [first >> last, from_data >> first >> last, from_data + first >> last]

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the feature names of the last map.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Only validated.
        """
        super().get_feature_names_out(input_features)
        return self.maps_[-1].get_feature_names_out()

    def _fit_blocks(self, d: int, blocks: Blocks, n_rows: Callable[[], int | None]) -> Self:
        self.check(d)
        self.n_features_in_ = d
        self.maps_ = []
        for i, part in enumerate(self.maps):
            following = self.maps[i + 1] if i + 1 < len(self.maps) else None
            adapted = part if following is None else part.before(following)
            fitted = clone_sharing_generators(adapted)
            if i == 0 and part.accepts_missing and hasattr(self, "feature_names_in_"):
                fitted.feature_names_in_ = self.feature_names_in_  # names of its features
            fitted._fit_blocks(d, blocks, n_rows)
            self.maps_.append(fitted)
            d = fitted._n_features_out
            blocks = partial(_transform_blocks, fitted, following, blocks)
        self.tile_transform_ = self._combine_transforms()
        return self

    def _combine_transforms(self) -> CompositionTransform:
        checks = tuple(
            InputCheck(type(part).__name__, part.domain, part.domain_advice, part.bounds_)
            for part in self.maps_[1:]
        )
        return CompositionTransform(tuple(part.tile_transform_ for part in self.maps_), checks)

    def _input_widths(self) -> list[int]:
        return [self.n_features_in_, *(part._n_features_out for part in self.maps_[:-1])]


class Stacked(_Composite):
    """phi(x) = (phi_1(x), ..., phi_m(x)): features side by side, for the sum of the kernels.

    ``a + b`` makes one. Give the parts different seeds: with equal seeds two equal maps have equal
    weights, and the second adds nothing.

    Parameters
    ----------
    maps : list of maps
        They are cloned in ``fit``.

    Attributes
    ----------
    maps_ : list of maps
        The fitted maps.

    Examples
    --------
    >>> from mercer import RandomFourier
    >>> both = RandomFourier(64, gamma=0.5) + RandomFourier(64, kernel="laplacian", gamma=1.0)
    >>> both.fit([[0.0, 1.0], [1.0, 0.0]]).kernel_
    Gaussian(gamma=0.5) + Laplacian(gamma=1.0)
    """

    size_parameter = None
    nested = False

    @property
    def domain(self) -> str:  # type: ignore[override]
        """The intersection of the parts' domains."""
        domains = [part.domain for part in self._parts]
        return "nonnegative" if "nonnegative" in domains else "real"

    @property
    def accepts_missing(self) -> bool:  # type: ignore[override]
        """Whether all parts do."""
        return bool(self._parts) and all(part.accepts_missing for part in self._parts)

    @property
    def table_schema_(self) -> TableSchema | None:
        """That of the first part; all have the same."""
        check_is_fitted(self)
        return self.maps_[0].table_schema_

    @property
    def rate(self) -> Rate | Decay | None:
        """The slowest convergence rate of the parts."""
        rates = [part.rate for part in self._parts if part.rate is not None]
        random = [rate for rate in rates if isinstance(rate, Rate)]
        return max(random, key=lambda rate: rate.slope) if random else rates[0] if rates else None

    @property
    def kernel_(self) -> Kernel:
        """The sum of the parts' kernels."""
        check_is_fitted(self)
        return Sum(tuple(part.kernel_ for part in self.maps_))

    @property
    def limit_(self) -> Kernel | None:
        """The sum of the parts' limits; None where one has none."""
        check_is_fitted(self)
        limits = tuple(limit for part in self.maps_ if (limit := part.limit_) is not None)
        return Sum(limits) if len(limits) == len(self.maps_) else None

    @classmethod
    def cases(cls) -> list[Map]:
        gaussian = RandomFourier(32, gamma=0.3, design="iid", random_state=3)
        return [gaussian + RandomFourier(32, kernel="laplacian", gamma=0.4, random_state=4)]

    def with_size(self, size: int) -> Stacked:
        """Return an unfitted copy with another size of every part.

        Parameters
        ----------
        size : int
        """
        return Stacked(
            [part.with_size(size) if part.size_parameter else clone(part) for part in self.maps]
        )

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the parts' feature names, each after the name of its part, as in FeatureUnion.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Only validated.
        """
        super().get_feature_names_out(input_features)
        parts = zip(names_of(self.maps), self.maps_, strict=True)
        names = [
            f"{name}__{feature}" for name, part in parts for feature in part.get_feature_names_out()
        ]
        return np.asarray(names, dtype=object)

    def _fit_blocks(self, d: int, blocks: Blocks, n_rows: Callable[[], int | None]) -> Self:
        self.check(d)
        self.maps_ = [
            clone_sharing_generators(part)._fit_blocks(d, blocks, n_rows) for part in self.maps
        ]
        self.n_features_in_ = d
        self.tile_transform_ = self._combine_transforms()
        return self

    def _combine_transforms(self) -> StackedTransform:
        return StackedTransform(tuple(part.tile_transform_ for part in self.maps_))

    def _input_widths(self) -> list[int]:
        return [self.n_features_in_] * len(self.maps_)


@dataclass(frozen=True)
class InputCheck:
    """Validation of rows for a map whose input is the output of another map."""

    estimator_name: str
    domain: str
    domain_advice: str
    bounds: Bounds | None = None

    def __call__(self, rows: Any) -> None:
        """Raise a RowError for rows outside the domain; warn about rows outside the bounds."""
        if self.domain == "nonnegative":
            require_nonnegative(self.estimator_name, rows, advice=self.domain_advice)
        if self.bounds is not None:
            self.bounds(rows, numbered=False)


@dataclass(frozen=True, eq=False)
class CompositionTransform(TileTransform):
    """x -> part_m(... part_1(x)), the input of each part but the first validated."""

    parts: tuple[TileTransform, ...]
    checks: tuple[InputCheck, ...]  # of all parts but the first

    def __repr__(self) -> str:
        return f"CompositionTransform({', '.join(map(repr, self.parts))})"

    def __call__(self, tile: Any, out: Array | None = None) -> Block:
        for part, check in zip(self.parts[:-1], self.checks, strict=True):
            block, dense = part(tile), part.dense(is_csr(tile))
            tile = block.toarray() if dense or ops.is_device(tile) else block.tocsr()
            check(tile)
        return self.parts[-1](tile, out)

    def vjp(self, tile: Any, G: Array) -> Array:
        inputs = [tile]
        for part in self.parts[:-1]:
            inputs.append(part(inputs[-1]).toarray())
        for part, rows in zip(self.parts[::-1], inputs[::-1], strict=True):
            G = part.vjp(rows, G)
        return G

    def columns(self, d: int) -> int:
        return self._widths(d)[-1]

    def dense(self, sparse: bool) -> bool:
        for part in self.parts:
            sparse = not part.dense(sparse)
        return not sparse

    def block_kind(self, sparse: bool, *, on_device: bool = False) -> type[Block]:
        for part in self.parts[:-1]:
            sparse = not on_device and not part.dense(sparse)
        return self.parts[-1].block_kind(sparse, on_device=on_device)

    def arrays(self) -> dict[str, Array]:
        return number_arrays(self.parts)

    def check(self, d: int) -> None:
        for part in self.parts:
            part.check(d)
            d = part.columns(d)

    def astype(self, dtype: DTypeLike) -> CompositionTransform:
        parts = tuple(cast_transform(part, np.dtype(dtype)) for part in self.parts)
        return CompositionTransform(parts, self.checks)

    def cost(self, d: int) -> Cost:
        widths = self._widths(d)[:-1]
        costs = (part.cost(width) for part, width in zip(self.parts, widths, strict=True))
        return sum(costs, Cost(0, 0))

    def _widths(self, d: int) -> list[int]:
        widths = [d]
        for part in self.parts:
            widths.append(part.columns(widths[-1]))
        return widths


@dataclass(frozen=True, eq=False)
class StackedTransform(TileTransform):
    """x -> (part_1(x), ..., part_m(x)): dense where all parts are, CSR otherwise."""

    parts: tuple[TileTransform, ...]

    def __call__(self, tile: Any, out: Array | None = None) -> Block:
        n, d = tile.shape
        if not self.dense(is_csr(tile)) and not ops.is_device(tile):
            from scipy.sparse import hstack

            return Sparse(hstack([part(tile).tocsr() for part in self.parts], format="csr"))
        out = ops.empty((n, self.columns(d)), tile.dtype, tile) if out is None else out
        start = 0
        for part in self.parts:
            stop = start + part.columns(d)
            part(tile, out[:, start:stop])
            start = stop
        return Dense(out)

    def vjp(self, tile: Any, G: Array) -> Array:
        ends = np.cumsum([part.columns(tile.shape[1]) for part in self.parts])
        parts = zip(self.parts, np.split(G, ends[:-1], axis=-1), strict=True)
        return np.sum([part.vjp(tile, own) for part, own in parts], axis=0)

    def columns(self, d: int) -> int:
        return sum(part.columns(d) for part in self.parts)

    def dense(self, sparse: bool) -> bool:
        return all(part.dense(sparse) for part in self.parts)

    def arrays(self) -> dict[str, Array]:
        return number_arrays(self.parts)

    def check(self, d: int) -> None:
        for part in self.parts:
            part.check(d)

    def astype(self, dtype: DTypeLike) -> StackedTransform:
        return StackedTransform(tuple(cast_transform(part, np.dtype(dtype)) for part in self.parts))

    def cost(self, d: int) -> Cost:
        return sum((part.cost(d) for part in self.parts), Cost(0, 0))


def scale_columns(feature_map: Map, scale: bool | str) -> Map:
    """Return a map with ``Scaled`` in front of each of its maps side by side that needs it.

    Parameters
    ----------
    feature_map : Map
    scale : bool or "auto"
        False for none; True for all but those that begin with Scaled; "auto" for those that
        ``depends_on_units``. A composition is what it was made to be, and depends on none.
    """
    if isinstance(feature_map, Stacked):
        return Stacked([scale_columns(part, scale) for part in feature_map.maps])
    wanted = feature_map.depends_on_units if scale == "auto" else scale
    return Scaled() >> feature_map if wanted and not is_scaled(feature_map) else feature_map


def count_scaled(feature_map: Map, scale: bool | str) -> int:
    """Return the number of maps side by side that scale_columns puts ``Scaled`` in front of."""
    if isinstance(feature_map, Stacked):
        return sum(count_scaled(part, scale) for part in feature_map.maps)
    return int(scale_columns(feature_map, scale) is not feature_map)


def is_scaled(feature_map: Map) -> bool:
    """Return whether a map begins with Scaled, or with Tabular, which scales numbers itself."""
    first = feature_map.maps[0] if isinstance(feature_map, Composed) else feature_map
    return isinstance(first, Scaled | Tabular)


def clone_sharing_generators(part: Map) -> Map:
    """Return a clone that shares the random generators of the original.

    Two parts that were given one generator then sample different numbers from it.
    """
    generators = {
        name: value
        for name, value in part.get_params().items()
        if isinstance(value, Generator | RandomState)
    }
    return clone(part).set_params(**generators)


def _transform_blocks(
    fitted: Map, following: Map | None, blocks: Blocks
) -> Iterator[Block | Batch] | Tiles:
    """Return the features of blocks, validated for the domain of the map that follows."""
    source = blocks()
    if isinstance(source, Tiles):
        return Tiles(source.stream, source.feature_map, (*source.before, fitted), following)
    return _iterate_features(fitted, following, source)


def _iterate_features(
    fitted: Map, following: Map | None, blocks: Iterable[Block | Batch]
) -> Iterator[Block | Batch]:
    """Iterate over the features of blocks; errors count rows from the first block."""
    start = 0
    for item in blocks:
        block = item.block if isinstance(item, Batch) else item
        try:
            features = fitted._transform_between(block, following)
        except RowError as error:
            raise error.with_offset(start) from None
        yield replace(item, block=features) if isinstance(item, Batch) else features
        start += block.shape[0]


def names_of(maps: Sequence[Map]) -> list[str]:
    """Return the names of maps as in a pipeline: class names, numbered where they repeat."""
    return [name for name, _ in _name_estimators(maps)]
