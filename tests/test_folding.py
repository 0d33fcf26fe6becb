"""fold: the same bits whatever the threads, the chunks and the interruptions; checkpoints that are refused say why."""

from __future__ import annotations

import errno
import os
import threading
import time
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from mercer import GCWS, Anchors, Chi2Series, Homogeneous, RandomFourier, fold, open_stream, tiles
from mercer.blocks import Coded, Dense, Sparse
from mercer.checkpoints import Checkpoint
from mercer.classes import ClassSums
from mercer.folding import Total
from mercer.moments import Moments
from mercer.planner import grid
from mercer.sources import Rows, features
from mercer.summaries import Range, Spread
from mercer.together import Together

BLOCK, N = 64, 64 * 16 * 3 + 100  # four shards, the last one short


@pytest.fixture
def small_grid(monkeypatch):
    """Blocks of 64 rows, and threads for every little thing."""
    monkeypatch.setattr("mercer.planner._LEAST_BLOCK", BLOCK)
    monkeypatch.setattr("mercer.planner._MOST_BLOCK", BLOCK)
    monkeypatch.setattr("mercer.tiles.worth_threads", lambda cost, rows: True)
    monkeypatch.setattr("mercer.planner._CHECKPOINT_SHARE", 0)


def data(n=N, d=4, dtype=np.float32):
    rng = np.random.default_rng(0)
    return rng.random((n, d)).astype(dtype), rng.choice(["no", "yes", "maybe"], n), rng.random(n)


def both():
    return Together(Moments(target=False), ClassSums())


def bits(summary) -> dict[str, bytes]:
    state = summary.state()
    return {name: array.tobytes() for name, array in state.arrays.items()} | {"facts": repr(state.facts)}


def fourier(X, size=1100):
    return RandomFourier(size, gamma=0.5, random_state=0).fit(X[:100])


def parquet(folder, X, y, group=100, parts=4):
    folder.mkdir()
    for i, (start, stop) in enumerate(pairwise(np.linspace(0, len(X), parts + 1).astype(int))):
        columns = {f"c{j}": X[start:stop, j] for j in range(X.shape[1])}
        pq.write_table(
            pa.table({**columns, "label": y[start:stop]}), folder / f"part-{i:04}.parquet", row_group_size=group
        )
    return folder


def test_the_grid_depends_on_width_and_dtype_alone():
    assert grid(4096, 4).rows == 2048
    assert grid(4096, 8).rows == grid(30000, 4).rows == 1024
    assert grid(10**6, 4).rows * 4e6 <= 2**27  # very wide rows have smaller blocks
    assert grid(1, 4).rows == 8192
    assert grid(700, 8).rows % 512 == 0


def test_the_number_of_threads_changes_no_bit(small_grid):
    X, y, w = data(1500)
    source = features(open_stream((X, y, w)), fourier(X))
    one, *others = (bits(fold(source, both(), n_jobs=n_jobs)) for n_jobs in (1, 2, 3))
    assert all(other == one for other in others)


def test_a_fold_uses_as_many_threads_as_it_may(small_grid, monkeypatch):
    X = data(200)[0]
    used, share = [], tiles._share
    monkeypatch.setattr(
        tiles, "_share", lambda work, items, workers: (used.append(workers), share(work, items, workers))
    )
    for n_jobs in (1, 2, 3):
        used.clear()
        fold(features(open_stream(X), fourier(X)), Moments(), n_jobs=n_jobs)
        assert max(used) == n_jobs
    with tiles.at_most(5), tiles.at_most(None):
        assert tiles.width(None) == 5 and tiles.width(2) == 2
    assert tiles.width(None) == tiles.threads()


def test_the_chunks_of_a_source_change_no_bit(small_grid, tmp_path):
    X, y, _ = data(1500)
    mapped = fourier(X, 40)
    whole = fold(features(open_stream((X, y)), mapped), both())
    for group in (7, 100, 10**6):
        stream = open_stream(parquet(tmp_path / str(group), X, y, group), target="label")
        moments, classes = fold(features(stream, mapped), both()).parts
        assert bits(moments) == bits(whole.parts[0])
        np.testing.assert_array_equal(classes.sums, whole.parts[1].sums)


