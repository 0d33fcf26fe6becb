"""One picture for each map of the registry: the exact kernel and the map's inner products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from style import BLUE, COLORS, RED, approximate, exact, legend_above, panels

import mercer

X = np.linspace(0.0, 1.0, 301)[:, None]  # numbers of at least 0
WIDE = np.linspace(-3.0, 3.0, 301)[:, None]  # real numbers


def _product(feature_map: Any, rows: Any, row: Any) -> Any:
    """<phi(x), phi(z)> of the rows x and one row z, for a fitted map."""
    Z = feature_map.transform(np.vstack([rows, row]))
    Z = Z.toarray() if hasattr(Z, "toarray") else Z
    return Z[:-1] @ Z[-1]


def _compare(
    ax: Axes, maps: dict[str, Any], rows: Any, row: float, title: str, x: Any = None
) -> None:
    """Draw the exact kernel of the rows and one row, and the maps' inner products."""
    x = rows[:, 0] if x is None else x
    last = np.atleast_2d(row)
    fitted = {label: feature_map.fit(rows) for label, feature_map in maps.items()}
    kernel = next(iter(fitted.values())).kernel_
    exact(ax, x, kernel(rows, last)[:, 0])
    for index, (label, feature_map) in enumerate(fitted.items()):
        approximate(ax, x, _product(feature_map, rows, last), label, index)
    ax.set(title=title, xlabel="x")


def _features(ax: Axes, feature_map: Any, rows: Any, count: int, title: str) -> None:
    """Draw the first features as functions of one number."""
    Z = feature_map.fit_transform(rows)
    for index in range(count):
        approximate(ax, rows[:, 0], Z[:, index], f"feature {index + 1}", index)
    ax.set(title=title, xlabel="x")


def fourier() -> None:
    """Five kernels of differences with 32 and 256 independent columns."""
    figure, axes = panels(3, 2, height=2.1)
    names = ("gaussian", "laplacian", "cauchy", "matern")
    for ax, kernel in zip(axes, names, strict=False):
        given = {"kernel": kernel, "gamma": 1.0, "design": "iid", "random_state": 0}
        maps = {f"{size} columns": mercer.RandomFourier(size, **given) for size in (32, 256)}
        _compare(ax, maps, WIDE, 0.0, f"{kernel}, z = 0")
    angles = np.linspace(-np.pi, np.pi, 201)
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    given = {"kernel": "cosine-rbf", "gamma": 2.0, "design": "iid", "random_state": 0}
    maps = {f"{size} columns": mercer.RandomFourier(size, **given) for size in (32, 256)}
    _compare(axes[4], maps, circle, [1.0, 0.0], "cosine-rbf", angles)
    axes[4].set(xlabel="angle of x and z")
    given = {"gamma": 1.0, "design": "iid", "random_state": 3}
    _features(axes[5], mercer.RandomFourier(4, **given), WIDE, 4, "4 features: cos, sin, ...")
    legend_above(figure, axes[0], 3)


def laplace() -> None:
    """Two kernels of sums, plain and normalized."""
    figure, axes = panels(3, height=2.4)
    for ax, kernel, beta in zip(axes, ("exponential", "reciprocal"), (1.0, 0.5), strict=False):
        maps = {
            f"64 columns, {label}": mercer.RandomLaplace(
                64, kernel=kernel, beta=beta, normalize=normalize, random_state=0
            )
            for label, normalize in (("normalized", True), ("plain", False))
        }
        _compare(ax, maps, X, 0.2, f"{kernel}, z = 0.2")
    _features(
        axes[2],
        mercer.RandomLaplace(4, beta=1.0, normalize=False, random_state=2),
        X,
        4,
        "4 features, plain",
    )
    legend_above(figure, axes[0], 3)


def skewed() -> None:
    """Two kernels of logarithms."""
    figure, axes = panels(3, height=2.4)
    for ax, kernel in zip(axes, ("chi2", "intersection"), strict=False):
        maps = {
            f"{size} columns": mercer.SkewedFourier(size, kernel=kernel, skew=0.05, random_state=0)
            for size in (32, 256)
        }
        _compare(ax, maps, X, 0.3, f"skewed {kernel}, z = 0.3")
    phi = mercer.SkewedFourier(4, skew=0.05, random_state=4)
    _features(axes[2], phi, X, 4, "4 features")
    legend_above(figure, axes[0], 3)


