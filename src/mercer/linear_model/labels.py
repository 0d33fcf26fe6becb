"""Class labels: their weights, and streams whose rows are weighted by them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mercer.data import Chunk, Stream
from mercer.data.batches import Labels
from mercer.linear_model.normal_equations import Array
from mercer.stats.class_sums import ClassSums
from mercer.stats.reduce import fold


class Reweighted(Stream):
    """A stream whose rows count as often as the weight of their class says, times their own
    weight.
    """

    kind = "reweighted"

    def __init__(self, stream: Stream, weights: dict[Any, float]) -> None:
        super().__init__(stream.name)
        self.stream, self.weights = stream, weights
        for name in ("width", "dtype", "sparse", "columns", "target", "seeks", "lazy"):
            setattr(self, name, getattr(stream, name))
        self.weight = "class_weight"

    @property
    def rows(self) -> int | None:  # type: ignore[override]
        return self.stream.rows

    def chunks(self, start: int = 0, rows: int = 1) -> Iterator[Chunk]:
        for chunk in self.stream.chunks(start, rows):
            assert chunk.y is not None
            own = np.array([self.weights.get(label, 1.0) for label in chunk.y.tolist()])
            weight = own if chunk.weight is None else own * chunk.weight
            yield Chunk(chunk.X, chunk.y, weight, chunk.start)

    def where(self, row: int) -> str:
        return self.stream.where(row)

    def held(self, start: int, stop: int) -> dict[str, Any]:
        return self.stream.held(start, stop)

    def holding(self, held: dict[str, Any], first: int) -> Reweighted:
        return Reweighted(self.stream.holding(held, first), self.weights)

    def files(self) -> list[dict[str, Any]]:
        return self.stream.files()

    def record_files(self) -> None:
        self.stream.record_files()

    def require_same_files(self, error: Exception | None = None) -> None:
        self.stream.require_same_files(error)

    def fingerprint(self) -> dict[str, Any]:
        return {
            **self.stream.fingerprint(),
            "class_weight": {repr(k): v for k, v in self.weights.items()},
        }


def count_classes(stream: Stream) -> ClassSums:
    """The labels of a stream and how many rows have each, by their weights: a pass over the
    rows.
    """
    return fold(Labels(stream), ClassSums())


def given_weights(who: str, given: Any) -> dict[Any, float] | None:
    """A dictionary label -> weight as one of finite numbers of at least 0; None for None and
    "balanced", which say no numbers.
    """
    if given is None or given == "balanced":
        return None
    if not isinstance(given, dict):
        raise ValueError(
            f"{who}: class_weight must be None, 'balanced' or a dictionary label -> weight, got "
            f"{given!r}."
        )
    for label, weight in given.items():
        if not (np.isreal(weight) and 0 <= weight < np.inf):
            raise ValueError(
                f"{who}: class_weight needs finite numbers of at least 0, got {weight!r} for the "
                f"label {label!r}."
            )
    return {label: float(weight) for label, weight in given.items()}


def balanced_weights(found: ClassSums) -> dict[Any, float]:
    """n/(classes n_c) for each class that has rows of a weight above 0, by weights of rows."""
    counted = {
        label: n
        for label, n in zip(found.classes.tolist(), found.counts.tolist(), strict=True)
        if n
    }
    return {label: sum(counted.values()) / (len(counted) * n) for label, n in counted.items()}


def unweighted(counts: Array, weights: list[float]) -> float:
    """Rows of all classes, from their weighted counts; rows of a class of weight 0 take no part."""
    return float(
        sum(
            count / weight for count, weight in zip(counts.tolist(), weights, strict=True) if weight
        )
    )


def aligned(classes: Array, parts: Any) -> tuple[Array, Array]:
    """(counts, sums) of ClassSums in the order of these classes; 0 for those that they have not
    seen.
    """
    counts, sums = (
        np.zeros(len(classes)),
        np.zeros((len(classes), parts.sums.shape[1] if parts.sums.size else 0)),
    )
    if len(parts.classes):
        places = np.searchsorted(classes, parts.classes)
        counts[places], sums[places] = parts.counts, parts.sums
    return counts, sums


def probabilities(scores: Array) -> Array:
    """1/(1 + exp(-f)) of each class, divided by their sum. Two classes have one score, f of the
    second, and the first has -f.
    """
    F = np.hstack([-scores, scores]) if scores.shape[1] == 1 else scores
    logs = -np.logaddexp(0.0, -F)
    P = np.exp(logs - logs.max(axis=1, keepdims=True))  # so that not all of them are 0
    return P / P.sum(axis=1, keepdims=True)
