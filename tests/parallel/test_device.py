"""Maps and Gram matrices on a device: torch tensors, and NumPy rows that are copied to it.

The device is torch's CPU, or a GPU with MERCER_TEST_DEVICE=cuda (`make test-gpu`).
"""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from tests.helpers.battery import data
from tests.helpers.device_data import assert_close, dense, on_device, to_numpy, to_tensor
from tests.helpers.op_forms import every_dtype
from tests.helpers.torch_ops import DEVICE

import mercer
from mercer import ops
from mercer.kernels.registry import kernel_classes
from mercer.maps import registry
from mercer.maps.compose import Composed, Stacked
from mercer.parallel.device import device_context

torch = pytest.importorskip("torch", reason="torch is not installed")

CASES = [case for cls in (*registry().values(), Composed, Stacked) for case in cls.cases()]
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: repr(case)[:60])


@every_case
@every_dtype
def test_tensors_give_the_features_of_arrays(case: Any, dtype: Any) -> None:
    X = data(case).astype(dtype)
    fitted = clone(case).fit(X)
    expected = fitted.transform(X)
    found = fitted.transform(to_tensor(X))
    assert isinstance(found, torch.Tensor)
    assert found.device.type == DEVICE
    assert (found.layout == torch.strided) == (not sp.issparse(expected))
    assert_close(to_numpy(found), dense(expected), dtype)


@every_case
@every_dtype
def test_numpy_rows_give_the_features_of_the_cpu(case: Any, dtype: Any) -> None:
    X = data(case).astype(dtype)
    fitted = clone(case).fit(X)
    with on_device():
        for rows in (X, np.asfortranarray(X), sp.csr_array(X)):
            found, expected = fitted.transform(rows), None
            with device_context(None):
                expected = fitted.transform(rows)
            assert type(dense(found)) is np.ndarray
            assert sp.issparse(found) == sp.issparse(expected)
            assert_close(dense(found), dense(expected), dtype)


@every_case
def test_a_map_fitted_on_tensors_is_the_same_map(case: Any) -> None:
    X = data(case)
    expected = clone(case).fit(X).transform(X)
    with on_device():
        again = clone(case).fit(X)
    for fitted in (clone(case).fit(to_tensor(X)), again):
        np.testing.assert_array_equal(dense(fitted.transform(X)), dense(expected))


def test_codes_of_sampling_are_those_of_the_cpu() -> None:
    X = np.random.default_rng(0).standard_cauchy((300, 40))
    fitted = mercer.GCWS(1024, bits=16, random_state=0).fit(X)
    expected, found = fitted.codes(X), to_numpy(fitted.codes(to_tensor(X)))
    assert found.dtype == expected.dtype
    assert np.mean(found != expected) <= 1e-6


@pytest.mark.parametrize("name", sorted(kernel_classes()))
@every_dtype
def test_gram_matrices_of_tensors(name: str, dtype: Any) -> None:
    rng = np.random.default_rng(1)
    X = rng.gamma(1.0, size=(30, 6)).astype(dtype)
    X[rng.random(X.shape) < 0.2] = 0
    Z = 2 * X[:11]
    kernel = kernel_classes()[name]()
    if name == "sign-stable":
        with pytest.raises(TypeError, match="cannot run on a GPU"):
            mercer.gram(kernel, to_tensor(X))
        return
    expected = mercer.gram(kernel, X, Z)
    assert_close(to_numpy(mercer.gram(kernel, to_tensor(X), to_tensor(Z))), expected, dtype)
    with on_device():
        assert_close(mercer.gram(kernel, X, Z), expected, dtype)
        assert_close(mercer.gram(kernel, sp.csr_array(X), Z), expected, dtype)


def test_callable_kernels_need_numpy_rows() -> None:
    phi = mercer.Nystroem(3, kernel=lambda X, Z: X @ Z.T, random_state=0).fit(np.eye(4))
    with pytest.raises(TypeError, match=r"function of NumPy arrays"):
        phi.transform(to_tensor(np.eye(4)))


# Input


def test_half_floats_and_integers_are_cast() -> None:
    X = np.arange(12.0).reshape(4, 3)
    phi = mercer.RandomFourier(8, gamma=0.01, random_state=0).fit(X)
    assert phi.transform(to_tensor(X).half()).dtype == torch.float32
    assert_close(to_numpy(phi.transform(to_tensor(X).int())), phi.transform(X), np.float64)
    assert phi.transform(to_tensor(X).to(torch.int16)).dtype == torch.float64
    with pytest.raises(ValueError, match="Complex data not supported"):
        phi.transform(to_tensor(X).to(torch.complex64))


