"""Principal components of each map's features, in one pass or two.

Li, Lebanon and Sminchisescu, arXiv 1206.4074, Algorithm 5.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from mercer._typing import Array
from mercer.data import Chunk
from mercer.data.batches import Features
from mercer.linear_model.normal_equations import NormalEquations
from mercer.maps.block import Block, Dense, as_block, gram_operand
from mercer.parallel.tile_size import Grid
from mercer.stats.base import CombinedStatistics
from mercer.stats.moments import Moments


@dataclass(frozen=True, eq=False)
class Basis:
    """U = diag(U_1, ..., U_m): the leading eigenvectors of the scatter of each map's features.

    Attributes
    ----------
    parts : tuple of arrays of shape (D_i, k_i)
        U_i, with the largest eigenvalue last.
    values : tuple of arrays of shape (k_i,)
        Eigenvalues, ascending.
    """

    parts: tuple[Array, ...]
    values: tuple[Array, ...]

    @classmethod
    def of(cls, scatters: Iterable[Array], rank: int) -> Basis:
        """Decompose the scatter of each map's features; at most `rank` components of each."""
        from scipy.linalg import eigh

        decompositions = []
        for scatter in scatters:
            D = len(scatter)
            some: Any = {"driver": "evd"} if rank >= D else {"subset_by_index": [D - rank, D - 1]}
            decompositions.append(eigh(scatter.T, check_finite=False, **some))
        values, vectors = zip(*decompositions, strict=True)
        return cls(vectors, values)

    @property
    def widths(self) -> tuple[int, ...]:
        """k_i: components of each map."""
        return tuple(part.shape[1] for part in self.parts)

    def reduce(self, normal: NormalEquations, *, own: bool) -> NormalEquations:
        """Return the normal equations of the components U'z.

        Parameters
        ----------
        normal : NormalEquations
        own : bool
            Whether the basis is that of the same rows, so that its diagonal blocks are diagonal.
        """
        columns = spans([len(part) for part in self.parts])
        scatter = np.block(
            [
                [
                    np.diag(self.values[i])
                    if own and i == j
                    else self.parts[i].T @ normal.scatter[rows, others] @ self.parts[j]
                    for j, others in enumerate(columns)
                ]
                for i, rows in enumerate(columns)
            ]
        )
        return replace(
            normal, mean=self._down(normal.mean), scatter=scatter, cross=self._down(normal.cross)
        )

    def expand(self, coef: Array) -> Array:
        """Return U c: coefficients of features from those of components."""
        pieces = zip(self.parts, spans(self.widths), strict=True)
        return np.concatenate([part @ coef[columns] for part, columns in pieces])

    def components(self, Z: Array) -> Array:
        """Return Z U: the components of rows of features, about 0."""
        pieces = zip(self.parts, spans([len(part) for part in self.parts]), strict=True)
        return np.concatenate(
            [Z[:, columns] @ part.astype(Z.dtype, copy=False) for part, columns in pieces], axis=1
        )

    def _down(self, values: Array) -> Array:
        pieces = zip(self.parts, spans([len(part) for part in self.parts]), strict=True)
        return np.concatenate([part.T @ values[columns] for part, columns in pieces])


@dataclass(frozen=True, eq=False)
class PrincipalComponents:
    """Number of components of each map's features, and the rows that define their basis.

    Parameters
    ----------
    rank : int
        Of each map.
    widths : tuple of int
        Features of each map.
    unlabeled : NormalEquations, optional
        Of rows without targets, which count for the basis only.
    """

    rank: int
    widths: tuple[int, ...]
    unlabeled: NormalEquations | None = None

    def basis(self, normal: NormalEquations) -> Basis:
        """Return the basis of the rows of these normal equations and of the unlabeled rows."""
        if self.unlabeled is not None:
            normal = normal.without_targets() + self.unlabeled
        scatter = normal.scatter
        return Basis.of((scatter[columns, columns] for columns in spans(self.widths)), self.rank)

    def reduced(self, normal: NormalEquations) -> tuple[Basis, NormalEquations]:
        """Return the basis, and the normal equations of its components."""
        basis = self.basis(normal)
        return basis, basis.reduce(normal, own=self.unlabeled is None)


class PerMapMoments(CombinedStatistics):
    """Moments of each map's features by themselves: sums of D_i x D_i instead of D x D numbers.

    Parameters
    ----------
    *parts : Moments
        One for each map.
    widths : tuple of int
        Features of each map.
    """

    def __init__(self, *parts: Moments, widths: tuple[int, ...]) -> None:
        super().__init__(*parts)
        self.widths = widths

    @classmethod
    def empty(cls, widths: tuple[int, ...]) -> PerMapMoments:
        return cls(*(Moments(target=False) for _ in widths), widths=widths)

    def add(
        self, block: Block, y: Array | None = None, weight: Array | None = None, start: int = 0
    ) -> None:
        rows = gram_operand(block)
        for part, columns in zip(self.parts, spans(self.widths), strict=True):
            part.add(as_block(rows[:, columns]), weight=weight, start=start)

    def basis(self, rank: int, *, fit_intercept: bool) -> Basis:
        """Return the leading components of each map, about the mean with an intercept, else 0."""
        return Basis.of(
            (
                NormalEquations.of_rows(part, fit_intercept=fit_intercept).to_host().scatter
                for part in self.parts
            ),
            rank,
        )

    def _with_parts(self, parts: Sequence[Any]) -> PerMapMoments:
        return PerMapMoments(*parts, widths=self.widths)


class ComponentFeatures(Features):
    """Principal components of the features of a stream, for the second pass."""

    def __init__(self, stream: Any, feature_map: Any, basis: Basis) -> None:
        super().__init__(stream, feature_map)
        self.basis = basis
        self.width = sum(basis.widths)

    @property
    def grid(self) -> Grid:
        """Grid of the features, which are computed block by block."""
        return Features(self.stream, self.feature_map).grid

    def fingerprint(self) -> dict[str, Any]:
        digest = hashlib.sha256()
        for part in self.basis.parts:
            digest.update(np.ascontiguousarray(part).data)
        return {**super().fingerprint(), "basis": digest.hexdigest()}

    def _block(self, chunk: Chunk) -> Block:
        return Dense(self.basis.components(gram_operand(super()._block(chunk))))


def spans(widths: Sequence[int]) -> list[slice]:
    """Return the slice of columns of each part."""
    return [slice(start, stop) for start, stop in pairwise(accumulate(widths, initial=0))]
