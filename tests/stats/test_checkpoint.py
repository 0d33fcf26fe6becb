"""Checkpoints: the same bits after any interruption, and errors that name what has changed."""

from __future__ import annotations

import errno
import os
import threading
import time
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from tests.helpers.reduction_data import BLOCK, N, bits, both, data, fourier, parquet
from tests.helpers.waiting import LIMIT

from mercer import RandomFourier, accumulate, open_stream
from mercer.data.batches import features
from mercer.linear_model.cross_validation import Folds
from mercer.maps.block import Dense
from mercer.parallel.tile_size import override_limits
from mercer.persistence.atomic_write import open_atomic
from mercer.stats.base import CombinedStatistics, get_state
from mercer.stats.basic import ColumnSpread, Magnitude, Range, Reservoir, RowCount, Spread
from mercer.stats.checkpoint import Checkpoint
from mercer.stats.class_sums import ClassSums
from mercer.stats.histogram import ColumnHistogram, Histogram
from mercer.stats.moments import Moments
from mercer.stats.reduce import Total
from mercer.stats.table_columns import TableColumns

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
    whole, path = bits(accumulate(source, both())), tmp_path / "sum"
    summary = both()
    with pytest.raises(KeyboardInterrupt):
        accumulate(
            source,
            summary,
            checkpoint=path,
            progress=stop_at(rows, KeyboardInterrupt),
            n_jobs=n_jobs,
        )
    assert summary.parts[0].rows == 0
    done = (rows - 1) // (BLOCK * 16)
    assert path.exists() == (done > 0)
    if done:
        assert (Checkpoint.read(path).shards, Checkpoint.read(path).rows) == (
            done,
            done * BLOCK * 16,
        )
    seen = []
    assert (
        bits(accumulate(source, both(), checkpoint=path, progress=lambda n, _: seen.append(n)))
        == whole
    )
    assert seen[0] == done * BLOCK * 16 + BLOCK
    assert threading.active_count() < 50 and not [
        t for t in threading.enumerate() if "reader" in t.name
    ]


def test_ctrl_c_while_the_reading_thread_starts_waits_for_it(monkeypatch):
    reading, interrupt, start = threading.Event(), threading.Event(), threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        if thread.name.startswith("mercer-reader"):
            assert reading.wait(LIMIT)
            interrupt.set()
            raise KeyboardInterrupt

    def watch(row: int, rows: int | None) -> None:
        reading.set()
        assert interrupt.wait(LIMIT)
        # Ctrl-C comes meanwhile; on a slow machine it comes later, and nothing is shown.
        time.sleep(0.2)

    stream = open_stream(np.ones((10, 2)))
    stream.with_progress(watch)
    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        accumulate(stream, Moments(), n_jobs=2)


STATISTICS = {
    "Moments": lambda: Moments(target=False),
    "ClassSums": ClassSums,
    "RowCount": RowCount,
    "Magnitude": lambda: Magnitude("a map"),
    "Range": Range,
    "Spread": Spread,
    "ColumnSpread": ColumnSpread,
    "Reservoir": lambda: Reservoir(50, 3),
    "Histogram": Histogram,
    "ColumnHistogram": ColumnHistogram,
    "TableColumns": lambda: TableColumns((0, 1, 2), (3,), (2,), 50, 3),
    "Folds": lambda: Folds(both(), both(), both()),
}


@pytest.mark.parametrize("name", STATISTICS)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_every_statistic_goes_on_after_any_block_to_the_same_bits(small_grid, tmp_path, name, kind):
    X, y, w = data(BLOCK * 20 + 7)
    X = sp.csr_array(np.where(X > 0.5, X, 0)) if kind == "sparse" else X
    stream, path = open_stream((X, y, w)), tmp_path / "sum"

    def run(rows=None):
        progress = None if rows is None else stop_at(rows, KeyboardInterrupt)
        return accumulate(stream, STATISTICS[name](), checkpoint=path, progress=progress)

    def written(total):
        state = get_state(total)
        return {key: array.tobytes() for key, array in state.arrays.items()}, repr(state.values)

    with override_limits(checkpoint_cost_ratio=0, checkpoint_seconds=0):
        whole = written(run())
        path.unlink()
        for block in range(1, 21):
            with pytest.raises(KeyboardInterrupt):
                run(BLOCK * block)
            saved = Checkpoint.read(path)
            assert saved.rows + saved.partial_rows == Checkpoint.read_row_count(path)
            assert Checkpoint.read_row_count(path) == BLOCK * (block - (block == 16))
        assert written(run()) == whole


def test_a_checkpoint_of_format_1_is_resumed(begun, monkeypatch):
    folder, path = begun
    whole, saved = bits(resume(folder, path.with_name("other"))), Checkpoint.read(path)
    assert saved.partial is None  # format 1 has none
    with monkeypatch.context() as patch:
        patch.setattr("mercer.stats.checkpoint._FORMAT", 1)
        saved.write(path)
    assert b'\\"format\\":1' in path.read_bytes()
    assert bits(resume(folder, path)) == whole


