"""plan(rows, map): the size for an error, the route, seconds and bytes, as arithmetic."""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import pytest
import scipy.sparse

from mercer import (
    GCWS,
    Hellinger,
    KernelClassifier,
    KernelRegressor,
    RandomFourier,
    RandomLaplace,
    certify,
    open_stream,
    plan,
    theory,
)
from mercer.evaluation.convergence import Law, Table
from mercer.evaluation.cost import Line, Timings
from mercer.linear_model.memory import MapSize
from mercer.linear_model.routes import Plan
from mercer.maps import registry
from mercer.parallel.tile_size import Cost, grid

LAW = Law("n_components", -0.5, 1.0, 0.0, None, (64, 128, 256), (0.125, 0.09, 0.0625))
# in place of timed samples
TIMINGS = Timings(
    sample=(1024, 4096),
    reference=MapSize(1024, Cost(50_000.0, 20_000.0), 10_000.0, 1024.0, "dense"),
    start=2e-3,
    read=0.0,
    statistics=Line(1e-3, 1e-7),
    features=Line(1e-3, 2e-6),
    moments=Line(5e-3, 2e-5),
    moment_columns=1024,
    moment_stored=1024.0,
    products=1e-6,
    gradients=2e-6,
    images=3e-6,
    eigenvectors=(1e-8, 2e-10),
    factor=2e-11,
)
quick = partial(plan, timings=TIMINGS)


def small(name: str):
    cls = registry()[name]
    made = cls(n_measurements=10) if name == "compressive" else cls()
    size = made.get_params().get(str(made.size_parameter))
    return made.with_size(32) if isinstance(size, int) and size > 32 else made


TIMED = ("fourier", "gcws", "hellinger")  # in the first tier; one of each form of features


@pytest.mark.parametrize(
    ("name", "timings"),
    [
        *((name, TIMINGS) for name in sorted(registry())),
        *(
            pytest.param(name, None, marks=() if name in TIMED else pytest.mark.full)
            for name in sorted(registry())
        ),
    ],
    ids=lambda one: one if isinstance(one, str) else "timed" if one is None else "arithmetic",
)
@pytest.mark.parametrize("density", [None, 0.1], ids=["dense", "sparse"])
def test_every_map_can_be_planned(name, density, timings):
    shape = (10_000, 60) if density is None else (10_000, 60, density)
    found = plan(shape, small(name), timings=timings)
    rows = np.random.default_rng(0).random((256, 60))
    assert isinstance(found, Plan)
    assert found.features == small(name).fit(rows).transform(rows).shape[1]
    assert 0 < found.seconds < np.inf
    assert 0 < found.predict_seconds < np.inf
    assert found.bytes > 0
    assert found.fits
    assert f"{found.features:,} features of {type(small(name)).__name__}" in str(found)
    sample = "[\\d,]+ and [\\d,]+" if timings is None else "1,024 and 4,096"
    assert re.search(f"  timed on      samples of {sample} rows$", str(found))


def test_the_route_and_the_passes_are_those_of_the_fit():
    X = np.random.default_rng(0).random((300, 5))
    y = (X[:, 0] > 0.5).astype(int)
    cases = [
        (KernelRegressor, {}, {}),
        (KernelRegressor, {"max_memory": "100kB"}, {}),
        (KernelClassifier, {"loss": "logistic"}, {"loss": "logistic"}),
    ]
    for cls, more, how in cases:
        feature_map = RandomFourier(64, random_state=0)
        model = cls(feature_map, **more).fit(X, y)
        found = quick(X, feature_map, max_memory=more.get("max_memory"), **how)
        assert (found.route, found.passes) == (model.plan_.route, model.plan_.passes)
        assert (found.rows, found.columns, found.features) == (300, 5, 64)


def test_the_size_for_an_error_is_that_of_the_rate():
    found = quick((10_000, 20), RandomFourier(64), error=0.01, rate=LAW)
    assert found.size == found.features == 10_000  # 1/sqrt(D) = 0.01
    assert found.error == pytest.approx(0.01)
    assert "by the rate that was measured" in str(found)
    assert quick((10_000, 20), RandomFourier(64), rate=LAW).error == pytest.approx(0.125)


def test_a_certificate_will_do_for_a_rate():
    X = np.random.default_rng(0).normal(size=(400, 5))
    fitted = RandomFourier(128, gamma=0.1, random_state=0).fit(X[:200])
    measured = certify(fitted, X[200:], pairs=2000, error=0.01)
    found = quick(X, fitted, error=0.01, rate=measured)
    assert found.size == measured.needed
    assert quick(X, fitted, error=0.01, rate=measured.rate).size == measured.needed


