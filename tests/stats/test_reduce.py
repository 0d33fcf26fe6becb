"""accumulate: the same bits for all threads and chunks, and errors that name rows."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from tests.helpers.reduction_data import BLOCK, N, bits, both, data, fourier, parquet

from mercer import GCWS, Anchors, Chi2Series, Homogeneous, RandomFourier, accumulate, open_stream
from mercer.data.batches import Rows, features
from mercer.maps.block import Coded, Dense, Sparse
from mercer.parallel import threads
from mercer.parallel.tile_size import grid
from mercer.stats.base import CombinedStatistics
from mercer.stats.basic import Range, Spread
from mercer.stats.moments import Moments


def test_the_grid_depends_on_width_and_dtype_alone():
    assert grid(4096, 4).rows == 2048
    assert grid(4096, 8).rows == grid(30000, 4).rows == 1024
    assert grid(10**6, 4).rows * 4e6 <= 2**27  # very wide rows have smaller blocks
    assert grid(1, 4).rows == 8192
    assert grid(700, 8).rows % 512 == 0


def test_the_number_of_threads_changes_no_bit(small_grid):
    X, y, w = data(1500)
    source = features(open_stream((X, y, w)), fourier(X))
    one, *others = (bits(accumulate(source, both(), n_jobs=n_jobs)) for n_jobs in (1, 2, 3))
    assert all(other == one for other in others)


def test_a_fold_uses_as_many_threads_as_it_may(small_grid, monkeypatch):
    X = data(200)[0]
    helpers, submit = Counter(), threads._pool.submit
    monkeypatch.setattr(threads._pool, "submit", lambda run: helpers.update([run]) or submit(run))
    for n_jobs in (1, 2, 3):
        helpers.clear()
        accumulate(features(open_stream(X), fourier(X)), Moments(), n_jobs=n_jobs)
        assert 1 + max(helpers.values(), default=0) == n_jobs
    with threads.limit_threads(5), threads.limit_threads(None):
        assert threads.n_threads(None) == 5 and threads.n_threads(2) == 2
    assert threads.n_threads(None) == threads.max_threads()


def test_the_chunks_of_a_source_change_no_bit(small_grid, tmp_path):
    X, y, _ = data(1500)
    mapped = fourier(X, 40)
    whole = accumulate(features(open_stream((X, y)), mapped), both())
    for group in (7, 100, 10**6):
        stream = open_stream(parquet(tmp_path / str(group), X, y, group), target="label")
        moments, classes = accumulate(features(stream, mapped), both()).parts
        assert bits(moments) == bits(whole.parts[0])
        np.testing.assert_array_equal(classes.sums, whole.parts[1].sums)


def test_sums_are_those_of_all_features_at_once(small_grid):
    X, y, w = data()
    mapped = fourier(X, 600)
    moments, classes = accumulate(features(open_stream((X, y, w)), mapped), both()).parts
    Z = mapped.transform(X.astype(np.float64))
    centered = Z - np.average(Z, axis=0, weights=w)
    scatter = (centered * w[:, None]).T @ centered
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
        np.testing.assert_allclose(
            block.toarray(), np.asarray(_dense(mapped.transform(X))), rtol=0, atol=1e-6
        )
    (block,) = features(open_stream(sp.csr_array(X)), Homogeneous().fit(X)).blocks()
    assert isinstance(block, Sparse)


def _dense(Z):
    return Z.toarray() if hasattr(Z, "toarray") else Z


def test_values_outside_the_anchors_are_said_once(small_grid):
    X = data(500)[0]
    mapped = Anchors(4).fit(X)
    with pytest.warns(UserWarning, match="outside the range of the anchors") as said:
        accumulate(features(open_stream(3 * X), mapped), Range())
    assert len(said) == 1


def test_one_row_and_no_rows(tmp_path):
    X = data(1)[0]
    seen = accumulate(open_stream(X), Moments(), checkpoint=tmp_path / "one")
    np.testing.assert_array_equal(seen.mean, X[0])
    assert seen.rows == 1 and not seen.scatter.any()
    with pytest.raises(ValueError, match="has no rows"):
        accumulate(X[:0], Moments())
    (tmp_path / "none.csv").write_text("a,b\n")
    with pytest.raises(ValueError, match="no rows"):
        accumulate(open_stream(tmp_path / "none.csv"), Moments())
    assert accumulate([], Spread()).count == 0


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
            accumulate(source, Moments(target=False))


def test_a_row_outside_the_domain_is_named_by_file_row_and_column(small_grid, tmp_path):
    X, y, _ = data()
    mapped = Homogeneous().fit(X)
    X[N - 1, 0] = -1
    stream = open_stream(parquet(tmp_path / "rows", X, y), target="label")
    words = (
        r"Homogeneous needs X >= 0, got -1 at part-0003.parquet, row \d+ of the file, column "
        r"0 \('c0'\)"
    )
    for source in (features(stream, mapped), Rows(stream, Homogeneous())):
        with pytest.raises(ValueError, match=words):
            accumulate(source, Moments(target=False))


def test_a_map_that_does_not_fit_the_stream_says_so():
    X = data(20)[0]
    with pytest.raises(
        ValueError, match="the array has 3 input columns, and RandomFourier was fitted on 4"
    ):
        features(open_stream(X[:, :3]), fourier(X, 8))
    with pytest.raises(ValueError, match="This RandomFourier is not fitted yet"):
        features(open_stream(X), RandomFourier(8))
    import pandas as pd

    mapped = RandomFourier(8).fit(pd.DataFrame(X, columns=list("abcd")))
    with pytest.raises(
        ValueError,
        match="Column 2 of the pandas frame is 'x', and RandomFourier was fitted on 'c' there",
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
    whole = clone(one).fit(rows).tile_transform_.arrays()
    for name, array in clone(one)._fit_stream(open_stream(rows)).tile_transform_.arrays().items():
        np.testing.assert_allclose(array, whole[name], rtol=1e-12)


def test_a_map_fitted_on_a_stream_knows_its_columns_and_refuses_bad_rows(tmp_path):
    X, y, _ = data(50)
    folder = parquet(tmp_path / "rows", X, y)
    mapped = Anchors(4)._fit_stream(open_stream(folder, target="label"))
    assert mapped.feature_names_in_.tolist() == ["c0", "c1", "c2", "c3"]
    X[30, 1] = -2
    stream = open_stream(parquet(tmp_path / "bad", X, y), target="label")
    with pytest.raises(
        ValueError, match=r"got -2 at part-0002.parquet, row 5 of the file, column 1 \('c1'\)"
    ):
        Chi2Series(poles="fit")._fit_stream(stream)


def test_progress_counts_rows(small_grid, tmp_path):
    X = data(200)[0]
    seen = []
    accumulate(open_stream(X), Spread(), progress=lambda *rows: seen.append(rows))
    assert seen == [(64, 200), (128, 200), (192, 200), (200, 200)]


def test_a_summary_with_rows_takes_more():
    X = data(200)[0]
    for make in (Moments, Spread, lambda: CombinedStatistics(Moments(), Range())):
        twice = accumulate(X[50:], accumulate(X[:50], make()))
        one, other = (
            s.parts[0] if isinstance(s, CombinedStatistics) else s
            for s in (twice, accumulate(X, make()))
        )
        np.testing.assert_allclose(one.mean, other.mean, rtol=1e-6)
