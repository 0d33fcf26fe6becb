"""Numbers near the ends of floating point: a right result, or a refusal that says what to do; never
inf, NaN or an odd error.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from mercer import (
    GCWS,
    Chi2Series,
    Hellinger,
    Identity,
    KernelClassifier,
    KernelRegressor,
    RandomFourier,
    RandomLaplace,
    open_stream,
)

N = 30
SHARES = np.random.default_rng(0).random((N, 4))
Y = np.random.default_rng(1).normal(size=N)


@pytest.mark.parametrize(
    "case",
    [RandomFourier(8, random_state=0), RandomLaplace(8, random_state=0), Chi2Series(2)],
    ids=lambda m: m.name,
)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_a_fit_to_rows_that_cannot_be_squared_is_refused_by_row_and_column(case, form):
    estimator_name = type(case).__name__
    for dtype, tiny, huge in ((np.float32, 1e-40, 1e35), (np.float64, 1e-310, 1e200)):
        with pytest.raises(
            ValueError,
            match=rf"{estimator_name} needs rows with \|x\| above \S+ to fit to, got \S+ as the "
            r"largest",
        ):
            clone(case).fit(form((SHARES * tiny).astype(dtype)))
        X = SHARES.astype(dtype)
        X[7, 2] = huge
        sentence = (
            rf"{estimator_name} needs {np.dtype(dtype)} rows with \|x\| below \S+ to fit to, got "
            r"\S+ "
            r"at row 7, column 2\. Scale"
        )
        with pytest.raises(ValueError, match=sentence):
            clone(case).fit(form(X))


def test_the_row_of_a_file_is_named(tmp_path):
    X = SHARES.copy()
    X[7, 2] = 1e200
    np.save(tmp_path / "d.npy", X)
    model = KernelRegressor(RandomFourier(8, random_state=0), alpha=1.0)
    with pytest.raises(ValueError, match=r"got 1e\+200 at d.npy, row 7 of the file, column 1\."):
        model.fit(open_stream(tmp_path / "d.npy", target=0))


@pytest.mark.parametrize("scale", [1e-25, 1e-8, 1e8, 1e25])
def test_a_fit_within_reach_does_not_depend_on_the_unit(scale):
    expected = RandomFourier(8, random_state=0).fit(SHARES).transform(SHARES)
    for dtype, tolerance in ((np.float32, 1e-4), (np.float64, 1e-12)):
        X = (SHARES * scale).astype(dtype)
        np.testing.assert_allclose(
            RandomFourier(8, random_state=0).fit(X).transform(X), expected, atol=tolerance
        )


def test_weights_beyond_float32_are_refused_for_float32_rows():
    fitted = RandomFourier(8, gamma=1e90, random_state=0).fit(SHARES)
    tiny = SHARES * 1e-44
    assert np.isfinite(fitted.transform(tiny)).all()
    with pytest.raises(
        ValueError,
        match=r"weights up to \S+, beyond float32: give float64 rows, or fit to data that is",
    ):
        fitted.transform(tiny.astype(np.float32))


MODELS = {
    "identity": KernelRegressor(Identity()),
    "identity, one alpha": KernelRegressor(Identity(), alpha=1.0),
    "l1": KernelRegressor(Identity(), penalty="l1", alpha=0.1),
    "hellinger": KernelRegressor(Hellinger()),
    "fourier": KernelRegressor(RandomFourier(8, gamma=0.5, random_state=0), alpha=1.0),
    "hashes": KernelClassifier(GCWS(8, bits=2, random_state=0), alpha=1.0),
    "logistic": KernelClassifier(Identity(), loss="logistic", alpha=1.0),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_of_huge_and_tiny_rows_are_finite_or_refused(name):
    model = MODELS[name]
    y = Y > 0 if isinstance(model, KernelClassifier) else Y
    for dtype in (np.float32, np.float64):
        limits = np.finfo(dtype)
        for value in (
            limits.smallest_subnormal,
            limits.tiny / 100,
            limits.tiny,
            1e30,
            limits.max / 8,
            limits.max,
        ):
            X = (SHARES * np.float64(value)).astype(dtype)
            words, found = "", np.zeros(1)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    warnings.filterwarnings("ignore", ".*so small that their squares are")
                    found = clone(model).fit(X, y).predict(X)
            except ValueError as error:
                words = str(error)
            assert ("cale" in words or "float64" in words) if words else np.isfinite(found).all(), (
                value,
                words,
            )


def test_targets_and_weights_that_cannot_be_squared_are_refused():
    model = KernelRegressor(RandomFourier(8, gamma=0.5, random_state=0), alpha=1.0)
    sentence = (
        r"[Ss]ums of squares of features or targets leave the range of float64: scale them down"
    )
    for y, weights in ((1e200 * Y, None), (Y, np.full(N, 1e308))):
        with pytest.raises(ValueError, match=sentence):
            clone(model).fit(SHARES, y, sample_weight=weights)
        with pytest.raises(ValueError, match=sentence):
            clone(model).partial_fit(SHARES, y, sample_weight=weights).predict(SHARES)


def test_a_prediction_beyond_float64_names_its_row():
    model = KernelRegressor(Identity(), alpha=0.0).fit(SHARES * 1e-20, 1e5 * Y)
    X = SHARES.copy()
    X[4, 1] = 1e300
    with pytest.raises(ValueError, match=r"beyond float64: got 1e\+300 at row 4, column 1"):
        model.predict(X)
