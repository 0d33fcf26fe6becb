"""Scores of rows by models that were fitted without them, for intervals and probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mercer._typing import Array
from mercer.data.row_keys import Keys, fold_numbers
from mercer.linear_model.normal_equations import NormalEquations
from mercer.linear_model.posterior import Posterior
from mercer.linear_model.predictor import LinearPredictor
from mercer.linear_model.solvers.blocks import multiply
from mercer.linear_model.solvers.ridge import solve
from mercer.maps.block import Block, as_block, rows_of
from mercer.stats.basic import Reservoir

LEFT_OUT_FOLDS = 20
"""Folds of ``uncertainty=True`` up to LOO_FEATURES features: their models are fitted to 95% of the
rows. With more features the rows that are left out are those of the search for alpha."""

FEW_ROWS_FOLDS = 100
"""Folds of up to FEW_ROWS rows, whose models are fitted to 99% of them: close to leave-one-out."""

LEFT_OUT_ROWS = 200_000
"""Rows whose left-out scores are kept: a quantile of them has a standard error of 0.1 points."""


_KEY_BITS = np.uint64(2**52 - 1)  # of a key, that a float64 has exactly
_LEVERAGE_ROUNDING = 1e-4  # relative, of float32 products


@dataclass(frozen=True, eq=False)
class FoldModels:
    """f_k(x) = intercept_k + coef_k'z, fitted to all rows but those of fold k.

    Attributes
    ----------
    coef : array of shape (K, D, t)
    intercept : array of shape (K, t)
    count : int
        Number of folds that rows are numbered by. Those of number K and beyond are in no fold:
        K = 1 and count = 4 are a quarter of the rows, held out.
    """

    coef: Array
    intercept: Array
    count: int

    @classmethod
    def of(
        cls, folds: Sequence[NormalEquations | None], alpha: float, count: int, used: int
    ) -> FoldModels:
        """Solve the normal equations of all folds less one, for each of the first `used` of them.

        None stands for a fold without rows, whose model is that of all rows.
        """
        filled = [fold for fold in folds if fold is not None]
        total = sum(filled[1:], start=filled[0])
        solutions = []
        for fold in folds[:used]:
            rest = total if fold is None else total - fold
            solutions.append(solve(rest, alpha, overwrite=rest is not total))
        coef, intercept = zip(*solutions, strict=True)
        return cls(np.stack(coef), np.stack(intercept), count)

    def left_out_scores(self, block: Block, fold: NDArray[np.int64]) -> Array:
        """Return f_k(x) of rows by the model without their fold, (n, t); 0 for those of no fold."""
        K, _, t = self.coef.shape
        scores = np.zeros((len(fold), t))
        for k in np.unique(fold[fold < K]):
            chosen = np.flatnonzero(fold == k)
            coef = self.coef[k].astype(block.dtype, copy=False)
            scores[chosen] = multiply(rows_of(block, chosen), coef)
            scores[chosen] += self.intercept[k]
        return scores

    def predictor(self, own: LinearPredictor | None = None) -> LinearPredictor:
        """Return a linear predictor of all models side by side, (D, K t), behind another's outputs.

        Parameters
        ----------
        own : LinearPredictor, optional
            Its outputs are the first.
        """
        K, D, t = self.coef.shape
        coef, intercept = self.coef.transpose(1, 0, 2).reshape(D, K * t), self.intercept.reshape(-1)
        if own is not None:
            coef, intercept = (
                np.hstack([own.coef, coef]),
                np.concatenate([own.intercept, intercept]),
            )
        return LinearPredictor(np.ascontiguousarray(coef), intercept, 0.0, None)

    def fits(self, features: int, outputs: int) -> bool:
        """Return whether models are finite and of so many features and outputs."""
        K = len(self.coef)
        return bool(
            self.coef.shape == (K, features, outputs)
            and self.intercept.shape == (K, outputs)
            and self.count >= K > 0
            and np.isfinite(self.coef).all()
            and np.isfinite(self.intercept).all()
        )


class LeftOutScores(Reservoir):
    """Sample of rows with the scores of the models that were fitted without them.

    Parameters
    ----------
    models : FoldModels
    posterior : Posterior or None
        For the leverages of the rows.
    classes : array or None
        Labels, of which targets are the numbers; None where targets are numbers themselves.
    size, seed : int
        As in Reservoir.
    """

    uses_keys = True
    accepts_device_blocks = True

    def __init__(
        self,
        models: FoldModels,
        posterior: Posterior | None = None,
        classes: Array | None = None,
        size: int = LEFT_OUT_ROWS,
        seed: int = 0,
    ) -> None:
        super().__init__(size, seed)
        self.models, self.posterior, self.classes = models, posterior, classes

    def add(
        self,
        block: Block,
        y: Array | None = None,
        weight: Array | None = None,
        start: int = 0,
        keys: Keys | None = None,
    ) -> None:
        assert keys is not None and y is not None
        fold = fold_numbers(keys, self.models.count)
        left_out = fold < len(self.models.coef)
        scores = self.models.left_out_scores(block, fold)
        targets = np.asarray(y) if self.classes is None else np.searchsorted(self.classes, y)
        leverage = np.zeros(len(fold))
        if self.posterior is not None:
            leverage = self.posterior.leverages(block)
        number = (keys & _KEY_BITS).astype(np.float64)
        table = np.column_stack([scores, targets.reshape(len(fold), -1), fold, leverage, number])
        weights = left_out if weight is None else left_out * weight
        super().add(as_block(table), weight=weights.astype(np.float64), start=start)

    def result(self) -> LeftOutSample:
        """Return the columns of the sampled rows."""
        if not self._rows:
            raise ValueError("No row was left out: give more rows.")
        t = self.models.coef.shape[2]
        scores, targets, rest = np.split(self.rows, [t, -3], axis=1)
        fold, leverage, keys = rest.T
        weight = self.frequencies
        together = _sum_equal_rows(keys, leverage, weight)
        return LeftOutSample(scores, targets, fold.astype(np.int64), leverage, weight, together)


@dataclass(frozen=True, eq=False)
class LeftOutSample:
    """Rows that were left out: their scores, targets, folds, leverages and weights.

    Attributes
    ----------
    scores : array of shape (n, t)
    targets : array of shape (n, t), or of class numbers, (n, 1)
    fold : array of shape (n,)
    leverage : array of shape (n,)
        Of the model of all rows; 0 without a posterior.
    weight : array of shape (n,)
    together : array of shape (n,)
        Sum of the weights of the sampled rows that are equal to it, and left out with it.
    """

    scores: Array
    targets: Array
    fold: NDArray[np.int64]
    leverage: Array
    weight: Array
    together: Array


def order_by_fold(
    values: Array, fold: Array, weight: Array, folds: int
) -> list[tuple[Array, Array]]:
    """Return the values of each fold in ascending order, and the sums of weights up to each.

    The first of the sums is 0: they are one more than the values.
    """
    ordered = []
    for k in range(folds):
        inside, weights = values[fold == k], weight[fold == k]
        order = np.argsort(inside, kind="stable")
        ordered.append((inside[order], np.concatenate([[0.0], np.cumsum(weights[order])])))
    return ordered


def _sum_equal_rows(keys: Array, leverage: Array, weight: Array) -> Array:
    """Return the sum of the weights of rows with the same key and, to rounding, leverage.

    Rows of a group have the same key too.
    """
    order = np.lexsort([leverage, keys])
    step = np.diff(leverage[order]) > _LEVERAGE_ROUNDING * leverage[order][1:]
    number = np.concatenate([[0], np.cumsum((np.diff(keys[order]) != 0) | step)])
    together = np.empty(len(keys))
    together[order] = np.bincount(number, weight[order])[number]
    return together
