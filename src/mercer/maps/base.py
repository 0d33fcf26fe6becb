"""Map: the base class of all feature maps, a scikit-learn transformer."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils import metadata_routing
from sklearn.utils._set_output import _wrap_data_with_container
from sklearn.utils.validation import _check_n_features, check_is_fitted, validate_data

from mercer import ops
from mercer._typing import Array, is_csr
from mercer.data import Stream, open_stream
from mercer.data.batches import Tiles, blocks_of
from mercer.data.in_memory import frame_library
from mercer.data.stream import as_float, is_lazy
from mercer.data.table_schema import TableSchema
from mercer.errors import RowError
from mercer.kernels import Kernel
from mercer.kernels.registry import canonical_name
from mercer.maps._size import AUTO, auto_size
from mercer.maps._transform import TileTransform, adapt_transform, cast_transform
from mercer.maps.block import (
    Block,
    Coded,
    Dense,
    Sparse,
    allocate_features,
    block_to_host,
    matrix,
    stack_blocks,
)
from mercer.parallel.device import (
    current_device,
    device_context,
    device_of,
    device_tile_rows,
    for_each_device_tile,
    from_tensor,
    host_copies,
    is_tensor,
    prefetch,
    sparse_tensor,
    tensor_of,
)
from mercer.parallel.threads import for_each, one_blas_thread, row_slices
from mercer.parallel.tile_size import (
    CSR_TILE_ROWS,
    TILE_ROWS,
    Cost,
    is_cheaper_to_redraw,
    sparse_tile_rows,
    tile_rows,
)
from mercer.rng import Rng, seed_from
from mercer.stats.base import CombinedStatistics, Statistic
from mercer.stats.basic import Magnitude, RowCount
from mercer.stats.reduce import accumulate
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
from mercer.validation.times import reject_times

if TYPE_CHECKING:
    from mercer.maps.compose import Composed, Stacked


@dataclass(frozen=True)
class Rate:
    """Convergence rate of a random map: Gram error ~ size ** slope, or steeper unless exact.

    Where the size ends at the d columns of the data, the error ~ (size / (1 - size/d)) ** slope,
    which is 0 at d.
    """

    slope: float
    exact: bool
    ends: bool = False


@dataclass(frozen=True)
class Decay:
    """Convergence rate of a deterministic map: from each size to the next, error <= factor error.

    Attributes
    ----------
    sizes : tuple of int
    factor : float
    """

    sizes: tuple[int, ...]
    factor: float


INDEPENDENT = Rate(-0.5, exact=True)  # independent samples
STRUCTURED = Rate(-0.43, exact=False)  # orthogonal, Hadamard, low-discrepancy
SUBSPACE = Rate(-0.5, exact=True, ends=True)  # orthogonal rows of which there are at most d


@dataclass(frozen=True, eq=False)
class Bounds:
    """Range of values that a map was fitted for: a number, or one for each column."""

    estimator_name: str
    low: Any
    high: Any

    def __call__(self, rows: Any, *, numbered: bool = True) -> bool:
        """Warn once about rows outside the range, and return whether there were any.

        The warning names the row where rows are numbered from the first of the data.
        """
        return warn_outside(self.estimator_name, rows, self.low, self.high, numbered=numbered)

    def contain(self, largest: float) -> bool:
        """Return whether [0, largest] is inside the range of every column; False for NaN."""
        return bool(np.max(self.low) <= 0 and largest <= np.min(self.high))


@dataclass(frozen=True, eq=False)
class ArrayTiles:
    """Tiles of an array or a CSR matrix, or of features of it by the maps before another.

    The tiles of a stream are ``mercer.data.batches.Tiles``.
    """

    rows: Any
    before: tuple[tuple[Map, Map | None], ...] = ()  # fitted maps, and the map after each

    def then(self, fitted: Map, following: Map | None) -> ArrayTiles:
        """Return the features of these tiles by a fitted map, for the map that follows."""
        return ArrayTiles(self.rows, (*self.before, (fitted, following)))

    def __iter__(self) -> Iterator[Block]:
        start = 0
        for tile in blocks_of(self.rows):
            try:
                for fitted, following in self.before:
                    tile = fitted._transform_between(tile, following)
            except RowError as error:
                raise error.with_offset(start) from None
            yield tile
            start += tile.shape[0]


class Map(
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    BaseEstimator,
    auto_wrap_output_keys=None,  # type: ignore[call-arg]  # transform() wraps, except with out=
):
    """Explicit feature map: <phi(x), phi(z)> approaches kernel_(x, z).

    A subclass defines ``__init__`` (which stores its arguments), ``kernel_``,
    ``build(rng, d, statistics)``, ``cases()`` and, where it depends on data,
    ``required_statistics(d)``.

    Attributes
    ----------
    seed_ : int
        The seed in use; a list of seeds for compositions.
    tile_transform_ : TileTransform
        The sampled weights, and the function of a tile of rows that they define.
    """

    name: ClassVar[str | None] = None  # in the registry; None for compositions
    kernels: ClassVar[tuple[str, ...]] = ()  # names of the kernels that parameters choose from
    paper: ClassVar[str] = ""
    domain: ClassVar[str] = "real"
    # What to do with rows outside the domain.
    domain_advice: ClassVar[str] = "For signed data use GCWS or RandomFourier."
    size_parameter: ClassVar[str | None] = "n_components"  # a larger value lowers the error
    size_follows_rows: ClassVar[bool] = False  # the size may be "auto": see maps/_size.py
    nested: ClassVar[bool] = True  # a larger size extends the weights of a smaller one, up to scale
    # phi(x) projects the features of kernel_ on a subspace: with r(x) = k(x, x) - |phi(x)|^2 >= 0,
    # no error is above sqrt(r(x) r(z)).
    is_projection: ClassVar[bool] = False
    # Fitted attributes are NumPy arrays for every kind of X, which the array API does not allow.
    numpy_attributes: ClassVar[bool] = False
    parameter_constraints: ClassVar[Constraints] = {}
    statistics_name: ClassVar[str] = "histogram of values"  # of required_statistics, in plans
    random: ClassVar[bool] = True  # the features depend on random_state, where there is one
    accepts_missing: ClassVar[bool] = False  # NaN stands for a missing cell; else it is refused
    bounds_: ClassVar[Bounds | None] = None  # range of values it was fitted for, if not its domain

    # Fitted attributes and their types: a model file has these, scikit-learn's, and no others.
    # Subclasses add their own.
    seed_: Any
    tile_transform_: TileTransform
    _statistics_: Any = None  # the filled statistics, where they are small beside the weights
    _counted_: Any = False  # whether a pass over the rows had no other purpose than to count them
    _not_saved: ClassVar[tuple[str, ...]] = ("_statistics_", "_counted_")

    # out= of transform is an array to write into, nothing that a pipeline could route.
    __metadata_request__transform: ClassVar[dict[str, str]] = {"out": metadata_routing.UNUSED}

    # Defined by subclasses.

    @property
    def kernel_(self) -> Kernel:
        """The exact kernel that the features approximate."""
        raise NotImplementedError

    @property
    def _kernel_name(self) -> Any:
        """The parameter kernel: its name where it is an alias, as it is where it is no string."""
        kernel = getattr(self, "kernel", None)
        return canonical_name(kernel) if isinstance(kernel, str) else kernel

    @property
    def limit_(self) -> Kernel | None:
        """The limit of <phi(x), phi(z)> as the size grows; None where it has no closed form.

        It is ``kernel_`` unless the map has a bias.
        """
        return self.kernel_

    @property
    def rate(self) -> Rate | Decay | None:
        """The convergence rate of the Gram error in the size; None for an exact map."""
        return INDEPENDENT

    @property
    def depends_on_units(self) -> bool:
        """Whether the bandwidth is computed from differences of rows.

        Columns of large numbers then outweigh the others, whatever they mean, unless all columns
        are scaled first.
        """
        return False

    @property
    def table_schema_(self) -> TableSchema | None:
        """Schema by which tables are read; None where all columns are numbers."""
        return None

    def before(self, following: Map) -> Map:
        """Return this map as it is fitted in front of another: itself, or a copy.

        Parameters
        ----------
        following : Map
        """
        return self

    def size_for(self, error: float, delta: float) -> int | None:
        """Return the size for which a pair's error is below `error` with probability 1 - delta.

        Parameters
        ----------
        error, delta : float

        Returns
        -------
        int or None
            It holds for any data; None where no bound is known.
        """
        return None

    def check(self, d: int) -> None:
        """Raise a ValueError for parameters that are not valid for d columns.

        Parameters
        ----------
        d : int
        """

    def required_statistics(self, d: int) -> Statistic | None:
        """Return the empty statistics of the data that ``build`` needs; None for none.

        Parameters
        ----------
        d : int
            Columns of the data.
        """
        return None

    def build(self, rng: Rng, d: int, statistics: Any) -> TileTransform:
        """Sample the weights of the map for d columns.

        Parameters
        ----------
        rng : Rng
        d : int
        statistics : Statistic or None
            The ``required_statistics(d)``, filled with the rows of the data.

        Returns
        -------
        TileTransform
        """
        raise NotImplementedError

    @classmethod
    def cases(cls) -> list[Map]:
        """Return small instances for tests, documentation and benchmarks."""
        raise NotImplementedError

    # The transformer.

    def fit(self, X: Any, y: Any = None) -> Self:
        """Compute the statistics that the map needs of X, and sample its weights.

        Parameters
        ----------
        X : array-like, sparse matrix or Dask array of shape (n_samples, n_features)
            A map that begins with ``Tabular`` accepts frames and Arrow tables of mixed columns.
        y : ignored

        Returns
        -------
        self
        """
        if is_lazy(X) or (self.accepts_missing and _is_mixed_table(X)):
            return self._fit_stream(open_stream(X))
        rows = self._validate_input(X, reset=True)
        return self._fit_tiles(rows.shape[1], ArrayTiles(rows))

    def transform(self, X: Any, out: Array | None = None) -> Any:
        """Compute the features of X.

        Parameters
        ----------
        X : array-like, sparse matrix or Dask array of shape (n_samples, n_features)
        out : array of shape (n_samples, n_features_out), optional
            Array to write dense features into, of their dtype. It is returned as it is, whatever
            ``set_output`` has configured.

        Returns
        -------
        Z : array, CSR matrix or data frame of shape (n_samples, n_features_out)
        """
        if is_lazy(X):
            features = self._transform_dask(X)
        else:
            rows = self._convert_fitted_input(X)
            on_device = ops.is_device(rows) or current_device() is not None
            dense = self.tile_transform_.dense(is_csr(rows))
            if out is not None and not dense:
                raise ValueError(
                    f"{type(self).__name__}: out= is for dense features, and this input gives "
                    "sparse ones."
                )
            with self._error_reporting(rows) as largest:
                if on_device:
                    features = self._compute_on_device(rows, self._device_features, out)
                else:
                    transform = cast_transform(self.tile_transform_, rows.dtype)
                    if dense:
                        cost = transform.cost(rows.shape[1])
                        features = self._output_array(rows, cost.columns, out)
                        work = partial(
                            self._transform_tile,
                            transform,
                            rows,
                            out=features,
                            check_values=True,
                            largest=largest,
                        )
                        tiles, cost = _dense_tiles(rows, cost)
                        for_each(work, tiles, cost, rows.shape[0], getattr(self, "n_jobs", None))
                    else:
                        features = self._stack_tiles(rows, transform, transform).tocsr()
        if out is not None:
            return features
        return _wrap_data_with_container("transform", features, X, self)

    def blocks(self, X: Any) -> Iterator[Block]:
        """Iterate over the features of X in blocks of consecutive rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        iterator of Block
            Only one block is in memory at a time.
        """
        rows = self._validate_fitted_input(X)
        return self._iterate_blocks(rows, adapt_transform(self.tile_transform_, rows))

    def with_size(self, size: int) -> Self:
        """Return an unfitted copy with another size.

        Parameters
        ----------
        size : int
            The value of the parameter that ``size_parameter`` names.
        """
        return clone(self).set_params(**{str(self.size_parameter): size})

    def for_rows(self, n: int) -> Self:
        """Return an unfitted copy whose size, where it is "auto", is the one for n rows.

        Parameters
        ----------
        n : int

        Returns
        -------
        Map
            The map itself where it has no such size.
        """
        return self.with_size(auto_size(n)) if self._has_auto_size else self

    def __rshift__(self, other: Map) -> Composed:
        """Return the composition self >> other: other on the features of self."""
        from mercer.maps.compose import Composed

        return Composed.flat(self, other) if isinstance(other, Map) else NotImplemented

    def __add__(self, other: Map) -> Stacked:
        """Return self + other: the features of both, side by side."""
        from mercer.maps.compose import Stacked

        return Stacked.flat(self, other) if isinstance(other, Map) else NotImplemented

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.accepts_missing
        tags.input_tags.positive_only = self.domain == "nonnegative"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        sparse_output = getattr(self, "sparse_output", False)
        tags.array_api_support = not self.numpy_attributes and not sparse_output
        return tags

    @property
    def _n_features_out(self) -> int:
        return self.tile_transform_.cost(self.n_features_in_).columns

    # Fitting.

    def _fit_tiles(self, d: int, tiles: ArrayTiles | Tiles) -> Self:
        """Fit to validated tiles of d columns: rows, or features of the maps before this one."""
        name = type(self).__name__
        validate_parameters(self)
        self.check(d)
        self.n_features_in_ = d
        # 0 for maps without random weights, so that a fit gives the same file every time
        self.seed_ = seed_from(name, getattr(self, "random_state", 0))
        required, statistics = self.required_statistics(d), None
        # None where the rows of a stream have not been counted yet
        n = tiles.stream.rows if isinstance(tiles, Tiles) else int(tiles.rows.shape[0])
        auto = self._has_auto_size
        self._counted_ = auto and n is None and required is None
        with _reproducible_arithmetic():
            if self._counted_:
                n = accumulate(tiles, RowCount()).rows
            elif required is not None:
                n, statistics = _compute_statistics(name, tiles, required)
            if self.size_follows_rows:
                size = auto_size(n or 0) if auto else getattr(self, str(self.size_parameter))
                setattr(self, f"{self.size_parameter}_", int(size))
            self.tile_transform_ = self.build(Rng(self.seed_), d, statistics)
        # for the workers of a cluster, where they are small beside the weights
        sent = "dask" in sys.modules and statistics is not None
        self._statistics_ = statistics if sent and self._can_redraw(statistics) else None
        return self

    def _fit_stream(self, stream: Stream) -> Self:
        """Fit to the rows of a stream, which are read once for each pass that the map needs."""
        self._fit_tiles(stream.width, Tiles(stream, clone(self)))
        if stream.columns is not None:
            self.feature_names_in_ = np.asarray(stream.columns, dtype=object)
        return self

    @property
    def _has_auto_size(self) -> bool:
        size = getattr(self, str(self.size_parameter), None)
        return self.size_follows_rows and isinstance(size, str) and size == AUTO

    # Features, tile by tile.

    def _transform_tile(
        self,
        transform: TileTransform,
        X: Any,
        rows: slice,
        out: Array | None = None,
        *,
        check_values: bool = False,
        compute: Callable[..., Block] | None = None,
        largest: dict[int, float] | None = None,
    ) -> Block:
        """Return the features of some rows of X, written into those of `out`.

        With check_values the numbers are validated here, where they are read into the cache
        anyway, and not again where the transform finds the largest of them, which is stored in
        `largest` under the first row. `compute` replaces the transform as the function of the tile.
        """
        tile = X if rows.stop - rows.start == X.shape[0] else X[rows]
        on_device = ops.is_device(tile)
        if on_device:
            tile = np.ascontiguousarray(tile, like=tile)
        elif not is_csr(tile):
            tile = np.ascontiguousarray(tile)  # the same bits for every memory order
        check_values = check_values and not (compute is None and transform.validates_input)
        found = check_values and transform.finds_largest and type(tile) is np.ndarray
        try:
            if check_values and on_device:
                tile.start_extremes()  # the result is read once the device has its work
            elif check_values and not found:
                self._validate_values(tile)
            block = (compute or transform)(tile, None if out is None else out[rows])
            if found and isinstance(block, Coded) and block.largest is not None:
                if np.isnan(block.largest):
                    self._validate_values(tile)
                if largest is not None:
                    largest[rows.start] = block.largest
            elif check_values and (on_device or found):
                self._validate_values(tile)
            return block
        except RowError as error:
            raise error.with_offset(rows.start, type(self).__name__) from None

    def _transform_block(self, X: Any) -> Block:
        """Return the features of validated rows as one block: dense, sparse or coded."""
        transform = adapt_transform(self.tile_transform_, X)
        if transform.block_kind(is_csr(X), on_device=ops.is_device(X)) is not Dense:
            return self._stack_tiles(X, transform, transform, check_values=False)
        cost = transform.cost(X.shape[1])
        out = ops.empty((X.shape[0], cost.columns), X.dtype, X)
        work = partial(self._transform_tile, transform, X, out=out)
        if ops.is_device(X):
            _run_on_device(work, X, cost)
        else:
            tiles, cost = _dense_tiles(X, cost)
            for_each(work, tiles, cost, X.shape[0], getattr(self, "n_jobs", None))
        return Dense(out)

    def _transform_between(self, block: Block, following: Map | None) -> Block:
        """Return the features of a block, validated for the domain of the map that follows."""
        try:
            rows = matrix(block)
            features: Block = adapt_transform(self.tile_transform_, rows)(rows)
            if following is not None:
                following._validate_domain(matrix(features))
        except RowError as error:
            raise error.with_offset(0, type(self).__name__) from None
        return features

    def _stack_tiles(
        self,
        X: Any,
        transform: TileTransform,
        compute: Callable[..., Block],
        *,
        check_values: bool = True,
        largest: dict[int, float] | None = None,
    ) -> Block:
        """Return compute(tile) of all tiles as one block.

        The cost is that of the values that are stored, so tiles may be long.
        """
        n, d = X.shape
        density = X.nnz / (n * d) if is_csr(X) else 1.0
        cost = transform.cost(d)
        cost = Cost(cost.flops * density, 2 * cost.bytes * density)
        own = None if compute is transform else compute
        blocks: dict[int, Block] = {}

        def work(rows: slice) -> None:
            blocks[rows.start] = self._transform_tile(
                transform, X, rows, check_values=check_values, compute=own, largest=largest
            )

        if ops.is_device(X):
            _run_on_device(work, X, cost)
        else:
            tiles = list(row_slices(n, sparse_tile_rows(cost)))
            for_each(work, tiles, cost, n, getattr(self, "n_jobs", None))
        return stack_blocks([blocks[start] for start in sorted(blocks)])

    def _iterate_blocks(self, X: Any, transform: TileTransform) -> Iterator[Block]:
        n, d = X.shape
        cost = transform.cost(d)
        device = device_of(X) if ops.is_device(X) else None
        step = tile_rows(cost) if device is None else device_tile_rows(cost.bytes, device)
        for rows in row_slices(n, step):
            with one_blas_thread():
                block = self._transform_tile(transform, X, rows)
            yield block

    def _output_array(self, X: Any, columns: int, out: Array | None) -> Array:
        """Return an array for the dense features of X: `out`, validated, or a new one."""
        shape = (X.shape[0], columns)
        if out is not None:
            return validate_out(type(self).__name__, X, out, shape)
        if ops.is_device(X):
            return ops.empty(shape, X.dtype, X)
        return allocate_features(shape, X.dtype)

    # Validation.

    def _validate_input(self, X: Any, *, reset: bool = False) -> Any:
        """Return X as a float array or a canonical CSR matrix of finite numbers in the domain.

        It may be the caller's own: it is not to be written to.
        """
        rows = self._convert_input(X, reset=reset)
        self._validate_values(rows)
        return rows

    def _validate_fitted_input(self, X: Any) -> Any:
        """Return X as rows for the fitted map; warn about values outside its bounds."""
        check_is_fitted(self)
        rows = self._validate_input(X)
        if self.bounds_ is not None:
            self.bounds_(rows)
        return rows

    def _convert_fitted_input(self, X: Any) -> Any:
        """Return X as a float array or a canonical CSR matrix of the width that was fitted."""
        if not hasattr(self, "tile_transform_"):  # check_is_fitted takes as long as a row does
            check_is_fitted(self)
        if type(X) is np.ndarray and self._is_plain(X):
            return X
        return self._convert_input(X, reset=False)

    def _convert_input(self, X: Any, *, reset: bool) -> Any:
        """Return X as a float array or a canonical CSR matrix; its values are not validated."""
        estimator_name = type(self).__name__
        if is_tensor(X):
            return convert_tensor(self, X, reset=reset)
        if self.accepts_missing and not reset and _is_table(X):
            schema = self.table_schema_
            if schema is not None:
                return _read_table(X, schema)
        X = as_numpy(estimator_name, X) if isinstance(X, np.ma.MaskedArray) else X
        X = drop_index_columns(X, () if reset else getattr(self, "feature_names_in_", ()))
        reject_times(estimator_name, X)
        sparse = hasattr(X, "tocsr")
        X = canonical_csr(estimator_name, X) if sparse else X
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
            message = describe_text(estimator_name, X)
            raise (ValueError(message) if message else error) from None
        sparse_frame = is_csr(rows) and not sparse  # a data frame of sparse columns
        return canonical_csr(estimator_name, rows) if sparse_frame else rows

    def _is_plain(self, X: Any) -> bool:
        """Return whether validate_data would return X unchanged.

        True for a float array or CSR matrix of the fitted width, where columns have no names.
        """
        if type(X) is not np.ndarray and not (issparse(X) and X.format == "csr"):
            return False
        return (
            X.ndim == 2
            and X.dtype in (np.float32, np.float64)
            and not hasattr(self, "feature_names_in_")
            and X.shape[0] > 0
            and X.shape[1] == self.n_features_in_
        )

    def _validate_values(self, rows: Any, names: Any = None) -> None:
        """Raise a RowError unless rows are finite and in the domain; names are of the columns."""
        names = getattr(self, "feature_names_in_", None) if names is None else names
        least, largest = value_range(rows)
        if not (np.isfinite(least) and np.isfinite(largest)):
            if self.accepts_missing:
                rows = _without_missing(rows)
                least, _ = value_range(rows)
            require_finite(type(self).__name__, rows, names)
        if least < 0:
            self._validate_domain(rows, names)

    def _validate_domain(self, rows: Any, names: Any = None) -> None:
        if self.domain == "nonnegative":
            require_nonnegative(type(self).__name__, rows, names, advice=self.domain_advice)

    @contextmanager
    def _error_reporting(self, rows: Any) -> Iterator[dict[int, float]]:
        """Report the first invalid row, whichever tile failed first; then warn about bounds.

        Rows are not read again where the largest number of each tile, by its first row, is put
        into the dictionary, and none is outside the bounds.
        """
        largest: dict[int, float] = {}
        try:
            yield largest
        except RowError:
            self._validate_values(rows)
            raise
        bounds = self.bounds_
        if bounds is not None and not (largest and all(map(bounds.contain, largest.values()))):
            bounds(rows)

    # Dask and devices.

    def _transform_dask(self, X: Any) -> Any:
        """Return the features of a Dask array as a Dask array."""
        from mercer.parallel.dask_cluster import map_chunks

        check_is_fitted(self)
        sparse = not self.tile_transform_.dense(hasattr(X._meta, "tocsr"))
        dtype = as_float([X.dtype])
        return map_chunks(self, "transform", X, self._n_features_out, dtype, sparse=sparse)

    def _device_features(self, X: Any, transform: TileTransform, out: Array | None) -> Any:
        """Return the features of rows on a device: an array there, or CSR."""
        if transform.dense(False):
            cost = transform.cost(X.shape[1])
            out = self._output_array(X, cost.columns, out)
            work = partial(self._transform_tile, transform, X, out=out, check_values=True)
            _run_on_device(work, X, cost)
            return out
        block = self._stack_tiles(X, transform, transform)
        return sparse_tensor(block) if current_device() is None else block.tocsr()

    def _compute_on_device(
        self,
        X: Any,
        compute: Callable[[Any, TileTransform, Array | None], Any],
        out: Array | None = None,
    ) -> Any:
        """Return compute(rows, transform, out) evaluated on a device.

        A tensor is used where it is. NumPy rows are copied to the device of ``use_device`` some at
        a time, and results are copied back.
        """
        if ops.is_device(X):
            return tensor_of(compute(X, adapt_transform(self.tile_transform_, X), out))
        device = current_device()
        assert device is not None
        n, d = X.shape
        transform = cast_transform(self.tile_transform_, X.dtype)
        cost = transform.cost(d)
        shape = (n, cost.columns)
        # CSR rows are made dense on the device, and their features CSR again on the host.
        sparse = is_csr(X) and not transform.dense(True)
        result = None if out is None else validate_out(type(self).__name__, X, out, shape)
        back, blocks = host_copies(device), []
        step = device_tile_rows(cost.bytes, device, transferred=True)
        for rows, tile in prefetch(row_slices(n, step), lambda span: X[span], device):

            def work(part: slice, rows: slice = rows, tile: Any = tile) -> None:
                nonlocal result
                span = slice(rows.start + part.start, rows.start + part.stop)
                try:
                    features = compute(
                        tile[part], adapt_transform(self.tile_transform_, tile), None
                    )
                except RowError as error:
                    raise error.with_offset(span.start) from None
                if ops.is_device(features) and sparse:
                    features = Dense(features).tocsr()
                if not ops.is_device(features):
                    coded = isinstance(features, Coded)
                    blocks.append(block_to_host(features) if coded else Sparse(features))
                    return
                if result is None:
                    result = allocate_features(shape, features.dtype)
                back.start(features, result[span])

            for_each_device_tile(work, tile.shape[0], tile.shape[0], device)
        back.finish()
        if not blocks:
            return result
        block = stack_blocks(blocks)
        return block if isinstance(block, Coded) else block.tocsr()

    # Other processes and model files. A process is sent the parameters, the seed and the
    # statistics where these are smaller than the weights and Dask was imported before the fit; a
    # file has the weights.

    def _pack(self) -> Self:
        """Return a copy without the weights, where _unpack can sample them again."""
        packed = copy.copy(self)
        required = self.required_statistics(self.n_features_in_)
        available = required is None or self._statistics_ is not None
        if available and self._can_redraw(self._statistics_):
            del packed.tile_transform_
        return packed

    def _unpack(self) -> Self:
        """Return a copy with the weights that _pack left out."""
        if hasattr(self, "tile_transform_"):
            return self
        unpacked = copy.copy(self)
        with _reproducible_arithmetic():
            unpacked.tile_transform_ = unpacked.build(
                Rng(self.seed_), self.n_features_in_, self._statistics_
            )
        return unpacked

    def _fitted_state(self) -> dict[str, Any]:
        """Return the fitted attributes: beside the parameters, all that a model file holds."""
        left_out = {*self.get_params(deep=False), *self._not_saved}
        return {name: value for name, value in vars(self).items() if name not in left_out}

    def _set_fitted_state(self, attributes: dict[str, Any]) -> None:
        """Set the fitted attributes."""
        self.__dict__.update(attributes)

    def _can_redraw(self, statistics: Any) -> bool:
        """Return whether statistics are so small that a process is sent them, not the weights."""
        weights = sum(array.nbytes for array in self.tile_transform_.arrays().values())
        return is_cheaper_to_redraw(0, weights) and is_cheaper_to_redraw(
            _pickled_bytes(statistics), weights
        )


@contextmanager
def _reproducible_arithmetic() -> Iterator[None]:
    """Compute on the CPU, BLAS on one thread: the bits of the weights depend on nothing else."""
    on_host: AbstractContextManager[None] = (
        nullcontext() if current_device() is None else device_context(None)
    )
    with on_host, one_blas_thread():
        yield


def _compute_statistics(
    estimator_name: str, tiles: ArrayTiles | Tiles, required: Statistic
) -> tuple[int, Statistic]:
    """Return the number of rows and the statistics of all rows.

    Raises
    ------
    ValueError
        If numbers are too large or too small for statistics.
    """
    try:
        magnitude, statistics = accumulate(
            tiles, CombinedStatistics(Magnitude(estimator_name), required)
        ).parts
    except RowError as error:
        if isinstance(tiles, Tiles) and not error.location:
            raise tiles.stream.locate(error) from None
        raise
    magnitude.require_representable()
    return magnitude.rows, statistics


def _without_missing(rows: Any) -> Any:
    """Return rows with 0 in place of NaN, in host memory."""
    if is_csr(rows):
        filled = rows.copy()
        filled.data = np.where(np.isnan(rows.data), 0, rows.data)
        return filled
    rows = np.asarray(rows)
    return np.where(np.isnan(rows), rows.dtype.type(0), rows)


def _is_table(X: Any) -> bool:
    """Return whether X is a data frame or an Arrow table."""
    return frame_library(X) is not None or hasattr(X, "__arrow_c_stream__")


def _is_mixed_table(X: Any) -> bool:
    """Return whether X is a table with columns that are neither integers nor floats."""
    if not _is_table(X):
        return False
    if frame_library(X) == "pandas":
        return not all(getattr(dtype, "kind", "O") in "iuf" for dtype in X.dtypes)
    if frame_library(X) == "polars":
        return not all(dtype.is_numeric() for dtype in X.dtypes)
    return True


def _read_table(X: Any, schema: TableSchema) -> Any:
    """Return the matrix of a table by the schema of a fitted map."""
    stream: Any = open_stream(X, schema=schema)
    return np.concatenate([chunk.X for chunk in stream.chunks()])


def _dense_tiles(X: Any, cost: Cost) -> tuple[list[slice], Cost]:
    """Return the tiles of X for dense features, and the cost of a row: less for CSR rows."""
    n, d = X.shape
    most_rows = TILE_ROWS
    if is_csr(X):
        cost, most_rows = cost.sparse(d, X.nnz / (n * d)), CSR_TILE_ROWS
    return list(row_slices(n, tile_rows(cost, most_rows))), cost


def _run_on_device(work: Callable[[slice], Any], X: Any, cost: Cost) -> None:
    """Call work(rows) for all tiles of X, in sequence on its device."""
    device = device_of(X)
    assert device is not None
    for_each_device_tile(work, X.shape[0], device_tile_rows(cost.bytes, device), device)


def _pickled_bytes(statistics: Any) -> int:
    """Return the bytes of pickled statistics; arrays are counted, not copied."""
    arrays: list[pickle.PickleBuffer] = []
    header = pickle.dumps(statistics, 5, buffer_callback=arrays.append)
    return len(header) + sum(array.raw().nbytes for array in arrays)


def convert_tensor(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Return a torch tensor as a 2-d array of floats of the right width, on its device.

    Parameters
    ----------
    estimator : estimator
        Its ``n_features_in_`` is compared, or set with reset.
    X : torch.Tensor
    reset : bool
    """
    estimator_name = type(estimator).__name__
    rows = from_tensor(X)
    if rows.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {rows.ndim}D tensor instead: {estimator_name} needs rows "
            "and columns."
        )
    for axis, words in ((0, "sample(s)"), (1, "feature(s)")):
        if rows.shape[axis] == 0:
            raise ValueError(
                f"Found array with 0 {words} (shape={rows.shape}) while a minimum of 1 is "
                f"required by {estimator_name}."
            )
    _check_n_features(estimator, rows, reset=reset)
    return rows if rows.dtype.kind == "f" else rows.astype(np.float64)


