"""What a fitted model knows of its errors: the posterior, and scores of rows that were left out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer._typing import Array
from mercer.data import Stream
from mercer.data.batches import Features, Rows, features
from mercer.data.row_keys import fold_numbers
from mercer.linear_model.cross_validation import (
    FEW_ROWS,
    LOO_FEATURES,
    Folds,
    HeldOutFold,
    concatenate_keys,
)
from mercer.linear_model.exact_variance import SAMPLE_ROWS, ExactVariance
from mercer.linear_model.left_out import (
    FEW_ROWS_FOLDS,
    LEFT_OUT_FOLDS,
    FoldModels,
    LeftOutSample,
    LeftOutScores,
)
from mercer.linear_model.posterior import Posterior
from mercer.linear_model.routes import Problem, Route
from mercer.linear_model.solvers.ridge_gram import GramDecomposition
from mercer.parallel.threads import row_slices
from mercer.parallel.tile_size import format_bytes
from mercer.stats.basic import Reservoir
from mercer.stats.reduce import accumulate

_SAMPLE_TILE = 512  # rows of the sample whose features are in memory


class Uncertainty(NamedTuple):
    """Posterior of the coefficients, models without each fold, and the scores of left-out rows."""

    posterior: Posterior
    models: FoldModels
    sample: LeftOutSample


def measure_uncertainty(model: Any, stream: Stream, gram_route: Route) -> Uncertainty:
    """Compute the posterior of a fitted ridge model, and scores of rows by models without them.

    Passes over the rows: the normal equations of folds, unless the fit has them; a sample of rows
    for the exact kernel; scores of left-out rows.

    Parameters
    ----------
    model : KernelRegressor or KernelClassifier
        Fitted with squared loss, penalty "l2" and no principal components.
    stream : Stream
        The training rows.
    gram_route : Route
        Route by which few rows and many features are solved.
    """
    fitted, alpha = model.feature_map_, model.alpha_
    if not alpha > 0:
        raise ValueError(
            f"{type(model).__name__}: the standard deviation of coefficients whose prior has none "
            f"is not known: alpha is {alpha:g}. Give an alpha above 0."
        )
    rows = features(stream, fitted)
    centered = fitted.rate is None  # exact features have no variance beyond their own
    if _has_few_rows(model, gram_route):
        posterior, models = _of_few_rows(model, stream, rows, alpha, centered)
    else:
        posterior, models = _of_normal_equations(model, rows, alpha, centered)
    if not centered:
        posterior = _with_exact_variance(posterior, model, stream)
    classes = None if model._numeric_targets else model.classes_
    scores = LeftOutScores(models, posterior, classes, seed=model.seed_)
    sample = accumulate(rows, scores, n_jobs=model.n_jobs, progress=model._progress()).result()
    return Uncertainty(posterior, models, sample)


def _has_few_rows(model: Any, gram_route: Route) -> bool:
    """Return whether rows are few, or fewer than features, and their Gram matrix fits in memory."""
    plan = model.plan_
    few = Problem(plan.rows, plan.columns, plan.features, plan.limit)
    is_few = plan.rows is not None and plan.rows <= FEW_ROWS
    return (is_few or gram_route.applies(few)) and gram_route.memory(few) <= plan.limit


def _of_few_rows(
    model: Any, stream: Stream, rows: Features, alpha: float, centered: bool
) -> tuple[Posterior, FoldModels]:
    decomposition = GramDecomposition.of_rows(
        model._read_blocks(rows),
        fit_intercept=model.fit_intercept,
        observations=model._count_rows(stream),
    )
    count = min(FEW_ROWS_FOLDS, max(2, len(decomposition.weights)))
    fold = fold_numbers(concatenate_keys(stream), count)
    _require_other_rows(model, np.bincount(fold, decomposition.weights))
    coef, intercept = decomposition.left_out(alpha, fold, count)
    posterior = Posterior.of_rows(decomposition, alpha, centered=centered)
    return posterior, FoldModels(coef, intercept, count)


def _of_normal_equations(
    model: Any, rows: Features, alpha: float, centered: bool
) -> tuple[Posterior, FoldModels]:
    statistics: Any = getattr(model, "_statistics", None)
    D = rows.width
    if not isinstance(statistics, Folds):
        _require_memory(model, D)
        parts: Any = [model._target_statistics() for _ in range(LEFT_OUT_FOLDS)]
        empty = Folds(*parts) if D <= LOO_FEATURES else HeldOutFold(*parts[:2])
        statistics = model._reduce(rows, empty, "uncertainty")
    folds = [
        None if fold is None else fold.to_host() for fold in model._normal_equations(statistics)
    ]
    filled = [fold for fold in folds if fold is not None]
    _require_other_rows(model, np.array([fold.n for fold in filled]))
    total = sum(filled[1:], start=filled[0])
    coef = model._fitted_predictor().coef
    posterior = Posterior.of(total, alpha, coef, centered=centered)
    used = 1 if isinstance(statistics, HeldOutFold) else len(folds)
    return posterior, FoldModels.of(folds, alpha, statistics.count, used)


def _require_other_rows(model: Any, weights: Array) -> None:
    """Raise where all rows are in one fold, of these weights: none can be left out."""
    if np.count_nonzero(weights) < 2:
        raise ValueError(
            f"{type(model).__name__}: uncertainty is measured on rows that are left out, and all "
            "rows are equal, or in one group: give different rows, or more groups."
        )


def _require_memory(model: Any, D: int) -> None:
    """Raise where the normal equations of the folds do not fit in memory."""
    parts = LEFT_OUT_FOLDS if D <= LOO_FEATURES else 2
    needed, limit = int(8 * D**2 * (4 + 1.5 * parts)), model.plan_.limit
    if needed > limit:
        raise ValueError(
            f"{type(model).__name__}: the uncertainty of {D:,} features needs normal equations, "
            f"{format_bytes(needed)} of at most {format_bytes(limit)}. Raise max_memory, take "
            "fewer features, or leave uncertainty out."
        )


def _with_exact_variance(posterior: Posterior, model: Any, stream: Stream) -> Posterior:
    fitted = model.feature_map_
    sample = accumulate(
        Rows(stream, fitted), Reservoir(SAMPLE_ROWS, model.seed_), n_jobs=model.n_jobs
    )
    own = posterior.intercept_leverage
    leverages = np.concatenate(
        [
            posterior.leverages(fitted._transform_block(sample.rows[part])) - own
            for part in row_slices(sample.rows.shape[0], _SAMPLE_TILE)
        ]
    )
    exact = ExactVariance.of(
        fitted,
        sample.rows,
        sample.frequencies,
        alpha=posterior.alpha,
        n=posterior.n,
        degrees=posterior.degrees,
        leverages=leverages,
    )
    return posterior.with_exact(exact)