def test_without_a_rate_theory_says_the_size_where_it_is_not_vacuous():
    found = quick((10**6, 20), RandomFourier(64, design="iid"), error=0.05, confidence=0.9)
    assert found.size == theory.components_for_pair(0.05, 1 - 0.9)
    assert "by theory" in found.reason
    offset = quick((10**6, 20), RandomFourier(64, design="iid", form="offset"), error=0.05)
    assert offset.size == theory.components_for_pair(0.05, 0.05, form="offset")
    with pytest.raises(
        ValueError, match=r"asks for n_components = 5,904, more than there are rows.*rate=certify"
    ):
        quick((1000, 20), RandomFourier(64, design="iid"), error=0.05)
    for without in (RandomFourier(64, design="hadamard"), RandomLaplace(64), GCWS(16)):
        with pytest.raises(
            ValueError, match=r"theory has no bound that holds for any data.*rate=certify"
        ):
            quick((10**6, 20), without, error=0.05)


def test_an_error_that_no_size_reaches_is_said():
    biased = Law("n_components", -0.5, 1.0, 0.02, None, (64,), (0.1,))
    found = quick((1000, 5), RandomFourier(64), error=0.01, rate=biased)
    assert not found.fits
    assert found.size == 64
    assert "an error of 1% is not reachable by n_components: bias and rounding alone are 2%" in str(
        found
    )


def test_an_exact_map_needs_nothing_and_several_maps_have_no_single_size():
    exact = quick((1000, 5), Hellinger(), error=1e-6)
    assert exact.fits
    assert exact.error == 0
    several = quick((1000, 5), RandomFourier(16) + GCWS(4), error=0.01)
    assert several.shortfalls == (
        "Stacked has no single parameter that buys accuracy: certify measures the error that it "
        "has",
    )
    after = quick((1000, 5), Hellinger() >> RandomFourier(16), error=0.1, rate=_last_law())
    assert after.size == 100


def _last_law() -> Law:
    size_parameter = str((Hellinger() >> RandomFourier(16)).size_parameter)
    return Law(size_parameter, -0.5, 1.0, 0.0, None, (16,), (0.25,))


def test_a_budget_of_seconds_says_what_can_be_done_in_it():
    whole = quick((10**6, 50), RandomFourier(4096), rate=LAW)
    found = quick(
        (10**6, 50),
        RandomFourier(4096),
        rate=LAW,
        max_seconds=whole.seconds / 10,
    )
    assert not found.fits
    assert found.size == 4096
    over, instead = found.shortfalls
    assert "are more than max_seconds=" in over
    size = int(instead.split("n_components = ")[1].split(", with")[0].replace(",", ""))
    assert size < 4096
    same = {"max_seconds": whole.seconds / 10}
    assert quick((10**6, 50), RandomFourier(size), **same).fits
    assert not quick((10**6, 50), RandomFourier(int(1.3 * size)), **same).fits
    assert f"with an error of about {100 * size**-0.5:.3g}%" in instead
    assert quick(
        (10**6, 50),
        RandomFourier(4096),
        max_seconds=1.01 * whole.seconds,
    ).fits


def test_a_budget_of_memory_chooses_the_route_and_says_what_does_not_fit():
    assert quick((10**6, 50), RandomFourier(4096)).route == "moments"
    by_passes = quick((10**6, 50), RandomFourier(4096), max_memory="300MB")
    assert by_passes.route == "passes"
    assert by_passes.fits
    nothing = quick((10**6, 50), RandomFourier(4096), max_memory="1kB")
    assert nothing.shortfalls[0].endswith("are more than max_memory, 1 kB")
    assert nothing.shortfalls[1].startswith("nothing fits: the least is about")
    one = quick((10**6, 50), Hellinger(), max_memory="1kB")
    assert len(one.shortfalls) == 1


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"error": 0}, "error must be a finite number above 0, got 0"),
        ({"error": float("nan")}, "error must be a finite number above 0"),
        ({"confidence": 1.0}, "confidence must be a number between 0 and 1"),
        (
            {"max_seconds": 0},
            r"max_seconds must be a finite number above 0, got 0. The least that this fit takes "
            r"is about .* n_comp",
        ),
        (
            {"max_memory": 0},
            r"max_memory must be a number of bytes above 0.*, got 0. The least that this fit "
            r"takes is about .*B",
        ),
        ({"max_memory": "much"}, "max_memory must be a number of bytes"),
        ({"loss": "hinge"}, "loss must be one of"),
        ({"outputs": 0}, "outputs must be an integer of at least 1"),
        (
            {"rate": Table("n_terms", (1,), (0.1,))},
            "rate is one of n_terms, and RandomFourier has n_components",
        ),
    ],
    ids=str,
)
def test_what_cannot_be_planned_is_one_sentence(more, words):
    with pytest.raises(ValueError, match=words):
        quick((1000, 5), RandomFourier(16), **more)


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((0, 5), "rows must be an integer of at least 1, got 0"),
        ((5, 0), "columns must be an integer of at least 1, got 0"),
        ((5, 2.5), "columns must be an integer"),
        ((5, 5, 0.0), "density must be a finite number above 0"),
        ((5, 5, 1.5), "density is a share of entries, at most 1"),
        ((5,), r"a shape is \(rows, columns\)"),
    ],
    ids=str,
)
def test_a_shape_that_is_none_is_refused(shape, words):
    with pytest.raises(ValueError, match=words):
        quick(shape, RandomFourier(16))


