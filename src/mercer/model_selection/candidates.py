"""Candidates of a search: maps at several bandwidths, and the cost of a model of each."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from sklearn.base import clone

from mercer._typing import Array, is_csr
from mercer.errors import ParameterError, Setting
from mercer.linear_model.classifier import KernelClassifier
from mercer.linear_model.regressor import KernelRegressor
from mercer.maps import registry, suggest_maps
from mercer.maps.base import Map
from mercer.maps.block import as_block, matrix
from mercer.maps.compose import Composed
from mercer.maps.scaled import Scaled
from mercer.model_selection.schedule import estimate_seconds
from mercer.model_selection.scoring import Scoring
from mercer.stats.basic import ColumnSpread
from mercer.validation.parameters import validate_option

# bandwidths are estimated from 256 rows, fewer where they have more than so many numbers
_PROBE_NUMBERS = 2_000_000
_WIDE = 20_000  # columns: drawing weights is most of the work, and one bandwidth is tried
_COUNTED_ROWS = 16  # rows whose stored features are counted
_PROBE_SIZE = 16  # size of a map that is fitted only to learn its widths
# of hashes: at equal features more hashes of few bits have less noise than few hashes of many
_BITS = 2
_SPREAD_RATIO = 1.5  # columns whose standard deviations differ by more are also tried scaled


@dataclass(frozen=True)
class BandwidthGrid:
    """Bandwidths of a kernel: factors of the one estimated from the data.

    Attributes
    ----------
    options : dict
        Parameters of the map that choose the kernel; they are in the name, but for `bits`.
    parameter : str
        The bandwidth, which the map estimates by default (fitted attribute `parameter_`); "" where
        there is none.
    factors : tuple of float
    named_only : bool
        Whether another map stands for the kernel, unless this one is named.
    """

    options: dict[str, Any]
    parameter: str = ""
    factors: tuple[float, ...] = (1.0,)
    named_only: bool = False


# Maps with several bandwidths or kernels; any other is a candidate with its defaults.
GRIDS: dict[str, tuple[BandwidthGrid, ...]] = {
    "fourier": (
        BandwidthGrid({}, "gamma", (1, 1 / 4, 4, 1 / 16, 16)),
        BandwidthGrid({"kernel": "laplacian"}, "gamma", (1, 1 / 4, 4, 1 / 16)),
        BandwidthGrid({"kernel": "matern"}, "gamma", (1, 1 / 4, 4)),
        BandwidthGrid({"kernel": "cosine-rbf"}, "gamma", (1, 4, 1 / 4)),
    ),
    "gcws": (
        BandwidthGrid({"bits": _BITS}),
        BandwidthGrid({"bits": _BITS, "power": 0.5}),
        BandwidthGrid({"bits": _BITS, "power": 2.0}),
    ),
    "exp-chi2": (BandwidthGrid({}, "gamma", (1, 1 / 4, 4)),),
    "laplace": (
        BandwidthGrid({}, "beta", (1, 1 / 4, 4)),
        BandwidthGrid({"kernel": "reciprocal"}, "beta", (1,)),
    ),
    "skewed": (BandwidthGrid({}, "skew", (1, 1 / 4, 4)),),
    "nystroem": (
        BandwidthGrid({"kernel": "laplacian"}, "gamma", (1, 4, 1 / 4)),
        BandwidthGrid({}, "gamma", (1, 1 / 4, 4), named_only=True),
    ),
}
# Maps for a kernel that another map already stands for: candidates only when they are named.
ALTERNATIVES = {
    "anchors": "chi2-series",
    "chi2-chebyshev": "chi2-series",
    "homogeneous": "chi2-series",
    "compressive": "fourier",
    "pca": "linear",
    "projection": "linear",
}
ENCODERS = ("tabular",)  # of columns, which a sample of a table has behind it already
LINEAR = ("linear", "scaled")
# Names that candidates begin with, in the order in which they are tried, so that a search that runs
# out of time has tried the likeliest; others follow, those without a bandwidth first. Numbers are
# of the 46 searches of benchmarks/selection.py: 12 were won by linear models.
ORDER = (
    *LINEAR,
    "fourier gamma",  # Gaussian: none of these, but ring, texture and digits
    # rough functions, at a lower error than random features have: ahead of them on 15 of 19 sets
    "nystroem laplacian",
    "fourier laplacian",  # 7 won, and 4 of 12 exhaustive searches, before there was the one above
    "metric >> fourier",  # few columns matter; a dozen fits
    "gcws",  # 5: the cheapest features, and no bandwidth
    "fourier matern",  # 7: between Gaussian and Laplacian
    "exp-chi2",  # 7: twice the time of fourier, for rows of numbers of at least 0
    "skewed",  # 5, for such rows
    "fourier cosine-rbf",  # 1
)


@dataclass(frozen=True)
class Prefix:
    """Map in front of other maps: `name >> map` is one more family of candidates.

    Attributes
    ----------
    families : tuple of str
        Families that it is put in front of; empty for all but the linear ones.
    unlike_only : bool
        Whether only columns of different standard deviations get it.
    supervised : bool
        Whether it is fitted with y. The rows that bandwidths and costs are estimated from have no
        y: they are then passed on as `Scaled` makes them, and the prefix is not fitted.
    fits, rows, features : int
        Fits of the map behind it that fitting the prefix takes, and their rows and features, at
        most.
    """

    families: tuple[str, ...] = ()
    unlike_only: bool = False
    supervised: bool = False
    fits: int = 0
    rows: int = 0
    features: int = 0


PREFIXES: dict[str, Prefix] = {
    "scaled": Prefix(unlike_only=True),
    # learned anew in every fold: a dozen fits on three quarters of at most 16,384 rows, which take
    # as long as about six by the estimate
    "metric": Prefix(("fourier",), supervised=True, fits=6, rows=12288, features=1024),
}


@dataclass(frozen=True)
class ModelOptions:
    """Task and settings that all models of a search share."""

    numeric: bool
    outputs: int
    columns: int
    memory: int
    seed: int
    scoring: Scoring


@dataclass(frozen=True, eq=False)
class Candidate:
    """Model that takes part in a search.

    Attributes
    ----------
    name, family : str
        With and without the bandwidth: candidates of one family differ by it.
    kind : {"linear", "map", "exact", "outside"}
        As of ``Entry``.
    grows : bool
        Whether a larger size has more features.
    """

    name: str
    family: str
    kind: str
    grows: bool = field(default=False, kw_only=True)

    def build(self, size: int, options: ModelOptions) -> Any:
        """Return the unfitted model with about `size` features."""
        raise NotImplementedError

    def estimate_seconds(self, size: int, rows: int, options: ModelOptions) -> float:
        """Return rough seconds of a fit; only their ratios count once a fit was timed."""
        return 0.0

    def work(self, size: int) -> float:
        """Return the work of a row, which orders models of the same score."""
        return 0.0


@dataclass(frozen=True, eq=False)
class MapCandidate(Candidate):
    """Map with ridge regression, alpha chosen by generalized cross-validation.

    Attributes
    ----------
    feature_map : Map
        Not fitted, with a seed.
    features, weights, flops, entries : float
        Columns, numbers drawn, multiply-adds of a row and stored numbers of a row; for each unit of
        the size parameter where it grows.
    learning : Prefix or None
        The map in front of it that is fitted with y.
    """

    feature_map: Map
    features: float
    weights: float
    flops: float
    entries: float
    learning: Prefix | None = None

    def map_of_size(self, features: int) -> Map:
        """Return the map with about so many features; unchanged where it does not grow."""
        if not self.grows:
            return clone(self.feature_map)
        return self.feature_map.with_size(self._units(features))

    def build(self, size: int, options: ModelOptions) -> Any:
        cls: Any = KernelRegressor if options.numeric else KernelClassifier
        given = {"uncertainty": True} if options.scoring.response == "probabilities" else {}
        return cls(
            self.map_of_size(size), max_memory=options.memory, random_state=options.seed, **given
        )

    def estimate_seconds(self, size: int, rows: int, options: ModelOptions) -> float:
        def seconds(rows: int, units: int) -> float:
            return estimate_seconds(
                rows,
                options.outputs,
                entries=units * self.entries,
                flops=units * self.flops,
                weights=units * self.weights,
                features=units * self.features,
            )

        own = seconds(rows, self._units(size))
        if self.learning is None:
            return own
        learned = seconds(min(rows, self.learning.rows), self._units(self.learning.features))
        return own + self.learning.fits * learned

    def work(self, size: int) -> float:
        """Return multiply-adds of one row: its features and their moments."""
        units = self._units(size)
        return units * self.flops + units * self.entries * units * self.features

    def _units(self, features: int) -> int:
        """Return the size parameter for so many features."""
        return max(1, int(features / self.features)) if self.grows else 1


def candidates(
    X: Any, kernels: Any, seed: int, *, domain: str, over: Callable[[], bool] = lambda: False
) -> tuple[list[MapCandidate], dict[str, str], list[Any]]:
    """Return candidates, reasons for maps that are none, and kernels there was no time for.

    Candidates are in the order in which they are tried.

    Parameters
    ----------
    X : array or CSR matrix
        Rows that bandwidths are estimated from.
    kernels : "auto", or a list of names and maps
    seed : int
    domain : {"real", "nonnegative"}
        Of all rows, not only these.
    over : callable
        Whether time is up; linear is a candidate all the same.
    """
    names, given = _parse_kernels(kernels)
    auto = isinstance(kernels, str) and kernels == "auto"
    X = X[: max(16, min(256, _PROBE_NUMBERS // max(X.shape[1], 1)))]
    refused = {
        name: alternative_reason(name) for name in ALTERNATIVES if auto and name in registry()
    }
    accepted: dict[str, MapCandidate] = {}  # by name: two bandwidths may be the same number
    late: list[Any] = []
    unlike = _spreads_differ(X)
    others = (name for name in names if name not in LINEAR)
    for name in (*LINEAR, *sorted(others, key=_place_of_map)):
        cls = registry()[name]
        if name not in LINEAR and over():
            late.append(name)
        elif domain == "real" and cls().domain == "nonnegative":
            refused[name] = _wrong_domain(cls)
        elif name != "scaled" or unlike:
            variants = _variants(name, X, seed, refused, unlike=unlike, named=not auto)
            accepted |= {candidate.name: candidate for candidate in variants}
    for feature_map in given:
        name = " ".join(repr(feature_map).split())
        if over():
            late.append(feature_map)
        elif domain == "real" and feature_map.domain == "nonnegative":
            refused[name] = _wrong_domain(type(feature_map))
        else:
            probed = _probe(name, name, feature_map, X, refused, grows=False)
            accepted |= {candidate.name: candidate for candidate in probed}
    return sorted(accepted.values(), key=_place), refused, late


def _place(candidate: Candidate) -> tuple[int, bool]:
    """Return the place of a candidate in the order in which they are tried."""
    name = candidate.name.split(" >> ")[-1] if candidate.kind == "map" else candidate.name
    first = (i for i, start in enumerate(ORDER) if name.startswith(start))
    return next(first, len(ORDER)), candidate.name != candidate.family


def _place_of_map(name: str) -> int:
    """Return the first place of the candidates of a map."""
    first = (i for i, start in enumerate(ORDER) if start.split()[0] == name)
    return next(first, len(ORDER))


def alternative_reason(name: str) -> str:
    """Return the reason why a map is no candidate that another one stands for."""
    return f"{name} is another map for the kernel of {ALTERNATIVES[name]}: name it to compare it."


def _wrong_domain(cls: type[Map]) -> str:
    return f"{cls.__name__} needs numbers of at least 0, and the rows have others."


def _parse_kernels(kernels: Any) -> tuple[list[str], list[Map]]:
    """Return the names, and the maps, of the parameter `kernels`."""
    if isinstance(kernels, str) and kernels == "auto":
        left_out = {*ALTERNATIVES, *ENCODERS, *PREFIXES}  # linear ones are always added
        return [name for name in registry() if name not in left_out], []
    listed: Collection[Any] = [kernels] if isinstance(kernels, str | Map) else kernels
    if not isinstance(listed, list | tuple | set | frozenset) or not listed:
        needed = " must be 'auto' or a list of names of maps and maps"
        raise ParameterError("select", Setting("kernels"), f"{needed}, got {kernels!r}.")
    if isinstance(listed, set | frozenset):
        listed = sorted(listed, key=str)  # a set has no order of its own
    names = [
        validate_option("select", "kernels", item, sorted(registry()), suggest_maps(str(item)))
        for item in listed
        if not isinstance(item, Map)
    ]
    return list(dict.fromkeys(names)), [item for item in listed if isinstance(item, Map)]


def _variants(
    name: str, X: Any, seed: int, refused: dict[str, str], *, unlike: bool, named: bool
) -> Iterator[MapCandidate]:
    """Yield a registered map with each of its kernels and bandwidths, alone and behind prefixes."""
    for grid in GRIDS.get(name, (BandwidthGrid({}),)):
        if grid.named_only and not named:
            continue
        base: Map = registry()[name](**grid.options)
        if "random_state" in base.get_params():
            base.set_params(random_state=seed)
        words = [
            str(value) if key == "kernel" else f"{key}={value:g}"
            for key, value in grid.options.items()
            if key != "bits"
        ]
        family = " ".join([name, *words])
        yield from _bandwidths(family, base, grid, X, refused)
        for before, prefix in PREFIXES.items():
            fits = not prefix.families or family in prefix.families
            if name in LINEAR or not fits or (prefix.unlike_only and not unlike):
                continue
            if before in registry():
                first, whole = registry()[before](), f"{before} >> {family}"
                yield from _bandwidths(whole, base, grid, X, refused, first, prefix)


def _bandwidths(
    family: str,
    base: Map,
    grid: BandwidthGrid,
    X: Any,
    refused: dict[str, str],
    first: Map | None = None,
    prefix: Prefix = Prefix(),
) -> Iterator[MapCandidate]:
    """Yield a map with each of its bandwidths, behind the map of a prefix where one is given."""
    rows = X
    if first is not None:
        probed = Scaled() if prefix.supervised else first
        rows = clone(probed.before(base)).fit_transform(X)
    maps = {family: base}
    if grid.parameter and not prefix.supervised:  # which chooses its own
        try:
            fitted = base.with_size(_PROBE_SIZE).fit(rows)
        except ValueError as error:
            refused.setdefault(family, str(error))
            return
        auto = float(getattr(fitted, f"{grid.parameter}_"))
        factors = grid.factors[:1] if X.shape[1] > _WIDE else grid.factors
        # rounded as it is printed, so that what is typed is what was tried
        values = [float(f"{auto * factor:.3g}") for factor in factors]
        maps = {
            f"{family} {grid.parameter}={value:g}": clone(base).set_params(
                **{grid.parameter: value}
            )
            for value in values
        }
    for label, feature_map in maps.items():
        if first is None:
            yield from _probe(label, family, feature_map, X, refused)
        elif prefix.supervised:
            for candidate in _probe(label, family, feature_map, rows, refused):
                whole = first >> clone(feature_map)
                yield replace(candidate, feature_map=whole, learning=prefix)
        elif not feature_map.depends_on_units:  # the estimators scale its columns by themselves
            yield from _probe(label, family, clone(first) >> feature_map, X, refused)


def _probe(
    name: str, family: str, feature_map: Map, X: Any, refused: dict[str, str], *, grows: bool = True
) -> Iterator[MapCandidate]:
    """Fit a small map to some rows and yield its candidate; record the error where it refuses."""
    last = feature_map.maps[-1] if isinstance(feature_map, Composed) else feature_map
    grows = (
        grows
        and last.size_parameter in ("n_components", "n_hashes")
        and last.get_params().get(last.size_parameter) is not None
    )
    probe = feature_map.with_size(_PROBE_SIZE) if grows else clone(feature_map)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = probe.fit(X)
            Z = matrix(next(iter(fitted.blocks(X[:_COUNTED_ROWS]))))
    except ValueError as error:
        refused.setdefault(family, str(error))
        return
    unit = _PROBE_SIZE if grows else 1
    features = fitted._n_features_out
    entries = Z.nnz / Z.shape[0] if is_csr(Z) else features
    yield MapCandidate(
        name,
        family,
        "linear" if family in LINEAR else "map",
        feature_map,
        features / unit,
        sum(array.size for array in fitted.tile_transform_.arrays().values()) / unit,
        fitted.tile_transform_.cost(X.shape[1]).flops / unit,
        min(entries, features) / unit,
        grows=grows,
    )


def _spreads_differ(X: Any) -> bool:
    """Whether standard deviations of columns differ so much that scaling changes the distances."""
    spread = ColumnSpread()
    spread.add(as_block(X))
    positive: Array = spread.deviation[spread.deviation > 0]
    return bool(len(positive)) and float(positive.max()) > _SPREAD_RATIO * float(positive.min())
