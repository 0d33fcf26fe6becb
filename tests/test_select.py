"""select: which kernel and which size, on rows where the right answer is known, and on rows that say nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

import mercer
from mercer import Chi2Series, KernelClassifier, KernelRegressor, RandomFourier, leaderboard, select
from mercer.leaderboard import Leaderboard
from mercer.planner import plan_fit
from mercer.race import course, samples, verdicts
from mercer.race.candidates import TWINS, candidates
from mercer.race.contestants import TREES, Contestant, Trees
from mercer.race.rounds import Clock, Contest, Trial, _kept, _ranked


@pytest.fixture(autouse=True, scope="module")
def few_trees():
    """Trees are the slowest of all, and as many as scikit-learn grows are not needed here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mercer.race.contestants._ROUNDS_OF_TREES", 3)
        yield


FEW = [RandomFourier(64, gamma=0.5, random_state=0), RandomFourier(64, gamma=8.0, random_state=0)]


def rings(n: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.hypot(*X.T) > 1.18


def plane(n: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    return X, X @ np.array([1.0, -2, 0.5, 0, 1]) + 0.5 * rng.normal(size=n) > 0


def steps(n: int = 800, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two columns say it, by which side of a threshold they are on; eighteen say nothing."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 20))
    return X, (X[:, 0] > 0.3) ^ (X[:, 1] > 0.6)


@pytest.fixture(scope="module")
def board() -> Leaderboard:
    return select(*rings(), kernels=FEW, random_state=0)


def facts(board: Leaderboard) -> list[tuple]:
    return [(one.name, one.score, one.spread, one.rounds, one.features, one.gram_error) for one in board.entries]


def test_a_map_wins_where_no_plane_parts_the_classes(board):
    assert board.winner.kind == "map"
    assert board.winner.finalist
    linear = next(one for one in board.entries if one.kind == "linear" and one.finalist)
    assert board.winner.score > 0.93 > 0.75 > linear.score
    assert re.search(r"wins with 9\d\.\d\d% \+- \d\.\d\d%, \d\d\.\d\d points more than linear\.$", board.verdict)
    X, y = rings(seed=1)
    model = board.best_
    assert not hasattr(model, "feature_map_")
    assert model.fit(*rings()).score(X, y) > 0.93


def test_linear_is_enough_where_it_is():
    board = select(*plane(), kernels=FEW, random_state=0)
    assert board.winner.kind == "linear"
    assert board.verdict.startswith("Linear is enough: 9")
    assert board.best_.fit(*plane()).score(*plane(seed=1)) > 0.9


def test_trees_are_better_where_columns_are_cut_at_thresholds(monkeypatch):
    monkeypatch.setattr("mercer.race.contestants._ROUNDS_OF_TREES", 25)
    board = select(*steps(), kernels=["fourier"], random_state=0)
    assert board.verdict.startswith("Trees are better here: gradient boosting has 9")
    assert board.entries[0].name == "gradient boosting"
    assert board.winner.kind != "outside"
    assert isinstance(board.best_, KernelClassifier)


def test_numbers_are_scored_by_r2():
    X, _ = rings()
    y = np.sin(3 * X[:, 0]) + X[:, 1]
    board = select(X, y, kernels=["fourier"], random_state=0)
    assert board.numeric
    assert isinstance(board.best_, KernelRegressor)
    assert board.winner.kind == "map"
    assert 0.9 < board.winner.score <= 1
    assert "R^2" in str(board)
    exact = [one for one in board.entries if one.kind == "exact"]
    assert exact and exact[0].score > 0.9


def test_columns_of_unlike_units_are_divided_by_their_spread():
    rng = np.random.default_rng(0)
    X, y = rings()
    X = np.column_stack([X, 1000 * rng.normal(size=len(X))])
    board = select(X, y, kernels=["fourier"], random_state=0)
    assert board.winner.name.startswith("scaled >> fourier")
    plain = max(one.score for one in board.entries if one.name.startswith("fourier"))
    assert board.winner.score > plain + 0.1


def test_the_same_seed_gives_the_same_board_and_another_seed_another(board):
    again = select(*rings(), kernels=FEW, random_state=0)
    assert facts(again) == facts(board)
    assert again.verdict == board.verdict
    assert board.stopped is None
    other = select(*rings(), kernels=FEW, random_state=1)
    assert facts(other) != facts(board)


def test_threads_and_a_longer_time_change_nothing(board, monkeypatch):
    monkeypatch.setenv("MERCER_NUM_THREADS", "1")
    assert facts(select(*rings(), kernels=FEW, random_state=0, max_seconds=1e6)) == facts(board)


def test_labels_that_mean_nothing_are_guessed_in_the_final_whatever_the_rounds_have_chosen(monkeypatch):
    """The best of a round is better than guessing, since it was chosen for that; on the rows of the final the finalists are not."""
    contests = []
    judge = leaderboard._board
    monkeypatch.setattr(
        leaderboard, "_board", lambda contest, *rest: (contests.append(contest), judge(contest, *rest))[1]
    )
    X, _ = rings(300)
    labels = np.arange(300) % 2
    for seed in range(5):
        select(X, np.random.default_rng(seed).permutation(labels), kernels=["fourier"], random_state=seed)
    rounds = [max(one.score for one in contest.last.values()) for contest in contests]
    final = [np.mean([one.score for one in contest.final if one.contestant.kind == "map"]) for contest in contests]
    assert np.mean(rounds) > 0.57
    assert abs(np.mean(final) - 0.5) < 0.035  # two standard errors of 5 x 150 labels


@pytest.mark.parametrize("numbers", [False, True])
def test_a_rare_class_or_a_mean_that_no_model_improves_on_is_guessing_and_not_enough(numbers):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 3))
    y = rng.normal(size=300) if numbers else np.where(np.arange(300) % 10, "often", "seldom").astype(object)
    board = select(X, y, kernels=FEW, random_state=0)
    words = "R^2 0" if numbers else "90.00%"
    assert board.verdict.startswith(f"Nothing here beats guessing ({words}): {board.winner.name} has ")
    alone = select(X, y, kernels=["linear"], random_state=0)
    assert f", no better than guessing ({words}). No map beside it was asked for." in alone.verdict


@pytest.fixture
def splits(monkeypatch):
    """(stage, learnt from, scored on) of every model that was tried, by the rows' own numbers."""
    seen = []
    tried = Contest._tried

    def spy(self, one, size, splits, stage, until):
        rows = self.sample.X[:, 0]
        seen.extend((stage, set(rows[train]), set(rows[test])) for train, test in splits)
        return tried(self, one, size, splits, stage, until)

    monkeypatch.setattr(Contest, "_tried", spy)
    return seen


def test_no_round_sees_the_rows_of_the_final(splits):
    X, y = rings(200)
    X = np.column_stack([np.arange(200.0), X])
    select(X, y, kernels=["fourier"], random_state=0)
    rounds = [one for one in splits if one[0] != "the final"]
    final = [one for one in splits if one[0] == "the final"]
    selected = set().union(*(learnt | scored for _, learnt, scored in rounds))
    judged = set().union(*(scored for _, _, scored in final))
    assert rounds and final
    assert not selected & judged
    assert selected | judged == set(X[:, 0])
    assert len({frozenset(scored) for _, _, scored in rounds}) == 1
    for _, learnt, scored in splits:
        assert learnt and scored and not learnt & scored
    for _, learnt, scored in final:
        assert learnt | scored == set(X[:, 0])


def test_what_has_no_bandwidth_goes_first_and_linear_before_it():
    X = np.random.default_rng(0).dirichlet(np.ones(6), size=80)
    heard = []
    board = select(X, X[:, 0] * X[:, 1] > 0.02, random_state=0, tell=lambda stage, name: heard.append((stage, name)))
    first = [name for stage, name in heard if stage == "round 1"]
    assert first[0] == "linear"
    places = {name: i for i, name in enumerate(first)}
    tuned = [i for name, i in places.items() if "=" in name]
    assert max(places[name] for name in ("gcws", "chi2-series", "hellinger")) < min(tuned)
    assert first[-1] == "gradient boosting"
    assert set(board.refused) == set(TWINS)


def test_signed_rows_are_not_forced_into_histogram_kernels():
    X, y = rings(300)
    board = select(X[:80], y[:80], random_state=0)
    nonnegative = {name for name, cls in mercer.maps.registry().items() if cls().domain == "nonnegative"} - set(TWINS)
    assert nonnegative <= set(board.refused)
    assert all("needs numbers of at least 0" in board.refused[name] for name in nonnegative)
    assert not [one for one in board.entries if nonnegative & set(one.name.split())]


def test_every_registered_map_takes_part_or_is_named_with_a_reason():
    X = np.random.default_rng(0).dirichlet(np.ones(60), size=300)
    found, refused, _ = candidates(X, "auto", 0, domain="nonnegative")
    there = {word for one in found for word in one.name.split()} | set(refused)
    assert set(mercer.maps.registry()) <= there
    named, refused, _ = candidates(X, sorted(TWINS), 0, domain="nonnegative")
    assert set(TWINS) <= {word for one in named for word in one.name.split()}
    assert not refused


def test_a_map_of_ones_own_races_as_it_is():
    X = np.random.default_rng(0).dirichlet(np.ones(6), size=200)
    mine = Chi2Series(2) >> RandomFourier(99, gamma=3.0, random_state=5)
    board = select(X, X[:, 0] > X[:, 1], kernels=[mine, "hellinger"], random_state=0)
    entry = next(one for one in board.entries if one.features == 99)
    assert entry.model.feature_map.get_params()["randomfourier__gamma"] == 3.0
    assert {one.kind for one in board.entries} == {"linear", "map", "outside", "exact"}


def test_exact_kernels_and_trees_are_beside_the_race(board):
    kinds = {one.kind for one in board.entries}
    assert kinds == {"linear", "map", "exact", "outside"}
    for one in board.entries:
        assert (one.model is None) == (one.kind == "exact")
        assert (one.gram_error is None) == (one.kind != "map" or not one.finalist)
    assert len({one.name for one in board.entries}) == len(board.entries)
    exact = max((one for one in board.entries if one.kind == "exact"), key=lambda one: one.score)
    assert exact.score > 0.95
    order = [one.score for one in board.entries if one.finalist]
    assert order == sorted(order, reverse=True)


def test_the_table_has_a_line_for_each_entry_and_the_verdict(board):
    lines = str(board).splitlines()
    assert len(lines) == len(board.entries) + 2
    assert lines[-1] == board.verdict
    assert lines[1].startswith(board.entries[0].name)


@pytest.mark.parametrize("form", ["frame", "stream", "csr", "lists"])
def test_rows_may_come_in_any_form(board, form, tmp_path):
    X, y = rings()
    if form == "frame":
        found = select(pd.DataFrame(X, columns=["a", "b"]), pd.Series(y), kernels=FEW, random_state=0)
    elif form == "stream":
        np.savez(tmp_path / "rings.npz", X=X, y=y)
        found = select(tmp_path / "rings.npz", kernels=FEW, random_state=0)
    elif form == "csr":
        found = select(sp.csr_matrix(X), y, kernels=FEW, random_state=0)
    else:
        found = select(X.tolist(), y.tolist(), kernels=FEW, random_state=0)
    assert [one.name for one in found.entries if one.finalist] == [one.name for one in board.entries if one.finalist]
    assert found.winner.score == pytest.approx(board.winner.score, abs=0.01)


def test_of_many_rows_some_are_drawn(monkeypatch):
    monkeypatch.setattr(course, "_ROWS", 100)
    board = select(*rings(900), kernels=["fourier"], random_state=0)
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


def test_kernels_may_be_a_set_or_a_tuple():
    X, y = rings(60)
    boards = [select(X, y, kernels=some, random_state=0) for some in ({"fourier", "gcws"}, ("fourier", "gcws"))]
    assert facts(boards[0]) == facts(boards[1])
    assert any(one.name.startswith("fourier") for one in boards[0].entries)


def test_without_time_linear_is_run_and_the_rest_is_said():
    board = select(*rings(), max_seconds=1e-9, random_state=0)
    assert [(one.name, one.finalist) for one in board.entries] == [("linear", True)]
    assert board.stopped.startswith("Their share of 1e-09 s was not enough for ")
    assert re.search(r" in round 1\. 1e-09 s were not enough for .* in the final\.$", board.stopped)
    assert board.verdict.startswith(f"Only linear was tried: {board.winner.score:.2%} +- ")
    assert board.verdict.endswith("There was no time for others.")
    assert board.best_.fit(*rings()).score(*rings()) > 0


@pytest.mark.parametrize(
    ("kernels", "why"),
    [
        (
            [Chi2Series()],
            "Chi2Series() took no part: Chi2Series needs numbers of at least 0, and the rows have others.",
        ),
        (
            ["hellinger", "chi2-series"],
            "hellinger took no part: Hellinger needs numbers of at least 0, and the rows have others. 1 more ",
        ),
        (["linear"], "No map beside it was asked for."),
    ],
    ids=["refused", "two refused", "linear"],
)
def test_where_no_map_takes_part_linear_wins_by_its_final_and_the_verdict_says_why(kernels, why):
    board = select(*plane(100), kernels=kernels, random_state=0)
    assert board.winner.kind == "linear" and board.winner.finalist
    assert board.winner in board.entries
    assert board.verdict.startswith(f"Only linear was tried: {board.winner.score:.2%} +- ")
    assert f"%. {why}" in board.verdict


@pytest.mark.parametrize(("rows", "kind"), [(rings, "map"), (plane, "linear")])
def test_maps_without_time_for_the_final_are_judged_by_the_last_round(rows, kind, monkeypatch):
    """Time is up when the first model of the final is tried, and that is linear, which is always run."""
    over = []
    left = Clock.left
    monkeypatch.setattr(Clock, "left", lambda self, share=1.0: -1.0 if over else left(self, share))
    heard = []

    def tell(stage, name):
        heard.append((stage, name))
        over.extend([True] * (stage == "the final"))

    board = select(*rows(), kernels=FEW, random_state=0, max_seconds=600, tell=tell)
    assert [one for one in heard if one[0] == "the final"] == [("the final", "linear")]
    assert [one.name for one in board.entries if one.finalist] == ["linear"]
    assert board.winner.kind == kind and board.winner in board.entries
    assert "No map got through the final" in board.verdict
    assert "600 s were not enough for RandomFourier(" in board.stopped


def test_linear_goes_first_in_the_final(board):
    heard = []
    select(*rings(), kernels=FEW, random_state=0, tell=lambda stage, name: heard.append((stage, name)))
    assert next(name for stage, name in heard if stage == "the final") == "linear"


def test_a_clock_that_stops_the_rounds_leaves_the_best_so_far(monkeypatch):
    """Time is up after eight models: what was tried is ranked as it would be without a limit."""
    whole = select(*rings(), kernels=FEW, random_state=0)
    ticks = iter(range(10**6))
    monkeypatch.setattr("mercer.race.rounds.Clock.spent", lambda self: float(next(ticks)))
    cut = select(*rings(), kernels=FEW, random_state=0, max_seconds=40)
    assert cut.stopped is not None
    known = {one.name: one.score for one in whole.entries if not one.finalist}
    for one in cut.entries:
        if not one.finalist and one.name in known:
            assert one.score == known[one.name]


@pytest.mark.parametrize("rows", [8, 9, 13, 30])
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
            r"targets that are numbers \(could not convert string to float: '[ab]'\)",
        ),
        (lambda x: x * 1e200, "regress", "leave the range of float64: scale them down"),
    ],
    ids=["numbers as labels", "words as numbers", "too large"],
)
def test_targets_that_linear_refuses_are_refused_in_its_words(target, task, words):
    X, _ = rings(60)
    with pytest.raises(ValueError, match=words):
        select(X, target(X[:, 0]), task=task, kernels=["fourier"], random_state=0)


