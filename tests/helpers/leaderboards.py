"""A leaderboard with invented scores and seconds over real models, and rows for its report."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from mercer import (
    GCWS,
    Anchors,
    Chi2Series,
    ExpChi2,
    KernelClassifier,
    KernelRegressor,
    Nystroem,
    RandomFourier,
    RandomLaplace,
    kernels,
    write_report,
)
from mercer.model_selection.select import Entry, Leaderboard
from mercer.model_selection.summary import Comparison

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</title></style><svg onload=alert(1)>",
    "x" * 3000,
    "\u202eright to left \u05d0\u05d1\u05d2 \u0627\u0644",
    "\U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467",
    "$\\frac{1}{0}$ & &amp; \x00\x07 \ud800",
    "' onmouseover='alert(1)",
]


def rows(n: int = 240, d: int = 12, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Histograms of three classes."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    means = rng.dirichlet(np.ones(d), size=3)
    return np.stack([rng.dirichlet(40 * means[c] + 0.05) for c in y]), y


def board(
    *, numeric: bool = False, names: dict[str, str] | None = None, **changes: Any
) -> Leaderboard:
    """Twelve entries: maps, linear, an exact kernel, trees and guessing; the best map has won.

    names: other names for some entries.
    """
    model = KernelRegressor if numeric else KernelClassifier
    maps = [
        (
            "exp-chi2 gamma=2",
            ExpChi2(128, gamma=2.0, n_terms=2, poles="minimax", random_state=0),
            kernels.ExpChi2(2.0),
            0.972,
            0.41,
        ),
        (
            "fourier gamma=4",
            RandomFourier(128, gamma=4.0, random_state=0),
            kernels.Gaussian(4.0),
            0.968,
            0.12,
        ),
        ("gcws", GCWS(64, random_state=0), kernels.GMM(), 0.955, 0.09),
        ("chi2-series", Chi2Series(3), kernels.Chi2(), 0.951, 0.031),
        (
            "fourier gamma=1",
            RandomFourier(128, gamma=1.0, random_state=0),
            kernels.Gaussian(1.0),
            0.949,
            0.11,
        ),
        ("nystroem", Nystroem(32, random_state=0), kernels.Gaussian(1.0), 0.948, 0.18),
        ("anchors", Anchors(16), kernels.Chi2(), 0.947, 0.025),
        (
            "laplace",
            RandomLaplace(128, random_state=0),
            kernels.ExponentialSemigroup(1.0),
            0.91,
            0.1,
        ),
    ]
    entries = [
        Entry(
            name,
            "map",
            model(of),
            kernel,
            score,
            0.006,
            800,
            3,
            i < 3,
            0.03,
            128,
            1024.0 / (i + 1),
            seconds,
            0.01,
        )
        for i, (name, of, kernel, score, seconds) in enumerate(maps)
    ]
    entries += [
        Entry(
            "exact ExpChi2(2)",
            "exact",
            None,
            kernels.ExpChi2(2.0),
            0.974,
            0.006,
            800,
            0,
            True,
            None,
            800,
            6400.0,
            2.4,
            0.3,
        ),
        Entry(
            "gradient boosting",
            "outside",
            None,
            None,
            0.944,
            0.007,
            800,
            1,
            True,
            None,
            12,
            96.0,
            1.9,
            0.02,
        ),
        Entry(
            "linear",
            "linear",
            model(),
            kernels.Linear(),
            0.902,
            0.008,
            800,
            3,
            True,
            None,
            12,
            96.0,
            0.004,
            0.001,
        ),
        Entry("guessing", "outside", None, None, 0.34, 0.01, 800, 0, True, None, 0, 0.0, 0.0, 0.0),
    ]
    entries.sort(key=lambda one: -one.score)
    renamed = tuple(
        Entry(**{**vars(one), "name": (names or {}).get(one.name, one.name)})  # type: ignore[arg-type]
        for one in entries
    )
    given: dict[str, Any] = {
        "entries": renamed,
        "summary": "exp-chi2 gamma=2 is the best on these rows: 97.20%, 7.0 points above linear.",
        "numeric": numeric,
        "rows": 1600,
        "columns": 12,
        "seconds": 12.5,
        "winner": next(one for one in renamed if one.kind == "map"),
        "stopped": None,
        "comparisons": (
            Comparison("fourier gamma=4", 0.004, -0.003, 0.011),
            Comparison("linear", 0.07, 0.05, 0.09),
            Comparison("gradient boosting", 0.028, 0.011, 0.045),
            Comparison("guessing", 0.632, 0.61, 0.654),
        ),
        "unfinished": ("chi2-series",),
        "skipped": {
            "round 2": ("nystroem", "never started"),
            "the final": ("chi2-series", "fourier gamma=4 x256"),
        },
        "refused": {"sign-cauchy": "Its exact kernel is laborious."},
        "settings": {
            "max_seconds": 20.0,
            "max_memory": None,
            "kernels": "auto",
            "random_state": 0,
            "folds": 5,
        },
    }
    return Leaderboard(**{**given, **changes})


def written(path: Path, **more: Any) -> str:
    """The report of a leaderboard, the plain one if none is given."""
    X, y = rows()
    given = {
        "X": X,
        "y": y,
        "command": "mercer compare data.csv --target y",
        "next_command": "mercer fit data.csv --target y --map exp-chi2",
        "title": "data.csv",
        **more,
    }
    write_report(given.pop("board", None) or board(), path, **given)
    return path.read_text(encoding="utf-8")


@cache
def plain_report() -> str:
    """The page of the plain leaderboard."""
    with TemporaryDirectory() as folder:
        return written(Path(folder) / "report.html", names=[f"column {i}" for i in range(12)])


@cache
def hostile_report() -> str:
    """A page on which every word that comes from outside is hostile."""
    one = board(
        names=dict(zip([entry.name for entry in board().entries], HOSTILE, strict=False)),
        summary=HOSTILE[1],
        stopped=HOSTILE[0],
        refused={HOSTILE[2]: HOSTILE[7], **dict.fromkeys(HOSTILE[3:6], HOSTILE[3])},
        notes=tuple(HOSTILE),
        comparisons=tuple(Comparison(name, 0.1, -0.1, 0.3) for name in HOSTILE[:5]),
        skipped={HOSTILE[0]: tuple(HOSTILE)},
        settings={HOSTILE[0]: HOSTILE, "random_state": 3},
    )
    with TemporaryDirectory() as folder:
        return written(
            Path(folder) / "report.html",
            board=one,
            y=np.array(HOSTILE, dtype=object)[rows()[1]],
            names=(HOSTILE * 2)[:12],
            command=" ".join(["mercer compare", *HOSTILE]),
            next_command=" ".join(["mercer fit", *HOSTILE]),
            title=HOSTILE[2],
        )
