"""Linear stages, x -> W x, and the random matrices W: independent rows, orthogonal rows,
low-discrepancy rows, Hadamard blocks.

Weights are drawn row by row, so that more rows keep the earlier ones.
"""

from __future__ import annotations

import _thread
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mercer import ops
from mercer.maps.stages.base import Array, Stage, require
from mercer.rng import Rng
from mercer.validation.rows import require_finite_features

# below this size the rows of three HD products are too few to look independent (a bias of -.005 at
# 16)
_LEAST_HADAMARD = 64
_SOBOL_BITS = 32
_SOBOL_COLUMNS = 21201  # columns for which direction numbers are known
_SOBOL_CHECKED = (
    256  # points that are checked; an engine whose table was not loaded has zeros in all
)
_CHUNK = 2**22  # weights drawn in one go


@dataclass(frozen=True, eq=False)
class Matrix(Stage):
    """x -> W x. The panel is W', (d, m) in row order, which serves dense and CSR tiles alike."""

    panel: Array

    def check(self, d: int) -> None:
        super().check(d)
        require_panel(self, self.panel, d)

    def __call__(self, X: Any, out: Array | None = None) -> Array:
        if hasattr(X, "indptr"):
            T = ops.empty((X.shape[0], self.panel.shape[1]), X.dtype, X) if out is None else out
            return ops.csr_product(X.indptr, X.indices, X.data, self.panel, T)
        return np.matmul(X, self.panel, out=out)

    def columns(self, d: int) -> int:
        return self.panel.shape[1]

    def flops(self, d: int) -> float:
        return float(self.panel.size)

    def reach(self) -> float:
        """max |w_j|, the most that the projection of a unit vector can be."""
        return float(np.sqrt(np.max(np.sum(np.square(self.panel), axis=0), initial=0.0)))


@dataclass(frozen=True, eq=False)
class Same(Stage):
    """x -> x."""

    keeps_sparse: ClassVar[bool] = True

    def __call__(self, X: Any, out: Array | None = None) -> Any:
        if out is None:
            return X.copy()
        out[...] = X.toarray() if hasattr(X, "indptr") else X
        return out


@dataclass(frozen=True, eq=False)
class Divide(Stage):
    """x -> (x_1/s_1, ..., x_d/s_d)."""

    keeps_sparse: ClassVar[bool] = True
    scales: Array  # (d,)

    def check(self, d: int) -> None:
        super().check(d)
        good = (
            self.scales.shape == (d,)
            and self.scales.dtype == np.float64
            and bool(np.all(self.scales > 0))
        )
        require(good, self, f"a scale above 0 for each of {d} columns")

    def __call__(self, X: Any, out: Array | None = None) -> Any:
        if not hasattr(X, "indptr"):
            with np.errstate(over="ignore"):
                Z = np.divide(X, self.scales, out=out)
            require_finite_features(X, Z)
            return Z
        scaled = X.copy()
        with np.errstate(over="ignore"):
            scaled.data /= self.scales[X.indices]
        if not np.isfinite(scaled.data).all():
            require_finite_features(X, scaled.toarray())
        return scaled


@dataclass(frozen=True, eq=False)
class Components(Stage):
    """x -> W (x - mean), or W x without a mean; CSR rows as W x - W mean, so that they are never
    made dense.
    """

    panel: Array  # W', (d, m)
    mean: Array | None = None  # (d,)
    offset: Array | None = None  # W mean, (m,)

    def check(self, d: int) -> None:
        super().check(d)
        require_panel(self, self.panel, d)
        if self.mean is not None or self.offset is not None:
            good = self.mean is not None and self.mean.shape == (d,)
            good = good and self.offset is not None and self.offset.shape == self.panel.shape[1:]
            require(good, self, f"a mean of {d} numbers and its projection")

    def __call__(self, X: Any, out: Array | None = None) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            if self.mean is None or self.offset is None:
                Z = Matrix(self.panel)(X, out)
            elif hasattr(X, "indptr"):
                Z = Matrix(self.panel)(X, out)
                Z -= self.offset
            else:
                Z = np.matmul(X - self.mean, self.panel, out=out)
        require_finite_features(X, Z)
        return Z

    def columns(self, d: int) -> int:
        return self.panel.shape[1]

    def flops(self, d: int) -> float:
        return float(self.panel.size)

    def scratch(self, d: int) -> int:
        return d


