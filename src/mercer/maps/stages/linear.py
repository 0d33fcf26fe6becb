"""Linear stages x -> W x, and random matrices W: independent, orthogonal, Sobol, Hadamard.

Weights are sampled row by row, so that more rows extend fewer.
"""

from __future__ import annotations

import _thread
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mercer import ops
from mercer._typing import Array, is_csr
from mercer.maps.stages.base import Stage, require
from mercer.parallel.tile_size import Cost
from mercer.rng import Rng
from mercer.validation.rows import require_finite_features

# Rows of three HD products depend on each other below this size (a bias of -.005 at 16).
_MIN_HADAMARD = 64
_SOBOL_BITS = 32
_SOBOL_COLUMNS = 21201  # columns for which there are direction numbers
_SOBOL_CHECKED = 256  # points that are checked; an engine without its table has zeros in all
_CHUNK = 2**22  # weights sampled at once


@dataclass(frozen=True, eq=False)
class Matrix(Stage):
    """x -> W x. The panel is W', (d, m) in row order, for dense and CSR tiles alike."""

    panel: Array

    def check(self, d: int) -> None:
        super().check(d)
        require_panel(self, self.panel, d)

    def __call__(self, X: Any, out: Array | None = None) -> Array:
        T = ops.empty((X.shape[0], self.panel.shape[1]), X.dtype, X) if out is None else out
        if is_csr(X):
            return ops.csr_product(X.indptr, X.indices, X.data, self.panel, T)
        return ops.product(X, self.panel, T)

    def vjp(self, X: Any, G: Array) -> Array:
        return _repeat_rows(G @ self.panel.T, X)

    def cost(self, d: int) -> Cost:
        m = self.panel.shape[1]
        return Cost(float(self.panel.size), 8.0 * m, m)

    def dense_panel(self, d: int) -> Array:
        """Return W', (d, m)."""
        return self.panel

    def max_norm(self) -> float:
        """Return max |w_j|, the largest projection of a unit vector."""
        return float(np.sqrt(np.max(np.sum(np.square(self.panel), axis=0), initial=0.0)))


@dataclass(frozen=True, eq=False)
class IdentityStage(Stage):
    """x -> x."""

    keeps_sparse: ClassVar[bool] = True

    def __call__(self, X: Any, out: Array | None = None) -> Any:
        if out is None:
            return X.copy()
        out[...] = X.toarray() if is_csr(X) else X
        return out

    def vjp(self, X: Any, G: Array) -> Array:
        return _repeat_rows(G, X)


@dataclass(frozen=True, eq=False)
class Divide(Stage):
    """x -> ((x_1 - c_1)/s_1, ..., (x_d - c_d)/s_d), x/s without a center.

    CSR rows stay CSR: columns whose center is not 0 get an entry in every row.
    """

    keeps_sparse: ClassVar[bool] = True
    scales: Array  # s, (d,)
    center: Array | None = None  # c, (d,)

    def check(self, d: int) -> None:
        super().check(d)
        valid = self.scales.shape == (d,) and self.scales.dtype == np.float64
        valid = valid and bool(np.all(self.scales > 0))
        require(valid, self, f"a scale above 0 for each of {d} columns")
        if self.center is not None:
            valid = self.center.shape == (d,) and self.center.dtype == np.float64
            require(valid, self, f"a center for each of {d} columns")

    def __call__(self, X: Any, out: Array | None = None) -> Any:
        if not is_csr(X):
            with np.errstate(over="ignore"):
                if self.center is None:
                    Z = np.divide(X, self.scales, out=out)
                else:
                    Z = np.subtract(X, self.center, out=out)
                    Z /= self.scales
            require_finite_features(X, Z)
            return Z
        scaled = X.copy() if self.center is None else _subtract(X, self.center)
        with np.errstate(over="ignore"):
            scaled.data /= self.scales[scaled.indices]
        if not np.isfinite(scaled.data).all():
            require_finite_features(X, scaled.toarray())
        return scaled

    def vjp(self, X: Any, G: Array) -> Array:
        return _repeat_rows(G / self.scales, X)


def _repeat_rows(G: Array, X: Any) -> Array:
    """Return vectors of all rows of X, where those of one row stand for all of them."""
    return np.broadcast_to(G, (*G.shape[:-2], X.shape[0], G.shape[-1]))


def _subtract(X: Any, center: Array) -> Any:
    """Return CSR rows minus a center, CSR again: zeros of columns with center 0 are not stored."""
    columns = np.flatnonzero(center)
    n = X.shape[0]
    shift = type(X)(
        (
            np.tile(center[columns], n),
            np.tile(columns.astype(X.indices.dtype), n),
            np.arange(n + 1, dtype=X.indptr.dtype) * len(columns),
        ),
        shape=X.shape,
    )
    difference = X - shift
    difference.sort_indices()
    return difference


