"""Faults of clusters: dying workers, invalid rows, lost schedulers."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from tests.helpers.cluster_data import BLOCK, N, data, fourier, parquet, scale
from tests.helpers.reduction_data import bits, both
from tests.helpers.waiting import LIMIT, wait_until

from mercer import (
    Anchors,
    KernelClassifier,
    KernelRegressor,
    RandomFourier,
    accumulate,
    open_stream,
)
from mercer.data.batches import Rows, features
from mercer.data.in_memory import ArrayStream
from mercer.maps.block import Dense
from mercer.parallel.dask_worker import ShardJob, sum_shard
from mercer.parallel.tile_size import override_limits
from mercer.stats.checkpoint import Checkpoint
from mercer.stats.moments import Moments

distributed = pytest.importorskip(
    "distributed", reason="distributed is not installed: pip install 'mercer[dask]'"
)
da = pytest.importorskip("dask.array", reason="dask is not installed: pip install 'mercer[dask]'")

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("small_blocks")]


def test_a_worker_killed_in_the_middle_changes_nothing(cluster, client):
    X, y, w = data(20 * BLOCK * 16 + 5)
    rows = features(open_stream((X, y, w)), fourier(X, 200))
    before, done = client.run(os.getpid), []

    def progress(rows_done, of):
        if not done:
            os.kill(next(iter(before.values())), signal.SIGKILL)
        done.append(rows_done)

    there = accumulate(rows, both(), client=client, progress=progress)
    assert there.parts[0].rows == len(X) and done == sorted(set(done)) and done[-1] == len(X)
    assert bits(there) == bits(accumulate(rows, both()))
    scale(cluster, client, 2)
    assert set(client.run(os.getpid).values()) != set(before.values())


@pytest.mark.parametrize("kills", [5, pytest.param(50, marks=pytest.mark.slow)])
def test_workers_that_are_killed_all_the_time_change_nothing(cluster, client, kills):
    X, y, w = data(12 * BLOCK * 16 + 5)
    rows = features(open_stream((X, y, w)), fourier(X, 200))
    whole, chance = bits(accumulate(rows, both())), random.Random(0)
    scale(cluster, client, 2)
    killed, stop = [], threading.Event()

    def workers() -> list:
        return list(cluster.workers.values())

    def kill() -> None:
        # one of the two workers, as soon as both are there: the other one lives on
        while len(killed) < kills and not stop.wait(chance.random()):
            processes = [getattr(each.process, "process", None) for each in workers()]
            pids = [each.pid for each in processes if each is not None and each.pid]
            if len(client.nthreads()) == 2 and len(pids) == 2:
                killed.append(pids[chance.randrange(2)])
                os.kill(killed[-1], signal.SIGKILL)
                wait_until(lambda: len(client.nthreads()) < 2, "the loss of a worker")
            elif len(cluster.workers) < 2:
                cluster.scale(2)  # Dask gives up a worker that dies while it starts

    thread, sums = threading.Thread(target=kill), 0
    thread.start()
    try:
        while thread.is_alive():
            assert bits(accumulate(rows, both(), client=client)) == whole
            sums += 1
    finally:
        stop.set()
        thread.join()
    assert len(killed) == kills and sums >= 1
    scale(cluster, client, 2)


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
            accumulate(features(source, fourier(X, 8)), both(), client=client)
        assert "distributed" not in str(error.value)
    labels = np.where(np.arange(N) == 3000, None, y.astype(object))
    with pytest.raises(
        ValueError, match="The target needs a value in every row, got None at row 3000"
    ):
        accumulate(open_stream((data()[0], labels)), both(), client=client)


class Marking(ArrayStream):
    """A stream that logs shards; reading the row ``deadly`` kills the process."""

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
        accumulate(stream, Moments(), client=client)
    tried = (tmp_path / "log").read_text().split()
    assert tried.count("0") == 1


def test_rows_that_kill_every_worker_are_named(cluster, client, tmp_path):
    stream = Marking(data()[0])
    stream.log, stream.deadly = str(tmp_path / "log"), 2100
    with pytest.raises(
        RuntimeError,
        match=r"Every worker that summed rows 2048 to 3071 of the array has died, the last one "
        r"at tcp://",
    ):
        accumulate(stream, Moments(), client=client)
    # Twice among others, three times twice alone.
    assert (tmp_path / "log").read_text().split().count("2048") <= 8
    scale(cluster, client, 2)


@pytest.fixture
def other_cluster(tmp_path, preload):
    """Start a scheduler process; yield its address, the process, and a function adding workers."""
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
    wait_until(lambda: file.exists() and file.read_text().strip().endswith("}"), "a scheduler")
    address = json.loads(file.read_text())["address"]

    def work():
        named = [
            "--scheduler-file",
            str(file),
            "--nthreads",
            "2",
            "--no-nanny",
            "--no-dashboard",
            "--preload",
            preload,
        ]
        started.append(
            subprocess.Popen(
                [sys.executable, "-m", "dask", "worker", *named], cwd=tmp_path, **options
            )
        )
        with distributed.Client(address, timeout=LIMIT, set_as_default=False) as made:
            made.wait_for_workers(1, timeout=LIMIT)

    yield address, started[0], work
    for process in started:
        process.kill()
        process.wait()


def test_the_loss_of_the_scheduler_costs_no_shard_that_was_merged(client, other_cluster, tmp_path):
    address, scheduler, work = other_cluster
    X, y, _ = data()
    rows = features(open_stream(parquet(tmp_path / "rows", X, y), target="label"), fourier(X))
    with (
        override_limits(cluster_timeout=0.5),
        distributed.Client(address, timeout=LIMIT, set_as_default=False) as idle,
        pytest.raises(
            ValueError, match=rf"The cluster at {address} has no worker after 0.5 s: start one"
        ),
    ):
        accumulate(rows, both(), client=idle)
    work()

    def lose(done, of):
        if done == 2 * 16 * BLOCK:
            scheduler.kill()
            scheduler.wait()

    with pytest.raises(
        ConnectionError,
        match=rf"The connection to the scheduler at {address} is lost. \d+ rows were summed: a",
    ):
        accumulate(rows, both(), client=address, checkpoint=tmp_path / "sum", progress=lose)
    assert Checkpoint.read(tmp_path / "sum").rows >= 2 * 16 * BLOCK
    kept = (tmp_path / "sum").read_bytes()
    whole = bits(accumulate(rows, both()))
    assert bits(accumulate(rows, both(), checkpoint=tmp_path / "sum")) == whole
    (tmp_path / "sum").write_bytes(kept)
    assert bits(accumulate(rows, both(), checkpoint=tmp_path / "sum", client=client)) == whole


def test_a_fit_that_loses_its_scheduler_goes_on_from_its_checkpoint(other_cluster, tmp_path):
    address, scheduler, work = other_cluster
    X, y, _ = data()
    folder = parquet(tmp_path / "rows", X, y)
    work()

    def model(**more):
        return KernelClassifier(
            RandomFourier(32, random_state=0), alpha=1.0, random_state=0, **more
        )

    lost = model(cluster=address, checkpoint=tmp_path / "fit.ckpt", verbose=2)
    sums = []

    def lose(done, of):
        sums.append(done)
        if len(sums) == 3:  # shards: in the sum of the normal equations
            scheduler.kill()
            scheduler.wait()

    lost._print_progress = lose
    with pytest.raises(ConnectionError, match=r"The connection to the scheduler at .* is lost"):
        lost.fit(open_stream(folder, target="label"))
    assert Checkpoint.read_row_count(tmp_path / "fit.ckpt") >= 3 * 16 * BLOCK
    resumed = model(checkpoint=tmp_path / "fit.ckpt").fit(open_stream(folder, target="label"))
    whole = model().fit(open_stream(folder, target="label"))
    assert resumed.feature_coef_.tobytes() == whole.feature_coef_.tobytes()


@pytest.fixture
def short_timeout():
    with override_limits(cluster_timeout=0.5):
        yield


def test_a_cluster_that_does_not_answer_is_named(short_timeout):
    X, _, w = data(50)
    words = r"No scheduler answers at 'tcp://127.0.0.1:1' within 0.5 s: .* Is it running"
    with pytest.raises(ValueError, match=words):
        accumulate(X, Moments(), client="tcp://127.0.0.1:1")
    with pytest.raises(ValueError, match=words):
        KernelRegressor(cluster="tcp://127.0.0.1:1").fit(X, w)
    with pytest.raises(ValueError, match="No scheduler answers at 'nonsense'"):
        KernelRegressor(cluster="nonsense").fit(X, w)
    with pytest.raises(
        ValueError, match=r"A cluster is a distributed.Client or the address .*, got a int"
    ):
        KernelRegressor(cluster=8786).fit(X, w)
    assert clone(KernelRegressor(cluster="tcp://host:8786")).cluster == "tcp://host:8786"


def test_a_closed_client_is_refused(cluster):
    other = distributed.Client(cluster, set_as_default=False)
    other.close()
    with pytest.raises(
        ValueError, match="connected and not asynchronous is needed, got one that is closed"
    ):
        accumulate(data(50)[0], Moments(), client=other)


def test_a_worker_that_sees_other_files_or_rounds_otherwise_says_so(client, tmp_path):
    path = tmp_path / "rows.npy"
    np.save(path, data(100)[0])

    def job(**more):
        made = ShardJob(Rows(open_stream(path)), Moments(), include_arrays=False)
        made.environment.update(more)
        return made

    def run(one):
        return client.submit(sum_shard, one, 0, 100, {}, pure=False).result()

    assert run(job())[1] == 100
    with pytest.raises(
        ValueError,
        match=r"The worker at tcp://.* has instruction set .*, and the client abacus",
    ):
        run(job(isa="abacus"))
    with pytest.raises(
        ValueError, match=r"The worker at tcp://.* has mercer .*, and the client 0.0: install"
    ):
        run(job(mercer="0.0"))
    touched, grown, gone = job(), job(), job()
    os.utime(path, ns=(0, 0))
    with pytest.raises(
        ValueError,
        match=r"tcp://.* has another rows.npy than the client: its modification time",
    ):
        run(touched)
    with path.open("ab") as file:
        file.write(b"more")
    with pytest.raises(ValueError, match=r"has another rows.npy than the client: its size differs"):
        run(grown)
    path.unlink()
    with pytest.raises(
        ValueError, match=r"The worker at tcp://.* cannot read .*rows.npy: No such file"
    ):
        run(gone)


def test_what_a_cluster_cannot_do_is_refused_in_words(client, tmp_path):
    X, _, w = data(100)
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n3,4\n")
    with pytest.raises(
        ValueError, match=r"rows.csv cannot be read from the middle, .* convert it to Parquet first"
    ):
        accumulate(open_stream(tmp_path / "rows.csv"), Moments(), client=client)
    with pytest.raises(ValueError, match="client= needs rows that can be read again"):
        accumulate([Dense(X)], Moments(), client=client)
    for model in (
        KernelRegressor(alpha="loo", cluster=client),
        KernelRegressor(max_memory=1000, cluster=client),
        KernelClassifier(loss="logistic", cluster=client),
    ):
        with pytest.raises(
            ValueError,
            match=r"a cluster computes normal equations, and this fit takes.*Use loss='squared'",
        ):
            model.fit(X, (w > 0.5).astype(int))


def test_warnings_come_home_once(client):
    X = data()[0]
    rows = features(open_stream(3 * X), Anchors(4).fit(X))
    with pytest.warns(UserWarning, match="outside the range of the anchors") as said:
        accumulate(rows, Moments(), client=client)
    assert len(said) == 1