def exp_chi2() -> None:
    """Draw the sampling error of the Fourier stage, and the bias of the series before it."""
    _, axes = panels(2, height=2.4)
    maps = {
        f"{size} columns": mercer.ExpChi2(size, gamma=4.0, design="iid", random_state=0)
        for size in (32, 256)
    }
    _compare(axes[0], maps, X, 0.3, "exp-chi2, z = 0.3, 5 terms")
    axes[0].legend(loc="lower left")
    kernel = mercer.kernels.ExpChi2(4.0)
    exact(axes[1], X[:, 0], kernel(X, [[0.01]])[:, 0])
    for index, terms in enumerate((1, 2, 5)):
        phi = mercer.ExpChi2(64, gamma=4.0, n_terms=terms, random_state=0).fit(X)
        label = f"{terms} term{'s'[: terms > 1]}"
        approximate(axes[1], X[:, 0], phi.limit_(X, [[0.01]])[:, 0], label, index)
    axes[1].set(title="limit for many columns, z = 0.01", xlabel="x", xscale="log", xlim=(1e-3, 1))
    axes[1].legend()


def homogeneous() -> None:
    """Three additive kernels with one and three frequencies."""
    figure, axes = panels(3, height=2.4)
    for ax, kernel in zip(axes, ("chi2", "intersection", "jensen-shannon"), strict=True):
        maps = {f"{2 * n + 1} values": mercer.Homogeneous(n, kernel=kernel) for n in (1, 3)}
        row = 0.3 if kernel == "intersection" else 0.02
        _compare(ax, maps, X, row, f"{kernel}, z = {row:g}")
    legend_above(figure, axes[0], 3)


def _error_panel(ax: Axes, maps: dict[str, Any], row: float) -> None:
    """Draw |<phi(x), phi(z)> - k(x, z)| of maps on a logarithmic scale."""
    for index, (label, feature_map) in enumerate(maps.items()):
        phi = feature_map.fit(X)
        error = _product(phi, X, [[row]]) - phi.kernel_(X, [[row]])[:, 0]
        approximate(ax, X[:, 0], np.abs(error), label, index)
    ax.set(title="absolute error", xlabel="x", yscale="log", ylim=(1e-8, 0.3))


def chi2_series() -> None:
    """One to five terms: kernel, error, features."""
    figure, axes = panels(3, height=2.4)
    maps = {f"{n} term{'s'[: n > 1]}": mercer.Chi2Series(n) for n in (1, 2, 5)}
    _compare(axes[0], maps, X, 0.3, "chi2, z = 0.3")
    _error_panel(axes[1], maps, 0.3)
    _features(axes[2], mercer.Chi2Series(4), X, 4, "4 features")
    legend_above(figure, axes[0], 4)


def chi2_chebyshev() -> None:
    """Two to twenty terms: kernel, error, features."""
    figure, axes = panels(3, height=2.4)
    maps = {f"{n} terms": mercer.Chi2Chebyshev(n, center=1.0) for n in (2, 5, 20)}
    _compare(axes[0], maps, X, 0.02, "chi2, z = 0.02, center 1")
    _error_panel(axes[1], maps, 0.02)
    _features(axes[2], mercer.Chi2Chebyshev(4, center=1.0), X, 4, "4 features")
    legend_above(figure, axes[0], 4)


def additive_nystroem() -> None:
    """Landmarks of one number for three kernels."""
    figure, axes = panels(3, height=2.4)
    for ax, kernel in zip(axes, ("jensen-shannon", "chi2", "intersection"), strict=True):
        maps = {f"{n} landmarks": mercer.AdditiveNystroem(n, kernel=kernel) for n in (2, 5)}
        row = 0.3 if kernel == "intersection" else 0.02
        _compare(ax, maps, X, row, f"{kernel}, z = {row:g}")
        landmarks = maps["5 landmarks"].landmarks_
        ax.plot(landmarks, np.zeros(5), "^", color=RED, clip_on=False)
    legend_above(figure, axes[0], 3)


