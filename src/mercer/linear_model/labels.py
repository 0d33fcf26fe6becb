"""Class labels: counts, weights, encoding, and probabilities from scores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from scipy.special import log_expit, softmax

from mercer._typing import Array
from mercer.data import Chunk, Stream
from mercer.data.batches import Labels
from mercer.errors import ParameterError, Setting
from mercer.stats.class_sums import ClassSums
from mercer.stats.reduce import accumulate


class ClassWeightedStream(Stream):
    """A stream whose weights are those of its rows times the weights of their classes."""

    kind = "reweighted"

    def __init__(self, stream: Stream, weights: dict[Any, float]) -> None:
        super().__init__(stream.name)
        self.stream, self.weights = stream, weights
        for name in ("width", "dtype", "sparse", "columns", "schema", "target", "seeks", "lazy"):
            setattr(self, name, getattr(stream, name))
        self.weight = "class_weight"

    @property
    def rows(self) -> int | None:  # type: ignore[override]
        return self.stream.rows

    def set_rows(self, rows: int) -> None:
        self.stream.set_rows(rows)

    def chunks(self, start: int = 0, rows: int = 1) -> Iterator[Chunk]:
        for chunk in self.stream.chunks(start, rows):
            assert chunk.y is not None
            own = np.array([self.weights.get(label, 1.0) for label in chunk.y.tolist()])
            weight = own if chunk.weight is None else own * chunk.weight
            yield Chunk(chunk.X, chunk.y, weight, chunk.start)

    def where(self, row: int) -> str:
        return self.stream.where(row)

    def record_batches(self, names: Sequence[str]) -> Iterator[Any]:
        batches: Iterator[Any] = self.stream.record_batches(names)  # type: ignore[attr-defined]
        return batches

    def values_in_memory(self, start: int, stop: int) -> dict[str, Any]:
        return self.stream.values_in_memory(start, stop)

    def with_values(self, held: dict[str, Any], first: int) -> ClassWeightedStream:
        return ClassWeightedStream(self.stream.with_values(held, first), self.weights)

    def files(self) -> list[dict[str, Any]]:
        return self.stream.files()

    def record_files(self) -> None:
        self.stream.record_files()

    def require_same_files(self) -> None:
        self.stream.require_same_files()

    def fingerprint(self) -> dict[str, Any]:
        return {
            **self.stream.fingerprint(),
            "class_weight": {repr(k): v for k, v in self.weights.items()},
        }


def count_classes(stream: Stream) -> ClassSums:
    """Return the labels of a stream with the sum of weights of each: a pass over the rows."""
    return accumulate(Labels(stream), ClassSums())


def validate_class_weight(name: str, class_weight: dict[Any, Any]) -> dict[Any, float]:
    """Return a dictionary label -> weight as floats."""
    for label, weight in class_weight.items():
        if not (np.isreal(weight) and 0 <= weight < np.inf):
            raise ParameterError(
                name,
                Setting("class_weight"),
                f" needs finite numbers of at least 0, got {weight!r} for the label {label!r}.",
            )
    return {label: float(weight) for label, weight in class_weight.items()}


def balance_classes(sums: ClassSums) -> dict[Any, float]:
    """Return n/(classes n_c) for each class that has rows of weight above 0."""
    pairs = zip(sums.classes.tolist(), sums.counts.tolist(), strict=True)
    counts = {label: n for label, n in pairs if n}
    return {label: sum(counts.values()) / (len(counts) * n) for label, n in counts.items()}


def align_classes(classes: Array, parts: ClassSums) -> tuple[Array, Array]:
    """Return (counts, sums) of ClassSums in the order of these classes; 0 for absent classes."""
    counts = np.zeros(len(classes))
    sums = np.zeros((len(classes), parts.sums.shape[1] if parts.sums.size else 0))
    if len(parts.classes):
        indices = np.searchsorted(classes, parts.classes)
        counts[indices], sums[indices] = parts.counts, parts.sums
    return counts, sums


def encode_one_versus_rest(labels: Iterable[Any], classes: Array) -> Array:
    """Return +1 in the class and -1 outside, (n, classes); one column for two classes.

    For two classes it is +1 for the second.
    """
    y = np.asarray(labels)
    Y = np.where(y[:, None] == classes[None, :], 1.0, -1.0)
    return Y[:, 1:] if len(classes) == 2 else Y


def probabilities(scores: Array, loss: str) -> Array:
    """Return 1/(1 + exp(-f)) of each class, divided by their sum; softmax(f) for log loss.

    Two classes have one score, f of the second, and 1/(1 + exp(-f)) for both losses; the first has
    -f.
    """
    if loss == "log_loss" and scores.shape[1] > 1:
        return np.asarray(softmax(scores, axis=1))
    F = np.hstack([-scores, scores]) if scores.shape[1] == 1 else scores
    return np.asarray(softmax(log_expit(F), axis=1))  # of logarithms, so that not all are 0


def class_numbers(scores: Array) -> Array:
    """Return the number of the predicted class of each row, from one-versus-rest scores."""
    if scores.shape[1] == 1:
        return (scores[:, 0] > 0).astype(np.intp)
    return np.argmax(scores, axis=1)
