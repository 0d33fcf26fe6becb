"""The parts of a search: candidates, schedule, samples, ranking, and the choice of the winner."""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.plans import plan_fit
from threadpoolctl import threadpool_info, threadpool_limits

import mercer
from mercer.linear_model.memory import LEAST_LIMIT
from mercer.maps.metric import Metric
from mercer.model_selection import candidates as candidate_module
from mercer.model_selection import sample, schedule, summary
from mercer.model_selection.candidates import ALTERNATIVES, ModelOptions, candidates
from mercer.model_selection.halving import Result, extrapolate_seconds, keep_best, rank
from mercer.model_selection.models import TREES, BoostingCandidate, ExactCandidate, Trees
from mercer.model_selection.scoring import SCORINGS


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
    def threads(X, y=None, sample_weight=None):
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
    held_out = {"partial": True, "alpha_method": "held-out"}  # as of more than 1,024 features
    plan = plan_fit(20_000, 5, most, limit=memory, **held_out)
    assert plan.route == "moments"
    if memory > LEAST_LIMIT:  # which no limit of a model is below
        wider = plan_fit(20_000, 5, 2 * most, limit=memory, **held_out)
        assert wider.route == "passes"


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


def decided(*final: Result, guess: int = 0, **changes: object) -> summary.Verdict:
    given = {
        "final": list(final),
        "last": {},
        "rounds": {},
        "skipped": {},
        "seed": 0,
        "scoring": SCORINGS["accuracy"],
        "baseline": lambda in_final: result("guessing", "outside", guess),
        "round_result": lambda name, number: None,
    }
    return summary.decide(SimpleNamespace(**{**given, **changes}))


def chosen(*final: Result, guess: int = 0) -> tuple[str, str]:
    """The winner, and the verdict without differences and corrected scores."""
    verdict = decided(*final, guess=guess)
    text = verdict.summary.split(" Corrected for")[0].split(" Differences on")[0]
    return verdict.winner.candidate.name, text


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


def test_a_model_that_leads_and_was_not_finished_is_named_and_nothing_is_concluded_against_it():
    linear, round_1 = result("linear", "linear", 300), result("linear", "linear", 290)
    trees = replace(result(TREES, "outside", 340), rows=1000)
    searched = {
        "last": {"linear": round_1, TREES: trees},
        "rounds": {"linear": 1, TREES: 1},
        "skipped": {"the final": {TREES: 9.0}},
        "round_result": lambda name, number: round_1,
    }
    verdict = decided(linear, result("fourier", "map", 301), **searched)
    assert verdict.unfinished == (TREES,)
    assert verdict.summary.startswith(
        "Undecided: gradient boosting led on 1,000 rows (85.00%), and was not finished; a larger "
        "max_seconds would decide. Of those that were: linear has 75.00% +- "
    )
    assert "enough" not in verdict.summary
    behind = {**searched, "last": {"linear": round_1, TREES: result(TREES, "outside", 291)}}
    verdict = decided(linear, result("fourier", "map", 301), **behind)
    assert verdict.unfinished == ()
    assert verdict.summary.startswith("Linear is enough: ")
    finished = (linear, result("fourier", "map", 301), result(TREES, "outside", 340))
    assert decided(*finished, **{**searched, "skipped": {}}).unfinished == ()


def test_differences_are_paired_and_have_the_95_percent_interval_of_the_rows():
    """A difference in k of n rows, all one way: k/n +- 1.96 sqrt(k (1 - k/n) + 1)/n."""
    final = (
        result("linear", "linear", 300),
        result("fourier", "map", 310),
        result("gcws", "map", 309),
        result(TREES, "outside", 305),
    )
    verdict = decided(*final, guess=100)
    assert verdict.winner.candidate.name == "fourier"
    found = {one.name: one for one in verdict.comparisons}
    assert list(found) == ["gcws", "linear", TREES, "guessing"]
    for name, k in {"gcws": 1, "linear": 10, TREES: 5, "guessing": 210}.items():
        half = 1.96 * np.sqrt(k * (1 - k / 400) + 1) / 400
        assert found[name].difference == pytest.approx(k / 400)
        assert (found[name].low, found[name].high) == pytest.approx(
            (k / 400 - half, k / 400 + half)
        )
        assert found[name].certain == (k > half * 400)
    assert "+2.50 [+0.89, +4.11] to linear; +1.25 [+0.06, +2.44] to gradient boosting" in (
        verdict.summary
    )
    assert "to gcws, undecided;" in verdict.summary
    assert "guessing" not in verdict.summary


def test_standard_errors_are_those_of_groups_where_rows_come_in_groups():
    """Every row five times over says no more than once."""
    scores = np.random.default_rng(0).integers(0, 2, size=80).astype(float)
    one = replace(result("a", "map", 0), row_scores=scores, resolution=0.0)
    copies = replace(one, row_scores=np.repeat(scores, 5), groups=np.repeat(np.arange(80), 5))
    assert copies.spread == pytest.approx(one.spread)
    assert replace(copies, groups=None).spread == pytest.approx(one.spread / np.sqrt(5))
    other = replace(copies, row_scores=np.repeat(scores[::-1], 5))
    alone = replace(one, row_scores=scores[::-1])
    assert copies.difference_to(other)[1] == pytest.approx(one.difference_to(alone)[1])