def test_trees_predict_on_as_many_threads_as_they_grow_on():
    def threads(X, y=None):
        seen.append({one["num_threads"] for one in threadpool_info() if one["user_api"] == "openmp"})

    with threadpool_limits(2, user_api="openmp"):
        for rows, count in ((100, {1}), (10**6, {2})):
            seen: list[set[int]] = []
            trees = Trees(SimpleNamespace(fit=threads, predict=threads))
            trees.fit(np.empty((rows, 1)), None).predict(np.empty((100, 1)))
            assert seen == [count, count]


def test_trees_get_what_time_is_left_when_their_share_was_not_enough(monkeypatch):
    monkeypatch.setattr("mercer.race.rounds._TREES_SHARE", 0.0)
    heard = []
    board = select(*rings(), kernels=FEW, random_state=0, max_seconds=600, tell=lambda *words: heard.append(words))
    assert heard[-1] == ("the final", TREES)
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
        ({"y": np.full(40, 0.5)}, "all 40 rows have the same target: 0.5. Give rows of at least two"),
        (
            {"max_memory": 100},
            "max_memory is 100 bytes, .* holds 1 row of 2 columns, and at least 8 .* give 512 bytes or more",
        ),
        (
            {"max_memory": 511},
            "max_memory is 511 bytes, .* holds 7 rows of 2 columns, and at least 8 .* give 512 bytes or more",
        ),
        ({"y": None}, "select needs targets"),
        ({"y": np.ones((40, 2))}, "select takes one target, got 2"),
        ({"X": np.ones((40, 3))}, "All 40 rows are equal: no model can tell them apart. Give columns that differ"),
        ({"X": sp.csr_matrix((40, 3))}, "All 40 rows are equal"),
        ({"X": np.ones((5, 3)), "y": np.arange(5)}, "needs at least 8 rows for that: got 5. Give more rows"),
        ({"X": np.full((40, 2), np.nan)}, "contains NaN: select needs finite numbers, got nan at row 0, column 0"),
    ],
)
def test_what_cannot_be_raced_is_refused_in_a_sentence(given, words):
    X, y = rings(40)
    given = {"X": X, "y": y, "kernels": ["fourier"], **given}
    with pytest.raises(ValueError, match=words):
        select(given.pop("X"), given.pop("y"), **given)


