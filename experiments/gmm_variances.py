"""Figures 1 to 4 of the GMM paper: variances of RFF, NRFF and hashes.

Formulas next to simulations.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.records import Cell, Experiment, Measured, Picture, not_comparable
from experiments.running import Bench
from mercer.kernels import GMM
from mercer.kernels.gram import gram
from mercer.maps.fourier import RandomFourier
from mercer.maps.gcws import GCWS
from mercer.theory import (
    correlation_of_gmm,
    gmm_of_correlation,
    nrff_variance,
    rbf_from_gmm_variance,
    variance,
)

Array = NDArray[Any]

_RHOS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 0.99)
_OF_RHO = tuple(f"rho = {rho:g}" for rho in _RHOS)
_GAMMAS = (0.1, 1.0, 5.0, 10.0, 100.0)
_PAIRS = ((0.5, 1.0), (0.9, 1.0), (0.5, 10.0), (0.9, 10.0))  # rho and gamma of the simulations
_SIZES = (10, 30, 100, 300, 1000)
_OF_SIZE = tuple(f"k = {k}" for k in _SIZES)
_FORMULA = not_comparable("the paper has a figure without numbers")


def rbf(rho: float, gamma: float) -> float:
    """E = exp(-gamma (1 - rho))."""
    return math.exp(-gamma * (1 - rho))


def plain(rho: float, gamma: float, form: str = "offset") -> float:
    """k Var of random Fourier features (eq. 11); features in pairs are those of this library."""
    return variance(rbf(rho, gamma), rbf(rho, 4 * gamma), 2, form) * 2


def normalised(rho: float, gamma: float) -> float:
    """k Var of NRFF (eq. 13)."""
    return nrff_variance(rbf(rho, gamma), 1)


def hashed(rho: float, gamma: float) -> float:
    """k Var of the same kernel from hashes of the GMM kernel (eq. 20)."""
    return rbf_from_gmm_variance(rho, gamma, 1)


def plain_over_normalised(rho: float, gamma: float) -> float:
    """Ratio of variances, RFF over NRFF."""
    return plain(rho, gamma) / normalised(rho, gamma)


def normalised_over_hashed(rho: float, gamma: float) -> float:
    """Ratio of variances, NRFF over hashes, both estimating exp(-gamma (1 - rho))."""
    return normalised(rho, gamma) / hashed(rho, gamma)


def paired_over_hashed(rho: float, gamma: float) -> float:
    """Ratio of variances, features in pairs over hashes."""
    return plain(rho, gamma, "paired") / hashed(rho, gamma)


def relative(rho: float, gamma: float) -> float:
    """Relative variances, each of its own kernel: Var(NRFF)/E^2 over Var(hashes)/g(rho)^2."""
    g = gmm_of_correlation(rho)
    return normalised(rho, gamma) / rbf(rho, gamma) ** 2 * g / (1 - g)


def _curve(formula: Any, gamma: float, bench: Bench) -> dict[str, Measured]:
    return {
        column: Measured(formula(rho, gamma)) for column, rho in zip(_OF_RHO, _RHOS, strict=True)
    }


def _ratios(
    key: str, source: str, title: str, about: str, rows: dict[str, Any], gammas: Any = _GAMMAS
) -> Experiment:
    cells = tuple(
        Cell(
            f"{label}gamma = {gamma:g}",
            _OF_RHO,
            partial(_curve, formula, gamma),
            ours="pairs" in label,
        )
        for label, formula in rows.items()
        for gamma in gammas
    )
    picture = Picture("rho", "ratio", log="y")
    return Experiment(
        f"gmm/{key}", title, source, cells, _FORMULA, "ratio", about, picture=picture, form=".3g"
    )


# Simulations


def features(x: Array, k: int, draws: int, gamma: float, form: str) -> Array:
    """Return features of the two rows x, not normalised, of shape (draws, 2, k)."""
    made = RandomFourier(
        k * draws, kernel="cosine-rbf", gamma=gamma, form=form, design="iid", random_state=0
    )
    Z = made.fit(x).transform(x) * math.sqrt(draws)  # the scale of k columns
    return Z.reshape(2, draws, k).swapaxes(0, 1)


def squared_error(x: Array, rho: float, gamma: float, k: int, draws: int, how: str) -> float:
    """Return k times the mean squared error of <phi(x), phi(z)> over draws."""
    Z = features(x, k, draws, gamma, "paired" if how == "paired" else "offset")
    if how == "NRFF":
        Z = Z / np.linalg.norm(Z, axis=2, keepdims=True)
    products = np.einsum("nk,nk->n", Z[:, 0], Z[:, 1])
    return float(k * np.mean((products - rbf(rho, gamma)) ** 2))


def _simulated(how: str, rho: float, gamma: float, bench: Bench) -> dict[str, Measured]:
    draws = bench.pick(50, 2000, 10000)
    x = np.array([[1.0, 0.0], [rho, math.sqrt(1 - rho**2)]])
    return {
        f"k = {k}": Measured(squared_error(x, rho, gamma, k, draws, how), draws=draws)
        for k in bench.pick((10, 100), _SIZES, _SIZES)
    }


def hashed_error(rho: float, gamma: float, k: int, draws: int, d: int) -> float:
    """Return k times the mean squared error of exp(-gamma (1 - rho)) from k hashes.

    rho is derived from the exact GMM of two normal rows.
    """
    x = normal_pair(rho, d, math.inf)
    truth = rbf(correlation_of_gmm(float(gram(GMM(), x)[0, 1])), gamma)
    first, second = GCWS(k * draws, bits=16, random_state=0).fit(x).codes(x)
    agree = (first == second).reshape(draws, k).mean(axis=1)
    found = np.array([rbf(correlation_of_gmm(float(share)), gamma) for share in agree])
    return float(k * np.mean((found - truth) ** 2))


def _hashed(rho: float, gamma: float, bench: Bench) -> dict[str, Measured]:
    """Evaluate the formula at the rho of the exact GMM of the simulated rows."""
    x = normal_pair(rho, bench.pick(20, 100, 1000), math.inf)
    return dict.fromkeys(
        _OF_SIZE, Measured(hashed(correlation_of_gmm(float(gram(GMM(), x)[0, 1])), gamma))
    )


def _hashes(rho: float, gamma: float, bench: Bench) -> dict[str, Measured]:
    draws, d = bench.pick((20, 20), (500, 100), (2000, 1000))
    return {
        f"k = {k}": Measured(hashed_error(rho, gamma, k, draws, d), draws=draws)
        for k in bench.pick((10, 100), _SIZES[:4], _SIZES)
    }


def _flat(formula: Any, rho: float, gamma: float, bench: Bench) -> dict[str, Measured]:
    return dict.fromkeys(_OF_SIZE, Measured(formula(rho, gamma)))


def _simulation() -> Experiment:
    rows: dict[str, tuple[Any, Any]] = {
        "RFF": (partial(_flat, plain), partial(_simulated, "RFF")),
        "NRFF": (partial(_flat, normalised), partial(_simulated, "NRFF")),
        "in pairs": (partial(_flat, partial(plain, form="paired")), partial(_simulated, "paired")),
        "hashes of GMM": (_hashed, _hashes),
    }
    cells = tuple(
        cell
        for rho, gamma in _PAIRS
        for label, (formula, run) in rows.items()
        for own in [label == "in pairs"]
        for cell in (
            Cell(
                f"{label}, rho = {rho:g}, gamma = {gamma:g}: formula",
                _OF_SIZE,
                partial(formula, rho, gamma),
                ours=own,
            ),
            Cell(
                f"{label}, rho = {rho:g}, gamma = {gamma:g}: simulated",
                _OF_SIZE,
                partial(run, rho, gamma),
                ours=own,
            ),
        )
    )
    about = (
        "k times the mean squared error: RFF and NRFF as in the paper (cosines with offsets), in "
        "pairs is our default form, hashes of GMM "
        "estimate exp(-gamma (1 - rho)) through g(rho). 2000 draws at standard size; of hashes "
        "500, of normal rows with 100 columns, "
        "whose own GMM says which rho the formula has. The "
        "formulas of NRFF and of hashes leave out what is O(1/k)."
    )
    return Experiment(
        "gmm/simulation",
        "mean squared error, simulated",
        "Figures 2 and 4",
        cells,
        _FORMULA,
        "k MSE",
        about,
        form=".4g",
    )


# g(rho)


def normal_pair(rho: float, d: int, freedom: float, seed: int = 0) -> Array:
    """Sample two rows of correlation rho with d columns, normal or Student's t."""
    rng = np.random.default_rng(seed)
    first, second = rng.normal(size=(2, d))
    pair = np.stack([first, rho * first + math.sqrt(1 - rho**2) * second])
    return pair if math.isinf(freedom) else pair / np.sqrt(rng.chisquare(freedom, d) / freedom)