def anchors() -> None:
    """Seven anchors: nearest and interpolated."""
    figure, axes = panels(3, height=2.4)
    for ax, kernel in zip(axes, ("chi2", "intersection", "jensen-shannon"), strict=True):
        given = {"kernel": kernel, "energy": 1.0, "spacing": "uniform", "feature_range": (0, 1)}
        maps = {
            "7 anchors, nearest": mercer.Anchors(7, n_neighbors=1, **given),
            "7 anchors, linear weights": mercer.Anchors(7, **given),
        }
        _compare(ax, maps, X, 0.5, f"{kernel}, z = 0.5")
        ax.plot(np.linspace(0, 1, 7), np.zeros(7), "^", color=RED, clip_on=False)
    legend_above(figure, axes[0], 3)


def unary_intersection() -> None:
    """Five levels with and without the fraction, and the features of all numbers."""
    figure, axes = panels(2, height=2.4)
    maps = {
        "5 levels": mercer.UnaryIntersection(5, interpolate=False, feature_range=(0, 1)),
        "5 levels, interpolated": mercer.UnaryIntersection(5, feature_range=(0, 1)),
    }
    _compare(axes[0], maps, X, 0.5, "intersection, z = 0.5")
    axes[0].legend()
    Z = maps["5 levels, interpolated"].transform(X).toarray()
    image = axes[1].imshow(
        Z.T * np.sqrt(5),
        aspect="auto",
        origin="lower",
        extent=(0, 1, 0.5, 5.5),
        cmap="cividis",
        interpolation="nearest",
    )
    axes[1].set(title="features of x, times √5", xlabel="x", ylabel="level")
    axes[1].grid(False)
    figure.colorbar(image, ax=axes[1])


def gcws() -> None:
    """Min-max kernel of signed numbers by hashes, and its limits for few bits."""
    _, axes = panels(2, height=2.4)
    maps = {f"{k} hashes": mercer.GCWS(k, random_state=0) for k in (64, 1024)}
    _compare(axes[0], maps, WIDE, 1.0, "gmm, z = 1, 8 bits")
    axes[0].legend(loc="upper left")
    exact(axes[1], WIDE[:, 0], mercer.kernels.GMM()(WIDE, [[1.0]])[:, 0])
    for index, bits in enumerate((1, 2, 8)):
        limit = mercer.GCWS(1, bits=bits).fit(WIDE).limit_
        label = f"{bits} bit{'s'[: bits > 1]}"
        approximate(axes[1], WIDE[:, 0], limit(WIDE, [[1.0]])[:, 0], label, index)
    axes[1].set(title="limit 2⁻ᵇ + (1 - 2⁻ᵇ) gmm", xlabel="x")
    axes[1].legend(loc="upper left")


def sign_cauchy() -> None:
    """Equal signs of Cauchy and Gaussian projections of histograms of two numbers."""
    figure, axes = panels(2, height=2.4)
    t = np.linspace(0, 1, 101)
    rows, row = np.column_stack([t, 1 - t]), np.array([0.3, 0.7])
    for ax, alpha in zip(axes, (1.0, 2.0), strict=True):
        maps = {
            f"{k} projections": mercer.SignCauchy(k, alpha=alpha, random_state=0)
            for k in (64, 1024)
        }
        title = "Cauchy, alpha = 1" if alpha == 1 else "Gaussian, alpha = 2"
        _compare(ax, maps, rows, row, title, t)
        ax.set(xlabel="t of x = (t, 1 - t), z = (0.3, 0.7)")
    legend_above(figure, axes[0], 3)


