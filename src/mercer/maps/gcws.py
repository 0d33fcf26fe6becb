"""Generalized consistent weighted sampling: hashes that agree as often as the min-max kernel says
(Li, KDD 2017; Ioffe, ICDM 2010).
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from mercer import ops
from mercer.kernels import GMM, Bits, Kernel
from mercer.maps._coded import CodedDrawn, CodedMap
from mercer.maps.base import Array, Map
from mercer.maps.block import Coded, OneHot, code_type
from mercer.maps.stages.base import require
from mercer.parallel.tile_size import Cost, blocks_in, worth_keeping, worth_marking
from mercer.rng import Rng
from mercer.validation.parameters import Flag, Integer, Option, Positive, Seed, Threads

_HASHES = 64  # hashes that are made together
_PARAMETERS = 4 * 4 * _HASHES  # bytes of the parameters of one column, for that many hashes
_FLOPS = 6.0  # for one hash of one number


_kept: weakref.WeakKeyDictionary[_Hashes, dict[int, tuple[Array, Array]]] = (
    weakref.WeakKeyDictionary()
)


class GCWS(CodedMap):
    """phi(x) = (e[h_1(x)], ..., e[h_k(x)])/sqrt(k), with Pr(h_j(x) = h_j(z)) = 2^-b + (1 - 2^-b)
    GMM(x, z); e[c] is the unit vector c.

    GMM(x, z) = sum min(u, v) / sum max(u, v), u and v being x and z with each number in two places,
    (x, 0) for x > 0 and (0, -x) otherwise. Hash j of u: for each u_i > 0, with r, c from Gamma(2,
    1) and beta uniform, all by (j, i) alone, t = floor(ln u_i/r + beta) and a = ln c - r (t + 1 -
    beta); the i with the smallest a, and its t, are mixed into b bits. Each hash has 2^b columns
    and a single 1 in them. A row of zeros has no codes and no features: GMM is 0/0 = 0 there, and
    so is ``limit_``.

    Linear models take the features as they are, a CSR matrix with n_hashes entries a row;
    ``blocks(X)`` has them as n_hashes small integers a row, and ``similarity`` estimates the kernel
    from those.

    Parameters
    ----------
    n_hashes : int, default=256
        k. The estimate of GMM has the variance GMM (1 - GMM)/k.
    bits : int, default=8
        b, from 1 to 16. Few bits save space; the paper finds 4 enough, 8 safe.
    scheme : {"full", "0-bit"}, default="full"
        "full" mixes (i, t) and is unbiased. "0-bit" mixes i alone, the paper's shortcut: hashes
        agree too often in low dimension (for 2 u and u by a third at d = 4), which has no closed
        form, so ``limit_`` is None.
    power : float, default=1.0
        p of the pGMM kernel, sum min(u, v)^p / sum max(u, v)^p.
    sparse_output : bool, default=True
        CSR features; False gives a dense array with n_hashes 2^bits columns.
    random_state : int, Generator, RandomState or None, default=None
    n_jobs : int or None, default=None
        Threads; None and -1 use all that the process may use.

    Notes
    -----
    The parameters of a column are made from (seed, hash, column) when they are needed, so the model
    stores none, and data with millions of columns costs only the columns in use. Codes are the same
    for float32 and float64 input of equal value, dense or CSR, on every CPU.

    Examples
    --------
    >>> from mercer import GCWS
    >>> X = [[-5.0, 3.0, 0.0, 2.0], [-1.0, 4.0, -2.0, 0.0]]
    >>> phi = GCWS(4096, random_state=0).fit(X)
    >>> estimate, error = phi.similarity(X, X)
    >>> bool(abs(estimate[0, 1] - 4 / 13) < 3 * error[0, 1])
    True
    """

    name = "gcws"
    kernels = ("gmm",)
    paper = "Li, KDD 2017"
    parameter_constraints = {
        "n_hashes": (Integer(),),
        "bits": (Integer(1, 16),),
        "scheme": (Option("full", "0-bit"),),
        "power": (Positive(),),
        "sparse_output": (Flag(),),
        "random_state": (Seed(),),
        "n_jobs": (Threads(),),
    }
    size_parameter = "n_hashes"

    def __init__(
        self,
        n_hashes: int = 256,
        *,
        bits: int = 8,
        scheme: str = "full",
        power: float = 1.0,
        sparse_output: bool = True,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_hashes = n_hashes
        self.bits = bits
        self.scheme = scheme
        self.power = power
        self.sparse_output = sparse_output
        self.random_state = random_state
        self.n_jobs = n_jobs

    @property
    def kernel_(self) -> GMM:
        """GMM, or pGMM."""
        return GMM(float(self.power))

    @property
    def limit_(self) -> Kernel | None:
        """2^-b + (1 - 2^-b) kernel_, and 0 for rows of zeros; None for the 0-bit scheme, which has
        no closed form.
        """
        return Bits(self.kernel_, int(self.bits)) if self.scheme == "full" else None

    def build(self, rng: Rng, d: int, statistics: None) -> _Hashes:
        return _Hashes(
            bool(self.sparse_output),
            rng.seed,
            self.n_hashes,
            self.bits,
            self.scheme == "full",
            float(self.power),
        )

    @classmethod
    def cases(cls) -> list[Map]:
        return [
            cls(64, bits=4, random_state=0),
            cls(64, bits=2, power=0.5, sparse_output=False, random_state=0),
            cls(64, bits=3, scheme="0-bit", random_state=0),
        ]

    def similarity(self, A: Any, B: Any) -> tuple[Array, Array]:
        """(estimate, standard error) of the kernel of each row of A with each row of B, from their
        codes alone.

        The estimate (m - 2^-b)/(1 - 2^-b), m the share of hashes that agree, is unbiased for the
        scheme "full". The standard error is that of m, put through the same line. Rows of zeros
        have the estimate 0.

        Parameters
        ----------
        A, B : array-like, sparse matrix, or coded block
            Rows, or the blocks that this map made of rows.
        """
        first, second = (one if isinstance(one, Coded) else self._coded(one) for one in (A, B))
        chance = 2.0**-self.bits
        shares = np.stack([np.mean(second.codes == codes, axis=1) for codes in first.codes])
        error = np.sqrt(shares * (1 - shares) / first.codes.shape[1]) / (1 - chance)
        estimate = (shares - chance) / (1 - chance)
        for block, axis in ((first, 0), (second, 1)):
            if block.empty is not None:
                empty = np.expand_dims(block.empty, 1 - axis)
                estimate, error = np.where(empty, 0.0, estimate), np.where(empty, 0.0, error)
        return estimate, error


@dataclass(frozen=True, eq=False)
class _Hashes(CodedDrawn):
    """The hashes of a seed: all that is drawn."""

    seed: int
    n_hashes: int
    bits: int
    keep_t: bool
    power: float
    dtype: Any = np.float64

    def check(self, d: int) -> None:
        good = (
            0 <= self.seed < 2**64
            and 0 < self.n_hashes < 2**31
            and 1 <= self.bits <= 16
            and 0 < self.power < np.inf
        )
        require(
            good and self.dtype == np.float64,
            self,
            "a seed, hashes, 1 to 16 bits and a power above 0, in float64",
        )

    def coded(self, tile: Any, out: None = None) -> Coded:
        codes = ops.empty((tile.shape[0], self.n_hashes), code_type(2**self.bits), tile)
        if hasattr(tile, "indptr"):
            stored = tile.data != 0
            indptr = np.concatenate([[0], np.cumsum(stored)])[tile.indptr]
            data = tile.data[stored]
            split = 2 * tile.indices[stored].astype(np.int64) + (data < 0)
            ids, places = self._among_kept(*_in_use(split, 2 * tile.shape[1]))
            logs = self._logs(data)
            empty = np.diff(indptr) == 0
        else:
            split = np.stack([tile > 0, tile < 0], axis=2).reshape(len(tile), -1)
            used = np.flatnonzero(split.any(axis=0))
            ids = used.astype(np.uint64)
            logs = np.where(split[:, used], self._logs(tile[:, used // 2]), np.float32(-np.inf))
            empty = ~split.any(axis=1)
        step = _HASHES * blocks_in(len(ids) * _PARAMETERS)
        for first in range(0, self.n_hashes, step):
            found = codes[:, first : first + step]
            parameters = self._parameters(ids, first, -(-found.shape[1] // _HASHES))
            how = (ids, self.seed, first, self.bits, self.keep_t, found)
            if hasattr(tile, "indptr"):
                ops.gcws_csr(indptr, places, logs, parameters, *how)
            else:
                ops.gcws(logs, parameters, *how)
        scale = 1 / np.sqrt(self.n_hashes)
        return Coded(
            codes, OneHot(2**self.bits, scale, self.dtype), empty=empty if empty.any() else None
        )

    def _among_kept(self, ids: Array, places: Array) -> tuple[Array, Array]:
        """The same columns among those whose parameters are kept, where all of them are: a few more
        cost nothing.
        """
        known = _kept.get(self, {}).get(0, (ids,))[0]
        at = np.minimum(np.searchsorted(known, ids), max(0, len(known) - 1))
        if not len(ids) or not len(known) or not np.array_equal(known[at], ids):
            return ids, places
        return known, at.astype(places.dtype)[places]

    def _parameters(self, ids: Array, first: int, blocks: int) -> Array:
        """Those of these columns, for hashes from `first` on. They are kept for the next tile,
        which often has the same columns.
        """
        kept = _kept.setdefault(self, {})
        if first in kept and np.array_equal(kept[first][0], ids):
            return kept[first][1]
        made = ops.gcws_parameters(
            self.seed, ids, first, ops.empty((blocks, len(ids), 4, _HASHES), np.float32, ids)
        )
        if worth_keeping(len(ids) * _PARAMETERS * -(-self.n_hashes // _HASHES)):
            kept[first] = ids, made
        return made

    def columns(self, d: int) -> int:
        return self.n_hashes << self.bits

    def astype(self, dtype: DTypeLike) -> _Hashes:
        return replace(self, dtype=np.dtype(dtype))

    def cost(self, d: int) -> Cost:
        features = 0 if self.sparse_output else 8 * self.columns(d)
        return Cost(_FLOPS * d * self.n_hashes, 8.0 * d + 12.0 * self.n_hashes + features)

    def _logs(self, values: Array) -> Array:
        """ln |x|^p in float32; -inf for 0."""
        with np.errstate(divide="ignore"):
            return (self.power * np.log(np.abs(values.astype(np.float64)))).astype(np.float32)


def _in_use(columns: Array, count: int) -> tuple[Array, Array]:
    """(ids, places): the columns that occur among `count`, rising, and where each entry's column is
    among them.
    """
    if worth_marking(count):
        marks = np.zeros(count, bool)
        marks[columns] = True
        ids, places = np.flatnonzero(marks), np.cumsum(marks, dtype=np.int32)[columns] - np.int32(1)
    else:
        ids, places = np.unique(columns, return_inverse=True)
    return ids.astype(np.uint64), places
