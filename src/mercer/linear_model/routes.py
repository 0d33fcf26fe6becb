"""Routes of a fit: which solver runs, what it supports, what it holds in memory.

A route is an object that states the losses, penalties and settings it supports, estimates its
memory, its passes over the rows and its work, refuses what it does not support and fits.
`plan_fit` chooses the route of the least work among those that apply, support the settings and fit
into ``max_memory``.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mercer._html import TextAsHtml
from mercer._typing import Array, is_csr
from mercer.data import Stream
from mercer.data.batches import Features, features
from mercer.errors import ParameterError, Part, Setting
from mercer.linear_model.cross_validation import (
    FEW_ROWS,
    FOLDS,
    LOO_FEATURES,
    LOO_ROWS,
    folds_of_rows,
    held_out_rows,
    left_out_weights,
)
from mercer.linear_model.losses import LOSSES, loss_of
from mercer.linear_model.normal_equations import NormalEquations
from mercer.linear_model.penalties import Penalty
from mercer.linear_model.predictor import LinearPredictor
from mercer.linear_model.solvers import newton_cg
from mercer.linear_model.solvers.blocks import CachedBlocks, SplitBlocks
from mercer.linear_model.solvers.coded_descent import is_one_hot
from mercer.linear_model.solvers.evidence import FactoredEvidence, choose_evidence, is_large
from mercer.linear_model.solvers.newton_folds import KEPT_ALPHAS, choose_alpha
from mercer.linear_model.solvers.pca import ComponentFeatures, PerMapMoments, PrincipalComponents
from mercer.linear_model.solvers.preconditioner import preconditioner_bytes
from mercer.linear_model.solvers.ridge import (
    AlphaSearch,
    RidgeDecomposition,
    Rows,
    choose_gcv,
    choose_loo,
    solve,
)
from mercer.linear_model.solvers.ridge_cg import choose_ridge_held_out, solve_ridge
from mercer.linear_model.solvers.ridge_folds import (
    DECOMPOSED_FEATURES,
    SEARCH_FACTORS,
    choose_fold,
    choose_kfold,
)
from mercer.linear_model.solvers.ridge_gram import GramDecomposition, GramSystem
from mercer.linear_model.solvers.row_basis import RowBasis
from mercer.maps.base import names_of_statistics
from mercer.maps.block import Coded, gram_operand
from mercer.parallel.dask_cluster import uses_cluster
from mercer.parallel.device import current_device, device_memory
from mercer.parallel.threads import limit_threads, one_blas_thread
from mercer.parallel.tile_size import format_bytes
from mercer.parallel.warnings import warn
from mercer.stats.moments import Moments
from mercer.validation.parameters import warn_not_converged
from mercer.validation.rows import warn_coarse_columns

# D x D arrays of float64: moments (half of one), the scatter, and two for its eigenvectors
_SOLVER_ARRAYS = 4
_PASS_BYTES = 96 * 2**20  # of blocks, while they are read again and again
# D x t arrays of float64: coefficients, gradients, conjugate gradient vectors, copies of outputs
_STEP_ARRAYS = 16
# how much slower a product with a few columns is than one of D x D, for each multiply-add
_THIN = 4
_DECOMPOSITION = 10  # multiply-adds of an eigendecomposition, times D^3
_DENSE_COLUMNS = 2**16  # of more, a row is sparse
_TINY_SQUARES = 1e-290  # of which products lose digits, or are 0
_SPARSE_PRODUCT = 30  # how much slower Z'Z of one-hot rows is, for each multiply-add
_RIDGE_STEPS = 60  # conjugate gradient steps of a fit, and of a search for alpha
_ITERATIVE = 2e11  # multiply-adds of some seconds, below which a closed form is preferred
_ADDITIVE = 2e9  # multiply-adds of a tenth of a second, below which partial_fit may add to a fit
_LONG_SECONDS = 10  # that a plan states
_LONG_WORK = 1e11  # multiply-adds that take less than that on most machines
_TIMED_COLUMNS = 768
_QUICK_FEATURES = 1024  # whose normal equations take less than a second, whatever a row is
# Errors of scores by coordinate descent: of classes, which float32 resolves, and of numbers.
_CLASS_TOLERANCE, _NUMBER_TOLERANCE = 1e-5, 1e-7
GRAM_ROWS = 4096  # whose decomposition takes about 10 s on two cores

# in messages
_L2, _PCA, _MAX_MEMORY = Setting("penalty", "'l2'"), Setting("pca"), Setting("max_memory")
_SQUARED, _CHECKPOINT = Setting("loss", "'squared'"), Setting("checkpoint", text="checkpoint=")
_DEVICE, _CLUSTER = Setting("device", text="device="), Setting("cluster", text="cluster=")

ALPHA_METHODS = {
    "loo": "leave-one-out",
    "kfold": f"{FOLDS}-fold cross-validation",
    "gcv": "generalized cross-validation",
    "evidence": "the marginal likelihood",
    "held-out": "a quarter of the rows, held out",
}


@dataclass(frozen=True)
class Plan(TextAsHtml):
    """Route of a fit, with its passes over the rows and the memory of its arrays.

    Attributes
    ----------
    route : {"moments", "gram", "two-stage", "passes", "newton-cg"}
    rows : int or None
        None where only a pass can count them.
    columns, features : int
        d and D.
    solver_bytes : int
        Bytes of the route's arrays, blocks of rows aside.
    limit : int
        Bytes that they may take.
    passes : tuple of str
        Purpose of each pass over the rows.
    cache_bytes : int
        Bytes of blocks that are kept in memory between passes.
    alpha_method : {"loo", "kfold", "gcv", "held-out", "evidence"} or None
        Method that chooses alpha; None where it is given, or chosen by conjugate gradients for one
        alpha after the other on held-out rows.
    scaled : bool
        Whether the estimator put ``Scaled`` in front of a map.
    encoded : str
        Columns that the estimator put ``Tabular`` in front of a map for, by kind; "" where all are
        numbers and none is missing.
    solver_seconds : float
        Estimate from the solver's multiply-adds, where that is above 10 s; 0 below, where only
        the data decide, and in a fitted model.
    route_reason : str
        Why this route and no other; empty in older files.
    """

    route: str
    rows: int | None
    columns: int
    features: int
    solver_bytes: int
    limit: int
    passes: tuple[str, ...]
    cache_bytes: int = 0
    alpha_method: str | None = None
    scaled: bool = False
    encoded: str = ""
    solver_seconds: float = 0.0
    route_reason: str = ""

    def __str__(self) -> str:
        rows = "unknown number of rows" if self.rows is None else f"{self.rows:,} rows"
        route = ROUTES.get(self.route, ROUTES["newton-cg"])  # it was "newton" in older files
        held, limit = format_bytes(self.solver_bytes), format_bytes(self.limit)
        note = f"arrays of {held}" if route.iterative else f"{held} of at most {limit}"
        method = f"{route.method}, {note}"
        if self.cache_bytes:
            method += f"; blocks are cached up to {format_bytes(self.cache_bytes)}"
        if self.alpha_method is not None:
            by = ALPHA_METHODS[self.alpha_method]
            if self.alpha_method == "held-out" and route.iterative:
                few = self.rows is not None and self.rows <= LOO_ROWS
                by = f"a {'third' if few else 'tenth'} of the rows, held out"
            method += f"; alpha by {by}"
        shape = f"{rows} x {self.columns:,} columns -> {self.features:,} features"
        count = len(self.passes)
        passes = f"{count} {'pass' if count == 1 else 'passes'}: {', '.join(self.passes)}."
        if route.iterative and self.passes:
            *first, last = self.passes
            passes = f"Passes: {', '.join([*first, f'then {last}' if first else last])}."
        scaled = f" Columns {SCALED}." if self.scaled else ""
        if self.encoded:
            scaled = f" Columns encoded by Tabular: {self.encoded}."
        reason = f" Chosen: {self.route_reason}." if self.route_reason else ""
        late = f" About {self.solver_seconds:.0f} s." if self.solver_seconds else ""
        return f"{shape}; {method}. {passes}{scaled}{reason}{late}"


SCALED = "centered and divided by their spread; scale=False keeps them"


@dataclass(eq=False)
class Settings:
    """Parameters of a fit that not every route supports, and conditions that it is under.

    Attributes
    ----------
    estimator : str
        Name for messages.
    loss, penalty, alpha, pca, checkpoint, uncertainty
        Parameters of the estimator.
    unlabeled, partial, cluster, device : bool
        Whether there are rows without targets, the fit is a partial_fit, and it would run on a
        cluster or a device.
    grouped, timed : bool
        Whether rows of a group are left out together, and the latest rows are held out.
    labels : bool
        Whether targets are classes.
    alpha_method : str or None
        Method of the plan, once there is one.
    widths : tuple of int
        Features of each map, once it is fitted.
    searches_alpha : bool
        Whether alpha is chosen, by a method or from a list.
    alphas : array-like or None
        The list to choose from; None for the default grid.
    has_zero_alpha : bool
    """

    estimator: str
    alpha: Any
    loss: str = "squared"
    penalty: str = "l2"
    pca: int | None = None
    checkpoint: Any = None
    uncertainty: bool = False
    unlabeled: bool = False
    partial: bool = False
    cluster: bool = False
    device: bool = False
    grouped: bool = False
    timed: bool = False
    labels: bool = False
    alpha_method: str | None = None
    widths: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        is_method = isinstance(self.alpha, str)
        self.searches_alpha = is_method or np.ndim(self.alpha) == 1
        self.alphas = None if is_method else self.alpha
        self.has_zero_alpha = not is_method and bool(np.any(np.asarray(self.alpha) == 0))

    def count_folds(self, features: int) -> int:
        """Return the folds whose statistics are kept apart: 1, 2 where a quarter is held out.

        Rows are left out to choose alpha, and for the uncertainty of classes.
        """
        if self.alpha_method == "held-out":
            return 2
        if self.searches_alpha if self.penalty != "l2" else self.alpha_method == "kfold":
            return FOLDS
        if self.uncertainty and self.labels:
            return FOLDS if features <= LOO_FEATURES else 2
        return 1

    def alpha_methods(self, rows: int | None, features: int) -> tuple[str | None, ...]:
        """Return the methods to choose alpha for these rows, in the order of preference.

        The next one serves where normal equations of the last one do not fit in memory. Leave-one-
        out reads the rows again, which a cluster and partial_fit do not, and needs a decomposition
        of as many columns as there are features, or rows where they are fewer. Groups are left out
        as a whole, by folds. Losses without a closed form have folds up to LOO_ROWS rows, or up to
        GRAM_ROWS where features are more than rows.
        """
        if not self.searches_alpha or self.penalty != "l2":
            return (None,)
        if isinstance(self.alpha, str) and self.alpha != "auto":
            return (self.alpha,)
        if self.loss != "squared":
            most = LOO_ROWS if features <= (rows or 0) else min(LOO_ROWS, GRAM_ROWS)
            few = rows is not None and rows <= most and not self.timed
            return ("kfold", "held-out") if few else ("held-out",)
        if self.grouped or self.timed:
            in_turn = self.grouped and features <= DECOMPOSED_FEATURES
            return ("kfold" if in_turn else "held-out",)
        again = not (self.cluster or self.partial)
        most = LOO_ROWS if features <= LOO_FEATURES else FEW_ROWS
        if again and rows is not None and rows <= most:
            return ("loo",)
        folds = "kfold" if features <= LOO_FEATURES else "held-out"
        return (folds, "loo" if again else "gcv")

    def depends_on_rows(self, features: int) -> bool:
        """Return whether the method to choose alpha depends on the number of rows."""
        return self.alpha_methods(0, features) != self.alpha_methods(None, features)

    def is_alpha(self, method: str) -> bool:
        return isinstance(self.alpha, str) and self.alpha == method

    def error(self, *parts: Part) -> ParameterError:
        return ParameterError(self.estimator, *parts)

    def validate(self) -> None:
        """Raise for settings that no route, or no penalty, supports; no data is needed."""
        if self.unlabeled and self.pca is None:
            none = "unlabeled rows count for principal components, and there are none: give "
            raise self.error(none, _PCA, ", or leave them out.")
        if self.loss != "squared":
            ROUTES["newton-cg"].validate(replace(self, cluster=False))
        if self.uncertainty and (
            self.penalty != "l2" or self.pca is not None or self.has_zero_alpha
        ):
            needed = (" needs ", _L2, ", no ", _PCA, " and an ", Setting("alpha"), " above 0.")
            raise self.error(Setting("uncertainty", "True"), *needed)
        if self.penalty == "l2":
            return
        if isinstance(self.alpha, str) and self.alpha in ("gcv", "loo", "evidence"):
            advice = ". Use 'kfold' (the same as 'auto' here), a number or a list."
            raise self.error(Setting("alpha", repr(self.alpha)), " needs ", _L2, advice)
        if self.has_zero_alpha:
            needs = f" needs an alpha above 0, got {self.alpha!r}; for plain least squares use "
            raise self.error(Setting("penalty", repr(self.penalty)), needs, _L2, ".")

    def for_stream(self, stream: Stream) -> Settings:
        """Return the settings with the conditions of a stream, or raise for its rows and groups."""
        if stream.rows == 1 and self.searches_alpha and not self.partial:
            raise self.error(
                Setting("alpha", repr(self.alpha)),
                " is chosen on rows that are left out, and there is one sample only. Give more "
                "rows, or a number for alpha.",
            )
        grouped, timed = stream.group is not None, stream.time is not None
        allowed = ("auto", "kfold") if grouped else ("auto",)
        if (grouped or timed) and isinstance(self.alpha, str) and self.alpha not in allowed:
            raise self.error(
                Setting("alpha", repr(self.alpha)),
                f" leaves out rows that others of their {'group' if grouped else 'time'} predict. "
                f"Use {' or '.join(map(repr, allowed))} with {'groups' if grouped else 'times'}.",
            )
        # without distributed there is no client
        cluster = "distributed" in sys.modules and uses_cluster(stream)
        device = current_device() is not None
        return replace(self, cluster=cluster, device=device, grouped=grouped, timed=timed)

    def with_widths(self, widths: tuple[int, ...]) -> Settings:
        """Return the settings with the features of each map, or raise where these are too few."""
        if self.pca is not None and self.pca > max(widths):
            needs = f" must be at most the number of features of a map, {max(widths)}"
            raise self.error(_PCA, f"{needs}, got {self.pca}.")
        if self.penalty == "group" and len(widths) < 2:
            raise self.error(
                Setting("penalty", "'group'"),
                " selects maps, and ",
                Setting("feature_map"),
                " is one map: give ",
                Setting("feature_map", text="a list of maps"),
                ", or use ",
                Setting("penalty", "'l1'"),
                ".",
            )
        return replace(self, widths=widths)


@dataclass(frozen=True, eq=False)
class Problem:
    """Settings and sizes of a fit, from which routes estimate their memory, passes and work.

    Attributes
    ----------
    settings : Settings
        With the method that chooses alpha.
    rows : int or None
    columns, features, limit : int
        d, D, and bytes that the route's arrays may take.
    first_passes : tuple of str
        Purpose of the passes before those of the solver: statistics of the maps, class weights.
    class_weights : bool
        Whether classes are counted first.
    outputs : int
        Outputs of a loss that needs Newton's method; 0 for squared loss.
    targets : int
        Outputs of squared loss; a guess where classes are not counted yet.
    stored, row_bytes : float or None
        Numbers and bytes of a row of features in memory: codes, or D numbers of float64 where
        None.
    """

    settings: Settings
    rows: int | None
    columns: int
    features: int
    limit: int
    first_passes: tuple[str, ...] = ()
    class_weights: bool = False
    outputs: int = 0
    targets: int = 8
    stored: float | None = None
    row_bytes: float | None = None


class Estimate(NamedTuple):
    """Cost of a route.

    Attributes
    ----------
    memory : int
        Bytes of the route's arrays.
    work : float
        Multiply-adds of the solver, by which routes are compared.
    passes : tuple of str
        Purpose of each pass over the rows.
    """

    memory: int
    work: float
    passes: tuple[str, ...]


class Route:
    """A way to fit: what it supports, what it costs, and the fit itself.

    A subclass states the class attributes and writes `estimate` and `fit`.
    """

    name: ClassVar[str]
    method: ClassVar[str]  # in words
    losses: ClassVar[tuple[str, ...]] = ("squared",)
    penalties: ClassVar[tuple[str, ...]] = ("l2",)
    alphas: ClassVar[tuple[str, ...]] = ("auto",)  # methods that choose alpha, beside a list
    zero_alpha: ClassVar[bool] = False
    pca: ClassVar[bool] = False
    checkpoint: ClassVar[bool] = False
    uncertainty: ClassVar[bool] = False
    cluster: ClassVar[bool] = False
    partial_fit: ClassVar[bool] = False
    # Whether the last of its passes is repeated. Such a route is taken whatever max_memory is, and
    # is fitted again without some rows for the uncertainty of classes.
    iterative: ClassVar[bool] = False
    states_alpha: ClassVar[bool] = False  # iterative, and its method to choose alpha is planned
    handicap: ClassVar[float] = 0.0  # part of `work` that takes no time, but prefers other routes

    def estimate(self, problem: Problem) -> Estimate | None:
        """Return what the route costs; None where it cannot solve the problem, memory aside.

        The loss is one of the route's.
        """
        raise NotImplementedError

    def cache(self, problem: Problem, memory: int) -> int:
        """Return the bytes of blocks that an iterative route keeps beside so many of arrays."""
        return max(0, problem.limit - memory)

    def fit(
        self, model: Any, settings: Settings, stream: Stream, unlabeled: Stream | None
    ) -> LinearPredictor:
        """Return the linear predictor of the rows of a stream, on the features of the model."""
        raise NotImplementedError

    def fit_without(self, model: Any, stream: Stream, left_out: Array) -> tuple[Array, Array]:
        """Return coefficients (D, t) and intercepts of the other rows, at the alpha of the model.

        left_out is an array of shape (n,), bool.
        """
        raise NotImplementedError

    def plan(self, problem: Problem, estimate: Estimate) -> Plan:
        """Return the plan of this route; its seconds are those of the work but for `handicap`."""
        seconds, work = 0.0, estimate.work - self.handicap
        if _LONG_WORK < work < np.inf:
            seconds = work / _multiply_adds_per_second()
        return Plan(
            self.name,
            problem.rows,
            problem.columns,
            problem.features,
            estimate.memory,
            problem.limit,
            estimate.passes,
            self.cache(problem, estimate.memory) if self.iterative else 0,
            solver_seconds=seconds if seconds > _LONG_SECONDS else 0.0,
        )

    def supports(self, settings: Settings) -> bool:
        """Return whether the route solves the loss, and `validate` accepts the settings."""
        return not (
            settings.loss not in self.losses
            or any(self._unsupported(settings))
            or (settings.cluster and not self.cluster)
            or (settings.partial and not self.partial_fit)
        )

    def validate(self, settings: Settings, plan: Plan | None = None) -> None:
        """Raise for the first setting that this route does not support.

        Parameters
        ----------
        settings : Settings
        plan : Plan, optional
            For messages, where the route was chosen by memory.
        """
        for setting, advice in self._unsupported(settings):
            if settings.loss != "squared":
                got = f", got loss={settings.loss!r}. {advice[0][0].upper()}{advice[0][1:]}"
                raise settings.error(setting, " needs ", _SQUARED, got, *advice[1:])
            assert plan is not None
            needs = f" needs the normal equations of {plan.features} features. {plan} Raise "
            raise settings.error(setting, needs, _MAX_MEMORY, ", or ", *advice)
        if settings.cluster and settings.device:
            either = "a cluster computes on the CPUs of its workers: leave out either "
            raise settings.error(either, _DEVICE, " or ", _CLUSTER, ".")
        if settings.cluster and (not self.cluster or settings.is_alpha("loo")):
            raise settings.error(
                "a cluster computes normal equations, and this fit takes more passes over the "
                f"rows. {plan} Use ",
                _SQUARED,
                ", ",
                Setting("alpha", "'gcv'"),
                " or 'kfold' and enough ",
                _MAX_MEMORY,
                "; or fit without a cluster, which reads the rows here, chunk by chunk.",
            )
        if settings.partial and (
            not self.partial_fit or settings.is_alpha("loo") or settings.checkpoint is not None
        ):
            raise settings.error(
                "partial_fit adds up normal equations, which excludes ",
                Setting("alpha", "'loo'"),
                ", ",
                _CHECKPOINT,
                " and more features than ",
                _MAX_MEMORY,
                f" allows. {plan}",
            )

    def _unsupported(
        self, settings: Settings
    ) -> Iterator[tuple[Part, tuple[str, *tuple[Part, ...]]]]:
        """Yield (setting, advice) for each setting beyond the class attributes."""
        alpha = settings.alpha
        if isinstance(alpha, str) and alpha not in self.alphas:
            methods = " or ".join(map(repr, self.alphas))
            advice = f"use {methods} (rows that are left out), a number or a list."
            yield Setting("alpha", repr(alpha)), (advice,)
        if settings.has_zero_alpha and not self.zero_alpha:
            reason = "" if "squared" in self.losses else " (separable rows have no minimum at 0)"
            yield Setting("alpha", "0"), (f"give an alpha above 0{reason}.",)
        for name, supported, default in (
            ("pca", self.pca, None),
            ("penalty", settings.penalty in self.penalties, "l2"),
            ("checkpoint", self.checkpoint, None),
            ("uncertainty", self.uncertainty or (self.iterative and settings.labels), False),
        ):
            value = getattr(settings, name)
            if value != default and not supported:
                yield Setting(name, repr(value)), ("leave ", Setting(name), " out.")


class NormalEquationsRoute(Route):
    """Ridge, LASSO or group LASSO from Z'Z and Z'y, which one pass sums up."""

    name = "moments"
    method = "least squares from normal equations"
    penalties = ("l2", "l1", "group")
    alphas = ("auto", "gcv", "kfold", "loo", "evidence")
    zero_alpha = True
    pca = True
    checkpoint = True
    uncertainty = True
    cluster = True
    partial_fit = True

    def estimate(self, problem: Problem) -> Estimate | None:
        settings, features = problem.settings, problem.features
        folds = settings.count_folds(features)
        passes = (
            *problem.first_passes,
            f"normal equations{f' of {folds} folds' * (folds > 1)}",
            *["covariance of unlabeled rows"] * settings.unlabeled,
            *["copies of rows", "leverages"] * (settings.alpha_method == "loo"),
        )
        memory = _solver_bytes(features, folds, settings.penalty)
        return Estimate(memory, _normal_equations_work(problem), passes)

    def fit(
        self, model: Any, settings: Settings, stream: Stream, unlabeled: Stream | None
    ) -> LinearPredictor:
        rows = features(stream, model.feature_map_)
        model._statistics = model._reduce(rows, model._empty_statistics(settings))
        if unlabeled is not None:
            moments = model._reduce(
                features(unlabeled, model.feature_map_), Moments(target=False), "unlabeled"
            )
            unlabeled_normal = NormalEquations.of_rows(moments, fit_intercept=model.fit_intercept)
            model._unlabeled = unlabeled_normal.to_host()
        return self.solve(model, settings, rows)

    def solve(
        self, model: Any, settings: Settings, rows: Features | None = None
    ) -> LinearPredictor:
        """Return the linear predictor of the statistics that a model has summed up.

        rows are read again for leave-one-out.
        """
        _require_weights(model, model._statistics)
        components, widths = None, settings.widths
        if settings.pca is not None:
            unlabeled = getattr(model, "_unlabeled", None)
            components = PrincipalComponents(settings.pca, widths, unlabeled)
        normals = [fold for fold in model._normal_equations(model._statistics) if fold is not None]
        return _solve_normal_equations(model, settings, normals, rows, widths, components)


class GramRoute(Route):
    """Ridge from the Gram matrix of the rows, where they are fewer than the features."""

    name = "gram"
    method = "least squares from the Gram matrix of the rows"
    alphas = ("auto", "gcv", "loo", "evidence")
    zero_alpha = True
    uncertainty = True
    handicap = _ADDITIVE

    def estimate(self, problem: Problem) -> Estimate | None:
        """Estimate n^2 D for Z Z' and 10 n^3 for its decomposition, n^3/6 where alpha is given.

        Normal equations that take no time are preferred: partial_fit can add rows to them.
        """
        settings = problem.settings
        possible = settings.alpha_method in (None, "loo", "gcv", "evidence")
        if not (possible and has_few_rows(problem.rows, problem.features)):
            return None
        n = float(problem.rows or 0)
        stored = problem.features if problem.stored is None else problem.stored
        solving = _DECOMPOSITION if settings.searches_alpha else 1 / 6
        passes = (
            *problem.first_passes,
            *["class labels"] * (settings.labels and not problem.class_weights),
            "features of all rows",
            *["copies of rows"] * (settings.alpha_method == "loo"),
        )
        work = self.handicap + n**2 * stored + solving * n**3
        memory = gram_bytes(problem.rows or 0, problem.features, stored, problem.row_bytes)
        return Estimate(memory, work, passes)

    def fit(
        self, model: Any, settings: Settings, stream: Stream, unlabeled: Stream | None
    ) -> LinearPredictor:
        model._find_classes(stream)
        rows = features(stream, model.feature_map_)
        system = GramSystem.of_rows(
            model._read_blocks(rows),
            fit_intercept=model.fit_intercept,
            observations=model._count_rows(stream),
        )
        given = 0.0 if settings.searches_alpha else float(settings.alpha)
        coef = system.solve(given) if given > 0 else None
        if coef is not None:
            return LinearPredictor(coef, system.normal.intercept(coef), given, None)
        decomposition = GramDecomposition.of(system)
        search = _search_alpha(model, settings, decomposition, stream)
        alpha = float(settings.alpha) if search is None else search.alpha
        coef = decomposition.coef(alpha)
        return LinearPredictor(coef, decomposition.normal.intercept(coef), alpha, search)


class TwoStageRoute(Route):
    """Principal components of each map in a first pass, normal equations of them in a second."""

    name = "two-stage"
    method = "principal components of each map, then least squares on them"
    penalties = NormalEquationsRoute.penalties
    alphas = NormalEquationsRoute.alphas
    zero_alpha = True
    pca = True
    checkpoint = True
    cluster = True

    def estimate(self, problem: Problem) -> Estimate | None:
        """Estimate the work of normal equations of all features and of computing them again.

        One pass is preferred where it fits in memory.
        """
        settings, widths = problem.settings, problem.settings.widths
        if settings.pca is None or len(widths) < 2:
            return None
        folds = settings.count_folds(problem.features)
        ranks = [min(settings.pca, width) for width in widths]
        packed, largest = sum(width**2 for width in widths) // 2, max(widths) ** 2
        vectors = sum(width * count for width, count in zip(widths, ranks, strict=True))
        memory = max(
            8 * (packed + 3 * largest + vectors),
            8 * vectors + _solver_bytes(sum(ranks), folds, settings.penalty),
        )
        again = (problem.rows or 0) * float(problem.columns) * problem.features
        passes = (
            *problem.first_passes,
            "covariance of each map",
            *["covariance of each map, unlabeled rows"] * settings.unlabeled,
            f"normal equations{f' of {folds} folds' * (folds > 1)}, components",
            *["copies of rows", "leverages"] * (settings.alpha_method == "loo"),
        )
        return Estimate(memory, _normal_equations_work(problem) + again, passes)

    def fit(
        self, model: Any, settings: Settings, stream: Stream, unlabeled: Stream | None
    ) -> LinearPredictor:
        widths, feature_map = settings.widths, model.feature_map_
        moments = model._reduce(features(stream, feature_map), PerMapMoments.empty(widths))
        _require_weights(model, moments)
        if unlabeled is not None:
            moments += model._reduce(
                features(unlabeled, feature_map), PerMapMoments.empty(widths), "unlabeled"
            )
        basis = moments.basis(settings.pca, fit_intercept=model.fit_intercept)
        del moments
        rows = ComponentFeatures(stream, feature_map, basis)
        statistics = model._reduce(rows, model._empty_statistics(settings), "components")
        normals = [fold for fold in model._normal_equations(statistics) if fold is not None]
        predictor = _solve_normal_equations(model, settings, normals, rows, basis.widths, None)
        return replace(predictor, coef=basis.expand(predictor.coef))


class ConjugateGradientsRoute(Route):
    """Ridge by conjugate gradients, one pass over the rows for each step."""

    name = "passes"
    method = "least squares by conjugate gradients over blocks"
    iterative = True
    handicap = _ITERATIVE

    def estimate(self, problem: Problem) -> Estimate | None:
        """Estimate the work as products with t directions, for each step.

        A closed form of a few seconds is preferred: it needs no tolerance.
        """
        stored = problem.features if problem.stored is None else problem.stored
        steps = _RIDGE_STEPS * (1 + problem.settings.searches_alpha)
        each = 2 * _THIN * stored * problem.targets
        work = self.handicap + steps * (problem.rows or np.inf) * (each + problem.columns * stored)
        labels = problem.settings.labels and not problem.class_weights
        step = "one per conjugate gradient step"
        passes = (*problem.first_passes, *["class labels"] * labels, step)
        return Estimate(_PASS_BYTES, work, passes)

    def cache(self, problem: Problem, memory: int) -> int:
        spectrum = preconditioner_bytes(problem.features, problem.limit)
        return super().cache(problem, memory + spectrum)

    def fit(
        self, model: Any, settings: Settings, stream: Stream, unlabeled: Stream | None
    ) -> LinearPredictor:
        model._find_classes(stream)
        rows = features(stream, model.feature_map_)
        blocks = _cached_features(model, rows)
        tol = tolerance(stream.dtype.itemsize)
        for block, _, _ in blocks():  # kept in memory, where they fit
            if is_one_hot(block):
                tol = _NUMBER_TOLERANCE if model._numeric_targets else _CLASS_TOLERANCE
        options: Any = {
            "fit_intercept": model.fit_intercept,
            "max_memory": model.plan_.limit,
        }
        search, start, preconditioner = None, None, None
        if settings.searches_alpha:
            held_out = held_out_rows(stream)
            search, start = choose_ridge_held_out(blocks, held_out, settings.alphas, **options)
            preconditioner = start.preconditioner
        alpha = float(settings.alpha) if search is None else search.alpha
        solution = solve_ridge(
            blocks,
            alpha,
            start=start,
            tol=tol,
            preconditioner=preconditioner,
            **options,
        )
        return LinearPredictor(
            solution.coef, solution.intercept, alpha, search, n_iter=solution.iterations
        )

    def fit_without(self, model: Any, stream: Stream, left_out: Array) -> tuple[Array, Array]:
        blocks = _other_rows(model, stream, left_out)
        options: Any = {"fit_intercept": model.fit_intercept, "max_memory": model.plan_.limit}
        solution = solve_ridge(blocks, model.alpha_, tol=_CLASS_TOLERANCE, **options)
        return solution.coef, solution.intercept


class NewtonCGRoute(Route):
    """Newton's method by conjugate gradients, for losses other than the squared."""

    name = "newton-cg"
    method = "Newton's method by conjugate gradients over blocks"
    losses = tuple(LOSSES)
    alphas = ("auto", "kfold")
    iterative = True
    states_alpha = True

    def estimate(self, problem: Problem) -> Estimate | None:
        kept = KEPT_ALPHAS * FOLDS if problem.settings.alpha_method == "kfold" else 0
        models = 8 * problem.features * problem.outputs * (_STEP_ARRAYS + kept)
        memory = models + preconditioner_bytes(problem.features, problem.limit)
        passes = (
            *problem.first_passes,
            *["class labels"] * (not problem.class_weights),
            "sums of squares",
            "one per Newton step and per conjugate gradient step",
        )
        return Estimate(memory, 0.0, passes)

    def fit(
        self, model: Any, settings: Settings, stream: Stream, unlabeled: Stream | None
    ) -> LinearPredictor:
        rows = features(stream, model.feature_map_)
        basis = None
        if self._has_few_rows(model):
            basis = RowBasis.of(model._read_blocks(rows), fit_intercept=model.fit_intercept)
            few = basis.block
            blocks = CachedBlocks(lambda: iter([few]), model.plan_.limit)
        else:
            blocks = _cached_features(model, rows)
        loss = loss_of(settings.loss, model._n_outputs)
        options: Any = {
            "fit_intercept": model.fit_intercept,
            "max_iter": model.max_iter,
            "max_memory": model.plan_.limit,
        }
        with limit_threads(model.n_jobs), one_blas_thread():
            search, start = None, None
            if settings.searches_alpha:
                if settings.alpha_method == "kfold":
                    fold = folds_of_rows(stream)
                else:
                    fold = np.where(held_out_rows(stream), 0, -1)
                choice = choose_alpha(
                    blocks, loss, fold, settings.alphas, grouped=settings.grouped, **options
                )
                search, start = choice.search, choice.start
            alpha = float(settings.alpha) if search is None else search.alpha
            minimum = newton_cg.minimize_loss(
                blocks, loss, alpha, start=start, tol=model.tol, **options
            )
        if minimum.unconverged.any():
            _warn_unconverged(model, minimum)
        coef, intercept = minimum.coef, minimum.intercept
        if basis is not None:
            coef, intercept = basis.expand(coef, intercept)
        return LinearPredictor(coef, intercept, alpha, search, n_iter=minimum.steps)

    def fit_without(self, model: Any, stream: Stream, left_out: Array) -> tuple[Array, Array]:
        blocks = _other_rows(model, stream, left_out)
        own = model._fitted_predictor()
        t = own.coef.shape[1]
        start = newton_cg.Minimum(
            own.coef, own.intercept, 0, 0, np.zeros(t), unconverged=np.zeros(t, bool)
        )
        with limit_threads(model.n_jobs), one_blas_thread():
            minimum = newton_cg.minimize_loss(
                blocks,
                loss_of(model.loss, t),
                own.alpha,
                start=start,
                tol=model.tol,
                fit_intercept=model.fit_intercept,
                max_iter=model.max_iter,
                max_memory=model.plan_.limit,
            )
        return minimum.coef, minimum.intercept

    def _has_few_rows(self, model: Any) -> bool:
        """Return whether rows are so few that their Gram matrix is decomposed first.

        Codes have coordinate descent instead, but for log loss, whose outputs are coupled.
        """
        plan = model.plan_
        if not has_few_rows(plan.rows, plan.features):
            return False
        coupled = model.loss == "log_loss" and model._n_outputs > 1
        dense = coupled or measure_row(model.feature_map_)["stored"] == plan.features
        return dense and gram_bytes(plan.rows, plan.features) <= plan.limit


