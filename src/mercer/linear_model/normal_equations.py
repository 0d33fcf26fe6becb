"""Normal equations: the sufficient statistics of least squares."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer import ops
from mercer._typing import Array
from mercer.parallel.threads import row_slices
from mercer.stats.moments import Moments

_ROWS = 16  # of a scatter matrix, whose sum is computed at a time


@dataclass(frozen=True, eq=False)
class NormalEquations:
    """(scatter + alpha I) c = cross, b = target_mean - mean'c, for t outputs.

    Their solution minimizes sum w |y - b - z'c|^2 + alpha |c|^2. Sums are about the means with an
    intercept, which is not penalized; about 0, with means of 0, without one. Normal equations of
    disjoint rows are added, and those of a part of the rows subtracted.

    Parameters
    ----------
    n : float
        Sum of the weights.
    mean : array of shape (D,)
    scatter : array of shape (D, D)
        sum w (z - mean)(z - mean)'; on a device where the features are.
    cross : array of shape (D, t)
        sum w (z - mean)(y - target_mean)'.
    target_mean : array of shape (t,)
    target_scatter : array of shape (t,)
        sum w (y - target_mean)^2.
    fit_intercept : bool
    rows : float or None
        Number of rows; None where weights are frequencies, so that it is n. Class weights scale
        the loss of a row and do not count as more rows.
    """

    n: float
    mean: Array
    scatter: Any
    cross: Array
    target_mean: Array
    target_scatter: Array
    fit_intercept: bool = True
    rows: float | None = None

    @classmethod
    def of(cls, moments: Moments, *, fit_intercept: bool = True) -> NormalEquations:
        """Convert moments of features and targets."""
        parts = (moments.cross, moments.target_mean, np.diag(moments.target_scatter).copy())
        return cls._about(moments, *parts, fit_intercept)

    @classmethod
    def of_classes(
        cls,
        moments: Moments,
        counts: Array,
        sums: Array,
        *,
        fit_intercept: bool = True,
        rows: float | None = None,
    ) -> NormalEquations:
        """Convert class sums, for one-versus-rest targets: cross = 2 (sums - counts mean)'.

        Targets are +1 in the class and -1 outside, a column for each class, or one for two classes,
        +1 for the second: those of scikit-learn's RidgeClassifier.

        Parameters
        ----------
        moments : Moments
            Of all rows; targets are ignored.
        counts : array of shape (classes,)
            Sum of the weights of each class.
        sums : array of shape (classes, D)
            sum w z of each class.
        fit_intercept : bool, default=True
        rows : float or None, default=None
            As in NormalEquations.
        """
        counts, sums = np.asarray(counts, dtype=np.float64), np.asarray(sums, dtype=np.float64)
        n, mean = moments.n, moments.mean
        if len(counts) < 2 or sums.shape != (len(counts), len(mean)):
            raise ValueError(
                f"NormalEquations.of_classes needs the sums of at least two classes in {len(mean)} "
                f"columns, got {len(counts)} class(es) and sums of shape {sums.shape}."
            )
        if not np.isclose(counts.sum(), n, rtol=1e-9):
            raise ValueError(
                "NormalEquations.of_classes needs the counts of the rows of the moments: they add "
                f"up to {counts.sum():g}, the moments have {n:g}."
            )
        if len(counts) == 2:
            counts, sums = counts[1:], sums[1:]
        cross = 2 * (sums - np.outer(counts, mean)).T
        parts = (cross, 2 * counts / n - 1, 4 * counts * (n - counts) / n)
        return replace(cls._about(moments, *parts, fit_intercept), rows=rows)

    @classmethod
    def _about(
        cls,
        moments: Moments,
        cross: Array,
        target_mean: Array,
        target_scatter: Array,
        fit_intercept: bool,
    ) -> NormalEquations:
        """Convert sums about the means, which are moved to 0 where there is no intercept."""
        n, mean, scatter = moments.n, moments.mean, moments.scatter
        if n <= 0:
            raise ValueError(f"Least squares needs rows with a weight above 0, got {n:g} in all.")
        if not fit_intercept:
            outer = (ops.asarray_like(x, scatter) for x in (n * mean[:, None], mean[None, :]))
            scatter += np.multiply(*outer)
            cross = cross + np.outer(n * mean, target_mean)
            target_scatter = target_scatter + n * target_mean**2
            mean, target_mean = np.zeros_like(mean), np.zeros_like(target_mean)
        if not (
            np.isfinite(scatter.sum())
            and np.isfinite(cross.sum())
            and np.isfinite(target_scatter.sum())
        ):
            raise ValueError(
                "Sums of squares of features or targets leave the range of float64: scale them "
                "down."
            )
        return cls(n, mean, scatter, cross, target_mean, target_scatter, fit_intercept)

    @classmethod
    def of_rows(cls, moments: Moments, *, fit_intercept: bool = True) -> NormalEquations:
        """Convert moments of rows without targets: cross has no columns."""
        return cls._about(
            moments, np.zeros((len(moments.mean), 0)), np.zeros(0), np.zeros(0), fit_intercept
        )

    def to_host(self) -> NormalEquations:
        """Return them with the scatter in host memory."""
        return replace(self, scatter=np.asarray(self.scatter))

    def without_targets(self) -> NormalEquations:
        """Return the normal equations of the same rows without their targets."""
        return replace(
            self,
            cross=self.cross[:, :0],
            target_mean=self.target_mean[:0],
            target_scatter=np.zeros(0),
        )

    def every(self, step: int) -> NormalEquations:
        """Return the normal equations of every step-th feature; these where step is 1."""
        if step == 1:
            return self
        scatter = np.ascontiguousarray(self.scatter[::step, ::step])
        return replace(self, mean=self.mean[::step], scatter=scatter, cross=self.cross[::step])

    @property
    def scale(self) -> float:
        """Unit of alphas: trace(scatter)/D, the mean eigenvalue; 1 for constant features."""
        return float(np.trace(self.scatter)) / len(self.scatter) or 1.0

    @property
    def observations(self) -> float:
        """Number of rows, with which degrees of freedom are compared."""
        return self.n if self.rows is None else self.rows

    @property
    def variance(self) -> float:
        """Mean squared error of the best constant, summed over outputs."""
        return float(self.target_scatter.sum()) / self.n

    def intercept(self, coef: Array) -> Array:
        """Return b = target_mean - mean'c."""
        return self.target_mean - self.mean @ coef

    def error(self, coef: Array, intercept: Array) -> Array:
        """Return sum w (y - b - z'c)^2 on these rows for each output, for any c and b.

        It is a difference of large sums, at least 0 also where rounding would make it negative.
        """
        product = np.asarray(self.scatter @ ops.asarray_like(coef, self.scatter))
        inside = self.target_scatter + np.sum(coef * (product - 2 * self.cross), axis=0)
        return (
            np.maximum(inside, 0.0)
            + self.n * (self.target_mean - intercept - self.mean @ coef) ** 2
        )

    def __add__(self, other: NormalEquations) -> NormalEquations:
        return self._combine(other, +1)

    def __sub__(self, other: NormalEquations) -> NormalEquations:
        return self._combine(other, -1)

    def _combine(self, other: NormalEquations, sign: int) -> NormalEquations:
        if self.cross.shape != other.cross.shape or self.fit_intercept != other.fit_intercept:
            raise ValueError(
                f"Normal equations of {_describe(self)} and of {_describe(other)} do not combine: "
                "they need the same features, targets and intercept."
            )
        n = self.n + sign * other.n
        if not n > 0:
            raise ValueError(f"No rows are left: {other.n:g} subtracted from {self.n:g}.")
        step, target_step = other.mean - self.mean, other.target_mean - self.target_mean
        between = sign * self.n * other.n / n
        scatter = np.empty_like(self.scatter)
        height = len(step) if ops.is_device(scatter) else _ROWS  # a panel that stays in cache
        for rows in row_slices(len(step), height):
            part = scatter[rows]
            u, v = (ops.asarray_like(x, part) for x in (between * step[rows, None], step[None]))
            np.multiply(u, v, out=part)
            part += self.scatter[rows]
            (np.add if sign > 0 else np.subtract)(part, other.scatter[rows], out=part)
        return NormalEquations(
            n,
            self.mean + (sign * other.n / n) * step,
            scatter,
            self.cross + sign * other.cross + np.outer(between * step, target_step),
            self.target_mean + (sign * other.n / n) * target_step,
            self.target_scatter + sign * other.target_scatter + between * target_step**2,
            self.fit_intercept,
            None
            if self.rows is None and other.rows is None
            else self.observations + sign * other.observations,
        )


def _describe(normal: NormalEquations) -> str:
    columns, targets = normal.cross.shape
    return (
        f"{columns} columns and {targets} targets with{'' if normal.fit_intercept else 'out'} "
        "an intercept"
    )