def nystroem() -> None:
    """Exact at the landmarks, less than the kernel elsewhere."""
    _, axes = panels(3, height=2.5)
    rng = np.random.default_rng(0)
    rows = np.sort(np.append(rng.normal(-1.2, 0.4, 60), rng.normal(1.5, 0.25, 40)))[:, None]
    fitted = {
        count: mercer.Nystroem(count, kernel="gaussian", gamma=2.0, random_state=2).fit(rows)
        for count in (2, 5)
    }
    for ax, row in zip(axes, (1.5, -0.3), strict=False):
        exact(ax, WIDE[:, 0], fitted[5].kernel_(WIDE, [[row]])[:, 0])
        for index, (count, phi) in enumerate(fitted.items()):
            values = _product(phi, WIDE, [[row]])
            approximate(ax, WIDE[:, 0], values, f"{count} landmarks", index)
        ax.set(title=f"gaussian, z = {row:g}", xlabel="x")
    for index, (count, phi) in enumerate(fitted.items()):
        norms = np.square(phi.transform(WIDE)).sum(axis=1)
        approximate(axes[2], WIDE[:, 0], 1 - norms, f"{count} landmarks", index)
        marks = phi.landmarks_[:, 0]
        axes[2].plot(marks, np.full(count, -0.04 - 0.08 * index), "^", color=COLORS[index])
    axes[2].set(title="residual r(x) = k(x, x) - |φ(x)|²", xlabel="x")
    axes[0].legend(loc="upper left")


def compressive() -> None:
    """Kernel of the measurements of three projections, and the features of one."""
    _, axes = panels(3, height=2.4)
    direction = np.random.default_rng(0).normal(size=(1, 100))
    rows = WIDE * direction / np.linalg.norm(direction)
    zero = np.zeros((1, 100))
    for ax, m in zip(axes, (5, 20, 80), strict=True):
        exact(ax, WIDE[:, 0], mercer.kernels.Gaussian(0.5)(rows, zero)[:, 0], "kernel of the rows")
        for index in range(3):
            phi = mercer.CompressiveFourier(
                512, n_measurements=m, gamma=0.5, random_state=index
            ).fit(rows)
            approximate(ax, WIDE[:, 0], _product(phi, rows, zero), f"draw {index + 1}", index)
        ax.set(title=f"{m} measurements", xlabel="distance of x and z")
    legend_above(axes[0].figure, axes[0], 4)


def projection() -> None:
    """Inner products of projected rows against those of the rows."""
    _, axes = panels(3, height=2.5)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 5)) @ rng.normal(size=(5, 200))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    above = np.triu_indices(len(rows), 1)
    inner = (rows @ rows.T)[above]
    for ax, m in zip(axes, (10, 50, 150), strict=True):
        Z = mercer.RandomProjection(m, random_state=0).fit_transform(rows)
        ax.plot([-1, 1], [-1, 1], color="#b0b0b0", linewidth=4.5, label="exact")
        ax.plot(inner, (Z @ Z.T)[above], ".", markersize=2.5, color=BLUE, label="pair of rows")
        ax.set(title=f"{m} of 200 columns", xlabel="<x, z>", xlim=(-1, 1), ylim=(-1.4, 1.4))
    axes[0].set(ylabel="<φ(x), φ(z)>")
    axes[0].legend(loc="lower right")


def pca() -> None:
    """Principal components of Fourier features: kernel and first components."""
    figure, axes = panels(2, height=2.5)
    waves = mercer.RandomFourier(256, gamma=1.0, random_state=0)
    maps = {f"{n} components": waves >> mercer.FeaturePCA(n, center=False) for n in (3, 6, 12)}
    _compare(axes[0], maps, WIDE, 0.5, "gaussian, z = 0.5, 256 columns")
    axes[0].legend(loc="upper left")
    _features(axes[1], maps["6 components"], WIDE, 4, "first components of the features")
    axes[1].set(ylim=(-1.0, 0.8))
    axes[1].legend(ncols=2, loc="lower center")
    figure.get_layout_engine().set(wspace=0.05)


def exact_maps() -> None:
    """Draw the maps without error: numbers themselves, their roots, scaled columns."""
    _, axes = panels(3, height=2.5)
    _compare(axes[0], {"linear": mercer.Identity()}, WIDE, 1.0, "linear, z = 1")
    _compare(axes[1], {"hellinger": mercer.Hellinger()}, X, 0.3, "hellinger, z = 0.3")
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.normal(5, 2, 300), rng.lognormal(7, 1, 300)])
    Z = mercer.Scaled().fit_transform(rows)
    axes[2].plot(Z[:, 0], Z[:, 1], ".", markersize=3, color=BLUE)
    axes[2].set(title="two scaled columns", xlabel="column 1")
    axes[2].set_ylabel("column 2")
    for ax in axes[:2]:
        ax.legend()