ROUTES: dict[str, Route] = {
    route.name: route
    for route in (
        NormalEquationsRoute(),
        GramRoute(),
        TwoStageRoute(),
        ConjugateGradientsRoute(),
        NewtonCGRoute(),
    )
}
"""Routes by the name in Plan.route, in order of preference."""


def plan_fit(problem: Problem) -> Plan:
    """Return the plan of the route with the least work of those that apply and fit into the limit.

    An iterative one is taken where no other does, or where it supports the settings and has less
    work.
    """
    squared = problem.outputs == 0
    of_loss = [route for route in ROUTES.values() if ("squared" in route.losses) == squared]
    estimates = {route: route.estimate(problem) for route in of_loss}
    applying = {route: estimate for route, estimate in estimates.items() if estimate is not None}
    work = {
        route: estimate.work
        for route, estimate in applying.items()
        if route.supports(problem.settings)
    }
    supported = sorted(work, key=work.__getitem__)
    fitting = [route for route in supported if applying[route].memory <= problem.limit]
    chosen = fitting[0] if fitting else next(route for route in applying if route.iterative)
    first = supported[0] if supported else chosen
    if first not in fitting and applying[first].work < applying[chosen].work:
        reason = f"{first.method} would hold {format_bytes(applying[first].memory)}"
    elif len(fitting) > 1:
        reason = f"the least work of {len(fitting)} routes"
    elif len(supported) > 1:
        reason = "the only route that fits in memory"
    else:
        reason = f"the only route for {'this loss' if len(applying) == 1 else 'these settings'}"
    return replace(chosen.plan(problem, applying[chosen]), route_reason=reason)


