"""Moments: what least squares, principal components and their cross-validation need to know of all
rows.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer import ops
from mercer.maps.block import Block, as_block, matrix
from mercer.parallel import devices
from mercer.parallel.threads import share, spans
from mercer.parallel.tile_size import PANEL, SHARD, Cost, grid
from mercer.stats.basic import Array, State, frequency_weights
from mercer.stats.packed_symmetric import Symmetric

_FLOAT32_SAFE = 1e-15, 1e15  # entries whose sums of squares stay well inside float32


class Moments:
    """n, sum z, sum z z', and with a target sum y, sum y y', sum z y', about a shift, in float64.

    Each block is centred by its own mean before its products are made in its own dtype, and moved
    to the common shift in float64: a large mean, or one that wanders, costs no digits. With a =
    mean - shift and r = sum (z - mean), a block of n rows moves by r a' + a r' + n a a', which
    waits until there are several of them. Moments can be subtracted, so that a fold can be left out
    without a second pass.

    Parameters
    ----------
    target : bool, default=True
        Whether y is summed too. False leaves it to another summary, such as ClassSums.
    wide : bool, default=False
        Take float32 rows to float64 first: what is small beside the rest then keeps its digits.
    """

    anywhere = True  # blocks are summed where they are

    def __init__(self, *, target: bool = True, wide: bool = False) -> None:
        self.target = target
        self.wide = wide
        self.rows = 0
        self.n = 0.0
        self.targets: int | None = None  # columns of y, once rows were seen; 0 without a target
        self._shift: Array = np.empty(0)  # of (z, y)
        self._sum: Array = np.empty(0)  # sum w ((z, y) - shift)
        self._products = Symmetric(0)  # sum w (z - shift)(z - shift)', but for what is pending
        self._cross: Array = np.empty((0, 0))  # sum w (z - shift)(y - shift)'
        self._squares: Array = np.empty((0, 0))  # sum w (y - shift)(y - shift)'
        self._pending: list[
            tuple[float, Array, Array]
        ] = []  # n, a and r of blocks whose products were not moved yet

    @np.errstate(
        over="ignore", invalid="ignore"
    )  # beyond float64 it is infinite or NaN, for the caller to see
    def add(
        self, block: Block, y: Array | None = None, weight: Array | None = None, start: int = 0
    ) -> None:
        n, D = block.shape
        w = None if weight is None else frequency_weights(n, weight)
        Y = np.empty((n, 0)) if y is None or not self.target else _targets(n, y)
        self._must_fit(D, Y.shape[1])
        rows = matrix(block)
        away = ops.is_device(rows)
        most = grid(D, block.dtype.itemsize, device=away).rows
        if away:
            place = devices.place_of(rows)
            assert place is not None
            devices.each(
                lambda at: self._add(rows[at], Y[at], None if w is None else w[at]), n, most, place
            )
            return
        if n <= most:
            self._add(rows, Y, w)
            return
        for span in spans(n, most):
            self._add(matrix(as_block(rows[span])), Y[span], None if w is None else w[span])

    @property
    def mean(self) -> Array:
        """sum w z / n."""
        return (self._shift + self._sum / self._known_n())[: self._products.size]

    @property
    def scatter(self) -> Array:
        """sum w (z - mean)(z - mean)'."""
        total = self._sum[: self._products.size]
        return self._moved().toarray(minus=(total, total / self._known_n()))

    @property
    def target_mean(self) -> Array:
        """sum w y / n."""
        self._known_target()
        return (self._shift + self._sum / self._known_n())[self._products.size :]

    @property
    def target_scatter(self) -> Array:
        """sum w (y - mean)(y - mean)'."""
        self._known_target()
        total = self._sum[self._products.size :]
        return self._squares - np.outer(total, total / self._known_n())

    @property
    def cross(self) -> Array:
        """sum w (z - mean)(y - mean)', one column for each target."""
        self._known_target()
        D = self._products.size
        return self._cross - np.outer(self._sum[:D], self._sum[D:] / self._known_n())

    def __add__(self, other: Moments) -> Moments:
        merged = copy.deepcopy(self)
        merged += other
        return merged

    def __sub__(self, other: Moments) -> Moments:
        left = copy.deepcopy(self)
        left -= other
        return left

    def __iadd__(self, other: Moments) -> Moments:
        return self._combine(other, +1)

    def __isub__(self, other: Moments) -> Moments:
        return self._combine(other, -1)

    def state(self) -> State:
        """Arrays and plain values that from_state makes the same Moments of."""
        arrays = {
            "shift": self._shift,
            "sum": self._sum,
            "cross": self._cross,
            "squares": self._squares,
        }
        facts = {
            "rows": self.rows,
            "n": self.n,
            "targets": self.targets,
            "size": self._products.size,
        }
        return State({**arrays, "products": self._moved().home().packed}, facts)

    def from_state(self, state: State) -> Moments:
        """Moments like these with that state."""
        made = Moments(target=self.target, wide=self.wide)
        arrays, facts = state.arrays, state.facts
        made.rows, made.n, made.targets = facts["rows"], facts["n"], facts["targets"]
        made._shift, made._sum = arrays["shift"], arrays["sum"]
        made._cross, made._squares = arrays["cross"], arrays["squares"]
        made._products = Symmetric(facts["size"], arrays["products"])
        return made

    def _add(self, rows: Any, Y: Array, w: Array | None) -> None:
        n = float(len(Y)) if w is None else float(w.sum())
        if n == 0:
            return
        if self.wide and not hasattr(rows, "indptr"):
            rows = rows.astype(np.float64, copy=False)
        weights = np.ones(len(Y)) if w is None else w
        y_mean = weights @ Y / n
        Y = Y - y_mean
        weighted = Y * weights[:, None]
        make = (
            _csr if hasattr(rows, "indptr") else _centred_there if ops.is_device(rows) else _centred
        )
        part = make(rows, weights, None if w is None else np.sqrt(w), weighted)
        if self.targets is None:
            self._begin(np.concatenate([part.mean, y_mean]), rows, Y.shape[1])
        D = rows.shape[1]
        part.add_to(
            self._products
        )  # first: where a device has no memory for it, nothing has changed
        steps = np.concatenate([part.mean, y_mean]) - self._shift
        a, b = steps[:D], steps[D:]
        rest = np.concatenate([part.residual, weighted.sum(axis=0)])
        moved = rest + n * steps
        self.rows += len(Y) if w is None else int(np.count_nonzero(w))
        self.n += n
        self._sum += moved
        self._cross += part.cross + np.outer(part.residual, b) + np.outer(a, moved[D:])
        self._squares += weighted.T @ Y + np.outer(rest[D:], b) + np.outer(b, moved[D:])
        self._pending.append((n, a, part.residual))
        if len(self._pending) == SHARD:
            self._moved()

    def _begin(self, shift: Array, rows: Any, targets: int) -> None:
        D = rows.shape[1]
        self._products = Symmetric(D, beside=rows)
        self.targets = targets
        self._shift, self._sum = shift, np.zeros(D + targets)
        self._cross, self._squares = np.zeros((D, targets)), np.zeros((targets, targets))

    def _moved(self) -> Symmetric:
        """The products about the shift, nothing pending: plus R'A + A'(R + diag(n) A)."""
        if self._pending:
            n = np.array([n for n, _, _ in self._pending])
            A = np.array([a for _, a, _ in self._pending])
            R = np.array([r for _, _, r in self._pending])
            self._products.add_products(
                np.concatenate([A, R]), np.concatenate([R + n[:, None] * A, A])
            )
            self._pending = []
        return self._products

    @np.errstate(over="ignore", invalid="ignore")
    def _combine(self, other: Moments, sign: int) -> Moments:
        if other.targets is None:
            return self
        if self.targets is None:
            if sign < 0:
                raise ValueError("Moments of rows cannot be taken from moments of no rows.")
            self.__dict__.update(copy.deepcopy(other).__dict__)
            return self
        D = self._products.size
        self._must_fit(other._products.size, other.targets)
        step = other._shift - self._shift  # other's sums, as they would be about our shift
        moved = other._sum + other.n * step
        z, y = slice(0, D), slice(D, None)
        products = self._moved()
        products.add(other._moved(), sign)
        products.add_products(
            sign * np.array([other._sum[z], step[z]]), np.array([step[z], moved[z]])
        )
        self._cross += sign * (
            other._cross + np.outer(other._sum[z], step[y]) + np.outer(step[z], moved[y])
        )
        self._squares += sign * (
            other._squares + np.outer(other._sum[y], step[y]) + np.outer(step[y], moved[y])
        )
        self._sum += sign * moved
        self.rows += sign * other.rows
        self.n += sign * other.n
        return self

    def _must_fit(self, columns: int, targets: int) -> None:
        if self.targets is not None and (columns, targets) != (self._products.size, self.targets):
            raise ValueError(
                f"Moments of {self._products.size} columns and {self.targets} targets do not "
                f"combine with rows of {columns} columns "
                f"and {targets} targets."
            )

    def _known_n(self) -> float:
        if self.targets is None:
            raise ValueError("These Moments have not seen a row.")
        return self.n

    def _known_target(self) -> None:
        self._known_n()
        if self.targets == 0:
            raise ValueError("These Moments have not seen a target.")


