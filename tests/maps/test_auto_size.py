"""n_components="auto": the rule, the source of the number of rows, and all that reads the size."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from tests.helpers.selection_data import plane, select

import mercer
from mercer import (
    CompressiveFourier,
    ExpChi2,
    Hellinger,
    KernelRegressor,
    RandomFourier,
    RandomLaplace,
    RandomProjection,
    SignCauchy,
    SkewedFourier,
    certify,
    open_stream,
    plan,
)
from mercer.data.batches import Tiles
from mercer.maps import every_map
from mercer.maps._size import auto_size
from mercer.report.data import SampleSplit, measure_curve
from mercer.stats.basic import RowCount
from mercer.stats.reduce import accumulate

AUTO = (CompressiveFourier, ExpChi2, RandomFourier, RandomLaplace, SignCauchy, SkewedFourier)
GOLDEN = Path(__file__).parents[1] / "persistence" / "golden"


def rows(n: int, d: int = 4) -> np.ndarray:
    return np.random.default_rng(0).random((n, d))


@pytest.fixture
def csv(tmp_path) -> Path:
    """Forty rows of a file that does not say how many it has."""
    X = rows(40)
    path = tmp_path / "rows.csv"
    lines = ["a,b,c,d,y", *(",".join(map(repr, [*row, row[0]])) for row in X.tolist())]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("n", "size"),
    [
        (1, 64),
        (16, 64),
        (17, 128),
        (30, 128),
        (100, 512),
        (128, 512),
        (129, 1024),
        (300, 1024),
        (262_144, 1024),
        (10**6, 2048),
        (10**7, 8192),
        (10**9, 8192),
    ],
)
def test_the_size_is_a_power_of_two_by_the_number_of_rows(n, size):
    assert auto_size(n) == size


def test_it_is_the_default_of_every_map_whose_size_had_no_reason_of_its_own():
    defaults = {
        cls: inspect.signature(cls).parameters[cls.size_parameter].default
        for cls in every_map()
        if isinstance(cls.size_parameter, str)
    }
    assert {cls for cls in defaults if cls.size_follows_rows} == set(AUTO)
    assert all(defaults[cls] == "auto" for cls in AUTO)
    assert 1024 not in defaults.values()


@pytest.mark.parametrize("cls", AUTO)
@pytest.mark.parametrize(("n", "size"), [(30, 128), (300, 1024)])
def test_auto_is_the_map_of_that_size(cls, n, size):
    X = rows(n)
    phi = cls(random_state=0).fit(X)
    assert phi.n_components_ == size
    assert phi._n_features_out == size * (2 if cls is SignCauchy else 1)
    given = cls(size, random_state=0).fit(X)
    assert given.n_components_ == size
    assert abs(phi.transform(X) - given.transform(X)).max() == 0
    assert clone(phi).n_components == "auto"
    assert phi.fit(X[:10]).n_components_ == 64


def test_a_projection_keeps_its_own_meaning_of_auto():
    assert RandomProjection(random_state=0).fit(rows(30, 60)).n_components_ == 50


def test_weights_do_not_count_as_rows():
    X = rows(30)
    weights = np.full(30, 100.0)
    weights[0] = 0.0
    assert KernelRegressor(scale=False).fit(X, X[:, 0], weights).feature_map_.n_components_ == 128
    count = accumulate(open_stream(X).with_targets(X[:, 0], weights), RowCount())
    assert count.rows == 30


def test_row_counts_merge():
    X = rows(30)
    parts = [accumulate(open_stream(part), RowCount()) for part in (X[:7], X[7:])]
    assert (parts[0] + parts[1]).rows == 30
    assert parts[0].rows == 7


@pytest.mark.parametrize(
    ("feature_map", "passes"),
    [
        (RandomFourier(), ("bandwidth statistics",)),  # which counts the rows as well
        (RandomFourier(gamma=1.0), ("row count",)),
        (RandomFourier(32, gamma=1.0), ()),
        (RandomFourier(gamma=1.0) >> RandomFourier(gamma=1.0), ("row count",)),
        (Hellinger() + RandomFourier(gamma=1.0) + SkewedFourier(skew=1.0), ("row count",)),
    ],
    ids=["statistics", "gamma given", "size given", "composed", "stacked"],
)
def test_rows_of_unknown_number_are_counted_once(csv, feature_map, passes):
    stream = open_stream(csv, target="y")
    assert stream.rows is None
    model = KernelRegressor(feature_map, scale=False, alpha=1.0, random_state=0).fit(stream)
    assert model.plan_.passes == (*passes, "normal equations")
    X = rows(40)
    known = KernelRegressor(feature_map, scale=False, alpha=1.0, random_state=0).fit(X, X[:, 0])
    expected = tuple(name for name in passes if name != "row count")
    assert known.plan_.passes == (*expected, "normal equations")
    np.testing.assert_allclose(model.feature_coef_, known.feature_coef_, rtol=0, atol=1e-9)


def test_a_stream_has_the_size_of_an_array_with_its_rows(csv):
    phi = RandomFourier(gamma=1.0, random_state=0)._fit_stream(open_stream(csv, target="y"))
    X = pd.DataFrame(rows(40), columns=list("abcd"))
    assert phi.n_components_ == 256
    np.testing.assert_array_equal(
        phi.transform(X), RandomFourier(gamma=1.0, random_state=0).fit(X).transform(X)
    )


def test_large_numbers_are_refused_for_statistics_and_not_for_a_count(tmp_path):
    path = tmp_path / "large.csv"
    path.write_text("a,b\n1,1e120\n2,1e120\n")
    X = np.array([[1.0, 1e120], [2.0, 1e120]])
    SignCauchy(random_state=0).fit(X)
    counted = SignCauchy(random_state=0)._fit_stream(open_stream(path))
    assert counted.n_components_ == 64
    with pytest.raises(ValueError, match=r"needs float64 rows with \|x\| below"):
        RandomFourier()._fit_stream(open_stream(path))


def test_partial_fit_has_the_size_of_its_first_rows():
    X = rows(300)
    model = KernelRegressor(scale=False, random_state=0)
    for part in (X[:30], X[30:]):
        model.partial_fit(part, part[:, 0])
        assert model.feature_map_.n_components_ == 128


def test_weights_are_drawn_again_at_the_size_in_use(monkeypatch):
    pytest.importorskip("dask")  # statistics are kept for its workers
    monkeypatch.setattr("mercer.maps.base.is_cheaper_to_redraw", lambda *bytes_: True)
    X = rows(30)
    for cls in AUTO:
        phi = cls(random_state=0).fit(X)
        packed = phi._pack()
        assert not hasattr(packed, "tile_transform_")
        assert abs(packed._unpack().transform(X) - phi.transform(X)).max() == 0


def test_a_composition_on_a_worker_counts_as_here(csv):
    """Tiles of a stream, which a cluster sums, have the rows of the file."""
    assert accumulate(Tiles(open_stream(csv, target="y"), RandomFourier()), RowCount()).rows == 40


@pytest.mark.parametrize("cls", AUTO)
def test_a_model_file_has_the_size_in_use(cls, tmp_path):
    X = rows(30)
    phi = cls(random_state=0).fit(X)
    mercer.save(phi, tmp_path / "phi.mercer")
    loaded = mercer.load(tmp_path / "phi.mercer")
    assert (loaded.n_components, loaded.n_components_) == ("auto", 128)
    phi.n_components_ = 0
    mercer.save(phi, tmp_path / "wrong.mercer")
    with pytest.raises(ValueError, match="n_components_ must be an integer of at least 1, got 0"):
        mercer.load(tmp_path / "wrong.mercer")


@pytest.mark.parametrize(
    "name", ["compressive", "exp-chi2", "fourier", "laplace", "sign-cauchy", "skewed"]
)
def test_older_files_have_the_size_that_was_given(name):
    phi = mercer.load(GOLDEN / f"{name}.mercer")
    assert phi.n_components_ == phi.n_components == 8


def test_for_rows_replaces_auto_and_nothing_else():
    auto, given = RandomFourier(gamma=1.0), RandomFourier(32)
    assert auto.for_rows(10**6).n_components == 2048
    assert given.for_rows(10**6) is given
    for composition in (auto >> given >> auto, auto + given + auto):
        sizes = [part.n_components for part in composition.for_rows(30).maps]
        assert sizes == [128, 32, 128]
        assert composition.maps[0].n_components == "auto"
    assert (given >> given).for_rows(30).maps[0].n_components == 32


def test_a_plan_has_the_size_for_its_rows():
    estimate = plan((10**6, 5), "fourier")
    assert (estimate.features, estimate.size) == (2048, 2048)
    assert "n_components  2,048: auto, for 1,000,000 rows" in str(estimate)
    fitted = RandomFourier(random_state=0).fit(rows(30))
    assert plan((10**6, 4), fitted).size == 2048
    assert plan((30, 5), [RandomFourier(), "hellinger"]).features == 128 + 5


def test_a_certificate_has_the_size_in_use():
    X = rows(60)
    phi = RandomFourier(random_state=0).fit(X[:30])
    found = certify(phi, X[30:], pairs=500, error=0.01)
    given = certify(RandomFourier(128, random_state=0).fit(X[:30]), X[30:], pairs=500, error=0.01)
    assert (found.size, found.needed, found.rate) == (128, given.needed, given.rate)
    both = (Hellinger() >> phi).fit(X[:30])
    assert certify(both, X[30:], pairs=500).size == 128


def test_select_and_the_report_take_a_map_of_size_auto():
    X, y = plane(200)
    board = select(X, y, kernels=["linear", RandomFourier(random_state=0)], random_state=0)
    names = [entry.name for entry in board.entries]
    assert any(name.startswith("RandomFourier") for name in names)
    curve = measure_curve("auto", KernelRegressor(RandomFourier()), SampleSplit.of(X, y), 0)
    assert curve is not None
    assert curve.size == auto_size(len(SampleSplit.of(X, y).train))
