"""Checks of every map: each takes an unfitted map and raises AssertionError.

test_every_map.py runs all of them on every case, and shows with deliberately wrong maps that they
can fail.
"""

from __future__ import annotations

import pickle
import tempfile
import warnings
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

import mercer
from mercer._typing import is_csr
from mercer.maps.base import Decay, Map
from mercer.maps.block import Dense
from mercer.parallel.tile_size import override_limits

SIZES = (64, 256, 1024)
ENDING_SIZES, ENDING_COLUMNS = (4, 16, 60), 64  # for a size of at most the number of columns
DRAWS = 24


def data(case: Map, n: int = 40, d: int = 5, seed: int = 0) -> np.ndarray:
    """Return rows in the map's domain, with exact zeros among them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    if case.domain == "nonnegative":
        X = rng.gamma(1.0, size=(n, d))
    X[rng.random((n, d)) < 0.2] = 0.0
    return X


def growth(case: Map) -> tuple[tuple[int, ...], tuple[float, ...], np.ndarray]:
    """Return sizes, the numbers that the error is a power of, and rows wide enough for them."""
    if case.rate.ends:
        return (
            ENDING_SIZES,
            tuple(m / (1 - m / ENDING_COLUMNS) for m in ENDING_SIZES),
            data(case, d=ENDING_COLUMNS),
        )
    return SIZES, SIZES, data(case)


def seeded(case: Map, seed: int) -> Map:
    """Return a copy with other seeds in every part."""
    names = [name for name in case.get_params() if name.endswith("random_state")]
    return clone(case).set_params(**{name: 1000 * seed + i for i, name in enumerate(names)})


def gram_errors(case: Map, size: int, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return, for each draw, the squared relative error off the diagonal and its signed part.

    The second is the coefficient of the error along the limit's Gram matrix.
    """
    squares, along = [], []
    for draw in range(DRAWS):
        fitted = seeded(case.with_size(size), draw).fit(X)
        assert fitted.limit_ is not None
        K = fitted.limit_(X)
        Z = next(fitted.blocks(X)).toarray()
        off = ~np.eye(len(X), dtype=bool)
        error = (Z @ Z.T - K)[off]
        squares.append(error @ error / (K[off] @ K[off]))
        along.append(error @ K[off] / (K[off] @ K[off]))
    return np.array(squares), np.array(along)


def check_inner_products_approach_the_limit_at_the_stated_rate(case: Map) -> None:
    rate = case.rate
    assert rate is not None
    if isinstance(rate, Decay):
        X = data(case)
        errors = [relative_error(case.with_size(size).fit(X), X) for size in rate.sizes]
        for before, after in pairwise(errors):
            assert after <= rate.factor * before, errors
        return
    sizes, powers, X = growth(case)
    errors = [np.sqrt(gram_errors(case, size, X)[0].mean()) for size in sizes]
    slope = np.polyfit(np.log(powers), np.log(errors), 1)[0]
    if rate.exact:
        assert abs(slope - rate.slope) <= 0.07, f"slope {slope:.3f}, errors {errors}"
    else:
        assert slope <= rate.slope, f"slope {slope:.3f}, errors {errors}"
    if rate.ends:
        assert relative_error(case.with_size(X.shape[1]).fit(X), X) < 1e-12


def relative_error(fitted: Map, X: np.ndarray) -> float:
    assert fitted.limit_ is not None
    Z, K = dense(fitted.transform(X)), fitted.limit_(X)
    return float(np.linalg.norm(Z @ Z.T - K) / np.linalg.norm(K))


def check_draws_average_to_the_limit(case: Map) -> None:
    """Detect a wrong factor of a few per cent, which a slope does not show."""
    sizes, _, X = growth(case)
    size = sizes[-1]
    _, along = gram_errors(case, size, X)
    standard_error = along.std(ddof=1) / np.sqrt(len(along))
    slack = 0.0 if case.rate.ends else 1 / size  # normalized features have a bias of that order
    assert abs(along.mean()) <= 4 * standard_error + slack, (
        f"{along.mean():.2e} +- {standard_error:.1e}"
    )


