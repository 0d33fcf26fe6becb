"""The papers and their data sets: reading, splitting, and every cell on small data."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from experiments.page import page
from experiments.running import Bench, Results, cells, run, to_do
from experiments.sets import DataSet, Sets, histograms
from tests.helpers.experiment_data import ROWS, SHAPES, TRAIN, write_sets

from experiments import ORDER, papers

# Data sets


@pytest.fixture(scope="module")
def folder_of_sets(tmp_path_factory):
    return write_sets(tmp_path_factory.mktemp("sets"))


def test_official_training_rows_are_the_first_ones(folder_of_sets):
    found = Sets(folder_of_sets)["letter"]
    split = found.split()
    np.testing.assert_array_equal(split.X, found.X[:TRAIN])
    np.testing.assert_array_equal(split.y_test, found.y[TRAIN:])


def test_a_set_without_a_split_is_halved_by_the_seed(folder_of_sets):
    found = Sets(folder_of_sets)["magic"]
    first, again, other = found.split(seed=1), found.split(seed=1), found.split(seed=2)
    assert (len(first.y), len(first.y_test)) == (ROWS // 2, ROWS // 2)
    np.testing.assert_array_equal(first.X, again.X)
    assert not np.array_equal(first.X, other.X)
    both = np.concatenate([first.X, first.X_test])
    np.testing.assert_array_equal(np.sort(both, axis=0), np.sort(found.X, axis=0))


@pytest.mark.parametrize("name", ["letter", "magic", "reuters_r8"])
def test_fewer_rows_are_drawn_from_their_own_side(folder_of_sets, name):
    found = Sets(folder_of_sets)[name]
    places = DataSet(name, np.arange(ROWS)[:, None], found.y, found.n_train)
    split = places.split(30, 20, seed=3)
    train, test = split.X[:, 0], split.X_test[:, 0]
    assert (len(train), len(test)) == (30, 20)
    assert not set(train) & set(test)
    assert np.all(np.diff(train) > 0)
    if found.n_train:
        assert train.max() < TRAIN <= test.min()
    np.testing.assert_array_equal(found.split(30, 20, seed=3).y, found.y[train])


@pytest.mark.parametrize(
    ("train", "test", "sizes"), [(200, 40, (200, 40)), (200, 100, (140, 100)), (20, 200, (20, 200))]
)
def test_more_than_half_may_be_asked_for_where_there_is_no_split(train, test, sizes):
    split = DataSet("any", np.arange(240)[:, None], np.zeros(240), 0).split(train, test)
    assert (len(split.X), len(split.X_test)) == sizes
    assert not set(split.X[:, 0]) & set(split.X_test[:, 0])


def test_sparse_sets_stay_sparse_also_as_histograms(folder_of_sets):
    split = histograms(Sets(folder_of_sets)["newsgroups20"].split())
    assert sp.issparse(split.X) and split.X.dtype == np.float32
    sums = np.asarray(split.X.sum(axis=1)).ravel()
    np.testing.assert_allclose(sums[sums > 0], 1, rtol=1e-6)


def test_rows_of_zeros_stay_zero_as_histograms():
    split = histograms(DataSet("any", np.array([[0, 0], [1, 3]]), np.arange(2), 1).split())
    np.testing.assert_array_equal(split.X, [[0, 0]])
    np.testing.assert_array_equal(split.X_test, np.float32([[0.25, 0.75]]))


def test_a_set_that_is_not_there_says_so(tmp_path):
    assert Sets(tmp_path).why_absent("mnist") == f"mnist.npz is not in {tmp_path.name}/"
    assert "no folder" in Sets().why_absent("mnist")
    with pytest.raises(KeyError, match=r"mnist\.npz is not in"):
        Sets(tmp_path)["mnist"]


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"X": np.ones((3, 2)), "n_train": 1}, "bad.npz has no 'y'"),
        ({"y": np.ones(3), "n_train": 1}, "bad.npz has no 'X'"),
        ({"X": np.ones((3, 2)), "y": np.ones(4), "n_train": 1}, "3 rows, and 4 labels"),
    ],
)
def test_a_file_of_another_layout_is_refused(tmp_path, parts, said):
    np.savez(tmp_path / "bad.npz", **parts)
    with pytest.raises(ValueError, match=said):
        Sets(tmp_path)["bad"]


def openml(monkeypatch, answer):
    monkeypatch.setattr("sklearn.datasets.fetch_openml", answer)
    return Sets(download=True)


def test_a_damaged_file_is_named(tmp_path):
    (tmp_path / "mnist.npz").write_bytes(b"PK\x03\x04 half of a file")
    with pytest.raises(ValueError, match=r"mnist\.npz cannot be read .*: bring it anew"):
        Sets(tmp_path)["mnist"]


def test_a_download_must_have_the_shape_of_the_set(monkeypatch):
    def answer(name, version, **how):
        rows = 4601 if name == "spambase" else 7
        return SimpleNamespace(data=np.ones((rows, 57)), target=np.array(["1", "0"] * rows)[:rows])

    sets = openml(monkeypatch, answer)
    assert (sets["spambase"].X.shape, set(sets["spambase"].y)) == ((4601, 57), {0, 1})
    assert (
        sets.why_absent("skinseg")
        == "skinseg: OpenML's skin-segmentation is 7 x 57, not 245,057 x 3"
    )
    assert "does not have it in this form" in sets.why_absent("caltech101_bow")


def test_a_download_that_fails_leaves_the_set_absent(monkeypatch):
    def answer(*args, **how):
        raise OSError("no network")

    assert "no network" in openml(monkeypatch, answer).why_absent("mnist")


# The papers


def test_papers_come_in_the_order_of_the_project():
    assert list(papers()) == [name for name in ORDER if name in papers()]
    assert "chi2" in papers()


@pytest.mark.parametrize("paper", papers().values(), ids=papers().keys())
def test_keys_and_rows_are_not_there_twice(paper):
    keys = [one.key for one in paper.experiments]
    assert len(set(keys)) == len(keys)
    assert all(key.startswith(f"{paper.name}/") for key in keys)
    for one in paper.experiments:
        places = [(cell.label, column) for cell in one.cells for column in cell.columns]
        assert len(set(places)) == len(places)
        if one.picture is not None and one.picture.kind == "lines" and one.picture.x == "column":
            assert all(any(letter.isdigit() for letter in column) for column in one.columns)


@pytest.mark.parametrize("paper", papers().values(), ids=papers().keys())
def test_cells_say_what_they_need_and_publish_what_they_have(paper):
    for task in cells([paper]):
        assert set(task.cell.published) <= set(task.cell.columns), task.key
        assert set(task.cell.needs) <= set(SHAPES), task.key
        assert (task.cell.run is None) == bool(task.cell.absent), task.key
        assert not (task.cell.ours and task.cell.published), task.key


@pytest.mark.parametrize(
    "paper",
    [
        pytest.param(one, marks=[] if name == "compressive" else [pytest.mark.full])
        for name, one in papers().items()
    ],
    ids=papers().keys(),
)
def test_every_cell_runs_on_stand_ins_for_the_data(paper, folder_of_sets):
    bench, results = Bench("quick", Sets(folder_of_sets)), Results()
    tasks = to_do([paper], "quick", bench.sets, results)
    assert len(tasks) == sum(task.cell.run is not None for task in cells([paper]))
    failed = run(tasks, bench, results)
    assert not failed
    assert page([paper], "quick", results)["papers.md"]
