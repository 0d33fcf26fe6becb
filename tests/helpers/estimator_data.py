"""Rows, targets and small models for tests of the estimators."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mercer import (
    KernelClassifier,
    KernelRegressor,
    RandomFourier,
)
from mercer.linear_model.base import KernelModel

N, D = 240, 4
NAMES = [f"c{i}" for i in range(D)]
SMALL = "1kB"  # less than the moments of any map here: passes over blocks
rng = np.random.default_rng(0)
X = rng.random((N, D))
X[rng.random((N, D)) < 0.2] = 0
X[0] = 1  # svmlight finds its width
t = np.sin(5 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=N)
y = np.digitize(t, np.quantile(t, [0.3, 0.6]))
w = rng.integers(0, 4, size=N)


def fourier(**more) -> RandomFourier:
    return RandomFourier(48, gamma=2.0, random_state=0, **more)


def regressor(alpha=0.3, feature_map=None, **more) -> KernelRegressor:
    return KernelRegressor(fourier() if feature_map is None else feature_map, alpha=alpha, **more)


def classifier(alpha=0.3, feature_map=None, **more) -> KernelClassifier:
    return KernelClassifier(fourier() if feature_map is None else feature_map, alpha=alpha, **more)


def same(model, other, tol=1e-8) -> None:
    expected = np.squeeze(other.feature_coef_ if isinstance(other, KernelModel) else other.coef_)
    scale = np.abs(expected).max()
    assert np.shape(model.feature_coef_) == expected.shape
    assert np.allclose(model.feature_coef_, expected, rtol=0, atol=tol * scale)
    assert np.allclose(model.intercept_, other.intercept_, rtol=0, atol=tol * scale)


def table(rows=X, targets=t) -> pa.Table:
    return pa.table({**dict(zip(NAMES, rows.T, strict=True)), "y": targets})


def folder_of(path, rows=X, targets=t, size=50):
    path.mkdir()
    for i, start in enumerate(range(0, len(rows), size)):
        part = table(rows[start : start + size], targets[start : start + size])
        pq.write_table(part, path / f"part-{i:03}.parquet")
    return path
