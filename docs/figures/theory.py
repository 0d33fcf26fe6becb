"""Figures of docs/theory: bounds and variances of mercer.theory beside measured errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import brentq
from style import (
    BLACK,
    COLORS,
    DASHES,
    approximate,
    measured,
    panels,
    root_mean_square,
)

import mercer
from mercer import theory
from mercer.maps._chi2_poles import zolotarev_poles

PAIR = np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.1, 0.0, 0.5]])


def _error_of_bound(bound: Callable[[float], float], low: float, high: float) -> float:
    """Return the error at which a bound of the probability is 0.05."""
    return brentq(lambda error: bound(error) - 0.05, low, high)


def _products(feature_map: Any, rows: Any) -> Any:
    Z = feature_map.fit_transform(rows)
    return Z @ Z.T


def laplace() -> None:
    """Error of one pair, and the largest error of a set, against the number of features."""
    _, (pair, uniform) = panels(2, height=2.9)
    sizes = 2 ** np.arange(4, 11)
    kernel = mercer.kernels.ExponentialSemigroup(1.0)
    exact = kernel(PAIR)[0, 1]
    for index, (normalize, label, variance) in enumerate(
        (
            (False, "plain", theory.laplace_variance),
            (True, "normalized", theory.laplace_normalized_variance),
        )
    ):
        deviations = [np.sqrt(variance(kernel, *PAIR, int(size))) for size in sizes]
        errors = [
            [
                _products(
                    mercer.RandomLaplace(
                        int(size), beta=1.0, normalize=normalize, random_state=seed, n_jobs=1
                    ),
                    PAIR,
                )[0, 1]
                - exact
                for seed in range(80)
            ]
            for size in sizes
        ]
        approximate(pair, sizes, deviations, f"{label}, theory", index)
        measured(pair, sizes, root_mean_square(errors, axis=1), f"{label}, measured", index)
    pair.set(title="one pair, 4 columns, beta = 1", ylabel="root mean square error")

    rng = np.random.default_rng(0)
    rows = 0.1 + 0.9 * rng.random((80, 2))
    rows[:2] = 0.1, 1.0  # the corners, where the largest errors are
    radius = 0.45 * np.sqrt(2)
    exact = kernel(rows)
    curvature = theory.laplace_curvature(kernel, 0.2)
    sizes = 2 ** np.arange(6, 15, 2)
    bounds = [
        _error_of_bound(
            lambda error, size=int(size): theory.laplace_bound(error, size, 2, radius, curvature),
            1e-3,
            5.0,
        )
        for size in sizes
    ]
    uniform.plot(sizes, bounds, color=BLACK, label="Theorem 5, corrected")
    for index, normalize in enumerate((False, True)):
        largest = []
        for size in sizes:
            errors = [
                np.abs(
                    _products(
                        mercer.RandomLaplace(
                            int(size), beta=1.0, normalize=normalize, random_state=seed, n_jobs=1
                        ),
                        rows,
                    )
                    - exact
                ).max()
                for seed in range(20)
            ]
            largest.append(np.quantile(errors, 0.95))
        label = "normalized, measured" if normalize else "plain, measured"
        measured(uniform, sizes, largest, label, index)
    uniform.set(
        title="largest error, 2 columns in [0.1, 1]",
        ylabel="95% quantile of the error",
        ylim=(5e-4, 8),
    )
    for ax in (pair, uniform):
        ax.set(xscale="log", yscale="log", xlabel="features D")
        ax.legend()


def anchors() -> None:
    """Error against the number of anchors, and of a mean over columns against Theorem 1."""
    _, (sizes_ax, columns_ax) = panels(2, height=2.9)
    rng = np.random.default_rng(0)
    x = rng.random((400, 1))
    kernel = mercer.kernels.Chi2()
    exact = kernel(x)
    sizes = np.array([10, 20, 40, 80, 160])
    forms = (
        ("nearest (ANNFM)", {"n_neighbors": 1}),
        ("mean of two (2-ANNFM)", {"weights": "equal"}),
        ("linear weights", {}),
    )
    for index, (label, parameters) in enumerate(forms):
        errors = [
            np.abs(
                _products(
                    mercer.Anchors(
                        int(size) + 1,
                        spacing="uniform",
                        feature_range=(0, 1),
                        energy=1.0,
                        **parameters,
                    ),
                    x,
                )
                - exact
            ).mean()
            for size in sizes
        ]
        measured(sizes_ax, sizes, errors, label, index, linestyle=DASHES[index])
    for power, start in ((1, 0.014), (2, 0.0014)):
        sizes_ax.plot(sizes, start * (10 / sizes) ** power, color="#909090", linewidth=0.9)
        sizes_ax.annotate(
            "1/N" if power == 1 else "1/N²",
            (sizes[-1], start * (10 / sizes[-1]) ** power),
            xytext=(4, -3),
            textcoords="offset points",
        )
    sizes_ax.set(
        title="chi2 kernel, x and z uniform in [0, 1]",
        xlabel="intervals N between anchors",
        ylabel="mean absolute error",
    )

    columns = np.array([10, 30, 100, 300, 1000])
    errors = []
    for d in columns:
        rows = rng.random((2, 400, d))
        phi = mercer.Anchors(21, spacing="uniform", feature_range=(0, 1), energy=1.0, n_neighbors=1)
        first, second = (phi.fit(part).transform(part) for part in rows)
        sums = np.einsum("ij,ij->i", first, second) - kernel.pairs(*rows)
        errors.append(np.quantile(np.abs(sums) / d, 0.95))
    bounds = np.array([theory.anchors_error(1 / 20, int(d), 0.05) for d in columns])
    columns_ax.plot(columns, np.sqrt(2) * bounds, ":", color=BLACK, label="paper's constant")
    columns_ax.plot(columns, bounds, color=BLACK, label="Theorem 1, corrected")
    measured(columns_ax, columns, errors, "nearest anchor, measured", 0)
    columns_ax.set(
        title="N = 20: mean of the errors of d columns",
        xlabel="columns d",
        ylabel="95% quantile of the error",
        ylim=(3e-4, 0.1),
    )
    for ax in (sizes_ax, columns_ax):
        ax.set(xscale="log", yscale="log")
        ax.legend()


def compressive() -> None:
    """Bias and deviation of a compressed kernel, and the error that more features leave."""
    _, (kernel_ax, features_ax) = panels(2, height=2.9)
    d, rng = 128, np.random.default_rng(0)
    rows = rng.normal(size=(200, d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    measurements = np.array([4, 8, 16, 32, 64, 96])
    values = np.array(
        [
            [
                np.exp(-np.square(P.transform(rows)).sum(axis=1))
                for P in (
                    mercer.RandomProjection(int(m), random_state=seed).fit(rows)
                    for seed in range(60)
                )
            ]
            for m in measurements
        ]
    )
    grid = np.unique(np.geomspace(4, 124, 40).astype(int))
    bias = [theory.compressed_gaussian(1.0, int(m), d) - np.exp(-1) for m in grid]
    deviation = [np.sqrt(theory.compressed_variance(1.0, int(m), d)) for m in grid]
    approximate(kernel_ax, grid, deviation, "standard deviation, exact", 0)
    measured(kernel_ax, measurements, values.std(axis=(1, 2)), "measured", 0)
    approximate(kernel_ax, grid, bias, "bias, exact", 1)
    measured(kernel_ax, measurements, values.mean(axis=(1, 2)) - np.exp(-1), "measured", 1)
    kernel_ax.set(
        title="kernel of m measurements, d = 128",
        xlabel="measurements m",
        ylabel="error of the kernel",
    )

    sizes = 2 ** np.arange(5, 13)
    rows = rng.normal(size=(60, d)) / np.sqrt(2 * d)
    above = np.triu_indices(len(rows), 1)
    gamma = 1.0
    exact = mercer.kernels.Gaussian(gamma)(rows)[above]
    for index, m in enumerate((16, 64, 128)):
        expected = [
            np.sqrt(
                np.mean(
                    [
                        theory.variance(k, k**4, int(size))
                        + theory.compressed_variance(-np.log(k), m, d)
                        + (theory.compressed_gaussian(-np.log(k), m, d) - k) ** 2
                        for k in exact[::40]
                    ]
                )
            )
            for size in sizes
        ]
        errors = [
            root_mean_square(
                [
                    _products(
                        mercer.CompressiveFourier(
                            int(size),
                            n_measurements=m,
                            gamma=gamma,
                            design="iid",
                            random_state=seed,
                            n_jobs=1,
                        ),
                        rows,
                    )[above]
                    - exact
                    for seed in range(4)
                ]
            )
            for size in sizes
        ]
        approximate(features_ax, sizes, expected, f"m = {m}, theory", index)
        measured(features_ax, sizes, errors, "measured", index)
    features_ax.set(
        title="features of the measurements, d = 128",
        xlabel="features D",
        ylabel="root mean square error",
    )
    for ax in (kernel_ax, features_ax):
        ax.set(xscale="log", yscale="log")
        ax.legend()


def gmm() -> None:
    """Error of hashes against their number, and the bias of the 0-bit scheme."""
    _, (hashes_ax, bias_ax) = panels(2, height=2.9)
    pair = np.array([[-5.0, 3.0, 0.0, 2.0], [-1.0, 4.0, -2.0, 0.0]])
    exact = mercer.kernels.GMM()(pair)[0, 1]
    sizes = 2 ** np.arange(4, 12)
    for index, bits in enumerate((1, 2, 8)):
        deviations = [np.sqrt(theory.gmm_variance(exact, int(size), bits)) for size in sizes]
        codes = [
            mercer.GCWS(int(sizes[-1]), bits=bits, random_state=seed).fit(pair).codes(pair)
            for seed in range(40)
        ]
        equal = np.array([first == second for first, second in codes])
        chance = 2.0**-bits
        errors = [
            root_mean_square((equal.reshape(-1, size).mean(axis=1) - chance) / (1 - chance) - exact)
            for size in sizes
        ]
        approximate(hashes_ax, sizes, deviations, f"b = {bits}, theory", index)
        measured(hashes_ax, sizes, errors, "measured", index)
    hashes_ax.set(
        title="GMM = 4/13 from k hashes of b bits",
        xscale="log",
        yscale="log",
        xlabel="hashes k",
        ylabel="root mean square error",
    )

    columns = np.array([1, 2, 4, 8, 16, 64, 256])
    rng = np.random.default_rng(0)
    for index, scheme in enumerate(("full", "0-bit")):
        shares = []
        for d in columns:
            row = rng.random((1, d))
            phi = mercer.GCWS(8192, bits=16, scheme=scheme, random_state=int(d)).fit(row)
            shares.append(np.mean(phi.codes(row) == phi.codes(2 * row)))
        label = "(i, t): full" if scheme == "full" else "i alone: 0-bit"
        measured(bias_ax, columns, shares, label, index, linestyle=DASHES[index])
    bias_ax.axhline(0.5, color="#909090", linewidth=0.9)
    bias_ax.annotate("GMM(u, 2u) = 1/2", (1, 0.5), xytext=(0, -12), textcoords="offset points")
    bias_ax.set(
        title="share of equal hashes of u and 2u",
        xscale="log",
        ylim=(0.4, 1.05),
        xlabel="columns d",
        ylabel="share of equal hashes",
    )
    for ax in (hashes_ax, bias_ax):
        ax.legend()


def normalized() -> None:
    """Variance of three forms of Fourier features against the kernel, and of hashes."""
    _, (forms_ax, hashes_ax) = panels(2, height=2.9)
    grid = np.linspace(0.01, 0.995, 80)
    values = np.array([0.1, 0.3, 0.5, 0.7, 0.85, 0.95])
    forms = (
        (
            "offset",
            {"form": "offset"},
            lambda k: theory.variance(k, k**4, 1, form="offset"),
        ),
        (
            "normalized offset (NRFF)",
            {"form": "offset", "normalize": True},
            lambda k: theory.nrff_variance(k, 1),
        ),
        ("paired", {}, lambda k: theory.variance(k, k**4, 1)),
    )
    D = 256
    for index, (label, parameters, variance) in enumerate(forms):
        rows = np.append(0.0, np.sqrt(-np.log(values)))[:, None] * np.array([[0.6, 0.8]])
        products = np.array(
            [
                _products(
                    mercer.RandomFourier(
                        D, gamma=1.0, design="iid", random_state=seed, n_jobs=1, **parameters
                    ),
                    rows,
                )[0, 1:]
                for seed in range(1000)
            ]
        )
        approximate(forms_ax, grid, [variance(k) for k in grid], label, index)
        measured(forms_ax, values, D * np.mean((products - values) ** 2, axis=0), None, index)
    forms_ax.set(
        title="Gaussian kernel; markers: measured, D = 256",
        xlabel="value of the kernel",
        ylabel="D times the variance",
        ylim=(0, 1.12),
    )
    forms_ax.legend(loc="lower left")

    correlations = np.linspace(0.0, 0.995, 100)
    for index, gamma in enumerate((1.0, 3.0, 10.0)):
        k = np.exp(-gamma * (1 - correlations))
        ratio = [
            theory.variance(value, value**4, 1) / theory.rbf_from_gmm_variance(float(rho), gamma, 1)
            for value, rho in zip(k, correlations, strict=True)
        ]
        approximate(hashes_ax, correlations, ratio, f"gamma = {gamma:g}", index)
    hashes_ax.axhline(1.0, color="#909090", linewidth=0.9)
    hashes_ax.annotate("hashes better", (0.02, 1e3))
    hashes_ax.annotate("paired features better", (0.02, 0.04))
    hashes_ax.set(
        title="kernel exp(-gamma (1 - rho))",
        yscale="log",
        ylim=(0.01, 1e5),
        xlabel="correlation rho",
        ylabel="variance, k columns / k hashes",
    )
    hashes_ax.legend()


def chi2() -> None:
    """Largest error against the number of values for each input; relative error on an interval."""
    _, (absolute, relative) = panels(2, height=3.1)
    grid = np.append(0.0, np.geomspace(1e-8, 1.0, 500))[:, None]
    exact = mercer.kernels.Chi2()(grid)
    sizes = np.array([1, 2, 3, 5, 7, 10, 14, 20])
    maps = (
        ("series, minimax poles", sizes, lambda n: mercer.Chi2Series(n, poles="minimax")),
        ("series, greedy poles", sizes, lambda n: mercer.Chi2Series(n, poles="greedy")),
        ("Chebyshev, center 1", sizes, lambda n: mercer.Chi2Chebyshev(n, center=1.0)),
        (
            "homogeneous, uniform",
            np.array([1, 3, 5, 7, 11, 15, 21]),
            lambda n: mercer.Homogeneous(n // 2, window="uniform"),
        ),
    )
    for index, (label, some, make) in enumerate(maps):
        errors = [np.abs(_products(make(int(n)), grid) - exact).max() for n in some]
        measured(absolute, some, errors, label, index, linestyle=DASHES[index])
    n = np.linspace(5, 20, 50)
    absolute.plot(n, np.exp(1.8 - 4.41 * np.sqrt(n)), color="#909090", linewidth=0.9)
    absolute.annotate("exp(1.8 - 4.41 √n)", (6, 2e-8), color="#505050")
    absolute.plot(n, 0.0436 / n, color="#909090", linewidth=0.9)
    absolute.annotate("0.0436/n", (16, 6e-4), color="#505050")
    absolute.set(
        title="largest error on [0, 1]", xlabel="values n for each input", ylabel="absolute error"
    )

    n = np.arange(1, 15)
    for index, low in enumerate((1e-1, 1e-3, 1e-5)):
        interval = np.geomspace(low, 1.0, 3000)[:, None]
        errors = []
        for terms in n:
            phi = mercer.Chi2Series(int(terms), poles=zolotarev_poles(low, 1.0, int(terms)))
            norms = np.square(phi.fit_transform(interval)).sum(axis=1)
            errors.append(np.max(1 - norms / interval[:, 0]))
        measured(relative, n, np.maximum(errors, 1e-17), f"a = {low:g}, measured", index)
        bound = 4 * np.exp(-(np.pi**2) * n / np.log(4 / low))
        approximate(relative, n, bound, None, index)
    relative.set(
        title="Zolotarev poles: relative error on [a, 1]",
        xlabel="values n for each input",
        ylabel="relative error",
        ylim=(1e-14, 4),
    )
    for ax in (absolute, relative):
        ax.set(yscale="log")
        ax.legend(loc="upper right" if ax is absolute else "lower left")
    absolute.set_ylim(3e-9, 40)


def fourier() -> None:
    """Error of the designs in few and many columns, and the uniform bound."""
    _, (few, many, uniform) = panels(3, height=2.9)
    designs = ("iid", "orthogonal", "hadamard", "sobol")
    sizes = 2 ** np.arange(6, 12)
    for ax, d in ((few, 8), (many, 128)):
        rng = np.random.default_rng(d)
        rows = rng.normal(size=(100, d)) / np.sqrt(2 * d)
        exact = mercer.kernels.Gaussian(1.0)(rows)
        above = np.triu_indices(len(rows), 1)
        expected = [
            np.sqrt(np.mean(theory.variance(exact[above], exact[above] ** 4, int(size))))
            for size in sizes
        ]
        ax.plot(sizes, expected, color=BLACK, label="iid, theory")
        for index, design in enumerate(designs):
            errors = [
                root_mean_square(
                    [
                        (
                            _products(
                                mercer.RandomFourier(
                                    int(size),
                                    gamma=1.0,
                                    design=design,
                                    random_state=seed,
                                    n_jobs=1,
                                ),
                                rows,
                            )
                            - exact
                        )[above]
                        for seed in range(4)
                    ]
                )
                for size in sizes
            ]
            measured(ax, sizes, errors, design, index, linestyle=DASHES[index], linewidth=0.9)
        ax.set(title=f"designs, {d} columns", ylabel="root mean square error")
    few.legend()

    rows = np.random.default_rng(0).random((150, 2))
    rows[:2] = 0.0, 1.0
    exact = mercer.kernels.Gaussian(1.0)(rows)
    sizes = 2 ** np.arange(6, 14)
    bounds = [
        _error_of_bound(
            lambda error, size=int(size): theory.bound_uniform(error, size, 2, 2.0, np.sqrt(2)),
            1e-3,
            2.8,
        )
        for size in sizes
    ]
    largest = [
        np.quantile(
            [
                np.abs(
                    _products(
                        mercer.RandomFourier(
                            int(size), gamma=1.0, design="iid", random_state=seed, n_jobs=1
                        ),
                        rows,
                    )
                    - exact
                ).max()
                for seed in range(20)
            ],
            0.95,
        )
        for size in sizes
    ]
    uniform.plot(sizes, bounds, color=BLACK, label="uniform bound")
    measured(uniform, sizes, largest, "iid, measured", 0)
    uniform.set(title="largest error, unit square", ylabel="95% quantile of the error")
    uniform.legend()
    for ax in (few, many, uniform):
        ax.set(xscale="log", yscale="log", xlabel="features D")


def nystroem() -> None:
    """Trace error against landmarks, and errors of pairs against their bound."""
    _, (trace, pairs) = panels(2, height=2.9)
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(12, 6))
    shares = np.geomspace(1, 0.01, 12)
    counts = rng.multinomial(800, shares / shares.sum())
    rows = np.repeat(centers, counts, axis=0) + 0.3 * rng.normal(size=(800, 6))
    kernel = mercer.kernels.Gaussian(0.5)
    sizes = np.array([8, 16, 32, 64, 128, 256])
    eigenvalues = np.linalg.eigvalsh(kernel(rows))[::-1]
    for index, landmarks in enumerate(("uniform", "rpcholesky")):
        errors = [
            np.mean(
                [
                    1
                    - np.square(
                        mercer.Nystroem(
                            int(size), kernel=kernel, landmarks=landmarks, random_state=seed
                        ).fit_transform(rows)
                    ).sum()
                    / len(rows)
                    for seed in range(5)
                ]
            )
            for size in sizes
        ]
        measured(trace, sizes, errors, landmarks, index, linestyle=DASHES[index])
    best = [eigenvalues[size:].sum() / eigenvalues.sum() for size in sizes]
    trace.plot(sizes, best, color=BLACK, label="best of any rank-D map")
    trace.set(
        title="800 rows in 12 clusters of unequal size",
        xscale="log",
        yscale="log",
        xlabel="landmarks D",
        ylabel="trace error",
    )
    trace.legend()

    phi = mercer.Nystroem(64, kernel=kernel, random_state=0).fit(rows[::2])
    other = rows[1::2]
    Z = phi.transform(other)
    residual = 1 - np.square(Z).sum(axis=1)
    above = np.triu_indices(len(other), 1)
    some = rng.choice(len(above[0]), 3000, replace=False)
    first, second = above[0][some], above[1][some]
    error = np.abs(kernel(other) - Z @ Z.T)[first, second]
    bound = np.sqrt(residual[first] * residual[second])
    limits = np.array([1e-5, 1.0])
    pairs.plot(limits, limits, color=BLACK, label="error = bound")
    pairs.plot(bound, error, ".", markersize=2, color=COLORS[0], alpha=0.5, label="pair of rows")
    pairs.set(
        title="64 landmarks, rows that were not seen",
        xscale="log",
        yscale="log",
        xlim=(1e-3, 1),
        ylim=(1e-6, 1),
        xlabel="bound √(r(x) r(z))",
        ylabel="error of the pair",
    )
    pairs.legend(loc="upper left")


FIGURES = {
    "laplace": laplace,
    "anchors": anchors,
    "compressive": compressive,
    "gmm": gmm,
    "normalized": normalized,
    "chi2": chi2,
    "fourier": fourier,
    "nystroem": nystroem,
}