def test_a_hundred_thousand_columns_stay_sparse():
    rng = np.random.default_rng(0)
    X = sp.random(120, 100_000, density=2e-4, random_state=rng, format="csr")
    y = np.arange(120) % 2 == 0
    X = sp.csr_matrix(X + sp.csr_matrix((np.ones(60), (np.arange(0, 120, 2), np.zeros(60, int))), shape=X.shape))
    board = select(X, y, max_seconds=3, max_memory="1GB", random_state=0)
    assert board.columns == 100_000
    assert board.winner.score > 0.9
    assert board.stopped is not None or "gradient boosting" in board.refused
    assert board.refused["gradient boosting"].startswith("Trees on 100,000 columns")


@given(rows=st.integers(8, 10**6), models=st.integers(1, 100), limit=st.integers(10**3, 10**11))
def test_the_course_of_a_race_adds_up(rows, models, limit):
    plan = course.plan_course(rows, models, limit)
    assert plan.rows + plan.held_out + plan.final == rows
    assert min(plan.rows, plan.held_out, plan.final) > 0
    assert 2 <= plan.folds <= plan.final
    assert plan.rounds[-1][0] <= plan.rows
    assert len(plan.keep) == len(plan.rounds)
    for before, after in pairwise(plan.rounds):
        assert after == (3 * before[0], 2 * before[1])
    assert all(before < after for before, after in pairwise(plan.sizes))


