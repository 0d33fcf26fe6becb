"""Metrics learned from targets: rounds of a model and the average outer product of its gradients.

G = sum s g g'/sum s over the rows and outputs, g the gradient of f(x) = b + c'phi(P x), P = M^(1/2)
of the round before; M is G or G^(1/2). The rows are a sample in memory, a quarter of it held out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import clone

from mercer._typing import Array, is_csr
from mercer.data import Stream, open_stream
from mercer.data.batches import Rows
from mercer.data.row_keys import Keys, fold_numbers
from mercer.errors import ParameterError, Setting
from mercer.linear_model.cross_validation import FEW_ROWS
from mercer.linear_model.labels import class_numbers
from mercer.maps._bandwidth import median_distance
from mercer.maps._size import auto_size
from mercer.maps._transform import Chain, TileTransform
from mercer.maps.base import Map
from mercer.maps.block import Block, as_block, matrix
from mercer.maps.compose import Composed, Stacked, names_of
from mercer.maps.metric import Metric
from mercer.maps.stages.fourier import FourierFeatures
from mercer.maps.tabular import Tabular
from mercer.parallel.dask_cluster import without_cluster
from mercer.parallel.threads import for_each, one_blas_thread, row_slices
from mercer.parallel.tile_size import Cost
from mercer.rng import Rng
from mercer.stats.base import frequency_weights
from mercer.stats.basic import Reservoir
from mercer.stats.reduce import accumulate

_HELD_OUT = 4  # one row of so many is held out
_LEAST_ROWS = 4  # on either side; with fewer, M is the identity
_SAMPLE_NUMBERS = 2**25  # of the sample, at most: 256 MB
_FEATURES = 1024  # of the models of the rounds, fewer random ones for few rows
_MOST_FEATURES = 4096  # of the models by which gamma is chosen last, if the map has as many
_PATIENCE = 3  # rounds in a row that do not lower the error, after which no more follow
_ENOUGH = 0.5  # of the error of M = I, below which no other power is tried
_STEP = 2.0  # of gamma, tried in both directions: one step in rounds that gain, more at the end
_MOST_STEPS = 3
# Gradients are those of f convolved with a normal density of this part of the rows' spread: of
# 0, 0.1, 0.3 and 1 the best or nearly so for the laplacian and Matern 1/2 kernels, whose
# frequencies have no finite variance (R2 of puma32h after 4 rounds, laplacian: 0.63, 0.93, 0.93,
# 0.85).
_SMOOTHING = 0.3
# M^(1/2) as a power of the average outer product G; the rounds are run for each. M = G finds few
# columns among many within some rounds (R2 of puma32h after 5: 0.94, where G^(1/2) has 0.80),
# M = G^(1/2), as in xRFM, keeps more of the others (R2 of concrete: 0.886, where G has 0.876).
_POWERS = (0.5, 0.25)
# Gradients of random features along columns in which the rows hardly vary are noise: they are
# multiplied by v/(v + _NOISE mean v), v the variance of a column.
_NOISE = 0.01
_LEAST_ENTRY = 1e-6  # of a diagonal M^(1/2), relative to the largest: Divide has no zeros
_TILE_NUMBERS = 2**20  # gradients and phases of a tile


class LabeledSample(Reservoir):
    """Sample of rows with their targets, keys and indices.

    Parameters
    ----------
    size, seed : int
        As in Reservoir.
    classes : array or None
        Labels, of which targets become the numbers; None where targets are numbers themselves.
    """

    uses_keys = True

    def __init__(self, size: int, seed: int, classes: Array | None = None) -> None:
        super().__init__(size, seed)
        self.classes = classes

    def add(
        self,
        block: Block,
        y: Array | None = None,
        weight: Array | None = None,
        start: int = 0,
        keys: Keys | None = None,
    ) -> None:
        assert y is not None and keys is not None
        n = block.shape[0]
        targets = np.asarray(y) if self.classes is None else np.searchsorted(self.classes, y)
        beside = np.column_stack(
            [
                targets.reshape(n, -1),
                (keys >> np.uint64(11)).astype(np.float64),  # 53 bits are exact
                np.arange(start, start + n),
            ]
        )
        rows: Any = matrix(block)
        if is_csr(rows):
            from scipy.sparse import hstack

            table = hstack([rows, type(rows)(beside)], format="csr")
        else:
            table = np.hstack([np.asarray(rows, dtype=np.float64), beside])
        super().add(as_block(table), weight=weight, start=start)


class GradientOuterProducts:
    """sum s g g' over rows and outputs, g = J(x)'c the gradients of c'phi(x); or its diagonal.

    Parameters
    ----------
    transform : TileTransform
        phi.
    coef : array of shape (D, t)
        c.
    diagonal : bool
    """

    def __init__(self, transform: TileTransform, coef: Array, diagonal: bool) -> None:
        self.transform, self.coef, self.diagonal = transform, coef, diagonal
        self.total: Any = 0.0
        self.weight = 0.0

    def add(
        self, block: Block, y: Array | None = None, weight: Array | None = None, start: int = 0
    ) -> None:
        """Add the gradients at the rows of a block."""
        rows: Any = matrix(block)
        n, d = rows.shape
        weights = frequency_weights(n, weight)
        vectors = np.ascontiguousarray(self.coef.T)[:, None, :]
        numbers = len(self.coef.T) * max(len(self.coef), d)
        tiles = list(row_slices(n, max(1, _TILE_NUMBERS // numbers)))
        sums: dict[int, Array] = {}

        def work(tile: slice) -> None:
            G = self.transform.vjp(rows[tile], vectors) * np.sqrt(weights[tile])[:, None]
            G = G.reshape(-1, d)
            sums[tile.start] = np.einsum("ij,ij->j", G, G) if self.diagonal else G.T @ G

        for_each(work, tiles, Cost(numbers * d, 8.0 * numbers), n)
        self.total = sum((sums[tile.start] for tile in tiles), start=self.total)
        self.weight += float(weights.sum())

    def __add__(self, other: Self) -> Self:
        merged = type(self)(self.transform, self.coef, self.diagonal)
        merged.total, merged.weight = self.total + other.total, self.weight + other.weight
        return merged

    @property
    def average(self) -> Array:
        """The sum divided by that of the weights."""
        return np.asarray(self.total / self.weight)


def has_unlearned_metric(feature_map: Map) -> bool:
    """Return whether a map has a ``Metric`` that is learned, with a map that follows it."""
    if isinstance(feature_map, Stacked):
        return any(map(has_unlearned_metric, feature_map.maps))
    parts = feature_map.maps[:-1] if isinstance(feature_map, Composed) else []
    return any(isinstance(part, Metric) and part.matrix is None for part in parts)


def learn_metrics(model: Any, feature_map: Map, stream: Stream) -> tuple[Map, list[Array]]:
    """Learn the metrics of a map: each of maps side by side has its own.

    Parameters
    ----------
    model : KernelRegressor or KernelClassifier
        Its settings are those of the models of the rounds, which have squared loss.
    feature_map : Map
        Not fitted.
    stream : Stream
        The training rows, with targets.

    Returns
    -------
    feature_map : Map
        A copy in which the metrics are given, and gamma too where it was "auto".
    scores : list of array
        R^2 of held-out rows after each round, for each metric.
    """
    parts = list(feature_map.maps) if isinstance(feature_map, Stacked) else [feature_map]
    places = [_find_metric(part) for part in parts]
    pairs = zip(parts, places, strict=True)
    most = max(part.maps[place].max_rows for part, place in pairs if place is not None)
    sample, scores = _draw_sample(model, parts[0], most, stream), []
    for i, place in enumerate(places):
        if place is not None:
            parts[i], found = _learn(model, parts[i], place, stream, sample)
            scores.append(found)
    return (Stacked(parts) if isinstance(feature_map, Stacked) else parts[0]), scores


def fitted_metrics(fitted: Map) -> list[Metric]:
    """Return the metrics of a fitted map, in front of maps that follow them."""
    if isinstance(fitted, Composed | Stacked):
        return [metric for part in fitted.maps_ for metric in fitted_metrics(part)]
    return [fitted] if isinstance(fitted, Metric) else []


def column_importances(fitted: Map) -> Array | None:
    """Return the importances of the columns of X; None where a map before mixes columns.

    Those of the features of one column of a table are added.
    """
    if not isinstance(fitted, Composed):
        return None
    before = fitted.maps_[: next(i for i, p in enumerate(fitted.maps_) if isinstance(p, Metric))]
    importances = fitted_metrics(fitted)[0].importances_
    if before and isinstance(before[0], Tabular):
        counts = [len(decision.features) for decision in before[0].decisions_]
        columns = np.repeat(np.arange(len(counts)), counts)
        importances = np.bincount(columns, importances, minlength=len(counts))
    return importances if len(importances) == fitted.n_features_in_ else None


@dataclass(frozen=True, eq=False)
class _Sample:
    """Rows in memory, in the order of the stream, with targets, weights and the side."""

    X: Any
    y: Array
    weights: Array
    held_out: Array


def _find_metric(feature_map: Map) -> int | None:
    """Return the place of the first metric to learn; None where there is none."""
    if not has_unlearned_metric(feature_map):
        return None
    learned = [isinstance(part, Metric) and part.matrix is None for part in feature_map.maps]
    return learned.index(True)


def _draw_sample(model: Any, first: Map, most: int, stream: Stream) -> _Sample:
    """Read the rows once, as the first map takes them, and return a sample for all metrics."""
    size = min(most, max(_LEAST_ROWS, _SAMPLE_NUMBERS // stream.width))
    classes = None
    if not model._numeric_targets:
        model._find_classes(stream)
        classes = model.classes_
    drawn = LabeledSample(size, model.seed_, classes)
    accumulate(
        Rows(stream, first),
        drawn,
        n_jobs=model.n_jobs,
        progress=model._print_progress if model.verbose > 1 else None,
    )
    width, table = stream.width, drawn.rows
    beside = table[:, width:]
    beside = beside.toarray() if is_csr(table) else beside
    order = np.argsort(beside[:, -1], kind="stable")
    y, keys = beside[order, :-2], beside[order, -2]
    words = keys.astype(np.uint64) << np.uint64(11)
    held_out = fold_numbers(words, _HELD_OUT) == 0
    if classes is not None:
        y = y[:, 0].astype(np.int64)
        # a class is learned from some row
        held_out &= np.bincount(y[~held_out], minlength=len(classes))[y] > 0
    elif not model._targets_2d:
        y = y[:, 0]
    return _Sample(table[order][:, :width], y, drawn.frequencies[order], held_out)


def _learn(
    model: Any, part: Composed, place: int, stream: Stream, sample: _Sample
) -> tuple[Map, Array]:
    """Return a composition with its metric learned, and the scores of the rounds."""
    metric, following = part.maps[place], part.maps[place + 1 :]
    assert isinstance(metric, Metric)
    rest = following[0] if len(following) == 1 else Composed(list(following))
    X = _transform_before(part.maps[:place], stream, sample)
    diagonal = metric.is_diagonal(X.shape[1])
    if rest.domain == "nonnegative":
        if metric.kind == "full":
            raise ParameterError(
                "Metric",
                Setting("kind", "'full'"),
                f" gives numbers below 0, and {type(following[0]).__name__} needs numbers of at "
                "least 0. Use 'diagonal'.",
            )
        diagonal = True
    rounds = _Rounds(model, rest, X, sample, diagonal)
    with without_cluster(), one_blas_thread():
        P, gamma, scores = rounds.run(metric.n_rounds)
    learned = clone(metric).set_params(matrix=P)
    rest = rest if gamma is None else rounds.with_gamma(rest, gamma)
    after = rest.maps if isinstance(rest, Composed) else [rest]
    return Composed([*part.maps[:place], learned, *after]), scores


def _transform_before(before: Sequence[Map], stream: Stream, sample: _Sample) -> Any:
    """Return the sampled rows after the maps in front of the metric, fitted to them."""
    if not before:
        return sample.X
    rows = open_stream(sample.X)
    rows.schema, rows.columns = stream.schema, stream.columns
    fitted = clone(Composed(list(before)))._fit_stream(rows)
    return matrix(fitted._transform_block(sample.X))


class _Trial(NamedTuple):
    """A metric, the gamma beside it (None where it is not chosen), the model and its score.

    `wrong` has the weights of the held-out rows of classes that are predicted wrong, 0 for others.
    """

    score: float
    wrong: Array
    P: Array
    gamma: float | None
    model: Any


class _Rounds:
    """Models of the rounds on the training part of a sample, scored on the held-out part."""

    def __init__(self, model: Any, following: Map, X: Any, sample: _Sample, diagonal: bool) -> None:
        self.model, self.X, self.sample, self.diagonal = model, X, sample, diagonal
        self.train, self.test = np.flatnonzero(~sample.held_out), np.flatnonzero(sample.held_out)
        self.following = _limit_size(following, len(self.train), _FEATURES)
        self.final = _limit_size(following, len(self.train), _MOST_FEATURES)
        self.distance = self._median_distance(X)
        variances = _column_variances(X, sample.weights)
        self.shrinkage = variances / (variances + _NOISE * (variances.mean() or 1.0))
        self.count = 0  # models fitted

    def run(self, n_rounds: int) -> tuple[Array, float | None, Array]:
        """Return M^(1/2), gamma (None where it is not chosen) and the scores of the rounds."""
        P: Array = np.ones(self.X.shape[1]) if self.diagonal else np.eye(self.X.shape[1])
        if min(len(self.train), len(self.test)) < _LEAST_ROWS or not self.distance > 0:
            return P, None, np.empty(0)
        start = self._refine_gamma(self._fit(P, self._median_gamma()), 1)
        best, best_scores = start, [start.score]
        for power in _POWERS if n_rounds else ():
            last, scores = start, [start.score]
            while len(scores) <= n_rounds and len(scores) - np.argmax(scores) <= _PATIENCE:
                root = self._next_metric(last, power)
                if root is None:
                    break
                before, last = last, self._fit(root, last.gamma)
                if last.score > before.score:
                    last = self._refine_gamma(last, 1)
                scores.append(last.score)
                best = max(best, last, key=lambda trial: trial.score)
            if best.score == max(scores):
                best_scores = scores
            if 1 - best.score < _ENOUGH * (1 - start.score):
                break
        if not self._predicts_better(best, start):
            return P, self._better_gamma(P), np.array([start.score])
        if best.gamma is not None:  # a larger map has room for a rougher kernel
            self.following = self.final
            best = self._refine_gamma(self._fit(best.P, best.gamma), _MOST_STEPS)
        return best.P, best.gamma, np.array(best_scores)

    def _better_gamma(self, P: Array) -> float | None:
        """Return a gamma that predicts more of the held-out classes; None where there is none."""
        self.following = self.final
        gamma = self._median_gamma()
        if gamma is None:
            return None
        start = self._fit(P, gamma)
        best = self._refine_gamma(start, _MOST_STEPS)
        return best.gamma if self._predicts_better(best, start) else None

    def _predicts_better(self, trial: _Trial, other: _Trial) -> bool:
        """Return whether a trial predicts more of the held-out classes than another.

        A higher R^2 of the scores does not say so: on dna, 180 columns of 2,000 rows, it rises from
        0.72 to 0.88 with M, and the accuracy on test rows falls from 96.3 to 94.5%. True for
        numbers, which are compared by R^2.
        """
        return self.model._numeric_targets or float(trial.wrong.sum()) < float(other.wrong.sum())

    def with_gamma(self, feature_map: Map, gamma: float) -> Map:
        """Return a copy of a map with another gamma."""
        path = "gamma"
        if isinstance(feature_map, Composed):
            path = f"{names_of(feature_map.maps)[0]}__gamma"
        return clone(feature_map).set_params(**{path: gamma})

    @property
    def _first(self) -> Map:
        """The map behind the metric."""
        following = self.following
        return following.maps[0] if isinstance(following, Composed) else following

    def _median_gamma(self) -> float | None:
        """Return the gamma of M = I where the map that follows estimates it; None otherwise."""
        first = self._first
        if not isinstance(getattr(first, "gamma", None), str) or not first.depends_on_units:
            return None
        fitted = clone(first).fit(self.X[self.train])
        gamma: float = fitted.gamma_
        return gamma

    def _refine_gamma(self, trial: _Trial, steps: int) -> _Trial:
        """Return the best trial on steps of gamma up, or else down, while the score rises."""
        if trial.gamma is None:
            return trial
        for factor in (_STEP, 1 / _STEP):
            best, gamma = trial, trial.gamma
            for _ in range(steps):
                gamma *= factor
                tried = self._fit(best.P, gamma)
                if tried.score <= best.score:
                    break
                best = tried
            if best is not trial:
                return best
        return trial

    def _fit(self, P: Array, gamma: float | None) -> _Trial:
        """Fit the model with a metric and a gamma, and score it on the held-out rows."""
        following = self.following if gamma is None else self.with_gamma(self.following, gamma)
        # other random features in every model: M does not adapt to those of one
        seeds = Rng(self.model.seed_).words("metric", self.count, 1) >> np.uint64(1)
        names = [name for name in following.get_params() if name.endswith("random_state")]
        following = clone(following).set_params(**dict.fromkeys(names, int(seeds[0])))
        self.count += 1
        settings = self.model.get_params(deep=False) | {
            "feature_map": following,
            "metric": None,
            "scale": False,
            # folds are three times as fast as leave-one-out
            "alpha": "auto" if len(self.train) <= FEW_ROWS else "kfold",
            "penalty": "l2",
            "pca": None,
            "uncertainty": False,
            "checkpoint": None,
            "cluster": None,
            "verbose": 0,
            "random_state": self.model.seed_,
        }
        if not self.model._numeric_targets:
            settings |= {"loss": "squared", "class_weight": None}
        fitted = type(self.model)(**settings)
        sample, rows = self.sample, _apply(self.X, P)
        y, weights = sample.y, sample.weights
        fitted.fit(rows[self.train], y[self.train], sample_weight=weights[self.train])
        truth = fitted._encode_targets(y[self.test]).reshape(len(self.test), -1)
        scores = np.concatenate(list(fitted._scores(rows[self.test])[1]))
        held = weights[self.test]
        center = np.average(
            fitted._encode_targets(y[self.train]).reshape(len(self.train), -1),
            axis=0,
            weights=weights[self.train],
        )
        error, baseline = (
            float(np.sum(held[:, None] * (truth - guess) ** 2)) for guess in (scores, center)
        )
        score = 1 - error / baseline if baseline > 0 else 0.0
        wrong = np.empty(0)
        if not self.model._numeric_targets:
            wrong = held * (class_numbers(scores) != class_numbers(truth))
        return _Trial(score, wrong, P, gamma, fitted)

    def _next_metric(self, trial: _Trial, power: float) -> Array | None:
        """Return G^power, G the outer products of a model; None where G is 0."""
        P, fitted = trial.P, trial.model
        rows = _apply(self.X[self.train], P)
        transform, coef = fitted.feature_map_.tile_transform_, fitted._fitted_predictor().coef
        stages = transform.stages if isinstance(transform, Chain) else ()
        if len(stages) == 1 and isinstance(stages[0], FourierFeatures):
            distance = median_distance(rows, self.model.seed_)
            width = _SMOOTHING * distance / np.sqrt(2 * rows.shape[1])
            coef = coef * stages[0].smoothing_factors(width, rows.shape[1])[:, None]
        self._require_gradient(transform, rows[:1], coef)
        products = GradientOuterProducts(transform, coef, self.diagonal)
        stream = open_stream(rows).with_targets(None, self.sample.weights[self.train])
        G = accumulate(stream, products, n_jobs=self.model.n_jobs).average
        G = P * G * P if self.diagonal else P @ G @ P.T  # gradients are those of f(P x)
        G *= self.shrinkage**2 if self.diagonal else np.outer(self.shrinkage, self.shrinkage)
        largest = np.abs(G).max(initial=0.0)
        if not (np.isfinite(largest) and largest > 0):
            return None
        root = _power(G / largest, power)
        # the median distance of rows is that of M = I
        distance = self._median_distance(_apply(self.X, root))
        return root * (self.distance / distance) if distance > 0 else None

    def _require_gradient(self, transform: TileTransform, row: Any, coef: Array) -> None:
        try:
            transform.vjp(row, coef.T[:, None, :])
        except TypeError:
            raise ParameterError(
                "Metric",
                f"{type(self._first).__name__} has no gradient, from which a metric is learned. "
                "Put Metric in front of RandomFourier, of Nystroem with a kernel of distances, of "
                "Homogeneous, Chi2Series, Hellinger, SkewedFourier, ExpChi2 or a linear map.",
            ) from None

    def _median_distance(self, rows: Any) -> float:
        """Return the median distance of pairs of rows: |x - z|_1 for the laplacian kernel."""
        first = self._first
        absolute = getattr(first, "_kernel_name", None) == "laplacian"
        return median_distance(rows, self.model.seed_, absolute=absolute)


def _limit_size(feature_map: Map, rows: int, most: int) -> Map:
    """Return a map with at most so many features where its size is their number."""
    last = feature_map.maps[-1] if isinstance(feature_map, Composed) else feature_map
    if last.size_parameter != "n_components":
        return feature_map
    feature_map = feature_map.for_rows(rows)
    last = feature_map.maps[-1] if isinstance(feature_map, Composed) else feature_map
    size = last.get_params()["n_components"]
    if last.size_follows_rows:  # a small map is given a metric that a larger one has found
        size = max(size, min(_FEATURES, auto_size(rows)))
    return feature_map.with_size(min(size, most))


def _power(G: Array, power: float) -> Array:
    """Return a power of a matrix, or of a diagonal, whose largest entry is 1."""
    if G.ndim == 1:
        return np.maximum(G**power, _LEAST_ENTRY)
    values, vectors = np.linalg.eigh(G)
    values[values < len(G) * np.finfo(G.dtype).eps * values[-1]] = 0.0  # rounding, or below 0
    return (vectors * values**power) @ vectors.T


def _apply(X: Any, P: Array) -> Any:
    """Return P x of all rows; of a diagonal P, CSR rows stay CSR."""
    if P.ndim == 2:
        return X @ P
    if is_csr(X):
        scaled = X.copy()
        scaled.data = scaled.data * P[scaled.indices]
        return scaled
    return X * P


def _column_variances(X: Any, weights: Array) -> Array:
    """Return the weighted variance of each column."""
    share = weights / weights.sum()
    means = np.asarray(share @ X).ravel()
    squares = np.asarray(share @ (X.multiply(X) if is_csr(X) else np.square(X))).ravel()
    return np.maximum(squares - means**2, 0.0)
