"""Folds and held-out rows by the content of a row: equal rows are on the same side.

A row that is repeated would otherwise be evaluated by a model that was trained on its copy, and the
smallest alpha would be the best.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from mercer._typing import Array
from mercer.data import Chunk, Stream
from mercer.data.row_keys import Keys, fold_numbers, row_keys
from mercer.maps.block import Block, as_block, gram_operand
from mercer.stats.base import CombinedStatistics, frequency_weights

FOLDS = 5
"""Folds of alpha="kfold", and of losses without a closed form up to LOO_ROWS rows."""

LOO_ROWS = 20_000
"""Rows up to which alpha is chosen by leave-one-out, in one more pass that costs about as much as
the normal equations; with more rows by k-fold, whose cost does not depend on them. Losses without a
closed form have folds up to so many rows, and one held-out part beyond."""

LOO_FEATURES = 1024
"""Features up to which leave-one-out is affordable: it needs a decomposition, which takes as long
as about 20 Cholesky factors. With more rows than LOO_ROWS alpha is chosen by k-fold up to so many
features; beyond, a quarter of the rows is held out, which has one search instead of five."""

FEW_ROWS = 2048
"""Rows up to which leave-one-out is affordable for any number of features."""

_CHANCE = 5  # 95% quantile of n R2 of random targets, for n from 30 to 1,000
_READ_ROWS = 4096  # rows of a block in a pass that computes keys alone


class ValidationScore(NamedTuple):
    """Score of a model on rows that were left out, beside that of a model without features.

    Attributes
    ----------
    method : {"loo", "kfold", "gcv", "held-out"}
        How rows were left out: "gcv" estimates leave-one-out.
    metric : {"R2", "accuracy", "loss"}
        1 - error/variance of the targets (of the class indicators where there is no accuracy), the
        share of right labels, or the mean loss.
    score, baseline : float
        Of the model, and of the mean of the targets, the most frequent class or the intercept.
    explained : float
        1 - error/error of the model without features.
    rows : int
        Number of rows.
    """

    method: str
    metric: str
    score: float
    baseline: float
    explained: float
    rows: int

    @property
    def is_chance(self) -> bool:
        """Whether the error is no smaller than targets without any relation to X would give.

        The share explained times the number of rows is below 5 for 95% of such targets.
        """
        return self.explained * self.rows <= _CHANCE

    def __str__(self) -> str:
        method = {"loo": "Leave-one-out", "held-out": "Held-out"}.get(self.method)
        name = f"{method or 'Cross-validated'} {self.metric}"
        if self.metric == "accuracy":
            return f"{name} {self.score:.2%} (most frequent class: {self.baseline:.2%})"
        guess = {"R2": "constant", "loss": "intercept alone"}[self.metric]
        return f"{name} {self.score:.4g} ({guess}: {self.baseline:.4g})"


class Folds(CombinedStatistics):
    """Statistics of each fold, computed in one pass.

    The fold of a row is a hash of its content, or of its group; it depends on no other row, block
    or worker.

    Parameters
    ----------
    *parts : Statistic
        Empty statistics, one for each fold.
    """

    uses_keys = True

    @property
    def count(self) -> int:
        """Number of folds that rows are numbered by."""
        return len(self.parts)

    def add(
        self,
        block: Block,
        y: Array | None = None,
        weight: Array | None = None,
        start: int = 0,
        keys: Keys | None = None,
    ) -> None:
        rows = gram_operand(block)
        fold = fold_numbers(row_keys(rows) if keys is None else keys, self.count)
        fold = np.minimum(fold, len(self.parts) - 1)
        for number, part in enumerate(self.parts):
            chosen = np.flatnonzero(fold == number)
            if len(chosen):
                some = (None if values is None else values[chosen] for values in (y, weight))
                part.add(as_block(rows[chosen]), *some, start=start)


class HeldOutFold(Folds):
    """Statistics of a quarter of the rows and of the others, computed in one pass."""

    count = 4


def held_out_rows(stream: Stream) -> Array:
    """Return whether each row is held out, of shape (n,): those of the smallest keys.

    A third of the different rows up to LOO_ROWS rows, a tenth beyond. At least one of them is held
    out, and at least one is not if there are two.
    """
    keys = concatenate_keys(stream)
    different = np.unique(keys)
    share = 1 / 3 if len(keys) <= LOO_ROWS else 0.1
    held_out: Array = keys < different[min(len(different) - 1, math.ceil(share * len(different)))]
    return held_out


def folds_of_rows(stream: Stream, count: int = FOLDS) -> Array:
    """Return the fold of each row, (n,): different rows in the order of their keys, cut into parts.

    Folds are as many as `count`, or as different rows where these are fewer. Equal rows are in the
    same fold, and so are rows of a group. Rows of weight 0 are in none, -1, nor is any row where
    all are equal.
    """
    read = [
        (keys, frequency_weights(len(chunk), chunk.weight)) for keys, chunk in _read_keys(stream)
    ]
    keys, weights = (np.concatenate(parts) for parts in zip(*read, strict=True))
    folds: Array = np.full(len(keys), -1)
    different, number = np.unique(keys[weights > 0], return_inverse=True)
    if len(different) > 1:
        folds[weights > 0] = number * min(count, len(different)) // len(different)
    return folds


def left_out_weights(stream: Stream, encode: Any) -> Array:
    """Return the weight that is left out with each row in leave-one-out cross-validation.

    A row is left out together with its copies: rows of the same content, where all of them have
    the same target. Where targets of equal rows differ, a copy says nothing of the noise of the
    row, and the row is left out alone. A row of weight 2 counts as two copies.

    Parameters
    ----------
    stream : Stream
    encode : callable
        Encodes the targets of a chunk as numbers, of shape (n,) or (n, t).

    Returns
    -------
    array of shape (n,)
    """
    read = [
        (
            keys,
            row_keys(np.asarray(encode(chunk.y), dtype=np.float64).reshape(len(chunk), -1)),
            frequency_weights(len(chunk), chunk.weight),
        )
        for keys, chunk in _read_keys(stream)
    ]
    keys, targets, weights = (np.concatenate(parts) for parts in zip(*read, strict=True))
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    differs = np.bincount(group, targets != targets[first][group]) > 0
    together = np.bincount(group, weights)
    return np.where(differs[group], np.minimum(weights, 1.0), together[group])


def concatenate_keys(stream: Stream) -> Keys:
    """Return the keys of all rows, or of their groups: a pass over the rows."""
    return np.concatenate([keys for keys, _ in _read_keys(stream)])


def _read_keys(stream: Stream) -> Iterator[tuple[Keys, Chunk]]:
    for chunk in stream.blocks(_READ_ROWS):
        yield row_keys(chunk.X) if chunk.keys is None else chunk.keys, chunk