@given(limit=st.integers(10**6, 10**11))
def test_a_model_of_a_race_sums_moments_of_as_many_features_as_a_race_takes(limit):
    most, memory = course.most_features(limit), course.race_memory(limit)
    assert plan_fit(1000, 5, most, limit=memory).route == "moments"
    assert plan_fit(1000, 5, most + 1, limit=memory).route == "passes"


@given(st.lists(st.sampled_from("aaaaabbbc"), min_size=20, max_size=200))
def test_every_stretch_of_a_sample_has_its_share_of_each_class(labels):
    y = np.array([*labels, "a", "b"])
    order = samples._order(y, False, 0)
    assert sorted(order) == list(range(len(y)))
    shown = y[order]
    classes = np.unique(y)
    assert set(shown[: len(classes)]) == set(classes)
    half = len(y) // 2
    for one in classes:
        assert abs(np.sum(shown[:half] == one) - np.sum(y == one) * half / len(y)) <= 2


def trial(name: str, kind: str, right: int, *, work: float = 1.0, seconds: float = 1.0, rows: int = 400) -> Trial:
    """A model that has so many of the rows right, the same ones as all that have fewer."""
    one = Contestant(name, name, kind, lambda size: None, lambda size, rows: 1.0, lambda size: work)
    return Trial(one, 256, rows, (np.arange(rows) < right).astype(float), seconds, seconds, None)