def _gmm(d: int, freedom: float, bench: Bench) -> dict[str, Measured]:
    draws = bench.pick(2, 10, 100)
    return {
        column: Measured.of(
            [float(gram(GMM(), normal_pair(rho, d, freedom, seed))[0, 1]) for seed in range(draws)]
        )
        for column, rho in zip(_OF_RHO, _RHOS, strict=True)
    }


_LIMIT = Experiment(
    "gmm/limit",
    "GMM of two rows of correlation rho, and g(rho)",
    "Theorem 3.1",
    (
        Cell("g(rho)", _OF_RHO, partial(_curve, lambda rho, gamma: gmm_of_correlation(rho), 1.0)),
        Cell("normal, d = 100", _OF_RHO, partial(_gmm, 100, math.inf)),
        Cell("normal, d = 10000", _OF_RHO, partial(_gmm, 10000, math.inf)),
        Cell("t with 3 degrees of freedom, d = 10000", _OF_RHO, partial(_gmm, 10000, 3.0)),
    ),
    _FORMULA,
    "GMM",
    "g(rho) = (1 - s)/(1 + s), s = sqrt((1 - rho)/2), is what GMM tends to as d grows.",
    picture=Picture("rho", "GMM"),
    form=".4f",
)

VARIANCES = (
    _ratios(
        "figure1",
        "Figure 1",
        "variance of RFF over that of NRFF",
        "Equations 11 and 13. In pairs: NRFF over features in pairs, our default, which have no "
        "bias besides.",
        {
            "": plain_over_normalised,
            "in pairs, ": lambda rho, gamma: normalised(rho, gamma) / plain(rho, gamma, "paired"),
        },
    ),
    _ratios(
        "figure3",
        "Figure 3",
        "variance of NRFF over that of hashes",
        "Equations 13 and 20: both estimate exp(-gamma (1 - rho)), with k columns or k hashes. "
        "Above 1, hashes are better. In pairs: "
        "features in pairs in the place of NRFF.",
        {"": normalised_over_hashed, "in pairs, ": paired_over_hashed},
    ),
    _ratios(
        "relative",
        "Figure 4",
        "relative variance of NRFF over that of hashes, each of its own kernel",
        "Variance over squared mean: NRFF of exp(-gamma (1 - rho)), hashes of g(rho).",
        {"": relative},
    ),
    _LIMIT,
    _simulation(),
)
