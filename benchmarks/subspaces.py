"""Nystroem features against scikit-learn's on the same landmarks; additive maps and PCA."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from sklearn import kernel_approximation
from sklearn.decomposition import PCA

from benchmarks.measure import Row, against
from mercer import AdditiveNystroem, FeaturePCA, Homogeneous, Nystroem, RandomFourier
from mercer.evaluation.kernel_error import gram_error
from mercer.kernels import JensenShannon

RIVAL = "sklearn Nystroem"


def rows(rounds: int) -> Iterator[Row]:
    """Return all rows."""
    yield from nystroem(rounds)
    yield from additive(rounds)
    yield from components(rounds)


def histograms(n: int, d: int, dtype: type) -> np.ndarray:
    """Return rows with sum 1."""
    X = np.random.default_rng(0).gamma(0.5, size=(n, d))
    return (X / X.sum(axis=1, keepdims=True)).astype(dtype)


def nystroem(rounds: int) -> Iterator[Row]:
    """Time features of 5000 x 300 histograms with 256 landmarks, and fit_transform."""
    settings = [
        ("exp-chi2", "chi2", np.float32, 8),
        ("exp-chi2", "chi2", np.float64, 8),
        ("gaussian", "rbf", np.float32, None),
        ("gaussian", "rbf", np.float64, None),
    ]
    for kernel, theirs_kernel, dtype, target in settings:
        X = histograms(5000, 300, dtype)
        theirs = kernel_approximation.Nystroem(
            theirs_kernel, gamma=1.0, n_components=256, random_state=0
        ).fit(X)
        for threads in (1, 2):
            ours = Nystroem(
                kernel=kernel, gamma=1.0, landmarks=theirs.components_, n_jobs=threads
            ).fit(X)
            sampled = Nystroem(256, kernel=kernel, gamma=1.0, random_state=0, n_jobs=threads)
            shared = {"threads": threads, "least_seconds": 0.3, "target": target}
            errors = {
                "error": gram_error(ours.kernel_, X[:500], ours.transform(X[:500])),
                "rival_error": gram_error(ours.kernel_, X[:500], theirs.transform(X[:500])),
            }
            what = f"Nystroem {kernel}, {dtype.__name__}, 5000x300, 256 landmarks"
            yield against(
                what,
                partial(ours.transform, X),
                RIVAL,
                partial(theirs.transform, X),
                rounds,
                **shared,
                **errors,
            )
            both = partial(sampled.fit_transform, X), RIVAL, partial(theirs.fit_transform, X)
            yield against(f"{what}, with fit", *both, rounds, **shared)


def additive(rounds: int) -> Iterator[Row]:
    """Time Jensen-Shannon with five values per input, for both."""
    X = histograms(4000, 784, np.float32)
    theirs = Homogeneous(2, kernel="jensen-shannon", n_jobs=1).fit(X)
    ours = AdditiveNystroem(5, n_jobs=1).fit(X)
    yield against(
        "Jensen-Shannon, 5 values, 4000x784",
        partial(ours.transform, X),
        "mercer Homogeneous(2)",
        partial(theirs.transform, X),
        rounds,
        threads=1,
        error=gram_error(JensenShannon(), X[:500], ours.transform(X[:500])),
        rival_error=gram_error(JensenShannon(), X[:500], theirs.transform(X[:500])),
    )


def components(rounds: int) -> Iterator[Row]:
    """Time 64 components of 512 features of 20000 rows, streamed, against stored features.

    Ours are of products in float64 for both dtypes, scikit-learn's of products in that of the rows.
    """
    for dtype in (np.float32, np.float64):
        X = np.random.default_rng(0).normal(size=(20_000, 20)).astype(dtype)
        features = RandomFourier(512, gamma=0.05, random_state=0, n_jobs=1)
        both = features >> FeaturePCA(64, n_jobs=1)

        def theirs(X: np.ndarray = X, features: RandomFourier = features) -> PCA:
            return PCA(64, svd_solver="covariance_eigh").fit(features.fit_transform(X))

        what = f"fit of 64 components of 512 features, 20000 rows, {dtype.__name__}"
        yield against(
            what, partial(both.fit, X), "features, then sklearn PCA", theirs, rounds, threads=1
        )
