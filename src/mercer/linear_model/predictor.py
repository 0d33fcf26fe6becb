"""Linear predictors b + z'c on the features z of a map: coefficients, and scores of a stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer._repr import short_repr
from mercer._typing import Array
from mercer.data import Chunk, Stream
from mercer.errors import RowError
from mercer.linear_model.posterior import Posterior
from mercer.linear_model.solvers.ridge import AlphaSearch
from mercer.maps._transform import adapt_transform, cast_transform
from mercer.maps.base import Map
from mercer.maps.block import Dense
from mercer.parallel.device import (
    Device,
    current_device,
    device_tile_rows,
    for_each_device_tile,
    prefetch,
)
from mercer.parallel.threads import for_each_tile
from mercer.parallel.tile_size import Cost, rows_per_batch
from mercer.validation.rows import require_finite_features

# How much larger z'c of float32 is than z'c + b where it is computed again: 12 of 24 bits are lost.
_CANCELLED = 2.0**12


@dataclass(frozen=True, eq=False)
class LinearPredictor:
    """f(x) = intercept + coef'z.

    Attributes
    ----------
    coef : array of shape (D, t)
    intercept : array of shape (t,)
    alpha : float
    search : AlphaSearch or None
        None where a single alpha was given.
    kkt : float or None
        Violation of the optimality conditions, for sparse penalties.
    n_iter : int
        Newton steps or conjugate gradient passes; 1 for a direct solution.
    """

    coef: Array
    intercept: Array
    alpha: float
    search: AlphaSearch | None
    kkt: float | None = None
    n_iter: int = 1

    __repr__ = short_repr

    @property
    def is_finite(self) -> bool:
        return bool(np.isfinite(self.coef).all() and np.isfinite(self.intercept).all())

    def validate(self, features: int) -> None:
        """Raise unless there are finite float64 coefficients for this number of features."""
        floats = self.coef.dtype == self.intercept.dtype == np.float64
        if (
            not floats
            or self.coef.shape != (features, *self.intercept.shape)
            or self.intercept.shape in ((), (0,))
        ):
            raise ValueError(
                f"A linear predictor needs a coefficient for each of {features} features, got "
                f"shapes {self.coef.shape} and {self.intercept.shape}."
            )
        if self.search is not None and self.search.alphas.shape != self.search.scores.shape:
            raise ValueError("A linear predictor needs a score for each alpha.")
        if not self.is_finite:
            raise ValueError("A linear predictor needs finite coefficients.")

    def scores(
        self,
        stream: Stream,
        feature_map: Map,
        n_jobs: int | None,
        posterior: Posterior | None = None,
    ) -> Iterator[Array]:
        """Yield b + z'c of consecutive rows, (rows, outputs); features exist tile by tile only.

        With a posterior the last column is the leverage of each row.
        """
        transform = cast_transform(feature_map.tile_transform_, stream.dtype)
        with np.errstate(over="ignore"):
            coef = np.ascontiguousarray(self.coef.astype(stream.dtype))
        if not np.isfinite(coef).all():
            largest = np.abs(self.coef).max()
            raise ValueError(
                f"The model has coefficients up to {largest:.2g}, outside the range of "
                f"{stream.dtype}: give float64 rows."
            )
        outputs, projection = coef.shape[1], None
        cost = transform.cost(stream.width) + Cost(float(coef.size), 0.0)
        if posterior is not None:
            projection = posterior.projection
            cost = cost + Cost(float(projection.size), 8.0 * projection.shape[1])
        warned, device = False, current_device()
        single = device is None and stream.dtype == np.float32
        for chunk, X in _chunks(stream, cost, device):
            out = np.empty((len(chunk), outputs + (posterior is not None)))
            adapted = adapt_transform(feature_map.tile_transform_, X)

            def work(rows: slice, X: Any = X, out: Array = out, adapted: Any = adapted) -> None:
                with np.errstate(over="ignore", invalid="ignore"):
                    block = feature_map._transform_tile(adapted, X, rows, check_values=True)
                    out[rows, :outputs] = block @ coef
                    if single and isinstance(block, Dense):
                        self.restore_cancelled(block.Z, out[rows, :outputs])
                    if posterior is not None:
                        out[rows, outputs] = posterior.leverages(block, projection)

            try:
                if device is None:
                    for_each_tile(work, len(chunk), cost, n_jobs)
                else:
                    for_each_device_tile(
                        work, len(chunk), device_tile_rows(cost.bytes, device), device
                    )
                require_finite_features(chunk.X, out)
            except RowError as error:
                first = _first_error(feature_map, chunk.X, stream.columns, error)
                raise stream.locate(first, chunk.start) from None
            if feature_map.bounds_ is not None and not warned:
                warned = feature_map.bounds_(chunk.X, numbered=chunk.start == 0)
            out[:, :outputs] += self.intercept
            if posterior is not None:
                out[:, outputs] = posterior.exact_leverages(chunk.X, out[:, outputs])
            yield out

    def restore_cancelled(self, Z: Array, scores: Array) -> None:
        """Compute z'c of float32 rows again, in float64, where the intercept cancels most of it.

        As for columns with means far above their spread. Row by row: chunks do not matter.
        """
        cancelled = np.abs(scores) > _CANCELLED * np.abs(scores + self.intercept)
        few = np.flatnonzero(cancelled.any(axis=1))
        if len(few):
            scores[few] = Z[few].astype(np.float64) @ self.coef


def _chunks(stream: Stream, cost: Cost, device: Device | None) -> Iterator[tuple[Chunk, Any]]:
    """Yield the chunks of a stream and their rows, which are on the device where there is one."""
    if device is None:
        return ((chunk, chunk.X) for chunk in stream.blocks(rows_per_batch(cost)))
    rows = device_tile_rows(cost.bytes, device, transferred=True)
    return prefetch(stream.blocks(rows), lambda chunk: chunk.X, device)


def _first_error(feature_map: Map, X: Any, columns: Any, error: RowError) -> RowError:
    """Return the error of the first invalid row of a chunk, whichever tile raised first."""
    try:
        feature_map._validate_values(X, columns)
    except RowError as first:
        return first
    return error
