"""Mixed tables as features: scaled numbers, one-hot categories, date parts, hashed words."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from mercer._typing import Array, is_csr
from mercer.data.batches import Tiles
from mercer.data.cells import mark_of
from mercer.data.table_schema import (
    CATEGORY,
    DATE,
    NUMBER,
    TEXT,
    TableColumn,
    TableSchema,
    category_names,
    number_schema,
)
from mercer.kernels import Kernel
from mercer.kernels.euclidean import OfColumns
from mercer.maps._transform import Chain, TileTransform
from mercer.maps.base import ArrayTiles, Map
from mercer.maps.scaled import column_spread
from mercer.maps.stages.tabular import MISSING, TableEncoding
from mercer.rng import Rng
from mercer.stats.table_columns import CategoryCounts, TableColumns
from mercer.validation.parameters import Flag, Integer, Missing, Option, Positive, Threads

_SAMPLE_ROWS = 16_384  # medians and spreads of at most so many rows are exact
_FEW_ROWS, _FEWEST_ROWS = 1024, 64  # of wide rows, of very wide rows
_SAMPLE_NUMBERS = 2**22  # of the sample where it has more than 1,024 rows: 32 MB
_MOST_NUMBERS = 2**24  # where it has more than 64 rows: 128 MB
_SEED = 0  # of the sample: the map has no other random numbers, and so no random_state
# A column of this share of distinct values names its rows: 1.05 rows for a value say nothing of it.
_ID_SHARE = 0.95
# Fewer rows are no evidence that a column of integers counts them: (1, 2, 3) is a measurement.
_FEWEST_COUNTED = 16
# Values of a hashed column whose hashes are kept, 64 kB, to count those not seen in fit.
_MOST_KEPT = 4096
_SPARSE_WIDTH, _SPARSE_DENSITY = 256, 0.1  # CSR products are faster than dense ones from there on
# Kernels whose arguments are shares or counts, which scaling would change.
_OF_HISTOGRAMS = frozenset(
    (
        "chi2",
        "exp-chi2",
        "gmm",
        "hellinger",
        "intersection",
        "jensen-shannon",
        "min-max",
        "resemblance",
        "sign-stable",
        "skewed-chi2",
        "skewed-intersection",
    )
)
_PARTS = ("month", "weekday", "hour")


@dataclass(frozen=True)
class ColumnDecision:
    """Encoding of a column of a table.

    Attributes
    ----------
    name, kind : str
        Of the column, as in ``TableColumn``.
    action : str
        What was done, in words: "number, scaled; 12 missing filled with 3.5".
    features : tuple of str
        Names of its features; empty for a column that was dropped.
    """

    name: str
    kind: str
    action: str
    features: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "name": self.name,
            "kind": self.kind,
            "action": self.action,
            "features": list(self.features),
        }


@dataclass(frozen=True, eq=False)
class EncodedColumns(OfColumns):
    """k(x, z) = <phi(x), phi(z)>, phi the encoding of the columns of a table."""

    encoding: TileTransform
    d: int

    def over(self, inner: Kernel) -> Kernel:
        raise TypeError(
            f"{self!r} encodes the columns of a table, and has no value over {inner!r}."
        )

    def _scale(self, X: Array) -> Array:
        rows = self.encoding(np.ascontiguousarray(X).reshape(-1, X.shape[-1]))
        features: Array = rows.toarray() if hasattr(rows, "toarray") else np.asarray(rows)
        return features.reshape(*X.shape[:-1], -1)

    def __repr__(self) -> str:
        return f"EncodedColumns(d={self.d})"


class Tabular(Map):
    """phi(x) = the encoded columns of a table: numbers, categories, dates, texts, missing cells.

    A number is (x - c)/s, with its median c and its spread s (see ``Scaled``); a missing one is
    filled, and has an indicator feature. A boolean is 0 or 1. A category has a 0/1 feature for each
    of its values, the most frequent one first, and missing is one of the values. A date is a
    number, and a point on the circles of the year, the week and the day. A text is the counts of
    its hashed words, divided by their spread. Constant columns and columns that count or name the
    rows are dropped. ``Tabular() >> RandomFourier()`` is a map of tables.

    Parameters
    ----------
    scale : {"auto", "robust", "standard"} or bool, default="auto"
        "robust" and True divide numbers by their spread, "standard" by their standard deviation
        (and subtracts the mean); False keeps them as they are. "auto" is False in front of maps of
        histogram kernels (chi2, min-max, ...) and "robust" otherwise. A date is always scaled.
    center : bool or "auto", default="auto"
        Whether the median or the mean is subtracted from scaled numbers. "auto" does so unless the
        map that follows needs numbers of at least 0. Where it is False a date t becomes
        1/(1 + exp(-(t - c)/s)), and sines and cosines (1 + sin)/2: features of at least 0.
    fill : {"median", "mean"}, default="median"
        The value of missing numbers, booleans and dates.
    min_frequency : int, float or None, default=None
        Categories of fewer rows, or of a smaller share of the rows, are merged into the feature
        "infrequent", as those are that were not seen in ``fit``. Without such a feature these are
        zeros.
    max_categories : int, default=64
        Of a category of more values the ``max_categories`` - 1 most frequent have a feature each,
        and the others are hashed into ``n_hashed`` features.
    n_hashed : int, default=64
        0 merges the others into "infrequent", as scikit-learn's OneHotEncoder does.
    sparse_output : bool or "auto", default="auto"
        CSR features. "auto" gives them where there are more than 256 features of which less than
        10% are expected to be other than 0.
    n_jobs : int or None, default=None
        Threads; None and -1 use all that the process may use.

    Attributes
    ----------
    schema_ : TableSchema
        Kinds of the columns; all are numbers where the data is an array.
    decisions_ : list of ColumnDecision
        What was done to each column of the table, and its features.
    kernel_, limit_ : Kernel
        The linear kernel of the encoded rows.

    Notes
    -----
    Rows are a matrix of float64 with NaN for missing cells, in which a category is the hash of its
    text and a date the seconds since 1970 (see ``mercer.data.table_schema``). Infinite numbers are
    refused. Medians and spreads are those of 16,384 sampled rows, fewer where a table has more than
    256 columns; everything else is exact. A column whose values are nearly all distinct (95%) names
    the rows; integers that rise or fall by one step from row to row, or that fill a range, count
    them.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Tabular
    >>> phi = Tabular().fit([[1.0, 5.0], [np.nan, 5.0], [3.0, 5.0], [2.0, 5.0]])
    >>> phi.transform([[np.nan, 5.0], [3.0, 5.0]])
    array([[0.        , 1.        ],
           [1.22474487, 0.        ]])
    >>> print(phi.describe_columns())
    column  kind    features  encoding
    x0      number         2  number, scaled; 1 missing filled with 2
    x1      number         0  dropped: constant
    """

    name = "tabular"
    numpy_attributes = True
    accepts_missing = True
    kernels = ("linear",)
    paper = "columns of mixed tables, encoded"
    statistics_name = "columns of the table"
    parameter_constraints = {
        "scale": (Option("auto", "robust", "standard"), Flag()),
        "center": (Flag(), Option("auto")),
        "fill": (Option("median", "mean"),),
        "min_frequency": (Integer(), Positive(below=1), Missing()),
        "max_categories": (Integer(),),
        "n_hashed": (Integer(0),),
        "sparse_output": (Flag(), Option("auto")),
        "n_jobs": (Threads(),),
    }
    size_parameter = None
    rate = None
    schema_: TableSchema
    decisions_: list[ColumnDecision]

    def __init__(
        self,
        *,
        scale: bool | str = "auto",
        center: bool | str = "auto",
        fill: str = "median",
        min_frequency: float | None = None,
        max_categories: int = 64,
        n_hashed: int = 64,
        sparse_output: bool | str = "auto",
        n_jobs: int | None = None,
    ) -> None:
        self.scale = scale
        self.center = center
        self.fill = fill
        self.min_frequency = min_frequency
        self.max_categories = max_categories
        self.n_hashed = n_hashed
        self.sparse_output = sparse_output
        self.n_jobs = n_jobs

    @property
    def kernel_(self) -> Kernel:
        """The linear kernel of the encoded rows; the features have no error."""
        check_is_fitted(self)
        return EncodedColumns(self.tile_transform_, self.n_features_in_)

    @property
    def table_schema_(self) -> TableSchema | None:
        """Schema by which tables are read; None where all columns are plain numbers."""
        check_is_fitted(self)
        plain = all((c.kind, c.size, c.format) == (NUMBER, 1, "") for c in self.schema_.columns)
        return None if plain else self.schema_

    def before(self, following: Map) -> Map:
        params: dict[str, Any] = {}
        if self.scale == "auto" and _is_of_histograms(following):
            params["scale"] = False
        if self.center == "auto" and following.domain == "nonnegative":
            params["center"] = False
        return clone(self).set_params(**params) if params else self

    def required_statistics(self, d: int) -> TableColumns:
        kinds = self._kinds(d)
        few = max(_FEWEST_ROWS, min(_FEW_ROWS, _MOST_NUMBERS // d))
        rows = min(_SAMPLE_ROWS, max(few, _SAMPLE_NUMBERS // d))
        return TableColumns(
            tuple(i for i, kind in enumerate(kinds) if kind != CATEGORY),
            tuple(i for i, kind in enumerate(kinds) if kind == CATEGORY),
            tuple(i for i, kind in enumerate(kinds) if kind == DATE),
            rows,
            _SEED,
        )

    def build(self, rng: Rng, d: int, statistics: Any) -> Chain | SparseChain:
        plan = _Features(self, statistics)
        decisions = [plan.encode(column, span) for column, span in self.schema_.spans()]
        if not plan.names:
            # a map has at least one feature
            plan = _Features(self, statistics, keep=True)
            decisions = [plan.encode(column, span) for column, span in self.schema_.spans()]
        self.decisions_ = decisions
        stage = plan.stage()
        return SparseChain((stage,)) if stage.sparse else Chain((stage,))

    @classmethod
    def cases(cls) -> list[Map]:
        return [
            cls(),
            cls(scale="standard", fill="mean"),
            cls(scale=False),
            cls(sparse_output=True),
        ]

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the features: "age", "age_missing", "city_Paris", "day_month_sin".

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Only validated.
        """
        check_is_fitted(self)
        _check_feature_names_in(self, input_features)
        names = [name for decision in self.decisions_ for name in decision.features]
        return np.asarray(names, dtype=object)

    def describe_columns(self) -> str:
        """Return ``decisions_`` as a table of text."""
        check_is_fitted(self)
        header = ("column", "kind", "features", "encoding")
        rows = [
            (each.name, each.kind, f"{len(each.features):,}", each.action)
            for each in self.decisions_
        ]
        widths = [max(len(row[i]) for row in (header, *rows)) for i in range(3)]
        return "\n".join(
            f"{name:<{widths[0]}}  {kind:<{widths[1]}}  {count:>{widths[2]}}  {action}"
            for name, kind, count, action in (header, *rows)
        )

    def count_unseen(self, X: Any) -> dict[str, int]:
        """Return the number of cells of each category that have a value not seen in fit.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)

        Returns
        -------
        dict of str to int
            Columns without such cells, and hashed ones of more than 4,096 values, are left out.
        """
        check_is_fitted(self)
        # the rows of a stream have no names to compare
        plain = type(X) is np.ndarray and X.shape[1:] == (self.n_features_in_,)
        rows = X if plain else self._validate_fitted_input(X)
        stage = self._encoding
        counts = stage.unseen(rows.toarray() if is_csr(rows) else rows)
        names = self.schema_.names
        return {
            names[column]: int(count)
            for column, count in zip(stage.categories[:, 0], counts, strict=True)
            if count
        }

    @property
    def _encoding(self) -> TableEncoding:
        stage = self.tile_transform_.stages[0]  # type: ignore[attr-defined]
        assert isinstance(stage, TableEncoding)
        return stage

    def _fit_tiles(self, d: int, tiles: ArrayTiles | Tiles) -> Self:
        stream = tiles.stream if isinstance(tiles, Tiles) and not tiles.before else None
        schema = None if stream is None else stream.schema
        if schema is None:
            names = getattr(self, "feature_names_in_", None) if stream is None else stream.columns
            names = [f"x{i}" for i in range(d)] if names is None else list(names)
            schema = number_schema(names)
        self.schema_ = schema
        super()._fit_tiles(d, tiles)
        if stream is not None:
            self._name_categories(stream)
        return self

    def _name_categories(self, stream: Any) -> None:
        """Replace the hashes in the names of features by the texts of a stream."""
        spans = self._features_of_hashes()
        if not spans or not hasattr(stream, "record_batches"):
            return
        texts = category_names(stream, {name: list(hashes) for name, hashes in spans.items()})
        used = set(self.get_feature_names_out())
        renamed = {}
        for name, hashes in spans.items():
            for code, feature in hashes.items():
                text = texts.get(name, {}).get(float(code))
                new = feature if text is None else f"{name}_{text}"
                while new != feature and new in used:
                    new += "_"
                used.add(new)
                renamed[feature] = new
        self.decisions_ = [
            replace(each, features=tuple(renamed.get(name, name) for name in each.features))
            for each in self.decisions_
        ]

    def _features_of_hashes(self) -> dict[str, dict[int, str]]:
        """Return the names of the features of single categories, by column and hash."""
        stage, names, columns = self._encoding, self.get_feature_names_out(), self.schema_.names
        return {
            columns[column]: {
                int(code): names[feature]
                for code, feature, shared in zip(hashes, features, stage.merged(i), strict=True)
                if not shared and code != MISSING
            }
            for i, (hashes, features, column) in enumerate(stage.tables())
        }

    def _set_fitted_state(self, attributes: dict[str, Any]) -> None:
        super()._set_fitted_state(attributes)
        features = sum(len(decision.features) for decision in self.decisions_)
        if (
            self.schema_.width != self.n_features_in_
            or features != self._n_features_out
            or len(self.decisions_) != len(self.schema_.columns)
        ):
            raise ValueError("Tabular has columns or features that differ from its encoding.")

    def _kinds(self, d: int) -> list[str]:
        return [column.kind for column in self.schema_.columns for _ in range(column.size)]


