"""Work with a speed target, on one and two threads: features, lifts and Gram matrices."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import scipy.sparse
from sklearn.base import clone
from sklearn.kernel_approximation import AdditiveChi2Sampler, RBFSampler
from sklearn.metrics.pairwise import additive_chi2_kernel, manhattan_distances

from benchmarks.measure import Row, against
from mercer import Chi2Series, Homogeneous, RandomFourier, RandomLaplace, gram
from mercer.evaluation.kernel_error import gram_error
from mercer.kernels import Chi2, ExpChi2, Gaussian, Laplacian, MinMax

GAMMA = 1 / (2 * 10**2)  # sigma = 10 on pixels from 0 to 1
SIZE = 4096
SAMPLER = "sklearn RBFSampler"


def rows(rounds: int) -> Iterator[Row]:
    """Return all rows; two-thread samples take at least 0.3 s each."""
    X, source = pixels(6000)
    yield from fourier(X, source, rounds)
    yield from equal_error(X, source, rounds)
    yield from grams(rounds)
    yield from lifts(rounds)
    yield from laplace(rounds)


def pixels(n: int) -> tuple[np.ndarray, str]:
    """Return rows of MNIST in [0, 1] where $MERCER_DATA has them, else random; and which."""
    path = Path(os.environ.get("MERCER_DATA", "")) / "mnist.npz"
    if path.is_file():
        return (np.load(path)["X"][:n] / 255).astype(np.float32), "MNIST"
    return np.random.default_rng(0).random((n, 784), dtype=np.float32), "uniform"


def fourier(X: np.ndarray, source: str, rounds: int) -> Iterator[Row]:
    """Time features of 6000 x 784 rows, 4096 columns, allocation included.

    The rival has the offset form.
    """
    sample = X[:1000].astype(np.float64)
    kernel = Gaussian(GAMMA)
    settings = [
        (np.float32, "iid", "offset", (1.15, 1.3)),
        (np.float32, "iid", "paired", (1.15, 1.3)),
        (np.float32, "hadamard", "paired", (6, 7.5)),
        (np.float64, "iid", "paired", (3, 5)),
        (np.float64, "hadamard", "paired", (3, 5)),
    ]
    for dtype, design, form, targets in settings:
        typed = X.astype(dtype)
        theirs = RBFSampler(gamma=GAMMA, n_components=SIZE, random_state=0).fit(typed)
        for threads, target in zip((1, 2), targets, strict=True):
            ours = RandomFourier(
                SIZE, gamma=GAMMA, design=design, form=form, random_state=0, n_jobs=threads
            ).fit(typed)
            yield against(
                f"features {dtype.__name__}, {design}, {form}, {source} {len(X)}x784 -> {SIZE}",
                partial(ours.transform, typed),
                SAMPLER,
                partial(theirs.transform, typed),
                rounds,
                threads=threads,
                least_seconds=0.3,
                target=target,
                error=gram_error(kernel, sample, ours.transform(sample)),
                rival_error=gram_error(kernel, sample, theirs.transform(sample)),
            )


def equal_error(X: np.ndarray, source: str, rounds: int) -> Iterator[Row]:
    """Return the smallest default-design size with the rival's error at 4096, and its time."""
    sample = X[:1000]
    kernel = Gaussian(GAMMA)

    def median_error(make: type, **params: object) -> float:
        draws = (make(gamma=GAMMA, random_state=seed, **params).fit(X) for seed in range(5))
        return float(
            np.median([gram_error(kernel, sample, draw.transform(sample)) for draw in draws])
        )

    wanted = median_error(RBFSampler, n_components=SIZE)
    size = next(
        D for D in range(64, SIZE + 1, 64) if median_error(RandomFourier, n_components=D) <= wanted
    )
    theirs = RBFSampler(gamma=GAMMA, n_components=SIZE, random_state=0).fit(X)
    for threads in (1, 2):
        ours = RandomFourier(size, gamma=GAMMA, random_state=0, n_jobs=threads).fit(X)
        yield against(
            f"features float32 at equal error: {size} columns for {SIZE}, {source} {len(X)}x784",
            partial(ours.transform, X),
            SAMPLER,
            partial(theirs.transform, X),
            rounds,
            threads=threads,
            least_seconds=0.3,
            target=10,
            error=median_error(RandomFourier, n_components=size),
            rival_error=wanted,
        )


