"""Standard deviations, intervals and samples of KernelRegressor, beside their definitions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.datasets import load_diabetes
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import BayesianRidge

import mercer
from mercer import GCWS, Homogeneous, KernelRegressor, Nystroem, RandomFourier
from mercer.data.row_keys import fold_numbers, row_keys
from mercer.linear_model.left_out import FEW_ROWS_FOLDS, LEFT_OUT_FOLDS
from mercer.linear_model.posterior import EXCESS_VARIANCE, Posterior
from mercer.linear_model.solvers import evidence
from mercer.linear_model.solvers.evidence import FactoredEvidence, choose_evidence
from mercer.maps.block import as_block


def waves(n: int, d: int = 3, seed: int = 0, noise: float = 0.2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(2 * X).sum(axis=1) + noise * rng.normal(size=n)


def fitted(n: int = 3000, D: int = 64, **parameters):
    X, y = waves(n)
    model = KernelRegressor(RandomFourier(D, gamma=0.5, random_state=0), scale=False, **parameters)
    return model.fit(X, y), X, y


def features_of(model: KernelRegressor, X) -> np.ndarray:
    return np.asarray(model.feature_map_.transform(X), dtype=np.float64)


@pytest.mark.parametrize(("n", "D"), [(3000, 64), (3000, 513), (300, 64), (300, 600)])
def test_leverages_are_those_of_the_posterior(n, D):
    model, X, y = fitted(n, D, alpha=0.3)
    posterior = model._measured_posterior()
    Z = features_of(model, X)
    A = Z.T @ Z + 0.3 * np.eye(D)
    h = np.einsum("ij,ij->i", Z, np.linalg.solve(A, Z.T).T) + 1 / n
    measured = np.concatenate([posterior.leverages(b) for b in model.feature_map_.blocks(X)])
    assert np.all(measured >= h * (1 - 1e-3))
    assert h.mean() * 0.999 <= measured.mean() <= h.mean() * (1 + 1.1 * EXCESS_VARIANCE)
    centered = Z - Z.mean(axis=0)
    S = centered.T @ centered
    degrees = np.trace(np.linalg.solve(S + 0.3 * np.eye(D), S))
    residuals = y - model.predict(X)
    assert posterior.degrees == pytest.approx(degrees)
    assert model.noise_variance_ == pytest.approx(residuals @ residuals / (n - 1 - degrees))


def test_standard_deviations_of_the_linear_map_are_those_of_bayesian_ridge():
    rng = np.random.default_rng(0)
    X = rng.normal(np.array([1e3, 0, -50, 0, 0, 7]), size=(400, 6))
    y = X @ [1.0, -2, 0, 0.5, 0, 3] + rng.normal(size=400)
    rival = BayesianRidge(tol=1e-10, max_iter=5000).fit(X, y)
    model = KernelRegressor("linear", alpha="evidence", scale=False).fit(X, y)
    new = rng.normal(size=(50, 6)) * 3 + X.mean(axis=0)
    mean, std = model.predict(new, return_std=True)
    np.testing.assert_allclose(mean, rival.predict(new), rtol=1e-4)
    centered = new - X.mean(axis=0)  # predict(return_std=True) of scikit-learn 1.6 does not center
    variances = np.einsum("ij,jk,ik->i", centered, rival.sigma_, centered) + 1 / rival.alpha_
    noise = model.noise_variance_
    np.testing.assert_allclose(std**2 - noise / 400, variances, rtol=5e-3)
    assert model.alpha_ == pytest.approx(rival.lambda_ / rival.alpha_, rel=0.05)
    assert noise == pytest.approx(1 / rival.alpha_, rel=5e-3)


@pytest.mark.parametrize(("columns", "length"), [(1, 1.0), (2, 0.7)])
def test_standard_deviations_are_those_of_the_exact_gaussian_process(columns, length):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, columns))
    new = np.concatenate([rng.normal(size=(100, columns)) * s for s in (1, 2, 8)])
    process = GaussianProcessRegressor(
        ConstantKernel(1.0) * RBF(length) + WhiteKernel(0.04), alpha=0.0, optimizer=None
    )
    y = process.sample_y(np.concatenate([X, new]), random_state=1)[:, 0][:600]
    exact = process.fit(X, y).predict(new, return_std=True)[1]
    map_ = RandomFourier(4096, gamma=1 / (2 * length**2), random_state=0)
    model = KernelRegressor(map_, alpha=0.04, scale=False).fit(X, y)
    std = model.predict(new, return_std=True)[1] * 0.2 / np.sqrt(model.noise_variance_)
    ratio = std / exact
    assert ratio.min() > 0.97
    assert ratio.max() < 1.05


def test_features_alone_understate_the_variance_far_from_the_rows():
    model, _X, _ = fitted(1000, 256, alpha=0.01)
    far = np.full((1, 3), 40.0)
    std = model.predict(far, return_std=True)[1][0]
    prior = np.sqrt(model.noise_variance_ * (1 + (1 - model._posterior.exact.offset) / 0.01))
    assert std == pytest.approx(prior, rel=0.02)
    alone = model._posterior.leverages(next(iter(model.feature_map_.blocks(far))))[0]
    assert np.sqrt(model.noise_variance_ * (1 + alone)) < 0.9 * prior


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(("n", "D"), [(500, 40), (60, 200)])
def test_the_marginal_likelihood_is_that_of_the_targets(intercept, n, D):
    model, X, y = fitted(n, D, alpha=0.7, fit_intercept=intercept)
    Z, noise = features_of(model, X), model.noise_variance_
    C = noise * (np.eye(n) + Z @ Z.T / 0.7)
    if intercept:  # the density of n - 1 contrasts, with the flat intercept integrated out
        Q = np.linalg.svd(np.eye(n) - 1 / n)[0][:, : n - 1]
        expected = multivariate_normal(np.zeros(n - 1), Q.T @ C @ Q).logpdf(Q.T @ y)
        expected -= 0.5 * np.log(n)
    else:
        expected = multivariate_normal(np.zeros(n), C).logpdf(y)
    assert model.log_marginal_likelihood_ == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(("n", "D"), [(500, 40), (60, 200)])
def test_evidence_chooses_the_alpha_of_the_largest_likelihood(n, D):
    model, _X, _y = fitted(n, D, alpha="evidence")
    best = model.alpha_

    def likelihood(alpha):
        return fitted(n, D, alpha=alpha)[0].log_marginal_likelihood_

    assert likelihood(best) >= max(likelihood(best * 1.2), likelihood(best / 1.2))
    with pytest.raises(AttributeError, match="marginal likelihood"):
        _ = model.validation_score_


@pytest.mark.parametrize("noise", [0.01, 0.3, 10.0])
@pytest.mark.parametrize("guessed", [2, 16, 512])
def test_evidence_by_few_factors_is_that_of_the_decomposition(noise, guessed, monkeypatch):
    monkeypatch.setattr(evidence, "_GUESSED_FEATURES", guessed)
    X, y = waves(500, noise=noise)
    map_ = RandomFourier(64, gamma=0.5, random_state=0)
    model = KernelRegressor(map_, alpha="evidence", scale=False).fit(X, y)
    (normal,) = model._normal_equations(model._statistics)
    search = choose_evidence(FactoredEvidence(normal))
    assert search.alpha == pytest.approx(model.alpha_, rel=0.02)
    tried = np.isfinite(search.scores)
    assert guessed < 512 or np.count_nonzero(tried) <= 9
    assert search.scores[search.alphas == search.alpha] == search.scores[tried].min()


@pytest.mark.parametrize(
    ("n", "D", "folds"), [(3000, 64, LEFT_OUT_FOLDS), (300, 64, FEW_ROWS_FOLDS)]
)
@pytest.mark.parametrize("weighted", [False, True])
def test_fold_models_are_those_of_the_other_rows(n, D, folds, weighted):
    X, y = waves(n)
    weight = np.random.default_rng(1).integers(1, 4, n).astype(float) if weighted else None
    map_ = RandomFourier(D, gamma=0.5, random_state=0)
    model = KernelRegressor(map_, alpha=0.3, scale=False).fit(X, y, weight)
    models = model._measured_intervals().models
    fold = fold_numbers(row_keys(X), folds)
    assert len(models.coef) == folds
    for k in (0, folds // 2, folds - 1):
        others = fold != k
        w = None if weight is None else weight[others]
        refitted = KernelRegressor(map_, alpha=0.3, scale=False).fit(X[others], y[others], w)
        np.testing.assert_allclose(models.coef[k, :, 0], refitted.feature_coef_, atol=1e-9)
        assert models.intercept[k, 0] == pytest.approx(refitted.intercept_, abs=1e-9)


def test_more_features_hold_out_one_part():
    X, y = waves(5000)
    model = KernelRegressor(RandomFourier(1100, random_state=0), alpha=1.0, uncertainty=True)
    models = model.fit(X, y)._intervals.models
    assert models.coef.shape == (1, 1100, 1)
    assert models.count == 4
    held_out = fold_numbers(row_keys(X), 4) == 0
    assert len(model._intervals.residuals) == np.count_nonzero(held_out)


@pytest.mark.parametrize("n", [300, 3000])
@pytest.mark.parametrize("scaled", [False, True])
def test_intervals_are_those_of_the_definition(n, scaled):
    model, _X, _y = fitted(n, 64, alpha=0.3)
    new = waves(40, seed=5)[0]
    intervals = model._measured_intervals()
    Z, fold = features_of(model, new), intervals.fold
    K = len(intervals.models.coef)
    F = np.stack(
        [Z @ intervals.models.coef[k, :, 0] + intervals.models.intercept[k, 0] for k in range(K)],
        axis=1,
    )
    R = intervals.residuals[:, 0]
    unit = np.ones(len(new))
    if scaled:
        R = R / intervals.scale
        unit = model.predict(new, return_std=True)[1] / np.sqrt(model.noise_variance_)
    upper = np.sort(F[:, fold] + unit[:, None] * R, axis=1)
    lower = np.sort(F[:, fold] - unit[:, None] * R, axis=1)
    rank = int(np.ceil(0.8 * (n + 1)))
    ends = model.predict_interval(new, 0.8, scaled=scaled)
    np.testing.assert_allclose(ends[:, 1], upper[:, rank - 1], atol=1e-6)
    np.testing.assert_allclose(ends[:, 0], lower[:, n - rank], atol=1e-6)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["heteroscedastic", "heavy-tailed", "large"])
@pytest.mark.parametrize("scaled", [False, True])
def test_intervals_cover_new_rows(kind, scaled):
    def targets(X, seed):
        rng = np.random.default_rng(seed)
        noise = {
            "heteroscedastic": np.abs(X[:, 0]) * rng.normal(size=len(X)),
            "heavy-tailed": rng.standard_t(2, size=len(X)),
            "large": rng.normal(size=len(X)),
        }[kind]
        return (np.sin(2 * X).sum(axis=1) + noise) * (1e6 if kind == "large" else 1.0)

    found = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X, new = rng.normal(size=(1000, 2)), rng.normal(size=(1000, 2))
        model = KernelRegressor(RandomFourier(128, random_state=seed)).fit(X, targets(X, 10 + seed))
        low, high = model.predict_interval(new, 0.9, scaled=scaled).T
        truth = targets(new, 20 + seed)
        found.append(np.mean((truth >= low) & (truth <= high)))
    assert np.mean(found) == pytest.approx(0.9, abs=0.02)


def test_standard_deviations_follow_the_unit_of_the_targets():
    X, y = waves(400)
    new = waves(10, seed=1)[0]
    model = KernelRegressor(RandomFourier(64, random_state=0), alpha=0.1)
    std = model.fit(X, y).predict(new, return_std=True)[1]
    large = model.fit(X, 1e6 * y + 1e9).predict(new, return_std=True)[1]
    np.testing.assert_allclose(large, 1e6 * std, rtol=1e-4)


def test_outputs_have_their_own_noise():
    X, y = waves(500)
    noisy = y + np.random.default_rng(3).normal(size=500)
    model = KernelRegressor(RandomFourier(64), alpha=0.1, random_state=0)
    new = waves(20, seed=1)[0]
    both = model.fit(X, np.column_stack([y, noisy]))
    mean, std = both.predict(new, return_std=True)
    ends = both.predict_interval(new)
    assert mean.shape == std.shape == (20, 2)
    assert ends.shape == (20, 2, 2)
    assert both.noise_variance_.shape == (2,)
    for output, targets in enumerate((y, noisy)):
        alone = model.fit(X, targets)
        deviations = alone.predict(new, return_std=True)[1]
        np.testing.assert_allclose(deviations, std[:, output], rtol=1e-5)  # by float32 products
        np.testing.assert_allclose(alone.predict_interval(new), ends[:, output])


@pytest.mark.parametrize("feature_map", [Nystroem(64), Homogeneous(), GCWS(16), "linear"])
def test_covariances_have_the_variances_on_their_diagonal(feature_map):
    X, y = waves(300)
    model = KernelRegressor(feature_map, alpha=0.5, random_state=0).fit(np.abs(X), y)
    new = np.abs(waves(15, seed=1)[0])
    mean, cov = model.predict(new, return_cov=True)
    again, std = model.predict(new, return_std=True)
    np.testing.assert_array_equal(mean, again)
    np.testing.assert_allclose(np.sqrt(np.diag(cov)), std)
    np.testing.assert_allclose(cov, cov.T, atol=1e-12)
    assert np.linalg.eigvalsh(cov).min() > 0


@pytest.mark.parametrize(("n", "D"), [(3000, 64), (100, 128)])
def test_sampled_functions_have_the_moments_of_the_posterior(n, D):
    model, X, _ = fitted(n, D, alpha=0.5)
    new = X[:5] + 0.3
    samples = model.sample_functions(3000, random_state=0)
    values = np.array([sample.predict(new) for sample in samples])
    posterior: Posterior = model._measured_posterior()
    expected = posterior.covariance(features_of(model, new)) * model.noise_variance_
    spread = np.sqrt(np.diag(expected))
    assert np.abs(values.mean(axis=0) - model.predict(new)).max() < 4 * spread.max() / np.sqrt(3000)
    np.testing.assert_allclose(np.cov(values.T), expected, atol=0.1 * spread.max() ** 2)
    assert not np.array_equal(values[0], values[1])
    again = model.sample_functions(1, random_state=0)[0]
    np.testing.assert_allclose(again.predict(new), values[0], rtol=1e-9)


def test_a_file_has_them_where_they_were_asked_for(tmp_path):
    X, y = waves(400)
    new = waves(30, seed=1)[0]
    for uncertainty in (True, False):
        model = KernelRegressor(RandomFourier(64, random_state=0), uncertainty=uncertainty)
        expected = model.fit(X, y).predict(new, return_std=True)
        mercer.save(model, tmp_path / "model.mercer")
        loaded = mercer.load(tmp_path / "model.mercer")
        if uncertainty:
            for a, b in zip(loaded.predict(new, return_std=True), expected, strict=True):
                np.testing.assert_array_equal(a, b)
            ends = model.predict_interval(new, 0.8, scaled=True)
            np.testing.assert_array_equal(loaded.predict_interval(new, 0.8, scaled=True), ends)
            assert loaded.noise_variance_ == model.noise_variance_
        else:
            with pytest.raises(ValueError, match="uncertainty=True"):
                loaded.predict(new, return_std=True)
            with pytest.raises(AttributeError, match="uncertainty=True"):
                _ = loaded.noise_variance_


def test_files_of_predictions_have_columns_for_them(tmp_path):
    import pandas as pd

    X, y = waves(400)
    model = KernelRegressor(RandomFourier(64, random_state=0)).fit(X, y)
    model.predict(X, tmp_path / "std.parquet", return_std=True)
    table = pd.read_parquet(tmp_path / "std.parquet")
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_array_equal(table["prediction"], mean)
    np.testing.assert_array_equal(table["std"], std)


@pytest.mark.full
def test_rows_of_files_and_of_chunks_have_the_same_measures(tmp_path):
    X, y = waves(3000)
    np.save(tmp_path / "rows.npy", np.column_stack([X, y]))
    stream = mercer.open_stream(tmp_path / "rows.npy", target=3)
    map_ = RandomFourier(64, random_state=0)
    of_file = KernelRegressor(map_, uncertainty=True).fit(stream)
    in_memory = KernelRegressor(map_, uncertainty=True).fit(X, y)
    for a, b in zip(
        of_file.predict(X[:9], return_std=True),
        in_memory.predict(X[:9], return_std=True),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    np.testing.assert_allclose(of_file.predict_interval(X[:9]), in_memory.predict_interval(X[:9]))


def test_dask_arrays_have_lazy_measures():
    array = pytest.importorskip("dask.array")
    model, X, _ = fitted(300, 64, alpha=0.3)
    lazy = array.from_array(X, chunks=(100, 3))
    mean, std = model.predict(lazy, return_std=True)
    # the matrix of the posterior is float32, and chunks are multiplied by it
    np.testing.assert_allclose(std.compute(), model.predict(X, return_std=True)[1], rtol=1e-5)
    np.testing.assert_allclose(mean.compute(), model.predict(X))
    ends = model.predict_interval(lazy, 0.8)
    np.testing.assert_allclose(ends.compute(), model.predict_interval(X, 0.8))


def test_what_is_not_known_is_refused(tmp_path):
    X, y = waves(100)
    map_ = RandomFourier(32, random_state=0)
    model = KernelRegressor(map_, alpha=0.1).fit(X, y)
    with pytest.raises(ValueError, match="needs at least 199 rows"):
        model.predict_interval(X, 0.995)
    for coverage in (0, 1, 90, "0.9", True):
        with pytest.raises(ValueError, match="between 0 and 1"):
            model.predict_interval(X, coverage)
    with pytest.raises(ValueError, match="not both"):
        model.predict(X, return_std=True, return_cov=True)
    for parameters in ({"penalty": "l1", "alpha": 1.0}, {"pca": 4}, {"alpha": 0.0}):
        with pytest.raises(ValueError, match="uncertainty=True needs penalty='l2'"):
            KernelRegressor(map_, uncertainty=True, **parameters).fit(X, y)
    with pytest.raises(ValueError, match="uncertainty=True"):
        KernelRegressor(map_).partial_fit(X, y).predict(X, return_std=True)
    for rows, groups in ((X[:1], None), (np.ones((50, 3)), None), (X, np.zeros(100))):
        model.fit(rows, y[: len(rows)], groups=groups)
        with pytest.raises(ValueError, match="all rows are equal, or in one group"):
            model.predict(X, return_std=True)
    with pytest.raises(ValueError, match="an alpha above 0"):
        KernelRegressor(map_, alpha=0.0).fit(X, y).predict(X, return_std=True)


def test_a_changed_training_array_changes_nothing():
    X, y = waves(300)
    model = KernelRegressor(RandomFourier(64, random_state=0)).fit(X, y)
    new = waves(5, seed=1)[0]
    X[:], y[:] = 0.0, 0.0
    first = model.predict(new, return_std=True)[1]
    X, y = waves(300)
    expected = KernelRegressor(RandomFourier(64, random_state=0)).fit(X, y)
    np.testing.assert_array_equal(first, expected.predict(new, return_std=True)[1])


def test_a_row_of_weight_3_is_three_rows():
    X, y = waves(300)
    new = np.concatenate([waves(20, seed=1)[0], np.full((1, 3), 9.0)])
    model = KernelRegressor(RandomFourier(256, gamma=0.5), alpha=0.01, random_state=0)
    weighted = model.fit(X, y, np.full(300, 3.0)).predict(new, return_std=True)[1]
    repeated = model.fit(np.repeat(X, 3, axis=0), np.repeat(y, 3)).predict(new, return_std=True)[1]
    np.testing.assert_allclose(weighted, repeated, rtol=1e-3)


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("D", [64, 600], ids=["float64", "float32, from the Gram matrix"])
def test_intervals_of_weighted_rows_are_those_of_repeated_rows(D, scaled):
    """Copies of a row are left out with it, and so they are in the variance without it."""
    X, y = waves(300)
    counts = np.random.default_rng(0).integers(1, 4, 300)
    new = np.concatenate([waves(20, seed=1)[0], np.full((1, 3), 3.0)])
    model = KernelRegressor(RandomFourier(D, gamma=0.5, random_state=0), alpha=0.3)
    weighted = model.fit(X, y, counts.astype(float)).predict_interval(new, 0.9, scaled=scaled)
    model.fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    repeated = model.predict_interval(new, 0.9, scaled=scaled)
    np.testing.assert_allclose(weighted, repeated, rtol=1e-4, atol=1e-4)


def test_rows_of_a_group_are_not_copies_of_each_other():
    X, y = waves(300)
    model = KernelRegressor(RandomFourier(64, gamma=0.5, random_state=0), alpha=0.3)
    scale = model.fit(X, y, groups=np.arange(300) // 2)._measured_intervals().scale
    own = model._measured_posterior().leverages(as_block(features_of(model, X)))
    np.testing.assert_allclose(np.sort(scale), np.sort(1 / np.sqrt(1 - own)), rtol=1e-6)


def test_parameters_that_are_set_later_change_no_measure():
    model, X, _ = fitted(300, 64, alpha=0.3)
    expected = fitted(300, 64, alpha=0.3)[0].predict(X, return_std=True)[1]
    model.set_params(fit_intercept=False, penalty="l1")
    np.testing.assert_allclose(model.predict(X, return_std=True)[1], expected, rtol=1e-6)


def test_equal_rows_far_from_the_others_are_fully_correlated():
    model, _, _ = fitted(300, 64, alpha=0.3)
    cov = model.predict(np.full((2, 3), 30.0), return_cov=True)[1]
    latent = cov - model.noise_variance_ * np.eye(2)
    np.testing.assert_allclose(latent, latent[0, 0], rtol=1e-6)


def smooth(n: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 5))
    f = np.sin(1.5 * X[:, 0]) * X[:, 1] + np.cos(X[:, 2] * X[:, 3])
    return X, f + 0.1 * rng.normal(size=n)


@pytest.mark.full
@pytest.mark.parametrize("n", [1000, 3000, 12_000])
def test_tiny_alphas_of_cross_validation_have_sensible_deviations(n):
    map_ = RandomFourier(512, gamma=0.2, random_state=0)
    model = KernelRegressor(map_, random_state=0).fit(*smooth(n))
    assert model.alpha_ < 1e-3
    new, truth = smooth(1000, seed=1)
    mean, std = model.predict(new, return_std=True)
    assert 0.6 < np.mean(np.abs(truth - mean) < std) < 0.85
    assert np.quantile(std, 0.9) < 3 * np.sqrt(np.mean((truth - mean) ** 2))


@pytest.mark.parametrize("alpha", ["auto", 1e-6])
def test_float32_rows_have_deviations(alpha):
    X, y = waves(3000, 1)
    map_ = RandomFourier(512, gamma=0.5, random_state=0)
    model = KernelRegressor(map_, alpha=alpha, random_state=0).fit(X.astype(np.float32), y)
    new, truth = waves(500, 1, seed=1)
    mean, std = model.predict(new.astype(np.float32), return_std=True)
    assert np.mean(np.abs(truth - mean) < std) == pytest.approx(0.68, abs=0.08)


@pytest.mark.full
@pytest.mark.parametrize("origin", [0.0, 1e4])
def test_maps_beside_an_exact_one_do_not_depend_on_the_origin(origin):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    y = X[:, 0] + np.sin(2 * X[:, 1]) + 0.1 * rng.normal(size=2000)
    maps = [RandomFourier(128, gamma=0.5), "linear"]
    model = KernelRegressor(maps, alpha=0.1, scale=False, random_state=0)
    new = np.array([[10.0, 0.0], [-100.0, 0.0]])
    expected = model.fit(X, y).predict(new, return_std=True)[1]
    shift = [origin, 0.0]
    std = model.fit(X + shift, y).predict(new + shift, return_std=True)[1]
    np.testing.assert_allclose(std, expected, rtol=0.2)
    assert std[1] > 5 * std[0]


@pytest.mark.parametrize(
    "change",
    [
        {"sketch": np.full((2, 64), np.nan)},
        {"sketch": np.ones((2, 63))},
        {"n": -5.0},
        {"alpha": np.inf},
        {"intercept_leverage": -2.0},
        {"noise_variance": -np.ones(1)},
        {"matrix": np.ones((3, 63))},
        {"exact": {"matrix": np.ones((3, 7))}},
        {"exact": {"alpha": 0.0}},
        {"exact": {"share": -1.0}},
    ],
)
def test_forged_posteriors_are_refused(change, tmp_path):
    X, y = waves(300)
    model = KernelRegressor(RandomFourier(64), uncertainty=True, random_state=0).fit(X, y)
    change = dict(change)
    if "exact" in change:
        change["exact"] = replace(model._posterior.exact, **change["exact"])
    model._posterior = replace(model._posterior, **change)
    mercer.save(model, tmp_path / "forged.mercer")
    with pytest.raises(ValueError, match="forged"):
        mercer.load(tmp_path / "forged.mercer")


@pytest.mark.slow
def test_intervals_of_diabetes_have_their_nominal_coverage():
    X, y = load_diabetes(return_X_y=True)
    nominal, found = (0.8, 0.9, 0.95), []
    for seed in range(20):
        order = np.random.default_rng(seed).permutation(len(X))
        train, test = order[:309], order[309:]
        model = KernelRegressor(RandomFourier(256, random_state=seed)).fit(X[train], y[train])
        ends = [model.predict_interval(X[test], coverage) for coverage in nominal]
        found.append([np.mean((y[test] >= e[:, 0]) & (y[test] <= e[:, 1])) for e in ends])
    assert np.abs(np.mean(found, axis=0) - nominal).max() < 0.02
