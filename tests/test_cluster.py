"""A cluster of separate processes: the same bits for any number of workers, and whatever happens to them on the way."""

from __future__ import annotations

import logging
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import dump_svmlight_file
from sklearn.exceptions import NotFittedError

from mercer import (
    GCWS,
    Anchors,
    Chi2Series,
    FeaturePCA,
    Hellinger,
    KernelClassifier,
    KernelRegressor,
    Nystroem,
    RandomFourier,
    RandomLaplace,
    fold,
    open_stream,
    planner,
)
from mercer.blocks import Dense
from mercer.checkpoints import Checkpoint
from mercer.classes import ClassSums
from mercer.cluster import folding_on
from mercer.jobs import Job, summed
from mercer.moments import Moments
from mercer.sources import Rows, features
from mercer.streams.memory import ArrayStream
from mercer.together import Together

distributed = pytest.importorskip("distributed", reason="distributed is not installed: pip install 'mercer[dask]'")
da = pytest.importorskip("dask.array", reason="dask is not installed: pip install 'mercer[dask]'")

BLOCK, N = 64, 64 * 16 * 6 + 100  # seven shards, the last one short
TILE = 40  # a block has a tile and a half
SMALL = f"""
from mercer import planner, sources
planner._LEAST_BLOCK = planner._MOST_BLOCK = {BLOCK}
sources.tile_rows = lambda cost: {TILE}
"""


@pytest.fixture(scope="module")
def preload(tmp_path_factory):
    """What every worker runs when it starts."""
    path = tmp_path_factory.mktemp("preload") / "small_blocks.py"
    path.write_text(SMALL)
    return str(path)


@pytest.fixture(scope="module")
def cluster(preload):
    import dask

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            preload=preload,
            silence_logs=logging.CRITICAL,
        ) as made,
    ):
        yield made


@pytest.fixture(scope="module")
def client(cluster):
    with distributed.Client(cluster, set_as_default=False) as made:
        yield made


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(planner, "_LEAST_BLOCK", BLOCK)
    monkeypatch.setattr(planner, "_MOST_BLOCK", BLOCK)
    monkeypatch.setattr(planner, "_CHECKPOINT_SHARE", 0)
    monkeypatch.setattr("mercer.sources.tile_rows", lambda cost: TILE)


def data(n=N, d=4, dtype=np.float32):
    rng = np.random.default_rng(0)
    return rng.random((n, d)).astype(dtype), rng.choice(["no", "yes", "maybe"], n), rng.random(n)


def both():
    return Together(Moments(target=False), ClassSums())


def bits(summary) -> dict[str, bytes]:
    state = summary.state()
    return {name: array.tobytes() for name, array in state.arrays.items()} | {"facts": repr(state.facts)}


def fourier(X, size=40):
    return RandomFourier(size, gamma=0.5, random_state=0).fit(X[:100])


def scale(cluster, client, workers):
    cluster.scale(workers)
    deadline = time.monotonic() + 120
    while len(client.nthreads()) != workers:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def parquet(folder, X, y, parts=4):
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    for i, rows in enumerate(np.array_split(np.arange(len(X)), parts)):
        columns = {f"c{j}": X[rows, j] for j in range(X.shape[1])}
        pq.write_table(pa.table({**columns, "label": y[rows]}), folder / f"part-{i}.parquet", row_group_size=300)
    return folder


def numbers(model):
    return [np.asarray(value).tobytes() for value in (model.coef_, model.intercept_, model.alpha_, model.gcv_)]


def test_one_two_and_four_workers_give_the_model_of_one_process(cluster, client, tmp_path):
    X, y, _ = data()
    stream = open_stream(parquet(tmp_path / "rows", X, y), target="label")

    def model(**more):
        one = RandomFourier(30, gamma="median") >> RandomFourier(20, gamma="scale")
        return KernelClassifier(one, alpha="kfold", class_weight="balanced", random_state=0, **more)

    alone = model().fit(stream)
    for workers in (1, 2, 4):
        scale(cluster, client, workers)
        there = model(cluster=cluster.scheduler_address).fit(stream)
        assert numbers(there) == numbers(alone)
        assert there.classes_.tolist() == ["maybe", "no", "yes"]
    scale(cluster, client, 2)