def test_the_corrected_score_has_no_bias_where_the_best_of_equal_models_wins():
    """Eight models of the same accuracy of 80%: the best one seems better by 1 standard error."""
    errors, corrected = [], []
    for seed in range(24):
        rng = np.random.default_rng(seed)
        common = rng.normal(size=(300, 1))
        right = np.sqrt(0.8) * common + np.sqrt(0.2) * rng.normal(size=(300, 8)) < 0.8416
        results = [
            replace(result(str(i), "map", 0), row_scores=right[:, i].astype(float))
            for i in range(8)
        ]
        winner, _, _ = summary.choose(results)
        errors.append((right.mean() - winner.score) / winner.spread)
        score = summary.correct_score(results, winner, seed)
        assert score <= winner.score
        corrected.append((right.mean() - score) / winner.spread)
    assert np.mean(errors) < -0.7
    assert abs(np.mean(corrected)) < 0.12


def test_a_single_model_owes_nothing_to_the_choice():
    one = result("linear", "linear", 300)
    assert summary.correct_score([one], one, 0) == one.score


def test_seconds_are_extrapolated_by_their_growth_and_never_below_the_last_ones():
    assert extrapolate_seconds([(1.0, 2.0)], 3.0) == 6.0
    # 2 s that do not grow, and 1 s for each unit of the estimate
    assert extrapolate_seconds([(1.0, 3.0), (3.0, 5.0)], 22.0) == pytest.approx(24.0)
    # fits of about the same size say nothing about growth
    assert extrapolate_seconds([(1.0, 3.0), (2.99, 9.0), (3.0, 5.0)], 22.0) == pytest.approx(24.0)
    assert extrapolate_seconds([(1.0, 6.0), (3.0, 5.0)], 22.0) == 5.0


def test_seconds_of_trees_are_estimated_within_a_factor_of_their_growth():
    """Measured: 6.8 ms a round for 1,000 rows of 50 columns, 28.8 for 25,000."""
    options = ModelOptions(False, 1, 50, 0, 0, SCORINGS["accuracy"])
    trees = BoostingCandidate(TREES, TREES, "outside", 50)
    small, large = (trees.estimate_seconds(1, rows, options) for rows in (1000, 25_000))
    assert 28.8 / 6.8 / 1.5 < large / small < 28.8 / 6.8 * 1.5


def test_likely_maps_come_first_and_linear_before_them():
    X = np.random.default_rng(0).dirichlet(np.ones(6), size=80) * np.arange(1, 7)
    found, _, _ = candidates(X, "auto", 0, domain="nonnegative")
    families = list(dict.fromkeys(one.family.split(" >> ")[-1] for one in found))
    first = ["linear", "scaled", "fourier", "nystroem laplacian", "fourier laplacian"]
    assert families[:5] == first
    assert "nystroem" not in families  # fourier stands for the Gaussian kernel
    named, _, _ = candidates(X, ["nystroem"], 0, domain="nonnegative")
    assert {"nystroem", "nystroem laplacian"} <= {one.family for one in named}
    assert families.index("gcws") < families.index("fourier matern") < families.index("exp-chi2")
    assert {"gcws power=0.5", "gcws power=2"} <= set(families)
    left = iter([False] * 3 + [True] * 99)
    found, _, late = candidates(X, "auto", 0, domain="nonnegative", over=lambda: next(left))
    assert {one.family.split()[0] for one in found if one.kind == "map"} >= {"fourier", "gcws"}
    again, _, _ = candidates(X, late, 0, domain="nonnegative")
    everything, _, _ = candidates(X, "auto", 0, domain="nonnegative")
    assert {one.name for one in [*found, *again]} == {one.name for one in everything}


def test_a_metric_is_one_candidate_and_not_fitted_on_rows_without_targets():
    X = np.random.default_rng(0).normal(size=(80, 3)) * [1, 10, 100]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # Metric warns where it is fitted without targets
        found, refused, _ = candidates(X, "auto", 0, domain="real")
    behind = [one for one in found if one.name.startswith("metric")]
    assert [one.name for one in behind] == ["metric >> fourier"]
    assert "metric" not in refused
    options = ModelOptions(True, 1, 3, 10**9, 0, SCORINGS["r2"])
    alone = next(one for one in found if one.name.startswith("fourier gamma"))
    seconds = [alone.estimate_seconds(size, 1000, options) for size in (64, 1024)]
    expected = seconds[0] + 6 * seconds[1]
    assert behind[0].estimate_seconds(64, 1000, options) == pytest.approx(expected, rel=0.1)
    model = behind[0].build(64, options)
    assert isinstance(model.feature_map.maps[0], Metric)
    assert model.feature_map.maps[1].n_components == 64


@pytest.mark.full
def test_select_finds_a_metric_where_few_columns_matter():
    X = np.random.default_rng(0).normal(size=(600, 10))
    y = np.sin(2 * X[:, 3]) * X[:, 7]
    board = mercer.select(X, y, kernels=["fourier"], max_seconds=600, random_state=0)
    assert board.winner.name.startswith("metric >> fourier")
    model = board.best_.fit(X, y)
    assert set(np.argsort(model.importances_)[-2:]) == {3, 7}