def plan_model(model: Any, settings: Settings, stream: Stream, limit: int) -> Plan:
    """Return the plan of a model whose map is fitted, for the rows of a stream."""
    features = sum(settings.widths)
    row = measure_row(model.feature_map_) if features > _QUICK_FEATURES else {}
    if model._numeric_targets and not model._targets_2d:
        row["targets"] = 1
    balanced = getattr(model, "class_weight", None) == "balanced"
    problem = Problem(
        settings,
        stream.rows,
        stream.width,
        features,
        limit,
        first_passes=(*names_of_statistics(model.feature_map_), *["class weights"] * balanced),
        class_weights=balanced,
        outputs=0 if settings.loss == "squared" else model._n_outputs,
        **row,
    )
    return plan_alpha(problem)


def measure_row(fitted: Any) -> dict[str, Any]:
    """Return the numbers and bytes of a row of features: codes where they are coded."""
    d, transform = fitted.n_features_in_, fitted.tile_transform_
    sparse = d > _DENSE_COLUMNS
    if transform.block_kind(sparse) is not Coded:
        D = transform.columns(d)
        return {"stored": D, "row_bytes": 8 * D}
    block = probe_block(fitted, 1 / d if sparse else None)
    one_hot = is_csr(gram_operand(block))
    columns = block.codes.shape[1] if one_hot else block.shape[1]  # others are added as dense rows
    return {"stored": columns, "row_bytes": block.nbytes}


