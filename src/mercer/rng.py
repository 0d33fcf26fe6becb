"""Counter-based random numbers: a function of (seed, name, position) alone.

A weight is a 64-bit Philox word at a position of a named sequence, transformed by functions of this
module. Neither NumPy's version, the number of workers nor the number of features changes it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.errors import ParameterError, Setting

Array = NDArray[np.float64]

_WORDS_PER_COUNTER = 4  # of Philox 4x64
_MAX_SEED = 2**64 - 1


@dataclass(frozen=True)
class Rng:
    """Named, unbounded sequences of random numbers.

    Parameters
    ----------
    seed : int
        From 0 to 2^64 - 1.
    """

    seed: int

    def words(self, name: str, start: int, count: int) -> NDArray[np.uint64]:
        """Return words start, ..., start + count - 1 of the sequence ``name``."""
        name_hash = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")
        counter, skipped = divmod(start, _WORDS_PER_COUNTER)
        generator = np.random.Philox(key=self.seed | name_hash << 64, counter=counter)
        return generator.random_raw(skipped + count)[skipped:]

    def uniform(self, name: str, *shape: int, start: int = 0) -> Array:
        """Sample uniformly from the open interval (0, 1), in row-major order from ``start`` on.

        The upper 52 bits of each word are used: with 53 the largest number would round to 1.
        """
        words = self.words(name, start, int(np.prod(shape)))
        return (((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52).reshape(shape)

    def normal(self, name: str, *shape: int, start: int = 0) -> Array:
        """Sample from the standard normal distribution."""
        from scipy.special import ndtri

        return ndtri(self.uniform(name, *shape, start=start))

    def signs(self, name: str, *shape: int, start: int = 0) -> Array:
        """Sample +1 and -1 with equal probability."""
        bits = self.words(name, start, int(np.prod(shape))) >> np.uint64(63)
        return np.where(bits, 1.0, -1.0).reshape(shape)

    def chi(self, name: str, degrees: float, count: int, start: int = 0) -> Array:
        """Sample from the chi distribution: norms of standard normal vectors."""
        return chi_quantile(self.uniform(name, count, start=start), degrees)


def chi_quantile(u: Array, degrees: float) -> Array:
    """Return quantiles of the chi distribution."""
    from scipy.special import gammaincinv

    return np.sqrt(2 * gammaincinv(degrees / 2, u))


def new_seed() -> int:
    """Return a seed of 63 bits from the operating system's entropy."""
    return int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> np.uint64(1))


def seed_from(estimator_name: str, random_state: Any) -> int:
    """Return the seed for a ``random_state``.

    That is an integer itself, the next number of a generator, or new entropy for None.
    """
    if random_state is None:
        return new_seed()
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**63, dtype=np.int64))
    is_integer = isinstance(random_state, int | np.integer) and not isinstance(random_state, bool)
    if is_integer and 0 <= random_state <= _MAX_SEED:
        return int(random_state)
    needed = "None, an integer from 0 to 2^64 - 1, a numpy Generator or a RandomState"
    text = f" must be {needed}, got {random_state!r}."
    raise ParameterError(estimator_name, Setting("random_state"), text)