@dataclass(frozen=True, eq=False)
class Components(Stage):
    """x -> W (x - mean), or W x without a mean.

    CSR rows are mapped to W x - W mean, and so never made dense.
    """

    panel: Array  # W', (d, m)
    mean: Array | None = None  # (d,)
    offset: Array | None = None  # W mean, (m,)

    def check(self, d: int) -> None:
        super().check(d)
        require_panel(self, self.panel, d)
        if self.mean is not None or self.offset is not None:
            valid = self.mean is not None and self.mean.shape == (d,)
            valid = valid and self.offset is not None and self.offset.shape == self.panel.shape[1:]
            require(valid, self, f"a mean of {d} numbers and its projection")

    def __call__(self, X: Any, out: Array | None = None) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            if self.mean is None or self.offset is None:
                Z = Matrix(self.panel)(X, out)
            elif is_csr(X):
                Z = Matrix(self.panel)(X, out)
                Z -= self.offset
            else:
                Z = Matrix(self.panel)(X - self.mean, out)
        require_finite_features(X, Z)
        return Z

    def vjp(self, X: Any, G: Array) -> Array:
        return _repeat_rows(G @ self.panel.T, X)

    def cost(self, d: int) -> Cost:
        m = self.panel.shape[1]
        return Cost(float(self.panel.size), 8.0 * (m + d), m)