def probe_block(fitted: Any, density: float | None) -> Any:
    """Return the features of one row of numbers 0.5: CSR of a density, dense where it is None."""
    from scipy.sparse import csr_array

    d = fitted.n_features_in_
    if density is None:
        row: Any = np.full((1, d), 0.5)
    else:
        entries = max(1, round(d * density))
        columns = np.linspace(0, d - 1, entries).astype(np.int32)
        row = csr_array((np.full(entries, 0.5), columns, [0, entries]), shape=(1, d))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # values outside the range of the fitted rows
        return next(iter(fitted.blocks(row)))


def plan_alpha(problem: Problem) -> Plan:
    """Return the plan of the first method to choose alpha whose route fits in memory."""
    for method in problem.settings.alpha_methods(problem.rows, problem.features):
        by_method = replace(problem, settings=replace(problem.settings, alpha_method=method))
        plan = plan_fit(by_method)
        route = ROUTES[plan.route]
        if not route.iterative or (route.states_alpha and plan.solver_bytes <= plan.limit):
            return replace(plan, alpha_method=method)
    # a method that was asked for is refused by the route
    return replace(plan, alpha_method=method if route.states_alpha else None)


def plan_others(chosen: Plan, problem: Problem) -> list[Plan]:
    """Return the plans of the routes that were not chosen, whatever memory they take.

    Each has the first method to choose alpha that it supports.
    """
    others: dict[str, Plan] = {}
    for method in problem.settings.alpha_methods(problem.rows, problem.features):
        by_method = replace(problem, settings=replace(problem.settings, alpha_method=method))
        for name, route in ROUTES.items():
            estimate = route.estimate(by_method) if route.supports(problem.settings) else None
            if estimate is not None and name != chosen.route and name not in others:
                alpha_method = None if route.iterative else method
                others[name] = replace(route.plan(by_method, estimate), alpha_method=alpha_method)
    return list(others.values())


