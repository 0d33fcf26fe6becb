"""Moments and class sums: right to the last digits of their dtype."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import GCWS, accumulate
from mercer.maps.block import Dense, Sparse
from mercer.parallel.tile_size import PANEL, SHARD, max_classes, override_limits
from mercer.stats.base import CombinedStatistics, State, describe_statistic, empty_like
from mercer.stats.class_sums import ClassSums
from mercer.stats.moments import Moments
from mercer.stats.packed_symmetric import PackedSymmetric

WIDE = 2 * PANEL + 77


def scatter_of(X, w=None):
    X = X.astype(np.float64)
    centered = X - np.average(X, axis=0, weights=w)
    return centered.T @ (centered if w is None else centered * w[:, None])


@pytest.mark.parametrize("size", [1, 5, PANEL - 1, PANEL, PANEL + 1, WIDE])
def test_a_symmetric_sum_is_that_of_whole_matrices(size):
    rng = np.random.default_rng(0)
    Z, C, u = (
        rng.normal(size=(9, size)),
        sp.random_array((20, size), density=0.1, rng=rng).tocsr(),
        rng.normal(size=size),
    )
    S = PackedSymmetric(size)
    S.add_products(Z)
    S.add_products(2 * Z, Z)
    S.add_csr((C.T @ C).tocsr())
    other = PackedSymmetric(size)
    other.add_products(Z[:3])
    S.add(other, -1)
    expected = 3 * Z.T @ Z + (C.T @ C).toarray() - Z[:3].T @ Z[:3]
    np.testing.assert_allclose(S.toarray(), expected, atol=1e-12)
    np.testing.assert_allclose(
        S.toarray(minus=(u, 2 * u)), expected - 2 * np.outer(u, u), atol=1e-12
    )
    np.testing.assert_array_equal(S.toarray(), S.toarray().T)
    assert len(S.packed) <= size * (size + PANEL) / 2 + size
    with pytest.raises(ValueError, match=r"stores .* entries"):
        PackedSymmetric(size + 1, S.packed)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_many_blocks_of_many_panels_have_the_moments_of_numpy(dtype, weighted):
    rng = np.random.default_rng(0)
    X = (
        rng.normal(size=(400, WIDE)) + rng.normal(size=WIDE) + np.arange(400)[:, None] / 50
    ).astype(dtype)
    y, w = rng.normal(size=(400, 2)), rng.integers(0, 3, 400) / 2 if weighted else None
    seen = Moments()
    # More blocks than wait for being moved, and some that still wait at the end.
    for start in range(0, 400, 9):
        part = slice(start, start + 9)
        seen.add(Dense(X[part]), y=y[part], weight=None if w is None else w[part])
    assert SHARD < 400 // 9 and seen._pending
    exact, digits = scatter_of(X, w), 1e-12 if dtype is np.float64 else 2e-6
    np.testing.assert_allclose(seen.scatter, exact, atol=digits * np.diag(exact).max())
    np.testing.assert_allclose(
        seen.mean, np.average(X.astype(float), axis=0, weights=w), atol=digits
    )
    centered = y - np.average(y, axis=0, weights=w)
    cross = X.astype(float).T @ (centered if w is None else centered * w[:, None])
    np.testing.assert_allclose(seen.cross, cross, atol=digits * np.abs(cross).max())


def test_a_large_block_is_summed_in_parts(small_grid):
    X = np.random.default_rng(0).normal(size=(500, 5))
    seen = Moments()
    for block in (Dense(X), Sparse(sp.csr_array(X))):
        seen.add(block, y=X[:, 0])
    assert seen.rows == 1000
    np.testing.assert_allclose(seen.scatter, 2 * scatter_of(X), atol=1e-11)
    np.testing.assert_allclose(seen.cross[:, 0], 2 * scatter_of(X)[:, 0], atol=1e-11)


def test_columns_of_very_different_size_keep_their_squares_in_float32():
    X = (np.random.default_rng(0).normal(size=(300, 3)) * [1e-25, 1.0, 1e25]).astype(np.float32)
    for w in (None, np.full(300, 1e-40)):
        seen = Moments()
        seen.add(Dense(X), weight=w)
        np.testing.assert_allclose(np.diag(seen.scatter), np.diag(scatter_of(X, w)), rtol=1e-5)


def test_coded_blocks_have_the_moments_of_their_features():
    X = np.random.default_rng(0).random((60, 4))
    mapped = GCWS(8, bits=3, random_state=0).fit(X)
    np.testing.assert_allclose(
        accumulate(mapped.blocks(X), Moments()).scatter,
        scatter_of(mapped.transform(X).toarray()),
        atol=1e-12,
    )


def test_moments_keep_their_state():
    X = np.random.default_rng(0).normal(size=(50, PANEL + 3)).astype(np.float32)
    seen = Moments()
    seen.add(Dense(X[:20]), y=X[:20, :2])
    state = seen.state()
    again = Moments().from_state(
        State(
            {name: a.copy() for name, a in state.arrays.items()},
            json.loads(json.dumps(state.values)),
        )
    )
    for one in (seen, again):
        one.add(Dense(X[20:]), y=X[20:, :2])
    np.testing.assert_array_equal(again.scatter, seen.scatter)
    np.testing.assert_array_equal(again.cross, seen.cross)
    assert (again.n, again.rows, again.targets) == (50, 50, 2)


def test_moments_without_a_target_leave_labels_alone():
    X = np.ones((2, 1))
    fold_in = Moments(target=False)
    fold_in.add(Dense(X), y=np.array(["a", "b"]))
    assert fold_in.targets == 0
    with pytest.raises(ValueError, match=r"numeric targets .*'a'.*; ClassSums accepts labels"):
        Moments().add(Dense(X), y=np.array(["a", "b"]))


LABELS = {
    "numbers": np.array([3, 1, 2]),
    "small numbers": np.array([3, 1, 2], dtype=np.uint8),
    "halves": np.array([0.5, -1.5, 7.0]),
    "truth": np.array([False, True, True]),
    "words": np.array(["no", "yes", "maybe"]),
    "objects": np.array(["no", "yes", "maybe"], dtype=object),
    "bytes": np.array([b"no", b"yes", b"may"]),
}


@pytest.mark.parametrize("name", LABELS)
@pytest.mark.parametrize("kind", ["dense", "float32", "sparse"])
def test_classes_have_the_counts_and_sums_of_numpy(name, kind):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, WIDE)), LABELS[name][rng.integers(0, 3, 90)]
    w = rng.random(90)
    parts = []
    for rows in (slice(0, 1), slice(1, 40), slice(40, 90)):
        seen = ClassSums()
        block = (
            Sparse(sp.csr_array(X[rows]))
            if kind == "sparse"
            else Dense(X[rows].astype(np.float32 if kind == "float32" else float))
        )
        seen.add(block, y=y[rows], weight=w[rows])
        parts.append(seen)
    merged = ClassSums() + parts[0] + parts[1] + parts[2]
    state = merged.state()
    again = ClassSums().from_state(State(state.arrays, json.loads(json.dumps(state.values))))
    classes = np.unique(y)
    for one in (merged, again):
        np.testing.assert_array_equal(one.classes, classes)
        assert one.classes.dtype == y.dtype
        np.testing.assert_allclose(one.counts, [w[y == c].sum() for c in classes], rtol=1e-13)
        np.testing.assert_allclose(
            one.sums,
            [w[y == c] @ X[y == c] for c in classes],
            atol=1e-12 if kind != "float32" else 1e-5,
        )


def test_class_sums_are_the_cross_products_of_one_against_all():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(70, 4)), rng.integers(0, 3, 70)
    both = CombinedStatistics(Moments(), ClassSums())
    for rows in (slice(0, 30), slice(30, 70)):
        both.add(Dense(X[rows]), y=y[rows])
    moments, classes = both.parts
    targets = Moments()
    targets.add(Dense(X), y=(y[:, None] == classes.classes).astype(float))
    np.testing.assert_allclose(
        classes.sums.T - np.outer(moments.mean, classes.counts), targets.cross, atol=1e-12
    )


@pytest.mark.parametrize(
    ("y", "words"),
    [
        ([1, None], "Every row needs a label, got None at row 8"),
        ([1.0, np.nan], "Every row needs a label, got nan at row 8"),
        (
            [1, "a"],
            "numbers and labels that are text cannot be sorted together: got 1, and 'a' at row 8",
        ),
        ([(1,), (2,)], r"numbers or text, got \(1,\) of type tuple at row 7"),
        ([[1], [2]], r"a label for each of 2 rows, got \(2, 1\)"),
        (None, "a label for each of 2 rows, got none"),
    ],
)
def test_labels_that_are_none_are_refused_with_their_row(y, words):
    labels = (
        None
        if y is None
        else np.empty(2, dtype=object)
        if isinstance(y[0], tuple)
        else np.array(y, dtype=object)
    )
    if y is not None and isinstance(y[0], tuple):
        labels[:] = y
    with pytest.raises(ValueError, match=words):
        ClassSums().add(Dense(np.ones((2, 1))), y=labels, start=7)


def test_labels_of_two_kinds_do_not_merge():
    words, numbers = ClassSums(), ClassSums()
    words.add(Dense(np.ones((2, 1))), y=np.array(["a", "b"]))
    numbers.add(Dense(np.ones((2, 1))), y=np.array([1, 2]))
    for merge in (
        lambda: words + numbers,
        lambda: words.add(Dense(np.ones((1, 1))), y=np.array([1])),
    ):
        with pytest.raises(ValueError, match="cannot be sorted together: got 'a', and 1"):
            merge()
    wide = ClassSums()
    wide.add(Dense(np.ones((2, 3))), y=np.array([1, 2]))
    with pytest.raises(ValueError, match="Sums of 1 and 3 columns do not merge"):
        _ = numbers + wide
    with pytest.raises(ValueError, match="are empty"):
        _ = ClassSums().classes


def test_numbers_to_be_predicted_are_no_classes():
    assert max_classes(4096) == 32768
    with (
        override_limits(class_sum_bytes=80, min_class_limit=10),
        pytest.raises(ValueError, match="more than 10 distinct labels"),
    ):
        ClassSums().add(Dense(np.ones((11, 1))), y=np.arange(11.0))


def test_summaries_together_are_each_alone():
    X, y = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30) % 3
    first, second = (
        CombinedStatistics(Moments(), ClassSums()),
        CombinedStatistics(Moments(), ClassSums()),
    )
    first.add(Dense(X[:10]), y=y[:10])
    second.add(Dense(X[10:]), y=y[10:])
    moments, classes = (first + second).parts
    assert moments.rows == 30 and first.parts[0].rows == 10
    np.testing.assert_array_equal(classes.counts, [10, 10, 10])
    with pytest.raises(
        ValueError, match="Combined statistics Moments, ClassSums do not merge with Moments"
    ):
        _ = first + CombinedStatistics(Moments())
    empty = empty_like(CombinedStatistics(Moments(target=False), ClassSums()))
    assert (
        describe_statistic(empty)
        == "CombinedStatistics(Moments(target=False, wide=False), ClassSums())"
    )


MEMORY = """
import sys
import numpy as np
from mercer import RandomFourier, accumulate, open_stream
from mercer.stats.moments import Moments
from mercer.data.batches import features

stream = open_stream(sys.argv[1])
mapped = RandomFourier(512, gamma=0.1, random_state=0).fit(np.ones((1, 64), np.float32))
accumulate(features(stream, mapped), Moments())
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_does_not_grow_with_the_rows(tmp_path):
    peaks = []
    for n in (100_000, 1_000_000):
        path = tmp_path / "rows.npy"
        np.save(path, np.random.default_rng(0).random((n, 64), dtype=np.float32))
        done = subprocess.run(
            [sys.executable, "-c", MEMORY, str(path)], capture_output=True, text=True, check=True
        )
        peaks.append(int(done.stdout))
    assert peaks[1] < 1.05 * peaks[0], peaks
