"""select: which kernel and which size, on rows where the right answer is known, and on rows that
say nothing.
"""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from tests.helpers.selection_data import FEW, plane, rings, select

import mercer
from mercer import GCWS, Chi2Series, KernelClassifier, KernelRegressor, RandomFourier
from mercer.model_selection.candidates import ALTERNATIVES
from mercer.model_selection.halving import SuccessiveHalving
from mercer.model_selection.schedule import Budget
from mercer.model_selection.select import Leaderboard


def steps(n: int = 800, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two columns say it, by which side of a threshold they are on; eighteen say nothing."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 20))
    return X, (X[:, 0] > 0.3) ^ (X[:, 1] > 0.6)


@pytest.fixture(scope="module")
def board() -> Leaderboard:
    return select(*rings(), kernels=FEW, random_state=0)


def facts(board: Leaderboard) -> list[tuple]:
    return [
        (one.name, one.score, one.spread, one.rounds, one.features, one.gram_error)
        for one in board.entries
    ]


def test_a_map_wins_where_no_plane_parts_the_classes(board):
    assert board.winner.kind == "map"
    assert board.winner.finalist
    linear = next(one for one in board.entries if one.kind == "linear" and one.finalist)
    assert board.winner.score > 0.93 > 0.75 > linear.score
    assert re.search(
        r"wins with 9\d\.\d\d% \+- \d\.\d\d%, \d\d\.\d\d points more than linear\. ", board.summary
    )
    X, y = rings(seed=1)
    model = board.best_
    assert not hasattr(model, "feature_map_")
    assert model.fit(*rings()).score(X, y) > 0.93


def test_linear_is_enough_where_it_is():
    board = select(*plane(), kernels=FEW, random_state=0)
    assert board.winner.kind == "linear"
    assert board.summary.startswith("Linear is enough: 9")
    assert board.best_.fit(*plane()).score(*plane(seed=1)) > 0.9


@pytest.mark.full
def test_trees_are_better_where_columns_are_cut_at_thresholds():
    budget = Budget(boosting_rounds=25)
    board = select(*steps(), kernels=["fourier"], random_state=0, budget=budget)
    assert board.summary.startswith("Trees are better here: gradient boosting has 9")
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


@pytest.mark.full
def test_columns_of_unlike_units_are_divided_by_their_spread():
    rng = np.random.default_rng(0)
    X, y = rings()
    X = np.column_stack([X, 1000 * rng.normal(size=len(X))])
    board = select(X, y, kernels=["fourier"], random_state=0)
    # a metric is learned of scaled columns, and finds that the third one is noise
    assert board.winner.name.startswith(("scaled >> fourier", "metric >> fourier"))
    plain, scaled = (
        max(one.score for one in board.entries if one.name.startswith(first))
        for first in ("fourier", "scaled >> fourier")
    )
    assert scaled > plain + 0.1


def test_the_same_seed_gives_the_same_board_and_another_seed_another(board):
    again = select(*rings(), kernels=FEW, random_state=0)
    assert facts(again) == facts(board)
    assert again.summary == board.summary
    assert board.stopped is None
    other = select(*rings(), kernels=FEW, random_state=1)
    assert facts(other) != facts(board)


def test_threads_and_a_longer_time_change_nothing(board, monkeypatch):
    monkeypatch.setenv("MERCER_NUM_THREADS", "1")
    assert facts(select(*rings(), kernels=FEW, random_state=0, max_seconds=1e6)) == facts(board)


@pytest.mark.full
def test_labels_that_mean_nothing_are_guessed_in_the_final_whatever_the_rounds_have_chosen(
    searches,
):
    """The best of a round is better than the average, since it was chosen for that; on the rows of
    the final the finalists are guessing.
    """
    X, _ = rings(300)
    labels = np.arange(300) % 2
    for seed in range(5):
        select(
            X,
            np.random.default_rng(seed).permutation(labels),
            kernels=["fourier"],
            random_state=seed,
        )
    rounds = [[one.score for one in search.last.values()] for search in searches]
    final = [
        np.mean([one.score for one in search.final if one.candidate.kind == "map"])
        for search in searches
    ]
    # labels in equal numbers: without a row of a class, the other one is more frequent, and the
    # average model of a cross-validation is below 0.5
    assert np.mean([max(scores) - np.mean(scores) for scores in rounds]) > 0.05
    assert abs(np.mean(final) - 0.5) < 0.035  # two standard errors of 5 x 150 labels


@pytest.mark.parametrize("numbers", [False, True])
def test_a_rare_class_or_a_mean_that_no_model_improves_on_is_guessing_and_not_enough(numbers):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 3))
    y = (
        rng.normal(size=300)
        if numbers
        else np.where(np.arange(300) % 10, "often", "seldom").astype(object)
    )
    board = select(X, y, kernels=FEW, random_state=0)
    guess = next(one for one in board.entries if one.name == "guessing")
    words = f"R^2 {guess.score:.4f}" if numbers else "90.00%"
    assert board.summary.startswith(
        f"Nothing here beats guessing ({words}): {board.winner.name} has "
    )
    assert guess.score == pytest.approx(0.0 if numbers else 0.9, abs=0.01)
    alone = select(X, y, kernels=["linear"], random_state=0)
    assert f", no better than guessing ({words}). No other map was named." in alone.summary


