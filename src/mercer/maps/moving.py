"""Rows and features on their way: tensors in and out, rows of NumPy to a device and back, and the
arrays that features go into.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils.validation import _check_n_features

from mercer import ops
from mercer.errors import RowError
from mercer.maps._transform import TileTransform, for_rows, in_dtype
from mercer.maps.block import Array, Coded, Dense, Sparse, at_home, fresh, stacked
from mercer.parallel import devices
from mercer.parallel.threads import spans


def tensor_rows(estimator: Any, X: Any, *, reset: bool) -> Any:
    """A tensor as an array of floats of the right width, where it is."""
    who = type(estimator).__name__
    rows = devices.entered(X)
    if rows.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {rows.ndim}D tensor instead: {who} needs rows and columns."
        )
    for axis, words in ((0, "sample(s)"), (1, "feature(s)")):
        if rows.shape[axis] == 0:
            raise ValueError(
                f"Found array with 0 {words} (shape={rows.shape}) while a minimum of 1 is "
                f"required by {who}."
            )
    _check_n_features(estimator, rows, reset=reset)
    return rows if rows.dtype.kind == "f" else rows.astype(np.float64)


def there_and_back(
    who: str, X: Any, drawn: TileTransform, make: Callable[[Any, Any, None], Any], out: Array | None
) -> Any:
    """make(rows, drawn, None) for rows of NumPy, which go to the device some at a time; what it
    makes comes back as NumPy has it.
    """
    place = devices.here()
    assert place is not None
    n, d = X.shape
    cast = in_dtype(drawn, X.dtype)
    shape = (n, cast.columns(d))
    sparse = hasattr(X, "indptr") and not cast.dense(
        True
    )  # CSR rows are made dense there, and their features CSR again here
    given = None if out is None else room(who, X, out, shape)
    back, parts = devices.returning(place), []
    step = devices.tile_rows(cast.cost(d).bytes, place, travelling=True)
    for rows, tile in devices.ahead(spans(n, step), lambda span: X[span], place):

        def work(part: slice, rows: slice = rows, tile: Any = tile) -> None:
            nonlocal given
            at = slice(rows.start + part.start, rows.start + part.stop)
            try:
                made = make(tile[part], for_rows(drawn, tile), None)
            except RowError as error:
                raise error.at(at.start) from None
            if ops.is_device(made) and sparse:
                made = Dense(made).tocsr()
            if not ops.is_device(made):
                parts.append(at_home(made) if isinstance(made, Coded) else Sparse(made))
                return
            given = fresh(shape, made.dtype) if given is None else given
            back.bring(made, given[at])

        devices.each(work, tile.shape[0], tile.shape[0], place)
    back.finish()
    if not parts:
        return given
    whole = stacked(parts)
    return whole if isinstance(whole, Coded) else whole.tocsr()


def room(who: str, X: Any, out: Any, shape: tuple[int, int]) -> Any:
    """out as an array that features of this shape can be written to, beside X; refused where it is
    none.
    """
    out = devices.entered(out)
    alike = ops.is_device(out) == ops.is_device(X) and ops.is_array(out)
    if ops.is_device(out) and alike:
        if out.shape != shape or out.dtype != X.dtype or out.tensor.device != X.tensor.device:
            found = f"a {out.dtype} {out.shape} on {out.tensor.device}"
            raise ValueError(
                f"{who}: out must be a {X.dtype} tensor of shape {shape} beside X, got {found}."
            )
        return out
    if not alike or out.shape != shape or out.dtype != X.dtype or not out.flags.writeable:
        found = (
            f"{'a' if out.flags.writeable else 'a read-only'} {out.dtype} {out.shape}"
            if isinstance(out, np.ndarray)
            else type(out).__name__
        )
        raise ValueError(
            f"{who}: out must be a writeable {X.dtype} array of shape {shape}, got {found}."
        )
    data = X.data if hasattr(X, "indptr") else X
    if np.may_share_memory(out, data) and np.shares_memory(out, data):
        raise ValueError(f"{who}: out must not share memory with X.")
    return out
