"""Several maps in one model, their principal components in one pass or two, unlabeled rows."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge, RidgeClassifier
from tests.helpers.plans import plan_fit

from mercer import GCWS, Chi2Series, KernelClassifier, KernelRegressor, RandomFourier, open_stream

rng = np.random.default_rng(0)
X = rng.random((300, 4))
t = np.sin(5 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=300)
y = np.digitize(t, np.quantile(t, [0.3, 0.6]))
MORE = rng.random((170, 4)) * np.array([1.0, 0.2, 1.0, 0.5])

MAPS = [
    RandomFourier(40, gamma=2.0, random_state=0),
    Chi2Series(3, poles="minimax"),
    RandomFourier(32, kernel="laplacian", gamma=1.0, random_state=1),
]
TWO_PASSES = "100kB"  # less than the moments of all maps together, more than those of each


def parts(rows=X) -> list[np.ndarray]:
    return [clone(one).fit(X).transform(rows) for one in MAPS]


def reduced(rank, rows=X, seen=X) -> np.ndarray:
    """The components of each map's features, side by side; the bases are those of `seen`."""
    pairs = zip(parts(seen), parts(rows), strict=True)
    made = [PCA(min(rank, A.shape[1]), svd_solver="full").fit(A).transform(B) for A, B in pairs]
    return np.hstack(made)


def test_a_list_of_maps_is_their_sum():
    by_list = KernelRegressor(MAPS, alpha=0.3).fit(X, t)
    by_sum = KernelRegressor(MAPS[0] + MAPS[1] + MAPS[2], alpha=0.3).fit(X, t)
    assert np.array_equal(by_list.feature_coef_, by_sum.feature_coef_)
    expected = Ridge(0.3).fit(np.hstack(parts()), t)
    assert np.allclose(
        by_list.feature_coef_, expected.coef_, rtol=0, atol=1e-8 * np.abs(expected.coef_).max()
    )
    assert repr(clone(by_list).feature_map) == repr(MAPS)


def test_names_and_maps_go_together_in_a_list_and_draw_different_weights():
    model = KernelRegressor(
        ["fourier", RandomFourier(16), "chi2-series"], alpha=1.0, random_state=0
    ).fit(X, t)
    first, second, _ = model.feature_map_.maps_
    assert first.seed_ != second.seed_
    again = KernelRegressor(
        ["fourier", RandomFourier(16), "chi2-series"], alpha=1.0, random_state=0
    ).fit(X, t)
    assert np.array_equal(model.feature_coef_, again.feature_coef_)


@pytest.mark.parametrize("memory", [None, TWO_PASSES], ids=["one pass", "two passes"])
@pytest.mark.parametrize(
    "rank", [5, *(pytest.param(rank, marks=pytest.mark.full) for rank in (1, 14))]
)
def test_components_of_each_map_are_scikit_learns(rank, memory):
    model = KernelRegressor(MAPS, alpha=0.01, pca=rank, max_memory=memory).fit(X, t)
    assert model.plan_.route == ("moments" if memory is None else "two-stage")
    theirs = Ridge(0.01).fit(reduced(rank), t)
    assert np.allclose(model.predict(X), theirs.predict(reduced(rank)), rtol=0, atol=1e-8)
    assert np.allclose(model.predict(MORE), theirs.predict(reduced(rank, MORE)), rtol=0, atol=1e-8)


@pytest.mark.parametrize("memory", [None, TWO_PASSES], ids=["one pass", "two passes"])
def test_classes_on_components_are_scikit_learns(memory):
    model = KernelClassifier(MAPS, alpha=0.01, pca=6, max_memory=memory).fit(X, y)
    theirs = RidgeClassifier(alpha=0.01).fit(reduced(6), y)
    assert np.allclose(
        model.decision_function(X), theirs.decision_function(reduced(6)), rtol=0, atol=1e-8
    )