@dataclass(frozen=True, eq=False)
class Hadamard(Stage):
    """x -> W x for W = diag(lengths) H S H S H S in blocks of p rows: O(m log p) in place of O(m d)
    multiply-adds a row.
    """

    signs: Array  # (blocks, 3, p), +1 or -1
    lengths: Array  # (m,)

    def check(self, d: int) -> None:
        super().check(d)
        require_signs(self, self.signs, d)
        good = self.lengths.ndim == 1 and self.signs.shape[1] == 3
        good = good and -(-len(self.lengths) // self.signs.shape[2]) == len(self.signs)
        require(good, self, "a length for each row, and not more of them than signs")

    def __call__(self, X: Any, out: Array | None = None) -> Array:
        rows = X.toarray() if hasattr(X, "indptr") else X
        out = ops.empty((len(rows), len(self.lengths)), rows.dtype, rows) if out is None else out
        return ops.hadamard(rows, self.signs, self.lengths, out)

    def columns(self, d: int) -> int:
        return len(self.lengths)

    def flops(self, d: int) -> float:
        blocks, _, p = self.signs.shape
        return 3.0 * blocks * p * (np.log2(p) + 1)

    def scratch(self, d: int) -> int:
        return 2 * self.signs.shape[2]  # the padded row, twice

    def reach(self) -> float:
        """max |w_j|: every row of H S H S H S has norm p^(3/2)."""
        return float(np.max(np.abs(self.lengths), initial=0.0) * self.signs.shape[2] ** 1.5)


def require_panel(who: object, panel: Array, d: int) -> None:
    """Refuse what is no (d, m) array of weights."""
    good = (
        panel.ndim == 2 and panel.shape[0] == d and panel.shape[1] > 0 and panel.dtype == np.float64
    )
    require(good, who, f"a panel of {d} rows, got {panel.dtype} of shape {panel.shape}")


def require_signs(who: object, signs: Array, d: int) -> None:
    """Refuse what are no signs of Hadamard blocks for d columns."""
    good = signs.ndim == 3 and signs.size > 0 and signs.dtype == np.float64
    good = (
        good
        and signs.shape[2] >= d
        and signs.shape[2].bit_count() == 1
        and bool(np.all(np.abs(signs) == 1))
    )
    require(good, who, f"signs of shape (blocks, rounds, p), p a power of 2 and at least {d}")


def independent(
    rng: Rng, rows: int, d: int, quantile: Callable[[Array], Array], name: str = "weights"
) -> Array:
    """(d, rows) panel of independent weights, quantile(u) each, from the sequence `name`."""
    panel = np.empty((d, rows))
    step = max(1, _CHUNK // max(d, 1))
    for start in range(0, rows, step):
        count = min(step, rows - start)
        panel[:, start : start + count] = quantile(rng.uniform(name, count, d, start=start * d)).T
    return panel


def orthogonal(rng: Rng, rows: int, d: int) -> Array:
    """(d, rows) panel of standard normal weights made orthogonal in blocks of d: Haar rows times
    independent chi lengths.
    """
    from scipy.special import ndtri

    blocks = -(-rows // d)
    normals = independent(rng, blocks * d, d, ndtri)
    panel = np.empty((d, blocks * d))
    for block in range(blocks):
        columns = slice(block * d, (block + 1) * d)
        panel[:, columns] = orthonormal(normals[:, columns])[0]
    return panel[:, :rows] * rng.chi("lengths", d, rows)


def orthonormal(A: Array) -> tuple[Array, Array]:
    """The columns of A made orthonormal one after the other, and what each has beside those before
    it: Haar for normal A.
    """
    Q, R = np.linalg.qr(A)
    beside = np.diag(R)
    return Q * np.where(beside < 0, -1.0, 1.0), np.abs(beside)


def hadamard(rng: Rng, rows: int, d: int) -> Hadamard:
    """Standard normal weights by three Hadamard-times-signs products, each row with an independent
    chi length.
    """
    p = max(_LEAST_HADAMARD, 1 << (d - 1).bit_length())
    blocks = -(-rows // p)
    return Hadamard(rng.signs("signs", blocks, 3, p), rng.chi("lengths", p, rows) / p**1.5)


def sobol(rng: Rng, rows: int, d: int) -> Array:
    """(rows, d) points of a scrambled Sobol sequence, strictly inside the unit cube.

    The scramble is a random lower triangular matrix of bits for each column, then a random shift
    (Matousek); both come from rng.
    """
    if d > _SOBOL_COLUMNS:
        raise ValueError(
            f"design='sobol' exists for at most {_SOBOL_COLUMNS} columns, got {d}. Use 'iid' or "
            "'auto'."
        )
    x = (_sobol_points(rows, d) * 2.0**_SOBOL_BITS).astype(np.uint64)
    words = rng.words("scramble", 0, d * (_SOBOL_BITS + 1)).reshape(
        d, _SOBOL_BITS + 1
    ) >> np.uint64(64 - _SOBOL_BITS)
    y = np.zeros_like(x) ^ words[:, _SOBOL_BITS]
    for bit in range(
        _SOBOL_BITS
    ):  # column `bit` of the triangular matrix: that bit itself, random bits below it
        place = np.uint64(_SOBOL_BITS - 1 - bit)
        column = (words[:, bit] & np.uint64((1 << int(place)) - 1)) | np.uint64(1 << int(place))
        y ^= np.where(x >> place & np.uint64(1), column, np.uint64(0))
    return (y.astype(np.float64) + 0.5) * 2.0**-_SOBOL_BITS


def _sobol_points(rows: int, d: int) -> Array:
    """Return the first (rows, d) points of the Sobol sequence, which is SciPy's without its
    scramble.

    SciPy loads its table of direction numbers in a compiled function that discards exceptions:
    whatever is raised meanwhile, by a signal handler or for want of a file descriptor, leaves an
    engine all of whose points are 0. Signal handlers run in the main thread only, so the engine is
    built in another one. The points are checked for all other reasons.
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
            "printed above, as an "
            "ignored exception), and gave points that are wrong. Too many open files or too "
            "little memory are the "
            "usual reasons: fit again without them, or use design='iid'."
        )
    return points[:rows]


def _call_in_thread(work: Callable[[], Any]) -> Any:
    """Return work(), run by a thread that no signal handler can interrupt; what it raises is raised
    here.

    A lock is waited for and not a threading.Thread: it has no Python code in which a signal could
    do harm.
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


def latin_hypercube(rng: Rng, rows: int, d: int) -> Array:
    """(rows, d) points, one in each of `rows` equal intervals of every column; a new set for every
    number of rows.
    """
    order = np.argsort(
        rng.words(f"strata of {rows}", 0, rows * d).reshape(d, rows), axis=1, kind="stable"
    )
    return (order.T + rng.uniform(f"inside strata of {rows}", rows, d)) / rows