def judged(*final: Trial, guess: int = 0) -> tuple[str, str]:
    guessed = trial("guess", "outside", guess)
    contest = SimpleNamespace(
        final=list(final), last={}, sample=SimpleNamespace(numeric=False), guess=lambda in_final: guessed
    )
    winner, verdict = verdicts.judged(contest)
    return winner.contestant.name, verdict


def test_linear_wins_within_one_standard_error_and_not_beyond():
    """A difference in k of n rows, all one way, is k/sqrt(k (1 - k/n) + 1) standard errors: k = 1 is within one, k = 2 is not."""
    linear = trial("linear", "linear", 300)
    name, verdict = judged(linear, trial("fourier", "map", 301))
    assert name == "linear"
    assert verdict == "Linear is enough: 75.00% +- 2.17%; fourier has 75.25% +- 2.16%, no more than noise."
    name, verdict = judged(linear, trial("fourier", "map", 302))
    assert name == "fourier"
    assert verdict == "fourier wins with 75.50% +- 2.15%, 0.50 points more than linear."


def test_trees_are_better_beyond_one_standard_error_and_never_win():
    fourier, linear = trial("fourier", "map", 350), trial("linear", "linear", 300)
    name, verdict = judged(linear, fourier, trial(TREES, "outside", 351), trial("exact", "exact", 390))
    assert (name, "Trees" in verdict) == ("fourier", False)
    name, verdict = judged(linear, fourier, trial(TREES, "outside", 352))
    assert name == "fourier"
    assert verdict.startswith(
        "Trees are better here: gradient boosting has 88.00% +- 1.62%, 0.50 points more than ours."
    )
    assert verdict.endswith("Of ours: fourier wins with 87.50% +- 1.65%, 12.50 points more than linear.")


