"""What the estimators share: the map, the plan, the head, and prediction tile by tile."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator
from typing import Any, Self, cast

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from mercer import door, machine
from mercer.blocks import Block
from mercer.checkpoints import Checkpoint
from mercer.cluster import in_use, map_chunks, on_its_cluster
from mercer.folding import fold
from mercer.learn import heads
from mercer.learn.folds import Folds
from mercer.learn.mapping import make_map, predict_rows
from mercer.learn.normal import Array
from mercer.learn.ridge import Choice
from mercer.learn.targets import is_source, require_targets, write_into
from mercer.maps.base import Map
from mercer.philox import seed_from
from mercer.planner import plan_fit, tolerance
from mercer.sources import features
from mercer.streams import Stream, open_sink, open_stream
from mercer.streams.dask import is_lazy
from mercer.streams.matrix import MatrixStream
from mercer.summaries import Summary


class KernelModel(BaseEstimator):
    """Squared loss on the features of a map. A subclass says what targets are, how they are summed up, and what scores mean."""

    _head: heads.Head | None

    def __init__(
        self,
        feature_map: Any = "fourier",
        *,
        alpha: Any = "auto",
        fit_intercept: bool = True,
        pca: int | None = None,
        max_memory: int | str | None = None,
        checkpoint: Any = None,
        cluster: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.feature_map = feature_map
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.pca = pca
        self.max_memory = max_memory
        self.checkpoint = checkpoint
        self.cluster = cluster
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    @on_its_cluster
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the map and the head, in as many passes over the rows as ``plan_`` says.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, Dask array, path or stream
            Rows, or a source of rows: ``open_stream(path, target="column")`` for files.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets; None where the stream has them.
        sample_weight : array-like of shape (n_samples,), optional
            Frequencies: a row of weight 2 counts as two rows, also for what a map must see of the rows.

        Returns
        -------
        self
        """
        stream = self._begin(X, y, sample_weight)
        if stream.rows == 1 and heads.is_chosen(self.alpha):
            raise ValueError(
                f"{type(self).__name__}: alpha={self.alpha!r} is chosen by rows that are left out, and there is one sample only. "
                "Give more rows, or a number for alpha."
            )
        if self.plan_.route == "moments":
            rows = features(stream, self.feature_map_)
            keep: Any = {"checkpoint": self.checkpoint, "spec": {"seed": self.seed_, "class": type(self).__name__}}
            self._seen: Any = fold(rows, self._summary(), n_jobs=self.n_jobs, progress=self._progress(), **keep)
            self._taken = stream.rows or 0
            self._solve(lambda: self._again(stream))
        else:
            self._pass_over(stream)
        return self

    @on_its_cluster
    def _take_in(self, X: Any, y: Any, sample_weight: Any) -> None:
        """partial_fit: the moments of these rows are added to those of all rows before. The map sees the rows of the first call only."""
        first = not hasattr(self, "_seen")
        stream = (
            self._begin(X, y, sample_weight)
            if first
            else self._reweighted(self._open(X, y, sample_weight, reset=False))
        )
        self._must_have_target(stream)
        self._must_add()
        before = 0 if first else self._taken
        part = fold(features(stream, self.feature_map_), self._summary(before), n_jobs=self.n_jobs)
        self._let_in(part)
        self._seen = part if first else self._seen + part
        self._taken = before + (stream.rows or 0)
        self._head = None  # solved when it is asked for

    @property
    def coef_(self) -> Array:
        """Coefficients of the features, (n_outputs, n_features_out), or (n_features_out,) for a single output."""
        coef = self._solved().coef
        return coef.T if self._wide else coef[:, 0]

    @property
    def intercept_(self) -> Any:
        """Intercept of each output; a number for a single output."""
        intercept = self._solved().intercept
        return intercept if self._wide else float(intercept[0])

    @property
    def alpha_(self) -> float:
        """The alpha in use."""
        return self._solved().alpha

    @property
    def alphas_(self) -> Array:
        """The alphas that were tried."""
        return self._choice().alphas

    @property
    def gcv_(self) -> Array:
        """The score of each of ``alphas_``: generalised cross-validation, or the error on rows left out for "kfold", "loo" and passes."""
        return self._choice().scores

    def predict(self, X: Any, out: Any = None) -> Any:
        """Predictions, tile by tile: the features of all rows never exist at once.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, Dask array, path or stream
            Of a Dask array, predictions are one too, not computed yet.
        out : array or path, optional
            Where to write predictions as they come: an array with room for all of them, or a ``.parquet``, ``.npy`` or ``.csv`` file with
            a column "prediction" (one for each output when there are several).

        Returns
        -------
        The predictions, or ``out``.
        """
        if is_lazy(X) and out is None:
            check_is_fitted(self)
            return self._lazily("predict", X, self._kind(), wide=self._wide and self._numeric())
        stream, scores = self._scores(X)
        parts = (self._decoded(part) for part in scores)
        if out is None:
            return np.concatenate(list(parts))
        if isinstance(out, str | os.PathLike):
            with open_sink(out, self._names("prediction"), dtype=self._kind()) as sink:
                for part in parts:
                    sink.write(part.reshape(len(part), -1))
        else:
            outputs = (self._solved().coef.shape[1],) if self._wide and self._numeric() else ()
            write_into(out, parts, (stream.rows, *outputs), self._kind())
        return out

    def _lazily(self, method: str, X: Any, dtype: np.dtype[Any], *, wide: bool) -> Any:
        """What a method gives for the chunks of a Dask array, as one."""
        return map_chunks(self, method, X, self._solved().coef.shape[1] if wide else None, dtype)

    def _packed(self) -> Self:
        """A copy for another process, which predicts and knows no more."""
        self._solved()
        other = copy.copy(self)
        other.cluster = None
        other.feature_map_ = self.feature_map_._packed()
        other.__dict__.pop("_seen", None)
        return other

    def _unpacked(self) -> Self:
        other = copy.copy(self)
        other.feature_map_ = self.feature_map_._unpacked()
        return other

    def _scores(self, X: Any) -> tuple[Stream, Iterator[Array]]:
        """The rows of X, and b + z'c of them, some rows at a time."""
        head = self._solved()
        stream = self._open(X, None, None, reset=False)
        return stream, predict_rows(stream, self.feature_map_, head, self.n_jobs)

    def _begin(self, X: Any, y: Any, sample_weight: Any) -> Stream:
        """The rows, once they, the parameters and the plan are known to be right; the map is fitted."""
        who = type(self).__name__
        heads.check_alpha(who, self.alpha)
        door.flag(who, "fit_intercept", self.fit_intercept)
        limit = machine.memory() // 2 if self.max_memory is None else door.memory(who, "max_memory", self.max_memory)
        for name in {"_seen", "_head"} & set(vars(self)):  # a fit that fails leaves no model
            delattr(self, name)
        stream = self._open(X, y, sample_weight, reset=True)
        self._columns = isinstance(stream.target, list) or (stream._y is not None and stream._y.ndim == 2)
        stream = self._reweighted(stream)
        self.seed_ = self._seed(who)
        made = make_map(who, self.feature_map, self.seed_, self.n_jobs)
        self.feature_map_: Map = made._fit_stream(stream)
        D = self.feature_map_._n_features_out
        if self.pca is not None and door.whole(who, "pca", self.pca) > D:
            raise ValueError(f"{who}: pca must be at most the number of features, {D}, got {self.pca}.")
        self.plan_ = plan_fit(
            stream.rows,
            stream.width,
            D,
            limit=limit,
            folds=heads.FOLDS if self.alpha == "kfold" else 1,
            looks=_looks(self.feature_map_),
            labels=not self._numeric(),
            counts=getattr(self, "class_weight", None) == "balanced",
            again=self.alpha == "loo",
        )
        for name in ("pca", "checkpoint"):
            if self.plan_.route == "passes" and getattr(self, name) is not None:
                raise ValueError(
                    f"{who}: {name}={getattr(self, name)!r} needs the moments of {D} features. {self.plan_} Raise max_memory, "
                    f"or leave {name} out."
                )
        if (self.plan_.route == "passes" or "leverages" in self.plan_.passes) and in_use(stream):
            raise ValueError(
                f"{who}: a cluster sums moments, and alpha={self.alpha!r} takes more passes over the rows. {self.plan_} Raise max_memory, "
                "and choose alpha by 'gcv' or 'kfold'."
            )
        if self.verbose:
            print(f"{who}: {self.plan_}")
        return stream

    def _seed(self, who: str) -> int:
        """The seed of random_state; that of the checkpoint, when there is one and random_state does not say."""
        if self.checkpoint is None or self.random_state is not None or not os.path.isfile(self.checkpoint):
            return seed_from(who, self.random_state)
        return seed_from(who, (Checkpoint.peek(self.checkpoint) or {}).get("seed"))

    def _open(self, X: Any, y: Any, sample_weight: Any, *, reset: bool) -> Stream:
        """X, y and weights as a stream of the right width."""
        who = type(self).__name__
        if not is_source(X):
            return self._in_memory(X, y, sample_weight, reset=reset)
        stream = copy.copy(open_stream(X)).beside(y, sample_weight)  # a copy: the caller's has its own y
        names = None if isinstance(stream, MatrixStream) else stream.columns  # a matrix has numbers for names
        if reset:
            self.n_features_in_ = stream.width
            if names is not None:
                self.feature_names_in_ = np.array(names, dtype=object)
            elif hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
            self._must_have_target(stream)
        if stream.width != self.n_features_in_:
            raise ValueError(
                f"{stream.name} has {stream.width} columns, but {who} is expecting {self.n_features_in_}. "
                "Choose them with open_stream(source, columns=[...])."
            )
        known = getattr(self, "feature_names_in_", None)
        if known is not None and names is not None and list(names) != list(known):
            seen, fitted = next((a, b) for a, b in zip(names, known, strict=True) if a != b)
            raise ValueError(
                f"{stream.name} has the column {seen!r} where {who} was fitted on {fitted!r}. "
                "Put them in order with open_stream(source, columns=[...])."
            )
        return stream

    def _in_memory(self, X: Any, y: Any, sample_weight: Any, *, reset: bool) -> Stream:
        options: Any = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "ensure_all_finite": False}
        targets = weights = None
        if y is None and not reset:
            rows = validate_data(self, X, reset=False, **options)
        else:
            require_targets(type(self).__name__, y)
            numeric = self._numeric()
            rows, targets = validate_data(self, X, y, reset=reset, multi_output=True, y_numeric=numeric, **options)
            targets = self._checked(targets)
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
        stream = open_stream(rows).beside(targets, weights)
        if hasattr(self, "feature_names_in_"):
            stream.columns = tuple(map(str, self.feature_names_in_))
        return stream

    def _must_have_target(self, stream: Stream) -> None:
        if stream.target is None:
            who = type(self).__name__
            raise ValueError(f"{who} requires y: open the rows with a target, open_stream(source, target='column').")

    def _solve(self, again: Any) -> None:
        """The head of all rows seen."""
        self._head = heads.from_moments(self._normals(self._seen), self.alpha, self.pca, again)

    def _solved(self) -> heads.Head:
        check_is_fitted(self)
        if self._head is None:
            self._solve(None)
        assert self._head is not None
        return self._head

    def _choice(self) -> Choice:
        choice = self._solved().choice
        if choice is None:
            raise AttributeError(f"{type(self).__name__}: a single alpha was given, none was chosen.")
        return choice

    def _pass_over(self, stream: Stream) -> None:
        who = type(self).__name__
        tol = tolerance(stream.dtype.itemsize)
        self._head = heads.from_passes(who, lambda: self._again(stream), self.alpha, self.fit_intercept, tol)

    def _must_add(self) -> None:
        who = type(self).__name__
        if self.plan_.route != "moments" or self.alpha == "loo" or self.checkpoint is not None:
            raise ValueError(
                f"{who}: partial_fit adds moments, which alpha='loo', checkpoint= and too many features for max_memory do not go with. "
                f"{self.plan_}"
            )

    def _let_in(self, part: Any) -> None:
        """Refuse rows of partial_fit that do not go with those before."""

    def _summary(self, first: int = 0) -> Summary:
        if self.alpha != "kfold":
            return cast(Summary, self._parts())
        return Folds(*(self._parts() for _ in range(heads.FOLDS)), first=first)

    def _again(self, stream: Stream) -> Iterator[tuple[Block, Array, Array | None]]:
        for piece in features(stream, self.feature_map_).pieces():
            yield piece.block, self._encoded(piece.y), piece.weight

    def _progress(self) -> Callable[[int, int | None], None] | None:
        who = type(self).__name__
        if self.verbose < 2:
            return None
        return lambda done, of: print(f"{who}: {done:,} rows" + (f" of {of:,}" if of else ""), flush=True)

    def _reweighted(self, stream: Stream) -> Stream:
        return stream

    def _names(self, name: str) -> list[str]:
        return [name]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_head")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        try:
            made = make_map(type(self).__name__, self.feature_map, None, None)
            tags.input_tags.positive_only = made.domain == "nonnegative"
        except ValueError:  # a wrong parameter is judged in fit
            pass
        return tags


def _looks(fitted: Map) -> bool:
    """Whether the map had to see rows before it was drawn."""
    parts = getattr(fitted, "maps_", None)
    if parts is None:
        return fitted.look(fitted.n_features_in_) is not None
    return any(_looks(part) for part in parts)