@dataclass(frozen=True, eq=False)
class _Part:
    """A block about its mean: sqrt(w) (z - mean), sum w (z - mean) and sum w (z - mean) y'."""

    rows: Any
    mean: Array
    residual: Array
    cross: Array

    def add_to(self, products: Symmetric) -> None:
        if hasattr(self.rows, "indptr"):
            products.add_csr((self.rows.T @ self.rows).tocsr())
        else:
            products.add_gram(self.rows)


def _csr(rows: Any, w: Array, roots: Array | None, weighted: Array) -> _Part:
    """CSR rows stay as they are, about 0, in float64."""
    rows = rows.astype(np.float64)
    residual, cross = rows.T @ w, rows.T @ weighted
    if roots is not None:
        rows = rows.multiply(roots[:, None]).tocsr()
    return _Part(rows, np.zeros(rows.shape[1]), residual, cross)


def _centred(rows: Array, w: Array, roots: Array | None, weighted: Array) -> _Part:
    """Rows about their mean as it was subtracted; in float64 when their products might leave
    float32.
    """
    if rows.dtype == np.float32:
        part, largest = _centred_in(np.dtype(np.float32), rows, w, roots, weighted)
        low, high = _FLOAT32_SAFE
        if np.all((largest == 0) | ((largest >= low) & (largest <= high))):
            return part
    return _centred_in(np.dtype(np.float64), rows, w, roots, weighted)[0]


