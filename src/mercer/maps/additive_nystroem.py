"""One-dimensional Nystroem for additive kernels: pivoted Cholesky or kernel PCA (CVPR 2010)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from scipy.linalg import solve_triangular

from mercer import ops
from mercer._typing import Array, is_csr
from mercer.errors import ParameterError, Setting
from mercer.kernels import Additive
from mercer.kernels.gram import gram
from mercer.kernels.registry import KernelOption, additive_classes
from mercer.maps._additive import AdditiveMap
from mercer.maps._landmarks import (
    CUTOFF,
    pivoted_cholesky,
    propose_by_residual,
    propose_largest,
)
from mercer.maps._transform import Chain
from mercer.maps.base import Decay, Map
from mercer.maps.stages.base import require
from mercer.maps.stages.elementwise import Lift
from mercer.parallel.tile_size import Cost
from mercer.rng import Rng
from mercer.stats.base import Statistic
from mercer.stats.histogram import ColumnHistogram, Histogram
from mercer.validation.parameters import (
    Flag,
    InstanceOf,
    Integer,
    Option,
    PositiveNumbers,
    Seed,
    Threads,
)

_KERNELS = additive_classes()
_SAMPLE = 128  # values for kernel PCA
# Tables for float32: octaves below the smallest landmark and above the largest, pieces of an
# octave (2 to the power of these), and the largest error relative to the largest value of an x.
_OCTAVES_BELOW, _OCTAVES_ABOVE = 40, 16
_PER_OCTAVE = (2, 3, 4, 5)
_TABLE_ERROR = 2 * np.finfo(np.float32).eps


class AdditiveNystroem(AdditiveMap):
    """phi(x_i) = M' k(L, x_i), x >= 0, for an additive kernel sum k(x_i, z_i), landmarks L.

    n values for each input, side by side. With landmarks="greedy", M M' is the inverse of k(L, L):
    the Nystroem map of one number in its Newton (Cholesky) form, whose first values stay the same
    as n grows. CSR rows give CSR features where k(0, .) = 0, as it is for all kernels by name.

    Parameters
    ----------
    n_terms : int, default=5
        n. Columns with fewer distinct values have zeros in the last places.
    kernel : str or Kernel, default="jensen-shannon"
        "chi2", "hellinger", "intersection", "jensen-shannon", or an additive kernel.
    landmarks : {"greedy", "rpcholesky", "sample"} or array of shape (n_terms,), default="greedy"
        "greedy": each landmark where the error of those before it, weighted by the histogram of the
        data, is largest (pivoted Cholesky); "rpcholesky": sampled in proportion to it, which has
        0.4 to 10 times the error, 1.4 as the median of 36 cases. For Jensen-Shannon the error of
        "greedy" is 13, 63 and 190 times less than that of Homogeneous with window="uniform" and 3,
        5 and 7 values.
        "sample": the additive kernel PCA of Perronnin et al., on 128 values sampled from the
        histogram; it has 128 landmarks, so that it is many times slower, and the smallest error on
        the sampled values.
    per_column : bool, default=False
        Landmarks for each column, in place of the same ones for all.
    signed : bool, default=False
        Map negative numbers to sign(x) phi(|x|).
    random_state : int, Generator, RandomState or None, default=None
        Seed, for landmarks="sample"; ``seed_`` is the one in use.
    n_jobs : int or None, default=None
        Threads; None and -1 use all that the process may use.

    Attributes
    ----------
    landmarks_ : array of shape (n_landmarks,), or (n_features, n_landmarks) with per_column
        L. Where a column has fewer than others, its last one is repeated, with weight 0.
    trace_error_ : float or None
        sum (k(x, x) - |phi(x)|^2)/sum k(x, x) over the numbers of the data, by their histogram, for
        "greedy" and "rpcholesky".
    kernel_, limit_ : Kernel
        The exact kernel.

    Notes
    -----
    F. Perronnin, J. Sanchez and Y. Liu, "Large-scale image categorization with explicit data
    embedding", CVPR 2010. For the chi2 kernel, Chi2Series with poles at the landmarks has the same
    inner products.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import AdditiveNystroem
    >>> X = np.random.default_rng(0).dirichlet(np.ones(20), size=50)
    >>> phi = AdditiveNystroem(5).fit(X)
    >>> bool(abs(phi.transform(X) @ phi.transform(X).T - phi.kernel_(X)).max() < 1e-3)
    True
    """

    name = "additive-nystroem"
    numpy_attributes = True
    kernels = tuple(_KERNELS)
    paper = (
        "Perronnin, Sanchez and Liu, CVPR 2010 (sample); the chi2 series of arXiv 1206.4074 "
        "for any kernel (greedy)"
    )
    statistics_name = "landmarks"
    parameter_constraints = {
        "n_terms": (Integer(),),
        "kernel": (KernelOption(*_KERNELS), InstanceOf(Additive, "an additive kernel")),
        "landmarks": (Option("greedy", "rpcholesky", "sample"), PositiveNumbers()),
        "per_column": (Flag(),),
        "signed": (Flag(),),
        "random_state": (Seed(),),
        "n_jobs": (Threads(),),
    }
    landmarks_: Array
    trace_error_: float | None
    is_projection = True

    def __init__(
        self,
        n_terms: int = 5,
        *,
        kernel: str | Additive = "jensen-shannon",
        landmarks: str | Array = "greedy",
        per_column: bool = False,
        signed: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_terms = n_terms
        self.kernel = kernel
        self.landmarks = landmarks
        self.per_column = per_column
        self.signed = signed
        self.random_state = random_state
        self.n_jobs = n_jobs

    @property
    def random(self) -> bool:  # type: ignore[override]
        """Whether landmarks are sampled."""
        return isinstance(self.landmarks, str) and self.landmarks != "greedy"

    @property
    def rate(self) -> Decay:
        """Fast for smooth kernels; 1/(4n) at best for the intersection kernel, which has a cusp."""
        return Decay((2, 4, 8), 0.75 if self._kernel_name == "intersection" else 0.2)

    def additive(self) -> Additive:
        return _KERNELS[self._kernel_name]() if isinstance(self.kernel, str) else self.kernel

    def check(self, d: int) -> None:
        given = not isinstance(self.landmarks, str)
        if given and (len(self.landmarks) != self.n_terms or self.per_column):
            needed = (
                f" must have one number for each of the {self.n_terms} terms, with "
                f"per_column=False, got {self.landmarks!r} with per_column={self.per_column}."
            )
            raise ParameterError(type(self).__name__, Setting("landmarks"), needed)

    def required_statistics(self, d: int) -> Statistic | None:
        given = not isinstance(self.landmarks, str)
        kind = ColumnHistogram if self.per_column else Histogram
        return None if given else kind(magnitudes=self.signed)

    def build(self, rng: Rng, d: int, statistics: Any) -> Chain:
        kernel = self.additive()
        vanishes = self.signed or not kernel.term(np.zeros(2), np.arange(2.0)).any()
        self.trace_error_ = None
        if statistics is None:
            pairs = [_newton(kernel, np.asarray(self.landmarks, dtype=np.float64), self.n_terms)]
        elif self.per_column:
            columns = [statistics.column(j) for j in range(d)]
            pooled = statistics.pooled()
            histograms = [
                (f"column {j}", x, h) if np.any(x > 0) else ("pooled", *pooled)
                for j, (x, h) in enumerate(columns)
            ]
            pairs = self._subspaces(rng, kernel, histograms, vanishes)
        else:
            x, h = statistics.centers()
            x, h = np.append(0.0, x), np.append(statistics.zeros, h)
            pairs = self._subspaces(rng, kernel, [("pooled", x, h)], vanishes)
        most = max(len(L) for L, _ in pairs)
        landmarks = np.stack([np.pad(L, (0, most - len(L)), mode="edge") for L, _ in pairs])
        projections = np.stack([np.pad(M, ((0, most - len(M)), (0, 0))) for _, M in pairs])
        self.landmarks_ = landmarks if self.per_column else landmarks[0]
        return Chain((LandmarkLift(kernel, landmarks, projections, vanishes, self.signed),))

    @classmethod
    def cases(cls) -> list[Map]:
        return [
            cls(3, random_state=0),
            cls(3, kernel="chi2", per_column=True, random_state=0),
            cls(3, kernel="intersection", signed=True, random_state=0),
            cls(3, landmarks="rpcholesky", random_state=0),
            cls(3, landmarks="sample", random_state=0),
            cls(3, kernel="chi2", landmarks="sample", per_column=True, random_state=0),
        ]

    def _subspaces(
        self, rng: Rng, kernel: Additive, histograms: list[tuple[str, Array, Array]], vanishes: bool
    ) -> list[tuple[Array, Array]]:
        """Return (L, M) for each name of random numbers, values x and their weights h."""
        pairs, left, total = [], 0.0, 0.0
        for name, x, h in histograms:
            x, h = _with_zeros_first(x, h, vanishes)
            if self.landmarks == "sample":
                sums = np.cumsum(h)
                sample = np.searchsorted(sums, rng.uniform(name, _SAMPLE) * sums[-1], side="right")
                distinct, counts = np.unique(sample, return_counts=True)
                pairs.append((x[distinct], _principal(kernel, x[distinct], counts, self.n_terms)))
                continue
            landmarks, residual = self._pivots(rng, name, kernel, x, h)
            pairs.append(_newton(kernel, landmarks, self.n_terms))
            left += float(h @ residual)
            total += float(h @ kernel.term(x, x))
        if self.landmarks != "sample":
            self.trace_error_ = left / total if total else 0.0
        return pairs

    def _pivots(
        self, rng: Rng, name: str, kernel: Additive, x: Array, h: Array
    ) -> tuple[Array, Array]:
        """Return n landmarks by h(x) times the residual k(x, x) - |phi(x)|^2, which is returned.

        There are fewer than n where no residual is left.
        """

        def values(rows: Any, columns: Array) -> Array:
            return kernel.term(x[rows][:, None], x[columns])

        propose = propose_largest(h)
        if self.landmarks == "rpcholesky":
            propose = propose_by_residual(rng, f"rpcholesky {name}", self.n_terms, h)
        pivots, residual = pivoted_cholesky(values, kernel.term(x, x), self.n_terms, propose)
        return x[pivots] if len(pivots) else x[:1], residual


@dataclass(frozen=True, eq=False)
class LandmarkLift(Lift):
    """x -> M' k(L, x) for each number, in float64 for every dtype: M magnifies rounding."""

    kernel: Additive
    landmarks: Array  # (1, m) for all columns, or (d, m)
    projections: Array  # (1, m, N) or (d, m, N)
    vanishes: bool  # k(0, .) = 0
    signed: bool = False

    def check(self, d: int) -> None:
        super().check(d)
        self.kernel.check(self.landmarks)
        L, M = self.landmarks, self.projections
        good = L.ndim == 2 and len(L) in (1, d) and L.dtype == M.dtype == np.float64
        good = good and M.ndim == 3 and M.shape[:2] == L.shape and M.size > 0
        require(good, self, f"one row of landmarks and a projection, or {d} of them")

    @property
    def keeps_sparse(self) -> bool:  # type: ignore[override]
        return self.vanishes

    @property
    def values(self) -> int:
        return self.projections.shape[2]

    def __call__(self, X: Any, out: Array | None = None) -> Any:
        if not is_csr(X):
            return super().__call__(X, out)
        if not self.vanishes:
            return super().__call__(X.toarray(), out)
        if len(self.landmarks) == 1:
            return super().__call__(X)
        data = np.empty((len(X.data), self.values), X.dtype)
        order = np.argsort(X.indices, kind="stable")
        columns, starts = np.unique(X.indices[order], return_index=True)
        for column, entries in zip(columns, np.split(order, starts)[1:], strict=True):
            L, M = self.landmarks[[column]], self.projections[[column]]
            lift = LandmarkLift(self.kernel, L, M, True, self.signed)
            data[entries] = lift(X.data[entries][:, None])
        return self._lifted_csr(X, data.ravel())

    def lift(self, X: Array, out: Array, bad: Array) -> None:
        parts = [slice(None)]
        if len(self.landmarks) > 1:
            parts = [slice(j, j + 1) for j in range(X.shape[1])]
        for L, M, part in zip(self.landmarks, self.projections, parts, strict=True):
            some = X[:, part]
            numbers = some.astype(np.float64).reshape(-1, 1)
            lifted = M.T @ gram(self.kernel, L[:, None], numbers)
            first = self.values * (part.start or 0)
            end = first + self.values * some.shape[1]
            for q in range(self.values):
                out[:, first + q : end : self.values] = lifted[q].reshape(some.shape)

    def cost(self, d: int) -> Cost:
        m, columns = self.landmarks.shape[1], d * self.values
        return Cost(16.0 * d * m, 8.0 * (3 * columns + d * m), columns)

    def astype(  # type: ignore[override]
        self, dtype: DTypeLike
    ) -> LandmarkLift | TabulatedLift:
        """Return the lift itself, or a table of it: for float32 and the same lift of all columns.

        A table per column would take 100 kB for each.
        """
        if dtype != np.float32 or len(self.landmarks) > 1:
            return self
        return _tabulate(self) or self


