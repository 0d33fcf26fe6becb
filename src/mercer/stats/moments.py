"""First and second moments of rows, for least squares, PCA and their cross-validation."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from mercer import ops
from mercer._typing import Array, is_csr
from mercer.maps.block import Block, gram_operand
from mercer.parallel.device import device_of, for_each_device_tile
from mercer.parallel.threads import for_each, row_slices
from mercer.parallel.tile_size import PANEL, SHARD, Cost, grid
from mercer.stats.base import Mergeable, State, frequency_weights
from mercer.stats.packed_symmetric import PackedSymmetric

# Magnitudes whose sums of squares stay well inside float32.
_FLOAT32_SAFE = 1e-15, 1e15
# Rows of a panel that are centered and multiplied by the targets at once, while in the cache.
_CENTERED_ROWS = 256


class Moments(Mergeable):
    """n, sum z, sum z z', and with a target sum y, sum y y', sum z y', about a shift, in float64.

    Each block is centered by its own mean before its products are computed in its own dtype, and
    shifted to the common origin in float64: a large or drifting mean costs no digits. With
    a = mean - shift and r = sum (z - mean), a block of n rows contributes r a' + a r' + n a a';
    these updates are applied several blocks at a time. Moments can be subtracted, so that
    cross-validation leaves a fold out without a second pass.

    Values that overflow float64 become infinite or NaN, for the caller to handle.

    Parameters
    ----------
    target : bool, default=True
        Whether y is summed too. False leaves it to another statistic, such as ClassSums.
    wide : bool, default=False
        Cast float32 rows to float64 first: columns that are small relative to the others then
        keep their digits.

    Attributes
    ----------
    rows : int
        Rows whose weight is not 0.
    n : float
        Sum of the weights.
    targets : int or None
        Columns of y, 0 without a target; None before the first row.
    """

    accepts_device_blocks = True

    def __init__(self, *, target: bool = True, wide: bool = False) -> None:
        self.target = target
        self.wide = wide
        self.rows = 0
        self.n = 0.0
        self.targets: int | None = None
        self._shift: Array = np.empty(0)  # of (z, y)
        self._sum: Array = np.empty(0)  # sum w ((z, y) - shift)
        self._products = PackedSymmetric(0)  # sum w (z - shift)(z - shift)', less _pending
        self._cross: Array = np.empty((0, 0))  # sum w (z - shift)(y - shift)'
        self._squares: Array = np.empty((0, 0))  # sum w (y - shift)(y - shift)'
        # n, a and r of the blocks whose products are not shifted yet.
        self._pending: list[tuple[float, Array, Array]] = []

    @np.errstate(over="ignore", invalid="ignore")
    def add(
        self, block: Block, y: Array | None = None, weight: Array | None = None, start: int = 0
    ) -> None:
        """Add the rows of a block, with targets y of shape (n,) or (n, targets)."""
        n, D = block.shape
        w = None if weight is None else frequency_weights(n, weight)
        Y = np.empty((n, 0)) if y is None or not self.target else _as_targets(n, y)
        self._require_shape(D, Y.shape[1])
        rows = gram_operand(block)
        on_device = ops.is_device(rows)
        most = grid(D, block.dtype.itemsize, device=on_device).rows
        if on_device:
            device = device_of(rows)
            assert device is not None
            for_each_device_tile(
                lambda at: self._add(rows[at], Y[at], None if w is None else w[at]), n, most, device
            )
            return
        if n <= most:
            self._add(rows, Y, w)
            return
        for span in row_slices(n, most):
            self._add(rows[span], Y[span], None if w is None else w[span])

    @property
    def mean(self) -> Array:
        """Mean of the rows, sum w z / n."""
        return (self._shift + self._sum / self._require_rows())[: self._products.size]

    @property
    def scatter(self) -> Any:
        """Scatter matrix, sum w (z - mean)(z - mean)', on the device of the blocks."""
        total = self._sum[: self._products.size]
        return self._shifted().toarray(minus=(total, total / self._require_rows()))

    @property
    def target_mean(self) -> Array:
        """Mean of the targets, sum w y / n."""
        self._require_target()
        return (self._shift + self._sum / self._require_rows())[self._products.size :]

    @property
    def target_scatter(self) -> Array:
        """Scatter matrix of the targets, sum w (y - mean)(y - mean)'."""
        self._require_target()
        total = self._sum[self._products.size :]
        return self._squares - np.outer(total, total / self._require_rows())

    @property
    def cross(self) -> Array:
        """Cross products sum w (z - mean)(y - mean)', one column for each target."""
        self._require_target()
        D = self._products.size
        return self._cross - np.outer(self._sum[:D], self._sum[D:] / self._require_rows())

    def __sub__(self, other: Self) -> Self:
        left = copy.deepcopy(self)
        left -= other
        return left

    def __iadd__(self, other: Self) -> Self:
        return self._combine(other, +1)

    def __isub__(self, other: Self) -> Self:
        return self._combine(other, -1)

    def state(self) -> State:
        """Return the state that ``from_state`` restores."""
        arrays = {
            "shift": self._shift,
            "sum": self._sum,
            "cross": self._cross,
            "squares": self._squares,
        }
        values = {
            "rows": self.rows,
            "n": self.n,
            "targets": self.targets,
            "size": self._products.size,
        }
        # as they are: to apply them here would change the order of rounding
        for name, column in zip(("n", "a", "r"), zip(*self._pending, strict=True), strict=False):
            arrays[f"pending_{name}"] = np.array(column)
        return State({**arrays, "products": self._products.to_host().packed}, values)

    def from_state(self, state: State) -> Moments:
        """Return moments with the settings of these and a given state."""
        result = Moments(target=self.target, wide=self.wide)
        arrays, values = state.arrays, state.values
        result.rows, result.n, result.targets = values["rows"], values["n"], values["targets"]
        result._shift, result._sum = arrays["shift"], arrays["sum"]
        result._cross, result._squares = arrays["cross"], arrays["squares"]
        result._products = PackedSymmetric(values["size"], arrays["products"])
        if "pending_n" in arrays:
            pending = (arrays["pending_n"].tolist(), arrays["pending_a"], arrays["pending_r"])
            result._pending = list(zip(*pending, strict=True))
        return result

    def _add(self, rows: Any, Y: Array, w: Array | None) -> None:
        n = float(len(Y)) if w is None else float(w.sum())
        if n == 0:
            return
        if self.wide and not is_csr(rows):
            rows = rows.astype(np.float64, copy=False)
        weights = np.ones(len(Y)) if w is None else w
        y_mean = weights @ Y / n
        Y = Y - y_mean
        weighted = Y * weights[:, None]
        if is_csr(rows):
            prepare = _uncentered_csr
        else:
            prepare = _center_on_device if ops.is_device(rows) else _center
        part = prepare(rows, weights, None if w is None else np.sqrt(w), weighted)
        D, mean = rows.shape[1], np.concatenate([part.mean, y_mean])
        if self.targets is None:
            self._products = PackedSymmetric(D, like=rows)
            self.targets = Y.shape[1]
            self._shift, self._sum = mean, np.zeros(D + self.targets)
            self._cross = np.zeros((D, self.targets))
            self._squares = np.zeros((self.targets, self.targets))
        # products first: where they run out of memory, nothing has changed
        if is_csr(part.rows):
            self._products.add_csr((part.rows.T @ part.rows).tocsr())
        else:
            self._products.add_products(part.rows)
        steps = mean - self._shift
        a, b = steps[:D], steps[D:]
        rest = np.concatenate([part.residual, weighted.sum(axis=0)])
        shifted_sum = rest + n * steps
        self.rows += len(Y) if w is None else int(np.count_nonzero(w))
        self.n += n
        self._sum += shifted_sum
        self._cross += part.cross + np.outer(part.residual, b) + np.outer(a, shifted_sum[D:])
        self._squares += weighted.T @ Y + np.outer(rest[D:], b) + np.outer(b, shifted_sum[D:])
        self._pending.append((n, a, part.residual))
        if len(self._pending) == SHARD:
            self._shifted()

    def _shifted(self) -> PackedSymmetric:
        """Apply pending updates, R'A + A'(R + diag(n) A), and return the products."""
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
    def _combine(self, other: Self, sign: int) -> Self:
        if other.targets is None:
            return self
        if self.targets is None:
            if sign < 0:
                raise ValueError("Moments of rows cannot be subtracted from empty Moments.")
            self.__dict__.update(copy.deepcopy(other).__dict__)
            return self
        D = self._products.size
        self._require_shape(other._products.size, other.targets)
        step = other._shift - self._shift  # from other's origin to this one's
        shifted_sum = other._sum + other.n * step
        z, y = slice(0, D), slice(D, None)
        products = self._shifted()
        products.add(other._shifted(), sign)
        products.add_products(
            sign * np.array([other._sum[z], step[z]]), np.array([step[z], shifted_sum[z]])
        )
        self._cross += sign * (
            other._cross + np.outer(other._sum[z], step[y]) + np.outer(step[z], shifted_sum[y])
        )
        self._squares += sign * (
            other._squares + np.outer(other._sum[y], step[y]) + np.outer(step[y], shifted_sum[y])
        )
        self._sum += sign * shifted_sum
        self.rows += sign * other.rows
        self.n += sign * other.n
        return self

    def _require_shape(self, columns: int, targets: int) -> None:
        if self.targets is not None and (columns, targets) != (self._products.size, self.targets):
            raise ValueError(
                f"Moments of {self._products.size} columns and {self.targets} targets do not "
                f"combine with rows of {columns} columns and {targets} targets."
            )

    def _require_rows(self) -> float:
        if self.targets is None:
            raise ValueError("These Moments are empty: add rows first.")
        return self.n

    def _require_target(self) -> None:
        self._require_rows()
        if self.targets == 0:
            raise ValueError("These Moments were given no target: add rows with y.")


