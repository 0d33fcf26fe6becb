"""Data sets of the GMM paper with its sizes and published numbers.

Includes digits on noise and rotated digits, made from MNIST.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.records import RANDOM, SPLIT, Rule
from experiments.running import Bench
from experiments.sets import DataSet, Split

Array = NDArray[Any]
Sizes = tuple[int | None, int | None]  # training and test rows; None is all

VARIANTS = ("linear, squared hinge", "pGMM")

_SIDE = 28  # of an image
_QUICK = (120, 100)


@dataclass(frozen=True)
class Rows:
    """A row of Tables 1 to 3.

    Attributes
    ----------
    name, data : str
        The paper's name of it; that of its file.
    table : int
    published : (linear, RBF, GMM) in per cent, or () where the numbers are not known to us
    gamma : float or None
        The RBF kernel's best, as published.
    sizes : Sizes
        The paper's.
    standard : Sizes or None
        Those at standard size, where fewer.
    large : bool
        Thousands of training rows: the published gamma alone at standard size.
    wide : bool
        The RBF kernel needs C up to 1e5.
    variants : tuple of str
        Which of ours are run too; few where they take long.
    note : str
        Why it misses, where it does.
    """

    name: str
    data: str
    table: int
    published: tuple[float, ...] = ()
    gamma: float | None = None
    sizes: Sizes = (None, None)
    standard: Sizes | None = None
    rule: Rule = SPLIT
    large: bool = False
    wide: bool = False
    variants: tuple[str, ...] = VARIANTS
    note: str = ""

    def draws(self, bench: Bench) -> int:
        """Return the number of splits: one where the split is official, several where random.

        One at standard size, where the set is large or nothing is published.
        """
        one = self.large or not self.published
        return 1 if self.rule == SPLIT else bench.pick(1, 1 if one else 3, 10)

    def split(self, bench: Bench, seed: int = 0, standard: Sizes | None = None) -> Split:
        """Return training and test rows as floats; ``standard`` replaces the sizes at that size."""
        train, test = bench.pick(_QUICK, standard or self.standard or self.sizes, self.sizes)
        cut = self._cut(bench.sets[self.data], bench, train, test, seed)
        dtype = np.float32 if cut.X.dtype in (np.uint8, np.float32) else np.float64
        X, X_test = cut.X.astype(dtype), cut.X_test.astype(dtype)
        return Split(*self._made(X, seed, 0), cut.y, *self._made(X_test, seed, 1), cut.y_test)

    def _cut(
        self, found: DataSet, bench: Bench, train: int | None, test: int | None, seed: int
    ) -> Split:
        if self.name == "Shuttle500":
            first, rest = slice(None, train), slice(found.n_train, None)
            rest = bench.pick(slice(found.n_train, found.n_train + 100), rest, rest)
            return Split(found.X[first], found.y[first], found.X[rest], found.y[rest])
        if self.name == "Vowel":
            found = DataSet(found.name, found.X[: found.n_train], found.y[: found.n_train])
        if self.data == "mnist":
            found = DataSet(found.name, found.X, found.y)
        return found.split(train, test, seed=seed)

    def _made(self, X: Array, seed: int, part: int) -> tuple[Array]:
        rng = np.random.default_rng([seed, part])
        if self.name == "M-Rand":
            return (np.maximum(X, noise(rng, X.shape)),)
        return (rotate(X, rng.uniform(0, 360, len(X))),) if self.name == "M-Rotate" else (X,)


def noise(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Sample grey levels, uniform on 0 to 255, in float32."""
    return rng.integers(0, 256, shape).astype(np.float32)


def rotate(X: Array, degrees: Array) -> Array:
    """Rotate images about their centers, bilinearly, with 0 outside."""
    from scipy.ndimage import rotate

    images = X.reshape(-1, _SIDE, _SIDE)
    pairs = zip(images, degrees, strict=True)
    return np.stack(
        [rotate(image, angle, reshape=False, order=1).ravel() for image, angle in pairs]
    )


_VOWEL = (
    "the paper has one random half of 264 rows, and halves differ: linear has 36 to 44 over "
    "ours, RBF 88 to 94, GMM 93.5 ± 2.8; rows "
    "taken by turns give GMM 97.7 and 99.6"
)
_SEMG1 = (
    "the paper has one random half of 900 rows, and halves differ: with its gamma RBF has "
    "39.4 to 43.3 over four of ours"
)
_BOTH = (12000, 50000)

ROWS = {
    one.name: one
    for one in (
        Rows("Car", "car", 1, (71.53, 94.91, 98.96), 100.0, rule=RANDOM),
        Rows(
            "Vowel", "vowel", 1, (39.39, 94.70, 96.97), 45.0, (264, 264), rule=RANDOM, note=_VOWEL
        ),
        Rows("Splice", "splice", 1, (85.10, 90.02, 95.22), 15.0),
        Rows("Satimage", "satimage", 1, (72.45, 85.20, 90.40), 200.0),
        Rows("ImageSeg", "imageseg", 1),
        Rows("Shuttle500", "shuttle", 1, sizes=(500, None), wide=True),
        Rows("SpamBase", "spambase", 1, (85.91, 92.57, 94.17), 0.2, rule=RANDOM, wide=True),
        Rows(
            "PageBlocks",
            "pageblocks",
            1,
            sizes=(2737, 2726),
            standard=(1000, 2726),
            rule=RANDOM,
            wide=True,
        ),
        Rows(
            "SEMG1", "semg1", 1, (26.00, 43.56, 41.00), 4.0, rule=RANDOM, variants=(), note=_SEMG1
        ),
        Rows("Magic", "magic", 1, sizes=(9150, 9150), standard=(1500, 5000), rule=RANDOM),
        Rows("SkinSeg10k", "skinseg", 1, sizes=(10000, 10000), standard=(1500, 5000), rule=RANDOM),
        Rows("Letter", "letter", 2, (61.66, 97.44, 97.26), 11.0, large=True, variants=VARIANTS[:1]),
        Rows(
            "M-Basic",
            "mnist",
            3,
            (89.98, 97.21, 96.20),
            5.0,
            _BOTH,
            (12000, 3000),
            RANDOM,
            large=True,
            variants=(),
        ),
        Rows(
            "M-Rotate",
            "mnist",
            3,
            (47.99, 89.68, 84.76),
            5.0,
            _BOTH,
            (12000, 3000),
            RANDOM,
            large=True,
            variants=(),
        ),
        Rows(
            "M-Rand",
            "mnist",
            3,
            (78.90, 85.39, 84.22),
            12.0,
            _BOTH,
            (12000, 3000),
            RANDOM,
            large=True,
            variants=(),
        ),
    )
}

ABSENT = {  # (table, linear, RBF, GMM) of data that we do not have
    "DailySports": (1, 77.70, 97.61, 99.61),
    "RobotNavi": (1, 69.83, 90.69, 96.85),
    "Sensorless": (1, 61.53, 93.01, 99.39),
    "PAMAP101 to PAMAP105": (1,),
    "Webspam20k": (2, 93.00, 97.99, 97.88),
    "M-Image": (3, 70.71, 77.84, 80.85),
    "M-Noise1": (3, 60.28, 66.83, 71.38),
    "M-RotImg": (3, 31.44, 45.84, 40.98),
}