def test_a_partial_shard_that_is_no_whole_blocks_is_refused(begun):
    folder, path = begun
    saved = Checkpoint.read(path)
    for rows in (1, BLOCK * 16, -BLOCK):
        replace(saved, partial_rows=rows, partial=saved.state).write(path)
        with pytest.raises(ValueError, match="rows of a shard are no whole blocks of 64"):
            resume(folder, path)


def test_a_clock_that_jumps_changes_no_sum(small_grid, tmp_path, monkeypatch):
    X, path = data()[0], tmp_path / "sum"
    whole = bits(accumulate(X, Moments()))
    jumps = iter([1e9, -1e9, 0.0, 5e12, -5e12, 1.0] * 1000)
    monkeypatch.setattr(time, "time", lambda: next(jumps))
    monkeypatch.setattr(time, "time_ns", lambda: int(next(jumps) * 1e9))
    with pytest.raises(KeyboardInterrupt):
        accumulate(X, Moments(), checkpoint=path, progress=stop_at(BLOCK * 40, KeyboardInterrupt))
    for when in (0, 2**33):  # a checkpoint of 1970 or of 2242 is none of another source
        os.utime(path, (when, when))
        kept = path.read_bytes()
        assert bits(accumulate(X, Moments(), checkpoint=path)) == whole
        path.write_bytes(kept)


def test_what_is_not_due_is_written_when_something_goes_wrong(small_grid, tmp_path):
    X = data()[0]
    with override_limits(checkpoint_cost_ratio=np.inf), pytest.raises(KeyboardInterrupt):
        accumulate(
            X,
            Moments(),
            checkpoint=tmp_path / "sum",
            progress=stop_at(BLOCK * 40, KeyboardInterrupt),
        )
    assert Checkpoint.read(tmp_path / "sum").shards == 2


def test_a_merge_that_is_interrupted_is_not_kept(small_grid, tmp_path, monkeypatch):
    X, path = data()[0], tmp_path / "sum"
    whole = bits(accumulate(X, Moments()))
    combine, merges = Moments._combine, []

    def interrupted(self, other, sign):
        merges.append(combine(self, other, sign))
        if len(merges) == 2:
            raise KeyboardInterrupt
        return self

    with monkeypatch.context() as patch:
        patch.setattr(Moments, "_combine", interrupted)
        with override_limits(checkpoint_cost_ratio=np.inf), pytest.raises(KeyboardInterrupt):
            accumulate(X, Moments(), checkpoint=path)
    assert not path.exists()  # what was in memory is half a sum
    assert bits(accumulate(X, Moments(), checkpoint=path)) == whole


def test_a_finished_sum_is_not_summed_again(small_grid, tmp_path, monkeypatch):
    X, path = data()[0], tmp_path / "sum"
    whole = bits(accumulate(X, Moments(), checkpoint=path))
    monkeypatch.setattr(
        "mercer.data.batches.Rows.batches", lambda *_: pytest.fail("rows were read")
    )
    assert bits(accumulate(X, Moments(), checkpoint=path)) == whole


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_checkpoint(small_grid, tmp_path, monkeypatch, call):
    X, path = data()[0], tmp_path / "sum"
    whole = bits(accumulate(X, Moments()))
    calls, real = [], getattr(os, call)

    def full(*args):
        calls.append(args)
        if len(calls) > 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*args)

    with monkeypatch.context() as patch:
        patch.setattr(os, call, full)
        with pytest.raises(
            OSError, match=r"sum could not be written, and the one of \d shards is unchanged"
        ) as seen:
            accumulate(X, Moments(), checkpoint=path)
    assert seen.value.errno == errno.ENOSPC
    kept = Checkpoint.read(path)
    assert 0 < kept.shards < 4
    assert os.listdir(tmp_path) == ["sum"]
    assert bits(accumulate(X, Moments(), checkpoint=path)) == whole


def test_what_a_killed_writer_left_is_removed(tmp_path):
    (tmp_path / ".sum.part").write_bytes(b"half")
    accumulate(data(50)[0], Moments(), checkpoint=tmp_path / "sum")
    assert os.listdir(tmp_path) == ["sum"]


def test_a_checkpoint_leaves_the_temporary_file_of_another_output(tmp_path):
    with open_atomic(tmp_path / "sum.mercer") as file:
        file.write(b"model")
        accumulate(data(50)[0], Moments(), checkpoint=tmp_path / "sum")
    assert (tmp_path / "sum.mercer").read_bytes() == b"model"


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
    return accumulate(features(stream, mapped), summary(), checkpoint=path, **more)


