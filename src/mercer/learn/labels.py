"""Class labels: their weights, and streams whose rows are weighted by them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from mercer.learn.normal import Array
from mercer.streams import Chunk, Stream


class Reweighted(Stream):
    """A stream whose rows count as often as the weight of their class says, times their own weight."""

    kind = "reweighted"

    def __init__(self, stream: Stream, weights: dict[Any, float]) -> None:
        super().__init__(stream.name)
        self.stream, self.weights = stream, weights
        for name in ("width", "rows", "dtype", "sparse", "columns", "target"):
            setattr(self, name, getattr(stream, name))
        self.weight = "class_weight"

    def chunks(self, start: int = 0, rows: int = 1) -> Iterator[Chunk]:
        for chunk in self.stream.chunks(start, rows):
            assert chunk.y is not None
            own = np.array([self.weights.get(label, 1.0) for label in chunk.y.tolist()])
            weight = own if chunk.weight is None else own * chunk.weight
            yield Chunk(chunk.X, chunk.y, weight, chunk.start)

    def where(self, row: int) -> str:
        return self.stream.where(row)

    def fingerprint(self) -> dict[str, Any]:
        return {**self.stream.fingerprint(), "class_weight": {repr(k): v for k, v in self.weights.items()}}


def class_weights(who: str, given: Any, stream: Stream) -> dict[Any, float] | None:
    """The weight of each label: None, a dictionary, or "balanced", n/(classes n_c), which costs a pass over the rows."""
    if given is None:
        return None
    if isinstance(given, dict):
        return {label: float(weight) for label, weight in given.items()}
    if given != "balanced":
        raise ValueError(
            f"{who}: class_weight must be None, 'balanced' or a dictionary label -> weight, got {given!r}."
        )
    counts: Counter[Any] = Counter()
    for chunk in stream.chunks():
        assert chunk.y is not None
        weight = np.ones(len(chunk)) if chunk.weight is None else chunk.weight
        for label, w in zip(chunk.y.tolist(), weight.tolist(), strict=True):
            counts[label] += w
    total = sum(counts.values())
    return {label: total / (len(counts) * count) for label, count in counts.items() if count}


def aligned(classes: Array, parts: Any) -> tuple[Array, Array]:
    """(counts, sums) of ClassSums in the order of these classes; 0 for those that they have not seen."""
    counts, sums = np.zeros(len(classes)), np.zeros((len(classes), parts.sums.shape[1] if parts.sums.size else 0))
    if len(parts.classes):
        places = np.searchsorted(classes, parts.classes)
        counts[places], sums[places] = parts.counts, parts.sums
    return counts, sums
