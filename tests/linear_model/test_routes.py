"""Routes refuse exactly the settings that they do not declare; plans read as sentences."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array
from tests.helpers.plans import plan_fit, problem_of

from mercer import GCWS, KernelRegressor, RandomFourier
from mercer.errors import ParameterError
from mercer.linear_model import routes
from mercer.linear_model.losses import LOSSES
from mercer.linear_model.routes import (
    ROUTES,
    Settings,
    measure_row,
    plan_alpha,
    plan_others,
)

PLAN = plan_fit(100, 4, 32, limit=10**9)
ROUTE = pytest.mark.parametrize("route", ROUTES.values(), ids=ROUTES)


def settings_of(route, **more) -> Settings:
    return Settings("Model", 1.0, route.losses[0], **more)


def is_refused(route, settings: Settings) -> bool:
    try:
        route.validate(settings, PLAN)
    except ParameterError:
        return True
    return False


def test_every_loss_has_a_route():
    assert {loss for route in ROUTES.values() for loss in route.losses} == {"squared", *LOSSES}


@ROUTE
def test_a_route_supports_what_it_declares(route):
    assert not is_refused(route, settings_of(route))
    for penalty in ("l2", "l1", "group"):
        refused = is_refused(route, settings_of(route, penalty=penalty))
        assert refused == (penalty not in route.penalties)
    for alpha in ("auto", "gcv", "kfold", "loo"):
        refused = is_refused(route, replace(settings_of(route), alpha=alpha))
        assert refused == (alpha not in route.alphas)
    for alpha in (0.0, [0.0, 1.0]):
        refused = is_refused(route, replace(settings_of(route), alpha=alpha))
        assert refused == (not route.zero_alpha)
    for name, value, supported in (
        ("pca", 3, route.pca),
        ("checkpoint", "sums", route.checkpoint),
        ("cluster", True, route.cluster),
        ("device", True, True),
        ("partial", True, route.partial_fit),
    ):
        assert is_refused(route, settings_of(route, **{name: value})) == (not supported), name


@ROUTE
def test_settings_that_exclude_each_other_are_refused_by_every_route(route):
    for more in (
        {"cluster": True, "device": True},
        {"partial": True, "checkpoint": "sums"},
    ):
        assert is_refused(route, settings_of(route, **more))
    for condition in ("cluster", "partial"):
        settings = replace(settings_of(route), alpha="loo", **{condition: True})
        assert is_refused(route, settings)


def test_a_plan_reads_as_sentences():
    X = np.random.default_rng(0).random((50, 3))
    model = KernelRegressor(RandomFourier(16, random_state=0), max_memory="1GB").fit(X, X[:, 0])
    assert str(model.plan_) == (
        "50 rows x 3 columns -> 16 features; least squares from normal equations, 8.19 kB of at "
        "most 1 GB; alpha by leave-one-out. 5 passes: column scales, bandwidth statistics, normal "
        "equations, copies of rows, leverages. Columns centered and divided by their spread; "
        "scale=False keeps them."
    )
    assert str(plan_fit(None, 3, 16, limit=1, labels=True)).endswith(
        "Passes: class labels, then one per conjugate gradient step. Chosen: least squares from "
        "normal equations would hold 8.19 kB."
    )


@pytest.mark.parametrize(
    ("more", "route", "reason"),
    [
        ({}, "moments", "the least work of 2 routes"),
        ({"rows": 8}, "moments", "the least work of 3 routes"),
        ({"rows": 8, "features": 4096}, "gram", "the least work of 3 routes"),
        ({"limit": 1}, "passes", "least squares from normal equations would hold 32.8 kB"),
        (
            {"rows": 10**5, "features": 40_000, "limit": 10**9},
            "passes",
            "the only route that fits in memory",
        ),
        ({"outputs": 3}, "newton-cg", "the only route for this loss"),
        ({"partial": True}, "moments", "the only route for these settings"),
    ],
)
def test_a_plan_says_why_its_route_was_chosen(more, route, reason):
    sizes = {"rows": 100, "columns": 4, "features": 32, "limit": 10**10} | more
    plan = plan_fit(**sizes)
    assert (plan.route, plan.route_reason) == (route, reason)


def test_seconds_are_those_of_the_work_alone(monkeypatch):
    """What makes other routes be preferred takes no time, and a single target is one output."""
    monkeypatch.setattr(routes, "_LONG_WORK", 0.0)
    monkeypatch.setattr(routes, "_LONG_SECONDS", 0.0)
    monkeypatch.setattr(routes, "_multiply_adds_per_second", lambda: 1.0)
    for name, limit in (("gram", 10**10), ("passes", 1)):
        problem = problem_of(8, 4, 4096, limit=limit, targets=1)
        plan = routes.plan_fit(problem)
        work = ROUTES[name].estimate(problem).work - ROUTES[name].handicap
        assert plan.route == name
        assert 0 < plan.solver_seconds == work
    X = np.random.default_rng(0).random((50, 3))
    seen, choose = [], routes.plan_fit
    monkeypatch.setattr(routes, "plan_fit", lambda problem: seen.append(problem) or choose(problem))
    for y in (X[:, 0], X[:, :2]):
        KernelRegressor("linear").fit(X, y)
    assert seen[0].targets == 1
    assert seen[1].targets == routes.Problem.targets


def test_the_other_routes_have_plans_of_their_own():
    problem = problem_of(100, 4, 32, limit=10**8, targets=1)
    chosen = plan_alpha(problem)
    assert (chosen.route, chosen.alpha_method) == ("moments", "loo")
    (passes,) = plan_others(chosen, problem)
    assert (passes.route, passes.alpha_method) == ("passes", None)
    wide = problem_of(1000, 4, 8192, limit=10**8, targets=1)
    chosen = plan_alpha(wide)
    assert (chosen.route, chosen.solver_bytes <= 10**8) == ("passes", False)
    others = {other.route: other for other in plan_others(chosen, wide)}
    assert set(others) == {"moments", "gram"}  # both of which are larger
    assert min(other.solver_bytes for other in others.values()) > 10**8
    assert others["gram"].alpha_method == "loo"
    newton = problem_of(100, 4, 32, limit=10**8, outputs=1)
    assert plan_others(plan_alpha(newton), newton) == []


def test_a_row_of_many_sparse_columns_is_measured_sparse():
    rng = np.random.default_rng(0)
    entries = np.sort(rng.integers(10**7, size=(40, 3)), axis=1)
    rows = csr_array((np.ones(120), entries.ravel(), np.arange(0, 121, 3)), shape=(40, 10**7))
    fitted = GCWS(16, random_state=0).fit(rows)
    tracemalloc.start()
    try:
        assert measure_row(fitted)["stored"] == 16
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
