"""What the estimators share: the map, the plan, the head, and prediction tile by tile."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, Self, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer import system
from mercer.data import Stream
from mercer.data.batches import Rows, features
from mercer.data.dask import is_lazy
from mercer.errors import ParameterError, Setting
from mercer.evaluation.outline import lookers
from mercer.linear_model import heads
from mercer.linear_model.answers import write_answers
from mercer.linear_model.cross_validation import Folds
from mercer.linear_model.intake import Intake
from mercer.linear_model.keeping import Keeping
from mercer.linear_model.mapping import domain_of, make_map, predict_rows, widths_of
from mercer.linear_model.normal_equations import Array, Normal
from mercer.linear_model.penalties import Penalty
from mercer.linear_model.solvers.pca import Apart, Components, Reduced, spans
from mercer.linear_model.solvers.ridge import Choice
from mercer.linear_model.targets import write_into
from mercer.maps.block import Block, at_home
from mercer.parallel import devices
from mercer.parallel.dask_cluster import in_use, on_its_cluster
from mercer.parallel.threads import width
from mercer.parallel.tile_size import plan_fit, tolerance
from mercer.rng import seed_from
from mercer.stats.basic import Statistic
from mercer.stats.checkpoint import Checkpoint
from mercer.stats.moments import Moments
from mercer.stats.reduce import fold
from mercer.validation.parameters import parse_memory, validate_flag


class KernelModel(Keeping, Intake):
    """Squared loss on the features of a map. A subclass says what targets are, how they are summed
    up, and what scores mean.
    """

    def __init__(
        self,
        feature_map: Any = "fourier",
        *,
        alpha: Any = "auto",
        penalty: str = "l2",
        fit_intercept: bool = True,
        pca: int | None = None,
        max_memory: int | str | None = None,
        checkpoint: Any = None,
        cluster: Any = None,
        device: str | None = None,
        precision: str | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.feature_map = feature_map
        self.alpha = alpha
        self.penalty = penalty
        self.fit_intercept = fit_intercept
        self.pca = pca
        self.max_memory = max_memory
        self.checkpoint = checkpoint
        self.cluster = cluster
        self.device = device
        self.precision = precision
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    @devices.its_own
    @on_its_cluster
    @heads.within_floats
    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, unlabeled: Any = None
    ) -> Self:
        """Fit the map and the head, in as many passes over the rows as ``plan_`` says.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, Dask array, path or stream
            Rows, or a source of rows: ``open_stream(path, target="column")`` for files.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets; None where the stream has them.
        sample_weight : array-like of shape (n_samples,), optional
            Frequencies: a row of weight 2 counts as two rows, also for what a map must see of the
            rows.
        unlabeled : array-like, sparse matrix, data frame, path or stream, optional
            More rows, whose targets are not known. They count for the principal components of
            ``pca``, and for nothing else.

        Returns
        -------
        self
        """
        stream = self._begin(X, y, sample_weight, unlabeled)
        if stream.rows == 1 and heads.is_chosen(self.alpha):
            raise ValueError(
                f"{type(self).__name__}: alpha={self.alpha!r} is chosen by rows that are left "
                "out, and there is one sample only. "
                "Give more rows, or a number for alpha."
            )
        others = None if unlabeled is None else self._open(unlabeled, None, None, reset=False)
        if self.plan_.route == "moments":
            self._seen: Any = self._fold(features(stream, self.feature_map_), self._summary())
            if others is not None:
                beside = self._fold(
                    features(others, self.feature_map_), Moments(target=False), "unlabelled"
                )
                self._beside = Normal.of_rows(beside, fit_intercept=self.fit_intercept)
            self._solve(lambda: self._again(features(stream, self.feature_map_)))
        elif self.plan_.route == "two-stage":
            self._solve_components(stream, others)
        else:
            self._pass_over(stream)
        self._taken = stream.rows or 0
        return self

    @devices.its_own
    @on_its_cluster
    @heads.within_floats
    def _take_in(self, X: Any, y: Any, sample_weight: Any) -> None:
        """partial_fit: the moments of these rows are added to those of all rows before. The map
        sees the rows of the first call only.
        """
        self._must_have_moments()
        first = not hasattr(self, "_seen")
        stream = (
            self._begin(X, y, sample_weight)
            if first
            else self._reweighted(self._open(X, y, sample_weight, reset=False))
        )
        self._must_have_target(stream)
        self._must_add(first)
        before = 0 if first else self._taken
        part = fold(features(stream, self.feature_map_), self._summary(before), n_jobs=self.n_jobs)
        self._let_in(part)
        self._seen = part if first else self._seen + part
        self._taken = before + (stream.rows or 0)
        self._head = None  # solved when it is asked for

    @property
    def coef_(self) -> Array:
        """Coefficients of the features, (n_outputs, n_features_out), or (n_features_out,) for a
        single output.
        """
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
        """The score of each of ``alphas_``: generalised cross-validation, or the error on rows left
        out for "kfold", "loo" and passes.
        """
        return self._choice().scores

    @property
    def kkt_(self) -> float:
        """How far the coefficients are from optimal, in units of the smallest alpha that makes all
        of them 0; of an output with "l1".
        """
        kkt = self._solved().kkt
        if kkt is None:
            raise AttributeError(
                f"{type(self).__name__}: kkt_ is for penalty='l1' and 'group', and it is "
                f"{self.penalty!r}."
            )
        return kkt

    @property
    def zero_maps_(self) -> list[str]:
        """The names of the maps all of whose coefficients are 0: the model is the same without
        them.
        """
        coef = self._solved().coef
        widths = widths_of(self.feature_map_)
        columns = spans(tuple(widths.values()))
        return [name for name, part in zip(widths, columns, strict=True) if not coef[part].any()]

    @devices.its_own
    def predict(self, X: Any, out: Any = None) -> Any:
        """Predictions, tile by tile: the features of all rows never exist at once.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, Dask array, path or stream
            Of a Dask array, predictions are one too, not computed yet.
        out : array or path, optional
            Where to write predictions as they come: an array with room for all of them, or a
            ``.parquet``, ``.npy`` or ``.csv`` file with a column "prediction" (one for each output
            when there are several).

        Returns
        -------
        The predictions, or ``out``.
        """
        if is_lazy(X) and out is None:
            check_is_fitted(self)
            return self._lazily("predict", X, self._kind(), wide=self._wide and self._numeric())
        if isinstance(out, str | os.PathLike):
            write_answers(self, X, out)
            return out
        stream, scores = self._scores(X)
        parts = (self._decoded(part) for part in scores)
        if out is None:
            return np.concatenate(list(parts))
        outputs = (self._solved().coef.shape[1],) if self._wide and self._numeric() else ()
        write_into(out, parts, (stream.rows, *outputs), self._kind())
        return out

    def _scores(self, X: Any) -> tuple[Stream, Iterator[Array]]:
        """The rows of X, and b + z'c of them, some rows at a time."""
        head = self._solved()
        stream = self._open(X, None, None, reset=False)
        return stream, predict_rows(stream, self.feature_map_, head, self.n_jobs)

    def _begin(self, X: Any, y: Any, sample_weight: Any, unlabeled: Any = None) -> Stream:
        """The rows, once they, the parameters and the plan are known to be right; the map is
        fitted.
        """
        who = type(self).__name__
        self._forget()
        heads.check_alpha(who, self.alpha)
        validate_flag(who, "fit_intercept", self.fit_intercept)
        width(self.n_jobs, who)
        limit = (
            system.memory() // 2
            if self.max_memory is None
            else parse_memory(who, "max_memory", self.max_memory)
        )
        stream = self._open(X, y, sample_weight, reset=True)
        self._columns = isinstance(stream.target, list) or (
            stream._y is not None and stream._y.ndim == 2
        )
        stream = self._reweighted(stream)
        self.seed_ = self._seed(who)
        made = make_map(who, self.feature_map, self.seed_, self.n_jobs)
        self.feature_map_ = made._fit_stream(stream)
        widths = tuple(widths_of(self.feature_map_).values())
        D = sum(widths)
        heads.check_head(who, self.penalty, self.alpha, self.pca, widths)
        if unlabeled is not None and self.pca is None:
            sentence = "unlabeled rows count for principal components, and there are none: give "
            raise ParameterError(who, sentence, Setting("pca"), ", or leave them out.")
        self.plan_ = plan_fit(
            stream.rows,
            stream.width,
            D,
            limit=limit,
            folds=heads.FOLDS if heads.by_folds(self.alpha, self.penalty) else 1,
            statistics_passes=len(lookers(self.feature_map_)),
            labels=not self._numeric(),
            counts=getattr(self, "class_weight", None) == "balanced",
            again=isinstance(self.alpha, str) and self.alpha == "loo",
            widths=widths,
            rank=self.pca,
            side_by_side=self.penalty != "l2",
            unlabelled=unlabeled is not None,
            outputs=self._outputs(),
        )
        heads.check_plan(
            who, self.plan_, D, penalty=self.penalty, pca=self.pca, checkpoint=self.checkpoint
        )
        if devices.here() is not None and in_use(stream):
            sentence = "a cluster sums on the CPUs of its workers: leave out either "
            raise ParameterError(
                who,
                sentence,
                Setting("device", text="device="),
                " or ",
                Setting("cluster", text="cluster="),
                ".",
            )
        sums = self.plan_.route in ("moments", "two-stage") and "leverages" not in self.plan_.passes
        if not sums and in_use(stream):
            raise ParameterError(
                who,
                "a cluster sums moments, and this fit takes more passes over the rows. "
                f"{self.plan_} Use ",
                Setting("loss", "'squared'"),
                ", ",
                Setting("alpha", "'gcv'"),
                " or 'kfold' and enough ",
                Setting("max_memory"),
                "; or fit without a cluster, where rows are read here, chunk by chunk.",
            )
        if self.verbose:
            print(f"{who}: {self.plan_}", flush=True)
        return stream

    def _seed(self, who: str) -> int:
        """The seed of random_state; that of the checkpoint, when there is one and random_state does
        not say.
        """
        if (
            self.checkpoint is None
            or self.random_state is not None
            or not os.path.isfile(self.checkpoint)
        ):
            return seed_from(who, self.random_state)
        return seed_from(who, (Checkpoint.peek(self.checkpoint) or {}).get("seed"))

    def _fold(self, rows: Rows, summary: Any, what: str = "") -> Any:
        """The summary of the rows; what is done is kept in the checkpoint, where there is one, and
        in files beside it.
        """
        beside = (
            f"{os.fspath(self.checkpoint)}.{what}"
            if self.checkpoint is not None and what
            else self.checkpoint
        )
        spec = {"seed": self.seed_, "class": type(self).__name__, "route": self.plan_.route}
        return fold(
            rows,
            summary,
            checkpoint=beside,
            spec=spec,
            n_jobs=self.n_jobs,
            progress=self._progress(),
        )

    @heads.within_floats
    def _solve(self, again: Any) -> None:
        """The head of all rows seen."""
        widths = tuple(widths_of(self.feature_map_).values())
        components = (
            None
            if self.pca is None
            else Components(self.pca, widths, getattr(self, "_beside", None))
        )
        self._head = self._head_of(self._normals(self._seen), again, widths, components)

    def _head_of(
        self,
        folds: list[Normal],
        again: Any,
        widths: tuple[int, ...],
        components: Components | None,
    ) -> heads.Head:
        if self.penalty == "l2":
            return heads.from_moments(folds, self.alpha, again, components)
        return heads.sparse_from_moments(
            folds, self.alpha, Penalty(self.penalty, widths, components)
        )

    def _solve_components(self, stream: Stream, others: Stream | None) -> None:
        """Two passes: the moments of each map's features by themselves, then those of all
        components.
        """
        widths = tuple(widths_of(self.feature_map_).values())
        apart = self._fold(features(stream, self.feature_map_), Apart.empty(widths))
        if others is not None:
            apart += self._fold(
                features(others, self.feature_map_), Apart.empty(widths), "unlabelled"
            )
        assert self.pca is not None
        basis = apart.basis(self.pca, fit_intercept=self.fit_intercept)
        del apart
        rows = Reduced(stream, self.feature_map_, basis)
        folds = self._normals(self._fold(rows, self._summary(), "components"))
        head = self._head_of(folds, lambda: self._again(rows), basis.widths, None)
        self._head = replace(head, coef=basis.expand(head.coef))

    def _solved(self) -> heads.Head:
        if (
            not self.__sklearn_is_fitted__()
        ):  # check_is_fitted makes tags, which takes longer than a row does
            check_is_fitted(self)
        if self._head is None:
            self._solve(None)
        assert self._head is not None
        return self._head

    def _choice(self) -> Choice:
        choice = self._solved().choice
        if choice is None:
            raise AttributeError(
                f"{type(self).__name__}: a single alpha was given, none was chosen."
            )
        return choice

    def _pass_over(self, stream: Stream) -> None:
        who = type(self).__name__
        tol = tolerance(stream.dtype.itemsize)
        rows = features(stream, self.feature_map_)
        self._head = heads.from_passes(
            who, lambda: self._again(rows), self.alpha, self.fit_intercept, tol
        )

    def _must_add(self, first: bool) -> None:
        """Refuse parameters that moments do not go with, those changed since the first rows among
        them.
        """
        who = type(self).__name__
        heads.check_alpha(who, self.alpha)
        heads.check_head(
            who, self.penalty, self.alpha, self.pca, tuple(widths_of(self.feature_map_).values())
        )
        if not first and isinstance(self._seen, Folds) != heads.by_folds(self.alpha, self.penalty):
            raise ValueError(
                f"{who}: alpha={self.alpha!r} with penalty={self.penalty!r} has "
                f"{'no ' * isinstance(self._seen, Folds)}folds, unlike the "
                "moments of the rows before. Set both back, or call fit with all rows."
            )
        if self.plan_.route != "moments" or str(self.alpha) == "loo" or self.checkpoint is not None:
            raise ValueError(
                f"{who}: partial_fit adds moments, which alpha='loo', checkpoint= and too many "
                "features for max_memory do not go with. "
                f"{self.plan_}"
            )

    def _must_have_moments(self) -> None:
        """Refuse to add to a model that has a head and no moments: its rows would be forgotten."""
        if hasattr(self, "_head") and not hasattr(self, "_seen"):
            raise ValueError(
                f"{type(self).__name__}: partial_fit adds to moments, which a model that was "
                "loaded, or fitted by passes over the rows, "
                "does not have. Call fit with all rows, or partial_fit on a new model."
            )

    def _let_in(self, part: Any) -> None:
        """Refuse rows of partial_fit that do not go with those before."""

    def _summary(self, first: int = 0) -> Statistic:
        if not heads.by_folds(self.alpha, self.penalty):
            return cast(Statistic, self._parts())
        return Folds(*(self._parts() for _ in range(heads.FOLDS)), first=first)

    def _again(self, rows: Rows) -> Iterator[tuple[Block, Array, Array | None]]:
        for piece in rows.pieces():
            yield at_home(piece.block), self._encoded(piece.y), piece.weight

    def _progress(self) -> Callable[[int, int | None], None] | None:
        who = type(self).__name__
        if self.verbose < 2:
            return None
        return lambda done, of: print(
            f"{who}: {done:,} rows" + (f" of {of:,}" if of else ""), flush=True
        )

    def _reweighted(self, stream: Stream) -> Stream:
        return stream

    def _outputs(self) -> int:
        """Outputs of a loss that needs Newton's method; 0 for squared loss."""
        return 0

    def _names(self, name: str) -> list[str]:
        return [name]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_head")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        with suppress(ValueError):  # a wrong parameter is judged in fit
            tags.input_tags.positive_only = domain_of(self.feature_map) == "nonnegative"
        return tags
