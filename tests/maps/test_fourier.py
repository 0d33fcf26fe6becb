"""What RandomFourier alone promises: its parameters, gammas, designs, and its errors."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import pdist
from sklearn.kernel_approximation import RBFSampler

from mercer import RandomFourier
from mercer.kernels import CosineRBF, Gaussian

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 6)) * [1, 2, 3, 4, 5, 6] + 3


def test_scale_is_that_of_scikit_learn_dense_and_sparse():
    for rows in (X, sp.csr_array(X), X.astype(np.float32)):
        ours = RandomFourier(8, gamma="scale").fit(rows).gamma_
        theirs = RBFSampler(gamma="scale").fit(rows)._gamma
        assert ours == pytest.approx(theirs, rel=1e-6 if rows.dtype == np.float32 else 1e-12)


def test_scale_is_one_when_all_values_are_equal():
    assert RandomFourier(8, gamma="scale").fit(np.full((5, 3), 7.0)).gamma_ == 1.0
    assert RandomFourier(8, gamma="scale").fit(np.full((3000, 7), 0.1)).gamma_ == 1.0
    assert RandomFourier(8, gamma="median").fit(np.full((5, 3), 7.0)).gamma_ == 1.0
    assert RandomFourier(8, gamma="median").fit(np.full((1, 3), 7.0)).gamma_ == 1.0


def test_median_is_half_over_the_median_of_the_distance_that_gamma_multiplies():
    assert RandomFourier(8, gamma="median").fit(X).gamma_ == pytest.approx(
        0.5 / np.median(pdist(X, "sqeuclidean"))
    )
    laplacian = RandomFourier(8, kernel="laplacian", gamma="median").fit(X)
    assert laplacian.gamma_ == pytest.approx(0.5 / np.median(pdist(X, "cityblock")))
    cosine = RandomFourier(8, kernel="cosine-rbf", gamma="median").fit(X)
    assert cosine.gamma_ == pytest.approx(0.5 / np.median(pdist(X, "cosine")))


def test_median_of_many_rows_is_that_of_a_sample():
    rows = np.random.default_rng(1).normal(size=(5000, 3))
    exact = 0.5 / np.median(pdist(rows[:2000], "sqeuclidean"))
    assert RandomFourier(8, gamma="median", random_state=0).fit(rows).gamma_ == pytest.approx(
        exact, rel=0.1
    )


@pytest.mark.parametrize("kernel", ["gaussian", "cauchy", "matern", "laplacian", "cosine-rbf"])
def test_auto_gamma_is_the_median(kernel):
    auto, named = (
        RandomFourier(8, kernel=kernel, gamma=gamma).fit(X).gamma_ for gamma in ("auto", "median")
    )
    assert auto == named


@pytest.mark.parametrize(
    ("d", "design"),
    [
        (1, "sobol"),
        (32, "sobol"),
        (33, "orthogonal"),
        (63, "orthogonal"),
        (64, "hadamard"),
        (16384, "hadamard"),
        (16385, "iid"),
    ],
)
def test_auto_design_goes_by_kernel_and_columns(d, design):
    rows = sp.csr_array((2, d))
    assert RandomFourier(4, gamma=1.0).fit(rows).design_ == design
    assert RandomFourier(4, kernel="laplacian", gamma=1.0).fit(rows).design_ == "iid"


@pytest.mark.parametrize("n_components", [1, 2, 3, 7, 64, 65])
@pytest.mark.parametrize("form", ["paired", "offset"])
def test_there_are_as_many_columns_as_asked_for(n_components, form):
    Z = RandomFourier(n_components, form=form, gamma=0.1, random_state=0).fit_transform(X)
    assert Z.shape == (80, n_components)


def test_paired_rows_have_norm_one_and_normalized_ones_too():
    for form, normalize in (("paired", False), ("offset", True)):
        Z = RandomFourier(
            64, form=form, normalize=normalize, gamma=0.1, random_state=0
        ).fit_transform(X)
        np.testing.assert_allclose(np.linalg.norm(Z, axis=1), 1, rtol=1e-13)


@pytest.mark.full
@pytest.mark.parametrize("n_components", [1, 3])
def test_an_odd_number_of_columns_is_unbiased(n_components):
    rows = X[:2] / 10
    means = [
        np.prod(
            RandomFourier(
                n_components, gamma=1.0, design="iid", random_state=s, n_jobs=1
            ).fit_transform(rows),
            axis=0,
        ).sum()
        for s in range(4000)
    ]
    assert np.mean(means) == pytest.approx(
        Gaussian(1.0)(rows)[0, 1], abs=4 * np.std(means) / np.sqrt(4000)
    )


def test_offset_equals_rbf_sampler_when_given_its_weights():
    """The same formula, sqrt(2/D) cos(x.w + b): put scikit-learn's draw into our stages."""
    from mercer.maps.stages.elementwise import Cos
    from mercer.maps.stages.fourier import FourierFeatures
    from mercer.maps.stages.linear import Matrix

    theirs = RBFSampler(gamma=0.2, n_components=50, random_state=0).fit(X)
    panel = Matrix(theirs.random_weights_ / (2 * np.pi))
    link = Cos(np.sqrt(2 / 50), theirs.random_offset_ / (2 * np.pi))
    np.testing.assert_allclose(
        FourierFeatures(panel, link, panel.max_norm())(X), theirs.transform(X), atol=1e-12
    )