def test_errors_of_tensors_are_those_of_arrays() -> None:
    X = np.random.default_rng(2).random((9, 4))
    phi = mercer.Chi2Series().fit(X)
    wrong = X.copy()
    wrong[7, 2] = -3.5
    for rows in (to_tensor(wrong), wrong):
        with pytest.raises(ValueError, match=r"Negative values in data.*-3.5 at row 7, column 2"):
            phi.transform(rows)
    wrong[7, 2] = np.nan
    with pytest.raises(ValueError, match=r"contains NaN.*row 7, column 2"):
        phi.transform(to_tensor(wrong))
    with pytest.raises(ValueError, match="expecting 4 features"):
        phi.transform(to_tensor(X[:, :3]))
    with pytest.raises(ValueError, match="Expected 2D array"):
        phi.transform(to_tensor(X[0]))
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        phi.transform(to_tensor(X[:0]))


def test_rows_that_float32_does_not_resolve_are_projected_in_float64() -> None:
    X = np.array([[3e6, 1.0], [0.5, 0.25]], dtype=np.float32)
    phi = mercer.RandomFourier(64, gamma=1.0, design="iid", random_state=0).fit(X)
    assert_close(to_numpy(phi.transform(to_tensor(X))), phi.transform(X), np.float32)
    with pytest.raises(ValueError, match=r"Values too large for this kernel.*row 1, column 0"):
        phi.transform(to_tensor([[1.0, 1.0], [1e18, 1.0]]))


def test_features_are_written_into_a_tensor() -> None:
    X = np.random.default_rng(3).random((6, 3))
    phi = mercer.RandomFourier(8, random_state=0).fit(X)
    out = torch.empty((6, 8), dtype=torch.float64, device=DEVICE)
    assert phi.transform(to_tensor(X), out=out).data_ptr() == out.data_ptr()
    assert_close(to_numpy(out), phi.transform(X), np.float64)
    with pytest.raises(ValueError, match="float64 tensor of shape"):
        phi.transform(to_tensor(X), out=out[:, :7])
    with pytest.raises(ValueError, match=r"got Tensor|got DeviceArray"):
        phi.transform(X, out=out)
    array = np.empty((6, 8))
    with on_device():
        assert phi.transform(X, out=array) is array
    assert_close(array, phi.transform(X), np.float64)


def test_the_input_is_not_changed() -> None:
    for case in CASES:
        X = to_tensor(data(case))
        before = X.clone()
        clone(case).fit(X).transform(X)
        assert torch.equal(X, before)


# Memory


def test_tiles_are_halved_with_one_warning_when_out_of_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X = np.random.default_rng(4).random((1000, 5))
    phi = mercer.RandomFourier(32, design="iid", random_state=0).fit(X)
    expected = phi.transform(X)
    form, sizes = ops.product_cossin.torch, []

    def limited(rows: Any, *rest: Any) -> Any:
        sizes.append(len(rows))
        if len(rows) > 100:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return form(rows, *rest)

    monkeypatch.setattr(ops.product_cossin, "torch", limited)
    with (
        on_device(),
        pytest.warns(UserWarning, match="out of memory: tiles are halved") as told,
    ):
        assert_close(phi.transform(X), expected, np.float64)
    assert len(told) == 1
    assert max(sizes) == 1000 and sizes[-1] <= 100


def test_the_smallest_tile_raises_when_out_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*rest: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    X = np.random.default_rng(4).random((100, 5))
    phi = mercer.RandomFourier(32, design="iid", random_state=0).fit(X)
    monkeypatch.setattr(ops.product_cossin, "torch", fail)
    with warnings.catch_warnings(), on_device():
        warnings.simplefilter("ignore")
        with pytest.raises(torch.OutOfMemoryError):
            phi.transform(X)


# Devices by name


