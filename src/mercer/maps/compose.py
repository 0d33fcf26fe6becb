"""Maps of maps: a >> b is b on the features of a, a + b is both side by side. Real estimators,
flat, parameters named as in a pipeline.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.random import Generator, RandomState
from sklearn.base import clone
from sklearn.pipeline import _name_estimators
from sklearn.utils.metaestimators import _BaseComposition
from sklearn.utils.validation import check_is_fitted

from mercer.data.batches import Piece, Tiles
from mercer.errors import RowError
from mercer.kernels import Kernel, Sum
from mercer.maps._transform import Featured, TileTransform
from mercer.maps.base import Bounds, Decay, Map, Rate
from mercer.maps.block import Block
from mercer.maps.fourier import RandomFourier
from mercer.maps.joined import After, Beside, Guard
from mercer.validation.parameters import validate_parameters


class _Several(_BaseComposition, Map):
    """What Composed and Stacked share: a list of maps as one parameter, and each map's parameters
    under its name.
    """

    maps_: list[Map]

    def __init__(self, maps: Sequence[Map]) -> None:
        self.maps = maps

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of this map and, when deep, of its parts: {"randomfourier-1__gamma": ...}."""
        return self._get_params("_named", deep=deep)

    def set_params(self, **params: Any) -> Self:
        """Set parameters by the names that get_params gives."""
        self._set_params("_named", **params)
        return self

    @property
    def _parts(self) -> list[Map]:
        """The maps, or none when the parameter is no list of maps: a parameter is judged in fit,
        not when it is set.
        """
        maps = self.maps if isinstance(self.maps, list | tuple) else []
        return list(maps) if all(isinstance(part, Map) for part in maps) else []

    @property
    def _named(self) -> list[tuple[str, Map]]:
        return list(zip(_names(self._parts), self._parts, strict=True))

    @_named.setter
    def _named(self, pairs: list[tuple[str, Map]]) -> None:
        self.maps = [part for _, part in pairs]

    @property
    def bounds_(self) -> Bounds | None:
        return None  # the parts have their own

    @property
    def n_jobs(self) -> int | None:
        return getattr(self._parts[-1], "n_jobs", None) if self._parts else None

    @classmethod
    def flat(cls, *maps: Map) -> Self:
        """One of all these maps; those of the same kind give their parts."""
        return cls([part for one in maps for part in (one.maps if isinstance(one, cls) else [one])])

    @property
    def seed_(self) -> list[Any]:
        """The seeds of the parts."""
        check_is_fitted(self)
        return [part.seed_ for part in self.maps_]

    def check(self, d: int) -> None:
        if not self._parts:
            raise ValueError(
                f"{type(self).__name__}: maps must be a list of at least one mercer map, got "
                f"{self.maps!r}."
            )

    def _packed(self) -> Self:
        other = copy.copy(self)
        other.maps_ = [part._packed() for part in self.maps_]
        del other.tile_transform_
        return other

    def _unpacked(self) -> Self:
        if hasattr(self, "tile_transform_"):
            return self
        other = copy.copy(self)
        other.maps_ = [part._unpacked() for part in self.maps_]
        other.tile_transform_ = other._joined()
        return other

    def _kept(self) -> dict[str, Any]:
        return {
            name: value for name, value in super()._kept().items() if name != "tile_transform_"
        }  # which the parts have

    def _keep(self, kept: dict[str, Any]) -> None:
        super()._keep(kept)
        same = isinstance(self.maps_, list) and list(map(type, self.maps_)) == list(
            map(type, self._parts)
        )
        if not same or [part.n_features_in_ for part in self.maps_] != self._inputs():
            raise ValueError(
                f"{type(self).__name__} has fitted maps that are not those of its parameter, or "
                "do not go together."
            )
        for part, width in zip(self._parts, self._inputs(), strict=True):
            validate_parameters(part)
            part.check(width)
        self.tile_transform_ = self._joined()

    def _joined(self) -> TileTransform:
        """What the fitted parts have drawn, as one."""
        raise NotImplementedError

    def _inputs(self) -> list[int]:
        """The columns that each fitted part is given."""
        raise NotImplementedError


