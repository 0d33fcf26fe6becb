"""A fit follows its plan, and resumes from a checkpoint."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers.estimator_data import X, classifier, fourier, y
from tests.helpers.plans import plan_fit

from mercer import KernelClassifier, RandomFourier
from mercer.stats.checkpoint import Checkpoint


def test_a_fit_resumes_from_a_checkpoint_bit_for_bit(tmp_path, small_grid):
    rows = np.random.default_rng(1).random(
        (64 * 16 * 4 + 5, 3), dtype=np.float32
    )  # four shards and some rows
    np.savez(tmp_path / "rows.npz", X=rows, y=rows[:, 0] > rows[:, 1])
    free = RandomFourier(64, gamma=1.0)

    def model(**more):
        return KernelClassifier(free, alpha=0.3, checkpoint=tmp_path / "sum", **more)

    def stop(done, of):
        if done > 64 * 16 * 2:
            raise KeyboardInterrupt

    broken = model(verbose=2)
    broken._print_progress = stop
    with pytest.raises(KeyboardInterrupt):
        broken.fit(tmp_path / "rows.npz")
    seed = Checkpoint.read_spec(tmp_path / "sum")["seed"]
    resumed = model().fit(tmp_path / "rows.npz")  # without a seed: the checkpoint has it
    assert resumed.seed_ == seed
    whole = KernelClassifier(free, alpha=0.3, random_state=resumed.seed_).fit(tmp_path / "rows.npz")
    assert np.array_equal(resumed.feature_coef_, whole.feature_coef_)
    assert np.array_equal(model().fit(tmp_path / "rows.npz").feature_coef_, whole.feature_coef_)
    with pytest.raises(ValueError, match="cannot be resumed"):
        model(random_state=1).fit(tmp_path / "rows.npz")


def test_verbose_prints_the_plan(capsys):
    model = classifier(class_weight="balanced", verbose=1).fit(X, y)
    said = capsys.readouterr().out
    assert said == f"KernelClassifier: {model.plan_} Chosen: the least work of 2 routes.\n"
    assert "240 rows x 4 columns -> 48 features; least squares from normal equations" in said
    assert "2 passes: class weights, normal equations." in said
    classifier().fit(X, y)
    assert capsys.readouterr().out == ""


def test_the_plan_counts_passes_as_they_are_made():
    """Passes over labels alone, and over features, as many as the plan says."""
    from mercer.data.in_memory import ArrayStream

    class Counting(ArrayStream):
        passes = 0

        def _read(self, start, rows):
            Counting.passes += 1
            return super()._read(start, rows)

    for feature_map, more in (
        (fourier(), {}),
        (fourier(), {"alpha": "loo"}),
        (fourier(), {"class_weight": "balanced"}),
        (RandomFourier(48, random_state=0), {"class_weight": "balanced"}),
        (RandomFourier(48, random_state=0) >> fourier(), {}),
    ):
        Counting.passes = 0
        model = classifier(feature_map=feature_map, **more).fit(Counting(X).with_targets(y, None))
        assert Counting.passes == len(model.plan_.passes), model.plan_


def test_the_plan_goes_by_memory():
    whole = plan_fit(None, 10, 1000, limit=10**9)
    assert (whole.route, whole.solver_bytes) == ("moments", 32_000_000)
    assert plan_fit(None, 10, 1000, limit=whole.solver_bytes - 1).route == "passes"
    assert (
        plan_fit(None, 10, 1000, limit=10**9, alpha_method="kfold").solver_bytes
        > 2 * whole.solver_bytes
    )
    assert "unknown number of rows" in str(whole)