@cache
def _multiply_adds_per_second() -> float:
    """Return the speed of a product of two matrices, the faster of two."""
    A = np.ones((_TIMED_COLUMNS, _TIMED_COLUMNS))
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        A @ A
        seconds.append(time.perf_counter() - start)
    return _TIMED_COLUMNS**3 / min(seconds)


def tolerance(itemsize: int) -> float:
    """Return the relative residual that products of features of this width can resolve."""
    return 1e-7 if itemsize == 8 else 1e-6


def _solve_normal_equations(
    model: Any,
    settings: Settings,
    folds: Sequence[NormalEquations],
    rows: Features | None,
    widths: tuple[int, ...],
    components: PrincipalComponents | None,
) -> LinearPredictor:
    """Solve the sum of the folds' normal equations, for the alpha given or chosen.

    rows are read again for leave-one-out.
    """
    if settings.penalty != "l2" or components is not None:
        folds = [fold.to_host() for fold in folds]
    if settings.penalty != "l2":
        return _solve_sparse(settings, folds, Penalty(settings.penalty, widths, components))
    total = sum(folds[1:], start=folds[0])
    name, squares = type(model).__name__, np.asarray(np.diagonal(total.scatter))
    largest = max(squares.max(initial=0.0), np.abs(total.mean).max(initial=0.0) ** 2)
    if largest < _TINY_SQUARES and total.cross.any():
        warn(
            f"{name}: the features are so small that their squares are {squares.max():.2g}, and "
            "the coefficients are 0. Scale the columns (sklearn.preprocessing, or scale=True).",
            stacklevel=3,
        )
    if rows is not None and rows.dtype == np.float32:
        warn_coarse_columns(name, total.mean, np.sqrt(squares / total.n))
    search = None
    scale = total.scale if components is None else components.reduced(total)[1].scale
    if settings.alpha_method == "kfold" and len(folds) > 1:
        search = choose_kfold(folds, settings.alphas, components, total=total, scale=scale)
    elif settings.alpha_method == "held-out" and len(folds) > 1:
        search = choose_fold(folds[0], folds[1], settings.alphas, components, scale=scale)
    elif settings.alpha_method == "evidence" and components is None and is_large(total):
        search = choose_evidence(FactoredEvidence(total.to_host()), settings.alphas)
    elif settings.searches_alpha and (settings.grouped or settings.timed):
        raise settings.error(
            Setting("alpha", repr(settings.alpha)),
            " is chosen on groups that are left out, and all rows are in one fold: give more "
            "groups, or a number for alpha.",
        )
    if components is None and (search is not None or not settings.searches_alpha):
        alpha = float(settings.alpha) if search is None else search.alpha
        return LinearPredictor(*solve(total, alpha, overwrite=True), alpha, search)
    decomposition = RidgeDecomposition.of(total, components, overwrite=True)
    if search is None:
        stream = None if rows is None else rows.stream
        blocks = None if rows is None else model._read_blocks(rows)
        search = _search_alpha(model, settings, decomposition, stream, blocks)
    alpha = float(settings.alpha) if search is None else search.alpha
    coef = decomposition.coef(alpha)
    return LinearPredictor(coef, decomposition.normal.intercept(coef), alpha, search)