@dataclass(frozen=True, eq=False)
class Hadamard(Stage):
    """x -> W x for W = diag(lengths) H S H S H S in blocks of p rows.

    A row takes O(m log p) multiply-adds in place of O(m d).
    """

    signs: Array  # (blocks, 3, p), +1 or -1
    lengths: Array  # (m,)

    def check(self, d: int) -> None:
        super().check(d)
        require_signs(self, self.signs, d)
        valid = self.lengths.ndim == 1 and self.signs.shape[1] == 3
        valid = valid and -(-len(self.lengths) // self.signs.shape[2]) == len(self.signs)
        require(valid, self, "a length for each row, and not more of them than signs")

    def __call__(self, X: Any, out: Array | None = None) -> Array:
        rows = X.toarray() if is_csr(X) else X
        out = ops.empty((len(rows), len(self.lengths)), rows.dtype, rows) if out is None else out
        return ops.hadamard(rows, self.signs, self.lengths, out)

    def cost(self, d: int) -> Cost:
        blocks, _, p = self.signs.shape
        m = len(self.lengths)
        # the padded row, twice
        return Cost(3.0 * blocks * p * (np.log2(p) + 1), 8.0 * (m + 2 * p), m)

    def vjp(self, X: Any, G: Array) -> Array:
        return _repeat_rows(G @ self.dense_panel(X.shape[1]).T, X)

    def dense_panel(self, d: int) -> Array:
        """Return W', (d, m)."""
        return self(np.eye(d, dtype=self.lengths.dtype))

    def max_norm(self) -> float:
        """Return max |w_j|: every row of H S H S H S has norm p^(3/2)."""
        return float(np.max(np.abs(self.lengths), initial=0.0) * self.signs.shape[2] ** 1.5)

    def last_row(self, X: Array) -> Array:
        """Return the projection of dense rows on the last row of W, (n, 1)."""
        p = self.signs.shape[2]
        block, row = divmod(len(self.lengths) - 1, p)
        out = ops.empty((len(X), row + 1), X.dtype, X)
        signs = self.signs[block : block + 1]
        return ops.hadamard(X, signs, self.lengths[block * p :], out)[:, row:]


def require_panel(record: object, panel: Array, d: int) -> None:
    """Raise a ValueError unless the panel is a (d, m) array of weights."""
    valid = panel.ndim == 2 and panel.shape[0] == d and panel.shape[1] > 0
    valid = valid and panel.dtype == np.float64
    require(valid, record, f"a panel of {d} rows, got {panel.dtype} of shape {panel.shape}")


def require_signs(record: object, signs: Array, d: int) -> None:
    """Raise a ValueError unless the array has the signs of Hadamard blocks for d columns."""
    valid = signs.ndim == 3 and signs.size > 0 and signs.dtype == np.float64
    valid = valid and signs.shape[2] >= d and signs.shape[2].bit_count() == 1
    valid = valid and bool(np.all(np.abs(signs) == 1))
    require(valid, record, f"signs of shape (blocks, rounds, p), p a power of 2 and at least {d}")


def sample_independent(
    rng: Rng, rows: int, d: int, quantile: Callable[[Array], Array], name: str = "weights"
) -> Array:
    """Return a (d, rows) panel of independent weights quantile(u), from the sequence `name`."""
    panel = np.empty((d, rows))
    step = max(1, _CHUNK // max(d, 1))
    for start in range(0, rows, step):
        count = min(step, rows - start)
        panel[:, start : start + count] = quantile(rng.uniform(name, count, d, start=start * d)).T
    return panel


def sample_orthogonal(rng: Rng, rows: int, d: int) -> Array:
    """Return a (d, rows) panel of normal weights, orthogonal in blocks of d rows.

    Rows are those of Haar matrices times independent chi lengths.
    """
    from scipy.special import ndtri

    blocks = -(-rows // d)
    normals = sample_independent(rng, blocks * d, d, ndtri)
    panel = np.empty((d, blocks * d))
    for block in range(blocks):
        columns = slice(block * d, (block + 1) * d)
        panel[:, columns] = orthonormalize(normals[:, columns])[0]
    return panel[:, :rows] * rng.chi("lengths", d, rows)


def orthonormalize(A: Array) -> tuple[Array, Array]:
    """Return Q of A = Q R with a positive diagonal of R, and that diagonal; Haar for normal A."""
    Q, R = np.linalg.qr(A)
    diagonal = np.diag(R)
    return Q * np.where(diagonal < 0, -1.0, 1.0), np.abs(diagonal)


def sample_hadamard(rng: Rng, rows: int, d: int) -> Hadamard:
    """Return normal weights by three products of Hadamard matrices and signs.

    Each row has an independent chi length.
    """
    p = max(_MIN_HADAMARD, 1 << (d - 1).bit_length())
    blocks = -(-rows // p)
    return Hadamard(rng.signs("signs", blocks, 3, p), rng.chi("lengths", p, rows) / p**1.5)


def sample_sobol(rng: Rng, rows: int, d: int) -> Array:
    """Return (rows, d) points of a scrambled Sobol sequence, strictly inside the unit cube.

    The scramble is a random lower triangular matrix of bits for each column, then a random shift
    (Matousek); both come from rng.
    """
    if d > _SOBOL_COLUMNS:
        raise ValueError(
            f"design='sobol' exists for at most {_SOBOL_COLUMNS} columns, got {d}. "
            "Use 'iid' or 'auto'."
        )
    x = (_sobol_points(rows, d) * 2.0**_SOBOL_BITS).astype(np.uint64)
    words = rng.words("scramble", 0, d * (_SOBOL_BITS + 1)).reshape(d, _SOBOL_BITS + 1)
    words = words >> np.uint64(64 - _SOBOL_BITS)
    y = np.zeros_like(x) ^ words[:, _SOBOL_BITS]
    for bit in range(_SOBOL_BITS):
        # Column `bit` of the triangular matrix: that bit itself, random bits below it.
        power = np.uint64(_SOBOL_BITS - 1 - bit)
        column = (words[:, bit] & np.uint64((1 << int(power)) - 1)) | np.uint64(1 << int(power))
        y ^= np.where(x >> power & np.uint64(1), column, np.uint64(0))
    return (y.astype(np.float64) + 0.5) * 2.0**-_SOBOL_BITS


def _sobol_points(rows: int, d: int) -> Array:
    """Return the first (rows, d) points of SciPy's Sobol sequence, without its scramble.

    SciPy loads its table of direction numbers in a compiled function that discards exceptions: an
    exception there, of a signal handler or for want of a file descriptor, leaves an engine all of
    whose points are 0. Signal handlers run in the main thread only, so the engine is built in
    another one. The points are checked for all other reasons.
    """
    from scipy.stats import qmc

    engine = _call_in_thread(lambda: qmc.Sobol(d, scramble=False, bits=_SOBOL_BITS))
    points: Array = engine.random_base2((rows - 1).bit_length())
    first = points[:_SOBOL_CHECKED]
    if not np.array_equal(
        np.sort(first, axis=0).T, np.broadcast_to(np.arange(len(first)) / len(first), first.T.shape)
    ):
        raise RuntimeError(
            "SciPy could not load the direction numbers of its Sobol sequence (the reason is "
            "printed above, as an ignored exception), and returned wrong points. Too many open "
            "files or too little memory are the usual reasons: fit again without them, or use "
            "design='iid'."
        )
    return points[:rows]


def _call_in_thread(work: Callable[[], Any]) -> Any:
    """Return work(), called in a thread that no signal handler interrupts; re-raise its errors.

    It waits for a lock and not for a threading.Thread, which has Python code that a signal handler
    could interrupt.
    """
    results: list[Any] = []
    errors: list[BaseException] = []
    done = _thread.allocate_lock()

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)
        finally:
            done.release()

    done.acquire()
    _thread.start_new_thread(run, ())
    done.acquire()
    if errors:
        raise errors[0]
    return results[0]


def sample_latin_hypercube(rng: Rng, rows: int, d: int) -> Array:
    """Return (rows, d) points, one in each of `rows` equal intervals of every column.

    Each number of rows has other points.
    """
    words = rng.words(f"strata of {rows}", 0, rows * d).reshape(d, rows)
    order = np.argsort(words, axis=1, kind="stable")
    return (order.T + rng.uniform(f"inside strata of {rows}", rows, d)) / rows