def test_a_missing_gpu_is_a_value_error() -> None:
    if torch.cuda.is_available():
        with (
            pytest.raises(ValueError, match="does not exist; the last GPU is cuda:"),
            mercer.use_device("cuda:99"),
        ):
            pass
        return
    with pytest.raises(ValueError, match="no GPU is available"), mercer.use_device("cuda"):
        pass
    with pytest.raises(ValueError, match="no GPU is available"):
        mercer.KernelRegressor(device="cuda").fit(np.eye(3), np.arange(3))
    with pytest.raises(ValueError, match="no GPU is available"):
        mercer.gram(mercer.kernels.Chi2(), np.eye(3), device="cuda")


def test_unknown_devices_and_precisions_are_value_errors() -> None:
    with pytest.raises(ValueError, match='device must be "cpu", "cuda"'), mercer.use_device("gpu!"):
        pass
    with (
        pytest.raises(ValueError, match="precision must be one of"),
        mercer.use_device("cpu", precision="fp8"),
    ):
        pass
    with (
        pytest.raises(ValueError, match='pass device="cuda" too'),
        mercer.use_device(None, precision="tf32"),
    ):
        pass


def test_without_torch_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("mercer.ops.torch")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("mercer.ops.torch", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ValueError, match=r"mercer\[gpu\]"), mercer.use_device("cuda"):
        pass


# Precision


def test_reduced_precision_is_used_only_if_chosen() -> None:
    from mercer.ops.torch import matmul

    rng = np.random.default_rng(6)
    X = rng.random((50, 30), dtype=np.float32)
    phi = mercer.RandomFourier(64, design="iid", random_state=0).fit(X)
    expected = phi.transform(X.astype(np.float64))
    errors = {}
    for precision in (None, "float32", "bf16"):
        with on_device(), matmul.use_precision(precision or "float32"):
            errors[precision] = np.abs(phi.transform(X) - expected).max()
        assert matmul.current_precision() == "float32"
    assert errors[None] == errors["float32"] < 1e-6
    assert 1e-4 < errors["bf16"] < 1e-1


def test_float64_stays_float64_in_any_precision() -> None:
    from mercer.ops.torch import matmul

    X = np.random.default_rng(7).random((50, 30))
    phi = mercer.RandomFourier(64, design="iid", random_state=0).fit(X)
    with on_device(), matmul.use_precision("bf16"):
        assert_close(phi.transform(X), phi.transform(to_tensor(X)).cpu().numpy(), np.float64)


def test_a_certificate_states_the_precision_of_products() -> None:
    from mercer.ops.torch import matmul

    X = np.random.default_rng(14).random((400, 20), dtype=np.float32)
    phi = mercer.RandomFourier(64, gamma=0.05, design="iid", random_state=0).fit(X[:200])
    assert mercer.certify(phi, X[200:], pairs=500).arithmetic == "cpu"
    with on_device():
        exact = mercer.certify(phi, X[200:], pairs=500)
        with matmul.use_precision("bf16"):
            short = mercer.certify(phi, X[200:], pairs=500)
    assert exact.arithmetic == f"{DEVICE} float32" and short.arithmetic == f"{DEVICE} bf16"
    assert f"on {DEVICE} bf16" in str(short)
    assert short.rounding > 100 * exact.rounding


# scikit-learn's array API


CHECK = """
import warnings
from sklearn.base import clone
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import check_array_api_input
from mercer.maps import registry
from mercer.maps.compose import Composed, Stacked

warnings.simplefilter("ignore")
passed = set()
for cls in (*registry().values(), Composed, Stacked):
    for case in cls.cases():
        if get_tags(case).array_api_support:
            name = cls.__name__
            for dtype in ("float32", "float64"):
                check_array_api_input(name, clone(case), "torch", "cpu", dtype, check_values=True)
            passed.add(cls.__name__)
print(*sorted(passed))
"""


@pytest.mark.full
def test_maps_with_array_api_support_pass_the_check_of_scikit_learn() -> None:
    """Run in another process: SciPy reads the variable once, on import.

    Maps that hold NumPy arrays or make CSR features do not claim support.
    """
    from inspect import signature

    from sklearn.utils.estimator_checks import check_array_api_input

    if "device_name" not in signature(check_array_api_input).parameters:
        pytest.skip("this check is of a later scikit-learn")
    done = subprocess.run(
        [sys.executable, "-c", CHECK],
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    every = {cls.__name__ for cls in (*registry().values(), Composed, Stacked)}
    assert every - set(done.stdout.split()) == {
        "AdditiveNystroem",
        "Anchors",
        "Chi2Series",
        "FeaturePCA",
        "Metric",
        "Scaled",
        "Tabular",
    }