def test_sums_are_those_of_all_features_at_once(small_grid):
    X, y, w = data()
    mapped = fourier(X, 600)
    moments, classes = fold(features(open_stream((X, y, w)), mapped), both()).parts
    Z = mapped.transform(X.astype(np.float64))
    centred = Z - np.average(Z, axis=0, weights=w)
    scatter = (centred * w[:, None]).T @ centred
    assert moments.n == pytest.approx(w.sum(), rel=1e-12)
    np.testing.assert_allclose(moments.mean, np.average(Z, axis=0, weights=w), atol=1e-8)
    np.testing.assert_allclose(moments.scatter, scatter, atol=3e-6 * np.diag(scatter).max())
    np.testing.assert_array_equal(moments.scatter, moments.scatter.T)
    assert classes.classes.tolist() == ["maybe", "no", "yes"]
    for label, count, total in zip(classes.classes, classes.counts, classes.sums, strict=True):
        assert count == pytest.approx(w[y == label].sum(), rel=1e-12)
        np.testing.assert_allclose(total, w[y == label] @ Z[y == label], atol=1e-5)


def test_blocks_are_of_the_kind_that_the_map_makes():
    X = data(50)[0]
    for one, kind in (
        (RandomFourier(8, random_state=0), Dense),
        (GCWS(8, random_state=0), Coded),
        (Anchors(4), Coded),
        (RandomFourier(8, random_state=0) >> GCWS(8, random_state=0), Coded),
        (Homogeneous(), Dense),
    ):
        mapped = one.fit(X)
        (block,) = features(open_stream(X), mapped).blocks()
        assert isinstance(block, kind)
        np.testing.assert_array_equal(block.toarray(), np.asarray(_dense(mapped.transform(X))))
    (block,) = features(open_stream(sp.csr_array(X)), Homogeneous().fit(X)).blocks()
    assert isinstance(block, Sparse)


def _dense(Z):
    return Z.toarray() if hasattr(Z, "toarray") else Z


def test_values_outside_the_anchors_are_said_once(small_grid):
    X = data(500)[0]
    mapped = Anchors(4).fit(X)
    with pytest.warns(UserWarning, match="outside the range of the anchors") as said:
        fold(features(open_stream(3 * X), mapped), Range())
    assert len(said) == 1


def test_one_row_and_no_rows(tmp_path):
    X = data(1)[0]
    seen = fold(open_stream(X), Moments(), checkpoint=tmp_path / "one")
    np.testing.assert_array_equal(seen.mean, X[0])
    assert seen.rows == 1 and not seen.scatter.any()
    with pytest.raises(ValueError, match="has no rows"):
        fold(X[:0], Moments())
    (tmp_path / "none.csv").write_text("a,b\n")
    with pytest.raises(ValueError, match="no rows"):
        fold(open_stream(tmp_path / "none.csv"), Moments())
    assert fold([], Spread()).count == 0


def test_a_nan_is_named_by_file_row_and_column(small_grid, tmp_path):
    X, y, _ = data()
    row = 37 * BLOCK + 5
    X[row, 2] = np.nan
    folder = parquet(tmp_path / "rows", X, y)
    stream = open_stream(folder, target="label")
    place, inside = divmod(row, N // 4)
    words = rf"got nan at part-{place:04}.parquet, row {inside} of the file, column 2 \('c2'\)"
    for source in (stream, features(stream, fourier(X, 40))):
        with pytest.raises(ValueError, match=words):
            fold(source, Moments(target=False))


def test_a_row_outside_the_domain_is_named_by_file_row_and_column(small_grid, tmp_path):
    X, y, _ = data()
    mapped = Homogeneous().fit(X)
    X[N - 1, 0] = -1
    stream = open_stream(parquet(tmp_path / "rows", X, y), target="label")
    words = r"Homogeneous needs X >= 0, got -1 at part-0003.parquet, row \d+ of the file, column 0 \('c0'\)"
    for source in (features(stream, mapped), Rows(stream, Homogeneous())):
        with pytest.raises(ValueError, match=words):
            fold(source, Moments(target=False))


def test_a_map_that_does_not_fit_the_stream_says_so():
    X = data(20)[0]
    with pytest.raises(ValueError, match="the array has 3 input columns, and RandomFourier was fitted on 4"):
        features(open_stream(X[:, :3]), fourier(X, 8))
    with pytest.raises(ValueError, match="This RandomFourier is not fitted yet"):
        features(open_stream(X), RandomFourier(8))
    import pandas as pd

    mapped = RandomFourier(8).fit(pd.DataFrame(X, columns=list("abcd")))
    with pytest.raises(
        ValueError, match="Column 2 of the pandas frame is 'x', and RandomFourier was fitted on 'c' there"
    ):
        features(open_stream(pd.DataFrame(X, columns=list("abxd"))), mapped)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    "one",
    [
        RandomFourier(8, gamma="median", random_state=0),
        RandomFourier(8, gamma="scale", random_state=0),
        Anchors(4),
        RandomFourier(8, random_state=0) >> RandomFourier(8, gamma="scale", random_state=1),
    ],
    ids=repr,
)
def test_a_map_that_looks_at_a_stream_is_the_map_of_its_rows(one, sparse):
    X = data(20_000)[0]
    rows = sp.csr_array(X) if sparse else X
    whole = clone(one).fit(rows).drawn_.arrays()
    for name, array in clone(one)._fit_stream(open_stream(rows)).drawn_.arrays().items():
        np.testing.assert_allclose(array, whole[name], rtol=1e-12)