@dataclass(frozen=True, eq=False)
class TabulatedLift(Lift):
    """x -> the float32 values of a lift by cubic polynomials on pieces of octaves.

    Numbers beyond the octaves of the table are lifted by the lift itself.
    """

    exact: LandmarkLift
    table: Array  # (count, 4, width), as ops.piecewise_cubic has it
    per_octave: int
    first: int

    @property
    def keeps_sparse(self) -> bool:  # type: ignore[override]
        return self.exact.vanishes

    @property
    def signed(self) -> bool:
        return self.exact.signed

    @property
    def values(self) -> int:
        return self.exact.values

    def __call__(self, X: Any, out: Array | None = None) -> Any:
        return super().__call__(X if self.keeps_sparse or not is_csr(X) else X.toarray(), out)

    def lift(self, X: Array, out: Array, bad: Array) -> None:
        ops.piecewise_cubic(X, self.table, self.values, self.per_octave, self.first, out, bad)
        if bad[0] and ops.is_device(X):
            self.exact.lift(X, out, bad)
        elif bad[0]:
            rows, columns = np.nonzero(np.isnan(out[:, :: self.values]))
            lifted = np.empty((len(rows), self.values), out.dtype)
            self.exact.lift(X[rows, columns][:, None], lifted, bad)
            for q in range(self.values):
                out[rows, columns * self.values + q] = lifted[:, q]
        bad[0] = False

    def cost(self, d: int) -> Cost:
        columns = d * self.values
        return Cost(4.0 * columns, 8.0 * columns, columns)


