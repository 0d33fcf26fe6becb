"""The parts of a search: candidates, schedule, samples, ranking, and the choice of the winner."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

import mercer
from mercer.linear_model.routes import plan_fit
from mercer.model_selection import candidates as candidate_module
from mercer.model_selection import sample, schedule, summary
from mercer.model_selection.candidates import ALTERNATIVES, candidates
from mercer.model_selection.halving import Result, keep_best, rank
from mercer.model_selection.models import TREES, ExactCandidate, Trees


def test_every_registered_map_takes_part_or_is_named_with_a_reason():
    X = np.random.default_rng(0).dirichlet(np.ones(60), size=300)
    found, refused, _ = candidates(X, "auto", 0, domain="nonnegative")
    there = {word for one in found for word in one.name.split()} | set(refused)
    assert set(mercer.maps.registry()) - set(candidate_module.ENCODERS) <= there
    named, refused, _ = candidates(X, sorted(ALTERNATIVES), 0, domain="nonnegative")
    assert set(ALTERNATIVES) <= {word for one in named for word in one.name.split()}
    assert not refused


def test_a_grid_of_a_parameter_that_its_map_does_not_estimate_is_an_error(monkeypatch):
    grid = candidate_module.BandwidthGrid({}, "degree", (1, 2))
    monkeypatch.setitem(candidate_module.GRIDS, "homogeneous", (grid,))
    X = np.random.default_rng(0).dirichlet(np.ones(60), size=300)
    with pytest.raises(AttributeError, match="'degree_'"):
        candidates(X, ["homogeneous"], 0, domain="nonnegative")


def test_trees_predict_on_as_many_threads_as_they_grow_on():
    def threads(X, y=None):
        seen.append(
            {one["num_threads"] for one in threadpool_info() if one["user_api"] == "openmp"}
        )

    with threadpool_limits(2, user_api="openmp"):
        for rows, count in ((100, {1}), (10**6, {2})):
            seen: list[set[int]] = []
            trees = Trees(SimpleNamespace(fit=threads, predict=threads))
            trees.fit(np.empty((rows, 1)), None).predict(np.empty((100, 1)))
            assert seen == [count, count]


@given(rows=st.integers(8, 10**6), models=st.integers(1, 100), limit=st.integers(10**3, 10**11))
def test_a_schedule_adds_up(rows, models, limit):
    plan = schedule.make_schedule(rows, models, limit)
    assert plan.rows + plan.held_out + plan.final == rows
    assert min(plan.rows, plan.held_out, plan.final) > 0
    assert 2 <= plan.folds <= plan.final
    assert plan.rounds[-1][0] <= plan.rows
    assert len(plan.keep) == len(plan.rounds)
    for before, after in pairwise(plan.rounds):
        assert after == (3 * before[0], 2 * before[1])
    assert all(before < after for before, after in pairwise(plan.sizes))


@given(limit=st.integers(10**6, 10**11))
def test_models_sum_moments_of_as_many_features_as_a_search_takes(limit):
    most, memory = schedule.most_features(limit), schedule.model_memory(limit)
    only = {"limit": memory, "routes": ("moments",)}
    assert plan_fit(1000, 5, most, **only).route == "moments"
    assert plan_fit(1000, 5, most + 1, **only).route == "passes"


@given(st.lists(st.sampled_from("aaaaabbbc"), min_size=20, max_size=200))
def test_every_stretch_of_a_sample_has_its_share_of_each_class(labels):
    y = np.array([*labels, "a", "b"])
    order = sample._stratified_order(y, False, 0)
    assert sorted(order) == list(range(len(y)))
    shown = y[order]
    classes = np.unique(y)
    assert set(shown[: len(classes)]) == set(classes)
    half = len(y) // 2
    for one in classes:
        assert abs(np.sum(shown[:half] == one) - np.sum(y == one) * half / len(y)) <= 2


def result(
    name: str, kind: str, right: int, *, work: float = 1.0, seconds: float = 1.0, rows: int = 400
) -> Result:
    """A model that has so many of the rows right, the same ones as all that have fewer."""
    candidate = ExactCandidate(name, name, kind, None, work)
    return Result(candidate, 256, rows, (np.arange(rows) < right).astype(float), seconds, seconds)


def chosen(*final: Result, guess: int = 0) -> tuple[str, str]:
    search = SimpleNamespace(
        final=list(final),
        last={},
        sample=SimpleNamespace(numeric=False),
        baseline=lambda in_final: result("guess", "outside", guess),
    )
    winner, text = summary.choose_winner(search)
    return winner.candidate.name, text


def test_linear_wins_within_one_standard_error_and_not_beyond():
    """A difference in k of n rows, all one way, is k/sqrt(k (1 - k/n) + 1) standard errors: k = 1
    is within one, k = 2 is not.
    """
    linear = result("linear", "linear", 300)
    name, summary = chosen(linear, result("fourier", "map", 301))
    assert name == "linear"
    assert (
        summary
        == "Linear is enough: 75.00% +- 2.17%; fourier has 75.25% +- 2.16%, no more than noise."
    )
    name, summary = chosen(linear, result("fourier", "map", 302))
    assert name == "fourier"
    assert summary == "fourier wins with 75.50% +- 2.15%, 0.50 points more than linear."


def test_trees_are_better_beyond_one_standard_error_and_never_win():
    fourier, linear = result("fourier", "map", 350), result("linear", "linear", 300)
    name, summary = chosen(
        linear, fourier, result(TREES, "outside", 351), result("exact", "exact", 390)
    )
    assert (name, "Trees" in summary) == ("fourier", False)
    name, summary = chosen(linear, fourier, result(TREES, "outside", 352))
    assert name == "fourier"
    assert summary.startswith(
        "Trees are better here: gradient boosting has 88.00% +- 1.62%, 0.50 points more than ours."
    )
    assert summary.endswith(
        "Of ours: fourier wins with 87.50% +- 1.65%, 12.50 points more than linear."
    )


def test_what_is_within_two_standard_errors_of_guessing_is_called_guessing():
    linear, fourier = result("linear", "linear", 300), result("fourier", "map", 310)
    name, summary = chosen(linear, fourier, guess=306)
    assert (name, summary) == (
        "fourier",
        "Nothing here beats guessing (76.50%): fourier has 77.50% +- 2.09%.",
    )
    assert chosen(linear, fourier, guess=305)[1].startswith("fourier wins with ")
    _, summary = chosen(linear, fourier, result(TREES, "outside", 320), guess=310)
    assert (
        summary.startswith("Trees are better here: ")
        and "Of ours: nothing beats guessing (77.50%): " in summary
    )
    _, summary = chosen(linear, fourier, result(TREES, "outside", 320), guess=320)
    assert summary.startswith("Nothing here beats guessing (80.00%): ")


def test_what_cannot_be_told_apart_is_ranked_by_its_work_and_never_by_the_clock():
    slow = result("slow", "map", 300, work=1.0, seconds=9.0)
    quick = result("quick", "map", 300, work=2.0, seconds=0.1)
    better = result("better", "map", 310, work=3.0)
    assert [one.candidate.name for one in rank([quick, slow])] == ["slow", "quick"]
    assert [one.candidate.name for one in rank([quick, slow, better])] == [
        "better",
        "quick",
        "slow",
    ]
    assert chosen(result("linear", "linear", 100), quick, slow)[0] == "slow"


def test_linear_goes_on_wherever_it_is_and_two_bandwidths_of_a_kernel():
    ranked = [result(f"{i}", "map", 390 - i) for i in range(6)]
    same = [replace(one, candidate=replace(one.candidate, family="fourier")) for one in ranked[:4]]
    last = [result("linear", "linear", 10), result("scaled", "linear", 9)]
    kept = [one.candidate.name for one in keep_best([*same, *ranked[4:], *last], 3)]
    assert kept == ["0", "1", "4", "linear"]