def test_a_map_fitted_on_a_stream_knows_its_columns_and_refuses_bad_rows(tmp_path):
    X, y, _ = data(50)
    folder = parquet(tmp_path / "rows", X, y)
    mapped = Anchors(4)._fit_stream(open_stream(folder, target="label"))
    assert mapped.feature_names_in_.tolist() == ["c0", "c1", "c2", "c3"]
    X[30, 1] = -2
    stream = open_stream(parquet(tmp_path / "bad", X, y), target="label")
    with pytest.raises(ValueError, match=r"got -2 at part-0002.parquet, row 5 of the file, column 1 \('c1'\)"):
        Chi2Series(poles="fit")._fit_stream(stream)


def test_progress_counts_rows(small_grid, tmp_path):
    X = data(200)[0]
    seen = []
    fold(open_stream(X), Spread(), progress=lambda *rows: seen.append(rows))
    assert seen == [(64, 200), (128, 200), (192, 200), (200, 200)]


def test_a_summary_with_rows_takes_more():
    X = data(200)[0]
    for make in (Moments, Spread, lambda: Together(Moments(), Range())):
        twice = fold(X[50:], fold(X[:50], make()))
        one, other = (s.parts[0] if isinstance(s, Together) else s for s in (twice, fold(X, make())))
        np.testing.assert_allclose(one.mean, other.mean, rtol=1e-6)


# Interruptions


def stop_at(rows, error):
    def progress(done, _):
        if done >= rows:
            raise error

    return progress


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("rows", [1, BLOCK * 16, BLOCK * 16 + 1, BLOCK * 40, N])
def test_ctrl_c_keeps_the_shards_that_are_done(small_grid, tmp_path, rows, n_jobs):
    X, y, w = data()
    source = features(open_stream((X, y, w)), fourier(X, 40))
    whole, path = bits(fold(source, both())), tmp_path / "sum"
    summary = both()
    with pytest.raises(KeyboardInterrupt):
        fold(source, summary, checkpoint=path, progress=stop_at(rows, KeyboardInterrupt), n_jobs=n_jobs)
    assert summary.parts[0].rows == 0
    done = (rows - 1) // (BLOCK * 16)
    assert path.exists() == (done > 0)
    if done:
        assert (Checkpoint.read(path).shards, Checkpoint.read(path).rows) == (done, done * BLOCK * 16)
    seen = []
    assert bits(fold(source, both(), checkpoint=path, progress=lambda n, _: seen.append(n))) == whole
    assert seen[0] == done * BLOCK * 16 + BLOCK
    assert threading.active_count() < 50 and not [t for t in threading.enumerate() if "reader" in t.name]


def test_ctrl_c_while_the_reading_thread_starts_waits_for_it(monkeypatch):
    reading, start = threading.Event(), threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        if thread.name.startswith("mercer-reader"):
            assert reading.wait(60)
            raise KeyboardInterrupt

    def watch(row: int, rows: int | None) -> None:
        reading.set()
        time.sleep(0.2)

    stream = open_stream(np.ones((10, 2)))
    stream.watched(watch)
    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fold(stream, Moments(), n_jobs=2)


def test_what_is_not_due_is_written_when_something_goes_wrong(small_grid, tmp_path, monkeypatch):
    monkeypatch.setattr("mercer.folding.worth_writing", lambda work, write: False)
    X = data()[0]
    with pytest.raises(KeyboardInterrupt):
        fold(X, Moments(), checkpoint=tmp_path / "sum", progress=stop_at(BLOCK * 40, KeyboardInterrupt))
    assert Checkpoint.read(tmp_path / "sum").shards == 2