def check_exact_maps_are_exact(case: Map) -> None:
    X = data(case)
    fitted = case.fit(X)
    Z = dense(fitted.transform(X))
    close(Z @ Z.T, fitted.kernel_(X), 1e-11)


def check_rows_are_independent_of_each_other(case: Map) -> None:
    X = data(case)
    fitted = case.fit(X)
    whole = dense(fitted.transform(X))
    order = np.random.default_rng(1).permutation(len(X))
    close(dense(fitted.transform(X[order])), whole[order])
    close(dense(fitted.transform(X[7:8])), whole[7:8])
    close(np.vstack([dense(fitted.transform(X[:9])), dense(fitted.transform(X[9:]))]), whole)


def check_same_seed_same_map(case: Map) -> None:
    X = data(case)
    first, again = clone(case).fit(X), clone(case).fit(X)
    same(dense(first.transform(X)), dense(again.transform(X)))
    if "random_state" in case.get_params():
        free = clone(case).set_params(random_state=None).fit(X)
        repeat = clone(case).set_params(random_state=free.seed_).fit(X)
        same(dense(free.transform(X)), dense(repeat.transform(X)))
        other = seeded(case, 5).fit(X)
        assert case.random != np.allclose(dense(first.transform(X)), dense(other.transform(X)))


def check_a_larger_size_extends_the_weights(case: Map) -> None:
    least, most, X = (
        (16, 48, data(case, d=ENDING_COLUMNS)) if case.rate.ends else (64, 192, data(case))
    )
    small, large = (dense(case.with_size(size).fit(X).transform(X)) for size in (least, most))
    count = small.shape[1]
    if getattr(case, "normalize", False):  # each row is divided by the norm of all its features
        small, large = (
            Z / np.linalg.norm(Z[:, :count], axis=1, keepdims=True) for Z in (small, large)
        )
    else:
        large = large * np.sqrt(most / least)
    close(large[:, :count], small)


def check_float32_gives_float32_close_to_float64(case: Map) -> None:
    X = data(case).astype(np.float32)
    fitted = case.fit(X)
    single, double = fitted.transform(X), fitted.transform(X.astype(np.float64))
    assert single.dtype == np.float32
    assert double.dtype == np.float64
    np.testing.assert_allclose(
        dense(single), dense(double), rtol=0, atol=2e-5 * np.abs(dense(double)).max()
    )
    again = clone(case).fit(X.astype(np.float64)).transform(X)
    same(dense(again), dense(single))


def check_integers_and_booleans_are_accepted(case: Map) -> None:
    counts = np.abs(data(case) * 3).astype(int)
    fitted = clone(case).fit(counts)
    same(dense(fitted.transform(counts)), dense(fitted.transform(counts.astype(float))))
    flags = counts > 1
    same(
        dense(clone(case).fit(flags).transform(flags)),
        dense(clone(case).fit(flags.astype(float)).transform(flags * 1.0)),
    )


def check_sparse_equals_dense(case: Map) -> None:
    X = data(case)
    expected = dense(clone(case).fit(X).transform(X))
    for form in (sp.csr_array, sp.csr_matrix, sp.csc_array, sp.csc_matrix):
        close(dense(clone(case).fit(form(X)).transform(form(X))), expected)
    close(
        dense(clone(case).fit(X).transform(sp.csr_array(X.shape))),
        dense(clone(case).fit(X).transform(0 * X)),
    )
    stored = sp.csr_array(np.ones_like(X))
    stored.data[:] = X.ravel()  # zeros stored explicitly
    close(dense(clone(case).fit(stored).transform(stored)), expected)
    halves = (
        np.repeat(X.ravel() / 2, 2),
        np.tile(np.repeat(np.arange(X.shape[1]), 2), len(X)),
        np.arange(len(X) + 1) * 2 * X.shape[1],
    )
    twice = sp.csr_array(halves, shape=X.shape)  # every entry in two halves
    before = twice.data.copy()
    close(dense(clone(case).fit(twice).transform(twice)), expected)
    same(twice.data, before)


