"""Validate sparse matrices by their arrays alone, before any method of SciPy, which trusts them,
reads or writes through their indices.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from mercer.errors import RowError

Array = NDArray[Any]

_ENTRIES = 2**18  # compared at a time, so that the mask stays in the cache
_INSTEAD = (
    "Find where its arrays were changed, or build it again from values, rows and columns, which "
    "SciPy checks then: "
    "scipy.sparse.coo_array((values, (rows, columns)), shape=shape).tocsr()."
)


def canonical_csr(who: str, X: Any) -> Any:
    """X as a CSR matrix of its own dtype whose columns rise in each row, none twice: X itself is
    never changed.

    The arrays decide, not the flags that SciPy keeps of them (has_canonical_format,
    has_sorted_indices). Entries of the same row and column are added up, as SciPy does.

    Parameters
    ----------
    who : str
        The estimator, function or file that an error names.
    X : sparse matrix or array of SciPy, or anything with a method tocsr
    """
    validate_sparse(who, X)
    csr = X.tocsr()
    if csr is not X:
        validate_sparse(who, csr)
    csr = copy.copy(csr)  # shares the arrays; flags and attributes are its own
    kind = np.promote_types(csr.indptr.dtype.newbyteorder("="), csr.indices.dtype.newbyteorder("="))
    kind = np.dtype(np.int32 if kind.itemsize <= 4 and kind.kind == "i" else np.int64)
    csr.indptr, csr.indices = (
        np.require(part, kind, ["C", "A"]) for part in (csr.indptr, csr.indices)
    )
    csr.data = np.require(csr.data, csr.data.dtype.newbyteorder("="), ["C", "A"])
    if not _rises(csr.indptr, csr.indices):
        csr.data, csr.indices, csr.indptr = csr.data.copy(), csr.indices.copy(), csr.indptr.copy()
        csr.has_canonical_format = csr.has_sorted_indices = False
        csr.sum_duplicates()
    csr.has_canonical_format = True
    return csr


def validate_sparse(who: str, X: Any) -> None:
    """Raise a ValueError that names what is wrong with the arrays of a sparse matrix of SciPy;
    other objects pass.

    Parameters
    ----------
    who : str
        The estimator, function or file that an error names.
    X : object
    """
    check = _CHECKS.get(getattr(X, "format", None)) if hasattr(X, "tocsr") else None
    if check is None:
        return
    if len(X.shape) != 2:
        raise ValueError(
            f"{who} needs 2-d arrays of real numbers, got {len(X.shape)}-d of {X.dtype}."
        )
    dtype = getattr(X, "dtype", None)
    if dtype is not None and dtype.kind not in "biufc":
        raise ValueError(f"{who} needs 2-d arrays of real numbers, got 2-d of {dtype}.")
    check(who, X)


def _check_csr(who: str, X: Any) -> None:
    _check_compressed(who, "CSR", X, ("row", "column"), X.shape, (1, 1))


def _check_csc(who: str, X: Any) -> None:
    _check_compressed(who, "CSC", X, ("column", "row"), X.shape[::-1], (1, 1))


def _check_bsr(who: str, X: Any) -> None:
    block = X.data.shape[1:] if isinstance(X.data, np.ndarray) else ()
    if (
        len(block) != 2
        or 0 in block
        or any(size % length for size, length in zip(X.shape, block, strict=True))
    ):
        _refuse(
            who, "BSR", f"data must be blocks whose shape divides {X.shape}, got {_shape(X.data)}"
        )
    shape = tuple(size // length for size, length in zip(X.shape, block, strict=True))
    _check_compressed(who, "BSR", X, ("row", "column"), shape, block)


def _check_compressed(
    who: str,
    layout: str,
    X: Any,
    axes: tuple[str, str],
    shape: tuple[int, ...],
    block: tuple[int, ...],
) -> None:
    """Validate indptr, indices and data of shape[0] compressed rows (columns, blocks of rows) of
    shape[1] places each.
    """
    indptr, indices, data = X.indptr, X.indices, X.data
    major, minor = axes
    lines = f"{major}s" if block == (1, 1) else f"{major}s of blocks"
    _require_integers(who, layout, indptr=indptr, indices=indices)
    if not isinstance(data, np.ndarray) or data.ndim != (
        1 if block == (1, 1) and layout != "BSR" else 3
    ):
        _refuse(who, layout, f"data must be an array of its entries, got {_shape(data)}")
    if len(indptr) != shape[0] + 1:
        _refuse(
            who,
            layout,
            f"indptr needs {shape[0] + 1} numbers for {shape[0]} {lines}, got {len(indptr)}",
        )
    if len(indices) != len(data):
        _refuse(
            who,
            layout,
            f"indices has {len(indices)} entries and data {len(data)}; as many are needed",
        )
    if indptr[0] != 0:
        _refuse(who, layout, f"indptr must start with 0, got {indptr[0]}")
    falls = np.flatnonzero(indptr[1:] < indptr[:-1])
    if len(falls):
        line = int(falls[0])
        after = f", where it must not fall. {_INSTEAD}"
        seen = f"indptr falls from {indptr[line]} to {indptr[line + 1]} at"
        raise _error(who, layout, seen, axes, line * block[0], after)
    if indptr[-1] != len(indices):
        _refuse(
            who,
            layout,
            f"indptr ends with {indptr[-1]}, and there are {len(indices)} entries; they must agree",
        )
    at = _first_outside(indices, shape[1])
    if at is not None:
        line = int(np.searchsorted(indptr, at, side="right") - 1)
        needed = f"0 to {shape[1] - 1}" if shape[1] else "none, since there are no such places,"
        of = minor if block == (1, 1) else f"block {minor}"
        after = f" (its entry {at - int(indptr[line])}), and {needed} may be used. {_INSTEAD}"
        raise _error(who, layout, f"the {of} index {indices[at]} at", axes, line * block[0], after)


def _check_coo(who: str, X: Any) -> None:
    coords = {"row": X.coords[0], "col": X.coords[1]} if len(X.coords) == 2 else {}
    if not coords:
        _refuse(who, "COO", f"coords must be two arrays, rows and columns, got {len(X.coords)}")
    _require_integers(who, "COO", **coords)
    if not isinstance(X.data, np.ndarray) or X.data.ndim != 1:
        _refuse(who, "COO", f"data must be an array of its entries, got {_shape(X.data)}")
    for (name, places), size in zip(coords.items(), X.shape, strict=True):
        if len(places) != len(X.data):
            _refuse(
                who,
                "COO",
                f"{name} has {len(places)} entries and data {len(X.data)}; as many are needed",
            )
        at = _first_outside(places, size)
        if at is not None:
            _refuse(
                who,
                "COO",
                f"{name} has the index {places[at]} (entry {at}), and {size} {name}s are there",
            )


def _check_dia(who: str, X: Any) -> None:
    _require_integers(who, "DIA", offsets=X.offsets)
    if not isinstance(X.data, np.ndarray) or X.data.ndim != 2 or len(X.data) != len(X.offsets):
        _refuse(
            who,
            "DIA",
            f"data must have a row for each of {len(X.offsets)} offsets, got {_shape(X.data)}",
        )
    if len(np.unique(X.offsets)) != len(X.offsets):
        _refuse(who, "DIA", "an offset occurs twice")


def _check_lil(who: str, X: Any) -> None:
    """Validate the lengths of the lists; their numbers are those of the CSR matrix that is made of
    them, and checked there.
    """
    for name, lists in (("rows", X.rows), ("data", X.data)):
        if not isinstance(lists, np.ndarray) or lists.dtype != object or lists.shape != X.shape[:1]:
            _refuse(
                who,
                "LIL",
                f"{name} must have a list for each of {X.shape[0]} rows, got {_shape(lists)}",
            )
    for row, (places, values) in enumerate(zip(X.rows, X.data, strict=True)):
        if type(places) is not list or type(values) is not list or len(places) != len(values):
            after = f", where lists of one length are needed. {_INSTEAD}"
            raise _error(who, "LIL", "other columns than values at", ("row", "column"), row, after)


_CHECKS: dict[Any, Callable[[str, Any], None]] = {
    "csr": _check_csr,
    "csc": _check_csc,
    "bsr": _check_bsr,
    "coo": _check_coo,
    "dia": _check_dia,
    "lil": _check_lil,
}


def _rises(indptr: Array, indices: Array) -> bool:
    """Whether columns rise strictly inside each row; indptr and indices are validated."""
    for start in range(1, len(indices), _ENTRIES):
        stop = min(start + _ENTRIES, len(indices))
        rises = indices[start:stop] > indices[start - 1 : stop - 1]
        low, high = np.searchsorted(indptr, [start, stop])
        rises[indptr[low:high] - start] = True  # the first entry of a row
        if not rises.all():
            return False
    return True


def _first_outside(places: Array, size: int) -> int | None:
    """The first entry that is not in 0 ... size - 1."""
    if not len(places) or (places.min() >= 0 and places.max() < size):
        return None
    return int(np.argmax((places < 0) | (places >= size)))


def _require_integers(who: str, layout: str, **arrays: Any) -> None:
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind not in "iu":
            _refuse(who, layout, f"{name} must be a 1-d array of integers, got {_shape(array)}")


def _shape(array: Any) -> str:
    return (
        f"{array.dtype} of shape {array.shape}"
        if isinstance(array, np.ndarray)
        else f"a {type(array).__name__}"
    )


def _refuse(who: str, layout: str, seen: str) -> NoReturn:
    raise ValueError(f"{who}: X is a malformed {layout} matrix: {seen}. {_INSTEAD}")


def _error(
    who: str, layout: str, seen: str, axes: tuple[str, str], line: int, after: str
) -> ValueError:
    """An error about a row, or about a column of a CSC matrix."""
    before = f"{who}: X is a malformed {layout} matrix: {seen}"
    return (
        RowError(line, before, after)
        if axes[0] == "row"
        else ValueError(f"{before} {axes[0]} {line}{after}")
    )