def test_a_merge_that_is_interrupted_is_not_kept(small_grid, tmp_path, monkeypatch):
    X, path = data()[0], tmp_path / "sum"
    whole = bits(fold(X, Moments()))
    combine, merges = Moments._combine, []

    def interrupted(self, other, sign):
        merges.append(combine(self, other, sign))
        if len(merges) == 2:
            raise KeyboardInterrupt
        return self

    with monkeypatch.context() as patch:
        patch.setattr(Moments, "_combine", interrupted)
        patch.setattr("mercer.folding.worth_writing", lambda work, write: False)
        with pytest.raises(KeyboardInterrupt):
            fold(X, Moments(), checkpoint=path)
    assert not path.exists()  # what was in memory is half a sum
    assert bits(fold(X, Moments(), checkpoint=path)) == whole


def test_a_finished_sum_is_not_summed_again(small_grid, tmp_path, monkeypatch):
    X, path = data()[0], tmp_path / "sum"
    whole = bits(fold(X, Moments(), checkpoint=path))
    monkeypatch.setattr("mercer.sources.Rows.pieces", lambda *_: pytest.fail("rows were read"))
    assert bits(fold(X, Moments(), checkpoint=path)) == whole


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_checkpoint(small_grid, tmp_path, monkeypatch, call):
    X, path = data()[0], tmp_path / "sum"
    whole = bits(fold(X, Moments()))
    calls, real = [], getattr(os, call)

    def full(*args):
        calls.append(args)
        if len(calls) > 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*args)

    with monkeypatch.context() as patch:
        patch.setattr(os, call, full)
        with pytest.raises(OSError, match=r"sum could not be written, and the one of \d shards is as it was") as seen:
            fold(X, Moments(), checkpoint=path)
    assert seen.value.errno == errno.ENOSPC
    kept = Checkpoint.read(path)
    assert 0 < kept.shards < 4
    assert os.listdir(tmp_path) == ["sum"]
    assert bits(fold(X, Moments(), checkpoint=path)) == whole


def test_what_a_killed_writer_left_is_removed(tmp_path):
    (tmp_path / ".sum.123.abcd.part").write_bytes(b"half")
    fold(data(50)[0], Moments(), checkpoint=tmp_path / "sum")
    assert os.listdir(tmp_path) == ["sum"]


# Refusals


@pytest.fixture
def begun(small_grid, tmp_path):
    """A folder of Parquet files, and a checkpoint of its first shard."""
    X, y, _ = data()
    folder = parquet(tmp_path / "rows", X, y)
    path = tmp_path / "sum"
    with pytest.raises(KeyboardInterrupt):
        resume(folder, path, progress=stop_at(BLOCK * 17, KeyboardInterrupt))
    return folder, path


def resume(folder, path, seed=0, gamma=0.5, summary=both, columns=None, **more):
    stream = open_stream(folder, target="label", columns=columns)
    mapped = RandomFourier(16, gamma=gamma, random_state=seed).fit(np.ones((2, stream.width)))
    more = {"spec": {"seed": 7, "map": {"gamma": 0.5}}, **more}
    return fold(features(stream, mapped), summary(), checkpoint=path, **more)


def test_a_checkpoint_of_the_same_sum_is_resumed_and_shows_its_spec(begun):
    folder, path = begun
    assert Checkpoint.peek(path) == {"seed": 7, "map": {"gamma": 0.5}}
    assert Checkpoint.peek(folder / "none") is None
    assert resume(folder, path).parts[0].rows == N


def test_a_source_that_has_changed_is_refused(begun):
    folder, path = begun
    file = folder / "part-0003.parquet"
    stat = file.stat()
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    with pytest.raises(
        ValueError, match=r"sum cannot be resumed: the source has changed: part-0003.parquet was written to"
    ):
        resume(folder, path)
    pq.write_table(pq.read_table(file).slice(1), file)
    words = rf"part-0003.parquet had {stat.st_size:,} bytes, now {file.stat().st_size:,}. Make it as it was, or name another"
    with pytest.raises(ValueError, match=words):
        resume(folder, path)
    file.rename(folder / "part-0004.parquet")
    with pytest.raises(ValueError, match=r"part-0003.parquet is not there any more"):
        resume(folder, path)


