"""ClassSums: how many rows each class has, and the sum of their features. All that one-against-all
least squares needs beside Moments.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from mercer import ops
from mercer.errors import RowError
from mercer.maps.block import Block, matrix
from mercer.parallel.threads import share, spans
from mercer.parallel.tile_size import PANEL, Cost, most_classes
from mercer.stats.basic import Array, State, frequency_weights
from mercer.validation.rows import first_missing

_KINDS = {bool: "number", int: "number", float: "number", str: "word", bytes: "bytes"}


class ClassSums:
    """n_c = sum w and s_c = sum w z over the rows of each class c, in float64; classes are found as
    they come.

    Labels are numbers or words of any dtype. For the target 1 in class c and 0 elsewhere, sum w (z
    - mean)(y - mean)' is s_c - n_c mean.
    """

    anywhere = True  # blocks are summed where they are

    def __init__(self) -> None:
        self._places: dict[Any, int] = {}  # label -> row of the counts and sums
        self._kind: str | None = None  # what all labels are
        self._dtype: np.dtype[Any] | None = None  # of the labels as they came
        self._counts: Array = np.empty(0)
        self._sums: Array = np.empty((0, 0))

    def add(
        self, block: Block, y: Array | None = None, weight: Array | None = None, start: int = 0
    ) -> None:
        n, D = block.shape
        labels = np.asarray(y)
        if y is None or labels.shape != (n,):
            raise ValueError(
                f"ClassSums need a label for each of {n} rows, got "
                f"{'none' if y is None else labels.shape}."
            )
        w = frequency_weights(n, weight)
        missing = first_missing(labels)
        if missing is not None:
            raise RowError(
                missing[0],
                f"Every row needs a label, got {missing[2]} at",
                ". Drop such rows first.",
            ).at(start)
        if n == 0:
            return
        places = self._find(labels, start)
        self._grow(D)
        self._counts += np.bincount(places, weights=w, minlength=len(self._places))
        found, codes = np.unique(places, return_inverse=True)
        self._sums[found] += _sums(matrix(block), w, codes, len(found))

    @property
    def classes(self) -> Array:
        """The labels, sorted, in the dtype in which they came."""
        return np.array(self._sorted()[0], dtype=self._dtype)

    @property
    def counts(self) -> Array:
        """Rows of each class, by their weights, in the order of classes."""
        return self._counts[self._sorted()[1]]

    @property
    def sums(self) -> Array:
        """sum w z of each class, a row for each, in the order of classes."""
        return self._sums[self._sorted()[1]]

    def __add__(self, other: ClassSums) -> ClassSums:
        merged = copy.deepcopy(self)
        merged += other
        return merged

    def __iadd__(self, other: ClassSums) -> ClassSums:
        if not other._places:
            return self
        if self._kind not in (None, other._kind):
            raise ValueError(_mixed(next(iter(self._places)), next(iter(other._places)), ""))
        if self._places and self._sums.shape[1] != other._sums.shape[1]:
            raise ValueError(
                f"Sums of {self._sums.shape[1]} and {other._sums.shape[1]} columns do not merge."
            )
        self._kind = other._kind
        assert other._dtype is not None
        self._widen(other._dtype)
        places = [self._places.setdefault(label, len(self._places)) for label in other._places]
        self._grow(other._sums.shape[1])
        self._counts[places] += other._counts
        self._sums[places] += other._sums
        return self

    def state(self) -> State:
        """Arrays and plain values that from_state makes the same sums of."""
        labels = [label.hex() if isinstance(label, bytes) else label for label in self._places]
        facts = {
            "labels": labels,
            "kind": self._kind,
            "dtype": None if self._dtype is None else self._dtype.str,
        }
        return State({"counts": self._counts, "sums": self._sums}, facts)

    def from_state(self, state: State) -> ClassSums:
        """Sums with that state."""
        made = ClassSums()
        labels = [
            bytes.fromhex(label) if state.facts["kind"] == "bytes" else label
            for label in state.facts["labels"]
        ]
        made._places = {label: place for place, label in enumerate(labels)}
        made._kind = state.facts["kind"]
        made._dtype = None if state.facts["dtype"] is None else np.dtype(state.facts["dtype"])
        made._counts, made._sums = state.arrays["counts"], state.arrays["sums"]
        return made

    def _sorted(self) -> tuple[list[Any], list[int]]:
        if not self._places:
            raise ValueError("These ClassSums have not seen a row.")
        labels = sorted(self._places)
        return labels, [self._places[label] for label in labels]

    def _find(self, labels: Array, start: int) -> Array:
        """The place of each label; new ones are given the next places."""
        if labels.dtype.kind == "O":
            firsts: dict[Any, int] = {}
            codes = np.array(
                [
                    firsts.setdefault(_plain(label, row + start), len(firsts))
                    for row, label in enumerate(labels)
                ]
            )
            rows = np.unique(codes, return_index=True)[1]
            known = list(firsts)
        else:
            values, rows, codes = np.unique(labels, return_index=True, return_inverse=True)
            known = [
                _plain(value, row + start) for value, row in zip(values.tolist(), rows, strict=True)
            ]
        for label, row in zip(known, rows, strict=True):
            kind = _KINDS[type(label)]
            if self._kind not in (None, kind):
                raise ValueError(_mixed(next(iter(self._places)), label, f" at row {row + start}"))
            self._kind = kind
            self._places.setdefault(label, len(self._places))
        self._widen(labels.dtype)
        return np.array([self._places[label] for label in known])[codes]

    def _widen(self, dtype: np.dtype[Any]) -> None:
        if self._dtype is None:
            self._dtype = dtype
        elif self._dtype != dtype:
            self._dtype = (
                np.dtype(object)
                if "O" in self._dtype.kind + dtype.kind
                else np.result_type(self._dtype, dtype)
            )

    def _grow(self, D: int) -> None:
        classes = len(self._places)
        if classes > most_classes(D):
            raise ValueError(
                f"There are more than {most_classes(D)} different labels: numbers to be "
                "predicted rather than classes? Use a regressor."
            )
        if len(self._counts) and self._sums.shape[1] != D:
            raise ValueError(f"Sums of {self._sums.shape[1]} columns do not take rows of {D}.")
        known = len(self._counts)
        if classes > known:
            self._counts = np.concatenate([self._counts, np.zeros(classes - known)])
            self._sums = np.concatenate(
                [self._sums.reshape(known, D), np.zeros((classes - known, D))]
            )


def _sums(rows: Any, w: Array, codes: Array, classes: int) -> Array:
    """sum w z over the rows of each code."""
    from scipy.sparse import csr_array

    n, D = rows.shape
    if ops.is_device(rows):
        weights = np.zeros((n, classes))
        weights[np.arange(n), codes] = w
        return np.asarray(ops.beside(weights, rows).T @ rows.astype(np.float64))
    chosen = csr_array((w, codes, np.arange(n + 1)), shape=(n, classes)).T.tocsr()
    if hasattr(rows, "indptr"):
        return (chosen @ rows.astype(np.float64)).toarray()
    sums = np.empty((classes, D))

    def work(panel: slice) -> None:
        sums[:, panel] = chosen @ rows[:, panel].astype(np.float64)

    share(work, list(spans(D, PANEL)), Cost(8.0 * D, 0.0), n)
    return sums


def _plain(label: Any, row: int) -> Any:
    """A label as a plain Python value."""
    label = label.item() if isinstance(label, np.generic) else label
    if type(label) not in _KINDS:
        raise ValueError(
            f"Labels must be numbers or words, got {label!r} of type {type(label).__name__} at "
            f"row {row}."
        )
    return label


def _mixed(one: Any, other: Any, where: str) -> str:
    return (
        f"Labels that are numbers and labels that are words cannot be put in order: got {one!r}, "
        f"and {other!r}{where}. "
        "Make them all words (y.astype(str)), or all numbers."
    )
