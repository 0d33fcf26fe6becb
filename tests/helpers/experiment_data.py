"""Small data sets with the layout of the papers', and toy papers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from experiments.records import SPLIT, Cell, Experiment, Measured, Paper, Picture, not_comparable
from experiments.running import Bench, Results, run, to_do
from experiments.sets import Sets

# name: columns, classes, whether there is an official split, what the numbers are
SHAPES = {
    "letter": (16, 4, True, "signed"),
    "satimage": (12, 4, True, "counts"),
    "splice": (20, 2, True, "signed"),
    "imageseg": (10, 4, True, "signed"),
    "shuttle": (9, 3, True, "signed"),
    "spambase": (20, 2, False, "counts"),
    "car": (6, 4, False, "counts"),
    "pageblocks": (10, 3, False, "counts"),
    "vowel": (10, 4, True, "signed"),
    "semg1": (30, 3, False, "signed"),
    "magic": (10, 2, False, "signed"),
    "skinseg": (3, 2, False, "counts"),
    "dna": (30, 3, True, "counts"),
    "mnist": (784, 4, True, "pixels"),
    "fashion_mnist": (784, 4, True, "pixels"),
    "reuters_r8": (80, 4, True, "sparse"),
    "newsgroups20": (90, 4, True, "sparse"),
    "caltech101_bow": (84, 4, True, "counts"),
}
ROWS, TRAIN = 240, 140


def write_sets(folder: Path, names=tuple(SHAPES)) -> Path:
    """Write a file for each set: rows around class means, small integers, or signed floats."""
    for name in names:
        columns, classes, split, kind = SHAPES[name]
        rng = np.random.default_rng([ord(letter) for letter in name])
        y = rng.permutation(np.arange(ROWS) % classes)
        if kind == "signed":
            X = np.tanh(
                rng.normal(size=(classes, columns))[y] + 0.5 * rng.normal(size=(ROWS, columns))
            )
        else:
            means = rng.gamma(0.3, 8.0, size=(classes, columns))[y]
            X = np.minimum(rng.poisson(means), 255).astype(
                np.uint8 if kind == "pixels" else np.uint16
            )
        n_train = TRAIN if split else 0
        if kind == "sparse":
            csr = sp.csr_array(X)
            parts = {
                "data": csr.data,
                "indices": csr.indices,
                "indptr": csr.indptr,
                "shape": np.array(csr.shape),
            }
            np.savez(folder / f"{name}.npz", y=y, n_train=n_train, **parts)
        else:
            np.savez(folder / f"{name}.npz", X=X, y=y, n_train=n_train)
    return folder


def experiment(*cells: Cell, rule=SPLIT, **how) -> Experiment:
    return Experiment("toy/table", "A table", "Table 7", cells, rule, **how)


def fixed(label: str, published: dict[str, float], **ours: float | Measured) -> Cell:
    """Return a cell with given measurements."""
    figures = {
        name: one if isinstance(one, Measured) else Measured(one) for name, one in ours.items()
    }
    columns = tuple(dict.fromkeys((*published, *figures)))
    return Cell(label, columns, lambda bench: figures, published)


def paper_of(*experiments: Experiment) -> Paper:
    return Paper("toy", "A toy", "Nobody, nowhere", experiments)


class Counted:
    """Cells that count their runs."""

    def __init__(self, *labels: str) -> None:
        self.runs: list[str] = []
        self.toy = experiment(
            *(
                Cell(label, ("x",), lambda bench, label=label: self(label), {"x": 1.0})
                for label in labels
            )
        )

    def __call__(self, label: str) -> dict[str, Measured]:
        self.runs.append(label)
        if label == "stop":
            raise KeyboardInterrupt
        if label == "bad":
            raise ValueError("a bad cell")
        return {"x": Measured.of([1.0, 2.0, 4.0], seconds=0.25)}

    def go(self, path, size="quick", toy=None) -> dict[str, Exception]:
        bench, results, paper = Bench(size, Sets()), Results.read(path), paper_of(toy or self.toy)
        return run(to_do([paper], size, bench.sets, results), bench, results)


def toy_paper() -> Paper:
    first = experiment(
        replace(
            fixed("low", {"n = 1": 90.0, "n = 10": 91.0}, **{"n = 1": 80.0, "n = 10": 91.5}),
            note="Half the rows.",
        ),
        fixed("ours", {}, **{"n = 1": Measured(95.0, 0.5, 3), "n = 10": Measured(96.0, 0.25, 3)}),
        Cell("lost", ("n = 1",), published={"n = 1": 1.0}, absent="nobody has the data"),
        picture=Picture("n", "accuracy, %", log="x"),
    )
    second = replace(
        experiment(
            fixed("a", {}, left=1e-3, right=2e-3),
            fixed("b", {}, left=3e-3),
            rule=not_comparable("a figure"),
        ),
        key="toy/heat",
        form=".1e",
        picture=Picture("side", "error", kind="heat"),
    )
    return paper_of(first, second)