@dataclass(frozen=True, eq=False)
class SparseChain(Chain):
    """Chain whose last stage gives CSR features for dense and CSR tiles."""

    def dense(self, sparse: bool) -> bool:
        return False


class _Features:
    """Features in the order of the columns, and the arrays of their encoding.

    Parameters
    ----------
    settings : Tabular
    statistics : TableColumns
    keep : bool
        Whether constant columns and those that count or name rows are encoded all the same.
    """

    def __init__(self, settings: Tabular, statistics: TableColumns, *, keep: bool = False) -> None:
        self.settings, self.statistics, self.keep = settings, statistics, keep
        self.names: list[str] = []
        self.density = 0.0  # expected number of features that are not 0
        self._used: set[str] = set()
        self._numbers: list[tuple[int, int, float, float, float]] = []
        self._indicators: list[tuple[int, int]] = []
        self._categories: list[tuple[int, int, int]] = []
        self._tables: list[tuple[Array, Array]] = []
        self._dates: list[tuple[int, ...]] = []
        self.place = {column: i for i, column in enumerate(statistics.numbers)}
        self.counts_rows = statistics.counters.counts_rows & (
            statistics.counters.rows >= _FEWEST_COUNTED
        )
        moments = statistics.moments
        mean, variance = moments.mean, moments.variance
        median, spread = mean.copy(), np.zeros_like(mean)
        self.filled = np.ones_like(mean)  # share of values that are not 0
        if len(mean) and len(statistics.sample.keys):
            rows, weights = statistics.sample.rows, statistics.sample.frequencies
            sampled = ~np.isnan(rows).all(axis=0)
            median[sampled], spread[sampled] = column_spread(rows[:, sampled], weights)
            self.filled = np.mean(np.nan_to_num(rows, nan=1.0) != 0, axis=0)
        self.constant = ~(moments.high > moments.low)
        self.fill = median if settings.fill == "median" else mean
        if settings.scale == "standard":
            # of the filled column
            present, missing = moments.present, moments.missing
            total = np.maximum(present + missing, 1e-300)
            self.center = (present * mean + missing * self.fill) / total
            step = (mean - self.fill) ** 2 * present * missing / total
            spread = np.sqrt((present * variance + step) / total)
        else:
            # A column that is constant in the sample: two values, as far as is known.
            with np.errstate(invalid="ignore"):
                width = np.where(self.constant, 0.0, moments.high - moments.low)
            self.center, spread = median, np.where(spread > 0, spread, np.sqrt(0.5) * width)
        self.spread = np.where(spread > 0, spread, 1.0)

    def encode(self, column: TableColumn, span: slice) -> ColumnDecision:
        """Add the features of a column and return what was done."""
        first = len(self.names)
        encode = {CATEGORY: self._category, DATE: self._date, TEXT: self._text}.get(column.kind)
        if encode is not None:
            action = encode(column, span)
        elif column.size == 1:
            action = self._number(column, span.start, column.name)
        else:
            action = self._list(column, span)
        return ColumnDecision(column.name, column.kind, action, tuple(self.names[first:]))

    def stage(self) -> TableEncoding:
        """Return the stage of the features that were added."""
        width = len(self.names)
        offsets = np.cumsum([0, *(len(hashes) for hashes, _ in self._tables)], dtype=np.int64)
        hashes, features = (
            np.concatenate([np.empty(0, dtype=np.int64), *(table[i] for table in self._tables)])
            for i in (0, 1)
        )
        fill, center, scale = (
            np.array([row[i] for row in self._numbers], dtype=np.float64) for i in (2, 3, 4)
        )
        sparse = self.settings.sparse_output
        if sparse == "auto":
            sparse = width > _SPARSE_WIDTH and self.density < _SPARSE_DENSITY * width
        return TableEncoding(
            width,
            bool(sparse),
            self._nonnegative,
            _integers([row[:2] for row in self._numbers], 2),
            fill,
            center,
            scale,
            _integers(self._indicators, 2),
            _integers(self._categories, 3),
            offsets,
            hashes,
            features,
            _integers(self._dates, 5),
        )

    @property
    def _nonnegative(self) -> bool:
        return self.settings.center is False

    def _add(self, name: str, density: float = 1.0) -> int:
        """Add a feature and return its index."""
        while name in self._used:
            name += "_"
        self._used.add(name)
        self.names.append(name)
        self.density += density
        return len(self.names) - 1

    def _number(self, column: TableColumn, at: int, name: str) -> str:
        """Add a number or a boolean."""
        i = self.place[at]
        dropped = self._drop_reason(i)
        if dropped:
            return dropped + self._indicate_missing(at, name, i)
        scaled = column.kind == NUMBER and self.settings.scale is not False
        self._add_number(at, name, i, scaled=scaled)
        mark = mark_of(column.format[-1:]) if column.kind == NUMBER else ""
        action = column.kind + (f" in {mark}" if mark else "") + (", scaled" if scaled else "")
        return action + self._fill_missing(at, name, i)

    def _drop_reason(self, i: int) -> str:
        if self.keep:
            return ""
        if not self.statistics.moments.present[i]:
            return "dropped: all cells are missing"
        if self.constant[i]:
            return "dropped: constant"
        return "dropped: counts rows" if self.counts_rows[i] else ""

    def _add_number(self, at: int, name: str, i: int, *, scaled: bool, center: bool = True) -> int:
        density = 1.0
        shift, unit = 0.0, 1.0
        if scaled:
            shift = float(self.center[i]) if center and not self._nonnegative else 0.0
            unit = float(self.spread[i])
        if not shift:
            density = float(self.filled[i])
        feature = self._add(name, density)
        self._numbers.append((at, feature, float(self.fill[i]), shift, unit))
        return feature

    def _add_indicator(self, at: int, name: str, i: int) -> None:
        moments = self.statistics.moments
        share = moments.missing[i] / (moments.missing[i] + moments.present[i])
        self._indicators.append((at, self._add(f"{name}_missing", float(share))))

    def _indicate_missing(self, at: int, name: str, i: int) -> str:
        """Add an indicator for a constant column with missing cells, and describe it."""
        moments = self.statistics.moments
        if not moments.missing[i] or not moments.present[i]:
            return ""
        self._add_indicator(at, name, i)
        return f"; {float(moments.missing[i]):,.15g} missing have an indicator"

    def _fill_missing(self, at: int, name: str, i: int) -> str:
        """Add an indicator where cells are missing, and describe it."""
        missing = float(self.statistics.moments.missing[i])
        if not missing:
            return ""
        self._add_indicator(at, name, i)
        value = f"{self.fill[i]:.6g}"
        if at in self.statistics.dates:
            value = str(np.datetime64(int(np.floor(self.fill[i])), "s"))
        return f"; {missing:,.15g} missing filled with {value}"

    def _list(self, column: TableColumn, span: slice) -> str:
        """Add a list of numbers."""
        before = len(self.names)
        actions = [
            self._number(column, at, name)
            for at, name in zip(range(span.start, span.stop), column.names, strict=True)
        ]
        dropped = sum(action.startswith("dropped") for action in actions)
        if len(self.names) == before:
            return actions[0]
        scaled = ", scaled" if self.settings.scale is not False else ""
        return f"{column.size - dropped:,} numbers{scaled}" + (
            f"; {dropped:,} constant ones dropped" if dropped else ""
        )

    def _text(self, column: TableColumn, span: slice) -> str:
        """Add counts of words that vary, never centered: most of them are 0."""
        scaled = self.settings.scale is not False
        used = 0
        for at, name in zip(range(span.start, span.stop), column.names, strict=True):
            i = self.place[at]
            if self.keep or not self.constant[i]:
                self._add_number(at, name, i, scaled=scaled, center=False)
                used += 1
        if not used:
            return "dropped: constant"
        rest = "" if used == column.size else f", of which {used:,} vary"
        action = f"text, counts of words hashed into {column.size:,}{rest}"
        return action + (", scaled" if scaled else "")

    def _date(self, column: TableColumn, span: slice) -> str:
        """Add a date: its number, and points on the circles of the parts that vary."""
        at, i = span.start, self.place[span.start]
        dropped = self._drop_reason(i)
        # a date of every day is no counter of rows
        if dropped and dropped != "dropped: counts rows":
            return dropped + self._indicate_missing(at, column.name, i)
        number = self._add(column.name)
        center, spread = float(self.center[i]), float(self.spread[i])
        self._numbers.append((at, number, float(self.fill[i]), center, spread))
        varies = self.statistics.parts.varies[self.statistics.dates.index(at)]
        sines = []
        for part, used in zip(_PARTS, varies, strict=True):
            sines.append(self._add(f"{column.name}_{part}_sin") if used else -1)
            if used:
                self._add(f"{column.name}_{part}_cos")
        self._dates.append((at, number, *sines))
        parts = [part for part, used in zip(_PARTS, varies, strict=True) if used]
        return ", ".join(["date, scaled", *parts]) + self._fill_missing(at, column.name, i)

    def _category(self, column: TableColumn, span: slice) -> str:
        at, settings = span.start, self.settings
        counts = self.statistics.counts[self.statistics.categories.index(at)]
        missing, distinct = counts.missing, counts.distinct
        if not self.keep:
            if not counts.rows:
                return "dropped: all cells are missing"
            if distinct == 1 and not missing:
                return "dropped: constant"
            if distinct > settings.max_categories and distinct >= _ID_SHARE * counts.rows:
                share = min(distinct / counts.rows, 1.0)
                return f"dropped: {share:.0%} of its values are distinct, as those of an id"
            if counts.truncated and not settings.n_hashed:
                return f"dropped: about {distinct:,.0f} values, and n_hashed is 0"
        codes, weights = counts.hashes, counts.weights
        if missing:
            codes, weights = np.append(codes, MISSING), np.append(weights, missing)
        # the most frequent first; of equal ones that with the larger hash, as scikit-learn keeps
        order = np.argsort(weights, kind="stable")[::-1]
        frequent, size = self._frequent(counts, codes, weights, order)
        features = np.full(len(codes), -1, dtype=np.int64)
        total = max(float(weights.sum()), 1e-300)
        for place in order[frequent[order]]:
            word = "missing" if codes[place] == MISSING else f"{int(codes[place]):x}"
            features[place] = self._add(f"{column.name}_{word}", float(weights[place]) / total)
        own = int(np.count_nonzero(frequent & (codes != MISSING)))
        others = int(np.count_nonzero(~frequent))
        share, unknown = float(weights[~frequent].sum()) / total, -1
        action = f"category, {own:,} value{'s' * (own != 1)}"
        if size > 1:
            unknown = len(self.names)
            for i in range(size):
                self._add(f"{column.name}_hash{i}", share / size)
            about = "about " if counts.truncated else ""
            kept = f"{own:,} most frequent of " if own else ""
            action = f"category, {kept}{about}{distinct:,.0f} values"
            action += f"{', others' if own else ''} hashed into {size}"
            if counts.truncated or len(codes) > _MOST_KEPT:
                codes, features = codes[frequent], features[frequent]
            else:
                features[~frequent] = unknown + codes[~frequent] % size
        elif others:
            unknown = self._add(f"{column.name}_infrequent", share)
            features[~frequent] = unknown
            action += f" + infrequent ({others:,} merged)"
        self._categories.append((at, unknown, size if others else 0))
        self._tables.append((codes.astype(np.int64), features))
        return action + (f"; {missing:,.15g} missing as a value" if missing else "")

    def _frequent(
        self, counts: CategoryCounts, codes: Array, weights: Array, order: Array
    ) -> tuple[Array, int]:
        """Return which values have a feature of their own, and the features of all others."""
        settings = self.settings
        least = settings.min_frequency
        threshold = 0.0 if least is None else float(least)
        if least is not None and not isinstance(least, int | np.integer):
            threshold *= float(weights.sum())
        frequent: Array = weights >= threshold
        if counts.truncated:  # the most frequent values are not known
            return codes == MISSING, max(settings.n_hashed, 1)
        features = np.count_nonzero(frequent) + (not frequent.all())
        # one feature of all values, merged, would be constant
        if features <= settings.max_categories and (frequent.any() or not settings.n_hashed):
            return frequent, 1
        frequent[order[settings.max_categories - 1 :]] = False
        return frequent, max(settings.n_hashed, 1)


def _integers(rows: Any, columns: int) -> Array:
    return np.array(rows, dtype=np.int64).reshape(-1, columns)


def _is_of_histograms(feature_map: Map) -> bool:
    """Return whether a map is of a kernel of histograms, or all maps side by side are."""
    parts = getattr(feature_map, "maps", None)
    if isinstance(parts, list | tuple) and parts:
        from mercer.maps.compose import Stacked

        if isinstance(feature_map, Stacked):
            return all(map(_is_of_histograms, parts))
        return _is_of_histograms(parts[0])
    if feature_map.domain == "nonnegative":
        return True
    kernel = feature_map._kernel_name
    names = (kernel,) if isinstance(kernel, str) else feature_map.kernels
    return bool(names) and _OF_HISTOGRAMS.issuperset(names)