@dataclass(frozen=True, eq=False)
class _CenteredBlock:
    """Rows sqrt(w) (z - mean), with sum w (z - mean) and sum w (z - mean) y'."""

    rows: Any
    mean: Array
    residual: Array
    cross: Array


def _uncentered_csr(rows: Any, w: Array, roots: Array | None, weighted: Array) -> _CenteredBlock:
    """Cast CSR rows to float64; they stay sparse, with the mean 0."""
    rows = rows.astype(np.float64)
    residual, cross = rows.T @ w, rows.T @ weighted
    if roots is not None:
        rows = rows.multiply(roots[:, None]).tocsr()
    return _CenteredBlock(rows, np.zeros(rows.shape[1]), residual, cross)


def _center(rows: Array, w: Array, roots: Array | None, weighted: Array) -> _CenteredBlock:
    """Center rows in their dtype, or in float64 where float32 products might overflow."""
    n, D = rows.shape
    dtype = np.dtype(np.float32 if rows.dtype == np.float32 else np.float64)
    Z = np.empty((n, D), dtype)
    mean, largest = np.empty(D, dtype), np.zeros(D, dtype)
    sums = np.zeros((1 + weighted.shape[1], D))  # of z - mean times w, and times y
    factors = np.column_stack([w, weighted]).T
    shares = (w / w.sum()).astype(dtype)
    scale = None if roots is None else roots.astype(dtype)[:, None]

    def work(panel: slice) -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # `largest` shows an overflow
            mean[panel] = shares @ rows[:, panel].astype(dtype, copy=False)
            for at in row_slices(n, _CENTERED_ROWS):
                part = np.subtract(rows[at, panel], mean[panel], out=Z[at, panel])
                sums[:, panel] += factors[:, at] @ part.astype(np.float64, copy=False)
                if scale is not None:
                    part *= scale[at]
                for each in (part.max(axis=0), -part.min(axis=0)):
                    np.maximum(largest[panel], each, out=largest[panel])

    for_each(work, list(row_slices(D, PANEL)), Cost(8.0 * D, 0.0), n)
    low, high = _FLOAT32_SAFE
    if dtype == np.float32 and not np.all((largest == 0) | ((largest >= low) & (largest <= high))):
        return _center(rows.astype(np.float64), w, roots, weighted)
    return _CenteredBlock(Z, mean.astype(np.float64), sums[0], sums[1:].T)


