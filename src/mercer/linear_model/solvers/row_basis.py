"""Orthonormal basis of the rows, where they are fewer than the features.

The coefficients of a penalized model are a combination of the rows about their mean: with
Z Z' = V diag(l) V' and U = Z'V/sqrt(l) they are U c, for c of a model on the features
Z U = V sqrt(l), of which there are at most as many as rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer._typing import Array
from mercer.linear_model.solvers.blocks import WeightedBlock, column_sums, with_weights
from mercer.linear_model.solvers.ridge import Rows, decompose
from mercer.linear_model.solvers.ridge_gram import CenteredRows
from mercer.maps.block import Dense


@dataclass(frozen=True, eq=False)
class RowBasis:
    """Features of rows in the basis U of their span.

    Attributes
    ----------
    rows : CenteredRows
    combinations : array of shape (n, k)
        V/sqrt(l).
    block : tuple of (Dense, targets, weights)
        V sqrt(l) with the targets and weights of all rows.
    """

    rows: CenteredRows
    combinations: Array
    block: WeightedBlock

    @classmethod
    def of(cls, rows: Rows, *, fit_intercept: bool = True) -> RowBasis:
        """Decompose the Gram matrix of rows, all of which are held in memory."""
        blocks = list(with_weights(rows))
        n = sum(len(w) for *_, w in blocks)
        mean = np.zeros(blocks[0][0].shape[1])
        if fit_intercept:
            mean += sum(column_sums(block, np.ones(len(w))) for block, _, w in blocks) / n
        centered = CenteredRows.of([block for block, *_ in blocks], mean)
        values, vectors, _ = decompose(centered.gram(), overwrite=True)
        if not len(values):  # rows that are all equal have one feature, which is 0
            values, vectors = np.ones(1), np.zeros((n, 1))
        roots = np.sqrt(values)
        Y = np.concatenate([targets for _, targets, _ in blocks])
        w = np.concatenate([weights for *_, weights in blocks])
        return cls(centered, vectors / roots, (Dense(vectors * roots), Y, w))

    def expand(self, coef: Array, intercept: Array) -> tuple[Array, Array]:
        """Return U c, (D, t), and the intercept that belongs to it."""
        expanded = self.rows.multiply_transposed(self.combinations @ coef)
        return expanded, intercept - self.rows.mean @ expanded
