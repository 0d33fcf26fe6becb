"""Dask arrays: streams where there is no cluster, work for the current one where there is, and lazy
on the way out.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from tests.helpers.cluster_data import N, data, fourier
from tests.helpers.reduction_data import bits, both

from mercer import GCWS, Anchors, KernelClassifier, RandomFourier, accumulate, open_stream
from mercer.data.batches import features

distributed = pytest.importorskip(
    "distributed", reason="distributed is not installed: pip install 'mercer[dask]'"
)
da = pytest.importorskip("dask.array", reason="dask is not installed: pip install 'mercer[dask]'")

pytestmark = pytest.mark.usefixtures("small_blocks")


def test_values_outside_the_anchors_of_a_dask_array_are_said_once():
    X = data()[0]
    mapped = Anchors(4).fit(X)
    X[3001, 2] = 5
    lazy = mapped.transform(da.from_array(X, chunks=(1000, 4)))
    words = (
        r"1 value\(s\) outside the range .* the first 5 at row 1, column 2\. .* \(Rows from "
        r"3000 on, counted from there\.\)"
    )
    for _ in range(2):
        with pytest.warns(UserWarning, match=words):
            lazy.compute()
    X[2000:] = 5
    with pytest.warns(UserWarning, match="outside the range") as said:
        there = mapped.transform(da.from_array(X, chunks=(1000, 4))).compute()
    assert len(said) == 1
    with pytest.warns(UserWarning, match="outside the range"):
        np.testing.assert_array_equal(there, mapped.transform(X))


def test_dask_arrays_go_to_the_current_client(cluster):
    X, y, _ = data()
    model = KernelClassifier(RandomFourier(20, gamma=0.5, random_state=0), alpha=1.0)
    here = clone(model).fit(X, y)
    chunks = da.from_array(X, chunks=(777, 4))
    with distributed.Client(cluster) as current:
        there = clone(model).fit(chunks, da.from_array(y, chunks=777))
        assert any("sum_shard" in key for key in current.run_on_scheduler(_done))
        np.testing.assert_array_equal(there.predict(chunks).compute(), here.predict(X))
        assert there.score(chunks, da.from_array(y, chunks=777)) == here.score(X, y)
    np.testing.assert_array_equal(there.feature_coef_, here.feature_coef_)


def _done(dask_scheduler):
    return [str(key) for key in dask_scheduler.task_prefixes]


def test_without_a_cluster_dask_arrays_are_streams():
    X, y, w = data()
    chunks, labels = da.from_array(X, chunks=(777, 3)), da.from_array(y, chunks=500)
    stream = open_stream(chunks, target=labels, weight=w)
    assert (stream.width, stream.rows, stream.dtype, stream.target) == (
        4,
        N,
        np.dtype(np.float32),
        "given",
    )
    assert [len(chunk) for chunk in stream.chunks(700)] == [77, *[777] * 7, N - 8 * 777]
    mapped = fourier(X)
    assert bits(accumulate(features(stream, mapped), both())) == bits(
        accumulate(features(open_stream((X, y, w)), mapped), both())
    )
    for given, expected in (
        (y[::-1], y[::-1]),
        (labels, y),
        (labels[::-1], y[::-1]),
    ):  # what was given last counts
        other = stream.with_targets(given, None)
        assert next(other.chunks()).y.tolist() == expected[:777].tolist()
    stream = open_stream(chunks, target=labels, weight=w)
    assert stream.fingerprint() == open_stream(chunks, target=labels, weight=w).fingerprint()
    assert stream.fingerprint() != open_stream(2 * chunks, target=labels, weight=w).fingerprint()
    with pytest.raises(
        ValueError, match="the Dask array must be a 2-d array of real numbers, got 1-d"
    ):
        open_stream(labels)
    with pytest.raises(ValueError, match=r"unknown length: call compute_chunk_sizes\(\)"):
        open_stream(chunks[chunks[:, 0] > 0.5])
    with pytest.raises(
        ValueError, match=r"takes Dask arrays, got a Dask Delayed. Convert a Dask frame with"
    ):
        open_stream(chunks.to_delayed()[0, 0])
    with pytest.raises(
        ValueError,
        match=f"target needs one value for each of the {N} rows, got a Dask array of shape",
    ):
        open_stream(chunks, target=labels[:-1])


def untouchable(block):
    raise AssertionError("computed too early")


def test_predictions_on_a_dask_array_are_lazy_and_right():
    X, y, _ = data(1000)
    chunks = da.from_array(X, chunks=(300, 3))
    model = KernelClassifier(
        RandomFourier(20, gamma=0.5, random_state=0), loss="logistic", alpha=1.0
    ).fit(X, y)
    for method in ("predict", "predict_proba", "decision_function"):
        here = getattr(model, method)(X)
        lazy = getattr(model, method)(chunks)
        assert (lazy.shape, lazy.dtype, lazy.chunks[0]) == (
            here.shape,
            here.dtype,
            (300, 300, 300, 100),
        )
        there = lazy.compute()
        assert there.dtype == here.dtype
        close(there, here, X.dtype)
        some = getattr(model, method)(
            chunks[chunks[:, 0] > 0.5]
        )  # of a length that nobody knows yet
        close(some.compute(), here[X[:, 0] > 0.5], X.dtype)
    assert sum("_unpack" in str(key) for key in dict(lazy.__dask_graph__())) == 1
    model.predict(chunks.map_blocks(untouchable, dtype=np.float32))
    empty = da.concatenate([chunks[:0], chunks])
    np.testing.assert_array_equal(model.predict(empty).compute(), model.predict(X))
    out = np.empty(1000, dtype=y.dtype)
    np.testing.assert_array_equal(model.predict(chunks, out=out), model.predict(X))
    for unfitted in (model.predict, model.decision_function):
        with pytest.raises(NotFittedError):
            getattr(clone(model), unfitted.__name__)(chunks)
    with pytest.raises(
        ValueError, match=r"has the shape \(1000, 3\), but KernelClassifier is expecting 4 columns"
    ):
        model.predict(chunks[:, :3])
    X[777, 1] = np.nan
    with pytest.raises(ValueError, match="got nan at row 777, column 1"):
        model.predict(da.from_array(X, chunks=(300, 4))).compute()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "one", [RandomFourier(16, gamma="scale", random_state=0), GCWS(8, random_state=0)], ids=repr
)
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
    close(_dense(there), _dense(here), dtype)


def close(found, expected, dtype):
    """Other chunks are other products of matrices, whose last digits may differ; labels and codes
    may not.
    """
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected)
    else:
        atol = 64 * np.finfo(dtype).eps * np.abs(expected).max()
        np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


def _dense(Z):
    return Z.toarray() if sp.issparse(Z) else Z