@pytest.fixture
def searches(monkeypatch):
    """All searches that are run."""
    seen = []
    run = SuccessiveHalving.run
    monkeypatch.setattr(SuccessiveHalving, "run", lambda self: (seen.append(self), run(self))[1])
    return seen


@pytest.fixture
def splits(monkeypatch):
    """(stage, trained on, scored on) of every model that was tried, by the rows' own numbers."""
    seen = []
    evaluate = SuccessiveHalving._evaluate

    def spy(self, candidate, size, splits, stage, until):
        rows = self.sample.X[:, 0]
        seen.extend((stage, set(rows[train]), set(rows[test])) for train, test in splits)
        return evaluate(self, candidate, size, splits, stage, until)

    monkeypatch.setattr(SuccessiveHalving, "_evaluate", spy)
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
    parts = {frozenset(scored) for _, _, scored in rounds}  # of one cross-validation
    assert len(parts) == 3 and sum(map(len, parts)) == len(selected)
    for _, learnt, scored in splits:
        assert learnt and scored and not learnt & scored
    for _, learnt, scored in final:
        assert learnt | scored == set(X[:, 0])


def test_linear_goes_first_in_a_round_then_trees_then_likely_maps():
    X = np.random.default_rng(0).dirichlet(np.ones(6), size=80)
    heard = []
    board = select(
        X,
        X[:, 0] * X[:, 1] > 0.02,
        random_state=0,
        tell=lambda stage, name: heard.append((stage, name)),
    )
    first = [name for stage, name in heard if stage == "round 1"]
    linear = [name for name in first if name in ("linear", "scaled")]
    assert first[: len(linear) + 1] == [*linear, "gradient boosting"]
    assert first[len(linear) + 1].startswith("fourier gamma=")
    places = {name: i for i, name in enumerate(first)}
    assert places["gcws"] < min(places[name] for name in ("chi2-series", "hellinger"))
    assert set(board.refused) == set(ALTERNATIVES)


def test_signed_rows_are_not_forced_into_histogram_kernels():
    X, y = rings(300)
    board = select(X[:80], y[:80], random_state=0)
    nonnegative = {
        name for name, cls in mercer.maps.registry().items() if cls().domain == "nonnegative"
    } - set(ALTERNATIVES)
    assert nonnegative <= set(board.refused)
    assert all("needs numbers of at least 0" in board.refused[name] for name in nonnegative)
    assert not [one for one in board.entries if nonnegative & set(one.name.split())]


def test_a_map_of_ones_own_is_compared_unchanged():
    X = np.random.default_rng(0).dirichlet(np.ones(6), size=200)
    mine = Chi2Series(2) >> RandomFourier(99, gamma=3.0, random_state=5)
    board = select(X, X[:, 0] > X[:, 1], kernels=[mine, "hellinger"], random_state=0)
    entry = next(one for one in board.entries if one.features == 99)
    assert entry.model.feature_map.get_params()["randomfourier__gamma"] == 3.0
    assert {one.kind for one in board.entries} == {"linear", "map", "outside", "exact"}


def test_exact_kernels_and_trees_are_listed_and_cannot_win(board):
    kinds = {one.kind for one in board.entries}
    assert kinds == {"linear", "map", "exact", "outside"}
    for one in board.entries:
        assert (one.model is None) == (one.kind == "exact")
    guess = next(one for one in board.entries if one.name == "guessing")
    assert guess.finalist and guess.features == 0 and 0.4 < guess.score < 0.6
    for one in board.entries:
        assert (one.gram_error is None) == (one.kind != "map" or not one.finalist)
    assert len({one.name for one in board.entries}) == len(board.entries)
    exact = max((one for one in board.entries if one.kind == "exact"), key=lambda one: one.score)
    assert exact.score > 0.95
    order = [one.score for one in board.entries if one.finalist]
    assert order == sorted(order, reverse=True)