def sources(tmp_path, X, y, w):
    import pandas as pd

    np.save(tmp_path / "rows.npy", np.asfortranarray(X))
    np.savez(tmp_path / "rows.npz", X=X, y=y, w=w)
    dump_svmlight_file(X, np.arange(len(X)) % 3, str(tmp_path / "rows.svm"))
    frame = pd.DataFrame(X, columns=list("abcd")).assign(label=y, w=w)
    chunks = da.from_array(X, chunks=(777, 3))
    return {
        "array": (X, y, w),
        "CSR": (sp.csr_array(X), y, w),
        "frame": open_stream(frame, target="label", weight="w"),
        "npy": open_stream(tmp_path / "rows.npy", target=y, weight=w),
        "npz": open_stream(tmp_path / "rows.npz", target="y", weight="w"),
        "svmlight": tmp_path / "rows.svm",
        "parquet": open_stream(parquet(tmp_path / "rows", X, y), target="label"),
        "Dask, y in memory": (chunks, y, w),
        "Dask, y in Dask": (chunks, da.from_array(y, chunks=500), da.from_array(w, chunks=901)),
        "Dask, a column": open_stream(da.from_array((10 * X).astype(int), chunks=(2000, 1)), target=-1),
    }


def test_every_source_has_the_same_sums_there_as_here(client, tmp_path):
    X, y, w = data()
    mapped, fewer = fourier(X), fourier(X[:, :3])
    for name, source in sources(tmp_path, X, y, w).items():
        stream = source if hasattr(source, "chunks") else open_stream(source)
        rows = features(stream, mapped if stream.width == 4 else fewer)
        here = fold(rows, both()) if not stream.lazy else fold(_in_memory(rows), both())
        assert bits(fold(rows, both(), client=client)) == bits(here), name
        assert here.parts[0].rows == N


def _in_memory(rows):
    """The same rows as arrays, so that they are summed here."""
    chunks = list(rows.stream.chunks())
    columns = zip(*((chunk.X, chunk.y, chunk.weight) for chunk in chunks), strict=True)
    X, y, w = (None if parts[0] is None else np.concatenate(parts) for parts in columns)
    return features(open_stream(X).beside(y, w), rows.feature_map)


@pytest.mark.parametrize(
    "one",
    [
        RandomFourier(16, gamma="median", random_state=0),
        RandomFourier(16, gamma="scale", random_state=0),
        RandomLaplace(16, random_state=0),
        Anchors(4),
        Chi2Series(3, poles="fit"),
        FeaturePCA(2),
        Nystroem(12, random_state=0),
        Hellinger() >> RandomFourier(16, random_state=0) >> RandomFourier(8, gamma="scale", random_state=1),
        Hellinger() + RandomFourier(16, gamma="scale", random_state=1),
    ],
    ids=repr,
)
def test_what_a_map_sees_on_a_cluster_is_what_it_sees_alone(one, client):
    X, y, w = data()
    here = clone(one)._fit_stream(open_stream((X, y, w)))
    with folding_on(client):
        there = clone(one)._fit_stream(open_stream((X, y, w)))
    assert here.drawn_.arrays().keys() == there.drawn_.arrays().keys()
    for name, array in here.drawn_.arrays().items():
        assert array.tobytes() == there.drawn_.arrays()[name].tobytes()


class Counted(RandomFourier):
    """Writes a line to a file whenever it is drawn."""

    def __init__(self, n_components=64, *, gamma="scale", random_state=0, log=None):
        super().__init__(n_components, gamma=gamma, random_state=random_state)
        self.log = log

    def draw(self, rng, d, seen):
        with Path(self.log).open("a") as file:
            file.write(f"{os.getpid()}\n")
        return super().draw(rng, d, seen)


def test_a_worker_draws_once_from_the_seed_and_what_was_seen(client, tmp_path, monkeypatch):
    X = data(d=50)[0]
    monkeypatch.setattr(planner, "_REDRAWN_FROM", 0)
    one = Counted(1000, log=str(tmp_path / "log")).fit(X)
    rows = features(open_stream(X), one)
    drawn_bytes = sum(array.nbytes for array in one.drawn_.arrays().values())
    assert drawn_bytes > 50 * len(pickle.dumps(Job(rows, Moments(), whole=False)))
    (tmp_path / "log").unlink()
    there = fold(rows, Moments(), client=client)
    drawn = (tmp_path / "log").read_text().split()
    assert len(drawn) == len(set(drawn)) <= 2 and str(os.getpid()) not in drawn
    assert bits(there) == bits(fold(rows, Moments()))


