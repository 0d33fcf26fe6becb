"""Predictions of one row and of a few: time beyond the arithmetic, and beside other libraries.

784 columns, one output, float32, one thread, CPU time. Every map of the registry is there, those of
random features with 1024 of them. The arithmetic is the fitted transform and the product with the
coefficients, called directly. onnxruntime, where it is installed, runs scikit-learn's pipeline.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import Ridge
from sklearn.pipeline import Pipeline, make_pipeline

from benchmarks.measure import Row, against
from mercer import KernelRegressor, RandomFourier
from mercer.maps import registry
from mercer.maps._transform import cast_transform
from mercer.maps.base import Map

COLUMNS, FEATURES = 784, 1024
BATCHES = (1, 10, 100, 1000)
WANTED = 0.3  # ms of predict beyond the arithmetic, at most
# Sizes of maps whose default, or FEATURES, would be another regime.
SIZES = {"gcws": 64, "sign-cauchy": 256, "nystroem": 256, "pca": 64}


def rows(rounds: int) -> Iterator[Row]:
    """Yield two rows for each map, then rows a second of batches."""
    rng = np.random.default_rng(0)
    X = rng.gamma(0.7, size=(2000, COLUMNS)).astype(np.float32)
    y = X[:, :5].sum(axis=1)
    shared: dict[str, Any] = {"threads": 1, "least_seconds": 0.02, "clock": time.process_time}
    for feature_map in every_map():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = KernelRegressor(feature_map, alpha=1.0, n_jobs=1).fit(X, y)
        for name, predict in predictors(model):
            work = partial(predict, X[:1])
            direct = partial(arithmetic(model), X[:1])
            row = against("", work, "the arithmetic alone", direct, rounds, **shared)
            assert row.rival_milliseconds is not None
            beyond = f"{row.milliseconds - row.rival_milliseconds:.3f} ms beyond"
            beyond += f", at most {WANTED} wanted" if name == "predict" else ""
            yield replace(row, what=f"one row, {name}, {feature_map!r}: {beyond}")
    fourier = RandomFourier(FEATURES, random_state=0)
    model = KernelRegressor(fourier, alpha=1.0, n_jobs=1).fit(X, y)
    pipeline = make_pipeline(RBFSampler(n_components=FEATURES, random_state=0), Ridge()).fit(X, y)
    rivals = [("sklearn RBFSampler + Ridge", pipeline.predict), *onnx_predictors(pipeline)]
    for size in BATCHES:
        for name, predict in predictors(model):
            for rival, theirs in rivals:
                both = partial(predict, X[:size]), rival, partial(theirs, X[:size])
                row = against("", *both, rounds, **shared)
                assert row.rival_milliseconds is not None
                rates = [
                    f"{1e3 * size / ms:,.0f}" for ms in (row.milliseconds, row.rival_milliseconds)
                ]
                what = f"{size} rows, {name}, {fourier!r}: {' and '.join(rates)} rows a second"
                yield replace(row, what=what)


def every_map() -> Iterator[Map]:
    """Yield every map of the registry, and the Fourier features without a Hadamard transform."""
    for name, cls in registry().items():
        own = cls().get_params()
        size = {"n_components": FEATURES, "n_hashes": FEATURES}
        options = {key: SIZES.get(name, value) for key, value in size.items() if key in own}
        if name not in SIZES and not cls.size_follows_rows:
            options = {}
        yield cls(**options, **({"random_state": 0} if "random_state" in own else {}))
        if cls is RandomFourier:
            yield cls(**options, design="iid", random_state=0)


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