def test_cosine_rbf_ignores_the_length_of_rows():
    phi = RandomFourier(512, kernel="cosine-rbf", gamma=3.0, random_state=0).fit(X)
    np.testing.assert_allclose(phi.transform(X * 1e-200), phi.transform(X), atol=1e-12)
    zero = np.vstack([np.zeros(6), X[:3]])
    Z = RandomFourier(40000, kernel="cosine-rbf", gamma=3.0, random_state=0).fit_transform(zero)
    np.testing.assert_allclose(Z @ Z.T, CosineRBF(3.0)(zero), atol=0.02)


def test_float32_keeps_its_word_on_the_error_of_a_projection():
    """Errors relative to eps (4 + |x| |w|) of the feature's scale, with |w| in radians.

    The root mean square is below a quarter, and 1 in 500 at most is above 1.
    """
    rows = (np.random.default_rng(0).normal(size=(50, 300)) * 30).astype(np.float32)
    for design in ("iid", "hadamard"):
        phi = RandomFourier(256, gamma=0.01, design=design, random_state=0).fit(rows)
        error = np.abs(phi.transform(rows) - phi.transform(rows.astype(np.float64)))
        reach = 2 * np.pi * phi.tile_transform_.stages[0].max_norm
        bound = (
            np.finfo(np.float32).eps * (4 + np.linalg.norm(rows, axis=1) * reach) * np.sqrt(2 / 256)
        )
        relative = error / bound[:, None]
        assert np.sqrt(np.mean(relative**2)) < 0.25
        assert np.mean(relative > 1) <= 1 / 500


def test_values_that_float32_cannot_project_are_projected_in_float64():
    rows = np.zeros((2, 4), np.float32)
    rows[1, 2] = 3e9
    with np.errstate(all="raise"):
        Z = RandomFourier(64, gamma=1.0, random_state=0).fit(rows * 0).transform(rows)
    assert np.isfinite(Z).all()
    assert abs(Z[0] @ Z[1]) < 0.7  # RBFSampler and plain float32 phases would be constant


def test_values_that_no_float_can_project_are_refused_by_place():
    rows = np.zeros((3000, 4), np.float32)
    rows[2500, 2] = 3e38
    phi = RandomFourier(64, gamma=1.0, random_state=0).fit(rows[:10])
    with pytest.raises(
        ValueError,
        match=r"Values too large for this kernel: .* got 3e\+38 at row 2500, column 2; .* Scale "
        r"the data",
    ):
        phi.transform(rows)
    with pytest.raises(ValueError, match=r"row 2500, column 2"):
        phi.transform(sp.csr_array(rows))


def test_data_whose_squares_are_beyond_float64_are_refused():
    rows = np.array([[1e200, 0.0], [0.0, 1.0]])
    with pytest.raises(
        ValueError,
        match=r"needs float64 rows with \|x\| below 2e\+99 to fit to, got 1e\+200 at row 0, "
        r"column 0",
    ):
        RandomFourier(8).fit(rows)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"n_components": 0}, r"n_components must be an integer of at least 1, or 'auto', got 0"),
        ({"n_components": -5}, r"at least 1, or 'auto', got -5"),
        ({"n_components": 2.5}, r"an integer of at least 1, or 'auto', got 2.5"),
        ({"n_components": True}, r"an integer of at least 1, or 'auto', got True"),
        (
            {"kernel": "gausian"},
            r"kernel must be one of 'gaussian', .* got 'gausian'. Did you mean 'gaussian'\?",
        ),
        ({"kernel": 3}, r"kernel must be one of"),
        ({"design": "quasi"}, r"design must be one of 'auto', 'iid', .* got 'quasi'"),
        ({"form": "sincos"}, r"form must be 'paired' or 'offset', got 'sincos'"),
        (
            {"gamma": 0.0},
            r"gamma must be a finite number above 0, or one of 'auto', 'scale', 'median', got 0.0",
        ),
        ({"gamma": np.nan}, r"gamma must be a finite number above 0.* got nan"),
        ({"gamma": "scott"}, r"above 0, or one of 'auto', 'scale', 'median', got 'scott'"),
        ({"gamma": None}, r"gamma must be a finite number above 0.* got None"),
        (
            {"kernel": "laplacian", "gamma": "scale"},
            r"gamma='scale' is for kernels of squared distances.* Use 'median'",
        ),
        (
            {"kernel": "cosine-rbf", "gamma": "scale"},
            r"gamma='scale' is for kernels of squared distances.* Use 'median'",
        ),
        ({"gamma": 1e308}, r"gamma=1e\+308 gives frequencies beyond float64. Use a smaller one"),
        (
            {"kernel": "laplacian", "design": "orthogonal"},
            r"design='orthogonal' needs frequencies whose density .* Use design='iid' or 'sobol'",
        ),
        (
            {"kernel": "laplacian", "design": "hadamard"},
            r"design='hadamard' needs frequencies whose density",
        ),
        ({"kernel": "matern", "nu": 1.0}, r"nu must be 0.5, 1.5 or 2.5, got 1.0"),
        ({"normalize": "yes"}, r"normalize must be True or False, got 'yes'"),
        ({"random_state": -1}, r"random_state must be None, an integer"),
        ({"n_jobs": 0}, r"n_jobs must be None, an integer of at least 1, or negative"),
    ],
)
def test_parameters_that_are_wrong_are_refused_in_fit_with_a_sentence(params, words):
    with pytest.raises(ValueError, match=words):
        RandomFourier(**{"n_components": 8, **params}).fit(X)


