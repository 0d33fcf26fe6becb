"""select: compare kernels, bandwidths and sizes on some rows; the leaderboard of the results."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sklearn.base import clone

from mercer import system
from mercer.kernels import Kernel
from mercer.linear_model.base import make_map
from mercer.maps.tabular import Tabular
from mercer.model_selection.candidates import candidates
from mercer.model_selection.halving import Clock, Result, SuccessiveHalving, kernel_of
from mercer.model_selection.sample import draw
from mercer.model_selection.schedule import Budget, make_schedule
from mercer.model_selection.summary import choose_winner, describe_skipped
from mercer.rng import seed_from
from mercer.validation.parameters import parse_memory, validate_option, validate_positive

_PROBING_SHARE = 0.25  # of the time, at most, is spent on probing maps
_COLUMNS = ("Gram err", "features", "B/row", "fit s", "pred s")
_SIZED_ROWS = 256  # rows whose features are measured in bytes


@dataclass(frozen=True, eq=False)
class Entry:
    """Row of a leaderboard.

    Attributes
    ----------
    name : str
        "linear", "fourier gamma=0.11", "exact Gaussian(0.11)", "gradient boosting": unique.
    kind : {"linear", "map", "exact", "outside"}
        Only the first two can win.
    model : estimator or None
        Not fitted; None for exact kernels.
    kernel : Kernel or None
        The exact kernel, or the one that is approximated.
    score, spread : float
        Accuracy or R^2, and its standard error: over the folds for finalists, otherwise over the
        held-out rows of the last round.
    rows : int
        Training rows.
    rounds : int
        Rounds of successive halving that it was in.
    finalist : bool
        Whether the score is that of cross-validation, on rows of no round; sizes and the winner
        are chosen on them.
    gram_error : float or None
        Relative root mean square error over pairs of held-out rows; None where nothing is
        approximated.
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
    """Result of ``select``. ``print`` shows it as a table.

    Attributes
    ----------
    entries : tuple of Entry
        Best first: finalists, then the others by the last round they were in.
    winner : Entry
        The best map, or linear where no map is better by more than one standard error.
    summary : str
        One sentence: the winner, and by how much.
    numeric : bool
        Whether scores are R^2; accuracy otherwise.
    rows, columns : int
        Of the data.
    seconds : float
        Duration of the search.
    stopped : str or None
        Models that the time limit has left out.
    refused : dict
        Reasons for maps that are no candidates, by name.
    settings : dict
        Parameters and schedule, to run it again.
    notes : tuple of str
        Warnings of the models.
    encoder : Tabular or None
        The encoding of the columns of a table, fitted to the sample.
    """

    entries: tuple[Entry, ...]
    summary: str
    numeric: bool
    rows: int
    columns: int
    seconds: float
    winner: Entry
    stopped: str | None = None
    refused: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    encoder: Tabular | None = None

    @property
    def best_(self) -> Any:
        """Model of the winner, not fitted: a KernelClassifier or KernelRegressor.

        For a table its map begins with the encoding of the columns.
        """
        model = clone(self.winner.model)
        if self.encoder is None:
            return model
        given = make_map("select", model.feature_map, None, None, scale=model.scale)
        return model.set_params(feature_map=clone(self.encoder) >> given)

    def __str__(self) -> str:
        """Format the table, the summary, and what was left out."""
        score = "R^2" if self.numeric else "accuracy"
        header = ("model", score, "+-", "rows", *_COLUMNS)
        lines = [header, *(format_entry(entry, numeric=self.numeric) for entry in self.entries)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        table = [
            " ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])])
            for line in lines
        ]
        return "\n".join([*table, self.summary, *([self.stopped] if self.stopped else [])])


def format_entry(entry: Entry, *, numeric: bool) -> tuple[str, ...]:
    """Format an entry as the cells of its row."""
    style = ".4f" if numeric else ".2%"
    error = "-"
    if entry.gram_error is not None:
        error = f"{entry.gram_error:.2%}" if entry.gram_error < 10 else "> 1000%"
    return (
        entry.name,
        f"{entry.score:{style}}",
        f"{entry.spread:{style}}",
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
    budget: Budget | None = None,
    tell: Callable[[str, str], None] = lambda stage, name: None,
) -> Leaderboard:
    """Choose a kernel, its bandwidth and the number of features by successive halving.

    Each round trains on three times as many rows with twice as many features and keeps the best
    third of the candidates. Bandwidths are factors of an estimate from the data, and alphas are
    chosen by generalized cross-validation from moments. The finalists are cross-validated on rows
    of no round, and get more features for as long as their scores rise. Linear is always a
    candidate, and wins where no map is better by more than one standard error of the difference.
    Gradient boosting of trees and exact kernels are references: they are listed and cannot win.
    The cost is linear in the rows of the sample.

    Parameters
    ----------
    X : array-like, sparse matrix, data frame, path or stream
        Rows. A sample is drawn where there are more than are needed. Weights of a stream are not
        used.
    y : array-like of shape (n_samples,), optional
        Labels or numbers; None where the stream has them.
    max_seconds : float, default=60
        Time limit. A fit that has begun is completed, and linear is always fitted. The result
        depends on time only where ``stopped`` is not None.
    max_memory : int, str or None, default=None
        Bytes, or "2GB", for the sample and for the moments of a model; half of the machine's
        memory when None.
    kernels : "auto", list, tuple or set, default="auto"
        Names of maps ("fourier", with its kernels and bandwidths), and maps, which are used
        unchanged. "auto" has one map for each kernel.
    task : {"classify", "regress"} or None, default=None
        None: strings, booleans and at most 100 distinct integers are labels, other values are
        numbers.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the sample and of all maps.
    budget : Budget, optional
        Rows that are drawn, and rounds and share of the time of gradient boosting.
    tell : callable, optional
        tell(stage, name) is called before each model is fitted.

    Returns
    -------
    Leaderboard
        ``entries`` best first, ``winner``, ``summary``, and ``best_``, the winner's model.

    Raises
    ------
    ValueError
        Where there are fewer than 8 rows, where all rows or all targets are equal, and where no
        model takes the rows.

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
    limit = system.physical_memory() // 2
    if max_memory is not None:
        limit = parse_memory("select", "max_memory", max_memory)
    numeric = None
    if task is not None:
        numeric = validate_option("select", "task", task, ("classify", "regress")) == "regress"
    seed = seed_from("select", random_state)
    budget = Budget() if budget is None else budget
    sample = draw(X, y, numeric=numeric, limit=limit, seed=seed, most_rows=budget.rows)
    maps, refused, late = candidates(
        sample.X[: sample.rows // 2],
        kernels,
        seed,
        domain=sample.domain,
        over=lambda: clock.left(_PROBING_SHARE) <= 0,
    )
    search = SuccessiveHalving(
        sample,
        make_schedule(sample.rows, len(maps), limit),
        limit,
        seed,
        clock,
        budget,
        tell,
        refused=refused,
        skipped={"round 1": late} if late else {},
    )
    search.run(maps)
    settings = {"max_seconds": max_seconds, "max_memory": max_memory, "kernels": kernels}
    return _make_leaderboard(search, settings)


def _make_leaderboard(search: SuccessiveHalving, settings: dict[str, Any]) -> Leaderboard:
    """Order the results of a search, and choose the winner."""
    sample, schedule = search.sample, search.schedule
    validated = {result.candidate.name for result in search.final}
    finalists = {id(result): _make_entry(search, result, finalist=True) for result in search.final}
    others = {
        id(result): _make_entry(search, result, finalist=False)
        for name, result in search.last.items()
        if name not in validated
    }
    winner, summary = choose_winner(search)
    return Leaderboard(
        entries=(
            *sorted(finalists.values(), key=lambda entry: -entry.score),
            *sorted(others.values(), key=lambda entry: (-entry.rounds, -entry.score)),
        ),
        summary=summary,
        numeric=sample.numeric,
        rows=sample.total,
        columns=sample.columns,
        seconds=search.clock.spent(),
        winner={**others, **finalists}[id(winner)],
        stopped=describe_skipped(search, settings["max_seconds"]),
        refused=search.refused,
        settings={
            **settings,
            "random_state": search.seed,
            "alphas": "generalized cross-validation",
            "rows": sample.rows,
            "rounds": schedule.rounds,
            "held_out": schedule.held_out,
            "final": schedule.final,
            "folds": schedule.folds,
        },
        notes=tuple(search.notes),
        encoder=sample.encoder,
    )


def _make_entry(search: SuccessiveHalving, result: Result, *, finalist: bool) -> Entry:
    candidate, sample = result.candidate, search.sample
    fitted, kernel = (getattr(result.model, name, None) for name in ("feature_map_", "kernel"))
    features = result.rows if candidate.kind == "exact" else sample.columns
    bytes_per_row = 8.0 * features
    if fitted is not None:
        rows = sample.X[:_SIZED_ROWS]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # issued when it was fitted
            size = sum(block.nbytes for block in fitted.blocks(rows))
        kernel, features = kernel_of(fitted), fitted._n_features_out
        bytes_per_row = size / rows.shape[0]
    model = None
    if candidate.kind != "exact":
        model = candidate.build(result.size, search.options)
        model = getattr(model, "model", model)  # scikit-learn's own
    return Entry(
        name=result.label,
        kind=candidate.kind,
        model=model,
        kernel=kernel,
        score=result.score,
        spread=result.spread,
        rows=result.rows,
        rounds=search.rounds.get(candidate.name, 0),
        finalist=finalist,
        gram_error=search.gram_error(result) if finalist else None,
        features=features,
        bytes_per_row=bytes_per_row,
        fit_seconds=result.fit_seconds,
        predict_seconds=result.predict_seconds,
    )
