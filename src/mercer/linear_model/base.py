"""KernelModel: the base class of the estimators."""

from __future__ import annotations

import copy
import inspect
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar, Self, TypeVar, cast, overload

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import (
    _check_sample_weight,
    _check_y,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from mercer import ops, system
from mercer._typing import Array
from mercer.data import Stream, open_stream, open_writer
from mercer.data._pyarrow import NeedsPyarrow
from mercer.data.arrow import TableStream, warn_retyped
from mercer.data.batches import Labels, Rows, features
from mercer.data.column_roles import TARGET, describe_missing
from mercer.data.in_memory import FrameStream, is_table
from mercer.data.kept_columns import KeptColumns
from mercer.data.matrix import MatrixStream
from mercer.data.stream import is_lazy
from mercer.data.table_schema import TableSchema, number_schema
from mercer.errors import ColumnTypeError, MissingValueError, ParameterError, RowError, Setting
from mercer.linear_model.compiled import Predictor
from mercer.linear_model.cross_validation import Folds, HeldOutFold, ValidationScore
from mercer.linear_model.memory import plan_within, require_memory_for_rows
from mercer.linear_model.metric import (
    column_importances,
    fitted_metrics,
    has_unlearned_metric,
    learn_metrics,
)
from mercer.linear_model.normal_equations import NormalEquations
from mercer.linear_model.parameters import validate_estimator
from mercer.linear_model.posterior import Posterior
from mercer.linear_model.predictor import LinearPredictor
from mercer.linear_model.routes import ROUTES, NormalEquationsRoute, Plan, Settings, plan_model
from mercer.linear_model.solvers.blocks import DeviceBlock
from mercer.linear_model.solvers.pca import spans
from mercer.linear_model.solvers.ridge import AlphaSearch
from mercer.maps import registry, suggest_maps
from mercer.maps.base import Map, convert_tensor
from mercer.maps.block import Block, Dense, block_to_host
from mercer.maps.compose import (
    Composed,
    Stacked,
    clone_sharing_generators,
    count_scaled,
    is_scaled,
    names_of,
    scale_columns,
)
from mercer.maps.identity import Identity
from mercer.maps.metric import Metric
from mercer.maps.tabular import Tabular
from mercer.parallel.dask_cluster import map_chunks, use_cluster, uses_cluster
from mercer.parallel.device import (
    current_device,
    device_context,
    device_of,
    from_tensor,
    is_tensor,
    to_host,
    to_tensor_like,
    use_device,
)
from mercer.parallel.warnings import warn
from mercer.rng import Rng, seed_from
from mercer.stats.base import Statistic
from mercer.stats.basic import RowCount
from mercer.stats.checkpoint import Checkpoint
from mercer.stats.reduce import accumulate, checkpoint_passes
from mercer.validation.parameters import parse_memory, validate_option, validate_parameters
from mercer.validation.rows import drop_index_columns, first_missing
from mercer.validation.sparse import canonical_csr
from mercer.validation.times import reject_times

_COLUMNS = Setting("columns", text="open_stream(source, columns=[...])")
_T = TypeVar("_T")
# in no model file, and not sent to other processes
_STATISTICS = ("_statistics", "_unlabeled", "_training", "_lazy")
# in a model file with uncertainty=True
_UNCERTAINTY = ("_posterior", "_intervals", "_calibration", "_sets")
# of sums: results are tested
_OVERFLOW: Any = {"over": "ignore", "divide": "ignore", "invalid": "ignore"}
_TRAINING_BYTES = 2**26  # of rows in memory, a copy of which is kept for measures of uncertainty


class KernelModel(BaseEstimator):
    """f(x) = b + c'phi(x), a linear model on the features of a map.

    A subclass states its targets: how they are validated, encoded and summed up, and how scores
    are decoded.
    """

    # Fitted attributes and their types: a model file has these, scikit-learn's, and no others.
    feature_map_: Map
    plan_: Plan
    seed_: int
    n_samples_seen_: int
    _predictor: LinearPredictor | None
    _posterior: Posterior | None
    _targets_2d: bool

    _numeric_targets: ClassVar[bool] = True

    def __init__(
        self,
        feature_map: Any = "fourier",
        *,
        scale: bool | str = "auto",
        metric: str | None = None,
        alpha: Any = "auto",
        penalty: str = "l2",
        fit_intercept: bool = True,
        pca: int | None = None,
        uncertainty: bool = False,
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
        self.scale = scale
        self.metric = metric
        self.alpha = alpha
        self.penalty = penalty
        self.fit_intercept = fit_intercept
        self.pca = pca
        self.uncertainty = uncertainty
        self.max_memory = max_memory
        self.checkpoint = checkpoint
        self.cluster = cluster
        self.device = device
        self.precision = precision
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        unlabeled: Any = None,
    ) -> Self:
        """Fit the feature map and the coefficients, in the passes that ``plan_`` lists.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, Arrow table, Dask array, path or stream
            Rows, or a source of rows: ``open_stream(path, target="column")`` for files. Tables
            may have text, dates and missing cells: ``Tabular`` is put in front of the map.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets; None where the stream has them.
        sample_weight : array-like of shape (n_samples,), optional
            Frequencies: a row of weight 2 counts as two rows, also for the statistics of a map.
        groups : array-like of shape (n_samples,), optional
            Groups of rows, such as patients: where alpha is chosen, rows of a group are left out
            together.
        unlabeled : array-like, sparse matrix, data frame, path or stream, optional
            More rows, without targets. They count for the principal components of ``pca`` only.

        Returns
        -------
        self
        """
        self._reset()
        with self._undo_failure():
            validate_estimator(self)
            settings = self._settings(unlabeled=unlabeled is not None)
            settings.validate()

            def fit_rows(stream: Stream) -> None:
                if groups is not None:
                    stream.with_groups(_to_host(groups))
                settings.validate_rows(stream.rows)
                self._fit_map(stream)
                planned = self._plan(stream, settings)
                extra = (
                    None if unlabeled is None else self._open(unlabeled, None, None, reset=False)
                )
                predictor = ROUTES[self.plan_.route].fit(self, planned, stream, extra)
                self._require_finite(predictor)
                if planned.alphas is None and predictor.search is not None:
                    self._warn_open_search(predictor.search)
                self._predictor = predictor
                self.n_samples_seen_ = stream.rows or 0
                if self.uncertainty:
                    self._measure_uncertainty(stream)

            kept = nullcontext() if self.checkpoint is None else checkpoint_passes(self.checkpoint)
            with self._execution(X), kept, np.errstate(**_OVERFLOW):
                self._fit_training(X, y, sample_weight, fit_rows)
            self._keep_training(X, y, sample_weight, groups)
        return self

    @property
    def feature_coef_(self) -> Array:
        """Coefficients of the features, (n_outputs, D), or (D,) for a single output."""
        coef = self._fitted_predictor().coef
        return coef.T if self._is_2d else coef[:, 0]

    @property
    def coef_(self) -> Array:
        """Coefficients of the columns of X, which a model has whose map is the identity."""
        coef = self.feature_coef_
        if not isinstance(self.feature_map_, Identity):
            raise AttributeError(
                f"{type(self).__name__} has no coef_: it is linear in the {coef.shape[-1]} "
                f"features of its map, not in the {self.n_features_in_} columns of X. Their "
                "coefficients are feature_coef_; for importances of columns use "
                "sklearn.inspection.permutation_importance."
            )
        return coef

    @property
    def importances_(self) -> Array:
        """Share of each column of X in the squared gradients of the model, by its metric."""
        check_is_fitted(self)
        metrics = fitted_metrics(self.feature_map_)
        name = type(self).__name__
        if len(metrics) == 1 and metrics[0].is_identity_:
            raise AttributeError(
                f"{name} has no importances_: its metric is the identity, since no learned one had "
                "a lower error on held-out rows. Use sklearn.inspection.permutation_importance."
            )
        found = column_importances(self.feature_map_) if len(metrics) == 1 else None
        if found is None:
            raise AttributeError(
                f"{name} has several metrics, or one of features that mix columns: see "
                "importances_ of the Metric in feature_map_.maps_."
                if metrics
                else f"{name} has no importances_: they are those of a learned metric. Fit it with "
                "metric='learned'."
            )
        return found

    @property
    def intercept_(self) -> float | Array:
        """Intercept of each output; a number for a single output."""
        intercept = self._fitted_predictor().intercept
        return intercept if self._is_2d else float(intercept[0])

    @property
    def alpha_(self) -> float:
        """Regularization parameter in use."""
        return self._fitted_predictor().alpha

    @property
    def alphas_(self) -> Array:
        """Alphas that were compared."""
        return self._alpha_search().alphas

    @property
    def alpha_scores_(self) -> Array:
        """Error of each of ``alphas_`` on rows that were left out; infinite if not tried.

        Mean squared error, summed over outputs; the mean loss for other losses; -log p(y)/n for
        alpha="evidence".
        """
        return self._alpha_search().scores

    @property
    def validation_score_(self) -> ValidationScore:
        """Score on rows that were left out to choose alpha, beside that of a constant prediction.

        R2, accuracy where labels of left-out rows were predicted, or the mean loss.
        """
        search = self._alpha_search()
        if search.method == "evidence":
            raise AttributeError(
                f"{type(self).__name__}: alpha was chosen by the marginal likelihood, which leaves "
                "no rows out: there is no score of left-out rows."
            )
        if search.baseline is None:
            raise AttributeError(
                f"{type(self).__name__}: the model has no score of left-out rows: it was fitted by "
                "an earlier version, or alpha was chosen from a list without a large one."
            )
        error, rows = float(search.scores.min()), self.n_samples_seen_
        explained = 1 - error / search.baseline if search.baseline > 0 else 0.0
        if search.accuracy is not None and search.majority is not None:
            scores = ("accuracy", search.accuracy, search.majority)
        elif getattr(self, "loss", "squared") == "squared":
            scores = ("R2", explained, 0.0)
        else:
            scores = ("loss", error, search.baseline)
        return ValidationScore(search.method, *scores, explained, rows)

    @property
    def kkt_(self) -> float:
        """Violation of the optimality conditions, relative to the smallest alpha without features.

        For an output with penalty "l1", for all of them with "group".
        """
        kkt = self._fitted_predictor().kkt
        if kkt is None:
            raise AttributeError(
                f"{type(self).__name__}: kkt_ is for penalty='l1' and 'group', and it is "
                f"{self.penalty!r}."
            )
        return kkt

    @property
    def zero_maps_(self) -> list[str]:
        """Names of the maps all of whose coefficients are 0."""
        coef = self._fitted_predictor().coef
        widths = widths_of(self.feature_map_)
        columns = spans(tuple(widths.values()))
        return [name for name, part in zip(widths, columns, strict=True) if not coef[part].any()]

    @overload
    def predict(self, X: Any, out: None = None) -> Array: ...

    @overload
    def predict(self, X: Any, out: Any) -> Any: ...

    def predict(self, X: Any, out: Any = None) -> Any:
        """Predict tile by tile: the features of all rows never exist at once.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, Arrow table, Dask array, path or stream
            Of tables the columns of ``fit`` are used, by name; frames of numbers need the same
            columns, unless ``fit`` had missing cells.
        out : array or path, optional
            Destination: an array with room for all predictions, or a ``.parquet``, ``.npy`` or
            ``.csv`` file with a column "prediction" (one for each output when there are several).

        Returns
        -------
        predictions : array, Dask array or tensor, or ``out``
            For a Dask array a Dask array, not computed yet.
        """
        if self._is_local(X):
            return self._predict(X, out)
        if is_lazy(X) and out is None:
            check_is_fitted(self)
            several = self._is_2d and self._numeric_targets
            return self._map_chunks("predict", X, self._prediction_dtype, several=several)
        with self._execution(X):
            return to_tensor_like(self._predict(X, out), X)

    def _predict(self, X: Any, out: Any) -> Any:
        if isinstance(out, str | os.PathLike):
            write_predictions(self, X, out)
            return out
        stream, scores = self._scores(X)
        parts = (self._decode_scores(part) for part in scores)
        if out is None:
            return np.concatenate(list(parts))
        several = self._is_2d and self._numeric_targets
        outputs = (self._fitted_predictor().coef.shape[1],) if several else ()
        _write_array(out, parts, (stream.rows, *outputs), self._prediction_dtype)
        return out

    def compiled(self, dtype: Any = "float64") -> Predictor:
        """Return a predictor for single rows of numbers, which leaves out streams and devices.

        Parameters
        ----------
        dtype : {"float64", "float32"}, default="float64"
            Of the arithmetic.

        Returns
        -------
        Predictor
            With ``predict``, ``decision_function`` and ``predict_proba``; later changes of the
            model do not change it.
        """
        fitted, schema = self._fitted_predictor(), self._fitted_schema
        if np.dtype(dtype) not in (np.float32, np.float64):
            raise ValueError(f"compiled: dtype must be 'float64' or 'float32', got {dtype!r}.")
        if schema is not None and not schema.plain:
            raise ValueError(
                f"{type(self).__name__} was fitted on a table ({schema.describe()}), and a "
                "compiled predictor takes arrays of numbers: use predict."
            )
        return Predictor(self.feature_map_, fitted, dtype, *self._decoders())

    def _decoders(self) -> tuple[Callable[[Array], Array], Callable[[Array], Array] | None]:
        """Return the functions from scores to predictions and to probabilities, if there are any.

        They hold what they need of the model, not the model.
        """
        raise NotImplementedError

    def _scores(
        self,
        X: Any,
        predictor: LinearPredictor | None = None,
        posterior: Posterior | None = None,
    ) -> tuple[Stream, Iterator[Array]]:
        """Return the stream of X, and b + z'c of consecutive rows.

        With a posterior, leverages are the last column. The predictor is that of the model unless
        another is given.
        """
        fitted = self._fitted_predictor()
        stream = self._open(X, None, None, reset=False)
        used = fitted if predictor is None else predictor

        def scores() -> Iterator[Array]:
            with self._warn_unseen(stream):
                yield from used.scores(stream, self.feature_map_, self.n_jobs, posterior)

        return stream, scores()

    @contextmanager
    def _warn_unseen(self, stream: Stream) -> Iterator[None]:
        """Warn of categories that fit did not see, when the body has read a stream of tables.

        A stream with an observer is left alone.
        """
        encoder, unseen = encoder_of(self.feature_map_), Counter[str]()
        if encoder is not None and stream._observer is None:
            stream.with_observer(lambda chunk: unseen.update(encoder.count_unseen(chunk.X)))
        yield
        if unseen:
            counts = ", ".join(f"{name!r} {count:,}" for name, count in unseen.items())
            warn(
                f"{type(self).__name__}: cells with a value that the model was not fitted on: "
                f"{counts}.",
                stacklevel=3,
            )

    # Uncertainty

    def _keep_training(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> None:
        """Keep a copy of few rows in memory, from which uncertainty is measured when it is used."""
        count = X.nnz * 12 if hasattr(X, "nnz") else self.n_samples_seen_ * self.n_features_in_ * 8
        size = count + getattr(y, "nbytes", 0)
        in_memory = not _is_source(X) and not is_tensor(X) and not is_tensor(y)
        if in_memory and not self.uncertainty and size <= _TRAINING_BYTES:
            self._training = (
                *copy.deepcopy((X, y, sample_weight, groups)),
                self.get_params(deep=False),
            )

    def _require_uncertainty(self) -> None:
        """Measure the uncertainty of the model from its rows, unless that is done; or raise."""
        self._fitted_predictor()
        if self._has_uncertainty:
            return
        training = getattr(self, "_training", None)
        name = type(self).__name__
        if training is None:
            raise ParameterError(
                "",
                f"This {name} was fitted without measures of its uncertainty: fit it again with "
                "mercer fit --uncertainty true, or uncertainty=True in Python. (They are measured "
                "afterwards only while the model has a copy of its training rows: not from a file, "
                "after partial_fit, of tensors or of more than 64 MB.)",
            )
        X, y, sample_weight, groups, parameters = training
        model = copy.copy(self)  # whose fitted attributes may be set again
        model.__dict__.update(parameters)  # those of the fit
        replace(model._settings(), uncertainty=True).validate()
        with self._execution(X), np.errstate(**_OVERFLOW):
            stream = model._weight_classes(model._open(X, y, sample_weight, reset=False))
            if groups is not None:
                stream.with_groups(_to_host(groups))
            model._measure_uncertainty(stream)
        for attribute in reversed(_UNCERTAINTY):  # the first one says that all are there
            if attribute in vars(model):
                setattr(self, attribute, getattr(model, attribute))

    @property
    def _has_uncertainty(self) -> bool:
        return getattr(self, "_posterior", None) is not None

    def _measured_posterior(self) -> Posterior:
        self._require_uncertainty()
        assert self._posterior is not None
        return self._posterior

    def _measure_uncertainty(self, stream: Stream) -> None:
        """Compute and keep what measures of uncertainty need, from the training rows."""
        raise NotImplementedError

    # Fitting

    def _settings(self, **conditions: Any) -> Settings:
        return Settings(
            type(self).__name__,
            self.alpha,
            getattr(self, "loss", "squared"),
            self.penalty,
            self.pca,
            self.checkpoint,
            self.uncertainty,
            labels=not self._numeric_targets,
            **conditions,
        )

    def _fit_training(
        self, X: Any, y: Any, sample_weight: Any, fit_rows: Callable[[Stream], _T]
    ) -> _T:
        """Return fit_rows of the training stream.

        It is called again with another stream where a cell of a table turns out to be missing,
        and the columns must be encoded, or where a column turns out to be of another type.
        """
        stream = self._open(X, y, sample_weight, reset=True)
        if _is_of_numbers(X, stream):
            given = make_map(type(self).__name__, self.feature_map, None, None)
            # a checkpoint is of one stream
            if given.accepts_missing or (self.checkpoint is not None and _has_missing(stream)):
                stream = self._encode_stream(X, y, sample_weight, stream)
        while True:
            self._targets_2d = isinstance(stream.target, list) or (
                stream._y is not None and stream._y.ndim == 2
            )
            try:
                return fit_rows(self._weight_classes(stream))
            except ColumnTypeError as error:
                if not isinstance(stream, TableStream) or error.column in stream.declared:
                    raise
                stream = stream.retyped(error.column)
                self._set_columns(stream)
                warn_retyped(stream, error)
            except MissingValueError:
                if not _is_of_numbers(X, stream):
                    raise
                stream = self._encode_stream(X, y, sample_weight, stream)

    def _encode_stream(self, X: Any, y: Any, sample_weight: Any, stream: Stream) -> Stream:
        """Return a stream of numbers with a schema, so that missing cells are encoded."""
        if not isinstance(stream, TableStream | FrameStream):
            stream = self._open_table(X, y, sample_weight, None)
        if isinstance(stream, TableStream | FrameStream) and stream.schema is None:
            stream = stream.with_schema()
        self._set_columns(stream)
        return stream

    def _fit_map(self, stream: Stream) -> None:
        name = type(self).__name__
        if self.max_memory is not None:
            limit = parse_memory(name, "max_memory", self.max_memory)
            require_memory_for_rows(name, stream, limit)
        self.seed_ = self._choose_seed(name)
        feature_map = make_map(
            name,
            self.feature_map,
            self.seed_,
            self.n_jobs,
            scale=self.scale,
            encode=stream.schema is not None,
            metric=self.metric,
        )
        if not has_unlearned_metric(feature_map):
            self.feature_map_ = feature_map._fit_stream(stream)
            return
        feature_map, scores = learn_metrics(self, feature_map, stream)
        self.feature_map_ = feature_map._fit_stream(stream)
        for metric, found in zip(fitted_metrics(self.feature_map_), scores, strict=True):
            metric.validation_scores_ = found

    def _choose_seed(self, name: str) -> int:
        """Return the seed of random_state, or that of the checkpoint where random_state is None."""
        if (
            self.checkpoint is None
            or self.random_state is not None
            or not os.path.isfile(self.checkpoint)
        ):
            return seed_from(name, self.random_state)
        return seed_from(name, (Checkpoint.read_spec(self.checkpoint) or {}).get("seed"))

    def _plan(self, stream: Stream, settings: Settings) -> Settings:
        """Choose the route and validate the settings for it; return them with their conditions."""
        name = type(self).__name__
        limit = (
            system.physical_memory() // 2
            if self.max_memory is None
            else parse_memory(name, "max_memory", self.max_memory)
        )
        settings.validate_widths(self._map_widths)
        settings = self._with_conditions(stream, settings)
        counts = stream.rows is None and settings.depends_on_rows(sum(self._map_widths))
        if counts:
            accumulate(Labels(stream), RowCount())
        bounded = self.max_memory is not None and not (settings.cluster or settings.device)
        plan = (plan_within if bounded else plan_model)(self, settings, stream, limit)
        if counts:
            plan = replace(plan, passes=("row count", *plan.passes))
        metrics = fitted_metrics(self.feature_map_)
        if any(metric.validation_scores_ is not None for metric in metrics):
            plan = replace(plan, passes=("sample for the metric", *plan.passes))
        if settings.uncertainty:
            last = "uncertainty (3)" if self._numeric_targets else "scores of left-out rows"
            plan = replace(plan, passes=(*plan.passes, last))
        given = make_map(name, self.feature_map, None, None)
        encoded = _describe_encoding(self.feature_map_)
        scaled = not encoded and count_scaled(given, self.scale) > 0
        self.plan_ = replace(plan, scaled=scaled, encoded=encoded)
        ROUTES[self.plan_.route].validate(settings, self.plan_)
        if self.verbose:
            print(f"{name}: {self.plan_}", flush=True)
        # the same file from every fit
        self.plan_ = replace(self.plan_, solver_seconds=0.0, route_reason="")
        return replace(settings, alpha_method=self.plan_.alpha_method)

    def _with_conditions(self, stream: Stream, settings: Settings) -> Settings:
        # without distributed there is no client
        cluster = "distributed" in sys.modules and uses_cluster(stream)
        settings = replace(settings, cluster=cluster, device=current_device() is not None)
        grouped, timed = stream.group is not None, stream.time is not None
        allowed = ("auto", "kfold") if grouped else ("auto",)
        if (grouped or timed) and isinstance(self.alpha, str) and self.alpha not in allowed:
            raise ParameterError(
                type(self).__name__,
                Setting("alpha", repr(self.alpha)),
                f" leaves out rows that others of their {'group' if grouped else 'time'} predict. "
                f"Use {' or '.join(map(repr, allowed))} with {'groups' if grouped else 'times'}.",
            )
        return replace(settings, grouped=grouped, timed=timed)

    @property
    def _map_widths(self) -> tuple[int, ...]:
        return tuple(widths_of(self.feature_map_).values())

    def _empty_statistics(self, settings: Settings) -> Statistic:
        """Return statistics to fill, for each fold where rows are left out."""
        folds = settings.count_folds(sum(self._map_widths))
        parts: list[Any] = [self._target_statistics() for _ in range(folds)]
        if folds == 1:
            return cast(Statistic, parts[0])
        return HeldOutFold(*parts) if folds == 2 else Folds(*parts)

    def _reduce(self, rows: Rows, statistics: Any, suffix: str = "") -> Any:
        """Return the statistics of all rows; partial sums are in the checkpoint, if there is one.

        The suffix distinguishes the files of several reductions.
        """
        path = self.checkpoint
        if path is not None and suffix:
            path = f"{os.fspath(path)}.{suffix}"
        spec = {"seed": self.seed_, "class": type(self).__name__, "route": self.plan_.route}
        return accumulate(
            rows,
            statistics,
            checkpoint=path,
            spec=spec,
            n_jobs=self.n_jobs,
            progress=self._progress(),
        )

    def _read_blocks(
        self, rows: Rows, *, on_device: bool = False
    ) -> Iterator[tuple[Block, Array, Array | None]]:
        """Yield blocks of features, with encoded targets and weights on the host: one pass.

        Features are on the host; with on_device, dense ones stay on the device that computes them.
        """
        for batch in rows.batches():
            block: Block = batch.block
            if on_device and isinstance(block, Dense) and ops.is_device(block.Z):
                block = DeviceBlock(block.Z)
            else:
                block = block_to_host(block)
            yield block, self._encode_targets(batch.y), batch.weight

    def _progress(self) -> Callable[[int, int | None], None] | None:
        name = type(self).__name__
        if self.verbose < 2:
            return None
        return lambda done, of: print(
            f"{name}: {done:,} rows" + (f" of {of:,}" if of else ""), flush=True
        )

    def _update(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Add the statistics of more rows; the map is fitted to the rows of the first call only."""
        self._require_statistics()
        validate_estimator(self)
        settings = self._settings(partial=True)
        settings.validate()
        first = not hasattr(self, "_statistics")

        def sum_rows(stream: Stream, settings: Settings) -> tuple[Any, int]:
            rows = features(stream, self.feature_map_)
            with self._warn_unseen(stream):
                part = accumulate(rows, self._empty_statistics(settings), n_jobs=self.n_jobs)
            return part, stream.rows or 0

        def fit_rows(stream: Stream) -> tuple[Any, int]:
            self._fit_map(stream)
            return sum_rows(stream, self._plan(stream, settings))

        with self._execution(X), np.errstate(**_OVERFLOW):
            if first:
                part, count = self._fit_training(X, y, sample_weight, fit_rows)
            else:
                stream = self._open(X, y, sample_weight, reset=False)
                self._require_target(stream)
                stream = self._weight_classes(stream)
                settings.validate_widths(self._map_widths)
                settings = self._with_alpha_method(self._with_conditions(stream, settings))
                self._require_same_folds(settings)
                ROUTES[self.plan_.route].validate(settings, self.plan_)
                part, count = sum_rows(stream, settings)
        self._validate_labels(part)
        self._statistics: Any = part if first else self._statistics + part
        self.n_samples_seen_ = count + (0 if first else self.n_samples_seen_)
        self._predictor = None  # solved when it is used
        for name in ("_training", "_lazy", *_UNCERTAINTY):
            self.__dict__.pop(name, None)

    def _fitted_predictor(self) -> LinearPredictor:
        if not self.__sklearn_is_fitted__():  # check_is_fitted builds tags, slower than a row
            check_is_fitted(self)
        if self._predictor is None:
            route = ROUTES["moments"]
            assert isinstance(route, NormalEquationsRoute)
            with np.errstate(**_OVERFLOW):
                settings = self._with_alpha_method(self._settings(partial=True))
                predictor = route.solve(self, settings)
            self._require_finite(predictor)
            self._predictor = predictor
        return self._predictor

    def _alpha_search(self) -> AlphaSearch:
        search = self._fitted_predictor().search
        if search is None:
            raise AttributeError(
                f"{type(self).__name__}: a single alpha was given, none was chosen."
            )
        return search

    def _require_finite(self, predictor: LinearPredictor) -> None:
        """Raise, and leave no model, where coefficients are not finite.

        The results are tested, not the flags of the floating point unit: some linear algebra
        libraries set these in ordinary products.
        """
        if predictor.is_finite:
            return
        self.__dict__.pop("_predictor", None)
        raise ValueError(
            f"{type(self).__name__}: the numbers of X, y or the weights are too large or too "
            "small for sums of squares: the coefficients are not finite. Scale them "
            "(sklearn.preprocessing)."
        )

    def _warn_open_search(self, search: AlphaSearch) -> None:
        """Issue a warning where alphas below those of the default grid are likely to be better."""
        if search.is_open:
            warn(
                f"{type(self).__name__}: the chosen alpha, {search.alpha:.3g}, is the smallest of "
                "the grid, and the error of left-out rows still falls there. Scale the columns "
                "(scale=True), or give a list of smaller numbers for alpha.",
                stacklevel=5,
            )

    def _with_alpha_method(self, settings: Settings) -> Settings:
        """Return the settings with a method for the statistics of the rows before."""
        methods = settings.alpha_methods(None, sum(self._map_widths))
        folds = isinstance(self._statistics, Folds)
        return replace(settings, alpha_method=methods[0] if folds else methods[-1])

    def _require_same_folds(self, settings: Settings) -> None:
        folds = isinstance(self._statistics, Folds)
        if type(self._statistics) is not type(self._empty_statistics(settings)):
            raise ValueError(
                f"{type(self).__name__}: alpha={self.alpha!r} with penalty={self.penalty!r} has "
                f"{'no ' * folds}folds, unlike the statistics of the rows before. Set both back, "
                "or call fit with all rows."
            )

    def _require_statistics(self) -> None:
        """Raise where partial_fit would forget the rows of a model that has no statistics."""
        if hasattr(self, "_predictor") and not hasattr(self, "_statistics"):
            raise ValueError(
                f"{type(self).__name__}: partial_fit adds to normal equations, which a model that "
                "was loaded, or fitted by passes over the rows or from their Gram matrix, does not "
                "have. Call fit with all rows, or partial_fit on a new model."
            )

    def _reset(self) -> None:
        """Remove the fitted attributes, so that a fit that fails leaves no model."""
        fitted = {*_STATISTICS, "n_features_in_", "feature_names_in_"}
        for cls in type(self).__mro__:
            fitted |= set(inspect.get_annotations(cls))
        self.__dict__ = {name: value for name, value in vars(self).items() if name not in fitted}

    @contextmanager
    def _undo_failure(self) -> Iterator[None]:
        """Restore the attributes where the body raises, by Ctrl-C too: no model is half fitted.

        One assignment replaces all of them, so that a second signal leaves them whole.
        """
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            self.__dict__ = before
            raise

    # Rows and targets

    def _is_local(self, X: Any) -> bool:
        """Return whether X is a NumPy array and the model names no device."""
        return type(X) is np.ndarray and self.device is None and self.precision is None

    def _execution(self, X: Any) -> AbstractContextManager[Any]:
        """Return the context of the model's cluster and device, or of the device that X is on."""
        if self.cluster is None and self._is_local(X):
            return nullcontext()
        with ExitStack() as stack:
            device = self.device
            if is_tensor(X):
                device = None
                stack.enter_context(device_context(device_of(from_tensor(X))))
            stack.enter_context(use_device(device, precision=self.precision))
            if self.cluster is not None:
                stack.enter_context(use_cluster(self.cluster))
            return stack.pop_all()

    def _open(self, X: Any, y: Any, sample_weight: Any, *, reset: bool) -> Stream:
        """Return X, y and weights as a stream of the columns that the model has."""
        name = type(self).__name__
        if not _is_source(X):
            return self._open_in_memory(X, y, sample_weight, reset=reset)
        opened = open_stream(X) if reset or isinstance(X, Stream) else self._open_fitted(X)
        # a copy: the caller's has its own y
        stream = copy.copy(opened).with_targets(y, sample_weight)
        # the columns of a matrix have numbers, no names
        names = None if isinstance(stream, MatrixStream) else stream.columns
        if reset:
            self._set_columns(stream)
            self._require_target(stream)
        else:
            self._require_kinds(stream)
        if stream.width != self.n_features_in_:
            raise ParameterError(
                "",
                f"{stream.name} has {stream.width} columns, but {name} is expecting "
                f"{self.n_features_in_}. Choose them with ",
                _COLUMNS,
                ".",
            )
        fitted_names = getattr(self, "feature_names_in_", None)
        if fitted_names is not None and names is not None and list(names) != list(fitted_names):
            pairs = zip(names, fitted_names, strict=True)
            column, fitted = next((a, b) for a, b in pairs if a != b)
            raise ParameterError(
                "",
                f"{stream.name} has the column {column!r} where {name} was fitted on {fitted!r}. "
                "Put them in order with ",
                _COLUMNS,
                ".",
            )
        return stream

    def _open_fitted(self, source: Any) -> Stream:
        """Open a path with the columns that the model was fitted on, by name, in a table."""
        schema = self._fitted_schema
        if schema is not None:
            return open_stream(source, schema=schema)
        opened = open_stream(source)
        names = list(map(str, getattr(self, "feature_names_in_", ())))
        if not names or not isinstance(opened, TableStream):
            return opened
        if list(opened.columns or ()) == names and opened.schema is None:
            return opened
        available = opened.available
        inputs = [name if name in available else name.rpartition("[")[0] for name in names]
        if not set(inputs) <= set(available):  # of lists: "z[0]", "z[1]"
            missing = [name for name in names if name not in available]
            raise ValueError(
                f"{opened.name}: {type(self).__name__} needs {describe_missing(missing, available)}"
            )
        opened = open_stream(source, columns=list(dict.fromkeys(inputs)))
        # texts are numbers, or refused by row and value
        numbers = opened.schema is None or inputs != names
        return opened if numbers else open_stream(source, schema=number_schema(names))

    def _set_columns(self, stream: Stream) -> None:
        """Set the number and the names of the columns to those of a stream."""
        self.n_features_in_ = stream.width
        # the columns of a matrix have numbers, no names
        names = None if isinstance(stream, MatrixStream) else stream.columns
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    @property
    def _fitted_schema(self) -> TableSchema | None:
        """Schema of the table that the model was fitted on; None where it was an array."""
        encoding = encoder_of(self.feature_map_)
        if encoding is None:
            return None
        named = hasattr(self, "feature_names_in_")
        return encoding.schema_ if named or not encoding.schema_.plain else None

    def _require_kinds(self, stream: Stream) -> None:
        """Raise where a stream has other kinds of columns than the model was fitted on."""
        fitted = self._fitted_schema
        if stream.schema == fitted or all(s is None or s.plain for s in (stream.schema, fitted)):
            return
        needed = "numbers" if fitted is None else fitted.describe()
        opened = "numbers" if stream.schema is None else stream.schema.describe()
        raise ValueError(
            f"{stream.name} was opened with columns of other kinds ({opened}) than "
            f"{type(self).__name__} was fitted on ({needed}). Give the path or the table itself, "
            "or open it with open_stream(source, schema=model.schema_)."
            if fitted is not None
            else f"{stream.name} has columns that are no numbers ({opened}), and "
            f"{type(self).__name__} was fitted on numbers. Choose them by columns=[...]."
        )

    @property
    def schema_(self) -> TableSchema:
        """Kinds of the columns of the table that the model was fitted on."""
        check_is_fitted(self)
        if self._fitted_schema is None:
            raise AttributeError(f"{type(self).__name__} was not fitted on a table: no schema_.")
        return self._fitted_schema

    def _open_table(self, X: Any, y: Any, sample_weight: Any, schema: TableSchema | None) -> Stream:
        """Return a stream of a data frame or an Arrow table, with targets and weights."""
        stream = open_stream(X, schema=schema)
        y, sample_weight = _to_host(y), _to_host(sample_weight)
        name, targets, weights = type(self).__name__, None, None
        rows = np.empty((stream.rows or 0, 1))
        for values, argument in ((y, "y"), (sample_weight, "sample_weight")):
            reject_times(name, values, argument)
        if y is not None:
            _require_targets(name, y)
            targets = _check_y(
                y, multi_output=True, y_numeric=self._numeric_targets, estimator=self
            )
            check_consistent_length(rows, targets)
            targets = self._validate_targets(targets)
        if sample_weight is not None:
            weights = _check_sample_weight(
                sample_weight, rows, dtype=np.float64, ensure_non_negative=True
            )
        return stream.with_targets(targets, weights)

    def _open_in_memory(self, X: Any, y: Any, sample_weight: Any, *, reset: bool) -> Stream:
        if reset and is_table(X):
            stream = self._open_mixed(X, y, sample_weight)
            if stream is not None:
                return stream
        elif not reset:
            schema = self._fitted_schema
            if schema is not None and is_table(X):
                return self._open_table(X, y, sample_weight, schema)
            if schema is not None and not schema.plain:
                raise ValueError(
                    f"{type(self).__name__} was fitted on a table ({schema.describe()}): give a "
                    f"data frame, an Arrow table or a file with its columns, got "
                    f"{type(X).__name__}."
                )
            if schema is None and is_table(X) and self._has_text(X):
                numbers = number_schema(self.feature_names_in_)
                return self._open_table(X, y, sample_weight, numbers)
        if y is None and sample_weight is None and not reset and self._is_plain(X):
            stream = open_stream(X)
        else:
            rows, targets, weights = self._validate_arrays(X, y, sample_weight, reset=reset)
            stream = open_stream(rows).with_targets(targets, weights)
        if hasattr(self, "feature_names_in_"):
            stream.columns = tuple(map(str, self.feature_names_in_))
        return stream

    def _open_mixed(self, X: Any, y: Any, sample_weight: Any) -> Stream | None:
        """Return a stream of a table in memory; None where all of its columns are numbers."""
        try:
            if isinstance(stream := open_stream(X), FrameStream) or stream.schema is None:
                return None
        except NeedsPyarrow as error:
            try:
                self._validate_arrays(X, y, sample_weight, reset=True)
            except (ValueError, TypeError):
                raise error from None
            return None
        stream = self._open_table(X, y, sample_weight, None)
        self._set_columns(stream)
        self._require_target(stream)
        return stream

    def _has_text(self, X: Any) -> bool:
        """Return whether a table has the columns of fit, and some of them are no numbers."""
        names = [*map(str, getattr(self, "feature_names_in_", ()))]
        stream = open_stream(X) if names else None
        if stream is None or stream.schema is None:
            return False
        return sorted(column.name for column in stream.schema.columns) == sorted(names)

    def _is_plain(self, X: Any) -> bool:
        return type(X) is np.ndarray and self.feature_map_._is_plain(X)

    def _validate_arrays(
        self, X: Any, y: Any, sample_weight: Any, *, reset: bool
    ) -> tuple[Any, Any, Any]:
        """Return rows, targets and weights by scikit-learn's rules, on the host but for tensors."""
        name = type(self).__name__
        options: Any = {
            "accept_sparse": "csr",
            "dtype": [np.float64, np.float32],
            "ensure_all_finite": False,
        }
        targets = weights = None
        X = drop_index_columns(X, () if reset else getattr(self, "feature_names_in_", ()))
        y, sample_weight = _to_host(y), _to_host(sample_weight)
        for values, argument in ((X, "X"), (y, "y"), (sample_weight, "sample_weight")):
            reject_times(name, values, argument)
        X = canonical_csr(name, X) if hasattr(X, "tocsr") else X
        if type(X) is not np.ndarray and is_tensor(X):
            rows = convert_tensor(self, X, reset=reset)
            if y is not None or reset:
                _require_targets(name, y)
                targets = self._validate_targets(np.asarray(y))
                check_consistent_length(rows, targets)
        elif y is None and not reset:
            rows = X if self._is_plain(X) else validate_data(self, X, reset=False, **options)
        else:
            _require_targets(name, y)
            rows, targets = validate_data(
                self,
                X,
                y,
                reset=reset,
                multi_output=True,
                y_numeric=self._numeric_targets,
                **options,
            )
            targets = self._validate_targets(targets)
        if sample_weight is not None:
            weights = _check_sample_weight(
                sample_weight, rows, dtype=np.float64, ensure_non_negative=True
            )
        return rows, targets, weights

    def _require_target(self, stream: Stream) -> None:
        if stream.target is None:
            name = type(self).__name__
            raise ParameterError(
                "", f"{name} requires y: open the rows with a target, ", TARGET, "."
            )

    # Copies, files and scikit-learn

    def _map_chunks(self, method: str, X: Any, dtype: np.dtype[Any], *, several: bool) -> Any:
        """Return the results of a method for the chunks of a Dask array, as a Dask array."""
        outputs = self._fitted_predictor().coef.shape[1] if several else None
        return map_chunks(self, method, X, outputs, dtype)

    def _pack(self) -> Self:
        """Return a copy for another process, which can predict and not be updated."""
        self._fitted_predictor()
        other = copy.copy(self)
        other.cluster = None
        other.feature_map_ = self.feature_map_._pack()
        for name in _STATISTICS:
            other.__dict__.pop(name, None)
        return other

    def _unpack(self) -> Self:
        other = copy.copy(self)
        other.feature_map_ = self.feature_map_._unpack()
        return other

    def _fitted_state(self) -> dict[str, Any]:
        """Return the fitted attributes that a model file has; no statistics."""
        self._fitted_predictor()
        excluded = {*self.get_params(deep=False), *_STATISTICS}
        if not self.uncertainty:
            excluded.update(_UNCERTAINTY)
        return {name: value for name, value in vars(self).items() if name not in excluded}

    def _set_fitted_state(self, attributes: dict[str, Any]) -> None:
        """Set the fitted attributes of a file, and raise where they are inconsistent."""
        self.__dict__.update(attributes)
        name = type(self).__name__
        validate_estimator(self)
        seed_from(name, self.seed_)
        if self._predictor is None:
            raise ValueError(f"{name} has no coefficients.")
        encode = self._fitted_schema is not None
        feature_map = make_map(name, self.feature_map, None, None, encode=encode)
        validate_parameters(feature_map)
        feature_map.check(self.n_features_in_)
        fitted = self.feature_map_
        if fitted.n_features_in_ != self.n_features_in_:
            raise ValueError(
                f"{name} has {self.n_features_in_} columns, and its map {fitted.n_features_in_}."
            )
        self._predictor.validate(fitted._n_features_out)
        for name in _UNCERTAINTY:
            if getattr(self, name, None) is not None:
                getattr(self, name).validate(*self._predictor.coef.shape)
        settings = self._settings()
        settings.validate()
        settings.validate_widths(self._map_widths)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_predictor")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        with suppress(ValueError):  # fit refuses invalid parameters
            tags.input_tags.positive_only = domain_of(self.feature_map) == "nonnegative"
        return tags

    # Targets, by subclass

    def _validate_targets(self, y: Array) -> Array:
        """Return targets in memory, validated."""
        raise NotImplementedError

    def _encode_targets(self, y: Any) -> Array:
        """Return targets as numbers, (n,) or (n, t)."""
        raise NotImplementedError

    def _decode_scores(self, scores: Array) -> Array:
        """Return predictions from scores, (n, t)."""
        raise NotImplementedError

    def _target_statistics(self) -> Any:
        """Return empty statistics of features and targets."""
        raise NotImplementedError

    def _normal_equations(self, statistics: Any) -> list[NormalEquations | None]:
        """Return the normal equations of each fold; None for those without rows."""
        raise NotImplementedError

    @property
    def _prediction_dtype(self) -> np.dtype[Any]:
        raise NotImplementedError

    @property
    def _is_2d(self) -> bool:
        """Whether feature_coef_ is 2-d."""
        raise NotImplementedError

    @property
    def _n_outputs(self) -> int:
        """Outputs of a loss that needs Newton's method."""
        return 1

    def _output_names(self, name: str) -> list[str]:
        """Return the names of the columns of predictions in a file."""
        return [name]

    def _extra_names(self, extra: str | None, coverage: float | None) -> list[str]:
        """Return the names of further columns of predictions in a file, or raise."""
        raise NotImplementedError

    def _prediction_columns(
        self, X: Any, extra: str | None, coverage: float | None
    ) -> Iterator[list[Array]]:
        """Yield predictions and further columns of consecutive rows."""
        raise NotImplementedError

    def _weight_classes(self, stream: Stream) -> Stream:
        """Return the stream with class weights, if there are any."""
        return stream

    def _count_rows(self, stream: Stream) -> float | None:
        """Return the number of rows where weights do not count them; None where they do."""
        return None

    def _find_classes(self, stream: Stream) -> None:
        """Set the classes where no statistics will have them: a pass over the labels."""

    def _validate_labels(self, part: Any) -> None:
        """Raise for labels that partial_fit was not given."""


def make_map(
    name: str,
    feature_map: Any,
    random_state: Any,
    n_jobs: int | None,
    *,
    scale: bool | str = False,
    encode: bool = False,
    metric: str | None = None,
) -> Map:
    """Return an unfitted copy of a map, or of several side by side.

    Parameters
    ----------
    name : str
        Estimator for messages.
    feature_map : map, composition, registered name, or list of these
    random_state, n_jobs
        Set where the map's own are None; several parts get different seeds.
    scale : bool or "auto"
        As in ``scale_columns``.
    encode : bool
        Whether the rows are those of a table, for which ``Tabular`` is put in front of the map.
    metric : "learned" or None
        Whether ``Metric`` is put in front of each map side by side that has none.
    """
    if isinstance(feature_map, list | tuple) and feature_map:
        built: Map = Stacked.flat(*(make_map(name, part, None, None) for part in feature_map))
    elif isinstance(feature_map, str):
        maps = registry()
        hint = "" if feature_map in maps else suggest_maps(feature_map)
        built = maps[validate_option(name, "feature_map", feature_map, sorted(maps), hint)]()
    elif isinstance(feature_map, Map):
        built = clone_sharing_generators(feature_map)
    else:
        raise ParameterError(
            name,
            Setting("feature_map"),
            " must be a mercer map, a composition of maps, a registered name such as 'fourier', "
            f"or a list of these, got {feature_map!r}.",
        )
    built = built if metric is None else _add_metric(built)
    built = _encode_columns(built, scale) if encode else scale_columns(built, scale)
    params = built.get_params()

    def unset(parameter: str) -> list[str]:
        return [
            path
            for path, value in params.items()
            if path.split("__")[-1] == parameter and value is None
        ]

    free = unset("random_state")
    if free and random_state is not None:
        seeds = [seed_from(name, random_state)]
        if len(free) > 1:
            words = Rng(seeds[0]).words("parts", 0, len(free))
            seeds = [int(word) for word in words >> np.uint64(1)]
        built.set_params(**dict(zip(free, seeds, strict=True)))
    return built.set_params(**dict.fromkeys(unset("n_jobs"), n_jobs))


def _add_metric(feature_map: Map) -> Map:
    """Return a map with ``Metric`` in front of each map side by side that has none."""
    if isinstance(feature_map, Stacked):
        return Stacked([_add_metric(part) for part in feature_map.maps])
    parts = feature_map.maps if isinstance(feature_map, Composed) else [feature_map]
    if any(isinstance(part, Metric) for part in parts):
        return feature_map
    scaled = is_scaled(feature_map)
    return Composed([*parts[:scaled], Metric(), *parts[scaled:]])


def _encode_columns(feature_map: Map, scale: bool | str) -> Map:
    """Return a map with ``Tabular`` in front of each map side by side that does not begin so."""
    if isinstance(feature_map, Stacked):
        return Stacked([_encode_columns(part, scale) for part in feature_map.maps])
    scaling = "robust" if scale is True else scale
    return feature_map if feature_map.accepts_missing else Tabular(scale=scaling) >> feature_map


def fit_encoder(rows: Array, stream: Stream, *, scale: bool | str) -> Tabular | None:
    """Return the encoder of the columns of a table, fitted to some of its rows.

    None where all columns of a stream are numbers in every row.
    """
    is_of_table = isinstance(stream, TableStream | FrameStream)
    if stream.schema is None and not (is_of_table and np.isnan(rows).any()):
        return None
    sampled = open_stream(rows)
    sampled.schema, sampled.columns = stream.schema, stream.columns
    encoder = Tabular(scale=scale)._fit_stream(sampled)
    encoder._name_categories(stream)
    return encoder


def encoder_of(fitted: Map) -> Tabular | None:
    """Return the ``Tabular`` that a fitted map begins with, the first of maps side by side."""
    while isinstance(fitted, Composed | Stacked):
        fitted = fitted.maps_[0]
    return fitted if isinstance(fitted, Tabular) else None


def _describe_encoding(fitted: Map) -> str:
    """Return the columns of a table by kind, and how many were dropped; "" without a table."""
    encoding = encoder_of(fitted)
    if encoding is None:
        return ""
    dropped = sum(not decision.features for decision in encoding.decisions_)
    return encoding.schema_.describe() + (f"; {dropped:,} dropped" if dropped else "")


def domain_of(feature_map: Any) -> str:
    """Return the domain of the map that make_map would build, without building it.

    "real" for an invalid map.
    """
    if isinstance(feature_map, Map):
        return feature_map.domain
    if isinstance(feature_map, list | tuple):
        return "nonnegative" if "nonnegative" in map(domain_of, feature_map) else "real"
    return _default_domain(feature_map) if isinstance(feature_map, str) else "real"


@cache
def _default_domain(name: str) -> str:
    cls = registry().get(name)
    domain = getattr(cls, "domain", "real")  # a property where it depends on parameters
    return domain if isinstance(domain, str) or cls is None else cls().domain


def widths_of(fitted: Map) -> dict[str, int]:
    """Return the number of features of each map side by side, by the name of the map."""
    if not isinstance(fitted, Stacked):
        return {type(fitted).__name__.lower(): fitted._n_features_out}
    names = names_of(
        [
            part.maps[-1] if isinstance(part, Composed) and is_scaled(part) else part
            for part in fitted.maps
        ]
    )
    return {name: part._n_features_out for name, part in zip(names, fitted.maps_, strict=True)}


def write_predictions(
    model: Any,
    X: Any,
    path: str | os.PathLike[str],
    extra: str | None = None,
    keep: KeptColumns | None = None,
    coverage: float | None = None,
) -> int:
    """Write the predictions for X to a file, completely or not at all, and return their number.

    Parameters
    ----------
    model : fitted KernelRegressor or KernelClassifier
    X : array-like, sparse matrix, data frame, path or stream
    path : path
        ``.parquet``, ``.csv``, ``.tsv`` or ``.npy``: a column "prediction", one for each output
        when there are several.
    extra : None, "score", "probability", "set", "std", "interval" or "leverage"
        Further columns. For a classifier: score_<class> (for two classes that of the second alone,
        which is above 0 for it), probability_<class>, where the model has ``predict_proba``, or
        set_<class>, whether a class is in the prediction set. For a regressor: std, or lower and
        upper, the ends of an interval, after each prediction.
    keep : KeptColumns, optional
        Columns of the source that are written before the predictions.
    coverage : float, optional
        Of intervals and prediction sets.
    """
    names = model._output_names("prediction")
    kept: dict[str, Any] = {} if keep is None else keep.types
    if set(kept) & set(names):
        raise ValueError(f"The columns {', '.join(names)} are predictions, and cannot be kept.")
    types: dict[str, Any] = dict.fromkeys(names, model._prediction_dtype)
    kind = np.dtype(bool if extra == "set" else np.float64)
    types |= dict.fromkeys(model._extra_names(extra, coverage), kind)
    with open_writer(path, {**kept, **types}) as writer:
        for columns in model._prediction_columns(X, extra, coverage):
            beside = {} if keep is None else keep.rows(len(columns[0]))
            writer.write({**beside, **dict(zip(types, columns, strict=True))})
    return writer.rows


def targets_of(X: Any, y: Any, sample_weight: Any) -> tuple[Any, Array, Any]:
    """Return rows, true targets and weights for score; X is opened once where y is None."""
    y, sample_weight = _to_host(y), _to_host(sample_weight)
    if y is not None:
        return X, np.asarray(y), sample_weight
    stream = open_stream(X)
    if stream.target is None:
        raise ValueError(f"score needs y: {stream.name} was opened without a target.")
    chunks = [(chunk.y, chunk.weight) for chunk in stream.chunks()]
    truth = np.concatenate([np.asarray(targets) for targets, _ in chunks])
    if sample_weight is None and stream.weight is not None:
        sample_weight = np.concatenate([np.asarray(weights) for _, weights in chunks])
    return stream, truth, sample_weight


def _is_source(X: Any) -> bool:
    """Return whether X is a stream, a path, a list of paths or a Dask array, not rows in memory."""
    if type(X) is np.ndarray:
        return False
    if isinstance(X, list) and X:
        return all(isinstance(path, str | os.PathLike) for path in X)
    return isinstance(X, Stream | str | os.PathLike) or is_lazy(X)


def _is_of_numbers(X: Any, stream: Stream) -> bool:
    """Return whether the rows are a table that was opened as numbers."""
    return stream.schema is None and (isinstance(stream, TableStream) or is_table(X))


def _has_missing(stream: Stream) -> bool:
    """Return whether a cell is missing, from a pass over the rows."""
    try:
        accumulate(Rows(stream), RowCount())
    except MissingValueError:
        return True
    except RowError:  # of a cell that the fit will refuse in its own words
        return False
    return False


def _to_host(values: Any) -> Any:
    """Return a tensor, or nullable integers or booleans of pandas, as a NumPy array of its type.

    Anything else, and a series with missing values, is returned as it is.
    """
    if values is None or type(values) is np.ndarray:
        return values
    plain = getattr(getattr(values, "dtype", None), "numpy_dtype", None)
    if plain is not None and plain.kind in "biu" and not values.isna().any():
        return np.asarray(values.to_numpy(dtype=plain))
    return to_host(values)


def _require_targets(name: str, y: Any) -> None:
    """Raise for the first target in memory that is None, NaN or infinite."""
    values = np.asarray(y, dtype=None if hasattr(y, "dtype") else object)
    bad = first_missing(values) if values.ndim in (1, 2) else None
    if bad is None:
        return
    row, _, value = bad
    infinite = isinstance(value, float | np.floating) and np.isinf(value)
    content = "infinity or a value too large for dtype('float64')" if infinite else "NaN"
    raise RowError(
        row,
        f"Input y contains {content}: {name} needs a target in every row, got {value} at",
        ". Drop such rows first.",
    )


def _write_array(
    out: Any, parts: Iterator[Array], shape: tuple[int | None, ...], dtype: np.dtype[Any]
) -> None:
    """Write consecutive parts into an array of exactly their shape; None is an unknown length."""
    fitting = (
        isinstance(out, np.ndarray)
        and out.flags.writeable
        and out.shape[1:] == shape[1:]
        and out.ndim == len(shape)
    )
    floats = fitting and dtype.kind == "f" and out.dtype.kind == "f"
    if (
        not fitting
        or not (floats or np.can_cast(dtype, out.dtype))
        or shape[0] not in (None, len(out))
    ):
        given = f"{out.dtype} {out.shape}" if isinstance(out, np.ndarray) else type(out).__name__
        needed = ", ".join("rows" if length is None else str(length) for length in shape)
        comma = "," * (len(shape) == 1)
        raise ValueError(
            f"out must be a path or a writeable array of {dtype} and shape ({needed}{comma}), "
            f"got {given}."
        )
    start = 0
    for part in parts:
        if start + len(part) > len(out):
            raise ValueError(f"out has {len(out)} rows, and there are more.")
        out[start : start + len(part)] = part
        start += len(part)
    if start < len(out):
        raise ValueError(f"out has {len(out)} rows, and there are {start}.")
