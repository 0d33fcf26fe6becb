"""Predictions of one row and of a few: seconds beyond the arithmetic, and beside other libraries.

784 -> 1024 features, one output, float32. The arithmetic is the fitted transform and the product
with the coefficients, called directly. onnxruntime, where it is installed, runs scikit-learn's
pipeline.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import Ridge
from sklearn.pipeline import Pipeline, make_pipeline

from benchmarks.measure import Row, against
from mercer import (
    GCWS,
    Anchors,
    Chi2Series,
    CompressiveFourier,
    ExpChi2,
    Hellinger,
    Homogeneous,
    KernelRegressor,
    Nystroem,
    RandomFourier,
    RandomLaplace,
    SignCauchy,
    SkewedFourier,
)
from mercer.maps._transform import cast_transform

COLUMNS, FEATURES = 784, 1024
BATCHES = (1, 10, 100, 1000)
MAPS = (
    RandomFourier(FEATURES, random_state=0),
    RandomFourier(FEATURES, design="iid", random_state=0),
    RandomLaplace(FEATURES, random_state=0),
    SkewedFourier(FEATURES, random_state=0),
    ExpChi2(FEATURES, random_state=0),
    CompressiveFourier(random_state=0),
    Nystroem(256, random_state=0),
    GCWS(64, random_state=0),
    SignCauchy(256, random_state=0),
    Anchors(),
    Chi2Series(5),
    Homogeneous(2),
    Hellinger(),
)


def rows(rounds: int) -> Iterator[Row]:
    """Yield one row for each map, then rows a second of batches."""
    rng = np.random.default_rng(0)
    X = rng.gamma(0.7, size=(2000, COLUMNS)).astype(np.float32)
    y = X[:, :5].sum(axis=1)
    shared: dict[str, Any] = {"threads": 1, "least_seconds": 0.02}
    for feature_map in MAPS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = KernelRegressor(feature_map, alpha=1.0, n_jobs=1).fit(X, y)
        for name, predict in predictors(model):
            work = partial(predict, X[:1])
            direct = partial(arithmetic(model), X[:1])
            what = f"one row, {name}, {feature_map!r}"
            yield against(what, work, "the arithmetic alone", direct, rounds, **shared)
    model = KernelRegressor(MAPS[0], alpha=1.0, n_jobs=1).fit(X, y)
    pipeline = make_pipeline(RBFSampler(n_components=FEATURES, random_state=0), Ridge()).fit(X, y)
    rivals = [("sklearn RBFSampler + Ridge", pipeline.predict), *onnx_predictors(pipeline)]
    for size in BATCHES:
        for name, predict in predictors(model):
            for rival, theirs in rivals:
                what = f"{size} rows, {name}, {MAPS[0]!r}"
                yield against(
                    what,
                    partial(predict, X[:size]),
                    rival,
                    partial(theirs, X[:size]),
                    rounds,
                    **shared,
                )


def predictors(model: KernelRegressor) -> list[tuple[str, Callable[[Any], Any]]]:
    """Return predict of the model and of its compiled form."""
    return [("predict", model.predict), ("compiled", model.compiled("float32").predict)]


def arithmetic(model: KernelRegressor) -> Callable[[Any], Any]:
    """Return the transform and the product, without validation."""
    transform = cast_transform(model.feature_map_.tile_transform_, np.dtype(np.float32))
    coef = model._fitted_predictor().coef.astype(np.float32)
    return lambda X: transform(X) @ coef


def onnx_predictors(pipeline: Pipeline) -> list[tuple[str, Callable[[Any], Any]]]:
    """Return scikit-learn's pipeline in onnxruntime, one thread; nothing where it is missing."""
    try:
        import onnxruntime
        from onnx import TensorProto, helper, numpy_helper
    except ImportError:
        return []
    sampler, ridge = (step for _, step in pipeline.steps)
    scale = np.sqrt(2 / FEATURES)
    arrays = {
        "W": sampler.random_weights_,
        "b": sampler.random_offset_,
        "c": scale * ridge.coef_[:, None],
        "d": np.atleast_1d(ridge.intercept_),
    }
    nodes = [
        helper.make_node("Gemm", ["X", "W", "b"], ["T"]),
        helper.make_node("Cos", ["T"], ["Z"]),
        helper.make_node("Gemm", ["Z", "c", "d"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "pipeline",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, [None, COLUMNS])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, 1])],
        [numpy_helper.from_array(a.astype(np.float32), name) for name, a in arrays.items()],
    )
    onnx_model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    onnx_model.ir_version = 8
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(onnx_model.SerializeToString(), options)
    return [("onnxruntime, the same", lambda X: session.run(None, {"X": X}))]