def test_a_rate_that_is_none_is_refused():
    with pytest.raises(TypeError, match="rate must be a Certificate or its rate, got a float"):
        quick((1000, 5), RandomFourier(16), rate=0.5)


def test_hard_rows_are_planned_like_others():
    """A hundred thousand columns, rows that are all equal, rows fewer than folds, one row."""
    wide = quick((1000, 100_000), RandomFourier(64, design="iid"))
    assert wide.features == 64
    assert wide.columns == 100_000
    assert quick((1000, 100_000, 1e-4), GCWS(16)).features == 4096
    for X in (np.ones((50, 3)), np.random.default_rng(0).random((3, 3)), np.ones((1, 3))):
        found = quick(X, RandomFourier(16))
        assert (found.rows, found.fits) == (len(X), True)


def test_sources_are_streams_of_any_kind(tmp_path):
    X = np.random.default_rng(0).random((30, 4)).astype(np.float32)
    np.savetxt(tmp_path / "rows.csv", X, delimiter=",", header="a,b,c,d", comments="")
    from_file = plan(tmp_path / "rows.csv", RandomFourier(16))
    assert (from_file.rows, from_file.columns, from_file.dtype) == (30, 4, "float64")
    assert plan(X, RandomFourier(16)).dtype == "float32"
    sparse = scipy.sparse.csr_array(np.eye(50))
    assert plan(open_stream(sparse), GCWS(16)).rows == 50
    with pytest.raises(ValueError, match="has no rows"):
        plan(np.ones((0, 3)), RandomFourier(16))


def test_the_dtype_of_a_shape_goes_by_the_error():
    assert quick((1000, 5), RandomFourier(16), error=0.05, rate=LAW).dtype == "float32"
    assert quick((1000, 5), RandomFourier(16), error=1e-4, rate=LAW).dtype == "float64"
    assert quick((1000, 5), RandomFourier(16)).dtype == "float64"


def test_seconds_grow_with_rows_and_bytes_do_not():
    small = quick((10**6, 50), RandomFourier(1024))
    large = quick((10**7, 50), RandomFourier(1024))
    once = {step.name: step.seconds for step in small.steps}
    ten = {step.name: step.seconds for step in large.steps}
    assert ten["normal equations"] == pytest.approx(10 * once["normal equations"], rel=0.01)
    assert ten["solving for some alphas"] == once["solving for some alphas"]
    assert large.bytes == small.bytes
    assert small.block_rows == grid(1024, 8).rows


def test_the_estimate_says_which_rows_and_features_are_in_memory(tmp_path):
    X = np.random.default_rng(0).random((3000, 5)).astype(np.float32)
    np.save(tmp_path / "rows.npy", X)
    in_memory, from_file = (
        quick(X, RandomFourier(64)),
        quick(tmp_path / "rows.npy", RandomFourier(64)),
    )
    assert (in_memory.row_bytes, from_file.row_bytes) == (X.nbytes, 0)
    assert re.search(
        r"  memory        about [\d.]+ MB beside the rows, 60 kB$", str(in_memory), re.M
    )
    assert re.search(
        r"  memory        about .*; rows are read in blocks of 3,000$", str(from_file), re.M
    )
    assert quick((1000, 50, 0.1), GCWS(16)).row_bytes == 1000 * 5 * (8 + 4)
    assert not in_memory.keeps_features
    few, many = (
        quick((10_000, 5), RandomFourier(64), loss="logistic", max_memory=memory)
        for memory in ("100MB", "1MB")
    )
    assert (few.keeps_features, many.keeps_features) == (True, False)
    assert "; features of all rows stay in memory\n" in str(few)


def test_codes_in_memory_are_planned_with_sweeps_and_not_with_a_preconditioner():
    found = quick((5000, 50), GCWS(64), max_memory="1GB")
    assert (found.route, found.features) == ("passes", 64 * 256)
    assert [step.name for step in found.steps][-1] == "sweep of coordinate descent"
    assert found.bytes < 20e6  # a sample of rows and its eigenvectors would be 400 MB
    more_rows = quick((20_000, 50), GCWS(64), max_memory="1GB")
    assert [step.name for step in more_rows.steps][-2:] == [
        "preconditioner",
        "conjugate gradient step",
    ]
    newton = quick((5000, 50), GCWS(64), loss="logistic", max_memory="1GB")
    assert [step.name for step in newton.steps][-1] == "sweep of coordinate descent"
    coupled = quick((5000, 50), GCWS(64), loss="log_loss", outputs=3, max_memory="1GB")
    assert [step.name for step in coupled.steps][-1] == "Newton-CG pass"


def test_planning_leaves_the_map_alone():
    X = np.random.default_rng(0).random((50, 4))
    fitted = RandomFourier(32, random_state=0).fit(X)
    before = fitted.transform(X)
    plan(X, fitted, error=0.05, rate=LAW)
    assert fitted.n_components == 32
    assert np.array_equal(fitted.transform(X), before)
    unfitted = RandomFourier(32)
    plan(X, unfitted)
    assert not hasattr(unfitted, "tile_transform_")
