"""Shares of columns in a model with a learned metric, measured on the rows of a sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from mercer.evaluation.convergence import with_seed
from mercer.linear_model.base import KernelModel
from mercer.linear_model.metric import has_unlearned_metric
from mercer.report.data import SampleSplit, ignored_warnings, split_steps

SHOWN_COLUMNS = 12


def measure_importances(
    model: Any, sample: SampleSplit, names: Sequence[object] | None, seed: int
) -> list[tuple[str, float]] | None:
    """Fit a model to the training rows and return its columns with their importances.

    The largest SHOWN_COLUMNS of them, in falling order. None for a model that learns no metric, or
    whose metric is that of other features than the columns.
    """
    steps, last = split_steps(model)
    learns = isinstance(last, KernelModel) and has_unlearned_metric(last.feature_map)
    if steps or not learns:
        return None
    with ignored_warnings():
        fitted = with_seed(clone(last), seed).fit(sample.train, sample.train_y)
    shares = getattr(fitted, "importances_", None)
    if shares is None:
        return None
    labels = [f"x{i}" for i in range(len(shares))] if names is None else [*map(str, names)]
    order = np.argsort(-shares, kind="stable")[:SHOWN_COLUMNS]
    return [(labels[i], float(shares[i])) for i in order]
