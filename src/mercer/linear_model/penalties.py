"""Sparse penalties: LASSO and group LASSO on features or on their principal components."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer._typing import Array
from mercer.linear_model.cross_validation import FOLDS
from mercer.linear_model.normal_equations import NormalEquations
from mercer.linear_model.solvers.lasso import GroupLasso, Lasso, Solver, SparseSolution
from mercer.linear_model.solvers.pca import PrincipalComponents
from mercer.linear_model.solvers.ridge import AlphaSearch, alpha_grid, best_of
from mercer.parallel.threads import one_blas_thread

_ALPHAS = np.logspace(0, -3, 25)  # relative to the smallest alpha that makes all coefficients 0
_PATIENCE = 3  # alphas in a row that are no better than the best


@dataclass(frozen=True, eq=False)
class Penalty:
    """Penalty "l1" or "group" on the coefficients of features, or of their components.

    Parameters
    ----------
    kind : {"l1", "group"}
    widths : tuple of int
        Features of each map: the groups.
    components : PrincipalComponents, optional
    """

    kind: str
    widths: tuple[int, ...]
    components: PrincipalComponents | None = None

    def solve(self, normal: NormalEquations, alpha: float) -> SparseSolution:
        """Return the coefficients of features for one alpha, by a path from larger ones."""
        problem = _Problem.of(self, normal)
        halvings = int(np.ceil(np.log2(max(problem.max_alpha, alpha) / alpha)))
        *_, last = problem.path(alpha * 2.0 ** np.arange(halvings, -1, -1))
        return last

    def choose(self, folds: Sequence[NormalEquations], alphas: Any = None) -> AlphaSearch:
        """Return the alpha with the smallest cross-validated squared error, summed over outputs.

        Alphas are tried from the largest down, until three in a row are no better than the best, of
        those that leave any coefficient; the score of those not tried is infinite.
        """
        if len(folds) < 2:
            raise ValueError(
                "Choosing alpha by cross-validation needs at least two different rows, in two of "
                f"{FOLDS} folds. Give more rows, or a number for alpha."
            )
        total = sum(folds[1:], start=folds[0])
        if alphas is None:
            alphas = _ALPHAS * (_Problem.of(self, total).max_alpha or 1.0)
        tried = np.sort(alpha_grid("alpha", alphas))[::-1]
        left = [total - fold for fold in folds]
        paths = [_Problem.of(self, normal).path(tried) for normal in left]
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
class _Problem:
    """Normal equations of features or components, and the basis that expands coefficients."""

    solver: Solver
    normal: NormalEquations
    basis: Any

    @classmethod
    def of(cls, penalty: Penalty, normal: NormalEquations) -> _Problem:
        widths, basis = penalty.widths, None
        if penalty.components is not None:
            basis, normal = penalty.components.reduced(normal)
            widths = basis.widths
        return cls(Lasso() if penalty.kind == "l1" else GroupLasso(widths), normal, basis)

    @property
    def max_alpha(self) -> float:
        return self.solver.max_alpha(self.normal)

    def path(self, alphas: Array) -> Iterator[SparseSolution]:
        # a power of 2, so that scaling is exact; no power of a gradient leaves float64 then
        unit = 2.0 ** (np.frexp(self.max_alpha)[1] - 1)
        scaled = replace(self.normal, cross=self.normal.cross / unit)
        solutions = self.solver.path(scaled, alphas / unit)
        for _ in alphas:
            with one_blas_thread():  # many small products: threads would wait for each other
                coef, kkt = next(solutions)
            yield SparseSolution(
                unit * (coef if self.basis is None else self.basis.expand(coef)), kkt
            )