def test_without_an_intercept_components_are_about_0():
    both = [
        KernelRegressor(MAPS, alpha=0.01, pca=5, fit_intercept=False, max_memory=memory).fit(X, t)
        for memory in (None, TWO_PASSES)
    ]
    bases = [np.linalg.svd(Z, full_matrices=False)[2][:5].T for Z in parts()]
    Z = np.hstack([Z @ U for Z, U in zip(parts(), bases, strict=True)])
    theirs = Ridge(0.01, fit_intercept=False).fit(Z, t).predict(Z)
    for model in both:
        assert np.allclose(model.predict(X), theirs, rtol=0, atol=1e-8)


@pytest.mark.parametrize("alpha", ["gcv", "loo", [0.1, 1.0], "kfold"])
def test_one_pass_and_two_choose_alike(alpha):
    one, two = (
        KernelRegressor(MAPS, alpha=alpha, pca=3, max_memory=m).fit(X, t)
        for m in (None, TWO_PASSES)
    )
    assert two.plan_.route == "two-stage"
    assert np.allclose(two.alphas_, one.alphas_, rtol=1e-9)
    if (
        alpha == "kfold"
    ):  # in one pass the basis is that of the other folds, in two it is that of all rows
        assert np.allclose(two.alpha_scores_, one.alpha_scores_, rtol=0.1)
    else:
        assert np.allclose(two.alpha_scores_, one.alpha_scores_, rtol=1e-6)
        assert np.allclose(two.feature_coef_, one.feature_coef_, rtol=0, atol=1e-7)


@pytest.mark.parametrize("penalty", ["l1", "group"])
def test_penalties_act_on_components(penalty):
    one, two = (
        KernelRegressor(MAPS, penalty=penalty, alpha=1.0, pca=5, max_memory=m).fit(X, t)
        for m in (None, TWO_PASSES)
    )
    assert two.plan_.route == "two-stage"
    assert np.allclose(one.predict(X), two.predict(X), rtol=0, atol=1e-7)
    assert one.zero_maps_ == two.zero_maps_


def test_sparse_and_coded_features_have_components_too():
    maps = [GCWS(24, bits=2, random_state=0), Chi2Series(2, poles="minimax")]
    rows = X * (X > 0.3)
    models = [
        KernelRegressor(maps, alpha=0.1, pca=4, max_memory=m).fit(data, t)
        for m in (None, "300kB")
        for data in (rows, sp.csr_array(rows))
    ]
    assert [model.plan_.route for model in models] == [
        "moments",
        "moments",
        "two-stage",
        "two-stage",
    ]
    for model in models[1:]:
        assert np.allclose(model.predict(rows), models[0].predict(rows), rtol=0, atol=1e-8)


def test_unlabeled_rows_count_for_the_basis_alone():
    expected = Ridge(0.01).fit(reduced(4, X, np.vstack([X, MORE])), t)
    for memory in (None, TWO_PASSES):
        model = KernelRegressor(MAPS, alpha=0.01, pca=4, max_memory=memory).fit(
            X, t, unlabeled=MORE
        )
        assert np.allclose(
            model.predict(MORE),
            expected.predict(reduced(4, MORE, np.vstack([X, MORE]))),
            rtol=0,
            atol=1e-8,
        )
        without = KernelRegressor(MAPS, alpha=0.01, pca=4, max_memory=memory).fit(X, t)
        assert np.abs(without.predict(MORE) - model.predict(MORE)).max() > 1e-3


@pytest.mark.parametrize("alpha", ["gcv", "kfold", "loo"])
def test_alpha_is_chosen_on_labelled_rows(alpha):
    model = KernelRegressor(MAPS[0], alpha=alpha, pca=20).fit(X, t, unlabeled=MORE)
    assert model.score(X, t) > 0.9
    plain = KernelRegressor(MAPS[0], alpha=[model.alpha_], pca=20).fit(X, t, unlabeled=MORE)
    assert np.allclose(plain.feature_coef_, model.feature_coef_, rtol=0, atol=1e-9)