def grams(rounds: int) -> Iterator[Row]:
    """Time exact Gram matrices of float32 histograms.

    scikit-learn's chi2 and Manhattan loops have one thread.
    """
    rng = np.random.default_rng(0)
    A, B = (rng.gamma(0.5, size=(1280, 784)).astype(np.float32) for _ in range(2))
    loop = "NumPy loop over columns"
    works = [
        (
            "exponentiated chi2",
            ExpChi2(0.001),
            "sklearn additive_chi2_kernel",
            lambda: additive_chi2_kernel(A, B),
            (13, 24),
        ),
        (
            "chi2",
            Chi2(),
            "sklearn additive_chi2_kernel",
            lambda: additive_chi2_kernel(A, B),
            (13, 24),
        ),
        ("min-max", MinMax(), loop, lambda: minmax_loop(A, B), (40, 75)),
        (
            "Laplacian",
            Laplacian(0.001),
            "sklearn manhattan_distances",
            lambda: manhattan_distances(A, B),
            (None, None),
        ),
    ]
    sample = slice(0, 100)
    for name, kernel, rival, theirs, targets in works:
        exact = kernel(A[sample], B[sample])
        error = float(np.max(np.abs(gram(kernel, A[sample], B[sample]) - exact) / exact))
        for threads, target in zip((1, 2), targets, strict=True):
            ours = partial(gram, kernel, A, B, n_jobs=threads)
            what = f"Gram {name}, 1280^2 x 784"
            more = {"threads": threads, "least_seconds": 0.3, "target": target, "error": error}
            yield against(what, ours, rival, theirs, rounds, **more)


def minmax_loop(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Compute sum min / sum max, column by column, in float32."""
    low, high = (np.zeros((len(A), len(B)), np.float32) for _ in range(2))
    for a, b in zip(A.T, B.T, strict=True):
        low += np.minimum(a[:, None], b)
        high += np.maximum(a[:, None], b)
    return low / high


def lifts(rounds: int) -> Iterator[Row]:
    """Time maps of chi2 for 4000 x 784 histograms, dense and CSR with 5% of the entries.

    Errors are those of 500 rows.
    """
    rng = np.random.default_rng(0)
    X = rng.gamma(0.5, size=(4000, 784)).astype(np.float32)
    X /= X.sum(axis=1, keepdims=True)
    S = scipy.sparse.random_array(
        (4000, 784), density=0.05, format="csr", dtype=np.float32, rng=rng
    )
    rival = "sklearn AdditiveChi2Sampler"
    settings = [
        ("homogeneous, 3 values, dense", Homogeneous(1), 2, X, (12, 20)),
        ("homogeneous, 3 values, CSR 5%", Homogeneous(1), 2, S, (6, 6)),
        ("chi2 series, 5 values, dense", Chi2Series(5), 3, X, (12, 20)),
        ("chi2 series, 5 values, CSR 5%", Chi2Series(5), 3, S, (6, 6)),
    ]
    for name, feature_map, steps, rows_, targets in settings:
        theirs = AdditiveChi2Sampler(sample_steps=steps).fit(rows_)
        dense = rows_[:500].toarray() if hasattr(rows_, "toarray") else rows_[:500]
        for threads, target in zip((1, 2), targets, strict=True):
            ours = clone(feature_map).set_params(n_jobs=threads).fit(rows_)
            yield against(
                f"{name}, 4000x784",
                partial(ours.transform, rows_),
                f"{rival}({steps})",
                partial(theirs.transform, rows_),
                rounds,
                threads=threads,
                least_seconds=0.3,
                target=target,
                error=gram_error(Chi2(), dense, ours.transform(dense)),
                rival_error=gram_error(Chi2(), dense, theirs.transform(dense)),
            )


def laplace(rounds: int) -> Iterator[Row]:
    """Time random Laplace features of CSR rows against SciPy's product and NumPy's exp."""
    rng = np.random.default_rng(0)
    S = scipy.sparse.random_array(
        (6000, 784), density=0.05, format="csr", dtype=np.float32, rng=rng
    )
    for threads, target in ((1, 4), (2, 7)):
        ours = RandomLaplace(SIZE, beta=0.01, normalize=False, random_state=0, n_jobs=threads).fit(
            S
        )
        panel = ours.tile_transform_.stages[0].linear.panel.astype(np.float32)

        def theirs(panel: np.ndarray = panel) -> np.ndarray:
            T = S @ panel
            np.negative(T, out=T)
            np.exp(T, out=T)
            T *= 1 / np.float32(np.sqrt(SIZE))
            return T

        what = f"Laplace, CSR 5%, 6000x784 -> {SIZE}"
        rival = "SciPy product, NumPy exp"
        yield against(
            what,
            partial(ours.transform, S),
            rival,
            theirs,
            rounds,
            threads=threads,
            least_seconds=0.3,
            target=target,
        )
