"""Run the battery and scikit-learn's checks on every case of every map.

Deliberately wrong maps show that the battery can fail.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import (
    check_dataframe_column_names_consistency,
    check_global_output_transform_pandas,
    check_global_set_output_transform_polars,
    check_readonly_memmap_input,
    check_set_output_transform,
    check_set_output_transform_pandas,
    check_set_output_transform_polars,
    check_transformer_get_feature_names_out,
    check_transformer_get_feature_names_out_pandas,
    parametrize_with_checks,
)
from tests.helpers.battery import CHECKS, data, dense, same

from mercer import KernelRegressor
from mercer.maps import every_map, registry
from mercer.maps._transform import Chain
from mercer.maps.base import Map, Rate
from mercer.maps.exp_chi2 import ExpChi2
from mercer.maps.fourier import RandomFourier
from mercer.maps.hellinger import Hellinger
from mercer.maps.stages.base import Stage
from mercer.maps.stages.elementwise import Cos


def name(value: Map | str) -> str:
    return " ".join(repr(value).split()) if isinstance(value, Map) else value


def applies(case: Map, check: str) -> bool:
    if check == "exact_maps_are_exact":
        return case.rate is None
    if check == "a_larger_size_extends_the_weights":
        return case.nested and case.size_parameter is not None
    if "limit" in check and case.rate is not None and clone(case).fit(data(case)).limit_ is None:
        return False  # no closed form to approach
    if check == "draws_average_to_the_limit":
        return isinstance(case.rate, Rate)
    return case.rate is not None or "limit" not in check  # an exact map has nothing to approach


CASES = [case for cls in every_map() for case in cls.cases()]
CASES += [Hellinger() >> RandomFourier(64, gamma=0.5, design="iid", random_state=1)]


def first_of_each(key: Callable[[Map], Hashable]) -> list[Map]:
    return list({key(case): case for case in reversed(CASES)}.values())


FIRST = first_of_each(type)
FIRST_OF_EACH_KERNEL = first_of_each(
    lambda case: (type(case), repr(case.get_params().get("kernel")))
)
OTHERS = [case for case in CASES if case not in FIRST]
every_case = pytest.mark.parametrize("case", CASES, ids=name)


def tier(case: Map, check: str) -> list[pytest.MarkDecorator]:
    """Return the marks of a check: "full" for most of those that sample or fit many maps.

    These are rates of all but the first case of each class (ExpChi2 is the slowest), averages of
    all but the first case of each kernel, and magnitudes of all but the first case of each class.
    """
    if check == "rows_of_any_magnitude_are_fitted_or_rejected":
        return [] if case in FIRST else [pytest.mark.full]
    if not isinstance(case.rate, Rate) or "limit" not in check:
        return []
    if check == "draws_average_to_the_limit":
        return [] if case in FIRST_OF_EACH_KERNEL else [pytest.mark.full]
    return [] if case in FIRST and not isinstance(case, ExpChi2) else [pytest.mark.full]


@pytest.mark.parametrize(
    ("case", "check"),
    [pytest.param(*pair, marks=tier(*pair)) for pair in product(CASES, CHECKS) if applies(*pair)],
    ids=name,
)
def test_map(case: Map, check: str):
    CHECKS[check](clone(case))


def common_checks(cases):
    """Return scikit-learn's checks without those of the array API, which test_devices.py runs.

    They need a process of their own.
    """
    mark = parametrize_with_checks(cases)
    names, pairs = mark.args
    kept = [pair for pair in pairs if "array_api" not in repr(getattr(pair, "values", pair)[1])]
    return pytest.mark.parametrize(names, kept, **mark.kwargs)


few_rows = pytest.mark.filterwarnings(
    "ignore:Nystroem. n_components=12 is more than the \\d+ rows seen:UserWarning"
)


@pytest.mark.full  # test_defaults.py runs them on the default constructor of each class
@few_rows
@common_checks(CASES)
def test_scikit_learn(estimator, check):
    check(estimator)


# The checks provoke this warning.
@pytest.mark.filterwarnings("ignore:X (has|does not have valid) feature names:UserWarning")
@pytest.mark.parametrize(
    "check",
    [
        check_set_output_transform,
        check_set_output_transform_pandas,
        check_set_output_transform_polars,
        check_global_output_transform_pandas,
        check_global_set_output_transform_polars,
        check_transformer_get_feature_names_out,
        check_transformer_get_feature_names_out_pandas,
        check_dataframe_column_names_consistency,
        check_readonly_memmap_input,
    ],
    ids=lambda check: check.__name__,
)
@pytest.mark.parametrize(
    "case", [*FIRST, *(pytest.param(case, marks=pytest.mark.full) for case in OTHERS)], ids=name
)
def test_scikit_learn_checks_that_are_not_in_the_common_list(case, check):
    check(type(case).__name__, clone(case))


# The battery detects wrong maps.


class SharedPhase(RandomFourier):
    """Wrong: one phase for all features, as the compressive paper prints it."""

    def build(self, rng, d, statistics):
        (stage,) = super().build(rng, d, statistics).stages
        phases = np.full_like(stage.link.phases, stage.link.phases[0])
        return Chain((replace(stage, link=Cos(stage.link.scale, phases)),))


class HalfVariance(RandomFourier):
    """Wrong: frequencies of variance gamma in place of 2 gamma."""

    def _projection(self, rng, frequencies, d, scale):
        return super()._projection(rng, frequencies, d, scale / np.sqrt(2))


class ThreePerCent(RandomFourier):
    """Wrong: features three per cent too long."""

    def build(self, rng, d, statistics):
        (stage,) = super().build(rng, d, statistics).stages
        return Chain((replace(stage, link=Cos(1.03 * stage.link.scale, stage.link.phases)),))


class CenteredTiles(RandomFourier):
    """Wrong: each row is centered by the mean of its tile."""

    def build(self, rng, d, statistics):
        class Centered(Stage):
            def __call__(self, X, out=None):
                return X - X.mean(axis=0)

        return Chain((Centered(), *super().build(rng, d, statistics).stages))


@pytest.mark.parametrize(
    ("wrong", "checks"),
    [
        (SharedPhase, ["inner_products_approach_the_limit_at_the_stated_rate"]),
        (
            HalfVariance,
            ["inner_products_approach_the_limit_at_the_stated_rate", "draws_average_to_the_limit"],
        ),
        (ThreePerCent, ["draws_average_to_the_limit"]),
        (CenteredTiles, ["rows_are_independent_of_each_other"]),
    ],
)
def test_the_battery_detects_a_wrong_map(wrong, checks):
    for name in checks:
        case = wrong(64, gamma=0.3, form="offset", design="iid", random_state=0)
        with pytest.raises(AssertionError):
            CHECKS[name](case)
        CHECKS[name](RandomFourier(64, gamma=0.3, form="offset", design="iid", random_state=0))


# Properties, by Hypothesis, for the first case of each class.


@few_rows
@pytest.mark.parametrize("case", FIRST, ids=lambda case: type(case).__name__)
@given(
    seed=st.integers(0, 2**32), n=st.integers(1, 30), d=st.integers(1, 12), cut=st.integers(0, 30)
)
def test_rows_may_be_permuted_split_and_joined(case, seed, n, d, cut):
    X = data(case, n, d, seed)
    fitted = clone(case).fit(X)
    Z = dense(fitted.transform(X))
    order = np.random.default_rng(seed).permutation(n)
    np.testing.assert_allclose(dense(fitted.transform(X[order])), Z[order], atol=1e-12)
    parts = [dense(fitted.transform(part)) for part in (X[:cut], X[cut:]) if len(part)]
    np.testing.assert_allclose(np.vstack(parts), Z, atol=1e-12)


@few_rows
@pytest.mark.parametrize("case", FIRST, ids=lambda case: type(case).__name__)
@given(
    seed=st.integers(0, 2**32),
    n=st.integers(1, 30),
    d=st.integers(1, 12),
    dtype=st.sampled_from(["f4", "f8"]),
)
def test_sparse_is_dense_in_both_dtypes(case, seed, n, d, dtype):
    import scipy.sparse as sp

    X = data(case, n, d, seed).astype(dtype)
    fitted = clone(case).fit(X)
    Z = fitted.transform(sp.csr_array(X))
    assert Z.dtype == X.dtype
    np.testing.assert_allclose(
        dense(Z), dense(fitted.transform(X)), atol=1e-12 if dtype == "f8" else 1e-5
    )


# Messages for invalid input.


def with_value(case: Map, value: float) -> np.ndarray:
    X = data(case)
    X[7, 2] = value
    return X


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@every_case
def test_non_finite_values_are_reported_by_row_and_column(case, value):
    if case.accepts_missing and np.isnan(value):
        fitted = clone(case).fit(with_value(case, value))
        assert np.isfinite(dense(fitted.transform(with_value(case, value)))).all()
        return
    with pytest.raises(
        ValueError,
        match=r"(NaN|inf).*needs finite numbers, got .* at row 7, column 2\. Drop or impute",
    ):
        clone(case).fit(with_value(case, value))
    fitted = clone(case).fit(data(case))
    frame = pd.DataFrame(with_value(case, value), columns=list("abcde"))
    with pytest.raises(ValueError, match=r"at row 7, column 2 \('c'\)"):
        clone(case).fit(frame)
    with pytest.raises(ValueError, match=r"row 7, column 2"):
        fitted.transform(with_value(case, value))


@pytest.mark.parametrize("case", [case for case in CASES if case.domain == "nonnegative"])
def test_negative_values_are_reported_by_row_and_column(case):
    with pytest.raises(
        ValueError,
        match=r"Negative values in data: .* needs X >= 0, got -3.5 at row 7, column 2\. For signed",
    ):
        clone(case).fit(with_value(case, -3.5))


@every_case
def test_text_is_reported_by_row_and_column(case):
    X = data(case).astype(object)
    X[7, 2] = "blue"
    with pytest.raises(
        ValueError,
        match=r"needs numbers, could not convert string to float: 'blue' at row 7, column 2",
    ):
        clone(case).fit(X)
    X[7, 2] = "3.5"  # text that reads as a number is taken as one, as scikit-learn does
    clone(case).fit(X)


@every_case
def test_wrong_shapes_and_names_are_rejected(case):
    X = data(case)
    fitted = clone(case).fit(pd.DataFrame(X, columns=list("abcde")))
    with pytest.raises(ValueError, match=r"feature names should match"):
        fitted.transform(pd.DataFrame(X, columns=list("abcdx")))
    with pytest.raises(ValueError, match=r"has 4 features, but .* is expecting 5"):
        clone(case).fit(X).transform(X[:, :4])
    with pytest.raises(ValueError, match=r"Expected 2D array, got 1D"):
        clone(case).fit(X[0])
    with pytest.raises(ValueError, match=r"0 sample"):
        clone(case).fit(X[:0])
    with pytest.raises(ValueError, match=r"0 feature"):
        clone(case).fit(X[:, :0])
    with pytest.raises(ValueError, match=r"Complex data not supported"):
        clone(case).fit(X + 1j)
    with pytest.raises(NotFittedError):
        clone(case).transform(X)
    with pytest.raises(NotFittedError):
        clone(case).blocks(X)


@every_case
def test_out_of_the_wrong_kind_is_rejected(case):
    X = data(case)
    fitted = clone(case).fit(X)
    Z = dense(fitted.transform(X))
    read_only = Z.copy()
    read_only.flags.writeable = False
    for out in (Z[1:], Z[:, 1:], Z.astype(np.float32), read_only, Z.tolist()):
        with pytest.raises(
            ValueError,
            match=r"out must be a writeable float64 array of shape|out= is for dense features",
        ):
            fitted.transform(X, out=out)


def test_out_that_overlaps_the_input_is_rejected():
    buffer = np.zeros((10, 8))
    fitted = RandomFourier(8, gamma=1.0).fit(buffer)
    with pytest.raises(ValueError, match=r"share memory"):
        fitted.transform(buffer, out=buffer)


@every_case
def test_polars_in_and_out(case):
    pl = pytest.importorskip("polars")
    X = data(case)
    frame = pl.DataFrame(X, schema=list("abcde"))
    if getattr(case, "sparse_output", False) is True:  # data frames are dense
        with pytest.raises(ValueError, match="outputs a scipy sparse matrix"):
            clone(case).set_output(transform="polars").fit(frame).transform(frame)
        case = clone(case).set_params(sparse_output=False)
    fitted = clone(case).set_output(transform="polars").fit(frame)
    Z = fitted.transform(frame)
    assert isinstance(Z, pl.DataFrame)
    assert list(fitted.feature_names_in_) == list("abcde")
    assert Z.columns == list(fitted.get_feature_names_out())
    same(Z.to_numpy(), dense(clone(case).fit(X).transform(X)))


def test_a_map_works_in_a_pipeline_with_metadata_routing():
    import sklearn
    from sklearn.linear_model import RidgeClassifier

    X = np.random.default_rng(0).normal(size=(60, 4))
    y = X[:, 0] * X[:, 1] > 0
    with sklearn.config_context(enable_metadata_routing=True):
        model = make_pipeline(RandomFourier(256, gamma=0.5, random_state=0), RidgeClassifier()).fit(
            X, y
        )
    assert model.score(X, y) > 0.9
    assert not hasattr(RandomFourier(), "set_transform_request")


def test_the_registry_has_every_named_map_under_its_name():
    maps = registry()
    assert maps["fourier"] is RandomFourier
    assert all(cls.name == name for name, cls in maps.items())
    assert all(cls.paper and cls.__doc__ and cls.cases() for cls in maps.values())


@pytest.mark.filterwarnings("ignore:Nystroem. n_components=256 is more than the:UserWarning")
@pytest.mark.parametrize(
    ("rows", "columns"), [(12, 5), (12, 1), (2, 5), (2, 1)], ids=lambda n: f"{n}"
)
@pytest.mark.parametrize("map_name", sorted(registry()))
def test_defaults_run_on_few_columns_and_few_rows(map_name, rows, columns):
    X = np.random.default_rng(0).normal(size=(rows, columns))
    feature_map = registry()[map_name]()
    if feature_map.domain == "nonnegative" or map_name == "skewed":  # whose domain is x > -skew
        X = np.abs(X)
    for numbers in (X, X.astype(np.float32), np.ones_like(X)):
        Z = dense(clone(feature_map).fit(numbers).transform(numbers))
        assert Z.shape[0] == rows and Z.shape[1] >= 1
        assert np.isfinite(Z).all()
    model = KernelRegressor(map_name, alpha=1.0, random_state=0).fit(X, np.arange(rows))
    assert np.isfinite(model.predict(X)).all()
    assert np.shape(model.predict(X)) == (rows,)