def _search_alpha(
    model: Any,
    settings: Settings,
    decomposition: RidgeDecomposition,
    stream: Stream | None,
    rows: Rows | None = None,
) -> AlphaSearch | None:
    """Choose alpha by leave-one-out or GCV; None where it is given.

    rows are read for leave-one-out, unless the decomposition has them.
    """
    if not settings.searches_alpha:
        return None
    if settings.alpha_method == "evidence":
        return choose_evidence(decomposition, settings.alphas)
    if settings.alpha_method != "loo":  # also where all rows are in one fold
        return choose_gcv(decomposition, settings.alphas)
    assert stream is not None
    return choose_loo(
        decomposition,
        rows,
        settings.alphas,
        left_out_weights(stream, model._encode_targets),
        labels=not model._numeric_targets,
    )


def _solve_sparse(
    settings: Settings, folds: Sequence[NormalEquations], penalty: Penalty
) -> LinearPredictor:
    """Solve the LASSO or group LASSO; an alpha is chosen by the folds."""
    folds = [fold for fold in folds if fold.n > 0]
    search = penalty.choose(folds, settings.alphas) if settings.searches_alpha else None
    alpha = float(settings.alpha) if search is None else search.alpha
    total = sum(folds[1:], start=folds[0])
    coef, kkt = penalty.solve(total, alpha)
    return LinearPredictor(coef, total.intercept(coef), alpha, search, kkt)


