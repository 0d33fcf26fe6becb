"""What a fitted model knows of its errors: the posterior, and scores of rows that were left out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mercer._typing import Array
from mercer.data import Stream
from mercer.data.batches import Features, Rows, features
from mercer.data.row_keys import fold_numbers, row_keys
from mercer.linear_model.cross_validation import (
    FEW_ROWS,
    FOLDS,
    LOO_FEATURES,
    Folds,
    HeldOutFold,
    concatenate_keys,
)
from mercer.linear_model.exact_variance import SAMPLE_ROWS, ExactVariance
from mercer.linear_model.left_out import (
    FEW_ROWS_FOLDS,
    LEFT_OUT_FOLDS,
    LEFT_OUT_ROWS,
    FoldModels,
    LeftOutSample,
    LeftOutScores,
)
from mercer.linear_model.normal_equations import NormalEquations
from mercer.linear_model.posterior import Posterior
from mercer.linear_model.routes import ROUTES, gram_bytes, has_few_rows
from mercer.linear_model.solvers.ridge_gram import GramDecomposition
from mercer.maps.compose import Stacked
from mercer.parallel.threads import row_slices
from mercer.parallel.tile_size import format_bytes
from mercer.stats.basic import Reservoir
from mercer.stats.reduce import accumulate

_SAMPLE_TILE = 512  # rows of the sample whose features are in memory
_SCORES = 4_000_000  # of left-out rows of a classifier, all classes together
_LEAST_ROWS = 10_000  # whatever the number of classes


def measure_uncertainty(model: Any, stream: Stream) -> tuple[Posterior, FoldModels, LeftOutSample]:
    """Compute the posterior of a fitted ridge model, and scores of rows by models without them.

    Passes over the rows: the normal equations of folds, unless the fit has them; a sample of rows
    for the exact kernel; scores of left-out rows.

    Parameters
    ----------
    model : KernelRegressor or KernelClassifier
        Fitted with squared loss, penalty "l2" and no principal components.
    stream : Stream
        The training rows.

    Returns
    -------
    posterior : Posterior
    models : FoldModels
        Without each fold.
    sample : LeftOutSample
        Scores of rows that were left out.
    """
    fitted, alpha = model.feature_map_, model.alpha_
    if not alpha > 0:
        raise ValueError(
            f"{type(model).__name__}: the standard deviation of coefficients whose prior has none "
            f"is not known: alpha is {alpha:g}. Give an alpha above 0."
        )
    rows = features(stream, fitted)
    centered = _has_exact_features(fitted)  # which have no variance beyond their own
    if _has_few_rows(model):
        decomposition, models = _models_of_rows(model, stream, rows, alpha, FEW_ROWS_FOLDS)
        posterior = Posterior.of_rows(decomposition, alpha, centered=centered)
    else:
        folds, models = _models_of_folds(model, rows, alpha, LEFT_OUT_FOLDS)
        filled = [fold for fold in folds if fold is not None]
        total = sum(filled[1:], start=filled[0])
        coef = model._fitted_predictor().coef
        posterior = Posterior.of(total, alpha, coef, centered=centered)
    if not centered:
        posterior = _with_exact_variance(posterior, model, stream)
    return posterior, models, _sample_scores(model, rows, models, posterior)


def leave_out(model: Any, stream: Stream) -> tuple[FoldModels, LeftOutSample]:
    """Score rows by models of a classifier that were fitted without them.

    Squared loss has the models of folds by subtraction from normal equations; where there are none,
    a quarter of the rows is left out of one more fit, each quarter in turn up to FEW_ROWS rows.

    Parameters
    ----------
    model : KernelClassifier
        Fitted with penalty "l2" and no principal components.
    stream : Stream
        The training rows.

    Returns
    -------
    models : FoldModels
    sample : LeftOutSample
    """
    rows = features(stream, model.feature_map_)
    route, alpha = ROUTES[model.plan_.route], model.alpha_
    if route.iterative:
        count = HeldOutFold.count
        fold = fold_numbers(concatenate_keys(stream), count)
        _require_other_rows(model, np.bincount(fold))
        used = count if len(fold) <= FEW_ROWS else 1
        fits = [route.fit_without(model, stream, fold == k) for k in range(used)]
        coef, intercept = zip(*fits, strict=True)
        models = FoldModels(np.stack(coef), np.stack(intercept), count)
    elif _has_few_rows(model):
        _, models = _models_of_rows(model, stream, rows, alpha, FOLDS)
    else:
        _, models = _models_of_folds(model, rows, alpha, FOLDS)
    return models, _sample_scores(model, rows, models)


def _has_exact_features(fitted: Any) -> bool:
    """Return whether a map has no error, or stands side by side with one that has none."""
    if isinstance(fitted, Stacked):
        return any(map(_has_exact_features, fitted.maps_))
    return fitted.rate is None


def _sample_scores(
    model: Any, rows: Features, models: FoldModels, posterior: Posterior | None = None
) -> LeftOutSample:
    classes, size = None, LEFT_OUT_ROWS
    if not model._numeric_targets:
        classes = model.classes_
        size = min(size, max(_LEAST_ROWS, _SCORES // len(classes)))
    scores = LeftOutScores(models, posterior, classes, size, model.seed_)
    return accumulate(
        rows,
        scores,
        n_jobs=model.n_jobs,
        progress=model._print_progress if model.verbose > 1 else None,
    ).result()


def _has_few_rows(model: Any) -> bool:
    """Return whether rows are few, or fewer than features, and their Gram matrix fits in memory."""
    rows, features = model.plan_.rows, model.plan_.features
    if rows is None or not (rows <= FEW_ROWS or has_few_rows(rows, features)):
        return False
    return gram_bytes(rows, features) <= model.plan_.limit


def _models_of_rows(
    model: Any, stream: Stream, rows: Features, alpha: float, count: int
) -> tuple[GramDecomposition, FoldModels]:
    """Return the decomposition of the Gram matrix of the rows, and the models without each fold."""
    decomposition = GramDecomposition.of_rows(
        model._read_blocks(rows),
        fit_intercept=model.fit_intercept,
        observations=model._count_rows(stream),
    )
    count = min(count, max(2, len(decomposition.weights)))
    fold = fold_numbers(concatenate_keys(stream), count)
    _require_other_rows(model, np.bincount(fold, decomposition.weights))
    coef, intercept = decomposition.left_out(alpha, fold, count)
    return decomposition, FoldModels(coef, intercept, count)


def _models_of_folds(
    model: Any, rows: Features, alpha: float, count: int
) -> tuple[list[NormalEquations | None], FoldModels]:
    """Return the normal equations of folds, and the models without each."""
    statistics: Any = getattr(model, "_statistics", None)
    D = rows.width
    if not isinstance(statistics, Folds):
        kind, kept = (Folds, count) if D <= LOO_FEATURES else (HeldOutFold, 2)
        needed, limit = int(8 * D**2 * (4 + 1.5 * kept)), model.plan_.limit
        if needed > limit:
            raise ValueError(
                f"{type(model).__name__}: the uncertainty of {D:,} features needs normal "
                f"equations, {format_bytes(needed)} of at most {format_bytes(limit)}. Raise "
                "max_memory, take fewer features, or leave uncertainty out."
            )
        parts: Any = [model._target_statistics() for _ in range(kept)]
        statistics = model._reduce(rows, kind(*parts), "uncertainty")
    folds = [
        None if fold is None else fold.to_host() for fold in model._normal_equations(statistics)
    ]
    _require_other_rows(model, np.array([fold.n for fold in folds if fold is not None]))
    used = 1 if isinstance(statistics, HeldOutFold) else len(folds)
    return folds, FoldModels.of(folds, alpha, statistics.count, used)


def _require_other_rows(model: Any, weights: Array) -> None:
    """Raise where all rows are in one fold, of these weights: none can be left out."""
    if np.count_nonzero(weights) < 2:
        raise ValueError(
            f"{type(model).__name__}: uncertainty is measured on rows that are left out, and all "
            "rows are equal, or in one group: give different rows, or more groups."
        )


def _with_exact_variance(posterior: Posterior, model: Any, stream: Stream) -> Posterior:
    fitted = model.feature_map_
    sample = accumulate(
        Rows(stream, fitted), Reservoir(SAMPLE_ROWS, model.seed_), n_jobs=model.n_jobs
    )
    # different rows, in the order of their keys, with the sums of their weights
    _, first, group = np.unique(row_keys(sample.rows), return_index=True, return_inverse=True)
    rows, frequencies = sample.rows[first], np.bincount(group, sample.frequencies)
    own = posterior.intercept_leverage
    leverages = np.concatenate(
        [
            posterior.leverages(fitted._transform_block(rows[part])) - own
            for part in row_slices(rows.shape[0], _SAMPLE_TILE)
        ]
    )
    exact = ExactVariance.of(
        fitted,
        rows,
        frequencies,
        alpha=posterior.alpha,
        n=posterior.n,
        degrees=posterior.degrees,
        implied=posterior.prior,
        leverages=leverages,
    )
    return replace(posterior, exact=exact)
