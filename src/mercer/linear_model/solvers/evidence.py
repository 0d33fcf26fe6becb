"""Alpha of ridge regression by the marginal likelihood of the targets.

With c ~ N(0, s^2/alpha I) and noise of variance s^2, the targets about their mean have the
covariance s^2 (I + Z Z'/alpha). The best s^2 for an alpha is E/N, E = RSS + alpha |c|^2 being what
ridge regression minimizes and N the number of contrasts, n - 1 with an intercept; then

    -2 log p(y) = N (1 + log(2 pi E/N)) + log|I + Z'Z/alpha| + log n.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from mercer._typing import Array
from mercer.linear_model.normal_equations import NormalEquations
from mercer.linear_model.solvers.ridge import (
    AlphaSearch,
    CholeskyFactor,
    RidgeDecomposition,
    alpha_grid,
    best_of,
)

DECOMPOSED_FEATURES = 1024
"""Features up to which the scatter is decomposed; beyond, each alpha has a Cholesky factor."""

_GUESSED_FEATURES = 512  # that are decomposed for a first guess
_TOLERANCE = 0.01  # of log alpha
_STEPS = 12  # of a refinement, at most


class Evidence(Protocol):
    """What the likelihood of an alpha is computed from."""

    normal: NormalEquations
    scale: float
    smallest: float

    def energy(self, alpha: float) -> tuple[Array, float]:
        """Return RSS + alpha |c|^2 of each output, and log|I + scatter/alpha|."""


class FactoredEvidence:
    """Likelihoods from a Cholesky factor for each alpha; the scatter is kept."""

    def __init__(self, normal: NormalEquations) -> None:
        self.normal, self.scale, self.smallest = normal, normal.scale, np.inf

    def energy(self, alpha: float) -> tuple[Array, float]:
        factor = CholeskyFactor.of(self.normal.scatter.copy(), alpha)
        if factor is None:
            return np.full(self.normal.cross.shape[1], np.inf), 0.0
        coef = factor.solve(self.normal.cross)
        log_det = 2 * np.sum(np.log(np.diag(factor.upper))) - len(coef) * np.log(alpha)
        return self.normal.target_scatter - np.sum(coef * self.normal.cross, axis=0), float(log_det)


class DecomposedEvidence:
    """Likelihoods from eigenvalues."""

    def __init__(self, decomposition: RidgeDecomposition) -> None:
        self.decomposition, self.normal = decomposition, decomposition.normal
        self.scale, self.smallest = decomposition.scale, decomposition.smallest

    def energy(self, alpha: float) -> tuple[Array, float]:
        values = self.decomposition.values
        shrunk = (self.decomposition.projected / (values + alpha)[:, None]) ** 2
        energy = self.decomposition.rss(alpha) + alpha * shrunk.sum(axis=0)
        return energy, float(np.sum(np.log1p(values / alpha)))


def is_large(normal: NormalEquations) -> bool:
    """Return whether factors are cheaper than a decomposition."""
    return len(normal.mean) > DECOMPOSED_FEATURES


def choose_evidence(
    source: RidgeDecomposition | Evidence, alphas: Sequence[float] | Array | None = None
) -> AlphaSearch:
    """Return the alpha of the largest marginal likelihood, summed over outputs.

    Scores are -log p(y) by row. Without a list, the best alpha between those beside the best of
    the default grid is computed too. Where each alpha has a factor, the search starts from the best
    one for some of the features, and alphas that were not tried have the score infinity.

    Parameters
    ----------
    source : RidgeDecomposition or Evidence
    alphas : sequence of float, optional
    """
    terms: Any = DecomposedEvidence(source) if isinstance(source, RidgeDecomposition) else source
    normal = terms.normal

    def score(alpha: float) -> float:
        return negative_log_likelihood(normal, *terms.energy(alpha))

    tried = alpha_grid("choose_evidence", alphas, terms.scale, terms.smallest)
    tried = tried[tried > 0]
    if alphas is None and isinstance(terms, FactoredEvidence):
        scores = _descend(score, tried, _guess(normal))
    else:
        scores = np.array([score(alpha) for alpha in tried])
    if not np.isfinite(scores).any():
        raise ValueError("choose_evidence: no alpha above 0 has a finite likelihood.")
    best = int(np.argmin(scores))
    if alphas is None and 0 < best < len(tried) - 1:
        inside = _refine(score, np.log(tried[best - 1 : best + 2]), scores[best - 1 : best + 2])
        new = [(np.exp(place), value) for place, value in inside if np.exp(place) not in tried]
        tried = np.append(tried, [alpha for alpha, _ in new])
        scores = np.append(scores, [value for _, value in new])
        order = np.argsort(tried)
        tried, scores = tried[order], scores[order]
    nothing = negative_log_likelihood(normal, normal.target_scatter, 0.0)
    return best_of(tried, scores, "evidence", nothing)


def _guess(normal: NormalEquations) -> float:
    """Return the best alpha for some of the features, times the number each of them stands for."""
    step = -(-len(normal.mean) // _GUESSED_FEATURES)
    some = RidgeDecomposition.of(normal.every(step), overwrite=step > 1)
    return step * choose_evidence(some).alpha


def _descend(score: Callable[[float], float], alphas: Array, start: float) -> Array:
    """Return scores of ascending alphas from the nearest to `start` down to a local minimum."""
    scores = np.full(len(alphas), np.inf)
    best = int(np.argmin(np.abs(np.log(alphas / start))))
    tried: set[int] = set()
    while new := {best - 1, best, best + 1} & set(range(len(alphas))) - tried:
        for position in new:
            scores[position] = score(float(alphas[position]))
        tried |= new
        if not np.isfinite(scores[best]):  # no factor: alpha is below rounding
            best = min(best + 1, len(alphas) - 1)
        else:
            best = int(np.argmin(scores))
    return scores


def _refine(
    score: Callable[[float], float], places: Array, values: Array
) -> list[tuple[float, float]]:
    """Return places and values near the minimum between three places, the second the lowest.

    The minimum of the parabola through the lowest value and those beside it, until it moves by less
    than _TOLERANCE.
    """
    known = dict(zip(places.tolist(), values.tolist(), strict=True))
    for _ in range(_STEPS):
        ordered = sorted(known)
        middle = ordered.index(min(known, key=known.__getitem__))
        if not 0 < middle < len(ordered) - 1:
            break
        a, b, c = ordered[middle - 1 : middle + 2]
        left, right = (b - a) * (known[b] - known[c]), (b - c) * (known[b] - known[a])
        if not np.isfinite([left, right]).all() or left == right:
            break
        vertex = b - ((b - a) * left - (b - c) * right) / (2 * (left - right))
        if min(abs(vertex - place) for place in (a, b, c)) < _TOLERANCE:
            break
        known[vertex] = score(float(np.exp(vertex)))
    return [*known.items()]


def negative_log_likelihood(normal: NormalEquations, energy: Array, log_det: float) -> float:
    """Return -log p(y)/n for the best noise variance, summed over outputs."""
    n = normal.observations
    contrasts = n - normal.fit_intercept
    count = np.log(n) if normal.fit_intercept else 0.0
    floor = np.finfo(np.float64).eps * normal.target_scatter + np.finfo(np.float64).tiny
    fit = contrasts * (1 + np.log(2 * np.pi * np.maximum(energy, floor) / contrasts))
    return float(np.sum(fit + log_det + count)) / (2 * n)