def _tabulate(lift: LandmarkLift) -> TabulatedLift | None:
    """Return the table of a lift that has the digits of float32, or None where there is none.

    The coefficients interpolate at Chebyshev points. The error is measured between them, relative
    to the largest value of the same x: a kernel with a cusp, such as the intersection, has none.
    """
    exponents = np.frexp(lift.landmarks[lift.landmarks > 0])[1]
    first = max(int(exponents.min(initial=1)) - _OCTAVES_BELOW, -126)
    octaves = min(int(exponents.max(initial=1)) + _OCTAVES_ABOVE, 128) - first
    nodes = np.cos(np.pi * (np.arange(4) + 0.5) / 4) / 2
    to_coefficients = np.linalg.inv(np.vander(nodes, increasing=True))
    between = np.array([-0.5, -0.35, -0.19, 0.0, 0.19, 0.35, 0.499])
    exact = partial(_lift_numbers, lift)
    for per_octave in _PER_OCTAVE:
        pieces = np.arange(octaves << per_octave)
        start = np.ldexp(1 + (pieces % (1 << per_octave) + 0.5) / (1 << per_octave), first)
        start = np.ldexp(start, pieces >> per_octave)
        step = np.ldexp(1.0, first - per_octave + (pieces >> per_octave))
        table = np.zeros((1 + len(pieces), 4, 4 if lift.values <= 4 else -(-lift.values // 8) * 8))
        with np.errstate(over="ignore"):
            table[1:, :, : lift.values] = to_coefficients @ exact(
                start[:, None] + step[:, None] * nodes
            )
            table[0, 0, : lift.values] = exact(np.zeros((1, 1)))[0, 0]
            numbers = (start[:, None] + step[:, None] * between).astype(np.float32)
            table = table.astype(np.float32)
        tabulated = TabulatedLift(lift, table, per_octave, first)
        wanted = exact(numbers.astype(np.float64))
        found = tabulated(numbers).reshape(wanted.shape)
        errors = np.abs(found - wanted).max(axis=-1)
        if np.all(errors <= _TABLE_ERROR * np.abs(wanted).max(axis=-1)):
            return tabulated
    return None


def _lift_numbers(lift: LandmarkLift, numbers: Array) -> Array:
    """Return the float64 values of an array of numbers, (..., values)."""
    out = np.empty((numbers.size, lift.values))
    lift.lift(numbers.reshape(-1, 1), out, np.zeros(1, dtype=bool))
    return out.reshape(*numbers.shape, lift.values)


def _with_zeros_first(x: Array, h: Array, vanishes: bool) -> tuple[Array, Array]:
    """Return distinct values and weights, 0 first where it has a weight and k(0, .) is not 0.

    Where no value is left, any landmark is exact, and 1 is one.
    """
    positive = x > 0
    zeros = 0.0 if vanishes else float(h[~positive].sum())
    x, h = x[positive], h[positive]
    if zeros:
        x, h = np.append(0.0, x), np.append(zeros, h)
    return (x, h) if len(x) else (np.ones(1), np.ones(1))


def _newton(kernel: Additive, landmarks: Array, n: int) -> tuple[Array, Array]:
    """Return (L, M) with M M' = k(L, L)^-1 by Cholesky; M has n columns, the last maybe 0.

    L is without landmarks on which those before them are exact.
    """
    K = kernel.term(landmarks[:, None], landmarks[None, :])
    kept: list[int] = []
    C = np.empty((0, 0))
    for i in range(len(landmarks)):
        row = solve_triangular(C, K[kept, i], lower=True) if kept else np.empty(0)
        residual = K[i, i] - row @ row
        if residual > CUTOFF * K[i, i]:
            C = np.pad(C, (0, 1))
            C[-1] = np.append(row, np.sqrt(residual))
            kept.append(i)
    M = np.zeros((max(len(kept), 1), n))
    if kept:
        M[:, : len(kept)] = solve_triangular(C, np.eye(len(kept)), lower=True).T
    return landmarks[kept] if kept else landmarks[:1], M


def _principal(kernel: Additive, x: Array, counts: Array, n: int) -> Array:
    """Return M = V S^(-1/2) of the first n eigenvectors of the Gram matrix of repeated x."""
    root = np.sqrt(counts)
    values, vectors = np.linalg.eigh(root[:, None] * kernel.term(x[:, None], x[None, :]) * root)
    values, vectors = values[::-1][:n], vectors[:, ::-1][:, :n]
    kept = values > CUTOFF * max(float(values[0]), 0.0)
    M = np.zeros((len(x), n))
    M[:, : len(values)][:, kept] = root[:, None] * vectors[:, kept] / np.sqrt(values[kept])
    return M
