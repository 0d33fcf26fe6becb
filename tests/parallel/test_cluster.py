"""Clusters of processes: the same bits for any number of workers, from every source."""

from __future__ import annotations

import ast
import os
import pickle
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import dump_svmlight_file
from tests.helpers.cluster_data import BLOCK, N, data, fourier, parquet, scale
from tests.helpers.reduction_data import bits, both

from mercer import (
    Anchors,
    Chi2Series,
    FeaturePCA,
    Hellinger,
    KernelClassifier,
    KernelRegressor,
    Metric,
    Nystroem,
    RandomFourier,
    RandomLaplace,
    accumulate,
    open_stream,
)
from mercer.data.batches import Rows, features
from mercer.parallel.dask_cluster import use_cluster
from mercer.parallel.dask_worker import ShardJob
from mercer.parallel.tile_size import override_limits
from mercer.stats.checkpoint import Checkpoint
from mercer.stats.moments import Moments

pytest.importorskip(
    "distributed", reason="distributed is not installed: pip install 'mercer[dask]'"
)
da = pytest.importorskip("dask.array", reason="dask is not installed: pip install 'mercer[dask]'")

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("small_blocks")]


def numbers(model):
    return [
        np.asarray(value).tobytes()
        for value in (model.feature_coef_, model.intercept_, model.alpha_, model.alpha_scores_)
    ]


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


def test_a_mixed_table_in_memory_gives_the_model_of_one_process(client):
    X, y, _ = data()
    table = pa.table(
        {"x": np.where(X[:, 0] > 0.9, np.nan, X[:, 0]), "c": X[:, 1].round().astype(str)}
    )

    def model(**more):
        one = RandomFourier(20, random_state=0)
        return KernelClassifier(one, alpha="kfold", random_state=0, **more).fit(table, y)

    assert numbers(model(cluster=client)) == numbers(model())
    numeric = table.select(["x"])
    one = KernelClassifier(RandomFourier(20), alpha="kfold", random_state=0)
    alone = numbers(one.fit(numeric, y))
    assert numbers(one.set_params(cluster=client).fit(numeric, y)) == alone
    assert one.plan_.encoded == "1 number"


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
        "Dask, a column": open_stream(
            da.from_array((10 * X).astype(int), chunks=(2000, 1)), target=-1
        ),
    }


def test_measures_of_uncertainty_are_those_of_one_process(client):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(3000, 3))
    y = np.sin(X).sum(axis=1) + 0.1 * rng.normal(size=3000)
    model = KernelRegressor(RandomFourier(64), alpha=1.0, uncertainty=True, random_state=0)
    alone = model.fit(X, y)
    here = [*alone.predict(X[:20], return_std=True), alone.predict_interval(X[:20])]
    there = clone(model).set_params(cluster=client).fit(X, y)
    found = [*there.predict(X[:20], return_std=True), there.predict_interval(X[:20])]
    for a, b in zip(here, found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_learned_metric_is_that_of_one_process(client):
    X = np.random.default_rng(0).normal(size=(400, 6))
    y = np.sin(2 * X[:, 2]) * X[:, 4]
    model = KernelRegressor(Metric() >> RandomFourier(64), alpha=0.1, random_state=0)
    here = clone(model).fit(X, y)
    there = clone(model).set_params(cluster=client).fit(X, y)
    assert (here.importances_ == there.importances_).all()
    assert here.feature_coef_.tobytes() == there.feature_coef_.tobytes()


def test_every_source_has_the_same_sums_there_as_here(client, tmp_path):
    X, y, w = data()
    mapped, fewer = fourier(X), fourier(X[:, :3])
    for name, source in sources(tmp_path, X, y, w).items():
        stream = source if hasattr(source, "chunks") else open_stream(source)
        rows = features(stream, mapped if stream.width == 4 else fewer)
        here = accumulate(rows, both()) if not stream.lazy else accumulate(_in_memory(rows), both())
        assert bits(accumulate(rows, both(), client=client)) == bits(here), name
        assert here.parts[0].rows == N


def _in_memory(rows):
    """Return the rows as arrays, which are summed in this process."""
    chunks = list(rows.stream.chunks())
    columns = zip(*((chunk.X, chunk.y, chunk.weight) for chunk in chunks), strict=True)
    X, y, w = (None if parts[0] is None else np.concatenate(parts) for parts in columns)
    return features(open_stream(X).with_targets(y, w), rows.feature_map)


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
        Hellinger()
        >> RandomFourier(16, random_state=0)
        >> RandomFourier(8, gamma="scale", random_state=1),
        Hellinger() + RandomFourier(16, gamma="scale", random_state=1),
    ],
    ids=repr,
)
def test_what_a_map_sees_on_a_cluster_is_what_it_sees_alone(one, client):
    X, y, w = data()
    here = clone(one)._fit_stream(open_stream((X, y, w)))
    with use_cluster(client):
        there = clone(one)._fit_stream(open_stream((X, y, w)))
    assert here.tile_transform_.arrays().keys() == there.tile_transform_.arrays().keys()
    for name, array in here.tile_transform_.arrays().items():
        assert array.tobytes() == there.tile_transform_.arrays()[name].tobytes()


