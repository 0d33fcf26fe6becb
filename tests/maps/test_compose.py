from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline, make_union

from mercer import Composed, RandomFourier, Stacked
from mercer.kernels import Gaussian, Laplacian

X = np.random.default_rng(0).normal(size=(60, 5))


def fourier(gamma: float = 0.3, seed: int = 0, **params) -> RandomFourier:
    return RandomFourier(32, gamma=gamma, random_state=seed, **params)


def test_one_after_the_other_is_a_pipeline():
    both = fourier(0.3, 1) >> fourier(1.0, 2) >> fourier(2.0, 3)
    assert isinstance(both, Composed)
    assert len(both.maps) == 3
    np.testing.assert_allclose(
        both.fit_transform(X), make_pipeline(*both.maps).fit_transform(X), atol=1e-13
    )


def test_side_by_side_is_a_union():
    both = fourier(0.3, 1) + fourier(1.0, 2) + fourier(2.0, 3)
    assert isinstance(both, Stacked)
    assert len(both.maps) == 3
    np.testing.assert_allclose(
        both.fit_transform(X), make_union(*both.maps).fit_transform(X), atol=1e-13
    )


def test_both_kinds_are_flat_and_bind_as_python_does():
    a, b, c, d = (fourier(seed=seed) for seed in range(4))
    assert len(((a >> b) >> (c >> d)).maps) == 4
    assert len(((a + b) + (c + d)).maps) == 4
    assert len((a >> (b >> c)).maps) == len((a + (b + c)).maps) == 3
    mixed = a + b >> c
    assert isinstance(mixed, Composed) and isinstance(mixed.maps[0], Stacked)


def test_parameters_are_named_as_in_make_pipeline():
    both = fourier(0.3, 1) >> fourier(1.0, 2)
    assert both.get_params()["randomfourier-2__gamma"] == 1.0
    both.set_params(**{"randomfourier-2__gamma": 5.0, "randomfourier-1__n_components": 8})
    assert both.maps[1].gamma == 5.0
    assert both.fit(X).maps_[0].n_components == 8
    both.set_params(**{"randomfourier-1": fourier(9.0)})
    assert both.maps[0].gamma == 9.0


def test_fit_does_not_fit_the_given_maps():
    part = fourier()
    both = (part >> fourier(1.0)).fit(X)
    assert not hasattr(part, "tile_transform_")
    assert both.maps[0] is part
    assert [len(str(seed)) > 0 for seed in both.seed_] == [True, True]
    assert clone(both).get_params()["randomfourier-1__gamma"] == 0.3


def test_kernels_compose():
    both = (fourier(0.3) >> fourier(1.0)).fit(X)
    assert both.kernel_ == Gaussian(1.0).over(Gaussian(0.3))
    assert (fourier(0.3) + fourier(0.7, kernel="laplacian")).fit(X).kernel_ == Gaussian(
        0.3
    ) + Laplacian(0.7)


def test_a_composition_without_an_exact_kernel_raises_on_access_and_still_transforms():
    both = (fourier(0.3) >> fourier(1.0, kernel="laplacian")).fit(X)
    with pytest.raises(
        AttributeError, match=r"no exact kernel: Laplacian.*depends on more than inner products"
    ):
        _ = both.kernel_
    features = both.maps_[0].transform(X)
    np.testing.assert_allclose(both.limit_(X), Laplacian(1.0)(features), atol=1e-13)
    assert both.transform(X).shape == (60, 32)


def test_the_limit_of_a_composition_is_that_of_its_last_map_on_the_features_it_gets():
    both = (fourier(0.3) >> fourier(1.0)).fit(X)
    np.testing.assert_allclose(
        both.limit_(X), Gaussian(1.0)(both.maps_[0].transform(X)), atol=1e-13
    )


def test_statistics_of_a_map_in_a_composition_are_of_features():
    both = (fourier(0.3) >> RandomFourier(16, gamma="median", random_state=0)).fit(X)
    alone = RandomFourier(16, gamma="median", random_state=0).fit(both.maps_[0].transform(X))
    assert both.maps_[1].gamma_ == pytest.approx(alone.gamma_, rel=1e-12)


def test_feature_names_are_those_of_pipelines_and_unions():
    assert list((fourier() >> fourier()).fit(X).get_feature_names_out()[:2]) == [
        "randomfourier0",
        "randomfourier1",
    ]
    names = (fourier() + fourier()).fit(X).get_feature_names_out()
    assert names[0] == "randomfourier-1__randomfourier0"
    assert names[-1] == "randomfourier-2__randomfourier31"


@pytest.mark.parametrize("maps", [[], [3], "ab", None])
def test_anything_but_a_list_of_maps_is_rejected(maps):
    for kind in (Composed, Stacked):
        with pytest.raises(
            ValueError, match=r"maps must be a list of at least one mercer map, got"
        ):
            kind(maps).fit(X)


def test_a_map_composes_with_maps_only():
    from sklearn.preprocessing import StandardScaler

    with pytest.raises(TypeError):
        _ = fourier() >> StandardScaler()
    with pytest.raises(TypeError):
        _ = fourier() + 3


def test_default_maps_compose():
    default = RandomFourier(8)
    for both in (
        default >> default,
        default + default,
        default + default >> default,
        default >> default + default,
    ):
        assert np.isfinite(both.fit(X).transform(X)).all()


def test_errors_in_fit_count_rows_from_the_start_of_the_data():
    rows = np.zeros((3000, 4))
    rows[2500, 1] = 1e300
    with pytest.raises(ValueError, match="row 2500, column 1"):
        (RandomFourier(8, gamma=1.0) >> RandomFourier(8)).fit(rows)


def test_a_generator_that_parts_share_gives_them_different_weights():
    generator = np.random.default_rng(0)
    parts = [RandomFourier(8, gamma=1.0, random_state=generator) for _ in range(2)]
    Z = (parts[0] + parts[1]).fit_transform(X)
    assert not np.allclose(Z[:, :8], Z[:, 8:])


def test_a_composition_that_is_no_longer_used_is_freed():
    import gc
    import weakref

    both = (fourier(0.3) >> fourier(1.0)).fit(X.astype(np.float32))
    both.transform(X.astype(np.float32))
    drawn = weakref.ref(both.tile_transform_)
    del both
    gc.collect()
    assert drawn() is None


def test_the_limit_of_a_composition_has_a_gram_matrix_on_sparse_rows_with_empty_columns():
    import scipy.sparse as sp

    import mercer

    sparse = sp.csr_array(X * [1, 0, 1, 0, 1])
    both = (fourier(0.3) >> fourier(1.0)).fit(sparse)
    np.testing.assert_allclose(mercer.gram(both.limit_, sparse), both.limit_(sparse), atol=1e-13)


def test_grid_search_reaches_every_part():
    from sklearn.linear_model import RidgeClassifier
    from sklearn.model_selection import GridSearchCV

    model = make_pipeline(
        RandomFourier(16, random_state=0) + RandomFourier(16, random_state=1), RidgeClassifier()
    )
    search = GridSearchCV(model, {"stacked__randomfourier-2__gamma": [0.01, 1.0]}, cv=2).fit(
        X, X[:, 0] > 0
    )
    assert search.best_params_["stacked__randomfourier-2__gamma"] in (0.01, 1.0)