def test_as_many_components_as_features_need_no_basis():
    model = KernelRegressor(MAPS[0], alpha=0.1, pca=40).fit(X, t, unlabeled=MORE)
    assert np.allclose(
        model.feature_coef_,
        KernelRegressor(MAPS[0], alpha=0.1).fit(X, t).feature_coef_,
        rtol=0,
        atol=1e-8,
    )


def test_unlabeled_rows_come_from_files_and_their_errors_name_the_place(tmp_path):
    np.save(tmp_path / "more.npy", MORE)
    from_file = KernelRegressor(MAPS, alpha=0.01, pca=4).fit(X, t, unlabeled=tmp_path / "more.npy")
    assert np.array_equal(
        from_file.feature_coef_,
        KernelRegressor(MAPS, alpha=0.01, pca=4).fit(X, t, unlabeled=MORE).feature_coef_,
    )
    bad = MORE.copy()
    bad[7, 2] = np.nan
    with pytest.raises(ValueError, match="row 7, column 2"):
        KernelRegressor(MAPS, alpha=0.01, pca=4).fit(X, t, unlabeled=bad)
    with pytest.raises(ValueError, match="3 features, but KernelRegressor is expecting 4"):
        KernelRegressor(MAPS, alpha=0.01, pca=4).fit(X, t, unlabeled=MORE[:, :3])
    with pytest.raises(
        ValueError,
        match="unlabeled rows count for principal components, and there are none: give pca",
    ):
        KernelRegressor(MAPS, alpha=0.01).fit(X, t, unlabeled=MORE)


def test_a_missing_target_is_not_an_unlabeled_row():
    missing = t.copy()
    missing[5] = np.nan
    for source in ((X, missing), (open_stream((X, missing)), None)):
        with pytest.raises(ValueError, match=r"row 5"):
            KernelRegressor(MAPS, alpha=0.01, pca=4).fit(*source, unlabeled=MORE)


def test_the_plan_takes_one_pass_or_two_by_memory():
    more = {"widths": (1000,) * 7, "pca": 100}
    one = plan_fit(10**6, 300, 7000, limit=2 * 10**9, **more)
    two = plan_fit(10**6, 300, 7000, limit=10**9, unlabeled=True, **more)
    assert (one.route, two.route) == ("moments", "two-stage")
    assert two.solver_bytes < one.solver_bytes / 10
    assert two.passes == (
        "covariance of each map",
        "covariance of each map, unlabeled rows",
        "normal equations, components",
    )
    assert "principal components of each map, then least squares on them" in str(two)
    assert plan_fit(10**6, 300, 7000, limit=10**7, **more).route == "passes"
    assert plan_fit(10**6, 300, 7000, limit=10**9, widths=(7000,), pca=100).route == "passes"


def test_the_plan_counts_passes_as_they_are_made():
    from mercer.data.in_memory import ArrayStream

    class Counting(ArrayStream):
        passes = 0

        def _read(self, start, rows):
            Counting.passes += 1
            return super()._read(start, rows)

    looking = [
        RandomFourier(40, random_state=0),
        RandomFourier(32, random_state=1) >> RandomFourier(8),
        MAPS[1],
    ]
    for maps, memory, alpha in (
        (MAPS, None, 0.1),
        (MAPS, TWO_PASSES, 0.1),
        (MAPS, TWO_PASSES, "loo"),
        (looking, None, 0.1),
        (looking, TWO_PASSES, 0.1),
    ):
        Counting.passes = 0
        model = KernelRegressor(maps, alpha=alpha, pca=4, max_memory=memory, random_state=0)
        model.fit(Counting(X).with_targets(t, None), unlabeled=Counting(MORE))
        assert Counting.passes == len(model.plan_.passes), model.plan_


