"""Random numbers that depend on (seed, name, place) and on nothing else.

A weight is a raw 64-bit Philox word, found by its place in a named sequence, sent through a
transform of our own. So neither NumPy's version, nor the number of workers, nor how many features
are drawn changes a weight that was there before.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.errors import ParameterError, Setting

Array = NDArray[np.float64]

_WORDS_PER_STEP = 4  # Philox 4x64 makes four words for each value of its counter
_SEEDS = 2**64


@dataclass(frozen=True)
class Rng:
    """Named, endless sequences of random numbers; seed is any whole number from 0 to 2^64 - 1."""

    seed: int

    def words(self, name: str, start: int, count: int) -> NDArray[np.uint64]:
        """Words start, ..., start + count - 1 of the sequence `name`."""
        lane = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")
        skipped = start % _WORDS_PER_STEP
        counter = start // _WORDS_PER_STEP
        generator = np.random.Philox(key=self.seed | lane << 64, counter=counter)
        return generator.random_raw(skipped + count)[skipped:]

    def uniform(self, name: str, *shape: int, start: int = 0) -> Array:
        """Uniform on the open interval (0, 1); the array is filled row by row from place `start` of
        the sequence.
        """
        words = self.words(name, start, int(np.prod(shape)))
        return open_interval(words).reshape(shape)

    def normal(self, name: str, *shape: int, start: int = 0) -> Array:
        """Standard normal."""
        from scipy.special import ndtri

        return ndtri(self.uniform(name, *shape, start=start))

    def signs(self, name: str, *shape: int, start: int = 0) -> Array:
        """+1 or -1 with equal chances."""
        return np.where(
            self.words(name, start, int(np.prod(shape))) >> np.uint64(63), 1.0, -1.0
        ).reshape(shape)

    def chi(self, name: str, degrees: float, count: int, start: int = 0) -> Array:
        """Lengths of standard normal vectors with that many degrees of freedom."""
        return chi_quantile(self.uniform(name, count, start=start), degrees)


def chi_quantile(u: Array, degrees: float) -> Array:
    """The chi distribution's quantile function."""
    from scipy.special import gammaincinv

    return np.sqrt(2 * gammaincinv(degrees / 2, u))


def open_interval(words: NDArray[np.uint64]) -> Array:
    """The upper 52 bits of each word as a number strictly between 0 and 1 (with 53, the largest
    would round to 1).
    """
    return ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def seed_from(who: str, random_state: Any) -> int:
    """The seed that a random_state stands for: the number itself, the next number of a generator,
    or fresh entropy for None.
    """
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> np.uint64(1))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**63, dtype=np.int64))
    if (
        isinstance(random_state, int | np.integer)
        and not isinstance(random_state, bool)
        and 0 <= random_state < _SEEDS
    ):
        return int(random_state)
    needed = " must be None, a whole number from 0 to 2^64 - 1, a numpy Generator or a RandomState"
    raise ParameterError(who, Setting("random_state"), f"{needed}, got {random_state!r}.")
