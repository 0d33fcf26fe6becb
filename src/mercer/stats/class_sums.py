"""Row counts and feature sums of each class, which one-vs-rest least squares needs with Moments."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from mercer import ops
from mercer._typing import Array, is_csr
from mercer.errors import RowError
from mercer.maps.block import Block, matrix
from mercer.parallel.threads import for_each, row_slices
from mercer.parallel.tile_size import PANEL, Cost, max_classes
from mercer.stats.base import Mergeable, State, frequency_weights
from mercer.validation.rows import first_missing

_KINDS = {bool: "number", int: "number", float: "number", str: "text", bytes: "bytes"}


class ClassSums(Mergeable):
    """n_c = sum w and s_c = sum w z over the rows of each class c, in float64.

    Labels are numbers or text of any dtype; classes are added as they occur. For the target 1 in
    class c and 0 elsewhere, sum w (z - mean)(y - mean)' is s_c - n_c mean.
    """

    accepts_device_blocks = True

    def __init__(self) -> None:
        self._index: dict[Any, int] = {}  # label -> row of the counts and sums
        self._kind: str | None = None  # of all labels
        self._dtype: np.dtype[Any] | None = None  # common dtype of the labels
        self._counts: Array = np.empty(0)
        self._sums: Array = np.empty((0, 0))

    def add(
        self, block: Block, y: Array | None = None, weight: Array | None = None, start: int = 0
    ) -> None:
        """Add the rows of a block, whose labels are y."""
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
            ).with_offset(start)
        if n == 0:
            return
        codes = self._encode(labels, start)
        self._grow(D, labels.dtype)
        self._counts += np.bincount(codes, weights=w, minlength=len(self._index))
        present, inverse = np.unique(codes, return_inverse=True)
        self._sums[present] += _sum_by_code(matrix(block), w, inverse, len(present))

    @property
    def classes(self) -> Array:
        """Sorted labels, in their common dtype."""
        return np.array(self._sorted()[0], dtype=self._dtype)

    @property
    def counts(self) -> Array:
        """Total weight of the rows of each class, in the order of ``classes``."""
        return self._counts[self._sorted()[1]]

    @property
    def sums(self) -> Array:
        """Sum w z of each class, one row per class, in the order of ``classes``."""
        return self._sums[self._sorted()[1]]

    def __iadd__(self, other: Self) -> Self:
        if not other._index:
            return self
        if self._kind not in (None, other._kind):
            raise ValueError(_mixed_kinds(next(iter(self._index)), next(iter(other._index)), ""))
        if self._index and self._sums.shape[1] != other._sums.shape[1]:
            raise ValueError(
                f"Sums of {self._sums.shape[1]} and {other._sums.shape[1]} columns do not merge."
            )
        self._kind = other._kind
        assert other._dtype is not None
        index = [self._index.setdefault(label, len(self._index)) for label in other._index]
        self._grow(other._sums.shape[1], other._dtype)
        self._counts[index] += other._counts
        self._sums[index] += other._sums
        return self

    def state(self) -> State:
        """Return the state that ``from_state`` restores."""
        labels = [label.hex() if isinstance(label, bytes) else label for label in self._index]
        values = {
            "labels": labels,
            "kind": self._kind,
            "dtype": None if self._dtype is None else self._dtype.str,
        }
        return State({"counts": self._counts, "sums": self._sums}, values)

    def from_state(self, state: State) -> ClassSums:
        """Return class sums with a given state."""
        result = ClassSums()
        labels = [
            bytes.fromhex(label) if state.values["kind"] == "bytes" else label
            for label in state.values["labels"]
        ]
        result._index = {label: row for row, label in enumerate(labels)}
        result._kind = state.values["kind"]
        result._dtype = None if state.values["dtype"] is None else np.dtype(state.values["dtype"])
        result._counts, result._sums = state.arrays["counts"], state.arrays["sums"]
        return result

    def _sorted(self) -> tuple[list[Any], list[int]]:
        if not self._index:
            raise ValueError("These ClassSums are empty: add rows first.")
        labels = sorted(self._index)
        return labels, [self._index[label] for label in labels]

    def _encode(self, labels: Array, start: int) -> Array:
        """Return the index of each label; new labels are appended."""
        if labels.dtype.kind == "O":
            first_codes: dict[Any, int] = {}
            codes = np.array(
                [
                    first_codes.setdefault(_to_python(label, row + start), len(first_codes))
                    for row, label in enumerate(labels)
                ]
            )
            rows = np.unique(codes, return_index=True)[1]
            distinct = list(first_codes)
        else:
            values, rows, codes = np.unique(labels, return_index=True, return_inverse=True)
            distinct = [
                _to_python(value, row + start)
                for value, row in zip(values.tolist(), rows, strict=True)
            ]
        for label, row in zip(distinct, rows, strict=True):
            kind = _KINDS[type(label)]
            if self._kind not in (None, kind):
                raise ValueError(
                    _mixed_kinds(next(iter(self._index)), label, f" at row {row + start}")
                )
            self._kind = kind
            self._index.setdefault(label, len(self._index))
        return np.array([self._index[label] for label in distinct])[codes]

    def _grow(self, D: int, dtype: np.dtype[Any]) -> None:
        """Allocate rows for the new labels; promote the common dtype of all labels."""
        if self._dtype is None:
            self._dtype = dtype
        elif self._dtype != dtype:
            self._dtype = np.result_type(self._dtype, dtype)
        classes, allocated = len(self._index), len(self._counts)
        if classes > max_classes(D):
            raise ValueError(
                f"The target has more than {max_classes(D)} distinct labels. Use a regressor if "
                "it is a number to be predicted."
            )
        if allocated and self._sums.shape[1] != D:
            raise ValueError(f"Sums of {self._sums.shape[1]} columns do not accept rows of {D}.")
        if classes > allocated:
            new = classes - allocated
            self._counts = np.concatenate([self._counts, np.zeros(new)])
            self._sums = np.concatenate([self._sums.reshape(allocated, D), np.zeros((new, D))])


def _sum_by_code(rows: Any, w: Array, codes: Array, classes: int) -> Array:
    """Return sum w z over the rows of each code."""
    from scipy.sparse import csr_array

    n, D = rows.shape
    if ops.is_device(rows):
        weights = np.zeros((n, classes))
        weights[np.arange(n), codes] = w
        return np.asarray(ops.asarray_like(weights, rows).T @ rows.astype(np.float64))
    indicator = csr_array((w, codes, np.arange(n + 1)), shape=(n, classes)).T.tocsr()
    if is_csr(rows):
        return (indicator @ rows.astype(np.float64)).toarray()
    sums = np.empty((classes, D))

    def work(panel: slice) -> None:
        sums[:, panel] = indicator @ rows[:, panel].astype(np.float64)

    for_each(work, list(row_slices(D, PANEL)), Cost(8.0 * D, 0.0), n)
    return sums


def _to_python(label: Any, row: int) -> Any:
    """Return a label as a Python scalar; raise where it is neither a number nor text."""
    label = label.item() if isinstance(label, np.generic) else label
    if type(label) not in _KINDS:
        raise ValueError(
            f"Labels must be numbers or text, got {label!r} of type {type(label).__name__} at row "
            f"{row}."
        )
    return label


def _mixed_kinds(first: Any, second: Any, where: str) -> str:
    return (
        f"Labels that are numbers and labels that are text cannot be sorted together: got "
        f"{first!r}, and {second!r}{where}. Convert all to text (y.astype(str)) or to numbers."
    )