def _centred_in(
    dtype: np.dtype[Any], rows: Array, w: Array, roots: Array | None, weighted: Array
) -> tuple[_Part, Array]:
    """The part, and the largest magnitude of each column."""
    n, D = rows.shape
    Z = np.empty((n, D), dtype)
    mean, residual, largest = np.empty(D, dtype), np.empty(D), np.empty(D)
    cross = np.empty((D, weighted.shape[1]))
    shares, scale = (
        (w / w.sum()).astype(dtype),
        None if roots is None else roots.astype(dtype)[:, None],
    )

    def work(panel: slice) -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # seen in `largest`
            mean[panel] = shares @ rows[:, panel].astype(dtype, copy=False)
            part = np.subtract(rows[:, panel], mean[panel], out=Z[:, panel])
            exact = part.astype(np.float64)
            residual[panel] = w @ exact
            cross[panel] = exact.T @ weighted
            if scale is not None:
                part *= scale
            largest[panel] = np.maximum(part.max(axis=0), -part.min(axis=0))

    share(work, list(spans(D, PANEL)), Cost(8.0 * D, 0.0), n)
    return _Part(Z, mean.astype(np.float64), residual, cross), largest


def _centred_there(rows: Any, w: Array, roots: Array | None, weighted: Array) -> _Part:
    """_centred on the device of the rows; what is small comes home."""
    Z, mean = _about_mean(rows, w)
    if rows.dtype == np.float32:
        low, high = _FLOAT32_SAFE
        largest = np.maximum(Z.max(axis=0), -Z.min(axis=0))
        largest = largest if roots is None else largest * float(roots.max())
        if not ((largest == 0) | ((largest >= low) & (largest <= high))).all():
            Z, mean = _about_mean(rows.astype(np.float64), w)
    exact = Z.astype(np.float64, copy=False)
    residual, cross = ops.beside(w, rows) @ exact, exact.T @ ops.beside(weighted, rows)
    if roots is not None:
        Z *= ops.beside(roots.astype(Z.dtype)[:, None], rows)
    return _Part(Z, *(np.asarray(part, dtype=np.float64) for part in (mean, residual, cross)))


def _about_mean(rows: Any, w: Array) -> tuple[Any, Any]:
    mean = ops.beside((w / w.sum()).astype(rows.dtype), rows) @ rows
    return rows - mean, mean


def _targets(n: int, y: Array) -> Array:
    given = np.asarray(y)
    try:  # words as Python has them, so that the error shows 'a' and not np.str_('a')
        Y = np.asarray(given.astype(object) if given.dtype.kind == "U" else given, dtype=np.float64)
    except ValueError as error:
        raise ValueError(
            f"Moments need targets that are numbers ({error}); ClassSums takes labels."
        ) from None
    if Y.shape[:1] != (n,) or Y.ndim > 2:
        raise ValueError(
            f"A block of {n} rows needs {n} targets (or {n} rows of them), got an array of shape "
            f"{Y.shape}."
        )
    return Y.reshape(n, -1)
