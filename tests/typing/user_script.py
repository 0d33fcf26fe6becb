"""A script of a user, with every public name; test_user_script.py checks its types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mercer
from mercer import (
    GCWS,
    AdditiveNystroem,
    Anchors,
    Chi2Chebyshev,
    Chi2Series,
    Composed,
    CompressiveFourier,
    ExpChi2,
    FeaturePCA,
    Hellinger,
    Homogeneous,
    Identity,
    KernelClassifier,
    KernelRegressor,
    Metric,
    Nystroem,
    RandomFourier,
    RandomLaplace,
    RandomProjection,
    Scaled,
    SignCauchy,
    SkewedFourier,
    Stacked,
    Tabular,
    UnaryIntersection,
    accumulate,
    certify,
    gram,
    kernels,
    load,
    open_stream,
    plan,
    save,
    select,
    theory,
    use_device,
    write_report,
)

Array = NDArray[Any]


def maps(X: Array) -> dict[str, Array]:
    """Features of every map."""
    every = [
        AdditiveNystroem(),
        Anchors(20),
        Chi2Chebyshev(),
        Chi2Series(3),
        CompressiveFourier(),
        ExpChi2(gamma=0.5),
        FeaturePCA(4),
        GCWS(64, bits=4),
        Hellinger(),
        Homogeneous(),
        Identity(),
        Metric(),
        Nystroem(32, kernel="laplacian"),
        RandomFourier(64, kernel="matern", gamma="median", random_state=0),
        RandomLaplace(64),
        RandomProjection(3),
        Scaled(),
        SignCauchy(64),
        SkewedFourier(64),
        Tabular(),
        UnaryIntersection(),
    ]
    features: dict[str, Array] = {}
    for one in every:
        fitted = one.fit(X)
        features[type(fitted).__name__] = fitted.transform(X)
        names: Array = fitted.get_feature_names_out()
        kernel: kernels.Kernel = fitted.kernel_
        value: Array = kernel(X[:2])
        print(len(names), value.shape, fitted.n_features_in_)
    composed: Composed = Scaled() >> RandomFourier(64)
    stacked: Stacked = Scaled() + RandomFourier(64)
    features["composed"] = composed.fit_transform(X)
    features["stacked"] = stacked.fit(X).transform(X)
    return features


def classify(X: Array, y: Array, path: Path) -> float:
    """Fit, predict, save, load."""
    model = KernelClassifier(RandomFourier(64), alpha=0.1, random_state=0)
    fitted: KernelClassifier = model.fit(X, y)
    labels: Array = fitted.predict(X)
    probabilities: Array = fitted.predict_proba(X)
    scores: Array = fitted.decision_function(X)
    sets: Array = fitted.predict_set(X, 0.9)
    print(labels.shape, probabilities.shape, scores.shape, sets.shape, fitted.classes_)
    print(fitted.plan_.route, fitted.plan_.rows, fitted.compiled().predict(X[0]))
    save(fitted, path)
    loaded = load(path)
    print(loaded)
    return fitted.score(X, y)


def regress(X: Array, y: Array) -> tuple[Array, Array]:
    """Fit, predict with intervals."""
    model = KernelRegressor(Scaled() >> Nystroem(64), random_state=0).fit(X, y)
    alpha: float = model.alpha_
    print(alpha, model.n_features_in_)
    return model.predict(X), model.predict_interval(X, 0.9)


def evaluate(X: Array, y: Array, report: Path) -> str:
    """Select, certify, plan, report."""
    board = select(X, y, max_seconds=2, kernels=["fourier", "nystroem"], random_state=0)
    best = board.best_
    winner: str = board.winner.name
    score: float = board.winner.score
    for entry in board.entries:
        print(entry.name, entry.score, entry.fit_seconds)
    for comparison in board.comparisons:
        print(comparison.name, comparison.low, comparison.high)
    certificate = certify(RandomFourier(64).fit(X), X, error=0.01)
    relative: float | None = certificate.relative
    estimate = plan((10_000, 20), RandomFourier(64), max_memory="2GB")
    seconds: float = estimate.seconds
    write_report(board, report, X=X, y=y)
    print(best, winner, score, relative, seconds, board.resume(1).summary)
    return board.summary


def streams(path: Path) -> int:
    """Read a file in chunks, and sum a statistic of its rows."""
    from mercer.stats.basic import Range

    stream = open_stream(path, target="y")
    rows = sum(len(chunk) for chunk in stream.chunks())
    columns: Range = accumulate(stream, Range())
    model = KernelRegressor().fit(stream)
    print(columns.low, columns.high, model.predict(stream))
    return rows


def values(X: Array) -> Array:
    """Exact kernels, and what theory expects of their maps."""
    K: Array = gram(kernels.Gaussian(0.5), X)
    variance: float = theory.variance(0.5, 0.1, 64, "paired")
    with use_device(None):
        K = gram(kernels.Chi2(), X, X)
    print(variance, mercer.__version__)
    return K


def main(folder: Path) -> None:
    """Run everything on random rows."""
    X = np.random.default_rng(0).random((200, 5))
    y = X[:, 0] * X[:, 1]
    maps(X)
    classify(X, y > 0.25, folder / "model.mercer")
    regress(X, y)
    evaluate(X, y, folder / "report.html")
    np.savetxt(
        folder / "rows.csv",
        np.column_stack([X, y]),
        delimiter=",",
        header="a,b,c,d,e,y",
        comments="",
    )
    streams(folder / "rows.csv")
    values(X)
