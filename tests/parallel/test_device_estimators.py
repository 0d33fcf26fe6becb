"""Moments, estimators and model files on a device equal those of the CPU.

The device is torch's CPU, or a GPU with MERCER_TEST_DEVICE=cuda.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from tests.helpers.device_data import on_device, to_numpy, to_tensor
from tests.helpers.op_forms import every_dtype
from tests.helpers.torch_ops import DEVICE

import mercer

torch = pytest.importorskip("torch", reason="torch is not installed")


def test_moments_are_right_after_tiles_were_halved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from mercer.ops.torch import matmul

    rng = np.random.default_rng(5)
    X, y = rng.random((3000, 4)), rng.random(3000)
    model = mercer.KernelRegressor(mercer.RandomFourier(48, random_state=0), alpha=0.1)
    expected = clone(model).fit(X, y).feature_coef_
    add_gram = matmul.add_gram

    def limited(Z: Any, panels: Any) -> None:
        if len(Z) > 700:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        add_gram(Z, panels)

    monkeypatch.setattr(matmul, "add_gram", limited)
    with on_device(), pytest.warns(UserWarning, match="halved"):
        found = clone(model).fit(X, y).feature_coef_
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


MODELS = {
    "gcv": {},
    "fixed alpha": {"alpha": 0.5},
    "pseudo-inverse": {"alpha": 0.0},
    "kfold": {"alpha": "kfold"},
    "loo": {"alpha": "loo"},
    "pca": {"pca": 20},
    "lasso": {"penalty": "l1", "alpha": 1.0},
    "passes": {"max_memory": 20_000, "alpha": 1.0},
    "without an intercept": {"fit_intercept": False, "alpha": 0.5},
}


@pytest.mark.parametrize("name", MODELS)
@every_dtype
def test_models_of_a_device_are_those_of_the_cpu(name: str, dtype: Any) -> None:
    rng = np.random.default_rng(8)
    X = rng.normal(size=(700, 6)).astype(dtype)
    Y = np.stack([np.sin(X[:, 0] + X[:, 1]), X[:, 2] ** 2], axis=1)
    weight = rng.integers(1, 4, 700).astype(float)
    model = mercer.KernelRegressor(
        mercer.RandomFourier(60, gamma=0.1, random_state=0), **MODELS[name]
    )
    expected = clone(model).fit(X, Y, weight).predict(X)
    with on_device():
        fitted = clone(model).fit(X, Y, weight)
        found = fitted.predict(X)
    tolerance = 2e-3 if dtype == np.float32 else 1e-6 if name in ("passes", "lasso") else 1e-9
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())
    if name == "passes":
        assert fitted.plan_.route == "passes"
    beside = clone(model).fit(to_tensor(X), to_tensor(Y), to_tensor(weight))
    predicted = beside.predict(to_tensor(X))
    assert isinstance(predicted, torch.Tensor) and predicted.device.type == DEVICE
    np.testing.assert_allclose(
        to_numpy(predicted), expected, rtol=0, atol=tolerance * np.abs(expected).max()
    )
    assert abs(beside.score(to_tensor(X), to_tensor(Y)) - fitted.score(X, Y)) < 1e-3


@pytest.mark.parametrize("loss", ["squared", "logistic", "squared_hinge", "log_loss"])
def test_classifiers_of_a_device_are_those_of_the_cpu(loss: str) -> None:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    X, y = X[:600], y[:600]
    words = np.array(list("abcdefghij"))[y]
    model = mercer.KernelClassifier(mercer.RandomFourier(100, random_state=0), loss=loss, alpha=1.0)
    expected = clone(model).fit(X, words)
    fitted = clone(model).fit(to_tensor(X), words)
    np.testing.assert_allclose(
        fitted.feature_coef_,
        expected.feature_coef_,
        rtol=0,
        atol=1e-6 * np.abs(expected.feature_coef_).max(),
    )
    assert (fitted.predict(to_tensor(X)) == expected.predict(X)).all()
    scores = fitted.decision_function(to_tensor(X))
    assert isinstance(scores, torch.Tensor)
    np.testing.assert_allclose(to_numpy(scores), expected.decision_function(X), atol=1e-6)
    for each, rows in ((expected, X), (fitted, to_tensor(X))):
        each.set_params(uncertainty=True).fit(rows, words)
    P, sets = fitted.predict_proba(to_tensor(X)), fitted.predict_set(to_tensor(X), 0.95)
    np.testing.assert_allclose(to_numpy(P), expected.predict_proba(X), atol=1e-5)
    assert sets.dtype == torch.bool
    np.testing.assert_array_equal(to_numpy(sets), expected.predict_set(X, 0.95))
    numbers = clone(model).fit(to_tensor(X), to_tensor(y))
    assert numbers.predict(to_tensor(X)).dtype == torch.int64
    assert numbers.score(to_tensor(X), to_tensor(y)) == expected.score(X, words)


@pytest.mark.parametrize("loss", ["squared", "logistic", "squared_hinge", "log_loss"])
def test_the_device_chooses_the_alpha_of_the_cpu(loss: str) -> None:
    rng = np.random.default_rng(11)
    X = rng.normal(size=(900, 5))
    y = np.digitize(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=900), [-0.5, 0.5])
    model = mercer.KernelClassifier(
        mercer.RandomFourier(64, gamma=0.2, random_state=0),
        loss=loss,
        alpha="kfold" if loss == "squared" else "auto",
    )
    expected = clone(model).fit(X, y)
    with on_device():
        fitted = clone(model).fit(X, y)
    assert fitted.alpha_ == pytest.approx(expected.alpha_, rel=1e-9)
    tolerance = 1e-3 if loss != "squared" else 1e-9  # tol=1e-4 of the scores
    np.testing.assert_allclose(
        fitted.decision_function(X), expected.decision_function(X), atol=tolerance
    )


@pytest.mark.parametrize(
    ("loss", "settings"),
    [
        ("squared", {"alpha": "kfold"}),
        ("squared", {"max_memory": 60_000, "alpha": 1.0}),
        ("logistic", {"alpha": 1.0}),
        ("squared_hinge", {}),
        ("log_loss", {"alpha": 1.0}),
    ],
)
def test_features_are_not_copied_to_the_host(
    loss: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from mercer.ops.torch import DeviceArray

    n, D = 2000, 96
    rng = np.random.default_rng(12)
    X = rng.normal(size=(n, 5))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    copied: list[int] = []
    copy = DeviceArray.__array__

    def record(array: Any, dtype: Any = None, copy_: bool | None = None) -> Any:
        copied.append(array.size)
        return copy(array, dtype, copy_)

    monkeypatch.setattr(DeviceArray, "__array__", record)
    model = mercer.KernelClassifier(
        mercer.RandomFourier(D, gamma=0.2, random_state=0), loss=loss, **settings
    )
    with on_device():
        model.fit(X, y)
    assert copied and max(copied) < n * D / 4, max(copied)


def test_codes_and_lists_of_maps_are_learnt_from_on_a_device() -> None:
    rng = np.random.default_rng(9)
    X = rng.gamma(1.0, size=(400, 5))
    y = X[:, 0] + np.sqrt(X[:, 1])
    for feature_map in (
        mercer.GCWS(16, bits=2, random_state=0),
        mercer.Anchors(8),
        [mercer.Chi2Series(), mercer.UnaryIntersection(5)],
        mercer.Chi2Series() >> mercer.RandomFourier(32, random_state=0),
    ):
        model = mercer.KernelRegressor(feature_map, alpha=1.0)
        expected = clone(model).fit(X, y).predict(X)
        with on_device():
            found = clone(model).fit(X, y).predict(X)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


def test_moments_of_cpu_and_device_add_up() -> None:
    rng = np.random.default_rng(10)
    X, y = rng.random((500, 4)), rng.random(500)
    model = mercer.KernelRegressor(mercer.RandomFourier(30, gamma=1.0, random_state=0), alpha=0.1)
    expected = clone(model).fit(X, y).feature_coef_
    for first, second in ((X, to_tensor(X)), (to_tensor(X), X), (to_tensor(X), to_tensor(X))):
        parts = clone(model).partial_fit(first[:200], y[:200]).partial_fit(second[200:], y[200:])
        np.testing.assert_allclose(
            parts.feature_coef_, expected, rtol=0, atol=1e-8 * np.abs(expected).max()
        )


def test_the_precision_of_a_model_holds_for_tensors_too() -> None:
    rng = np.random.default_rng(15)
    X, y = rng.random((300, 20), dtype=np.float32), rng.random(300)
    model = mercer.KernelRegressor(mercer.RandomFourier(30, gamma=0.1, random_state=0), alpha=1.0)
    exact = clone(model).fit(to_tensor(X), y)
    short = clone(model).set_params(precision="bf16").fit(to_tensor(X), y)
    off = (
        np.abs(short.feature_coef_ - exact.feature_coef_).max() / np.abs(exact.feature_coef_).max()
    )
    assert 1e-5 < off < 0.3


def test_statistics_without_device_support_run_on_the_cpu() -> None:
    from mercer.data.batches import features
    from mercer.stats.basic import Range, Reservoir

    X = np.random.default_rng(16).random((500, 4))
    phi = mercer.RandomFourier(8, random_state=0).fit(X)
    rows = features(mercer.open_stream(X), phi)
    for make in (Range, lambda: Reservoir(10, 0)):
        expected = mercer.accumulate(rows, make())
        with on_device():
            found = mercer.accumulate(rows, make())
        names = ("low", "high") if isinstance(found, Range) else ("rows",)
        for name in names:
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-12)


def test_large_means_cost_no_digits_on_a_device() -> None:
    from mercer.maps.block import Dense
    from mercer.ops.torch import DeviceArray
    from mercer.stats.moments import Moments

    rng = np.random.default_rng(11)
    X = (1e4 + rng.normal(size=(3000, 700))).astype(np.float32)
    expected, found = Moments(), Moments()
    for part in np.split(X, 3):
        expected.add(Dense(part))
        found.add(Dense(DeviceArray(to_tensor(part))))
    np.testing.assert_allclose(
        found.scatter, expected.scatter, rtol=0, atol=1e-4 * expected.scatter.max()
    )
    again = Moments().from_state(found.state())
    np.testing.assert_array_equal(again.scatter, found.scatter)
    huge = Moments()
    huge.add(Dense(DeviceArray(to_tensor(X * np.float32(1e20)))))
    assert np.isfinite(huge.scatter).all()


def test_a_model_of_a_device_is_saved_as_any_other(tmp_path: Any) -> None:
    rng = np.random.default_rng(12)
    X, y = rng.random((300, 4)), rng.random(300)
    model = mercer.KernelRegressor(mercer.RandomFourier(30, random_state=0), alpha=0.1)
    fitted = clone(model).fit(to_tensor(X), y)
    mercer.save(fitted, tmp_path / "model.mercer")
    again = mercer.load(tmp_path / "model.mercer")
    assert again.device is None and again.precision is None
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))


def test_a_checkpoint_of_the_cpu_is_refused_on_a_device(tmp_path: Any) -> None:
    rng = np.random.default_rng(13)
    X, y = rng.random((300, 4)), rng.random(300)
    model = mercer.KernelRegressor(
        mercer.RandomFourier(30, random_state=0),
        alpha=0.1,
        checkpoint=tmp_path / "sums",
        random_state=0,
    )
    clone(model).fit(X, y)
    with on_device(), pytest.raises(ValueError, match=r"checkpoint|isa|grid"):
        clone(model).fit(X, y)


@pytest.mark.parametrize("n", [300, pytest.param(3000, marks=pytest.mark.full)])
@pytest.mark.parametrize(
    "feature_map", [mercer.RandomFourier(64), mercer.GCWS(16, bits=3), "linear"]
)
def test_measures_of_uncertainty_of_a_device_are_those_of_the_cpu(feature_map: Any, n: int) -> None:
    rng = np.random.default_rng(8)
    X, new = rng.random((n, 4)), rng.random((40, 4))
    y = np.sin(4 * X[:, 0]) + 0.1 * rng.normal(size=n)
    model = mercer.KernelRegressor(feature_map, alpha=0.3, uncertainty=True, random_state=0)
    expected = clone(model).fit(X, y)
    with on_device():
        found = clone(model).fit(X, y)
        mean, std = found.predict(new, return_std=True)
        ends = found.predict_interval(new)
    np.testing.assert_allclose(mean, expected.predict(new), atol=1e-6)
    np.testing.assert_allclose(std, expected.predict(new, return_std=True)[1], rtol=1e-4)
    np.testing.assert_allclose(ends, expected.predict_interval(new), atol=1e-5)
    tensors = expected.predict(to_tensor(new), return_std=True)
    np.testing.assert_allclose(to_numpy(tensors[1]), std, rtol=1e-4)