def test_a_map_that_saw_much_is_sent_as_it_was_drawn(monkeypatch):
    X = data(2000)[0]
    monkeypatch.setattr(planner, "_REDRAWN_FROM", 0)
    for one, redrawn in (
        (RandomFourier(512, gamma="scale", random_state=0), True),
        (RandomFourier(512, gamma="median", random_state=0), False),  # 512 rows were seen
        (Nystroem(20, gamma=1.0, random_state=0), False),
        (Hellinger() >> RandomFourier(512, gamma=1.0, random_state=0), True),
    ):
        packed = one.fit(X)._packed()
        last = packed.maps_[-1] if hasattr(packed, "maps_") else packed
        assert hasattr(last, "drawn_") != redrawn
        np.testing.assert_array_equal(packed._unpacked().transform(X), one.transform(X))
    monkeypatch.undo()
    assert hasattr(RandomFourier(512, gamma=1.0).fit(X)._packed(), "drawn_")  # 16 kB are sent as they are


def test_a_worker_that_draws_other_digits_is_sent_what_was_drawn(client, monkeypatch):
    X = data()[0]
    rows = features(open_stream(X), fourier(X))
    here = bits(fold(rows, Moments()))
    made, make = [], Job.__init__
    monkeypatch.setattr(planner, "_REDRAWN_FROM", 0)
    monkeypatch.setattr("mercer.sources._digest", lambda maps: "of another processor")
    monkeypatch.setattr(
        Job, "__init__", lambda self, *args, whole: (made.append(whole), make(self, *args, whole=whole))[1]
    )
    assert bits(fold(rows, Moments(), client=client)) == here
    assert made == [False, True]


class Whose:
    """The processes that have summed the shards, in order."""

    def __init__(self):
        self.pids = []

    def add(self, block, y=None, weight=None, start=0):
        self.pids += [os.getpid()] if start % (16 * BLOCK) == 0 else []

    def __add__(self, other):
        both = Whose()
        both.pids = self.pids + other.pids
        return both


@pytest.mark.parametrize("lazy", [False, True], ids=["array", "Dask array"])
def test_all_workers_have_their_share(cluster, client, lazy):
    scale(cluster, client, 2)
    X = data(8 * 16 * BLOCK)[0]
    pids = fold(open_stream(da.from_array(X, chunks=(900, 4)) if lazy else X), Whose(), client=client).pids
    assert len(pids) == 8 and os.getpid() not in pids
    assert min(pids.count(pid) for pid in client.run(os.getpid).values()) >= 3


def test_a_worker_killed_in_the_middle_changes_nothing(cluster, client):
    X, y, w = data(20 * BLOCK * 16 + 5)
    rows = features(open_stream((X, y, w)), fourier(X, 200))
    before, done = client.run(os.getpid), []

    def progress(rows_done, of):
        if not done:
            os.kill(next(iter(before.values())), signal.SIGKILL)
        done.append(rows_done)

    there = fold(rows, both(), client=client, progress=progress)
    assert there.parts[0].rows == len(X) and done == sorted(set(done)) and done[-1] == len(X)
    assert bits(there) == bits(fold(rows, both()))
    scale(cluster, client, 2)
    assert set(client.run(os.getpid).values()) != set(before.values())


def test_a_poisoned_row_is_named_as_it_is_without_a_cluster(client, tmp_path):
    X, y, _ = data()
    X[4000, 2] = X[5000, 1] = np.nan
    folder = parquet(tmp_path / "rows", X, y)
    words = r"got nan at part-2.parquet, row 878 of the file, column 2 \('c2'\)"
    chunks = da.from_array(X, chunks=(1000, 4))
    for source, expected in (
        (open_stream(folder, target="label"), words),
        (open_stream((chunks, y)), r"got nan at row 4000 \(chunk 4 of the Dask array\), column 2"),
    ):
        with pytest.raises(ValueError, match=expected) as error:
            fold(features(source, fourier(X, 8)), both(), client=client)
        assert "distributed" not in str(error.value)
    labels = np.where(np.arange(N) == 3000, None, y.astype(object))
    with pytest.raises(ValueError, match="The target needs a value in every row, got None at row 3000"):
        fold(open_stream((data()[0], labels)), both(), client=client)