def _require_weights(model: Any, statistics: Any) -> None:
    """Raise where no row has a weight above 0."""
    left = [statistics]
    while left:
        part = left.pop()
        if getattr(part, "rows", 0) > 0:
            return
        left += getattr(part, "parts", ())
    raise ValueError(f"{type(model).__name__} needs rows with a weight above 0, got none.")


def _normal_equations_work(problem: Problem) -> float:
    """Return n D^2/2 for Z'Z, D^3/6 for a Cholesky factor, 10 D^3 for a decomposition.

    Leave-one-out multiplies rows by all eigenvectors, n D^2. Codes have a sparse product.
    """
    n, D = problem.rows or 0, float(problem.features)
    stored = D if problem.stored is None else problem.stored
    product = n * D**2 / 2 if stored == D else n * stored**2 * _SPARSE_PRODUCT
    decompositions, factors = 0.0, 1.0
    method = problem.settings.alpha_method
    if problem.settings.searches_alpha:
        folds = {"kfold": FOLDS, "held-out": 1}.get(method or "", 0)
        if folds and D > DECOMPOSED_FEATURES:
            factors += SEARCH_FACTORS * folds
        else:
            decompositions = folds or 1
    solving = (_DECOMPOSITION * decompositions + factors / 6) * D**3
    return product + solving + n * D * stored * (method == "loo")