def metric() -> None:
    """Level lines of a Gaussian kernel before and after its metric was learned."""
    figure, axes = panels(2, height=3.2)
    rng = np.random.default_rng(0)
    rows = rng.uniform(-2, 2, size=(600, 2))
    target = np.sin(2 * (rows[:, 0] + 0.5 * rows[:, 1]))
    waves = mercer.RandomFourier(256, random_state=0)
    model = mercer.KernelRegressor(mercer.Metric() >> waves, scale=False, random_state=0)
    learned = model.fit(rows, target).feature_map_
    grid = np.linspace(-2, 2, 61)
    points = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    values = np.sin(2 * (points[:, 0] + 0.5 * points[:, 1])).reshape(61, 61)
    plain = waves.fit(rows).kernel_
    for ax, kernel, title in zip(
        axes, (plain, learned.kernel_), ("without a metric", "with the learned metric"), strict=True
    ):
        shade = ax.contourf(grid, grid, values, levels=9, cmap="cividis", alpha=0.75)
        similar = kernel(points, np.zeros((1, 2))).reshape(61, 61)
        lines = ax.contour(grid, grid, similar, levels=[0.2, 0.5, 0.8], colors="black")
        ax.clabel(lines, fmt="%.1f")
        ax.set(title=f"k(x, 0) {title}", xlabel="column 1", ylabel="column 2", aspect="equal")
        ax.grid(False)
    figure.colorbar(shade, ax=axes, label="target")


def tabular() -> None:
    """Features of six rows of a mixed table."""
    import pandas as pd

    table = pd.DataFrame(
        {
            "age": [31.0, 45.0, None, 22.0, 38.0, 60.0],
            "city": ["Oslo", "Rome", "Rome", None, "Oslo", "Rome"],
            "member": [True, False, True, True, False, False],
            "since": pd.to_datetime(
                ["2024-01-08", "2024-03-19", "2024-06-02", "2024-07-30", "2024-10-04", "2024-12-21"]
            ),
        }
    )
    phi = mercer.Tabular().fit(table)
    Z = phi.transform(table)
    Z = Z.toarray() if hasattr(Z, "toarray") else np.asarray(Z)
    figure, (ax,) = panels(1, height=2.9)
    image = ax.imshow(Z, cmap="PuOr", vmin=-2, vmax=2, aspect="auto", interpolation="nearest")
    for (i, j), value in np.ndenumerate(Z):
        color = "white" if abs(value) > 1.4 else "black"
        ax.text(j, i, f"{value:.1f}", ha="center", va="center", fontsize=8, color=color)
    names = [str(name) for name in phi.get_feature_names_out()]
    ax.set_xticks(range(len(names)), names, rotation=30, ha="right")
    cells = [
        f"{row.age:g}, {row.city}, {row.member}, {row.since:%b %d}" for row in table.itertuples()
    ]
    ax.set_yticks(range(len(cells)), cells)
    ax.set(title="features of six rows: number, category, boolean, date")
    ax.grid(False)
    figure.colorbar(image, ax=ax)


# Name of the map in the registry -> function that draws it.
FIGURES: dict[str, Callable[[], None]] = {
    "additive-nystroem": additive_nystroem,
    "anchors": anchors,
    "chi2-chebyshev": chi2_chebyshev,
    "chi2-series": chi2_series,
    "compressive": compressive,
    "exp-chi2": exp_chi2,
    "fourier": fourier,
    "gcws": gcws,
    "hellinger": exact_maps,
    "homogeneous": homogeneous,
    "laplace": laplace,
    "linear": exact_maps,
    "metric": metric,
    "nystroem": nystroem,
    "pca": pca,
    "projection": projection,
    "scaled": exact_maps,
    "sign-cauchy": sign_cauchy,
    "skewed": skewed,
    "tabular": tabular,
    "unary-intersection": unary_intersection,
}
