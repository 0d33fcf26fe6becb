"""Generalized consistent weighted sampling: hashes of the min-max kernel (Li, KDD 2017)."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from mercer import ops
from mercer._typing import Array, is_csr
from mercer.kernels import GMM, Bits, Kernel
from mercer.maps._coded import CodedMap, CodedTransform
from mercer.maps.base import Map
from mercer.maps.block import Coded, OneHot, aligned_empty, code_type
from mercer.maps.stages.base import require
from mercer.parallel.threads import row_slices
from mercer.parallel.tile_size import Cost, fits_column_mask, fits_in_cache, items_per_tile
from mercer.rng import Rng
from mercer.validation.parameters import Flag, Integer, Option, Positive, Seed, Threads

_HASHES = 64  # hashes that are computed together
_PARAMETERS = 4 * 4 * _HASHES  # bytes of the parameters of one column, for that many hashes
_LOGS = 2**14  # logarithms that are computed together
_FLOPS = 2.0  # for one hash of one number: 5e9 to 14e9 of them take a second of one core

# Parameters of the columns of the last tile: {transform: {first hash: (ids, parameters)}}.
_cache: weakref.WeakKeyDictionary[_Hashes, dict[int, tuple[Array, Array]]] = (
    weakref.WeakKeyDictionary()
)


class GCWS(CodedMap):
    """phi(x) = (e[h_1(x)], ..., e[h_k(x)])/sqrt(k), h_j hashes of b bits, e[c] the unit vector c.

    Pr(h_j(x) = h_j(z)) = 2^-b + (1 - 2^-b) GMM(x, z), with the generalized min-max kernel
    GMM(x, z) = sum min(u, v) / sum max(u, v), u and v being x and z split into two columns for each
    number: (x, 0) for x > 0 and (0, -x) otherwise. The features are a CSR matrix with n_hashes
    entries a row; ``blocks(X)`` has them as n_hashes small integers a row, and ``similarity``
    estimates the kernel from those. A row of zeros has no codes and no features: GMM is 0/0 = 0
    there, and so is ``limit_``.

    Parameters
    ----------
    n_hashes : int, default=256
        k. The estimate of GMM has the variance GMM (1 - GMM)/k.
    bits : int, default=8
        b, from 1 to 16. Few bits save memory; 4 are enough in the paper's experiments.
    scheme : {"full", "0-bit"}, default="full"
        "full" hashes (i, t) and is unbiased. "0-bit" hashes i alone, the paper's approximation:
        hashes are equal too often in low dimension (for 2 u and u by a third at d = 4), with no
        closed form, so that ``limit_`` is None.
    power : float, default=1.0
        p of the pGMM kernel, sum min(u, v)^p / sum max(u, v)^p.
    sparse_output : bool, default=True
        CSR features; False gives a dense array with n_hashes 2^bits columns.
    random_state : int, Generator, RandomState or None, default=None
        Seed; ``seed_`` is the one in use.
    n_jobs : int or None, default=None
        Threads; None and -1 use all that the process may use.

    Attributes
    ----------
    kernel_ : Kernel
        GMM, or pGMM.
    limit_ : Kernel or None
        2^-b + (1 - 2^-b) kernel_, the limit as n_hashes grows; None for the 0-bit scheme.

    Notes
    -----
    Hash j of u: for each u_i > 0, with r and c from Gamma(2, 1) and beta uniform, all functions of
    (seed, j, i) alone, t = floor(ln u_i/r + beta) and a = ln c - r (t + 1 - beta). The i with the
    smallest a, and its t, are mixed into b bits. The model stores none of these parameters, and
    data with millions of columns costs only the columns in use. Codes are the same for float32 and
    float64 input of equal value, dense or CSR, on every CPU.

    P. Li, "Linearized GMM kernels and normalized random Fourier features", KDD 2017.
    S. Ioffe, "Improved consistent sampling, weighted minhash and L1 sketching", ICDM 2010.

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
        """2^-b + (1 - 2^-b) kernel_, 0 for rows of zeros; None for the 0-bit scheme."""
        return Bits(self.kernel_, int(self.bits)) if self.scheme == "full" else None

    def build(self, rng: Rng, d: int, statistics: None) -> _Hashes:
        sparse, full = bool(self.sparse_output), self.scheme == "full"
        return _Hashes(sparse, rng.seed, self.n_hashes, self.bits, full, float(self.power))

    @classmethod
    def cases(cls) -> list[Map]:
        return [
            cls(64, bits=4, random_state=0),
            cls(64, bits=2, power=0.5, sparse_output=False, random_state=0),
            cls(64, bits=3, scheme="0-bit", random_state=0),
        ]

    def similarity(self, A: Any, B: Any) -> tuple[Array, Array]:
        """Estimate the kernel of each row of A with each row of B from their codes.

        (m - 2^-b)/(1 - 2^-b), m the share of equal hashes, is unbiased for the scheme "full". Rows
        of zeros have the estimate 0.

        Parameters
        ----------
        A, B : array-like, sparse matrix, or coded block
            Rows, or blocks of this map.

        Returns
        -------
        estimate, error : arrays of shape (rows of A, rows of B)
            The estimate and its standard error.
        """
        first, second = (rows if isinstance(rows, Coded) else self._encode(rows) for rows in (A, B))
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
class _Hashes(CodedTransform):
    """The hashes of a seed."""

    seed: int
    n_hashes: int
    bits: int
    keep_t: bool
    power: float
    dtype: Any = np.float64

    def check(self, d: int) -> None:
        good = 0 <= self.seed < 2**64 and 0 < self.n_hashes < 2**31 and 1 <= self.bits <= 16
        good = good and 0 < self.power < np.inf and self.dtype == np.float64
        require(good, self, "a seed, hashes, 1 to 16 bits and a power above 0, in float64")

    def coded(self, tile: Any, out: None = None) -> Coded:
        codes = ops.empty((tile.shape[0], self.n_hashes), code_type(2**self.bits), tile)
        if is_csr(tile):
            indptr, indices, data = tile.indptr, tile.indices, tile.data
            if np.count_nonzero(data) < len(data):
                stored = data != 0
                indptr = np.concatenate([[0], np.cumsum(stored)])[indptr]
                indices, data = indices[stored], data[stored]
            small = 2 * tile.shape[1] <= np.iinfo(np.int32).max
            split = indices.astype(np.int32 if small else np.int64)
            split *= 2
            split += data < 0
            ids, places = self._places(split, 2 * tile.shape[1])
            logs = self._logs(data)
            empty = np.diff(indptr) == 0
        else:
            split = np.stack([tile > 0, tile < 0], axis=2).reshape(len(tile), -1)
            used = np.flatnonzero(split.any(axis=0))
            ids = used.astype(np.uint64)
            logs = np.where(split[:, used], self._logs(tile[:, used // 2]), np.float32(-np.inf))
            empty = ~split.any(axis=1)
        blocks = -(-self.n_hashes // _HASHES)
        bytes_each = len(ids) * _PARAMETERS
        step = _HASHES * (
            blocks if fits_in_cache(bytes_each * blocks) else items_per_tile(bytes_each)
        )
        for first in range(0, self.n_hashes, step):
            out_codes = codes[:, first : first + step]
            parameters = self._parameters(ids, first, -(-out_codes.shape[1] // _HASHES))
            settings = (ids, self.seed, first, self.bits, self.keep_t, out_codes)
            if is_csr(tile):
                ops.gcws_csr(indptr, places, logs, parameters, *settings)
            else:
                ops.gcws(logs, parameters, *settings)
        table = OneHot(2**self.bits, 1 / np.sqrt(self.n_hashes), self.dtype)
        return Coded(codes, table, empty=empty if empty.any() else None)

    def _places(self, columns: Array, count: int) -> tuple[Array, Array]:
        """Return ids of distinct columns, of count, and the position of each entry among them.

        They are those whose parameters are cached, where these have all columns.
        """
        ids = _cache.get(self, {}).get(0, (columns[:0],))[0]
        if len(ids) > 0 and ids[-1] < count <= 4 * len(columns):
            table = np.full(count, -1, np.int32)
            table[ids] = np.arange(len(ids), dtype=np.int32)
            places = table[columns]
            if places.min() >= 0:
                return ids, places
        return self._among_cached(*_columns_in_use(columns, count))

    def _among_cached(self, ids: Array, places: Array) -> tuple[Array, Array]:
        """Return (ids, places) among the columns whose parameters are cached, if all of them are.

        Unused columns cost nothing.
        """
        cached = _cache.get(self, {}).get(0, (ids,))[0]
        at = np.minimum(np.searchsorted(cached, ids), max(0, len(cached) - 1))
        if not len(ids) or not len(cached) or not np.array_equal(cached[at], ids):
            return ids, places
        return cached, at.astype(places.dtype)[places]

    def _parameters(self, ids: Array, first: int, blocks: int) -> Array:
        """Return the parameters of these columns, for hashes from `first` on.

        They are cached for the next tile, which often has the same columns.
        """
        cached = _cache.setdefault(self, {})
        if first in cached and np.array_equal(cached[first][0], ids):
            return cached[first][1]
        # Vectors of parameters that begin within a cache line take 1.6 times as long to hash with.
        shape = (blocks, len(ids), 4, _HASHES)
        on_device = ops.is_device(ids)
        empty = ops.empty(shape, np.float32, ids) if on_device else aligned_empty(shape, np.float32)
        parameters = ops.gcws_parameters(self.seed, ids, first, empty)
        if fits_in_cache(len(ids) * _PARAMETERS * -(-self.n_hashes // _HASHES)):
            cached[first] = ids, parameters
        return parameters

    def astype(self, dtype: DTypeLike) -> _Hashes:
        return replace(self, dtype=np.dtype(dtype))

    def cost(self, d: int) -> Cost:
        columns = self.n_hashes << self.bits
        features = 0 if self.sparse_output else 8 * columns
        used = 8.0 * d + 12.0 * self.n_hashes + features
        return Cost(_FLOPS * d * self.n_hashes, used, columns)

    def _logs(self, values: Array) -> Array:
        """Return ln |x|^p in float32; -inf for 0.

        Some numbers at a time: new memory for all of them in float64 takes longer than logarithms.
        """
        with np.errstate(divide="ignore"):
            if ops.is_device(values):
                return (self.power * np.log(np.abs(values.astype(np.float64)))).astype(np.float32)
            logs = np.empty(values.shape, np.float32)
            for some in row_slices(len(values), max(1, _LOGS // max(1, values[:1].size))):
                wide = np.abs(values[some], dtype=np.float64)
                np.log(wide, out=wide)
                np.multiply(wide, self.power, out=logs[some], casting="same_kind")
        return logs


def _columns_in_use(columns: Array, count: int) -> tuple[Array, Array]:
    """Return the distinct columns, of count, and the position of each entry among them."""
    if fits_column_mask(count):
        marks = np.zeros(count, bool)
        marks[columns] = True
        ids, places = np.flatnonzero(marks), np.cumsum(marks, dtype=np.int32)[columns] - np.int32(1)
    else:
        ids, places = np.unique(columns, return_inverse=True)
    return ids.astype(np.uint64), places