class Marking(ArrayStream):
    """Writes a line to a file when a shard is read; the row `deadly` kills the process that reads it."""

    log, deadly = "", -1

    def _read(self, start, rows):
        with Path(self.log).open("a") as file:
            file.write(f"{start}\n")
        if start <= self.deadly < start + 16 * BLOCK:
            os.kill(os.getpid(), signal.SIGKILL)
        yield from super()._read(start, rows)


def test_a_task_that_fails_is_not_tried_again(client, tmp_path):
    X = data()[0]
    X[100] = np.inf
    stream = Marking(X)
    stream.log = str(tmp_path / "log")
    with pytest.raises(ValueError, match="got inf at row 100, column 0"):
        fold(stream, Moments(), client=client)
    tried = (tmp_path / "log").read_text().split()
    assert tried.count("0") == 1


def test_rows_that_kill_every_worker_are_named(cluster, client, tmp_path):
    stream = Marking(data()[0])
    stream.log, stream.deadly = str(tmp_path / "log"), 2100
    with pytest.raises(
        RuntimeError, match=r"Every worker that summed rows 2048 to 3071 of the array has died, the last one at tcp://"
    ):
        fold(stream, Moments(), client=client)
    assert (tmp_path / "log").read_text().split().count("2048") <= 4  # twice among others, twice alone
    scale(cluster, client, 2)


@pytest.fixture
def other_cluster(tmp_path, preload):
    """The address of a scheduler in a process of its own, the process, and what starts a worker for it."""
    file = tmp_path / "scheduler.json"
    options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    command = [
        sys.executable,
        "-m",
        "dask",
        "scheduler",
        "--port",
        "0",
        "--no-dashboard",
        "--scheduler-file",
        str(file),
    ]
    started = [subprocess.Popen([*command, "--host", "127.0.0.1"], **options)]
    deadline = time.monotonic() + 30
    while not (file.exists() and file.read_text().strip().endswith("}")):
        assert time.monotonic() < deadline
        time.sleep(0.02)

    def work():
        named = ["--scheduler-file", str(file), "--nthreads", "2", "--no-nanny", "--no-dashboard", "--preload", preload]
        started.append(subprocess.Popen([sys.executable, "-m", "dask", "worker", *named], cwd=tmp_path, **options))

    import json

    yield json.loads(file.read_text())["address"], started[0], work
    for process in started:
        process.kill()
        process.wait()


def test_the_loss_of_the_scheduler_costs_no_shard_that_was_merged(client, other_cluster, tmp_path, monkeypatch):
    address, scheduler, work = other_cluster
    X, y, _ = data()
    rows = features(open_stream(parquet(tmp_path / "rows", X, y), target="label"), fourier(X))
    with monkeypatch.context() as patch:
        patch.setattr("mercer.cluster._ANSWERS_WITHIN", 0.5)
        with pytest.raises(ValueError, match=rf"The cluster at {address} has no worker after 0.5 s: start one"):
            fold(rows, both(), client=address)
    work()

    def lose(done, of):
        if done == 2 * 16 * BLOCK:
            scheduler.kill()
            scheduler.wait()

    begin = time.monotonic()
    with pytest.raises(
        ConnectionError, match=rf"The scheduler at {address} is gone. 2\d+ rows were summed: a checkpoint= has"
    ):
        fold(rows, both(), client=address, checkpoint=tmp_path / "sum", progress=lose)
    assert time.monotonic() - begin < 30
    assert Checkpoint.read(tmp_path / "sum").rows >= 2 * 16 * BLOCK
    kept = (tmp_path / "sum").read_bytes()
    whole = bits(fold(rows, both()))
    assert bits(fold(rows, both(), checkpoint=tmp_path / "sum")) == whole
    (tmp_path / "sum").write_bytes(kept)
    assert bits(fold(rows, both(), checkpoint=tmp_path / "sum", client=client)) == whole


def test_a_cluster_that_does_not_answer_is_named(monkeypatch):
    monkeypatch.setattr("mercer.cluster._ANSWERS_WITHIN", 0.5)
    X, _, w = data(50)
    words = r"No scheduler answers at 'tcp://127.0.0.1:1' within 0.5 s: .* Is it running"
    with pytest.raises(ValueError, match=words):
        fold(X, Moments(), client="tcp://127.0.0.1:1")
    with pytest.raises(ValueError, match=words):
        KernelRegressor(cluster="tcp://127.0.0.1:1").fit(X, w)
    with pytest.raises(ValueError, match="No scheduler answers at 'nonsense'"):
        KernelRegressor(cluster="nonsense").fit(X, w)
    with pytest.raises(ValueError, match=r"A cluster is a distributed.Client or the address .*, got a int"):
        KernelRegressor(cluster=8786).fit(X, w)
    assert clone(KernelRegressor(cluster="tcp://host:8786")).cluster == "tcp://host:8786"


