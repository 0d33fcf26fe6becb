"""Heads with few coefficients: the alpha of a LASSO or group LASSO, and its solution, on features
or on their components.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer.linear_model.normal_equations import Array, Normal
from mercer.linear_model.solvers.lasso import GroupLasso, Lasso, Solver, Sparse
from mercer.linear_model.solvers.pca import Components
from mercer.linear_model.solvers.ridge import Choice, best_of, grid
from mercer.parallel.threads import one_blas_thread

_ALPHAS = np.logspace(0, -3, 25)  # in units of the smallest alpha that makes all coefficients 0
_PATIENCE = 3  # alphas in a row that are no better than the best


@dataclass(frozen=True, eq=False)
class Penalty:
    """ "l1" or "group" on the coefficients of features, or of their components where there are
    some.

    Parameters
    ----------
    kind : {"l1", "group"}
    widths : tuple of int
        Features of each map: the groups.
    components : Components, optional
    """

    kind: str
    widths: tuple[int, ...]
    components: Components | None = None

    def solve(self, normal: Normal, alpha: float) -> Sparse:
        """The coefficients of features for one alpha, by way of larger ones."""
        task = _Task.of(self, normal)
        halvings = int(np.ceil(np.log2(max(task.most, alpha) / alpha)))
        *_, last = task.path(alpha * 2.0 ** np.arange(halvings, -1, -1))
        return last

    def choose(self, folds: Sequence[Normal], alphas: Any = None) -> Choice:
        """The alpha with the smallest mean squared error, summed over outputs, on folds that were
        left out, from the largest down.

        It stops after three alphas that are no better than the best, of those that leave any
        coefficient; the score of those not tried is infinite.
        """
        if len(folds) < 2:
            raise ValueError(
                f"alpha is chosen by folds, and only {len(folds)} has rows: give more rows, or a "
                "number for alpha."
            )
        total = sum(folds[1:], start=folds[0])
        given = (
            _ALPHAS * (_Task.of(self, total).most or 1.0)
            if alphas is None
            else grid("alpha", alphas)
        )
        tried = np.sort(given)[::-1]
        left = [total - fold for fold in folds]
        paths = [_Task.of(self, normal).path(tried) for normal in left]
        scores, waited = np.full(len(tried), np.inf), 0
        for i in range(len(tried)):
            coefs = [next(path).coef for path in paths]
            parts = zip(folds, left, coefs, strict=True)
            scores[i] = (
                sum(fold.error(coef, rest.intercept(coef)).sum() for fold, rest, coef in parts)
                / total.n
            )
            better = scores[i] < scores[:i].min(initial=np.inf)
            waited = 0 if better or not any(coef.any() for coef in coefs) else waited + 1
            if waited == _PATIENCE:
                break
        return best_of(tried, scores)


@dataclass(frozen=True, eq=False)
class _Task:
    """Normal equations, of features or components, and the way back from their coefficients."""

    solver: Solver
    normal: Normal
    basis: Any

    @classmethod
    def of(cls, penalty: Penalty, normal: Normal) -> _Task:
        widths, basis = penalty.widths, None
        if penalty.components is not None:
            basis, normal = penalty.components.reduced(normal)
            widths = basis.widths
        return cls(Lasso() if penalty.kind == "l1" else GroupLasso(widths), normal, basis)

    @property
    def most(self) -> float:
        return self.solver.most(self.normal)

    def path(self, alphas: Array) -> Iterator[Sparse]:
        unit = 2.0 ** (
            np.frexp(self.most)[1] - 1
        )  # exact, and no power of a gradient leaves the range of float64
        found = self.solver.path(
            replace(self.normal, cross=self.normal.cross / unit), alphas / unit
        )
        for _ in alphas:
            with one_blas_thread():  # many small products: threads would wait for each other
                coef, kkt = next(found)
            yield Sparse(unit * (coef if self.basis is None else self.basis.expand(coef)), kkt)
