"""Every public estimator, made by its default constructor, passes scikit-learn's
check_estimator.
"""

import inspect

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.datasets import make_blobs
from sklearn.utils.estimator_checks import check_estimator
from threadpoolctl import threadpool_limits

import mercer
from mercer import CompressiveFourier, KernelClassifier, RandomFourier, RandomProjection, certify
from mercer.maps import every_map

PUBLIC = [
    name
    for name in mercer.__all__
    if isinstance(getattr(mercer, name), type) and issubclass(getattr(mercer, name), BaseEstimator)
]
OF_MAPS = {"Composed", "Stacked"}  # whose parameter is the maps that they are made of


def default(name: str) -> BaseEstimator:
    cls = getattr(mercer, name)
    return cls([RandomFourier(64, random_state=0)]) if name in OF_MAPS else cls()


def tier(name: str) -> list[pytest.MarkDecorator]:
    """Return the marks of a class.

    Models of 1,024 features take half of a minute; those of few are checked in test_estimators.
    Maps that compute poles in each of a hundred fits take two seconds or more.
    """
    if name.startswith("Kernel"):
        return [pytest.mark.slow]
    return [pytest.mark.full] if name in ("Chi2Series", "ExpChi2") else []


@pytest.mark.parametrize("name", [pytest.param(name, marks=tier(name)) for name in PUBLIC])
@pytest.mark.filterwarnings("ignore")
def test_check_estimator_passes_with_the_default_constructor(name):
    with threadpool_limits(
        1, user_api="blas"
    ):  # threads of BLAS wait for each other on a loaded machine
        results = check_estimator(default(name), on_fail=None, on_skip=None)
    others = [one for one in results if one["status"] != "passed"]
    assert [
        (one["check_name"], one["exception"]) for one in others if one["status"] != "skipped"
    ] == []
    assert [one["check_name"] for one in others if "array_api" not in one["check_name"]] == []
    assert len(results) - len(others) >= 40


def test_only_compositions_need_a_parameter():
    required = {
        name
        for name in PUBLIC
        for parameter in inspect.signature(getattr(mercer, name)).parameters.values()
        if parameter.default is parameter.empty
    }
    assert required == OF_MAPS
    assert {cls.__name__ for cls in every_map()} <= set(PUBLIC)


@pytest.mark.parametrize("d", [1, 10, 50, 51, 200])
@pytest.mark.filterwarnings("ignore:Nystroem. n_components=256 is more than the 30 rows")
def test_default_maps_fit_any_number_of_columns(d):
    X = np.random.default_rng(0).random((30, d))
    for cls in every_map():
        Z = default(cls.__name__).fit_transform(X)
        assert Z.shape[0] == 30
        assert np.isfinite(Z.sum())


@pytest.mark.parametrize(
    ("method", "d", "m"),
    [
        ("orthoprojector", 10, 10),
        ("bernoulli", 50, 50),
        ("hadamard", 60, 50),
        ("gaussian", 10, 50),
        ("gaussian", 60, 50),
    ],
)
def test_auto_measurements_are_50_and_at_most_the_columns_of_an_orthogonal_projection(method, d, m):
    X = np.random.default_rng(0).normal(size=(20, d))
    assert RandomProjection(method=method, random_state=0).fit(X).n_components_ == m
    phi = CompressiveFourier(64, method=method, random_state=0).fit(X)
    assert phi.n_measurements_ == m
    same = CompressiveFourier(64, n_measurements=m, method=method, random_state=0).fit(X)
    np.testing.assert_array_equal(phi.transform(X), same.transform(X))


def test_a_default_projection_of_few_columns_loses_nothing():
    X = np.random.default_rng(0).normal(size=(20, 10))
    Z = RandomProjection(random_state=0).fit_transform(X)
    np.testing.assert_allclose(Z @ Z.T, X @ X.T, rtol=0, atol=1e-12)
    phi = CompressiveFourier(64, random_state=0).fit(X)
    np.testing.assert_allclose(phi.limit_(X), phi.kernel_(X), rtol=0, atol=1e-12)


@pytest.mark.parametrize("cls", [RandomProjection, CompressiveFourier])
def test_other_words_than_auto_are_refused(cls):
    name = "n_components" if cls is RandomProjection else "n_measurements"
    with pytest.raises(
        ValueError, match=f"{name} must be an integer of at least 1, or 'auto', got 'all'"
    ):
        cls(**{name: "all"}).fit(np.eye(3))


def test_a_certificate_knows_the_size_that_auto_is():
    X = np.random.default_rng(0).normal(size=(200, 80))
    found = certify(RandomProjection(random_state=0).fit(X[:100]), X[100:], pairs=500, error=0.5)
    given = certify(
        RandomProjection(50, random_state=0).fit(X[:100]), X[100:], pairs=500, error=0.5
    )
    assert (found.size, found.needed) == (given.size, given.needed) == (50, given.needed)
    both = (mercer.Scaled() >> RandomProjection(random_state=0)).fit(X[:100])
    assert certify(both, X[100:], pairs=500, error=0.5).size == 50


@pytest.mark.parametrize("d", [1, 2, 3, 8])
def test_a_certificate_of_as_many_measurements_as_columns_asks_for_no_fewer(d):
    """Fewer lose most of an inner product of so few columns; at d all that is left is rounding,
    which is on no law.
    """
    X = np.random.default_rng(0).normal(size=(200, d))
    found = certify(RandomProjection(random_state=0).fit(X[:100]), X[100:], pairs=500, error=0.01)
    assert found.relative < 1e-14
    assert found.needed == found.size == d


@pytest.mark.parametrize("factor", [0.01, 1.0, 1000.0])
def test_weights_of_classes_do_not_count_as_rows_where_alpha_is_chosen(factor):
    X, y = make_blobs(60, centers=3, cluster_std=3.0, random_state=0)
    phi = RandomFourier(32, gamma=0.1, random_state=0)
    plain = KernelClassifier(phi).fit(X, y)
    scaled = KernelClassifier(phi, class_weight=dict.fromkeys(range(3), factor)).fit(X, y)
    assert scaled.alpha_ == pytest.approx(factor * plain.alpha_)
    np.testing.assert_allclose(scaled.feature_coef_, plain.feature_coef_, rtol=0, atol=1e-8)
    np.testing.assert_allclose(scaled.alpha_scores_, plain.alpha_scores_, rtol=1e-6)


def test_rows_of_a_class_of_weight_0_are_not_counted():
    X, y = make_blobs(60, centers=3, cluster_std=3.0, random_state=0)
    phi = RandomFourier(32, gamma=0.1, random_state=0)
    model = KernelClassifier(phi, class_weight={0: 5.0, 1: 5.0, 2: 0.0}).fit(X, y)
    two = KernelClassifier(phi).fit(X[y < 2], y[y < 2])
    assert model.alpha_ == pytest.approx(5 * two.alpha_)