def test_a_closed_client_is_refused(cluster):
    other = distributed.Client(cluster, set_as_default=False)
    other.close()
    with pytest.raises(ValueError, match="connected and not asynchronous is needed, got one that is closed"):
        fold(data(50)[0], Moments(), client=other)


def test_a_worker_that_sees_other_files_or_rounds_otherwise_says_so(client, tmp_path):
    path = tmp_path / "rows.npy"
    np.save(path, data(100)[0])

    def job(**more):
        made = Job(Rows(open_stream(path)), Moments(), whole=False)
        made.made.update(more)
        return made

    def run(one):
        return client.submit(summed, one, 0, 100, {}, pure=False).result()

    assert run(job())[1] == 100
    with pytest.raises(ValueError, match=r"The worker at tcp://.* uses the instruction set .*, and the driver abacus"):
        run(job(isa="abacus"))
    with pytest.raises(ValueError, match=r"The worker at tcp://.* has mercer .*, and 0.0 is needed: install that"):
        run(job(mercer="0.0"))
    touched, grown, gone = job(), job(), job()
    os.utime(path, ns=(0, 0))
    with pytest.raises(ValueError, match=r"tcp://.* sees another rows.npy than the driver: its time of modification"):
        run(touched)
    with path.open("ab") as file:
        file.write(b"more")
    with pytest.raises(ValueError, match=r"sees another rows.npy than the driver: its size differs"):
        run(grown)
    path.unlink()
    with pytest.raises(ValueError, match=r"The worker at tcp://.* cannot read .*rows.npy: No such file"):
        run(gone)


def test_what_a_cluster_cannot_do_is_refused_in_words(client, tmp_path):
    X, _, w = data(100)
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n3,4\n")
    with pytest.raises(ValueError, match=r"rows.csv cannot be read from the middle, .* convert it to Parquet first"):
        fold(open_stream(tmp_path / "rows.csv"), Moments(), client=client)
    with pytest.raises(ValueError, match="client= needs rows that can be read again"):
        fold([Dense(X)], Moments(), client=client)
    for model in (
        KernelRegressor(alpha="loo", cluster=client),
        KernelRegressor(max_memory=1000, cluster=client),
        KernelClassifier(loss="logistic", cluster=client),
    ):
        with pytest.raises(
            ValueError, match=r"a cluster sums moments, and this fit takes more passes.*Use loss='squared'"
        ):
            model.fit(X, (w > 0.5).astype(int))


def test_warnings_come_home_once(client):
    X = data()[0]
    rows = features(open_stream(3 * X), Anchors(4).fit(X))
    with pytest.warns(UserWarning, match="outside the range of the anchors") as said:
        fold(rows, Moments(), client=client)
    assert len(said) == 1


def test_values_outside_the_anchors_of_a_dask_array_are_said_once():
    X = data()[0]
    mapped = Anchors(4).fit(X)
    X[3001, 2] = 5
    lazy = mapped.transform(da.from_array(X, chunks=(1000, 4)))
    words = r"1 value\(s\) outside the range .* the first 5 at row 1, column 2\. .* \(Rows from 3000 on, counted from there\.\)"
    for _ in range(2):
        with pytest.warns(UserWarning, match=words):
            lazy.compute()
    X[2000:] = 5
    with pytest.warns(UserWarning, match="outside the range") as said:
        there = mapped.transform(da.from_array(X, chunks=(1000, 4))).compute()
    assert len(said) == 1
    with pytest.warns(UserWarning, match="outside the range"):
        np.testing.assert_array_equal(there, mapped.transform(X))


def test_rows_in_memory_are_cut_and_files_are_named(tmp_path):
    X, y, w = data()
    np.save(tmp_path / "rows.npy", X)
    for source in ((X, y, w), (sp.csr_array(X), y, w), (tmp_path / "rows.npy", y, w)):
        stream = open_stream(source)
        job = pickle.dumps(Job(Rows(stream), Moments(), whole=False))
        part = pickle.dumps(stream.held(BLOCK, 2 * BLOCK))
        assert len(job) < 3000 and len(part) < 6000
        again = pickle.loads(job).rows.with_rows(pickle.loads(part), BLOCK)
        (piece,) = again.pieces(BLOCK, 2 * BLOCK)
        (same,) = Rows(stream).pieces(BLOCK, 2 * BLOCK)
        assert piece.start == BLOCK and piece.y.tolist() == y[BLOCK : 2 * BLOCK].tolist()
        np.testing.assert_array_equal(piece.block.toarray(), same.block.toarray())
        np.testing.assert_array_equal(piece.weight, w[BLOCK : 2 * BLOCK])


