"""select with little time, little memory and few rows, and what it refuses."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from tests.helpers.selection_data import FEW, plane, rings, select

from mercer import KernelClassifier
from mercer.model_selection.halving import Clock, SuccessiveHalving
from mercer.model_selection.models import TREES, BoostingCandidate
from mercer.model_selection.schedule import Budget


def test_of_many_rows_some_are_drawn():
    budget = Budget(rows=100, boosting_rounds=3)
    board = select(*rings(900), kernels=["fourier"], random_state=0, budget=budget)
    assert board.rows == 900
    assert board.settings["rows"] == 100
    assert board.winner.rows < 100


def test_little_memory_means_few_rows_and_few_features():
    X, y = rings()
    board = select(X, y, kernels=["fourier"], max_memory="16kB", random_state=0)
    assert board.settings["rows"] == 250  # a quarter of 16 kB, 16 bytes a row
    assert max(one.features for one in board.entries if one.kind == "map") <= 256


def test_the_least_memory_that_is_asked_for_is_enough():
    board = select(*plane(40), kernels=["linear"], max_memory=8 * 5 * 8 * 4, random_state=0)
    assert board.settings["rows"] == 8


def test_without_time_linear_is_run_and_the_rest_is_said():
    board = select(*rings(), max_seconds=1e-9, random_state=0)
    finished = {(one.name, one.finalist) for one in board.entries}
    assert finished == {("linear", True), ("guessing", True)}
    assert re.search(
        r"^1e-09 s were not enough for .* in round 1; .* in the final\.$", board.stopped
    )
    assert board.summary.startswith(f"Only linear was tried: {board.winner.score:.2%} +- ")
    assert "There was no time for others." in board.summary
    assert board.best_.fit(*rings()).score(*rings()) > 0


@pytest.mark.parametrize(("rows", "kind"), [(rings, "map"), (plane, "linear")])
def test_maps_without_time_for_the_final_are_judged_by_the_last_round(rows, kind, monkeypatch):
    """Time is up when the first model of the final is tried, and that is linear, which is always
    run.
    """
    over = []
    left = Clock.left
    monkeypatch.setattr(Clock, "left", lambda self: -1.0 if over else left(self))
    heard = []

    def tell(stage, name):
        heard.append((stage, name))
        over.extend([True] * (stage == "the final"))

    board = select(*rows(), kernels=FEW, random_state=0, max_seconds=600, tell=tell)
    assert [one for one in heard if one[0] == "the final"] == [("the final", "linear")]
    assert {one.name for one in board.entries if one.finalist} == {"linear", "guessing"}
    assert board.winner.kind == kind and board.winner in board.entries
    assert "No map got through the final" in board.summary
    assert "600 s were not enough for gradient boosting, RandomFourier(" in board.stopped


def test_a_clock_that_stops_the_rounds_leaves_the_best_so_far(monkeypatch):
    """Time is up after eight models: what was tried is ranked as it would be without a limit."""
    whole = select(*rings(), kernels=FEW, random_state=0)
    ticks = iter(range(10**6))
    monkeypatch.setattr(Clock, "spent", lambda self: float(next(ticks)))
    cut = select(*rings(), kernels=FEW, random_state=0, max_seconds=40)
    assert cut.stopped is not None
    known = {one.name: one.score for one in whole.entries if not one.finalist}
    for one in cut.entries:
        if not one.finalist and one.name in known:
            assert one.score == known[one.name]


@pytest.mark.parametrize(
    "rows", [8, *(pytest.param(rows, marks=pytest.mark.full) for rows in (9, 13, 30))]
)
@pytest.mark.parametrize("words", [True, False])
def test_few_rows_are_enough(rows, words):
    X, y = rings(rows)
    y = y.copy()
    y[:3], y[3:6] = True, False
    labels = np.where(y, "in", "out").astype(object) if words else X[:, 0] ** 2
    board = select(X, labels, kernels=["fourier"], random_state=0)
    assert np.isfinite(board.winner.score)
    board.best_.fit(X, labels)


@pytest.mark.parametrize(
    ("target", "task", "words"),
    [
        (lambda x: x, "classify", "Unknown label type: continuous"),
        (
            lambda x: np.where(x > 0, "a", "b"),
            "regress",
            r"needs numeric targets \(could not convert string to float: '[ab]'\)",
        ),
        (lambda x: x * 1e200, "regress", "leave the range of float64: scale them down"),
    ],
    ids=["numbers as labels", "words as numbers", "too large"],
)
def test_targets_that_linear_refuses_are_refused_in_its_words(target, task, words):
    X, _ = rings(60)
    with pytest.raises(ValueError, match=words):
        select(X, target(X[:, 0]), task=task, kernels=["fourier"], random_state=0)


def test_trees_get_what_time_is_left_when_their_share_was_not_enough():
    heard = []
    board = select(
        *rings(),
        kernels=FEW,
        random_state=0,
        max_seconds=600,
        budget=Budget(boosting_rounds=3, boosting_share=0.0),
        tell=lambda *words: heard.append(words),
    )
    final = [name for stage, name in heard if stage == "the final" and "exact" not in name]
    assert final[-1] == TREES
    assert next(one for one in board.entries if one.name == TREES).finalist
    assert board.stopped is None


def test_a_class_of_one_row_is_learnt_from_and_never_scored():
    X, y = rings(300)
    labels = np.where(y, "outside", "inside").astype(object)
    labels[17] = "alone"
    board = select(X, labels, kernels=["fourier"], random_state=0)
    assert board.winner.score > 0.9


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"max_seconds": 0}, "max_seconds must be a finite number above 0, got 0"),
        ({"max_seconds": -3.0}, "max_seconds must be a finite number above 0"),
        ({"max_memory": "lots"}, "max_memory must be a number of bytes"),
        ({"kernels": ["furier"]}, "kernels must be one of .* got 'furier'. Did you mean 'fourier'"),
        ({"kernels": []}, "kernels must be 'auto' or a list"),
        ({"kernels": 3}, "kernels must be 'auto' or a list"),
        ({"task": "rank"}, "task must be one of 'classify', 'regress', got 'rank'"),
        ({"y": np.ones(40, int)}, "all 40 rows have one class: 1. Give rows of at least two"),
        ({"y": np.full(40, "a")}, "all 40 rows have one class: 'a'. Give rows of at least two"),
        (
            {"y": np.full(40, 0.5)},
            "all 40 rows have the same target: 0.5. Give rows of at least two",
        ),
        (
            {"max_memory": 100},
            "max_memory is 100 bytes, .* holds 1 row of 2 columns, and at least 8 .* give 512 "
            "bytes or more",
        ),
        (
            {"max_memory": 511},
            "max_memory is 511 bytes, .* holds 7 rows of 2 columns, and at least 8 .* give 512 "
            "bytes or more",
        ),
        ({"y": None}, "select needs targets"),
        ({"y": np.ones((40, 2))}, "select takes one target, got 2"),
        (
            {"X": np.ones((40, 3))},
            "All 40 rows are equal: no model can tell them apart. Give columns that differ",
        ),
        ({"X": sp.csr_matrix((40, 3))}, "All 40 rows are equal"),
        (
            {"X": np.ones((5, 3)), "y": np.arange(5)},
            "needs at least 8 rows for that: got 5. Give more rows",
        ),
        (
            {"X": np.full((40, 2), np.nan)},
            "contains NaN: select needs finite numbers, got nan at row 0, column 0",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused_in_a_sentence(given, words):
    X, y = rings(40)
    given = {"X": X, "y": y, "kernels": ["fourier"], **given}
    with pytest.raises(ValueError, match=words):
        select(given.pop("X"), given.pop("y"), **given)


@pytest.mark.full
def test_a_hundred_thousand_columns_stay_sparse():
    rng = np.random.default_rng(0)
    X = sp.random(120, 100_000, density=2e-4, random_state=rng, format="csr")
    y = np.arange(120) % 2 == 0
    X = sp.csr_matrix(
        X + sp.csr_matrix((np.ones(60), (np.arange(0, 120, 2), np.zeros(60, int))), shape=X.shape)
    )
    board = select(X, y, max_seconds=3, max_memory="1GB", random_state=0)
    assert board.columns == 100_000
    assert board.winner.score > 0.9
    assert board.stopped is not None or "gradient boosting" in board.refused
    assert board.refused["gradient boosting"].startswith("Trees on 100,000 columns")


def facts(board):
    return [(one.name, one.score, one.spread, one.finalist, one.features) for one in board.entries]


def test_a_search_that_is_continued_has_the_results_of_one_that_had_the_time():
    whole = select(*rings(), kernels=["fourier"], random_state=0, max_seconds=600)
    short = select(*rings(), kernels=["fourier"], random_state=0, max_seconds=1e-9)
    before = facts(short)
    assert short.stopped is not None and short.winner.name == "linear"
    board = short.resume(600)
    assert facts(short) == before
    assert board.stopped is None
    finalists = [one for one in whole.entries if one.finalist]
    assert facts(board)[: len(finalists)] == facts(whole)[: len(finalists)]
    assert board.winner.name == whole.winner.name
    assert board.corrected_score == whole.corrected_score
    assert board.seconds > short.seconds
    assert board.settings["max_seconds"] == pytest.approx(600)


def test_a_cross_validation_that_was_stopped_between_folds_goes_on_from_there(monkeypatch):
    """Time is up after the second fit of the first map in the final."""
    fits = []
    fit = KernelClassifier.fit
    monkeypatch.setattr(
        KernelClassifier, "fit", lambda self, *data: (fits.append(1), fit(self, *data))[1]
    )
    select(*rings(), kernels=FEW, random_state=0, max_seconds=600)
    needed = len(fits)
    spent, stop = Clock.spent, []

    def late(self):
        return 1e9 if stop and len(fits) > stop[0] + 6 else spent(self)

    monkeypatch.setattr(Clock, "spent", late)

    def tell(stage, name):
        stop.extend([len(fits)] * (stage == "the final" and not stop))

    fits.clear()
    board = select(*rings(), kernels=FEW, random_state=0, max_seconds=600, tell=tell)
    assert board.stopped is not None
    stop.clear()
    monkeypatch.setattr(Clock, "spent", spent)
    board = board.resume(600)
    assert board.stopped is None
    assert len(fits) == needed


def test_a_leaderboard_without_a_search_cannot_be_continued():
    board = replace(select(*rings(60), kernels=["linear"], random_state=0), search=None)
    with pytest.raises(ValueError, match="no search to continue"):
        board.resume(1)


def test_time_that_a_forecast_has_left_is_used(monkeypatch):
    """Forecasts of maps are 1,000 times too high while rounds are run: they are tried again."""
    forecast = SuccessiveHalving._forecast
    passes = []
    run_pass = SuccessiveHalving._run_pass
    monkeypatch.setattr(
        SuccessiveHalving, "_run_pass", lambda self: (passes.append(1), run_pass(self))[1]
    )
    monkeypatch.setattr(
        SuccessiveHalving,
        "_forecast",
        lambda self, candidate, *more: (
            1e6
            if len(passes) == 1 and "8.0" in candidate.name
            else forecast(self, candidate, *more)
        ),
    )
    board = select(*rings(), kernels=FEW, random_state=0, max_seconds=600)
    assert len(passes) == 2
    assert board.stopped is None
    assert any("8.0" in one.name and one.finalist for one in board.entries)


def test_what_is_unused_and_why_is_said(monkeypatch):
    forecast = SuccessiveHalving._forecast
    monkeypatch.setattr(
        SuccessiveHalving,
        "_forecast",
        lambda self, candidate, *more: (
            1234.5 if "8.0" in candidate.name else forecast(self, candidate, *more)
        ),
    )
    board = select(*rings(), kernels=FEW, random_state=0, max_seconds=600)
    assert re.search(
        r"^600 s were not enough for RandomFourier\(gamma=8.0.* in round 1\. \d{3}\.\d s "
        r"are unused: the shortest of these takes about 1234\.5 s\.$",
        board.stopped,
    )


def test_exact_kernels_are_fitted_last():
    heard = []
    select(
        *rings(),
        kernels=["fourier"],
        random_state=0,
        tell=lambda stage, name: heard.append((stage, name)),
    )
    names = [name for stage, name in heard if stage == "the final"]
    exact = [i for i, name in enumerate(names) if name.startswith("exact")]
    assert exact == list(range(len(names) - len(exact), len(names))) and exact
    assert names[1] == TREES


def test_a_map_is_forecast_by_the_growth_of_maps_that_were_fitted_at_both_sizes():
    search = select(*rings(), kernels=FEW, random_state=0).search
    names = [name for name in search._maps if name != "linear"]
    search._timings = {
        names[0]: {("round 1", 256): (1.0, 0.5), ("the final", 512): (22.0, 2.0)},
        names[1]: {("round 1", 256): (1.0, 0.3)},
    }
    found = search._forecast(search._maps[names[1]], 512, 250, "the final")
    assert found == pytest.approx(4 * 0.3)
    trees = BoostingCandidate(TREES, TREES, "outside", 3)
    search._timings[TREES] = search._timings.pop(names[1])
    estimate = trees.estimate_seconds(512, 250, search.options)
    assert search._forecast(trees, 512, 250, "the final") == pytest.approx(0.3 * estimate)