def test_other_columns_of_the_same_files_are_refused(begun):
    with pytest.raises(ValueError, match=r"the source has changed: columns was .*'c0', 'c1'.*, now .*'c1', 'c0'"):
        resume(*begun, columns=["c1", "c0", "c2", "c3"])


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"spec": {"seed": 7, "map": {"gamma": 0.7}}}, "map.gamma was 0.5, now 0.7"),
        ({"spec": {"seed": 8, "map": {"gamma": 0.5}}}, "seed was 7, now 8"),
        ({"spec": None}, "map was .*, now None"),
        ({"gamma": 0.7}, "the map has changed: parameters.gamma was 0.5, now 0.7"),
        ({"seed": 1}, "the map has drawn other weights: give it the seed"),
        (
            {"summary": Moments},
            r"another summary is asked for: it was 'Together\(Moments\(target=False, wide=False\), ClassSums\(\)\)'",
        ),
        ({"summary": lambda: Together(Moments(), ClassSums())}, "another summary is asked for"),
    ],
)
def test_a_sum_of_something_else_is_refused(begun, changed, words):
    folder, path = begun
    before = path.read_bytes()
    with pytest.raises(ValueError, match=f"sum cannot be resumed: {words}"):
        resume(folder, path, **changed)
    assert path.read_bytes() == before


def test_another_grid_or_instruction_set_is_refused(begun, monkeypatch):
    folder, path = begun
    with monkeypatch.context() as patch:
        patch.setattr("mercer.ops.cpu.isa", lambda: "abacus")
        with pytest.raises(ValueError, match=r"and abacus is in use, which rounds differently: set MERCER_ISA=\w+\."):
            resume(folder, path)
    monkeypatch.setattr("mercer.planner._MOST_BLOCK", 128)
    monkeypatch.setattr("mercer.planner._LEAST_BLOCK", 128)
    with pytest.raises(ValueError, match="the grid of blocks has changed: rows was 64, now 128"):
        resume(folder, path)


def test_a_damaged_checkpoint_is_refused(begun):
    folder, path = begun
    good = path.read_bytes()
    places = np.random.default_rng(0).integers(8, len(good), 30)
    for place in [*places, 8, len(good) - 1]:
        bad = bytearray(good)
        bad[place] ^= 1
        path.write_bytes(bad)
        if good[place : place + 1] != b" ":  # padding of the header
            with pytest.raises(ValueError, match=r"sum is damaged, or no checkpoint: .* Remove it"):
                resume(folder, path)
    for short in (b"", good[:5], good[: len(good) // 2], good[:-1], b"not a checkpoint at all"):
        path.write_bytes(short)
        with pytest.raises(ValueError, match="sum is damaged, or no checkpoint"):
            resume(folder, path)
    path.write_bytes(good)
    resume(folder, path)


def test_a_double_or_missing_shard_is_refused(begun):
    total = Total(Moments())
    total.take(0, fold(np.ones((3, 2)), Moments()), 3)
    for index, words in ((0, "Shard 0 was summed already"), (2, "Shard 2 has come before shard 1")):
        with pytest.raises(ValueError, match=words):
            total.take(index, Moments(), 3)
    folder, path = begun
    saved = Checkpoint.read(path)
    for shards, rows, complete in (
        (2, saved.rows, False),
        (1, saved.rows - 1, False),
        (1, saved.rows + 1, True),
        (2, 1024, True),
    ):
        Checkpoint(saved.made, shards, rows, complete, saved.state).write(path)
        with pytest.raises(ValueError, match="a shard is missing or there twice"):
            resume(folder, path)


def test_what_cannot_be_kept_in_a_checkpoint_says_so(tmp_path):
    X = data(50)[0]
    with pytest.raises(TypeError, match="Spread cannot be kept in a checkpoint"):
        fold(X, Spread(), checkpoint=tmp_path / "sum")
    with pytest.raises(TypeError, match="Range cannot be kept in a checkpoint"):
        fold(X, Together(Moments(), Range()), checkpoint=tmp_path / "sum")
    with pytest.raises(ValueError, match="checkpoint= needs rows that can be read again"):
        fold([Dense(X)], Moments(), checkpoint=tmp_path / "sum")
    with pytest.raises(ValueError, match=r"There is no folder .*gone to write the checkpoint sum to"):
        fold(X, Moments(), checkpoint=tmp_path / "gone" / "sum")
    with pytest.raises(ValueError, match="is a folder: name a file"):
        fold(X, Moments(), checkpoint=tmp_path)
    with pytest.raises(ValueError, match="fold: spec must be plain JSON values"):
        fold(X, Moments(), checkpoint=tmp_path / "sum", spec={"gamma": np.ones(2)})
    assert not (tmp_path / "sum").exists()