def test_a_checkpoint_of_the_same_sum_is_resumed_and_shows_its_spec(begun):
    folder, path = begun
    assert Checkpoint.read_spec(path) == {"seed": 7, "map": {"gamma": 0.5}}
    assert Checkpoint.read_spec(folder / "none") is None
    assert resume(folder, path).parts[0].rows == N


def test_a_source_that_has_changed_is_refused(begun):
    folder, path = begun
    file = folder / "part-0003.parquet"
    stat = file.stat()
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    with pytest.raises(
        ValueError,
        match=r"sum cannot be resumed: the source has changed: part-0003.parquet was modified",
    ):
        resume(folder, path)
    pq.write_table(pq.read_table(file).slice(1), file)
    words = (
        rf"part-0003.parquet had {stat.st_size:,} bytes, now {file.stat().st_size:,}. Restore "
        r"it, or name another"
    )
    with pytest.raises(ValueError, match=words):
        resume(folder, path)
    file.rename(folder / "part-0004.parquet")
    with pytest.raises(ValueError, match=r"part-0003.parquet has been removed"):
        resume(folder, path)


def test_other_columns_of_the_same_files_are_refused(begun):
    with pytest.raises(
        ValueError, match=r"the source has changed: columns was .*'c0', 'c1'.*, now .*'c1', 'c0'"
    ):
        resume(*begun, columns=["c1", "c0", "c2", "c3"])


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"spec": {"seed": 7, "map": {"gamma": 0.7}}}, "map.gamma was 0.5, now 0.7"),
        ({"spec": {"seed": 8, "map": {"gamma": 0.5}}}, "seed was 7, now 8"),
        ({"spec": None}, "map was .*, now None"),
        ({"gamma": 0.7}, "the map has changed: parameters.gamma was 0.5, now 0.7"),
        ({"seed": 1}, "the map has other random weights: use the seed"),
        (
            {"summary": Moments},
            r"the statistic has changed: it was 'CombinedStatistics\(Moments\(target=False, "
            r"wide=False\), ClassSums\(\)\)'",
        ),
        (
            {"summary": lambda: CombinedStatistics(Moments(), ClassSums())},
            "the statistic has changed",
        ),
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
        with pytest.raises(
            ValueError,
            match=r"and abacus is in use, which rounds differently: set MERCER_ISA=\w+\.",
        ):
            resume(folder, path)
    words = "the grid of blocks has changed: rows was 64, now 128"
    with (
        override_limits(min_block_rows=128, max_block_rows=128),
        pytest.raises(ValueError, match=words),
    ):
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
            with pytest.raises(
                ValueError, match=r"sum is damaged or not a checkpoint file: .* or remove a damaged"
            ):
                resume(folder, path)
    for short in (b"", good[:5], good[: len(good) // 2], good[:-1], b"not a checkpoint at all"):
        path.write_bytes(short)
        with pytest.raises(ValueError, match="sum is damaged or not a checkpoint file"):
            resume(folder, path)
    path.write_bytes(good)
    resume(folder, path)


def test_a_double_or_missing_shard_is_refused(begun):
    total = Total(Moments())
    total.merge(0, accumulate(np.ones((3, 2)), Moments()), 3)
    for index, words in (
        (0, "Shard 0 is already merged"),
        (2, "Shard 2 was delivered before shard 1"),
    ):
        with pytest.raises(ValueError, match=words):
            total.merge(index, Moments(), 3)
    folder, path = begun
    saved = Checkpoint.read(path)
    for shards, rows, complete in (
        (2, saved.rows, False),
        (1, saved.rows - 1, False),
        (1, saved.rows + 1, True),
        (2, 1024, True),
    ):
        Checkpoint(saved.inputs, shards, rows, complete, saved.state).write(path)
        with pytest.raises(ValueError, match="a shard is missing or counted twice"):
            resume(folder, path)


def test_what_cannot_be_kept_in_a_checkpoint_says_so(tmp_path):
    X = data(50)[0]
    callback = Spread()
    callback.report = print
    with pytest.raises(TypeError, match=r"Spread cannot be checkpointed \(it holds a builtin"):
        accumulate(X, CombinedStatistics(Moments(), callback), checkpoint=tmp_path / "sum")
    with pytest.raises(ValueError, match="checkpoint= needs rows that can be read again"):
        accumulate([Dense(X)], Moments(), checkpoint=tmp_path / "sum")
    with pytest.raises(
        ValueError, match=r"There is no folder .*gone to write the checkpoint sum to"
    ):
        accumulate(X, Moments(), checkpoint=tmp_path / "gone" / "sum")
    with pytest.raises(ValueError, match="is a folder: name a file"):
        accumulate(X, Moments(), checkpoint=tmp_path)
    with pytest.raises(ValueError, match="accumulate: spec must be JSON values"):
        accumulate(X, Moments(), checkpoint=tmp_path / "sum", spec={"gamma": np.ones(2)})
    assert not (tmp_path / "sum").exists()