def test_wide_sparse_rows_are_not_made_dense(monkeypatch):
    wide = sp.random_array((50, 20000), density=1e-3, format="csr", rng=np.random.default_rng(0))
    phi = RandomFourier(16, gamma=1.0, random_state=0).fit(wide)
    monkeypatch.setattr(sp.csr_array, "toarray", None)
    assert phi.transform(wide).shape == (50, 16)


def test_the_repr_shows_what_was_set():
    assert repr(RandomFourier(64, gamma=0.5)) == "RandomFourier(gamma=0.5, n_components=64)"


def test_the_median_of_wide_sparse_rows_needs_only_the_columns_in_use(monkeypatch):
    wide = sp.random_array((50, 200_000), density=1e-4, format="csr", rng=np.random.default_rng(0))
    exact = 0.5 / np.median(pdist(wide[:, np.unique(wide.indices)].toarray(), "cityblock"))
    made = []
    plain = sp.csr_array.toarray
    monkeypatch.setattr(
        sp.csr_array,
        "toarray",
        lambda self, *args, **kwargs: made.append(self.shape) or plain(self),
    )
    assert RandomFourier(8, kernel="laplacian").fit(wide).gamma_ == pytest.approx(exact)
    assert made
    assert all(columns < 1100 for _, columns in made)


def test_float32_is_used_only_while_it_resolves_a_phase():
    """At half a turn of float32 error the features must come from float64: right to a hundredth,
    not to a turn.
    """
    phi = RandomFourier(512, gamma=0.5, design="iid", random_state=0).fit(np.zeros((1, 4)))
    waves = phi.tile_transform_.stages[0]
    rows = (RNG.normal(size=(20, 4)) * 0.25 / np.finfo(np.float32).eps / waves.max_norm).astype(
        np.float32
    )
    turns = rows.astype(np.float64) @ waves.linear.panel.astype(np.float32).astype(np.float64)
    expected = np.sqrt(2 / 512) * np.cos(2 * np.pi * (turns - np.rint(turns)))
    np.testing.assert_allclose(phi.transform(rows)[:, 0::2], expected, atol=0.01 * np.sqrt(2 / 512))


def test_fit_draws_with_one_blas_thread():
    from threadpoolctl import threadpool_info

    seen = []

    class Watched(RandomFourier):
        def build(self, rng, d, statistics):
            seen.extend(
                info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"
            )
            return super().build(rng, d, statistics)

    Watched(8, gamma=1.0).fit(X)
    assert seen
    assert set(seen) == {1}


def test_asking_an_unfitted_map_for_its_kernel_says_that_it_is_not_fitted():
    from sklearn.exceptions import NotFittedError

    for unfitted in (
        RandomFourier(),
        RandomFourier() >> RandomFourier(),
        RandomFourier() + RandomFourier(),
    ):
        with pytest.raises(NotFittedError, match="is not fitted yet"):
            _ = unfitted.kernel_


def test_masked_entries_are_refused():
    masked = np.ma.masked_array(X, mask=X > 10)
    with pytest.raises(ValueError, match="RandomFourier does not accept masked entries, got"):
        RandomFourier(8).fit(masked)
    RandomFourier(8).fit(np.ma.masked_array(X, mask=False))


def test_a_wrong_width_is_told_without_reading_every_entry(monkeypatch):
    phi = RandomFourier(8, gamma=1.0).fit(np.zeros((10, 5)))
    monkeypatch.setattr("numpy.ndenumerate", None)
    with pytest.raises(ValueError, match="has 6 features, but RandomFourier is expecting 5"):
        phi.transform(np.zeros((10, 6)))


def test_out_may_lie_beside_the_input_in_one_buffer():
    buffer = np.zeros((50, 12))
    buffer[:, :4] = X[:50, :4]
    phi = RandomFourier(8, gamma=0.1, random_state=0).fit(buffer[:, :4])
    expected = phi.transform(buffer[:, :4].copy())
    np.testing.assert_array_equal(phi.transform(buffer[:, :4], out=buffer[:, 4:]), expected)
