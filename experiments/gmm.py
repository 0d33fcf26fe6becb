"""Linearised GMM kernels and normalised random Fourier features on fifteen data sets.

What the published numbers say of the protocol: GMM on data as they are; RBF is exp(-gamma (1 -
rho)); linear is LIBLINEAR with the hinge loss on rows of norm 1 without a bias; the best C and
gamma are those on the test rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from experiments.gmm_codes import CODES
from experiments.gmm_machines import (
    SQUARED,
    GridResult,
    gmm_grams,
    kernel_grid,
    linear_grid,
    rbf_grams,
)
from experiments.gmm_rows import ABSENT, ROWS, Rows
from experiments.gmm_variances import VARIANCES
from experiments.records import RANDOM, Cell, Experiment, Measured, Paper
from experiments.running import Bench
from experiments.sets import Split

Grid = Callable[[Rows, Split, Bench], GridResult]

GAMMAS = (
    0.1,
    0.2,
    0.4,
    1.0,
    2.0,
    4.0,
    5.0,
    8.0,
    11.0,
    15.0,
    20.0,
    35.0,
    45.0,
    70.0,
    100.0,
    200.0,
    500.0,
)
POWERS = (0.25, 0.5, 2.0, 4.0, 8.0)
_DECADES = (0.1, 1.0, 10.0, 100.0, 1000.0, 1e4, 1e5)
CROSS = ", cross-validated"


def _folds(bench: Bench) -> int:
    """Return the maximal number of training rows for cross-validation."""
    return bench.pick(60, 600, 5000)


def _linear(loss: str, row: Rows, split: Split, bench: Bench) -> GridResult:
    Cs = bench.pick((1.0, 10.0), (1.0, 10.0) if row.large else _DECADES[:5], (0.01, *_DECADES))
    return linear_grid(split, Cs, _folds(bench), loss)


def _rbf(row: Rows, split: Split, bench: Bench) -> GridResult:
    published: tuple[float, ...] = (row.gamma,) if row.gamma else ()
    gammas: tuple[float, ...] = (0.2, 1.0, 5.0, 20.0, 100.0, *published)
    Cs: tuple[float, ...] = _DECADES[1:5]
    if row.large:
        gammas, Cs = published, _DECADES[2:4]
    if row.wide:
        gammas, Cs = (1.0, 10.0, 100.0, *published), _DECADES[4:]
    gammas, Cs = bench.pick(((5.0,), (1.0, 10.0)), (gammas, Cs), ((*GAMMAS, *published), _DECADES))
    return kernel_grid(rbf_grams(split, sorted(set(gammas))), split, Cs, _folds(bench))


def _gmm(row: Rows, split: Split, bench: Bench) -> GridResult:
    Cs = bench.pick((1.0, 10.0), _DECADES[2:4] if row.large else _DECADES[:5], _DECADES)
    return kernel_grid(gmm_grams(split), split, Cs, _folds(bench))


def _pgmm(row: Rows, split: Split, bench: Bench) -> GridResult:
    Cs = bench.pick((10.0,), _DECADES[1:4], _DECADES)
    return kernel_grid(
        gmm_grams(split, bench.pick((0.5,), (0.5, 2.0, 4.0), POWERS)), split, Cs, _folds(bench)
    )


GRIDS: dict[str, Grid] = {
    "linear": partial(_linear, "hinge"),
    "linear, squared hinge": partial(_linear, SQUARED),
    "RBF": _rbf,
    "GMM": _gmm,
    "pGMM": _pgmm,
}
PAPERS = ("linear", "RBF", "GMM")


def _accuracies(row: Rows, name: str, bench: Bench) -> dict[str, Measured]:
    """Measure accuracies over draws of the split, where it is random.

    Table 4 has errors in place of accuracies.
    """
    found = [GRIDS[name](row, row.split(bench, seed), bench) for seed in range(row.draws(bench))]
    best = Measured.of([one.best for one in found])
    figures = {name: best, name + CROSS: Measured.of([one.chosen for one in found])}
    return figures | (
        {f"{name}, error": Measured.of([100 - one.best for one in found])} if row.table == 3 else {}
    )


def _cell(row: Rows, name: str) -> Cell:
    columns = (name, name + CROSS, *((f"{name}, error",) if row.table == 3 else ()))
    published = {}
    if row.published and name in PAPERS:
        published = {name: row.published[PAPERS.index(name)]}
    if (row.name, name) == ("M-Rotate", "RBF"):
        published |= {f"{name}, error": 10.30}
    return Cell(
        row.name,
        columns,
        partial(_accuracies, row, name),
        published,
        needs=(row.data,),
        ours=name not in PAPERS,
        rule=row.rule,
        note=row.note,
    )


def _table(number: int, title: str, source: str, about: str) -> Experiment:
    cells = [
        _cell(row, name)
        for row in ROWS.values()
        if row.table == number
        for name in GRIDS
        if name in (*PAPERS, *row.variants)
    ]
    cells += [
        Cell(
            name,
            PAPERS,
            published=dict(zip(PAPERS, numbers[1:], strict=False)),
            absent="the data cannot be had",
        )
        for name, numbers in ABSENT.items()
        if numbers[0] == number
    ]
    return Experiment(
        f"gmm/table{number}", title, source, tuple(cells), RANDOM, about=f"{about} {_ABOUT}"
    )


_ABOUT = (
    "linear, RBF, GMM: the best C and gamma on the test rows, as the paper has it; "
    "cross-validated: three folds of at most 600 training "
    "rows (RBF's grid has the published gamma, which the paper found on test rows, and Letter "
    "and MNIST no other). linear is LIBLINEAR "
    "with the hinge loss, which is what the published numbers are; the squared hinge is mostly "
    "better. pGMM is "
    "GMM with its best power among 0.5, 2 and 4. Rows without a published number are in the "
    "paper, and not in our list of its numbers."
)

TABLES = (
    _table(
        1,
        "UCI data",
        "Table 1",
        "Official splits for Splice, Satimage, ImageSeg and Shuttle500 (1 point allowed), random "
        "ones elsewhere (2.5 points; 3 draws "
        "where a number is published). Magic and SkinSeg10k with 1500 training rows, PageBlocks "
        "with 1000 at standard size; C to 1e5 for "
        "RBF on SpamBase, PageBlocks and Shuttle500.",
    ),
    _table(
        2,
        "LIBSVM data",
        "Table 2",
        "The official split; RBF with the published gamma at standard size.",
    ),
    _table(
        3,
        "MNIST and its variations",
        "Tables 3 and 4",
        "Made from MNIST by seed 0: M-Basic, random rows; M-Rotate, each image turned by a "
        "uniform angle; M-Rand, the larger of image "
        "and uniform noise, pixel by pixel. 12,000 training rows as in the paper, 3000 test rows "
        "of its 50,000, and RBF with the "
        "published gamma, at standard size. Table 4 has errors, of which we know one: 10.30 "
        "where Table 3 has 89.68.",
    ),
)

PAPER = Paper(
    "gmm",
    "Linearized GMM kernels and normalized random Fourier features",
    "Li, KDD 2017, arXiv 1605.05721",
    (*TABLES, *VARIANCES, *CODES),
    "The paper finds GMM better than the best RBF kernel on 38 of 51 sets, and hashes better "
    "than as many Fourier features. The latter "
    "holds here for hashes of 8 bits on the sets of Figures 7 to 9; on all of shuttle and "
    "skinseg, with few columns, Fourier features "
    "are behind at k = 16 and ahead at k = 64.",
)
