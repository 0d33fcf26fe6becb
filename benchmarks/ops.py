"""Each op against its rival: one process, one thread, float32, runs interleaved, the median ratio with its quartiles.

Run: python benchmarks/ops.py [part of a name ...]. Ratios are rival / mercer, above 1 is faster. Outputs are allocated
in the call, as the rivals do, unless the name says out= or in place.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.kernel_approximation import RBFSampler
from sklearn.metrics.pairwise import additive_chi2_kernel, manhattan_distances
from threadpoolctl import threadpool_limits

from mercer import ops
from mercer.ops import cpu, reference

Run = Callable[[], Any]
ROUNDS = 9


def cases(rng: np.random.Generator) -> Iterator[tuple[str, Run, Run]]:
    """(what is timed, rival, ours)."""
    T = rng.standard_normal((1024, 2048), dtype=np.float32)
    work, wide = np.empty_like(T), np.empty((1024, 4096), dtype=np.float32)

    def reset() -> Any:
        work[:] = T
        return work

    yield "cos_ 1024x2048, in place / NumPy", lambda: reference.cos_(reset(), 0.02), lambda: ops.cos_(reset(), 0.02)
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
    # Pairs give 4096 columns from 2048 frequencies; cosines with phases, as the rival has, take 4096.
    yield (
        "hadamard_cossin 3000x784 -> 4096 / RBFSampler",
        lambda: sampler.transform(X),
        lambda: ops.hadamard_cossin(X, signs[:2], lengths[:2048], 0.02, np.empty((3000, 4096), dtype=np.float32)),
    )
    yield (
        "hadamard_cos 3000x784 -> 4096 / RBFSampler",
        lambda: sampler.transform(X),
        lambda: ops.hadamard_cos(X, signs, lengths, 0.02, phases, np.empty((3000, 4096), dtype=np.float32)),
    )

    W = rng.standard_normal((4096, 784), dtype=np.float32) / 100
    rows = rng.random((6000, 784), dtype=np.float32)

    def projected(pairs: bool) -> Any:
        out = np.empty((6000, 4096), dtype=np.float32)
        for i in range(0, 6000, 1024):
            tile, target = rows[i : i + 1024], out[i : i + 1024]
            if pairs:
                ops.project_cossin(tile, W[:2048], 0.02, target)
            else:
                ops.project_cos(tile, W, 0.02, phases, target)
        return out

    yield (
        "project_cossin 6000x784 -> 4096, tiles / RBFSampler",
        lambda: sampler.transform(rows),
        lambda: projected(True),
    )
    yield "project_cos 6000x784 -> 4096, tiles / RBFSampler", lambda: sampler.transform(rows), lambda: projected(False)

    A, B = rng.random((640, 784), dtype=np.float32), rng.random((640, 784), dtype=np.float32)

    def fresh() -> Any:
        return np.empty((640, 640), dtype=np.float32)

    def minmax_loop() -> Any:
        low, high = np.zeros((640, 640), dtype=np.float32), np.zeros((640, 640), dtype=np.float32)
        for a, b in zip(A.T, B.T, strict=True):
            low += np.minimum(a[:, None], b)
            high += np.maximum(a[:, None], b)
        return low / high

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
    yield "gram_minmax 640^2x784 / NumPy loop over columns", minmax_loop, lambda: ops.gram_minmax(A, B, fresh())
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

    S = scipy.sparse.random_array((1024, 784), density=0.05, format="csr", dtype=np.float32, rng=rng)
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
        lambda: ops.exp2neg_(ops.csr_product(*parts, panel, np.empty((1024, 4096), np.float32)), 1.0),
    )
    D = S.toarray()
    yield (
        "gram_chi2_csr 1024^2x784 (5%) / additive_chi2_kernel, dense",
        lambda: additive_chi2_kernel(D, D),
        lambda: ops.gram_chi2_csr(*parts, *parts, 784, np.empty((1024, 1024), np.float32)),
    )


def main(wanted: list[str]) -> None:
    print(f"core {cpu.isa()}, numpy {np.__version__}, {ROUNDS} rounds, 1 thread")
    rng = np.random.default_rng(0)
    with threadpool_limits(1):
        for name, rival, ours in cases(rng):
            if wanted and not any(part in name for part in wanted):
                continue
            times: dict[Run, list[float]] = {rival: [], ours: []}
            for _ in range(ROUNDS + 1):
                for run in (rival, ours) if rng.random() < 0.5 else (ours, rival):
                    start = time.perf_counter()
                    run()
                    times[run].append(time.perf_counter() - start)
            theirs, mine = np.array(times[rival][1:]), np.array(times[ours][1:])  # the first round warms up
            low, middle, high = np.percentile(theirs / mine, [25, 50, 75])
            ms = f"{1e3 * np.median(theirs):8.2f} -> {1e3 * np.median(mine):.2f} ms"
            print(f"{name:56s} {middle:6.2f}x  ({low:.2f} .. {high:.2f})   {ms}")


if __name__ == "__main__":
    main(sys.argv[1:])