def _solver_bytes(features: int, folds: int, penalty: str) -> int:
    """Return the bytes of moments and of what is solved from them.

    A fold has moments and a scatter, and a second one where all folds are solved at once.
    """
    more = (1.5 + (penalty != "l2")) * folds + 1 if folds > 1 else 0
    return int(8 * features**2 * (_SOLVER_ARRAYS + more))


def has_few_rows(rows: int | None, features: int) -> bool:
    """Return whether rows are fewer than features, and their Gram matrix is decomposed in time."""
    return rows is not None and rows < features and rows <= GRAM_ROWS


def gram_bytes(
    rows: int, features: int, stored: float | None = None, row_bytes: float | None = None
) -> int:
    """Return the bytes of a Gram matrix, its decomposition and the features of all rows.

    stored and row_bytes are those of `Problem`.
    """
    copies = 2 if stored in (None, features) else 1  # dense features also about their mean
    kept = rows * (8.0 * features if row_bytes is None else row_bytes)
    return int(8 * _SOLVER_ARRAYS * rows**2 + copies * kept)


def _cached_features(model: Any, rows: Features) -> CachedBlocks:
    """Return the features of rows, in the memory of the device that computes them, if any."""
    device = current_device()
    memory = model.plan_.cache_bytes if device is None else device_memory(device) // 2
    return CachedBlocks(lambda: model._read_blocks(rows, on_device=True), memory)


def _other_rows(model: Any, stream: Stream, left_out: Array) -> CachedBlocks:
    """Return the features of a stream, with weight 0 for rows that are left out, read once."""
    blocks = _cached_features(model, features(stream, model.feature_map_))
    others = CachedBlocks(SplitBlocks(blocks, ~left_out), blocks.memory)
    for _ in others():
        pass
    return others


def _warn_unconverged(model: Any, minimum: newton_cg.Solution) -> None:
    """Warn of the classes for which Newton's method has not reached the tolerance."""
    late = np.flatnonzero(minimum.unconverged)
    classes: Array = model.classes_
    names = [repr(label) for label in classes[late + (len(classes) == 2)].tolist()]
    some = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    where = "" if model.loss == "log_loss" else f" for class {some}"
    warn_not_converged(
        f"{type(model).__name__}: Newton's method has not reached tol={model.tol:g}{where}: the "
        f"last step changed scores by {minimum.change[late].max():.2g} of their spread after "
        f"{minimum.steps} steps and {minimum.passes} passes. Take a larger max_iter (it is "
        f"{model.max_iter}), alpha or tol."
    )
