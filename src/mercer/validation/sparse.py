"""Validate the arrays of sparse matrices before SciPy, which trusts them, uses their indices."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mercer._typing import Array
from mercer.errors import RowError

# Entries compared at a time, so that the mask stays in the cache.
_CHUNK_ENTRIES = 2**18
_ADVICE = (
    "Find where its arrays were changed, or build it again from values, rows and columns, which "
    "SciPy then validates: scipy.sparse.coo_array((values, (rows, columns)), shape=shape).tocsr()."
)


def canonical_csr(estimator_name: str, X: Any) -> Any:
    """Return X as a CSR matrix with sorted column indices and no duplicates; X is not modified.

    The arrays decide, not SciPy's flags (has_canonical_format, has_sorted_indices). Duplicate
    entries are summed, as SciPy does.

    Parameters
    ----------
    estimator_name : str
        The estimator, function or file that an error names.
    X : sparse matrix or array of SciPy, or any object with a method tocsr

    Returns
    -------
    csr : sparse matrix or array, of the dtype of X
    """
    validate_sparse(estimator_name, X)
    csr = X.tocsr()
    if csr is not X:
        validate_sparse(estimator_name, csr)
    csr = copy.copy(csr)  # shares the arrays; flags and attributes are its own
    given = np.promote_types(*(part.dtype.newbyteorder("=") for part in (csr.indptr, csr.indices)))
    dtype = np.dtype(np.int32 if given.itemsize <= 4 and given.kind == "i" else np.int64)
    csr.indptr, csr.indices = (
        np.require(part, dtype, ["C", "A"]) for part in (csr.indptr, csr.indices)
    )
    csr.data = np.require(csr.data, csr.data.dtype.newbyteorder("="), ["C", "A"])
    if not _is_canonical(csr.indptr, csr.indices):
        csr.data, csr.indices, csr.indptr = csr.data.copy(), csr.indices.copy(), csr.indptr.copy()
        csr.has_canonical_format = csr.has_sorted_indices = False
        csr.sum_duplicates()
    csr.has_canonical_format = True
    return csr


def validate_sparse(estimator_name: str, X: Any) -> None:
    """Raise a ValueError that names what is malformed in a sparse matrix of SciPy.

    Other objects are not validated.

    Parameters
    ----------
    estimator_name : str
        The estimator, function or file that an error names.
    X : object
    """
    check = _CHECKS.get(getattr(X, "format", None)) if hasattr(X, "tocsr") else None
    if check is None:
        return
    if len(X.shape) != 2:
        raise ValueError(
            f"{estimator_name} needs 2-d arrays of real numbers, got {len(X.shape)}-d of {X.dtype}."
        )
    dtype = getattr(X, "dtype", None)
    if dtype is not None and dtype.kind not in "biufc":
        raise ValueError(f"{estimator_name} needs 2-d arrays of real numbers, got 2-d of {dtype}.")
    problem = check(X)
    if problem is None:
        return
    layout = f"{estimator_name}: X is a malformed {X.format.upper()} matrix"
    if isinstance(problem, str):
        raise ValueError(f"{layout}: {problem}. {_ADVICE}")
    before, after = f"{layout}: {problem.before} at", f"{problem.after}. {_ADVICE}"
    if problem.axis == "row":
        raise RowError(problem.line, before, after)
    raise ValueError(f"{before} {problem.axis} {problem.line}{after}")


class _LineProblem(NamedTuple):
    """A problem of one row, or of one column of a CSC matrix."""

    axis: str
    line: int
    before: str
    after: str


_Problem = str | _LineProblem | None


def _check_csr(X: Any) -> _Problem:
    return _check_compressed(X, ("row", "column"), X.shape, (1, 1))


def _check_csc(X: Any) -> _Problem:
    return _check_compressed(X, ("column", "row"), X.shape[::-1], (1, 1))


def _check_bsr(X: Any) -> _Problem:
    block = X.data.shape[1:] if isinstance(X.data, np.ndarray) else ()
    if (
        len(block) != 2
        or 0 in block
        or any(size % length for size, length in zip(X.shape, block, strict=True))
    ):
        return f"data must be blocks whose shape divides {X.shape}, got {_describe(X.data)}"
    shape = tuple(size // length for size, length in zip(X.shape, block, strict=True))
    return _check_compressed(X, ("row", "column"), shape, block)


def _check_compressed(
    X: Any, axes: tuple[str, str], shape: tuple[int, ...], block: tuple[int, ...]
) -> _Problem:
    """Check indptr, indices and data of shape[0] compressed rows, columns or rows of blocks."""
    indptr, indices, data = X.indptr, X.indices, X.data
    major, minor = axes
    lines = f"{major}s" if block == (1, 1) else f"{major}s of blocks"
    problem = _check_integers(indptr=indptr, indices=indices)
    if problem is not None:
        return problem
    if not isinstance(data, np.ndarray) or data.ndim != (3 if X.format == "bsr" else 1):
        return f"data must be an array of its entries, got {_describe(data)}"
    if len(indptr) != shape[0] + 1:
        return f"indptr needs {shape[0] + 1} numbers for {shape[0]} {lines}, got {len(indptr)}"
    if len(indices) != len(data):
        return f"indices has {len(indices)} entries and data {len(data)}; equal numbers are needed"
    if indptr[0] != 0:
        return f"indptr must start with 0, got {indptr[0]}"
    decreases = np.flatnonzero(indptr[1:] < indptr[:-1])
    if len(decreases):
        line = int(decreases[0])
        before = f"indptr decreases from {indptr[line]} to {indptr[line + 1]}"
        return _LineProblem(major, line * block[0], before, ", and must not decrease")
    if indptr[-1] != len(indices):
        entries = f"there are {len(indices)} entries; they must agree"
        return f"indptr ends with {indptr[-1]}, and {entries}"
    at = _first_outside(indices, shape[1])
    if at is None:
        return None
    line = int(np.searchsorted(indptr, at, side="right") - 1)
    allowed = f"0 to {shape[1] - 1} are allowed" if shape[1] else f"there are no {minor}s"
    of = minor if block == (1, 1) else f"block {minor}"
    after = f" (its entry {at - int(indptr[line])}), and {allowed}"
    return _LineProblem(major, line * block[0], f"the {of} index {indices[at]}", after)


def _check_coo(X: Any) -> _Problem:
    if len(X.coords) != 2:
        return f"coords must be two arrays, rows and columns, got {len(X.coords)}"
    coords = {"row": X.coords[0], "col": X.coords[1]}
    problem = _check_integers(**coords)
    if problem is not None:
        return problem
    if not isinstance(X.data, np.ndarray) or X.data.ndim != 1:
        return f"data must be an array of its entries, got {_describe(X.data)}"
    for (name, indices), size in zip(coords.items(), X.shape, strict=True):
        if len(indices) != len(X.data):
            equal = "equal numbers are needed"
            return f"{name} has {len(indices)} entries and data {len(X.data)}; {equal}"
        at = _first_outside(indices, size)
        if at is not None:
            matrix = f"a matrix with {size} {name}s"
            return f"{name} has the index {indices[at]} (entry {at}) of {matrix}"
    return None


def _check_dia(X: Any) -> _Problem:
    problem = _check_integers(offsets=X.offsets)
    if problem is not None:
        return problem
    if not isinstance(X.data, np.ndarray) or X.data.ndim != 2 or len(X.data) != len(X.offsets):
        offsets = f"each of {len(X.offsets)} offsets"
        return f"data must have a row for {offsets}, got {_describe(X.data)}"
    return "an offset occurs twice" if len(np.unique(X.offsets)) != len(X.offsets) else None


def _check_lil(X: Any) -> _Problem:
    """Check the lengths of the lists; their values are validated after the conversion to CSR."""
    for name, lists in (("rows", X.rows), ("data", X.data)):
        if not isinstance(lists, np.ndarray) or lists.dtype != object or lists.shape != X.shape[:1]:
            return f"{name} must have a list for each of {X.shape[0]} rows, got {_describe(lists)}"
    for row, (indices, values) in enumerate(zip(X.rows, X.data, strict=True)):
        if type(indices) is not list or type(values) is not list or len(indices) != len(values):
            after = ", where two lists of equal length are needed"
            return _LineProblem("row", row, "columns and values do not match", after)
    return None


_CHECKS: dict[Any, Callable[[Any], _Problem]] = {
    "csr": _check_csr,
    "csc": _check_csc,
    "bsr": _check_bsr,
    "coo": _check_coo,
    "dia": _check_dia,
    "lil": _check_lil,
}


def _is_canonical(indptr: Array, indices: Array) -> bool:
    """Return whether column indices increase strictly inside each row."""
    for start in range(1, len(indices), _CHUNK_ENTRIES):
        stop = min(start + _CHUNK_ENTRIES, len(indices))
        increases = indices[start:stop] > indices[start - 1 : stop - 1]
        low, high = np.searchsorted(indptr, [start, stop])
        increases[indptr[low:high] - start] = True  # the first entry of a row
        if not increases.all():
            return False
    return True


def _first_outside(indices: Array, size: int) -> int | None:
    """Return the position of the first index outside 0 ... size - 1, or None."""
    if not len(indices) or (indices.min() >= 0 and indices.max() < size):
        return None
    return int(np.argmax((indices < 0) | (indices >= size)))


def _check_integers(**arrays: Any) -> str | None:
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind not in "iu":
            return f"{name} must be a 1-d array of integers, got {_describe(array)}"
    return None


def _describe(array: Any) -> str:
    return (
        f"{array.dtype} of shape {array.shape}"
        if isinstance(array, np.ndarray)
        else f"a {type(array).__name__}"
    )