def test_several_targets_and_partial_fit_on_a_cluster(cluster):
    X, _, w = data()
    Y = np.column_stack([w, X[:, 0]])
    model = KernelRegressor(RandomFourier(20, gamma=0.5, random_state=0), alpha=1.0)
    there = clone(model).set_params(cluster=cluster.scheduler_address)
    chunks = da.from_array(X, chunks=(777, 4)), da.from_array(Y, chunks=(500, 1))
    np.testing.assert_array_equal(clone(there).fit(*chunks).coef_, clone(model).fit(X, Y).coef_)
    lazy = there.fit(*chunks).predict(chunks[0])
    assert lazy.shape == (N, 2) and lazy.dtype == np.float64
    one, other = (
        clone(each).partial_fit(X[:3000], w[:3000]).partial_fit(X[3000:], w[3000:]) for each in (model, there)
    )
    np.testing.assert_array_equal(one.coef_, other.coef_)


@pytest.mark.parametrize(
    ("penalty", "memory", "route"),
    [("l2", None, "moments"), ("l2", "100kB", "two-stage"), ("group", "100kB", "two-stage")],
)
def test_components_of_several_maps_are_those_of_one_process(penalty, memory, route, cluster):
    X, y, _ = data()
    maps = [RandomFourier(40, gamma=2.0, random_state=0), Chi2Series(3), RandomFourier(32, gamma=9.0, random_state=1)]
    one, many = (
        KernelClassifier(maps, alpha=0.1, pca=4, penalty=penalty, max_memory=memory, cluster=where).fit(
            X, y, unlabeled=X[:700] / 2
        )
        for where in (None, cluster.scheduler_address)
    )
    assert many.plan_.route == route
    assert np.array_equal(one.coef_, many.coef_)


def test_dask_arrays_go_to_the_current_client(cluster):
    X, y, _ = data()
    model = KernelClassifier(RandomFourier(20, gamma=0.5, random_state=0), alpha=1.0)
    here = clone(model).fit(X, y)
    chunks = da.from_array(X, chunks=(777, 4))
    with distributed.Client(cluster) as current:
        there = clone(model).fit(chunks, da.from_array(y, chunks=777))
        assert any("summed" in key for key in current.run_on_scheduler(_done))
        np.testing.assert_array_equal(there.predict(chunks).compute(), here.predict(X))
        assert there.score(chunks, da.from_array(y, chunks=777)) == here.score(X, y)
    np.testing.assert_array_equal(there.coef_, here.coef_)


def _done(dask_scheduler):
    return [str(key) for key in dask_scheduler.task_prefixes]


def test_without_a_cluster_dask_arrays_are_streams():
    X, y, w = data()
    chunks, labels = da.from_array(X, chunks=(777, 3)), da.from_array(y, chunks=500)
    stream = open_stream(chunks, target=labels, weight=w)
    assert (stream.width, stream.rows, stream.dtype, stream.target) == (4, N, np.dtype(np.float32), "given")
    assert [len(chunk) for chunk in stream.chunks(700)] == [77, *[777] * 7, N - 8 * 777]
    mapped = fourier(X)
    assert bits(fold(features(stream, mapped), both())) == bits(fold(features(open_stream((X, y, w)), mapped), both()))
    for given, expected in ((y[::-1], y[::-1]), (labels, y), (labels[::-1], y[::-1])):  # what was given last counts
        other = stream.beside(given, None)
        assert next(other.chunks()).y.tolist() == expected[:777].tolist()
    stream = open_stream(chunks, target=labels, weight=w)
    assert stream.fingerprint() == open_stream(chunks, target=labels, weight=w).fingerprint()
    assert stream.fingerprint() != open_stream(2 * chunks, target=labels, weight=w).fingerprint()
    with pytest.raises(ValueError, match="the Dask array must be a 2-d array of real numbers, got 1-d"):
        open_stream(labels)
    with pytest.raises(ValueError, match=r"unknown length: call compute_chunk_sizes\(\)"):
        open_stream(chunks[chunks[:, 0] > 0.5])
    with pytest.raises(ValueError, match=r"takes Dask arrays, got a Dask Delayed. Of a Dask frame make arrays with"):
        open_stream(chunks.to_delayed()[0, 0])
    with pytest.raises(ValueError, match=f"target needs one value for each of the {N} rows, got a Dask array of shape"):
        open_stream(chunks, target=labels[:-1])


