"""Coverage of the best model's intervals and sets, as the report shows it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mercer import KernelClassifier, KernelRegressor, RandomFourier
from mercer.report.best_model import fit_best
from mercer.report.coverage import LEVELS, SHOWN, measure_coverage
from mercer.report.data import SampleSplit


def numbers(n: int = 800, noise: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(n, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + noise * rng.normal(size=n)


def test_intervals_are_those_of_the_model_on_the_other_half_of_the_rows():
    X, y = numbers()
    sample = SampleSplit.of(X, y)
    phi = RandomFourier(64, gamma=0.5, random_state=0)
    found = measure_coverage(fit_best("fourier", KernelRegressor(phi, random_state=0), sample, 0))
    fitted = KernelRegressor(phi, random_state=0).fit(X[::2], y[::2])
    for level, covered, width in zip(LEVELS, found.covered, found.sizes, strict=True):
        low, high = fitted.predict_interval(X[1::2], level).T
        assert covered == np.mean((low <= y[1::2]) & (y[1::2] <= high))
        assert width == pytest.approx(np.mean(high - low))
        assert abs(covered - level) < 0.07
    assert found.rows == 400
    assert found.share == found.covered[LEVELS.index(SHOWN)]
    assert found.deviation == pytest.approx(
        np.sqrt(np.mean((fitted.predict(X[1::2]) - y[1::2]) ** 2))
    )
    prediction, target, low, high = found.intervals.T
    assert np.all(np.diff(prediction) >= 0) and np.all(low < high)
    assert set(target) <= set(y[1::2])


def test_sets_and_probabilities_are_those_of_the_model_behind_the_steps_of_a_pipeline():
    X, y = numbers(600, noise=1.0)
    y = (y > 0).astype(int)
    sample = SampleSplit.of(X, y)
    last = KernelClassifier(RandomFourier(64, gamma=0.5, random_state=0), random_state=0)
    found = measure_coverage(fit_best("fourier", make_pipeline(StandardScaler(), last), sample, 0))
    scaler = StandardScaler().fit(X[::2])
    fitted = last.fit(scaler.transform(X[::2]), y[::2])
    test = scaler.transform(X[1::2])
    sets = fitted.predict_set(test, SHOWN)
    assert found.share == np.mean(sets[np.arange(300), y[1::2]])
    assert found.size == pytest.approx(sets.sum(axis=1).mean())
    probability, share, count = found.bins.T
    P = fitted.predict_proba(test)
    assert count.sum() == 300
    assert probability @ count / 300 == pytest.approx(P.max(axis=1).mean())
    assert share @ count / 300 == pytest.approx(np.mean(P.argmax(axis=1) == y[1::2]))
    assert found.calibration_error == pytest.approx(np.abs(probability - share) @ count / 300)
    assert found.intervals is None


def test_models_without_intervals_and_too_few_rows_have_no_coverage():
    X, y = numbers(40)
    phi = RandomFourier(16, gamma=0.5, random_state=0)
    few = fit_best("few", KernelRegressor(phi), SampleSplit.of(X[:16], y[:16]), 0)
    assert measure_coverage(few) is None
    sparse = KernelRegressor(phi, penalty="l1", alpha=0.1)
    assert measure_coverage(fit_best("l1", sparse, SampleSplit.of(X, y), 0)) is None
    assert fit_best("trees", StandardScaler(), SampleSplit.of(X, y), 0) is None
    one_class = SampleSplit.of(X, np.arange(40) % 2)
    assert fit_best("one class", KernelClassifier(phi), one_class, 0) is None


def test_classes_of_the_other_half_alone_do_not_count():
    X, y = numbers(400)
    y = (y > 0).astype(int)
    y[1] = 2  # in the half that is measured
    phi = RandomFourier(32, gamma=0.5, random_state=0)
    best = fit_best("fourier", KernelClassifier(phi), SampleSplit.of(X, y), 0)
    assert measure_coverage(best).rows == 199