def _center_on_device(rows: Any, w: Array, roots: Array | None, weighted: Array) -> _CenteredBlock:
    """Center rows on their device; copy the vectors to the host."""
    Z, mean = _subtract_mean(rows, w)
    if rows.dtype == np.float32:
        low, high = _FLOAT32_SAFE
        largest = np.maximum(Z.max(axis=0), -Z.min(axis=0))
        largest = largest if roots is None else largest * float(roots.max())
        if not ((largest == 0) | ((largest >= low) & (largest <= high))).all():
            Z, mean = _subtract_mean(rows.astype(np.float64), w)
    both = ops.asarray_like(np.column_stack([w, weighted]), rows)
    sums = np.asarray(Z.astype(np.float64, copy=False).T @ both)
    if roots is not None:
        Z *= ops.asarray_like(roots.astype(Z.dtype)[:, None], rows)
    return _CenteredBlock(Z, np.asarray(mean, dtype=np.float64), sums[:, 0], sums[:, 1:])


def _subtract_mean(rows: Any, w: Array) -> tuple[Any, Any]:
    mean = ops.asarray_like((w / w.sum()).astype(rows.dtype), rows) @ rows
    return rows - mean, mean


def _as_targets(n: int, y: Array) -> Array:
    given = np.asarray(y)
    try:  # text as Python strings, so that the error shows 'a' and not np.str_('a')
        Y = np.asarray(given.astype(object) if given.dtype.kind == "U" else given, dtype=np.float64)
    except ValueError as error:
        raise ValueError(
            f"Moments needs numeric targets ({error}); ClassSums accepts labels."
        ) from None
    if Y.shape[:1] != (n,) or Y.ndim > 2:
        raise ValueError(
            f"A block of {n} rows needs {n} targets (or {n} rows of them), got an array of shape "
            f"{Y.shape}."
        )
    return Y.reshape(n, -1)
