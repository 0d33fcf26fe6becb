"""The leaderboard: what linear, maps, exact kernels and trees make of some rows, best first, and
what follows from it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sklearn.base import clone

from mercer import system
from mercer.kernels import Kernel
from mercer.model_selection.candidates import candidates
from mercer.model_selection.halving import Clock, Contest, Trial, kernel_of
from mercer.model_selection.models import Contestant
from mercer.model_selection.sample import draw
from mercer.model_selection.schedule import plan_course
from mercer.model_selection.summary import judged, stopped
from mercer.rng import seed_from
from mercer.validation.parameters import parse_memory, validate_option, validate_positive

_PROBING = 0.25  # of the time, at most, goes into finding out who can take part


@dataclass(frozen=True, eq=False)
class Entry:
    """One row of the table.

    Attributes
    ----------
    name : str
        "linear", "fourier gamma=0.11", "exact Gaussian(0.11)", "gradient boosting": no two entries
        have the same.
    kind : {"linear", "map", "exact", "outside"}
        Only the first two can win.
    model : estimator or None
        Not fitted; None for exact kernels.
    kernel : Kernel or None
        The exact one, or the one that is approximated.
    score, spread : float
        Accuracy or R^2, and its standard error: over the folds for finalists, otherwise over the
        held-out rows of the last round.
    rows : int
        Rows that it was trained on when it was scored.
    rounds : int
        Rounds that it took part in.
    finalist : bool
        Whether the score is that of cross-validation, on rows that no round has seen; sizes and the
        winner are chosen on them.
    gram_error : float or None
        Root mean square over pairs of held-out rows, relative; None where nothing is approximated.
    features : int
    bytes_per_row : float
        Of the features, as the map stores them.
    fit_seconds, predict_seconds : float
        Of one fit, and of predicting one fold or the held-out rows.
    """

    name: str
    kind: str
    model: Any
    kernel: Kernel | None
    score: float
    spread: float
    rows: int
    rounds: int
    finalist: bool
    gram_error: float | None
    features: int
    bytes_per_row: float
    fit_seconds: float
    predict_seconds: float


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """What ``select`` has found.

    Attributes
    ----------
    entries : tuple of Entry
        Best first: finalists, then the others by the round they reached.
    verdict : str
        One sentence.
    numeric : bool
        Whether scores are R^2; accuracy otherwise.
    rows, columns : int
        Of the data.
    seconds : float
        That were spent.
    stopped : str or None
        What the time limit has cut off.
    refused : dict
        Why a map took no part, by its name.
    settings : dict
        What is needed to run it again.
    notes : tuple of str
        What the models have warned of.
    """

    entries: tuple[Entry, ...]
    verdict: str
    numeric: bool
    rows: int
    columns: int
    seconds: float
    winner: Entry
    stopped: str | None = None
    refused: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def best_(self) -> Any:
        """The winner's model, not fitted: a KernelClassifier or KernelRegressor."""
        return clone(self.winner.model)

    def __str__(self) -> str:
        """The table as text, and the verdict."""
        names = (
            "model",
            "R^2" if self.numeric else "accuracy",
            "+-",
            "rows",
            "Gram err",
            "features",
            "B/row",
            "fit s",
            "pred s",
        )
        lines = [names, *(shown(entry, numeric=self.numeric) for entry in self.entries)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        texts = [
            " ".join(
                word.ljust(width) if i == 0 else word.rjust(width)
                for i, (word, width) in enumerate(pairs)
            )
            for pairs in (list(zip(line, widths, strict=True)) for line in lines)
        ]
        return "\n".join([*texts, self.verdict, *([self.stopped] if self.stopped else [])])


def shown(entry: Entry, *, numeric: bool) -> tuple[str, ...]:
    """An entry as the words of its row."""
    score = f"{entry.score:.4f}" if numeric else f"{entry.score:.2%}"
    spread = f"{entry.spread:.4f}" if numeric else f"{entry.spread:.2%}"
    error = (
        "-"
        if entry.gram_error is None
        else f"{entry.gram_error:.2%}"
        if entry.gram_error < 10
        else "> 1000%"
    )
    return (
        entry.name,
        score,
        spread,
        f"{entry.rows:,}",
        error,
        f"{entry.features:,}",
        f"{entry.bytes_per_row:,.0f}",
        f"{entry.fit_seconds:.3f}",
        f"{entry.predict_seconds:.3f}",
    )


def select(
    X: Any,
    y: Any = None,
    *,
    max_seconds: float = 60,
    max_memory: int | str | None = None,
    kernels: Any = "auto",
    task: str | None = None,
    random_state: Any = None,
    tell: Callable[[str, str], None] = lambda stage, name: None,
) -> Leaderboard:
    """Which kernel, at which bandwidth and size, for these rows: a race at linear cost.

    Rounds learn from ever more rows, with ever more features, and keep the best third; bandwidths
    are factors of those that the data give, and alphas are chosen by generalised cross-validation
    from moments. The finalists are cross-validated on rows that no round has seen, and get more
    features for as long as that gains. Linear is always among them, and wins where no map is better
    by more than one standard error of the difference; gradient boosting of trees runs beside them,
    and wins nothing but a sentence.

    Parameters
    ----------
    X : array-like, sparse matrix, data frame, path or stream
        Of more rows than are needed, a sample is drawn. Weights of a stream's rows are not used.
    y : array-like of shape (n_samples,), optional
        Labels or numbers; None where the stream has them.
    max_seconds : float, default=60
        When the race is stopped; only where ``stopped`` is not None does the result depend on time.
        A fit that has begun is not broken off, and linear is always run.
    max_memory : int, str or None, default=None
        Bytes, or "2GB", for the sample and for the moments of a model; half of the machine's memory
        when None.
    kernels : "auto", list, tuple or set, default="auto"
        Names of maps ("fourier", with its kernels and bandwidths), and maps as they are. "auto" has
        a map for each kernel.
    task : {"classify", "regress"} or None, default=None
        None: words, booleans and at most 100 different whole numbers are labels, other numbers are
        numbers.
    random_state : int, Generator, RandomState or None, default=None
    tell : callable, optional
        tell(stage, name) is called before each model is tried.

    Returns
    -------
    Leaderboard

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import select
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = X[:, 0] * X[:, 1] > 0
    >>> board = select(X, y, kernels=["fourier"], random_state=0)
    >>> board.winner.kind
    'map'
    >>> bool(board.best_.fit(X[:200], y[:200]).score(X[200:], y[200:]) > 0.9)
    True
    """
    clock = Clock(validate_positive("select", "max_seconds", max_seconds))
    limit = (
        system.memory() // 2
        if max_memory is None
        else parse_memory("select", "max_memory", max_memory)
    )
    numeric = (
        None
        if task is None
        else validate_option("select", "task", task, ("classify", "regress")) == "regress"
    )
    seed = seed_from("select", random_state)
    sample = draw(X, y, numeric=numeric, limit=limit, seed=seed)
    found, refused, late = candidates(
        sample.X[: sample.rows // 2],
        kernels,
        seed,
        domain=sample.domain,
        over=lambda: clock.left(_PROBING) <= 0,
    )
    contest = Contest(
        sample,
        plan_course(sample.rows, len(found), limit),
        limit,
        seed,
        clock,
        tell,
        refused=refused,
    )
    if late:
        contest.cut["round 1"] = late
    contest.run(found)
    return _board(contest, max_seconds, max_memory, kernels, seed)


def _board(
    contest: Contest, max_seconds: float, max_memory: Any, kernels: Any, seed: int
) -> Leaderboard:
    finals = {id(trial): _entry(contest, trial, finalist=True) for trial in contest.final}
    named = {trial.contestant.name for trial in contest.final}
    others = {
        id(one): _entry(contest, one, finalist=False)
        for name, one in contest.last.items()
        if name not in named
    }
    winner, verdict = judged(contest)
    entries = {**others, **finals}
    order = sorted(finals.values(), key=lambda one: -one.score)
    order += sorted(others.values(), key=lambda one: (-one.rounds, -one.score))
    return Leaderboard(
        entries=tuple(order),
        verdict=verdict,
        numeric=contest.sample.numeric,
        rows=contest.sample.total,
        columns=contest.sample.columns,
        seconds=contest.clock.spent(),
        winner=entries[id(winner)],
        stopped=stopped(contest, max_seconds),
        refused=contest.refused,
        settings={
            "max_seconds": max_seconds,
            "max_memory": max_memory,
            "kernels": kernels,
            "random_state": seed,
            "alphas": "generalised cross-validation",
            "rows": contest.sample.rows,
            "rounds": contest.plan.rounds,
            "held_out": contest.plan.held_out,
            "final": contest.plan.final,
            "folds": contest.plan.folds,
        },
        notes=tuple(contest.notes),
    )


def _entry(contest: Contest, trial: Trial, *, finalist: bool) -> Entry:
    one, fitted = trial.contestant, getattr(trial.model, "feature_map_", None)
    columns, kernel, size = (
        contest.sample.columns,
        getattr(trial.model, "kernel", None),
        8.0 * contest.sample.columns,
    )
    features = trial.rows if one.kind == "exact" else columns
    if fitted is not None:
        rows = contest.sample.X[: min(contest.sample.rows, 256)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # which were heard when it was fitted
            size = sum(block.nbytes for block in fitted.blocks(rows)) / rows.shape[0]
        kernel, features = kernel_of(fitted), fitted._n_features_out
    return Entry(
        name=trial.label,
        kind=one.kind,
        model=_unfitted(one, trial.size),
        kernel=kernel,
        score=trial.score,
        spread=trial.spread,
        rows=trial.rows,
        rounds=contest.rounds.get(one.name, 0),
        finalist=finalist,
        gram_error=contest.gram_error(trial) if finalist else None,
        features=features,
        bytes_per_row=8.0 * trial.rows if one.kind == "exact" else size,
        fit_seconds=trial.fit_seconds,
        predict_seconds=trial.predict_seconds,
    )


def _unfitted(one: Contestant, size: int) -> Any:
    """The model of an entry: none of exact kernels, scikit-learn's own of trees."""
    made = one.make(size)
    return {"exact": None, "outside": getattr(made, "model", None)}.get(one.kind, made)