def test_the_table_has_a_line_for_each_entry_and_the_summary(board):
    lines = str(board).splitlines()
    assert len(lines) == len(board.entries) + 2
    assert lines[-1] == board.summary
    assert lines[1].startswith(board.entries[0].name)


@pytest.mark.parametrize("form", ["frame", "stream", "csr", "lists"])
def test_rows_may_come_in_any_form(board, form, tmp_path):
    X, y = rings()
    if form == "frame":
        found = select(
            pd.DataFrame(X, columns=["a", "b"]), pd.Series(y), kernels=FEW, random_state=0
        )
    elif form == "stream":
        np.savez(tmp_path / "rings.npz", X=X, y=y)
        found = select(tmp_path / "rings.npz", kernels=FEW, random_state=0)
    elif form == "csr":
        found = select(sp.csr_matrix(X), y, kernels=FEW, random_state=0)
    else:
        found = select(X.tolist(), y.tolist(), kernels=FEW, random_state=0)
    assert [one.name for one in found.entries if one.finalist] == [
        one.name for one in board.entries if one.finalist
    ]
    assert found.winner.score == pytest.approx(board.winner.score, abs=0.01)


def test_kernels_may_be_a_set_or_a_tuple():
    X, y = rings(60)
    boards = [
        select(X, y, kernels=some, random_state=0)
        for some in ({"fourier", "gcws"}, ("fourier", "gcws"))
    ]
    assert facts(boards[0]) == facts(boards[1])
    assert any(one.name.startswith("fourier") for one in boards[0].entries)


@pytest.mark.parametrize(
    ("kernels", "why"),
    [
        (
            [Chi2Series()],
            "Chi2Series() was skipped: Chi2Series needs numbers of at least 0, and the rows "
            "have others.",
        ),
        (
            ["hellinger", "chi2-series"],
            "hellinger was skipped: Hellinger needs numbers of at least 0, and the rows have "
            "others. 1 more ",
        ),
        (["linear"], "No other map was named."),
    ],
    ids=["refused", "two refused", "linear"],
)
def test_where_no_map_takes_part_linear_wins_by_its_final_and_the_summary_says_why(kernels, why):
    board = select(*plane(100), kernels=kernels, random_state=0)
    assert board.winner.kind == "linear" and board.winner.finalist
    assert board.winner in board.entries
    assert board.summary.startswith(f"Only linear was tried: {board.winner.score:.2%} +- ")
    assert f"%. {why}" in board.summary


def test_linear_goes_first_in_the_final(board):
    heard = []
    select(
        *rings(), kernels=FEW, random_state=0, tell=lambda stage, name: heard.append((stage, name))
    )
    assert next(name for stage, name in heard if stage == "the final") == "linear"


def test_bytes_a_row_are_those_of_the_features_and_seconds_those_of_fit_and_predict(monkeypatch):
    """With a clock that a fit advances by 3 seconds, and predictions of its rows by 0.5."""
    now = 0.0

    def advance(name: str, seconds: float) -> None:
        work = getattr(KernelClassifier, name)

        def slow(self, *args, **named):
            nonlocal now
            now += seconds
            return work(self, *args, **named)

        monkeypatch.setattr(KernelClassifier, name, slow)

    advance("fit", 3.0)
    advance("predict", 0.5)
    monkeypatch.setattr(
        "mercer.model_selection.halving.time", SimpleNamespace(perf_counter=lambda: now)
    )
    X, y = rings()
    maps = [FEW[0], GCWS(32, bits=4, random_state=0)]
    board = select(abs(X), y, kernels=maps, random_state=0, max_seconds=1e9)
    entries = [one for one in board.entries if one.kind == "map"]
    assert len(entries) == 2
    for one in entries:
        fitted = one.model.fit(abs(X), y).feature_map_
        measured = sum(block.nbytes for block in fitted.blocks(abs(X))) / len(X)
        assert one.bytes_per_row == pytest.approx(measured)
        assert (one.fit_seconds, one.predict_seconds) == (3.0, 0.5)
    assert len({one.bytes_per_row / one.features for one in entries}) == 2  # codes and numbers
