"""Signs of stable random projections (Li, Samorodnitsky and Hopcroft, NIPS 2013)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer._typing import Array, is_csr
from mercer.kernels import SignStable
from mercer.maps._coded import CodedMap, CodedTransform
from mercer.maps._size import SIZE
from mercer.maps.base import Map
from mercer.maps.block import Coded, OneHot
from mercer.maps.stages.linear import Matrix, require_panel
from mercer.parallel.tile_size import Cost
from mercer.rng import Rng
from mercer.validation.parameters import Flag, Positive, Seed, Threads


class SignCauchy(CodedMap):
    """phi(x) = (e[w_1.x > 0], ..., e[w_k.x > 0])/sqrt(k), w alpha-stable, e[b] = (1, 0) or (0, 1).

    Each projection has two columns, with a single 1 in them: <phi(x), phi(z)> is the share of
    projections whose signs are equal, and its mean is ``kernel_``. The scale of a row does not
    matter; a row of zeros has all signs -1.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        k, the number of projections; the output has 2 k columns, of rank k + 1. "auto" as in
        RandomFourier.
    alpha : float, default=1.0
        Index of the symmetric stable density of the weights, 0 < alpha <= 2: 1 is Cauchy, 2 is
        Gaussian.
    sparse_output : bool, default=True
        CSR features with k entries a row; False gives a dense array.
    random_state : int, Generator, RandomState or None, default=None
        Seed; ``seed_`` is the one in use.
    n_jobs : int or None, default=None
        Threads; None and -1 use all that the process may use.

    Attributes
    ----------
    n_components_ : int
        The k in use.
    kernel_, limit_ : Kernel
        The probability of equal signs, an integral that is computed exactly.

    Notes
    -----
    For alpha = 1 the kernel is near 1 - arccos(rho)/pi, rho being the chi2 similarity of two
    histograms.

    P. Li, G. Samorodnitsky and J. Hopcroft, "Sign Cauchy projections and chi-square kernel",
    NIPS 2013.

    Examples
    --------
    >>> from mercer import SignCauchy
    >>> X = [[0.1, 0.2, 0.3, 0.4], [0.4, 0.1, 0.0, 0.5]]
    >>> phi = SignCauchy(8192, random_state=0).fit(X)
    >>> Z = phi.transform(X)
    >>> bool(abs((Z @ Z.T)[0, 1] - phi.kernel_(X)[0, 1]) < 0.02)
    True
    """

    name = "sign-cauchy"
    kernels = ("sign-stable",)
    paper = "Li, Samorodnitsky and Hopcroft, NIPS 2013; a comparator of Wang et al., ICCV 2015"
    parameter_constraints = {
        "n_components": SIZE,
        "alpha": (Positive(at_most=2),),
        "sparse_output": (Flag(),),
        "random_state": (Seed(),),
        "n_jobs": (Threads(),),
    }
    size_follows_rows = True
    n_components_: int

    def __init__(
        self,
        n_components: int | str = "auto",
        *,
        alpha: float = 1.0,
        sparse_output: bool = True,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.sparse_output = sparse_output
        self.random_state = random_state
        self.n_jobs = n_jobs

    @property
    def kernel_(self) -> SignStable:
        """The probability of equal signs."""
        return SignStable(float(self.alpha))

    def build(self, rng: Rng, d: int, statistics: None) -> _Signs:
        panel = _sample_stable(rng, self.n_components_, d, float(self.alpha))
        return _Signs(bool(self.sparse_output), panel)

    @classmethod
    def cases(cls) -> list[Map]:
        return [cls(64, random_state=0), cls(64, alpha=1.5, sparse_output=False, random_state=0)]


def _sample_stable(rng: Rng, rows: int, d: int, alpha: float) -> Array:
    """Return a (d, rows) panel of symmetric alpha-stable weights, the largest of each row being 1.

    By the formula of Chambers, Mallows and Stuck; the division changes no sign of a projection.
    """
    V = np.pi * (rng.uniform("angles", rows, d) - 0.5)
    E = -np.log(rng.uniform("exponentials", rows, d))
    with np.errstate(divide="ignore"):
        size = np.log(np.abs(np.sin(alpha * V))) - np.log(np.cos(V)) / alpha
        if alpha != 1:
            size += (1 - alpha) / alpha * (np.log(np.cos((1 - alpha) * V)) - np.log(E))
    return np.ascontiguousarray((np.sign(V) * np.exp(size - size.max(axis=1, keepdims=True))).T)


@dataclass(frozen=True, eq=False)
class _Signs(CodedTransform):
    """Signs of the projections of rows."""

    panel: Array  # (d, k)

    def check(self, d: int) -> None:
        super().check(d)
        require_panel(self, self.panel, d)

    def coded(self, tile: Any, out: None = None) -> Coded:
        signs = Matrix(self.panel)(_divide_by_largest(tile)) > 0
        k = self.panel.shape[1]
        return Coded(signs.view(np.uint8), OneHot(2, 1 / np.sqrt(k), self.panel.dtype))

    def cost(self, d: int) -> Cost:
        columns = 2 * self.panel.shape[1]
        return Cost(float(self.panel.size), 8.0 * (2 * d + 2 * columns), columns)


def _divide_by_largest(tile: Any) -> Any:
    """Return rows divided by their largest magnitude, so that no product overflows."""
    if is_csr(tile):
        magnitudes = np.abs(tile.data)
        largest = np.ones(tile.shape[0], tile.dtype)
        stored = np.flatnonzero(np.diff(tile.indptr))
        largest[stored] = np.maximum.reduceat(magnitudes, tile.indptr[stored]) if len(stored) else 1
        largest[largest == 0] = 1
        scaled = tile.copy()
        scaled.data /= np.repeat(largest, np.diff(tile.indptr))
        return scaled
    largest = np.abs(tile).max(axis=1, keepdims=True)
    return tile / np.where(largest > 0, largest, 1)