class Counted(RandomFourier):
    """A map that appends a line to a file whenever it is drawn."""

    def __init__(self, n_components=64, *, gamma="scale", random_state=0, log=None):
        super().__init__(n_components, gamma=gamma, random_state=random_state)
        self.log = log

    def build(self, rng, d, statistics):
        with Path(self.log).open("a") as file:
            file.write(f"{os.getpid()}\n")
        return super().build(rng, d, statistics)


@pytest.fixture
def always_redraw():
    with override_limits(redraw_bytes=0):
        yield


def test_a_worker_draws_once_from_the_seed_and_what_was_seen(client, tmp_path, always_redraw):
    X = data(d=50)[0]
    one = Counted(1000, log=str(tmp_path / "log")).fit(X)
    rows = features(open_stream(X), one)
    drawn_bytes = sum(array.nbytes for array in one.tile_transform_.arrays().values())
    assert drawn_bytes > 50 * len(pickle.dumps(ShardJob(rows, Moments(), include_arrays=False)))
    (tmp_path / "log").unlink()
    there = accumulate(rows, Moments(), client=client)
    drawn = (tmp_path / "log").read_text().split()
    assert len(drawn) == len(set(drawn)) <= 2 and str(os.getpid()) not in drawn
    assert bits(there) == bits(accumulate(rows, Moments()))


def test_a_map_that_saw_much_is_sent_as_it_was_drawn(always_redraw):
    X = data(2000)[0]
    for one, redrawn in (
        (RandomFourier(512, gamma="scale", random_state=0), True),
        (RandomFourier(512, gamma="median", random_state=0), True),
        (Nystroem(20, gamma=1.0, random_state=0), False),
        (Hellinger() >> RandomFourier(512, gamma=1.0, random_state=0), True),
    ):
        packed = one.fit(X)._pack()
        last = packed.maps_[-1] if hasattr(packed, "maps_") else packed
        assert hasattr(last, "tile_transform_") != redrawn
        np.testing.assert_array_equal(packed._unpack().transform(X), one.transform(X))


def test_a_small_map_is_sent_as_it_was_drawn():
    packed = RandomFourier(512, gamma=1.0).fit(data(2000)[0])._pack()  # 16 kB
    assert hasattr(packed, "tile_transform_")


def test_a_worker_that_draws_other_digits_is_sent_the_arrays(client, always_redraw, monkeypatch):
    X = data()[0]
    rows = features(open_stream(X), fourier(X))
    here = bits(accumulate(rows, Moments()))
    made, make = [], ShardJob.__init__
    digest = {"sha256": "of another processor"}
    monkeypatch.setattr("mercer.data.batches.Features.fingerprint", lambda self: digest)
    monkeypatch.setattr(
        ShardJob,
        "__init__",
        lambda self, *args, include_arrays: (
            made.append(include_arrays),
            make(self, *args, include_arrays=include_arrays),
        )[1],
    )
    assert bits(accumulate(rows, Moments(), client=client)) == here
    assert made == [False, True]