def check_input_is_not_modified(case: Map) -> None:
    for X in (data(case), sp.csr_array(data(case))):
        before = X.copy()
        for array in (X.data, X.indices, X.indptr) if is_csr(X) else (X,):
            array.flags.writeable = False
        clone(case).fit(X).transform(X)
        same(dense(X), dense(before))


def check_pickle_and_clone(case: Map) -> None:
    X = data(case)
    fitted = clone(case).fit(X)
    same(dense(pickle.loads(pickle.dumps(fitted)).transform(X)), dense(fitted.transform(X)))
    copy = clone(fitted)
    assert not hasattr(copy, "tile_transform_")
    assert repr(copy.get_params()) == repr(case.get_params())


def check_a_loaded_map_equals_the_saved_one(case: Map) -> None:
    X = data(case).astype(np.float32).astype(np.float64)
    fitted = clone(case).fit(X)
    # A file has no other memory order.
    assert all(array.flags.c_contiguous for array in fitted.tile_transform_.arrays().values())
    with tempfile.TemporaryDirectory() as folder:
        first, second = Path(folder) / "first.mercer", Path(folder) / "second.mercer"
        mercer.save(fitted, first)
        loaded = mercer.load(first)
        mercer.save(loaded, second)
        assert first.read_bytes() == second.read_bytes()
    for form, dtype in product((np.asarray, sp.csr_array), (np.float64, np.float32)):
        before, after = (phi.transform(form(X.astype(dtype))) for phi in (fitted, loaded))
        assert type(before) is type(after) and before.dtype == after.dtype
        same(dense(after), dense(before))
    assert repr(loaded) == repr(fitted) and repr(loaded.get_params()) == repr(fitted.get_params())
    kernels = [(phi.kernel_, phi.limit_) for phi in (fitted, loaded)]
    for before, after in zip(*kernels, strict=True):
        assert type(before) is type(after)
        if before is not None:
            same(before(X), after(X))
    assert list(loaded.get_feature_names_out()) == list(fitted.get_feature_names_out())
    assert loaded.seed_ == fitted.seed_


def check_blocks_are_the_features(case: Map) -> None:
    X = data(case)
    fitted = clone(case).fit(X)
    blocks = list(fitted.blocks(X))
    Z = dense(fitted.transform(X))
    close(np.vstack([block.toarray() for block in blocks]), Z)
    block = blocks[0]
    rng = np.random.default_rng(2)
    w, r = rng.normal(size=(Z.shape[1], 3)), rng.normal(size=(len(Z), 3))
    close(block @ w, Z @ w, 1e-11)
    close(block.T @ r, Z.T @ r, 1e-11)
    close(block.gram(), Z.T @ Z, 1e-11)
    close(block.tocsr().toarray(), Z)
    assert block.shape == Z.shape
    assert block.nbytes > 0


def check_out_is_written_and_returned(case: Map) -> None:
    X = data(case)
    fitted = clone(case).fit(X)
    Z = fitted.transform(X)
    if not isinstance(next(fitted.blocks(X)), Dense):
        return
    wide = np.full((len(Z), Z.shape[1] + 6), np.nan)
    out = wide[:, 2:-4]  # rows are not contiguous
    assert fitted.transform(X, out=out) is out
    same(out, Z)
    assert np.isnan(wide[:, :2]).all() and np.isnan(wide[:, -4:]).all()
    assert fitted.set_output(transform="pandas").transform(X, out=out) is out
    fitted.set_output(transform="default")


def check_every_thread_count_gives_the_same_bits(case: Map) -> None:
    X = data(case, n=300)
    names = [name for name in case.get_params() if name.endswith("n_jobs")]
    one, three = (clone(case).set_params(**dict.fromkeys(names, jobs)).fit(X) for jobs in (1, 3))
    with override_limits(thread_flops=0, max_tile_rows=16):
        same(dense(one.transform(X)), dense(three.transform(X)))


