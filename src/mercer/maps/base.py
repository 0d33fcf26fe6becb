"""Map: the scikit-learn contract, written once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils import metadata_routing
from sklearn.utils.validation import check_is_fitted, validate_data

from mercer import ops
from mercer.data import Stream, open_stream
from mercer.data.batches import Piece, Tiles, blocks_of
from mercer.data.dask import is_lazy
from mercer.data.stream import as_float
from mercer.errors import RowError
from mercer.kernels import Kernel
from mercer.maps._statistics import compute_statistics
from mercer.maps._transform import TileTransform, for_rows
from mercer.maps.block import Block, Dense, fresh, matrix, stacked
from mercer.maps.moving import room, tensor_rows, there_and_back
from mercer.maps.packing import Packing
from mercer.maps.rates import INDEPENDENT as INDEPENDENT
from mercer.maps.rates import STRUCTURED as STRUCTURED
from mercer.maps.rates import SUBSPACE as SUBSPACE
from mercer.maps.rates import Decay as Decay
from mercer.maps.rates import Rate as Rate
from mercer.parallel import devices
from mercer.parallel.dask_cluster import map_chunks
from mercer.parallel.threads import each, one_blas_thread, spans, width
from mercer.parallel.tile_size import CSR_TILE_ROWS, TILE_ROWS, Cost, long_tile_rows, tile_rows
from mercer.rng import Rng, seed_from
from mercer.stats.basic import Statistic
from mercer.validation.parameters import Constraints, validate_parameters
from mercer.validation.rows import (
    as_numpy,
    describe_text,
    drop_index_columns,
    require_finite,
    require_nonnegative,
    value_range,
    warn_outside,
)
from mercer.validation.sparse import canonical_csr
from mercer.validation.times import refuse_times

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Bounds:
    """The range that a map was made for, a number or one for each column: rows outside it get one
    warning.
    """

    who: str
    low: Any
    high: Any

    def __call__(self, rows: Any, *, numbered: bool = True) -> bool:
        """Warn about rows that are outside, and say whether there were any; numbered, when rows
        count from the first of the data.
        """
        return warn_outside(self.who, rows, self.low, self.high, numbered=numbered)


class _Contained(TransformerMixin, BaseEstimator):
    """transform(X), which scikit-learn wraps so that set_output has its say."""

    def transform(self, X: Any) -> Any:
        return self._features(X)


class Map(ClassNamePrefixFeaturesOutMixin, Packing, _Contained, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """An explicit feature map: <phi(x), phi(z)> approaches kernel_(x, z).

    A subclass writes ``__init__`` (stores its arguments), ``kernel_``, ``draw(rng, d, seen)``,
    ``cases()``, and, where it must see data, ``look(d)``. Everything else is here.
    """

    name: ClassVar[str | None] = None  # the registered name; None for compositions
    kernels: ClassVar[tuple[str, ...]] = ()  # the kernels that its parameters choose from, by name
    paper: ClassVar[str] = ""
    domain: ClassVar[str] = "real"
    domain_advice: ClassVar[str] = (
        "For signed data use GCWS or RandomFourier."  # the way out for rows outside the domain
    )
    size_parameter: ClassVar[str | None] = "n_components"  # the parameter that buys accuracy
    nested: ClassVar[bool] = True  # a larger knob keeps what a smaller one drew, up to its scale
    numpy_attributes: ClassVar[bool] = (
        # fitted attributes that are arrays of NumPy, whatever X is: not what the array API asks for
        False
    )
    parameter_constraints: ClassVar[Constraints] = {}
    random: ClassVar[bool] = True  # another random_state is another map, where there is one

    # What fit finds, by its type: a model file has these attributes, scikit-learn's, and no others.
    # A subclass adds its own.
    seed_: Any  # the seed in use; a list of seeds for compositions
    tile_transform_: TileTransform

    # out= of transform is an array to write into, nothing that a pipeline could route.
    __metadata_request__transform: ClassVar[dict[str, str]] = {"out": metadata_routing.UNUSED}

    @property
    def kernel_(self) -> Kernel:
        """The exact kernel that the features approximate."""
        raise NotImplementedError

    @property
    def limit_(self) -> Kernel | None:
        """The kernel that is reached as the knob grows: kernel_, unless the map has a bias; None
        where it has no closed form.
        """
        return self.kernel_

    @property
    def rate(self) -> Rate | Decay | None:
        """How the Gram error falls as the knob grows; None for an exact map."""
        return INDEPENDENT

    def size_for(self, error: float, delta: float) -> int | None:
        """The knob for which a pair's error is below `error` with probability 1 - delta, whatever
        the data; None where none is known.
        """
        return None

    @property
    def bounds_(self) -> Bounds | None:
        """The range that the map was made for; None when it takes all of its domain."""
        return None

    def check(self, d: int) -> None:
        """Refuse parameters that are wrong for d columns, in one sentence each."""

    def required_statistics(self, d: int) -> Statistic | None:
        """What the map must know of the data before it is drawn; None when that is nothing."""
        return None

    def build(self, rng: Rng, d: int, statistics: Any) -> TileTransform:
        """The map for d columns; seen is the summary that look() asked for, filled."""
        raise NotImplementedError

    @classmethod
    def cases(cls) -> list[Map]:
        """Small instances for tests, docs and benchmarks."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any = None) -> Self:
        """Look at the rows of X where the map needs to, and draw its weights.

        Parameters
        ----------
        X : array-like, sparse matrix or Dask array of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        self
        """
        if is_lazy(X):
            return self._fit_stream(open_stream(X))
        X = self._enter(X, reset=True)
        return self._fit_blocks(X.shape[1], lambda: blocks_of(X))

    def blocks(self, X: Any) -> Iterator[Block]:
        """The features of X block by block, in order; never all of them at once."""
        X, drawn = self._ready(X)
        return self._tiles(X, drawn)

    def transform(self, X: Any, out: Array | None = None) -> Any:
        """The features of X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        out : array of shape (n_samples, n_features_out), optional
            Where to write dense features. It must have their dtype; it is returned as it is,
            whatever set_output says.

        Returns
        -------
        Z : array, CSR matrix or data frame of shape (n_samples, n_features_out)
        """
        return super().transform(X) if out is None else self._features(X, out)

    def with_size(self, size: int) -> Self:
        """An unfitted copy with another value of the knob."""
        return clone(self).set_params(**{str(self.size_parameter): size})

    def __rshift__(self, other: Map) -> Map:
        """self >> other: other on the features of self."""
        from mercer.maps.compose import Composed

        return Composed.flat(self, other) if isinstance(other, Map) else NotImplemented

    def __add__(self, other: Map) -> Map:
        """self + other: the features of both side by side."""
        from mercer.maps.compose import Stacked

        return Stacked.flat(self, other) if isinstance(other, Map) else NotImplemented

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = self.domain == "nonnegative"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.array_api_support = not self.numpy_attributes and not getattr(
            self, "sparse_output", False
        )
        return tags

    @property
    def _n_features_out(self) -> int:
        return self.tile_transform_.columns(self.n_features_in_)

    def _fit_blocks(self, d: int, blocks: Callable[[], Iterator[Block | Piece] | Tiles]) -> Self:
        """fit for rows that were let in already, or that another map makes; a Piece has weights
        too.
        """
        validate_parameters(self)
        self.check(d)
        width(getattr(self, "n_jobs", None), type(self).__name__)
        self.n_features_in_ = d
        self.seed_ = seed_from(type(self).__name__, getattr(self, "random_state", None))
        summary = self.required_statistics(d)
        with (
            devices.at(None),
            one_blas_thread(),
        ):  # the CPU, and one thread: nothing else changes a bit of what is drawn
            statistics = (
                None
                if summary is None
                else compute_statistics(type(self).__name__, blocks(), summary)
            )
            self.tile_transform_ = self.build(Rng(self.seed_), d, statistics)
        self._remember(statistics)
        return self

    def _fit_stream(self, stream: Stream) -> Self:
        """fit for a stream: its rows come in at the same door, and are read as often as the map
        must look at them.
        """
        self._fit_blocks(stream.width, lambda: Tiles(stream, clone(self)))
        if stream.columns is not None:
            self.feature_names_in_ = np.asarray(stream.columns, dtype=object)
        return self

    def _step(self, block: Block, following: Map | None) -> Block:
        """The features of a block, in the domain of the map that follows."""
        try:
            rows = matrix(block)
            made: Block = for_rows(self.tile_transform_, rows)(rows)
            if following is not None:
                following._require_domain(matrix(made))
        except RowError as error:
            raise error.at(0, type(self).__name__) from None
        return made

    def _features(self, X: Any, out: Array | None = None) -> Any:
        if is_lazy(X):
            check_is_fitted(self)
            sparse = hasattr(X._meta, "tocsr")
            return map_chunks(
                self,
                "transform",
                X,
                self._n_features_out,
                as_float([X.dtype]),
                sparse=not self.tile_transform_.dense(sparse),
            )

        def make(rows: Any, drawn: TileTransform, out: Array | None) -> Any:
            dense = drawn.dense(hasattr(rows, "indptr"))
            return (self._dense_features if dense else self._sparse_features)(rows, drawn, out)

        return devices.left(self._made(X, make, out))

    def _made(self, X: Any, make: Callable[[Any, Any, Any], Any], out: Array | None = None) -> Any:
        """make(rows, drawn, out), whose tiles are checked on the way; what it says of a row does
        not depend on which tile came first.
        """
        if not hasattr(
            self, "tile_transform_"
        ):  # check_is_fitted makes tags, which takes as long as a row does
            check_is_fitted(self)
        X = self._form(X, reset=False)
        try:
            if devices.here() is not None and not ops.is_device(X):
                Z = there_and_back(type(self).__name__, X, self.tile_transform_, make, out)
            else:
                Z = make(X, for_rows(self.tile_transform_, X), out)
        except RowError:
            self._let_in(X)  # the first of all rows, whichever tile came first
            raise
        if self.bounds_ is not None:
            self.bounds_(X)
        return Z

    def _dense_features(self, X: Any, drawn: TileTransform, out: Array | None) -> Array:
        n, d = X.shape
        shape = (n, drawn.columns(d))
        if out is None:
            out = ops.empty(shape, X.dtype, X) if ops.is_device(X) else fresh(shape, X.dtype)
        else:
            out = self._check_out(X, out, shape)
        return self._fill(X, drawn, out, check_values=True)

    def _fill(
        self, X: Any, drawn: TileTransform, out: Array, *, check_values: bool = False
    ) -> Array:
        """The dense features of X, written into out. With check_values, its numbers are checked on
        the way.
        """

        def work(rows: slice) -> None:
            self._tile(drawn, X, rows, out[rows], check_values=check_values)

        n, d = X.shape
        cost, most_rows = drawn.cost(d), TILE_ROWS
        if hasattr(X, "indptr"):
            cost, most_rows = cost.sparse(d, X.nnz / (n * d)), CSR_TILE_ROWS
        self._each(work, X, cost, most_rows)
        return out

    def _each(self, work: Callable[[slice], None], X: Any, cost: Cost, most_rows: int) -> None:
        """work(rows) for all tiles of X: over threads, or one after the other where X is on a
        device.
        """
        place = devices.place_of(X) if ops.is_device(X) else None
        if place is None:
            each(work, X.shape[0], cost, getattr(self, "n_jobs", None), most_rows)
        else:
            devices.each(work, X.shape[0], devices.tile_rows(cost.bytes, place), place)

    def _block(self, X: Any) -> Block:
        """The features of rows that were let in as one block, of the kind that the map makes of a
        row.
        """
        drawn = for_rows(self.tile_transform_, X)
        if not isinstance(self._tile(drawn, X, slice(0, 1)), Dense):
            return self._whole_block(X, drawn, drawn, check_values=False)
        return Dense(
            self._fill(X, drawn, ops.empty((X.shape[0], drawn.columns(X.shape[1])), X.dtype, X))
        )

    def _sparse_features(self, X: Any, drawn: TileTransform, out: Array | None) -> Any:
        if out is not None:
            raise ValueError(
                f"{type(self).__name__}: out= is for dense features, and this input gives sparse "
                "ones."
            )
        block = self._whole_block(X, drawn, drawn)
        return (
            devices.sparse(block) if ops.is_device(X) and devices.here() is None else block.tocsr()
        )

    def _whole_block(
        self, X: Any, make: Callable[..., Block], drawn: TileTransform, *, check_values: bool = True
    ) -> Block:
        """make(tile) of all rows as one block; what is stored is what costs, so tiles may be long.
        With check_values, rows are checked.
        """
        n, d = X.shape
        cost, share = drawn.cost(d), X.nnz / (n * d) if hasattr(X, "indptr") else 1.0
        cost = Cost(cost.flops * share, 2 * cost.bytes * share)
        parts: dict[int, Block] = {}

        def work(rows: slice) -> None:
            parts[rows.start] = self._tile(make, X, rows, check_values=check_values)

        self._each(work, X, cost, long_tile_rows(cost))
        return stacked([parts[start] for start in sorted(parts)])

    def _tiles(self, X: Any, drawn: TileTransform) -> Iterator[Block]:
        n, d = X.shape
        place = devices.place_of(X) if ops.is_device(X) else None
        cost = drawn.cost(d)
        for rows in spans(
            n, tile_rows(cost) if place is None else devices.tile_rows(cost.bytes, place)
        ):
            with one_blas_thread():
                block = self._tile(drawn, X, rows)
            yield block

    def _tile(
        self,
        drawn: Callable[..., Block],
        X: Any,
        rows: slice,
        out: Array | None = None,
        *,
        check_values: bool = False,
    ) -> Block:
        """The features of some rows. With check_values, their numbers are checked: here, where they
        come into the cache anyway.
        """
        tile = X if rows == slice(0, X.shape[0]) else X[rows]
        if not hasattr(tile, "indptr"):
            tile = np.ascontiguousarray(tile, like=tile)  # the same bits for every memory order
        try:
            wanted = check_values and not getattr(drawn, "validates_input", False)
            if wanted and ops.is_device(tile):
                tile.look()  # and see what was found when the device has its work
            elif wanted:
                self._let_in(tile)
            block = drawn(tile, out)
            if wanted and ops.is_device(tile):
                self._let_in(tile)
            return block
        except RowError as error:
            raise error.at(rows.start, type(self).__name__) from None

    def _ready(self, X: Any) -> tuple[Any, TileTransform]:
        check_is_fitted(self)
        X = self._enter(X, reset=False)
        if self.bounds_ is not None:
            self.bounds_(X)
        return X, for_rows(self.tile_transform_, X)

    def _enter(self, X: Any, *, reset: bool) -> Any:
        """X as a float array or a canonical CSR matrix of finite numbers in the domain; never the
        caller's to write to.
        """
        rows = self._form(X, reset=reset)
        self._let_in(rows)
        return rows

    def _form(self, X: Any, *, reset: bool) -> Any:
        """X as a float array or a canonical CSR matrix."""
        who = type(self).__name__
        if devices.is_tensor(X):
            return tensor_rows(self, X, reset=reset)
        X = as_numpy(who, X) if isinstance(X, np.ma.MaskedArray) else X
        X = drop_index_columns(X, () if reset else getattr(self, "feature_names_in_", ()))
        refuse_times(who, X)
        sparse = hasattr(X, "tocsr")
        X = canonical_csr(who, X) if sparse else X
        if not reset and self._is_plain(X):
            return X
        options: Any = {
            "accept_sparse": "csr",
            "dtype": [np.float64, np.float32],
            "ensure_all_finite": False,
        }
        try:
            rows = validate_data(self, X, reset=reset, **options)
        except ValueError as error:
            sentence = describe_text(who, X)
            raise (ValueError(sentence) if sentence else error) from None
        of_frame = hasattr(rows, "indptr") and not sparse  # whose columns are sparse
        return canonical_csr(who, rows) if of_frame else rows

    def _is_plain(self, X: Any) -> bool:
        """Whether validate_data would hand X back as it is: a float array or CSR matrix of the
        right width, no names of columns.
        """
        if type(X) is not np.ndarray and not (issparse(X) and X.format == "csr"):
            return False
        known = (
            X.ndim == 2
            and X.dtype in (np.float32, np.float64)
            and not hasattr(self, "feature_names_in_")
        )
        return known and X.shape[0] > 0 and X.shape[1] == self.n_features_in_

    def _let_in(self, rows: Any, names: Any = None) -> None:
        """Refuse rows that are not finite or not in the domain; names are those of the columns."""
        names = getattr(self, "feature_names_in_", None) if names is None else names
        least, largest = value_range(rows)
        if not (np.isfinite(least) and np.isfinite(largest)):
            require_finite(type(self).__name__, rows, names)
        if least < 0:
            self._require_domain(rows, names)

    def _require_domain(self, rows: Any, names: Any = None) -> None:
        if self.domain == "nonnegative":
            require_nonnegative(type(self).__name__, rows, names, instead=self.domain_advice)

    def _check_out(self, X: Any, out: Any, shape: tuple[int, int]) -> Any:
        """out as an array that features can be written to; refused where it is none."""
        return room(type(self).__name__, X, out, shape)