def validate_out(estimator_name: str, X: Any, out: Any, shape: tuple[int, int]) -> Any:
    """Return `out` as an array for features of X of this shape.

    Raises
    ------
    ValueError
        If its type, device, shape or dtype is another, it is read-only, or shares memory with X.
    """
    out = from_tensor(out)
    same_device = ops.is_device(out) == ops.is_device(X) and ops.is_array(out)
    if ops.is_device(out) and same_device:
        if out.shape != shape or out.dtype != X.dtype or out.tensor.device != X.tensor.device:
            raise ValueError(
                f"{estimator_name}: out must be a {X.dtype} tensor of shape {shape} on the "
                "device of X, got "
                f"a {out.dtype} {out.shape} on {out.tensor.device}."
            )
        return out
    if not same_device or out.shape != shape or out.dtype != X.dtype or not out.flags.writeable:
        if isinstance(out, np.ndarray):
            article = "a" if out.flags.writeable else "a read-only"
            description = f"{article} {out.dtype} {out.shape}"
        else:
            description = type(out).__name__
        raise ValueError(
            f"{estimator_name}: out must be a writeable {X.dtype} array of shape {shape}, got "
            f"{description}."
        )
    data = X.data if is_csr(X) else X
    if np.may_share_memory(out, data) and np.shares_memory(out, data):
        raise ValueError(f"{estimator_name}: out must not share memory with X.")
    return out


def names_of_statistics(fitted: Map) -> tuple[str, ...]:
    """Return the names of the statistics of a fitted map: one pass over the rows for each.

    The parts of a composition are fitted one after the other.
    """
    parts = getattr(fitted, "maps_", None)
    if parts is not None:
        return tuple(name for part in parts for name in names_of_statistics(part))
    if fitted.required_statistics(fitted.n_features_in_) is not None:
        return (fitted.statistics_name,)
    return ("row count",) if fitted._counted_ else ()