class Whose:
    """The processes that summed the shards, in order."""

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
    pids = accumulate(
        open_stream(da.from_array(X, chunks=(900, 4)) if lazy else X), Whose(), client=client
    ).pids
    assert len(pids) == 8 and os.getpid() not in pids
    assert min(pids.count(pid) for pid in client.run(os.getpid).values()) >= 3


def test_rows_in_memory_are_cut_and_files_are_named(tmp_path):
    X, y, w = data()
    np.save(tmp_path / "rows.npy", X)
    for source in ((X, y, w), (sp.csr_array(X), y, w), (tmp_path / "rows.npy", y, w)):
        stream = open_stream(source)
        job = pickle.dumps(ShardJob(Rows(stream), Moments(), include_arrays=False))
        part = pickle.dumps(stream.values_in_memory(BLOCK, 2 * BLOCK))
        assert len(job) < 3000 and len(part) < 6000
        again = pickle.loads(job).rows.with_rows(pickle.loads(part), BLOCK)
        (batch,) = again.batches(BLOCK, 2 * BLOCK)
        (same,) = Rows(stream).batches(BLOCK, 2 * BLOCK)
        assert batch.start == BLOCK and batch.y.tolist() == y[BLOCK : 2 * BLOCK].tolist()
        np.testing.assert_array_equal(batch.block.toarray(), same.block.toarray())
        np.testing.assert_array_equal(batch.weight, w[BLOCK : 2 * BLOCK])


def test_several_targets_and_partial_fit_on_a_cluster(cluster):
    X, _, w = data()
    Y = np.column_stack([w, X[:, 0]])
    model = KernelRegressor(RandomFourier(20, gamma=0.5, random_state=0), alpha=1.0)
    there = clone(model).set_params(cluster=cluster.scheduler_address)
    chunks = da.from_array(X, chunks=(777, 4)), da.from_array(Y, chunks=(500, 1))
    np.testing.assert_array_equal(
        clone(there).fit(*chunks).feature_coef_, clone(model).fit(X, Y).feature_coef_
    )
    lazy = there.fit(*chunks).predict(chunks[0])
    assert lazy.shape == (N, 2) and lazy.dtype == np.float64
    one, other = (
        clone(each).partial_fit(X[:3000], w[:3000]).partial_fit(X[3000:], w[3000:])
        for each in (model, there)
    )
    np.testing.assert_array_equal(one.feature_coef_, other.feature_coef_)


@pytest.mark.parametrize(
    ("penalty", "memory", "route"),
    [("l2", None, "moments"), ("l2", "100kB", "two-stage"), ("group", "100kB", "two-stage")],
)
def test_components_of_several_maps_are_those_of_one_process(penalty, memory, route, cluster):
    X, y, _ = data()
    maps = [
        RandomFourier(40, gamma=2.0, random_state=0),
        Chi2Series(3),
        RandomFourier(32, gamma=9.0, random_state=1),
    ]
    one, many = (
        KernelClassifier(
            maps, alpha=0.1, pca=4, penalty=penalty, max_memory=memory, cluster=where
        ).fit(X, y, unlabeled=X[:700] / 2)
        for where in (None, cluster.scheduler_address)
    )
    assert many.plan_.route == route
    assert np.array_equal(one.feature_coef_, many.feature_coef_)


def test_the_three_statements_of_the_guide_run(cluster, tmp_path):
    X, y, _ = data(2000)
    parquet(tmp_path / "rows", X, y)
    guide = (Path(__file__).parents[2] / "docs" / "cluster.md").read_text()
    (code,) = re.findall(r"```py\n(.*?)```", guide, re.DOTALL)
    assert len(ast.parse(code).body) == 3  # an import, and two statements
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
    np.testing.assert_allclose(
        names["model"].feature_coef_, alone.feature_coef_, rtol=1e-6, atol=1e-9
    )
