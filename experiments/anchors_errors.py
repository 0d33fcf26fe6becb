"""Figure 2 and Theorem 1 of the ANNFM paper: errors of one column, and of the mean of many."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from experiments.anchors_maps import DIGITS, KERNELS, TEXT, between, digits, near
from experiments.records import Cell, Experiment, Measured, Picture, not_comparable
from experiments.running import Bench
from mercer._typing import Array
from mercer.maps.base import Map
from mercer.maps.homogeneous import Homogeneous
from mercer.theory.hashing import anchors_error

_FIGURE = not_comparable("the paper has a figure without numbers")
_THEOREM = not_comparable("the paper has a theorem without numbers")


# Figure 2: where on [0, 1]^2 a map is wrong.

_SQUARES, _POINTS = 12, 16  # a side of the picture, and the numbers in a side of each square
_MIDDLES = tuple((np.arange(_SQUARES) + 0.5) / _SQUARES)
_MAPS: dict[str, tuple[str, Callable[[str], Map]]] = {
    "vz": ("VZ 3", lambda kernel: Homogeneous(1, kernel=kernel)),
    "annfm": (f"ANNFM 30, energy {TEXT}", lambda kernel: near(30, kernel, 1, TEXT)),
    "linear": (f"linear weights 30, energy {TEXT}", lambda kernel: between(30, kernel)),
}


def _row_of_squares(
    kernel: str, make: Callable[[str], Map], z: float, bench: Bench
) -> dict[str, Measured]:
    """Compute mean |<phi(x), phi(z)> - k(x, z)| over each square centred at this z."""
    steps = (np.arange(_POINTS) + 0.5) / _POINTS / _SQUARES
    xs = (np.arange(_SQUARES)[:, None] / _SQUARES + steps).reshape(-1, 1)
    zs = (z - 0.5 / _SQUARES + steps)[:, None]
    feature_map = make(kernel).fit(xs)
    X, Z = (dense(feature_map.transform(rows)) for rows in (xs, zs))
    wrong = np.abs(X @ Z.T - KERNELS[kernel](xs, zs)).reshape(_SQUARES, -1).mean(axis=1)
    return {_x(x): Measured(float(one)) for x, one in zip(_MIDDLES, wrong, strict=True)}


def _x(x: float) -> str:
    return f"x = {x:.3f}"


def dense(Z: Array) -> Array:
    """Return features as an array."""
    found: Array = Z.toarray() if hasattr(Z, "toarray") else Z
    return found


def _heat(kernel: str, key: str) -> Experiment:
    title, make = _MAPS[key]
    columns = tuple(map(_x, _MIDDLES))
    return Experiment(
        f"anchors/figure2-{kernel}-{key}",
        f"error of {kernel}, {title}",
        "Figure 2",
        tuple(
            Cell(f"z = {z:.3f}", columns, partial(_row_of_squares, kernel, make, z), ours=True)
            for z in _MIDDLES
        ),
        _FIGURE,
        unit="mean error in a square",
        about="|<phi(x), phi(z)> - k(x, z)| of two numbers in [0, 1].",
        picture=Picture("x", "mean error", kind="heat"),
        table=False,
        form=".2e",
    )


# Theorem 1: errors against the number of anchors, and of the mean over D columns against its bound.

_N = (10, 20, 40, 80)
_WEIGHTS: dict[str, Callable[[int, str], Map]] = {
    "nearest": lambda n, kernel: near(n, kernel, 1, 1.0),
    "2 equal": lambda n, kernel: near(n, kernel, 2, 1.0),
    "linear": lambda n, kernel: between(n, kernel, 1.0),
}


def products(feature_map: Map, x: Array, z: Array) -> Array:
    """Return <phi(x), phi(z)> of pairs of numbers."""
    phi = feature_map.fit(x[:, None])
    X, Z = (dense(phi.transform(numbers[:, None])) for numbers in (x, z))
    return np.einsum("ij,ij->i", X, Z)


def _mean_error(kernel: str, weights: str, bench: Bench) -> dict[str, Measured]:
    x, z = np.random.default_rng(0).random((2, bench.pick(2000, 200000, 200000)))
    exact = KERNELS[kernel].term(x, z)
    make = _WEIGHTS[weights]
    return {
        f"N = {N}": Measured(float(np.mean(np.abs(products(make(N + 1, kernel), x, z) - exact))))
        for N in _N
    }


ANCHORS = Experiment(
    "anchors/theorem1-anchors",
    "mean error against anchors",
    "Theorem 1",
    tuple(
        Cell(
            f"{kernel}, {weights}",
            tuple(f"N = {N}" for N in _N),
            partial(_mean_error, kernel, weights),
            ours=weights == "linear",
        )
        for kernel in KERNELS
        for weights in _WEIGHTS
    ),
    _THEOREM,
    unit="mean error",
    about=(
        "Two numbers, uniform on [0, 1]; N + 1 uniform anchors, all of the table kept. Equal "
        "weights fall with 1/N whatever the number of "
        "neighbours, linear ones with 1/N^2 where the kernel is smooth."
    ),
    picture=Picture("N", "mean error", log="xy"),
    form=".2e",
)

_STEPS = 20  # anchors at 0, 1/20, ..., 1
_DELTA = 0.05
_GRADIENT = 2.0  # of chi2
_COLUMNS = (50, 100, 200, 400, 784)


def bounds(loose: float, bench: Bench) -> dict[str, Measured]:
    """Return the bound that the mean over D columns exceeds with probability at most 0.05."""
    return {
        f"D = {D}": Measured(loose * anchors_error(1 / _STEPS, D, _DELTA, _GRADIENT))
        for D in _COLUMNS
    }


def of_uniform(bench: Bench) -> dict[str, Measured]:
    """Sample pairs of rows of independent uniform numbers."""
    x, z = np.random.default_rng(0).random((2, bench.pick(200, 2000, 2000) * max(_COLUMNS)))
    wrong = products(near(_STEPS + 1, "chi2", 1, 1.0), x, z) - KERNELS["chi2"].term(x, z)
    return _quantiles(wrong.reshape(-1, max(_COLUMNS)))


def _of_digits(bench: Bench) -> dict[str, Measured]:
    """Sample pairs of images, restricted to D pixels that are drawn once."""
    rows = digits(bench, bench.pick(100, 4000, 4000), 1).X.astype(np.float64)
    rows = rows[:, np.random.default_rng(0).permutation(rows.shape[1])]
    x, z = rows[: len(rows) // 2], rows[len(rows) // 2 : 2 * (len(rows) // 2)]
    wrong = products(near(_STEPS + 1, "chi2", 1, 1.0), x.ravel(), z.ravel()) - KERNELS["chi2"].term(
        x.ravel(), z.ravel()
    )
    return _quantiles(wrong.reshape(x.shape))


def _quantiles(wrong: Array) -> dict[str, Measured]:
    """Return the 95% quantile of |mean over the first D columns|."""
    return {
        f"D = {D}": Measured(float(np.quantile(np.abs(wrong[:, :D].mean(axis=1)), 1 - _DELTA)))
        for D in _COLUMNS
    }


_BOUNDED = tuple(f"D = {D}" for D in _COLUMNS)

BOUND = Experiment(
    "anchors/theorem1",
    "error of a mean over columns, and its bound",
    "Theorem 1",
    (
        Cell("the paper's bound", _BOUNDED, partial(bounds, 2**0.5)),
        Cell("the bound with the right constant", _BOUNDED, partial(bounds, 1.0), ours=True),
        Cell("measured, independent uniform numbers", _BOUNDED, of_uniform),
        Cell("measured, pixels of MNIST", _BOUNDED, _of_digits, needs=(DIGITS,)),
    ),
    _THEOREM,
    unit="95% quantile of |error|/D",
    about=(
        f"chi2, nearest of {_STEPS + 1} uniform anchors on [0, 1], all of the table kept. The "
        "theorem supposes errors that are independent "
        "between columns; pixels are not, but most of them are 0 or 1, which are anchors."
    ),
    picture=Picture("D", "95% quantile of |error|/D", log="xy"),
    form=".2e",
)

ERRORS = (*(_heat(kernel, key) for kernel in KERNELS for key in _MAPS), ANCHORS, BOUND)
