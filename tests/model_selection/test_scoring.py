"""Scores of predictions: scikit-learn's values, standard errors, weights, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics
from tests.helpers.selection_data import FEW, rings, select

import mercer
from mercer.data import open_stream
from mercer.model_selection.scoring import SCORINGS, find_scoring


def predictions(name: str, classes: int, n: int = 120, seed: int = 0):
    """(y, predictions, weights), as a scoring takes them."""
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.2, 3.0, size=n)
    if SCORINGS[name].numeric:
        y = rng.normal(size=n)
        return y, y + 0.5 * rng.normal(size=n), weights
    y = rng.integers(0, classes, size=n)
    scores = rng.normal(size=(n, classes)).round(1) + 1.2 * (y[:, None] == np.arange(classes))
    if SCORINGS[name].response == "predict":
        return y, scores.argmax(axis=1), weights
    if SCORINGS[name].response == "probabilities":
        scores = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    elif classes == 2:
        scores = np.column_stack([-scores[:, 1], scores[:, 1]])
    return y, scores, weights


def reference(name: str, y: np.ndarray, found: np.ndarray, weights: np.ndarray | None) -> float:
    """scikit-learn's value."""
    given = {"sample_weight": weights}
    if name == "roc_auc":
        return metrics.roc_auc_score(y, found[:, 1], **given)
    if name == "roc_auc_ovr":  # probabilities are asked for, and only their order is used
        columns = [
            metrics.roc_auc_score(y == c, found[:, c], **given) for c in range(found.shape[1])
        ]
        return float(np.mean(columns))
    return {
        "accuracy": metrics.accuracy_score,
        "balanced_accuracy": metrics.balanced_accuracy_score,
        "neg_log_loss": lambda *a, **k: -metrics.log_loss(*a, **k),
        "r2": metrics.r2_score,
        "neg_root_mean_squared_error": lambda *a, **k: -metrics.root_mean_squared_error(*a, **k),
        "neg_mean_absolute_error": lambda *a, **k: -metrics.mean_absolute_error(*a, **k),
    }[name](y, found, **given)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", SCORINGS)
def test_the_mean_over_rows_is_the_value_of_scikit_learn(name, weighted):
    y, found, weights = predictions(name, 2 if name == "roc_auc" else 3)
    weights = weights if weighted else None
    rows = SCORINGS[name].evaluate(y, found, np.arange(3), weights)
    assert rows.mean() == pytest.approx(reference(name, y, found, weights), rel=1e-12)
    assert name in metrics.get_scorer_names()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", SCORINGS)
def test_the_standard_error_over_rows_is_that_of_the_score_over_samples(name, weighted):
    """Over 400 samples of 120 rows, known to 4%; the first order is off by a few percent more."""
    scores, spreads = [], []
    for seed in range(400):
        y, found, weights = predictions(name, 2 if name == "roc_auc" else 3, seed=seed)
        rows = SCORINGS[name].evaluate(y, found, np.arange(3), weights if weighted else None)
        scores.append(rows.mean())
        spreads.append(rows.std() / np.sqrt(len(rows)))
    # R^2 is scored against the variance of its rows, as if it were known
    tolerance = 0.35 if name == "r2" else 0.12
    assert np.mean(spreads) == pytest.approx(np.std(scores), rel=tolerance)


@pytest.mark.parametrize("name", [name for name in SCORINGS if not SCORINGS[name].numeric])
def test_a_board_of_classes_is_scored_and_ranked_by_what_is_asked_for(name):
    X, y = rings(240)
    labels = np.where(y, "out", "in").astype(object)
    board = select(X, labels, kernels=FEW, random_state=0, scoring=name)
    assert board.scoring == name
    assert board.winner.kind == "map"
    final = [one.score for one in board.entries if one.finalist]
    assert final == sorted(final, reverse=True)
    guess = next(one for one in board.entries if one.name == "guessing")
    expected = {"accuracy": (y.mean(), 1 - y.mean()), "neg_log_loss": (-np.log(2),)}
    assert min(abs(guess.score - value) for value in expected.get(name, (0.5,))) < 0.02
    linear = next(one for one in board.entries if one.name == "linear")
    assert board.winner.score > linear.score
    assert board.measure.label in str(board).splitlines()[0]
    exact = [one for one in board.entries if one.kind == "exact"]
    assert bool(exact) == (name != "neg_log_loss")
    words = "less" if name == "neg_log_loss" else "more"
    assert f" {words} than linear." in board.summary


def test_errors_are_printed_as_errors_and_the_smallest_wins():
    X, _ = rings(240)
    y = np.hypot(*X.T)
    for name in ("neg_root_mean_squared_error", "neg_mean_absolute_error"):
        board = select(X, y, kernels=FEW, random_state=0, scoring=name)
        assert board.winner.score < 0
        label = board.measure.label
        assert f" wins with {label} {-board.winner.score:.4g} +- " in board.summary
        assert " less than linear." in board.summary
        assert board.corrected_score <= board.winner.score
        assert "[-" in board.summary


def test_scores_of_another_task_are_refused_with_those_that_fit():
    X, y = rings(60)
    with pytest.raises(ValueError, match=r"scoring must be one of 'accuracy', .*, got 'r2'"):
        select(X, y, scoring="r2")
    with pytest.raises(ValueError, match=r"'neg_mean_absolute_error' for numbers, got 'rmse'"):
        select(X, X[:, 0], scoring="rmse")
    with pytest.raises(ValueError, match=r"'roc_auc_ovr', .* for 3 classes, got 'roc_auc'"):
        select(X, np.arange(60) % 3, scoring="roc_auc")
    assert find_scoring(None, numeric=True).name == "r2"


def test_models_are_fitted_and_scored_by_the_weights_of_a_stream(tmp_path):
    """Rows of a small weight, or of none, have wrong labels. Rows of weight 1 are as without."""
    X, y = rings(400)
    wrong = np.arange(400) % 2 == 1
    labels = np.where(wrong, ~y, y)
    plain = select(X, labels, kernels=FEW, random_state=0)
    assert plain.winner.score < 0.65
    for weight, counted in ((1e-3, 400), (0.0, 200)):
        stream = open_stream(X).with_targets(labels, np.where(wrong, weight, 2.5))
        board = select(stream, kernels=FEW, random_state=0)
        assert board.winner.score > 0.9
        assert board.rows == 400 and board.settings["rows"] == counted
    ones = select(
        open_stream(X).with_targets(y, np.ones(400)), kernels=FEW, random_state=0, task="classify"
    )
    alike = select(X, y, kernels=FEW, random_state=0)
    assert ones.winner.name == alike.winner.name
    assert ones.winner.score == pytest.approx(alike.winner.score, abs=1e-12)
    assert ones.winner.spread == pytest.approx(alike.winner.spread, abs=1e-12)


def test_too_few_rows_of_a_weight_above_0_are_refused():
    X, y = rings(40)
    stream = open_stream(X).with_targets(y, np.r_[np.ones(7), np.zeros(33)])
    with pytest.raises(ValueError, match="at least 8 rows of a weight above 0: got 7"):
        mercer.select(stream)
