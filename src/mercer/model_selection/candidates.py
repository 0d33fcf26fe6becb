"""Candidates: which maps a race has for some rows, at which bandwidths, and what each of them
costs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

from sklearn.base import clone

from mercer.errors import ParameterError, Setting
from mercer.maps import registry
from mercer.maps._bandwidth import Gamma
from mercer.maps.base import Array, Map
from mercer.maps.block import as_block, matrix
from mercer.maps.compose import Composed
from mercer.maps.scaled import Scaled
from mercer.model_selection.schedule import is_wide, probe_rows
from mercer.stats.basic import ColumnSpread
from mercer.validation.parameters import validate_option

_COUNTED_ROWS = 16  # rows whose stored features are counted
_PROBE = 16  # value of the knob of a map that is only asked about
# of hashes: at equal features more hashes of few bits have less noise than few hashes of many
_BITS = 2
_UNLIKE = 1.5  # columns whose spreads differ by more are also tried at one spread


@dataclass(frozen=True)
class Grid:
    """The bandwidths at which a kernel is tried: factors of the one that the data give."""

    options: dict[str, Any]  # which choose the kernel
    parameter: str = ""
    factors: tuple[float, ...] = (1.0,)


# Maps that are tried at several bandwidths, or with options; any other takes part with its
# defaults.
GRIDS: dict[str, tuple[Grid, ...]] = {
    "fourier": (
        Grid({}, "gamma", (1, 1 / 4, 4, 1 / 16, 16)),
        Grid({"kernel": "laplacian"}, "gamma", (1, 1 / 4, 4, 1 / 16)),
        Grid({"kernel": "cosine-rbf"}, "gamma", (4, 1, 16)),
    ),
    "gcws": (Grid({"bits": _BITS}),),
    "exp-chi2": (Grid({}, "gamma", (1, 1 / 4, 4)),),
    "laplace": (Grid({}, "beta", (1, 1 / 4, 4)), Grid({"kernel": "reciprocal"}, "beta", (1,))),
    "skewed": (Grid({}, "skew", (1, 1 / 10)),),
    "nystroem": (Grid({}, "gamma", (1, 1 / 4, 4)),),
}
# Maps that are other ways to the kernel of one that takes part: they race when they are named.
TWINS = {
    "anchors": "chi2-series",
    "chi2-chebyshev": "chi2-series",
    "homogeneous": "chi2-series",
    "compressive": "fourier",
    "nystroem": "fourier",
    "pca": "linear",
    "projection": "linear",
}
LINEAR = ("linear", "scaled")


@dataclass(frozen=True, eq=False)
class Candidate:
    """A map that takes part.

    Attributes
    ----------
    name, family : str
        With and without the bandwidth.
    kind : "linear" or "map"
    feature_map : Map
        Not fitted, with a seed.
    grows : bool
        Whether its knob says how many features it has; otherwise the columns do.
    features, weights, flops : float
        For each unit of the knob where it grows: columns of the output, numbers drawn,
        multiply-adds of a row.
    entries : float
        Numbers of a row's features that are stored, likewise.
    """

    name: str
    family: str
    kind: str
    feature_map: Map
    grows: bool
    features: float
    weights: float
    flops: float
    entries: float

    def sized(self, features: int) -> Map:
        """The map with about so many features; as it is where it does not grow."""
        return (
            self.feature_map.with_size(self.units(features))
            if self.grows
            else clone(self.feature_map)
        )

    def units(self, features: int) -> int:
        """The knob for so many features."""
        return max(1, int(features / self.features)) if self.grows else 1

    def work(self, features: int) -> float:
        """Multiply-adds of one row with about so many features: to make them, and to sum them
        up.
        """
        units = self.units(features)
        return units * self.flops + units * self.entries * units * self.features


def candidates(
    X: Any, kernels: Any, seed: int, *, domain: str, over: Callable[[], bool] = lambda: False
) -> tuple[list[Candidate], dict[str, str], list[str]]:
    """The maps that take part, those without a bandwidth first; why others do not; and those for
    which there was no time.

    Parameters
    ----------
    X : array or CSR matrix
        Some rows, from which bandwidths come.
    kernels : "auto", or a list of names and maps
    seed : int
    domain : "real" or "nonnegative"
        What all rows have, not only these.
    over : callable
        Whether time is up: linear is there all the same.
    """
    chosen, given = _chosen(kernels)
    X = X[: probe_rows(X.shape[1])]
    refused = (
        {} if kernels != "auto" else {name: twin(name) for name in TWINS if name in registry()}
    )
    found: list[Candidate] = []
    late: list[str] = []
    unlike = _unlike(X)
    for name in (*LINEAR, *(name for name in chosen if name not in LINEAR)):
        cls = registry()[name]
        if name not in LINEAR and over():
            late.append(name)
            continue
        if domain == "real" and cls().domain == "nonnegative":
            refused[name] = f"{cls.__name__} needs numbers of at least 0, and the rows have others."
            continue
        if name == "scaled" and not unlike:
            continue
        scaled = unlike and name not in LINEAR
        for first in (None, Scaled()) if scaled else (None,):
            found += _variants(name, X, seed, first, refused)
    for one in given:
        if over():
            late.append(_label(one))
            continue
        if domain == "real" and one.domain == "nonnegative":
            refused[_label(one)] = (
                f"{type(one).__name__} needs numbers of at least 0, and the rows have others."
            )
            continue
        made = _probed(_label(one), _label(one), one, X, refused, grows=False)
        found += [] if made is None else [made]
    return sorted(_unique(found), key=_turn), refused, late


def _turn(one: Candidate) -> int:
    """Linear first, then what has no bandwidth, then the bandwidths that the data give, then the
    others.
    """
    if one.kind == "linear":
        return 0
    return 1 if one.name == one.family else 2


def twin(name: str) -> str:
    """Why a map takes no part that another stands for."""
    return f"{name} is another way to the kernel of {TWINS[name]}: it races when it is named."


def _chosen(kernels: Any) -> tuple[list[str], list[Map]]:
    """The names, and the maps, that are asked for."""
    if isinstance(kernels, str) and kernels == "auto":
        return [name for name in registry() if name not in TWINS], []
    asked: Collection[Any] = [kernels] if isinstance(kernels, str | Map) else kernels
    if not isinstance(asked, list | tuple | set | frozenset) or not asked:
        needed = " must be 'auto' or a list of names of maps and maps"
        raise ParameterError("select", Setting("kernels"), f"{needed}, got {kernels!r}.")
    if isinstance(asked, set | frozenset):
        asked = sorted(asked, key=str)  # which has no order of its own
    names = [
        validate_option("select", "kernels", one, sorted(registry()))
        for one in asked
        if not isinstance(one, Map)
    ]
    return list(dict.fromkeys(names)), [one for one in asked if isinstance(one, Map)]


def _variants(
    name: str, X: Any, seed: int, first: Map | None, refused: dict[str, str]
) -> Iterator[Candidate]:
    """A registered map with each of its kernels and bandwidths, on the rows or on those scaled."""
    rows = X if first is None else clone(first).fit_transform(X)
    before = "" if first is None else "scaled >> "
    for grid in GRIDS.get(name, (Grid({}),)):
        base: Map = registry()[name](**grid.options)
        if "random_state" in base.get_params():
            base.set_params(random_state=seed)
        words = [name, *(str(value) for key, value in grid.options.items() if key == "kernel")]
        family = before + " ".join(words)
        if not grid.parameter:
            made = base if first is None else clone(first) >> base
            yield from _some(_probed(family, family, made, X, refused))
            continue
        try:
            auto = _bandwidth(base, grid.parameter, rows)
        except ValueError as error:
            refused.setdefault(family, str(error))
            continue
        for factor in grid.factors[:1] if is_wide(X.shape[1]) else grid.factors:
            value = float(
                f"{auto * factor:.3g}"
            )  # as it is shown, so that what is typed is what was tried
            one = clone(base).set_params(**{grid.parameter: value})
            made = one if first is None else clone(first) >> one
            yield from _some(
                _probed(f"{family} {grid.parameter}={value:g}", family, made, X, refused)
            )


def _bandwidth(base: Map, parameter: str, rows: Any) -> float:
    """What the map finds in the data by itself; for maps that do not look, the median distance or
    the mean of what is not 0.
    """
    if parameter == "skew":
        stored = rows.data if hasattr(rows, "indptr") else rows
        positive = stored[stored > 0]
        return float(positive.mean()) if positive.size else 1.0
    if isinstance(getattr(base, parameter), str):
        found = base.with_size(_PROBE).fit(rows)
        return float(getattr(found, f"{parameter}_"))
    return Gamma(type(base).__name__, "exp-chi2", "median").value(rows.shape[1], _Rows(rows))


@dataclass(frozen=True)
class _Rows:
    """What Gamma asks a sample for."""

    rows: Any


def _probed(
    name: str, family: str, feature_map: Map, X: Any, refused: dict[str, str], *, grows: bool = True
) -> Candidate | None:
    """The candidate, once the map has taken some rows; None, and why, where it refuses them."""
    last = feature_map.maps[-1] if isinstance(feature_map, Composed) else feature_map
    grows = (
        grows
        and last.size_parameter in ("n_components", "n_hashes")
        and last.get_params().get(last.size_parameter) is not None
    )
    probe = feature_map.with_size(_PROBE) if grows else clone(feature_map)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = probe.fit(X)
            block = next(iter(fitted.blocks(X[:_COUNTED_ROWS])))
    except ValueError as error:
        refused.setdefault(family, str(error))
        return None
    unit = _PROBE if grows else 1
    features = fitted._n_features_out
    rows = matrix(block)
    entries = rows.nnz / rows.shape[0] if hasattr(rows, "indptr") else features
    kind = "linear" if family in LINEAR else "map"
    weights = sum(array.size for array in fitted.tile_transform_.arrays().values())
    flops = fitted.tile_transform_.cost(X.shape[1]).flops
    return Candidate(
        name,
        family,
        kind,
        feature_map,
        grows,
        features / unit,
        weights / unit,
        flops / unit,
        min(entries, features) / unit,
    )


def _some(one: Candidate | None) -> list[Candidate]:
    return [] if one is None else [one]


def _unique(found: list[Candidate]) -> list[Candidate]:
    """Each name once: two bandwidths may be the same number."""
    return list({one.name: one for one in found}.values())


def _label(one: Map) -> str:
    """The name of a map of the user's own: what scikit-learn shows of it, in one line."""
    return " ".join(repr(one).split())


def _unlike(X: Any) -> bool:
    """Whether columns have spreads so unlike that dividing by them makes another table."""
    seen = ColumnSpread()
    seen.add(as_block(X))
    spread: Array = seen.deviation[seen.deviation > 0]
    return bool(len(spread)) and float(spread.max()) > _UNLIKE * float(spread.min())
