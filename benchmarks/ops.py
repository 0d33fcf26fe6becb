"""Each op against its rival: one thread, float32.

Outputs are allocated in the call unless the name contains out= or in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.kernel_approximation import AdditiveChi2Sampler, RBFSampler
from sklearn.metrics.pairwise import additive_chi2_kernel, manhattan_distances

from benchmarks.measure import Row, against
from benchmarks.targets import minmax_loop
from mercer import ops

Run = Callable[[], Any]
reference = SimpleNamespace(**{name: op.reference for name, op in ops.OPS.items()})


def rows(rounds: int) -> Iterator[Row]:
    """Return one row for each op."""
    for name, theirs, ours in cases(np.random.default_rng(0)):
        what, rival = name.split(" / ")
        yield against(what, ours, rival, theirs, rounds, threads=1)


def cases(rng: np.random.Generator) -> Iterator[tuple[str, Run, Run]]:
    """Yield (name, rival, function)."""
    T = rng.standard_normal((1024, 2048), dtype=np.float32)
    work, wide = np.empty_like(T), np.empty((1024, 4096), dtype=np.float32)

    def reset() -> Any:
        work[:] = T
        return work

    yield (
        "cos_ 1024x2048, in place / NumPy",
        lambda: reference.cos_(reset(), 0.02),
        lambda: ops.cos_(reset(), 0.02),
    )
    yield (
        "cossin 1024x2048, out= / NumPy",
        lambda: reference.cossin(reset(), 0.02, wide),
        lambda: ops.cossin(reset(), 0.02, wide),
    )
    yield (
        "exp2neg_ 1024x2048, in place / NumPy",
        lambda: reference.exp2neg_(reset(), 0.02),
        lambda: ops.exp2neg_(reset(), 0.02),
    )

    X = rng.random((3000, 784), dtype=np.float32)
    sampler = RBFSampler(gamma=0.01, n_components=4096, random_state=0).fit(X)
    signs = rng.choice(np.float32([-1, 1]), size=(4, 3, 1024))
    lengths = rng.random(4096, dtype=np.float32) / np.float32(1024**1.5)
    phases = rng.random(4096, dtype=np.float32)
    # Pairs give 4096 columns from 2048 frequencies; cosines with phases, as the rival has, take
    # 4096.
    yield (
        "hadamard_cossin 3000x784 -> 4096 / RBFSampler",
        lambda: sampler.transform(X),
        lambda: ops.hadamard_cossin(
            X, signs[:2], lengths[:2048], 0.02, np.empty((3000, 4096), dtype=np.float32)
        ),
    )
    yield (
        "hadamard_cos 3000x784 -> 4096 / RBFSampler",
        lambda: sampler.transform(X),
        lambda: ops.hadamard_cos(
            X, signs, lengths, 0.02, phases, np.empty((3000, 4096), dtype=np.float32)
        ),
    )

    # The rival gives 5 values for each input.
    H = rng.random((4000, 784), dtype=np.float32)
    chi2 = AdditiveChi2Sampler(sample_steps=3).fit(H)
    poles = np.float32([0.00394509, 0.02900611, 0.12627941, 0.41018576, 0.89153697])
    amplitudes, harmonics = np.float32([0.89, 0.73, 0.38]), np.arange(1, 3)

    def side_by_side(values: int, X: Any = H) -> Any:
        return np.empty((len(X), values * X.shape[1]), dtype=np.float32)

    def lifts(module: Any) -> dict[str, Run]:
        return {
            "chi2_series 5 values": lambda: module.chi2_series(H, poles, side_by_side(5)),
            "chi2_chebyshev 5 values": lambda: module.chi2_chebyshev(H, 5, 0.25, side_by_side(5)),
            "homogeneous 3 values": lambda: module.homogeneous(
                H, amplitudes[:2], harmonics[:1], 0.8, 1.0, side_by_side(3)
            ),
            "homogeneous 5 values": lambda: module.homogeneous(
                H, amplitudes, harmonics, 0.4, 1.0, side_by_side(5)
            ),
        }

    ours, slow = lifts(ops), lifts(reference)
    for what in ours:
        yield f"{what}, 4000x784 / AdditiveChi2Sampler", lambda: chi2.transform(H), ours[what]
        yield f"{what}, 4000x784 / reference", slow[what], ours[what]
    column = H.reshape(-1, 1)
    yield (
        "chi2_series 5 values, one column of 3136000 / AdditiveChi2Sampler 4000x784",
        lambda: chi2.transform(H),
        lambda: ops.chi2_series(column, poles, side_by_side(5, column)),
    )
    again = side_by_side(5)
    yield (
        "chi2_series 5 values, 4000x784, out= / AdditiveChi2Sampler",
        lambda: chi2.transform(H),
        lambda: ops.chi2_series(H, poles, again),
    )

    A, B = rng.random((640, 784), dtype=np.float32), rng.random((640, 784), dtype=np.float32)

    def fresh() -> Any:
        return np.empty((640, 640), dtype=np.float32)

    yield (
        "gram_chi2 640^2x784 / reference",
        lambda: reference.gram_chi2(A, B, fresh()),
        lambda: ops.gram_chi2(A, B, fresh()),
    )
    yield (
        "gram_chi2_distance 640^2x784 / additive_chi2_kernel",
        lambda: additive_chi2_kernel(A, B),
        lambda: ops.gram_chi2_distance(A, B, fresh()),
    )
    yield (
        "gram_chi2 640^2x784 / additive_chi2_kernel",
        lambda: additive_chi2_kernel(A, B),
        lambda: ops.gram_chi2(A, B, fresh()),
    )
    yield (
        "gram_minmax 640^2x784 / NumPy loop over columns",
        lambda: minmax_loop(A, B),
        lambda: ops.gram_minmax(A, B, fresh()),
    )
    yield (
        "gram_intersection 640^2x784 / reference",
        lambda: reference.gram_intersection(A, B, fresh()),
        lambda: ops.gram_intersection(A, B, fresh()),
    )
    yield (
        "gram_l1 640^2x784 / manhattan_distances",
        lambda: manhattan_distances(A, B),
        lambda: ops.gram_l1(A, B, fresh()),
    )
    small = A[:128]
    yield (
        "gram_jensen_shannon 128x640x784 / reference",
        lambda: reference.gram_jensen_shannon(small, B, fresh()[:128]),
        lambda: ops.gram_jensen_shannon(small, B, fresh()[:128]),
    )

    S = scipy.sparse.random_array(
        (1024, 784), density=0.05, format="csr", dtype=np.float32, rng=rng
    )
    panel = rng.random((784, 4096), dtype=np.float32)
    parts = (S.indptr, S.indices, S.data)
    yield (
        "csr_product 1024x784 (5%) -> 4096 / scipy",
        lambda: S @ panel,
        lambda: ops.csr_product(*parts, panel, np.empty((1024, 4096), np.float32)),
    )

    def rival_laplace() -> Any:
        out = S @ panel
        np.negative(out, out=out)
        np.exp2(out, out=out)
        return out

    yield (
        "csr_product + exp2neg_, same / scipy and NumPy",
        rival_laplace,
        lambda: ops.exp2neg_(
            ops.csr_product(*parts, panel, np.empty((1024, 4096), np.float32)), 1.0
        ),
    )
    D = S.toarray()
    yield (
        "gram_chi2_csr 1024^2x784 (5%) / additive_chi2_kernel, dense",
        lambda: additive_chi2_kernel(D, D),
        lambda: ops.gram_chi2_csr(*parts, *parts, 784, np.empty((1024, 1024), np.float32)),
    )