def test_two_passes_go_on_from_their_checkpoints_bit_for_bit(tmp_path, small_grid):
    rows = np.random.default_rng(1).random((64 * 16 * 3 + 5, 3))
    targets = rows[:, 0] * rows[:, 1]

    def model(**more):
        return KernelRegressor(
            MAPS, alpha=0.3, pca=4, max_memory=TWO_PASSES, checkpoint=tmp_path / "sum", **more
        )

    for pass_ in (1, 2):  # broken off in the first pass, then in the second
        seen = []

        def stop(done, of, seen=seen, pass_=pass_):
            seen.append(done)
            if sum(a > b for a, b in itertools.pairwise(seen)) == pass_ - 1 and done > 64 * 16 * 2:
                raise KeyboardInterrupt

        broken = model(verbose=2)
        broken._print_progress = stop
        with pytest.raises(KeyboardInterrupt):
            broken.fit(rows, targets)
    resumed = model().fit(rows, targets)
    whole = KernelRegressor(MAPS, alpha=0.3, pca=4, max_memory=TWO_PASSES).fit(rows, targets)
    assert np.array_equal(resumed.feature_coef_, whole.feature_coef_)


def test_a_checkpoint_of_one_pass_is_refused_by_two(tmp_path):
    made = {"alpha": 0.3, "pca": 4, "random_state": 0, "checkpoint": tmp_path / "sum"}
    KernelRegressor(MAPS, **made).fit(X, t)
    with pytest.raises(
        ValueError, match="sum cannot be resumed: route was 'moments', now 'two-stage'"
    ):
        KernelRegressor(MAPS, max_memory=TWO_PASSES, **made).fit(X, t)


def test_too_many_components_are_refused():
    with pytest.raises(
        ValueError, match="pca must be at most the number of features of a map, 40, got 41"
    ):
        KernelRegressor(MAPS, pca=41).fit(X, t)
    assert KernelRegressor(MAPS, alpha=1.0, pca=39).fit(X, t).feature_coef_.shape == (84,)


SEVEN = """
import sys
import numpy as np
from mercer import Anchors, ExpChi2, Homogeneous, KernelClassifier, RandomFourier, RandomLaplace

def peak():
    return 1024 * int(next(line.split()[1] for line in open("/proc/self/status")
                           if line.startswith("VmHWM")))

files = np.load(sys.argv[1], allow_pickle=False)
X, y = files["X"].astype(np.float32), files["y"]
X /= X.sum(axis=1, keepdims=True)
half = 30000
maps = [
    ExpChi2(1000, gamma=1.0, random_state=0),
    ExpChi2(1000, gamma=4.0, random_state=1),
    RandomFourier(1000, gamma=100.0, random_state=2),
    RandomFourier(1000, gamma=1000.0, random_state=3),
    RandomFourier(1000, kernel="laplacian", gamma=1.0, random_state=4),
    RandomLaplace(1000, random_state=5),
    Homogeneous(1),
]
one = KernelClassifier(maps[0], alpha=1e-3, pca=150).fit(X[:half], y[:half])
before = peak()
model = KernelClassifier(maps, alpha=1e-3, pca=150, max_memory="400MB")
model.fit(X[:half], y[:half], unlabeled=X[60000:])
print(model.plan_.route, model.plan_.solver_bytes, peak() - before, one.score(X[60000:], y[60000:]),
      model.score(X[60000:], y[60000:]))
"""


@pytest.mark.slow
def test_seven_maps_run_within_the_memory_limit():
    """As many kernels as in Table 3 of arXiv 1206.4074, 150 components of each: two passes instead
    of 2.2 GB.
    """
    path = Path(os.environ.get("MERCER_DATA", "")) / "fashion_mnist.npz"
    if not path.is_file():
        pytest.skip("fashion_mnist.npz is not in $MERCER_DATA")
    done = subprocess.run(
        [sys.executable, "-c", SEVEN, str(path)], capture_output=True, text=True, check=True
    )
    route, held, grown, one, seven = done.stdout.split()
    assert route == "two-stage"
    assert int(held) < 400e6
    assert int(grown) < 400e6
    assert float(seven) > float(one) + 0.01
