"""Leave-one-out score of a fitted model with all of its features, and with the first half of them.

Half of the features of a nested random map are the map of half the size. The excess error of ridge
regression on D random features falls about as 1/D: what the second half has gained, twice as many
features gain about half as much again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer._typing import Array
from mercer.maps.base import Map, Rate
from mercer.maps.block import block_to_host
from mercer.model_selection.sample import draw
from mercer.parallel.threads import one_blas_thread

_ROWS = 2000  # of the sample; more than twice as many cost as much as the fit of as many rows
_MOST_FEATURES = 2**14  # 256 MiB for those of the sample
_SAMPLE_BYTES = 2**30  # a quarter of which is for the rows
_RELEVANT = 0.005  # difference of two scores: half a point of accuracy
_NEGLIGIBLE = 0.001  # however certain it is
_ALPHAS = np.logspace(-6, 2, 9)  # in units of the mean eigenvalue
_EPS = float(np.finfo(np.float64).eps)


@dataclass
class HalfSize:
    """Leave-one-out scores with all features and with half of them, on the same rows.

    Attributes
    ----------
    measure : {"accuracy", "R^2"}
    rows, total : int
        Different rows that are scored, and rows of the data.
    sampled : bool
        Whether the rows are a sample.
    features, half : int
    score, half_score : float
    deviation : float
        Standard error of the difference of the scores.
    gain : float
        Score of all features less that of half of them.
    more_help : bool
        Whether the second half of the features has raised the score beyond chance.
    fewer_suffice : bool
        Whether half of the features score as well; of a sample nothing is concluded: the fewer
        rows, the fewer features suffice.
    """

    measure: str
    rows: int
    total: int
    sampled: bool
    features: int
    half: int
    score: float
    half_score: float
    deviation: float

    def __post_init__(self) -> None:
        self.gain = self.score - self.half_score
        self.more_help = self.gain > 2 * max(self.deviation, _RELEVANT)
        chance = max(self.deviation, _NEGLIGIBLE)
        self.fewer_suffice = not self.sampled and self.gain <= min(chance, _RELEVANT)

    def __str__(self) -> str:
        digits = ".1%" if self.measure == "accuracy" else ".3f"
        sampled = "sampled " * self.sampled
        verdict = ""
        if self.more_help:
            verdict = "; more features are likely to help"
        elif self.fewer_suffice:
            verdict = f"; {self.half:,} do as well"
        return (
            f"Leave-one-out {self.measure} of {self.rows:,} {sampled}rows: "
            f"{self.score:{digits}} with {self.features:,} features, "
            f"{self.half_score:{digits}} with {self.half:,} of them{verdict}."
        )


def score_half(model: Any, stream: Any, seed: int) -> HalfSize | None:
    """Compare a fitted model with one of half as many features by exact leave-one-out.

    Both are ridge regressions on a sample of rows, each with its best alpha; of equal rows one is
    kept, so that no row is predicted from its copy. Weights of rows and classes are not used.

    Parameters
    ----------
    model : KernelRegressor or KernelClassifier
    stream : Stream
        Rows and targets; read once.
    seed : int
        Seed of the sample.

    Returns
    -------
    HalfSize or None
        None where half of the features are no smaller map, the model is no ridge regression of one
        target, or fewer than 8 different rows or all equal targets leave nothing to compare.
    """
    fitted: Map = model.feature_map_
    D = fitted._n_features_out
    ridge = getattr(model, "loss", "squared") == "squared" and model.penalty == "l2"
    halves = fitted.nested and isinstance(fitted.rate, Rate) and not fitted.rate.ends
    if not ridge or model.pca is not None or not halves or not 2 <= D <= _MOST_FEATURES:
        return None
    if stream.group is not None or stream.time is not None:  # rows are not left out one by one
        return None
    numeric = model._numeric_targets
    given = {"numeric": numeric, "limit": _SAMPLE_BYTES, "seed": seed, "most_rows": _ROWS}
    try:
        sample = draw(stream, None, **given, encode=False)
    except ValueError:  # rows or targets that cannot be compared
        return None
    Z = block_to_host(fitted._transform_block(sample.X)).toarray().astype(np.float64)
    different = list({row.tobytes(): i for i, row in enumerate(Z)}.values())
    Z, y = Z[different], sample.y[different]
    Y = np.asarray(model._encode_targets(y), dtype=np.float64).reshape(len(y), -1)
    with one_blas_thread():
        whole, half = (_leave_one_out(part, Y) for part in (Z, Z[:, : D // 2]))
    if numeric:
        variance = float(np.mean((Y - Y.mean(axis=0)) ** 2))
        right, half_right = (1 - (part - Y)[:, 0] ** 2 / variance for part in (whole, half))
    else:
        right, half_right = ((model._decode_scores(part) == y) * 1.0 for part in (whole, half))
    return HalfSize(
        measure="R^2" if numeric else "accuracy",
        rows=len(y),
        total=sample.total,
        sampled=len(sample.y) < sample.total,
        features=D,
        half=D // 2,
        score=float(right.mean()),
        half_score=float(half_right.mean()),
        deviation=float(np.std(right - half_right) / np.sqrt(len(y))),
    )


def _leave_one_out(Z: Array, Y: Array) -> Array:
    """Return y - e/(1 - h) of ridge regression, at the alpha of the least squared error.

    e are residuals and h = 1/n + sum_j p_j^2/(l_j + alpha) leverages, with P = Z V for the
    eigenvectors V of Z'Z, or P = U sqrt(l) for those of Z Z' where that is the smaller one.
    """
    from scipy.linalg import eigh

    n, D = Z.shape
    Z, R = Z - Z.mean(axis=0), Y - Y.mean(axis=0)
    l, V = eigh(Z.T @ Z if n >= D else Z @ Z.T, driver="evd")
    positive = l > len(l) * _EPS * max(l[-1], 0.0)
    l, V = l[positive], V[:, positive]
    P = Z @ V if n >= D else V * np.sqrt(l)
    projected, squares = P.T @ R, P**2
    best, least = Y.mean(axis=0) - R / (n - 1), np.inf  # the mean of the other rows
    for alpha in _ALPHAS * (l.mean() if len(l) else 1.0):
        inverse = 1 / (l + alpha)
        complement = 1 - 1 / n - squares @ inverse
        if np.any(complement <= n * _EPS):
            continue
        errors = (R - P @ (inverse[:, None] * projected)) / complement[:, None]
        if (error := float(np.sum(errors**2))) < least:
            best, least = Y - errors, error
    return best
