"""Importances of columns in the best model, measured on the rows of a sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mercer._typing import Array
from mercer.linear_model.metric import has_unlearned_metric
from mercer.maps.tabular import Tabular
from mercer.model_selection.scoring import Scoring
from mercer.report.best_model import BestModel
from mercer.report.data import evenly_spaced, ignored_warnings
from mercer.rng import Rng

SHOWN_COLUMNS = 12
_ROWS = 500  # most rows whose values are permuted
_PREDICTIONS = 320  # most predictions of these rows
_PERMUTATIONS = 5  # at most, for each column
_NUMBERS = 20_000_000  # most values of these rows


@dataclass(frozen=True)
class Importances:
    """The most important columns.

    Attributes
    ----------
    names : tuple of str
        In the order of falling importance, at most SHOWN_COLUMNS.
    values, spreads : tuple of float
        Importances and their standard errors, which are 0 for a learned metric.
    learned : bool
        Whether values are shares of a learned metric in the squared gradients; otherwise they are
        losses of the score where the values of the column are permuted.
    columns : int
        Number of all columns.
    """

    names: tuple[str, ...]
    values: tuple[float, ...]
    spreads: tuple[float, ...]
    learned: bool
    columns: int

    @property
    def pairs(self) -> list[tuple[str, float]]:
        """Names and values."""
        return [*zip(self.names, self.values, strict=True)]


def measure_importances(
    best: BestModel,
    names: Sequence[object] | None,
    scoring: Scoring,
    seed: int,
    encoder: Tabular | None = None,
) -> Importances | None:
    """Return the importances of the columns of a fitted model.

    Those of its learned metric, or else the loss of the score on the test rows where the values of
    one column are permuted among them (Breiman, 2001); the features of one column of a table are
    permuted together. None where the columns are those of other steps, or are too many.
    """
    if best.has_steps:
        return None
    d = best.sample.test.shape[1]
    labels = [f"x{i}" for i in range(d)] if names is None else [*map(str, names)]
    groups = [(label, [i]) for i, label in enumerate(labels)]
    shares = None
    if has_unlearned_metric(best.fitted.feature_map):
        shares = getattr(best.fitted, "importances_", None)
    if shares is not None and len(shares) == d:
        return _largest(labels, shares, np.zeros(d), learned=True)
    if encoder is not None and names is not None:
        groups = _group_features(encoder, labels)
    if not 0 < len(groups) <= _PREDICTIONS or _ROWS * d > _NUMBERS:
        return None
    values, spreads = _permute(best, [columns for _, columns in groups], scoring, seed)
    return _largest([label for label, _ in groups], values, spreads, learned=False)


def _group_features(encoder: Tabular, names: Sequence[str]) -> list[tuple[str, list[int]]]:
    """Return the columns of a table with the indices of their features."""
    index = {name: i for i, name in enumerate(names)}
    found = [
        (decision.name, [index[name] for name in decision.features if name in index])
        for decision in encoder.decisions_
    ]
    return [(name, features) for name, features in found if features]


def _permute(
    best: BestModel, groups: Sequence[Sequence[int]], scoring: Scoring, seed: int
) -> tuple[Array, Array]:
    """Return the mean loss of the rows' scores for each group of columns, and its standard error.

    Losses are paired by row, and averaged over the permutations of a group first.
    """
    places = evenly_spaced(best.sample.test.shape[0], _ROWS)
    X, y = best.sample.test[places], best.sample.y[places]
    X = X.toarray() if hasattr(X, "toarray") else X
    labels = best.sample.y if best.sample.train_y is None else best.sample.train_y
    every = np.concatenate([labels, best.sample.y])
    classes = np.unique(every.astype(str) if every.dtype == object else every)

    def score(rows: Array) -> Array:
        predictions = scoring.predict(best.fitted, rows, classes)
        return scoring.evaluate(y, predictions, classes, None)

    rng, times = Rng(seed), min(_PERMUTATIONS, max(1, _PREDICTIONS // len(groups)))
    orders = [np.argsort(rng.uniform(f"permutation {t}", len(y))) for t in range(times)]
    values, spreads = [], []
    with ignored_warnings():
        before = score(X)
        for group in groups:
            losses = np.zeros(len(y))
            for order in orders:
                permuted = X.copy()
                permuted[:, group] = X[order][:, group]
                losses += (before - score(permuted)) / times
            values.append(losses.mean())
            spreads.append(losses.std() / np.sqrt(len(y)))
    return np.array(values), np.array(spreads)


def _largest(
    labels: Sequence[str], values: Array, spreads: Array, *, learned: bool
) -> Importances | None:
    order = np.argsort(-values, kind="stable")[:SHOWN_COLUMNS]
    if not np.isfinite(values).all() or not np.any(values > 0):
        return None
    return Importances(
        tuple(labels[i] for i in order),
        tuple(float(values[i]) for i in order),
        tuple(float(spreads[i]) for i in order),
        learned,
        len(labels),
    )
