"""The map of a model: from its name or itself, seeded, and fitted on a stream."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from mercer.data import Chunk, Stream
from mercer.errors import RowError
from mercer.linear_model.heads import Head
from mercer.linear_model.normal_equations import Array
from mercer.maps import registry
from mercer.maps._transform import adapt_transform, cast_transform
from mercer.maps.base import Map
from mercer.maps.compose import Stacked, clone_sharing_generators
from mercer.parallel import devices
from mercer.parallel.threads import each
from mercer.parallel.tile_size import Cost, rows_at_once
from mercer.rng import Rng, seed_from
from mercer.validation.parameters import validate_option
from mercer.validation.rows import require_finite_features


def make_map(who: str, feature_map: Any, random_state: Any, n_jobs: int | None) -> Map:
    """An unfitted copy of the map. random_state and n_jobs go where the map's own are None; several
    parts get seeds of their own.
    """
    made: Map
    if isinstance(feature_map, list | tuple) and feature_map:
        made = Stacked.flat(*(make_map(who, part, None, None) for part in feature_map))
    elif isinstance(feature_map, str):
        made = registry()[validate_option(who, "feature_map", feature_map, sorted(registry()))]()
    elif isinstance(feature_map, Map):
        made = clone_sharing_generators(feature_map)
    else:
        raise ValueError(
            f"{who}: feature_map must be a mercer map, a composition of maps, a registered name "
            "such as 'fourier', or a list of these, "
            f"got {feature_map!r}."
        )
    params = made.get_params()
    free = [
        name
        for name, value in params.items()
        if name.split("__")[-1] == "random_state" and value is None
    ]
    if free and random_state is not None:
        seed = seed_from(who, random_state)
        seeds = (
            [seed]
            if len(free) == 1
            else [int(word) for word in Rng(seed).words("parts", 0, len(free)) >> np.uint64(1)]
        )
        made.set_params(**dict(zip(free, seeds, strict=True)))
    jobs = [
        name for name, value in params.items() if name.split("__")[-1] == "n_jobs" and value is None
    ]
    return made.set_params(**dict.fromkeys(jobs, n_jobs))


def domain_of(feature_map: Any) -> str:
    """The domain of the map that make_map would make, which is not made; "real" for what is no
    map.
    """
    if isinstance(feature_map, Map):
        return feature_map.domain
    if isinstance(feature_map, list | tuple):
        return "nonnegative" if "nonnegative" in map(domain_of, feature_map) else "real"
    return _default_domain(feature_map) if isinstance(feature_map, str) else "real"


@cache
def _default_domain(name: str) -> str:
    return registry()[name]().domain if name in registry() else "real"


def widths_of(fitted: Map) -> dict[str, int]:
    """The features of each map that stand side by side, by the map's name; one for a map that is
    not several.
    """
    if not isinstance(fitted, Stacked):
        return {type(fitted).__name__.lower(): fitted._n_features_out}
    return {
        name: part._n_features_out
        for (name, _), part in zip(fitted._named, fitted.maps_, strict=True)
    }


def predict_rows(
    stream: Stream, feature_map: Map, head: Head, n_jobs: int | None
) -> Iterator[Array]:
    """z'coef + intercept for consecutive rows of a stream, (rows, outputs); features exist tile by
    tile only.
    """
    d = stream.width
    drawn = cast_transform(feature_map.tile_transform_, stream.dtype)
    with np.errstate(over="ignore"):
        coef = np.ascontiguousarray(head.coef.astype(stream.dtype))
    if not np.isfinite(coef).all():
        largest = np.abs(head.coef).max()
        raise ValueError(
            f"The model has coefficients up to {largest:.2g}, beyond {stream.dtype}: give "
            "float64 rows."
        )
    cost = drawn.cost(d) + Cost(float(coef.size), 0.0)
    warned, place = False, devices.here()
    for chunk, X in _chunks(stream, cost, place):
        out = np.empty((len(chunk), coef.shape[1]))

        def work(rows: slice, X: Any = X, out: Array = out) -> None:
            with np.errstate(over="ignore", invalid="ignore"):
                out[rows] = (
                    feature_map._transform_tile(
                        adapt_transform(feature_map.tile_transform_, X), X, rows, check_values=True
                    )
                    @ coef
                )

        try:
            if place is None:
                each(work, len(chunk), cost, n_jobs)
            else:
                devices.each(work, len(chunk), devices.tile_rows(cost.bytes, place), place)
            require_finite_features(chunk.X, out)
        except RowError as error:
            raise stream.located(
                _first_error(feature_map, chunk.X, stream.columns, error), chunk.start
            ) from None
        if feature_map.bounds_ is not None and not warned:
            warned = feature_map.bounds_(chunk.X, numbered=chunk.start == 0)
        out += head.intercept
        yield out


def _chunks(stream: Stream, cost: Cost, place: devices.Place | None) -> Iterator[tuple[Chunk, Any]]:
    """Chunks of a stream, and their rows where they are predicted."""
    if place is None:
        return ((chunk, chunk.X) for chunk in stream.blocks(rows_at_once(cost)))
    return devices.ahead(
        stream.blocks(devices.tile_rows(cost.bytes, place, travelling=True)),
        lambda chunk: chunk.X,
        place,
    )


def _first_error(feature_map: Map, X: Any, columns: Any, error: RowError) -> RowError:
    """What is wrong with the first of all rows, whichever tile came first; the tile's own error
    where the map only objects.
    """
    try:
        feature_map._validate_values(X, columns)
    except RowError as first:
        return first
    return error
