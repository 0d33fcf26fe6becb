"""gram(kernel, X, Z): exact Gram matrices, tile by tile."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.kernels import Kernel
from mercer.planner import Cost
from mercer.tiles import each

_FLOPS_PER_ENTRY = 8.0  # a kernel's work for one pair and one column, about


def gram(kernel: Kernel, X: Any, Z: Any = None, *, n_jobs: int | None = None) -> NDArray[Any]:
    """K[i, j] = k(X[i], Z[j]), exact, without ever holding more than a tile of working space.

    Parameters
    ----------
    kernel : Kernel
        One of ``mercer.kernels``, or a map's ``kernel_``.
    X, Z : array-like or sparse matrix of shape (n, d) and (m, d)
        Z is X when it is None.
    n_jobs : int or None
        Threads; None and -1 use all that the process may use.

    Returns
    -------
    K : array of shape (n, m)
        float32 when X and Z both are, computed in float64 all the same; otherwise float64.

    Examples
    --------
    >>> import mercer
    >>> mercer.gram(mercer.kernels.Intersection(), [[1.0, 2.0], [0.0, 3.0]])
    array([[3., 2.],
           [2., 3.]])
    """
    X = _rows(X)
    Z = X if Z is None else _rows(Z)
    n, m, d = X.shape[0], Z.shape[0], X.shape[1]
    dtype = np.float32 if X.dtype == np.float32 and Z.dtype == np.float32 else np.float64
    K = np.empty((n, m), dtype)

    def work(rows: slice) -> None:
        K[rows] = kernel(*_shared_columns(X[rows], Z))

    each(work, n, Cost(_FLOPS_PER_ENTRY * m * d, 8.0 * (4 * m + d)), n_jobs)
    return K


def _rows(X: Any) -> Any:
    if hasattr(X, "tocsr"):
        return X.tocsr()
    return X if isinstance(X, np.ndarray) else np.asarray(X)


def _shared_columns(X: Any, Z: Any) -> tuple[Any, Any]:
    """X and Z without the columns that are zero in both, which change no kernel: what makes very wide CSR matrices possible."""
    if not (hasattr(X, "indptr") and hasattr(Z, "indptr") and X.shape[1] == Z.shape[1]):
        return X, Z
    columns = np.union1d(X.indices, Z.indices)
    return X[:, columns], Z[:, columns]
