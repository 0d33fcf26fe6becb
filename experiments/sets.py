"""Data sets of the experiments: .npz files of a folder, or downloads from OpenML.

A file has X, y and n_train, or the parts of a CSR matrix (data, indices, indptr, shape) for X. The
first n_train rows are the official training rows; n_train = 0 says that there is no official split.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Split:
    """Training rows and test rows with their labels."""

    X: Any
    y: Array
    X_test: Any
    y_test: Array

    def score(self, predicted: Array) -> float:
        """Return the accuracy on the test rows."""
        return float(np.mean(predicted == self.y_test))


@dataclass(frozen=True)
class _Remote:
    """A data set of OpenML, and the shape that identifies it."""

    name: str
    version: int
    rows: int
    columns: int
    n_train: int = 0


# Sets that OpenML has with the same rows and columns; others differ in order or coding.
_OPENML = {
    "mnist": _Remote("mnist_784", 1, 70000, 784, 60000),
    "fashion_mnist": _Remote("Fashion-MNIST", 1, 70000, 784, 60000),
    "spambase": _Remote("spambase", 1, 4601, 57),
    "skinseg": _Remote("skin-segmentation", 1, 245057, 3),
}


@dataclass(frozen=True, eq=False)
class DataSet:
    """Rows and labels; the first n_train rows are the official training rows, if any."""

    name: str
    X: Any
    y: Array
    n_train: int = 0

    def split(self, train: int | None = None, test: int | None = None, *, seed: int = 0) -> Split:
        """Return the official split, or a random half for training.

        With ``train`` or ``test``, so many of them, drawn without replacement by the seed and in
        their order in the file; all, where there are no more.
        """
        rng = np.random.default_rng(seed)
        if self.n_train:
            first, second = np.arange(self.n_train), np.arange(self.n_train, len(self.y))
        else:
            first, second = np.array_split(
                rng.permutation(len(self.y)), [_share(len(self.y), train, test)]
            )
        rows, held_out = _sample_indices(rng, first, train), _sample_indices(rng, second, test)
        return Split(self.X[rows], self.y[rows], self.X[held_out], self.y[held_out])


def _share(rows: int, train: int | None, test: int | None) -> int:
    """Return the number of training rows of a set without a split: half, or as many as given."""
    half = (rows + 1) // 2
    if train is not None and train > half:
        return min(train, rows - min(test or 1, rows - 1))
    if test is not None and test > rows - half:
        return max(rows - test, 1)
    return half


def _sample_indices(rng: np.random.Generator, places: Array, count: int | None) -> Array:
    if count is None or count >= len(places):
        return np.sort(places)
    return np.sort(rng.choice(places, count, replace=False))


def histograms(split: Split) -> Split:
    """Scale rows to sum 1, in float32; zero rows stay."""

    def scaled(X: Any) -> Any:
        X = X.astype(np.float32)
        totals = np.maximum(np.asarray(X.sum(axis=1)).reshape(-1, 1), np.finfo(np.float32).tiny)
        return sp.csr_array(X.multiply(1 / totals)) if sp.issparse(X) else X / totals

    return Split(scaled(split.X), split.y, scaled(split.X_test), split.y_test)


class Sets:
    """The available data sets, read on first use and cached."""

    def __init__(self, folder: Path | None = None, *, download: bool = False) -> None:
        self.folder, self.download = folder, download
        self._kept: dict[str, DataSet | str] = {}

    def __getitem__(self, name: str) -> DataSet:
        found = self._find(name)
        if isinstance(found, str):
            raise KeyError(found)
        return found

    def why_absent(self, name: str) -> str:
        """Return the reason why a set is not available, without reading it; "" when it is."""
        if name not in self._kept and self._path(name) is not None:
            return ""
        found = self._find(name)
        return found if isinstance(found, str) else ""

    def _path(self, name: str) -> Path | None:
        path = None if self.folder is None else self.folder / f"{name}.npz"
        return path if path is not None and path.is_file() else None

    def _find(self, name: str) -> DataSet | str:
        if name not in self._kept:
            self._kept[name] = self._load(name)
        return self._kept[name]

    def _load(self, name: str) -> DataSet | str:
        path = self._path(name)
        if path is not None:
            return _read(name, path)
        missing = (
            f"{name}.npz is not in {self.folder.name}/"
            if self.folder
            else f"{name}.npz: no folder of data was given"
        )
        if not self.download:
            return missing
        return (
            _fetch(name)
            if name in _OPENML
            else f"{missing}, and OpenML does not have it in this form"
        )


def _read(name: str, path: Path) -> DataSet:
    try:
        return _parts_of(name, path)
    except (BadZipFile, EOFError, OSError) as error:
        raise ValueError(f"{path.name} cannot be read ({error}): bring it anew.") from error


def _parts_of(name: str, path: Path) -> DataSet:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as parts:
        names = set(parts.files)
        missing = {"y", "n_train"} - names or ({"X"} - names if "data" not in names else set())
        if missing:
            raise ValueError(
                f"{path.name} has no {sorted(missing)[0]!r}: it needs X (or CSR parts), y and "
                "n_train."
            )
        X = parts["X"] if "X" in names else _csr(parts)
        found = DataSet(name, X, parts["y"], int(parts["n_train"]))
    if X.shape[0] != len(found.y):
        raise ValueError(f"{path.name} has {X.shape[0]:,} rows, and {len(found.y):,} labels.")
    return found


def _csr(parts: Any) -> sp.csr_array:
    return sp.csr_array(
        (parts["data"], parts["indices"], parts["indptr"]), shape=tuple(parts["shape"])
    )


def _fetch(name: str) -> DataSet | str:
    from sklearn.datasets import fetch_openml

    remote = _OPENML[name]
    try:
        found = fetch_openml(
            remote.name, version=remote.version, as_frame=False, parser="liac-arff"
        )
    except (OSError, ValueError) as error:
        return f"{name}: OpenML did not give {remote.name} ({error})"
    if found.data.shape != (remote.rows, remote.columns):
        seen = " x ".join(f"{size:,}" for size in found.data.shape)
        return f"{name}: OpenML's {remote.name} is {seen}, not {remote.rows:,} x {remote.columns:,}"
    return DataSet(
        name, found.data, np.unique(found.target, return_inverse=True)[1], remote.n_train
    )