def check_the_first_invalid_number_is_reported_whichever_tile_fails_first(case: Map) -> None:
    """Report non-finite numbers before negative ones, then by row, for every form of the input."""
    names = [name for name in case.get_params() if name.endswith("n_jobs")]
    fitted = clone(case).set_params(**dict.fromkeys(names, 3)).fit(data(case))
    wanted = {
        "needs finite numbers, got inf at row 150, column 1.": {
            150: np.inf,
            151: np.nan,
            299: -np.inf,
            20: -1.0,
        }
    }
    if case.domain == "nonnegative":
        wanted["needs X >= 0, got -2 at row 47, column 1."] = {290: -1.0, 47: -2.0}
    for words, places in wanted.items():
        X = data(case, n=300)
        for row, value in places.items():
            X[row, 1] = value
        for form in (
            np.ascontiguousarray,
            np.asfortranarray,
            sp.csr_array,
            lambda A: np.repeat(A, 2, axis=1)[:, ::2],
        ):
            message = ""
            with override_limits(thread_flops=0, max_tile_rows=16):
                try:
                    fitted.transform(form(X))
                except ValueError as error:
                    message = str(error)
            assert f"{type(case).__name__} {words}" in message, message


def check_finite_in_gives_finite_out(case: Map) -> None:
    """Large and tiny numbers give finite features, or an error that names row and column."""
    for dtype in (np.float32, np.float64):
        fitted = clone(case).fit(data(case).astype(dtype))
        for value in (
            np.finfo(dtype).max,
            1e30,
            1e9,
            np.finfo(dtype).tiny,
            np.finfo(dtype).smallest_subnormal,
            0.0,
        ):
            X = data(case).astype(dtype)
            X[3, 1] = value
            words = ""
            try:
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", message=".* outside the range")
                    Z = dense(fitted.transform(X))
            except ValueError as error:
                words = str(error)
            assert (
                ("row 3, column 1" in words and value > 1e6) if words else np.isfinite(Z).all()
            ), (value, words)


def check_finite_in_gives_finite_out_at_the_smallest_size(case: Map) -> None:
    check_finite_in_gives_finite_out(smallest(case))


def check_rows_of_any_magnitude_are_fitted_or_rejected(case: Map) -> None:
    """Huge or tiny rows give finite features, or an error with advice to scale the data."""
    for size, dtype in product((case, smallest(case)), (np.float32, np.float64)):
        limits = np.finfo(dtype)
        shares = data(size) / np.abs(data(size)).max()
        for value in (
            limits.smallest_subnormal,
            limits.tiny / 100,
            limits.tiny,
            1e-25,
            1e25,
            limits.max / 8,
            limits.max,
        ):
            X = (shares * np.float64(value)).astype(dtype)
            for form in (np.asarray, sp.csr_array):
                words, Z = "", np.zeros(1)
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", message=".* outside the range")
                    try:
                        Z = dense(clone(size).fit(form(X)).transform(form(X)))
                    except ValueError as error:
                        words = str(error)
                assert ("Scale" in words or "scale" in words) if words else np.isfinite(Z).all(), (
                    value,
                    dtype,
                    words,
                )


def smallest(case: Map) -> Map:
    """Return the case with the smallest size that it can be fitted with."""
    for size in range(1, 17) if case.size_parameter else ():
        small = case.with_size(size)
        try:
            clone(small).fit(data(case))
        except ValueError:
            continue
        return small
    return case


def dense(Z: Any) -> np.ndarray:
    return Z.toarray() if hasattr(Z, "toarray") else np.asarray(Z)


def same(a: np.ndarray, b: np.ndarray) -> None:
    np.testing.assert_array_equal(a, b)


def close(a: np.ndarray, b: np.ndarray, tolerance: float = 1e-12) -> None:
    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)


CHECKS = {
    name.removeprefix("check_"): value
    for name, value in list(globals().items())
    if name.startswith("check_")
}