class Composed(_Several):
    """phi(x) = phi_m(... phi_2(phi_1(x))): each map is fitted on the features of the one before,
    tile by tile.

    ``a >> b`` makes one. Its kernel is ``b.kernel_.over(a.kernel_)`` where b's kernel depends on
    inner products or Euclidean distances only; its limit is b's limit on the features that a has.

    Parameters
    ----------
    maps : list of maps
        In the order in which they are applied. They are cloned in ``fit``; ``maps_`` has the fitted
        ones.

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
        name, last = self._named[-1] if self._parts else ("", Map)
        return f"{name}__{last.size_parameter}" if self._parts and last.size_parameter else None

    @property
    def domain(self) -> str:  # type: ignore[override]
        return self._parts[0].domain if self._parts else "real"

    @property
    def nested(self) -> bool:  # type: ignore[override]
        return bool(self._parts) and self._parts[-1].nested

    @property
    def rate(self) -> Rate | Decay | None:
        return self._parts[-1].rate if self._parts else None

    @property
    def kernel_(self) -> Kernel:
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
        check_is_fitted(self)
        last = self.maps_[-1].limit_
        before = tuple(part.tile_transform_ for part in self.maps_[:-1])
        return None if last is None else Featured(last, before, self.domain) if before else last

    @classmethod
    def cases(cls) -> list[Map]:
        first = RandomFourier(8, gamma=0.3, design="iid", random_state=1)
        last = RandomFourier(64, gamma=1.0, design="iid", random_state=2)
        looking = RandomFourier(8, gamma="median", random_state=3)
        return [first >> last, looking >> first >> last, looking + first >> last]

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """The names of the last map's features."""
        super().get_feature_names_out(input_features)  # which judges input_features
        return self.maps_[-1].get_feature_names_out()

    def _fit_blocks(self, d: int, blocks: Callable[[], Iterator[Block | Piece] | Tiles]) -> Self:
        self.check(d)
        self.n_features_in_ = d
        self.maps_ = []
        for part in self.maps:
            fitted = copied(part)._fit_blocks(d, blocks)
            self.maps_ += [fitted]
            d = fitted._n_features_out
            following = self.maps[len(self.maps_)] if len(self.maps_) < len(self.maps) else None
            blocks = partial(_features_of, fitted, following, blocks)
        self.tile_transform_ = self._joined()
        return self

    def _joined(self) -> After:
        guards = tuple(
            Guard(type(part).__name__, part.domain, part.domain_advice, part.bounds_)
            for part in self.maps_[1:]
        )
        return After(tuple(part.tile_transform_ for part in self.maps_), guards)

    def _inputs(self) -> list[int]:
        return [self.n_features_in_, *(part._n_features_out for part in self.maps_[:-1])]


class Stacked(_Several):
    """phi(x) = (phi_1(x), ..., phi_m(x)): the features of several maps side by side, for the sum of
    their kernels.

    ``a + b`` makes one. Give the parts different seeds: equal seeds give equal weights, and nothing
    is gained by the second map.

    Parameters
    ----------
    maps : list of maps
        They are cloned in ``fit``; ``maps_`` has the fitted ones.

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
        return (
            "nonnegative" if any(part.domain == "nonnegative" for part in self._parts) else "real"
        )

    @property
    def rate(self) -> Rate | Decay | None:
        rates = [part.rate for part in self._parts if part.rate is not None]
        random = [rate for rate in rates if isinstance(rate, Rate)]
        return max(random, key=lambda rate: rate.slope) if random else rates[0] if rates else None

    @property
    def kernel_(self) -> Kernel:
        check_is_fitted(self)
        return Sum(tuple(part.kernel_ for part in self.maps_))

    @property
    def limit_(self) -> Kernel | None:
        check_is_fitted(self)
        limits = [part.limit_ for part in self.maps_]
        return (
            None if None in limits else Sum(tuple(limit for limit in limits if limit is not None))
        )

    @classmethod
    def cases(cls) -> list[Map]:
        plain = RandomFourier(32, gamma=0.3, design="iid", random_state=3)
        return [plain + RandomFourier(32, kernel="laplacian", gamma=0.4, random_state=4)]

    def with_size(self, size: int) -> Stacked:
        """An unfitted copy with another value of every part's knob."""
        return Stacked(
            [part.with_size(size) if part.size_parameter else clone(part) for part in self.maps]
        )

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """The names of each part's features after the part's name, as in FeatureUnion."""
        super().get_feature_names_out(input_features)
        parts = zip(_names(self.maps), self.maps_, strict=True)
        names = [
            f"{name}__{feature}" for name, part in parts for feature in part.get_feature_names_out()
        ]
        return np.asarray(names, dtype=object)

    def _fit_blocks(self, d: int, blocks: Callable[[], Iterator[Block | Piece] | Tiles]) -> Self:
        self.check(d)
        self.maps_ = [copied(part)._fit_blocks(d, blocks) for part in self.maps]
        self.n_features_in_ = d
        self.tile_transform_ = self._joined()
        return self

    def _joined(self) -> Beside:
        return Beside(tuple(part.tile_transform_ for part in self.maps_))

    def _inputs(self) -> list[int]:
        return [self.n_features_in_] * len(self.maps_)


def copied(part: Map) -> Map:
    """A clone that shares the generators of the original: two parts that are given one generator
    draw different numbers from it.
    """
    shared = {
        name: value
        for name, value in part.get_params().items()
        if isinstance(value, Generator | RandomState)
    }
    return clone(part).set_params(**shared)


def _features_of(
    fitted: Map, following: Map | None, blocks: Callable[[], Iterator[Block | Piece] | Tiles]
) -> Iterator[Block | Piece] | Tiles:
    """The features of blocks, in the domain of the map that follows; errors count rows from the
    first block.
    """
    source = blocks()
    return (
        source.then(fitted, following)
        if isinstance(source, Tiles)
        else _steps(fitted, following, source)
    )


def _steps(
    fitted: Map, following: Map | None, blocks: Iterable[Block | Piece]
) -> Iterator[Block | Piece]:
    start = 0
    for rows in blocks:
        block = rows.block if isinstance(rows, Piece) else rows
        try:
            made = fitted._step(block, following)
        except RowError as error:
            raise error.at(start) from None
        yield replace(rows, block=made) if isinstance(rows, Piece) else made
        start += block.shape[0]


def _names(maps: Sequence[Map]) -> list[str]:
    return [name for name, _ in _name_estimators(maps)]
