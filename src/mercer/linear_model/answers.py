"""What a model says of the rows of a stream, into a file as it comes: predictions, and beside them
scores or probabilities.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from mercer.data import open_sink
from mercer.errors import ParameterError, Setting
from mercer.linear_model.labels import probabilities


def write_answers(
    model: Any, X: Any, path: str | os.PathLike[str], beside: str | None = None
) -> int:
    """Write the predictions for X to a file, whole or not at all; how many there are.

    Parameters
    ----------
    model : fitted KernelRegressor or KernelClassifier
    X : array-like, sparse matrix, data frame, path or stream
    path : path
        ``.parquet``, ``.csv``, ``.tsv`` or ``.npy``: a column "prediction", one for each output
        when there are several.
    beside : None, "score" or "probability"
        Columns that follow, for a classifier: score_<class> (for two classes that of the second
        alone, which is above 0 for it), or probability_<class>, where the model has
        ``predict_proba``.
    """
    names = model._names("prediction")
    types: dict[str, Any] = dict.fromkeys(names, model._kind())
    more = [] if beside is None else [f"{beside}_{label}" for label in _columns(model, beside)]
    types |= dict.fromkeys(more, np.dtype(np.float64))
    with open_sink(path, types) as sink:
        for scores in model._scores(X)[1]:
            said = model._decoded(scores)
            shown = (
                {"score": scores.T, "probability": probabilities(scores).T}[beside]
                if beside
                else []
            )
            sink.write(dict(zip(types, [*said.reshape(len(said), -1).T, *shown], strict=True)))
    return sink.rows


def _columns(model: Any, beside: str) -> list[Any]:
    """The classes whose scores or probabilities are columns."""
    who = type(model).__name__
    if not hasattr(model, "classes_"):
        raise ValueError(f"A {who} predicts numbers: it has no {beside} of classes.")
    if beside == "probability" and not hasattr(model, "predict_proba"):
        raise ParameterError(
            "",
            f"This {who} has no probabilities, which come with ",
            Setting("loss", "'logistic'"),
            ": ask for scores, or fit it with that loss.",
        )
    classes: list[Any] = model.classes_.tolist()
    return classes[1:] if beside == "score" and len(classes) == 2 else classes