def test_the_three_lines_of_the_guide_run(cluster, tmp_path):
    X, y, _ = data(2000)
    parquet(tmp_path / "rows", X, y)
    guide = (Path(__file__).parents[1] / "docs" / "cluster.md").read_text()
    (code,) = re.findall(r"```py\n(.*?)```", guide, re.DOTALL)
    assert len(code.split("\n\n")[-1].splitlines()) + 1 == 3  # an import, and two lines
    here = {
        "tcp://scheduler:8786": cluster.scheduler_address,
        "/shared/rows": str(tmp_path / "rows"),
        "rows.sum": str(tmp_path / "sum"),
        "4096": "64",
    }
    for told, real in here.items():
        assert told in code
        code = code.replace(told, real)
    names: dict[str, object] = {}
    exec(code, names)
    assert Checkpoint.read(tmp_path / "sum").complete
    alone = KernelClassifier(RandomFourier(64, random_state=0)).fit(X, y)
    np.testing.assert_allclose(names["model"].coef_, alone.coef_, rtol=1e-6, atol=1e-9)


def untouchable(block):
    raise AssertionError("computed too early")


def test_predictions_on_a_dask_array_are_lazy_and_right():
    X, y, _ = data(1000)
    chunks = da.from_array(X, chunks=(300, 3))
    model = KernelClassifier(RandomFourier(20, gamma=0.5, random_state=0), loss="logistic", alpha=1.0).fit(X, y)
    for method in ("predict", "predict_proba", "decision_function"):
        here = getattr(model, method)(X)
        lazy = getattr(model, method)(chunks)
        assert (lazy.shape, lazy.dtype, lazy.chunks[0]) == (here.shape, here.dtype, (300, 300, 300, 100))
        there = lazy.compute()
        assert there.dtype == here.dtype
        np.testing.assert_array_equal(there, here)
        some = getattr(model, method)(chunks[chunks[:, 0] > 0.5])  # of a length that nobody knows yet
        np.testing.assert_array_equal(some.compute(), here[X[:, 0] > 0.5])
    assert sum("_unpacked" in str(key) for key in dict(lazy.__dask_graph__())) == 1
    model.predict(chunks.map_blocks(untouchable, dtype=np.float32))
    empty = da.concatenate([chunks[:0], chunks])
    np.testing.assert_array_equal(model.predict(empty).compute(), model.predict(X))
    out = np.empty(1000, dtype=y.dtype)
    np.testing.assert_array_equal(model.predict(chunks, out=out), model.predict(X))
    for unfitted in (model.predict, model.decision_function):
        with pytest.raises(NotFittedError):
            getattr(clone(model), unfitted.__name__)(chunks)
    with pytest.raises(ValueError, match=r"has the shape \(1000, 3\), but KernelClassifier is expecting 4 columns"):
        model.predict(chunks[:, :3])
    X[777, 1] = np.nan
    with pytest.raises(ValueError, match="got nan at row 777, column 1"):
        model.predict(da.from_array(X, chunks=(300, 4))).compute()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("one", [RandomFourier(16, gamma="scale", random_state=0), GCWS(8, random_state=0)], ids=repr)
def test_features_of_a_dask_array_are_lazy_and_right(one, dtype):
    X = data(1000, dtype=dtype)[0]
    chunks = da.from_array(X, chunks=(300, 3))
    fitted = clone(one).fit(chunks)
    here, lazy = clone(one)._fit_stream(open_stream(X)).transform(X), fitted.transform(chunks)
    assert (lazy.shape, lazy.dtype) == (here.shape, here.dtype)
    assert type(lazy._meta) is type(here)
    parts = [lazy.blocks[i].compute() for i in range(4)]
    there = sp.vstack(parts) if sp.issparse(parts[0]) else np.concatenate(parts)
    assert there.dtype == dtype
    np.testing.assert_array_equal(_dense(there), _dense(here))


def _dense(Z):
    return Z.toarray() if sp.issparse(Z) else Z