def test_what_is_within_two_standard_errors_of_guessing_is_called_guessing():
    linear, fourier = trial("linear", "linear", 300), trial("fourier", "map", 310)
    name, verdict = judged(linear, fourier, guess=306)
    assert (name, verdict) == ("fourier", "Nothing here beats guessing (76.50%): fourier has 77.50% +- 2.09%.")
    assert judged(linear, fourier, guess=305)[1].startswith("fourier wins with ")
    _, verdict = judged(linear, fourier, trial(TREES, "outside", 320), guess=310)
    assert verdict.startswith("Trees are better here: ") and "Of ours: nothing beats guessing (77.50%): " in verdict
    _, verdict = judged(linear, fourier, trial(TREES, "outside", 320), guess=320)
    assert verdict.startswith("Nothing here beats guessing (80.00%): ")


def test_what_cannot_be_told_apart_is_ranked_by_its_work_and_never_by_the_clock():
    slow = trial("slow", "map", 300, work=1.0, seconds=9.0)
    quick = trial("quick", "map", 300, work=2.0, seconds=0.1)
    better = trial("better", "map", 310, work=3.0)
    assert [one.contestant.name for one in _ranked([quick, slow])] == ["slow", "quick"]
    assert [one.contestant.name for one in _ranked([quick, slow, better])] == ["better", "quick", "slow"]
    assert judged(trial("linear", "linear", 100), quick, slow)[0] == "slow"


def test_linear_goes_on_wherever_it_is_and_two_bandwidths_of_a_kernel():
    ranked = [trial(f"{i}", "map", 390 - i) for i in range(6)]
    same = [replace(one, contestant=replace(one.contestant, family="fourier")) for one in ranked[:4]]
    last = [trial("linear", "linear", 10), trial("scaled", "linear", 9)]
    kept = [one.contestant.name for one in _kept([*same, *ranked[4:], *last], 3)]
    assert kept == ["0", "1", "4", "linear"]
