"""Figure 1 of arXiv 1206.4074: errors of the chi2 series by the number of terms.

The tables of this paper are in chi2.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from experiments.records import Cell, Experiment, Measured, Picture, not_comparable
from experiments.running import Bench
from experiments.sets import Split, histograms
from mercer.kernels import Chi2
from mercer.kernels.gram import gram
from mercer.maps.base import Map
from mercer.maps.chi2_chebyshev import Chi2Chebyshev
from mercer.maps.chi2_series import Chi2Series
from mercer.maps.homogeneous import Homogeneous
from mercer.parallel.threads import one_blas_thread

Make = Callable[[int], Map]  # n terms, a map of chi2

PAPERS_SERIES: dict[str, Make] = {
    "Chebyshev": lambda n: Chi2Chebyshev(n, center=1.0),
    "VZ": lambda n: Homogeneous((n - 1) // 2),
    "Direct": lambda n: Chi2Series(n, poles="greedy"),
}
OUR_SERIES: dict[str, Make] = {
    "Chebyshev, centred": lambda n: Chi2Chebyshev(n),
    "minimax poles": lambda n: Chi2Series(n, poles="minimax"),
    "fitted poles": lambda n: Chi2Series(n, poles="fit"),
}
ALL_SERIES = {
    **PAPERS_SERIES,
    "VZ, uniform window": lambda n: Homogeneous((n - 1) // 2, window="uniform"),
    **OUR_SERIES,
}

BOW, PIXELS = "caltech101_bow", "fashion_mnist"


def rows(name: str, bench: Bench) -> Split:
    """Return official rows as histograms: caltech101_bow, or some of fashion_mnist."""
    sizes = bench.pick((200, 200), (None, None), (None, None))
    if name == PIXELS:
        sizes = bench.pick((200, 200), (6000, 5000), (20000, None))
    return histograms(bench.sets[name].split(*sizes))


_TERMS = (1, 2, 3, 4, 5, 7, 9, 11, 15)


def _errors(name: str, measure: Callable[[Bench, Map], float], bench: Bench) -> dict[str, Measured]:
    """Return the error for each number of terms; VZ has odd ones."""
    terms = [
        n for n in bench.pick((1, 3, 5, 9), _TERMS, _TERMS) if n % 2 or not name.startswith("VZ")
    ]
    return {f"n = {n}": Measured(measure(bench, ALL_SERIES[name](n))) for n in terms}


def _largest_error(bench: Bench, series: Map) -> float:
    """Return max |<phi(x), phi(z)> - 2xz/(x + z)| over a logarithmic grid of [1e-4, 1]^2.

    The map is fitted on that grid.
    """
    x = np.geomspace(1e-4, 1.0, bench.pick(300, 1500, 1500))[:, None]
    Z = series.fit_transform(x)
    return float(np.max(np.abs(Z @ Z.T - Chi2()(x))))


def _gram_error(data: str, bench: Bench, series: Map) -> float:
    """Return ||K - ZZ'||/||K|| in Frobenius norms without diagonals, on rows not fitted on."""
    split = rows(data, bench)
    X = split.X_test[:: max(1, len(split.X_test) // bench.pick(50, 300, 300))].astype(np.float64)
    Z = series.fit(split.X[:1000]).transform(X)
    K = gram(Chi2(), X)
    with one_blas_thread():
        wrong = K - Z @ Z.T
    different = ~np.eye(len(K), dtype=bool)
    return float(np.linalg.norm(wrong[different]) / np.linalg.norm(K[different]))


def _figure1(
    key: str, title: str, measure: Any, needs: tuple[str, ...], unit: str, about: str
) -> Experiment:
    columns = tuple(f"n = {n}" for n in _TERMS)
    return Experiment(
        f"chi2/{key}",
        title,
        "Figure 1",
        tuple(
            Cell(
                name,
                columns,
                partial(_errors, name, measure),
                needs=needs,
                ours=name not in PAPERS_SERIES,
            )
            for name in ALL_SERIES
        ),
        not_comparable("the paper has a figure without numbers"),
        unit=unit,
        about=about,
        picture=Picture("values for each input", unit, log="y"),
        form=".2e",
    )


FIGURE_1 = (
    _figure1(
        "figure1",
        "largest error on [1e-4, 1]",
        _largest_error,
        (),
        "error",
        "Poles are fitted on the grid that they are measured on. Direct is Algorithm 1 of the "
        "paper; its Chebyshev series is that about "
        "1. VZ has (n - 1)/2 frequencies, rectangular window.",
    ),
    _figure1(
        "figure1-bow",
        "Gram error on bags of words",
        partial(_gram_error, BOW),
        (BOW,),
        "relative error",
        "caltech101_bow with rows of sum 1; relative root mean square over pairs of test rows, "
        "maps fitted on training rows.",
    ),
    _figure1(
        "figure1-pixels",
        "Gram error on pixels",
        partial(_gram_error, PIXELS),
        (PIXELS,),
        "relative error",
        "fashion_mnist, grey levels of an image as a histogram of sum 1.",
    ),
)
